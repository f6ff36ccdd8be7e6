//! Jobs in hand: decided and in a reply, but not yet on their way.
//!
//! A connection can turn out closed before the first byte of the reply goes to the kernel. Then what
//! is in its hand goes back at once to its old place, uncounted.

use crate::engine::model::fact::{Fact, Image};
use crate::engine::model::policy::Policy;
use crate::engine::model::reply::Delivered;
use crate::engine::model::request::QueueName;
use crate::engine::room::{TAKING_BYTES_MAX, returning_bytes_max};
use crate::engine::store::Store;
use crate::engine::store::jobs::{Departed, History, JobIndex, Stage};
use crate::engine::{Engine, Turn};
use crate::ids::{ClientId, QueueNo, Token};
use crate::time::{Micros, Millis};
use std::collections::VecDeque;

/// Jobs that go back at once when their connection is gone. More than a reply can hold only come from a
/// pipeline that was never read; they go back in slices, as time passes.
const RETURNED_AT_ONCE: u32 = 1_024;

/// What was handed to one client in replies that have not begun to leave, oldest first.
#[derive(Debug, Default)]
pub struct InHand {
    replies: VecDeque<Vec<Taken>>,
    bytes: usize,
}

/// What was in the hand of a connection that is gone, and goes back.
#[derive(Debug)]
pub struct Returning {
    /// Of the oldest reply.
    first: std::vec::IntoIter<Taken>,
    replies: VecDeque<Vec<Taken>>,
    bytes: usize,
}

/// What is held for a popped job in hand, beside its id and body, or for one that is leased; bytes.
pub(in crate::engine) const IN_HAND_BYTES: u64 =
    (size_of::<Taken>() + size_of::<Gone>() + size_of::<Departed>()) as u64;

/// A popped job, with all that is needed to put it back.
#[derive(Debug)]
pub struct Gone {
    pub(in crate::engine) queue: QueueNo,
    pub(in crate::engine) born: u64,
    pub(in crate::engine) departed: Box<Departed>,
    /// By value: with its last job gone, the policy's number may be bound to another.
    pub(in crate::engine) policy: Policy,
    pub(in crate::engine) due: Millis,
    /// When it was handed over.
    pub(in crate::engine) at: Micros,
}

/// A taken job, while it is put into a reply and until that is on its way.
#[derive(Debug)]
pub enum Taken {
    /// With a lease; it stays in the store.
    Leased {
        /// The queue.
        queue: QueueNo,
        /// The job.
        index: JobIndex,
        /// The lease's token.
        token: Token,
        /// The lease's end.
        lease_end: Millis,
        /// When it was handed over.
        at: Micros,
    },
    /// At most once.
    Gone(Box<Gone>),
}

impl InHand {
    fn push(&mut self, reply: Vec<Taken>) {
        self.bytes += reply_bytes(&reply);
        self.replies.push_back(reply);
    }

    fn drop_first(&mut self, replies: usize) {
        for reply in self.replies.drain(..replies.min(self.replies.len())) {
            self.bytes -= reply_bytes(&reply);
        }
    }
}

impl Returning {
    /// What goes back next.
    fn next(&self) -> Option<&Taken> {
        self.first.as_slice().first()
    }
}

fn reply_bytes(reply: &[Taken]) -> usize {
    size_of::<Vec<Taken>>() + reply.iter().map(Taken::bytes).sum::<usize>()
}

impl Taken {
    /// Bytes held for it.
    fn bytes(&self) -> usize {
        let own = match self {
            Taken::Leased { .. } => 0,
            Taken::Gone(gone) => {
                let data = gone.departed.id().len() + gone.departed.body().len();
                size_of::<Gone>() + size_of::<Departed>() + data
            }
        };
        size_of::<Taken>() + own
    }

    /// The most that putting it back makes.
    fn returning_bytes_max(&self) -> u64 {
        match self {
            Taken::Leased { .. } => TAKING_BYTES_MAX,
            Taken::Gone(gone) => {
                returning_bytes_max(gone.departed.job.body_bytes(), &gone.policy.backoff)
            }
        }
    }

    /// As the reply shows it.
    pub fn shown<'a>(&'a self, store: &'a Store) -> Delivered<'a> {
        let (queue, id, body, history, due, lease) = match *self {
            Taken::Leased { queue, index, token, lease_end, .. } => {
                let (id, body) = (store.jobs.id(index), store.jobs.body(index));
                let history = store.jobs.history(index);
                (queue, id, body, history, store.due(index), Some((token, lease_end)))
            }
            Taken::Gone(ref gone) => {
                let departed = &*gone.departed;
                let (id, body) = (departed.id(), departed.body());
                (gone.queue, id, body, departed.history.as_ref(), gone.due, None)
            }
        };
        let queue = store.queue(queue);
        let counted = history.map_or(0, |history| history.attempt);
        Delivered {
            queue: QueueName { db: queue.db, name: &queue.name },
            id,
            body,
            token: lease.map(|(token, _)| token),
            // A lease has been counted already, a pop counts nothing any more.
            attempt: counted + u32::from(lease.is_none()),
            due,
            lease_end: lease.map_or(Millis(0), |(_, end)| end),
        }
    }
}

impl Engine {
    /// All that was handed to `client` is on its way: the hand-offs stand.
    pub fn sent(&mut self, client: ClientId) {
        if !self.in_hand.is_empty() {
            self.in_hand.remove(&client);
        }
    }

    /// The first bytes of the oldest `replies` that handed jobs to `client` reached the kernel: those
    /// hand-offs stand. The later ones of a pipeline are still in hand.
    pub fn sent_first(&mut self, client: ClientId, replies: usize) {
        let Some(in_hand) = self.in_hand.get_mut(&client) else { return };
        in_hand.drop_first(replies);
        if in_hand.replies.is_empty() {
            self.in_hand.remove(&client);
        }
    }

    /// Bytes held for what is in `client`'s hand.
    pub fn in_hand_bytes(&self, client: ClientId) -> usize {
        self.in_hand.get(&client).map_or(0, |in_hand| in_hand.bytes)
    }

    /// From here on this reply is in `client`'s hand.
    pub(in crate::engine) fn note_in_hand(&mut self, client: ClientId, reply: Vec<Taken>) {
        self.in_hand.entry(client).or_default().push(reply);
    }

    /// What was handed to `client` and not yet [`sent`](Engine::sent) never left: back to its old
    /// place, uncounted, and on to whoever waits. To be followed by [`Engine::closed`]. Of very many jobs
    /// some go back when time passes next; so do those for whose facts there is no room.
    pub fn unsent(&mut self, now: Micros, client: ClientId, turn: &mut Turn<'_>) {
        if let Some(InHand { replies, bytes }) = self.in_hand.remove(&client) {
            let first = Vec::new().into_iter();
            self.returning.push_back(Returning { first, replies, bytes });
        }
        self.return_unsent(&mut RETURNED_AT_ONCE.clone(), now, turn);
        self.hand_off(now, turn);
    }

    /// Puts back jobs that never left, as far as their facts fit; false if the budget was used up before
    /// that.
    pub(in crate::engine) fn return_unsent(
        &mut self,
        budget: &mut u32,
        now: Micros,
        turn: &mut Turn<'_>,
    ) -> bool {
        while let Some(returning) = self.returning.front_mut() {
            let Some(taken) = returning.next() else {
                match returning.replies.pop_front() {
                    Some(reply) => returning.first = reply.into_iter(),
                    None => drop(self.returning.pop_front()),
                }
                continue;
            };
            if !self.gate.has_room(taken.returning_bytes_max()) {
                return true;
            }
            let Some(left) = budget.checked_sub(1) else { return false };
            *budget = left;
            match returning.first.next().expect("it was looked at") {
                Taken::Leased { queue, index, token, at, .. } => {
                    if self.take_back_lease(queue, index, token, now, turn) {
                        self.note_untaken(queue, at);
                    }
                }
                Taken::Gone(gone) => self.take_back_gone(*gone, now, turn),
            }
        }
        true
    }

    /// Whether jobs that never left could go back now.
    pub(in crate::engine) fn may_return(&self) -> bool {
        // None where another reply, or another client, comes next.
        let fits = |taken: &Taken| self.gate.has_room(taken.returning_bytes_max());
        self.returning.front().is_some_and(|returning| returning.next().is_none_or(fits))
    }

    /// Bytes held for what goes back; all of a client's until the last of it has.
    pub(in crate::engine) fn returning_bytes(&self) -> usize {
        self.returning.iter().map(|returning| returning.bytes).sum()
    }

    fn take_back_lease(
        &mut self,
        queue: QueueNo,
        index: JobIndex,
        token: Token,
        now: Micros,
        turn: &mut Turn<'_>,
    ) -> bool {
        if !self.holds(queue, index, token) {
            return false;
        }
        let (id, at) = (self.id_of(index), self.located(index));
        self.commit(now, turn, &Fact::Unleased { queue, id: &id }, at);
        self.store.queue_mut(queue).returned += 1;
        self.touch(queue, None);
        true
    }

    fn take_back_gone(&mut self, gone: Gone, now: Micros, turn: &mut Turn<'_>) {
        let Gone { queue, born, departed, policy, due, at: taken_at } = gone;
        let (job, history) = (&departed.job, departed.history.as_ref());
        // The queue was removed meanwhile, and the job would have gone with it.
        if self.store.bound_queue(queue).is_none_or(|queue| queue.born != born) {
            return;
        }
        let at = self.store.locate(queue, departed.id());
        // Another client has used the id again since: the pop stands, as after a crash.
        if at.index.is_some_and(|index| self.store.jobs.get(index).stage != Stage::Window) {
            return;
        }
        let policy = self.intern(policy, now, turn);
        let image = Image {
            id: departed.id(),
            body: departed.body(),
            policy,
            priority: job.priority,
            added: job.added,
            due,
            place: job.order,
            history: history.map(|history| {
                let &History { attempt, deliveries, nacks, timeouts, lost, unanswered, .. } =
                    history;
                [attempt, deliveries, nacks, timeouts, lost, unanswered]
            }),
            error: history.and_then(|history| history.error.as_deref()),
        };
        self.commit(now, turn, &Fact::Unpopped { queue, image }, at);
        self.note_untaken(queue, taken_at);
        self.store.queue_mut(queue).returned += 1;
        self.touch(queue, None);
    }

    /// Whether this very lease is running.
    pub(in crate::engine) fn holds(&self, queue: QueueNo, index: JobIndex, token: Token) -> bool {
        // Tokens never repeat, so a number used again for another job does not fool this; a queue
        // that was removed is unbound or bound anew, without this job.
        let Some(queue) = self.store.bound_queue(queue) else { return false };
        self.store.jobs.find(index).is_some_and(|job| job.stage == Stage::Leased)
            && self.store.jobs.history(index).is_some_and(|history| history.token == token.0)
            && self.store.is_indexed(queue, index)
    }
}
