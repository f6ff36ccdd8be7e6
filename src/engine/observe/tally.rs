//! Counts of all queues together since the engine was made. Volatile: unlike a queue's totals it
//! begins at 0 with every start and never goes down, whatever is removed.

use crate::engine::model::fact::{Destination, Fact};
use crate::engine::model::schedule::{Miss, Outcomes};
use crate::engine::model::stats::Totals;
use crate::engine::observe::histogram::CounterHistogram;
use crate::engine::store::jobs::JobStage;
use crate::engine::store::{Located, Store};
use crate::time::Micros;

/// Upper bounds of [`Tally::until_ack`], µs: 1 ms to a day.
pub static UNTIL_ACK_US: [u64; 17] = [
    1_000, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000, 5_000_000, 10_000_000, 30_000_000,
    60_000_000, 300_000_000, 600_000_000, 1_800_000_000, 3_600_000_000, 21_600_000_000,
    86_400_000_000,
];

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tally {
    /// The counts of a queue; hand-offs of `returned` are included in the delivered ones.
    pub totals: Totals,
    /// Jobs that became due, without those added for now.
    pub due: u64,
    /// Hand-offs whose reply was never sent: the job went back, uncounted.
    pub returned: u64,
    /// Jobs removed with their queue.
    pub removed: u64,
    /// Dead letters that were given another try.
    pub redriven: u64,
    /// Outcomes of the nominal instants of schedules.
    pub outcomes: Outcomes,
    pub missed: [u64; Miss::ALL.len()],
    /// From the delivery to the ACK.
    pub until_ack: CounterHistogram,
}

impl Default for Tally {
    fn default() -> Tally {
        let until_ack = CounterHistogram::new(&UNTIL_ACK_US);
        let (totals, outcomes) = (Totals::default(), Outcomes::default());
        let missed = [0; Miss::ALL.len()];
        Tally { totals, due: 0, returned: 0, removed: 0, redriven: 0, outcomes, missed, until_ack }
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
            Fact::Added { .. } => {
                self.totals.added += 1;
                // The job that it replaces in place.
                self.totals.deleted += u64::from(at.index.is_some());
            }
            Fact::Occurred { .. } => {
                self.totals.added += 1;
                self.outcomes.made += 1;
            }
            Fact::Ran { .. } => self.totals.added += 1,
            Fact::Passed { missed, skipped, .. } => {
                self.outcomes.missed += missed;
                self.outcomes.skipped += skipped;
            }
            Fact::GaveWay { .. } => {
                self.totals.deleted += 1;
                self.outcomes.replaced += 1;
            }
            Fact::Leased { .. } | Fact::Popped { .. } => self.totals.delivered += 1,
            Fact::Unleased { .. } | Fact::Unpopped { .. } => self.returned += 1,
            Fact::Acked { .. } => self.count_ack(store, now, at),
            Fact::Succeeded { acked, .. } => {
                self.totals.added += 1;
                match acked {
                    true => self.count_ack(store, now, at),
                    false => self.totals.deleted += 1,
                }
            }
            Fact::Nacked { to, .. } => {
                self.totals.nacked += 1;
                self.totals.died += dies(to);
            }
            Fact::LeaseOver { lost, to, .. } => {
                self.totals.lost += u64::from(*lost);
                self.totals.timeouts += u64::from(!*lost);
                self.totals.died += dies(to);
            }
            Fact::Expired { .. } => self.totals.expired += 1,
            Fact::Deleted { .. } => {
                // A window that REPLACE passes is no job.
                let job = at.index.map(|index| store.jobs().get(index));
                self.totals.deleted +=
                    u64::from(job.is_some_and(|job| job.stage != JobStage::Window));
            }
            Fact::Purged { count, .. } => self.totals.deleted += count,
            Fact::Dropped { .. } => self.totals.dropped += 1,
            Fact::Redriven { .. } => self.redriven += 1,
            Fact::QueueRemoved { queue } | Fact::Renamed { over: Some(queue), .. } => {
                self.removed += store.queue(*queue).jobs
            }
            Fact::Flushed { db } => self.removed += store.job_count(*db),
            _ => {}
        }
    }

    fn count_ack(&mut self, store: &Store, now: Micros, at: Located) {
        self.totals.acked += 1;
        let begun = at.index.and_then(|index| store.jobs().history(index)?.delivered());
        begun.into_iter().for_each(|begun| self.until_ack.record(now.0.saturating_sub(begun.0)));
    }
}
