//! Short histories with a crash, or an error, at every single operation of the storage.

use std::io::ErrorKind;

use delayd::journal::recovery::{Progress, recover};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::cuts::Desk;
use super::run::{OPTIONS, Pace, Run};
use crate::support::lossy::Fault;
use crate::support::seeds::{Seen, Telltale, for_each_seed};

/// A short life of this seed with a fault at an operation.
fn life(seed: u64, operation: u64, fault: Fault, seen: &mut Seen) -> Run {
    let mut run = Run::new(seed);
    run.pace = Pace::busy(seed);
    run.storage.fail_after(operation, fault);
    if run.turns(40, seen) {
        let _ = run.settle(seen);
    }
    run
}

/// What is left is recovered, and so is what comes then; nothing is left in the end.
fn go_on(mut run: Run, seen: &mut Seen) {
    for _ in 0..2 {
        run.crash();
        run.start(seen);
        run.turns(10, seen);
    }
    run.crash();
    run.start(seen);
    run.end();
}

#[test]
fn a_crash_at_every_operation() {
    let seen = for_each_seed(8, |seed, seen| {
        for operation in 0.. {
            let _telltale = Telltale(format!("DELAYD_SEED={seed}, operation {operation}"));
            let run = life(seed, operation, Fault::Death, seen);
            let died = run.storage.operations() > operation;
            die_again(&run, seed ^ operation << 32, seen);
            go_on(run, seen);
            if !died {
                assert!(operation > 40, "a life of {operation} operations");
                break;
            }
        }
    });
    seen.check(&["deaths in an operation", "died again", "bases"]);
}

/// The start on what is left dies at each of its operations, or the power fails soon after it: what
/// that leaves is started on.
fn die_again(run: &Run, seed: u64, seen: &mut Seen) {
    let mut rng = SmallRng::seed_from_u64(seed);
    // What a process wrote and did not sync is found by the next one, and not durable yet.
    let killed = rng.random::<bool>();
    let left = if killed { run.storage.kill() } else { run.storage.crash(&mut rng) };
    let mut settings = run.world.engine.settings().clone();
    // Whether there is room is not what is tested.
    settings.memory_bytes_max = 0;
    for operation in 0.. {
        let storage = left.kill();
        storage.fail_after(operation, Fault::Death);
        let first = recover(&storage, OPTIONS, settings.clone(), &Progress::default());
        let died = storage.operations() > operation;
        let storage = storage.crash(&mut rng);
        let mut second = Desk::open(&storage, &settings);
        assert!((run.durable..=run.last).contains(&second.last));
        run.points[&second.last].check(&second.engine);
        if let Ok(first) = first {
            assert_eq!(first.index, second.last, "what a start found is durable");
        }
        if operation % 4 == 0 {
            // A process that is killed leaves a start that goes on in the next segment.
            drop(second);
            let storage = left.kill();
            second = Desk::open(&storage, &settings);
            let mut points = run.points.clone();
            // As much as an empty segment takes.
            second.turn(61_000, &mut points);
            second.log.sync().expect("a sound storage");
            let third = Desk::open(&storage.crash(&mut rng), &settings);
            assert_eq!(third.last, second.last, "it was synced");
            points[&third.last].check(&third.engine);
        }
        if !died {
            return;
        }
        seen.note("died again");
    }
}

#[test]
fn an_error_at_every_operation() {
    let kinds = [ErrorKind::StorageFull, ErrorKind::Other];
    let seen = for_each_seed(6, |seed, seen| {
        for operation in 0.. {
            let kind = kinds[(seed + operation) as usize % 2];
            let _telltale = Telltale(format!("DELAYD_SEED={seed}, {kind} at {operation}"));
            let run = life(seed, operation, Fault::Error(kind), seen);
            let failed = run.storage.operations() > operation;
            go_on(run, seen);
            if !failed {
                assert!(operation > 40, "a life of {operation} operations");
                break;
            }
        }
    });
    seen.check(&["poisoned", "went on after an error"]);
}

#[test]
fn an_error_at_every_operation_of_a_start() {
    let seen = for_each_seed(20, |seed, seen| {
        let run = life(seed, 60 + 7 * seed, Fault::Death, seen);
        let mut rng = SmallRng::seed_from_u64(!seed);
        let left = run.storage.crash(&mut rng);
        let settings = run.world.engine.settings();
        for operation in 0.. {
            let storage = left.kill();
            storage.fail_after(operation, Fault::Error(ErrorKind::Other));
            let tried = recover(&storage, OPTIONS, settings.clone(), &Progress::default());
            let failed = storage.operations() > operation;
            if let Err(error) = &tried {
                assert!(error.to_string().contains("a fault of the test"), "{error}");
                seen.note("starts refused");
            }
            drop(tried);
            // The operator starts it again.
            let storage = if operation % 2 == 0 { storage.kill() } else { storage.crash(&mut rng) };
            let again = recover(&storage, OPTIONS, settings.clone(), &Progress::default());
            let again = again.expect("nothing is damaged");
            assert!((run.durable..=run.last).contains(&again.index));
            run.points[&again.index].check(&again.engine);
            if !failed {
                break;
            }
        }
    });
    seen.check(&["starts refused"]);
}
