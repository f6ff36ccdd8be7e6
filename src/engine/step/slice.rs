//! A share of a walk in the order of hashes, bounded by entries and by bytes compared with a pattern.
//!
//! A comparison takes up to the pattern's length times the name's: `*[b…b]c*` with a thousand `b` compares half a
//! million bytes in a name of 512, which is half a ms. So a scan with a long pattern proceeds in small pieces, and ends
//! early once they have taken long; [`Slice::place`] has the position.

use crate::engine::model::group::GroupRow;
use crate::engine::step::across::{Across, Ranking};
use crate::engine::store::jobs::JobIndex;
use crate::engine::store::purged::Floors;
use crate::ids::QueueNo;
use crate::limits::{NAME_BYTES_MAX, PATTERN_STEPS_PER_TURN};
use crate::time::Millis;

#[derive(Debug)]
pub struct Slice {
    place: u64,
    left: usize,
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

    /// Goes through the share: `look` visits about this many entries from a place on, adds the bytes that it compared,
    /// and returns where the next piece begins.
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

    /// A piece of `count` entries ended at `place` after this many bytes compared.
    fn looked(&mut self, place: u64, count: usize, steps: u64) {
        self.place = place;
        self.left = self.left.saturating_sub(count);
        self.steps += steps;
        self.is_over = place == 0 || self.left == 0;
    }
}

// Requests that take several turns: how far each has come.

/// A client's request that is half done; it has no other meanwhile.
#[derive(Debug)]
pub enum Unfinished {
    /// A QUEUES or a FIND.
    Across(Box<Across>),
    Groups(Box<GroupsProgress>),
    Keys(KeysProgress),
    Redrive(Redriven),
    PurgeGroup(Box<GroupPurge>),
    Bulk(Box<BulkProgress>),
    /// A LIST of schedules that has found none yet: the name that it has looked at last.
    Schedules(Box<[u8]>),
}

/// How far the client's request of this kind has come, if it has begun one; what it has begun of another kind is dropped.
macro_rules! resumed {
    ($step:expr, $kind:ident) => {
        match $step.live.unfinished.remove(&$step.client) {
            Some(Unfinished::$kind(begun)) => Some(begun),
            _ => None,
        }
    };
}

pub(in crate::engine) use resumed;

/// How far a GROUPS has come.
#[derive(Debug)]
pub struct GroupsProgress {
    /// Which binding of the queue it was; 0 for none.
    pub born: u64,
    /// The number of the next group.
    pub from: u32,
    pub ranking: Ranking<GroupRow>,
}

/// How far a KEYS has come.
#[derive(Debug, Default)]
pub struct KeysProgress {
    pub place: u64,
    pub names: Vec<Box<[u8]>>,
    pub bytes: usize,
}

/// How far a REDRIVE has come.
#[derive(Clone, Copy, Debug)]
pub struct Redriven {
    pub queue: QueueNo,
    pub born: u64,
    /// Jobs that died later, by the sequence of their death, are left alone: those that were moved
    /// may well be dead again before the end.
    pub before: i64,
    /// The due time of IN, as of the receipt of the command.
    pub due: Millis,
    pub moved: u64,
    /// With GROUP: the last dead job that was passed over because its group is another one, and its place in the order of
    /// deaths. The next turn goes on behind it.
    pub passed: Option<(JobIndex, i64)>,
}

/// How far a PURGE of a group has come.
#[derive(Debug)]
pub struct GroupPurge {
    pub queue: QueueNo,
    pub born: u64,
    /// Tells the jobs that were there when it began from later ones.
    pub begun: (Millis, Floors),
    /// In the walk through the ids.
    pub place: u64,
    pub removed: u64,
}

/// How far a BULK has come.
#[derive(Debug)]
pub struct BulkProgress {
    pub queue: QueueNo,
    pub born: u64,
    /// When it began, and what was there then.
    pub at: Millis,
    pub floors: Floors,
    /// The due time of the first, as of the receipt of the command.
    pub due: Millis,
    /// In the walk through the ids.
    pub place: u64,
    /// How many there are, if that had to be known first; none while they are counted.
    pub counted: Option<u64>,
    pub found: u64,
    pub done: u64,
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
