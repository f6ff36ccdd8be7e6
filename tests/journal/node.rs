//! A node's log: what Raft writes, in every order it may come, and what a start finds of it after a crash.

use crate::journal::batches::OPTIONS;
use crate::support::lossy::{Fault, Lossy};
use crate::support::seeds::{Telltale, seeds};
use bytes::Bytes;
use delayd::cluster::members::Members;
use delayd::cluster::members::directory::{Directory, Node as Told};
use delayd::cluster::members::names::{Address, Name};
use delayd::cluster::raft::entry::{Base, EpochFacts, LogEntry, Payload, Vote, Write};
use delayd::cluster::raft::node::Node;
use delayd::cluster::raft::output::Fetch;
use delayd::cluster::raft::start::Start;
use delayd::engine::model::fact::Fact;
use delayd::engine::{Engine, Settings};
use delayd::ids::{Db, Index};
use delayd::journal::base::{BaseHead, BaseWriter};
use delayd::journal::record::raft_state;
use delayd::journal::recovery::{Progress, load_newest, recover};
use delayd::journal::{Arrived, File, Incoming, Log, Offer, Storage};
use delayd::limits::APPEND_BYTES_MAX;
use delayd::server::cluster::bases::ArrivedBases;
use delayd::server::cluster::entry_log::{EntryLog, Op};
use delayd::server::cluster::raft_loop::LogDone;
use delayd::server::cluster::start::{WrongFolder, check_alone, identify, node_start};
use delayd::time::Micros;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const ID: u64 = 7;

/// What the log should tell.
#[derive(Clone, PartialEq, Debug, Default)]
struct Known {
    vote: Vote,
    entries: Vec<LogEntry>,
}

struct Life {
    storage: Arc<Lossy>,
    rng: SmallRng,
    log: EntryLog<Lossy>,
    ops: VecDeque<Op>,
    /// As of the newest write that is durable, and as of each one since.
    since: Vec<Known>,
    /// The numbers of these but the first.
    numbers: Vec<u64>,
    commit: u64,
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn members(ids: &[u64]) -> Members {
    let address = |port| Address::new("127.0.0.1", port).unwrap();
    let told = |id: u64| Told {
        name: name(&format!("n{id}")),
        peer: address(1_000 + id as u16),
        client: address(2_000 + id as u16),
        tls: None,
        sentinel: None,
    };
    let nodes: BTreeMap<u64, Told> = ids.iter().map(|id| (*id, told(*id))).collect();
    let mut directory = Directory::founded(5, 9, 1, ID, told(ID));
    directory.nodes = nodes;
    Members { directory: directory.encode().into(), ..Members::of(ids.iter().copied()) }
}

fn of(log: Log<Lossy>, storage: &Arc<Lossy>) -> EntryLog<Lossy> {
    EntryLog::new(log, Arc::clone(storage), ArrivedBases::default(), 0)
}

/// Opens what is there; the start, and the log to go on in.
fn open(storage: &Arc<Lossy>) -> (Start, EntryLog<Lossy>) {
    let mut recovered =
        recover(storage, OPTIONS, Settings::default(), &Progress::default()).unwrap();
    let id = identify(&mut recovered.log, recovered.base_index, &name("n7"), ID).unwrap();
    assert_eq!(id, ID);
    let start = node_start(&recovered, id, 3).unwrap();
    Node::new(start.clone()).unwrap();
    (start, of(recovered.log, storage))
}

impl Life {
    fn begin(storage: Arc<Lossy>, rng: SmallRng) -> (Life, Start) {
        let (start, log) = open(&storage);
        let all = log.log.read(Index(1), log.log.bounds().1, usize::MAX).unwrap();
        assert_eq!(all.len() as u64, log.log.bounds().1.0);
        // What is applied stands in the log too: the model has all of it.
        let mut entries = Vec::new();
        if start.applied > 0 {
            let fetch = Fetch { number: 1, low: 1, high: start.applied + 1 };
            let (mut ops, mut done) = (VecDeque::from([Op::Fetch(fetch)]), Vec::new());
            let mut log = of(log.log, &storage);
            log.carry_out(&mut ops, &mut done).unwrap();
            let [LogDone::Fetched(1, fetched)] = &done[..] else { panic!("{done:?}") };
            entries.extend(fetched.iter().cloned());
            entries.extend(start.entries.iter().cloned());
            let since = vec![Known { vote: start.vote, entries }];
            let (ops, numbers, commit) = (VecDeque::new(), Vec::new(), start.commit);
            return (Life { storage, rng, log, ops, since, numbers, commit }, start);
        }
        entries.extend(start.entries.iter().cloned());
        let since = vec![Known { vote: start.vote, entries }];
        let (ops, numbers, commit) = (VecDeque::new(), Vec::new(), start.commit);
        (Life { storage, rng, log, ops, since, numbers, commit }, start)
    }

    /// The next write that Raft may want.
    fn write(&mut self, number: u64) {
        let mut known = self.since.last().unwrap().clone();
        let rng = &mut self.rng;
        let last = known.entries.len() as u64;
        let mut term = known.entries.last().map_or(1, |entry| entry.term).max(known.vote.term);
        let mut vote = None;
        if rng.random_bool(0.3) {
            term += rng.random_range(1..3);
            let voted_for = [0, ID, 8][rng.random_range(0..3)];
            vote = Some(Vote { term, voted_for });
        } else if known.vote.voted_for == 0 && known.vote.term > 0 && rng.random_bool(0.3) {
            vote = Some(Vote { term: known.vote.term, voted_for: 9 });
        }
        let mut entries = Vec::new();
        if vote.is_none() || rng.random_bool(0.5) {
            // A conflict takes the place of what is not committed.
            let from = match rng.random_bool(0.2) && last > self.commit {
                true => rng.random_range(self.commit + 1..=last),
                false => last + 1,
            };
            if from <= last {
                term += 1;
                vote = Some(Vote { term, voted_for: 0 });
            }
            known.entries.truncate(from as usize - 1);
            for index in from..from + rng.random_range(1..5) {
                let pending = known.entries.iter().skip(self.commit as usize);
                let may_change = !pending.clone().any(is_members);
                entries.push(entry(index, term, &known.entries, may_change, rng));
                known.entries.push(entries.last().unwrap().clone());
            }
        }
        known.vote = vote.unwrap_or(known.vote);
        let last = known.entries.len() as u64;
        if rng.random_bool(0.5) {
            self.commit = rng.random_range(self.commit..=last);
        }
        let commit = self.commit;
        self.ops.push_back(Op::Write(Write { number, base: None, entries, vote, commit }));
        self.since.push(known);
        self.numbers.push(number);
    }

    fn take(&mut self, done: Vec<LogDone>) {
        for done in done {
            let LogDone::Persisted(number) = done else { panic!("{done:?}") };
            let at = self.numbers.iter().position(|other| *other == number).unwrap();
            self.numbers.drain(..=at);
            self.since.drain(..=at);
        }
    }

    /// Some steps, until they are done or the storage fails.
    fn live(&mut self, steps: usize) {
        let mut number = 0;
        for _ in 0..steps {
            for _ in 0..self.rng.random_range(1..4) {
                number += 1;
                self.write(number);
            }
            let mut done = Vec::new();
            if self.log.carry_out(&mut self.ops, &mut done).is_err() {
                return;
            }
            if self.rng.random_bool(0.6)
                && self.log.is_unsynced()
                && self.log.sync(&mut done).is_err()
            {
                return;
            }
            self.take(done);
            if self.rng.random_bool(0.1) && self.log.note_committed().is_err() {
                return;
            }
        }
    }

    /// Whether what a start has found is what was durable, or what was written since, as far as it came.
    fn check(&self, found: &Known, start: &Start) {
        let came_to = |pair: &[Known]| {
            let (before, after) = (&pair[0], pair.last().unwrap());
            let kept =
                before.entries.iter().zip(&after.entries).take_while(|(a, b)| a == b).count();
            let is_prefix = found.entries.len() >= kept
                && found.entries.len() <= after.entries.len()
                && found.entries[..] == after.entries[..found.entries.len()];
            let vote = found.vote == before.vote || found.vote == after.vote;
            vote && (is_prefix || found.entries == before.entries)
        };
        let is_one = self.since.windows(2).any(came_to) || came_to(&self.since[..1]);
        assert!(is_one, "{found:#?} is none of {:#?}", self.since);
        assert!(start.commit <= self.commit && start.applied <= start.commit);
    }
}

fn is_members(entry: &LogEntry) -> bool {
    matches!(entry.payload, Payload::Members(_))
}

/// Raft changes members once at a time: `may_change` them again.
fn entry(
    index: u64,
    term: u64,
    before: &[LogEntry],
    may_change: bool,
    rng: &mut SmallRng,
) -> LogEntry {
    let first = before.iter().rev().find_map(|entry| match &entry.payload {
        Payload::Facts(facts) => Some(facts.first + u64::from(facts.count)),
        _ => None,
    });
    let payload = match rng.random_range(0..10) {
        _ if index == 1 => Payload::Members(members(&[ID])),
        0 => Payload::Blank,
        1 if may_change => Payload::Members(members(&[ID, 8 + rng.random_range(0..3)])),
        _ => {
            let (mut body, count) = (Vec::new(), rng.random_range(1..200));
            (0..count).for_each(|_| Fact::Flushed { db: Some(Db(0)) }.encode(&mut body));
            let now = Micros(1_000 * index);
            Payload::Facts(EpochFacts {
                first: first.unwrap_or(1),
                now,
                count,
                body: Bytes::from(body),
            })
        }
    };
    LogEntry { index, term, node: 1 + term % 3, payload }
}

#[test]
fn what_was_told_durable_is_found_after_every_crash_and_what_was_cut_is_not() {
    for seed in seeds(300) {
        let _telltale = Telltale(format!("DELAYD_SEED={seed}"));
        let (mut storage, mut rng) = (Lossy::new(), SmallRng::seed_from_u64(seed));
        for _ in 0..6 {
            let (mut life, _) = Life::begin(storage, SmallRng::seed_from_u64(rng.random()));
            if rng.random_bool(0.8) {
                let most = [5, 30, 120][rng.random_range(0..3)];
                life.storage.fail_after(rng.random_range(0..most), Fault::Death);
            }
            life.live(rng.random_range(0..40));
            let killed = rng.random_bool(0.25);
            storage = if killed { life.storage.kill() } else { life.storage.crash(&mut rng) };
            let copy = storage.kill();
            let (after, start) = Life::begin(copy, SmallRng::seed_from_u64(0));
            life.check(&after.since[0], &start);
        }
    }
}

#[test]
fn a_full_disk_keeps_what_waits_and_tells_nothing() {
    let (mut life, _) = Life::begin(Lossy::new(), SmallRng::seed_from_u64(1));
    life.live(10);
    let mut done = Vec::new();
    life.log.sync(&mut done).unwrap();
    life.take(done);
    // Larger than what is left of the segment.
    let before = life.since[0].clone();
    let last = before.entries.len() as u64;
    let term = before.vote.term.max(before.entries.last().unwrap().term);
    let mut body = Vec::new();
    (0..OPTIONS.segment_bytes / 4).for_each(|_| Fact::Flushed { db: None }.encode(&mut body));
    let count = (OPTIONS.segment_bytes / 4) as u32;
    let first = 1 + before.entries.iter().map(count_of).sum::<u64>();
    let facts = EpochFacts { first, now: Micros(1), count, body: body.into() };
    let entries: Vec<LogEntry> = (0..4)
        .map(|at| {
            let facts = EpochFacts { first: first + at * u64::from(count), ..facts.clone() };
            LogEntry { index: last + 1 + at, term, node: 1, payload: Payload::Facts(facts) }
        })
        .collect();
    life.storage.fail_after(0, Fault::Error(ErrorKind::StorageFull));
    let write = Write { number: 99, base: None, entries, vote: None, commit: life.commit };
    life.ops.push_back(Op::Write(write));
    let mut done = Vec::new();
    life.log.carry_out(&mut life.ops, &mut done).unwrap();
    assert!(done.is_empty() && life.ops.len() == 1 && !life.log.is_unsynced());
    life.log.carry_out(&mut life.ops, &mut done).unwrap();
    life.log.sync(&mut done).unwrap();
    assert_eq!(done, [LogDone::Persisted(99)]);
}

/// What a batch is appended to is known: with small ones, to look for it in the file would be most of a node's work.
#[test]
fn a_node_reads_nothing_to_append() {
    let storage = Lossy::new();
    let (_, mut log) = open(&storage);
    let mut append = |index| {
        let payload = if index == 1 { Payload::Members(members(&[ID])) } else { Payload::Blank };
        let entries = vec![LogEntry { index, term: 1, node: 1, payload }];
        let write = Write { number: index, base: None, entries, vote: None, commit: index - 1 };
        log.carry_out(&mut VecDeque::from([Op::Write(write)]), &mut Vec::new()).unwrap();
        log.sync(&mut Vec::new()).unwrap();
        storage.reads()
    };
    let before = append(1);
    assert_eq!((2..200).map(&mut append).max(), Some(before));
}

/// New members are to be recorded as committed at once. Without space that is tried once, and then like any other.
#[test]
fn a_full_disk_is_not_asked_for_space_all_the_time() {
    // Members behind so many blanks, committed, which no record says.
    let begin = |blanks: u64| {
        let storage = Lossy::new();
        let (_, mut log) = open(&storage);
        let payload = |index| match index {
            1 => Payload::Members(members(&[ID])),
            _ if index == blanks + 2 => Payload::Members(members(&[ID, 8])),
            _ => Payload::Blank,
        };
        let last = blanks + 2;
        let one = |index| LogEntry { index, term: 1, node: 1, payload: payload(index) };
        let entries = (1..=last).map(one).collect();
        let write = Write { number: 1, base: None, entries, vote: None, commit: 1 };
        let mut ops = VecDeque::from([Op::Write(write), Op::Stamp(last)]);
        log.carry_out(&mut ops, &mut Vec::new()).unwrap();
        log.sync(&mut Vec::new()).unwrap();
        assert!(log.is_urgent());
        (storage, log)
    };
    let needs_a_segment = |blanks: &u64| {
        let (_, mut log) = begin(*blanks);
        let before = log.log.segments();
        log.note_committed().unwrap();
        assert!(!log.is_urgent() && !log.is_to_be_noted());
        log.log.segments() > before
    };
    let blanks = (1..2_000).find(needs_a_segment).expect("a segment is full in the end");
    let (storage, mut log) = begin(blanks);
    storage.fail_after(0, Fault::Error(ErrorKind::StorageFull));
    log.note_committed().unwrap();
    assert!(log.is_to_be_noted() && !log.is_urgent());
    log.note_committed().unwrap();
    assert!(!log.is_to_be_noted());
}

fn count_of(entry: &LogEntry) -> u64 {
    match &entry.payload {
        Payload::Facts(facts) => facts.count.into(),
        _ => 0,
    }
}

#[test]
fn entries_are_read_for_others_as_far_as_a_message_takes_them() {
    let (mut life, _) = Life::begin(Lossy::new(), SmallRng::seed_from_u64(2));
    life.live(30);
    let entries = life.since.last().unwrap().entries.clone();
    let fetch = |low, high, number| Op::Fetch(Fetch { number, low, high });
    let high = entries.len() as u64 + 1;
    life.ops.extend([fetch(3, high, 1), fetch(2, 3, 2), fetch(high, high + 1, 3)]);
    let mut done = Vec::new();
    life.log.carry_out(&mut life.ops, &mut done).unwrap();
    let bytes: usize = entries.iter().map(LogEntry::bytes).sum();
    assert!(bytes < APPEND_BYTES_MAX);
    let all = LogDone::Fetched(1, entries[2..].to_vec());
    assert_eq!(
        done,
        [all, LogDone::Fetched(2, entries[1..2].to_vec()), LogDone::Fetched(3, Vec::new())]
    );
}

#[test]
fn a_folder_is_of_one_node() {
    let (mut life, _) = Life::begin(Lossy::new(), SmallRng::seed_from_u64(3));
    life.live(5);
    let (_, mut log) = open(&life.storage.kill());
    let other = identify(&mut log.log, Index(0), &name("n8"), 8).unwrap_err();
    assert!(matches!(&other, WrongFolder::OtherName { is, .. } if is == "n7"), "{other}");
    let alone = check_alone(&log.log).unwrap_err();
    assert!(alone.to_string().contains("belongs to node n7 of a cluster"), "{alone}");
    // A single node's.
    let recovered =
        recover(&Lossy::new(), OPTIONS, Settings::default(), &Progress::default()).unwrap();
    let mut log = recovered.log;
    check_alone(&log).unwrap();
    let batch = crate::journal::batches::Maker::new(1).sized(10);
    crate::journal::batches::append(&mut log, &[batch]).unwrap();
    let refused = identify(&mut log, Index(0), &name("n7"), ID).unwrap_err();
    assert!(refused.to_string().contains("belongs to a standalone server, but cluster-node is n7"));
}

/// A base up to this batch, as another node has it; it has no jobs.
fn base_of(storage: &Arc<Lossy>, index: u64, epoch: u64, first: u64) {
    let head = BaseHead { index: Index(index), first, now: Micros(9), epoch, shard: 0 };
    let mut writer = BaseWriter::begin(storage, head).unwrap();
    let mut body = Vec::new();
    members(&[ID, 8, 9]).encode(&mut body);
    writer.set_members(raft_state::Members { epoch: 1, index: Index(1), body });
    let mut engine = Engine::new(Settings::default());
    engine.begin_base();
    while !engine.base_slice(10, 1 << 16) {}
    writer.write(engine.base_output()).unwrap();
    writer.finish().unwrap();
}

/// Takes it over, in pieces.
fn take(from: &Lossy, storage: &Arc<Lossy>, index: u64) -> Arrived {
    let (offer, file) = Offer::of(from, Index(index)).unwrap();
    let mut incoming = Incoming::begin(storage, offer, &|_| false).unwrap();
    while !incoming.is_whole() {
        let mut piece = vec![0; 1_000.min((offer.bytes - incoming.bytes()) as usize)];
        assert_eq!(file.read_full(&mut piece, incoming.bytes()).unwrap(), piece.len());
        incoming.write(&piece).unwrap();
    }
    incoming.finish(&mut |_, _| ()).unwrap()
}

/// A base takes the place of a log that does not lead to it, or of one that has another batch there, with a death at
/// every operation, four times each: a start finds the one or the other, and can go on.
#[test]
fn a_base_takes_the_place_of_the_log_or_does_not_whatever_crash_comes() {
    let other = Lossy::new();
    base_of(&other, 40, 3, 41);
    for last in [10, 60] {
        for operation in 0.. {
            let _telltale = Telltale(format!("a log of {last}, operation {operation}"));
            let storage = Lossy::new();
            let (_, mut log) = open(&storage);
            let mut entries: Vec<LogEntry> = Vec::new();
            let mut rng = SmallRng::seed_from_u64(operation);
            for index in 1..=last {
                let mut next = entry(index, 1, &entries, false, &mut rng);
                if index == 1 {
                    next.payload = Payload::Members(members(&[ID, 8, 9]));
                }
                entries.push(next);
            }
            let vote = Vote { term: 2, voted_for: 8 };
            let write = Write { number: 1, base: None, entries, vote: Some(vote), commit: 5 };
            let mut ops = VecDeque::from([Op::Write(write)]);
            log.carry_out(&mut ops, &mut Vec::new()).unwrap();
            log.sync(&mut Vec::new()).unwrap();
            let arrived = ArrivedBases::default();
            let mut log = EntryLog::new(log.log, Arc::clone(&storage), Arc::clone(&arrived), 0);
            arrived.lock().unwrap().push(take(&other, &storage, 40));
            let base = Base { index: 40, term: 3, members: members(&[ID, 8, 9]) };
            let later = Vote { term: 3, voted_for: 0 };
            let write = Write {
                number: 2,
                base: Some(base),
                entries: vec![],
                vote: Some(later),
                commit: 40,
            };
            storage.fail_after(operation / 4, Fault::Death);
            let mut ops = VecDeque::from([Op::Write(write)]);
            let mut done = Vec::new();
            let is_done =
                log.carry_out(&mut ops, &mut done).and_then(|()| log.sync(&mut done)).is_ok();
            drop(log);
            let storage = storage.crash(&mut rng);
            let (start, mut log) = open(&storage);
            let is_new = start.base.index == 40;
            assert!(is_new || !is_done, "what was told durable is there");
            if is_new {
                assert_eq!((start.before, start.applied, start.entries.len()), ((40, 3), 40, 0));
                assert_eq!(start.members, members(&[ID, 8, 9]));
                assert!(start.vote == vote || start.vote == later);
                assert!(!is_done || start.vote == later);
            } else {
                assert_eq!((start.base.index, log.log.bounds().1), (0, Index(last)));
                assert_eq!(start.vote, vote);
            }
            // It goes on, and so does another start.
            let next = if is_new { 41 } else { last + 1 };
            let next = LogEntry { index: next, term: 4, node: 8, payload: Payload::Blank };
            let write =
                Write { number: 3, base: None, entries: vec![next.clone()], vote: None, commit: 5 };
            log.carry_out(&mut VecDeque::from([Op::Write(write)]), &mut Vec::new()).unwrap();
            log.sync(&mut Vec::new()).unwrap();
            drop(log);
            let (start, _) = open(&storage.crash(&mut rng));
            assert_eq!(start.entries.last(), Some(&next));
            assert_eq!(start.base.index == 40, is_new);
            if is_done && operation % 4 == 3 {
                break;
            }
        }
    }
}

/// As of a folder in which a newer base takes the place of the one that was found before that is opened.
#[derive(Debug)]
struct Replaced {
    now: Arc<Lossy>,
    then: Arc<Lossy>,
    opened: AtomicBool,
}

impl Replaced {
    fn current(&self) -> &Lossy {
        if self.opened.load(Ordering::Relaxed) { &self.then } else { &self.now }
    }
}

impl Storage for Replaced {
    type File = <Lossy as Storage>::File;

    fn list(&self) -> io::Result<Vec<String>> {
        self.current().list()
    }

    fn create(&self, name: &str) -> io::Result<Self::File> {
        self.current().create(name)
    }

    fn open(&self, name: &str) -> io::Result<Self::File> {
        self.opened.store(true, Ordering::Relaxed);
        self.current().open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.current().rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.current().remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.current().sync_dir()
    }
}

/// A node reads its jobs again while the last of a base is written: the one that was the newest is gone then.
#[test]
fn a_base_that_is_replaced_while_it_is_looked_for_is_read_from_the_new_one() {
    let with_base = |index: u64| {
        let storage = Lossy::new();
        base_of(&storage, index, 1, 1);
        storage
    };
    let read = |now: Arc<Lossy>, then: Arc<Lossy>| {
        let storage = Replaced { now, then, opened: AtomicBool::new(false) };
        load_newest(&storage, Settings::default(), &Progress::default())
            .map(|(_, _, base)| base.map(|base| base.index))
    };
    let found = read(with_base(5), with_base(9)).unwrap();
    assert_eq!(found, Some(Index(9)));
    // One that is gone without another in its place is missed.
    let text = read(with_base(5), Lossy::new()).unwrap_err().to_string();
    assert!(text.contains("base-0000-00000000000000000005.base: cannot open"), "{text}");
}
