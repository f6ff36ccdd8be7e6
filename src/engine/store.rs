//! The durable state of a partition: what a replay of the facts gives back.
//!
//! Changed by [`Store::apply`] alone (`apply.rs`). What is derived from it (the queues' wake-ups,
//! memory counts) is kept here too, since it changes with it.

use std::collections::VecDeque;

use crate::engine::hash::{Hasher, wide};
use crate::engine::job::{History, Job, JobIndex, Jobs, Stage};
use crate::engine::policies::Policies;
use crate::engine::policy::Policy;
use crate::engine::queue::{Grave, NEVER, QUEUE_BYTES, Queue};
use crate::engine::table::Table;
use crate::ids::{DATABASES, Db, QueueNo};
use crate::time::Millis;
use crate::wheel::list::Chunks;
use crate::wheel::{Timers, Wheel};

/// Queues without a job whose totals are kept; beyond it the longest unused go before their time,
/// so that names used once do not fill the memory.
pub const IDLE_QUEUES_MAX: usize = 100_000;

/// See the module.
#[derive(Debug)]
pub struct Store {
    /// Jobs by number.
    pub jobs: Jobs,
    /// Their timers.
    pub timers: Timers,
    /// What ready orders and lists of dead letters are made of.
    pub chunks: Chunks,
    /// Interned policies.
    pub policies: Policies,
    queues: Vec<Option<Box<Queue>>>,
    free_queues: Vec<QueueNo>,
    /// Queue numbers by name, one table a database.
    names: [Table; DATABASES as usize],
    hasher: Hasher,
    /// One timer per queue, for its next wake-up.
    wakes: Timers,
    wake_wheel: Wheel,
    /// Bytes held for jobs and queues.
    pub bytes: u64,
    /// Queues that exist, by database.
    pub existing: [u64; DATABASES as usize],
    /// Jobs by state, all queues.
    pub counts: [u64; 4],
    /// The greatest number used for a token or an id.
    pub number: u64,
    /// Removed queues that are not freed yet.
    pub graves: VecDeque<Grave>,
    /// Queues in the order in which they lost their last job; some may have one again.
    pub idle: VecDeque<(QueueNo, Millis)>,
    /// Queues bound so far.
    births: u64,
}

/// Where a job was found.
#[derive(Clone, Copy, Debug)]
pub struct Located {
    /// The hash of its id.
    pub hash: u32,
    /// Its number; none if the id is free.
    pub index: Option<JobIndex>,
}

impl Store {
    /// Nothing in it.
    pub fn new(hash_seed: u64) -> Store {
        let hasher = Hasher::new(hash_seed);
        Store {
            jobs: Jobs::default(),
            timers: Timers::new(),
            chunks: Chunks::new(),
            policies: Policies::new(hasher.state()),
            queues: Vec::new(),
            free_queues: Vec::new(),
            names: Default::default(),
            hasher,
            wakes: Timers::new(),
            wake_wheel: Wheel::new(),
            bytes: 0,
            existing: [0; DATABASES as usize],
            counts: [0; 4],
            number: 0,
            graves: VecDeque::new(),
            idle: VecDeque::new(),
            births: 0,
        }
    }

    /// The number of the queue with this name.
    pub fn queue_no(&self, db: Db, name: &[u8]) -> Option<QueueNo> {
        let hash = self.hasher.name(name);
        let found = self.names[usize::from(db.0)].find(wide(hash), |number| {
            self.queues[number as usize].as_ref().is_some_and(|queue| *queue.name == *name)
        });
        found.map(QueueNo)
    }

    /// The queue behind a number that is bound.
    pub fn queue(&self, number: QueueNo) -> &Queue {
        self.queues[number.0 as usize].as_ref().expect("the queue's number is bound")
    }

    /// The queue behind a number that is bound, to change.
    pub fn queue_mut(&mut self, number: QueueNo) -> &mut Queue {
        self.queues[number.0 as usize].as_mut().expect("the queue's number is bound")
    }

    /// The queue behind a number, if it is bound.
    pub fn bound_queue(&self, number: QueueNo) -> Option<&Queue> {
        self.queues.get(number.0 as usize)?.as_deref()
    }

    /// All bound queues, in the order of their numbers.
    pub fn queues(&self) -> impl Iterator<Item = (QueueNo, &Queue)> {
        let numbered = (0..).zip(&self.queues);
        numbered.filter_map(|(number, queue)| Some((QueueNo(number), queue.as_deref()?)))
    }

    /// The number that the next new queue is to have.
    pub fn next_queue_no(&self) -> QueueNo {
        self.free_queues.last().copied().unwrap_or(QueueNo(self.queues.len() as u32))
    }

    /// Visits the numbers of queues of a database as [`Table::scan`] does.
    pub fn scan_queues<'s>(
        &'s self,
        db: Db,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(&'s Queue),
    ) -> u64 {
        let hash_of = |number| wide(self.hasher.name(&self.queue(QueueNo(number)).name));
        let names = &self.names[usize::from(db.0)];
        names.scan(cursor, count, hash_of, |number| visit(self.queue(QueueNo(number))))
    }

    /// Visits the jobs and windows of a queue as [`Table::scan`] does.
    pub fn scan_jobs(
        &self,
        queue: &Queue,
        cursor: u64,
        count: usize,
        visit: impl FnMut(JobIndex),
    ) -> u64 {
        queue.table.scan(cursor, count, |index| wide(self.jobs.get(index).hash), visit)
    }

    /// How ids and names are hashed.
    pub fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    /// Looks an id up. Cost: one hash, three cache misses when it is there.
    pub fn locate(&self, queue: QueueNo, id: &[u8]) -> Located {
        let hash = self.hasher.id(id);
        let index = self.queue(queue).table.find(wide(hash), |index| {
            let job = self.jobs.get(index);
            job.hash == hash && job.id() == id
        });
        Located { hash, index }
    }

    /// Whether the number stands in the queue's index.
    pub fn is_indexed(&self, queue: &Queue, index: JobIndex) -> bool {
        let hash = wide(self.jobs.get(index).hash);
        queue.table.find(hash, |other| other == index).is_some()
    }

    /// The job's policy.
    pub fn policy(&self, index: JobIndex) -> &Policy {
        self.policies.get(self.jobs.policy(index))
    }

    /// The job's due time.
    pub fn due(&self, index: JobIndex) -> Millis {
        if let Some(history) = self.jobs.history(index) {
            return history.due;
        }
        let timer = self.timers.due(index);
        let job = self.jobs.get(index);
        if job.stage == Stage::Ready && self.timers.is_armed(index) {
            // The timer of a ready job is its expiry, which is its due time plus its TTL.
            return Millis(timer.0 - self.policies.get(job.policy()).ttl_ms);
        }
        timer
    }

    /// When a ready or delayed job expires, if it can.
    pub fn expiry(&self, index: JobIndex) -> Option<Millis> {
        let ttl_ms = self.policy(index).ttl_ms;
        let delivered = self.jobs.history(index).is_some_and(|history| history.deliveries > 0);
        (ttl_ms > 0 && !delivered).then(|| self.due(index).plus(ttl_ms))
    }

    /// When the next queue has something to do.
    pub fn next_wakeup(&self) -> Option<Millis> {
        self.wake_wheel.next_wakeup(&self.wakes)
    }

    /// Takes a queue whose wake-up has come; none when there is none or the budget is used up.
    pub fn woken(&mut self, now: Millis, budget: &mut u32) -> Option<QueueNo> {
        match self.wake_wheel.peek(&mut self.wakes, now, budget) {
            crate::wheel::Peek::Due(number) => {
                self.wake_wheel.take(&mut self.wakes, number);
                Some(QueueNo(number))
            }
            _ => None,
        }
    }

    /// Sets the queue's next wake-up to what its wheels say, or to `or` if that is earlier.
    pub fn rearm(&mut self, number: QueueNo, or: Millis) {
        let queue = self.queue(number);
        let wheels = [&queue.delayed, &queue.leases, &queue.ends];
        let next = wheels.into_iter().filter_map(|wheel| wheel.next_wakeup(&self.timers)).min();
        self.set_wake(number, next.unwrap_or(NEVER).min(or));
    }

    /// Wakes the queue at `at` unless it wakes earlier anyway.
    pub fn wake_by(&mut self, number: QueueNo, at: Millis) {
        if at < self.queue(number).wake {
            self.set_wake(number, at);
        }
    }

    fn set_wake(&mut self, number: QueueNo, at: Millis) {
        if self.wakes.is_armed(number.0) {
            self.wake_wheel.cancel(&mut self.wakes, number.0);
        }
        self.queue_mut(number).wake = at;
        if at != NEVER {
            self.wake_wheel.insert(&mut self.wakes, number.0, at);
        }
    }

    pub(super) fn bind_queue(&mut self, number: QueueNo, db: Db, name: &[u8]) {
        if self.free_queues.last() == Some(&number) {
            self.free_queues.pop();
        } else {
            assert_eq!(number.0 as usize, self.queues.len(), "queue numbers are dense");
            self.queues.push(None);
        }
        let slot = &mut self.queues[number.0 as usize];
        assert!(slot.is_none(), "a queue's number is bound once");
        self.births += 1;
        *slot = Some(Box::new(Queue::new(db, name, self.births)));
        let hash = self.hasher.name(name);
        let names = &mut self.names[usize::from(db.0)];
        let (queues, hasher) = (&self.queues, &self.hasher);
        names.insert(wide(hash), number.0, |number| wide(name_hash(queues, hasher, number)));
        self.bytes += QUEUE_BYTES + name.len() as u64;
    }

    /// Takes the queue out at once; its jobs are freed later, and counted until then.
    pub(super) fn unbind_queue(&mut self, number: QueueNo) {
        self.set_wake(number, NEVER);
        let queue = self.queue(number);
        let (db, hash) = (usize::from(queue.db.0), self.hasher.name(&queue.name));
        let (existed, counts) = (queue.exists(), queue.counts);
        self.existing[db] -= u64::from(existed);
        for (all, own) in self.counts.iter_mut().zip(counts) {
            *all -= own;
        }
        let (queues, hasher) = (&self.queues, &self.hasher);
        let removed = self.names[db]
            .remove(wide(hash), number.0, |number| wide(name_hash(queues, hasher, number)));
        assert!(removed, "a bound queue is found by its name");
        let queue = self.queues[number.0 as usize].take().expect("the queue's number is bound");
        self.free_queues.push(number);
        self.graves.push_back(Grave(queue));
    }

    /// Frees removed queues, at most `budget` jobs; true when none is left.
    pub fn bury_slice(&mut self, budget: &mut u32) -> bool {
        while let Some(mut grave) = self.graves.pop_front() {
            let (policies, bytes) = (&mut self.policies, &mut self.bytes);
            let free = |jobs: &mut Jobs, index| {
                let (job, history) = jobs.take(index);
                *bytes -= job_bytes(&job, history.as_ref());
                policies.release(job.policy());
            };
            let (timers, chunks) = (&mut self.timers, &mut self.chunks);
            if !grave.free_slice(timers, chunks, &mut self.jobs, budget, free) {
                self.graves.push_front(grave);
                return false;
            }
            self.bytes -= QUEUE_BYTES + grave.0.name.len() as u64;
        }
        true
    }

    pub(super) fn index_job(&mut self, queue: QueueNo, hash: u32, index: JobIndex) {
        let (queues, jobs) = (&mut self.queues, &self.jobs);
        let queue = queues[queue.0 as usize].as_mut().expect("the queue's number is bound");
        queue.table.insert(wide(hash), index, |index| wide(jobs.get(index).hash));
    }

    pub(super) fn unindex_job(&mut self, queue: QueueNo, index: JobIndex) {
        let (queues, jobs) = (&mut self.queues, &self.jobs);
        let queue = queues[queue.0 as usize].as_mut().expect("the queue's number is bound");
        let hash = wide(jobs.get(index).hash);
        let removed = queue.table.remove(hash, index, |index| wide(jobs.get(index).hash));
        assert!(removed, "a job is found by its id");
    }

    /// The queue and the parts that its jobs are made of, to change together.
    pub(super) fn parts(
        &mut self,
        queue: QueueNo,
    ) -> (&mut Queue, &mut Jobs, &mut Timers, &mut Chunks) {
        let queue = self.queues[queue.0 as usize].as_mut().expect("the queue's number is bound");
        (queue, &mut self.jobs, &mut self.timers, &mut self.chunks)
    }
}

fn name_hash(queues: &[Option<Box<Queue>>], hasher: &Hasher, number: u32) -> u32 {
    let queue = queues[number as usize].as_ref().expect("a listed queue is bound");
    hasher.name(&queue.name)
}

/// Bytes counted for a job.
pub fn job_bytes(job: &Job, history: Option<&History>) -> u64 {
    use crate::engine::job::{HISTORY_BYTES, JOB_BYTES};
    let history = history.map_or(0, |history| {
        HISTORY_BYTES + history.error.as_ref().map_or(0, |error| error.len() + 16)
    });
    (job.data_bytes() + JOB_BYTES + history) as u64
}
