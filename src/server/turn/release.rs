//! Replies, from the outputs into the kernel's hands; and hand-offs that did not get there.

use crate::limits::{
    OUTPUT_HOLD_BYTES, WRITE_BYTES_PER_TURN, WRITE_BYTES_PER_TURN_ALL, WRITES_PER_TURN,
};
use crate::server::core::Core;
use crate::server::turn::Turns;
use std::task::Poll;

impl Turns {
    /// Hands replies to the kernel, as far as the turn's share goes.
    pub(in crate::server) fn release(&mut self) {
        let mut bytes_left = WRITE_BYTES_PER_TURN_ALL;
        for write in 0..WRITES_PER_TURN {
            // Closing a client may write to the next in line.
            let Some(slot) = self.core.outputs.next_dirty(write % 2 == 0) else { break };
            bytes_left = bytes_left.saturating_sub(self.write(slot, bytes_left));
            self.run_backlog();
            let Core { watch, outputs, clock, .. } = &mut self.core;
            watch.note_lateness(outputs, clock);
            if bytes_left == 0 {
                break;
            }
        }
        self.core.outputs.put_off();
        self.list_answered();
    }

    /// Writes to one client; returns how many bytes.
    fn write(&mut self, slot: u32, bytes_max: usize) -> usize {
        let Some(client) = self.clients.get_mut(slot) else { return 0 };
        let sendable = self.core.outputs.sendable_bytes(slot);
        let output = self.core.outputs.at(slot);
        let counters = &mut self.core.watch.counters;
        counters.output_bytes_largest = counters.output_bytes_largest.max(output.unsent.len());
        // A waiting client may have left unnoticed: its jobs would be written into a closed
        // connection and be lost, or held by an unused lease.
        if sendable > 0
            && output.has_unsent_jobs()
            && output.waited
            && !client.socket.stream.is_peer_there()
        {
            self.close(slot);
            return 0;
        }
        let share = sendable.min(WRITE_BYTES_PER_TURN).min(bytes_max);
        let mut count = 0;
        while count < share {
            let piece = self.core.outputs.at(slot).unsent.first(share - count);
            let offered = piece.len();
            match client.socket.write(piece) {
                Poll::Pending => break,
                Poll::Ready(Ok(taken)) => {
                    count += taken;
                    match self.core.outputs.sent(slot, taken) {
                        0 => {}
                        replies => self.core.engine.sent_first(client.id, replies),
                    }
                    if taken < offered {
                        break;
                    }
                }
                Poll::Ready(Err(error)) => {
                    tracing::debug!(%error, client = %client.id, "a connection broke");
                    self.close(slot);
                    return count;
                }
            }
        }
        self.core.watch.counters.output_bytes += count as u64;
        let left = self.core.outputs.of(slot).unsent.len();
        if left == 0 && client.socket.closing_us.is_some() {
            self.close(slot);
            return count;
        }
        // The waker calls when the kernel takes more, or it does so at once.
        if sendable > count && client.socket.is_writable() {
            self.core.outputs.mark_late(slot);
        }
        if client.socket.held && left <= OUTPUT_HOLD_BYTES {
            self.list(slot);
        }
        self.account(slot);
        count
    }

    /// Clients that have been answered go on with what they sent meanwhile.
    pub(in crate::server) fn list_answered(&mut self) {
        for i in 0..self.core.outputs.answered.len() {
            self.list(self.core.outputs.answered[i]);
        }
        self.core.outputs.answered.clear();
    }

    /// Jobs handed to clients that wanted no reply: there is no byte to wait for.
    pub(in crate::server) fn run_backlog(&mut self) {
        while let Some(slot) = self.core.outputs.unheard.pop() {
            if let Some(client) = self.clients.get_mut(slot) {
                self.core.engine.sent_first(client.id, 1);
            }
        }
    }
}
