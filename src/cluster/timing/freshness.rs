//! How old what this node shows may be: as of when it had all that was committed.
//!
//! A heartbeat from the leader does not suffice: a node whose disk is full hears heartbeats and accepts no entries. So
//! a leader with its lease, which knows everything that is committed anywhere, adds to each note of its clock how far
//! that is. Such a note was sent no earlier than `echo + held` by this node's own clock ([`ClockNote`]), however long
//! it took: once this node has applied that many entries, it has everything that existed then.
//!
//! A leader sends a note with each heartbeat: with one each 50 ms and a way of 1 ms a node that keeps up is between 0 and 52 ms
//! old.

use super::clocks::ClockNote;
use crate::time::Micros;
use std::collections::VecDeque;

#[derive(Clone, Debug, Default)]
pub struct Freshness {
    /// Up to which index all was committed, and when. Both grow.
    told: VecDeque<(u64, Micros)>,
}

/// The number of notes that may wait until their entries are applied: some seconds of them. Beyond that the newest
/// replaces the previous one, so that a node that catches up overestimates its age and never underestimates it.
const TOLD_MAX: usize = 64;

impl Freshness {
    /// A leader has said so. Without an echo nothing is known of when.
    pub fn hear(&mut self, note: &ClockNote) {
        if note.commit == 0 || note.echo == 0 {
            return;
        }
        let told = (note.commit, Micros(note.echo.saturating_add(note.held)));
        // Notes of two leaders may overtake each other.
        if self.told.back().is_some_and(|last| last.0 > told.0 || last.1 > told.1) {
            return;
        }
        // With an equal number of entries the newer note includes the older one.
        let is_same = self.told.back().is_some_and(|last| last.0 == told.0);
        if is_same || self.told.len() == TOLD_MAX {
            self.told.pop_back();
        }
        self.told.push_back(told);
    }

    /// Of the notes whose entries are all applied, the newest is enough.
    pub fn applied(&mut self, index: u64) {
        while self.told.get(1).is_some_and(|(commit, _)| *commit <= index) {
            self.told.pop_front();
        }
    }

    /// A note: up to which index everything was committed, and when.
    pub fn told(&self) -> Vec<(u64, Micros)> {
        self.told.iter().copied().collect()
    }
}

/// As of when a node has all that was committed that has applied up to `index`; nothing if that is not known.
pub fn as_of(told: &[(u64, Micros)], index: u64) -> Option<Micros> {
    told.iter().filter(|(commit, _)| *commit <= index).map(|(_, at)| *at).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(commit: u64, echo: u64, held: u64) -> ClockNote {
        ClockNote { commit, echo, held, ..ClockNote::default() }
    }

    fn heard(notes: &[ClockNote]) -> Freshness {
        let mut fresh = Freshness::default();
        notes.iter().for_each(|note| fresh.hear(note));
        fresh
    }

    #[test]
    fn it_is_as_old_as_the_newest_note_whose_entries_it_has() {
        let fresh = heard(&[note(5, 100, 10), note(8, 400, 10), note(8, 700, 10)]);
        let at = |index| as_of(&fresh.told(), index).map(|at| at.0);
        assert_eq!([4, 5, 7, 8, 9].map(at), [None, Some(110), Some(110), Some(710), Some(710)]);
    }

    #[test]
    fn who_does_not_lead_or_has_not_heard_this_node_says_nothing() {
        assert_eq!(heard(&[note(0, 100, 10), note(5, 0, 10)]).told(), []);
        // One that was overtaken.
        assert_eq!(heard(&[note(8, 400, 10), note(5, 500, 10), note(9, 300, 10)]).told().len(), 1);
    }

    #[test]
    fn who_catches_up_is_never_told_to_be_younger_than_it_is() {
        let all: Vec<ClockNote> = (1..100).map(|n| note(10 * n, 1_000 * n, 0)).collect();
        let mut fresh = heard(&all);
        assert_eq!(fresh.told().len(), TOLD_MAX);
        for index in 0..1_000 {
            fresh.applied(index);
            let at = as_of(&fresh.told(), index).map_or(0, |at| at.0);
            assert!(at <= index / 10 * 1_000, "{index}: {at}");
        }
        assert_eq!(as_of(&fresh.told(), 990), Some(Micros(99_000)));
        assert_eq!(fresh.told().len(), 1);
    }
}
