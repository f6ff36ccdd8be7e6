//! Every limit of the server in one place, with its reason. What can be configured is a default here.

/// Longest queue name and job id, bytes. Ids stand in every fact, so they stay short.
pub const NAME_BYTES_MAX: usize = 512;

/// Longest text kept by `NACK … ERROR`, bytes: enough for a stack trace's first lines.
pub const ERROR_TEXT_BYTES_MAX: usize = 1024;

/// Largest COUNT, numqueues and number of FORECAST spans. It bounds the work and the reply of one command.
pub const COUNT_MAX: u64 = 10_000;

/// Most arguments of one command, its name among them: three times as many pairs as one RESERVE can
/// ask to be acknowledged. ACK takes 0.4 µs a pair and DEL 0.35 µs a queue, so that the longest
/// command takes about 20 ms.
pub const ARGUMENTS_MAX: usize = 65_536;

/// Longest request line or header in bytes, as Redis has it: 64 KiB.
///
/// It bounds what is buffered while the end of the line is awaited. A longer line whose end is
/// already in the buffer is accepted, as in Redis.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// Most elements in one request.
///
/// Redis has accepted up to 2,147,483,647 since 7.0, and 1,048,576 before. An element costs us 8
/// bytes of bookkeeping, so the old bound holds one request to 8 MiB of it; the newer one would
/// allow 16 GiB.
pub const ELEMENTS_MAX: u32 = 1024 * 1024;

/// Most elements in a request before the client has authenticated, as in Redis.
pub const UNAUTHENTICATED_ELEMENTS_MAX: u32 = 10;

/// Longest bulk string in bytes before the client has authenticated, as in Redis.
pub const UNAUTHENTICATED_BULK_BYTES_MAX: u32 = 16 * 1024;

/// Most names that COMMAND DOCS and COMMAND INFO are asked for at once: more than there are commands.
/// A command's documentation has up to 7 KB and the same name may stand there again and again.
pub const COMMAND_NAMES_MAX: usize = 1_000;

/// Most steps of a backoff ladder.
pub const LADDER_STEPS_MAX: usize = 64;

/// Priorities are 0 (first) to this.
pub const PRIORITY_MAX: u8 = 9;

/// The greatest `rate` of a queue, deliveries per second.
pub const RATE_MAX: u32 = 1_000_000;

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

/// The least instant that `@` names, ms, but for 0: in 1973. What is less is a unix time in seconds, up to
/// the year 5138.
pub const INSTANT_MS_MIN: u64 = 100_000_000_000;

/// Default of `default-lease`, ms: 60s.
pub const LEASE_MS_DEFAULT: u64 = 60_000;

/// Default of `max-lease`, ms: 24h.
pub const LEASE_MS_MAX_DEFAULT: u64 = DAY_MS;

/// How long totals and UNIQUE windows of an unused queue are kept, ms: 24h.
pub const STATS_RETENTION_MS_DEFAULT: u64 = DAY_MS;

/// Queues without a job whose totals are kept; beyond it the longest unused go before their time,
/// so that names used once do not fill the memory.
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
/// What INFO counts in the cost of an EXEC: it takes about 100 µs.
pub const INFO_COST: u64 = 100;
/// What CONFIG REWRITE counts in the cost of an EXEC: it writes a file.
pub const REWRITE_COST: u64 = COUNT_MAX;
/// Bytes that the replies in one EXEC may have beside the largest of them: it cannot be interrupted, and
/// a MiB of fresh memory takes 0.6 ms to fill. Twice what LRANGE answers at the most.
pub const TRANSACTION_REPLY_BYTES_MAX: u64 = 32 << 20;

/// Queues that one connection may WATCH: EXEC looks at each of them.
pub const WATCHED_MAX: usize = COUNT_MAX as usize;

/// One day, ms.
pub const DAY_MS: u64 = 86_400_000;

// A due time is now + delay. With the clock below the year 10,000 (2.5e14 ms) and the largest delay
// (3.2e13 ms) no sum leaves 53 bits, the range that every client's number type carries exactly.
const _: () = assert!(DELAY_MS_MAX + 253_402_300_800_000 < 1 << 53);

/// Bytes of ids and bodies in one reply: the job that reaches them is its last one, whatever COUNT says
/// (RESERVE, PEEK, LPOP, LMPOP and their kin). So the first job always fits. A MiB of fresh memory takes 0.6 ms to fill, most of it in the kernel.
pub const REPLY_BYTES_MAX: usize = 4 << 20;

/// By so much of its unread replies one client may exceed `max-clients-memory`: a reply of [`REPLY_BYTES_MAX`],
/// and as much for its jobs, which are kept until it begins to leave.
pub const REPLY_SPARED_BYTES: usize = 2 * REPLY_BYTES_MAX + (1 << 20);

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
/// Sockets looked at for requests in a turn.
pub const READS_PER_TURN: usize = 1024;
/// Bytes written to one client before it is the next one's turn.
pub const WRITE_BYTES_PER_TURN: usize = 256 << 10;
/// Bytes written to all clients in a turn. A MiB into sockets of this machine takes about 0.7 ms.
pub const WRITE_BYTES_PER_TURN_ALL: usize = 1 << 20;
/// Clients written to in a turn, 4 to 8 µs each.
pub const WRITES_PER_TURN: usize = 256;
/// What is long for one client's commands in a turn, µs.
pub const HEAVY_US: u64 = 500;
/// A client whose commands took long in so many turns comes behind the others. One turn can be long
/// because the machine did something else.
pub const HEAVY_TURNS: u32 = 2;
/// Steps of passing time that requests may do in a turn: what has fallen due in the queues they name,
/// and jobs past their TTL that they meet. About 1 ms; a RESERVE can name 10,000 queues.
pub const SLACK_STEPS_PER_TURN: u32 = 4096;
/// Longest pattern, bytes: each byte of the longest name with a `\\` before it. A name is compared with up to
/// all of a pattern at each of its bytes.
pub const PATTERN_BYTES_MAX: usize = 2 * NAME_BYTES_MAX;
/// Patterns of one CONFIG GET; each is compared with all options.
pub const CONFIG_PATTERNS_MAX: usize = 256;
/// Longest pattern of CONFIG GET, bytes: four times the longest name of an option.
pub const OPTION_PATTERN_BYTES_MAX: usize = 128;
/// What a pattern of CONFIG GET counts in the cost of an EXEC: it takes about 13 µs.
pub const CONFIG_PATTERN_COST: u64 = 16;
/// Bytes that KEYS, SCAN and DELAY.SCAN compare with a pattern in a turn, about a ns each.
pub const PATTERN_STEPS_PER_TURN: u64 = 1 << 20;
/// Queues that KEYS looks at in a turn, 0.3 µs each.
pub const KEYS_PER_TURN: usize = 8192;
/// Purges of one queue whose memory is not freed yet; a further PURGE waits for the next turn.
pub const PURGES_MAX: usize = 64;
/// Dead jobs that REDRIVE moves in a turn, 0.5 µs each.
pub const REDRIVEN_PER_TURN: u32 = 1_024;
/// Dead jobs that leave in a turn for a lower `dead-max`, 0.5 µs each.
pub const DROPPED_PER_TURN: u32 = 2_048;
/// Jobs that FORECAST counts in a turn, two cache misses each: about 250 µs.
pub const FORECAST_JOBS_PER_TURN: usize = 2_048;
/// Steps of a search through ready jobs (LRANGE, LINDEX, LPOS, LREM) in a turn: a job looked at, a KiB
/// of body compared or copied, up to 27 jobs passed over. About 0.2 µs each.
pub const SEARCH_STEPS_PER_TURN: u64 = 4096;
/// Queues without a job that are forgotten in a turn, at most.
pub const FORGOTTEN_PER_TURN: u32 = 1024;
/// Steps of moving jobs together in a turn, about 0.3 µs each: what freed jobs have left behind is given back
/// at some 100 MB a second, while a turn is 0.3 ms longer.
pub const TIDYING_STEPS_PER_TURN: u32 = 1_024;
/// Bytes left behind that are not worth moving jobs.
pub const SPARE_BYTES_MIN: usize = 512 << 10;
/// Jobs are moved together when for so long no more than a 64th of them came or went, ms: what a peak leaves behind
/// is mostly used again, or goes by itself when the jobs beside it do. Near `maxmemory` they are moved at once.
pub const SPARE_QUIET_MS: u64 = 1_000;
/// ... and after so long in any case, ms: a pass over a million jobs takes some 0.3 s of the engine.
pub const SPARE_MS_MAX: u64 = 10_000;
/// Bytes that may be held beyond `maxmemory` before adding is refused for what freed jobs have left behind:
/// the page that new jobs come to in each size, and what is not worth moving jobs.
pub const HELD_BYTES_BEYOND: u64 = 8 << 20;
/// Connections accepted in a turn.
pub const ACCEPTS_PER_TURN: usize = 64;
/// Steps of passing time in a turn. A million jobs due in one ms are swept 1,024 steps at a time in 25 µs
/// on average and 80 µs at p99; twice that keeps a turn of nothing else below 200 µs.
pub const ADVANCE_STEPS_PER_TURN: u32 = 2048;

/// Timers that are moved to lower slots ahead of their time in one turn, half of them at most for one queue:
/// 0.3 ms of work. A million jobs of one instant, in a slot of 256 ms, are moved in that time if there is
/// a turn every ms.
pub const OPENING_STEPS_PER_TURN: u32 = 8192;

/// Unread replies above which a client's requests wait until it has read some, as long as what it
/// sends behind them is less than [`INPUT_HOLD_BYTES`]. Beyond that it may be one that writes all its
/// requests before it reads: they run, and its replies pile up to `max-clients-memory`.
pub const OUTPUT_HOLD_BYTES: usize = 1 << 20;
/// Requests of a client that has more than its share of a turn above which no more are read from it.
pub const INPUT_HOLD_BYTES: usize = 64 << 10;
/// Replies to one client above which its further commands wait for the next turn. `max-clients-memory` is
/// looked at behind each client's commands, so this and one reply are by how much it can be passed.
pub const OUTPUT_BYTES_PER_TURN: usize = 1 << 20;

/// How long the wall clock must have stood beyond `max-clock-jump` before it is believed, µs: longer
/// than a time service that has made a mistake takes to mend it.
pub const CLOCK_JUMP_STANDS_US: u64 = 60_000_000;
/// The process stood still if it did nothing for so much longer than it had meant to, µs: a suspended
/// machine, swap, SIGSTOP, work that took long. A turn takes 2 ms.
pub const STANDSTILL_US: u64 = 50_000;
/// After that: how long what arrived meanwhile is heard before leases end again, ms, should there be no
/// end of it. About a million commands.
pub const HEARING_MS_MAX: u64 = 2_000;

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
/// Default of `acllog-max-len`.
pub const ACL_LOG_LEN_DEFAULT: usize = 128;
/// Wrong passwords that one connection may try before it is closed.
pub const WRONG_PASSWORDS_MAX: u8 = 10;

/// How long a TLS handshake may take, ms.
pub const TLS_HANDSHAKE_MS_MAX: u64 = 10_000;
/// Handshakes begun beyond `maxclients`, so that those above it are told why they are refused.
pub const TLS_REFUSALS_MAX: u64 = 16;
/// Bytes encrypted at once: four records, each of which is told of when it is in the kernel's hands.
pub const TLS_WRITE_BYTES: usize = 64 << 10;

/// Longest name of a connection, of its library and of the library's version, bytes: CLIENT LIST shows those
/// of all connections.
pub const CLIENT_NAME_BYTES_MAX: usize = 1024;
/// Bytes of them that are no more than a connection costs anyway.
pub const CLIENT_NAME_BYTES_FREE: usize = 64;

// Channels.

/// Longest name of a channel and longest pattern, bytes: an event of a queue names event and queue.
pub const CHANNEL_BYTES_MAX: usize = 2 * NAME_BYTES_MAX;
/// Subscriptions of one client.
pub const SUBSCRIPTIONS_PER_CLIENT_MAX: usize = 16_384;
/// Channels that all clients together subscribe to. PUBSUB CHANNELS looks at all of them, in about 20 ms
/// as the longest other command.
pub const CHANNELS_MAX: usize = 262_144;
/// Patterns that all clients together subscribe to. PUBLISH compares with each, 20 ns where the first
/// byte tells.
pub const PATTERNS_MAX: usize = 16_384;
/// Bytes that a PUBLISH compares with all patterns together, at the most, about a ns each: of a pattern each
/// of its bytes twice, and of its longest piece between two stars each with each byte of a channel.
pub const PATTERNS_COST_MAX: usize = 4 << 20;
/// Bytes that one PUBSUB CHANNELS compares with its pattern: that of a short one with the most channels.
pub const CHANNELS_COST_MAX: u64 = 8 << 20;
/// What a subscription holds beside its name, bytes: entries of the client's set, of the set of names
/// and of the channel's set.
pub const SUBSCRIPTION_BYTES: usize = 160;
/// Messages copied into outputs in a turn, 60 to 200 ns each.
pub const DELIVERIES_PER_TURN: usize = 8_192;
/// Bytes of messages copied into outputs in a turn.
pub const DELIVERY_BYTES_PER_TURN: usize = 4 << 20;
/// Bytes of events that wait to become messages, above which no commands run and no time passes until
/// some have become some.
pub const EVENT_BYTES_MAX: usize = 16 << 20;
/// Bytes of messages on their way, above which no commands run until some have been copied.
pub const MAIL_BYTES_MAX: usize = 32 << 20;
