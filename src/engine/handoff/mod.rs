//! Handing out ready jobs: taking, and the hand-off to waiting clients.
//!
//! The receiver of a job is decided in the step that makes it ready, never by waking a waiter to
//! try again: at the end of the step each touched queue's line is served from its front, each
//! waiter taking up to its COUNT. So no client overtakes another, and nothing is lost in between.

mod find;
mod unsent;

use crate::engine::journal_room::{SIZES, moving_bytes_max};
use crate::engine::model::fact::Fact;
use crate::engine::model::group::GroupRate;
use crate::engine::model::reply::{Delivered, Reply};
use crate::engine::model::request::{Add, JobState, QueueName, When};
use crate::engine::model::token;
use crate::engine::step::add::Arrival;
use crate::engine::step::holders::number_of;
use crate::engine::step::leases::Bound;
use crate::engine::step::unsent::{Delivery, Popped, Taken};
use crate::engine::step::waiters::{LeaseTerms, Taking, Target};
use crate::engine::step::{Live, Step};
use crate::engine::store::Store;
use crate::engine::store::jobs::JobIndex;
use crate::engine::store::queue::{EarlierPlaces, Queue};
use crate::engine::store::ready::rota::NO_GROUP;
use crate::error::{Error, Shown};
use crate::ids::{ClientId, QueueNo, Token};
use crate::limits::{HANDED_BYTES_PER_TURN, REPLY_BYTES_MAX};
use crate::time::Millis;
use smallvec::SmallVec;

/// Jobs taken for one reply. Its bytes are bounded: COUNT 10,000 of 16 MiB each would be 160 GB.
pub struct TakenJobs {
    pub taking: Taking,
    client: ClientId,
    /// The places given before the step in which a waiter is served: jobs with later places fell due while it was
    /// waiting. None for a client that asks in this step.
    earlier: Option<EarlierPlaces>,
    taken: Vec<Taken>,
    /// The job that was moved, where it is now; or why none is taken.
    moved: Option<Result<JobIndex, Error>>,
    /// When those fell due for which the client was waiting then.
    on_time: SmallVec<[Millis; 2]>,
    bytes: usize,
}

impl TakenJobs {
    pub fn new(taking: Taking, client: ClientId, earlier: Option<EarlierPlaces>) -> TakenJobs {
        TakenJobs {
            taking,
            client,
            earlier,
            taken: Vec::new(),
            on_time: SmallVec::new(),
            moved: None,
            bytes: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.taken.is_empty() && self.moved.is_none()
    }

    /// The first job always fits.
    fn is_full(&self) -> bool {
        self.moved.is_some()
            || self.taken.len() >= self.taking.count()
            || self.bytes >= REPLY_BYTES_MAX
    }

    /// Nothing is taken from further queues. A list pop takes from one only.
    pub fn is_done(&self) -> bool {
        self.is_full() || matches!(self.taking, Taking::List { .. }) && !self.is_empty()
    }

    /// It is for a client that has been waiting.
    pub fn is_waiters(&self) -> bool {
        self.earlier.is_some()
    }

    /// Whether a job became ready while the client was waiting.
    pub fn is_on_time(&self, place: i64) -> bool {
        self.earlier.is_some_and(|earlier| !earlier.contains(place))
    }
}

impl Step<'_, '_> {
    pub fn hand_off(&mut self) {
        let mut next = 0;
        while next < self.live.touched.len() && self.live.room.serves() {
            let number = self.live.touched[next];
            // A queue that was removed in the same step wakes no client.
            if self.store.bound_queue(number).is_some() {
                if !self.serve(number) {
                    break;
                }
                self.store.marks_mut(number).touched = false;
                self.store.aside_mut(number).earlier = EarlierPlaces::ALL;
            }
            next += 1;
        }
        self.live.touched.drain(..next);
    }

    /// Serves a queue's line until the jobs or the waiters are used up, or the turn has handed over
    /// enough bytes. False if the journal does not let it go on.
    fn serve(&mut self, number: QueueNo) -> bool {
        let queue = self.store.queue(number);
        if queue.aside.line.is_some() && !queue.marks.sweeping {
            // Jobs made due by the step (a NACK for now) are ready before the place that it freed
            // is handed on. A queue that is being swept has its turns for that.
            self.catch_up(number);
        }
        while let Some(line) = self.store.queue(number).aside.line {
            let Some((client, taking)) = self.live.waiters.first(line) else { return true };
            let earlier = self.store.queue(number).aside.earlier;
            let mut batch = TakenJobs::new(taking, client, Some(earlier));
            let full = self.live.handed_bytes >= HANDED_BYTES_PER_TURN;
            let complete = !full && self.take(number, &mut batch);
            if batch.is_empty() {
                if !complete && !self.live.room.serves() {
                    return false;
                }
                if !complete {
                    // The sweep comes back to the line.
                    self.list_sweeping(number);
                }
                self.wake_for_rate(number);
                return true;
            }
            // Leaving ten thousand lines costs as much as handing over some MiB.
            self.live.handed_bytes += self.live.waiters.bytes(client);
            self.live.stop_waiting(self.store, client);
            self.deliver(batch);
        }
        true
    }

    /// Whether ready jobs of the queue belong to waiting clients that have not been served yet. A
    /// new request must not overtake them.
    pub fn is_behind_its_line(&self, number: QueueNo) -> bool {
        let queue = self.store.queue(number);
        (queue.marks.sweeping || queue.marks.touched)
            && queue.aside.line.is_some()
            && queue.count(JobState::Ready) > 0
    }

    /// Takes ready jobs of one queue until the batch is full; false if it gave up before the end, for
    /// lack of steps or of room.
    pub fn take(&mut self, queue: QueueNo, batch: &mut TakenJobs) -> bool {
        self.go_on_reviewing(queue);
        while !batch.is_full() {
            if !self.store.review_front(queue, self.now) {
                return false;
            }
            let store = &self.store;
            let from = store.queue(queue);
            let front = from.next_side();
            let side = batch.taking.side().unwrap_or(front);
            if side != front && from.ready.is_shared() {
                if batch.is_empty() && self.may_take(queue) {
                    batch.moved = Some(Err(shared_from_front(from)));
                }
                return true;
            }
            let next = from.ready.at(side, store.jobs(), store.chunks());
            let Some(index) = next else { return true };
            if !self.may_take(queue) {
                return true;
            }
            // A waiter leaves alone what the request of this step was promised.
            if !(if batch.is_waiters() {
                self.live.room.serves()
            } else {
                self.live.room.lets_take()
            }) {
                return false;
            }
            if self.store.expiry(index).is_some_and(|expiry| expiry <= self.now.floor()) {
                // A million jobs may expire at once: the sweep does the rest.
                let Some(left) = self.live.slack.checked_sub(1) else { return false };
                if !self.live.room.lets_spare(SIZES.taking) {
                    return false;
                }
                self.live.slack = left;
                self.expire(queue, index);
                continue;
            }
            let job = self.store.jobs().get(index);
            // META that is not shown counts if it is held until the reply has left.
            let leased = matches!(batch.taking, Taking::Reserve { terms: Some(_), .. });
            let with_meta = batch.taking.shows_meta() || !leased;
            batch.bytes += self.store.jobs().shown_bytes(index, with_meta);
            let on_time = batch.is_on_time(job.order);
            if on_time && !matches!(batch.taking, Taking::Move { .. }) {
                batch.on_time.push(self.store.due(index));
            }
            match batch.taking {
                Taking::Reserve { terms: Some(terms), .. } => {
                    let taken = self.lease_job(queue, index, terms, on_time, batch.client);
                    batch.taken.push(taken);
                }
                Taking::Move { ref to, .. } => {
                    batch.moved = Some(self.move_job(queue, index, to, on_time, batch));
                    if let Some(Err(_)) = batch.moved {
                        return true;
                    }
                }
                Taking::Pop | Taking::Reserve { .. } | Taking::List { .. } => {
                    batch.taken.push(self.pop_job(queue, index, on_time));
                }
            }
            self.note_taken(queue, batch.client);
        }
        true
    }

    pub fn pop_job(&mut self, queue: QueueNo, index: u32, on_time: bool) -> Taken {
        let (id, at) = (self.store.id_of(index), self.store.located(index));
        let policy = self.store.policy(index).clone();
        let due = self.store.due(index);
        let (window_end, delivery) = (self.window_end(index), self.delivery_of(queue, index));
        let fact = Fact::Popped { queue, id: &id, window_end, on_time };
        let departed = self.commit(&fact, at).gone.expect("a popped job has left the store");
        let born = self.store.queue(queue).born;
        Taken::Popped(Box::new(Popped { queue, born, departed, policy, due, delivery }))
    }

    fn lease_job(
        &mut self,
        queue: QueueNo,
        index: u32,
        LeaseTerms { lease_ms, bound }: LeaseTerms,
        on_time: bool,
        client: ClientId,
    ) -> Taken {
        let lease_ms = lease_ms.unwrap_or_else(|| self.lease_ms_of(queue, index));
        let lease_end = self.now.ceil().plus(lease_ms);
        let token = Token(self.store.number().max(self.live.settings.token_floor) + 1);
        let (id, at) = (self.store.id_of(index), self.store.located(index));
        let delivery = self.delivery_of(queue, index);
        self.commit(&Fact::Leased { queue, id: &id, token, lease_end, bound, on_time }, at);
        self.store.note_holder(index, number_of(client));
        if bound {
            self.live.leases.bind(self.store, client, Bound { queue, index, token });
        }
        Taken::Leased { queue, index, token, lease_end, delivery }
    }

    /// What the rates have to know of a job that is about to be delivered.
    fn delivery_of(&self, queue: QueueNo, index: u32) -> Delivery {
        let (of, group) = (self.store.queue(queue), self.store.jobs().group(index));
        let by_group = group != NO_GROUP && of.group_rate(group) != GroupRate::NONE;
        Delivery { at: self.now, by_queue: of.rate().is_some(), by_group }
    }

    /// The lease that a job is handed over with if the call names none: its own, its queue's, or the
    /// server's, ms.
    fn lease_ms_of(&self, queue: QueueNo, index: u32) -> u64 {
        match self.store.policy(index).lease_ms {
            0 => {
                let settings = self.store.queue(queue).settings.as_ref();
                let own_ms = settings.and_then(|settings| settings.lease_ms);
                own_ms.unwrap_or(self.live.settings.lease_ms_default)
            }
            own_ms => own_ms,
        }
    }

    /// Replies with taken jobs and keeps them as unsent until the reply is on its way.
    pub fn deliver(&mut self, batch: TakenJobs) {
        let TakenJobs { client, taken, on_time, moved, bytes, taking, .. } = batch;
        self.live.handed_bytes += bytes;
        let store = &self.store;
        match moved {
            Some(Ok(index)) => {
                let body = store.jobs().body(index);
                return self.turn.outbox.reply(client, Reply::Body(body));
            }
            Some(Err(error)) => return self.turn.outbox.reply(client, Reply::Error(&error)),
            None => {}
        }
        let meta = taking.shows_meta();
        let shown = taken.iter().map(|taken| taken.shown(store, meta));
        let delivered: Vec<Delivered<'_>> = shown.collect();
        let reply = match taking {
            Taking::Pop => Reply::Popped(delivered[0]),
            Taking::List { shape, .. } => Reply::Listed(shape, delivered.as_slice()),
            _ => Reply::Reserved(delivered.as_slice()),
        };
        if !on_time.is_empty() {
            self.turn.outbox.on_time(client, &on_time);
        }
        self.turn.outbox.reply(client, reply);
        self.live.unsent.push(client, taken);
    }
}

fn shared_from_front(queue: &Queue) -> Error {
    let (name, front) = (Shown::new(&queue.name), queue.next_side().word());
    Error::text(format!(
        "ERR jobs of queue {name} have groups, which share its front; take from the {front}"
    ))
}

impl Live {
    pub fn stop_waiting(&mut self, store: &mut Store, client: ClientId) -> bool {
        self.waiters.leave(client, |db, name| {
            if let Some(number) = store.queue_no(db, name) {
                let aside = store.aside_mut(number);
                // A later client was not waiting when these became ready.
                (aside.line, aside.earlier) = (None, EarlierPlaces::ALL);
            }
        })
    }
}

impl Step<'_, '_> {
    /// Moves a ready job: it leaves its queue as a popped one, and its body enters the other as a pushed
    /// one. If that queue refuses it, or the journal has no room for it, nothing has changed.
    pub fn move_job(
        &mut self,
        queue: QueueNo,
        index: JobIndex,
        to: &Target,
        on_time: bool,
        batch: &TakenJobs,
    ) -> Result<JobIndex, Error> {
        let name = QueueName { db: self.store.queue(queue).db, name: &to.name };
        let target = self.store.queue_no(name.db, name.name);
        let body_bytes = self.store.jobs().body_bytes(index);
        if target == Some(queue) {
            // Jobs that are moved within one queue do not fill it.
            self.check_admission(queue, 0)?;
        } else {
            let size = std::iter::once(token::ID_BYTES + body_bytes);
            self.check_adding(target, name, size)?;
        }
        let bytes = moving_bytes_max(body_bytes, name.name.len());
        // A waiter leaves alone what the request of this step was promised.
        let fits = if batch.is_waiters() {
            self.live.room.has_room(bytes)
        } else {
            self.live.room.lets_spend(bytes)
        };
        if !fits {
            return Err(self.live.room.shortage().into());
        }
        let Taken::Popped(popped) = self.pop_job(queue, index, on_time) else {
            unreachable!("a popped job is gone");
        };
        let target = target.unwrap_or_else(|| self.bind_queue(name));
        let add = Add::new(name, When::In(0), popped.departed.content().body);
        Ok(self.add_job(&add, 0, target, Arrival::Ready(to.side), None))
    }
}
