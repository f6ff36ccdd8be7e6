//! The cluster: what is in flight between its nodes.

use std::time::Duration;

/// Ticks in an election timeout E: what is heard of a leader holds for so long, and a node that hears
/// nothing asks for votes after one to two of it.
pub const ELECTION_TICKS: usize = 30;
/// Ticks from one heartbeat to the next: E/6.
pub const HEARTBEAT_TICKS: usize = 5;
const _: () = assert!(HEARTBEAT_TICKS * 6 == ELECTION_TICKS);
/// A base that is being sent and of which nothing was heard for so many ticks has failed, 10 E: its receiver
/// is sent nothing else meanwhile.
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

/// Bytes of batches kept in memory behind those that are applied, for followers that are a little behind: what a
/// second at 64 MB/s brings.
pub const LOG_CACHE_BYTES: usize = 64 << 20;
/// Runs of entries that were read from the disk for followers further behind and wait to be sent.
pub const FETCHED_RUNS_MAX: usize = 4;

// What one message may have, as the connections count it.
const _: () = assert!(APPEND_BYTES_MAX + BATCH_BYTES_MAX <= super::PEER_BODY_BYTES_MAX);

/// How long replies that wait for the journal may still leave after this node has stopped to decide, µs: as long as
/// confirmations of a leader that was cut off may take, and less than a client waits before it looks elsewhere.
pub const DEMOTION_US: u64 = 2_000_000;
const _: () = assert!(DEMOTION_US < super::CLOSING_MS_MAX * 1_000);

/// Turns that read without a lease are told apart by so much, µs: fewer would wait for a later question to the
/// majority than they need, more would be kept one by one.
pub const UNCONFIRMED_STEP_US: u64 = 1_000;
/// Steps of applying what another leader has decided, in a turn: a fact each, and each job that falls due with others.
/// About a ms.
pub const APPLIED_STEPS_PER_TURN: u32 = 2_048;
/// Steps of housekeeping of an engine that follows, in a turn.
pub const FOLLOW_STEPS_PER_TURN: u32 = 4_096;
/// What a node knows committed is written down by itself after so long, µs, where nothing else was written that tells it.
pub const STATE_NOTE_US: u64 = 1_000_000;
/// Of the room that a journal has, this part at most is kept of a node's log beyond what its base lacks.
pub const LOG_KEEP_SHARE: u64 = 8;
/// The format of facts, images, members and frames that this build reads. It writes what is of a higher level than 1
/// only where all members read it: see [`LEVEL_INVITES`].
pub const LEVEL: u32 = 3;
/// From this level on members are read with those who are invited.
pub const LEVEL_INVITES: u32 = 2;
/// From this level on nodes tell each other what their clocks show, and leaders how far all is committed.
pub const LEVEL_CLOCKS: u32 = 2;
/// From this level on facts and images of schedules are read.
pub const LEVEL_SCHEDULES: u32 = 3;
/// `replica-priority` of nodes that say nothing, and the most it can be, as with Redis's default and a bound of ours.
pub const REPLICA_PRIORITY_DEFAULT: u64 = 100;
/// See [`REPLICA_PRIORITY_DEFAULT`].
pub const REPLICA_PRIORITY_MAX: u64 = 1_000;
/// Who lacks more entries than this is asked to lead only if nobody lacks less: it is sent them first, and as long as that takes
/// nobody decides.
pub const HAND_OVER_BEHIND_MAX: u64 = 1_000;
/// While somebody waits for other nodes to have what it changed, it is looked so often whether they do, µs: half a tick of the
/// thread of Raft, of 10 ms by default.
pub const REPLICAS_LOOK_US: u64 = 5_000;
/// Changes of members that were asked for and wait for the one before them to be over.
pub const MEMBER_CHANGES_MAX: usize = 16;
/// How long a leader that is stopped waits for another one to lead, ms: that takes some ms, and where none can it ends
/// without.
pub const HAND_OVER_MS_MAX: u64 = 2_000;
/// How long a node that ends waits for its disk: what it has acknowledged the disks of a majority have.
pub const NODE_END_MAX: Duration = Duration::from_secs(1);
/// FAILOVER keeps commands back for so long at most, whatever its TIMEOUT says, ms.
pub const FAILOVER_MS_MAX: u64 = 60_000;
/// After so long it asks again, ms.
pub const HAND_OVER_MS_EACH: u64 = 75;
/// After so long without a leader that is known, µs, a node offers itself though its clock is wrong: one that is
/// better would have.
pub const LEADERLESS_US: u64 = 3_000_000;
/// A write that has waited so long for the disk, µs, means that it hangs: hand-over and an election fit into 2 s and E beside it.
pub const HUNG_US_MIN: u64 = 1_000_000;
/// ... and at least so many times E, since a cluster over slow links is not hurried by its disks.
pub const HUNG_TIMES_E: u64 = 3;
/// Syncs that are measured: those of so many µs ...
pub const SYNCS_WINDOW_US: u64 = 5_000_000;
/// ... and the newest so many of them: a disk that becomes slow makes few, which must not be lost among faster ones before ...
pub const SYNCS_KEPT: usize = 8;
/// ... and if there are fewer than these, nothing is known.
pub const SYNCS_MIN: usize = 4;
/// A disk is slow whose syncs take so many times as long as those of the fastest other one ...
pub const SLOW_TIMES: u64 = 4;
/// ... and so many µs: what takes less is no trouble to a client ...
pub const SLOW_US_MIN: u64 = 10_000;
/// ... for so long, µs.
pub const SLOW_HELD_US: u64 = 1_500_000;
/// A process that stood still for so many µs of the last [`STOOD_STILL_WINDOW_US`] is not to lead.
pub const STOOD_STILL_US_MAX: u64 = 2_000_000;
/// See [`STOOD_STILL_US_MAX`].
pub const STOOD_STILL_WINDOW_US: u64 = 10_000_000;
/// A node that was sick is well when nothing has been wrong for so long, µs.
pub const WELL_AGAIN_US: u64 = 10_000_000;
/// What a node has said of its health holds for so many times E: it says it each E.
pub const HEALTH_TIMES_E: u64 = 3;
/// After so many times E without a leader that is known a sick node offers itself: one that works would have been elected.
pub const SICK_LEADERLESS_TIMES_E: u64 = 3;
/// A leader whose disk is slow or hangs hands over no more often, µs: what the others' disks have is committed without it, so
/// it costs little, and where all disks are alike leadership would go round.
pub const SICK_CHANGE_US: u64 = 60_000_000;
/// What a sick leader leaves to its turn, which hands over when all that it has decided is committed, is done without it after so
/// many times E.
pub const MAKE_WAY_TIMES_E: u64 = 2;
/// A leader whose disk is full asks another one to lead no more often, µs: if all are full each try stops the cluster for
/// E.
pub const MAKE_WAY_US: u64 = 10_000_000;

/// A node for which none leads tells the log so after this, µs, and after 4 E: an election takes less.
pub const LEADERLESS_LOG_US: u64 = 2_000_000;
/// For so long after it became sick a leader says to load balancers that it is not the one to go to, µs: by then another one has
/// taken over, or it goes on.
pub const MAKES_WAY_US: u64 = 5_000_000;
/// A trouble that lasts is told again each so many µs.
pub const LASTING_LOG_US: u64 = 10_000_000;
/// A peer that has been away for less, µs, may be a node that is restarted: nothing is wrong with that.
pub const PEER_AWAY_US: u64 = 30_000_000;
