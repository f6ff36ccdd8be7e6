//! The timers of a wheel that has few: a small sorted vector.

use super::list::Key;

/// More timers than this move into levels.
pub(super) const FEW_MAX: usize = 48;
/// A wheel with levels whose timers get as few as this returns to the vector: well below
/// [`FEW_MAX`], so that the moves are paid for by the operations between.
pub(super) const FEW_AGAIN: usize = 12;

/// A key and its due time in two halves: 12 bytes where a `(u64, u32)` has 16.
#[derive(Clone, Copy, Debug)]
struct TimerEntry {
    due_low: u32,
    due_high: u32,
    key: Key,
}

impl TimerEntry {
    #[inline]
    fn due(&self) -> u64 {
        u64::from(self.due_high) << 32 | u64::from(self.due_low)
    }
}

/// Timers sorted by due time, equal ones in the order they came.
#[derive(Debug, Default)]
pub(super) struct Few {
    entries: Vec<TimerEntry>,
}

impl Few {
    pub(super) fn insert(&mut self, due: u64, key: Key) {
        if self.entries.len() == self.entries.capacity() {
            // From 1, not from a Vec's 4: most queues have one job or two.
            self.entries.reserve_exact(self.entries.len().max(1));
        }
        let at = match self.entries.last() {
            Some(last) if last.due() > due => self.entries.partition_point(|e| e.due() <= due),
            _ => self.entries.len(),
        };
        let entry = TimerEntry { due_low: due as u32, due_high: (due >> 32) as u32, key };
        self.entries.insert(at, entry);
    }

    /// Removes `key`, which is here.
    pub(super) fn remove(&mut self, key: Key) {
        let at = self.entries.iter().position(|entry| entry.key == key);
        self.entries.remove(at.unwrap_or_else(|| panic!("timer {key} is not of this wheel")));
        self.shrink();
    }

    /// The timer of `key`, which is here, is that of `to`.
    pub(super) fn rename(&mut self, key: Key, to: Key) {
        let entry = self.entries.iter_mut().find(|entry| entry.key == key);
        entry.unwrap_or_else(|| panic!("timer {key} is not of this wheel")).key = to;
    }

    /// The soonest.
    #[inline]
    pub(super) fn first(&self) -> Option<(u64, Key)> {
        self.entries.first().map(|entry| (entry.due(), entry.key))
    }

    pub(super) fn pop_first(&mut self) -> Option<Key> {
        let (_, key) = self.first()?;
        self.entries.remove(0);
        self.shrink();
        Some(key)
    }

    pub(super) fn pop_last(&mut self) -> Option<Key> {
        let entry = self.entries.pop();
        self.shrink();
        entry.map(|entry| entry.key)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, Key)> {
        self.entries.iter().map(|entry| (entry.due(), entry.key))
    }

    pub(super) fn key_at(&self, index: usize) -> Option<Key> {
        self.entries.get(index).map(|entry| entry.key)
    }

    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<TimerEntry>()
    }

    /// Room for 4 is kept, so that a queue that goes between none and one does not allocate.
    fn shrink(&mut self) {
        if self.entries.is_empty() && self.entries.capacity() > 4 {
            self.entries = Vec::new();
        }
    }
}
