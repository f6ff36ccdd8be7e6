//! The behaviour of a sick node: a leader hands over, and a follower does not ask for votes while another node could
//! lead.
//!
//! ```text
//!  cause          a leader hands over                                  if that fails
//!  disk full      at once                                              it steps down, and the others elect one
//!  disk hangs     at once, at most twice a minute unless it blocks     the same
//!                 proposals
//!  disk slow      at most once a minute                                it goes on, and tries again
//!  stands still   at most once a minute                                the same
//! ```
//!
//! It hands over only to a voter that is connected, well and nearly up to date, and steps down only if such voters are a majority
//! without it: a leader with a sick disk is better than no leader. For a disk that is full or hangs a voter that recovers will do.
//! Safety does not depend on any of this.

use super::Driver;
use crate::cluster::timing::clocks::ClockNote;
use crate::cluster::timing::health::{Health, Why};
use crate::limits::{
    HAND_OVER_BEHIND_MAX, HEALTH_TIMES_E, HUNG_TIMES_E, HUNG_US_MIN, MAKE_WAY_TIMES_E, MAKE_WAY_US,
    SICK_CHANGE_US, SICK_LEADERLESS_TIMES_E,
};
use crate::time::Micros;
use std::collections::BTreeMap;

/// The others' reports, and the actions about this node's own health.
#[derive(Default)]
pub(super) struct Sickness {
    others: BTreeMap<u64, Report>,
    /// Since when this leader is to make way.
    wants: Option<Micros>,
    /// This node's trouble at the last check.
    trouble: Option<Why>,
    /// Not to be tried again before.
    next_try: Micros,
}

struct Report {
    heard: Micros,
    /// Older nodes do not report: they count as healthy.
    health: Option<Health>,
    /// The last index of its log; older nodes do not report that either.
    last: Option<u64>,
}

impl Sickness {
    /// It is there, and may have said how it is.
    pub fn heard(&mut self, peer: u64, now: Micros, note: &ClockNote) {
        self.others.insert(peer, Report { heard: now, health: note.health, last: note.last });
    }

    /// Forgets all nodes that are not in the list.
    pub fn keep(&mut self, nodes: &[u64]) {
        self.others.retain(|node, _| nodes.contains(node));
    }
}

impl Driver {
    /// Another node's report of its health, if that is new enough.
    pub(super) fn health_of(&self, node: u64) -> Option<Health> {
        self.told_of(node)?.health
    }

    /// Whether another node that reports how far its log reaches has done so lately; nothing of one that never has.
    pub(super) fn is_reporting(&self, node: u64) -> Option<bool> {
        self.sickness.others.get(&node)?.last?;
        Some(self.last_of(node).is_some())
    }

    /// How far another node's log reaches by its own report, if that is new enough.
    pub(super) fn last_of(&self, node: u64) -> Option<u64> {
        self.told_of(node)?.last
    }

    /// Updates this node's health. The others must hear of a change at once.
    pub(super) fn judge(&mut self) {
        let others = self.other_voters();
        let syncs = others.iter().filter_map(|id| self.health_of(*id));
        let others_us = syncs.map(|health| health.sync_us).filter(|us| *us > 0).min();
        self.meter.judge(self.now, others_us);
        let trouble = self.meter.trouble();
        self.clock_lacked |= trouble != std::mem::replace(&mut self.sickness.trouble, trouble);
    }

    /// Whether it may ask for votes after this long without a known leader: it is healthy, or no other voter works, or
    /// one that does would have been elected by now. A voter may work and lack entries without which it cannot win.
    pub(super) fn is_well_enough(&self, leaderless_us: u64) -> bool {
        self.meter.trouble().is_none()
            || leaderless_us >= SICK_LEADERLESS_TIMES_E * self.identity.election_us
            || !self.other_voters().into_iter().any(|id| self.is_fit(id, Health::works))
    }

    /// Whether this leader is to make way for another one, which its host does best: once all that was decided is committed.
    pub(super) fn makes_way(&self) -> bool {
        self.sickness.wants.is_some()
    }

    /// A sick leader hands over if its host has not done so, or steps down as a last resort.
    pub(super) fn make_way(&mut self) {
        let why = self.wants_to_make_way();
        let since = why.map(|_| self.sickness.wants.unwrap_or(self.now));
        self.sickness.wants = since;
        let (Some(why), Some(since)) = (why, since) else { return };
        let host_us = MAKE_WAY_TIMES_E * self.identity.election_us;
        if self.now.0 < since.0 + host_us || self.node.is_transferring() {
            return;
        }
        self.sickness.next_try = Micros(self.now.0 + MAKE_WAY_US);
        let is_majority = 2 * self.able_successors(why) > self.node.members().voters.len();
        match why {
            Why::DiskHangs | Why::DiskFull if is_majority => self.resign(),
            _ => _ = self.begin_to_hand_over(None),
        }
    }

    fn wants_to_make_way(&self) -> Option<Why> {
        self.roles.led?;
        let why = self.meter.trouble()?;
        let recent = Micros(self.now.0.saturating_sub(SICK_CHANGE_US));
        let changes = self.roles.changes_since(recent);
        let is_rare = match why {
            Why::DiskHangs => changes < 2 || self.node.is_behind(),
            Why::DiskFull => true,
            Why::DiskSlow | Why::StandsStill => changes == 0,
        };
        let is_due = is_rare && self.now >= self.sickness.next_try && self.able_successors(why) > 0;
        is_due.then_some(why)
    }

    /// How many voters could take over now. A node that recovers is better than one that cannot add.
    fn able_successors(&self, why: Why) -> usize {
        let is_well = match why {
            Why::DiskFull | Why::DiskHangs => Health::works,
            Why::DiskSlow | Why::StandsStill => Health::is_well,
        };
        let (peers, last) = (self.node.peers(), self.node.last());
        let is_able = |id: &u64| {
            let is_heard = self.roles.is_heard(*id, self.now, self.identity.election_us);
            let has_most = |matched| matched + HAND_OVER_BEHIND_MAX >= last;
            let is_near = peers.iter().any(|peer| peer.id == *id && has_most(peer.matched));
            is_heard && is_near && self.priority_of(*id) != Some(0) && self.is_fit(*id, is_well)
        };
        self.other_voters().iter().filter(|id| is_able(id)).count()
    }

    /// Whether a voter is connected and healthy enough. A write that was waiting at the time of its report may still
    /// wait: if all disks hang together, it reports that a moment after this node has noticed its own.
    fn is_fit(&self, node: u64, is_well: impl Fn(&Health) -> bool) -> bool {
        let Some(told) = self.told_of(node) else { return false };
        let Some(health) = &told.health else { return true };
        let waits_us = match health.waits_us {
            0 => 0,
            us => us + self.now.0 - told.heard.0,
        };
        let hung_us = HUNG_US_MIN.max(HUNG_TIMES_E * self.identity.election_us);
        is_well(health) && waits_us < hung_us / 2
    }

    fn told_of(&self, node: u64) -> Option<&Report> {
        let holds_us = HEALTH_TIMES_E * self.identity.election_us;
        self.sickness.others.get(&node).filter(|told| self.now.0 < told.heard.0 + holds_us)
    }

    fn other_voters(&self) -> Vec<u64> {
        let own = self.identity.node;
        self.node.members().voters.iter().copied().filter(|id| *id != own).collect()
    }
}
