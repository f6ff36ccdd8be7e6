//! State shared by the turn, the writer and the keeper.

use crate::engine::observe::histogram::CounterHistogram;
use crate::ids::Index;
use crate::journal::record::RecordKind;
use crate::journal::record::entry::EPOCH;
use crate::journal::{Disk, Log, SegmentEntry, Spare};
use crate::lock::lock;
use crate::observe::metrics::SYNC_US;
use crate::server::clock::timer::mono_us;
use crate::server::cluster::entry_log::Op;
use crate::server::connection::wake::Notifier;
use crate::time::Micros;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// When the log is synced: `appendfsync`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fsync {
    /// No reply before its facts are on disk.
    Always,
    /// At most the last second is missing after a loss of power.
    Everysec,
    /// When the system likes to.
    No,
}

/// The facts of a turn, on their way to the log.
#[derive(Debug)]
pub struct Proposal {
    pub index: Index,
    /// The sequence of its first fact.
    pub first: u64,
    pub now: Micros,
    pub count: u32,
    pub facts: Vec<u8>,
}

impl Proposal {
    /// As the log takes it.
    pub fn entry(&self) -> SegmentEntry<'_> {
        let Proposal { index, first, now, count, ref facts } = *self;
        let (kind, epoch, node) = (RecordKind::Facts, EPOCH, 0);
        SegmentEntry { kind, index, epoch, node, first, now, count, body: facts }
    }
}

/// The writer's tasks.
#[derive(Debug, Default)]
pub struct WriterWork {
    /// To be written, in order.
    pub batches: Vec<Proposal>,
    /// For a node: the operations on its log, in order.
    pub ops: VecDeque<Op>,
    pub bytes: usize,
    /// A reply waits until this is durable.
    pub wanted: Index,
    /// When the log is synced.
    pub fsync: Option<Fsync>,
    /// Everything before this may be dropped: a base holds it.
    pub drop_before: Option<Index>,
    pub spares: Vec<Spare<Disk>>,
    /// Write and sync everything, then end.
    pub stop: bool,
    /// The writer sleeps until there is work, or until a time of its own.
    pub asleep: bool,
    /// Buffers of batches that have been written.
    pub buffers: Vec<Vec<u8>>,
}

#[derive(Debug)]
pub struct WriterShared {
    work: Mutex<WriterWork>,
    changed: Condvar,
    /// The newest index that is durable.
    durable: AtomicU64,
    /// The newest index that is written.
    written: AtomicU64,
    /// Wake the loop when this index is durable.
    awaited: AtomicU64,
    /// When the sync that is out began; monotonic, µs; 0 for none.
    pub sync_began_us: AtomicU64,
    pub slow_syncs: AtomicU64,
    syncs: Mutex<CounterHistogram>,
    /// When the last one was over; monotonic, µs.
    pub synced_us: AtomicU64,
    /// Since when something is written and not synced; monotonic, µs; 0 for none.
    pub unsynced_since_us: AtomicU64,
    pub synced_bytes: AtomicU64,
    /// All bytes ever written to the log, and those for which there is space after them.
    pub capacity_bytes: AtomicU64,
    pub spares: AtomicU64,
    /// Number of segments that are no spares.
    pub segments: AtomicU64,
    /// Bytes of the log's files, spares included.
    pub disk_bytes: AtomicU64,
    /// The total size that the journal's files may have, bytes; `u64::MAX` if it is not known.
    pub journal_max: AtomicU64,
    pub written_bytes: AtomicU64,
    pub base_written_bytes: AtomicU64,
    /// Segments are to go, which may become spares.
    pub dropping: AtomicBool,
    /// Spares made by the keeper, and those of them that the writer counts as room.
    spares_made: AtomicU64,
    spares_taken: AtomicU64,
    failure: OnceLock<Arc<str>>,
    notifier: Arc<Notifier>,
}

impl WriterShared {
    /// Nothing to do yet; everything up to `durable` is.
    pub fn new(notifier: Arc<Notifier>, durable: Index) -> WriterShared {
        WriterShared {
            work: Mutex::default(),
            changed: Condvar::new(),
            durable: AtomicU64::new(durable.0),
            written: AtomicU64::new(durable.0),
            awaited: AtomicU64::new(u64::MAX),
            sync_began_us: AtomicU64::new(0),
            slow_syncs: AtomicU64::new(0),
            syncs: Mutex::new(CounterHistogram::new(&SYNC_US)),
            synced_us: AtomicU64::new(mono_us()),
            unsynced_since_us: AtomicU64::new(0),
            synced_bytes: AtomicU64::new(0),
            capacity_bytes: AtomicU64::new(0),
            spares: AtomicU64::new(0),
            segments: AtomicU64::new(0),
            disk_bytes: AtomicU64::new(0),
            journal_max: AtomicU64::new(u64::MAX),
            written_bytes: AtomicU64::new(0),
            base_written_bytes: AtomicU64::new(0),
            dropping: AtomicBool::new(false),
            spares_made: AtomicU64::new(0),
            spares_taken: AtomicU64::new(0),
            failure: OnceLock::new(),
            notifier,
        }
    }

    /// The work. It is never held while a file is accessed.
    pub fn work(&self) -> MutexGuard<'_, WriterWork> {
        lock(&self.work)
    }

    /// Wakes the writer if it sleeps.
    pub fn wake_writer(&self, mut work: MutexGuard<'_, WriterWork>) {
        if std::mem::take(&mut work.asleep) {
            drop(work);
            self.changed.notify_one();
        }
    }

    /// Sleeps until there is work, at most `for_us` µs.
    pub fn sleep<'w>(
        &'w self,
        mut work: MutexGuard<'w, WriterWork>,
        for_us: Option<u64>,
    ) -> MutexGuard<'w, WriterWork> {
        work.asleep = true;
        let mut work = match for_us {
            None => self.changed.wait(work).unwrap_or_else(PoisonError::into_inner),
            Some(us) => {
                let waited = self.changed.wait_timeout(work, std::time::Duration::from_micros(us));
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        work.asleep = false;
        work
    }

    /// Tells of the log's files and room.
    pub fn publish(&self, log: &Log<Disk>) {
        let written = self.written_bytes.load(Ordering::Relaxed);
        self.capacity_bytes.store(written + log.room_bytes(), Ordering::Release);
        self.spares.store(log.spares() as u64, Ordering::Release);
        self.segments.store(log.segments(), Ordering::Release);
        self.disk_bytes.store(log.disk_bytes(), Ordering::Release);
    }

    /// A sync of everything written has ended, and took this long.
    pub fn synced(&self, over_us: u64, took_us: u64) {
        self.lock_syncs().record(took_us);
        self.synced_us.store(over_us, Ordering::Relaxed);
        self.unsynced_since_us.store(0, Ordering::Relaxed);
        let written = self.written_bytes.load(Ordering::Relaxed);
        self.synced_bytes.store(written, Ordering::Relaxed);
    }

    /// How long syncs took so far.
    pub fn syncs(&self) -> CounterHistogram {
        self.lock_syncs().clone()
    }

    /// Gives the writer a spare.
    pub fn give_spare(&self, spare: Spare<Disk>) {
        self.spares_made.fetch_add(1, Ordering::Release);
        let mut work = self.work();
        work.spares.push(spare);
        self.wake_writer(work);
    }

    /// The writer has published the room of `count` spares it was given.
    pub fn spares_taken(&self, count: usize) {
        self.spares_taken.fetch_add(count as u64, Ordering::Release);
        self.notify();
    }

    /// The writer has given up what a base covers, and published what room came of it.
    pub fn dropped(&self) {
        let work = self.work();
        self.dropping.store(work.drop_before.is_some(), Ordering::Release);
        drop(work);
        self.notify();
    }

    /// Whether a spare was made whose space is not published yet.
    pub fn has_spares_under_way(&self) -> bool {
        let taken = self.spares_taken.load(Ordering::Acquire);
        self.spares_made.load(Ordering::Acquire) > taken
    }

    pub fn durable(&self) -> Index {
        Index(self.durable.load(Ordering::Acquire))
    }

    pub fn written(&self) -> Index {
        Index(self.written.load(Ordering::Acquire))
    }

    pub fn set_written(&self, index: Index) {
        self.written.store(index.0, Ordering::Release);
    }

    pub fn set_durable(&self, index: Index) {
        self.durable.store(index.0, Ordering::SeqCst);
        if index.0 >= self.awaited.load(Ordering::SeqCst) {
            self.awaited.store(u64::MAX, Ordering::SeqCst);
            self.notify();
        }
    }

    /// The loop is woken when `index` is durable, at once if it is.
    pub fn await_durable(&self, index: Index) {
        let awaited = self.awaited.load(Ordering::SeqCst).min(index.0);
        self.awaited.store(awaited, Ordering::SeqCst);
        if self.durable() >= index {
            self.notify();
        }
    }

    /// The log failed: nothing more is written.
    pub fn fail(&self, cause: &str) {
        // The first cause is the one that counts.
        let _ = self.failure.set(cause.into());
        self.notify();
    }

    /// Why the log failed, if it did.
    pub fn failure(&self) -> Option<&Arc<str>> {
        self.failure.get()
    }

    /// It is held only for as long as counting takes.
    fn lock_syncs(&self) -> MutexGuard<'_, CounterHistogram> {
        lock(&self.syncs)
    }

    /// Wakes the loop.
    pub fn notify(&self) {
        self.notifier.notify();
    }
}
