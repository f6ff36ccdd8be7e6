//! Monitoring: what is kept and shown, and its cost limits.

use super::{NAME_BYTES_MAX, TICK_US};
use std::time::Duration;

/// A loop without a turn for this long hangs, µs: it turns at least once in [`TICK_US`].
pub const HUNG_US: u64 = 5_000_000;
const _: () = assert!(2 * TICK_US < HUNG_US);
/// While loading: from one sign of life for the service manager to the next, µs.
pub const ALIVE_LOADING_US: u64 = 1_000_000;
/// For how long each is good, µs.
pub const ALIVE_LOADING_GOOD_US: u32 = 60_000_000;
const _: () = assert!(ALIVE_LOADING_US < ALIVE_LOADING_GOOD_US as u64);
/// Messages to the service manager on their way; beyond it the manager does not listen, and none is added.
pub const SUPERVISOR_MESSAGES_MAX: usize = 16;

/// Connections for metrics at a time: scrapers and probes are few. One more closes the oldest that has not sent a
/// request, so that idle ones do not block probes.
pub const HTTP_CONNECTIONS_MAX: usize = 64;
/// Until a request's head must be there.
pub const HTTP_HEAD_TIME: Duration = Duration::from_secs(5);
/// Until a connection, which has one request, must be over.
pub const HTTP_CONNECTION_TIME: Duration = Duration::from_secs(30);
/// Longest head of a request, bytes.
pub const HTTP_HEAD_BYTES_MAX: usize = 16 << 10;
/// Most headers in it.
pub const HTTP_HEADERS_MAX: usize = 64;
/// After accepting failed, as it does without file descriptors.
pub const HTTP_ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// Scrapes at a time.
pub const SCRAPES_MAX: usize = 8;
/// Bytes of all texts of metrics that have not been read to the end. 1,000 queues with short names have 1.3 MB, with
/// the longest 13: 64 scrapers that did not read held 766 MiB, each a text of its own.
pub const SCRAPE_BYTES_MAX: usize = 16 << 20;
/// Requests this close together share one text.
pub const SCRAPE_FRESH: Duration = Duration::from_millis(250);
/// The approximate size of a queue's lines in addition to its name, each, bytes.
pub const QUEUE_LINE_BYTES: usize = 64;
/// So many lines a queue has, about.
pub const QUEUE_LINES: usize = 24;
/// So long a scrape waits for the loop.
pub const SCRAPE_TIME: Duration = Duration::from_secs(8);
const _: () = assert!(SCRAPES_MAX < HTTP_CONNECTIONS_MAX);
const _: () = assert!(SCRAPE_TIME.as_micros() as u64 > HUNG_US);
const _: () =
    assert!(HTTP_HEAD_TIME.as_secs() + SCRAPE_TIME.as_secs() < HTTP_CONNECTION_TIME.as_secs());

/// Classes of errors counted separately, so that clients' input makes nothing grow; the rest count together.
pub const ERROR_CLASSES_MAX: usize = 64;
/// Longest class, bytes.
pub const ERROR_CLASS_BYTES_MAX: usize = 32;
/// Most arguments of a command that MONITOR shows.
pub const MONITOR_ARGUMENTS_MAX: usize = 128;
/// Most bytes it shows of an argument: a body of 16 MiB would be copied, four times as long, to every monitor.
pub const MONITOR_ARGUMENT_BYTES_MAX: usize = 1024;
const _: () = assert!(MONITOR_ARGUMENT_BYTES_MAX >= NAME_BYTES_MAX);
/// Most arguments an entry of the slow log keeps; the last of them then says how many more there were.
pub const SLOW_LOG_ARGUMENTS_MAX: usize = 32;
/// Most bytes it keeps of an argument.
pub const SLOW_LOG_ARGUMENT_BYTES_MAX: usize = 128;
/// The same thing denied again within this time is one entry of the ACL's log, ms.
pub const ACL_LOG_GROUP_MS: u64 = 60_000;
/// So many of the newest entries are looked at for the same thing.
pub const ACL_LOG_GROUP_ENTRIES: usize = 10;
/// Most bytes it keeps of an object or a name.
pub const ACL_LOG_TEXT_BYTES_MAX: usize = 512;
const _: () = assert!(ACL_LOG_TEXT_BYTES_MAX >= NAME_BYTES_MAX);
/// Lines of one kind that unauthenticated clients can cause in the log at once.
pub const STRANGER_LINES_AT_ONCE: u64 = 10;
/// After which one more may be, µs.
pub const STRANGER_LINE_US: u64 = 1_000_000;
/// From one line about standstills in the log to the next, µs.
pub const STANDSTILL_LOG_US: u64 = 10_000_000;
/// Least time between two samples of the recent rates, µs.
pub const RATE_SAMPLE_US: u64 = 100_000;
