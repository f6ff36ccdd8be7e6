//! Hosts, the connections between them, and one heap of events.

use super::audit::Audit;
use super::host::Host;
use super::world::{E, MS};
use crate::support::faults::{Nodes, Way};
use delayd::cluster::driver::{Dial, DriverEvent, DriverOutput, Ticked};
use delayd::cluster::members::claims::NodeId;
use delayd::cluster::peer::frame::{Inbox, Lane};
use delayd::cluster::peer::hello::{self, Called, Handshake, Refusal, Secret};
use delayd::cluster::raft::codec::{Head, Outgoing};
use delayd::cluster::raft::entry::{Base, LogEntry, Payload};
use delayd::cluster::timing::clocks::ClockNote;
use delayd::limits::APPEND_BYTES_MAX;
use delayd::time::Micros;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;

/// How things are without faults.
#[derive(Clone, Debug)]
pub struct Weather {
    pub hosts: usize,
    /// From one host to another, µs.
    pub delay: (u64, u64),
    pub sync_us: u64,
    /// What a frame may be lost with, millionths.
    pub loss: u32,
    /// How far clocks go wrong, millionths.
    pub drift: u64,
    /// From one turn to the next, µs.
    pub turn_us: u64,
    pub replay: bool,
    /// Whether timers are early and late.
    pub jitter: bool,
    /// Bytes of what a turn may put together.
    pub merged: usize,
    /// Whether hosts tell each other what their clocks show, and how well they are.
    pub tells: bool,
}

impl Weather {
    pub fn calm(hosts: usize) -> Weather {
        let delay = (100, 150);
        Weather {
            hosts,
            delay,
            sync_us: 100,
            loss: 0,
            drift: 0,
            turn_us: MS,
            replay: true,
            jitter: true,
            merged: 4 << 10,
            tells: false,
        }
    }
}

/// What happens, to a host by its place in the life for which it was meant.
#[derive(Debug)]
pub struct Event {
    at: usize,
    life: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Tick(u64),
    Dial,
    Turn,
    Loaded,
    Arrives {
        from: usize,
        frame: Outgoing,
    },
    /// What the clock of the host of this id shows, and how well it is.
    Clock {
        from: u64,
        note: ClockNote,
    },
    Synced,
    Read {
        number: u64,
        low: u64,
        high: u64,
    },
    Resumes,
}

/// Where wall clocks stand at the beginning, µs.
const EPOCH: u64 = 1_893_456_000_000_000;

pub struct Site {
    pub now: u64,
    pub weather: Weather,
    pub chance: SmallRng,
    pub hosts: Vec<Host>,
    pub audit: Audit,
    /// Acknowledged: sequence and value.
    pub acked: BTreeMap<u64, u64>,
    /// From where to where nothing goes.
    pub cut: BTreeSet<(usize, usize)>,
    /// From where to where there is a connection, and the lives of both ends.
    connections: BTreeMap<(usize, usize), (u64, u64)>,
    events: BTreeMap<(u64, u64), Event>,
    number: u64,
    lanes: BTreeMap<(usize, usize, Lane), u64>,
    pub happened: u64,
    pub values: u64,
    pub refusals: BTreeSet<String>,
    pub refused_batches: u64,
    pub killed_while_forming: u64,
    pub lease_reads: u64,
    /// Answered before the leader's own disk had it.
    pub early: u64,
    /// Changes of members.
    pub given_up: Vec<String>,
}

impl Site {
    /// All hosts with empty disks, none of them running.
    pub fn new(seed: u64, weather: Weather) -> Site {
        let mut chance = SmallRng::seed_from_u64(seed);
        let Weather { hosts: count, drift, sync_us, .. } = weather;
        let mut rate = |_| chance.random_range(1_000_000 - drift..=1_000_000 + drift);
        let rates: Vec<u64> = (0..count).map(&mut rate).collect();
        let hosts = rates.iter().enumerate();
        let hosts = hosts.map(|(at, rate)| Host::new(at, count, *rate, sync_us)).collect();
        Site {
            now: 0,
            weather,
            chance,
            hosts,
            audit: Audit::new(&Base::default()),
            acked: BTreeMap::new(),
            cut: BTreeSet::new(),
            connections: BTreeMap::new(),
            events: BTreeMap::new(),
            number: 0,
            lanes: BTreeMap::new(),
            happened: 0,
            values: 0,
            refusals: BTreeSet::new(),
            refused_batches: 0,
            killed_while_forming: 0,
            lease_reads: 0,
            early: 0,
            given_up: Vec::new(),
        }
    }

    pub fn start(&mut self, at: usize) {
        let seed = self.chance.random();
        let (now, replay) = (self.now, self.weather.replay);
        let host = &mut self.hosts[at];
        for entry in host.start(now, seed, replay) {
            self.audit.applies(host.id, host.applied, &entry);
            host.applied = entry.index;
        }
        let has_room = !host.disk.is_full;
        host.driver().set_has_room(has_room);
        for (what, most) in [(What::Dial, 20 * MS), (What::Turn, MS)] {
            let us = self.chance.random_range(0..most);
            self.after(us, at, what);
        }
        self.settle(at);
    }

    pub fn start_all(&mut self) {
        (0..self.hosts.len()).for_each(|at| self.start(at));
    }

    pub fn kill(&mut self, at: usize) {
        let kept = self.chance.random_range(0..=self.hosts[at].disk.queue.len());
        self.hosts[at].kill(kept);
        for other in 0..self.hosts.len() {
            self.disconnect(at, other);
            self.disconnect(other, at);
        }
        if self.hosts.iter().all(|host| host.disk.entries.is_empty()) {
            self.audit.forget_founding();
        }
    }

    pub fn pause(&mut self, at: usize, us: u64) {
        self.hosts[at].paused_until = self.now + us;
        self.after(us, at, What::Resumes);
    }

    pub fn resume(&mut self, at: usize) {
        self.hosts[at].paused_until = self.now;
        self.after(0, at, What::Resumes);
    }

    pub fn runs(&self, at: usize) -> bool {
        self.hosts[at].driver.is_some()
    }

    pub fn is_still(&self, at: usize) -> bool {
        self.now < self.hosts[at].paused_until
    }

    fn after(&mut self, us: u64, at: usize, what: What) {
        self.number += 1;
        let life = self.hosts.get(at).map_or(0, |host| host.life);
        self.events.insert((self.now + us, self.number), Event { at, life, what });
    }

    /// Lets the next thing happen that is not after `end`; whether there was one.
    pub fn step(&mut self, end: u64) -> bool {
        let entry = self.events.first_entry().filter(|entry| entry.key().0 <= end);
        let Some(entry) = entry else {
            self.now = end;
            return false;
        };
        let ((now, _), event) = entry.remove_entry();
        self.now = now;
        self.happened += 1;
        self.happen(event);
        true
    }

    /// Lets time pass until then.
    pub fn run_until(&mut self, end: u64) {
        while self.step(end) {}
    }

    /// Lets time pass until something holds; how long that took, or a panic after `most`.
    pub fn wait_for(&mut self, what: &str, most: u64, holds: impl Fn(&Site) -> bool) -> u64 {
        let begin = self.now;
        while !holds(self) {
            assert!(self.now < begin + most, "{what}: not after {most} µs: {}", self.shown());
            self.step(u64::MAX);
        }
        self.now - begin
    }

    pub fn shown(&self) -> String {
        let shown = |host: &Host| {
            let status = host.driver.as_ref().map(|driver| driver.status());
            format!("{}: {:?} {:#?}\n", host.own.name, host.turn.member.role(), status)
        };
        self.hosts.iter().map(shown).collect()
    }

    /// Who decides, the newest one.
    pub fn leader(&self) -> Option<usize> {
        let leading = (0..self.hosts.len()).filter(|at| self.hosts[*at].leads());
        leading.max_by_key(|at| self.hosts[*at].driver.as_ref().map(|driver| driver.status().term))
    }

    /// Whether all hosts know that the cluster has formed, and one of them decides.
    pub fn has_formed(&self) -> bool {
        let knows = |host: &Host| {
            host.driver.as_ref().is_some_and(|driver| driver.status().forming.is_none())
        };
        self.hosts.iter().all(knows) && self.leader().is_some()
    }

    /// All have all, and nobody has decided what is not committed.
    pub fn is_equal(&self) -> bool {
        let end = self.audit.end();
        let same = |host: &Host| {
            let turn = &host.turn;
            let position = turn.member.position();
            host.driver.is_some() && position.index.0 == end && turn.member.is_committed()
        };
        self.hosts.iter().all(same)
            && self.hosts.iter().all(|host| host.turn.engine == self.hosts[0].turn.engine)
    }

    /// What was acknowledged is there, on all.
    pub fn check_acked(&self) {
        for (first, value) in &self.acked {
            for host in &self.hosts {
                let kept = host.turn.engine.get(*first as usize - 1);
                assert_eq!(kept, Some(value), "fact {first} was acknowledged and is lost");
            }
        }
    }

    fn happen(&mut self, event: Event) {
        let at = event.at;
        let host = &mut self.hosts[at];
        if host.life != event.life || host.driver.is_none() {
            return;
        }
        if let What::Tick(number) = event.what
            && host.tick.is_none_or(|(_, planned)| planned != number)
        {
            return;
        }
        if self.now < host.paused_until {
            match event.what {
                What::Tick(_) | What::Dial | What::Turn => {
                    let us = host.paused_until - self.now;
                    self.after(us, at, event.what);
                }
                _ => host.inbox.push_back(event),
            }
            return;
        }
        let clock = host.clock(self.now);
        // As the raft loop does: time passes before what has arrived is heard.
        let wall = self.weather.tells.then_some(EPOCH + self.now);
        let ticked = host.driver().tick(clock, wall);
        match event.what {
            What::Tick(_) => host.tick = None,
            What::Dial => {
                self.dial(at);
                self.after(50 * MS, at, What::Dial);
            }
            What::Turn => {
                self.turn(at);
                self.after(self.weather.turn_us, at, What::Turn);
            }
            What::Loaded => {
                host.load();
                host.driver().set_may_lead(true);
            }
            What::Arrives { from, frame } => self.arrives(at, from, frame, clock),
            What::Clock { from, note } => host.driver().clock_heard(clock, from, &note),
            What::Synced if host.disk.is_hung => self.after(5 * MS, at, What::Synced),
            What::Synced if host.disk.is_full => host.disk.syncing = 0,
            What::Synced => {
                let count = take(&mut host.disk.syncing);
                let last = host.disk.make_durable(count).expect("a sync is of something");
                host.driver().persisted(clock, last);
            }
            What::Read { number, low, high } => {
                let entries = host.disk.read(low, high, APPEND_BYTES_MAX);
                host.driver().fetched(number, entries);
            }
            What::Resumes => {
                let inbox = take(&mut host.inbox);
                inbox.into_iter().for_each(|event| self.happen(event));
            }
        }
        self.settle(at);
        self.tell_clock(at, ticked);
    }

    /// When its driver asks for it, or somewhat later.
    fn tick_by(&mut self, at: usize) {
        let (now, number) = (self.now, self.number + 1);
        let host = &mut self.hosts[at];
        let Some(driver) = &mut host.driver else { return };
        let by = driver.wake_by();
        if host.tick.is_some_and(|(planned, _)| planned == by.0) {
            return;
        }
        host.tick = Some((by.0, number));
        let us = by.0.saturating_sub(host.clock(now).0) * 1_000_000 / host.rate + 1;
        let late = if self.weather.jitter { self.chance.random_range(0..MS) } else { 0 };
        self.after(us + late, at, What::Tick(number));
    }

    /// As the raft loop does.
    fn tell_clock(&mut self, at: usize, ticked: Option<Ticked>) {
        let host = &mut self.hosts[at];
        let (clock, id) = (host.clock(self.now), host.id);
        let Some(driver) = &mut host.driver else { return };
        if !driver.tells_clock(clock, ticked) {
            return;
        }
        for to in (0..self.hosts.len()).filter(|to| *to != at) {
            let peer = self.hosts[to].id;
            let Some(note) = self.hosts[at].driver().clock_note(clock, peer) else { continue };
            let note = ClockNote::decode(&note.encode()).expect("it was just written");
            let lives = (self.hosts[at].life, self.hosts[to].life);
            let is_there = self.connections.get(&(at, to)) == Some(&lives);
            if is_there && !self.cut.contains(&(at, to)) {
                let us = self.chance.random_range(self.weather.delay.0..=self.weather.delay.1);
                self.after(us, to, What::Clock { from: id, note });
            }
        }
    }

    fn arrives(&mut self, at: usize, from: usize, frame: Outgoing, clock: Micros) {
        let lives = (self.hosts[from].life, self.hosts[at].life);
        let is_there = self.connections.get(&(from, at)) == Some(&lives);
        if self.cut.contains(&(from, at)) || !is_there {
            return;
        }
        let (head, peer) =
            (Head::read(&frame.head).expect("a driver wrote it"), self.hosts[from].id);
        let received = self.hosts[at].driver().receive(clock, peer, head, frame.bodies);
        if let Err(refused) = received {
            self.refusals.insert(refused.to_string());
            self.disconnect(from, at);
        }
    }

    /// Connects to whom it is not connected.
    fn dial(&mut self, at: usize) {
        for (node, conflict) in self.hosts[at].driver().unwanted() {
            // Another one may have its place by now.
            let from = self.hosts.iter().position(|host| host.id == node);
            let Some(from) = from else { continue };
            self.disconnect(from, at);
            let clock = self.hosts[from].clock(self.now);
            if let Some(driver) = &mut self.hosts[from].driver {
                driver.refused(clock, conflict.to_string(), conflict.left_by());
            }
        }
        for Dial { node, name, addresses } in self.hosts[at].driver().peers_to_dial() {
            let called = Called { name, node: node.map(NodeId) };
            let there = |host: &Host| addresses.contains(&host.own.peer);
            let Some(to) = self.hosts.iter().position(there) else { continue };
            let is_cut = self.cut.contains(&(at, to)) || self.cut.contains(&(to, at));
            let lives = (self.hosts[at].life, self.hosts[to].life);
            let is_there = self.connections.get(&(at, to)) == Some(&lives);
            if is_there || is_cut || !self.runs(to) || self.is_still(to) || at == to {
                continue;
            }
            match self.shake(at, to, called) {
                Ok(()) => {
                    self.connections.insert((at, to), lives);
                }
                Err(text) => {
                    self.refusals.insert(text);
                }
            }
            self.settle(to);
            self.settle(at);
        }
    }

    /// A whole handshake, in no time.
    fn shake(&mut self, from: usize, to: usize, called: Called) -> Result<(), String> {
        let (own, its) = (self.hosts[from].driver().claims(), self.hosts[to].driver().claims());
        let (mut hello, mut answer, mut proof) = (Vec::new(), Vec::new(), Vec::new());
        let [mut caller_in, mut door_in] = [Inbox::new(), Inbox::new()];
        let mut caller =
            Handshake::call(own, Secret::new("x"), [1; 32], called, Lane::Data, &mut hello);
        let mut door = Handshake::door(its, Secret::new("x"), [2; 32], hello::Way::default());
        let text = |refusal: Refusal| refusal.to_string();
        door_in.receive(&hello);
        door.advance(&mut door_in, &mut answer).map_err(text)?;
        caller_in.receive(&answer);
        caller.advance(&mut caller_in, &mut proof).map_err(text)?;
        door_in.receive(&proof);
        let mut welcome = Vec::new();
        let caller_is = door.advance(&mut door_in, &mut welcome).map_err(text)?;
        caller_in.receive(&welcome);
        let door_is = caller.advance(&mut caller_in, &mut Vec::new()).map_err(text)?;
        for (at, peer) in [(from, door_is), (to, caller_is)] {
            let clock = self.hosts[at].clock(self.now);
            let claims = peer.expect("the handshake is over").claims;
            let Err(conflict) = self.hosts[at].driver().met(clock, &claims) else { continue };
            let (why, left_by) = (conflict.to_string(), conflict.left_by());
            if at == to && left_by.is_some() {
                let clock = self.hosts[from].clock(self.now);
                self.hosts[from].driver().refused(clock, why.clone(), left_by);
            }
            return Err(why);
        }
        Ok(())
    }

    /// The connection is gone, and both ends know.
    pub fn disconnect(&mut self, from: usize, to: usize) {
        if self.connections.remove(&(from, to)).is_none() {
            return;
        }
        for (at, other) in [(from, to), (to, from)] {
            let peer = self.hosts[other].id;
            if let Some(driver) = &mut self.hosts[at].driver {
                driver.unreachable(peer);
                self.settle(at);
            }
        }
    }

    fn turn(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        host.turn.take_told(&mut self.acked);
        if take(&mut host.turn.must_load) {
            host.driver().set_may_lead(false);
            let us = self.chance.random_range(MS..200 * MS);
            self.after(us, at, What::Loaded);
        }
        let host = &mut self.hosts[at];
        if host.turn.member.must_resign() {
            host.driver().resign();
        }
        let clock = host.clock(self.now);
        let (until, _) = host.driver().lease();
        if host.leads() && until.is_some_and(|until| clock < until) {
            self.lease_reads += 1;
        }
        self.hand_to_driver(at);
    }

    fn hand_to_driver(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        while host.driver.as_ref().is_some_and(|driver| driver.takes()) {
            let Some(batch) = host.turn.desk.pop_front() else { return };
            host.driver().propose(batch);
        }
    }

    /// A turn with a decision of so many facts; whether it was one.
    pub fn decide(&mut self, at: usize, count: u64) -> bool {
        let (now, merged) = (self.now, self.weather.merged);
        let host = &mut self.hosts[at];
        host.turn.take_told(&mut self.acked);
        let forms = host.driver().status().forming.is_some();
        let values: Vec<u64> = (1..=count).map(|more| self.values + more).collect();
        if forms || !host.turn.decide(Micros(now), &values, merged) {
            return false;
        }
        self.values += count;
        self.turn(at);
        self.settle(at);
        true
    }

    /// Does what the driver wants done.
    pub fn settle(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        let Some(driver) = &mut host.driver else { return };
        let DriverOutput { writes, messages, fetches, bases, told, given_up } =
            driver.take_output();
        self.given_up.extend(given_up.iter().map(|(change, why)| format!("{change}: {why}")));
        assert!(bases.is_empty(), "logs are whole here");
        let (id, mut safe) = (host.id, Vec::new());
        for write in writes {
            self.audit.writes(id, host.applied, &write);
            host.disk.queue.push_back(write);
        }
        for told in told {
            match &told {
                DriverEvent::Elected { epoch } => {
                    host.led = Some(*epoch);
                    self.audit.leads(*epoch, id);
                }
                DriverEvent::Delivered(entry) => {
                    self.audit.applies(id, host.applied, entry);
                    host.applied = entry.index;
                }
                DriverEvent::Safe { epoch, end } => {
                    self.early += 1;
                    safe.push((*epoch, *end));
                }
                DriverEvent::Refused { .. } => self.refused_batches += 1,
                DriverEvent::Followed { .. } => host.led = None,
                DriverEvent::Restored(_) | DriverEvent::BaseWanted => {
                    unreachable!("logs are whole here")
                }
            }
            host.turn.told.push_back(told);
        }
        safe.into_iter().for_each(|(epoch, end)| self.check_safe(at, epoch, end));
        for fetch in fetches {
            let (number, low, high) = (fetch.number, fetch.low, fetch.high);
            let us = self.chance.random_range(100..5 * MS);
            self.after(us, at, What::Read { number, low, high });
        }
        let disk = &mut self.hosts[at].disk;
        if disk.syncing == 0 && !disk.queue.is_empty() && !disk.is_full {
            disk.syncing = disk.queue.len();
            let us = disk.sync_us;
            self.after(us, at, What::Synced);
        }
        self.check_leases(at);
        for frame in messages {
            self.send(at, frame);
        }
        self.hand_to_driver_quietly(at);
        self.tick_by(at);
    }

    /// What waited for room goes as soon as there is some.
    fn hand_to_driver_quietly(&mut self, at: usize) {
        let host = &self.hosts[at];
        let takes = host.driver.as_ref().is_some_and(|driver| driver.takes());
        if takes && !host.turn.desk.is_empty() {
            self.hand_to_driver(at);
            self.settle(at);
        }
    }

    /// What is answered is on the disks of a majority, whoever of them leads.
    fn check_safe(&self, at: usize, epoch: u64, end: u64) {
        let has = |host: &Host| {
            let is_last = |entry: &LogEntry| {
                let Payload::Facts(facts) = &entry.payload else { return false };
                entry.term == epoch && facts.first + u64::from(facts.count) == end
            };
            host.disk.entries.iter().rev().any(is_last)
        };
        let having = |id: &&u64| self.hosts.iter().any(|host| host.id == **id && has(host));
        let members = self.hosts[at].driver.as_ref().expect("it leads").status().members;
        for voters in
            [&members.voters, &members.outgoing].into_iter().filter(|list| !list.is_empty())
        {
            let having = voters.iter().filter(having).count();
            assert!(2 * having > voters.len(), "facts before {end} are on {having} disks");
        }
    }

    /// While one has the lease nobody else leads in a later term.
    fn check_leases(&self, at: usize) {
        let Some(own) = self.hosts[at].led else { return };
        for other in &self.hosts {
            let Some(its) = other.led.filter(|its| *its != own) else { continue };
            let old = if its < own { other } else { &self.hosts[at] };
            assert!(
                old.lease_until() <= self.now,
                "{} has the lease and another leads",
                old.own.name
            );
        }
    }

    fn send(&mut self, at: usize, frame: Outgoing) {
        let Some(to) = self.hosts.iter().position(|host| host.id == frame.to) else { return };
        let lives = (self.hosts[at].life, self.hosts[to].life);
        let is_there = self.connections.get(&(at, to)) == Some(&lives);
        let is_lost = self.chance.random_range(0..1_000_000) < self.weather.loss;
        if is_lost || !is_there || self.cut.contains(&(at, to)) {
            return;
        }
        let (low, high) = self.weather.delay;
        let delay = self.chance.random_range(low..=high);
        let last = self.lanes.entry((at, to, frame.lane)).or_default();
        *last = (*last).max(self.now + delay);
        let us = *last - self.now;
        self.after(us, to, What::Arrives { from: at, frame });
    }

    pub fn heal(&mut self) {
        self.cut.clear();
        (self.weather.loss, self.weather.delay) = (0, (100, 150));
        for at in 0..self.hosts.len() {
            self.hosts[at].disk.sync_us = 100;
            self.hang(at, false);
            self.fill(at, false);
            if self.is_still(at) {
                self.resume(at);
            }
            if !self.runs(at) {
                self.start(at);
            }
        }
    }
}

impl Nodes for Site {
    fn count(&self) -> usize {
        self.hosts.len()
    }

    fn leader(&self) -> Option<usize> {
        Site::leader(self)
    }

    fn kill(&mut self, at: usize) {
        let Some(driver) = &self.hosts[at].driver else { return };
        self.killed_while_forming += u64::from(driver.status().forming.is_some());
        Site::kill(self, at);
    }

    fn start(&mut self, at: usize) {
        if !self.runs(at) {
            Site::start(self, at);
        }
    }

    fn pause(&mut self, at: usize, us: u64) {
        if self.runs(at) {
            Site::pause(self, at, us);
        }
    }

    fn go_on(&mut self, at: usize) {
        if self.is_still(at) {
            self.resume(at);
        }
    }

    fn cut(&mut self, way: Way) {
        self.cut.insert(way);
    }

    fn mend(&mut self, way: Way) {
        self.cut.remove(&way);
    }

    fn slow(&mut self, at: usize, sync_us: Option<u64>) {
        self.hosts[at].disk.sync_us = sync_us.unwrap_or(self.weather.sync_us);
    }

    fn hang(&mut self, at: usize, is_on: bool) {
        self.hosts[at].disk.is_hung = is_on;
    }

    /// As admission sees it: its turn would add nothing.
    fn fill(&mut self, at: usize, is_full: bool) {
        let host = &mut self.hosts[at];
        host.disk.is_full = is_full;
        if let Some(driver) = &mut host.driver {
            driver.set_has_room(!is_full);
            self.settle(at);
        }
    }
}

pub const FORMED_WITHIN: u64 = 10 * E;
