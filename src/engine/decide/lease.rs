//! Consumers' commands about their leases.

use crate::engine::model::fact::{Destination, Fact};
use crate::engine::model::last_errors::ERROR_GROWTH_BYTES;
use crate::engine::model::reply::Reply;
use crate::engine::model::request::{Nack, QueueName};
use crate::engine::model::turn::Outcome;
use crate::engine::step::Step;
use crate::engine::step::holders::number_of;
use crate::engine::step::retry::{Failure, destination};
use crate::engine::store::Located;
use crate::engine::store::errors::ERROR_KIND_ROOM;
use crate::engine::store::jobs::{JobIndex, JobStage};
use crate::engine::store::queue::Use;
use crate::ids::{QueueNo, Token};

impl Step<'_, '_> {
    pub fn ack(&mut self, name: QueueName<'_>, jobs: &[(&[u8], Token)]) -> Outcome {
        let mut acked = 0;
        if let Some(queue) = self.queue(name) {
            for (id, token) in jobs {
                let at = self.store.locate(queue, id);
                let Some(index) = at.index.filter(|index| self.token_is(*index, *token)) else {
                    continue;
                };
                acked += 1;
                self.store.aside_mut(queue).acked = Use::new(self.now, number_of(self.client));
                if self.succeed(queue, index, true) {
                    continue;
                }
                let window_end = self.window_end(index);
                self.commit(&Fact::Acked { queue, id, window_end }, at);
                self.note_place_free(queue);
            }
        }
        self.reply(Reply::Integer(acked))
    }

    pub fn nack(&mut self, nack: &Nack<'_>) -> Outcome {
        let next = match nack
            .when
            .map(|when| self.live.settings.resolve("IN", when, self.now))
            .transpose()
        {
            Ok(next) => next,
            Err(error) => return self.refuse(&error),
        };
        let Some((queue, at, index)) = self.leased(nack.queue, nack.id, nack.token) else {
            return self.reply(Reply::Integer(0));
        };
        let counted = !nack.uncounted;
        let failure = Failure::Nacked { counted, bury: nack.bury, next };
        let to = destination(self.store, queue, index, failure, self.now.ceil(), self.now);
        let priority = nack.priority.unwrap_or(self.store.jobs().get(index).priority);
        let id = nack.id;
        // If disk or memory is full, the job still goes back, and nothing larger is kept of it.
        let error = nack.error.filter(|text| {
            let growth = text.len() as u64 + ERROR_GROWTH_BYTES + ERROR_KIND_ROOM;
            self.live.room.lets_grow(self.store, growth) && self.has_memory_for_text(index, text)
        });
        let settles =
            self.live.in_transaction && !self.live.room.is_paused() && self.is_swept(queue);
        self.commit(&Fact::Nacked { queue, id, counted, priority, error, to }, at);
        self.note_delivery_over(queue, index, to);
        if settles && matches!(to, Destination::Delayed { due } if due <= self.now.floor()) {
            self.settle(queue);
        }
        self.reply(Reply::Integer(1))
    }

    pub fn extend(
        &mut self,
        name: QueueName<'_>,
        id: &[u8],
        token: Token,
        lease_ms: u64,
    ) -> Outcome {
        if let Err(error) = self.live.settings.check_lease("duration", lease_ms) {
            return self.refuse(&error);
        }
        let Some((queue, at, _)) = self.leased(name, id, token) else {
            return self.reply(Reply::Nil);
        };
        let lease_end = self.now.ceil().plus(lease_ms);
        self.commit(&Fact::Extended { queue, id, lease_end }, at);
        self.reply(Reply::Integer(lease_end.0 as i64))
    }

    /// The job, if this token's lease is running.
    fn leased(
        &mut self,
        name: QueueName<'_>,
        id: &[u8],
        token: Token,
    ) -> Option<(QueueNo, Located, JobIndex)> {
        let (queue, at, index) = self.find(name, id)?;
        let store = &self.store;
        let end = store.timers().due(index);
        // A lease whose end has come but was not swept yet is over anyway, unless it will be
        // extended.
        let running = store.jobs().get(index).stage == JobStage::Leased
            && (end > self.now.floor() || self.extension(end).is_some());
        (running && self.token_is(index, token)).then_some((queue, at, index))
    }

    fn token_is(&self, index: JobIndex, token: Token) -> bool {
        let history = self.store.jobs().history(index);
        history.is_some_and(|history| history.token == token.0 && token.0 != 0)
    }
}
