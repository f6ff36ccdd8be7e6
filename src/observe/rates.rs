//! Recent commands and bytes per second.

use crate::limits::RATE_SAMPLE_US;
use std::collections::VecDeque;

/// Samples kept: with one in 100 ms, the last second and a half.
const SAMPLES: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    pub commands: u64,
    pub input_bytes: u64,
    pub output_bytes: u64,
    pub due: u64,
    pub delivered: u64,
    pub acked: u64,
}

/// The latest samples.
#[derive(Debug, Default)]
pub struct Rates {
    samples: VecDeque<(u64, Totals)>,
}

impl Rates {
    /// Takes a sample if the last one is long enough ago.
    pub fn sample(&mut self, mono_us: u64, totals: Totals) {
        if self.samples.back().is_some_and(|(at, _)| mono_us < at + RATE_SAMPLE_US) {
            return;
        }
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back((mono_us, totals));
    }

    /// Per second, on average over the samples.
    pub fn per_second(&self) -> Totals {
        let (Some((start, first)), Some((end, last))) = (self.samples.front(), self.samples.back())
        else {
            return Totals::default();
        };
        // Counters fall to zero with CONFIG RESETSTAT.
        let rate = |last: u64, first: u64| {
            let gone = u128::from(last.saturating_sub(first)) * 1_000_000;
            (gone / u128::from((end - start).max(RATE_SAMPLE_US))) as u64
        };
        Totals {
            commands: rate(last.commands, first.commands),
            input_bytes: rate(last.input_bytes, first.input_bytes),
            output_bytes: rate(last.output_bytes, first.output_bytes),
            due: rate(last.due, first.due),
            delivered: rate(last.delivered, first.delivered),
            acked: rate(last.acked, first.acked),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_the_latest_samples() {
        let mut rates = Rates::default();
        for tenth in 0..100 {
            let totals = Totals { commands: tenth * 50, ..Totals::default() };
            rates.sample(tenth * RATE_SAMPLE_US, totals);
            rates.sample(tenth * RATE_SAMPLE_US + 1, Totals::default());
        }
        assert_eq!(rates.per_second().commands, 500);
        rates.sample(1_000 * RATE_SAMPLE_US, Totals::default());
        assert_eq!(rates.per_second().commands, 0);
    }
}
