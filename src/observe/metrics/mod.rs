//! `/metrics`: a [`Scrape`] of plain data, and its text as Prometheus reads it. The families of
//! metrics are one table ([`families`]), which the reference is written from, too.

pub mod families;
mod text;
pub mod top;

use super::snapshot::Snapshot;
use crate::engine::observe::histogram::CounterHistogram;
use families::{FAMILIES, MetricGroup};
use std::ops::Deref;
pub use text::Format;
use text::Page;
use top::{Rest, Row};

/// Upper bounds of the turn metric's buckets, µs.
pub static TURN_US: [u64; 12] =
    [10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 100_000, 1_000_000];

/// Upper bounds of the sync metric's buckets, µs.
pub static SYNC_US: [u64; 13] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
    10_000_000,
];

/// A snapshot, and what takes some turns to be collected.
#[derive(Clone, Debug)]
pub struct Scrape {
    pub all: Snapshot,
    /// Requests are served: nothing is loading, failed or stopping.
    pub ready: bool,
    /// How late jobs left.
    pub lateness: CounterHistogram,
    /// How long syncs took.
    pub syncs: CounterHistogram,
    /// How long turns took.
    pub turns: CounterHistogram,
    /// Queues with lines of their own, by database and name.
    pub rows: Vec<Row>,
    /// The other queues together.
    pub rest: Rest,
}

impl Deref for Scrape {
    type Target = Snapshot;

    fn deref(&self) -> &Snapshot {
        &self.all
    }
}

impl Scrape {
    /// The earliest due time of all ready jobs.
    fn oldest_ready_age_ms(&self) -> Option<u64> {
        let rows = self.rows.iter().filter_map(|row| row.stats.oldest_ready_age_ms);
        rows.chain(self.rest.oldest_ready_age_ms).max()
    }
}

/// The text of a scrape. Cost: some lines for each row.
pub fn render(scrape: &Scrape, format: Format) -> String {
    let mut page = Page::new(scrape, format);
    // Jobs are the cluster's: counted on each node they would be there three times.
    let skips = |part| {
        let is_follower = scrape.cluster.as_ref().is_some_and(|view| !view.leads);
        is_follower && matches!(part, MetricGroup::Jobs | MetricGroup::Queues)
    };
    for family in FAMILIES.iter().filter(|family| !skips(family.part)) {
        page.family(family);
    }
    page.finish()
}
