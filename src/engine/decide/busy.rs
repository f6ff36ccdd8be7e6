//! Leases and who holds them: BUSY, over one queue or all of a database.

use std::collections::BinaryHeap;

use crate::engine::model::holder::{LeaseRow, LeaseView, ListLeases};
use crate::engine::model::reply::Reply;
use crate::engine::model::request::{JobState, QueueName};
use crate::engine::model::turn::Outcome;
use crate::engine::step::Step;
use crate::engine::step::across::{Across, Rows, Share};
use crate::engine::step::slice::Unfinished;
use crate::engine::store::Store;
use crate::engine::store::jobs::{History, JobIndex};
use crate::ids::QueueNo;
use crate::limits::BUSY_PER_QUEUE;

impl Step<'_, '_> {
    pub fn list_leases(&mut self, of: &ListLeases<'_>) -> Outcome {
        match of.queue {
            Some(name) => self.leases_of(QueueName { db: of.db, name }, of),
            None => self.leases_across(of),
        }
    }

    fn leases_of(&mut self, name: QueueName<'_>, of: &ListLeases<'_>) -> Outcome {
        let (mut share, mut rows) = (Share::new(self.alone), BinaryHeap::new());
        if let Some(number) = self.queue(name)
            && !self.rank_leases(number, of, &mut rows, &mut share)
        {
            return Outcome::Again;
        }
        self.reply_leases(rows)
    }

    fn leases_across(&mut self, of: &ListLeases<'_>) -> Outcome {
        let begun = self.take_across(of.readable);
        let begun = begun.filter(|walk| matches!(walk.rows, Rows::Leases(_)));
        let begin = || Box::new(Across::new(of.readable, Rows::Leases(BinaryHeap::new())));
        let mut walk = begun.unwrap_or_else(begin);
        let mut share = Share::new(self.alone);
        while let Some(number) = walk.next(self.store, of.db, &mut share) {
            let Rows::Leases(rows) = &mut walk.rows else { break };
            if !self.rank_leases(number, of, rows, &mut share) {
                walk.step_back();
                return self.again(Unfinished::Across(walk));
            }
        }
        if !walk.is_over(self.store, of.db) {
            return self.again(Unfinished::Across(walk));
        }
        let Rows::Leases(rows) = walk.rows else { return self.reply(Reply::Leases(&[])) };
        self.reply_leases(rows)
    }

    /// Takes the queue's leases into the rows, as far as they belong there; false if they are not in order yet, which takes
    /// further turns.
    fn rank_leases(
        &mut self,
        number: QueueNo,
        of: &ListLeases<'_>,
        rows: &mut BinaryHeap<LeaseRow>,
        share: &mut Share,
    ) -> bool {
        let queue = self.store.queue(number);
        let is_idle = queue.count(JobState::Leased) == 0;
        if is_idle || !share.shows(&queue.name, None, of.readable) {
            return true;
        }
        // Those before AFTER are passed over.
        let ordered = if of.after.is_some() { BUSY_PER_QUEUE as u32 } else { of.count };
        let mut steps = self.open_steps();
        if !self.store.open_ahead(number, Some(JobState::Leased), ordered, &mut steps) {
            return false;
        }
        let store = &*self.store;
        let queue = store.queue(number);
        for index in queue.leases.iter_front(store.timers()).take(BUSY_PER_QUEUE) {
            share.look(1);
            let (lease_end, id) = (store.timers().due(index), || store.jobs().id(index));
            let last = rows.peek().filter(|_| rows.len() == of.count as usize);
            if last.is_some_and(|last| lease_end > last.lease_end) {
                break;
            }
            let is_before = of.after.is_some_and(|after| {
                lease_end < after.0 || (lease_end, &*queue.name, id()) <= after
            });
            let is_behind = last.is_some_and(|last| {
                (lease_end, &*queue.name, id()) > (last.lease_end, &*last.queue, &*last.id)
            });
            if is_before || is_behind {
                continue;
            }
            share.take_row();
            rows.push(lease_row(store, &queue.name, index));
            if rows.len() > of.count as usize {
                rows.pop();
            }
        }
        true
    }

    fn reply_leases(&mut self, rows: BinaryHeap<LeaseRow>) -> Outcome {
        let rows = rows.into_sorted_vec();
        let holders = &self.live.holders;
        let shown = rows.iter().map(|row| LeaseView { row, holder: holders.get(row.client) });
        let shown: Vec<LeaseView<'_>> = shown.collect();
        self.turn.outbox.reply(self.client, Reply::Leases(&shown));
        Outcome::Replied
    }
}

fn lease_row(store: &Store, queue: &[u8], index: JobIndex) -> LeaseRow {
    let history = store.jobs().history(index);
    LeaseRow {
        lease_end: store.timers().due(index),
        queue: queue.into(),
        id: store.jobs().id(index).into(),
        since: history.and_then(History::delivered).map(|begun| begun.floor()),
        attempt: history.map_or(0, |history| history.attempt),
        client: store.jobs().get(index).holder(),
    }
}
