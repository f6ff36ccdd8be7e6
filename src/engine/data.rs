//! Ids and bodies of jobs, in slots of about their size.
//!
//! An allocation of its own for each job costs 8 bytes of the allocator's, up to 15 of rounding, and
//! 16 for pointer and length in the job: 24 for a body of 100 bytes. A slot is rounded up to the next
//! 8 bytes and is named by 4. A page holds [`SLOTS`] slots of one size and goes when all are free.
//!
//! What that cannot do is use the room of a small job for a large one. Jobs added and cancelled in
//! waves of different sizes would leave pages with a slot in use each; so when less than two thirds of
//! what is held is used, jobs are moved from the upper pages to lower ones ([`Data::settle`]), in
//! slices. So about 1.5 times what is used is held at most, or [`SPARE_BYTES_MAX`] more.

use crate::pool::{Numbers, Pool};

/// Slots of a page: 30 KiB for 120 bytes, and a table of pages of 640 KB for 10 M jobs.
const SLOTS: usize = 256;

/// Up to here a slot's size is a multiple of 8 ...
const FINE_BYTES_MAX: usize = 256;
/// ... and up to here of 32. What is larger has an allocation of its own, whose overhead does not count.
const SLOT_BYTES_MAX: usize = 1_024;

const FINE_CLASSES: usize = FINE_BYTES_MAX / 8;
const CLASSES: usize = FINE_CLASSES + (SLOT_BYTES_MAX - FINE_BYTES_MAX) / 32;

/// Bytes that may be held and not used before jobs are moved. More than moving can leave: in each class
/// the first page, which is never closed, the last one, and the one that new jobs come to.
const SPARE_BYTES_MAX: usize = 16 << 20;

const _: () = assert!(3 * PAGE_OF_EACH_BYTES < SPARE_BYTES_MAX);

/// A page of each class: 5.1 MB.
const PAGE_OF_EACH_BYTES: usize = {
    let (mut bytes, mut class) = (0, 0);
    while class < CLASSES {
        bytes += slot_bytes(class) * SLOTS;
        class += 1;
    }
    bytes
};

/// Where a job's id and body stand; of their length it follows in which class.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Slot(u32);

/// See the module.
#[derive(Debug)]
pub struct Data {
    classes: [Class; CLASSES],
    large: Pool<Box<[u8]>, 64>,
    /// Bytes of all pages.
    held: usize,
    /// Bytes of all slots in use.
    used: usize,
}

/// Slots of one size.
#[derive(Debug, Default)]
struct Class {
    numbers: Numbers<SLOTS>,
    /// Empty where a page is closed.
    pages: Vec<Box<[u8]>>,
}

impl Default for Data {
    fn default() -> Data {
        let classes = std::array::from_fn(|_| Class::default());
        Data { classes, large: Pool::new(), held: 0, used: 0 }
    }
}

/// The class of what has so many bytes; none if it stands alone.
fn class_of(length: usize) -> Option<usize> {
    match length.saturating_sub(1) {
        last if last < FINE_BYTES_MAX => Some(last / 8),
        last if last < SLOT_BYTES_MAX => Some(FINE_CLASSES + (last - FINE_BYTES_MAX) / 32),
        _ => None,
    }
}

/// Bytes of a slot of this class.
const fn slot_bytes(class: usize) -> usize {
    match class.checked_sub(FINE_CLASSES) {
        None => (class + 1) * 8,
        Some(above) => FINE_BYTES_MAX + (above + 1) * 32,
    }
}

impl Data {
    /// Stores id and body, one behind the other.
    pub fn put(&mut self, id: &[u8], body: &[u8]) -> Slot {
        let Some(class) = class_of(id.len() + body.len()) else {
            let number = self.large.alloc();
            *self.large.get_mut(number) = [id, body].concat().into_boxed_slice();
            return Slot(number);
        };
        let Class { numbers, pages } = &mut self.classes[class];
        let (bytes, held) = (slot_bytes(class), &mut self.held);
        let number = numbers.take(|page| {
            pages.resize_with(pages.len().max(page + 1), Box::default);
            pages[page] = vec![0; bytes * SLOTS].into_boxed_slice();
            *held += bytes * SLOTS;
        });
        self.used += bytes;
        let slot = &mut pages[number as usize / SLOTS][number as usize % SLOTS * bytes..];
        slot[..id.len()].copy_from_slice(id);
        slot[id.len()..id.len() + body.len()].copy_from_slice(body);
        Slot(number)
    }

    /// What stands there; it has so many bytes.
    pub fn get(&self, slot: Slot, length: usize) -> &[u8] {
        let Some(class) = class_of(length) else { return self.large.get(slot.0) };
        let page = &self.classes[class].pages[slot.0 as usize / SLOTS];
        &page[slot.0 as usize % SLOTS * slot_bytes(class)..][..length]
    }

    /// Frees it.
    pub fn free(&mut self, slot: Slot, length: usize) {
        let Some(class) = class_of(length) else {
            *self.large.get_mut(slot.0) = Box::default();
            return self.large.free(slot.0);
        };
        let bytes = slot_bytes(class);
        self.used -= bytes;
        let Class { numbers, pages } = &mut self.classes[class];
        if let Some(page) = numbers.give(slot.0) {
            pages[page] = Box::default();
            self.held -= bytes * SLOTS;
        }
    }

    /// Frees it and gives what stood there; what is large is not copied.
    pub fn take(&mut self, slot: Slot, length: usize) -> Box<[u8]> {
        let taken = match class_of(length) {
            Some(_) => Box::from(self.get(slot, length)),
            None => std::mem::take(self.large.get_mut(slot.0)),
        };
        self.free(slot, length);
        taken
    }

    /// Whether so much is held and not used that jobs should be moved.
    pub fn is_sparse(&self) -> bool {
        let spare = self.held - self.used;
        spare > SPARE_BYTES_MAX && spare * 3 > self.held
    }

    /// Moves it to a lower page if one has room: where it stands now. When all were asked for once, no
    /// page but the last of each size has more room than what was freed meanwhile.
    pub fn settle(&mut self, slot: Slot, length: usize) -> Slot {
        let Some(class) = class_of(length) else { return slot };
        let Class { numbers, pages } = &mut self.classes[class];
        let Some(lower) = numbers.take_below(slot.0) else { return slot };
        let (from, to) = (slot.0 as usize, lower as usize);
        let (below, above) = pages.split_at_mut(from / SLOTS);
        let [from_at, to_at] = [from, to].map(|at| at % SLOTS * slot_bytes(class));
        below[to / SLOTS][to_at..to_at + length]
            .copy_from_slice(&above[0][from_at..from_at + length]);
        // The lower one counts as used from here on, the upper one until it is freed.
        self.used += slot_bytes(class);
        self.free(slot, length);
        Slot(lower)
    }

    /// How many ids and bodies are stored.
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
            let bytes = slot_bytes(class_of(length).expect("a class"));
            let step = if length <= FINE_BYTES_MAX { 8 } else { 32 };
            assert!(bytes >= length && bytes - length <= step, "{length} in {bytes}");
        }
        assert_eq!(class_of(SLOT_BYTES_MAX), Some(CLASSES - 1));
        assert_eq!(class_of(SLOT_BYTES_MAX + 1), None);
    }

    /// What is stored, as a list.
    #[derive(Default)]
    struct Model {
        data: Data,
        stored: Vec<(Slot, Vec<u8>)>,
    }

    impl Model {
        fn put(&mut self, rng: &mut SmallRng, length: usize) {
            let text: Vec<u8> = (0..length).map(|_| rng.random()).collect();
            let (id, body) = text.split_at(rng.random_range(0..=length.min(20)));
            self.stored.push((self.data.put(id, body), text));
        }

        fn free(&mut self, at: usize) {
            let (slot, text) = self.stored.swap_remove(at);
            self.data.free(slot, text.len());
        }

        fn settle_all(&mut self) {
            for (slot, text) in &mut self.stored {
                *slot = self.data.settle(*slot, text.len());
            }
        }

        fn check(&self) {
            for (slot, text) in &self.stored {
                assert_eq!(self.data.get(*slot, text.len()), text);
            }
            let slots = self.stored.iter().filter_map(|(_, text)| class_of(text.len()));
            assert_eq!(self.data.used, slots.map(slot_bytes).sum::<usize>());
            let pages = self.data.classes.iter().flat_map(|class| &class.pages);
            assert_eq!(self.data.held, pages.map(|page| page.len()).sum::<usize>());
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
                let length = rng.random_range(0..1_200);
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
                model.settle_all();
            }
            model.check();
        }
        (0..model.stored.len()).for_each(|_| model.free(0));
        model.check();
    }

    #[test]
    fn after_a_wave_of_one_size_its_room_is_given_back() {
        let mut rng = SmallRng::seed_from_u64(6);
        let mut model = Model::default();
        (0..300_000).for_each(|_| model.put(&mut rng, 120));
        let full = model.data.held;
        (0..270_000).for_each(|_| model.free(rng.random_range(0..model.stored.len())));
        assert!(model.data.held > full / 10 * 9, "hardly a page is empty by chance");
        assert!(model.data.is_sparse());
        model.settle_all();
        model.check();
        assert!(!model.data.is_sparse());
        let spare = model.data.held - model.data.used;
        assert!(spare <= 2 * 120 * SLOTS, "the first and the last page: {spare}");
    }
}
