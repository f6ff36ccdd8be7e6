//! What is done to many jobs at once: PURGE and REDRIVE.
//!
//! PURGE takes all jobs of a queue that are in some states at once, and those of one group one by one. REDRIVE gives dead jobs another chance: each
//! job is one fact, so a million of them are done in slices over turns, and what was moved stays moved when the client
//! goes away or the journal has no room in between.

use crate::engine::journal_room::SIZES;
use crate::engine::model::fact::Fact;
use crate::engine::model::reply::Reply;
use crate::engine::model::request::{JobState, Purge, QueueName, Redrive, When, Which};
use crate::engine::model::turn::Outcome;
use crate::engine::step::slice::{GroupPurge, Redriven, Unfinished, resumed};
use crate::engine::step::{Live, Step};
use crate::engine::store::Located;
use crate::engine::store::jobs::{JobIndex, JobStage};
use crate::error::{Error, Misconf};
use crate::ids::{ClientId, QueueNo};
use crate::limits::{LOOKED_FOR_GROUP_PER_TURN, PURGES_MAX, REDRIVEN_PER_TURN};
use crate::time::Millis;
use smallvec::SmallVec;

impl Step<'_, '_> {
    pub fn redrive(&mut self, redrive: &Redrive<'_>) -> Result<Outcome, Error> {
        let begun = resumed!(self, Redrive).filter(|_| self.alone);
        let due = match begun {
            Some(progress) => progress.due,
            None => self.live.settings.resolve("IN", redrive.when, self.now)?,
        };
        let moved = begun.map_or(0, |progress| progress.moved);
        let queue = self.queue(redrive.queue);
        // The jobs that were still to be moved went with the queue.
        let same = |queue: &QueueNo| {
            let born = self.store.queue(*queue).born;
            begun.is_none_or(|progress| (progress.queue, progress.born) == (*queue, born))
        };
        let Some(queue) = queue.filter(same) else {
            return Ok(self.reply(Reply::Integer(moved as i64)));
        };
        Ok(match redrive.which {
            Which::Ids(ids) => self.redrive_ids(redrive, queue, due, ids),
            Which::Oldest(count) | Which::InGroup { count, .. } => {
                let of_queue = self.store.queue(queue);
                let (born, before) = (of_queue.born, of_queue.sequence);
                let fresh = Redriven { queue, born, before, due, moved: 0, passed: None };
                let count = count.map_or(u64::MAX, u64::from);
                self.redrive_oldest(redrive, begun.unwrap_or(fresh), count)
            }
        })
    }

    fn redrive_ids(
        &mut self,
        redrive: &Redrive<'_>,
        queue: QueueNo,
        due: Millis,
        ids: &[&[u8]],
    ) -> Outcome {
        let mut moved = 0;
        for id in ids {
            let at = self.store.locate(queue, id);
            let Some(index) = at.index else { continue };
            if self.store.jobs().get(index).stage == JobStage::Dead {
                self.redrive_job(redrive, queue, id, at, due);
                moved += 1;
            }
        }
        self.reply(Reply::Integer(moved))
    }

    fn redrive_oldest(
        &mut self,
        redrive: &Redrive<'_>,
        mut progress: Redriven,
        count: u64,
    ) -> Outcome {
        let (mut steps, mut looked) = (0, 0);
        while progress.moved < count {
            let oldest = match redrive.which {
                Which::InGroup { group, .. } => {
                    self.oldest_dead_of(group, &mut progress, &mut looked)
                }
                _ => self.store.oldest_dead(progress.queue),
            };
            let is_looking = looked == LOOKED_FOR_GROUP_PER_TURN;
            let older = |index: &JobIndex| self.store.jobs().get(*index).order < progress.before;
            let oldest = oldest.filter(older);
            if oldest.is_none() && !is_looking {
                break;
            }
            // A transaction cannot be interrupted; what it may move is bounded before.
            if is_looking || self.alone && steps == REDRIVEN_PER_TURN {
                return self.again(Unfinished::Redrive(progress));
            }
            // The first was promised its room.
            if steps > 0 && !self.live.room.lets_spend(SIZES.redriven) {
                break;
            }
            let Some(index) = oldest else { break };
            let (id, at) = (self.store.id_of(index), self.store.located(index));
            self.redrive_job(redrive, progress.queue, &id, at, progress.due);
            (steps, progress.moved) = (steps + 1, progress.moved + 1);
        }
        self.reply(Reply::Integer(progress.moved as i64))
    }

    /// The next dead job of a group. `None` if the group has no more, or if this turn has already
    /// looked at `LOOKED_FOR_GROUP_PER_TURN` jobs of other groups.
    fn oldest_dead_of(
        &self,
        group: &[u8],
        progress: &mut Redriven,
        looked: &mut usize,
    ) -> Option<JobIndex> {
        let store = &*self.store;
        let number = self.there_in(progress.queue, group, JobState::Dead)?;
        let mut next = store.dead_behind(progress.queue, progress.passed);
        while let Some((index, place)) = next.filter(|_| *looked < LOOKED_FOR_GROUP_PER_TURN) {
            if store.jobs().group(index) == number {
                return Some(index);
            }
            let order = store.jobs().get(index).order;
            (progress.passed, *looked) = (Some((index, order)), *looked + 1);
            next = store.chunks().next(place).filter(|_| order < progress.before);
        }
        None
    }

    fn redrive_job(
        &mut self,
        redrive: &Redrive<'_>,
        queue: QueueNo,
        id: &[u8],
        at: Located,
        due: Millis,
    ) {
        let (keep_attempts, absolute) =
            (redrive.keep_attempts, matches!(redrive.when, When::At(_)));
        self.give_due(queue, at, due, |ready, left, due| Fact::Redriven {
            queue,
            id,
            absolute,
            ready,
            left,
            keep_attempts,
            due,
        });
    }
}

impl Live {
    /// The journal refused to let a request go on. How many jobs it has moved or removed until then, if it takes several
    /// turns and they are safe.
    pub fn broken_off(&mut self, client: ClientId, why: &Misconf) -> Option<u64> {
        match self.unfinished.remove(&client) {
            _ if !matches!(why, Misconf::NoRoom { .. }) => None,
            Some(Unfinished::Redrive(begun)) => Some(begun.moved),
            Some(Unfinished::PurgeGroup(begun)) => Some(begun.removed),
            Some(Unfinished::Bulk(begun)) => Some(begun.done),
            _ => None,
        }
    }
}

impl Step<'_, '_> {
    pub fn purge(&mut self, name: QueueName<'_>, purge: Purge) -> Outcome {
        let Some(queue) = self.queue(name) else { return self.reply(Reply::Integer(0)) };
        let queue_ref = self.store.queue(queue);
        let counts = queue_ref.counts.iter().zip(purge.states);
        let count: u64 = counts.map(|(count, purged)| count * u64::from(purged)).sum();
        if count == 0 && !(purge.windows && queue_ref.windows > 0) {
            return self.reply(Reply::Integer(0));
        }
        if self.alone && queue_ref.purges() >= PURGES_MAX {
            return Outcome::Again;
        }
        self.commit(&Fact::Purged { queue, purge, count }, Located::NOTHING);
        self.go_on_reviewing(queue);
        // Leases that are gone may have been what held the next jobs back.
        if self.store.queue(queue).count(JobState::Ready) > 0 {
            self.touch(queue, None);
        }
        self.reply(Reply::Integer(count as i64))
    }
}

/// Jobs of a group that are removed before the walk goes on.
const PURGED_AT_ONCE: usize = 64;

impl Step<'_, '_> {
    /// The number of a group, if one of its jobs may be in this state.
    fn there_in(&self, queue: QueueNo, group: &[u8], state: JobState) -> Option<u32> {
        let number = self.store.find_group(queue, group)?;
        let groups = self.store.queue(queue).groups.as_deref()?;
        (groups.counts(number)[state as usize] > 0).then_some(number)
    }

    pub fn purge_group(&mut self, name: QueueName<'_>, group: &[u8], states: [bool; 4]) -> Outcome {
        let mut begun = resumed!(self, PurgeGroup);
        if let Some(queue) = self.queue(name) {
            let (born, floors) = (self.store.queue(queue).born, self.store.floors(queue));
            let at = self.now.floor();
            let progress = begun.get_or_insert_with(|| {
                let begun = (at, floors);
                Box::new(GroupPurge { queue, born, begun, place: 0, removed: 0 })
            });
            // Otherwise those that were still to go went with the queue.
            let same = (progress.queue, progress.born) == (queue, born);
            if same && self.purge_group_slice(group, states, progress) {
                let begun = begun.map(Unfinished::PurgeGroup);
                self.live.unfinished.extend(begun.map(|begun| (self.client, begun)));
                return Outcome::Again;
            }
        }
        self.reply(Reply::Integer(begun.map_or(0, |begun| begun.removed) as i64))
    }

    /// True if there is more to do, in the next turn.
    fn purge_group_slice(
        &mut self,
        group: &[u8],
        states: [bool; 4],
        progress: &mut GroupPurge,
    ) -> bool {
        let (queue, mut looked) = (progress.queue, 0);
        while looked < LOOKED_FOR_GROUP_PER_TURN {
            let any = JobState::ALL.into_iter().filter(|state| states[*state as usize]);
            let Some(number) = { any }.find_map(|state| self.there_in(queue, group, state)) else {
                return false;
            };
            let (store, mut found) = (&*self.store, SmallVec::<[JobIndex; PURGED_AT_ONCE]>::new());
            let (at, floors) = &progress.begun;
            let left = LOOKED_FOR_GROUP_PER_TURN - looked;
            let next = store.scan_jobs_while(store.queue(queue), progress.place, left, |index| {
                looked += 1;
                let state = store.jobs().get(index).stage.state();
                let goes = state.is_some_and(|state| states[state as usize]);
                if goes
                    && store.jobs().group(index) == number
                    && store.was_there(index, *at, floors)
                {
                    found.push(index);
                }
                found.len() < PURGED_AT_ONCE
            });
            for index in found {
                let (id, at) = (self.store.id_of(index), self.store.located(index));
                // The first was promised its room.
                if progress.removed > 0 && !self.live.room.lets_end(SIZES.deleted) {
                    return false;
                }
                self.commit(&Fact::Deleted { queue, id: &id }, at);
                progress.removed += 1;
                self.note_place_free(queue);
            }
            progress.place = next;
            if next == 0 {
                return false;
            }
        }
        true
    }
}
