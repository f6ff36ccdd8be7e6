//! What a sick disk costs: of the leader, of all three alike, and while the leader is to hand over or is stopped.
//! `DELAYD_CASES=1` measures each for longer and with more disks; `--nocapture` shows the figures.

use crate::processes::calls::{Answer, Client, What};
use crate::processes::silence::Watch;
use crate::processes::trio::{NODES, Trio, name, wait_until};
use crate::support::faults::Nodes;
use crate::support::patience::{Machine, pass, seconds};
use crate::support::seeds::number_of;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// FAILOVER and SIGTERM take effect within this, whatever the leader's own disk does.
const HANDED_OVER: Duration = Duration::from_secs(2);
/// What medians of two runs differ by in any case, on a machine that does other things as well.
const NOISE: Duration = Duration::from_millis(5);

fn is_thorough() -> bool {
    number_of("DELAYD_CASES").is_some()
}

/// Adds one job; none while nothing takes it.
fn add(client: &mut Client) -> Option<()> {
    static LABELS: AtomicU64 = AtomicU64::new(1);
    let label = LABELS.fetch_add(1, Ordering::Relaxed);
    let told = client.ask(What::Add { label, due_ms: 0, has_id: true });
    matches!(told, Some(Answer::Told(_))).then_some(())
}

fn client(addresses: &[SocketAddr]) -> Client {
    Client::new(addresses, SmallRng::seed_from_u64(1))
}

/// How long an add takes at the median, of one client that adds one job after the other for two seconds.
fn median_add(trio: &Trio) -> Duration {
    let mut client = client(&trio.addresses);
    let (mut took, began) = (Vec::new(), Instant::now());
    while began.elapsed() < seconds(2) || took.is_empty() {
        let begin = Instant::now();
        took.extend(add(&mut client).map(|()| begin.elapsed()));
    }
    took.sort_unstable();
    took[took.len() / 2]
}

#[test]
fn a_slow_disk_of_the_leader_costs_little() {
    let mut trio = Trio::start("slow", &[]);
    let slow_us: &[u64] = if is_thorough() { &[20_000, 100_000, 400_000] } else { &[400_000] };
    let mut wrong = Vec::new();
    for us in slow_us {
        let before = median_add(&trio);
        let leader = trio.leader();
        trio.slow(leader, Some(*us));
        // It may take so long until the cluster has noticed; adds make the syncs by which it does.
        let (began, mut adder) = (Instant::now(), client(&trio.addresses));
        while began.elapsed() < seconds(5) {
            add(&mut adder);
        }
        let (slow, leads) = (median_add(&trio), trio.leader());
        trio.slow(leader, None);
        trio.wait_for_voters();
        let healthy = before.max(median_add(&trio));
        let (is, was) = (name(leads), name(leader));
        println!("{us} µs a sync of {was}, {is} leads: {slow:?} an add, {healthy:?} healthy");
        if slow > 2 * healthy + NOISE {
            wrong.push((us, slow, healthy));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn disks_that_are_slow_alike_move_no_leader() {
    let mut trio = Trio::start("alike", &[]);
    let (slow_us, lasts): (&[u64], _) = match is_thorough() {
        true => (&[20_000, 100_000, 400_000], seconds(60)),
        false => (&[100_000], seconds(10)),
    };
    for us in slow_us {
        let watch = Watch::start(&trio.addresses);
        (0..NODES).for_each(|node| trio.slow(node, Some(*us)));
        let (began, mut leader, mut changes) = (Instant::now(), trio.leader(), 0);
        while began.elapsed() < lasts {
            if let Some(leads) = trio.try_leader().filter(|leads| *leads != leader) {
                (leader, changes) = (leads, changes + 1);
            }
            pass(Duration::from_millis(20));
        }
        (0..NODES).for_each(|node| trio.slow(node, None));
        watch.stop();
        println!("{us} µs a sync of all: {changes} changes of leader in {lasts:?}");
        assert!(changes <= 1, "{changes} changes of leader in {lasts:?}, {us} µs a sync of all");
    }
}

/// Until another node leads and has taken an add, from when the leader, whose disk hangs, is told so.
fn handed_over(trio: &mut Trio, tell: impl FnOnce(&mut Trio, usize)) -> (usize, Duration) {
    let leader = trio.leader();
    let others: Vec<SocketAddr> =
        (0..NODES).filter(|node| *node != leader).map(|node| trio.addresses[node]).collect();
    let (mut client, watch, machine) =
        (client(&others), Watch::start(&trio.addresses), Machine::watch());
    let hangs = |trio: &Trio| trio.disks[leader].as_ref().expect("a shim").count("hangs");
    let before = hangs(trio);
    trio.hang(leader, true);
    wait_until("a sync hangs", || (hangs(trio) > before).then_some(()));
    let began = Instant::now();
    tell(trio, leader);
    wait_until("another node leads", || {
        // For as long as nothing but the end of the fault would change anything.
        let is_late = began.elapsed() > seconds(10);
        add(&mut client).or(is_late.then_some(()))
    });
    let took = began.elapsed();
    trio.hang(leader, false);
    watch.stop();
    let allowed = machine.allows(HANDED_OVER).min(2 * HANDED_OVER);
    assert!(took <= allowed, "{took:?} until another node led, {allowed:?} at most");
    (leader, took)
}

#[test]
fn failover_and_sigterm_of_a_leader_do_not_wait_for_its_own_disk() {
    let mut trio = Trio::start("hangs", &[]);
    if trio.disks[0].is_none() {
        return;
    }
    for round in 0..if is_thorough() { 10 } else { 1 } {
        trio.hangs_whole = round % 2 == 0;
        trio.wait_for_voters();
        let (_, took) = handed_over(&mut trio, |trio, leader| {
            let mut wire = trio.wire(leader);
            wire.push_line("FAILOVER");
            wire.flush().unwrap();
        });
        println!("FAILOVER of a leader whose disk hangs: {took:?}");
        trio.wait_for_voters();
        let (leader, took) =
            handed_over(&mut trio, |trio, leader| trio.program(leader).terminate());
        println!("SIGTERM of a leader whose disk hangs: {took:?}");
        let (status, log) = trio.take(leader).ended();
        assert!(status.success(), "{status}: {log}");
        trio.begin(leader);
    }
}
