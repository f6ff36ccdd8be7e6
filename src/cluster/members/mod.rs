//! The members of the cluster, and how they change.
//!
//! A change of one voter, or of learners alone, takes effect at its entry. A larger one passes through a *joint*
//! state, in which majorities of both the old and the new voters have to agree; the leader ends it by itself
//! as soon as it has been committed.

pub mod claims;
pub mod directory;
pub mod formation;
pub mod names;
pub(super) mod wire;

use crate::limits::{NODES_BYTES_MAX, NODES_MAX};
use bytes::{Buf, BufMut, Bytes};
use thiserror::Error;

/// The members as of an index. Each list is in ascending order; no node is in two lists, except for those that are
/// about to leave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// The nodes whose majority decides.
    pub voters: Vec<u64>,
    /// In a joint state the previous voters, whose majority is needed too.
    pub outgoing: Vec<u64>,
    /// Those that are sent everything and have no vote.
    pub learners: Vec<u64>,
    /// In a joint state: outgoing voters that are learners after it.
    pub learners_next: Vec<u64>,
    /// How the members are called and where they listen: [`crate::cluster::members::directory::Directory`] as bytes.
    pub directory: Bytes,
}

/// Why there is no such change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WrongMembers {
    #[error("a cluster needs a voter")]
    NoVoter,
    #[error("more than {NODES_MAX} nodes of a kind")]
    TooMany,
    #[error("the names and addresses have more than {NODES_BYTES_MAX} bytes")]
    Directory,
    /// An id twice, out of order, 0, or in lists that exclude each other.
    #[error("the lists of nodes contradict each other")]
    Lists,
    #[error("these bytes are not a list of members")]
    Bytes,
}

impl Members {
    /// Exactly these voters.
    pub fn of(voters: impl IntoIterator<Item = u64>) -> Members {
        let mut voters: Vec<u64> = voters.into_iter().collect();
        voters.sort_unstable();
        Members { voters, ..Members::default() }
    }

    /// Whether majorities of two sets of voters are needed.
    pub fn is_joint(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Whether it is sent the log, with a vote or without.
    pub fn contains(&self, id: u64) -> bool {
        [&self.voters, &self.outgoing, &self.learners].iter().any(|list| list.contains(&id))
    }

    /// All of them, in ascending order.
    pub fn all(&self) -> Vec<u64> {
        let lists = [&self.voters, &self.outgoing, &self.learners];
        let mut all: Vec<u64> = lists.into_iter().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The members after the entry that begins a change towards `target`, whose `outgoing` and `learners_next` are
    /// ignored. They are joint if the change affects more than one node.
    pub fn toward(&self, target: &Members) -> Result<Members, WrongMembers> {
        let mut next =
            Members { outgoing: Vec::new(), learners_next: Vec::new(), ..target.clone() };
        if self.changes_to(&next).len() > 1 {
            next.outgoing = self.voters.clone();
            let demoted = |id: &u64| self.voters.contains(id);
            (next.learners_next, next.learners) =
                next.learners.iter().copied().partition(|id| demoted(id));
        }
        next.check()?;
        Ok(next)
    }

    /// The members after the joint state.
    pub fn left(&self) -> Members {
        let mut learners = self.learners.clone();
        learners.extend(&self.learners_next);
        learners.sort_unstable();
        Members {
            voters: self.voters.clone(),
            learners,
            directory: self.directory.clone(),
            ..Members::default()
        }
    }

    /// The changes of single nodes that lead from here to `next`.
    pub(super) fn changes_to(&self, next: &Members) -> Vec<(NodeStep, u64)> {
        let learners = || next.learners.iter().chain(&next.learners_next);
        let is_kept = |id: &u64| next.voters.contains(id) || learners().any(|other| other == id);
        let joins = |list: &[u64], id: &u64| !list.contains(id);
        let voters = next.voters.iter().filter(|id| joins(&self.voters, id));
        let learning = learners().filter(|id| joins(&self.learners, id));
        let gone = self.voters.iter().chain(&self.learners).filter(|id| !is_kept(id));
        let voters = voters.map(|id| (NodeStep::Voter, *id));
        let learning = learning.map(|id| (NodeStep::Learner, *id));
        voters.chain(learning).chain(gone.map(|id| (NodeStep::Gone, *id))).collect()
    }

    /// Appends its bytes: a version, four lists, each its count and the ids, and the directory with its size.
    pub fn encode(&self, into: &mut Vec<u8>) {
        into.put_u8(VERSION);
        for list in [&self.voters, &self.outgoing, &self.learners, &self.learners_next] {
            into.put_u8(list.len() as u8);
            list.iter().for_each(|id| into.put_u64_le(*id));
        }
        into.put_u32_le(self.directory.len() as u32);
        into.put_slice(&self.directory);
    }

    /// Reads what [`encode`](Self::encode) wrote, all of it, and checks it.
    pub fn decode(mut bytes: &[u8]) -> Result<Members, WrongMembers> {
        if bytes.try_get_u8() != Ok(VERSION) {
            return Err(WrongMembers::Bytes);
        }
        let mut list = || {
            let count = bytes.try_get_u8().map_err(|_| WrongMembers::Bytes)?;
            if usize::from(count) > NODES_MAX {
                return Err(WrongMembers::TooMany);
            }
            let id = |_| bytes.try_get_u64_le().map_err(|_| WrongMembers::Bytes);
            (0..count).map(id).collect::<Result<Vec<u64>, _>>()
        };
        let mut members = Members {
            voters: list()?,
            outgoing: list()?,
            learners: list()?,
            learners_next: list()?,
            directory: Bytes::new(),
        };
        let size = bytes.try_get_u32_le().map_err(|_| WrongMembers::Bytes)?;
        if size as usize != bytes.len() {
            return Err(WrongMembers::Bytes);
        }
        if bytes.len() > NODES_BYTES_MAX {
            return Err(WrongMembers::Directory);
        }
        members.directory = Bytes::copy_from_slice(bytes);
        members.check()?;
        Ok(members)
    }

    /// The rules for all members of a cluster at any time.
    pub fn check(&self) -> Result<(), WrongMembers> {
        let lists = [&self.voters, &self.outgoing, &self.learners, &self.learners_next];
        if self.voters.is_empty() {
            return Err(WrongMembers::NoVoter);
        }
        if lists.iter().any(|list| list.len() > NODES_MAX) {
            return Err(WrongMembers::TooMany);
        }
        if self.directory.len() > NODES_BYTES_MAX {
            return Err(WrongMembers::Directory);
        }
        let is_ordered = |list: &Vec<u64>| {
            list.first() != Some(&0) && list.windows(2).all(|two| two[0] < two[1])
        };
        let apart = |one: &[u64], other: &[u64]| one.iter().all(|id| !other.contains(id));
        let are_right = lists.into_iter().all(is_ordered)
            && apart(&self.learners, &self.voters)
            && apart(&self.learners, &self.outgoing)
            && apart(&self.learners_next, &self.voters)
            && self.learners_next.iter().all(|id| self.outgoing.contains(id));
        if are_right { Ok(()) } else { Err(WrongMembers::Lists) }
    }
}

/// The fate of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeStep {
    Voter,
    Learner,
    Gone,
}

const VERSION: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn members(voters: &[u64], learners: &[u64]) -> Members {
        Members { learners: learners.to_vec(), ..Members::of(voters.iter().copied()) }
    }

    #[test]
    fn one_node_changes_at_once_and_two_by_a_joint_state() {
        let three = members(&[1, 2, 3], &[]);
        let learning = three.toward(&members(&[1, 2, 3], &[4])).expect("a change");
        assert_eq!(learning, members(&[1, 2, 3], &[4]));
        assert!(!learning.is_joint());

        // Node 4 takes the place of 3, which goes on as a learner.
        let joint = learning.toward(&members(&[1, 2, 4], &[3])).expect("a change");
        assert_eq!((&joint.outgoing, &joint.learners_next), (&vec![1, 2, 3], &vec![3]));
        assert_eq!((&joint.voters, &joint.learners), (&vec![1, 2, 4], &vec![]));
        assert_eq!(joint.left(), members(&[1, 2, 4], &[3]));
        assert_eq!(joint.all(), [1, 2, 3, 4]);

        assert_eq!(three.toward(&members(&[], &[1])), Err(WrongMembers::NoVoter));
        assert_eq!(three.toward(&members(&[1, 2], &[2])), Err(WrongMembers::Lists));
        assert_eq!(three.toward(&members(&[0, 2], &[])), Err(WrongMembers::Lists));
        let many = Members::of(1..=NODES_MAX as u64 + 1);
        assert_eq!(three.toward(&many), Err(WrongMembers::TooMany));
    }

    #[test]
    fn bytes_give_the_members_back_and_no_others_do() {
        let mut joint =
            members(&[1, 2, 3], &[4]).toward(&members(&[1, 2, 4], &[3])).expect("a change");
        joint.directory = Bytes::from_static(b"n1=127.0.0.1:19248");
        let mut bytes = Vec::new();
        joint.encode(&mut bytes);
        assert_eq!(Members::decode(&bytes), Ok(joint));
        for short in 0..bytes.len() {
            assert!(Members::decode(&bytes[..short]).is_err(), "{short} bytes");
        }
        bytes.push(0);
        assert_eq!(Members::decode(&bytes), Err(WrongMembers::Bytes));
        bytes[0] = 2;
        assert_eq!(Members::decode(&bytes), Err(WrongMembers::Bytes));
    }
}
