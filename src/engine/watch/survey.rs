//! Looking at all queues in slices, for whoever watches the server. Nothing of it can be seen by
//! clients.

use crate::engine::Engine;
use crate::engine::model::stats::StatsView;
use crate::engine::store::Store;
use crate::engine::store::ages;
use crate::ids::{DATABASES, Db};
use crate::time::{Micros, Millis};

pub use ages::Oldest;

/// Timers moved per queue to find the next due time: few, so that a slice of queues stays short. Where
/// they do not suffice the time is a lower bound.
const OPEN_STEPS: u32 = 16;

/// Where a walk over all queues goes on. Queues that are there throughout are visited once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Walk {
    db: usize,
    place: u32,
}

/// A queue as the walk sees it.
#[derive(Debug)]
pub struct QueueView<'a> {
    /// Its database.
    pub db: Db,
    /// Its name.
    pub name: &'a [u8],
    /// What `DELAY.STATS` shows of it. `next_due` is a lower bound where the queue's next jobs are
    /// unordered yet.
    pub stats: StatsView,
    /// Hand-offs since the start that went back, which `stats.totals.delivered` does not count any
    /// more.
    pub returned: u64,
}

impl Engine {
    /// Visits up to `count` queues from `from` on; where to go on, none at the end. Cost: as many
    /// queues.
    pub fn walk(
        &mut self,
        from: Walk,
        count: u32,
        now: Micros,
        mut visit: impl FnMut(QueueView<'_>),
    ) -> Option<Walk> {
        let mut walk = from;
        for _ in 0..count {
            let (number, next) = self.store.next_queue(walk)?;
            let _ = self.open(number, None, 1, &mut OPEN_STEPS.clone());
            let stats = self.stats_of(number, now);
            let queue = self.store.queue(number);
            visit(QueueView { db: queue.db, name: &queue.name, stats, returned: queue.returned });
            walk = next;
        }
        Some(walk)
    }

    /// The earliest due time among the ready jobs of up to `count` queues from `from` on, and where
    /// to go on. Cost: at most forty jobs a queue.
    pub fn oldest_ready(&self, from: Walk, count: u32) -> (Option<Millis>, Option<Walk>) {
        let (mut oldest, mut walk) = (None, from);
        for _ in 0..count {
            let Some((number, next)) = self.store.next_queue(walk) else { return (oldest, None) };
            let due = self.store.oldest_ready_due(self.store.queue(number));
            oldest = oldest.into_iter().chain(due).min();
            walk = next;
        }
        (oldest, Some(walk))
    }

    /// How many queues have a name, those without a job included.
    pub fn named_count(&self) -> usize {
        (0..DATABASES).map(|db| self.store.name_count(Db(db))).sum()
    }

    /// When the oldest running lease began. Leases of a queue that was removed are among them until its
    /// jobs are freed.
    pub fn oldest_lease(&self) -> Oldest {
        match self.job_counts() {
            [_, _, 0, _] => Oldest::None,
            _ => self.store.ages.oldest(),
        }
    }

    /// Whether what is known of running leases is what there is of them. Looks at all; for tests.
    pub fn knows_its_leases(&self) -> bool {
        let [_, _, leased, _] = self.job_counts();
        self.store.has_removed() || self.store.ages.count() == leased
    }

    /// Whether every job has an id, and no id or body is kept of a job that is gone. For tests.
    pub fn keeps_data_of_its_jobs(&self) -> bool {
        self.store.jobs.has_data_of_each()
    }

    /// How many queue names are waited for.
    pub fn awaited_count(&self) -> usize {
        self.waiters.line_total()
    }

    /// How many clients wait that have a deadline.
    pub fn deadline_count(&self) -> usize {
        self.waiters.deadline_total()
    }
}

impl Store {
    /// The first queue from `walk` on, and what is behind it.
    fn next_queue(&self, walk: Walk) -> Option<(crate::ids::QueueNo, Walk)> {
        let Walk { mut db, mut place } = walk;
        while db < usize::from(DATABASES) {
            if let Some(found) = self.databases[db].queues.next_from(place) {
                let number = crate::engine::store::number_at(db, found);
                return Some((number, Walk { db, place: found + 1 }));
            }
            (db, place) = (db + 1, 0);
        }
        None
    }
}
