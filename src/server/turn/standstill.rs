//! Spans in which the process did nothing: a suspended machine, swap, SIGSTOP, or work that took long.
//!
//! A client that held a lease then may have answered in time, and the answer is in the socket. So such a span is a
//! stall: leases that would have ended in it are extended by the time they had left when the process was last seen at
//! work, and until everything that had arrived by its end has been processed no lease ends. Jobs fall due as usual, but
//! are not handed to waiters before that input has run: a CANCEL of a timer that fell due meanwhile may be among it.

use crate::limits::{BACKLOG_MS_MAX, SOCKETS_LISTED_AT_ONCE};
use crate::server::connection::client::Client;
use crate::server::turn::Turns;
use crate::time::Micros;
use std::collections::{HashMap, HashSet};

/// Input that arrived while the process stood still and was not processed yet.
#[derive(Debug)]
pub struct Backlog {
    /// Not longer than this; monotonic, µs.
    until_us: u64,
    /// How often the system is still asked which sockets have something.
    looks: usize,
    /// Those that had something and were not read to their end.
    slots: HashSet<u32>,
    /// Waiters are not served yet.
    deferral: Option<Deferral>,
}

/// The input to run before waiters are served: the bytes found by the first reads, and no more. Leases may be longer,
/// but a client that sends without end must not keep jobs from waiting clients.
#[derive(Debug)]
struct Deferral {
    begun_us: u64,
    /// As of [`Backlog`].
    looks: usize,
    /// By slot, which of the bytes read from it is the last of what was there.
    ends: HashMap<u32, u64>,
}

impl Turns {
    /// The process stood still from `since` until this turn.
    pub(in crate::server) fn begin_backlog(&mut self, since: Micros) {
        let mono_us = self.core.clock.mono_us;
        self.core.engine.stood_still(since);
        let looks = 1 + self.clients.iter().count() / SOCKETS_LISTED_AT_ONCE;
        let before = self.backlog.take();
        let (slots, mut deferral) =
            before.map(|backlog| (backlog.slots, backlog.deferral)).unwrap_or_default();
        if deferral.is_none() && mono_us >= self.core.clock.standstills.serves_until_us {
            deferral = Some(Deferral { begun_us: mono_us, looks, ends: HashMap::new() });
            self.core.engine.defer_hand_offs(true);
        }
        let until_us = mono_us + BACKLOG_MS_MAX * 1_000;
        self.backlog = Some(Backlog { until_us, looks, slots, deferral });
    }

    /// Before the sockets are read: these have something.
    pub(in crate::server) fn list_unheard(&mut self) {
        let Some(backlog) = &mut self.backlog else { return };
        if backlog.looks > 0 {
            backlog.looks -= 1;
            backlog.slots.extend(&self.listed);
        }
        let Some(deferral) = backlog.deferral.as_mut().filter(|deferral| deferral.looks > 0) else {
            return;
        };
        deferral.looks -= 1;
        for slot in &self.listed {
            if let Some(client) = self.clients.get_mut(*slot) {
                let socket = &client.socket;
                let end = || socket.read_bytes + socket.stream.arrived_bytes();
                deferral.ends.entry(*slot).or_insert_with(end);
            }
        }
    }

    /// After commands ran: clients read to the end have been processed.
    pub(in crate::server) fn end_backlog(&mut self) {
        let Some(backlog) = &mut self.backlog else { return };
        let clients = &mut self.clients;
        backlog
            .slots
            .retain(|slot| clients.get_mut(*slot).is_some_and(|client| client.is_unheard()));
        let over = backlog.looks == 0 && backlog.slots.is_empty()
            || self.core.clock.mono_us >= backlog.until_us;
        self.end_deferral(over);
        if over {
            self.backlog = None;
            self.core.engine.backlog_read(self.core.clock.now);
        }
    }

    /// Waiters are served from here on if all that was there has run, or if it is `over`.
    fn end_deferral(&mut self, over: bool) {
        let Some(backlog) = &mut self.backlog else { return };
        let Some(deferral) = &mut backlog.deferral else { return };
        let clients = &mut self.clients;
        // A command that is half done may itself wait until waiters have been served.
        let is_due = |client: &mut Client, end: u64| {
            let ran_bytes = client.socket.read_bytes - client.input.len() as u64;
            client.is_unheard() && !client.socket.midway && ran_bytes < end
        };
        deferral
            .ends
            .retain(|slot, end| clients.get_mut(*slot).is_some_and(|client| is_due(client, *end)));
        let lasted_us = self.core.clock.mono_us - deferral.begun_us;
        let heard = deferral.looks == 0 && deferral.ends.is_empty();
        if over || heard || lasted_us >= BACKLOG_MS_MAX * 1_000 {
            backlog.deferral = None;
            self.core.clock.standstills.serves_until_us = self.core.clock.mono_us + lasted_us;
            self.core.engine.defer_hand_offs(false);
        }
    }

    pub(in crate::server) fn note_turn_ended(&mut self) {
        let ended_us = self.core.clock.timer.mono_us();
        let next_us = if self.is_behind() { ended_us } else { self.wake_by_us() };
        self.core.clock.standstills.turn_ended(self.core.clock.mono_us, ended_us, next_us);
    }
}

impl Client {
    /// Whether input may still be outstanding. A client that waits, or does not read its replies, goes on when that is
    /// over, and does not count.
    fn is_unheard(&self) -> bool {
        self.socket.behind || (self.socket.listed && self.socket.wants_reading())
    }
}
