//! Several nodes that hold the same jobs: membership, consensus and protocol.
//!
//! Pure, like the engine: input and time go in, actions come out. No clock, socket, file or thread; `server` has those.
//! So the same code runs in the server and, thousands of times as fast, in `tests/cluster/`.
//!
//! ```text
//!  options ──> names ──> formation    which node founds the cluster, joins it, or waits
//!  bytes of a peer ──> frame ──> hello    is this the peer that it should be?
//!  what Raft has committed ──> member    what becomes of the engine; which node decides
//!  confirmations of Raft   ──> lease     until when a leader may answer reads by itself
//!  what others say of their clocks ──> clocks    the majority's time, and this node's distance from it
//!  health    how well a node is, its disk above all: which should not lead
//!  verify    whether all nodes hold the same data
//!  directory    names and addresses of the members, kept in the log
//!
//!  messages of peers ─> codec ─> node ─> writes     to the log, in this order; `Node::persisted` when durable
//!  ticks ─────────────────────────┤      messages   to peers, each on its lane
//!  batches ───────────────────────┘      committed  to `member`, in order, once durable here too
//!                         storage: what Raft reads of the log
//!  driver    all of that as one node: what the server hosts
//! ```
//!
//! Rooms, each of which may use those before it: `timing`, `members`, `peer`, `raft`, `options`, `driver`.
//!
//! Raft itself is the crate `raft`; only `node`, `storage` and `codec` in the room [`raft`] name it (`tests/source/`).
//! [`raft::node`] lists what it needs from its driver.

pub mod driver;
pub mod members;
pub mod options;
pub mod peer;
pub mod raft;
pub mod timing;
