//! A state that is older than the world, since it was restored from a backup: changed before it is written as a base and
//! loaded anew, never in a running engine.

use crate::engine::model::fact::{Destination, Fact};
use crate::engine::model::leading::Leading;
use crate::engine::store::Store;
use crate::engine::store::jobs::JobIndex;
use crate::ids::QueueNo;
use crate::time::Micros;

impl Store {
    /// No token that was ever handed out is taken any more: since this state was written the job may have been delivered
    /// again, and an older holder must not pass for the newest. Each leased job is ready at its old place, its attempt given
    /// back. Tokens and made ids go on above `floor`. Looks at every job; `now` is the instant of the last fact.
    pub fn void_tokens(&mut self, now: Micros, floor: u64) {
        self.number = self.number.max(floor);
        let queues: Vec<QueueNo> = self.queues().map(|queue| queue.number).collect();
        for queue in queues {
            let leased: Vec<JobIndex> = self.queue(queue).leases.iter(&self.timers).collect();
            for index in leased {
                let (id, at) = (self.id_of(index), self.located(index));
                let (counted, priority) = (false, self.jobs.get(index).priority);
                let (error, to) = (None, Destination::Ready);
                let fact = Fact::Nacked { queue, id: &id, counted, priority, error, to };
                self.apply_at(now, &fact, at);
            }
            // A lease that has run out left a token that still serves for ACK.
            let jobs: Vec<JobIndex> = self.queue(queue).table.iter().collect();
            for index in jobs {
                if self.jobs.history(index).is_some() {
                    self.jobs.history_mut(index).0.token = 0;
                }
            }
        }
    }

    /// Nothing is left of the cluster whose state it was: a server alone knows no leader, and the first leader of another
    /// cluster counts its epochs anew.
    pub fn forget_leading(&mut self) {
        self.leading = Leading::default();
    }
}
