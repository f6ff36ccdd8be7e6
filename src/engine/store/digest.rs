//! A digest of the durable state: equal live, after recovery and in a replica.

use std::hash::{Hash, Hasher};

use ahash::AHasher;

use crate::engine::model::meta::Meta;
use crate::engine::store::Store;
use crate::engine::store::jobs::{Content, JobIndex, JobStage, Successor};
use crate::engine::store::queue::Queue;
use crate::engine::store::schedules::{Schedule, Schedules};
use crate::ids::ScheduleNo;

/// Hashes with fixed keys, so that digests of two engines with different seeds compare.
fn hashed(value: impl Hash) -> u64 {
    let mut hasher = AHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

fn digest_schedules(schedules: &Schedules) -> u64 {
    let one = |schedule: &Schedule| {
        let said = (&schedule.name, &schedule.body, &schedule.definition);
        let timed = (schedule.anchor, schedule.after, schedule.next(), schedule.pause());
        let made = (schedule.last, schedule.made_at, schedule.offset_s);
        let rest = (schedule.changed, schedule.outcomes, &schedule.recent);
        hashed((schedule.number, said, timed, made, rest))
    };
    let sum = schedules.from(ScheduleNo(0)).map(one).fold(0, u64::wrapping_add);
    hashed((sum, schedules.made, schedules.missed))
}

impl Store {
    /// The digest. Jobs, places, policies, totals and names count; layout, budgets, waiters and the
    /// numbers of slabs do not. Cost: all jobs; for tests and for comparing machines.
    pub fn digest(&self) -> u64 {
        hashed((self.queues_digest(), self.number, self.leading))
    }

    /// That of the queues alone: where they are divided, the sum of the parts' is that of the whole.
    pub fn queues_digest(&self) -> u64 {
        // Sums, so that the order in which tables are walked does not matter.
        self.queues().map(|queue| self.digest_queue(queue)).fold(0, u64::wrapping_add)
    }

    fn digest_queue(&self, queue: &Queue) -> u64 {
        // Purged jobs do not count, however much of them is freed.
        let jobs = &self.jobs;
        let there = queue.table.iter().filter(|index| !queue.has_purged(jobs, *index));
        let jobs = there.map(|index| self.digest_job(index)).fold(0, u64::wrapping_add);
        let named = (queue.db, &queue.name, queue.sequence, queue.last_place, queue.used);
        let counted = (queue.counts, queue.windows, queue.totals, &queue.lateness, queue.bytes);
        let own = (&queue.settings, queue.pauses, queue.first_place);
        let schedules = queue.schedules.as_deref().map_or(0, digest_schedules);
        let digest = hashed((jobs, named, counted, own, schedules));
        let set = queue.groups.iter().flat_map(|groups| groups.set());
        let digest = set.fold(digest, |digest, group| hashed((digest, group)));
        // Sums, as the kinds have no order.
        let digest = match queue.error_counts().map(hashed).fold(0, u64::wrapping_add) {
            0 => digest,
            errors => hashed((digest, errors)),
        };
        let paces = queue.groups.iter().flat_map(|groups| groups.paces());
        match paces.map(hashed).fold(0, u64::wrapping_add) {
            0 => digest,
            paces => hashed((digest, paces)),
        }
    }

    fn digest_job(&self, index: JobIndex) -> u64 {
        let (jobs, timers) = (&self.jobs, &self.timers);
        let job = jobs.get(index);
        let history = jobs.history(index).map(|history| {
            let counts = [history.attempt, history.deliveries, history.nacks, history.timeouts];
            let more =
                (history.lost, history.unanswered, history.bound, history.death(), history.armed);
            (history.token, history.due, counts, more, &history.errors)
        });
        // The order of a window is volatile: it is only compared with that of a purge.
        let order = if job.stage == JobStage::Window { 0 } else { job.order };
        let Content { id, group, meta, body } = jobs.content(index);
        let text = (id, body);
        let own = (text, job.added, order, job.priority, job.stage as u8);
        let armed = timers.is_armed(index).then(|| timers.due(index));
        let timed = (self.due(index), armed);
        let digest = hashed((own, timed, self.policy(index), history));
        // Nodes that know no META or no groups have the same of all other jobs.
        let digest = match meta {
            Meta::NONE => digest,
            meta => hashed((digest, meta)),
        };
        let digest = group.map_or(digest, |(_, name)| hashed((digest, name, "group")));
        let digest = match jobs.history(index).map_or(0, |history| history.rested) {
            0 => digest,
            rested => hashed((digest, rested)),
        };
        let successor = jobs.history(index).and_then(|history| history.successor.as_deref());
        successor.map_or(digest, |successor| {
            let Successor { priority, added, due, .. } = *successor;
            let policy = self.policies.find(successor.policy);
            let said = (&successor.group, successor.meta.get(), &successor.body);
            hashed((digest, policy, priority, added, due, said))
        })
    }
}
