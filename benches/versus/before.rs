//! delayd beside another build of itself: `DELAYD_BENCH_BEFORE=/some/delayd cargo bench --bench versus -- before`.
//!
//! Both do the same work by turns, in rounds, so that what else the machine does meets both. What counts is
//! the median of the rounds' ratios.

use crate::cluster;
use crate::herd::herd as drain;
use crate::life::Life;
use crate::many::{self, BODY};
use crate::punctual::Punctual;
use crate::report::{Asked, Report};
use crate::support::Server;
use crate::system::{Sync, System};
use crate::{median, rounds, scaled};

/// As fast as before, within what can be told apart.
const AS_BEFORE: f64 = 0.97;

/// Adding, whole lives, a herd, lateness and memory.
pub fn before(report: &mut Report) {
    if Server::before().is_none() {
        eprintln!("SKIPPED: DELAYD_BENCH_BEFORE names no other build");
        return;
    }
    let pending = scaled(1_000_000);
    for sync in [Sync::Off, Sync::Everysec, Sync::Always] {
        compare(report, &format!("add, {}", sync.word()), "jobs/s", || {
            let server = System::Delayd.start(sync);
            many::add(System::Delayd, &server, 0, pending, BODY).rate
        });
        compare(report, &format!("life, batches of 100, {}", sync.word()), "jobs/s", || {
            life(sync, 16, 100, scaled(1_000_000))
        });
        compare(report, &format!("life, one by one, {}", sync.word()), "jobs/s", || {
            life(sync, 25, 1, scaled(100_000))
        });
    }
    compare(report, "add, 4 KiB bodies, everysec", "jobs/s", || {
        let server = System::Delayd.start(Sync::Everysec);
        many::add(System::Delayd, &server, 0, scaled(200_000), &"x".repeat(4_096)).rate
    });
    compare(report, "herd of 1 M jobs, everysec", "jobs/s", || {
        drain(System::Delayd, &System::Delayd.start(Sync::Everysec), pending).rate
    });
    compare(report, "lateness, 10 k due a second, everysec: 1 / p50", "1/ms", || {
        1.0 / Punctual::DELAYD.run(&System::Delayd.start(Sync::Everysec)).p50
    });
    for (connections, batch, count) in [(64, 1, 60_000), (50, 16, 400_000)] {
        let work = format!("three nodes, add, {connections} clients, pipeline {batch}, always");
        compare(report, &work, "jobs/s", || cluster::rate(connections, batch, scaled(count)));
    }
    compare(report, "pending jobs of 120 bytes in a MB", "jobs", || {
        let server = System::Delayd.start(Sync::Off);
        let empty = server.resident();
        many::add(System::Delayd, &server, 0, pending, BODY);
        pending as f64 / ((server.resident() - empty) as f64 / 1e6)
    });
}

fn life(sync: Sync, clients: usize, batch: u64, count: u64) -> f64 {
    let alive_max = if batch == 1 { 5_000 } else { 50_000 };
    let (producers, consumers, delay_ms) = (clients, clients, 10);
    let system = System::Delayd;
    let life = Life { system, producers, consumers, batch, delay_ms, alive_max, count };
    life.run(&system.start(sync)).rate
}

/// Both builds by turns, each first in every other round.
fn compare(report: &mut Report, work: &str, unit: &'static str, run: impl Fn() -> f64) {
    let mut pairs = Vec::new();
    for round in 0..rounds() {
        let of = |is_before: bool| {
            Server::use_before(is_before);
            run()
        };
        let first = of(round % 2 == 0);
        let second = of(round % 2 == 1);
        pairs.push(if round % 2 == 0 { (second, first) } else { (first, second) });
    }
    Server::use_before(false);
    let before = median(pairs.iter().map(|(_, before)| *before).collect());
    let ratio = median(pairs.iter().map(|(now, before)| now / before).collect());
    report.versus(work, unit, before * ratio, ("before", before), Asked::Least(AS_BEFORE));
}
