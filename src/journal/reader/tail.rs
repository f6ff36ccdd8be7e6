//! Where the log ends: nothing, a torn tail, or damage.

use super::Cut;
use crate::journal::chain::Chain;
use crate::journal::error::JournalError;
use crate::journal::record::{ALIGN, Head};
use crate::journal::segment::Segment;
use crate::journal::storage::File;
use crate::journal::stream::Stream;
use crate::limits::FILE_PIECE_BYTES;

/// What follows the last batch of the log.
pub(super) struct Tail {
    /// Remains of batches.
    pub cut: Option<Cut>,
}

impl Tail {
    /// The log cannot go on in this segment. With remains: a torn batch of which the lost sectors
    /// are written again with the same content would be whole, and so would be the batches behind it.
    pub fn needs_segment(&self) -> bool {
        self.cut.is_some()
    }

    /// Looks at what follows the last batch of the newest segment, where no batch follows for the
    /// reason `why`.
    ///
    /// # Errors
    /// [`JournalError::Damaged`] if what is missing was durable: a head behind it says so; or if the
    /// file is shorter than its header says, as no crash makes it.
    pub fn find<F: File>(
        stream: &mut Stream,
        segment: &Segment<F>,
        chain: &Chain,
        why: &str,
    ) -> Result<Tail, JournalError> {
        let (name, at, head_bytes) = (segment.name(), segment.end, segment.seed.head_bytes());
        let io = || JournalError::io(&name, "read");
        let bytes = segment.file.bytes().map_err(io())?;
        if bytes < segment.header.bytes {
            let what = format!(
                "batch {}: {why}; the file was cut short, by no crash: it has {bytes} bytes of {}",
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
                        "batch {}: {why}; batch {}, found at offset {found}, knew it to be durable",
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

/// The head of the batch that should follow, if it stands there: whole, while the body is not, or
/// so far that it names the numbers expected.
fn torn_head<F>(bytes: &[u8], segment: &Segment<F>, chain: &Chain) -> Option<Head> {
    let named = |head: &Head| chain.follows(head);
    Head::decode(bytes, segment.seed).or_else(|| Head::read(bytes, segment.seed).filter(named))
}

/// A whole head of a record after `lsn`. Copies of earlier ones, which a body may hold, do not
/// count: that they were written proves nothing.
fn later_head<F>(bytes: &[u8], segment: &Segment<F>, lsn: u64) -> Option<Head> {
    // Most of what is here is zeros, or facts: told apart without a checksum.
    let named = u64::from_le_bytes(*bytes[8..].first_chunk()?);
    let near =
        named.wrapping_sub(lsn).wrapping_sub(1) < segment.bytes / segment.seed.head_bytes() as u64;
    if near { Head::decode(bytes, segment.seed) } else { None }
}
