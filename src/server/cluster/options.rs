//! The options of this node's cluster.

use crate::cluster::members::names::Address;
use crate::cluster::options::{ClusterOptions, Given, WrongOption, node_name};
use crate::config::Config;
use crate::config::options::Name;
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
    let port = |name| config.port(name);
    let own_binds = config.text(Name::ClusterBind);
    let given = Given {
        node: node_name(config.text(Name::ClusterNode), hostname)?,
        nodes,
        partition: config.partition,
        port: port(Name::ClusterPort),
        binds: if own_binds.is_empty() { config.text(Name::Bind) } else { own_binds },
        announce_ip: config.text(Name::ClusterAnnounceIp),
        announce_port: port(Name::ClusterAnnouncePort),
        announce_tls_port: port(Name::ClusterAnnounceTlsPort),
        announce_bus_port: port(Name::ClusterAnnounceBusPort),
        announce_sentinel_port: port(Name::ClusterAnnounceSentinelPort),
        sentinel_port,
        sentinel_name: config.text(Name::SentinelMasterName),
        secret: config.text(Name::ClusterSecret),
        election_timeout_ms: config.number(Name::ClusterElectionTimeout),
        lease_grace_ms: config.number(Name::ClusterLeaseGrace),
        client_port: port(Name::Port),
        tls_port: port(Name::TlsPort),
        tls_cluster: config.flag(Name::TlsCluster),
        appendonly: config.flag(Name::AppendOnly),
        appendfsync: config.text(Name::AppendFsync),
        max_body_bytes: config.number(Name::MaxBodySize),
    };
    given.check().map(Some)
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

    #[test]
    fn the_defaults_do_on_one_machine() {
        let config = config(&[
            ("cluster-node", &["n1"]),
            ("cluster-nodes", &["n1=127.0.0.1:19248,n2=127.0.0.1:19249,n3=127.0.0.1:19250"]),
        ]);
        let options = read_on(&config, "").unwrap().expect("a cluster");
        assert_eq!((options.peer_port, options.election_us), (19_248, 300_000));
        assert_eq!(options.lease_grace_us, 2_000_000);
    }
}
