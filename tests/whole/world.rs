//! The nodes, the links between them, the clients, and one heap of events.

use super::audit::{Audit, Job};
use super::client::{Client, From, Kind, Next, queue_name};
use super::node::{E, EPOCH, Node, Step, Stop};
use super::reply::{self, Reply};
use super::weather::{Fault, Weather};
use delayd::cluster::claims::NodeId;
use delayd::cluster::clocks::ClockNote;
use delayd::cluster::codec::{Head, Outgoing};
use delayd::cluster::driver::{Dial, Told};
use delayd::cluster::frame::{Inbox, Lane};
use delayd::cluster::hello::{Called, Handshake, Secret, Way};
use delayd::cluster::verify::{Missed, Tally, VerifyNote};
use delayd::limits::{LEADERLESS_US, LEASE_GRACE_MS_DEFAULT, LEVEL, SHUTDOWN_MS_MAX};
use delayd::server::in_memory::FarEnd;
use delayd::time::Micros;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::take;
use std::sync::Arc;

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
    Fault,
    Overthrow,
    Look,
    Resumes { at: usize },
    Healed { from: usize, to: usize },
}

#[derive(Debug)]
enum What {
    Tick,
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
    /// A connection with that node.
    Lost {
        peer: u64,
    },
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
    /// From where to where nothing goes, and until when.
    cut: BTreeMap<(usize, usize), u64>,
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

/// Somebody asks a node for a job, and was not answered yet.
struct Look {
    at: usize,
    life: u64,
    far: FarEnd,
    job: usize,
    asked: u64,
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
            cut: BTreeMap::new(),
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
        self.after(self.weather.begin, Event::Fault);
        self.after(self.weather.begin, Event::Look);
        self.run_until(self.weather.end);
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

    /// Waits until all nodes have all that is committed, and nothing else.
    fn settle_down(&mut self) {
        let (healed, mut looked, mut is_led) = (self.now, self.now, false);
        while !self.is_equal() {
            is_led |= self.nodes.iter().any(Node::decides);
            assert!(is_led || looked < healed + LED_WITHIN, "nobody leads: {}", self.shown());
            assert!(looked < healed + HEALED_WITHIN, "not equal within 30 s: {}", self.shown());
            looked += 100 * MS;
            self.run_until(looked);
        }
    }

    /// A process that starts in what is on a node's disk has what the node has.
    fn check_replays(&mut self) {
        for node in &mut self.nodes {
            let Node { live, storage, .. } = node;
            let live = live.as_mut().expect("all run");
            let progress = live.server.progress();
            let (applied, digest) = (progress.applied, live.server.digest().0);
            let replayed = live.replayed(storage);
            assert_eq!(replayed, (applied, digest), "a replay of its log differs");
        }
    }

    /// A follower stands still, and answers before its Raft has told it anything: of what it had then it tells nothing.
    fn check_standstills(&mut self) {
        let now = self.now;
        for at in 0..NODES {
            let live = self.nodes[at].live();
            if live.server.progress().decides {
                continue;
            }
            let mut ask = |us: u64| {
                live.server.run_at(live.clock(now + us));
                let far = live.server.connect();
                far.send(b"DELAY.LEN q\r\n");
                live.server.run();
                reply::take(&mut far.receive()).expect("it answers")
            };
            // One of an older version knows nothing of its age.
            if !matches!(ask(1), Reply::Integer(_)) {
                continue;
            }
            self.audit.seen.note("followers stood still");
            let refused = ask(5 * E);
            let is_right = matches!(&refused, Reply::Error(text) if text.starts_with("MASTERDOWN"));
            assert!(is_right, "it is too old: {refused:?}");
        }
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
            Event::Fault => self.fault(),
            Event::Overthrow => self.overthrow(),
            Event::Look => self.look(),
            Event::Resumes { at } if self.nodes[at].is_still(self.now) => {}
            Event::Resumes { at } => self.resume(at),
            Event::Client { at, number } if self.clients[at].number == number => self.act(at),
            Event::Client { .. } => {}
            Event::Healed { from, to } => {
                if self.cut.get(&(from, to)).is_some_and(|until| *until <= self.now) {
                    self.cut.remove(&(from, to));
                    // What was sent meanwhile is lost, and so is the connection.
                    self.disconnect(from, to);
                    self.disconnect(to, from);
                }
            }
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
        let now = self.now;
        let live = self.nodes[at].live();
        let clock = Micros(live.clock(now));
        match what {
            What::Tick => {
                let us = live.driver.tick_us();
                self.tell_clock(at);
                let late = self.chance.random_range(0..MS);
                self.node_after(us + late - MS / 2, at, What::Tick);
                self.settle(at, true);
            }
            What::Dial => {
                self.dial(at);
                self.node_after(50 * MS, at, What::Dial);
            }
            What::Turn(number) => {
                if live.turn.is_some_and(|(_, current)| current == number) {
                    if !live.decided.is_empty() {
                        // The turn before ends here.
                        self.settle(at, false);
                    }
                    self.turn(at);
                }
            }
            What::Arrives { from, frame } => self.arrives(at, from, frame, clock),
            What::Clock { from, note } => live.hear_clock(clock, from, &note),
            What::Verify { from, note } => {
                live.hear_verify(from, note);
                self.settle(at, false);
                self.turn_by(at, now);
            }
            What::Written => {
                live.end_write();
                self.settle(at, false);
            }
            What::Lost { peer } => {
                live.driver.unreachable(peer);
                self.settle(at, false);
            }
            What::Stops => self.go_on_stopping(at),
            What::MakesBase => self.make_base(at),
            What::Base { to, index, parts, message } => {
                self.base_goes_on(at, to, (index, parts), message);
            }
        }
    }

    /// A part of a base arrives, or all of what is left of it, unless somebody is away.
    fn base_goes_on(&mut self, at: usize, to: usize, (index, parts): (u64, u64), frame: Outgoing) {
        let id = frame.to;
        let is_there = self.connections.get(&(at, to)) == Some(&self.lives(at, to));
        let is_away = !is_there
            || self.nodes[to].id != id
            || self.is_cut(at, to)
            || self.nodes[to].is_still(self.now);
        if is_away || self.chance.random_range(0..1_000_000) < self.weather.loss {
            self.audit.seen.note("bases broken off");
            self.nodes[at].live().driver.base_ended(id, false);
            return self.settle(at, false);
        }
        let from = Arc::clone(&self.nodes[at].storage);
        let (now, live) = (self.now, self.nodes[to].live());
        if live.take_base(&from, index, parts) {
            let (peer, clock) = (self.nodes[at].id, Micros(self.nodes[to].live().clock(now)));
            let head = Head::read(&frame.head).expect("a driver wrote it");
            let received = self.nodes[to].live().driver.receive(clock, peer, head, frame.bodies);
            received.expect("of this cluster");
            self.audit.seen.note("bases received");
            self.settle(to, false);
            self.nodes[at].live().driver.base_ended(id, true);
        } else if parts > 1 {
            self.nodes[at].live().driver.base_moves(id);
            let us = self.chance.random_range(MS..SECOND / 2);
            let what = What::Base { to, index, parts: parts - 1, message: frame };
            return self.node_after(us, at, what);
        } else {
            // Its file has given way to a newer one, or a part was not what it was.
            self.audit.seen.note("bases begun anew");
            self.nodes[at].live().driver.base_ended(id, false);
        }
        self.settle(at, false);
    }

    /// A base of what a node has, and the log goes before it.
    fn make_base(&mut self, at: usize) {
        let live = self.nodes[at].live();
        if live.is_writing || live.is_in_turn(self.now) {
            return;
        }
        if live.make_base().is_some() {
            self.audit.seen.note("bases made");
        }
        self.settle(at, false);
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
        for (what, most) in [(What::Tick, E / 30), (What::Dial, 20 * MS)] {
            let us = self.chance.random_range(0..most);
            self.node_after(us, at, what);
        }
        self.settle(at, false);
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
        if self.nodes[at].live().end_turn(now) {
            self.audit.seen.note("turns slowed");
        }
        self.read_replies(at);
        self.read_looks(at);
        self.settle(at, false);
        self.turn_by(at, next.max(now + 1));
    }

    /// What a raft thread does when it was woken, and what comes of it.
    fn settle(&mut self, at: usize, has_ticked: bool) {
        let now = self.now;
        let Some(live) = &mut self.nodes[at].live else { return };
        let Step { messages, bases, told, wakes } = live.settle(now, has_ticked);
        let wants_base = told.iter().any(|told| matches!(told, Told::BaseWanted));
        for (to, note) in take(&mut live.verify) {
            self.send_verify(at, to, note);
        }
        for told in &told {
            let led = &mut self.nodes[at].live().led;
            match told {
                Told::Elected { epoch } => {
                    *led = Some(*epoch);
                    self.audit.leads(*epoch, at);
                }
                Told::Delivered(entry) => self.audit.delivers(at, entry),
                Told::Followed { .. } => *led = None,
                Told::Restored(_) => self.audit.seen.note("bases put in place"),
                Told::BaseWanted => self.audit.seen.note("bases wanted"),
                // It leads again, and was asked to propose what it had decided when it led before.
                Told::Refused { epoch, .. } if *led > Some(*epoch) => {
                    self.audit.seen.note("batches void");
                }
                Told::Refused { .. } => self.audit.seen.note("batches refused"),
            }
        }
        if self.nodes[at].live().begin_to_write() {
            let node = &self.nodes[at];
            let slow = now < node.slow_until;
            let (low, high) = if slow { (50 * MS, 800 * MS) } else { node.sync_us };
            let us = self.chance.random_range(low..=high);
            self.node_after(us, at, What::Written);
        }
        for frame in messages {
            self.send(at, frame);
        }
        for (index, message) in bases {
            let is_to = |node: &Node| node.id == message.to;
            let Some(to) = self.nodes.iter().position(is_to) else { continue };
            let (us, parts) =
                (self.chance.random_range(MS..SECOND / 2), self.chance.random_range(1..4));
            self.node_after(us, at, What::Base { to, index, parts, message });
        }
        if wakes {
            let us = self.chance.random_range(5..50);
            self.turn_by(at, now + us);
        }
        if wants_base {
            self.node_after(10 * MS, at, What::MakesBase);
        }
    }

    fn arrives(&mut self, at: usize, from: usize, frame: Outgoing, clock: Micros) {
        if self.connections.get(&(from, at)) != Some(&self.lives(from, at)) || self.is_cut(from, at)
        {
            return;
        }
        let head = Head::read(&frame.head).expect("a driver wrote it");
        let peer = self.nodes[from].id;
        let live = self.nodes[at].live();
        live.heard();
        let received = live.driver.receive(clock, peer, head, frame.bodies);
        self.settle(at, false);
        if received.is_err() {
            self.disconnect(from, at);
        }
    }

    fn send(&mut self, at: usize, frame: Outgoing) {
        let Some(to) = self.nodes.iter().position(|node| node.id == frame.to) else { return };
        let is_there = self.connections.get(&(at, to)) == Some(&self.lives(at, to));
        if !is_there || self.is_cut(at, to) {
            return;
        }
        if self.chance.random_range(0..1_000_000) < self.weather.loss && !self.is_healing {
            self.disconnect(at, to);
            return;
        }
        let (low, high) = self.weather.delay;
        let us = self.chance.random_range(low..=high);
        let last = self.lanes.entry((at, to, frame.lane)).or_default();
        *last = (*last).max(self.now + us);
        let us = *last - self.now;
        self.node_after(us, to, What::Arrives { from: at, frame });
    }

    /// A tick, in which a node tells the others what its clock shows.
    fn tell_clock(&mut self, at: usize) {
        let now = self.now;
        let is_there = |to: &usize| {
            self.connections.get(&(at, *to)) == Some(&self.lives(at, *to)) && !self.is_cut(at, *to)
        };
        let there: Vec<usize> = (0..NODES).filter(|to| *to != at).filter(is_there).collect();
        let peers: Vec<u64> = there.iter().map(|to| self.nodes[*to].id).collect();
        let (from, wall) = (self.nodes[at].id, self.nodes[at].wall(now));
        for (peer, note) in self.nodes[at].live().tick(now, wall, &peers) {
            let to = there.iter().copied().find(|to| self.nodes[*to].id == peer);
            let (low, high) = self.weather.delay;
            let us = self.chance.random_range(low..=high);
            self.node_after(us, to.expect("one of them"), What::Clock { from, note });
        }
    }

    /// Somebody sets the clock of the node that lies: wrong by an hour, or right.
    fn set_clock(&mut self, is_right: bool) {
        let Some(at) = self.weather.liar else { return };
        let right = self.weather.offsets[at];
        let wrong = [-3_600, 3_600][self.chance.random_range(0..2)] * SECOND as i64;
        let is_wrong = self.nodes[at].offset != right;
        self.nodes[at].offset = if is_right || is_wrong { right } else { wrong };
        let wall = self.nodes[at].wall(self.now);
        if let Some(live) = &mut self.nodes[at].live {
            live.server.set_wall(wall - live.clock(self.now));
        }
        self.audit.seen.note("clocks set");
    }

    /// Who cannot be asked is missed at once; an answer may be lost.
    fn send_verify(&mut self, at: usize, id: u64, note: VerifyNote) {
        let to = self.nodes.iter().position(|node| node.id == id);
        let is_there = |to: &usize| {
            self.connections.get(&(at, *to)) == Some(&self.lives(at, *to)) && !self.is_cut(at, *to)
        };
        if let Some(to) = to.filter(is_there) {
            let (low, high) = self.weather.delay;
            let us = self.chance.random_range(low..=high);
            let from = self.nodes[at].id;
            return self.node_after(us, to, What::Verify { from, note });
        }
        if let VerifyNote::Asked { index } = note {
            let why = Missed::Gone;
            self.nodes[at].live().hear_verify(id, VerifyNote::Missed { index, why });
        }
    }

    /// Whoever takes itself for the leader is asked for a job, also one that is cut off and does not know it yet: it may say
    /// nothing, and nothing that is not true any more.
    fn look(&mut self) {
        if self.is_healing {
            return;
        }
        let us = self.chance.random_range(5 * MS..30 * MS);
        self.after(us, Event::Look);
        let (now, jobs) = (self.now, self.audit.jobs.len());
        for at in (0..NODES).filter(|_| jobs > 0) {
            let node = &mut self.nodes[at];
            if !node.decides() || node.is_still(now) || node.live().is_in_turn(now) {
                continue;
            }
            // Of the newest, at which others are at work.
            let job = self.chance.random_range(jobs.saturating_sub(30)..jobs);
            let (life, live) = (node.life, node.live());
            live.server.run_at(live.clock(now));
            let far = live.server.connect();
            let queue = queue_name(self.audit.jobs[job].queue);
            far.send(format!("DELAY.GET {queue} j{job}\r\n").as_bytes());
            self.looks.push(Look { at, life, far, job, asked: now });
            self.turn_by(at, now);
        }
    }

    fn read_looks(&mut self, at: usize) {
        let life = self.nodes[at].life;
        let audit = &mut self.audit;
        self.looks.retain(|look| {
            if look.at != at {
                return true;
            }
            match reply::take(&mut look.far.receive()) {
                None => look.life == life && !look.far.is_closed(),
                Some(Reply::Error(_)) => false,
                Some(reply) => {
                    audit.looked(look.job, look.asked, reply != Reply::Nil);
                    look.far.close();
                    false
                }
            }
        });
    }

    /// Whoever decides asks the others what they hold.
    fn compare(&mut self) {
        if let Some(at) = (0..NODES).find(|at| self.nodes[*at].decides()) {
            self.nodes[at].live().server.verify();
            self.turn_by(at, self.now);
        }
    }

    /// All hold the same, and say so.
    fn check_compared(&mut self) {
        self.compare();
        let most = self.now + HEALED_WITHIN;
        loop {
            assert!(self.now < most, "nodes are not compared: {}", self.shown());
            self.run_until(self.now + 10 * MS);
            let Some(at) = (0..NODES).find(|at| self.nodes[*at].decides()) else { continue };
            let own = self.nodes[at].id;
            match self.nodes[at].live().server.verification().map(|asked| asked.tally(own)) {
                Some(Tally { same: NODES, .. }) => return,
                // Of an older version.
                Some(Tally { running: 0, differ: 0, missed: 1.., .. }) if self.weather.mixes => {
                    return;
                }
                Some(Tally { running: 1.., .. }) => {}
                // Its leader has changed, or a node was slow to hear.
                _ => self.compare(),
            }
        }
    }

    fn lives(&self, from: usize, to: usize) -> (u64, u64) {
        (self.nodes[from].life, self.nodes[to].life)
    }

    fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cut.contains_key(&(from, to))
    }

    /// Connects to whom it is not connected.
    fn dial(&mut self, at: usize) {
        for Dial { node, name, .. } in self.nodes[at].live().driver.peers_to_dial() {
            let called = Called { name: name.clone(), node: node.map(NodeId) };
            let named = |node: &Node| node.own.name == name;
            let to = self.nodes.iter().position(named).expect("only listed ones");
            let lives = self.lives(at, to);
            let is_there = self.connections.get(&(at, to)) == Some(&lives);
            let is_down = self.nodes[to].live.is_none() || self.nodes[to].is_still(self.now);
            if is_there || is_down || self.is_cut(at, to) || self.is_cut(to, at) {
                continue;
            }
            if self.shake(at, to, called) {
                self.connections.insert((at, to), lives);
            }
            self.settle(to, false);
            self.settle(at, false);
        }
    }

    /// A whole handshake, in no time; whether they know each other.
    fn shake(&mut self, at: usize, to: usize, called: Called) -> bool {
        let now = self.now;
        let own = self.nodes[at].live().driver.claims();
        let its = self.nodes[to].live().driver.claims();
        let (mut hello, mut answer, mut proof) = (Vec::new(), Vec::new(), Vec::new());
        let [mut caller_in, mut door_in] = [Inbox::new(), Inbox::new()];
        let mut caller =
            Handshake::call(own, Secret::new("x"), [1; 32], called, Lane::Data, &mut hello);
        let mut door = Handshake::door(its, Secret::new("x"), [2; 32], Way::default());
        door_in.receive(&hello);
        if door.advance(&mut door_in, &mut answer).is_err() {
            return false;
        }
        caller_in.receive(&answer);
        if caller.advance(&mut caller_in, &mut proof).is_err() {
            return false;
        }
        door_in.receive(&proof);
        let mut welcome = Vec::new();
        let Ok(caller_is) = door.advance(&mut door_in, &mut welcome) else { return false };
        caller_in.receive(&welcome);
        let Ok(door_is) = caller.advance(&mut caller_in, &mut Vec::new()) else { return false };
        [(at, door_is), (to, caller_is)].into_iter().all(|(at, peer)| {
            let live = self.nodes[at].live();
            let clock = Micros(live.clock(now));
            live.heard();
            live.driver.met(clock, &peer.expect("the handshake is over").claims).is_ok()
        })
    }

    /// The connection is gone, and both ends know.
    fn disconnect(&mut self, from: usize, to: usize) {
        if self.connections.remove(&(from, to)).is_none() {
            return;
        }
        for (at, other) in [(from, to), (to, from)] {
            self.node_after(0, at, What::Lost { peer: self.nodes[other].id });
        }
    }

    fn read_replies(&mut self, node: usize) {
        let Node { life, promoted, .. } = &self.nodes[node];
        let promoted = promoted.map_or(0, |at| at.0);
        let (life, from) = (*life, From { now: self.now, promoted });
        for at in 0..self.clients.len() {
            let World { clients, audit, chance, hasher, .. } = self;
            let is_ours = |link: &super::client::Link| link.node == node && link.life == life;
            if !clients[at].link.as_ref().is_some_and(is_ours) {
                continue;
            }
            let mut trace = |reply: &_| format!("{reply:?}").hash(hasher);
            let read = clients[at].read(from, audit, chance, &mut trace);
            let link = clients[at].link.as_ref().expect("just seen");
            let is_closed = link.far.is_closed();
            match read {
                Some(true) if !is_closed => {
                    let is_fast = self.clients[at].kind != Kind::Producer;
                    let think = if is_fast { self.weather.think } else { 3 * self.weather.think };
                    let us = self.chance.random_range(0..=think);
                    self.act_after(at, us);
                }
                None if !is_closed => {}
                _ => self.let_down(at),
            }
        }
    }

    /// The connection of a client is of no use any more.
    fn let_down(&mut self, at: usize) {
        let link = self.clients[at].link.as_ref().map(|link| (link.node, link.life));
        self.clients[at].let_down(&mut self.audit);
        self.clients[at].next_node = self.chance.random_range(0..NODES);
        let us = self.chance.random_range(5 * MS..40 * MS);
        self.act_after(at, us);
        if let Some((node, life)) = link
            && self.nodes[node].life == life
        {
            self.turn_by(node, self.now + 20);
        }
    }

    fn act(&mut self, at: usize) {
        let now = self.now;
        if self.is_healing {
            return;
        }
        if let Some(link) = &self.clients[at].link {
            let is_gone = self.nodes[link.node].life != link.life || link.far.is_closed();
            let is_late = self.clients[at].asked.as_ref().is_some_and(|asked| asked.until <= now);
            if is_gone || is_late {
                return self.let_down(at);
            }
            let node = link.node;
            if self.clients[at].asked.is_none() {
                let World { clients, audit, chance, .. } = self;
                if let Next::Idle(us) = clients[at].act(now, audit, chance) {
                    return self.act_after(at, us);
                }
            }
            return self.await_reply(at, node);
        }
        let node = self.clients[at].next_node;
        self.clients[at].next_node = (node + 1) % NODES;
        if self.nodes[node].live.is_none() || self.nodes[node].is_still(now) {
            return self.act_after(at, 20 * MS);
        }
        let live = self.nodes[node].live();
        if live.stop.is_some() || live.is_in_turn(now) {
            return self.act_after(at, 20 * MS);
        }
        let life = self.nodes[node].life;
        let live = self.nodes[node].live();
        live.server.run_at(live.clock(now));
        let far = live.server.connect();
        self.clients[at].connected(node, life, far, now);
        self.turn_by(node, now);
        self.await_reply(at, node);
    }

    /// It looks again when its patience has ended.
    fn await_reply(&mut self, at: usize, node: usize) {
        let until = self.clients[at].asked.as_ref().expect("it asks").until;
        let us = self.chance.random_range(10..80);
        self.turn_by(node, self.now + us);
        self.act_after(at, until - self.now);
    }

    fn fault(&mut self) {
        if self.is_healing {
            return;
        }
        let each = self.weather.each;
        let us = self.chance.random_range(each / 4..each * 2);
        self.after(us, Event::Fault);
        let decides = (0..NODES).find(|at| self.nodes[*at].decides());
        // Whoever decides is who matters most.
        let at = match decides {
            Some(at) if self.chance.random_bool(0.5) => at,
            _ => self.chance.random_range(0..NODES),
        };
        match self.weather.fault(&mut self.chance) {
            Fault::Kill => self.kill(at),
            Fault::Replace => self.replace(at),
            Fault::Base => {
                // All do, mostly: whoever is away finds nobody who still has the log.
                let but = self.chance.random_range(0..2 * NODES);
                for at in (0..NODES).filter(|at| *at != but) {
                    if self.nodes[at].live.is_some() && !self.nodes[at].is_still(self.now) {
                        self.make_base(at);
                    }
                }
            }
            Fault::Pause if self.nodes[at].live.is_some() => {
                let us = self.chance.random_range(100 * MS..5 * SECOND);
                self.pause(at, us);
            }
            Fault::Cut => {
                let other = (at + self.chance.random_range(1..NODES)) % NODES;
                let us = self.chance.random_range(50 * MS..3 * SECOND);
                self.cut(at, other, us);
                if self.chance.random_bool(0.5) {
                    self.cut(other, at, us);
                }
            }
            Fault::Isolate => {
                let us = self.chance.random_range(100 * MS..3 * SECOND);
                self.isolate(at, us);
            }
            Fault::Slow => {
                let us = self.chance.random_range(100 * MS..4 * SECOND);
                self.nodes[at].slow_until = self.now + us;
                self.audit.seen.note("syncs slowed");
            }
            Fault::Stop if self.nodes[at].live.is_some() => self.stop(at),
            Fault::Turn => self.slow_turn(),
            Fault::Clock => self.set_clock(false),
            Fault::Verify => self.compare(),
            Fault::Pause | Fault::Stop => {}
        }
    }

    fn kill(&mut self, at: usize) {
        if self.nodes[at].live.is_none() {
            return;
        }
        self.audit.seen.note("nodes killed");
        if self.nodes[at].decides() {
            self.audit.seen.note("leaders killed");
        }
        let power = self.chance.random_range(0..100) < self.weather.power;
        let storage = match power {
            true => self.nodes[at].storage.crash(&mut self.chance),
            false => self.nodes[at].storage.kill(),
        };
        self.end(at, storage);
        let us = self.chance.random_range(50 * MS..3 * SECOND);
        self.after(us, Event::Start { at });
    }

    /// It loses its disk, and comes back with an empty one. One at a time: what the others have acknowledged together with
    /// it stands on one disk until then.
    fn replace(&mut self, at: usize) {
        let ids: Vec<u64> = self.nodes.iter().map(|node| node.id).collect();
        let is_whole = self.nodes.iter().filter_map(|node| node.live.as_ref()).any(|live| {
            let members = live.driver.status().members;
            !members.is_joint() && ids.iter().all(|id| members.voters.contains(id))
        });
        if !is_whole || self.nodes[at].live.is_none() {
            return;
        }
        self.audit.seen.note("disks lost");
        self.end(at, crate::support::lossy::Lossy::new());
        self.nodes[at].id += 1_000;
        let us = self.chance.random_range(50 * MS..3 * SECOND);
        self.after(us, Event::Start { at });
    }

    fn end(&mut self, at: usize, storage: std::sync::Arc<crate::support::lossy::Lossy>) {
        self.nodes[at].end(storage);
        self.inboxes[at].clear();
        for other in 0..NODES {
            self.disconnect(at, other);
            self.disconnect(other, at);
        }
        for client in 0..self.clients.len() {
            if self.clients[client].link.as_ref().is_some_and(|link| link.node == at) {
                // What had left before is still read.
                self.let_down(client);
            }
        }
    }

    fn pause(&mut self, at: usize, us: u64) {
        self.audit.seen.note("nodes paused");
        let until = self.nodes[at].paused_until.max(self.now + us);
        self.nodes[at].paused_until = until;
        self.after(until - self.now, Event::Resumes { at });
    }

    /// The next turn of whoever decides takes its time.
    fn slow_turn(&mut self) {
        let Some(at) = (0..NODES).find(|at| self.nodes[*at].decides()) else { return };
        if self.chance.random_bool(0.3) {
            let us = self.chance.random_range(100 * MS..2 * SECOND);
            self.nodes[at].live().long_turn = Some(us);
            return;
        }
        // Another one leads, and then perhaps this one again, before the turn is over.
        self.nodes[at].live().long_turn = Some(self.chance.random_range(TURN_MAX / 2..TURN_MAX));
        let us = self.chance.random_range(E..3 * E);
        self.isolate(at, us);
        let us = us + self.chance.random_range(E..3 * E);
        self.after(us, Event::Overthrow);
    }

    /// Whoever leads is left alone.
    fn overthrow(&mut self) {
        let led = |at: &usize| self.nodes[*at].live.as_ref().and_then(|live| live.led);
        let leader = (0..NODES).filter(|at| led(at).is_some()).max_by_key(led);
        if let Some(at) = leader.filter(|_| !self.is_healing) {
            let us = self.chance.random_range(2 * E..4 * E);
            self.isolate(at, us);
        }
    }

    fn isolate(&mut self, at: usize, us: u64) {
        for other in (0..NODES).filter(|other| *other != at) {
            self.cut(at, other, us);
            self.cut(other, at, us);
        }
    }

    fn cut(&mut self, from: usize, to: usize, us: u64) {
        self.audit.seen.note("links cut");
        let until = self.cut.entry((from, to)).or_default();
        *until = (*until).max(self.now + us);
        let us = *until - self.now;
        self.after(us, Event::Healed { from, to });
    }

    fn stop(&mut self, at: usize) {
        let until = self.now + SHUTDOWN_MS_MAX * MS;
        let now = self.now;
        let live = self.nodes[at].live();
        if live.stop.is_some() || live.is_in_turn(now) {
            return;
        }
        live.stop = Some(Stop::Drains { until });
        live.server.run_at(live.clock(now));
        live.server.drain();
        self.audit.seen.note("nodes stopped");
        self.turn_by(at, now);
        self.node_after(MS, at, What::Stops);
    }

    fn go_on_stopping(&mut self, at: usize) {
        let now = self.now;
        let live = self.nodes[at].live();
        if live.is_in_turn(now) {
            return self.node_after(MS, at, What::Stops);
        }
        live.server.run_at(live.clock(now));
        match live.stop.expect("it stops") {
            Stop::Drains { until } if live.server.is_drained() || until <= now => {
                live.server.end_bound();
                live.stop = Some(Stop::HandsOver);
            }
            Stop::Drains { .. } => {}
            Stop::HandsOver if live.server.hands_over() => {}
            Stop::HandsOver => {
                live.close_log();
                let storage = self.nodes[at].storage.kill();
                self.end(at, storage);
                let us = self.chance.random_range(50 * MS..2 * SECOND);
                return self.after(us, Event::Start { at });
            }
        }
        self.turn_by(at, now);
        self.node_after(MS, at, What::Stops);
    }

    /// No more faults, and no more requests.
    fn heal(&mut self) {
        self.is_healing = true;
        self.weather.delay = (50, 150);
        self.set_clock(true);
        for (from, to) in take(&mut self.cut).into_keys() {
            self.disconnect(from, to);
            self.disconnect(to, from);
        }
        for at in 0..NODES {
            self.nodes[at].slow_until = 0;
            self.nodes[at].live.iter_mut().for_each(|live| live.long_turn = None);
            self.nodes[at].sync_us = (50, 100);
            self.resume(at);
            if self.nodes[at].live.is_none() {
                self.start(at);
            }
        }
        for at in 0..self.clients.len() {
            self.let_down(at);
        }
    }

    /// A pause is over: what has come meanwhile is taken up.
    fn resume(&mut self, at: usize) {
        self.nodes[at].paused_until = self.now;
        for event in take(&mut self.inboxes[at]) {
            self.happen(event);
        }
    }

    fn is_equal(&mut self) -> bool {
        let last = self.audit.last();
        let mut leaders = 0;
        for node in &mut self.nodes {
            let Some(live) = &mut node.live else { return false };
            let progress = live.server.progress();
            if progress.applied != last || !progress.is_settled {
                return false;
            }
            leaders += usize::from(progress.decides);
        }
        leaders == 1
    }

    /// Asks whoever decides for each job: whether it is there.
    fn count(&mut self) -> Vec<bool> {
        let digest = |node: &mut Node| node.live().server.digest().0;
        let digests: Vec<u64> = self.nodes.iter_mut().map(digest).collect();
        assert!(digests.iter().all(|digest| *digest == digests[0]), "engines differ: {digests:?}");
        let most = self.now + HEALED_WITHIN;
        let mut is_there = Vec::new();
        while is_there.len() < self.audit.jobs.len() {
            assert!(self.now < most, "nobody answers: {}", self.shown());
            let jobs = self.audit.jobs.iter().enumerate().skip(is_there.len()).take(500);
            let get =
                |(job, it): (usize, &Job)| format!("DELAY.GET {} j{job}\r\n", queue_name(it.queue));
            let lines: Vec<String> = jobs.map(get).collect();
            if let Some(replies) = self.ask(&lines.concat(), lines.len()) {
                is_there.extend(replies.into_iter().map(|reply| reply != Reply::Nil));
            }
        }
        is_there
    }

    /// Asks whoever decides; nothing if it does not answer as one that leads.
    fn ask(&mut self, lines: &str, count: usize) -> Option<Vec<Reply>> {
        self.run_until(self.now + 10 * MS);
        let (at, now) = ((0..NODES).find(|at| self.nodes[*at].decides())?, self.now);
        let live = self.nodes[at].live();
        live.server.run_at(live.clock(now));
        let far = live.server.connect();
        far.send(lines.as_bytes());
        let (mut input, mut replies) = (Vec::new(), Vec::new());
        while !far.is_closed() && self.now < now + SECOND {
            self.turn_by(at, self.now);
            self.run_until(self.now + MS);
            input.extend(far.receive());
            replies.extend(std::iter::from_fn(|| reply::take(&mut input)));
            if replies.iter().any(|reply| matches!(reply, Reply::Error(_))) {
                return None;
            }
            if replies.len() == count {
                return Some(replies);
            }
        }
        None
    }

    fn shown(&mut self) -> String {
        let shown = |node: &mut Node| {
            let status = node.live.as_ref().map(|live| live.driver.status());
            let progress = node.live.as_mut().map(|live| live.server.progress());
            format!("{}: {progress:?} {status:#?}\n", node.own.name)
        };
        self.nodes.iter_mut().map(shown).collect()
    }
}
