//! The log: the entry store of the journal.

mod write;

use crate::ids::Index;
use crate::journal::chain::{Chain, Standing};
use crate::journal::entry::{Entry, OwnedEntry};
use crate::journal::error::JournalError;
use crate::journal::newest::Note;
use crate::journal::places::Places;
use crate::journal::reader::{LogReader, Opened};
use crate::journal::record::Kind;
use crate::journal::run::{Batches, Run};
use crate::journal::segment::{Segment, Spare, SpareMaker};
use crate::journal::state::{Identity, Members, Position, State, Vote};
use crate::journal::storage::Storage;
use crate::journal::view::{Change, LogView, Told};
use crate::limits::NODE_NAME_BYTES_MAX;
use crate::time::Micros;
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
    standing: Standing,
    places: Places,
    /// Who reads beside the writer, and what it has not been told yet.
    view: Option<LogView<S>>,
    changes: Vec<Change>,
    /// The newest record known durable, and the newest batch.
    durable_lsn: u64,
    durable: Index,
    /// Something was written to the last segment since its last sync. The others are synced.
    dirty: bool,
    buffer: Vec<u8>,
    poison: Option<String>,
    /// What names the newest segment, once it was opened.
    newest: Option<Note<S::File>>,
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
    pub standing: Standing,
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

    /// Writes these batches, in order, without making them durable: one write for all that go to the
    /// same segment. What does not fit goes to the next spare; where there is none, one is made,
    /// which takes as long as writing a segment.
    ///
    /// # Errors
    /// If a spare was needed and could not be made (a full disk), nothing was appended and the log
    /// is as before. Any other error poisons it.
    ///
    /// # Panics
    /// If index, epoch or sequence do not follow, a body has 4 GiB or more, or one of members is larger
    /// than [`MEMBERS_BYTES_MAX`](crate::limits::MEMBERS_BYTES_MAX).
    pub fn append(&mut self, entries: &[Entry<'_>]) -> io::Result<()> {
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
        let (Position { epoch, first, .. }, now) = self.behind(index)?;
        let entry = Entry { index, epoch, first, now, ..self.aside(Kind::Cut, &[]) };
        self.write(&[entry])?;
        self.sync().map(drop)
    }

    /// Remembers a vote, without making it durable: [`sync`](Self::sync) does, and must before it is
    /// told to anybody.
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
        let entry = self.aside(Kind::Vote, &body);
        self.write(&[entry])
    }

    /// Batches up to `index` are committed. Nothing is written: heads that follow tell it, or a
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

    /// Writes all that is known beside the batches, without making it durable: so that what is before
    /// is known to be durable and committed.
    ///
    /// # Errors
    /// As of [`append`](Self::append).
    pub fn note_state(&mut self) -> io::Result<()> {
        self.check()?;
        let body = self.state().encode();
        let entry = self.aside(Kind::State, &body);
        self.write(&[entry])
    }

    /// Says who this node is, in a [state](Self::note_state).
    ///
    /// # Errors
    /// As of [`append`](Self::append); then it is who it was.
    ///
    /// # Panics
    /// If the name is longer than [`NODE_NAME_BYTES_MAX`].
    pub fn identify(&mut self, identity: Identity) -> io::Result<()> {
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

    /// Goes on behind a base, in a new segment, as if there had never been a log before: nothing of it is of use any
    /// more. `members` are those as of the base. All that was voted stays. Durable when this returns; a crash leaves
    /// the log as it was, or this.
    ///
    /// # Errors
    /// As of [`begin_segment`](Self::begin_segment).
    pub fn restart_behind(&mut self, base: Position, members: Option<Members>) -> io::Result<()> {
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
        self.changes.extend(self.view.is_some().then_some(Change::Cut(Index(0))));
        // The state that the new one begins with says that the log begins there.
        let before: Vec<_> = self.segments.drain(..).collect();
        let begun = self.roll(spare).and_then(|()| self.flush()).and_then(|()| self.sync_current());
        let begun = begun.and_then(|()| self.recycle(before));
        self.poisoning(begun)?;
        self.tell();
        Ok(())
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

    /// What is to be known of the log as it is now.
    pub fn state(&self) -> State {
        let State { identity, vote, before, last, members, .. } =
            self.standing.state(self.before(), &self.chain);
        State { identity, vote, committed: self.committed(), before, last, members }
    }

    /// What this node voted for last.
    pub fn voted(&self) -> Option<Vote> {
        self.standing.vote
    }

    /// Who the members are: the newest batch that tells, committed or not. None of a node alone.
    pub fn members(&self) -> Option<&Members> {
        self.standing.members.last()
    }

    /// The newest batch known committed: of a node alone the last one.
    pub fn committed(&self) -> Index {
        if self.standing.is_alone() { self.chain.last() } else { self.chain.committed }
    }

    /// The newest batch known durable; the one before the first if there is none.
    pub fn durable(&self) -> Index {
        self.durable
    }

    /// Epoch of a batch of the log, or of the one before it, and the sequence of the fact behind it, as
    /// far as they are known; none of other batches. Reads at most 256 KiB of heads.
    pub fn position(&self, index: Index) -> io::Result<Option<Position>> {
        let (first, last) = self.bounds();
        match index.next() >= first && index <= last {
            true => self.behind(index).map(|(position, _)| Some(position)),
            false => Ok(None),
        }
    }

    /// Batches from `from` to `to`, both included, as far as they are there; stops before the bodies
    /// are more than `byte_limit` bytes, but not before the first. Reads at most 256 KiB and a batch
    /// to find the beginning. What was cut is not among them.
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

    /// What reads the log on another thread, from now on.
    pub fn view(&mut self) -> LogView<S> {
        if self.view.is_none() {
            self.view = Some(LogView::new(self.places.clone(), &self.segments, self.told()));
        }
        self.view.clone().expect("it is there")
    }

    /// How it is kept.
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

    /// A record that is no batch, behind the last one.
    fn aside<'a>(&self, kind: Kind, body: &'a [u8]) -> Entry<'a> {
        let Position { index, epoch, first } = self.chain.position();
        Entry { kind, index, epoch, node: 0, first, now: self.chain.now, count: 0, body }
    }

    /// Before the first batch.
    fn before(&self) -> Position {
        let oldest = self.segments.front().and_then(|segment| segment.before);
        oldest.unwrap_or(self.chain.position())
    }

    /// Behind batch `index`, which is one of the log's or the one before the first; and its time.
    fn behind(&self, index: Index) -> io::Result<(Position, Micros)> {
        let before = self.before();
        let head_of = |index: Index| self.run_of(index).find(index).map(|(_, head)| head);
        if index > before.index {
            let head = head_of(index)?;
            let first = head.first + u64::from(head.count);
            return Ok((Position { index, epoch: head.epoch, first }, head.now));
        }
        // In version 1 nothing told what was before the first batch but that batch.
        let first = match before.first {
            0 if self.chain.last() > index => head_of(index.next())?.first,
            first => first,
        };
        Ok((Position { first, ..before }, Micros(0)))
    }

    /// Where a batch stands.
    fn run_of(&self, index: Index) -> Run<'_, S::File> {
        let (mark, end) = self.places.find(index).expect("one of the log's batches");
        let at = self.segments.partition_point(|segment| segment.first() <= mark.segment) - 1;
        let Segment { number, ref file, seed, .. } = self.segments[at];
        Run { number, file: &**file, seed, at: mark.at, end }
    }

    fn told(&self) -> Told {
        let (before, last) = (self.before(), self.chain.last());
        Told { before, last, committed: self.committed(), durable: self.durable }
    }

    /// Tells those who read beside the writer what there is now.
    fn tell(&mut self) {
        if let Some(view) = &self.view {
            let told = self.told();
            view.tell(self.changes.drain(..), &self.segments, told);
        }
    }
}

impl<S: Storage> std::fmt::Debug for Log<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").finish_non_exhaustive()
    }
}
