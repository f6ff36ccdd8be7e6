//! How often each command ran, and for how long.

use crate::command::CommandSpec;
use crate::engine::model::lateness::Histogram;
use std::collections::HashMap;
use std::ptr;

/// One command's counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CommandCounts {
    /// Times it ran.
    pub calls: u64,
    /// Time it ran, ns.
    pub took_ns: u64,
    /// Times it was refused before it ran.
    pub rejected: u64,
    /// Times it ran and was answered with an error.
    pub failed: u64,
}

/// All commands' counts.
///
/// How long each took is kept in buckets of an eighth more or less: 512 bytes a command, and one more
/// addition.
///
/// A command is found by where its row of the table stands in memory. Pipelines repeat a command
/// many times, so the one counted last is tried first: the usual count is a few additions.
#[derive(Clone, Debug, Default)]
pub struct CommandTotals {
    rows: Vec<(&'static CommandSpec, CommandCounts)>,
    /// How long each took, ns, in the order of the rows.
    times: Vec<Histogram>,
    /// By that place, an address.
    places: HashMap<usize, usize>,
    last: usize,
}

impl CommandTotals {
    /// Counts a command that ran.
    pub fn ran(&mut self, spec: &'static CommandSpec, took_ns: u64, failed: bool) {
        let counts = self.row(spec);
        counts.calls += 1;
        counts.took_ns += took_ns;
        counts.failed += u64::from(failed);
        self.times[self.last].record(took_ns);
    }

    /// Counts a command that was refused before it ran.
    pub fn rejected(&mut self, spec: &'static CommandSpec) {
        self.row(spec).rejected += 1;
    }

    /// Commands with their counts, in the order of their names.
    pub fn sorted(&self) -> Vec<(&'static str, CommandCounts)> {
        let mut rows: Vec<_> =
            self.rows.iter().map(|(spec, counts)| (spec.name, *counts)).collect();
        rows.sort_unstable_by_key(|(name, _)| *name);
        rows
    }

    /// Commands that ran, with how long they took, ns, in the order of their names.
    pub fn times(&self) -> Vec<(&'static str, &Histogram)> {
        let rows = self.rows.iter().zip(&self.times).filter(|((_, counts), _)| counts.calls > 0);
        let mut all: Vec<_> = rows.map(|((spec, _), times)| (spec.name, times)).collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        all
    }

    fn row(&mut self, spec: &'static CommandSpec) -> &mut CommandCounts {
        let known = self.rows.get(self.last).is_some_and(|(last, _)| ptr::eq(*last, spec));
        if !known {
            self.last = *self.places.entry(ptr::from_ref(spec).addr()).or_insert_with(|| {
                self.rows.push((spec, CommandCounts::default()));
                self.times.push(Histogram::default());
                self.rows.len() - 1
            });
        }
        &mut self.rows[self.last].1
    }
}

/// How many calls took up to 1, 2, 4, 8 … µs, as Redis counts them: in steps of 1,024 ns. Only where the
/// number grows.
pub fn up_to_us(times: &Histogram) -> Vec<(u64, u64)> {
    let (total, mut last, mut all) = (times.total(), 0, Vec::new());
    for step in 0.. {
        if last == total {
            break;
        }
        let ns = 1_024u64 << step;
        // The last bucket has no end.
        let count = if step >= 22 { total } else { times.count_below(ns + 1) };
        if count > last {
            // The greatest value that counts as so many, of two digits.
            all.push((ns * 129 / 128 / 1_000, count));
            last = count;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_up_to_powers_of_two() {
        let mut times = Histogram::default();
        for ns in [300, 900, 1_500, 5_000, 5_500, 33_500, 600_000, 9_000_000_000] {
            times.record(ns);
        }
        let expected = [
            (1, 2),
            (2, 3),
            (8, 5),
            (66, 6),
            (1_056, 7),
            (1_024 * 129 / 128 * (1 << 22) / 1_000, 8),
        ];
        assert_eq!(up_to_us(&times), expected);
        assert_eq!(up_to_us(&Histogram::default()), []);
    }
}
