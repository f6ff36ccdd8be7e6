//! From words to values: numbers, spans of time, instants. Nothing here knows a command.

pub mod duration;
pub mod moment;
pub mod number;
