//! How late jobs are: from the due time to the moment at which the reply that hands the job over went
//! to the kernel, for jobs for which a consumer was waiting when they fell due.

use super::window::Minute;
use crate::engine::model::lateness::Histogram;
use crate::engine::watch::histogram::CounterHistogram;

/// Upper bounds of what metrics tell of lateness, µs: half a ms to five minutes.
pub static LATE_US: [u64; 17] = [
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
];

/// Lateness of all queues since the start.
#[derive(Debug)]
pub struct Lateness {
    ever: Histogram,
    minute: Minute,
    spread: CounterHistogram,
}

impl Default for Lateness {
    fn default() -> Lateness {
        let (ever, minute) = (Histogram::default(), Minute::default());
        Lateness { ever, minute, spread: CounterHistogram::new(&LATE_US) }
    }
}

impl Lateness {
    /// Counts a job that left `late_us` after its due time.
    pub fn record(&mut self, mono_us: u64, late_us: u64) {
        self.ever.record(late_us);
        self.minute.record(mono_us, late_us);
        self.spread.record(late_us);
    }

    /// Since the start: p50, p99, p99.9 and the greatest, µs.
    pub fn ever_us(&self) -> [u64; 4] {
        shares(&self.ever)
    }

    /// The same of the last minute.
    pub fn minute_us(&self, mono_us: u64) -> [u64; 4] {
        shares(&self.minute.all(mono_us))
    }

    /// Counts below fixed bounds, since the start.
    pub fn spread(&self) -> &CounterHistogram {
        &self.spread
    }
}

fn shares(histogram: &Histogram) -> [u64; 4] {
    let [p50, p99, p999] = [500, 990, 999].map(|share| histogram.percentile(share));
    [p50, p99, p999, histogram.max()]
}
