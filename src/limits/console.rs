//! Limits of the console.

use std::time::Duration;

/// Connections to the console at a time; a browser opens six. Beyond it the oldest that is asked nothing ends; where
/// all are being answered, the new one is answered 503.
pub const CONSOLE_CONNECTIONS_MAX: usize = 64;
/// The longest `console-wait`: proxies give up after a minute.
pub const CONSOLE_WAIT_MS_MAX: u64 = 60_000;
/// 429 and 503 say so in `Retry-After`, seconds: what kept the server from answering is often over by then.
pub const CONSOLE_RETRY_S: u64 = 1;
/// Bytes of a request's line and headers.
pub const CONSOLE_HEAD_BYTES_MAX: usize = 16 << 10;
/// Bytes of a form, or of a request to the API: a body of a job that is added by hand fits.
pub const CONSOLE_FORM_BYTES_MAX: usize = 1 << 20;
/// How long a request may take to be answered, streams apart; to the API beyond `console-wait`.
pub const CONSOLE_REQUEST_TIME: Duration = Duration::from_secs(10);
/// Viewers of live pages at a time: each holds a connection open.
pub const CONSOLE_STREAMS_MAX: usize = 32;
/// Bytes of a page that are kept of each of them, to send only what changes; a larger page is sent as a whole. Pages of
/// 50 rows have 40 to 100 KB.
pub const CONSOLE_SENT_BYTES_MAX: usize = 192 << 10;
/// Sessions at a time; of the user with most of them the one that was idle for longest makes room.
pub const CONSOLE_SESSIONS_MAX: usize = 256;
/// A session without a request for this long is over.
pub const CONSOLE_IDLE_TIME: Duration = Duration::from_secs(30 * 60);
/// A session is over after this long in any case.
pub const CONSOLE_SESSION_TIME: Duration = Duration::from_secs(12 * 3_600);
/// Wrong passwords of one user from one address in a minute; beyond it one at a time is looked at.
pub const CONSOLE_WRONG_MAX: usize = 10;
/// How long the answer to a wrong password takes, ...
pub const CONSOLE_WRONG_TIME: Duration = Duration::from_secs(1);
/// ... and beyond the limit: an attacker gets twelve guesses a minute.
pub const CONSOLE_SLOWED_TIME: Duration = Duration::from_secs(5);
const _: () = assert!(CONSOLE_SLOWED_TIME.as_secs() < CONSOLE_REQUEST_TIME.as_secs());
/// Pairs of an address and a user of which wrong passwords are remembered, 200 bytes each.
pub const CONSOLE_TRIED_MAX: usize = 4_096;
/// Commands one page, or one request to the API, sends at once.
pub const CONSOLE_PIPELINE_MAX: usize = 200;
/// Ids that can be selected for one action.
pub const CONSOLE_SELECTED_MAX: usize = 1_000;
/// Bytes of a body that are shown as JSON or text; more is cut, and there to be downloaded.
pub const CONSOLE_TEXT_BYTES_MAX: usize = 256 << 10;
/// Bytes of a body that are shown as hex.
pub const CONSOLE_HEX_BYTES_MAX: usize = 64 << 10;
/// Hits a search shows.
pub const CONSOLE_HITS_MAX: usize = 200;
/// Bytes of the replies to one request. A pipeline of two hundred GETs of 16 MiB would be 3 GB: 6 KB of request took 7 GB.
pub const CONSOLE_REPLIES_BYTES_MAX: usize = 64 << 20;
/// Bodies asked for at once of jobs of any size: three of 16 MiB fit into the replies to one request.
pub const CONSOLE_BODIES_AT_ONCE: usize = 3;
/// Where there is little memory, this part of it; in a control group of 96 MB it is 4 MiB,
pub const CONSOLE_REPLIES_SHARE: u64 = 24;
/// ... and this many bytes in any case: a reply of jobs.
pub const CONSOLE_REPLIES_BYTES_MIN: usize = super::REPLY_BYTES_MAX;
const _: () = assert!(CONSOLE_REPLIES_BYTES_MIN < CONSOLE_REPLIES_BYTES_MAX);
/// For each this many bytes of memory one request may have large replies, up to [`CONSOLE_LARGE_MAX`].
pub const CONSOLE_LARGE_MACHINE_BYTES: u64 = 128 << 20;
/// Percent of the memory that are `max-clients-memory` by default. With less memory the console's answers are sized as
/// if there were this much.
pub const CONSOLE_CLIENTS_PERCENT: u64 = 8;
/// Replies of more bytes are large: only this many requests may have such at a time, until their answers are read.
pub const CONSOLE_LARGE_BYTES: usize = 1 << 20;
/// See there.
pub const CONSOLE_LARGE_MAX: usize = 4;
/// Bodies that are downloaded at a time.
pub const CONSOLE_FILES_MAX: usize = 8;
/// A browser that reads nothing of its answer for this long is disconnected: 60 that did not read held 1.4 GB for good.
pub const CONSOLE_STALL_TIME: Duration = Duration::from_secs(30);
/// Bytes of a body that lists keep of it.
pub const CONSOLE_EXCERPT_BYTES: usize = 1 << 10;
/// The same where JSON keys of bodies are columns: a list of a thousand jobs holds 8 MB of them.
pub const CONSOLE_COLUMN_BYTES: usize = 8 << 10;
/// Columns of a list that are JSON keys: each reads all of a body.
pub const CONSOLE_COLUMNS_MAX: usize = 8;
