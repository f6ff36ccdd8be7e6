//! What must not be noticed: a follower that is away or slow, and a leader that is stopped in good order.
//! Each prints how long adds stood still, which has a limit; `--nocapture` shows it.

use crate::processes::calls::{Answer, Client, What};
use crate::processes::trio::{NODES, Trio, wait_until};
use crate::support::patience::{Machine, limit, pass, seconds};
use crate::support::program::Reply;
use crate::support::seeds::number_of;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A client that adds one job after the other.
struct Adder {
    is_over: Arc<AtomicBool>,
    /// Jobs so far.
    added: Arc<AtomicU64>,
    machine: Machine,
    thread: JoinHandle<(u64, Duration)>,
}

impl Adder {
    fn start(trio: &Trio) -> Adder {
        let is_over = Arc::<AtomicBool>::default();
        let added = Arc::<AtomicU64>::default();
        let (stops, counted) = (Arc::clone(&is_over), Arc::clone(&added));
        let mut client = Client::new(&trio.addresses, SmallRng::seed_from_u64(1));
        let thread = std::thread::spawn(move || {
            let (mut count, mut longest, mut last) = (0, Duration::ZERO, Instant::now());
            while !stops.load(Ordering::Relaxed) {
                let add = What::Add { label: count + 1, due_ms: 0, has_id: true };
                if let Some(Answer::Told(reply)) = client.ask(add) {
                    assert!(matches!(reply, Reply::Bulk(_) | Reply::Nil), "{reply:?}");
                    (count, longest) = (count + 1, longest.max(last.elapsed()));
                    last = Instant::now();
                    counted.store(count, Ordering::Relaxed);
                }
            }
            (count, longest)
        });
        Adder { is_over, added, machine: Machine::watch(), thread }
    }

    /// Waits until it has added so many more.
    fn goes_on(&self, count: u64) {
        let before = self.added.load(Ordering::Relaxed);
        wait_until("more is added", || {
            (self.added.load(Ordering::Relaxed) >= before + count).then_some(())
        });
    }

    /// So many were added, and never was there longer than this between two of them.
    fn stop(self, what: &str, gap: Duration) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        let (count, longest) = self.thread.join().unwrap();
        println!("{what}: {count} adds, {longest:?} at most between two");
        let allowed = self.machine.allows(gap);
        assert!(longest < allowed, "{what}: {longest:?} between two adds, {allowed:?} are allowed");
        count
    }
}

/// Meanwhile the leader stays, and so does its epoch, and adds go on. Then all nodes have all jobs.
fn unnoticed(what: &str, trouble: impl FnOnce(&Trio, usize, &Adder)) {
    // Longer than by default: two cores that do other things as well may stand still for 0.3 s, and for a second.
    let trio = Trio::start("steady", &["--cluster-election-timeout", "3s"]);
    let (leader, follower) = (trio.leader(), trio.follower());
    let epoch = trio.epoch(leader);
    let adder = Adder::start(&trio);
    trouble(&trio, follower, &adder);
    // Under load it comes back, and has what the others have.
    let index = trio.wire(leader).number("raft_committed_index");
    wait_until("the follower has it", || {
        let applied = trio.wire(follower).try_number("raft_applied_index");
        applied.filter(|applied| *applied >= index)
    });
    // The trouble lasts for 4 s at least.
    let count = adder.stop(what, seconds(3));
    assert_eq!((trio.leader(), trio.epoch(leader)), (leader, epoch));
    for node in 0..NODES {
        wait_until("each node has all jobs", || {
            // One that was away answers no reads until it has heard the leader.
            let length = trio.wire(node).try_ask("DELAY.LEN work1").ok()?;
            (length == Reply::Number((count as i64 + 2) / 3)).then_some(())
        });
    }
}

#[test]
fn a_follower_that_is_cut_off_disturbs_nobody_neither_away_nor_when_it_is_back() {
    unnoticed("cut off", |trio, follower, adder| {
        trio.net.cut(&Trio::ways_of(follower));
        adder.goes_on(100);
        wait_until("it has noticed", || {
            let leader = trio.wire(follower).try_field("raft_leader")?;
            leader.is_empty().then_some(())
        });
        // Often enough for it to ask for votes.
        pass(seconds(4));
        adder.goes_on(100);
        trio.net.mend();
    });
}

#[test]
fn a_slow_disk_of_a_follower_disturbs_nobody() {
    unnoticed("a slow disk", |trio, follower, adder| {
        let Some(disk) = &trio.disks[follower] else { return };
        disk.set("slow");
        pass(seconds(4));
        adder.goes_on(100);
        disk.clear("slow");
    });
}

/// Two have room. Whoever has none follows as far as it can, and has everything once there is room again.
/// Whoever adds is answered or let go by a leader whose disk fills while another node has just come back and lacks more than
/// the logs have: neither can the leader write a base for it, nor can it help to commit anything before it has one.
#[test]
fn who_adds_while_a_leaders_disk_fills_is_not_kept_waiting() {
    let small = ["--journal-segment-size", "1mb", "--cluster-log-keep", "0"];
    let mut trio = Trio::start("fills", &small);
    let add = format!("DELAY.ADD ballast 1h {} TTL 1ms", "x".repeat(50_000));
    for round in 0..number_of("DELAYD_CASES").unwrap_or(2) {
        let away = trio.follower();
        trio.kill(away);
        let mut wire = trio.wire(trio.leader());
        (0..60).for_each(|_| drop(wire.try_ask(&add)));
        for node in (0..NODES).filter(|node| *node != away) {
            let _ = trio.wire(node).try_ask("BGSAVE");
        }
        (0..60).for_each(|_| drop(wire.try_ask(&add)));
        trio.begin(away);
        let full = trio.leader();
        let Some(disk) = &trio.disks[full] else { return };
        // The disk fills at another moment of what the other one needs in each round.
        pass(Duration::from_millis(20 * (round % 10)));
        disk.set("full");
        let (began, lasts) = (Instant::now(), Duration::from_secs(2));
        while began.elapsed() < lasts {
            let Some(leader) = trio.try_leader() else { continue };
            let mut wire = trio.wire(leader);
            wire.set_patience(limit()).unwrap();
            while began.elapsed() < lasts {
                match wire.try_ask(&add) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        let info = trio.wire(leader).info("everything");
                        panic!("round {round}, {leader} of {full}: {info}")
                    }
                    Err(_) => break,
                }
            }
        }
        disk.clear("full");
        let _ = trio.wire(trio.leader()).try_ask("DELAY.PURGE ballast");
        trio.wait_for_voters();
    }
}

/// Two have room. Whoever has none follows as far as it can, and has everything once there is room again.
#[test]
fn a_leader_whose_disk_is_full_makes_way() {
    let trio = Trio::start("full", &["--journal-segment-size", "1mb"]);
    let full = trio.leader();
    let Some(disk) = &trio.disks[full] else { return };
    disk.set("full");
    let body = "x".repeat(10_000);
    let mut added = 0;
    let start = Instant::now();
    while added < 1_000 {
        assert!(start.elapsed() < limit(), "{added} adds");
        let mut wire = trio.wire(trio.leader());
        while added < 1_000
            && matches!(wire.try_ask(&format!("DELAY.ADD q 1h {body}")), Ok(Reply::Bulk(_)))
        {
            added += 1;
        }
    }
    assert_ne!(trio.leader(), full);
    disk.clear("full");
    wait_until("it has all of it", || {
        let length = trio.wire(full).try_ask("DELAY.LEN q").ok()?;
        let all = trio.wire(trio.leader()).try_ask("DELAY.LEN q").ok()?;
        (length == all).then_some(())
    });
}

/// Nodes hold the same, so their disks fill at the same time. Nothing more is added then, and who adds is told so; what ends
/// jobs goes on.
#[test]
fn when_all_disks_are_full_nothing_is_added_and_jobs_still_end() {
    let trio = Trio::start("all-full", &["--journal-segment-size", "1mb"]);
    let mut wire = trio.wire(trio.leader());
    for job in 0..50 {
        assert!(matches!(wire.ask(&format!("DELAY.ADD work 0 x ID j{job}")), Reply::Bulk(_)));
    }
    let jobs = wire.ask("DELAY.RESERVE NOWAIT 1 work COUNT 50 LEASE 1h");
    let jobs = jobs.array().expect("jobs");
    assert_eq!(jobs.len(), 50);
    for disk in &trio.disks {
        let Some(disk) = disk else { return };
        disk.set("full");
    }
    let add = format!("DELAY.ADD ballast 1h {}", "x".repeat(10_000));
    let (mut added, began) = (0, Instant::now());
    wait_until("it refuses to add", || {
        let mut wire = trio.wire(trio.try_leader()?);
        wire.set_patience(limit()).ok()?;
        loop {
            match wire.try_ask(&add) {
                Ok(Reply::Bulk(_)) => added += 1,
                Ok(reply) if reply.is_error("MISCONF") => return Some(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    panic!(
                        "{added} added, and one waits: {}",
                        trio.wire(trio.leader()).info("raft")
                    )
                }
                _ => return None,
            }
        }
    });
    println!("{added} added in {:?} before MISCONF", began.elapsed());
    // Each by itself, whoever leads.
    for job in jobs {
        let parts = job.array().expect("a job");
        let line = format!("DELAY.ACK work {} {}", parts[1].text(), parts[3].text());
        wait_until("it ends", || {
            let mut wire = trio.wire(trio.try_leader()?);
            wire.set_patience(limit()).ok()?;
            matches!(wire.try_ask(&line), Ok(Reply::Number(_))).then_some(())
        });
    }
    trio.disks.iter().flatten().for_each(|disk| disk.clear("full"));
    wait_until("it takes jobs again", || {
        let reply = trio.wire(trio.try_leader()?).try_ask("DELAY.ADD q 1h x");
        matches!(reply, Ok(Reply::Bulk(_))).then_some(())
    });
    assert_eq!(trio.wire(trio.leader()).ask("DELAY.LEN work"), Reply::Number(0));
}

/// A lease that ran out while nobody led is extended by the grace, and ends then; in a cluster that is as young as its
/// first job, too.
#[test]
fn a_lease_outlives_its_leader_and_ends() {
    let mut trio = Trio::start("leases", &[]);
    let leader = trio.leader();
    let mut wire = trio.wire(leader);
    wait_until("it takes jobs", || {
        let reply = wire.ask("DELAY.ADD q 0 body ID a NX");
        matches!(reply, Reply::Bulk(_)).then_some(())
    });
    let jobs = wire.ask("DELAY.RESERVE 1 1 q LEASE 300ms");
    assert_eq!(jobs.array().map(<[Reply]>::len), Some(1));
    trio.kill(leader);
    let mut wire = trio.wire(trio.leader());
    let jobs = wait_until("it is delivered again", || {
        let jobs = wire.ask("DELAY.RESERVE 20 1 q LEASE 1h");
        jobs.array().map(<[Reply]>::to_vec)
    });
    assert_eq!(jobs[0].array().unwrap()[4].number(), 2, "{jobs:?}");
}

/// The log before a base is kept, whatever starts in between: a node that was away needs it.
#[test]
fn a_node_that_has_a_base_starts_again_and_feeds_one_that_was_away() {
    let mut trio = Trio::start("bases", &["--journal-segment-size", "1mb"]);
    let body = "x".repeat(10_000);
    let add = |trio: &Trio| {
        let mut wire = trio.wire(trio.leader());
        for _ in 0..300 {
            assert!(matches!(wire.ask(&format!("DELAY.ADD q 1h {body}")), Reply::Bulk(_)));
        }
    };
    add(&trio);
    let away = trio.follower();
    trio.kill(away);
    add(&trio);
    let others: Vec<usize> = (0..NODES).filter(|node| *node != away).collect();
    for round in 1..=3 {
        for node in &others {
            let mut wire = trio.wire(*node);
            wire.ask("BGSAVE");
            wire.wait_for("rdb_bgsave_in_progress", |running| running == "0");
            assert_eq!(wire.field("rdb_last_bgsave_status"), "ok");
            assert!(wire.number("raft_base_index") > 600);
        }
        others.iter().for_each(|node| drop(trio.kill(*node)));
        others.iter().for_each(|node| trio.check(*node));
        others.iter().for_each(|node| trio.begin(*node));
        let leader = trio.leader();
        let length = trio.wire(leader).ask("DELAY.LEN q");
        assert_eq!(length, Reply::Number(600), "start {round} from a base");
        assert_eq!(trio.wire(leader).number("raft_first_index"), 1);
    }
    trio.begin(away);
    wait_until("it has all that it missed", || {
        let length = trio.wire(away).try_ask("DELAY.LEN q").ok()?;
        (length == Reply::Number(600)).then_some(())
    });
}

/// It hands over before it ends, so that no node has to notice that it is away, which takes an election timeout.
#[test]
fn a_leader_that_is_stopped_has_a_successor_at_once() {
    let election = seconds(6);
    let option = format!("{}s", election.as_secs());
    let mut trio = Trio::start("stopped", &["--cluster-election-timeout", &option]);
    let adder = Adder::start(&trio);
    for _ in 0..3 {
        let leader = trio.leader();
        trio.stop(leader);
        assert_ne!(trio.leader(), leader);
        trio.begin(leader);
        // With its vote: a node that has just begun has none.
        wait_until("it follows", || {
            let index = trio.wire(trio.leader()).try_number("raft_committed_index")?;
            let applied = trio.wire(leader).try_number("raft_applied_index")?;
            (applied >= index).then_some(())
        });
    }
    let count = adder.stop("three leaders stopped", election / 2);
    assert!(count > 10, "{count}");
}

/// FAILOVER: the leader asks another one, which leads after some ms, with all there is.
#[test]
fn a_leader_that_is_asked_to_hands_over() {
    let trio = Trio::start("failover", &[]);
    let adder = Adder::start(&trio);
    for round in 0..6 {
        let leader = trio.leader();
        let to = (leader + 1 + round % 2) % NODES;
        // It is told by the leader that all nodes are online a moment after that leads.
        wait_until("it follows a cluster that is complete", || {
            let said = trio.wire(to).ask("FAILOVER");
            (!said.is_error("LOADING")).then(|| {
                says(&said, "ERR FAILOVER is not valid when server is a replica");
            })
        });
        // Some are added in between, and it has them.
        let before = trio.wire(leader).number("raft_committed_index");
        wait_until("it follows", || {
            let applied = trio.wire(to).try_number("raft_applied_index")?;
            (applied >= before + 20).then_some(())
        });
        let port = trio.addresses[to].port();
        let asked = match round {
            5 => "FAILOVER".to_owned(),
            _ => format!("FAILOVER TO 127.0.0.1 {port} TIMEOUT 5000"),
        };
        assert_eq!(trio.wire(leader).ask(&asked), Reply::Simple("OK".to_owned()));
        wait_until("another one leads", || {
            let leads = trio.try_leader()?;
            (leads != leader && (round == 5 || leads == to)).then_some(())
        });
        adder.goes_on(1);
    }
    let count = adder.stop("six hand-overs", seconds(5));
    assert!(count > 10, "{count}");
    let leader = trio.leader();
    let mut wire = trio.wire(leader);
    let elsewhere = wire.ask("FAILOVER TO 127.0.0.1 1");
    says(&elsewhere, "ERR FAILOVER target HOST and PORT is not a replica");
    says(&wire.ask("FAILOVER ABORT"), "ERR No failover in progress");
    assert_eq!(wire.field("master_failover_state"), "no-failover");
}

fn says(reply: &Reply, what: &str) {
    assert!(matches!(reply, Reply::Error(text) if text.starts_with(what)), "{reply:?}");
}
