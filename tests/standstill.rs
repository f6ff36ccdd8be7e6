//! A server that is stopped for a while, as a suspended machine is, and the answers in its sockets.

#[path = "support/program.rs"]
mod program;

use program::{Folder, Program, Reply, Wire, wall_ms};
use rustix::process::{Pid, Signal, kill_process};
use std::time::Duration;

const WORKERS: usize = 48;

fn signal(program: &Program, signal: Signal) {
    kill_process(Pid::from_raw(program.pid() as i32).unwrap(), signal).unwrap();
}

/// One that has a job, for 500 ms.
struct Worker {
    number: usize,
    wire: Wire,
    id: String,
    token: String,
    lease_end_ms: u64,
}

fn workers(program: &Program) -> Vec<Worker> {
    let mut workers: Vec<Wire> = (0..WORKERS).map(|_| program.connect()).collect();
    for worker in &mut workers {
        worker.push_line("DELAY.ADD q 0 body ATTEMPTS 3");
        worker.push_line("DELAY.RESERVE NOWAIT 1 q LEASE 500ms");
        worker.flush().unwrap();
    }
    let workers = workers.into_iter().enumerate().map(|(number, mut wire)| {
        wire.read().unwrap();
        let reserved = wire.read().unwrap();
        let job = reserved.array().unwrap()[0].array().unwrap();
        let (id, token) = (job[1].text().to_owned(), job[3].text().to_owned());
        Worker { number, wire, id, token, lease_end_ms: job[6].number() as u64 }
    });
    workers.collect()
}

/// The process is stopped until all leases have ended by 200 ms, and `answer` is sent meanwhile.
fn stop(program: &Program, workers: &mut [Worker], answer: impl Fn(&Worker) -> String) {
    signal(program, Signal::STOP);
    for worker in &mut *workers {
        let line = answer(worker);
        worker.wire.push_line(&line);
        worker.wire.flush().unwrap();
    }
    let end_ms = workers.iter().map(|worker| worker.lease_end_ms).max().unwrap() + 200;
    // This is what is tested: that time passes.
    std::thread::sleep(Duration::from_millis(end_ms.saturating_sub(wall_ms())));
    signal(program, Signal::CONT);
}

#[test]
fn what_was_answered_in_time_wins_against_the_clock() {
    for always in [false, true] {
        let folder = Folder::new("standstill");
        let options = if always { ["--appendonly", "yes"] } else { ["--appendonly", "no"] };
        let program = Program::start(&folder.0, &options);
        let mut next = program.connect();
        let mut workers = workers(&program);
        next.push_line("DELAY.RESERVE 0 1 q COUNT 100");
        next.flush().unwrap();
        stop(&program, &mut workers, |Worker { id, token, .. }| {
            format!("DELAY.ACK q {id} {token}")
        });
        let acked = workers.iter_mut().filter_map(|worker| worker.wire.read().ok());
        assert_eq!(acked.map(|reply| reply.number()).sum::<i64>(), WORKERS as i64);
        let mut other = program.connect();
        assert_eq!(other.ask("DELAY.LEN q"), Reply::Number(0));
        assert!(!next.has_reply(), "a job was delivered twice");
        assert!(other.number("standstills") > 0);
        assert!(other.number("standstill_us") > 200_000);
        assert!(program.stop().contains("the process stood still"));
    }
}

#[test]
fn a_lease_that_was_extended_in_time_runs_and_the_others_end_later() {
    let folder = Folder::new("standstill");
    let program = Program::start(&folder.0, &["--appendonly", "no"]);
    let mut workers = workers(&program);
    stop(&program, &mut workers, |Worker { number, id, token, .. }| match number % 2 {
        0 => format!("DELAY.EXTEND q {id} {token} 1h"),
        _ => format!("DELAY.CANCEL q {id}"),
    });
    for Worker { wire, id, .. } in &mut workers {
        let reply = wire.read().unwrap();
        match reply {
            Reply::Number(end_ms) => assert!(end_ms as u64 > wall_ms() + 3_000_000),
            reply => assert_eq!(reply.text(), "leased", "{id}"),
        }
    }
    let mut next = program.connect();
    next.wait_for("total_timeouts", |timeouts| timeouts == "24");
    assert_eq!(next.ask("DELAY.LEN q READY"), Reply::Number(24));
    program.stop();
}
