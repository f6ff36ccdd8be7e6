//! Jobs that follow leased ones (LATEST), and since when a change waits (MAXDELAY).

use delayd::engine::model::fact::Fact;
use delayd::engine::model::policy::Policy;
use delayd::engine::model::request::{Add, JobState, When};
use delayd::ids::{PolicyNo, QueueNo};

use crate::simulation::auditor::Check;
use crate::simulation::model::{ModelJob, QueueKey};
use crate::simulation::trace::{Kept, Said, keep};

/// When the first of those was added that a job stands for, if nobody was given any.
pub fn waits_since(job: &ModelJob) -> Option<u64> {
    match job.state {
        JobState::Delayed | JobState::Ready if job.deliveries == 0 => Some(job.added),
        JobState::Leased => job.next.as_ref().map(|next| next.added),
        _ => None,
    }
}

impl Check<'_> {
    /// The policy that the job of an ADD must have.
    pub fn check_terms(
        &mut self,
        key: QueueKey,
        add: &Add<'static>,
        policy: PolicyNo,
        priority: u8,
    ) -> Policy {
        let set = self.settings_of(key);
        let wanted = Policy {
            attempts: add.attempts.or(set.attempts).unwrap_or(20),
            backoff: add.backoff.clone().or(set.backoff).unwrap_or_default(),
            lease_ms: add.lease_ms.unwrap_or(0),
            ttl_ms: add.ttl_ms.or(set.ttl_ms).unwrap_or(0),
            unique_ms: add.unique_ms,
        };
        assert_eq!(self.model().policies.get(&policy.0), Some(&wanted), "the policy");
        assert_eq!(priority, add.priority.or(set.priority).unwrap_or(5));
        wanted
    }

    /// The place and the due time that a job with MAXDELAY keeps of the one that it replaces: that was ready, and it is due.
    pub fn place_kept(&self, add: &Add<'static>) -> Option<(i64, u64)> {
        self.since.and(self.was_ready).filter(|_| self.due_of_add(add) <= self.now().0)
    }

    /// The job of an ADD follows a leased one.
    pub fn successor_set(&mut self, key: QueueKey, fact: &Fact<'_>) {
        let Fact::SuccessorSet {
            id,
            policy,
            priority,
            absolute,
            added,
            due,
            body,
            group,
            meta,
            ..
        } = *fact
        else {
            unreachable!("called for one that follows");
        };
        let add = self.to_follow.take().expect("only a LATEST that succeeds, and once");
        assert_eq!((key, Some(id)), ((add.queue.db.0, add.queue.name), add.id));
        let (wanted, now) = (self.check_terms(key, add, policy, priority), self.now().0);
        assert_eq!((body, group, meta), (add.body, add.group, add.meta.get()));
        assert_eq!((due.0, absolute), (self.due_of_add(add), matches!(add.when, When::At(_))));
        assert_eq!(added.0, self.since.unwrap_or(now), "since when it counts");
        let (group, meta) = (keep(group.unwrap_or_default()), keep(meta.block()));
        let (id, serial) = (keep(id), self.model().serial());
        let (added, due) = (added.0, due.0);
        let job = ModelJob::new(id, add.body, serial, now, wanted);
        let next = ModelJob { group, meta, due, added, priority, ..job };
        let queue = self.model().queue(key);
        queue.used = now;
        let leader = queue.jobs.get_mut(id).expect("it follows one that is there");
        assert_eq!(leader.state, JobState::Leased, "it follows a lease");
        let before = leader.next.replace(Box::new(next));
        self.reply = Some(Said::Id(id));
        self.auditor.note(if before.is_some() { "another set to follow" } else { "set to follow" });
    }

    /// A lease goes on, and nothing follows it any more.
    pub fn remove_next(&mut self, key: QueueKey, id: Kept) {
        let now = self.now().0;
        let queue = self.model().queue(key);
        if queue.jobs.get_mut(id).and_then(|job| job.next.take()).is_some() {
            queue.used = now;
            let queue = QueueNo(queue.number);
            self.expected.push_back(Fact::SuccessorRemoved { queue, id });
            self.auditor.note("removed what follows");
        }
    }

    /// What follows a delivery that has ended otherwise than by ACK comes next. `early` is whether that is before groups
    /// open.
    pub fn note_delivery_over(&mut self, key: QueueKey, id: Kept, early: bool) {
        if self.model().job(key, id).is_some_and(|job| job.next.is_some()) {
            self.succeeding = Some((key, id, early));
        }
    }

    /// What follows must come, as the request has ended the delivery.
    pub fn expect_next(&mut self, key: QueueKey, id: Kept, acked: bool) {
        let wanted = self.told_next(key, id, acked);
        self.expected.push_back(wanted.clone());
        self.succeed(key, id, &wanted);
    }

    /// The fact that lets it follow. Whether it is ready at once is free while others are being swept: as it says.
    pub fn told_next(&mut self, key: QueueKey, id: Kept, acked: bool) -> Fact<'static> {
        let queue = QueueNo(self.model().queue(key).number);
        let mut facts = self.step.facts.iter().map(|fact| fact.expect("readable"));
        let told = facts.find_map(|fact| match fact {
            Fact::Succeeded { queue: of, id: told, ready, left, .. }
                if of == queue && told == id =>
            {
                Some((ready, left))
            }
            _ => None,
        });
        let (ready, left) = told.expect("what follows makes a fact");
        Fact::Succeeded { queue, id, acked, ready, left }
    }

    /// The job is gone, and what follows is there.
    pub fn succeed(&mut self, key: QueueKey, id: Kept, fact: &Fact<'static>) {
        let Fact::Succeeded { acked, ready, left, .. } = *fact else { unreachable!("it says so") };
        let (now, step, serial) = (self.now(), self.auditor.steps, self.model().serial());
        let queue = self.model().queue(key);
        let old = queue.take(id).expect("what is followed was there");
        let next = *old.next.expect("something follows");
        queue.totals.acked += u64::from(acked);
        queue.totals.deleted += u64::from(!acked);
        queue.totals.added += 1;
        queue.used = now.0;
        let due = next.due.max(now.0);
        self.place_new(key, ready, delayd::time::Millis(due));
        let queue = self.model().queue(key);
        assert_eq!(left, ready && queue.due_left(), "where it enters");
        let place = if ready { queue.give_place(left) } else { 0 };
        let state = if ready { JobState::Ready } else { JobState::Delayed };
        let job = ModelJob { birth: serial, state, due, sequence: serial, place, ..next };
        queue.put(ModelJob { ready_step: step, ..job });
        self.auditor.note(if acked { "followed after an ACK" } else { "followed after a failure" });
    }
}
