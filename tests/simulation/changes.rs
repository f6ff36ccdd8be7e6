//! Changes of the leader at any turn: an engine that only applied goes on where the other one ends, which applies from
//! then on. All that the auditor holds an engine to holds across them.

use delayd::engine::{Applying, Engine, Facts, Lead, Loader, Settings, Turn};
use delayd::ids::ClientId;
use delayd::limits::LEVEL;
use delayd::time::{Micros, Millis};
use rand::Rng;

use crate::simulation::auditor::{Auditor, Check};
use crate::simulation::model::ModelQueue;
use crate::simulation::timetable::tables;
use crate::simulation::trace::Recorder;
use crate::simulation::world::World;
use crate::support::seeds::{Seen, Telltale, run_seeds, seeds_or};

/// What happened between the leader and who follows it.
#[derive(Default)]
pub struct Changes {
    term: u64,
    /// Facts that the other engine has not been told, from this instant on.
    behind: Option<(Micros, Facts)>,
    /// All facts ever.
    history: Option<(Micros, Facts)>,
    /// Who reads them all does not know whose turn it is.
    forgetful: bool,
}

fn append(to: &mut Option<(Micros, Facts)>, now: Micros, later: &Facts) {
    match to {
        Some((_, facts)) => facts.append(now, later),
        None => {
            let (bytes, count) = (later.bytes.clone(), later.count);
            *to = Some((now, Facts { bytes, count }));
        }
    }
}

fn from_base(engine: &mut Engine, own: usize) -> Engine {
    let settings = engine.settings().clone();
    let mut loader = Loader::new(Settings { hash_seed: !settings.hash_seed, ..settings });
    engine.begin_base();
    while !engine.base_slice(100, 10_000) {}
    loader.images(&std::mem::take(engine.base_output())).expect("own images");
    let mut loaded = Engine::loaded(loader).expect("own images");
    assert_eq!(loaded.digest(), engine.digest(), "loaded from a base");
    loaded.set_zones(tables(own));
    loaded
}

impl World {
    /// The facts of a turn go to the other engine some time later, in batches that it applies in slices.
    pub fn note_turn(&mut self) {
        let Some(changes) = &mut self.changes else { return };
        if self.turn_facts.count > 0 {
            append(&mut changes.behind, self.now, &self.turn_facts);
            append(&mut changes.history, self.now, &self.turn_facts);
        }
        if self.workload.one_in(3) {
            self.tell_follower();
        }
    }

    pub fn tell_follower(&mut self) {
        let Some(changes) = &mut self.changes else { return };
        let Some((first, facts)) = changes.behind.take() else { return };
        assert!(self.replica.may_follow(first));
        let mut batch = Applying::new(first);
        loop {
            let rng = &mut self.workload.rng;
            let (steps, budget) = (1 << rng.random_range(0..12), rng.random_range(0..200));
            let whole = self.replica.apply_slice(&mut batch, &facts.bytes, facts.count, steps);
            // Its own clock is about that of the leader.
            self.replica.follow(Micros(self.now.0 + 5_000), budget);
            if whole.expect("own facts are readable") {
                return;
            }
        }
    }

    /// The leader is gone for some time, and all connections with it.
    fn change_leader(&mut self, seen: &mut Seen) {
        self.tell_follower();
        let rng = &mut self.workload.rng;
        let gone_us = [0, 900, 400_000, 3_000_000][rng.random_range(0..4)];
        let from = Micros(self.now.0 + rng.random_range(0..=gone_us));
        self.now = Micros(self.now.0 + gone_us);
        let grace_us = [0, 100_000, 2_000_000, 30_000_000][rng.random_range(0..4)];
        let to = Micros(self.now.0 + grace_us);
        self.lose_connections();
        std::mem::swap(&mut self.engine, &mut self.replica);
        self.tables.reverse();
        if self.workload.one_in(3) || self.has_paces() {
            self.start_from_bases();
            seen.note("both were loaded from bases");
        }
        let changes = self.changes.as_mut().expect("leaders change");
        changes.term += 1;
        let level = LEVEL;
        let lead = Lead { term: changes.term, node: changes.term % 3 + 1, level, from, to };
        let (mut facts, mut outbox) = (Facts::default(), Recorder::default());
        self.engine.lead(self.now, &lead, &mut Turn { facts: &mut facts, outbox: &mut outbox });
        assert_eq!((facts.count, outbox.0.len()), (1, 0), "it says that it leads, no more");
        self.turn_facts.bytes.extend_from_slice(&facts.bytes);
        self.turn_facts.count += 1;
        self.replica.unlead();
        let left = (self.replica.waiter_count(), self.replica.awaited_count());
        assert_eq!(left, (0, 0), "whoever waited");
        let forgetful = self.changes.as_ref().is_some_and(|changes| changes.forgetful);
        if self.workload.one_in(3) && !forgetful {
            self.replica = self.reloaded();
            seen.note("the former leader was thrown away");
        }
        if let Some(auditor) = &mut self.auditor {
            auditor.lead(&lead, self.tables[0]);
        }
        seen.note("changes of the leader");
    }

    fn lose_connections(&mut self) {
        let gone: Vec<ClientId> = self.clients.iter().map(|client| client.id).collect();
        for client in std::mem::take(&mut self.clients) {
            self.workload.old.extend(client.held);
        }
        gone.iter().for_each(|_| self.connect());
        if let Some(auditor) = &mut self.auditor {
            gone.into_iter().for_each(|client| auditor.lose(client));
        }
    }

    /// Both engines are loaded from bases of them: whose turn it was is forgotten.
    pub fn start_from_bases(&mut self) {
        self.engine = from_base(&mut self.engine, self.tables[0]);
        self.replica = from_base(&mut self.replica, self.tables[1]);
        self.changes.iter_mut().for_each(|changes| changes.forgetful = true);
        if let Some(auditor) = &mut self.auditor {
            auditor.model.queues.values_mut().for_each(ModelQueue::begin_turns_anew);
        }
    }

    /// An engine that has read all facts there ever were.
    fn reloaded(&self) -> Engine {
        let settings = self.engine.settings().clone();
        let mut engine = Engine::new(Settings { hash_seed: !settings.hash_seed, ..settings });
        engine.set_zones(tables(self.tables[1]));
        let changes = self.changes.as_ref().expect("leaders change");
        if let Some((first, facts)) = &changes.history {
            let read = engine.apply_encoded(*first, &facts.bytes, facts.count);
            read.expect("own facts are readable");
        }
        if let Some((now, _)) = &changes.behind {
            panic!("facts from {now:?} on are not told");
        }
        engine
    }
}

/// What the auditor knows of who leads.
#[derive(Default)]
pub struct Led {
    /// Leases cannot end from then to then.
    pub stall: Option<(u64, u64)>,
}

impl Led {
    /// Whether no lease could end at `end`.
    pub fn covers(&self, end: u64) -> bool {
        self.stall.is_some_and(|(from, to)| (from..=to).contains(&end))
    }

    /// The new end of such a lease, met at `ceil`.
    pub fn extended(&self, end: u64, ceil: u64) -> u64 {
        let (from, to) = self.stall.expect("it is covered");
        (ceil + (end - from).max(1)).max(to + 1)
    }

    /// Whether connections to the leader before may be open still.
    pub fn lasts(&self, now: Millis) -> bool {
        self.stall.is_some_and(|(_, to)| now.0 <= to)
    }
}

impl Auditor {
    fn lose(&mut self, client: ClientId) {
        self.model.leave(client);
        self.model.unsent.remove(&client);
        self.model.former.insert(client);
        self.scans.remove(&client);
        self.forecasts.remove(&client);
        self.redrives.remove(&client);
    }

    fn lead(&mut self, lead: &Lead, tables: usize) {
        self.set_tables(tables);
        let queues = self.model.queues.values_mut();
        let schedules = queues.flat_map(|queue| queue.schedules.values_mut());
        schedules.for_each(|schedule| schedule.making_up = None);
        self.advanced = 0;
        let closed = std::mem::take(&mut self.model.closed);
        self.model.former.extend(closed);
        self.model.going_back.clear();
        let (from, to) = (lead.from.floor().0, lead.to.ceil().0);
        let before = self.led.stall.unwrap_or((from, to));
        self.led.stall = Some((from.min(before.0), to.max(before.1)));
        self.model.rates_from_us = lead.from.0 + 1_000_000;
        let rates_from_us = self.model.rates_from_us;
        let queues = self.model.queues.values_mut();
        queues.for_each(|queue| queue.policies.closed_until_us = rates_from_us);
    }
}

impl Check<'_> {
    /// Every lease was met that would have ended in the stall.
    pub fn stall_over(&mut self) {
        let (now, model) = (self.now(), &self.auditor.model);
        let (_, to) = self.auditor.led.stall.take().expect("a stall that is over was there");
        assert!(to < now.0, "the stall until {to} is over at {now:?}");
        let unmet = model.queues.values().filter_map(|queue| queue.leased.first());
        let unmet = unmet.filter(|(end, ..)| *end <= to).count();
        assert_eq!(unmet, 0, "leases that ended in the stall");
        self.auditor.note("stall over");
    }
}

fn run(seed: u64, seen: &mut Seen) {
    let mut world = World::new(seed, true);
    // Without a stall of the journal: those add up with these.
    world.workload.options.flows = 0;
    world.changes = Some(Changes::default());
    let options = world.workload.options.clone();
    let _telltale = Telltale(format!("DELAYD_SEED={seed} with {options:#?}"));
    for _ in 0..options.turns {
        world.turn();
        if world.workload.one_in(25) {
            world.change_leader(seen);
            world.end_turn();
        }
    }
    world.now = Micros(world.now.0 + 60_000_000);
    world.catch_up();
    world.end_turn();
    world.tell_follower();
    assert_eq!(world.engine.leading().stall, None, "the stall is over");
    assert_eq!(world.reloaded().digest(), world.engine.digest(), "a fresh replay");
    let auditor = world.auditor.as_ref().expect("it is audited");
    auditor.seen.iter().for_each(|(what, count)| seen.count(what, *count));
    world.settle();
    // They agree on whose turn it is.
    world.start_from_bases();
    // Whoever led last has tokens above its clock.
    let hash_seed = world.replica.settings().hash_seed;
    *world.replica.settings_mut() = Settings { hash_seed, ..world.engine.settings().clone() };
    world.go_on_beside_replica(options.turns / 8);
    world.flush();
    while world.replica.follow(world.now, 10_000) {}
}

#[test]
fn an_engine_that_applied_goes_on_for_the_one_that_decided() {
    let seen = Seen::of_all(run_seeds(seeds_or(120), run));
    seen.check(&[
        "changes of the leader",
        "the former leader was thrown away",
        "both were loaded from bases",
        "stall over",
        "extended after a stall",
        "lost",
        "timeout",
        "held back",
        "unleased",
        "unpopped",
        "occurred",
        "made up for",
        "moved by tables",
        "expired",
        "forgotten",
    ]);
}
