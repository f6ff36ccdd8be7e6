//! A turn of the engine: where its results go, and what became of what was asked.

use crate::engine::model::fact::Facts;
use crate::engine::model::reply::Outbox;

/// Where one turn's results go.
pub struct Turn<'t> {
    /// Decided facts, for the journal.
    pub facts: &'t mut Facts,
    /// Replies, to the asking client and to waiters.
    pub outbox: &'t mut dyn Outbox,
}

/// The outcome of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Replied,
    /// The client is in line; the reply comes in a later step. It has no other request meanwhile.
    Waiting,
    /// A slice of the work is done; repeat the request in the next turn. Nothing visible has
    /// changed.
    Again,
}

// How much may still be done in a turn.

/// Steps that may still be done: a job that falls due, a timer moved to a lower level, a job freed are
/// about one each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget(u32);

impl Budget {
    pub fn of(steps: u32) -> Budget {
        Budget(steps)
    }

    pub fn left(self) -> u32 {
        self.0
    }

    pub fn is_used_up(self) -> bool {
        self.0 == 0
    }

    /// Takes one; false if none is left.
    pub fn take(&mut self) -> bool {
        let left = self.0.checked_sub(1);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }

    /// Takes as many as there are, up to `steps`.
    pub fn spend(&mut self, steps: u32) {
        self.0 = self.0.saturating_sub(steps);
    }

    /// For what counts down its steps itself.
    pub fn steps(&mut self) -> &mut u32 {
        &mut self.0
    }
}
