//! The simulation's clients and engine with the journal under them, over a storage that loses, tears
//! and reorders what was not synced: crashes at any moment, recovery, and on from there.
//!
//! `DELAYD_SEED=17 cargo test --test simulations simulation::crash` runs one seed again, `DELAYD_CASES=5000` as many.

mod cuts;
mod every;
mod invariants;
mod picture;
mod point;
mod run;
mod start;

use self::run::Run;
use crate::support::seeds::for_each_seed;

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
        "schedules recovered",
    ];
    seen.check(&happens);
}
