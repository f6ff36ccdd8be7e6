//! Crashes at any moment: what was synced is there, what is there is a prefix of what was appended,
//! what was cut does not come back.

use crate::journal::batches::{append, start};
use crate::journal::history::History;
use crate::support::lossy::Fault;
use crate::support::seeds::{Telltale, seeds};
use delayd::ids::Index;
use delayd::journal::record::RecordKind;
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
fn cut_batches_do_not_come_back_with_the_segments_they_were_in() {
    for seed in seeds(60) {
        let _telltale = Telltale(format!("DELAYD_SEED={seed}"));
        let mut history = History::new(seed);
        let mut log = history.open().unwrap();
        let mut rng = SmallRng::seed_from_u64(!seed);
        let mut kept = vec![history.maker.aside(RecordKind::Members, 50)];
        append(&mut log, &kept).unwrap();
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
            history.maker.go_on_after(&kept[kept.len() - 1]);
            if rng.random_bool(0.5) {
                drop(log);
                history.storage = history.storage.crash(&mut rng);
                let (opened, read);
                (log, opened, read) = start(&history.storage, Index(0)).unwrap();
                let found = opened.uncommitted;
                assert!(read.is_empty() && found == kept, "{} of {}", found.len(), kept.len());
            }
        }
    }
}
