//! The nodes, the links between them, the clients, and one heap of events.

mod callers;
mod checks;
mod network;
mod trouble;

use super::audit::Audit;
use super::client::Client;
use super::node::{E, EPOCH, Node, Step};
use super::weather::{Own, Weather};
use crate::support::faults::{Faults, Way};
use checks::Look;
use delayd::cluster::driver::DriverEvent;
use delayd::cluster::peer::frame::Lane;
use delayd::cluster::peer::verify::VerifyNote;
use delayd::cluster::raft::codec::Outgoing;
use delayd::cluster::timing::clocks::ClockNote;
use delayd::limits::{LEADERLESS_US, LEASE_GRACE_MS_DEFAULT, LEVEL};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

pub const MS: u64 = 1_000;
pub const SECOND: u64 = 1_000_000;
const NODES: usize = 3;
/// After healing all nodes are at one digest.
const HEALED_WITHIN: u64 = 30 * SECOND;
/// A turn that is slow, µs.
const TURN_MAX: u64 = 5 * SECOND;
/// After healing somebody decides, once a turn that had been slow is over.
const LED_WITHIN: u64 = LEADERLESS_US + 10 * E + TURN_MAX;

/// Of nodes it is meant for one life.
#[derive(Debug)]
enum Event {
    Node { at: usize, life: u64, what: What },
    Start { at: usize },
    Client { at: usize, number: u64 },
    Look,
    Resumes { at: usize },
}

#[derive(Debug)]
enum What {
    Tick(u64),
    Dial,
    Turn(u64),
    Arrives {
        from: usize,
        frame: Outgoing,
    },
    /// What the clock of the node of this id shows.
    Clock {
        from: u64,
        note: ClockNote,
    },
    /// What the node of this id asks or answers, whether all hold the same.
    Verify {
        from: u64,
        note: VerifyNote,
    },
    /// The connection to that node.
    Lost {
        peer: u64,
    },
    /// The connection from that node.
    Parted {
        peer: u64,
    },
    /// A turn that took long is over.
    TurnEnds,
    Written,
    Stops,
    MakesBase,
    /// A base on its way to that node, the parts in which it still comes, and its message.
    Base {
        to: usize,
        index: u64,
        parts: u64,
        message: Outgoing,
    },
}

pub struct World {
    pub now: u64,
    pub weather: Weather,
    chance: SmallRng,
    nodes: Vec<Node>,
    clients: Vec<Client>,
    pub audit: Audit,
    /// From where to where nothing goes.
    cut: BTreeSet<Way>,
    /// From where to where there is a connection, and the lives of both ends.
    connections: BTreeMap<(usize, usize), (u64, u64)>,
    lanes: BTreeMap<(usize, usize, Lane), u64>,
    events: BTreeMap<(u64, u64), Event>,
    number: u64,
    /// What has come to nodes paused, in order.
    inboxes: Vec<Vec<Event>>,
    /// A hash of all up to each event.
    pub trace: Vec<u64>,
    hasher: DefaultHasher,
    is_healing: bool,
    looks: Vec<Look>,
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut chance = SmallRng::seed_from_u64(seed);
        let weather = Weather::new(NODES, &mut chance);
        let offsets = weather.offsets.iter().enumerate();
        let node = |(at, offset): (usize, &i64)| Node::new(at, NODES, *offset, weather.sync_us);
        World {
            now: 0,
            nodes: offsets.map(node).collect(),
            clients: (0..weather.clients).map(Client::new).collect(),
            audit: Audit::new(weather.skew(), LEASE_GRACE_MS_DEFAULT * MS),
            cut: BTreeSet::new(),
            connections: BTreeMap::new(),
            lanes: BTreeMap::new(),
            events: BTreeMap::new(),
            number: 0,
            inboxes: (0..NODES).map(|_| Vec::new()).collect(),
            trace: Vec::new(),
            hasher: DefaultHasher::new(),
            is_healing: false,
            looks: Vec::new(),
            weather,
            chance,
        }
    }

    /// The whole run of a seed.
    pub fn run(&mut self) {
        for at in 0..NODES {
            let us = self.chance.random_range(0..50 * MS);
            self.after(us, Event::Start { at });
        }
        for at in 0..self.clients.len() {
            self.act_after(at, 100 * MS);
        }
        self.after(self.weather.begin, Event::Look);
        let mut faults =
            Faults::new(self.chance.random(), self.weather.rates.clone(), self.weather.begin);
        faults.longest = 5 * SECOND;
        while let Some(at) = faults.next_before(self.weather.end) {
            self.run_until(at);
            if let Some(which) = faults.act(at, self) {
                self.strike(Own::ALL[which], &mut faults);
            }
        }
        self.run_until(self.weather.end);
        faults.heal(self);
        self.heal();
        self.settle_down();
        let is_there = self.count();
        self.audit.check_kept(&is_there);
        self.audit.check_leases();
        // Jobs fell due meanwhile.
        self.settle_down();
        self.check_replays();
        self.check_compared();
        self.check_standstills();
    }

    fn after(&mut self, us: u64, event: Event) {
        self.number += 1;
        self.events.insert((self.now + us, self.number), event);
    }

    fn node_after(&mut self, us: u64, at: usize, what: What) {
        let life = self.nodes[at].life;
        self.after(us, Event::Node { at, life, what });
    }

    fn act_after(&mut self, at: usize, us: u64) {
        let client = &mut self.clients[at];
        client.number += 1;
        let number = client.number;
        self.after(us, Event::Client { at, number });
    }

    fn run_until(&mut self, end: u64) {
        while let Some(entry) = self.events.first_entry()
            && entry.key().0 <= end
        {
            let ((now, _), event) = entry.remove_entry();
            self.now = now;
            self.note(&event);
            self.happen(event);
        }
        self.now = end;
    }

    fn note(&mut self, event: &Event) {
        self.now.hash(&mut self.hasher);
        match event {
            Event::Node { at, what, .. } => {
                (at, std::mem::discriminant(what)).hash(&mut self.hasher);
                if let What::Arrives { from, frame } = what {
                    (from, &frame.head, &frame.bodies).hash(&mut self.hasher);
                }
            }
            other => format!("{other:?}").hash(&mut self.hasher),
        }
        self.trace.push(self.hasher.finish());
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Start { at } => self.start(at),
            Event::Look => self.look(),
            Event::Resumes { at } if self.nodes[at].is_still(self.now) => {}
            Event::Resumes { at } => self.resume(at),
            Event::Client { at, number } if self.clients[at].number == number => self.act(at),
            Event::Client { .. } => {}
            Event::Node { at, life, what } => {
                let node = &mut self.nodes[at];
                if node.life != life || node.live.is_none() {
                    return;
                }
                if node.is_still(self.now) {
                    self.inboxes[at].push(Event::Node { at, life, what });
                    return;
                }
                self.happen_to(at, what);
            }
        }
    }

    fn happen_to(&mut self, at: usize, what: What) {
        let is_hung = self.nodes[at].is_hung;
        let live = self.nodes[at].live();
        match what {
            What::Tick(number) => {
                if live.tick.is_some_and(|(_, planned)| planned == number) {
                    live.tick = None;
                    self.settle(at);
                }
            }
            What::Dial => {
                self.dial(at);
                self.node_after(50 * MS, at, What::Dial);
            }
            What::Turn(number) => {
                if live.turn.is_some_and(|(_, current)| current == number) {
                    self.turn(at);
                }
            }
            What::TurnEnds => {
                live.propose_decided();
                self.settle(at);
            }
            What::Arrives { from, frame } => self.arrives(at, from, frame),
            What::Clock { from, note } => {
                live.raft.peers.hears_clock(from, note);
                self.settle(at);
            }
            What::Verify { from, note } => {
                live.raft.peers.hears_verify(from, note);
                self.settle(at);
            }
            What::Written if is_hung => self.node_after(5 * MS, at, What::Written),
            What::Written => {
                live.raft.log.end_write();
                self.settle(at);
            }
            What::Lost { peer } => {
                live.raft.peers.loses(peer);
                self.settle(at);
            }
            What::Parted { peer } => {
                live.raft.peers.parts_with(peer);
                self.settle(at);
            }
            What::Stops => self.go_on_stopping(at),
            What::MakesBase => self.make_base(at),
            What::Base { to, index, parts, message } => {
                self.base_goes_on(at, to, (index, parts), message);
            }
        }
    }

    /// A base of what a node has, and the log goes before it.
    fn make_base(&mut self, at: usize) {
        let live = self.nodes[at].live();
        if live.raft.log.is_writing || live.is_in_turn(self.now) {
            return;
        }
        if live.make_base().is_some() {
            self.audit.seen.note("bases made");
        }
        self.settle(at);
    }

    fn start(&mut self, at: usize) {
        if self.nodes[at].live.is_some() {
            return;
        }
        let (now, seed) = (self.now, self.chance.random());
        if self.weather.mixes {
            self.nodes[at].level = self.chance.random_range(1..=LEVEL);
            self.audit.seen.note("versions mixed");
        }
        self.nodes[at].start(now, seed);
        let us = self.chance.random_range(0..20 * MS);
        self.node_after(us, at, What::Dial);
        self.settle(at);
        self.turn_by(at, now);
    }

    /// A turn is to begin by then.
    fn turn_by(&mut self, at: usize, by: u64) {
        let Some(live) = &mut self.nodes[at].live else { return };
        let by = by.max(self.now).max(live.turn_ends);
        if live.turn.is_some_and(|(planned, _)| planned <= by) {
            return;
        }
        let number = self.number + 1;
        live.turn = Some((by, number));
        self.node_after(by - self.now, at, What::Turn(number));
    }

    /// When its raft thread asks to be woken, or somewhat later.
    fn tick_by(&mut self, at: usize) {
        let number = self.number + 1;
        let Some(live) = &mut self.nodes[at].live else { return };
        let by = live.raft.wake_by();
        let by = live.time_of(by.0).max(self.now);
        if live.tick.is_some_and(|(planned, _)| planned == by) {
            return;
        }
        live.tick = Some((by, number));
        let late = self.chance.random_range(0..MS);
        self.node_after(by - self.now + late, at, What::Tick(number));
    }

    fn turn(&mut self, at: usize) {
        let (now, id) = (self.now, self.nodes[at].id);
        let live = self.nodes[at].live();
        live.turn = None;
        live.server.run_at(live.clock(now));
        live.server.drop_base();
        if let Some(asked) = live.server.verification() {
            let tally = asked.tally(id);
            assert_eq!(tally.differ, 0, "nodes hold something else: {asked:?}");
            if tally.running == 0 && live.compared != asked.index {
                live.compared = asked.index;
                self.audit.seen.count("nodes compared", tally.same as u64);
            }
        }
        let progress = live.server.progress();
        let next = live.time_of(live.server.wake_by_us());
        let is_promoted = progress.decides && !live.decides;
        if progress.decides {
            self.audit.decides_at((EPOCH + now).saturating_sub(progress.now.0));
        }
        live.decides = progress.decides;
        let reloads = progress.reloads - live.reloads;
        live.reloads = progress.reloads;
        self.audit.seen.count("engines read again", reloads);
        let is_looked_at = progress.applied.is_multiple_of(8) || self.is_healing;
        if progress.is_settled && is_looked_at && live.digested != progress.applied {
            live.digested = progress.applied;
            let (digest, facts) = live.server.digest();
            assert_eq!(facts, 0, "facts are left");
            self.audit.digest(at, progress.applied, digest);
        }
        if is_promoted {
            self.nodes[at].promoted = Some(progress.now);
            self.audit.seen.note("promotions");
        }
        let live = self.nodes[at].live();
        if live.end_turn(now) {
            let us = live.turn_ends - now;
            self.node_after(us, at, What::TurnEnds);
            self.audit.seen.note("turns slowed");
        }
        self.read_replies(at);
        self.read_looks(at);
        if self.nodes[at].live().wakes_raft() {
            self.settle(at);
        }
        self.turn_by(at, next.max(now + 1));
    }

    /// What a raft thread does when it was woken, and what comes of it.
    fn settle(&mut self, at: usize) {
        let now = self.now;
        let (there, wall) = (self.there(at), self.nodes[at].wall(now));
        let Some(live) = &mut self.nodes[at].live else { return };
        let Step { sent, told, wakes } = live.step(now, there, wall);
        if live.raft.peers.is_full {
            self.audit.seen.note("raft loops without room");
        }
        let wants_base = told.iter().any(|told| matches!(told, DriverEvent::BaseWanted));
        self.hear_told(at, &told);
        if self.nodes[at].live().raft.log.begin_to_write() {
            let node = &self.nodes[at];
            let (low, high) = node.slow_us.map_or(node.sync_us, |us| (us / 2, us));
            let us = self.chance.random_range(low..=high);
            self.node_after(us, at, What::Written);
        }
        self.send_all(at, sent);
        if wakes {
            let us = self.chance.random_range(5..50);
            self.turn_by(at, now + us);
        }
        if wants_base {
            self.node_after(10 * MS, at, What::MakesBase);
        }
        self.tick_by(at);
    }

    /// What the turn is told.
    fn hear_told(&mut self, at: usize, told: &[DriverEvent]) {
        for told in told {
            let led = &mut self.nodes[at].live().led;
            match told {
                DriverEvent::Elected { epoch } => {
                    *led = Some(*epoch);
                    self.audit.leads(*epoch, at);
                }
                DriverEvent::Delivered(entry) => self.audit.delivers(at, entry),
                DriverEvent::Followed { .. } => *led = None,
                DriverEvent::Safe { .. } => {
                    self.audit.seen.note("answered without the leader's disk")
                }
                DriverEvent::Restored(_) => self.audit.seen.note("bases put in place"),
                DriverEvent::BaseWanted => self.audit.seen.note("bases wanted"),
                // It leads again, and was asked to propose what it had decided when it led before.
                DriverEvent::Refused { epoch, .. } if *led > Some(*epoch) => {
                    self.audit.seen.note("batches void");
                }
                DriverEvent::Refused { .. } => self.audit.seen.note("batches refused"),
            }
        }
    }
}
