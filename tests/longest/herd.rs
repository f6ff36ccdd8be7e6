//! A herd of jobs that fall due in one instant.

use crate::alone;
use crate::support::in_process::Running;
use crate::support::patience::{Machine, pass};
use crate::support::program::wall_ms;
use std::time::{Duration, Instant};

/// Swept in some 150 ms.
const JOBS: usize = 1_000_000;

/// It is swept in slices: a client that asks meanwhile waits for one of them, not for the herd.
#[test]
fn a_herd_does_not_hold_up_a_ping() {
    let _alone = alone();
    let server = Running::start(&[]);
    let (mut producer, mut other) = (server.connect(), server.connect());
    let due_ms = wall_ms() + 25_000;
    let command = format!("DELAY.ADD q @{due_ms} x\r\n");
    for _ in 0..JOBS / 1_000 {
        producer.send(command.repeat(1_000));
        (0..1_000).for_each(|_| drop(producer.bulk()));
    }
    assert_eq!(other.line_of("DELAY.LEN q READY"), ":0", "adding took too long");
    pass(Duration::from_millis(due_ms.saturating_sub(wall_ms())));
    let (machine, began) = (Machine::watch(), Instant::now());
    let mut longest = Duration::ZERO;
    let all = format!(":{JOBS}");
    while producer.line_of("DELAY.LEN q READY") != all {
        let asked = Instant::now();
        assert_eq!(other.line_of("PING"), "+PONG");
        longest = longest.max(asked.elapsed());
    }
    let swept = began.elapsed();
    let allowed = machine.allows(swept / 4);
    println!("{longest:?} at most while a herd was swept in {swept:?}");
    assert!(longest < allowed, "{longest:?} of {swept:?}, and {allowed:?} are allowed");
}
