//! Which records of the journal still tell of something that is there.
//!
//! A record (a fact of the log, an image of a base) is *live* while the job, the window, the queue or
//! the policy that it tells of is there, and *dead* once that is gone, or when a base covers it. Costs
//! about 60 bytes of memory a job, and nothing for what is gone.

use crate::engine::model::fact::{Fact, FactId};
use crate::engine::model::token;
use crate::engine::record::Image;
use crate::ids::{Db, PolicyNo, QueueNo};
use crate::time::Millis;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// How many records of which files tell of one thing. Nearly all stand in one file or two.
type Counts = SmallVec<[(u32, u32); 2]>;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The file that records are read from.
    file: u32,
    /// Records of each file.
    records: Vec<u64>,
    queues: HashMap<QueueNo, Standing>,
    policies: HashMap<PolicyNo, Counts>,
    /// Hashes ids: one that collides, at 10 million jobs once in 370,000 runs, makes one count wrong.
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Standing {
    db: Db,
    counts: Counts,
    jobs: HashMap<u64, Counts>,
}

impl Ledger {
    /// What is read from now on stands in this file, a number from 0.
    pub fn begin_file(&mut self, file: usize) {
        self.file = file as u32;
        self.records.resize(self.records.len().max(file + 1), 0);
    }

    /// Records that a newer base covers.
    pub fn covered(&mut self, count: u64) {
        self.records[self.file as usize] += count;
    }

    /// Records read from a file.
    pub fn records(&self, file: usize) -> u64 {
        self.records.get(file).copied().unwrap_or(0)
    }

    /// How many of them are live, by file. Cost: all jobs.
    pub fn live(&self) -> Vec<u64> {
        let mut live = vec![0; self.records.len()];
        let jobs = self.queues.values().flat_map(|queue| queue.jobs.values());
        let queues = self.queues.values().map(|queue| &queue.counts);
        for (file, count) in jobs.chain(queues).chain(self.policies.values()).flatten() {
            live[*file as usize] += u64::from(*count);
        }
        live
    }

    /// An image of the base.
    pub fn image(&mut self, image: &Image<'_>) {
        // The first ones and the last tell of nothing.
        let frame = matches!(
            image,
            Image::Begin { .. } | Image::Leading(_) | Image::Schedules { .. } | Image::End(_)
        );
        self.records[self.file as usize] += u64::from(!frame);
        match image {
            Image::Begin { .. } | Image::Leading(_) => {}
            Image::Schedules { .. } | Image::End(_) => {}
            Image::Schedule { queue, .. } | Image::ScheduleTotals { queue, .. } => {
                self.count_queue(*queue);
            }
            Image::Policy { number, .. } => self.count_policy(*number),
            Image::Queue(queue) => {
                self.bind(queue.number, queue.db);
                self.count_queue(queue.number);
            }
            Image::QueueMore(more) => self.count_queue(more.number),
            Image::Job(job) => self.count_job(job.queue, job.id),
            Image::Window { queue, id, .. } => self.count_job(*queue, id),
        }
    }

    /// A fact of the log.
    pub fn fact(&mut self, fact: &Fact<'_>) {
        self.records[self.file as usize] += 1;
        match *fact {
            Fact::QueueBound { queue, db, .. } => {
                self.bind(queue, db);
                self.count_queue(queue);
            }
            Fact::Purged { queue, count, .. } => self.purge(queue, count),
            Fact::Renamed { queue, over, .. } => {
                over.map(|over| self.queues.remove(&over));
                self.count_queue(queue);
            }
            Fact::QueueRemoved { queue } | Fact::QueueForgotten { queue } => {
                self.queues.remove(&queue);
            }
            Fact::PolicyBound { number, .. } => self.count_policy(number),
            Fact::PolicyForgotten { number } => {
                self.policies.remove(&number);
            }
            Fact::Flushed { db } => {
                self.queues.retain(|_, queue| db.is_some_and(|db| db != queue.db))
            }
            Fact::Added { queue, id: FactId::Given(id), .. } => self.begin(queue, id),
            Fact::Added { queue, id: FactId::Made(number), .. } => {
                self.begin(queue, &token::written(number));
            }
            Fact::Unpopped { queue, ref image } => self.begin(queue, image.id),
            Fact::Popped { queue, id, window_end, .. }
            | Fact::Acked { queue, id, window_end }
            | Fact::Expired { queue, id, window_end } => self.end(queue, id, window_end),
            Fact::Deleted { queue, id }
            | Fact::Dropped { queue, id }
            | Fact::WindowOver { queue, id } => self.end(queue, id, Millis(0)),
            // A job goes on, or the queue is about to have something else beside its jobs.
            _ => match (fact.subject(), fact.queue()) {
                (Some((queue, id)), _) => self.count_job(queue, id),
                (None, queue) => queue.into_iter().for_each(|queue| self.count_queue(queue)),
            },
        }
    }

    /// Which jobs are in which state is not known here: unless all are gone, those that were purged
    /// count as live until a base covers them.
    fn purge(&mut self, queue: QueueNo, count: u64) {
        self.count_queue(queue);
        if let Some(queue) = self.queues.get_mut(&queue)
            && queue.jobs.len() as u64 <= count
        {
            queue.jobs.clear();
        }
    }

    fn bind(&mut self, queue: QueueNo, db: Db) {
        self.queues.insert(queue, Standing { db, ..Standing::default() });
    }

    fn count_queue(&mut self, queue: QueueNo) {
        add(&mut self.queues.entry(queue).or_default().counts, self.file);
    }

    fn count_policy(&mut self, policy: PolicyNo) {
        add(self.policies.entry(policy).or_default(), self.file);
    }

    /// Something is told of a job, or a window, that is there.
    fn count_job(&mut self, queue: QueueNo, id: &[u8]) {
        let hash = self.hasher.hash_one(id);
        let jobs = &mut self.queues.entry(queue).or_default().jobs;
        add(jobs.entry(hash).or_default(), self.file);
    }

    /// A job begins; what was told of the id before tells of nothing any more.
    fn begin(&mut self, queue: QueueNo, id: &[u8]) {
        let hash = self.hasher.hash_one(id);
        let jobs = &mut self.queues.entry(queue).or_default().jobs;
        jobs.insert(hash, SmallVec::from_slice(&[(self.file, 1)]));
    }

    /// A job is gone; its id stays taken until `window_end`, if that is not 0.
    fn end(&mut self, queue: QueueNo, id: &[u8], window_end: Millis) {
        if window_end != Millis(0) {
            return self.count_job(queue, id);
        }
        let hash = self.hasher.hash_one(id);
        if let Some(queue) = self.queues.get_mut(&queue) {
            queue.jobs.remove(&hash);
        }
    }
}

fn add(counts: &mut Counts, file: u32) {
    match counts.iter_mut().find(|(of, _)| *of == file) {
        Some((_, count)) => *count += 1,
        None => counts.push((file, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::model::policy::{Backoff, Policy};

    #[test]
    fn what_is_gone_is_dead_in_every_file_that_told_of_it() {
        let (queue, policy) = (QueueNo(3), PolicyNo(1));
        let added = |id| Fact::Added {
            queue,
            id,
            policy,
            priority: 0,
            absolute: false,
            ready: true,
            left: false,
            due: Millis(1),
            body: b"",
        };
        let leased = |id| Fact::Leased {
            queue,
            id,
            token: crate::ids::Token(1),
            lease_end: Millis(9),
            bound: false,
            on_time: false,
        };
        let of = Policy {
            attempts: 1,
            backoff: Backoff::default(),
            lease_ms: 0,
            ttl_ms: 0,
            unique_ms: 0,
        };
        let mut ledger = Ledger::default();
        ledger.begin_file(0);
        ledger.covered(5);
        ledger.fact(&Fact::QueueBound { queue, db: Db(2), name: b"q" });
        ledger.fact(&Fact::PolicyBound { number: policy, policy: of });
        ledger.fact(&added(FactId::Given(b"a")));
        ledger.fact(&added(FactId::Made(7)));
        assert_eq!((ledger.records(0), ledger.live()), (9, vec![4]));
        ledger.begin_file(1);
        ledger.fact(&leased(b"a"));
        ledger.fact(&leased(&token::written(7)));
        assert_eq!(ledger.live(), [4, 2]);
        ledger.fact(&Fact::Acked { queue, id: b"a", window_end: Millis(0) });
        assert_eq!(
            ledger.live(),
            [3, 1],
            "all of the job that is gone, and the fact that ended it"
        );
        let id = &token::written(7);
        ledger.fact(&Fact::Acked { queue, id, window_end: Millis(8) });
        assert_eq!(ledger.live(), [3, 2], "the id is still taken");
        ledger.fact(&Fact::Flushed { db: Some(Db(1)) });
        assert_eq!(ledger.live(), [3, 2]);
        ledger.fact(&Fact::Flushed { db: Some(Db(2)) });
        assert_eq!(ledger.live(), [1, 0], "the policy");
        ledger.fact(&Fact::PolicyForgotten { number: policy });
        assert_eq!((ledger.records(1), ledger.live()), (7, vec![0, 0]));
    }
}
