//! The journal's part of a turn.

use crate::limits::PROPOSAL_BYTES;
use crate::server::core::Core;
use crate::server::turn::Turns;
use std::io;

impl Turns {
    /// Takes up what the journal's threads and the recovery have done since the last turn. An error
    /// is a journal that cannot be loaded.
    pub(super) fn poll_journal(&mut self) -> io::Result<()> {
        if let Some(loaded) = self.core.durability.loaded(&self.core.clock)? {
            return self.core.install(loaded);
        }
        let Core { engine, outputs, messages, durability, clock, .. } = &mut self.core;
        durability.poll_keeper(engine, outputs, clock);
        if durability.poll_failure(engine, outputs, messages, clock) {
            self.core.set_flow();
        }
        self.poll_cluster()
    }

    /// Hands over what was decided since the last proposal, if anything was.
    pub(super) fn propose_leftovers(&mut self) {
        if self.core.facts.count > 0 {
            self.propose();
        }
    }

    /// Hands over what was decided if it is much: a batch has a largest size, and one command more may add the
    /// largest transaction.
    pub(super) fn propose_if_large(&mut self) {
        if self.core.facts.bytes.len() > PROPOSAL_BYTES {
            self.propose();
        }
    }

    /// Hands over what was decided in this turn.
    pub(super) fn propose(&mut self) {
        let Core { facts, outputs, durability, clock, .. } = &mut self.core;
        durability.propose(facts, outputs, clock);
    }

    /// Room is made, a base goes on.
    pub(super) fn keep_journal(&mut self) {
        let Core { engine, facts, outputs, durability, clock, .. } = &mut self.core;
        durability.keep(engine, facts, outputs, clock);
    }
}
