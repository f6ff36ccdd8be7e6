//! Three nodes with four partitions each: every partition elects a leader of its own, and clients find them all.

use crate::processes::spread::{Nodes, PARTITIONS, partition_of_queue};
use crate::support::http::free_ports;
use crate::support::patience::{seconds, until, within};
use crate::support::program::{Folder, Program, Reply, Wire};
use std::process::Output;
use std::time::{Duration, Instant};

#[test]
fn every_partition_has_a_leader_of_its_own_and_loses_nothing_with_it() {
    let mut nodes = Nodes::start(&["--cluster-leader-balance", "no"]);
    until("each partition has a leader", || nodes.leaders());
    for n in 0..80 {
        let added = nodes.say(&format!("q{n}"), &format!("DELAY.ADD q{n} 1h x ID {n}"));
        assert_eq!(added.text(), n.to_string());
    }
    // Some node leads one at least; it is gone with all of its partitions.
    let gone = nodes.leaders().unwrap()[2];
    nodes.programs[gone].take().unwrap().kill();
    until("others lead", || nodes.leaders().filter(|leaders| !leaders.contains(&gone)));
    for n in 0..80 {
        assert_eq!(nodes.say(&format!("q{n}"), &format!("DELAY.LEN q{n}")).number(), 1, "q{n}");
        nodes.say(&format!("q{n}"), &format!("DELAY.ADD q{n} 1h x ID more-{n} NX"));
    }
    let counts = (0..80).map(|n| nodes.say(&format!("q{n}"), &format!("DELAY.LEN q{n}")).number());
    assert_eq!(counts.sum::<i64>(), 160);
}

#[test]
fn leaders_spread_over_the_nodes_by_themselves() {
    // Sooner than by default: 30 E are 4.5 s.
    let nodes = Nodes::start(&["--cluster-election-timeout", "150ms"]);
    // With some work: a disk that was slow in one of the few syncs of an idle node passes for a sick one for a while, and
    // no sick node is asked to lead.
    let queues: Vec<String> = (0..8).map(|n| format!("q{n}")).collect();
    until("the nodes lead in turn", || {
        for queue in &queues {
            nodes.say(queue, &format!("DELAY.ADD {queue} 1h x"));
        }
        nodes.leaders().filter(|leaders| *leaders == [0, 1, 2, 0])
    });
    let logs: String = nodes.programs.iter().flatten().map(Program::log).collect();
    assert!(!logs.contains("ERROR"), "{logs}");
}

/// What a node of another number of partitions would take for its own are other queues.
#[test]
fn a_node_with_another_number_of_partitions_is_refused() {
    let mut nodes = Nodes::start(&[]);
    until("each partition has a leader", || nodes.leaders());
    nodes.programs[2].take().unwrap().stop();
    nodes.folders[2] = Folder::new("spread");
    nodes.options[1] = "2".to_owned();
    nodes.begin(2);
    let log = || nodes.programs[2].as_ref().unwrap().log();
    let text = "partition 1 of 2, ";
    until("it is told why", || {
        (log().contains(text) && log().contains(" of 4: cluster-partitions must be the same"))
            .then_some(())
    });
}

/// Nodes come, and others go, until none of the first is left. Nothing is lost, every node sends clients on, and those
/// that have nothing left never begin a cluster of their own.
#[test]
fn partitions_move_to_nodes_that_come_and_from_those_that_go() {
    let mut nodes = Nodes::start(&[]);
    until("each partition has a leader", || nodes.leaders());
    for n in 0..40 {
        nodes.say(&format!("q{n}"), &format!("DELAY.ADD q{n} 1h x ID {n}"));
    }
    let counted = |nodes: &Nodes| {
        for asked in nodes.alive() {
            for n in 0..40 {
                let (queue, line) = (format!("q{n}"), format!("DELAY.LEN q{n}"));
                assert_eq!(nodes.say_from(asked, &queue, &line).number(), 1, "{queue} by n{asked}");
            }
        }
    };
    let spread = |nodes: &Nodes, asked: usize, more: &[&str]| {
        done(nodes.balancing(asked, more).output().unwrap())
    };
    // One that never comes: what an interrupted run has begun is no replica, and is taken back.
    let ghost = format!("ghost=127.0.0.1:{}", free_ports(PARTITIONS));
    let mut interrupted = nodes.balancing(0, &["--with", &ghost]).spawn().unwrap();
    let is_invited = |nodes: &Nodes| {
        let rows =
            (0..3).filter_map(|node| nodes.wire(node, 0).ok()?.try_ask("DELAY.CLUSTER").ok());
        rows.flat_map(|rows| rows.array().map(<[Reply]>::to_vec))
            .flatten()
            .any(|row| row.array().is_some_and(|row| row[5] == Reply::Bulk(b"invited".to_vec())))
    };
    until("it is invited", || is_invited(&nodes).then_some(()));
    // It would take back what the first one has begun.
    let second = nodes.balancing(1, &[]).output().unwrap();
    let text = String::from_utf8(second.stderr).unwrap();
    assert!(text.contains("another balance is running, connected from 127.0.0.1:"), "{text}");
    assert_eq!(second.status.code(), Some(3));
    assert!(is_invited(&nodes));
    interrupted.kill().unwrap();
    interrupted.wait().unwrap();
    spread(&nodes, 1, &[]);
    assert!(nodes.placed().iter().all(|own| *own == ["n0", "n1", "n2"]));
    assert!(!is_invited(&nodes));
    let fewer = nodes.balancing(1, &["--without", "n0"]).output().unwrap();
    let text = String::from_utf8(fewer.stderr).unwrap();
    assert!(text.contains("would have 2 replicas instead of 3: add a node by --with"), "{text}");
    assert_eq!(fewer.status.code(), Some(3));
    let (n3, n4) = (nodes.join(), nodes.join());
    nodes.say("beat", "DELAY.SCHEDULE SET beat b x EVERY 1s CATCHUP 100");
    let shown = spread(&nodes, 0, &["--with", &n3, "--with", &n4, "--dry-run"]);
    assert!(shown.ends_with("nothing was changed\n"), "{shown}");
    spread(&nodes, 0, &["--with", &n3, "--with", &n4]);
    // 12 replicas on five nodes.
    let placed = nodes.placed();
    for node in 0..5 {
        let count = placed.iter().filter(|own| own.contains(&format!("n{node}"))).count();
        assert!((2..=3).contains(&count), "n{node}: {placed:?}");
    }
    assert!(placed.iter().all(|own| own.len() == 3), "{placed:?}");
    counted(&nodes);
    // Each node knows where those are that it does not hold, and that others were removed a moment later.
    for node in nodes.alive() {
        let is_known = |(row, own): (&Reply, &Vec<String>)| {
            let row = row.array().unwrap();
            let held = own.contains(&format!("n{node}"));
            let elsewhere = Reply::Bulk(b"this node does not hold it".to_vec());
            let names = row[5].text().split(' ');
            (row[7] == elsewhere) != held
                && names.into_iter().all(|name| own.contains(&name.to_owned()))
        };
        until(format!("n{node} knows where all are"), || {
            let all = nodes.wire(node, 0).ok()?.try_ask("DELAY.CLUSTER ALL").ok()?;
            all.array()?.iter().zip(&placed).all(is_known).then_some(())
        });
    }
    assert!(spread(&nodes, 4, &[]).contains("nothing has to be moved"));
    // Who waits where a leader goes is told, or finds its connection closed; it is never given anything.
    let mut waiting: Vec<Wire> = (0..PARTITIONS).filter_map(|at| waiting(&nodes, at)).collect();
    assert!(!waiting.is_empty(), "one of the first nodes leads one");
    spread(
        &nodes,
        4,
        &["--without", "n0", "--without", "n1", "--without", "n2", "--replicas", "2"],
    );
    assert_eq!(nodes.placed(), vec![["n3", "n4"]; 4]);
    for waits in &mut waiting {
        let told = waits.read();
        assert!(told.as_ref().map_or(true, |told| told.is_error("UNBLOCKED")), "{told:?}");
    }
    counted(&nodes);
    let kept = std::fs::read_dir(&nodes.folders[0].0).unwrap().flatten();
    let kept = kept.filter(|entry| entry.file_name().to_str().unwrap().ends_with(".removed"));
    assert!(kept.count() > 0, "what a node had is kept");
    // After a restart, too, the first nodes send clients on; none of them begins a cluster with the others.
    for node in 0..3 {
        nodes.programs[node].take().unwrap().kill();
    }
    (0..3).for_each(|node| nodes.begin(node));
    counted(&nodes);
    let n0 = format!("n0=127.0.0.1:{}", nodes.peers[0]);
    spread(&nodes, 1, &["--with", &n0]);
    assert!(nodes.placed().iter().all(|own| *own == ["n0", "n3", "n4"]));
    counted(&nodes);
    // What is recurring went on with its partition: each second once.
    nodes.say("beat", "DELAY.SCHEDULE PAUSE beat b");
    let jobs = nodes.say("beat", "DELAY.PEEK beat READY COUNT 1000");
    let instant = |job: &Reply| -> u64 {
        let id = job.array().unwrap()[0].text();
        id.strip_prefix("b@").expect("an occurrence").parse().unwrap()
    };
    let mut instants: Vec<u64> = jobs.array().unwrap().iter().map(instant).collect();
    instants.sort_unstable();
    assert!(instants.len() > 2 && instants.windows(2).all(|two| two[1] == two[0] + 1_000));
    let schedule = nodes.say("beat", "DELAY.SCHEDULE GET beat b");
    assert_eq!(schedule.value("made").number(), instants.len() as i64);
}

/// What it has written, if it succeeded.
fn done(output: Output) -> String {
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{text}");
    text
}

/// One that waits for a job of a partition, if one of the first nodes leads that.
fn waiting(nodes: &Nodes, partition: u16) -> Option<Wire> {
    let queue =
        (0..).map(|n| format!("empty{n}")).find(|queue| partition_of_queue(queue) == partition)?;
    until(format!("it waits in partition {partition}"), || {
        let leader = nodes.leaders()?[usize::from(partition)];
        if leader >= 3 {
            return Some(None);
        }
        let mut wire = nodes.wire(leader, partition).ok()?;
        wire.push_line(&format!("DELAY.RESERVE 0 1 {queue}"));
        wire.flush().ok()?;
        // A node that has just lost the lead refuses it.
        let mut other = nodes.wire(leader, partition).ok()?;
        let is_blocked = || (other.try_number("blocked_clients")? > 0).then_some(());
        within(seconds(2), is_blocked).map(|()| Some(wire))
    })
}

/// It says which one has none.
#[test]
fn a_balance_ends_where_a_partition_has_had_no_leader_for_a_minute() {
    let mut nodes = Nodes::start(&[]);
    until("each partition has a leader", || nodes.leaders());
    for node in [1, 2] {
        nodes.programs[node].take().unwrap().kill();
    }
    let began = Instant::now();
    let output = nodes.balancing(0, &["--without", "n2", "--replicas", "2"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains(" has had no leader for a minute: "), "{text}");
    assert!(!output.status.success());
    assert!(began.elapsed() >= Duration::from_secs(60));
}

/// It could go on leading the others, but one process that is half alive is harder to see than one that is gone.
#[test]
fn a_node_of_which_one_partition_cannot_write_ends_and_others_lead() {
    let mut nodes = Nodes::start(&[]);
    let led = until("each partition has a leader", || nodes.leaders())[1];
    let journal = nodes.folders[led].0.join("01/journal");
    std::fs::rename(&journal, journal.with_file_name("gone")).unwrap();
    until("it has ended", || {
        let queue = (0..).map(|n| format!("q{n}")).find(|queue| partition_of_queue(queue) == 1)?;
        if let Ok(mut wire) = nodes.wire(led, 1) {
            let _ = wire.try_ask(&format!("DELAY.ADD {queue} 1h x"));
        }
        nodes.programs[led].as_mut().unwrap().has_ended().then_some(())
    });
    let (status, log) = nodes.programs[led].take().unwrap().ended();
    assert!(!status.success() && log.contains("this node stops, the others go on"), "{log}");
    until("others lead all of them", || nodes.leaders().filter(|all| !all.contains(&led)));
    for n in 0..8 {
        let added = nodes.say(&format!("q{n}"), &format!("DELAY.ADD q{n} 1h x ID {n}"));
        assert_eq!(added.text(), n.to_string());
    }
}

/// A change of members needs a leader: without one it is waited for, and the run goes on where it was.
#[test]
fn a_balance_waits_for_leaders_and_goes_on_without_a_node_that_came_and_died() {
    let mut nodes = Nodes::start(&[]);
    until("each partition has a leader", || nodes.leaders());
    let n3 = nodes.join();
    let mut interrupted = nodes.balancing(0, &["--with", &n3, "--without", "n0"]).spawn().unwrap();
    let is_known = |nodes: &Nodes| {
        let rows = nodes.leader(0)?.try_ask("DELAY.CLUSTER").ok()?;
        (rows.array()?.len() == 4).then_some(())
    };
    until("it has come", || is_known(&nodes));
    nodes.programs[3].take().unwrap().kill();
    interrupted.kill().unwrap();
    interrupted.wait().unwrap();
    for node in [1, 2] {
        nodes.programs[node].take().unwrap().kill();
    }
    let waits = nodes.balancing(0, &["--without", "n3"]).spawn().unwrap();
    nodes.begin(1);
    nodes.begin(2);
    let text = done(waits.wait_with_output().unwrap());
    assert!(nodes.placed().iter().all(|own| *own == ["n0", "n1", "n2"]), "{text}");
}
