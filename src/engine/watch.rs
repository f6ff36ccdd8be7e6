//! WATCH: whether anything happened to a queue since it was last looked at.
//!
//! Every binding of a queue has a birth, and every change of it, be it by a fact or by falling due, a
//! version. Both are volatile: a stamp means something to the engine that gave it.

use crate::engine::request::QueueName;
use crate::engine::store::Store;
use crate::engine::{Engine, Step, Turn};
use crate::ids::{ClientId, QueueNo};
use crate::time::Micros;

/// A queue as it was at some instant; nothing but comparing can be done with it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stamp {
    born: u64,
    version: u64,
    exists: bool,
}

/// What became of queues that were stamped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watched {
    /// Nothing.
    Unchanged,
    /// One of them at least has changed.
    Changed,
    /// Time has not passed in all of them: ask again in the next turn.
    Again,
}

impl Engine {
    /// The queue as it is now. What has fallen due in it is swept first, within a small budget.
    pub fn stamp(
        &mut self,
        now: Micros,
        client: ClientId,
        queue: QueueName<'_>,
        turn: &mut Turn<'_>,
    ) -> Stamp {
        let number = Step { engine: self, now, client, turn, alone: true }.queue(queue);
        self.store.stamp(number)
    }

    /// Whether any of `queues` has changed since it was stamped. What has fallen due in them, and what
    /// leases have run out, counts: it is swept before any of them is compared. A queue that did not
    /// exist and does not exist is unchanged. Cost: as EXISTS of all of them.
    pub fn compare<'q>(
        &mut self,
        now: Micros,
        client: ClientId,
        queues: impl Iterator<Item = (QueueName<'q>, Stamp)> + Clone,
        turn: &mut Turn<'_>,
    ) -> Watched {
        for (queue, _) in queues.clone() {
            Step { engine: self, now, client, turn, alone: true }.queue(queue);
        }
        let mut swept = true;
        for (queue, stamp) in queues {
            let number = self.store.queue_no(queue.db, queue.name);
            let is = self.store.stamp(number);
            if is != stamp && (is.exists || stamp.exists) {
                return Watched::Changed;
            }
            let wakes = number.is_some_and(|number| self.store.queue(number).wake <= now.floor());
            swept &= !wakes || !self.gate.lets_time_pass();
        }
        if swept { Watched::Unchanged } else { Watched::Again }
    }
}

impl Store {
    fn stamp(&self, number: Option<QueueNo>) -> Stamp {
        let queue = number.map(|number| self.queue(number));
        queue.map_or(Stamp::default(), |queue| Stamp {
            born: queue.born,
            version: queue.version,
            exists: queue.exists(),
        })
    }
}
