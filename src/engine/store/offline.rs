//! What tools do to the state of a journal that no server has open. A running engine never does it, because wheels do
//! not go back: write the state as a base afterwards and load it again.
//!
//! Setting back the clock is for an operator whose wall clock was wrong and is remembered. Voiding tokens is for a state
//! that is older than the world, because it was restored from a backup.

use crate::engine::model::fact::{Destination, Fact};
use crate::engine::model::group::GroupSettings;
use crate::engine::model::leading::Leading;
use crate::engine::model::queue_settings::{Pause, Pauses};
use crate::engine::model::request::Side;
use crate::engine::model::token::floor_at;
use crate::engine::store::Store;
use crate::engine::store::jobs::JobIndex;
use crate::engine::store::pace;
use crate::ids::QueueNo;
use crate::time::{Micros, Millis};

/// Tokens of a second that was lost at the end of the journal may lie so far beyond its last instant, ms.
const MARGIN_MS: u64 = 1_000;

impl Store {
    /// It was `was` when the last fact was applied, and is `to` from here on. Due times stay, as do the
    /// ends of windows and of dead letters' retention: they are absolute. Leases, pauses and rates of groups have left what
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
            let groups = queue.groups.iter().flat_map(|groups| groups.set());
            let paused = groups.filter(|(_, own)| own.pause.end().is_some());
            let paused: Vec<_> = paused.map(|(name, own)| (name.to_vec(), own)).collect();
            for (name, own) in paused {
                let settings = GroupSettings { pause: pause(own.pause), ..own };
                self.set_group(number, &name, settings, to);
            }
            let nanos = [was, to].map(pace::nanos);
            let lowered = |gave: u64| gave.min(nanos[1] + gave.saturating_sub(nanos[0]));
            let paces = self.queue(number).groups.iter().flat_map(|groups| groups.paces());
            let later = paces.filter(|(_, gave)| lowered(*gave) < *gave);
            let later: Vec<_> = later.map(|(name, gave)| (name.to_vec(), lowered(gave))).collect();
            for (name, gave) in later {
                self.set_pace(number, &name, gave, to);
            }
            let queue = self.queue_mut(number);
            // Where the wheels of the loaded queue begin.
            queue.used = queue.used.min(to_ms);
        }
    }
}

impl Store {
    /// No token that was ever handed out is taken any more: since this state was written the job may have been delivered
    /// again, and an older holder must not pass for the newest. Each leased job is ready at its old place, its attempt given
    /// back, unless another one follows. Tokens and made ids go on above `floor`. Looks at every job; `now` is the instant of the last fact.
    pub fn void_tokens(&mut self, now: Micros, floor: u64) {
        self.number = self.number.max(floor);
        let queues: Vec<QueueNo> = self.queues().map(|queue| queue.number).collect();
        for queue in queues {
            let leased: Vec<JobIndex> = self.queue(queue).leases.iter(&self.timers).collect();
            for index in leased {
                let (id, at) = (self.id_of(index), self.located(index));
                let (counted, priority) = (false, self.jobs.get(index).priority);
                let (error, to) = (None, Destination::Ready);
                let fact = Fact::Nacked { queue, id: &id, counted, priority, error, to };
                self.apply_at(now, &fact, at);
                let due = self.successor(index).map(|successor| successor.due);
                if let Some(due) = due {
                    let left = self.queue(queue).due_enters() == Side::Left;
                    let (acked, ready) = (false, due <= now.floor());
                    let fact = Fact::Succeeded { queue, id: &id, acked, ready, left };
                    self.apply_at(now, &fact, at);
                }
            }
            // A lease that has run out left a token that still serves for ACK.
            let jobs: Vec<JobIndex> = self.queue(queue).table.iter().collect();
            for index in jobs {
                if self.jobs.history(index).is_some() {
                    self.jobs.history_mut(index).0.token = 0;
                }
            }
        }
    }

    /// Drops everything about the previous cluster: a standalone server has no leader, and the first leader of another
    /// cluster counts its epochs from the start.
    pub fn forget_leading(&mut self) {
        self.leading = Leading::default();
    }
}
