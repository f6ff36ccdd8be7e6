//! Time passing, in slices.
//!
//! Queues with due work take turns of [`SLICE_STEPS`], so that one queue's million jobs do not hold
//! up another queue's one. Within a queue, jobs fall due before leases run out before anything
//! expires.

use crate::engine::model::fact::Fact;
use crate::engine::model::request::{Side, State};
use crate::engine::step::retry::Failure;
use crate::engine::store::Located;
use crate::engine::store::jobs::{JobIndex, Stage};
use crate::engine::{Advanced, Engine, Turn};
use crate::ids::QueueNo;
use crate::limits;
use crate::time::{Micros, Millis};
use crate::wheel::Peek;

/// Steps a queue gets before the next queue's turn.
const SLICE_STEPS: u32 = 256;

/// Steps spent on a queue's due work before a request to it is decided.
const CATCH_UP_STEPS: u32 = 128;

impl Engine {
    /// Lets time pass, in at most about `budget` steps: a job that falls due, a timer moved to a
    /// lower level, a job freed are one each. Never call it with an earlier `now` than before.
    pub fn advance(&mut self, now: Micros, budget: u32, turn: &mut Turn<'_>) -> Advanced {
        let mut left = budget;
        self.handed_bytes = 0;
        self.slack = limits::SLACK_STEPS_PER_TURN;
        self.opening = limits::OPENING_STEPS_PER_TURN;
        let returned = self.return_unsent(&mut left.max(SLICE_STEPS), now, turn);
        // Before the sweep: with a backoff of 0 it leaves jobs that are due now.
        let ended = self.end_unbound(&mut left.max(SLICE_STEPS), now, turn);
        self.hand_off(now, turn);
        let swept = self.sweep_all(&mut left, now, turn);
        if swept {
            self.gate.caught_up();
        }
        // Deadlines come after the jobs of the same ms: who waits until 12:00 gets a job of 12:00.
        let timed_out = self.time_out(&mut left.max(SLICE_STEPS), now, turn);
        let forgotten = self.forget_idle(now, turn);
        let tidy = self.store.bury_slice(&mut left) && self.tidy(now, &mut left);
        // Without room, who asks again at once finds the same.
        let passed = swept && returned && ended && forgotten || !self.gate.lets_time_pass();
        let more = !(passed && timed_out && tidy);
        Advanced { next_wakeup: self.next_wakeup(), more }
    }

    /// When `advance` must be called next, at the latest. What there is no room for waits for
    /// [`Engine::set_flow`], and a deadline on the monotonic clock is [`Engine::next_timeout`].
    pub fn next_wakeup(&self) -> Option<Millis> {
        let passes = self.gate.lets_time_pass();
        let serves = !self.touched.is_empty() && self.gate.serves();
        let begun = !self.sweeping.is_empty() || !self.unbound.is_empty();
        let tidying = self.store.next_tidying();
        if passes && begun || serves || self.may_return() || tidying == Some(Millis(0)) {
            return Some(Millis(0));
        }
        let timed = self.monotonic.is_none() && !self.gate.defers();
        let timeout = self.waiters.next_wakeup().filter(|_| timed);
        if !passes {
            return [timeout, tidying].into_iter().flatten().min();
        }
        let idle = self.store.first_idle();
        let forget = idle.map(|idle| idle.since.plus(self.settings.stats_retention_ms));
        [self.store.next_wakeup(), timeout, forget, tidying].into_iter().flatten().min()
    }

    /// When `advance` must be called for the next deadline of a waiter, at the latest: on the monotonic
    /// clock. None if that is not told, as deadlines are in [`Engine::next_wakeup`] then.
    pub fn next_timeout(&self) -> Option<Millis> {
        let comes = self.monotonic.is_some() && !self.gate.defers();
        self.waiters.next_wakeup().filter(|_| comes)
    }

    /// Gives back what freed jobs leave behind, in slices; true when done.
    fn tidy(&mut self, now: Micros, budget: &mut u32) -> bool {
        let share = (*budget).min(limits::TIDYING_STEPS_PER_TURN);
        let mut left = share;
        let Engine { store, in_hand, returning, searches, settings, .. } = self;
        let max = settings.memory_bytes_max;
        if max > 0 && store.held_bytes() > max - max / 16 {
            store.press();
        }
        let searched = |queue| searches.values().any(|search| search.is_of(queue));
        let leased = in_hand.is_empty() && returning.is_empty();
        let done = store.tidy(Some(now.floor()), &mut left, leased, searched);
        *budget -= share - left;
        done
    }

    fn sweep_all(&mut self, budget: &mut u32, now: Micros, turn: &mut Turn<'_>) -> bool {
        if !self.gate.lets_time_pass() {
            return false;
        }
        // Half of the budget, so that a herd of queues does not keep those from being swept that
        // have been woken.
        let mut waking = budget.div_ceil(2);
        *budget -= waking;
        while let Some(number) = self.store.woken(now.floor(), &mut waking) {
            self.list_sweeping(number);
        }
        let all_woken = waking > 0;
        *budget += waking;
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
                if *budget == 0 || !self.gate.lets_time_pass() {
                    return false;
                }
            }
        }
        *budget > 0 && all_woken
    }

    /// Sweeps what is due now in a queue, within what requests may still do of it in this turn; false
    /// if nothing is due, or no time passes.
    pub(super) fn catch_up(&mut self, number: QueueNo, now: Micros, turn: &mut Turn<'_>) -> bool {
        let due = self.store.queue(number).wake <= now.floor();
        if !due || !self.gate.lets_time_pass() {
            return false;
        }
        let steps = self.slack.min(CATCH_UP_STEPS);
        let mut left = steps;
        self.sweep(number, &mut left, now, turn);
        self.slack -= steps - left;
        true
    }

    pub(super) fn list_sweeping(&mut self, number: QueueNo) {
        let queue = self.store.queue_mut(number);
        if !std::mem::replace(&mut queue.sweeping, true) {
            self.sweeping.push_back(number);
        }
    }

    /// Does what is due in one queue; false if budget or room were used up before the end. Hands nothing
    /// to waiters.
    pub(super) fn sweep(
        &mut self,
        number: QueueNo,
        budget: &mut u32,
        now: Micros,
        turn: &mut Turn<'_>,
    ) -> bool {
        loop {
            let done = self.end_pauses(number, budget, now, turn)
                && self.sweep_delayed(number, budget, now, turn)
                && self.sweep_leases(number, budget, now, turn)
                && self.sweep_ends(number, budget, now, turn)
                && self.sweep_dead(number, budget, now, turn);
            let queue = self.store.queue(number);
            if queue.line.is_some() && queue.count(State::Ready) > 0 {
                // A hand-off that met too many expired jobs goes on behind them.
                self.touch(number, None);
            }
            if !done {
                self.list_sweeping(number);
                return false;
            }
            let opening = self.open_ahead(number, now);
            self.store.rearm(number, opening);
            // A lease that ended with a backoff of 0 left a job that is due now.
            if self.store.queue(number).wake > now.floor() {
                self.store.queue_mut(number).sweeping = false;
                return true;
            }
        }
    }

    /// Opens slots of a queue's delayed jobs ahead of their time, in slices: when to go on at the
    /// earliest. A slot of 65 s can hold millions of jobs, and until it was opened none of them could
    /// fall due.
    fn open_ahead(&mut self, number: QueueNo, now: Micros) -> Millis {
        let next_ms = now.floor().plus(1);
        let (queue, _, timers, _) = self.store.parts(number);
        if queue.opening >= next_ms {
            return next_ms;
        }
        // Half of what is left, so that no queue keeps the others from being opened.
        let share = self.opening.div_ceil(2);
        let mut left = share;
        let done = queue.delayed.open_next(timers, &mut left);
        self.opening -= share - left;
        if done { Millis(0) } else { next_ms }
    }

    /// Ends pauses whose time is over.
    fn end_pauses(
        &mut self,
        queue: QueueNo,
        budget: &mut u32,
        now: Micros,
        turn: &mut Turn<'_>,
    ) -> bool {
        let pauses = self.store.queue(queue).pauses;
        if pauses.next_end().is_none_or(|end| end > now.floor()) {
            return true;
        }
        if *budget == 0 || !self.gate.lets_time_pass() {
            return false;
        }
        *budget -= 1;
        let nothing = Located { hash: 0, index: None };
        self.commit(now, turn, &Fact::Paused { queue, pauses: pauses.still(now) }, nothing);
        true
    }

    /// Drops dead letters that are too many since the limit went down.
    fn sweep_dead(
        &mut self,
        number: QueueNo,
        budget: &mut u32,
        now: Micros,
        turn: &mut Turn<'_>,
    ) -> bool {
        while *budget > 0 && self.gate.lets_time_pass() {
            if !self.drop_surplus_dead(number, now, turn) {
                return true;
            }
            *budget -= 1;
        }
        let queue = self.store.queue(number);
        queue.count(State::Dead) <= queue.dead_max()
    }

    fn sweep_delayed(
        &mut self,
        number: QueueNo,
        budget: &mut u32,
        now: Micros,
        turn: &mut Turn<'_>,
    ) -> bool {
        // Jobs in a run become ready one by one, and one fact tells of all of them.
        let enters = self.store.queue(number).due_enters();
        let (place, mut count) = (self.store.queue(number).next_place(enters), 0);
        let mut first = place;
        let done = loop {
            let index = match self.next_due(number, Stage::Delayed, budget, now) {
                Peek::Due(index) => index,
                none => break none == Peek::Empty,
            };
            if self.store.expiry(index).is_some_and(|expiry| expiry <= now.floor()) {
                self.note_due(number, first, std::mem::take(&mut count), enters, turn);
                self.expire(number, index, now, turn);
                first = self.store.queue(number).next_place(enters);
                continue;
            }
            self.store.fall_due(number, enters);
            if self.events.is_some() {
                self.tell_due(number, index);
            }
            count += 1;
        };
        self.note_due(number, first, count, enters, turn);
        if self.store.queue(number).next_place(enters) != place {
            self.store.queue_mut(number).used = now.floor();
            self.touch(number, Some(place));
        }
        done
    }

    /// The first timer that is due in the wheel of `stage`, and one step for what it leads to, whose
    /// facts fit.
    fn next_due(&mut self, number: QueueNo, stage: Stage, budget: &mut u32, now: Micros) -> Peek {
        if !self.gate.lets_time_pass() {
            return Peek::More;
        }
        let (queue, _, timers, _) = self.store.parts(number);
        let peek = queue.wheel(stage).peek(timers, now.floor(), budget);
        match (peek, budget.checked_sub(1)) {
            (Peek::Due(_), None) => return Peek::More,
            (Peek::Due(_), Some(left)) => *budget = left,
            _ => {}
        }
        peek
    }

    fn note_due(
        &mut self,
        queue: QueueNo,
        place: i64,
        count: u32,
        enters: Side,
        turn: &mut Turn<'_>,
    ) {
        if count > 0 {
            let left = enters == Side::Left;
            self.record(turn, &Fact::Due { queue, place, count, left });
            self.tally.due += u64::from(count);
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
            let index = match self.next_due(number, Stage::Leased, budget, now) {
                Peek::Due(index) => index,
                none => return none == Peek::Empty,
            };
            match self.gate.extension(self.store.timers.due(index), now) {
                Some(lease_end) => self.extend_stalled(number, index, lease_end, now, turn),
                None => self.end_lease(number, index, Failure::Timeout, now, turn),
            }
        }
    }

    /// Nobody could answer for the job when its lease would have ended.
    fn extend_stalled(
        &mut self,
        queue: QueueNo,
        index: JobIndex,
        lease_end: Millis,
        now: Micros,
        turn: &mut Turn<'_>,
    ) {
        let (id, at) = (self.id_of(index), self.located(index));
        self.commit(now, turn, &Fact::Extended { queue, id: &id, lease_end }, at);
    }

    fn sweep_ends(
        &mut self,
        number: QueueNo,
        budget: &mut u32,
        now: Micros,
        turn: &mut Turn<'_>,
    ) -> bool {
        loop {
            let index = match self.next_due(number, Stage::Window, budget, now) {
                Peek::Due(index) => index,
                none => return none == Peek::Empty,
            };
            if self.store.queue(number).has_purged(&self.store.jobs, index) {
                self.store.pass_purged(number, index);
                continue;
            }
            match self.store.jobs.get(index).stage {
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
        if self.gate.defers() {
            // There may be a job for who is late by then.
            return true;
        }
        let at = self.monotonic.unwrap_or(now).floor();
        loop {
            match self.waiters.late(at, budget) {
                Ok(Some(_)) if *budget == 0 => return false,
                Ok(Some(client)) => {
                    // One may wait for ten thousand queues.
                    *budget = budget.saturating_sub(1 + self.waiters.line_count(client));
                    self.stop_waiting(client);
                    turn.outbox.reply(client, Engine::TIMED_OUT);
                }
                Ok(None) => return true,
                Err(()) => return false,
            }
        }
    }

    /// Forgets queues without jobs and windows: after `stats-retention`, or the longest unused when
    /// there are too many. False if there are more of them.
    fn forget_idle(&mut self, now: Micros, turn: &mut Turn<'_>) -> bool {
        for _ in 0..limits::FORGOTTEN_PER_TURN {
            let Some(idle) = self.store.first_idle() else { return true };
            if !self.gate.lets_time_pass() {
                return false;
            }
            let old = idle.since.plus(self.settings.stats_retention_ms) <= now.floor();
            if !old && self.store.idle_count() <= limits::IDLE_QUEUES_MAX {
                return true;
            }
            let Some(queue) = self.store.take_idle(idle) else { continue };
            if queue.line.is_some() {
                self.store.note_idle(idle.queue, now.floor());
            } else {
                let nothing = Located { hash: 0, index: None };
                self.commit(now, turn, &Fact::QueueForgotten { queue: idle.queue }, nothing);
            }
        }
        false
    }
}
