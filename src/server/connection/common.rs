//! What the connections have in common: what they hold together, their buffers, and what all of them wait for.

use crate::ids::ClientId;
use crate::server::connection::buffers::Buffers;
use crate::server::connection::lines::LineRate;
use crate::server::connection::pause::Pauses;
use std::collections::HashSet;

/// See the module.
#[derive(Debug, Default)]
pub struct Common {
    pub buffers: Buffers,
    /// Everything the clients hold, bytes.
    pub bytes: usize,
    /// The slot of a client that was found to hold most, and spared for the sake of its reply.
    pub spared: u32,
    /// Clients that watch queues.
    pub watching: HashSet<ClientId>,
    pub pauses: Pauses,
    /// FAILOVER, while it goes on.
    pub hand_over: Option<HandOver>,
    /// Bounds the lines that clients can cause before they have said who they are.
    pub lines: LineRate,
}

/// Another node is to lead.
#[derive(Clone, Copy, Debug)]
pub struct HandOver {
    /// Its id; whoever has most if none is named.
    pub to: Option<u64>,
    /// It is given up then; monotonic, µs.
    pub until_us: u64,
    /// When that node is asked next.
    pub ask_us: u64,
}
