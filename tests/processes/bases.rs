//! Logs that are not kept for ever: whoever was away for long is sent a base.

use crate::processes::trio::{NODES, Trio, wait_until};
use crate::support::program::Reply;
use std::fmt::Write;

/// Nothing is kept of a log that its base has.
const SHORT: [&str; 4] = ["--journal-segment-size", "1mb", "--cluster-log-keep", "0"];

/// So many jobs of 10 KB, due in an hour.
fn add(trio: &Trio, count: usize) {
    let (body, mut wire) = ("x".repeat(10_000), trio.wire(trio.leader()));
    for _ in 0..count {
        assert!(matches!(wire.ask(&format!("DELAY.ADD q 1h {body}")), Reply::Bulk(_)));
    }
}

/// A base of each of these, and the logs go before it.
fn shorten(trio: &Trio, nodes: &[usize]) {
    for node in nodes {
        let mut wire = trio.wire(*node);
        let begun = wire.ask("BGSAVE");
        assert_eq!(begun, Reply::Simple("Background saving started".to_string()), "{begun:?}");
        wire.wait_for("rdb_bgsave_in_progress", |running| running == "0");
        assert_eq!(wire.field("rdb_last_bgsave_status"), "ok");
        wait_until("its log is shorter", || {
            (trio.wire(*node).try_number("raft_first_index")? > 300).then_some(())
        });
    }
}

fn has(trio: &Trio, node: usize, count: i64) {
    wait_until("it has all jobs", || {
        let length = trio.wire(node).try_ask("DELAY.LEN q").ok()?;
        (length == Reply::Number(count)).then_some(())
    });
}

/// All of them show the same jobs, bodies and totals.
fn are_equal(trio: &Trio) {
    wait_until("they show the same", || {
        let mut shown = Vec::new();
        for node in 0..NODES {
            let mut text = String::new();
            for ask in ["DELAY.PEEK q 10000 DELAYED", "DELAY.LEN q"] {
                write!(text, "{:?}", trio.wire(node).try_ask(ask).ok()?).unwrap();
            }
            shown.push(text);
        }
        shown.iter().all(|text| *text == shown[0]).then_some(())
    });
}

#[test]
fn who_lacks_what_no_log_has_any_more_is_sent_a_base_and_may_lead_then() {
    let mut trio = Trio::start("base", &SHORT);
    add(&trio, 300);
    let away = trio.follower();
    let others: Vec<usize> = (0..NODES).filter(|node| *node != away).collect();
    trio.kill(away);
    add(&trio, 300);
    shorten(&trio, &others);
    let leader = trio.leader();
    let cursor = scan(&trio, leader, "0");
    trio.begin(away);
    has(&trio, away, 600);
    assert!(trio.wire(away).number("raft_base_index") > 300);
    assert!(trio.wire(away).number("raft_first_index") > 300);
    are_equal(&trio);
    // What comes then comes as entries again, behind a start from that base, too.
    add(&trio, 10);
    has(&trio, away, 610);
    let log = trio.kill(away);
    assert!(log.contains("a base was received"), "{log}");
    trio.check(away);
    trio.begin(away);
    has(&trio, away, 610);
    // The others go, one after the other, so that it is one of the majority, and leads in the end.
    for node in others {
        trio.kill(node);
        add(&trio, 10);
        trio.begin(node);
        has(&trio, node, trio.wire(trio.leader()).ask("DELAY.LEN q").number());
    }
    wait_until("it leads", || {
        let leader = trio.leader();
        if leader != away {
            trio.stop(leader);
            trio.begin(leader);
        }
        (leader == away).then_some(())
    });
    are_equal(&trio);
    // The hash of ids came with the base: a cursor means there what it meant elsewhere.
    assert_eq!(scan(&trio, away, &cursor), scan(&trio, trio.follower(), &cursor));
    add(&trio, 1);
}

/// The next cursor.
fn scan(trio: &Trio, node: usize, cursor: &str) -> String {
    let reply = trio.wire(node).ask(&format!("DELAY.SCAN q {cursor} COUNT 10"));
    let Reply::Bulk(cursor) = &reply.array().unwrap()[0] else { panic!("{reply:?}") };
    String::from_utf8(cursor.clone()).unwrap()
}

/// A base that begins to come: which node sends which one, and from which byte on.
#[derive(PartialEq, Eq, Debug)]
struct Begun {
    peer: String,
    index: u64,
    from: u64,
}

impl Begun {
    fn all(log: &str) -> Vec<Begun> {
        let lines = log.lines().filter(|line| line.contains("a base comes"));
        let begun = lines.map(|line| {
            let field = |name: &str| {
                let rest = line.split(&format!(" {name}=")).nth(1).unwrap_or_default();
                rest.split(' ').next().unwrap_or_default().trim_matches('"')
            };
            let number = |name: &str| field(name).parse().unwrap_or_else(|_| panic!("{line}"));
            Begun { peer: field("peer").to_owned(), index: number("index"), from: number("from") }
        });
        begun.collect()
    }

    /// Two nodes never send the same one: each writes bases of its own.
    fn is_same(&self, other: &Begun) -> bool {
        self.peer == other.peer && self.index == other.index
    }
}

/// At 1 MB a second 5 MB take as many seconds: time enough to break it off. Another leader would send another base from its
/// beginning on, so none may follow meanwhile, whatever else the machine does.
#[test]
fn a_base_that_was_broken_off_goes_on_where_it_was() {
    let steady = ["--cluster-sync-rate", "1mb", "--cluster-election-timeout", "3s"];
    let slow = [&SHORT[..], &steady].concat();
    let mut trio = Trio::start("broken", &slow);
    let away = trio.follower();
    let others: Vec<usize> = (0..NODES).filter(|node| *node != away).collect();
    trio.kill(away);
    add(&trio, 500);
    shorten(&trio, &others);
    trio.begin(away);
    let comes = |trio: &Trio, bytes: u64| {
        wait_until("a part has come", || {
            let files = std::fs::read_dir(trio.path(away).join("journal")).ok()?;
            let mut parts = files
                .filter_map(Result::ok)
                .filter(|file| file.file_name().to_str().unwrap().starts_with("incoming-"));
            let length = parts.next()?.metadata().ok()?.len();
            (length >= bytes).then_some(length)
        })
    };
    let first = comes(&trio, 1 << 20);
    // The receiver goes ...
    let mut log = trio.kill(away);
    trio.begin(away);
    let second = comes(&trio, first + (512 << 10));
    // ... the connection.
    trio.net.cut(&Trio::ways_of(away));
    trio.net.mend_with_losses();
    wait_until("it is gone on with", || {
        (Begun::all(&trio.program(away).log()).len() >= 2).then_some(())
    });
    has(&trio, away, 500);
    log += &trio.kill(away);
    let begun = Begun::all(&log);
    assert!(begun.len() >= 3 && begun.iter().all(|other| other.is_same(&begun[0])), "{log}");
    let from: Vec<u64> = begun.iter().map(|begun| begun.from).collect();
    assert!(from[0] == 0 && from[1] >= first && from[2] >= second, "{from:?}\n{log}");
    assert!(from.is_sorted(), "{from:?}\n{log}");
    trio.begin(away);
    has(&trio, away, 500);
    are_equal(&trio);
}

/// A node comes back with an empty folder under its old name: it is sent all there is, votes again, and counts. The
/// folder that was lost is refused if it turns up.
#[test]
fn a_node_that_lost_its_disk_takes_its_own_place() {
    let mut trio = Trio::start("lost", &SHORT);
    add(&trio, 400);
    let lost = trio.follower();
    let others: Vec<usize> = (0..NODES).filter(|node| *node != lost).collect();
    let old = trio.wire(lost).field("raft_node");
    trio.kill(lost);
    shorten(&trio, &others);
    let leader = trio.leader();
    let cursor = scan(&trio, leader, "0");
    let kept = trio.folder.0.join("kept");
    std::fs::rename(trio.path(lost), &kept).unwrap();
    trio.begin(lost);
    // The names are the same before and after: while it is replaced there is a fourth node, which has no vote.
    wait_until("it votes in the place of the other", || {
        let mut wire = trio.wire(lost);
        let has_all = wire.try_field("raft_voters")? == "n1,n2,n3"
            && wire.try_field("raft_learners")?.is_empty();
        let reply = trio.wire(leader).try_ask("INFO raft").ok()?;
        let text = reply.text();
        let is_forgotten = !text.contains("raft_peer2:") && text.contains("raft_learners:\r\n");
        (has_all && is_forgotten).then_some(())
    });
    assert_ne!(trio.wire(lost).field("raft_node"), old);
    has(&trio, lost, 400);
    are_equal(&trio);
    assert_eq!(scan(&trio, lost, &cursor), scan(&trio, leader, &cursor));
    // One of the others goes: the two that are left lead, and nothing is missing.
    trio.kill(leader);
    add(&trio, 10);
    trio.begin(leader);
    has(&trio, leader, 410);
    // What was lost turns up.
    trio.kill(lost);
    let new = trio.folder.0.join("new");
    std::fs::rename(trio.path(lost), &new).unwrap();
    std::fs::rename(&kept, trio.path(lost)).unwrap();
    trio.begin(lost);
    add(&trio, 10);
    wait_until("it is told so", || {
        trio.program(lost).log().contains("it has another folder").then_some(())
    });
    assert_eq!(trio.wire(lost).field("raft_leader"), "");
    trio.kill(lost);
    std::fs::rename(trio.path(lost), &kept).unwrap();
    std::fs::rename(&new, trio.path(lost)).unwrap();
    trio.begin(lost);
    has(&trio, lost, 420);
    are_equal(&trio);
}
