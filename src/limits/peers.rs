//! The nodes of a cluster: how many there are, how they are called, what they say to each other.

use super::{MEMBERS_BYTES_MAX, NODE_NAME_BYTES_MAX};

/// Nodes of a cluster, those that leave among them: five are what one runs, and all but one of them could be
/// replaced at once. Everything about the members fits into one record of the journal for that.
pub const NODES_MAX: usize = 9;
/// The host of an address, bytes, as DNS has it.
pub const HOST_BYTES_MAX: usize = 253;
/// An address as text: the host, brackets or not, a colon and five digits.
pub const ADDRESS_BYTES_MAX: usize = HOST_BYTES_MAX + 6;
/// A node's entry among the members, bytes: its id, its name, and four addresses of a length, a host and a port each.
pub const NODE_BYTES_MAX: usize = 8 + 2 + NODE_NAME_BYTES_MAX + 1 + 4 * (2 + HOST_BYTES_MAX + 2);
/// The names and addresses of all members, bytes.
pub const NODES_BYTES_MAX: usize = 32 + NODES_MAX * NODE_BYTES_MAX;
const _: () =
    assert!(NODE_BYTES_MAX <= 4 << 10 && NODES_BYTES_MAX + (1 << 10) <= MEMBERS_BYTES_MAX);
/// The list of `cluster-nodes`, bytes: of each node its name, its address and two signs.
pub const NODE_LIST_BYTES_MAX: usize = NODES_MAX * (NODE_NAME_BYTES_MAX + ADDRESS_BYTES_MAX + 2);

/// A node's version text, bytes.
pub const VERSION_BYTES_MAX: usize = 64;
/// The reason of a peer's refusal, bytes: two lists of nodes fit, which is the longest one.
pub const REFUSAL_BYTES_MAX: usize = 2 * NODE_LIST_BYTES_MAX + 512;
/// A frame of the handshake, bytes: a node's claims, or the reason of a refusal.
pub const HANDSHAKE_FRAME_BYTES_MAX: usize = 8 << 10;
const _: () = assert!(NODE_LIST_BYTES_MAX + NODE_BYTES_MAX + 512 <= HANDSHAKE_FRAME_BYTES_MAX);
const _: () = assert!(REFUSAL_BYTES_MAX <= HANDSHAKE_FRAME_BYTES_MAX);
/// The bytes of a peer before it is accepted: no more than a request line of a client.
pub const HANDSHAKE_BYTES_MAX: usize = 64 << 10;
// A caller sends two frames before it is accepted.
const _: () = assert!(3 * HANDSHAKE_FRAME_BYTES_MAX <= HANDSHAKE_BYTES_MAX);

/// The head of a message between peers, bytes.
pub const PEER_HEAD_BYTES_MAX: usize = 64 << 10;
/// Bodies travel in pieces of this many bytes: 2 ms at 1 Gbit/s, so that no frame takes long.
pub const PEER_PIECE_BYTES: usize = 256 << 10;
/// All bodies of one message, bytes: a MiB of batches, and one more as large as a transaction can make it.
pub const PEER_BODY_BYTES_MAX: usize = (1 << 20) + 2 * super::TRANSACTION_BYTES_MAX;
const _: () = assert!(PEER_BODY_BYTES_MAX as u64 > MAX_BODY_BYTES_CLUSTERED);
/// Pieces of one message: of two that follow one another at least one is more than half full.
pub const PEER_PIECES_MAX: usize = 2 * (PEER_BODY_BYTES_MAX / PEER_PIECE_BYTES) + 2;
/// Memory for peers' data is allocated this many bytes at a time: a partial piece at its end is copied into the next,
/// one piece in four.
pub const PEER_ROOM_BYTES: usize = 1 << 20;
const _: () = assert!(PEER_ROOM_BYTES >= 4 * PEER_PIECE_BYTES);
/// The same for peers that are not accepted yet, and for messages without bodies.
pub const PEER_ROOM_BYTES_SMALL: usize = 4 << 10;

// Options of a cluster.

/// The peers' port is the clients' port and so much more, as in Redis Cluster.
pub const PEER_PORT_OFFSET: u16 = 10_000;
/// `cluster-election-timeout`, E, ms; by default 300, with which the next leader is there after 0.4 s at the median. Below
/// 100 a pause of the machine costs the leader, ...
pub const ELECTION_MS_MIN: u64 = 100;
/// ... and above a minute the cluster would be down for too long.
pub const ELECTION_MS_MAX: u64 = 60_000;
/// `cluster-lease-grace`: how long after an election no job's lease ends, ms. A client finds the new leader and says
/// ACK in it.
pub const LEASE_GRACE_MS_DEFAULT: u64 = 2_000;
/// Its most, ms: no longer than a lease by default, after which the holder is taken for dead anyway.
pub const LEASE_GRACE_MS_MAX: u64 = super::LEASE_MS_DEFAULT;
const _: () = assert!(LEASE_GRACE_MS_DEFAULT <= LEASE_GRACE_MS_MAX);
/// The smallest and the largest clock error, ms: less cannot be measured over a network, and more would be obvious.
pub const CLOCK_SKEW_MS_MIN: u64 = 1;
pub const CLOCK_SKEW_MS_MAX: u64 = 60_000;
/// The most that `max-body-size` can be in a cluster, bytes: half a second at 1 Gbit/s, during which nothing
/// else is committed.
pub const MAX_BODY_BYTES_CLUSTERED: u64 = 64 << 20;

/// The leader's lease after it was heard, in hundredths of E: no other node is elected before E is over on the clocks
/// of those that heard the leader. The rest allows for clocks that run at different speeds.
pub const LEASE_PERCENT: u64 = 75;

/// `cluster-secret`, bytes: a shorter one can be guessed by an attacker that has a code under it.
pub const CLUSTER_SECRET_BYTES_MIN: usize = 16;

// The connections between nodes.

/// From the beginning of a connection to the end of its handshake, µs.
pub const PEER_HANDSHAKE_US: u64 = 2_000_000;
/// A peer's machine is probed when nothing came from it for this long, seconds, ...
pub const PEER_KEEPALIVE_S: u64 = 15;
/// ... a third of that apart, and so often before its connection is closed.
pub const PEER_KEEPALIVE_PROBES: u32 = 3;
/// Connections in a handshake. One more ends the oldest of those that have not identified themselves.
pub const PEER_HANDSHAKES_MAX: usize = 64;
/// Connections accepted at a time, before other work goes on.
pub const PEER_ACCEPTS_AT_ONCE: usize = 16;
/// No connection is accepted for this long after the system had no descriptor for one, µs.
pub const PEER_ACCEPT_PAUSE_US: u64 = 1_000_000;
/// From one attempt to reach a peer to the next, µs: the first follows the loss of a connection at once, and from the
/// last on it stays at that.
pub const PEER_BACKOFF_US: [u64; 6] = [0, 50_000, 100_000, 200_000, 400_000, 500_000];
/// A connection that lasted this long resets the delays, µs: one that is refused as soon as it is open does not.
pub const PEER_STEADY_US: u64 = 1_000_000;
/// A control connection whose bytes the peer's machine does not acknowledge is closed after this many E: by then others
/// have elected a leader.
pub const PEER_ACKNOWLEDGED_ELECTIONS: u64 = 4;
/// Bytes waiting to be written to a peer's data connection, in addition to one message. Beyond it the connection is
/// closed: the peer does not read, and Raft sends what it needs again when it is back.
pub const PEER_DATA_QUEUE_BYTES_MAX: usize = 64 << 20;
/// The same for control: some 10,000 messages.
pub const PEER_CONTROL_QUEUE_BYTES_MAX: usize = 1 << 20;
/// With more than this many bytes of control in front of it a node's clock is not sent: it would be outdated on
/// arrival. A few messages always wait there, because a tick's messages are queued together.
pub const PEER_CLOCK_QUEUE_BYTES_MAX: usize = 16 << 10;
/// Bytes read from a connection at a time, ...
pub const PEER_READ_BYTES: usize = 256 << 10;
/// ... and before other connections have their turn; the same for what is written: less than a ms.
pub const PEER_BYTES_AT_ONCE: usize = 1 << 20;
/// A message with more than this many bytes of bodies is assembled by a thread of its own: 2 ms.
pub const PEER_JOIN_BYTES: usize = 4 << 20;
/// Parts of messages handed to the system at a time; a small message has two.
pub const PEER_PARTS_AT_ONCE: usize = 64;
/// A connection for a base without traffic for this long has ended, µs: it is retried.
pub const PEER_SILENT_US: u64 = 10_000_000;
/// After a base that could not be sent the next attempt waits this long, µs.
pub const BASE_PAUSE_US: u64 = 1_000_000;
/// A refusal of one kind is logged at most once in this time for each address, µs, ...
pub const PEER_REFUSAL_QUIET_US: u64 = 60_000_000;
/// ... for this many kinds and addresses; others are only counted meanwhile.
pub const PEER_REFUSALS_MAX: usize = 256;
/// Bytes of batches sent to the turn and not taken, with a fixed amount for each. Beyond it nothing is sent to the
/// turn, and nothing more is read from data connections.
pub const TOLD_BYTES_MAX: usize = 64 << 20;
/// The fixed amount for each, in addition to its batch, bytes.
pub const TOLD_BYTES: usize = 128;
