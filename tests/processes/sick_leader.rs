//! The disk of the leader hangs, or is slow: the others have what is added, and one of them takes over.

use crate::processes::trio::{NODES, Trio, leads, wait_until};
use crate::support::patience::seconds;
use crate::support::program::Reply;
use std::time::{Duration, Instant};

/// Two seconds and an election timeout are promised; as much again is the machine's.
fn silence_max() -> Duration {
    seconds(5)
}

/// Three nodes whose disks can be made to fail, and which of them leads; none where there is no compiler.
fn trio(name: &str) -> Option<(Trio, usize)> {
    let trio = Trio::start(name, &["--cluster-election-timeout", "300ms"]);
    trio.wait_for_voters();
    let leader = trio.leader();
    trio.disks.iter().all(Option::is_some).then_some((trio, leader))
}

/// Adds jobs at whoever leads until that is another node; the longest time without an answered one.
fn add_until_led_by_another(trio: &Trio, leader: usize) -> Duration {
    let (mut answered, mut longest) = (Instant::now(), Duration::ZERO);
    wait_until("another one leads and adds", || {
        let at = trio.try_leader()?;
        let added = trio.wire(at).try_ask("DELAY.ADD work 0 job");
        let is_added = added.is_ok_and(|reply| !matches!(reply, Reply::Error(_)));
        if is_added {
            longest = longest.max(answered.elapsed());
            answered = Instant::now();
        }
        (is_added && at != leader).then_some(())
    });
    longest
}

#[test]
fn adds_go_on_where_the_leaders_disk_hangs_and_another_one_takes_over() {
    let Some((trio, leader)) = trio("sick-hangs") else { return };
    trio.disks[leader].as_ref().unwrap().set("stuck");
    let silence = add_until_led_by_another(&trio, leader);
    println!("longest silence: {silence:?}");
    assert!(silence < silence_max(), "{silence:?} without an answered ADD");
    // It comes back as one that follows, with all that was added meanwhile.
    trio.disks[leader].as_ref().unwrap().clear("stuck");
    let jobs = |node| trio.wire(node).ask("DELAY.LEN work");
    wait_until("all have the same", || {
        (0..NODES).all(|node| jobs(node) == jobs(leader)).then_some(())
    });
}

#[test]
fn a_slow_disk_of_the_leader_makes_it_hand_over() {
    let Some((trio, leader)) = trio("sick-slow") else { return };
    trio.disks[leader].as_ref().unwrap().set("slow");
    let silence = add_until_led_by_another(&trio, leader);
    assert!(silence < silence_max(), "{silence:?} without an answered ADD");
    trio.disks[leader].as_ref().unwrap().clear("slow");
}

#[test]
fn neither_failover_nor_sigterm_waits_for_a_disk_that_hangs() {
    let Some((mut trio, leader)) = trio("sick-asked") else { return };
    let hang = |trio: &Trio, at: usize| {
        trio.disks[at].as_ref().unwrap().set("stuck");
        let added = trio.wire(at).ask("DELAY.ADD work 0 job");
        assert!(!matches!(added, Reply::Error(_)), "{added:?}");
    };
    hang(&trio, leader);
    let began = Instant::now();
    assert_eq!(trio.wire(leader).ask("FAILOVER"), Reply::Simple("OK".to_owned()));
    let leads_now = |trio: &Trio, at: usize| leads(&mut trio.wire(at));
    let next = wait_until("another one leads", || {
        (0..NODES).filter(|at| *at != leader).find(|at| leads_now(&trio, *at))
    });
    println!("another one led {:?} after FAILOVER", began.elapsed());
    assert!(began.elapsed() < silence_max());
    trio.disks[leader].as_ref().unwrap().clear("stuck");
    trio.wait_for_voters();
    hang(&trio, next);
    let began = Instant::now();
    trio.stop(next);
    println!("it ended {:?} after SIGTERM", began.elapsed());
    assert!(began.elapsed() < silence_max());
    assert_ne!(trio.leader(), next);
}
