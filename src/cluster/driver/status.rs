//! The status of a node, for display.

use super::{Driver, MemberChange};
use crate::cluster::members::Members;
use crate::cluster::members::directory::{Directory, Node};
use crate::cluster::members::names::{Address, Name};
use crate::cluster::raft::output::RaftRole;
use crate::cluster::timing::clocks::ClockStatus;
use crate::cluster::timing::health::Health;
use crate::limits::LEVEL_CLOCKS;
use crate::time::Micros;
use std::collections::BTreeMap;

/// A node at a moment, for INFO, DELAY.CLUSTER and metrics.
#[derive(Clone, Debug)]
pub struct Status {
    pub node: u64,
    pub name: Name,
    /// The id of its cluster, if it is a member of one.
    pub cluster: Option<u128>,
    /// While the cluster has not formed yet: what it waits for, or what to repair.
    pub forming: Option<String>,
    /// The cluster that this node is not a member of: its id, and the members that this node has met, by name.
    pub elsewhere: Option<(u128, Vec<(u64, Node)>)>,
    /// What to repair before a listed node can be added, also in a cluster that has formed.
    pub conflict: Option<String>,
    /// The newest term it knows.
    pub term: u64,
    /// The leader, which may be this node.
    pub leader: Option<u64>,
    pub role: RaftRole,
    /// The last index known committed.
    pub commit: u64,
    /// The last index reported to the turn.
    pub applied: u64,
    /// The last index of the log.
    pub last: u64,
    /// The first one that the log has.
    pub first: u64,
    /// That of the newest base; 0 none.
    pub base: u64,
    pub members: Members,
    /// Changes of them that were asked for and are not committed, in order.
    pub asked: Vec<MemberChange>,
    /// How many changes it was asked for since the start, those that could not be included.
    pub changes_heard: u64,
    pub directory: Option<Directory>,
    /// This node was removed while it was away: another one has said so.
    pub has_left: bool,
    /// The other members.
    pub peers: Vec<PeerStatus>,
    /// When a leader other than this node was heard last.
    pub leader_heard: Option<Micros>,
    /// Up to which index all was committed, and when: of as many as may not be applied yet.
    pub fresh: Vec<(u64, Micros)>,
    /// Leaders seen since the start of this process.
    pub elections: u64,
    pub transferring: bool,
    /// `replica-priority` of each member that has said it, this node's too.
    pub priorities: BTreeMap<u64, u64>,
    /// Until when it has the lease.
    pub lease_until: Option<Micros>,
    /// The highest format of facts, members and frames that all members read which have said it, this node too.
    pub level: u32,
    /// Whether all have said it: else one is not there.
    pub knows_levels: bool,
    /// How well this node is, as of now.
    pub health: Health,
    /// Whether it leads, is not to, and another one can.
    pub makes_way: bool,
    /// The time according to most voters; nothing unless more than half of their clocks are known.
    pub clock: Option<ClockStatus>,
}

/// Another member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    pub id: u64,
    pub name: Name,
    /// Where clients reach it.
    pub address: Address,
    /// Up to here its log is the leader's, durably; 0 where this node does not lead, and knows nothing of it.
    pub matched: u64,
    /// Whether it lacks what only a base has.
    pub needs_base: bool,
    /// Whether anything was heard of it within E. Followers hear the leader alone.
    pub is_heard: bool,
    /// Whether it is connected, as far as is known.
    pub is_connected: bool,
    pub is_voter: bool,
    /// The highest format that it reads, as it has said since it was there.
    pub level: Option<u32>,
    /// Its health in its last report; nothing for an older node, which does not report, or if it was not heard for 3 E.
    pub health: Option<Health>,
    /// The last index of its log in its last report, likewise.
    pub last: Option<u64>,
    /// Whether a node that has reported that before has done so in the last 3 E.
    pub is_reporting: Option<bool>,
    /// How far its wall clock is from the majority's, µs, positive if ahead; nothing if either is unknown.
    pub clock_ahead: Option<i64>,
}

impl Status {
    /// The level of what this node writes if it begins to lead now, where that of the leader before was `before`. A member
    /// that is not there counts as one that reads that: it may stand in its log. So nothing is lost with a node that is away;
    /// the level falls when one that is there reads less.
    pub fn level_after(&self, before: u32) -> u32 {
        if self.knows_levels { self.level } else { self.level.min(before.max(1)) }
    }
}

impl Driver {
    /// The current status. Costs some allocations for each member.
    pub fn status(&self) -> Status {
        let node = &self.node;
        let is_leader = self.roles.led.is_some();
        let (level, knows_levels) = self.level();
        Status {
            node: self.identity.node,
            name: self.identity.own.name.clone(),
            cluster: self.cluster.map(|cluster| cluster.0),
            forming: self.forming(),
            elsewhere: self.elsewhere(),
            conflict: self.joining.conflict.as_ref().map(ToString::to_string),
            term: node.term(),
            leader: if is_leader { Some(self.identity.node) } else { self.roles.leader },
            role: node.role(),
            commit: node.commit(),
            applied: node.applied(),
            last: node.last(),
            first: node.first(),
            base: node.base().index,
            members: node.members().clone(),
            asked: self.joining.asked.iter().cloned().collect(),
            changes_heard: self.joining.changes_heard,
            directory: self.directory.clone(),
            has_left: self.joining.has_left,
            peers: self.peers(is_leader),
            leader_heard: self.roles.leader_heard(),
            fresh: self.fresh(),
            elections: self.roles.elections,
            transferring: node.is_transferring(),
            priorities: self.priorities(),
            lease_until: self.lease.until(),
            level,
            knows_levels,
            health: self.meter.health(self.now),
            makes_way: self.makes_way(),
            clock: self.clocks.status(self.identity.node, &node.members().voters, self.now),
        }
    }

    /// An older leader does not say how far all is committed: what it was heard to say last has to do.
    fn fresh(&self) -> Vec<(u64, Micros)> {
        let is_old = |leader: u64| self.level_of(leader).is_some_and(|level| level < LEVEL_CLOCKS);
        match self.roles.leader.filter(|leader| is_old(*leader)) {
            Some(_) => self.roles.leader_heard().map(|heard| (0, heard)).into_iter().collect(),
            None => self.freshness.told(),
        }
    }

    fn priorities(&self) -> BTreeMap<u64, u64> {
        let all = self.node.members().all();
        all.into_iter().filter_map(|id| Some((id, self.priority_of(id)?))).collect()
    }

    fn peers(&self, is_leader: bool) -> Vec<PeerStatus> {
        let members = self.node.members();
        let followed = if is_leader { self.node.peers() } else { Vec::new() };
        let others = self.directory.iter().flat_map(|directory| &directory.nodes);
        let others = others.filter(|(id, _)| **id != self.identity.node);
        let peer = |(id, node): (&u64, &Node)| {
            let known = followed.iter().find(|peer| peer.id == *id);
            PeerStatus {
                id: *id,
                name: node.name.clone(),
                address: node.client.clone(),
                matched: known.map_or(0, |peer| peer.matched),
                needs_base: known.is_some_and(|peer| peer.needs_base),
                is_heard: self.roles.is_heard(*id, self.now, self.identity.election_us),
                is_connected: self.roles.is_met(*id),
                is_voter: [&members.voters, &members.outgoing].iter().any(|l| l.contains(id)),
                level: self.level_of(*id),
                health: self.health_of(*id),
                last: self.last_of(*id),
                is_reporting: self.is_reporting(*id),
                clock_ahead: self
                    .clocks
                    .ahead_of(*id, self.identity.node, &members.voters, self.now),
            }
        };
        others.map(peer).collect()
    }
}
