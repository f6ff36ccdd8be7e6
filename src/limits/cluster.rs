//! The cluster: what is in flight between its nodes.

use std::time::Duration;

/// Ticks in an election timeout E: news of a leader is valid for this long, and a node that hears nothing asks for
/// votes after one to two of it.
pub const ELECTION_TICKS: usize = 30;
/// Ticks from one heartbeat to the next: E/6.
pub const HEARTBEAT_TICKS: usize = 5;
const _: () = assert!(HEARTBEAT_TICKS * 6 == ELECTION_TICKS);
/// Ticks that a node sleeps over at most while nothing happens, E/3: two heartbeats. A follower that hears its leader is
/// woken by that alone, 20 times a second with an E of 300 ms, where 100 ticks were.
pub const SLEEP_TICKS_MAX: usize = 2 * HEARTBEAT_TICKS;
/// Heartbeats from one status of a node to the next while nothing happens: E/2.
pub const QUIET_BEATS: usize = 3;
const _: () = assert!(ELECTION_TICKS.is_multiple_of(QUIET_BEATS * HEARTBEAT_TICKS));
/// A base transfer without a sign for this many ticks has failed, 10 E: its receiver gets nothing else meanwhile.
pub const BASE_SILENT_TICKS: u32 = 10 * ELECTION_TICKS as u32;

/// Batches a leader has proposed and not seen committed. Beyond it the open batch grows instead: eight cover
/// a round trip of several syncs, and more would only queue behind one another.
pub const WINDOW_BATCHES_MAX: usize = 8;
/// ... and their bytes; one batch may be larger.
pub const WINDOW_BYTES_MAX: usize = 4 << 20;
/// Confirmations of leadership that a leader waits for, one each heartbeat: those of 2 E, when it steps
/// down for want of answers, and as many again.
pub const CONFIRMATIONS_MAX: usize = 24;
const _: () = assert!(CONFIRMATIONS_MAX > 2 * ELECTION_TICKS / HEARTBEAT_TICKS);

/// Bytes of entries that a node has taken and its disk has not made durable. Beyond it no more are read from the leader's
/// connection: eight appends may be on their way as well.
pub const UNSYNCED_BYTES_MAX: usize = 16 << 20;

/// Bytes of the batches in one append; the last may go beyond it.
pub const APPEND_BYTES_MAX: usize = 1 << 20;
const _: () = assert!(APPEND_BYTES_MAX <= WINDOW_BYTES_MAX);
/// Entries in one append, 48 bytes of its head each.
pub const APPEND_ENTRIES_MAX: usize = 512;
/// Largest batch, bytes: the largest transaction, and as much again for what its facts add.
pub const BATCH_BYTES_MAX: usize = 2 * super::TRANSACTION_BYTES_MAX;
const _: () = assert!(BATCH_BYTES_MAX <= u32::MAX as usize);

/// Bytes of applied batches kept in memory for followers that are slightly behind: a second's worth at 64 MB/s.
pub const LOG_CACHE_BYTES: usize = 64 << 20;
/// Runs of entries that were read from the disk for followers further behind and are waiting to be
/// sent.
pub const FETCHED_RUNS_MAX: usize = 4;

// The size of one message, as the connections count it.
const _: () = assert!(APPEND_BYTES_MAX + BATCH_BYTES_MAX <= super::PEER_BODY_BYTES_MAX);

/// How long replies that wait for the journal may still leave after this node has stopped to decide, µs: as long as
/// confirmations of a leader that was cut off may take, and less than a client waits before it looks elsewhere.
pub const DEMOTION_US: u64 = 2_000_000;
const _: () = assert!(DEMOTION_US < super::CLOSING_MS_MAX * 1_000);

/// Turns that read without a lease are grouped by this interval, µs: a longer one would make them wait for a later
/// question to the majority than they need, a shorter one would keep more of them.
pub const UNCONFIRMED_STEP_US: u64 = 1_000;
/// Steps of applying what another leader has decided, in a turn: a fact each, and each job that falls due with others.
/// About a ms.
pub const APPLIED_STEPS_PER_TURN: u32 = 2_048;
/// Steps of housekeeping of an engine that follows, in a turn.
pub const FOLLOW_STEPS_PER_TURN: u32 = 4_096;
/// A node records its committed index after this long, µs, if no other write has.
pub const STATE_NOTE_US: u64 = 1_000_000;
/// The largest part of a journal's space that is kept of a node's log beyond what its base lacks.
pub const LOG_KEEP_SHARE: u64 = 8;
/// The format of facts, images, members and frames that this build reads. It writes what is of a higher level than 1
/// only where all members read it: see [`LEVEL_INVITES`].
pub const LEVEL: u32 = 10;
/// From this level on members are read with invited nodes.
pub const LEVEL_INVITES: u32 = 2;
/// From this level on nodes report their clocks, and leaders the commit position.
pub const LEVEL_CLOCKS: u32 = 2;
/// From this level on facts and images of schedules are read.
pub const LEVEL_SCHEDULES: u32 = 3;
/// From this level on facts and images with META are read.
pub const LEVEL_META: u32 = 4;
/// From this level on facts and images of groups are read.
pub const LEVEL_GROUPS: u32 = 5;
/// From this level on facts and images with the rates of groups, and with their `group-max-jobs`, are read.
pub const LEVEL_GROUP_RATES: u32 = 6;
/// From this level on facts and images of jobs that follow others are read.
pub const LEVEL_LATEST: u32 = 7;
/// From this level on errors are counted by their kinds, and images of these counts are read.
pub const LEVEL_ERRORS: u32 = 8;
/// From this level on images of minutes are read.
pub const LEVEL_HISTORY: u32 = 9;
/// From this level on earlier errors of a job are kept with it, and read in its image.
pub const LEVEL_LAST_ERRORS: u32 = 10;
/// `replica-priority` of nodes that say nothing, and the most it can be, as with Redis's default and a bound of ours.
pub const REPLICA_PRIORITY_DEFAULT: u64 = 100;
pub const REPLICA_PRIORITY_MAX: u64 = 1_000;
/// A node that lacks more entries than this is asked to lead only if no other lacks fewer: it first receives them, and
/// until then no node decides.
pub const HAND_OVER_BEHIND_MAX: u64 = 1_000;
/// While a client waits for other nodes to have its changes, they are checked this often, µs: half a tick of Raft's
/// thread, of 10 ms by default.
pub const REPLICAS_LOOK_US: u64 = 5_000;
/// Changes of members that were asked for and wait for the one before them to be over.
pub const MEMBER_CHANGES_MAX: usize = 16;
/// For so long a node that is not a member remembers a member that it has met, µs: it calls each every half second, and
/// one that is not met again may have been removed as well.
pub const ELSEWHERE_US: u64 = 3_000_000;
/// How long a leader that is stopped waits for another one to lead, ms: that takes some ms, and where none can it ends
/// without.
pub const HAND_OVER_MS_MAX: u64 = 2_000;
/// How long a node that ends waits for its disk: what it has acknowledged the disks of a majority have.
pub const NODE_END_MAX: Duration = Duration::from_secs(1);
/// FAILOVER holds back commands for at most this long, whatever its TIMEOUT says, ms.
pub const FAILOVER_MS_MAX: u64 = 60_000;
/// After this long it asks again, ms.
pub const HAND_OVER_MS_EACH: u64 = 75;
/// After this long without a known leader, µs, a node with a wrong clock offers itself: a better one would have.
pub const LEADERLESS_US: u64 = 3_000_000;
/// A write that has waited this long for the disk, µs, means that the disk hangs: hand-over and an election also fit
/// into 2 s and E.
pub const HUNG_US_MIN: u64 = 1_000_000;
/// ... and at least this many times E, because a fast disk does not speed up a cluster over slow
/// links.
pub const HUNG_TIMES_E: u64 = 3;
/// Syncs that are measured: those of this many last µs ...
pub const SYNCS_WINDOW_US: u64 = 5_000_000;
/// ... and the newest this many of them: a disk that becomes slow makes few, which must not be lost among faster ones
/// before ...
pub const SYNCS_KEPT: usize = 8;
/// ... and if there are fewer than these, nothing is known.
pub const SYNCS_MIN: usize = 4;
/// A disk is slow if its syncs take this many times as long as those of the fastest other one ...
pub const SLOW_TIMES: u64 = 4;
/// ... and this many µs: shorter ones do not trouble clients ...
pub const SLOW_US_MIN: u64 = 10_000;
/// ... for this long, µs.
pub const SLOW_HELD_US: u64 = 1_500_000;
/// A process that stalled for this many µs of the last [`STOOD_STILL_WINDOW_US`] should not lead.
pub const STOOD_STILL_US_MAX: u64 = 2_000_000;
pub const STOOD_STILL_WINDOW_US: u64 = 10_000_000;
/// A node that was sick is healthy when nothing has been wrong for this long, µs.
pub const WELL_AGAIN_US: u64 = 10_000_000;
/// A node's report of its health is valid for this many times E: it reports each E.
pub const HEALTH_TIMES_E: u64 = 3;
/// After this many times E without a known leader a sick node offers itself: a healthy one would have been elected.
pub const SICK_LEADERLESS_TIMES_E: u64 = 3;
/// A leader whose disk is slow or hangs hands over no more often than this, µs: entries on the others' disks are
/// committed without it, so waiting costs little, and if all disks are equal leadership would bounce.
pub const SICK_CHANGE_US: u64 = 60_000_000;
/// A sick leader's turn hands over when all its decisions are committed; after this many times E the driver does it
/// without the turn.
pub const MAKE_WAY_TIMES_E: u64 = 2;
/// A leader whose disk is full asks another one to lead no more often than this, µs: if all are full each try stops the
/// cluster for E.
pub const MAKE_WAY_US: u64 = 10_000_000;

/// A node without a leader logs it after this, µs, and after 4 E: an election takes less.
pub const LEADERLESS_LOG_US: u64 = 2_000_000;
/// A leader that commits nothing looks each second which connections to close: one whose reply is not confirmed so many
/// times later. A limit shorter than usual timeouts of sockets would make clients repeat what may still be done.
pub const UNANSWERED_TICKS: usize = 4;
/// For this long after it became sick a leader tells load balancers to avoid it, µs: by then another one has taken
/// over, or it goes on.
pub const MAKES_WAY_US: u64 = 5_000_000;
/// A lasting trouble is reported again after this many µs.
pub const LASTING_LOG_US: u64 = 10_000_000;
/// A peer that has been away for less, µs, may be a node that is restarted: nothing is wrong with that.
pub const PEER_AWAY_US: u64 = 30_000_000;
