//! How a cluster forms: which nodes were met, which one founds, which ones the leader adds.

use super::changes::MemberChange;
use super::{Driver, NodeIdentity};
use crate::cluster::members::Members;
use crate::cluster::members::claims::{Claims, ClusterId, Holds, NodeId, list_text};
use crate::cluster::members::directory::{self, Directory, PARTITIONS, WrongDirectory};
use crate::cluster::members::formation::{Conflict, Decision, NodeAnswer, WaitingFor, decide};
use crate::cluster::members::names::{Listed, Name};
use crate::cluster::raft::entry::{LogEntry, Payload, Vote, Write};
use crate::cluster::raft::node::Node;
use crate::cluster::raft::output::{PeerProgress, RaftRole};
use crate::cluster::raft::start::Start;
use crate::limits::{ELSEWHERE_US, NODES_MAX, WINDOW_BATCHES_MAX};
use crate::time::Micros;
use std::collections::{BTreeMap, VecDeque};

/// How long the refusal of a node is reported, in E: it is dialled each half second.
const REFUSED_TIMES_E: u64 = 10;

/// The known state of other nodes, and its consequences.
#[derive(Default)]
pub(super) struct Joining {
    /// The last claims of each, by name: of listed nodes and members.
    pub met: BTreeMap<Name, Claims>,
    /// The decision of an empty node.
    decision: Option<Decision>,
    /// The conflict to resolve first.
    pub conflict: Option<Conflict>,
    /// Why a node that was called has refused this one, and when.
    pub refused: Option<(Micros, String)>,
    /// Another member has said that this node was removed.
    pub has_left: bool,
    /// It has met a member that it does not know: either this node was away, or that one was removed.
    pub is_unsure: bool,
    /// Nodes that have been removed, to be told so. One that stands still keeps its connections, and has missed it.
    left: Vec<(u64, Conflict)>,
    /// Nodes to call beyond the listed ones.
    pub hinted: Vec<Listed>,
    /// While this node is not a member: the members of the cluster that it has met, and when. They refuse it, so the
    /// connections do not last.
    elsewhere: BTreeMap<Name, (Micros, Claims)>,
    /// Changes of members that wait, and the one before them that is not committed.
    pub asked: VecDeque<MemberChange>,
    /// How many it was asked for.
    pub changes_heard: u64,
}

impl Joining {
    pub(super) fn of(identity: &NodeIdentity) -> Joining {
        Joining { hinted: identity.removed.clone().unwrap_or_default(), ..Joining::default() }
    }
}

impl Driver {
    /// Whether such a node is one to speak with.
    pub(super) fn check_claims(&self, claims: &Claims) -> Result<(), Conflict> {
        let own = &self.identity.own;
        let name = &claims.name;
        if let (Some(cluster), Some(other_cluster)) = (self.cluster, claims.cluster())
            && cluster != other_cluster
        {
            let (own, other) = (own.name.clone(), name.clone());
            return Err(Conflict::OtherCluster { own, cluster, other, other_cluster });
        }
        let ids = self.members_named(name);
        if ids.is_empty() {
            self.check_stranger(claims)?;
        }
        if !self.joining.met.contains_key(name) && self.joining.met.len() >= 2 * NODES_MAX {
            let wrong = WrongDirectory::TooMany(2 * NODES_MAX + 1);
            return Err(Conflict::NoRoom { name: name.clone(), wrong });
        }
        if let Some(member) = ids.first().copied().filter(|_| !ids.contains(&claims.node)) {
            let (name, is) = (name.clone(), claims.node);
            // It may have taken the other one's place while this node was away.
            let is_newer = claims.cluster() == self.cluster && self.may_be_behind(claims.node);
            if claims.holds != Holds::Nothing && !is_newer {
                let cluster = self.cluster.expect("it has members");
                let was_member = claims.cluster() == self.cluster;
                let left_by = was_member.then(|| self.node.applied());
                return Err(Conflict::OtherFolder { name, cluster, member, is, left_by });
            }
            // It has lost its disk, unless the one that has it is there.
            if self.is_heard(member) {
                return Err(Conflict::SameName { name, one: member, other: is });
            }
        }
        let met = self.joining.met.get(name).map(|met| met.node);
        match met.filter(|one| *one != claims.node) {
            Some(one) => Err(Conflict::SameName { name: name.clone(), one, other: claims.node }),
            None => Ok(()),
        }
    }

    /// Whether to talk to a node whose name no member has.
    fn check_stranger(&self, claims: &Claims) -> Result<(), Conflict> {
        let NodeIdentity { own, nodes, .. } = &self.identity;
        let (name, address) = (claims.name.clone(), claims.peer.clone());
        let formed = self.directory.as_ref().filter(|directory| directory.is_formed);
        let Some(directory) = formed else {
            // A node that knows of no cluster, or of one that forms, has its list.
            let is_listed = nodes.iter().chain(&self.joining.hinted).any(|one| one.name == name);
            let (own, list) = (own.name.clone(), list_text(nodes));
            let is_of_it = self.cluster.is_some() && claims.cluster() == self.cluster;
            let is_right = is_listed
                || is_of_it && self.may_be_behind(claims.node)
                || self.is_to_be_joined(claims);
            return if is_right {
                Ok(())
            } else {
                Err(Conflict::NotListed { own, other: name, list })
            };
        };
        let cluster = ClusterId(directory.cluster);
        let is_invited = directory.invited.iter().any(|listed| listed.name == name);
        match claims.holds {
            Holds::Nothing if is_invited => Ok(()),
            Holds::Nothing if claims.only_waits() => Err(Conflict::Waits { name }),
            Holds::Nothing => Err(Conflict::NotAdded { name, address, cluster }),
            Holds::Jobs => {
                Err(Conflict::JobsBesideCluster { holder: name, other: own.name.clone(), cluster })
            }
            Holds::Member(_) if self.may_be_behind(claims.node) => Ok(()),
            Holds::Member(_) => {
                Err(Conflict::Unknown { name, cluster, left_by: self.node.applied() })
            }
        }
    }

    /// Whether a member calls, and this node is not one: it was removed, or has met other members of that cluster. Only a
    /// cluster that has invited it goes on from there.
    fn is_to_be_joined(&self, claims: &Claims) -> bool {
        let is_met = |cluster| {
            let met = self.joining.met.values().filter_map(Claims::cluster);
            let elsewhere = self.elsewhere().map(|(id, _)| ClusterId(id));
            met.chain(elsewhere).any(|one| one == cluster)
        };
        let is_joined = |cluster| self.identity.removed.is_some() || is_met(cluster);
        self.cluster.is_none() && claims.cluster().is_some_and(is_joined)
    }

    /// Nodes that were removed, to be turned away: those that have left since the last call, and those that were met while
    /// this node did not know whether they are members.
    pub fn unwanted(&mut self) -> Vec<(u64, Conflict)> {
        let mut unwanted = std::mem::take(&mut self.joining.left);
        if !std::mem::take(&mut self.joining.is_unsure) {
            return unwanted;
        }
        for claims in self.joining.met.values() {
            let is_member = self.node.members().contains(claims.node.0);
            if is_member || claims.cluster() != self.cluster {
                continue;
            }
            match self.check_claims(claims) {
                Ok(()) => self.joining.is_unsure = true,
                Err(conflict) if conflict.left_by().is_some() => {
                    unwanted.push((claims.node.0, conflict));
                }
                Err(_) => {}
            }
        }
        unwanted
    }

    /// The names and addresses from here on, as of the members that are applied.
    pub(super) fn set_directory(&mut self, directory: Option<Directory>) {
        let left_by = self.node.applied();
        let Some(before) = std::mem::replace(&mut self.directory, directory) else { return };
        let cluster = ClusterId(before.cluster);
        for (id, directory::Node { name, .. }) in before.nodes {
            if id != self.identity.node && !self.node.members().contains(id) {
                self.joining.left.push((id, Conflict::Unknown { name, cluster, left_by }));
            }
        }
    }

    /// Whether this node may not know of a member: it was away, hears no leader, and that one may be it.
    fn may_be_behind(&self, of: NodeId) -> bool {
        let leader = self.roles.leader.map(NodeId);
        let is_led = leader.is_some_and(|leader| self.is_heard(leader));
        !self.node.is_leading() && (!is_led || leader == Some(of))
    }

    /// The members of this name: one, and while it is replaced two.
    pub(super) fn members_named(&self, name: &Name) -> Vec<NodeId> {
        let members = self.directory.iter().flat_map(|directory| directory.named(name));
        members.map(|(id, _)| NodeId(id)).collect()
    }

    fn is_heard(&self, node: NodeId) -> bool {
        self.roles.is_heard(node.0, self.now, self.identity.election_us)
    }

    /// Notes a member of the cluster that this node is not a member of.
    pub(super) fn note_elsewhere(&mut self, claims: &Claims) {
        match claims.holds {
            Holds::Member(_) if self.cluster.is_none() => {
                self.joining.elsewhere.insert(claims.name.clone(), (self.now, claims.clone()));
            }
            _ => drop(self.joining.elsewhere.remove(&claims.name)),
        }
    }

    /// The id of the cluster that this node is not a member of, with the members that were met lately, by name.
    pub(super) fn elsewhere(&self) -> Option<(u128, Vec<(u64, directory::Node)>)> {
        let lately = |at: &Micros| self.now.0 < at.0 + ELSEWHERE_US;
        let known = self.joining.elsewhere.values().filter(|(at, _)| lately(at));
        let known = || known.clone().map(|(_, claims)| claims);
        let cluster = known().find_map(Claims::cluster).filter(|_| self.cluster.is_none())?;
        Some((cluster.0, known().map(|claims| (claims.node.0, claims.entry())).collect()))
    }

    /// Acts on the nodes that were met.
    pub(super) fn join(&mut self) {
        if self.cluster.is_some() {
            self.joining.decision = None;
            self.take_in();
        } else if self.founding.is_none() && self.tag.is_none() {
            let decided = decide(&self.claims(), &self.answers());
            self.joining.conflict = decided.as_ref().err().cloned();
            self.joining.decision = decided.ok();
            if self.joining.decision == Some(Decision::Found) && self.node.last() == 0 {
                self.found();
            }
        }
    }

    fn answers(&self) -> Vec<NodeAnswer> {
        let NodeIdentity { own, nodes, .. } = &self.identity;
        let others = nodes.iter().filter(|listed| listed.name != own.name);
        let answer = |listed: &Listed| {
            let claims = self.joining.met.get(&listed.name).cloned();
            NodeAnswer { listed: listed.clone(), claims }
        };
        others.map(answer).collect()
    }

    /// The first entry, with which this node alone is a cluster. Nothing else is done until it is durable.
    fn found(&mut self) {
        let NodeIdentity { node, own, nodes, cluster, hash_seed, .. } = &self.identity;
        let mut directory =
            Directory::founded(*cluster, *hash_seed, PARTITIONS, *node, own.clone());
        directory.is_formed = nodes.len() == 1;
        let members = Members { directory: directory.encode().into(), ..Members::of([*node]) };
        let payload = Payload::Members(members);
        let entries = vec![LogEntry { index: 1, term: 1, node: *node, payload }];
        let vote = Vote { term: 1, voted_for: *node };
        let start = Start { vote, commit: 1, entries: entries.clone(), ..self.start.clone() };
        let write = Write { number: 0, base: None, entries, vote: Some(vote), commit: 1 };
        self.out.writes.push(write);
        self.founding = Some(start);
    }

    /// The founder, as it would start with what is durable now.
    pub(super) fn begin(&mut self, start: Start) {
        let cluster = ClusterId(self.identity.cluster);
        self.node = Node::new(start).expect("it has one entry");
        self.weigh();
        (self.cluster, self.tag) = (Some(cluster), Some(cluster.tag()));
    }

    /// Begins the next change of members, if this node leads and none is on its way.
    fn take_in(&mut self) {
        if !self.node.is_leading() {
            self.joining.conflict = None;
        }
        if self.node.role() != RaftRole::Leader {
            self.give_up_asked();
        }
        if !self.node.is_leading() || self.node.members().is_joint() {
            return;
        }
        let Some(directory) = self.directory.clone() else { return };
        let voter = self.next_voter(&directory);
        let asked = if voter.is_none() { self.next_asked(&directory) } else { None };
        let next = voter.or(asked).or_else(|| self.next_learner(&directory));
        let next = next.or_else(|| self.next_directory(&directory));
        if next.is_some_and(|next| self.node.change(&next).is_some()) {
            self.settle();
        }
    }

    /// A learner that has everything this node has, except for entries in flight.
    fn next_voter(&self, directory: &Directory) -> Option<Members> {
        let mut next = self.node.members().clone();
        let last = self.node.last();
        let peers = self.node.peers();
        // One that has just been added counts as heard with Raft, and a short log is near its beginning.
        let is_near = |id: &u64| {
            let peer = peers.iter().find(|peer| peer.id == *id);
            let is_near = |peer: &PeerProgress| {
                peer.matched > 0 && peer.matched + WINDOW_BATCHES_MAX as u64 >= last
            };
            self.roles.is_heard(*id, self.now, self.identity.election_us)
                && peer.is_some_and(is_near)
        };
        let at = next.learners.iter().position(is_near)?;
        let learner = next.learners.remove(at);
        // The node that it replaces leaves with the same change, which both majorities agree to.
        let name = directory.nodes.get(&learner).map(|node| &node.name);
        let gone =
            directory.nodes.iter().find(|(id, node)| **id != learner && Some(&node.name) == name);
        if let Some((gone, _)) = gone {
            next.voters.retain(|id| id != gone);
            next.learners.retain(|id| id != gone);
        }
        next.voters.push(learner);
        next.voters.sort_unstable();
        next.directory = directory.encode().into();
        Some(next)
    }

    /// One that is awaited, was met and is no member: a new one, or one that has lost its disk.
    fn next_learner(&mut self, directory: &Directory) -> Option<Members> {
        let cluster = ClusterId(directory.cluster);
        self.joining.conflict = None;
        for name in self.awaited(directory) {
            let Some(claims) = self.joining.met.get(&name) else { continue };
            let ids = self.members_named(&name);
            if ids.contains(&claims.node) {
                continue;
            }
            // A learner has no vote: one that is gone makes way at once, however often the node loses its disk.
            let is_learner = |id: &NodeId| self.node.members().learners.contains(&id.0);
            let is_lost = |id: &NodeId| is_learner(id) && !self.is_heard(*id);
            let (lost, ids): (Vec<NodeId>, Vec<NodeId>) = ids.into_iter().partition(is_lost);
            if ids.len() > 1 {
                continue;
            }
            if let Some(one) = ids.first().copied().filter(|id| self.is_heard(*id)) {
                let other = claims.node;
                self.joining.conflict = Some(Conflict::SameName { name, one, other });
                continue;
            }
            let mut members = self.node.members().clone();
            members.learners.retain(|id| !lost.contains(&NodeId(*id)));
            match joined(members, directory, cluster, claims, &self.identity.own.name) {
                Ok(next) => return Some(next),
                Err(conflict) => self.joining.conflict = Some(conflict),
            }
        }
        None
    }

    /// The same members: all listed nodes are voters for the first time, one has moved, or the names of removed nodes
    /// can be dropped.
    fn next_directory(&self, directory: &Directory) -> Option<Members> {
        let members = self.node.members();
        let mut next = directory.clone();
        next.nodes.retain(|id, _| members.contains(*id));
        next.is_formed |= members.learners.is_empty() && self.not_voting().is_empty();
        let own = (self.identity.node, self.identity.own.clone());
        let met = self.joining.met.values().filter(|claims| claims.cluster().is_some());
        let met = met.map(|claims| (claims.node.0, claims.entry()));
        for (id, entry) in met.chain([own]) {
            next.nodes.entry(id).and_modify(|node| *node = entry);
        }
        let has_changed = next != *directory && next.check().is_ok();
        has_changed.then(|| Members { directory: next.encode().into(), ..members.clone() })
    }

    /// Listed nodes that are no voters.
    fn not_voting(&self) -> Vec<&Name> {
        let voters = &self.node.members().voters;
        let votes = |name: &Name| {
            let mut members = self.directory.iter().flat_map(|directory| directory.named(name));
            members.any(|(id, _)| voters.contains(&id))
        };
        let names = self.identity.nodes.iter().map(|listed| &listed.name);
        names.filter(|name| !votes(name)).collect()
    }

    /// Why nothing can be acknowledged yet; nothing once the cluster has formed.
    pub(super) fn forming(&self) -> Option<String> {
        if self.directory.as_ref().is_some_and(|directory| directory.is_formed) {
            return None;
        }
        if let Some(conflict) = &self.joining.conflict {
            return Some(conflict.to_string());
        }
        let lately = |at: &Micros| self.now.0 < at.0 + REFUSED_TIMES_E * self.identity.election_us;
        if let (None, Some((at, why))) = (self.cluster, &self.joining.refused)
            && lately(at)
        {
            return Some(why.clone());
        }
        Some(match &self.joining.decision {
            Some(Decision::Wait(WaitingFor::Missing(names))) => missing(names),
            Some(Decision::Wait(WaitingFor::Founder(name))) => {
                format!("{name} has yet to found it")
            }
            Some(Decision::Join { through, .. }) => {
                format!("{} is adding it", name_list(through))
            }
            Some(Decision::Start | Decision::Found) | None => self.forming_as_member(),
        })
    }

    fn forming_as_member(&self) -> String {
        let others = self.not_voting().into_iter().filter(|name| **name != self.identity.own.name);
        let (met, away): (Vec<&Name>, Vec<&Name>) =
            others.partition(|name| self.joining.met.contains_key(*name));
        match (&away[..], &met[..]) {
            ([], []) => "no leader has confirmed that all nodes are online".to_owned(),
            ([], [one]) => format!("{one} is being added"),
            ([], met) => format!("{} are being added", name_list(met)),
            (away, _) => missing(away),
        }
    }
}

fn joined(
    mut next: Members,
    directory: &Directory,
    cluster: ClusterId,
    claims: &Claims,
    own: &Name,
) -> Result<Members, Conflict> {
    let name = claims.name.clone();
    match claims.holds {
        Holds::Nothing => {}
        Holds::Jobs => {
            let (holder, other) = (name, own.clone());
            return Err(Conflict::JobsBesideCluster { holder, other, cluster });
        }
        // This conflict is only logged.
        Holds::Member(_) => return Err(Conflict::Unknown { name, cluster, left_by: 0 }),
    }
    next.learners.push(claims.node.0);
    next.learners.sort_unstable();
    let new: BTreeMap<u64, directory::Node> = [(claims.node.0, claims.entry())].into();
    match directory.changed(&next.all(), &new) {
        Ok(directory) => Ok(Members { directory: directory.encode().into(), ..next }),
        Err(wrong) => Err(Conflict::NoRoom { name, wrong }),
    }
}

fn name_list<T: ToString>(names: &[T]) -> String {
    names.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

fn missing<T: ToString>(names: &[T]) -> String {
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb} missing", name_list(names))
}
