//! Nodes with several partitions, as the tests of partitions start, move and ask them.

use crate::processes::trio::leads;
use crate::support::http::free_ports;
use crate::support::patience::until;
use crate::support::program::{Folder, Program, Reply, Wire};
use delayd::hash_slot::{hash_slot, partition_of};
use std::io;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

pub const PARTITIONS: u16 = 4;

pub fn partition_of_queue(queue: &str) -> u16 {
    partition_of(hash_slot(queue.as_bytes()), PARTITIONS)
}

/// Nodes of four partitions each, which begin as three.
pub struct Nodes {
    pub folders: Vec<Folder>,
    /// The first port of each,
    pub ports: Vec<u16>,
    /// and the first for peers.
    pub peers: Vec<u16>,
    pub options: Vec<String>,
    pub programs: Vec<Option<Program>>,
}

impl Nodes {
    pub fn start(more: &[&str]) -> Nodes {
        let ports: Vec<u16> = (0..3).map(|_| free_ports(PARTITIONS)).collect();
        let peers: Vec<u16> = (0..3).map(|_| free_ports(PARTITIONS)).collect();
        let listed = peers.iter().enumerate().map(|(n, port)| format!("n{n}=127.0.0.1:{port}"));
        let listed = listed.collect::<Vec<_>>().join(",");
        let folders: Vec<Folder> = (0..3).map(|_| Folder::new("spread")).collect();
        let options = [&["--cluster-partitions", "4", "--cluster-nodes", &listed], more].concat();
        let options = options.into_iter().map(str::to_owned).collect();
        let mut nodes = Nodes { folders, ports, peers, options, programs: vec![None, None, None] };
        (0..3).for_each(|node| nodes.begin(node));
        nodes
    }

    /// Another one, which is no member yet: its name, and where its peers find it.
    pub fn join(&mut self) -> String {
        let node = self.programs.len();
        self.folders.push(Folder::new("spread"));
        self.ports.push(free_ports(PARTITIONS));
        self.peers.push(free_ports(PARTITIONS));
        self.programs.push(None);
        self.begin(node);
        self.place(node)
    }

    /// As `cluster-nodes` has it.
    pub fn place(&self, node: usize) -> String {
        format!("n{node}=127.0.0.1:{}", self.peers[node])
    }

    pub fn begin(&mut self, node: usize) {
        let mut command = Program::command(&self.folders[node].0, &[]);
        let peer = self.peers[node];
        command.args(&self.options).arg("--port").arg(self.ports[node].to_string());
        command.arg("--cluster-port").arg(peer.to_string());
        if !self.options[3].contains(&format!("n{node}=")) {
            let list = format!("{},n{node}=127.0.0.1:{peer}", self.options[3]);
            command.args(["--cluster-nodes", &list]);
        }
        command.args(["--cluster-node", &format!("n{node}")]);
        self.programs[node] = Some(Program::start_as(command));
    }

    pub fn wire(&self, node: usize, partition: u16) -> io::Result<Wire> {
        Wire::connect(SocketAddr::from(([127, 0, 0, 1], self.ports[node] + partition)))
    }

    pub fn alive(&self) -> impl Iterator<Item = usize> {
        (0..self.programs.len()).filter(|node| self.programs[*node].is_some())
    }

    /// Which node leads each partition, as the first living node lists them.
    pub fn leaders(&self) -> Option<Vec<usize>> {
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

    /// To the node that leads the partition, if one does.
    pub fn leader(&self, partition: u16) -> Option<Wire> {
        let mut wires = self.alive().filter_map(|node| self.wire(node, partition).ok());
        wires.find_map(|mut wire| leads(&mut wire).then_some(wire))
    }

    /// The nodes of each partition, as its leader has them.
    pub fn placed(&self) -> Vec<Vec<String>> {
        let of = |partition| {
            let mut leader =
                until(format!("partition {partition} is led"), || self.leader(partition));
            let rows = leader.ask("DELAY.CLUSTER");
            let rows = rows.array().unwrap().iter().map(|row| row.array().unwrap());
            let is_member = |row: &&[Reply]| ["leader", "follower"].contains(&row[5].text());
            rows.filter(is_member).map(|row| row[1].text().to_owned()).collect()
        };
        (0..PARTITIONS).map(of).collect()
    }

    pub fn balancing(&self, asked: usize, more: &[&str]) -> Command {
        let place = format!("127.0.0.1:{}", self.ports[asked] + 1);
        let mut command = Command::new(env!("CARGO_BIN_EXE_delayd"));
        command.args(["cluster", "balance", &place, "--yes"]).args(more);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Says it to whoever leads the queue's partition, as a cluster client does.
    pub fn say(&self, queue: &str, line: &str) -> Reply {
        self.say_from(self.alive().next().expect("a node"), queue, line)
    }

    /// The same, asking that node first.
    pub fn say_from(&self, asked: usize, queue: &str, line: &str) -> Reply {
        until(format!("{line} is answered, asked at n{asked}"), || {
            let mut wire = self.wire(asked, 0).ok()?;
            for _ in 0..4 {
                let reply = wire.try_ask(line).ok()?;
                let Reply::Error(text) = &reply else { return Some(reply) };
                let place = text.strip_prefix("MOVED ")?.split(' ').nth(1)?;
                let partition = partition_of_queue(queue);
                let place: SocketAddr = place.parse().unwrap();
                let is_its = |first: &u16| first + partition == place.port();
                assert!(self.ports.iter().any(is_its), "{queue}: {text}");
                wire = Wire::connect(place).ok()?;
            }
            None
        })
    }
}
