//! Whether this node asks for votes. It only ever waits longer than Raft would: nothing is safe because of it.

use super::Driver;
use crate::limits::{HAND_OVER_BEHIND_MAX, LEADERLESS_US, LEVEL_CLOCKS, REPLICA_PRIORITY_DEFAULT};
use crate::time::Micros;
use std::cmp::Reverse;

/// The reasons for and against it.
pub(super) struct Campaign {
    /// Its engine is there.
    pub may: bool,
    /// `replica-priority`: the least is preferred, and 0 is not to lead.
    pub priority: u64,
    /// Beyond this its wall clock is wrong.
    pub max_skew_us: u64,
    /// When a leader was known last; before there was one, the start.
    led: Micros,
}

impl Campaign {
    pub fn new(now: Micros) -> Campaign {
        Campaign { may: true, priority: REPLICA_PRIORITY_DEFAULT, max_skew_us: u64::MAX, led: now }
    }
}

impl Driver {
    /// Decides again: if no other node leads for some seconds, some node must, even if a better one exists.
    pub(super) fn weigh(&mut self) {
        if self.roles.led.is_some() || self.node.hears_leader() {
            self.campaign.led = self.now;
        }
        let Campaign { may, priority, led, .. } = self.campaign;
        let us = self.now.0.saturating_sub(led.0);
        let is_fit = || priority > 0 && self.is_well_enough(us) && self.has_right_clock();
        self.node.set_may_lead(may && (us >= LEADERLESS_US || is_fit()));
    }

    /// The voter to hand over to, other than `but`. Connected ones come first, then those that may lead, are well and have nearly
    /// the whole log; of these the preferred one, then the one that has been connected longest, up to E, since a node that has
    /// just started may not be fit yet; then the one with most of the log.
    pub(super) fn successor(&self, but: Option<u64>) -> Option<u64> {
        let own = self.identity.node;
        let is_other = |id: &u64| *id != own && Some(*id) != but;
        let voters = self.node.members().voters.iter().copied().filter(is_other);
        let (peers, last) = (self.node.peers(), self.node.last());
        voters.max_by_key(|id| {
            let peer = peers.iter().find(|peer| peer.id == *id);
            let matched = peer.map_or(0, |peer| peer.matched);
            let is_heard = self.roles.is_heard(*id, self.now, self.identity.election_us);
            let is_near = matched + HAND_OVER_BEHIND_MAX >= last;
            let priority = self.priority_of(*id).unwrap_or(REPLICA_PRIORITY_DEFAULT);
            let there_us = self.roles.there_us(*id, self.now).min(self.identity.election_us);
            let health = self.health_of(*id).unwrap_or_default();
            let health = (health.works(), health.is_well());
            (is_heard, priority > 0, health, is_near, Reverse(priority), there_us, matched)
        })
    }

    /// As the node has reported, or this one is told.
    pub(super) fn priority_of(&self, node: u64) -> Option<u64> {
        match node == self.identity.node {
            true => Some(self.campaign.priority),
            false => self.priorities.get(&node).copied(),
        }
    }

    /// Whether its wall clock agrees with the majority's. Before it knows their clocks its own could be early; if no
    /// other node reported a clock, it cannot be wrong.
    fn has_right_clock(&self) -> bool {
        let (own, voters) = (self.identity.node, &self.node.members().voters);
        if !self.clocks.has_own() || !voters.contains(&own) {
            return true;
        }
        // Older nodes do not report theirs: if they are the majority, there is nothing to compare with. The same holds
        // before any node is met, but then there are no votes either.
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
