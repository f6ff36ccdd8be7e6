//! A start on what a crash left, and what must be true of it.

use std::mem;
use std::sync::Arc;

use delayd::engine::journal_room::Flow;
use delayd::engine::model::schedule::ScheduleCounts;
use delayd::engine::{Engine, Settings};
use delayd::ids::Index;
use delayd::journal::recovery::{Progress, Recovered, recover};
use delayd::time::Micros;
use rand::Rng;
use rand::rngs::SmallRng;

use super::picture::{self, Shown};
use super::point::Point;
use super::run::{OPTIONS, Run};
use crate::simulation::world::{Record, World};
use crate::support::lossy::{Fault, Lossy};
use crate::support::seeds::Seen;

/// Far from what any run does.
const NEVER: u64 = 1 << 40;

/// Settings that would decide otherwise in everything.
pub fn other_settings(settings: &Settings) -> Settings {
    Settings {
        hash_seed: settings.hash_seed.wrapping_mul(0x9e37_79b9).wrapping_add(1),
        token_floor: settings.token_floor + 77_777,
        delay_ms_max: 1,
        lease_ms_default: 3,
        lease_ms_max: 4,
        memory_bytes_max: 1,
        memory_bytes_beside: 1,
        memory_bytes_over: 1,
        stats_retention_ms: 1,
        history_queues_max: settings.history_queues_max,
        spare_bytes_min: 0,
        spare_quiet_ms: 0,
    }
}

/// What is there after a crash: the power failed, or the process alone died.
pub fn after_crash(storage: &Lossy, rng: &mut SmallRng, seen: &mut Seen) -> Arc<Lossy> {
    if rng.random_ratio(1, 4) {
        seen.note("killed");
        return storage.kill();
    }
    seen.note("power failures");
    storage.crash(rng)
}

impl Run {
    /// Recovers what is left, compares it with what was, and goes on with it.
    pub fn start(&mut self, seen: &mut Seen) {
        if !self.is_alive() {
            seen.note("deaths in an operation");
        }
        self.storage = after_crash(&self.storage, &mut self.rng, seen);
        let floor = self.draw_floor(seen);
        let recovered = self.recover(floor, seen);
        let index = recovered.index;
        let point = self.check(&recovered, seen);
        let then = recovered.now;
        let before = self.world.now;
        self.restart(recovered);
        self.forget_after(index, floor);
        self.calm_down(&point, seen);
        // The clock goes on, or had been set back.
        self.world.now = if self.rng.random_ratio(1, 4) { then } else { then.max(before) };
        if self.world.now < before {
            seen.note("clocks set back");
        }
    }

    /// Numbers begin above all there ever were, as the clock at the start has it; or where they
    /// began before, to make it hard.
    fn draw_floor(&mut self, seen: &mut Seen) -> Option<u64> {
        let raised = self.rng.random::<bool>();
        seen.note(if raised {
            "numbers above the floor"
        } else {
            "numbers above what was recovered"
        });
        raised.then_some(self.number_ever)
    }

    /// Recovers, perhaps after some tries that crash.
    fn recover(&mut self, floor: Option<u64>, seen: &mut Seen) -> Recovered<Lossy> {
        let settings = self.world.engine.settings();
        let token_floor = floor.unwrap_or(settings.token_floor);
        let hash_seed = settings.hash_seed.rotate_left(5) ^ 3;
        let settings = Settings { hash_seed, token_floor, ..settings.clone() };
        loop {
            let dies = self.rng.random_ratio(1, 3);
            let operation = if dies { self.rng.random_range(0..14) } else { NEVER };
            self.storage.fail_after(operation, Fault::Death);
            let short = self.rng.random_range(0..3) * 700;
            self.storage.short_reads(short);
            let tried = recover(&self.storage, OPTIONS, settings.clone(), &Progress::default());
            self.storage.fail_after(NEVER, Fault::Death);
            match tried {
                Ok(recovered) => return recovered,
                Err(error) if self.is_alive() => panic!("a crash is no damage: {error}"),
                Err(_) => {
                    seen.note("died while recovering");
                    self.storage = after_crash(&self.storage, &mut self.rng, seen);
                }
            }
        }
    }

    /// What was recovered is the state after a batch, and none that was acknowledged is missing.
    fn check(&mut self, recovered: &Recovered<Lossy>, seen: &mut Seen) -> Point {
        let Recovered { engine, log, index, first, now, base_index, base_bytes, opened, .. } =
            recovered;
        let (durable, last) = (self.durable, self.last);
        assert!((durable..=last).contains(index), "{index} of {last}; {durable} was durable");
        let point = self.points[index].clone();
        point.check(engine);
        assert_eq!(*first, point.first, "the sequence of the next fact");
        assert_eq!((log.bounds().1, log.durable(), opened.last), (*index, *index, *index));
        let times: Vec<Micros> = match base_bytes {
            0 => vec![point.now],
            _ => self.bases[base_index].iter().map(|began| point.now.max(*began)).collect(),
        };
        assert!(times.contains(now), "the journal's time is {now:?}, not one of {times:?}");
        assert_eq!(engine.waiter_count(), 0, "waiters are not durable");
        let lost = last.0 - index.0;
        seen.count("batches lost", lost);
        if lost > 0 && durable > Index(0) {
            seen.note("acknowledged, then lost to nobody");
        }
        if *base_bytes > 0 {
            seen.note("recovered from a base");
            let ahead =
                opened.notices.iter().any(|notice| notice.contains("goes on after the base"));
            seen.count("the base was ahead of the log", ahead.into());
        }
        seen.count("torn tails", opened.cut.is_some().into());
        let ScheduleCounts { active, paused, held, done, .. } = engine.schedule_counts();
        seen.count("schedules recovered", active + paused + held + done);
        point
    }

    /// The clients come back to what was recovered. The replica is what a second start with all
    /// settings different finds: the same.
    fn restart(&mut self, recovered: Recovered<Lossy>) {
        let Recovered { engine, log, index, first, .. } = recovered;
        let again = self.storage.kill();
        let settings = other_settings(engine.settings());
        let again = recover(&again, OPTIONS, settings, &Progress::default()).expect("once more");
        assert_eq!((again.index, again.first), (index, first), "a second start");
        assert_eq!(again.opened.cut, None, "what was cut stays cut");
        self.points[&index].check(&again.engine);
        self.log = Some(log);
        let mut replica = again.engine;
        *replica.settings_mut() =
            Settings { hash_seed: replica.settings().hash_seed, ..engine.settings().clone() };
        self.world.restart(engine, replica);
        self.told = 0;
    }

    /// What came after `index` never was; all before it cannot be recovered any more.
    fn forget_after(&mut self, index: Index, floor: Option<u64>) {
        let point = self.points.remove(&index).expect("it was recovered");
        self.number = floor.unwrap_or(point.number);
        self.points.clear();
        self.points.insert(index, point);
        (self.last, self.durable) = (index, index);
        self.bases.retain(|covered, _| *covered <= index);
    }

    /// All is as it was, field by field; then bound leases end, and nothing else happens.
    fn calm_down(&mut self, point: &Point, seen: &mut Seen) {
        self.world.now = point.now;
        let Some(calm) = &point.calm else {
            return;
        };
        if let Some(before) = &calm.picture {
            let after = picture::of(&mut self.world.engine, point.now);
            picture::compare(before, &after);
            seen.note("pictures compared");
        }
        self.world.catch_up();
        self.world.end_turn();
        if let Some(bytes) = calm.memory_bytes.filter(|_| self.world.record.facts.is_empty()) {
            assert_eq!(self.world.engine.memory_bytes(), bytes, "bytes of memory");
            seen.note("memory compared");
        }
        if let Some(before) = &calm.picture {
            let after = picture::of(&mut self.world.engine, point.now);
            let ended = check_bound(before, &after);
            seen.count("bound leases ended", ended);
        }
        self.propose(None);
    }
}

/// Leases that end with their connection have ended, as lost; the others go on. How many ended.
fn check_bound(before: &[Shown], after: &[Shown]) -> u64 {
    let mut ended = 0;
    for shown in before {
        let jobs = after.iter().find(|after| after.name == shown.name).map_or(&[][..], |s| &s.jobs);
        for job in &shown.jobs {
            let then = jobs.iter().find(|then| then.seen.id == job.seen.id);
            match (job.lease, then) {
                (Some((token, _, true)), Some(then)) => {
                    assert_ne!(then.lease.map(|lease| lease.0), Some(token), "{then:?}");
                    // What followed it is there instead, and new.
                    let lost = if job.latest.is_some() { 0 } else { job.deliveries[3] + 1 };
                    assert_eq!(then.deliveries[3], lost, "counted as lost: {then:?}");
                    ended += 1;
                }
                // Died of it, and was one dead letter too many.
                (Some((_, _, true)), None) => ended += 1,
                (Some(_), then) => {
                    assert_eq!(then.map(|then| then.lease), Some(job.lease), "its lease goes on");
                }
                (None, _) => {}
            }
        }
    }
    ended
}

impl World {
    /// The process died: connections are gone, and with them who waited and what was in hand.
    pub fn restart(&mut self, engine: Engine, replica: Engine) {
        (self.engine, self.replica) = (engine, replica);
        self.give_tables();
        let gone = mem::take(&mut self.clients);
        let count = gone.len();
        self.workload.old.extend(gone.into_iter().flat_map(|client| client.held));
        (0..count).for_each(|_| self.connect());
        self.turn_facts.clear();
        self.more = None;
        self.flow = Flow::default();
        self.record = Record::default();
    }
}
