//! When a base is written, and how fast.
//!
//! With L the size a base would have now, one is begun when base and log together reach 2.1 L. While it is written,
//! every byte of log is answered with four of base, so that the log grows by a quarter of L at most: 2.1 L + L + 0.25 L
//! stay below 3.5 L, and leave space for a quarter of a segment if L is two segments or more. The kept data shrinks
//! with every base of N bytes from at least 2.1 N to N, so that bases cost less than 1 / 1.1 of what clients have
//! written, whatever they do: only their writes make it grow again. Worked: a million jobs of 150 bytes that are
//! replaced again and again (L = 150 MB): a base after each 165 MB of log.

use crate::engine::Engine;
use crate::ids::Index;
use crate::journal::may_pass;
use crate::journal::record::raft_state::Members;
use crate::limits::{
    BACKLOG_BYTES_MAX, BACKLOG_BYTES_MIN, BACKLOG_SHARE, BASE_OUTPUT_BYTES_MAX, BASE_PACE,
    BASE_RETRY_US, BASE_SLICE_BYTES, BASE_SLICE_BYTES_MAX, IMAGE_BYTES_MIN, KEEPER_STUCK_US,
    KEPT_TENTHS_MAX, ROOM_RETRY_US,
};
use crate::server::durability::commit::Journal;
use crate::server::durability::commit::keeper::Task;
use crate::time::Micros;
use std::io;

/// Bases of a running server.
#[derive(Debug)]
pub struct Compaction {
    /// The last batch that the newest base covers; 0 without one.
    pub base_index: Index,
    /// The size of the newest base, bytes; 0 without one.
    pub base_bytes: u64,
    /// Bytes of log since that base that were there when the server started.
    log_before_bytes: u64,
    /// The journal's proposed bytes as of that base.
    log_from_bytes: u64,
    running: Option<RunningCompaction>,
    /// The newest one that was begun, until it is complete.
    begun: Option<BegunBase>,
    retry_at_us: u64,
    backlog_bytes_max: u64,
    /// The keeper's backlog, and since when it has not become less; monotonic, µs.
    stuck: (u64, u64),
}

/// The report about a base when it is complete.
#[derive(Clone, Debug)]
struct BegunBase {
    index: Index,
    /// The epoch of the batch with which it ends, and in a cluster the members as of that batch.
    epoch: u64,
    members: Option<Members>,
    /// The journal's proposed bytes as of then.
    log_from_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct RunningCompaction {
    index: Index,
    log_from_bytes: u64,
    images_bytes: u64,
    written_bytes: u64,
    /// All images have been handed to the keeper.
    imaged: bool,
}

impl Compaction {
    /// As recovery found it: a base of `base_bytes` and `log_bytes` of log since.
    pub fn new(base_index: Index, base_bytes: u64, log_bytes: u64) -> Compaction {
        Compaction {
            base_index,
            base_bytes,
            log_before_bytes: log_bytes,
            log_from_bytes: 0,
            running: None,
            begun: None,
            retry_at_us: 0,
            backlog_bytes_max: BACKLOG_BYTES_MAX,
            stuck: (0, 0),
        }
    }

    /// Images take no more memory than becomes a server with this `maxmemory`, bytes; `u64::MAX` without a
    /// limit.
    pub fn set_memory_max(&mut self, max: u64) {
        self.backlog_bytes_max = (max / BACKLOG_SHARE).clamp(BACKLOG_BYTES_MIN, BACKLOG_BYTES_MAX);
    }

    /// Whether images that are not written take so much memory that requests should wait.
    pub fn is_heavy(&self, engine: &Engine, journal: &Journal) -> bool {
        let bytes = journal.keeper.backlog_bytes() + engine.base_output_bytes() as u64;
        self.is_running() && bytes > 2 * self.backlog_bytes_max
    }

    /// Whether a base may take its time: there is room for what is imaged meanwhile.
    pub fn has_time(&self, engine: &Engine) -> bool {
        (engine.base_output_bytes() as u64) < self.backlog_bytes_max / 2
    }

    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub fn is_running_to(&self, index: Index) -> bool {
        self.running.is_some_and(|running| running.index == index)
    }

    /// Whether all images of the one that is being written were made.
    pub fn is_imaged(&self) -> bool {
        self.running.is_some_and(|running| running.imaged)
    }

    /// A base that has come from another node is in place, with nothing of the log before it.
    pub fn restored(&mut self, index: Index, bytes: u64, journal: &Journal) {
        if index > self.base_index {
            (self.base_index, self.base_bytes) = (index, bytes);
            (self.log_before_bytes, self.log_from_bytes) = (0, journal.proposed_bytes());
        }
    }

    /// Bytes of images that the base being written will have: those of the state as of its
    /// beginning, whatever was removed since; None without one.
    pub fn images_bytes(&self) -> Option<u64> {
        self.running.map(|running| running.images_bytes)
    }

    pub fn written_bytes(&self) -> u64 {
        self.running.map_or(0, |running| running.written_bytes)
    }

    /// Whether there is a slice to write that nothing will wake the loop for.
    pub fn is_behind(&self, journal: &Journal) -> bool {
        self.running.is_some_and(|running| !running.imaged)
            && journal.keeper.backlog_bytes() < self.backlog_bytes_max
    }

    /// Bytes of log since the one that is being written began.
    pub fn log_beside_bytes(&self, journal: &Journal) -> u64 {
        self.running.map_or(0, |running| journal.proposed_bytes() - running.log_from_bytes)
    }

    /// Bytes of log since the newest base.
    pub fn log_bytes(&self, journal: &Journal) -> u64 {
        self.log_before_bytes + journal.proposed_bytes() - self.log_from_bytes
    }

    /// Whether the keeper has written all that an earlier one left with it, so that one may begin.
    pub fn is_clear(&self, journal: &Journal) -> bool {
        !self.is_running() && journal.keeper.backlog_bytes() == 0
    }

    /// Whether one may begin: none failed just now.
    pub fn may_begin(&self, mono_us: u64) -> bool {
        mono_us >= self.retry_at_us
    }

    /// Whether a base is due by itself, as one would have `live` bytes now.
    pub fn is_due(&self, live: u64, journal: &Journal, segment_bytes: u64) -> bool {
        let log = self.log_bytes(journal);
        let kept = self.base_bytes + log;
        // With less than half a segment of log there is nothing to gain, except from the base itself: its jobs were
        // removed.
        let gives_back = log >= segment_bytes / 2 || kept >= live + segment_bytes / 2;
        gives_back && kept * 10 >= live * KEPT_TENTHS_MAX
    }

    /// Begins a base of the state as it is now, which is that up to the index it returns. All facts applied must have been
    /// proposed, and no base be running.
    pub fn begin(&mut self, engine: &mut Engine, journal: &Journal, now: Micros) -> Index {
        let (head, members) = journal.base_head(now);
        let (index, images_bytes) = (head.index, engine.base_bytes());
        engine.begin_base();
        let log_from_bytes = journal.proposed_bytes();
        let (epoch, of_members) = (head.epoch, members.clone());
        self.begun = Some(BegunBase { index, epoch, members: of_members, log_from_bytes });
        journal.keeper.send(Task::BeginBase(head, members));
        let (written_bytes, imaged) = (0, false);
        self.running =
            Some(RunningCompaction { index, log_from_bytes, images_bytes, written_bytes, imaged });
        tracing::info!(index = index.0, "a base begins");
        index
    }

    /// Writes the turn's share of the running base. False if it must be given up: the disk does not keep up, and images
    /// of jobs that clients change pile up in memory.
    pub fn slice(&mut self, engine: &mut Engine, journal: &Journal, mono_us: u64) -> bool {
        let is_heavy = self.is_heavy(engine, journal);
        let Some(running) = &mut self.running else { return true };
        let backlog = journal.keeper.backlog_bytes();
        if !is_heavy || backlog < self.stuck.0 {
            self.stuck = (backlog, mono_us);
        }
        if running.imaged || backlog >= self.backlog_bytes_max {
            let is_stuck = mono_us.saturating_sub(self.stuck.1) > KEEPER_STUCK_US;
            return !is_stuck && engine.base_output_bytes() <= BASE_OUTPUT_BYTES_MAX;
        }
        let owed = BASE_PACE * (journal.proposed_bytes() - running.log_from_bytes);
        let share = owed
            .saturating_sub(running.written_bytes)
            .clamp(BASE_SLICE_BYTES, BASE_SLICE_BYTES_MAX);
        let images_max = (share / IMAGE_BYTES_MIN) as u32;
        running.imaged = engine.base_slice(images_max, share as usize);
        let images = std::mem::take(engine.base_output());
        running.written_bytes += images.len() as u64;
        if !images.is_empty() {
            journal.keeper.send(Task::Images(images));
        }
        if running.imaged {
            journal.keeper.send(Task::FinishBase);
        }
        true
    }

    /// The keeper has put a base in place, also one that was given up when all but its end was written: what it covers leaves
    /// the log. Nothing, if another one was begun since: that makes good for it.
    pub fn complete(&mut self, index: Index, bytes: u64, journal: &Journal) {
        if self.is_running_to(index) {
            self.running = None;
        }
        let begun = self.begun.take_if(|begun| begun.index == index);
        // One from another node may be in place that is newer.
        let Some(begun) = begun.filter(|_| index >= self.base_index) else { return };
        (self.base_index, self.base_bytes) = (index, bytes);
        (self.log_before_bytes, self.log_from_bytes) = (0, begun.log_from_bytes);
        journal.base_made(index, begun.epoch, begun.members.as_ref());
        tracing::info!(index = index.0, bytes, "a base is complete");
    }

    /// The keeper could not write the running base. False if it was given up before.
    pub fn fail(&mut self, error: &io::Error, engine: &mut Engine, mono_us: u64) -> bool {
        let ran = self.running.take().is_some();
        if ran {
            engine.abandon_base();
            let retry_us = if may_pass(error) { ROOM_RETRY_US } else { BASE_RETRY_US };
            self.retry_at_us = mono_us + retry_us;
            tracing::warn!(%error, "a base could not be written; the log is kept");
        }
        ran
    }

    /// The base in progress belongs to another engine: it does not count, even if it is put in
    /// place.
    pub fn forget(&mut self) {
        self.begun = None;
    }

    /// Gives up what is running; false if nothing is.
    pub fn abandon(&mut self, engine: &mut Engine, journal: &Journal) -> bool {
        let ran = self.running.take().is_some();
        if ran {
            engine.abandon_base();
            journal.keeper.send(Task::AbandonBase);
        }
        ran
    }
}
