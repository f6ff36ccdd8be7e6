//! A turn: every stage is bounded, so that no client and no queue delays the others. Users do not see these limits;
//! work beyond one of them waits for the next turn.

use super::{COUNT_MAX, ROWS_MAX};

/// Least time between two comparisons with the wall clock, and between two looks at all clients, µs. A turn comes
/// as often at the least.
pub const TICK_US: u64 = 1_000_000;
/// While requests wait for the journal or the allocator to catch up: from one look at it to the next, µs.
pub const FLOOD_LOOK_US: u64 = 1_000;
/// Sockets that one system call reports, at least if there are more.
pub const SOCKETS_LISTED_AT_ONCE: usize = 1_024;
/// Queues examined for a scrape in a turn: few, so that no client waits for them.
pub const SCRAPED_PER_TURN: u32 = 64;
/// Queues looked at for the age of the oldest ready job in a turn.
pub const OLDEST_READY_PER_TURN: u32 = 256;
/// Turns in which that is done, in a tick.
pub const OLDEST_READY_TURNS_PER_TICK: u32 = 64;
/// How many are examined at once on request.
pub const OLDEST_READY_AT_ONCE: usize = 1_024;
/// Two readings of the monotonic clock around those of the others lie no farther apart than this, µs,
/// or the thread was interrupted in between and the pair says nothing.
pub const CLOCKS_TOGETHER_US: u64 = 50;
/// How far the wall clock may move against the monotonic one between two comparisons before it
/// counts as a step, µs; and a thousandth of the time between them (the kernel slews by
/// at most half of that).
pub const CLOCK_STEP_US: u64 = 1_000;
const _: () = assert!(CLOCKS_TOGETHER_US < CLOCK_STEP_US && CLOCK_STEP_US < TICK_US);

/// INFO's part in the cost of an EXEC: it takes about 100 µs.
pub const INFO_COST: u64 = 100;
/// CONFIG REWRITE's part in the cost of an EXEC: it writes a file.
pub const REWRITE_COST: u64 = COUNT_MAX;
/// Receivers, and names of channels, that count as one entry in the cost of an EXEC.
pub const TOPICS_PER_ENTRY: usize = 8;
/// Bytes compared with patterns that take as long as looking at a name.
pub const COMPARED_PER_NAME: usize = 128;
/// Bytes of jobs handed to waiters in a turn; the others are served in the next. `max-clients-memory`
/// is looked at between turns, so this is by how much it can be passed.
pub const HANDED_BYTES_PER_TURN: usize = 32 << 20;
/// Bytes read from one client in a turn.
pub const READ_BYTES_PER_TURN: usize = 64 << 10;
/// Bytes read from all clients in a turn, about 200 µs of copying.
pub const READ_BYTES_PER_TURN_ALL: usize = 1 << 20;
const _: () = assert!(READ_BYTES_PER_TURN < READ_BYTES_PER_TURN_ALL);
/// Commands one client may run in a turn.
pub const COMMANDS_PER_TURN: usize = 1024;
/// How long all clients' commands may run in a turn, µs, before time passes again: under full load a
/// job is late by about as much.
pub const COMMANDS_US_PER_TURN: u64 = 1_000;
/// Bytes of facts of one turn above which they are proposed before the next command: what a node proposes at once
/// has a largest size, and one more command may add the largest transaction.
pub const PROPOSAL_BYTES: usize = 4 << 20;
const _: () = assert!(PROPOSAL_BYTES + super::TRANSACTION_BYTES_MAX <= super::BATCH_BYTES_MAX);
/// Sockets looked at for requests in a turn.
pub const READS_PER_TURN: usize = 1024;
/// Bytes written to one client before it is the next one's turn.
pub const WRITE_BYTES_PER_TURN: usize = 256 << 10;
/// Bytes written to all clients in a turn. A MiB into sockets of this machine takes about 0.7 ms.
pub const WRITE_BYTES_PER_TURN_ALL: usize = 1 << 20;
const _: () = assert!(WRITE_BYTES_PER_TURN < WRITE_BYTES_PER_TURN_ALL);
/// Clients written to in a turn, 4 to 8 µs each.
pub const WRITES_PER_TURN: usize = 256;
/// When one client's commands in a turn count as long, µs.
pub const HEAVY_US: u64 = 500;
const _: () = assert!(HEAVY_US < COMMANDS_US_PER_TURN);
/// A client whose commands were long in this many turns comes after the others. One turn can be
/// long because the machine did something else.
pub const HEAVY_TURNS: u32 = 2;
/// Steps of passing time that requests may do in a turn: what has fallen due in the queues they name,
/// and jobs past their TTL that they meet. About 1 ms; a RESERVE can name 10,000 queues.
pub const SLACK_STEPS_PER_TURN: u32 = 4096;
/// The part of a pattern of CONFIG GET in the cost of an EXEC: it takes about 13 µs.
pub const CONFIG_PATTERN_COST: u64 = 16;
/// Bytes that KEYS, SCAN and DELAY.SCAN compare with a pattern in a turn, about a ns each.
pub const PATTERN_STEPS_PER_TURN: u64 = 1 << 20;
/// The cost of a body that DELAY.SCAN searches, a cache miss or two, and how many of its bytes count as one: a KiB
/// takes a tenth of a µs.
pub const SEARCHED_JOB_STEPS: u64 = 128;
pub const SEARCHED_BYTES_PER_STEP: u64 = 8;
/// Queues that KEYS looks at in a turn, 0.3 µs each.
pub const KEYS_PER_TURN: usize = 8192;
const _: () = assert!(OLDEST_READY_AT_ONCE <= KEYS_PER_TURN);
/// Queues that DELAY.QUEUES and DELAY.FIND examine in a turn, up to 0.5 µs each; one whose row is kept counts as five.
pub const ACROSS_PER_TURN: usize = 1_024;
/// Leases of one queue that DELAY.BUSY examines, the first to end: it cannot be interrupted meanwhile. 50 ns each, and
/// 300 ns if they all end at once.
pub const BUSY_PER_QUEUE: usize = 8_192;
const _: () = assert!(BUSY_PER_QUEUE > ROWS_MAX as usize);
/// Purges of one queue whose memory is not freed yet; a further PURGE waits for the next turn.
pub const PURGES_MAX: usize = 64;
/// Dead jobs that REDRIVE moves in a turn, 0.5 µs each.
pub const REDRIVEN_PER_TURN: u32 = 1_024;
/// Jobs that BULK changes in a turn, 1 to 3 µs each: a due time of its own for each costs most.
pub const BULK_PER_TURN: u32 = 512;
/// Jobs at which PURGE and REDRIVE of a group, and BULK, look in a turn, 0.1 µs each.
pub const LOOKED_FOR_GROUP_PER_TURN: usize = 4_096;
/// Dead jobs that leave in a turn for a lower `dead-max`, 0.5 µs each.
pub const DROPPED_PER_TURN: u32 = 2_048;
/// Jobs that FORECAST counts in a turn, two cache misses each: about 250 µs.
pub const FORECAST_JOBS_PER_TURN: usize = 2_048;
/// Spans in which FORECAST counts the occurrences of a schedule in a turn: a search and a counting each, 1 to 2 µs; with
/// SPREAD 10 µs.
pub const FORECAST_SPANS_PER_TURN: u32 = 256;
/// Spans times schedules that one FORECAST examines: some 10 s alongside other work.
pub const FORECAST_SPANS_MAX: u64 = 5_000_000;
/// Ready jobs that one LRANGE, LINDEX, LPOS or LREM looks at, in one go. Jobs that lie in memory in their order take 13 ns
/// each; those that became ready in another order than they were added, among two million and with cold
/// caches, 0.5 µs: 10 ms at the worst. A KiB compared is one more.
pub const LISTED_MAX: u64 = 20_000;
/// Queues without a job that are forgotten in a turn, at most.
pub const FORGOTTEN_PER_TURN: u32 = 1024;
/// Unsent jobs that are looked at for that, in a turn; where there are more, no queue is forgotten. 0.2 ms.
pub const UNSENT_LOOKED_AT: usize = 16_384;
/// Steps of moving jobs together in a turn, about 0.3 µs each: memory of freed jobs is returned at some 100 MB a
/// second, while a turn is 0.3 ms longer.
pub const TIDYING_STEPS_PER_TURN: u32 = 1_024;
/// Connections accepted in a turn.
pub const ACCEPTS_PER_TURN: usize = 64;
/// For connections beyond `maxclients`: the last files belong to the journal.
pub const ACCEPTS_BEYOND_MAX: usize = 8;
/// Steps of passing time in a turn. A million jobs due in one ms are swept 1,024 steps at a time in 25 µs
/// on average and 80 µs at p99; twice that keeps a turn of nothing else below 200 µs.
pub const ADVANCE_STEPS_PER_TURN: u32 = 2048;
/// Timers that are moved to lower slots ahead of their time in one turn, half of them at most for one queue:
/// 0.3 ms of work. A million jobs of one instant, in a slot of 256 ms, are moved in that time if there is
/// a turn every ms.
pub const OPENING_STEPS_PER_TURN: u32 = 8192;
/// Unread replies above which a client's requests wait until it has read some, as long as they are less than
/// [`INPUT_HOLD_BYTES`]. Beyond that it may be one that writes all its requests before it reads: they run, and its
/// replies pile up to `max-clients-memory`.
pub const OUTPUT_HOLD_BYTES: usize = 1 << 20;
/// Requests of a client that has more than its share of a turn above which no more are read from it.
pub const INPUT_HOLD_BYTES: usize = 64 << 10;
/// Replies to one client above which its further commands wait for the next turn. `max-clients-memory` is checked after
/// each client's commands, so it can be exceeded by this and one reply.
pub const OUTPUT_BYTES_PER_TURN: usize = 1 << 20;
const _: () = assert!(OUTPUT_BYTES_PER_TURN <= OUTPUT_HOLD_BYTES);
/// How long the wall clock must have been beyond `max-clock-jump` before it is trusted, µs: longer than a time service
/// takes to correct its own mistake.
pub const CLOCK_JUMP_STANDS_US: u64 = 60_000_000;
const _: () = assert!(TICK_US < CLOCK_JUMP_STANDS_US);
/// The process stood still if it did nothing for this much longer than intended, µs: a suspended machine, swap,
/// SIGSTOP, long work. A turn takes 2 ms.
pub const STANDSTILL_US: u64 = 50_000;
const _: () = assert!(COMMANDS_US_PER_TURN < STANDSTILL_US && STANDSTILL_US < TICK_US);
/// After that: how long what arrived meanwhile is heard before leases end again, ms, should there be no
/// end of it. About a million commands.
pub const BACKLOG_MS_MAX: u64 = 2_000;
const _: () = assert!(BACKLOG_MS_MAX * 1_000 > STANDSTILL_US);
/// Messages copied into outputs in a turn, 60 to 200 ns each.
pub const DELIVERIES_PER_TURN: usize = 8_192;
/// Bytes of messages copied into outputs in a turn.
pub const DELIVERY_BYTES_PER_TURN: usize = 4 << 20;
/// Bytes of events that wait to become messages, above which no commands run and no time passes until
/// some have become some.
pub const EVENT_BYTES_MAX: usize = 16 << 20;
/// Bytes of messages on their way, above which no commands run until some have been copied.
pub const OUTBOX_BYTES_MAX: usize = 32 << 20;
const _: () = assert!(DELIVERY_BYTES_PER_TURN < OUTBOX_BYTES_MAX);
/// Each death drops at most this many older ones.
pub const DROPPED_PER_DEATH: u64 = 2;
/// Timers moved per queue to find the next due time: few, so that a slice of queues stays short. Where
/// they do not suffice the time is a lower bound.
pub const SURVEY_STEPS_PER_QUEUE: u32 = 16;
/// Timers moved per turn to bring the next ones into order before PEEK or STATS can answer: about
/// 100 µs. A queue of 10 M jobs due in one slot takes some thousand turns, between which others
/// are served; the work is not lost, since the timers would have been moved later anyway.
pub const INSPECT_STEPS_PER_TURN: u32 = 2_048;
/// Steps of passing time spent on a queue's due work before a request to it is decided.
pub const CATCH_UP_STEPS: u32 = 128;
/// Jobs that go back at once when their connection is gone. More than a reply can hold only come from a
/// pipeline that was never read; they go back in slices, as time passes.
pub const RETURNED_AT_ONCE: u32 = 1_024;
/// Bound leases ended at once when a connection closes; time passing does the rest.
pub const UNBOUND_AT_ONCE: u32 = 64;
/// Steps of passing time a queue gets before the next queue's turn.
pub const QUEUE_SLICE_STEPS: u32 = 256;
const _: () = assert!(QUEUE_SLICE_STEPS < ADVANCE_STEPS_PER_TURN);
const _: () = assert!(
    CATCH_UP_STEPS < SLACK_STEPS_PER_TURN && INSPECT_STEPS_PER_TURN < OPENING_STEPS_PER_TURN
);
