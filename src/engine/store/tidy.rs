//! Returning memory of freed jobs.
//!
//! Everything that jobs consist of is in blocks and pages of many: one is returned when nothing in it is in use, and
//! after a wave of jobs hardly any is empty. So jobs are moved together, in slices and in two separate passes, each
//! when a tenth of its memory could be returned:
//!
//! ```text
//! data      by number: ids and bodies to lower pages                                    (`Jobs::move_data`)
//! numbers   by queue:  jobs to lower numbers, and with them their timers, their histories, the chunks that
//!                      they stand in and the tables of the id index
//! ```
//!
//! One page or block of each kind is kept for the next although it holds none. Before a pass those go back: of
//! 150 sizes of ids and bodies they are 9 MiB, and jobs that were removed in the order in which they came leave
//! nothing else.
//!
//! They begin when hardly any job comes or goes any more, or after a while in any case: what a wave leaves is
//! used again by the next, and jobs that are taken in the order in which they came leave nothing. Near the limit
//! they begin at once.
//!
//! A job's number is known to the index of its queue, to its timer, to its list and to a base file that is being
//! written; all of them are updated. An unsent reply and a connection with BOUND leases know the numbers of leased
//! jobs, so these stay where they are.
//!
//! Memory that a pass could not return, because it moved hardly any job, does not begin the next
//! one.

use std::cell::Cell;

use crate::engine::store::jobs::hash::wide;
use crate::engine::store::jobs::{JOBS_PER_BLOCK, JobIndex, JobStage};
use crate::engine::store::{Store, bound_in, number_at};
use crate::ids::{DATABASES, QueueNo};
use crate::limits;
use crate::time::Millis;
use crate::wheel::Timers;
use crate::wheel::list::CHUNK_BYTES;

/// Bytes of the id index for a job at its necessary size.
const INDEX_BYTES: usize = 12;

/// A pass that moves no more than one in this many jobs is not repeated for the memory it left.
const WORTH_A_PASS: u64 = 64;

/// The passes.
#[derive(Debug)]
pub struct Tidying {
    data: Pass,
    numbers: Pass,
    at: At,
    /// The jobs of a part of an index, while they are moved.
    entries: Vec<JobIndex>,
    /// A job was refused for want of memory of which some could be given back.
    pressed: Cell<bool>,
    /// Bytes that are worth a pass.
    spare_bytes_min: usize,
    /// Since when a pass is wanted that has not begun.
    wait: Option<TidyWait>,
    /// How long jobs must be quiet before, ms.
    quiet_ms: u64,
}

/// For jobs to be left alone.
#[derive(Clone, Copy, Debug)]
struct TidyWait {
    since: Millis,
    /// When the jobs were counted, and how many there were.
    counted: Millis,
    jobs: usize,
}

#[derive(Debug, Default)]
struct Pass {
    running: bool,
    moved: u64,
    /// The bytes that the last pass could not return.
    left: usize,
}

/// How far the pass over queues has come.
#[derive(Clone, Copy, Debug, Default)]
struct At {
    db: usize,
    place: u32,
    /// Which binding of the number it was.
    born: u64,
    part: usize,
}

/// The bytes that could be returned, and the minimum that is worth a pass.
#[derive(Clone, Copy)]
struct Spare {
    spare: usize,
    enough: usize,
}

impl Pass {
    fn is_wanted(&self, spare: Spare) -> bool {
        self.running || spare.spare >= self.left.saturating_add(spare.enough)
    }

    /// Whether it would begin now.
    fn begins(&self, spare: Spare) -> bool {
        !self.running && self.is_wanted(spare)
    }

    /// Whether it is to go on.
    fn begin(&mut self, spare: Spare) -> bool {
        self.running = self.notices(spare);
        self.running
    }

    /// Whether it is wanted, where there is so much now.
    fn notices(&mut self, spare: Spare) -> bool {
        self.left = self.left.min(spare.spare);
        self.is_wanted(spare)
    }

    /// It has been through all of this many jobs. If it moved many of them and much memory is left, then more jobs were
    /// removed meanwhile.
    fn end(&mut self, jobs: usize, left: Spare) {
        let stuck = self.moved < jobs as u64 / WORTH_A_PASS;
        *self = Pass { running: false, moved: 0, left: if stuck { left.spare } else { 0 } };
    }
}

impl Tidying {
    /// Without any memory to return.
    pub fn new(spare_bytes_min: usize, quiet_ms: u64) -> Tidying {
        let (data, numbers, at) = (Pass::default(), Pass::default(), At::default());
        let (entries, pressed) = (Vec::new(), Cell::new(false));
        Tidying { data, numbers, at, entries, pressed, spare_bytes_min, wait: None, quiet_ms }
    }

    /// Whether nothing is waited for: a pass has begun, or memory is short.
    fn is_urgent(&self) -> bool {
        self.data.running || self.numbers.running || self.pressed.get()
    }

    /// Whether it is time for a wanted pass; there are this many jobs.
    fn is_time(&mut self, now: Millis, jobs: usize) -> bool {
        let wait = *self.wait.get_or_insert(TidyWait { since: now, counted: now, jobs });
        if now.0 < wait.counted.0.saturating_add(self.quiet_ms) {
            return false;
        }
        let quiet = wait.jobs.abs_diff(jobs) <= jobs / 64;
        let long = now.0 >= wait.since.0.saturating_add(limits::SPARE_MS_MAX);
        self.wait = Some(TidyWait { counted: now, jobs, ..wait });
        quiet || long
    }

    /// The minimum gain that is worth a pass.
    fn enough(&self, bytes: usize) -> usize {
        match self.pressed.get() {
            false => (bytes / 10).max(self.spare_bytes_min),
            true => (bytes / 32).max(self.spare_bytes_min / 2),
        }
    }
}

impl Store {
    /// Bytes held for jobs and queues: used ones, and those of freed jobs.
    pub fn held_bytes(&self) -> u64 {
        // The chunk that is counted for each group with several jobs is among those that are held.
        let chunks = self.several_groups() * CHUNK_BYTES as u64;
        let others = self.bytes - self.job_bytes - chunks + self.policies.spare_bytes() as u64;
        others + (self.jobs.data_bytes() + self.held_for_numbers()) as u64
    }

    fn held_for_numbers(&self) -> usize {
        self.jobs.job_bytes() + self.timers.bytes() + self.chunks.bytes() + self.index_bytes
    }

    fn spare_data(&self) -> Spare {
        let enough = self.tidying.enough(self.jobs.data_bytes());
        Spare { spare: self.jobs.spare_data_bytes(enough), enough }
    }

    fn spare_numbers(&self) -> Spare {
        let index = self.index_bytes.saturating_sub(self.jobs.count() * INDEX_BYTES);
        let spare =
            self.jobs.spare_job_bytes() + self.timers.spare_bytes() + self.chunks.spare_bytes();
        Spare { spare: spare + index, enough: self.tidying.enough(self.held_for_numbers()) }
    }

    /// When jobs must be moved closer together.
    pub fn next_moving(&self) -> Option<Millis> {
        if !self.is_sparse() {
            return None;
        }
        let Tidying { wait, quiet_ms, .. } = &self.tidying;
        let wait = wait.as_ref().filter(|_| !self.tidying.is_urgent());
        Some(wait.map_or(Millis(0), |wait| wait.counted.plus(*quiet_ms)))
    }

    fn is_sparse(&self) -> bool {
        self.tidying.data.is_wanted(self.spare_data())
            || self.tidying.numbers.is_wanted(self.spare_numbers())
    }

    /// A job was refused while there may be memory to be given back, or that is near: less of it is worth a pass.
    pub fn press(&self) {
        self.tidying.pressed.set(true);
    }

    /// Moves jobs closer together, if that is needed and it is time, at once without `now`; true when done.
    /// Without `leased` all that are leased keep their numbers.
    pub fn tidy(&mut self, now: Option<Millis>, budget: &mut u32, leased: bool) -> bool {
        if let Some(now) = now
            && self.is_to_wait(now)
        {
            self.forget_timers();
            return true;
        }
        self.tidying.wait = None;
        // Empty pages are returned without a pass: they may be all of it.
        let Tidying { data, numbers, .. } = &self.tidying;
        if data.begins(self.spare_data()) || numbers.begins(self.spare_numbers()) {
            self.close_empty();
        }
        let spare = self.spare_data();
        if self.tidying.data.begin(spare) {
            if !self.jobs.move_data(budget, &mut self.tidying.data.moved) {
                return false;
            }
            self.close_empty();
            let left = self.spare_data();
            self.tidying.data.end(self.jobs.count(), left);
        }
        let spare = self.spare_numbers();
        if self.tidying.numbers.begin(spare) {
            if !self.move_jobs(budget, leased) {
                return false;
            }
            self.close_empty();
            let left = self.spare_numbers();
            self.tidying.numbers.end(self.jobs.count(), left);
        }
        self.tidying.pressed.set(false);
        self.forget_timers();
        true
    }

    /// Whether no pass is to begin now, if none is wanted or jobs come and go.
    fn is_to_wait(&mut self, now: Millis) -> bool {
        if self.tidying.is_urgent() {
            return false;
        }
        let (data, numbers) = (self.spare_data(), self.spare_numbers());
        let Tidying { data: of_data, numbers: of_numbers, .. } = &mut self.tidying;
        // Both are asked: what a pass has left is no more than what there is now.
        if of_data.notices(data) | of_numbers.notices(numbers) {
            return !self.tidying.is_time(now, self.jobs.count());
        }
        self.tidying.wait = None;
        true
    }

    /// Gives back what is kept for the next of its kind and holds none, at most one page or block of each.
    fn close_empty(&mut self) {
        self.jobs.close_empty();
        self.timers.close_empty();
        self.chunks.close_empty();
    }

    /// Frees the cells of timers whose jobs are gone, together with their blocks.
    fn forget_timers(&mut self) {
        let (span, each) = (Timers::keys_per_block(), JOBS_PER_BLOCK as u32);
        while let Some(first) = self.jobs.next_closed() {
            let first = first - first % span;
            if (first..first + span).step_by(each as usize).all(|block| !self.jobs.is_open(block)) {
                self.timers.forget(first);
            }
        }
    }

    fn move_jobs(&mut self, budget: &mut u32, leased: bool) -> bool {
        let mut at = self.tidying.at;
        while at.db < usize::from(DATABASES) {
            let Some(place) = self.databases[at.db].queues.next_from(at.place) else {
                at = At { db: at.db + 1, ..At::default() };
                continue;
            };
            if *budget == 0 {
                self.tidying.at = at;
                return false;
            }
            let number = number_at(at.db, place);
            let queue = self.queue(number);
            let part = if (at.place, at.born) == (place, queue.born) { at.part } else { 0 };
            if part >= queue.table.parts() || queue.purging.is_some() {
                *budget -= 1;
                at = At { place: place + 1, ..At { db: at.db, ..At::default() } };
                continue;
            }
            at = At { place, born: queue.born, part: part + 1, ..at };
            let moved = self.move_part(number, part, leased);
            *budget = budget.saturating_sub(1 + moved);
        }
        self.tidying.at = At::default();
        true
    }

    /// Moves the jobs of a part of a queue's index. How many steps it took.
    fn move_part(&mut self, number: QueueNo, part: usize, leased: bool) -> u32 {
        let mut entries = std::mem::take(&mut self.tidying.entries);
        entries.clear();
        entries.extend(self.queue(number).table.part(part));
        let (asked, mut moved) = (entries.len() as u32, 0);
        for &index in &entries {
            let job = self.jobs.get(index);
            if job.stage == JobStage::Leased && !leased {
                continue;
            }
            let to = self.renumber(number, index).unwrap_or(index);
            moved += u32::from(to != index);
            self.move_around(number, to);
        }
        self.tidying.entries = entries;
        let jobs = &self.jobs;
        let queue = bound_in(&mut self.databases, number);
        let before = queue.table.bytes();
        queue.table.shrink_part(part, |index| wide(jobs.get(index).hash));
        let shrunk = before - queue.table.bytes();
        self.index_bytes -= shrunk;
        // A table that was made smaller is as much as a job moved for each 64 of its bytes.
        self.tidying.numbers.moved += u64::from(moved) + (shrunk / 64) as u64;
        asked / 4 + moved
    }

    /// Moves a job to a lower number, if that helps to close a block of them: the new one.
    fn renumber(&mut self, number: QueueNo, index: JobIndex) -> Option<JobIndex> {
        // A connection knows its BOUND leases by their numbers.
        if self.jobs.history(index).is_some_and(|history| history.bound) {
            return None;
        }
        let to = self.jobs.move_below(index)?;
        self.bases.rename(index, to);
        let (queue, jobs, timers, chunks) = self.parts(number);
        let job = jobs.get(to);
        queue.table.replace(wide(job.hash), index, to);
        queue.wheel(job.stage).rename(timers, index, to);
        match job.stage {
            JobStage::Ready => queue.ready.rename(jobs, chunks, index, to),
            JobStage::Dead => {
                let place = crate::wheel::list::Place::from_number(job.spot);
                chunks.set_key(place.expect("a dead job stands among the dead"), to);
            }
            _ => {}
        }
        Some(to)
    }

    /// Moves a job's additional data.
    fn move_around(&mut self, number: QueueNo, index: JobIndex) {
        let (queue, jobs, timers, chunks) = self.parts(number);
        jobs.move_history(index);
        timers.move_below(index);
        match jobs.get(index).stage {
            JobStage::Ready => queue.ready.move_below(jobs, chunks, index),
            JobStage::Dead => {
                let place = crate::wheel::list::Place::from_number(jobs.get(index).spot);
                let place = place.expect("a dead job stands among the dead");
                let placed = |key, place: crate::wheel::list::Place| {
                    jobs.get_mut(key).spot = place.number();
                };
                queue.dead.move_below(chunks, place, placed);
            }
            _ => {}
        }
    }
}
