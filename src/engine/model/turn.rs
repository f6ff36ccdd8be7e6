//! A turn of the engine: where its results go, and what became of what was asked.

use crate::engine::model::fact::Facts;
use crate::engine::model::reply::Outbox;

/// Where one turn's results go.
pub struct Turn<'t> {
    /// What was decided, for the journal.
    pub facts: &'t mut Facts,
    /// Replies, to the asking client and to waiters.
    pub outbox: &'t mut dyn Outbox,
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// A reply was sent.
    Replied,
    /// The client is in line; the reply comes in a later step. It has no other request meanwhile.
    Waiting,
    /// A slice of the work is done; ask the same again in the next turn. Nothing changed that
    /// anybody can see.
    Again,
}
