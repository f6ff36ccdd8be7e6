//! Any number of nodes, with nothing between them.

use crate::processes::trio::{leads, wait_until};
use crate::support::http::free_port;
use crate::support::patience::limit;
use crate::support::program::{Folder, Program, Reply, Wire};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Nodes with ports that they keep, any number of which run.
pub struct Nodes {
    folder: Folder,
    pub clients: Vec<u16>,
    pub peers: Vec<u16>,
    pub programs: Vec<Option<Program>>,
    /// Of all of them.
    pub options: Vec<String>,
}

pub fn name(node: usize) -> String {
    format!("n{}", node + 1)
}

impl Nodes {
    pub fn new(title: &str, count: usize) -> Nodes {
        let ports = || (0..count).map(|_| free_port()).collect();
        let programs = (0..count).map(|_| None).collect();
        let (folder, options) = (Folder::new(title), Vec::new());
        Nodes { folder, clients: ports(), peers: ports(), programs, options }
    }

    pub fn path(&self, node: usize) -> PathBuf {
        self.folder.0.join(name(node))
    }

    pub fn list(&self, nodes: &[usize]) -> String {
        let listed = |node: &usize| format!("{}={}", name(*node), self.peer(*node));
        nodes.iter().map(listed).collect::<Vec<_>>().join(",")
    }

    pub fn peer(&self, node: usize) -> String {
        format!("127.0.0.1:{}", self.peers[node])
    }

    pub fn begin(&mut self, node: usize, listed: &[usize]) {
        self.begin_with(node, listed, &[]);
    }

    /// With more options; of two that differ the last one is taken.
    pub fn begin_with(&mut self, node: usize, listed: &[usize], more: &[&str]) {
        std::fs::create_dir_all(self.path(node)).unwrap();
        let (port, peer) = (self.clients[node].to_string(), self.peers[node].to_string());
        let (name, list) = (name(node), self.list(listed));
        let mut options = vec!["--port", &port, "--cluster-port", &peer, "--cluster-node", &name];
        options.extend(["--cluster-nodes", &list, "--cluster-election-timeout", "300ms"]);
        options.extend(self.options.iter().map(String::as_str));
        options.extend(more);
        self.programs[node] = Some(Program::start(&self.path(node), &options));
    }

    pub fn kill(&mut self, node: usize) {
        self.programs[node].take().expect("it runs").kill();
    }

    pub fn wire(&self, node: usize) -> std::io::Result<Wire> {
        Wire::connect_for(SocketAddr::from(([127, 0, 0, 1], self.clients[node])), limit())
    }

    pub fn leader(&self) -> usize {
        wait_until("a node leads", || {
            (0..self.programs.len())
                .filter(|node| self.programs[*node].is_some())
                .find(|node| self.wire(*node).is_ok_and(|mut wire| leads(&mut wire)))
        })
    }

    /// Of whoever leads.
    pub fn ask(&self, line: &str) -> Reply {
        self.wire(self.leader()).unwrap().ask(line)
    }

    /// As [`ask`](Nodes::ask), of one that may have stopped to lead: it closes its connections.
    pub fn try_ask(&self, line: &str) -> Option<Reply> {
        self.wire(self.leader()).ok()?.try_ask(line).ok()
    }

    /// Names and roles, as the leader shows them.
    pub fn roles(&self) -> Vec<(String, String)> {
        let rows = wait_until("a leader shows its members", || {
            let Reply::Array(rows) = self.try_ask("DELAY.CLUSTER")? else { return None };
            Some(rows)
        });
        let field = |row: &Reply, at: usize| row.array().expect("a row")[at].text().to_owned();
        rows.iter().map(|row| (field(row, 1), field(row, 5))).collect()
    }

    pub fn wait_for_voters(&self, nodes: &[usize]) {
        let mut expected: Vec<String> = nodes.iter().map(|node| name(*node)).collect();
        expected.sort();
        wait_until("these are the voters, and all of them", || {
            let roles = self.roles();
            let are_voters =
                roles.iter().all(|(_, role)| ["leader", "follower"].contains(&&**role));
            let names: Vec<String> = roles.into_iter().map(|(name, _)| name).collect();
            (are_voters && names == expected).then_some(())
        });
    }

    /// All of these show so many delayed jobs.
    pub fn wait_for_jobs(&self, nodes: &[usize], count: i64) {
        for node in nodes {
            wait_until("it has all jobs", || {
                let length = self.wire(*node).ok()?.try_ask("DELAY.LEN q").ok()?;
                (length == Reply::Number(count)).then_some(())
            });
        }
    }

    pub fn tool(&self, node: usize, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_delayd"));
        command.arg("cluster").arg(words[0]).arg(self.path(node)).args(&words[1..]);
        command.output().unwrap()
    }
}
