//! What comes due of schedules: each fact is checked for being allowed by the rule in force, then the model follows.
//!
//! Every nominal instant is told of once, as made, missed or skipped: a fact goes from `after` on over all that the
//! rule has up to the instant it names, and tells how many those are.

use delayd::engine::model::fact::Fact;
use delayd::engine::model::policy::Policy;
use delayd::engine::model::queue_settings::Pause;
use delayd::engine::model::request::{JobState, Request};
use delayd::engine::model::schedule::{Coming, Overlap, Scheduling};
use delayd::ids::PolicyNo;
use delayd::time::Millis;

use crate::simulation::auditor::{Check, Input};
use crate::simulation::model::{ModelJob, ModelQueue, QueueKey};
use crate::simulation::schedules::{ModelSchedule, known};
use crate::simulation::trace::{Kept, keep};

/// Who was away longer than this, ms, has to settle anew what is made up for.
const STANDSTILL_MS: u64 = 1_000;

impl ModelQueue {
    pub fn schedule_of(&mut self, number: u64) -> &mut ModelSchedule {
        let found = self.schedules.values_mut().find(|schedule| schedule.number == number);
        found.expect("a fact names a schedule that is there")
    }
}

/// What an occurrence is made with.
pub struct Made {
    pub at: u64,
    pub due: u64,
    pub policy: PolicyNo,
    pub priority: u8,
    pub left: bool,
}

impl Check<'_> {
    /// A fact about a schedule.
    pub fn schedule_fact(&mut self, fact: &Fact<'_>) {
        let (queue, number) = fact.schedule().expect("it is about one");
        let key = self.model().numbers[&queue.0];
        match *fact {
            Fact::Scheduled { .. } | Fact::Unscheduled { .. } | Fact::Ran { .. } => {
                self.decide_once();
                self.set_fact(key, fact);
            }
            Fact::Occurred { nominal, due, offset_s, policy, priority, left, next, .. } => {
                self.occurred(key, number.0, Coming { nominal, due }, offset_s, next);
                let made = Made { at: nominal.0, due: due.0, policy, priority, left };
                self.make(key, number.0, &made);
            }
            Fact::Passed { nominal, offset_s, missed, skipped, next, .. } => {
                self.passed(key, number.0, nominal.0, [missed, skipped]);
                let timing_next = self.coming_after(key, number.0, nominal.0);
                assert_eq!(next, timing_next, "what comes behind {nominal:?}");
                self.check_offset(key, number.0, nominal.0, offset_s);
                self.model().queue(key).schedule_of(number.0).came(nominal.0, offset_s, next);
            }
            Fact::GaveWay { at, .. } => self.gave_way(key, number.0, at.0),
            Fact::SchedulePaused { pause, after, next, .. } => {
                let (now, tables) = (self.step.now, self.tables());
                let of = self.model().queue(key).schedule_of(number.0);
                let over = of.pause != Pause::None && !of.pause.is_on(now);
                if over && pause == Pause::None && of.timing(tables).is_some() {
                    self.pause_over(key, number.0, known(after), next);
                } else {
                    self.decide_once();
                    self.suspended(key, number.0, pause, (known(after), next));
                }
            }
            Fact::ScheduleMoved { after, next, .. } => {
                self.moved(key, number.0, known(after), next)
            }
            _ => unreachable!("a fact about a schedule"),
        }
        let now = self.now().0;
        self.model().queue(key).used = now;
    }

    pub fn tables(&self) -> usize {
        self.auditor.tables
    }

    /// What the rule has behind this instant.
    fn coming_after(&mut self, key: QueueKey, number: u64, after: u64) -> Option<Coming> {
        let tables = self.tables();
        let schedule = self.model().queue(key).schedule_of(number);
        schedule.timing(tables).expect("its zone is known").after(after)
    }

    fn check_offset(&mut self, key: QueueKey, number: u64, at: u64, offset_s: i32) {
        let tables = self.tables();
        let schedule = self.model().queue(key).schedule_of(number);
        let timing = schedule.timing(tables).expect("its zone is known");
        assert_eq!(offset_s, timing.offset_s(at), "what the clocks show at {at}");
    }

    /// Time passes for this schedule: those before it have come.
    fn pass_to(&mut self, key: QueueKey, number: u64) {
        self.work += 1;
        let (now, tables) = (self.now().0, self.tables());
        let looks_through = self.auditor.looks_through;
        let queue = self.model().queue(key);
        let own = queue.schedule_of(number).wake().expect("something is to be done about it");
        assert!(own <= now, "something is done about number {number} early, at {now}");
        let first = queue.first_schedule(tables, looks_through);
        let in_order = first.is_none_or(|(at, first)| (own, number) <= (at, first.number));
        assert!(in_order, "those that come first come first: {first:?} before number {number}");
        assert!(!self.in_transaction(), "time passed in a transaction");
    }

    /// After a standstill what is made up for is settled anew.
    pub fn note_standstill(&mut self) {
        let now = self.now().0;
        if now.saturating_sub(self.auditor.advanced) > STANDSTILL_MS {
            let queues = self.model().queues.values_mut();
            let schedules = queues.flat_map(|queue| queue.schedules.values_mut());
            schedules.for_each(|schedule| schedule.making_up = None);
        }
    }

    fn occurred(
        &mut self,
        key: QueueKey,
        number: u64,
        came: Coming,
        offset_s: i32,
        next: Option<Coming>,
    ) {
        self.pass_to(key, number);
        let (now, tables) = (self.now().0, self.tables());
        let nominal = came.nominal.0;
        let schedule = self.model().queue(key).schedule_of(number).clone();
        assert_eq!(schedule.pause, Pause::None, "{schedule:?} is paused");
        assert_eq!(schedule.next, Some(came), "what was to come of {schedule:?}");
        assert!(came.due.0 <= now, "{schedule:?} comes early, at {now}");
        let timing = schedule.timing(tables).expect("its zone is known");
        assert!(timing.is_nominal(nominal), "{nominal} is no instant of {schedule:?}");
        assert_eq!(timing.due(nominal), came.due.0, "the due time of {nominal}");
        assert_eq!(timing.count(schedule.after, nominal), 1, "one after the other: {schedule:?}");
        let newest_made = schedule.last.map_or(0, |last| last.0.0);
        assert!(nominal > newest_made, "{nominal} is made twice: {schedule:?}");
        assert_eq!(self.not_admitted(key, 1), None, "{key:?} takes no occurrence");
        assert!(!schedule.is_used_up(), "RUNS of {schedule:?}");
        let queue = self.model().queue(key);
        match schedule.definition.terms().overlap {
            Overlap::Allow => {}
            Overlap::Skip => {
                assert!(schedule.open(queue).next().is_none(), "{schedule:?} overlaps")
            }
            Overlap::Replace => {
                assert!(schedule.waiting(queue).next().is_none(), "{schedule:?} replaces");
            }
        }
        self.make_up(key, number, nominal);
        self.check_offset(key, number, nominal, offset_s);
        let behind = self.coming_after(key, number, nominal);
        let queue = self.model().queue(key);
        queue.made += 1;
        let schedule = queue.schedule_of(number);
        schedule.outcomes.made += 1;
        schedule.last = Some((Millis(nominal), Millis(now)));
        let wanted = if schedule.is_used_up() { None } else { behind };
        assert_eq!(next, wanted, "what comes behind {nominal} of {schedule:?}");
        schedule.came(nominal, offset_s, next);
        self.auditor.note("occurred");
    }

    /// An instant comes that may be one of several that are made up for: of those that were due when that began, no
    /// more than CATCHUP.
    fn make_up(&mut self, key: QueueKey, number: u64, nominal: u64) {
        let (now, tables) = (self.now().0, self.tables());
        let schedule = self.model().queue(key).schedule_of(number);
        let timing = schedule.timing(tables).expect("its zone is known");
        let newest = timing.newest_due(now).unwrap_or(0).max(nominal);
        let catchup = u64::from(schedule.definition.terms().catchup);
        let due = timing.count(nominal - 1, newest);
        let (upto, left) = schedule.making_up.unwrap_or((newest, catchup));
        assert!(schedule.making_up.is_some() || due <= catchup, "{due} at once of {schedule:?}");
        assert!(nominal > upto || left > 0, "more than CATCHUP is made up for: {schedule:?}");
        let left = if nominal > upto { left } else { left - 1 };
        schedule.making_up = (nominal < newest).then_some((upto, left));
        if due > 1 {
            self.auditor.note("made up for");
        }
    }

    /// Enters the job of an occurrence.
    pub fn make(&mut self, key: QueueKey, number: u64, made: &Made) {
        let schedule = self.model().queue(key).schedule_of(number).clone();
        let (set, now) = (self.settings_of(key), self.now().0);
        let options = schedule.definition.terms().options.clone();
        let wanted = Policy {
            attempts: options.attempts.or(set.attempts).unwrap_or(20),
            backoff: options.backoff.or(set.backoff).unwrap_or_default(),
            lease_ms: options.lease_ms.unwrap_or(0),
            ttl_ms: options.ttl_ms.or(set.ttl_ms).unwrap_or(0),
            unique_ms: 0,
        };
        assert_eq!(self.model().policies.get(&made.policy.0), Some(&wanted), "the policy");
        assert_eq!(made.priority, options.priority.or(set.priority).unwrap_or(5));
        let id = schedule.id_at(made.at);
        let (serial, step) = (self.model().serial(), self.auditor.steps);
        let queue = self.model().queue(key);
        assert_eq!(made.left, queue.due_left(), "where it enters");
        assert!(!queue.takes_id(id), "{id:?} is taken");
        let (due, priority, place) = (made.due, made.priority, queue.give_place(made.left));
        queue.totals.added += 1;
        // One that is made up for stands behind jobs that were due later.
        queue.pushed |= due < now;
        let meta = keep(schedule.definition.meta().block());
        let group = keep(schedule.definition.group().unwrap_or_default());
        let job = ModelJob { group, meta, ..ModelJob::new(id, schedule.body, serial, now, wanted) };
        let ready_step = step;
        queue.put(ModelJob { state: JobState::Ready, due, priority, place, ready_step, ..job });
        let mut noted = schedule;
        noted.note_made(made.at, queue);
        let open = noted.waiting(queue).count();
        let replaces = noted.definition.terms().overlap == Overlap::Replace;
        assert!(!replaces || open == 1, "{open} wait of {noted:?}");
        queue.schedules.insert(noted.name, noted);
    }

    /// Nominal instants up to this one are passed over: so many, and for a reason.
    fn passed(&mut self, key: QueueKey, number: u64, nominal: u64, [missed, skipped]: [u64; 2]) {
        let by_request = self.is_suspending(key, number);
        if !by_request {
            self.pass_to(key, number);
        }
        let (now, tables) = (self.now().0, self.tables());
        let schedule = self.model().queue(key).schedule_of(number).clone();
        assert_eq!(schedule.pause, Pause::None, "{schedule:?} is paused");
        let coming = schedule.next.expect("something was to come");
        let timing = schedule.timing(tables).expect("its zone is known");
        assert!(coming.due.0 <= now && nominal >= coming.nominal.0, "passed over early");
        let newest = timing.newest_due(now).unwrap_or(0).max(coming.nominal.0);
        assert!(nominal <= newest, "{nominal} is passed over before it is due: {schedule:?}");
        // What tables said before may be no instant by these, and the first by these may have come.
        let count = match self.auditor.looks_through {
            true => timing.count(coming.nominal.0 - 1, nominal).max(1),
            false => timing.count(schedule.after, nominal),
        };
        assert_eq!(missed + skipped, count, "each is told of: up to {nominal} of {schedule:?}");
        if skipped > 0 {
            self.check_skipped(key, &schedule, nominal, [missed, skipped]);
            self.make_up(key, number, nominal);
        } else {
            let grace_ms = schedule.definition.terms().grace_ms;
            let late = grace_ms > 0 && timing.due(nominal) + grace_ms < now;
            let catchup = u64::from(schedule.definition.terms().catchup);
            let left = timing.count(nominal, newest);
            let all = by_request && nominal == newest;
            assert!(late || left == catchup || all, "{nominal} is missed: {schedule:?}");
            assert!(all || self.obstacle(key, &schedule).is_none(), "{key:?} takes no occurrence");
            let schedule = self.model().queue(key).schedule_of(number);
            // What is too late leaves the others to what was settled.
            let settled = (left == catchup).then_some((newest, catchup));
            schedule.making_up = settled.or(schedule.making_up);
            self.auditor.note(if all { "missed by request" } else { "missed" });
        }
        let queue = self.model().queue(key);
        queue.missed += missed;
        let outcomes = &mut queue.schedule_of(number).outcomes;
        outcomes.missed += missed;
        outcomes.skipped += skipped;
    }

    fn check_skipped(&mut self, key: QueueKey, of: &ModelSchedule, nominal: u64, told: [u64; 2]) {
        assert_eq!(told, [0, 1], "they are skipped one by one");
        assert_eq!(of.next.map(|next| next.nominal.0), Some(nominal));
        assert_eq!(self.obstacle(key, of), None, "{key:?} takes no occurrence");
        let queue = self.queue(key);
        let overlaps = of.definition.terms().overlap == Overlap::Skip;
        let overlaps = overlaps && of.open(queue).next().is_some();
        let taken = queue.takes_id(of.id_at(nominal));
        assert!(taken || overlaps, "{nominal} is skipped: {of:?}");
        self.auditor.note(if overlaps { "skipped: open" } else { "skipped: id taken" });
    }

    pub fn queue(&self, key: QueueKey) -> &ModelQueue {
        &self.auditor.model.queues[&key]
    }

    /// Whether the request ends what is due of this schedule: it pauses it, or gives it other times.
    fn is_suspending(&self, key: QueueKey, number: u64) -> bool {
        let Input::Request { request: Request::Schedule(of), .. } = self.step.input else {
            return false;
        };
        let name = match of {
            Scheduling::Set(set) => set.name,
            Scheduling::Pause { name, .. } | Scheduling::Resume { name, .. } => name,
            _ => return false,
        };
        self.is_about(of, name, key, number)
    }

    fn is_about(&self, of: &Scheduling<'_>, name: &[u8], key: QueueKey, number: u64) -> bool {
        let named = of.queue().map(|queue| (queue.db.0, keep(queue.name)));
        let schedule = self.queue(key).schedules.get(name);
        named == Some(key) && schedule.is_some_and(|schedule| schedule.number == number)
    }

    /// Whether the job that gives way does so for RUN: all that wait do, and then it is made.
    fn is_run_of(&self, key: QueueKey, number: u64) -> bool {
        let Input::Request { request: Request::Schedule(of), .. } = self.step.input else {
            return false;
        };
        let Scheduling::Run { name, .. } = of else { return false };
        let mut facts = self.step.facts.iter().map(|fact| fact.expect("readable"));
        let ran = facts.any(|fact| matches!(fact, Fact::Ran { .. }));
        ran && self.is_about(of, name, key, number)
    }

    fn gave_way(&mut self, key: QueueKey, number: u64, at: u64) {
        let (now, tables) = (self.now().0, self.tables());
        let runs = self.is_run_of(key, number);
        if !runs {
            self.pass_to(key, number);
        }
        let schedule = self.model().queue(key).schedule_of(number).clone();
        assert_eq!(schedule.definition.terms().overlap, Overlap::Replace, "{schedule:?}");
        let queue = self.queue(key);
        let waiting: Vec<u64> = schedule.waiting(queue).collect();
        assert_eq!(waiting.first(), Some(&at), "the oldest gives way: {schedule:?}");
        assert_eq!(self.not_admitted(key, 0), None, "{key:?} takes no occurrence");
        if !runs {
            // What is held changes nothing: once all have given way there is room.
            let held = self.obstacle(key, &schedule);
            assert_eq!(held, None, "{at} gives way to nothing: {schedule:?}");
            let timing = schedule.timing(tables).expect("its zone is known");
            let coming = schedule.next.expect("something is to come");
            let newest = timing.newest_due(now).unwrap_or(0).max(coming.nominal.0);
            let catchup = u64::from(schedule.definition.terms().catchup);
            let due = timing.count(coming.nominal.0 - 1, newest);
            assert!(schedule.making_up.is_some() || due <= catchup, "{due} of {schedule:?}");
            let schedule = self.model().queue(key).schedule_of(number);
            schedule.making_up.get_or_insert((newest, catchup));
        }
        let id = schedule.id_at(at);
        let queue = self.model().queue(key);
        queue.take(id).expect("it is there");
        queue.totals.deleted += 1;
        queue.schedule_of(number).outcomes.replaced += 1;
        self.auditor.note("gave way");
    }

    /// A pause of its own is over: what comes from then on counts.
    fn pause_over(&mut self, key: QueueKey, number: u64, after: u64, next: Option<Coming>) {
        if !self.is_suspending(key, number) {
            self.pass_to(key, number);
        }
        let (tables, looks_through) = (self.tables(), self.auditor.looks_through);
        let schedule = self.model().queue(key).schedule_of(number);
        let Pause::Until(end) = schedule.pause else { unreachable!("it had an end") };
        let timing = schedule.timing(tables).expect("its zone is known");
        let behind = timing.after_due(after, end.0);
        let changed = looks_through || schedule.is_used_up();
        assert!(behind == next || changed, "a pause is not made up for: {schedule:?}");
        assert_eq!(next, schedule.next, "{schedule:?} goes on with what was to come");
        schedule.pause = Pause::None;
        schedule.goes_on(end.0, after, next);
        self.auditor.note("a schedule's pause was over");
    }

    /// Other tables tell of another instant.
    fn moved(&mut self, key: QueueKey, number: u64, after: u64, next: Option<Coming>) {
        let (tables, looks_through) = (self.tables(), self.auditor.looks_through);
        assert!(looks_through && !self.in_transaction(), "moved by no tables");
        let schedule = self.model().queue(key).schedule_of(number);
        let timing = schedule.timing(tables).expect("its zone is known");
        let wanted = schedule.by_tables(&timing);
        assert_eq!((after, next), wanted, "what comes by the new tables of {schedule:?}");
        assert!(next != schedule.next || schedule.was_unknown, "{schedule:?} moves not");
        schedule.moved(after, next);
        schedule.was_unknown = false;
        self.auditor.note("moved by tables");
    }
}

impl ModelQueue {
    pub fn takes_id(&self, id: Kept) -> bool {
        self.jobs.contains_key(id) || self.windows.contains_key(id)
    }
}
