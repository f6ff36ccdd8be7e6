//! Looking at all queues of a database: QUEUES, FIND. Queues that are there throughout are met once.

use crate::engine::model::across::{FoundJob, Locate, QueueRow, Queues, Readable};
use crate::engine::model::reply::Reply;
use crate::engine::model::turn::Outcome;
use crate::engine::step::Step;
use crate::engine::step::across::{Across, Ranking, Rows, Share, key_of};
use crate::engine::step::slice::{Unfinished, resumed};
use crate::ids::{Db, QueueNo};
use crate::limits::SURVEY_STEPS_PER_QUEUE;

impl Step<'_, '_> {
    pub fn queues(&mut self, of: &Queues<'_>) -> Outcome {
        let begun = self.take_across(of.readable);
        let mut walk =
            begun.filter(|walk| matches!(walk.rows, Rows::Queues(_))).unwrap_or_else(|| {
                Box::new(Across::new(of.readable, Rows::Queues(Ranking::new(of.count))))
            });
        let mut share = Share::new(self.alone);
        while let Some(number) = walk.next(self.store, of.db, &mut share) {
            let Rows::Queues(ranking) = &mut walk.rows else { break };
            self.rank(number, of, ranking, &mut share);
        }
        if !walk.is_over(self.store, of.db) {
            return self.again(Unfinished::Across(walk));
        }
        let Rows::Queues(ranking) = walk.rows else { return self.reply(Reply::Queues(&[])) };
        let mut rows = ranking.finish();
        let now = self.now.floor();
        for row in &mut rows {
            row.oldest_ready_age_ms = row.oldest_ready.map(|due| now.0.saturating_sub(due.0));
        }
        self.reply(Reply::Queues(&rows))
    }

    /// Takes the queue into the rows if it belongs there.
    fn rank(
        &mut self,
        number: QueueNo,
        of: &Queues<'_>,
        ranking: &mut Ranking<QueueRow>,
        share: &mut Share,
    ) {
        let queue = self.store.queue(number);
        if of.after.is_some_and(|after| *queue.name <= *after) {
            return;
        }
        // Patterns last: they take the longest.
        let key = key_of(of.order, self.store, queue);
        let is_admitted = ranking.admits(key, &queue.name, |row| &row.name);
        if is_admitted && share.shows(&queue.name, of.pattern, of.readable) {
            share.take_row();
            let row = self.row_of(number, of.db);
            ranking.insert(key, row);
        }
    }

    fn row_of(&mut self, number: QueueNo, db: Db) -> QueueRow {
        self.store.open_ahead(number, None, 1, &mut SURVEY_STEPS_PER_QUEUE.clone());
        let waiters = self.live.waiters.count(db, &self.store.queue(number).name) as u64;
        self.store.row_of(number, waiters, self.now)
    }

    pub fn locate(&mut self, of: &Locate<'_>) -> Outcome {
        let begun = self.take_across(of.readable);
        let mut walk = begun
            .filter(|walk| matches!(walk.rows, Rows::Found(_)))
            .unwrap_or_else(|| Box::new(Across::new(of.readable, Rows::Found(Vec::new()))));
        let (mut share, hash) = (Share::new(self.alone), self.store.hasher().id(of.id));
        let mut is_full = false;
        while !is_full && let Some(number) = walk.next(self.store, of.db, &mut share) {
            let Some((state, due)) = self.store.find_in(number, hash, of.id) else { continue };
            let name = &self.store.queue(number).name;
            let Rows::Found(found) = &mut walk.rows else { break };
            if share.shows(name, None, of.readable) {
                found.push(FoundJob { queue: name.clone(), state, due });
                is_full = found.len() == of.count as usize;
            }
        }
        if !is_full && !walk.is_over(self.store, of.db) {
            return self.again(Unfinished::Across(walk));
        }
        let Rows::Found(mut found) = walk.rows else { return self.reply(Reply::Found(&[])) };
        found.sort_unstable_by(|one, other| one.queue.cmp(&other.queue));
        self.reply(Reply::Found(&found))
    }

    /// The walk that the client has begun, unless it may read others now than then.
    pub(super) fn take_across(&mut self, readable: Readable<'_>) -> Option<Box<Across>> {
        resumed!(self, Across).filter(|walk| walk.is_for(readable))
    }
}
