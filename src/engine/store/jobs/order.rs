//! The order in which walks visit ids and names, and cursors in it.
//!
//! The index visits entries by their *place*, 57 bits that follow from the 32 of a hash: 27 of the group, then
//! 30 by which the 32 hashes of the group are spread. So there are 2^32 places, and a cursor says how many come
//! before.
//!
//! The mark of a cursor is a hash by the same key. Another key has another mark, except for one in two million, and so
//! has another version of the hash function, or its variant for another processor.

use crate::engine::model::walk::Cursor;
use crate::engine::store::jobs::hash::{GROUP_BITS, Hasher, PLACE_BITS, RANK_SHIFT, wide};
use crate::error::Error;

/// The text whose hash is the mark. Another order of equal hashes needs another text.
const MARKED: &[u8] = b"places of 32 bits, by group";

impl Hasher {
    /// The cursor of a place, of which 0 is the end.
    pub fn cursor_at(&self, place: u64) -> Cursor {
        if place == 0 {
            return Cursor::END;
        }
        let (group, low) = (place >> RANK_SHIFT, low(place));
        let before = lows(group as u32).into_iter().filter(|other| *other < low).count() as u64;
        // After the last place there is nothing to visit.
        let number = u32::try_from((group << GROUP_BITS) + before);
        number.map_or(Cursor::END, |number| Cursor::new(self.mark(), number))
    }

    /// The place of a cursor.
    ///
    /// # Errors
    /// It is one of another order.
    pub fn place_at(&self, cursor: Cursor) -> Result<u64, Error> {
        let (mark, number) = cursor.parts();
        match cursor {
            Cursor::BEGIN => Ok(0),
            _ if mark == u64::from(self.mark()) => {
                let group = number >> GROUP_BITS;
                let mut lows = lows(group);
                lows.sort_unstable();
                let low = lows[number as usize % lows.len()];
                Ok(u64::from(group) << RANK_SHIFT | low)
            }
            Cursor(cursor) => Err(Error::text(format!(
                "ERR invalid cursor: {cursor} does not come from this server with this journal, so continuing from \
                 it would skip some entries; begin again with 0"
            ))),
        }
    }

    fn mark(&self) -> u32 {
        (self.name(MARKED) >> (u32::BITS - Cursor::MARK_BITS)).max(1)
    }
}

fn low(place: u64) -> u64 {
    place & ((1 << RANK_SHIFT) - 1)
}

fn lows(group: u32) -> [u64; 1 << GROUP_BITS] {
    std::array::from_fn(|at| low(wide(group << GROUP_BITS | at as u32)))
}

const _: () = assert!(PLACE_BITS - RANK_SHIFT + GROUP_BITS == u32::BITS);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::store::jobs::index::{SlabIndex, place_of};
    use rand::{Rng, SeedableRng, rngs::SmallRng};

    #[test]
    fn cursors_are_in_the_order_of_places_and_lead_back_to_them() {
        let hasher = Hasher::new(7);
        let mut random = SmallRng::seed_from_u64(7);
        let mut hashes: Vec<u32> = (0..3_000).map(|_| random.random()).collect();
        hashes.extend([u32::MAX, 5 << 5, 5 << 5 | 1, 5 << 5 | 31]);
        hashes.sort_unstable_by_key(|hash| place_of(wide(*hash)));
        let cursors: Vec<Cursor> = hashes
            .iter()
            .map(|hash| hasher.cursor_at(place_of(wide(*hash))))
            .filter(|cursor| *cursor != Cursor::END)
            .collect();
        assert!(cursors.is_sorted_by_key(|cursor| cursor.0));
        for hash in hashes.iter().map(|hash| place_of(wide(*hash))) {
            assert_eq!(hasher.place_at(hasher.cursor_at(hash)).unwrap(), hash);
            // Between two entries of the index, as where a table ends.
            assert_eq!(hasher.place_at(hasher.cursor_at(hash - 1)).unwrap(), hash);
        }
        let end = (1 << PLACE_BITS) - 1;
        assert_eq!(hasher.cursor_at(end), Cursor::END, "there is no later place");
    }

    #[test]
    fn a_cursor_fits_into_a_double_and_is_refused_in_another_order() {
        for key in 0..2_000 {
            let (own, other) = (Hasher::new(key), Hasher::new(key + 1));
            let mut table = SlabIndex::default();
            let hash_of = |entry: u32| wide(own.number(u64::from(entry)));
            (0..40).for_each(|entry| table.insert(hash_of(entry), entry, hash_of));
            let cursor = own.cursor_at(table.scan(0, 20, hash_of, |_| {}));
            assert!(cursor.0 > 0 && cursor.0 < 1 << 53, "{cursor:?}");
            assert!(own.place_at(cursor).is_ok());
            let refused = other.place_at(cursor).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("ERR invalid cursor: {} does not", cursor.0)));
            assert!(own.place_at(Cursor(1)).is_err(), "a cursor without a mark");
        }
    }
}
