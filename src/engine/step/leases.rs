//! Leases that end with their connection.

use std::collections::{HashMap, VecDeque};

use ahash::RandomState;

use crate::engine::store::Store;
use crate::engine::store::jobs::JobIndex;
use crate::ids::{ClientId, QueueNo, Token};

/// A lease that ends with its connection.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    pub queue: QueueNo,
    pub index: JobIndex,
    pub token: Token,
}

/// The bound leases of a connection; some may have ended.
#[derive(Debug, Default)]
struct Bounds {
    leases: Vec<Bound>,
    /// The one that is looked at next, whether it has ended.
    next: usize,
}

/// Bound leases of connections to leaders before this one, while they are collected.
#[derive(Debug)]
pub struct Former {
    /// The queue that is looked at: database and place, and which binding of its number.
    pub db: usize,
    pub place: u32,
    pub born: u64,
    /// How far its id index has been looked through, if it has many leases.
    pub cursor: u64,
    /// The greatest token when this node began to lead.
    pub up_to: u64,
    pub leases: Vec<Bound>,
    /// All queues have been looked at.
    pub is_whole: bool,
}

impl Former {
    /// None yet.
    pub fn new(up_to: u64) -> Former {
        let leases = Vec::new();
        Former { db: 0, place: 0, born: 0, cursor: 0, up_to, leases, is_whole: false }
    }
}

#[derive(Debug)]
pub struct Leases {
    by_client: HashMap<ClientId, Bounds, RandomState>,
    /// Leases of connections to earlier leaders, which end with the stall.
    pub former: Option<Former>,
    /// Leases of closed connections, still to be ended.
    pub lost: VecDeque<std::vec::IntoIter<Bound>>,
    /// Those that an orderly shutdown ends.
    pub ending: VecDeque<std::vec::IntoIter<Bound>>,
}

impl Leases {
    pub fn new(hasher: RandomState) -> Leases {
        let by_client = HashMap::with_hasher(hasher);
        Leases { by_client, former: None, lost: VecDeque::new(), ending: VecDeque::new() }
    }

    /// Whether some must be ended, or searched for, as soon as time passes.
    pub fn has_begun(&self) -> bool {
        !self.lost.is_empty() || self.former.as_ref().is_some_and(|former| !former.is_whole)
    }

    /// Notes that a lease ends with `client`'s connection. A long-lived worker acknowledges most of
    /// its leases; with each new one two are looked at and dropped if they have ended, so that there
    /// are never many more of those than of the others, and no moment at which all are looked at.
    pub fn bind(&mut self, store: &Store, client: ClientId, lease: Bound) {
        let bounds = self.by_client.entry(client).or_default();
        for _ in 0..2 {
            match bounds.leases.get(bounds.next).copied() {
                None => bounds.next = 0,
                Some(old) if store.is_lease(old.queue, old.index, old.token) => bounds.next += 1,
                Some(_) => drop(bounds.leases.swap_remove(bounds.next)),
            }
        }
        bounds.leases.push(lease);
    }

    /// The client's connection is gone. Its leases are moved in one piece: there may be millions.
    pub fn lose(&mut self, client: ClientId) {
        let bounds = self.by_client.remove(&client);
        self.lost.extend(bounds.map(|bounds| bounds.leases.into_iter()));
    }

    /// None of them ends with its connection any more.
    pub fn forget(&mut self) {
        self.by_client.clear();
        self.lost.clear();
        self.ending.clear();
    }

    /// All remaining ones must be ended, in the order of their clients.
    pub fn end_all(&mut self) {
        let mut bound: Vec<_> = self.by_client.drain().collect();
        bound.sort_unstable_by_key(|(client, _)| *client);
        self.ending.extend(bound.into_iter().map(|(_, bounds)| bounds.leases.into_iter()));
    }

    /// Bytes held to end a client's leases.
    pub fn bytes(&self, client: ClientId) -> usize {
        if self.by_client.is_empty() {
            return 0;
        }
        let bounds = self.by_client.get(&client);
        bounds.map_or(0, |bounds| bounds.leases.capacity() * size_of::<Bound>())
    }
}
