//! Looking at all queues of a database: what is asked, and the rows of the answer.

use crate::engine::model::terms::JobState;
use crate::ids::Db;
use crate::time::Millis;
use crate::words::words;

/// Globs of which one has to match a queue's name for the queue to be shown; none for all queues. They
/// are what the asker may read, so that the engine need not know users.
pub type Readable<'a> = Option<&'a [&'a [u8]]>;

words! {
    /// The orders of `DELAY.QUEUES`. By name it is ascending, by a number descending and then by name.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Order {
        Name = "name",
        Ready = "ready",
        Delayed = "delayed",
        Leased = "leased",
        Dead = "dead",
        /// Age of the oldest ready job; queues without one come last.
        Age = "age",
        /// Bytes of all jobs.
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
    /// Only names after this one; no such queue need exist.
    pub after: Option<&'a [u8]>,
}

/// `DELAY.FIND`.
#[derive(Clone, Copy, Debug)]
pub struct Locate<'a> {
    pub db: Db,
    pub readable: Readable<'a>,
    pub id: &'a [u8],
    /// Most rows, 1 to 1,000; then the search ends.
    pub count: u32,
}

/// A queue as `DELAY.QUEUES` shows it. It is as it was when the walk came by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct QueueRow {
    pub name: Box<[u8]>,
    /// Jobs, in the order of [`JobState::ALL`].
    pub counts: [u64; 4],
    pub waiters: u64,
    /// `no`, `in`, `out` or `all`.
    pub paused: &'static str,
    /// A lower bound where the queue's next jobs are unordered yet.
    pub next_due: Option<Millis>,
    /// The earliest due time of a ready job.
    pub oldest_ready: Option<Millis>,
    /// Age of that job from its due time when the walk was over, ms.
    pub oldest_ready_age_ms: Option<u64>,
    /// Bytes held for the queue's jobs.
    pub bytes: u64,
    pub lateness_p99_us: u64,
    pub schedules: u64,
    pub groups: u64,
    /// When a client was last given a job, on this node and since its start.
    pub last_reserve: Option<Millis>,
}

/// A job that `DELAY.FIND` found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundJob {
    pub queue: Box<[u8]>,
    pub state: JobState,
    pub due: Millis,
}
