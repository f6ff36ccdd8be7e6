//! Sweeping one queue. Jobs fall due before leases run out before anything expires. Nothing is handed to waiters here.

use crate::engine::model::fact::Fact;
use crate::engine::model::group::GroupSettings;
use crate::engine::model::queue_settings::Pause;
use crate::engine::model::request::JobState;
use crate::engine::step::retry::Failure;
use crate::engine::step::{Step, events, forecast};
use crate::engine::store::apply::Swept;
use crate::engine::store::groups::Groups;
use crate::engine::store::jobs::{JobIndex, JobStage};
use crate::engine::store::{Located, Store};
use crate::ids::QueueNo;
use crate::time::Millis;
use crate::wheel::Peek;

/// Groups that are asked for their tier for one step of the budget; with rates, whose timers move then, fewer.
const REVIEWED_A_STEP: u32 = 8;
const PACED_A_STEP: u32 = 1;

/// More steps of a budget for a group that opens, and has to come into its rota.
const OPENING_STEPS: u32 = 3;

impl Step<'_, '_> {
    /// Does what is due in one queue; false if budget or room were used up before the end.
    pub fn sweep(&mut self, number: QueueNo) -> bool {
        loop {
            let done = self.end_pauses(number)
                && self.end_group_pauses(number)
                && self.review_groups(number)
                && self.pass_group_rates(number)
                && self.sweep_delayed(number)
                && self.sweep_leases(number)
                && self.sweep_ends(number)
                && self.sweep_dead(number)
                && self.sweep_schedules(number);
            let queue = self.store.queue(number);
            if queue.aside.line.is_some() && queue.count(JobState::Ready) > 0 {
                // A hand-off that met too many expired jobs continues after them.
                self.touch(number, None);
            }
            if !done {
                self.list_sweeping(number);
                return false;
            }
            let opening = open_ahead(self.store, &mut self.live.opening, number, self.now.floor());
            self.store.rearm(number, opening);
            // A lease that ended with a backoff of 0 left a job that is due now.
            if self.store.queue(number).wake > self.now.floor() {
                self.store.marks_mut(number).sweeping = false;
                return true;
            }
        }
    }

    /// Ends pauses that are over.
    fn end_pauses(&mut self, queue: QueueNo) -> bool {
        let pauses = self.store.queue(queue).pauses;
        if pauses.next_end().is_none_or(|end| end > self.now.floor()) {
            return true;
        }
        let goes_on = self.live.room.lets_time_pass() && self.budget.take();
        if goes_on {
            let pauses = pauses.still(self.now);
            self.commit(&Fact::Paused { queue, pauses }, Located::NOTHING);
        }
        goes_on
    }

    /// The same of groups.
    fn end_group_pauses(&mut self, queue: QueueNo) -> bool {
        loop {
            let groups = self.store.queue(queue).groups.as_deref();
            let next = groups.and_then(|groups| groups.next_end());
            let Some((_, number)) = next.filter(|(end, _)| *end <= self.now.floor()) else {
                return true;
            };
            if !self.live.room.lets_time_pass() || !self.budget.take() {
                return false;
            }
            let groups = groups.expect("a pause of one ends");
            let (group, own) = (groups.name(number).to_vec(), groups.settings(number));
            let settings = GroupSettings { pause: Pause::None, ..own };
            self.commit(&Fact::GroupSet { queue, group: &group, settings }, Located::NOTHING);
            self.touch(queue, None);
        }
    }

    /// Goes on to ask groups for their tier, if something has changed for all of them.
    fn review_groups(&mut self, queue: QueueNo) -> bool {
        while self.is_reviewing(queue) {
            if !self.budget.take() {
                return false;
            }
            let groups = self.store.queue(queue).groups.as_deref();
            let paced = groups.is_some_and(|groups| groups.paced > 0);
            let count = if paced { PACED_A_STEP } else { REVIEWED_A_STEP };
            self.store.review(queue, count, self.now);
        }
        true
    }

    /// Opens groups whose rates let the next job go. Those of which only the rate was left are gone.
    fn pass_group_rates(&mut self, queue: QueueNo) -> bool {
        let now = self.now;
        loop {
            let next = self.store.queue(queue).next_paced().filter(|next| next.0 <= now.floor());
            let Some((_, group)) = next else { return true };
            if !self.live.room.lets_time_pass() || !self.budget.take() {
                return false;
            }
            let steps = self.budget.steps();
            *steps = steps.saturating_sub(OPENING_STEPS);
            if self.store.pass_pace(queue, group, now) {
                let groups = self.store.queue(queue).groups.as_deref().expect("it has groups");
                let group = &groups.name(group).to_vec();
                self.commit(&Fact::GroupPaced { queue, group, gave: 0 }, Located::NOTHING);
            } else {
                self.touch(queue, None);
            }
        }
    }

    fn is_reviewing(&self, queue: QueueNo) -> bool {
        self.store.queue(queue).groups.as_deref().is_some_and(Groups::is_being_reviewed)
    }

    /// Sees to it that the sweep does so.
    pub fn go_on_reviewing(&mut self, queue: QueueNo) {
        if self.is_reviewing(queue) {
            self.list_sweeping(queue);
        }
    }

    /// Drops dead letters that are too many since the limit went down.
    fn sweep_dead(&mut self, number: QueueNo) -> bool {
        while !self.budget.is_used_up() && self.live.room.lets_time_pass() {
            if !self.drop_surplus_dead(number) {
                return true;
            }
            self.budget.spend(1);
        }
        let queue = self.store.queue(number);
        queue.count(JobState::Dead) <= queue.dead_max()
    }

    fn sweep_delayed(&mut self, number: QueueNo) -> bool {
        let queue = self.store.queue(number);
        let (enters, place) = (queue.due_enters(), queue.next_place(queue.due_enters()));
        let done = loop {
            if !self.live.room.lets_time_pass() {
                break false;
            }
            match self.sweep_due(number) {
                Peek::Due(index) => self.expire(number, index),
                none => break none == Peek::Empty,
            }
        };
        if self.store.queue(number).next_place(enters) != place {
            self.touch(number, Some(place));
        }
        done
    }

    /// In a transaction no time passes: it happens at one instant. But a job that its NACK has just made due, in a
    /// queue with nothing else due, is ready for its next command, as it would be outside of a transaction.
    pub fn settle(&mut self, number: QueueNo) {
        let queue = self.store.queue(number);
        let (enters, place) = (queue.due_enters(), queue.next_place(queue.due_enters()));
        self.within(u32::MAX, |step| step.sweep_due(number));
        if self.store.queue(number).next_place(enters) != place {
            self.touch(number, Some(place));
        }
        self.store.rearm(number, self.now.floor().plus(1));
    }

    /// Jobs in a run become ready one by one, and one fact records all of them. What comes next: a job that expires, if
    /// one is due.
    fn sweep_due(&mut self, number: QueueNo) -> Peek {
        let live = &mut *self.live;
        let notes = live.events.is_some() || live.forecast.is_some();
        let note = |store: &_, index| {
            if notes {
                forecast::pass_job(&mut live.forecast, store, number, index);
                let events = live.events.as_deref_mut();
                events
                    .into_iter()
                    .for_each(|happened| events::push_due(happened, store, number, index));
            }
        };
        let Swept { due, next } = self.store.sweep_due(self.now, number, self.budget.steps(), note);
        if let Some(fact @ Fact::Due { count, .. }) = &due {
            self.record(fact);
            self.live.tally.due += u64::from(*count);
        }
        next
    }

    /// The first due timer in the wheel of `stage`, and one step of its work, if the facts fit.
    fn next_due(&mut self, number: QueueNo, stage: JobStage) -> Peek {
        match self.live.room.lets_time_pass() {
            true => self.store.peek_due(number, stage, self.now.floor(), self.budget.steps()),
            false => Peek::More,
        }
    }

    fn sweep_leases(&mut self, number: QueueNo) -> bool {
        loop {
            let index = match self.next_due(number, JobStage::Leased) {
                Peek::Due(index) => index,
                none => return none == Peek::Empty,
            };
            match self.extension(self.store.timers().due(index)) {
                Some(lease_end) => {
                    // No client could answer for the job when its lease would have ended.
                    let (id, at) = (self.store.id_of(index), self.store.located(index));
                    self.commit(&Fact::Extended { queue: number, id: &id, lease_end }, at);
                }
                None => self.end_lease(number, index, Failure::Timeout),
            }
        }
    }

    /// The new end of a lease that no client could answer for when it would have ended.
    pub fn extension(&self, end: Millis) -> Option<Millis> {
        let stall = self.store.leading().stall;
        let led = stall.and_then(|stall| stall.extension(end, self.now.ceil()));
        led.max(self.live.room.extension(end, self.now))
    }

    fn sweep_ends(&mut self, number: QueueNo) -> bool {
        loop {
            let index = match self.next_due(number, JobStage::Window) {
                Peek::Due(index) => index,
                none => return none == Peek::Empty,
            };
            if self.store.queue(number).has_purged(self.store.jobs(), index) {
                self.store.pass_purged(number, index);
                continue;
            }
            self.end_job(number, index);
        }
    }

    fn end_job(&mut self, queue: QueueNo, index: JobIndex) {
        let (id, at) = (self.store.id_of(index), self.store.located(index));
        match self.store.jobs().get(index).stage {
            JobStage::Ready => self.expire(queue, index),
            JobStage::Dead => drop(self.commit(&Fact::Dropped { queue, id: &id }, at)),
            JobStage::Window => drop(self.commit(&Fact::WindowOver { queue, id: &id }, at)),
            stage => unreachable!("a {stage:?} job does not end by itself"),
        }
    }
}

/// Opens slots of a queue's delayed jobs ahead of their time, in slices: when to go on at the
/// earliest. A slot of 65 s can hold millions of jobs, and until it was opened none of them could
/// fall due.
pub fn open_ahead(store: &mut Store, opening: &mut u32, number: QueueNo, at: Millis) -> Millis {
    let next_ms = at.plus(1);
    if store.queue(number).opening >= next_ms {
        return next_ms;
    }
    // Half of what is left, so that no queue keeps the others from being opened.
    let share = opening.div_ceil(2);
    let mut left = share;
    let done = store.open_next(number, &mut left);
    *opening -= share - left;
    if done { Millis(0) } else { next_ms }
}
