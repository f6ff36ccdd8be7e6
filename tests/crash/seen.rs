//! Runs seeds on all cores, and counts what happened in them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// What happened in the runs, so that those that test nothing are noticed.
#[derive(Default, Debug)]
pub struct Seen(BTreeMap<&'static str, u64>);

impl Seen {
    pub fn note(&mut self, what: &'static str) {
        self.count(what, 1);
    }

    pub fn count(&mut self, what: &'static str, count: u64) {
        *self.0.entry(what).or_default() += count;
    }

    /// Panics if something that matters never happened, unless few seeds were run.
    pub fn check(&self, happens: &[&str]) {
        println!("{:#?}", self.0);
        if number_of("DELAYD_SEED").is_some() || number_of("DELAYD_CASES").is_some_and(|n| n < 100)
        {
            return;
        }
        for what in happens {
            assert!(self.0.get(what).is_some_and(|count| *count > 0), "{what}: never");
        }
    }
}

/// Tells which run failed.
pub struct Telltale(pub String);

impl Drop for Telltale {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} failed", self.0);
        }
    }
}

pub fn number_of(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value} is no number")))
}

/// `DELAYD_SEED` alone, or `cases` seeds; `DELAYD_CASES` says how many are run instead of 400, of
/// tests with fewer as many less.
pub fn seeds(cases: u64) -> std::ops::Range<u64> {
    match number_of("DELAYD_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..(cases * number_of("DELAYD_CASES").unwrap_or(400)).div_ceil(400),
    }
}

/// Runs all seeds of a test that has `cases` of them by default.
pub fn for_each_seed(cases: u64, run: impl Fn(u64, &mut Seen) + Sync) -> Seen {
    let seeds = seeds(cases);
    let next = AtomicU64::new(seeds.start);
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(8));
    std::thread::scope(|scope| {
        let work = || {
            let mut seen = Seen::default();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if !seeds.contains(&seed) {
                    return seen;
                }
                let _telltale = Telltale(format!("DELAYD_SEED={seed}"));
                run(seed, &mut seen);
            }
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut all = Seen::default();
        for thread in threads {
            let seen = thread.join().expect("a run failed; its seed is above");
            seen.0.into_iter().for_each(|(what, count)| all.count(what, count));
        }
        all
    })
}
