//! Batches that stand in order in a part of a file.

use crate::ids::Index;
use crate::journal::error::JournalError;
use crate::journal::log::segment::segment_name;
use crate::journal::record::entry::{OwnedEntry, SegmentEntry};
use crate::journal::record::stream::{FoundAt, RecordStream};
use crate::journal::record::{HEAD_BYTES, Head, Seed};
use crate::journal::storage::File;
use crate::limits::LOG_READ_BYTES;
use std::io;

/// A part of a segment in which batches stand in order of their indexes, other records between them.
pub(in crate::journal) struct Run<'f, F> {
    /// The segment.
    pub number: u64,
    pub file: &'f F,
    pub seed: Seed,
    /// Where it begins.
    pub at: u64,
    /// It ends before this batch; without one with the log.
    pub end: Option<Index>,
}

#[derive(Debug, Default)]
pub(in crate::journal) struct Batches {
    pub read: Vec<OwnedEntry>,
    bytes: usize,
}

impl<F: File> Run<'_, F> {
    /// The head of the batch of this index, which must be one of the run.
    pub fn head(&self, index: Index) -> io::Result<Head> {
        Ok(self.find(index, &mut RecordStream::new(LOG_READ_BYTES))?.1)
    }

    /// Where that batch begins, and its head.
    fn find(&self, index: Index, stream: &mut RecordStream) -> io::Result<(u64, Head)> {
        let mut at = self.at;
        loop {
            let bytes = stream.view(self.file, at, HEAD_BYTES)?;
            match Head::decode(bytes, self.seed) {
                Some(head) if head.kind.is_batch() && head.index == index => {
                    return Ok((at, head));
                }
                Some(head) if !head.kind.is_batch() || head.index < index => at += head.span(),
                _ => {
                    let text = format!("{}: no batch at offset {at}", segment_name(self.number));
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
            }
        }
    }

    /// Reads batches from `index` to `to` as far as they are in the run; the one that follows, or none if
    /// their bodies would be more than `byte_limit` bytes.
    pub fn read(
        &self,
        mut index: Index,
        to: Index,
        byte_limit: usize,
        batches: &mut Batches,
    ) -> Result<Option<Index>, JournalError> {
        let name = segment_name(self.number);
        let io = || JournalError::io(&name, "read");
        let mut stream = RecordStream::new(LOG_READ_BYTES);
        let (mut at, _) = self.find(index, &mut stream).map_err(io())?;
        while index <= to && self.end.is_none_or(|end| index < end) {
            let damaged = |why: &str| JournalError::Damaged {
                file: name.clone(),
                offset: at,
                what: format!("batch {index}: {why}"),
            };
            let head = match stream.examine(self.file, at, self.seed).map_err(io())? {
                FoundAt::Record(head) if !head.kind.is_batch() => {
                    at += head.span();
                    continue;
                }
                FoundAt::Record(head) if head.index == index => head,
                FoundAt::Record(_) => return Err(damaged("it is another one")),
                FoundAt::Bad(why) => return Err(damaged(why)),
            };
            batches.bytes += head.length as usize;
            if !batches.read.is_empty() && batches.bytes > byte_limit {
                return Ok(None);
            }
            let body = stream.buffered(at + head.body_at(), head.length as usize);
            batches.read.push(SegmentEntry::new(&head, body).to_owned());
            (at, index) = (at + head.span(), index.next());
        }
        Ok(Some(index))
    }
}
