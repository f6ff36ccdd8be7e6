//! Several nodes that hold the same jobs: what they are, agree on and say to each other.
//!
//! Pure, as the engine is: what arrived and what time it is goes in, what is to be done comes out. No clock, socket,
//! file or thread; `server` has those.
//!
//! ```text
//!  options ──> names ──> formation    who founds the cluster, who joins it, who waits
//!  bytes of a peer ──> frame ──> hello    is this the peer that it should be?
//!  what Raft has committed ──> member    what becomes of the engine; who decides
//!  confirmations of Raft   ──> lease     until when a leader may answer reads by itself
//!  directory    names and addresses of the members, kept in the log
//! ```

pub mod claims;
pub mod directory;
pub mod formation;
pub mod frame;
pub mod hello;
pub mod lease;
pub mod member;
pub mod names;
pub mod options;
mod wire;
