//! A small hash table of slab numbers: one cache line to look an entry up, and memory in exactly the
//! sizes that allocators hand out.
//!
//! Open addressing over *groups* of one cache line: 12 entries, 12 tags (8 bits of each one's hash), and how many
//! entries have *passed*, because they belong here and found it full. A look-up goes from its home group to the next
//! until it finds the entry or a group without passed entries. So a removal leaves no tombstone: it decrements the
//! count. Example: of 13 entries that belong to group 5 the last is in group 6, and 5 has 1 passed; when that one is
//! removed, it has none again, and a look-up of a 14th ends at group 5.
//!
//! A table has a power of two of groups, so 64 to 2,048 bytes: sizes that an allocator does not round
//! up. The tables of hashbrown have 16 bytes more than a power of two, and 512 entries of it took 3,072 bytes
//! where 2,576 were asked for.

/// Entries of a group: with a tag of a byte and 4 bytes of count they fill a cache line.
const SLOTS: usize = 12;

/// Tag of a slot without an entry.
const FREE: u8 = 0;

#[derive(Clone, Copy, Default, Debug)]
#[repr(C, align(64))]
struct Group {
    tags: [u8; SLOTS],
    /// How many entries stand farther on because this group was full.
    passed: u32,
    entries: [u32; SLOTS],
}

const _: () = assert!(size_of::<Group>() == 64);

impl Group {
    #[inline]
    fn tagged(&self, tag: u8) -> Slots {
        let [low @ .., a, b, c, d] = self.tags;
        let alike = u64::from(tag) * LOWEST_BITS;
        let low = nonzero_bytes(u64::from_le_bytes(low) ^ alike);
        let high = nonzero_bytes(u64::from(u32::from_le_bytes([a, b, c, d])) ^ alike);
        Slots(!(low >> 7) & LOWEST_BITS | !(high >> 6) & 0x0202_0202)
    }

    #[inline]
    fn used(&self) -> Slots {
        Slots(self.tagged(FREE).0 ^ (LOWEST_BITS | 0x0202_0202))
    }

    /// The lowest slot without an entry.
    #[inline]
    fn free(&self) -> Option<usize> {
        self.tagged(FREE).next()
    }
}

/// A one in each byte.
const LOWEST_BITS: u64 = 0x0101_0101_0101_0101;

/// Sets the highest bit of each byte that is not 0; the other bits mean nothing.
#[inline]
fn nonzero_bytes(word: u64) -> u64 {
    const REST: u64 = 0x7f * LOWEST_BITS;
    // Below the highest bit nothing is carried into the next byte.
    ((word & REST) + REST) | word
}

/// Slots of a group: bit 8 * n is slot n, bit 8 * n + 1 is slot 8 + n.
#[derive(Clone, Copy)]
struct Slots(u64);

impl Iterator for Slots {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let bit = self.0.trailing_zeros() as usize;
        if self.0 == 0 {
            return None;
        }
        self.0 &= self.0 - 1;
        Some(bit / 8 + (bit % 2) * 8)
    }
}

/// See the module. Its user stores the data of the entries, and provides their hashes.
#[derive(Default, Debug)]
pub struct Entries {
    /// A power of two of them, or none.
    groups: Box<[Group]>,
    len: u32,
}

impl Entries {
    /// Empty, with capacity for this many.
    pub fn with_capacity(room: usize) -> Entries {
        Entries { groups: vec![Group::default(); groups_for(room)].into(), len: 0 }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// How many it holds before it grows: 10.5 of 12 slots.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.groups.len() * 21 / 2
    }

    #[inline]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.groups)
    }

    #[inline]
    pub fn find(&self, hash: u64, is: impl FnMut(u32) -> bool) -> Option<u32> {
        self.place(hash, is).map(|(_, _, entry)| entry)
    }

    /// Adds an entry that is not there. When it is full it doubles: `hash_of` gives any entry's hash.
    #[inline]
    pub fn insert(&mut self, hash: u64, entry: u32, hash_of: impl Fn(u32) -> u64) {
        if self.len() == self.capacity() {
            self.rebuild(self.len() + 1, hash_of);
        }
        self.put(hash, entry);
    }

    /// Adds an entry where there is room.
    #[inline]
    fn put(&mut self, hash: u64, entry: u32) {
        let mut at = self.home(hash);
        let slot = loop {
            let group = &mut self.groups[at];
            match group.free() {
                Some(slot) => break slot,
                None => group.passed += 1,
            }
            at = self.after(at);
        };
        let group = &mut self.groups[at];
        (group.tags[slot], group.entries[slot]) = (tag(hash), entry);
        self.len += 1;
    }

    /// Removes an entry; false if it is not there.
    #[inline]
    pub fn remove(&mut self, hash: u64, entry: u32) -> bool {
        let Some((group, slot, _)) = self.place(hash, |other| other == entry) else { return false };
        self.groups[group].tags[slot] = FREE;
        let mut at = self.home(hash);
        while at != group {
            self.groups[at].passed -= 1;
            at = self.after(at);
        }
        self.len -= 1;
        true
    }

    /// Puts another entry of the same hash into the place of one; false if that is not there.
    pub fn replace(&mut self, hash: u64, entry: u32, by: u32) -> bool {
        let place = self.place(hash, |other| other == entry);
        place.map(|(group, slot, _)| self.groups[group].entries[slot] = by).is_some()
    }

    /// Removes all and keeps the room.
    pub fn clear(&mut self) {
        self.groups.fill(Group::default());
        self.len = 0;
    }

    /// Returns memory beyond the capacity for this many and the present entries: how many bytes.
    pub fn shrink_to(&mut self, room: usize, hash_of: impl Fn(u32) -> u64) -> usize {
        let (before, room) = (self.bytes(), room.max(self.len()));
        if groups_for(room) < self.groups.len() {
            self.rebuild(room, hash_of);
        }
        before - self.bytes()
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.groups.iter().flat_map(|group| group.used().map(|slot| group.entries[slot]))
    }

    /// All entries with their hashes: read in a loop of nothing else, so that the cache misses overlap.
    pub fn hashed(&self, hash_of: impl Fn(u32) -> u64) -> Vec<(u64, u32)> {
        let mut hashed = Vec::with_capacity(self.len());
        hashed.extend(self.iter().map(|entry| (hash_of(entry), entry)));
        hashed
    }

    #[cold]
    fn rebuild(&mut self, room: usize, hash_of: impl Fn(u32) -> u64) {
        let hashed = self.hashed(hash_of);
        *self = Entries::with_capacity(room);
        hashed.into_iter().for_each(|(hash, entry)| self.put(hash, entry));
    }

    /// Group and slot of the entry for which `is` holds, and the entry.
    #[inline]
    fn place(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<(usize, usize, u32)> {
        let (tag, mut at) = (tag(hash), self.home(hash));
        // Others that are gone by now may have passed by every group: once around.
        let mut left = self.groups.len();
        while left > 0 {
            let group = &self.groups[at];
            for slot in group.tagged(tag) {
                let entry = group.entries[slot];
                if is(entry) {
                    return Some((at, slot, entry));
                }
            }
            if group.passed == 0 {
                return None;
            }
            (at, left) = (self.after(at), left - 1);
        }
        None
    }

    /// The group that an entry belongs to.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        hash as usize & self.groups.len().wrapping_sub(1)
    }

    #[inline]
    fn after(&self, group: usize) -> usize {
        (group + 1) & (self.groups.len() - 1)
    }
}

fn groups_for(room: usize) -> usize {
    if room == 0 { 0 } else { (room * 2).div_ceil(21).next_power_of_two() }
}

/// The 7 top bits of a hash and one of its middle, never [`FREE`].
#[inline]
fn tag(hash: u64) -> u8 {
    let tag = (hash >> 57) << 1 | (hash >> 29 & 1);
    (tag as u8).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::store::jobs::hash::wide;
    use rand::{Rng, SeedableRng, rngs::SmallRng};
    use std::collections::HashMap;

    /// The hashes of the entries' numbers: even, in few homes, or all alike.
    const HASHES: [fn(u32) -> u64; 4] = [
        |entry| (u64::from(entry) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23),
        |entry| wide(entry),
        |entry| u64::from(entry % 7) << 57 | u64::from(entry % 3),
        |_| 0,
    ];

    struct Model {
        entries: Entries,
        hash_of: fn(u32) -> u64,
        model: HashMap<u32, u64>,
    }

    impl Model {
        fn insert(&mut self, entry: u32) {
            let hash = (self.hash_of)(entry);
            if self.model.insert(entry, hash).is_none() {
                self.entries.insert(hash, entry, self.hash_of);
            }
        }

        fn remove(&mut self, entry: u32) {
            let removed = self.entries.remove((self.hash_of)(entry), entry);
            assert_eq!(removed, self.model.remove(&entry).is_some(), "entry {entry}");
        }

        fn replace(&mut self, entry: u32) {
            // Of the same hash, for all of HASHES except the first two, which are alone.
            let (hash, by) = ((self.hash_of)(entry), entry + 21 * 1_000);
            if (self.hash_of)(by) != hash || self.model.contains_key(&by) {
                return;
            }
            let replaced = self.entries.replace(hash, entry, by);
            assert_eq!(replaced, self.model.remove(&entry).is_some(), "entry {entry}");
            if replaced {
                self.model.insert(by, hash);
            }
        }

        fn check(&self) {
            let Entries { groups, len } = &self.entries;
            assert_eq!(*len as usize, self.model.len());
            assert!(self.entries.len() <= self.entries.capacity());
            let mut listed: Vec<u32> = self.entries.iter().collect();
            let mut known: Vec<u32> = self.model.keys().copied().collect();
            listed.sort_unstable();
            known.sort_unstable();
            assert_eq!(listed, known);
            let mut hashed = self.entries.hashed(self.hash_of);
            assert!(hashed.iter().all(|(hash, entry)| self.model[entry] == *hash));
            let mut passed = vec![0; groups.len()];
            for (hash, entry) in hashed.drain(..) {
                let found = self.entries.place(hash, |other| other == entry);
                let (group, slot, _) = found.expect("what is listed is found");
                assert_eq!(
                    (groups[group].entries[slot], groups[group].tags[slot]),
                    (entry, tag(hash))
                );
                let mut at = self.entries.home(hash);
                while at != group {
                    passed[at] += 1;
                    at = self.entries.after(at);
                }
            }
            assert!(groups.iter().map(|group| group.passed).eq(passed));
        }
    }

    #[test]
    fn it_holds_what_a_map_holds_whatever_the_hashes() {
        for seed in 0..40 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let hash_of = HASHES[seed as usize % HASHES.len()];
            let mut table = Model { entries: Entries::default(), hash_of, model: HashMap::new() };
            let most = [12, 100, 336, 1_000][rng.random_range(0..4)];
            for _ in 0..30 {
                // In waves: mostly coming, mostly going.
                let coming = rng.random_range(0.1..0.9);
                for _ in 0..rng.random_range(0..most) {
                    let entry = rng.random_range(0..most);
                    match rng.random_bool(coming) {
                        _ if rng.random_ratio(1, 20) => table.replace(entry),
                        true => table.insert(entry),
                        false => table.remove(entry),
                    }
                    let found = table.entries.find(hash_of(entry), |other| other == entry);
                    assert_eq!(found.is_some(), table.model.contains_key(&entry), "seed {seed}");
                }
                table.check();
                let (before, room) = (table.entries.bytes(), rng.random_range(0..most as usize));
                let given_back = table.entries.shrink_to(room, hash_of);
                assert_eq!(table.entries.bytes(), before - given_back, "seed {seed}");
                assert!(table.entries.capacity() >= room.min(table.model.len()));
                table.check();
            }
            let left: Vec<u32> = table.model.keys().copied().collect();
            left.into_iter().for_each(|entry| table.remove(entry));
            table.check();
            assert!(table.entries.groups.iter().all(|group| group.passed == 0), "seed {seed}");
            table.insert(1);
            table.entries.clear();
            assert_eq!((table.entries.len(), table.entries.iter().count()), (0, 0));
        }
    }

    #[test]
    fn every_tag_is_found_in_its_slots_and_nowhere_else() {
        let mut rng = SmallRng::seed_from_u64(3);
        for _ in 0..20_000 {
            let mut group = Group { passed: rng.random(), ..Group::default() };
            // Few and close ones, so that neighbours are alike or differ in a bit.
            group.tags.fill_with(|| [0, 1, 2, 0x7f, 0x80, 0x81, 0xff][rng.random_range(0..7)]);
            for tag in [0, 1, 0x7f, 0x80, 0x81, 0xff] {
                let mut found: Vec<usize> = group.tagged(tag).collect();
                found.sort_unstable();
                let slots = (0..SLOTS).filter(|slot| group.tags[*slot] == tag);
                assert!(found.into_iter().eq(slots), "{tag} in {:?}", group.tags);
            }
        }
    }

    #[test]
    fn it_takes_powers_of_two() {
        for room in 0..2_000 {
            let entries = Entries::with_capacity(room);
            assert!(entries.capacity() >= room);
            assert!(room == 0 || entries.bytes().is_power_of_two(), "{} bytes", entries.bytes());
            assert!(room <= 10 || Entries::with_capacity(room / 2).bytes() < entries.bytes());
        }
        assert_eq!(Entries::with_capacity(336).bytes(), 2_048);
        assert_eq!(Entries::with_capacity(0).bytes(), 0);
    }
}
