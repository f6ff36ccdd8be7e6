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
#[path = "simulation/look.rs"]
mod look;
#[path = "simulation/model.rs"]
mod model;
#[path = "base/scenarios.rs"]
mod scenarios;
#[path = "base/speed.rs"]
mod speed;
#[path = "simulation/trace.rs"]
mod trace;
#[path = "simulation/workload.rs"]
mod workload;
#[path = "simulation/world.rs"]
mod world;

use std::sync::atomic::{AtomicU64, Ordering};

use history::{History, Seen};

/// Tells which run failed.
struct Telltale(u64);

impl Drop for Telltale {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("DELAYD_SEED={} failed", self.0);
        }
    }
}

fn number_of(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value} is no number")))
}

#[test]
fn a_base_file_of_any_moment_is_that_moment() {
    let cases = number_of("DELAYD_CASES").unwrap_or(300);
    let seeds = match number_of("DELAYD_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..cases,
    };
    let next = AtomicU64::new(seeds.start);
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(8));
    let seen = std::thread::scope(|scope| {
        let work = || {
            let mut seen = Seen::default();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if !seeds.contains(&seed) {
                    return seen;
                }
                let _telltale = Telltale(seed);
                History::new(seed).run(&mut seen);
            }
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut all = Seen::default();
        for thread in threads {
            all.add(&thread.join().expect("a run failed; its seed is above"));
        }
        all
    });
    println!("{seen:#?}");
    if cases >= 100 && number_of("DELAYD_SEED").is_none() {
        seen.check();
    }
}
