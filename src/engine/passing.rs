//! Time passing, in slices.
//!
//! Queues with due work take turns of [`SLICE_STEPS`], so that one queue's million jobs do not hold
//! up another queue's one. Within a queue, jobs fall due before leases run out before anything
//! expires.

use crate::engine::fact::Fact;
use crate::engine::job::{JobIndex, Stage};
use crate::engine::queue::NEVER;
use crate::engine::request::State;
use crate::engine::retry::Failure;
use crate::engine::store::{IDLE_QUEUES_MAX, Located};
use crate::engine::{Advanced, Engine, Turn};
use crate::ids::QueueNo;
use crate::time::{Micros, Millis};
use crate::wheel::Peek;

/// Steps a queue gets before the next queue's turn.
const SLICE_STEPS: u32 = 256;

/// Steps spent on a queue's due work before a request to it is decided.
pub(super) const CATCH_UP_STEPS: u32 = 128;

impl Engine {
    /// Lets time pass, in at most about `budget` steps: a job that falls due, a timer moved to a
    /// lower level, a job freed are one each. Never call it with an earlier `now` than before.
    pub fn advance(&mut self, now: Micros, budget: u32, turn: &mut Turn<'_>) -> Advanced {
        let mut left = budget;
        self.handed_bytes = 0;
        // Before the sweep: with a backoff of 0 it leaves jobs that are due now.
        let ended = self.end_unbound(&mut left.max(SLICE_STEPS), now, turn);
        self.hand_off(now, turn);
        let swept = self.sweep_all(&mut left, now, turn);
        // Deadlines come after the jobs of the same ms: who waits until 12:00 gets a job of 12:00.
        let timed_out = self.time_out(&mut left.max(SLICE_STEPS), now, turn);
        self.forget_idle(now, turn);
        let buried = self.store.bury_slice(&mut left);
        let more = !(swept && timed_out && ended && buried);
        Advanced { next_wakeup: self.next_wakeup(), more }
    }

    /// When `advance` must be called next, at the latest.
    pub fn next_wakeup(&self) -> Option<Millis> {
        if !self.sweeping.is_empty() || !self.unbound.is_empty() || !self.store.graves.is_empty() {
            return Some(Millis(0));
        }
        let idle = self.store.idle.front();
        let forget = idle.map(|(_, since)| since.plus(self.settings.stats_retention_ms));
        [self.store.next_wakeup(), self.waiters.next_wakeup(), forget].into_iter().flatten().min()
    }

    fn sweep_all(&mut self, budget: &mut u32, now: Micros, turn: &mut Turn<'_>) -> bool {
        while let Some(number) = self.store.woken(now.floor(), budget) {
            self.list_sweeping(number);
        }
        while let Some(number) = self.sweeping.pop_front() {
            if self.store.bound_queue(number).is_none_or(|queue| !queue.sweeping) {
                continue;
            }
            let mut slice = (*budget).min(SLICE_STEPS);
            let before = slice;
            let done = self.sweep(number, &mut slice, now, turn);
            *budget -= before - slice;
            self.hand_off(now, turn);
            if !done {
                self.sweeping.push_back(number);
                if *budget == 0 {
                    return false;
                }
            }
        }
        *budget > 0
    }

    pub(super) fn list_sweeping(&mut self, number: QueueNo) {
        let queue = self.store.queue_mut(number);
        if !std::mem::replace(&mut queue.sweeping, true) {
            self.sweeping.push_back(number);
        }
    }

    /// Does what is due in one queue; false if the budget was used up before the end. Hands nothing
    /// to waiters.
    pub(super) fn sweep(
        &mut self,
        number: QueueNo,
        budget: &mut u32,
        now: Micros,
        turn: &mut Turn<'_>,
    ) -> bool {
        loop {
            let done = self.sweep_delayed(number, budget, now, turn)
                && self.sweep_leases(number, budget, now, turn)
                && self.sweep_ends(number, budget, now, turn);
            let queue = self.store.queue(number);
            if queue.line.is_some() && queue.count(State::Ready) > 0 {
                // A hand-off that met too many expired jobs goes on behind them.
                self.touch(number, None);
            }
            if !done {
                self.list_sweeping(number);
                return false;
            }
            self.store.rearm(number, NEVER);
            // A lease that ended with a backoff of 0 left a job that is due now.
            if self.store.queue(number).wake > now.floor() {
                self.store.queue_mut(number).sweeping = false;
                return true;
            }
        }
    }

    fn sweep_delayed(
        &mut self,
        number: QueueNo,
        budget: &mut u32,
        now: Micros,
        turn: &mut Turn<'_>,
    ) -> bool {
        // Jobs in a run become ready one by one, and one fact tells of all of them.
        let (place, mut count) = (self.store.queue(number).last_place + 1, 0);
        let mut first = place;
        let done = loop {
            let (queue, _, timers, _) = self.store.parts(number);
            let index = match queue.delayed.peek(timers, now.floor(), budget) {
                Peek::Due(index) => index,
                Peek::Empty => break true,
                Peek::More => break false,
            };
            let Some(left) = budget.checked_sub(1) else { break false };
            *budget = left;
            if self.store.expiry(index).is_some_and(|expiry| expiry <= now.floor()) {
                self.note_due(number, first, std::mem::take(&mut count), turn);
                self.expire(number, index, now, turn);
                first = self.store.queue(number).last_place + 1;
                continue;
            }
            self.store.fall_due(number);
            count += 1;
        };
        self.note_due(number, first, count, turn);
        if self.store.queue(number).last_place >= place {
            self.store.queue_mut(number).used = now.floor();
            self.touch(number, Some(place));
        }
        done
    }

    fn note_due(&mut self, queue: QueueNo, place: i64, count: u32, turn: &mut Turn<'_>) {
        if count > 0 {
            turn.facts.push(&Fact::Due { queue, place, count });
        }
    }

    fn sweep_leases(
        &mut self,
        number: QueueNo,
        budget: &mut u32,
        now: Micros,
        turn: &mut Turn<'_>,
    ) -> bool {
        loop {
            let (queue, _, timers, _) = self.store.parts(number);
            let index = match queue.leases.peek(timers, now.floor(), budget) {
                Peek::Due(index) => index,
                Peek::Empty => return true,
                Peek::More => return false,
            };
            let Some(left) = budget.checked_sub(1) else { return false };
            *budget = left;
            self.end_lease(number, index, Failure::Timeout, now, turn);
        }
    }

    fn sweep_ends(
        &mut self,
        number: QueueNo,
        budget: &mut u32,
        now: Micros,
        turn: &mut Turn<'_>,
    ) -> bool {
        loop {
            let (queue, jobs, timers, _) = self.store.parts(number);
            let index = match queue.ends.peek(timers, now.floor(), budget) {
                Peek::Due(index) => index,
                Peek::Empty => return true,
                Peek::More => return false,
            };
            let Some(left) = budget.checked_sub(1) else { return false };
            *budget = left;
            match jobs.get(index).stage {
                Stage::Ready => self.expire(number, index, now, turn),
                stage => {
                    let (id, at) = (self.id_of(index), self.located(index));
                    let (queue, id) = (number, &id[..]);
                    let fact = match stage {
                        Stage::Dead => Fact::Dropped { queue, id },
                        Stage::Window => Fact::WindowOver { queue, id },
                        _ => unreachable!("a {stage:?} job does not end by itself"),
                    };
                    self.commit(now, turn, &fact, at);
                }
            }
        }
    }

    /// A job's TTL has passed.
    pub(super) fn expire(
        &mut self,
        queue: QueueNo,
        index: JobIndex,
        now: Micros,
        turn: &mut Turn<'_>,
    ) {
        let (id, at) = (self.id_of(index), self.located(index));
        let window_end = self.window_end(index, now);
        self.commit(now, turn, &Fact::Expired { queue, id: &id, window_end }, at);
    }

    fn time_out(&mut self, budget: &mut u32, now: Micros, turn: &mut Turn<'_>) -> bool {
        loop {
            match self.waiters.late(now.floor(), budget) {
                Ok(Some(client)) => {
                    self.stop_waiting(client);
                    turn.outbox.reply(client, Engine::TIMED_OUT);
                    *budget = budget.saturating_sub(1);
                }
                Ok(None) => return true,
                Err(()) => return false,
            }
        }
    }

    /// Forgets queues without jobs and windows: after `stats-retention`, or the longest unused when
    /// there are too many. A few a turn, since a turn makes a few.
    fn forget_idle(&mut self, now: Micros, turn: &mut Turn<'_>) {
        for _ in 0..SLICE_STEPS {
            let Some(&(number, since)) = self.store.idle.front() else { return };
            let old = since.plus(self.settings.stats_retention_ms) <= now.floor();
            if !old && self.store.idle.len() <= IDLE_QUEUES_MAX {
                return;
            }
            self.store.idle.pop_front();
            // A later use has a later entry.
            let queue = self
                .store
                .bound_queue(number)
                .filter(|queue| queue.used <= since && !queue.exists() && queue.windows == 0);
            let Some(queue) = queue else { continue };
            if queue.line.is_some() {
                self.store.idle.push_back((number, now.floor()));
            } else {
                let nothing = Located { hash: 0, index: None };
                self.commit(now, turn, &Fact::QueueForgotten { queue: number }, nothing);
            }
        }
    }
}
