//! How many leases that run began in which second, so that the age of the oldest is known at any
//! time without looking at the leases.
//!
//! A ring of one count a second over the last day; what began before that counts together. A lease
//! costs an addition when it begins and one when it ends.

use std::collections::VecDeque;

use crate::limits::LEASE_AGES_MAX;
use crate::time::Micros;

#[derive(Debug, Default)]
pub struct Ages {
    /// From the second `first` on; the first count is not 0.
    counts: VecDeque<u32>,
    first: u64,
    /// Running leases that began earlier, or at an unknown time.
    older: u64,
}

/// When the oldest lease began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Oldest {
    /// No lease runs.
    None,
    /// In this second, unix time.
    Since(u64),
    /// Before this second, unix time; 0 if not even that is known.
    Before(u64),
}

fn second_of(begun: Micros) -> u64 {
    begun.0 / 1_000_000
}

impl Ages {
    /// A lease began; 0 for an unknown time.
    pub fn begin(&mut self, begun: Micros) {
        let second = second_of(begun);
        if second == 0 {
            self.older += 1;
            return;
        }
        if self.counts.is_empty() {
            self.first = second;
        }
        // The clock does not go back, but a state may have been loaded from elsewhere.
        let Some(at) = second.checked_sub(self.first) else {
            self.older += 1;
            return;
        };
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        if at >= LEASE_AGES_MAX {
            let gone = (at - LEASE_AGES_MAX + 1).min(self.counts.len());
            self.older += self.counts.drain(..gone).map(u64::from).sum::<u64>();
            self.first = second - (LEASE_AGES_MAX as u64 - 1);
            if self.counts.is_empty() {
                self.first = second;
            }
        }
        let at = (second - self.first) as usize;
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
        self.trim();
    }

    /// A lease that began then is over.
    pub fn end(&mut self, begun: Micros) {
        let second = second_of(begun);
        let at = second.checked_sub(self.first).map(|at| at as usize);
        match at.and_then(|at| self.counts.get_mut(at)) {
            Some(count) if second > 0 && *count > 0 => *count -= 1,
            _ => self.older = self.older.saturating_sub(1),
        }
        self.trim();
    }

    /// When the oldest lease began.
    pub fn oldest(&self) -> Oldest {
        match (self.older, self.counts.is_empty()) {
            (0, true) => Oldest::None,
            (0, false) => Oldest::Since(self.first),
            _ => Oldest::Before(self.first),
        }
    }

    pub fn count(&self) -> u64 {
        self.older + self.counts.iter().map(|count| u64::from(*count)).sum::<u64>()
    }

    fn trim(&mut self) {
        while self.counts.front() == Some(&0) {
            self.counts.pop_front();
            self.first += 1;
        }
        if self.counts.is_empty() {
            self.first = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Micros {
        Micros(second * 1_000_000 + 5)
    }

    #[test]
    fn the_oldest_is_the_first_that_has_not_ended() {
        let mut ages = Ages::default();
        assert_eq!(ages.oldest(), Oldest::None);
        for second in [100, 100, 103, 107] {
            ages.begin(at(second));
        }
        ages.end(at(100));
        assert_eq!(ages.oldest(), Oldest::Since(100));
        ages.end(at(107));
        ages.end(at(100));
        assert_eq!(ages.oldest(), Oldest::Since(103));
        ages.end(at(103));
        assert_eq!(ages.oldest(), Oldest::None);
        ages.begin(at(90));
        assert_eq!(ages.oldest(), Oldest::Since(90));
    }

    #[test]
    fn what_began_more_than_a_day_ago_counts_together() {
        let mut ages = Ages::default();
        let day = LEASE_AGES_MAX as u64;
        for second in [100, 101, 100 + day] {
            ages.begin(at(second));
        }
        assert_eq!(ages.oldest(), Oldest::Before(101));
        assert!(ages.counts.len() <= LEASE_AGES_MAX);
        ages.end(at(100));
        assert_eq!(ages.oldest(), Oldest::Since(101));
        ages.begin(at(100 + 5 * day));
        assert_eq!(ages.oldest(), Oldest::Before(100 + 5 * day));
        for second in [101, 100 + day] {
            ages.end(at(second));
        }
        assert_eq!(ages.oldest(), Oldest::Since(100 + 5 * day));
    }

    #[test]
    fn a_lease_of_unknown_age_is_older_than_all() {
        let mut ages = Ages::default();
        ages.begin(Micros(0));
        assert_eq!(ages.oldest(), Oldest::Before(0));
        ages.begin(at(50));
        assert_eq!(ages.oldest(), Oldest::Before(50));
        ages.end(Micros(0));
        assert_eq!(ages.oldest(), Oldest::Since(50));
    }
}
