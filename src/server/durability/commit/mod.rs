//! The journal as the turn sees it: batches go in without waiting, and what is committed is told.
//!
//! Two threads do the work with files: the [`writer`] appends and syncs, the [`keeper`] makes spares
//! and writes base files.

pub mod by_hand;
pub mod keeper;
pub mod shared;
mod writer;

use crate::ids::Index;
use crate::journal::commit_log::{Batch, CommitLog, Role};
use crate::journal::record::span;
use crate::journal::{Disk, Log};
use crate::limits::{
    PROPOSAL_AGE_STEP_US, SYNC_US_MAX, UNCOMMITTED_BYTES_MAX, UNSAFE_US_MAX, UNWRITTEN_BYTES_MIN,
    UNWRITTEN_SHARE, WRITE_BYTES,
};
use crate::server::connection::wake::Notifier;
use crate::server::outbox::gate::TurnNo;
use keeper::Keeper;
use shared::{Fsync, Proposal, Shared};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

/// Where the log goes on after recovery.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    pub index: Index,
    /// The sequence of the next fact.
    pub first: u64,
}

/// The journal of a running server.
#[derive(Debug)]
pub struct Journal {
    shared: Arc<Shared>,
    /// What makes spares and bases.
    pub keeper: Keeper,
    writer: Option<JoinHandle<()>>,
    fsync: Fsync,
    /// Bytes proposed and not written, which are in memory, above which no requests are read.
    unwritten_bytes_max: u64,
    newest: Index,
    /// The sequence of the next fact.
    first: u64,
    /// Bytes of all batches proposed since the start.
    proposed_bytes: u64,
    /// Turns whose batches are not committed, in order.
    uncommitted: VecDeque<Uncommitted>,
    /// Under `everysec`: what is not durable, with the time of its proposal, one a step.
    unsafe_since: VecDeque<(Index, u64)>,
    /// What was committed up to.
    committed: Index,
}

#[derive(Clone, Copy, Debug)]
struct Uncommitted {
    turn: TurnNo,
    index: Index,
    /// As `proposed_bytes` was then.
    bytes: u64,
}

impl Journal {
    /// Gives the buffers back that are kept for the next batches.
    pub fn forget_buffers(&self) {
        self.shared.work().buffers.clear();
    }

    /// Starts the threads behind a log that goes on at `position`.
    pub fn start(
        log: Log<Disk>,
        storage: Arc<Disk>,
        position: Position,
        fsync: Fsync,
        notifier: Arc<Notifier>,
    ) -> io::Result<Journal> {
        let shared = Arc::new(Shared::new(notifier, position.index));
        shared.work().fsync = Some(fsync);
        // The first turn sees what room there is.
        shared.publish(&log);
        let keeper = Keeper::start(storage, log.spare_maker(), Arc::clone(&shared))?;
        let of_writer = Arc::clone(&shared);
        let writer = std::thread::Builder::new().name("journal".to_owned());
        let writer = writer.spawn(move || {
            // A thread that panics must not leave the turn waiting for ever.
            let _guard = FailOnPanic(Arc::clone(&of_writer));
            writer::run(log, &of_writer);
        })?;
        Ok(Journal::new(shared, keeper, Some(writer), position, fsync))
    }

    fn new(
        shared: Arc<Shared>,
        keeper: Keeper,
        writer: Option<JoinHandle<()>>,
        position: Position,
        fsync: Fsync,
    ) -> Journal {
        Journal {
            shared,
            keeper,
            writer,
            fsync,
            unwritten_bytes_max: UNCOMMITTED_BYTES_MAX,
            newest: position.index,
            first: position.first,
            proposed_bytes: 0,
            uncommitted: VecDeque::new(),
            unsafe_since: VecDeque::new(),
            committed: position.index,
        }
    }

    /// What it shares with its threads.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The newest index.
    pub fn newest(&self) -> Index {
        self.newest
    }

    /// Where the log goes on.
    pub fn position(&self) -> Position {
        Position { index: self.newest, first: self.first }
    }

    /// Changes when it syncs. Going to `always`, everything before is synced too.
    pub fn set_fsync(&mut self, fsync: Fsync) {
        if fsync != self.fsync {
            self.fsync = fsync;
            let mut work = self.shared.work();
            work.fsync = Some(fsync);
            work.wanted = self.newest;
            self.shared.wake_writer(work);
        }
    }

    /// Batches that wait to be written take no more memory than becomes a server with this `maxmemory`, bytes;
    /// `u64::MAX` without a limit.
    pub fn set_memory_max(&mut self, max: u64) {
        let share = max / UNWRITTEN_SHARE;
        self.unwritten_bytes_max = share.clamp(UNWRITTEN_BYTES_MIN, UNCOMMITTED_BYTES_MAX);
    }

    /// Notes the turn that the newest proposal belongs to.
    pub fn note_turn(&mut self, turn: TurnNo) {
        let uncommitted = Uncommitted { turn, index: self.newest, bytes: self.proposed_bytes };
        self.uncommitted.push_back(uncommitted);
    }

    /// The turn up to which replies may leave; `current` is the one that began last.
    pub fn released(&mut self, current: TurnNo, mono_us: u64) -> TurnNo {
        let committed = self.committed_at(mono_us);
        while self.uncommitted.front().is_some_and(|front| front.index <= committed) {
            self.uncommitted.pop_front();
        }
        self.uncommitted.front().map_or(current, |front| front.turn - 1)
    }

    /// Replies wait: what they wait for is made safe, and the loop woken when the first part of it is.
    pub fn hurry(&mut self) {
        if let Some(front) = self.uncommitted.front() {
            let (front, newest) = (front.index, self.newest);
            if self.fsync == Fsync::Always {
                self.raise_wanted(newest);
            }
            self.shared.await_durable(front);
        }
    }

    /// Everything up to `index` is synced at once, whatever the policy, and the loop woken then.
    pub fn want(&mut self, index: Index) {
        self.raise_wanted(index);
        self.shared.await_durable(index);
    }

    /// Whether requests should wait until the journal has caught up.
    pub fn is_flooded(&self) -> bool {
        let committed = self.uncommitted.front().map_or(self.proposed_bytes, |front| front.bytes);
        let written = self.shared.written_bytes.load(Ordering::Relaxed);
        self.proposed_bytes - committed.min(written) > UNCOMMITTED_BYTES_MAX
    }

    /// Whether batches that are not written take so much memory that requests should wait.
    pub fn is_heavy(&self) -> bool {
        self.unwritten_bytes() > self.unwritten_bytes_max
    }

    /// Whether a sync has been out for so long that no job should be handed out.
    pub fn is_stuck(&self, mono_us: u64) -> bool {
        match self.shared.sync_began_us.load(Ordering::Acquire) {
            0 => false,
            began_us => mono_us.saturating_sub(began_us) > SYNC_US_MAX,
        }
    }

    /// Bytes for which there is room.
    pub fn room_bytes(&self) -> u64 {
        let capacity = self.shared.capacity_bytes.load(Ordering::Acquire);
        capacity.saturating_sub(self.proposed_bytes)
    }

    /// Bytes of the log's files.
    pub fn disk_bytes(&self) -> u64 {
        self.shared.disk_bytes.load(Ordering::Acquire)
    }

    /// What its files may take in all, bytes; `u64::MAX` if that is not known.
    pub fn journal_max(&self) -> u64 {
        self.shared.journal_max.load(Ordering::Acquire)
    }

    /// Bytes proposed since the start.
    pub fn proposed_bytes(&self) -> u64 {
        self.proposed_bytes
    }

    /// Bytes proposed and not written.
    pub fn unwritten_bytes(&self) -> u64 {
        self.proposed_bytes - self.shared.written_bytes.load(Ordering::Relaxed)
    }

    /// A base holds everything up to `index`: the log's part before it may go.
    pub fn drop_before(&self, index: Index) {
        let mut work = self.shared.work();
        work.drop_before = Some(index);
        self.shared.dropping.store(true, Ordering::Release);
        self.shared.wake_writer(work);
    }

    /// Writes and syncs everything that was proposed, and ends the threads. Blocks.
    pub fn stop(mut self) -> Result<(), String> {
        self.keeper.stop();
        let mut work = self.shared.work();
        work.stop = true;
        self.shared.wake_writer(work);
        if let Some(writer) = self.writer.take() {
            // A panic has been logged and is a failure already.
            let _ = writer.join();
        }
        match self.shared.failure() {
            Some(cause) => Err(cause.to_string()),
            None => Ok(()),
        }
    }

    fn raise_wanted(&self, index: Index) {
        let mut work = self.shared.work();
        if index > work.wanted {
            work.wanted = index;
            self.shared.wake_writer(work);
        }
    }

    /// What was proposed now is remembered as not durable.
    fn note_age(&mut self, mono_us: u64) {
        match self.unsafe_since.back_mut() {
            Some((index, since_us)) if mono_us - *since_us <= PROPOSAL_AGE_STEP_US => {
                *index = self.newest
            }
            _ => self.unsafe_since.push_back((self.newest, mono_us)),
        }
    }

    fn committed_at(&mut self, mono_us: u64) -> Index {
        let durable = self.shared.durable();
        while self.unsafe_since.front().is_some_and(|(index, _)| *index <= durable) {
            self.unsafe_since.pop_front();
        }
        self.committed = match self.fsync {
            Fsync::Always => durable,
            Fsync::No => self.newest,
            Fsync::Everysec => match self.unsafe_since.front() {
                Some((_, since_us)) if mono_us.saturating_sub(*since_us) > UNSAFE_US_MAX => durable,
                _ => self.newest,
            },
        }
        .max(self.committed);
        self.committed
    }
}

impl CommitLog for Journal {
    fn propose(&mut self, batch: Batch<'_>) -> Index {
        let Batch { now, mono_us, facts, urgent } = batch;
        self.newest = Index(self.newest.0 + 1);
        let count = u32::try_from(facts.count).expect("a turn makes less than 2^32 facts");
        self.proposed_bytes += span(facts.bytes.len());
        let mut work = self.shared.work();
        let mut bytes = work.buffers.pop().unwrap_or_default();
        bytes.clear();
        std::mem::swap(&mut bytes, &mut facts.bytes);
        facts.count = 0;
        let (first, urgent) = (self.first, urgent && self.fsync == Fsync::Always);
        self.first += u64::from(count);
        work.bytes += bytes.len();
        work.batches.push(Proposal { index: self.newest, first, now, count, facts: bytes });
        if urgent {
            work.wanted = self.newest;
        }
        // A writer that knows of batches has set itself a time to write them.
        if urgent || work.batches.len() == 1 || work.bytes > WRITE_BYTES {
            self.shared.wake_writer(work);
        } else {
            drop(work);
        }
        if self.fsync == Fsync::Everysec {
            self.note_age(mono_us);
        }
        self.newest
    }

    fn committed(&self) -> Index {
        self.committed
    }

    fn role(&self) -> Role {
        Role::Leader
    }
}

struct FailOnPanic(Arc<Shared>);

impl Drop for FailOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("a bug of delayd's own; see the log");
        }
    }
}
