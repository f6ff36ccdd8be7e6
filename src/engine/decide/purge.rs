//! PURGE: all jobs of a queue that are in some states are gone at once.

use crate::engine::model::fact::Fact;
use crate::engine::model::reply::Reply;
use crate::engine::model::request::{Purge, QueueName, State};
use crate::engine::model::turn::Outcome;
use crate::engine::step::Step;
use crate::engine::store::Located;
use crate::limits::PURGES_MAX;

impl Step<'_, '_> {
    pub fn purge(&mut self, name: QueueName<'_>, purge: Purge) -> Outcome {
        let Some(queue) = self.queue(name) else { return self.reply(Reply::Integer(0)) };
        let queue_ref = self.store.queue(queue);
        let counts = queue_ref.counts.iter().zip(purge.states);
        let count: u64 = counts.map(|(count, purged)| count * u64::from(purged)).sum();
        if count == 0 && !(purge.windows && queue_ref.windows > 0) {
            return self.reply(Reply::Integer(0));
        }
        if self.alone && queue_ref.purges() >= PURGES_MAX {
            return Outcome::Again;
        }
        self.commit(&Fact::Purged { queue, purge, count }, Located::NOTHING);
        // Leases that are gone may have been what held the next jobs back.
        if self.store.queue(queue).count(State::Ready) > 0 {
            self.touch(queue, None);
        }
        self.reply(Reply::Integer(count as i64))
    }
}
