//! Base files: what is written while the engine goes on is the state as of the instant at which
//! writing began, and an engine loaded from it goes on as the one that wrote it.
//!
//! The histories are those of the simulation. `DELAYD_SEED=17 cargo test --test base` runs one seed
//! again, `DELAYD_CASES=5000` as many.

#[path = "simulation/auditor.rs"]
mod auditor;
#[path = "base/damage.rs"]
mod damage;
#[path = "simulation/decide.rs"]
mod decide;
#[path = "simulation/facts.rs"]
mod facts;
#[path = "simulation/handing.rs"]
mod handing;
#[path = "base/history.rs"]
mod history;
#[path = "simulation/journal.rs"]
mod journal;
#[path = "simulation/lists.rs"]
mod lists;
#[path = "simulation/look.rs"]
mod look;
#[path = "simulation/model.rs"]
mod model;
#[path = "simulation/moves.rs"]
mod moves;
#[path = "simulation/policies.rs"]
mod policies;
#[path = "base/scenarios.rs"]
mod scenarios;
#[path = "support/seeds.rs"]
mod seeds;
#[path = "simulation/trace.rs"]
mod trace;
#[path = "simulation/workload.rs"]
mod workload;
#[path = "simulation/world.rs"]
mod world;

use history::{History, Seen};
use seeds::{are_few, run_seeds, seeds_or};

#[test]
fn a_base_file_of_any_moment_is_that_moment() {
    let mut seen = Seen::default();
    let threads = run_seeds(seeds_or(300), |seed, seen| History::new(seed).run(seen));
    threads.iter().for_each(|thread| seen.add(thread));
    println!("{seen:#?}");
    if !are_few() {
        seen.check();
    }
}
