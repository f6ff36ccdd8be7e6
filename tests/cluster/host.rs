//! A host of a [`Driver`]: its disk, its clock, and a turn with an engine that is a list of facts.

use super::machine::Disk;
use super::world::E;
use bytes::Bytes;
use delayd::cluster::driver::{Driver, DriverEvent, NodeIdentity, Proposed};
use delayd::cluster::members::Members;
use delayd::cluster::members::directory;
use delayd::cluster::members::names::{Address, Listed, Name};
use delayd::cluster::raft::entry::{Base, EpochFacts, LogEntry, Payload};
use delayd::cluster::raft::member::{
    DecidedBatch, Delivery, Effect, EnginePosition, Member, Payload as Says, Role,
};
use delayd::ids::Index;
use delayd::limits::LEVEL;
use delayd::time::Micros;
use std::collections::{BTreeMap, VecDeque};

pub struct Host {
    pub id: u64,
    pub own: directory::Node,
    pub nodes: Vec<Listed>,
    /// It was removed, and waits to be added; with the members as of then.
    pub removed: Option<Vec<Listed>>,
    /// None while it is down.
    pub driver: Option<Driver>,
    pub life: u64,
    /// The format that it says it reads.
    pub level: u32,
    pub disk: Disk,
    /// The engine's state in the base.
    pub base_facts: Vec<u64>,
    pub rate: u64,
    pub paused_until: u64,
    pub inbox: VecDeque<super::site::Event>,
    pub applied: u64,
    /// When its driver is to be called next, and the number of that event.
    pub tick: Option<(u64, u64)>,
    /// The epoch of which it was told that it leads.
    pub led: Option<u64>,
    pub turn: Turn,
}

/// What the turn has: told by the driver some time later.
pub struct Turn {
    pub member: Member,
    pub engine: Vec<u64>,
    pub members: Members,
    pub told: VecDeque<DriverEvent>,
    held: VecDeque<LogEntry>,
    /// Proposed and not taken.
    pub desk: VecDeque<Proposed>,
    ticket: u64,
    /// Decided and not answered: ticket, sequence and value.
    decided: VecDeque<(u64, u64, u64)>,
    pub must_load: bool,
    pub confirmed: u64,
    pub lost: u64,
    pub reloads: u64,
}

pub fn node(at: usize) -> directory::Node {
    let address = |port: u16| Address::new("127.0.0.1", port + at as u16).expect("a port");
    let name = Name::new(&format!("n{}", at + 1)).expect("a name");
    let (tls, sentinel) = (None, None);
    directory::Node { name, peer: address(19_248), client: address(9_248), tls, sentinel }
}

pub fn listed(count: usize) -> Vec<Listed> {
    let listed = |at| Listed { name: node(at).name, peer: node(at).peer };
    (0..count).map(listed).collect()
}

impl Host {
    pub fn new(at: usize, count: usize, rate: u64, sync_us: u64) -> Host {
        Host {
            // Not in the order of the names.
            id: 1_000 - at as u64,
            own: node(at),
            nodes: listed(count),
            removed: None,
            driver: None,
            life: 0,
            level: LEVEL,
            disk: Disk::of(Base::default(), sync_us),
            base_facts: Vec::new(),
            rate,
            paused_until: 0,
            inbox: VecDeque::new(),
            applied: 0,
            tick: None,
            led: None,
            turn: Turn::new(
                Vec::new(),
                Members::default(),
                EnginePosition { index: Index(0), epoch: 0, first: 1 },
            ),
        }
    }

    /// What was replayed before.
    pub fn start(&mut self, now: u64, seed: u64, replay: bool) -> Vec<LogEntry> {
        let (start, replayed) = self.disk.start(self.id, seed, 16 << 10, replay);
        let mut engine = self.base_facts.clone();
        let mut epoch = start.base.term;
        for entry in &replayed {
            apply(&mut engine, entry);
            epoch = entry.term;
        }
        let first = engine.len() as u64 + 1;
        let position = EnginePosition { index: Index(start.applied), epoch, first };
        self.turn = Turn::new(engine, start.members.clone(), position);
        self.applied = start.base.index;
        let identity = NodeIdentity {
            node: self.id,
            own: self.own.clone(),
            nodes: self.nodes.clone(),
            version: "0.1.0".to_owned(),
            level: self.level,
            election_us: E,
            cluster: u128::from(seed) << 64 | 7,
            hash_seed: seed,
            removed: self.removed.clone(),
        };
        let clock = self.clock(now);
        self.driver = Some(Driver::new(start, identity, clock).expect("its disk is right"));
        self.life += 1;
        replayed
    }

    /// Stops at once; of what was not synced the first `kept` writes are there all the same.
    pub fn kill(&mut self, kept: usize) {
        self.disk.lose(kept);
        self.driver = None;
        self.led = None;
        self.life += 1;
        self.paused_until = 0;
        self.inbox.clear();
    }

    pub fn driver(&mut self) -> &mut Driver {
        self.driver.as_mut().expect("it runs")
    }

    /// What its clock shows.
    pub fn clock(&self, now: u64) -> Micros {
        Micros(5_000_000 + (u128::from(now) * u128::from(self.rate) / 1_000_000) as u64)
    }

    /// When its lease runs out, by the world's time; 0 without one.
    pub fn lease_until(&self) -> u64 {
        let until = self.driver.as_ref().and_then(|driver| driver.lease().0);
        let until = until.map_or(0, |until| until.0 - 5_000_000);
        (u128::from(until) * 1_000_000 / u128::from(self.rate)) as u64
    }

    pub fn leads(&self) -> bool {
        self.driver.is_some() && matches!(self.turn.member.role(), Role::Leader { .. })
    }

    /// Reads the engine again, as far as it was delivered.
    pub fn load(&mut self) {
        let position = self.turn.member.position();
        let mut engine = self.base_facts.clone();
        let from = self.disk.base.index;
        assert!(from <= position.index.0, "a base ahead of what was delivered");
        let entries = self.disk.entries.iter();
        for entry in entries.filter(|entry| from < entry.index && entry.index <= position.index.0) {
            apply(&mut engine, entry);
        }
        assert_eq!(engine.len() as u64 + 1, position.first, "what was delivered is durable");
        self.turn.engine = engine;
        self.turn.reloads += 1;
        let _ = self.turn.member.loaded(position);
    }

    /// A base of what the engine has.
    pub fn make_base(&mut self) -> Option<Base> {
        let EnginePosition { index, epoch, .. } = self.turn.member.position();
        let is_new = index.0 > self.disk.base.index && self.turn.member.is_committed();
        is_new.then(|| {
            let base = Base { index: index.0, term: epoch, members: self.turn.members.clone() };
            self.base_facts.clone_from(&self.turn.engine);
            self.disk.put_base(base.clone(), 1);
            base
        })
    }
}

pub fn values(facts: &EpochFacts) -> Vec<u64> {
    let chunks = facts.body.chunks_exact(8);
    chunks.map(|chunk| u64::from_le_bytes(chunk.try_into().expect("eight"))).collect()
}

fn apply(engine: &mut Vec<u64>, entry: &LogEntry) {
    if let Payload::Facts(facts) = &entry.payload {
        assert_eq!(facts.first, engine.len() as u64 + 1, "a gap before entry {}", entry.index);
        let values = values(facts);
        assert_eq!(values.len(), facts.count as usize);
        engine.extend(values);
    }
}

impl Turn {
    fn new(engine: Vec<u64>, members: Members, position: EnginePosition) -> Turn {
        Turn {
            member: Member::new(position),
            engine,
            members,
            told: VecDeque::new(),
            held: VecDeque::new(),
            desk: VecDeque::new(),
            ticket: 0,
            decided: VecDeque::new(),
            must_load: false,
            confirmed: 0,
            lost: 0,
            reloads: 0,
        }
    }

    /// Takes what it was told; what was acknowledged is added to `acked`, by its sequence.
    pub fn take_told(&mut self, acked: &mut BTreeMap<u64, u64>) {
        while let Some(told) = self.told.pop_front() {
            match told {
                DriverEvent::Elected { epoch } => {
                    let _ = self.member.elected(epoch);
                }
                DriverEvent::Followed { leader } => self.member.followed(leader),
                DriverEvent::Delivered(entry) => self.held.push_back(entry),
                DriverEvent::Restored(_) | DriverEvent::BaseWanted => {
                    unreachable!("logs are whole here")
                }
                DriverEvent::Safe { epoch, end } => {
                    if let Some(ticket) = self.member.safe(epoch, end) {
                        self.answer(ticket, acked);
                    }
                }
                DriverEvent::Refused { epoch, first, count } => {
                    let batch = DecidedBatch { epoch, first, count: u64::from(count) };
                    let lost = self.member.refused(batch);
                    if lost.is_some() {
                        self.lose();
                    }
                }
            }
            self.deliver(acked);
        }
        self.deliver(acked);
    }

    fn deliver(&mut self, acked: &mut BTreeMap<u64, u64>) {
        while let Some(entry) = self.held.front() {
            let payload = match &entry.payload {
                Payload::Blank => Says::Blank,
                Payload::Members(_) => Says::Members,
                Payload::Facts(EpochFacts { first, count, .. }) => {
                    let (epoch, count) = (entry.term, u64::from(*count));
                    Says::Facts(DecidedBatch { epoch, first: *first, count })
                }
            };
            let delivery = Delivery { index: Index(entry.index), epoch: entry.term, payload };
            let mut confirmed = 0;
            match self.member.deliver(&delivery) {
                Effect::Wait => return,
                Effect::Reload(_) => {
                    self.lose();
                    return;
                }
                Effect::Apply => apply(&mut self.engine, entry),
                Effect::Confirmed { ticket } => confirmed = ticket,
                Effect::Old | Effect::Passed | Effect::Leads { .. } => {}
            }
            if let Payload::Members(members) = &entry.payload {
                self.members = members.clone();
            }
            self.held.pop_front();
            self.answer(confirmed, acked);
        }
    }

    fn answer(&mut self, ticket: u64, acked: &mut BTreeMap<u64, u64>) {
        while self.decided.front().is_some_and(|(of, _, _)| *of <= ticket) {
            let (_, first, value) = self.decided.pop_front().expect("it was there");
            let before = acked.insert(first, value);
            assert_eq!(before, None, "fact {first} was acknowledged twice");
            self.confirmed += 1;
        }
    }

    fn lose(&mut self) {
        self.lost += self.decided.len() as u64;
        self.decided.clear();
        self.must_load = true;
    }

    /// Decides facts of one turn, each of its own value, if it may.
    pub fn decide(&mut self, now: Micros, values: &[u64], bytes_max: usize) -> bool {
        let Role::Leader { .. } = self.member.role() else { return false };
        self.ticket += 1;
        let batch = self.member.propose(values.len() as u64, self.ticket);
        assert_eq!(batch.first, self.engine.len() as u64 + 1);
        for (first, value) in (batch.first..).zip(values) {
            self.decided.push_back((self.ticket, first, *value));
        }
        self.engine.extend(values);
        let body: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let count = values.len() as u32;
        match self.desk.back_mut() {
            Some(open)
                if open.epoch == batch.epoch && open.body.len() + body.len() <= bytes_max =>
            {
                open.body = [&open.body[..], &body].concat().into();
                open.count += count;
            }
            _ => {
                let (epoch, first) = (batch.epoch, batch.first);
                self.desk.push_back(Proposed { epoch, first, count, now, body: Bytes::from(body) });
            }
        }
        true
    }
}
