//! Whether all nodes hold the same data: each sums up what it holds as of one index, and the leader compares.
//!
//! ```text
//!  leader    all it has decided is committed, up to I ──> Asked(I) ──> sums up its base of I ──> compares
//!  follower  applies up to I and no further ──> begins a base ──> goes on; Sum(I) when all is in it
//! ```
//!
//! The sum is that of a base's images ([`Engine::base_sum`](crate::engine::Engine::base_sum)). It is computed in slices
//! while the engine goes on, so no client waits for it. Nothing is decided after I before the question is sent, and
//! later decisions need a round trip and two syncs to arrive: a follower that is already past I was slow to hear the
//! question, and reports that.

use crate::words::words;
use std::collections::BTreeMap;
use std::fmt;

/// The note between nodes; on the wire three numbers of 8 bytes, little-endian.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VerifyNote {
    /// By the leader: what is there as of this index?
    Asked { index: u64 },
    /// The answer.
    Sum { index: u64, sum: u64 },
    /// No sum.
    Missed { index: u64, why: Missed },
}

words! {
    /// Why a node has not reported its sum. The order is part of the wire format.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Missed {
        /// It had applied more when it was asked.
        Passed = "it was already past that index",
        /// It was writing a base, or reading one.
        Busy = "it was already writing a base",
        /// The base was given up.
        Failed = "its base failed",
        /// Nothing was heard of it within E, or the connection has ended.
        Gone = "unreachable",
        /// It does not know the question.
        Old = "its version is too old",
    }
}

/// The result for a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeVerdict {
    /// It is counting, or the leader is.
    Running,
    /// It holds what the leader holds.
    Same(u64),
    /// It does not.
    Differs(u64),
    /// Unknown.
    Missed(Missed),
}

/// The leader's account of one question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verification {
    pub index: u64,
    own: Option<Result<u64, Missed>>,
    others: BTreeMap<u64, Option<Result<u64, Missed>>>,
}

/// The result for all nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VerifyTally {
    /// Nodes that hold the same, the leader among them.
    pub same: usize,
    /// Nodes that do not.
    pub differ: usize,
    /// Nodes whose result is unknown.
    pub missed: usize,
    /// Nodes that are still counting.
    pub running: usize,
}

impl VerifyNote {
    pub const BYTES: usize = 24;

    /// The note in wire format.
    pub fn encode(&self) -> [u8; VerifyNote::BYTES] {
        let numbers = match *self {
            VerifyNote::Asked { index } => [1, index, 0],
            VerifyNote::Sum { index, sum } => [2, index, sum],
            VerifyNote::Missed { index, why } => [3, index, why as u64],
        };
        let mut bytes = [0; VerifyNote::BYTES];
        for (to, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// Reads it; nothing if the bytes are invalid.
    pub fn decode(bytes: &[u8]) -> Option<VerifyNote> {
        let bytes: &[u8; VerifyNote::BYTES] = bytes.try_into().ok()?;
        let number =
            |at: usize| u64::from_le_bytes(*bytes[8 * at..].first_chunk().expect("24 bytes"));
        let (index, value) = (number(1), number(2));
        match number(0) {
            1 => Some(VerifyNote::Asked { index }),
            2 => Some(VerifyNote::Sum { index, sum: value }),
            3 => {
                let why = *Missed::ALL.get(usize::try_from(value).ok()?)?;
                Some(VerifyNote::Missed { index, why })
            }
            _ => None,
        }
    }
}

impl Verification {
    /// These were asked what they hold as of `index`.
    pub fn new(index: u64, others: impl IntoIterator<Item = u64>) -> Verification {
        let others = others.into_iter().map(|node| (node, None)).collect();
        Verification { index, own: None, others }
    }

    /// The leader's own sum.
    pub fn count(&mut self, own: Result<u64, Missed>) {
        self.own.get_or_insert(own);
    }

    /// Whether the leader has said what it holds.
    pub fn is_counted(&self) -> bool {
        self.own.is_some()
    }

    /// A node has answered. A note about another index belongs to an earlier question.
    pub fn hear(&mut self, node: u64, note: VerifyNote) {
        let (of, said) = match note {
            VerifyNote::Asked { .. } => return,
            VerifyNote::Sum { index, sum } => (index, Ok(sum)),
            VerifyNote::Missed { index, why } => (index, Err(why)),
        };
        if let Some(other) = self.others.get_mut(&node).filter(|_| of == self.index) {
            other.get_or_insert(said);
        }
    }

    /// This node will not answer any more.
    pub fn part(&mut self, node: u64) {
        self.hear(node, VerifyNote::Missed { index: self.index, why: Missed::Gone });
    }

    /// The result for a node; `own` is the leader. Nothing for a node that was not asked.
    pub fn found(&self, node: u64, own: u64) -> Option<NodeVerdict> {
        let said = if node == own { self.own } else { *self.others.get(&node)? };
        Some(match (said, self.own) {
            (Some(Err(why)), _) => NodeVerdict::Missed(why),
            (Some(Ok(sum)), Some(Ok(own))) if sum == own => NodeVerdict::Same(self.index),
            (Some(Ok(_)), Some(Ok(_))) => NodeVerdict::Differs(self.index),
            // There is nothing to compare it with.
            (_, Some(Err(why))) => NodeVerdict::Missed(why),
            _ => NodeVerdict::Running,
        })
    }

    /// The results of all nodes that were asked, and of the leader `own`.
    pub fn tally(&self, own: u64) -> VerifyTally {
        let mut tally = VerifyTally::default();
        for node in self.others.keys().chain([&own]) {
            match self.found(*node, own) {
                Some(NodeVerdict::Same(_)) => tally.same += 1,
                Some(NodeVerdict::Differs(_)) => tally.differ += 1,
                Some(NodeVerdict::Missed(_)) => tally.missed += 1,
                Some(NodeVerdict::Running) => tally.running += 1,
                None => {}
            }
        }
        tally
    }
}

impl fmt::Display for NodeVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeVerdict::Running => f.write_str("running"),
            NodeVerdict::Same(index) => write!(f, "same at {index}"),
            NodeVerdict::Differs(index) => write!(f, "DIFFERS at {index}"),
            NodeVerdict::Missed(why) => write!(f, "not known: {}", why.word()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(index: u64, sum: u64) -> VerifyNote {
        VerifyNote::Sum { index, sum }
    }

    #[test]
    fn notes_are_read_as_they_were_written_and_others_are_none() {
        let missed = Missed::ALL.map(|why| VerifyNote::Missed { index: 7, why });
        for note in [VerifyNote::Asked { index: 9 }, sum(8, u64::MAX)].into_iter().chain(missed) {
            assert_eq!(VerifyNote::decode(&note.encode()), Some(note));
        }
        for numbers in [[0, 1, 1], [4, 1, 1], [3, 1, 5], [u64::MAX; 3]] {
            let bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
            assert_eq!(VerifyNote::decode(&bytes), None, "{numbers:?}");
            assert_eq!(VerifyNote::decode(&bytes[1..]), None);
        }
    }

    #[test]
    fn nodes_are_compared_with_the_leader_as_of_one_index() {
        let mut asked = Verification::new(10, [2, 3, 4]);
        let all = |asked: &Verification| [1, 2, 3, 4, 5].map(|node| asked.found(node, 1));
        assert_eq!(asked.tally(1).running, 4);
        asked.hear(2, sum(9, 77));
        asked.hear(5, sum(10, 77));
        asked.hear(2, sum(10, 77));
        asked.hear(2, sum(10, 78));
        asked.hear(3, sum(10, 76));
        assert_eq!(asked.tally(1).running, 4, "until the leader has its own");
        asked.count(Ok(77));
        asked.part(4);
        asked.part(2);
        let same = Some(NodeVerdict::Same(10));
        let gone = Some(NodeVerdict::Missed(Missed::Gone));
        assert_eq!(all(&asked), [same, same, Some(NodeVerdict::Differs(10)), gone, None]);
        assert_eq!(asked.tally(1), VerifyTally { same: 2, differ: 1, missed: 1, running: 0 });
    }

    #[test]
    fn without_a_sum_of_the_leader_nothing_is_known() {
        let mut asked = Verification::new(10, [2, 3]);
        asked.hear(2, sum(10, 77));
        asked.count(Err(Missed::Failed));
        assert_eq!(asked.tally(1), VerifyTally { missed: 3, ..VerifyTally::default() });
        assert_eq!(asked.found(2, 1).unwrap().to_string(), "not known: its base failed");
    }
}
