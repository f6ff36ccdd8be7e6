//! Reads the log from its oldest batch to its end, once: what a start replays, what is checked, and
//! where the log is cut are found in one pass.

mod tail;

use crate::ids::Index;
use crate::journal::chain::Chain;
use crate::journal::entry::Entry;
use crate::journal::error::JournalError;
use crate::journal::header::HEADER_BYTES;
use crate::journal::log::{Log, LogOptions, Parts};
use crate::journal::record::{HEAD_BYTES, Head, Kind};
use crate::journal::scan::{Files, scan};
use crate::journal::segment::{Segment, segment_name};
use crate::journal::storage::{File, Storage};
use crate::journal::stream::{Place, Stream};
use crate::limits::FILE_PIECE_BYTES;
use crate::time::Micros;
use std::sync::Arc;
use tail::Tail;

/// What an opening found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "what has no words here is what its name says")]
pub struct Opened {
    pub segments: u64,
    /// Segments ready to be used.
    pub spares: u64,
    /// Batches read, those up to the base included.
    pub batches: u64,
    /// Their bytes on disk.
    pub bytes: u64,
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
    /// What was cut off the end.
    pub cut: Option<Cut>,
    /// What else an operator should know, a line each.
    pub notices: Vec<String>,
}

/// A torn tail. Its text is the notice.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{file}: the log ends at offset {offset}: batch {index} was never fully written; {bytes} bytes \
     from there on, which no sync is known to have covered, are lost"
)]
#[allow(missing_docs, reason = "what has no words here is what its name says")]
pub struct Cut {
    pub file: String,
    /// Where the first batch that is lost began.
    pub offset: u64,
    pub index: Index,
    /// Bytes from there to the end of the last remains of a batch.
    pub bytes: u64,
}

/// Reads the log from its oldest batch to its end, and then is the log: [`open`](LogReader::open),
/// [`next_batch`](LogReader::next_batch) until there is none, [`finish`](LogReader::finish). Until
/// `finish` nothing is changed.
pub struct LogReader<S: Storage> {
    storage: Arc<S>,
    options: LogOptions,
    /// The last batch of the base.
    after: Index,
    files: Files<S>,
    /// Which of the segments is read, and where its next batch begins.
    at: usize,
    position: u64,
    /// Where the batch read last begins.
    last_at: u64,
    chain: Chain,
    stream: Stream,
    /// Batches, and bytes of them, read so far.
    read: (u64, u64),
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
        let first = files.segments.front().map_or(after.next(), Segment::first);
        let (chain, stream) = (Chain::before(first), Stream::new(FILE_PIECE_BYTES));
        let (at, position, read, tail) = (0, HEADER_BYTES, (0, 0), None);
        let last_at = position;
        Ok(LogReader {
            storage,
            options,
            after,
            files,
            at,
            position,
            last_at,
            chain,
            stream,
            read,
            tail,
        })
    }

    /// The next batch after the base; nothing at the end of the log.
    ///
    /// # Errors
    /// [`JournalError::Damaged`] where a batch that was durable is not there. The log ends with it:
    /// a later call gives the same error.
    pub fn next_batch(&mut self) -> Result<Option<Entry<'_>>, JournalError> {
        let (head, at) = loop {
            match self.step()? {
                None => return Ok(None),
                Some((head, _)) if head.index <= self.after => {}
                Some(found) => break found,
            }
        };
        let body = self.stream.buffered(at + HEAD_BYTES as u64, head.length as usize);
        Ok(Some(Entry::new(&head, body)))
    }

    /// As [`next_batch`](Self::next_batch), of the whole log: batches that the base covers too, as far
    /// as they stand in the same file as one that it does not. With the number of the segment.
    pub fn next_of_all(&mut self) -> Result<Option<(u64, Entry<'_>)>, JournalError> {
        let Some((head, at)) = self.step()? else { return Ok(None) };
        let body = self.stream.buffered(at + HEAD_BYTES as u64, head.length as usize);
        Ok(Some((self.files.segments[self.at].number, Entry::new(&head, body))))
    }

    /// The numbers of the segments of the log, oldest first. All other files of it are spares, or
    /// hold what the base covers or what was cut.
    pub fn segments(&self) -> Vec<u64> {
        self.files.segments.iter().map(|segment| segment.number).collect()
    }

    /// What an operator should know of the files, whatever is in them.
    pub fn notices(&self) -> &[String] {
        &self.files.notices
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

    /// Reads what is left and says what there is. Changes nothing: what a torn tail would lose is
    /// told as if it were cut.
    pub fn survey(mut self) -> Result<Opened, JournalError> {
        while self.step()?.is_some() {}
        let mut opened = self.opened();
        opened.segments = self.files.segments.len() as u64;
        opened.spares = self.files.idle.len() as u64;
        opened.first = self.files.segments.front().map_or(self.chain.next, Segment::first);
        opened.last = self.chain.last();
        Ok(opened)
    }

    /// Reads what is left, cuts a torn tail and opens the log for writing. When this returns, all
    /// that was read is durable, and so is the cut.
    pub fn finish(mut self) -> Result<(Log<S>, Opened), JournalError> {
        while self.step()?.is_some() {}
        let mut opened = self.opened();
        let ended = self.chain.last();
        let lost = ended < self.after;
        let anew = lost || self.tail.as_ref().is_some_and(|tail| tail.needs_segment());
        let LogReader { storage, options, after, files, chain, .. } = self;
        let io = |action| JournalError::io("the log", action);
        if let Some(last) = files.segments.back() {
            // What was read may be in the memory of the system only.
            last.file.sync().map_err(JournalError::io(&last.name(), "sync"))?;
        }
        // A spare whose making was broken off may not be durable, neither its size nor its name.
        for spare in files.idle.iter().filter(|spare| spare.bytes == options.segment_bytes) {
            spare.file.sync().map_err(JournalError::io(&segment_name(spare.number), "sync"))?;
        }
        storage.sync_dir().map_err(io("sync its folder"))?;
        let chain =
            if lost { Chain { now: chain.now, ..Chain::before(after.next()) } } else { chain };
        let Files { segments, idle, generation, numbers_from, .. } = files;
        let mut log =
            Log::assemble(Parts { storage, options, numbers_from, segments, generation, chain });
        log.keep_spares(idle).map_err(io("remove what is not needed"))?;
        if anew {
            log.begin_segment().map_err(io("begin a new segment"))?;
        }
        if lost {
            log.drop_before(after.next()).map_err(io("drop what the base covers"))?;
            opened.notices.push(format!(
                "the log ends with batch {ended}, the base with batch {after}: goes on after the base"
            ));
        }
        // That of a version that did not note it.
        log.note_newest().map_err(io("note its newest segment"))?;
        (opened.segments, opened.spares) = (log.segments(), log.spares() as u64);
        (opened.first, opened.last) = log.bounds();
        Ok((log, opened))
    }
}

impl<S: Storage> LogReader<S> {
    /// The head of the next batch and where it begins; the stream holds its body.
    fn step(&mut self) -> Result<Option<(Head, u64)>, JournalError> {
        if self.tail.is_some() {
            return Ok(None);
        }
        let mut following = self.files.segments.get(self.at + 1);
        if following.is_some_and(|following| following.first() == self.chain.next) {
            self.at += 1;
            self.position = HEADER_BYTES;
            self.stream.reset();
            following = self.files.segments.get(self.at + 1);
        }
        let Some(segment) = self.files.segments.get(self.at) else {
            return match self.files.missing {
                None => Ok(None),
                Some((number, _)) => Err(self.missing(segment_name(number), 0)),
            };
        };
        // What stands here is void: the one that is missing took its place.
        if self.files.missing.is_some_and(|(_, first)| first <= self.chain.next) {
            return Err(self.missing(segment.name(), self.position));
        }
        let place = self.stream.examine(&segment.file, self.position, segment.seed);
        let place = place.map_err(|error| JournalError::io(&segment.name(), "read")(error))?;
        let why = match place {
            Place::Batch(head) if self.follows(&head) => return Ok(Some(self.take(head))),
            Place::Batch(_) => "its index, epoch, sequence, kind or shard does not follow",
            Place::Bad(why) => why,
        };
        if let Some(following) = following {
            let (next, name, first) = (self.chain.next, following.name(), following.first());
            let what = format!(
                "batch {next}: {why}; it was durable, for {name} begins with batch {first}"
            );
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
            "batch {next}: it is missing with {name}, which held the newest batches from {first} on, and \
             is not there or has no whole header"
        );
        JournalError::Damaged { file, offset, what }
    }

    fn follows(&self, head: &Head) -> bool {
        head.kind == Kind::Facts
            && head.shard == self.options.shard
            && self.chain.fits(head.index, head.epoch, head.first)
    }

    /// The batch at the position is the next one.
    fn take(&mut self, head: Head) -> (Head, u64) {
        let at = self.position;
        self.last_at = at;
        self.files.segments[self.at].push(head.span());
        self.position += head.span();
        self.chain.advance(&head);
        self.read = (self.read.0 + 1, self.read.1 + head.span());
        (head, at)
    }

    fn opened(&self) -> Opened {
        let Chain { first, now, epoch, .. } = self.chain;
        let notices = self.files.notices.clone();
        Opened {
            batches: self.read.0,
            bytes: self.read.1,
            last_fact: first.map_or(0, |next| next.saturating_sub(1)),
            last_now: now,
            last_epoch: epoch,
            cut: self.tail.as_ref().and_then(|tail| tail.cut.clone()),
            notices,
            ..Opened::default()
        }
    }
}

impl<S: Storage> std::fmt::Debug for LogReader<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogReader").finish_non_exhaustive()
    }
}
