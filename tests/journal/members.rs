//! What a log has beside its batches: states, votes, cuts, members; and a log of version 1 that goes on.

use crate::journal::batches::{Maker, OPTIONS, append, fresh, start};
use crate::journal::history::History;
use crate::journal::upgrade::{desk, unpacked};
use crate::support::lossy::{Fault, Lossy};
use crate::support::program::Folder;
use crate::support::seeds::{Telltale, seeds};
use delayd::engine::Settings;
use delayd::ids::Index;
use delayd::journal::base::{self, BaseHead, BaseReader, BaseWriter};
use delayd::journal::record::raft_state::{LogIdentity, LogPosition, LogState, Members, Vote};
use delayd::journal::record::{self, Head, RecordKind};
use delayd::journal::recovery::{Progress, recover};
use delayd::journal::{
    Disk, FoundHeader, HEADER_BYTES, Header, JournalError, LogReader, Magic, OwnedEntry,
};
use delayd::limits::{MEMBERS_BYTES_MAX, NODE_NAME_BYTES_MAX};
use delayd::time::Micros;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const FIRST: &str = "segment-0000000001.log";

/// A member's short life with a death at every single write, sync, creation and removal.
#[test]
fn a_crash_at_every_operation_of_a_member() {
    for seed in seeds(4).map(|seed| 2 * seed + 1) {
        for operation in 0.. {
            let _telltale = Telltale(format!("DELAYD_SEED={seed}, operation {operation}"));
            let mut history = History::new(seed);
            history.storage.fail_after(operation, Fault::Death);
            if let Ok(mut log) = history.open() {
                let _ = (0..60).try_for_each(|_| history.step(&mut log));
            }
            let died = history.storage.operations() > operation;
            let mut rng = SmallRng::seed_from_u64(operation);
            history.storage = history.storage.crash(&mut rng);
            let mut log = history.open().expect("a crash is no damage");
            let gone_on = (0..10).try_for_each(|_| history.step(&mut log));
            gone_on.expect("a sound storage");
            history.storage = history.storage.crash(&mut rng);
            history.open().expect("a crash is no damage");
            if !died {
                break;
            }
        }
    }
}

/// Where each record of the first segment begins, with its head.
fn heads(files: &BTreeMap<String, Vec<u8>>) -> Vec<(usize, Head)> {
    let bytes = &files[FIRST];
    let FoundHeader::Header(header) = Header::decode(bytes, Magic::Segment) else {
        panic!("a header")
    };
    let (mut at, mut heads) = (HEADER_BYTES as usize, Vec::new());
    while let Some(head) = Head::decode(&bytes[at..], header.seed()) {
        heads.push((at, head));
        at += head.span() as usize;
    }
    heads
}

#[test]
fn a_cut_of_what_was_called_committed_is_damage() {
    let ((storage, mut log), mut maker) = (fresh(), Maker::new(3));
    let batches = [maker.aside(RecordKind::Members, 20), maker.sized(100), maker.sized(50)];
    append(&mut log, &batches).unwrap();
    log.cut_after(Index(2)).unwrap();
    let files = storage.files();
    let (at, cut) = *heads(&files).last().unwrap();
    assert_eq!((cut.kind, cut.index, cut.committed), (RecordKind::Cut, Index(2), Index(0)));
    let FoundHeader::Header(header) = Header::decode(&files[FIRST], Magic::Segment) else {
        panic!()
    };
    let forge = |at: usize, head: Head| {
        let mut files = files.clone();
        let bytes = files.get_mut(FIRST).unwrap();
        bytes[at..at + record::HEAD_BYTES].copy_from_slice(&head.encode(header.seed()));
        start(&Lossy::of(&files), Index(0))
    };
    // As it is; and with the batch before it telling that more is committed.
    let (_, opened, read) = forge(at, cut).unwrap();
    assert!(read.is_empty() && opened.uncommitted == batches[..2]);
    let (before, told) = heads(&files)[3];
    let told = Head { committed: Index(3), ..told };
    match forge(before, told) {
        Err(JournalError::Damaged { file, offset, what }) => {
            assert_eq!((file.as_str(), offset as usize), (FIRST, at));
            assert!(what.contains("a cut after batch 2, and up to 3 it is committed"), "{what}");
        }
        Err(error) => panic!("{error}"),
        Ok((_, opened, _)) => panic!("it was cut: {opened:?}"),
    }
}

#[test]
#[should_panic(expected = "cut after batch 1, and 2 is committed")]
fn a_cut_of_what_is_committed_is_our_own_mistake() {
    let ((_storage, mut log), mut maker) = (fresh(), Maker::new(3));
    append(&mut log, &[maker.aside(RecordKind::Members, 20), maker.sized(1), maker.sized(1)])
        .unwrap();
    log.commit(Index(2));
    let _ = log.cut_after(Index(1));
}

#[test]
#[should_panic(expected = "does not follow")]
fn a_second_vote_in_an_epoch_is_our_own_mistake() {
    let (_storage, mut log) = fresh();
    log.vote(Vote { epoch: 4, node: 1 }).unwrap();
    let _ = log.vote(Vote { epoch: 4, node: 2 });
}

/// Without the state of an orderly stop the last batch could as well have been torn.
#[test]
fn a_state_at_the_end_tells_that_the_last_batch_was_durable() {
    for stopped in [false, true] {
        let ((storage, mut log), mut maker) = (fresh(), Maker::new(3));
        let batches = [maker.sized(100), maker.sized(100)];
        append(&mut log, &batches).unwrap();
        log.sync().unwrap();
        if stopped {
            log.note_state().unwrap();
            log.sync().unwrap();
        }
        assert_eq!(log.bounds().1, Index(2), "it has no index of its own");
        let mut files = storage.files();
        let (at, _) = heads(&files)[2];
        files.get_mut(FIRST).unwrap()[at + 100] ^= 1;
        match start(&Lossy::of(&files), Index(0)) {
            Err(JournalError::Damaged { offset, .. }) if stopped => assert_eq!(offset, at as u64),
            Ok((_, opened, read)) if !stopped => assert!(opened.cut.is_some() && read.len() == 1),
            Err(error) => panic!("{error}"),
            Ok((_, opened, _)) => panic!("{opened:?}"),
        }
    }
}

/// The vote, the members and who it is outlive the segments in which they were written.
#[test]
fn what_is_known_outlives_the_segments_it_was_written_in() {
    let ((storage, mut log), mut maker) = (fresh(), Maker::new(3));
    let identity = LogIdentity { cluster: 77, node: 5, name: b"n5"[..].into() };
    log.identify(identity.clone()).unwrap();
    let members = maker.aside(RecordKind::Members, 300);
    append(&mut log, std::slice::from_ref(&members)).unwrap();
    let vote = Vote { epoch: 9, node: 5 };
    log.vote(vote).unwrap();
    let batches: Vec<_> = (0..30).map(|_| maker.sized(15_000)).collect();
    append(&mut log, &batches).unwrap();
    log.commit(Index(25));
    log.drop_before(Index(20)).unwrap();
    log.note_state().unwrap();
    log.sync().unwrap();
    let first = log.bounds().0;
    assert!((10..=20).contains(&first.0), "{first}");
    assert!(log.position(Index(first.0 - 2)).unwrap().is_none());
    assert_eq!(log.position(Index(first.0 - 1)).unwrap().unwrap().epoch, 1);
    let before = log.state();
    drop(log);
    let (log, opened, read) = start(&storage.crash_keeping(|_| Vec::new()), Index(19)).unwrap();
    assert_eq!((log.voted(), &log.state()), (Some(vote), &before));
    assert_eq!(before.identity, identity);
    assert_eq!(log.members().unwrap().body, members.body);
    assert!(read[..] == batches[18..24] && opened.uncommitted == batches[24..]);
}

/// A crash brings back any of the segments that were given up. What is behind them is all there, and damage to
/// one that nothing is missing behind is told.
#[test]
fn segments_that_were_given_up_may_come_back() {
    let ((storage, mut log), mut maker) = (fresh(), Maker::new(3));
    log.identify(LogIdentity { cluster: 77, node: 5, name: b"n5"[..].into() }).unwrap();
    let batches: Vec<_> = (0..30).map(|_| maker.sized(15_000)).collect();
    append(&mut log, &batches).unwrap();
    log.commit(Index(30));
    log.note_state().unwrap();
    log.sync().unwrap();
    let before = storage.files();
    log.drop_before(Index(20)).unwrap();
    let first = log.bounds().0;
    let state = log.state();
    drop(log);
    // Those of 64 KiB hold four batches.
    let gone: Vec<_> = (1..=4).map(|number| format!("segment-{number:010}.log")).collect();
    assert_eq!(first, Index(17));
    for back in 0..16 {
        let mut files = storage.files();
        for (at, name) in gone.iter().enumerate() {
            match back >> at & 1 {
                0 => files.remove(name),
                _ => files.insert(name.clone(), before[name].clone()),
            };
        }
        let (log, opened, read) = start(&Lossy::of(&files), Index(19)).unwrap();
        assert!(read[..] == batches[19..], "{back:04b}");
        // From the last one that is gone on.
        let of_last = (0..4).rev().find(|at| back >> at & 1 == 0).map_or(1, |at| 4 * at + 5);
        assert_eq!((log.bounds().0, opened.first), (Index(of_last), Index(of_last)), "{back:04b}");
        if of_last == 17 {
            assert_eq!(log.state(), state);
        } else {
            let last = files.get_mut(&gone[3]).unwrap();
            last[20_000] ^= 1;
            let Err(JournalError::Damaged { file, .. }) = start(&Lossy::of(&files), Index(19))
            else {
                panic!("{back:04b}: damage");
            };
            assert_eq!(file, gone[3]);
        }
    }
}

#[test]
fn members_that_are_cut_give_way_to_those_before() {
    let ((storage, mut log), mut maker) = (fresh(), Maker::new(3));
    let of = |log: &delayd::journal::Log<Lossy>| log.members().map(|members| members.index.0);
    append(&mut log, &[maker.aside(RecordKind::Members, 10), maker.sized(9)]).unwrap();
    log.commit(Index(2));
    let next = maker.aside(RecordKind::Members, 20);
    append(&mut log, std::slice::from_ref(&next)).unwrap();
    assert_eq!(of(&log), Some(3));
    // In a state, too, the older ones are kept until the newer ones are committed.
    log.begin_segment().unwrap();
    assert_eq!(log.state().members.len(), 2);
    let storage = storage.kill();
    let (mut log, _, _) = start(&storage, Index(1)).unwrap();
    assert_eq!(of(&log), Some(3));
    log.cut_after(Index(2)).unwrap();
    assert_eq!(of(&log), Some(1));
    let (mut log, _, _) = start(&storage.kill(), Index(1)).unwrap();
    assert_eq!((of(&log), log.bounds()), (Some(1), (Index(1), Index(2))));
    append(&mut log, &[next]).unwrap();
    log.commit(Index(3));
    assert_eq!((of(&log), log.state().members.len()), (Some(3), 1));
}

#[test]
fn states_are_read_again_and_nothing_else_is_one() {
    let mut rng = SmallRng::seed_from_u64(1);
    let mut accepted = 0;
    for _ in 0..3_000 {
        let mut position = |least: u64| LogPosition {
            index: Index(least + rng.random_range(0..5)),
            epoch: rng.random_range(0..4),
            first: rng.random_range(0..9),
        };
        let (before, last) = (position(0), position(10));
        let mut bytes = |most: usize| -> Vec<u8> {
            let length = rng.random_range(0..=most);
            (0..length).map(|_| rng.random()).collect()
        };
        let name = bytes(NODE_NAME_BYTES_MAX).into();
        let members: Vec<Members> =
            (1..3).map(|at| Members { epoch: 1, index: Index(at), body: bytes(40) }).collect();
        let state = LogState {
            identity: LogIdentity { cluster: rng.random(), node: rng.random(), name },
            vote: rng.random::<bool>().then_some(Vote { epoch: 3, node: rng.random() }),
            committed: Index(rng.random_range(0..=last.index.0)),
            before,
            last,
            members: members[..rng.random_range(0..=2)].to_vec(),
        };
        let encoded = state.encode();
        assert_eq!(LogState::decode(&encoded), Some(state));
        for cut in 0..encoded.len() {
            assert_eq!(LogState::decode(&encoded[..cut]), None, "cut at {cut}");
        }
        let mut changed = encoded.clone();
        let at = rng.random_range(0..changed.len());
        changed[at] = rng.random();
        // Whatever it is taken for, it is bounded.
        if let Some(state) = LogState::decode(&changed) {
            accepted += 1;
            assert!(state.members.iter().all(|members| members.body.len() <= MEMBERS_BYTES_MAX));
            assert!(state.committed <= state.last.index);
        }
        assert_eq!(LogState::decode(&[&encoded[..], b"x"].concat()), None);
    }
    assert!(accepted > 100);
}

#[test]
fn a_base_has_the_members_as_of_its_batch() {
    let storage = Lossy::new();
    let head = BaseHead { index: Index(42), first: 9, now: Micros(5), epoch: 3, shard: 0 };
    let told = Members { epoch: 2, index: Index(40), body: b"three of them".to_vec() };
    for members in [None, Some(told)] {
        let mut writer = BaseWriter::begin(&storage, head).unwrap();
        writer.write(b"images").unwrap();
        members.iter().for_each(|members| writer.set_members(members.clone()));
        writer.finish().unwrap();
        let mut reader = BaseReader::open(&*storage, &base::name_of(Index(42))).unwrap();
        assert_eq!(reader.next_images().unwrap(), Some(&b"images"[..]));
        assert_eq!(reader.next_images().unwrap(), None);
        assert_eq!((reader.head(), reader.members()), (Some(head), members.as_ref()));
    }
    assert_eq!(base::name_of(Index(42)), "base-0000-00000000000000000042.base");
    assert_eq!(base::index_of("base-00000000000000000042.base"), Some(Index(42)));
    for other in ["base-0001-00000000000000000042.base", "base-42.base", "base-0000-42.base"] {
        assert_eq!(base::index_of(other), None, "{other}");
    }
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries.map(|e| (e.file_name().into_string().unwrap(), fs::read(e.path()).unwrap())).collect()
}

/// Until something is written an older delayd can go on with it.
#[test]
fn a_log_of_version_1_is_as_it_was_until_something_is_written() {
    let scratch: Folder = unpacked(&crate::journal::upgrade::folder("1"), false);
    let before = files(&scratch.journal());
    let disk = Arc::new(Disk::open(&scratch.journal()).unwrap());
    let open = || {
        let found = recover(&disk, desk::OPTIONS, Settings::default(), &Progress::default());
        found.unwrap()
    };
    let last = open().index;
    let mut after = files(&scratch.journal());
    // It names the newest segment, which that version did not.
    after.remove("newest");
    assert!(before == after, "a start that writes nothing changes nothing");
    let mut recovered = open();
    assert_eq!(recovered.log.bounds(), (Index(1), last));
    let whole = recovered.log.read(Index(1), last, usize::MAX).unwrap();
    recovered.log.note_state().unwrap();
    recovered.log.sync().unwrap();
    let after = files(&scratch.journal());
    for (name, bytes) in &before {
        assert!(after[name] == *bytes, "{name} is written to");
    }
    let versions: Vec<u8> =
        after.iter().filter(|(n, _)| n.starts_with("seg")).map(|f| f.1[8]).collect();
    assert_eq!(versions, [1, 1, 2]);
    let reader = LogReader::open(Arc::clone(&disk), OPTIONS, Index(0)).unwrap();
    let opened = reader.survey().unwrap();
    // The lsn goes on where the index was: two states.
    assert_eq!((opened.last, opened.last_lsn, opened.records.states), (last, last.0 + 2, 2));
    assert_eq!(open().log.read(Index(1), last, usize::MAX).unwrap(), whole);
}

/// A follower that is behind reads while the leader of another epoch cuts, appends and gives segments up,
/// which are used again: what it reads is what stood there at one moment.
#[test]
fn a_view_is_read_beside_the_writer() {
    let ((_storage, mut log), mut maker) = (fresh(), Maker::new(4));
    append(&mut log, &[maker.aside(RecordKind::Members, 9)]).unwrap();
    let view = log.view();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut reads, mut gaps) = (0_u64, 0_u64);
            while !done.load(Ordering::Acquire) || reads < 100 {
                let from = view.bounds().0;
                match view.read(from, Index(u64::MAX), 1 << 16) {
                    Ok(read) => {
                        let indexes = read.iter().map(|entry| entry.index.0);
                        assert!(indexes.eq(from.0..from.0 + read.len() as u64), "in order");
                        assert!(read.is_sorted_by_key(|entry| entry.epoch));
                        // Its epoch fills it: no batch is of two leaders.
                        let whole = |entry: &OwnedEntry| {
                            let byte = entry.epoch as u8;
                            entry.kind != RecordKind::Facts
                                || entry.body.iter().all(|at| *at == byte)
                        };
                        assert!(read.iter().all(whole));
                        reads += u64::from(read.len() > 1);
                    }
                    Err(JournalError::Gap { first, .. }) => {
                        assert!(first > from);
                        gaps += 1;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            (reads, gaps)
        });
        let mut rng = SmallRng::seed_from_u64(1);
        let (mut epoch, mut kept) = (1, Vec::new());
        for round in 0..600 {
            for _ in 0..rng.random_range(1..6) {
                let mut entry = maker.sized(rng.random_range(0..9_000));
                (entry.epoch, entry.count) = (epoch, 0);
                maker.first = entry.first;
                entry.body.fill(epoch as u8);
                append(&mut log, std::slice::from_ref(&entry)).unwrap();
                kept.push(entry);
            }
            if round % 3 == 0 {
                let committed = log.committed().0.max(1);
                let index = Index(rng.random_range(committed..=log.bounds().1.0));
                log.cut_after(index).unwrap();
                kept.retain(|entry| entry.index <= index);
                (maker.next, epoch) = (index.next(), epoch + 1);
            }
            if round % 5 == 0 {
                log.commit(Index(rng.random_range(log.committed().0..=log.bounds().1.0)));
                log.drop_before(log.committed()).unwrap();
            }
        }
        done.store(true, Ordering::Release);
        let (reads, _) = reader.join().expect("no read was wrong");
        assert!(reads >= 100);
        let (first, last) = log.bounds();
        let read = view.read(first, last, usize::MAX).unwrap();
        kept.retain(|entry| entry.index >= first);
        assert!(read == kept, "all of it in the end");
        assert!(matches!(view.read(Index(1), last, 0), Err(JournalError::Gap { .. })));
    });
}
