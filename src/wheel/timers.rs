//! State shared by all wheels of a partition: a cell per key, and the pools of chunks and levels.

use super::level::Levels;
use super::list::{Chunks, Key, Place};
use crate::time::Millis;

/// As many as jobs in four of their blocks, 192 KiB: what is given back when they are.
const CELLS_PER_BLOCK: usize = 1 << 14;

/// Where a timer is that is in no wheel.
const UNARMED: u32 = 0;
/// Where a timer is that sits in a wheel's small vector.
const FEW: u32 = 1;
const _: () = assert!(FEW < Place::FIRST);

/// Where a timer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Spot {
    /// In no wheel.
    Unarmed,
    /// In the small vector of a wheel.
    Few,
    /// In a slot of a wheel.
    Slot(Place),
}

/// The due time of a key, low half first, and the place of its timer: 12 bytes on one cache line,
/// because code that uses one uses the other.
type Cell = [u32; 3];

/// None where no key of a block was used since it was given back.
#[derive(Default, Debug)]
struct Cells(Vec<Option<Box<[Cell; CELLS_PER_BLOCK]>>>);

impl Cells {
    #[inline]
    fn get(&self, key: Key) -> Option<&Cell> {
        let block = self.0.get(key as usize / CELLS_PER_BLOCK)?.as_ref()?;
        Some(&block[key as usize % CELLS_PER_BLOCK])
    }

    /// The cell of a key that has one.
    #[inline]
    fn of(&self, key: Key) -> &Cell {
        self.get(key).expect("a key in use has a cell")
    }

    /// The same, to change.
    #[inline]
    fn of_mut(&mut self, key: Key) -> &mut Cell {
        let block = self.0[key as usize / CELLS_PER_BLOCK].as_mut();
        &mut block.expect("a key in use has a cell")[key as usize % CELLS_PER_BLOCK]
    }
}

/// The timers of a partition: due time and place per key, and what its wheels are made of.
///
/// A key is the index of a job in its slab; it is in one wheel at most. 12 bytes per key, in blocks of
/// 16,384 that never move and go when their user says so ([`Timers::forget`]), and 4.7 to 21 bytes per armed
/// timer.
#[derive(Default, Debug)]
pub struct Timers {
    cells: Cells,
    pub(super) chunks: Chunks,
    pub(super) levels: Levels,
    /// Blocks of cells that are there.
    open_blocks: usize,
}

impl Timers {
    /// The due time last set for `key`, armed or not; 0 if none ever was.
    #[inline]
    pub fn due(&self, key: Key) -> Millis {
        self.cell(key).map_or(Millis(0), |cell| Millis(due_of(cell)))
    }

    /// Sets the due time of a key that is in no wheel. Panics if it is in one, whose order would
    /// break.
    pub fn set_due(&mut self, key: Key, due: Millis) {
        let cell = self.cell_mut(key);
        assert!(cell[2] == UNARMED, "key {key} is armed: its due time is its wheel's");
        set_due_of(cell, due.0);
    }

    /// Whether `key` is in a wheel.
    #[inline]
    pub fn is_armed(&self, key: Key) -> bool {
        self.cell(key).is_some_and(|cell| cell[2] != UNARMED)
    }

    /// Bytes held from the allocator, without what a [`Wheel`](super::Wheel) holds itself.
    pub fn bytes(&self) -> usize {
        self.open_blocks * CELLS_PER_BLOCK * size_of::<Cell>()
            + self.cells.0.capacity() * size_of::<Option<Box<[Cell; CELLS_PER_BLOCK]>>>()
            + self.bytes_of_slots()
    }

    /// Bytes of chunks that could be returned if all were as close together as possible.
    pub fn spare_bytes(&self) -> usize {
        self.chunks.spare_bytes()
    }

    /// Gives back what is kept for the next chunks and levels and holds none.
    pub fn close_empty(&mut self) {
        self.chunks.close_empty();
        self.levels.close_empty();
    }

    /// How many keys share what [`Timers::forget`] gives back.
    pub const fn keys_per_block() -> u32 {
        CELLS_PER_BLOCK as u32
    }

    /// Gives back what is held for the keys from a multiple of [`Timers::keys_per_block`] on, that many. None of
    /// them may be armed; their due times are forgotten.
    pub fn forget(&mut self, first: Key) {
        let block = self.cells.0.get_mut(first as usize / CELLS_PER_BLOCK);
        if let Some(cells) = block.and_then(Option::take) {
            debug_assert!(
                cells.iter().all(|cell| cell[2] == UNARMED),
                "keys in use are not forgotten"
            );
            self.open_blocks -= 1;
        }
    }

    /// Gives the timer of `key`, armed or not, to the key `to`, which has none. Its wheel must be told:
    /// [`Wheel::rename`](super::Wheel::rename).
    pub(super) fn rename(&mut self, key: Key, to: Key) -> Spot {
        // A job that was read from a base file and waits for nothing has none.
        let Some(cell) = self.cells.get(key).copied() else { return Spot::Unarmed };
        let spot = self.spot(key);
        let into = self.cell_mut(to);
        assert!(into[2] == UNARMED, "key {to} is in use");
        *into = cell;
        self.disarm(key);
        if let Spot::Slot(place) = spot {
            self.chunks.set_key(place, to);
        }
        spot
    }

    /// Moves the chunk of `key` to a lower block, if that helps to close one.
    pub fn move_below(&mut self, key: Key) {
        let Spot::Slot(place) = self.spot(key) else { return };
        let (level, slot) = super::level::from_tag(self.chunks.tag(place));
        let cells = &mut self.cells;
        let list = &mut self.levels.get_mut(level).lists[slot];
        list.move_below(&mut self.chunks, place, |key, place| {
            cells.of_mut(key)[2] = place.number();
        });
    }

    /// The part of [`Timers::bytes`] that holds slots: it shrinks when timers go, while the cells
    /// per key stay.
    pub fn bytes_of_slots(&self) -> usize {
        self.chunks.bytes() + self.levels.bytes()
    }

    /// Whether no wheel holds a slot.
    pub fn has_no_slots(&self) -> bool {
        self.chunks.used() == 0 && self.levels.used() == 0
    }

    #[inline]
    pub(super) fn spot(&self, key: Key) -> Spot {
        match self.cell(key).map_or(UNARMED, |cell| cell[2]) {
            UNARMED => Spot::Unarmed,
            number => Place::from_number(number).map_or(Spot::Few, Spot::Slot),
        }
    }

    /// Notes that `key` is armed for `due`. Panics if it is armed.
    #[inline]
    pub(super) fn arm(&mut self, key: Key, due: Millis) {
        let cell = self.cell_mut(key);
        assert!(cell[2] == UNARMED, "key {key} is armed twice");
        set_due_of(cell, due.0);
    }

    #[inline]
    pub(super) fn put_in_few(&mut self, key: Key) {
        self.cell_mut(key)[2] = FEW;
    }

    #[inline]
    pub(super) fn disarm(&mut self, key: Key) {
        self.cells.of_mut(key)[2] = UNARMED;
    }

    /// The due times of some keys. The reads do not depend on each other, so that their cache
    /// misses overlap: 27 of them cost hardly more than two.
    #[inline]
    pub(super) fn dues(&self, keys: &[Key], dues: &mut [u64]) {
        for (due, &key) in dues.iter_mut().zip(keys) {
            *due = due_of(self.cells.of(key));
        }
    }

    /// Puts `key` into the slot for `due` of `level`, after all others there; true if there are many.
    #[inline]
    pub(super) fn hang(&mut self, level: u32, due: u64, key: Key) -> bool {
        let here = self.levels.get_mut(level);
        let slot = super::level::digit(due, here.height);
        here.mark(slot);
        let cells = &mut self.cells;
        let tag = super::level::tag(level, slot);
        here.lists[slot].push_back(&mut self.chunks, tag, key, |key, place| {
            cells.of_mut(key)[2] = place.number();
        });
        here.lists[slot].is_long()
    }

    /// Takes `key` out of its slot; returns the slot if its list became empty.
    #[inline]
    pub(super) fn unhang(&mut self, key: Key, place: Place) -> Option<(u32, usize)> {
        self.disarm(key);
        if !self.chunks.punch(place, key) {
            return None;
        }
        let (level, slot) = super::level::from_tag(self.chunks.tag(place));
        let list = &mut self.levels.get_mut(level).lists[slot];
        let cells = &mut self.cells;
        list.close_hole(&mut self.chunks, place, |key, place| {
            cells.of_mut(key)[2] = place.number();
        });
        list.is_empty().then_some((level, slot))
    }

    #[inline]
    fn cell(&self, key: Key) -> Option<&Cell> {
        self.cells.get(key)
    }

    #[inline]
    fn cell_mut(&mut self, key: Key) -> &mut Cell {
        let block = key as usize / CELLS_PER_BLOCK;
        if self.cells.0.get(block).is_none_or(Option::is_none) {
            self.grow(block);
        }
        self.cells.of_mut(key)
    }

    #[cold]
    fn grow(&mut self, block: usize) {
        let blocks = &mut self.cells.0;
        blocks.resize_with(blocks.len().max(block + 1), || None);
        // Zeroed by the system page by page as they are touched, not here.
        let cells = vec![[0; 3]; CELLS_PER_BLOCK].into_boxed_slice();
        blocks[block] = Some(cells.try_into().expect("a block has CELLS_PER_BLOCK cells"));
        self.open_blocks += 1;
    }
}

#[inline]
fn due_of(cell: &Cell) -> u64 {
    u64::from(cell[1]) << 32 | u64::from(cell[0])
}

#[inline]
fn set_due_of(cell: &mut Cell, due: u64) {
    (cell[0], cell[1]) = (due as u32, (due >> 32) as u32);
}
