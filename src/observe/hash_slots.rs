//! A node as a node of a Redis Cluster would describe itself and the others: one shard with all hash slots, whose master
//! is the leader and whose replicas are the other nodes. Plain data, from a [`ClusterView`] or of a server alone.

use super::cluster::{ClusterView, NodeView};
use crate::hash_slot::HASH_SLOTS;
use crate::words::words;

/// See the module; for one client, as its protocol decides the ports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HashSlots {
    /// 40 hexadecimal digits.
    pub shard: String,
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
    /// A node of a cluster, for a client that speaks TLS or not: it gets ports of its own kind.
    pub fn of(view: &ClusterView, tls: bool) -> HashSlots {
        let cluster = format!("{:032x}", view.cluster.unwrap_or(0));
        let known = view.leader_for_clients().map(|leader| leader.id);
        let is_there = |id: &u64| view.nodes.iter().any(|node| node.id == *id && !node.has_left);
        let led = known.or(view.led).filter(is_there).unwrap_or(view.node);
        let mut nodes: Vec<SlotNode> = view
            .nodes
            .iter()
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
        HashSlots {
            shard: format!("{}{:016x}", &cluster[..24], 0),
            nodes,
            is_served: known.is_some(),
            epoch: view.epoch,
        }
    }

    /// A standalone server; `own` is its only node.
    pub fn alone(own: SlotNode) -> HashSlots {
        let is_served = own.health == SlotHealth::Online;
        HashSlots { shard: own.id.clone(), nodes: vec![own], is_served, epoch: 0 }
    }

    /// Those of CLUSTER SLOTS: without followers that cannot be asked, as clients would try them, and some wait for them.
    pub fn usable(&self) -> impl Iterator<Item = &SlotNode> + Clone {
        let is_usable =
            |node: &&SlotNode| node.part == SlotPart::Master || node.health == SlotHealth::Online;
        self.nodes.iter().filter(is_usable)
    }

    /// CLUSTER NODES: a line for each node.
    pub fn lines(&self) -> String {
        self.nodes.iter().map(|node| self.line(node) + "\n").collect()
    }

    /// CLUSTER REPLICAS of the node with this id: their lines.
    ///
    /// # Errors
    /// Redis's texts.
    pub fn replicas(&self, id: &[u8]) -> Result<Vec<String>, String> {
        match self.nodes.iter().find(|node| node.id.as_bytes().eq_ignore_ascii_case(id)) {
            None => Err(unknown(id)),
            Some(node) if node.part == SlotPart::Replica => {
                Err("ERR The specified node is not a master".to_owned())
            }
            Some(_) => {
                let replicas = self.nodes.iter().filter(|node| node.part == SlotPart::Replica);
                Ok(replicas.map(|node| self.line(node)).collect())
            }
        }
    }

    /// COUNT-FAILURE-REPORTS of the node with this id: nodes do not report each other.
    ///
    /// # Errors
    /// There is no such node.
    pub fn failure_reports(&self, id: &[u8]) -> Result<u64, String> {
        let mut ids = self.nodes.iter().map(|node| node.id.as_bytes());
        if ids.any(|own| own.eq_ignore_ascii_case(id)) { Ok(0) } else { Err(unknown(id)) }
    }

    /// CLUSTER INFO.
    pub fn info(&self) -> String {
        let (ok, fail) = if self.is_served { (HASH_SLOTS, 0) } else { (0, HASH_SLOTS) };
        let state = if self.is_served { "ok" } else { "fail" };
        let HashSlots { epoch, nodes, .. } = self;
        let lines = [
            format!("cluster_state:{state}"),
            format!("cluster_slots_assigned:{HASH_SLOTS}"),
            format!("cluster_slots_ok:{ok}"),
            "cluster_slots_pfail:0".to_owned(),
            format!("cluster_slots_fail:{fail}"),
            format!("cluster_known_nodes:{}", nodes.len()),
            "cluster_size:1".to_owned(),
            format!("cluster_current_epoch:{epoch}"),
            format!("cluster_my_epoch:{epoch}"),
            "cluster_stats_messages_sent:0".to_owned(),
            "cluster_stats_messages_received:0".to_owned(),
            "total_cluster_links_buffer_limit_exceeded:0".to_owned(),
        ];
        lines.map(|line| line + "\r\n").concat()
    }

    fn line(&self, node: &SlotNode) -> String {
        let SlotNode { id, host, port, bus_port, .. } = node;
        let mut flags = Vec::new();
        if node.is_own {
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
            true => format!(" 0-{}", HASH_SLOTS - 1),
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
    } else if node.needs_base || is_own && view.loading {
        SlotHealth::Loading
    } else {
        SlotHealth::Online
    }
}

fn unknown(id: &[u8]) -> String {
    format!("ERR Unknown node {}", String::from_utf8_lossy(&id[..id.len().min(64)]).escape_debug())
}
