//! Unsent jobs: decided and in a reply, but not yet on their way.

use std::collections::{HashMap, HashSet, VecDeque};

use ahash::RandomState;

use crate::engine::journal_room::{SIZES, returning_bytes_max};
use crate::engine::model::policy::Policy;
use crate::engine::model::reply::Delivered;
use crate::engine::model::request::QueueName;
use crate::engine::store::Store;
use crate::engine::store::jobs::{Content, Departed, JobIndex};
use crate::ids::{ClientId, QueueNo, Token};
use crate::time::{Micros, Millis};

/// Jobs in replies that have not begun to leave, and their return.
#[derive(Debug)]
pub struct Unsent {
    clients: HashMap<ClientId, UnsentReplies, RandomState>,
    /// Unsent jobs of closed connections.
    returning: VecDeque<Returning>,
}

/// Jobs handed to one client in replies that have not begun to leave, oldest first.
#[derive(Debug, Default)]
pub struct UnsentReplies {
    replies: VecDeque<Vec<Taken>>,
    bytes: usize,
}

/// Unsent jobs of a closed connection, which go back.
#[derive(Debug)]
pub struct Returning {
    /// The jobs of the oldest reply.
    first: std::vec::IntoIter<Taken>,
    replies: VecDeque<Vec<Taken>>,
    bytes: usize,
}

/// Bytes held for an unsent popped job, in addition to its id and body, or for a leased one.
pub const UNSENT_JOB_BYTES: u64 =
    (size_of::<Taken>() + size_of::<Popped>() + size_of::<Departed>()) as u64;

/// A popped job, with all that is needed to put it back.
#[derive(Debug)]
pub struct Popped {
    pub queue: QueueNo,
    pub born: u64,
    pub departed: Box<Departed>,
    /// By value: with its last job gone, the policy's number may be bound to another.
    pub policy: Policy,
    pub due: Millis,
    pub delivery: Delivery,
}

/// What rates know of a delivery.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    pub at: Micros,
    /// The rate of its queue has counted it, and that of its group.
    pub by_queue: bool,
    pub by_group: bool,
}

/// A taken job, while it is put into a reply and until that is on its way.
#[derive(Debug)]
pub enum Taken {
    /// A leased job; it stays in the store.
    Leased { queue: QueueNo, index: JobIndex, token: Token, lease_end: Millis, delivery: Delivery },
    /// At most once.
    Popped(Box<Popped>),
}

impl UnsentReplies {
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

fn reply_bytes(reply: &[Taken]) -> usize {
    size_of::<Vec<Taken>>() + reply.iter().map(Taken::bytes).sum::<usize>()
}

impl Taken {
    fn bytes(&self) -> usize {
        let own = match self {
            Taken::Leased { .. } => 0,
            Taken::Popped(popped) => {
                size_of::<Popped>() + size_of::<Departed>() + popped.departed.job.data_bytes()
            }
        };
        size_of::<Taken>() + own
    }

    /// The most that putting it back makes.
    pub fn returning_bytes_max(&self) -> u64 {
        match self {
            Taken::Leased { .. } => SIZES.unleased,
            Taken::Popped(popped) => {
                returning_bytes_max(popped.departed.job.rest_bytes(), &popped.policy.backoff)
            }
        }
    }

    /// As a reply shows it, with its group and META if those are asked for.
    pub fn shown<'a>(&'a self, store: &'a Store, with_meta: bool) -> Delivered<'a> {
        let (queue, content, history, due, lease) = match *self {
            Taken::Leased { queue, index, token, lease_end, .. } => {
                let jobs = store.jobs();
                let lease = Some((token, lease_end));
                (queue, jobs.content(index), jobs.history(index), store.due(index), lease)
            }
            Taken::Popped(ref popped) => {
                let departed = &*popped.departed;
                let history = departed.history.as_ref();
                (popped.queue, departed.content(), history, popped.due, None)
            }
        };
        let Content { id, meta, body, .. } = content;
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
            meta: with_meta.then(|| (content.group_name(), meta)),
        }
    }
}

impl Unsent {
    pub fn new(hasher: RandomState) -> Unsent {
        Unsent { clients: HashMap::with_hasher(hasher), returning: VecDeque::new() }
    }

    /// Whether nothing is unsent, and nothing goes back.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty() && self.returning.is_empty()
    }

    /// From here on the jobs of this reply are unsent.
    pub fn push(&mut self, client: ClientId, reply: Vec<Taken>) {
        self.clients.entry(client).or_default().push(reply);
    }

    /// All that was handed to `client` is on its way.
    pub fn sent(&mut self, client: ClientId) {
        if !self.clients.is_empty() {
            self.clients.remove(&client);
        }
    }

    /// The oldest `replies` that handed jobs to `client` are on their way.
    pub fn sent_first(&mut self, client: ClientId, replies: usize) {
        let Some(unsent) = self.clients.get_mut(&client) else { return };
        unsent.drop_first(replies);
        if unsent.replies.is_empty() {
            self.clients.remove(&client);
        }
    }

    pub fn bytes(&self, client: ClientId) -> usize {
        self.clients.get(&client).map_or(0, |unsent| unsent.bytes)
    }

    /// `client`'s unsent jobs go back.
    pub fn give_back(&mut self, client: ClientId) {
        if let Some(UnsentReplies { replies, bytes }) = self.clients.remove(&client) {
            let first = Vec::new().into_iter();
            self.returning.push_back(Returning { first, replies, bytes });
        }
    }

    /// Nothing goes back: all of it is as good as sent.
    pub fn forget(&mut self) {
        self.clients.clear();
        self.returning.clear();
    }

    /// The queues that popped jobs would go back to; none if there are more jobs than `most`.
    pub fn queues(&self, most: usize) -> Option<HashSet<QueueNo, RandomState>> {
        let replies = self.clients.values().flat_map(|unsent| &unsent.replies);
        let returning = self.returning.iter();
        let first = returning.clone().flat_map(|returning| returning.first.as_slice());
        let later = returning.flat_map(|returning| returning.replies.iter()).flatten();
        let mut queues = HashSet::with_hasher(self.clients.hasher().clone());
        for (count, taken) in replies.flatten().chain(first).chain(later).enumerate() {
            if count == most {
                return None;
            }
            if let Taken::Popped(popped) = taken {
                queues.insert(popped.queue);
            }
        }
        Some(queues)
    }

    /// The next job to go back.
    pub fn next(&mut self) -> Option<&Taken> {
        while let Some(returning) = self.returning.front_mut()
            && returning.first.as_slice().is_empty()
        {
            match returning.replies.pop_front() {
                Some(reply) => returning.first = reply.into_iter(),
                None => drop(self.returning.pop_front()),
            }
        }
        self.returning.front()?.first.as_slice().first()
    }

    /// Takes it.
    pub fn take_next(&mut self) -> Option<Taken> {
        self.returning.front_mut()?.first.next()
    }

    /// Whether something goes back, and `fits` says so of the next job if it is known.
    pub fn may_return(&self, fits: impl FnOnce(&Taken) -> bool) -> bool {
        let next = self.returning.front().map(|returning| returning.first.as_slice().first());
        next.is_some_and(|next| next.is_none_or(fits))
    }

    /// Bytes held for what goes back; all of a client's until the last of it has.
    pub fn returning_bytes(&self) -> usize {
        self.returning.iter().map(|returning| returning.bytes).sum()
    }
}
