//! Machines, the links between them, and one heap of events.

use super::audit::Audit;
use super::machine::{Disk, Machine};
use crate::support::faults::{Nodes, Way};
use bytes::Bytes;
use delayd::cluster::members::Members;
use delayd::cluster::peer::frame::Lane;
use delayd::cluster::raft::codec::{Head, Outgoing};
use delayd::cluster::raft::entry::{Base, EpochFacts, Payload};
use delayd::cluster::raft::output::{Output, RaftRole};
use delayd::limits::{APPEND_BYTES_MAX, HEARTBEAT_TICKS, LOG_CACHE_BYTES};
use delayd::time::Micros;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;

/// E, µs.
pub const E: u64 = 300_000;
pub const TICK: u64 = E / 30;
pub const MS: u64 = 1_000;
pub const SECOND: u64 = 1_000_000;

/// How things are without faults.
#[derive(Clone, Default, Debug)]
pub struct Options {
    pub nodes: u64,
    /// From one machine to another, µs.
    pub delay: (u64, u64),
    /// Of a lane, bytes a second.
    pub bandwidth: u64,
    pub sync_us: u64,
    /// What a frame may be lost with, millionths.
    pub loss: u32,
    /// Whether frames of a lane may overtake each other.
    pub reorder: bool,
    /// How far clocks go wrong, millionths.
    pub drift: u64,
    pub cache_bytes: usize,
    /// How long a base is on its way, µs.
    pub base_us: u64,
    /// Out of a hundred bases, so many are lost; of their ends, so many are not told.
    pub bases_lost: u32,
    pub ends_untold: u32,
    /// What a restarted node applies before it begins.
    pub replay: bool,
    /// Frames and times are kept, to be compared.
    pub record: bool,
}

impl Options {
    pub fn calm(nodes: u64) -> Options {
        Options {
            nodes,
            delay: (100, 150),
            bandwidth: 100_000_000,
            sync_us: 100,
            cache_bytes: LOG_CACHE_BYTES,
            base_us: MS,
            ..Options::default()
        }
    }
}

/// What happens. Machines by their place, and the life for which it was meant.
#[derive(Debug)]
pub enum Event {
    Tick { at: usize, life: u64 },
    Arrives { at: usize, life: u64, from: u64, frame: Outgoing },
    Synced { at: usize, life: u64 },
    Read { at: usize, life: u64, number: u64, low: u64, high: u64 },
    MakesBase { at: usize, life: u64 },
    BaseMoves { at: usize, life: u64, to: u64, until: u64 },
    BaseEnds { at: usize, life: u64, to: u64, arrived: bool },
    Resumes { at: usize, life: u64 },
}

pub struct World {
    pub now: u64,
    pub options: Options,
    pub chance: SmallRng,
    pub machines: Vec<Machine>,
    pub audit: Audit,
    /// From whom to whom nothing goes.
    pub cut: BTreeSet<(u64, u64)>,
    events: BTreeMap<(u64, u64), Event>,
    number: u64,
    /// When a lane is free again, and when what was sent last arrives.
    lanes: BTreeMap<(u64, u64, Lane), (u64, u64)>,
    pub record: Vec<u8>,
    pub proposals: u64,
    /// Bytes sent, and the time from a proposal to its answer at the most, µs.
    pub sent_bytes: u64,
    pub refused: u64,
    pub asked_of_disk: u64,
    pub bases_sent: u64,
    pub bases_restored: u64,
    pub promises: u64,
    proposed_at: BTreeMap<u64, u64>,
    pub latencies: Vec<u64>,
}

impl World {
    pub fn new(seed: u64, options: Options) -> World {
        let base = Base { index: 1, term: 1, members: Members::of(1..=options.nodes) };
        let mut world = World {
            now: 0,
            chance: SmallRng::seed_from_u64(seed),
            machines: Vec::new(),
            audit: Audit::new(&base),
            cut: BTreeSet::new(),
            events: BTreeMap::new(),
            number: 0,
            lanes: BTreeMap::new(),
            record: Vec::new(),
            proposals: 0,
            sent_bytes: 0,
            refused: 0,
            asked_of_disk: 0,
            bases_sent: 0,
            bases_restored: 0,
            promises: 0,
            proposed_at: BTreeMap::new(),
            latencies: Vec::new(),
            options,
        };
        for _ in 0..world.options.nodes {
            world.add_machine(base.clone());
        }
        world
    }

    /// A machine more, with this base; it runs.
    pub fn add_machine(&mut self, base: Base) -> usize {
        let (drift, sync_us) = (self.options.drift, self.options.sync_us);
        let rate = self.chance.random_range(1_000_000 - drift..=1_000_000 + drift);
        let id = self.machines.len() as u64 + 1;
        self.machines.push(Machine::new(id, Disk::of(base, sync_us), rate));
        self.start(self.machines.len() - 1);
        self.machines.len() - 1
    }

    pub fn start(&mut self, at: usize) {
        let (seed, cache) = (self.chance.random(), self.options.cache_bytes);
        let machine = &mut self.machines[at];
        for entry in machine.start(seed, cache, self.options.replay) {
            self.audit.applies(machine.id, machine.applied, &entry);
            machine.applied = entry.index;
        }
        let life = machine.life;
        let first = self.chance.random_range(0..TICK);
        self.after(first, Event::Tick { at, life });
        self.settle(at);
    }

    pub fn kill(&mut self, at: usize) {
        let queued = self.machines[at].disk.queue.len();
        let kept = self.chance.random_range(0..=queued);
        self.machines[at].kill(kept);
    }

    pub fn pause(&mut self, at: usize, us: u64) {
        let machine = &mut self.machines[at];
        machine.paused_until = self.now + us;
        let life = machine.life;
        self.after(us, Event::Resumes { at, life });
    }

    pub fn after(&mut self, us: u64, event: Event) {
        self.number += 1;
        self.events.insert((self.now + us, self.number), event);
    }

    /// Lets time pass until then.
    pub fn run_until(&mut self, end: u64) {
        while let Some(entry) = self.events.first_entry()
            && entry.key().0 <= end
        {
            let ((now, _), event) = entry.remove_entry();
            self.now = now;
            self.happen(event);
        }
        self.now = end;
    }

    /// Lets time pass until something holds; how long that took, or a panic after `most`.
    pub fn wait_for(&mut self, what: &str, most: u64, holds: impl Fn(&World) -> bool) -> u64 {
        let begin = self.now;
        while !holds(self) {
            assert!(self.now < begin + most, "{what}: not after {most} µs");
            let next = self.events.first_key_value().map(|((time, _), _)| *time);
            self.run_until(next.expect("ticks go on"));
        }
        self.now - begin
    }

    /// Who leads and may decide.
    pub fn leader(&self) -> Option<usize> {
        let leading = (0..self.machines.len()).filter(|at| self.machines[*at].leads());
        leading.max_by_key(|at| self.machines[*at].node.as_ref().map(|node| node.term()))
    }

    pub fn wait_for_leader(&mut self) -> usize {
        self.wait_for("a leader", 10 * E, |world| world.leader().is_some());
        self.leader().expect("just seen")
    }

    /// Proposes a batch of so many bytes at a machine that leads; whether it was taken.
    pub fn propose(&mut self, at: usize, bytes: usize) -> bool {
        self.proposals += 1;
        let mut body = vec![0; bytes.max(8)];
        body[..8].copy_from_slice(&self.proposals.to_le_bytes());
        let body = Bytes::from(body);
        let (first, now) = (self.proposals, Micros(self.now));
        let facts = EpochFacts { first, now, count: 1, body };
        let payload = Payload::Facts(facts.clone());
        let machine = &mut self.machines[at];
        let term = machine.node().term();
        let Ok(index) = machine.node().propose(term, facts) else { return false };
        machine.proposed.insert(index, (term, payload));
        self.proposed_at.insert(index, self.now);
        self.settle(at);
        true
    }

    pub fn confirm(&mut self, at: usize) {
        let clock = self.machines[at].clock(self.now);
        self.machines[at].node().confirm(clock);
        self.settle(at);
    }

    pub fn transfer(&mut self, at: usize, to: u64) -> bool {
        let machine = &mut self.machines[at];
        machine.lease.end();
        let is_begun = machine.node().transfer(to);
        self.settle(at);
        is_begun
    }

    /// All machines of the cluster that run, are members and have the same.
    pub fn is_equal(&self) -> bool {
        let Some(leader) = self.leader() else { return false };
        let members = self.machines[leader].node.as_ref().expect("it leads").members();
        let end = self.audit.end();
        let has_all = |id: &u64| {
            let node = &self.machines[*id as usize - 1].node;
            node.as_ref().is_some_and(|node| (node.applied(), node.last()) == (end, end))
        };
        !members.is_joint() && members.all().iter().all(has_all)
    }

    fn happen(&mut self, event: Event) {
        let (at, life) = match &event {
            Event::Tick { at, life }
            | Event::Arrives { at, life, .. }
            | Event::Synced { at, life }
            | Event::Read { at, life, .. }
            | Event::MakesBase { at, life }
            | Event::BaseMoves { at, life, .. }
            | Event::BaseEnds { at, life, .. }
            | Event::Resumes { at, life } => (*at, *life),
        };
        let machine = &mut self.machines[at];
        if machine.life != life || machine.node.is_none() {
            return;
        }
        if self.now < machine.paused_until {
            // Ticks that were missed are not made up for: the last one is.
            match event {
                Event::Tick { .. } => {
                    let us = machine.paused_until - self.now;
                    self.after(us, event);
                }
                _ => machine.inbox.push_back(event),
            }
            return;
        }
        if self.options.record {
            self.record.extend(self.now.to_le_bytes());
            self.record.extend(format!("{at} {event:?}\n").bytes());
        }
        self.meet(at, life, event);
    }

    fn meet(&mut self, at: usize, life: u64, event: Event) {
        match event {
            Event::Tick { .. } => self.tick(at, life),
            Event::Arrives { from, frame, .. } => self.arrives(at, from, frame),
            Event::Synced { .. } => {
                let disk = &mut self.machines[at].disk;
                let count = take(&mut disk.syncing);
                let last = disk.make_durable(count).expect("a sync is of something");
                self.machines[at].node().persisted(last);
            }
            Event::Read { number, low, high, .. } => {
                let machine = &mut self.machines[at];
                let entries = machine.disk.read(low, high, APPEND_BYTES_MAX);
                machine.node().fetched(number, entries);
            }
            Event::MakesBase { .. } => self.make_base(at),
            Event::BaseMoves { to, until, .. } => {
                self.machines[at].node().base_moves(to);
                if self.now < until {
                    self.after(SECOND, Event::BaseMoves { at, life, to, until });
                }
            }
            Event::BaseEnds { to, arrived, .. } => {
                self.machines[at].node().base_ended(to, arrived);
            }
            Event::Resumes { .. } => {
                let inbox = take(&mut self.machines[at].inbox);
                inbox.into_iter().for_each(|event| self.happen(event));
                return;
            }
        }
        self.settle(at);
    }

    fn tick(&mut self, at: usize, life: u64) {
        let machine = &mut self.machines[at];
        machine.ticks += 1;
        let is_beat = machine.ticks.is_multiple_of(HEARTBEAT_TICKS as u64);
        let us = TICK * 1_000_000 / machine.rate;
        machine.node().tick();
        self.after(us, Event::Tick { at, life });
        if is_beat {
            self.settle(at);
            self.confirm(at);
        }
    }

    fn arrives(&mut self, at: usize, from: u64, frame: Outgoing) {
        if self.cut.contains(&(from, at as u64 + 1)) {
            return;
        }
        let head = Head::read(&frame.head).expect("a node wrote it");
        if self.machines[at].node().receive(from, head, frame.bodies).is_err() {
            self.refused += 1;
        }
        if frame.lane == Lane::Base {
            self.base_ends(from, at as u64 + 1, true);
        }
    }

    /// The sender of a base is told, or is not.
    fn base_ends(&mut self, sender: u64, to: u64, arrived: bool) {
        let at = sender as usize - 1;
        let life = self.machines[at].life;
        if !self.draws(self.options.ends_untold) {
            self.after(MS, Event::BaseEnds { at, life, to, arrived });
        }
    }

    fn draws(&mut self, out_of_hundred: u32) -> bool {
        out_of_hundred > 0 && self.chance.random_range(0..100) < out_of_hundred
    }

    /// A base of what is applied, and part of the log before it goes.
    pub fn make_base(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        machine.wants_base = false;
        let Some(node) = machine.node.as_mut() else { return };
        let (index, first) = (node.applied(), node.first());
        let is_replaced = machine.disk.queue.iter().any(|write| write.base.is_some());
        if index <= node.base().index || is_replaced {
            return;
        }
        let term = node.term_of(index).expect("it is in the log");
        let base = Base { index, term, members: node.members().clone() };
        let first = self.chance.random_range(first..=index + 1);
        node.base_made(base.clone());
        node.log_dropped(first);
        machine.disk.put_base(base, first);
        self.settle(at);
    }

    /// Does what the node wants done.
    pub fn settle(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        let Some(node) = machine.node.as_mut() else { return };
        let out = node.take_output();
        self.look_at(at);
        let Output { writes, messages, restored, committed, confirmed, .. } = out;
        let (fetches, wants_base) = (out.fetches, out.wants_base);
        let machine = &mut self.machines[at];
        let (id, life) = (machine.id, machine.life);
        for write in writes {
            self.audit.writes(id, machine.applied, &write);
            machine.disk.queue.push_back(write);
        }
        if let Some(base) = restored {
            self.audit.restores(id, &base);
            machine.applied = base.index;
            self.bases_restored += 1;
        }
        for entry in committed {
            self.audit.applies(id, machine.applied, &entry);
            machine.applied = entry.index;
            if let Some((term, payload)) = machine.proposed.remove(&entry.index)
                && term == entry.term
            {
                self.audit.acks(entry.index, payload);
                let begun = self.proposed_at.remove(&entry.index);
                self.latencies.extend(begun.map(|begun| self.now - begun));
            }
        }
        for confirmed in confirmed {
            self.promises += u64::from(confirmed.is_promise);
            if confirmed.is_promise {
                machine.lease.confirm(Micros(confirmed.asked));
            }
        }
        let is_asked = wants_base && !machine.wants_base;
        machine.wants_base |= wants_base;
        if is_asked {
            self.after(20 * MS, Event::MakesBase { at, life });
        }
        for fetch in fetches {
            self.asked_of_disk += 1;
            let (number, low, high) = (fetch.number, fetch.low, fetch.high);
            let us = self.chance.random_range(100..5 * MS);
            self.after(us, Event::Read { at, life, number, low, high });
        }
        self.sync(at);
        self.check_leases(at);
        for frame in messages {
            self.send(at, frame);
        }
    }

    /// One sync at a time, of all that is written.
    fn sync(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        let (disk, life) = (&mut machine.disk, machine.life);
        if disk.syncing == 0 && !disk.queue.is_empty() {
            disk.syncing = disk.queue.len();
            let us = disk.sync_us;
            self.after(us, Event::Synced { at, life });
        }
    }

    /// Who leads now, and did not before.
    fn look_at(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        let node = machine.node.as_ref().expect("it runs");
        let clock = machine.clock(self.now);
        let leads = (node.role() == RaftRole::Leader).then(|| node.term());
        if machine.led != leads {
            machine.led = leads;
            machine.lease.lose();
            if let Some(term) = leads {
                machine.lease.begin(Micros(clock));
                self.audit.leads(term, machine.id);
            }
        }
    }

    /// While one has the lease nobody else leads in a later term.
    fn check_leases(&self, at: usize) {
        let Some(term) = self.machines[at].led else { return };
        for other in &self.machines {
            let Some(its) = other.led.filter(|its| *its != term) else { continue };
            let old = if its < term { other } else { &self.machines[at] };
            assert!(
                old.lease_until() <= self.now,
                "node {} has the lease for {} µs and another leads",
                old.id,
                old.lease_until() - self.now
            );
        }
    }

    fn send(&mut self, at: usize, frame: Outgoing) {
        let (from, to) = (self.machines[at].id, frame.to);
        let place = to as usize - 1;
        let life = self.machines[place].life;
        self.sent_bytes += frame.bytes() as u64;
        let is_lost = self.chance.random_range(0..1_000_000) < self.options.loss;
        let is_gone = self.cut.contains(&(from, to)) || self.machines[place].node.is_none();
        if frame.lane == Lane::Base {
            self.send_base(at, frame, is_gone);
            return;
        }
        if is_lost || is_gone {
            return;
        }
        let (low, high) = self.options.delay;
        let delay = self.chance.random_range(low..=high);
        let (free, last) = self.lanes.entry((from, to, frame.lane)).or_default();
        let sending = frame.bytes() as u64 * SECOND / self.options.bandwidth;
        *free = (*free).max(self.now) + sending;
        let mut arrives = *free + delay;
        if !self.options.reorder {
            arrives = arrives.max(*last);
        }
        *last = arrives;
        let us = arrives - self.now;
        self.after(us, Event::Arrives { at: place, life, from, frame });
    }

    /// The file, and the frame when it is whole.
    fn send_base(&mut self, at: usize, frame: Outgoing, is_gone: bool) {
        self.bases_sent += 1;
        let (from, to) = (self.machines[at].id, frame.to);
        let place = to as usize - 1;
        let us = self.options.base_us;
        let life = self.machines[at].life;
        let until = self.now + us;
        self.after(us.min(SECOND), Event::BaseMoves { at, life, to, until });
        if is_gone || self.draws(self.options.bases_lost) {
            self.base_ends(from, to, false);
        } else {
            let life = self.machines[place].life;
            self.after(us, Event::Arrives { at: place, life, from, frame });
        }
    }
}

impl Nodes for World {
    fn count(&self) -> usize {
        self.machines.len()
    }

    fn leader(&self) -> Option<usize> {
        World::leader(self)
    }

    fn kill(&mut self, at: usize) {
        if self.machines[at].node.is_some() {
            World::kill(self, at);
        }
    }

    fn start(&mut self, at: usize) {
        if self.machines[at].node.is_none() {
            World::start(self, at);
        }
    }

    fn pause(&mut self, at: usize, us: u64) {
        if self.machines[at].node.is_some() {
            World::pause(self, at, us);
        }
    }

    fn go_on(&mut self, at: usize) {
        if self.machines[at].paused_until > self.now {
            let life = self.machines[at].life;
            self.machines[at].paused_until = self.now;
            self.after(0, Event::Resumes { at, life });
        }
    }

    fn cut(&mut self, (from, to): Way) {
        self.cut.insert((from as u64 + 1, to as u64 + 1));
    }

    fn mend(&mut self, (from, to): Way) {
        self.cut.remove(&(from as u64 + 1, to as u64 + 1));
    }

    fn slow(&mut self, at: usize, sync_us: Option<u64>) {
        self.machines[at].disk.sync_us = sync_us.unwrap_or(self.options.sync_us);
    }
}
