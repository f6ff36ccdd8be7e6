//! The raft thread: its sockets, its clock, and what stands between it and the turn.

pub mod bases;
mod caller;
mod connection;
pub mod desk;
mod dialer;
mod door;
pub mod entry_log;
pub mod options;
pub mod peer_tls;
pub mod peers;
mod poll;
mod queue;
pub mod raft_loop;
mod refusals;
mod resolve;
mod socket;
pub mod start;
pub mod thread;
pub mod transport;
pub mod wakeup;

#[cfg(test)]
mod tests;
