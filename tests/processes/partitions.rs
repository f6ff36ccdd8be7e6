//! Three nodes with four partitions each: every partition elects a leader of its own, and clients find them all.

use crate::support::http::free_ports;
use crate::support::patience::until;
use crate::support::program::{Folder, Program, Reply, Wire};
use delayd::hash_slot::{hash_slot, partition_of};
use std::io;
use std::net::SocketAddr;

const PARTITIONS: u16 = 4;

struct Nodes {
    folders: Vec<Folder>,
    /// The first port of each.
    ports: Vec<u16>,
    options: Vec<String>,
    programs: Vec<Option<Program>>,
}

impl Nodes {
    fn start(more: &[&str]) -> Nodes {
        let ports: Vec<u16> = (0..3).map(|_| free_ports(PARTITIONS)).collect();
        let peers: Vec<u16> = (0..3).map(|_| free_ports(PARTITIONS)).collect();
        let listed = peers.iter().enumerate().map(|(n, port)| format!("n{n}=127.0.0.1:{port}"));
        let listed = listed.collect::<Vec<_>>().join(",");
        let folders: Vec<Folder> = (0..3).map(|_| Folder::new("spread")).collect();
        let options = [&["--cluster-partitions", "4", "--cluster-nodes", &listed], more].concat();
        let options = options.into_iter().map(str::to_owned).collect();
        let mut nodes = Nodes { folders, ports, options, programs: vec![None, None, None] };
        (0..3).for_each(|node| nodes.begin(node, peers[node]));
        nodes
    }

    fn begin(&mut self, node: usize, peer: u16) {
        let mut command = Program::command(&self.folders[node].0, &[]);
        command.args(&self.options).arg("--port").arg(self.ports[node].to_string());
        command.arg("--cluster-port").arg(peer.to_string());
        command.args(["--cluster-node", &format!("n{node}")]);
        self.programs[node] = Some(Program::start_as(command));
    }

    fn wire(&self, node: usize, partition: u16) -> io::Result<Wire> {
        Wire::connect(SocketAddr::from(([127, 0, 0, 1], self.ports[node] + partition)))
    }

    fn alive(&self) -> impl Iterator<Item = usize> {
        (0..3).filter(|node| self.programs[*node].is_some())
    }

    /// Which node leads each partition, as the first living node lists them.
    fn leaders(&self) -> Option<Vec<usize>> {
        let asked = self.alive().next().expect("a node");
        let mut wire = self.wire(asked, 1).ok()?;
        let info = wire.try_ask("CLUSTER INFO").ok()?;
        if !info.text().starts_with("cluster_state:ok") {
            return None;
        }
        let leader = |(partition, place): (u16, SocketAddr)| {
            self.ports.iter().position(|first| first + partition == place.port())
        };
        (0..).zip(wire.try_partitions().ok()?).map(leader).collect()
    }

    /// Says it to whoever leads the queue's partition, as a cluster client does.
    fn say(&self, queue: &str, line: &str) -> Reply {
        until(format!("{line} is answered"), || {
            let asked = self.alive().next().expect("a node");
            let mut wire = self.wire(asked, 0).ok()?;
            for _ in 0..4 {
                let reply = wire.try_ask(line).ok()?;
                let Reply::Error(text) = &reply else { return Some(reply) };
                let place = text.strip_prefix("MOVED ")?.split(' ').nth(1)?;
                let partition = partition_of(hash_slot(queue.as_bytes()), PARTITIONS);
                let place: SocketAddr = place.parse().unwrap();
                let is_its = |first: &u16| first + partition == place.port();
                assert!(self.ports.iter().any(is_its), "{queue}: {text}");
                wire = Wire::connect(place).ok()?;
            }
            None
        })
    }
}

#[test]
fn every_partition_has_a_leader_of_its_own_and_loses_nothing_with_it() {
    let mut nodes = Nodes::start(&["--cluster-leader-balance", "no"]);
    until("each partition has a leader", || nodes.leaders());
    for n in 0..80 {
        let added = nodes.say(&format!("q{n}"), &format!("DELAY.ADD q{n} 1h x ID {n}"));
        assert_eq!(added.text(), n.to_string());
    }
    // Some node leads one at least; it is gone with all of its partitions.
    let gone = nodes.leaders().unwrap()[2];
    nodes.programs[gone].take().unwrap().kill();
    until("others lead", || nodes.leaders().filter(|leaders| !leaders.contains(&gone)));
    for n in 0..80 {
        assert_eq!(nodes.say(&format!("q{n}"), &format!("DELAY.LEN q{n}")).number(), 1, "q{n}");
        nodes.say(&format!("q{n}"), &format!("DELAY.ADD q{n} 1h x ID more-{n} NX"));
    }
    let counts = (0..80).map(|n| nodes.say(&format!("q{n}"), &format!("DELAY.LEN q{n}")).number());
    assert_eq!(counts.sum::<i64>(), 160);
}

#[test]
fn leaders_spread_over_the_nodes_by_themselves() {
    // Sooner than by default: 30 E are 4.5 s.
    let nodes = Nodes::start(&["--cluster-election-timeout", "150ms"]);
    // With some work: a disk that was slow in one of the few syncs of an idle node passes for a sick one for a while, and
    // no sick node is asked to lead.
    let queues: Vec<String> = (0..8).map(|n| format!("q{n}")).collect();
    until("the nodes lead in turn", || {
        for queue in &queues {
            nodes.say(queue, &format!("DELAY.ADD {queue} 1h x"));
        }
        nodes.leaders().filter(|leaders| *leaders == [0, 1, 2, 0])
    });
    let logs: String = nodes.programs.iter().flatten().map(Program::log).collect();
    assert!(!logs.contains("ERROR"), "{logs}");
}

/// What a node of another number of partitions would take for its own are other queues.
#[test]
fn a_node_with_another_number_of_partitions_is_refused() {
    let mut nodes = Nodes::start(&[]);
    until("each partition has a leader", || nodes.leaders());
    let peer = nodes.options[3].rsplit_once(':').unwrap().1.parse().unwrap();
    nodes.programs[2].take().unwrap().stop();
    nodes.folders[2] = Folder::new("spread");
    nodes.options[1] = "2".to_owned();
    nodes.begin(2, peer);
    let log = || nodes.programs[2].as_ref().unwrap().log();
    let text = "partition 1 of 2, ";
    until("it is told why", || {
        (log().contains(text) && log().contains(" of 4: cluster-partitions must be the same"))
            .then_some(())
    });
}
