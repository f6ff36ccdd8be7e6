//! How often each command ran, and for how long.

use crate::command::CommandSpec;
use crate::engine::model::lateness::Histogram;
use crate::limits::{ERROR_CLASS_BYTES_MAX, ERROR_CLASSES_MAX};
use std::collections::{BTreeMap, HashMap};
use std::ptr;

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
/// A command is found by the address of its row in the table. Pipelines repeat a command many
/// times, so the last counted one is tried first: the usual count is a few additions.
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
            // The greatest value with the same two leading digits.
            all.push((ns * 129 / 128 / 1_000, count));
            last = count;
        }
    }
    all
}

// How often each class of error was answered.

/// Error replies by the first word of their text.
#[derive(Clone, Debug, Default)]
pub struct ErrorCounts {
    by_class: BTreeMap<String, u64>,
    total: u64,
}

impl ErrorCounts {
    /// Counts an error reply by its text.
    pub fn count(&mut self, text: &str) {
        self.total += 1;
        let class = text.split(' ').next().unwrap_or_default();
        let own = !class.is_empty()
            && class.len() <= ERROR_CLASS_BYTES_MAX
            && class.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
        let class = if own { class } else { "ERR" };
        if let Some(count) = self.by_class.get_mut(class) {
            *count += 1;
        } else if self.by_class.len() < ERROR_CLASSES_MAX {
            self.by_class.insert(class.to_owned(), 1);
        }
    }

    /// All error replies.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Classes with their counts, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.by_class.iter().map(|(class, count)| (class.as_str(), *count))
    }
}

#[cfg(test)]
mod errors_tests {
    use super::*;

    #[test]
    fn counts_by_the_first_word() {
        let mut errors = ErrorCounts::default();
        for text in ["ERR a", "OOM b", "ERR c", "no class", ""] {
            errors.count(text);
        }
        assert_eq!(errors.iter().collect::<Vec<_>>(), [("ERR", 4), ("OOM", 1)]);
        assert_eq!(errors.total(), 5);
    }
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
