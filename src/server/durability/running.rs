//! A journal that is written: its threads, its bases, and what there is room for.

use crate::config::Config;
use crate::config::options::Name;
use crate::engine::Engine;
use crate::ids::Index;
use crate::journal::Disk;
use crate::journal::recovery::Recovered;
use crate::observe::persistence::{JournalTrouble, Persistence};
use crate::server::connection::wake::Notifier;
use crate::server::durability::commit::by_hand::{self, ByHand};
use crate::server::durability::commit::shared::Fsync;
use crate::server::durability::commit::{Journal, ResumePosition};
use crate::server::durability::compaction::Compaction;
use crate::server::durability::loading::Loading;
use crate::server::durability::loading::Reloaded;
use crate::server::durability::verify::Verify;
use crate::time::Micros;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A journal that is written.
#[derive(Debug)]
pub struct RunningJournal {
    /// Where batches go.
    pub journal: Journal,
    pub compaction: Compaction,
    pub(super) segment_bytes: u64,
    /// This much of a node's log is kept, whether or not bases cover it.
    pub(super) kept_bytes: u64,
    /// Why there is no room for another segment, while none is left.
    pub(super) full: Option<Arc<str>>,
    /// The room that is kept for commands that end jobs meanwhile, bytes.
    pub(super) ends_bytes: u64,
    /// Why the last spare could not be made.
    pub(super) no_spare: Option<Arc<str>>,
    /// Since when a segment would take the room of the next base, while no base is coming; monotonic,
    /// µs.
    pub(super) short_since_us: Option<u64>,
    /// The last report about space kept for the next base, by the size of the disk in MiB.
    pub(super) kept: (u64, Arc<str>),
    /// Nothing may be added: the next base would be too large.
    pub(super) crowded: bool,
    /// Time of the last log line about this; monotonic, µs.
    pub(super) crowded_logged_us: u64,
    /// The sequence of the first fact after the newest base, or the running one.
    pub(super) base_first: u64,
    pub(super) making_spare: bool,
    pub(super) retry_at_us: u64,
    /// The journal failed, and the replies that waited for it carry the error.
    pub(super) failed: bool,
    /// A node that had facts that were lost: its engine is being loaded.
    pub(super) reloading: Option<Box<Loading<Reloaded>>>,
    /// A base that was put in place meanwhile: its index and bytes.
    pub(super) late_base: Option<(Index, u64)>,
    /// Whether all nodes hold the same data.
    pub(super) verify: Verify,
}

impl RunningJournal {
    /// Goes on with what was recovered.
    pub fn start(
        recovered: Recovered<Disk>,
        storage: Arc<Disk>,
        config: &Config,
        notifier: Arc<Notifier>,
    ) -> io::Result<(Engine, RunningJournal)> {
        let Recovered {
            engine, log, index, first, base_first, base_index, base_bytes, opened, ..
        } = recovered;
        let position = ResumePosition { index, first };
        let segment_bytes = log.options().segment_bytes;
        let journal = Journal::start(log, storage, position, fsync(config), notifier)?;
        let compaction = Compaction::new(base_index, base_bytes, opened.bytes);
        Ok((engine, RunningJournal::new(journal, compaction, segment_bytes, base_first, config)))
    }

    /// Begins with nothing, without files and threads: the caller is the disk.
    pub fn by_hand(
        times_us: (u64, u64),
        mono_us: u64,
        config: &Config,
        notifier: Arc<Notifier>,
    ) -> (RunningJournal, ByHand) {
        let segment_bytes = config.number(Name::JournalSegmentSize);
        let (journal, disk) = by_hand::journal(times_us, mono_us, fsync(config), notifier);
        journal.shared().capacity_bytes.store(2 * segment_bytes, Ordering::Relaxed);
        let (compaction, first) = (Compaction::new(Index(0), 0, 0), journal.position().first);
        (RunningJournal::new(journal, compaction, segment_bytes, first, config), disk)
    }

    pub(super) fn new(
        journal: Journal,
        compaction: Compaction,
        segment_bytes: u64,
        base_first: u64,
        config: &Config,
    ) -> RunningJournal {
        let mut running = RunningJournal {
            journal,
            compaction,
            segment_bytes,
            kept_bytes: 0,
            full: None,
            ends_bytes: 0,
            no_spare: None,
            short_since_us: None,
            kept: (u64::MAX, "".into()),
            crowded: false,
            crowded_logged_us: 0,
            base_first,
            making_spare: false,
            retry_at_us: 0,
            failed: false,
            reloading: None,
            late_base: None,
            verify: Verify::default(),
        };
        running.reconfigure(config);
        running
    }

    pub fn reconfigure(&mut self, config: &Config) {
        self.journal.set_fsync(fsync(config));
        let memory_max = match config.number(Name::MaxMemory) {
            0 => u64::MAX,
            max => max,
        };
        self.journal.set_memory_max(memory_max);
        self.compaction.set_memory_max(memory_max);
    }

    /// Why the journal takes nothing more, if it failed.
    pub fn failure(&self) -> Option<&Arc<str>> {
        self.journal.shared().failure()
    }

    /// Its status as of `now`, which is `mono_us` on the monotonic clock.
    pub(super) fn show(&self, shown: &mut Persistence, now: Micros, mono_us: u64) {
        let RunningJournal { journal, compaction, .. } = self;
        let shared = journal.shared();
        let number = |of: &AtomicU64| of.load(Ordering::Relaxed);
        shown.enabled = true;
        shown.proposed = journal.newest().0;
        shown.committed = journal.committed().0;
        shown.durable = journal.durable().0;
        (shown.newest_batch, shown.safe_batch) = journal.batches();
        shown.base_index = compaction.base_index.0;
        shown.base_bytes = compaction.base_bytes;
        shown.log_bytes = compaction.log_bytes(journal);
        shown.changes_since_base = journal.position().first - self.base_first;
        shown.room_bytes = journal.room_bytes();
        shown.spares = number(&shared.spares);
        shown.segments = number(&shared.segments);
        shown.written_bytes = number(&shared.written_bytes);
        shown.base_written_bytes = number(&shared.base_written_bytes);
        shown.disk_bytes = journal.disk_bytes() + compaction.base_bytes;
        shown.buffer_bytes = journal.unwritten_bytes();
        // Read first: a node's log grows and is synced concurrently with this thread.
        let synced_bytes = number(&shared.synced_bytes);
        shown.unsynced_bytes = journal.proposed_bytes() - synced_bytes;
        let ago_us = |at_us: u64| mono_us.saturating_sub(at_us);
        shown.unsynced_us = match number(&shared.unsynced_since_us) {
            0 => 0,
            since_us => ago_us(since_us),
        };
        shown.last_sync_us = now.0.saturating_sub(ago_us(number(&shared.synced_us)));
        shown.syncs_pending = u64::from(number(&shared.sync_began_us) > 0);
        shown.syncs_delayed = number(&shared.slow_syncs);
        if self.failure().is_none() {
            shown.trouble = match self.shortage() {
                Some(cause) => JournalTrouble::Full(cause.to_string()),
                None => JournalTrouble::None,
            };
        }
    }
}

fn fsync(config: &Config) -> Fsync {
    match config.text(Name::AppendFsync) {
        "everysec" => Fsync::Everysec,
        "no" => Fsync::No,
        _ => Fsync::Always,
    }
}
