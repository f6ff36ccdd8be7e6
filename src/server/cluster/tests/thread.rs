//! Three nodes that elect, commit and go on.

use super::cluster::{Cluster, ELECTION_US};
use super::site::{Hand, claims_of};
use crate::cluster::peer::frame::Lane;
use crate::limits::UNSYNCED_BYTES_MAX;
use crate::patience::{Machine, cpu, limit, seconds};
use crate::server::cluster::mailbox::Ask;
use bytes::Bytes;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// For 64 MiB in a build for tests, beside other tests: all three nodes share two cores, and one that has none for 300 ms is
/// missed rightly.
const PATIENT_US: u64 = 1_000_000;

fn body(bytes: usize) -> Bytes {
    Bytes::from(vec![7; bytes])
}

#[test]
fn three_nodes_form_a_cluster_and_commit() {
    let mut cluster = Cluster::start(3);
    let leader = cluster.formed();
    for at in 0..200 {
        cluster.nodes[leader].propose(body(1 + at * 37));
    }
    cluster.committed(leader, &[0, 1, 2]);
    cluster.check();
    // Decisions of turns while a batch was on its way were combined.
    let entries = cluster.nodes[0].delivered.len();
    assert!(entries < 150, "{entries} entries");
    let (until_us, heard_us) = cluster.nodes[leader].mailbox.lease();
    assert!(heard_us > 0 && until_us > heard_us);
    for at in (0..3).filter(|at| *at != leader) {
        assert_eq!(cluster.nodes[at].mailbox.lease(), (0, 0));
    }
}

#[test]
fn a_cluster_that_forms_says_who_is_missing() {
    let mut cluster = Cluster::start_over(3, ELECTION_US, |relays| {
        relays[1].cut("");
        relays.iter().for_each(|relay| relay.cut("n2"));
    });
    let says = |cluster: &mut Cluster, at: usize, text: &str| {
        cluster.until(text, |cluster| cluster.nodes[at].status().forming.as_deref() == Some(text));
    };
    says(&mut cluster, 0, "n2 is missing");
    says(&mut cluster, 2, "n2 is missing");
    cluster.stop(2);
    says(&mut cluster, 0, "n2, n3 are missing");
    cluster.restart(2);
    says(&mut cluster, 0, "n2 is missing");
    cluster.relays.iter().for_each(super::relay::Relay::mend);
    let leader = cluster.formed();
    cluster.nodes[leader].propose(body(1));
    cluster.committed(leader, &[0, 1, 2]);
}

#[test]
fn a_leader_that_stops_is_replaced_and_follows_when_it_is_back() {
    let mut cluster = Cluster::start(3);
    let first = cluster.formed();
    cluster.nodes[first].propose(body(100));
    cluster.committed(first, &[0, 1, 2]);
    for at in 0..1_000 {
        cluster.nodes[first].propose(body(at % 5_000 + 1));
    }
    // It waits for none of what it has proposed, which would take until peers and connections are given up.
    let took = cluster.stop(first);
    assert!(took < seconds(2), "{took:?} to stop");
    let (machine, began) = (Machine::watch(), Instant::now());
    let second = cluster.leader();
    let (took, allowed) = (began.elapsed(), machine.allows(seconds(3)));
    assert!(second != first && took < allowed, "{took:?}, {allowed:?} are allowed");
    let others: Vec<usize> = (0..3).filter(|at| *at != first).collect();
    cluster.nodes[second].propose(body(200));
    cluster.committed(second, &others);
    cluster.restart(first);
    cluster.committed(second, &[0, 1, 2]);
    cluster.check();
}

#[test]
fn leadership_is_handed_over_when_it_is_asked_for() {
    let mut cluster = Cluster::start(3);
    let first = cluster.formed();
    let other = (first + 1) % 3;
    let id = cluster.nodes[other].id;
    cluster.nodes[first].mailbox.ask(Ask::HandOver(Some(id)));
    cluster.until("handed over", |cluster| cluster.nodes[other].decides());
    cluster.nodes[other].propose(body(3));
    cluster.committed(other, &[0, 1, 2]);
    // None of them may lead but one.
    for at in (0..3).filter(|at| *at != first) {
        cluster.nodes[at].mailbox.ask(Ask::MayLead(false));
    }
    cluster.nodes[other].mailbox.ask(Ask::Resign);
    cluster.until("the only one leads", |cluster| cluster.nodes[first].decides());
    cluster.check();
}

#[test]
fn a_follower_that_was_cut_off_changes_nothing_when_it_is_back() {
    let mut cluster = Cluster::start(3);
    let leader = cluster.formed();
    let before = cluster.term();
    let away = (leader + 1) % 3;
    let others: Vec<usize> = (0..3).filter(|at| *at != away).collect();
    let names: Vec<String> = cluster.nodes.iter().map(|node| node.name.to_string()).collect();
    cluster.relays[away].cut("");
    others.iter().for_each(|at| cluster.relays[*at].cut(&names[away]));
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        cluster.nodes[leader].propose(body(1_000));
        cluster.committed(leader, &others);
    }
    assert!(cluster.nodes[away].delivered.len() < cluster.nodes[leader].delivered.len());
    cluster.relays.iter().for_each(super::relay::Relay::mend);
    let (mended, machine) = (Instant::now(), Machine::watch());
    let (mut slowest, mut now) = (Duration::ZERO, Instant::now());
    // Two election timeouts at least: it would have called one by then.
    while cluster.nodes[away].delivered_facts() < cluster.nodes[leader].delivered_facts()
        || mended.elapsed() < Duration::from_micros(2 * ELECTION_US)
    {
        assert!(mended.elapsed() < limit(), "it does not catch up");
        cluster.nodes[leader].propose(body(1_000));
        cluster.committed(leader, &others);
        slowest = slowest.max(now.elapsed());
        now = Instant::now();
    }
    assert!(slowest < machine.allows(seconds(2)), "a commit took {slowest:?}");
    cluster.until("all follow", |cluster| {
        let terms = cluster.nodes.iter().map(|node| (node.status().term, node.status().leader));
        terms.collect::<Vec<_>>() == [before; 3]
    });
    cluster.check();
}

/// At each heartbeat the leader sends one more append to a follower that does not answer: without a bound a node whose
/// disk is stuck for an hour would hold 72 GB.
#[test]
fn a_stuck_disk_takes_no_memory() {
    let mut cluster = Cluster::start(3);
    let leader = cluster.formed();
    let stuck = (leader + 1) % 3;
    let others: Vec<usize> = (0..3).filter(|at| *at != stuck).collect();
    cluster.nodes[stuck].store.lock().unwrap().is_stuck = true;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(4) {
        cluster.nodes[leader].propose(body(900_000));
        cluster.committed(leader, &others);
    }
    let held = cluster.nodes[stuck].store.lock().unwrap().stuck_bytes;
    let all = cluster.nodes[leader].store.lock().unwrap().entries.len() * 900_000;
    assert!(all > 60 << 20, "{all} bytes prove nothing");
    assert!(held < UNSYNCED_BYTES_MAX + (10 << 20), "{held} of {all} bytes");
    cluster.nodes[stuck].store.lock().unwrap().is_stuck = false;
    cluster.nodes[stuck].mailbox.wakeup().wake();
    cluster.until("it has all of it", |cluster| {
        cluster.nodes[stuck].delivered_facts() == cluster.nodes[leader].delivered_facts()
    });
    cluster.check();
}

#[test]
fn connections_that_break_all_the_time_lose_nothing() {
    let mut cluster = Cluster::start(3);
    cluster.formed();
    let mut sent = 0;
    for round in 0..40 {
        let leader = cluster.leader();
        for _ in 0..5 {
            cluster.nodes[leader].propose(body(30_000));
            sent += 1;
        }
        cluster.relays[round % 3].end("");
        let target = cluster.nodes[leader].next - 1;
        cluster.until("delivered or refused", |cluster| {
            let node = &cluster.nodes[leader];
            node.delivered_facts() >= target || node.epoch.is_none()
        });
    }
    let leader = cluster.leader();
    cluster.committed(leader, &[0, 1, 2]);
    cluster.check();
    assert!(cluster.nodes[leader].delivered_facts() <= sent);
    assert!(cluster.nodes[leader].delivered_facts() >= sent / 2);
}

#[test]
fn an_entry_of_64_mib_elects_nobody() {
    let mut cluster = Cluster::start_over(3, PATIENT_US, |_| ());
    let leader = cluster.formed();
    let before = cluster.term();
    // 64 MiB are on their way for 4 s: a heartbeat behind them would come too late for anybody.
    cluster.relays.iter().for_each(|relay| relay.slow(16 << 10));
    cluster.nodes[leader].propose(body(64 << 20));
    cluster.nodes[leader].propose(body(1));
    cluster.committed(leader, &[0, 1, 2]);
    cluster.check();
    assert_eq!(cluster.term(), before);
    assert!(cluster.nodes.iter().all(|node| node.status().elections == 1));
}

/// It has to find its follower's position again, and 64 MiB take longer than a heartbeat.
#[test]
fn a_large_entry_arrives_over_connections_that_were_cut() {
    let mut cluster = Cluster::start_over(3, PATIENT_US, |_| ());
    let leader = cluster.formed();
    for round in 0..3 {
        cluster.nodes[leader].propose(body(64 << 20));
        cluster.relays[(leader + 1 + round % 2) % 3].end("");
        cluster.nodes[leader].propose(body(1));
        cluster.committed(leader, &[0, 1, 2]);
    }
    cluster.check();
}

/// Hundreds of unknown callers, and some that almost belong: no election starts, and commits go on.
#[test]
fn bad_callers_disturb_nobody() {
    let mut cluster = Cluster::start(3);
    let leader = cluster.formed();
    let before = cluster.term();
    let ports: Vec<String> = cluster.nodes.iter().map(|node| node.port.to_string()).collect();
    let mut open = Vec::new();
    let (mut slowest, machine) = (Duration::ZERO, Machine::watch());
    for round in 0..100 {
        for port in &ports {
            let mut garbage = TcpStream::connect(port).unwrap();
            garbage.write_all(b"\0\0\0\0 nobody speaks so").unwrap();
            open.extend([garbage, TcpStream::connect(port).unwrap()]);
            let mut half = TcpStream::connect(port).unwrap();
            half.write_all(b"delayd peer\n\0\0").unwrap();
            open.push(half);
        }
        let node = &cluster.nodes[round % 3];
        let other = cluster.nodes[(round + 1) % 3].status();
        let (own, called) = (node.name.to_string(), node.port.clone());
        // The wrong secret, another cluster, a name that another node has, an id of another, an unlisted name.
        let callers = [
            (claims_of(&other, other.node), "wrong"),
            (claims_of(&other, other.node).of_another_cluster(), "secret"),
            (claims_of(&other, 99), "secret"),
            (claims_of(&node.status(), 99), "secret"),
            (claims_of(&other, node.id), "secret"),
            (claims_of(&other, 9).called("n9"), "secret"),
        ];
        for (caller, secret) in callers {
            let mut hand = Hand::call_at(&called, caller.0, secret, &own, Lane::Control);
            // A caller that knows the secret learns after its proof that it is refused.
            assert!(hand.shake().is_err() || hand.shake().is_err(), "round {round}");
        }
        let began = Instant::now();
        cluster.nodes[leader].propose(body(100));
        cluster.committed(leader, &[0, 1, 2]);
        slowest = slowest.max(began.elapsed());
    }
    assert_eq!(cluster.term(), before);
    assert!(cluster.nodes.iter().all(|node| node.status().elections == 1));
    assert!(slowest < machine.allows(seconds(2)), "{slowest:?}");
    cluster.check();
}

#[test]
fn a_log_that_fails_or_a_bug_ends_the_node_and_says_so() {
    for fails in ["no space left", "panic"] {
        let mut cluster = Cluster::start(3);
        let leader = cluster.formed();
        cluster.nodes[leader].store.lock().unwrap().fails = Some(fails);
        cluster.nodes[leader].propose(body(10));
        cluster.until("it has failed", |cluster| cluster.nodes[leader].mailbox.failure().is_some());
        let cause = cluster.nodes[leader].mailbox.failure().unwrap().to_string();
        let expected = if fails == "panic" { "a bug in delayd; see the log" } else { fails };
        assert_eq!(cause, expected);
        assert_eq!(cluster.nodes[leader].mailbox.lease(), (0, 0));
        cluster.until("another leads", |cluster| {
            (0..3).any(|at| at != leader && cluster.nodes[at].decides())
        });
    }
}

/// 1.5 % of a core in all is what a release build may take. Here a loop that spins is found: it takes as much as another
/// one that spins meanwhile, however little the machine has to give.
#[test]
fn idle_nodes_sleep() {
    let mut cluster = Cluster::start(3);
    cluster.formed();
    let used = |cluster: &Cluster| cluster.nodes.iter().map(|node| node.cpu_ns()).sum::<u64>();
    let before = used(&cluster);
    let spins = std::thread::spawn(|| {
        cpu(|| {
            let began = Instant::now();
            // A second of heartbeats.
            while began.elapsed() < Duration::from_secs(1) {}
        })
    });
    cluster.until("20 heartbeats", |_| spins.is_finished());
    let share = (used(&cluster) - before) as f64 / spins.join().unwrap().1.as_nanos() as f64;
    println!("{:.2} % of what a loop that spins takes", share * 100.0);
    assert!(share < 0.2, "{:.2} % of what a loop that spins takes", share * 100.0);
}
