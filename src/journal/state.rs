//! What a log knows beside its batches: who votes for whom, who the members are, how far it is committed.
//!
//! The body of a record of kind state, all numbers little-endian:
//!
//! ```text
//! u8       form of the body, 1
//! u128     id of the cluster; 0 for a node alone     u64 id of this node; 0 for a node alone
//! u8       length of the node's name, then the name
//! u64 u64  vote: epoch and node; 0 0 if it never voted
//! u64      newest batch known committed
//! 3 × u64  before the first batch of the log: index and epoch of the batch there, sequence of the next fact
//! 3 × u64  the last batch likewise
//! u8       how many members' batches, then of each: u64 epoch, u64 index, u32 length, that many bytes
//! ```
//!
//! An epoch or a sequence of 0 is not known. Of the members' batches the first is the newest committed one,
//! those behind it are not committed. A node alone has 99 bytes of it.

use crate::ids::Index;
use crate::limits::{MEMBERS_BYTES_MAX, MEMBERS_PENDING_MAX, NODE_NAME_BYTES_MAX};

/// The form of the body.
const FORM: u8 = 1;

/// Who this node is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "what has no words here is what its name says")]
pub struct Identity {
    /// The cluster's id; 0 for a node alone.
    pub cluster: u128,
    /// Of this node, in the cluster; 0 for a node alone.
    pub node: u64,
    /// At most [`NODE_NAME_BYTES_MAX`] bytes.
    pub name: Box<[u8]>,
}

/// What a node voted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "what has no words here is what its name says")]
pub struct Vote {
    pub epoch: u64,
    /// 0: it has seen the epoch, and voted for nobody.
    pub node: u64,
}

impl Vote {
    /// Whether this one may come after `before`: a node votes once in an epoch.
    pub fn follows(&self, before: Option<Vote>) -> bool {
        let Some(before) = before else { return self.epoch > 0 };
        self.epoch > before.epoch
            || self.epoch == before.epoch && (before.node == 0 || before.node == self.node)
    }

    /// The body of a record of kind vote.
    pub fn encode(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[8..].copy_from_slice(&self.node.to_le_bytes());
        bytes
    }

    /// Reads a body; nothing if it is none.
    pub fn decode(body: &[u8]) -> Option<Vote> {
        let mut body = Body(body);
        let vote = Vote { epoch: body.long()?, node: body.long()? };
        (body.0.is_empty() && vote.epoch > 0).then_some(vote)
    }
}

/// A batch that tells who the members are. What stands in it is not the journal's to know.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "what has no words here is what its name says")]
pub struct Members {
    pub epoch: u64,
    pub index: Index,
    /// At most [`MEMBERS_BYTES_MAX`] bytes.
    pub body: Vec<u8>,
}

/// A place between two batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Position {
    /// The batch before; 0 if there is none.
    pub index: Index,
    /// Its epoch; 0 if it is not known.
    pub epoch: u64,
    /// The sequence of the fact that follows; 0 if it is not known.
    pub first: u64,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "what has no words here is what its name says")]
pub struct State {
    pub identity: Identity,
    pub vote: Option<Vote>,
    /// The newest batch known committed.
    pub committed: Index,
    /// Before the first batch of the log.
    pub before: Position,
    /// Behind the last one.
    pub last: Position,
    /// The newest ones that are committed, then those that are not. None: a node alone.
    pub members: Vec<Members>,
}

impl State {
    /// Bytes of the body of a node alone.
    pub(super) const ALONE_BYTES: usize = 1 + 16 + 8 + 1 + 16 + 8 + 24 + 24 + 1;

    /// Bytes that a batch of members with a body of this length takes in it.
    pub(super) fn members_bytes(length: usize) -> usize {
        8 + 8 + 4 + length
    }

    /// The body.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORM];
        let Identity { cluster, node, name } = &self.identity;
        bytes.extend_from_slice(&cluster.to_le_bytes());
        bytes.extend(node.to_le_bytes());
        bytes.push(u8::try_from(name.len()).expect("names are short"));
        bytes.extend_from_slice(name);
        let vote = self.vote.unwrap_or(Vote { epoch: 0, node: 0 });
        bytes.extend(vote.encode());
        bytes.extend(self.committed.0.to_le_bytes());
        for Position { index, epoch, first } in [self.before, self.last] {
            bytes.extend([index.0, epoch, first].iter().flat_map(|value| value.to_le_bytes()));
        }
        bytes.push(u8::try_from(self.members.len()).expect("few are not committed"));
        for Members { epoch, index, body } in &self.members {
            bytes.extend([*epoch, index.0].iter().flat_map(|value| value.to_le_bytes()));
            bytes.extend((body.len() as u32).to_le_bytes());
            bytes.extend_from_slice(body);
        }
        bytes
    }

    /// Reads a body; nothing if it is none. Takes no more memory than the body has.
    pub fn decode(body: &[u8]) -> Option<State> {
        let mut body = Body(body);
        if body.byte()? != FORM {
            return None;
        }
        let cluster = u128::from_le_bytes(body.take(16)?.try_into().ok()?);
        let node = body.long()?;
        let length = usize::from(body.byte()?);
        let name = body.take(length).filter(|name| name.len() <= NODE_NAME_BYTES_MAX)?.into();
        let vote = Vote { epoch: body.long()?, node: body.long()? };
        let committed = Index(body.long()?);
        let (before, last) = (body.position()?, body.position()?);
        let count = usize::from(body.byte()?);
        if count > MEMBERS_PENDING_MAX {
            return None;
        }
        let mut members = Vec::new();
        for _ in 0..count {
            let (epoch, index) = (body.long()?, Index(body.long()?));
            let length = u32::from_le_bytes(body.take(4)?.try_into().ok()?) as usize;
            let bytes = body.take(length).filter(|bytes| bytes.len() <= MEMBERS_BYTES_MAX)?;
            members.push(Members { epoch, index, body: bytes.to_vec() });
        }
        let in_order = members.windows(2).all(|pair| pair[0].index < pair[1].index)
            && members.last().is_none_or(|newest| newest.index <= last.index)
            && before.index <= last.index
            && committed <= last.index;
        let state = State {
            identity: Identity { cluster, node, name },
            vote: (vote.epoch > 0).then_some(vote),
            committed,
            before,
            last,
            members,
        };
        (in_order && body.0.is_empty()).then_some(state)
    }
}

/// What is left to read.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.0.split_at_checked(bytes)?;
        self.0 = left;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn long(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn position(&mut self) -> Option<Position> {
        Some(Position { index: Index(self.long()?), epoch: self.long()?, first: self.long()? })
    }
}
