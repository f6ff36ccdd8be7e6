//! The journal as the turn sees it: batches go in without waiting, and commits are reported.
//!
//! Two threads do the work with files: the [`writer`] appends and syncs, the [`keeper`] makes spares
//! and writes base files.

pub mod by_hand;
pub mod keeper;
pub mod local;
pub mod log_thread;
pub mod replicated;
pub mod shared;
mod worker;
mod writer;

use crate::cluster::raft::member;
use crate::ids::Index;
use crate::journal::base::BaseHead;
use crate::journal::record::entry::{EPOCH, TurnBatch};
use crate::journal::record::raft_state::Members;
use crate::journal::{Disk, Log};
use crate::limits::{
    NODE_END_MAX, SYNC_US_MAX, UNCOMMITTED_BYTES_MAX, UNWRITTEN_BYTES_MIN, UNWRITTEN_SHARE,
};
use crate::server::connection::wake::Notifier;
use crate::server::outbox::gate::TurnNo;
use crate::time::Micros;
use keeper::Keeper;
use local::Local;
use replicated::Replicated;
use shared::{Fsync, WriterShared};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Where the log goes on after recovery.
#[derive(Clone, Copy, Debug)]
pub struct ResumePosition {
    pub index: Index,
    /// The sequence of the next fact.
    pub first: u64,
}

/// The journal of a running server.
#[derive(Debug)]
pub struct Journal {
    shared: Arc<WriterShared>,
    /// The maker of spares and bases.
    pub keeper: Keeper,
    /// The commit of batches.
    pub commit: Commit,
    /// Bytes proposed and not written, which are in memory, above which no requests are read.
    unwritten_bytes_max: u64,
    /// Turns with uncommitted batches, in order.
    uncommitted: VecDeque<Uncommitted>,
}

/// The commit of batches: this machine's disk, or a majority of several.
#[derive(Debug)]
pub enum Commit {
    Local(Local),
    Replicated(Box<Replicated>),
}

#[derive(Clone, Copy, Debug)]
struct Uncommitted {
    turn: TurnNo,
    /// The batch, by [`Journal::newest_batch`].
    batch: u64,
    /// As `proposed_bytes` was then.
    bytes: u64,
}

impl Journal {
    /// Starts the threads of a log that continues at `position`, for a standalone server.
    pub fn start(
        log: Log<Disk>,
        storage: Arc<Disk>,
        position: ResumePosition,
        fsync: Fsync,
        notifier: Arc<Notifier>,
    ) -> io::Result<Journal> {
        let shared = Arc::new(WriterShared::new(notifier, position.index));
        shared.work().fsync = Some(fsync);
        // The first turn sees what room there is.
        shared.publish(&log);
        let keeper = Keeper::start(storage, log.spare_maker(), Arc::clone(&shared))?;
        let local = Local::start(log, Arc::clone(&shared), position, fsync)?;
        Ok(Journal::new(shared, keeper, Commit::Local(local)))
    }

    /// From these parts.
    pub fn new(shared: Arc<WriterShared>, keeper: Keeper, commit: Commit) -> Journal {
        let (unwritten_bytes_max, uncommitted) = (UNCOMMITTED_BYTES_MAX, VecDeque::new());
        Journal { shared, keeper, commit, unwritten_bytes_max, uncommitted }
    }

    /// Gives the buffers back that are kept for the next batches.
    pub fn forget_buffers(&self) {
        self.shared.work().buffers.clear();
    }

    pub fn shared(&self) -> &Arc<WriterShared> {
        &self.shared
    }

    /// The node of a cluster that this is.
    pub fn replicated(&mut self) -> Option<&mut Replicated> {
        match &mut self.commit {
            Commit::Local(_) => None,
            Commit::Replicated(replicated) => Some(replicated),
        }
    }

    pub fn newest(&self) -> Index {
        self.position().index
    }

    /// The newest index whose replies may leave, as last computed; for a node the newest that is durable here, too.
    pub fn committed(&self) -> Index {
        match &self.commit {
            Commit::Local(local) => local.committed,
            Commit::Replicated(replicated) => replicated.position().index,
        }
    }

    pub fn durable(&self) -> Index {
        match &self.commit {
            Commit::Local(_) => self.shared.durable(),
            Commit::Replicated(replicated) => replicated.position().index,
        }
    }

    /// Where the log continues; on a node after the committed part.
    pub fn position(&self) -> ResumePosition {
        match &self.commit {
            Commit::Local(local) => local.position,
            Commit::Replicated(replicated) => {
                let member::EnginePosition { index, first, .. } = replicated.position();
                ResumePosition { index, first }
            }
        }
    }

    /// The head of a base of the current state; `now` is the turn's time. Everything decided is committed.
    pub fn base_head(&self, now: Micros) -> (BaseHead, Option<Members>) {
        match &self.commit {
            Commit::Local(local) => {
                let ResumePosition { index, first } = local.position;
                (BaseHead { index, first, now, epoch: EPOCH, shard: 0 }, None)
            }
            Commit::Replicated(replicated) => {
                let member::EnginePosition { index, epoch, first } = replicated.position();
                let now = replicated.last();
                let head = BaseHead { index, first, now, epoch, shard: 0 };
                (head, replicated.members().cloned())
            }
        }
    }

    /// The number of the newest batch of this process, and of the newest one that is safe and durable here. The indices
    /// of a standalone server; in a cluster several batches may come to have one index.
    pub fn batches(&self) -> (u64, u64) {
        match &self.commit {
            Commit::Local(local) => (local.position.index.0, self.shared.durable().0),
            Commit::Replicated(replicated) => replicated.tickets(),
        }
    }

    /// Changes when it syncs. Going to `always`, everything before is synced too. A node always does.
    pub fn set_fsync(&mut self, fsync: Fsync) {
        let Commit::Local(local) = &mut self.commit else { return };
        if fsync != local.fsync {
            local.fsync = fsync;
            let mut work = self.shared.work();
            work.fsync = Some(fsync);
            work.wanted = local.position.index;
            self.shared.wake_writer(work);
        }
    }

    /// Batches that wait to be written take no more memory than becomes a server with this `maxmemory`, bytes;
    /// `u64::MAX` without a limit.
    pub fn set_memory_max(&mut self, max: u64) {
        let share = max / UNWRITTEN_SHARE;
        self.unwritten_bytes_max = share.clamp(UNWRITTEN_BYTES_MIN, UNCOMMITTED_BYTES_MAX);
    }

    /// Puts a batch, that of `turn`, after the previous ones, without waiting.
    pub fn propose(&mut self, batch: TurnBatch<'_>, turn: TurnNo) {
        match &mut self.commit {
            Commit::Local(local) => local.propose(batch, &self.shared),
            Commit::Replicated(replicated) => replicated.propose(batch),
        }
        let (batch, bytes) = (self.batches().0, self.proposed_bytes());
        self.uncommitted.push_back(Uncommitted { turn, batch, bytes });
    }

    /// The turn up to which replies may leave; `current` is the one that began last.
    pub fn released(&mut self, current: TurnNo, mono_us: u64) -> TurnNo {
        let committed = match &mut self.commit {
            Commit::Local(local) => local.committed_at(mono_us, &self.shared).0,
            Commit::Replicated(replicated) => replicated.safe(),
        };
        while self.uncommitted.front().is_some_and(|front| front.batch <= committed) {
            self.uncommitted.pop_front();
        }
        let released = self.uncommitted.front().map_or(current, |front| front.turn - 1);
        match &mut self.commit {
            Commit::Local(_) => released,
            Commit::Replicated(replicated) => replicated.confirmed(released),
        }
    }

    /// The turns whose replies wait are lost: their clients are gone.
    pub fn forget_turns(&mut self) {
        self.uncommitted.clear();
    }

    /// Replies wait: what they wait for is made safe, and the loop woken when the first part of it is.
    pub fn hurry(&mut self) {
        let Commit::Local(local) = &self.commit else { return };
        if let Some(front) = self.uncommitted.front() {
            if local.fsync == Fsync::Always {
                local.raise_wanted(local.position.index, &self.shared);
            }
            self.shared.await_durable(Index(front.batch));
        }
    }

    /// Everything up to batch `batch` is synced at once, whatever the policy, and the loop woken then.
    pub fn want(&mut self, batch: u64) {
        if let Commit::Local(local) = &self.commit {
            local.raise_wanted(Index(batch), &self.shared);
            self.shared.await_durable(Index(batch));
        }
    }

    /// Whether requests should wait until the journal has caught up.
    pub fn is_flooded(&self) -> bool {
        let proposed = self.proposed_bytes();
        match &self.commit {
            Commit::Local(_) => {
                let committed = self.uncommitted.front().map_or(proposed, |front| front.bytes);
                let written = self.shared.written_bytes.load(Ordering::Relaxed);
                proposed - committed.min(written) > UNCOMMITTED_BYTES_MAX
            }
            Commit::Replicated(replicated) => {
                replicated.holds_requests()
                    || replicated.uncommitted_bytes() > UNCOMMITTED_BYTES_MAX
            }
        }
    }

    /// Whether batches that are not written take so much memory that requests should wait.
    pub fn is_heavy(&self) -> bool {
        self.unwritten_bytes() > self.unwritten_bytes_max
    }

    /// Whether a sync, or a commit, has taken so long that no job should be handed out.
    pub fn is_stuck(&self, mono_us: u64) -> bool {
        let began_us = match &self.commit {
            Commit::Local(_) => self.shared.sync_began_us.load(Ordering::Acquire),
            Commit::Replicated(replicated) => replicated.uncommitted_since_us(),
        };
        began_us > 0 && mono_us.saturating_sub(began_us) > SYNC_US_MAX
    }

    /// See [`Replicated::uncommitted`]; a standalone server has no other node to look for.
    pub fn uncommitted(&self) -> Option<replicated::OldestUncommitted> {
        match &self.commit {
            Commit::Local(_) => None,
            Commit::Replicated(replicated) => replicated.uncommitted(),
        }
    }

    pub fn room_bytes(&self) -> u64 {
        let capacity = self.shared.capacity_bytes.load(Ordering::Acquire);
        let taken = match &self.commit {
            Commit::Local(local) => local.proposed_bytes,
            // Some of what is not committed is written, and counts twice for a moment.
            Commit::Replicated(replicated) => {
                self.proposed_bytes() + replicated.uncommitted_bytes()
            }
        };
        capacity.saturating_sub(taken)
    }

    /// Bytes of the log's files.
    pub fn disk_bytes(&self) -> u64 {
        self.shared.disk_bytes.load(Ordering::Acquire)
    }

    /// The total size that its files may have, bytes; `u64::MAX` if it is not known.
    pub fn journal_max(&self) -> u64 {
        self.shared.journal_max.load(Ordering::Acquire)
    }

    /// Bytes proposed since the start; for a node those of all entries in its log, from any proposer. Never falls.
    pub fn proposed_bytes(&self) -> u64 {
        match &self.commit {
            Commit::Local(local) => local.proposed_bytes,
            Commit::Replicated(_) => self.shared.written_bytes.load(Ordering::Relaxed),
        }
    }

    /// Bytes proposed and not written; of a node those that are not committed.
    pub fn unwritten_bytes(&self) -> u64 {
        match &self.commit {
            Commit::Local(local) => {
                local.proposed_bytes - self.shared.written_bytes.load(Ordering::Relaxed)
            }
            Commit::Replicated(replicated) => replicated.uncommitted_bytes(),
        }
    }

    /// Whether a base may begin, if one `wanted` to: the newest batch has an index, and will keep it. A standalone
    /// server knows it at once; a node decides nothing until all its decisions are committed.
    pub fn settle(&mut self, wanted: bool, mono_us: u64) -> bool {
        match &mut self.commit {
            Commit::Local(_) => wanted,
            Commit::Replicated(replicated) => replicated.settle(wanted, mono_us),
        }
    }

    /// Whether other nodes have decided more than the last turn has applied.
    pub fn is_behind(&self) -> bool {
        matches!(&self.commit, Commit::Replicated(replicated) if replicated.is_behind())
    }

    /// Whether the turn decides nothing for now, so that a base may begin.
    pub fn is_settling(&self) -> bool {
        matches!(&self.commit, Commit::Replicated(replicated) if replicated.is_settling())
    }

    /// A base holds everything up to `index`, of this epoch, with these members as of it: the log before it may be
    /// dropped. A node's log is partly kept, for others that are slightly behind.
    pub fn base_made(&self, index: Index, epoch: u64, members: Option<&Members>) {
        if let Commit::Replicated(replicated) = &self.commit {
            return replicated.base_made(index, epoch, members);
        }
        let mut work = self.shared.work();
        work.drop_before = Some(index.next());
        self.shared.dropping.store(true, Ordering::Release);
        self.shared.wake_writer(work);
    }

    /// Writes and syncs everything that was proposed, and ends the threads. Blocks: that of a node no longer than
    /// [`NODE_END_MAX`], since the others have what it has acknowledged. Whether the threads have ended: if not, they still
    /// write when their disk lets them.
    pub fn stop(mut self) -> Result<bool, String> {
        let is_ended = match self.commit {
            Commit::Local(local) => {
                self.keeper.stop(None);
                local.stop(&self.shared);
                true
            }
            Commit::Replicated(replicated) => {
                let until = Instant::now() + NODE_END_MAX;
                // Both are called, whatever the result of the first.
                let keeper = self.keeper.stop(Some(until));
                replicated.stop(until) && keeper
            }
        };
        match self.shared.failure() {
            Some(cause) => Err(cause.to_string()),
            None => Ok(is_ended),
        }
    }
}

struct FailOnPanic(Arc<WriterShared>);

impl Drop for FailOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("a bug in delayd; see the log");
        }
    }
}
