//! Changes of schedules: facts about them, applied, with all that follows from them.

use crate::engine::model::fact::Fact;
use crate::engine::model::request::{JobState, Side};
use crate::engine::model::schedule::ScheduleCounts;
use crate::engine::model::token;
use crate::engine::store::jobs::JobIndex;
use crate::engine::store::queue::{NEVER, Queue, place_of};
use crate::engine::store::ready::side_of;
use crate::engine::store::schedules::{NO_OFFSET, Schedule, Schedules};
use crate::engine::store::snapshot::record;
use crate::engine::store::{Located, Store};
use crate::ids::{PolicyNo, QueueNo, ScheduleNo};
use crate::limits::{HELD_COUNTED_MAX, HELD_RETRY_MS, OPEN_MAX};
use crate::time::Millis;

/// A database's counts of the schedules of a queue.
#[derive(Clone, Copy)]
struct ScheduleTally {
    /// Active, paused and done ones.
    counts: [u64; 3],
    held: u64,
    /// When work on the first of them is due.
    wake: Millis,
}

impl ScheduleTally {
    const NONE: ScheduleTally = ScheduleTally { counts: [0; 3], held: 0, wake: NEVER };
}

/// A job that a schedule makes.
struct Occurrence {
    at: Millis,
    due: Millis,
    policy: PolicyNo,
    priority: u8,
    enters: Side,
}

impl Store {
    pub fn schedule(&self, queue: QueueNo, number: ScheduleNo) -> &Schedule {
        let schedules = self.queue(queue).schedules.as_deref();
        schedules.and_then(|all| all.get(number)).expect("the schedule's number is bound")
    }

    pub fn find_schedule(&self, queue: QueueNo, name: &[u8]) -> Option<&Schedule> {
        self.queue(queue).schedules.as_deref()?.find(name)
    }

    /// The first schedule of a queue with work due by `now`.
    pub fn due_schedule(&self, queue: QueueNo, now: Millis) -> Option<ScheduleNo> {
        let schedules = self.queue(queue).schedules.as_deref()?;
        schedules.due(now).map(|schedule| schedule.number)
    }

    /// The place of the occurrence with this id, if it is delayed, ready or leased.
    pub fn open_occurrence(&self, queue: QueueNo, id: &[u8]) -> Option<(JobState, Located)> {
        let at = self.locate(queue, id);
        let state = self.jobs().get(at.index?).stage.state()?;
        (state != JobState::Dead).then_some((state, at))
    }

    /// The place of the occurrence that a fact is about.
    pub(in crate::engine::store) fn occurrence_of(&self, fact: &Fact<'_>) -> Option<Located> {
        let at = match *fact {
            Fact::Occurred { nominal, .. } => nominal,
            Fact::Ran { at, .. } | Fact::GaveWay { at, .. } => at,
            _ => return None,
        };
        let (queue, number) = fact.schedule()?;
        Some(self.locate(queue, &self.schedule(queue, number).id_at(at)))
    }

    /// Applies a fact about a schedule; the job that was added, if one was.
    pub(in crate::engine::store) fn apply_scheduling(
        &mut self,
        fact: &Fact<'_>,
        located: Located,
        now: Millis,
    ) -> Option<JobIndex> {
        let (queue, number) = fact.schedule().expect("a fact about a schedule");
        match *fact {
            Fact::Scheduled { .. } => self.set_schedule(fact, now),
            Fact::Unscheduled { .. } => self.remove_schedule(queue, number),
            Fact::Occurred { nominal, due, offset_s, policy, priority, left, next, .. } => {
                let enters = side_of(left);
                let made = Occurrence { at: nominal, due, policy, priority, enters };
                let index = self.make_occurrence(queue, number, made, located, now);
                self.change_schedule(queue, number, |schedule| {
                    schedule.come_due(nominal, offset_s, next);
                    (schedule.last, schedule.made_at) = (nominal, now);
                    schedule.outcomes.made += 1;
                });
                return Some(index);
            }
            Fact::Ran { at, due, policy, priority, left, .. } => {
                let enters = side_of(left);
                let made = Occurrence { at, due, policy, priority, enters };
                return Some(self.make_occurrence(queue, number, made, located, now));
            }
            Fact::Passed { nominal, offset_s, missed, skipped, next, .. } => {
                self.change_schedule(queue, number, |schedule| {
                    schedule.come_due(nominal, offset_s, next);
                    schedule.outcomes.missed += missed;
                    schedule.outcomes.skipped += skipped;
                });
            }
            Fact::GaveWay { .. } => {
                let index = located.index.expect("an occurrence that gives way is there");
                self.drop_job(queue, index, Millis(0), now);
                self.queue_mut(queue).totals.deleted += 1;
                self.change_schedule(queue, number, |schedule| schedule.outcomes.replaced += 1);
            }
            Fact::SchedulePaused { pause, after, next, .. } => {
                self.change_schedule(queue, number, |schedule| {
                    schedule.set_pause(pause);
                    schedule.set_next(after, next);
                    schedule.made_from = NEVER;
                });
            }
            Fact::ScheduleMoved { after, next, .. } => {
                self.change_schedule(queue, number, |schedule| {
                    schedule.set_next(after, next);
                    (schedule.made_from, schedule.stuck) = (NEVER, false);
                });
            }
            _ => unreachable!("a fact about a schedule"),
        }
        if let Fact::Scheduled { .. }
        | Fact::Unscheduled { .. }
        | Fact::SchedulePaused { .. }
        | Fact::ScheduleMoved { .. } = fact
        {
            self.release_schedules(queue);
        }
        None
    }

    fn set_schedule(&mut self, fact: &Fact<'_>, now: Millis) {
        let &Fact::Scheduled {
            queue,
            schedule: number,
            name,
            body,
            ref definition,
            anchor,
            after,
            next,
        } = fact
        else {
            unreachable!("called for a schedule that is set")
        };
        let base = self.bases.number();
        self.change_schedules(queue, Some(number), |schedules| {
            let mut schedule = schedules.take(number).unwrap_or_else(|| {
                // Too young for a base file that is being written.
                Box::new(Schedule {
                    number,
                    name: name.into(),
                    imaged: base,
                    ..Schedule::default()
                })
            });
            if !schedule.definition.times_alike(definition) {
                schedule.offset_s = NO_OFFSET;
            }
            schedule.definition.clone_from(definition);
            if *schedule.body != *body {
                schedule.body = body.into();
            }
            schedule.anchor = anchor;
            schedule.set_next(after, next);
            (schedule.changed, schedule.stuck, schedule.made_from) = (now, false, NEVER);
            schedules.put(schedule);
        });
    }

    fn remove_schedule(&mut self, queue: QueueNo, number: ScheduleNo) {
        self.change_schedules(queue, Some(number), |schedules| {
            schedules.take(number).expect("the schedule's number is bound");
        });
    }

    fn make_occurrence(
        &mut self,
        queue: QueueNo,
        number: ScheduleNo,
        made: Occurrence,
        located: Located,
        now: Millis,
    ) -> JobIndex {
        assert!(located.index.is_none(), "the id of an occurrence is free");
        let schedule = self.schedule(queue, number);
        let id = schedule.id_at(made.at);
        // Copied out: the job's data is in slots of its size.
        let (body, terms) = (schedule.body.clone(), schedule.definition.terms());
        let (group, meta) = (terms.group.clone(), terms.meta.clone());
        let how = (made.policy, made.priority, located.hash);
        let content = self.content(queue, &id, group.get(), meta.get(), &body);
        let index = self.enter_job(queue, content, how, now);
        self.queue_mut(queue).generated_form |= id.len() == token::ID_BYTES;
        self.make_ready(queue, index, made.enters, made.due, now);
        // Only those stay known that are open by now.
        let schedule = self.schedule(queue, number);
        let is_open = |at: &Millis| self.open_occurrence(queue, &schedule.id_at(*at)).is_some();
        let open: Vec<Millis> = schedule.recent.iter().copied().filter(is_open).collect();
        let newest = &open[open.len().saturating_sub(OPEN_MAX - 1)..];
        let recent = newest.iter().copied().chain([made.at]).collect();
        self.change_schedule(queue, number, |schedule| schedule.recent = recent);
        index
    }

    fn change_schedule(
        &mut self,
        queue: QueueNo,
        number: ScheduleNo,
        change: impl FnOnce(&mut Schedule),
    ) {
        self.change_schedules(queue, Some(number), |schedules| schedules.change(number, change));
    }

    /// Changes the schedules of a queue, of which `number` may look different in a base file then; with all that
    /// follows from them.
    pub(in crate::engine::store) fn change_schedules<R>(
        &mut self,
        queue: QueueNo,
        number: Option<ScheduleNo>,
        change: impl FnOnce(&mut Schedules) -> R,
    ) -> R {
        let image_bytes = |queue: &Queue| {
            let schedules = queue.schedules.as_deref();
            let of = number.and_then(|number| schedules?.get(number));
            of.map_or(0, record::schedule_bytes)
        };
        let before = image_bytes(self.queue(queue));
        let (db, _) = place_of(queue);
        let before_tally = self.queue(queue).schedule_tally();
        let mut result = None;
        self.change_own(queue, |queue| {
            let schedules = queue.schedules.get_or_insert_default();
            result = Some(change(schedules));
            if schedules.is_empty() && schedules.made + schedules.missed == 0 {
                queue.schedules = None;
            }
        });
        let after = image_bytes(self.queue(queue));
        let queue_ref = self.queue_mut(queue);
        queue_ref.image_bytes = queue_ref.image_bytes + after - before;
        let after_tally = queue_ref.schedule_tally();
        let database = &mut self.databases[db];
        database.image_bytes = database.image_bytes + after - before;
        self.move_schedule_tally(queue, before_tally, after_tally);
        if after_tally.wake != NEVER {
            self.wake_by(queue, self.queue(queue).schedule_wake());
        }
        result.expect("it was changed")
    }

    /// A database's counts of the schedules of a queue changed from this to that.
    fn move_schedule_tally(&mut self, queue: QueueNo, before: ScheduleTally, after: ScheduleTally) {
        let database = &mut self.databases[place_of(queue).0];
        let counts = database.schedules.iter_mut().zip(before.counts).zip(after.counts);
        counts.for_each(|((all, before), after)| *all = *all + after - before);
        database.schedules_held = database.schedules_held + after.held - before.held;
        if before.wake != after.wake {
            database.schedule_wakes.remove(&(before.wake, queue));
            if after.wake != NEVER {
                database.schedule_wakes.insert((after.wake, queue));
            }
        }
    }

    /// A due occurrence cannot be made: it is retried a second later, or when a change may allow it.
    pub fn hold_schedules(&mut self, queue: QueueNo, now: Millis) {
        let before = self.queue(queue).schedule_tally();
        let Some(schedules) = self.queue_mut(queue).schedules.as_deref_mut() else { return };
        schedules.held = Some(now.plus(HELD_RETRY_MS));
        schedules.was_held = true;
        schedules.holds += 1;
        // A queue that is full and busy is tried with each job that leaves.
        if schedules.held_count == 0 || schedules.held_counted.plus(HELD_RETRY_MS) <= now {
            schedules.held_counted = now;
            schedules.held_count = schedules.due_count(now);
            let after = self.queue(queue).schedule_tally();
            self.move_schedule_tally(queue, before, after);
        }
    }

    /// A held occurrence may be possible now, or another one be first: try it.
    pub(in crate::engine::store) fn release_schedules(&mut self, queue: QueueNo) {
        let Some(schedules) = self.queue_mut(queue).schedules.as_deref_mut() else { return };
        if schedules.held.take().is_some() {
            let wake = schedules.first_wake();
            self.wake_by(queue, wake);
        }
    }

    /// Nothing is due any more.
    pub fn note_none_held(&mut self, queue: QueueNo) {
        let before = self.queue(queue).schedule_tally();
        let Some(schedules) = self.queue_mut(queue).schedules.as_deref_mut() else { return };
        (schedules.was_held, schedules.held, schedules.held_count) = (false, None, 0);
        if before.held > 0 {
            let after = self.queue(queue).schedule_tally();
            self.move_schedule_tally(queue, before, after);
        }
    }

    pub(in crate::engine::store) fn uncount_schedules(&mut self, queue: QueueNo) {
        let before = self.queue(queue).schedule_tally();
        self.move_schedule_tally(queue, before, ScheduleTally::NONE);
    }

    /// How many there are, whatever they do.
    pub fn schedule_total(&self) -> u64 {
        self.used().iter().map(|db| db.schedules.iter().sum::<u64>()).sum()
    }

    pub fn schedule_counts(&self) -> ScheduleCounts {
        let count = |class: usize| self.used().iter().map(|db| db.schedules[class]).sum::<u64>();
        let held = self.used().iter().map(|db| db.schedules_held).sum::<u64>();
        let wakes = self.used().iter().filter_map(|db| db.schedule_wakes.first());
        let [active, paused, done] = [0, 1, 2].map(count);
        ScheduleCounts {
            active: active.saturating_sub(held),
            paused,
            held: held.min(active),
            done,
            next_due: wakes.map(|(at, _)| *at).min(),
        }
    }

    /// The rule of a schedule means nothing by the tables there are: it waits for others.
    pub fn set_schedule_stuck(&mut self, queue: QueueNo, number: ScheduleNo) {
        self.change_schedule(queue, number, |schedule| schedule.stuck = true);
    }

    /// Its rule means the same again by the tables that came: it goes on with the instant it had.
    pub fn set_schedule_unstuck(&mut self, queue: QueueNo, number: ScheduleNo) {
        self.change_schedule(queue, number, |schedule| {
            (schedule.made_from, schedule.stuck) = (NEVER, false);
        });
    }

    /// Its due occurrences from `from` on are caught up, in this spell of work.
    pub fn make_up_from(
        &mut self,
        queue: QueueNo,
        number: ScheduleNo,
        from: Option<Millis>,
        spells: u64,
    ) {
        let schedules = self.queue_mut(queue).schedules.as_deref_mut();
        let Some(schedules) = schedules else { return };
        let spell = schedules.spell(spells);
        if let Some(schedule) = schedules.get_mut(number) {
            (schedule.made_from, schedule.settled_in) = (from.unwrap_or(NEVER), spell);
        }
    }

    /// Puts a schedule there that was read from a base file; none if its name or number is taken.
    pub(in crate::engine::store) fn restore_schedule(
        &mut self,
        queue: QueueNo,
        schedule: Schedule,
    ) -> Option<()> {
        let number = schedule.number;
        let all = self.queue(queue).schedules.as_deref();
        let is_taken = |all: &Schedules| all.get(number).or(all.find(&schedule.name)).is_some();
        if all.is_some_and(is_taken) {
            return None;
        }
        self.change_schedules(queue, Some(number), |schedules| schedules.put(Box::new(schedule)));
        Some(())
    }
}

impl Queue {
    fn schedule_tally(&self) -> ScheduleTally {
        self.schedules.as_deref().map_or(ScheduleTally::NONE, |schedules| ScheduleTally {
            counts: schedules.counts,
            held: schedules.held_count + schedules.stuck,
            wake: schedules.first_wake(),
        })
    }

    /// When something would be done about its schedules if nothing was held; `NEVER` if nothing would.
    pub fn first_schedule_wake(&self) -> Millis {
        self.schedules.as_deref().map_or(NEVER, Schedules::first_wake)
    }

    /// When work on its schedules is due; `NEVER` for none.
    pub fn schedule_wake(&self) -> Millis {
        self.schedules.as_deref().map_or(NEVER, Schedules::wake)
    }
}

impl Schedules {
    fn get_mut(&mut self, number: ScheduleNo) -> Option<&mut Schedule> {
        self.by_number.get_mut(&number).map(|schedule| &mut **schedule)
    }

    /// Takes one out of all that counts and times it.
    fn take(&mut self, number: ScheduleNo) -> Option<Box<Schedule>> {
        let schedule = self.by_number.remove(&number)?;
        self.by_name.remove(&schedule.name);
        self.wakes.remove(&(schedule.wake(), number));
        self.bytes -= schedule.memory_bytes();
        self.counts[schedule.class() as usize] -= 1;
        self.stuck -= u64::from(schedule.is_held_stuck());
        Some(schedule)
    }

    /// Changes a schedule, except for its name, body and definition.
    fn change(&mut self, number: ScheduleNo, change: impl FnOnce(&mut Schedule)) {
        let schedule = self.by_number.get_mut(&number).expect("the schedule's number is bound");
        let (wake, class, before) = (schedule.wake(), schedule.class(), schedule.outcomes);
        let was_stuck = u64::from(schedule.is_held_stuck());
        change(schedule);
        let (wake_after, class_after) = (schedule.wake(), schedule.class());
        self.stuck = self.stuck + u64::from(schedule.is_held_stuck()) - was_stuck;
        self.made += schedule.outcomes.made - before.made;
        self.missed += schedule.outcomes.missed - before.missed;
        self.counts[class as usize] -= 1;
        self.counts[class_after as usize] += 1;
        if wake != wake_after {
            self.wakes.remove(&(wake, number));
            if wake_after != NEVER {
                self.wakes.insert((wake_after, number));
            }
        }
    }

    fn put(&mut self, schedule: Box<Schedule>) {
        let (number, wake) = (schedule.number, schedule.wake());
        self.bytes += schedule.memory_bytes();
        self.counts[schedule.class() as usize] += 1;
        self.stuck += u64::from(schedule.is_held_stuck());
        if wake != NEVER {
            self.wakes.insert((wake, number));
        }
        self.by_name.insert(std::sync::Arc::clone(&schedule.name), number);
        self.by_number.insert(number, schedule);
    }

    /// Notes that the image of a schedule is written; false without one, or if that was done.
    pub(in crate::engine::store) fn note_imaged(&mut self, number: ScheduleNo, base: u32) -> bool {
        let schedule = self.get_mut(number);
        schedule.is_some_and(|schedule| std::mem::replace(&mut schedule.imaged, base) != base)
    }

    fn due_count(&self, now: Millis) -> u64 {
        let due = self.wakes.range(..=(now, ScheduleNo(u64::MAX)));
        due.take(HELD_COUNTED_MAX).count() as u64
    }
}
