//! The writer thread: appends batches to the log and syncs it. One sync covers all batches that came
//! while the one before was out (group commit); the turn never waits for it.

use crate::ids::Index;
use crate::journal::record::span;
use crate::journal::{Disk, Log, SegmentEntry, may_pass};
use crate::limits::{
    EVERYSEC_SYNC_US, FACT_BUFFER_BYTES_MAX, FACT_BUFFERS_MAX, LAZY_SYNC_US, LAZY_WRITE_US,
    ROOM_RETRY_US, SYNC_US_MAX, WRITE_BYTES,
};
use crate::server::clock::timer::mono_us;
use crate::server::durability::commit::shared::{Fsync, Proposal, WriterShared, WriterWork};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Runs until it is stopped, or the log fails.
pub fn run(log: Log<Disk>, shared: &Arc<WriterShared>) {
    let mut writer = Writer {
        unsynced_since_us: None,
        unwritten_since_us: None,
        synced_us: mono_us(),
        written_us: 0,
        log,
        shared: Arc::clone(shared),
        kept: Vec::new(),
        retry_at_us: 0,
        drop_before: None,
        wrote: false,
    };
    if let Err(error) = writer.work() {
        tracing::error!(%error, "the journal failed; nothing is acknowledged until a restart");
        shared.fail(&error.to_string());
    }
}

struct Writer {
    log: Log<Disk>,
    shared: Arc<WriterShared>,
    /// Since when something is written and not synced; monotonic, µs.
    unsynced_since_us: Option<u64>,
    /// Since when something waits to be written.
    unwritten_since_us: Option<u64>,
    synced_us: u64,
    written_us: u64,
    /// Batches for which there was no room, before all others.
    kept: Vec<Proposal>,
    retry_at_us: u64,
    /// Drop segments all of whose batches are before this.
    drop_before: Option<Index>,
    /// A batch was written.
    wrote: bool,
}

struct WriterNext {
    batches: Vec<Proposal>,
    sync: bool,
    stop: bool,
}

impl Writer {
    fn work(&mut self) -> io::Result<()> {
        loop {
            let WriterNext { batches, sync, stop } = self.next();
            // The keeper had a failure. Batches in flight are not acknowledged, and nothing follows
            // them.
            if self.shared.failure().is_some() {
                return Ok(());
            }
            if !batches.is_empty() {
                self.append(batches)?;
            }
            if sync && self.unsynced_since_us.is_some() {
                self.sync()?;
            }
            self.drop_one()?;
            self.publish();
            if stop {
                return self.close();
            }
        }
    }

    /// Between two groups at most one segment goes.
    fn drop_one(&mut self) -> io::Result<()> {
        if let Some(index) = self.drop_before
            && !self.log.drop_one_before(index)?
        {
            self.drop_before = None;
            // Writes that lacked space may have some now.
            self.retry_at_us = 0;
            self.publish();
            self.shared.dropped();
        }
        Ok(())
    }

    /// The last record is a state: it shows that the batches before it are durable, so that damage to them is not taken
    /// for a torn tail.
    fn close(&mut self) -> io::Result<()> {
        if !self.kept.is_empty() {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        // No client waits for it: without space it is left out.
        if self.wrote && self.log.note_state().is_ok() {
            self.log.sync()?;
        }
        Ok(())
    }

    /// Waits until there is something to do.
    fn next(&mut self) -> WriterNext {
        let shared = Arc::clone(&self.shared);
        let mut work = shared.work();
        loop {
            let count = work.spares.len();
            if count > 0 {
                work.spares.drain(..).for_each(|spare| self.log.add_spare(spare));
                self.retry_at_us = 0;
                self.publish();
                self.shared.spares_taken(count);
            }
            let now_us = mono_us();
            if !work.batches.is_empty() {
                self.unwritten_since_us.get_or_insert(now_us);
            }
            let (write_at, sync_at) = self.times(&work);
            let sync = work.stop || sync_at.is_some_and(|at| at <= now_us);
            let write = sync || write_at.is_some_and(|at| at <= now_us);
            self.drop_before = work.drop_before.take().or(self.drop_before);
            if write || self.drop_before.is_some() || work.stop {
                let mut batches = Vec::new();
                if write {
                    batches.append(&mut self.kept);
                    self.unwritten_since_us = None;
                    work.bytes = 0;
                    batches.append(&mut work.batches);
                }
                return WriterNext { batches, sync, stop: work.stop };
            }
            let until = [write_at, sync_at].into_iter().flatten().min();
            work = shared.sleep(work, until.map(|at| at.saturating_sub(now_us)));
        }
    }

    /// When to write and when to sync next; monotonic, µs.
    fn times(&self, work: &WriterWork) -> (Option<u64>, Option<u64>) {
        let newest = work.batches.last().map_or(self.shared.written(), |batch| batch.index);
        let dirty_since = self.unsynced_since_us.or(self.unwritten_since_us);
        let many = work.bytes > WRITE_BYTES;
        let wanted = work.wanted > self.shared.durable() && work.wanted <= newest;
        let paced =
            self.unwritten_since_us.map(|_| if many { 0 } else { self.written_us + LAZY_WRITE_US });
        match work.fsync {
            _ if !self.kept.is_empty() => (Some(self.retry_at_us), Some(self.retry_at_us)),
            _ if wanted => (Some(0), Some(0)),
            // Data that no client waits for is not synced for a while, but the death of the process alone must not lose
            // it: the next start would count an occurrence that was made as missed.
            Some(Fsync::Always) | None => (paced, dirty_since.map(|at| at + LAZY_SYNC_US)),
            Some(Fsync::Everysec) => {
                (paced, dirty_since.map(|_| self.synced_us + EVERYSEC_SYNC_US))
            }
            Some(Fsync::No) => (paced, None),
        }
    }

    fn append(&mut self, batches: Vec<Proposal>) -> io::Result<()> {
        let entries: Vec<SegmentEntry<'_>> = batches.iter().map(Proposal::entry).collect();
        match self.log.append(&entries) {
            // No space for another segment: nothing was written, and nothing was acknowledged.
            Err(error) if !self.log.is_poisoned() && may_pass(&error) => {
                self.retry_at_us = mono_us() + ROOM_RETRY_US;
                self.kept = batches;
                return Ok(());
            }
            appended => appended?,
        }
        let bytes: u64 = batches.iter().map(|batch| span(batch.facts.len())).sum();
        self.shared.written_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.wrote = true;
        self.shared.set_written(entries[entries.len() - 1].index);
        self.written_us = mono_us();
        let since_us = *self.unsynced_since_us.get_or_insert(self.written_us);
        self.shared.unsynced_since_us.store(since_us, Ordering::Relaxed);
        self.give_back(batches);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let began_us = mono_us();
        self.shared.sync_began_us.store(began_us, Ordering::Release);
        let durable = self.log.sync()?;
        self.shared.sync_began_us.store(0, Ordering::Release);
        self.synced_us = mono_us();
        self.shared.synced(self.synced_us, self.synced_us - began_us);
        if self.synced_us - began_us > SYNC_US_MAX {
            self.shared.slow_syncs.fetch_add(1, Ordering::Relaxed);
            // Held writes continue.
            self.shared.notify();
        }
        self.unsynced_since_us = None;
        self.shared.set_durable(durable);
        Ok(())
    }

    fn publish(&self) {
        self.shared.publish(&self.log);
    }

    fn give_back(&self, batches: Vec<Proposal>) {
        let mut work = self.shared.work();
        for batch in batches {
            if work.buffers.len() < FACT_BUFFERS_MAX
                && batch.facts.capacity() <= FACT_BUFFER_BYTES_MAX
            {
                work.buffers.push(batch.facts);
            }
        }
    }
}
