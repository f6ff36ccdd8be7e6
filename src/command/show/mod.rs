//! Output about commands: COMMAND's replies, HELP, the written reference, and the engine's answers.

pub mod describe;
pub mod reference;
pub mod render;
mod schedule;
