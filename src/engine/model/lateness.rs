//! A histogram of lateness in 512 bytes.

/// Each power of two is cut into four buckets, so that a percentile is off by 12 % at most.
const CUTS: u32 = 4;
const BUCKETS: usize = 128;

/// Counts of values in µs, 0 to 2^32 (71 minutes) and beyond in the last bucket.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Histogram {
    counts: [u32; BUCKETS],
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: [0; BUCKETS], max: 0 }
    }
}

/// 0 1 2 3 have a bucket each; then 4 5 6 7, 8-9 10-11 12-13 14-15, 16-19 …
fn bucket(value: u64) -> usize {
    if value < 4 {
        return value as usize;
    }
    let power = value.ilog2();
    let cut = (value >> (power - 2)) & 3;
    (((power - 1) * CUTS) as usize + cut as usize).min(BUCKETS - 1)
}

/// The middle of a bucket.
fn middle(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    let power = bucket as u32 / CUTS + 1;
    let width = 1u64 << (power - 2);
    (4 + bucket as u64 % 4) * width + width / 2
}

impl Histogram {
    /// Counts one value; true if it is the first of its bucket. A full counter halves all, which keeps
    /// the proportions.
    pub fn record(&mut self, value: u64) -> bool {
        let at = bucket(value);
        if self.counts[at] == u32::MAX {
            self.counts.iter_mut().for_each(|count| *count /= 2);
        }
        self.counts[at] += 1;
        self.max = self.max.max(value);
        self.counts[at] == 1
    }

    /// Counts all that another counted.
    pub fn add(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(more);
        }
        self.max = self.max.max(other.max);
    }

    /// What was counted since it was `before`.
    pub fn since(&self, before: &Histogram) -> Histogram {
        let mut since = self.clone();
        for (count, before) in since.counts.iter_mut().zip(before.counts) {
            *count = count.saturating_sub(before);
        }
        since
    }

    /// The buckets that have counts, by number.
    pub fn filled(&self) -> impl Iterator<Item = (u8, u32)> + '_ {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(bucket, count)| (bucket as u8, *count))
    }

    /// Sets a value of [`Histogram::filled`]; false if there is no such bucket.
    #[must_use]
    pub fn restore(&mut self, bucket: u8, count: u32) -> bool {
        self.counts.get_mut(usize::from(bucket)).map(|slot| *slot = count).is_some()
    }

    /// Sets the value of [`Histogram::max`].
    pub fn restore_max(&mut self, max: u64) {
        self.max = max;
    }

    /// The value below which `permille` of 1,000 lie; 0 when nothing was counted.
    pub fn percentile(&self, permille: u64) -> u64 {
        let total: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        let wanted = (total * permille).div_ceil(1_000);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= wanted && seen > 0 {
                return middle(bucket).min(self.max);
            }
        }
        0
    }

    /// How many values were counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// How many of them were below `value`, by the precision of its bucket.
    pub fn count_below(&self, value: u64) -> u64 {
        self.counts[..bucket(value)].iter().map(|count| u64::from(*count)).sum()
    }

    /// The greatest value ever counted.
    pub fn max(&self) -> u64 {
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_grow_and_hold_their_middle() {
        let mut last = 0;
        for value in (0..100_000).chain((17..32).map(|power| (1 << power) - 1)) {
            let at = bucket(value);
            assert!(at >= last, "{value}");
            last = at;
            let off = middle(at).abs_diff(value) as f64;
            assert!(off <= value as f64 * 0.125, "{value} is in a bucket around {}", middle(at));
        }
        for at in 0..BUCKETS {
            assert_eq!(bucket(middle(at)), at);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_of_a_known_distribution() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile(500), 0);
        (1..=1_000).for_each(|value| {
            histogram.record(value);
        });
        assert!((440..=560).contains(&histogram.percentile(500)), "{}", histogram.percentile(500));
        assert!((870..=1_000).contains(&histogram.percentile(990)));
        assert_eq!(histogram.max(), 1_000);
    }
}
