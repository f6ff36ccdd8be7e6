//! An engine that only applies what another one decides.

use delayd::engine::model::policy::{Backoff, Steps};
use delayd::engine::model::request::{Add, Request, Wait};
use delayd::engine::{Applying, Engine, Facts, Settings};
use delayd::time::Micros;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::bench::{BEGIN_MS, Bench, Q, job, pop, remove, reserve};

/// All that was decided since the last time, in one batch: the instant of its first fact, and the facts.
fn batch(bench: &Bench, from: usize) -> (Micros, Facts) {
    let mut made = bench.facts[from..].iter().filter(|(_, facts)| facts.count > 0);
    let mut all = Facts::default();
    let Some((first, facts)) = made.next() else { return (bench.now(), all) };
    all.bytes.extend_from_slice(&facts.bytes);
    all.count = facts.count;
    made.for_each(|(now, facts)| all.append(*now, facts));
    (*first, all)
}

fn follower() -> Engine {
    Engine::new(Settings { hash_seed: 5, token_floor: 1_000, ..Settings::default() })
}

/// Applies a batch in slices of so many steps: in how many.
fn apply(engine: &mut Engine, (first, facts): &(Micros, Facts), budget: u32) -> u32 {
    let (mut applying, mut slices) = (Applying::new(*first), 1);
    while !engine
        .apply_slice(&mut applying, &facts.bytes, facts.count, budget)
        .expect("own facts are readable")
    {
        slices += 1;
    }
    assert_eq!(applying.applied(), facts.count);
    slices
}

#[test]
fn a_batch_of_many_turns_is_as_the_turns_were_whatever_the_slices() {
    for seed in 0..20 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut bench = Bench::new();
        for _ in 0..200 {
            match rng.random_range(0..6) {
                0..3 => bench.add(Add {
                    id: None,
                    ..job("q", "-", [0, 5, 300, 70_000][rng.random_range(0..4)])
                }),
                3 => drop(bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 3)))),
                4 => drop(bench.ask(1, pop(Q, Wait::No))),
                _ => {}
            }
            bench.sent(1);
            let at = bench.at_ms + rng.random_range(0..2_000);
            bench.at(at);
        }
        let all = batch(&bench, 0);
        for budget in [1, 7, 1_000, u32::MAX] {
            let mut engine = follower();
            apply(&mut engine, &all, budget);
            assert_eq!(engine.digest(), bench.engine.digest(), "seed {seed}, {budget} steps");
        }
    }
}

/// A slot of 65 s with many jobs is opened in slices before the first of them falls due.
#[test]
fn no_slice_opens_a_slot_of_many_jobs_at_once() {
    const JOBS: u32 = 50_000;
    let mut bench = Bench::new();
    // Two slots of 4.7 hours ahead; each second some thousand.
    for at in 0..JOBS {
        let delay = 40_000_000 + u64::from(at % 10) * 1_000;
        bench.add(Add { id: None, ..job("q", "-", delay) });
    }
    let mut engine = follower();
    apply(&mut engine, &batch(&bench, 0), 256);
    let from = bench.facts.len();
    bench.at(40_000_000);
    let due = batch(&bench, from);
    assert!(due.1.count < 50, "{} facts", due.1.count);
    let slices = apply(&mut engine, &due, 256);
    assert!(slices > JOBS / 256 && slices < JOBS / 50, "{slices} slices");
    assert_eq!(engine.digest(), bench.engine.digest());
    let from = bench.facts.len();
    bench.at(40_009_000);
    apply(&mut engine, &batch(&bench, from), 256);
    assert_eq!(engine.digest(), bench.engine.digest());
}

/// A policy whose last jobs are removed but not freed is forgotten once they are.
#[test]
fn no_slice_frees_all_that_was_removed_at_once() {
    const JOBS: u32 = 20_000;
    let ladder = |step| Some(Backoff { steps: Steps::Ladder([step].into()), jitter: false });
    for base in [false, true] {
        let mut bench = Bench::new();
        for _ in 0..JOBS {
            bench.add(Add { id: None, backoff: ladder(7), ..job("q", "-", 9_000) });
        }
        let mut engine = follower();
        apply(&mut engine, &batch(&bench, 0), u32::MAX);
        if base {
            engine.begin_base();
        }
        let from = bench.facts.len();
        bench.check(1, remove(Q), &["1:1"]);
        bench.at(1);
        for step in 0..delayd::limits::UNUSED_POLICIES_MAX as u64 + 10 {
            bench.add(Add { backoff: ladder(100 + step), ..job("other", "x", 9_000) });
            bench.check(1, crate::bench::delete("other", &[b"x"]), &["1:1"]);
        }
        let later = batch(&bench, from);
        let slices = apply(&mut engine, &later, 256);
        let needed = later.1.count as u32 / 256 + JOBS / 256;
        assert!(slices >= needed, "{slices} slices, {needed} needed");
        assert_eq!(engine.digest(), bench.engine.digest());
    }
}

#[test]
fn an_instant_that_goes_back_is_refused() {
    let now = Micros(BEGIN_MS * 1_000);
    let mut facts = Facts::default();
    facts.append(Micros(now.0 - 1), &Facts::default());
    let refused = follower().apply_encoded(now, &facts.bytes, facts.count);
    assert!(refused.is_err(), "{refused:?}");
}
