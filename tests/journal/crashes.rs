//! Crashes at any moment: what was synced is there, what is there is a prefix of what was appended,
//! what was cut does not come back.

use crate::batches::{append, start};
use crate::history::History;
use crate::lossy::Fault;
use crate::seeds::{Telltale, seeds};
use delayd::ids::Index;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Opens and goes on until `steps` are done or the process died.
fn live(history: &mut History, steps: usize) {
    let Ok(mut log) = history.open() else { return };
    for _ in 0..steps {
        if history.step(&mut log).is_err() {
            return;
        }
    }
}

#[test]
fn histories_of_many_lives() {
    for seed in seeds(400) {
        let _telltale = Telltale(format!("DELAYD_SEED={seed}"));
        let mut history = History::new(seed);
        let mut rng = SmallRng::seed_from_u64(!seed);
        for _ in 0..12 {
            if rng.random_bool(0.8) {
                let most = [5, 30, 120][rng.random_range(0..3)];
                history.storage.fail_after(rng.random_range(0..most), Fault::Death);
            }
            let steps = rng.random_range(0..60);
            live(&mut history, steps);
            let killed = rng.random_bool(0.25);
            history.storage =
                if killed { history.storage.kill() } else { history.storage.crash(&mut rng) };
        }
        history.open().unwrap();
    }
}

#[test]
fn a_crash_at_every_operation() {
    for seed in seeds(2) {
        for operation in 0.. {
            let _telltale = Telltale(format!("DELAYD_SEED={seed}, operation {operation}"));
            let mut history = History::new(seed);
            history.storage.fail_after(operation, Fault::Death);
            live(&mut history, 60);
            if history.storage.operations() <= operation {
                assert!(operation > 50, "the history is long enough");
                break;
            }
            let mut rng = SmallRng::seed_from_u64(seed ^ operation << 32);
            history.storage = history.storage.crash(&mut rng);
            // Death at every operation of the opening, too.
            for second in 0.. {
                let mut again = history.copy();
                again.storage = history.storage.kill();
                again.storage.fail_after(second, Fault::Death);
                live(&mut again, 1);
                let died = again.storage.operations() > second;
                again.storage = again.storage.crash(&mut rng);
                again.open().unwrap();
                if !died || second > 8 {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_cut_at_every_index_with_a_crash_at_every_operation_of_it() {
    for (seed, index) in seeds(3).flat_map(|seed| (0..30).map(move |index| (seed, index))) {
        for operation in 0.. {
            let _telltale =
                Telltale(format!("DELAYD_SEED={seed}, index {index}, operation {operation}"));
            let mut history = History::new(seed);
            let mut log = history.open().unwrap();
            let batches: Vec<_> = (0..30).map(|_| history.maker.any()).collect();
            append(&mut log, &batches[..15]).unwrap();
            log.sync().unwrap();
            append(&mut log, &batches[15..]).unwrap();
            history.storage.fail_after(operation, Fault::Death);
            let cut = log.cut_after(Index(index)).is_ok();
            let died = history.storage.operations();
            let mut rng = SmallRng::seed_from_u64(seed ^ operation << 32 ^ index << 48);
            let storage = history.storage.crash(&mut rng);
            let (_, _, read) = start(&storage, Index(0)).unwrap();
            let was_cut = read[..] == batches[..index as usize];
            if cut {
                assert!(was_cut, "cut after {index}, {} are there", read.len());
            } else {
                let uncut = read.len() >= 15 && read[..] == batches[..read.len()];
                assert!(was_cut || uncut, "{} are there", read.len());
            }
            if cut || died <= operation {
                break;
            }
        }
    }
}

#[test]
fn cut_batches_do_not_come_back_with_the_segments_they_were_in() {
    for seed in seeds(60) {
        let _telltale = Telltale(format!("DELAYD_SEED={seed}"));
        let mut history = History::new(seed);
        let mut log = history.open().unwrap();
        let mut rng = SmallRng::seed_from_u64(!seed);
        let mut kept = Vec::new();
        // All of one size: whatever was left of a segment stands where batches will.
        for _ in 0..20 {
            let mut batches: Vec<_> = (0..20).map(|_| history.maker.sized(8_000)).collect();
            append(&mut log, &batches).unwrap();
            if rng.random_bool(0.7) {
                log.sync().unwrap();
            }
            batches.truncate(rng.random_range(0..20));
            kept.extend(batches);
            log.cut_after(Index(kept.len() as u64)).unwrap();
            match kept.last() {
                Some(last) => history.maker.go_on_after(last),
                None => (history.maker.next, history.maker.first) = (Index(1), 1),
            }
            if rng.random_bool(0.5) {
                drop(log);
                history.storage = history.storage.crash(&mut rng);
                let read;
                (log, _, read) = start(&history.storage, Index(0)).unwrap();
                assert!(read == kept, "{} of {}", read.len(), kept.len());
            }
        }
    }
}
