//! The log of a member of a cluster is cut after every index that is not committed, with an engine behind it:
//! the state is that of the index, also if a crash comes in between, and all goes on from there. What is not
//! known to be committed is in the log and not in the state.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use delayd::engine::model::request::{Add, QueueName, Request, When};
use delayd::engine::{Engine, Facts, Outcome, Settings, Turn};
use delayd::ids::{ClientId, Db, Index};
use delayd::journal::base::{BaseHead, BaseWriter};
use delayd::journal::record::RecordKind;
use delayd::journal::record::entry::EPOCH;
use delayd::journal::record::raft_state::Vote;
use delayd::journal::recovery::{Progress, Recovered, recover};
use delayd::journal::{Log, OwnedEntry, SegmentEntry};
use delayd::time::Micros;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::point::Point;
use super::run::{OPTIONS, Pace, Run};
use crate::simulation::trace::Recorder;
use crate::support::lossy::{Fault, Lossy};
use crate::support::seeds::{Seen, Telltale, for_each_seed};

/// Far from what is done here.
const NEVER: u64 = 1 << 40;

/// An engine that was recovered, and its log.
pub struct Desk {
    pub engine: Engine,
    pub log: Log<Lossy>,
    pub last: Index,
    first: u64,
    now: Micros,
    /// In the log, and not in the engine.
    uncommitted: Vec<OwnedEntry>,
}

impl Desk {
    pub fn open(storage: &Arc<Lossy>, settings: &Settings) -> Desk {
        let recovered = recover(storage, OPTIONS, settings.clone(), &Progress::default());
        let Recovered { engine, log, index, first, now, opened, .. } =
            recovered.expect("neither a crash nor a cut is damage");
        let uncommitted = opened.uncommitted;
        Desk { engine, log, last: index, first, now, uncommitted }
    }

    /// What it did not know to be committed is: as a leader learns it.
    fn apply(&mut self) {
        for entry in std::mem::take(&mut self.uncommitted) {
            let OwnedEntry { kind, index, first, now, count, body, .. } = entry;
            assert_eq!((index, first), (self.last.next(), self.first));
            if kind == RecordKind::Facts {
                self.engine.apply_encoded(now, &body, count.into()).expect("own facts");
            }
            (self.last, self.first, self.now) = (index, first + u64::from(count), now);
        }
    }

    /// From here on it is a member of a cluster, and what it writes is not committed by itself.
    fn found(&mut self, points: &mut BTreeMap<Index, Point>) {
        self.last = self.last.next();
        let (index, first, now) = (self.last, self.first, self.now);
        let (kind, epoch, node) = (RecordKind::Members, EPOCH, 3);
        let entry = SegmentEntry { kind, index, epoch, node, first, now, count: 0, body: b"three" };
        self.log.append(&[entry]).expect("a sound storage");
        self.log.commit(index);
        points.insert(index, Point::of(&self.engine, now, first, 0));
    }

    /// A turn with some new jobs: a batch, which is appended.
    pub fn turn(&mut self, bytes: usize, points: &mut BTreeMap<Index, Point>) {
        let (mut facts, mut outbox) = (Facts::default(), Recorder::default());
        let turn = &mut Turn { facts: &mut facts, outbox: &mut outbox };
        self.now = Micros(self.now.0 + 1_000);
        let (queue, body) = (QueueName { db: Db(0), name: b"cut" }, vec![b'c'; bytes]);
        let add = Add::new(queue, When::In(5), &body);
        let outcome = self.engine.handle(self.now, ClientId(1), &Request::Add(add), turn);
        assert_eq!(outcome, Outcome::Replied);
        self.engine.advance(self.now, 1_000, turn);
        let (first, count) = (self.first, facts.count as u32);
        (self.last, self.first) = (self.last.next(), first + facts.count);
        let (index, now) = (self.last, self.now);
        let entry = SegmentEntry {
            kind: RecordKind::Facts,
            index,
            epoch: EPOCH,
            node: 0,
            first,
            now,
            count,
            body: &facts.bytes,
        };
        self.log.append(&[entry]).expect("a sound storage");
        points.insert(index, Point::of(&self.engine, now, self.first, 0));
    }
}

impl Desk {
    /// A base of the state as it is, and the log without what it covers.
    fn compact(&mut self, storage: &Arc<Lossy>) -> io::Result<()> {
        let Desk { last: index, first, now, .. } = *self;
        let head = BaseHead { index, first, now, epoch: EPOCH, shard: 0 };
        let mut base = BaseWriter::begin(storage, head)?;
        self.engine.begin_base();
        while !self.engine.base_slice(1_000, usize::MAX) {}
        base.write(&std::mem::take(self.engine.base_output()))?;
        base.set_members(self.log.members().expect("a cluster was founded").clone());
        base.finish()?;
        self.log.drop_before(index.next())
    }
}

/// What was recovered is the state after its last batch.
fn check(desk: &Desk, points: &BTreeMap<Index, Point>) {
    let point = &points[&desk.last];
    point.check(&desk.engine);
    assert_eq!(desk.first, point.first);
    assert_eq!(desk.log.bounds().1, desk.last);
}

/// Batches behind the founding of the cluster.
const TURNS: u64 = 5;

/// Cuts so many batches after the founding of the cluster, with a death at `operation` of it. True if the
/// cut was done before.
fn cut(run: &Run, kept: u64, operation: u64, rng: &mut SmallRng, seen: &mut Seen) -> bool {
    let mut settings = run.world.engine.settings().clone();
    // Whether there is room is not what is tested.
    settings.memory_bytes_max = 0;
    let storage = run.storage.kill();
    let mut desk = Desk::open(&storage, &settings);
    let mut points = run.points.clone();
    desk.found(&mut points);
    let founded = desk.last;
    (0..TURNS).for_each(|_| desk.turn(100, &mut points));
    let vote = Vote { epoch: 1 + kept, node: 2 };
    desk.log.vote(vote).expect("a sound storage");
    desk.log.sync().expect("a sound storage");
    // Some of what stays is committed, and a batch behind tells it.
    desk.log.commit(Index(rng.random_range(founded.0..=founded.0 + kept)));
    desk.turn(100, &mut points);
    let (index, committed) = (Index(founded.0 + kept), desk.log.committed());
    storage.fail_after(operation, Fault::Death);
    let done = desk.log.cut_after(index).is_ok();
    let met = storage.operations() > operation;
    let (last, storage) = (desk.last, storage.crash(rng));
    let mut desk = Desk::open(&storage, &settings);
    assert_eq!(desk.log.voted(), Some(vote), "its vote was durable");
    assert_eq!(desk.log.members().map(|members| members.index), Some(founded));
    assert!(desk.last <= committed, "{} is applied, {committed} was committed", desk.last);
    points[&desk.last].check(&desk.engine);
    desk.apply();
    check(&desk, &points);
    let uncut = (last.0 - 1..=last.0).contains(&desk.last.0);
    assert!(desk.last == index || !done && uncut, "{} after a cut after {index}", desk.last);
    seen.note(if desk.last == index { "cut" } else { "not cut" });
    // Batches of the numbers that were cut, of other sizes.
    points.split_off(&desk.last.next());
    for _ in 0..3 {
        let bytes = [0, 300, 30_000][rng.random_range(0..3)];
        desk.turn(bytes, &mut points);
    }
    desk.log.sync().expect("a sound storage");
    let durable = desk.last;
    desk.log.commit(durable);
    // Before a base and after it the log goes through some segments; what was cut does not come
    // back with those that are given up.
    for _ in 0..rng.random_range(0..3) {
        desk.turn(30_000, &mut points);
    }
    let dies = rng.random::<bool>();
    storage.fail_after(if dies { rng.random_range(0..12) } else { NEVER }, Fault::Death);
    desk.log.commit(desk.last);
    let compacted = desk.compact(&storage);
    let (last, storage) = (desk.last, storage.crash(rng));
    let mut desk = Desk::open(&storage, &settings);
    assert_eq!(desk.log.voted(), Some(vote), "its vote was durable");
    assert_eq!(desk.log.members().map(|members| members.index), Some(founded));
    desk.apply();
    let durable = if compacted.is_ok() { last } else { durable };
    assert!((durable..=last).contains(&desk.last), "{} of {last}", desk.last);
    check(&desk, &points);
    seen.note(if compacted.is_ok() { "compacted" } else { "not compacted" });
    done && !met
}

#[test]
fn a_cut_after_every_index_with_a_crash_at_every_operation() {
    let seen = for_each_seed(10, |seed, seen| {
        let mut run = Run::new(seed);
        run.world.workload.options.flows = 0;
        run.pace = Pace { base: if seed % 2 == 0 { 0 } else { 30 }, ..Pace::busy(seed) };
        assert!(run.turns(30, seen));
        run.settle(seen).expect("a sound storage");
        let mut rng = SmallRng::seed_from_u64(!seed);
        for kept in 0..=TURNS {
            for operation in 0.. {
                let _telltale =
                    Telltale(format!("DELAYD_SEED={seed}, {kept} are kept, operation {operation}"));
                if cut(&run, kept, operation, &mut rng, seen) {
                    break;
                }
            }
        }
    });
    seen.check(&["cut", "not cut", "compacted", "not compacted"]);
}
