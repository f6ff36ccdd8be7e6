//! The age of the oldest ready job of all queues, without ever looking at all queues at once.
//!
//! With few queues all are examined on request. With many a survey goes round, some queues a turn
//! and a fixed number a second, and the answer is its last result: with a million queues it is up
//! to two minutes old.

use crate::engine::Engine;
use crate::engine::observe::survey::QueueWalk;
use crate::limits::{OLDEST_READY_AT_ONCE, OLDEST_READY_PER_TURN, OLDEST_READY_TURNS_PER_TICK};
use crate::time::Millis;

#[derive(Debug, Default)]
pub struct OldestReady {
    /// Where the walk goes on; none when it has come round.
    walk: Option<QueueWalk>,
    /// Slices left in this second.
    slices: u32,
    /// The earliest due time met on this round, and on the last whole one.
    met: Option<Millis>,
    found: Option<Millis>,
}

impl OldestReady {
    /// Once a second: the walk may go on, or begin again.
    pub fn begin(&mut self, engine: &Engine) {
        if engine.named_count() <= OLDEST_READY_AT_ONCE {
            *self = OldestReady::default();
            return;
        }
        self.slices = OLDEST_READY_TURNS_PER_TICK;
        if self.walk.is_none() {
            (self.walk, self.met) = (Some(QueueWalk::default()), None);
        }
    }

    /// A turn's slice of the walk, if there is anything to look at.
    pub fn look(&mut self, engine: &Engine) {
        let Some(walk) = self.walk.filter(|_| self.slices > 0) else { return };
        self.slices -= 1;
        let (due, next) = engine.oldest_ready(walk, OLDEST_READY_PER_TURN);
        self.met = self.met.into_iter().chain(due).min();
        self.walk = next;
        if next.is_none() {
            (self.found, self.slices) = (self.met, 0);
        }
    }

    /// Whether the walk wants another turn.
    pub fn is_looking(&self) -> bool {
        self.walk.is_some() && self.slices > 0
    }

    /// When the oldest ready job fell due; none if no job is ready.
    pub fn due(&self, engine: &Engine) -> Option<Millis> {
        let [_, ready, _, _] = engine.job_counts();
        if ready == 0 {
            return None;
        }
        if engine.named_count() <= OLDEST_READY_AT_ONCE {
            return engine.oldest_ready(QueueWalk::default(), OLDEST_READY_AT_ONCE as u32).0;
        }
        self.found
    }
}
