//! Looking at all queues of a database: what is asked, and the rows of the answer.

#![allow(missing_docs, reason = "a field whose name says what it is has none")]

use crate::engine::model::request::State;
use crate::ids::Db;
use crate::time::Millis;
use crate::words::words;

/// Globs of which one has to match a queue's name for the queue to be shown; none for all queues. They
/// are what the asker may read, so that the engine need not know users.
pub type Readable<'a> = Option<&'a [&'a [u8]]>;

words! {
    /// What `DELAY.QUEUES` orders by. By name it is ascending, by a number descending and then by name.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Order {
        Name = "name",
        Ready = "ready",
        Delayed = "delayed",
        Leased = "leased",
        Dead = "dead",
        /// Of the oldest ready job; queues without one come last.
        Age = "age",
        /// Of all jobs.
        Bytes = "bytes",
        /// How many schedules there are.
        Schedules = "schedules",
    }
}

/// `DELAY.QUEUES`.
#[derive(Clone, Copy, Debug)]
pub struct Queues<'a> {
    pub db: Db,
    pub readable: Readable<'a>,
    /// Only names that match this glob.
    pub pattern: Option<&'a [u8]>,
    pub order: Order,
    /// Most rows, 1 to 1,000.
    pub count: u32,
    /// Only names behind this one; there may be no such queue.
    pub after: Option<&'a [u8]>,
}

/// `DELAY.FIND`.
#[derive(Clone, Copy, Debug)]
pub struct Locate<'a> {
    pub db: Db,
    pub readable: Readable<'a>,
    pub id: &'a [u8],
    /// Most rows, 1 to 1,000; with so many the search ends.
    pub count: u32,
}

/// A queue as `DELAY.QUEUES` shows it. It is as it was when the walk came by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueRow {
    pub name: Box<[u8]>,
    /// Jobs, in the order of [`State::ALL`].
    pub counts: [u64; 4],
    pub waiters: u64,
    /// `no`, `in`, `out` or `all`.
    pub paused: &'static str,
    /// A lower bound where the queue's next jobs are unordered yet.
    pub next_due: Option<Millis>,
    /// The due time of the ready job whose is the earliest.
    pub oldest_ready: Option<Millis>,
    /// Age of that job from its due time when the walk was over, ms.
    pub oldest_ready_age_ms: Option<u64>,
    /// Bytes held for the queue's jobs.
    pub bytes: u64,
    pub lateness_p99_us: u64,
    pub schedules: u64,
}

/// A job that `DELAY.FIND` found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundJob {
    pub queue: Box<[u8]>,
    pub state: State,
    pub due: Millis,
}
