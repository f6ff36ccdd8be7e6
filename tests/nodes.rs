//! The nodes of a cluster, each property on its own: who decides, who may answer reads, who founds, who is let in.
//!
//! `DELAYD_SEED=17 cargo test --test nodes` runs one seed again, `DELAYD_CASES=5000` more of them.

#[path = "nodes/formation.rs"]
mod formation;
#[path = "nodes/frame.rs"]
mod frame;
#[path = "nodes/hello.rs"]
mod hello;
#[path = "nodes/lease.rs"]
mod lease;
#[path = "nodes/member.rs"]
mod member;
#[path = "support/seeds.rs"]
mod seeds;
