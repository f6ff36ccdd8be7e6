//! Requests that take several turns: how far each has come.

use crate::engine::model::request::Side;
use crate::engine::store::Store;
use crate::engine::store::jobs::JobIndex;
use crate::ids::{ClientId, QueueNo};
use crate::time::Millis;

/// A client's request that is half done; it has no other meanwhile.
#[derive(Debug)]
pub enum Unfinished {
    Keys(Names),
    Redrive(Redriven),
    Search(Box<Search>),
}

impl Unfinished {
    /// Whether it goes through the ready jobs of this queue.
    pub fn is_in(&self, queue: QueueNo) -> bool {
        matches!(self, Unfinished::Search(search) if search.queue == queue)
    }
}

/// How far a KEYS has come.
#[derive(Debug, Default)]
pub struct Names {
    pub cursor: u64,
    pub names: Vec<Box<[u8]>>,
    pub bytes: usize,
}

/// How far a REDRIVE has come.
#[derive(Clone, Copy, Debug)]
pub struct Redriven {
    pub queue: QueueNo,
    pub born: u64,
    /// Jobs that died later, by the sequence of their death, are left alone: those that were moved
    /// may well be dead again before the end.
    pub before: i64,
    /// What IN said when the command was received.
    pub due: Millis,
    pub moved: u64,
}

/// A search that is half done.
#[derive(Debug)]
pub struct Search {
    pub queue: QueueNo,
    /// Which binding of the number it was.
    pub born: u64,
    pub from: Side,
    /// Of a range: how many jobs are passed over, and how many are wanted.
    pub skipped: u64,
    pub wanted: u64,
    /// Bodies of the range.
    pub bodies: Vec<Box<[u8]>>,
    pub bytes: usize,
    /// How many jobs were looked at, and how many of them were equal to what is looked for.
    pub looked_at: u64,
    pub equal: u64,
    /// Places of equal ones.
    pub places: Vec<i64>,
    /// Equal ones that are to be removed.
    pub found: Vec<Found>,
}

/// A ready job, told from others that may have its number later: a place is given once.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub index: JobIndex,
    pub place: i64,
}

impl Search {
    pub fn new(queue: QueueNo, born: u64, from: Side) -> Search {
        Search {
            queue,
            born,
            from,
            skipped: 0,
            wanted: 0,
            bodies: Vec::new(),
            bytes: 0,
            looked_at: 0,
            equal: 0,
            places: Vec::new(),
            found: Vec::new(),
        }
    }

    pub fn end_walk(&self, store: &mut Store, client: ClientId) {
        let queue = store.bound_queue(self.queue);
        if queue.is_some_and(|queue| queue.born == self.born) {
            store.walked(self.queue).0.end_walk(client);
        }
    }
}
