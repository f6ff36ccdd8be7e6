//! Whether all nodes hold the same, asked of nodes that work, are away, or were tampered with.

use crate::processes::trio::{NODES, Trio, name, wait_until};
use crate::support::program::{Reply, Wire};
use delayd::engine::model::fact::Fact;
use delayd::engine::{Facts, Settings};
use delayd::ids::{Db, QueueNo};
use delayd::journal::base::{BaseHead, BaseWriter};
use delayd::journal::recovery::{Progress, recover};
use delayd::journal::{Disk, LogOptions};
use delayd::server::cluster::start::hash_seed;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Small ones: then bases are small.
const SHORT: [&str; 2] = ["--journal-segment-size", "1mb"];
const OPTIONS: LogOptions = LogOptions { segment_bytes: 1 << 20, shard: 0, spares_max: 2 };

/// What the leader says that the nodes hold, by their names, once it has asked them.
fn compared(trio: &Trio) -> [String; NODES] {
    let mut wire = trio.wire(trio.leader());
    let index = |wire: &mut Wire| wire.field("raft_verified_index").parse::<i64>().unwrap();
    let before = index(&mut wire);
    // So that it is of another index.
    wire.ask("DELAY.ADD other 1h x");
    assert_eq!(wire.ask("DELAY.CLUSTER VERIFY"), Reply::Simple("OK".to_owned()));
    wait_until("the nodes are compared", || {
        let is_new = index(&mut wire) > before;
        (is_new && wire.field("raft_verified") != "running").then_some(())
    });
    let rows = wire.ask("DELAY.CLUSTER");
    let text = |reply: &Reply| match reply {
        Reply::Bulk(text) => String::from_utf8(text.clone()).unwrap(),
        other => panic!("{other:?}"),
    };
    let mut all = [const { String::new() }; NODES];
    for row in rows.array().unwrap() {
        let row = row.array().unwrap();
        let field = |key: &str| &row[row.iter().position(|part| text(part) == key).unwrap() + 1];
        let node = (0..NODES).find(|node| name(*node) == text(field("name"))).unwrap();
        // Where that was, does not matter here.
        let holds = text(field("holds"));
        all[node] = holds.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
    }
    all
}

#[test]
fn nodes_that_work_hold_the_same() {
    let trio = Trio::start("verify-same", &SHORT);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for client in 0..3 {
            let mut wire = trio.wire(trio.leader());
            let is_over = &is_over;
            scope.spawn(move || {
                for n in 0.. {
                    let queue = n % 7;
                    wire.ask(&format!("DELAY.ADD q{queue} 0 body-{client}-{n} PRIORITY {}", n % 4));
                    if n % 3 == 0 {
                        wire.ask(&format!("DELAY.POP q{queue}"));
                    }
                    if n % 1_000 == 999 {
                        wire.ask(&format!("DELAY.PURGE q{queue}"));
                    }
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        for _ in 0..10 {
            assert_eq!(compared(&trio), ["same at "; NODES].map(str::to_owned));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let mut wire = trio.wire(trio.leader());
    assert_eq!(wire.field("raft_verified"), "same");
    let refused = trio.wire(trio.follower()).ask("DELAY.CLUSTER VERIFY");
    let Reply::Error(text) = refused else { panic!("{refused:?}") };
    assert!(
        text.starts_with("READONLY nodes are compared with whoever leads; 127.0.0.1:"),
        "{text}"
    );
}

#[test]
fn of_a_node_that_is_away_nobody_knows() {
    let mut trio = Trio::start("verify-away", &SHORT);
    let away = trio.follower();
    trio.kill(away);
    let mut expected = ["same at "; NODES].map(str::to_owned);
    expected[away] = "not known: unreachable".to_owned();
    assert_eq!(compared(&trio), expected);
    assert_eq!(trio.wire(trio.leader()).field("raft_verified"), "incomplete");
    // One that stands still is found out while it is waited for.
    trio.begin(away);
    trio.wait_for_voters();
    wait_until("all are there", || {
        (compared(&trio) == ["same at "; NODES].map(str::to_owned)).then_some(())
    });
    trio.pause(away);
    assert_eq!(compared(&trio), expected);
    trio.go_on(away);
}

#[test]
fn a_node_that_holds_something_else_is_found_out() {
    let mut trio = Trio::start("verify-differs", &SHORT);
    let node = trio.follower();
    for n in 0..100 {
        trio.wire(trio.leader()).ask(&format!("DELAY.ADD q 1h job-{n}"));
    }
    assert_eq!(compared(&trio), ["same at "; NODES].map(str::to_owned));
    trio.stop(node);
    tamper(&trio.path(node).join("journal"));
    trio.check(node);
    trio.begin(node);
    trio.wait_for_voters();
    let mut expected = ["same at "; NODES].map(str::to_owned);
    expected[node] = "DIFFERS at ".to_owned();
    wait_until("it is found out", || (compared(&trio) == expected).then_some(()));
    let leader = trio.leader();
    assert_eq!(trio.wire(leader).field("raft_verified"), "differ");
    let log = trio.kill(leader);
    assert!(log.contains("nodes hold something else than this one"), "{log}");
}

/// A base in which one queue is too many, with checksums that are right.
fn tamper(folder: &Path) {
    let disk = Arc::new(Disk::open(folder).unwrap());
    let hash_seed = hash_seed(&disk, OPTIONS).unwrap().expect("of a member");
    let settings = Settings { hash_seed, ..Settings::default() };
    let mut recovered = recover(&disk, OPTIONS, settings, &Progress::default()).unwrap();
    let mut facts = Facts::default();
    facts.push(&Fact::QueueBound { queue: QueueNo(4_000), db: Db(0), name: b"one too many" });
    recovered.engine.apply(recovered.now, &facts).unwrap();
    let (index, first, now, epoch) =
        (recovered.index, recovered.first, recovered.now, recovered.epoch);
    let head = BaseHead { index, first, now, epoch, shard: 0 };
    let mut writer = BaseWriter::begin(&disk, head).unwrap();
    let members = recovered.log.state().members.into_iter().next_back();
    writer.set_members(members.expect("it is a member"));
    recovered.engine.begin_base();
    while !recovered.engine.base_slice(1_000, usize::MAX) {}
    writer.write(&std::mem::take(recovered.engine.base_output())).unwrap();
    writer.finish().unwrap();
}
