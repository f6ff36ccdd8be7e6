//! Views of jobs and queues.

use crate::engine::model::across::QueueRow;
use crate::engine::model::group::GroupRow;
use crate::engine::model::reply::{Glimpse, JobView};
use crate::engine::model::request::JobState;
use crate::engine::model::stats::StatsView;
use crate::engine::store::Store;
use crate::engine::store::jobs::{Content, History, JobIndex};
use crate::ids::{QueueNo, Token};
use crate::time::{Micros, Millis};

impl Store {
    /// A queue's statistics, but for its last clients. Unless it was opened, the next due time is a lower bound.
    pub fn stats_of(&self, number: QueueNo, waiters: u64, now: Micros) -> StatsView {
        let queue = self.queue(number);
        let first = queue.delayed.iter_front(&self.timers).next();
        let first = first.map(|index| self.timers.due(index));
        let oldest = self.oldest_ready_due(queue);
        let lateness = queue.lateness.as_deref();
        StatsView {
            delayed: queue.count(JobState::Delayed),
            ready: queue.count(JobState::Ready),
            leased: queue.count(JobState::Leased),
            dead: queue.count(JobState::Dead),
            bytes: queue.bytes,
            waiters,
            paused: queue.pauses.word(now),
            next_due: first.or_else(|| queue.delayed.next_wakeup(&self.timers)),
            oldest_ready_age_ms: oldest.map(|due| now.floor().0.saturating_sub(due.0)),
            lateness_us: lateness.map_or([0; 4], |lateness| {
                let [p50, p99, p999] = [500, 990, 999].map(|share| lateness.percentile(share));
                [p50, p99, p999, lateness.max()]
            }),
            totals: queue.totals,
            schedules: queue.schedules.as_ref().map_or(0, |all| all.len() as u64),
            made: queue.schedules.as_ref().map_or(0, |all| all.made),
            missed: queue.schedules.as_ref().map_or(0, |all| all.missed),
            groups: queue.groups.as_ref().map_or(0, |all| all.len() as u64),
            groups_closed: queue.groups.as_ref().map_or(0, |all| all.held),
            last_reserve: None,
            last_ack: None,
        }
    }

    /// The same as a row of all queues, without the fields that take long to compute; the caller, which has all rows,
    /// computes the age.
    pub fn row_of(&self, number: QueueNo, waiters: u64, now: Micros) -> QueueRow {
        let queue = self.queue(number);
        let first = queue.delayed.iter_front(&self.timers).next();
        let first = first.map(|index| self.timers.due(index));
        let lateness = queue.lateness.as_deref();
        QueueRow {
            name: queue.name.clone(),
            counts: queue.counts,
            waiters,
            paused: queue.pauses.word(now),
            next_due: first.or_else(|| queue.delayed.next_wakeup(&self.timers)),
            oldest_ready: self.oldest_ready_due(queue),
            oldest_ready_age_ms: None,
            bytes: queue.bytes,
            lateness_p99_us: lateness.map_or(0, |lateness| lateness.percentile(990)),
            schedules: queue.schedules.as_ref().map_or(0, |all| all.len() as u64),
            groups: queue.groups.as_ref().map_or(0, |all| all.len() as u64),
            last_reserve: queue.aside.taken.at(),
        }
    }

    /// A group as a row of all of its queue.
    pub fn group_row_of(&self, number: QueueNo, group: u32, now: Micros) -> Option<GroupRow> {
        let queue = self.queue(number);
        let groups = queue.groups.as_ref()?;
        let oldest = self.oldest_ready_due_of(queue, group);
        Some(GroupRow {
            name: groups.name(group).into(),
            counts: groups.counts(group),
            state: queue.group_state(groups, group),
            oldest_ready_age_ms: oldest.map(|due| now.floor().0.saturating_sub(due.0)),
        })
    }

    /// The state and the due time of the job with this id, whose hash is known. Cost: two cache misses, one more if it
    /// exists.
    pub fn find_in(&self, number: QueueNo, hash: u32, id: &[u8]) -> Option<(JobState, Millis)> {
        let index = self.locate_hashed(number, hash, id)?;
        Some((self.jobs.get(index).stage.state()?, self.due(index)))
    }

    /// Brings the next `count` timers of a state into order, if `steps` suffice for that.
    pub fn open_ahead(
        &mut self,
        number: QueueNo,
        state: Option<JobState>,
        count: u32,
        steps: &mut u32,
    ) -> bool {
        let (queue, _, timers, _) = self.parts(number);
        let wheel = match state {
            None | Some(JobState::Delayed) => &mut queue.delayed,
            Some(JobState::Leased) => &mut queue.leases,
            Some(JobState::Ready | JobState::Dead) => return true,
        };
        wheel.open_ahead(timers, count as usize, steps)
    }

    pub fn glimpse(&self, index: JobIndex, state: JobState) -> Glimpse<'_> {
        let Content { id, body, .. } = self.jobs.content(index);
        Glimpse { id, state, due: self.due(index), body }
    }

    pub fn view(&self, index: JobIndex, state: JobState) -> JobView<'_> {
        let (job, policy, due) = (self.jobs.get(index), self.policy(index), self.due(index));
        let history = self.jobs.history(index);
        let count = |of: fn(&History) -> u32| history.map_or(0, of);
        let lease = history
            .filter(|_| state == JobState::Leased)
            .map(|history| (Token(history.token), self.timers.due(index), history.bound));
        let waits = matches!(state, JobState::Delayed | JobState::Ready);
        let expires = self.expiry(index).filter(|_| waits).unwrap_or_default();
        let content = self.jobs.content(index);
        JobView {
            id: content.id,
            state,
            body: content.body,
            due,
            added: job.added,
            priority: job.priority,
            attempt: count(|history| history.attempt),
            attempts_max: policy.attempts,
            deliveries: count(|history| history.deliveries),
            nacks: count(|history| history.nacks),
            timeouts: count(|history| history.timeouts),
            lost: count(|history| history.lost),
            backoff: policy.backoff.to_string(),
            lease_ms: policy.lease_ms,
            ttl_ms: policy.ttl_ms,
            expires,
            unique_ms: policy.unique_ms,
            lease,
            death: history.and_then(History::death),
            errors: history.and_then(|history| history.errors.as_ref()),
            latest: history.and_then(|history| Some(history.successor.as_ref()?.due)),
            group: content.group_name(),
            meta: content.meta,
        }
    }
}
