//! New time-zone tables: the next instants of schedules are looked up again, in slices.

use crate::calendar::Zones;
use crate::engine::model::fact::Fact;
use crate::engine::model::queue_settings::Pause;
use crate::engine::step::schedule::times::Times;
use crate::engine::step::schedule::zones::Looked;
use crate::engine::step::{Step, ZonesWalk};
use crate::engine::store::queue::Queue;
use crate::engine::store::{Located, Store};
use crate::ids::{QueueNo, ScheduleNo};
use crate::limits::ZONES_LOOKED_PER_TURN;
use crate::time::Micros;

impl Step<'_, '_> {
    /// Looks at some schedules and queues; true when there is nothing to look for.
    pub(super) fn look_through_zones(&mut self) -> bool {
        let Some(mut walk) = self.live.zones_walk.take() else { return true };
        let share = self.budget.left().clamp(1, ZONES_LOOKED_PER_TURN);
        for _ in 0..share {
            if !self.live.room.lets_time_pass() {
                break;
            }
            if !self.look_at_next(&mut walk) {
                self.live.zones_change = Some(walk.change);
                return true;
            }
        }
        self.live.zones_walk = Some(walk);
        false
    }

    /// False when all are looked at.
    fn look_at_next(&mut self, walk: &mut ZonesWalk) -> bool {
        let Some((queue, db, place)) = self.store.next_queue_from(walk.db, walk.place) else {
            return false;
        };
        if (db, place) != (walk.db, walk.place) {
            walk.from = ScheduleNo(0);
        }
        (walk.db, walk.place) = (db, place);
        let schedules = self.store.queue(queue).schedules.as_deref();
        let next = schedules.and_then(|schedules| schedules.from(walk.from).next());
        match next.map(|schedule| schedule.number) {
            None => (walk.place, walk.from) = (place + 1, ScheduleNo(0)),
            Some(number) => {
                walk.from = ScheduleNo(number.0 + 1);
                match self.look_at_schedule(queue, number) {
                    Looked::Unchanged => {}
                    Looked::Unknown => walk.change.unknown += 1,
                    Looked::Moved => walk.change.moved += 1,
                }
            }
        }
        true
    }
}

/// The clock of an engine that does not run is set back from `was` to `to`: what would have come by the clock that was
/// wrong comes by the right one, and pauses have left what they had left.
pub fn lower_schedules(store: &mut Store, zones: &Zones, was: Micros, to: Micros) {
    let (was_ms, to_ms) = (was.floor(), to.floor());
    let of_queue = |queue: &Queue| {
        let schedules = queue.schedules.as_deref().into_iter();
        let numbers = schedules.flat_map(|all| all.from(ScheduleNo(0)).map(|one| one.number));
        numbers.map(|number| (queue.number, number)).collect::<Vec<_>>()
    };
    let all: Vec<(QueueNo, ScheduleNo)> = store.queues().flat_map(of_queue).collect();
    for (queue, number) in all {
        let schedule = store.schedule(queue, number);
        let pause = match schedule.pause() {
            Pause::Until(end) => Pause::Until(end.min(to_ms.plus(end.0.saturating_sub(was_ms.0)))),
            other => other,
        };
        let after = schedule.after.min(to_ms);
        let times = Times::of(&schedule.definition, &schedule.name, schedule.anchor, zones);
        let next = match (times, pause) {
            (Err(_), _) => schedule.next(),
            (Ok(_), _) if schedule.is_used_up() => None,
            (Ok(_), Pause::Endless) => None,
            (Ok(times), Pause::Until(end)) => times.next_due(after, end),
            (Ok(times), Pause::None) => times.next(after),
        };
        let fact = Fact::SchedulePaused { queue, schedule: number, pause, after, next };
        store.apply_at(to, &fact, Located::NOTHING);
    }
}
