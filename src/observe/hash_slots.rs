//! A server as a node of a Redis Cluster would describe itself and the others: each partition is a shard with its part
//! of the hash slots, whose master is the leader and whose replicas are the other nodes. Plain data, from the
//! [`ClusterView`] of each partition or of one without others.

use super::cluster::{ClusterView, NodeView};
use crate::hash_slot::{HASH_SLOTS, slots_of};
use crate::words::words;

/// See the module; for one client, as its protocol decides the ports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HashSlots {
    /// One for each partition, in their order.
    pub shards: Vec<Shard>,
    /// The shard of the partition that was asked.
    pub own: usize,
}

/// A partition on all its nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shard {
    /// 40 hexadecimal digits.
    pub id: String,
    /// Its first and its last slot.
    pub slots: (u16, u16),
    /// The leader first, or the last one. A node that has known none since its start, as others elect one or the cluster
    /// forms, names itself: it knows the next one soon. With no master some libraries never ask again.
    pub nodes: Vec<SlotNode>,
    /// A leader is known, or was a moment ago.
    pub is_served: bool,
    epoch: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotNode {
    /// 40 hexadecimal digits.
    pub id: String,
    pub host: String,
    pub port: u16,
    /// The port is for TLS.
    pub tls: bool,
    pub bus_port: u16,
    pub part: SlotPart,
    pub health: SlotHealth,
    /// The last index of its log, as far as this node knows.
    pub offset: u64,
    /// It is a node of this process.
    pub is_own: bool,
}

words! {
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum SlotPart {
        Master = "master",
        Replica = "replica",
    }
}

words! {
    /// Redis's words for how a node is.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum SlotHealth {
        Online = "online",
        /// Nothing is heard of it, or it led and another one is not known yet.
        Failed = "failed",
        /// It does not have all jobs yet.
        Loading = "loading",
    }
}

impl HashSlots {
    /// The node of this process in the shard that was asked.
    pub fn own(&self) -> Option<&SlotNode> {
        self.shards[self.own].nodes.iter().find(|node| node.is_own)
    }

    /// CLUSTER NODES: a line for each node of each shard.
    pub fn lines(&self) -> String {
        let own = self.own().map(|own| own.id.as_str());
        let shards = self.shards.iter();
        let lines = shards.flat_map(|shard| shard.nodes.iter().map(move |node| (shard, node)));
        lines.map(|(shard, node)| shard.line(node, own) + "\n").collect()
    }

    /// CLUSTER REPLICAS of the node with this id: their lines.
    ///
    /// # Errors
    /// Redis's texts.
    pub fn replicas(&self, id: &[u8]) -> Result<Vec<String>, String> {
        let (shard, node) = self.find(id)?;
        if node.part == SlotPart::Replica {
            return Err("ERR The specified node is not a master".to_owned());
        }
        let own = self.own().map(|own| own.id.as_str());
        let replicas = shard.nodes.iter().filter(|node| node.part == SlotPart::Replica);
        Ok(replicas.map(|node| shard.line(node, own)).collect())
    }

    /// COUNT-FAILURE-REPORTS of the node with this id: nodes do not report each other.
    ///
    /// # Errors
    /// There is no such node.
    pub fn failure_reports(&self, id: &[u8]) -> Result<u64, String> {
        self.find(id).map(|_| 0)
    }

    /// CLUSTER INFO.
    pub fn info(&self) -> String {
        let served = |shard: &&Shard| shard.is_served;
        let len = |shard: &Shard| u64::from(shard.slots.1 - shard.slots.0) + 1;
        let ok: u64 = self.shards.iter().filter(served).map(len).sum();
        let fail = u64::from(HASH_SLOTS) - ok;
        let state = if fail == 0 { "ok" } else { "fail" };
        let nodes: usize = self.shards.iter().map(|shard| shard.nodes.len()).sum();
        let epochs = self.shards.iter().map(|shard| shard.epoch);
        let lines = [
            format!("cluster_state:{state}"),
            format!("cluster_slots_assigned:{HASH_SLOTS}"),
            format!("cluster_slots_ok:{ok}"),
            "cluster_slots_pfail:0".to_owned(),
            format!("cluster_slots_fail:{fail}"),
            format!("cluster_known_nodes:{nodes}"),
            format!("cluster_size:{}", self.shards.len()),
            format!("cluster_current_epoch:{}", epochs.max().unwrap_or(0)),
            format!("cluster_my_epoch:{}", self.shards[self.own].epoch),
            "cluster_stats_messages_sent:0".to_owned(),
            "cluster_stats_messages_received:0".to_owned(),
            "total_cluster_links_buffer_limit_exceeded:0".to_owned(),
        ];
        lines.map(|line| line + "\r\n").concat()
    }

    fn find(&self, id: &[u8]) -> Result<(&Shard, &SlotNode), String> {
        let is_meant = |node: &&SlotNode| node.id.as_bytes().eq_ignore_ascii_case(id);
        let mut found = self.shards.iter().filter_map(|shard| {
            let node = shard.nodes.iter().find(is_meant)?;
            Some((shard, node))
        });
        found.next().ok_or_else(|| {
            let shown = String::from_utf8_lossy(&id[..id.len().min(64)]);
            format!("ERR Unknown node {}", shown.escape_debug())
        })
    }
}

impl Shard {
    /// A partition of `count` as its node of this process sees it, for a client that speaks TLS or not: it gets ports of
    /// its own kind. A node that is not a member names the members it has met, and one of them as master: clients that
    /// are sent on from there ask again.
    pub fn of(view: &ClusterView, tls: bool, partition: u16, count: u16) -> Shard {
        let elsewhere = view.elsewhere.as_ref();
        let cluster = view.cluster.or(elsewhere.map(|there| there.cluster)).unwrap_or(0);
        let cluster = format!("{cluster:032x}");
        let members = elsewhere.iter().flat_map(|there| &there.nodes);
        let known = view.leader_for_clients().or(members.clone().next()).map(|leader| leader.id);
        let nodes = members.chain(&view.nodes);
        let is_there = |id: &u64| nodes.clone().any(|node| node.id == *id && !node.has_left);
        let led = known.or(view.led).filter(is_there).unwrap_or(view.node);
        let mut nodes: Vec<SlotNode> = nodes
            .clone()
            .filter(|node| !node.has_left || node.id == view.node)
            .map(|node| {
                let (address, tls) = node.address_for(tls);
                let part = match led == node.id {
                    true => SlotPart::Master,
                    false => SlotPart::Replica,
                };
                SlotNode {
                    id: format!("{}{:016x}", &cluster[..24], node.id),
                    host: address.host().to_owned(),
                    port: address.port(),
                    tls,
                    bus_port: node.peer.port(),
                    part,
                    health: health_of(
                        view,
                        node,
                        (part == SlotPart::Master).then_some(known.is_some()),
                    ),
                    offset: view.index_of(node).unwrap_or(view.last),
                    is_own: node.id == view.node,
                }
            })
            .collect();
        nodes.sort_by_key(|node| node.part == SlotPart::Replica);
        Shard {
            id: format!("{}{:016x}", &cluster[..24], 0),
            slots: slots_of(partition, count),
            nodes,
            is_served: known.is_some(),
            epoch: view.epoch,
        }
    }

    /// A partition without other nodes.
    pub fn alone(own: SlotNode, partition: u16, count: u16) -> Shard {
        let is_served = own.health == SlotHealth::Online;
        let (id, slots) = (own.id.clone(), slots_of(partition, count));
        Shard { id, slots, nodes: vec![own], is_served, epoch: 0 }
    }

    /// Those of CLUSTER SLOTS: without followers that cannot be asked, as clients would try them, and some wait for them.
    pub fn usable(&self) -> impl Iterator<Item = &SlotNode> + Clone {
        let is_usable =
            |node: &&SlotNode| node.part == SlotPart::Master || node.health == SlotHealth::Online;
        self.nodes.iter().filter(is_usable)
    }

    /// `own`: the id of the node that was asked.
    fn line(&self, node: &SlotNode, own: Option<&str>) -> String {
        let SlotNode { id, host, port, bus_port, .. } = node;
        let mut flags = Vec::new();
        if own == Some(id) {
            flags.push("myself");
        }
        let (part, master) = match (node.part, self.nodes.first()) {
            (SlotPart::Replica, Some(master)) => ("slave", master.id.as_str()),
            _ => ("master", "-"),
        };
        flags.push(part);
        if node.health == SlotHealth::Failed {
            flags.push("fail");
        }
        let link = if node.health == SlotHealth::Failed { "disconnected" } else { "connected" };
        let slots = match node.part == SlotPart::Master {
            true => format!(" {}-{}", self.slots.0, self.slots.1),
            false => String::new(),
        };
        let (flags, epoch) = (flags.join(","), self.epoch);
        format!("{id} {host}:{port}@{bus_port} {flags} {master} 0 0 {epoch} {link}{slots}")
    }
}

/// `leads`: of the master, whether it is known to lead.
fn health_of(view: &ClusterView, node: &NodeView, leads: Option<bool>) -> SlotHealth {
    let is_own = node.id == view.node;
    // A follower hears its leader alone, but has connections to all.
    let is_away = !leads.unwrap_or_else(|| node.is_heard.unwrap_or(node.is_connected));
    if is_away && !is_own {
        SlotHealth::Failed
    } else if node.needs_base || is_own && (view.loading || view.elsewhere.is_some()) {
        SlotHealth::Loading
    } else {
        SlotHealth::Online
    }
}
