//! A node: its disk, its clocks, and while it runs a server, a log, and the loop of the raft thread around Raft.

use super::links::{Links, Sent, There};
use super::log::SlowLog;
use crate::support::lossy::Lossy;
use delayd::cluster::driver::{Driver, DriverEvent, NodeIdentity, Proposed, Status};
use delayd::cluster::members::directory::{self, Directory};
use delayd::cluster::members::names::{Address, Listed, Name};
use delayd::cluster::raft::entry::Base;
use delayd::config::Config;
use delayd::engine::Settings;
use delayd::ids::Index;
use delayd::journal::base::{BaseHead, BaseWriter};
use delayd::journal::record::raft_state::Members as Noted;
use delayd::journal::recovery::{Progress, Replay, recover, recover_beside};
use delayd::journal::{File, Incoming, LogOptions, Offer};
use delayd::limits::LEVEL;
use delayd::server::cluster::bases::ArrivedBases;
use delayd::server::cluster::entry_log::EntryLog;
use delayd::server::cluster::mailbox::{Ask, Mailbox};
use delayd::server::cluster::raft_loop::{LoopNext, NodeLog, RaftLoop};
use delayd::server::cluster::start::{hash_seed, identify, node_start};
use delayd::server::in_memory::InMemory;
use delayd::time::Micros;
use std::mem::take;
use std::sync::Arc;

/// E, µs.
pub const E: u64 = 300_000;
/// Virtual time begins here on the wall clock, µs.
pub const EPOCH: u64 = 1_893_456_000_000_000;
/// What a monotonic clock shows when its node starts.
const BOOT: u64 = 1_000_000;
const OPTIONS: LogOptions = LogOptions { segment_bytes: 64 << 10, shard: 0, spares_max: 2 };

pub struct Node {
    pub id: u64,
    pub own: directory::Node,
    pub listed: Vec<Listed>,
    pub storage: Arc<Lossy>,
    /// What its wall clock is ahead, µs.
    pub offset: i64,
    /// Of what it reads, of the version that is started next.
    pub level: u32,
    /// Grows with each start and each end.
    pub life: u64,
    /// None while it is down.
    pub live: Option<Live>,
    pub paused_until: u64,
    /// How long a sync takes, µs: from, to.
    pub sync_us: (u64, u64),
    /// How long they take while the disk is slow, at most.
    pub slow_us: Option<u64>,
    /// What its log has in hand does not end.
    pub is_hung: bool,
    /// The engine's time when it began to decide last, and in which life.
    pub promoted: Option<Micros>,
}

/// What a process has.
pub struct Live {
    pub server: InMemory,
    pub raft: RaftLoop<SlowLog, Links>,
    storage: Arc<Lossy>,
    arrived: ArrivedBases,
    mailbox: Arc<Mailbox>,
    born: u64,
    /// When its raft thread is to be woken, by virtual time, and the number of that event.
    pub tick: Option<(u64, u64)>,
    /// When its next turn is, by virtual time, and the number of that event.
    pub turn: Option<(u64, u64)>,
    /// What a turn has decided that is not over yet, and when it is over. Raft goes on meanwhile.
    decided: Vec<Proposed>,
    pub turn_ends: u64,
    /// How long the next turn takes that decides something, µs.
    pub long_turn: Option<u64>,
    /// The epoch that it leads, as Raft says.
    pub led: Option<u64>,
    pub stop: Option<Stop>,
    pub decides: bool,
    pub reloads: u64,
    /// The index at which its engine was looked at last.
    pub digested: u64,
    /// As of where nodes were compared last.
    pub compared: u64,
}

/// An orderly end, as far as it has come.
#[derive(Clone, Copy, Debug)]
pub enum Stop {
    Drains { until: u64 },
    HandsOver,
}

/// What came of a step of Raft.
pub struct Step {
    pub sent: Sent,
    pub told: Vec<DriverEvent>,
    /// The turn was woken.
    pub wakes: bool,
}

pub fn told_node(at: usize) -> directory::Node {
    let address = |port: u16| Address::new("127.0.0.1", port + at as u16).expect("a port");
    let name = Name::new(&format!("n{}", at + 1)).expect("a name");
    let (tls, sentinel) = (None, None);
    directory::Node { name, peer: address(19_248), client: address(9_248), tls, sentinel }
}

impl Node {
    pub fn new(at: usize, count: usize, offset: i64, sync_us: (u64, u64)) -> Node {
        let listed = |at| Listed { name: told_node(at).name, peer: told_node(at).peer };
        Node {
            // Not in the order of the names.
            id: 1_000 - at as u64,
            own: told_node(at),
            listed: (0..count).map(listed).collect(),
            storage: Lossy::new(),
            offset,
            level: LEVEL,
            life: 0,
            live: None,
            paused_until: 0,
            sync_us,
            slow_us: None,
            is_hung: false,
            promoted: None,
        }
    }

    /// A process starts in what is on its disk.
    pub fn start(&mut self, now: u64, seed: u64) {
        let found = hash_seed(&self.storage, OPTIONS).expect("its log can be read");
        let settings = Settings { hash_seed: found.unwrap_or(seed), ..Settings::default() };
        let recovered = recover(&self.storage, OPTIONS, settings, &Progress::default());
        let mut recovered = recovered.expect("a crash leaves what can be read");
        let id = identify(&mut recovered.log, recovered.base_index, &self.own.name, self.id);
        assert_eq!(id.expect("its own folder"), self.id);
        let start = node_start(&recovered, self.id, seed).expect("its own log");
        let identity = NodeIdentity {
            node: self.id,
            own: self.own.clone(),
            nodes: self.listed.clone(),
            version: "0.1.0".to_owned(),
            level: self.level,
            election_us: E,
            cluster: u128::from(seed.max(1)) << 64 | 7,
            hash_seed: seed,
            removed: None,
        };
        let wall = Micros(self.wall(now));
        let storage = Arc::clone(&self.storage);
        let (server, log) =
            InMemory::node(Config::default(), wall, &identity, storage, recovered).expect("an fd");
        let mut driver = Driver::new(start, identity, Micros(BOOT)).expect("its disk is right");
        driver.set_max_skew(50_000);
        let mailbox = Arc::clone(server.mailbox());
        let arrived = ArrivedBases::default();
        let log = EntryLog::new(log, Arc::clone(&self.storage), Arc::clone(&arrived), 0);
        let (log, links) = (SlowLog::new(log), Links::default());
        self.life += 1;
        self.promoted = None;
        self.live = Some(Live {
            server,
            raft: RaftLoop::new(driver, log, links, Arc::clone(&mailbox)),
            storage: Arc::clone(&self.storage),
            arrived,
            mailbox,
            born: now,
            tick: None,
            turn: None,
            decided: Vec::new(),
            turn_ends: 0,
            long_turn: None,
            led: None,
            stop: None,
            decides: false,
            reloads: 0,
            digested: 0,
            compared: 0,
        });
    }

    /// The process is gone.
    pub fn end(&mut self, storage: Arc<Lossy>) {
        self.storage = storage;
        self.live = None;
        self.life += 1;
        self.paused_until = 0;
        self.promoted = None;
    }

    pub fn live(&mut self) -> &mut Live {
        self.live.as_mut().expect("it runs")
    }

    /// What its wall clock shows, µs.
    pub fn wall(&self, now: u64) -> u64 {
        (EPOCH + now).saturating_add_signed(self.offset)
    }

    pub fn decides(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.decides)
    }

    pub fn is_still(&self, now: u64) -> bool {
        now < self.paused_until
    }
}

impl Live {
    /// What its monotonic clock shows, µs.
    pub fn clock(&self, now: u64) -> u64 {
        BOOT + now - self.born
    }

    /// When that is; what was due before it started is due then.
    pub fn time_of(&self, mono_us: u64) -> u64 {
        mono_us.saturating_sub(BOOT).saturating_add(self.born)
    }

    /// The raft thread wakes and takes up all that there is, with these connections; `wall` is what the wall clock
    /// shows. It sleeps again when nothing wakes it any more.
    pub fn step(&mut self, now: u64, there: Vec<There>, wall: u64) -> Step {
        let clock = Micros(self.clock(now));
        let mut told = Vec::new();
        self.raft.peers.now = clock;
        self.raft.peers.there = there;
        loop {
            self.mailbox.wakeup().begin_to_look();
            let next = self.raft.step(clock, wall, |one| told.push(one.clone()));
            assert_eq!(
                next,
                LoopNext::Wait,
                "it takes no part any more: {:?}",
                self.mailbox.failure()
            );
            if !self.raft.is_awake() && !self.mailbox.wakeup().is_rung() {
                break;
            }
        }
        Step { sent: take(&mut self.raft.peers.out), told, wakes: self.server.has_news() }
    }

    /// Whether the turn has woken the raft thread.
    pub fn wakes_raft(&self) -> bool {
        self.mailbox.wakeup().is_rung()
    }

    /// Whether the turn that began last is not over.
    pub fn is_in_turn(&self, now: u64) -> bool {
        now < self.turn_ends
    }

    /// What a turn has decided that takes long comes to Raft when it is over; whether it takes long.
    pub fn end_turn(&mut self, now: u64) -> bool {
        let is_long = self.long_turn.is_some() && self.mailbox.waiting_bytes() > 0;
        let us = self.long_turn.take_if(|_| is_long);
        if us.is_some() {
            self.decided.extend(std::iter::from_fn(|| self.mailbox.take_batch()));
        }
        self.turn_ends = now + us.unwrap_or(0);
        us.is_some()
    }

    /// The turn that took long is over.
    pub fn propose_decided(&mut self) {
        take(&mut self.decided).into_iter().for_each(|batch| self.mailbox.propose(batch));
    }

    /// A base of all that was delivered and is durable, as the keeper makes it; its index. The log may go before it.
    pub fn make_base(&mut self) -> Option<u64> {
        let status = self.raft.driver.status();
        let index = Index(status.applied);
        if status.applied <= status.base || status.applied < status.first {
            return None;
        }
        let view = self.raft.log.entries.log.view();
        let settings = Settings { hash_seed: seed_of(&status)?, ..Settings::default() };
        let read = recover_beside(&*self.storage, &view, index, settings, &Progress::default());
        let (mut engine, replay, _) = read.expect("what is delivered is in its log");
        assert_eq!(replay.index, index);
        let Replay { first, now, epoch, .. } = replay;
        let head = BaseHead { index, first, now, epoch, shard: 0 };
        let mut writer = BaseWriter::begin(&self.storage, head).expect("the disk works");
        let mut body = Vec::new();
        status.members.encode(&mut body);
        writer.set_members(Noted { epoch, index, body });
        engine.begin_base();
        loop {
            let is_whole = engine.base_slice(100, 1 << 16);
            let images = take(engine.base_output());
            if !images.is_empty() {
                writer.write(&images).expect("the disk works");
            }
            if is_whole {
                break;
            }
        }
        writer.finish().expect("the disk works");
        // So that something is before the segment that is written.
        self.raft.log.entries.log.begin_segment().expect("the disk works");
        let base = Base { index: index.0, term: epoch, members: status.members };
        self.mailbox.ask(Ask::BaseMade(base));
        Some(index.0)
    }

    /// Takes a part of a base that another node has, or the rest of it; whether it is whole, and laid down for the log.
    pub fn take_base(&mut self, from: &Lossy, index: u64, parts: u64) -> bool {
        let Ok((offer, file)) = Offer::of(from, Index(index)) else { return false };
        let is_kept = |index: Index| {
            self.arrived.lock().unwrap().iter().any(|one| one.position().index == index)
        };
        let mut incoming = Incoming::begin(&self.storage, offer, &is_kept).expect("the disk works");
        let rest = offer.bytes - incoming.bytes();
        let mut piece = vec![0; (rest / parts) as usize];
        assert_eq!(file.read_full(&mut piece, incoming.bytes()).unwrap(), piece.len());
        incoming.write(&piece).expect("the disk works");
        if !incoming.is_whole() {
            return false;
        }
        // Pieces from before a loss of power may be missing within.
        let Ok(arrived) = incoming.finish(&mut |_, _| ()) else { return false };
        let mut waiting = self.arrived.lock().unwrap();
        waiting.retain(|other| other.position().index != arrived.position().index);
        waiting.push(arrived);
        true
    }

    /// What a process would have that starts in what is on the disk now, as an orderly end leaves it: how far it is, and
    /// the digest of its engine.
    pub fn replayed(&mut self, storage: &Arc<Lossy>) -> (u64, u64) {
        let commit = self.raft.driver.status().commit;
        self.raft.log.stamp(commit);
        self.raft.log.close();
        let storage = storage.kill();
        let found = hash_seed(&storage, OPTIONS).expect("its log can be read");
        let settings = Settings { hash_seed: found.expect("of a cluster"), ..Settings::default() };
        let recovered = recover(&storage, OPTIONS, settings, &Progress::default());
        let recovered = recovered.expect("an orderly end leaves what can be read");
        (recovered.index.0, recovered.engine.digest())
    }
}

/// What the hash of ids begins with, on all nodes.
fn seed_of(status: &Status) -> Option<u64> {
    Directory::decode(&status.members.directory).ok().map(|directory| directory.hash_seed)
}
