//! How the log writes: what it prepares, in what order it becomes durable, what an error leaves.

use super::{Log, Parts};
use crate::ids::Index;
use crate::journal::chain::Chain;
use crate::journal::entry::Entry;
use crate::journal::error::is_no_room;
use crate::journal::header::HEADER_BYTES;
use crate::journal::newest;
use crate::journal::record::{self, Head, Kind};
use crate::journal::segment::{Segment, Spare, SpareMaker, segment_name};
use crate::journal::storage::{File, Storage};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

impl<S: Storage> Log<S> {
    /// Puts together what an opening found. All of it is durable.
    pub(in crate::journal) fn assemble(parts: Parts<S>) -> Log<S> {
        let Parts { storage, options, numbers_from, segments, generation, chain } = parts;
        let maker = SpareMaker::new(Arc::clone(&storage), numbers_from, options.segment_bytes);
        Log {
            storage,
            options,
            maker,
            segments,
            spares: Vec::new(),
            generation,
            chain,
            durable: chain.last(),
            dirty: false,
            buffer: Vec::new(),
            poison: None,
            newest: None,
            unnoted: false,
        }
    }

    /// Goes on in a new segment, which is durable when this returns.
    pub(in crate::journal) fn begin_segment(&mut self) -> io::Result<()> {
        let spare = match self.take_spare() {
            Some(spare) => spare,
            None => self.maker.make()?,
        };
        self.roll(spare, self.chain.next)?;
        self.sync_current()
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

    /// Makes what spares these entries will need and are not there; those of batches that are larger
    /// than a segment are returned, in order. An error leaves the log as it was.
    pub(super) fn provide(&mut self, entries: &[Entry<'_>]) -> io::Result<VecDeque<Spare<S>>> {
        let mut chain = self.chain;
        let (mut room, mut spares, mut large) = (self.current_room(), 0, Vec::new());
        for entry in entries {
            let Entry { index, epoch, first, count, .. } = *entry;
            assert!(chain.fits(index, epoch, first), "batch {index} does not follow {chain:?}");
            (chain.next, chain.epoch) = (index.next(), epoch);
            chain.first = Some(first + u64::from(count));
            let span = record::span(entry.body.len());
            if room < span {
                let bytes = (HEADER_BYTES + span).next_multiple_of(HEADER_BYTES);
                match bytes > self.options.segment_bytes {
                    true => large.push(bytes),
                    false => spares += 1,
                }
                room = bytes.max(self.options.segment_bytes) - HEADER_BYTES;
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
                    // The error is the one to tell; what stays is removed by the next opening.
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

    /// The spare that is there for longest.
    pub(super) fn take_spare(&mut self) -> Option<Spare<S>> {
        if self.spares.is_empty() { None } else { Some(self.spares.remove(0)) }
    }

    /// Adds a batch to what [`flush`](Log::flush) writes. There must be room.
    pub(super) fn push(&mut self, entry: &Entry<'_>) {
        let Entry { index, epoch, first, now, count, body } = *entry;
        let (shard, durable) = (self.options.shard, self.durable);
        // Length and checksum of the body are set where it is copied.
        let (length, body_crc, kind) = (0, 0, Kind::Facts);
        let head = Head { kind, shard, index, epoch, first, durable, now, count, length, body_crc };
        let segment = self.segments.back_mut().expect("there is room");
        let head = record::push(&mut self.buffer, head, body, segment.seed);
        segment.push(head.span());
        self.chain.advance(&head);
    }

    /// Writes what was pushed: it stands right before the end of the last segment.
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

    /// Goes on in `spare` with batch `first`. All before is synced first: that a header is there
    /// proves that every batch before it was durable, whichever unsynced writes a crash kept.
    pub(super) fn roll(&mut self, spare: Spare<S>, first: Index) -> io::Result<()> {
        self.sync_current()?;
        self.generation += 1;
        let segment = spare.begin(self.options.shard, self.generation, first)?;
        (self.dirty, self.unnoted) = (true, true);
        // One without a batch begins where the new one does: it is void.
        let is_empty = self.segments.back().is_some_and(|last| last.next == last.first());
        let empty = if is_empty { self.segments.pop_back() } else { None };
        self.segments.push_back(segment);
        self.recycle(empty.into_iter().collect())
    }

    /// Syncs the last segment if something was written to it.
    pub(super) fn sync_current(&mut self) -> io::Result<()> {
        if let Some(segment) = self.segments.back().filter(|_| self.dirty) {
            segment.file.sync()?;
            self.dirty = false;
        }
        self.durable = self.chain.last();
        if self.unnoted { self.note_newest() } else { Ok(()) }
    }

    /// Notes that the newest segment is there. Its header must be durable.
    pub(in crate::journal) fn note_newest(&mut self) -> io::Result<()> {
        self.unnoted = false;
        let Some(Segment { number, header, .. }) = self.segments.back() else { return Ok(()) };
        match newest::write(&*self.storage, &mut self.newest, *number, header) {
            // A full disk has no room for the file, if there was none yet: another segment will
            // note it. Until then nobody would miss this one.
            Err(error) if is_no_room(&error) => Ok(()),
            noted => noted,
        }
    }

    /// After a cut: the batches up to `index`, which end at `end` of their segment, are left, and the
    /// segment begun by the cut. The others hold nothing any more.
    pub(super) fn leave(&mut self, index: Index, end: u64, chain: Chain) -> io::Result<()> {
        let current = self.segments.pop_back().expect("the cut began one");
        let kept = self.segments.partition_point(|segment| segment.first() <= index);
        let gone = self.segments.split_off(kept);
        if let Some(last) = self.segments.back_mut() {
            last.cut(index, end);
        }
        self.segments.push_back(current);
        (self.chain, self.durable) = (chain, index);
        self.recycle(gone.into())
    }

    /// Which segment holds the batch.
    pub(super) fn segment_of(&self, index: Index) -> usize {
        self.segments.partition_point(|segment| segment.first() <= index) - 1
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
