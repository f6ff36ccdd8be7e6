//! Three nodes, each with a folder, ports and a disk of its own.

use crate::processes::relay::{Net, Way};
use crate::support::disk::{Shim, SmallDisk};
use crate::support::faults::{Nodes, ways_of};
use crate::support::http::free_port;
pub use crate::support::patience::until as wait_until;
use crate::support::patience::{limit, seconds};
use crate::support::program::{Folder, Program, Reply, Wire};
use std::net::SocketAddr;
use std::path::PathBuf;

pub const NODES: usize = 3;
pub struct Trio {
    pub folder: Folder,
    pub net: Net,
    /// None where there is no compiler.
    pub disks: Vec<Option<Shim>>,
    /// What each node's folder is on, if that is a file system of its own.
    small: Vec<Option<SmallDisk>>,
    pub addresses: Vec<SocketAddr>,
    peers: Vec<u16>,
    options: Vec<String>,
    /// The program that nodes are started with; that of this build where there is none.
    pub other: Option<PathBuf>,
    programs: Vec<Option<Program>>,
    /// A disk that hangs does so in all that it is asked to do, and not in syncs alone.
    pub hangs_whole: bool,
    /// What was sent over a link that was cut is lost when it is mended, and does not arrive late.
    pub cuts_lose: bool,
}

impl Trio {
    /// Three nodes that have become a cluster, with these options; it has a leader.
    pub fn start(name: &str, options: &[&str]) -> Trio {
        let mut trio = Trio::prepare(name, options);
        (0..NODES).for_each(|node| trio.begin(node));
        trio.leader();
        trio
    }

    /// As [`start`](Trio::start), of nodes that do not run yet.
    pub fn prepare(name: &str, options: &[&str]) -> Trio {
        let peers: Vec<u16> = (0..NODES).map(|_| free_port()).collect();
        let address = |_| SocketAddr::from(([127, 0, 0, 1], free_port()));
        Trio {
            folder: Folder::new(name),
            net: Net::start(&peers),
            disks: (0..NODES).map(|_| Shim::build()).collect(),
            addresses: (0..NODES).map(address).collect(),
            peers,
            options: options.iter().map(|word| (*word).to_owned()).collect(),
            other: None,
            programs: (0..NODES).map(|_| None).collect(),
            small: (0..NODES).map(|_| None).collect(),
            hangs_whole: false,
            cuts_lose: false,
        }
    }

    /// As [`start`](Trio::start), each on a file system of so many bytes that can be filled; where none can be mounted a
    /// disk that is full lets no file be created.
    pub fn start_small(name: &str, options: &[&str], bytes: u64) -> Trio {
        let mut trio = Trio::prepare(name, options);
        trio.small = (0..NODES).map(|_| SmallDisk::mount(bytes)).collect();
        (0..NODES).for_each(|node| trio.begin(node));
        trio.leader();
        trio
    }

    /// What `cluster-nodes` says.
    pub fn list(&self) -> String {
        let node = |node: usize| format!("{}=127.0.0.1:{}", name(node), self.net.ports[node]);
        (0..NODES).map(node).collect::<Vec<_>>().join(",")
    }

    pub fn path(&self, node: usize) -> PathBuf {
        let small = self.small[node].as_ref().map(SmallDisk::path);
        small.unwrap_or_else(|| self.folder.0.join(name(node)))
    }

    /// Starts a node that does not run.
    pub fn begin(&mut self, node: usize) {
        self.begin_with(node, &[]);
    }

    /// With more options; of two that differ the last one is taken.
    pub fn begin_with(&mut self, node: usize, options: &[&str]) {
        assert!(self.programs[node].is_none(), "it runs");
        std::fs::create_dir_all(self.path(node)).unwrap();
        let (port, peer) = (self.addresses[node].port().to_string(), self.peers[node].to_string());
        let (announced, list) = (self.net.ports[node].to_string(), self.list());
        let mut all = vec!["--port", &port, "--cluster-port", &peer];
        all.extend(["--cluster-announce-bus-port", &announced]);
        all.extend(["--cluster-node", name(node), "--cluster-nodes", &list]);
        // So that all that is said is sealed.
        all.extend(["--cluster-secret", "known to all of them"]);
        all.extend(self.options.iter().map(String::as_str));
        all.extend(options);
        let small = self.small[node].as_ref();
        let path = small.map_or_else(|| self.path(node), |small| small.folder().to_owned());
        let mut command = Program::command(&path, &all);
        if let Some(other) = &self.other {
            let plain = std::mem::replace(&mut command, std::process::Command::new(other));
            command.args(plain.get_args());
        }
        if let Some(small) = small {
            command = small.inside(&command);
        }
        if let Some(disk) = &self.disks[node] {
            disk.stand_before(&mut command);
        }
        let program = Program::start_as(command);
        self.programs[node] = Some(program);
    }

    pub fn program(&self, node: usize) -> &Program {
        self.programs[node].as_ref().expect("it runs")
    }

    pub fn runs(&self, node: usize) -> bool {
        self.programs[node].is_some()
    }

    /// Where it listens for peers, without what lies between.
    pub fn peer_port(&self, node: usize) -> u16 {
        self.peers[node]
    }

    /// SIGKILL; its log.
    pub fn kill(&mut self, node: usize) -> String {
        self.programs[node].take().expect("it runs").kill()
    }

    /// SIGTERM, and it ends in good order; its log.
    pub fn stop(&mut self, node: usize) -> String {
        self.programs[node].take().expect("it runs").stop()
    }

    /// One that is to be awaited; it does not run here any more.
    pub fn take(&mut self, node: usize) -> Program {
        self.programs[node].take().expect("it runs")
    }

    /// It ends by itself; its log.
    pub fn ended(&mut self, node: usize) -> String {
        let (status, log) = self.programs[node].take().expect("it runs").ended();
        assert_eq!(status.code(), Some(1), "{log}");
        log
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self, node: usize) -> bool {
        self.programs[node].as_mut().expect("it runs").has_ended()
    }

    /// `delayd check` finds nothing in its folder; it does not run.
    pub fn check(&self, node: usize) {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_delayd"));
        let output = command.arg("check").arg(self.path(node)).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// Stands still until [`go_on`](Trio::go_on).
    pub fn pause(&self, node: usize) {
        self.program(node).pause();
    }

    pub fn go_on(&self, node: usize) {
        self.program(node).go_on();
    }

    /// A connection to a node.
    pub fn wire(&self, node: usize) -> Wire {
        Wire::connect_for(self.addresses[node], limit()).unwrap()
    }

    /// Which node says that it leads, now.
    pub fn try_leader(&self) -> Option<usize> {
        (0..NODES).find(|node| {
            // One that does not answer within this stands still.
            let wire = Wire::connect_for(self.addresses[*node], seconds(2));
            wire.is_ok_and(|mut wire| leads(&mut wire))
        })
    }

    /// Which node leads, once one does.
    pub fn leader(&self) -> usize {
        wait_until("a node leads", || self.try_leader())
    }

    /// One that does not.
    pub fn follower(&self) -> usize {
        (self.leader() + 1) % NODES
    }

    /// Until these three have a vote and are there, and nobody learns. Of a node that lost its disk not the one it was: for a
    /// moment it seems to be there. And until each has what the leader has now: one that is still behind is as good as away, should another one fall
    /// sick.
    pub fn wait_for_voters(&self) {
        let mut begun = None;
        wait_until("all three vote", || {
            // One that has just found out that it does not lead any more closes its connections.
            let id = |node: usize| {
                let mut wire = Wire::connect_for(self.addresses[node], limit()).ok()?;
                wire.try_field("raft_node")
            };
            let ids: Vec<String> = (0..NODES).map(id).collect::<Option<_>>()?;
            let Reply::Array(rows) = self.wire(self.try_leader()?).try_ask("DELAY.CLUSTER").ok()?
            else {
                return None;
            };
            let field = |row: &Reply, name: &str| {
                let mut fields = row.array().expect("a row").chunks(2);
                fields.find_map(|pair| (pair[0].text() == name).then(|| pair[1].clone()))
            };
            let votes = |row: &Reply| {
                let is = |name: &str, words: &[&str]| {
                    field(row, name).is_some_and(|value| words.contains(&value.text()))
                };
                let is_one = ids.iter().any(|id| is("id", &[id]));
                is_one && is("role", &["leader", "follower"]) && is("state", &["online"])
            };
            if rows.len() != NODES || !rows.iter().all(votes) {
                return None;
            }
            let indices: Vec<i64> = rows
                .iter()
                .map(|row| match field(row, "index")? {
                    Reply::Number(index) => Some(index),
                    // A leader of this moment has yet to hear what a follower has.
                    _ => None,
                })
                .collect::<Option<_>>()?;
            let begun = *begun.get_or_insert(indices.iter().copied().max());
            (indices.iter().copied().min() >= begun).then_some(())
        });
    }

    /// The epoch as the node knows it.
    pub fn epoch(&self, node: usize) -> u64 {
        self.wire(node).number("raft_epoch")
    }

    /// Every way from the node and to it.
    pub fn ways_of(node: usize) -> Vec<Way> {
        ways_of(node, NODES)
    }
}

impl Nodes for Trio {
    fn count(&self) -> usize {
        NODES
    }

    fn leader(&self) -> Option<usize> {
        self.try_leader()
    }

    fn kill(&mut self, at: usize) {
        if self.runs(at) {
            Trio::kill(self, at);
        }
    }

    fn start(&mut self, at: usize) {
        if !self.runs(at) {
            self.begin(at);
        }
    }

    fn pause(&mut self, at: usize, _: u64) {
        Trio::pause(self, at);
    }

    fn go_on(&mut self, at: usize) {
        Trio::go_on(self, at);
    }

    fn cut(&mut self, way: Way) {
        self.net.cut(&[way]);
    }

    /// All are cut and mended together here.
    fn mend(&mut self, _: Way) {
        match self.cuts_lose {
            true => self.net.mend_with_losses(),
            false => self.net.mend(),
        }
    }

    fn slow(&mut self, at: usize, sync_us: Option<u64>) {
        let Some(disk) = &self.disks[at] else { return };
        match sync_us {
            Some(us) => disk.set_to("slow", us as i64),
            None => disk.clear("slow"),
        }
    }

    fn hang(&mut self, at: usize, is_on: bool) {
        let Some(disk) = &self.disks[at] else { return };
        match is_on {
            true => disk.set(if self.hangs_whole { "hung" } else { "stuck" }),
            false => ["hung", "stuck"].into_iter().for_each(|what| disk.clear_if_set(what)),
        }
    }

    fn fill(&mut self, at: usize, is_on: bool) {
        match (&self.small[at], &self.disks[at], is_on) {
            (Some(small), _, true) => small.fill(),
            (Some(small), _, false) => small.free(),
            (None, Some(disk), true) => disk.set("full"),
            (None, Some(disk), false) => disk.clear("full"),
            (None, None, _) => {}
        }
    }

    fn lose(&mut self, at: usize, is_on: bool) {
        self.net.lose(at, is_on);
    }
}

pub fn name(node: usize) -> &'static str {
    ["n1", "n2", "n3"][node]
}

/// Whether who answers says that it leads.
pub fn leads(wire: &mut Wire) -> bool {
    let role = wire.try_ask("ROLE");
    matches!(role, Ok(Reply::Array(parts)) if parts[0] == Reply::Bulk(b"master".to_vec()))
}
