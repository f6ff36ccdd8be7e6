//! What a turn hands to the journal.

use crate::engine::Facts;
use crate::time::Micros;

/// The epoch of all batches of a server alone.
pub const EPOCH: u64 = 1;

/// The facts of a turn.
#[derive(Debug)]
pub struct Batch<'b> {
    /// The turn's time.
    pub now: Micros,
    /// The same instant on the monotonic clock, µs.
    pub mono_us: u64,
    /// The facts; taken.
    pub facts: &'b mut Facts,
    /// A reply waits for them.
    pub urgent: bool,
}
