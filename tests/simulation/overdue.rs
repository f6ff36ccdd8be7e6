//! What must have been done about schedules once nothing is left to do: what is due is held, and what is to come is what
//! the rules in force have.

use delayd::engine::Engine;
use delayd::engine::model::schedule::{ENDLESS, Overlap};

use crate::simulation::auditor::{Auditor, Check, Input, Step};
use crate::simulation::model::{ModelQueue, QueueKey};
use crate::simulation::schedules::ModelSchedule;

impl ModelQueue {
    /// The schedule about which something is to be done first, and when. One whose zone was unknown may wait until
    /// it is looked at.
    pub fn first_schedule(
        &self,
        tables: usize,
        looks_through: bool,
    ) -> Option<(u64, &ModelSchedule)> {
        let known = self.schedules.values().filter(|one| one.timing(tables).is_some());
        let sure = known.filter(|one| !(looks_through && one.was_unknown));
        let timed = sure.filter_map(|one| Some((one.wake()?, one)));
        timed.min_by_key(|(at, one)| (*at, one.number))
    }
}

impl Auditor {
    /// Other tables are used from here on.
    pub fn set_tables(&mut self, tables: usize) {
        (self.tables, self.looks_through) = (tables, true);
        let queues = self.model.queues.values_mut();
        for schedule in queues.flat_map(|queue| queue.schedules.values_mut()) {
            schedule.was_unknown |= schedule.timing(tables).is_none();
        }
        self.note("other tables");
    }

    pub fn note_advance(&mut self, step: &Step<'_>) {
        let now = step.now.floor().0;
        if let Input::Advance { .. } = step.input {
            self.advanced = now;
            self.looks_through &= step.more != Some(false) || self.journal.is_short();
        }
    }

    /// Whether there may have been no room for an occurrence.
    pub fn note_crowded(&mut self, step: &Step<'_>, engine: &Engine) {
        let max = step.settings.memory_bytes_max;
        let used = engine.memory_bytes().max(step.memory_before);
        let short = max > 0 && used + engine.lease_bytes_to_come() + 8_192 > max;
        if short || self.journal.bounds_bases() {
            self.crowded = step.now.floor().0;
        }
    }
}

impl Check<'_> {
    /// Why a queue takes no occurrence of a schedule, once all have given way that do.
    pub fn obstacle(&self, key: QueueKey, schedule: &ModelSchedule) -> Option<&'static str> {
        let replaces = schedule.definition.terms().overlap == Overlap::Replace;
        let waiting = schedule.waiting(self.queue(key)).count() as u64;
        let full = self.full_behind(key, if replaces { waiting } else { 0 });
        self.not_admitted(key, 0).or(full.then_some("FULL"))
    }

    /// When something is to be done about schedules next that nothing holds.
    pub fn agenda_wakes(&self) -> Option<u64> {
        let (now, looks_through) = (self.now().0, self.auditor.looks_through);
        let first = self.auditor.model.queues.iter().filter_map(|(key, queue)| {
            let first = queue.first_schedule(self.tables(), looks_through);
            first.filter(|(_, first)| self.obstacle(*key, first).is_none())
        });
        // What is held holds the others of its queue.
        let crowded = self.is_crowded();
        first.map(|(at, _)| at).filter(|at| *at > now && !crowded).min()
    }

    /// Nothing is left to do: what is due is held, and what is to come is what the rules have.
    pub fn check_agenda(&self) {
        let (now, tables) = (self.now().0, self.tables());
        for (key, queue) in &self.auditor.model.queues {
            if let Some((_, first)) =
                queue.first_schedule(tables, false).filter(|(at, _)| *at <= now)
            {
                let held = self.obstacle(*key, first).is_some();
                assert!(held || self.is_crowded(), "{first:?} is late at {now}");
            }
            for schedule in queue.schedules.values() {
                let Some(timing) = schedule.timing(tables) else { continue };
                // Tables that end it later do not begin it anew.
                let ends = schedule.definition.terms().until != ENDLESS;
                let is_done = ends && schedule.next.is_none();
                let (after, next) = schedule.by_tables(&timing);
                let right = (after, next) == (schedule.after, schedule.next) || is_done;
                assert!(right, "{next:?} is to come of {schedule:?}");
            }
        }
    }

    /// Whether memory or the next base may have had no room for an occurrence since the last try.
    fn is_crowded(&self) -> bool {
        let tried = self.auditor.crowded + 1_000;
        self.auditor.crowded > 0 && self.now().0 <= tried
    }
}
