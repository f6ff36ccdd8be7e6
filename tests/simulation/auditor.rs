//! Checks every step of the engine against the model. Knows nothing of the workload.
//!
//! Facts tell how far the engine chose to go (how many due jobs it swept); each is checked for
//! being allowed, then the model follows. What a request must do is predicted (`decide.rs`), and the
//! facts and the reply must be exactly that.

use std::collections::{BTreeMap, VecDeque};

use delayd::engine::fact::{Destination, Fact, FactId, Facts, Image};
use delayd::engine::policy::Policy;
use delayd::engine::reply::Reason;
use delayd::engine::request::{Add, Request, State};
use delayd::engine::{Advanced, Engine, Outcome, Settings, number};
use delayd::ids::{ClientId, Db, QueueNo, Token};
use delayd::limits;
use delayd::time::{Micros, Millis};

use crate::model::{InHand, Model, ModelJob, ModelQueue, ModelWaiter, QueueKey, Taking};
use crate::trace::{Job, Kept, Said, keep};

/// What the engine was asked.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    Request { client: ClientId, request: &'a Request<'static>, alone: bool },
    HandOff,
    Advance { budget: u32 },
    Sent(ClientId),
    Unsent(ClientId),
    Closed(ClientId),
    StopWaiting(ClientId),
}

/// One call of the engine and all that came of it.
#[derive(Debug)]
pub struct Step<'a> {
    pub now: Micros,
    pub input: Input<'a>,
    pub facts: &'a Facts,
    pub replies: &'a [(ClientId, Said)],
    pub outcome: Option<Outcome>,
    pub advanced: Option<Advanced>,
    pub settings: &'a Settings,
}

/// A scan that a client has begun: which jobs were there then, and which of them it saw.
pub type ScanRun = (QueueKey, BTreeMap<Kept, (u64, bool)>);

#[derive(Default)]
pub struct Auditor {
    pub model: Model,
    /// Counts steps after which everything ready has been handed to waiters.
    pub steps: u64,
    pub scans: BTreeMap<ClientId, ScanRun>,
    gave_up: bool,
    /// What was seen, so that a run that tests nothing is noticed.
    pub seen: BTreeMap<&'static str, u64>,
}

/// A step being checked.
pub struct Check<'c> {
    pub auditor: &'c mut Auditor,
    pub step: &'c Step<'c>,
    pub engine: &'c Engine,
    answered: Vec<bool>,
    pub decided: bool,
    /// The facts that the request must still make, in order.
    pub expected: VecDeque<Fact<'static>>,
    /// The new job that ADD must make.
    pub to_add: Option<&'c Add<'static>>,
    /// The reply that the request must get.
    pub reply: Option<Said>,
    /// What the request took itself.
    own: Vec<Job>,
    group: Option<Group>,
    expired: u32,
    work: u64,
    last_served: Option<usize>,
    /// The request's reply has been checked.
    replied: bool,
    /// Popped jobs that go back.
    returning: VecDeque<ModelJob>,
}

/// A waiter being served.
struct Group {
    client: ClientId,
    key: QueueKey,
    waiter: ModelWaiter,
    jobs: Vec<Job>,
}

impl Auditor {
    pub fn note(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// Panics if the step was wrong.
    pub fn audit(&mut self, step: &Step<'_>, engine: &Engine) {
        let facts: Vec<Fact<'_>> =
            step.facts.iter().collect::<Result<_, _>>().expect("own facts are readable");
        let mut again = Facts::default();
        facts.iter().for_each(|fact| again.push(fact));
        assert_eq!(again.bytes, step.facts.bytes, "facts survive decoding and encoding");
        assert_eq!(again.count, step.facts.count, "facts are counted");

        let mut check = Check {
            auditor: self,
            step,
            engine,
            answered: vec![false; step.replies.len()],
            decided: false,
            expected: VecDeque::new(),
            to_add: None,
            reply: None,
            own: Vec::new(),
            group: None,
            expired: 0,
            work: 0,
            last_served: None,
            replied: false,
            returning: VecDeque::new(),
        };
        check.begin();
        for fact in &facts {
            check.fact(fact);
        }
        check.finish();
        if !matches!(step.input, Input::Request { alone: false, .. }) {
            self.steps += 1;
        }
    }
}

impl<'c> Check<'c> {
    pub fn model(&mut self) -> &mut Model {
        &mut self.auditor.model
    }

    pub fn now(&self) -> Millis {
        self.step.now.floor()
    }

    pub fn ceil(&self) -> u64 {
        self.step.now.ceil().0
    }

    fn requester(&self) -> Option<ClientId> {
        match self.step.input {
            Input::Request { client, .. } => Some(client),
            _ => None,
        }
    }

    fn begin(&mut self) {
        match self.step.input {
            Input::Sent(client) => {
                self.model().in_hand.remove(&client);
            }
            Input::Unsent(client) => {
                for handed in self.model().in_hand.remove(&client).unwrap_or_default() {
                    self.expect_back(handed);
                }
                self.decided = true;
            }
            Input::Closed(client) => {
                self.model().in_hand.remove(&client);
                self.model().leave(client);
                self.model().closed.insert(client);
            }
            Input::StopWaiting(client) => {
                self.model().leave(client);
            }
            _ => {}
        }
    }

    /// What was in the hand of a connection that is gone must go back.
    fn expect_back(&mut self, handed: InHand) {
        match handed {
            InHand::Leased(key, id, token) => {
                let Some(job) = self.model().job(key, id) else { return };
                if job.state == State::Leased && job.token == Some(token) {
                    let queue = QueueNo(self.model().queue(key).number);
                    self.expected.push_back(Fact::Unleased { queue, id });
                }
            }
            InHand::Gone(key, birth, job) => {
                let Some(queue) = self.model().queues.get(&key) else { return };
                if queue.birth == birth && !queue.jobs.contains_key(job.id) {
                    let queue = QueueNo(queue.number);
                    let [nacks, timeouts, lost] = [job.nacks, job.timeouts, job.lost];
                    let counts =
                        [job.attempt, job.deliveries, nacks, timeouts, lost, job.unanswered];
                    let image = Image {
                        id: job.id,
                        body: job.body,
                        policy: Default::default(),
                        priority: job.priority,
                        added: Millis(job.added),
                        due: Millis(job.due),
                        place: 0,
                        history: (job.deliveries > 0).then_some(counts),
                        error: job.error,
                    };
                    self.expected.push_back(Fact::Unpopped { queue, image });
                    self.returning.push_back(*job);
                }
            }
        }
    }

    fn key(&mut self, queue: QueueNo) -> QueueKey {
        let key = self.model().numbers.get(&queue.0);
        *key.unwrap_or_else(|| panic!("a fact names queue number {queue}, which is not bound"))
    }

    fn fact(&mut self, fact: &Fact<'_>) {
        let now = self.now();
        if !matches!(fact, Fact::Leased { .. } | Fact::Popped { .. } | Fact::Expired { .. }) {
            self.end_group();
        }
        match *fact {
            Fact::Due { queue, count, .. } => {
                let key = self.key(queue);
                self.work += u64::from(count);
                for _ in 0..count {
                    let first = self.model().queue(key).delayed.first().copied();
                    let (due, _, id) = first.expect("a job that falls due was delayed");
                    assert!(due <= now.0, "{id:?} falls due early: {due} at {now:?}");
                    let step = self.auditor.steps;
                    self.model().queue(key).change(id, |job| {
                        job.state = State::Ready;
                        job.ready_step = step;
                    });
                }
                self.model().queue(key).used = now.0;
                self.auditor.note("due");
            }
            Fact::LeaseOver { queue, id, lost, to } => {
                let (key, id) = (self.key(queue), keep(id));
                self.work += u64::from(!lost);
                self.lease_over(key, id, lost, to);
            }
            Fact::Expired { queue, id, window_end } => {
                let (key, id) = (self.key(queue), keep(id));
                (self.expired, self.work) = (self.expired + 1, self.work + 1);
                let unique_end = self.end_job(key, id, |job| {
                    assert!(matches!(job.state, State::Ready | State::Delayed), "{job:?} expires");
                    assert!(job.expired(now), "{job:?} expires early");
                });
                assert_eq!(window_end.0, unique_end, "the window of an expired job");
                let queue = self.model().queue(key);
                queue.open_window(id, window_end);
                queue.totals.expired += 1;
                queue.used = now.0;
                self.auditor.note("expired");
            }
            Fact::Dropped { queue, id } => {
                let (key, id) = (self.key(queue), keep(id));
                self.work += 1;
                let queue = self.model().queue(key);
                let crowded = queue.dead.len() as u64 > limits::DEAD_COUNT_DEFAULT
                    && queue.dead.first().is_some_and(|dead| dead.1 == id);
                let job = queue.take(id).expect("a dropped job was there");
                assert!(job.state == State::Dead, "{job:?} is dropped");
                assert!(crowded || job.kept_until <= now.0, "{job:?} is dropped early");
                queue.totals.dropped += 1;
                queue.used = now.0;
                self.auditor.note("dropped");
            }
            Fact::WindowOver { queue, id } => {
                let (key, id) = (self.key(queue), keep(id));
                self.work += 1;
                let queue = self.model().queue(key);
                let end = queue.close_window(id).expect("a window that is over was open");
                assert!(end <= now.0, "window over early: {end} at {now:?}");
                queue.used = now.0;
                self.auditor.note("window over");
            }
            Fact::QueueForgotten { queue } => {
                let key = self.key(queue);
                // The last of all that passing time does.
                self.end_group();
                self.time_out_before(self.step.replies.len());
                let retention_ms = self.step.settings.stats_retention_ms;
                let queue = self.model().queue(key);
                assert!(queue.jobs.is_empty() && queue.windows.is_empty(), "{key:?} is in use");
                assert!(queue.used + retention_ms <= now.0, "{key:?} is forgotten early");
                assert!(!self.model().lines.contains_key(&key), "{key:?} has waiters");
                self.model().unbind(key);
                self.auditor.note("forgotten");
            }
            Fact::PolicyBound { number, ref policy } => {
                let before = self.model().policies.insert(number.0, policy.clone());
                assert_eq!(before, None, "policy {number} is bound twice");
            }
            Fact::PolicyForgotten { number } => {
                let policy = self.model().policies.remove(&number.0).expect("it was bound");
                let mut jobs = self.model().queues.values().flat_map(|queue| queue.jobs.values());
                assert!(jobs.all(|job| job.policy != policy), "a job uses policy {number}");
            }
            Fact::Leased { queue, id, token, lease_end, bound, prompt } => {
                let (key, id) = (self.key(queue), keep(id));
                let to = self.taker_of(|job| job.token == Some(token));
                let job = self.hand_over(key, id, to, Some((token, lease_end, bound)), prompt);
                self.took(to, key, job);
            }
            Fact::Popped { queue, id, window_end, prompt } => {
                let (key, id) = (self.key(queue), keep(id));
                let to =
                    self.taker_of(|job| job.token.is_none() && job.queue == key && job.id == id);
                let unique_ms = self.model().job(key, id).map_or(0, |job| job.policy.unique_ms);
                let end = if unique_ms > 0 { self.ceil() + unique_ms } else { 0 };
                assert_eq!(window_end.0, end, "the window of a popped job");
                let job = self.hand_over(key, id, to, None, prompt);
                self.model().queue(key).open_window(id, window_end);
                self.took(to, key, job);
            }
            _ => self.request_fact(fact),
        }
    }

    /// A fact that only a request (or a lost reply) can make.
    fn request_fact(&mut self, fact: &Fact<'_>) {
        self.decide_once();
        match *fact {
            Fact::QueueBound { queue, db, name } => {
                let key = (db.0, keep(name));
                let wanted = self.to_add.map(|add| (add.queue.db.0, add.queue.name));
                assert_eq!(wanted, Some(key), "only ADD binds its queue");
                self.model().bind(queue.0, key);
                let now = self.now().0;
                self.model().queue(key).used = now;
            }
            Fact::Added { .. } => self.added(fact),
            Fact::Unpopped { queue, image } => {
                let key = self.key(queue);
                let mut expected = self.expected.pop_front();
                if let Some(Fact::Unpopped { image: wanted, .. }) = &mut expected {
                    (wanted.policy, wanted.place) = (image.policy, image.place);
                }
                assert_eq!(expected.as_ref(), Some(fact), "what goes back");
                let job = self.returning.pop_front().expect("one for each fact");
                assert_eq!(self.model().policies[&image.policy.0], job.policy, "its policy");
                let serial = self.model().serial();
                let now = self.now().0;
                let queue = self.model().queue(key);
                queue.close_window(job.id);
                queue.totals.delivered -= 1;
                queue.used = now;
                // A delivery that never left voids older tokens all the same.
                queue.put(ModelJob { birth: serial, token: None, ..job });
                self.auditor.note("unpopped");
            }
            Fact::Unleased { queue, id } => {
                let (key, id) = (self.key(queue), keep(id));
                assert_eq!(self.expected.pop_front().as_ref(), Some(fact), "what goes back");
                let now = self.now().0;
                let queue = self.model().queue(key);
                queue.change(id, |job| {
                    job.state = State::Ready;
                    job.attempt -= 1;
                    job.deliveries -= 1;
                    (job.token, job.bound_to) = (None, None);
                });
                queue.totals.delivered -= 1;
                queue.used = now;
                self.auditor.note("unleased");
            }
            _ => {
                let expected = self.expected.pop_front();
                assert_eq!(expected.as_ref(), Some(fact), "expected by the model (left)");
            }
        }
    }

    fn added(&mut self, fact: &Fact<'_>) {
        let Fact::Added { queue, id, policy, priority, absolute, ready, due, body } = *fact else {
            unreachable!("called for a new job");
        };
        let (key, now, add) = (self.key(queue), self.now(), self.to_add.take());
        let add = add.expect("only an ADD that succeeds adds, and once");
        assert_eq!(key, (add.queue.db.0, add.queue.name));
        let id = match id {
            FactId::Given(id) => keep(id),
            FactId::Made(number) => {
                assert!(number > self.model().newest_token, "numbers only grow");
                self.model().newest_token = number;
                keep(&number::written(number))
            }
        };
        assert!(add.id.is_none_or(|wanted| wanted == id), "the id asked for");
        let wanted = Policy {
            attempts: add.attempts.unwrap_or(20),
            backoff: add.backoff.clone().unwrap_or_default(),
            lease_ms: add.lease_ms.unwrap_or(0),
            ttl_ms: add.ttl_ms.unwrap_or(0),
            unique_ms: add.unique_ms,
        };
        assert_eq!(self.model().policies.get(&policy.0), Some(&wanted), "the policy");
        assert_eq!(priority, add.priority.unwrap_or(5));
        assert_eq!(body, add.body);
        self.place_new(key, ready, due, add.when, absolute);
        let (serial, step) = (self.model().serial(), self.auditor.steps);
        let queue = self.model().queue(key);
        queue.totals.added += 1;
        queue.used = now.0;
        queue.put(ModelJob {
            birth: serial,
            id,
            body: add.body,
            state: if ready { State::Ready } else { State::Delayed },
            due: due.0,
            sequence: serial,
            added: now.0,
            priority,
            policy: wanted,
            attempt: 0,
            deliveries: 0,
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
            error: None,
            ready_step: step,
        });
        self.reply = Some(Said::Id(id));
        self.auditor.note("added");
    }

    fn lease_over(&mut self, key: QueueKey, id: Kept, lost: bool, to: Destination) {
        let (now, ceil) = (self.now(), self.ceil());
        let job = self.model().job(key, id).expect("a lease that is over had a job").clone();
        assert_eq!(job.state, State::Leased, "a lease that is over was running");
        if lost {
            let holder = job.bound_to.expect("only a bound lease is lost");
            assert!(self.model().closed.contains(&holder), "{job:?} is lost, {holder} is not");
        } else {
            assert!(job.lease_end <= now.0, "{job:?} ends early");
        }
        let reason = if lost { Reason::Lost } else { Reason::Timeout };
        let wanted = if job.used_up() {
            self.dead(reason)
        } else if job.unanswered == 0 {
            Destination::Ready
        } else {
            let wait_ms = job.policy.backoff.wait_ms(id, job.attempt);
            Destination::Delayed { due: Millis(ceil + wait_ms) }
        };
        assert_eq!(to, wanted, "where {job:?} goes");
        self.settle(key, id, to, |job| {
            job.unanswered += 1;
            job.bound_to = None;
            if lost {
                job.lost += 1;
            } else {
                job.timeouts += 1;
            }
        });
        let queue = self.model().queue(key);
        if lost {
            queue.totals.lost += 1;
        } else {
            queue.totals.timeouts += 1;
        }
        self.auditor.note(if lost { "lost" } else { "timeout" });
    }

    pub fn dead(&self, reason: Reason) -> Destination {
        let kept_until = Millis(self.ceil() + limits::DEAD_RETENTION_MS_DEFAULT);
        Destination::Dead { reason, kept_until }
    }

    /// Sends a leased job where its delivery sends it.
    pub fn settle(
        &mut self,
        key: QueueKey,
        id: Kept,
        to: Destination,
        change: impl FnOnce(&mut ModelJob),
    ) {
        let (serial, now) = (self.model().serial(), self.now().0);
        let queue = self.model().queue(key);
        queue.change(id, |job| {
            change(job);
            match to {
                Destination::Ready => job.state = State::Ready,
                Destination::Delayed { due } => {
                    job.state = State::Delayed;
                    (job.due, job.sequence) = (due.0, serial);
                }
                Destination::Dead { reason, kept_until } => {
                    job.state = State::Dead;
                    job.death = Some((reason, now, serial));
                    job.kept_until = kept_until.0;
                }
            }
        });
        queue.totals.died += u64::from(matches!(to, Destination::Dead { .. }));
        queue.used = now;
        self.auditor.note(match to {
            Destination::Ready => "settled: ready",
            Destination::Delayed { .. } => "settled: delayed",
            Destination::Dead { .. } => "settled: dead",
        });
    }

    /// Removes a job; returns until when its id stays taken.
    pub fn end_job(&mut self, key: QueueKey, id: Kept, look: impl FnOnce(&ModelJob)) -> u64 {
        let ceil = self.ceil();
        let job = self.model().queue(key).take(id).expect("a job that ends was there");
        look(&job);
        if job.policy.unique_ms > 0 { ceil + job.policy.unique_ms } else { 0 }
    }

    /// The reply with which a job is handed over; an id can be used again within a step.
    fn taker_of(&self, is: impl Fn(&Job) -> bool) -> usize {
        let mut replies = self.step.replies.iter().zip(&self.answered);
        let found =
            replies.position(|((_, said), answered)| !answered && said.jobs().iter().any(&is));
        found.expect("what is handed over is in a reply")
    }

    /// The first ready job of the queue goes to whom reply number `to` is for.
    fn hand_over(
        &mut self,
        key: QueueKey,
        id: Kept,
        to: usize,
        lease: Option<(Token, Millis, bool)>,
        prompt: bool,
    ) -> Job {
        let (now, ceil, step) = (self.now(), self.ceil(), self.auditor.steps);
        let client = self.step.replies[to].0;
        let own = self.own_taking(client);
        if own.is_none() {
            self.serve(client, key, to);
        }
        let group = self.group.as_ref().map(|group| group.waiter.taking);
        let taking = own.or(group).expect("a taker");
        assert_eq!(lease.is_none(), taking.no_ack, "with a lease or without, as asked");

        let default_ms = self.step.settings.lease_ms_default;
        let serial = self.model().serial();
        let newest = self.model().newest_token;
        let queue = self.model().queue(key);
        let first = queue.ready.first().expect("what is handed over was ready").3;
        assert_eq!(id, first, "the first in the order of {:?}", queue.ready);
        let mut job = queue.take(id).expect("it is ready");
        assert!(!job.expired(now), "{job:?} was delivered after it expired");
        assert!(job.due <= now.0, "{job:?} was delivered early");
        let fresh = own.is_none() && job.ready_step == step;
        assert_eq!(prompt, fresh, "whether {job:?} counts for the lateness");
        if prompt {
            let late_us = self.step.now.0 - job.due * 1000;
            let queue = self.model().queue(key);
            queue.late_us_max = queue.late_us_max.max(late_us);
        }
        let queue = self.model().queue(key);
        queue.totals.delivered += 1;
        queue.used = now.0;
        let birth = queue.birth;
        let delivered = if let Some((token, lease_end, bound)) = lease {
            let own_ms = Some(job.policy.lease_ms).filter(|ms| *ms > 0);
            let lease_ms = taking.lease_ms.or(own_ms).unwrap_or(default_ms);
            assert_eq!(lease_end.0, ceil + lease_ms, "the lease's end");
            assert_eq!(bound, taking.bound);
            assert!(token.0 > newest && token.0 < 1 << 63, "tokens only grow: {token}");
            job.state = State::Leased;
            (job.token, job.lease_end, job.lease_sequence) = (Some(token), lease_end.0, serial);
            job.attempt += 1;
            job.deliveries += 1;
            job.bound_to = bound.then_some(client);
            let delivered = job.delivered(key, true);
            queue.put(job);
            self.model().newest_token = token.0;
            let handed = InHand::Leased(key, id, token);
            self.model().in_hand.entry(client).or_default().push(handed);
            delivered
        } else {
            let delivered = job.delivered(key, false);
            let handed = InHand::Gone(key, birth, Box::new(job));
            self.model().in_hand.entry(client).or_default().push(handed);
            delivered
        };
        self.auditor.note(if own.is_some() { "taken" } else { "served" });
        delivered
    }

    /// How the requester takes, if this is about its own request.
    fn own_taking(&self, client: ClientId) -> Option<Taking> {
        let Input::Request { client: requester, request, .. } = self.step.input else {
            return None;
        };
        (requester == client).then(|| crate::decide::taking(request)).flatten().map(|(t, ..)| t)
    }

    fn took(&mut self, to: usize, key: QueueKey, job: Job) {
        let client = self.step.replies[to].0;
        if self.requester() == Some(client) {
            self.own.push(job);
        } else {
            let group = self.group.as_mut().expect("a waiter is being served");
            assert_eq!((group.client, group.key), (client, key));
            group.jobs.push(job);
        }
    }

    /// `client` is being served from this queue, by reply number `to`.
    fn serve(&mut self, client: ClientId, key: QueueKey, to: usize) {
        if self.group.as_ref().is_some_and(|group| group.client == client) {
            return;
        }
        self.end_group();
        self.time_out_before(to);
        assert!(self.last_served < Some(to), "replies come in the order of hand-offs");
        self.last_served = Some(to);
        let line = self.model().lines.get(&key);
        let first = line.and_then(|line| line.front().copied());
        assert_eq!(first, Some(client), "the first in the line of {key:?} is served");
        let waiter = self.model().leave(client).expect("who stands in a line waits");
        self.group = Some(Group { client, key, waiter, jobs: Vec::new() });
    }

    fn end_group(&mut self) {
        let Some(Group { client, key, waiter, jobs }) = self.group.take() else { return };
        let now = self.now();
        let full = jobs.len() == waiter.taking.count;
        assert!(jobs.len() <= waiter.taking.count, "{client} got more than its COUNT");
        if !full && self.expired < 256 {
            let queue = self.model().queues.get(&key);
            assert!(queue.is_none_or(|queue| !queue.has_deliverable(now)), "COUNT takes all");
        }
        let said = self.answer_of(client);
        assert_eq!(said, Some(delivery(waiter.taking, jobs)).as_ref(), "{client}'s reply");
    }

    /// The request's reply has been checked where it was predicted.
    pub fn replied_in_full(&mut self) {
        self.replied = true;
    }

    /// The reply to the client, once.
    pub fn answer_of(&mut self, client: ClientId) -> Option<&'c Said> {
        let at = self.step.replies.iter().position(|(to, _)| *to == client)?;
        assert!(!std::mem::replace(&mut self.answered[at], true), "{client} is answered twice");
        Some(&self.step.replies[at].1)
    }

    /// Waiters whose time-out was told before reply number `to`.
    fn time_out_before(&mut self, to: usize) {
        for at in 0..to {
            let (client, said) = &self.step.replies[at];
            if self.answered[at] || !self.auditor.model.waiting.contains_key(client) {
                continue;
            }
            if *said != Said::NilArray {
                continue;
            }
            let now = self.now();
            self.answered[at] = true;
            assert!(matches!(self.step.input, Input::Advance { .. }), "time-outs pass with time");
            let waiter = self.model().leave(*client).expect("it waits");
            let deadline = waiter.deadline.expect("who waits for ever is not timed out");
            assert!(deadline <= now.0, "{client} is timed out early: {deadline} at {now:?}");
            for key in &waiter.queues {
                let queue = self.auditor.model.queues.get(key);
                let missed = queue.is_some_and(|queue| queue.has_deliverable(now));
                assert!(!missed, "{client} is timed out though {key:?} has a job");
            }
            self.auditor.note("timed out");
        }
    }

    pub fn decide_once(&mut self) {
        if !std::mem::replace(&mut self.decided, true) {
            self.decide();
        }
    }

    fn finish(&mut self) {
        if self.step.outcome != Some(Outcome::Again) {
            self.decide_once();
        }
        assert!(self.expected.is_empty(), "missing facts: {:?}", self.expected);
        assert!(self.to_add.is_none(), "the job was not added");
        self.end_group();
        self.time_out_before(self.step.replies.len());
        if let Input::Request { client, request, alone } = self.step.input {
            self.finish_request(client, request, alone);
        }
        let unexpected = self.answered.iter().position(|answered| !answered);
        if let Some(at) = unexpected {
            panic!("a reply nobody waits for: {:?}", self.step.replies[at]);
        }
        self.finish_state();
    }

    fn finish_request(&mut self, client: ClientId, request: &Request<'static>, alone: bool) {
        let own = std::mem::take(&mut self.own);
        match self.step.outcome {
            Some(Outcome::Again) => {
                assert!(alone, "a prepared request is not interrupted in a transaction");
                self.auditor.note("again");
                return;
            }
            Some(Outcome::Waiting) => {
                let (taking, queues, deadline) = self.wish(request).expect("only takers wait");
                assert!(alone, "nobody waits in a transaction");
                assert!(own.is_empty(), "who got something does not wait");
                assert!(deadline != Some(0), "NOWAIT does not wait");
                let waiter = ModelWaiter { queues, taking, deadline };
                self.model().wait(client, waiter);
                self.auditor.note("waits");
                return;
            }
            _ => {}
        }
        if self.replied {
            return;
        }
        let said = self.answer_of(client).expect("a request is answered");
        if let (Some((taking, queues, deadline)), false) =
            (self.wish(request), matches!(said, Said::Error(_)))
        {
            assert!(own.len() <= taking.count, "more than COUNT");
            let order = own.iter().map(|job| queues.iter().position(|key| *key == job.queue));
            assert!(order.is_sorted(), "queues in the order of arguments");
            if own.len() < taking.count && self.expired < 256 {
                for key in &queues {
                    let queue = self.auditor.model.queues.get(key);
                    let left = queue.is_some_and(|queue| queue.has_deliverable(self.now()));
                    assert!(!left, "jobs of {key:?} were left though COUNT was not reached");
                }
            }
            if own.is_empty() {
                assert!(deadline == Some(0) || !alone, "who may wait does");
                self.reply = Some(Said::NilArray);
            } else {
                self.reply = Some(delivery(taking, own));
            }
        }
        if let Some(reply) = self.reply.take() {
            assert_eq!(*said, reply, "the reply (left) and the model's (right)");
        }
    }

    /// How a request takes, from which queues, and until when it waits (0: not at all).
    fn wish(&self, request: &Request<'static>) -> Option<(Taking, Vec<QueueKey>, Option<u64>)> {
        let (taking, queues, wait_ms) = crate::decide::taking(request)?;
        let deadline = wait_ms.map(|ms| if ms == 0 { 0 } else { self.ceil() + ms });
        Some((taking, queues, deadline))
    }

    /// What must hold after every step.
    fn finish_state(&mut self) {
        let (now, step) = (self.now(), self.step);
        let transaction = matches!(step.input, Input::Request { alone: false, .. });
        // A hand-off gives up after 256 jobs past their TTL; the next sweep goes on.
        if self.expired >= 256 {
            self.auditor.gave_up = true;
        } else if matches!(step.input, Input::Advance { .. }) {
            self.auditor.gave_up = false;
        }
        let model = &self.auditor.model;
        if !transaction && !self.auditor.gave_up {
            for (key, line) in &model.lines {
                let queue = model.queues.get(key);
                let left = queue.is_some_and(|queue| queue.has_deliverable(now));
                assert!(!left, "{line:?} wait for {key:?}, which has ready jobs");
            }
        }
        let counts = model.queues.values().map(ModelQueue::counts);
        let counts = counts.fold([0; 4], |sum, own| std::array::from_fn(|at| sum[at] + own[at]));
        assert_eq!(self.engine.job_counts(), counts, "jobs by state");
        assert_eq!(self.engine.waiter_count(), model.waiting.len(), "waiters");
        for db in 0..16 {
            let exist =
                |(key, queue): &(&QueueKey, &ModelQueue)| key.0 == db && queue.counts() != [0; 4];
            let existing = model.queues.iter().filter(exist).count();
            let told = self.engine.queue_counts()[usize::from(db)];
            assert_eq!(told, existing as u64, "queues in {:?}", Db(db));
        }
        let (Some(advanced), Input::Advance { budget }) = (step.advanced, step.input) else {
            return;
        };
        // Jobs past their TTL that a hand-off meets, and bound leases, have small budgets apart.
        assert!(self.work <= u64::from(budget) + 256, "{} steps of {budget}", self.work);
        let deadlines = model.waiting.values().filter_map(|waiter| waiter.deadline);
        let next = model.queues.values().filter_map(ModelQueue::next).chain(deadlines).min();
        if let Some(next) = next {
            let wakeup = advanced.next_wakeup.expect("something is to happen");
            assert!(wakeup.0 <= next, "woken at {wakeup:?} for something at {next}");
        }
        if !advanced.more {
            assert!(next.is_none_or(|next| next > now.0), "late: {next:?} at {now:?}");
            let leased = model.queues.values().flat_map(|queue| {
                queue.leased.iter().filter_map(|entry| queue.jobs[entry.2].bound_to)
            });
            let lost = leased.into_iter().find(|holder| model.closed.contains(holder));
            assert_eq!(lost, None, "bound leases outlive their connection");
        }
    }
}

fn delivery(taking: Taking, mut jobs: Vec<Job>) -> Said {
    if taking.pop { Said::Popped(jobs.remove(0)) } else { Said::Reserved(jobs) }
}
