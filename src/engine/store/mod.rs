//! The durable state of a partition: what a replay of the facts gives back.
//!
//! Only this room changes its fields, and only two functions change durable state: [`Store::apply`] with a fact, and
//! [`Store::sweep_due`], which lets jobs fall due and returns the fact for it. (`offline.rs`, which sets back the clock
//! and voids tokens, is for operators while no engine runs.) Derived state, including the queues' wake-ups, memory
//! counts and the images of a base file, is kept here too, because it changes with it; so is [`Aside`], the notes
//! that decisions keep about a queue and that no fact restores.

pub(super) mod ages;
pub(super) mod apply;
mod digest;
pub mod errors;
pub(in crate::engine) mod groups;
pub(super) mod jobs;
pub(super) mod memory;
pub(in crate::engine) mod minutes;
mod offline;
pub(in crate::engine) mod pace;
mod placing;
mod prepare;
pub(super) mod purged;
pub(super) mod queue;
mod queues;
pub(super) mod ready;
mod remains;
pub(super) mod schedules;
pub(super) mod snapshot;
mod successor;
mod tidy;
mod view;

use std::collections::VecDeque;

use crate::engine::model::leading::Leading;
use crate::engine::model::policy::Policy;
use crate::engine::model::request::{JobState, Side};
use crate::engine::model::settings::Settings;
use crate::engine::store::ages::{Ages, Oldest};
use crate::engine::store::jobs::hash::{Hasher, wide};
use crate::engine::store::jobs::policies::Policies;
use crate::engine::store::jobs::{HISTORY_BYTES, JobIndex, JobStage, Jobs};
use crate::engine::store::memory::job_bytes;
use crate::engine::store::minutes::Minutes;
use crate::engine::store::queue::{Queue, number_at, place_of};
use crate::engine::store::queues::{Database, bound_in};
use crate::engine::store::remains::Graveyard;
use crate::engine::store::snapshot::Bases;
use crate::engine::store::tidy::Tidying;
use crate::ids::{DATABASES, PolicyNo, QueueNo, Token};
use crate::time::{Micros, Millis};
use crate::wheel::list::{Chunks, Place};
use crate::wheel::{Peek, Timers};
use smallvec::SmallVec;

#[derive(Debug)]
pub struct Store {
    jobs: Jobs,
    timers: Timers,
    /// The parts of ready orders and lists of dead letters.
    chunks: Chunks,
    policies: Policies,
    databases: [Database; DATABASES as usize],
    /// How many databases, from the first on, ever had a queue: per-turn work skips the 15 that are rarely used.
    used_databases: usize,
    hasher: Hasher,
    /// Bytes counted for jobs and queues: follows from what there is, not from how it came about.
    bytes: u64,
    /// Those of them that are counted for jobs.
    job_bytes: u64,
    /// Those of removed queues that had only totals and are not freed yet.
    leaving_bytes: u64,
    /// Bytes held for the id indexes of all queues, those included that are removed.
    index_bytes: usize,
    /// Returning memory of freed jobs. Volatile.
    tidying: Tidying,
    /// The greatest number used for a token or an id.
    number: u64,
    /// The leader, and the leases that could not be answered for meanwhile.
    leading: Leading,
    /// Removed queues that are not freed yet.
    graveyard: Graveyard,
    /// Removed queues that the running base file may still need.
    kept: Graveyard,
    bases: Bases,
    policy_image_bytes: u64,
    /// Queues bound so far.
    births: u64,
    /// Queues of which something was purged that is not freed yet, by number and birth; some may be
    /// removed.
    purging: VecDeque<(QueueNo, u64)>,
    /// To where wheels were passed at the latest. Volatile.
    passed: Millis,
    /// When the running leases began. Volatile.
    ages: Ages,
    /// What happened in the last day, as far as it is kept. No part of the state.
    minutes: Minutes,
}

/// Steps of a budget for freeing a queue, in addition to its jobs.
const GRAVE_STEPS: u32 = 8;

#[derive(Clone, Copy, Debug)]
pub struct Located {
    pub hash: u32,
    /// Its number; none if the id is free.
    pub index: Option<JobIndex>,
}

impl Located {
    /// No job is meant.
    pub const NOTHING: Located = Located { hash: 0, index: None };
}

/// Owned id bytes, while the job they belong to changes. Most ids fit without an allocation.
type IdBytes = SmallVec<[u8; 64]>;

impl Store {
    /// Nothing in it.
    pub fn new(settings: &Settings) -> Store {
        let hasher = Hasher::new(settings.hash_seed);
        let mut store = Store {
            jobs: Jobs::default(),
            timers: Timers::default(),
            chunks: Chunks::default(),
            policies: Policies::new(hasher.state()),
            databases: Default::default(),
            used_databases: 0,
            hasher,
            bytes: 0,
            job_bytes: 0,
            leaving_bytes: 0,
            index_bytes: 0,
            tidying: Tidying::new(settings.spare_bytes_min, settings.spare_quiet_ms),
            number: 0,
            leading: Leading::default(),
            graveyard: Graveyard::default(),
            kept: Graveyard::default(),
            bases: Bases::default(),
            policy_image_bytes: 0,
            births: 0,
            purging: VecDeque::new(),
            passed: Millis(0),
            ages: Ages::default(),
            minutes: Minutes::default(),
        };
        store.keep_minutes(settings.history_queues_max);
        store
    }

    pub fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    pub fn timers(&self) -> &Timers {
        &self.timers
    }

    /// The parts of ready orders and lists of dead letters.
    pub fn chunks(&self) -> &Chunks {
        &self.chunks
    }

    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// An unused policy to forget next, if more than `kept` are unused.
    pub fn forgettable_policy(&mut self, kept: usize) -> Option<PolicyNo> {
        self.policies.forgettable(kept)
    }

    /// Bytes counted for jobs and queues: follows from what there is, not from how it came about.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Those of them that give way when memory is short: of queues that have only totals, forgotten ones included until
    /// they are freed.
    pub fn giving_way_bytes(&self) -> u64 {
        self.spare_bytes() + self.leaving_bytes
    }

    /// The greatest number used for a token or an id.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The leader, and the stall that is not over.
    pub fn leading(&self) -> Leading {
        self.leading
    }

    /// Bytes that jobs take more once all have been delivered, with this many new ones; or, without exact counting, 0
    /// if they are not more than `enough`.
    pub fn lease_bytes_to_come(&self, enough: u64, new: u64) -> u64 {
        let most = self.jobs.count() as u64 + new;
        if most * HISTORY_BYTES as u64 <= enough {
            return 0;
        }
        let jobs = self.counts().iter().sum::<u64>() + new;
        // Removed jobs that are not freed yet may have some of them.
        jobs.saturating_sub(self.jobs.history_count() as u64) * HISTORY_BYTES as u64
    }

    /// Jobs by state, all queues.
    pub fn counts(&self) -> [u64; 4] {
        std::array::from_fn(|state| self.used().iter().map(|db| db.counts[state]).sum())
    }

    /// When the oldest running lease began.
    pub fn oldest_lease(&self) -> Oldest {
        match self.counts() {
            [_, _, 0, _] => Oldest::None,
            _ => self.ages.oldest(),
        }
    }

    /// Whether what is known of running leases is what there is of them.
    pub fn knows_its_leases(&self) -> bool {
        let [_, _, leased, _] = self.counts();
        self.has_removed() || self.ages.count() == leased
    }

    /// Visits the jobs and windows of a queue as [`Table::scan`] does.
    pub fn scan_jobs(
        &self,
        queue: &Queue,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(JobIndex),
    ) -> u64 {
        let hash_of = |index| wide(self.jobs.get(index).hash);
        queue.table.scan(cursor, count, hash_of, |index| {
            if !queue.has_purged(&self.jobs, index) {
                visit(index);
            }
        })
    }

    /// The same, as long as `visit` says so.
    pub fn scan_jobs_while(
        &self,
        queue: &Queue,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(JobIndex) -> bool,
    ) -> u64 {
        let hash_of = |index| wide(self.jobs.get(index).hash);
        queue.table.scan_while(cursor, count, hash_of, |index| {
            queue.has_purged(&self.jobs, index) || visit(index)
        })
    }

    /// How ids and names are hashed.
    pub fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    /// Looks an id up. Cost: one hash, three cache misses when it is there.
    pub fn locate(&self, queue: QueueNo, id: &[u8]) -> Located {
        let hash = self.hasher.id(id);
        Located { hash, index: self.locate_hashed(queue, hash, id) }
    }

    /// The same for an id with a known hash.
    fn locate_hashed(&self, queue: QueueNo, hash: u32, id: &[u8]) -> Option<JobIndex> {
        let of_queue = self.queue(queue);
        of_queue.table.find(wide(hash), |index| {
            let job = self.jobs.get(index);
            job.hash == hash && self.jobs.id(index) == id && !of_queue.has_purged(&self.jobs, index)
        })
    }

    /// The place of a job known by its number.
    pub fn located(&self, index: JobIndex) -> Located {
        Located { hash: self.jobs.get(index).hash, index: Some(index) }
    }

    pub fn id_of(&self, index: JobIndex) -> IdBytes {
        IdBytes::from_slice(self.jobs.id(index))
    }

    /// Whether this very lease is running.
    pub fn is_lease(&self, queue: QueueNo, index: JobIndex, token: Token) -> bool {
        // Tokens never repeat, so a number reused for another job is noticed; a queue that was
        // removed is unbound, or bound again without this job.
        let Some(queue) = self.bound_queue(queue) else { return false };
        self.jobs.find(index).is_some_and(|job| job.stage == JobStage::Leased)
            && self.jobs.history(index).is_some_and(|history| history.token == token.0)
            && self.is_indexed(queue, index)
    }

    /// The dead letter that has been one for the longest.
    pub fn oldest_dead(&self, queue: QueueNo) -> Option<JobIndex> {
        let queue = self.queue(queue);
        let dead = queue.count(JobState::Dead) > 0;
        dead.then(|| queue.dead.front(&self.chunks)).flatten().map(|(index, _)| index)
    }

    /// The dead letter behind one that was looked at before, and its place; the first if that one is not there any more.
    pub fn dead_behind(
        &self,
        queue: QueueNo,
        passed: Option<(JobIndex, i64)>,
    ) -> Option<(JobIndex, Place)> {
        let queue = self.queue(queue);
        let there = passed.filter(|(index, order)| {
            let job = self.jobs.find(*index);
            job.is_some_and(|job| job.stage == JobStage::Dead && job.order == *order)
                && self.is_indexed(queue, *index)
        });
        match there {
            Some((index, _)) => {
                let spot = Place::from_number(self.jobs.get(index).spot);
                self.chunks.next(spot.expect("a dead job has a place"))
            }
            None => queue.dead.front(&self.chunks),
        }
    }

    /// Whether the queue's index has the number.
    pub fn is_indexed(&self, queue: &Queue, index: JobIndex) -> bool {
        let hash = wide(self.jobs.get(index).hash);
        let found = queue.table.find(hash, |other| other == index);
        found.is_some() && !queue.has_purged(&self.jobs, index)
    }

    pub fn policy(&self, index: JobIndex) -> &Policy {
        self.policies.get(self.jobs.policy(index))
    }

    pub fn due(&self, index: JobIndex) -> Millis {
        let job = self.jobs.get(index);
        if let Some(history) = self.jobs.history_of(job) {
            return history.due;
        }
        let timer = self.timers.due(index);
        if job.stage == JobStage::Ready && self.timers.is_armed(index) {
            // The timer of a ready job is its expiry, which is its due time plus its TTL.
            return Millis(timer.0 - self.policies.get(job.policy()).ttl_ms);
        }
        timer
    }

    /// When a ready or delayed job expires, if it can.
    pub fn expiry(&self, index: JobIndex) -> Option<Millis> {
        let ttl_ms = self.policy(index).ttl_ms;
        if ttl_ms == 0 || self.jobs.history(index).is_some_and(|history| history.deliveries > 0) {
            return None;
        }
        Some(self.due(index).plus(ttl_ms))
    }

    /// The earliest due time among a queue's ready jobs; of those with a group the second. Jobs become ready in the order
    /// of their due times (except for pushes during a sweep, which soon leave), so the oldest is among those that entered
    /// first: at most forty.
    pub fn oldest_ready_due(&self, queue: &Queue) -> Option<Millis> {
        let plain = queue.ready.earliest(&self.chunks).map(|index| self.due(index));
        plain.chain(queue.ready.first_due()).min()
    }

    /// The earliest due time among a group's ready jobs.
    pub fn oldest_ready_due_of(&self, queue: &Queue, group: u32) -> Option<Millis> {
        queue.ready.earliest_of(group, &self.chunks).map(|index| self.due(index)).min()
    }

    /// The ready jobs of a queue from one end. Where groups share, those of all from the back are looked up first.
    pub fn ready<'s>(
        &'s self,
        queue: &'s Queue,
        from: Side,
    ) -> Box<dyn Iterator<Item = JobIndex> + 's> {
        let (jobs, chunks, front) = (&self.jobs, &self.chunks, queue.next_side());
        let stint = |group| queue.stint(group);
        if from == front || !queue.ready.is_shared() {
            return queue.ready.iter(from, jobs, chunks, stint);
        }
        let all: Vec<JobIndex> = queue.ready.iter(front, jobs, chunks, stint).collect();
        Box::new(all.into_iter().rev())
    }

    /// The first timer of a queue that is due in the wheel of `stage`, and one step more for what it leads to.
    pub fn peek_due(
        &mut self,
        number: QueueNo,
        stage: JobStage,
        now: Millis,
        steps: &mut u32,
    ) -> Peek {
        self.passed = self.passed.max(now);
        let (queue, _, timers, _) = self.parts(number);
        let peek = queue.wheel(stage).peek(timers, now, steps);
        match (peek, steps.checked_sub(1)) {
            (Peek::Due(_), None) => return Peek::More,
            (Peek::Due(_), Some(left)) => *steps = left,
            _ => {}
        }
        peek
    }

    /// To where wheels were passed at the latest.
    pub fn passed(&self) -> Millis {
        self.passed
    }

    /// Opens slots of a queue's delayed jobs ahead of their time; true when that is done.
    pub fn open_next(&mut self, number: QueueNo, steps: &mut u32) -> bool {
        let (queue, _, timers, _) = self.parts(number);
        queue.delayed.open_next(timers, steps)
    }

    /// Whether removed queues or purged jobs are still to be freed.
    pub fn has_graves(&self) -> bool {
        !self.graveyard.is_empty() || !self.purging.is_empty()
    }

    /// When to tidy memory: free removed jobs, or move the others closer together.
    pub fn next_tidying(&self) -> Option<Millis> {
        if self.has_graves() { Some(Millis(0)) } else { self.next_moving() }
    }

    /// Whether jobs of removed queues are still there, those included that a base file may need.
    pub fn has_removed(&self) -> bool {
        self.has_graves() || self.keeps_removed()
    }

    /// Frees purged jobs and removed queues, about `budget` jobs; true when none is left but those that are kept for
    /// a base file.
    pub fn bury_slice(&mut self, budget: &mut u32) -> bool {
        if !self.free_purged(budget) || !self.graveyard.free_wakes(budget) {
            return false;
        }
        while let Some(mut queue) = self.graveyard.next() {
            let Store { policies, bytes, job_bytes, ages, timers, chunks, jobs, .. } = self;
            let mut freed = Freed { policies, bytes, job_bytes, ages };
            let free = |jobs: &mut Jobs, index| freed.free(jobs, index);
            if *budget == 0 || !queue.free_slice(timers, chunks, jobs, budget, free) {
                self.graveyard.put_first(queue);
                return false;
            }
            self.bytes -= queue.own_bytes();
            self.leaving_bytes -= queue.spare_bytes;
            self.index_bytes -= queue.table.bytes();
            *budget = budget.saturating_sub(GRAVE_STEPS);
        }
        true
    }

    /// Frees a job that is in no place any more.
    fn free_job(&mut self, index: JobIndex) {
        let Store { policies, bytes, job_bytes, ages, jobs, .. } = self;
        Freed { policies, bytes, job_bytes, ages }.free(jobs, index);
    }

    fn index_job(&mut self, queue: QueueNo, hash: u32, index: JobIndex) {
        let jobs = &self.jobs;
        let queue = bound_in(&mut self.databases, queue);
        let before = queue.table.bytes();
        queue.table.insert(wide(hash), index, |index| wide(jobs.get(index).hash));
        self.index_bytes = self.index_bytes + queue.table.bytes() - before;
    }

    fn unindex_job(&mut self, queue: QueueNo, index: JobIndex) {
        let jobs = &self.jobs;
        let queue = bound_in(&mut self.databases, queue);
        let hash = wide(jobs.get(index).hash);
        let before = queue.table.bytes();
        let removed = queue.table.remove(hash, index, |index| wide(jobs.get(index).hash));
        self.index_bytes = self.index_bytes + queue.table.bytes() - before;
        assert!(removed, "a job is found by its id");
    }

    /// The queue and the parts that its jobs are made of, to change together.
    fn parts(&mut self, queue: QueueNo) -> (&mut Queue, &mut Jobs, &mut Timers, &mut Chunks) {
        let queue = bound_in(&mut self.databases, queue);
        (queue, &mut self.jobs, &mut self.timers, &mut self.chunks)
    }
}

/// The parts of a freed job.
struct Freed<'a> {
    policies: &'a mut Policies,
    bytes: &'a mut u64,
    job_bytes: &'a mut u64,
    ages: &'a mut Ages,
}

impl Freed<'_> {
    fn free(&mut self, jobs: &mut Jobs, index: JobIndex) {
        let (job, history) = jobs.take(index);
        // A lease that was removed or purged counts for the age of the oldest one until here.
        if job.stage == JobStage::Leased {
            self.ages.end(history.as_ref().map_or(Micros(0), |history| history.begun));
        }
        let footprint = job_bytes(&job, history.as_ref());
        *self.bytes -= footprint;
        *self.job_bytes -= footprint;
        self.policies.release_of(&job, history.as_ref());
        jobs.discard(job);
    }
}
