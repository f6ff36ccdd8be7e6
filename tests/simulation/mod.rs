//! The engine under a virtual clock and many clients that behave at random: one seed, one run.
//!
//! `DELAYD_SEED=17 cargo test --test simulations simulation` runs one seed again, `DELAYD_CASES=5000` as many.

#![allow(clippy::single_range_in_vec_init, reason = "a part of a file is one range")]

mod agenda;
mod auditor;
mod base;
mod changes;
mod crash;
mod decide;
mod facts;
mod handing;
mod journal;
mod lists;
mod look;
mod model;
mod moves;
mod occurring;
mod overdue;
mod policies;
mod rates;
mod schedules;
mod scheduling;
mod sharing;
mod successors;
mod timetable;
mod trace;
mod workload;
mod world;

use crate::support::seeds::{Seen, Telltale, run_seeds, seeds_or};
use delayd::engine::model::policy::{Policy, Steps};
use world::World;

/// Runs a seed with the auditor, then without and compares.
fn run(seed: u64, seen: &mut Seen) {
    let mut world = World::new(seed, true);
    let options = world.workload.options.clone();
    let _telltale = Telltale(format!("DELAYD_SEED={seed} with {options:#?}"));
    (0..options.turns).for_each(|_| world.turn());
    let auditor = world.auditor.as_ref().expect("it is audited");
    auditor.seen.iter().for_each(|(what, count)| seen.count(what, *count));

    let mut again = World::new(seed, false);
    (0..options.turns).for_each(|_| again.turn());
    assert!(world.record == again.record, "a second run of the seed differs");
    drop(again);

    world.settle();
    world.go_on_beside_replica(options.turns / 4);
    world.flush();
    // Policies stay bound for the next job alike.
    let auditor = world.auditor.as_ref().expect("it is audited");
    let kept = auditor.model.policies.values().map(policy_bytes).sum::<u64>();
    assert_eq!(world.engine.memory_bytes(), kept, "bytes held by nothing");
}

/// Its slot with its place in index and list, and its ladder in the allocator's sizes.
fn policy_bytes(policy: &Policy) -> u64 {
    let steps = match &policy.backoff.steps {
        Steps::Ladder(steps) => steps.len(),
        Steps::Exponential { .. } => 0,
    };
    assert!(steps <= 16, "the sizes are 16 bytes apart up to 128");
    (size_of::<Policy>() + 68 + (8 * steps).next_multiple_of(16)) as u64
}

#[test]
fn random_runs_are_as_specified() {
    let seen = Seen::of_all(run_seeds(seeds_or(300), run));
    seen.check(&[
        "acked",
        "added",
        "added with META",
        "added to a group",
        "added in place of one",
        "kept the place of one",
        "set to follow",
        "another set to follow",
        "removed what follows",
        "followed after an ACK",
        "followed after a failure",
        "group configured",
        "group paused",
        "group's pause over",
        "opened by its rate",
        "given back to a group's rate",
        "forgotten by its rate",
        "held by a closed group",
        "ahead of jobs that have not begun",
        "groups listed",
        "group full",
        "transaction refused: group full",
        "purged of a group",
        "redriven in a group",
        "taken from a group",
        "behind a stint",
        "refused from the back",
        "again",
        "configured",
        "deleted",
        "due",
        "expired",
        "forecast",
        "forecast again",
        "extended",
        "extended after a stall",
        "forgotten",
        "looked at",
        "lost",
        "move refused",
        "moved",
        "pushed",
        "removed by body",
        "nacked",
        "no room",
        "no room for a base",
        "full",
        "held back",
        "oom",
        "pause over",
        "paused",
        "refused: paused",
        "purged",
        "occurred",
        "made up for",
        "missed",
        "missed by request",
        "skipped: open",
        "skipped: id taken",
        "gave way",
        "moved by tables",
        "other tables",
        "run",
        "run refused",
        "a schedule's pause was over",
        "schedule: created",
        "schedule: changed",
        "schedule: same",
        "schedule: paused",
        "schedule: resumed",
        "schedule: removed",
        "schedule: shown",
        "schedules listed",
        "rescheduled",
        "redriven",
        "renamed",
        "renamed over another",
        "scanned",
        "served",
        "settled: dead",
        "stats",
        "stopped",
        "taken",
        "timed out",
        "timeout",
        "transaction refused: full",
        "transaction refused: journal",
        "transaction refused: memory",
        "transaction refused: paused",
        "unleased",
        "unpopped",
        "waits",
        "window over",
        "dropped",
    ]);
}
