//! Base files: what is written while the engine goes on is the state as of the instant at which
//! writing began, and an engine loaded from it goes on as the one that wrote it.
//!
//! The histories are those of the simulation. `DELAYD_SEED=17 cargo test --test simulations simulation::base` runs one seed
//! again, `DELAYD_CASES=5000` as many.

mod damage;
mod history;
mod scenarios;

use self::history::History;
use crate::support::seeds::{Seen, run_seeds, seeds_or};

#[test]
fn a_base_file_of_any_moment_is_that_moment() {
    let threads = run_seeds(seeds_or(300), |seed, seen| History::new(seed).run(seen));
    Seen::of_all(threads).check(&[
        "abandoned",
        "turns while writing",
        "delayed",
        "ready",
        "leased",
        "dead",
        "policies forgotten while writing",
        "queues removed while writing",
        "queues forgotten while writing",
        "flushed while writing",
        "redriven while writing",
        "purged while writing",
        "renamed while writing",
        "renamed over another while writing",
        "unleased while writing",
        "unpopped while writing",
        "schedules set while writing",
        "schedules removed while writing",
        "schedules paused while writing",
        "occurrences made while writing",
        "occurrences missed while writing",
        "calm",
        "settings of groups while writing",
        "of a replica",
    ]);
}
