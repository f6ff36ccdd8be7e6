//! The journal: the facts of all turns, kept across restarts and crashes.
//!
//! One folder, `<dir>/journal/`:
//!
//! ```text
//! lock                      held by the server that uses the folder (flock); its pid as text
//! segment-<10 digits>.log   a segment: a preallocated file of the log, used again and again
//! newest                    names the newest segment
//! base-<4 digits>-<20 digits>.base   a base: the whole state as of a batch X, named by shard and X
//! ```
//!
//! A *batch* holds the facts of one turn and has an *index*, from 1, without gaps. The state is the base of X and all
//! batches after X. Everything known to be durable was synced; everything else may be lost, kept or torn by a crash, in
//! any order. Segments are never renamed: the header says which use of the file it is (the *generation*, which grows by
//! 1 with each use) and which record is the first.
//!
//! The log is a stream of *records*: batches and others. Each has a number of its own, the *lsn*, from 1, without gaps:
//! it shows what a crash has taken. The index says what is applied, and in which order.
//!
//! # Files
//!
//! All numbers are little-endian. A segment and a base begin with a block of 4096 bytes, which has
//! the header twice, at 0 and at 2048: one bad sector does not affect both, and of two good ones
//! the one of the greater generation counts. The rest of the block is zero.
//!
//! ```text
//!  0  8 bytes  magic: "delaydLG" a segment, "delaydBS" a base, "delaydNS" the file `newest`
//!  8  u16      version of the format of the file and of its records, 2
//! 10  u16      shard, 0
//! 12  u32      zero
//! 16  u64      generation; of a base X
//! 24  u64      salt, drawn at random for each use
//! 32  u64      lsn of the first record; of a base X
//! 40  u64      size of the file in bytes; of a base 0
//! 48  u32      CRC-32C of bytes 0 to 47
//! ```
//!
//! The file `newest` is one such block, with the generation and the first lsn of the newest segment. Its size field has
//! the number in the segment's name; its salt field has the key for hashing ids, or 0 if none is kept.
//!
//! Records follow from 4096 on, each at a multiple of 8:
//!
//! ```text
//!  0  u32  CRC-32C of generation (u64), salt (u64) and bytes 4 to 87
//!  4  u8   version of the format of records, 2
//!  5  u8   kind
//!  6  u16  shard, 0
//!  8  u64  lsn, that of the record before plus 1
//! 16  u64  durable: the newest lsn known durable when this was written
//! 24  u64  index: in a batch its own; in a cut the last batch that stays; otherwise the last batch so far
//! 32  u64  epoch of that batch, from 1, never below that of the batch before
//! 40  u64  node that led; 0 on a standalone server. For people only: nothing compares it
//! 48  u64  first: the sequence number of its first fact: `first` + `count` of the previous batch; in a record
//!          without facts, that of the next fact
//! 56  u64  now, the time of the turn in microseconds since 1970
//! 64  u64  committed: the newest index known committed when this was written; on a standalone server the last
//! 72  u32  count of facts
//! 76  u32  length of the body in bytes
//! 80  u32  CRC-32C of the body
//! 84  u32  zero
//! 88  the body, then zeros up to the next multiple of 8
//!
//! kind  0 facts    a batch
//!       1 images   of a base
//!       2 blank    a batch without facts, with which a leader begins its epoch
//!       3 members  a batch without facts; its body lists the members from here on
//!       4 state    the state of the log so far: `record::raft_state` describes the body
//!       5 cut      the batches after `index` are void
//!       6 vote     body: epoch u64, node u64; node 0: no vote
//! ```
//!
//! Remains of an earlier use of the file fail the first checksum, because generation and salt have changed; so does a
//! client's forged record in a body, because it cannot know the salt. A record does not cross segments. One that is
//! larger than a segment gets a file of its own size, which is removed when it is not needed, not reused.
//!
//! A *state* is the first record of every segment and the last one of an orderly stop. So a segment can be
//! given up without losing the vote, the members, or where the log begins; a start knows from the first record
//! of each segment which ones it needs; and an orderly stop proves that the last batch was durable.
//!
//! # Version 1
//!
//! Version 1 stays readable forever. Its record headers have 64 bytes: the first 8 as above, then index, epoch, first,
//! durable (an index), now, and the last 16 bytes as above; kinds are 0 and 1, the lsn is the index, everything is committed. A base
//! is called `base-<20 digits>.base`. Such a log is opened as it is; the first new record goes to a new segment of
//! version 2, whose state gives the position of the log.
//!
//! # Batches that count
//!
//! A batch follows the previous one in index, epoch and sequence. A cut moves the end back: everything after it is void
//! for good, and stays in its segments until these are dropped. A cut costs one record and one sync. A cut of a batch
//! that an earlier header calls committed is damage.
//!
//! A batch is *applied* when a later header, its own, or a state says that it is committed. A standalone server says so
//! in the batch's own header, a member of a cluster when it is known; a batch of members is in force at once. Batches
//! at the end that are not known to be committed stay in the log, and are passed to the caller, not applied.
//!
//! # Which records count
//!
//! A segment of generation g with first lsn f makes void every record with lsn >= f in segments of lower generation.
//! Go from the newest segment to the oldest. A segment that does not begin before the next newer one that counts is
//! void; otherwise its records count up to where that one begins. Segments before one whose state names X or a later
//! batch are not needed: they hold nothing after X. All files that are void, not needed or without an intact
//! header are spares.
//!
//! Five rules of writing keep this true whatever a crash leaves:
//!
//! 1. A spare is filled with zeros and synced, and its name is synced, before it is used: no crash
//!    changes the size of a segment.
//! 2. Before the header of a segment is written, all records before its first lsn are synced. So a
//!    header proves that they were durable, even if the header itself was never synced.
//! 3. Before a segment is given up, the headers and the states of those that stay are synced: the records it
//!    made void stay void, and its state is not lost.
//! 4. The newest segment is named in a file of its own once its header is synced. So after every
//!    crash the segment it names, or a later one, exists.
//! 5. No byte of a synced record is written again while the segment is in use, and none after the end of the log if
//!    remains of a record are there: the log goes on in a new segment. The same holds after a header whose state was
//!    lost in a crash.
//!
//! # The end of the log
//!
//! Reading goes on while records follow each other by lsn, and batches by index, epoch and sequence. If no
//! valid record follows at lsn i (a checksum fails, a field does not fit, the file ends), this is
//!
//! * *damage*, and refused with file and offset, if a later segment begins beyond i (rule 2), or if an intact header of
//!   a record after i is anywhere after it in the segment and says that i was durable. Headers of records before i do
//!   not count: a body may contain a copy of them. It is also damage if the file `newest` names a segment of a
//!   generation above all existing ones, or if the file is shorter than its header says: no crash shortens or removes a
//!   segment (rules 1 and 4), so something else did, and its content is unknown.
//! * a *torn tail* if the header of i is there but the record is not intact, or an intact header of a later one
//!   follows. The log is cut at i with a notice: a new segment with first lsn i. A changed byte in a synced record
//!   looks the same if no later header or state records it as durable, and is cut though it may have been acknowledged.
//! * the end otherwise. The log goes on in the same segment.
//!
//! # Every crash
//!
//! * *While a spare is made*: a file without header; if it has the size of a segment it is a spare,
//!   which opening syncs first, else it is removed.
//! * *After an append, before its sync*: any part of the records is there. The whole ones up to the
//!   first that is not are kept, as no sync is known to have covered the rest: a torn tail.
//! * *While a torn tail is cut*: the header of the new segment is there or not. If not, the tail is
//!   found again. If it is, whatever the tail holds is void, for good.
//! * *While a segment is changed for the next*: the old one is synced. The new header is old, torn or
//!   new; if it is not new, nothing in the segment counts, and nothing in it was synced. The file
//!   `newest` names the old one until the new header is synced.
//! * *While batches are cut*: either the record of the cut is there with everything before it, or the batches still
//!   are. Records after a missing cut are a torn tail.
//! * *After a torn tail, when a segment with remains is used again or removed*: the header that makes
//!   them void is durable (rule 3); in a new use their checksums fail; a removal that is lost brings
//!   back a void file.
//! * *After a vote, before its sync*: it is there or not. It had not been sent.
//! * *While segments are dropped*: they contain only what the base covers, so whichever come back are not needed; the
//!   segment of X + 1 was never dropped. A node of a cluster, which reads them all, begins after the last missing one.
//! * *The process ends, the system does not*: what is read may be in memory only, so opening syncs
//!   it before it counts as durable.
//! * *The base covers more than the log kept* (under `everysec`): the log ends before X. It goes on
//!   at X + 1 in a new segment; the others are not needed.
//! * *A write or sync fails*: the state of everything not synced is unknown. The log is poisoned
//!   until it is opened again; nothing is retried.

pub mod base;
mod disk;
mod error;
mod log;
pub mod offline;
pub mod record;
pub mod recovery;
mod space;
mod storage;

pub use base::incoming::{Arrived, BaseId, Incoming, Offer, part_in};
pub use disk::{Disk, DiskFile, Lock, make_file, open_file};
pub use error::{JournalError, is_no_room, may_pass};
pub use log::concurrent_reader::LogView;
pub use log::newest_file::{NEWEST, hash_key, kept_key};
pub use log::reader::{Cut, FoundRecord, LogReader, Opened, Records};
pub use log::segment::{Spare, SpareMaker, draw_salt, segment_name, segment_number};
pub use log::{Log, LogOptions};
pub use record::entry::{OwnedEntry, SegmentEntry};
pub use record::header::{FILE_VERSION, FoundHeader, HEADER_BYTES, Header, Magic};
pub use space::Space;
pub use storage::{File, Storage};
