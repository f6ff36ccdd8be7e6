//! A share of a walk in the order of hashes, bounded by entries and by bytes compared with a pattern.
//!
//! A comparison takes up to the pattern's length times the name's: `*[b…b]c*` with a thousand `b` looks at
//! half a million bytes in a name of 512, which is half a ms. So a walk with a long pattern goes on in small
//! pieces, and ends early once they have taken long; [`Slice::place`] tells where.

use crate::limits::{NAME_BYTES_MAX, PATTERN_STEPS_PER_TURN};

/// See the module.
#[derive(Debug)]
pub struct Slice {
    place: u64,
    left: usize,
    /// Entries of a piece.
    piece: usize,
    steps: u64,
    is_over: bool,
}

impl Slice {
    /// From `place` on over `count` entries, at least one piece of them.
    pub fn new(place: u64, count: usize, pattern: Option<&[u8]>) -> Slice {
        let worst = pattern.map_or(1, |pattern| (pattern.len() * NAME_BYTES_MAX).max(1));
        let piece = (2 * PATTERN_STEPS_PER_TURN as usize / worst).clamp(4, count.max(4));
        Slice { place, left: count, piece, steps: 0, is_over: false }
    }

    /// Over everything, in one piece.
    pub fn whole(place: u64) -> Slice {
        Slice { place, left: usize::MAX, piece: usize::MAX, steps: 0, is_over: false }
    }

    /// Goes through the share: `look` visits about so many entries from a place on, adds the bytes that it
    /// compared, and tells where the next piece begins.
    pub fn go(&mut self, mut look: impl FnMut(u64, usize, &mut u64) -> u64) {
        while let Some(count) = self.next() {
            let mut steps = 0;
            let place = look(self.place, count, &mut steps);
            self.looked(place, count, steps);
        }
    }

    /// How many entries to look at next; none when the share is used up or the walk is over.
    fn next(&self) -> Option<usize> {
        let goes_on = !self.is_over && self.steps < PATTERN_STEPS_PER_TURN;
        goes_on.then_some(self.piece.min(self.left))
    }

    /// Where the next piece begins, and the next share; 0 when the walk is over.
    pub fn place(&self) -> u64 {
        self.place
    }

    /// A piece of `count` entries ended at `place` after so many bytes compared.
    fn looked(&mut self, place: u64, count: usize, steps: u64) {
        self.place = place;
        self.left = self.left.saturating_sub(count);
        self.steps += steps;
        self.is_over = place == 0 || self.left == 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_pattern_is_compared_with_few_names_at_a_time() {
        let mut slice = Slice::new(0, 10_000, Some(&[b'a'; 1024]));
        assert_eq!(slice.next(), Some(4));
        slice.looked(7, 4, 1 << 19);
        assert_eq!((slice.next(), slice.place()), (Some(4), 7));
        slice.looked(9, 4, 1 << 19);
        assert_eq!((slice.next(), slice.place()), (None, 9), "half a million bytes each");
    }

    #[test]
    fn a_short_one_or_none_ends_with_the_count() {
        for pattern in [None, Some(&b"*"[..])] {
            let mut slice = Slice::new(0, 100, pattern);
            assert_eq!(slice.next(), Some(100));
            slice.looked(5, 100, 100);
            assert_eq!(slice.next(), None);
        }
    }
}
