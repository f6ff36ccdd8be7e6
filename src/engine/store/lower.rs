//! Setting back the engine's clock, which a running engine never does: for an operator whose wall clock
//! was wrong and is remembered. The state is to be written as a base then and loaded anew, as wheels do
//! not go back.

use crate::engine::model::fact::Fact;
use crate::engine::model::queue_settings::{Pause, Pauses};
use crate::engine::model::token::floor_at;
use crate::engine::store::Store;
use crate::ids::QueueNo;
use crate::time::{Micros, Millis};

/// Tokens of a second that was lost at the end of the journal may lie so far beyond its last instant, ms.
const MARGIN_MS: u64 = 1_000;

impl Store {
    /// It was `was` when the last fact was applied, and is `to` from here on. Due times stay, as do the
    /// ends of windows and of dead letters' retention: they are absolute. Leases and pauses have left what
    /// they had left at `was`. Tokens and made ids go on above all that were given by the clock that was
    /// wrong. Looks at every queue and lease.
    pub fn lower_clock(&mut self, was: Micros, to: Micros) {
        let (was_ms, to_ms) = (was.floor(), to.floor());
        self.number = self.number.max(floor_at(was_ms.0 + MARGIN_MS));
        let lowered = |end: Millis| end.min(to_ms.plus(end.0.saturating_sub(was_ms.0)));
        let numbers: Vec<QueueNo> = self.queues().map(|queue| queue.number).collect();
        for number in numbers {
            let leases = self.queue(number).leases.iter(&self.timers);
            for index in leases.collect::<Vec<_>>() {
                let lease_end = lowered(self.timers.due(index));
                let (id, at) = (self.id_of(index), self.located(index));
                self.apply_at(to, &Fact::Extended { queue: number, id: &id, lease_end }, at);
            }
            let queue = self.queue_mut(number);
            let pause = |pause: Pause| match pause {
                Pause::Until(end) => Pause::Until(lowered(end)),
                other => other,
            };
            let Pauses { into, out } = queue.pauses;
            queue.pauses = Pauses { into: pause(into), out: pause(out) };
            // Where the wheels of the loaded queue begin.
            queue.used = queue.used.min(to_ms);
        }
    }
}
