//! WATCH: whether anything happened to a queue since it was last looked at.
//!
//! Every binding of a queue has a birth, and every change of it, by a fact or by falling due, a version. A queue that
//! does not exist leaves nothing to compare when it has come and gone again, so its births are counted as long as a
//! client watches its name. All of it is volatile: a stamp is valid only for the engine that gave it.

use crate::engine::model::request::QueueName;
use crate::engine::step::Step;

/// A queue as it was at some instant; nothing but comparing can be done with it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stamp(QueueSeen);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum QueueSeen {
    /// It did not exist, and had been created this often since it was watched.
    Absent {
        comings: u64,
    },
    There {
        born: u64,
        version: u64,
    },
}

impl Default for QueueSeen {
    fn default() -> QueueSeen {
        QueueSeen::Absent { comings: 0 }
    }
}

/// The state of stamped queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watched {
    Unchanged,
    /// One of them at least has changed.
    Changed,
    /// Time has not passed in all of them: ask again in the next turn.
    Again,
}

impl Step<'_, '_> {
    pub fn stamp(&mut self, name: QueueName<'_>) -> Stamp {
        self.queue(name);
        let stamp = self.stamp_of(name);
        if let Stamp(QueueSeen::Absent { .. }) = stamp {
            self.live.watched.watch(self.client, name.db, name.name);
        }
        stamp
    }

    /// Due jobs and ended leases count: they are swept before any queue is compared. A queue that did not exist is
    /// unchanged if it has not existed in between either.
    pub fn compare<'q>(
        &mut self,
        queues: impl Iterator<Item = (QueueName<'q>, Stamp)> + Clone,
    ) -> Watched {
        for (queue, _) in queues.clone() {
            self.queue(queue);
        }
        let mut swept = true;
        for (queue, stamp) in queues {
            if self.stamp_of(queue) != stamp {
                return Watched::Changed;
            }
            let number = self.store.queue_no(queue.db, queue.name);
            let wake = number.map(|number| self.store.queue(number).wake);
            let wakes = wake.is_some_and(|wake| wake <= self.now.floor());
            swept &= !wakes || !self.live.room.lets_time_pass();
        }
        if swept { Watched::Unchanged } else { Watched::Again }
    }

    fn stamp_of(&self, name: QueueName<'_>) -> Stamp {
        let number = self.store.queue_no(name.db, name.name);
        let queue = number.map(|number| self.store.queue(number)).filter(|queue| queue.exists());
        Stamp(match queue {
            Some(queue) => QueueSeen::There { born: queue.born, version: queue.version },
            None => QueueSeen::Absent { comings: self.live.watched.count(name.db, name.name) },
        })
    }
}
