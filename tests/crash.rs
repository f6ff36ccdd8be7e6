//! The simulation's clients and engine with the journal under them, over a storage that loses, tears
//! and reorders what was not synced: crashes at any moment, recovery, and on from there.
//!
//! `DELAYD_SEED=17 cargo test --test crash` runs one seed again, `DELAYD_CASES=5000` as many.

#![allow(clippy::single_range_in_vec_init, reason = "a part of a file is one range")]

#[path = "simulation/auditor.rs"]
#[allow(dead_code, reason = "the simulation's own")]
mod auditor;
#[path = "crash/cuts.rs"]
mod cuts;
#[path = "simulation/decide.rs"]
#[allow(dead_code, reason = "the simulation's own")]
mod decide;
#[path = "crash/every.rs"]
mod every;
#[path = "simulation/facts.rs"]
#[allow(dead_code, reason = "the simulation's own")]
mod facts;
#[path = "simulation/handing.rs"]
#[allow(dead_code, reason = "the simulation's own")]
mod handing;
#[path = "crash/invariants.rs"]
mod invariants;
#[path = "simulation/journal.rs"]
#[allow(dead_code, reason = "the simulation's own")]
mod journal;
#[path = "simulation/lists.rs"]
mod lists;
#[path = "simulation/look.rs"]
#[allow(dead_code, reason = "the simulation's own")]
mod look;
#[path = "journal/lossy.rs"]
#[allow(dead_code, reason = "the journal's own")]
mod lossy;
#[path = "simulation/model.rs"]
#[allow(dead_code, reason = "the simulation's own")]
mod model;
#[path = "simulation/moves.rs"]
mod moves;
#[path = "crash/picture.rs"]
mod picture;
#[path = "crash/point.rs"]
mod point;
#[path = "simulation/policies.rs"]
#[allow(dead_code, reason = "the simulation's own")]
mod policies;
#[path = "crash/run.rs"]
mod run;
#[path = "support/seeds.rs"]
mod seeds;
#[path = "crash/start.rs"]
mod start;
#[path = "simulation/trace.rs"]
#[allow(dead_code, reason = "the simulation's own")]
mod trace;
#[path = "simulation/workload.rs"]
#[allow(dead_code, reason = "the simulation's own")]
mod workload;
#[path = "simulation/world.rs"]
#[allow(dead_code, reason = "the simulation's own")]
mod world;

use run::Run;
use seeds::for_each_seed;

#[test]
fn lives_that_end_in_crashes() {
    let seen = for_each_seed(400, |seed, seen| {
        let mut run = Run::new(seed);
        for _ in 0..8 {
            run.live(seen);
            run.crash();
            run.start(seen);
        }
        run.end();
    });
    let happens = [
        "acknowledged, then lost to nobody",
        "killed",
        "power failures",
        "deaths in an operation",
        "poisoned",
        "went on after an error",
        "batches lost",
        "recovered from a base",
        "the base was ahead of the log",
        "torn tails",
        "died while recovering",
        "bases",
        "bases abandoned",
        "segments dropped",
        "spares made",
        "pictures compared",
        "memory compared",
        "bound leases ended",
        "numbers above the floor",
        "numbers above what was recovered",
        "clocks set back",
    ];
    seen.check(&happens);
}
