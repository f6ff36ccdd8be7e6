//! Every limit of the server in one place, with its reason. What can be configured is a default here.

/// Longest queue name and job id, bytes. Ids stand in every fact, so they stay short.
pub const NAME_BYTES_MAX: usize = 512;

/// Longest text kept by `NACK … ERROR`, bytes: enough for a stack trace's first lines.
pub const ERROR_TEXT_BYTES_MAX: usize = 1024;

/// Largest COUNT, numqueues and number of FORECAST spans. It bounds the work and the reply of one command.
pub const COUNT_MAX: u64 = 10_000;

/// Most steps of a backoff ladder.
pub const LADDER_STEPS_MAX: usize = 64;

/// Priorities are 0 (first) to this.
pub const PRIORITY_MAX: u8 = 9;

/// The priority of a job whose ADD names none.
pub const PRIORITY_DEFAULT: u8 = 5;

/// Deliveries before a job is dead when neither ADD nor the queue says otherwise: a poisonous job
/// ends where it can be seen.
pub const ATTEMPTS_DEFAULT: u32 = 20;

/// Default of `max-body-size`, bytes.
pub const BODY_BYTES_DEFAULT: usize = 16 << 20;

/// Default of `max-delay`, ms: 3650d.
pub const DELAY_MS_DEFAULT: u64 = 3_650 * DAY_MS;

/// The largest value `max-delay` can be set to, ms: 365000d, a thousand years.
pub const DELAY_MS_MAX: u64 = 365_000 * DAY_MS;

/// Default of `default-lease`, ms: 60s.
pub const LEASE_MS_DEFAULT: u64 = 60_000;

/// Default of `max-lease`, ms: 24h.
pub const LEASE_MS_MAX_DEFAULT: u64 = DAY_MS;

/// How long totals and UNIQUE windows of an unused queue are kept, ms: 24h.
pub const STATS_RETENTION_MS_DEFAULT: u64 = DAY_MS;

/// How long a dead job is kept, ms: 30d.
pub const DEAD_RETENTION_MS_DEFAULT: u64 = 30 * DAY_MS;

/// How many dead jobs a queue keeps; the oldest leave first.
pub const DEAD_COUNT_DEFAULT: u64 = 100_000;

/// Commands one MULTI holds, and their bytes.
pub const TRANSACTION_COMMANDS_MAX: usize = 10_000;
/// Bytes of the commands one MULTI holds.
pub const TRANSACTION_BYTES_MAX: usize = 64 << 20;

/// One day, ms.
pub const DAY_MS: u64 = 86_400_000;

// A due time is now + delay. With the clock below the year 10,000 (2.5e14 ms) and the largest delay
// (3.2e13 ms) no sum leaves 53 bits, the range that every client's number type carries exactly.
const _: () = assert!(DELAY_MS_MAX + 253_402_300_800_000 < 1 << 53);

/// Bytes of jobs in one reply, beyond which RESERVE and PEEK end it before their COUNT. The first
/// job always fits.
pub const REPLY_BYTES_MAX: usize = 16 << 20;

/// Bytes of jobs handed to waiters in a turn; the others are served in the next. `max-clients-memory`
/// is looked at between turns, so this is by how much it can be passed.
pub const HANDED_BYTES_PER_TURN: usize = 32 << 20;

// A turn: every stage is bounded, so that no client and no herd holds the others up.

/// Bytes read from one client in a turn.
pub const READ_BYTES_PER_TURN: usize = 64 << 10;
/// Bytes read from all clients in a turn, about 200 µs of copying.
pub const READ_BYTES_PER_TURN_ALL: usize = 1 << 20;
/// Commands one client may run in a turn.
pub const COMMANDS_PER_TURN: usize = 1024;
/// How long all clients' commands may run in a turn, µs, before time passes again: under full load a
/// job is late by about as much.
pub const COMMANDS_US_PER_TURN: u64 = 1_000;
/// Connections accepted in a turn.
pub const ACCEPTS_PER_TURN: usize = 64;
/// Steps of passing time in a turn. A million jobs due in one ms are swept 1,024 steps at a time in 25 µs
/// on average and 80 µs at p99; twice that keeps a turn of nothing else below 200 µs.
pub const ADVANCE_STEPS_PER_TURN: u32 = 2048;

/// Unread replies above which a client's requests are left alone until it has read some.
pub const OUTPUT_HOLD_BYTES: usize = 1 << 20;
/// Requests held back, while their client waits or has more than its share of a turn, above which
/// no more are read from it.
pub const INPUT_HOLD_BYTES: usize = 64 << 10;

/// How long a shutdown waits for replies to leave, ms.
pub const SHUTDOWN_MS_MAX: u64 = 5_000;
/// How long a closed client's last replies may take to leave, ms.
pub const CLOSING_MS_MAX: u64 = 60_000;
