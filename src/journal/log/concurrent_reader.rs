//! The log read concurrently with its writer, by another thread: for members that are behind.
//!
//! After each of its operations the writer publishes where the log's batches are; the reader reads them without
//! blocking anything. A reader notices that it was overtaken: a segment that was dropped and reused fails its
//! checksums, because its salt has changed, and a cut is counted.

use crate::ids::Index;
use crate::journal::error::JournalError;
use crate::journal::log::batch_run::{Batches, Run};
use crate::journal::log::places::Places;
use crate::journal::log::segment::Segment;
use crate::journal::record::Seed;
use crate::journal::record::entry::OwnedEntry;
use crate::journal::record::raft_state::LogPosition;
use crate::journal::storage::Storage;
use crate::lock::lock;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// A view of a log. Clones of it see the same; it sees the log until that is closed or poisoned, and then
/// what it was last.
#[derive(Debug)]
pub struct LogView<S: Storage>(Arc<Mutex<LogTable<S>>>);

/// The log's batches and their places.
#[derive(Debug)]
struct LogTable<S: Storage> {
    parts: VecDeque<ViewSegment<S>>,
    places: Places,
    before: LogPosition,
    last: Index,
    committed: Index,
    durable: Index,
    /// How many cuts there were since the view was made.
    cuts: u64,
}

/// A segment.
#[derive(Debug)]
struct ViewSegment<S: Storage> {
    first: u64,
    number: u64,
    seed: Seed,
    file: Arc<S::File>,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::journal) enum LogChange {
    /// A batch is there.
    Batch(Index, u64, u64),
    /// Batches after this one are void.
    Cut(Index),
}

#[derive(Clone, Copy, Debug)]
pub(in crate::journal) struct LogBounds {
    pub before: LogPosition,
    pub last: Index,
    pub committed: Index,
    pub durable: Index,
}

impl<S: Storage> LogView<S> {
    pub(in crate::journal) fn new(
        places: Places,
        segments: &VecDeque<Segment<S::File>>,
        told: LogBounds,
    ) -> LogView<S> {
        let LogBounds { before, last, committed, durable } = told;
        let (parts, cuts) = (VecDeque::new(), 0);
        let table = LogTable { parts, places, before, last, committed, durable, cuts };
        let view = LogView(Arc::new(Mutex::new(table)));
        view.tell(std::iter::empty(), segments, told);
        view
    }

    /// The writer has done this, and these are its segments now.
    pub(in crate::journal) fn tell(
        &self,
        changes: impl Iterator<Item = LogChange>,
        segments: &VecDeque<Segment<S::File>>,
        told: LogBounds,
    ) {
        let mut table = self.table();
        for change in changes {
            match change {
                LogChange::Batch(index, segment, at) => table.places.push(index, segment, at),
                LogChange::Cut(index) => {
                    table.places.cut(index);
                    table.cuts += 1;
                }
            }
        }
        let oldest = segments.front().map_or(u64::MAX, Segment::first);
        while table.parts.front().is_some_and(|part| part.first < oldest) {
            table.parts.pop_front();
        }
        // One without a record may have given way to another.
        let known =
            |part: &ViewSegment<S>| segments.iter().rev().any(|segment| segment.seed == part.seed);
        while table.parts.back().is_some_and(|part| !known(part)) {
            table.parts.pop_back();
        }
        let newest = table.parts.back().map_or(0, |part| part.first);
        for segment in segments.iter().filter(|segment| segment.first() > newest) {
            let (first, number, seed) = (segment.first(), segment.number, segment.seed);
            table.parts.push_back(ViewSegment {
                first,
                number,
                seed,
                file: Arc::clone(&segment.file),
            });
        }
        if oldest < u64::MAX {
            table.places.drop_before(oldest);
        }
        let LogBounds { before, last, committed, durable } = told;
        (table.before, table.last) = (before, last);
        (table.committed, table.durable) = (committed, durable);
    }

    /// The first and the last batch that is written; of an empty log the last is the first less 1.
    pub fn bounds(&self) -> (Index, Index) {
        let table = self.table();
        (table.before.index.next(), table.last)
    }

    /// The newest batch known committed, and the newest known durable.
    pub fn reached(&self) -> (Index, Index) {
        let table = self.table();
        (table.committed, table.durable)
    }

    /// As [`Log::read`](crate::journal::Log::read): batches as they were at one moment of the call, without those that
    /// are cut meanwhile.
    ///
    /// # Errors
    /// [`JournalError::Gap`] if `from` is before the first batch, also if it is so only now.
    pub fn read(
        &self,
        from: Index,
        to: Index,
        byte_limit: usize,
    ) -> Result<Vec<OwnedEntry>, JournalError> {
        loop {
            let (cuts, first, last) = self.moment();
            if from < first {
                let after = Index(from.0.saturating_sub(1));
                return Err(JournalError::Gap { file: "the log".to_owned(), first, after });
            }
            let read = self.read_runs(from, to.min(last), byte_limit);
            let (cuts_now, first_now, _) = self.moment();
            let found = read.as_ref().is_ok_and(|read| !read.is_empty());
            if cuts_now == cuts && (found || first_now <= from) {
                return read;
            }
        }
    }

    /// As [`Log::position`](crate::journal::Log::position).
    pub fn position(&self, index: Index) -> io::Result<Option<LogPosition>> {
        loop {
            let (cuts, first, last) = self.moment();
            let before = self.table().before;
            if index == before.index {
                return Ok(Some(before));
            }
            if index < first || index > last {
                return Ok(None);
            }
            let found = self.with_run(index, |run| run.head(index));
            let (cuts_now, first_now, _) = self.moment();
            match found {
                Some(found) if cuts_now == cuts && (found.is_ok() || first_now <= index) => {
                    return found.map(|head| {
                        let first = head.first + u64::from(head.count);
                        Some(LogPosition { index, epoch: head.epoch, first })
                    });
                }
                _ => {}
            }
        }
    }

    fn read_runs(
        &self,
        from: Index,
        to: Index,
        byte_limit: usize,
    ) -> Result<Vec<OwnedEntry>, JournalError> {
        let (mut batches, mut index) = (Batches::default(), from);
        while index <= to {
            let read = self.with_run(index, |run| run.read(index, to, byte_limit, &mut batches));
            // Batches that are missing now were cut or dropped meanwhile.
            match read.transpose()?.flatten() {
                Some(next) => index = next,
                None => break,
            }
        }
        Ok(batches.read)
    }

    /// The run that a batch is in, if it is there. Nothing is held while it is read.
    fn with_run<T>(&self, index: Index, work: impl FnOnce(&Run<'_, S::File>) -> T) -> Option<T> {
        let table = self.table();
        let (mark, end) = table.places.find(index)?;
        let part = table.parts.iter().rev().find(|part| part.first == mark.segment)?;
        let (number, seed, file) = (part.number, part.seed, Arc::clone(&part.file));
        drop(table);
        Some(work(&Run { number, file: &*file, seed, at: mark.at, end }))
    }

    fn moment(&self) -> (u64, Index, Index) {
        let table = self.table();
        (table.cuts, table.before.index.next(), table.last)
    }

    /// It is never held while a file is accessed.
    fn table(&self) -> MutexGuard<'_, LogTable<S>> {
        lock(&self.0)
    }
}

impl<S: Storage> Clone for LogView<S> {
    fn clone(&self) -> LogView<S> {
        LogView(Arc::clone(&self.0))
    }
}
