//! What is done to many jobs at once: PURGE and REDRIVE.
//!
//! PURGE takes all jobs of a queue that are in some states at once. REDRIVE gives dead jobs another chance: each
//! job is one fact, so a million of them are done in slices over turns, and what was moved stays moved when the client
//! goes away or the journal has no room in between.

use crate::engine::journal_room::SIZES;
use crate::engine::model::fact::Fact;
use crate::engine::model::reply::Reply;
use crate::engine::model::request::{JobState, Purge, QueueName, Redrive, Side, When, Which};
use crate::engine::model::turn::Outcome;
use crate::engine::step::slice::{Redriven, Unfinished};
use crate::engine::step::{Live, Step};
use crate::engine::store::Located;
use crate::engine::store::jobs::JobStage;
use crate::error::Misconf;
use crate::ids::{ClientId, QueueNo};
use crate::limits::{PURGES_MAX, REDRIVEN_PER_TURN};
use crate::time::Millis;

impl Step<'_, '_> {
    pub fn redrive(&mut self, redrive: &Redrive<'_>) -> Outcome {
        let begun = match self.live.unfinished.remove(&self.client) {
            Some(Unfinished::Redrive(begun)) if self.alone => Some(begun),
            _ => None,
        };
        let due = match begun {
            Some(progress) => progress.due,
            None => match self.live.settings.resolve("IN", redrive.when, self.now) {
                Ok(due) => due,
                Err(error) => return self.refuse(&error),
            },
        };
        let moved = begun.map_or(0, |progress| progress.moved);
        let queue = self.queue(redrive.queue);
        // The jobs that were still to be moved went with the queue.
        let same = |queue: &QueueNo| {
            let born = self.store.queue(*queue).born;
            begun.is_none_or(|progress| (progress.queue, progress.born) == (*queue, born))
        };
        let Some(queue) = queue.filter(same) else {
            return self.reply(Reply::Integer(moved as i64));
        };
        match redrive.which {
            Which::Ids(ids) => self.redrive_ids(redrive, queue, due, ids),
            Which::Oldest(count) => {
                let of_queue = self.store.queue(queue);
                let (born, before) = (of_queue.born, of_queue.sequence);
                let fresh = Redriven { queue, born, before, due, moved: 0 };
                let count = count.map_or(u64::MAX, u64::from);
                self.redrive_oldest(redrive, begun.unwrap_or(fresh), count)
            }
        }
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
        let mut steps = 0;
        while progress.moved < count {
            let Some(index) = self.store.oldest_dead(progress.queue) else { break };
            if self.store.jobs().get(index).order >= progress.before {
                break;
            }
            // A transaction cannot be interrupted; what it may move is bounded before.
            if self.alone && steps == REDRIVEN_PER_TURN {
                self.live.unfinished.insert(self.client, Unfinished::Redrive(progress));
                return Outcome::Again;
            }
            // The first was promised its room.
            if steps > 0 && !self.live.room.lets_spend(SIZES.redriven) {
                break;
            }
            let (id, at) = (self.store.id_of(index), self.store.located(index));
            self.redrive_job(redrive, progress.queue, &id, at, progress.due);
            (steps, progress.moved) = (steps + 1, progress.moved + 1);
        }
        self.reply(Reply::Integer(progress.moved as i64))
    }

    fn redrive_job(
        &mut self,
        redrive: &Redrive<'_>,
        queue: QueueNo,
        id: &[u8],
        at: Located,
        due: Millis,
    ) {
        let (ready, keep) = (self.ready_at_once(queue, due), redrive.keep_attempts);
        // It may have been computed turns ago. In a wheel a past time counts as that of the cursor,
        // which moves without facts: after a replay the order could differ.
        let due = if ready { due } else { due.max(self.now.floor()) };
        let absolute = matches!(redrive.when, When::At(_));
        let left = ready && self.store.queue(queue).due_enters() == Side::Left;
        let fact = Fact::Redriven { queue, id, absolute, ready, left, keep_attempts: keep, due };
        self.commit(&fact, at);
        if let Some(index) = at.index.filter(|_| ready) {
            let place = self.store.jobs().get(index).order;
            self.touch(queue, Some(place));
        }
    }
}

impl Live {
    /// The journal refused to let a request go on. How many jobs a REDRIVE has moved until then, if it
    /// moved any and they are safe.
    pub fn broken_off(&mut self, client: ClientId, why: &Misconf) -> Option<u64> {
        match self.unfinished.remove(&client) {
            Some(Unfinished::Redrive(begun)) if matches!(why, Misconf::NoRoom { .. }) => {
                Some(begun.moved)
            }
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
