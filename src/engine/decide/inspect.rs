//! Looking without changing: GET, STATS, LEN, PEEK, SCAN, FORECAST.

use crate::engine::decide::filtered::Sieve;
use crate::engine::model::minutes::ListMinutes;
use crate::engine::model::reply::Reply;
use crate::engine::model::request::{JobState, QueueName, Scan};
use crate::engine::model::stats::StatsView;
use crate::engine::model::turn::Outcome;
use crate::engine::model::walk::Cursor;
use crate::engine::step::Step;
use crate::engine::step::across::Share;
use crate::engine::step::forecast::Forecast;
use crate::engine::step::slice::Slice;
use crate::engine::store::jobs::JobIndex;
use crate::error::Error;
use crate::limits::{self, FORECAST_JOBS_PER_TURN, FORECAST_SPANS_MAX, FORECAST_SPANS_PER_TURN};
use std::cmp::Reverse;

impl Step<'_, '_> {
    /// A transaction cannot be interrupted. Its own additions since it was prepared are bounded by
    /// its length.
    pub(super) fn open_steps(&self) -> u32 {
        if self.alone { limits::INSPECT_STEPS_PER_TURN } else { u32::MAX }
    }

    pub fn get(&mut self, name: QueueName<'_>, id: &[u8]) -> Outcome {
        let found = self.find(name, id).and_then(|(_, _, index)| {
            let state = self.store.jobs().get(index).stage.state()?;
            Some((index, state))
        });
        let Some((index, state)) = found else { return self.reply(Reply::NilArray) };
        let view = self.store.view(index, state);
        self.turn.outbox.reply(self.client, Reply::Job(&view));
        Outcome::Replied
    }

    pub fn len(&mut self, name: QueueName<'_>, state: Option<JobState>) -> Outcome {
        let counts = self.queue(name).map_or([0; 4], |number| self.store.queue(number).counts);
        let count = state.map_or(counts.iter().sum(), |state| counts[state as usize]);
        self.reply(Reply::Integer(count as i64))
    }

    pub fn stats(&mut self, name: QueueName<'_>) -> Outcome {
        let number = self.queue(name);
        let waiters = self.live.waiters.count(name.db, name.name) as u64;
        let Some(number) = number else {
            if waiters == 0 {
                return self.reply(Reply::NilArray);
            }
            let view = StatsView { waiters, paused: "no", ..StatsView::default() };
            return self.reply(Reply::Stats(&view));
        };
        if !self.store.open_ahead(number, None, 1, &mut self.open_steps()) {
            return Outcome::Again;
        }
        let mut view = self.store.stats_of(number, waiters, self.now);
        let aside = &self.store.queue(number).aside;
        view.last_reserve = self.live.holders.shown(aside.taken);
        view.last_ack = self.live.holders.shown(aside.acked);
        self.reply(Reply::Stats(&view))
    }

    /// What most jobs are dead of comes first, then what happens most.
    pub fn errors(&mut self, name: QueueName<'_>) -> Outcome {
        let Some(number) = self.queue(name) else { return self.reply(Reply::Errors(&[])) };
        let mut rows: Vec<_> = self.store.queue(number).error_counts().collect();
        rows.sort_unstable_by_key(|row| {
            (row.text.is_none(), Reverse(row.dead), Reverse(row.count), row.text)
        });
        self.turn.outbox.reply(self.client, Reply::Errors(&rows));
        Outcome::Replied
    }

    pub fn list_minutes(&mut self, of: &ListMinutes<'_>) -> Outcome {
        let ListMinutes { db, queue, readable, last, step } = *of;
        let mut share = Share::new(self.alone);
        if queue.is_some_and(|name| !share.shows(name, None, readable)) {
            return self.refuse(&Error::text("NOPERM No permissions to access a key"));
        }
        let number = queue.and_then(|name| self.queue(QueueName { db, name }));
        let rows = match (queue, number) {
            (Some(_), None) => Vec::new(),
            (_, number) => self.store.spans(number, self.now, last, step),
        };
        self.reply(Reply::Minutes(&rows))
    }

    pub fn peek(
        &mut self,
        name: QueueName<'_>,
        state: Option<JobState>,
        count: u32,
        newest: bool,
    ) -> Outcome {
        let Some(number) = self.queue(name) else { return self.reply(Reply::Peeked(&[])) };
        if !self.store.open_ahead(number, state, count, &mut self.open_steps()) {
            return Outcome::Again;
        }
        let (store, count) = (&*self.store, count as usize);
        let queue = store.queue(number);
        let (mut glimpses, mut bytes) = (Vec::new(), 0);
        // Whether the reply has room for more: both in number and in bytes, as in `Batch`.
        let mut show = |state, jobs: &mut dyn Iterator<Item = JobIndex>| {
            for index in jobs {
                if glimpses.len() == count || bytes >= limits::REPLY_BYTES_MAX {
                    return;
                }
                bytes += store.jobs().shown_bytes(index, false);
                glimpses.push(store.glimpse(index, state));
            }
        };
        for state in state.map_or(vec![JobState::Ready, JobState::Delayed], |state| vec![state]) {
            match state {
                JobState::Ready => {
                    show(state, &mut store.ready(queue, queue.next_side()));
                }
                JobState::Dead if newest => show(state, &mut queue.dead.iter_back(store.chunks())),
                JobState::Dead => show(state, &mut queue.dead.iter(store.chunks())),
                JobState::Delayed => show(state, &mut queue.delayed.iter_front(store.timers())),
                JobState::Leased => show(state, &mut queue.leases.iter_front(store.timers())),
            }
        }
        self.turn.outbox.reply(self.client, Reply::Peeked(&glimpses));
        Outcome::Replied
    }

    pub fn scan(&mut self, of: &Scan<'_>) -> Result<Outcome, Error> {
        let from = self.store.hasher().place_at(of.cursor)?;
        let Some(number) = self.queue(of.queue) else {
            return Ok(self.reply(Reply::Scanned(Cursor::END, &[])));
        };
        let (store, mut glimpses) = (&*self.store, Vec::new());
        let queue = store.queue(number);
        let Some(sieve) = Sieve::new(store, number, &of.filter) else {
            return Ok(self.reply(Reply::Scanned(Cursor::END, &[])));
        };
        let mut slice = Slice::new(from, of.count as usize, of.filter.pattern);
        slice.go(|place, count, steps| {
            store.scan_jobs_while(queue, place, count, |index| {
                if let Some(state) = sieve.fits(store, index, steps) {
                    glimpses.push(store.glimpse(index, state));
                }
                // One body may be as long as all that a turn has time for.
                *steps < limits::PATTERN_STEPS_PER_TURN
            })
        });
        let next = store.hasher().cursor_at(slice.place());
        self.turn.outbox.reply(self.client, Reply::Scanned(next, &glimpses));
        Ok(Outcome::Replied)
    }
}

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
                "ERR n is {count}; with SCHEDULES it can be at most {max} here, because the queue has {all} schedules"
            )));
        }
        // A forecast whose queue was removed meanwhile begins again.
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
