//! Replies, from the outputs into the kernel's hands; and hand-offs that did not get there.

use super::turn::Turns;
use crate::limits::OUTPUT_HOLD_BYTES;
use std::task::Poll;

impl Turns {
    /// Hands the replies to the kernel.
    pub(super) fn release(&mut self) {
        let mut dirty = std::mem::take(&mut self.batch);
        loop {
            // Closing a client may write to the next in line.
            self.core.outputs.take_dirty(&mut dirty);
            if dirty.is_empty() {
                break;
            }
            for slot in dirty.drain(..) {
                self.write(slot);
            }
            self.hear_unheard();
        }
        self.batch = dirty;
        self.list_answered();
    }

    fn write(&mut self, slot: u32) {
        let Some(client) = self.clients.get_mut(slot) else { return };
        let output = self.core.outputs.at(slot);
        let counters = &mut self.core.counters;
        counters.output_bytes_largest = counters.output_bytes_largest.max(output.bytes.len());
        // One that had been waiting may have left without our having noticed: its jobs would be
        // written into a closed connection and be lost, or held by a lease for nobody.
        if output.handed_at.is_some() && output.waited && !client.socket.is_peer_there() {
            self.close(slot);
            return;
        }
        let written = if output.bytes.is_empty() {
            Poll::Pending
        } else {
            client.socket.write(&output.bytes)
        };
        match written {
            Poll::Pending => {}
            Poll::Ready(Ok(count)) => {
                counters.output_bytes += count as u64;
                if self.core.outputs.sent(slot, count) {
                    self.core.engine.sent(client.id);
                }
            }
            Poll::Ready(Err(error)) => {
                tracing::debug!(%error, client = %client.id, "a connection broke");
                self.close(slot);
                return;
            }
        }
        let left = self.core.outputs.unsent_bytes(slot);
        if left == 0 && client.socket.closing_us.is_some() {
            self.close(slot);
            return;
        }
        let go_on = client.socket.held && left <= OUTPUT_HOLD_BYTES;
        // The waker calls when the kernel takes more, or it does so at once.
        let writable = left > 0 && client.socket.is_writable();
        if go_on || writable {
            self.list(slot);
        }
        self.account(slot);
    }

    /// Clients that have been answered go on with what they sent meanwhile.
    pub(super) fn list_answered(&mut self) {
        for i in 0..self.core.outputs.answered.len() {
            self.list(self.core.outputs.answered[i]);
        }
        self.core.outputs.answered.clear();
    }

    /// Jobs handed to clients that wanted no reply: there is no byte to wait for.
    pub(super) fn hear_unheard(&mut self) {
        while let Some(slot) = self.core.outputs.unheard.pop() {
            if let Some(client) = self.clients.get_mut(slot) {
                self.core.engine.sent(client.id);
            }
        }
    }
}
