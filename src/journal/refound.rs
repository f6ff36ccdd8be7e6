//! Makes what a journal holds the beginning of a new cluster's: that of a server alone, or of a node whose others are lost.
//!
//! A batch that the log never had is passed over, and a base is written that ends with it: in it stand the members of
//! the new cluster, of a later epoch than any before. A start that finds a base beyond its log begins the log behind it, so
//! the base's name is the moment at which it is done. Before it the log learns who the node is, so that nobody takes the
//! folder for a server's alone any more; a crash between the two leaves a folder that no start takes, and that this can
//! be done to again.

use crate::engine::Settings;
use crate::ids::Index;
use crate::journal::base::{BaseHead, BaseWriter};
use crate::journal::error::JournalError;
use crate::journal::log::LogOptions;
use crate::journal::recovery::{Offered, Progress, Recovered, Replay, recover};
use crate::journal::state::{Identity, Members, Position, State, Vote};
use crate::journal::storage::Storage;
use crate::limits::{BASE_IMAGE_BYTES_AT_ONCE, BASE_IMAGES_AT_ONCE, SEGMENT_BYTES_MIN};
use crate::time::Micros;
use std::io;
use std::sync::Arc;

/// The only member of the new cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Founder {
    /// Drawn for it: not that which the folder may have had, whose votes are another cluster's.
    pub node: u64,
    /// Its name.
    pub name: Box<[u8]>,
    /// Who the members are, as the log has it.
    pub members: Vec<u8>,
}

/// What the new cluster begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refounded {
    /// The batch with which its base ends.
    pub index: Index,
    /// Its epoch.
    pub epoch: u64,
    /// The newest instant that it has.
    pub now: Micros,
    /// Batches at the end that were not known to be committed, and are kept.
    pub uncommitted: u64,
}

/// Does it, durably. Opens the journal as a start does: a torn tail is cut. Needs as much memory as the server, and room
/// for a base.
///
/// # Errors
/// What a start would refuse; or the disk fails or is full.
pub fn refound<S: Storage>(storage: &Arc<S>, founder: Founder) -> Result<Refounded, JournalError> {
    let options = LogOptions { segment_bytes: SEGMENT_BYTES_MIN, ..LogOptions::default() };
    let recovered = recover(storage, options, Settings::default(), &Progress::default())?;
    let Recovered { mut engine, mut log, index, first, now, epoch, opened, .. } = recovered;
    let mut replay = Replay { index, first, epoch, now };
    for batch in &opened.uncommitted {
        if let Offered::Void(what) = replay.offer(&mut engine, &batch.entry()) {
            let (file, offset) = ("the log".to_owned(), 0);
            return Err(JournalError::Damaged { file, offset, what });
        }
    }
    let State { vote, .. } = log.state();
    let voted = vote.map_or(0, |vote| vote.epoch);
    let epoch = replay.epoch.max(opened.last_epoch).max(voted) + 1;
    let index = replay.index.max(opened.last).next();
    let Replay { first, now, .. } = replay;
    let io = |action| JournalError::io("the journal", action);
    let Founder { node, name, members: body } = founder;
    log.identify(Identity { cluster: 0, node, name }).map_err(io("say whose it is in"))?;
    log.vote(Vote { epoch, node }).map_err(io("vote in"))?;
    log.sync().map_err(io("sync the log of"))?;
    let members = Members { epoch, index, body };
    let head = BaseHead { index, first, now, epoch, shard: options.shard };
    engine.begin_base();
    let mut base = BaseWriter::begin(storage, head).map_err(io("write a base of"))?;
    base.set_members(members.clone());
    let written = loop {
        let is_whole = engine.base_slice(BASE_IMAGES_AT_ONCE, BASE_IMAGE_BYTES_AT_ONCE);
        let images = std::mem::take(engine.base_output());
        let written = if images.is_empty() { Ok(()) } else { base.write(&images) };
        if written.is_err() || is_whole {
            break written;
        }
    };
    let finished = match written {
        Ok(()) => base.finish().map(|_| ()),
        Err(error) => {
            base.abandon();
            Err::<(), io::Error>(error)
        }
    };
    finished.map_err(io("write a base of"))?;
    let behind = Position { index, epoch, first };
    log.restart_behind(behind, Some(members)).map_err(io("begin the log of"))?;
    let uncommitted = opened.uncommitted.len() as u64;
    Ok(Refounded { index, epoch, now, uncommitted })
}
