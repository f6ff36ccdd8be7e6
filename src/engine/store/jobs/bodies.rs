//! Ids and bodies of jobs, in slots of about their size.
//!
//! An allocation of its own for each job costs 8 bytes of the allocator's, up to 15 of rounding, and
//! 16 for pointer and length in the job: 24 for a body of 100 bytes. A slot is rounded up to the next
//! 8 bytes, or by a 16th where it is large, and is named by 4. A page holds slots of one size, has 64 KiB
//! in most cases, and goes when all are free.
//!
//! The limit: the space of a small job cannot hold a large one. Jobs added and cancelled in waves of different sizes
//! would leave pages with one used slot each; so when a tenth of the held memory could be returned, jobs are moved from
//! the upper pages to lower ones ([`Data::move_below`]), in slices.

use crate::pool::{Numbers, Pool, resize};

/// Up to here a slot's size is a multiple of 8 ...
const FINE_BYTES_MAX: usize = 256;
/// ... up to here of 32 ...
const COARSE_BYTES_MAX: usize = 1_024;
/// ... and up to here of 1/16 of the power of two below. Larger data has an allocation of its own: its memory is
/// returned with it, and half a page is at most 1/32 of it.
const SLOT_BYTES_MAX: usize = 64 << 10;

const FINE_CLASSES: usize = FINE_BYTES_MAX / 8;
const COARSE_CLASSES: usize = (COARSE_BYTES_MAX - FINE_BYTES_MAX) / 32;
/// Classes from one power of two to the next.
const STEPS: usize = 16;
const DOUBLINGS: usize = (SLOT_BYTES_MAX / COARSE_BYTES_MAX).ilog2() as usize;
const CLASSES: usize = FINE_CLASSES + COARSE_CLASSES + STEPS * DOUBLINGS;

/// Bytes of a page, about: 546 slots of 120 bytes, and a table of pages of 1 MB for 10 M jobs.
const PAGE_BYTES: usize = 64 << 10;
/// Slots of a page of small ones, and of large ones: a page of the largest has 256 KiB.
const PAGE_SLOTS_MAX: usize = 4_096;
const PAGE_SLOTS_MIN: usize = 4;

/// Bytes that an allocation of its own is rounded up to.
const LARGE_BYTES_STEP: usize = 4_096;

/// Where a job's id and body stand; of their length it follows in which class.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Slot(u32);

#[derive(Debug)]
pub struct Data {
    classes: [Class; CLASSES],
    large: Pool<Box<[u8]>, 64>,
    pages_bytes: usize,
    /// Bytes of all slots in use.
    used: usize,
    /// Bytes of allocations of their own.
    large_bytes: usize,
}

/// Slots of one size.
#[derive(Debug)]
struct Class {
    numbers: Numbers,
    /// Without room where a page is closed. A new page is written slot by slot from its beginning, as the
    /// lowest free one is taken, and is as long as what was written: nothing is zeroed before.
    pages: Vec<Vec<u8>>,
    bytes: u32,
    /// The number of a slot has this many bits; those above are its page.
    shift: u32,
}

impl Default for Data {
    fn default() -> Data {
        let classes = std::array::from_fn(Class::new);
        Data { classes, large: Pool::new(), pages_bytes: 0, used: 0, large_bytes: 0 }
    }
}

impl Class {
    fn new(class: usize) -> Class {
        let slots = page_slots(class);
        let shift = slots.next_power_of_two().trailing_zeros();
        let bytes = slot_bytes(class) as u32;
        Class { numbers: Numbers::new(slots), pages: Vec::new(), bytes, shift }
    }

    /// The page of a slot, and where it begins there.
    #[inline]
    fn at(&self, slot: Slot) -> (usize, usize) {
        let within = slot.0 & ((1 << self.shift) - 1);
        ((slot.0 >> self.shift) as usize, within as usize * self.bytes as usize)
    }

    fn page_bytes(&self) -> usize {
        usize::from(self.numbers.items()) * self.bytes as usize
    }

    /// Gives a page back that its numbers have closed; how many bytes.
    fn close(&mut self, page: usize) -> usize {
        self.pages[page] = Vec::new();
        resize(&mut self.pages, self.numbers.end_block(), Vec::new);
        self.page_bytes()
    }
}

#[inline]
fn write(page: &mut Vec<u8>, at: usize, parts: &[&[u8]], length: usize) {
    if let Some(mut room) = page.get_mut(at..at + length) {
        // Most jobs have neither a group nor META: not even a call of memcpy.
        for part in parts.iter().filter(|part| !part.is_empty()) {
            let (its, rest) = room.split_at_mut(part.len());
            its.copy_from_slice(part);
            room = rest;
        }
        return;
    }
    // The last slot so far, or the next one, and the bytes that the previous one does not need.
    page.resize(at, 0);
    parts.iter().for_each(|part| page.extend_from_slice(part));
}

/// The size class for this many bytes; none for an allocation of its own.
#[inline]
fn class_of(length: usize) -> Option<usize> {
    match length.saturating_sub(1) {
        last if last < FINE_BYTES_MAX => Some(last / 8),
        last if last < COARSE_BYTES_MAX => Some(FINE_CLASSES + (last - FINE_BYTES_MAX) / 32),
        last if last < SLOT_BYTES_MAX => {
            // 1,024 to 2,047 have ten bits below the first one, of which the upper four are the step.
            let doubling = last.ilog2() as usize - COARSE_BYTES_MAX.ilog2() as usize;
            let step = (last >> (last.ilog2() - STEPS.ilog2())) - STEPS;
            Some(FINE_CLASSES + COARSE_CLASSES + doubling * STEPS + step)
        }
        _ => None,
    }
}

const fn slot_bytes(class: usize) -> usize {
    if class < FINE_CLASSES {
        (class + 1) * 8
    } else if class < FINE_CLASSES + COARSE_CLASSES {
        FINE_BYTES_MAX + (class - FINE_CLASSES + 1) * 32
    } else {
        let above = class - FINE_CLASSES - COARSE_CLASSES;
        (COARSE_BYTES_MAX << (above / STEPS)) / STEPS * (STEPS + above % STEPS + 1)
    }
}

fn page_slots(class: usize) -> usize {
    (PAGE_BYTES / slot_bytes(class)).clamp(PAGE_SLOTS_MIN, PAGE_SLOTS_MAX)
}

/// Bytes that an id and a body of this many bytes take in place.
pub fn stored_bytes(length: usize) -> usize {
    match class_of(length) {
        Some(class) => slot_bytes(class),
        None => length.next_multiple_of(LARGE_BYTES_STEP),
    }
}

impl Data {
    /// Stores parts of a job one after the other.
    pub fn put(&mut self, parts: &[&[u8]]) -> Slot {
        let length = parts.iter().map(|part| part.len()).sum();
        let Some(class) = class_of(length) else {
            let number = self.large.alloc();
            *self.large.get_mut(number) = parts.concat().into_boxed_slice();
            self.large_bytes += stored_bytes(length);
            return Slot(number);
        };
        let class = &mut self.classes[class];
        let page_bytes = class.page_bytes();
        let (pages, pages_bytes) = (&mut class.pages, &mut self.pages_bytes);
        let slot = Slot(class.numbers.take(|page| {
            pages.resize_with(pages.len().max(page + 1), Vec::new);
            pages[page] = Vec::with_capacity(page_bytes);
            *pages_bytes += page_bytes;
        }));
        self.used += class.bytes as usize;
        let (page, at) = class.at(slot);
        write(&mut class.pages[page], at, parts, length);
        slot
    }

    /// The data in the slot; it has this many bytes.
    pub fn get(&self, slot: Slot, length: usize) -> &[u8] {
        let Some(class) = class_of(length) else { return self.large.get(slot.0) };
        let class = &self.classes[class];
        let (page, at) = class.at(slot);
        &class.pages[page][at..][..length]
    }

    pub fn free(&mut self, slot: Slot, length: usize) {
        let Some(class) = class_of(length) else {
            self.large_bytes -= stored_bytes(length);
            *self.large.get_mut(slot.0) = Box::default();
            return self.large.free(slot.0);
        };
        let class = &mut self.classes[class];
        self.used -= class.bytes as usize;
        if let Some(page) = class.numbers.give(slot.0) {
            self.pages_bytes -= class.close(page);
        }
    }

    /// Frees the slot and returns its data; large data is not copied.
    pub fn take(&mut self, slot: Slot, length: usize) -> Box<[u8]> {
        let taken = match class_of(length) {
            Some(_) => Box::from(self.get(slot, length)),
            None => std::mem::take(self.large.get_mut(slot.0)),
        };
        self.free(slot, length);
        taken
    }

    pub fn bytes(&self) -> usize {
        self.pages_bytes + self.large_bytes
    }

    /// Bytes that moving would give back, at least. Cheap while little of what is held is unused.
    pub fn spare_bytes(&self, enough: usize) -> usize {
        if self.pages_bytes - self.used < enough {
            return 0;
        }
        let spare = |class: &Class| class.numbers.spare_blocks() * class.page_bytes();
        self.classes.iter().map(spare).sum()
    }

    /// Whether there is a place for this many bytes without a further page.
    pub fn has_room(&self, length: usize) -> bool {
        class_of(length).is_some_and(|class| self.classes[class].numbers.has_room())
    }

    /// Moves it to a lower page if that helps to empty one; returns its new place. Once all have been asked, only the
    /// last page of each size has more free space than was freed meanwhile.
    pub fn move_below(&mut self, slot: Slot, length: usize) -> Slot {
        let Some(class) = class_of(length) else { return slot };
        let class = &mut self.classes[class];
        let Some(lower) = class.numbers.take_below(slot.0).map(Slot) else { return slot };
        let ((from, from_at), (to, to_at)) = (class.at(slot), class.at(lower));
        let (below, above) = class.pages.split_at_mut(from);
        write(&mut below[to], to_at, &[&above[0][from_at..from_at + length]], length);
        // The lower one counts as used from here on, the upper one until it is freed.
        self.used += class.bytes as usize;
        self.free(slot, length);
        lower
    }

    /// Gives pages back that are empty and were kept for the next of their size.
    pub fn close_empty(&mut self) {
        for class in &mut self.classes {
            if let Some(page) = class.numbers.close_current() {
                self.pages_bytes -= class.close(page);
            }
        }
    }

    pub fn count(&self) -> usize {
        let slots: usize = self.classes.iter().map(|class| class.numbers.used()).sum();
        slots + self.large.used()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng, rngs::SmallRng};

    #[test]
    fn every_length_has_a_class_that_holds_it_and_wastes_little() {
        for length in 0..=SLOT_BYTES_MAX {
            let class = class_of(length).expect("a class");
            let bytes = slot_bytes(class);
            let fine = if length <= FINE_BYTES_MAX { 8 } else { 32 };
            let step = if length <= COARSE_BYTES_MAX { fine } else { length / STEPS };
            assert!(bytes >= length && bytes - length <= step, "{length} in {bytes}");
            assert!(class == 0 || slot_bytes(class - 1) < length.max(1), "{length} in {bytes}");
        }
        for class in 0..CLASSES {
            let (slots, bytes) = (page_slots(class), slot_bytes(class));
            assert!((32 << 10..=256 << 10).contains(&(slots * bytes)), "{slots} of {bytes}");
        }
        assert_eq!(class_of(SLOT_BYTES_MAX), Some(CLASSES - 1));
        assert_eq!(class_of(SLOT_BYTES_MAX + 1), None);
    }

    /// The stored data, as a list.
    #[derive(Default)]
    struct Model {
        data: Data,
        stored: Vec<(Slot, Vec<u8>)>,
    }

    impl Model {
        fn put(&mut self, rng: &mut SmallRng, length: usize) {
            let text: Vec<u8> = (0..length).map(|_| rng.random()).collect();
            let (id, rest) = text.split_at(rng.random_range(0..=length.min(20)));
            let (extra, body) = rest.split_at(rng.random_range(0..=rest.len().min(50)));
            self.stored.push((self.data.put(&[id, extra, body]), text));
        }

        fn free(&mut self, at: usize) {
            let (slot, text) = self.stored.swap_remove(at);
            self.data.free(slot, text.len());
        }

        fn move_all(&mut self) {
            for (slot, text) in &mut self.stored {
                *slot = self.data.move_below(*slot, text.len());
            }
        }

        fn check(&self) {
            for (slot, text) in &self.stored {
                assert_eq!(self.data.get(*slot, text.len()), text);
            }
            let slots = self.stored.iter().filter_map(|(_, text)| class_of(text.len()));
            assert_eq!(self.data.used, slots.map(slot_bytes).sum::<usize>());
            let alone = self.stored.iter().filter(|(_, text)| class_of(text.len()).is_none());
            let alone: usize = alone.map(|(_, text)| stored_bytes(text.len())).sum();
            assert_eq!(self.data.large_bytes, alone);
            let pages = self.data.classes.iter().flat_map(|class| &class.pages);
            assert_eq!(self.data.pages_bytes, pages.map(|page| page.capacity()).sum::<usize>());
            assert_eq!(self.data.count(), self.stored.len());
        }
    }

    #[test]
    fn what_is_put_stands_there_until_it_is_freed_wherever_it_is_moved() {
        let seed = 5;
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut model = Model::default();
        for round in 0..40 {
            for _ in 0..1_000 {
                let length = match rng.random_range(0..20) {
                    0 => rng.random_range(0..100_000),
                    _ => rng.random_range(0..3_000),
                };
                match rng.random_range(0..3) {
                    0 if round % 2 == 0 => model.put(&mut rng, length),
                    _ if model.stored.is_empty() => model.put(&mut rng, length),
                    1 if round % 2 == 1 => model.free(rng.random_range(0..model.stored.len())),
                    _ => {
                        let (slot, text) = model.stored.pop().expect("there is one");
                        assert_eq!(*model.data.take(slot, text.len()), *text);
                        model.put(&mut rng, length);
                    }
                }
            }
            if round % 5 == 4 {
                model.move_all();
            }
            model.check();
        }
        (0..model.stored.len()).for_each(|_| model.free(0));
        model.check();
    }

    #[test]
    fn a_page_is_written_as_far_as_it_is_used() {
        let (mut data, id) = (Data::default(), [7; 20]);
        for body in [96, 4_096, 40_000] {
            let length = id.len() + body;
            let class = class_of(length).expect("a class");
            let slots = page_slots(class) - 1;
            let stored: Vec<Slot> = (0..slots).map(|_| data.put(&[&id, &vec![1; body]])).collect();
            let last = slots * slot_bytes(class) + length;
            assert_eq!(data.classes[class].pages[0].len(), last, "the first slot is never used");
            // The data in the last slot may be followed by longer or shorter data there.
            for other in [length - 1, length, length + 3] {
                data.free(stored[slots - 1], length);
                let text: Vec<u8> = (0..other).map(|at| at as u8).collect();
                let slot = data.put(&[&text[..5], &text[5..6], &text[6..]]);
                assert_eq!((slot, data.get(slot, other)), (stored[slots - 1], &text[..]));
            }
        }
    }

    #[test]
    fn after_a_wave_of_one_size_its_room_is_given_back() {
        let mut rng = SmallRng::seed_from_u64(6);
        let mut model = Model::default();
        (0..300_000).for_each(|_| model.put(&mut rng, 120));
        let full = model.data.pages_bytes;
        (0..270_000).for_each(|_| model.free(rng.random_range(0..model.stored.len())));
        assert!(model.data.pages_bytes > full / 10 * 9, "hardly a page is empty by chance");
        assert!(model.data.spare_bytes(0) > full / 4 * 3);
        model.move_all();
        model.check();
        assert_eq!(model.data.spare_bytes(0), 0);
        let spare = model.data.pages_bytes - model.data.used;
        assert!(spare <= PAGE_BYTES, "the last page: {spare}");
        (0..30_000).for_each(|_| model.free(0));
        model.data.close_empty();
        assert_eq!((model.data.pages_bytes, model.data.used), (0, 0));
    }
}
