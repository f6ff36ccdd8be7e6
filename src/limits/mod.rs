//! Every limit of the server in one place, with its reason. Configurable ones are defaults here.
//!
//! This file has the limits that users can reach, the others those that they cannot: shares of a turn, reserves,
//! intervals. Limits of which one has to be greater are compared at compile time.

mod backup;
mod cluster;
mod connection;
mod console;
mod journal;
mod memory;
mod partitions;
mod peers;
mod schedules;
mod turn;
mod watch;

pub use backup::*;
pub use cluster::*;
pub use connection::*;
pub use console::*;
pub use journal::*;
pub use memory::*;
pub use partitions::*;
pub use peers::*;
pub use schedules::*;
pub use turn::*;
pub use watch::*;

/// Longest queue name and job id, bytes. Ids stand in every fact, so they stay short.
pub const NAME_BYTES_MAX: usize = 512;

/// Longest text kept by `NACK … ERROR`, bytes: enough for a stack trace's first lines.
pub const ERROR_TEXT_BYTES_MAX: usize = 1024;
/// How many texts of a job's NACKs are kept, the newest among them.
pub const LAST_ERRORS_MAX: usize = 3;
/// Bytes that are kept of each but the newest.
pub const EARLIER_ERROR_BYTES_MAX: usize = 128;

/// Kinds of errors that are counted for a queue, the longest text of one, and the longest id that is shown as its sample,
/// bytes. All of a queue together stay below 16 KiB.
pub const ERROR_KINDS_MAX: usize = 64;
pub const ERROR_KIND_BYTES_MAX: usize = 128;
pub const ERROR_SAMPLE_BYTES_MAX: usize = 48;

/// How far back DELAY.HISTORY reaches, minutes.
pub const DAY_MINUTES: u32 = 1_440;
/// Queues whose minutes are kept, at most: a day of them takes 14 MB. Fewer with a small `maxmemory`: see
/// [`HISTORY_MEMORY_SHARE`].
pub const HISTORY_QUEUES_MAX: u32 = 200;

/// Most pairs of META, the longest name of one, and the most bytes of all names and values: what HTTP servers take of
/// headers. A job's META is copied with its body, and never looked into.
pub const META_PAIRS_MAX: usize = 64;
pub const META_NAME_BYTES_MAX: usize = 128;
pub const META_BYTES_MAX: usize = 8 << 10;
/// The weight of a group for which, and for the queue of which, none is set, and the most it can be: with stints of more
/// jobs nobody would notice that a queue is shared.
pub const GROUP_WEIGHT_DEFAULT: u32 = 1;
pub const GROUP_WEIGHT_MAX: u32 = 1_000;
/// The longest span of a group's rate, ms: more than a day is a plan, no rate.
pub const GROUP_RATE_SPAN_MS_MAX: u64 = 86_400_000;
/// Groups of a queue for which something is set, at most: a base has all of them in one image.
pub const GROUPS_SET_MAX: usize = 10_000;

/// Largest COUNT, numqueues and number of FORECAST spans. It bounds the work and the reply of one command.
pub const COUNT_MAX: u64 = 10_000;

/// Most arguments of one command, its name among them: three times as many pairs as one RESERVE can
/// ask to be acknowledged. ACK takes 0.4 µs a pair and DEL 0.35 µs a queue, so that the longest
/// command takes about 20 ms.
pub const ARGUMENTS_MAX: usize = 65_536;
const _: () = assert!(ARGUMENTS_MAX as u64 / 2 > 3 * COUNT_MAX);

/// Longest request line or header in bytes, as Redis has it: 64 KiB.
///
/// It bounds what is buffered before the end of the line has arrived. A longer line whose end is
/// already in the buffer is accepted, as in Redis.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// Most elements in one request.
///
/// Redis has accepted up to 2,147,483,647 since 7.0, and 1,048,576 before. An element costs us 8
/// bytes of bookkeeping, so the old bound holds one request to 8 MiB of it; the newer one would
/// allow 16 GiB.
pub const ELEMENTS_MAX: u32 = 1024 * 1024;
const _: () = assert!(ARGUMENTS_MAX < ELEMENTS_MAX as usize);

/// Most elements in a request before the client has authenticated, as in Redis.
pub const UNAUTHENTICATED_ELEMENTS_MAX: u32 = 10;

/// Longest bulk string in bytes before the client has authenticated, as in Redis.
pub const UNAUTHENTICATED_BULK_BYTES_MAX: u32 = 16 * 1024;

/// Most names in one COMMAND DOCS or COMMAND INFO: more than there are commands. A command's documentation has up to 7
/// KB, and the same name may be repeated.
pub const COMMAND_NAMES_MAX: usize = 1_000;

/// Most steps of a backoff ladder.
pub const LADDER_STEPS_MAX: usize = 64;

/// Priorities are 0 (first) to this.
pub const PRIORITY_MAX: u8 = 9;

/// The greatest `rate` of a queue, deliveries per second, and of a group, in its span.
pub const RATE_MAX: u32 = 1_000_000;

/// The priority of a job whose ADD gives none.
pub const PRIORITY_DEFAULT: u8 = 5;
const _: () = assert!(PRIORITY_DEFAULT <= PRIORITY_MAX);

/// Deliveries before a job is dead when neither ADD nor the queue says otherwise: a poisonous job
/// ends where it can be seen.
pub const ATTEMPTS_DEFAULT: u32 = 20;

/// Default of `max-delay`, ms: 3650d.
pub const DELAY_MS_DEFAULT: u64 = 3_650 * DAY_MS;

/// The largest value `max-delay` can be set to, ms: 365000d, a thousand years.
pub const DELAY_MS_MAX: u64 = 365_000 * DAY_MS;
const _: () = assert!(DELAY_MS_DEFAULT < DELAY_MS_MAX);

/// The smallest instant that `@` accepts, ms, except for 0: in 1973. Smaller values are unix seconds, up to the year
/// 5138.
pub const INSTANT_MS_MIN: u64 = 100_000_000_000;

/// Default of `default-lease`, ms: 60s.
pub const LEASE_MS_DEFAULT: u64 = 60_000;

/// Default of `max-lease`, ms: 24h.
pub const LEASE_MS_MAX_DEFAULT: u64 = DAY_MS;
const _: () = assert!(LEASE_MS_DEFAULT < LEASE_MS_MAX_DEFAULT);

/// How long totals and UNIQUE windows of an unused queue are kept, ms: 24h.
pub const STATS_RETENTION_MS_DEFAULT: u64 = DAY_MS;

/// Queues without a job whose totals are kept; beyond it the longest unused are dropped early, so
/// that names used once do not fill the memory.
pub const IDLE_QUEUES_MAX: usize = 100_000;

/// How long a dead job is kept, ms: 30d.
pub const DEAD_RETENTION_MS_DEFAULT: u64 = 30 * DAY_MS;

/// How many dead jobs a queue keeps; the oldest leave first.
pub const DEAD_COUNT_DEFAULT: u64 = 100_000;

/// Commands one MULTI holds, and their bytes.
pub const TRANSACTION_COMMANDS_MAX: usize = 10_000;
/// Bytes of the commands one MULTI holds.
pub const TRANSACTION_BYTES_MAX: usize = 64 << 20;

/// Arguments of all commands one MULTI holds.
pub const TRANSACTION_ARGUMENTS_MAX: usize = 4 * ARGUMENTS_MAX;
/// Entries that the commands of one EXEC may look at or take, by their counts: it cannot be
/// interrupted. Each command is one more. About 30 ms at the worst.
pub const TRANSACTION_COST_MAX: u64 = 3 * COUNT_MAX + TRANSACTION_COMMANDS_MAX as u64;
/// Bytes that the replies in one EXEC may have, not counting the largest of them: EXEC cannot be interrupted, and a MiB
/// of fresh memory takes 0.6 ms to fill. Twice the most that LRANGE answers.
pub const TRANSACTION_REPLY_BYTES_MAX: u64 = 32 << 20;

/// Queues that one connection may WATCH: EXEC looks at each of them.
pub const WATCHED_MAX: usize = COUNT_MAX as usize;

/// One day, ms.
pub const DAY_MS: u64 = 86_400_000;

// A due time is now + delay. With the clock below the year 10,000 (2.5e14 ms) and the largest delay
// (3.2e13 ms) no sum leaves 53 bits, the range that every client's number type carries exactly.
const _: () = assert!(DELAY_MS_MAX + 253_402_300_800_000 < 1 << 53);

/// Bytes of ids and bodies in one reply: the job that reaches them is its last one, whatever COUNT says (RESERVE, PEEK,
/// LPOP, LMPOP and similar). So the first job always fits. A MiB of fresh memory takes 0.6 ms to fill, most of it in
/// the kernel.
pub const REPLY_BYTES_MAX: usize = 4 << 20;
const _: () = assert!(TRANSACTION_REPLY_BYTES_MAX > REPLY_BYTES_MAX as u64);

/// Longest pattern, bytes: each byte of the longest name with a `\\` before it. A name is compared with up to
/// all of a pattern at each of its bytes.
pub const PATTERN_BYTES_MAX: usize = 2 * NAME_BYTES_MAX;
/// Longest text that DELAY.SCAN looks for, bytes.
pub const SEARCH_BYTES_MAX: usize = 1024;
/// Most rows of one DELAY.QUEUES, DELAY.FIND and DELAY.BUSY: with the longest names they have 1.2 MB.
pub const ROWS_MAX: u64 = 1_000;
/// Patterns of one CONFIG GET; each is compared with all options.
pub const CONFIG_PATTERNS_MAX: usize = 256;
/// Longest pattern of CONFIG GET, bytes: four times the longest name of an option.
pub const OPTION_PATTERN_BYTES_MAX: usize = 128;

/// How long a shutdown waits for replies to leave, ms.
pub const SHUTDOWN_MS_MAX: u64 = 5_000;
/// How long a closed client's last replies may take to leave, ms.
pub const CLOSING_MS_MAX: u64 = 60_000;

/// Users of the ACL: each is a small table, and ACL LIST writes them all in one reply.
pub const ACL_USERS_MAX: usize = 10_000;
/// Bytes of the rules of one user, as ACL LIST writes them: a key is compared with every pattern.
pub const ACL_USER_BYTES_MAX: usize = 64 << 10;
/// Longest password, bytes: what a client can send before it has authenticated. Hashing it takes 50 µs.
pub const PASSWORD_BYTES_MAX: usize = 16 << 10;
const _: () = assert!(PASSWORD_BYTES_MAX <= UNAUTHENTICATED_BULK_BYTES_MAX as usize);
/// Default of `acllog-max-len`.
pub const ACL_LOG_LEN_DEFAULT: usize = 128;
/// Wrong passwords that one connection may try before it is closed.
pub const WRONG_PASSWORDS_MAX: u8 = 10;

/// How long a TLS handshake may take, ms.
pub const TLS_HANDSHAKE_MS_MAX: u64 = 10_000;

/// Longest name of a connection, of its library and of the library's version, bytes: CLIENT LIST shows those
/// of all connections.
pub const CLIENT_NAME_BYTES_MAX: usize = 1024;

// Channels.

/// Longest name of a channel and longest pattern, bytes: an event of a queue names event and queue.
pub const CHANNEL_BYTES_MAX: usize = 2 * NAME_BYTES_MAX;
/// Subscriptions of one client.
pub const SUBSCRIPTIONS_PER_CLIENT_MAX: usize = 16_384;
/// Channels that all clients together subscribe to. PUBSUB CHANNELS looks at all of them, in about 20 ms
/// as the longest other command.
pub const CHANNELS_MAX: usize = 262_144;
/// Patterns that all clients together subscribe to. PUBLISH compares with each, 20 ns if the first byte decides.
pub const PATTERNS_MAX: usize = 16_384;
/// Bytes that a PUBLISH compares with all patterns together, at the most, about a ns each: of a pattern each
/// of its bytes twice, and of its longest piece between two stars each with each byte of a channel.
pub const PATTERNS_COST_MAX: usize = 4 << 20;
/// Bytes that one PUBSUB CHANNELS compares with its pattern: that of a short one with the most channels.
pub const CHANNELS_COST_MAX: u64 = 8 << 20;

/// Largest ACL file that is read, bytes: many times what the most users with ordinary rules have.
pub const ACL_FILE_BYTES_MAX: u64 = 64 << 20;
/// How deep configuration files may include one another; deeper ones include themselves.
pub const INCLUDE_DEPTH_MAX: usize = 16;
/// A script longer than the ones that are known is not even looked at, bytes.
pub const SCRIPT_BYTES_MAX: usize = 4096;
