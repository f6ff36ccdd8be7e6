//! Jobs that are moved together while everything else goes on: nobody can see it but in the memory that is held.

use delayd::engine::model::reply::{Outbox, Reply};
use delayd::engine::model::request::Purge;
use delayd::engine::model::request::{
    Add, Nack, Push, QueueName, Redrive, Request, Reserve, Side, Wait, When, Which,
};
use delayd::engine::{Engine, Facts, Loader, Outcome, Settings, Turn};
use delayd::ids::{ClientId, Db, Token};
use delayd::limits;
use delayd::time::Micros;
use rand::rngs::SmallRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};

const BEGIN_MS: u64 = 1_735_689_600_000;
const QUEUES: [&[u8]; 3] = [b"a", b"b", b"c"];

/// Replies as text, and the leases of them.
#[derive(Default)]
struct Log {
    said: Vec<String>,
    leases: Vec<(u8, Vec<u8>, Token)>,
}

impl Outbox for Log {
    fn reply(&mut self, client: ClientId, reply: Reply<'_>) {
        if let Reply::Reserved(jobs) = &reply {
            for job in *jobs {
                let queue = QUEUES.iter().position(|queue| *queue == job.queue.name).unwrap();
                self.leases.extend(job.token.map(|token| (queue as u8, job.id.to_vec(), token)));
            }
        }
        self.said.push(format!("{client} {reply:?}"));
    }
}

/// An engine, and a base file of it that is being written.
struct One {
    engine: Engine,
    facts: Facts,
    log: Log,
    images: Vec<u8>,
    /// The digest of the state that the base file is of.
    base_of: Option<u64>,
}

impl One {
    fn new(spare_bytes_min: usize) -> One {
        let engine =
            Engine::new(Settings { spare_bytes_min, spare_quiet_ms: 0, ..Settings::default() });
        let (facts, log) = (Facts::default(), Log::default());
        One { engine, facts, log, images: Vec::new(), base_of: None }
    }

    fn ask(&mut self, now: Micros, client: ClientId, request: &Request<'_>, sent: bool) {
        let turn = &mut Turn { facts: &mut self.facts, outbox: &mut self.log };
        while self.engine.handle(now, client, request, turn) == Outcome::Again {
            // What is asked again goes on in the next turn.
            self.engine.advance(now, 100, turn);
        }
        if sent {
            self.engine.sent(client);
        }
    }

    fn pass(&mut self, now: Micros, budget: u32) -> bool {
        let turn = &mut Turn { facts: &mut self.facts, outbox: &mut self.log };
        self.engine.advance(now, budget, turn)
    }

    fn begin_base(&mut self) {
        self.base_of = Some(self.engine.digest());
        self.engine.begin_base();
        self.images.clear();
    }

    /// Goes on with the base file; when it is whole it has to be the state in which it was begun.
    fn go_on_with_base(&mut self, images: u32) {
        let Some(digest) = self.base_of else { return };
        let done = self.engine.base_slice(images, usize::MAX);
        self.images.append(self.engine.base_output());
        if done {
            let mut loader = Loader::new(Settings { hash_seed: 9, ..Settings::default() });
            loader.images(&self.images).expect("own images");
            assert_eq!(Engine::loaded(loader).expect("own images").digest(), digest);
            self.base_of = None;
        }
    }
}

/// Two engines that are asked the same. One moves its jobs together whenever it can, the other never does.
struct Twins {
    moving: One,
    still: One,
    now: Micros,
    rng: SmallRng,
    ids: Vec<(u8, u32)>,
    next: u32,
    leases: Vec<(u8, Vec<u8>, Token)>,
}

fn named(queue: u8) -> QueueName<'static> {
    QueueName { db: Db(0), name: QUEUES[usize::from(queue)] }
}

impl Twins {
    fn new(seed: u64) -> Twins {
        Twins {
            moving: One::new(1),
            still: One::new(usize::MAX),
            now: Micros(BEGIN_MS * 1_000),
            rng: SmallRng::seed_from_u64(seed),
            ids: Vec::new(),
            next: 0,
            leases: Vec::new(),
        }
    }

    fn ask(&mut self, client: u64, request: &Request<'_>) {
        let sent = self.rng.random_ratio(9, 10);
        for one in [&mut self.moving, &mut self.still] {
            one.ask(self.now, ClientId(client), request, sent);
        }
        assert_eq!(self.moving.log.said, self.still.log.said, "after {request:?}");
        self.leases.append(&mut self.moving.log.leases);
        for one in [&mut self.moving, &mut self.still] {
            one.log = Log::default();
            one.facts.clear();
        }
    }

    fn add(&mut self) {
        let queue = self.rng.random_range(0..3);
        self.next += 1;
        let id = self.next.to_be_bytes();
        let when = [0, 0, 50, 5_000, 500_000, 50_000_000][self.rng.random_range(0..6)];
        let body = vec![7; [3, 100, 100, 700, 2_000][self.rng.random_range(0..5)]];
        let add = Add {
            id: Some(&id),
            priority: Some(self.rng.random_range(4..6)),
            ttl_ms: self.rng.random_ratio(1, 10).then_some(2_000),
            unique_ms: if self.rng.random_ratio(1, 10) { 1_000 } else { 0 },
            ..Add::new(named(queue), When::In(when + self.rng.random_range(0..=when)), &body)
        };
        self.ask(1, &Request::Add(add));
        self.ids.push((queue, self.next));
    }

    fn delete(&mut self) {
        if self.ids.is_empty() {
            return;
        }
        let at = self.rng.random_range(0..self.ids.len());
        let (queue, id) = self.ids.swap_remove(at);
        let ids: &[&[u8]] = &[&id.to_be_bytes()];
        self.ask(1, &Request::Delete { queue: named(queue), ids });
    }

    fn act(&mut self) {
        let queue = self.rng.random_range(0..3);
        let (client, name) = (self.rng.random_range(2..6), named(queue));
        let queues = &QUEUES[usize::from(queue)..][..1];
        match self.rng.random_range(0..9) {
            0 | 1 => {
                let (count, bound) = (self.rng.random_range(1..40), self.rng.random());
                let lease_ms = Some(self.rng.random_range(1..3_000));
                let (wait, no_ack) = (Wait::No, self.rng.random_ratio(1, 8));
                let (db, meta) = (Db(0), true);
                let reserve = Reserve { db, queues, wait, count, lease_ms, no_ack, bound, meta };
                self.ask(client, &Request::Reserve(reserve));
            }
            2 | 3 if !self.leases.is_empty() => {
                let at = self.rng.random_range(0..self.leases.len());
                let (queue, id, token) = self.leases.swap_remove(at);
                let nack = Nack {
                    queue: named(queue),
                    id: &id,
                    token,
                    when: None,
                    bury: self.rng.random_ratio(1, 2),
                    uncounted: false,
                    priority: None,
                    error: Some(b"no"),
                };
                let ack = Request::Ack { queue: named(queue), jobs: vec![(&id[..], token)] };
                let ack = if self.rng.random() { ack } else { Request::Nack(nack) };
                self.ask(client, &ack);
            }
            4 => {
                let start = self.rng.random_range(0..500);
                self.ask(client, &Request::Range { queue: name, start, stop: start + 20 });
            }
            5 => {
                let body = [7; 3];
                let side = *[Side::Left, Side::Right].choose(&mut self.rng).unwrap();
                self.ask(
                    client,
                    &Request::DeleteEqual { queue: name, body: &body, from: side, count: 3 },
                );
                let push = Push { queue: name, bodies: &[b"pushed"], side, only_existing: false };
                self.ask(client, &Request::Push(push));
            }
            6 => {
                let which = Which::Oldest(Some(5));
                let redrive =
                    Redrive { queue: name, which, when: When::In(0), keep_attempts: false };
                self.ask(client, &Request::Redrive(redrive));
            }
            7 if self.rng.random_ratio(1, 400) => {
                let states = std::array::from_fn(|_| self.rng.random());
                let purge = Purge { states, windows: self.rng.random() };
                self.ask(client, &Request::Purge { queue: name, purge });
            }
            8 if self.rng.random_ratio(1, 10) => {
                for one in [&mut self.moving, &mut self.still] {
                    let turn = &mut Turn { facts: &mut one.facts, outbox: &mut one.log };
                    one.engine.unsent(self.now, ClientId(client), turn);
                    one.engine.closed(self.now, ClientId(client), turn);
                }
            }
            _ => {}
        }
    }

    fn pass(&mut self, images: u32) {
        self.now = Micros(self.now.0 + self.rng.random_range(0..20_000));
        for one in [&mut self.moving, &mut self.still] {
            one.pass(self.now, 1_000_000);
            one.go_on_with_base(images);
            one.facts.clear();
        }
    }

    fn check(&self) {
        let [moving, still] = [&self.moving.engine, &self.still.engine];
        assert_eq!(moving.digest(), still.digest());
        assert_eq!(moving.memory_bytes(), still.memory_bytes());
        assert_eq!(moving.job_counts(), still.job_counts());
        assert!(moving.keeps_data_of_its_jobs() && moving.knows_its_leases());
    }
}

/// Waves of jobs, most of which go, while others are taken, buried, searched and written to base files.
#[test]
fn moving_jobs_together_changes_nothing_that_can_be_seen() {
    for seed in 1..=2 {
        println!("seed {seed}");
        let mut twins = Twins::new(seed);
        let mut saved = 0;
        for wave in 0..3 {
            for step in 0..26_000 {
                twins.add();
                if step % 50 == 0 {
                    twins.act();
                    twins.pass(20);
                }
            }
            if wave % 2 == 0 {
                twins.moving.begin_base();
                twins.still.begin_base();
            }
            let left = twins.ids.len() / 15;
            while twins.ids.len() > left {
                twins.delete();
                if twins.ids.len().is_multiple_of(20) {
                    twins.act();
                    twins.pass(15);
                }
            }
            twins.check();
            (0..40).for_each(|_| twins.pass(100_000));
            twins.check();
            let [moving, still] = [&twins.moving, &twins.still].map(|one| one.engine.held_bytes());
            saved = saved.max(still.saturating_sub(moving) * 100 / still);
            assert!(twins.moving.base_of.is_none() && twins.still.base_of.is_none());
        }
        assert!(saved > 50, "{saved} % given back");
        // In the order in which they are due.
        for count in 0..400 {
            twins.now = Micros(twins.now.0 + 200_000_000);
            twins.pass(1);
            let reserve = Reserve {
                db: Db(0),
                queues: &QUEUES[count % 3..][..1],
                wait: Wait::No,
                count: 100,
                lease_ms: None,
                no_ack: true,
                bound: false,
                meta: false,
            };
            twins.ask(7, &Request::Reserve(reserve));
        }
        twins.check();
    }
}

/// An engine that does not know of a limit, and `count` jobs in it.
fn filled(count: u32) -> One {
    let engine = Engine::new(Settings { spare_bytes_min: 1, ..Settings::default() });
    let (facts, log) = (Facts::default(), Log::default());
    let mut one = One { engine, facts, log, images: Vec::new(), base_of: None };
    for number in 0..count {
        let id = number.to_be_bytes();
        let add = Add::new(named(0), When::In(50_000_000), &[7; 100]);
        let add = Request::Add(Add { id: Some(&id), ..add });
        one.ask(Micros(BEGIN_MS * 1_000), ClientId(1), &add, true);
    }
    one
}

/// Deletes two of three jobs in `slices` and as many quarters of a second; how many bytes are held at each end.
fn drain(one: &mut One, count: u32, slices: u64) -> Vec<u64> {
    let mut held = Vec::new();
    for slice in 0..slices {
        let now = Micros((BEGIN_MS + slice * 250) * 1_000);
        for number in (0..count).filter(|number| number % 3 > 0) {
            // Of all over the memory in each slice.
            if u64::from(number / 3) % slices == slice {
                let ids: &[&[u8]] = &[&number.to_be_bytes()];
                one.ask(now, ClientId(1), &Request::Delete { queue: named(0), ids }, true);
            }
        }
        while one.pass(now, 100_000) {}
        one.facts.clear();
        held.push(one.engine.held_bytes());
    }
    held
}

#[test]
fn jobs_are_moved_together_when_no_more_of_them_go() {
    let count = 30_000;
    let mut one = filled(count);
    let full = one.engine.held_bytes();
    let held = drain(&mut one, count, 20);
    assert!(held[19] > full / 10 * 9, "nothing is moved while jobs go: {held:?} of {full}");
    // Whoever calls it when it asks for that sees it done in two seconds.
    let drained_ms = BEGIN_MS + 19 * 250;
    while let Some(at) = one.engine.next_wakeup().filter(|at| at.0 <= drained_ms + 2_000) {
        one.pass(Micros(at.0.max(drained_ms) * 1_000), 100_000);
    }
    let left = one.engine.held_bytes();
    assert!(left < full / 2, "{left} of {full} bytes");
}

#[test]
fn jobs_are_moved_together_after_ten_seconds_in_any_case() {
    let count = 30_000;
    let mut one = filled(count);
    let full = one.engine.held_bytes();
    let held = drain(&mut one, count, 80);
    let fell = held.iter().position(|held| *held < full / 4 * 3);
    assert!(matches!(fell, Some(30..70)), "{held:?} of {full}");
}

/// A job as its client knows it.
#[derive(Clone, Copy)]
struct Kept {
    number: u32,
    body_bytes: usize,
    delay_ms: u64,
}

impl Kept {
    fn add(self, one: &mut One, now: Micros, body: &[u8]) {
        let id = format!("wave-job-{:011}", self.number);
        let add = Add::new(named(0), When::In(self.delay_ms), &body[..self.body_bytes]);
        let add = Request::Add(Add { id: Some(id.as_bytes()), ..add });
        one.ask(now, ClientId(1), &add, true);
        one.facts.clear();
        one.log = Log::default();
    }

    fn delete(self, one: &mut One, now: Micros) {
        let id = format!("wave-job-{:011}", self.number);
        let ids: &[&[u8]] = &[id.as_bytes()];
        one.ask(now, ClientId(1), &Request::Delete { queue: named(0), ids }, true);
        one.facts.clear();
        one.log = Log::default();
    }
}

/// Waves of jobs of all sizes, of each of which a part is deleted, in the order in which they came or here and
/// there: a minute later no more is held than by an engine that has never had any other, but for a tenth.
#[test]
fn what_waves_leave_is_no_more_than_a_tenth_of_what_their_last_jobs_need() {
    let seed = std::env::var("DELAYD_SEED").map_or(12, |seed| seed.parse().unwrap());
    println!("DELAYD_SEED={seed}");
    let mut rng = SmallRng::seed_from_u64(seed);
    let new = || {
        let engine = Engine::new(Settings::default());
        let (facts, log) = (Facts::default(), Log::default());
        One { engine, facts, log, images: Vec::new(), base_of: None }
    };
    let (mut one, mut now, mut next) = (new(), Micros(BEGIN_MS * 1_000), 0);
    let (mut live, body): (Vec<Kept>, _) = (Vec::new(), vec![7; 10 << 12]);
    for wave in 0..6 {
        // The first one has a page of each size, the others have some of them.
        let doublings = if wave == 0 { 12 } else { rng.random_range(0..=12) };
        let most = 10 << doublings;
        let least = if wave % 3 == 1 { most } else { 10 };
        while one.engine.held_bytes() < 24 << 20 {
            next += 1;
            let delay_ms = 100_000_000 + rng.random_range(0..8_640_000_000);
            let job = Kept { number: next, body_bytes: rng.random_range(least..=most), delay_ms };
            job.add(&mut one, now, &body);
            live.push(job);
        }
        let in_order = wave % 2 == 1;
        if !in_order {
            live.shuffle(&mut rng);
        }
        let gone = live.len() * rng.random_range(0..=95) / 100;
        live.drain(..gone).for_each(|job| job.delete(&mut one, now));
        while one.pass(now, 100_000) {}
        let until = Micros(now.0 + 60_000_000);
        while let Some(at) = one.engine.next_wakeup().filter(|at| at.0 * 1_000 <= until.0) {
            now = now.max(Micros(at.0 * 1_000));
            one.pass(now, 100_000);
        }
        now = until;
        let mut fresh = new();
        live.iter().for_each(|job| job.add(&mut fresh, now, &body));
        let [held, needed] = [&one, &fresh].map(|one| one.engine.held_bytes());
        println!(
            "wave {wave}: {least} to {most} bytes, {gone} gone{}, {} left: {held} of {needed}",
            if in_order { " in order" } else { "" },
            live.len()
        );
        let bound = needed + needed / 9 + 2 * limits::SPARE_BYTES_MIN as u64;
        assert!(held <= bound, "{held} bytes held where {needed} are needed");
    }
}
