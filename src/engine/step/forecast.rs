//! A forecast that is being made: how many delayed jobs fall due in each of the next spans.
//!
//! The wheel keeps no counts, because each would cost a cache miss on every cancel, and the edges of spans rarely match
//! those of its slots. So the jobs are counted one by one, in the order of the id index and in slices, while the engine
//! goes on. The result is still exact for the instant at which counting began, X:
//!
//! ```text
//! index   [ counted ........ | place | ........ not yet ]
//! ```
//!
//! a job that stops being delayed before the place came to it is counted as it leaves, and one that
//! was delayed after X has a later sequence and is passed over. Growing the index changes no order in
//! it, so every other job is met exactly once.

use crate::engine::model::fact::Fact;
use crate::engine::step::Step;
use crate::engine::step::schedule::times::Times;
use crate::engine::store::jobs::hash::wide;
use crate::engine::store::jobs::index::place_of;
use crate::engine::store::jobs::{JobIndex, JobStage};
use crate::engine::store::queue::Queue;
use crate::engine::store::schedules::Schedule;
use crate::engine::store::{Located, Store};
use crate::ids::{ClientId, QueueNo, ScheduleNo};
use crate::time::{Micros, Millis};

/// There is one at a time; other clients are asked to repeat their request.
#[derive(Debug)]
pub struct Forecast {
    pub client: ClientId,
    queue: QueueNo,
    born: u64,
    /// Jobs delayed later, by their sequence, are passed over.
    sequence: i64,
    /// A job that is due by then is ready, whether it has been swept or not.
    now: Millis,
    /// Where the first span begins: the next full ms, from which relative delays count.
    from: Millis,
    span_ms: u64,
    pub counts: Vec<u64>,
    place: u64,
    jobs_counted: bool,
    /// The schedules from this one on are yet to be counted; of that one, instants after this.
    schedule: ScheduleNo,
    counted: Option<(Millis, u64)>,
}

impl Forecast {
    pub fn new(client: ClientId, queue: &Queue, now: Micros, span_ms: u64, count: u32) -> Forecast {
        Forecast {
            client,
            queue: queue.number,
            born: queue.born,
            sequence: queue.sequence,
            now: now.floor(),
            from: now.ceil(),
            span_ms,
            counts: vec![0; count as usize],
            place: 0,
            jobs_counted: false,
            schedule: ScheduleNo(0),
            counted: None,
        }
    }

    /// Whether it is of this queue, and not of another that had its number.
    pub fn is_of(&self, queue: &Queue) -> bool {
        self.queue == queue.number && self.born == queue.born
    }

    /// Counts about `jobs_max` jobs; true when all are counted.
    pub fn count_slice(&mut self, store: &Store, jobs_max: usize) -> bool {
        if self.jobs_counted {
            return true;
        }
        let queue = store.queue(self.queue);
        let place = self.place;
        self.place = store.scan_jobs(queue, place, jobs_max, |index| self.count(store, index));
        self.jobs_counted = self.place == 0;
        self.jobs_counted
    }

    /// The span of a future instant; none after the last.
    fn span(&self, due: Millis) -> Option<usize> {
        let span = due.0.saturating_sub(self.from.0 + 1) / self.span_ms;
        usize::try_from(span).ok().filter(|span| *span < self.counts.len())
    }

    fn end(&self, span: usize) -> Millis {
        self.from.plus(self.span_ms.saturating_mul(span as u64 + 1))
    }

    fn count(&mut self, store: &Store, index: JobIndex) {
        let (job, due) = (store.jobs().get(index), store.timers().due(index));
        if job.stage != JobStage::Delayed || job.order >= self.sequence || due <= self.now {
            return;
        }
        if let Some(span) = self.span(due) {
            self.counts[span] += 1;
        }
    }
}

impl Step<'_, '_> {
    /// Counts what is to come of the schedules, in about `spans_max` spans; true when all is counted.
    pub fn forecast_schedules(&self, forecast: &mut Forecast, spans_max: u32) -> bool {
        let mut left = spans_max;
        let Some(schedules) = self.store.queue(forecast.queue).schedules.as_deref() else {
            return true;
        };
        for schedule in schedules.from(forecast.schedule) {
            if left == 0 {
                return false;
            }
            left -= 1;
            if schedule.number != forecast.schedule {
                (forecast.schedule, forecast.counted) = (schedule.number, None);
            }
            if let Ok(times) = self.times(schedule)
                && !self.forecast_schedule(forecast, schedule, &times, &mut left)
            {
                return false;
            }
            (forecast.schedule, forecast.counted) = (ScheduleNo(schedule.number.0 + 1), None);
        }
        true
    }

    fn forecast_schedule(
        &self,
        forecast: &mut Forecast,
        schedule: &Schedule,
        times: &Times,
        left: &mut u32,
    ) -> bool {
        let Some(first) = schedule.next() else { return true };
        let runs = schedule.runs_left().unwrap_or(u64::MAX);
        let is_due = first.due <= forecast.now;
        let before = if is_due { times.newest_due(forecast.now) } else { None };
        let before = before.unwrap_or(Millis(first.nominal.0 - 1));
        let (mut after, mut runs) = forecast.counted.unwrap_or((before, runs));
        loop {
            let next = times.next(after).filter(|_| runs > 0);
            let Some((next, span)) = next.and_then(|next| Some((next, forecast.span(next.due)?)))
            else {
                return true;
            };
            if *left == 0 {
                forecast.counted = Some((after, runs));
                return false;
            }
            *left -= 1;
            // All that is due by the end of the span.
            let (newest, count) = times.due_within(next, forecast.end(span));
            let count = count.min(runs);
            forecast.counts[span] += count;
            (after, runs) = (newest, runs - count);
        }
    }
}

/// A fact is about to be applied: a delayed job that it names stops being delayed, or continues with another sequence.
/// Purged jobs are not reported.
pub fn pass(forecast: &mut Option<Box<Forecast>>, store: &Store, fact: &Fact<'_>, at: Located) {
    match (fact.queue(), at.index) {
        (Some(queue), Some(index)) => pass_job(forecast, store, queue, index),
        (Some(queue), None) if matches!(fact, Fact::Purged { .. }) => {
            forecast.take_if(|forecast| forecast.queue == queue);
        }
        _ => {}
    }
}

/// The same of a job.
pub fn pass_job(
    forecast: &mut Option<Box<Forecast>>,
    store: &Store,
    queue: QueueNo,
    index: JobIndex,
) {
    let forecast = forecast.as_mut().filter(|forecast| forecast.queue == queue);
    let place = place_of(wide(store.jobs().get(index).hash));
    if let Some(forecast) = forecast.filter(|forecast| place >= forecast.place) {
        forecast.count(store, index);
    }
}
