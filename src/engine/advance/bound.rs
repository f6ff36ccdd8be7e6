//! Leases that end with their connection, or with the server.

use crate::engine::model::fact::{Destination, Fact};
use crate::engine::model::request::JobState;
use crate::engine::step::leases::Bound;
use crate::engine::step::retry::Failure;
use crate::engine::step::{Live, Step};
use crate::engine::store::Store;
use crate::engine::store::queue::Queue;
use crate::ids::{ClientId, Token};
use crate::limits::UNBOUND_AT_ONCE;

impl Step<'_, '_> {
    pub fn close(&mut self) {
        self.live.stop_waiting(self.store, self.client);
        self.live.unsent.sent(self.client);
        self.live.abandon(self.client);
        self.live.watched.unwatch(self.client);
        self.live.leases.lose(self.client);
        self.live.holders.leave(self.client);
        self.within(UNBOUND_AT_ONCE, |step| step.end_lost());
        self.hand_off();
    }

    /// Ends leases whose connection is closed, as far as their facts fit; true when none is left.
    pub fn end_lost(&mut self) -> bool {
        while let Some(leases) = self.live.leases.lost.front_mut() {
            if !self.live.room.lets_time_pass() || !self.budget.take() {
                return false;
            }
            let Some(Bound { queue, index, token }) = leases.next() else {
                self.live.leases.lost.pop_front();
                continue;
            };
            if self.store.is_lease(queue, index, token) {
                self.end_lease(queue, index, Failure::Lost);
            }
        }
        true
    }

    pub fn end_bound(&mut self) -> bool {
        // Nothing can be recorded any more, and trying again would be for ever: the next start ends them.
        if !self.live.room.lets_time_pass() {
            return true;
        }
        // Jobs without space for their facts stay handed over, as after a crash.
        if !self.return_unsent() || !self.end_lost() {
            return false;
        }
        self.live.leases.end_all();
        while let Some(leases) = self.live.leases.ending.front_mut() {
            if !self.budget.take() {
                return false;
            }
            let Some(Bound { queue, index, token }) = leases.next() else {
                self.live.leases.ending.pop_front();
                continue;
            };
            if self.store.is_lease(queue, index, token) {
                let (id, at) = (self.store.id_of(index), self.store.located(index));
                let (lost, counted, to) = (true, false, Destination::Ready);
                self.commit(&Fact::LeaseOver { queue, id: &id, lost, counted, to }, at);
                self.note_delivery_over(queue, index, to);
            }
        }
        true
    }
}

impl Live {
    pub fn step_down(&mut self) {
        self.unsent.forget();
        self.leases.forget();
        self.unfinished.clear();
        self.forecast = None;
    }

    pub fn abandon(&mut self, client: ClientId) {
        self.forecast.take_if(|forecast| forecast.client == client);
        self.unfinished.remove(&client);
    }

    pub fn recover(&mut self, store: &mut Store) {
        let of_queue = |queue: &Queue| {
            let leased = queue.leases.iter(store.timers());
            let bound = leased.filter_map(|index| {
                let history = store.jobs().history(index).filter(|history| history.bound)?;
                Some(Bound { queue: queue.number, index, token: Token(history.token) })
            });
            bound.collect::<Vec<_>>()
        };
        let bound: Vec<Bound> = store.queues().flat_map(of_queue).collect();
        if !bound.is_empty() {
            self.leases.lost.push_back(bound.into_iter());
        }
        // Some may have been left when more of them had to leave than one turn does.
        let crowded = |queue: &&Queue| queue.count(JobState::Dead) > queue.dead_max();
        let crowded: Vec<_> = store.queues().filter(crowded).map(|queue| queue.number).collect();
        crowded.into_iter().for_each(|number| self.list_sweeping(store, number));
    }
}
