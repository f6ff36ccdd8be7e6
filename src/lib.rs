//! A delay queue server that speaks the Redis protocol.

pub mod command;
pub mod config;
pub mod engine;
pub mod error;
pub mod glob;
pub mod ids;
pub mod limits;
pub mod observe;
pub mod pool;
pub mod resp;
pub mod server;
pub mod session;
pub mod time;
pub mod wheel;
