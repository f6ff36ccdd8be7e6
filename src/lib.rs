//! A delay queue server that speaks the Redis protocol.

pub mod engine;
pub mod error;
pub mod glob;
pub mod ids;
pub mod limits;
pub mod pool;
pub mod resp;
pub mod time;
pub mod wheel;
