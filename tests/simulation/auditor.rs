//! Checks every step of the engine against the model. Knows nothing of the workload.
//!
//! Facts tell how far the engine chose to go (how many due jobs it swept); each is checked for
//! being allowed, then the model follows. What a request must do is predicted (`decide.rs`), and the
//! facts and the reply must be exactly that.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use delayd::engine::model::fact::{Fact, Facts, Image};
use delayd::engine::model::group::GroupSettings;
use delayd::engine::model::meta::Meta;
use delayd::engine::model::queue_settings::{Pause, Pauses, QueueSettings};
use delayd::engine::model::request::{Add, JobState, Request};
use delayd::engine::{Engine, Outcome, Settings};
use delayd::ids::{ClientId, Db, QueueNo};
use delayd::limits::SLACK_STEPS_PER_TURN;
use delayd::time::{Micros, Millis};

use crate::simulation::changes::Led;
use crate::simulation::journal::Journal;
use crate::simulation::lists::Entering;
use crate::simulation::model::{
    Delivery, Kind, Model, ModelJob, ModelQueue, ModelWaiter, QueueKey, Taking, Unsent,
};
use crate::simulation::moves::RedriveRun;
use crate::simulation::schedules::ModelSchedule;
use crate::simulation::trace::{Job, Kept, Said};

/// What the engine was asked.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    Request {
        client: ClientId,
        request: &'a Request<'static>,
        alone: bool,
    },
    /// A transaction is to begin: then its requests follow, not alone, and its end.
    Begin {
        client: ClientId,
        requests: &'a [Request<'static>],
    },
    End,
    Advance {
        budget: u32,
    },
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
    pub more: Option<bool>,
    pub settings: &'a Settings,
    /// The engine's digest before, if it was looked at.
    pub digest_before: Option<u64>,
    /// What a base can become, bytes, as of before.
    pub base_before: u64,
    /// What the engine counted before, bytes.
    pub memory_before: u64,
}

/// A scan that a client has begun: which jobs were there then, and which of them it saw.
pub type ScanRun = (QueueKey, BTreeMap<Kept, (u64, bool)>);

#[derive(Default)]
pub struct Auditor {
    pub model: Model,
    /// Counts steps after which everything ready has been handed to waiters.
    pub steps: u64,
    pub scans: BTreeMap<ClientId, ScanRun>,
    /// The REDRIVEs that clients have begun.
    pub redrives: BTreeMap<ClientId, RedriveRun>,
    /// What the forecasts that clients have begun may say.
    pub forecasts: BTreeMap<ClientId, Vec<Vec<u64>>>,
    gave_up: bool,
    pub journal: Journal,
    pub led: Led,
    /// The tables of zones, and whether schedules are being looked through for them.
    pub tables: usize,
    pub looks_through: bool,
    /// When time passed last, ms.
    pub advanced: u64,
    /// When memory was short last, ms.
    pub crowded: u64,
    /// What was seen, so that a run that tests nothing is noticed.
    pub seen: BTreeMap<&'static str, u64>,
}

/// A step being checked.
pub struct Check<'c> {
    pub auditor: &'c mut Auditor,
    pub step: &'c Step<'c>,
    pub engine: &'c Engine,
    pub answered: Vec<bool>,
    pub decided: bool,
    /// The facts that the request must still make, in order.
    pub expected: VecDeque<Fact<'static>>,
    /// The new job that ADD must make.
    pub to_add: Option<&'c Add<'static>>,
    /// The one that must follow a leased job.
    pub to_follow: Option<&'c Add<'static>>,
    /// When the first job was added whose place the new one takes, if that counts.
    pub since: Option<u64>,
    /// Priority, group and place of one that was ready.
    pub was_ready: Option<(i64, u64)>,
    /// The job whose place another one must take now, and whether that is as before a sweep.
    pub succeeding: Option<(QueueKey, Kept, bool)>,
    /// What must be set, and which pauses there must be.
    pub to_set: Option<(QueueKey, QueueSettings)>,
    pub to_pause: Option<(QueueKey, Pauses)>,
    pub to_group: Option<(QueueKey, Kept, GroupSettings)>,
    /// The schedule that must be set, paused or run.
    pub to_schedule: Option<(QueueKey, ModelSchedule)>,
    pub to_suspend: Option<(QueueKey, u64, Pause)>,
    pub to_run: Option<(QueueKey, Kept)>,
    /// Jobs that are to enter a list.
    pub entering: Option<Entering>,
    /// Jobs that moves brought in this step.
    pub moved_in: BTreeSet<(QueueKey, Kept)>,
    /// The reply that the request must get.
    pub reply: Option<Said>,
    /// What the request took itself.
    pub own: Vec<Job>,
    pub group: Option<Group>,
    pub expired: u32,
    /// Extensions of the job that an EXTEND is about, met so far.
    pub extensions: usize,
    pub work: u64,
    pub last_served: Option<usize>,
    /// The request's reply has been checked.
    replied: bool,
    /// Queues in which groups had jobs before the step, or could come to have some in it.
    pub grouped_before: BTreeSet<QueueKey>,
    /// The rate of its group has counted the job that was taken last.
    pub counted: bool,
    /// Popped jobs that go back.
    pub returning: VecDeque<ModelJob>,
    /// Room and reserve before the step.
    pub room_before: (u64, u64),
}

/// A waiter being served.
pub struct Group {
    pub client: ClientId,
    pub key: QueueKey,
    pub waiter: ModelWaiter,
    pub jobs: Vec<Job>,
}

impl Auditor {
    pub fn note(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// Whether it is worth knowing the digest before a step, of so many jobs: the more there are the less often, as it
    /// looks at all.
    pub fn wants_digest(&self, jobs: u64) -> bool {
        self.journal.is_short() && self.steps.is_multiple_of(4.max(jobs / 50))
    }

    /// Panics if the step was wrong.
    pub fn audit(&mut self, step: &Step<'_>, engine: &Engine) {
        let facts: Vec<Fact<'_>> =
            step.facts.iter().collect::<Result<_, _>>().expect("own facts are readable");
        let mut again = Facts::default();
        facts.iter().for_each(|fact| again.push(fact));
        assert_eq!(again.bytes, step.facts.bytes, "facts survive decoding and encoding");
        assert_eq!(again.count, step.facts.count, "facts are counted");

        self.note_crowded(step, engine);
        let grouped = self.model.queues.iter().filter(|(_, queue)| queue.may_be_shared());
        let grouped_before = grouped.map(|(key, _)| *key).collect();
        let mut check = Check {
            grouped_before,
            auditor: self,
            step,
            engine,
            answered: vec![false; step.replies.len()],
            decided: false,
            expected: VecDeque::new(),
            to_add: None,
            to_follow: None,
            since: None,
            was_ready: None,
            succeeding: None,
            to_set: None,
            to_pause: None,
            to_group: None,
            to_schedule: None,
            to_suspend: None,
            to_run: None,
            entering: None,
            moved_in: BTreeSet::new(),
            reply: None,
            own: Vec::new(),
            group: None,
            expired: 0,
            extensions: 0,
            work: 0,
            last_served: None,
            replied: false,
            counted: false,
            returning: VecDeque::new(),
            room_before: (0, 0),
        };
        check.spend(&facts);
        check.note_standstill();
        check.begin();
        for fact in &facts {
            check.fact(fact);
        }
        check.finish();
        self.note_advance(step);
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

    pub fn requester(&self) -> Option<ClientId> {
        match self.step.input {
            Input::Request { client, .. } => Some(client),
            _ => None,
        }
    }

    fn begin(&mut self) {
        match self.step.input {
            Input::Sent(client) => {
                self.model().unsent.remove(&client);
            }
            Input::Unsent(client) => {
                let model = self.model();
                model.going_back.extend(model.unsent.remove(&client).unwrap_or_default());
                self.decided = true;
            }
            Input::Closed(client) => {
                self.model().unsent.remove(&client);
                self.model().leave(client);
                self.model().closed.insert(client);
            }
            Input::StopWaiting(client) => {
                self.model().leave(client);
            }
            _ => {}
        }
    }

    /// Finds the next that was in the hand of a connection that is gone and has to go back.
    pub fn expect_back(&mut self) {
        while self.expected.is_empty()
            && let Some(handed) = self.model().going_back.pop_front()
        {
            self.expect_back_of(handed);
        }
    }

    fn expect_back_of(&mut self, handed: Unsent) {
        match handed {
            Unsent::Leased(key, id, token, delivery) => {
                let Some(job) = self.model().job(key, id) else { return };
                let group = job.group;
                if job.state == JobState::Leased && job.token == Some(token) {
                    let queue = QueueNo(self.model().queue(key).number);
                    self.expected.push_back(Fact::Unleased { queue, id });
                    self.expect_given_back(key, group, delivery);
                }
            }
            Unsent::Gone(key, birth, job, delivery) => {
                let Some(queue) = self.model().queues.get(&key) else { return };
                if queue.birth == birth && !queue.jobs.contains_key(job.id) {
                    let queue = QueueNo(queue.number);
                    let [nacks, timeouts, lost] = [job.nacks, job.timeouts, job.lost];
                    let counts =
                        [job.attempt, job.deliveries, nacks, timeouts, lost, job.unanswered];
                    let image = Image {
                        id: job.id,
                        body: job.body,
                        group: Some(job.group).filter(|group| !group.is_empty()),
                        meta: Meta::read(job.meta).expect("META as it was given"),
                        policy: Default::default(),
                        priority: job.priority,
                        added: Millis(job.added),
                        due: Millis(job.due),
                        place: 0,
                        history: (job.deliveries > 0).then_some(counts),
                        error: job.errors.first().map(|(text, _)| *text),
                    };
                    self.expected.push_back(Fact::Unpopped { queue, image });
                    let group = job.group;
                    // It comes back with the newest text alone.
                    let mut job = *job;
                    job.errors.truncate(1);
                    job.errors.iter_mut().for_each(|(_, given)| *given = None);
                    self.returning.push_back(job);
                    self.expect_given_back(key, group, delivery);
                }
            }
        }
    }

    fn expect_given_back(&mut self, key: QueueKey, group: Kept, (at, counted): Delivery) {
        let queue = self.model().queue(key);
        let gave = queue.given_back(group, at).filter(|_| counted);
        let queue = QueueNo(queue.number);
        let fact = gave.map(|gave| Fact::GroupPaced { queue, group, gave });
        self.expected.extend(fact);
    }

    /// Where there is room, all of them go back.
    fn finish_back(&mut self) {
        let (input, more) = (self.step.input, self.step.more);
        let all = match input {
            Input::Unsent(_) => true,
            _ => more == Some(false),
        };
        if all && !self.auditor.journal.is_short() {
            self.expect_back();
        }
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

    pub fn decide_once(&mut self) {
        if !std::mem::replace(&mut self.decided, true) {
            self.refuse_moves_first();
            self.decide();
        }
    }

    fn finish(&mut self) {
        if self.step.more == Some(false) {
            self.open_all_paced();
        }
        if self.step.outcome != Some(Outcome::Again) {
            self.decide_once();
        }
        self.finish_back();
        assert!(self.expected.is_empty(), "missing facts: {:?}", self.expected);
        assert!(self.to_add.is_none() && self.entering.is_none(), "the job was not added");
        assert!(self.to_follow.is_none() && self.succeeding.is_none(), "the job does not follow");
        let unset = self.to_group.is_some() || self.to_pause.is_some();
        assert!(self.to_set.is_none() && !unset, "nothing was set");
        let undone = self.to_schedule.is_some() || self.to_suspend.is_some();
        assert!(!undone && self.to_run.is_none(), "no schedule was set, paused or run");
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
                if let Request::Forecast { queue, span_ms, count, .. } = *request {
                    let key = (queue.db.0, queue.name);
                    self.forecast_again(key, span_ms, count, client);
                }
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
        if !alone {
            self.check_whole();
        }
        if self.replied {
            return;
        }
        let said = self.answer_of(client).expect("a request is answered");
        self.end_redrive(client, request, said);
        if let (Some((taking, queues, deadline)), false) =
            (self.wish(request), matches!(said, Said::Error(_)))
        {
            assert!(own.len() <= taking.count, "more than COUNT");
            let mut order = queues.iter().peekable();
            for job in &own {
                while order.next_if(|key| **key != job.queue).is_some() {}
                assert!(order.peek().is_some(), "queues in the order of arguments");
            }
            let held = self.auditor.journal.throttles();
            // A list pop takes of the first queue that has any, and of no other.
            let queues = match (taking.kind, own.last()) {
                (Kind::List { .. }, Some(last)) => {
                    assert!(own.iter().all(|job| job.queue == last.queue), "of one queue");
                    vec![last.queue]
                }
                _ => queues,
            };
            if own.len() < taking.count && self.expired < 256 && !held {
                for key in &queues {
                    let queue = self.auditor.model.queues.get(key);
                    // A client that waits may have moved a job to where the request has been already.
                    let brought = |id| self.moved_in.contains(&(*key, id));
                    let left = queue
                        .is_some_and(|queue| queue.must_give_any(self.step.now, |id| !brought(id)));
                    assert!(!left, "jobs of {key:?} were left though COUNT was not reached");
                }
            }
            if own.is_empty() {
                assert!(deadline == Some(0) || !alone, "who may wait does");
                self.reply = Some(taking.kind.nothing());
            } else {
                self.reply = Some(delivery(taking, own));
            }
        }
        if let Some(reply) = self.reply.take() {
            assert_eq!(*said, reply, "the reply (left) and the model's (right)");
        }
    }

    /// In a transaction no time passes, but jobs that it made due itself are ready; and nothing is refused for want of
    /// what was looked at before it began.
    fn check_whole(&self) {
        for fact in self.step.facts.iter().map(|fact| fact.expect("readable")) {
            let passes = matches!(
                fact,
                Fact::LeaseOver { .. }
                    | Fact::WindowOver { .. }
                    | Fact::Occurred { .. }
                    | Fact::ScheduleMoved { .. }
            );
            assert!(!passes, "time passed in a transaction: {fact:?}");
        }
        for (_, said) in self.step.replies {
            let Said::Error(text) = said else { continue };
            let lacking = ["FULL ", "PAUSED ", "OOM ", "MISCONF "];
            let half_way = lacking.iter().any(|class| text.starts_with(class));
            assert!(!half_way, "a transaction was not run to its end: {text}");
        }
    }

    /// Whether the step is a request of a transaction.
    pub fn in_transaction(&self) -> bool {
        matches!(self.step.input, Input::Request { alone: false, .. })
    }

    /// How a request takes, from which queues, and until when it waits (0: not at all).
    fn wish(&self, request: &Request<'static>) -> Option<(Taking, Vec<QueueKey>, Option<u64>)> {
        let (taking, queues, wait_ms) = crate::simulation::decide::taking(request)?;
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
        let short = self.auditor.journal.is_short();
        self.auditor.gave_up |= self.auditor.journal.throttles();
        let passed = step.more == Some(false);
        let model = &self.auditor.model;
        if !transaction && !self.auditor.gave_up {
            for (key, line) in &model.lines {
                // A rate, of the queue or of a job's group, allows the next one at a time of its own, seen to when time passes.
                let queue =
                    model.queues.get(key).filter(|queue| passed || queue.policies.rate() == 0);
                let left = queue.is_some_and(|queue| {
                    let paces = &queue.sharing.paces;
                    let is_paced = |id: Kept| paces.contains_key(&queue.jobs[id].group);
                    queue.must_give_any(now.start(), |id| passed || !is_paced(id))
                });
                assert!(!left, "{line:?} wait for {key:?}, which has ready jobs");
            }
        }
        // At every reply, whatever it was that made them die, or lowered the limit.
        let crowded = |queue: &ModelQueue| queue.dead.len() as u64 > queue.policies.dead_max();
        assert!(!model.queues.values().any(crowded), "more dead jobs than are kept");
        let counts = model.queues.values().map(ModelQueue::counts);
        let counts = counts.fold([0; 4], |sum, own| std::array::from_fn(|at| sum[at] + own[at]));
        assert_eq!(self.engine.job_counts(), counts, "jobs by state");
        assert_eq!(self.engine.waiter_count(), model.waiting.len(), "waiters");
        for db in 0..16 {
            let exist = |(key, queue): &(&QueueKey, &ModelQueue)| key.0 == db && queue.exists();
            let existing = model.queues.iter().filter(exist).count();
            let told = self.engine.queue_counts()[usize::from(db)];
            assert_eq!(told, existing as u64, "queues in {:?}", Db(db));
        }
        let (Some(more), Input::Advance { budget }) = (step.more, step.input) else {
            return;
        };
        // Jobs past their TTL that a hand-off meets, and bound leases, have small budgets apart.
        let apart = 256 + u64::from(self.expired.min(SLACK_STEPS_PER_TURN));
        assert!(self.work <= u64::from(budget) + apart, "{} steps of {budget}", self.work);
        let deadlines = model.waiting.values().filter_map(|waiter| waiter.deadline);
        let happens = model.queues.values().filter_map(ModelQueue::next).filter(|_| !short);
        let served = !self.auditor.gave_up;
        let lines = model.lines.keys().filter(|_| served).filter_map(|key| model.queues.get(key));
        let happens = happens.chain(lines.filter_map(|queue| queue.rate_wakes(now)));
        let happens = happens.chain(self.agenda_wakes().filter(|_| !short));
        // Those of the past may have been looked at: no fact says so.
        let paced = model.queues.values().filter_map(ModelQueue::next_paced);
        let happens = happens.chain(paced.filter(|at| !short && *at > now.0));
        let next = happens.chain(deadlines).min();
        if let Some(next) = next {
            let wakeup = self.engine.next_wakeup().expect("something is to happen");
            assert!(wakeup.0 <= next, "woken at {wakeup:?} for something at {next}");
        }
        if !more && short {
            return assert!(next.is_none_or(|next| next > now.0), "late: {next:?} at {now:?}");
        }
        if !more {
            assert!(next.is_none_or(|next| next > now.0), "late: {next:?} at {now:?}");
            // What a hand-off made room for comes at once, in the next turn.
            if self.engine.next_wakeup().is_none_or(|wakeup| wakeup > now) {
                self.check_agenda();
            }
            let model = &self.auditor.model;
            let leased = model.queues.values().flat_map(|queue| {
                queue.leased.iter().filter_map(|entry| queue.jobs[entry.2].bound_to)
            });
            let former = !self.auditor.led.lasts(now);
            let lost = leased.into_iter().find(|holder| {
                model.closed.contains(holder) || former && model.former.contains(holder)
            });
            assert_eq!(lost, None, "bound leases outlive their connection");
        }
    }
}

pub fn delivery(taking: Taking, mut jobs: Vec<Job>) -> Said {
    match taking.kind {
        Kind::Pop => Said::Popped(jobs.remove(0)),
        Kind::Reserve => Said::Reserved(jobs),
        Kind::List { shape, .. } => Said::Listed(shape, jobs),
        Kind::Move { .. } => unreachable!("what is moved is handed to nobody"),
    }
}
