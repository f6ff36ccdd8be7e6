//! Hashes of ids and names: keyed, so that no client can choose colliding ids.
//!
//! A job keeps 32 bits of its id's hash; [`wide`] spreads them over the 64 that the index wants. Its
//! rank (what decides about the index table) is the upper 27 of the 32 bits. For a server-made id
//! they come from its number without the lowest 5 bits, which follow unchanged: 32 ids made one
//! after the other share a table, so that adding and acknowledging in that order finds its cache
//! lines warm. (Made ids fall into some hundred thousand tables' lines otherwise: half of the time
//! of an ADD was waiting for them.) A table holds 336, so groups of 32 leave it room to split, and
//! no more than 32 ids can ever share a rank by design.
//!
//! Equal keys give equal hashes, and so one order of SCAN, in builds of one version whose targets both have or both
//! lack the AES instructions (`-C target-cpu`; a plain build for x86-64 or aarch64 lacks them): ahash chooses by that.
//! Nothing else depends on it. A cursor of a build with other hashes is refused (see `order.rs`); digests and facts do
//! not use hashes of this key.

use ahash::RandomState;

use crate::engine::model::token;

/// Bits of a made id's number that do not decide about the table.
pub(super) const GROUP_BITS: u32 = 5;

/// Bits of a wide hash that make its place in the index: below the 7 that tables use as a tag.
pub(super) const PLACE_BITS: u32 = 57;

/// Where the rank's bits are in the wide hash.
pub(super) const RANK_SHIFT: u32 = PLACE_BITS - (32 - GROUP_BITS);
const RANK_MASK: u64 = ((1 << (32 - GROUP_BITS)) - 1) << RANK_SHIFT;

/// The hash functions of a partition.
#[derive(Clone, Debug)]
pub struct Hasher(RandomState);

impl Hasher {
    pub fn new(seed: u64) -> Hasher {
        Hasher(RandomState::with_seeds(seed, !seed, 0x6a09_e667, 0xbb67_ae85))
    }

    /// For maps whose order is never used.
    pub fn state(&self) -> RandomState {
        self.0.clone()
    }

    pub fn name(&self, name: &[u8]) -> u32 {
        self.0.hash_one(name) as u32
    }

    pub fn id(&self, id: &[u8]) -> u32 {
        match token::read(id) {
            Some(number) => self.number(number),
            None => self.name(id),
        }
    }

    pub fn number(&self, number: u64) -> u32 {
        let group = self.0.hash_one(number >> GROUP_BITS) as u32;
        (group << GROUP_BITS) | (number as u32 & ((1 << GROUP_BITS) - 1))
    }
}

/// The 64 bits that the index wants. The lowest 5 say where in a table an entry is looked for: the 32 ids
/// of a group are spread evenly, and those that have the same place in their groups are not together.
pub fn wide(hash: u32) -> u64 {
    let mixed = u64::from(hash ^ hash >> GROUP_BITS).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed & !RANK_MASK) | (u64::from(hash >> GROUP_BITS) << RANK_SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_id_hashes_as_its_number_and_its_neighbours_share_a_rank() {
        let hasher = Hasher::new(7);
        let rank = |number| (wide(hasher.number(number)) & RANK_MASK) >> RANK_SHIFT;
        for number in [0, 1, 31, 32, 1 << 40, (1 << 63) - 1] {
            assert_eq!(hasher.id(&token::written(number)), hasher.number(number));
        }
        assert_eq!(rank(1 << 20), rank((1 << 20) + 31));
        assert_ne!(rank(1 << 20), rank((1 << 20) + 32));
    }

    #[test]
    fn neighbours_spread_evenly_and_so_do_those_that_are_left_of_many_groups() {
        let hasher = Hasher::new(7);
        let places = |numbers: &mut dyn Iterator<Item = u64>| {
            let mut counts = [0; 32];
            numbers.for_each(|number| counts[wide(hasher.number(number)) as usize % 32] += 1);
            counts
        };
        assert_eq!(places(&mut (0..32)), [1; 32]);
        let left = places(&mut (0..3_200).map(|group| group << GROUP_BITS));
        assert!(left.iter().all(|count| (50..150).contains(count)), "{left:?}");
    }
}
