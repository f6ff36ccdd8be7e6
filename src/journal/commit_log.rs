//! What a turn sees of the journal. One implementation today, a disk's; a second one could ask other
//! machines.

use crate::engine::Facts;
use crate::ids::Index;
use crate::time::Micros;

/// The epoch of all batches while there is one machine.
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

/// Who decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// This process.
    Leader,
}

/// See the module.
pub trait CommitLog {
    /// Puts a batch behind those before it, without waiting. Returns its number.
    fn propose(&mut self, batch: Batch<'_>) -> Index;

    /// The newest index whose replies may leave, as was last found out.
    fn committed(&self) -> Index;

    /// Whether this process decides.
    fn role(&self) -> Role;
}
