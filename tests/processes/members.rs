//! Nodes come and go: a server alone becomes three, three become five, and one disk of a lost cluster is enough to go on.

use crate::processes::nodes::{Nodes, name};
use crate::processes::trio::wait_until;
use crate::support::program::{Program, Reply};

#[test]
fn a_server_alone_becomes_three_then_five_and_loses_its_first_node() {
    let mut nodes = Nodes::new("members", 5);
    std::fs::create_dir_all(nodes.path(0)).unwrap();
    let alone = Program::start(&nodes.path(0), &["--port", &nodes.clients[0].to_string()]);
    let mut wire = alone.connect();
    for at in 0..200 {
        let added = wire.ask(&format!("DELAY.ADD q 1h job-{at} ID j{at}"));
        assert!(matches!(added, Reply::Bulk(_)), "{added:?}");
    }
    wire.ask("DELAY.ADD work 0 held ID held");
    let held = wire.ask("DELAY.RESERVE NOWAIT 1 work LEASE 1h");
    let token = held.array().expect("jobs")[0].array().expect("a job")[3].text().to_owned();
    drop(wire);
    alone.stop();

    let three = nodes.list(&[0, 1, 2]);
    let (own, others) = (["--cluster-node", "n1"], ["--cluster-nodes", &three]);
    let words = [&["found"], &own[..], &others[..]].concat();
    let asked = nodes.tool(0, &words);
    assert_eq!(asked.status.code(), Some(1), "nobody has agreed: {asked:?}");
    let founded = nodes.tool(0, &[&words[..], &["--yes"]].concat());
    assert!(founded.status.success(), "{founded:?}");
    let again = nodes.tool(0, &[&words[..], &["--yes"]].concat());
    let text = String::from_utf8(again.stderr).unwrap();
    assert!(text.contains("it is the journal of a node of a cluster"), "{text}");
    let (_, text) = Program::start(&nodes.path(0), &["--port", "0"]).ended();
    assert!(text.contains("cluster-node is empty"), "{text}");

    (0..3).for_each(|node| nodes.begin(node, &[0, 1, 2]));
    nodes.wait_for_voters(&[0, 1, 2]);
    nodes.wait_for_jobs(&[0, 1, 2], 200);
    // What was handed out before is its holder's.
    assert_eq!(nodes.ask(&format!("DELAY.ACK work held {token}")), Reply::Number(1));

    nodes.begin(3, &[0, 1, 2, 3]);
    let peer = nodes.peer(3);
    let hint = wait_until("it says what is to be done", || {
        let refused = nodes.wire(3).ok()?.try_ask("DELAY.LEN q").ok()?;
        let Reply::Error(text) = refused else { return None };
        text.contains("DELAY.CLUSTER ADD").then_some(text)
    });
    assert!(hint.starts_with("LOADING") && hint.contains(&format!("ADD n4 {peer}")), "{hint}");
    for node in [3, 4] {
        let line = format!("DELAY.CLUSTER ADD {} {}", name(node), nodes.peer(node));
        // On a busy machine one that is there may not be seen for a moment.
        wait_until("it is invited", || {
            nodes.try_ask(&line).filter(|told| *told == Reply::Simple("OK".to_owned()))
        });
    }
    nodes.begin(4, &[0, 4]);
    nodes.wait_for_voters(&[0, 1, 2, 3, 4]);
    nodes.wait_for_jobs(&[3, 4], 200);

    // The first one leaves, and after it another is lost.
    wait_until("another one leads, and is asked for it", || {
        // Each goes to the node that was found: one that was elected meanwhile would hand the lead back.
        let leader = nodes.leader();
        let mut wire = nodes.wire(leader).ok()?;
        if leader == 0 {
            let _ = wire.try_ask("FAILOVER");
            return None;
        }
        let asked = wire.try_ask("DELAY.CLUSTER REMOVE n1").ok()?;
        (asked == Reply::Simple("OK".to_owned())).then_some(())
    });
    nodes.wait_for_voters(&[1, 2, 3, 4]);
    nodes.kill(0);
    let gone = nodes.leader();
    nodes.kill(gone);
    assert!(matches!(nodes.ask("DELAY.ADD q 1h more ID more"), Reply::Bulk(_)));
    let left: Vec<usize> = (1..5).filter(|node| *node != gone).collect();
    nodes.wait_for_jobs(&left, 201);
}

#[test]
fn one_disk_of_a_lost_cluster_begins_another() {
    let mut nodes = Nodes::new("recover", 3);
    (0..3).for_each(|node| nodes.begin(node, &[0, 1, 2]));
    nodes.wait_for_voters(&[0, 1, 2]);
    for at in 0..100 {
        assert!(matches!(nodes.ask(&format!("DELAY.ADD q 1h job ID j{at}")), Reply::Bulk(_)));
    }
    nodes.wait_for_jobs(&[2], 100);
    (0..3).for_each(|node| nodes.kill(node));
    std::fs::remove_dir_all(nodes.path(0)).unwrap();

    let list = nodes.list(&[2]);
    let words = ["recover", "--cluster-node", "n3", "--cluster-nodes", &list, "--yes"];
    let refused = nodes.tool(2, &words);
    assert_eq!(refused.status.code(), Some(64), "{refused:?}");
    let recovered = nodes.tool(2, &[&words[..], &["--i-accept-losses"]].concat());
    assert!(recovered.status.success(), "{recovered:?}");
    let text = String::from_utf8(recovered.stdout).unwrap();
    assert!(text.contains("n3 is the only member of cluster"), "{text}");
    assert!(text.contains("100 delayed"), "{text}");

    nodes.begin(2, &[2]);
    nodes.wait_for_jobs(&[2], 100);
    assert!(matches!(nodes.ask("DELAY.ADD q 1h job ID new"), Reply::Bulk(_)));
    // One with an empty folder joins, one of the old cluster does not.
    nodes.begin(0, &[0, 2]);
    let line = format!("DELAY.CLUSTER ADD n1 {}", nodes.peer(0));
    assert_eq!(nodes.ask(&line), Reply::Simple("OK".to_owned()));
    nodes.wait_for_voters(&[0, 2]);
    nodes.wait_for_jobs(&[0], 101);
    let line = format!("DELAY.CLUSTER ADD n2 {}", nodes.peer(1));
    // It is cancelled if n1, which has just become a member, connects anew meanwhile.
    wait_until("n2 is invited", || {
        let is_asked = nodes.try_ask(&line) == Some(Reply::Simple("OK".to_owned()));
        let invited = ("n2".to_owned(), "invited".to_owned());
        (is_asked && nodes.roles().contains(&invited)).then_some(())
    });
    nodes.begin(1, &[1, 2]);
    let log = wait_until("it is refused", || {
        let log = nodes.programs[1].as_ref().expect("it runs").log();
        log.contains("is a member of cluster").then_some(log)
    });
    assert!(log.contains("of cluster"), "{log}");
    assert!(!matches!(nodes.wire(1).unwrap().ask("DELAY.ADD q 1h x"), Reply::Bulk(_)));
    assert!(nodes.roles().contains(&("n2".to_owned(), "invited".to_owned())));
}

/// The next leader may write all that the one before could.
#[test]
fn schedules_are_set_while_a_node_is_away() {
    let mut nodes = Nodes::new("away", 3);
    (0..3).for_each(|node| nodes.begin(node, &[0, 1, 2]));
    nodes.wait_for_voters(&[0, 1, 2]);
    let set = |nodes: &Nodes, name: &str| {
        let reply = nodes.ask(&format!("DELAY.SCHEDULE SET q {name} body EVERY 1h"));
        assert!(reply.array().is_some_and(|parts| parts[0].text() == "created"), "{reply:?}");
    };
    set(&nodes, "before");
    for _ in 0..2 {
        let leader = nodes.leader();
        let level = nodes.wire(leader).unwrap().field("raft_level");
        nodes.kill(leader);
        set(&nodes, &format!("after-{leader}"));
        let next = nodes.leader();
        assert_eq!(nodes.wire(next).unwrap().field("raft_level"), level);
        nodes.begin(leader, &[0, 1, 2]);
        nodes.wait_for_voters(&[0, 1, 2]);
    }
    // Those that were asked for a moment ago count.
    let add = |nodes: &Nodes, node: usize| {
        nodes.ask(&format!("DELAY.CLUSTER ADD n{node} 127.0.0.1:{node}"))
    };
    let is_asked = |node| add(&nodes, node) == Reply::Simple("OK".to_owned());
    let is_cancelled = |nodes: &Nodes| {
        let logs = nodes.programs.iter().flatten().map(|program| program.log());
        logs.into_iter().any(|log| log.contains(" is cancelled, and may not have been done"))
    };
    let text = wait_until("a tenth node is refused", || {
        wait_until("all are there", || is_asked(4).then_some(()));
        let are_asked = (5..10).all(is_asked);
        match add(&nodes, 10) {
            Reply::Error(text) if are_asked => Some(text),
            // Beside other work a node may stand still and connect anew, which cancels what was asked for.
            reply => {
                assert!(is_cancelled(&nodes), "a tenth node: {reply:?}");
                nodes.ask("DELAY.CLUSTER REMOVE n10");
                None
            }
        }
    });
    assert!(text.contains("at most 9 nodes"), "{text}");
}

#[test]
fn a_node_that_was_removed_while_it_was_down_says_so() {
    let mut nodes = Nodes::new("removed", 3);
    (0..3).for_each(|node| nodes.begin(node, &[0, 1, 2]));
    nodes.wait_for_voters(&[0, 1, 2]);
    let gone = (nodes.leader() + 1) % 3;
    nodes.kill(gone);
    let remove = format!("DELAY.CLUSTER REMOVE n{}", gone + 1);
    wait_until("it is asked for", || (nodes.try_ask(&remove)?.text() == "OK").then_some(()));
    let left: Vec<usize> = (0..3).filter(|node| *node != gone).collect();
    nodes.wait_for_voters(&left);
    nodes.begin(gone, &[0, 1, 2]);
    wait_until("its log says so", || {
        let log = nodes.programs[gone].as_ref().unwrap().log();
        log.contains("was removed from its cluster: stop it, and empty its folder").then_some(())
    });
    let rows = nodes.wire(gone).unwrap().ask("DELAY.CLUSTER");
    let is_removed = |row: &Reply| {
        let row = row.array().unwrap();
        row[1].text() == format!("n{}", gone + 1) && row[5].text() == "removed"
    };
    assert!(rows.array().unwrap().iter().any(is_removed), "{rows:?}");
}
