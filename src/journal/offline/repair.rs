//! Cuts a damaged log, so that a start finds the exact prefix before the damage.
//!
//! Nothing is overwritten. A new segment is begun whose first record has the number of the lost one: its header, once
//! synced, makes void everything after it. It begins with a state of what the log knew there, so that a vote and the
//! members are not cut with the batches. The header is one write, so that a crash leaves the log cut, or as it was.

use crate::ids::Index;
use crate::journal::error::JournalError;
use crate::journal::log::LogOptions;
use crate::journal::log::newest_file;
use crate::journal::log::scan::scan;
use crate::journal::log::segment::{Segment, SpareMaker, segment_name};
use crate::journal::offline::check::Spot;
use crate::journal::record::entry::SegmentEntry;
use crate::journal::record::header::HEADER_BYTES;
use crate::journal::record::stream::{FoundAt, RecordStream};
use crate::journal::record::{self, ALIGN, Head, RECORD_VERSION, RecordKind};
use crate::journal::storage::{File, Storage};
use crate::limits::{FILE_PIECE_BYTES, SEGMENT_BYTES_MIN};
use crate::time::Micros;
use std::io;
use std::sync::Arc;

/// A part of a file that a cut makes void.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    pub file: String,
    /// From here to its end.
    pub offset: u64,
    /// Its generation and salt, which the checksums of its batches begin with; none without a header.
    pub seed: Option<(u64, u64)>,
}

/// The newest segment, by its file's name and the `lsn` of its first record, if it is not there: what it held is lost,
/// and nothing says how much that was. `base` is the last batch of the base.
pub fn missing<S: Storage>(
    storage: &S,
    base: Index,
) -> Result<Option<(String, u64)>, JournalError> {
    let files = scan(storage, LogOptions::default().shard, base)?;
    Ok(files.missing.map(|(number, first)| (segment_name(number), first)))
}

/// The part that a cut at `spot` makes void: the damaged segment from there, and all later ones. `base` is the last
/// batch of the base. Segments without an intact header are included, because they may be the missing ones.
pub fn pieces<S: Storage>(
    storage: &S,
    base: Index,
    spot: &Spot,
) -> Result<Vec<Piece>, JournalError> {
    let files = scan(storage, LogOptions::default().shard, base)?;
    let behind = files.segments.iter().skip_while(|segment| segment.number != spot.segment);
    let mut pieces = Vec::new();
    for segment in behind {
        let offset = if segment.number == spot.segment { spot.offset } else { 0 };
        let seed = Some((segment.header.generation, segment.header.salt));
        pieces.push(Piece { file: segment.name(), offset, seed });
    }
    for number in files.headless {
        pieces.push(Piece { file: segment_name(number), offset: 0, seed: None });
    }
    Ok(pieces)
}

/// Returns all intact batches from `spot` on, found at any place of the damaged segment and later
/// ones. Batches after an earlier cut are not included.
pub fn behind<S: Storage>(
    storage: &S,
    base: Index,
    spot: &Spot,
    each: &mut dyn FnMut(&SegmentEntry<'_>),
) -> Result<(), JournalError> {
    let files = scan(storage, LogOptions::default().shard, base)?;
    let mut segments =
        files.segments.iter().skip_while(|segment| segment.number != spot.segment).peekable();
    while let Some(segment) = segments.next() {
        let to = segments.peek().map(|following| following.first());
        let to = to.or(files.missing.map(|(_, first)| first));
        let (from, mut at) = match segment.number == spot.segment {
            true => (spot.lsn, spot.offset),
            false => (segment.first(), HEADER_BYTES),
        };
        let mut stream = RecordStream::new(FILE_PIECE_BYTES);
        while at + segment.seed.head_bytes() as u64 <= segment.bytes {
            let place = stream.examine(&*segment.file, at, segment.seed);
            let place = place.map_err(JournalError::io(&segment.name(), "read"))?;
            let wanted = |lsn: u64| lsn >= from && to.is_none_or(|to| lsn < to);
            at += match place {
                FoundAt::Record(head) if head.kind == RecordKind::Facts && wanted(head.lsn) => {
                    let body = stream.buffered(at + head.body_at(), head.length as usize);
                    each(&SegmentEntry::new(&head, body));
                    head.span()
                }
                _ => ALIGN,
            };
        }
    }
    Ok(())
}

/// Cuts the log at `spot`; durable when it returns, and noted as the newest segment. A crash between the
/// two leaves the log cut: the note then names a segment of lower generation.
pub fn cut<S: Storage>(storage: &Arc<S>, base: Index, spot: &Spot) -> Result<(), JournalError> {
    let shard = LogOptions::default().shard;
    let files = scan(&**storage, shard, base)?;
    let maker = SpareMaker::new(Arc::clone(storage), files.numbers_from, SEGMENT_BYTES_MIN);
    let name = segment_name(files.numbers_from);
    let io = |action| JournalError::io(&name, action);
    let spare = maker.make().map_err(io("make"))?;
    // It is new: there is nothing to overwrite.
    let segment = spare.begin(shard, files.generation + 1, spot.lsn, 0).map_err(io("begin"))?;
    write_state(&segment, spot).map_err(io("write"))?;
    segment.file.sync().map_err(io("sync"))?;
    newest_file::write(&**storage, &mut None, segment.number, &segment.header)
        .map_err(JournalError::io(newest_file::NEWEST, "write"))
}

fn write_state<F: File>(segment: &Segment<F>, spot: &Spot) -> io::Result<()> {
    let last = spot.state.last;
    let head = Head {
        version: RECORD_VERSION,
        kind: RecordKind::State,
        shard: segment.header.shard,
        lsn: spot.lsn,
        durable: spot.lsn - 1,
        index: last.index,
        epoch: last.epoch,
        node: 0,
        first: last.first,
        now: Micros(0),
        committed: spot.state.committed,
        count: 0,
        length: 0,
        body_crc: 0,
    };
    let mut buffer = Vec::new();
    record::push(&mut buffer, head, &spot.state.encode(), segment.seed);
    segment.file.write_at(&buffer, HEADER_BYTES)
}
