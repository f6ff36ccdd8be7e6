//! The raft thread: its sockets, its clock, and the exchange with the turn.

pub mod bases;
mod connection;
pub mod entry_log;
mod inbound;
mod listener;
pub mod mailbox;
pub mod options;
mod outbound;
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

#[cfg(test)]
mod tests;
