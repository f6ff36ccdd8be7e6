//! The reported leader; the nodes that were heard, and when.

use super::DriverEvent;
use crate::cluster::members::Members;
use crate::cluster::raft::node::Node;
use crate::cluster::raft::output::RaftRole;
use crate::cluster::timing::lease::Lease;
use crate::time::Micros;
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct Roles {
    /// The term in which this node leads.
    pub led: Option<u64>,
    /// The other node that leads.
    pub leader: Option<u64>,
    /// Leaders seen since the start, and the term of the newest.
    pub elections: u64,
    elected: u64,
    /// When the newest leaders began that took the place of another one, as far as was seen here; the newest first.
    changed: [Option<Micros>; 2],
    decides: bool,
    /// The term that this node gives up, and whether it has tried to hand over.
    resigning: Option<(u64, bool)>,
    heard: BTreeMap<u64, Micros>,
    /// When a handshake ended well the last time, of those that are there.
    met: BTreeMap<u64, Micros>,
}

/// The behaviour of a node that should not lead.
pub(super) enum Resigns {
    No,
    HandsOver,
    StepsDown,
}

impl Roles {
    /// Compares with the last report, and reports the difference.
    pub fn look(
        &mut self,
        node: &Node,
        now: Micros,
        lease: &mut Lease,
        told: &mut Vec<DriverEvent>,
    ) {
        let term = node.term();
        let led = (node.role() == RaftRole::Leader).then_some(term);
        let leader = Some(node.leader()).filter(|leader| *leader != 0 && led.is_none());
        if (led, leader) == (self.led, self.leader) {
            return;
        }
        if (led.is_some() || leader.is_some()) && term > self.elected {
            (self.elected, self.elections) = (term, self.elections + 1);
            if self.elections > 1 {
                self.changed = [Some(now), self.changed[0]];
            }
        }
        if led != self.led {
            lease.lose();
            self.decides = false;
        }
        match led {
            Some(epoch) => {
                lease.begin(now);
                told.push(DriverEvent::Elected { epoch });
            }
            None => told.push(DriverEvent::Followed { leader }),
        }
        (self.led, self.leader) = (led, leader);
    }

    /// Whether it leads and has committed something in its term, which it had not before.
    pub fn begins_to_decide(&mut self, is_leading: bool) -> bool {
        !std::mem::replace(&mut self.decides, is_leading) && is_leading
    }

    pub fn begin_to_resign(&mut self) {
        if self.resigning.map(|(term, _)| term) != self.led {
            self.resigning = self.led.map(|term| (term, false));
        }
    }

    pub fn is_resigning(&self) -> bool {
        self.resigning.is_some_and(|(term, _)| self.led == Some(term))
    }

    /// The next change, unless leadership is being handed over. It is tried once.
    pub fn resigns(&mut self) -> Resigns {
        match &mut self.resigning {
            Some((term, has_tried)) if self.led == Some(*term) => {
                let tried = std::mem::replace(has_tried, true);
                if tried { Resigns::StepsDown } else { Resigns::HandsOver }
            }
            _ => Resigns::No,
        }
    }

    /// How many of the newest two leaders began after `since`, in the place of another one.
    pub fn changes_since(&self, since: Micros) -> usize {
        self.changed.iter().flatten().filter(|at| **at > since).count()
    }

    pub fn heard(&mut self, peer: u64, now: Micros) {
        self.heard.insert(peer, now);
    }

    pub fn met(&mut self, peer: u64, now: Micros) {
        self.met.insert(peer, now);
    }

    pub fn parted(&mut self, peer: u64) {
        self.met.remove(&peer);
    }

    pub fn is_met(&self, peer: u64) -> bool {
        self.met.contains_key(&peer)
    }

    /// For how long it has been there, as far as is known, µs.
    pub fn there_us(&self, peer: u64, now: Micros) -> u64 {
        self.met.get(&peer).map_or(0, |met| now.0.saturating_sub(met.0))
    }

    pub fn leader_heard(&self) -> Option<Micros> {
        self.leader.and_then(|leader| self.heard.get(&leader).copied())
    }

    pub fn is_heard(&self, peer: u64, now: Micros, election_us: u64) -> bool {
        self.heard.get(&peer).is_some_and(|heard| now.0 < heard.0 + election_us)
    }

    /// Keeps nothing about other nodes.
    pub fn keep_heard(&mut self, members: &Members) {
        self.heard.retain(|id, _| members.contains(*id));
    }
}
