//! The common state of connections: their memory together, their buffers, and common waits.

use crate::ids::ClientId;
use crate::limits::{BUFFER_BYTES, BUFFER_KEPT_BYTES_MAX, BUFFERS_KEPT_MAX};
use crate::server::connection::lines::LineRate;
use bytes::BytesMut;
use std::collections::HashSet;

#[derive(Debug, Default)]
pub struct Common {
    pub buffers: Buffers,
    /// Everything the clients hold, bytes.
    pub bytes: usize,
    /// The slot of a client that was found to hold most, and spared for the sake of its reply.
    pub spared: u32,
    pub watching: HashSet<ClientId>,
    pub pauses: Pauses,
    /// FAILOVER, while it goes on.
    pub hand_over: Option<HandOver>,
    /// Bounds the log lines that unauthenticated clients can cause.
    pub lines: LineRate,
}

/// Another node is to lead.
#[derive(Clone, Copy, Debug)]
pub struct HandOver {
    /// Its id; without one the node with most entries.
    pub to: Option<u64>,
    /// It is given up then; monotonic, µs.
    pub until_us: u64,
    /// When that node is asked next.
    pub ask_us: u64,
}

// CLIENT PAUSE: commands are kept back, and nothing changes meanwhile.

/// Whether commands are held back, and of which clients.
#[derive(Debug, Default)]
pub struct Pauses {
    running: Option<Pause>,
    /// Clients whose commands are held back.
    pub postponed_count: usize,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    /// Monotonic, µs.
    until_us: u64,
    writes_only: bool,
}

impl Pauses {
    /// Clients are paused from `mono_us` on, for `ms`; a pause that runs is over.
    pub fn begin(&mut self, ms: u64, writes_only: bool, mono_us: u64) {
        let until_us = mono_us.saturating_add(ms.saturating_mul(1_000));
        self.running = Some(Pause { until_us, writes_only });
    }

    pub fn end(&mut self) {
        self.running = None;
    }

    pub fn end_late(&mut self, mono_us: u64) {
        if self.until_us() <= mono_us {
            self.end();
        }
    }

    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// If a pause runs: whether only commands that write are kept back.
    pub fn writes_only(&self) -> Option<bool> {
        self.running.map(|pause| pause.writes_only)
    }

    /// When the pause is over; monotonic, µs. Without one: never.
    pub fn until_us(&self) -> u64 {
        self.running.map_or(u64::MAX, |pause| pause.until_us)
    }
}

// Buffers that pass from client to client: only those in use are held, so ten thousand idle
// connections hold none.

/// Empty buffers to take from and put back.
#[derive(Debug, Default)]
pub struct Buffers {
    kept: Vec<BytesMut>,
}

impl Buffers {
    pub fn take(&mut self) -> BytesMut {
        let mut buffer = self.kept.pop().unwrap_or_default();
        buffer.reserve(BUFFER_BYTES);
        buffer
    }

    /// Takes back a buffer whose content is no longer needed.
    pub fn put(&mut self, mut buffer: BytesMut) {
        if self.kept.len() == BUFFERS_KEPT_MAX {
            return;
        }
        buffer.clear();
        // Moves its start back, which consuming had moved on. A small one was made for a message.
        if buffer.try_reclaim(BUFFER_BYTES) && buffer.capacity() <= BUFFER_KEPT_BYTES_MAX {
            self.kept.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Buf;

    #[test]
    fn a_buffer_comes_back_with_all_its_room() {
        let mut buffers = Buffers::default();
        let mut buffer = buffers.take();
        buffer.extend_from_slice(&[1; 5000]);
        buffer.advance(5000);
        let start = buffer.as_ptr() as usize - 5000;
        buffers.put(buffer);
        let again = buffers.take();
        assert_eq!((again.as_ptr() as usize, again.capacity()), (start, BUFFER_BYTES));
        buffers.put(BytesMut::with_capacity(1 << 20));
        assert_eq!(buffers.take().capacity(), BUFFER_BYTES);
    }
}
