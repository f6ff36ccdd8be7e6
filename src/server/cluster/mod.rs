//! The raft thread: its sockets, its clock, and what stands between it and the turn.

pub mod desk;
pub mod wakeup;
