//! The journal over a storage that loses, tears and reorders what was not synced, and over a disk; the tools
//! that look at one and mend it, and the journals of earlier versions.
//!
//! `DELAYD_SEED=17 cargo test --test pure journal` runs one seed again, `DELAYD_CASES=5000` as many.

#![allow(clippy::single_range_in_vec_init, reason = "a part of a file is one range")]

mod batches;
mod clock;
mod crashes;
mod damage;
mod disk;
mod faults;
mod history;
mod key;
mod members;
mod node;
mod plain;
mod refound;
mod restore;
mod tails;
mod tools;
mod upgrade;
