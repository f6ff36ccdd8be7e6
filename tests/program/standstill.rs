//! A server that is stopped for a while, as a suspended machine is, and the answers in its sockets.

use crate::support::patience::{pass, until};
use crate::support::program::{Folder, Program, Reply, Wire, wall_ms};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const WORKERS: usize = 48;

/// One that has a job, for 2 s: until then all have one and the process is stopped.
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
        worker.push_line("DELAY.RESERVE NOWAIT 1 q LEASE 2s");
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

/// This is what is tested: that time passes.
fn pass_until(end_ms: u64) {
    pass(Duration::from_millis(end_ms.saturating_sub(wall_ms())));
}

/// The process is stopped until all leases have ended by 200 ms, and `answer` is sent meanwhile.
fn stop(program: &Program, workers: &mut [Worker], answer: impl Fn(&Worker) -> String) {
    program.pause();
    for worker in &mut *workers {
        let line = answer(worker);
        worker.wire.push_line(&line);
        worker.wire.flush().unwrap();
    }
    let end_ms = workers.iter().map(|worker| worker.lease_end_ms).max().unwrap() + 200;
    pass_until(end_ms);
    program.go_on();
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
        assert!(program.stop().contains("the process stalled"));
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

/// Whether a word stands in a reply.
fn names(reply: &Reply, word: &str) -> bool {
    match reply {
        Reply::Array(all) => all.iter().any(|reply| names(reply, word)),
        Reply::Bulk(bytes) => bytes == word.as_bytes(),
        _ => false,
    }
}

/// Of a timer that fell due meanwhile, and a worker in POP or RESERVE.
#[test]
fn what_was_cancelled_or_moved_in_time_is_not_handed_to_who_waits() {
    for (take, ask) in [
        ("DELAY.POP q 0", "DELAY.CANCEL q timer"),
        ("DELAY.RESERVE 0 1 q", "DELAY.RESCHEDULE q timer 1h"),
        ("BLPOP q 0", "DELAY.DEL q timer"),
    ] {
        let folder = Folder::new("standstill");
        let program = Program::start(&folder.0, &["--appendonly", "no"]);
        let (mut waiter, mut owner, mut other) =
            (program.connect(), program.connect(), program.connect());
        waiter.push_line(take);
        waiter.flush().unwrap();
        other.wait_for("blocked_clients", |clients| clients == "1");
        let due_ms = wall_ms() + 2_000;
        owner.ask(&format!("DELAY.ADD q @{due_ms} body ID timer"));
        program.pause();
        owner.push_line(ask);
        owner.flush().unwrap();
        pass_until(due_ms + 200);
        program.go_on();
        let said = owner.read().unwrap();
        assert!(said == Reply::Number(1) || said.text() == "ready", "{ask}: {said:?}");
        // Who waits is served as ever from here on.
        other.ask("DELAY.ADD q 0 next ID next");
        let served = waiter.read().unwrap();
        assert!(names(&served, "next"), "{ask}: {served:?}");
        program.stop();
    }
}

/// A client that sends without end does not keep jobs from those who wait: what it has sent until the process goes on
/// comes before the job falls due, and little after that.
#[test]
fn waiters_are_served_though_somebody_sends_without_end() {
    let folder = Folder::new("standstill");
    let program = Program::start(&folder.0, &["--appendonly", "no"]);
    let (mut waiter, mut owner) = (program.connect(), program.connect());
    waiter.push_line("DELAY.POP q 0");
    waiter.flush().unwrap();
    owner.wait_for("blocked_clients", |clients| clients == "1");
    let due_ms = wall_ms() + 2_000;
    owner.ask(&format!("DELAY.ADD q @{due_ms} body ID timer"));
    let answered = AtomicU64::new(0);
    let program = &program;
    std::thread::scope(|scope| {
        // Ends when the job is gone; all it was answered until then.
        let sender = scope.spawn(|| {
            let (mut wire, mut is_there) = (program.connect(), true);
            while is_there {
                (0..1_000).for_each(|_| wire.push_line("DELAY.LEN q"));
                wire.flush().unwrap();
                (0..1_000).for_each(|_| is_there &= wire.read().unwrap() == Reply::Number(1));
                answered.fetch_add(1_000, Ordering::Relaxed);
            }
            answered.load(Ordering::Relaxed)
        });
        until("it sends", || (answered.load(Ordering::Relaxed) > 0).then_some(()));
        program.pause();
        pass_until(due_ms + 200);
        let before = answered.load(Ordering::Relaxed);
        program.go_on();
        assert!(names(&waiter.read().unwrap(), "timer"));
        let more = sender.join().unwrap() - before;
        println!("served after {more} commands");
        assert!(more <= 100_000, "served after {more} commands");
    });
    assert!(owner.number("standstills") > 0);
}
