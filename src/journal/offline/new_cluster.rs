//! Turns a journal into the beginning of a new cluster: that of a standalone server, or of a node whose others are
//! lost.
//!
//! It skips a batch that the log never had, and writes a base that ends with it and contains the members of the new
//! cluster, of a later epoch than any before. A start that finds a base beyond its log begins the log after it, so
//! renaming the base is the moment at which it is done. Before that the log records the node's identity, so that no
//! standalone server opens the folder any more; a crash between the two leaves a folder that no start accepts, and on
//! which this can be repeated.

use crate::engine::Engine;
use crate::ids::Index;
use crate::journal::base::{self, BaseHead};
use crate::journal::error::JournalError;
use crate::journal::log::{Log, LogOptions};
use crate::journal::offline::keeping_minutes;
use crate::journal::record::entry::EPOCH;
use crate::journal::record::raft_state::{LogIdentity, LogPosition, Members, Vote};
use crate::journal::recovery::{Offered, Progress, Recovered, Replay, recover};
use crate::journal::storage::Storage;
use crate::limits::{SEGMENT_BYTES_MIN, SPARES_MAX};
use crate::time::Micros;
use std::sync::Arc;

/// How the log is opened: the server has options of its own.
pub(in crate::journal) const OPTIONS: LogOptions =
    LogOptions { segment_bytes: SEGMENT_BYTES_MIN, shard: 0, spares_max: SPARES_MAX };

/// The only member of the new cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Founder {
    /// A new id: not one that the folder may have had, whose votes belong to another cluster.
    pub node: u64,
    pub name: Box<[u8]>,
    /// The members according to the log.
    pub members: Vec<u8>,
}

/// The beginning of the new cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refounded {
    /// The batch with which its base ends.
    pub index: Index,
    pub epoch: u64,
    /// The newest instant that it has.
    pub now: Micros,
    /// Batches at the end that were not known to be committed, and are kept.
    pub uncommitted: u64,
}

/// All that a journal holds.
pub(in crate::journal) struct HeldJournal<S: Storage> {
    pub engine: Engine,
    pub log: Log<S>,
    /// After its last batch.
    pub at: Replay,
    /// Batches at the end that were not known to be committed, and have been applied.
    pub uncommitted: u64,
}

/// Does it, durably. Opens the journal as a start does: a torn tail is cut. Needs as much memory as the server, and room
/// for a base.
///
/// # Errors
/// A journal that a start would refuse; or the disk fails or is full.
pub fn refound<S: Storage>(storage: &Arc<S>, founder: Founder) -> Result<Refounded, JournalError> {
    let HeldJournal { mut engine, log, at, uncommitted } = hold(storage)?;
    let begun = begin(storage, log, &mut engine, at, Some(founder), None)?;
    Ok(Refounded { uncommitted, ..begun })
}

/// Reads it as a start does, and keeps what was not known to be committed.
pub(in crate::journal) fn hold<S: Storage>(
    storage: &Arc<S>,
) -> Result<HeldJournal<S>, JournalError> {
    let recovered = recover(storage, OPTIONS, keeping_minutes(), &Progress::default())?;
    let Recovered { mut engine, log, index, first, now, epoch, opened, .. } = recovered;
    let mut at = Replay { index, first, epoch, now };
    for batch in &opened.uncommitted {
        if let Offered::Void(what) = at.offer(&mut engine, &batch.entry()) {
            let (file, offset) = ("the log".to_owned(), 0);
            return Err(JournalError::Damaged { file, offset, what });
        }
    }
    at = Replay { epoch: at.epoch.max(opened.last_epoch), index: at.index.max(opened.last), ..at };
    Ok(HeldJournal { engine, log, at, uncommitted: opened.uncommitted.len() as u64 })
}

/// Begins the log again after the state of `engine`, or after the part of it that one partition of so many has, as that
/// of the first node of a cluster, or of a standalone server.
pub(in crate::journal) fn begin<S: Storage>(
    storage: &Arc<S>,
    mut log: Log<S>,
    engine: &mut Engine,
    at: Replay,
    founder: Option<Founder>,
    part: Option<(u16, u16)>,
) -> Result<Refounded, JournalError> {
    let io = |action| JournalError::io("the journal", action);
    let voted = log.voted().map_or(0, |vote| vote.epoch);
    let Replay { index, first, now, epoch } = at;
    let index = index.next();
    let epoch = if founder.is_some() { epoch.max(voted) + 1 } else { EPOCH };
    let mut members = None;
    if let Some(Founder { node, name, members: body }) = founder {
        log.identify(LogIdentity { cluster: 0, node, name }).map_err(io("record its owner in"))?;
        log.vote(Vote { epoch, node }).map_err(io("vote in"))?;
        log.sync().map_err(io("sync the log of"))?;
        members = Some(Members { epoch, index, body });
    }
    let head = BaseHead { index, first, now, epoch, shard: OPTIONS.shard };
    base::write_all(storage, engine, head, members.clone(), part).map_err(io("write a base of"))?;
    let behind = LogPosition { index, epoch, first };
    log.restart_behind(behind, members).map_err(io("begin the log of"))?;
    Ok(Refounded { index, epoch, now, uncommitted: 0 })
}
