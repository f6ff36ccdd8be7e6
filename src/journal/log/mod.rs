//! The log: the entry store of the journal.

pub(super) mod batch_run;
pub(super) mod concurrent_reader;
pub(super) mod newest_file;
pub(super) mod places;
pub(super) mod reader;
pub(super) mod scan;
pub(super) mod segment;
mod write;

use crate::ids::Index;
use crate::journal::error::JournalError;
use crate::journal::log::batch_run::{Batches, Run};
use crate::journal::log::concurrent_reader::{LogBounds, LogChange, LogView};
use crate::journal::log::newest_file::Note;
use crate::journal::log::places::Places;
use crate::journal::log::reader::{LogReader, Opened};
use crate::journal::log::segment::{Segment, Spare, SpareMaker};
use crate::journal::record::RecordKind;
use crate::journal::record::chain::{Chain, LogStanding};
use crate::journal::record::entry::{OwnedEntry, SegmentEntry};
use crate::journal::record::raft_state::{LogIdentity, LogPosition, LogState, Members, Vote};
use crate::journal::storage::{File, Storage};
use crate::limits::{FILE_PIECE_BYTES, NODE_NAME_BYTES_MAX};
use crate::time::Micros;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogOptions {
    /// The size of a segment file, header included: a multiple of 4096, at least 64 KiB.
    pub segment_bytes: u64,
    /// The shard of the log; 0.
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
/// After an error of a write or a sync it is *poisoned*: nothing is retried, and every later call
/// that would write fails. Everything after [`durable`](Log::durable) is then unknown until the log
/// is opened again. A spare that could not be created does not poison it.
#[derive(Debug)]
pub struct Log<S: Storage> {
    storage: Arc<S>,
    options: LogOptions,
    maker: SpareMaker<S>,
    /// Oldest first; the last one is written to. Each begins where the one before ends.
    segments: VecDeque<Segment<S::File>>,
    spares: Vec<Spare<S>>,
    /// The generation of the newest header written.
    generation: u64,
    chain: Chain,
    standing: LogStanding,
    places: Places,
    /// The concurrent reader, and what it has not been told yet.
    view: Option<LogView<S>>,
    changes: Vec<LogChange>,
    /// The newest record known durable, and the newest batch.
    durable_lsn: u64,
    durable: Index,
    /// Something was written to the last segment since its last sync. The others are synced.
    dirty: bool,
    buffer: Vec<u8>,
    poison: Option<String>,
    /// The file that names the newest segment, once it was opened.
    newest: Option<Note<S::File>>,
    /// The newest segment is not named there yet.
    unnoted: bool,
}

/// The result of an opening, for [`Log::assemble`].
pub(super) struct Parts<S: Storage> {
    pub storage: Arc<S>,
    pub options: LogOptions,
    pub numbers_from: u64,
    pub segments: VecDeque<Segment<S::File>>,
    pub generation: u64,
    pub chain: Chain,
    pub standing: LogStanding,
    pub places: Places,
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

    /// Writes these batches, in order, without making them durable: one write for all that go to the same segment. The
    /// rest goes to the next spare; without one, a spare is created, which takes as long as writing a segment.
    ///
    /// # Errors
    /// If a spare was needed and could not be made (a full disk), nothing was appended and the log
    /// is as before. Any other error poisons it.
    ///
    /// # Panics
    /// If index, epoch or sequence do not follow, a body has 4 GiB or more, or one of members is larger
    /// than [`MEMBERS_BYTES_MAX`](crate::limits::MEMBERS_BYTES_MAX).
    pub fn append(&mut self, entries: &[SegmentEntry<'_>]) -> io::Result<()> {
        assert!(entries.iter().all(|entry| entry.kind.is_batch()), "only batches are appended");
        self.write(entries)
    }

    /// Makes all that was appended durable; the index of the newest batch.
    pub fn sync(&mut self) -> io::Result<Index> {
        self.check()?;
        let synced = self.sync_current();
        self.poisoning(synced)?;
        self.tell();
        Ok(self.durable)
    }

    /// Makes all batches after `index` void; durable when it returns. A cut batch does not come back,
    /// whatever crash follows. One record and one sync.
    ///
    /// # Errors
    /// If there is no room for the record, nothing was cut. Any other error of a write or sync poisons
    /// the log; whether the batches are cut is then not known.
    ///
    /// # Panics
    /// If `index` is before what is [committed](Self::committed), or more than one before the first batch.
    pub fn cut_after(&mut self, index: Index) -> io::Result<()> {
        self.check()?;
        let (first, last) = self.bounds();
        assert!(index.next() >= first, "cut after batch {index} of a log that begins at {first}");
        if index >= last {
            return Ok(());
        }
        let committed = self.committed();
        assert!(index >= committed, "cut after batch {index}, and {committed} is committed");
        let (LogPosition { epoch, first, .. }, now) = self.behind(index)?;
        let entry = SegmentEntry { index, epoch, first, now, ..self.aside(RecordKind::Cut, &[]) };
        self.write(&[entry])?;
        self.sync().map(drop)
    }

    /// Remembers a vote, without making it durable: [`sync`](Self::sync) does, and must before the vote is sent.
    ///
    /// # Errors
    /// As of [`append`](Self::append).
    ///
    /// # Panics
    /// If it does not [follow](Vote::follows) the one before.
    pub fn vote(&mut self, vote: Vote) -> io::Result<()> {
        self.check()?;
        let before = self.standing.vote;
        assert!(vote.follows(before), "{vote:?} does not follow {before:?}");
        let body = vote.encode();
        let entry = self.aside(RecordKind::Vote, &body);
        self.write(&[entry])
    }

    /// Batches up to `index` are committed. Nothing is written: later headers record it, or a
    /// [state](Self::note_state).
    ///
    /// # Panics
    /// If there is no such batch.
    pub fn commit(&mut self, index: Index) {
        let last = self.chain.last();
        assert!(index <= last, "batch {index} is committed, and the log ends with {last}");
        if index > self.chain.committed {
            self.chain.committed = index;
            self.standing.commit(index);
            self.tell();
        }
    }

    /// Writes everything known besides the batches, without making it durable: so that earlier batches are known to be
    /// durable and committed.
    ///
    /// # Errors
    /// As of [`append`](Self::append).
    pub fn note_state(&mut self) -> io::Result<()> {
        self.check()?;
        let body = self.state().encode();
        let entry = self.aside(RecordKind::State, &body);
        self.write(&[entry])
    }

    /// Records this node's identity, in a [state](Self::note_state).
    ///
    /// # Errors
    /// As of [`append`](Self::append); then the identity is as before.
    ///
    /// # Panics
    /// If the name is longer than [`NODE_NAME_BYTES_MAX`].
    pub fn identify(&mut self, identity: LogIdentity) -> io::Result<()> {
        assert!(
            identity.name.len() <= NODE_NAME_BYTES_MAX,
            "a name of {} bytes",
            identity.name.len()
        );
        let before = std::mem::replace(&mut self.standing.identity, identity);
        let noted = self.note_state();
        if noted.is_err() {
            self.standing.identity = before;
        }
        noted
    }

    /// Goes on in a new segment, which is durable when this returns.
    ///
    /// # Errors
    /// If a spare could not be made, nothing has changed. Any other error poisons the log.
    pub fn begin_segment(&mut self) -> io::Result<()> {
        self.check()?;
        let spare = match self.take_spare() {
            Some(spare) => spare,
            None => self.maker.make()?,
        };
        let begun = self.roll(spare).and_then(|()| self.flush()).and_then(|()| self.sync_current());
        self.poisoning(begun)?;
        self.tell();
        Ok(())
    }

    /// Overwrites remains in the newest segment, where the next batch comes; durable when it returns. A crash in it leaves
    /// some of them: then they are found again.
    ///
    /// # Errors
    /// Any error poisons the log.
    pub(in crate::journal) fn clear(&mut self, at: u64, bytes: u64) -> io::Result<()> {
        let newest = self.segments.back().expect("remains stand in a segment");
        let zeros = vec![0; FILE_PIECE_BYTES.min(bytes as usize)];
        let mut written = Ok(());
        for piece in (at..at + bytes).step_by(zeros.len().max(1)) {
            let length = zeros.len().min((at + bytes - piece) as usize);
            written = written.and_then(|()| newest.file.write_at(&zeros[..length], piece));
        }
        self.dirty = true;
        let cleared = written.and_then(|()| self.sync_current());
        self.poisoning(cleared)
    }

    /// Continues after a base, in a new segment, as if there had never been a log before: everything before is
    /// obsolete. `members` are those as of the base. Votes stay. Durable when this returns; a crash leaves the log as
    /// it was, or this.
    ///
    /// # Errors
    /// As of [`begin_segment`](Self::begin_segment).
    pub fn restart_behind(
        &mut self,
        base: LogPosition,
        members: Option<Members>,
    ) -> io::Result<()> {
        self.check()?;
        let spare = match self.take_spare() {
            Some(spare) => spare,
            None => self.maker.make()?,
        };
        let synced = self.sync_current();
        self.poisoning(synced)?;
        let Chain { now, lsn, .. } = self.chain;
        self.chain = Chain { now, committed: base.index, ..Chain::behind(lsn, base) };
        self.standing.members = members.into_iter().collect();
        self.places = Places::default();
        self.changes.extend(self.view.is_some().then_some(LogChange::Cut(Index(0))));
        // The state that the new one begins with says that the log begins there.
        let before: Vec<_> = self.segments.drain(..).collect();
        let begun = self.roll(spare).and_then(|()| self.flush()).and_then(|()| self.sync_current());
        let begun = begun.and_then(|()| self.recycle(before));
        self.poisoning(begun)?;
        self.tell();
        Ok(())
    }

    /// Drops the segments all of whose batches are before `index`, except the one written to. Up to
    /// [`LogOptions::spares_max`] become spares, the others are removed. Only for batches that a
    /// durable base covers.
    pub fn drop_before(&mut self, index: Index) -> io::Result<()> {
        while self.drop_one_before(index)? {}
        Ok(())
    }

    /// As [`drop_before`](Log::drop_before), one segment at most: removing one takes the file system some ms, and a
    /// sync should not wait for twenty. False if there was none.
    pub fn drop_one_before(&mut self, index: Index) -> io::Result<bool> {
        self.check()?;
        let following = self.segments.get(1).and_then(Segment::first_batch);
        if following.is_none_or(|first| first > index) {
            return Ok(false);
        }
        let oldest = self.segments.pop_front().expect("more than one");
        self.places.drop_before(self.segments[0].first());
        // Before its file is used again.
        self.tell();
        let recycled = self.recycle(vec![oldest]);
        self.poisoning(recycled)?;
        self.tell();
        Ok(true)
    }

    /// The first and the last batch; of an empty log the last is the first less 1.
    pub fn bounds(&self) -> (Index, Index) {
        (self.before().index.next(), self.chain.last())
    }

    /// The state record of the log as it is now.
    pub fn state(&self) -> LogState {
        let LogState { identity, vote, before, last, members, .. } =
            self.standing.state(self.before(), &self.chain);
        LogState { identity, vote, committed: self.committed(), before, last, members }
    }

    /// This node's last vote.
    pub fn voted(&self) -> Option<Vote> {
        self.standing.vote
    }

    /// The members: the newest batch that defines them, committed or not. None for a standalone
    /// server.
    pub fn members(&self) -> Option<&Members> {
        self.standing.members.last()
    }

    /// The newest batch known to be committed: for a standalone server the last one.
    pub fn committed(&self) -> Index {
        if self.standing.is_alone() { self.chain.last() } else { self.chain.committed }
    }

    /// The newest batch known to be durable; the one before the first if there is none.
    pub fn durable(&self) -> Index {
        self.durable
    }

    /// Epoch of a batch of the log, or of the previous one, and the sequence of the next fact, as far as they are
    /// known; none for other batches. The last one is known; for another one at most 256 KiB of headers are read.
    pub fn position(&self, index: Index) -> io::Result<Option<LogPosition>> {
        let (first, last) = self.bounds();
        match index.next() >= first && index <= last {
            true => self.behind(index).map(|(position, _)| Some(position)),
            false => Ok(None),
        }
    }

    /// Batches from `from` to `to`, both included, as far as they exist; stops before the bodies are more than
    /// `byte_limit` bytes, but not before the first. Reads at most 256 KiB and a batch to find the beginning. Cut
    /// batches are not included.
    ///
    /// # Errors
    /// [`JournalError::Gap`] if `from` is before the first batch.
    pub fn read(
        &self,
        from: Index,
        to: Index,
        byte_limit: usize,
    ) -> Result<Vec<OwnedEntry>, JournalError> {
        let ((first, last), mut index) = (self.bounds(), from);
        if from < first {
            let file = self.segments.front().map_or("the log".to_owned(), Segment::name);
            return Err(JournalError::Gap { file, first, after: Index(from.0.saturating_sub(1)) });
        }
        let mut batches = Batches::default();
        while index <= to.min(last) {
            match self.run_of(index).read(index, to.min(last), byte_limit, &mut batches)? {
                Some(next) => index = next,
                None => break,
            }
        }
        Ok(batches.read)
    }

    /// The concurrent reader of the log on another thread, from now on.
    pub fn view(&mut self) -> LogView<S> {
        if self.view.is_none() {
            self.view = Some(LogView::new(self.places.clone(), &self.segments, self.told()));
        }
        self.view.clone().expect("it is there")
    }

    pub fn options(&self) -> LogOptions {
        self.options
    }

    /// Bytes that batches can still be written to: what is left of the segment written to, and all
    /// spares but the state that each begins with. At each change of segments up to the size of a batch
    /// is left unused.
    pub fn room_bytes(&self) -> u64 {
        let state = self.state_span(&[]);
        let spares = self.spares.iter().map(|spare| spare.room_bytes().saturating_sub(state));
        self.current_room() + spares.sum::<u64>()
    }

    /// Bytes of all segment files.
    pub fn disk_bytes(&self) -> u64 {
        let segments = self.segments.iter().map(|segment| segment.bytes);
        segments.chain(self.spares.iter().map(|spare| spare.bytes)).sum()
    }

    pub fn spares(&self) -> usize {
        self.spares.len()
    }

    /// Takes a spare that was made on another thread.
    pub fn add_spare(&mut self, spare: Spare<S>) {
        self.spares.push(spare);
    }

    /// The maker of spares for this log on another thread.
    pub fn spare_maker(&self) -> SpareMaker<S> {
        self.maker.sharing()
    }

    /// A write or sync failed: nothing more is written until the log is opened again.
    pub fn is_poisoned(&self) -> bool {
        self.poison.is_some()
    }

    /// A record that is not a batch, after the last one.
    fn aside<'a>(&self, kind: RecordKind, body: &'a [u8]) -> SegmentEntry<'a> {
        let LogPosition { index, epoch, first } = self.chain.position();
        SegmentEntry { kind, index, epoch, node: 0, first, now: self.chain.now, count: 0, body }
    }

    /// Before the first batch.
    fn before(&self) -> LogPosition {
        let oldest = self.segments.front().and_then(|segment| segment.before);
        oldest.unwrap_or(self.chain.position())
    }

    /// After batch `index`, which is one of the log's or the one before the first; and its time.
    fn behind(&self, index: Index) -> io::Result<(LogPosition, Micros)> {
        let before = self.before();
        let head_of = |index: Index| self.run_of(index).head(index);
        if index > before.index {
            // Asked with each batch that is appended: nothing is read for that.
            if index == self.chain.last() {
                return Ok((self.chain.position(), self.chain.now));
            }
            let head = head_of(index)?;
            let first = head.first + u64::from(head.count);
            return Ok((LogPosition { index, epoch: head.epoch, first }, head.now));
        }
        // In version 1 only the first batch itself said what was before it.
        let first = match before.first {
            0 if self.chain.last() > index => head_of(index.next())?.first,
            first => first,
        };
        Ok((LogPosition { first, ..before }, Micros(0)))
    }

    /// Where a batch is.
    fn run_of(&self, index: Index) -> Run<'_, S::File> {
        let (mark, end) = self.places.find(index).expect("one of the log's batches");
        let at = self.segments.partition_point(|segment| segment.first() <= mark.segment) - 1;
        let Segment { number, ref file, seed, .. } = self.segments[at];
        Run { number, file: &**file, seed, at: mark.at, end }
    }

    fn told(&self) -> LogBounds {
        let (before, last) = (self.before(), self.chain.last());
        LogBounds { before, last, committed: self.committed(), durable: self.durable }
    }

    /// Publishes the current places to the concurrent readers.
    fn tell(&mut self) {
        if let Some(view) = &self.view {
            let told = self.told();
            view.tell(self.changes.drain(..), &self.segments, told);
        }
    }
}
