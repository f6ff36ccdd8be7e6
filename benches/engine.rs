//! The engine through `handle`: what a request costs without sockets and parsing.
//!
//! Each measurement begins with 1 M pending jobs of 100 bytes, due over the next 24 h, in one queue.
//! Replies go to an outbox that looks at them and forgets them; facts are encoded and thrown away,
//! as the server does without a journal. Run one with `cargo bench --bench engine -- NAME`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::Criterion;
use delayd::engine::model::reply::{Delivered, Outbox, Reply};
use delayd::engine::model::request::{Add, QueueName, Request, Reserve, Wait, When};
use delayd::engine::{Engine, Facts, Settings, Turn};
use delayd::ids::{ClientId, Db, Token};
use delayd::time::Micros;
use rand::{Rng, SeedableRng, rngs::SmallRng};

const PENDING: u64 = 1_000_000;
const DAY_MS: u64 = 86_400_000;
const START: Micros = Micros(1_800_000_000_000_000);
const CLIENT: ClientId = ClientId(1);
const QUEUE: QueueName<'static> = QueueName { db: Db(0), name: b"orders" };
const BODY: [u8; 100] = [b'x'; 100];

/// Keeps what the next request needs of a reply.
#[derive(Default)]
struct Sink {
    errors: u64,
    reserved: Vec<(Vec<u8>, Token)>,
}

impl Outbox for Sink {
    fn reply(&mut self, _client: ClientId, reply: Reply<'_>) {
        match reply {
            Reply::Error(_) => self.errors += 1,
            Reply::Reserved(jobs) => {
                let known = |job: &Delivered<'_>| (job.id.to_vec(), job.token.expect("a lease"));
                self.reserved.extend(jobs.iter().map(known));
            }
            other => {
                black_box(&other);
            }
        }
    }
}

struct Bench {
    engine: Engine,
    facts: Facts,
    sink: Sink,
    now: Micros,
    rng: SmallRng,
}

impl Bench {
    fn new() -> Bench {
        let settings = Settings { token_floor: 1 << 40, ..Settings::default() };
        Bench {
            engine: Engine::new(settings),
            facts: Facts::default(),
            sink: Sink::default(),
            now: START,
            rng: SmallRng::seed_from_u64(1),
        }
    }

    fn with_pending(pending: u64) -> Bench {
        let mut bench = Bench::new();
        for _ in 0..pending {
            bench.add(None, None);
        }
        bench
    }

    fn ask(&mut self, request: &Request<'_>) {
        let mut turn = Turn { facts: &mut self.facts, outbox: &mut self.sink };
        self.engine.handle(self.now, CLIENT, request, &mut turn);
        // A turn has about as many commands as fit a read: facts are let go as often.
        if self.facts.bytes.len() > 64 << 10 {
            self.facts.clear();
            self.engine.sent(CLIENT);
        }
    }

    fn add(&mut self, id: Option<&[u8]>, when: Option<When>) {
        let when = when.unwrap_or_else(|| When::In(self.rng.random_range(1..DAY_MS)));
        self.ask(&Request::Add(Add { id, ..Add::new(QUEUE, when, &BODY) }));
    }

    fn advance(&mut self, budget: u32) -> bool {
        let mut turn = Turn { facts: &mut self.facts, outbox: &mut self.sink };
        let more = self.engine.advance(self.now, budget, &mut turn);
        self.facts.clear();
        more
    }
}

fn id(number: u64) -> [u8; 20] {
    let mut id = *b"order:00000000000000";
    for (at, digit) in id[6..].iter_mut().rev().enumerate() {
        *digit += (number / 10u64.pow(at as u32) % 10) as u8;
    }
    id
}

/// Adds measured on 1 M pending jobs, at most so many before a fresh million is prepared: the number
/// pending stays what it is said to be.
const PART: u64 = 100_000;

fn add_with_made_ids(c: &mut Criterion) {
    c.bench_function("add/made ids", |b| {
        b.iter_custom(|times| {
            let mut spent = Duration::ZERO;
            let mut left = times;
            while left > 0 {
                let mut bench = Bench::with_pending(PENDING);
                let part = left.min(PART);
                let start = Instant::now();
                (0..part).for_each(|_| bench.add(None, None));
                spent += start.elapsed();
                left -= part;
            }
            spent
        });
    });
    // With all that growing costs: index tables that split, memory that is touched first.
    c.bench_function("add/made ids, from none to 1 M", |b| {
        b.iter_custom(|times| {
            let start = Instant::now();
            let mut left = times;
            while left > 0 {
                let part = left.min(PENDING);
                black_box(Bench::with_pending(part));
                left -= part;
            }
            start.elapsed()
        });
    });
}

/// As `redis-benchmark -r 1000000` does it: ids drawn out of 1 M, so that most exist already when
/// 1 M were added; those are refused, which costs the same look-up.
fn add_with_random_ids(c: &mut Criterion) {
    c.bench_function("add/random ids out of 1 M", |b| {
        b.iter_custom(|times| {
            let mut spent = Duration::ZERO;
            let mut left = times;
            while left > 0 {
                let mut bench = Bench::new();
                let part = left.min(PENDING);
                let ids: Vec<[u8; 20]> =
                    (0..part).map(|_| id(bench.rng.random_range(0..PENDING))).collect();
                let start = Instant::now();
                ids.iter().for_each(|id| bench.add(Some(id), None));
                spent += start.elapsed();
                left -= part;
            }
            spent
        });
    });
    // Ids in random order, all new, while the index already holds 1 M.
    c.bench_function("add/new random ids on 1 M", |b| {
        b.iter_custom(|times| {
            let mut spent = Duration::ZERO;
            let mut left = times;
            while left > 0 {
                let mut bench = Bench::new();
                (0..PENDING).for_each(|number| bench.add(Some(&id(number)), None));
                let part = left.min(PART);
                let mut ids: Vec<[u8; 20]> = (0..part).map(|n| id(n + PENDING)).collect();
                rand::seq::SliceRandom::shuffle(&mut ids[..], &mut bench.rng);
                let start = Instant::now();
                ids.iter().for_each(|id| bench.add(Some(id), None));
                spent += start.elapsed();
                assert_eq!(bench.sink.errors, 0);
                left -= part;
            }
            spent
        });
    });
}

/// One job falls due, is reserved and acknowledged, beside 1 M that wait for their time.
fn reserve_and_ack(c: &mut Criterion, count: u32) {
    c.bench_function(&format!("reserve + ack/count {count}"), |b| {
        b.iter_custom(|times| {
            let mut bench = Bench::with_pending(PENDING);
            (0..times).for_each(|_| bench.add(None, Some(When::In(0))));
            let queues: [&[u8]; 1] = [QUEUE.name];
            let reserve = Request::Reserve(Reserve {
                db: QUEUE.db,
                queues: &queues,
                wait: Wait::No,
                count,
                lease_ms: None,
                no_ack: false,
                bound: false,
                meta: false,
            });
            let start = Instant::now();
            let mut acked = 0;
            while acked < times {
                bench.ask(&reserve);
                let jobs = std::mem::take(&mut bench.sink.reserved);
                acked += jobs.len() as u64;
                let jobs = jobs.iter().map(|(id, token)| (&id[..], *token)).collect();
                bench.ask(&Request::Ack { queue: QUEUE, jobs });
            }
            start.elapsed()
        });
    });
}

/// Many jobs fall due in one ms: how long a turn's slice takes. `DELAYD_BENCH_HERD` (default 1000000).
fn herd_slices(c: &mut Criterion) {
    let herd = std::env::var("DELAYD_BENCH_HERD")
        .map_or(PENDING, |value| value.parse().expect("a whole number"));
    let steps = delayd::limits::ADVANCE_STEPS_PER_TURN;
    c.bench_function(&format!("advance/slice of {steps} in a herd of {herd}"), |b| {
        b.iter_custom(|times| {
            let mut spent = Duration::ZERO;
            let mut slices = Vec::new();
            while (slices.len() as u64) < times {
                let mut bench = Bench::new();
                let due = When::At(START.0 / 1000 + DAY_MS);
                (0..herd).for_each(|_| bench.add(None, Some(due)));
                bench.now = Micros(START.0 + DAY_MS * 1000);
                loop {
                    let start = Instant::now();
                    let more = bench.advance(steps);
                    slices.push(start.elapsed());
                    if !more {
                        break;
                    }
                }
            }
            slices.sort();
            let at = |permille: usize| slices[slices.len() * permille / 1000];
            eprintln!("slices: p50 {:?}, p99 {:?}, p99.9 {:?}", at(500), at(990), at(999));
            let counted = &slices[..times as usize];
            spent += counted.iter().sum::<Duration>();
            spent
        });
    });
}

/// Resident memory of a million pending jobs, printed; measured once in a process of its own kind.
fn memory(_: &mut Criterion) {
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
        let pages = statm.split(' ').nth(1).expect("resident pages");
        pages.parse::<u64>().expect("a number") * 4096
    };
    let before = resident();
    let mut bench = Bench::new();
    (0..PENDING).for_each(|number| bench.add(Some(&id(number)), None));
    let per_job = (resident() - before) as f64 / PENDING as f64;
    let counted = bench.engine.memory_bytes() as f64 / PENDING as f64;
    println!(
        "memory/1 M jobs, id 20 bytes, body 100: {per_job:.1} B resident, {counted:.1} counted"
    );
}

fn main() {
    let criterion = Criterion::default().sample_size(10).measurement_time(Duration::from_secs(4));
    let mut criterion = criterion.without_plots().configure_from_args();
    memory(&mut criterion);
    add_with_made_ids(&mut criterion);
    add_with_random_ids(&mut criterion);
    reserve_and_ack(&mut criterion, 1);
    reserve_and_ack(&mut criterion, 100);
    herd_slices(&mut criterion);
    criterion.final_summary();
}
