//! Jobs in hand: decided and in a reply, but not yet on their way.
//!
//! A connection can turn out closed before the first byte of the reply goes to the kernel. Then what
//! is in its hand goes back at once to its old place, uncounted.

use crate::engine::fact::{Fact, Image};
use crate::engine::flow::{TAKING_BYTES_MAX, returning_bytes_max};
use crate::engine::job::{Departed, History, JobIndex, Stage};
use crate::engine::policy::Policy;
use crate::engine::reply::Delivered;
use crate::engine::request::QueueName;
use crate::engine::store::Store;
use crate::engine::{Engine, Turn};
use crate::ids::{ClientId, QueueNo, Token};
use crate::time::{Micros, Millis};

/// A popped job, with all that is needed to put it back.
#[derive(Debug)]
pub struct Gone {
    pub(super) queue: QueueNo,
    pub(super) born: u64,
    pub(super) departed: Box<Departed>,
    /// By value: with its last job gone, the policy's number may be bound to another.
    pub(super) policy: Policy,
    pub(super) due: Millis,
    /// When it was handed over.
    pub(super) at: Micros,
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

impl Taken {
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
        in_hand.drain(..replies.min(in_hand.len()));
        if in_hand.is_empty() {
            self.in_hand.remove(&client);
        }
    }

    /// What was handed to `client` and not yet [`sent`](Engine::sent) never left: back to its old
    /// place, uncounted, and on to whoever waits. To be followed by [`Engine::closed`]. Where there is
    /// no room for the fact the hand-off stands, as after a crash.
    pub fn unsent(&mut self, now: Micros, client: ClientId, turn: &mut Turn<'_>) {
        for taken in self.in_hand.remove(&client).unwrap_or_default().into_iter().flatten() {
            match taken {
                Taken::Leased { queue, index, token, at, .. } => {
                    if self.take_back_lease(queue, index, token, now, turn) {
                        self.note_untaken(queue, at);
                    }
                }
                Taken::Gone(gone) => self.take_back_gone(*gone, now, turn),
            }
        }
        self.hand_off(now, turn);
    }

    fn take_back_lease(
        &mut self,
        queue: QueueNo,
        index: JobIndex,
        token: Token,
        now: Micros,
        turn: &mut Turn<'_>,
    ) -> bool {
        if !self.holds(queue, index, token) || !self.gate.has_room(TAKING_BYTES_MAX) {
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
        if !self.gate.has_room(returning_bytes_max(job.body_bytes(), &policy.backoff)) {
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
    pub(super) fn holds(&self, queue: QueueNo, index: JobIndex, token: Token) -> bool {
        // Tokens never repeat, so a number used again for another job does not fool this; a queue
        // that was removed is unbound or bound anew, without this job.
        let Some(queue) = self.store.bound_queue(queue) else { return false };
        self.store.jobs.find(index).is_some_and(|job| job.stage == Stage::Leased)
            && self.store.jobs.history(index).is_some_and(|history| history.token == token.0)
            && self.store.is_indexed(queue, index)
    }
}
