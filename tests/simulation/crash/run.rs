//! A run: the simulation's world, and a journal in one thread that does by chance what the threads
//! of a server do.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::mem;
use std::sync::Arc;

use delayd::engine::Facts;
use delayd::engine::model::fact::{Fact, FactId};
use delayd::ids::Index;
use delayd::journal::base::{BaseHead, BaseWriter};
use delayd::journal::record::RecordKind;
use delayd::journal::record::entry::EPOCH;
use delayd::journal::{Log, LogOptions, OwnedEntry, SegmentEntry, Storage};
use delayd::time::Micros;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::picture;
use super::point::{Calm, Point};
use crate::simulation::world::World;
use crate::support::lossy::{Fault, Lossy};
use crate::support::seeds::Seen;

/// The smallest segments there are.
pub const OPTIONS: LogOptions = LogOptions { segment_bytes: 64 << 10, shard: 0, spares_max: 2 };

/// Pictures are taken of states with at most this many jobs.
const PICTURE_JOBS_MAX: u64 = 400;

/// In how many of 100 turns something is done.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub append: u32,
    pub sync: u32,
    pub base: u32,
    /// Steps of a base's walk in a turn.
    pub images_max: u32,
    pub spare: u32,
}

pub struct Run {
    pub world: World,
    pub rng: SmallRng,
    pub storage: Arc<Lossy>,
    pub log: Option<Log<Lossy>>,
    /// Decided and not yet appended.
    pub waiting: VecDeque<OwnedEntry>,
    /// The newest batch decided.
    pub last: Index,
    /// What was true after each batch that may still be recovered.
    pub points: BTreeMap<Index, Point>,
    /// The newest batch that no crash may take away.
    pub durable: Index,
    /// Bases begun, by what they cover: when. What is in place may be any of them.
    pub bases: BTreeMap<Index, Vec<Micros>>,
    base: Option<Base>,
    /// A base covers all before this: to be dropped.
    drop_before: Option<Index>,
    /// Bytes of the record's facts that are in batches.
    pub told: usize,
    /// The greatest number of a token or made id of those that must not come again.
    pub number: u64,
    /// The greatest one ever.
    pub number_ever: u64,
    pub pace: Pace,
}

/// A base being written.
struct Base {
    writer: BaseWriter<Lossy>,
    /// All its images have been written.
    imaged: bool,
}

impl Run {
    pub fn new(seed: u64) -> Run {
        let mut world = World::new(seed, false);
        let mut rng = SmallRng::seed_from_u64(!seed);
        let options = &mut world.workload.options;
        options.herd_max = options.herd_max.min(200);
        options.crowd = options.crowd.min(8);
        let storage = Lossy::new();
        let log = Log::open(Arc::clone(&storage), OPTIONS, Index(0)).expect("nothing is there").0;
        let pace = Pace::draw(&mut rng);
        let mut run = Run {
            world,
            rng,
            storage,
            log: Some(log),
            waiting: VecDeque::new(),
            last: Index(0),
            points: BTreeMap::new(),
            durable: Index(0),
            bases: BTreeMap::new(),
            base: None,
            drop_before: None,
            told: 0,
            number: 0,
            number_ever: 0,
            pace,
        };
        let mut point = run.point(1);
        point.now = Micros(0);
        run.points.insert(Index(0), point);
        run
    }

    /// Turns until something ends the process.
    pub fn live(&mut self, seen: &mut Seen) {
        self.pace = Pace::draw(&mut self.rng);
        let within = [10, 60, 250][self.rng.random_range(0..3)];
        let operation = self.rng.random_range(0..within);
        match self.rng.random_range(0..10) {
            0..5 => self.storage.fail_after(operation, Fault::Death),
            5 => self.storage.fail_after(operation, Fault::Error(ErrorKind::StorageFull)),
            6 => self.storage.fail_after(operation, Fault::Error(ErrorKind::Other)),
            _ => {}
        }
        let turns = [5, 60, 250][self.rng.random_range(0..3)];
        let turns = self.rng.random_range(0..turns);
        if self.turns(turns, seen) && self.rng.random_ratio(2, 3) {
            // All is durable, and nothing may be lost.
            self.calm_turn();
            let _ = self.settle(seen);
        }
    }

    /// So many turns; false if something ended the process.
    pub fn turns(&mut self, turns: u32, seen: &mut Seen) -> bool {
        (0..turns).all(|_| {
            match self.rng.random_range(0..12) {
                0 => self.calm_turn(),
                _ => self.turn(),
            }
            self.keep(seen).is_ok()
        })
    }

    fn turn(&mut self) {
        self.world.turn();
        self.propose(None);
    }

    /// A turn after which nothing is left to be done, and of which all is remembered.
    fn calm_turn(&mut self) {
        self.world.turn();
        if self.world.workload.options.flows > 0 {
            return self.propose(None);
        }
        self.world.catch_up();
        self.world.end_turn();
        let (engine, now) = (&mut self.world.engine, self.world.now);
        // Queues that were removed are kept until a running base has their jobs.
        let memory_bytes = (!engine.is_base_running()).then(|| engine.memory_bytes());
        // What is held waits for its next try, which a start does at once.
        let held = engine.schedule_counts().held > 0;
        let few = !held && engine.job_counts().iter().sum::<u64>() <= PICTURE_JOBS_MAX;
        let picture = few.then(|| picture::of(engine, now));
        self.propose(Some(Calm { memory_bytes, picture }));
    }

    /// The turn's facts become a batch.
    pub fn propose(&mut self, calm: Option<Calm>) {
        let body = self.world.record.facts[self.told..].to_vec();
        self.told = self.world.record.facts.len();
        let facts = Facts { bytes: body, count: 0 };
        let count = self.note_numbers(&facts);
        if count == 0 && calm.is_none() && !self.rng.random_ratio(1, 30) {
            return;
        }
        let first = self.points[&self.last].first;
        self.last = self.last.next();
        let (index, now, body) = (self.last, self.world.now, facts.bytes);
        self.waiting.push_back(OwnedEntry {
            kind: RecordKind::Facts,
            index,
            epoch: EPOCH,
            node: 0,
            first,
            now,
            count,
            body,
        });
        let point = Point { calm, ..self.point(first + u64::from(count)) };
        self.points.insert(index, point);
    }

    fn point(&self, first: u64) -> Point {
        Point::of(&self.world.engine, self.world.now, first, self.number)
    }

    /// Tokens and made ids only grow, whatever was recovered in between.
    fn note_numbers(&mut self, facts: &Facts) -> u32 {
        let mut count = 0;
        for fact in facts.iter() {
            count += 1;
            let number = match fact.expect("own facts") {
                Fact::Leased { token, .. } => token.0,
                Fact::Added { id: FactId::Made(number), .. } => number,
                _ => continue,
            };
            assert!(number > self.number, "number {number} after {}", self.number);
            self.number = number;
        }
        self.number_ever = self.number_ever.max(self.number);
        count
    }

    /// What the threads of the journal do meanwhile. An error ends the process.
    fn keep(&mut self, seen: &mut Seen) -> io::Result<()> {
        if self.chance(self.pace.spare) {
            self.make_spare(seen)?;
        }
        self.keep_base(seen)?;
        if self.chance(self.pace.append) {
            // Several turns at once, or a part of what waits.
            let most = self.waiting.len();
            let count = if self.rng.random() { most } else { self.rng.random_range(0..=most) };
            self.append(count, seen)?;
        }
        if self.chance(self.pace.sync) {
            self.sync(seen)?;
        }
        if let Some(index) = self.drop_before.filter(|_| self.rng.random_ratio(1, 3)) {
            self.drop_before = None;
            let before = self.log().segments();
            let dropped = self.log().drop_before(index);
            self.poisoned_by(dropped, seen)?;
            let after = self.log().segments();
            seen.count("segments dropped", before - after);
        }
        Ok(())
    }

    /// Appends and syncs all there is.
    pub fn settle(&mut self, seen: &mut Seen) -> io::Result<()> {
        self.append(self.waiting.len(), seen)?;
        if self.waiting.is_empty() {
            self.sync(seen)?;
        }
        Ok(())
    }

    fn chance(&mut self, of_100: u32) -> bool {
        self.rng.random_range(0..100) < of_100
    }

    pub fn log(&mut self) -> &mut Log<Lossy> {
        self.log.as_mut().expect("the process runs")
    }

    fn append(&mut self, count: usize, seen: &mut Seen) -> io::Result<()> {
        let group: Vec<SegmentEntry<'_>> =
            self.waiting.iter().take(count).map(OwnedEntry::entry).collect();
        let log = self.log.as_mut().expect("the process runs");
        let appended = log.append(&group);
        if appended.is_ok() {
            self.waiting.drain(..count);
        } else if !log.is_poisoned() {
            return self.go_on(appended, seen);
        }
        self.poisoned_by(appended, seen)
    }

    fn sync(&mut self, seen: &mut Seen) -> io::Result<()> {
        let synced = self.log().sync();
        self.poisoned_by(synced.map(drop), seen)
    }

    fn make_spare(&mut self, seen: &mut Seen) -> io::Result<()> {
        let made = self.log().spare_maker().make();
        match made {
            Ok(spare) => {
                self.log().add_spare(spare);
                seen.note("spares made");
                Ok(())
            }
            Err(error) => self.go_on(Err(error), seen),
        }
    }

    /// After an error of the log that poisons it, the process is as good as dead.
    fn poisoned_by(&mut self, result: io::Result<()>, seen: &mut Seen) -> io::Result<()> {
        let (alive, log) = (self.is_alive(), self.log.as_ref().expect("the process runs"));
        assert_eq!(result.is_err(), log.is_poisoned());
        if result.is_err() && alive {
            seen.note("poisoned");
        }
        self.durable = self.durable.max(log.durable());
        result
    }

    /// An error after which the process goes on, unless it is dead.
    fn go_on(&mut self, result: io::Result<()>, seen: &mut Seen) -> io::Result<()> {
        if result.is_err() && !self.is_alive() {
            return result;
        }
        assert!(!self.log().is_poisoned());
        seen.note("went on after an error");
        Ok(())
    }

    pub fn is_alive(&self) -> bool {
        self.storage.list().is_ok()
    }

    /// The share of a base.
    fn keep_base(&mut self, seen: &mut Seen) -> io::Result<()> {
        match self.base.take() {
            None if self.chance(self.pace.base) => {
                let begun = self.begin_base();
                self.or_failed(begun, seen)
            }
            None => Ok(()),
            Some(base) if base.imaged => {
                if self.rng.random_ratio(1, 3) {
                    self.base = Some(base);
                    return Ok(());
                }
                let finished = base.writer.finish();
                self.finished(finished, seen)
            }
            Some(base) if self.rng.random_ratio(1, 60) => {
                self.world.engine.abandon_base();
                base.writer.abandon();
                seen.note("bases abandoned");
                self.go_on(Ok(()), &mut Seen::default())
            }
            Some(base) => {
                let written = self.slice(base);
                self.or_failed(written, seen)
            }
        }
    }

    fn begin_base(&mut self) -> io::Result<()> {
        let (index, now) = (self.last, self.world.now);
        let Point { first, digest, .. } = self.points[&index];
        assert_eq!(self.world.engine.digest(), digest, "without facts nothing changes");
        self.world.engine.begin_base();
        self.bases.entry(index).or_default().push(now);
        let head = BaseHead { index, first, now, epoch: EPOCH, shard: 0 };
        let writer = BaseWriter::begin(&self.storage, head)?;
        self.base = Some(Base { writer, imaged: false });
        Ok(())
    }

    fn slice(&mut self, mut base: Base) -> io::Result<()> {
        let images_max = self.rng.random_range(0..=self.pace.images_max);
        let bytes_max = [1, 1_000, usize::MAX][self.rng.random_range(0..3)];
        base.imaged = self.world.engine.base_slice(images_max, bytes_max);
        let images = mem::take(self.world.engine.base_output());
        if !images.is_empty() {
            let written = base.writer.write(&images);
            if written.is_err() {
                base.writer.abandon();
                return written;
            }
        }
        self.base = Some(base);
        Ok(())
    }

    fn finished(&mut self, finished: io::Result<(Index, u64)>, seen: &mut Seen) -> io::Result<()> {
        if let Ok((index, _)) = finished {
            self.durable = self.durable.max(index);
            self.drop_before = Some(index.next());
            seen.note("bases");
        }
        self.or_failed(finished.map(drop), seen)
    }

    /// A base that could not be written is given up.
    fn or_failed(&mut self, result: io::Result<()>, seen: &mut Seen) -> io::Result<()> {
        if result.is_err() {
            self.world.engine.abandon_base();
            return self.go_on(result, seen);
        }
        Ok(())
    }

    /// The process is gone, and what was not on the disk with it.
    pub fn crash(&mut self) {
        self.log = None;
        self.base = None;
        self.drop_before = None;
        self.waiting.clear();
    }

    /// Everybody leaves, all that is due is done, and nothing is left of anything.
    pub fn end(mut self) {
        self.world.settle();
        self.world.flush();
    }
}

impl Pace {
    /// Much happens in few turns; under `always`, or with batches that are not synced at once.
    pub fn busy(seed: u64) -> Pace {
        let sync = if seed.is_multiple_of(2) { 100 } else { 30 };
        Pace { append: 70, sync, base: 40, images_max: 30, spare: 3 }
    }

    fn draw(rng: &mut SmallRng) -> Pace {
        Pace {
            append: [10, 50, 100][rng.random_range(0..3)],
            // As under `no`, `everysec` and `always`.
            sync: [0, 10, 100][rng.random_range(0..3)],
            base: [0, 10, 50][rng.random_range(0..3)],
            images_max: [3, 30, 1_000][rng.random_range(0..3)],
            spare: [0, 2, 10][rng.random_range(0..3)],
        }
    }
}
