//! Requested changes of the members: inviting or removing a node.
//!
//! The requester learns at once whether the change is possible, by what is known then; the leader checks again when it
//! executes it. An invitation is committed before any node is added, so it outlives the leader that received it.
//! Changes are made one after the other: a change waits until earlier ones are committed, and while leadership is
//! handed over. The log reports a change that has become impossible meanwhile.

use super::status::Status;
use super::{Driver, PeerStatus};
use crate::cluster::members::Members;
use crate::cluster::members::directory::{Directory, WrongDirectory};
use crate::cluster::members::names::{Address, Listed, Name};
use crate::cluster::raft::output::RaftRole;
use crate::limits::{LEVEL_INVITES, MEMBER_CHANGES_MAX};
use std::fmt;
use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// To take this node in, as soon as it is there: it is empty, and its list has a member. One that is invited
    /// already gets this address.
    Add(Listed),
    /// That the node of this name leaves, or is not invited any more.
    Remove(Name),
}

impl fmt::Display for MemberChange {
    /// As it is asked for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemberChange::Add(Listed { name, peer }) => {
                write!(f, "DELAY.CLUSTER ADD {name} {peer}")
            }
            MemberChange::Remove(name) => write!(f, "DELAY.CLUSTER REMOVE {name}"),
        }
    }
}

/// Why it cannot be. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WrongChange {
    #[error("another node leads")]
    NotLeader,
    #[error("the cluster is forming: {0}")]
    Forming(String),
    #[error("{0} is a member already")]
    Member(Name),
    #[error("{address} is the address of {name}")]
    Address { address: Address, name: Name },
    #[error("{name} is not a member; the members are: {members}")]
    Unknown { name: Name, members: String },
    #[error("{0} leads; run FAILOVER first")]
    Leads(Name),
    #[error(
        "only {there} of the {voters} voters without {name} can be reached: nothing could be decided any more"
    )]
    NoMajority { name: Name, voters: usize, there: usize },
    #[error(
        "all members must be online and have this version to read an invitation; {name} {}",
        .level.map_or("is not there".to_owned(), |level| format!("reads level {level} and not {LEVEL_INVITES}"))
    )]
    Level { name: Name, level: Option<u32> },
    #[error(transparent)]
    Directory(#[from] WrongDirectory),
    #[error("{MEMBER_CHANGES_MAX} changes are already waiting")]
    Crowd,
}

impl Status {
    /// Whether the change can be begun after those that wait, as far as is known.
    ///
    /// # Errors
    /// Why not.
    pub fn check_change(&self, change: &MemberChange) -> Result<(), WrongChange> {
        if self.role != RaftRole::Leader {
            return Err(WrongChange::NotLeader);
        }
        if let Some(forming) = &self.forming {
            return Err(WrongChange::Forming(forming.clone()));
        }
        if self.asked.len() >= MEMBER_CHANGES_MAX {
            return Err(WrongChange::Crowd);
        }
        let mut directory = self.directory.clone().ok_or(WrongChange::NotLeader)?;
        for asked in &self.asked {
            directory = after(&directory, asked);
        }
        match change {
            MemberChange::Add(listed) => self.check_addition(&directory, listed),
            MemberChange::Remove(name) => self.check_removal(&directory, name),
        }
    }

    fn check_addition(&self, directory: &Directory, listed: &Listed) -> Result<(), WrongChange> {
        let Listed { name, peer } = listed;
        if directory.named(name).next().is_some() {
            return Err(WrongChange::Member(name.clone()));
        }
        let members = directory.nodes.values().map(|node| (&node.name, &node.peer));
        let invited = directory.invited.iter().map(|other| (&other.name, &other.peer));
        let mut others = members.chain(invited).filter(|(other, _)| *other != name);
        if let Some((other, address)) = others.find(|(_, address)| *address == peer) {
            let (address, name) = (address.clone(), other.clone());
            return Err(WrongChange::Address { address, name });
        }
        let is_old = |peer: &&PeerStatus| peer.level.is_none_or(|level| level < LEVEL_INVITES);
        if let Some(PeerStatus { name, level, .. }) = self.peers.iter().find(is_old) {
            return Err(WrongChange::Level { name: name.clone(), level: *level });
        }
        directory.with_invited(listed.clone()).check()?;
        Ok(())
    }

    fn check_removal(&self, directory: &Directory, name: &Name) -> Result<(), WrongChange> {
        if directory.invited.iter().any(|listed| listed.name == *name) {
            return Ok(());
        }
        let ids: Vec<u64> = directory.named(name).map(|(id, _)| id).collect();
        if ids.is_empty() {
            let names = directory.nodes.values().map(|node| node.name.to_string());
            let mut names: Vec<String> = names.collect();
            names.sort_unstable();
            let members = names.join(", ");
            return Err(WrongChange::Unknown { name: name.clone(), members });
        }
        if ids.contains(&self.node) {
            return Err(WrongChange::Leads(name.clone()));
        }
        let stay = self.members.voters.iter().filter(|id| !ids.contains(id));
        let stay: Vec<u64> = stay.copied().collect();
        let is_there = |id: &&u64| {
            **id == self.node || self.peers.iter().any(|peer| peer.id == **id && peer.is_heard)
        };
        let (voters, there) = (stay.len(), stay.iter().filter(is_there).count());
        if there * 2 <= voters {
            return Err(WrongChange::NoMajority { name: name.clone(), voters, there });
        }
        Ok(())
    }
}

impl Driver {
    /// Begins a change, or puts it after the waiting ones.
    ///
    /// # Errors
    /// Why it cannot be begun.
    pub fn change(&mut self, change: MemberChange) -> Result<(), WrongChange> {
        self.joining.changes_heard += 1;
        self.status().check_change(&change)?;
        self.joining.asked.push_back(change);
        self.join();
        Ok(())
    }

    /// The members after the first of the changes that wait, which stays there until that is committed. Those that
    /// cannot be any more are given up: something has changed since they were asked for.
    pub(super) fn next_asked(&mut self, directory: &Directory) -> Option<Members> {
        while let Some(change) = self.joining.asked.front().cloned() {
            let changed = after(directory, &change);
            let mut next = self.node.members().clone();
            if let MemberChange::Remove(name) = &change {
                let goes = |id: &u64| directory.named(name).any(|(other, _)| other == *id);
                next.voters.retain(|id| !goes(id));
                next.learners.retain(|id| !goes(id));
            }
            if changed == *directory && next == *self.node.members() {
                // It is done.
                self.joining.asked.pop_front();
                continue;
            }
            let status = Status { asked: Vec::new(), ..self.status() };
            if let Err(wrong) = status.check_change(&change) {
                self.joining.asked.pop_front();
                self.out.given_up.push((change, wrong));
                continue;
            }
            next.directory = changed.encode().into();
            return Some(next);
        }
        None
    }

    /// For waiting changes: another node leads, or will.
    pub(super) fn give_up_asked(&mut self) {
        let asked = self.joining.asked.drain(..);
        self.out.given_up.extend(asked.map(|change| (change, WrongChange::NotLeader)));
    }

    /// The nodes that a cluster adds: while it forms all listed nodes, and then invited nodes and nodes with the name
    /// of a member.
    pub(super) fn awaited(&self, directory: &Directory) -> Vec<Name> {
        if !directory.is_formed {
            return self.identity.nodes.iter().map(|listed| listed.name.clone()).collect();
        }
        let members = directory.nodes.values().map(|node| node.name.clone());
        let invited = directory.invited.iter().map(|listed| listed.name.clone());
        let mut names: Vec<Name> = members.chain(invited).collect();
        names.sort();
        names.dedup();
        names
    }

    /// The lowest level of the members that have said it, and whether all have.
    pub(super) fn level(&self) -> (u32, bool) {
        let members = self.node.members().all();
        let others = members.into_iter().filter(|id| *id != self.identity.node);
        let levels: Vec<Option<u32>> = others.map(|id| self.level_of(id)).collect();
        let lowest =
            levels.iter().flatten().fold(self.identity.level, |low, level| low.min(*level));
        (lowest, levels.iter().all(Option::is_some))
    }

    /// As it has said in its newest handshake.
    pub(super) fn level_of(&self, id: u64) -> Option<u32> {
        self.joining.met.values().find(|claims| claims.node.0 == id).map(|claims| claims.level)
    }
}

/// The names after a change. A node that leaves has one until it has left.
fn after(directory: &Directory, change: &MemberChange) -> Directory {
    match change {
        MemberChange::Add(listed) => directory.with_invited(listed.clone()),
        MemberChange::Remove(name) => {
            let mut changed = directory.clone();
            changed.invited.retain(|listed| listed.name != *name);
            changed
        }
    }
}
