//! Three whole nodes in one thread and a time of their own: turn, sessions, engine, Raft, and the log on a storage that
//! loses what was not synced. Links delay, lose and are cut, disks are slow, nodes are killed, paused and stopped, and
//! clients work on it all the while. One seed, one run.
//!
//! `DELAYD_SEED=17 cargo test --test simulations whole` runs one seed again, `DELAYD_CASES=5000` as many.

#![allow(clippy::single_range_in_vec_init, reason = "a part of a file is one range")]

mod audit;
mod client;
mod links;
mod log;
mod node;
mod reply;
mod weather;
mod world;

use crate::support::seeds::{Seen, Telltale, run_seeds, seeds_or};
use std::io::Write;
use std::sync::{Arc, Mutex};
use world::World;

/// What must have happened in a hundred seeds.
const HAPPENS: [&str; 27] = [
    "disks hung",
    "answered without the leader's disk",
    "nodes killed",
    "leaders killed",
    "nodes paused",
    "links cut",
    "syncs slowed",
    "nodes stopped",
    "turns slowed",
    "batches void",
    "batches refused",
    "engines read again",
    "promotions",
    "jobs acknowledged",
    "jobs delivered",
    "jobs delivered again",
    "jobs popped",
    "jobs cancelled",
    "leases over a promotion",
    "bases made",
    "disks lost",
    "bases received",
    "bases put in place",
    "bases broken off",
    "nodes compared",
    "jobs looked at",
    "followers stood still",
];

/// The warnings of a run.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<u8>>>);

impl Warnings {
    fn of(&self, run: impl FnOnce()) {
        let writer = self.clone();
        let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN);
        let subscriber = subscriber.with_ansi(false).with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(subscriber, run);
    }

    /// Nodes of one cluster refuse no base that has arrived.
    fn check(&self) {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).expect("text");
        let rejected = text.lines().find(|line| line.contains("a base that arrived is rejected"));
        assert_eq!(rejected, None);
    }
}

impl Write for Warnings {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_was_told_is_kept_by_three_nodes_whatever_happens_to_them() {
    let gathered = run_seeds(seeds_or(100), |seed, seen: &mut Seen| {
        let mut world = World::new(seed);
        let _telltale = Telltale(format!("DELAYD_SEED={seed} with {:#?}", world.weather));
        let warnings = Warnings::default();
        warnings.of(|| world.run());
        warnings.check();
        if seed % 20 == 0 {
            let mut again = World::new(seed);
            again.run();
            let differs = world.trace.iter().zip(&again.trace).position(|(one, two)| one != two);
            let lengths = (world.trace.len(), again.trace.len());
            assert!(
                differs.is_none() && lengths.0 == lengths.1,
                "a second run differs from event {differs:?} of {lengths:?}"
            );
        }
        world.audit.seen.add_to(seen);
    });
    Seen::of_all(gathered).check(&HAPPENS);
}
