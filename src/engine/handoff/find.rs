//! Finding what a request names, due jobs and waiting clients first; and whether a job may be taken from a queue now.

use crate::engine::model::fact::Fact;
use crate::engine::model::request::{JobState, QueueName};
use crate::engine::step::Step;
use crate::engine::step::holders::number_of;
use crate::engine::step::unsent::Delivery;
use crate::engine::store::Located;
use crate::engine::store::jobs::JobIndex;
use crate::engine::store::queue::Use;
use crate::ids::{ClientId, QueueNo};
use crate::limits::CATCH_UP_STEPS;
use crate::time::Micros;

impl Step<'_, '_> {
    /// Whether settings and pauses let one more job of the queue be taken. If they do not,
    /// consumers see an empty queue.
    pub fn may_take(&self, number: QueueNo) -> bool {
        let queue = self.store.queue(number);
        !queue.throttles || queue.gives(self.now) && self.allowed(number) <= self.now
    }

    /// When the queue's rate, if it has one, allows the next delivery.
    fn allowed(&self, number: QueueNo) -> Micros {
        let queue = self.store.queue(number);
        let allowed = queue.aside.pace.allowed().max(self.live.rates_from);
        if queue.rate().is_some() { allowed } else { Micros(0) }
    }

    /// A job was handed over to `client`.
    pub fn note_taken(&mut self, number: QueueNo, client: ClientId) {
        self.store.aside_mut(number).taken = Use::new(self.now, number_of(client));
        let queue = self.store.queue(number);
        if queue.throttles
            && let Some(rate) = queue.rate()
        {
            self.store.aside_mut(number).pace.take(rate, self.now);
        }
    }

    /// The delivery of a job of a group never left the server.
    pub fn note_untaken(&mut self, number: QueueNo, group: u32, delivery: Delivery) {
        let Delivery { at, by_queue, by_group } = delivery;
        if let Some(rate) = self.store.queue(number).rate().filter(|_| by_queue) {
            self.store.aside_mut(number).pace.give_back(rate, at);
        }
        let gave = by_group.then(|| self.store.pace_without(number, group, at)).flatten();
        if let Some(gave) = gave {
            let groups = self.store.queue(number).groups.as_deref().expect("one has a pace");
            let group = &groups.name(group).to_vec();
            self.commit(&Fact::GroupPaced { queue: number, group, gave }, Located::NOTHING);
        }
    }

    /// Sees to it that the queue's line is served when the rate allows the next delivery.
    pub fn wake_for_rate(&mut self, number: QueueNo) {
        let queue = self.store.queue(number);
        let waits =
            queue.throttles && queue.aside.line.is_some() && queue.count(JobState::Ready) > 0;
        let allowed = self.allowed(number);
        if waits && allowed > self.now {
            self.store.wake_by(number, allowed.ceil());
        }
    }

    /// Serves the waiters in line before another client asks: the rate may allow a delivery before
    /// the queue wakes up for it.
    pub fn serve_line_first(&mut self, number: QueueNo) {
        let queue = self.store.queue(number);
        if queue.throttles && queue.aside.line.is_some() && queue.count(JobState::Ready) > 0 {
            self.touch(number, None);
            self.hand_off();
        }
    }
}

impl Step<'_, '_> {
    /// The queue, if its name is bound. Its due jobs are swept first, within a small budget, so that a request at
    /// 12:00:00.000 sees the jobs of 12:00:00.000. Waiting clients get them before the request goes on.
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
