//! Looks a journal through without changing anything: every file, and whether a start would succeed.
//!
//! It does what a start does, with the same parts (base, log, engine), and counts meanwhile. What a
//! start would refuse is the verdict; what a start would not look at (bases that a newer one replaced)
//! is told, but does not count.

mod ledger;

use crate::engine::model::fact::{Fact, Reader};
use crate::engine::record::Image;
use crate::engine::{Engine, Loader, Settings};
use crate::ids::Index;
use crate::journal::base::{self, BaseReader};
use crate::journal::error::JournalError;
use crate::journal::header::{Found, HEADER_BYTES, Header, Magic};
use crate::journal::log::LogOptions;
use crate::journal::reader::{Cut, LogReader, Opened, Records};
use crate::journal::record::Kind;
use crate::journal::recovery::{Offered, Replay};
use crate::journal::segment::{Segment, segment_number};
use crate::journal::state::State;
use crate::journal::storage::{File, Storage};
use crate::time::Micros;
use ledger::Ledger;
use std::sync::Arc;

/// What a file is to the journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// The base that a start loads.
    Base,
    /// A base that a newer one replaced.
    OldBase,
    /// A base that was never finished.
    Unfinished,
    /// A segment of the log.
    Log,
    /// A segment of no use any more: a base covers it, or it was cut. It will be used again.
    Used,
    /// A segment that was never used.
    Spare,
    /// A segment without a whole header, which nothing says is needed.
    Headless,
}

/// What there is to say of a file.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "what has no words here is what its name says")]
pub struct FileReport {
    pub name: String,
    pub used_as: Use,
    /// Of a segment: the number of its use.
    pub generation: Option<u64>,
    /// Its first batch; of a base 1.
    pub first: Option<Index>,
    /// The last batch that was read from it; of a base the last that it covers.
    pub last: Option<Index>,
    /// Facts or images that were read.
    pub records: u64,
    /// How many of them tell of what is still there.
    pub live: u64,
    pub bytes: u64,
}

/// Where the log can be cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spot {
    /// The first batch that is lost.
    pub index: Index,
    /// The segment where it stands, or should stand.
    pub segment: u64,
    /// And its place there.
    pub offset: u64,
    /// The first record that is lost, a batch or not.
    pub lsn: u64,
    /// What the log knew before it.
    pub state: State,
}

/// Whether a start would succeed.
#[derive(Debug)]
pub enum Verdict {
    /// It would.
    Good,
    /// It would, and cut what was never fully written.
    Torn(Cut, Box<Spot>),
    /// It would be refused. With a spot the log can be cut there.
    Damaged(JournalError, Option<Box<Spot>>),
    /// It could not be found out.
    Unreadable(JournalError),
}

/// What was found.
#[derive(Debug)]
pub struct Report {
    /// All files: bases, the log from its oldest segment on, the other segments.
    pub files: Vec<FileReport>,
    /// Whether a start would succeed.
    pub verdict: Verdict,
    /// Jobs by state (delayed, ready, leased, dead), as far as the journal could be read.
    pub jobs: [u64; 4],
    /// Queues that exist.
    pub queues: u64,
    /// The newest batch.
    pub index: Index,
    /// The last instant that the journal knows of; 0 if it is empty.
    pub now: Micros,
    /// The last batch that the base covers; 0 without one.
    pub base: Index,
    /// Batches and facts read behind the base.
    pub replayed: (u64, u64),
    /// What the log knows beside the facts; as far as it could be read.
    pub log: LogReport,
    /// What else an operator should know, a line each.
    pub notices: Vec<String>,
}

/// What a log knows beside the facts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogReport {
    /// The newest record; 0 if there is none.
    pub last_lsn: u64,
    /// How many of each kind there are.
    pub records: Records,
    /// Vote, members, what is committed.
    pub state: State,
    /// Batches behind what is committed.
    pub uncommitted: u64,
}

/// What a file begins with.
struct Listed {
    report: FileReport,
    number: Option<u64>,
}

/// How far the reading came.
struct Reading<'p> {
    engine: Engine,
    replay: Replay,
    base: Index,
    base_bytes: u64,
    replayed: (u64, u64),
    ledger: Ledger,
    /// Segments of the log, and the last batch read from each.
    log: Vec<(u64, Option<Index>)>,
    cut: Option<Cut>,
    told: LogReport,
    notices: Vec<String>,
    progress: &'p mut dyn FnMut(u64, u64),
}

type Failed = (JournalError, Option<Box<Spot>>);

/// Looks a journal through. `progress` is told the bytes read and about how many there are. Takes as
/// much memory as the server does, and about 60 bytes more a job.
pub fn check<S: Storage>(storage: &Arc<S>, progress: &mut dyn FnMut(u64, u64)) -> Report {
    let mut listed = match list(&**storage) {
        Ok(listed) => listed,
        Err(error) => return Report::unreadable(error),
    };
    let newest = newest_base(&listed, None);
    let mut reading = Reading::new(progress);
    let read = reading.read(storage, newest.as_deref(), &listed);
    let live = reading.ledger.live();
    for (at, Listed { report, number }) in listed.iter_mut().enumerate() {
        report.records = reading.ledger.records(at);
        report.live = live.get(at).copied().unwrap_or(0);
        if let Some((_, last)) = reading.log.iter().find(|(of, _)| Some(*of) == *number) {
            (report.used_as, report.last) = (Use::Log, *last);
        }
    }
    let mut notices = std::mem::take(&mut reading.notices);
    for old in listed.iter_mut().filter(|listed| listed.report.used_as == Use::OldBase) {
        match count_images(&**storage, &old.report.name) {
            Ok(images) => old.report.records = images,
            Err(error) => notices.push(format!("{error}; a newer base replaces it")),
        }
    }
    let verdict = match read {
        Ok(()) => reading.verdict(),
        Err((error, spot)) => {
            if let (Some(newest), None) = (&newest, &spot) {
                notices.extend(way_out(storage, &listed, newest, &error));
            }
            Verdict::of(error, spot)
        }
    };
    let mut files: Vec<FileReport> = listed.into_iter().map(|listed| listed.report).collect();
    files.sort_by_key(|file| match file.used_as {
        Use::Base | Use::OldBase | Use::Unfinished => (0, None),
        Use::Log => (1, file.generation),
        Use::Used | Use::Spare | Use::Headless => (2, None),
    });
    Report {
        files,
        verdict,
        jobs: reading.engine.job_counts(),
        queues: reading.engine.queue_counts().iter().sum(),
        index: reading.replay.index,
        now: reading.replay.now,
        base: reading.base,
        replayed: reading.replayed,
        log: reading.told,
        notices,
    }
}

impl Report {
    fn unreadable(error: JournalError) -> Report {
        Report {
            files: Vec::new(),
            verdict: Verdict::Unreadable(error),
            jobs: [0; 4],
            queues: 0,
            index: Index(0),
            now: Micros(0),
            base: Index(0),
            replayed: (0, 0),
            log: LogReport::default(),
            notices: Vec::new(),
        }
    }
}

impl Verdict {
    fn of(error: JournalError, spot: Option<Box<Spot>>) -> Verdict {
        match error {
            JournalError::Damaged { .. } | JournalError::Gap { .. } => {
                Verdict::Damaged(error, spot)
            }
            _ => Verdict::Unreadable(error),
        }
    }
}

impl<'p> Reading<'p> {
    fn new(progress: &'p mut dyn FnMut(u64, u64)) -> Reading<'p> {
        Reading {
            engine: Engine::new(Settings::default()),
            replay: Replay::new(),
            base: Index(0),
            base_bytes: 0,
            replayed: (0, 0),
            ledger: Ledger::default(),
            log: Vec::new(),
            cut: None,
            told: LogReport::default(),
            notices: Vec::new(),
            progress,
        }
    }

    /// Reads the base of this name, then the log.
    fn read<S: Storage>(
        &mut self,
        storage: &Arc<S>,
        base: Option<&str>,
        listed: &[Listed],
    ) -> Result<(), Failed> {
        if let Some(name) = base {
            let file = listed.iter().position(|listed| listed.report.name == name);
            self.ledger.begin_file(file.unwrap_or(0));
            self.load(&**storage, name).map_err(|error| (error, None))?;
        }
        let options = LogOptions::default();
        let reader = LogReader::open(Arc::clone(storage), options, self.base);
        let mut reader = reader.map_err(|error| (error, None))?;
        self.log = reader.segments().into_iter().map(|number| (number, None)).collect();
        self.notices = reader.notices().to_vec();
        let read = self.follow(&mut reader, listed);
        let Opened { cut, last_lsn, records, state, uncommitted, .. } = reader.opened();
        let uncommitted = uncommitted.len() as u64;
        self.told = LogReport { last_lsn, records, state, uncommitted };
        (self.cut, self.notices) = (cut, reader.notices().to_vec());
        read.map_err(|error| {
            let spot = self.spot_of(&error);
            (error, spot)
        })
    }

    fn load<S: Storage>(&mut self, storage: &S, name: &str) -> Result<(), JournalError> {
        let mut reader = BaseReader::open(storage, name)?;
        let bytes = reader.bytes();
        let mut loader = Loader::new(Settings::default());
        loop {
            let offset = reader.offset();
            (self.progress)(offset, bytes);
            let Some(images) = reader.next_images()? else { break };
            if let Err(error) = loader.images(images) {
                return Err(reader.damaged(offset, &error.to_string()));
            }
            let images = &mut Reader::new(images);
            while !images.is_done() {
                let image = Image::read(images).expect("the loader has read it");
                self.ledger.image(&image);
            }
        }
        let head = reader.head().expect("a base that was read to its end has told its head");
        let engine = Engine::loaded(loader);
        self.engine = engine.map_err(|error| reader.damaged(bytes, &error.to_string()))?;
        (self.replay, self.base, self.base_bytes) = (Replay::after(&head), head.index, bytes);
        Ok(())
    }

    /// Replays the log; `last` is the last batch that was in order.
    fn follow<S: Storage>(
        &mut self,
        reader: &mut LogReader<S>,
        listed: &[Listed],
    ) -> Result<(), JournalError> {
        let mut file = None;
        loop {
            let (read, total) = reader.progress();
            (self.progress)(self.base_bytes + read, self.base_bytes + total);
            let Some((segment, entry)) = reader.next_of_all()? else { return Ok(()) };
            if file != Some(segment) {
                file = Some(segment);
                let at = listed.iter().position(|listed| listed.number == file);
                self.ledger.begin_file(at.unwrap_or(listed.len()));
            }
            let (kind, index, count) = (entry.kind, entry.index, u64::from(entry.count));
            match self.replay.offer(&mut self.engine, &entry) {
                Offered::Void(what) => return Err(reader.damaged(what)),
                Offered::Old => self.ledger.covered(count),
                Offered::Applied => {
                    self.replayed = (self.replayed.0 + 1, self.replayed.1 + count);
                    let body = if kind == Kind::Facts { entry.body } else { &[] };
                    let facts = &mut Reader::new(body);
                    while !facts.is_done() {
                        self.ledger.fact(&Fact::decode(facts).expect("it was applied"));
                    }
                }
            }
            if let Some((_, last)) = self.log.iter_mut().find(|(of, _)| *of == segment) {
                *last = Some(index);
            }
        }
    }

    fn verdict(&self) -> Verdict {
        match &self.cut {
            None => Verdict::Good,
            Some(cut) => {
                let spot = self.spot(&cut.file, cut.offset).expect("the log is cut in a segment");
                Verdict::Torn(cut.clone(), spot)
            }
        }
    }

    /// Where the log can be cut because of this error.
    fn spot_of(&self, error: &JournalError) -> Option<Box<Spot>> {
        let JournalError::Damaged { file, offset, .. } = error else { return None };
        self.spot(file, *offset)
    }

    /// A cut there, behind all that is in order.
    fn spot(&self, file: &str, offset: u64) -> Option<Box<Spot>> {
        let segment = segment_number(file)?;
        let LogReport { last_lsn, state, .. } = self.told.clone();
        let (index, lsn) = (state.last.index.next(), last_lsn + 1);
        Some(Box::new(Spot { index, segment, offset, lsn, state }))
    }
}

/// All files of the journal.
fn list(storage: &impl Storage) -> Result<Vec<Listed>, JournalError> {
    let mut names = storage.list().map_err(JournalError::io("the journal", "list"))?;
    names.sort_unstable();
    let newest = base::newest_of(names.iter().cloned());
    let mut listed = Vec::new();
    for name in names {
        let (number, index) = (segment_number(&name), base::index_of(&name));
        if number.is_none() && index.is_none() && !base::is_unfinished(&name) {
            continue;
        }
        let file = storage.open(&name).map_err(JournalError::io(&name, "open"))?;
        let bytes = file.bytes().map_err(JournalError::io(&name, "read"))?;
        let (mut generation, mut first) = (None, index.map(|_| Index(1)));
        let used_as = match (number, index) {
            (None, None) => Use::Unfinished,
            (None, Some(_)) if newest.as_ref() == Some(&name) => Use::Base,
            (None, Some(_)) => Use::OldBase,
            (Some(_), _) => {
                let mut block = vec![0; HEADER_BYTES as usize];
                let filled = file.read_full(&mut block, 0);
                let filled = filled.map_err(JournalError::io(&name, "read"))?;
                match Header::decode(&block[..filled], Magic::Segment) {
                    Found::Header(header) => {
                        generation = Some(header.generation);
                        let mut segment =
                            Segment::new(number.unwrap_or(0), Arc::new(file), header, bytes);
                        segment.learn().map_err(JournalError::io(&name, "read"))?;
                        first = segment.first_batch();
                        Use::Used
                    }
                    Found::Zeros => Use::Spare,
                    Found::Version(_) | Found::Broken => Use::Headless,
                }
            }
        };
        let (records, live) = (0, 0);
        let report =
            FileReport { name, used_as, generation, first, last: index, records, live, bytes };
        listed.push(Listed { report, number });
    }
    Ok(listed)
}

/// The newest base, or the newest but `not`.
fn newest_base(listed: &[Listed], not: Option<&str>) -> Option<String> {
    let names = listed.iter().map(|listed| &listed.report.name);
    base::newest_of(names.filter(|name| Some(name.as_str()) != not).cloned())
}

fn count_images(storage: &impl Storage, name: &str) -> Result<u64, JournalError> {
    let mut reader = BaseReader::open(storage, name)?;
    let mut count = 0;
    loop {
        let offset = reader.offset();
        let Some(images) = reader.next_images()? else { return Ok(count) };
        let bytes = images.len();
        let images = &mut Reader::new(images);
        let mut read = Ok(());
        while !images.is_done() && read.is_ok() {
            read = Image::read(images).map(|image| {
                count += u64::from(!matches!(image, Image::Begin { .. } | Image::End(_)));
            });
        }
        if let Err(error) = read {
            let what = format!("an image of {bytes} bytes: {error}");
            return Err(reader.damaged(offset, &what));
        }
    }
}

/// A damaged base cannot be repaired: what was written at its place may be there all the same, in an
/// older base, or in segments that were not used again since.
fn way_out<S: Storage>(
    storage: &Arc<S>,
    listed: &[Listed],
    newest: &str,
    error: &JournalError,
) -> Vec<String> {
    if !matches!(error, JournalError::Damaged { file, .. } if file == newest) {
        return Vec::new();
    }
    let covered = base::index_of(newest).unwrap_or_default();
    let older = newest_base(listed, Some(newest));
    for name in older.map(Some).into_iter().chain([None]) {
        let silent = &mut |_, _| {};
        let mut reading = Reading::new(silent);
        let read = reading.read(storage, name.as_deref(), listed);
        if read.is_ok() && reading.replay.index >= covered {
            let of = match &name {
                Some(name) => format!("{name} and the log behind it hold"),
                None => "the log holds".to_owned(),
            };
            return vec![format!(
                "{of} all that {newest} told, up to batch {}: move {newest} out of the folder, and the \
                 server starts with all jobs",
                reading.replay.index
            )];
        }
    }
    vec![format!(
        "a base cannot be repaired here, and neither an older one nor the log alone holds what {newest} \
         told: what is left is a copy of the folder from before"
    )]
}
