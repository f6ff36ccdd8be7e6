//! Batches of the log as its users see them.

use crate::engine::Facts;
use crate::ids::Index;
use crate::journal::record::{Head, RecordKind};
use crate::time::Micros;

/// A borrowed batch: one to be written, or one just read. Also the records between batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentEntry<'a> {
    /// Facts, blank or members.
    pub kind: RecordKind,
    pub index: Index,
    /// The epoch it was made in, from 1; never below that of the one before.
    pub epoch: u64,
    /// The node that led then; 0 for a standalone server.
    pub node: u64,
    /// The sequence of its first fact: that of the batch before plus the count of that.
    pub first: u64,
    /// The turn's time.
    pub now: Micros,
    pub count: u32,
    pub body: &'a [u8],
}

impl<'a> SegmentEntry<'a> {
    pub(in crate::journal) fn new(head: &Head, body: &'a [u8]) -> SegmentEntry<'a> {
        let Head { kind, index, epoch, node, first, now, count, .. } = *head;
        SegmentEntry { kind, index, epoch, node, first, now, count, body }
    }

    /// Copies the body.
    pub fn to_owned(&self) -> OwnedEntry {
        let SegmentEntry { kind, index, epoch, node, first, now, count, body } = *self;
        OwnedEntry { kind, index, epoch, node, first, now, count, body: body.to_vec() }
    }
}

/// A batch that owns its body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnedEntry {
    pub kind: RecordKind,
    pub index: Index,
    pub epoch: u64,
    pub node: u64,
    pub first: u64,
    pub now: Micros,
    pub count: u32,
    pub body: Vec<u8>,
}

impl OwnedEntry {
    /// The same without its own body, as [`Log::append`](crate::journal::Log::append) takes it.
    pub fn entry(&self) -> SegmentEntry<'_> {
        let OwnedEntry { kind, index, epoch, node, first, now, count, ref body } = *self;
        SegmentEntry { kind, index, epoch, node, first, now, count, body }
    }
}

// The data that a turn hands to the journal.

/// The epoch of all batches of a standalone server.
pub const EPOCH: u64 = 1;

/// The facts of a turn.
#[derive(Debug)]
pub struct TurnBatch<'b> {
    /// The turn's time.
    pub now: Micros,
    /// The same instant on the monotonic clock, µs.
    pub mono_us: u64,
    /// The facts; taken.
    pub facts: &'b mut Facts,
    /// A reply waits for them.
    pub urgent: bool,
}
