//! Faults of every kind while clients work, and nothing that a client was told turns out to be false.
//!
//! `DELAYD_SEED=17 cargo test --test it processes::faults` draws the same faults again (what the machine does at which
//! moment cannot be replayed), `DELAYD_CASES=200` draws as many. The calls of a run that failed are left in a file.

use crate::processes::calls::{Answer, At, Call, Client, QUEUES, What};
use crate::processes::history::{Clocks, History};
use crate::processes::load::Load;
use crate::processes::trio::{NODES, Trio, name, wait_until};
use crate::processes::{linear, order, reads, totals};
use crate::support::faults::{Faults, Kind};
use crate::support::patience::{pass, seconds};
use crate::support::program::seed;
use crate::support::seeds::{Telltale, number_of};
use crate::support::seen::{Seen, SeenJob};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// What goes wrong, and for how long.
#[derive(Clone, Debug)]
enum Fault {
    /// As on every floor of the cluster's tests.
    Common(Kind),
    Terminate {
        node: usize,
        ms: u64,
    },
    FailedSync {
        node: usize,
        ms: u64,
    },
    FullDisk {
        node: usize,
        ms: u64,
    },
    EmptyDisk {
        node: usize,
        ms: u64,
    },
    HandOver {
        to: usize,
    },
    Clock {
        node: usize,
        s: i64,
        ms: u64,
    },
}

impl Fault {
    fn draw(random: &mut SmallRng, leader: usize) -> Fault {
        let any = random.random_range(0..NODES);
        let node = if random.random_ratio(1, 2) { leader } else { any };
        let ms = match random.random_range(0..4) {
            0 => random.random_range(0..200),
            1 | 2 => random.random_range(200..1_500),
            _ => random.random_range(1_500..3_000),
        };
        match random.random_range(0..17) {
            0..4 => Fault::Common(Kind::Kill),
            4 => Fault::Terminate { node, ms },
            5 | 6 => Fault::Common(Kind::Pause),
            7..10 => Fault::Common(Kind::Cut),
            10 => Fault::Common(Kind::Slow),
            11 => Fault::FullDisk { node, ms },
            12 => Fault::EmptyDisk { node: any, ms },
            13 | 14 => Fault::HandOver { to: any },
            15 => {
                let apart = [1, 40, 3_600][random.random_range(0..3)];
                let s = if random.random_ratio(1, 2) { apart } else { -apart };
                Fault::Clock { node, s, ms }
            }
            _ => Fault::FailedSync { node, ms },
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Fault::Common(Kind::Kill) => "killed",
            Fault::Common(Kind::Pause) => "paused",
            Fault::Common(Kind::Cut) => "cut off",
            Fault::Common(Kind::Slow) => "slow disks",
            Fault::Common(Kind::Hang | Kind::Fill | Kind::Lose | Kind::Own(_)) => {
                unreachable!("none is drawn")
            }
            Fault::Terminate { .. } => "terminated",
            Fault::FailedSync { .. } => "failed syncs",
            Fault::FullDisk { .. } => "full disks",
            Fault::EmptyDisk { .. } => "lost disks",
            Fault::HandOver { .. } => "handed over",
            Fault::Clock { .. } => "clocks set",
        }
    }

    /// Begins, lasts and ends; all nodes run then.
    fn happen(&self, trio: &mut Trio, common: &mut Common, clocks: &mut Clocks) {
        let last = |ms: &u64| pass(Duration::from_millis(*ms));
        match self {
            Fault::Common(kind) => common.happen(*kind, trio),
            Fault::Terminate { node, ms } => {
                trio.stop(*node);
                last(ms);
                trio.begin(*node);
            }
            Fault::FailedSync { node, ms } => {
                let Some(disk) = &trio.disks[*node] else { return };
                disk.set("sync");
                last(ms);
                disk.clear("sync");
                // It ended itself if it was asked to sync anything.
                match trio.has_ended(*node) {
                    true => drop(trio.ended(*node)),
                    false => drop(trio.kill(*node)),
                }
                trio.begin(*node);
            }
            Fault::FullDisk { node, ms } => {
                let Some(disk) = &trio.disks[*node] else { return };
                disk.set("full");
                fill(trio, Duration::from_millis(*ms));
                disk.clear("full");
            }
            Fault::EmptyDisk { node, ms } => {
                // What was acknowledged by one that is lost stands on the others' alone until the new one has it.
                trio.wait_for_voters();
                trio.kill(*node);
                std::fs::remove_dir_all(trio.path(*node)).unwrap();
                last(ms);
                trio.begin(*node);
                trio.wait_for_voters();
            }
            Fault::HandOver { to } => {
                let port = trio.addresses[*to].port();
                // Refused, if it leads already or is not there.
                let _ = trio.wire(trio.leader()).try_ask(&format!("FAILOVER TO 127.0.0.1 {port}"));
                last(&100);
            }
            Fault::Clock { node, s, ms } => {
                let Some(disk) = &trio.disks[*node] else { return };
                let begin = At::now();
                disk.set_to("clock", *s);
                last(ms);
                disk.clear("clock");
                // Until the others know that it is right again: two that are wrong would be most of them.
                last(&500);
                clocks.set.push((begin, At::now()));
            }
        }
    }
}

/// Kills, pauses, cuts and slow disks, one at a time.
struct Common {
    faults: Faults,
    begin: Instant,
    random: SmallRng,
}

impl Common {
    fn new(seed: u64) -> Common {
        let random = SmallRng::seed_from_u64(seed ^ 0xfa17);
        Common { faults: Faults::new(seed, Vec::new(), 0), begin: Instant::now(), random }
    }

    fn happen(&mut self, kind: Kind, trio: &mut Trio) {
        trio.cuts_lose = self.random.random_ratio(1, 2);
        let now = self.begin.elapsed().as_micros() as u64;
        let us = self.faults.strike(now, kind, trio);
        println!("{}", self.faults.newest());
        pass(Duration::from_micros(us));
        self.faults.heal(trio);
    }
}

/// Jobs that take all the room there is, and go again by themselves, for so long.
fn fill(trio: &Trio, lasts: Duration) {
    let patience = seconds(10);
    let (begin, body) = (Instant::now(), "x".repeat(50_000));
    let add = format!("DELAY.ADD ballast 1h {body} TTL 1ms");
    while begin.elapsed() < lasts {
        let Some(leader) = trio.try_leader() else { continue };
        let mut wire = trio.wire(leader);
        wire.set_patience(patience).expect("it is open");
        // Refused at times, or closed; never left without either.
        let mut ask = |line: &str| {
            let asked = Instant::now();
            let is_told = wire.try_ask(line).is_ok();
            let raft = |node| trio.wire(node).info("raft");
            let all = || (0..NODES).map(raft).collect::<String>();
            assert!(
                is_told || asked.elapsed() < patience,
                "{} keeps one waiting: {}",
                name(leader),
                all()
            );
            is_told
        };
        while begin.elapsed() < lasts && ask(&add) {}
        ask("DELAY.PURGE ballast");
    }
}

/// An add is answered, from now on within the limit.
fn is_open(trio: &Trio, seed: u64, calls: &mut Vec<Call>) {
    let mut client = Client::new(&trio.addresses, SmallRng::seed_from_u64(seed));
    let add = What::Add { label: seed, due_ms: 0, has_id: true };
    wait_until("an add is answered", || {
        client.ask(add.clone()).filter(|answer| matches!(answer, Answer::Told(_)))
    });
    calls.append(&mut client.calls);
}

/// What all nodes show, once they show the same, no lease runs and no fact is made any more.
fn look(trio: &Trio) -> Seen {
    let (mut last, begin) = (None, Instant::now());
    wait_until("all nodes show the same", || {
        // Until no lease runs any more, and longer than a follower needs.
        let is_late = begin.elapsed() > seconds(30);
        assert!(!is_late, "they do not become the same, but {}", differences(trio, &last));
        let shown: Option<Vec<(u64, Seen)>> = (0..NODES).map(|node| shown_by(trio, node)).collect();
        let before = std::mem::replace(&mut last, shown);
        let shown = last.as_ref()?;
        let is_equal = shown.iter().all(|one| *one == shown[0]);
        // Two looks in a row may come before a lease ends, of 5 s at most.
        let is_leased = shown[0].1.jobs.values().any(|job| job.state == "leased");
        (is_equal && !is_leased && before.as_ref() == Some(shown)).then(|| shown[0].1.clone())
    })
}

/// For a reader: what each node says of itself, and where it differs from the first one.
fn differences(trio: &Trio, shown: &Option<Vec<(u64, Seen)>>) -> String {
    let mut text = String::new();
    for node in 0..NODES {
        writeln!(text, "{}: {}", name(node), trio.wire(node).info("raft")).unwrap();
    }
    let shown = shown.iter().flatten().map(|(index, seen)| (index, &seen.stats, &seen.jobs));
    let all: Vec<_> = shown.collect();
    for (index, stats, jobs) in &all {
        let other = |job: &(&u64, &SeenJob)| all[0].2.get(job.0) != Some(job.1);
        let others: Vec<_> = jobs.iter().filter(other).take(5).collect();
        writeln!(text, "at {index}: {} jobs, {stats:?}; {others:?}", jobs.len()).unwrap();
    }
    text
}

/// How far it has applied, and its jobs and totals.
fn shown_by(trio: &Trio, node: usize) -> Option<(u64, Seen)> {
    let mut wire = trio.wire(node);
    let mut seen = Seen::try_look(&mut wire, &QUEUES)?;
    // It grows by itself.
    for totals in seen.stats.values_mut() {
        totals.remove("oldest-ready-age-ms");
    }
    Some((wire.try_number("raft_applied_index")?, seen))
}

fn leave(seed: u64, calls: &[Call]) -> String {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("calls-{seed}"));
    let mut text = String::new();
    for call in calls {
        writeln!(text, "{call:?}").unwrap();
    }
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn what_clients_were_told_is_true_whatever_happens_to_the_nodes() {
    let seed = seed();
    let mut random = SmallRng::seed_from_u64(seed);
    let mut small = vec!["--cluster-lease-grace", "500ms"];
    // Who was away for a while is sent a base.
    small.extend(["--journal-segment-size", "1mb", "--cluster-log-keep", "0"]);
    let mut trio = Trio::start("faults", &small);
    let load = Load::start(&trio.addresses, seed);
    let one_by_one = linear::Jobs::start(&trio.addresses, seed);
    let pair = order::Pair::start(&trio.addresses, seed);
    let reader = reads::Reader::start(&trio.addresses, seed);
    let (mut clocks, mut common) = (Clocks::default(), Common::new(seed));
    let (mut calls, mut happened) = (Vec::new(), BTreeMap::<&str, u64>::new());
    for number in 0..number_of("DELAYD_CASES").unwrap_or(20) {
        if random.random_ratio(1, 3) {
            // So that nodes start from bases and have segments before them.
            let _ = trio.wire(random.random_range(0..NODES)).try_ask("BGSAVE");
        }
        let fault = Fault::draw(&mut random, trio.leader());
        let _telltale = Telltale(format!("DELAYD_SEED={seed}, fault {number}, {fault:?}"));
        let begin = Instant::now();
        fault.happen(&mut trio, &mut common, &mut clocks);
        *happened.entry(fault.word()).or_default() += 1;
        let ended = Instant::now();
        is_open(&trio, number, &mut calls);
        let (lasted, open) = ((ended - begin).as_millis(), ended.elapsed().as_millis());
        println!("{number} {} for {lasted} ms, open after {open} ms: {fault:?}", fault.word());
    }
    calls.extend(load.stop());
    let (jobs, not_linear) = one_by_one.stop();
    let (taken, not_in_order) = pair.stop();
    let (read, not_read) = reader.stop();
    let seen = look(&trio);
    let history = History::of(calls.clone(), clocks);
    println!("{happened:?} {:?}", history.counts);
    println!("{jobs} jobs one by one, {taken} taken in order, {read} reads of followers");
    assert!(jobs > 10 && taken > 100 && read > 50, "few");
    for what in ["adds answered", "jobs acknowledged", "jobs popped", "jobs cancelled"] {
        assert!(history.counts.get(what).is_some_and(|count| *count >= 20), "{what}: few");
    }
    let mut wrong = history.check(&seen);
    wrong.extend([not_linear, not_in_order, not_read, totals::check(&calls, &seen)].concat());
    let mut claims = BTreeMap::<&str, u64>::new();
    for text in &wrong {
        *claims.entry(text.split([':', ' ']).next().unwrap_or_default()).or_default() += 1;
    }
    let few = &wrong[..wrong.len().min(10)];
    assert!(wrong.is_empty(), "{claims:?} wrong, in {}: {few:#?}", leave(seed, &calls));

    // Stopped and started, they show the same.
    (0..NODES).for_each(|node| drop(trio.stop(node)));
    (0..NODES).for_each(|node| trio.check(node));
    (0..NODES).for_each(|node| trio.begin(node));
    trio.leader();
    let again = look(&trio);
    assert_eq!(again.jobs.len(), seen.jobs.len());
    assert!(again.jobs.keys().all(|label| seen.jobs.contains_key(label)));
    println!("{} jobs at the end of {}, {}, {}", seen.jobs.len(), name(0), name(1), name(2));
}
