//! The context of every decision, and the verbs that all of them share.

pub mod across;
pub mod add;
pub mod admit;
pub mod end;
pub mod forecast;
pub mod holders;
pub mod leases;
pub mod retry;
pub mod schedule;
pub mod slice;
pub mod sweep;
pub mod unsent;
pub mod waiters;
pub mod watched;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ahash::RandomState;

use crate::calendar::Zones;
use crate::engine::journal_room::RoomLeft;
use crate::engine::model::event::Events;
use crate::engine::model::fact::Fact;
use crate::engine::model::reply::Reply;
use crate::engine::model::schedule::ZonesChange;
use crate::engine::model::settings::Settings;
use crate::engine::model::turn::Budget;
use crate::engine::model::turn::{Outcome, Turn};
use crate::engine::observe::events;
use crate::engine::observe::tally::Tally;
use crate::engine::step::forecast::Forecast;
use crate::engine::step::holders::Holders;
use crate::engine::step::leases::Leases;
use crate::engine::step::schedule::MissedNotes;
use crate::engine::step::slice::Unfinished;
use crate::engine::step::unsent::Unsent;
use crate::engine::step::waiters::Waiters;
use crate::engine::step::watched::Watched;
use crate::engine::store::apply::Applied;
use crate::engine::store::{Located, Store};
use crate::error::Error;
use crate::ids::{ClientId, PolicyNo, QueueNo, ScheduleNo};
use crate::limits;
use crate::time::{Micros, Millis};

/// All that is volatile: what a replay of the facts does not give back.
#[derive(Debug)]
pub struct Live {
    pub settings: Settings,
    pub waiters: Waiters,
    /// Queues whose jobs became ready in this step and that have waiters, in that order; before
    /// them those of earlier steps whose waiters the journal held back.
    pub touched: Vec<QueueNo>,
    /// Queues with due work, which take turns.
    pub sweeping: VecDeque<QueueNo>,
    /// Timers that may still be moved ahead of their time in this turn.
    pub opening: u32,
    /// Steps of passing time that requests may still do before it passes again.
    pub slack: u32,
    /// Bytes of jobs handed over since time passed last, which it does once a turn.
    pub handed_bytes: usize,
    /// Jobs in replies that have not reached the kernel.
    pub unsent: Unsent,
    /// Requests that are half done.
    pub unfinished: HashMap<ClientId, Unfinished, RandomState>,
    pub forecast: Option<Box<Forecast>>,
    /// The queue asked for last: most requests go where the one before went, and comparing a name is
    /// cheaper than hashing it.
    pub likely_queue: QueueNo,
    /// The policy of the job added last.
    pub likely_policy: PolicyNo,
    /// No rate allows a delivery before: what the leader before has delivered is not known.
    pub rates_from: Micros,
    /// The instant of the fact applied last that another engine decided.
    pub applied: Micros,
    /// Leases that end with their connection.
    pub leases: Leases,
    /// Clients in words.
    pub holders: Holders,
    /// Watched queues that did not exist when watching began.
    pub watched: Watched,
    /// A transaction has begun and is not over: no time passes, and what its requests need is there.
    pub in_transaction: bool,
    /// The journal's limits.
    pub room: RoomLeft,
    /// The monotonic clock in this turn, if it is known: deadlines of waiters are instants of it.
    pub monotonic: Option<Micros>,
    /// The tables by which patterns are searched.
    pub zones: Arc<Zones>,
    /// How far the schedules have been looked through for new ones.
    pub zones_walk: Option<ZonesWalk>,
    /// Its result, to report.
    pub zones_change: Option<ZonesChange>,
    /// Missed occurrences, to report.
    pub missed: MissedNotes,
    /// Since when there has always been something due that was not done; none while nothing is.
    pub at_work_since: Option<Millis>,
    /// How often work has begun again.
    pub spells: u64,
    /// When time passed last.
    pub advanced: Millis,
    /// Events of jobs since the last call; none without subscribers.
    pub events: Option<Box<Events>>,
    /// Counts since the start.
    pub tally: Tally,
}

impl Live {
    /// For a new engine.
    pub fn new(settings: Settings, hasher: RandomState) -> Live {
        Live {
            settings,
            waiters: Waiters::new(hasher.clone()),
            touched: Vec::new(),
            sweeping: VecDeque::new(),
            opening: 0,
            slack: limits::SLACK_STEPS_PER_TURN,
            handed_bytes: 0,
            unsent: Unsent::new(hasher.clone()),
            unfinished: HashMap::with_hasher(hasher.clone()),
            forecast: None,
            likely_queue: QueueNo(0),
            likely_policy: PolicyNo(0),
            rates_from: Micros(0),
            applied: Micros(0),
            leases: Leases::new(hasher.clone()),
            holders: Holders::new(hasher.clone()),
            watched: Watched::new(hasher),
            in_transaction: false,
            room: RoomLeft::default(),
            monotonic: None,
            zones: Zones::bundled(),
            zones_walk: None,
            zones_change: None,
            missed: MissedNotes::default(),
            at_work_since: None,
            spells: 0,
            advanced: Millis(0),
            events: None,
            tally: Tally::default(),
        }
    }

    pub fn list_sweeping(&mut self, store: &mut Store, number: QueueNo) {
        if !std::mem::replace(&mut store.marks_mut(number).sweeping, true) {
            self.sweeping.push_back(number);
        }
    }
}

/// Where a walk through all schedules goes on.
#[derive(Clone, Copy, Default, Debug)]
pub struct ZonesWalk {
    pub db: usize,
    pub place: u32,
    /// In that queue.
    pub from: ScheduleNo,
    /// Its result so far.
    pub change: ZonesChange,
}

/// A request being decided, or time passing. Facts are applied as they are decided.
pub struct Step<'s, 't> {
    pub store: &'s mut Store,
    pub live: &'s mut Live,
    pub turn: &'s mut Turn<'t>,
    pub now: Micros,
    /// The client; meaningless while time passes.
    pub client: ClientId,
    /// Not inside a transaction.
    pub alone: bool,
    /// The remaining budget of passing time.
    pub budget: Budget,
}

impl Step<'_, '_> {
    pub fn commit(&mut self, fact: &Fact<'_>, at: Located) -> Applied {
        self.record(fact);
        let Step { store, live, now, .. } = self;
        if let Some(events) = &mut live.events {
            events::push(events, store, fact, at);
        }
        live.tally.count(store, *now, fact, at);
        if live.forecast.is_some() {
            forecast::pass(&mut live.forecast, store, fact, at);
        }
        if live.watched.is_empty() {
            return store.apply_at(*now, fact, at);
        }
        let comes = watched::comes(store, fact);
        let applied = store.apply_at(*now, fact, at);
        comes.into_iter().for_each(|queue| live.watched.note(store, queue));
        applied
    }

    pub fn record(&mut self, fact: &Fact<'_>) {
        let before = self.turn.facts.bytes.len();
        self.turn.facts.push(fact);
        self.live.room.spend((self.turn.facts.bytes.len() - before) as u64);
    }

    pub fn reply(&mut self, reply: Reply<'_>) -> Outcome {
        self.turn.outbox.reply(self.client, reply);
        Outcome::Replied
    }

    pub fn refuse(&mut self, error: &Error) -> Outcome {
        self.reply(Reply::Error(error))
    }

    /// What `decide` has done, or why it could not.
    pub fn or_refuse(
        &mut self,
        decide: impl FnOnce(&mut Self) -> Result<Outcome, Error>,
    ) -> Outcome {
        decide(self).unwrap_or_else(|error| self.refuse(&error))
    }

    /// The client's request goes on from here in the next turn.
    pub fn again(&mut self, from: Unfinished) -> Outcome {
        self.live.unfinished.insert(self.client, from);
        Outcome::Again
    }

    /// Notes that a job of the queue became ready in this step; `place` is its place if it is new.
    pub fn touch(&mut self, number: QueueNo, place: Option<i64>) {
        let aside = self.store.aside_mut(number);
        if aside.line.is_none() {
            return;
        }
        if let Some(place) = place {
            aside.earlier.give(place);
        }
        if !std::mem::replace(&mut self.store.marks_mut(number).touched, true) {
            self.live.touched.push(number);
        }
    }

    /// A lease of the queue has ended, or a job that was handed out before is gone: a waiting client may have its place.
    pub fn note_place_free(&mut self, number: QueueNo) {
        let queue = self.store.queue(number);
        if queue.throttles || queue.groups.is_some() {
            self.touch(number, None);
        }
    }

    /// The queue has due work, which is done as time passes.
    pub fn list_sweeping(&mut self, number: QueueNo) {
        self.live.list_sweeping(self.store, number);
    }

    /// Does `work` within `steps` of its own; what came of it, and how many it used.
    pub fn within<R>(&mut self, steps: u32, work: impl FnOnce(&mut Self) -> R) -> (R, u32) {
        let outer = std::mem::replace(&mut self.budget, Budget::of(steps));
        let done = work(self);
        let inner = std::mem::replace(&mut self.budget, outer);
        (done, steps - inner.left())
    }
}
