//! Clients of a Redis Cluster against three nodes: all name the leader and its successor, whoever follows MOVED finds it, and
//! a node that is cut off sends nobody anywhere.

use crate::processes::trio::{NODES, Trio, wait_until};
use crate::support::program::Reply;

const ADD: &str = "DELAY.ADD mail 0 hello";
const SLOT: i64 = 4_247;

/// Three nodes, and the one that leads by the words of all.
fn start() -> (Trio, usize) {
    let trio = Trio::start("slots", &["--cluster-enabled", "yes"]);
    trio.wait_for_voters();
    let leader = wait_until("all name one leader", || {
        let leader = trio.try_leader()?;
        (0..NODES).all(|node| names(&trio, node, leader)).then_some(leader)
    });
    (trio, leader)
}

fn port(trio: &Trio, node: usize) -> i64 {
    trio.addresses[node].port().into()
}

/// The ports in a node's CLUSTER SLOTS, its leader's first.
fn listed(trio: &Trio, node: usize) -> Vec<i64> {
    let Ok(slots) = trio.wire(node).try_ask("CLUSTER SLOTS") else { return Vec::new() };
    let ranges = slots.array().unwrap();
    let Some(range) = ranges.first() else { return Vec::new() };
    let range = range.array().unwrap();
    assert_eq!((range[0].number(), range[1].number()), (0, 16_383));
    range[2..].iter().map(|node| node.array().unwrap()[1].number()).collect()
}

/// Where a node sends a client: its own port if it answers.
fn sent_to(trio: &Trio, node: usize) -> Option<i64> {
    // A node that has just stopped to lead closes its connections.
    match trio.wire(node).try_ask(ADD).ok()? {
        Reply::Error(text) => {
            let words: Vec<&str> = text.split(' ').collect();
            let [class, slot, address] = words[..] else { return None };
            assert_eq!((class, slot.parse()), ("MOVED", Ok(SLOT)), "{text}");
            address.strip_prefix("127.0.0.1:")?.parse().ok()
        }
        _ => Some(port(trio, node)),
    }
}

/// Whether a node sends clients to `leader`, and lists it first.
fn names(trio: &Trio, node: usize, leader: usize) -> bool {
    let leads = Some(port(trio, leader));
    sent_to(trio, node) == leads && listed(trio, node).first() == leads.as_ref()
}

fn all_name(trio: &Trio, nodes: &[usize], leader: usize) {
    for node in nodes {
        wait_until("a node sends clients to the leader", || {
            names(trio, *node, leader).then_some(())
        });
    }
}

#[test]
fn clients_are_sent_to_the_leader_and_to_the_next_one() {
    let (mut trio, leader) = start();
    let mut all: Vec<i64> = (0..NODES).map(|node| port(&trio, node)).collect();
    all.sort_unstable();
    for node in 0..NODES {
        wait_until("a node lists all", || {
            let mut ports = listed(&trio, node);
            ports.sort_unstable();
            (ports == all).then_some(())
        });
    }
    trio.kill(leader);
    let next = trio.leader();
    let others: Vec<usize> = (0..NODES).filter(|node| *node != leader).collect();
    all_name(&trio, &others, next);
    // Some libraries wait for a follower that is listed and gone.
    for node in &others {
        wait_until("who is gone is not listed", || {
            (!listed(&trio, *node).contains(&port(&trio, leader))).then_some(())
        });
    }
    let nodes = trio.wire(next).ask("CLUSTER NODES").text().to_owned();
    let gone = nodes.lines().find(|line| line.contains(&port(&trio, leader).to_string())).unwrap();
    assert!(gone.contains(" slave,fail "), "{nodes}");
    trio.begin(leader);
    all_name(&trio, &[0, 1, 2], next);
}

#[test]
fn a_node_that_is_cut_off_sends_nobody_anywhere() {
    let (trio, leader) = start();
    let follower = (leader + 1) % NODES;
    for node in [follower, leader] {
        trio.net.cut(&Trio::ways_of(node));
        wait_until("a node that is cut off knows nobody", || {
            trio.wire(node).try_ask(ADD).ok()?.is_error("CLUSTERDOWN").then_some(())
        });
        let info = trio.wire(node).ask("CLUSTER INFO").text().to_owned();
        assert!(info.starts_with("cluster_state:fail\r\n"), "{info}");
        trio.net.mend();
        wait_until("all name who leads", || {
            let leader = port(&trio, trio.try_leader()?);
            (0..NODES).all(|node| sent_to(&trio, node) == Some(leader)).then_some(())
        });
    }
}

#[test]
fn whoever_says_so_reads_from_a_follower() {
    let (trio, leader) = start();
    let mut wire = trio.wire((leader + 1) % NODES);
    assert!(wire.ask("DELAY.LEN mail").is_error("MOVED"));
    wire.ask("READONLY");
    let length = trio.wire(leader).ask("DELAY.LEN mail");
    assert!(length.number() > 0);
    wait_until("the jobs are there, too", || (wire.ask("DELAY.LEN mail") == length).then_some(()));
    assert!(wire.ask("DELAY.POP mail NOWAIT").is_error("MOVED"));
}

/// Who waits is told, who has begun a transaction is closed and nothing of it was done; both are sent on afterwards.
#[test]
fn who_waits_or_has_begun_a_transaction_is_let_go_by_a_leader_that_goes() {
    let (trio, leader) = start();
    let mut waits = trio.wire(leader);
    waits.push_line("DELAY.RESERVE 0 1 empty");
    waits.flush().unwrap();
    trio.wire(leader).wait_for("blocked_clients", |count| count == "1");
    let mut begun = trio.wire(leader);
    assert_eq!(begun.ask("MULTI").text(), "OK");
    assert_eq!(begun.ask("DELAY.ADD mail 1h x ID of-exec").text(), "QUEUED");
    assert_eq!(trio.wire(leader).ask("FAILOVER").text(), "OK");
    assert!(waits.read().unwrap().is_error("UNBLOCKED"));
    assert!(waits.read().is_err(), "it is closed");
    assert!(begun.try_ask("EXEC").is_err(), "so is this one");
    let next = wait_until("another one leads", || trio.try_leader().filter(|now| *now != leader));
    wait_until("who led sends clients on", || {
        (sent_to(&trio, leader) == Some(port(&trio, next))).then_some(())
    });
    assert_eq!(trio.wire(next).ask("DELAY.GET mail of-exec"), Reply::Nil);
}

/// Its connection is closed, and nothing of it is done by whoever leads then.
#[test]
fn a_transaction_does_not_outlive_its_leader() {
    let (trio, leader) = start();
    let mut wire = trio.wire(leader);
    assert_eq!(wire.ask("MULTI").text(), "OK");
    for _ in 0..2 {
        assert_eq!(wire.ask("DELAY.ADD begun 0 hello").text(), "QUEUED");
    }
    assert_eq!(trio.wire(leader).ask("FAILOVER").text(), "OK");
    wait_until("another one leads", || trio.try_leader().filter(|at| *at != leader));
    let told = wire.try_ask("EXEC");
    assert!(told.is_err(), "{told:?}");
    let length = wait_until("whoever leads answers", || {
        trio.wire(trio.try_leader()?).try_ask("DELAY.LEN begun").ok()
    });
    assert_eq!(length, Reply::Number(0));
}
