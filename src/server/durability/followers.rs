//! The progress of a cluster's other nodes, for clients that wait for them: WAIT and WAITAOF.

use crate::cluster::driver::Status;

/// As the leader knows it; the default is that of a standalone server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Followers {
    /// The newest entry that is committed, and durable here.
    committed: u64,
    /// So many others have that one at least: a majority, less this node.
    majority: u64,
    /// Up to where each of the others has the log, durably; at most a tick old.
    matched: Vec<u64>,
}

impl Followers {
    /// As the thread of Raft says, of a leader that has applied all up to `committed`.
    pub fn of(status: &Status, committed: u64) -> Followers {
        let matched = status.peers.iter().map(|peer| peer.matched).collect();
        let majority = status.members.voters.len() as u64 / 2;
        Followers { committed, majority, matched }
    }

    /// The newest entry that is committed.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    pub fn known(&self) -> u64 {
        self.matched.len() as u64
    }

    /// How many have this entry; none has one that is not committed, of which no index is known.
    pub fn count(&self, index: Option<u64>) -> u64 {
        let Some(index) = index else { return 0 };
        let seen = self.matched.iter().filter(|matched| **matched >= index).count() as u64;
        if index <= self.committed { seen.max(self.majority) } else { seen }
    }

    /// The newest entry that this many nodes have; 0 if there are fewer.
    pub fn reached_by(&self, count: u64) -> u64 {
        let mut matched = self.matched.clone();
        matched.sort_unstable_by(|one, other| other.cmp(one));
        let at = usize::try_from(count).ok().and_then(|count| count.checked_sub(1));
        let seen = at.and_then(|at| matched.get(at)).copied().unwrap_or(0);
        if count <= self.majority { seen.max(self.committed) } else { seen }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_has_what_is_committed_and_others_what_they_said() {
        let followers = Followers { committed: 10, majority: 1, matched: vec![4, 8] };
        let count = |index| followers.count(Some(index));
        assert_eq!([count(3), count(8), count(9), count(10), count(11)], [2, 1, 1, 1, 0]);
        assert_eq!(followers.count(None), 0);
        let reached = |count| followers.reached_by(count);
        assert_eq!([reached(1), reached(2), reached(3), reached(u64::MAX)], [10, 4, 0, 0]);
        for index in 0..12 {
            for needed in 1..4 {
                assert_eq!(count(index) >= needed, index <= reached(needed) && needed <= 2);
            }
        }
        assert_eq!(Followers::default().count(Some(1)), 0);
    }
}
