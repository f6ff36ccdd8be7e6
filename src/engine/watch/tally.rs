//! What has happened in all queues together since the engine was made. Volatile: unlike a queue's
//! totals it begins at 0 with every start and never goes down, whatever is removed.

use crate::engine::model::fact::{Destination, Fact};
use crate::engine::store::jobs::Stage;
use crate::engine::store::{Located, Store};
use crate::engine::watch::histogram::CounterHistogram;
use crate::time::Micros;

/// Upper bounds of [`Tally::until_ack`], µs: 1 ms to a day.
pub static UNTIL_ACK_US: [u64; 17] = [
    1_000,
    5_000,
    10_000,
    50_000,
    100_000,
    500_000,
    1_000_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
    600_000_000,
    1_800_000_000,
    3_600_000_000,
    21_600_000_000,
    86_400_000_000,
];

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "what has no words here is what its name says")]
pub struct Tally {
    pub added: u64,
    /// Jobs whose time came; those added for now are not among them.
    pub due: u64,
    /// Jobs handed to consumers, those of `returned` included.
    pub delivered: u64,
    /// Hand-offs whose reply never left: the job went back, uncounted.
    pub returned: u64,
    pub acked: u64,
    pub nacked: u64,
    /// Leases that ran out.
    pub timeouts: u64,
    /// Leases that ended with their connection.
    pub lost: u64,
    /// Jobs whose TTL passed.
    pub expired: u64,
    /// Jobs removed by DEL, CANCEL, REPLACE and PURGE.
    pub deleted: u64,
    /// Jobs removed with their queue.
    pub removed: u64,
    /// Jobs that became dead letters.
    pub died: u64,
    /// Dead letters that left by age or number.
    pub dropped: u64,
    /// Dead letters that were given another try.
    pub redriven: u64,
    /// From the delivery to the ACK.
    pub until_ack: CounterHistogram,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            added: 0,
            due: 0,
            delivered: 0,
            returned: 0,
            acked: 0,
            nacked: 0,
            timeouts: 0,
            lost: 0,
            expired: 0,
            deleted: 0,
            removed: 0,
            died: 0,
            dropped: 0,
            redriven: 0,
            until_ack: CounterHistogram::new(&UNTIL_ACK_US),
        }
    }
}

impl Tally {
    /// Counts a fact that is about to be applied. Falling due, which is applied job by job, is counted
    /// where it is recorded.
    pub(in crate::engine) fn count(
        &mut self,
        store: &Store,
        now: Micros,
        fact: &Fact<'_>,
        at: Located,
    ) {
        let dies = |to: &Destination| u64::from(matches!(to, Destination::Dead { .. }));
        match fact {
            Fact::Added { .. } => self.added += 1,
            Fact::Leased { .. } | Fact::Popped { .. } => self.delivered += 1,
            Fact::Unleased { .. } | Fact::Unpopped { .. } => self.returned += 1,
            Fact::Acked { .. } => {
                self.acked += 1;
                let begun = at.index.and_then(|index| store.jobs().history(index)?.delivered());
                begun
                    .into_iter()
                    .for_each(|begun| self.until_ack.record(now.0.saturating_sub(begun.0)));
            }
            Fact::Nacked { to, .. } => {
                self.nacked += 1;
                self.died += dies(to);
            }
            Fact::LeaseOver { lost, to, .. } => {
                self.lost += u64::from(*lost);
                self.timeouts += u64::from(!*lost);
                self.died += dies(to);
            }
            Fact::Expired { .. } => self.expired += 1,
            Fact::Deleted { .. } => {
                // A window that REPLACE passes is no job.
                let job = at.index.map(|index| store.jobs().get(index));
                self.deleted += u64::from(job.is_some_and(|job| job.stage != Stage::Window));
            }
            Fact::Purged { count, .. } => self.deleted += count,
            Fact::Dropped { .. } => self.dropped += 1,
            Fact::Redriven { .. } => self.redriven += 1,
            Fact::QueueRemoved { queue } | Fact::Renamed { over: Some(queue), .. } => {
                self.removed += store.queue(*queue).jobs
            }
            Fact::Flushed { db } => self.removed += store.job_count(*db),
            _ => {}
        }
    }
}
