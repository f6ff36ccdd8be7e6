//! The levels of one wheel: the path to its cursor, and what has been opened ahead.

use super::Peek;
use super::level::{HEIGHTS, Level, digit, from_tag, height_apart, opening_time, slot_start, tag};
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
/// - a timer inserted for a time within the slot goes after those not yet moved.
///
/// As lists are first in, first out, timers of equal due time always stay in the order they came.
///
/// A slot that is not the cursor's can be opened too, ahead of its time: then the level below it is attached to it as a
/// child until the cursor enters the slot. Once its list is empty, timers are inserted into the child. Until then they
/// wait in the list, and are moved after the ones that were there before; so of equal due times those in the child come
/// first.
#[derive(Default, Debug)]
pub(super) struct Path {
    levels: [u32; HEIGHTS],
    /// A bit per height whose level has timers in the slot at the cursor's digit: they must move
    /// down before anything else. Never bit 0.
    opening: u8,
}

impl Path {
    pub(super) fn level(&self, height: usize) -> u32 {
        self.levels[height]
    }

    /// Puts an armed key into its slot. `due` is not before `cursor`. If the slot holds many, returns when to open it.
    #[inline]
    pub(super) fn insert(
        &mut self,
        timers: &mut Timers,
        cursor: u64,
        due: u64,
        key: Key,
    ) -> Option<u64> {
        debug_assert!(due >= cursor);
        // Below a slot that is being opened nothing may be inserted past its list.
        let mut height = height_apart(due, cursor).max(self.opening_height());
        let mut level = self.level_or_new(timers, height);
        while height > 0 {
            let (here, slot) = (timers.levels.get(level), digit(due, height));
            if here.children[slot] == 0 || !here.lists[slot].is_empty() {
                break;
            }
            (level, height) = (here.children[slot], height - 1);
        }
        let is_long = timers.hang(level, due, key);
        (is_long && height > 0).then(|| opening_time(due, height))
    }

    /// Whether no slot begins from the cursor to `now`.
    pub(super) fn is_clear(&self, timers: &Timers, cursor: u64, now: u64) -> bool {
        let begins = |(height, slot)| slot_start(cursor, height, slot);
        self.opening == 0 && self.first_slot(timers, cursor).map(begins).is_none_or(|at| at > now)
    }

    /// When to open a slot that holds many timers ahead of its time, or earlier.
    pub(super) fn next_opening(&self, timers: &Timers, cursor: u64) -> Option<u64> {
        if self.opening != 0 {
            return None;
        }
        let levels = (1..HEIGHTS).filter(|height| self.levels[*height] != 0);
        let opening = |height| {
            let from = digit(cursor, height as u32) + 1;
            next_opening_in(timers, self.levels[height], from, cursor, cursor)
        };
        levels.filter_map(opening).min()
    }

    /// Opens the slots whose time has come: of each height the one after the cursor's, the lowest
    /// and so soonest first. False if the budget ended before.
    pub(super) fn open_next(&mut self, timers: &mut Timers, cursor: u64, budget: &mut u32) -> bool {
        if self.opening != 0 {
            return true;
        }
        for height in 1..HEIGHTS as u32 {
            if let Some((level, slot)) = self.slot_after(timers, cursor, height)
                && timers.levels.get(level).lists[slot].is_long()
                && !open_slot(timers, level, slot, budget)
            {
                return false;
            }
        }
        true
    }

    /// The slot of `height` that comes after the cursor's, if it can be seen: the slots above that it is
    /// a part of have been opened.
    fn slot_after(&self, timers: &Timers, cursor: u64, height: u32) -> Option<(u32, usize)> {
        let width = 1 << (8 * height);
        let start = (cursor & !(width - 1)).checked_add(width)?;
        let mut above = height_apart(start, cursor);
        let mut level = self.levels[above as usize];
        while level != 0 && above > height {
            level = timers.levels.get(level).children[digit(start, above)];
            above -= 1;
        }
        (level != 0).then(|| (level, digit(start, height)))
    }

    /// Takes out the key at `place`.
    #[inline]
    pub(super) fn remove(&mut self, timers: &mut Timers, cursor: u64, key: Key, place: Place) {
        if let Some((level, slot)) = timers.unhang(key, place) {
            self.vacate(timers, cursor, level, slot);
        }
    }

    /// Takes out the first key of the slot at the cursor, which `peek` has just returned.
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

    /// When the next work is due, never too late; at the cursor while a slot is being opened.
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

/// The number of slots of a level examined in one search for the next one to open; after them the search continues.
const LOOKED_AT_MAX: usize = 16;

/// When to open the first slot that holds many timers, or earlier, of those from `from` on in a level of height 1 or
/// more. `time` is any time within the level.
///
/// A slot that has been opened is looked into once the slot before it has begun. That is so for one slot
/// of each height at most, so that all this looks at some dozens of slots, however many PEEK has opened.
fn next_opening_in(timers: &Timers, at: u32, from: usize, time: u64, cursor: u64) -> Option<u64> {
    let level = timers.levels.get(at);
    let (mut next, mut within) = (level.next(from), None::<u64>);
    let mut looked_at = 0;
    while let Some(slot) = next {
        let start = slot_start(time, level.height, slot);
        let (opens, child) = (opening_time(start, level.height), level.children[slot]);
        let is_near = opens <= cursor;
        let has_more = child != 0 && level.height > 1;
        if level.lists[slot].is_long() || has_more && !is_near || looked_at == LOOKED_AT_MAX {
            return within.into_iter().chain([opens]).min();
        }
        if has_more {
            let below = next_opening_in(timers, child, 0, start, cursor);
            within = within.into_iter().chain(below).min();
        }
        looked_at += 1;
        next = level.next(slot + 1);
    }
    within
}

/// Moves the timers of a slot off the cursor to a child; false if the budget ended before.
fn open_slot(timers: &mut Timers, at: u32, slot: usize, budget: &mut u32) -> bool {
    while !timers.levels.get(at).lists[slot].is_empty() {
        if *budget == 0 {
            return false;
        }
        let Level { height, children, .. } = timers.levels.get(at);
        let (height, child) = (*height, children[slot]);
        let child = match child {
            0 => new_level(timers, height - 1, tag(at, slot)),
            child => child,
        };
        timers.levels.get_mut(at).children[slot] = child;
        move_chunk(timers, at, slot, child, 0, budget);
    }
    true
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
        // A timer inserted late into the cursor's slot has the cursor's time.
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
            if !open_slot(timers, at, here, budget) {
                return false;
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
