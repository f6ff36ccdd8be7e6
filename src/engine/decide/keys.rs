//! Queues as keys: EXISTS, DEL, RENAME, FLUSH, KEYS, SCAN.

use crate::engine::model::fact::Fact;
use crate::engine::model::reply::Reply;
use crate::engine::model::request::{JobState, QueueName};
use crate::engine::model::turn::Outcome;
use crate::engine::model::walk::Cursor;
use crate::engine::step::Step;
use crate::engine::step::slice::{Slice, Unfinished, resumed};
use crate::engine::store::Located;
use crate::engine::store::queue::{EarlierPlaces, Queue};
use crate::error::Error;
use crate::glob;
use crate::ids::{Db, QueueNo};
use crate::limits;
use smallvec::SmallVec;

/// Bytes counted for a name in a reply of KEYS, in addition to its own.
const NAME_COST: usize = 24;

/// Queues RANDOMKEY looks at before it looks whether one of them will do.
const RANDOM_STEP: usize = 64;

impl Step<'_, '_> {
    pub fn exists(&mut self, db: Db, queues: &[&[u8]]) -> Outcome {
        // Sweep all of them before counting any: a client that waits for a job of one may move it to another.
        let numbers: SmallVec<[Option<QueueNo>; 4]> =
            queues.iter().map(|name| self.queue(QueueName { db, name })).collect();
        let store = &self.store;
        let exists = |(name, found): (&&[u8], Option<QueueNo>)| {
            let number = found.or_else(|| store.queue_no(db, name));
            number.is_some_and(|number| store.queue(number).exists())
        };
        let count = queues.iter().zip(numbers).map(exists).filter(|exists| *exists).count();
        self.reply(Reply::Integer(count as i64))
    }

    pub fn remove(&mut self, db: Db, queues: &[&[u8]]) -> Outcome {
        let mut count = 0;
        for name in queues {
            // A queue without jobs is not a key, but DEL still removes its totals and windows.
            let Some(queue) = self.store.queue_no(db, name) else { continue };
            count += i64::from(self.store.queue(queue).exists());
            self.commit(&Fact::QueueRemoved { queue }, Located::NOTHING);
        }
        self.reply(Reply::Integer(count))
    }

    pub fn rename(&mut self, db: Db, from: &[u8], name: &[u8], only_new: bool) -> Outcome {
        let exists = |step: &Self, number: &QueueNo| step.store.queue(*number).exists();
        // Sweep this one first: a client that waits for its jobs may take the last one of `from`.
        self.queue(QueueName { db, name });
        let queue = self.queue(QueueName { db, name: from });
        // Look only now: a client that waits for a job of `from` may just have made this queue by moving it here.
        let over = self.store.queue_no(db, name);
        let Some(queue) = queue.filter(|number| exists(self, number)) else {
            return self.refuse(&Error::text("ERR no such key"));
        };
        let renamed = if only_new { Reply::Integer(1) } else { Reply::Ok };
        if only_new && over.is_some_and(|over| exists(self, &over)) {
            return self.reply(Reply::Integer(0));
        }
        if from == name {
            return self.reply(renamed);
        }
        self.commit(&Fact::Renamed { queue, name, over }, Located::NOTHING);
        let line = self.live.waiters.line(db, name);
        let aside = self.store.aside_mut(queue);
        // No client waited under this name when they became ready.
        (aside.line, aside.earlier) = (line, EarlierPlaces::ALL);
        if self.store.queue(queue).count(JobState::Ready) > 0 {
            self.touch(queue, None);
        }
        self.reply(renamed)
    }

    pub fn flush(&mut self, db: Option<Db>) -> Outcome {
        self.commit(&Fact::Flushed { db }, Located::NOTHING);
        self.reply(Reply::Ok)
    }

    pub fn keys(&mut self, db: Db, pattern: &[u8]) -> Outcome {
        let mut walk = resumed!(self, Keys).unwrap_or_default();
        // A transaction cannot be interrupted; what it may look at is bounded before.
        let mut slice = match self.alone {
            true => Slice::new(walk.place, limits::KEYS_PER_TURN, Some(pattern)),
            false => Slice::whole(walk.place),
        };
        slice.go(|place, count, steps| {
            self.store.scan_queues(db, place, count, |queue| {
                if queue.exists() && glob::matches_counted(pattern, &queue.name, steps) {
                    walk.bytes += queue.name.len() + NAME_COST;
                    walk.names.push(queue.name.clone());
                }
            })
        });
        walk.place = slice.place();
        if walk.bytes > limits::REPLY_BYTES_MAX * 4 {
            return self.refuse(&Error::text(format!(
                "ERR KEYS would answer with more than {} bytes; use SCAN",
                limits::REPLY_BYTES_MAX * 4
            )));
        }
        if walk.place > 0 {
            return self.again(Unfinished::Keys(walk));
        }
        let names: Vec<&[u8]> = walk.names.iter().map(|name| &**name).collect();
        self.reply(Reply::Names(&names))
    }

    pub fn scan_queues(
        &mut self,
        db: Db,
        cursor: Cursor,
        pattern: Option<&[u8]>,
        count: u64,
    ) -> Result<Outcome, Error> {
        let from = self.store.hasher().place_at(cursor)?;
        let (store, mut names) = (&self.store, Vec::new());
        // COUNT is a hint: a client that asks for more gets the rest with the next cursor.
        let mut slice = Slice::new(from, count.min(limits::COUNT_MAX) as usize, pattern);
        slice.go(|place, count, steps| {
            store.scan_queues(db, place, count, |queue| {
                let mut fits = |pattern| glob::matches_counted(pattern, &queue.name, steps);
                if queue.exists() && pattern.is_none_or(&mut fits) {
                    names.push(&*queue.name);
                }
            })
        });
        let next = store.hasher().cursor_at(slice.place());
        self.turn.outbox.reply(self.client, Reply::ScannedNames(next, &names));
        Ok(Outcome::Replied)
    }

    pub fn random_queue(&mut self, db: Db, draw: u64) -> Outcome {
        let store = &self.store;
        if store.existing_in(db) == 0 {
            return self.reply(Reply::Nil);
        }
        // From a random point of the hash order on, and from its beginning if nothing follows.
        let mut place = draw >> 7;
        let mut found: Option<&Queue> = None;
        loop {
            // Many at once: there may be one queue with jobs among 100,000 that have none.
            place = store.scan_queues(db, place, RANDOM_STEP, |queue| {
                if queue.exists() && found.is_none() {
                    found = Some(queue);
                }
            });
            if let Some(queue) = found {
                self.turn.outbox.reply(self.client, Reply::Id(&queue.name));
                return Outcome::Replied;
            }
        }
    }

    pub fn memory(&mut self, name: QueueName<'_>) -> Outcome {
        let Some(number) = self.queue(name) else { return self.reply(Reply::Nil) };
        let queue = self.store.queue(number);
        if !queue.exists() {
            return self.reply(Reply::Nil);
        }
        self.reply(Reply::Integer((queue.bytes + queue.own_bytes()) as i64))
    }
}
