//! The options of this node's cluster.

use crate::cluster::members::claims::list_text;
use crate::cluster::members::names::{self, Address, Listed};
use crate::cluster::options::{ClusterOptions, WrongOption, node_list, node_name};
use crate::cluster::peer::hello::Secret;
use crate::config::Config;
use crate::config::options::Name;
use crate::error::Shown;
use crate::limits::{CLUSTER_SECRET_BYTES_MIN, MAX_BODY_BYTES_CLUSTERED, PEER_PORT_OFFSET};
use crate::server::observe::machine;

/// The cluster that the options name; none for a server that runs alone.
///
/// # Errors
/// A value that is wrong, or does not go with another.
pub fn read(config: &Config) -> Result<Option<ClusterOptions>, WrongOption> {
    read_on(config, &machine::hostname())
}

fn read_on(config: &Config, hostname: &str) -> Result<Option<ClusterOptions>, WrongOption> {
    let nodes = config.text(Name::ClusterNodes);
    let sentinel_port = config.number(Name::SentinelPort) as u16;
    match config.text(Name::ClusterNode) {
        "" if sentinel_port != 0 => return Err(WrongOption::SentinelAlone(sentinel_port)),
        // Alone, its address is only told to clients of a Redis Cluster.
        "" if nodes.is_empty() => {
            let host = config.text(Name::ClusterAnnounceIp);
            let host = if host.is_empty() { Ok(()) } else { Address::new(host, 1).map(drop) };
            return host.map(|()| None).map_err(WrongOption::AnnounceIp);
        }
        "" => return Err(WrongOption::NoNode),
        _ => {}
    }
    let node = node_name(config.text(Name::ClusterNode), hostname)?;
    settings(config, node).map(Some)
}

fn settings(config: &Config, node: names::Name) -> Result<ClusterOptions, WrongOption> {
    check_durability(config)?;
    let secret = config.text(Name::ClusterSecret);
    if (1..CLUSTER_SECRET_BYTES_MIN).contains(&secret.len()) {
        return Err(WrongOption::ShortSecret(secret.len()));
    }
    let nodes = listed(config)?;
    let own = own(&node, &nodes)?;
    if secret.is_empty() && !config.flag(Name::TlsCluster) {
        check_within_machine(config, &nodes)?;
    }
    let host = match config.text(Name::ClusterAnnounceIp) {
        "" => own.peer.host(),
        announced => announced,
    };
    let announced = |port| Address::new(host, port).map_err(WrongOption::AnnounceIp);
    let first =
        |names: [Name; 2]| names.map(|name| config.port(name)).into_iter().find(|p| *p != 0);
    let peer_port = peer_port(config, own)?;
    let peer = announced(own.peer.port())?;
    let client = first([Name::ClusterAnnouncePort, Name::Port]).ok_or(WrongOption::NoClientPort)?;
    let client = announced(client)?;
    let tls = first([Name::ClusterAnnounceTlsPort, Name::TlsPort]).map(announced).transpose()?;
    check_sentinel_name(config)?;
    let sentinel = sentinel_port(config).map(announced).transpose()?;
    Ok(ClusterOptions {
        node,
        peer_port,
        peer,
        client,
        tls,
        sentinel,
        secret: Secret::new(secret),
        election_us: config.number(Name::ClusterElectionTimeout) * 1_000,
        lease_grace_us: config.number(Name::ClusterLeaseGrace) * 1_000,
        nodes,
    })
}

fn check_durability(config: &Config) -> Result<(), WrongOption> {
    if !config.flag(Name::AppendOnly) {
        return Err(WrongOption::AppendOnly);
    }
    let fsync = config.text(Name::AppendFsync);
    if fsync != "always" {
        return Err(WrongOption::AppendFsync(fsync.to_owned()));
    }
    let max_body_bytes = config.number(Name::MaxBodySize);
    if max_body_bytes > MAX_BODY_BYTES_CLUSTERED {
        return Err(WrongOption::MaxBodySize(max_body_bytes));
    }
    Ok(())
}

/// The listed nodes, with this partition's ports.
fn listed(config: &Config) -> Result<Vec<Listed>, WrongOption> {
    let partition = config.partition;
    let moved = |node: Listed| {
        let port = node.peer.port().checked_add(partition);
        let peer = port.and_then(|port| Address::new(node.peer.host(), port).ok());
        match peer {
            Some(peer) => Ok(Listed { peer, ..node }),
            None => Err(WrongOption::PartitionPort { node, partition }),
        }
    };
    node_list(config.text(Name::ClusterNodes))?.into_iter().map(moved).collect()
}

/// This node's entry.
fn own<'a>(node: &names::Name, nodes: &'a [Listed]) -> Result<&'a Listed, WrongOption> {
    let node = node.clone();
    if nodes.is_empty() {
        return Err(WrongOption::NoNodes(node));
    }
    let own = nodes.iter().find(|listed| listed.name == node);
    own.ok_or_else(|| WrongOption::NotListed { node, list: list_text(nodes) })
}

/// Nodes that prove nothing to each other are on this machine, and nobody else reaches their port.
fn check_within_machine(config: &Config, nodes: &[Listed]) -> Result<(), WrongOption> {
    if let Some(node) = nodes.iter().find(|node| !node.peer.is_loopback()) {
        return Err(WrongOption::NoSecret(node.clone()));
    }
    let binds = match config.text(Name::ClusterBind) {
        "" => config.text(Name::Bind),
        own => own,
    };
    let is_loopback = |word: &str| {
        let word = word.strip_prefix('-').unwrap_or(word);
        Address::new(word, 1).is_ok_and(|address| address.is_loopback())
    };
    match binds.split_ascii_whitespace().find(|word| !is_loopback(word)) {
        Some(word) => Err(WrongOption::OpenPort(word.to_owned())),
        None => Ok(()),
    }
}

/// The port to listen on; peers come in at the one that the list has.
fn peer_port(config: &Config, own: &Listed) -> Result<u16, WrongOption> {
    let port = match (config.port(Name::ClusterPort), config.port(Name::Port)) {
        (0, 0) => return Err(WrongOption::NoPort),
        (0, client) => default_port(client)?,
        (port, _) => port,
    };
    let (node, listed) = (own.name.clone(), own.peer.port());
    match config.port(Name::ClusterAnnounceBusPort) {
        0 if port != listed => Err(WrongOption::OtherPort { node, port, listed }),
        announced if announced != 0 && announced != listed => {
            Err(WrongOption::OtherAnnounced { node, announced, listed })
        }
        _ => Ok(port),
    }
}

fn default_port(port: u16) -> Result<u16, WrongOption> {
    let peers = u32::from(port) + u32::from(PEER_PORT_OFFSET);
    u16::try_from(peers).map_err(|_| WrongOption::PortTooHigh { port, peers })
}

/// The name is part of events, whose words are separated by spaces.
fn check_sentinel_name(config: &Config) -> Result<(), WrongOption> {
    let name = config.text(Name::SentinelMasterName);
    names::Name::new(name).map_err(|_| WrongOption::SentinelName(Shown::new(name.as_bytes())))?;
    Ok(())
}

/// Where clients find it as a Sentinel, if it answers as one.
fn sentinel_port(config: &Config) -> Option<u16> {
    let own = config.number(Name::SentinelPort) as u16;
    let ports = [config.port(Name::ClusterAnnounceSentinelPort), own];
    ports.into_iter().find(|port| *port != 0).filter(|_| own != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(options: &[(&str, &[&str])]) -> Config {
        let mut config = Config::default();
        for (word, args) in options {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            config.set(word, &args).unwrap();
        }
        config
    }

    /// All nodes may be given the same command: `@hostname` distinguishes them. Lists have commas, or spaces as in a
    /// file.
    #[test]
    fn every_option_is_read() {
        let config = config(&[
            ("cluster-node", &["@hostname"]),
            ("cluster-nodes", &["n1=10.0.0.1:7001", "n2=10.0.0.2:7001,n3=10.0.0.3:7001"]),
            ("cluster-port", &["7000"]),
            ("tls-port", &["9443"]),
            ("cluster-announce-ip", &["public.example.com"]),
            ("cluster-announce-port", &["7002"]),
            ("cluster-announce-tls-port", &["7003"]),
            ("cluster-announce-bus-port", &["7001"]),
            ("cluster-secret", &["sixteen bytes, 1"]),
            ("cluster-election-timeout", &["500ms"]),
            ("cluster-lease-grace", &["3s"]),
        ]);
        let options = read_on(&config, "n2.internal").unwrap().expect("a cluster");
        let names: Vec<&str> = options.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!((options.node.as_str(), names), ("n2", vec!["n1", "n2", "n3"]));
        assert_eq!(options.peer_port, 7_000);
        assert_eq!(options.peer.to_string(), "public.example.com:7001");
        assert_eq!(options.client.to_string(), "public.example.com:7002");
        assert_eq!(
            options.tls.map(|tls| tls.to_string()).as_deref(),
            Some("public.example.com:7003")
        );
        assert_eq!((options.election_us, options.lease_grace_us), (500_000, 3_000_000));
        let text = read_on(&config, "n4").unwrap_err().to_string();
        assert!(text.starts_with("cluster-node n4 is not in cluster-nodes: n1="), "{text}");
    }

    #[test]
    fn a_server_without_a_name_runs_alone() {
        assert_eq!(read_on(&Config::default(), "n1"), Ok(None));
        let nodes = config(&[("cluster-nodes", &["n1=127.0.0.1:19248"])]);
        assert_eq!(read_on(&nodes, "n1"), Err(WrongOption::NoNode));
        let announced = config(&[("cluster-announce-ip", &["a,b"])]);
        assert!(matches!(read_on(&announced, "n1"), Err(WrongOption::AnnounceIp(_))));
        let sentinel = config(&[("sentinel-port", &["26379"])]);
        assert_eq!(read_on(&sentinel, "n1"), Err(WrongOption::SentinelAlone(26_379)));
    }

    const THREE: &str = "n1=127.0.0.1:19248,n2=127.0.0.1:19249 n3=127.0.0.1:19250";
    const SECRET: &str = "sixteen bytes, 1";
    const FAR: &str = "n1=10.0.0.1:19248,n2=10.0.0.2:19248,n3=10.0.0.3:19248";

    /// As n1 of these nodes, with more options.
    fn with(nodes: &str, more: &[(&str, &str)]) -> Result<ClusterOptions, WrongOption> {
        let mut config = config(&[("cluster-node", &["n1"]), ("cluster-nodes", &[nodes])]);
        for (word, value) in more {
            config.set(word, &[(*value).to_owned()]).unwrap();
        }
        read_on(&config, "").map(|options| options.expect("a cluster"))
    }

    /// The text of the error.
    fn refused(nodes: &str, more: &[(&str, &str)]) -> String {
        with(nodes, more).expect_err("refused").to_string()
    }

    #[test]
    fn the_defaults_do_on_one_machine() {
        let options = with(THREE, &[]).unwrap();
        let names: Vec<&str> = options.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["n1", "n2", "n3"]);
        assert_eq!((options.peer_port, options.election_us), (19_248, 300_000));
        assert_eq!(options.lease_grace_us, 2_000_000);
        assert_eq!(options.peer.to_string(), "127.0.0.1:19248");
        assert_eq!(options.client.to_string(), "127.0.0.1:9248");
        assert_eq!(options.tls, None);
    }

    #[test]
    fn lists_that_are_none() {
        for (list, text) in [
            ("n1", "cluster-nodes 'n1': name=host:port expected"),
            ("n1=h", "cluster-nodes 'n1=h': 'h' is not host:port"),
            ("n1=h:0", "cluster-nodes 'n1=h:0': the port of 'h:0' is not between 1 and 65535"),
            ("n1=a:1,n1=b:2", "cluster-nodes lists n1=a:1 and n1=b:2: both are called n1"),
            ("n1=a:1,n2=a:1", "cluster-nodes lists n1=a:1 and n2=a:1: both are at a:1"),
            ("n3=b:2 n2=a:1", "cluster-node n1 is not in cluster-nodes: n2=a:1,n3=b:2"),
            ("", "cluster-nodes is empty; it must list all nodes, including n1: n1=host:port"),
        ] {
            assert_eq!(refused(list, &[]), text, "{list}");
        }
        let many: Vec<String> = (1..=10).map(|n| format!("n{n}=h{n}:1")).collect();
        let text = refused(&many.join(","), &[]);
        assert_eq!(text, "cluster-nodes has 10 nodes; at most 9 are allowed");
    }

    #[test]
    fn a_secret_is_needed_where_there_is_a_network() {
        assert_eq!(
            refused(FAR, &[]),
            "cluster-secret is empty, but n1=10.0.0.1:19248 is reached over a network; set the same secret on all nodes"
        );
        with(FAR, &[("cluster-secret", SECRET)]).unwrap();
        let short = refused(THREE, &[("cluster-secret", &SECRET[1..])]);
        assert!(short.starts_with("cluster-secret has 15 bytes; it needs at least 16"), "{short}");
        assert!(!short.contains(&SECRET[1..]), "{short}");
        with(FAR, &[("tls-cluster", "yes")]).unwrap();
        let one_far = "n1=127.0.0.1:19248,n2=[::1]:2,n3=n3:1";
        assert!(refused(one_far, &[]).contains("n3=n3:1 is reached"));
    }

    #[test]
    fn a_secret_is_needed_where_strangers_reach_the_port() {
        let alone = "n1=127.0.0.1:19248";
        for open in ["0.0.0.0", "127.0.0.1 10.0.0.1", "-::", "*"] {
            let text = refused(alone, &[("cluster-bind", open)]);
            let word = open.split(' ').next_back().unwrap();
            assert!(text.contains(&format!("peers can connect at {word};")), "{text}");
            with(alone, &[("cluster-bind", open), ("cluster-secret", SECRET)]).unwrap();
        }
        for closed in ["127.0.0.1", "-::1 127.9.9.9", "localhost"] {
            with(alone, &[("cluster-bind", closed)]).unwrap();
        }
    }

    #[test]
    fn what_does_not_go_together_is_named_with_its_value_and_limit() {
        for (more, text) in [
            (&[("appendonly", "no")][..], "appendonly no cannot be combined with cluster-node"),
            (&[("appendfsync", "everysec")], "appendfsync everysec cannot be combined with"),
            (&[("appendfsync", "no")], "appendfsync no cannot be combined with cluster-node"),
            (
                &[("max-body-size", "67108865")],
                "max-body-size is 67108865; with cluster-node it must be at most 67108864",
            ),
            (
                &[("port", "55536")],
                "cluster-port: port is 55536, so the port for peers would be 65536, above 65535",
            ),
            (&[("port", "0")], "cluster-port: port is 0"),
            (&[("port", "0"), ("cluster-port", "19248")], "cluster-announce-port: port is 0"),
            (
                &[("cluster-port", "7000")],
                "cluster-port is 7000, but cluster-nodes gives n1 port 19248; if peers connect there, set cluster-announce-bus-port 19248",
            ),
            (
                &[("cluster-announce-bus-port", "5")],
                "cluster-announce-bus-port is 5, but cluster-nodes gives n1 port 19248",
            ),
            (&[("cluster-announce-ip", "a b")], "cluster-announce-ip: 'a b' is neither"),
            (
                &[("sentinel-master-name", "my master")],
                "sentinel-master-name 'my master' is invalid",
            ),
            (&[("sentinel-master-name", "")], "sentinel-master-name '' is invalid"),
        ] {
            let refused = refused(THREE, more);
            assert!(refused.starts_with(text), "{refused}");
        }
        with(THREE, &[("max-body-size", "64mb"), ("cluster-lease-grace", "0")]).unwrap();
    }

    #[test]
    fn spans_are_bounded_where_they_are_set() {
        for (word, range, values) in [
            ("cluster-election-timeout", "100ms", [("99ms", false), ("100ms", true)]),
            ("cluster-election-timeout", "1m", [("60001ms", false), ("1m", true)]),
            ("cluster-lease-grace", "1m", [("60001ms", false), ("1m", true)]),
        ] {
            for (value, is_right) in values {
                let set = Config::default().set(word, &[value.to_owned()]);
                let text = set.map_or_else(|error| error.to_string(), |()| String::new());
                assert!(text.is_empty() == is_right, "{word} {value}: {text}");
                assert!(is_right || text.contains(word) && text.contains(range), "{text}");
            }
        }
    }

    #[test]
    fn where_a_node_answers_as_a_sentinel() {
        let announced = ("cluster-announce-sentinel-port", "5");
        let sentinel = |more: &[(&str, &str)]| {
            with(THREE, more).unwrap().sentinel.map(|address| address.to_string())
        };
        assert_eq!(sentinel(&[announced]), None);
        let own = ("sentinel-port", "26379");
        assert_eq!(sentinel(&[own]).as_deref(), Some("127.0.0.1:26379"));
        assert_eq!(sentinel(&[own, announced]).as_deref(), Some("127.0.0.1:5"));
    }
}
