//! The log's information besides its batches: votes, members, commit position.
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
//! An epoch or a sequence of 0 is unknown. Of the members' batches the first is the newest committed one, later ones
//! are not committed. A standalone server has 99 bytes of it.

use crate::ids::Index;
use crate::limits::{MEMBERS_BYTES_MAX, MEMBERS_PENDING_MAX, NODE_NAME_BYTES_MAX};

const FORM: u8 = 1;

/// This node's identity.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogIdentity {
    /// The cluster's id; 0 for a standalone server.
    pub cluster: u128,
    /// This node's id in the cluster; 0 for a standalone server.
    pub node: u64,
    /// At most [`NODE_NAME_BYTES_MAX`] bytes.
    pub name: Box<[u8]>,
}

/// A node's vote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vote {
    pub epoch: u64,
    /// 0: it has seen the epoch, and voted for no node.
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

    /// Reads a body; nothing if it is invalid.
    pub fn decode(body: &[u8]) -> Option<Vote> {
        let mut body = BodyReader(body);
        let vote = Vote { epoch: body.long()?, node: body.long()? };
        (body.0.is_empty() && vote.epoch > 0).then_some(vote)
    }
}

/// A batch that defines the members. The journal does not interpret its content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Members {
    pub epoch: u64,
    pub index: Index,
    /// At most [`MEMBERS_BYTES_MAX`] bytes.
    pub body: Vec<u8>,
}

/// A place between two batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogPosition {
    /// The previous batch; 0 without one.
    pub index: Index,
    /// Its epoch; 0 if it is not known.
    pub epoch: u64,
    /// The sequence of the fact that follows; 0 if it is not known.
    pub first: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogState {
    pub identity: LogIdentity,
    pub vote: Option<Vote>,
    /// The newest batch known committed.
    pub committed: Index,
    /// Before the first batch of the log.
    pub before: LogPosition,
    /// After the last one.
    pub last: LogPosition,
    /// The newest committed ones, then those that are not committed. None: a standalone server.
    pub members: Vec<Members>,
}

impl LogState {
    /// Bytes of the body of a standalone server.
    pub(in crate::journal) const ALONE_BYTES: usize = 1 + 16 + 8 + 1 + 16 + 8 + 24 + 24 + 1;

    /// Bytes that a batch of members with a body of this length takes in it.
    pub(in crate::journal) fn members_bytes(length: usize) -> usize {
        8 + 8 + 4 + length
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORM];
        let LogIdentity { cluster, node, name } = &self.identity;
        bytes.extend_from_slice(&cluster.to_le_bytes());
        bytes.extend(node.to_le_bytes());
        bytes.push(u8::try_from(name.len()).expect("names are short"));
        bytes.extend_from_slice(name);
        let vote = self.vote.unwrap_or(Vote { epoch: 0, node: 0 });
        bytes.extend(vote.encode());
        bytes.extend(self.committed.0.to_le_bytes());
        for LogPosition { index, epoch, first } in [self.before, self.last] {
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

    /// Reads a body; nothing if it is invalid. Takes no more memory than the body has.
    pub fn decode(body: &[u8]) -> Option<LogState> {
        let mut body = BodyReader(body);
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
        let state = LogState {
            identity: LogIdentity { cluster, node, name },
            vote: (vote.epoch > 0).then_some(vote),
            committed,
            before,
            last,
            members,
        };
        (in_order && body.0.is_empty()).then_some(state)
    }
}

/// The rest of the body.
struct BodyReader<'a>(&'a [u8]);

impl<'a> BodyReader<'a> {
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

    fn position(&mut self) -> Option<LogPosition> {
        Some(LogPosition { index: Index(self.long()?), epoch: self.long()?, first: self.long()? })
    }
}
