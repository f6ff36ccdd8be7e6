//! Schedules: set, removed, paused, run.

mod set;
mod show;

use crate::engine::model::fact::Fact;
use crate::engine::model::queue_settings::Pause;
use crate::engine::model::reply::Reply;
use crate::engine::model::request::QueueName;
use crate::engine::model::schedule::{Coming, Overlap, Scheduling};
use crate::engine::model::turn::Outcome;
use crate::engine::step::Step;
use crate::engine::store::Located;
use crate::error::Error;
use crate::ids::{QueueNo, ScheduleNo};
use crate::time::Millis;

/// An id whose instant is further ahead was made by a wrong clock, ms.
const AHEAD_MS_MAX: u64 = 1 << 20;

impl Step<'_, '_> {
    pub fn schedule(&mut self, of: &Scheduling<'_>) -> Result<Outcome, Error> {
        match *of {
            Scheduling::Set(ref set) => self.set_schedule(set),
            Scheduling::Delete { queue, names } => self.delete_schedules(queue, names),
            Scheduling::Pause { queue, name, for_ms } => self.pause_schedule(queue, name, for_ms),
            Scheduling::Resume { queue, name } => self.resume_schedule(queue, name),
            Scheduling::Run { queue, name, force } => self.run_schedule(queue, name, force),
            Scheduling::Get { queue, name } => self.show_schedule(queue, name),
            Scheduling::List { queue, after, pattern, count } => {
                self.list_schedules(queue, (after, pattern), count)
            }
            Scheduling::Next { queue, name, count } => self.next_of_schedule(queue, name, count),
            Scheduling::Explain { ref rule, from, count } => self.explain(rule, from, count),
            Scheduling::Zones { pattern } => self.list_zones(pattern),
        }
    }

    /// The queue and the schedule, if there is one of this name.
    fn found(&mut self, queue: QueueName<'_>, name: &[u8]) -> Option<(QueueNo, ScheduleNo)> {
        let queue = self.queue(queue)?;
        let schedule = self.store.find_schedule(queue, name)?;
        Some((queue, schedule.number))
    }

    fn delete_schedules(
        &mut self,
        queue: QueueName<'_>,
        names: &[&[u8]],
    ) -> Result<Outcome, Error> {
        let mut count = 0;
        if let Some(queue) = self.queue(queue) {
            for name in names {
                let Some(schedule) = self.store.find_schedule(queue, name) else { continue };
                let schedule = schedule.number;
                self.commit(&Fact::Unscheduled { queue, schedule }, Located::NOTHING);
                count += 1;
            }
        }
        Ok(self.reply(Reply::Integer(count)))
    }

    fn pause_schedule(
        &mut self,
        queue: QueueName<'_>,
        name: &[u8],
        for_ms: Option<u64>,
    ) -> Result<Outcome, Error> {
        let pause = self.pause_for(for_ms)?;
        let Some((queue, number)) = self.found(queue, name) else {
            return Ok(self.reply(Reply::Integer(0)));
        };
        self.put_schedule_pause(queue, number, pause);
        Ok(self.reply(Reply::Integer(1)))
    }

    fn resume_schedule(&mut self, queue: QueueName<'_>, name: &[u8]) -> Result<Outcome, Error> {
        let found = self.found(queue, name);
        if let Some((queue, number)) = found {
            self.put_schedule_pause(queue, number, Pause::None);
        }
        Ok(self.reply(Reply::Integer(found.is_some().into())))
    }

    /// Instants during a pause are neither counted nor caught up.
    fn put_schedule_pause(&mut self, queue: QueueNo, schedule: ScheduleNo, pause: Pause) {
        // By tables that do not know its zone it goes on as a pause that is not over.
        _ = self.end_own_pause(queue, schedule);
        if self.store.schedule(queue, schedule).pause() == pause {
            return;
        }
        self.miss_due(queue, schedule);
        let of = self.store.schedule(queue, schedule);
        let now = self.now.floor();
        let times = self.times(of);
        // In a pause nothing comes due.
        let passed = match &times {
            _ if of.pause() == Pause::None => Millis(0),
            Ok(times) if times.newest_due(now) > Some(of.after) => times.behind(of.after, now),
            Ok(_) => Millis(0),
            Err(_) => now,
        };
        let after = of.after.max(passed);
        let next = match (times, pause) {
            (_, Pause::Endless) => None,
            (Ok(times), Pause::Until(end)) => self.coming(of, &times, end),
            (Ok(times), Pause::None) => self.coming(of, &times, now),
            // Its next instant needs tables that know its zone; until then it waits for them.
            (Err(_), _) if of.is_used_up() => None,
            (Err(_), _) => {
                of.next().or(Some(Coming { nominal: after.plus(1), due: after.plus(1) }))
            }
        };
        let fact = Fact::SchedulePaused { queue, schedule, pause, after, next };
        self.commit(&fact, Located::NOTHING);
    }

    fn run_schedule(
        &mut self,
        name: QueueName<'_>,
        schedule: &[u8],
        force: bool,
    ) -> Result<Outcome, Error> {
        let Some((queue, number)) = self.found(name, schedule) else {
            return Err(Error::text("ERR no such schedule"));
        };
        let of = self.store.schedule(queue, number);
        let overlap = of.definition.terms().overlap;
        let is_open = self.open_occurrences(queue, of).next().is_some();
        if overlap == Overlap::Skip && is_open && !force {
            return Ok(self.reply(Reply::Nil));
        }
        let replaces = overlap == Overlap::Replace && self.waiting_occurrence(queue, of).is_some();
        self.check_admission(queue, u64::from(!replaces))?;
        let at = self.free_instant(queue, number);
        let id = self.store.schedule(queue, number).id_at(at);
        let bytes = id.len() + self.store.schedule(queue, number).data_bytes();
        self.check_memory(Some(queue), name, std::iter::once(bytes))?;
        if !self.live.in_transaction && !self.live.room.lets_grow(self.store, bytes as u64) {
            return Err(self.live.room.shortage().into());
        }
        while overlap == Overlap::Replace && self.give_way(queue, number) {}
        let located = self.store.locate(queue, &id);
        let (policy, priority, left) = self.terms_of(queue, number);
        let (schedule, due) = (number, self.now.floor());
        let fact = Fact::Ran { queue, schedule, at, due, policy, priority, left };
        self.commit_ready(queue, &fact, located);
        Ok(self.reply(Reply::Id(&id)))
    }

    /// The first ms from now on whose id is free, and stays free for a nominal instant of the schedule.
    fn free_instant(&self, queue: QueueNo, schedule: ScheduleNo) -> Millis {
        let of = self.store.schedule(queue, schedule);
        let times = self.times(of).ok();
        let is_nominal = |at| times.as_ref().is_some_and(|times| times.is_nominal(at));
        let is_taken = |at| self.store.locate(queue, &of.id_at(at)).index.is_some();
        let now = self.now.floor();
        // After the newest, so that a thousand in one ms cost a thousand look-ups and not half a million.
        let is_ahead = |last: &Millis| *last >= now && last.0 - now.0 < AHEAD_MS_MAX;
        let mut at = of.last_id().filter(is_ahead).map_or(now, |last| last.plus(1));
        // In growing steps: a million ids chosen by a client cost 20 look-ups.
        let mut step = 1;
        loop {
            if is_taken(at) {
                at = at.plus(step);
                step *= 2;
            } else if is_nominal(at) {
                at = at.plus(1);
            } else {
                return at;
            }
        }
    }
}
