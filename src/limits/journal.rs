//! The journal: what is in memory before it is written, how files are read and written, when a base begins.

use super::{COMMANDS_US_PER_TURN, READ_BYTES_PER_TURN_ALL};
use std::time::Duration;

/// Under `everysec` replies wait when data has not been durable for this long, µs.
pub const UNSAFE_US_MAX: u64 = 1_000_000;
/// A sync that takes this long holds hand-offs back, µs; one that took this long is counted.
pub const SYNC_US_MAX: u64 = 1_000_000;
/// Proposals under `everysec` are checked in steps of this many µs.
pub const PROPOSAL_AGE_STEP_US: u64 = 10_000;
/// Facts that no reply waits for are synced after this long at the latest, µs.
pub const LAZY_SYNC_US: u64 = 1_000_000;
/// Under `everysec`: from one sync to the next, µs. Half of what may be lost, so that a sync may take
/// as long again before replies have to wait for it.
pub const EVERYSEC_SYNC_US: u64 = 500_000;
const _: () = assert!(EVERYSEC_SYNC_US * 2 <= UNSAFE_US_MAX);
/// The interval between two writes that no client waits for, µs. A turn then has no writer to wake,
/// except 200 times a second.
pub const LAZY_WRITE_US: u64 = 5_000;
const _: () = assert!(LAZY_WRITE_US > COMMANDS_US_PER_TURN && LAZY_WRITE_US < EVERYSEC_SYNC_US);

/// The stack of the thread that reads a journal, bytes: address space, of which what is used counts.
pub const RECOVERY_STACK_BYTES: usize = 16 << 20;

/// Bytes proposed and not committed, above which no requests are read.
pub const UNCOMMITTED_BYTES_MAX: u64 = 64 << 20;
/// The least that bytes proposed and not written may take before requests wait: what some turns make, which
/// read a MiB each.
pub const UNWRITTEN_BYTES_MIN: u64 = 4 << 20;
/// Within these bounds it is this part of `maxmemory`.
pub const UNWRITTEN_SHARE: u64 = 16;
const _: () = assert!(UNWRITTEN_BYTES_MIN >= 2 * READ_BYTES_PER_TURN_ALL as u64);
const _: () = assert!(UNWRITTEN_BYTES_MIN < UNCOMMITTED_BYTES_MAX);
/// Unwritten bytes that are not left waiting.
pub const WRITE_BYTES: usize = 1 << 20;
/// Buffers for facts kept for the turn.
pub const FACT_BUFFERS_MAX: usize = 8;
/// The most room of each, bytes.
pub const FACT_BUFFER_BYTES_MAX: usize = 1 << 20;

/// Bytes of a file that are read, written, filled or looked through in one go.
pub const FILE_PIECE_BYTES: usize = 1 << 20;
/// Batches are copied together and written when they have this many bytes: a single write takes as much memory again,
/// and a call for a MiB costs nothing in addition to its bytes.
pub const LOG_BUFFER_BYTES: usize = 1 << 20;
/// How much of the log a follower reads at once, bytes.
pub const LOG_READ_BYTES: usize = 256 << 10;
/// How often the room on the disk is looked at again while files come and go.
pub const DISK_LOOKS: u32 = 4;
/// Images handed to a base of an older version at once,
pub const BASE_IMAGES_AT_ONCE: u32 = 10_000;
/// ... and their bytes.
pub const BASE_IMAGE_BYTES_AT_ONCE: usize = 1 << 20;
/// Bytes between two syncs of a growing base: the log's own syncs wait for each. A single one at
/// its end would keep the disk busy for seconds.
pub const BASE_SYNC_BYTES: u64 = 256 << 10;
/// While a base is written or fetched for a backup, its writer rests for so many times as long as a piece took, ...
pub const REST_TIMES: u32 = 3;
/// ... and no longer than this.
pub const REST_MAX: Duration = Duration::from_millis(50);
/// Tries to lock the journal's folder: a process that ends may take some ms to let go.
pub const LOCK_TRIES: u32 = 4;
/// From one of them to the next.
pub const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// A batch that defines the members, bytes: nine nodes with four addresses each have 11 KiB.
pub const MEMBERS_BYTES_MAX: usize = 12 << 10;
/// Such batches that the log remembers: the newest committed one, and later ones. Members change one after the other,
/// so two are the rule.
pub const MEMBERS_PENDING_MAX: usize = 3;
/// The name of a node, bytes.
pub const NODE_NAME_BYTES_MAX: usize = 64;
// A state fits into the smallest segment, and leaves room for batches.
const _: () = assert!(
    MEMBERS_BYTES_MAX * MEMBERS_PENDING_MAX + NODE_NAME_BYTES_MAX + (8 << 10)
        <= SEGMENT_BYTES_MIN as usize * 3 / 4
);

/// Segments kept for reuse: what the limit on disk space allows, besides the one being written and one that waits for a
/// base.
pub const SPARES_MAX: usize = 1;
/// A segment is at most this part of the disk: two are needed, and space for bases.
pub const SEGMENT_PART: u64 = 8;
/// The least a segment can be, bytes.
pub const SEGMENT_BYTES_MIN: u64 = 64 << 10;
/// The unit of its size, bytes: files of the journal are written in these.
pub const SEGMENT_BYTES_UNIT: u64 = 4096;
const _: () = assert!(SEGMENT_BYTES_MIN.is_multiple_of(SEGMENT_BYTES_UNIT));
/// The space for facts of turns beyond the segments, bytes.
pub const TURNS_BYTES: u64 = 4 << 20;
/// It is at most this part of the disk.
pub const TURNS_PART: u64 = 16;
/// Headers of batches and of the file, in addition to the images of a base, bytes.
pub const BASE_FRAMES_BYTES: u64 = 64 << 10;
/// They are this part of the images beyond it: at least 64 KiB of images are in each batch but a few.
pub const BASE_FRAMES_PART: u64 = 64;
/// Least room for a turn to be begun while the next segment is being made, bytes: a turn reads a MiB
/// and jobs that fall due or are handed out in it add about as much.
pub const TURN_ROOM_BYTES: u64 = 4 << 20;
const _: () = assert!(TURN_ROOM_BYTES >= 2 * READ_BYTES_PER_TURN_ALL as u64);
/// Least growth of the next base that must fit, bytes: below it not even a small job is accepted.
pub const BASE_GROWTH_BYTES_MIN: u64 = 2 << 10;
/// A shortage of space counts if it lasts this long, µs.
pub const SHORTAGE_US: u64 = 50_000;
/// From one look at the room on the disk to the next.
pub const DISK_LOOK: Duration = Duration::from_secs(1);
/// After this long a write that found no space on the disk is retried, µs: the space has been checked since.
pub const ROOM_RETRY_US: u64 = 1_000_000;
const _: () = assert!(DISK_LOOK.as_micros() as u64 <= ROOM_RETRY_US);
/// The log reports at most this often that nothing can be added, µs.
pub const FULL_LOG_US: u64 = 10_000_000;

/// A journal smaller than what can be loaded in this time is loaded before the first client is
/// served, so that no client sees `LOADING` for it.
pub const LOADED_AT_ONCE: Duration = Duration::from_millis(200);
/// From one line about the progress of loading in the log to the next, µs.
pub const LOADING_LOG_US: u64 = 2_000_000;
/// Steps of freeing what a fact has left, during loading: it frees one job at most, or a queue or database whose jobs
/// were added by facts.
pub const TIDYING_STEPS_PER_FACT: u32 = 4;

/// Base and log together are at most this many tenths of L when a base begins.
pub const KEPT_TENTHS_MAX: u64 = 21;
/// Bytes of base per byte of log while it is written.
pub const BASE_PACE: u64 = 4;
/// Least bytes of base in a turn: 64 KiB are images of 400 jobs and take about 0.1 ms.
pub const BASE_SLICE_BYTES: u64 = 64 << 10;
/// Most bytes of base in a turn.
pub const BASE_SLICE_BYTES_MAX: u64 = 1 << 20;
/// The smallest image, bytes: bounds how many a slice has.
pub const IMAGE_BYTES_MIN: u64 = 40;
/// The least that images handed to the keeper and not yet written may take before no more are made, bytes.
pub const BACKLOG_BYTES_MIN: u64 = 2 << 20;
/// The most, bytes.
pub const BACKLOG_BYTES_MAX: u64 = 16 << 20;
/// Between them it is this part of `maxmemory`.
pub const BACKLOG_SHARE: u64 = 32;
const _: () =
    assert!(BASE_SLICE_BYTES < BASE_SLICE_BYTES_MAX && BASE_SLICE_BYTES_MAX < BACKLOG_BYTES_MIN);
/// Images of what clients change while the keeper does not keep up, above which the base is given up.
pub const BASE_OUTPUT_BYTES_MAX: usize = 64 << 20;
const _: () = assert!(BASE_OUTPUT_BYTES_MAX as u64 > 2 * BACKLOG_BYTES_MAX);
/// With twice the backlog in memory, requests wait for the keeper; if it writes nothing for this long, µs, the base is
/// cancelled.
pub const KEEPER_STUCK_US: u64 = 2_000_000;
/// After a failed base the next one waits this long, µs. After a lack of space only [`ROOM_RETRY_US`], because
/// consumers may be waiting for the space that a base frees.
pub const BASE_RETRY_US: u64 = 10_000_000;
const _: () = assert!(ROOM_RETRY_US < BASE_RETRY_US);
/// Bytes of batches read from the log at a time when an engine is loaded again while the log is
/// being written.
pub const RELOAD_BYTES: usize = 1 << 20;
