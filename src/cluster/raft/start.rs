//! The initial state of a node.

use super::entry::{Base, LogEntry, Vote};
use crate::cluster::members::Members;
use crate::cluster::members::directory::WrongDirectory;
use crate::limits::LOG_CACHE_BYTES;
use slog::{Drain, Level, Logger, OwnedKVList, Record, o};
use std::convert::Infallible;
use thiserror::Error;

/// The initial state of a node: the data found on its disk.
#[derive(Clone, Debug)]
pub struct Start {
    /// This node, never 0, and never another disk's.
    pub id: u64,
    pub vote: Vote,
    /// The newest index known committed.
    pub commit: u64,
    /// The newest base; its index is 0 if there is no base. An empty node waits to receive one, or the log from its
    /// first entry on.
    pub base: Base,
    /// Index and term of what came just before the first entry of the log: the base's, or older ones if the log was
    /// kept for nodes that are behind.
    pub before: (u64, u64),
    /// Index and term of each entry up to `applied` with which a term begins. Their batches stay on the disk.
    pub terms: Vec<(u64, u64)>,
    /// The last index that is applied already, from the base's to `commit`.
    pub applied: u64,
    pub members: Members,
    /// Everything in the log after it.
    pub entries: Vec<LogEntry>,
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
            before: (0, 0),
            terms: Vec::new(),
            applied: 0,
            members: Members::default(),
            entries: Vec::new(),
            seed,
            cache_bytes: LOG_CACHE_BYTES,
        }
    }
}

/// The data on the disk contradicts itself: nothing may be built on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WrongStart {
    #[error("node 0")]
    Id,
    /// An index is missing, or a term falls.
    #[error("entry {0} does not follow the one before it")]
    Entry(u64),
    /// Committed entries are missing, or uncommitted ones were applied.
    #[error("applied up to {applied} and committed up to {commit} of a log from {base} to {last}")]
    Bounds {
        /// The last index in the base.
        base: u64,
        applied: u64,
        commit: u64,
        last: u64,
    },
    /// A base without members, or members without a source.
    #[error("the base of index {0} and its members contradict each other")]
    Members(u64),
    #[error(transparent)]
    Directory(#[from] WrongDirectory),
}

impl Start {
    /// The newest index known committed, in the base or after it.
    pub(in crate::cluster) fn committed(&self) -> u64 {
        self.commit.max(self.base.index)
    }
}

/// Whether it could have come to be.
pub(in crate::cluster) fn check(start: &Start) -> Result<(), WrongStart> {
    let (base, applied, commit) = (&start.base, start.applied, start.committed());
    if start.id == 0 {
        return Err(WrongStart::Id);
    }
    let is_right = if base.index == 0 {
        let none = Members::default();
        let are_known = start.applied > 0 && start.members.check().is_ok();
        (base.term, &base.members) == (0, &none) && (are_known || start.members == none)
    } else {
        base.term > 0 && base.members.check().is_ok() && start.members.check().is_ok()
    };
    if !is_right {
        return Err(WrongStart::Members(base.index));
    }
    let mut before = start.before;
    for (index, term) in &start.terms {
        // The first entry begins a term as far as is known here; later ones have a higher one each.
        let is_first = before == start.before;
        let follows = if is_first {
            *index == before.0 + 1 && *term >= before.1
        } else {
            *index > before.0 && *term > before.1
        };
        if !follows || *index > applied {
            return Err(WrongStart::Entry(*index));
        }
        before = (*index, *term);
    }
    let of_base = start.terms.iter().rev().find(|(index, _)| *index <= base.index);
    let is_same = of_base.map_or(start.before.1, |(_, term)| *term) == base.term;
    if !is_same || start.terms.is_empty() && applied > start.before.0 {
        return Err(WrongStart::Entry(base.index));
    }
    before.0 = applied;
    for entry in &start.entries {
        if entry.index != before.0 + 1 || entry.term < before.1 || entry.term == 0 {
            return Err(WrongStart::Entry(entry.index));
        }
        before = (entry.index, entry.term);
    }
    let last = before.0;
    let are_bounds = start.before.0 <= base.index && base.index <= applied && applied <= commit;
    if !are_bounds || commit > last {
        return Err(WrongStart::Bounds { base: base.index, applied, commit, last });
    }
    Ok(())
}

/// Raft's log goes to the general log. It logs every vote and change of role at the level that others keep for users:
/// here one level below.
pub(in crate::cluster) fn logger(id: u64) -> Logger {
    Logger::root(ToTracing, o!("node" => id))
}

struct ToTracing;

impl Drain for ToTracing {
    type Ok = ();
    type Err = Infallible;

    fn log(&self, record: &Record<'_>, _: &OwnedKVList) -> Result<(), Infallible> {
        const TARGET: &str = "delayd::raft";
        match record.level() {
            Level::Critical | Level::Error => {
                tracing::error!(target: TARGET, "{}", record.msg());
            }
            Level::Warning => tracing::warn!(target: TARGET, "{}", record.msg()),
            Level::Info => tracing::debug!(target: TARGET, "{}", record.msg()),
            Level::Debug | Level::Trace => tracing::trace!(target: TARGET, "{}", record.msg()),
        }
        Ok(())
    }
}
