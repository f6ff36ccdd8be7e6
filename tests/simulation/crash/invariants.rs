//! What keeps the way to several machines open. Where each is tested:
//!
//! | | what | here | elsewhere |
//! |---|---|---|---|
//! | 1 | `apply` is total and depends on state and fact alone | `apply_depends_on_state_and_fact_alone` | the replica of every run in `tests/simulation/` |
//! | 2 | facts state results | `facts_state_results` | the second start, with all settings different, after every crash in `tests/simulation/crash` |
//! | 3 | no gaps; an index applied twice changes nothing | `batches_that_do_not_follow_are_void` | `tests/journal/tails.rs`, `tests/journal/damage.rs` for what is on a disk |
//! | 4 | replies pass one gate, at committed | | `src/server/outbox/gate.rs`, `src/server/outbox/mod.rs` |
//! | 5 | the digest is equal live, recovered and in a replica | `digests_depend_on_neither_way_nor_layout` | `tests/simulation/base`, `tests/simulation/crash` |

use std::collections::BTreeMap;
use std::mem::take;
use std::sync::Arc;

use delayd::engine::journal_room::{Flow, Room};
use delayd::engine::{Engine, Facts, Loader, Settings};
use delayd::error::Misconf;
use delayd::ids::Index;
use delayd::journal::record::RecordKind;
use delayd::journal::record::entry::EPOCH;
use delayd::journal::recovery::{Offered, Progress, Replay, recover};
use delayd::journal::{Log, LogOptions, OwnedEntry};
use delayd::time::Micros;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::picture;
use super::run::OPTIONS;
use super::start::other_settings;
use crate::simulation::world::World;
use crate::support::lossy::Lossy;
use crate::support::seeds::for_each_seed;

/// A run of the simulation as batches.
struct History {
    world: World,
    batches: Vec<OwnedEntry>,
    /// After each of them.
    digests: Vec<u64>,
}

impl History {
    fn new(seed: u64, turns: u32) -> History {
        let mut world = World::new(seed, false);
        world.workload.options.herd_max = world.workload.options.herd_max.min(200);
        let (batches, digests) = (Vec::new(), Vec::new());
        let mut history = History { world, batches, digests };
        for _ in 0..turns {
            history.world.turn();
            history.note();
        }
        history
    }

    fn note(&mut self) {
        let facts = Facts { bytes: std::mem::take(&mut self.world.record.facts), count: 0 };
        let count = facts.iter().count() as u32;
        let (index, first) = match self.batches.last() {
            Some(last) => (last.index.next(), last.first + u64::from(last.count)),
            None => (Index(1), 1),
        };
        let (now, body) = (self.world.now, facts.bytes);
        self.batches.push(OwnedEntry {
            kind: RecordKind::Facts,
            index,
            epoch: EPOCH,
            node: 0,
            first,
            now,
            count,
            body,
        });
        self.digests.push(self.world.engine.digest());
    }

    fn settings(&self) -> &Settings {
        self.world.engine.settings()
    }
}

fn facts_of(entry: &OwnedEntry) -> Facts {
    Facts { bytes: entry.body.clone(), count: entry.count.into() }
}

#[test]
fn apply_depends_on_state_and_fact_alone() {
    for_each_seed(40, |seed, _| {
        let history = History::new(seed, 80);
        let mut rng = SmallRng::seed_from_u64(!seed);
        let other = || Engine::new(other_settings(history.settings()));
        let (mut stopped, mut full, mut imaged, mut single) = (other(), other(), other(), other());
        for (entry, digest) in history.batches.iter().zip(&history.digests) {
            let (now, facts) = (entry.now, facts_of(entry));
            let cause = Misconf::Failed { cause: "a test".into() };
            stopped.set_flow(now, Flow::Stopped { cause });
            stopped.apply(now, &facts).expect("own facts");
            let room = Room::of(0, 0);
            full.set_flow(now, Flow::Running { room });
            full.settings_mut().memory_bytes_max = rng.random_range(0..100);
            full.settings_mut().lease_ms_default = rng.random_range(1..100);
            full.apply(now, &facts).expect("own facts");
            if !imaged.is_base_running() && rng.random_ratio(1, 3) {
                imaged.begin_base();
            }
            imaged.apply(now, &facts).expect("own facts");
            if imaged.is_base_running() {
                imaged.base_slice(rng.random_range(0..20), usize::MAX);
                imaged.base_output().clear();
            }
            // Not a turn at a time, but a fact.
            for fact in facts.iter() {
                let mut one = Facts::default();
                one.push(&fact.expect("own facts"));
                single.apply(now, &one).expect("own facts");
            }
            for engine in [&stopped, &full, &imaged, &single] {
                assert_eq!(engine.digest(), *digest, "after batch {}", entry.index);
            }
        }
    });
}

/// A sum over images, which nodes compare, is of the state in which a base began: whatever happened while it was written, in
/// which order its jobs were reached, and whether the engine itself was read from a base.
#[test]
fn sums_of_bases_tell_states_apart_and_nothing_else() {
    for_each_seed(40, |seed, _| {
        let history = History::new(seed, 80);
        let mut rng = SmallRng::seed_from_u64(!seed);
        let other = || Engine::new(other_settings(history.settings()));
        let (mut whole, mut sliced) = (other(), other());
        let (mut begun, mut digests) = (None, BTreeMap::new());
        for (entry, digest) in history.batches.iter().zip(&history.digests) {
            for engine in [&mut whole, &mut sliced] {
                engine.apply(entry.now, &facts_of(entry)).expect("own facts");
            }
            whole.begin_base();
            while !whole.base_slice(1_000, usize::MAX) {}
            let (sum, images) = (whole.base_sum().unwrap(), take(whole.base_output()));
            assert_eq!(*digests.entry(sum).or_insert(*digest), *digest, "other states, other sums");
            if begun.is_some() && sliced.base_slice(rng.random_range(0..20), usize::MAX) {
                assert_eq!(sliced.base_sum(), begun.take(), "after batch {}", entry.index);
            }
            sliced.base_output().clear();
            if begun.is_none() && rng.random_ratio(1, 5) {
                let mut loader = Loader::new(other_settings(history.settings()));
                loader.images(&images).expect("own images");
                sliced = Engine::loaded(loader).expect("own images");
            }
            if begun.is_none() && rng.random_ratio(1, 3) {
                sliced.begin_base();
                assert_eq!(sliced.base_sum(), None);
                begun = Some(sum);
            }
        }
    });
}

#[test]
fn facts_state_results() {
    for_each_seed(60, |seed, _| {
        let mut history = History::new(seed, 60);
        // What is due is done, so that looking finds nothing to do.
        history.world.engine.set_flow(history.world.now, Flow::default());
        history.world.catch_up();
        history.world.end_turn();
        history.note();
        let before = picture::of(&mut history.world.engine, history.world.now);
        let storage = Lossy::new();
        let mut log = Log::open(Arc::clone(&storage), OPTIONS, Index(0)).expect("nothing there").0;
        for entry in &history.batches {
            log.append(&[entry.entry()]).expect("a sound storage");
        }
        // No limit, span or clock of the second engine is that of the first.
        let settings = other_settings(history.settings());
        let recovered = recover(&storage.kill(), OPTIONS, settings, &Progress::default());
        let mut recovered = recovered.expect("all was written");
        assert_eq!(recovered.index.0, history.batches.len() as u64);
        assert_eq!(Some(&recovered.engine.digest()), history.digests.last());
        let after = picture::of(&mut recovered.engine, history.world.now);
        picture::compare(&before, &after);
    });
}

#[test]
fn batches_that_do_not_follow_are_void() {
    for_each_seed(30, |seed, _| {
        let history = History::new(seed, 60);
        let mut engine = Engine::new(history.settings().clone());
        let mut replay = Replay::default();
        for (entry, digest) in history.batches.iter().zip(&history.digests) {
            let (state, before) = (engine.digest(), replay);
            let OwnedEntry { index, epoch, first, .. } = *entry;
            let wrong = [
                OwnedEntry { index: index.next(), ..entry.clone() },
                OwnedEntry { epoch: epoch - 1, ..entry.clone() },
                OwnedEntry { first: first + 1, ..entry.clone() },
                OwnedEntry { first: first - 1, ..entry.clone() },
            ];
            for wrong in wrong {
                let offered = replay.offer(&mut engine, &wrong.entry());
                assert!(matches!(offered, Offered::Void(_)), "{wrong:?} is {offered:?}");
            }
            if index.0 > 1 {
                let old = &history.batches[index.0 as usize - 2];
                assert_eq!(replay.offer(&mut engine, &old.entry()), Offered::Old);
            }
            assert_eq!((engine.digest(), replay), (state, before), "nothing has changed");
            assert_eq!(replay.offer(&mut engine, &entry.entry()), Offered::Applied);
            let after = replay;
            assert_eq!(replay.offer(&mut engine, &entry.entry()), Offered::Old, "twice");
            assert_eq!((engine.digest(), replay), (*digest, after), "after batch {index}");
        }
    });
}

#[test]
fn digests_depend_on_neither_way_nor_layout() {
    for_each_seed(40, |seed, _| {
        let mut history = History::new(seed, 60);
        let mut rng = SmallRng::seed_from_u64(!seed);
        let digest = *history.digests.last().expect("some turns");
        assert_eq!(history.world.engine.digest(), digest, "live");
        assert_eq!(history.world.replica.digest(), digest, "the replica");
        let settings = other_settings(history.settings());
        // By way of base files, of the engine and of its replica.
        for engine in [&mut history.world.engine, &mut history.world.replica] {
            let mut loader = Loader::new(settings.clone());
            engine.begin_base();
            while !engine.base_slice(rng.random_range(1..50), rng.random_range(1..5_000)) {
                loader.images(&std::mem::take(engine.base_output())).expect("own images");
            }
            loader.images(&std::mem::take(engine.base_output())).expect("own images");
            let loaded = Engine::loaded(loader).expect("own images");
            assert_eq!(loaded.digest(), digest, "loaded");
        }
        // By way of logs that are laid out differently.
        for segment_bytes in [64 << 10, 1 << 20] {
            let (storage, options) = (Lossy::new(), LogOptions { segment_bytes, ..OPTIONS });
            let mut log = Log::open(Arc::clone(&storage), options, Index(0)).expect("empty").0;
            let mut batches = &history.batches[..];
            while !batches.is_empty() {
                let (group, rest) = batches.split_at(rng.random_range(1..=batches.len()));
                let entries: Vec<_> = group.iter().map(OwnedEntry::entry).collect();
                log.append(&entries).expect("a sound storage");
                batches = rest;
            }
            log.sync().expect("a sound storage");
            let storage = storage.crash(&mut rng);
            let recovered = recover(&storage, options, settings.clone(), &Progress::default());
            let recovered = recovered.expect("all was synced");
            assert_eq!(recovered.engine.digest(), digest, "recovered");
            let last = history.batches.last().map_or(Micros(0), |last| last.now);
            assert_eq!(recovered.now, last);
        }
    });
}
