//! What cannot be a cluster, or does not belong to it: it is refused in words that name both sides, and nothing has
//! changed afterwards.

use crate::processes::trio::{NODES, Trio, wait_until};
use crate::support::patience::{limit, pass};
use crate::support::program::{Program, Reply, seed};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

impl Trio {
    /// A node's log has this line.
    fn says(&self, node: usize, parts: &[&str]) {
        let has = |line: &str| parts.iter().all(|part| line.contains(part));
        wait_until("a line of the log", || self.program(node).log().lines().any(has).then_some(()));
    }

    /// A node answers an add with an error that has this.
    fn refuses(&self, node: usize, part: &str) {
        wait_until("an add is refused", || {
            let reply = self.wire(node).try_ask("DELAY.ADD elsewhere 1h x").ok()?;
            matches!(reply, Reply::Error(text) if text.contains(part)).then_some(())
        });
    }

    /// All three form, and take jobs.
    fn is_whole(&self) {
        wait_until("an add is answered", || {
            let mut wire = self.wire(self.try_leader()?);
            let reply = wire.try_ask("DELAY.ADD q 1h x ID whole NX").ok()?;
            matches!(reply, Reply::Bulk(_) | Reply::Nil).then_some(())
        });
        for node in 0..NODES {
            wait_until("each node has the job", || {
                let reply = self.wire(node).try_ask("DELAY.LEN q").ok()?;
                (reply == Reply::Number(1)).then_some(())
            });
        }
    }

    /// Starts a node again, as it should have been.
    fn mend(&mut self, node: usize) {
        self.stop(node);
        self.begin(node);
        self.is_whole();
    }
}

#[test]
fn half_a_cluster_says_who_is_missing_and_takes_nothing() {
    let mut trio = Trio::prepare("half", &[]);
    trio.begin(0);
    trio.refuses(0, "LOADING the cluster is forming: n2, n3 are missing");
    trio.begin(1);
    (0..2).for_each(|node| trio.refuses(node, "LOADING the cluster is forming: n3 is missing"));
    trio.says(0, &["INFO", "n3 is missing"]);
    trio.begin(2);
    trio.is_whole();
}

/// Whoever is killed whenever while they form: one cluster comes of it, with all three.
#[test]
fn nodes_that_are_killed_while_they_form_become_one_cluster() {
    let mut random = SmallRng::seed_from_u64(seed());
    let mut trio = Trio::prepare("forming", &[]);
    for _ in 0..24 {
        let node = random.random_range(0..NODES);
        match trio.runs(node) {
            true => drop(trio.kill(node)),
            false => trio.begin(node),
        }
        // At another moment of their meeting each time.
        pass(Duration::from_millis(random.random_range(0..150)));
    }
    for node in 0..NODES {
        if !trio.runs(node) {
            trio.begin(node);
        }
    }
    trio.is_whole();
    let clusters = [0, 1, 2].map(|node| trio.wire(node).field("raft_cluster"));
    assert!(clusters.iter().all(|cluster| *cluster == clusters[0]), "{clusters:?}");
}

#[test]
fn lists_that_differ_are_shown_beside_each_other() {
    let mut trio = Trio::prepare("lists", &[]);
    (0..2).for_each(|node| trio.begin(node));
    let list = trio.list();
    let other = format!("{list},n4=127.0.0.1:1");
    trio.begin_with(2, &["--cluster-nodes", &other]);
    for node in 0..NODES {
        trio.says(node, &["WARN", "must be equal", &list, &other]);
        trio.refuses(node, "must be equal");
    }
    trio.refuses(0, "LOADING");
    trio.mend(2);
}

#[test]
fn a_name_that_two_nodes_have_is_refused() {
    let mut trio = Trio::prepare("names", &[]);
    trio.begin(1);
    let ports = [trio.net.ports[1], trio.net.ports[2]];
    // It stands where n3 should, and says that it is n2.
    let announced = ports[0].to_string();
    trio.begin_with(2, &["--cluster-node", "n2", "--cluster-announce-bus-port", &announced]);
    trio.begin(0);
    trio.says(0, &["expected n3, but n2 answers"]);
    trio.refuses(0, "LOADING");
    // Its folder is that of n2 by now.
    trio.stop(2);
    std::fs::remove_dir_all(trio.path(2)).unwrap();
    trio.begin(2);
    trio.is_whole();
}

#[test]
fn a_secret_that_differs_is_named_on_both_sides() {
    let mut trio = Trio::prepare("secret", &["--cluster-secret", "the right secret"]);
    (0..2).for_each(|node| trio.begin(node));
    trio.begin_with(2, &["--cluster-secret", "the wrong secret"]);
    trio.says(2, &["cluster-secret of n3 differs from that of n1"]);
    trio.says(0, &["cluster-secret", "n3"]);
    for node in 0..NODES {
        let log = trio.program(node).log();
        assert!(!log.contains("right") && !log.contains("wrong"), "{log}");
    }
    trio.refuses(0, "LOADING");
    trio.mend(2);
}

#[test]
fn the_journal_of_a_single_node_stays_its_own() {
    let mut trio = Trio::prepare("single", &[]);
    std::fs::create_dir_all(trio.path(2)).unwrap();
    let alone = Program::start(&trio.path(2), &[]);
    alone.connect().ask("DELAY.ADD own 1h x ID a");
    alone.stop();
    (0..NODES).for_each(|node| trio.begin(node));
    let log = trio.ended(2);
    assert!(
        log.contains("the journal belongs to a standalone server, but cluster-node is n3"),
        "{log}"
    );
    trio.refuses(0, "LOADING the cluster is forming: n3 is missing");
    let alone = Program::start(&trio.path(2), &[]);
    assert_eq!(alone.connect().ask("DELAY.LEN own"), Reply::Number(1));
    alone.stop();
    std::fs::remove_dir_all(trio.path(2)).unwrap();
    trio.begin(2);
    trio.is_whole();
}

/// It would vote as somebody who has promised something, and has forgotten it.
#[test]
fn a_node_with_another_folder_has_no_vote() {
    let mut trio = Trio::start("folder", &[]);
    trio.is_whole();
    let gone = if trio.leader() == 2 { 1 } else { 2 };
    trio.stop(gone);
    std::fs::remove_dir_all(trio.path(gone)).unwrap();
    let leader = trio.leader();
    let other = (0..NODES).find(|node| ![gone, leader].contains(node)).expect("three");
    trio.kill(other);
    trio.begin(gone);
    // It does not make two of three where one is left.
    trio.refuses(leader, "MASTERDOWN");
    trio.refuses(gone, "LOADING");
    assert!(trio.wire(leader).ask("DELAY.LEN q").is_error("MASTERDOWN"));
    trio.begin(other);
    trio.is_whole();
}

#[test]
fn a_node_of_another_cluster_is_refused_by_both_their_names() {
    let (mut trio, mut other) = (Trio::start("one", &[]), Trio::start("other", &[]));
    trio.is_whole();
    let cluster = trio.wire(0).field("raft_cluster");
    let other_cluster = other.wire(2).field("raft_cluster");
    let moved = if trio.leader() == 2 { 1 } else { 2 };
    other.stop(moved);
    trio.stop(moved);
    std::fs::rename(trio.path(moved), trio.folder.0.join("kept")).unwrap();
    std::fs::rename(other.path(moved), trio.path(moved)).unwrap();
    trio.begin(moved);
    trio.says(moved, &["is a member of cluster", &cluster, &other_cluster]);
    trio.stop(moved);
    std::fs::remove_dir_all(trio.path(moved)).unwrap();
    std::fs::rename(trio.folder.0.join("kept"), trio.path(moved)).unwrap();
    trio.begin(moved);
    trio.is_whole();
}

/// Strangers at the peers' port: a thousand that say nothing, and some that say what no peer says.
#[test]
fn strangers_disturb_nobody() {
    let trio = Trio::start("strangers", &[]);
    trio.is_whole();
    let leader = trio.leader();
    let epoch = trio.epoch(leader);
    let port = trio.peer_port(leader);
    let call = || {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(limit())).unwrap();
        stream
    };
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let _silent: Vec<TcpStream> = (0..1_000).map(|_| call()).collect();
    let huge = [&b"delayd peer\n"[..], &[0xff; 64]].concat();
    for said in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PING\r\n", &huge, &[0; 4_096]] {
        let mut stream = call();
        // It may be at its end before all is sent.
        let _ = stream.write_all(said);
        let mut told = Vec::new();
        let _ = stream.read_to_end(&mut told);
        assert!(told.len() < 4_096, "{told:?}");
    }
    let mut wire = trio.wire(leader);
    for i in 0..200 {
        assert!(matches!(wire.ask(&format!("DELAY.ADD q 1h {i}")), Reply::Bulk(_)));
    }
    assert_eq!((trio.leader(), trio.epoch(leader)), (leader, epoch));
    let log = trio.program(leader).log();
    assert!(log.contains("not a delayd peer: it begins with 'GET / HTTP"), "{log}");
    assert!(log.lines().count() < 60, "{log}");
}
