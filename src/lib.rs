//! A delay queue server that speaks the Redis protocol.

pub mod calendar;
pub mod cluster;
pub mod command;
pub mod config;
pub mod console;
pub mod engine;
pub mod error;
pub mod glob;
pub mod hash_slot;
pub mod ids;
pub mod journal;
pub mod limits;
mod lock;
pub mod nearest;
pub mod observe;
pub mod pool;
pub mod pubsub;
pub mod resp;
pub mod server;
pub mod session;
pub mod time;
pub mod tools;
pub mod wheel;
mod words;

/// How long tests wait, here and in `tests/`.
#[cfg(test)]
#[allow(dead_code, reason = "the tests beside use the rest")]
#[path = "../tests/support/patience.rs"]
mod patience;

/// The version of Redis whose behaviour clients can rely on, as INFO and HELLO show it.
pub const REDIS_VERSION: &str = "7.2.4";

pub const VERSION: &str = env!("CARGO_PKG_VERSION");
