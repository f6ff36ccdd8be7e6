//! Taking jobs: POP, RESERVE, list pops and moves, and the hand-off to whoever waits.
//!
//! Who gets a job is decided in the step that makes it ready, never by waking a waiter to try
//! again: at the end of the step each touched queue's line is served from its front, each waiter
//! taking up to its COUNT. So nobody overtakes, and nothing is lost in between.

pub(super) mod allowance;
pub(super) mod moving;
pub(super) mod unsent;
pub(super) mod waiters;

use std::sync::Arc;

use crate::engine::decide::lease::Bound;
use crate::engine::handoff::unsent::{Gone, Taken};
use crate::engine::handoff::waiters::{Taking, Target, Terms};
use crate::engine::model::fact::Fact;
use crate::engine::model::reply::{Delivered, Reply};
use crate::engine::model::request::{ListPop, Move, QueueName, Reserve, State, Wait};
use crate::engine::room::TAKING_BYTES_MAX;
use crate::engine::store::jobs::JobIndex;
use crate::engine::store::queue::Stale;
use crate::engine::{Engine, Outcome, Step, Turn};
use crate::error::Error;
use crate::ids::{ClientId, Db, QueueNo, Token};
use crate::limits;
use crate::time::{Micros, Millis};
use smallvec::SmallVec;

/// Jobs taken for one reply. Its bytes are bounded: COUNT 10,000 of 16 MiB each would be 160 GB.
pub(super) struct Haul {
    taking: Taking,
    client: ClientId,
    /// The places given before the step in which a waiter is served: jobs with others fell due while
    /// it was waiting. None for who asks in this step.
    stale: Option<Stale>,
    taken: Vec<Taken>,
    /// The job that was moved, where it is now; or why it stays.
    moved: Option<Result<JobIndex, Error>>,
    /// When those fell due for which the client was waiting then.
    prompt: SmallVec<[Millis; 2]>,
    bytes: usize,
}

impl Haul {
    fn new(taking: Taking, client: ClientId, stale: Option<Stale>) -> Haul {
        Haul {
            taking,
            client,
            stale,
            taken: Vec::new(),
            prompt: SmallVec::new(),
            moved: None,
            bytes: 0,
        }
    }

    fn is_empty(&self) -> bool {
        self.taken.is_empty() && self.moved.is_none()
    }

    /// The first job always fits.
    fn is_full(&self) -> bool {
        self.moved.is_some()
            || self.taken.len() >= self.taking.count()
            || self.bytes >= limits::REPLY_BYTES_MAX
    }

    /// Nothing is to be taken from further queues. A list pop takes of one alone.
    fn is_done(&self) -> bool {
        self.is_full() || matches!(self.taking, Taking::List { .. }) && !self.is_empty()
    }

    /// It is for a client that has been waiting.
    pub(super) fn is_waiters(&self) -> bool {
        self.stale.is_some()
    }

    /// Whether a job became ready while the client was waiting.
    pub(super) fn is_prompt(&self, place: i64) -> bool {
        self.stale.is_some_and(|stale| !stale.holds(place))
    }
}

impl Step<'_, '_> {
    pub(super) fn pop(&mut self, db: Db, queues: &[&[u8]], wait: Wait) -> Outcome {
        self.take_or_wait(db, queues, wait, Taking::Pop)
    }

    pub(super) fn reserve(&mut self, reserve: &Reserve<'_>) -> Outcome {
        if let Some(lease_ms) = reserve.lease_ms
            && let Err(error) = self.check_lease(lease_ms)
        {
            return self.refuse(&error);
        }
        let Reserve { db, queues, wait, count, lease_ms, no_ack, bound } = *reserve;
        let terms = (!no_ack).then_some(Terms { lease_ms, bound });
        self.take_or_wait(db, queues, wait, Taking::Reserve { count, terms })
    }

    pub(super) fn list_pop(&mut self, pop: &ListPop<'_>) -> Outcome {
        let ListPop { db, queues, side, count, shape, wait } = *pop;
        if count == 0 {
            // As Redis: an empty array only if there is something that could be taken.
            let queue = queues.first().and_then(|name| self.queue(QueueName { db, name }));
            let store = &self.engine.store;
            let any = queue.is_some_and(|queue| store.queue(queue).count(State::Ready) > 0);
            return self.reply(if any { Reply::Bodies(&[]) } else { Reply::NilArray });
        }
        self.take_or_wait(db, queues, wait, Taking::List { side, count, shape })
    }

    pub(super) fn move_between(&mut self, of: &Move<'_>) -> Outcome {
        let Move { db, from, to, take, put, wait } = *of;
        if self.alone {
            // What is due there comes first, as with ADD.
            self.queue(QueueName { db, name: to });
        }
        let to = Arc::new(Target { name: to.into(), side: put });
        self.take_or_wait(db, &[from], wait, Taking::Move { side: take, to })
    }

    fn take_or_wait(&mut self, db: Db, queues: &[&[u8]], wait: Wait, taking: Taking) -> Outcome {
        let mut haul = Haul::new(taking, self.client, None);
        let mut complete = true;
        let held = self.engine.gate.is_held();
        for name in if held { &[][..] } else { queues } {
            let Some(queue) = self.queue(QueueName { db, name }) else { continue };
            if self.alone {
                self.engine.serve_line_first(queue, self.now, self.turn);
            }
            if self.alone && self.engine.is_behind_its_line(queue) {
                complete = false;
                continue;
            }
            complete &= self.engine.take(queue, &mut haul, self.now, self.turn);
            if haul.is_done() {
                break;
            }
        }
        if !haul.is_empty() {
            self.engine.deliver(haul, self.turn);
            return Outcome::Replied;
        }
        if !complete && self.alone {
            // What it stopped at is done in the next turn, if there is room for it.
            if self.engine.gate.lets_time_pass() {
                return Outcome::Again;
            }
            return self.refuse(&self.engine.gate.shortage().into());
        }
        let deadline = match wait {
            _ if !self.alone => return self.reply(haul.taking.nothing()),
            Wait::No => return self.reply(haul.taking.nothing()),
            Wait::Forever => None,
            Wait::For(ms) => Some(self.engine.deadline(self.now, ms)),
        };
        self.engine.waiters.wait(self.client, db, queues, haul.taking, deadline);
        for name in queues {
            let line = self.engine.waiters.line(db, name);
            if let Some(number) = self.engine.store.queue_no(db, name) {
                let queue = self.engine.store.queue_mut(number);
                queue.line = line;
                if queue.count(State::Ready) > 0 {
                    // Held: it is served when that is over.
                    self.engine.touch(number, None);
                }
            }
        }
        Outcome::Waiting
    }
}

impl Engine {
    /// Hands ready jobs to waiters: the end of a step. Whom the journal does not let be served
    /// stays on the list for the next one.
    pub fn hand_off(&mut self, now: Micros, turn: &mut Turn<'_>) {
        let mut next = 0;
        while next < self.touched.len() && self.gate.serves() {
            let number = self.touched[next];
            // A queue that was removed in the same step wakes nobody.
            if self.store.bound_queue(number).is_some() {
                if !self.serve(number, now, turn) {
                    break;
                }
                let queue = self.store.queue_mut(number);
                queue.touched = false;
                queue.stale = Stale::ALL;
            }
            next += 1;
        }
        self.touched.drain(..next);
    }

    /// Takes `client` out of the lines without a reply; false if it does not wait.
    pub fn stop_waiting(&mut self, client: ClientId) -> bool {
        let store = &mut self.store;
        self.waiters.leave(client, |db, name| {
            if let Some(number) = store.queue_no(db, name) {
                let queue = store.queue_mut(number);
                queue.line = None;
                // Whoever comes next was not waiting when these became ready.
                queue.stale = Stale::ALL;
            }
        })
    }

    /// Serves a queue's line until the jobs or the waiters are used up, or the turn has handed over
    /// enough bytes. False if the journal does not let it go on.
    fn serve(&mut self, number: QueueNo, now: Micros, turn: &mut Turn<'_>) -> bool {
        let queue = self.store.queue(number);
        if queue.line.is_some() && !queue.sweeping {
            // What the step made due (a NACK for now) is ready before the place that it freed is
            // handed on. A queue that is being swept has its turns for that.
            self.catch_up(number, now, turn);
        }
        while let Some(line) = self.store.queue(number).line {
            let Some((client, taking)) = self.waiters.first(line) else { return true };
            let stale = self.store.queue(number).stale;
            let mut haul = Haul::new(taking, client, Some(stale));
            let full = self.handed_bytes >= limits::HANDED_BYTES_PER_TURN;
            let complete = !full && self.take(number, &mut haul, now, turn);
            if haul.is_empty() {
                if !complete && !self.gate.serves() {
                    return false;
                }
                if !complete {
                    // The sweep comes back to the line.
                    self.list_sweeping(number);
                }
                self.wake_for_rate(number, now);
                return true;
            }
            // Leaving ten thousand lines costs as much as handing over some MiB.
            self.handed_bytes += self.waiters.bytes(client);
            self.stop_waiting(client);
            self.deliver(haul, turn);
        }
        true
    }

    /// Whether ready jobs of the queue are for clients that wait and have not been served yet. Who
    /// asks now must not overtake them.
    pub(super) fn is_behind_its_line(&self, number: QueueNo) -> bool {
        let queue = self.store.queue(number);
        (queue.sweeping || queue.touched) && queue.line.is_some() && queue.count(State::Ready) > 0
    }

    /// Takes ready jobs of one queue until the haul is full; false if it gave up before the end, for
    /// lack of steps or of room.
    fn take(&mut self, queue: QueueNo, haul: &mut Haul, now: Micros, turn: &mut Turn<'_>) -> bool {
        while !haul.is_full() {
            let store = &self.store;
            let from = store.queue(queue);
            let side = haul.taking.side().unwrap_or_else(|| from.next_side());
            let next = from.ready.at(side, &store.jobs, &store.chunks);
            let Some(index) = next else { return true };
            if !self.may_take(queue, now) {
                return true;
            }
            // A waiter leaves alone what the request of this step was promised.
            if !(if haul.is_waiters() { self.gate.serves() } else { self.gate.lets_take() }) {
                return false;
            }
            if self.store.expiry(index).is_some_and(|expiry| expiry <= now.floor()) {
                // A million jobs may expire at once: the sweep does the rest.
                let Some(left) = self.slack.checked_sub(1) else { return false };
                if !self.gate.lets_spare(TAKING_BYTES_MAX) {
                    return false;
                }
                self.slack = left;
                self.expire(queue, index, now, turn);
                continue;
            }
            let job = self.store.jobs.get(index);
            haul.bytes += job.data_bytes();
            let moves = matches!(haul.taking, Taking::Move { .. });
            if haul.is_prompt(job.order) && !moves {
                haul.prompt.push(self.store.due(index));
            }
            match haul.taking {
                Taking::Reserve { terms: Some(terms), .. } => {
                    let taken = self.lease_job(queue, index, terms, haul, now, turn);
                    haul.taken.push(taken);
                }
                Taking::Move { ref to, .. } => {
                    haul.moved = Some(self.move_job(queue, index, to, haul, now, turn));
                    if let Some(Err(_)) = haul.moved {
                        return true;
                    }
                }
                Taking::Pop | Taking::Reserve { .. } | Taking::List { .. } => {
                    let prompt = haul.is_prompt(job.order);
                    haul.taken.push(self.pop_job(queue, index, prompt, now, turn));
                }
            }
            self.note_taken(queue, now);
        }
        true
    }

    pub(super) fn pop_job(
        &mut self,
        queue: QueueNo,
        index: u32,
        prompt: bool,
        now: Micros,
        turn: &mut Turn<'_>,
    ) -> Taken {
        let (id, at) = (self.id_of(index), self.located(index));
        let policy = self.store.policy(index).clone();
        let due = self.store.due(index);
        let window_end = self.window_end(index, now);
        let fact = Fact::Popped { queue, id: &id, window_end, prompt };
        let departed =
            self.commit(now, turn, &fact, at).gone.expect("a popped job has left the store");
        let born = self.store.queue(queue).born;
        Taken::Gone(Box::new(Gone { queue, born, departed, policy, due, at: now }))
    }

    fn lease_job(
        &mut self,
        queue: QueueNo,
        index: u32,
        Terms { lease_ms, bound }: Terms,
        haul: &Haul,
        now: Micros,
        turn: &mut Turn<'_>,
    ) -> Taken {
        let prompt = haul.is_prompt(self.store.jobs.get(index).order);
        let lease_ms = lease_ms.unwrap_or_else(|| self.lease_ms_of(queue, index));
        let lease_end = now.ceil().plus(lease_ms);
        let token = Token(self.store.number.max(self.settings.token_floor) + 1);
        let (id, at) = (self.id_of(index), self.located(index));
        self.commit(
            now,
            turn,
            &Fact::Leased { queue, id: &id, token, lease_end, bound, prompt },
            at,
        );
        if bound {
            self.bind_lease(haul.client, Bound { queue, index, token });
        }
        Taken::Leased { queue, index, token, lease_end, at: now }
    }

    /// The lease that a job is handed over with if the call names none: its own, its queue's, or the
    /// server's, ms.
    fn lease_ms_of(&self, queue: QueueNo, index: u32) -> u64 {
        match self.store.policy(index).lease_ms {
            0 => {
                let settings = self.store.queue(queue).settings.as_ref();
                let own_ms = settings.and_then(|settings| settings.lease_ms);
                own_ms.unwrap_or(self.settings.lease_ms_default)
            }
            own_ms => own_ms,
        }
    }

    /// Replies with taken jobs and keeps them in hand until the reply is on its way.
    fn deliver(&mut self, haul: Haul, turn: &mut Turn<'_>) {
        let Haul { client, taken, prompt, moved, bytes, taking, .. } = haul;
        self.handed_bytes += bytes;
        let store = &self.store;
        match moved {
            Some(Ok(index)) => {
                let body = store.jobs.body(index);
                return turn.outbox.reply(client, Reply::Body(body));
            }
            Some(Err(error)) => return turn.outbox.reply(client, Reply::Error(&error)),
            None => {}
        }
        let delivered: Vec<Delivered<'_>> = taken.iter().map(|taken| taken.shown(store)).collect();
        let reply = match taking {
            Taking::Pop => Reply::Popped(delivered[0]),
            Taking::List { shape, .. } => Reply::Listed(shape, delivered.as_slice()),
            _ => Reply::Reserved(delivered.as_slice()),
        };
        if !prompt.is_empty() {
            turn.outbox.prompt(client, &prompt);
        }
        turn.outbox.reply(client, reply);
        self.note_in_hand(client, taken);
    }

    /// Until when the id stays taken if the job ends now; 0 not at all.
    pub(super) fn window_end(&self, index: u32, now: Micros) -> Millis {
        match self.store.policy(index).unique_ms {
            0 => Millis(0),
            unique_ms => now.ceil().plus(unique_ms),
        }
    }
}
