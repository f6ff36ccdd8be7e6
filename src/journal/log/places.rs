//! Where the batches of the log stand, those that were cut left out.

use crate::ids::Index;
use std::collections::VecDeque;

const MARK_BYTES: u64 = 256 << 10;

/// Where a batch begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::journal) struct Mark {
    pub index: Index,
    /// The `lsn` of the first record of its segment.
    pub segment: u64,
    pub at: u64,
}

/// Marks of some batches, in order of their indexes. The batches from one mark to before the next are in one segment,
/// in order, so that finding one reads at most 256 KiB and a batch: a new mark is made in each segment, and after each
/// cut.
#[derive(Clone, Debug, Default)]
pub(in crate::journal) struct Places {
    marks: VecDeque<Mark>,
    /// The last batch was cut: the next one needs a mark.
    cut: bool,
}

impl Places {
    /// A batch is there, or is about to be: after all others.
    pub fn push(&mut self, index: Index, segment: u64, at: u64) {
        let near = |mark: &Mark| mark.segment == segment && at - mark.at < MARK_BYTES;
        if std::mem::take(&mut self.cut) || !self.marks.back().is_some_and(near) {
            self.marks.push_back(Mark { index, segment, at });
        }
    }

    /// Batches after `index` are void.
    pub fn cut(&mut self, index: Index) {
        let left = self.marks.partition_point(|mark| mark.index <= index);
        self.marks.truncate(left);
        self.cut = true;
    }

    /// The segment that begins with this record is the oldest one now.
    pub fn drop_before(&mut self, segment: u64) {
        let gone = self.marks.partition_point(|mark| mark.segment < segment);
        self.marks.drain(..gone);
    }

    /// The last mark up to a batch, and the index of the next mark.
    pub fn find(&self, index: Index) -> Option<(Mark, Option<Index>)> {
        let next = self.marks.partition_point(|mark| mark.index <= index);
        let mark = *self.marks.get(next.checked_sub(1)?)?;
        Some((mark, self.marks.get(next).map(|mark| mark.index)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_found_from_the_mark_that_its_last_writing_has() {
        let mut places = Places::default();
        let found = |places: &Places, index: u64| {
            places.find(Index(index)).map(|(mark, _)| (mark.segment, mark.at))
        };
        assert_eq!(found(&places, 1), None);
        (1..=9).for_each(|index| places.push(Index(index), 1, 4_096 + index * 100));
        assert_eq!(found(&places, 9), Some((1, 4_196)));
        places.cut(Index(5));
        places.push(Index(6), 1, 5_200);
        assert_eq!((found(&places, 5), found(&places, 6)), (Some((1, 4_196)), Some((1, 5_200))));
        // All of it is void, then a segment begins.
        places.cut(Index(5));
        places.push(Index(6), 20, 4_300);
        places.push(Index(7), 20, 4_300 + MARK_BYTES);
        assert_eq!(
            (found(&places, 6), found(&places, 8)),
            (Some((20, 4_300)), Some((20, 4_300 + MARK_BYTES)))
        );
        places.drop_before(20);
        assert_eq!((found(&places, 5), found(&places, 6)), (None, Some((20, 4_300))));
    }
}
