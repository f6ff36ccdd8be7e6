//! A million jobs due in one millisecond: how fast they are drained in batches of 1,000, and what
//! another client feels meanwhile.

use crate::flood::Flood;
use crate::poller::Poller;
use crate::support::{Server, now_us};
use crate::system::{System, Taken};
use crate::wire::Wire;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Connections that drain: one of them has always asked while the jobs of another are looked at.
const CONSUMERS: usize = 4;

/// How it went.
#[derive(Clone, Copy, Debug)]
pub struct Drained {
    /// Jobs a second, from the instant at which all fell due.
    pub rate: f64,
    /// The 99th per cent of another client's round trips meanwhile, ms.
    pub p99_ms: f64,
    /// The longest, ms.
    pub max_ms: f64,
}

pub fn herd(system: System, server: &Server, count: u64) -> Drained {
    system.prepare(server);
    // Time to add them all at a modest 60,000 a second.
    let due_ms = now_us() / 1_000 + 2_000 + count / 60;
    let body = "x".repeat(100);
    let flood = Flood {
        system,
        connections: 8,
        pipeline: 64,
        replies: system.add_replies(),
        count,
        write: &mut |out, job| system.add(out, job, due_ms, 0, &body),
        check: &mut |_| (),
    };
    flood.run(server);
    assert!(now_us() / 1_000 < due_ms, "all are added before they are due");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let pings = scope.spawn(|| ping(server, due_ms, &stop));
        let took = drain(system, server, due_ms, count);
        stop.store(true, Ordering::Relaxed);
        let waits = pings.join().expect("it pings");
        let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize];
        let rate = count as f64 / took.as_secs_f64();
        Drained { rate, p99_ms: at(0.99), max_ms: at(1.0) }
    })
}

/// Takes all of them from `due_ms` on; panics unless each comes once, and none before.
fn drain(system: System, server: &Server, due_ms: u64, count: u64) -> Duration {
    let mut wires: Vec<Wire> = (0..CONSUMERS).map(|_| system.connect(server)).collect();
    let mut poller = Poller::new(&wires);
    let (mut came, mut left) = (vec![false; count as usize], count);
    let mut jobs = Taken::default();
    let ask = |wire: &mut Wire| wire.send(1, |out| system.take(out, 1_000, now_us() / 1_000));
    let due_us = due_ms * 1_000;
    std::thread::sleep(Duration::from_micros(due_us.saturating_sub(now_us())));
    wires.iter_mut().for_each(ask);
    while left > 0 {
        for at in poller.ready(&wires, None) {
            wires[at].fill();
            let Some(reply) = wires[at].reply() else { continue };
            system.taken(reply, &mut jobs);
            for number in &jobs.numbers {
                let twice = std::mem::replace(&mut came[*number as usize], true);
                assert!(!twice, "job {number} came twice");
            }
            left -= jobs.len() as u64;
            ask(&mut wires[at]);
        }
    }
    Duration::from_micros(now_us() - due_us)
}

/// Round trips from just before the jobs fall due, ms, shortest first.
fn ping(server: &Server, due_ms: u64, stop: &AtomicBool) -> Vec<f64> {
    let mut client = server.client();
    std::thread::sleep(Duration::from_millis((due_ms - 5).saturating_sub(now_us() / 1_000)));
    let mut waits = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        client.call(&["PING"]);
        waits.push(began.elapsed().as_secs_f64() * 1e3);
        // A pace: a client of its own, not a load.
        std::thread::sleep(Duration::from_micros(200));
    }
    waits.sort_by(f64::total_cmp);
    waits
}
