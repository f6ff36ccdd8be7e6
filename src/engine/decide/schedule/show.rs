//! Looking at schedules, rules and zones without changing anything.

use crate::engine::model::queue_settings::Pause;
use crate::engine::model::reply::Reply;
use crate::engine::model::request::QueueName;
use crate::engine::model::schedule::{
    AskedRule, Obstacle, ScheduleRow, ScheduleState, ScheduleView,
};
use crate::engine::model::turn::Outcome;
use crate::engine::step::Step;
use crate::engine::step::schedule::times::Times;
use crate::engine::step::slice::{Unfinished, resumed};
use crate::engine::store::schedules::Schedule;
use crate::error::{Error, Shown};
use crate::glob;
use crate::ids::QueueNo;
use crate::limits::{PATTERN_STEPS_PER_TURN, SCHEDULES_LISTED_MAX};
use crate::time::Millis;

impl Step<'_, '_> {
    pub(super) fn show_schedule(
        &mut self,
        queue: QueueName<'_>,
        name: &[u8],
    ) -> Result<Outcome, Error> {
        let Some((queue, number)) = self.found(queue, name) else {
            return Ok(self.reply(Reply::NilArray));
        };
        let schedule = self.store.schedule(queue, number);
        let (state, obstacle) = self.state_of(queue, schedule);
        let has_made = schedule.last > Millis(0);
        let view = ScheduleView {
            name: &schedule.name,
            body: &schedule.body,
            state,
            definition: &schedule.definition,
            runs_left: schedule.runs_left(),
            changed: schedule.changed,
            next: schedule.next(),
            last: has_made.then_some((schedule.last, schedule.made_at)),
            last_id: schedule.last_id().map(|at| schedule.id_at(at).to_vec()),
            open: self.open_occurrences(queue, schedule).map(|id| id.to_vec()).collect(),
            pause: if schedule.pause().is_on(self.now) { schedule.pause() } else { Pause::None },
            obstacle,
            outcomes: schedule.outcomes,
        };
        self.turn.outbox.reply(self.client, Reply::Schedule(&view));
        Ok(Outcome::Replied)
    }

    /// Its present state, and the obstacle.
    fn state_of(&self, queue: QueueNo, schedule: &Schedule) -> (ScheduleState, Option<Obstacle>) {
        if schedule.pause().is_on(self.now) {
            return (ScheduleState::Paused, None);
        }
        let Some(next) = schedule.next() else { return (ScheduleState::Done, None) };
        let unknown = if schedule.stuck { self.times(schedule).err() } else { None };
        let is_due = next.due <= self.now.floor();
        let obstacle =
            unknown.or_else(|| if is_due { self.obstacle(queue, schedule) } else { None });
        let state = if obstacle.is_some() { ScheduleState::Held } else { ScheduleState::Active };
        (state, obstacle)
    }

    /// Why what is due of it is not made, if anything keeps it from that.
    fn obstacle(&self, queue: QueueNo, schedule: &Schedule) -> Option<Obstacle> {
        if !self.live.room.lets_time_pass() {
            return Some(Obstacle::Journal);
        }
        let of = self.store.queue(queue);
        let name = QueueName { db: of.db, name: &of.name };
        let size = std::iter::once(schedule.name.len() + schedule.data_bytes());
        let memory = || self.check_memory(Some(queue), name, size).err().map(|_| Obstacle::Memory);
        let held = of.schedules.as_ref().is_some_and(|all| all.was_held);
        let journal = || held.then_some(Obstacle::Journal);
        self.check_queue(queue, schedule).err().or_else(memory).or_else(journal)
    }

    pub(super) fn list_schedules(
        &mut self,
        queue: QueueName<'_>,
        (after, pattern): (Option<&[u8]>, Option<&[u8]>),
        count: u32,
    ) -> Result<Outcome, Error> {
        let begun = resumed!(self, Schedules);
        let Some(queue) = self.queue(queue) else { return Ok(self.reply(Reply::Schedules(&[]))) };
        // A row has a KiB at most, so a reply has 10 MiB.
        let (mut rows, mut steps, mut looked) = (Vec::new(), 0, 0);
        let mut is_cut = false;
        let schedules = self.store.queue(queue).schedules.as_deref();
        let named = schedules.into_iter().flat_map(|all| all.by_name(begun.as_deref().or(after)));
        let mut last = None;
        for schedule in named {
            let full = rows.len() == count as usize;
            if full || steps >= PATTERN_STEPS_PER_TURN || looked == SCHEDULES_LISTED_MAX {
                is_cut = true;
                break;
            }
            looked += 1;
            last = Some(&schedule.name);
            let fits = |pattern| glob::matches_counted(pattern, &schedule.name, &mut steps);
            if !pattern.is_none_or(fits) {
                continue;
            }
            rows.push(ScheduleRow {
                name: &schedule.name,
                state: self.state_of(queue, schedule).0,
                rule: &schedule.definition.rule,
                next: schedule.next().map(|coming| coming.nominal),
                last: Some(schedule.last).filter(|last| *last > Millis(0)),
            });
        }
        // A client that pages by a pattern takes an empty page for the end: names are examined until one matches.
        if rows.is_empty()
            && let Some(last) = last.filter(|_| is_cut)
        {
            if !self.alone {
                return Err(Error::text(format!(
                    "ERR MATCH: none of the first {looked} names matches, and a transaction examines no more"
                )));
            }
            let last = Unfinished::Schedules((**last).into());
            return Ok(self.again(last));
        }
        self.turn.outbox.reply(self.client, Reply::Schedules(&rows));
        Ok(Outcome::Replied)
    }

    pub(super) fn next_of_schedule(
        &mut self,
        queue: QueueName<'_>,
        name: &[u8],
        count: u32,
    ) -> Result<Outcome, Error> {
        let Some((queue, number)) = self.found(queue, name) else {
            return Err(Error::text("ERR no such schedule"));
        };
        let schedule = self.store.schedule(queue, number);
        let count = u64::from(count).min(schedule.runs_left().unwrap_or(u64::MAX)) as usize;
        let instants: Vec<u64> = match self.times(schedule) {
            Ok(times) => {
                let all = std::iter::successors(schedule.next(), |one| times.next(one.nominal));
                all.take(count).map(|coming| coming.nominal.0).collect()
            }
            Err(_) => schedule.next().into_iter().map(|coming| coming.nominal.0).collect(),
        };
        Ok(self.reply(Reply::Counts(&instants)))
    }

    pub(super) fn explain(
        &mut self,
        rule: &AskedRule<'_>,
        from: Option<Millis>,
        count: u32,
    ) -> Result<Outcome, Error> {
        self.rule(rule)?;
        let times = match rule {
            AskedRule::Every { ms } => {
                Times::of_grid(*ms, from.unwrap_or_else(|| self.now.ceil().plus(*ms)))
            }
            AskedRule::Cron { pattern, zone } => {
                let zone = self.zone(zone)?;
                Times::of_pattern(pattern.clone(), zone, from.unwrap_or_default())
            }
        };
        let after = match from {
            Some(from) => Millis(from.0.saturating_sub(1)),
            None => self.now.floor(),
        };
        let all = std::iter::successors(times.next(after), |one| times.next(one.nominal));
        let shown = |at: Millis| times.show(at).map(|shown| (at, shown));
        let all = all.take(count as usize).map_while(|coming| shown(coming.nominal));
        let rows: Vec<(Millis, String)> = all.collect();
        if let (AskedRule::Cron { pattern, .. }, []) = (rule, &rows[..]) {
            let pattern = Shown::new(pattern.text().as_bytes());
            return Err(Error::text(format!("ERR cron {pattern} never occurs")));
        }
        Ok(self.reply(Reply::Explained(&rows)))
    }

    pub(super) fn list_zones(&mut self, pattern: Option<&[u8]>) -> Result<Outcome, Error> {
        let names = self.live.zones.names().map(str::as_bytes);
        let fits = |name: &&[u8]| pattern.is_none_or(|pattern| glob::matches(pattern, name));
        let names: Vec<&[u8]> = names.filter(fits).collect();
        self.turn.outbox.reply(self.client, Reply::Names(&names));
        Ok(Outcome::Replied)
    }
}
