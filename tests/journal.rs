//! The journal over a storage that loses, tears and reorders what was not synced, and over a disk; the tools
//! that look at one and mend it, and the journals of earlier versions.
//!
//! `DELAYD_SEED=17 cargo test --test journal` runs one seed again, `DELAYD_CASES=5000` as many.

#![allow(clippy::single_range_in_vec_init, reason = "a part of a file is one range")]

#[path = "journal/batches.rs"]
mod batches;
#[path = "journal/clock.rs"]
mod clock;
#[path = "journal/crashes.rs"]
mod crashes;
#[path = "journal/damage.rs"]
mod damage;
#[path = "journal/disk.rs"]
mod disk;
#[path = "journal/faults.rs"]
mod faults;
#[path = "journal/history.rs"]
mod history;
#[path = "journal/lossy.rs"]
mod lossy;
#[path = "journal/members.rs"]
mod members;
#[path = "journal/node.rs"]
mod node;
#[path = "journal/plain.rs"]
mod plain;
#[path = "support/program.rs"]
mod program;
#[path = "journal/refound.rs"]
mod refound;
#[path = "support/seeds.rs"]
mod seeds;
#[path = "journal/tails.rs"]
mod tails;
#[path = "journal/tools.rs"]
mod tools;
#[path = "upgrade/mod.rs"]
mod upgrade;
