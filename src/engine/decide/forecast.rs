//! FORECAST: how many delayed jobs fall due in each of the next spans.

use crate::engine::model::reply::Reply;
use crate::engine::model::request::QueueName;
use crate::engine::model::turn::Outcome;
use crate::engine::step::Step;
use crate::engine::step::forecast::Forecast;
use crate::error::Error;
use crate::limits::{FORECAST_JOBS_PER_TURN, FORECAST_SPANS_MAX, FORECAST_SPANS_PER_TURN};

impl Step<'_, '_> {
    pub fn forecast(
        &mut self,
        name: QueueName<'_>,
        span_ms: u64,
        count: u32,
        schedules: bool,
    ) -> Outcome {
        let number = self.queue(name);
        let (client, alone) = (self.client, self.alone);
        let begun = self.live.forecast.take_if(|begun| alone && begun.client == client);
        let Some(number) = number else {
            return self.reply(Reply::Counts(&vec![0; count as usize]));
        };
        let queue = self.store.queue(number);
        let all = queue.schedules.as_ref().map_or(0, |all| all.len() as u64);
        if schedules && begun.is_none() && all * u64::from(count) > FORECAST_SPANS_MAX {
            let max = FORECAST_SPANS_MAX / all;
            return self.refuse(&Error::text(format!(
                "ERR n is {count}; with SCHEDULES it is at most {max} here, as the queue has {all} schedules"
            )));
        }
        // One whose queue was removed meanwhile begins anew.
        let begun = begun.filter(|begun| begun.is_of(queue));
        let begin = || Box::new(Forecast::new(client, queue, self.now, span_ms, count));
        let mut forecast = begun.unwrap_or_else(begin);
        // A transaction cannot be interrupted; what it may look at is bounded before.
        let jobs_max = if alone { FORECAST_JOBS_PER_TURN } else { usize::MAX };
        let short = queue.table.len() <= FORECAST_JOBS_PER_TURN;
        let short = short && (!schedules || queue.schedules.is_none());
        if alone && !short && self.live.forecast.is_some() {
            return Outcome::Again;
        }
        let spans_max = if alone { FORECAST_SPANS_PER_TURN } else { u32::MAX };
        let counted = forecast.count_slice(self.store, jobs_max)
            && (!schedules || self.forecast_schedules(&mut forecast, spans_max));
        if !counted {
            self.live.forecast = Some(forecast);
            return Outcome::Again;
        }
        self.reply(Reply::Counts(&forecast.counts))
    }
}
