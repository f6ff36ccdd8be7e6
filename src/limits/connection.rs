//! Connections: buffers, what is kept of them while there is nothing to do, TLS, CLIENT LIST, subscriptions.

use super::{ACCEPTS_PER_TURN, CLIENT_NAME_BYTES_MAX, READ_BYTES_PER_TURN, REPLY_BYTES_MAX};

/// The room a buffer starts with: what one read takes at most when nothing larger is expected.
pub const BUFFER_BYTES: usize = 16 * 1024;
/// Larger ones have carried a large body and are given back to the system.
pub const BUFFER_KEPT_BYTES_MAX: usize = 4 * BUFFER_BYTES;
/// Most buffers kept: 64 × 64 KiB at the most.
pub const BUFFERS_KEPT_MAX: usize = 64;
const _: () = assert!(BUFFER_KEPT_BYTES_MAX <= READ_BYTES_PER_TURN);
/// A tail of a request, or replies that wait among many others, are kept in a buffer of their own, so that
/// the large one is free for others.
pub const TAIL_BYTES_MAX: usize = 1024;
/// Where clients hold more than this share of `max-clients-memory`, replies are. Worked: 5,000 clients that wait
/// for the disk with 16 KiB for `:1` each would hold 80 MB, and with `32mb` a fifth of them would be closed.
pub const CROWD_SHARE: usize = 8;
/// A buffer of more than this many bytes is exchanged when little of it is in use: a long request, or many, have run.
pub const INPUT_SPARSE_BYTES: usize = 64 << 10;
/// The longest piece that one read adds: a TLS record.
pub const INPUT_PIECE_BYTES_MAX: usize = 16 << 10;
const _: () = assert!(TAIL_BYTES_MAX < INPUT_PIECE_BYTES_MAX);
const _: () = assert!(INPUT_PIECE_BYTES_MAX <= BUFFER_BYTES && BUFFER_BYTES < INPUT_SPARSE_BYTES);
/// The other parts of a request with the longest body, bytes: names, options, and the framing.
pub const REQUEST_BYTES_BESIDE: u64 = 16 << 10;
/// The size of a piece of a backlog of replies.
pub const OUTPUT_PIECE_BYTES: usize = 64 << 10;
/// A piece with less room than this is followed by another: most replies are shorter, so few pieces
/// have to grow for the reply that they end with.
pub const OUTPUT_PIECE_SLACK_BYTES: usize = 4 << 10;
const _: () = assert!(2 * OUTPUT_PIECE_SLACK_BYTES < OUTPUT_PIECE_BYTES);
/// Room kept for the places of replies that hand over jobs while there are none.
pub const HANDED_KEPT: usize = 256;
/// Room kept for replies that wait for the journal while there are none, 32 bytes each.
pub const GATED_KEPT: usize = 64;

/// By so much of its unread replies one client may exceed `max-clients-memory`: a reply of [`REPLY_BYTES_MAX`],
/// and as much for its jobs, which are kept until it begins to leave.
pub const REPLY_SPARED_BYTES: usize = 2 * REPLY_BYTES_MAX + (1 << 20);

/// Handshakes begun beyond `maxclients`, so that those clients get a reason for the refusal.
pub const TLS_REFUSALS_MAX: u64 = 16;
/// Bytes encrypted at once: four records, each of which is reported when it is in the kernel's hands.
pub const TLS_WRITE_BYTES: usize = 64 << 10;
/// Room that a connection has for the record that it is reading, bytes.
pub const TLS_RECORD_BYTES: usize = 4096;
/// Connections beyond `maxclients` that are let in for operators of this machine.
pub const OPERATORS_MAX: usize = 8;
/// Descriptors that are not clients: listeners, timers, log, journal, operators, and connections for metrics.
pub const DESCRIPTORS_RESERVED: u64 = 128;
/// Where few files may be open they are this part of them,
pub const DESCRIPTORS_RESERVED_SHARE: u64 = 3;
/// ... and at least this many: a server without clients has about 25.
pub const DESCRIPTORS_RESERVED_MIN: u64 = 48;
/// The share of open files for connections for metrics, as many connections to the console, and as many of its
/// sessions, which keep a connection to the server each,
pub const WATCHERS_SHARE: u64 = 16;
/// ... but this many are allowed in any case.
pub const WATCHERS_MIN: usize = 4;
const _: () = assert!(
    DESCRIPTORS_RESERVED
        > super::HTTP_CONNECTIONS_MAX as u64 + TLS_REFUSALS_MAX + OPERATORS_MAX as u64
        && TLS_REFUSALS_MAX < ACCEPTS_PER_TURN as u64
        && OPERATORS_MAX < TLS_REFUSALS_MAX as usize
);

/// Bytes of a connection's names that are no more than a connection costs anyway.
pub const CLIENT_NAME_BYTES_FREE: usize = 64;
const _: () = assert!(CLIENT_NAME_BYTES_FREE < CLIENT_NAME_BYTES_MAX);
/// Longest address, name and library that is kept of a client which takes jobs, bytes: they are read by people, in a row.
pub const HOLDER_TEXT_BYTES_MAX: usize = 64;
const _: () = assert!(HOLDER_TEXT_BYTES_MAX < CLIENT_NAME_BYTES_MAX);
/// Closed connections whose leases still show their client: 0.5 MB, and 3 MB if each has words of its own.
pub const HOLDERS_GONE_MAX: usize = 10_000;
/// Memory of a subscription in addition to its name, bytes: entries of the client's set, of the set of names and of the
/// channel's set.
pub const SUBSCRIPTION_BYTES: usize = 160;
/// Memory of a message in transit in addition to its bytes on the wire, bytes.
pub const MESSAGE_BYTES: usize = 160;
