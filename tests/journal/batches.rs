//! Batches made up for tests, and logs opened and read as a start does it.

use crate::support::lossy::Lossy;
use delayd::ids::Index;
use delayd::journal::record::RecordKind;
use delayd::journal::record::raft_state::{LogPosition, Members};
use delayd::journal::{
    JournalError, Log, LogOptions, LogReader, Opened, OwnedEntry, SegmentEntry, Storage,
};
use delayd::time::Micros;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

/// The smallest segments there are.
pub const OPTIONS: LogOptions = LogOptions { segment_bytes: 64 << 10, shard: 0, spares_max: 2 };

/// What the state of a node alone takes: the first record of each segment, and its bytes that count.
pub const STATE_SPAN: usize = 192;
pub const STATE_BYTES: usize = 88 + 99;

/// Makes batches that follow each other, no two of them alike.
#[derive(Clone)]
pub struct Maker {
    pub rng: SmallRng,
    pub next: Index,
    pub first: u64,
    made: u64,
}

impl Maker {
    pub fn new(seed: u64) -> Maker {
        Maker { rng: SmallRng::seed_from_u64(seed), next: Index(1), first: 1, made: 0 }
    }

    /// A batch with this body.
    pub fn with(&mut self, body: Vec<u8>) -> OwnedEntry {
        let count = self.rng.random_range(0..4);
        self.made += 1;
        let (index, first, now) = (self.next, self.first, Micros(self.made));
        (self.next, self.first) = (index.next(), first + u64::from(count));
        OwnedEntry { kind: RecordKind::Facts, index, epoch: 1, node: 0, first, now, count, body }
    }

    /// A batch with a body of this size, of random bytes or few different ones.
    pub fn sized(&mut self, bytes: usize) -> OwnedEntry {
        let different = [1, 2, 256][self.rng.random_range(0..3)];
        let body = (0..bytes).map(|_| self.rng.random_range(0..different) as u8).collect();
        self.with(body)
    }

    /// A batch as turns have them: mostly small, seldom larger than a segment.
    pub fn any(&mut self) -> OwnedEntry {
        let bytes = match self.rng.random_range(0..100) {
            0..10 => 0,
            10..60 => self.rng.random_range(0..300),
            60..70 => 64,
            70..90 => self.rng.random_range(0..4_000),
            90..97 => self.rng.random_range(0..40_000),
            97..99 => self.rng.random_range(60_000..66_000),
            _ => self.rng.random_range(66_000..200_000),
        };
        self.sized(bytes)
    }

    /// A batch without facts.
    pub fn aside(&mut self, kind: RecordKind, bytes: usize) -> OwnedEntry {
        let entry = self.sized(bytes);
        self.first = entry.first;
        OwnedEntry { kind, node: 7, count: 0, ..entry }
    }

    /// What is made next follows this one.
    pub fn go_on_after(&mut self, last: &OwnedEntry) {
        self.next = last.index.next();
        self.first = last.first + u64::from(last.count);
    }
}

/// Appends these in one call.
pub fn append<S: Storage>(log: &mut Log<S>, entries: &[OwnedEntry]) -> std::io::Result<()> {
    let entries: Vec<SegmentEntry<'_>> = entries.iter().map(OwnedEntry::entry).collect();
    log.append(&entries)
}

/// Opens the log and reads it.
pub type Start<S> = Result<(Log<S>, Opened, Vec<OwnedEntry>), JournalError>;

pub fn start<S: Storage>(storage: &Arc<S>, after: Index) -> Start<S> {
    read(LogReader::open(Arc::clone(storage), OPTIONS, after)?)
}

/// As [`start`], behind a base of a member of a cluster.
pub fn start_behind<S: Storage>(
    storage: &Arc<S>,
    base: LogPosition,
    members: Option<Members>,
) -> Start<S> {
    read(LogReader::open_behind(Arc::clone(storage), OPTIONS, base, members)?)
}

fn read<S: Storage>(mut reader: LogReader<S>) -> Start<S> {
    let mut read = Vec::new();
    while let Some(entry) = reader.next_batch()? {
        read.push(entry.to_owned());
    }
    let (log, opened) = reader.finish()?;
    Ok((log, opened, read))
}

/// A log on an empty storage.
pub fn fresh() -> (Arc<Lossy>, Log<Lossy>) {
    let storage = Lossy::new();
    let (log, _, read) = start(&storage, Index(0)).unwrap();
    assert!(read.is_empty());
    (storage, log)
}
