//! A full disk, failing writes and failing syncs, at every operation.

use crate::journal::batches::{Maker, append, fresh};
use crate::journal::history::History;
use crate::support::lossy::{Fault, Lossy};
use crate::support::seeds::{Telltale, seeds};
use delayd::ids::Index;
use delayd::journal::Log;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::io::ErrorKind;

/// A poisoned log touches nothing any more.
fn stays_poisoned(history: &mut History, log: &mut Log<Lossy>) {
    let before = history.storage.operations();
    let last = history.last();
    let next = history.maker.sized(10);
    let tries = [
        append(log, &[next]),
        log.sync().map(|_| ()),
        log.cut_after(Index(last.0.saturating_sub(1))),
        log.drop_before(last),
    ];
    for tried in tries {
        let text = tried.unwrap_err().to_string();
        assert!(text.contains("failed before") && text.contains("a fault of the test"), "{text}");
    }
    assert_eq!(history.storage.operations(), before);
}

#[test]
fn an_error_at_every_operation() {
    let kinds = [ErrorKind::StorageFull, ErrorKind::Other];
    for (seed, kind) in seeds(2).flat_map(|seed| kinds.map(|kind| (seed, kind))) {
        for operation in 0.. {
            let _telltale = Telltale(format!("DELAYD_SEED={seed}, {kind}, operation {operation}"));
            let mut history = History::new(seed);
            history.storage.fail_after(operation, Fault::Error(kind));
            let mut opened = history.open();
            if opened.is_err() {
                opened = history.open();
            }
            let mut log = opened.unwrap();
            for _ in 0..60 {
                let failed = history.step(&mut log).is_err();
                if log.is_poisoned() {
                    assert!(failed);
                    stays_poisoned(&mut history, &mut log);
                    break;
                }
                let files: u64 = history.storage.segments().values().map(|f| f.len() as u64).sum();
                assert_eq!(log.disk_bytes(), files, "what was begun and failed is gone");
            }
            let met = history.storage.operations() > operation;
            history.storage = history.storage.crash(&mut SmallRng::seed_from_u64(operation));
            history.open().unwrap();
            if !met {
                break;
            }
        }
    }
}

#[test]
fn a_group_for_which_there_is_no_room_is_refused_as_a_whole() {
    // A spare of the standard size and one for the second batch are made: five operations each.
    for operation in 0..10 {
        let ((storage, mut log), mut maker) = (fresh(), Maker::new(1));
        append(&mut log, &[maker.sized(100)]).unwrap();
        let group = [maker.sized(60_000), maker.sized(200_000), maker.sized(60_000)];
        let (before, bounds) = (storage.files(), log.bounds());
        storage.fail_after(operation, Fault::Error(ErrorKind::StorageFull));
        let refused = append(&mut log, &group).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::StorageFull);
        assert!(!log.is_poisoned());
        assert_eq!(log.bounds(), bounds);
        for (name, bytes) in before {
            assert!(storage.files()[&name] == bytes);
        }
        append(&mut log, &group).unwrap();
        log.sync().unwrap();
        assert!(log.read(Index(1), Index(4), usize::MAX).unwrap()[1..] == group);
    }
}
