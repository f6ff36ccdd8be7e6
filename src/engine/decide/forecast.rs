//! FORECAST: how many delayed jobs fall due in each of the next spans.
//!
//! The wheel keeps no counts, as each would cost a cache miss on every cancel, and the edges of spans
//! hardly ever are those of its slots. So the jobs are counted one by one, in the order of the id index
//! and in slices, while the engine goes on. What is told holds for the instant at which it was begun,
//! X, all the same:
//!
//! ```text
//! index   [ counted ........ | cursor | ........ not yet ]
//! ```
//!
//! a job that stops being delayed before the cursor came to it is counted as it leaves, and one that
//! was delayed after X has a later sequence and is passed over. Growing the index changes no order in
//! it, so every other job is met exactly once.

use crate::engine::model::reply::Reply;
use crate::engine::model::request::QueueName;
use crate::engine::store::Store;
use crate::engine::store::jobs::hash::wide;
use crate::engine::store::jobs::index::cursor_of;
use crate::engine::store::jobs::{JobIndex, Jobs, Stage};
use crate::engine::{Outcome, Step};
use crate::ids::{ClientId, QueueNo};
use crate::limits::FORECAST_JOBS_PER_TURN;
use crate::time::{Micros, Millis};
use crate::wheel::Timers;

/// One that is being made. There is one at a time; who asks meanwhile is asked to come again.
#[derive(Debug)]
pub struct Forecast {
    client: ClientId,
    queue: QueueNo,
    born: u64,
    /// Jobs delayed later, by their sequence, are passed over.
    sequence: i64,
    /// What is due by then is ready, whether it has been swept or not.
    now: Millis,
    /// Where the first span begins: the next full ms, from which relative delays count.
    from: Millis,
    span_ms: u64,
    counts: Vec<u64>,
    /// How far in the id index.
    cursor: u64,
}

impl Forecast {
    /// Whether it is of this queue.
    pub fn is_of(&self, queue: QueueNo) -> bool {
        self.queue == queue
    }

    fn count(&mut self, jobs: &Jobs, timers: &Timers, index: JobIndex) {
        let (job, due) = (jobs.get(index), timers.due(index));
        if job.stage != Stage::Delayed || job.order >= self.sequence || due <= self.now {
            return;
        }
        let span = due.0.saturating_sub(self.from.0 + 1) / self.span_ms;
        let count = usize::try_from(span).ok().and_then(|span| self.counts.get_mut(span));
        if let Some(count) = count {
            *count += 1;
        }
    }
}

impl Store {
    /// Counts a job that stops being delayed for the forecast that is being made, if it would have
    /// come to it.
    #[inline]
    pub(in crate::engine) fn leave_delayed(&mut self, queue: QueueNo, index: JobIndex) {
        if let Some(forecast) = &mut self.forecast
            && forecast.queue == queue
            && cursor_of(wide(self.jobs.get(index).hash)) >= forecast.cursor
        {
            forecast.count(&self.jobs, &self.timers, index);
        }
    }

    /// Gives up the forecast of a client that is gone.
    pub(in crate::engine) fn forget_forecast(&mut self, client: ClientId) {
        if self.forecast.as_ref().is_some_and(|forecast| forecast.client == client) {
            self.forecast = None;
        }
    }

    fn begin_forecast(
        &self,
        client: ClientId,
        number: QueueNo,
        now: Micros,
        span_ms: u64,
        count: u32,
    ) -> Box<Forecast> {
        let queue = self.queue(number);
        Box::new(Forecast {
            client,
            queue: number,
            born: queue.born,
            sequence: queue.sequence,
            now: now.floor(),
            from: now.ceil(),
            span_ms,
            counts: vec![0; count as usize],
            cursor: 0,
        })
    }

    /// Counts about `jobs_max` jobs; true when all are counted.
    fn forecast_slice(&self, forecast: &mut Forecast, jobs_max: usize) -> bool {
        let queue = self.queue(forecast.queue);
        let next = self.scan_jobs(queue, forecast.cursor, jobs_max, |index| {
            forecast.count(&self.jobs, &self.timers, index);
        });
        forecast.cursor = next;
        next == 0
    }
}

impl Step<'_, '_> {
    pub(in crate::engine) fn forecast(
        &mut self,
        name: QueueName<'_>,
        span_ms: u64,
        count: u32,
    ) -> Outcome {
        let Some(number) = self.queue(name) else {
            self.engine.store.forget_forecast(self.client);
            return self.reply(Reply::Counts(&vec![0; count as usize]));
        };
        let jobs = self.engine.store.queue(number).table.len();
        let (client, now, alone) = (self.client, self.now, self.alone);
        let store = &mut self.engine.store;
        let begun = store.forecast.take_if(|begun| alone && begun.client == client);
        // One whose queue was removed meanwhile begins anew.
        let begun =
            begun.filter(|begun| begun.queue == number && begun.born == store.queue(number).born);
        let mut forecast =
            begun.unwrap_or_else(|| store.begin_forecast(client, number, now, span_ms, count));
        // A transaction cannot be interrupted; what it may look at is bounded before.
        let jobs_max = if alone { FORECAST_JOBS_PER_TURN } else { usize::MAX };
        let short = jobs <= FORECAST_JOBS_PER_TURN;
        if alone && !short && store.forecast.is_some() {
            return Outcome::Again;
        }
        if !store.forecast_slice(&mut forecast, jobs_max) {
            store.forecast = Some(forecast);
            return Outcome::Again;
        }
        self.reply(Reply::Counts(&forecast.counts))
    }
}
