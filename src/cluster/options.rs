//! The options of a cluster: what their texts mean, and what does not go together.
//!
//! Pure: values come in as the table of options has read them, the host's name from the caller.

use crate::cluster::members::claims::list_text;
use crate::cluster::members::names::{Address, Listed, Misnamed, Name};
use crate::cluster::peer::hello::Secret;
use crate::error::Shown;
use crate::limits::{
    CLUSTER_SECRET_BYTES_MIN, ELECTION_MS_MAX, ELECTION_MS_MIN, LEASE_GRACE_MS_MAX,
    MAX_BODY_BYTES_CLUSTERED, NODES_MAX, PEER_PORT_OFFSET,
};
use crate::time::Written;
use std::collections::BTreeMap;
use thiserror::Error;

/// The options; texts are empty and ports 0 if they are not set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Given<'a> {
    /// `cluster-node`, with `@hostname` in it as [`node_name`] has resolved it.
    pub node: Name,
    pub nodes: &'a str,
    /// The number of the partition, by which the ports in `nodes` are higher for it.
    pub partition: u16,
    pub port: u16,
    /// `cluster-bind`, or else `bind`: addresses with blanks between them.
    pub binds: &'a str,
    pub announce_ip: &'a str,
    pub announce_port: u16,
    pub announce_tls_port: u16,
    pub announce_bus_port: u16,
    pub announce_sentinel_port: u16,
    pub sentinel_port: u16,
    pub sentinel_name: &'a str,
    pub secret: &'a str,
    pub election_timeout_ms: u64,
    pub lease_grace_ms: u64,
    // The other options they must agree with.
    /// The clients' `port`; 0 if the system chooses one, or without one.
    pub client_port: u16,
    pub tls_port: u16,
    pub tls_cluster: bool,
    pub appendonly: bool,
    pub appendfsync: &'a str,
    pub max_body_bytes: u64,
}

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
    #[error("cluster-election-timeout is {given}; it must be between {min} and {max}")]
    Election { given: Written, min: Written, max: Written },
    #[error("cluster-lease-grace is {given}; it must be at most {max}")]
    LeaseGrace { given: Written, max: Written },
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

impl Given<'_> {
    /// The resulting settings of all.
    ///
    /// # Errors
    /// The first that does not fit.
    pub fn check(&self) -> Result<ClusterOptions, WrongOption> {
        self.check_durability()?;
        if !(ELECTION_MS_MIN..=ELECTION_MS_MAX).contains(&self.election_timeout_ms) {
            return Err(WrongOption::Election {
                given: Written(self.election_timeout_ms),
                min: Written(ELECTION_MS_MIN),
                max: Written(ELECTION_MS_MAX),
            });
        }
        if self.lease_grace_ms > LEASE_GRACE_MS_MAX {
            let (given, max) = (Written(self.lease_grace_ms), Written(LEASE_GRACE_MS_MAX));
            return Err(WrongOption::LeaseGrace { given, max });
        }
        if (1..CLUSTER_SECRET_BYTES_MIN).contains(&self.secret.len()) {
            return Err(WrongOption::ShortSecret(self.secret.len()));
        }
        let nodes = self.listed()?;
        let own = self.own(&nodes)?;
        let over_network = nodes.iter().find(|node| !node.peer.is_loopback());
        if let Some(node) = over_network.filter(|_| self.secret.is_empty() && !self.tls_cluster) {
            return Err(WrongOption::NoSecret(node.clone()));
        }
        if let Some(word) = self.open_word().filter(|_| self.secret.is_empty() && !self.tls_cluster)
        {
            return Err(WrongOption::OpenPort(word.to_owned()));
        }
        let peer_port = self.peer_port(own)?;
        let peer = self.announced(own, own.peer.port())?;
        let clients = [self.announce_port, self.client_port].into_iter().find(|port| *port != 0);
        let client = self.announced(own, clients.ok_or(WrongOption::NoClientPort)?)?;
        let tls = [self.announce_tls_port, self.tls_port].into_iter().find(|port| *port != 0);
        let tls = tls.map(|port| self.announced(own, port)).transpose()?;
        let sentinel = self.sentinel(own)?;
        Ok(ClusterOptions {
            node: self.node.clone(),
            peer_port,
            peer,
            client,
            tls,
            sentinel,
            secret: Secret::new(self.secret),
            election_us: self.election_timeout_ms * 1_000,
            lease_grace_us: self.lease_grace_ms * 1_000,
            nodes,
        })
    }

    /// The listed nodes, with this partition's ports.
    fn listed(&self) -> Result<Vec<Listed>, WrongOption> {
        let partition = self.partition;
        let moved = |node: Listed| {
            let port = node.peer.port().checked_add(partition);
            let peer = port.and_then(|port| Address::new(node.peer.host(), port).ok());
            match peer {
                Some(peer) => Ok(Listed { peer, ..node }),
                None => Err(WrongOption::PartitionPort { node, partition }),
            }
        };
        node_list(self.nodes)?.into_iter().map(moved).collect()
    }

    /// The first address of [`Given::binds`] that others than this machine reach.
    fn open_word(&self) -> Option<&str> {
        let is_loopback = |word: &str| {
            let word = word.strip_prefix('-').unwrap_or(word);
            Address::new(word, 1).is_ok_and(|address| address.is_loopback())
        };
        self.binds.split_ascii_whitespace().find(|word| !is_loopback(word))
    }

    fn check_durability(&self) -> Result<(), WrongOption> {
        if !self.appendonly {
            return Err(WrongOption::AppendOnly);
        }
        if self.appendfsync != "always" {
            return Err(WrongOption::AppendFsync(self.appendfsync.to_owned()));
        }
        if self.max_body_bytes > MAX_BODY_BYTES_CLUSTERED {
            return Err(WrongOption::MaxBodySize(self.max_body_bytes));
        }
        Ok(())
    }

    /// This node's entry.
    fn own<'a>(&self, nodes: &'a [Listed]) -> Result<&'a Listed, WrongOption> {
        let node = self.node.clone();
        if nodes.is_empty() {
            return Err(WrongOption::NoNodes(node));
        }
        let own = nodes.iter().find(|listed| listed.name == node);
        own.ok_or_else(|| WrongOption::NotListed { node, list: list_text(nodes) })
    }

    /// The port to listen on; peers come in at the one that the list has.
    fn peer_port(&self, own: &Listed) -> Result<u16, WrongOption> {
        let port = match (self.port, self.client_port) {
            (0, 0) => return Err(WrongOption::NoPort),
            (0, client) => self.default_port(client)?,
            (port, _) => port,
        };
        let (node, listed) = (own.name.clone(), own.peer.port());
        match self.announce_bus_port {
            0 if port != listed => Err(WrongOption::OtherPort { node, port, listed }),
            announced if announced != 0 && announced != listed => {
                Err(WrongOption::OtherAnnounced { node, announced, listed })
            }
            _ => Ok(port),
        }
    }

    fn default_port(&self, port: u16) -> Result<u16, WrongOption> {
        let peers = u32::from(port) + u32::from(PEER_PORT_OFFSET);
        u16::try_from(peers).map_err(|_| WrongOption::PortTooHigh { port, peers })
    }

    /// Where it answers as a Sentinel, if it does. The name is part of events, whose words are separated by spaces.
    fn sentinel(&self, own: &Listed) -> Result<Option<Address>, WrongOption> {
        if Name::new(self.sentinel_name).is_err() {
            return Err(WrongOption::SentinelName(Shown::new(self.sentinel_name.as_bytes())));
        }
        let ports = [self.announce_sentinel_port, self.sentinel_port];
        let announced = ports.into_iter().find(|port| *port != 0);
        let announced = announced.filter(|_| self.sentinel_port != 0);
        announced.map(|port| self.announced(own, port)).transpose()
    }

    /// A port of this node as others reach it.
    fn announced(&self, own: &Listed, port: u16) -> Result<Address, WrongOption> {
        let host = if self.announce_ip.is_empty() { own.peer.host() } else { self.announce_ip };
        Address::new(host, port).map_err(WrongOption::AnnounceIp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: &str = "n1=127.0.0.1:19248,n2=127.0.0.1:19249 n3=127.0.0.1:19250";
    const SECRET: &str = "sixteen bytes, 1";
    const FAR: &str = "n1=10.0.0.1:19248,n2=10.0.0.2:19248,n3=10.0.0.3:19248";

    fn given(nodes: &str) -> Given<'_> {
        Given {
            node: Name::new("n1").unwrap(),
            nodes,
            partition: 0,
            port: 0,
            binds: "127.0.0.1 -::1",
            announce_ip: "",
            announce_port: 0,
            announce_tls_port: 0,
            announce_bus_port: 0,
            announce_sentinel_port: 0,
            sentinel_port: 0,
            sentinel_name: "delayd",
            secret: "",
            election_timeout_ms: 300,
            lease_grace_ms: 2_000,
            client_port: 9248,
            tls_port: 0,
            tls_cluster: false,
            appendonly: true,
            appendfsync: "always",
            max_body_bytes: 16 << 20,
        }
    }

    /// The text of the error.
    fn refused(given: Given<'_>) -> String {
        given.check().expect_err("refused").to_string()
    }

    #[test]
    fn three_terminals() {
        let options = given(THREE).check().unwrap();
        let names: Vec<&str> = options.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["n1", "n2", "n3"]);
        assert_eq!((options.peer_port, options.election_us), (19_248, 300_000));
        assert_eq!(options.peer.to_string(), "127.0.0.1:19248");
        assert_eq!(options.client.to_string(), "127.0.0.1:9248");
        assert_eq!(options.tls, None);
    }

    #[test]
    fn names_of_hosts() {
        let name = |text, host| node_name(text, host).map(|name| name.to_string());
        assert_eq!(name("@hostname", "n2.example.com").as_deref(), Ok("n2"));
        assert_eq!(name("eu-@hostname", "n2").as_deref(), Ok("eu-n2"));
        assert_eq!(name("n1", "n2").as_deref(), Ok("n1"));
        let text = name("@hostname", "").unwrap_err().to_string();
        assert_eq!(text, "cluster-node: a node's name has 1 to 64 bytes, '' has 0");
    }

    #[test]
    fn lists_that_are_none() {
        for (list, text) in [
            ("", "cluster-nodes is empty; it must list all nodes, including n1: n1=host:port"),
            ("n1", "cluster-nodes 'n1': name=host:port expected"),
            ("n1=h", "cluster-nodes 'n1=h': 'h' is not host:port"),
            ("n1=h:0", "cluster-nodes 'n1=h:0': the port of 'h:0' is not between 1 and 65535"),
            ("n1=a:1,n1=b:2", "cluster-nodes lists n1=a:1 and n1=b:2: both are called n1"),
            ("n1=a:1,n2=a:1", "cluster-nodes lists n1=a:1 and n2=a:1: both are at a:1"),
            ("n3=b:2 n2=a:1", "cluster-node n1 is not in cluster-nodes: n2=a:1,n3=b:2"),
        ] {
            assert_eq!(refused(given(list)), text, "{list}");
        }
        let many: Vec<String> = (1..=10).map(|n| format!("n{n}=h{n}:1")).collect();
        let text = refused(given(&many.join(",")));
        assert_eq!(text, "cluster-nodes has 10 nodes; at most 9 are allowed");
    }

    #[test]
    fn a_secret_is_needed_where_there_is_a_network() {
        assert_eq!(
            refused(given(FAR)),
            "cluster-secret is empty, but n1=10.0.0.1:19248 is reached over a network; set the same secret on all nodes"
        );
        Given { secret: SECRET, ..given(FAR) }.check().unwrap();
        let short = Given { secret: &SECRET[1..], ..given(THREE) }.check().unwrap_err().to_string();
        assert!(short.starts_with("cluster-secret has 15 bytes; it needs at least 16"), "{short}");
        assert!(!short.contains(&SECRET[1..]), "{short}");
        Given { tls_cluster: true, ..given(FAR) }.check().unwrap();
        let one_far = "n1=127.0.0.1:19248,n2=[::1]:2,n3=n3:1";
        assert!(refused(given(one_far)).contains("n3=n3:1 is reached"));
    }

    #[test]
    fn a_secret_is_needed_where_strangers_reach_the_port() {
        let ok = || given("n1=127.0.0.1:19248");
        for open in ["0.0.0.0", "127.0.0.1 10.0.0.1", "-::", "*"] {
            let text = refused(Given { binds: open, ..ok() });
            let word = open.split(' ').next_back().unwrap();
            assert!(text.contains(&format!("peers can connect at {word};")), "{text}");
            Given { binds: open, secret: SECRET, ..ok() }.check().unwrap();
        }
        for closed in ["127.0.0.1", "-::1 127.9.9.9", "localhost"] {
            Given { binds: closed, ..ok() }.check().unwrap();
        }
    }

    #[test]
    fn what_does_not_go_together_is_named_with_its_value_and_limit() {
        let ok = || given(THREE);
        for (given, text) in [
            (
                Given { appendonly: false, ..ok() },
                "appendonly no cannot be combined with cluster-node",
            ),
            (
                Given { appendfsync: "everysec", ..ok() },
                "appendfsync everysec cannot be combined with",
            ),
            (
                Given { appendfsync: "no", ..ok() },
                "appendfsync no cannot be combined with cluster-node",
            ),
            (
                Given { max_body_bytes: (64 << 20) + 1, ..ok() },
                "max-body-size is 67108865; with cluster-node it must be at most 67108864",
            ),
            (
                Given { election_timeout_ms: 99, ..ok() },
                "cluster-election-timeout is 99ms; it must be between 100ms and 1m",
            ),
            (Given { election_timeout_ms: 60_001, ..ok() }, "cluster-election-timeout is 60001ms"),
            (
                Given { lease_grace_ms: 60_001, ..ok() },
                "cluster-lease-grace is 60001ms; it must be at most 1m",
            ),
            (
                Given { client_port: 55_536, ..ok() },
                "cluster-port: port is 55536, so the port for peers would be 65536, above 65535",
            ),
            (Given { client_port: 0, ..ok() }, "cluster-port: port is 0"),
            (Given { client_port: 0, port: 19_248, ..ok() }, "cluster-announce-port: port is 0"),
            (
                Given { port: 7_000, ..ok() },
                "cluster-port is 7000, but cluster-nodes gives n1 port 19248; if peers connect there, set cluster-announce-bus-port 19248",
            ),
            (
                Given { announce_bus_port: 5, ..ok() },
                "cluster-announce-bus-port is 5, but cluster-nodes gives n1 port 19248",
            ),
            (Given { announce_ip: "a b", ..ok() }, "cluster-announce-ip: 'a b' is neither"),
            (
                Given { sentinel_name: "my master", ..ok() },
                "sentinel-master-name 'my master' is invalid",
            ),
            (Given { sentinel_name: "", ..ok() }, "sentinel-master-name '' is invalid"),
        ] {
            let refused = refused(given);
            assert!(refused.starts_with(text), "{refused}");
        }
        Given { max_body_bytes: 64 << 20, lease_grace_ms: 0, ..ok() }.check().unwrap();
    }

    #[test]
    fn what_others_are_told() {
        let given = Given {
            port: 7_000,
            announce_bus_port: 19_248,
            announce_ip: "203.0.113.7",
            announce_port: 6_379,
            tls_port: 9_443,
            announce_tls_port: 6_380,
            announce_sentinel_port: 7,
            ..given(THREE)
        };
        let options = given.check().unwrap();
        assert_eq!(options.peer_port, 7_000);
        assert_eq!(options.peer.to_string(), "203.0.113.7:19248");
        assert_eq!(options.client.to_string(), "203.0.113.7:6379");
        assert_eq!(options.tls.unwrap().to_string(), "203.0.113.7:6380");
        assert_eq!(options.sentinel, None);
    }

    #[test]
    fn where_a_node_answers_as_a_sentinel() {
        for (announced, text) in [(0, "127.0.0.1:26379"), (5, "127.0.0.1:5")] {
            let given =
                Given { sentinel_port: 26_379, announce_sentinel_port: announced, ..given(THREE) };
            let sentinel = given.check().unwrap().sentinel.unwrap();
            assert_eq!(sentinel.to_string(), text);
        }
    }
}
