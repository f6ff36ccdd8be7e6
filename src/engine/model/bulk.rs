//! Which jobs of a queue are meant, said by what they are like; and what is done to all of them.

use crate::engine::model::reply::Reason;
use crate::engine::model::terms::{JobState, QueueName, When};

/// What jobs must be like; by default any fits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Filter<'a> {
    /// The job is in this state.
    pub state: Option<JobState>,
    /// The id matches this glob.
    pub pattern: Option<&'a [u8]>,
    /// It is due from the first ms on and before the second, unix ms.
    pub due: Option<(u64, u64)>,
    /// Its id, body or error has these bytes.
    pub contains: Option<&'a [u8]>,
    /// The error is this text or of this kind; empty for those without one.
    pub error: Option<&'a [u8]>,
    /// It died for this reason.
    pub reason: Option<Reason>,
    /// It belongs to this group.
    pub group: Option<&'a [u8]>,
}

/// `DELAY.BULK`.
#[derive(Clone, Copy, Debug)]
pub struct Bulk<'a> {
    pub queue: QueueName<'a>,
    pub filter: Filter<'a>,
    pub act: BulkAct,
    /// At most so many jobs.
    pub limit: Option<u64>,
    /// Nothing is done; the answer is how many there are.
    pub dry_run: bool,
    /// Due times are spread evenly over so many ms, from the first one on.
    pub over_ms: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BulkAct {
    Cancel {
        /// Leased ones, too.
        force: bool,
    },
    /// It is delivered again.
    Redrive {
        /// When it falls due.
        when: When,
        /// Attempts go on; otherwise they count from 0.
        keep_attempts: bool,
    },
    /// It falls due at another time.
    Reschedule(NewDue),
}

/// A due time that jobs get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewDue {
    /// All the same.
    At(When),
    /// Each its own one, so many ms later, or earlier.
    Shifted(i64),
}

impl BulkAct {
    pub fn word(self) -> &'static str {
        match self {
            BulkAct::Cancel { .. } => "CANCEL",
            BulkAct::Redrive { .. } => "REDRIVE",
            BulkAct::Reschedule(_) => "RESCHEDULE",
        }
    }

    /// Whether jobs in this state can be meant.
    pub fn takes(self, state: JobState) -> bool {
        match self {
            BulkAct::Cancel { force } => state != JobState::Leased || force,
            BulkAct::Redrive { .. } => state == JobState::Dead,
            BulkAct::Reschedule(_) => matches!(state, JobState::Delayed | JobState::Ready),
        }
    }
}
