//! A node: its disk, its clocks, and while it runs a server, a log and Raft, hosted as the raft thread does it.

use crate::support::lossy::Lossy;
use delayd::cluster::clocks::ClockNote;
use delayd::cluster::codec::Outgoing;
use delayd::cluster::directory::{self, Directory};
use delayd::cluster::driver::{Driver, DriverOutput, Identity, Proposed, Status, Told};
use delayd::cluster::entry::{Base, Payload};
use delayd::cluster::names::{Address, Listed, Name};
use delayd::cluster::verify::{Missed, VerifyNote};
use delayd::config::Config;
use delayd::engine::Settings;
use delayd::ids::Index;
use delayd::journal::base::{BaseHead, BaseWriter};
use delayd::journal::recovery::{Progress, Replay, recover, recover_beside};
use delayd::journal::state::Members as Noted;
use delayd::journal::{File, Incoming, LogOptions, Offer};
use delayd::limits::{ELECTION_TICKS, HEARTBEAT_TICKS, LEVEL};
use delayd::server::cluster::desk::{Ask, Desk};
use delayd::server::cluster::entry_log::{ArrivedBases, EntryLog, Op};
use delayd::server::cluster::start::{hash_seed, identify, node_start};
use delayd::server::cluster::thread::Done;
use delayd::server::in_memory::InMemory;
use delayd::time::Micros;
use std::collections::VecDeque;
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
    /// Slow until then.
    pub slow_until: u64,
    /// The engine's time when it began to decide last, and in which life.
    pub promoted: Option<Micros>,
}

/// What a process has.
pub struct Live {
    pub server: InMemory,
    pub driver: Driver,
    pub log: EntryLog<Lossy>,
    storage: Arc<Lossy>,
    arrived: ArrivedBases,
    desk: Arc<Desk>,
    born: u64,
    /// To be done by the log, and what it has done that is not told.
    pub ops: VecDeque<Op>,
    pub done: Vec<Done>,
    read: Vec<Done>,
    pub is_writing: bool,
    told: VecDeque<Told>,
    stamped: u64,
    ticks: usize,
    has_heard: bool,
    /// When its next turn is, by virtual time, and the number of that event.
    pub turn: Option<(u64, u64)>,
    /// What a turn has decided that is not over yet, and when it is over. Raft goes on meanwhile.
    pub decided: VecDeque<Proposed>,
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
    /// To nodes of these ids: whether they hold the same, asked and answered.
    pub verify: Vec<(u64, VerifyNote)>,
    /// As of where that was last done.
    pub compared: u64,
}

/// An orderly end, as far as it has come.
#[derive(Clone, Copy, Debug)]
pub enum Stop {
    Drains { until: u64 },
    HandsOver,
}

/// What came of a step of Raft.
#[derive(Default)]
pub struct Step {
    pub messages: Vec<Outgoing>,
    /// Bases to be sent, with their messages.
    pub bases: Vec<(u64, Outgoing)>,
    pub told: Vec<Told>,
    /// The turn has something to do.
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
            slow_until: 0,
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
        let identity = Identity {
            node: self.id,
            own: self.own.clone(),
            nodes: self.listed.clone(),
            version: "0.1.0".to_owned(),
            level: self.level,
            election_us: E,
            cluster: u128::from(seed.max(1)) << 64 | 7,
            hash_seed: seed,
        };
        let wall = Micros(self.wall(now));
        let storage = Arc::clone(&self.storage);
        let (server, log) =
            InMemory::node(Config::default(), wall, &identity, storage, recovered).expect("an fd");
        let mut driver = Driver::new(start, identity, Micros(BOOT)).expect("its disk is right");
        driver.set_max_skew(50_000);
        let desk = Arc::clone(server.desk());
        desk.publish(driver.status());
        let arrived = ArrivedBases::default();
        self.life += 1;
        self.promoted = None;
        self.live = Some(Live {
            server,
            driver,
            log: EntryLog::new(log, Arc::clone(&self.storage), Arc::clone(&arrived), 0),
            storage: Arc::clone(&self.storage),
            arrived,
            desk,
            born: now,
            ops: VecDeque::new(),
            done: Vec::new(),
            read: Vec::new(),
            is_writing: false,
            told: VecDeque::new(),
            stamped: 0,
            ticks: 0,
            has_heard: false,
            turn: None,
            decided: VecDeque::new(),
            turn_ends: 0,
            long_turn: None,
            led: None,
            stop: None,
            decides: false,
            reloads: 0,
            digested: 0,
            verify: Vec::new(),
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

    /// What the thread of Raft does at a tick, and what peers are to be told of this node's clock.
    pub fn tick(&mut self, now: u64, wall: u64, peers: &[u64]) -> Vec<(u64, ClockNote)> {
        let clock = Micros(self.clock(now));
        if self.is_old() {
            self.driver.tick(clock);
            return Vec::new();
        }
        self.driver.set_wall(clock, wall);
        self.driver.tick(clock);
        let is_due = self.driver.tells_clock(clock, Some(self.ticks));
        let note = |peer: &u64| Some((*peer, self.driver.clock_note(clock, *peer)?));
        peers.iter().filter(|_| is_due).filter_map(note).collect()
    }

    /// What a peer shows; older nodes are not told.
    pub fn hear_clock(&mut self, clock: Micros, peer: u64, note: &ClockNote) {
        if !self.is_old() {
            self.driver.clock_heard(clock, peer, note);
        }
    }

    /// What a peer asks or answers, whether all hold the same; older nodes answer nothing.
    pub fn hear_verify(&mut self, peer: u64, note: VerifyNote) {
        match note {
            VerifyNote::Asked { index } if self.is_old() => {
                self.verify.push((peer, VerifyNote::Missed { index, why: Missed::Old }));
            }
            note => self.desk.tell_verify(peer, note),
        }
    }

    fn is_old(&self) -> bool {
        self.driver.claims().level < LEVEL
    }

    /// When that is.
    pub fn time_of(&self, mono_us: u64) -> u64 {
        (mono_us - BOOT).saturating_add(self.born)
    }

    /// What the raft thread does after all that has come: see `server/cluster/thread.rs`.
    pub fn settle(&mut self, now: u64, has_ticked: bool) -> Step {
        let clock = Micros(self.clock(now));
        for done in take(&mut self.done) {
            self.has_heard = true;
            match done {
                Done::Persisted(number) => self.driver.persisted(clock, number),
                Done::Fetched(number, entries) => self.driver.fetched(number, entries),
                Done::Dropped(first) => self.driver.log_dropped(first),
                Done::Failed(cause) => panic!("the log failed: {cause}"),
            }
        }
        for ask in self.desk.take_asks() {
            self.has_heard = true;
            match ask {
                Ask::MayLead(may) => self.driver.set_may_lead(may),
                Ask::HasRoom(has) => self.driver.set_has_room(has),
                Ask::Priority(priority) => self.driver.set_priority(priority),
                Ask::Resign => self.driver.resign(),
                Ask::HandOver(to) => {
                    self.driver.hand_over(clock, to);
                }
                Ask::Change(change) => {
                    // Whoever asked sees whether it came about.
                    let _ = self.driver.change(change);
                }
                Ask::BaseMade(base) => {
                    let index = base.index;
                    self.driver.base_made(base);
                    self.ops.push_back(Op::Drop(index + 1));
                }
                Ask::Verify(to, note) => self.verify.push((to, note)),
                Ask::Stop => {}
            }
        }
        while !self.is_in_turn(now) && self.driver.takes() {
            let Some(batch) = self.decided.pop_front() else { break };
            self.has_heard = true;
            self.driver.propose(batch);
        }
        self.carry_out(clock, has_ticked)
    }

    /// Whether the turn that began last is not over.
    pub fn is_in_turn(&self, now: u64) -> bool {
        now < self.turn_ends
    }

    /// What the turn has decided comes to Raft when it is over; whether that takes its time.
    pub fn end_turn(&mut self, now: u64) -> bool {
        let before = self.decided.len();
        self.decided.extend(std::iter::from_fn(|| self.desk.take_batch()));
        let us = self.long_turn.take_if(|_| self.decided.len() > before);
        self.turn_ends = now + us.unwrap_or(0);
        us.is_some()
    }

    pub fn heard(&mut self) {
        self.has_heard = true;
    }

    fn carry_out(&mut self, clock: Micros, has_ticked: bool) -> Step {
        let DriverOutput { writes, messages, fetches, bases, told, .. } = self.driver.take_output();
        for write in writes {
            self.stamped = self.stamped.max(write.commit);
            self.ops.push_back(Op::Write(write));
        }
        self.ops.extend(fetches.into_iter().map(Op::Fetch));
        let is_news = told.iter().any(changes_the_status);
        self.told.extend(told.iter().cloned());
        self.ticks += usize::from(has_ticked);
        if is_news || has_ticked {
            self.show(is_news);
        }
        let (until, heard) = self.driver.lease();
        let (had_until, had_heard) = self.desk.lease();
        let is_asked = had_until <= clock.0 && heard.is_some_and(|heard| heard.0 != had_heard);
        self.desk.set_lease(clock, until, heard);
        let wakes = is_asked || !self.told.is_empty();
        self.desk.tell(&mut self.told);
        Step { messages, bases, told, wakes }
    }

    /// A base of all that was delivered and is durable, as the keeper makes it; its index. The log may go before it.
    pub fn make_base(&mut self) -> Option<u64> {
        let status = self.driver.status();
        let index = Index(status.applied);
        if status.applied <= status.base || status.applied < status.first {
            return None;
        }
        let view = self.log.log.view();
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
        self.log.log.begin_segment().expect("the disk works");
        let base = Base { index: index.0, term: epoch, members: status.members };
        self.desk.ask(Ask::BaseMade(base));
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
        let Ok(arrived) = incoming.finish(&mut || ()) else { return false };
        let mut waiting = self.arrived.lock().unwrap();
        waiting.retain(|other| other.position().index != arrived.position().index);
        waiting.push(arrived);
        true
    }

    fn show(&mut self, is_news: bool) {
        let is_heartbeat = self.ticks.is_multiple_of(HEARTBEAT_TICKS);
        if !is_heartbeat && !is_news && !take(&mut self.has_heard) {
            return;
        }
        let status = self.driver.status();
        if is_heartbeat && self.ticks.is_multiple_of(ELECTION_TICKS) && status.commit > self.stamped
        {
            self.stamped = status.commit;
            self.ops.push_back(Op::Stamp(status.commit));
        }
        self.desk.publish(status);
    }

    /// The log begins with all that it is asked to do, if it has nothing in hand.
    pub fn begin_to_write(&mut self) -> bool {
        if self.is_writing || self.ops.is_empty() {
            return false;
        }
        self.log.carry_out(&mut self.ops, &mut self.read).expect("the disk works");
        self.is_writing = true;
        true
    }

    /// What it had in hand is done.
    pub fn end_write(&mut self) {
        self.is_writing = false;
        self.done.append(&mut self.read);
        if self.log.is_unsynced() {
            self.log.sync(&mut self.done).expect("the disk works");
        }
    }

    /// What a process would have that starts in what is on the disk now, as an orderly end leaves it: how far it is, and
    /// the digest of its engine.
    pub fn replayed(&mut self, storage: &Arc<Lossy>) -> (u64, u64) {
        self.ops.push_back(Op::Stamp(self.driver.status().commit));
        self.close_log();
        let storage = storage.kill();
        let found = hash_seed(&storage, OPTIONS).expect("its log can be read");
        let settings = Settings { hash_seed: found.expect("of a cluster"), ..Settings::default() };
        let recovered = recover(&storage, OPTIONS, settings, &Progress::default());
        let recovered = recovered.expect("an orderly end leaves what can be read");
        (recovered.index.0, recovered.engine.digest())
    }

    /// All is written that there is, as at an orderly end.
    pub fn close_log(&mut self) {
        self.end_write();
        if self.begin_to_write() {
            self.end_write();
        }
        self.log.log.note_state().expect("the disk works");
        self.log.log.sync().expect("the disk works");
    }
}

/// What the hash of ids begins with, on all nodes.
fn seed_of(status: &Status) -> Option<u64> {
    Directory::decode(&status.members.directory).ok().map(|directory| directory.hash_seed)
}

fn changes_the_status(told: &Told) -> bool {
    match told {
        Told::Elected { .. } | Told::Followed { .. } | Told::Restored(_) => true,
        Told::Delivered(entry) => matches!(entry.payload, Payload::Members(_)),
        Told::Refused { .. } | Told::BaseWanted => false,
    }
}
