//! How long things take, in simulated time: what `docs/` and users are promised.

use super::world::{E, MS, Options, SECOND, World};
use crate::support::seeds::{are_few, seeds_or};
use rand::Rng;

/// p50, p90 and the worst, ms.
fn spread(mut times: Vec<u64>) -> [u64; 3] {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 100] / MS;
    [at(50), at(90), at(100)]
}

fn calm(seed: u64, nodes: u64) -> (World, usize) {
    let mut world = World::new(seed, Options::calm(nodes));
    let leader = world.wait_for_leader();
    for _ in 0..20 {
        world.propose(leader, 100);
        world.run_until(world.now + MS);
    }
    let more = world.chance.random_range(0..2 * E);
    world.run_until(world.now + more);
    (world, leader)
}

/// From the kill of the leader until another may decide.
fn failover(nodes: u64) -> [u64; 3] {
    let times = seeds_or(600).map(|seed| {
        let (mut world, leader) = calm(seed, nodes);
        world.kill(leader);
        world.wait_for("another leads", 10 * E, |world| world.leader().is_some())
    });
    let times: Vec<u64> = times.collect();
    let spread = spread(times);
    println!("failover of {nodes} nodes: p50, p90, worst {spread:?} ms");
    spread
}

#[test]
fn another_leads_within_a_few_hundred_ms() {
    for nodes in [3, 5] {
        let [half, most, worst] = failover(nodes);
        if !are_few() {
            assert!(half <= 420 && most <= 560 && worst <= 1_000);
        }
    }
}

#[test]
fn leadership_is_handed_over_in_milliseconds() {
    let mut times = Vec::new();
    for seed in seeds_or(100) {
        let (mut world, leader) = calm(seed, if seed % 2 == 0 { 3 } else { 5 });
        let to = (leader + 1) % world.machines.len();
        assert!(world.transfer(leader, to as u64 + 1));
        times.push(world.wait_for("the other leads", E, |world| world.machines[to].leads()));
    }
    let worst = times.iter().max().expect("some");
    println!("hand-over: worst {worst} µs");
    assert!(*worst <= 5 * MS);
}

/// Whatever `during` does with a cluster under load: the same leader, the same term, and the longest commit.
fn undisturbed(seed: u64, during: impl Fn(&mut World, usize)) -> u64 {
    let (mut world, leader) = calm(seed, 3);
    let term = world.machines[leader].node().term();
    world.latencies.clear();
    during(&mut world, leader);
    world.wait_for("all is equal", 5 * SECOND, World::is_equal);
    assert_eq!(world.leader(), Some(leader), "the leader is the same");
    assert_eq!(world.machines[leader].node().term(), term, "and so is the term");
    world.audit.check_acked();
    *world.latencies.iter().max().expect("something was proposed")
}

fn load(world: &mut World, leader: usize, us: u64) {
    let end = world.now + us;
    while world.now < end {
        world.propose(leader, 200);
        world.run_until(world.now + 2 * MS);
    }
}

#[test]
fn a_follower_that_was_cut_off_disturbs_nobody() {
    for seed in 0..10 {
        let worst = undisturbed(seed, |world, leader| {
            let id = ((leader + 1) % 3) as u64 + 1;
            let links = (1..=3).flat_map(|other| [(id, other), (other, id)]);
            world.cut.extend(links);
            load(world, leader, 5 * SECOND);
            world.cut.clear();
            load(world, leader, 2 * SECOND);
        });
        assert!(worst <= 2 * MS, "a commit took {worst} µs");
    }
}

#[test]
fn a_batch_of_64_mib_costs_nobody_its_place() {
    let worst = undisturbed(1, |world, leader| {
        assert!(world.propose(leader, 64 << 20));
        world.run_until(world.now + SECOND);
        load(world, leader, SECOND);
    });
    // 671 ms on the wire at 100 MB/s.
    assert!((600 * MS..720 * MS).contains(&worst), "{worst} µs");
}

#[test]
fn slow_disks_of_followers_depose_nobody() {
    let slow = |count: usize| {
        undisturbed(2, move |world, leader| {
            let followers: Vec<usize> = (0..3).filter(|at| *at != leader).take(count).collect();
            for at in &followers {
                world.machines[*at].disk.sync_us = 400 * MS;
            }
            load(world, leader, 10 * SECOND);
            followers.iter().for_each(|at| world.machines[*at].disk.sync_us = 100);
            load(world, leader, SECOND);
        })
    };
    let (one, both) = (slow(1), slow(2));
    println!("longest commit, syncs of 400 ms on one follower {one} µs, on both {both} µs");
    assert!(one <= 2 * MS, "the other one is a majority with the leader");
    assert!(both <= 1_300 * MS, "a sync that runs, and the next");
}
