//! Bits that flip and files that are cut short: the log opens with an exact prefix, or refuses and
//! says where.

use crate::journal::batches::{Maker, OPTIONS, STATE_BYTES, STATE_SPAN, append, fresh, start};
use crate::support::lossy::Lossy;
use delayd::ids::Index;
use delayd::journal::record::{self, Head, RECORD_VERSION, RecordKind, Seed};
use delayd::journal::{FoundHeader, HEADER_BYTES, Header, JournalError, Magic, NEWEST, OwnedEntry};
use delayd::time::Micros;
use std::collections::BTreeMap;

const FIRST: &str = "segment-0000000001.log";

/// Five batches in one segment. That the first three are durable is known on the disk.
fn five() -> (BTreeMap<String, Vec<u8>>, Vec<OwnedEntry>, Vec<usize>) {
    let ((storage, mut log), mut maker) = (fresh(), Maker::new(5));
    let batches: Vec<_> = [100, 0, 333, 60, 130].map(|bytes| maker.sized(bytes)).into();
    append(&mut log, &batches[..3]).unwrap();
    log.sync().unwrap();
    append(&mut log, &batches[3..4]).unwrap();
    append(&mut log, &batches[4..]).unwrap();
    log.sync().unwrap();
    let mut starts = vec![HEADER_BYTES as usize + STATE_SPAN];
    for batch in &batches {
        starts.push(starts[starts.len() - 1] + record::span(batch.body.len()) as usize);
    }
    (storage.files(), batches, starts)
}

#[test]
fn every_byte_flipped() {
    let (files, batches, starts) = five();
    for (at, bits) in (0..starts[5] + 80).flat_map(|at| [1, 0x80, 0xff].map(|bits| (at, bits))) {
        let mut files = files.clone();
        files.get_mut(FIRST).unwrap()[at] ^= bits;
        let opened = start(&Lossy::of(&files), Index(0));
        let hit = starts[1..].iter().position(|end| at < *end).filter(|_| at >= starts[0]);
        // Padding is not looked at.
        let hit = hit.filter(|hit| at < starts[*hit] + 88 + batches[*hit].body.len());
        let state = HEADER_BYTES as usize..HEADER_BYTES as usize + STATE_BYTES;
        match (hit, opened) {
            (None, Err(JournalError::Damaged { file, offset, what })) if state.contains(&at) => {
                assert_eq!((file.as_str(), offset), (FIRST, HEADER_BYTES), "byte {at}");
                assert!(what.starts_with("batch 1: "), "{what}");
            }
            (None, opened) if state.contains(&at) => {
                panic!("byte {at} of the state: {:?}", opened.map(|(_, opened, _)| opened));
            }
            (Some(hit @ 0..3), Err(JournalError::Damaged { file, offset, what })) => {
                assert_eq!((file.as_str(), offset as usize), (FIRST, starts[hit]), "byte {at}");
                assert!(what.starts_with(&format!("batch {}: ", hit + 1)), "{what}");
            }
            (Some(hit @ 3..), Ok((_, _, read))) => {
                assert!(read[..] == batches[..hit], "byte {at}: {} batches", read.len());
            }
            (None, Ok((_, _, read))) => assert!(read == batches, "byte {at}: {}", read.len()),
            (hit, Ok((_, _, read))) => panic!("byte {at} of {hit:?}: {} batches", read.len()),
            (hit, Err(error)) => panic!("byte {at} of {hit:?}: {error}"),
        }
    }
}

#[test]
fn the_newest_segment_cut_at_every_byte_is_damage() {
    let (files, batches, starts) = five();
    for bytes in (0..starts[5] + 80).chain([OPTIONS.segment_bytes as usize - 1]) {
        let mut files = files.clone();
        files.get_mut(FIRST).unwrap().truncate(bytes);
        // The padding of the last one may be cut off, but not its body.
        let whole = (0..5).take_while(|at| starts[*at] + 88 + batches[*at].body.len() <= bytes);
        let whole = whole.count();
        match start(&Lossy::of(&files), Index(0)) {
            Err(JournalError::Damaged { file, offset, what }) => {
                assert_eq!(file, FIRST, "{bytes} bytes: {what}");
                if bytes >= 4096 {
                    let state = bytes < HEADER_BYTES as usize + STATE_BYTES;
                    let at = if state { HEADER_BYTES as usize } else { starts[whole] };
                    assert_eq!(offset as usize, at, "{bytes} bytes: {what}");
                    assert!(what.contains("cut short"), "{what}");
                }
            }
            Err(error) => panic!("{bytes} bytes: {error}"),
            Ok((_, _, read)) => panic!("{bytes} bytes: goes on with {} batches", read.len()),
        }
    }
}

/// Whichever file of the log is gone, emptied or overwritten, with or without a base.
#[test]
fn a_newest_segment_that_is_missing_is_damage() {
    let ((storage, mut log), mut maker) = (fresh(), Maker::new(1));
    let mut stale = Vec::new();
    for round in 0..6_u64 {
        let batch = maker.sized(20_000);
        append(&mut log, &[batch]).unwrap();
        log.sync().unwrap();
        let files = storage.files();
        let newest = files.keys().filter(|name| name.starts_with("segment")).max().unwrap();
        for content in [None, Some(Vec::new()), Some(vec![0; 65_536]), Some(vec![7; 65_536])] {
            let mut files = files.clone();
            match content {
                None => drop(files.remove(newest)),
                Some(content) => drop(files.insert(newest.clone(), content)),
            }
            for base in [0, round, round + 1] {
                let opened = start(&Lossy::of(&files), Index(base));
                let error = opened.err().unwrap_or_else(|| panic!("{newest} is not missed"));
                assert!(matches!(error, JournalError::Damaged { .. }), "{error}");
                assert!(error.to_string().contains(newest), "{error}");
            }
        }
        // Without the note nothing is known, as in a journal of a version that had none.
        let mut files = files.clone();
        files.remove(NEWEST);
        let upgraded = Lossy::of(&files);
        start(&upgraded, Index(0)).unwrap();
        assert!(upgraded.files().contains_key(NEWEST), "it is noted from here on");
        // Nor with one that was torn, or names an earlier segment: a version that does not know it
        // wrote after it.
        for content in [stale.clone(), vec![7; 4096], Vec::new()] {
            files.insert(NEWEST.to_owned(), content);
            let opened = Lossy::of(&files);
            start(&opened, Index(0)).unwrap();
            assert!(opened.files()[NEWEST] == upgraded.files()[NEWEST], "it is mended");
        }
        stale = upgraded.files()[NEWEST].clone();
    }
}

#[test]
fn a_damaged_older_segment_is_refused() {
    let ((storage, mut log), mut maker) = (fresh(), Maker::new(1));
    let batches: Vec<_> = (0..12).map(|_| maker.sized(20_000)).collect();
    append(&mut log, &batches).unwrap();
    log.sync().unwrap();
    let files = storage.files();
    let first = 4096 + STATE_SPAN;
    for at in (4096..first + 3 * 20_088).step_by(997) {
        let mut files = files.clone();
        files.get_mut(FIRST).unwrap()[at] ^= 4;
        let error = start(&Lossy::of(&files), Index(0)).err().unwrap().to_string();
        let offset = if at < first { 4096 } else { first + (at - first) / 20_088 * 20_088 };
        assert!(error.contains(&format!("{FIRST}: damaged at offset {offset}: ")), "{error}");
        assert!(error.contains("begins with batch 4"), "{error}");
        // What the base covers is not needed.
        assert!(start(&Lossy::of(&files), Index(3)).unwrap().2[..] == batches[3..]);
    }
    for name in files.keys() {
        let mut files = files.clone();
        files.remove(name);
        if name == NEWEST {
            assert!(start(&Lossy::of(&files), Index(0)).unwrap().2 == batches);
            continue;
        }
        match start(&Lossy::of(&files), Index(0)) {
            Ok(_) => panic!("{name} is not missed"),
            Err(JournalError::Gap { first, .. }) => assert_eq!(first, Index(4)),
            Err(error) => assert!(matches!(error, JournalError::Damaged { .. }), "{error}"),
        }
    }
}

#[test]
fn later_versions_are_refused() {
    let (mut files, _, _) = five();
    let block = files.get_mut(FIRST).unwrap();
    for copy in [0, 2048] {
        block[copy + 8] = 9;
        let crc = record::body_crc(&block[copy..copy + 48]);
        block[copy + 48..copy + 52].copy_from_slice(&crc.to_le_bytes());
    }
    let error = start(&Lossy::of(&files), Index(0)).err().unwrap().to_string();
    assert!(error.starts_with(FIRST) && error.contains("version 9"), "{error}");
}

#[test]
fn bodies_that_imitate_batches() {
    let ((storage, mut log), mut maker) = (fresh(), Maker::new(1));
    let mut batches = vec![maker.sized(50), maker.sized(70)];
    append(&mut log, &batches).unwrap();
    log.sync().unwrap();
    let file = storage.files().remove(FIRST).unwrap();
    let FoundHeader::Header(header) = Header::decode(&file, Magic::Segment) else {
        panic!("a header")
    };
    let next = maker.first;
    let forged = |index: u64, durable: u64, seed: Seed| {
        let head = Head {
            version: RECORD_VERSION,
            kind: RecordKind::Facts,
            shard: 0,
            // Behind the state of the segment.
            lsn: index + 1,
            durable: durable + 1,
            index: Index(index),
            epoch: 1,
            node: 0,
            first: next,
            now: Micros(1),
            committed: Index(index),
            count: 0,
            length: 0,
            body_crc: 0,
        };
        let mut bytes = Vec::new();
        record::push(&mut bytes, head, b"forged", seed);
        bytes
    };
    let copies = file[4096..4096 + STATE_SPAN + 2 * 160].to_vec();
    let other = forged(4, 9, Seed::new(header.generation + 1, header.salt, RECORD_VERSION));
    let own =
        [forged(3, 2, header.seed()), forged(4, 2, header.seed()), forged(5, 3, header.seed())];
    let bodies = [[copies.clone(), other, copies].concat(), own.concat()];
    for body in bodies {
        batches.push(maker.with(body));
        append(&mut log, &batches[batches.len() - 1..]).unwrap();
    }
    batches.push(maker.sized(10));
    append(&mut log, &batches[4..]).unwrap();
    log.sync().unwrap();
    let files = storage.files();
    let (_, _, read) = start(&Lossy::of(&files), Index(0)).unwrap();
    assert!(read == batches);

    // Torn at each byte, as if nothing of the rest had been written.
    let third = 4096 + STATE_SPAN + record::span(50) as usize + record::span(70) as usize;
    let fourth = third + record::span(batches[2].body.len()) as usize;
    let fifth = fourth + record::span(batches[3].body.len()) as usize;
    for at in third..fifth {
        let mut files = files.clone();
        files.get_mut(FIRST).unwrap()[at..].fill(0);
        let whole = 2 + usize::from(at >= fourth);
        match start(&Lossy::of(&files), Index(0)) {
            Ok((_, _, read)) => {
                assert!(read.len() <= whole + 1 && read[..] == batches[..read.len()], "{at}");
            }
            // Only one who knows the salt can make this up.
            Err(JournalError::Damaged { .. }) if at > fourth => {}
            Err(error) => panic!("cut at {at}: {error}"),
        }
    }
}
