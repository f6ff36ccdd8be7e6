//! A node as its host drives it: Raft, the fate of proposals, the leader's lease, and the forming of a cluster.
//!
//! Pure, as all of [`crate::cluster`]. The host has one loop:
//!
//! ```text
//!  what arrived, became durable, was asked for, and the time   ──> one call each
//!  take_output: writes ──> the log, in order; nothing of the rest waits for them
//!               messages ──> peers, each in order on its lane
//!               fetches ──> the log;  told ──> the turn, in order
//! ```
//!
//! Instants come from one clock of this machine, which goes on while the machine sleeps and never goes back.
//!
//! A cluster is founded by a single node, the one with the first name, when it has met every listed node and all are
//! empty ([`formation`](crate::cluster::members::formation)). Its first entry has index 1 and term 1: the founder is
//! the only voter. No other node can have that entry, because the logs of the others are empty; they receive it like
//! everything else. Then the leader adds the nodes it has met, one change at a time, as a learner first, and as a voter
//! once the node has everything the leader has. Until all listed nodes have been voters together the cluster is
//! *forming*, and no node may acknowledge anything; from then on a missing node does not matter. Term 1 has no other
//! entry: a node that has entry 1 knows that it is committed.

mod campaign;
mod changes;
mod flow;
mod joining;
mod roles;
mod sickness;
mod status;
mod ticks;

pub use changes::{MemberChange, WrongChange};
pub use status::{PeerStatus, Status};

use crate::cluster::members::claims::{Claims, ClusterId, Holds, NodeId, list_text};
use crate::cluster::members::directory::{self, Directory};
use crate::cluster::members::formation::Conflict;
use crate::cluster::members::names::{Address, Listed, Name};
use crate::cluster::raft::codec::{Head, Outgoing};
use crate::cluster::raft::entry::{Base, LogEntry, Payload, Write};
use crate::cluster::raft::member::Proposals;
use crate::cluster::raft::node::Node;
use crate::cluster::raft::output::{Fetch, RefusedMessage};
use crate::cluster::raft::start::{Start, WrongStart};
use crate::cluster::timing::clocks::{ClockNote, Clocks};
use crate::cluster::timing::freshness::Freshness;
use crate::cluster::timing::health::Meter;
use crate::cluster::timing::lease::Lease;
use crate::limits::{ELECTION_TICKS, HEARTBEAT_TICKS, SLEEP_TICKS_MAX};
use crate::time::Micros;
use bytes::Bytes;
use campaign::Campaign;
use joining::Joining;
use roles::Roles;
use sickness::Sickness;
use std::collections::{BTreeMap, VecDeque};
pub use ticks::Ticked;
use ticks::Ticks;

/// This node's identity, and its random ids.
#[derive(Clone, Debug)]
pub struct NodeIdentity {
    /// Its id, drawn when its folder was first used; never 0.
    pub node: u64,
    /// Its name and addresses.
    pub own: directory::Node,
    /// `cluster-nodes`, this node among them.
    pub nodes: Vec<Listed>,
    /// The version of delayd, for people.
    pub version: String,
    /// The highest format of facts, images and frames that it reads.
    pub level: u32,
    /// E, µs.
    pub election_us: u64,
    /// The id of the cluster if this node should found it; drawn at each start, never 0.
    pub cluster: u128,
    /// The key of the hash of job ids if this node should found the cluster; drawn at each start.
    pub hash_seed: u64,
    /// It was removed from its cluster, which goes on elsewhere: it waits to be added, and founds none. With the members
    /// as of then.
    pub removed: Option<Vec<Listed>>,
}

/// Facts that the turn has decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposed {
    /// In which they were decided.
    pub epoch: u64,
    /// The sequence of the first.
    pub first: u64,
    /// How many there are, at least 1.
    pub count: u32,
    /// The time of the first turn.
    pub now: Micros,
    /// The facts, encoded; never empty, and at most [`BATCH_BYTES_MAX`](crate::limits::BATCH_BYTES_MAX).
    pub body: Bytes,
}

/// Reports to the turn, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverEvent {
    /// Raft has this node as its leader in the epoch. It decides once the first entry of the epoch is delivered.
    Elected {
        /// The term.
        epoch: u64,
    },
    /// It does not lead; another node does, or none is known to.
    Followed { leader: Option<u64> },
    /// The next entry: committed, and durable here.
    Delivered(LogEntry),
    /// The decisions of this node in the epoch are committed, all facts before this one. Its own disk is behind those
    /// of a majority: the entry is delivered later.
    Safe {
        /// In which this node leads.
        epoch: u64,
        /// The sequence of the first fact that is not.
        end: u64,
    },
    /// A base from another node is durable: it takes the place of all that was delivered.
    Restored(Base),
    /// A base is needed that is newer than the last change of members: a node waits to receive it.
    BaseWanted,
    /// This batch never reaches a log, nor does what was decided after it in its epoch.
    Refused {
        /// The epoch of the batch.
        epoch: u64,
        first: u64,
        count: u32,
    },
}

/// A node to keep a connection to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dial {
    /// Its id, where a member of that name is known, or was met.
    pub node: Option<u64>,
    pub name: Name,
    /// Where it may be, the likeliest first; at least one.
    pub addresses: Vec<Address>,
}

#[derive(Debug, Default)]
pub struct DriverOutput {
    /// To the log, in order; call [`Driver::persisted`] when they are durable.
    pub writes: Vec<Write>,
    /// To peers, in order for each of them and lane.
    pub messages: Vec<Outgoing>,
    /// To be read from the log, for [`Driver::fetched`].
    pub fetches: Vec<Fetch>,
    /// Send the base up to this index, and then call [`Driver::base_ended`] with the message.
    pub bases: Vec<(u64, Outgoing)>,
    /// To the turn, in order.
    pub told: Vec<DriverEvent>,
    /// Changes of members that were requested and then cancelled; the requesters had been promised them.
    pub given_up: Vec<(MemberChange, WrongChange)>,
}

pub struct Driver {
    identity: NodeIdentity,
    node: Node,
    /// The state of a founder until it is durable.
    founding: Option<Start>,
    start: Start,
    /// Names and addresses as of what was delivered last.
    directory: Option<Directory>,
    cluster: Option<ClusterId>,
    /// By which its messages are known; before there is a log, that of the first one.
    tag: Option<u32>,
    joining: Joining,
    campaign: Campaign,

    proposals: Proposals,
    /// Proposed and not with Raft yet: for want of room, or while leadership is handed over.
    waiting: VecDeque<Proposed>,

    roles: Roles,
    clocks: Clocks,
    /// Some node may lack this node's clock.
    clock_lacked: bool,
    freshness: Freshness,
    /// The priorities of the other nodes, as they reported them.
    priorities: BTreeMap<u64, u64>,
    meter: Meter,
    sickness: Sickness,
    lease: Lease,
    /// The newest question to the majority.
    asked: Option<Micros>,
    ticks: Ticks,
    now: Micros,
    out: DriverOutput,
}

impl Driver {
    /// A node as it was left, with the `identity` found in its folder or drawn for it.
    ///
    /// # Errors
    /// The stored data contradicts itself.
    pub fn new(
        mut start: Start,
        identity: NodeIdentity,
        now: Micros,
    ) -> Result<Driver, WrongStart> {
        let logged = start.entries.iter().find_map(|entry| members_of(&entry.payload));
        let known = [Some(&start.members), logged].into_iter().flatten();
        let known = known.map(|members| &members.directory).find(|bytes| !bytes.is_empty());
        let known = known.map(|bytes| Directory::decode(bytes)).transpose()?;
        let cluster = known.map(|known| ClusterId(known.cluster));
        if start.entries.first().is_some_and(|entry| entry.index == 1) {
            // It is committed since it was written first.
            start.commit = start.commit.max(1);
        }
        let directory = &start.members.directory;
        let directory =
            (!directory.is_empty()).then(|| Directory::decode(directory)).transpose()?;
        let kept = Start { entries: Vec::new(), terms: Vec::new(), ..start.clone() };
        let mut driver = Driver {
            node: Node::new(start)?,
            founding: None,
            start: kept,
            directory,
            cluster,
            tag: cluster.map(ClusterId::tag),
            joining: Joining::of(&identity),
            campaign: Campaign::new(now),
            proposals: Proposals::default(),
            waiting: VecDeque::new(),
            roles: Roles::default(),
            clocks: Clocks::default(),
            clock_lacked: false,
            freshness: Freshness::default(),
            priorities: BTreeMap::new(),
            meter: Meter::new(identity.election_us),
            sickness: Sickness::default(),
            lease: Lease::new(identity.election_us),
            asked: None,
            ticks: Ticks::new(now, identity.election_us),
            now,
            out: DriverOutput::default(),
            identity,
        };
        driver.settle();
        driver.join();
        Ok(driver)
    }

    /// It is `now`: to be said before what is called without.
    pub fn advance(&mut self, now: Micros) {
        self.now = self.now.max(now);
    }

    /// To be called by [`wake_by`](Self::wake_by), and before what has arrived is handed in; nothing if no tick is over.
    /// Ticks that a process slept over while it stood still are not made up for. `wall` is as in
    /// [`set_wall`](Self::set_wall).
    pub fn tick(&mut self, now: Micros, wall: Option<u64>) -> Option<Ticked> {
        self.advance(now);
        let ticked = self.ticks.count(now)?;
        if let Some(wall) = wall {
            self.set_wall(now, wall);
        }
        self.meter.came_late(now, ticked.late_us);
        self.judge();
        self.weigh();
        let mut beats = false;
        for _ in 0..ticked.count() {
            beats |= self.node.tick();
        }
        self.settle();
        if beats {
            self.ask();
        }
        self.make_way();
        self.go_on_resigning();
        self.join();
        Some(ticked)
    }

    /// When to call [`tick`](Self::tick) if nothing comes before: the next tick, or, while all is quiet, a later one. The
    /// ticks before it do nothing that a later call does not make up for. To be asked before each sleep.
    pub fn wake_by(&mut self) -> Micros {
        let leave =
            if self.is_quiet() { self.node.ticks_to_sleep().min(SLEEP_TICKS_MAX) } else { 1 };
        self.ticks.give_leave(leave as u64)
    }

    /// When the next tick is over; as [`wake_by`](Self::wake_by), for a host with more to do then.
    pub fn next_tick(&mut self) -> Micros {
        self.ticks.give_leave(1)
    }

    /// Whether time alone changes nothing here but in Raft.
    pub fn is_quiet(&self) -> bool {
        (self.roles.led.is_some() || self.node.hears_leader())
            && self.founding.is_none()
            && self.waiting.is_empty()
            && !self.clock_lacked
            && !self.roles.is_resigning()
            && !self.meter.is_watching()
    }

    /// A whole message has arrived from the node `peer`, with the bodies that [`Head::bodies`] names.
    ///
    /// # Errors
    /// It does not come from a working member of this cluster: close the connection.
    pub fn receive(
        &mut self,
        now: Micros,
        peer: u64,
        head: Head,
        bodies: Vec<Bytes>,
    ) -> Result<(), RefusedMessage> {
        self.advance(now);
        self.check(peer, &head, &bodies)?;
        if self.founding.is_some() {
            return Ok(());
        }
        let tag = head.tag();
        self.node.receive(peer, head, bodies)?;
        self.tag = self.tag.or(Some(tag));
        self.roles.heard(peer, now);
        self.settle();
        self.join();
        Ok(())
    }

    /// A handshake with the node of these claims has succeeded, whichever side called.
    ///
    /// # Errors
    /// Why the connection must be closed anyway.
    pub fn met(&mut self, now: Micros, claims: &Claims) -> Result<(), Conflict> {
        self.advance(now);
        self.check_claims(claims)?;
        self.note_elsewhere(claims);
        self.joining.met.insert(claims.name.clone(), claims.clone());
        let is_member = self.node.members().contains(claims.node.0);
        self.joining.is_unsure |= self.cluster.is_some() && !is_member;
        self.clocks.met(claims.node.0);
        self.clock_lacked = true;
        self.roles.met(claims.node.0, self.now);
        self.join();
        Ok(())
    }

    /// This node's claims in a handshake.
    pub fn claims(&self) -> Claims {
        let directory::Node { name, peer, client, tls, sentinel } = self.identity.own.clone();
        let only_waits = self.identity.removed.is_some() && self.cluster.is_none();
        // It has been sent its own addition, and nothing that is known to be committed. If the leader ended just then, the
        // next one may know nothing of it, and has to add it again. Nobody counts on what it has.
        let is_new = self.node.members().voters.is_empty();
        Claims {
            name,
            node: NodeId(self.identity.node),
            holds: self.cluster.filter(|_| !is_new).map_or(Holds::Nothing, Holds::Member),
            version: self.identity.version.clone(),
            level: self.identity.level,
            // No other list is equal to it, so nobody founds a cluster with this node.
            list: if only_waits { String::new() } else { list_text(&self.identity.nodes) },
            peer,
            client,
            tls,
            sentinel,
        }
    }

    /// A connection with the node is gone, and what was on its way with it.
    pub fn unreachable(&mut self, peer: u64) {
        self.parted(peer);
        self.node.unreachable(peer);
        self.settle();
    }

    /// The node does not call any more: another one may have its name.
    pub fn parted(&mut self, peer: u64) {
        self.joining.met.retain(|_, claims| claims.node.0 != peer);
        self.roles.parted(peer);
    }

    /// This machine's wall clock shows `wall` now, µs since the epoch. If it was set, the others must be told now.
    pub fn set_wall(&mut self, now: Micros, wall: u64) {
        self.clock_lacked |= self.clocks.set_own(now, wall);
    }

    /// This node's note for a peer: its clock, the commit position, its health and how far its log reaches; nothing before the
    /// clock is known.
    pub fn clock_note(&self, now: Micros, peer: u64) -> Option<ClockNote> {
        let note = self.clocks.note_for(peer, now)?;
        let commit = if self.is_sure(now) == Some(true) { self.node.commit() } else { 0 };
        let health = Some(self.meter.health(self.now.max(now)));
        // A leader counts all of its own log, and what is durable of another's.
        let is_leader = self.roles.led.is_some();
        let last = Some(if is_leader { self.node.last() } else { self.node.durable() });
        let priority = self.campaign.priority;
        Some(ClockNote { commit, priority, health, last, ..note })
    }

    /// Whether to send this node's clock to the others, in this tick or between two. At once to nodes that it has just
    /// met and that do not know it yet, because without clocks no node may lead, and leadership may be handed over to a
    /// node that has just started; more often as long as it does not know theirs; and by a leader with each heartbeat,
    /// because followers answer no reads before they know up to where everything is committed.
    pub fn tells_clock(&mut self, now: Micros, ticked: Option<Ticked>) -> bool {
        let is_due = |ticked: Ticked| {
            ticked.passes(ELECTION_TICKS)
                || ticked.passes(HEARTBEAT_TICKS)
                    && (self.is_sure(now).is_some() || !self.knows_clocks())
        };
        let is_due = ticked.is_some_and(is_due);
        std::mem::take(&mut self.clock_lacked) || is_due
    }

    /// Whether it leads with its lease, so that no other node can have committed anything; nothing for a node that does
    /// not lead.
    pub fn is_sure(&self, now: Micros) -> Option<bool> {
        self.roles.led.map(|_| self.lease.until().is_some_and(|until| now < until))
    }

    /// Whether the clocks of all voters are known.
    pub fn knows_clocks(&self) -> bool {
        let voters = &self.node.members().voters;
        let status = self.clocks.status(self.identity.node, voters, self.now);
        status.is_some_and(|status| status.known == voters.len())
    }

    /// A peer has reported its clock. Only members are trusted.
    pub fn clock_heard(&mut self, now: Micros, peer: u64, note: &ClockNote) {
        self.advance(now);
        if self.node.members().contains(peer) {
            self.clocks.hear(peer, now, note);
            // A node that has received none of this node's notes does not know the way here.
            self.clock_lacked |= note.echo == 0;
            self.freshness.hear(note);
            self.priorities.insert(peer, note.priority);
            self.sickness.heard(peer, self.now, note);
        }
    }

    /// A called node has refused this one, with a reason. As long as this node is not a member, that is its status.
    ///
    /// The other one has a directory of index `left_by` without this node. If this node is a member as of an index before
    /// that, it was removed in between: all nodes apply the same, and an id that was removed never comes back.
    pub fn refused(&mut self, now: Micros, why: String, left_by: Option<u64>) {
        self.advance(now);
        self.joining.refused = Some((self.now, why));
        let is_member = self.node.members().contains(self.identity.node);
        self.joining.has_left |= is_member && left_by > Some(self.node.applied());
    }

    /// Where other partitions of this process have nodes: some of them may be members here, and know who leads. Of use as
    /// long as this node is not a member.
    pub fn hint(&mut self, nodes: Vec<Listed>) {
        self.joining.hinted.retain(|known| nodes.iter().all(|listed| listed.name != known.name));
        self.joining.hinted.extend(nodes);
    }

    /// The nodes to connect to, in the order of their names: the members, the nodes they invite, and, while the cluster
    /// forms or this node is not a member, the listed and the hinted nodes. Also nodes that claim to be members but are unknown here:
    /// a node that was away must answer any leader to learn that it is one.
    pub fn peers_to_dial(&self) -> Vec<Dial> {
        let known = self.names_known();
        let mut all: BTreeMap<&Name, Dial> = BTreeMap::new();
        let mut add = |node: Option<u64>, name, address: &Address| {
            let new = || Dial { node: None, name: Name::clone(name), addresses: Vec::new() };
            let dial = all.entry(name).or_insert_with(new);
            dial.node = dial.node.or(node);
            if !dial.addresses.contains(address) {
                dial.addresses.push(address.clone());
            }
        };
        let is_of_it = |claims: &&Claims| {
            known.contains(&claims.name)
                || claims
                    .cluster()
                    .is_some_and(|cluster| self.cluster.is_none_or(|own| own == cluster))
        };
        // The node's newest report is newer than the directory.
        for claims in self.joining.met.values().filter(is_of_it) {
            add(Some(claims.node.0), &claims.name, &claims.peer);
        }
        for (id, node) in self.directory.iter().flat_map(|directory| &directory.nodes) {
            // Of two nodes with one name, when one replaces the other, the connected one answers.
            let is_one = self.members_named(&node.name).len() == 1;
            add(Some(*id).filter(|_| is_one), &node.name, &node.peer);
        }
        let invited = self.directory.iter().flat_map(|directory| &directory.invited);
        for Listed { name, peer } in invited.chain(&self.identity.nodes).chain(&self.joining.hinted)
        {
            if known.contains(name) {
                add(None, name, peer);
            }
        }
        all.remove(&self.identity.own.name);
        all.into_values().collect()
    }

    fn names_known(&self) -> Vec<Name> {
        let is_member = self.node.members().contains(self.identity.node);
        match &self.directory {
            Some(directory) if directory.is_formed && is_member => self.awaited(directory),
            directory => {
                let listed = self.identity.nodes.iter().chain(&self.joining.hinted);
                let listed = listed.map(|listed| listed.name.clone());
                listed.chain(directory.iter().flat_map(|known| self.awaited(known))).collect()
            }
        }
    }

    /// Whether another batch may be proposed: what comes meanwhile is better put together.
    pub fn takes(&self) -> bool {
        let is_held = self.roles.led.is_some() && self.node.is_transferring();
        self.waiting.is_empty() && !is_held && self.node.has_room(0)
    }

    /// Whether its disk has so much to make durable that no entries are accepted for now.
    pub fn is_behind(&self) -> bool {
        self.node.is_behind()
    }

    /// Proposes decided facts. They come back in [`DriverEvent::Delivered`], alone, or as [`DriverEvent::Refused`]; or never, and
    /// then an entry of a later epoch shows it. Each batch continues where the previous one ended.
    pub fn propose(&mut self, batch: Proposed) {
        self.waiting.push_back(batch);
        self.settle();
    }

    /// The writes up to this number are durable.
    pub fn persisted(&mut self, now: Micros, number: u64) {
        self.advance(now);
        self.meter.persisted(number, self.now);
        match self.founding.take() {
            Some(start) => self.begin(start),
            None => self.node.persisted(number),
        }
        self.settle();
        self.join();
    }

    /// The result of a fetch, from its first index on; nothing if the log no longer has it.
    pub fn fetched(&mut self, number: u64, entries: Vec<LogEntry>) {
        self.node.fetched(number, entries);
        self.settle();
    }

    /// Whether this node may ask for votes: not while its engine is not loaded, for example. It still votes.
    pub fn set_may_lead(&mut self, may: bool) {
        self.campaign.may = may;
        self.weigh();
    }

    /// Whether its disk has room for what is added: without it is sick.
    pub fn set_has_room(&mut self, has: bool) {
        self.meter.set_has_room(has);
        self.judge();
        self.weigh();
    }

    /// How much it is wanted as a leader: of those that can the least, of 0 only if no other node leads for
    /// [`LEADERLESS_US`].
    pub fn set_priority(&mut self, priority: u64) {
        self.campaign.priority = priority;
        self.weigh();
    }

    /// Its wall clock is wrong by more than this many µs: then likewise.
    pub fn set_max_skew(&mut self, us: u64) {
        self.campaign.max_skew_us = us;
    }

    /// This node should not lead its current epoch: another voter should, or if none takes over within E, no node.
    pub fn resign(&mut self) {
        self.roles.begin_to_resign();
        self.go_on_resigning();
    }

    pub fn is_handing_over(&self) -> bool {
        self.node.is_transferring()
    }

    /// Begins to hand leadership over to this voter, or to the one that has most entries; returns whether it has begun.
    /// If a hand-over was begun before and another node is found now, that node is asked instead. The lease has then
    /// ended for the rest of the epoch. If no other node leads within E, this node goes on.
    pub fn hand_over(&mut self, now: Micros, to: Option<u64>) -> bool {
        self.advance(now);
        self.begin_to_hand_over(to)
    }

    /// A base on its way to `to` goes on.
    pub fn base_moves(&mut self, to: u64) {
        self.node.base_moves(to);
    }

    /// A base that was sent to `to` has arrived whole, with its message; or it never will.
    pub fn base_ended(&mut self, to: u64, arrived: bool) {
        self.node.base_ended(to, arrived);
        self.settle();
    }

    /// A base of this node's own is in place, of entries that are applied.
    pub fn base_made(&mut self, base: Base) {
        self.node.base_made(base);
    }

    /// The log no longer has what is before `first`, which is in a base.
    pub fn log_dropped(&mut self, first: u64) {
        self.node.log_dropped(first);
    }

    /// Until when no other node can decide, and the newest instant after which a majority has confirmed this node's
    /// leadership.
    pub fn lease(&self) -> (Option<Micros>, Option<Micros>) {
        (self.lease.until(), self.lease.heard())
    }

    /// From one tick to the next, µs.
    pub fn tick_us(&self) -> u64 {
        self.ticks.each_us()
    }

    /// The work since the last call.
    pub fn take_output(&mut self) -> DriverOutput {
        std::mem::take(&mut self.out)
    }

    fn check(&self, peer: u64, head: &Head, bodies: &[Bytes]) -> Result<(), RefusedMessage> {
        let is_other = |tag: &u32| *tag != head.tag();
        if head.tag() == 0 || self.tag.as_ref().is_some_and(is_other) {
            return Err(RefusedMessage::OtherCluster { peer });
        }
        for directory in head.directories(bodies)? {
            if ClusterId(directory.cluster).tag() != head.tag() {
                return Err(RefusedMessage::OtherCluster { peer });
            }
        }
        Ok(())
    }
}

fn members_of(payload: &Payload) -> Option<&super::members::Members> {
    match payload {
        Payload::Members(members) => Some(members),
        Payload::Blank | Payload::Facts(_) => None,
    }
}

/// Of members that were checked when they arrived, or created here.
fn read(directory: &Bytes) -> Option<Directory> {
    Directory::decode(directory).ok()
}
