//! A group's share of the consumers: the more leases it has running, the later its tier.

use crate::engine::model::group::LEASES_PER_TIER;
use crate::engine::model::request::JobState;
use crate::engine::store::Store;
use crate::engine::store::groups::{GroupState, Groups};
use crate::engine::store::jobs::JobIndex;
use crate::engine::store::queue::Queue;
use crate::engine::store::ready::rota::{NO_GROUP, Tiers};
use crate::ids::QueueNo;

/// Groups that are asked for their tier at once after a change that concerns all.
const REVIEWED_AT_ONCE: usize = 4_096;
/// Groups that are asked for their tier each time that jobs are taken, after that.
const REVIEWED_A_TAKE: u32 = 256;

/// Where a job stands among the ready ones, and how many its group gives in its turn.
#[derive(Clone, Copy)]
pub(in crate::engine::store) struct LaneOf {
    group: u32,
    priority: u8,
    stint: u32,
}

fn tier(leased: u64, weight: u32) -> u32 {
    (leased / (LEASES_PER_TIER * u64::from(weight))).min(u64::from(u32::MAX)) as u32
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
        Tiers { own: if group == NO_GROUP { rest } else { groups.groups.get(group).tier }, rest }
    }

    /// The tier in which a group should stand.
    fn tier_of(&self, groups: &Groups, group: u32) -> u32 {
        match group {
            NO_GROUP => rest_tier(self.count(JobState::Leased) - groups.leased),
            _ => tier(groups.counts(group)[JobState::Leased as usize], self.stint(group)),
        }
    }
}

impl Groups {
    /// A job of a group has come to a state, or left it.
    fn count(&mut self, number: u32, state: JobState, by: i64) {
        let Groups { groups, purges, purged, leased, .. } = self;
        let GroupState { counts, seen, .. } = groups.get_mut(number);
        for (count, purged) in counts.iter_mut().zip(purged) {
            *count *= u32::from(*purged <= *seen);
        }
        *seen = *purges;
        let count = &mut counts[state as usize];
        *count = count.checked_add_signed(by as i32).expect("counts are never negative");
        if state == JobState::Leased {
            *leased = leased.checked_add_signed(by).expect("counts are never negative");
        }
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
        if group != NO_GROUP {
            let due = self.due(index);
            let queue_ref = self.queue_mut(queue);
            queue_ref.groups.as_mut().expect("it has groups").count(group, state, by);
            if state == JobState::Ready {
                queue_ref.ready.count_due(due, by);
            }
        }
        if state == JobState::Leased {
            self.retier(queue, group);
        }
    }

    /// Puts a group into its tier.
    pub(in crate::engine::store) fn retier(&mut self, queue: QueueNo, group: u32) {
        let (queue_ref, _, _, chunks) = self.parts(queue);
        let Some(groups) = &queue_ref.groups else { return };
        let (is, was) = (queue_ref.tier_of(groups, group), queue_ref.tiers(group).own);
        if is == was {
            return;
        }
        let groups = queue_ref.groups.as_mut().expect("they are there");
        match group {
            NO_GROUP => groups.rest_tier = is,
            _ => groups.groups.get_mut(group).tier = is,
        }
        queue_ref.ready.set_tier(chunks, group, is);
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
    pub(in crate::engine::store) fn begin_review(&mut self, queue: QueueNo) {
        let (queue_ref, _, _, chunks) = self.parts(queue);
        let Some(groups) = &mut queue_ref.groups else { return };
        groups.review = Some(NO_GROUP);
        let waiting: Vec<u32> = queue_ref.ready.groups(chunks).take(REVIEWED_AT_ONCE).collect();
        waiting.into_iter().for_each(|group| self.retier(queue, group));
        self.review(queue, REVIEWED_AT_ONCE as u32);
    }

    /// Goes on to ask groups whether their tier is right, if something has changed for all of them: until that is done
    /// some may come later than they should.
    pub fn review_groups(&mut self, queue: QueueNo) {
        self.review(queue, REVIEWED_A_TAKE);
    }

    fn review(&mut self, queue: QueueNo, count: u32) {
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
                self.retier(queue, number);
            }
        }
        if let Some(groups) = &mut self.queue_mut(queue).groups {
            groups.review = Some(to).filter(|to| *to < end);
        }
    }
}
