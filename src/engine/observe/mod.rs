//! Counts and events for others. Decides nothing.

pub(super) mod events;
pub mod histogram;
pub mod survey;
pub mod tally;
