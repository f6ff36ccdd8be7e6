//! What nodes tell of themselves: to the log, to probes, to clients that look for a leader.

use crate::processes::trio::{NODES, Trio, name, wait_until};
use crate::support::http::free_port;
use crate::support::patience::{Machine, seconds};
use crate::support::program::{Program, Reply, Wire};
use std::process::Command;
use std::time::Instant;

/// What a node rightly says of a machine that does other things beside it.
const OF_A_BUSY_MACHINE: [&str; 3] =
    ["the process stalled", "this node is sick", "its handshake was not over after 2 s"];

impl Trio {
    /// A line of the node's log that has all of these, once there is one.
    fn line(&self, node: usize, parts: &[&str]) -> String {
        wait_until(format!("{parts:?} in the log of {}", name(node)), || {
            let log = self.program(node).log();
            let has = |line: &&str| parts.iter().all(|part| line.contains(part));
            log.lines().find(has).map(str::to_owned)
        })
    }
}

/// One by one, a follower first: nothing is wrong, so no log says so.
#[test]
fn a_planned_restart_of_each_node_warns_of_nothing() {
    // A busy machine keeps nodes from answering for longer than the default: then it is right that a leader says so.
    let mut trio = Trio::start("planned", &["--cluster-election-timeout", "3s"]);
    trio.wait_for_voters();
    let mut logs = [const { String::new() }; NODES];
    let leader = trio.leader();
    for node in [(leader + 1) % NODES, leader, (leader + 2) % NODES] {
        logs[node] += &trio.stop(node);
        trio.begin(node);
        trio.wait_for_voters();
    }
    for (node, log) in logs.iter_mut().enumerate() {
        *log += &trio.program(node).log();
        let warns = |line: &&str| {
            let is_bad = [" WARN ", " ERROR "].iter().any(|level| line.contains(level));
            is_bad && !OF_A_BUSY_MACHINE.iter().any(|part| line.contains(part))
        };
        let warnings: Vec<&str> = log.lines().filter(warns).collect();
        assert!(warnings.is_empty(), "{}: {warnings:#?}", name(node));
        assert!(log.contains("peer connected"), "the log is there: {log}");
    }
}

/// Two of three are gone. The third says so, and what helps, in words that can be run as they are; its clients are sent
/// elsewhere.
#[test]
fn a_lost_majority_is_told_and_the_command_that_is_named_helps() {
    let mut trio = Trio::start("majority", &[]);
    trio.wait_for_voters();
    let leader = trio.leader();
    assert!(matches!(trio.wire(leader).ask("DELAY.ADD q 1h x ID kept"), Reply::Bulk(_)));
    trio.wait_for_job();
    let mut waiting = trio.wire(leader);
    waiting.push_line("DELAY.RESERVE 0 1 other");
    waiting.flush().unwrap();
    let gone = [(leader + 1) % NODES, (leader + 2) % NODES];
    for node in gone {
        trio.kill(node);
    }

    let refusal = wait_until("the wait ends", || Some(waiting.read()));
    assert!(refusal.is_err() || refusal.is_ok_and(|reply| reply.is_error("UNBLOCKED")));
    let mut wire = wait_until("an add is refused for want of a leader", || {
        let mut wire = trio.wire(leader);
        let reply = wire.try_ask("DELAY.ADD q 1h x").ok()?;
        assert!(!reply.is_error("READONLY"), "no other node can do it: {reply:?}");
        reply.is_error("MASTERDOWN").then_some(wire)
    });
    wait_until("whoever was told so is let go", || wire.try_ask("PING").err());

    let line = trio.line(leader, &["WARN", "1 of 3 voters are online, 2 are needed; missing: "]);
    for node in gone {
        assert!(line.contains(&format!("{} at 127.0.0.1:", name(node))), "{line}");
    }
    let mut status = trio.wire(leader);
    assert!(status.number("raft_leaderless_ms") >= 1_000, "as of a moment before: {line}");
    assert_eq!(status.number("raft_voters_connected"), 1);

    // Another one comes back: it is over.
    trio.begin(gone[0]);
    trio.line(leader, &["INFO", " leads, ", " after the last leader"]);
    assert_eq!(trio.wire(trio.leader()).field("raft_leaderless_ms"), "-1");
    trio.kill(gone[0]);

    let log = trio.stop(leader);
    let command =
        log.lines().rfind(|line| line.contains("delayd cluster recover ")).unwrap_or(&line);
    let (_, command) = command.split_once(": delayd ").expect("it is named");
    let (command, _) = command.split_once(" (it asks").expect("it says that it asks");
    let output = Command::new(env!("CARGO_BIN_EXE_delayd"))
        .args(command.split(' '))
        .arg("--yes")
        .output()
        .unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    let (peer, own) = (free_port(), name(leader));
    let (peer, list) = (peer.to_string(), format!("{own}=127.0.0.1:{peer}"));
    let mut options = vec!["--cluster-node", own, "--cluster-nodes", &list];
    let port = free_port().to_string();
    options.extend(["--cluster-port", &peer, "--port", &port]);
    let alone = Program::start(&trio.path(leader), &options);
    wait_until("it leads alone, with the job", || {
        (Wire::connect(alone.address).ok()?.try_ask("DELAY.LEN q").ok()? == Reply::Number(1))
            .then_some(())
    });
    alone.stop();
}

impl Trio {
    /// All three have the one job of q.
    fn wait_for_job(&self) {
        for node in 0..NODES {
            wait_until("each has the job", || {
                (self.wire(node).try_ask("DELAY.LEN q").ok()? == Reply::Number(1)).then_some(())
            });
        }
    }
}

/// Nothing is committed for want of disks, though all hear the leader: whoever waits there is let go, and no job is handed
/// to it.
#[test]
fn what_waits_on_a_leader_that_commits_nothing_is_let_go() {
    let trio = Trio::start("stuck", &[]);
    if trio.disks.iter().any(Option::is_none) {
        return;
    }
    trio.wait_for_voters();
    let leader = trio.leader();
    let waits = |line: &str| {
        let mut wire = trio.wire(leader);
        wire.push_line(line);
        wire.flush().unwrap();
        wire
    };
    let lines = ["DELAY.POP other 0", "DELAY.RESERVE 0 1 other", "WAIT 9 0", "SUBSCRIBE news"];
    let mut waiting: Vec<Wire> = lines.iter().map(|line| waits(line)).collect();
    assert!(waiting[3].read().is_ok(), "it has subscribed");
    wait_until("they wait", || {
        let clients = trio.wire(leader).number("blocked_clients");
        (clients == 3).then_some(())
    });
    trio.disks.iter().flatten().for_each(|disk| disk.set("stuck"));
    let mut unanswered = waits("DELAY.ADD q 0 x");
    for (line, wire) in lines.iter().zip(&mut waiting) {
        let told = wire.read();
        let is_let_go = match &told {
            Ok(reply) => reply.is_error("UNBLOCKED"),
            Err(error) => is_closed(error),
        };
        assert!(is_let_go, "{line}: {told:?}");
    }
    // The job falls due while nothing can be committed.
    let mut late = waits("DELAY.POP q 0");
    assert!(late.read().map_or(true, |reply| !matches!(reply, Reply::Array(_))));
    assert!(unanswered.read().is_err_and(|error| is_closed(&error)), "it is not answered for ever");
    trio.disks.iter().flatten().for_each(|disk| disk.clear("stuck"));
    wait_until("jobs are handed out again", || {
        let mut wire = trio.wire(trio.try_leader()?);
        wire.try_ask("DELAY.ADD q 0 y").ok().filter(|reply| matches!(reply, Reply::Bulk(_)))?;
        let popped = wire.try_ask("DELAY.POP q 1").ok()?;
        matches!(popped, Reply::Array(_)).then_some(())
    });
}

fn is_closed(error: &std::io::Error) -> bool {
    error.kind() != std::io::ErrorKind::WouldBlock
}

/// Both followers hear the leader, and their disks hang. It says so, shows it, closes what it will not answer, and is
/// stopped in the time that it would take otherwise.
#[test]
fn a_leader_that_commits_nothing_says_so_and_is_stopped_soon() {
    let mut trio = Trio::start("uncommitted", &["--cluster-election-timeout", "1s"]);
    if trio.disks.iter().any(Option::is_none) {
        return;
    }
    trio.wait_for_voters();
    let leader = trio.leader();
    let followers = [(leader + 1) % NODES, (leader + 2) % NODES];
    let disk = |node: usize| trio.disks[node].as_ref().expect("there is a compiler");
    followers.iter().for_each(|node| disk(*node).set("stuck"));
    let mut adds = trio.wire(leader);
    adds.push_line("DELAY.ADD q 0 x");
    adds.flush().unwrap();
    let line = trio.line(leader, &["WARN", "this node leads, but it has committed nothing for "]);
    for node in followers {
        assert!(line.contains(&format!("{} (", name(node))), "{line}");
    }
    // A base waits for what is not committed, and nothing else waits for the base.
    assert!(!trio.wire(leader).ask("BGREWRITEAOF").is_failed());
    let mut asks = trio.wire(leader);
    asks.set_patience(seconds(10)).unwrap();
    assert!(asks.number("raft_stuck_ms") >= 1_000);
    let (machine, asked) = (Machine::watch(), Instant::now());
    trio.stop(leader);
    // Two seconds are for another leader, which cannot be elected; the ADD is not waited for.
    let took = asked.elapsed();
    assert!(took < machine.allows(seconds(4)), "{took:?}");
    assert!(adds.read().is_err_and(|error| is_closed(&error)));
    followers.iter().for_each(|node| trio.disks[*node].as_ref().unwrap().clear("stuck"));
}

/// A follower's disk hangs: it says so itself, with what to do, and both others know, and how far it is behind.
#[test]
fn a_node_whose_disk_hangs_says_so_and_the_others_show_it() {
    // A process that stalls for E/2 again and again is sick, too, and would be on a machine with too much to do.
    let trio = Trio::start("sick", &["--cluster-election-timeout", "1s"]);
    if trio.disks.iter().any(Option::is_none) {
        return;
    }
    trio.wait_for_voters();
    let leader = trio.leader();
    let follower = (leader + 1) % NODES;
    let disk = trio.disks[follower].as_ref().expect("there is a compiler");
    let field = |asked: usize, node: usize, field: &str| {
        let rows = trio.wire(asked).try_ask("DELAY.CLUSTER").ok()?;
        let row = rows
            .array()?
            .iter()
            .find(|row| row.array().is_some_and(|row| row[1] == Reply::Bulk(name(node).into())));
        let row: Vec<Reply> = row?.array()?.to_vec();
        let at = row.iter().position(|part| *part == Reply::Bulk(field.into()))?;
        Some(row[at + 1].clone())
    };
    let others = [leader, (leader + 2) % NODES];
    let is = |node, word: &str| {
        let word = Reply::Bulk(word.into());
        others.iter().all(|asked| field(*asked, node, "health") == Some(word.clone()))
    };
    let is_behind = |is: bool| {
        let behind = others.map(|asked| field(asked, follower, "behind"));
        behind.iter().all(|behind| matches!(behind, Some(Reply::Number(by)) if (*by > 0) == is))
    };
    wait_until("both are well", || (is(leader, "well") && is(follower, "well")).then_some(()));
    disk.set("stuck");
    assert!(matches!(trio.wire(leader).ask("DELAY.ADD q 1h x"), Reply::Bulk(_)));
    let line = trio.line(follower, &["WARN", "this node is sick", "What to do: check the disk"]);
    assert!(line.contains("a write has waited for its disk for "), "{line}");
    wait_until("the others show it", || is(follower, "disk-hangs").then_some(()));
    wait_until("and how far it is behind", || is_behind(true).then_some(()));
    assert_eq!(trio.wire(follower).field("raft_health"), "disk-hangs");
    disk.clear("stuck");
    trio.line(follower, &["INFO", "this node is healthy again"]);
    wait_until("it is well again", || is(follower, "well").then_some(()));
    wait_until("and has all", || is_behind(false).then_some(()));
}
