//! Removing and moving single jobs.

use crate::engine::model::fact::Fact;
use crate::engine::model::reply::Reply;
use crate::engine::model::request::{JobState, Only, QueueName, Side, When};
use crate::engine::model::turn::Outcome;
use crate::engine::step::Step;
use crate::engine::store::Located;
use crate::engine::store::jobs::JobStage;
use crate::error::Error;
use crate::ids::QueueNo;
use crate::time::Millis;

impl Step<'_, '_> {
    pub fn delete(&mut self, name: QueueName<'_>, ids: &[&[u8]]) -> Outcome {
        let mut removed = 0;
        if let Some(queue) = self.queue(name) {
            for id in ids {
                let at = self.store.locate(queue, id);
                let Some(index) = at.index else { continue };
                match self.store.jobs().get(index).stage {
                    JobStage::Leased => {
                        self.remove_successor(queue, at);
                        continue;
                    }
                    // Only the id was taken; it is free again, but no job was removed.
                    JobStage::Window => {}
                    _ => removed += 1,
                }
                self.commit(&Fact::Deleted { queue, id }, at);
            }
            if removed > 0 {
                self.note_place_free(queue);
            }
        }
        self.reply(Reply::Integer(removed))
    }

    pub fn cancel(&mut self, name: QueueName<'_>, id: &[u8], force: bool) -> Outcome {
        let Some((queue, at, index)) = self.find(name, id) else {
            return self.reply(Reply::Nil);
        };
        let state = self.store.jobs().get(index).stage.state();
        if state != Some(JobState::Leased) || force {
            self.commit(&Fact::Deleted { queue, id }, at);
            self.note_place_free(queue);
        } else {
            self.remove_successor(queue, at);
        }
        self.reply(state.map_or(Reply::Nil, Reply::State))
    }

    /// What would follow a leased job does not, while its delivery goes on.
    fn remove_successor(&mut self, queue: QueueNo, at: Located) {
        if let Some(index) = at.index.filter(|index| self.store.successor(*index).is_some()) {
            let id = self.store.id_of(index);
            self.commit(&Fact::SuccessorRemoved { queue, id: &id }, at);
        }
    }

    pub fn reschedule(
        &mut self,
        name: QueueName<'_>,
        id: &[u8],
        when: When,
        only: Only,
    ) -> Result<Outcome, Error> {
        let due = self.live.settings.resolve("when", when, self.now)?;
        let Some((queue, at, index)) = self.find(name, id) else {
            return Ok(self.reply(Reply::Integer(0)));
        };
        let store = &self.store;
        let old = store.due(index);
        let moves = matches!(store.jobs().get(index).stage, JobStage::Delayed | JobStage::Ready)
            && match only {
                Only::Any => true,
                Only::Later => due > old,
                Only::Earlier => due < old,
            };
        if !moves {
            return Ok(self.reply(Reply::Integer(0)));
        }
        let absolute = matches!(when, When::At(_));
        self.give_due(queue, at, due, |ready, left, due| Fact::Rescheduled {
            queue,
            id,
            absolute,
            ready,
            left,
            due,
        });
        Ok(self.reply(Reply::Integer(1)))
    }

    /// Gives a job another due time, by the fact that is made of whether it is ready at once, whether at the head, and
    /// when it is due.
    pub(super) fn give_due<'f>(
        &mut self,
        queue: QueueNo,
        at: Located,
        due: Millis,
        fact: impl FnOnce(bool, bool, Millis) -> Fact<'f>,
    ) {
        let ready = self.ready_at_once(queue, due);
        // It may have been computed turns ago. In a wheel a past time counts as that of the cursor,
        // which moves without facts: after a replay the order could differ.
        let due = if ready { due } else { due.max(self.now.floor()) };
        let left = ready && self.store.queue(queue).due_enters() == Side::Left;
        self.commit(&fact(ready, left, due), at);
        if let Some(index) = at.index.filter(|_| ready) {
            let place = self.store.jobs().get(index).order;
            self.touch(queue, Some(place));
        }
    }
}
