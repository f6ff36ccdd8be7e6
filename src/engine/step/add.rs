//! A job enters a queue. All checks have been made.

use crate::engine::model::fact::{Fact, FactId, Inherited};
use crate::engine::model::policy::Policy;
use crate::engine::model::request::{Add, QueueName, Side, When};
use crate::engine::model::schedule::JobOptions;
use crate::engine::model::token;
use crate::engine::step::Step;
use crate::engine::store::Located;
use crate::engine::store::jobs::JobIndex;
use crate::ids::{PolicyNo, QueueNo};
use crate::limits;
use crate::time::Millis;

/// How a new job begins.
#[derive(Clone, Copy)]
pub enum Arrival {
    /// Ready at once, at this end.
    Ready(Side),
    /// Ready at the place of a ready job with the same id, which it removes.
    InPlaceOf(JobIndex),
    /// Delayed until then.
    Delayed(Millis),
}

impl Step<'_, '_> {
    pub fn bind_queue(&mut self, name: QueueName<'_>) -> QueueNo {
        let QueueName { db, name } = name;
        let queue = self.store.next_queue_no(db);
        self.commit(&Fact::QueueBound { queue, db, name }, Located::NOTHING);
        self.store.aside_mut(queue).line = self.live.waiters.line(db, name);
        queue
    }

    /// Adds a job. `hash` is that of the id if one is given, `added` the time of the first job whose place it takes.
    pub fn add_job(
        &mut self,
        add: &Add<'_>,
        hash: u32,
        queue: QueueNo,
        arrival: Arrival,
        added: Option<Millis>,
    ) -> JobIndex {
        let (policy, priority) = self.terms(queue, add);
        let (due, ready, side, old) = match arrival {
            Arrival::Ready(side) => (self.now.floor(), true, side, None),
            // The age of the oldest ready job is read at the front, so jobs behind it must be due later: the due time
            // stays with the place. But a TTL begins with its job; counted from the old due time it could be over.
            Arrival::InPlaceOf(old) => {
                let has_ttl = self.store.policies().get(policy).ttl_ms > 0;
                let due = if has_ttl { self.now.floor() } else { self.store.due(old) };
                (due, true, Side::Right, Some(old))
            }
            Arrival::Delayed(due) => (due, false, Side::Right, None),
        };
        let place = old.map(|old| self.store.jobs().get(old).order);
        let id = match add.id {
            Some(id) => FactId::Given(id),
            None => FactId::Made(self.free_number(queue)),
        };
        let fact = Fact::Added {
            queue,
            id,
            policy,
            priority,
            absolute: matches!(add.when, When::At(_)),
            ready,
            left: side == Side::Left,
            due,
            body: add.body,
            inherited: added.map(|added| Inherited { added, place }),
            group: add.group,
            meta: add.meta.get(),
        };
        let applied = self.commit(&fact, Located { hash, index: old });
        let index = applied.index.expect("an added job has a number");
        if ready {
            let new = self.store.jobs().get(index).order;
            self.touch(queue, place.is_none().then_some(new));
        }
        index
    }

    /// The policy and the priority of a job that is added.
    pub fn terms(&mut self, queue: QueueNo, add: &Add<'_>) -> (PolicyNo, u8) {
        let Add { attempts, lease_ms, ttl_ms, .. } = *add;
        let backoff = add.backoff.clone();
        let options = JobOptions { priority: None, attempts, backoff, lease_ms, ttl_ms };
        (self.policy(queue, options, add.unique_ms), self.priority(queue, add.priority))
    }

    /// The priority of a new job that is asked for, else the queue's.
    pub fn priority(&self, queue: QueueNo, asked: Option<u8>) -> u8 {
        let settings = self.store.queue(queue).settings.as_deref();
        let own = || settings.and_then(|settings| settings.priority);
        asked.or_else(own).unwrap_or(limits::PRIORITY_DEFAULT)
    }

    /// The number of the policy of a new job, bound now if it is new: what is asked for, else the queue's.
    pub fn policy(&mut self, queue: QueueNo, options: JobOptions, unique_ms: u64) -> PolicyNo {
        let JobOptions { mut attempts, mut backoff, lease_ms, mut ttl_ms, .. } = options;
        if let Some(settings) = &self.store.queue(queue).settings {
            attempts = attempts.or(settings.attempts);
            backoff = backoff.or_else(|| settings.backoff.clone());
            ttl_ms = ttl_ms.or(settings.ttl_ms);
        }
        self.intern(Policy {
            attempts: attempts.unwrap_or(limits::ATTEMPTS_DEFAULT),
            backoff: backoff.unwrap_or_default(),
            lease_ms: lease_ms.unwrap_or(0),
            ttl_ms: ttl_ms.unwrap_or(0),
            unique_ms,
        })
    }

    /// The next number whose id is free in this queue. A client may have chosen an id that looks
    /// like ours.
    fn free_number(&self, queue: QueueNo) -> u64 {
        let store = &*self.store;
        let floor = store.number().max(self.live.settings.token_floor);
        if !store.queue(queue).generated_form {
            return floor + 1;
        }
        // In growing steps: a million consecutive ids chosen by a client cost 20 look-ups, not a
        // million.
        let (mut next, mut step) = (floor + 1, 1);
        while store.locate(queue, &token::written(next)).index.is_some() {
            next += step;
            step *= 2;
        }
        next
    }

    /// The number of a policy, bound now if it is new.
    pub fn intern(&mut self, policy: Policy) -> PolicyNo {
        if let Some(number) = self.store.policies().number(&policy, self.live.likely_policy) {
            self.live.likely_policy = number;
            return number;
        }
        // Two for one: the table of unused policies shrinks back however fast new ones come.
        for _ in 0..2 {
            if let Some(number) = self.store.forgettable_policy(limits::UNUSED_POLICIES_MAX) {
                self.commit(&Fact::PolicyForgotten { number }, Located::NOTHING);
            }
        }
        let number = self.store.policies().next_number();
        self.commit(&Fact::PolicyBound { number, policy }, Located::NOTHING);
        number
    }
}
