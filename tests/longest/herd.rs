//! A herd of jobs that fall due in one instant.

use crate::alone;
use crate::support::in_process::Running;
use crate::support::patience::{Machine, pass};
use crate::support::program::wall_ms;
use std::time::{Duration, Instant};

/// Swept in some 75 ms.
const JOBS: usize = 500_000;
/// By which it is seen how fast this machine adds.
const FIRST: usize = JOBS / 20;

/// It is swept in slices: a client that asks meanwhile waits for one of them, not for the herd.
#[test]
fn a_herd_does_not_hold_up_a_ping() {
    let _alone = alone();
    let server = Running::start(&[]);
    let (mut producer, mut other) = (server.connect(), server.connect());
    let mut add = |queue: &str, due_ms: u64, count: usize| {
        let began = Instant::now();
        let command = format!("DELAY.ADD {queue} @{due_ms} x\r\n");
        for _ in 0..count / 1_000 {
            producer.send(command.repeat(1_000));
            (0..1_000).for_each(|_| drop(producer.bulk()));
        }
        began.elapsed()
    };
    let took = add("first", wall_ms() + 3_600_000, FIRST) * (JOBS / FIRST) as u32;
    // Three times as long as it should take; a machine that is busier than that begins again.
    let due = (0..5).find_map(|round| {
        let due_ms = wall_ms() + 3 * took.as_millis() as u64 + 1_000;
        let queue = format!("q{round}");
        add(&queue, due_ms, JOBS);
        let is_in_time = other.line_of(&format!("DELAY.LEN {queue} READY")) == ":0";
        is_in_time.then_some((queue, due_ms))
    });
    let (queue, due_ms) = due.expect("a machine that adds as fast as a moment ago");
    let ready = format!("DELAY.LEN {queue} READY");
    // From before they fall due on: one that asked only afterwards might find all of it done.
    pass(Duration::from_millis(due_ms.saturating_sub(wall_ms() + 100)));
    let (machine, mut began) = (Machine::watch(), Instant::now());
    let (mut longest, all) = (Duration::ZERO, format!(":{JOBS}"));
    loop {
        let asked = Instant::now();
        assert_eq!(other.line_of("PING"), "+PONG");
        let count = producer.line_of(&ready);
        longest = longest.max(asked.elapsed());
        if count == all {
            break;
        }
        if count == ":0" {
            began = Instant::now();
        }
    }
    let swept = began.elapsed();
    let allowed = machine.allows(swept / 4);
    println!("{longest:?} at most while a herd was swept in {swept:?}");
    assert!(longest < allowed, "{longest:?} of {swept:?}, and {allowed:?} are allowed");
}
