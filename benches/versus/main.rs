//! delayd beside what people use today, in one run: `make versus`; or some of it:
//! `cargo bench --bench versus -- add memory life lateness busy crowd herd change idle queues waiters restart growth before cluster backup spread`.
//!
//! Redis with a sorted set, a hash and a script, and beanstalkd, each from Debian's packages, on ports
//! and folders of their own; the same work from the same generator, by turns, in several rounds. Every
//! part checks that the work was done. A whole run writes `docs/benchmarks.md`, and parts draw their plots beside it.
//!
//! `DELAYD_BENCH_ROUNDS` (3), `DELAYD_BENCH_SCALE` (1): the share of the jobs, for a quick look.

mod backup;
mod before;
mod cluster;
mod flood;
mod growth;
mod hand_off;
mod herd;
mod life;
mod many;
mod parts;
mod plot;
mod poller;
mod punctual;
mod raw;
mod report;
mod spread;
#[path = "../support/mod.rs"]
mod support;
mod system;
mod wire;

use report::Report;

/// A part: its word, and what it runs.
type Part = (&'static str, fn(&mut Report));

const PARTS: [Part; 17] = [
    ("add", parts::add),
    ("memory", parts::memory),
    ("life", parts::life),
    ("lateness", parts::lateness),
    ("busy", parts::busy),
    ("crowd", parts::crowd),
    ("herd", parts::herd),
    ("change", parts::change),
    ("idle", parts::idle),
    ("queues", parts::queues),
    ("waiters", parts::waiters),
    ("restart", parts::restart),
    ("growth", growth::growth),
    ("before", before::before),
    ("cluster", cluster::cluster),
    ("backup", backup::backup),
    ("spread", spread::spread),
];

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    for word in &wanted {
        assert!(PARTS.iter().any(|(part, _)| part == word), "there is no part {word}");
    }
    let mut report = Report::new();
    for (part, run) in PARTS {
        // Three nodes, or several partitions, on the cores of one machine: figures of their own, not for the page.
        let is_asked_for = wanted.is_empty() && !["cluster", "backup", "spread"].contains(&part);
        if is_asked_for || wanted.iter().any(|word| word == part) {
            eprintln!("== {part}");
            run(&mut report);
        }
    }
    println!("{}", report.text());
    report.draw();
    if wanted.is_empty() {
        report.write();
    }
}

fn variable(name: &str, or: f64) -> f64 {
    std::env::var(name).map_or(or, |value| value.parse().expect("a number"))
}

/// How often each part is run; the medians count.
pub fn rounds() -> usize {
    variable("DELAYD_BENCH_ROUNDS", 3.0) as usize
}

/// `count`, or its share if a quick look is wanted.
pub fn scaled(count: u64) -> u64 {
    (count as f64 * variable("DELAYD_BENCH_SCALE", 1.0)) as u64
}

/// The middle one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
