//! What a node begins with.

use super::entry::{Base, Entry, Payload, Vote};
use super::members::Members;
use crate::limits::LOG_CACHE_BYTES;
use thiserror::Error;

/// What a node begins with: what was found on its disk.
#[derive(Clone, Debug)]
pub struct Start {
    /// This node, never 0, and never another disk's.
    pub id: u64,
    /// The newest vote.
    pub vote: Vote,
    /// The newest index known committed.
    pub commit: u64,
    /// The newest base: its index 0 if this node is empty, and waits to be sent one.
    pub base: Base,
    /// Everything in the log after the base.
    pub entries: Vec<Entry>,
    /// The index up to which the entries are applied already, from the base's on, at most `commit`.
    pub applied: u64,
    /// Chance, which a pure node has none of: whence its election timeouts are drawn.
    pub seed: u64,
    /// Bytes of applied batches kept in memory; [`LOG_CACHE_BYTES`] but in tests.
    pub cache_bytes: usize,
}

impl Start {
    /// A node without anything.
    pub fn empty(id: u64, seed: u64) -> Start {
        Start {
            id,
            vote: Vote::default(),
            commit: 0,
            base: Base::default(),
            entries: Vec::new(),
            applied: 0,
            seed,
            cache_bytes: LOG_CACHE_BYTES,
        }
    }
}

/// What was found on the disk contradicts itself: nothing may be built on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WrongStart {
    /// No node is called 0.
    #[error("node 0")]
    Id,
    /// An index is missing, or a term falls.
    #[error("entry {0} does not follow the one before it")]
    Entry(u64),
    /// What was committed is not there, or was applied without being so.
    #[error("applied up to {applied} and committed up to {commit} of a log from {base} to {last}")]
    Bounds {
        /// The last index in the base.
        base: u64,
        /// The last one applied.
        applied: u64,
        /// The last one committed.
        commit: u64,
        /// The last one there is.
        last: u64,
    },
    /// A base without members, or members without a base.
    #[error("the base of index {0} and its members contradict each other")]
    Members(u64),
}

impl Start {
    /// The newest index known committed, in the base or after it.
    pub(super) fn committed(&self) -> u64 {
        self.commit.max(self.base.index)
    }
}

/// The members as of what is applied, of a disk that does not contradict itself.
pub(super) fn check(start: &Start) -> Result<Members, WrongStart> {
    let commit = start.committed();
    if start.id == 0 {
        return Err(WrongStart::Id);
    }
    let base = &start.base;
    let is_empty = base.index == 0;
    let is_right = if is_empty {
        base.members == Members::default() && base.term == 0
    } else {
        base.members.check().is_ok() && base.term > 0
    };
    if !is_right {
        return Err(WrongStart::Members(base.index));
    }
    let mut members = base.members.clone();
    let mut before = (base.index, base.term);
    for entry in &start.entries {
        if entry.index != before.0 + 1 || entry.term < before.1 || entry.term == 0 {
            return Err(WrongStart::Entry(entry.index));
        }
        before = (entry.index, entry.term);
        if let (Payload::Members(next), true) = (&entry.payload, entry.index <= start.applied) {
            members = next.clone();
        }
    }
    let (applied, last) = (start.applied, before.0);
    if applied < base.index || applied > commit || commit > last {
        return Err(WrongStart::Bounds { base: base.index, applied, commit, last });
    }
    Ok(members)
}
