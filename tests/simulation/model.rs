//! The auditor's own picture of every job: maps and sorted sets, nothing of the engine's structure.
//!
//! Which of the due jobs have been swept, and so when a job gets its place, is the engine's freedom
//! and told by its facts; the order in which they get their places is not: (due time, order of
//! entering), since nothing enters with a due time before now.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use delayd::engine::model::policy::Policy;
use delayd::engine::model::reply::Reason;
use delayd::engine::model::request::{JobState, Shape, Side};
use delayd::engine::model::stats::Totals;
use delayd::ids::{ClientId, Token};
use delayd::time::{Micros, Millis};

use crate::simulation::policies::Policies;
use crate::simulation::schedules::ModelSchedule;
use crate::simulation::sharing::Sharing;
use crate::simulation::trace::{ErrorSeen, Job, Kept, Said, Seen, View};

pub type QueueKey = (u8, Kept);

#[derive(Clone, Debug)]
pub struct ModelJob {
    /// Tells this job from a later one of the same id.
    pub birth: u64,
    pub id: Kept,
    pub body: Kept,
    /// Empty without one.
    pub group: Kept,
    /// As it is stored.
    pub meta: Kept,
    pub state: JobState,
    pub due: u64,
    /// The order in which it got its due time.
    pub sequence: u64,
    pub added: u64,
    pub priority: u8,
    pub policy: Policy,
    pub attempt: u32,
    pub deliveries: u32,
    /// As many when it was redriven last.
    pub deliveries_before: u32,
    pub nacks: u32,
    pub timeouts: u32,
    pub lost: u32,
    pub unanswered: u32,
    /// The newest token, unless it is void.
    pub token: Option<Token>,
    pub lease_end: u64,
    pub lease_sequence: u64,
    pub bound_to: Option<ClientId>,
    pub death: Option<(Reason, u64, u64)>,
    pub kept_until: u64,
    /// Newest first.
    pub errors: Vec<ErrorSeen>,
    /// Its place among the ready ones, once it has one.
    pub place: i64,
    /// The step in which it became ready with a new place.
    pub ready_step: u64,
    /// What follows it.
    pub next: Option<Box<ModelJob>>,
}

impl ModelJob {
    /// A delayed job that was just added.
    pub fn new(id: Kept, body: Kept, serial: u64, now: u64, policy: Policy) -> ModelJob {
        ModelJob {
            birth: serial,
            id,
            body,
            group: b"",
            meta: b"",
            state: JobState::Delayed,
            due: now,
            sequence: serial,
            added: now,
            priority: 5,
            policy,
            attempt: 0,
            deliveries: 0,
            deliveries_before: 0,
            nacks: 0,
            timeouts: 0,
            lost: 0,
            unanswered: 0,
            token: None,
            lease_end: 0,
            lease_sequence: 0,
            bound_to: None,
            death: None,
            kept_until: 0,
            errors: Vec::new(),
            place: 0,
            ready_step: 0,
            next: None,
        }
    }

    pub fn expiry(&self) -> Option<u64> {
        (self.policy.ttl_ms > 0 && self.deliveries == 0).then(|| self.due + self.policy.ttl_ms)
    }

    pub fn expired(&self, now: Millis) -> bool {
        self.expiry().is_some_and(|expiry| expiry <= now.0)
    }

    /// Whether it was handed out with a lease since it was added or redriven, and has not ended.
    pub fn has_begun(&self) -> bool {
        self.state != JobState::Dead && self.deliveries > self.deliveries_before
    }

    pub fn used_up(&self) -> bool {
        self.policy.attempts > 0 && self.attempt >= self.policy.attempts
    }

    pub fn seen(&self) -> Seen {
        Seen { id: self.id, state: self.state, due: Millis(self.due), body: self.body }
    }

    pub fn view(&self) -> View {
        let waits = matches!(self.state, JobState::Delayed | JobState::Ready);
        let lease = (self.state == JobState::Leased).then(|| {
            let token = self.token.expect("a leased job has a token");
            (token, Millis(self.lease_end), self.bound_to.is_some())
        });
        View {
            seen: self.seen(),
            added: Millis(self.added),
            priority: self.priority,
            attempt: [self.attempt, self.policy.attempts],
            deliveries: [self.deliveries, self.nacks, self.timeouts, self.lost],
            backoff: self.policy.backoff.to_string(),
            lease_ttl_unique_ms: [self.policy.lease_ms, self.policy.ttl_ms, self.policy.unique_ms],
            expires: Millis(self.expiry().filter(|_| waits).unwrap_or(0)),
            lease,
            death: self.death.map(|(reason, died, _)| (reason, Millis(died))),
            errors: self.errors.clone(),
            latest: self.next.as_ref().map(|next| Millis(next.due)),
            group: self.group,
            meta: self.meta,
        }
    }

    /// As it is handed over, with its META if that was asked for.
    pub fn delivered(&self, queue: QueueKey, leased: bool, meta: bool) -> Job {
        Job {
            queue,
            id: self.id,
            body: self.body,
            token: self.token.filter(|_| leased),
            attempt: self.attempt + u32::from(!leased),
            due: Millis(self.due),
            lease_end: Millis(if leased { self.lease_end } else { 0 }),
            meta: meta.then_some((self.group, self.meta)),
        }
    }
}

#[derive(Default, Debug)]
pub struct ModelQueue {
    pub birth: u64,
    pub number: u32,
    pub jobs: BTreeMap<Kept, ModelJob>,
    /// How many of them have a group.
    pub grouped: usize,
    /// Ids that are taken without a job, and until when.
    pub windows: BTreeMap<Kept, u64>,
    pub delayed: BTreeSet<(u64, u64, Kept)>,
    pub ready: BTreeSet<(u8, i64, Kept)>,
    /// The greatest place given so far, and how many were given before all others.
    pub last_place: i64,
    pub places_left: i64,
    /// Something was pushed to it, or due jobs changed their side.
    pub pushed: bool,
    pub leased: BTreeSet<(u64, u64, Kept)>,
    pub dead: BTreeSet<(u64, Kept)>,
    /// Jobs and windows ever purged: the timers of some may not be freed yet.
    pub purged: usize,
    /// Ends of windows, expiries of ready jobs, retentions of dead ones.
    pub ends: BTreeSet<(u64, Kept)>,
    pub policies: Policies,
    pub sharing: Sharing,
    pub schedules: BTreeMap<Kept, ModelSchedule>,
    /// Of schedules, those that were removed included.
    pub made: u64,
    pub missed: u64,
    pub totals: Totals,
    pub late_us_max: u64,
    pub used: u64,
}

impl ModelQueue {
    pub fn counts(&self) -> [u64; 4] {
        let counts = [self.delayed.len(), self.ready.len(), self.leased.len(), self.dead.len()];
        counts.map(|count| count as u64)
    }

    /// The next place, at the left or at the right, which is given now.
    pub fn give_place(&mut self, left: bool) -> i64 {
        if left {
            self.places_left += 1;
            1 - self.places_left
        } else {
            self.last_place += 1;
            self.last_place
        }
    }

    /// The side from which POP and RESERVE take.
    pub fn next_side(&self) -> Side {
        if self.due_left() { Side::Right } else { Side::Left }
    }

    /// Whether jobs that fall due enter at the left.
    pub fn due_left(&self) -> bool {
        self.policies.settings.due_enters == Some(Side::Left)
    }

    /// Enters a job where its fields say.
    pub fn put(&mut self, job: ModelJob) {
        self.place(job.clone());
        self.came(&job);
    }

    fn place(&mut self, job: ModelJob) {
        match job.state {
            JobState::Delayed => self.delayed.insert((job.due, job.sequence, job.id)),
            JobState::Ready => {
                self.ends.extend(job.expiry().map(|expiry| (expiry, job.id)));
                self.ready.insert((job.priority, job.place, job.id))
            }
            JobState::Leased => self.leased.insert((job.lease_end, job.lease_sequence, job.id)),
            JobState::Dead => {
                let (_, _, order) = job.death.expect("a dead job died");
                self.ends.insert((job.kept_until, job.id));
                self.dead.insert((order, job.id))
            }
        };
        self.grouped += usize::from(!job.group.is_empty());
        assert!(self.jobs.insert(job.id, job).is_none(), "one job per id");
    }

    /// A job takes the place of a ready one with its id. Its group keeps its turn, if it is that one's.
    pub fn replace(&mut self, job: ModelJob) {
        let old = self.displace(job.id).expect("the job is there");
        // It has not become ready by the change.
        let job = ModelJob { ready_step: old.ready_step, ..job };
        self.totals.deleted += 1;
        let stays = (old.priority, old.group) == (job.priority, job.group);
        if !stays {
            self.left(&old);
        }
        self.place(job.clone());
        if !stays {
            self.came(&job);
        }
    }

    /// Takes a job out.
    pub fn take(&mut self, id: Kept) -> Option<ModelJob> {
        let job = self.displace(id)?;
        self.left(&job);
        Some(job)
    }

    pub fn displace(&mut self, id: Kept) -> Option<ModelJob> {
        let job = self.jobs.remove(id)?;
        self.grouped -= usize::from(!job.group.is_empty());
        let stood = match job.state {
            JobState::Delayed => self.delayed.remove(&(job.due, job.sequence, job.id)),
            JobState::Ready => {
                job.expiry().map(|expiry| self.ends.remove(&(expiry, job.id)));
                self.ready.remove(&(job.priority, job.place, job.id))
            }
            JobState::Leased => self.leased.remove(&(job.lease_end, job.lease_sequence, job.id)),
            JobState::Dead => {
                let (_, _, order) = job.death.expect("a dead job died");
                self.ends.remove(&(job.kept_until, job.id));
                self.dead.remove(&(order, job.id))
            }
        };
        assert!(stood, "the model's sets agree");
        Some(job)
    }

    /// Takes a job out, changes it, enters it again.
    pub fn change(&mut self, id: Kept, change: impl FnOnce(&mut ModelJob)) {
        let before = self.displace(id).expect("the job is there");
        let mut job = before.clone();
        change(&mut job);
        // The lease goes on.
        let stays = [before.state, job.state] == [JobState::Leased; 2];
        if !stays {
            self.left(&before);
        }
        self.place(job.clone());
        if !stays {
            self.came(&job);
        }
    }

    pub fn open_window(&mut self, id: Kept, end: Millis) {
        if end.0 > 0 {
            self.windows.insert(id, end.0);
            self.ends.insert((end.0, id));
        }
    }

    pub fn close_window(&mut self, id: Kept) -> Option<u64> {
        let end = self.windows.remove(id)?;
        self.ends.remove(&(end, id));
        Some(end)
    }

    /// When something is to happen next, but for what the rates of groups let go.
    pub fn next(&self) -> Option<u64> {
        let delayed = self.delayed.first().map(|entry| entry.0);
        let leased = self.leased.first().map(|entry| entry.0);
        let ends = self.ends.first().map(|entry| entry.0);
        let pauses = self.policies.pauses.next_end().map(|end| end.0);
        [delayed, leased, ends, pauses, self.next_group_end()].into_iter().flatten().min()
    }

    /// Whether it is a key.
    pub fn exists(&self) -> bool {
        let set = self.policies.any() || !self.sharing.set.is_empty();
        !self.jobs.is_empty() || set || !self.schedules.is_empty()
    }
}

/// How a client waits.
#[derive(Clone, Debug)]
pub struct ModelWaiter {
    pub queues: Vec<QueueKey>,
    pub taking: Taking,
    pub deadline: Option<u64>,
}

/// What a client takes with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Pop,
    Reserve,
    List { side: Side, shape: Shape },
    Move { side: Side, to: QueueKey, put: Side },
}

impl Kind {
    /// From which side; none for the one from which POP takes.
    pub fn side(self) -> Option<Side> {
        match self {
            Kind::Pop | Kind::Reserve => None,
            Kind::List { side, .. } | Kind::Move { side, .. } => Some(side),
        }
    }

    /// The reply when there is nothing and no waiting.
    pub fn nothing(self) -> Said {
        match self {
            Kind::List { shape: Shape::Value, .. } | Kind::Move { .. } => Said::Nil,
            _ => Said::NilArray,
        }
    }
}

/// How a client takes.
#[derive(Clone, Copy, Debug)]
pub struct Taking {
    pub kind: Kind,
    pub count: usize,
    pub lease_ms: Option<u64>,
    pub no_ack: bool,
    pub bound: bool,
    pub meta: bool,
}

/// What a client has in hand.
#[derive(Clone, Debug)]
pub enum Unsent {
    Leased(QueueKey, Kept, Token, Delivery),
    Gone(QueueKey, u64, Box<ModelJob>, Delivery),
}

/// When it was delivered, and whether the rate of its group counted it.
pub type Delivery = (Micros, bool);

#[derive(Default, Debug)]
pub struct Model {
    pub queues: BTreeMap<QueueKey, ModelQueue>,
    /// Names by the number that facts use.
    pub numbers: BTreeMap<u32, QueueKey>,
    pub policies: BTreeMap<u32, Policy>,
    pub lines: BTreeMap<QueueKey, VecDeque<ClientId>>,
    pub waiting: BTreeMap<ClientId, ModelWaiter>,
    pub unsent: BTreeMap<ClientId, Vec<Unsent>>,
    /// What was in the hands of connections that are gone, as long as there is no room for it.
    pub going_back: VecDeque<Unsent>,
    pub closed: BTreeSet<ClientId>,
    /// Of leaders before.
    pub former: BTreeSet<ClientId>,
    /// No rate allows a delivery before.
    pub rates_from_us: u64,
    pub newest_token: u64,
    /// Counts whatever needs an order: births, due times, leases, deaths.
    pub serial: u64,
}

impl Model {
    pub fn serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    pub fn queue(&mut self, key: QueueKey) -> &mut ModelQueue {
        self.queues.get_mut(&key).unwrap_or_else(|| panic!("queue {key:?} is not known"))
    }

    pub fn job(&self, key: QueueKey, id: Kept) -> Option<&ModelJob> {
        self.queues.get(&key)?.jobs.get(id)
    }

    pub fn wait(&mut self, client: ClientId, waiter: ModelWaiter) {
        for key in &waiter.queues {
            let line = self.lines.entry(*key).or_default();
            if !line.contains(&client) {
                line.push_back(client);
            }
        }
        self.waiting.insert(client, waiter);
    }

    pub fn leave(&mut self, client: ClientId) -> Option<ModelWaiter> {
        let waiter = self.waiting.remove(&client)?;
        for key in &waiter.queues {
            if let Some(line) = self.lines.get_mut(key) {
                line.retain(|other| *other != client);
                if line.is_empty() {
                    self.lines.remove(key);
                }
            }
        }
        Some(waiter)
    }

    pub fn bind(&mut self, number: u32, key: QueueKey) {
        let mut queue = ModelQueue { birth: self.serial(), number, ..ModelQueue::default() };
        queue.policies.closed_until_us = self.rates_from_us;
        assert!(self.queues.insert(key, queue).is_none(), "{key:?} is bound twice");
        assert!(self.numbers.insert(number, key).is_none(), "number {number} is bound twice");
    }

    pub fn unbind(&mut self, key: QueueKey) {
        let queue = self.queues.remove(&key).expect("a bound queue is removed");
        self.numbers.remove(&queue.number);
    }
}
