//! Whether a job may be taken from a queue now. Consulted only when deciding.

use crate::engine::model::request::State;
use crate::engine::step::Step;
use crate::ids::QueueNo;
use crate::time::Micros;

impl Step<'_, '_> {
    /// Whether settings and pauses let one more job of the queue be taken. One that does not is as
    /// good as empty for whoever takes.
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

    /// A job was handed over.
    pub fn note_taken(&mut self, number: QueueNo) {
        let queue = self.store.queue(number);
        if queue.throttles
            && let Some(rate) = queue.rate()
        {
            self.store.aside_mut(number).pace.take(rate, self.now);
        }
    }

    /// The instant by which a delivery of now is known to the rate; 0 if there is none that counts it.
    pub fn counted_at(&self, number: QueueNo) -> Micros {
        self.store.queue(number).rate().map_or(Micros(0), |_| self.now)
    }

    /// What was counted at `at` never left the server.
    pub fn note_untaken(&mut self, number: QueueNo, at: Micros) {
        if let Some(rate) = self.store.queue(number).rate() {
            self.store.aside_mut(number).pace.give_back(rate, at);
        }
    }

    /// Sees to it that the queue's line is served when the rate allows the next delivery.
    pub fn wake_for_rate(&mut self, number: QueueNo) {
        let queue = self.store.queue(number);
        let waits = queue.throttles && queue.aside.line.is_some() && queue.count(State::Ready) > 0;
        let allowed = self.allowed(number);
        if waits && allowed > self.now {
            self.store.wake_by(number, allowed.ceil());
        }
    }

    /// Serves those who wait in line before somebody else asks: the rate may allow a delivery
    /// before the queue wakes for it.
    pub fn serve_line_first(&mut self, number: QueueNo) {
        let queue = self.store.queue(number);
        if queue.throttles && queue.aside.line.is_some() && queue.count(State::Ready) > 0 {
            self.touch(number, None);
            self.hand_off();
        }
    }
}
