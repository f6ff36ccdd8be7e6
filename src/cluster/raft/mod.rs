//! Raft: the library behind its driver, the entries of the log, and their effect on the engine.

pub mod codec;
pub mod entry;
pub mod member;
pub mod node;
pub mod output;
pub mod start;
pub(super) mod storage;
