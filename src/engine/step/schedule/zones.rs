//! The next instant of a schedule with other time-zone tables than before.

use crate::engine::model::fact::Fact;
use crate::engine::model::queue_settings::Pause;
use crate::engine::model::schedule::{Coming, Rule};
use crate::engine::step::Step;
use crate::engine::step::schedule::times::Times;
use crate::engine::store::Located;
use crate::engine::store::schedules::Schedule;
use crate::ids::{QueueNo, ScheduleNo};
use crate::time::Millis;

/// Local times that are passed over because they have come: those of a whole day of minutes.
const LOCAL_TIMES_MAX: usize = 2_000;

/// The result of looking at a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Looked {
    Unchanged,
    /// Its zone is unknown by these tables: it waits for others.
    Unknown,
    Moved,
}

impl Step<'_, '_> {
    /// Looks up the next instant of a schedule again.
    pub fn look_at_schedule(&mut self, queue: QueueNo, number: ScheduleNo) -> Looked {
        let schedule = self.store.schedule(queue, number);
        let is_timed = matches!(schedule.definition.rule, Rule::Cron { .. });
        if !is_timed || !(schedule.next().is_some() || schedule.stuck) {
            return Looked::Unchanged;
        }
        let Ok(times) = self.times(schedule) else {
            self.store.set_schedule_stuck(queue, number);
            return Looked::Unknown;
        };
        let (after, next) = newly_coming(schedule, &times);
        if next == schedule.next() {
            // No fact: which tables a machine has had is its own. One would count as a use of the queue, here and not on
            // a node that had the zone all along.
            if schedule.stuck {
                self.store.set_schedule_unstuck(queue, number);
            }
            return Looked::Unchanged;
        }
        let fact = Fact::ScheduleMoved { queue, schedule: number, after, next };
        self.commit(&fact, Located::NOTHING);
        Looked::Moved
    }
}

/// The next instant of a schedule by tables that may have changed, and the instant it comes after: an instant that came
/// due stays so, and a local time that has come does not come again.
fn newly_coming(schedule: &Schedule, times: &Times) -> (Millis, Option<Coming>) {
    let after = schedule.after;
    let first = match schedule.pause() {
        _ if schedule.is_used_up() => None,
        Pause::Endless => None,
        Pause::Until(end) => times.next_due(after, end),
        Pause::None => times.next(after),
    };
    let local_s = |at: Millis| (at.0 / 1_000) as i64 + i64::from(times.offset_s(at));
    let is_shown =
        |at| times.is_local() && schedule.last_local_s().is_some_and(|last| local_s(at) <= last);
    // Clocks are set back by a day at most, and a pattern of local times has one a second at most.
    let all = std::iter::successors(first, |coming| times.next(coming.nominal));
    let next = all.take(LOCAL_TIMES_MAX).find(|coming| !is_shown(coming.nominal));
    match (first, next) {
        // Nor is it counted when the schedule is changed, or goes on after a pause.
        (Some(first), Some(next)) if first != next => (Millis(next.nominal.0 - 1), Some(next)),
        _ => (after, next),
    }
}
