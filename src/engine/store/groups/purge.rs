//! All jobs of some states are gone at once, whatever the number of groups.

use crate::engine::model::request::JobState;
use crate::engine::store::Store;
use crate::ids::QueueNo;
use crate::time::Micros;

impl Store {
    /// They are not counted in the queue any more.
    pub(in crate::engine::store) fn purge_groups(
        &mut self,
        queue: QueueNo,
        states: [bool; 4],
        now: Micros,
    ) {
        let Some(groups) = &mut self.queue_mut(queue).groups else { return };
        groups.purges += 1;
        for (purged, _) in groups.purged.iter_mut().zip(states).filter(|(_, goes)| *goes) {
            *purged = groups.purges;
        }
        if states[JobState::Ready as usize] {
            groups.held = 0;
        }
        if states[JobState::Leased as usize] {
            groups.leased = 0;
        }
        // What held some of them back may be gone.
        if states[..JobState::Dead as usize].contains(&true) {
            self.begin_review(queue, now);
        }
    }
}
