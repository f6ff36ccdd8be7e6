//! Torn tails: what was left of them does not come back after the log went on.

use crate::journal::batches::{Maker, OPTIONS, STATE_SPAN, append, fresh, start};
use crate::support::lossy::{Fault, Lossy};
use crate::support::seeds::{Telltale, seeds};
use delayd::ids::Index;
use delayd::journal::record::entry::OwnedEntry;
use delayd::journal::{HEADER_BYTES, Log};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::io::ErrorKind;
use std::sync::Arc;

/// Six batches of this size, two of them synced; the third is lost in a crash, and those after it are not.
fn torn(size: usize) -> (Arc<Lossy>, Vec<OwnedEntry>, Maker) {
    let ((storage, mut log), mut maker) = (fresh(), Maker::new(1));
    let batches: Vec<_> = (0..6).map(|_| maker.sized(size)).collect();
    append(&mut log, &batches[..2]).unwrap();
    log.sync().unwrap();
    for batch in &batches[2..] {
        append(&mut log, std::slice::from_ref(batch)).unwrap();
    }
    let mut write = 0;
    let storage = storage.crash_keeping(|range| {
        write += 1;
        if write == 1 { Vec::new() } else { vec![range] }
    });
    (storage, batches, maker)
}

/// Another batch comes after those that were read, and nothing that was torn is back then.
fn goes_on(
    storage: &Lossy,
    log: &mut Log<Lossy>,
    maker: &mut Maker,
    read_before: &[OwnedEntry],
    size: usize,
) {
    maker.go_on_after(&read_before[1]);
    let anew = maker.sized(size);
    append(log, std::slice::from_ref(&anew)).unwrap();
    for storage in [storage.kill(), storage.crash_keeping(|range| vec![range])] {
        let (_, opened, read) = start(&storage, Index(0)).unwrap();
        assert!(read[..2] == *read_before && read[2..] == [anew.clone()], "{size}");
        assert_eq!(opened.cut, None);
    }
}

#[test]
fn batches_behind_a_torn_one_do_not_come_back() {
    for size in [0, 100, 448, 3_000] {
        let (storage, batches, mut maker) = torn(size);
        let (mut log, opened, read) = start(&storage, Index(0)).unwrap();
        assert!(read == batches[..2]);
        let (span, cut) = (delayd::journal::record::span(size), opened.cut.unwrap());
        assert_eq!(
            (cut.index, cut.offset),
            (Index(3), HEADER_BYTES + STATE_SPAN as u64 + 2 * span)
        );
        assert_eq!(cut.bytes, 4 * span);
        let text = cut.to_string();
        assert!(text.starts_with("segment-0000000001.log: "), "{text}");
        assert!(text.contains(&format!("offset {}", cut.offset)), "{text}");

        // The same places are filled again, and nothing torn this time.
        goes_on(&storage, &mut log, &mut maker, &batches[..2], size);
    }
}

/// Where a new segment finds no room the remains are cleared, and the log goes on where they stood.
#[test]
fn a_torn_tail_on_a_full_disk_is_cleared_and_does_not_come_back() {
    let mut cleared = 0;
    for operation in 0..8 {
        let (storage, batches, mut maker) = torn(3_000);
        storage.fail_after(operation, Fault::Error(ErrorKind::StorageFull));
        let Ok((mut log, opened, read)) = start(&storage, Index(0)) else { continue };
        assert!(read == batches[..2] && opened.cut.is_some());
        if opened.segments > 1 {
            continue;
        }
        cleared += 1;
        // Whatever happens then: what was torn does not come back, neither by itself nor behind the next batch.
        let (_, again, read) = start(&storage.crash_keeping(|_| Vec::new()), Index(0)).unwrap();
        assert!(read == batches[..2] && again.cut.is_none());
        goes_on(&storage, &mut log, &mut maker, &batches[..2], 3_000);
    }
    assert!(cleared > 0, "no new segment was refused");
}

#[test]
fn a_torn_batch_is_not_made_whole_by_one_that_ends_alike() {
    let ((storage, mut log), mut maker) = (fresh(), Maker::new(1));
    // A client sends a job, the power fails twice while its facts are written, it sends it again:
    // first the first sector reaches the disk, then all others do.
    let (job, sector) = (vec![7; 1_400], 5_120);
    let before = maker.sized(300);
    append(&mut log, std::slice::from_ref(&before)).unwrap();
    log.sync().unwrap();
    append(&mut log, &[maker.with(job.clone())]).unwrap();
    let storage = storage.crash_keeping(|range| vec![range.start..sector]);
    let (mut log, opened, read) = start(&storage, Index(0)).unwrap();
    assert!(read == [before.clone()] && opened.cut.is_some());
    maker.go_on_after(&before);
    append(&mut log, &[maker.with(job)]).unwrap();
    for first in [4_096, 4_608] {
        let storage = storage.crash_keeping(|range| vec![first..range.end]);
        let (_, _, read) = start(&storage, Index(0)).unwrap();
        assert!(read[0] == before && read.len() <= 2);
        assert!(read.get(1).is_none_or(|batch| batch.now.0 == 3), "the one given up is back");
    }
}

#[test]
fn what_an_earlier_use_left_never_passes() {
    for seed in seeds(40) {
        let _telltale = Telltale(format!("DELAYD_SEED={seed}"));
        let ((mut storage, mut log), mut maker) = (fresh(), Maker::new(seed));
        let mut rng = SmallRng::seed_from_u64(!seed);
        let mut stale = 0;
        for _ in 0..10 {
            // Seven of them fill a segment, and the last ones stay where they are.
            let batches: Vec<_> = (0..22).map(|_| maker.sized(8_000)).collect();
            append(&mut log, &batches).unwrap();
            log.sync().unwrap();
            let after = batches[20].index;
            log.drop_before(after.next()).unwrap();
            storage = if seed % 2 == 0 { storage.kill() } else { storage.crash(&mut rng) };
            let (opened, read);
            (log, opened, read) = start(&storage, after).unwrap();
            assert!(read == batches[21..], "{} batches", read.len());
            assert_eq!(opened.cut, None);
            let bytes = storage
                .segments()
                .into_values()
                .filter(|f| f[4096 + STATE_SPAN + 2 * 8_088 + 4] == 2);
            stale += bytes.count();
        }
        assert!(stale > 10, "there are stale batches");
        assert!(log.disk_bytes() <= 4 * OPTIONS.segment_bytes);
    }
}

#[test]
fn a_clean_end_is_no_torn_tail() {
    let ((mut storage, mut log), mut maker) = (fresh(), Maker::new(1));
    let mut batches = Vec::new();
    for _ in 0..20 {
        batches.push(maker.sized(1_000));
        append(&mut log, &batches[batches.len() - 1..]).unwrap();
        storage = storage.kill();
        let (opened, read);
        (_, opened, read) = start(&storage, Index(0)).unwrap();
        assert!(read == batches);
        assert_eq!((opened.cut, opened.segments), (None, 1));
        // What was read is durable from then on.
        storage = storage.crash_keeping(|_| Vec::new());
        (log, _, _) = start(&storage, Index(0)).unwrap();
        assert_eq!(log.bounds().1, Index(batches.len() as u64));
    }
}

#[test]
fn a_segment_used_again_tells_of_no_tail_that_was_cut_in_its_last_use() {
    let ((mut storage, mut log), mut maker) = (fresh(), Maker::new(1));
    // Each time the first batch of a segment is torn, and two segments take turns: the batch that is
    // missing is the one of which the other still holds the remains.
    let batch = maker.sized(1_400);
    for _ in 0..4 {
        append(&mut log, std::slice::from_ref(&batch)).unwrap();
        storage = storage.crash_keeping(|range| vec![range.start..range.end.min(4_608)]);
        let (opened, read);
        (log, opened, read) = start(&storage, Index(0)).unwrap();
        assert!(read.is_empty() && opened.cut.is_some());
        let (_, again, _) = start(&storage.kill(), Index(0)).unwrap();
        assert_eq!(again.cut, None);
    }
}
