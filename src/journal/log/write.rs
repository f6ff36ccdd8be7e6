//! How the log writes: what it prepares, in what order it becomes durable, what an error leaves.

use super::{Log, Parts};
use crate::journal::error::is_no_room;
use crate::journal::log::concurrent_reader::LogChange;
use crate::journal::log::newest_file;
use crate::journal::log::segment::{Segment, Spare, SpareMaker, segment_name};
use crate::journal::record::entry::SegmentEntry;
use crate::journal::record::header::HEADER_BYTES;
use crate::journal::record::raft_state::{LogState, Vote};
use crate::journal::record::{self, Head, RecordKind};
use crate::journal::storage::{File, Storage};
use crate::limits::LOG_BUFFER_BYTES;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

impl<S: Storage> Log<S> {
    /// Puts together what an opening found. All of it is durable.
    pub(in crate::journal) fn assemble(parts: Parts<S>) -> Log<S> {
        let Parts { storage, options, numbers_from, segments, generation, chain, standing, places } =
            parts;
        let maker = SpareMaker::new(Arc::clone(&storage), numbers_from, options.segment_bytes);
        Log {
            storage,
            options,
            maker,
            segments,
            spares: Vec::new(),
            generation,
            chain,
            standing,
            places,
            view: None,
            changes: Vec::new(),
            durable_lsn: chain.lsn - 1,
            durable: chain.last(),
            dirty: false,
            buffer: Vec::new(),
            poison: None,
            newest: None,
            unnoted: false,
        }
    }

    /// How many segments hold batches, or will hold the next.
    pub fn segments(&self) -> u64 {
        self.segments.len() as u64
    }

    /// Segments that are not needed become spares; what is too many, or of another size, is removed,
    /// durably.
    pub(in crate::journal) fn recycle(
        &mut self,
        segments: Vec<Segment<S::File>>,
    ) -> io::Result<()> {
        if segments.is_empty() {
            return Ok(());
        }
        // The header of such a segment may be all that makes older batches void. Before it goes, the
        // header that takes that over is durable.
        self.sync_current()?;
        let spares = segments.into_iter().map(|segment| {
            let Segment { number, file, bytes, .. } = segment;
            Spare { number, file, bytes }
        });
        self.keep_spares(spares.collect())
    }

    /// As [`recycle`](Log::recycle).
    pub(in crate::journal) fn keep_spares(&mut self, spares: Vec<Spare<S>>) -> io::Result<()> {
        let mut removed = false;
        for spare in spares {
            if spare.bytes == self.options.segment_bytes
                && self.spares.len() < self.options.spares_max
            {
                self.spares.push(spare);
            } else {
                drop(spare.file);
                self.storage.remove(&segment_name(spare.number))?;
                removed = true;
            }
        }
        if removed { self.storage.sync_dir() } else { Ok(()) }
    }

    /// Writes these records: see [`append`](Log::append).
    pub(super) fn write(&mut self, entries: &[SegmentEntry<'_>]) -> io::Result<()> {
        self.check()?;
        let state = self.state_span(entries);
        let mut large = self.provide(entries, state)?;
        let mut written = Ok(());
        self.buffer.clear();
        for entry in entries {
            let span = record::span(entry.body.len());
            if self.current_room() < span {
                let next = match self.is_large(state, span) {
                    true => large.pop_front(),
                    false => self.take_spare(),
                };
                let spare = next.expect("was provided");
                written = self.flush().and_then(|()| self.roll(spare));
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
        // The space of a larger batch.
        self.buffer.shrink_to(2 * LOG_BUFFER_BYTES);
        self.poisoning(written)?;
        self.tell();
        Ok(())
    }

    /// The most that the state of a segment begun within these entries takes.
    pub(super) fn state_span(&self, entries: &[SegmentEntry<'_>]) -> u64 {
        let members = entries.iter().filter(|entry| entry.kind == RecordKind::Members);
        let more = members.map(|entry| LogState::members_bytes(entry.body.len()));
        record::span(self.standing.state_bytes() + more.sum::<usize>())
    }

    /// Makes what spares these entries will need and are not there; those of batches that are larger
    /// than a segment are returned, in order. An error leaves the log as it was. `state` is the most that
    /// a segment's own state takes: with less, what is provided is enough.
    fn provide(
        &mut self,
        entries: &[SegmentEntry<'_>],
        state: u64,
    ) -> io::Result<VecDeque<Spare<S>>> {
        let mut chain = self.chain;
        let (mut room, mut spares, mut large) = (self.current_room(), 0, Vec::new());
        for entry in entries {
            let SegmentEntry { kind, index, epoch, first, count, .. } = *entry;
            if kind.is_batch() {
                assert!(chain.fits(index, epoch, first), "batch {index} does not follow {chain:?}");
                assert!(kind == RecordKind::Facts || count == 0, "batch {index} has facts");
                (chain.next, chain.epoch) = (index.next(), epoch);
                chain.first = Some(first + u64::from(count));
            }
            let span = record::span(entry.body.len());
            if room < span {
                let bytes = (HEADER_BYTES + state + span).next_multiple_of(HEADER_BYTES);
                match self.is_large(state, span) {
                    true => large.push(bytes),
                    false => spares += 1,
                }
                room = bytes.max(self.options.segment_bytes) - HEADER_BYTES - state;
            }
            room -= span;
        }
        while self.spares.len() < spares {
            self.spares.push(self.maker.make()?);
        }
        let mut made = VecDeque::new();
        for bytes in large {
            match self.maker.make_of(bytes) {
                Ok(spare) => made.push_back(spare),
                Err(error) => {
                    // This error is reported; remains are removed by the next opening.
                    for Spare { number, file, .. } in made {
                        drop(file);
                        let _ = self.storage.remove(&segment_name(number));
                    }
                    return Err(error);
                }
            }
        }
        Ok(made)
    }

    /// Whether a record needs a file of its own size.
    fn is_large(&self, state: u64, span: u64) -> bool {
        HEADER_BYTES + state + span > self.options.segment_bytes
    }

    /// The spare that is there for longest.
    pub(super) fn take_spare(&mut self) -> Option<Spare<S>> {
        if self.spares.is_empty() { None } else { Some(self.spares.remove(0)) }
    }

    /// Adds a record to what [`flush`](Log::flush) writes. There must be room.
    fn push(&mut self, entry: &SegmentEntry<'_>) {
        let SegmentEntry { kind, index, epoch, node, first, now, count, body } = *entry;
        let (version, shard) = (record::RECORD_VERSION, self.options.shard);
        let (lsn, durable) = (self.chain.lsn, self.durable_lsn);
        // Batches of a standalone server are committed when written, up to the batch that names the
        // first members.
        let committed = match self.standing.is_alone() && kind != RecordKind::Members {
            true if kind.is_batch() => index,
            true => self.chain.last(),
            false => self.chain.committed,
        };
        // Length and checksum of the body are set where it is copied.
        let (length, body_crc) = (0, 0);
        #[rustfmt::skip]
        let head = Head {
            version, kind, shard, lsn, durable, index, epoch, node, first, now, committed, count, length,
            body_crc,
        };
        let segment = self.segments.back_mut().expect("there is room");
        let at = segment.end;
        let head = record::push(&mut self.buffer, head, body, segment.seed);
        segment.push(head.span());
        self.chain.advance(&head);
        match kind {
            RecordKind::Cut => {
                self.standing.cut(index);
                self.places.cut(index);
                self.changes.extend(self.view.is_some().then_some(LogChange::Cut(index)));
                self.durable = self.durable.min(index);
            }
            RecordKind::Vote => self.standing.vote = Vote::decode(body),
            _ if !kind.is_batch() => {}
            _ => {
                self.places.push(index, segment.first(), at);
                let change = LogChange::Batch(index, segment.first(), at);
                self.changes.extend(self.view.is_some().then_some(change));
                if kind == RecordKind::Members {
                    let added = self.standing.add(epoch, index, body);
                    assert!(added, "the members of batch {index} are too many or too large");
                }
            }
        }
    }

    /// Writes the pushed records: they are right before the end of the last segment.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let segment = self.segments.back().expect("something was pushed");
        self.dirty = true;
        segment.file.write_at(&self.buffer, segment.end - self.buffer.len() as u64)?;
        self.buffer.clear();
        Ok(())
    }

    /// Goes on in `spare`, beginning with a state that [`flush`](Log::flush) writes. All before is synced
    /// first: that a header is there proves that every record before it was durable, whichever unsynced
    /// writes a crash kept.
    pub(super) fn roll(&mut self, spare: Spare<S>) -> io::Result<()> {
        self.sync_current()?;
        self.generation += 1;
        let state = self.state_span(&[]);
        let mut segment =
            spare.begin(self.options.shard, self.generation, self.chain.lsn, state)?;
        segment.before = Some(self.chain.position());
        (self.dirty, self.unnoted) = (true, true);
        // One without a record begins where the new one does: it is void.
        let is_empty = self.segments.back().is_some_and(|last| last.next == last.first());
        let empty = if is_empty { self.segments.pop_back() } else { None };
        self.segments.push_back(segment);
        self.recycle(empty.into_iter().collect())?;
        let body = self.state().encode();
        let state = self.aside(RecordKind::State, &body);
        self.push(&state);
        Ok(())
    }

    /// Syncs the last segment if something was written to it.
    pub(super) fn sync_current(&mut self) -> io::Result<()> {
        if let Some(segment) = self.segments.back().filter(|_| self.dirty) {
            segment.file.sync()?;
            self.dirty = false;
        }
        (self.durable_lsn, self.durable) = (self.chain.lsn - 1, self.chain.last());
        if self.unnoted { self.note_newest() } else { Ok(()) }
    }

    /// Notes that the newest segment is there. Its header must be durable.
    pub(in crate::journal) fn note_newest(&mut self) -> io::Result<()> {
        self.unnoted = false;
        let Some(Segment { number, header, .. }) = self.segments.back() else { return Ok(()) };
        match newest_file::write(&*self.storage, &mut self.newest, *number, header) {
            // A full disk has no space for the file, if it did not exist yet: another segment will
            // note it. Until then a loss of this one would not be noticed.
            Err(error) if is_no_room(&error) => Ok(()),
            noted => noted,
        }
    }

    /// Bytes left in the last segment.
    pub(super) fn current_room(&self) -> u64 {
        self.segments.back().map_or(0, Segment::room_bytes)
    }

    /// Fails if an earlier call did so that nothing may be written any more.
    pub(super) fn check(&self) -> io::Result<()> {
        match &self.poison {
            None => Ok(()),
            Some(text) => Err(io::Error::other(format!("the journal failed before: {text}"))),
        }
    }

    /// Remembers an error, for good.
    pub(super) fn poisoning<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            self.poison = Some(error.to_string());
        }
        result
    }
}
