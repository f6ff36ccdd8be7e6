//! Limits of clients' memory and time, and closing clients that exceed them.

use crate::limits::{CLOSING_MS_MAX, CROWD_SHARE, REPLY_SPARED_BYTES};
use crate::server::turn::Turns;

impl Turns {
    /// Brings what a client holds up to date. Beyond `max-clients-memory` the one that holds most is
    /// closed; so is one with more unread replies than its class may have.
    pub(in crate::server) fn account(&mut self, slot: u32) {
        let unsent_bytes = self.core.outputs.of(slot).unsent.len() as u64;
        if self.core.common.bytes > self.core.options.limits.clients_bytes_max / CROWD_SHARE {
            self.core.outputs.trim(slot);
        }
        let output_bytes = self.core.outputs.of(slot).held_bytes();
        let has_jobs = self.core.outputs.at(slot).has_unsent_jobs();
        let Some(client) = self.clients.get_mut(slot) else { return };
        let waiting_bytes = match self.core.outputs.of(slot).waiting {
            true => self.core.engine.waiting_bytes(client.id),
            false => 0,
        };
        let subscribed = client.session.is_subscribed();
        let subscription_bytes = match subscribed {
            true => self.core.pubsub_of(client.session.face()).bytes(client.id),
            false => 0,
        };
        let unsent_jobs_bytes = match has_jobs {
            true => self.core.engine.unsent_jobs_bytes(client.id),
            false => 0,
        };
        let replies = output_bytes + unsent_jobs_bytes;
        let bound_bytes = self.core.engine.bound_bytes(client.id);
        let bytes =
            client.held_bytes() + replies + waiting_bytes + subscription_bytes + bound_bytes;
        self.core.common.bytes = self.core.common.bytes - client.socket.bytes + bytes;
        client.socket.bytes = bytes;
        client.socket.reply_bytes = if subscribed { 0 } else { replies };

        let limit = self.core.options.limits.output_of(subscribed);
        let over = |max: u64| max > 0 && unsent_bytes > max;
        if over(limit.hard) {
            let (id, peer) = (client.id, &client.socket.peer);
            if !client.session.is_locked() || self.core.common.lines.admits() {
                tracing::warn!(client = %id, %peer, unsent_bytes, "closed: too many unread replies");
            }
            self.core.watch.counters.closed_for_output += 1;
            self.close(slot);
            return;
        }
        if !over(limit.soft) {
            client.socket.over_soft_us = None;
        } else if client.socket.over_soft_us.is_none() {
            client.socket.over_soft_us = Some(self.core.clock.mono_us);
        }
        while self.core.common.bytes > self.core.options.limits.clients_bytes_max
            && !self.spares(self.core.common.spared)
        {
            self.close_largest();
        }
    }

    /// Whether the excess is only a client's replies, up to one of the largest size. A client that reads at once could
    /// otherwise be closed for its own answers, again and again.
    fn spares(&mut self, slot: u32) -> bool {
        let (held, max) = (self.core.common.bytes, self.core.options.limits.clients_bytes_max);
        self.clients
            .get_mut(slot)
            .is_some_and(|client| held - client.socket.reply_bytes.min(REPLY_SPARED_BYTES) <= max)
    }

    /// Closes clients that are idle for too long, above the soft limit, or not reading their last replies.
    pub(in crate::server) fn close_overdue(&mut self) {
        let (now_us, limits) = (self.core.clock.mono_us, self.core.options.limits);
        let longer = |since_us: Option<u64>, us: u64| {
            since_us.is_some_and(|since_us| now_us.saturating_sub(since_us) > us)
        };
        let mut overdue = Vec::new();
        for (slot, client) in self.clients.iter() {
            let socket = &client.socket;
            let silent = client.session.is_subscribed() || client.session.is_monitor();
            let idle = !self.core.outputs.of(slot).waiting
                && !silent
                && limits.idle_us_max.is_some_and(|us| longer(Some(socket.active_us), us));
            let limit = limits.output_of(client.session.is_subscribed());
            let over_soft = longer(socket.over_soft_us, limit.soft_seconds * 1_000_000);
            if over_soft {
                self.core.watch.counters.closed_for_output += 1;
            }
            if idle || over_soft || longer(socket.closing_us, CLOSING_MS_MAX * 1_000) {
                tracing::debug!(client = %client.id, idle, over_soft, "closed: it did not finish in time");
                overdue.push(slot);
            }
        }
        for slot in overdue {
            self.close(slot);
        }
    }

    /// Says how many lines were left out since the last time.
    pub(in crate::server) fn log_left_out(&self) {
        let handshakes = self.handshakes.iter().filter_map(|handshakes| handshakes.left_out());
        let left_out: u64 = handshakes.chain(self.core.common.lines.left_out()).sum();
        if left_out > 0 {
            tracing::warn!(left_out, "lines about unauthenticated clients were left out");
        }
    }

    /// Closes the client that holds most, or notes that it is spared: then the next call need not search all.
    fn close_largest(&mut self) {
        let largest = self.clients.iter().max_by_key(|(_, client)| client.socket.bytes);
        let (slot, _) = largest.expect("a client holds the memory that is counted");
        if self.spares(slot) {
            self.core.common.spared = slot;
            return;
        }
        let client = self.clients.get_mut(slot).expect("it was found");
        let (id, peer, bytes) = (client.id, &client.socket.peer, client.socket.bytes);
        let held_bytes = self.core.common.bytes;
        if !client.session.is_locked() || self.core.common.lines.admits() {
            tracing::warn!(client = %id, %peer, bytes, held_bytes, "closed: clients use more than max-clients-memory");
        }
        self.core.watch.counters.closed_for_memory += 1;
        self.close(slot);
    }
}
