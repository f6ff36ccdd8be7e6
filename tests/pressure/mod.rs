//! The real program under pressure: it is killed, its disk and its memory are full, its journal churns.

mod drain;
mod kill;
mod memory;
mod space;
