//! How often each command ran, and for how long.

use crate::command::CommandSpec;
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
/// A command is found by where its row of the table stands in memory. Pipelines repeat a command
/// many times, so the one counted last is tried first: the usual count is two additions.
#[derive(Debug, Default)]
pub struct CommandTotals {
    rows: Vec<(&'static CommandSpec, CommandCounts)>,
    places: HashMap<*const CommandSpec, usize>,
    last: usize,
}

impl CommandTotals {
    /// Counts a command that ran.
    pub fn ran(&mut self, spec: &'static CommandSpec, took_ns: u64, failed: bool) {
        let counts = self.row(spec);
        counts.calls += 1;
        counts.took_ns += took_ns;
        counts.failed += u64::from(failed);
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

    fn row(&mut self, spec: &'static CommandSpec) -> &mut CommandCounts {
        let known = self.rows.get(self.last).is_some_and(|(last, _)| ptr::eq(*last, spec));
        if !known {
            self.last = *self.places.entry(ptr::from_ref(spec)).or_insert_with(|| {
                self.rows.push((spec, CommandCounts::default()));
                self.rows.len() - 1
            });
        }
        &mut self.rows[self.last].1
    }
}
