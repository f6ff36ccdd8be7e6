//! The real program under pressure: it is killed, its disk and its memory are full, its journal churns.

#[path = "support/disk.rs"]
mod disk;
#[path = "pressure/drain.rs"]
mod drain;
#[path = "pressure/kill/mod.rs"]
mod kill;
#[path = "pressure/memory.rs"]
mod memory;
#[path = "support/program.rs"]
mod program;
#[path = "support/seeds.rs"]
mod seeds;
#[path = "support/seen.rs"]
mod seen;
#[path = "pressure/space.rs"]
mod space;
