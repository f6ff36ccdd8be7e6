//! Looks a journal through without changing anything: every file, and whether a start would succeed.
//!
//! It does what a start does, with the same parts (base, log, engine), and counts meanwhile. The verdict is whether a
//! start would be refused; files that a start ignores (bases that a newer one replaced) are reported, but do not count.

use crate::engine::model::fact::FactReader;
use crate::engine::record::Image;
use crate::engine::{Engine, Loader, Settings};
use crate::ids::Index;
use crate::journal::base::{self, BaseReader};
use crate::journal::error::JournalError;
use crate::journal::log::LogOptions;
use crate::journal::log::reader::{Cut, LogReader, Opened, Records};
use crate::journal::log::segment::{Segment, segment_number};
use crate::journal::record::header::{FoundHeader, HEADER_BYTES, Header, Magic};
use crate::journal::record::raft_state::LogState;
use crate::journal::recovery::{Offered, Replay};
use crate::journal::storage::{File, Storage};
use crate::time::Micros;
use std::sync::Arc;

/// The role of a file in the journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// The base that a start loads.
    Base,
    /// A base that a newer one replaced.
    OldBase,
    /// A base that was never finished.
    Unfinished,
    Log,
    /// A segment that is no longer needed: a base covers it, or it was cut. It will be used again.
    Used,
    /// A segment that was never used.
    Spare,
    /// A segment without a whole header, which nothing says is needed.
    Headless,
}

#[derive(Clone, Debug)]
pub struct FileReport {
    pub name: String,
    pub used_as: Use,
    /// For a segment: the number of its use.
    pub generation: Option<u64>,
    /// Its first batch; of a base 1.
    pub first: Option<Index>,
    /// The last batch that was read from it; of a base the last that it covers.
    pub last: Option<Index>,
    /// Facts or images that were read.
    pub records: u64,
    pub bytes: u64,
}

/// Where the log can be cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spot {
    /// The first batch that is lost.
    pub index: Index,
    /// The segment where it is, or should be.
    pub segment: u64,
    /// And its place there.
    pub offset: u64,
    /// The first record that is lost, a batch or not.
    pub lsn: u64,
    /// The log's state before it.
    pub state: LogState,
}

/// Whether a start would succeed.
#[derive(Debug, Default)]
pub enum Verdict {
    /// It would.
    #[default]
    Good,
    /// It would, and cut what was never fully written.
    Torn(Cut, Box<Spot>),
    /// A start would be refused. With a spot the log can be cut there.
    Damaged(JournalError, Option<Box<Spot>>),
    /// It could not be found out.
    Unreadable(JournalError),
}

#[derive(Debug, Default)]
pub struct Report {
    /// All files: bases, the log from its oldest segment on, the other segments.
    pub files: Vec<FileReport>,
    pub verdict: Verdict,
    /// Jobs by state (delayed, ready, leased, dead), as far as the journal could be read.
    pub jobs: [u64; 4],
    /// Queues, those without a job included.
    pub queues: u64,
    pub schedules: u64,
    pub index: Index,
    /// The last instant that the journal knows of; 0 if it is empty.
    pub now: Micros,
    /// The last batch that the base covers; 0 without one.
    pub base: Index,
    /// Batches and facts read after the base.
    pub replayed: (u64, u64),
    /// The log's information besides the facts; as far as it could be read.
    pub log: LogReport,
    /// Further notices for an operator, a line each.
    pub notices: Vec<String>,
}

/// The log's information besides the facts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogReport {
    /// The newest record; 0 without one.
    pub last_lsn: u64,
    /// How many of each kind there are.
    pub records: Records,
    /// Vote, members, what is committed.
    pub state: LogState,
    /// Batches after the committed ones.
    pub uncommitted: u64,
}

/// The beginning of a file.
struct Listed {
    report: FileReport,
    number: Option<u64>,
}

/// How far the reading came.
struct CheckProgress<'p> {
    engine: Engine,
    replay: Replay,
    base: Index,
    base_bytes: u64,
    replayed: (u64, u64),
    /// Images read from the base.
    images: u64,
    /// Segments of the log: their numbers, the last batch read from each, and how many facts.
    log: Vec<(u64, Option<Index>, u64)>,
    cut: Option<Cut>,
    told: LogReport,
    notices: Vec<String>,
    progress: &'p mut dyn FnMut(u64, u64),
}

type Failed = (JournalError, Option<Box<Spot>>);

/// Checks a journal. `progress` gets the bytes read and about how many there are. Takes as much memory as the server
/// does.
pub fn check<S: Storage>(storage: &Arc<S>, progress: &mut dyn FnMut(u64, u64)) -> Report {
    let mut listed = match list(&**storage) {
        Ok(listed) => listed,
        Err(error) => return Report::unreadable(error),
    };
    let newest = newest_base(&listed, None);
    let mut reading = CheckProgress::new(progress);
    let read = reading.read(storage, newest.as_deref());
    for Listed { report, number } in &mut listed {
        if report.used_as == Use::Base {
            report.records = reading.images;
        }
        if let Some((_, last, facts)) = reading.log.iter().find(|(of, ..)| Some(*of) == *number) {
            (report.used_as, report.last, report.records) = (Use::Log, *last, *facts);
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
        queues: reading.engine.named_count() as u64,
        schedules: reading.engine.schedule_counts().all(),
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
        Report { verdict: Verdict::Unreadable(error), ..Report::default() }
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

impl<'p> CheckProgress<'p> {
    fn new(progress: &'p mut dyn FnMut(u64, u64)) -> CheckProgress<'p> {
        CheckProgress {
            engine: Engine::new(Settings::default()),
            replay: Replay::default(),
            base: Index(0),
            base_bytes: 0,
            replayed: (0, 0),
            images: 0,
            log: Vec::new(),
            cut: None,
            told: LogReport::default(),
            notices: Vec::new(),
            progress,
        }
    }

    /// Reads the base of this name, then the log.
    fn read<S: Storage>(&mut self, storage: &Arc<S>, base: Option<&str>) -> Result<(), Failed> {
        if let Some(name) = base {
            self.load(&**storage, name).map_err(|error| (error, None))?;
        }
        let options = LogOptions::default();
        let reader = LogReader::open(Arc::clone(storage), options, self.base);
        let mut reader = reader.map_err(|error| (error, None))?;
        self.log = reader.segments().into_iter().map(|number| (number, None, 0)).collect();
        self.notices = reader.notices().to_vec();
        let read = self.follow(&mut reader);
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
            let images = &mut FactReader::new(images);
            while !images.is_done() {
                let image = Image::read(images).expect("the loader has read it");
                self.images += u64::from(is_record(&image));
            }
        }
        let head = reader.head().expect("a base that was read to its end has told its head");
        let engine = Engine::loaded(loader);
        self.engine = engine.map_err(|error| reader.damaged(bytes, &error.to_string()))?;
        (self.replay, self.base, self.base_bytes) = (Replay::after(&head), head.index, bytes);
        Ok(())
    }

    /// Replays the log; `last` is the last batch that was in order.
    fn follow<S: Storage>(&mut self, reader: &mut LogReader<S>) -> Result<(), JournalError> {
        loop {
            let (read, total) = reader.progress();
            (self.progress)(self.base_bytes + read, self.base_bytes + total);
            let Some((segment, entry)) = reader.next_of_all()? else { return Ok(()) };
            let (index, count) = (entry.index, u64::from(entry.count));
            match self.replay.offer(&mut self.engine, &entry) {
                Offered::Void(what) => return Err(reader.damaged(what)),
                Offered::Old => {}
                Offered::Applied => {
                    self.replayed = (self.replayed.0 + 1, self.replayed.1 + count);
                }
            }
            if let Some((_, last, facts)) = self.log.iter_mut().find(|(of, ..)| *of == segment) {
                (*last, *facts) = (Some(index), *facts + count);
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

    /// A cut there, after everything that is in order.
    fn spot(&self, file: &str, offset: u64) -> Option<Box<Spot>> {
        let segment = segment_number(file)?;
        let LogReport { last_lsn, state, .. } = self.told.clone();
        let (index, lsn) = (state.last.index.next(), last_lsn + 1);
        Some(Box::new(Spot { index, segment, offset, lsn, state }))
    }
}

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
                    FoundHeader::Header(header) => {
                        generation = Some(header.generation);
                        let mut segment =
                            Segment::new(number.unwrap_or(0), Arc::new(file), header, bytes);
                        segment.learn().map_err(JournalError::io(&name, "read"))?;
                        first = segment.first_batch();
                        Use::Used
                    }
                    FoundHeader::Zeros => Use::Spare,
                    FoundHeader::Version(_) | FoundHeader::Broken => Use::Headless,
                }
            }
        };
        let records = 0;
        let report = FileReport { name, used_as, generation, first, last: index, records, bytes };
        listed.push(Listed { report, number });
    }
    Ok(listed)
}

/// The newest base, or the newest but `not`.
fn newest_base(listed: &[Listed], not: Option<&str>) -> Option<String> {
    let names = listed.iter().map(|listed| &listed.report.name);
    base::newest_of(names.filter(|name| Some(name.as_str()) != not).cloned())
}

/// Whether an image is part of the state: the first ones of a base and its last are not.
fn is_record(image: &Image<'_>) -> bool {
    use Image::{Begin, End, Leading, Schedules};
    !matches!(image, Begin { .. } | Leading(_) | Schedules { .. } | End(_))
}

fn count_images(storage: &impl Storage, name: &str) -> Result<u64, JournalError> {
    let mut reader = BaseReader::open(storage, name)?;
    let mut count = 0;
    loop {
        let offset = reader.offset();
        let Some(images) = reader.next_images()? else { return Ok(count) };
        let bytes = images.len();
        let images = &mut FactReader::new(images);
        let mut read = Ok(());
        while !images.is_done() && read.is_ok() {
            read = Image::read(images).map(|image| count += u64::from(is_record(&image)));
        }
        if let Err(error) = read {
            let what = format!("an image of {bytes} bytes: {error}");
            return Err(reader.damaged(offset, &what));
        }
    }
}

/// A damaged base cannot be repaired, but its content may still exist, in an older base, or in segments that were not
/// reused since.
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
        let mut reading = CheckProgress::new(silent);
        let read = reading.read(storage, name.as_deref());
        if read.is_ok() && reading.replay.index >= covered {
            let of = match &name {
                Some(name) => format!("{name} and the log after it hold"),
                None => "the log holds".to_owned(),
            };
            return vec![format!(
                "{of} everything in {newest}, up to batch {}: move {newest} out of the folder, and the server starts \
                 with all jobs",
                reading.replay.index
            )];
        }
    }
    vec![format!(
        "a base cannot be repaired, and neither an older one nor the log alone has everything in {newest}: you need \
         an older copy of the folder"
    )]
}
