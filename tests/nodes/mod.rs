//! The nodes of a cluster, each property on its own: who decides, who may answer reads, who founds, who is let in.
//!
//! `DELAYD_SEED=17 cargo test --test pure nodes` runs one seed again, `DELAYD_CASES=5000` more of them.

mod formation;
mod frame;
mod hello;
mod lease;
mod member;
