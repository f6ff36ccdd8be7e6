//! How late jobs are: from the due time to the moment at which the reply that hands the job over went
//! to the kernel, for jobs for which a consumer was waiting when they fell due.

use crate::engine::model::lateness::Histogram;
use crate::engine::observe::histogram::CounterHistogram;

/// Upper bounds of the lateness metric's buckets, µs: half a ms to five minutes.
pub static LATE_US: [u64; 17] = [
    500, 1_000, 2_000, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000, 300_000_000,
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

// The latest values of something: a ring of histograms, one for each five seconds of the last minute.

/// The span of a slot, µs.
const SLOT_US: u64 = 5_000_000;
/// Slots of the last minute; the current one is separate.
const SLOTS: u64 = 12;

/// Values of the last 60 to 65 seconds.
#[derive(Debug, Default)]
pub struct Minute {
    /// Each with the number of its five seconds; made when there is something to count.
    slots: Vec<(u64, Histogram)>,
}

impl Minute {
    pub fn record(&mut self, mono_us: u64, value_us: u64) {
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS as usize + 1, Default::default);
        }
        let number = mono_us / SLOT_US;
        let slot = &mut self.slots[(number % (SLOTS + 1)) as usize];
        if slot.0 != number {
            *slot = (number, Histogram::default());
        }
        slot.1.record(value_us);
    }

    /// All of them together.
    pub fn all(&self, mono_us: u64) -> Histogram {
        let number = mono_us / SLOT_US;
        let mut all = Histogram::default();
        let fresh = self.slots.iter().filter(|(slot, _)| slot + SLOTS >= number);
        fresh.for_each(|(_, histogram)| all.add(histogram));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_told_for_a_minute_and_forgotten_then() {
        let mut minute = Minute::default();
        let second = 1_000_000;
        assert_eq!(minute.all(0).max(), 0);
        // Once round the ring and on.
        for at in 100..200 {
            minute.record(at * second, at);
        }
        assert_eq!(minute.all(199 * second).max(), 199);
        assert!((128..160).contains(&minute.all(199 * second).percentile(0)));
        assert_eq!(minute.all(258 * second).max(), 199);
        assert_eq!(minute.all(270 * second).max(), 0);
    }
}
