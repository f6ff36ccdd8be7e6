//! The journal: the facts of all turns, kept across restarts and crashes.
//!
//! One folder, `<dir>/journal/`:
//!
//! ```text
//! lock                      held by the server that uses the folder (flock); its pid as text
//! segment-<10 digits>.log   a segment: a preallocated file of the log, used again and again
//! newest                    names the newest segment
//! base-<20 digits>.base     a base: the whole state as of a batch X, named by X
//! ```
//!
//! A *batch* holds the facts of one turn and has an *index*, from 1, without gaps. The state is
//! the base of X and all batches after X. What is known to be durable was synced; everything else may
//! be lost, kept or torn by a crash, in any order. Segments are never renamed: the header says which use of the
//! file it is (the *generation*, which grows by 1 with each use) and which batch is the first.
//!
//! # Files
//!
//! All numbers are little-endian. A segment and a base begin with a block of 4096 bytes, in which
//! the header stands twice, at 0 and at 2048: one bad sector does not take both, and of two good
//! ones the one of the greater generation counts. The rest of the block is zero.
//!
//! ```text
//!  0  8 bytes  magic: "delaydLG" a segment, "delaydBS" a base, "delaydNS" the file `newest`
//!  8  u16      version of the format of files, 1
//! 10  u16      shard, 0
//! 12  u32      zero
//! 16  u64      generation; of a base X
//! 24  u64      salt, drawn at random for each use
//! 32  u64      index of the first batch; of a base X
//! 40  u64      size of the file in bytes; of a base 0
//! 48  u32      CRC-32C of bytes 0 to 47
//! ```
//!
//! The file `newest` is such a block alone: generation and first index of the newest segment, salt 0, and
//! for the size the number in the segment's name.
//!
//! Batches follow from 4096 on, each at a multiple of 8:
//!
//! ```text
//!  0  u32  CRC-32C of generation (u64), salt (u64) and bytes 4 to 63
//!  4  u8   version of the format of batches, 1
//!  5  u8   kind: 0 facts, 1 images of a base
//!  6  u16  shard, 0
//!  8  u64  index
//! 16  u64  epoch, from 1, never below that of the batch before
//! 24  u64  first: the sequence of its first fact, that of the batch before plus the count of that
//! 32  u64  durable: the newest index known durable when this was written
//! 40  u64  now, the time of the turn in microseconds since 1970
//! 48  u32  count of facts
//! 52  u32  length of the body in bytes
//! 56  u32  CRC-32C of the body
//! 60  u32  zero
//! 64  the body, then zeros up to the next multiple of 8
//! ```
//!
//! What an earlier use of the file left fails the first checksum, for generation and salt are others;
//! so does what a client puts into a body, for it cannot know the salt. A batch does not cross
//! segments. One that is larger than a segment gets a file of its own size, which is removed when it
//! is not needed, not used again.
//!
//! # Which batches count
//!
//! A segment of generation g with first index f makes void every batch with index >= f in segments
//! of lower generation. So from the newest segment down to the oldest each must begin before the one
//! after it, else it is void as a whole; and it holds its batches up to where the next one begins.
//! Those that hold nothing after X are not needed. All files that are void, not needed or without a
//! whole header are spares.
//!
//! Four rules of writing make that hold whatever a crash leaves:
//!
//! 1. A spare is filled with zeros and synced, and its name is synced, before it is used: no crash
//!    changes the size of a segment.
//! 2. Before the header of a segment is written, all batches before its first index are synced. So a
//!    header proves that they were durable, even if the header itself was never synced.
//! 3. Before a segment is given up, the headers of those that stay are synced: batches it made void
//!    stay void.
//! 4. The newest segment is named in a file of its own once its header is synced. So one that is named
//!    there, or a later one, is there after every crash.
//! 5. No byte of a batch that was synced is written again while the segment is in use, and none
//!    behind the end of the log where remains of a batch stand: the log goes on in a new segment.
//!
//! # The end of the log
//!
//! Reading goes on while batches follow each other in index, epoch and sequence. Where at index i
//! none follows (a checksum fails, a field does not fit, the file ends), it is
//!
//! * *damage*, and refused with file and offset, if a later segment begins beyond i (rule 2), or if a
//!   whole head of a batch after i stands anywhere behind it in the segment and says that i was
//!   durable. Heads of batches before i do not count: a body may hold a copy of them. So it is if the
//!   file `newest` names a segment of a generation above all that are there, or if the file is shorter
//!   than its header says: no crash shortens or removes a segment (rules 1 and 4), so something else
//!   did, and what it held is not known.
//! * a *torn tail* if the head of i is there but the batch is not whole, or a whole head of a later
//!   batch stands behind it. The log is cut at i with a notice: a new segment with first index i.
//! * the end otherwise. The log goes on in the same segment.
//!
//! # Every crash
//!
//! * *While a spare is made*: a file without header; if it has the size of a segment it is a spare,
//!   which opening syncs first, else it is removed.
//! * *After an append, before its sync*: any part of the batches is there. The whole ones up to the
//!   first that is not are kept, as no sync is known to have covered the rest: a torn tail.
//! * *While a torn tail is cut*: the header of the new segment is there or not. If not, the tail is
//!   found again. If it is, whatever the tail holds is void, for good.
//! * *While a segment is changed for the next*: the old one is synced. The new header is old, torn or
//!   new; if it is not new, nothing in the segment counts, and nothing in it was synced. The file
//!   `newest` names the old one until the new header is synced.
//! * *While the log is cut after i*: the same, with first index i + 1: all is cut or nothing.
//! * *After a cut, when a segment with cut batches is used again or removed*: the header that makes
//!   them void is durable (rule 3); in a new use their checksums fail; a removal that is lost brings
//!   back a void file.
//! * *While segments are dropped*: they hold only what the base covers, so whichever come back are not
//!   needed; the segment that X + 1 is in was never dropped.
//! * *The process ends, the system does not*: what is read may be in memory only, so opening syncs
//!   it before it counts as durable.
//! * *The base covers more than the log kept* (under `everysec`): the log ends before X. It goes on
//!   at X + 1 in a new segment; the others are not needed.
//! * *A write or sync fails*: nothing is known of what was not synced. The log is poisoned until it
//!   is opened anew; nothing is tried again.

pub mod base;
mod chain;
pub mod check;
pub mod commit_log;
mod disk;
pub mod dump;
mod entry;
mod error;
mod header;
mod log;
pub mod lower;
mod newest;
mod reader;
pub mod record;
pub mod recovery;
pub mod repair;
mod scan;
mod segment;
mod space;
mod storage;
mod stream;

pub use disk::{Disk, DiskFile, Lock, make_file};
pub use entry::{Entry, OwnedEntry};
pub use error::{JournalError, is_no_room, may_pass};
pub use header::{FILE_VERSION, Found, HEADER_BYTES, Header, Magic};
pub use log::{Log, LogOptions};
pub use newest::NEWEST;
pub use reader::{Cut, LogReader, Opened};
pub use segment::{Spare, SpareMaker, draw_salt, segment_name, segment_number};
pub use space::Space;
pub use storage::{File, Storage};
