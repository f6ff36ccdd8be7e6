//! The core: jobs, queues, leases, retries, dead letters, waiters. A plain data structure without
//! clock, socket, file, thread or chance: what it does depends on what it is told, byte for byte.
//!
//! A request is *decided* against the state (in `decide`, a file for each family; in `handoff` for what
//! takes jobs, in `advance` for time passing) into [`Fact`](model::fact::Fact)s, which are *applied* by
//! one function (`store::apply`), the same that recovery uses.

mod advance;
pub mod decide;
mod handoff;
pub mod model;
pub mod room;
mod snapshot;
mod step;
mod store;
pub mod watch;

use std::collections::{HashMap, VecDeque};

use ahash::RandomState;
use smallvec::SmallVec;

use crate::error::Error;
use crate::ids::{ClientId, PolicyNo, QueueNo};
use crate::time::{Micros, Millis};
use handoff::unsent::InHand;
use handoff::waiters::Waiters;
pub use model::fact::Facts;
use model::fact::{Fact, Malformed};
use model::reply::{Outbox, Reply};
use model::request::{QueueName, Request};
use room::Gate;
pub use snapshot::load::Loader;
pub(crate) use snapshot::record;
use store::apply::Applied;
use store::jobs::JobIndex;
use store::{Located, Store};

/// What the engine is told from outside. Consulted when deciding, never when applying.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Seed of the id hash. An input, so that the engine's answers depend on its inputs alone.
    pub hash_seed: u64,
    /// Tokens and server-made ids are above this; see [`model::token::floor_at`].
    pub token_floor: u64,
    /// `max-delay`, ms.
    pub delay_ms_max: u64,
    /// `default-lease`, ms.
    pub lease_ms_default: u64,
    /// `max-lease`, ms.
    pub lease_ms_max: u64,
    /// `maxmemory`, bytes; 0 for no limit.
    pub memory_bytes_max: u64,
    /// Bytes that the process has resident over what `maxmemory` allows, whatever they are: while there are
    /// any, nothing is added.
    pub memory_bytes_over: u64,
    /// `stats-retention`, ms.
    pub stats_retention_ms: u64,
    /// Bytes that freed jobs have left behind that are worth moving others together.
    pub spare_bytes_min: usize,
    /// How long hardly any job comes or goes before others are moved together, ms.
    pub spare_quiet_ms: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            hash_seed: 0,
            token_floor: 0,
            delay_ms_max: crate::limits::DELAY_MS_DEFAULT,
            lease_ms_default: crate::limits::LEASE_MS_DEFAULT,
            lease_ms_max: crate::limits::LEASE_MS_MAX_DEFAULT,
            memory_bytes_max: 0,
            memory_bytes_over: 0,
            stats_retention_ms: crate::limits::STATS_RETENTION_MS_DEFAULT,
            spare_bytes_min: crate::limits::SPARE_BYTES_MIN,
            spare_quiet_ms: crate::limits::SPARE_QUIET_MS,
        }
    }
}

/// Where one turn's results go.
pub struct Turn<'t> {
    /// What was decided, for the journal.
    pub facts: &'t mut Facts,
    /// Replies, to the asking client and to waiters.
    pub outbox: &'t mut dyn Outbox,
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// A reply was sent.
    Replied,
    /// The client is in line; the reply comes in a later step. It has no other request meanwhile.
    Waiting,
    /// A slice of the work is done; ask the same again in the next turn. Nothing changed that
    /// anybody can see.
    Again,
}

/// What passing time left to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advanced {
    /// When `advance` must be called next, at the latest; never too late.
    pub next_wakeup: Option<Millis>,
    /// The budget was used up: call again in the next turn.
    pub more: bool,
}

/// Owned id bytes, while the job they belong to changes. Most ids fit without an allocation.
type IdBytes = SmallVec<[u8; 64]>;

/// One partition: queues, their jobs, and who waits for them.
#[derive(Debug)]
pub struct Engine {
    store: Store,

    // Volatile: all below.
    settings: Settings,
    waiters: Waiters,
    /// Queues whose jobs became ready in this step and that have waiters, in that order; and before
    /// them those of earlier steps whose waiters could not be served, since the journal did not
    /// allow it.
    touched: Vec<QueueNo>,
    /// Queues with due work, which take turns.
    sweeping: VecDeque<QueueNo>,
    /// Timers that may still be moved ahead of their time in this turn.
    opening: u32,
    /// Steps of passing time that requests may still do before it passes again.
    slack: u32,
    /// KEYS that are half done.
    walks: HashMap<ClientId, decide::keys::Walk, RandomState>,
    /// REDRIVEs that are half done.
    redrives: HashMap<ClientId, decide::redrive::Progress, RandomState>,
    /// Searches through ready jobs that are half done.
    searches: HashMap<ClientId, Box<decide::list::Search>, RandomState>,
    /// Bytes of jobs handed over since time passed last, which it does once a turn.
    handed_bytes: usize,
    /// What was handed over in replies that have not reached the kernel.
    in_hand: HashMap<ClientId, InHand, RandomState>,
    /// What was in the hands of connections that are gone, and goes back.
    returning: VecDeque<handoff::unsent::Returning>,
    /// The queue asked for last: most requests go where the one before went, and comparing a name is
    /// cheaper than hashing it.
    likely_queue: QueueNo,
    /// The policy of the job added last.
    likely_policy: PolicyNo,
    /// Leases that end with their connection.
    bound: HashMap<ClientId, decide::lease::Bounds, RandomState>,
    /// Such leases of connections that are gone, still to be ended.
    unbound: VecDeque<std::vec::IntoIter<decide::lease::Bound>>,
    /// Such leases that an orderly shutdown ends.
    ending: VecDeque<std::vec::IntoIter<decide::lease::Bound>>,
    /// What clients watch that did not exist when they began to.
    absent: HashMap<ClientId, decide::watch::Absent, RandomState>,
    /// A transaction has begun and is not over: no time passes, and what its requests need is there.
    in_transaction: bool,
    /// What the journal allows.
    gate: Gate,
    /// The monotonic clock in this turn, if the engine was told: deadlines of waiters are instants of it.
    monotonic: Option<Micros>,
    /// What happened to jobs since it was last taken; none while nobody wants to hear of it.
    events: Option<Box<model::event::Events>>,
    /// What has happened since the start.
    tally: watch::tally::Tally,
}

impl Engine {
    /// The reply to a waiter whose deadline came, or whom CLIENT UNBLOCK released.
    pub const TIMED_OUT: Reply<'static> = Reply::NilArray;

    /// An empty engine.
    pub fn new(settings: Settings) -> Engine {
        let store = Store::new(&settings);
        let hasher = store.hasher().state();
        Engine {
            store,
            settings,
            waiters: Waiters::new(hasher.clone()),
            touched: Vec::new(),
            sweeping: VecDeque::new(),
            opening: 0,
            slack: crate::limits::SLACK_STEPS_PER_TURN,
            walks: HashMap::with_hasher(hasher.clone()),
            redrives: HashMap::with_hasher(hasher.clone()),
            searches: HashMap::with_hasher(hasher.clone()),
            handed_bytes: 0,
            in_hand: HashMap::with_hasher(hasher.clone()),
            returning: VecDeque::new(),
            likely_queue: QueueNo(0),
            likely_policy: PolicyNo(0),
            bound: HashMap::with_hasher(hasher.clone()),
            absent: HashMap::with_hasher(hasher),
            unbound: VecDeque::new(),
            ending: VecDeque::new(),
            in_transaction: false,
            gate: Gate::default(),
            monotonic: None,
            events: None,
            tally: watch::tally::Tally::default(),
        }
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The settings, to be changed between turns.
    pub fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// From here on it is `at` on a clock that goes on evenly, whatever `now` does: who waits for so many
    /// seconds does so by that clock. To be told before every turn, or never; then `now` serves for it.
    pub fn set_monotonic(&mut self, at: Micros) {
        self.monotonic = Some(at);
    }

    /// The deadline of who waits for `ms` from now on. On the monotonic clock it does not come before the
    /// jobs of the same ms on the engine's.
    fn deadline(&self, now: Micros, ms: u64) -> Millis {
        let until = now.ceil().plus(ms);
        let Some(at) = self.monotonic else { return until };
        Micros(at.0.saturating_add(until.start().0 - now.0)).ceil()
    }

    /// Decides and applies one request, then hands ready jobs to waiters. The client must not be
    /// waiting.
    pub fn handle(
        &mut self,
        now: Micros,
        client: ClientId,
        request: &Request<'_>,
        turn: &mut Turn<'_>,
    ) -> Outcome {
        // Whom the journal did not let be served in earlier steps comes first.
        self.hand_off(now, turn);
        let outcome = Step { engine: self, now, client, turn, alone: true }.run(request);
        self.hand_off(now, turn);
        // Who began to wait may have been served by that: a waiter before it moved a job to where it waits.
        let served = outcome == Outcome::Waiting && !self.waiters.is_waiting(client);
        if served { Outcome::Replied } else { outcome }
    }

    /// One request of a transaction that has begun: never waits, is never cut short, and hands nothing to
    /// waiters. Outside of one, a reading request that must hand nothing off.
    pub fn handle_in_transaction(
        &mut self,
        now: Micros,
        client: ClientId,
        request: &Request<'_>,
        turn: &mut Turn<'_>,
    ) -> Outcome {
        Step { engine: self, now, client, turn, alone: false }.run(request)
    }

    /// Applies facts of an earlier turn, as recovery does.
    pub fn apply(&mut self, now: Micros, facts: &Facts) -> Result<(), Malformed> {
        self.apply_encoded(now, &facts.bytes, facts.count)
    }

    /// As [`Engine::apply`], of `count` facts that are encoded. An error says at which byte; what
    /// stands before it has been applied.
    pub fn apply_encoded(
        &mut self,
        now: Micros,
        bytes: &[u8],
        count: u64,
    ) -> Result<(), Malformed> {
        let (mut reader, mut applied) = (model::fact::Reader::new(bytes), 0);
        while !reader.is_done() {
            self.store.apply(now, &Fact::decode(&mut reader)?);
            applied += 1;
        }
        if applied == count { Ok(()) } else { Err(Malformed { at: bytes.len() }) }
    }

    /// Gives back what facts that were [applied](Engine::apply_encoded) have left behind, in `budget` steps:
    /// for recovery, which lets no time pass.
    pub fn tidy_applied(&mut self, mut budget: u32) {
        if self.store.bury_slice(&mut budget) {
            self.store.tidy(None, &mut budget, true, |_| false);
        }
    }

    /// Bytes held for a client's places in lines.
    pub fn waiting_bytes(&self, client: ClientId) -> usize {
        self.waiters.bytes(client)
    }

    /// Bytes counted for jobs and queues: follows from what there is, not from how it came about.
    pub fn memory_bytes(&self) -> u64 {
        self.store.bytes + self.returning_bytes() as u64
    }

    /// Bytes held for jobs and queues, with what freed jobs have left behind until it is given back. Never
    /// less than what is counted.
    pub fn held_bytes(&self) -> u64 {
        self.store.held_bytes().max(self.store.bytes) + self.returning_bytes() as u64
    }

    /// Bytes that the jobs there are take more once all of them have been delivered.
    pub fn lease_bytes_to_come(&self) -> u64 {
        self.store.lease_bytes_to_come(0, 0)
    }

    /// How many queues exist in each database.
    pub fn queue_counts(&self) -> [u64; 16] {
        self.store.existing()
    }

    /// How many clients wait.
    pub fn waiter_count(&self) -> usize {
        self.waiters.len()
    }

    /// Jobs by state (delayed, ready, leased, dead), all queues.
    pub fn job_counts(&self) -> [u64; 4] {
        self.store.counts()
    }
}

/// One step: a request being decided. Facts of it are applied as they are decided.
struct Step<'s, 't> {
    engine: &'s mut Engine,
    now: Micros,
    client: ClientId,
    turn: &'s mut Turn<'t>,
    /// Not inside a transaction.
    alone: bool,
}

impl Step<'_, '_> {
    /// Refuses what the journal might not take before anything of it is done.
    fn run(&mut self, request: &Request<'_>) -> Outcome {
        if let Err(misconf) = self.engine.admit(request) {
            if let Some(moved) = self.engine.broken_off(self.client, &misconf) {
                return self.reply(Reply::Integer(moved as i64));
            }
            return self.refuse(&misconf.into());
        }
        let outcome = self.decide(request);
        self.engine.gate.release();
        outcome
    }

    fn decide(&mut self, request: &Request<'_>) -> Outcome {
        match *request {
            Request::Add(ref add) => self.add(add),
            Request::Push(ref push) => self.push(push),
            Request::ListPop(ref pop) => self.list_pop(pop),
            Request::Move(ref of) => self.move_between(of),
            Request::Range { queue, start, stop } => self.range(queue, start, stop),
            Request::At { queue, place } => self.at(queue, place),
            Request::Find(ref find) => self.find_equal(find),
            Request::DeleteEqual { queue, body, from, count } => {
                self.delete_equal(queue, body, from, count)
            }
            Request::Pop { db, queues, wait } => self.pop(db, queues, wait),
            Request::Reserve(ref reserve) => self.reserve(reserve),
            Request::Ack { queue, ref jobs } => self.ack(queue, jobs),
            Request::Nack(ref nack) => self.nack(nack),
            Request::Extend { queue, id, token, lease_ms } => {
                self.extend(queue, id, token, lease_ms)
            }
            Request::Delete { queue, ids } => self.delete(queue, ids),
            Request::Cancel { queue, id, force } => self.cancel(queue, id, force),
            Request::Reschedule { queue, id, when, only } => self.reschedule(queue, id, when, only),
            Request::Redrive(ref redrive) => self.redrive(redrive),
            Request::Purge { queue, purge } => self.purge(queue, purge),
            Request::Get { queue, id } => self.get(queue, id),
            Request::Settings { queue, only } => self.show_settings(queue, only),
            Request::Configure { queue, ref changes } => self.configure(queue, changes),
            Request::Unconfigure { queue } => self.unconfigure(queue),
            Request::Pause { queue, direction, for_ms } => self.pause(queue, direction, for_ms),
            Request::Resume { queue, direction } => self.resume(queue, direction),
            Request::Stats { queue } => self.stats(queue),
            Request::Forecast { queue, span_ms, count } => self.forecast(queue, span_ms, count),
            Request::Len { queue, state } => self.len(queue, state),
            Request::Peek { queue, state, count } => self.peek(queue, state, count),
            Request::Scan { queue, cursor, state, pattern, count } => {
                self.scan(queue, cursor, state, pattern, count)
            }
            Request::Remove { db, queues } => self.remove(db, queues),
            Request::Rename { db, queue, to, only_new } => self.rename(db, queue, to, only_new),
            Request::Exists { db, queues } => self.exists(db, queues),
            Request::Flush { db } => self.flush(db),
            Request::Keys { db, pattern } => self.keys(db, pattern),
            Request::ScanQueues { db, cursor, pattern, count } => {
                self.scan_queues(db, cursor, pattern, count)
            }
            Request::RandomQueue { db, draw } => self.random_queue(db, draw),
            Request::QueueCount { db } => {
                let count = self.engine.store.database(db).existing;
                self.reply(Reply::Integer(count as i64))
            }
            Request::Memory { queue } => self.memory(queue),
        }
    }

    fn reply(&mut self, reply: Reply<'_>) -> Outcome {
        self.turn.outbox.reply(self.client, reply);
        Outcome::Replied
    }

    fn refuse(&mut self, error: &Error) -> Outcome {
        self.reply(Reply::Error(error))
    }

    fn commit(&mut self, fact: &Fact<'_>, at: Located) -> Applied {
        self.engine.commit(self.now, self.turn, fact, at)
    }

    /// The queue, if its name is bound. What has fallen due in it is swept first, within a small
    /// budget, so that a request at 12:00:00.000 sees the jobs of 12:00:00.000.
    fn queue(&mut self, name: QueueName<'_>) -> Option<QueueNo> {
        let likely = self.engine.likely_queue;
        let number = match self.engine.store.bound_queue(likely) {
            Some(queue) if queue.db == name.db && *queue.name == *name.name => likely,
            _ => self.engine.store.queue_no(name.db, name.name)?,
        };
        self.engine.likely_queue = number;
        self.catch_up(number);
        Some(number)
    }

    /// Sweeps what is due now. Whoever waits for it gets it before the request goes on.
    fn catch_up(&mut self, number: QueueNo) {
        // In a transaction no time passes: it happens at one instant.
        let passes = !self.engine.in_transaction;
        if passes && self.engine.catch_up(number, self.now, self.turn) && self.alone {
            self.engine.hand_off(self.now, self.turn);
        }
    }

    /// The queue and the job, if there is one (or a window) with this id.
    fn find(&mut self, name: QueueName<'_>, id: &[u8]) -> Option<(QueueNo, Located, JobIndex)> {
        let number = self.queue(name)?;
        let at = self.engine.store.locate(number, id);
        Some((number, at, at.index?))
    }
}

impl Engine {
    fn commit(
        &mut self,
        now: Micros,
        turn: &mut Turn<'_>,
        fact: &Fact<'_>,
        at: Located,
    ) -> Applied {
        self.record(turn, fact);
        if self.events.is_some() {
            self.tell(fact, at);
        }
        self.count(now, fact, at);
        self.store.apply_at(now, fact, at)
    }

    fn record(&mut self, turn: &mut Turn<'_>, fact: &Fact<'_>) {
        let before = turn.facts.bytes.len();
        turn.facts.push(fact);
        self.gate.spend((turn.facts.bytes.len() - before) as u64);
    }

    fn id_of(&self, index: JobIndex) -> IdBytes {
        IdBytes::from_slice(self.store.jobs.id(index))
    }

    fn located(&self, index: JobIndex) -> Located {
        Located { hash: self.store.jobs.get(index).hash, index: Some(index) }
    }

    /// Notes that a job of the queue became ready in this step; `place` is its place if it is new.
    fn touch(&mut self, number: QueueNo, place: Option<i64>) {
        let queue = self.store.queue_mut(number);
        if queue.line.is_none() {
            return;
        }
        if let Some(place) = place {
            queue.stale.give(place);
        }
        if !std::mem::replace(&mut queue.touched, true) {
            self.touched.push(number);
        }
    }
}
