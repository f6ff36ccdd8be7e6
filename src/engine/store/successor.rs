//! A newer version of a leased job, which waits until the delivery ends. It is in no state and no limit until then;
//! its memory and its image count as the leased job's, so that whatever removes that one removes both.

use crate::engine::model::fact::Fact;
use crate::engine::store::Store;
use crate::engine::store::jobs::{JobIndex, Successor};
use crate::engine::store::memory::Footprint;
use crate::engine::store::ready::side_of;
use crate::ids::QueueNo;
use crate::time::Millis;

impl Store {
    /// What follows the job, if it is leased and something does.
    pub fn successor(&self, index: JobIndex) -> Option<&Successor> {
        self.jobs.history(index)?.successor.as_deref()
    }

    /// Lets what `fact` says follow a leased job.
    pub(super) fn set_successor(&mut self, queue: QueueNo, index: JobIndex, fact: &Fact<'_>) {
        let Fact::SuccessorSet { policy, priority, added, due, body, group, meta, .. } = *fact
        else {
            unreachable!("called for a job that is to follow");
        };
        let (group, meta, body) = (group.map(Box::from), meta.into(), body.into());
        self.policies.take(policy);
        let new = Successor { policy, priority, added, due, group, meta, body };
        self.replace_successor(queue, index, Some(Box::new(new)));
    }

    /// Lets another one follow instead, or none.
    pub(super) fn replace_successor(
        &mut self,
        queue: QueueNo,
        index: JobIndex,
        new: Option<Box<Successor>>,
    ) {
        let old = self.change_successor(queue, index, new);
        old.into_iter().for_each(|old| self.policies.release(old.policy));
    }

    /// The job, whose delivery has ended, is gone, and what follows it is ready or delayed.
    pub(super) fn succeed(
        &mut self,
        (queue, index): (QueueNo, JobIndex),
        hash: u32,
        id: &[u8],
        (ready, left): (bool, bool),
        at: Millis,
    ) -> JobIndex {
        let next = self.change_successor(queue, index, None).expect("something follows the job");
        self.drop_job(queue, index, Millis(0), at);
        let Successor { policy, priority, added, due, group, meta, body } = *next;
        let content = self.content(queue, id, group.as_deref(), meta.get(), &body);
        let index = self.enter_job(queue, content, (policy, priority, hash), added);
        self.policies.release(policy);
        // A time in the past is now, as of any job that is added: it has kept nobody waiting that it follows another.
        let due = due.max(at);
        if ready {
            self.make_ready(queue, index, side_of(left), due, at);
        } else {
            self.delay(queue, index, due, at);
        }
        index
    }

    /// Exchanges what follows, and counts its size among the jobs in the state of the one before it.
    fn change_successor(
        &mut self,
        queue: QueueNo,
        index: JobIndex,
        new: Option<Box<Successor>>,
    ) -> Option<Box<Successor>> {
        let footprint = |store: &Store| Footprint::at(&store.jobs, index);
        let before = footprint(self);
        let old = std::mem::replace(&mut self.jobs.history_mut(index).0.successor, new);
        let (after, stage) = (footprint(self), self.jobs.get(index).stage);
        self.uncount_bytes(queue, before);
        self.count_bytes(queue, after);
        let of_stage = self.queue_mut(queue).footprints.of(stage);
        of_stage.remove(before);
        of_stage.add(after);
        old
    }
}
