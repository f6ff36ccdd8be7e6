//! Whether a job may be taken from a queue now, and whether one may be added. Consulted only when deciding.

use crate::engine::model::request::State;
use crate::engine::{Engine, Turn};
use crate::error::{Error, Shown};
use crate::ids::QueueNo;
use crate::time::Micros;

impl Engine {
    /// Whether settings and pauses let one more job of the queue be taken. One that does not is as
    /// good as empty for whoever takes.
    pub(in crate::engine) fn may_take(&self, number: QueueNo, now: Micros) -> bool {
        let queue = self.store.queue(number);
        !queue.holds_back || queue.gives(now)
    }

    /// A job was handed over.
    pub(in crate::engine) fn note_taken(&mut self, number: QueueNo, now: Micros) {
        let queue = self.store.queue_mut(number);
        if queue.holds_back
            && let Some(rate) = queue.rate()
        {
            queue.pace.take(rate, now);
        }
    }

    /// What was handed over at `at` never left the server.
    pub(in crate::engine) fn note_untaken(&mut self, number: QueueNo, at: Micros) {
        let queue = self.store.queue_mut(number);
        if let Some(rate) = queue.rate() {
            queue.pace.give_back(rate, at);
        }
    }

    /// A lease of the queue has ended: whoever waited for its place may have it.
    pub(in crate::engine) fn note_place_free(&mut self, number: QueueNo) {
        if self.store.queue(number).holds_back {
            self.touch(number, None);
        }
    }

    /// Sees to it that the queue's line is served when the rate allows the next delivery.
    pub(in crate::engine) fn wake_for_rate(&mut self, number: QueueNo, now: Micros) {
        let queue = self.store.queue(number);
        let waits = queue.holds_back && queue.line.is_some() && queue.count(State::Ready) > 0;
        if waits && queue.rate().is_some() && queue.pace.allowed() > now {
            self.store.wake_by(number, queue.pace.allowed().ceil());
        }
    }

    /// Serves those who wait in line before somebody else asks: the rate may allow a delivery
    /// before the queue wakes for it.
    pub(in crate::engine) fn serve_line_first(
        &mut self,
        number: QueueNo,
        now: Micros,
        turn: &mut Turn<'_>,
    ) {
        let queue = self.store.queue(number);
        if queue.holds_back && queue.line.is_some() && queue.count(State::Ready) > 0 {
            self.touch(number, None);
            self.hand_off(now, turn);
        }
    }
}

impl Engine {
    /// Whether the queue takes new jobs, of which there will be `growth` more then.
    pub(in crate::engine) fn check_admission(
        &self,
        number: QueueNo,
        growth: u64,
        now: Micros,
    ) -> Result<(), Error> {
        let queue = self.store.queue(number);
        if queue.pauses.into.holds(now) {
            let left_ms = queue.pauses.into.end().map(|end| end.0 - now.floor().0);
            return Err(Error::Paused { queue: Shown::new(&queue.name), left_ms });
        }
        let Some(settings) = &queue.settings else { return Ok(()) };
        let max = settings.max_jobs.unwrap_or(0);
        let jobs = queue.jobs - queue.count(State::Dead);
        if max > 0 && growth > 0 && jobs.saturating_add(growth) > max {
            return Err(Error::Full { queue: Shown::new(&queue.name), jobs, max });
        }
        Ok(())
    }
}
