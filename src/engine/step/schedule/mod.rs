//! The due occurrences of a queue's schedules: an occurrence is made, or its nominal instant is passed over. Each is
//! recorded exactly once.
//!
//! ```text
//! every 1m, CATCHUP 2, and nothing could be made from 10:01:30 to 10:06:10
//!    10:02  10:03  10:04   10:05  10:06 | now          10:07
//!    `-- missed: 3 ------'  `- made ---'               next
//! ```
//!
//! A *held* occurrence is not decided: no fact is made while the queue accepts no jobs, or without memory or journal
//! space. Its lateness is computed when it can be made.

pub mod times;
pub mod zones;

use crate::engine::journal_room::occurring_growth;
use crate::engine::model::fact::Fact;
use crate::engine::model::queue_settings::Pause;
use crate::engine::model::request::{JobState, QueueName, Side};
use crate::engine::model::schedule::{Coming, Miss, Obstacle, Overlap};
use crate::engine::step::Step;
use crate::engine::store::Located;
use crate::engine::store::schedules::{OccurrenceId, Schedule};
use crate::error::Error;
use crate::ids::{PolicyNo, QueueNo, ScheduleNo};
use crate::limits::{self, BODY_BYTES_PER_STEP, LATE_STEPS, OCCURRENCE_STEPS};
use crate::time::Millis;
use times::Times;
use zones::Looked;

/// A missed occurrence, for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missed {
    pub queue: Box<[u8]>,
    pub schedule: Box<[u8]>,
    pub count: u64,
    pub why: Miss,
    /// The nominal instant of the newest.
    pub newest: Millis,
}

/// Missed occurrences since the last report.
#[derive(Default, Debug)]
pub struct MissedNotes {
    /// The first [`MISSED_NOTED_MAX`](limits::MISSED_NOTED_MAX).
    pub noted: Vec<Missed>,
    /// How many more times some were missed.
    pub left_out: u64,
}

impl Step<'_, '_> {
    /// Makes the due occurrences of the queue's schedules; false if budget or space were used up before the end. Held
    /// occurrences are left.
    pub fn sweep_schedules(&mut self, queue: QueueNo) -> bool {
        if self.store.queue(queue).schedules.is_none() {
            return true;
        }
        let now = self.now.floor();
        while let Some(number) = self.store.due_schedule(queue, now) {
            if !self.live.room.lets_time_pass() || !self.budget.take() {
                return false;
            }
            match self.come_due(queue, number) {
                Ok(()) => {}
                Err(Obstacle::Zone | Obstacle::Pattern) => {
                    self.store.set_schedule_stuck(queue, number);
                }
                Err(_) => {
                    self.store.hold_schedules(queue, now);
                    return true;
                }
            }
        }
        if self.store.queue(queue).first_schedule_wake() > now {
            self.store.note_none_held(queue);
        }
        true
    }

    /// The rule of a schedule, read.
    pub fn times(&self, schedule: &Schedule) -> Result<Times, Obstacle> {
        let Schedule { definition, name, anchor, .. } = schedule;
        Times::of(definition, name, *anchor, &self.live.zones)
    }

    /// The next instant of a schedule that is not paused from `at` on.
    pub fn coming(&self, schedule: &Schedule, times: &Times, at: Millis) -> Option<Coming> {
        if schedule.is_used_up() { None } else { times.next_due(schedule.after, at) }
    }

    /// Since when there has always been something due that was not done, as far as is known in this turn: after a
    /// standstill nothing was at work.
    pub fn work_began(&self) -> Option<Millis> {
        let stood_ms = self.now.floor().0.saturating_sub(self.live.advanced.0);
        self.live.at_work_since.filter(|_| stood_ms <= limits::GRACE_MS_MIN)
    }

    /// A pause of its own that is over ends: what has come since then counts.
    pub fn end_own_pause(&mut self, queue: QueueNo, number: ScheduleNo) -> Result<(), Obstacle> {
        let schedule = self.store.schedule(queue, number);
        let Pause::Until(end) = schedule.pause() else { return Ok(()) };
        if end > self.now.floor() {
            return Ok(());
        }
        let times = self.times(schedule)?;
        let (mut after, next) = (schedule.after, schedule.next());
        if times.newest_due(end) > Some(after) {
            after = times.behind(after, end);
        }
        let pause = Pause::None;
        let fact = Fact::SchedulePaused { queue, schedule: number, pause, after, next };
        self.commit(&fact, Located::NOTHING);
        Ok(())
    }

    /// One action on a schedule.
    fn come_due(&mut self, queue: QueueNo, number: ScheduleNo) -> Result<(), Obstacle> {
        if self.is_moved_by_zones(queue, number) {
            return Ok(());
        }
        let schedule = self.store.schedule(queue, number);
        if schedule.pause() != Pause::None {
            return self.end_own_pause(queue, number);
        }
        let times = self.times(schedule)?;
        let coming = schedule.next().expect("what wakes comes next");
        self.check_queue(queue, schedule)?;
        let was_held = self.store.queue(queue).schedules.as_ref().is_some_and(|all| all.was_held);
        if let Some((newest, count)) = self.too_late(queue, schedule, &times, coming) {
            self.miss(queue, number, &times, newest, (count, Miss::Grace));
        } else if let Some((newest, count)) = self.older_than_newest(queue, number, &times, coming)
        {
            let why = if was_held { Miss::Held } else { Miss::Downtime };
            self.miss(queue, number, &times, newest, (count, why));
        } else {
            self.make(queue, number, &times, coming)?;
        }
        Ok(())
    }

    /// While schedules are looked through for new tables, what is due was due by the old ones: whether it is another
    /// instant by the new.
    fn is_moved_by_zones(&mut self, queue: QueueNo, number: ScheduleNo) -> bool {
        let is_walking = self.live.zones_walk.is_some();
        let is_moved = is_walking && self.look_at_schedule(queue, number) == Looked::Moved;
        let walk = self.live.zones_walk.as_mut().filter(|_| is_moved);
        walk.into_iter().for_each(|walk| walk.change.moved += 1);
        is_moved
    }

    /// A due occurrence that could not be made yet is missed: it will not be made any more.
    pub fn miss_due(&mut self, queue: QueueNo, number: ScheduleNo) {
        let schedule = self.store.schedule(queue, number);
        let now = self.now.floor();
        let due = schedule.next().filter(|next| next.due <= now && schedule.pause() == Pause::None);
        let (Some(coming), Ok(times)) = (due, self.times(schedule)) else { return };
        let (newest, missed) = missed_upto(&times, coming, times.newest_due(now));
        self.miss(queue, number, &times, newest, (missed, Miss::Held));
    }

    /// Whether the queue takes an occurrence.
    pub fn check_queue(&self, queue: QueueNo, schedule: &Schedule) -> Result<(), Obstacle> {
        let replaces = schedule.definition.terms().overlap == Overlap::Replace;
        let of = replaces.then_some(schedule);
        // There may be more jobs than a limit allows that was lowered: nothing gives way to nothing.
        let waiting = of.map_or(0, |of| self.waiting_occurrences(queue, of).count() as u64);
        match self.check_admission(queue, 1) {
            Err(Error::Full { jobs, max, .. }) if jobs < max + waiting => Ok(()),
            Err(Error::Full { .. }) => Err(Obstacle::Full),
            Err(_) => Err(Obstacle::Paused),
            Ok(()) => Ok(()),
        }
    }

    /// If the first due instant is later than GRACE allows: the newest nominal instant for which that holds, and their
    /// number. An instant since which this server has been working is not late, however long the work takes.
    fn too_late(
        &self,
        queue: QueueNo,
        schedule: &Schedule,
        times: &Times,
        coming: Coming,
    ) -> Option<(Millis, u64)> {
        let grace_ms = schedule.definition.terms().grace_ms;
        let was_held = self.store.queue(queue).schedules.as_ref().is_some_and(|all| all.was_held);
        let now = self.now.floor();
        let begun = self.work_began().filter(|_| !was_held).unwrap_or(now);
        let begun = self.live.room.paused_from().map_or(begun, |from| begun.min(from));
        let least = Millis(begun.0.checked_sub(grace_ms)?);
        if grace_ms == 0 || coming.due >= least {
            return None;
        }
        Some(missed_upto(times, coming, times.newest_due(Millis(least.0 - 1))))
    }

    /// If more occurrences are due than CATCHUP allows: the newest nominal instant of those that are passed over, and
    /// their number. The set to make is fixed when it is first computed, so that no more are passed over while they are
    /// made. Occurrences that fell due while clients were paused are made, like jobs of that time: time stood still.
    fn older_than_newest(
        &mut self,
        queue: QueueNo,
        number: ScheduleNo,
        times: &Times,
        coming: Coming,
    ) -> Option<(Millis, u64)> {
        let schedule = self.store.schedule(queue, number);
        let now = self.now.floor();
        // The newest is asked for only where there is more than one: that costs a few µs.
        let is_more = times.next(coming.nominal).is_some_and(|next| next.due <= now);
        let newest = if is_more { times.newest_due(now) } else { None };
        let Some(newest) = newest.filter(|newest| *newest > coming.nominal) else {
            self.store.make_up_from(queue, number, None, self.live.spells);
            return None;
        };
        let schedules = self.store.queue(queue).schedules.as_ref();
        let is_settled = schedules.is_some_and(|all| all.is_settled(schedule, self.live.spells));
        if is_settled && self.work_began().is_some() {
            return None;
        }
        self.budget.spend(LATE_STEPS);
        let paused_from = self.live.room.paused_from();
        let newest = match paused_from.filter(|from| *from <= now) {
            Some(from) if coming.due >= from => None,
            Some(from) => times.newest_due(Millis(from.0.saturating_sub(1))),
            None => Some(newest),
        };
        let Some(newest) = newest.filter(|newest| *newest > coming.nominal) else {
            self.store.make_up_from(queue, number, Some(coming.nominal), self.live.spells);
            return None;
        };
        let catchup = u64::from(schedule.definition.terms().catchup);
        let due = missed_upto(times, coming, Some(newest)).1;
        let first = match due > catchup {
            true => times.first_of_newest(coming.nominal, newest, catchup),
            false => coming.nominal,
        };
        self.store.make_up_from(queue, number, Some(first), self.live.spells);
        let passed = times.before(first).filter(|_| first > coming.nominal);
        passed.map(|passed| missed_upto(times, coming, Some(passed)))
    }

    /// Nominal instants up to this one are passed over.
    fn pass(
        &mut self,
        queue: QueueNo,
        schedule: ScheduleNo,
        times: &Times,
        nominal: Millis,
        [missed, skipped]: [u64; 2],
    ) {
        let (offset_s, next) = (times.offset_s(nominal), times.next(nominal));
        let fact = Fact::Passed { queue, schedule, nominal, offset_s, missed, skipped, next };
        self.commit(&fact, Located::NOTHING);
    }

    /// So many nominal instants up to this one are missed.
    fn miss(
        &mut self,
        queue: QueueNo,
        schedule: ScheduleNo,
        times: &Times,
        newest: Millis,
        (count, why): (u64, Miss),
    ) {
        self.pass(queue, schedule, times, newest, [count, 0]);
        self.live.tally.missed[why as usize] += count;
        if self.live.missed.noted.len() == limits::MISSED_NOTED_MAX {
            self.live.missed.left_out += 1;
            return;
        }
        let name = (*self.store.schedule(queue, schedule).name).into();
        let queue = self.store.queue(queue).name.clone();
        self.live.missed.noted.push(Missed { queue, schedule: name, count, why, newest });
    }

    /// Occurrences that no worker has started, oldest first.
    fn waiting_occurrences(
        &self,
        queue: QueueNo,
        schedule: &Schedule,
    ) -> impl Iterator<Item = (Millis, Located)> {
        schedule.recent.iter().filter_map(move |at| {
            let (state, located) = self.store.open_occurrence(queue, &schedule.id_at(*at))?;
            (state != JobState::Leased).then_some((*at, located))
        })
    }

    /// The oldest occurrence that no worker has started.
    pub fn waiting_occurrence(
        &self,
        queue: QueueNo,
        schedule: &Schedule,
    ) -> Option<(Millis, Located)> {
        self.waiting_occurrences(queue, schedule).next()
    }

    /// The ids of the occurrences that are open, oldest first.
    pub fn open_occurrences(
        &self,
        queue: QueueNo,
        schedule: &Schedule,
    ) -> impl Iterator<Item = OccurrenceId> {
        let ids = schedule.recent.iter().map(|at| schedule.id_at(*at));
        ids.filter(move |id| self.store.open_occurrence(queue, id).is_some())
    }

    /// Makes an occurrence, or does a step towards it.
    fn make(
        &mut self,
        queue: QueueNo,
        number: ScheduleNo,
        times: &Times,
        coming: Coming,
    ) -> Result<(), Obstacle> {
        let Coming { nominal, due } = coming;
        let schedule = self.store.schedule(queue, number);
        let id = schedule.id_at(nominal);
        let at = self.store.locate(queue, &id);
        let overlap = schedule.definition.terms().overlap;
        let overlaps = || self.open_occurrences(queue, schedule).next().is_some();
        if at.index.is_some() || (overlap == Overlap::Skip && overlaps()) {
            self.pass(queue, number, times, nominal, [0, 1]);
            return Ok(());
        }
        let body_bytes = schedule.data_bytes();
        let is_last = schedule.runs_left().is_some_and(|left| left <= 1);
        // Before anything gives way: what is held changes nothing.
        self.check_making(queue, id.len() + body_bytes)?;
        if overlap == Overlap::Replace && self.give_way(queue, number) {
            return Ok(());
        }
        let next = if is_last { None } else { times.next(nominal) };
        let offset_s = times.offset_s(nominal);
        let (policy, priority, left) = self.terms_of(queue, number);
        let schedule = number;
        let fact = Fact::Occurred {
            queue,
            schedule,
            nominal,
            due,
            offset_s,
            policy,
            priority,
            left,
            next,
        };
        self.commit_ready(queue, &fact, at);
        self.budget.spend(OCCURRENCE_STEPS - 1 + (body_bytes / BODY_BYTES_PER_STEP) as u32);
        Ok(())
    }

    /// Removes an earlier occurrence that no worker has started; false without one.
    pub fn give_way(&mut self, queue: QueueNo, schedule: ScheduleNo) -> bool {
        let of = self.store.schedule(queue, schedule);
        let Some((at, located)) = self.waiting_occurrence(queue, of) else { return false };
        self.commit(&Fact::GaveWay { queue, schedule, at }, located);
        self.note_place_free(queue);
        true
    }

    /// Whether memory and the next base have space for a job with this many bytes of id and body.
    fn check_making(&mut self, queue: QueueNo, bytes: usize) -> Result<(), Obstacle> {
        let name =
            QueueName { db: self.store.queue(queue).db, name: &self.store.queue(queue).name };
        let size = std::iter::once(bytes);
        self.check_memory(Some(queue), name, size).map_err(|_| Obstacle::Memory)?;
        let grows = self.live.room.lets_grow(self.store, occurring_growth(bytes));
        if grows { Ok(()) } else { Err(Obstacle::Journal) }
    }

    /// Policy, priority and side of the next occurrence: the schedule's, else the queue's as they are now.
    pub fn terms_of(&mut self, queue: QueueNo, schedule: ScheduleNo) -> (PolicyNo, u8, bool) {
        let options = self.store.schedule(queue, schedule).definition.terms().options.clone();
        let priority = self.priority(queue, options.priority);
        let policy = self.policy(queue, options, 0);
        let left = self.store.queue(queue).due_enters() == Side::Left;
        (policy, priority, left)
    }

    pub fn commit_ready(&mut self, queue: QueueNo, fact: &Fact<'_>, at: Located) {
        let index = self.commit(fact, at).index.expect("an occurrence has a number");
        let place = self.store.jobs().get(index).order;
        self.touch(queue, Some(place));
    }
}

/// The newest of the nominal instants from what is to come up to `upto`, and how many there are. At least that one,
/// which other tables of zones may not know.
fn missed_upto(times: &Times, coming: Coming, upto: Option<Millis>) -> (Millis, u64) {
    let newest = upto.unwrap_or_default().max(coming.nominal);
    let count = times.count(Millis(coming.nominal.0 - 1), newest);
    (newest, count.max(1))
}
