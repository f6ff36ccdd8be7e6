//! A transaction, which runs to its end at one instant, or not at all.
//!
//! Before its first command everything is known that could keep one of them from running: what all of
//! them may look at and answer, the journal's room and the memory that they need, and whether a queue
//! takes the jobs that they add. So nothing in between is refused for want of any of that, nothing is
//! cut into slices, and no time passes: what is due in the queues they name has fallen due before, as
//! far as it does before a command, and what is left of it waits until the transaction is over.
//!
//! What is counted is the most that may be: a place in a full queue is free for a later command only
//! if an earlier one frees it for sure. So a transaction may be refused that would have gone well by
//! chance; none is refused half-way.

mod account;
mod answer;
mod needs;
mod plan;

use crate::engine::decide::list::BODIES_BYTES_MAX;
use crate::engine::decide::watch::{Stamp, Watched};
use crate::engine::model::request::{QueueName, Request, State};
use crate::engine::room::Bound;
use crate::engine::step::{Live, Step};
use crate::engine::store::Store;
use crate::error::Error;
use crate::ids::QueueNo;
use crate::limits::{INSPECT_STEPS_PER_TURN, TRANSACTION_COST_MAX};
use crate::time::Micros;
use plan::Plan;
use std::borrow::Cow;

pub use needs::Needs;

/// What is to happen as one.
#[derive(Debug)]
pub struct Whole<'r> {
    /// What the engine is asked, in order.
    pub requests: &'r [Cow<'r, Request<'r>>],
    /// Queues that must not have changed since.
    pub watched: &'r [(QueueName<'r>, Stamp)],
    /// What its other commands may look at and answer.
    pub beside: Needs,
    /// Bytes that it may answer: what is between the server and the client hands on no more.
    pub answer_bytes_max: u64,
}

/// What became of a transaction that was to begin.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "what has no words here is what its name says")]
pub enum Begun {
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
    /// Begins a transaction, whose client may come to hold so many bytes for it: replies, and unsent jobs.
    /// Cost: about that of running it.
    pub fn begin_transaction(&mut self, whole: &Whole<'_>, held_bytes_max: u64) -> Begun {
        self.hand_off();
        if self.live.room.is_short() {
            // What passes of time before must not use up what it needs.
            let mut plan = Plan::new(self.store, self.live, self.now, whole.beside);
            let added = whole.requests.iter().try_for_each(|request| plan.add(request));
            let facts = if added.is_ok() { plan.facts } else { Bound::default() };
            drop(plan);
            self.live.room.promise(facts);
        }
        for request in whole.requests {
            // What is due falls due, as before a request that is decided alone.
            request.for_each_queue(|queue| {
                self.queue(queue);
            });
        }
        let deferred = self.live.room.defers();
        if deferred && whole.requests.iter().any(|request| self.overtakes(request)) {
            self.live.room.release();
            return Begun::Again;
        }
        let watched = match whole.watched {
            [] => Watched::Unchanged,
            queues => self.compare(queues.iter().copied()),
        };
        self.live.room.release();
        match watched {
            Watched::Unchanged => self.begin_planned(whole, held_bytes_max),
            Watched::Changed => Begun::Changed,
            Watched::Again => Begun::Again,
        }
    }

    fn begin_planned(&mut self, whole: &Whole<'_>, held_bytes_max: u64) -> Begun {
        let (facts, needs) = loop {
            let mut plan = Plan::new(self.store, self.live, self.now, whole.beside);
            let added = whole.requests.iter().try_for_each(|request| plan.add(request));
            if let Err(refused) = added.and_then(|()| plan.check_room()) {
                return Begun::Refused(refused);
            }
            let (facts, needs) = (plan.facts, plan.needs);
            let fits = needs.check_answer(whole.answer_bytes_max);
            if let Err(refused) = fits.and_then(|()| needs.check_held(held_bytes_max)) {
                return Begun::Refused(refused);
            }
            let unordered = std::mem::take(&mut plan.unordered);
            drop(plan);
            match self.bring_into_order(&unordered) {
                Ordered::Already => break (facts, needs),
                // What comes first in them is known only now.
                Ordered::Now => {}
                Ordered::Not => return Begun::Again,
            }
        };
        self.live.room.begin_whole(facts);
        self.live.in_transaction = true;
        Begun::Begun(needs)
    }

    /// The most bytes that a request may answer which is decided alone, now. What is due falls due first, so that
    /// its jobs are counted. Cost: about that of running it.
    pub fn answer_bytes_max(&mut self, request: &Request<'_>) -> u64 {
        self.hand_off();
        request.for_each_queue(|queue| {
            self.queue(queue);
        });
        let mut plan = Plan::new(self.store, self.live, self.now, Needs::default());
        // What would be refused answers an error, which is short.
        let _ = plan.add(request);
        let Needs { entries, reply_bytes, .. } = plan.needs;
        let counted = !matches!(request, Request::Range { .. } | Request::Keys { .. })
            && !request.takes()
            || entries <= TRANSACTION_COST_MAX;
        // Not counted to the end, but each of these stops at fewer.
        if counted { reply_bytes } else { reply_bytes.max(2 * BODIES_BYTES_MAX as u64) }
    }

    /// All requests of the transaction have been decided: whoever waits for what they left is served.
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
    fn bring_into_order(&mut self, unordered: &[(QueueNo, Option<State>, u64)]) -> Ordered {
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

/// Whether a request that is to be part of a transaction would be refused now, for want of memory,
/// of the journal's room, or by its queue; the last only if `limits`, as commands before it may
/// change that.
pub fn check_queued(
    store: &Store,
    live: &Live,
    now: Micros,
    request: &Request<'_>,
    limits: bool,
) -> Result<(), Error> {
    let mut plan = Plan::new(store, live, now, Needs::default());
    match plan.add(request) {
        Err(error @ (Error::Full { .. } | Error::Paused { .. })) if limits => Err(error),
        // What it costs is looked at when all is known.
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
