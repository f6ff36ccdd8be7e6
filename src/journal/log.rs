//! The log: the entry store of the journal.

mod write;

use crate::ids::Index;
use crate::journal::chain::Chain;
use crate::journal::entry::{Entry, OwnedEntry};
use crate::journal::error::JournalError;
use crate::journal::header::HEADER_BYTES;
use crate::journal::reader::{LogReader, Opened};
use crate::journal::record::{self, HEAD_BYTES};
use crate::journal::segment::{Segment, Spare, SpareMaker};
use crate::journal::storage::Storage;
use crate::journal::stream::{Place, Stream};
use crate::limits::{LOG_BUFFER_BYTES, LOG_READ_BYTES};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// How a log is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogOptions {
    /// The size of a segment file, header included: a multiple of 4096, at least 64 KiB.
    pub segment_bytes: u64,
    /// Whose log it is; 0.
    pub shard: u16,
    /// How many segments that are not needed any more are kept to be used again.
    pub spares_max: usize,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions { segment_bytes: 64 << 20, shard: 0, spares_max: 2 }
    }
}

/// The log. Not shared: one thread writes it.
///
/// After an error of a write or a sync it is *poisoned*: nothing is tried again, and every later
/// call that would write fails. What is after [`durable`](Log::durable) is then not known until the
/// log is opened anew. A spare that could not be made does not poison it.
pub struct Log<S: Storage> {
    storage: Arc<S>,
    options: LogOptions,
    maker: SpareMaker<S>,
    /// Oldest first; the last one is written to. Each begins where the one before ends.
    segments: VecDeque<Segment<S::File>>,
    spares: Vec<Spare<S>>,
    /// Of the newest header written.
    generation: u64,
    chain: Chain,
    durable: Index,
    /// Something was written to the last segment since its last sync. The others are synced.
    dirty: bool,
    buffer: Vec<u8>,
    poison: Option<String>,
    /// What names the newest segment, once it was opened.
    newest: Option<S::File>,
    /// The newest segment is not named there yet.
    unnoted: bool,
}

/// What an opening found, for [`Log::assemble`].
pub(super) struct Parts<S: Storage> {
    pub storage: Arc<S>,
    pub options: LogOptions,
    pub numbers_from: u64,
    pub segments: VecDeque<Segment<S::File>>,
    pub generation: u64,
    pub chain: Chain,
}

impl<S: Storage> Log<S> {
    /// Opens the log and reads it through; [`LogReader`] does the same and hands out what it reads.
    /// `after` is the last batch of the base, 0 without one: the log must go on from there.
    pub fn open(
        storage: Arc<S>,
        options: LogOptions,
        after: Index,
    ) -> Result<(Log<S>, Opened), JournalError> {
        LogReader::open(storage, options, after)?.finish()
    }

    /// Writes these batches, in order, without making them durable: one write for all that go to the
    /// same segment. What does not fit goes to the next spare; where there is none, one is made,
    /// which takes as long as writing a segment.
    ///
    /// # Errors
    /// If a spare was needed and could not be made (a full disk), nothing was appended and the log
    /// is as before. Any other error poisons it.
    ///
    /// # Panics
    /// If index, epoch or sequence do not follow, or a body has 4 GiB or more.
    pub fn append(&mut self, entries: &[Entry<'_>]) -> io::Result<()> {
        self.check()?;
        let mut large = self.provide(entries)?;
        let mut written = Ok(());
        self.buffer.clear();
        for entry in entries {
            let span = record::span(entry.body.len());
            if self.current_room() < span {
                let next = match HEADER_BYTES + span > self.options.segment_bytes {
                    true => large.pop_front(),
                    false => self.take_spare(),
                };
                let spare = next.expect("was provided");
                written = self.flush().and_then(|()| self.roll(spare, entry.index));
                if written.is_err() {
                    break;
                }
            }
            self.push(entry);
            if self.buffer.len() >= LOG_BUFFER_BYTES {
                written = self.flush();
                if written.is_err() {
                    break;
                }
            }
        }
        let written = written.and_then(|()| self.flush());
        self.buffer.clear();
        // Of a batch that was larger.
        self.buffer.shrink_to(2 * LOG_BUFFER_BYTES);
        self.poisoning(written)
    }

    /// Makes all that was appended durable; the index of the newest batch.
    pub fn sync(&mut self) -> io::Result<Index> {
        self.check()?;
        let synced = self.sync_current();
        self.poisoning(synced)?;
        Ok(self.durable)
    }

    /// Removes all batches after `index`; durable when it returns. A cut batch does not come back,
    /// whatever crash follows. Takes a spare.
    ///
    /// # Errors
    /// If a spare could not be made, nothing was cut. Any other error of a write or sync poisons the
    /// log; whether the batches are cut is then not known.
    ///
    /// # Panics
    /// If `index` is more than one before the first batch.
    pub fn cut_after(&mut self, index: Index) -> io::Result<()> {
        self.check()?;
        let (first, last) = self.bounds();
        assert!(index.next() >= first, "cut after batch {index} of a log that begins at {first}");
        if index >= last {
            return Ok(());
        }
        let mut chain = Chain::before(index.next());
        let mut end = HEADER_BYTES;
        if index >= first {
            let (at, head) = self.segments[self.segment_of(index)].find(index)?;
            chain.advance(&head);
            end = at + head.span();
        } else {
            chain.first = Some(self.segments[0].find(first)?.1.first);
        }
        let spare = match self.take_spare() {
            Some(spare) => spare,
            None => self.maker.make()?,
        };
        let cut = self.roll(spare, index.next()).and_then(|()| self.sync_current());
        let cut = cut.and_then(|()| self.leave(index, end, chain));
        self.poisoning(cut)
    }

    /// Gives up the segments all of whose batches are before `index`, except the one written to. Up
    /// to [`LogOptions::spares_max`] become spares, the others are removed. Only for what a durable
    /// base covers.
    pub fn drop_before(&mut self, index: Index) -> io::Result<()> {
        while self.drop_one_before(index)? {}
        Ok(())
    }

    /// As [`drop_before`](Log::drop_before), one segment at most: to remove one takes the file system
    /// some ms, and who syncs should not wait for twenty. False if there was none.
    pub fn drop_one_before(&mut self, index: Index) -> io::Result<bool> {
        self.check()?;
        if self.segments.len() < 2 || self.segments[1].first() > index {
            return Ok(false);
        }
        let oldest = self.segments.pop_front().expect("more than one");
        let recycled = self.recycle(vec![oldest]);
        self.poisoning(recycled).map(|()| true)
    }

    /// The first and the last batch; of an empty log the last is the first less 1.
    pub fn bounds(&self) -> (Index, Index) {
        let first = self.segments.front().map_or(self.chain.next, |segment| segment.first());
        (first, self.chain.last())
    }

    /// The newest batch known durable; the one before the first if there is none.
    pub fn durable(&self) -> Index {
        self.durable
    }

    /// Batches from `from` to `to`, both included, as far as they are there; stops before the bodies
    /// are more than `byte_limit` bytes, but not before the first. Reads at most 256 KiB and a batch
    /// to find the beginning.
    ///
    /// # Errors
    /// [`JournalError::Gap`] if `from` is before the first batch.
    pub fn read(
        &self,
        from: Index,
        to: Index,
        byte_limit: usize,
    ) -> Result<Vec<OwnedEntry>, JournalError> {
        let ((first, last), mut read, mut bytes) = (self.bounds(), Vec::new(), 0);
        let mut index = from;
        if from < first {
            let file = self.segments.front().map_or("the log".to_owned(), Segment::name);
            return Err(JournalError::Gap { file, first, after: Index(from.0.saturating_sub(1)) });
        }
        while index <= to.min(last) {
            let segment = &self.segments[self.segment_of(index)];
            let name = segment.name();
            let io = || JournalError::io(&name, "read");
            let (mut at, _) = segment.find(index).map_err(io())?;
            let mut stream = Stream::new(LOG_READ_BYTES);
            while index <= to.min(Index(segment.next.0 - 1)) {
                let place = stream.examine(&segment.file, at, segment.seed).map_err(io())?;
                let head = match place {
                    Place::Batch(head) if head.index == index => head,
                    Place::Batch(_) => return Err(damaged(name, at, index, "it is another one")),
                    Place::Bad(why) => return Err(damaged(name, at, index, why)),
                };
                bytes += head.length as usize;
                if !read.is_empty() && bytes > byte_limit {
                    return Ok(read);
                }
                let body = stream.buffered(at + HEAD_BYTES as u64, head.length as usize);
                read.push(Entry::new(&head, body).to_owned());
                (at, index) = (at + head.span(), index.next());
            }
        }
        Ok(read)
    }

    /// How it is kept.
    pub fn options(&self) -> LogOptions {
        self.options
    }

    /// Bytes that batches can still be written to: what is left of the segment written to, and all
    /// spares. At each change of segments up to the size of a batch is left unused.
    pub fn room_bytes(&self) -> u64 {
        self.current_room() + self.spares.iter().map(Spare::room_bytes).sum::<u64>()
    }

    /// Bytes of all segment files.
    pub fn disk_bytes(&self) -> u64 {
        let segments = self.segments.iter().map(|segment| segment.bytes);
        segments.chain(self.spares.iter().map(|spare| spare.bytes)).sum()
    }

    /// How many spares are there.
    pub fn spares(&self) -> usize {
        self.spares.len()
    }

    /// Takes a spare that was made on another thread.
    pub fn add_spare(&mut self, spare: Spare<S>) {
        self.spares.push(spare);
    }

    /// What makes spares for this log on another thread.
    pub fn spare_maker(&self) -> SpareMaker<S> {
        self.maker.sharing()
    }

    /// A write or sync failed: nothing more is written until the log is opened anew.
    pub fn is_poisoned(&self) -> bool {
        self.poison.is_some()
    }
}

fn damaged(file: String, offset: u64, index: Index, why: &str) -> JournalError {
    JournalError::Damaged { file, offset, what: format!("batch {index}: {why}") }
}

impl<S: Storage> std::fmt::Debug for Log<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").finish_non_exhaustive()
    }
}
