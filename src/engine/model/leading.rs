//! The leader of a cluster, and the span after a change of leader in which no lease could be answered for.

use crate::time::{Micros, Millis};

/// A span in which no client could answer for a lease. A lease that would have ended within it is extended when its end
/// is reached.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Stall {
    /// When the leader before was last heard.
    pub from: Millis,
    /// By when all holders have found the new one; not before `from`.
    pub to: Millis,
}

impl Stall {
    /// One that has begun before the other was over goes on with it.
    pub fn joined(self, earlier: Option<Stall>) -> Stall {
        let Some(earlier) = earlier else { return self };
        Stall { from: self.from.min(earlier.from), to: self.to.max(earlier.to) }
    }

    /// The new end of a lease that would have ended at `end` and is reached at `now`: it has the time it had left when
    /// the stall began, and lives until the stall is over. In any case after the stall, so that this happens once.
    pub fn extension(self, end: Millis, now: Millis) -> Option<Millis> {
        let left_ms = end.0.checked_sub(self.from.0).filter(|_| end <= self.to)?;
        Some(now.plus(left_ms.max(1)).max(self.to.plus(1)))
    }
}

/// A node's knowledge when it begins to lead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lead {
    /// The epoch, from 1 on.
    pub term: u64,
    /// This node's id.
    pub node: u64,
    /// The level of the format that all members read.
    pub level: u32,
    /// When the leader before was last heard: the last instant applied, or later by this node's own clock.
    pub from: Micros,
    /// By when all its clients will have found this node.
    pub to: Micros,
}

/// The leader; all of it 0 while there never was one, as in the journal of a standalone server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Leading {
    /// The epoch of the leader.
    pub term: u64,
    /// Its node id.
    pub node: u64,
    /// The level of the format that all members read.
    pub level: u32,
    /// None once every lease was met that would have ended in it.
    pub stall: Option<Stall>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: Stall = Stall { from: Millis(1_000), to: Millis(3_000) };

    #[test]
    fn a_lease_has_what_it_had_left_lives_to_the_end_and_is_extended_once() {
        let at = |end, now| STALL.extension(Millis(end), Millis(now)).map(|end| end.0);
        assert_eq!(at(999, 1_500), None);
        assert_eq!(at(3_001, 3_500), None);
        // Ended at once by a span of its own: up to the end of the stall and not in it.
        assert_eq!(at(1_000, 1_500), Some(3_001));
        assert_eq!(at(2_500, 2_500), Some(4_000));
        assert_eq!(at(3_000, 3_000), Some(5_000));
        assert_eq!(at(1_000, 7_000), Some(7_001));
        for end in 1_000..=3_000 {
            for now in [end, 3_000, 3_001, 9_000] {
                let extended = at(end, now).expect("it is within");
                assert!(extended > 3_000 && extended > now && at(extended, extended).is_none());
            }
        }
    }

    #[test]
    fn a_stall_that_is_not_over_goes_on() {
        let later = Stall { from: Millis(2_000), to: Millis(5_000) };
        assert_eq!(later.joined(None), later);
        assert_eq!(later.joined(Some(STALL)), Stall { from: Millis(1_000), to: Millis(5_000) });
        let short = Stall { from: Millis(2_000), to: Millis(2_100) };
        assert_eq!(short.joined(Some(STALL)), STALL);
    }
}
