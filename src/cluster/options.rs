//! The options of a cluster: what they say of a node, and what is wrong with them.

use crate::cluster::members::names::{Address, Listed, Misnamed, Name};
use crate::cluster::peer::hello::Secret;
use crate::error::Shown;
use crate::limits::{CLUSTER_SECRET_BYTES_MIN, MAX_BODY_BYTES_CLUSTERED, NODES_MAX};
use std::collections::BTreeMap;
use thiserror::Error;

/// The resulting settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterOptions {
    pub node: Name,
    /// All nodes, this one included, in the order of their names.
    pub nodes: Vec<Listed>,
    /// The port to listen on for peers.
    pub peer_port: u16,
    /// Where peers find this node.
    pub peer: Address,
    /// Where clients find it.
    pub client: Address,
    /// Where they do with TLS.
    pub tls: Option<Address>,
    /// Where it answers as a Sentinel.
    pub sentinel: Option<Address>,
    pub secret: Secret,
    /// E, µs.
    pub election_us: u64,
    /// µs.
    pub lease_grace_us: u64,
}

/// An option that has a wrong value, or one that does not go with another.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum WrongOption {
    #[error("cluster-node: {0}")]
    Node(Misnamed),
    #[error("cluster-nodes {entry}: {wrong}")]
    Entry { entry: Shown, wrong: Misnamed },
    #[error("cluster-nodes {entry}: name=host:port expected")]
    Form { entry: Shown },
    #[error(
        "sentinel-port is {0}, but cluster-node is not set: only a node of a cluster answers as a Sentinel"
    )]
    SentinelAlone(u16),
    #[error(
        "sentinel-master-name {0} is invalid: a name may contain letters, digits, '-', '_' and '.'"
    )]
    SentinelName(Shown),
    #[error("cluster-nodes is set, but cluster-node is not: it names this node")]
    NoNode,
    #[error("cluster-nodes has {0} nodes; at most {NODES_MAX} are allowed")]
    TooMany(usize),
    #[error("cluster-nodes is empty; it must list all nodes, including {0}: {0}=host:port")]
    NoNodes(Name),
    #[error("cluster-nodes lists {one} and {other}: both are called {name}", name = one.name)]
    NameTwice { one: Listed, other: Listed },
    #[error("cluster-nodes lists {one} and {other}: both are at {address}", address = one.peer)]
    AddressTwice { one: Listed, other: Listed },
    #[error("cluster-node {node} is not in cluster-nodes: {list}")]
    NotListed { node: Name, list: String },
    #[error(
        "cluster-port: port is {port}, so the port for peers would be {peers}, above 65535; set cluster-port"
    )]
    PortTooHigh { port: u16, peers: u32 },
    #[error("cluster-nodes {node}: its port for partition {partition} would be above 65535")]
    PartitionPort { node: Listed, partition: u16 },
    #[error("cluster-port: port is 0, so the default cannot be derived from it; set cluster-port")]
    NoPort,
    #[error(
        "cluster-port is {port}, but cluster-nodes gives {node} port {listed}; if peers connect there, set \
         cluster-announce-bus-port {listed}"
    )]
    OtherPort { node: Name, port: u16, listed: u16 },
    #[error(
        "cluster-announce-bus-port is {announced}, but cluster-nodes gives {node} port {listed}"
    )]
    OtherAnnounced { node: Name, announced: u16, listed: u16 },
    #[error("cluster-announce-ip: {0}")]
    AnnounceIp(Misnamed),
    #[error("cluster-announce-port: port is 0; set it so that clients can find this node")]
    NoClientPort,
    #[error(
        "cluster-secret is empty, but {0} is reached over a network; set the same secret on all nodes"
    )]
    NoSecret(Listed),
    #[error(
        "cluster-secret is empty, but peers can connect at {0}; set the same secret on all nodes, or cluster-bind \
         127.0.0.1 if all nodes are on this machine"
    )]
    OpenPort(String),
    #[error(
        "cluster-secret has {0} bytes; it needs at least {CLUSTER_SECRET_BYTES_MIN}, because a shorter one can be \
         guessed from the nodes' traffic; `openssl rand -hex 16` makes one, set it on all nodes"
    )]
    ShortSecret(usize),
    #[error(
        "appendonly no cannot be combined with cluster-node: a node must not lose what it has confirmed to the others"
    )]
    AppendOnly,
    #[error(
        "appendfsync {0} cannot be combined with cluster-node, only always can: a node must not lose what it has \
         confirmed to the others"
    )]
    AppendFsync(String),
    #[error(
        "max-body-size is {0}; with cluster-node it must be at most {MAX_BODY_BYTES_CLUSTERED}: all nodes wait while a body is sent"
    )]
    MaxBodySize(u64),
}

/// The name that `cluster-node` gives this node: `@hostname` is replaced by the first label of `hostname`.
pub fn node_name(text: &str, hostname: &str) -> Result<Name, WrongOption> {
    let label = hostname.split('.').next().unwrap_or_default();
    Name::new(&text.replace("@hostname", label)).map_err(WrongOption::Node)
}

/// Reads `cluster-nodes`: `name=host:port`, several by commas or spaces. Gives them in the order of their names.
pub fn node_list(text: &str) -> Result<Vec<Listed>, WrongOption> {
    let entries = text.split([',', ' ', '\t']).filter(|entry| !entry.is_empty());
    let count = entries.clone().count();
    if count > NODES_MAX {
        return Err(WrongOption::TooMany(count));
    }
    let mut nodes: Vec<Listed> = entries.map(listed).collect::<Result<_, _>>()?;
    nodes.sort();
    if let Some(two) = nodes.windows(2).find(|two| two[0].name == two[1].name) {
        let (one, other) = (two[0].clone(), two[1].clone());
        return Err(WrongOption::NameTwice { one, other });
    }
    let mut peers: BTreeMap<&Address, &Listed> = BTreeMap::new();
    for other in &nodes {
        if let Some(one) = peers.insert(&other.peer, other) {
            let (one, other) = (one.clone(), other.clone());
            return Err(WrongOption::AddressTwice { one, other });
        }
    }
    Ok(nodes)
}

fn listed(entry: &str) -> Result<Listed, WrongOption> {
    let shown = || Shown::new(entry.as_bytes());
    let (name, peer) = entry.split_once('=').ok_or_else(|| WrongOption::Form { entry: shown() })?;
    let wrong = |wrong| WrongOption::Entry { entry: shown(), wrong };
    Ok(Listed { name: Name::new(name).map_err(wrong)?, peer: Address::parse(peer).map_err(wrong)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hosts() {
        let name = |text, host| node_name(text, host).map(|name| name.to_string());
        assert_eq!(name("@hostname", "n2.example.com").as_deref(), Ok("n2"));
        assert_eq!(name("eu-@hostname", "n2").as_deref(), Ok("eu-n2"));
        assert_eq!(name("n1", "n2").as_deref(), Ok("n1"));
        let text = name("@hostname", "").unwrap_err().to_string();
        assert_eq!(text, "cluster-node: a node's name has 1 to 64 bytes, '' has 0");
    }
}
