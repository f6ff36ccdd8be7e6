//! Returning unsent jobs.
//!
//! A connection can turn out closed before the first byte of the reply goes to the kernel. Then what
//! was not sent goes back at once to its old place, uncounted.

use crate::engine::model::fact::{Fact, Image};
use crate::engine::step::Step;
use crate::engine::step::unsent::{Popped, Taken};
use crate::engine::store::jobs::{History, JobIndex, JobStage};
use crate::engine::store::ready::rota::NO_GROUP;
use crate::ids::{QueueNo, Token};
use crate::limits::RETURNED_AT_ONCE;

impl Step<'_, '_> {
    pub fn unsend(&mut self) {
        self.live.unsent.give_back(self.client);
        self.within(RETURNED_AT_ONCE, Step::return_unsent);
        self.hand_off();
    }

    /// Puts back jobs that never left, as far as their facts fit; false if the budget was used up before
    /// that.
    pub fn return_unsent(&mut self) -> bool {
        while let Some(taken) = self.live.unsent.next() {
            if !self.live.room.has_room(taken.returning_bytes_max()) {
                return true;
            }
            if !self.budget.take() {
                return false;
            }
            match self.live.unsent.take_next().expect("it was looked at") {
                Taken::Leased { queue, index, token, delivery, .. } => {
                    if self.take_back_lease(queue, index, token) {
                        self.note_untaken(queue, self.store.jobs().group(index), delivery);
                        self.succeed(queue, index, false);
                    }
                }
                Taken::Popped(popped) => self.take_back_popped(*popped),
            }
        }
        true
    }

    fn take_back_lease(&mut self, queue: QueueNo, index: JobIndex, token: Token) -> bool {
        if !self.store.is_lease(queue, index, token) {
            return false;
        }
        let (id, at) = (self.store.id_of(index), self.store.located(index));
        self.commit(&Fact::Unleased { queue, id: &id }, at);
        self.store.aside_mut(queue).returned += 1;
        self.touch(queue, None);
        true
    }

    fn take_back_popped(&mut self, popped: Popped) {
        let Popped { queue, born, departed, policy, due, delivery } = popped;
        let (job, history) = (&departed.job, departed.history.as_ref());
        // The queue was removed meanwhile, and the job would have gone with it.
        if self.store.bound_queue(queue).is_none_or(|queue| queue.born != born) {
            return;
        }
        let content = departed.content();
        let at = self.store.locate(queue, content.id);
        // Another client has used the id again since: the pop stays, as after a crash.
        if at.index.is_some_and(|index| self.store.jobs().get(index).stage != JobStage::Window) {
            return;
        }
        let policy = self.intern(policy);
        let image = Image {
            id: content.id,
            body: content.body,
            group: content.group_name(),
            meta: content.meta,
            policy,
            priority: job.priority,
            added: job.added,
            due,
            place: job.order,
            history: history.map(|history| {
                let &History { attempt, deliveries, nacks, timeouts, lost, unanswered, .. } =
                    history;
                [attempt, deliveries, nacks, timeouts, lost, unanswered]
            }),
            error: history.and_then(History::error),
        };
        let back = self.commit(&Fact::Unpopped { queue, image }, at).index;
        self.live.room.note_growth();
        let group = back.map_or(NO_GROUP, |index| self.store.jobs().group(index));
        self.note_untaken(queue, group, delivery);
        self.store.aside_mut(queue).returned += 1;
        self.touch(queue, None);
    }
}
