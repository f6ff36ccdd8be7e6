//! A node as a Redis Sentinel would describe its cluster: the leader is the master, the other nodes are its replicas,
//! and each node that has the port is a Sentinel. The answers follow from a current [`ClusterView`]; of earlier ones
//! only the last leader is kept, by the [`Watcher`].

mod watcher;

pub use watcher::{Event, Watcher};

use super::cluster::{ClusterView, NodeView};
use crate::cluster::members::names::Address;
use std::fmt::Display;

/// A map of a reply. All values are texts, as a Sentinel's are.
pub type SentinelFields = Vec<(&'static str, String)>;

#[derive(Clone, Copy, Debug)]
pub struct Sentinel<'a> {
    /// `sentinel-master-name`.
    pub name: &'a str,
    pub view: &'a ClusterView,
    /// The state seen before.
    pub watcher: &'a Watcher,
}

/// A node's id as a Sentinel shows it: 40 digits.
pub fn run_id(node: u64) -> String {
    format!("{node:040x}")
}

/// A field that is always the same.
fn fixed(value: impl Display) -> String {
    value.to_string()
}

impl Sentinel<'_> {
    /// Where clients reach the leader. None while this node does not know that there is one: a client takes the word
    /// of the Sentinel that answers first, and one that is cut off from the others must not be that.
    pub fn master_address(&self) -> Option<&Address> {
        self.view.leader_within_reach().map(|leader| &leader.client)
    }

    /// MASTER. Without a known leader it is the last one, and down.
    pub fn master(&self) -> SentinelFields {
        let is_up = self.view.leader_within_reach().is_some();
        let leader = self.view.leader_within_reach();
        let led = self.watcher.master();
        let (id, host, port) = match (leader, led) {
            (Some(leader), _) => (leader.id, leader.client.host(), leader.client.port()),
            (None, Some((id, address))) => (id, address.host(), address.port()),
            (None, None) => (0, "?", 0),
        };
        let mut fields = self.instance(&Instance {
            name: self.name,
            host,
            port,
            id,
            kind: "master",
            is_up,
            silent_ms: self.leader_silent_ms(),
        });
        if !is_up {
            let since_ms = self.leader_silent_ms().saturating_sub(self.down_after_ms());
            fields.push(("s-down-time", fixed(since_ms)));
            fields.push(("o-down-time", fixed(since_ms)));
        }
        fields.extend([
            ("role-reported", fixed("master")),
            ("role-reported-time", fixed(self.leader_silent_ms())),
            ("config-epoch", fixed(self.view.epoch)),
            ("num-slaves", fixed(self.replica_nodes().count())),
            ("num-other-sentinels", fixed(self.other_sentinels().count())),
            ("quorum", fixed(self.quorum())),
            ("failover-timeout", fixed(2 * self.down_after_ms())),
            ("parallel-syncs", fixed(self.view.nodes.len())),
        ]);
        fields
    }

    pub fn replicas(&self) -> Vec<SentinelFields> {
        self.replica_nodes().map(|node| self.replica(node)).collect()
    }

    /// SENTINELS: those of other nodes.
    pub fn sentinels(&self) -> Vec<SentinelFields> {
        self.other_sentinels().map(|(node, address)| self.sentinel(node, address)).collect()
    }

    /// CKQUORUM.
    ///
    /// # Errors
    /// There are too few nodes to elect a leader, as far as this one knows.
    pub fn check_quorum(&self) -> Result<String, String> {
        let is_led = self.view.leader_within_reach().is_some();
        let is_there =
            |node: &&NodeView| node.id == self.view.node || node.is_heard.unwrap_or(is_led);
        let usable = self.voters().filter(is_there).count();
        if usable >= self.quorum() && is_led {
            return Ok(format!(
                "OK {usable} usable Sentinels. Quorum and failover authorization can be reached"
            ));
        }
        Err(format!(
            "NOQUORUM {usable} usable Sentinels. Not enough available Sentinels to reach the specified quorum for this \
             master. Not enough available Sentinels to reach the majority and authorize a failover"
        ))
    }

    /// The line of INFO.
    pub fn status(&self) -> String {
        let address = self.master_address().or(self.watcher.master().map(|(_, address)| address));
        let address = address.map_or("?:0".to_owned(), Address::to_string);
        let status = if self.master_address().is_some() { "ok" } else { "odown" };
        format!(
            "name={},status={status},address={address},slaves={},sentinels={}",
            self.name,
            self.replica_nodes().count(),
            1 + self.other_sentinels().count()
        )
    }

    /// Voters that make a majority.
    pub fn quorum(&self) -> usize {
        self.voters().count() / 2 + 1
    }

    fn voters(&self) -> impl Iterator<Item = &NodeView> {
        self.view.nodes.iter().filter(|node| node.is_voter)
    }

    /// All nodes except the leader, or the last one.
    fn replica_nodes(&self) -> impl Iterator<Item = &NodeView> {
        let led = self.watcher.master().map(|(id, _)| id);
        let master = self.view.leader_within_reach().map(|leader| leader.id).or(led);
        self.view.nodes.iter().filter(move |node| Some(node.id) != master)
    }

    fn other_sentinels(&self) -> impl Iterator<Item = (&NodeView, &Address)> {
        self.view.others().filter_map(|node| Some((node, node.sentinel.as_ref()?)))
    }

    fn replica(&self, node: &NodeView) -> SentinelFields {
        let (host, port) = (node.client.host(), node.client.port());
        let is_up = node.is_heard != Some(false);
        let name = node.client.to_string();
        let mut fields = self.instance(&Instance {
            name: &name,
            host,
            port,
            id: node.id,
            kind: "slave",
            is_up,
            silent_ms: 0,
        });
        let master = self.master_address().or(self.watcher.master().map(|(_, address)| address));
        let is_linked = is_up && self.master_address().is_some();
        let offset = self.view.index_of(node).unwrap_or(self.view.last);
        fields.extend([
            ("role-reported", fixed("slave")),
            ("role-reported-time", fixed(0)),
            ("master-link-down-time", fixed(0)),
            ("master-link-status", fixed(if is_linked { "ok" } else { "err" })),
            ("master-host", fixed(master.map_or("?", Address::host))),
            ("master-port", fixed(master.map_or(0, Address::port))),
            ("slave-priority", fixed(node.priority)),
            ("slave-repl-offset", fixed(offset)),
            ("replica-announced", fixed(1)),
        ]);
        fields
    }

    fn sentinel(&self, node: &NodeView, address: &Address) -> SentinelFields {
        let name = run_id(node.id);
        let mut fields = self.instance(&Instance {
            name: &name,
            host: address.host(),
            port: address.port(),
            id: node.id,
            kind: "sentinel",
            is_up: node.is_heard != Some(false),
            silent_ms: 0,
        });
        fields.extend([
            ("last-hello-message", fixed(0)),
            ("voted-leader", fixed(self.view.leader.map_or("?".to_owned(), run_id))),
            ("voted-leader-epoch", fixed(self.view.epoch)),
        ]);
        fields
    }

    /// A Sentinel's fields for every instance.
    fn instance(&self, of: &Instance<'_>) -> SentinelFields {
        // Only the cluster as a whole can say that a master is down.
        let flags = match (of.is_up, of.kind) {
            (true, kind) => kind.to_owned(),
            (false, "master") => "s_down,o_down,master".to_owned(),
            (false, kind) => format!("s_down,{kind}"),
        };
        vec![
            ("name", of.name.to_owned()),
            ("ip", of.host.to_owned()),
            ("port", fixed(of.port)),
            ("runid", run_id(of.id)),
            ("flags", flags),
            ("link-pending-commands", fixed(0)),
            ("link-refcount", fixed(1)),
            ("last-ping-sent", fixed(0)),
            ("last-ok-ping-reply", fixed(of.silent_ms)),
            ("last-ping-reply", fixed(of.silent_ms)),
            ("down-after-milliseconds", fixed(self.down_after_ms())),
            ("info-refresh", fixed(of.silent_ms)),
        ]
    }

    fn down_after_ms(&self) -> u64 {
        2 * self.view.election_us / 1_000
    }

    /// How long the leader was not heard; for a leader, a majority.
    fn leader_silent_ms(&self) -> u64 {
        let own = self.view.leader == Some(self.view.node);
        let silent_us = if own { self.view.quorum_us } else { self.view.leader_heard_us };
        silent_us.unwrap_or(0) / 1_000
    }
}

/// The common fields of a master, a replica and a Sentinel.
struct Instance<'a> {
    name: &'a str,
    host: &'a str,
    port: u16,
    id: u64,
    kind: &'static str,
    is_up: bool,
    silent_ms: u64,
}
