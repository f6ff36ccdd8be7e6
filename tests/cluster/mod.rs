//! The nodes of a cluster in virtual time: their real code, over links that delay, lose and cut, and disks that
//! are slow and forget. One seed, one run.
//!
//! `DELAYD_SEED=17 cargo test --test simulations cluster` runs one seed again, `DELAYD_CASES=5000` as many.

mod audit;
mod chaos;
mod figures;
mod forming;
mod host;
mod leading;
mod machine;
mod members;
mod rules;
mod sick;
mod site;
mod storm;
mod world;
