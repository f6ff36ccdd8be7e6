//! Spans in which the process did nothing: a suspended machine, swap, SIGSTOP, or work that took long.
//!
//! Who held a lease then may have answered in time, and the answer lies in the socket. So such a span is
//! a stall: leases that would have ended in it are extended by what was left of them when the process was
//! last seen at work, and until all that had arrived by its end has been heard no lease ends. Jobs fall
//! due as ever.

use super::turn::Turns;
use crate::limits::{HEARING_MS_MAX, STANDSTILL_US};
use crate::time::Micros;
use std::collections::HashSet;

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
}

impl Turns {
    /// The process stood still from `since` until this turn.
    pub(super) fn begin_hearing(&mut self, since: Micros) {
        self.core.engine.stood_still(since);
        let until_us = self.core.mono_us + HEARING_MS_MAX * 1_000;
        let looks = 1 + self.clients.iter().count() / TOLD_AT_ONCE;
        let slots = self.hearing.take().map(|hearing| hearing.slots).unwrap_or_default();
        self.hearing = Some(Hearing { until_us, looks, slots });
    }

    /// Before the sockets are read: these have something.
    pub(super) fn list_unheard(&mut self) {
        let Some(hearing) = self.hearing.as_mut().filter(|hearing| hearing.looks > 0) else {
            return;
        };
        hearing.looks -= 1;
        hearing.slots.extend(&self.listed);
    }

    /// After commands ran: who was read to the end has been heard. Whoever waits, or reads no replies, goes
    /// on when that is over, and does not count.
    pub(super) fn end_hearing(&mut self) {
        let Some(hearing) = &mut self.hearing else { return };
        let clients = &mut self.clients;
        hearing.slots.retain(|slot| {
            clients.get_mut(*slot).is_some_and(|client| {
                client.socket.behind || (client.socket.listed && client.socket.wants_reading())
            })
        });
        let over = hearing.looks == 0 && hearing.slots.is_empty();
        if over || self.core.mono_us >= hearing.until_us {
            self.hearing = None;
            self.core.engine.heard(self.core.now);
        }
    }

    /// The turn is over.
    pub(super) fn note_turn_ended(&mut self) {
        let ended_us = super::timer::mono_us();
        let next_us = if self.is_behind() { ended_us } else { self.wake_by_us() };
        self.core.standstills.turn_ended(self.core.mono_us, ended_us, next_us);
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
