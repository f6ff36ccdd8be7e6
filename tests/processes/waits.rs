//! WAIT and WAITAOF count the other nodes that have what was changed.

use crate::processes::trio::{NODES, Trio, wait_until};
use crate::support::program::Reply;
use std::time::{Duration, Instant};

fn both(local: i64, replicas: i64) -> Reply {
    Reply::Array(vec![Reply::Number(local), Reply::Number(replicas)])
}

#[test]
fn who_waits_is_told_how_many_have_it() {
    let trio = Trio::start("waits", &[]);
    let leader = trio.leader();
    let mut wire = trio.wire(leader);
    wire.ask("DELAY.ADD q 1h x");
    assert!(wire.ask("WAIT 1 0").number() >= 1, "a majority has it already");
    assert_eq!(wire.ask("WAIT 2 0"), Reply::Number(2));
    assert_eq!(wire.ask("WAITAOF 1 2 0"), both(1, 2));
    // Behind what is on its way, without a reply read.
    for line in ["DELAY.ADD q 1h y", "WAIT 2 0", "DELAY.ADD q 1h z", "WAITAOF 1 2 0"] {
        wire.push_line(line);
    }
    wire.flush().unwrap();
    let replies: Vec<Reply> = (0..4).map(|_| wire.read().unwrap()).collect();
    assert_eq!((&replies[1], &replies[3]), (&Reply::Number(2), &both(1, 2)));

    let still = (leader + 1) % NODES;
    trio.pause(still);
    wire.ask("DELAY.ADD q 1h x");
    let began = Instant::now();
    assert_eq!(wire.ask("WAIT 2 200"), Reply::Number(1));
    assert_eq!(wire.ask("WAITAOF 0 2 200"), both(1, 1));
    assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
    assert_eq!(wire.ask("WAIT 1 0"), Reply::Number(1));
    assert_eq!(wire.ask("WAIT 9 1"), Reply::Number(1));
    // A transaction does not wait.
    for line in ["MULTI", "DELAY.ADD q 1h x", "WAIT 2 0"] {
        wire.ask(line);
    }
    let Reply::Array(done) = wire.ask("EXEC") else { panic!("it runs") };
    assert_eq!(done[1], Reply::Number(0), "it is not committed by then");
    // It is let go, with the reply of a timeout.
    let id = wire.ask("CLIENT ID").number();
    wire.push_line("WAIT 2 0");
    wire.flush().unwrap();
    let mut other = trio.wire(leader);
    wait_until("it is unblocked", || {
        (other.ask(&format!("CLIENT UNBLOCK {id}")) == Reply::Number(1)).then_some(())
    });
    assert_eq!(wire.read().unwrap(), Reply::Number(1));
    // And answered when the node goes on.
    wire.push_line("WAIT 2 0");
    wire.flush().unwrap();
    trio.go_on(still);
    assert_eq!(wire.read().unwrap(), Reply::Number(2));
    wait_until("it follows again", || {
        let refused = trio.wire(still).try_ask("WAIT 1 0").ok()?;
        let text = "ERR WAIT cannot be used with replica instances.";
        (refused == Reply::Error(text.to_owned())).then_some(())
    });
}
