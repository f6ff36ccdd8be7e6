//! Faults of every kind while clients work, and nothing that a client was told turns out to be false.
//!
//! `DELAYD_SEED=17 cargo test --test it processes::faults` draws the same faults again (what the machine does at which
//! moment cannot be replayed), `DELAYD_CASES=200` draws as many. The calls of a run that failed are left in a file.

use crate::processes::audit::{Clients, is_open, survives};
use crate::processes::calls::At;
use crate::processes::history::Clocks;
use crate::processes::trio::{NODES, Trio, name};
use crate::support::faults::{Faults, Kind};
use crate::support::patience::{pass, seconds};
use crate::support::program::seed;
use crate::support::seeds::{Telltale, number_of};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
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

#[test]
fn what_clients_were_told_is_true_whatever_happens_to_the_nodes() {
    let seed = seed();
    let mut random = SmallRng::seed_from_u64(seed);
    let mut small = vec!["--cluster-lease-grace", "500ms"];
    // Who was away for a while is sent a base.
    small.extend(["--journal-segment-size", "1mb", "--cluster-log-keep", "0"]);
    let mut trio = Trio::start("faults", &small);
    let clients = Clients::start(&trio, seed);
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
    println!("{happened:?}");
    let (seen, _) = clients.check(&trio, calls, clocks);
    survives(&mut trio, &seen);
}
