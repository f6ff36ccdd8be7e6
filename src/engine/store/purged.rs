//! Purged jobs that are not freed yet: all jobs of a queue in some states are removed at once, with one fact; their
//! memory is freed in slices.
//!
//! The wheels, orders and lists that hold the jobs are moved into a *part* as they are, in O(1), and the queue
//! continues with empty ones. Until a part is freed its jobs are still in the id index, next to new ones of the same
//! ids, and their timers in the wheel of expiries and retentions. *Floors* tell them from the others:
//!
//! ```text
//! delayed, dead   the sequence in which they were armed or died is below the floor
//! leased          the sequence in which the lease was armed is below the floor
//! ready           the place is one that had been given, and not that of a job which came back since
//! windows         the sequence at which they began is below the floor
//! ```
//!
//! A floor holds for ever, as sequences and places only grow, so those of several purges are one: the
//! newest. They are asked for only while a queue has parts.
//!
//! A base file that began before a purge still needs its jobs: each is written when the walk comes to
//! it, or when it is freed. One that begins later passes over them.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::engine::model::request::{JobState, Purge};
use crate::engine::store::Store;
use crate::engine::store::jobs::hash::wide;
use crate::engine::store::jobs::{JobIndex, JobStage, Jobs};
use crate::engine::store::memory::Footprint;
use crate::engine::store::queue::Queue;
use crate::engine::store::ready::ReadyOrder;
use crate::ids::QueueNo;
use crate::time::{Micros, Millis};
use crate::wheel::list::{Chunks, List};
use crate::wheel::{Timers, Wheel};

/// Entries of the id index looked at in one step for windows.
const WINDOWS_STEP: u32 = 64;

/// In the order of [`State::ALL`].
const STAGES: [JobStage; 4] =
    [JobStage::Delayed, JobStage::Ready, JobStage::Leased, JobStage::Dead];

/// Purged jobs of a queue that are not freed yet.
#[derive(Default, Debug)]
pub struct Purging {
    floors: Floors,
    /// The floors as they were when the base file with number `base` was begun.
    floors_before: Floors,
    base: u32,
    parts: VecDeque<PurgedPart>,
}

/// Below these, jobs are purged.
#[derive(Clone, Copy, Default, Debug)]
pub struct Floors {
    delayed: i64,
    leased: i64,
    dead: i64,
    windows: i64,
    ready: Option<(i64, i64)>,
}

#[derive(Default, Debug)]
struct PurgedPart {
    delayed: Wheel,
    leases: Wheel,
    ready: ReadyOrder,
    dead: List,
    /// How far the id index has been looked through for windows, if they were purged.
    windows: Option<u64>,
    /// The base file that was being written; 0 for none.
    base: u32,
}

impl Floors {
    fn cover(&self, jobs: &Jobs, index: JobIndex) -> bool {
        let job = jobs.get(index);
        match job.stage {
            JobStage::Delayed => job.order < self.delayed,
            JobStage::Dead => job.order < self.dead,
            JobStage::Window => job.order < self.windows,
            JobStage::Ready => self.ready.is_some_and(|(lo, hi)| (lo..=hi).contains(&job.order)),
            JobStage::Leased => {
                jobs.history(index).is_some_and(|history| history.armed < self.leased)
            }
            JobStage::Vacant => false,
        }
    }
}

impl Queue {
    /// Frees up to `budget` jobs of a removed queue; true when none is left. `free` is called once for each job.
    pub(super) fn free_slice(
        &mut self,
        timers: &mut Timers,
        chunks: &mut Chunks,
        jobs: &mut Jobs,
        budget: &mut u32,
        mut free: impl FnMut(&mut Jobs, JobIndex),
    ) -> bool {
        if !self.schedules.as_deref_mut().is_none_or(|schedules| schedules.drop_slice(budget)) {
            return false;
        }
        // Windows stand in this wheel alone; ready and dead jobs are freed where they stand in order.
        let done = self.ends.clear_slice(timers, budget, |index| {
            if jobs.get(index).stage == JobStage::Window {
                free(jobs, index);
            }
        });
        if !done {
            return false;
        }
        let purging = self.purging.get_or_insert_default();
        // The rest goes as if it were purged now.
        if std::mem::take(&mut self.jobs) > 0 {
            let (delayed, leases) = (self.delayed.take_all(), self.leases.take_all());
            let (ready, dead) = (self.ready.take_all(), std::mem::take(&mut self.dead));
            purging.parts.push_back(PurgedPart {
                delayed,
                leases,
                ready,
                dead,
                ..PurgedPart::default()
            });
        }
        while let Some(part) = purging.parts.front_mut() {
            loop {
                let batch = part.take_batch(timers, chunks, jobs, *budget);
                if batch.is_empty() {
                    break;
                }
                *budget -= batch.len() as u32;
                batch.into_iter().for_each(|index| free(jobs, index));
            }
            if *budget == 0 {
                return false;
            }
            purging.parts.pop_front();
        }
        self.groups.as_deref_mut().is_none_or(|groups| groups.drop_slice(budget))
    }
}

impl PurgedPart {
    /// Takes out some jobs, at most `max`; none when none is left but windows.
    fn take_batch(
        &mut self,
        timers: &mut Timers,
        chunks: &mut Chunks,
        jobs: &mut Jobs,
        max: u32,
    ) -> SmallVec<[JobIndex; 32]> {
        let mut batch = SmallVec::new();
        let mut few = max.min(32);
        self.delayed.clear_slice(timers, &mut few, |index| batch.push(index));
        self.leases.clear_slice(timers, &mut few, |index| batch.push(index));
        while few > 0 {
            let next = self.dead.pop_front(chunks).or_else(|| {
                let index = self.ready.any(jobs, chunks)?;
                self.ready.remove(jobs, chunks, index);
                Some(index)
            });
            let Some(index) = next else { break };
            batch.push(index);
            few -= 1;
        }
        batch
    }
}

impl Queue {
    #[inline]
    pub fn has_purged(&self, jobs: &Jobs, index: JobIndex) -> bool {
        let Some(purging) = &self.purging else { return false };
        purging.floors.cover(jobs, index) && !self.ready.has_returned(jobs, index)
    }

    /// Whether it was purged before the base file with number `base`, which is being written, was
    /// begun.
    pub(super) fn purged_before(&self, jobs: &Jobs, index: JobIndex, base: u32) -> bool {
        let Some(purging) = &self.purging else { return false };
        let floors = if purging.base == base { &purging.floors_before } else { &purging.floors };
        // One that came back after that purge may have been purged again by a later one.
        let later = purging.parts.iter().filter(|part| part.base == base);
        floors.cover(jobs, index)
            && !self.ready.has_returned(jobs, index)
            && !later.into_iter().any(|part| part.ready.has_returned(jobs, index))
    }

    /// How many purges are not freed yet.
    pub(in crate::engine) fn purges(&self) -> usize {
        self.purging.as_ref().map_or(0, |purging| purging.parts.len())
    }
}

impl Store {
    /// Above all jobs that are there now, wherever they stand.
    pub fn floors(&self, number: QueueNo) -> Floors {
        let queue = self.queue(number);
        let (floor, places) = (queue.sequence, (queue.first_place, queue.last_place));
        Floors { delayed: floor, leased: floor, dead: floor, windows: floor, ready: Some(places) }
    }

    /// Whether a job was there at this instant, when these were the floors. One that was added in the same ms is told by
    /// where it stands; one that has fallen due since was delayed then.
    pub fn was_there(&self, index: JobIndex, at: Millis, floors: &Floors) -> bool {
        let job = self.jobs.get(index);
        let placed = matches!(job.stage, JobStage::Ready | JobStage::Leased);
        let stood = || floors.cover(&self.jobs, index) || placed && self.due(index) > at;
        job.added < at || job.added == at && stood()
    }

    /// Whether a job stands where it stood when these were the floors; one that a consumer has given back does again.
    pub fn stands_as_then(&self, index: JobIndex, floors: &Floors) -> bool {
        floors.cover(&self.jobs, index)
    }

    /// Removes all jobs of some states at once; returns how many.
    pub(super) fn purge(&mut self, number: QueueNo, purge: Purge, now: Micros) -> u64 {
        let base = if self.bases.is_running() { self.bases.number() } else { 0 };
        let (queue, ..) = self.parts(number);
        // Windows that began at the last sequence are below the floor, too.
        queue.sequence += 1;
        let (floor, places) = (queue.sequence, (queue.first_place, queue.last_place));
        let (first, born) = (queue.purging.is_none(), queue.born);
        let purging = queue.purging.get_or_insert_default();
        if base != 0 && purging.base != base {
            (purging.base, purging.floors_before) = (base, purging.floors);
        }
        let (floors, mut part) =
            (&mut purging.floors, PurgedPart { base, ..PurgedPart::default() });
        let [delayed, ready, leased, dead] = purge.states;
        if delayed {
            (part.delayed, floors.delayed) = (queue.delayed.take_all(), floor);
        }
        if ready {
            (part.ready, floors.ready) = (queue.ready.take_all(), Some(places));
        }
        if leased {
            (part.leases, floors.leased) = (queue.leases.take_all(), floor);
        }
        if dead {
            (part.dead, floors.dead) = (std::mem::take(&mut queue.dead), floor);
        }
        if purge.windows && queue.windows > 0 {
            (part.windows, floors.windows) = (Some(0), floor);
        }
        purging.parts.push_back(part);
        if first {
            self.purging.push_back((number, born));
        }
        self.uncount(number, purge, now)
    }

    /// Purged jobs are no longer counted, except for the memory that they still use.
    fn uncount(&mut self, number: QueueNo, purge: Purge, now: Micros) -> u64 {
        let queue = self.queue_mut(number);
        let (existed, mut counts, mut gone) = (queue.exists(), [0; 4], Footprint::default());
        for (at, stage) in STAGES.into_iter().enumerate() {
            if purge.states[at] {
                counts[at] = std::mem::take(&mut queue.counts[at]);
                gone.add(std::mem::take(queue.footprints.of(stage)));
            }
        }
        if purge.windows {
            queue.windows = 0;
            gone.add(std::mem::take(queue.footprints.of(JobStage::Window)));
        }
        let removed: u64 = counts.iter().sum();
        queue.jobs -= removed;
        queue.totals.deleted += removed;
        queue.bytes -= gone.bytes;
        queue.image_bytes -= gone.image_bytes;
        let (exists, db) = (queue.exists(), queue.db);
        let database = self.database_mut(db);
        database.image_bytes -= gone.image_bytes;
        database.existing -= u64::from(existed && !exists);
        database.counts.iter_mut().zip(counts).for_each(|(left, gone)| *left -= gone);
        self.recount_spare(number);
        if purge.states[JobState::Dead as usize] {
            self.uncount_all_dead(number);
        }
        self.purge_groups(number, purge.states, now);
        removed
    }

    /// Frees about `budget` purged jobs; true when none is left.
    pub(super) fn free_purged(&mut self, budget: &mut u32) -> bool {
        while let Some(&(number, born)) = self.purging.front() {
            let found = self.bound_queue(number).filter(|queue| queue.born == born);
            // A queue that was removed meanwhile is freed with all it had.
            if found.is_none_or(|queue| queue.purging.is_none()) {
                self.purging.pop_front();
                continue;
            }
            if *budget == 0 {
                return false;
            }
            self.free_parts(number, budget);
        }
        true
    }

    fn free_parts(&mut self, number: QueueNo, budget: &mut u32) {
        let Some(mut purging) = self.queue_mut(number).purging.take() else { return };
        while let Some(mut part) = purging.parts.pop_front() {
            if !self.free_part(number, &mut part, &purging.floors, budget) {
                purging.parts.push_front(part);
                self.queue_mut(number).purging = Some(purging);
                return;
            }
        }
    }

    fn free_part(
        &mut self,
        number: QueueNo,
        part: &mut PurgedPart,
        floors: &Floors,
        budget: &mut u32,
    ) -> bool {
        while *budget > 0 {
            let mut batch =
                part.take_batch(&mut self.timers, &mut self.chunks, &mut self.jobs, *budget);
            let mut steps = batch.len() as u32;
            if batch.is_empty() {
                let Some(cursor) = part.windows else { return true };
                steps = WINDOWS_STEP;
                let (jobs, queue) = (&self.jobs, self.queue(number));
                let hash_of = |index| wide(jobs.get(index).hash);
                let next = queue.table.scan(cursor, steps as usize, hash_of, |index| {
                    let window = jobs.get(index).stage == JobStage::Window;
                    if window && floors.cover(jobs, index) {
                        batch.push(index);
                    }
                });
                part.windows = (next != 0).then_some(next);
            }
            *budget = budget.saturating_sub(steps);
            let needed = part.base != 0 && part.base == self.bases.number();
            batch.into_iter().for_each(|index| self.free_one(number, index, needed));
        }
        false
    }

    /// Frees a purged job or window, which a base file may still need.
    fn free_one(&mut self, number: QueueNo, index: JobIndex, needed: bool) {
        if needed && self.bases.is_running() {
            self.image_job(number, index);
        }
        let (queue, _, timers, _) = self.parts(number);
        if timers.is_armed(index) {
            queue.ends.cancel(timers, index);
        }
        let group = self.jobs.group(index);
        self.unindex_job(number, index);
        self.free_job(index);
        self.leave_group(number, group);
    }

    /// The expiry, retention or window's end of something purged has come before it was freed.
    pub(in crate::engine) fn pass_purged(&mut self, number: QueueNo, index: JobIndex) {
        let base = self.bases.number();
        let running = self.bases.is_running();
        let needed = running && !self.queue(number).purged_before(&self.jobs, index, base);
        if self.jobs.get(index).stage == JobStage::Window {
            return self.free_one(number, index, needed);
        }
        // Its due time goes with its timer.
        if needed {
            self.image_job(number, index);
        }
        let (queue, _, timers, _) = self.parts(number);
        queue.ends.cancel(timers, index);
    }
}
