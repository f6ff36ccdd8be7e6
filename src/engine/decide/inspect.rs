//! Looking without changing: GET, STATS, LEN, PEEK, SCAN.

use crate::engine::model::reply::{Glimpse, JobView, Reply};
use crate::engine::model::request::{QueueName, State};
use crate::engine::model::stats::StatsView;
use crate::engine::step::slice::Slice;
use crate::engine::store::jobs::{History, JobIndex};
use crate::engine::{Engine, Outcome, Step};
use crate::glob;
use crate::ids::{QueueNo, Token};
use crate::limits;
use crate::time::Micros;

/// Timers moved per turn to bring the next ones into order before PEEK or STATS can answer: about
/// 100 µs. A queue of 10 M jobs due in one slot takes some thousand turns, between which others
/// are served; the work is not lost, since the timers would have been moved later anyway.
pub(in crate::engine) const OPEN_STEPS: u32 = 2_048;

impl Engine {
    /// A queue's statistics. Unless it was opened, the next due time is a lower bound.
    pub(in crate::engine) fn stats_of(&self, number: QueueNo, now: Micros) -> StatsView {
        let store = &self.store;
        let queue = store.queue(number);
        let first = queue.delayed.iter_front(&store.timers).next();
        let first = first.map(|index| store.timers.due(index));
        let oldest = store.oldest_ready_due(queue);
        let lateness = queue.lateness.as_deref();
        StatsView {
            delayed: queue.count(State::Delayed),
            ready: queue.count(State::Ready),
            leased: queue.count(State::Leased),
            dead: queue.count(State::Dead),
            bytes: queue.bytes,
            waiters: self.waiters.count(queue.db, &queue.name) as u64,
            paused: queue.pauses.word(now),
            next_due: first.or_else(|| queue.delayed.next_wakeup(&store.timers)),
            oldest_ready_age_ms: oldest.map(|due| now.floor().0.saturating_sub(due.0)),
            lateness_us: lateness.map_or([0; 4], |lateness| {
                let [p50, p99, p999] = [500, 990, 999].map(|share| lateness.percentile(share));
                [p50, p99, p999, lateness.max()]
            }),
            totals: queue.totals,
        }
    }

    pub(in crate::engine) fn open(
        &mut self,
        number: QueueNo,
        state: Option<State>,
        count: u32,
        steps: &mut u32,
    ) -> bool {
        let (queue, _, timers, _) = self.store.parts(number);
        let wheel = match state {
            None | Some(State::Delayed) => &mut queue.delayed,
            Some(State::Leased) => &mut queue.leases,
            Some(State::Ready | State::Dead) => return true,
        };
        wheel.open_ahead(timers, count as usize, steps)
    }

    /// What is shown of a job.
    fn glimpse(&self, index: JobIndex, state: State) -> Glimpse<'_> {
        let (id, body) = (self.store.jobs.id(index), self.store.jobs.body(index));
        Glimpse { id, state, due: self.store.due(index), body }
    }

    fn view(&self, index: JobIndex, state: State) -> JobView<'_> {
        let store = &self.store;
        let (job, policy, due) = (store.jobs.get(index), store.policy(index), store.due(index));
        let history = store.jobs.history(index);
        let count = |of: fn(&History) -> u32| history.map_or(0, of);
        let lease = history
            .filter(|_| state == State::Leased)
            .map(|history| (Token(history.token), store.timers.due(index), history.bound));
        let waits = matches!(state, State::Delayed | State::Ready);
        let expires = store.expiry(index).filter(|_| waits).unwrap_or_default();
        JobView {
            id: store.jobs.id(index),
            state,
            body: store.jobs.body(index),
            due,
            added: job.added,
            priority: job.priority,
            attempt: count(|history| history.attempt),
            attempts_max: policy.attempts,
            deliveries: count(|history| history.deliveries),
            nacks: count(|history| history.nacks),
            timeouts: count(|history| history.timeouts),
            lost: count(|history| history.lost),
            backoff: policy.backoff.to_string(),
            lease_ms: policy.lease_ms,
            ttl_ms: policy.ttl_ms,
            expires,
            unique_ms: policy.unique_ms,
            lease,
            death: history.and_then(|history| history.death),
            error: history.and_then(|history| history.error.as_deref()),
        }
    }
}

impl Step<'_, '_> {
    /// A transaction cannot be interrupted. What it has added itself since it was prepared is
    /// bounded by its length.
    fn open_steps(&self) -> u32 {
        if self.alone { OPEN_STEPS } else { u32::MAX }
    }

    pub(in crate::engine) fn get(&mut self, name: QueueName<'_>, id: &[u8]) -> Outcome {
        let found = self.find(name, id).and_then(|(_, _, index)| {
            let state = self.engine.store.jobs.get(index).stage.state()?;
            Some((index, state))
        });
        let Some((index, state)) = found else { return self.reply(Reply::NilArray) };
        let view = self.engine.view(index, state);
        self.turn.outbox.reply(self.client, Reply::Job(&view));
        Outcome::Replied
    }

    pub(in crate::engine) fn len(&mut self, name: QueueName<'_>, state: Option<State>) -> Outcome {
        let counts =
            self.queue(name).map_or([0; 4], |number| self.engine.store.queue(number).counts);
        let count = state.map_or(counts.iter().sum(), |state| counts[state as usize]);
        self.reply(Reply::Integer(count as i64))
    }

    pub(in crate::engine) fn stats(&mut self, name: QueueName<'_>) -> Outcome {
        let waiters = self.engine.waiters.count(name.db, name.name) as u64;
        let Some(number) = self.queue(name) else {
            if waiters == 0 {
                return self.reply(Reply::NilArray);
            }
            let view = StatsView { waiters, paused: "no", ..StatsView::default() };
            return self.reply(Reply::Stats(&view));
        };
        if !self.engine.open(number, None, 1, &mut self.open_steps()) {
            return Outcome::Again;
        }
        let view = self.engine.stats_of(number, self.now);
        self.reply(Reply::Stats(&view))
    }

    pub(in crate::engine) fn peek(
        &mut self,
        name: QueueName<'_>,
        state: Option<State>,
        count: u32,
    ) -> Outcome {
        let Some(number) = self.queue(name) else { return self.reply(Reply::Peeked(&[])) };
        if !self.engine.open(number, state, count, &mut self.open_steps()) {
            return Outcome::Again;
        }
        let (engine, count) = (&*self.engine, count as usize);
        let (store, queue) = (&engine.store, engine.store.queue(number));
        let (mut glimpses, mut bytes) = (Vec::new(), 0);
        // Whether the reply has room for more: both in number and in bytes, as in `Haul`.
        let mut show = |state, jobs: &mut dyn Iterator<Item = JobIndex>| {
            for index in jobs {
                if glimpses.len() == count || bytes >= limits::REPLY_BYTES_MAX {
                    return;
                }
                bytes += store.jobs.get(index).data_bytes();
                glimpses.push(engine.glimpse(index, state));
            }
        };
        for state in state.map_or(vec![State::Ready, State::Delayed], |state| vec![state]) {
            match state {
                State::Ready => {
                    let (from, jobs) = (queue.next_side(), &store.jobs);
                    show(state, &mut queue.ready.iter(from, jobs, &store.chunks));
                }
                State::Dead => show(state, &mut queue.dead.iter(&store.chunks)),
                State::Delayed => show(state, &mut queue.delayed.iter_front(&store.timers)),
                State::Leased => show(state, &mut queue.leases.iter_front(&store.timers)),
            }
        }
        self.turn.outbox.reply(self.client, Reply::Peeked(&glimpses));
        Outcome::Replied
    }

    pub(in crate::engine) fn scan(
        &mut self,
        name: QueueName<'_>,
        cursor: u64,
        state: Option<State>,
        pattern: Option<&[u8]>,
        count: u32,
    ) -> Outcome {
        let Some(number) = self.queue(name) else { return self.reply(Reply::Scanned(0, &[])) };
        let (engine, mut glimpses) = (&*self.engine, Vec::new());
        let queue = engine.store.queue(number);
        let jobs = &engine.store.jobs;
        let mut slice = Slice::new(cursor, count as usize, pattern);
        while let Some(count) = slice.next() {
            let mut steps = 0;
            let cursor = engine.store.scan_jobs(queue, slice.cursor(), count, |index| {
                let Some(is) = jobs.get(index).stage.state() else { return };
                let mut fits = |pattern| glob::matches_counted(pattern, jobs.id(index), &mut steps);
                if state.is_none_or(|state| state == is) && pattern.is_none_or(&mut fits) {
                    glimpses.push(engine.glimpse(index, is));
                }
            });
            slice.looked(cursor, count, steps);
        }
        self.turn.outbox.reply(self.client, Reply::Scanned(slice.cursor(), &glimpses));
        Outcome::Replied
    }
}
