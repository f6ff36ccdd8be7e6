//! The nodes of a cluster in virtual time: their real code, over links that delay, lose and cut, and disks that
//! are slow and forget. One seed, one run.
//!
//! `DELAYD_SEED=17 cargo test --test cluster` runs one seed again, `DELAYD_CASES=5000` as many.

#[path = "cluster/audit.rs"]
mod audit;
#[path = "cluster/chaos.rs"]
mod chaos;
#[path = "cluster/figures.rs"]
mod figures;
#[path = "cluster/forming.rs"]
mod forming;
#[path = "cluster/host.rs"]
mod host;
#[path = "cluster/leading.rs"]
mod leading;
#[path = "cluster/machine.rs"]
mod machine;
#[path = "cluster/members.rs"]
mod members;
#[path = "cluster/rules.rs"]
mod rules;
#[path = "support/seeds.rs"]
mod seeds;
#[path = "cluster/site.rs"]
mod site;
#[path = "cluster/storm.rs"]
mod storm;
#[path = "cluster/world.rs"]
mod world;
