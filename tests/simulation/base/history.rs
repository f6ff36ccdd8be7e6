//! A run of the simulation during which base files are written, loaded and gone on from.

use delayd::engine::model::fact::Fact;
use delayd::engine::model::meta::OwnMeta;
use delayd::engine::model::request::{Add, JobState, QueueName, Request, Taken, When};
use delayd::engine::{Engine, Facts, Loader, Outcome, Settings, Turn};
use delayd::hash_slot::{hash_slot, partition_of};
use delayd::ids::{ClientId, Db};
use delayd::time::Micros;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::damage;
use crate::simulation::auditor::Input;
use crate::simulation::trace::{Recorder, Said, keep, keep_list};
use crate::simulation::workload::Op;
use crate::simulation::world::World;
use crate::support::seeds::Seen;

pub struct History {
    seed: u64,
    world: World,
    rng: SmallRng,
    /// Of this many turns one adds and removes jobs of many policies; 0 for none.
    churn: u32,
    churned: u64,
    /// The base file is written by the replica, which decides nothing.
    by_replica: bool,
    turns_left: u32,
    /// What happened since the base file was begun, while it is written.
    log: Vec<Entry>,
    logs: bool,
    /// Bytes of the run's facts that are in the log, or came before.
    told: usize,
}

/// The facts of an instant, and the digest after them.
struct Entry {
    now: Micros,
    facts: Facts,
    digest: u64,
}

/// What was true when the base file was begun.
struct Moment {
    now: Micros,
    digest: u64,
    bytes: u64,
    memory: Option<u64>,
    peeked: Option<Vec<Said>>,
}

impl History {
    pub fn new(seed: u64) -> History {
        let world = World::new(seed, false);
        let mut rng = SmallRng::seed_from_u64(!seed);
        let churn = if rng.random_ratio(1, 8) { rng.random_range(1..4) } else { 0 };
        let (by_replica, turns_left) = (rng.random_ratio(1, 4), world.workload.options.turns);
        let (churned, log, told) = (0, Vec::new(), 0);
        History { seed, world, rng, churn, churned, by_replica, turns_left, log, logs: false, told }
    }

    pub fn run(mut self, seen: &mut Seen) {
        let before = self.rng.random_range(0..self.turns_left);
        (0..before).for_each(|_| self.turn());
        if self.rng.random_ratio(1, 3) {
            self.abandon(seen);
        }
        let moment = self.begin(seen);
        let images = self.write(seen);
        assert_eq!(images.len() as u64, moment.bytes, "base_bytes tells the size");
        if images.len() < 3_000 && self.rng.random_ratio(1, 8) {
            damage::check(&images, &mut self.rng);
        }
        let loaded = self.load(&images, &moment);
        self.replay(loaded);
        while self.turns_left > 0 {
            self.turn();
        }
        self.go_on();
    }

    fn engine(&mut self) -> &mut Engine {
        if self.by_replica { &mut self.world.replica } else { &mut self.world.engine }
    }

    fn turn(&mut self) {
        self.turns_left = self.turns_left.saturating_sub(1);
        if self.churn > 0 && self.rng.random_ratio(1, self.churn) {
            self.churn_policies();
        }
        self.world.turn();
        self.note_facts();
    }

    /// Puts what was decided at this instant into the log, if one is kept.
    fn note_facts(&mut self) {
        if !self.logs {
            return;
        }
        let bytes = self.world.record.facts[self.told..].to_vec();
        self.told = self.world.record.facts.len();
        let (mut facts, digest) = (Facts { bytes, count: 0 }, self.world.engine.digest());
        facts.count = facts.iter().count() as u64;
        self.log.push(Entry { now: self.world.now, facts, digest });
    }

    /// Jobs each with a policy of its own, which soon nobody uses.
    fn churn_policies(&mut self) {
        let Some(client) = self.idle_client() else { return };
        let queue = QueueName { db: Db(0), name: keep(b"churn") };
        for _ in 0..self.rng.random_range(1..150) {
            self.churned += 1;
            let add = Add {
                queue,
                when: When::In(3_600_000),
                body: b"",
                id: None,
                taken: Taken::Refuse,
                max_delay_ms: None,
                priority: None,
                attempts: None,
                backoff: None,
                lease_ms: Some(self.churned),
                ttl_ms: None,
                unique_ms: 0,
                group: None,
                meta: OwnMeta::NONE,
            };
            self.ask(client, Request::Add(add));
        }
        if self.rng.random() {
            let queues = keep_list(&[queue.name]);
            self.ask(client, Request::Remove { db: queue.db, queues });
        }
        self.world.end_turn();
        self.note_facts();
    }

    /// A client that may be made to ask something.
    fn idle_client(&self) -> Option<ClientId> {
        let mut clients = self.world.clients.iter();
        let idle = clients.find(|client| !client.waits && client.again.is_none());
        idle.map(|client| client.id)
    }

    fn ask(&mut self, client: ClientId, request: Request<'static>) {
        self.world.call(Input::Request { client, request: &request, alone: true });
    }

    fn abandon(&mut self, seen: &mut Seen) {
        self.engine().begin_base();
        for _ in 0..self.rng.random_range(0..20) {
            let images = self.rng.random_range(0..50);
            if self.engine().base_slice(images, usize::MAX) {
                break;
            }
            self.turn();
        }
        self.engine().abandon_base();
        assert!(!self.engine().is_base_running());
        assert_eq!(self.engine().base_output().capacity(), 0, "memory of an abandoned base file");
        seen.note("abandoned");
    }

    fn begin(&mut self, seen: &mut Seen) -> Moment {
        // While the journal holds things up, what is due is not caught up with.
        let options = &self.world.workload.options;
        // Nor are occurrences made for which there was no memory, and which what was loaded may have.
        let held = options.memory_bytes_max > 0 && options.weights[Op::Schedule as usize] > 0;
        let calm = options.flows == 0 && !held && self.rng.random();
        let (mut memory, mut peeked) = (None, None);
        if calm {
            self.world.catch_up();
            peeked = self.peek_all();
            self.world.end_turn();
            // A replica has not freed what was removed.
            memory = (!self.by_replica).then(|| self.world.engine.memory_bytes());
            seen.note("calm");
        }
        seen.count("of a replica", self.by_replica.into());
        let counts = self.world.engine.job_counts();
        let states = ["delayed", "ready", "leased", "dead"];
        states.iter().zip(counts).for_each(|(state, count)| seen.count(state, count));
        let (digest, bytes) = (self.engine().digest(), self.engine().base_bytes());
        assert_eq!(bytes, self.other().base_bytes(), "it follows from the facts");
        self.engine().begin_base();
        self.logs = true;
        self.told = self.world.record.facts.len();
        Moment { now: self.world.now, digest, bytes, memory, peeked }
    }

    fn other(&self) -> &Engine {
        if self.by_replica { &self.world.engine } else { &self.world.replica }
    }

    /// Writes the base file while turns go on; its images.
    fn write(&mut self, seen: &mut Seen) -> Vec<u8> {
        let mut images = Vec::new();
        let pace = [1, 5, 50, 1_000, u32::MAX][self.rng.random_range(0..5)];
        // The turns before the first slice change what has not been walked at all.
        let mut late = self.rng.random_range(0..30);
        let mut complete = false;
        while !complete {
            let slices = if late > 0 { 0 } else { self.rng.random_range(1..3) };
            for _ in 0..slices {
                let images_max = self.rng.random_range(0..=pace);
                let bytes_max = [1, 100, 10_000, usize::MAX][self.rng.random_range(0..4)];
                complete = complete || self.engine().base_slice(images_max, bytes_max);
            }
            images.append(self.engine().base_output());
            late = u32::saturating_sub(late, 1);
            if self.turns_left > 0 && !complete {
                self.turn();
            }
        }
        self.logs = false;
        assert!(!self.engine().is_base_running());
        seen.count("turns while writing", self.log.len() as u64);
        self.log.iter().for_each(|entry| note_facts(&entry.facts, seen));
        images
    }

    fn load(&mut self, images: &[u8], moment: &Moment) -> Engine {
        let hash_seed = self.seed.wrapping_mul(0x9e37_79b9);
        let settings = Settings { hash_seed, ..self.world.engine.settings().clone() };
        let mut loader = Loader::new(settings);
        loader.images(images).expect("own images");
        let mut loaded = Engine::loaded(loader).expect("own images");
        assert_eq!(loaded.digest(), moment.digest, "digests as of the moment");
        assert_eq!(loaded.base_bytes(), moment.bytes, "the next base file is as large");
        if let Some(memory) = moment.memory {
            assert_eq!(loaded.memory_bytes(), memory, "memory as of the moment");
        }
        if let Some(peeked) = &moment.peeked {
            self.check_peeks(&mut loaded, moment.now, peeked);
        }
        self.check_second_writing(&mut loaded, images.len());
        self.check_parts(&mut loaded);
        loaded
    }

    /// Partitions have all of its queues between them, and each of them its own alone.
    fn check_parts(&self, loaded: &mut Engine) {
        let count = [2, 4, 16][self.seed as usize % 3];
        let mut sum = 0_u64;
        for partition in 0..count {
            loaded.begin_part(partition, count);
            while !loaded.base_slice(1_000, 100_000) {}
            let mut loader = Loader::new(loaded.settings().clone());
            loader.images(&std::mem::take(loaded.base_output())).expect("own images");
            let part = Engine::loaded(loader).expect("own images");
            let is_its = |name| partition_of(hash_slot(name), count) == partition;
            assert!(part.queue_names().all(is_its), "a queue of another partition");
            sum = sum.wrapping_add(part.queues_digest());
        }
        assert_eq!(sum, loaded.queues_digest(), "what {count} partitions have");
    }

    /// A base file of what was loaded is the same state again, and nothing is left of writing it.
    fn check_second_writing(&mut self, loaded: &mut Engine, bytes: usize) {
        loaded.begin_base();
        while !loaded.base_slice(1_000, 100_000) {}
        assert_eq!(std::mem::take(loaded.base_output()).len(), bytes);
    }

    /// Applies the facts of the turns since; then it is the replica of the rest of the run.
    fn replay(&mut self, mut loaded: Engine) {
        for Entry { now, facts, digest } in std::mem::take(&mut self.log) {
            loaded.apply(now, &facts).expect("own facts");
            assert_eq!(loaded.digest(), digest, "digests while replaying");
        }
        self.world.replica = loaded;
    }

    /// What PEEK shows of all queues; none if no client is free to ask.
    fn peek_all(&mut self) -> Option<Vec<Said>> {
        let client = self.idle_client()?;
        let first = self.world.record.replies.len();
        for request in self.peeks() {
            loop {
                let input = Input::Request { client, request: &request, alone: true };
                if self.world.call(input).0 != Some(Outcome::Again) {
                    break;
                }
            }
        }
        let replies = self.world.record.replies[first..].iter();
        Some(replies.map(|(_, said)| said.clone()).collect())
    }

    fn peeks(&self) -> Vec<Request<'static>> {
        let options = &self.world.workload.options;
        let mut peeks = Vec::new();
        for (db, number) in (0..options.databases)
            .flat_map(|db| (0..options.queues.min(10)).map(move |number| (db, number)))
        {
            let queue = QueueName { db: Db(db), name: keep(format!("q{number}").as_bytes()) };
            for state in [JobState::Delayed, JobState::Ready, JobState::Leased, JobState::Dead] {
                peeks.push(Request::Peek {
                    queue,
                    state: Some(state),
                    count: 10_000,
                    newest: false,
                });
            }
            peeks.push(Request::Stats { queue });
        }
        peeks
    }

    fn check_peeks(&self, loaded: &mut Engine, now: Micros, peeked: &[Said]) {
        let (mut facts, mut outbox) = (Facts::default(), Recorder::default());
        let turn = &mut Turn { facts: &mut facts, outbox: &mut outbox };
        for request in self.peeks() {
            while loaded.handle(now, ClientId(1), &request, turn) == Outcome::Again {
                loaded.advance(now, 1_000_000, turn);
            }
        }
        let replies = outbox.0.into_iter().map(|(_, said)| said);
        let shared = self.world.workload.options.groups > 0;
        // In which order groups come is not durable, nor how long purged ones are known.
        let known = |mut said: Said| {
            match &mut said {
                Said::Peeked(jobs) if shared => jobs.sort_by_key(|job| job.id),
                Said::Stats(stats) => stats.groups = 0,
                _ => {}
            }
            said
        };
        for (request, (said, wanted)) in self.peeks().iter().zip(replies.zip(peeked)) {
            // Who waits is not durable, and a queue may be there for its waiters alone.
            if !matches!(wanted, Said::Stats(stats) if stats.waiters > 0) {
                assert_eq!(known(said), known(wanted.clone()), "{request:?} shows");
            }
        }
        assert_eq!(facts.count, 0, "nothing was left to be done");
    }

    fn go_on(mut self) {
        self.world.settle();
        // Which unused policy is forgotten first is not durable, nor in which order groups come.
        let alike = self.churn == 0 && self.world.workload.options.groups == 0;
        if alike {
            let turns = self.world.workload.options.turns / 4;
            self.world.go_on_beside_replica(turns);
        }
        // What that decided is in no record, so policies are counted from here on.
        self.world.flush();
        let left = self.world.engine.base_bytes();
        self.world.engine.begin_base();
        while !self.world.engine.base_slice(1_000, 100_000) {}
        assert_eq!(self.world.engine.base_output().len() as u64, left, "policies alone are left");
    }
}

fn note_facts(facts: &Facts, seen: &mut Seen) {
    for fact in facts.iter() {
        let what = match fact.expect("own facts") {
            Fact::PolicyForgotten { .. } => "policies forgotten while writing",
            Fact::QueueRemoved { .. } => "queues removed while writing",
            Fact::QueueForgotten { .. } => "queues forgotten while writing",
            Fact::Flushed { .. } => "flushed while writing",
            Fact::Purged { .. } => "purged while writing",
            Fact::Redriven { .. } => "redriven while writing",
            Fact::Renamed { over: None, .. } => "renamed while writing",
            Fact::Renamed { .. } => "renamed over another while writing",
            Fact::Unleased { .. } => "unleased while writing",
            Fact::Unpopped { .. } => "unpopped while writing",
            Fact::Scheduled { .. } => "schedules set while writing",
            Fact::Unscheduled { .. } => "schedules removed while writing",
            Fact::SchedulePaused { .. } => "schedules paused while writing",
            Fact::GroupSet { .. } => "settings of groups while writing",
            Fact::Occurred { .. } => "occurrences made while writing",
            Fact::Passed { .. } => "occurrences missed while writing",
            _ => continue,
        };
        seen.note(what);
    }
}
