//! A job enters a queue. What forbids it has been checked.

use crate::engine::model::fact::{Fact, FactId};
use crate::engine::model::policy::Policy;
use crate::engine::model::request::{Add, QueueName, Side, When};
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

    /// Adds a job. `hash` is that of the id if one is given.
    pub fn add_job(
        &mut self,
        add: &Add<'_>,
        hash: u32,
        queue: QueueNo,
        arrival: Arrival,
    ) -> JobIndex {
        let (due, ready) = match arrival {
            Arrival::Ready(side) => (self.now.floor(), Some(side)),
            Arrival::Delayed(due) => (due, None),
        };
        let policy = self.policy(add, queue);
        let settings = self.store.queue(queue).settings.as_deref();
        let priority = add.priority.or_else(|| settings.and_then(|settings| settings.priority));
        let id = match add.id {
            Some(id) => FactId::Given(id),
            None => FactId::Made(self.free_number(queue)),
        };
        let fact = Fact::Added {
            queue,
            id,
            policy,
            priority: priority.unwrap_or(limits::PRIORITY_DEFAULT),
            absolute: matches!(add.when, When::At(_)),
            ready: ready.is_some(),
            left: ready == Some(Side::Left),
            due,
            body: add.body,
        };
        let applied = self.commit(&fact, Located { hash, index: None });
        let index = applied.index.expect("an added job has a number");
        if ready.is_some() {
            let place = self.store.jobs().get(index).order;
            self.touch(queue, Some(place));
        }
        index
    }

    /// The number of the job's policy, bound now if it is new.
    fn policy(&mut self, add: &Add<'_>, queue: QueueNo) -> PolicyNo {
        let (mut attempts, mut backoff, mut ttl_ms) =
            (add.attempts, add.backoff.clone(), add.ttl_ms);
        if let Some(settings) = &self.store.queue(queue).settings {
            attempts = attempts.or(settings.attempts);
            backoff = backoff.or_else(|| settings.backoff.clone());
            ttl_ms = ttl_ms.or(settings.ttl_ms);
        }
        self.intern(Policy {
            attempts: attempts.unwrap_or(limits::ATTEMPTS_DEFAULT),
            backoff: backoff.unwrap_or_default(),
            lease_ms: add.lease_ms.unwrap_or(0),
            ttl_ms: ttl_ms.unwrap_or(0),
            unique_ms: add.unique_ms,
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
        // In growing steps: whoever chose a million ids in a row costs 20 look-ups, not a million.
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
            if let Some(number) = self.store.forgettable_policy() {
                self.commit(&Fact::PolicyForgotten { number }, Located::NOTHING);
            }
        }
        let number = self.store.policies().next_number();
        self.commit(&Fact::PolicyBound { number, policy }, Located::NOTHING);
        number
    }
}
