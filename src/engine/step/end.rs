//! Jobs and leases that end by themselves.

use crate::engine::model::fact::{Destination, Fact};
use crate::engine::model::request::{JobState, Side};
use crate::engine::step::Step;
use crate::engine::step::retry::{Failure, destination};
use crate::engine::store::jobs::JobIndex;
use crate::ids::QueueNo;
use crate::limits::DROPPED_PER_DEATH;
use crate::time::Millis;

impl Step<'_, '_> {
    /// A job's TTL has passed.
    pub fn expire(&mut self, queue: QueueNo, index: JobIndex) {
        let (id, at) = (self.store.id_of(index), self.store.located(index));
        let window_end = self.window_end(index);
        self.commit(&Fact::Expired { queue, id: &id, window_end }, at);
    }

    /// Until when the id stays taken if the job ends now; 0 not at all.
    pub fn window_end(&self, index: JobIndex) -> Millis {
        match self.store.policy(index).unique_ms {
            0 => Millis(0),
            unique_ms => self.now.ceil().plus(unique_ms),
        }
    }

    /// A lease ended by itself: at its end, or earlier because its connection closed. After a downtime, a step of the
    /// clock or a stall that may be long past, but everything still counts from then.
    pub fn end_lease(&mut self, queue: QueueNo, index: JobIndex, failure: Failure) {
        let (id, at) = (self.store.id_of(index), self.store.located(index));
        let ended = self.store.timers().due(index).min(self.now.ceil());
        let to = destination(self.store, queue, index, failure, ended, self.now);
        let lost = failure == Failure::Lost;
        self.commit(&Fact::LeaseOver { queue, id: &id, lost, counted: true, to }, at);
        self.note_delivery_over(queue, index, to);
    }

    /// The consequences of the new place of a job that was leased.
    pub fn note_delivery_over(&mut self, queue: QueueNo, index: JobIndex, to: Destination) {
        if self.succeed(queue, index, false) {
            return;
        }
        self.note_place_free(queue);
        match to {
            Destination::Ready => self.touch(queue, None),
            Destination::Delayed { .. } => {}
            Destination::Dead { .. } => {
                // Not all that are too many: what follows from one death has to fit into its bound.
                let _ = (0..DROPPED_PER_DEATH).all(|_| self.drop_surplus_dead(queue));
            }
        }
    }

    /// Lets what follows a job take its id, if something does: its delivery is acknowledged, or has ended otherwise.
    pub fn succeed(&mut self, queue: QueueNo, index: JobIndex, acked: bool) -> bool {
        let Some(due) = self.store.successor(index).map(|next| next.due) else { return false };
        let ready = self.ready_at_once(queue, due);
        let left = ready && self.store.queue(queue).due_enters() == Side::Left;
        let (id, at) = (self.store.id_of(index), self.store.located(index));
        let fact = Fact::Succeeded { queue, id: &id, acked, ready, left };
        let next = self.commit(&fact, at).index.expect("what follows has a number");
        self.note_place_free(queue);
        if ready {
            let place = self.store.jobs().get(next).order;
            self.touch(queue, Some(place));
        }
        true
    }

    /// Drops the oldest dead letter if there are too many; false if there are not.
    pub fn drop_surplus_dead(&mut self, queue: QueueNo) -> bool {
        let queue_ref = self.store.queue(queue);
        let surplus = queue_ref.count(JobState::Dead) > queue_ref.dead_max();
        if surplus {
            self.drop_oldest_dead(queue);
        }
        surplus
    }

    /// Drops the oldest dead letter; there is one.
    pub fn drop_oldest_dead(&mut self, queue: QueueNo) {
        let index = self.store.oldest_dead(queue);
        let index = index.expect("what is counted as dead stands among the dead");
        let (id, at) = (self.store.id_of(index), self.store.located(index));
        self.commit(&Fact::Dropped { queue, id: &id }, at);
    }
}
