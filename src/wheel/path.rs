//! The levels of one wheel: the path to its cursor, and what has been opened ahead.

use super::Peek;
use super::level::{HEIGHTS, digit, from_tag, height_apart, slot_start, tag};
use super::list::{CHUNK_KEYS, Key, Place};
use super::timers::Timers;

/// The path: per height the level that covers the cursor, if it has any timers.
///
/// A timer hangs on the level of the highest digit in which its due time differs from the cursor.
/// So when the cursor is 0x1_02_80, in digits 1, 2, 128:
///
/// ```text
/// due 1,2,130  level 0, slot 130      exact: all of the slot are due in that millisecond
/// due 1,9,7    level 1, slot 9        256 ms in one slot, opened when the cursor gets to 1,9,0
/// due 3,2,130  level 2, slot 3        65 s in one slot
/// ```
///
/// The slots of the path's levels at the cursor's own digits are empty, but while they are *being
/// opened*: when the cursor enters slot 3 of level 2, its timers move to level 1 in as many steps as
/// the budget takes, front to back. Meanwhile
///
/// - the cursor stands still and nothing fires, for what is due first may be among those to come;
/// - a timer inserted for a time within the slot goes behind those that are yet to move.
///
/// As lists are first in, first out, timers of equal due time always stay in the order they came.
///
/// A slot that is not the cursor's can be opened too, ahead of its time: then the level below it
/// hangs on it as a child until the cursor enters the slot. Timers inserted since wait in the slot's
/// list, to be moved behind those that already were; so of equal due times those in the child come
/// first.
#[derive(Debug)]
pub(super) struct Path {
    levels: [u32; HEIGHTS],
    /// A bit per height whose level has timers in the slot at the cursor's digit: they are to move
    /// down before anything else. Never bit 0.
    opening: u8,
}

impl Path {
    pub(super) const fn new() -> Path {
        Path { levels: [0; HEIGHTS], opening: 0 }
    }

    pub(super) fn level(&self, height: usize) -> u32 {
        self.levels[height]
    }

    /// Puts an armed key into its slot. `due` is not before `cursor`.
    #[inline]
    pub(super) fn insert(&mut self, timers: &mut Timers, cursor: u64, due: u64, key: Key) {
        debug_assert!(due >= cursor);
        // Below a slot that is being opened nothing may be inserted past its list.
        let height = height_apart(due, cursor).max(self.opening_height());
        let level = self.level_or_new(timers, height);
        timers.hang(level, due, key);
    }

    /// Takes out the key at `place`.
    #[inline]
    pub(super) fn remove(&mut self, timers: &mut Timers, cursor: u64, key: Key, place: Place) {
        if let Some((level, slot)) = timers.unhang(key, place) {
            self.vacate(timers, cursor, level, slot);
        }
    }

    /// Takes out the first key of the slot at the cursor, which `peek` has just told of.
    #[inline]
    pub(super) fn take(&mut self, timers: &mut Timers, cursor: u64) -> Option<Key> {
        let (level, slot) = (self.levels[0], digit(cursor, 0));
        let list = &mut timers.levels.get_mut(level).lists[slot];
        let key = list.pop_front(&mut timers.chunks)?;
        if list.is_empty() {
            self.vacate(timers, cursor, level, slot);
        }
        timers.disarm(key);
        Some(key)
    }

    /// Moves the cursor as far as `now`, or to the first timer due.
    #[inline]
    pub(super) fn peek(
        &mut self,
        timers: &mut Timers,
        cursor: &mut u64,
        now: u64,
        budget: &mut u32,
    ) -> Peek {
        loop {
            if self.opening == 0 && self.levels[0] != 0 {
                let level = timers.levels.get(self.levels[0]);
                let slot =
                    level.next(digit(*cursor, 0)).expect("what is before the cursor is gone");
                let time = slot_start(*cursor, 0, slot);
                if time > now {
                    *cursor = now.max(*cursor);
                    return Peek::Empty;
                }
                *cursor = time;
                let (key, _) = level.lists[slot].front(&timers.chunks).expect("marked slots do");
                return Peek::Due(key);
            }
            if let Some(result) = self.advance(timers, cursor, now, budget) {
                return result;
            }
        }
    }

    /// One step towards the first timer on level 0; says if there is nothing to be done, or no
    /// budget to do it.
    fn advance(
        &mut self,
        timers: &mut Timers,
        cursor: &mut u64,
        now: u64,
        budget: &mut u32,
    ) -> Option<Peek> {
        if self.opening != 0 {
            if *budget == 0 {
                return Some(Peek::More);
            }
            self.open_path(timers, *cursor, budget);
            return None;
        }
        let Some((height, slot)) = self.first_slot(timers, *cursor) else {
            *cursor = now.max(*cursor);
            return Some(Peek::Empty);
        };
        let start = slot_start(*cursor, height, slot);
        if start > now {
            // Nothing lies between, so the levels of the path below this one do not exist.
            *cursor = now.max(*cursor);
            return Some(Peek::Empty);
        }
        if *budget == 0 {
            return Some(Peek::More);
        }
        *budget -= 1;
        *cursor = start;
        self.enter(timers, start, height);
        None
    }

    /// When something has to be done next, never too late; at the cursor while a slot is being
    /// opened.
    pub(super) fn next_wakeup(&self, timers: &Timers, cursor: u64) -> Option<u64> {
        if self.opening != 0 {
            return Some(cursor);
        }
        let (mut height, mut slot) = self.first_slot(timers, cursor)?;
        let mut level = timers.levels.get(self.levels[height as usize]);
        let mut time = slot_start(cursor, height, slot);
        // Ahead of its time opened: then the first slot of the level below is known as well.
        while level.lists[slot].is_empty() {
            level = timers.levels.get(level.children[slot]);
            height -= 1;
            slot = level.next(0).expect("no level is empty");
            time = slot_start(time, height, slot);
        }
        Some(time)
    }

    /// Opens slots until the first `count` timers are on level 0; false if the budget ended first.
    pub(super) fn open_ahead(
        &mut self,
        timers: &mut Timers,
        cursor: u64,
        count: usize,
        budget: &mut u32,
    ) -> bool {
        while self.opening != 0 {
            if *budget == 0 {
                return false;
            }
            self.open_path(timers, cursor, budget);
        }
        let mut left = count;
        for height in 0..HEIGHTS {
            let level = self.levels[height];
            if level != 0 && !open_level(timers, level, &mut left, budget) {
                return false;
            }
            if left == 0 {
                break;
            }
        }
        true
    }

    /// Whether timers of a slot on the path are yet to move to the levels below `height`.
    pub(super) fn is_opening(&self) -> bool {
        self.opening != 0
    }

    /// Takes out keys in no order, at most as many as fit into a chunk; returns how many.
    pub(super) fn take_any(
        &mut self,
        timers: &mut Timers,
        cursor: u64,
        max: u32,
        keys: &mut [Key; CHUNK_KEYS],
    ) -> usize {
        let Some(&lowest) = self.levels.iter().find(|&&level| level != 0) else {
            return 0;
        };
        let (mut level, mut slot);
        let mut below = lowest;
        loop {
            level = below;
            let here = timers.levels.get(level);
            slot = here.next(0).expect("no level is empty");
            if !here.lists[slot].is_empty() {
                break;
            }
            below = here.children[slot];
        }
        let list = &mut timers.levels.get_mut(level).lists[slot];
        let count = list.pop_batch(&mut timers.chunks, max, keys);
        if list.is_empty() {
            self.vacate(timers, cursor, level, slot);
        }
        for &key in &keys[..count] {
            timers.disarm(key);
        }
        count
    }

    /// The first slot in use, when none is being opened.
    fn first_slot(&self, timers: &Timers, cursor: u64) -> Option<(u32, usize)> {
        let height = self.levels.iter().position(|&level| level != 0)?;
        let level = timers.levels.get(self.levels[height]);
        let slot = level.next(digit(cursor, height as u32));
        Some((height as u32, slot.expect("what is before the cursor is gone")))
    }

    /// The cursor has come to the start of a slot at `height` that is in use: what was opened ahead
    /// becomes the path, and what is still to move is noted as being opened.
    fn enter(&mut self, timers: &mut Timers, cursor: u64, height: u32) {
        let mut height = height;
        loop {
            let at = self.levels[height as usize];
            let slot = digit(cursor, height);
            let level = timers.levels.get_mut(at);
            let child = std::mem::take(&mut level.children[slot]);
            if level.lists[slot].is_empty() {
                level.unmark(slot);
                if level.is_empty() {
                    timers.levels.free(at);
                    self.levels[height as usize] = 0;
                }
            } else if height > 0 {
                self.opening |= 1 << height;
            }
            if child == 0 {
                return;
            }
            height -= 1;
            debug_assert_eq!(self.levels[height as usize], 0, "levels passed by are empty");
            self.levels[height as usize] = child;
            let below = timers.levels.get_mut(child);
            below.parent = 0;
            // On level 0 the first slot is drained where it is.
            if height == 0 || below.next(0) != Some(0) {
                return;
            }
        }
    }

    /// Moves timers of the highest slot that is being opened, one chunk at most.
    fn open_path(&mut self, timers: &mut Timers, cursor: u64, budget: &mut u32) {
        let height = self.opening_height();
        let (from, slot) = (self.levels[height as usize], digit(cursor, height));
        let below = height - 1;
        let to = self.level_or_new(timers, below);
        let emptied = move_chunk(timers, from, slot, to, cursor, budget);
        if below > 0 && !timers.levels.get(to).lists[digit(cursor, below)].is_empty() {
            self.opening |= 1 << below;
        }
        if emptied {
            self.vacate(timers, cursor, from, slot);
        }
    }

    /// The list of a slot has become empty: the slot is no longer in use, if it has no child, and
    /// if it was the level's last, the level neither, and so upwards.
    fn vacate(&mut self, timers: &mut Timers, cursor: u64, level: u32, slot: usize) {
        let (mut at, mut slot) = (level, slot);
        loop {
            let level = timers.levels.get_mut(at);
            let (height, parent) = (level.height, level.parent);
            if parent == 0 && slot == digit(cursor, height) {
                self.opening &= !(1 << height);
            }
            if level.children[slot] != 0 || !level.lists[slot].is_empty() {
                return;
            }
            level.unmark(slot);
            if !level.is_empty() {
                return;
            }
            timers.levels.free(at);
            if parent == 0 {
                self.levels[height as usize] = 0;
                return;
            }
            (at, slot) = from_tag(parent);
            timers.levels.get_mut(at).children[slot] = 0;
        }
    }

    #[inline]
    fn opening_height(&self) -> u32 {
        7 - (self.opening | 1).leading_zeros()
    }

    #[inline]
    fn level_or_new(&mut self, timers: &mut Timers, height: u32) -> u32 {
        if self.levels[height as usize] == 0 {
            self.levels[height as usize] = new_level(timers, height, 0);
        }
        self.levels[height as usize]
    }
}

fn new_level(timers: &mut Timers, height: u32, parent: u32) -> u32 {
    let at = timers.levels.alloc();
    assert!(at < 1 << 24, "at most 2^24 levels");
    let level = timers.levels.get_mut(at);
    debug_assert!(level.is_empty());
    (level.height, level.parent) = (height, parent);
    at
}

/// Moves timers of a slot's first chunk to the level below; true if the slot's list is empty now.
///
/// A chunk at a time: its keys' due times are read all at once before the first is moved.
fn move_chunk(
    timers: &mut Timers,
    from: u32,
    slot: usize,
    to: u32,
    cursor: u64,
    budget: &mut u32,
) -> bool {
    let mut keys = [0; CHUNK_KEYS];
    let mut dues = [0; CHUNK_KEYS];
    let list = &mut timers.levels.get_mut(from).lists[slot];
    let count = list.pop_batch(&mut timers.chunks, *budget, &mut keys);
    let emptied = list.is_empty();
    timers.dues(&keys[..count], &mut dues);
    for (&key, &due) in keys[..count].iter().zip(&dues) {
        // A timer inserted late into the cursor's slot stands for the cursor's time.
        timers.hang(to, due.max(cursor), key);
    }
    *budget -= count as u32;
    emptied
}

/// Opens the slots of a level off the cursor until `left` timers are on level 0 or the level has no
/// more; false if the budget ended first.
fn open_level(timers: &mut Timers, at: u32, left: &mut usize, budget: &mut u32) -> bool {
    let height = timers.levels.get(at).height;
    let mut slot = timers.levels.get(at).next(0);
    while let Some(here) = slot {
        if *left == 0 {
            return true;
        }
        if height == 0 {
            let list = timers.levels.get(at).lists[here];
            *left = left.saturating_sub(list.count_to(&timers.chunks, *left));
        } else {
            while !timers.levels.get(at).lists[here].is_empty() {
                if *budget == 0 {
                    return false;
                }
                if timers.levels.get(at).children[here] == 0 {
                    let child = new_level(timers, height - 1, tag(at, here));
                    timers.levels.get_mut(at).children[here] = child;
                }
                let child = timers.levels.get(at).children[here];
                move_chunk(timers, at, here, child, 0, budget);
            }
            let child = timers.levels.get(at).children[here];
            if !open_level(timers, child, left, budget) {
                return false;
            }
        }
        slot = timers.levels.get(at).next(here + 1);
    }
    true
}
