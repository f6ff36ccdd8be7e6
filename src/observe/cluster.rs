//! A node's view of its cluster: the data of ROLE, HELLO, INFO, DELAY.CLUSTER, `/metrics` and the probes, each in its
//! own words. Plain data, from the raft thread's status and the turn's own figures.

use super::health;
use super::info::{Text, replication_end};
use crate::cluster::driver::Status;
use crate::cluster::members::Members;
use crate::cluster::members::directory::Node;
use crate::cluster::members::names::{Address, Listed};
use crate::cluster::peer::verify::{NodeVerdict, Verification, VerifyTally};
use crate::cluster::raft::output::RaftRole;
use crate::cluster::timing::clocks::ClockStatus;
use crate::cluster::timing::freshness::as_of;
use crate::cluster::timing::health::Health;
use crate::limits::{MAKES_WAY_US, REPLICA_PRIORITY_DEFAULT};
use crate::time::Micros;
use crate::words::words;
use std::ops::Deref;

/// See the module. Spans are as of when it was made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClusterView {
    /// The cluster's id; none before it was founded, or joined.
    pub cluster: Option<u128>,
    /// This node's id and name.
    pub node: u64,
    pub name: String,
    /// It decides: it was elected, and all that earlier leaders have left is applied.
    pub leads: bool,
    pub role: RaftRole,
    /// Its engine is being read from base and log.
    pub loading: bool,
    /// Until all listed nodes have been online once: which are missing, or what has to be repaired.
    pub forming: Option<String>,
    /// Why a listed node cannot be taken in.
    pub conflict: Option<String>,
    /// The cluster that this node is not a member of, as far as it has met one.
    pub elsewhere: Option<Elsewhere>,
    /// The newest epoch, a term of Raft.
    pub epoch: u64,
    /// The leader, which may be this node.
    pub leader: Option<u64>,
    /// The leader, or the last one that was known here.
    pub led: Option<u64>,
    /// The last index of this node's log.
    pub last: u64,
    /// The last index known committed.
    pub committed: u64,
    /// The last index that the engine has.
    pub applied: u64,
    /// The first index that the log has.
    pub first: u64,
    /// The newest base's index; 0 for none.
    pub base: u64,
    /// All members, this node among them, in the order of their names.
    pub nodes: Vec<NodeView>,
    /// The nodes to add: names and addresses.
    pub invited: Vec<Listed>,
    /// E, µs.
    pub election_us: u64,
    /// How long ago another node that leads was heard of, µs.
    pub leader_heard_us: Option<u64>,
    /// How long ago what a follower shows was all there was, at most, µs; nothing before it knows.
    pub read_age_us: Option<u64>,
    /// For a leader: how long it may still answer reads by itself, µs.
    pub lease_us: Option<u64>,
    /// For a leader: the age of the newest question that a majority has answered, µs.
    pub quorum_us: Option<u64>,
    /// The distance of this node's wall clock from the majority's; none before more than half of the voters have
    /// reported.
    pub clock: Option<ClockStatus>,
    /// Beyond this it is wrong, µs.
    pub max_skew_us: u64,
    /// For a leader: what it knows of the others' data, if it has asked.
    pub verified: Option<Verification>,
    /// Leadership is being handed over.
    pub transferring: bool,
    /// The format in which the leader writes, as far as facts are applied; before the first of them the one that all
    /// known members read.
    pub level: u32,
    /// Leaders seen since the start of the process.
    pub elections: u64,
    /// How often the engine had to be read again, since it had decided what was never committed.
    pub reloads: u64,
    /// For how long no leader has been known here, µs; nothing while one is.
    pub leaderless_us: Option<u64>,
    /// For a leader: for how long what it has decided is not committed, µs; nothing unless that is too long.
    pub stuck_us: Option<u64>,
    pub health: Health,
    /// It leads, and another node is to take over.
    pub makes_way: bool,
}

/// A cluster that a node is not a member of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Elsewhere {
    /// Its id.
    pub cluster: u128,
    /// Members that were met, at least one, in the order of their names. One of all members leads.
    pub nodes: Vec<NodeView>,
}

/// A member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeView {
    pub id: u64,
    pub entry: Node,
    pub is_voter: bool,
    /// It has left: its name is still known.
    pub has_left: bool,
    /// On the leader: the last index that it is known to have.
    pub matched: Option<u64>,
    /// The last index of its log by its own report, which may be 3 E old.
    pub told: Option<u64>,
    /// It lacks what only a base has.
    pub needs_base: bool,
    /// It was heard within E. A follower hears the leader, and knows of another node that it has reported in the last 3 E;
    /// none: unknown here.
    pub is_heard: Option<bool>,
    /// It is connected to this node, or is this node.
    pub is_connected: bool,
    /// How well it is, as far as this node knows.
    pub health: Option<Health>,
    /// How much it is wanted as a leader, as far as this node knows.
    pub priority: u64,
    /// How far its wall clock is from the majority's, µs, as far as this node knows.
    pub clock_ahead: Option<i64>,
}

words! {
    /// The role of a member for the others.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum NodePart {
        /// It decides.
        Leader = "leader",
        /// It has a vote.
        Follower = "follower",
        /// It has none.
        Learner = "learner",
        /// It is to be added, and has not connected yet.
        Invited = "invited",
        Removed = "removed",
    }
}

words! {
    /// The state of a member.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum NodeState {
        Online = "online",
        /// It waits, as all do, until the cluster is complete for the first time.
        Forming = "forming",
        /// It reads its jobs.
        Loading = "loading",
        /// It needs more than the leader's log has.
        Base = "base",
        /// It is invited, and was not there yet.
        Missing = "missing",
        /// Nothing was heard of it within E.
        Unreachable = "unreachable",
        /// This node cannot know.
        Unknown = "unknown",
    }
}

words! {
    /// A follower's link to its leader, in Redis's words.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum LeaderLink {
        /// The leader was heard of lately.
        Connected = "connected",
        /// The jobs are being read.
        Sync = "sync",
        /// It was not.
        Connect = "connect",
    }
}

impl Deref for NodeView {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.entry
    }
}

impl NodeView {
    fn of((id, node): (&u64, &Node), status: &Status) -> NodeView {
        let Members { voters, outgoing, .. } = &status.members;
        let peer = status.peers.iter().find(|peer| peer.id == *id);
        let is_elected = status.role == RaftRole::Leader;
        let is_known = is_elected || status.leader == Some(*id);
        NodeView {
            id: *id,
            entry: node.clone(),
            is_voter: [voters, outgoing].iter().any(|list| list.contains(id)),
            has_left: !voters.is_empty() && !status.members.contains(*id)
                || *id == status.node && status.has_left,
            // A leader that was just elected has not heard of all yet.
            matched: peer.filter(|_| is_elected).map(|peer| peer.matched).filter(|at| *at > 0),
            told: peer.and_then(|peer| peer.last),
            needs_base: peer.is_some_and(|peer| peer.needs_base),
            is_heard: match is_known {
                true => peer.map(|peer| peer.is_heard),
                false => peer.and_then(|peer| peer.is_reporting),
            },
            is_connected: *id == status.node || peer.is_some_and(|peer| peer.is_connected),
            health: match *id == status.node {
                true => Some(status.health),
                false => peer.and_then(|peer| peer.health),
            },
            priority: status.priorities.get(id).copied().unwrap_or(REPLICA_PRIORITY_DEFAULT),
            clock_ahead: match *id == status.node {
                true => status.clock.map(|clock| clock.ahead),
                false => peer.and_then(|peer| peer.clock_ahead),
            },
        }
    }
}

impl NodeView {
    /// A node that was met, with a vote, and of which nothing else is known.
    pub fn met(id: u64, entry: Node) -> NodeView {
        NodeView {
            id,
            entry,
            is_voter: true,
            has_left: false,
            matched: None,
            told: None,
            needs_base: false,
            is_heard: None,
            is_connected: true,
            health: None,
            priority: REPLICA_PRIORITY_DEFAULT,
            clock_ahead: None,
        }
    }

    /// Where a client that speaks TLS, or does not, reaches it, and whether TLS is spoken there: a node without such a port is
    /// named with its other one.
    pub fn address_for(&self, tls: bool) -> (&Address, bool) {
        match &self.tls {
            Some(address) if tls => (address, true),
            _ => (&self.client, false),
        }
    }

    /// One word, if that is known: `well`, or what is wrong.
    pub fn health_word(&self) -> Option<&'static str> {
        self.health.as_ref().map(health::word)
    }
}

impl ClusterView {
    /// From a node's status at `now`; the turn adds what it alone knows: `leads`, `loading`, `reloads`, `election_us` and
    /// `max_skew_us`. `node` is the node's own entry for as long as it is no member, `applied` the last index that the
    /// engine has. The lease is until when it lasts, and of when the newest question is that a majority has answered; 0 for
    /// none. Cost: some allocations for each member.
    pub fn of(
        status: &Status,
        node: &Node,
        applied: u64,
        lease: (u64, u64),
        now: Micros,
    ) -> ClusterView {
        let until_us = |at: u64| (at > 0).then(|| at.saturating_sub(now.0));
        let since_us = |at: u64| (at > 0).then(|| now.0.saturating_sub(at));
        let is_elected = status.role == RaftRole::Leader;
        let mut nodes: Vec<NodeView> = match &status.directory {
            Some(directory) => directory.nodes.iter().map(|at| NodeView::of(at, status)).collect(),
            None => vec![NodeView::of((&status.node, node), status)],
        };
        nodes.sort_by(|one, other| (&one.name, one.id).cmp(&(&other.name, other.id)));
        ClusterView {
            cluster: status.cluster,
            node: status.node,
            name: status.name.to_string(),
            role: status.role,
            forming: status.forming.clone(),
            conflict: status.conflict.clone(),
            elsewhere: status.elsewhere.as_ref().map(|(cluster, members)| Elsewhere {
                cluster: *cluster,
                nodes: members
                    .iter()
                    .map(|(id, entry)| NodeView::met(*id, entry.clone()))
                    .collect(),
            }),
            epoch: status.term,
            leader: status.leader,
            led: status.leader,
            last: status.last,
            committed: status.commit,
            applied,
            first: status.first,
            base: status.base,
            nodes,
            invited: status
                .directory
                .as_ref()
                .map(|known| known.invited.clone())
                .unwrap_or_default(),
            leader_heard_us: status.leader_heard.and_then(|at| since_us(at.0)),
            read_age_us: as_of(&status.fresh, applied)
                .and_then(|at| since_us(at.0))
                .filter(|_| !is_elected),
            lease_us: until_us(lease.0).filter(|_| is_elected),
            quorum_us: since_us(lease.1).filter(|_| is_elected),
            clock: status.clock,
            transferring: status.transferring,
            level: status.level,
            elections: status.elections,
            health: status.health,
            makes_way: status.makes_way,
            ..ClusterView::default()
        }
    }

    /// For a node that has just started: its journal is being loaded, and it knows no other node.
    pub fn begun(node: &Node, election_us: u64) -> ClusterView {
        ClusterView {
            name: node.name.to_string(),
            loading: true,
            election_us,
            level: 1,
            ..ClusterView::default()
        }
    }

    /// Whether a leader that has just been asked could still think that it leads: a majority has answered within 4 E, or
    /// has not been asked yet.
    pub fn has_quorum(&self) -> bool {
        self.quorum_us.is_none_or(|us| us <= 4 * self.election_us)
    }

    /// Whether what a follower has is not older than 4 E.
    pub fn is_current(&self) -> bool {
        self.read_age_us.is_some_and(|us| us <= 4 * self.election_us)
    }

    /// Whether that is so of what was all there was at `at`, and it is `now_us` by the same clock.
    pub fn is_young(&self, now_us: u64, at: Micros) -> bool {
        now_us.saturating_sub(at.0) <= 4 * self.election_us
    }

    /// Whether a leader is known, and, if it is another node, was heard of within 2 E.
    pub fn is_led(&self) -> bool {
        let is_heard = || self.leader_heard_us.is_some_and(|us| us <= 2 * self.election_us);
        self.leads || (self.leader.is_some_and(|leader| leader != self.node) && is_heard())
    }

    /// The leader, if a client that goes there now finds it: this node, if it decides and a majority has answered within
    /// 2 E, or another that was heard of within 2 E. None before the cluster is complete, as nothing is decided then.
    pub fn leader_within_reach(&self) -> Option<&NodeView> {
        let leader = self.nodes.iter().find(|node| Some(node.id) == self.leader)?;
        let has_answers = || self.quorum_us.is_none_or(|us| us <= 2 * self.election_us);
        let is_there = match leader.id == self.node {
            true => self.leads && has_answers(),
            false => self.is_led(),
        };
        Some(leader).filter(|_| is_there && self.forming.is_none())
    }

    /// The node that clients are sent to: the leader within reach, or for 4 E the last one that was heard. It may only be
    /// slow; and a client that does not find it asks another node.
    pub fn leader_for_clients(&self) -> Option<&NodeView> {
        let is_recent = || self.leader_heard_us.is_some_and(|us| us <= 4 * self.election_us);
        let last = || self.nodes.iter().find(|node| Some(node.id) == self.led && !node.has_left);
        self.leader_within_reach().or_else(|| {
            last().filter(|node| node.id != self.node && is_recent() && self.forming.is_none())
        })
    }

    /// By how much this node's wall clock is beyond what it is believed, µs.
    pub fn clock_capped_us(&self) -> u64 {
        let ahead_us = self.clock.map_or(0, |clock| clock.ahead.max(0).unsigned_abs());
        ahead_us.saturating_sub(self.max_skew_us)
    }

    /// Whether a member holds what the leader holds, if that was asked.
    pub fn found(&self, node: &NodeView) -> Option<NodeVerdict> {
        self.verified.as_ref()?.found(node.id, self.node)
    }

    /// The result for all nodes whose data was compared; nothing without a comparison.
    pub fn verified(&self) -> Option<(u64, VerifyTally)> {
        self.verified.as_ref().map(|asked| (asked.index, asked.tally(self.node)))
    }

    fn verified_word(&self) -> &'static str {
        match self.verified() {
            None => "no",
            Some((_, VerifyTally { running: 1.., .. })) => "running",
            Some((_, VerifyTally { differ: 1.., .. })) => "differ",
            Some((_, VerifyTally { missed: 1.., .. })) => "incomplete",
            Some(_) => "same",
        }
    }

    /// Whether nothing is heard of another member now: for the leader within E; for others no connection.
    fn is_away(&self, node: &NodeView) -> bool {
        let is_other = node.id != self.node && !node.has_left;
        is_other && (node.is_heard == Some(false) || !node.is_connected)
    }

    fn is_clock_wrong(&self, node: &NodeView) -> bool {
        node.clock_ahead.is_some_and(|us| us.unsigned_abs() > self.max_skew_us)
    }

    /// The names of members, as INFO has them.
    fn names(&self, is_meant: impl Fn(&NodeView) -> bool) -> String {
        let members = self.nodes.iter().filter(|node| is_meant(node));
        members.map(|node| node.name.as_str()).collect::<Vec<_>>().join(",")
    }

    /// Whether this node leads, is sick, and another one is about to take over: as long as that may take.
    pub fn is_to_make_way(&self) -> bool {
        let is_new = self.health.sick.is_some_and(|sick| sick.for_us < MAKES_WAY_US);
        self.leads && self.makes_way && is_new
    }

    /// How many nodes with a vote are connected to this one, itself among them if it has one.
    pub fn voters_connected(&self) -> usize {
        self.nodes.iter().filter(|node| node.is_voter && node.is_connected).count()
    }

    /// Whether it leads, and may answer reads by itself.
    pub fn has_lease(&self) -> bool {
        self.leads && self.lease_us.is_some_and(|us| us > 0)
    }

    /// For a follower: its link to its leader.
    pub fn link(&self) -> LeaderLink {
        match self.is_led() {
            _ if self.loading => LeaderLink::Sync,
            true => LeaderLink::Connected,
            false => LeaderLink::Connect,
        }
    }

    /// The leader's address for clients, in Redis's form: `?` and 0 if none is known.
    pub fn master(&self) -> (&str, u16) {
        let leader = self.nodes.iter().find(|node| Some(node.id) == self.leader);
        leader.map_or(("?", 0), |leader| (leader.client.host(), leader.client.port()))
    }

    /// The other members that are there: Redis's replicas.
    pub fn replicas(&self) -> impl Iterator<Item = &NodeView> {
        self.others().filter(|node| node.is_heard == Some(true))
    }

    /// All members but this one.
    pub fn others(&self) -> impl Iterator<Item = &NodeView> {
        self.nodes.iter().filter(|node| node.id != self.node)
    }

    /// Whether this node was removed, and knows it.
    pub fn has_left(&self) -> bool {
        self.nodes.iter().any(|node| node.id == self.node && node.has_left)
    }

    /// The role of a member for the others.
    pub fn part_of(&self, node: &NodeView) -> NodePart {
        match node.is_voter {
            _ if Some(node.id) == self.leader => NodePart::Leader,
            _ if node.has_left => NodePart::Removed,
            true => NodePart::Follower,
            false => NodePart::Learner,
        }
    }

    /// The state of a member.
    pub fn state_of(&self, node: &NodeView) -> NodeState {
        match node.is_heard {
            _ if node.id == self.node && self.loading => NodeState::Loading,
            _ if node.id == self.node && self.forming.is_some() => NodeState::Forming,
            _ if node.id == self.node => NodeState::Online,
            Some(false) => NodeState::Unreachable,
            Some(true) if node.needs_base => NodeState::Base,
            Some(true) => NodeState::Online,
            None => NodeState::Unknown,
        }
    }

    /// The last index that a member has, if this node knows.
    pub fn index_of(&self, node: &NodeView) -> Option<u64> {
        if node.id == self.node { Some(self.last) } else { node.matched.or(node.told) }
    }

    /// How many entries of the leader's log a member lacks, if this node knows: as both have reported, where it does not lead.
    pub fn behind(&self, node: &NodeView) -> Option<u64> {
        let leader = self.nodes.iter().find(|node| self.leader == Some(node.id))?;
        Some(self.index_of(leader)?.saturating_sub(self.index_of(node)?))
    }

    fn name_of(&self, id: u64) -> Option<&str> {
        self.nodes.iter().find(|node| node.id == id).map(|node| node.name.as_str())
    }

    /// INFO's section Replication. `offset` of all nodes is the index of the last entry.
    pub(super) fn write_replication(&self, text: &mut Text) {
        if self.leads {
            self.write_master(text);
        } else {
            self.write_replica(text);
        }
        let replid = format!("{:040x}", self.cluster.unwrap_or(0));
        let failover = if self.transferring { "failover-in-progress" } else { "no-failover" };
        replication_end(text, failover, &replid, self.last);
    }

    fn write_master(&self, text: &mut Text) {
        text.line("role", "master");
        text.line("connected_slaves", self.replicas().count());
        for (n, node) in self.replicas().enumerate() {
            let state = if node.needs_base { "wait_bgsave" } else { "online" };
            let (host, port) = (node.client.host(), node.client.port());
            let offset = node.matched.unwrap_or(0);
            // Listed nodes were heard within E, which is less than a second by default.
            let value = format!("ip={host},port={port},state={state},offset={offset},lag=0");
            text.line(&format!("slave{n}"), value);
        }
    }

    fn write_replica(&self, text: &mut Text) {
        let (host, port) = self.master();
        let heard_s = self.leader_heard_us.map(|us| us / 1_000_000);
        let age_s = self.read_age_us.map(|us| us / 1_000_000);
        let is_up = self.link() == LeaderLink::Connected;
        text.lines(&[
            ("role", &"slave"),
            ("master_host", &host),
            ("master_port", &port),
            ("master_link_status", &if is_up { "up" } else { "down" }),
            // Tools take it for how old what they read may be.
            ("master_last_io_seconds_ago", &age_s.map_or(-1, |s| s as i64)),
            ("master_sync_in_progress", &u8::from(self.loading)),
            ("slave_read_repl_offset", &self.last),
            ("slave_repl_offset", &self.last),
        ]);
        if !is_up {
            text.line("master_link_down_since_seconds", heard_s.unwrap_or(0));
        }
        text.lines(&[
            ("slave_priority", &self.own_priority()),
            ("slave_read_only", &1),
            ("replica_announced", &1),
            ("connected_slaves", &0),
        ]);
    }

    fn own_priority(&self) -> u64 {
        let own = self.nodes.iter().find(|node| node.id == self.node);
        own.map_or(REPLICA_PRIORITY_DEFAULT, |node| node.priority)
    }

    /// INFO's section Raft.
    pub(super) fn write_raft(&self, text: &mut Text) {
        let named = |voters: bool| self.names(|node| node.is_voter == voters);
        let ms = |us: Option<u64>| us.map_or(-1, |us| (us / 1_000) as i64);
        let cluster = self.cluster.map_or(String::new(), |cluster| format!("{cluster:032x}"));
        text.lines(&[
            ("raft_cluster", &cluster),
            ("raft_node", &format_args!("{:016x}", self.node)),
            ("raft_name", &self.name),
            ("raft_role", &self.role.word()),
            ("raft_leads", &u8::from(self.leads)),
            ("raft_epoch", &self.epoch),
            ("raft_leader", &self.leader.and_then(|id| self.name_of(id)).unwrap_or_default()),
            ("raft_voters", &named(true)),
            ("raft_learners", &named(false)),
            ("raft_first_index", &self.first),
            ("raft_last_index", &self.last),
            ("raft_committed_index", &self.committed),
            ("raft_applied_index", &self.applied),
            ("raft_base_index", &self.base),
            ("raft_leader_heard_ms", &ms(self.leader_heard_us)),
            ("raft_read_age_ms", &ms(self.read_age_us)),
            ("raft_lease_ms", &ms(self.lease_us)),
            ("raft_quorum_ms", &ms(self.quorum_us)),
            ("clock_offset_us", &self.clock.map_or(0, |clock| clock.ahead)),
            ("clock_capped_us", &self.clock_capped_us()),
            ("clock_known", &self.clock.map_or(0, |clock| clock.known)),
            ("raft_level", &self.level),
            ("raft_health", &health::word(&self.health)),
            ("raft_sick_ms", &ms(self.health.sick.map(|sick| sick.for_us))),
            ("raft_disk_waits_ms", &(self.health.waits_us / 1_000)),
            ("raft_sync_us", &self.health.sync_us),
            ("raft_stood_still_ms", &(self.health.stood_still_us / 1_000)),
            ("raft_leaderless_ms", &ms(self.leaderless_us)),
            ("raft_stuck_ms", &ms(self.stuck_us)),
            ("raft_voters_connected", &self.voters_connected()),
            ("raft_away", &self.names(|node| self.is_away(node))),
            ("raft_clocks_wrong", &self.names(|node| self.is_clock_wrong(node))),
            ("raft_elections", &self.elections),
            ("raft_reloads", &self.reloads),
            ("raft_verified_index", &self.verified().map_or(-1, |(index, _)| index as i64)),
            ("raft_verified", &self.verified_word()),
            ("raft_forming", &self.forming.as_deref().unwrap_or_default()),
            ("raft_conflict", &self.conflict.as_deref().unwrap_or_default()),
        ]);
        for (n, node) in self.others().enumerate() {
            let (state, health) = (self.state_of(node).word(), node.health_word());
            let mut value = format!(
                "name={},address={},state={state},health={}",
                node.name,
                node.peer,
                health.unwrap_or("unknown")
            );
            let known = [("index", self.index_of(node)), ("behind", self.behind(node))];
            for (name, count) in known {
                count.into_iter().for_each(|count| value.push_str(&format!(",{name}={count}")));
            }
            text.line(&format!("raft_peer{n}"), value);
        }
    }
}
