//! What a request about schedules must do and answer, from the model alone.

use delayd::engine::model::fact::Fact;
use delayd::engine::model::queue_settings::Pause;
use delayd::engine::model::request::Request;
use delayd::engine::model::schedule::{
    AskedRule, Coming, Definition, Overlap, Rule, ScheduleChange, ScheduleState, Scheduling,
    SetSchedule,
};
use delayd::ids::{QueueNo, ScheduleNo};
use delayd::time::Millis;

use crate::simulation::auditor::{Check, Input};
use crate::simulation::model::QueueKey;
use crate::simulation::occurring::Made;
use crate::simulation::schedules::{ModelSchedule, Timing, known};
use crate::simulation::timetable::clocks_of;
use crate::simulation::trace::{Kept, Said, ScheduleRow, ScheduleSeen, keep};

/// A pattern that comes on no day of any year.
pub const NEVER: &str = "0 0 30 2 *";

impl Check<'_> {
    pub fn decide_schedule(&mut self, of: &Scheduling<'static>) {
        let queue = of.queue().map(|queue| (queue.db.0, queue.name));
        let key = queue.unwrap_or_default();
        match *of {
            Scheduling::Set(ref set) => self.set_schedule(key, set),
            Scheduling::Delete { names, .. } => self.delete_schedules(key, names),
            Scheduling::Pause { name, for_ms, .. } => {
                let max_ms = self.step.settings.delay_ms_max;
                if for_ms.is_some_and(|ms| ms > max_ms) {
                    return self.refused("ERR FOR is ");
                }
                let end = for_ms.map(|ms| Millis(self.ceil() + ms));
                self.suspend(key, name, end.map_or(Pause::Endless, Pause::Until));
            }
            Scheduling::Resume { name, .. } => self.suspend(key, name, Pause::None),
            Scheduling::Run { name, force, .. } => self.run_schedule(key, name, force),
            Scheduling::Get { name, .. } => self.show_schedule(key, name),
            Scheduling::List { after, count, .. } => self.list_schedules(key, after, count),
            Scheduling::Next { name, count, .. } => self.next_of_schedule(key, name, count),
            Scheduling::Explain { ref rule, count, .. } => self.explain(rule, count),
            Scheduling::Zones { .. } => unreachable!("nobody asks for names of zones"),
        }
    }

    fn schedule(&self, key: QueueKey, name: Kept) -> Option<&ModelSchedule> {
        self.auditor.model.queues.get(&key)?.schedules.get(name)
    }

    /// What is kept of what is said; none if the tables do not know the zone.
    fn definition(&self, set: &SetSchedule<'static>) -> Option<Definition> {
        let rule = match &set.rule {
            AskedRule::Every { ms } => Rule::Every { ms: *ms },
            AskedRule::Cron { pattern, zone } => {
                let zone = std::str::from_utf8(zone).expect("text");
                let (zone, _) = clocks_of(self.auditor.tables, zone)?;
                Rule::Cron { pattern: pattern.text().into(), zone: zone.into() }
            }
        };
        Some(set.terms.clone().with(rule))
    }

    fn set_schedule(&mut self, key: QueueKey, set: &SetSchedule<'static>) {
        if let Some(error) = self.lease_error("LEASE", set.terms.options.lease_ms) {
            return self.refused(&error);
        }
        let Some(definition) = self.definition(set) else { return self.refused("ERR zone ") };
        let old = self.schedule(key, set.name).cloned();
        let same = old.as_ref().filter(|old| old.definition == definition && old.body == set.body);
        if let Some(old) = same {
            let next = old.next.map(|next| next.nominal);
            self.auditor.note("schedule: same");
            return self.reply = Some(Said::ScheduleSet(ScheduleChange::Same, next));
        }
        if matches!(&definition.rule, Rule::Cron { pattern, .. } if **pattern == *NEVER) {
            return self.refused("ERR cron ");
        }
        let Some(wanted) = self.as_set(set, definition, old.as_ref()) else {
            return self.refused("ERR schedule ");
        };
        if self.refused_for_memory() {
            return;
        }
        let change = if old.is_some() { ScheduleChange::Changed } else { ScheduleChange::Created };
        let note = if old.is_some() { "schedule: changed" } else { "schedule: created" };
        self.auditor.note(note);
        let next = wanted.next.map(|next| next.nominal);
        self.reply = Some(Said::ScheduleSet(change, next));
        self.to_schedule = Some((key, wanted));
    }

    /// The schedule once it is set; none if it is new and nothing would come of it.
    fn as_set(
        &self,
        set: &SetSchedule<'static>,
        definition: Definition,
        old: Option<&ModelSchedule>,
    ) -> Option<ModelSchedule> {
        let (now, ceil) = (self.now().0, self.ceil());
        let alike = old.filter(|old| old.definition.times_alike(&definition));
        let anchor = match definition.rule {
            Rule::Every { ms } if definition.terms().from == Millis(0) => {
                alike.map_or(ceil + ms, |old| old.anchor)
            }
            _ => definition.terms().from.0,
        };
        let fresh = ModelSchedule::new(set.name, definition.clone());
        let timing = Timing::of(&definition, set.name, anchor, self.auditor.tables)?;
        let mut after = old.map_or(0, |old| old.after);
        let until = definition.terms().until;
        let kept = alike.and_then(|old| old.next);
        let mut next = kept.filter(|next| next.nominal <= until);
        if kept.is_none() {
            // The first that is due after now, and after a pause that has an end.
            let end = match old.map(|old| old.pause) {
                Some(Pause::Until(end)) => end.0.max(now),
                _ => now,
            };
            after = after.max(timing.newest_due(now).unwrap_or(0));
            next = timing.after_due(after, end);
        }
        if old.is_none() && next.is_none() {
            return None;
        }
        let mut wanted = old.cloned().unwrap_or(fresh);
        if alike.is_none() {
            wanted.shown_s = None;
        }
        (wanted.body, wanted.definition, wanted.anchor) = (set.body, definition.clone(), anchor);
        let ends = wanted.pause == Pause::Endless || wanted.is_used_up();
        wanted.moved(after, next.filter(|_| !ends));
        (wanted.changed, wanted.was_unknown) = (now, false);
        Some(wanted)
    }

    /// A schedule was set, removed or run.
    pub fn set_fact(&mut self, key: QueueKey, fact: &Fact<'_>) {
        match *fact {
            Fact::Scheduled {
                schedule, name, body, ref definition, anchor, after, next, ..
            } => {
                let (of, mut wanted) = self.to_schedule.take().expect("only SET sets");
                assert_eq!((of, wanted.name, wanted.body), (key, name, body));
                assert_eq!(**definition, wanted.definition, "what is set");
                assert_eq!(anchor.0, wanted.anchor, "where the grid lies of {wanted:?}");
                assert_eq!(next, wanted.next, "what is to come of {wanted:?}");
                let now = self.now().0;
                wanted.goes_on(now, known(after), next);
                let schedules = &mut self.model().queue(key).schedules;
                let old = schedules.remove(wanted.name);
                let greater = || schedules.values().all(|other| other.number < schedule.0);
                assert!(old.map_or_else(greater, |old| old.number == schedule.0));
                wanted.number = schedule.0;
                schedules.insert(wanted.name, wanted);
            }
            Fact::Ran { schedule, at, due, policy, priority, left, .. } => {
                let (of, name) = self.to_run.take().expect("only RUN runs");
                let number = self.schedule(key, name).map(|schedule| schedule.number);
                assert_eq!((of, number), (key, Some(schedule.0)));
                assert_eq!(due, self.now(), "it is due at once");
                self.check_run_at(key, name, at.0);
                let made = Made { at: at.0, due: due.0, policy, priority, left };
                self.make(key, schedule.0, &made);
                let id = self.schedule(key, name).expect("it is there").id_at(at.0);
                self.reply = Some(Said::Id(id));
                self.auditor.note("run");
            }
            _ => {
                let expected = self.expected.pop_front();
                assert_eq!(expected.as_ref(), Some(fact), "expected by the model (left)");
            }
        }
    }

    /// The next ms that is free, and no instant of the rule.
    fn check_run_at(&self, key: QueueKey, name: Kept, at: u64) {
        let (now, tables) = (self.now().0, self.auditor.tables);
        let schedule = self.schedule(key, name).expect("it is there");
        let timing = schedule.timing(tables);
        let is_nominal = |at| timing.as_ref().is_some_and(|timing| timing.is_nominal(at));
        let queue = &self.auditor.model.queues[&key];
        assert!(at >= now && !is_nominal(at), "{at} of {schedule:?}");
        let last = schedule.recent.last().map_or(0, |last| last + 1);
        let first = if last > now + (1 << 20) { now } else { now.max(last) };
        let taken = |at: &u64| queue.takes_id(schedule.id_at(*at)) || is_nominal(*at);
        // Whoever took many ids makes it look farther.
        let free = (first..first + 8).find(|at| !taken(at)).unwrap_or(at);
        assert!(at == free || (first..at).any(|at| taken(&at)), "{at}, but {free} is free");
    }

    fn delete_schedules(&mut self, key: QueueKey, names: &[Kept]) {
        let mut count = 0;
        for name in names {
            let Some(queue) = self.model().queues.get_mut(&key) else { break };
            let Some(gone) = queue.schedules.remove(*name) else { continue };
            let (queue, schedule) = (QueueNo(queue.number), ScheduleNo(gone.number));
            self.expected.push_back(Fact::Unscheduled { queue, schedule });
            count += 1;
            self.auditor.note("schedule: removed");
        }
        self.reply = Some(Said::Integer(count));
    }

    fn suspend(&mut self, key: QueueKey, name: Kept, pause: Pause) {
        let Some(schedule) = self.schedule(key, name) else {
            return self.reply = Some(Said::Integer(0));
        };
        let number = schedule.number;
        if schedule.pause != pause {
            self.to_suspend = Some((key, number, pause));
            let note = if pause == Pause::None { "schedule: resumed" } else { "schedule: paused" };
            self.auditor.note(note);
        }
        self.reply = Some(Said::Integer(1));
    }

    /// A schedule was paused or resumed.
    pub fn suspended(
        &mut self,
        key: QueueKey,
        number: u64,
        pause: Pause,
        told: (u64, Option<Coming>),
    ) {
        assert_eq!(self.to_suspend.take(), Some((key, number, pause)), "what is paused");
        let (now, tables) = (self.now().0, self.auditor.tables);
        let looks_through = self.auditor.looks_through;
        let schedule = self.model().queue(key).schedule_of(number);
        let was_paused = schedule.pause != Pause::None;
        let timing = schedule.timing(tables);
        let due = timing.as_ref().map_or(now, |timing| timing.newest_due(now).unwrap_or(0));
        // Until it is looked through, what is due is so by the tables of before.
        let looked = !looks_through && timing.is_some();
        let counted = was_paused || !looked || schedule.next.is_none();
        assert!(counted || due <= schedule.after, "what is due is told of first: {schedule:?}");
        let after = if was_paused { schedule.after.max(due) } else { schedule.after };
        let at = Coming { nominal: Millis(told.0 + 1), due: Millis(told.0 + 1) };
        let next = match (&timing, pause) {
            (_, Pause::Endless) => None,
            _ if schedule.is_used_up() => None,
            (None, _) => schedule.next.or(Some(at)),
            (Some(timing), Pause::Until(end)) => timing.after_due(after, end.0),
            (Some(timing), Pause::None) => timing.after_due(after, now),
        };
        assert_eq!(told.1, next, "what is to come of {schedule:?}");
        assert!(told.0 >= after, "a pause is not made up for: {schedule:?}");
        let is_unknown = timing.is_none();
        schedule.was_unknown |= is_unknown;
        schedule.pause = pause;
        schedule.goes_on(now, told.0, next);
    }

    fn run_schedule(&mut self, key: QueueKey, name: Kept, force: bool) {
        let Some(schedule) = self.schedule(key, name) else {
            return self.refused("ERR no such schedule");
        };
        let queue = &self.auditor.model.queues[&key];
        let skips = schedule.definition.terms().overlap == Overlap::Skip && !force;
        if skips && schedule.open(queue).next().is_some() {
            return self.reply = Some(Said::Nil);
        }
        // Those that give way have done so by now.
        let gave = self.step.facts.iter().map(|fact| fact.expect("readable"));
        let gave = gave.filter(|fact| matches!(fact, Fact::GaveWay { .. })).count();
        let growth = if gave > 0 { 0 } else { schedule.growth(queue) };
        let bytes = schedule.data_bytes() + name.len() + 21;
        if let Some(error) = self.not_admitted(key, growth) {
            self.auditor.note("run refused");
            return self.refused(error);
        }
        if self.out_of_memory(bytes) {
            return;
        }
        self.to_run = Some((key, name));
    }

    fn show_schedule(&mut self, key: QueueKey, name: Kept) {
        let now = self.step.now;
        let Some(schedule) = self.schedule(key, name).cloned() else {
            return self.reply = Some(Said::NilArray);
        };
        let Input::Request { client, .. } = self.step.input else { unreachable!() };
        let Some(Said::Schedule(seen)) = self.answer_of(client) else { panic!("GET shows it") };
        self.replied_in_full();
        let queue = &self.auditor.model.queues[&key];
        let runs = u64::from(schedule.definition.terms().runs);
        let open = schedule.open(queue).map(|(at, _)| schedule.id_at(at)).collect();
        let wanted = ScheduleSeen {
            name,
            body: schedule.body,
            state: seen.state,
            definition: schedule.definition.clone(),
            runs_left: (runs > 0).then(|| runs.saturating_sub(schedule.outcomes.made)),
            changed: Millis(schedule.changed),
            next: schedule.next,
            last: schedule.last,
            last_id: schedule.recent.last().map(|at| schedule.id_at(*at)),
            open,
            pause: if schedule.pause.is_on(now) { schedule.pause } else { Pause::None },
            outcomes: schedule.outcomes,
        };
        assert_eq!(**seen, wanted, "GET shows (left) what there is");
        self.check_state(key, &schedule, seen.state);
        self.auditor.note("schedule: shown");
    }

    fn check_state(&self, key: QueueKey, of: &ModelSchedule, state: ScheduleState) {
        let now = self.now();
        let is_known = of.timing(self.auditor.tables).is_some();
        let waits = of.next.is_some_and(|next| next.due > now);
        let blocked = || self.obstacle(key, of);
        let right = match state {
            _ if of.pause.is_on(self.step.now) => state == ScheduleState::Paused,
            _ if of.next.is_none() => state == ScheduleState::Done,
            _ if !is_known => true,
            _ if waits => state == ScheduleState::Active,
            _ if blocked().is_some() => state == ScheduleState::Held,
            _ => matches!(state, ScheduleState::Active | ScheduleState::Held),
        };
        assert!(right, "{of:?} is {state:?}");
    }

    fn list_schedules(&mut self, key: QueueKey, after: Option<Kept>, count: u32) {
        let Input::Request { client, .. } = self.step.input else { unreachable!() };
        let Some(Said::Schedules(rows)) = self.answer_of(client) else { panic!("LIST has rows") };
        self.replied_in_full();
        let queue = self.auditor.model.queues.get(&key);
        let named = queue.into_iter().flat_map(|queue| queue.schedules.values());
        let named = named.filter(|one| after.is_none_or(|after| one.name > after));
        let wanted: Vec<&ModelSchedule> = named.take(count as usize).collect();
        assert_eq!(rows.len(), wanted.len(), "rows of LIST");
        for (row, of) in rows.iter().zip(wanted) {
            let row_of = ScheduleRow {
                name: of.name,
                state: row.state,
                rule: of.definition.rule.clone(),
                next: of.next.map(|next| next.nominal),
                last: of.last.map(|last| last.0),
            };
            assert_eq!(*row, row_of, "LIST shows (left) what there is");
            self.check_state(key, of, row.state);
        }
        self.auditor.note("schedules listed");
    }

    fn next_of_schedule(&mut self, key: QueueKey, name: Kept, count: u32) {
        let Some(schedule) = self.schedule(key, name) else {
            return self.refused("ERR no such schedule");
        };
        let runs = u64::from(schedule.definition.terms().runs);
        let left = if runs > 0 { runs.saturating_sub(schedule.outcomes.made) } else { u64::MAX };
        let timing = schedule.timing(self.auditor.tables);
        let after = |of: &Coming| timing.as_ref()?.after(of.nominal.0);
        let all = std::iter::successors(schedule.next, after).map(|next| next.nominal.0);
        self.reply = Some(Said::Counts(all.take(left.min(count.into()) as usize).collect()));
    }

    fn explain(&mut self, rule: &AskedRule<'static>, count: u32) {
        let (now, ceil) = (self.now().0, self.ceil());
        let Input::Request { client, request, .. } = self.step.input else { unreachable!() };
        let Request::Schedule(Scheduling::Explain { from, .. }) = *request else { unreachable!() };
        assert_eq!(from, None, "from now on");
        let (rule, anchor) = match rule {
            AskedRule::Every { ms } => (Rule::Every { ms: *ms }, ceil + ms),
            AskedRule::Cron { pattern, zone } => {
                let zone = std::str::from_utf8(zone).expect("text").into();
                (Rule::Cron { pattern: pattern.text().into(), zone }, 0)
            }
        };
        let definition = Definition::of(rule);
        let Some(timing) = Timing::of(&definition, b"", anchor, self.auditor.tables) else {
            return self.refused("ERR zone ");
        };
        if matches!(&definition.rule, Rule::Cron { pattern, .. } if **pattern == *NEVER) {
            return self.refused("ERR cron ");
        }
        let Some(Said::Explained(told)) = self.answer_of(client) else { panic!("no instants") };
        self.replied_in_full();
        let all = std::iter::successors(timing.after(now), |one| timing.after(one.nominal.0));
        let wanted: Vec<Millis> = all.take(count as usize).map(|one| one.nominal).collect();
        assert_eq!(*told, wanted, "EXPLAIN tells (left) what the rule has");
    }
}

/// Names in any case are found.
pub fn in_another_case(name: &str) -> Kept {
    keep(name.to_ascii_lowercase().as_bytes())
}
