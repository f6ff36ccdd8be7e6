//! The latest values of something: a ring of histograms, one for each five seconds of the last minute.

use crate::engine::model::lateness::Histogram;

/// What a slot covers, µs.
const SLOT_US: u64 = 5_000_000;
/// Slots of the last minute; the one that is being filled is beside them.
const SLOTS: u64 = 12;

/// Values of the last 60 to 65 seconds.
#[derive(Debug, Default)]
pub struct Minute {
    /// Each with the number of its five seconds; made when there is something to count.
    slots: Vec<(u64, Histogram)>,
}

impl Minute {
    /// Counts a value.
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
