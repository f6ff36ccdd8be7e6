//! Seeded runs in virtual time: the engine with many clients, nodes that elect and copy, three whole nodes. One seed,
//! one run.

mod cluster;
mod simulation;
mod support;
mod whole;
