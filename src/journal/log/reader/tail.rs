//! Where the log ends: nothing, a torn tail, or damage.

use super::Cut;
use crate::journal::error::JournalError;
use crate::journal::log::segment::Segment;
use crate::journal::record::chain::Chain;
use crate::journal::record::stream::RecordStream;
use crate::journal::record::{ALIGN, Head};
use crate::journal::storage::File;
use crate::limits::FILE_PIECE_BYTES;

/// The content after the last batch of the log.
#[derive(Debug)]
pub(super) struct Tail {
    /// Remains of batches.
    pub cut: Option<Cut>,
}

impl Tail {
    /// Looks at what follows the last batch of the newest segment, where no batch follows for the
    /// reason `why`.
    ///
    /// # Errors
    /// [`JournalError::Damaged`] if missing data was durable, according to a later header; or if the file is shorter
    /// than its header says, which no crash causes.
    pub fn find<F: File>(
        stream: &mut RecordStream,
        segment: &Segment<F>,
        chain: &Chain,
        why: &str,
    ) -> Result<Tail, JournalError> {
        let (name, at, head_bytes) = (segment.name(), segment.end, segment.seed.head_bytes());
        let io = || JournalError::io(&name, "read");
        let bytes = segment.file.bytes().map_err(io())?;
        if bytes < segment.header.bytes {
            let what = format!(
                "batch {}: {why}; the file was cut short, not by a crash: it has {bytes} bytes of {}",
                chain.next, segment.header.bytes
            );
            return Err(JournalError::Damaged { file: name, offset: at, what });
        }
        let first = stream.view(&*segment.file, at, head_bytes).map_err(io())?;
        let mut end = torn_head(first, segment, chain).map_or(at, |head| at + head.span());
        let mut position = at + ALIGN;
        while position + head_bytes as u64 <= bytes {
            let window = stream.view(&*segment.file, position, FILE_PIECE_BYTES).map_err(io())?;
            let heads = window.len().saturating_sub(head_bytes - ALIGN as usize) / ALIGN as usize;
            for found in (0..heads).map(|i| i * ALIGN as usize) {
                let Some(head) = later_head(&window[found..], segment, chain.lsn) else {
                    continue;
                };
                let found = position + found as u64;
                if head.durable >= chain.lsn {
                    let what = format!(
                        "batch {}: {why}; batch {}, found at offset {found}, records it as durable",
                        chain.next, head.index
                    );
                    return Err(JournalError::Damaged { file: name, offset: at, what });
                }
                end = end.max(found + head.span());
            }
            if heads == 0 {
                break;
            }
            position += heads as u64 * ALIGN;
        }
        let (index, lost) = (chain.next, end.min(bytes).saturating_sub(at));
        let cut = (end > at).then_some(Cut { file: name, offset: at, index, bytes: lost });
        Ok(Tail { cut })
    }
}

/// The header of the batch that should follow, if it is there: intact with an incomplete body, or
/// at least with the expected numbers.
fn torn_head<F>(bytes: &[u8], segment: &Segment<F>, chain: &Chain) -> Option<Head> {
    let named = |head: &Head| chain.follows(head);
    Head::decode(bytes, segment.seed).or_else(|| Head::read(bytes, segment.seed).filter(named))
}

/// A whole head of a record after `lsn`. Copies of earlier ones, which a body may hold, do not
/// count: that they were written proves nothing.
fn later_head<F>(bytes: &[u8], segment: &Segment<F>, lsn: u64) -> Option<Head> {
    // Most of the content is zeros, or facts: distinguished without a checksum.
    let named = u64::from_le_bytes(*bytes[8..].first_chunk()?);
    let near =
        named.wrapping_sub(lsn).wrapping_sub(1) < segment.bytes / segment.seed.head_bytes() as u64;
    if near { Head::decode(bytes, segment.seed) } else { None }
}
