//! A level: 256 slots, each for an equal part of the time the level covers.

use super::list::List;
use crate::pool::Pool;

/// Slots of a level.
pub(super) const SLOTS: usize = 256;
/// Levels a wheel can have above each other: 8 digits of 8 bits are the whole of a u64.
pub(super) const HEIGHTS: usize = 8;

const LEVELS_PER_BLOCK: usize = 16;

/// The levels of all wheels of a partition.
pub(super) type Levels = Pool<Level, LEVELS_PER_BLOCK>;

/// A level of some height: slot `s` is for the due times whose digit `height` is `s`, the digits
/// above being those of the level.
///
/// No level in use is empty, and a level given back is empty, so that it needs no preparing when it
/// is used again.
#[derive(Clone, Debug)]
pub(super) struct Level {
    /// A bit per slot that has a list or a level below.
    bits: [u64; SLOTS / 64],
    /// The slot this level was opened from (see [`tag`]), 0 if it is on the path.
    pub(super) parent: u32,
    pub(super) height: u32,
    /// The timers of a slot that are not yet moved to the level below.
    pub(super) lists: [List; SLOTS],
    /// The level below a slot, for slots opened ahead of their time.
    pub(super) children: [u32; SLOTS],
}

impl Default for Level {
    fn default() -> Level {
        Level {
            bits: [0; SLOTS / 64],
            parent: 0,
            height: 0,
            lists: [List::default(); SLOTS],
            children: [0; SLOTS],
        }
    }
}

impl Level {
    #[inline]
    pub(super) fn mark(&mut self, slot: usize) {
        self.bits[slot / 64] |= 1 << (slot % 64);
    }

    #[inline]
    pub(super) fn unmark(&mut self, slot: usize) {
        self.bits[slot / 64] &= !(1 << (slot % 64));
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.bits == [0; SLOTS / 64]
    }

    /// The first slot in use that is not before `from`.
    #[inline]
    pub(super) fn next(&self, from: usize) -> Option<usize> {
        if from >= SLOTS {
            return None;
        }
        let mut word = from / 64;
        let mut bits = self.bits[word] & u64::MAX << (from % 64);
        while bits == 0 {
            word += 1;
            bits = *self.bits.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }
}

/// Digit `height` of a time: bits `8 * height` and the seven above.
#[inline]
pub(super) fn digit(time: u64, height: u32) -> usize {
    (time >> (8 * height)) as usize % SLOTS
}

/// The first millisecond of slot `slot` at `height`, the digits above being those of `time`.
#[inline]
pub(super) fn slot_start(time: u64, height: u32, slot: usize) -> u64 {
    let above = !(u64::MAX >> (56 - 8 * height));
    time & above | (slot as u64) << (8 * height)
}

/// The earliest time at which a slot must be opened ahead of its time: when the one before it begins. `time` is any
/// time within it.
#[inline]
pub(super) fn opening_time(time: u64, height: u32) -> u64 {
    slot_start(time, height, digit(time, height)).saturating_sub(1 << (8 * height))
}

/// The highest digit in which two times differ; 0 if they are equal.
#[inline]
pub(super) fn height_apart(a: u64, b: u64) -> u32 {
    (63 - ((a ^ b) | 1).leading_zeros()) / 8
}

/// A slot of a level as one number: what the chunks of its list are tagged with.
#[inline]
pub(super) fn tag(level: u32, slot: usize) -> u32 {
    level << 8 | slot as u32
}

/// The level and slot of a tag.
#[inline]
pub(super) fn from_tag(tag: u32) -> (u32, usize) {
    (tag >> 8, tag as usize % SLOTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_starts_cover_the_whole_range() {
        assert_eq!(digit(0x0102_0304_0506_0708, 7), 1);
        assert_eq!(digit(0x0102_0304_0506_0708, 0), 8);
        assert_eq!(slot_start(0x0102_0304_0506_0708, 1, 0xff), 0x0102_0304_0506_ff00);
        assert_eq!(slot_start(u64::MAX, 7, 3), 3 << 56);
        assert_eq!(slot_start(u64::MAX, 0, 3), u64::MAX - 252);
        assert_eq!(opening_time(0x0002_0304, 1), 0x0002_0200);
        assert_eq!(opening_time(0x0002_0304, 2), 0x0001_0000);
        assert_eq!(opening_time(0x99, 1), 0);
        assert_eq!((height_apart(5, 5), height_apart(0, 255), height_apart(0, 256)), (0, 0, 1));
        assert_eq!(height_apart(0, u64::MAX), 7);
    }

    #[test]
    fn next_finds_every_slot_from_every_slot() {
        let mut level = Level::default();
        assert_eq!(level.next(0), None);
        for slot in [0, 63, 64, 200, 255] {
            level.mark(slot);
        }
        assert_eq!(level.next(0), Some(0));
        assert_eq!(level.next(1), Some(63));
        assert_eq!(level.next(64), Some(64));
        assert_eq!(level.next(65), Some(200));
        assert_eq!(level.next(201), Some(255));
        assert_eq!(level.next(256), None);
        level.unmark(255);
        assert_eq!(level.next(201), None);
    }
}
