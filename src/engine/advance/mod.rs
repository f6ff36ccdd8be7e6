//! Time passing, in slices.
//!
//! Queues with due work take turns of [`limits::QUEUE_SLICE_STEPS`], so that one queue's million jobs do not hold
//! up another queue's one.

mod bound;
mod lead;
mod zones;

pub use zones::lower_schedules;

use crate::engine::model::fact::Fact;
use crate::engine::model::reply::Reply;
use crate::engine::step::{Live, Step};
use crate::engine::store::{Located, Store};
use crate::limits;
use crate::time::Millis;

pub const TIMED_OUT: Reply<'static> = Reply::NilArray;

impl Step<'_, '_> {
    pub fn advance(&mut self) -> bool {
        self.begin_work();
        self.live.handed_bytes = 0;
        self.live.slack = limits::SLACK_STEPS_PER_TURN;
        self.live.opening = limits::OPENING_STEPS_PER_TURN;
        let returned = self.at_least_a_slice(Step::return_unsent);
        let collected = self.at_least_a_slice(Step::collect_former);
        // Before the sweep: with a backoff of 0 it leaves jobs that are due now.
        let ended = self.at_least_a_slice(Step::end_lost);
        self.hand_off();
        let swept = self.sweep_all();
        if swept {
            self.live.room.caught_up();
            self.end_stall();
            self.live.at_work_since = None;
        }
        let looked = self.look_through_zones();
        // Deadlines come after the jobs of the same ms: a client that waits until 12:00 gets a job
        // of 12:00.
        let timed_out = self.at_least_a_slice(Step::time_out);
        let forgotten = self.forget_idle();
        let tidy = self.store.bury_slice(self.budget.steps()) && self.tidy();
        self.store.keep_minutes(self.live.settings.history_queues_max);
        let ranked = self.store.rank_queues(self.budget.steps());
        // Without space, an immediate retry finds the same.
        let passed = swept && returned && collected && ended && forgotten && looked
            || !self.live.room.lets_time_pass();
        !(passed && timed_out && tidy && ranked)
    }

    /// Notes since when there has been something to do all the time. After a pause of its own nothing was at work.
    fn begin_work(&mut self) {
        let now = self.now.floor();
        self.live.at_work_since = self.work_began();
        self.live.advanced = now;
        if self.live.at_work_since.is_none() {
            (self.live.at_work_since, self.live.spells) = (Some(now), self.live.spells + 1);
        }
    }

    /// Does what comes first in any case, however little is left, and takes nothing of that away.
    fn at_least_a_slice(&mut self, work: impl FnOnce(&mut Self) -> bool) -> bool {
        self.within(self.budget.left().max(limits::QUEUE_SLICE_STEPS), work).0
    }

    fn sweep_all(&mut self) -> bool {
        if !self.live.room.lets_time_pass() {
            return false;
        }
        // Half of the budget, so that a herd of queues does not keep those from being swept that
        // have been woken.
        let (all_woken, used) = self.within(self.budget.left().div_ceil(2), |step| {
            while let Some(number) = step.store.woken(step.now.floor(), step.budget.steps()) {
                step.list_sweeping(number);
            }
            !step.budget.is_used_up()
        });
        self.budget.spend(used);
        while let Some(number) = self.live.sweeping.pop_front() {
            if self.store.bound_queue(number).is_none_or(|queue| !queue.marks.sweeping) {
                continue;
            }
            let slice = self.budget.left().min(limits::QUEUE_SLICE_STEPS);
            let (done, used) = self.within(slice, |step| step.sweep(number));
            self.budget.spend(used);
            self.hand_off();
            if !done {
                self.live.sweeping.push_back(number);
                if self.budget.is_used_up() || !self.live.room.lets_time_pass() {
                    return false;
                }
            }
        }
        !self.budget.is_used_up() && all_woken
    }

    fn time_out(&mut self) -> bool {
        if self.live.room.defers() {
            // There may be a job for clients that are late by then.
            return true;
        }
        let at = self.live.monotonic.unwrap_or(self.now).floor();
        loop {
            match self.live.waiters.late(at, self.budget.steps()) {
                Ok(Some(_)) if self.budget.is_used_up() => return false,
                Ok(Some(client)) => {
                    // One may wait for ten thousand queues.
                    self.budget.spend(1 + self.live.waiters.line_count(client));
                    self.live.stop_waiting(self.store, client);
                    self.turn.outbox.reply(client, TIMED_OUT);
                }
                Ok(None) => return true,
                Err(()) => return false,
            }
        }
    }

    /// Forgets queues that have only totals, the longest unused first: after `stats-retention`, or when there are too
    /// many, or when memory is short. False if there are more of them.
    fn forget_idle(&mut self) -> bool {
        let (mut forgotten, mut unsent) = (0, None);
        for _ in 0..limits::FORGOTTEN_PER_TURN {
            let Some(idle) = self.store.first_idle() else { return true };
            if !self.live.room.lets_time_pass() {
                return false;
            }
            let old = idle.since.plus(self.live.settings.stats_retention_ms) <= self.now.floor();
            let many = self.store.idle_count() > limits::IDLE_QUEUES_MAX;
            if !old && !many && !self.live.is_short(self.store) {
                return true;
            }
            let Some(queue) = self.store.take_idle(idle) else { continue };
            // A job that was popped goes back to it if its connection turns out closed.
            let unsent =
                unsent.get_or_insert_with(|| self.live.unsent.queues(limits::UNSENT_LOOKED_AT));
            let is_held = unsent.as_ref().is_none_or(|queues| queues.contains(&idle.queue));
            if queue.aside.line.is_some() || is_held {
                self.store.note_idle(idle.queue, self.now.floor());
            } else {
                self.commit(&Fact::QueueForgotten { queue: idle.queue }, Located::NOTHING);
                forgotten += 1;
            }
        }
        // Those that clients wait for stay, however many they are: looking at them all the time gains nothing.
        forgotten == 0
    }

    /// Forgets policies that no job uses: memory is short.
    fn forget_policies(&mut self) {
        for _ in 0..limits::FORGOTTEN_PER_TURN {
            if !self.live.room.lets_time_pass() {
                return;
            }
            let Some(number) = self.store.forgettable_policy(0) else { return };
            self.commit(&Fact::PolicyForgotten { number }, Located::NOTHING);
        }
    }

    /// Returns memory of freed jobs, in slices; true when done.
    fn tidy(&mut self) -> bool {
        let share = self.budget.left().min(limits::TIDYING_STEPS_PER_TURN);
        let max = self.live.settings.memory_bytes_max;
        if max > 0 && self.store.held_bytes() > max - max / 16 {
            self.store.press();
            self.forget_policies();
        }
        let (done, used) = self.within(share, |step| {
            let Step { store, live, now, budget, .. } = step;
            store.tidy(Some(now.floor()), budget.steps(), live.unsent.is_empty())
        });
        self.budget.spend(used);
        done
    }
}

pub fn next_wakeup(store: &Store, live: &Live) -> Option<Millis> {
    let passes = live.room.lets_time_pass();
    let serves = !live.touched.is_empty() && live.room.serves();
    let begun = !live.sweeping.is_empty() || live.leases.has_begun() || live.zones_walk.is_some();
    let returns = live.unsent.may_return(|taken| live.room.has_room(taken.returning_bytes_max()));
    let tidying = store.next_tidying();
    if passes && begun || serves || returns || tidying == Some(Millis(0)) {
        return Some(Millis(0));
    }
    let timed = live.monotonic.is_none() && !live.room.defers();
    let timeout = live.waiters.next_wakeup().filter(|_| timed);
    if !passes {
        return [timeout, tidying].into_iter().flatten().min();
    }
    let idle = store.first_idle();
    let forget = idle.map(|idle| idle.since.plus(live.settings.stats_retention_ms));
    let stall = store.leading().stall.map(|stall| stall.to.plus(1));
    [store.next_wakeup(), timeout, forget, tidying, stall].into_iter().flatten().min()
}
