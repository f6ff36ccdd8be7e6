//! Blocked consumers: how long a job that is due now takes from its producer to one of them.

use crate::punctual::wait;
use crate::support::Server;
use crate::system::System;
use crate::wire::{Wire, request};
use std::time::{Duration, Instant};

/// The median of so many jobs, µs. delayd's consumers wait in `DELAY.POP`, Redis's in `BZPOPMIN`.
pub fn hand_off(system: System, server: &Server, waiters: usize, jobs: usize) -> f64 {
    let mut wires: Vec<Wire> = (0..waiters).map(|_| system.connect(server)).collect();
    let mut client = server.client();
    let (ask, add): (&[&str], &[&str]) = match system {
        System::Redis => (&["BZPOPMIN", "w", "0"], &["ZADD", "w", "0", "x"]),
        _ => (&["DELAY.POP", "w", "0"], &["DELAY.ADD", "w", "0", "x"]),
    };
    let block = |wire: &mut Wire| {
        let words = [ask[0].into(), ask[1].into(), ask[2].into()];
        wire.send(1, |out| request(out, &words));
    };
    wires.iter_mut().for_each(block);
    while client.info("blocked_clients") < waiters as u64 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut took = Vec::new();
    // Both serve who came first.
    for job in 0..jobs {
        let began = Instant::now();
        client.call(add);
        let wire = &mut wires[job % waiters];
        wait(wire, |_| ());
        took.push(began.elapsed().as_secs_f64() * 1e6);
        block(wire);
        while client.info("blocked_clients") < waiters as u64 {}
    }
    took.sort_by(f64::total_cmp);
    took[took.len() / 2]
}
