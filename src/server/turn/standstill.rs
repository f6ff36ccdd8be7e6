//! Spans in which the process did nothing: a suspended machine, swap, SIGSTOP, or work that took long.
//!
//! Who held a lease then may have answered in time, and the answer lies in the socket. So such a span is
//! a stall: leases that would have ended in it are extended by what was left of them when the process was
//! last seen at work, and until all that had arrived by its end has been heard no lease ends. Jobs fall
//! due as ever, but are not handed to waiters before what had arrived has run: a CANCEL of a timer that
//! fell due meanwhile may be among it.

use crate::limits::{HEARING_MS_MAX, STANDSTILL_US};
use crate::server::clock::timer;
use crate::server::connection::client::Client;
use crate::server::turn::Turns;
use crate::time::Micros;
use std::collections::{HashMap, HashSet};

/// Sockets that one look at the system tells of, at the least when there are more.
const TOLD_AT_ONCE: usize = 1_024;
/// From one line about it in the log to the next, µs.
const TELL_US: u64 = 10_000_000;

/// Notices standstills, and counts them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standstills {
    /// How many.
    pub count: u64,
    /// How long they were together, µs.
    pub total_us: u64,
    /// The turn before.
    last: Option<Ended>,
    /// When the log was last told.
    told_us: Option<u64>,
    /// Until then waiters are served whatever happens, as they were not for as long: one standstill after
    /// the other must not keep them waiting for ever. Monotonic, µs.
    serves_until_us: u64,
}

/// A turn that has ended; monotonic, µs.
#[derive(Clone, Copy, Debug)]
struct Ended {
    begun_us: u64,
    ended_us: u64,
    /// When the next was to begin at the latest.
    next_us: u64,
}

impl Standstills {
    /// A turn has ended that began at `begun_us`; the next is to begin at `next_us` at the latest.
    pub fn turn_ended(&mut self, begun_us: u64, ended_us: u64, next_us: u64) {
        self.last = Some(Ended { begun_us, ended_us, next_us: next_us.max(ended_us) });
    }

    /// Since when the process may have stood still, if it did, now that the next turn begins. Of a wait
    /// only its end is known to have come late, so its whole is taken: rather is a lease too long than too
    /// short. A turn comes once a second at the least.
    pub fn since(&self, mono_us: u64) -> Option<u64> {
        let Ended { begun_us, ended_us, next_us } = self.last?;
        if ended_us.saturating_sub(begun_us) > STANDSTILL_US {
            return Some(begun_us);
        }
        (mono_us.saturating_sub(next_us) > STANDSTILL_US).then_some(ended_us)
    }

    /// Counts one of `us`, and tells the log now and then.
    pub fn note(&mut self, us: u64, mono_us: u64) {
        self.count += 1;
        self.total_us += us;
        if self.told_us.is_none_or(|told_us| mono_us - told_us >= TELL_US) {
            self.told_us = Some(mono_us);
            tracing::warn!(
                us,
                count = self.count,
                "the process stood still; leases that would have ended meanwhile are extended"
            );
        }
    }
}

/// What has arrived while the process stood still and was not heard yet.
#[derive(Debug)]
pub struct Hearing {
    /// Not longer than this; monotonic, µs.
    until_us: u64,
    /// How often the system is still asked which sockets have something.
    looks: usize,
    /// Those that had something and were not read to their end.
    slots: HashSet<u32>,
    /// Waiters are not served yet.
    deferral: Option<Deferral>,
}

/// What is to run before waiters are served: what was there by the first looks, and no more. Leases may be
/// longer, but a client that sends without end must not keep jobs from those who wait.
#[derive(Debug)]
struct Deferral {
    begun_us: u64,
    /// As of [`Hearing`].
    looks: usize,
    /// By slot, which of the bytes read from it is the last of what was there.
    ends: HashMap<u32, u64>,
}

impl Turns {
    /// The process stood still from `since` until this turn.
    pub(in crate::server) fn begin_hearing(&mut self, since: Micros) {
        let mono_us = self.core.mono_us;
        self.core.engine.stood_still(since);
        let looks = 1 + self.clients.iter().count() / TOLD_AT_ONCE;
        let before = self.hearing.take();
        let (slots, mut deferral) =
            before.map(|hearing| (hearing.slots, hearing.deferral)).unwrap_or_default();
        if deferral.is_none() && mono_us >= self.core.standstills.serves_until_us {
            deferral = Some(Deferral { begun_us: mono_us, looks, ends: HashMap::new() });
            self.core.engine.defer_hand_offs(true);
        }
        let until_us = mono_us + HEARING_MS_MAX * 1_000;
        self.hearing = Some(Hearing { until_us, looks, slots, deferral });
    }

    /// Before the sockets are read: these have something.
    pub(in crate::server) fn list_unheard(&mut self) {
        let Some(hearing) = &mut self.hearing else { return };
        if hearing.looks > 0 {
            hearing.looks -= 1;
            hearing.slots.extend(&self.listed);
        }
        let Some(deferral) = hearing.deferral.as_mut().filter(|deferral| deferral.looks > 0) else {
            return;
        };
        deferral.looks -= 1;
        for slot in &self.listed {
            if let Some(client) = self.clients.get_mut(*slot) {
                let socket = &client.socket;
                let end = || socket.read_bytes + socket.arrived_bytes();
                deferral.ends.entry(*slot).or_insert_with(end);
            }
        }
    }

    /// After commands ran: who was read to the end has been heard.
    pub(in crate::server) fn end_hearing(&mut self) {
        let Some(hearing) = &mut self.hearing else { return };
        let clients = &mut self.clients;
        hearing
            .slots
            .retain(|slot| clients.get_mut(*slot).is_some_and(|client| client.is_unheard()));
        let over =
            hearing.looks == 0 && hearing.slots.is_empty() || self.core.mono_us >= hearing.until_us;
        self.end_deferral(over);
        if over {
            self.hearing = None;
            self.core.engine.heard(self.core.now);
        }
    }

    /// Waiters are served from here on if all that was there has run, or if it is `over`.
    fn end_deferral(&mut self, over: bool) {
        let Some(hearing) = &mut self.hearing else { return };
        let Some(deferral) = &mut hearing.deferral else { return };
        let clients = &mut self.clients;
        // A command that is half done may itself wait until waiters have been served.
        let is_due = |client: &mut Client, end: u64| {
            let ran_bytes = client.socket.read_bytes - client.input.len() as u64;
            client.is_unheard() && !client.socket.midway && ran_bytes < end
        };
        deferral
            .ends
            .retain(|slot, end| clients.get_mut(*slot).is_some_and(|client| is_due(client, *end)));
        let lasted_us = self.core.mono_us - deferral.begun_us;
        let heard = deferral.looks == 0 && deferral.ends.is_empty();
        if over || heard || lasted_us >= HEARING_MS_MAX * 1_000 {
            hearing.deferral = None;
            self.core.standstills.serves_until_us = self.core.mono_us + lasted_us;
            self.core.engine.defer_hand_offs(false);
        }
    }

    /// The turn is over.
    pub(in crate::server) fn note_turn_ended(&mut self) {
        let ended_us = timer::mono_us();
        let next_us = if self.is_behind() { ended_us } else { self.wake_by_us() };
        self.core.standstills.turn_ended(self.core.mono_us, ended_us, next_us);
    }
}

impl Client {
    /// Whether something of what it has sent may be still to come. Whoever waits, or reads no replies, goes
    /// on when that is over, and does not count.
    fn is_unheard(&self) -> bool {
        self.socket.behind || (self.socket.listed && self.socket.wants_reading())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_turn_and_a_long_one_are_told_from_a_wait() {
        const MS: u64 = 1_000;
        let mut standstills = Standstills::default();
        assert_eq!(standstills.since(9_000 * MS), None, "there was no turn before");
        standstills.turn_ended(100 * MS, 101 * MS, 1_000 * MS);
        assert_eq!(standstills.since(1_050 * MS), None, "woken at its time, or by a socket before");
        assert_eq!(standstills.since(1_051 * MS), Some(101 * MS));
        // Work was left: the next turn was to come at once.
        standstills.turn_ended(100 * MS, 101 * MS, 0);
        assert_eq!(standstills.since(151 * MS), None);
        assert_eq!(standstills.since(152 * MS), Some(101 * MS));
        standstills.turn_ended(100 * MS, 151 * MS, 1_000 * MS);
        assert_eq!(standstills.since(152 * MS), Some(100 * MS));
    }
}
