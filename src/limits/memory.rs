//! Memory: what is kept in addition to `maxmemory`, and when it is checked and returned.

use super::READ_BYTES_PER_TURN_ALL;

/// Bytes of freed jobs that are not worth moving jobs.
pub const SPARE_BYTES_MIN: usize = 512 << 10;
/// Jobs are moved together when at most 1/64 of them came or went for this long, ms: memory left by a peak is mostly
/// reused, or is freed when its neighbours go. Near `maxmemory` they are moved at once.
pub const SPARE_QUIET_MS: u64 = 1_000;
/// ... and after this long in any case, ms: a pass over a million jobs takes some 0.3 s of the engine.
pub const SPARE_MS_MAX: u64 = 10_000;
const _: () = assert!(SPARE_QUIET_MS < SPARE_MS_MAX);
/// Bytes that may be held beyond `maxmemory` before adding is refused because of freed jobs: the page that new jobs
/// come to in each size, and memory that is not worth moving jobs.
pub const HELD_BYTES_BEYOND: u64 = 8 << 20;
const _: () = assert!(SPARE_BYTES_MIN as u64 * 2 <= HELD_BYTES_BEYOND);

/// Resident memory allowed in addition to `maxmemory` and a tenth of it, bytes.
pub const RESIDENT_BYTES_BESIDE: u64 = 32 << 20;
/// By how much less the allocator gives memory back, bytes; and a 32nd of `maxmemory`.
pub const GIVE_BACK_LEFT_BYTES: u64 = 20 << 20;
/// By how much less adding is refused, bytes; and a 64th of `maxmemory`.
pub const REFUSE_LEFT_BYTES: u64 = 12 << 20;
const _: () = assert!(REFUSE_LEFT_BYTES < GIVE_BACK_LEFT_BYTES);
const _: () = assert!(GIVE_BACK_LEFT_BYTES < RESIDENT_BYTES_BESIDE);
/// Resident memory is checked when clients have sent and received this many bytes. A check takes about 2 µs; a turn
/// reads a MiB at most.
pub const RESIDENT_LOOK_BYTES: u64 = READ_BYTES_PER_TURN_ALL as u64;
/// ... or after this long, µs.
pub const RESIDENT_LOOK_US: u64 = 10_000;
/// If nothing could be returned it is retried after this long, µs,
pub const GIVE_BACK_AGAIN_US: u64 = 100_000;
/// ... or when there is so much more, bytes.
pub const GIVE_BACK_AGAIN_BYTES: u64 = 4 << 20;
const _: () = assert!(GIVE_BACK_AGAIN_BYTES < GIVE_BACK_LEFT_BYTES - REFUSE_LEFT_BYTES);
/// Requests wait at most this long for memory that is being returned, µs. 100 MiB take about 20 ms.
pub const GIVE_BACK_WAIT_US_MAX: u64 = 250_000;
/// A second in which clients have sent and were sent less than [`RESIDENT_LOOK_BYTES`] is quiet, µs.
pub const RESIDENT_QUIET_US: u64 = 1_000_000;
/// Leases may take memory beyond `maxmemory` up to this part of it; what they could take beyond that is kept
/// back when jobs are added.
pub const LEASE_SHARE: u64 = 16;
/// Totals of queues without jobs take at most this part of `maxmemory`, and go earlier where jobs need it.
pub const TOTALS_SHARE: u64 = 8;
/// The slow log takes at most this part of `maxmemory`, and so does ACL LOG, within these bounds; the oldest entries
/// leave. A thousand entries have 0.3 MB, or 4 where their commands are long.
pub const LOG_SHARE: u64 = 64;
pub const LOG_BYTES_MIN: usize = 256 << 10;
pub const LOG_BYTES_MAX: usize = 16 << 20;
/// The part of `maxmemory` for the log that a node of a cluster keeps in memory for followers that are slightly behind,
/// up to [`super::LOG_CACHE_BYTES`].
pub const LOG_CACHE_SHARE: u64 = 16;
/// Policies that no job uses are kept up to this number, so that a queue that is empty after every
/// job does not bind its policy again for every job.
pub const UNUSED_POLICIES_MAX: usize = 1_024;
/// Seconds in which running leases began that are counted apart: a day, 345 KB if a lease runs for that long.
pub const LEASE_AGES_MAX: usize = 86_400;

/// The largest part of `maxmemory` that the minutes of queues may take, beside it: they are a comfort.
pub const HISTORY_MEMORY_SHARE: u64 = 32;
/// Bytes that the minutes of a queue take at the most: 1,441 of 48, and a histogram.
pub const HISTORY_QUEUE_BYTES: u64 = 69 << 10;
/// Minutes in an image of a base: the image of an hour has 3 KB.
pub const MINUTES_PER_IMAGE: usize = 60;
