//! The server's own data: INFO, counts per command and per error class, the slow log. Nothing here
//! changes anything; the server counts into it.

pub mod cluster;
pub mod commands;
pub mod hash_slots;
pub mod health;
pub mod info;
pub mod lateness;
pub mod metrics;
pub mod monitor;
pub mod persistence;
pub mod rates;
pub mod sentinel;
pub mod slowlog;
pub mod snapshot;

/// Counts since the start or the last CONFIG RESETSTAT.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    pub connections: u64,
    /// Connections refused for `maxclients` or by protected mode.
    pub connections_rejected: u64,
    pub commands: u64,
    pub input_bytes: u64,
    pub output_bytes: u64,
    /// Clients closed because a request was too large.
    pub closed_for_input: u64,
    /// Clients closed because they held most when all held more than `max-clients-memory`.
    pub closed_for_memory: u64,
    /// Clients closed because they did not read their replies.
    pub closed_for_output: u64,
    /// Largest read buffer seen lately, bytes.
    pub input_bytes_largest: usize,
    /// Largest output seen lately, bytes.
    pub output_bytes_largest: usize,
}
