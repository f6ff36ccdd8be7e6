//! A change of the leader: an engine that only applied begins to decide, or ends deciding.

use crate::engine::model::fact::Fact;
use crate::engine::model::leading::Lead;
use crate::engine::model::request::JobState;
use crate::engine::model::token::floor_at;
use crate::engine::step::leases::{Bound, Former};
use crate::engine::step::{Live, Step, ZonesWalk};
use crate::engine::store::{Located, Store};
use crate::ids::Token;
use crate::limits::QUEUE_SLICE_STEPS;
use crate::time::Micros;

/// A rate is what may leave in any span of this length, µs.
const RATE_SPAN_US: u64 = 1_000_000;

impl Step<'_, '_> {
    pub fn lead(&mut self, lead: &Lead) {
        let &Lead { term, node, level, from, to } = lead;
        self.live.unlead(self.store);
        let settings = &mut self.live.settings;
        settings.token_floor = settings.token_floor.max(floor_at(self.now.floor().0));
        // The previous leader's use of rates is in no fact.
        self.live.rates_from = Micros(from.0.saturating_add(RATE_SPAN_US));
        self.live.leases.former = Some(Former::new(self.store.number()));
        // The leader before may have had other tables.
        self.live.zones_walk = Some(ZonesWalk::default());
        let (stall_from, stall_to) = (from.floor(), to.ceil().max(from.floor()));
        self.commit(&Fact::Led { term, node, stall_from, stall_to, level }, Located::NOTHING);
    }

    /// Goes on with collecting the bound leases of connections to leaders before, and the queues with more dead
    /// letters than they keep; true when all are. The leases are lost when the stall is over: until then those
    /// connections may still be open.
    pub fn collect_former(&mut self) -> bool {
        let Some(mut former) = self.live.leases.former.take() else { return true };
        while !former.is_whole {
            if self.budget.is_used_up() {
                self.live.leases.former = Some(former);
                return false;
            }
            self.collect_some(&mut former);
        }
        let stall = self.store.leading().stall;
        if stall.is_some_and(|stall| self.now.floor() <= stall.to) {
            self.live.leases.former = Some(former);
        } else if !former.leases.is_empty() {
            self.live.leases.lost.push_back(former.leases.into_iter());
        }
        true
    }

    fn collect_some(&mut self, former: &mut Former) {
        self.budget.spend(1);
        let Some((number, db, place)) = self.store.next_queue_from(former.db, former.place) else {
            former.is_whole = true;
            return;
        };
        let queue = self.store.queue(number);
        if (db, place, queue.born) != (former.db, former.place, former.born) {
            (former.db, former.place, former.born, former.cursor) = (db, place, queue.born, 0);
            if queue.count(JobState::Dead) > queue.dead_max() {
                self.list_sweeping(number);
            }
        }
        let (store, queue) = (&*self.store, self.store.queue(number));
        let (leases, up_to) = (&mut former.leases, former.up_to);
        let mut collect = |index| {
            let bound = store.jobs().history(index).filter(|history| history.bound);
            // Those with greater tokens are of connections to this leader.
            if let Some(history) = bound.filter(|history| history.token <= up_to) {
                leases.push(Bound { queue: number, index, token: Token(history.token) });
            }
        };
        let leased = queue.count(JobState::Leased) as u32;
        former.cursor = if leased <= QUEUE_SLICE_STEPS {
            queue.leases.iter(store.timers()).for_each(&mut collect);
            self.budget.spend(leased);
            0
        } else {
            self.budget.spend(QUEUE_SLICE_STEPS);
            store.scan_jobs(queue, former.cursor, QUEUE_SLICE_STEPS as usize, collect)
        };
        former.place += u32::from(former.cursor == 0);
    }

    /// The stall is over when every lease was met that would have ended in it.
    pub fn end_stall(&mut self) {
        let stall = self.store.leading().stall;
        if stall.is_some_and(|stall| stall.to < self.now.floor()) && self.live.room.lets_time_pass()
        {
            self.commit(&Fact::StallOver, Located::NOTHING);
        }
    }
}

impl Live {
    /// Drops all state that only a deciding node has.
    pub fn unlead(&mut self, store: &mut Store) {
        for client in self.waiters.clients() {
            self.stop_waiting(store, client);
        }
        for number in std::mem::take(&mut self.touched) {
            if store.bound_queue(number).is_some() {
                store.marks_mut(number).touched = false;
            }
        }
        let hasher = store.hasher().state();
        let fresh = Live::new(self.settings.clone(), hasher);
        let Live { sweeping, monotonic, events, tally, applied, zones, missed, spells, .. } =
            std::mem::replace(self, fresh);
        // Queues with due work are the same for the next leader, and counts stay counted.
        (self.sweeping, self.monotonic, self.tally) = (sweeping, monotonic, tally);
        (self.events, self.applied) = (events.map(|_| Box::default()), applied);
        // State that was settled in an earlier spell of work is settled again.
        (self.zones, self.missed, self.spells) = (zones, missed, spells + 1);
    }
}
