//! How the rates of groups are kept.
//!
//! A group that has given a job under a rate has a *pace*: when, by its rate, it gave last. Each delivery moves that on by
//! a step, and the next may come a step later, or 5 ms earlier (see [`pace`]):
//!
//! ```text
//! gave = max(gave + step, now)     the next at gave + step - 5 ms
//! 5/1m     a step of 12.001 s      taken at 0 s, the next at 11.996 s: never six in a minute
//! 1/1h     taken at 0 s; then set to 1/10s: the next at 10 s, another step from the same instant
//! ```
//!
//! The pace is state, so that what is left of an hour's quota outlives a restart. Facts close a group. Time opens it, of which
//! nothing is recorded: each engine sweeps the timers by itself, in the same order. But a group of which only its pace is left goes by a fact.

use std::sync::Arc;

use crate::engine::model::group::GroupRate;
use crate::engine::model::queue_settings::Pause;
use crate::engine::store::Store;
use crate::engine::store::groups::{GroupRecord, Groups};
use crate::engine::store::memory::allocated_bytes;
use crate::engine::store::pace;
use crate::engine::store::queue::{Queue, place_of};
use crate::engine::store::ready::rota::NO_GROUP;
use crate::engine::store::snapshot::record;
use crate::ids::QueueNo;
use crate::time::{Micros, Millis};

/// When to look at a group because of its rate: by name if it is the same ms, so that the order is the same everywhere.
pub(super) type PaceTimer = (Millis, Arc<[u8]>, u32);

/// Bytes counted for a pace in addition to a name of its own: its allocation, and its timer.
const PACE_BYTES: usize = size_of::<GroupPace>() + size_of::<PaceTimer>() + 16;

#[derive(Debug)]
pub(super) struct GroupPace {
    name: Arc<[u8]>,
    /// By its rate, when it gave last, ns.
    gave: u64,
    /// The rate lets none go yet.
    pub(super) closed: bool,
    /// When it really gave last. Volatile: a delivery that never leaves is taken back if no other has followed.
    last: Micros,
    /// When to look at it: it is closed, or nothing else is left of the group.
    timer: Option<Millis>,
    /// The number of the base file that its image has been written to.
    imaged: u32,
}

impl GroupPace {
    fn allowed(&self, rate: GroupRate) -> Micros {
        match rate {
            GroupRate::NONE => Micros(0),
            rate => pace::allowed(self.gave.saturating_add(step(rate))),
        }
    }
}

/// Bytes counted for the pace of a group of this name.
fn pace_bytes(name: &[u8]) -> u64 {
    (PACE_BYTES + allocated_bytes(name.len() + 16)) as u64
}

fn step(rate: GroupRate) -> u64 {
    pace::step_ns(rate.count, rate.span_ms.into())
}

impl Groups {
    fn pace_mut(&mut self, number: u32) -> Option<&mut GroupPace> {
        self.groups.get_mut(number).pace.as_deref_mut()
    }

    /// Whether its rate has counted a delivery that is not past.
    pub fn is_paced(&self, number: u32) -> bool {
        self.groups.get(number).pace.is_some()
    }

    /// The group to be looked at next because of its rate, and when.
    pub fn next_paced(&self) -> Option<(Millis, u32)> {
        self.paced_at.first().map(|(at, _, number)| (*at, *number))
    }

    /// Names, and when they gave by their rates, ns.
    pub fn paces(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let all = (0..self.groups.end()).filter_map(|number| self.groups.find(number));
        all.filter_map(|group| Some((&*group.name, group.pace.as_deref()?.gave)))
    }

    /// What the image of a group's pace says, if it was not written to this base file yet. From here on it was.
    pub fn image_pace(&mut self, number: u32, base: u32) -> Option<(&[u8], u64)> {
        let group = self.groups.find_mut(number)?;
        let pace = group.pace.as_deref_mut()?;
        let first = std::mem::replace(&mut pace.imaged, base) != base;
        first.then_some((&*group.name, pace.gave))
    }

    /// Sets when to look at a group with a pace.
    fn arm_pace(&mut self, number: u32, rate: GroupRate) -> Option<Millis> {
        let GroupRecord { jobs, settings, pace, .. } = self.groups.get_mut(number);
        let pace = pace.as_deref_mut()?;
        let waits = pace.closed || *jobs == 0 && settings.is_none();
        let timer = waits.then(|| pace.allowed(rate).ceil());
        let before = std::mem::replace(&mut pace.timer, timer);
        if before != timer {
            let entry = |at| (at, pace.name.clone(), number);
            before.into_iter().for_each(|at| _ = self.paced_at.remove(&entry(at)));
            self.paced_at.extend(timer.map(entry));
        }
        timer
    }
}

impl Queue {
    /// The rate of a group.
    pub fn group_rate(&self, group: u32) -> GroupRate {
        let rate = self.setting_of(group, |own| own.rate.0, |all| all.group_rate.0);
        rate.unwrap_or(GroupRate::NONE)
    }

    /// When neither a pause nor the rate of a group keeps it closed any more; none if they do not, or the pause does for
    /// ever.
    pub fn group_opens(&self, groups: &Groups, group: u32) -> Option<Millis> {
        let GroupRecord { pace, settings, .. } = groups.groups.get(group);
        let pace = pace.as_deref().filter(|pace| pace.closed);
        let by_rate = pace.map(|pace| pace.allowed(self.group_rate(group)).ceil());
        match settings.as_deref().map_or(Pause::None, |own| own.pause) {
            Pause::None => by_rate,
            Pause::Until(end) => by_rate.max(Some(end)),
            Pause::Endless => None,
        }
    }
}

impl Store {
    /// A job of a group was delivered: whether the rate of the group counts it. The group is to be put where it should
    /// stand then.
    pub(in crate::engine::store) fn count_by_rate(
        &mut self,
        queue: QueueNo,
        group: u32,
        now: Micros,
    ) -> bool {
        if group == NO_GROUP {
            return false;
        }
        let rate = self.queue(queue).group_rate(group);
        if rate == GroupRate::NONE {
            return false;
        }
        let (made, now_ns) = (self.make_pace(queue, group), pace::nanos(now));
        let pace = self.pace_mut(queue, group).expect("it was made");
        let next = if made { 0 } else { pace.gave.saturating_add(step(rate)) };
        (pace.gave, pace.last) = (next.max(now_ns), now);
        self.note_pace(queue, group, now);
        true
    }

    /// The pace of a group whose delivery at `at` never left, ns; none if no rate had counted it, or another followed:
    /// what the first has kept waiting is over then, and giving its step back would let more through than the rate.
    pub fn pace_without(&self, queue: QueueNo, group: u32, at: Micros) -> Option<u64> {
        let of = self.queue(queue);
        let (groups, rate) = (of.groups.as_deref()?, of.group_rate(group));
        let pace = groups.groups.get(group).pace.as_deref()?;
        let counted = rate != GroupRate::NONE && pace.last == at;
        counted.then(|| pace.gave.saturating_sub(step(rate)).max(1))
    }

    /// Sets when a group gave by its rate, ns; with 0 its rate is past, and nothing else is left of it.
    pub(in crate::engine::store) fn set_pace(
        &mut self,
        queue: QueueNo,
        name: &[u8],
        gave: u64,
        now: Micros,
    ) {
        let number = self.open_group(queue, name);
        if gave == 0 {
            self.drop_pace(queue, number);
        } else {
            self.make_pace(queue, number);
            self.pace_mut(queue, number).expect("it was made").gave = gave;
            self.note_pace(queue, number, now);
        }
        self.retier(queue, number);
        self.close_group(queue, number);
    }

    /// Whether it has a pace.
    pub fn has_pace(&self, queue: QueueNo, name: &[u8]) -> bool {
        let groups = self.queue(queue).groups.as_deref();
        let number = self.find_group(queue, name);
        groups.zip(number).is_some_and(|(groups, number)| groups.is_paced(number))
    }

    /// The rate of a group may be another.
    pub(super) fn repace(&mut self, queue: QueueNo, group: u32, now: Micros) {
        if group == NO_GROUP || self.queue(queue).groups.as_ref().is_none_or(|all| all.paced == 0) {
            return;
        }
        if let Some(pace) = self.pace_mut(queue, group) {
            // What an unsent delivery has counted was a step of the other rate.
            pace.last = Micros(0);
            self.note_pace(queue, group, now);
        }
    }

    /// The time to look at a group has come: opens it if its rate lets the next job go. True if nothing but its pace is
    /// left of it.
    pub fn pass_pace(&mut self, queue: QueueNo, group: u32, now: Micros) -> bool {
        self.note_pace(queue, group, now);
        self.retier(queue, group);
        let pace = self.pace_mut(queue, group).expect("it has a timer");
        !pace.closed && pace.timer.is_some()
    }

    /// Closes or opens a group with a pace, which is to be put where it should stand then.
    fn note_pace(&mut self, queue: QueueNo, group: u32, now: Micros) {
        let rate = self.queue(queue).group_rate(group);
        let pace = self.pace_mut(queue, group).expect("it has one");
        pace.closed = pace.allowed(rate) > now;
        self.arm_pace(queue, group);
    }

    pub(super) fn arm_pace(&mut self, queue: QueueNo, group: u32) {
        let rate = self.queue(queue).group_rate(group);
        let groups = self.queue_mut(queue).groups.as_deref_mut().expect("it has groups");
        if let Some(at) = groups.arm_pace(group, rate) {
            self.wake_by(queue, at);
        }
    }

    fn pace_mut(&mut self, queue: QueueNo, group: u32) -> Option<&mut GroupPace> {
        self.queue_mut(queue).groups.as_deref_mut()?.pace_mut(group)
    }

    /// True if the group had none. One that is made now is too young for a base file that is being written.
    fn make_pace(&mut self, queue: QueueNo, group: u32) -> bool {
        let imaged = self.bases.number();
        let groups = self.queue_mut(queue).groups.as_deref_mut().expect("it has groups");
        let GroupRecord { name, pace, .. } = groups.groups.get_mut(group);
        let made = pace.is_none();
        if made {
            let (name, last) = (Arc::from(&**name), Micros(0));
            let (gave, closed, timer) = (0, false, None);
            *pace = Some(Box::new(GroupPace { name, gave, closed, last, timer, imaged }));
            self.count_pace(queue, group, true);
        }
        made
    }

    fn drop_pace(&mut self, queue: QueueNo, group: u32) {
        let groups = self.queue_mut(queue).groups.as_deref_mut().expect("it has groups");
        let pace = groups.groups.get_mut(group).pace.take().expect("a rate has counted");
        let timer = pace.timer.map(|at| (at, pace.name, group));
        timer.into_iter().for_each(|timer| _ = groups.paced_at.remove(&timer));
        self.count_pace(queue, group, false);
    }

    fn count_pace(&mut self, queue: QueueNo, group: u32, made: bool) {
        let (db, _) = place_of(queue);
        let queue_ref = self.queue_mut(queue);
        let groups = queue_ref.groups.as_deref_mut().expect("it has groups");
        let name = &groups.groups.get(group).name;
        let (image, bytes) = (record::pace_bytes(name), pace_bytes(name));
        let change = |count: &mut u64, up: bool, by: u64| {
            *count = if up { *count + by } else { *count - by };
        };
        change(&mut groups.paced, made, 1);
        change(&mut groups.bytes, made, bytes);
        change(&mut groups.unpaced_image_bytes, !made, image);
        change(&mut queue_ref.image_bytes, made, image);
        change(&mut self.bytes, made, bytes);
        let database = &mut self.databases[db];
        change(&mut database.image_bytes, made, image);
        change(&mut database.coming_image_bytes, !made, image);
        self.recount_spare(queue);
    }
}
