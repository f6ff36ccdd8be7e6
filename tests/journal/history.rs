//! A random history of a log, and what must be true of it at every moment.

use crate::batches::{Maker, append, start};
use crate::lossy::Lossy;
use delayd::ids::Index;
use delayd::journal::{JournalError, Log, OwnedEntry};
use rand::Rng;
use std::io;
use std::sync::Arc;

pub struct History {
    pub storage: Arc<Lossy>,
    pub maker: Maker,
    /// What the base covers.
    pub after: Index,
    /// Batches after the base, as far as they were appended.
    pub batches: Vec<OwnedEntry>,
    /// The newest one said to be durable.
    pub synced: Index,
    /// The sequence of the first fact after the base.
    first: u64,
    /// A cut was begun that may or may not have happened.
    cutting: Option<Index>,
}

impl History {
    pub fn new(seed: u64) -> History {
        let (storage, maker) = (Lossy::new(), Maker::new(seed));
        let (after, synced) = (Index(0), Index(0));
        History { storage, maker, after, batches: Vec::new(), synced, first: 1, cutting: None }
    }

    /// Opens the log; checks that it holds what it must and nothing else.
    pub fn open(&mut self) -> Result<Log<Lossy>, JournalError> {
        let short = self.maker.rng.random_range(0..3) * 700;
        self.storage.short_reads(short);
        let (log, opened, read) = start(&self.storage, self.after)?;
        let last = read.last().map_or(self.after, |entry| entry.index);
        assert_eq!(read[..], self.batches[..read.len()], "a prefix of what was appended");
        let cut = self.cutting.take() == Some(last);
        assert!(last >= self.synced || cut, "{} was synced, {last} is there", self.synced);
        assert_eq!((log.bounds().1, log.durable(), opened.last), (last, last, last));
        assert!(log.bounds().0 <= self.after.next(), "{:?} of {}", log.bounds(), self.after);
        self.batches.truncate(read.len());
        self.synced = last;
        self.go_on();
        Ok(log)
    }

    /// Does something. After an error of a log that is not poisoned nothing has changed.
    pub fn step(&mut self, log: &mut Log<Lossy>) -> io::Result<()> {
        match self.maker.rng.random_range(0..100) {
            0..55 => self.append(log)?,
            55..80 => {
                let synced = log.sync()?;
                assert_eq!(synced, self.last());
                self.synced = synced;
            }
            80..87 => self.cut(log)?,
            87..94 => self.compact(log)?,
            94..97 => log.add_spare(log.spare_maker().make()?),
            _ => self.read(log),
        }
        assert_eq!((log.bounds().1, log.durable()), (self.last(), self.known(log)));
        Ok(())
    }

    pub fn last(&self) -> Index {
        self.batches.last().map_or(self.after, |entry| entry.index)
    }

    /// What a full segment made durable on the way is durable too.
    fn known(&mut self, log: &Log<Lossy>) -> Index {
        assert!(log.durable() >= self.synced && log.durable() <= self.last());
        self.synced = log.durable();
        self.synced
    }

    fn append(&mut self, log: &mut Log<Lossy>) -> io::Result<()> {
        let made = self.maker.rng.random_range(1..5);
        let group: Vec<_> = (0..made).map(|_| self.maker.any()).collect();
        self.batches.extend_from_slice(&group);
        let appended = append(log, &group);
        if appended.is_err() && !log.is_poisoned() {
            self.batches.truncate(self.batches.len() - group.len());
            self.go_on();
        }
        appended
    }

    fn cut(&mut self, log: &mut Log<Lossy>) -> io::Result<()> {
        let index = Index(self.maker.rng.random_range(self.after.0..=self.last().0));
        self.cutting = Some(index);
        let cut = log.cut_after(index);
        if cut.is_err() {
            self.cutting = self.cutting.filter(|_| log.is_poisoned());
            return cut;
        }
        self.cutting = None;
        self.batches.truncate((index.0 - self.after.0) as usize);
        self.synced = self.synced.min(index);
        self.go_on();
        Ok(())
    }

    /// A base is complete: it may cover what the log has not synced.
    fn compact(&mut self, log: &mut Log<Lossy>) -> io::Result<()> {
        let after = Index(self.maker.rng.random_range(self.after.0..=self.last().0));
        let covered = self.batches.drain(..(after.0 - self.after.0) as usize).next_back();
        self.first = covered.map_or(self.first, |last| last.first + u64::from(last.count));
        self.after = after;
        log.drop_before(after.next())
    }

    fn read(&mut self, log: &Log<Lossy>) {
        if self.batches.is_empty() {
            return;
        }
        let from = self.maker.rng.random_range(0..self.batches.len());
        let to = self.maker.rng.random_range(from..self.batches.len());
        let limit = self.maker.rng.random_range(0..100_000);
        let read =
            log.read(self.batches[from].index, self.batches[to].index, limit).expect("to be read");
        assert_eq!(read[..], self.batches[from..from + read.len()]);
        let bytes: usize = read.iter().map(|entry| entry.body.len()).sum();
        assert!(!read.is_empty() && (bytes <= limit || read.len() == 1));
        let more = self.batches[from..=to].get(read.len());
        assert!(more.is_none_or(|next| bytes + next.body.len() > limit), "stopped too early");
    }

    /// The next batch made follows the last one.
    fn go_on(&mut self) {
        match self.batches.last() {
            Some(last) => self.maker.go_on_after(last),
            None => (self.maker.next, self.maker.first) = (self.after.next(), self.first),
        }
    }
}
