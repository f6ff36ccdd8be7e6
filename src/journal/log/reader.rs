//! Reads the log from its oldest batch to its end, once: what a start replays, what is checked, and
//! where the log is cut are found in one pass.

mod tail;

use crate::ids::Index;
use crate::journal::error::{JournalError, is_no_room};
use crate::journal::log::places::Places;
use crate::journal::log::scan::{Files, scan};
use crate::journal::log::segment::{Segment, segment_name};
use crate::journal::log::{Log, LogOptions, Parts};
use crate::journal::record::chain::{Chain, LogStanding};
use crate::journal::record::entry::{OwnedEntry, SegmentEntry};
use crate::journal::record::header::HEADER_BYTES;
use crate::journal::record::raft_state::{LogPosition, LogState, Members, Vote};
use crate::journal::record::stream::{FoundAt, RecordStream};
use crate::journal::record::{Head, RecordKind};
use crate::journal::storage::{File, Storage};
use crate::limits::FILE_PIECE_BYTES;
use crate::time::Micros;
use std::collections::VecDeque;
use std::sync::Arc;
use tail::Tail;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Opened {
    pub segments: u64,
    /// Segments ready to be used.
    pub spares: u64,
    /// Batches read, those up to the base included.
    pub batches: u64,
    /// Bytes of all records on disk.
    pub bytes: u64,
    /// The newest record; 0 without one.
    pub last_lsn: u64,
    /// Records of the log, by kind.
    pub records: Records,
    /// The information besides the batches: vote, members, commit position, where it begins and ends.
    pub state: LogState,
    /// Batches that nothing says are committed: they stay in the log, and are not applied.
    pub uncommitted: Vec<OwnedEntry>,
    /// The first batch of the log, which the base may cover.
    pub first: Index,
    /// The last one; the first less 1 if the log is empty.
    pub last: Index,
    /// The sequence of the last fact read; 0 if none was.
    pub last_fact: u64,
    /// The time of the last batch read; 0 if none was.
    pub last_now: Micros,
    /// The epoch of the last batch read; 0 if none was.
    pub last_epoch: u64,
    /// The part that was cut off the end.
    pub cut: Option<Cut>,
    /// Further notices for an operator, a line each.
    pub notices: Vec<String>,
}

/// How many records of each kind a log has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Records {
    pub facts: u64,
    pub blanks: u64,
    pub members: u64,
    pub states: u64,
    pub votes: u64,
    pub cuts: u64,
    /// Batches that were cut.
    pub void: u64,
}

/// A record as it is in the log, applied or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundRecord<'a> {
    pub version: u8,
    /// Its number among all records.
    pub lsn: u64,
    /// The newest batch known committed when it was written.
    pub committed: Index,
    pub entry: SegmentEntry<'a>,
}

/// A torn tail. Its text is the notice.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{file}: the log ends at offset {offset}: batch {index} was never fully written; {bytes} bytes from there on, \
     not covered by any known sync, are lost"
)]
pub struct Cut {
    pub file: String,
    /// Where the first batch that is lost began.
    pub offset: u64,
    pub index: Index,
    /// Bytes from there to the end of the last remains of a batch.
    pub bytes: u64,
}

/// Reads the log from its oldest batch to its end, and then becomes the log:
/// [`open`](LogReader::open), [`next_batch`](LogReader::next_batch) until it returns none,
/// [`finish`](LogReader::finish). Before `finish` nothing is changed.
///
/// A batch is returned once it is known to be committed: on a standalone server at once. Until then it is kept in
/// memory, which is as much as a leader may have proposed.
#[derive(Debug)]
pub struct LogReader<S: Storage> {
    storage: Arc<S>,
    options: LogOptions,
    /// After the base.
    base: LogPosition,
    base_members: Option<Members>,
    files: Files<S>,
    /// Which of the segments is read, and where its next batch begins.
    at: usize,
    position: u64,
    /// Where the batch read last begins.
    last_at: u64,
    chain: Chain,
    standing: LogStanding,
    places: Places,
    stream: RecordStream,
    /// Batches of which nothing says yet that they are committed, with the numbers of their segments.
    pending: VecDeque<(u64, OwnedEntry)>,
    handed: Option<OwnedEntry>,
    records: Records,
    /// Batches, and bytes of all records, read so far.
    read: (u64, u64),
    /// The batch with which the base ends differs from the log's: a base of other nodes was put in place, and the log
    /// has yet to begin after it.
    diverges: bool,
    /// Known once the end was reached.
    tail: Option<Tail>,
}

impl<S: Storage> LogReader<S> {
    /// Finds the segments and their order. `after` is the last batch of the base, 0 without one: the
    /// log must go on from there.
    ///
    /// # Errors
    /// [`JournalError::Gap`] if the log begins later; [`JournalError::Version`] for a file of a
    /// version that is not known.
    ///
    /// # Panics
    /// If the options are not what their documentation says.
    pub fn open(
        storage: Arc<S>,
        options: LogOptions,
        after: Index,
    ) -> Result<LogReader<S>, JournalError> {
        let bytes = options.segment_bytes;
        assert!(bytes >= 64 << 10 && bytes.is_multiple_of(4096), "segments of {bytes} bytes");
        let files = scan(&*storage, options.shard, after)?;
        let base = LogPosition { index: after, ..LogPosition::default() };
        let oldest = files.segments.front();
        let before = oldest.and_then(|segment| segment.before).unwrap_or(base);
        let lsn = oldest.map_or(1, Segment::first);
        Ok(LogReader {
            storage,
            options,
            base,
            base_members: None,
            files,
            at: 0,
            position: HEADER_BYTES,
            last_at: HEADER_BYTES,
            chain: Chain::behind(lsn, before),
            standing: LogStanding::default(),
            places: Places::default(),
            stream: RecordStream::new(FILE_PIECE_BYTES),
            pending: VecDeque::new(),
            handed: None,
            records: Records::default(),
            read: (0, 0),
            diverges: false,
            tail: None,
        })
    }

    /// As [`open`](Self::open), after a base of which more is known than the last batch: `members` are those as of it.
    /// They count if the log ends before it.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn open_behind(
        storage: Arc<S>,
        options: LogOptions,
        base: LogPosition,
        members: Option<Members>,
    ) -> Result<LogReader<S>, JournalError> {
        let mut reader = LogReader::open(storage, options, base.index)?;
        (reader.base, reader.base_members) = (base, members);
        if reader.files.segments.is_empty() {
            reader.chain = Chain::behind(1, base);
            reader.standing.members.extend(reader.base_members.clone());
        }
        Ok(reader)
    }

    /// The next batch after the base that is committed; nothing at the end of the log.
    ///
    /// # Errors
    /// [`JournalError::Damaged`] where a batch that was durable is not there. The log ends with it:
    /// a later call gives the same error.
    pub fn next_batch(&mut self) -> Result<Option<SegmentEntry<'_>>, JournalError> {
        let after = self.base.index;
        Ok(self.next_committed(after)?.map(|(_, entry)| entry))
    }

    /// As [`next_batch`](Self::next_batch), for the whole log: also batches that the base covers, if they are in the
    /// same file as one that it does not. With the number of the segment.
    pub fn next_of_all(&mut self) -> Result<Option<(u64, SegmentEntry<'_>)>, JournalError> {
        self.next_committed(Index(0))
    }

    /// The next record, whatever it is and whatever becomes of it, the base's too. Not to be mixed with
    /// [`next_batch`](Self::next_batch).
    pub fn next_record(&mut self) -> Result<Option<FoundRecord<'_>>, JournalError> {
        let Some((head, at)) = self.step()? else { return Ok(None) };
        let body = self.stream.buffered(at + head.body_at(), head.length as usize);
        let Head { version, lsn, committed, .. } = head;
        Ok(Some(FoundRecord { version, lsn, committed, entry: SegmentEntry::new(&head, body) }))
    }

    /// The numbers of the segments of the log, oldest first. All other files of it are spares, or
    /// hold what the base covers or what was cut.
    pub fn segments(&self) -> Vec<u64> {
        self.files.segments.iter().map(|segment| segment.number).collect()
    }

    /// Notices about the files for an operator, whatever they contain.
    pub fn notices(&self) -> &[String] {
        &self.files.notices
    }

    /// Where the next record would be, by its number, and what the log knows up to there.
    pub fn end(&self) -> (u64, LogState) {
        let oldest = self.files.segments.front().and_then(|segment| segment.before);
        let before = oldest.unwrap_or(self.chain.position());
        (self.chain.lsn, self.standing.state(before, &self.chain))
    }

    /// For a batch that cannot be applied though its checksums are right: the one read last.
    pub fn damaged(&self, what: String) -> JournalError {
        let segment = self.files.segments.get(self.at);
        let file = segment.map_or_else(|| "the log".to_owned(), Segment::name);
        JournalError::Damaged { file, offset: self.last_at, what }
    }

    /// Bytes read so far, and how many there are: those of all segments, until the end was found.
    pub fn progress(&self) -> (u64, u64) {
        let all = self.files.segments.iter().map(|segment| segment.bytes - HEADER_BYTES).sum();
        (self.read.1, if self.tail.is_some() { self.read.1 } else { all })
    }

    /// Reads the rest and reports it. Changes nothing: the loss of a torn tail is reported as if it
    /// were cut.
    pub fn survey(mut self) -> Result<Opened, JournalError> {
        while self.step()?.is_some() {}
        let mut opened = self.opened();
        opened.segments = self.files.segments.len() as u64;
        opened.spares = self.files.idle.len() as u64;
        (opened.first, opened.last) = (opened.state.before.index.next(), self.chain.last());
        Ok(opened)
    }

    /// Reads what is left, cuts a torn tail and opens the log for writing. When this returns, all
    /// that was read is durable, and so is the cut.
    pub fn finish(mut self) -> Result<(Log<S>, Opened), JournalError> {
        while self.step()?.is_some() {}
        let mut opened = self.opened();
        let (ended, after) = (self.chain.last(), self.base.index);
        let lost = ended < after || self.diverges;
        let remains = self.tail.as_ref().and_then(|tail| tail.cut.as_ref());
        let remains = remains.map(|cut| (cut.offset, cut.bytes));
        let LogReader { storage, options, base, files, chain, standing, places, .. } = self;
        let io = |action| JournalError::io("the log", action);
        if let Some(last) = files.segments.back() {
            // The data read may be in the memory of the system only.
            last.file.sync().map_err(JournalError::io(&last.name(), "sync"))?;
        }
        // A spare whose creation was interrupted may not be durable, neither its size nor its name.
        for spare in files.idle.iter().filter(|spare| spare.bytes == options.segment_bytes) {
            spare.file.sync().map_err(JournalError::io(&segment_name(spare.number), "sync"))?;
        }
        storage.sync_dir().map_err(io("sync its folder"))?;
        let committed = if lost { chain.committed } else { chain.committed.max(after) };
        let chain = Chain { committed, ..chain };
        let Files { segments, idle, generation, numbers_from, .. } = files;
        #[rustfmt::skip]
        let parts = Parts {
            storage, options, numbers_from, segments, generation, chain, standing, places,
        };
        let mut log = Log::assemble(parts);
        log.keep_spares(idle).map_err(io("remove what is not needed"))?;
        if lost {
            // The log's information about members is older than the base.
            let begun = log.restart_behind(base, self.base_members);
            begun.map_err(io("begin a new segment"))?;
            opened.uncommitted.clear();
            opened.notices.push(format!(
                "the log ends with batch {ended}, the base with batch {after}: goes on after the base"
            ));
        } else if let Some((at, bytes)) = remains {
            // If the lost sectors of a torn batch were written again with the same content, it would be intact, and so
            // would the batches after it: the log goes on elsewhere. On a full disk, where it stands nothing.
            match log.begin_segment() {
                Err(error) if is_no_room(&error) && !log.is_poisoned() => {
                    log.clear(at, bytes).map_err(io("clear what was torn"))?;
                }
                begun => begun.map_err(io("begin a new segment"))?,
            }
        }
        // That of a version that did not note it.
        log.note_newest().map_err(io("note its newest segment"))?;
        (opened.segments, opened.spares) = (log.segments(), log.spares() as u64);
        (opened.first, opened.last) = log.bounds();
        Ok((log, opened))
    }
}

impl<S: Storage> LogReader<S> {
    /// The next committed batch after `after`, and the number of its segment.
    fn next_committed(
        &mut self,
        after: Index,
    ) -> Result<Option<(u64, SegmentEntry<'_>)>, JournalError> {
        loop {
            let committed = self.chain.committed.max(self.base.index);
            if self.pending.front().is_some_and(|(_, entry)| entry.index <= committed) {
                let (segment, entry) = self.pending.pop_front().expect("there is one");
                let entry = self.handed.insert(entry).entry();
                return Ok(Some((segment, entry)));
            }
            let Some((head, at)) = self.step()? else { return Ok(None) };
            if !head.kind.is_batch() || head.index <= after {
                continue;
            }
            let number = self.files.segments[self.at].number;
            let committed = self.chain.committed.max(self.base.index);
            let (body_at, length) = (at + head.body_at(), head.length as usize);
            if self.pending.is_empty() && head.index <= committed {
                let body = self.stream.buffered(body_at, length);
                return Ok(Some((number, SegmentEntry::new(&head, body))));
            }
            let body = self.stream.buffered(body_at, length);
            self.pending.push_back((number, SegmentEntry::new(&head, body).to_owned()));
        }
    }

    /// The head of the next record and where it begins; the stream holds its body.
    fn step(&mut self) -> Result<Option<(Head, u64)>, JournalError> {
        if self.tail.is_some() {
            return Ok(None);
        }
        loop {
            let read = self.next_step();
            if !(matches!(read, Err(JournalError::Damaged { .. })) && self.begins_later()) {
                return read;
            }
        }
    }

    /// Whether everything read so far had been dropped: segments after it are gone, and the base covers all of them.
    /// After a crash any dropped segment may come back. The log begins after them.
    fn begins_later(&mut self) -> bool {
        let (Some(segment), Some(following)) =
            (self.files.segments.get(self.at), self.files.segments.get(self.at + 1))
        else {
            return false;
        };
        // Without a segment missing between them it is damage.
        let are_gone = following.header.generation > segment.header.generation + 1;
        let is_covered =
            following.first_batch().is_some_and(|first| first <= self.base.index.next());
        let (true, true, Some(before)) = (are_gone, is_covered, following.before) else {
            return false;
        };
        self.chain = Chain::behind(following.first(), before);
        self.files.give_up(self.at + 1);
        (self.at, self.position, self.last_at) = (0, HEADER_BYTES, HEADER_BYTES);
        (self.standing, self.places) = (LogStanding::default(), Places::default());
        (self.records, self.read) = (Records::default(), (0, 0));
        self.pending.clear();
        self.stream.reset();
        true
    }

    fn next_step(&mut self) -> Result<Option<(Head, u64)>, JournalError> {
        let following = self.files.segments.get(self.at + 1);
        if following.is_some_and(|following| following.first() == self.chain.lsn) {
            self.at += 1;
            self.position = HEADER_BYTES;
            self.stream.reset();
        }
        let Some(segment) = self.files.segments.get(self.at) else {
            return match self.files.missing {
                None => Ok(None),
                Some((number, _)) => Err(self.missing(segment_name(number), 0)),
            };
        };
        // The records here are void: the missing segment replaced them.
        if self.files.missing.is_some_and(|(_, first)| first <= self.chain.lsn) {
            return Err(self.missing(segment.name(), self.position));
        }
        let place = self.stream.examine(&*segment.file, self.position, segment.seed);
        let place = place.map_err(|error| JournalError::io(&segment.name(), "read")(error))?;
        let why = match place {
            FoundAt::Record(head) if self.follows(&head) => match self.take(head) {
                Some(taken) => return Ok(Some(taken)),
                None => "its content cannot be read, or does not follow",
            },
            FoundAt::Record(head) if self.chain.is_broken_by(&head) => {
                let (next, to, committed) = (self.chain.next, head.index, self.chain.committed);
                let what = format!(
                    "batch {next}: a cut after batch {to}, and up to {committed} it is committed"
                );
                let (file, offset) = (segment.name(), self.position);
                return Err(JournalError::Damaged { file, offset, what });
            }
            FoundAt::Record(_) => "its index, epoch, sequence, kind or shard does not follow",
            FoundAt::Bad(why) => why,
        };
        let segment = &self.files.segments[self.at];
        let following = self.files.segments.get(self.at + 1);
        if let Some(following) = following {
            let (next, name) = (self.chain.next, following.name());
            let behind = match following.first_batch() {
                Some(first) => format!("{name} begins with batch {first}"),
                None => format!("{name} begins after it"),
            };
            let what = format!("batch {next}: {why}; it was durable, for {behind}");
            return Err(JournalError::Damaged {
                file: segment.name(),
                offset: self.position,
                what,
            });
        }
        if self.files.missing.is_some() {
            return Err(self.missing(segment.name(), self.position));
        }
        self.tail = Some(Tail::find(&mut self.stream, segment, &self.chain, why)?);
        Ok(None)
    }

    /// The log went on in a segment that is not there.
    fn missing(&self, file: String, offset: u64) -> JournalError {
        let (number, first) = self.files.missing.expect("one is missing");
        let (next, name) = (self.chain.next, segment_name(number));
        let what = format!(
            "batch {next}: it is missing together with {name}, which has the newest records from lsn {first} on, and \
             is missing or has no complete header"
        );
        JournalError::Damaged { file, offset, what }
    }

    fn follows(&self, head: &Head) -> bool {
        let begins = self.position == HEADER_BYTES && head.version > 1;
        head.shard == self.options.shard
            && self.chain.follows(head)
            && (!begins || head.kind == RecordKind::State)
    }

    /// The record at the position is the next one; nothing if its body is not what it should be.
    fn take(&mut self, head: Head) -> Option<(Head, u64)> {
        let (at, index) = (self.position, head.index);
        let body = self.stream.buffered(at + head.body_at(), head.length as usize);
        match head.kind {
            RecordKind::State => {
                let state = LogState::decode(body)?;
                let (known, told) = (self.chain.position(), state.last);
                let fits = |known: u64, told: u64| known == 0 || told == 0 || known == told;
                let follows = known.index == told.index
                    && fits(known.first, told.first)
                    && fits(known.epoch, told.epoch);
                // In the first segment it gives the beginning of the log.
                let voted = state.vote.or(self.standing.vote) == state.vote
                    && state.vote.is_none_or(|vote| vote.follows(self.standing.vote));
                if !follows || !voted || state.committed < self.chain.committed {
                    return None;
                }
                self.chain.committed = state.committed;
                self.standing.take(state);
                self.records.states += 1;
            }
            RecordKind::Vote => {
                let vote = Vote::decode(body).filter(|vote| vote.follows(self.standing.vote))?;
                self.standing.vote = Some(vote);
                self.records.votes += 1;
            }
            RecordKind::Cut => {
                self.standing.cut(index);
                self.places.cut(index);
                self.diverges &= index >= self.base.index;
                let left = self.pending.partition_point(|(_, entry)| entry.index <= index);
                self.pending.truncate(left);
                self.records.cuts += 1;
                self.records.void += self.chain.last().0 - index.0;
            }
            RecordKind::Members => {
                // Later commits do not count.
                self.standing.commit(self.chain.committed);
                if !self.standing.add(head.epoch, index, body) {
                    return None;
                }
                self.records.members += 1;
            }
            RecordKind::Blank => self.records.blanks += 1,
            RecordKind::Facts => self.records.facts += 1,
            RecordKind::Images => return None,
        }
        let segment = &mut self.files.segments[self.at];
        if at == HEADER_BYTES {
            segment.before.get_or_insert(self.chain.position());
        }
        if head.kind.is_batch() {
            if index == self.base.index && self.base.epoch > 0 {
                self.diverges = head.epoch != self.base.epoch;
            }
            self.places.push(index, segment.first(), at);
            self.read.0 += 1;
        }
        self.last_at = at;
        segment.push(head.span());
        self.position += head.span();
        self.chain.advance(&head);
        self.standing.commit(self.chain.committed);
        self.read.1 += head.span();
        Some((head, at))
    }

    /// The results as far as the log was read.
    pub(in crate::journal) fn opened(&self) -> Opened {
        let Chain { first, now, epoch, .. } = self.chain;
        let (lsn, state) = self.end();
        let notices = self.files.notices.clone();
        Opened {
            batches: self.read.0,
            bytes: self.read.1,
            last_lsn: lsn - 1,
            records: self.records,
            state,
            uncommitted: self.pending.iter().map(|(_, entry)| entry.clone()).collect(),
            last_fact: first.map_or(0, |next| next.saturating_sub(1)),
            last_now: now,
            last_epoch: epoch,
            cut: self.tail.as_ref().and_then(|tail| tail.cut.clone()),
            notices,
            ..Opened::default()
        }
    }
}
