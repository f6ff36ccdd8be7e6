//! A journal without files and threads: the caller says how long the disk takes, and when it fails.

use crate::ids::Index;
use crate::journal::record::span;
use crate::server::connection::wake::Notifier;
use crate::server::durability::commit::keeper::{Keeper, KeeperDone, Task, Tasks};
use crate::server::durability::commit::local::Local;
use crate::server::durability::commit::shared::{Fsync, WriterShared};
use crate::server::durability::commit::{Commit, Journal, ResumePosition};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Does the work of the writer and the keeper.
#[derive(Debug)]
pub struct ByHand {
    shared: Arc<WriterShared>,
    tasks: Tasks,
    sync_us: u64,
    base_us: u64,
    /// Syncs that are out: when each began, and of what.
    syncs: VecDeque<(u64, Index)>,
    /// The base that is being written, its bytes so far, and when it will be complete.
    base: Option<(Index, u64, u64)>,
    base_failure: Option<String>,
}

/// A journal that has nothing in it, as of `mono_us`. A sync takes `sync_us`, a base `base_us`.
pub fn journal(
    (sync_us, base_us): (u64, u64),
    mono_us: u64,
    fsync: Fsync,
    notifier: Arc<Notifier>,
) -> (Journal, ByHand) {
    let position = ResumePosition { index: Index(0), first: 1 };
    let shared = Arc::new(WriterShared::new(notifier, position.index));
    shared.segments.store(1, Ordering::Relaxed);
    shared.synced_us.store(mono_us, Ordering::Relaxed);
    let (keeper, tasks) = Keeper::by_hand();
    let commit = Commit::Local(Local::by_hand(position, fsync));
    let journal = Journal::new(Arc::clone(&shared), keeper, commit);
    let (syncs, base, base_failure) = (VecDeque::new(), None, None);
    (journal, ByHand { shared, tasks, sync_us, base_us, syncs, base, base_failure })
}

impl ByHand {
    pub fn fail_bases(&mut self, cause: &str) {
        self.base_failure = Some(cause.to_owned());
    }

    pub fn fail(&mut self, cause: &str) {
        self.syncs.clear();
        self.shared.fail(cause);
    }

    /// Takes new work, and ends work that is over by `mono_us`.
    pub fn step(&mut self, mono_us: u64) {
        if self.shared.failure().is_some() {
            return;
        }
        self.write(mono_us);
        while let Some((began_us, index)) = self.syncs.front().copied()
            && began_us + self.sync_us <= mono_us
        {
            self.syncs.pop_front();
            self.shared.synced(mono_us, self.sync_us);
            self.shared.set_durable(index);
        }
        let out_since_us = self.syncs.front().map_or(0, |(began_us, _)| *began_us);
        self.shared.sync_began_us.store(out_since_us, Ordering::Relaxed);
        while let Some(task) = self.tasks.next() {
            match task {
                Task::BeginBase(head, _) => {
                    self.base = Some((head.index, 0, mono_us + self.base_us))
                }
                Task::Images(images) => {
                    self.base.iter_mut().for_each(|(_, bytes, _)| *bytes += images.len() as u64);
                }
                Task::AbandonBase => self.base = None,
                Task::MakeSpare => self.tasks.report(KeeperDone::Spare(Ok(()))),
                Task::FinishBase | Task::Stop => {}
            }
        }
        if let Some((index, bytes, ends_us)) = self.base
            && ends_us <= mono_us
        {
            self.base = None;
            self.tasks.report(match &self.base_failure {
                None => KeeperDone::Base(index, bytes),
                Some(cause) => KeeperDone::BaseFailed(io::Error::other(cause.clone())),
            });
            self.shared.notify();
        }
    }

    /// When something ends next; monotonic, µs.
    pub fn next_us(&self) -> Option<u64> {
        let sync_us = self.syncs.front().map(|(began_us, _)| began_us + self.sync_us);
        let base_us = self.base.map(|(_, _, ends_us)| ends_us);
        sync_us.into_iter().chain(base_us).min()
    }

    fn write(&mut self, mono_us: u64) {
        let mut work = self.shared.work();
        work.bytes = 0;
        let batches = std::mem::take(&mut work.batches);
        let drops = work.drop_before.take().is_some();
        drop(work);
        if drops {
            self.shared.dropped();
        }
        let Some(last) = batches.last() else { return };
        let bytes = batches.iter().map(|batch| span(batch.facts.len())).sum();
        self.shared.written_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.shared.capacity_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.shared.set_written(last.index);
        self.syncs.push_back((mono_us, last.index));
        let since_us = self.syncs.front().map_or(0, |(began_us, _)| *began_us);
        self.shared.unsynced_since_us.store(since_us, Ordering::Relaxed);
    }
}
