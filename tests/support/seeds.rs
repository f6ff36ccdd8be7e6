//! Runs seeds on all cores, tells which one failed, and counts what happened in them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;

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

    /// Counts all of it in another one.
    pub fn add_to(self, other: &mut Seen) {
        self.0.into_iter().for_each(|(what, count)| other.count(what, count));
    }

    /// What the threads have seen together.
    pub fn of_all(threads: Vec<Seen>) -> Seen {
        let mut all = Seen::default();
        let each = threads.into_iter().flat_map(|seen| seen.0);
        each.for_each(|(what, count)| all.count(what, count));
        all
    }

    /// Panics if something that matters never happened, unless few seeds were run.
    pub fn check(&self, happens: &[&str]) {
        println!("{:#?}", self.0);
        if are_few() {
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
pub fn seeds(cases: u64) -> Range<u64> {
    only_seed().unwrap_or(0..(cases * number_of("DELAYD_CASES").unwrap_or(400)).div_ceil(400))
}

/// `DELAYD_SEED` alone, or `DELAYD_CASES` seeds, or `cases`.
pub fn seeds_or(cases: u64) -> Range<u64> {
    only_seed().unwrap_or(0..number_of("DELAYD_CASES").unwrap_or(cases))
}

/// Whether so few seeds are run that not everything must have happened in them.
pub fn are_few() -> bool {
    number_of("DELAYD_SEED").is_some() || number_of("DELAYD_CASES").is_some_and(|cases| cases < 100)
}

fn only_seed() -> Option<Range<u64>> {
    number_of("DELAYD_SEED").map(|seed| seed..seed + 1)
}

/// Runs these seeds; what each thread has gathered.
pub fn run_seeds<T: Default + Send>(seeds: Range<u64>, run: impl Fn(u64, &mut T) + Sync) -> Vec<T> {
    let next = AtomicU64::new(seeds.start);
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(8));
    std::thread::scope(|scope| {
        let work = || {
            let mut gathered = T::default();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if !seeds.contains(&seed) {
                    return gathered;
                }
                let _telltale = Telltale(format!("DELAYD_SEED={seed}"));
                run(seed, &mut gathered);
            }
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let join = |thread: ScopedJoinHandle<'_, T>| thread.join();
        let gathered = threads.into_iter().map(join);
        gathered.map(|one| one.expect("a run failed; its seed is above")).collect()
    })
}

/// Runs all seeds of a test that has `cases` of them by default.
pub fn for_each_seed(cases: u64, run: impl Fn(u64, &mut Seen) + Sync) -> Seen {
    Seen::of_all(run_seeds(seeds(cases), run))
}
