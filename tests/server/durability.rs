//! A server that is stopped and started again on the same folder.

use crate::support::in_process::{Client, Running};
use crate::support::program::Folder;

fn start(folder: &Folder, fsync: &str) -> Running {
    Running::start(&[
        ("appendonly", "yes"),
        ("dir", folder.text()),
        ("appendfsync", fsync),
        ("journal-segment-size", "1mb"),
    ])
}

fn ask(client: &mut Client, command: &str) -> String {
    client.send(format!("{command}\r\n"));
    client.reply()
}

/// All that is shown of the queues: jobs in each state with all their fields, orders, statistics.
fn shown(server: &Running) -> Vec<String> {
    let mut client = server.connect();
    let mut shown = Vec::new();
    for queue in ["mail", "bills", "idle"] {
        for state in ["DELAYED", "READY", "LEASED", "DEAD"] {
            shown.push(ask(&mut client, &format!("DELAY.PEEK {queue} {state} COUNT 1000")));
        }
        // The age of the oldest ready job grows meanwhile, and which client was served last is forgotten.
        let stats = ask(&mut client, &format!("DELAY.STATS {queue}"));
        let (stats, _) = stats.split_once("$15\r\nlast-reserve-at").unwrap();
        let (early, late) = stats.split_once("oldest-ready-age-ms\r\n").unwrap();
        shown.push(format!("{early}{}", late.split_once("\r\n").unwrap().1));
    }
    for id in ["late", "now", "held", "given", "buried"] {
        shown.push(ask(&mut client, &format!("DELAY.GET mail {id}")));
    }
    for queue in ["mail", "bills"] {
        shown.push(ask(&mut client, &format!("DELAY.ERRORS {queue}")));
    }
    // The window on an id that was acknowledged, up to what is left of it.
    let taken = ask(&mut client, "DELAY.ADD bills 0 x ID paid");
    shown.push(taken.split(" for ").next().unwrap_or_default().to_owned());
    shown.push(ask(&mut client, "KEYS *").len().to_string());
    shown
}

fn fill(client: &mut Client) -> String {
    for add in [
        "mail 1h body ID late TTL 1d ATTEMPTS 3 PRIORITY 2",
        "mail 0 body ID now",
        "mail 0 body ID held PRIORITY 0",
        "mail 0 body ID given PRIORITY 1 BACKOFF 5m",
        "mail 0 body ID buried PRIORITY 2",
        "bills 0 body ID paid UNIQUE 1h",
        "bills @4102444800000 equal",
        "bills @4102444800000 due",
        "bills @4102444800000 times",
        "idle 0 gone",
    ] {
        ask(client, &format!("DELAY.ADD {add}"));
    }
    let token = |reply: String| reply.split("\r\n").nth(9).unwrap_or_default().to_owned();
    let mut reserve = |queue: &str| token(ask(client, &format!("DELAY.RESERVE NOWAIT 1 {queue}")));
    let (held, given, buried) = (reserve("mail"), reserve("mail"), reserve("mail"));
    let paid = reserve("bills");
    assert_eq!(
        ask(client, &format!("DELAY.EXTEND mail held {held} 10m")).len(),
        ":0\r\n".len() + 12
    );
    assert_eq!(ask(client, &format!("DELAY.NACK mail given {given} ERROR oops")), ":1\r\n");
    assert_eq!(ask(client, &format!("DELAY.NACK mail buried {buried} BURY")), ":1\r\n");
    assert_eq!(ask(client, &format!("DELAY.ACK bills paid {paid}")), ":1\r\n");
    ask(client, "DELAY.POP idle 1");
    held
}

#[test]
fn everything_is_as_before_after_a_restart() {
    for (fsync, base) in [("always", false), ("everysec", false), ("no", true), ("always", true)] {
        let folder = Folder::new("durability");
        let server = start(&folder, fsync);
        let mut client = server.connect();
        let held = fill(&mut client);
        if base {
            assert_eq!(ask(&mut client, "SAVE"), "+OK\r\n");
        }
        let before = shown(&server);
        drop((client, server));

        let server = start(&folder, "always");
        let after = shown(&server);
        assert_eq!(before, after, "{fsync}, base: {base}");
        // The lease goes on: its token acknowledges. A new one is greater.
        let mut client = server.connect();
        assert_eq!(ask(&mut client, &format!("DELAY.ACK mail held {held}")), ":1\r\n");
        let next = ask(&mut client, "DELAY.RESERVE NOWAIT 1 mail");
        let next: u64 = next.split("\r\n").nth(9).unwrap().parse().unwrap();
        assert!(next > held.parse().unwrap());
    }
}

/// An orderly stop gives a BOUND lease back uncounted; without one it would have run for an hour.
#[test]
fn a_bound_lease_ends_uncounted_with_an_orderly_stop() {
    let folder = Folder::new("durability");
    let server = start(&folder, "always");
    let mut client = server.connect();
    ask(&mut client, "DELAY.ADD q 0 body ID one");
    assert!(
        ask(&mut client, "DELAY.RESERVE NOWAIT 1 q LEASE 1h BOUND").starts_with("*1\r\n*7\r\n")
    );
    drop(server);
    let server = start(&folder, "always");
    let mut client = server.connect();
    let job = ask(&mut client, "DELAY.GET q one");
    assert!(job.contains("$5\r\nstate\r\n$5\r\nready\r\n"), "{job}");
    assert!(job.contains("$7\r\nattempt\r\n:0\r\n"), "{job}");
}

/// Replies come in the order of the requests, whether they wait for the disk or not.
#[test]
fn a_pipeline_of_both_kinds_is_answered_in_order() {
    let folder = Folder::new("durability");
    let server = start(&folder, "always");
    let mut client = server.connect();
    let (mut asked, mut expected) = (String::new(), String::new());
    for i in 0..500 {
        asked += &format!("PING {i}\r\nDELAY.ADD q 1h x ID {i}\r\nDELAY.LEN q\r\nECHO e\r\n");
        let len = i.to_string().len();
        expected += &format!("${len}\r\n{i}\r\n${len}\r\n{i}\r\n:{}\r\n$1\r\ne\r\n", i + 1);
    }
    client.send(asked);
    client.expect(&expected);
}

/// A job falls due and nobody waits for it: its fact goes to the disk with the next, or in a second.
#[test]
fn what_no_reply_waits_for_forces_no_sync() {
    let folder = Folder::new("durability");
    let server = start(&folder, "always");
    let mut client = server.connect();
    ask(&mut client, "DELAY.ADD q 100ms body");
    let added = client.info_number("journal_durable_index");
    while client.info_number("journal_proposed_index") == added {}
    assert_eq!(client.info_number("journal_durable_index"), added, "a sync was forced");
    // Whoever could see it waits for it.
    assert_eq!(ask(&mut client, "DELAY.LEN q READY"), ":1\r\n");
    assert!(client.info_number("journal_durable_index") > added);

    ask(&mut client, "DELAY.ADD q 100ms body");
    let added = client.info_number("journal_durable_index");
    while client.info_number("journal_durable_index") == added {}
}
