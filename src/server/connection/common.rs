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
    /// Bounds the lines that clients can cause before they have said who they are.
    pub lines: LineRate,
}
