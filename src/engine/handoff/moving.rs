//! Moving a job from one queue to another in one step.

use crate::engine::handoff::TakenJobs;
use crate::engine::journal_room::moving_bytes_max;
use crate::engine::model::request::{Add, QueueName, When};
use crate::engine::model::token;
use crate::engine::step::Step;
use crate::engine::step::add::Arrival;
use crate::engine::step::unsent::Taken;
use crate::engine::step::waiters::Target;
use crate::engine::store::jobs::JobIndex;
use crate::error::Error;
use crate::ids::QueueNo;

impl Step<'_, '_> {
    /// Moves a ready job: it leaves its queue as a popped one, and its body enters the other as a pushed
    /// one. If that queue refuses it, or the journal has no room for it, nothing has changed.
    pub fn move_job(
        &mut self,
        queue: QueueNo,
        index: JobIndex,
        to: &Target,
        on_time: bool,
        batch: &TakenJobs,
    ) -> Result<JobIndex, Error> {
        let name = QueueName { db: self.store.queue(queue).db, name: &to.name };
        let target = self.store.queue_no(name.db, name.name);
        let body_bytes = self.store.jobs().body_bytes(index);
        if target == Some(queue) {
            // Jobs that are moved within one queue do not fill it.
            self.check_admission(queue, 0)?;
        } else {
            let size = std::iter::once(token::ID_BYTES + body_bytes);
            self.check_adding(target, name, size)?;
        }
        let bytes = moving_bytes_max(body_bytes, name.name.len());
        // A waiter leaves alone what the request of this step was promised.
        let fits = if batch.is_waiters() {
            self.live.room.has_room(bytes)
        } else {
            self.live.room.lets_spend(bytes)
        };
        if !fits {
            return Err(self.live.room.shortage().into());
        }
        let Taken::Popped(popped) = self.pop_job(queue, index, on_time) else {
            unreachable!("a popped job is gone");
        };
        let target = target.unwrap_or_else(|| self.bind_queue(name));
        let add = Add::new(name, When::In(0), popped.departed.content().body);
        Ok(self.add_job(&add, 0, target, Arrival::Ready(to.side), None))
    }
}
