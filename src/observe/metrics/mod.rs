//! `/metrics`: a [`Scrape`] of plain data, and its text as Prometheus reads it. The families of
//! metrics are one table ([`families`]), which the reference is written from, too.

pub mod families;
mod text;
pub mod top;

use super::snapshot::Snapshot;
use crate::engine::observe::histogram::CounterHistogram;
use families::FAMILIES;
use std::borrow::Borrow;
use std::ops::Deref;
pub use text::Format;
use text::{Page, Part};
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
    /// What the other partitions leave of `maxmemory`; 0 without a limit.
    fn memory_bytes_left(&self) -> u64 {
        let least = self.memory_bytes_max.min(1);
        self.memory_bytes_max.saturating_sub(self.beside_bytes).max(least)
    }

    /// The earliest due time of all ready jobs.
    fn oldest_ready_age_ms(&self) -> Option<u64> {
        let rows = self.rows.iter().filter_map(|row| row.stats.oldest_ready_age_ms);
        rows.chain(self.rest.oldest_ready_age_ms).max()
    }
}

/// The text of a scrape of each partition of the process; where there are several, each sample has a label with the
/// number of its partition. Cost: some lines for each row.
pub fn render(scrapes: &[impl Borrow<Scrape>], format: Format) -> String {
    let number = |number| (scrapes.len() > 1).then_some(number);
    let parts = scrapes.iter().enumerate();
    let parts = parts.map(|(at, scrape)| Part::new(scrape.borrow(), number(at)));
    let mut parts: Vec<Part<'_>> = parts.collect();
    let mut page = Page::new(format, &parts);
    for family in FAMILIES.iter() {
        page.family(family, &mut parts);
    }
    page.finish()
}
