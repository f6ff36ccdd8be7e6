//! Terms that requests, replies and records share: a queue's name, times, the states of a job, directions.

use crate::ids::Db;
use crate::words::words;

/// A queue as a client names it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct QueueName<'a> {
    pub db: Db,
    /// 1 to 512 bytes.
    pub name: &'a [u8],
}

/// When a job is to fall due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// So many ms after the receipt of the request.
    In(u64),
    /// At this unix ms.
    At(u64),
}

/// How long a taking request waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Answer at once.
    No,
    /// Until there is a job.
    Forever,
    /// For this many ms, at least 1.
    For(u64),
}

impl Wait {
    /// The same, limited to that.
    pub fn at_most(self, ms: u64) -> Wait {
        match self {
            Wait::No => Wait::No,
            _ if ms == 0 => Wait::No,
            Wait::Forever => Wait::For(ms),
            Wait::For(own_ms) => Wait::For(own_ms.min(ms)),
        }
    }
}

words! {
    /// A job's state as users name it, in the order of a job's life.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    pub enum JobState {
        /// Its time has not come.
        Delayed = "delayed",
        /// Due, waiting for a consumer.
        Ready = "ready",
        /// A consumer has it, and its lease is running.
        Leased = "leased",
        /// Attempts used up, or buried.
        Dead = "dead",
    }
}

/// `DELAY.RESCHEDULE`'s condition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Only {
    Any,
    /// `GT`: only to a later time.
    Later,
    /// `LT`: only to an earlier time.
    Earlier,
}

/// The direction of PAUSE and RESUME.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Adding.
    In,
    /// Taking.
    Out,
    All,
}
