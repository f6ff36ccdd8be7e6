//! A leader that is stopped goes when another one leads: no time is lost until that is elected.
//!
//! It has stopped leading before its own vote for the next leader is durable and sent, and without that vote there may
//! be no majority. So it stays until it knows the new leader; without one, until the others would elect one without it.

use crate::limits::{HAND_OVER_MS_EACH, HAND_OVER_MS_MAX};
use crate::server::turn::Turns;

/// How far that is. Instants are of the monotonic clock, µs.
#[derive(Clone, Copy, Debug)]
pub struct Succession {
    until_us: u64,
    /// When another one is asked next.
    ask_us: u64,
    /// It has led since this began, and whether it does.
    has_led: bool,
    leads: bool,
}

impl Succession {
    pub fn begin(now_us: u64) -> Succession {
        let until_us = now_us + HAND_OVER_MS_MAX * 1_000;
        Succession { until_us, ask_us: now_us, has_led: false, leads: false }
    }

    /// Whether it is to stay, as it `leads`, or another one does as far as it knows. E is in µs.
    fn stays(&mut self, now_us: u64, leads: bool, is_led: bool, election_us: u64) -> bool {
        let has_ceased = std::mem::replace(&mut self.leads, leads) && !leads;
        self.has_led |= leads;
        if has_ceased {
            self.until_us = self.until_us.min(now_us + election_us + election_us / 4);
        }
        self.has_led && (leads || !is_led) && now_us < self.until_us
    }

    /// The latest time for the next check.
    pub fn wake_by_us(&self) -> u64 {
        if self.leads { self.until_us.min(self.ask_us) } else { self.until_us }
    }
}

impl Turns {
    /// Continues it, between two turns; returns whether to call it again. Its last facts are committed first.
    pub(in crate::server) fn stays_for(&mut self, succession: &mut Succession) -> bool {
        let now_us = self.core.clock.timer.mono_us();
        let Some(node) = self.core.durability.replicated() else { return false };
        let leader = node.mailbox.status().and_then(|status| status.leader);
        let is_led = leader.is_some_and(|leader| leader != node.own.id);
        let leads = node.decides();
        if !succession.stays(now_us, leads, is_led, node.own.election_us) {
            return false;
        }
        if leads && now_us >= succession.ask_us {
            // The chosen node may have just started, and not be elected; the next one may.
            let is_committed = self.core.durability.is_committed();
            let after_ms = if is_committed { HAND_OVER_MS_EACH } else { 1 };
            succession.ask_us = now_us + after_ms * 1_000;
            if is_committed {
                self.hand_over();
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const E: u64 = 300_000;

    #[test]
    fn it_stays_until_another_one_leads() {
        let mut succession = Succession::begin(1_000);
        assert!(succession.stays(1_000, true, false, E));
        assert!(succession.stays(1_500, true, false, E));
        assert!(succession.stays(2_000, false, false, E), "it has a vote");
        assert!(succession.stays(3_000, false, false, E));
        assert!(!succession.stays(3_100, false, true, E));
    }

    #[test]
    fn it_stays_no_longer_than_an_election_takes() {
        let mut succession = Succession::begin(0);
        assert!(succession.stays(0, true, false, E));
        assert!(succession.stays(1_000, false, false, E));
        let last = 1_000 + E + E / 4;
        assert_eq!(succession.wake_by_us(), last);
        assert!(succession.stays(last - 1, false, false, E));
        assert!(!succession.stays(last, false, false, E));
        // Nor longer than finding one takes.
        let mut succession = Succession::begin(0);
        assert!(succession.stays(HAND_OVER_MS_MAX * 1_000 - 1, true, false, E));
        assert!(succession.stays(HAND_OVER_MS_MAX * 1_000 - 1, false, false, E));
        assert!(!succession.stays(HAND_OVER_MS_MAX * 1_000, false, false, E));
    }

    #[test]
    fn one_that_does_not_lead_goes_at_once() {
        for is_led in [false, true] {
            assert!(!Succession::begin(0).stays(0, false, is_led, E));
        }
    }
}
