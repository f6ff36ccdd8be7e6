//! An index from ids to slab numbers that never stops the loop to grow: many small hash tables
//! instead of one.
//!
//! Extendible hashing (Fagin, Nievergelt, Pippenger, Strong 1979). A *directory* of 2^depth entries
//! maps the top bits of a hash's *rank* to a table of at most [`TABLE_ENTRIES_MAX`] entries. A full
//! table splits in two by its next rank bit, so the longest pause is the rehash of 336 entries
//! (about 10 µs), where one big map showed 65 to 190 ms. Example: depth 2, ranks 00… and 01… share
//! table A (it knows 1 bit), 10… is B and 11… is C. A fills up: its entries with 01… move to D and
//! the directory becomes A D B C.
//!
//! Ranks also give SCAN its promise: entries are visited in the order of their ranks, which never
//! change, so whatever stays in the table during a whole scan is visited, splits or not.

use crate::engine::store::jobs::entries::Entries;

/// The capacity of 2,048 bytes, before they would double.
pub const TABLE_ENTRIES_MAX: usize = 336;

/// Deepest directory, 2^24 entries: 5.6 billion jobs.
const DEPTH_MAX: u8 = 24;

/// An index of u32 slab numbers by hash. The caller keeps the ids and compares them.
#[derive(Default, Debug)]
pub struct SlabIndex {
    depth: u8,
    /// 2^depth entries; empty as long as there is one table or none.
    directory: Vec<u32>,
    tables: Vec<TablePart>,
    len: usize,
    entry_bytes: usize,
}

#[derive(Default, Debug)]
struct TablePart {
    /// How many top bits of the rank all entries of this table share.
    bits: u8,
    entries: Entries,
}

/// Where a scan meets an entry of this hash.
pub fn place_of(hash: u64) -> u64 {
    rank(hash) >> 7
}

/// The 57 bits of a hash below the 7 that go into an entry's tag, as the top bits of a u64.
fn rank(hash: u64) -> u64 {
    hash << 7
}

impl SlabIndex {
    pub fn len(&self) -> usize {
        self.len
    }

    /// The entry with this hash for which `is` holds.
    pub fn find(&self, hash: u64, is: impl FnMut(u32) -> bool) -> Option<u32> {
        self.tables.get(self.part_of(hash))?.entries.find(hash, is)
    }

    /// Adds an entry; the caller knows that it is not there. `hash_of` gives any entry's hash.
    pub fn insert(&mut self, hash: u64, entry: u32, hash_of: impl Fn(u32) -> u64) {
        if self.tables.is_empty() {
            // Most queues never have a second one.
            self.tables.reserve_exact(1);
            self.tables.push(TablePart::default());
        }
        loop {
            let number = self.part_of(hash);
            let part = &mut self.tables[number];
            if part.entries.len() < TABLE_ENTRIES_MAX || part.bits == DEPTH_MAX {
                let before = part.entries.bytes();
                part.entries.insert(hash, entry, hash_of);
                self.entry_bytes += part.entries.bytes() - before;
                self.len += 1;
                return;
            }
            self.split(number, hash, &hash_of);
        }
    }

    /// Removes an entry; false if it is not there.
    pub fn remove(&mut self, hash: u64, entry: u32, hash_of: impl Fn(u32) -> u64) -> bool {
        let number = self.part_of(hash);
        let Some(part) = self.tables.get_mut(number) else { return false };
        if !part.entries.remove(hash, entry) {
            return false;
        }
        self.len -= 1;
        let (len, capacity) = (part.entries.len(), part.entries.capacity());
        if self.len == 0 {
            *self = SlabIndex::default();
        } else if capacity > 16 && len * 8 < capacity {
            self.entry_bytes -= part.entries.shrink_to(len * 2, hash_of);
        }
        true
    }

    pub fn bytes(&self) -> usize {
        self.entry_bytes
            + self.tables.capacity() * size_of::<TablePart>()
            + self.directory.capacity() * size_of::<u32>()
    }

    /// How many parts it has. One that is split has its upper half in a new one, the last.
    pub fn parts(&self) -> usize {
        self.tables.len()
    }

    /// The entries of a part, in no order.
    pub fn part(&self, part: usize) -> impl Iterator<Item = u32> + '_ {
        self.tables[part].entries.iter()
    }

    /// Puts another entry of the same hash into the place of one that is there.
    pub fn replace(&mut self, hash: u64, entry: u32, by: u32) {
        let part = self.part_of(hash);
        let replaced = self.tables[part].entries.replace(hash, entry, by);
        assert!(replaced, "what is replaced is there");
    }

    /// Gives back what a part that has lost most of its entries holds: by itself it does so late.
    pub fn shrink_part(&mut self, part: usize, hash_of: impl Fn(u32) -> u64) {
        let entries = &mut self.tables[part].entries;
        if entries.len() * 2 <= entries.capacity() {
            self.entry_bytes -= entries.shrink_to(entries.len(), hash_of);
        }
    }

    /// Visits entries in rank order from `place` (0: the first) until `count` were visited, and all
    /// that share the last one's rank. Returns the next place, 0 when done. Looks at one table at a
    /// time, so the cost is `count` plus at most 336 entries.
    pub fn scan(
        &self,
        place: u64,
        count: usize,
        hash_of: impl Fn(u32) -> u64,
        mut visit: impl FnMut(u32),
    ) -> u64 {
        self.scan_while(place, count, hash_of, |entry| {
            visit(entry);
            true
        })
    }

    /// As [`SlabIndex::scan`], and ends as if `count` had been reached when `visit` is false.
    pub fn scan_while(
        &self,
        place: u64,
        count: usize,
        hash_of: impl Fn(u32) -> u64,
        mut visit: impl FnMut(u32) -> bool,
    ) -> u64 {
        // A place is a rank without its 7 empty low bits.
        let mut from = place << 7;
        let mut left = count;
        let mut sorted: Vec<(u64, u32)> = Vec::new();
        loop {
            let Some(part) = self.tables.get(self.part_of(from >> 7)) else { return 0 };
            let ranked = part.entries.iter().map(|entry| (rank(hash_of(entry)), entry));
            sorted.clear();
            sorted.extend(ranked.filter(|(rank, _)| *rank >= from));
            sorted.sort_unstable();
            let mut last = None;
            for &(rank, entry) in &sorted {
                if left == 0 && last != Some(rank) {
                    return rank >> 7;
                }
                let goes_on = visit(entry);
                last = Some(rank);
                left = if goes_on { left.saturating_sub(1) } else { 0 };
            }
            let span = 1u64.checked_shl(64 - u32::from(part.bits));
            let Some(next) = span.and_then(|span| (from & !(span - 1)).checked_add(span)) else {
                return 0;
            };
            if left == 0 {
                return next >> 7;
            }
            from = next;
        }
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.tables.iter().flat_map(|part| part.entries.iter())
    }

    fn part_of(&self, hash: u64) -> usize {
        match self.depth {
            0 => 0,
            depth => self.directory[(rank(hash) >> (64 - depth)) as usize] as usize,
        }
    }

    fn split(&mut self, number: usize, hash: u64, hash_of: &impl Fn(u32) -> u64) {
        if self.tables[number].bits == self.depth {
            // Doubling copies 4 bytes per table: 128 KiB, about 10 µs, at 10 M.
            let old = if self.depth == 0 { vec![0] } else { std::mem::take(&mut self.directory) };
            self.directory = old.iter().flat_map(|table| [*table, *table]).collect();
            self.depth += 1;
        }
        let sibling = self.tables.len() as u32;
        let part = &mut self.tables[number];
        part.bits += 1;
        let bit = 1u64 << (64 - part.bits);
        // Full-size tables at once: about half of the new ones would have to grow soon, and that would
        // read all hashes again.
        let hashed = part.entries.hashed(hash_of);
        let mut upper = Entries::with_capacity(TABLE_ENTRIES_MAX);
        self.entry_bytes += upper.bytes();
        part.entries.clear();
        for (hash, entry) in hashed {
            let half = if rank(hash) & bit == 0 { &mut part.entries } else { &mut upper };
            half.insert(hash, entry, hash_of);
        }
        let bits = part.bits;
        self.tables.push(TablePart { bits, entries: upper });
        // The directory entries of the upper half: all that share the sibling's `bits` top bits.
        let first = (rank(hash) | bit) >> (64 - bits) << (self.depth - bits);
        let span = 1u64 << (self.depth - bits);
        self.directory[first as usize..(first + span) as usize].fill(sibling);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::store::jobs::hash::{Hasher, wide};
    use crate::engine::store::memory::allocated_bytes;
    use rand::{Rng, SeedableRng, rngs::SmallRng};
    use std::collections::BTreeSet;

    fn hash(entry: u32) -> u64 {
        (u64::from(entry) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17)
    }

    #[test]
    fn finds_what_was_inserted_and_not_what_was_removed() {
        let mut table = SlabIndex::default();
        let mut model = BTreeSet::new();
        let mut rng = SmallRng::seed_from_u64(7);
        for _ in 0..60_000 {
            let entry = rng.random_range(0..20_000);
            if model.insert(entry) {
                table.insert(hash(entry), entry, hash);
            } else {
                model.remove(&entry);
                assert!(table.remove(hash(entry), entry, hash));
            }
        }
        assert_eq!(table.iter().count(), model.len());
        check_bytes(&table);
        for entry in 0..20_000 {
            let found = table.find(hash(entry), |other| other == entry);
            assert_eq!(found.is_some(), model.contains(&entry), "entry {entry}");
        }
        for entry in model {
            assert!(table.remove(hash(entry), entry, hash));
        }
        assert!(table.tables.is_empty(), "an empty table holds nothing");
    }

    fn check_bytes(table: &SlabIndex) {
        let bytes = table.tables.iter().map(|part| part.entries.bytes());
        assert_eq!(table.entry_bytes, bytes.sum::<usize>());
    }

    #[test]
    fn parts_tell_all_entries_which_can_be_replaced_and_give_back_what_they_hold() {
        let mut table = SlabIndex::default();
        (0..50_000).for_each(|entry| table.insert(hash(entry), entry, hash));
        let full = table.bytes();
        for entry in (0..50_000).filter(|entry| entry % 12 != 0) {
            assert!(table.remove(hash(entry), entry, hash));
        }
        check_bytes(&table);
        assert!(table.bytes() > full / 5, "by itself it keeps much");
        let mut found: Vec<u32> = Vec::new();
        for part in 0..table.parts() {
            found.extend(table.part(part));
            table.shrink_part(part, hash);
        }
        check_bytes(&table);
        assert!(table.bytes() < full / 10, "{} of {full} bytes", table.bytes());
        found.sort_unstable();
        assert!(found.into_iter().eq((0..50_000).filter(|entry| entry % 12 == 0)));
        table.replace(hash(396), 396, 50_000);
        assert_eq!(table.find(hash(396), |_| true), Some(50_000));
    }

    #[test]
    fn scan_returns_all_that_stays_while_the_table_grows_and_shrinks() {
        let mut table = SlabIndex::default();
        (0..5_000).for_each(|entry| table.insert(hash(entry), entry, hash));
        let (mut place, mut seen, mut next) = (0, BTreeSet::new(), 10_000);
        loop {
            let mut visited = 0;
            place = table.scan(place, 100, hash, |entry| {
                visited += 1;
                seen.insert(entry);
            });
            assert!(visited <= 100, "{visited} visited");
            if place == 0 {
                break;
            }
            (next..next + 400).for_each(|entry| table.insert(hash(entry), entry, hash));
            next += 400;
            (4_000..5_000).filter(|entry| entry % 7 == place as u32 % 7).for_each(|entry| {
                table.remove(hash(entry), entry, hash);
            });
        }
        assert!((0..4_000).all(|entry| seen.contains(&entry)));
    }

    #[test]
    fn an_entry_takes_few_bytes_the_allocator_s_rounding_included() {
        let hasher = Hasher::new(11);
        let made = |entry: u32| wide(hasher.number(u64::from(entry)));
        let named = |entry: u32| wide(hasher.name(&entry.to_le_bytes()));
        let hashes: [&dyn Fn(u32) -> u64; 2] = [&made, &named];
        for hash_of in hashes {
            let mut table = SlabIndex::default();
            for entry in 0..1_000_000 {
                table.insert(hash_of(entry), entry, hash_of);
                // From when most tables were split to when most are about to be.
                if entry % 50_000 == 49_999 {
                    let parts =
                        table.tables.iter().map(|part| allocated_bytes(part.entries.bytes()));
                    let held = parts.sum::<usize>() as f64 / f64::from(entry + 1);
                    assert!(held < 12.5, "{held:.1} bytes an entry at {}", entry + 1);
                    let is_last = entry == 999_999;
                    assert!(!is_last || held < 9.5, "{held:.1} bytes an entry at a million");
                }
            }
        }
    }
}
