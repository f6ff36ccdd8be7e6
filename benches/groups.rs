//! Groups beside the same work without them, in one run: who waits how long, in virtual time, and what it costs, by the
//! engine alone. `cargo bench --bench groups`, or with a word: `fair`, `cost`, `herd`, `memory`, `start`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

use delayd::engine::model::group::{GroupSettings, Grouping};
use delayd::engine::model::reply::{Outbox, Reply};
use delayd::engine::model::request::{Add, QueueName, Request, Reserve, Wait, When};
use delayd::engine::{Engine, Facts, Loader, Outcome, Settings, Turn};
use delayd::ids::{ClientId, Db, Token};
use delayd::time::Micros;

const QUEUE: QueueName<'static> = QueueName { db: Db(0), name: b"orders" };
const QUEUES: &[&[u8]] = &[QUEUE.name];
const START: u64 = 1_800_000_000_000_000;
const BODY: [u8; 100] = [b'x'; 100];
const MILLION: u32 = 1_000_000;

/// Jobs handed over: to whom, id and token.
#[derive(Default)]
struct Handed(Vec<(ClientId, Vec<u8>, Token)>);

impl Outbox for Handed {
    fn reply(&mut self, client: ClientId, reply: Reply<'_>) {
        match reply {
            Reply::Reserved(jobs) => {
                let job = |job: &delayd::engine::model::reply::Delivered<'_>| {
                    (client, job.id.to_vec(), job.token.expect("a lease"))
                };
                self.0.extend(jobs.iter().map(job));
            }
            Reply::Error(error) => panic!("{error}"),
            _ => {}
        }
    }
}

struct Bench {
    engine: Engine,
    facts: Facts,
    handed: Handed,
    now: Micros,
}

impl Bench {
    fn new() -> Bench {
        let engine = Engine::new(Settings { token_floor: 1 << 40, ..Settings::default() });
        Bench { engine, facts: Facts::default(), handed: Handed::default(), now: Micros(START) }
    }

    fn ask(&mut self, client: u64, request: &Request<'_>) -> Outcome {
        let mut turn = Turn { facts: &mut self.facts, outbox: &mut self.handed };
        let outcome = self.engine.handle(self.now, ClientId(client), request, &mut turn);
        if self.facts.bytes.len() > 64 << 10 {
            self.facts.clear();
        }
        self.engine.sent(ClientId(client));
        outcome
    }

    fn add(&mut self, group: Option<&[u8]>, id: Option<&[u8]>, when: When) {
        self.ask(1, &Request::Add(Add { group, id, ..Add::new(QUEUE, when, &BODY) }));
    }

    fn reserve(&mut self, client: u64, count: u32, wait: Wait) {
        self.ask(
            client,
            &Request::Reserve(Reserve {
                db: QUEUE.db,
                queues: QUEUES,
                wait,
                count,
                lease_ms: Some(3_600_000),
                no_ack: false,
                bound: false,
                meta: false,
            }),
        );
    }

    fn ack(&mut self, client: u64, jobs: &[(ClientId, Vec<u8>, Token)]) {
        let jobs = jobs.iter().map(|(_, id, token)| (&id[..], *token)).collect();
        self.ask(client, &Request::Ack { queue: QUEUE, jobs });
    }

    fn weigh(&mut self, group: &[u8], weight: u32) {
        let changes = GroupSettings { weight: Some(weight), ..GroupSettings::default() };
        self.ask(1, &Request::Groups(Grouping::Configure { queue: QUEUE, group, changes }));
    }

    fn advance(&mut self, steps: u32) -> bool {
        let mut turn = Turn { facts: &mut self.facts, outbox: &mut self.handed };
        let more = self.engine.advance(self.now, steps, &mut turn);
        self.facts.clear();
        more
    }
}

fn name(number: u32) -> [u8; 16] {
    let mut name = *b"customer:0000000";
    for (at, digit) in name[9..].iter_mut().rev().enumerate() {
        *digit += (number / 10u32.pow(at as u32) % 10) as u8;
    }
    name
}

/// 50 workers, a group with endless jobs of `d_ms`, 999 groups with a job of 5 ms each second: how long those wait, p50
/// and p99 in ms. With a group for all of them, or without.
fn waits(d_ms: u64, grouped: bool) -> (f64, f64) {
    const WORKERS: u64 = 50;
    let mut bench = Bench::new();
    let noise = |bench: &mut Bench| bench.add(grouped.then_some(b"noise"), None, When::In(0));
    (0..WORKERS * 4).for_each(|_| noise(&mut bench));
    // What happens when, us: a job of a group comes, or a worker is done with its own.
    let mut events: BinaryHeap<Reverse<(u64, u64, u32)>> = BinaryHeap::new();
    let mut running: BTreeMap<u64, (ClientId, Vec<u8>, Token)> = BTreeMap::new();
    let (span_us, mut waited, mut serial) = (60_000_000, Vec::new(), 0u64);
    for number in 0..999 {
        events.push(Reverse((START + u64::from(number) * 1_000_000 / 999 + 500, 0, number + 1)));
    }
    (1..=WORKERS).for_each(|worker| bench.reserve(1_000 + worker, 1, Wait::Forever));
    loop {
        for (client, id, token) in std::mem::take(&mut bench.handed.0) {
            let worker = client.0 - 1_000;
            let took_us = match id.strip_prefix(b"s") {
                Some(added) => {
                    let added: u64 = String::from_utf8_lossy(&added[..16]).parse().expect("us");
                    if added > START + span_us / 2 {
                        waited.push(bench.now.0 - added);
                    }
                    5_000
                }
                // They do not go in step.
                None if bench.now.0 == START => d_ms * 1_000 * worker / WORKERS,
                None => d_ms * 1_000,
            };
            running.insert(worker, (client, id, token));
            events.push(Reverse((bench.now.0 + took_us, worker, 0)));
        }
        let Some(Reverse((at, worker, number))) = events.pop() else { break };
        if at > START + span_us {
            break;
        }
        bench.now = Micros(at);
        while bench.advance(1_000_000) {}
        if number > 0 {
            serial += 1;
            let (id, group) = (format!("s{at:016}{serial}"), name(number));
            bench.add(grouped.then_some(&group), Some(id.as_bytes()), When::In(0));
            events.push(Reverse((at + 1_000_000, 0, number)));
            continue;
        }
        let job = running.remove(&worker).expect("it runs");
        let is_noise = !job.1.starts_with(b"s");
        bench.ack(1_000 + worker, &[job]);
        if is_noise {
            noise(&mut bench);
        }
        bench.reserve(1_000 + worker, 1, Wait::Forever);
    }
    waited.sort_unstable();
    let at = |permille: usize| waited[waited.len() * permille / 1000] as f64 / 1_000.0;
    (at(500), at(990))
}

fn fair() {
    for d_ms in [5, 500, 5_000] {
        let ((p50, p99), (alone50, alone99)) = (waits(d_ms, true), waits(d_ms, false));
        println!(
            "fair: beside jobs of {d_ms} ms the others wait p50 {p50:.1}, p99 {p99:.1} ms; without groups {alone50:.1}, \
             {alone99:.1}"
        );
    }
    // Weights 3 : 1, one by one and in batches.
    for count in [1, 100] {
        let mut bench = Bench::new();
        bench.weigh(b"a", 3);
        for number in 0..20_000 {
            let (group, id) = (if number % 2 == 0 { &b"a"[..] } else { b"b" }, number.to_string());
            let id = format!("{}{id}", group.escape_ascii());
            bench.add(Some(group), Some(id.as_bytes()), When::In(0));
        }
        let mut of_a = 0;
        for _ in 0..10_000 / count {
            bench.reserve(2, count, Wait::No);
            let jobs = std::mem::take(&mut bench.handed.0);
            of_a += jobs.iter().filter(|job| job.1[0] == b'a').count();
            bench.ack(2, &jobs);
        }
        println!("fair: weights 3 : 1, batches of {count}: {of_a} of 10,000");
    }
    // A group with long jobs at work beside 59 whose jobs are short and always there.
    for long in [0, 4, 7, 8] {
        let mut bench = Bench::new();
        (0..long).for_each(|_| bench.add(Some(b"own"), None, When::In(0)));
        (0..long).for_each(|_| bench.reserve(2, 1, Wait::No));
        bench.handed.0.clear();
        for number in 0..6_000 {
            let id = format!("own{number}");
            bench.add(Some(b"own"), Some(id.as_bytes()), When::In(0));
            for other in 0..59 {
                bench.add(Some(&name(other)), None, When::In(0));
            }
        }
        let mut own = 0;
        // 42 other workers, each with one short job.
        let mut hands: Vec<(ClientId, Vec<u8>, Token)> = Vec::new();
        for turn in 0..30_000 {
            bench.reserve(2, 1, Wait::No);
            hands.append(&mut bench.handed.0);
            own += u32::from(hands.last().is_some_and(|job| job.1.starts_with(b"own")));
            if turn >= 42 {
                let job = hands.remove(0);
                bench.ack(2, &[job]);
            }
        }
        println!(
            "fair: with {long} long jobs at work a group gets {:.2} of a share",
            f64::from(own) / 500.0
        );
    }
}

/// ns a job for whole lives in batches of 100.
fn lives(groups: u32, jobs: u32) -> Duration {
    let mut bench = Bench::new();
    let mut spent = Duration::ZERO;
    let rounds = if groups > jobs { 1 } else { 3 };
    for round in 0..rounds {
        let start = Instant::now();
        for number in 0..jobs {
            let group = name((number + round) % groups.max(1));
            bench.add((groups > 0).then_some(&group), None, When::In(0));
        }
        for _ in 0..jobs / 100 {
            bench.reserve(2, 100, Wait::No);
            let jobs = std::mem::take(&mut bench.handed.0);
            bench.ack(2, &jobs);
        }
        spent += start.elapsed();
    }
    spent / (rounds * jobs)
}

fn cost() {
    for (groups, jobs) in [(1, 100_000), (1_000, 100_000), (MILLION, MILLION)] {
        let mut ratios = Vec::new();
        let (mut with, mut without) = (Duration::MAX, Duration::MAX);
        for _ in 0..5 {
            let (plain, shared) = (lives(0, jobs), lives(groups, jobs));
            (with, without) = (with.min(shared), without.min(plain));
            ratios.push(plain.as_secs_f64() / shared.as_secs_f64());
        }
        ratios.sort_by(f64::total_cmp);
        println!(
            "cost: lives of {jobs} jobs in {groups} groups: {:.2} x of without (5 pairs, median); best {with:?} against \
             {without:?} a job",
            ratios[2]
        );
    }
}

/// Slices of a turn while a million fall due in one ms, and adds to another queue in between.
fn herd() {
    let steps = delayd::limits::ADVANCE_STEPS_PER_TURN;
    for grouped in [false, true, false, true] {
        let mut bench = Bench::new();
        for number in 0..MILLION {
            let name = name(number);
            bench.add(grouped.then_some(&name), None, When::At(START / 1_000 + 86_400_000));
        }
        bench.now = Micros(START + 86_400_000_000);
        let mut turns = Vec::new();
        let other = QueueName { db: Db(0), name: b"other" };
        loop {
            let start = Instant::now();
            let more = bench.advance(steps);
            bench.ask(1, &Request::Add(Add::new(other, When::In(1_000), &BODY)));
            turns.push(start.elapsed());
            if !more {
                break;
            }
        }
        turns.sort_unstable();
        let at = |permille: usize| turns[turns.len() * permille / 1000];
        println!("herd: groups {grouped}: a turn with an add p50 {:?}, p99 {:?}", at(500), at(990));
    }
}

fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4_096
}

fn memory() {
    let mut bench = Bench::new();
    let mut first = 0;
    for round in 0..10 {
        let before = (resident(), bench.engine.memory_bytes());
        for number in 0..MILLION {
            bench.add(Some(&name(number)), None, When::In(0));
        }
        let full = (resident(), bench.engine.memory_bytes());
        while bench.engine.job_counts()[1] > 0 {
            bench.reserve(2, 10_000, Wait::No);
            let jobs = std::mem::take(&mut bench.handed.0);
            bench.ack(2, &jobs);
        }
        bench.now = Micros(bench.now.0 + 60_000_000);
        while bench.advance(1_000_000) {}
        let left = resident();
        if round == 0 {
            let each = |after: u64, before: u64| (after - before) as f64 / f64::from(MILLION);
            let counted = each(full.1, before.1);
            println!(
                "memory: a job in a group of its own {:.0} B resident, {counted:.0} counted",
                each(full.0, before.0)
            );
            first = left;
        }
        if round == 9 {
            println!(
                "memory: a million groups come and go: {} MB after the first time, {} MB after the tenth",
                first >> 20,
                left >> 20
            );
        }
    }
}

fn start() {
    for groups in [0, MILLION, 0, MILLION] {
        let mut bench = Bench::new();
        for number in 0..MILLION {
            let name = name(number);
            bench.add((groups > 0).then_some(&name), None, When::In(0));
        }
        bench.engine.begin_base();
        while !bench.engine.base_slice(10_000, 10 << 20) {}
        let images = std::mem::take(bench.engine.base_output());
        drop(bench);
        let start = Instant::now();
        let mut loader = Loader::new(Settings::default());
        loader.images(&images).expect("own images");
        let engine = Engine::loaded(loader).expect("a whole base");
        println!("start: a million jobs in {groups} groups are read in {:?}", start.elapsed());
        drop(engine);
    }
}

fn main() {
    let word = std::env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_default();
    let all: [(&str, fn()); 5] =
        [("fair", fair), ("cost", cost), ("herd", herd), ("memory", memory), ("start", start)];
    all.into_iter().filter(|(name, _)| word.is_empty() || word == *name).for_each(|(_, run)| run());
}
