//! The work that a fact needs before it can be applied in few steps. The deciding engine had done this in slices of
//! turns of its own, of which nothing is recorded; an engine that only applies does it in slices before the fact.
//!
//! ```text
//! Due              the slots in which its jobs stand are opened: one of 65 s may hold millions
//! PolicyForgotten  removed queues whose jobs use the policy are freed
//! ```
//!
//! Neither changes anything that is durable.

use crate::engine::model::fact::Fact;
use crate::engine::store::Store;
use crate::ids::PolicyNo;

impl Store {
    /// Does it, in `steps`; true when the fact can be applied.
    pub fn prepare(&mut self, fact: &Fact<'_>, steps: &mut u32) -> bool {
        match *fact {
            Fact::Due { queue, count, .. } => {
                let (queue, _, timers, _) = self.parts(queue);
                queue.delayed.open_ahead(timers, count as usize, steps)
            }
            Fact::PolicyForgotten { number } => self.free_users(number, steps),
            _ => true,
        }
    }

    /// Frees removed queues until no job uses the policy: the engine that decided to forget it saw
    /// no user.
    fn free_users(&mut self, number: PolicyNo, steps: &mut u32) -> bool {
        while self.policies.users(number) > 0 {
            if *steps == 0 {
                return false;
            }
            if self.keeps_removed() {
                // A base file that is being written needs their images first.
                self.base_step();
                *steps -= 1;
            } else if self.bury_slice(steps) && !self.has_removed() {
                break;
            }
        }
        true
    }
}
