//! A log without faults.

use crate::journal::batches::{Maker, OPTIONS, STATE_SPAN, append, fresh, start};
use crate::support::seeds::seeds;
use delayd::ids::Index;
use delayd::journal::{JournalError, LogReader};
use std::sync::Arc;

#[test]
fn what_was_appended_is_read_again() {
    for seed in seeds(40) {
        println!("DELAYD_SEED={seed}");
        let ((storage, mut log), mut maker) = (fresh(), Maker::new(seed));
        let batches: Vec<_> = (0..200).map(|_| maker.any()).collect();
        for group in batches.chunks(1 + seed as usize % 7) {
            append(&mut log, group).unwrap();
        }
        assert_eq!(log.sync().unwrap(), Index(200));
        assert!(log.read(Index(1), Index(200), usize::MAX).unwrap() == batches);
        let storage = storage.kill();
        let (log, opened, read) = start(&storage, Index(0)).unwrap();
        assert!(read == batches);
        assert_eq!((opened.batches, opened.last, opened.cut), (200, Index(200), None));
        assert_eq!(opened.last_fact + 1, maker.first);
        assert_eq!(opened.last_now, batches[199].now);
        assert_eq!(
            log.disk_bytes(),
            storage.segments().values().map(|f| f.len() as u64).sum::<u64>()
        );
        let (_, _, read) = start(&storage, Index(120)).unwrap();
        assert!(read[..] == batches[120..]);
    }
}

#[test]
fn batches_of_every_size_around_that_of_a_segment() {
    let most = OPTIONS.segment_bytes as usize - 4096 - STATE_SPAN - 88;
    for bytes in [0, 1, 7, 8, 9, 448, 449, most - 1, most, most + 1, most + 8, 3 * most, 700_000] {
        for before in [0, 1, 500] {
            let ((storage, mut log), mut maker) = (fresh(), Maker::new(1));
            let batches = [before, bytes, 10, bytes].map(|bytes| maker.sized(bytes));
            append(&mut log, &batches).unwrap();
            log.sync().unwrap();
            let (mut log, opened, read) = start(&storage.kill(), Index(0)).unwrap();
            assert!(read[..] == batches[..], "{before} and {bytes} bytes");
            assert_eq!(opened.cut, None, "{before} and {bytes} bytes");
            append(&mut log, &[maker.sized(5)]).unwrap();
            // Segments of their own are not kept as spares.
            append(&mut log, &[maker.sized(most)]).unwrap();
            log.sync().unwrap();
            log.drop_before(Index(6)).unwrap();
            assert_eq!(log.disk_bytes(), OPTIONS.segment_bytes * (1 + log.spares() as u64));
        }
    }
}

#[test]
fn dropped_segments_are_used_again_and_the_rest_goes() {
    let ((storage, mut log), mut maker) = (fresh(), Maker::new(1));
    let batches: Vec<_> = (0..50).map(|_| maker.sized(15_000)).collect();
    append(&mut log, &batches).unwrap();
    // Four batches a segment.
    assert_eq!((log.disk_bytes(), log.spares()), (13 * OPTIONS.segment_bytes, 0));
    log.drop_before(Index(9)).unwrap();
    assert_eq!((log.bounds(), log.spares()), ((Index(9), Index(50)), 2));
    log.drop_before(Index(42)).unwrap();
    assert_eq!((log.bounds(), log.spares()), ((Index(41), Index(50)), 2));
    assert_eq!(storage.segments().len(), 5);
    assert!(matches!(
        log.read(Index(40), Index(50), 1),
        Err(JournalError::Gap { first: Index(41), after: Index(39), .. })
    ));
    let room = log.room_bytes();
    append(&mut log, &[(); 4].map(|()| maker.sized(15_000))).unwrap();
    assert_eq!((log.spares(), storage.segments().len()), (1, 5));
    assert!(log.room_bytes() < room);
    log.sync().unwrap();
    let storage = storage.kill();
    let (log, opened, read) = start(&storage, Index(42)).unwrap();
    assert_eq!((read[0].index, opened.last), (Index(43), Index(54)));
    assert_eq!((opened.segments, opened.spares, log.bounds().0), (4, 1, Index(41)));
    // Without the base the log does not begin where it must.
    let gap = start(&storage, Index(38)).err().unwrap().to_string();
    assert!(gap.contains("begins with batch 41"), "{gap}");
}

#[test]
fn a_base_ahead_of_the_log_is_gone_on_from() {
    let ((storage, mut log), mut maker) = (fresh(), Maker::new(1));
    let batches: Vec<_> = (0..10).map(|_| maker.sized(100)).collect();
    append(&mut log, &batches).unwrap();
    drop(log);
    // Nothing was synced; batch 5 alone is not there, and those from 6 on reached the disk.
    let (_, _, read) = start(&storage.kill(), Index(7)).unwrap();
    assert!(read[..] == batches[7..]);
    let storage = storage.crash_keeping(|_| Vec::new());
    let (mut log, opened, read) = start(&storage, Index(7)).unwrap();
    assert!(read.is_empty());
    assert_eq!((log.bounds(), log.durable()), ((Index(8), Index(7)), Index(7)));
    assert!(opened.notices.is_empty(), "nothing was there at all");
    append(&mut log, &batches[7..]).unwrap();
    log.sync().unwrap();
    // A base of 12, while batches 11 and 12 are lost.
    let (mut log, opened, read) = start(&storage.kill(), Index(12)).unwrap();
    assert!(read.is_empty());
    assert!(opened.notices[0].contains("ends with batch 10, the base with batch 12"));
    (maker.next, maker.first) = (Index(13), 1_000);
    let later = maker.sized(3);
    append(&mut log, std::slice::from_ref(&later)).unwrap();
    log.sync().unwrap();
    assert_eq!(log.read(Index(13), Index(99), 0).unwrap(), [later]);
}

#[test]
fn looking_changes_nothing_and_tells_what_opening_tells() {
    let ((storage, mut log), mut maker) = (fresh(), Maker::new(1));
    let batches: Vec<_> = (0..10).map(|_| maker.sized(20_000)).collect();
    append(&mut log, &batches).unwrap();
    let storage = storage.kill();
    let reader = LogReader::open(Arc::clone(&storage), OPTIONS, Index(0)).unwrap();
    assert_eq!(reader.progress().0, 0);
    let seen = reader.survey().unwrap();
    assert_eq!(storage.operations(), 0);
    let (_, opened, _) = start(&storage, Index(0)).unwrap();
    assert_eq!(seen, opened);
}

#[test]
#[should_panic(expected = "does not follow")]
fn a_batch_that_does_not_follow_is_our_own_mistake() {
    let ((_storage, mut log), mut maker) = (fresh(), Maker::new(1));
    let batches = [maker.sized(1), maker.sized(1), maker.sized(1)];
    append(&mut log, &[batches[0].clone(), batches[2].clone()]).unwrap();
}
