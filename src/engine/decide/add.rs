//! Adding jobs.

use crate::engine::model::fact::{Fact, FactId};
use crate::engine::model::policy::Policy;
use crate::engine::model::reply::Reply;
use crate::engine::model::request::{Add, Push, QueueName, Side, State, Taken, When};
use crate::engine::model::token;
use crate::engine::store::Located;
use crate::engine::store::jobs::bodies::stored_bytes;
use crate::engine::store::jobs::{JOB_BYTES, JobIndex, Stage};
use crate::engine::store::memory::text_bytes;
use crate::engine::store::queue::QUEUE_BYTES;
use crate::engine::{Engine, Outcome, Step, Turn};
use crate::error::{Error, Shown};
use crate::ids::{PolicyNo, QueueNo};
use crate::limits;
use crate::time::{Micros, Millis, Written};

/// Leases may take memory beyond the limit up to this part of it; what they could take beyond that is kept
/// back when jobs are added.
pub const LEASE_SHARE: u64 = 16;

/// How a new job begins.
#[derive(Clone, Copy)]
pub(in crate::engine) enum Arrival {
    /// Ready at once, at this end.
    Ready(Side),
    /// Delayed until then.
    Delayed(Millis),
}

impl Step<'_, '_> {
    pub(in crate::engine) fn add(&mut self, add: &Add<'_>) -> Outcome {
        match self.decide_add(add) {
            Ok(Some(index)) => {
                let id = self.engine.store.jobs.id(index);
                self.turn.outbox.reply(self.client, Reply::Id(id));
                Outcome::Replied
            }
            Ok(None) => self.reply(Reply::Nil),
            Err(error) => self.refuse(&error),
        }
    }

    /// The new job; none if NX kept the old one.
    fn decide_add(&mut self, add: &Add<'_>) -> Result<Option<JobIndex>, Error> {
        let due = self.resolve(add.when)?;
        if let Some(lease_ms) = add.lease_ms {
            self.check_lease(lease_ms)?;
        }
        let queue = self.queue(add.queue);
        let at = match (queue, add.id) {
            (Some(queue), Some(id)) => self.engine.store.locate(queue, id),
            (None, Some(id)) => Located { hash: self.engine.store.hasher().id(id), index: None },
            (_, None) => Located { hash: 0, index: None },
        };
        let old = queue.zip(at.index).map(|(queue, index)| (queue, at, index));
        if let (Some((queue, _, index)), Some(id)) = (old, add.id) {
            match add.taken {
                Taken::Keep => return Ok(None),
                Taken::Refuse => return Err(self.taken(queue, index, id)),
                Taken::Replace => {}
            }
        }
        if let Some(queue) = queue {
            let counted = |index| {
                let state = self.engine.store.jobs.get(index).stage.state();
                state.is_some_and(|state| state != State::Dead)
            };
            let replaces = old.is_some_and(|(_, _, index)| counted(index));
            self.engine.check_admission(queue, u64::from(!replaces), self.now)?;
        }
        let id_bytes = add.id.map_or(token::ID_BYTES, <[u8]>::len);
        let size = std::iter::once(id_bytes + add.body.len());
        self.engine.check_memory(queue, add.queue, size)?;
        if let (Some((queue, at, _)), Some(id)) = (old, add.id) {
            self.commit(&Fact::Deleted { queue, id }, at);
            self.engine.note_place_free(queue);
        }
        let queue = match queue {
            Some(queue) => queue,
            None => self.engine.bind_queue(add.queue, self.now, self.turn),
        };
        let enters = self.engine.store.queue(queue).due_enters();
        let arrival = match self.ready_at_once(queue, due) {
            true => Arrival::Ready(enters),
            false => Arrival::Delayed(due),
        };
        Ok(Some(self.engine.add_job(add, at.hash, queue, arrival, self.now, self.turn)))
    }

    pub(in crate::engine) fn push(&mut self, push: &Push<'_>) -> Outcome {
        let Push { queue: name, bodies, side, only_existing } = *push;
        let queue = self.queue(name);
        let exists = queue.is_some_and(|queue| self.engine.store.queue(queue).exists());
        if only_existing && !exists {
            return self.reply(Reply::Integer(0));
        }
        let sizes = bodies.iter().map(|body| token::ID_BYTES + body.len());
        if let Err(error) = self.engine.check_adding(queue, name, sizes, self.now) {
            return self.refuse(&error);
        }
        let (now, turn) = (self.now, &mut *self.turn);
        let queue = queue.unwrap_or_else(|| self.engine.bind_queue(name, now, turn));
        for body in bodies {
            let add = Add::new(name, When::In(0), body);
            self.engine.add_job(&add, 0, queue, Arrival::Ready(side), now, turn);
        }
        let ready = self.engine.store.queue(queue).count(State::Ready);
        self.reply(Reply::Integer(ready as i64))
    }

    /// Whether a job due at `due` is ready now. It is not while earlier ones of its queue are still
    /// being swept: it takes its turn behind them in the wheel.
    pub(in crate::engine) fn ready_at_once(&self, queue: QueueNo, due: Millis) -> bool {
        due <= self.now.floor() && self.engine.store.queue(queue).wake > self.now.floor()
    }

    /// When `when` is; in the past is now.
    pub(in crate::engine) fn resolve(&self, when: When) -> Result<Millis, Error> {
        self.engine.resolve(when, self.now)
    }

    pub(in crate::engine) fn check_lease(&self, asked_ms: u64) -> Result<(), Error> {
        self.engine.check_lease(asked_ms)
    }

    fn taken(&self, queue: QueueNo, index: JobIndex, id: &[u8]) -> Error {
        let store = &self.engine.store;
        let (queue, id) = (Shown::new(&store.queue(queue).name), Shown::new(id));
        if store.jobs.get(index).stage == Stage::Window {
            let left_ms = store.timers.due(index).0.saturating_sub(self.now.floor().0);
            return Error::Window { queue, id, left_ms };
        }
        Error::Exists { queue, id }
    }
}

impl Engine {
    /// When `when` is; in the past is now.
    pub(in crate::engine) fn resolve(&self, when: When, at: Micros) -> Result<Millis, Error> {
        let (now, max_ms) = (at.floor(), self.settings.delay_ms_max);
        let (due, asked_ms) = match when {
            When::In(0) => (now, 0),
            When::In(ms) => (at.ceil().plus(ms), ms),
            When::At(at) => (Millis(at).max(now), at.saturating_sub(now.0)),
        };
        if asked_ms > max_ms {
            // A span of the size of a unix time in ms of these decades (2001 to 2052) is one.
            let looks_absolute = matches!(when, When::In(ms) if (1_000_000_000_000..2_600_000_000_000).contains(&ms));
            let hint = if looks_absolute { "; an absolute time is written @<unix-ms>" } else { "" };
            return Err(Error::DelayTooLong { asked_ms, max_ms, max: Written(max_ms), hint });
        }
        Ok(due)
    }

    /// Whether a lease is not too long.
    pub(in crate::engine) fn check_lease(&self, asked_ms: u64) -> Result<(), Error> {
        let max_ms = self.settings.lease_ms_max;
        if asked_ms > max_ms {
            return Err(Error::LeaseTooLong { asked_ms, max_ms });
        }
        Ok(())
    }

    /// Whether new jobs, with so many bytes of id and body each, may be added to the queue of this name,
    /// whose number is `queue` if it has one.
    pub(in crate::engine) fn check_adding(
        &self,
        queue: Option<QueueNo>,
        name: QueueName<'_>,
        sizes: impl ExactSizeIterator<Item = usize> + Clone,
        now: Micros,
    ) -> Result<(), Error> {
        if let Some(queue) = queue {
            self.check_admission(queue, sizes.len() as u64, now)?;
        }
        self.check_memory(queue, name, sizes)
    }

    /// Whether there is memory for jobs, and for their queue if it is new. Jobs that find room in what is
    /// held need no more of it.
    fn check_memory(
        &self,
        queue: Option<QueueNo>,
        name: QueueName<'_>,
        sizes: impl ExactSizeIterator<Item = usize> + Clone,
    ) -> Result<(), Error> {
        // What a transaction adds was looked at before it began.
        if self.in_transaction {
            return Ok(());
        }
        if self.settings.memory_bytes_max == 0 {
            return Ok(());
        }
        let bytes =
            sizes.clone().map(|bytes| stored_bytes(bytes) + JOB_BYTES).sum::<usize>() as u64;
        let new = if queue.is_none() { QUEUE_BYTES + name.name.len() as u64 } else { 0 };
        let fits = || sizes.len() == 1 && sizes.clone().all(|size| self.store.jobs.has_room(size));
        self.check_memory_for(bytes + new, sizes.len() as u64, fits)
    }

    /// Whether there is memory for so many bytes more.
    pub(in crate::engine) fn check_room_for(&self, bytes: u64) -> Result<(), Error> {
        self.check_memory_for(bytes, 0, || false)
    }

    /// Whether there is memory for this text instead of the one that is kept with the job, if any.
    pub(in crate::engine) fn has_memory_for_text(&self, index: JobIndex, text: &[u8]) -> bool {
        let kept = self.store.jobs.history(index).and_then(|history| history.error.as_deref());
        let more = text_bytes(Some(text)).saturating_sub(text_bytes(kept));
        more == 0 || self.check_room_for(more as u64).is_ok()
    }

    /// Whether there is memory for so many bytes more, of so many new jobs or of something else; what `fits`
    /// finds room in what is held.
    ///
    /// A job that is delivered for the first time takes a history more, and taking is never refused. So
    /// adding keeps that back, for as far as it goes beyond the 16th by which leases may exceed the limit:
    ///
    /// ```text
    /// maxmemory 1,000 MB, histories of 104 B:   4 KiB a job   240,000 jobs, 25 MB to come: nothing is kept back
    ///                                             92 B a job   5.4 million jobs: 500 MB, and 562 MB to come
    /// ```
    fn check_memory_for(
        &self,
        bytes: u64,
        jobs: u64,
        fits: impl FnOnce() -> bool,
    ) -> Result<(), Error> {
        let max = self.settings.memory_bytes_max;
        if max == 0 {
            return Ok(());
        }
        let used = self.store.bytes + bytes;
        if used > max {
            return Err(Error::OutOfMemory { used, max });
        }
        let left = max + max / LEASE_SHARE - used;
        let leases = self.store.lease_bytes_to_come(left, jobs);
        if leases > left {
            return Err(Error::OutOfMemoryForLeases { used, leases, max });
        }
        // Whatever room there is in what is held: pages that hold nothing may not be resident.
        if self.settings.memory_bytes_over > 0 {
            self.store.press();
            let used = max.saturating_add(self.settings.memory_bytes_over);
            return Err(Error::OutOfMemory { used, max });
        }
        let held = self.held_bytes() + bytes;
        if held > max + limits::HELD_BYTES_BEYOND && !fits() {
            self.store.press();
            return Err(Error::OutOfMemory { used: held, max });
        }
        Ok(())
    }

    pub(in crate::engine) fn bind_queue(
        &mut self,
        name: QueueName<'_>,
        now: Micros,
        turn: &mut Turn<'_>,
    ) -> QueueNo {
        let QueueName { db, name } = name;
        let queue = self.store.next_queue_no(db);
        let fact = Fact::QueueBound { queue, db, name };
        self.commit(now, turn, &fact, Located { hash: 0, index: None });
        self.store.queue_mut(queue).line = self.waiters.line(db, name);
        queue
    }

    /// Adds a job. What forbids it has been checked. `hash` is that of the id if one is given.
    pub(in crate::engine) fn add_job(
        &mut self,
        add: &Add<'_>,
        hash: u32,
        queue: QueueNo,
        arrival: Arrival,
        now: Micros,
        turn: &mut Turn<'_>,
    ) -> JobIndex {
        let (due, ready) = match arrival {
            Arrival::Ready(side) => (now.floor(), Some(side)),
            Arrival::Delayed(due) => (due, None),
        };
        let policy = self.policy(add, queue, now, turn);
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
        let applied = self.commit(now, turn, &fact, Located { hash, index: None });
        let index = applied.index.expect("an added job has a number");
        if ready.is_some() {
            let place = self.store.jobs.get(index).order;
            self.touch(queue, Some(place));
        }
        index
    }

    /// The number of the job's policy, bound now if it is new.
    fn policy(
        &mut self,
        add: &Add<'_>,
        queue: QueueNo,
        now: Micros,
        turn: &mut Turn<'_>,
    ) -> PolicyNo {
        let (mut attempts, mut backoff, mut ttl_ms) =
            (add.attempts, add.backoff.clone(), add.ttl_ms);
        if let Some(settings) = &self.store.queue(queue).settings {
            attempts = attempts.or(settings.attempts);
            backoff = backoff.or_else(|| settings.backoff.clone());
            ttl_ms = ttl_ms.or(settings.ttl_ms);
        }
        let policy = Policy {
            attempts: attempts.unwrap_or(limits::ATTEMPTS_DEFAULT),
            backoff: backoff.unwrap_or_default(),
            lease_ms: add.lease_ms.unwrap_or(0),
            ttl_ms: ttl_ms.unwrap_or(0),
            unique_ms: add.unique_ms,
        };
        self.intern(policy, now, turn)
    }

    /// The next number whose id is free in this queue. A client may have chosen an id that looks
    /// like ours.
    fn free_number(&self, queue: QueueNo) -> u64 {
        let store = &self.store;
        let floor = store.number.max(self.settings.token_floor);
        if !store.queue(queue).lookalikes {
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
    pub(in crate::engine) fn intern(
        &mut self,
        policy: Policy,
        now: Micros,
        turn: &mut Turn<'_>,
    ) -> PolicyNo {
        if let Some(number) = self.store.policies.number(&policy, self.likely_policy) {
            self.likely_policy = number;
            return number;
        }
        let nothing = Located { hash: 0, index: None };
        // Two for one: the table of unused policies shrinks back however fast new ones come.
        for _ in 0..2 {
            if let Some(number) = self.store.policies.forgettable() {
                self.commit(now, turn, &Fact::PolicyForgotten { number }, nothing);
            }
        }
        let number = self.store.policies.next_number();
        self.commit(now, turn, &Fact::PolicyBound { number, policy }, nothing);
        number
    }
}
