//! The engine under a virtual clock and many clients that behave at random: one seed, one run.
//!
//! `DELAYD_SEED=17 cargo test --test simulation` runs one seed again, `DELAYD_CASES=5000` as many.

#[path = "simulation/auditor.rs"]
mod auditor;
#[path = "simulation/decide.rs"]
mod decide;
#[path = "simulation/facts.rs"]
mod facts;
#[path = "simulation/handing.rs"]
mod handing;
#[path = "simulation/journal.rs"]
mod journal;
#[path = "simulation/look.rs"]
mod look;
#[path = "simulation/model.rs"]
mod model;
#[path = "simulation/trace.rs"]
mod trace;
#[path = "simulation/workload.rs"]
mod workload;
#[path = "simulation/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use delayd::engine::policy::Policy;
use world::World;

/// Tells which run failed.
struct Telltale(String);

impl Drop for Telltale {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

fn number_of(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value} is no number")))
}

/// Runs a seed with the auditor, then without and compares.
fn run(seed: u64, seen: &mut BTreeMap<&'static str, u64>) {
    let mut world = World::new(seed, true);
    let options = world.workload.options.clone();
    let _telltale = Telltale(format!("DELAYD_SEED={seed} failed with {options:#?}"));
    (0..options.turns).for_each(|_| world.turn());
    let auditor = world.auditor.as_ref().expect("it is audited");
    auditor.seen.iter().for_each(|(what, count)| *seen.entry(what).or_default() += count);

    let mut again = World::new(seed, false);
    (0..options.turns).for_each(|_| again.turn());
    assert!(world.record == again.record, "a second run of the seed differs");
    drop(again);

    world.settle();
    world.go_on_beside_replica(options.turns / 4);
    world.flush();
    // Policies stay bound for the next job alike.
    let auditor = world.auditor.as_ref().expect("it is audited");
    let policy_bytes = 2 * size_of::<Policy>() as u64 + 48;
    let kept = auditor.model.policies.len() as u64 * policy_bytes;
    assert_eq!(world.engine.memory_bytes(), kept, "bytes held by nothing");
}

#[test]
fn random_runs_are_as_specified() {
    let cases = number_of("DELAYD_CASES").unwrap_or(300);
    let seeds = match number_of("DELAYD_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..cases,
    };
    let next = AtomicU64::new(seeds.start);
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(8));
    let seen = std::thread::scope(|scope| {
        let work = || {
            let mut seen = BTreeMap::new();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if !seeds.contains(&seed) {
                    return seen;
                }
                run(seed, &mut seen);
            }
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut all: BTreeMap<&str, u64> = BTreeMap::new();
        for thread in threads {
            let seen = thread.join().expect("a run failed; its seed is above");
            seen.into_iter().for_each(|(what, count)| *all.entry(what).or_default() += count);
        }
        all
    });
    println!("{seen:#?}");
    if cases >= 100 && number_of("DELAYD_SEED").is_none() {
        let happens = [
            "acked",
            "added",
            "again",
            "deleted",
            "due",
            "expired",
            "extended",
            "extended after a stall",
            "forgotten",
            "lost",
            "nacked",
            "no room",
            "oom",
            "rescheduled",
            "scanned",
            "served",
            "settled: dead",
            "stats",
            "stopped",
            "taken",
            "timed out",
            "timeout",
            "unleased",
            "unpopped",
            "waits",
            "window over",
            "dropped",
        ];
        for what in happens {
            assert!(seen.contains_key(what), "{what} never happened");
        }
    }
}
