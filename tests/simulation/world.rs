//! A run: the virtual clock, the clients, the engine and its replica. Every call of the engine goes
//! through [`World::call`], which has it audited and remembers what came out.

use bytes::BytesMut;
use delayd::command::show::render::render;
use delayd::engine::decide::transaction::{Needs, TransactionBegun, WholeTransaction};
use delayd::engine::journal_room::Flow;
use delayd::engine::model::fact::Fact;
use delayd::engine::model::group::Grouping;
use delayd::engine::model::reply::{Outbox, Reply};
use delayd::engine::model::request::{QueueName, Request, Scan, Which};
use delayd::engine::model::schedule::Scheduling;
use delayd::engine::model::walk::Cursor;
use delayd::engine::{Engine, Facts, Outcome, Settings, Turn};
use delayd::error::Error;
use delayd::ids::{ClientId, Db};
use delayd::limits::DELAY_MS_MAX;
use delayd::resp::{Encoder, Protocol};
use delayd::time::Micros;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::borrow::Cow;

use crate::simulation::auditor::{Auditor, Input, Step};
use crate::simulation::changes::Changes;
use crate::simulation::journal;
use crate::simulation::model::ModelQueue;
use crate::simulation::timetable::{TABLES, tables};
use crate::simulation::trace::{Recorder, Said, keep};
use crate::simulation::workload::{Held, Op, Options, Workload};

/// 2025-01-01 in µs.
const BEGIN_US: u64 = 1_735_689_600_000_000;

/// The clock is not led beyond the year 2500, so that all sums of instants stay in range.
const END_US: u64 = 16_725_225_600_000_000;

#[derive(Debug)]
pub struct Client {
    pub id: ClientId,
    pub waits: bool,
    /// Replies that have not reached the kernel.
    unsent: bool,
    pub held: Vec<Held>,
    /// To be asked again, since only a slice was done.
    pub again: Option<Request<'static>>,
    scan: Option<(QueueName<'static>, u64, u32)>,
}

/// All that a run gave out; equal for equal seeds.
#[derive(PartialEq, Eq, Default)]
pub struct Record {
    pub facts: Vec<u8>,
    pub replies: Vec<(ClientId, Said)>,
    pub digests: Vec<u64>,
}

pub struct World {
    pub engine: Engine,
    /// Gets the facts alone, with another hash seed.
    pub replica: Engine,
    pub auditor: Option<Auditor>,
    pub record: Record,
    pub workload: Workload,
    pub now: Micros,
    pub turn_facts: Facts,
    /// The leader changes, and the replica follows as a node does.
    pub changes: Option<Changes>,
    /// The tables of zones of the engine and of its replica.
    pub tables: [usize; 2],
    pub clients: Vec<Client>,
    last_client: u64,
    pub more: Option<bool>,
    /// What the journal allows in each turn from here on.
    pub flow: Flow,
    /// What became of the transaction that was to begin.
    begun: Option<TransactionBegun>,
    /// Bytes of replies and of facts since one began, but for jobs past their TTL, which are met by
    /// chance.
    replied_bytes: u64,
    made_bytes: u64,
}

impl World {
    pub fn new(seed: u64, audited: bool) -> World {
        let mut rng = SmallRng::seed_from_u64(seed);
        let options = Options::draw(&mut rng);
        let settings = Settings {
            hash_seed: seed,
            token_floor: 1_000_000,
            delay_ms_max: DELAY_MS_MAX,
            lease_ms_default: options.lease_ms_default,
            memory_bytes_max: options.memory_bytes_max,
            stats_retention_ms: options.stats_retention_ms,
            ..Settings::default()
        };
        let replica = Settings { hash_seed: !seed, ..settings.clone() };
        let now = Micros(BEGIN_US + rng.random_range(0..2_000));
        let count = options.clients;
        let workload = Workload::new(rng, options);
        let mut world = World {
            engine: Engine::new(settings),
            replica: Engine::new(replica),
            auditor: audited.then(Auditor::default),
            record: Record::default(),
            workload,
            now,
            turn_facts: Facts::default(),
            changes: None,
            tables: [0, 1],
            clients: Vec::new(),
            last_client: 0,
            more: None,
            flow: Flow::default(),
            begun: None,
            replied_bytes: 0,
            made_bytes: 0,
        };
        (0..count).for_each(|_| world.connect());
        world.give_tables();
        world
    }

    /// What is replayed has other tables than what decides.
    pub fn give_tables(&mut self) {
        let [own, other] = self.tables;
        self.engine.set_zones(tables(own));
        self.replica.set_zones(tables(other));
        if let Some(auditor) = &mut self.auditor {
            auditor.set_tables(own);
        }
    }

    fn swap_tables(&mut self) {
        let Some(next) = self.workload.next_tables() else { return };
        let other = self.workload.pick(TABLES);
        self.tables = [next, other];
        self.give_tables();
    }

    pub fn connect(&mut self) {
        self.last_client += 1;
        let id = ClientId(self.last_client);
        let (waits, unsent, held) = (false, false, Vec::new());
        self.clients.push(Client { id, waits, unsent, held, again: None, scan: None });
    }

    /// One call of the engine.
    pub fn call(&mut self, input: Input<'_>) -> (Option<Outcome>, Option<bool>) {
        let mut facts = Facts::default();
        let mut outbox = Metered::default();
        let (engine, now) = (&mut self.engine, self.now);
        // It takes long where there are many jobs: only where a request may be refused.
        let jobs = engine.job_counts().iter().sum();
        let digests = self.auditor.as_ref().is_some_and(|auditor| auditor.wants_digest(jobs));
        let digest_before = digests.then(|| engine.digest());
        let base_before = engine.base_bytes_later();
        let leases = engine.lease_bytes_to_come();
        let leases = leases.saturating_sub(engine.settings().memory_bytes_max / 16);
        let memory_before = engine.memory_bytes() + leases;
        let turn = &mut Turn { facts: &mut facts, outbox: &mut outbox };
        let (mut outcome, mut more) = (None, None);
        match input {
            Input::Request { client, request, alone: true } => {
                outcome = Some(engine.handle(now, client, request, turn));
            }
            Input::Request { client, request, alone: false } => {
                outcome = Some(engine.handle_in_transaction(now, client, request, turn));
            }
            Input::Begin { client, requests } => {
                let (watched, beside) = (&[][..], Needs::default());
                let requests: Vec<_> = requests.iter().map(Cow::Borrowed).collect();
                let whole = WholeTransaction {
                    requests: &requests,
                    watched,
                    beside,
                    answer_bytes_max: u64::MAX,
                };
                self.begun = Some(engine.begin_transaction(now, client, &whole, u64::MAX, turn));
            }
            Input::End => engine.end_transaction(now, turn),
            Input::Advance { budget } => more = Some(engine.advance(now, budget, turn)),
            Input::Sent(client) => engine.sent(client),
            Input::Unsent(client) => engine.unsent(now, client, turn),
            Input::Closed(client) => engine.closed(now, client, turn),
            Input::StopWaiting(client) => assert!(engine.stop_waiting(client)),
        }
        self.replied_bytes += outbox.bytes;
        for fact in facts.iter().map(|fact| fact.expect("readable")) {
            let mut one = Facts::default();
            one.push(&fact);
            let expired = matches!(fact, Fact::Expired { .. });
            self.made_bytes += if expired { 0 } else { one.bytes.len() as u64 };
        }
        let Recorder(replies) = outbox.kept;
        if let Some(auditor) = &mut self.auditor {
            let settings = &engine.settings().clone();
            let (facts, replies) = (&facts, &replies[..]);
            let step = Step {
                now,
                input,
                facts,
                replies,
                outcome,
                more,
                settings,
                digest_before,
                base_before,
                memory_before,
            };
            auditor.audit(&step, engine);
        }
        self.turn_facts.bytes.extend_from_slice(&facts.bytes);
        self.turn_facts.count += facts.count;
        for (client, said) in replies {
            self.note_reply(client, &said);
            self.record.replies.push((client, said));
        }
        (outcome, more)
    }

    fn note_reply(&mut self, client: ClientId, said: &Said) {
        let found = self.clients.iter_mut().find(|known| known.id == client);
        let known = found.expect("replies go to clients that are there");
        known.waits = false;
        known.unsent = true;
        for job in said.jobs() {
            let queue = QueueName { db: Db(job.queue.0), name: job.queue.1 };
            known.held.extend(job.token.map(|token| (queue, job.id, token)));
        }
        if let (Some((queue, _, count)), Said::Scanned(next, _)) = (known.scan.take(), said) {
            known.scan = (*next != 0).then_some((queue, *next, count));
        }
    }

    /// One turn of a server: time passes, clients ask, what is due is done, replies leave.
    pub fn turn(&mut self) {
        self.now = self.next_instant();
        self.swap_tables();
        let flows = self.workload.options.flows;
        if flows > 0 {
            if self.workload.rng.random_range(0..100) < flows {
                self.flow = journal::draw(&mut self.workload.rng);
            }
            self.set_flow(self.flow.clone());
        }
        let crowd = self.workload.options.crowd;
        for _ in 0..self.workload.rng.random_range(0..=crowd) {
            let at = self.workload.rng.random_range(0..self.clients.len());
            self.act(at);
        }
        if !self.workload.one_in(20) {
            let budget = self.budget();
            self.more = self.call(Input::Advance { budget }).1;
            if self.workload.one_in(4) {
                self.catch_up();
            }
        }
        self.send();
        self.end_turn();
    }

    fn set_flow(&mut self, flow: Flow) {
        self.engine.set_flow(self.now, flow.clone());
        if let Some(auditor) = &mut self.auditor {
            auditor.journal.set(self.now, &flow);
        }
    }

    fn budget(&mut self) -> u32 {
        match self.workload.options.budget_max {
            0 => 1_000_000,
            max => self.workload.rng.random_range(1..=max),
        }
    }

    /// Advances until nothing is left to do at this instant.
    pub fn catch_up(&mut self) {
        for _ in 0..10_000_000 {
            let budget = self.budget();
            self.more = self.call(Input::Advance { budget }).1;
            // Queues long unused are forgotten a few at a time.
            if self.more == Some(false)
                && self.engine.next_wakeup().is_none_or(|wakeup| wakeup > self.now.floor())
            {
                return;
            }
        }
        panic!("advance never comes to an end");
    }

    fn next_instant(&mut self) -> Micros {
        let (now, leaps) = (self.now.0, self.workload.options.leaps);
        let rng = &mut self.workload.rng;
        let wakeup = self.engine.next_wakeup();
        let wakeup = wakeup.map(|wakeup| wakeup.start().0).filter(|wakeup| *wakeup > now);
        let next = match rng.random_range(0..100) {
            drawn if drawn < leaps => now + 86_400_000_000 * rng.random_range(1..60),
            10..30 => now,
            30..40 => now + rng.random_range(1..1_500),
            40..80 => match wakeup.filter(|wakeup| *wakeup < now + 86_400_000_000) {
                Some(wakeup) => wakeup + rng.random_range(0..2) * rng.random_range(0..2_500),
                None => now + rng.random_range(0..100_000),
            },
            _ => now + (1 << rng.random_range(0..32)),
        };
        Micros(next.min(END_US).max(now))
    }

    /// A client does something.
    fn act(&mut self, at: usize) {
        let op = self.workload.op();
        if op == Op::Close {
            return self.close(at);
        }
        let (client, now_ms) = (self.clients[at].id, self.now.floor().0);
        if self.clients[at].waits {
            if op == Op::Unblock {
                self.call(Input::StopWaiting(client));
                self.clients[at].waits = false;
            }
            return;
        }
        if let Some(request) = self.clients[at].again.take() {
            return self.ask(at, request);
        }
        match op {
            Op::AddHerd => {
                let mut add = self.workload.add(now_ms);
                add.id = None;
                for _ in 0..self.workload.rng.random_range(1..=self.workload.options.herd_max) {
                    add.taken = delayd::engine::model::request::Taken::Refuse;
                    add.max_delay_ms = None;
                    add.unique_ms = 0;
                    self.ask(at, Request::Add(add.clone()));
                }
            }
            Op::Transaction => self.transact(at),
            Op::Settings => self.change_settings(),
            Op::Scan if self.workload.ordered_only => {}
            Op::Scan if self.clients[at].scan.is_some() => {
                let (queue, cursor, count) = self.clients[at].scan.expect("it is there");
                let request = Request::Scan(Scan::new(queue, Cursor(cursor), count));
                self.ask(at, request);
            }
            _ => {
                let request = self.workload.request(op, &mut self.clients[at].held, now_ms);
                if let Request::Scan(Scan { queue, count, .. }) = request {
                    self.clients[at].scan = Some((queue, 0, count));
                }
                self.ask(at, request);
            }
        }
    }

    fn ask(&mut self, at: usize, request: Request<'static>) {
        let client = self.clients[at].id;
        let (outcome, _) = self.call(Input::Request { client, request: &request, alone: true });
        self.follow_rename(client, &request);
        self.note_schedule(client, &request);
        match outcome {
            Some(Outcome::Waiting) => self.clients[at].waits = true,
            Some(Outcome::Again) => self.clients[at].again = Some(request),
            _ => {}
        }
    }

    /// Holders learn the new name of a queue, mostly.
    fn follow_rename(&mut self, client: ClientId, request: &Request<'static>) {
        let Request::Rename { db, queue, to, .. } = *request else { return };
        let said = self.record.replies.last().filter(|(to, _)| *to == client);
        let renamed = said.is_some_and(|(_, said)| matches!(said, Said::Ok | Said::Integer(1)));
        if renamed && !self.workload.one_in(4) {
            let held = self.clients.iter_mut().flat_map(|client| &mut client.held);
            for (name, ..) in held.filter(|(name, ..)| (name.db, name.name) == (db, queue)) {
                name.name = to;
            }
        }
    }

    /// Somebody learns which id comes next.
    fn note_schedule(&mut self, client: ClientId, request: &Request<'static>) {
        let Request::Schedule(Scheduling::Set(set)) = request else { return };
        let said = self.record.replies.last().filter(|(to, _)| *to == client);
        if let Some((_, Said::ScheduleSet(_, Some(next)))) = said {
            let id = keep(&[set.name, format!("@{}", next.0).as_bytes()].concat());
            self.workload.occurrences.push((set.queue, id));
        }
    }

    fn transact(&mut self, at: usize) {
        let (client, now_ms) = (self.clients[at].id, self.now.floor().0);
        let ops = [
            Op::Add,
            Op::Pop,
            Op::Reserve,
            Op::Ack,
            Op::Nack,
            Op::Look,
            Op::Remove,
            Op::Redrive,
            Op::Purge,
            Op::Rename,
            Op::Policies,
            Op::Push,
            Op::ListPop,
            Op::Move,
            Op::DeleteEqual,
            Op::Schedule,
        ];
        let requests: Vec<Request<'static>> = (0..self.workload.rng.random_range(1..8))
            .map(|_| {
                let op = ops[self.workload.rng.random_range(0..ops.len())];
                self.workload.request(op, &mut self.clients[at].held, now_ms)
            })
            .collect();
        self.begun = None;
        while matches!(self.begun, None | Some(TransactionBegun::Again)) {
            self.call(Input::Begin { client, requests: &requests });
        }
        let needs = match self.begun.take() {
            Some(TransactionBegun::Begun(needs)) => needs,
            Some(TransactionBegun::Refused(error)) => return self.note_refused(&requests, &error),
            begun => panic!("{begun:?}, with nothing watched"),
        };
        (self.replied_bytes, self.made_bytes) = (0, 0);
        let held_bytes = self.engine.unsent_jobs_bytes(client);
        for request in &requests {
            self.call(Input::Request { client, request, alone: false });
        }
        let Needs { reply_bytes, facts_bytes, unsent_jobs_bytes, .. } = needs;
        let kind = |request| format!("{request:?}").chars().take_while(|c| *c != '(').collect();
        let kinds = requests.iter().map(kind).collect::<Vec<String>>().join(" ");
        let said = || format!("{needs:?} for {kinds:.200}");
        assert!(self.replied_bytes <= reply_bytes, "{} bytes, {}", self.replied_bytes, said());
        assert!(self.made_bytes <= facts_bytes, "{} bytes, {}", self.made_bytes, said());
        let held_bytes = (self.engine.unsent_jobs_bytes(client) - held_bytes) as u64;
        assert!(held_bytes <= unsent_jobs_bytes, "{held_bytes} bytes in hand, {}", said());
        self.call(Input::End);
    }

    fn note_refused(&mut self, requests: &[Request<'static>], error: &Error) {
        let adds = requests.iter().any(|request| {
            let runs = matches!(request, Request::Schedule(Scheduling::Run { .. }));
            runs || matches!(request, Request::Add(_) | Request::Push(_) | Request::Move(_))
        });
        let flow = &self.flow;
        let (note, right) = match error {
            Error::Full { .. } => ("transaction refused: full", adds),
            Error::GroupFull { .. } => ("transaction refused: group full", adds),
            Error::Paused { .. } => ("transaction refused: paused", adds),
            Error::OutOfMemory { .. } | Error::OutOfMemoryForLeases { .. } => {
                ("transaction refused: memory", self.workload.options.memory_bytes_max > 0)
            }
            Error::Misconf(_) => ("transaction refused: journal", *flow != Flow::default()),
            Error::InSlices { .. } => {
                let in_slices = |request: &Request<'_>| match request {
                    Request::Redrive(of) => matches!(of.which, Which::InGroup { .. }),
                    Request::Groups(of) => matches!(of, Grouping::Purge { .. }),
                    _ => false,
                };
                ("transaction refused: slices", requests.iter().any(in_slices))
            }
            error => panic!("{error} for {requests:?}"),
        };
        assert!(right, "{error} for {requests:?}");
        if let Some(auditor) = &mut self.auditor {
            auditor.note(note);
        }
    }

    fn close(&mut self, at: usize) {
        let client = self.clients[at].id;
        if self.clients[at].unsent && self.workload.rng.random() {
            self.call(Input::Unsent(client));
        }
        self.call(Input::Closed(client));
        let gone = self.clients.remove(at);
        self.workload.old.extend(gone.held);
        if let Some(auditor) = &mut self.auditor {
            auditor.scans.remove(&client);
            auditor.forecasts.remove(&client);
            auditor.redrives.remove(&client);
        }
        self.connect();
    }

    fn change_settings(&mut self) {
        let rng = &mut self.workload.rng;
        let settings = self.engine.settings_mut();
        match rng.random_range(0..3) {
            0 => settings.lease_ms_default = [1, 50, 60_000][rng.random_range(0..3)],
            1 => settings.token_floor += 1_000,
            _ => settings.lease_ms_max = [1_000, 86_400_000][rng.random_range(0..2)],
        }
        *self.replica.settings_mut() =
            Settings { hash_seed: self.replica.settings().hash_seed, ..settings.clone() };
    }

    /// Replies go to the kernel, mostly.
    fn send(&mut self) {
        let mut at = 0;
        while at < self.clients.len() {
            let client = self.clients[at].id;
            if self.clients[at].unsent {
                match self.workload.rng.random_range(0..40) {
                    0..4 => {}
                    4 if self.workload.options.weights[Op::Close as usize] > 0 => self.close(at),
                    _ => {
                        self.call(Input::Sent(client));
                        self.clients[at].unsent = false;
                    }
                }
            }
            at += 1;
        }
    }

    /// The turn's facts go to the replica.
    pub fn end_turn(&mut self) {
        if self.changes.is_some() {
            self.note_turn();
        } else {
            self.replica.apply(self.now, &self.turn_facts).expect("own facts are readable");
        }
        if self.workload.one_in(16) {
            self.tell_follower();
            self.compare();
        }
        self.record.facts.extend_from_slice(&self.turn_facts.bytes);
        self.turn_facts.clear();
    }

    fn compare(&mut self) {
        let digest = self.engine.digest();
        assert_eq!(digest, self.replica.digest(), "digests of the engine and its replica");
        assert_eq!(self.engine.job_counts(), self.replica.job_counts());
        for engine in [&self.engine, &self.replica] {
            assert!(engine.knows_its_leases(), "running leases are told apart by age");
            assert!(engine.keeps_data_of_its_jobs(), "an id for each job, and no other");
        }
        assert_eq!(self.engine.queue_counts(), self.replica.queue_counts());
        self.record.digests.push(digest);
    }

    /// Everybody leaves, all that is due is done, and the replica goes on beside the engine.
    pub fn settle(&mut self) {
        // What was held for want of room is tried again a second later. Nothing stays held for want of memory: how many
        // of its instants are still made up for is in no fact.
        self.engine.settings_mut().memory_bytes_max = 0;
        self.now = Micros(self.now.0 + 1_000_000);
        self.set_flow(Flow::default());
        (0..self.clients.len()).rev().for_each(|at| self.close(at));
        self.catch_up();
        self.end_turn();
        self.tell_follower();
        self.compare();
    }

    /// Both engines get the same requests for some turns; they must do the same.
    pub fn go_on_beside_replica(&mut self, turns: u32) {
        self.workload.ordered_only = true;
        self.workload.options.budget_max = 0;
        // When an unused queue is forgotten depends on who waited for it, which is in no fact.
        self.engine.settings_mut().stats_retention_ms = u64::MAX;
        self.replica.settings_mut().stats_retention_ms = u64::MAX;
        self.tables = [self.tables[0]; 2];
        self.give_tables();
        // Nor is when an occurrence is tried again for which there was no memory, or how much is still to be freed when
        // totals have to go: the engine's limit went as it settled.
        self.replica.settings_mut().memory_bytes_max = 0;
        if self.workload.options.weights[Op::Schedule as usize] > 0 {
            self.now = Micros(self.now.0 + 1_000_000);
        }
        self.forget_rates();
        self.forget_turns();
        self.catch_up();
        self.catch_up_replica();
        for _ in 0..turns {
            self.now = self.next_instant();
            self.catch_up();
            self.catch_up_replica();
            self.turn_facts.clear();
            assert_eq!(self.engine.digest(), self.replica.digest(), "digests while going on");
            assert_eq!(self.engine.memory_bytes(), self.replica.memory_bytes(), "bytes");
            let at = self.workload.rng.random_range(0..self.clients.len());
            let mut op = self.workload.op();
            if matches!(
                op,
                Op::Scan | Op::Transaction | Op::AddHerd | Op::Settings | Op::Close | Op::Unblock
            ) {
                op = Op::Add;
            }
            if self.clients[at].waits {
                continue;
            }
            let client = self.clients[at].id;
            let now_ms = self.now.floor().0;
            let request = self.workload.request(op, &mut self.clients[at].held, now_ms);
            // A limit on memory counts what is still to be freed, of which the replica has more.
            let before = self.record.replies.len();
            self.ask(at, request.clone());
            let mut facts = Facts::default();
            let mut outbox = Recorder::default();
            let turn = &mut Turn { facts: &mut facts, outbox: &mut outbox };
            let mut outcome = Outcome::Again;
            while outcome == Outcome::Again {
                outcome = self.replica.handle(self.now, client, &request, turn);
            }
            while let Some(request) = self.clients[at].again.take() {
                self.ask(at, request);
            }
            assert_eq!(outbox.0[..], self.record.replies[before..], "replies of the replica");
            self.call(Input::Sent(client));
            self.replica.sent(client);
            self.turn_facts.clear();
        }
        self.catch_up();
        self.catch_up_replica();
        self.turn_facts.clear();
        assert_eq!(self.engine.digest(), self.replica.digest(), "digests after going on");
    }

    /// What a rate has used up is in no fact.
    fn forget_rates(&mut self) {
        let client = self.clients[0].id;
        for db in 0..self.workload.options.databases {
            for number in 0..self.workload.options.queues {
                let name = keep(format!("q{number}").as_bytes());
                let queue = QueueName { db: Db(db), name };
                let request = Request::Unconfigure { queue };
                self.call(Input::Request { client, request: &request, alone: true });
                let (mut facts, mut outbox) = (Facts::default(), Recorder::default());
                let turn = &mut Turn { facts: &mut facts, outbox: &mut outbox };
                self.replica.handle(self.now, client, &request, turn);
            }
        }
        self.turn_facts.clear();
    }

    /// When a group opened by its rate is in no fact, so neither is whose turn it was since.
    fn forget_turns(&mut self) {
        if self.has_paces() {
            self.start_from_bases();
        }
    }

    /// Whether a rate has counted deliveries of a group, as far as is known.
    pub fn has_paces(&self) -> bool {
        let paced = |queue: &ModelQueue| !queue.sharing.paces.is_empty();
        let model = self.auditor.as_ref().map(|auditor| &auditor.model);
        model.is_none_or(|model| model.queues.values().any(paced))
    }

    fn catch_up_replica(&mut self) {
        let mut facts = Facts::default();
        let mut outbox = Recorder::default();
        loop {
            let turn = &mut Turn { facts: &mut facts, outbox: &mut outbox };
            let more = self.replica.advance(self.now, 1_000_000, turn);
            if !more && self.replica.next_wakeup().is_none_or(|wakeup| wakeup > self.now.floor()) {
                return;
            }
        }
    }

    /// All is deleted; nothing may be left.
    pub fn flush(&mut self) {
        let client = self.clients[0].id;
        if std::mem::take(&mut self.clients[0].waits) {
            self.call(Input::StopWaiting(client));
        }
        let request = Request::Flush { db: None };
        self.call(Input::Request { client, request: &request, alone: true });
        self.catch_up();
        self.turn_facts.clear();
        assert_eq!(self.engine.job_counts(), [0; 4]);
        assert_eq!(self.engine.queue_counts(), [0; 16]);
    }
}

/// Keeps all replies, and how many bytes they have on the wire.
#[derive(Default)]
struct Metered {
    kept: Recorder,
    bytes: u64,
}

impl Outbox for Metered {
    fn reply(&mut self, client: ClientId, reply: Reply<'_>) {
        let mut out = BytesMut::new();
        render(&reply, &mut Encoder::new(&mut out, Protocol::Resp2));
        self.bytes += out.len() as u64;
        self.kept.reply(client, reply);
    }
}
