//! A journal that begins with what another folder holds: a backup, or the journal of a node that was the last of its cluster.
//!
//! A backup is older than the world. Jobs that were done since are there again; and a job that was leased then may have been
//! leased again since. So no token from before is taken any more, and new ones begin above all that can have been handed
//! out: [`Engine::void_tokens`].

use crate::engine::Engine;
use crate::engine::model::token::floor_at;
use crate::ids::Index;
use crate::journal::error::JournalError;
use crate::journal::offline::keeping_minutes;
use crate::journal::offline::new_cluster::{self, Founder, OPTIONS, Refounded};
use crate::journal::record::raft_state::{LogIdentity, Members};
use crate::journal::recovery::{Progress, Recovered, Replay, load_newest, recover};
use crate::journal::storage::Storage;
use crate::limits::RESTORED_TOKENS_MS;
use crate::time::Micros;
use std::io;
use std::sync::Arc;

/// The verified content of a folder.
#[derive(Debug)]
pub struct HeldFolder {
    pub engine: Engine,
    /// Behind its newest batch.
    pub at: Replay,
}

impl HeldFolder {
    /// Queues, those without a job included, and schedules: what a backup counts.
    pub fn queues_and_schedules(&self) -> (u64, u64) {
        (self.engine.named_count() as u64, self.engine.schedule_counts().all())
    }

    /// The state is restored at `wall`: no token from before is taken any more. They go on a day above the clock, as the
    /// machines that handed out those since may have been ahead of this one.
    pub fn void_tokens(&mut self, wall: Micros) {
        let newest = self.at.now.max(wall).floor();
        self.engine.void_tokens(self.at.now, floor_at(newest.0.saturating_add(RESTORED_TOKENS_MS)));
    }
}

/// Reads the base of a backup to its end.
///
/// # Errors
/// It does not exist, or is damaged: where.
pub fn read_backup<S: Storage>(
    storage: &S,
    name: &str,
    progress: &Progress,
) -> Result<HeldFolder, JournalError> {
    let (engine, at, base) = load_newest(storage, keeping_minutes(), progress)?;
    if base.is_none() {
        let source = io::Error::new(io::ErrorKind::NotFound, "there is no complete backup in it");
        return Err(JournalError::io(name, "restore")(source));
    }
    Ok(HeldFolder { engine, at })
}

/// A node's journal: its identity, and the members as it knew them.
#[derive(Debug)]
pub struct OfNode {
    pub held: HeldFolder,
    pub identity: LogIdentity,
    pub members: Option<Members>,
    /// Batches at the end that were not known to be committed, and are kept.
    pub uncommitted: u64,
}

/// Reads the journal of a node to its end, as a start does: a torn tail is cut.
///
/// # Errors
/// A journal that a start would refuse.
pub fn read_node<S: Storage>(storage: &Arc<S>) -> Result<OfNode, JournalError> {
    let new_cluster::HeldJournal { engine, log, at, uncommitted } = new_cluster::hold(storage)?;
    let (identity, members) = (log.state().identity, log.members().cloned());
    Ok(OfNode { held: HeldFolder { engine, at }, identity, members, uncommitted })
}

/// Makes a journal of it in an empty folder, durably: that of a standalone server, or of the founder of a cluster; with
/// `part` that of one partition of so many.
///
/// # Errors
/// The disk fails or is full, or there is a journal already.
pub fn begin<S: Storage>(
    storage: &Arc<S>,
    held: &mut HeldFolder,
    founder: Option<Founder>,
    part: Option<(u16, u16)>,
) -> Result<Refounded, JournalError> {
    let recovered = recover(storage, OPTIONS, keeping_minutes(), &Progress::default())?;
    let Recovered { log, index, .. } = recovered;
    if index > Index(0) || log.bounds().1 > Index(0) {
        let source = io::Error::new(io::ErrorKind::AlreadyExists, "it has batches");
        return Err(JournalError::io("the journal", "write to")(source));
    }
    held.engine.forget_leading();
    new_cluster::begin(storage, log, &mut held.engine, held.at, founder, part)
}
