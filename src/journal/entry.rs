//! Batches of the log as its users see them.

use crate::ids::Index;
use crate::journal::record::{Head, Kind};
use crate::time::Micros;

/// A batch that is not owned: one to be written, or one just read. Also what stands between batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "what has no words here is what its name says")]
pub struct Entry<'a> {
    /// Facts, blank or members.
    pub kind: Kind,
    pub index: Index,
    /// The epoch it was made in, from 1; never below that of the one before.
    pub epoch: u64,
    /// The node that led then; 0 for a node alone.
    pub node: u64,
    /// The sequence of its first fact: that of the batch before plus the count of that.
    pub first: u64,
    /// The turn's time.
    pub now: Micros,
    /// How many facts.
    pub count: u32,
    pub body: &'a [u8],
}

impl<'a> Entry<'a> {
    pub(super) fn new(head: &Head, body: &'a [u8]) -> Entry<'a> {
        let Head { kind, index, epoch, node, first, now, count, .. } = *head;
        Entry { kind, index, epoch, node, first, now, count, body }
    }

    /// Copies the body.
    pub fn to_owned(&self) -> OwnedEntry {
        let Entry { kind, index, epoch, node, first, now, count, body } = *self;
        OwnedEntry { kind, index, epoch, node, first, now, count, body: body.to_vec() }
    }
}

/// A batch that owns its body.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "what has no words here is what its name says")]
pub struct OwnedEntry {
    pub kind: Kind,
    pub index: Index,
    pub epoch: u64,
    pub node: u64,
    pub first: u64,
    pub now: Micros,
    pub count: u32,
    pub body: Vec<u8>,
}

impl OwnedEntry {
    /// The same without its own body, as [`Log::append`](super::Log::append) takes it.
    pub fn entry(&self) -> Entry<'_> {
        let OwnedEntry { kind, index, epoch, node, first, now, count, ref body } = *self;
        Entry { kind, index, epoch, node, first, now, count, body }
    }
}
