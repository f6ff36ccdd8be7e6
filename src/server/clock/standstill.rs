//! Spans in which the process did nothing: they are noticed and counted.

use crate::limits::{STANDSTILL_LOG_US, STANDSTILL_US};

/// Notices standstills, and counts them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standstills {
    pub count: u64,
    /// How long they were together, µs.
    pub total_us: u64,
    /// The turn before.
    last: Option<EndedTurn>,
    /// The time of the last log line.
    logged_us: Option<u64>,
    /// Until then waiters are served whatever happens, as they were not for as long: one standstill after
    /// the other must not keep them waiting for ever. Monotonic, µs.
    pub(in crate::server) serves_until_us: u64,
}

/// A turn that has ended; monotonic, µs.
#[derive(Clone, Copy, Debug)]
struct EndedTurn {
    begun_us: u64,
    ended_us: u64,
    /// When the next was to begin at the latest.
    next_us: u64,
}

impl Standstills {
    /// A turn has ended that began at `begun_us`; the next is to begin at `next_us` at the latest.
    pub fn turn_ended(&mut self, begun_us: u64, ended_us: u64, next_us: u64) {
        self.last = Some(EndedTurn { begun_us, ended_us, next_us: next_us.max(ended_us) });
    }

    /// Since when the process may have stood still, if it did, now that the next turn begins. For a wait only its late
    /// end is known, so all of it counts: better a lease that is too long than one that is too short. A turn comes at
    /// least once a second.
    pub fn since(&self, mono_us: u64) -> Option<u64> {
        let EndedTurn { begun_us, ended_us, next_us } = self.last?;
        if ended_us.saturating_sub(begun_us) > STANDSTILL_US {
            return Some(begun_us);
        }
        (mono_us.saturating_sub(next_us) > STANDSTILL_US).then_some(ended_us)
    }

    /// Counts one of `us`, and logs now and then.
    pub fn note(&mut self, us: u64, mono_us: u64) {
        self.count += 1;
        self.total_us += us;
        if self.logged_us.is_none_or(|logged_us| mono_us - logged_us >= STANDSTILL_LOG_US) {
            self.logged_us = Some(mono_us);
            tracing::warn!(
                us,
                count = self.count,
                "the process stalled; leases that would have ended meanwhile are extended"
            );
        }
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
