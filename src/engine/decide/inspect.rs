//! Looking without changing: GET, STATS, LEN, PEEK, SCAN.

use crate::engine::model::reply::Reply;
use crate::engine::model::request::{QueueName, State};
use crate::engine::model::stats::StatsView;
use crate::engine::model::turn::Outcome;
use crate::engine::step::Step;
use crate::engine::step::slice::Slice;
use crate::engine::store::jobs::JobIndex;
use crate::glob;
use crate::limits;

impl Step<'_, '_> {
    /// A transaction cannot be interrupted. What it has added itself since it was prepared is
    /// bounded by its length.
    fn open_steps(&self) -> u32 {
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

    pub fn len(&mut self, name: QueueName<'_>, state: Option<State>) -> Outcome {
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
        let view = self.store.stats_of(number, waiters, self.now);
        self.reply(Reply::Stats(&view))
    }

    pub fn peek(&mut self, name: QueueName<'_>, state: Option<State>, count: u32) -> Outcome {
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
                bytes += store.jobs().get(index).data_bytes();
                glimpses.push(store.glimpse(index, state));
            }
        };
        for state in state.map_or(vec![State::Ready, State::Delayed], |state| vec![state]) {
            match state {
                State::Ready => {
                    let (from, jobs) = (queue.next_side(), store.jobs());
                    show(state, &mut queue.ready.iter(from, jobs, store.chunks()));
                }
                State::Dead => show(state, &mut queue.dead.iter(store.chunks())),
                State::Delayed => show(state, &mut queue.delayed.iter_front(store.timers())),
                State::Leased => show(state, &mut queue.leases.iter_front(store.timers())),
            }
        }
        self.turn.outbox.reply(self.client, Reply::Peeked(&glimpses));
        Outcome::Replied
    }

    pub fn scan(
        &mut self,
        name: QueueName<'_>,
        cursor: u64,
        state: Option<State>,
        pattern: Option<&[u8]>,
        count: u32,
    ) -> Outcome {
        let Some(number) = self.queue(name) else { return self.reply(Reply::Scanned(0, &[])) };
        let (store, mut glimpses) = (&*self.store, Vec::new());
        let (queue, jobs) = (store.queue(number), store.jobs());
        let mut slice = Slice::new(cursor, count as usize, pattern);
        slice.go(|cursor, count, steps| {
            store.scan_jobs(queue, cursor, count, |index| {
                let Some(is) = jobs.get(index).stage.state() else { return };
                let mut fits = |pattern| glob::matches_counted(pattern, jobs.id(index), steps);
                if state.is_none_or(|state| state == is) && pattern.is_none_or(&mut fits) {
                    glimpses.push(store.glimpse(index, is));
                }
            })
        });
        self.turn.outbox.reply(self.client, Reply::Scanned(slice.cursor(), &glimpses));
        Outcome::Replied
    }
}
