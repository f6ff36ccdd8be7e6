//! From what was found in a node's folder to what Raft begins with.

use crate::cluster::members::Members;
use crate::cluster::members::directory::Directory;
use crate::cluster::members::names::Name;
use crate::cluster::raft::entry::{Base, LogEntry, Vote};
use crate::cluster::raft::start::Start;
use crate::ids::Index;
use crate::journal::base::{self, BaseReader};
use crate::journal::record::raft_state::{self, LogIdentity, LogState};
use crate::journal::recovery::{Recovered, newest_base};

use crate::journal::{JournalError, Log, LogOptions, LogReader, Storage};
use crate::limits::LOG_CACHE_BYTES;
use crate::server::cluster::entry_log::entry_of;
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// Why this folder is not this node's.
#[derive(Debug, Error)]
pub enum WrongFolder {
    #[error(
        "the journal belongs to a standalone server, but cluster-node is {0}: delayd cluster found turns it into the \
         first node of a cluster; give a node that joins one an empty folder"
    )]
    Alone(Name),
    #[error("the journal belongs to node {is}, but cluster-node is {own}: one of the two is wrong")]
    OtherName { own: Name, is: String },
    #[error(
        "the journal belongs to node {0} of a cluster, but cluster-node is empty: it is not opened without the others"
    )]
    Node(String),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Whether a standalone server may continue this log.
///
/// # Errors
/// It is a node's.
pub fn check_alone<S: Storage>(log: &Log<S>) -> Result<(), WrongFolder> {
    let LogIdentity { node, name, .. } = log.state().identity;
    if node == 0 { Ok(()) } else { Err(WrongFolder::Node(shown(&name))) }
}

/// The id of this node: that of its folder, or in an empty one `drawn`, which is durable when this returns. A disk
/// that is lost takes its id with it, so that a node without its votes never votes under the old one.
///
/// # Errors
/// The folder is another's.
pub fn identify<S: Storage>(
    log: &mut Log<S>,
    base_index: Index,
    own: &Name,
    drawn: u64,
) -> Result<u64, WrongFolder> {
    let LogIdentity { node, name, .. } = log.state().identity;
    if node == 0 {
        let (_, last) = log.bounds();
        if last > Index(0) || base_index > Index(0) {
            return Err(WrongFolder::Alone(own.clone()));
        }
        let name = own.as_str().as_bytes().into();
        log.identify(LogIdentity { cluster: 0, node: drawn, name })?;
        log.sync()?;
        return Ok(drawn);
    }
    if *name != *own.as_str().as_bytes() {
        return Err(WrongFolder::OtherName { own: own.clone(), is: shown(&name) });
    }
    Ok(node)
}

/// The key of the hash of job ids, as drawn when the cluster was founded: it is stored together with the members, in
/// the first entry, in states and in bases. None before that.
///
/// # Errors
/// The journal cannot be read.
pub fn hash_seed<S: Storage>(
    storage: &Arc<S>,
    options: LogOptions,
) -> Result<Option<u64>, JournalError> {
    let base = newest_base(&**storage)?;
    let after = base.as_deref().and_then(base::index_of).unwrap_or_default();
    let mut reader = LogReader::open(Arc::clone(storage), options, after)?;
    while let Some(found) = reader.next_record()? {
        let is_batch = found.entry.kind.is_batch();
        if let Some(noted) = reader.end().1.members.last() {
            return Ok(seed_of(noted));
        }
        if is_batch {
            break;
        }
    }
    // A base that came from another node, whose log was lost before anything followed.
    let Some(name) = base else { return Ok(None) };
    let mut reader = BaseReader::open(&**storage, &name)?;
    while reader.next_images()?.is_some() {}
    Ok(reader.members().and_then(seed_of))
}

fn seed_of(noted: &raft_state::Members) -> Option<u64> {
    let members = Members::decode(&noted.body).ok()?;
    Directory::decode(&members.directory).ok().map(|directory| directory.hash_seed)
}

/// The initial state of the node `id`, as far as it was recovered; `seed` is the source of its election timeouts.
///
/// # Errors
/// The log cannot be read.
pub fn node_start<S: Storage>(
    recovered: &Recovered<S>,
    id: u64,
    seed: u64,
) -> Result<Start, WrongFolder> {
    let Recovered { log, index, base_index, base_epoch, base_members, .. } = recovered;
    let LogState { vote, committed, before, members, .. } = log.state();
    let vote = vote.map_or(Vote::default(), |vote| Vote { term: vote.epoch, voted_for: vote.node });
    let base = match base_members {
        Some(noted) if base_index.0 > 0 => {
            Base { index: base_index.0, term: *base_epoch, members: decoded(noted)? }
        }
        _ => Base::default(),
    };
    let applied = members.iter().rev().find(|noted| noted.index <= *index);
    let members = match applied {
        Some(noted) if noted.index.0 > base.index => decoded(noted)?,
        Some(noted) if base.index == 0 => decoded(noted)?,
        _ => base.members.clone(),
    };
    let (_, last) = log.bounds();
    let entries = log.read(index.next(), last, usize::MAX)?.into_iter().map(entry_of);
    Ok(Start {
        id,
        vote,
        commit: committed.0.max(base.index),
        base,
        before: (before.index.0, before.epoch),
        terms: terms(log, before.index, *index)?,
        applied: index.0,
        members,
        entries: entries.collect::<io::Result<Vec<LogEntry>>>()?,
        seed,
        cache_bytes: LOG_CACHE_BYTES,
    })
}

/// Where each term begins, of the batches after `before` up to `last`. Terms never fall, so each is found by halving:
/// of a million batches in 10 terms some 200 headers are read.
fn terms<S: Storage>(log: &Log<S>, before: Index, last: Index) -> io::Result<Vec<(u64, u64)>> {
    let term_of = |index: u64| -> io::Result<u64> {
        let position = log.position(Index(index))?;
        position.map(|position| position.epoch).ok_or_else(|| io::Error::other("a gap in the log"))
    };
    let (mut terms, mut from) = (Vec::new(), before.0 + 1);
    while from <= last.0 {
        let term = term_of(from)?;
        terms.push((from, term));
        let (mut low, mut high) = (from, last.0 + 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if term_of(middle)? == term { low = middle } else { high = middle }
        }
        from = high;
    }
    Ok(terms)
}

fn decoded(noted: &raft_state::Members) -> Result<Members, WrongFolder> {
    Members::decode(&noted.body).map_err(|wrong| io::Error::other(wrong).into())
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
