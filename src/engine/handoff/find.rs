//! Finding what a request names. What is due there comes first, and who waits for it.

use crate::engine::model::request::QueueName;
use crate::engine::step::Step;
use crate::engine::store::Located;
use crate::engine::store::jobs::JobIndex;
use crate::ids::QueueNo;
use crate::limits::CATCH_UP_STEPS;

impl Step<'_, '_> {
    /// The queue, if its name is bound. What has fallen due in it is swept first, within a small
    /// budget, so that a request at 12:00:00.000 sees the jobs of 12:00:00.000. Whoever waits for it
    /// gets it before the request goes on.
    pub fn queue(&mut self, name: QueueName<'_>) -> Option<QueueNo> {
        let likely = self.live.likely_queue;
        let number = match self.store.bound_queue(likely) {
            Some(queue) if queue.db == name.db && *queue.name == *name.name => likely,
            _ => self.store.queue_no(name.db, name.name)?,
        };
        self.live.likely_queue = number;
        // In a transaction no time passes: it happens at one instant.
        if !self.live.in_transaction && self.catch_up(number) && self.alone {
            self.hand_off();
        }
        Some(number)
    }

    /// The queue and the job, if there is one (or a window) with this id.
    pub fn find(&mut self, name: QueueName<'_>, id: &[u8]) -> Option<(QueueNo, Located, JobIndex)> {
        let number = self.queue(name)?;
        let at = self.store.locate(number, id);
        Some((number, at, at.index?))
    }

    /// Sweeps what is due now in a queue, within what requests may still do of it in this turn; false
    /// if nothing is due, or no time passes.
    pub fn catch_up(&mut self, number: QueueNo) -> bool {
        let due = self.store.queue(number).wake <= self.now.floor();
        if !due || !self.live.room.lets_time_pass() {
            return false;
        }
        let steps = self.live.slack.min(CATCH_UP_STEPS);
        let (_, used) = self.within(steps, |step| step.sweep(number));
        self.live.slack -= used;
        true
    }
}
