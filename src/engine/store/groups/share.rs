//! A group's share of the consumers: the more leases it has running, the later its tier.

use crate::engine::model::group::{GroupRetry, GroupState, LEASES_PER_TIER};
use crate::engine::model::queue_settings::Pause;
use crate::engine::model::request::JobState;
use crate::engine::store::Store;
use crate::engine::store::groups::{GroupRecord, Groups};
use crate::engine::store::jobs::JobIndex;
use crate::engine::store::queue::Queue;
use crate::engine::store::ready::lane::Standing;
use crate::engine::store::ready::rota::{CLOSED, NO_GROUP, Tiers};
use crate::ids::QueueNo;
use crate::limits::GROUP_WEIGHT_DEFAULT;
use crate::time::Micros;
use crate::wheel::list::Chunks;

/// Groups that wait and are asked for their tier at once after a change that concerns all.
const REVIEWED_AT_ONCE: usize = 4_096;
/// The same where rates have counted: with a rate each costs a µs.
const PACED_AT_ONCE: usize = 1_024;
/// How many of all groups, whether they wait or not, are asked at once.
const REVIEWED_FIRST: u32 = 256;
/// Groups in front that are, after that, before one of them gives a job.
const REVIEWED_IN_FRONT: u32 = 256;

/// Where a job stands among the ready ones, and how many its group gives in its turn.
#[derive(Clone, Copy, PartialEq)]
pub(in crate::engine::store) struct LaneOf {
    pub group: u32,
    priority: u8,
    stint: u32,
}

#[inline]
fn tier(leased: u64, weight: u32) -> u32 {
    (leased / (LEASES_PER_TIER * u64::from(weight))).min(u64::from(CLOSED - 1)) as u32
}

/// The tier of the jobs without a group, of which so many are leased.
pub(super) fn rest_tier(leased: u64) -> u32 {
    tier(leased, 1)
}

impl Queue {
    /// The tiers of a group, and of the jobs without one.
    pub(in crate::engine::store) fn tiers(&self, group: u32) -> Tiers {
        let Some(groups) = &self.groups else { return Tiers::default() };
        let rest = groups.rest_tier;
        let own = match group {
            NO_GROUP => Standing::in_tier(rest),
            _ => groups.groups.get(group).standing,
        };
        Tiers { group, own, rest }
    }

    /// Where a group should stand.
    fn standing_of(&self, groups: &Groups, group: u32) -> Standing {
        if group == NO_GROUP {
            return Standing::in_tier(rest_tier(self.count(JobState::Leased) - groups.leased));
        }
        let leased = groups.leased_of(group);
        if self.settings.is_none() && groups.groups.get(group).is_plain() {
            // Most groups, with each lease that begins or ends.
            return Standing::in_tier(tier(leased, GROUP_WEIGHT_DEFAULT));
        }
        let max = u64::from(self.group_max_leased(group));
        let begun_first = self.group_retry(group) == GroupRetry::Block;
        let begun = || leased + groups.begun(group).iter().sum::<u64>();
        let GroupRecord { settings, pace, .. } = groups.groups.get(group);
        let paced = pace.as_deref().is_some_and(|pace| pace.closed);
        let paused = settings.as_deref().is_some_and(|own| own.pause != Pause::None);
        let closed = paused || max > 0 && leased >= max || paced;
        Standing {
            tier: if closed { CLOSED } else { tier(leased, self.stint(group)) },
            begun_first,
            begun_only: begun_first && max > 0 && begun() >= max,
        }
    }

    /// Puts a group where it should stand.
    fn retier(&mut self, chunks: &mut Chunks, group: u32) {
        let Some(groups) = &self.groups else { return };
        let (is, was) = (self.standing_of(groups, group), self.tiers(group).own);
        // Where only begun jobs may go it depends on the lane, which may have got its first or lost its last.
        if is == was && !is.begun_only {
            return;
        }
        let groups = self.groups.as_mut().expect("they are there");
        if group == NO_GROUP {
            groups.rest_tier = is.tier;
        } else {
            let was_held = groups.is_held(group);
            groups.groups.get_mut(group).standing = is;
            let held = groups.is_held(group);
            groups.note_held(was_held, held);
        }
        self.ready.set_standing(chunks, group, is);
    }

    /// Whether jobs of a group may be taken, or why not.
    pub fn group_state(&self, groups: &Groups, group: u32) -> GroupState {
        let Standing { tier, begun_only, .. } = self.standing_of(groups, group);
        let [_, ready] = groups.begun(group);
        let (leased, max) = (groups.leased_of(group), u64::from(self.group_max_leased(group)));
        match groups.settings(group).pause {
            Pause::None if max > 0 && leased >= max => GroupState::Limit,
            Pause::None if begun_only && ready == 0 => GroupState::Retry,
            Pause::None if tier == CLOSED => GroupState::Rate,
            Pause::None => GroupState::Open,
            Pause::Until(_) | Pause::Endless => GroupState::Paused,
        }
    }
}

impl Groups {
    fn leased_of(&self, number: u32) -> u64 {
        let (group, state) = (self.groups.get(number), JobState::Leased as usize);
        if self.purged[state] > group.seen { 0 } else { group.counts[state].into() }
    }

    /// A job of a group has come to a state, or left it.
    fn count(&mut self, number: u32, state: JobState, begun: bool, by: i64) {
        let group = self.groups.get_mut(number);
        if group.seen != self.purges {
            group.pass_purges(&self.purged, self.purges);
        }
        let add = |count: &mut u32| {
            *count = count.checked_add_signed(by as i32).expect("counts are never negative");
        };
        let was_held = group.is_held();
        add(&mut group.counts[state as usize]);
        group.begun.get_mut(state as usize).filter(|_| begun).into_iter().for_each(add);
        let held = group.is_held();
        if state == JobState::Leased {
            self.leased = self.leased.checked_add_signed(by).expect("counts are never negative");
        }
        self.note_held(was_held, held);
    }

    /// Whether a closed group has ready jobs.
    pub fn is_held(&self, number: u32) -> bool {
        let (ready, [_, begun]) = (JobState::Ready as usize, self.begun(number));
        self.groups.get(number).standing.is_closed(begun) && self.counts(number)[ready] > 0
    }

    fn note_held(&mut self, before: bool, now: bool) {
        self.held = self.held + u64::from(now) - u64::from(before);
    }
}

impl GroupRecord {
    /// Forgets what was purged since it was counted last.
    #[cold]
    fn pass_purges(&mut self, purged: &[u32; 4], purges: u32) {
        for (state, purged) in purged.iter().enumerate() {
            let there = u32::from(*purged <= self.seen);
            self.counts[state] *= there;
            self.begun.get_mut(state).into_iter().for_each(|count| *count *= there);
        }
        self.seen = purges;
    }

    /// Whether nothing is set for it, and no rate has counted.
    #[inline]
    fn is_plain(&self) -> bool {
        self.settings.is_none() && self.pace.is_none()
    }

    /// Whether it is closed and has ready jobs; no purge is to be passed.
    #[inline]
    fn is_held(&self) -> bool {
        let [_, begun] = self.begun;
        self.standing.is_closed(begun.into()) && self.counts[JobState::Ready as usize] > 0
    }
}

impl Store {
    /// A job of a queue with groups has come to a state, or left it; it is counted there already.
    pub(in crate::engine::store) fn count_in_group(
        &mut self,
        queue: QueueNo,
        state: JobState,
        index: JobIndex,
        by: i64,
    ) {
        let group = self.jobs.group(index);
        if group == NO_GROUP {
            if state == JobState::Leased {
                self.retier(queue, NO_GROUP);
            }
            return;
        }
        let waits = matches!(state, JobState::Delayed | JobState::Ready);
        let begun = waits && self.jobs.has_begun(index);
        let (queue_ref, _, _, chunks) = self.parts(queue);
        queue_ref.groups.as_mut().expect("it has groups").count(group, state, begun, by);
        if state == JobState::Leased || begun {
            queue_ref.retier(chunks, group);
        }
    }

    /// Puts a group where it should stand.
    pub(in crate::engine::store) fn retier(&mut self, queue: QueueNo, group: u32) {
        let (queue_ref, _, _, chunks) = self.parts(queue);
        queue_ref.retier(chunks, group);
    }

    /// The weight, a limit or the rate of a group is another: what it has given may be a whole stint now.
    pub(super) fn reset_group(&mut self, queue: QueueNo, group: u32, now: Micros) {
        self.repace(queue, group, now);
        self.retier(queue, group);
        let (queue_ref, _, _, chunks) = self.parts(queue);
        let stint = queue_ref.stint(group);
        queue_ref.ready.end_stints(chunks, group, stint);
    }

    /// The lane of a ready job, before it is taken.
    pub(in crate::engine::store) fn lane_of(&self, queue: QueueNo, index: JobIndex) -> LaneOf {
        let group = self.jobs.group(index);
        let (priority, stint) = (self.jobs.get(index).priority, self.queue(queue).stint(group));
        LaneOf { group, priority, stint }
    }

    /// A job was taken from a lane. It may not be in memory any more, nor its group.
    pub(in crate::engine::store) fn note_served(&mut self, queue: QueueNo, lane: LaneOf) {
        let (queue_ref, _, _, chunks) = self.parts(queue);
        let LaneOf { group, priority, stint } = lane;
        queue_ref.ready.note_served(chunks, group, priority, stint);
    }

    /// The tiers of all groups may be others from here on: those that wait move in their order.
    pub(in crate::engine::store) fn begin_review(&mut self, queue: QueueNo, now: Micros) {
        let (queue_ref, _, _, chunks) = self.parts(queue);
        let Some(groups) = &mut queue_ref.groups else { return };
        groups.review = Some(NO_GROUP);
        let at_once = if groups.paced > 0 { PACED_AT_ONCE } else { REVIEWED_AT_ONCE };
        let waiting: Vec<u32> = queue_ref.ready.groups(chunks).take(at_once).collect();
        waiting.into_iter().for_each(|group| self.reset_group(queue, group, now));
        self.review(queue, REVIEWED_FIRST, now);
    }

    /// While groups are being asked for their tier: puts those in front into theirs, so that no limit is passed. False if
    /// there are too many for once.
    pub fn review_front(&mut self, queue: QueueNo, now: Micros) -> bool {
        for _ in 0..REVIEWED_IN_FRONT {
            let of = self.queue(queue);
            let reviewed = of.groups.as_ref().is_none_or(|groups| groups.review.is_none());
            let front = of.ready.front_group(of.next_side(), &self.chunks);
            let Some(group) = front.filter(|_| !reviewed) else { return true };
            self.repace(queue, group, now);
            let of = self.queue(queue);
            let groups = of.groups.as_ref().expect("it has groups");
            if of.standing_of(groups, group) == of.tiers(group).own {
                return true;
            }
            self.retier(queue, group);
        }
        false
    }

    /// Goes on to ask groups whether their tier is right, if something has changed for all of them: until that is done
    /// some may come later than they should, or be closed.
    pub fn review(&mut self, queue: QueueNo, count: u32, now: Micros) {
        let groups = self.queue(queue).groups.as_deref();
        let Some((from, end)) = groups.and_then(|groups| Some((groups.review?, groups.end())))
        else {
            return;
        };
        let to = end.min(from.saturating_add(count));
        for number in from..to {
            let groups = self.queue(queue).groups.as_deref();
            let there = groups.and_then(|groups| groups.groups.find(number));
            if number == NO_GROUP || there.is_some_and(|group| !group.name.is_empty()) {
                self.reset_group(queue, number, now);
            }
        }
        if let Some(groups) = &mut self.queue_mut(queue).groups {
            groups.review = Some(to).filter(|to| *to < end);
        }
    }
}
