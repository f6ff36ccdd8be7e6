//! Surveying all queues in slices, for monitoring. Clients see nothing of it.

use crate::engine::model::stats::StatsView;
use crate::engine::store::Store;
use crate::ids::{Db, QueueNo};
use crate::limits::SURVEY_STEPS_PER_QUEUE;
use crate::time::{Micros, Millis};

pub use crate::engine::store::ages::Oldest;

/// Where a walk over all queues goes on. Queues that are there throughout are visited once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueWalk {
    db: usize,
    place: u32,
}

/// A queue as the walk sees it.
#[derive(Debug)]
pub struct QueueView<'a> {
    pub db: Db,
    pub name: &'a [u8],
    /// Its `DELAY.STATS`. `next_due` is a lower bound if the queue's next jobs are unordered yet.
    pub stats: StatsView,
    /// Hand-offs since the start that went back, which `stats.totals.delivered` does not count any
    /// more.
    pub returned: u64,
}

/// `waiters` returns how many wait for a queue.
pub fn walk(
    store: &mut Store,
    (from, count): (QueueWalk, u32),
    now: Micros,
    waiters: impl Fn(Db, &[u8]) -> usize,
    mut visit: impl FnMut(QueueView<'_>),
) -> Option<QueueWalk> {
    let mut walk = from;
    for _ in 0..count {
        let (number, next) = next_queue(store, walk)?;
        let _ = store.open_ahead(number, None, 1, &mut SURVEY_STEPS_PER_QUEUE.clone());
        let queue = store.queue(number);
        let stats = store.stats_of(number, waiters(queue.db, &queue.name) as u64, now);
        visit(QueueView { db: queue.db, name: &queue.name, stats, returned: queue.aside.returned });
        walk = next;
    }
    Some(walk)
}

pub fn names(store: &Store) -> impl Iterator<Item = &[u8]> {
    let first = next_queue(store, QueueWalk::default());
    let all = std::iter::successors(first, |(_, walk)| next_queue(store, *walk));
    all.map(|(number, _)| &*store.queue(number).name)
}

pub fn oldest_ready(
    store: &Store,
    from: QueueWalk,
    count: u32,
) -> (Option<Millis>, Option<QueueWalk>) {
    let (mut oldest, mut walk) = (None, from);
    for _ in 0..count {
        let Some((number, next)) = next_queue(store, walk) else { return (oldest, None) };
        let due = store.oldest_ready_due(store.queue(number));
        oldest = oldest.into_iter().chain(due).min();
        walk = next;
    }
    (oldest, Some(walk))
}

/// The first queue from `walk` on, and the position after it.
fn next_queue(store: &Store, QueueWalk { db, place }: QueueWalk) -> Option<(QueueNo, QueueWalk)> {
    let (number, db, place) = store.next_queue_from(db, place)?;
    Some((number, QueueWalk { db, place: place + 1 }))
}
