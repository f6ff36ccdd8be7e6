//! What `/metrics` tells: a [`Snapshot`] of plain data, and its text as Prometheus reads it. The
//! families of metrics are one table ([`families`]), which the reference is written from, too.

pub mod families;
mod label;
pub mod reference;
mod text;
pub mod top;

use super::Counters;
use super::commands::CommandCounts;
use super::persistence::Persistence;
use crate::engine::watch::histogram::Spread;
use crate::engine::watch::tally::Tally;
use families::FAMILIES;
pub use text::Format;
use text::Page;
use top::{Rest, Row};

/// Upper bounds of what metrics tell of turns, µs.
pub static TURN_US: [u64; 12] =
    [10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 100_000, 1_000_000];

/// Upper bounds of what metrics tell of syncs, µs.
pub static SYNC_US: [u64; 13] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
    10_000_000,
];

/// All that is told, as of one moment. Names and units are those of the metrics.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each is the metric of its name")]
pub struct Snapshot {
    pub version: &'static str,
    pub redis_version: &'static str,
    pub now_us: u64,
    pub start_us: u64,
    pub ready: bool,
    pub queues: [u64; 16],
    /// Delayed, ready, leased, dead.
    pub jobs: [u64; 4],
    pub waiters: u64,
    pub journal_waiters: u64,
    pub oldest_lease_age_us: Option<u64>,
    pub next_wakeup_ms: Option<u64>,
    pub tally: Tally,
    pub lateness: Spread,
    /// Of the last minute: p50, p99, p99.9, greatest.
    pub lateness_minute_us: [u64; 4],
    pub clients: u64,
    pub clients_max: u64,
    pub counters: Counters,
    pub commands: Vec<(&'static str, CommandCounts)>,
    pub errors: Vec<(String, u64)>,
    pub engine_bytes: u64,
    /// Bytes that jobs take more once all have been delivered.
    pub lease_bytes: u64,
    pub clients_bytes: u64,
    pub memory_bytes_max: u64,
    pub clients_bytes_max: u64,
    pub memory_bytes_peak: u64,
    pub memory_bytes_resident: u64,
    pub processor_s: (f64, f64),
    pub journal: Persistence,
    pub syncs: Spread,
    pub turns: Spread,
    pub clock_steps: u64,
    pub clock_doubted_us: u64,
    pub standstills: u64,
    pub standstill_us: u64,
    pub clock_ahead_us: u64,
    /// Queues with lines of their own, by database and name.
    pub rows: Vec<Row>,
    /// The other queues together.
    pub rest: Rest,
}

impl Snapshot {
    /// The earliest due time of all ready jobs.
    fn oldest_ready_age_ms(&self) -> Option<u64> {
        let rows = self.rows.iter().filter_map(|row| row.stats.oldest_ready_age_ms);
        rows.chain(self.rest.oldest_ready_age_ms).max()
    }
}

/// The text of a scrape. Cost: some lines for each row.
pub fn render(snapshot: &Snapshot, format: Format) -> String {
    let mut page = Page::new(snapshot, format);
    for family in &FAMILIES {
        page.family(family);
    }
    page.finish()
}
