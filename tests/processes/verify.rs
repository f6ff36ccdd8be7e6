//! Whether all nodes hold the same, asked of nodes that work, are away, or were tampered with.

use crate::processes::trio::{NODES, Trio, leads, name, wait_until};
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
    wait_until("the nodes are compared", || try_compared(trio))
}

/// None if the leader changes meanwhile.
fn try_compared(trio: &Trio) -> Option<[String; NODES]> {
    let mut wire = trio.wire(trio.leader());
    let index = |wire: &mut Wire| wire.field("raft_verified_index").parse::<i64>().unwrap();
    let before = index(&mut wire);
    // So that it is of another index.
    let is_ok = |reply: Reply| matches!(reply, Reply::Simple(_) | Reply::Bulk(_));
    let asked = ["DELAY.ADD other 1h x", "DELAY.CLUSTER VERIFY"];
    if !asked.iter().all(|line| wire.try_ask(line).is_ok_and(is_ok)) {
        return None;
    }
    wait_until("they have said so, or another one leads", || {
        let still_leads = leads(&mut wire);
        let is_new = index(&mut wire) > before;
        let is_over = is_new && wire.field("raft_verified") != "running";
        (!still_leads || is_over).then_some(still_leads)
    })
    .then_some(())?;
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
    Some(all)
}

#[test]
fn nodes_that_work_hold_the_same() {
    let trio = Trio::start("verify-same", &SHORT);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for client in 0..3 {
            let (trio, is_over) = (&trio, &is_over);
            scope.spawn(move || work(trio, client, is_over));
        }
        // A comparison that fails must not leave the clients at work for ever.
        let over = Over(&is_over);
        let (mut whole, mut partly) = (0, 0);
        while whole < 10 {
            // On a busy machine the leader may change, and what it had asked is not answered then.
            let held = try_compared(&trio).unwrap_or_default();
            let differs = held.iter().any(|held| held.starts_with("DIFFERS"));
            assert!(!differs, "{held:?}");
            match held == ["same at "; NODES].map(str::to_owned) {
                true => whole += 1,
                false => partly += 1,
            }
            assert!(partly < 20, "{whole} comparisons of all nodes, {partly} of some: {held:?}");
        }
        drop(over);
    });
    wait_until("nodes that rest are the same, too", || {
        (try_compared(&trio)? == ["same at "; NODES].map(str::to_owned)).then_some(())
    });
    assert_eq!(trio.wire(trio.leader()).field("raft_verified"), "same");
    let refused = trio.wire(trio.follower()).ask("DELAY.CLUSTER VERIFY");
    let Reply::Error(text) = refused else { panic!("{refused:?}") };
    assert!(text.starts_with("READONLY only the leader can compare nodes; 127.0.0.1:"), "{text}");
}

/// Ends the clients' work when it goes.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Adds, takes and purges until it is over, at whichever node leads.
fn work(trio: &Trio, client: usize, is_over: &AtomicBool) {
    let mut wire = None;
    for n in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let queue = n % 7;
        let group = if n % 2 == 0 { format!(" GROUP g{}", n % 10) } else { String::new() };
        let priority = n % 4;
        let add = format!("DELAY.ADD q{queue} 0 body-{client}-{n} PRIORITY {priority}{group}");
        let mut lines = vec![add];
        if n % 3 == 0 {
            lines.push(format!("DELAY.POP q{queue} NOWAIT"));
        }
        if n % 1_000 == 999 {
            lines.push(format!("DELAY.PURGE q{queue}"));
        }
        let connection = wire.get_or_insert_with(|| trio.wire(trio.leader()));
        let answers = lines.iter().map(|line| connection.try_ask(line));
        // It does not lead any more, or is gone.
        if !answers.into_iter().all(|answer| answer.is_ok_and(|reply| !reply.is_error("READONLY")))
        {
            wire = None;
        }
    }
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
    assert!(log.contains("some nodes differ from this one"), "{log}");
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
