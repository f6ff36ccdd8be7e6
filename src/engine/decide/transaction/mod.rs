//! A transaction, which runs to its end at one instant, or not at all.
//!
//! Before its first command everything is known that could keep one of them from running: what all of
//! them may look at and answer, the journal's room and the memory that they need, and whether a queue
//! takes the jobs that they add. So nothing in between is refused for want of any of that, nothing is
//! cut into slices, and no time passes: what is due in the queues they name has fallen due before, as
//! far as it does before a command, and what is left of it waits until the transaction is over.
//!
//! The counts are upper bounds: a place in a full queue is free for a later command only if an earlier one certainly
//! frees it. So a transaction may be refused that would have succeeded by chance; none is refused half-way.

mod account;
mod answer;
mod plan;

use crate::engine::decide::list::BODIES_BYTES_MAX;
use crate::engine::decide::watch::{Stamp, Watched};
use crate::engine::journal_room::Bound;
use crate::engine::model::request::{JobState, QueueName, Request};
use crate::engine::step::{Live, Step};
use crate::engine::store::Store;
use crate::error::Error;
use crate::ids::QueueNo;
use crate::limits::{INSPECT_STEPS_PER_TURN, TRANSACTION_COST_MAX, TRANSACTION_REPLY_BYTES_MAX};
use crate::time::Micros;
use plan::Plan;
use std::borrow::Cow;

/// The commands of a transaction.
#[derive(Debug)]
pub struct WholeTransaction<'r> {
    /// The engine's requests, in order.
    pub requests: &'r [Cow<'r, Request<'r>>],
    /// Queues that must not have changed since.
    pub watched: &'r [(QueueName<'r>, Stamp)],
    /// The needs of its other commands.
    pub beside: Needs,
    /// Bytes that it may answer: what is between the server and the client hands on no more.
    pub answer_bytes_max: u64,
}

/// The most that a transaction needs.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Needs {
    /// Entries looked at or taken.
    pub entries: u64,
    pub reply_bytes: u64,
    pub largest_bytes: u64,
    /// Bytes of the jobs that it pops: kept until their replies have begun to leave.
    pub unsent_jobs_bytes: u64,
    pub facts_bytes: u64,
}

impl Needs {
    /// One command more.
    pub fn add(&mut self, entries: u64, reply_bytes: u64) {
        self.entries = self.entries.saturating_add(entries);
        self.reply_bytes = self.reply_bytes.saturating_add(reply_bytes);
        self.largest_bytes = self.largest_bytes.max(reply_bytes);
    }

    /// Whether so much may be answered.
    pub fn check_answer(&self, max: u64) -> Result<(), Error> {
        if self.reply_bytes > max {
            return Err(Error::AnswerTooLarge { bytes: self.reply_bytes, max });
        }
        Ok(())
    }

    /// Whether its client may hold so much.
    pub fn check_held(&self, max: u64) -> Result<(), Error> {
        let held_bytes = self.reply_bytes.saturating_add(self.unsent_jobs_bytes);
        if held_bytes > max {
            return Err(Error::TransactionHeld { held_bytes, max });
        }
        Ok(())
    }

    /// Whether the needs are within limits. An answer allowed for a single command is allowed in a
    /// transaction, too.
    pub fn check(&self) -> Result<(), Error> {
        let Needs { entries, reply_bytes, largest_bytes, .. } = *self;
        if entries > TRANSACTION_COST_MAX {
            return Err(Error::TransactionEntries { entries, max: TRANSACTION_COST_MAX });
        }
        let max = TRANSACTION_REPLY_BYTES_MAX;
        if reply_bytes - largest_bytes > max {
            return Err(Error::TransactionReplies { reply_bytes, largest_bytes, max });
        }
        Ok(())
    }
}

/// The result of preparing a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TransactionBegun {
    /// It has, and needs no more than this: all its requests follow in this turn, and then
    /// [`Engine::end_transaction`](crate::engine::Engine::end_transaction).
    Begun(Needs),
    /// A slice of what it needs before is done: ask the same in the next turn.
    Again,
    Changed,
    /// It may not run, and nothing of it is done.
    Refused(Error),
}

impl Step<'_, '_> {
    pub fn begin_transaction(
        &mut self,
        whole: &WholeTransaction<'_>,
        held_bytes_max: u64,
    ) -> TransactionBegun {
        self.hand_off();
        if self.live.room.is_short() {
            // Time that passes before must not use up its needs.
            let mut plan = Plan::new(self.store, self.live, self.now, whole.beside);
            let added = whole.requests.iter().try_for_each(|request| plan.add(request));
            let facts = if added.is_ok() { plan.facts } else { Bound::default() };
            drop(plan);
            self.live.room.promise(facts);
        }
        for request in whole.requests {
            // Sweep due jobs, as before a request that is decided alone.
            request.for_each_queue(|queue| {
                self.queue(queue);
            });
        }
        let deferred = self.live.room.defers();
        if deferred && whole.requests.iter().any(|request| self.overtakes(request)) {
            self.live.room.release();
            return TransactionBegun::Again;
        }
        let watched = match whole.watched {
            [] => Watched::Unchanged,
            queues => self.compare(queues.iter().copied()),
        };
        self.live.room.release();
        match watched {
            Watched::Unchanged => self.begin_planned(whole, held_bytes_max),
            Watched::Changed => TransactionBegun::Changed,
            Watched::Again => TransactionBegun::Again,
        }
    }

    fn begin_planned(
        &mut self,
        whole: &WholeTransaction<'_>,
        held_bytes_max: u64,
    ) -> TransactionBegun {
        let (facts, needs) = loop {
            let mut plan = Plan::new(self.store, self.live, self.now, whole.beside);
            let added = whole.requests.iter().try_for_each(|request| plan.add(request));
            if let Err(refused) = added.and_then(|()| plan.check_room()) {
                return TransactionBegun::Refused(refused);
            }
            let (facts, needs) = (plan.facts, plan.needs);
            let fits = needs.check_answer(whole.answer_bytes_max);
            if let Err(refused) = fits.and_then(|()| needs.check_held(held_bytes_max)) {
                return TransactionBegun::Refused(refused);
            }
            let unordered = std::mem::take(&mut plan.unordered);
            drop(plan);
            match self.bring_into_order(&unordered) {
                Ordered::Already => break (facts, needs),
                // The first jobs are known only now.
                Ordered::Now => {}
                Ordered::Not => return TransactionBegun::Again,
            }
        };
        self.live.room.begin_whole(facts);
        self.live.in_transaction = true;
        TransactionBegun::Begun(needs)
    }

    /// Due jobs are swept first, so that they are counted.
    pub fn answer_bytes_max(&mut self, request: &Request<'_>) -> u64 {
        self.hand_off();
        request.for_each_queue(|queue| {
            self.queue(queue);
        });
        let mut plan = Plan::new(self.store, self.live, self.now, Needs::default());
        // A refused command answers an error, which is short.
        let _ = plan.add(request);
        let Needs { entries, reply_bytes, .. } = plan.needs;
        let counted = !matches!(request, Request::Range { .. } | Request::Keys { .. })
            && !request.takes()
            || entries <= TRANSACTION_COST_MAX;
        // Not counted to the end, but each of these stops at fewer.
        if counted { reply_bytes } else { reply_bytes.max(2 * BODIES_BYTES_MAX as u64) }
    }

    pub fn end_transaction(&mut self) {
        self.live.in_transaction = false;
        self.live.room.end_whole();
        self.hand_off();
    }

    /// Whether a request would take what clients that are served later wait for.
    fn overtakes(&self, request: &Request<'_>) -> bool {
        let mut overtakes = false;
        if request.takes() {
            request.for_each_queue(|queue| {
                let number = self.store.queue_no(queue.db, queue.name);
                overtakes |= number.is_some_and(|number| self.is_behind_its_line(number));
            });
        }
        overtakes
    }

    /// A slice of bringing timers into order.
    fn bring_into_order(&mut self, unordered: &[(QueueNo, Option<JobState>, u64)]) -> Ordered {
        let mut ordered = Ordered::Already;
        for (queue, state, count) in unordered {
            let count = u32::try_from(*count).unwrap_or(u32::MAX);
            let mut steps = INSPECT_STEPS_PER_TURN;
            if !self.store.open_ahead(*queue, *state, count, &mut steps) {
                return Ordered::Not;
            }
            if steps < INSPECT_STEPS_PER_TURN {
                ordered = Ordered::Now;
            }
        }
        ordered
    }
}

pub fn check_queued(
    store: &Store,
    live: &Live,
    now: Micros,
    request: &Request<'_>,
    limits: bool,
) -> Result<(), Error> {
    let mut plan = Plan::new(store, live, now, Needs::default());
    match plan.add(request) {
        Err(error @ (Error::Full { .. } | Error::GroupFull { .. } | Error::Paused { .. }))
            if limits =>
        {
            Err(error)
        }
        Err(error @ Error::InSlices { .. }) => Err(error),
        // Its cost is checked when everything is known.
        Err(_) => Ok(()),
        Ok(()) => plan.check_room(),
    }
}

/// Whether timers are in order.
enum Ordered {
    Already,
    Now,
    Not,
}
