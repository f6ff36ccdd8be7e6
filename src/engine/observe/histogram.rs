//! The distribution of values: a count for each of some fixed bounds, and their sum. Unlike a
//! [`Histogram`](crate::engine::model::lateness::Histogram) it never forgets a count, so that it can be published as a
//! counter.

/// Counts of values in µs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CounterHistogram {
    /// Upper bounds, inclusive, rising.
    bounds: &'static [u64],
    /// One for each bound, and one for what is above all.
    counts: Box<[u64]>,
    sum: u64,
}

impl CounterHistogram {
    /// Nothing counted. `bounds` are in µs, rising, each inclusive.
    pub fn new(bounds: &'static [u64]) -> CounterHistogram {
        CounterHistogram { bounds, counts: vec![0; bounds.len() + 1].into(), sum: 0 }
    }

    /// Counts a value. Small values are found first.
    pub fn record(&mut self, value_us: u64) {
        let at = self.bounds.iter().position(|bound| value_us <= *bound);
        self.counts[at.unwrap_or(self.bounds.len())] += 1;
        self.sum = self.sum.saturating_add(value_us);
    }

    /// As one that was counted elsewhere; `counts` has one more than `bounds`.
    pub fn of(bounds: &'static [u64], counts: Box<[u64]>, sum_us: u64) -> CounterHistogram {
        assert_eq!(counts.len(), bounds.len() + 1, "a count for each bound and one beyond");
        CounterHistogram { bounds, counts, sum: sum_us }
    }

    /// Each bound with how many values are not above it.
    pub fn below(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let counts = self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        self.bounds.iter().copied().zip(counts)
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum, µs.
    pub fn sum_us(&self) -> u64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_what_is_below_it() {
        let mut spread = CounterHistogram::new(&[10, 100]);
        for value in [0, 10, 11, 100, 101, u64::MAX - 300] {
            spread.record(value);
        }
        assert_eq!(spread.below().collect::<Vec<_>>(), [(10, 2), (100, 4)]);
        assert_eq!((spread.count(), spread.sum_us()), (6, u64::MAX - 78));
        spread.record(79);
        assert_eq!(spread.sum_us(), u64::MAX, "the sum stays at its end");
        assert_eq!(CounterHistogram::of(&[10, 100], [2, 3, 2].into(), u64::MAX), spread);
    }
}
