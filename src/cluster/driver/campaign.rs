//! Whether this node asks for votes. It only ever waits longer than Raft would: nothing is safe because of it.

use super::Driver;
use crate::limits::{LEADERLESS_US, LEVEL_CLOCKS};
use crate::time::Micros;

/// What speaks for it and against it.
pub(super) struct Campaign {
    /// Its engine is there.
    pub may: bool,
    /// Its disk has room.
    pub has_room: bool,
    /// Beyond this its wall clock is wrong.
    pub max_skew_us: u64,
    /// When a leader was known last; before there was one, the start.
    led: Micros,
}

impl Campaign {
    pub fn new(now: Micros) -> Campaign {
        Campaign { may: true, has_room: true, max_skew_us: u64::MAX, led: now }
    }
}

impl Driver {
    /// Decides it anew: somebody has to lead if no other node does for some seconds, a better one would have.
    pub(super) fn weigh(&mut self) {
        if self.roles.led.is_some() || self.node.hears_leader() {
            self.campaign.led = self.now;
        }
        let Campaign { may, has_room, led, .. } = self.campaign;
        let is_waived = self.now.0 >= led.0 + LEADERLESS_US;
        self.node.set_may_lead(may && (is_waived || has_room && self.has_right_clock()));
    }

    /// Whether its wall clock is what most say. Before it knows their clocks it could be early; where nobody told it its own
    /// there is none to be wrong.
    fn has_right_clock(&self) -> bool {
        let (own, voters) = (self.identity.node, &self.node.members().voters);
        if !self.clocks.has_own() || !voters.contains(&own) {
            return true;
        }
        // Older nodes do not tell theirs: among most of them there is nothing to compare with. Nor is there before anybody is
        // met, but then nobody votes either.
        let tells = |id: &&u64| {
            let is_new = || self.level_of(**id).is_some_and(|level| level >= LEVEL_CLOCKS);
            **id == own || self.clocks.knows(**id, self.now) || is_new()
        };
        if 2 * voters.iter().filter(tells).count() <= voters.len() {
            return true;
        }
        let status = self.clocks.status(own, voters, self.now);
        status.is_some_and(|clock| clock.ahead.unsigned_abs() <= self.campaign.max_skew_us)
    }
}
