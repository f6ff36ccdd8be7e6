//! Nodes whose logs are in memory, and the turn of each as the test plays it.

use super::relay::Relay;
use crate::cluster::driver::{Driver, DriverEvent, NodeIdentity, Proposed, Status};
use crate::cluster::members::Members;
use crate::cluster::members::directory;
use crate::cluster::members::names::{Address, Listed, Name};
use crate::cluster::peer::hello::Secret;
use crate::cluster::raft::entry::{Base, LogEntry, Payload, Vote, Write};
use crate::cluster::raft::output::Fetch;
use crate::cluster::raft::start::Start;
use crate::limits::{APPEND_BYTES_MAX, LOG_CACHE_BYTES};
use crate::patience::limit;
use crate::server::clock::timer::boot_us;
use crate::server::cluster::mailbox::Mailbox;
use crate::server::cluster::peer_tls::PeerTls;
use crate::server::cluster::poll::Wakeup;
use crate::server::cluster::raft_loop::{LogDone, NodeLog};
use crate::server::cluster::thread::RaftThread;
use crate::server::connection::wake::Notifier;
use crate::time::Micros;
use bytes::Bytes;
use std::collections::VecDeque;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

pub const ELECTION_US: u64 = 300_000;

/// A log that outlives its node.
#[derive(Default)]
pub struct Store {
    vote: Vote,
    commit: u64,
    pub entries: Vec<LogEntry>,
    /// Where the thread's figures are.
    pub task: Option<std::path::PathBuf>,
    /// The next write fails, or panics.
    pub fails: Option<&'static str>,
    /// Nothing becomes durable.
    pub is_stuck: bool,
    /// Bytes that do not.
    pub stuck_bytes: usize,
}

struct MemoryLog {
    store: Arc<Mutex<Store>>,
    wakeup: Arc<Wakeup>,
    done: Vec<LogDone>,
    /// Messages to deliver once it is not stuck any more.
    held: Vec<LogDone>,
}

impl NodeLog for MemoryLog {
    fn write(&mut self, write: Write) {
        let mut store = self.store.lock().unwrap();
        match store.fails {
            Some("panic") => panic!("the test wants it"),
            Some(cause) => self.done.push(LogDone::Failed(cause.to_owned())),
            None => {
                let Write { number, base, entries, vote, commit } = write;
                assert!(base.is_none());
                if let Some(first) = entries.first() {
                    store.entries.truncate(first.index as usize - 1);
                    assert_eq!(store.entries.len() as u64 + 1, first.index);
                }
                if store.is_stuck {
                    store.stuck_bytes += entries.iter().map(LogEntry::bytes).sum::<usize>();
                }
                store.entries.extend(entries);
                store.vote = vote.unwrap_or(store.vote);
                store.commit = store.commit.max(commit);
                if store.is_stuck {
                    self.held.push(LogDone::Persisted(number));
                } else {
                    self.done.push(LogDone::Persisted(number));
                }
            }
        }
        drop(store);
        self.wakeup.wake();
    }

    fn fetch(&mut self, fetch: Fetch) {
        let (first, end) = (fetch.low as usize - 1, fetch.high as usize - 1);
        let mut entries = self.store.lock().unwrap().entries[first..end].to_vec();
        let mut bytes = 0;
        entries.retain(|entry| {
            bytes += entry.bytes();
            bytes == entry.bytes() || bytes <= APPEND_BYTES_MAX
        });
        self.done.push(LogDone::Fetched(fetch.number, entries));
        self.wakeup.wake();
    }

    fn stamp(&mut self, commit: u64) {
        let mut store = self.store.lock().unwrap();
        store.commit = store.commit.max(commit);
    }

    fn drop_before(&mut self, _: u64) {
        unreachable!("there are no bases here");
    }

    fn take_done(&mut self) -> Vec<LogDone> {
        let mut store = self.store.lock().unwrap();
        if store.task.is_none() {
            let task = std::fs::read_link("/proc/thread-self").unwrap();
            store.task = Some(std::path::Path::new("/proc").join(task));
        }
        if !store.is_stuck {
            self.done.append(&mut self.held);
        }
        std::mem::take(&mut self.done)
    }
}

pub struct TestNode {
    pub name: Name,
    pub id: u64,
    pub mailbox: Arc<Mailbox>,
    pub store: Arc<Mutex<Store>>,
    pub port: Address,
    pub delivered: Vec<LogEntry>,
    pub refused: u64,
    /// Which it leads.
    pub epoch: Option<u64>,
    /// The sequence of its next fact.
    pub next: u64,
    pub thread: Option<Box<dyn FnOnce() + Send>>,
    notifier: Arc<Notifier>,
}

pub struct Cluster {
    pub nodes: Vec<TestNode>,
    pub relays: Vec<Relay>,
    listed: Vec<Listed>,
    secret: &'static str,
    election_us: u64,
    waker: Waker,
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn bind() -> (TcpListener, Address) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::parse(&listener.local_addr().unwrap().to_string()).unwrap();
    (listener, address)
}

impl Cluster {
    /// A cluster of this many nodes, which have not found each other yet.
    pub fn start(count: u64) -> Cluster {
        Cluster::start_over(count, ELECTION_US, |_| ())
    }

    /// As that with another election timeout, over a network that something is done to first.
    pub fn start_over(count: u64, election_us: u64, done: impl FnOnce(&[Relay])) -> Cluster {
        let ports: Vec<_> = (0..count).map(|_| bind()).collect();
        let relays: Vec<Relay> = ports.iter().map(|(_, port)| Relay::start(port)).collect();
        done(&relays);
        let listed = (1..).zip(&relays).map(|(id, relay)| Listed {
            name: Name::new(&format!("n{id}")).unwrap(),
            peer: relay.address.clone(),
        });
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut cluster = Cluster {
            nodes: Vec::new(),
            listed: listed.collect(),
            relays,
            secret: "secret",
            election_us,
            waker,
        };
        for (id, port) in (1..).zip(ports) {
            let node = cluster.node(id, Arc::default(), port);
            cluster.nodes.push(node);
        }
        cluster
    }

    fn node(&self, id: u64, store: Arc<Mutex<Store>>, port: (TcpListener, Address)) -> TestNode {
        let Listed { name, peer } = self.listed[id as usize - 1].clone();
        let notifier = Arc::<Notifier>::default();
        let mailbox = Mailbox::new(Arc::clone(&notifier)).unwrap();
        let start = {
            let store = store.lock().unwrap();
            Start {
                id,
                vote: store.vote,
                commit: store.commit,
                base: Base::default(),
                before: (0, 0),
                terms: Vec::new(),
                applied: 0,
                members: Members::default(),
                entries: store.entries.clone(),
                seed: id + boot_us(),
                cache_bytes: LOG_CACHE_BYTES,
            }
        };
        let own = directory::Node {
            name: name.clone(),
            peer,
            client: Address::new("127.0.0.1", 9000 + id as u16).unwrap(),
            tls: None,
            sentinel: None,
        };
        let identity = NodeIdentity {
            node: id,
            own,
            nodes: self.listed.clone(),
            version: "0.1.0".to_owned(),
            level: 1,
            election_us: self.election_us,
            cluster: 77 + u128::from(id),
            hash_seed: 1,
            removed: None,
        };
        let driver = Driver::new(start, identity, Micros(boot_us())).unwrap();
        let wakeup = Arc::clone(mailbox.wakeup());
        let log =
            MemoryLog { store: Arc::clone(&store), wakeup, done: Vec::new(), held: Vec::new() };
        let (secret, shared) = (Secret::new(self.secret), Arc::clone(&mailbox));
        let thread =
            RaftThread::start(driver, log, shared, vec![port.0], secret, PeerTls::default(), None)
                .unwrap();
        TestNode {
            name,
            id,
            mailbox,
            store,
            port: port.1,
            delivered: Vec::new(),
            refused: 0,
            epoch: None,
            next: 1,
            thread: Some(Box::new(move || drop(thread.stop()))),
            notifier,
        }
    }

    /// Ends a node; how long that took.
    pub fn stop(&mut self, at: usize) -> Duration {
        let began = Instant::now();
        self.nodes[at].thread.take().unwrap()();
        began.elapsed()
    }

    /// Starts a node again that was stopped, with what its log has.
    pub fn restart(&mut self, at: usize) {
        let port = bind();
        self.relays[at].lead_to(&port.1);
        let TestNode { id, store, .. } = &self.nodes[at];
        self.nodes[at] = self.node(*id, Arc::clone(store), port);
    }

    /// Takes all turns' messages, until the condition holds.
    pub fn until(&mut self, what: &str, is: impl FnMut(&mut Cluster) -> bool) {
        self.within(limit(), what, is);
    }

    pub fn within(&mut self, most: Duration, what: &str, mut is: impl FnMut(&mut Cluster) -> bool) {
        let began = Instant::now();
        loop {
            let mut is_news = false;
            for node in &mut self.nodes {
                is_news |= node.notifier.take(&mut Vec::new(), &self.waker).notice;
                node.hear();
            }
            if is(self) {
                return;
            }
            if began.elapsed() > most {
                let statuses: Vec<_> = self.nodes.iter().map(TestNode::status).collect();
                panic!("not after {most:?}: {what}; {statuses:#?}");
            }
            if !is_news {
                // Status changes wake no thread: the status is at most a tick old.
                std::thread::park_timeout(Duration::from_millis(5));
            }
        }
    }

    /// Waits until one of those that run decides, and all that run follow it.
    pub fn leader(&mut self) -> usize {
        let mut found = 0;
        self.until("a leader that all follow", |cluster| {
            let running = |node: &&TestNode| node.thread.is_some();
            let leaders: Vec<usize> =
                (0..cluster.nodes.len()).filter(|at| cluster.nodes[*at].decides()).collect();
            let newest = leaders.into_iter().max_by_key(|at| cluster.nodes[*at].epoch);
            let Some(leader) = newest else { return false };
            found = leader;
            let id = cluster.nodes[leader].id;
            cluster.nodes.iter().filter(running).all(|node| node.status().leader == Some(id))
        });
        found
    }

    /// Waits until the cluster has formed, and for its leader.
    pub fn formed(&mut self) -> usize {
        self.until("formed", |cluster| {
            cluster.nodes.iter().all(|node| node.status().forming.is_none())
        });
        self.leader()
    }

    /// Waits until these have all that this one has proposed.
    pub fn committed(&mut self, leader: usize, nodes: &[usize]) {
        let next = self.nodes[leader].next;
        self.until("everything delivered", |cluster| {
            nodes.iter().all(|at| cluster.nodes[*at].delivered_facts() + 1 == next)
        });
    }

    /// All nodes have received the same messages, as far as each has come.
    pub fn check(&self) {
        let longest = self.nodes.iter().max_by_key(|node| node.delivered.len()).unwrap();
        for node in &self.nodes {
            assert_eq!(node.delivered[..], longest.delivered[..node.delivered.len()]);
            let indices = node.delivered.iter().map(|entry| entry.index);
            assert!(indices.eq(1..=node.delivered.len() as u64));
        }
    }

    /// Term and leader, as all agree on them.
    pub fn term(&self) -> (u64, Option<u64>) {
        let status = self.nodes[0].status();
        (status.term, status.leader)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            if let Some(stop) = node.thread.take() {
                stop();
            }
        }
    }
}

impl TestNode {
    pub fn status(&self) -> Arc<Status> {
        self.mailbox.status().unwrap()
    }

    fn hear(&mut self) {
        let mut told = VecDeque::new();
        self.mailbox.take_told(&mut told);
        for told in told {
            match told {
                DriverEvent::Elected { epoch } => self.epoch = Some(epoch),
                DriverEvent::Followed { .. } => self.epoch = None,
                DriverEvent::Refused { .. } => self.refused += 1,
                DriverEvent::Safe { .. } => {}
                DriverEvent::Restored(_) | DriverEvent::BaseWanted => {
                    unreachable!("the log is whole here")
                }
                DriverEvent::Delivered(entry) => {
                    self.delivered.push(entry);
                    self.next = self.delivered_facts() + 1;
                }
            }
        }
    }

    /// The sequence of the last fact.
    pub fn delivered_facts(&self) -> u64 {
        let last = self.delivered.iter().rev().find_map(|entry| match &entry.payload {
            Payload::Facts(facts) => Some(facts.first + u64::from(facts.count) - 1),
            Payload::Blank | Payload::Members(_) => None,
        });
        last.unwrap_or(0)
    }

    /// Whether it leads and has all that was decided before.
    pub fn decides(&self) -> bool {
        let is_first = |entry: &LogEntry| Some(entry.term) == self.epoch;
        self.thread.is_some() && self.delivered.iter().any(is_first)
    }

    /// A turn decides one fact.
    pub fn propose(&mut self, body: Bytes) {
        let epoch = self.epoch.expect("it leads");
        let (first, now) = (self.next, Micros(1));
        self.next += 1;
        self.mailbox.propose(Proposed { epoch, first, count: 1, now, body });
    }

    /// The processor time of its thread, ns.
    pub fn cpu_ns(&self) -> u64 {
        let task = self.store.lock().unwrap().task.clone().unwrap();
        let text = std::fs::read_to_string(task.join("schedstat")).unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    }
}
