//! What a consumer does with its lease, and how leases end by themselves.

use crate::engine::model::fact::{Destination, Fact};
use crate::engine::model::reply::Reply;
use crate::engine::model::request::{Nack, QueueName, State};
use crate::engine::room::DROPPED_PER_DEATH;
use crate::engine::step::retry::{Failure, destination};
use crate::engine::store::Located;
use crate::engine::store::jobs::{JobIndex, Stage};
use crate::engine::store::queue::Queue;
use crate::engine::{Engine, Outcome, Step, Turn};
use crate::ids::{ClientId, QueueNo, Token};
use crate::time::Micros;

/// Bound leases ended at once when a connection closes; `advance` does the rest.
const UNBIND_AT_ONCE: u32 = 64;

/// A lease that ends with its connection.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    pub(in crate::engine) queue: QueueNo,
    pub(in crate::engine) index: JobIndex,
    pub(in crate::engine) token: Token,
}

/// The bound leases of a connection; some may have ended.
#[derive(Debug, Default)]
pub struct Bounds {
    leases: Vec<Bound>,
    /// The one that is looked at next, whether it has ended.
    next: usize,
}

impl Step<'_, '_> {
    pub(in crate::engine) fn ack(
        &mut self,
        name: QueueName<'_>,
        jobs: &[(&[u8], Token)],
    ) -> Outcome {
        let mut acked = 0;
        if let Some(queue) = self.queue(name) {
            for (id, token) in jobs {
                let at = self.engine.store.locate(queue, id);
                let Some(index) = at.index.filter(|index| self.token_is(*index, *token)) else {
                    continue;
                };
                let window_end = self.engine.window_end(index, self.now);
                self.commit(&Fact::Acked { queue, id, window_end }, at);
                self.engine.note_place_free(queue);
                acked += 1;
            }
        }
        self.reply(Reply::Integer(acked))
    }

    pub(in crate::engine) fn nack(&mut self, nack: &Nack<'_>) -> Outcome {
        let next = match nack.when.map(|when| self.resolve(when)).transpose() {
            Ok(next) => next,
            Err(error) => return self.refuse(&error),
        };
        let Some((queue, at, index)) = self.leased(nack.queue, nack.id, nack.token) else {
            return self.reply(Reply::Integer(0));
        };
        let counted = !nack.uncounted;
        let failure = Failure::Nacked { counted, bury: nack.bury, next };
        let to = destination(&self.engine.store, queue, index, failure, self.now.ceil(), self.now);
        let priority = nack.priority.unwrap_or(self.engine.store.jobs.get(index).priority);
        let id = nack.id;
        // Where disk or memory is full the job goes back all the same, and nothing larger is kept of it.
        let error = nack.error.filter(|text| {
            self.engine.lets_grow(text.len() as u64) && self.engine.has_memory_for_text(index, text)
        });
        self.commit(&Fact::Nacked { queue, id, counted, priority, error, to }, at);
        self.engine.settled(queue, to, self.now, self.turn);
        self.reply(Reply::Integer(1))
    }

    pub(in crate::engine) fn extend(
        &mut self,
        name: QueueName<'_>,
        id: &[u8],
        token: Token,
        lease_ms: u64,
    ) -> Outcome {
        if let Err(error) = self.check_lease(lease_ms) {
            return self.refuse(&error);
        }
        let Some((queue, at, _)) = self.leased(name, id, token) else {
            return self.reply(Reply::Nil);
        };
        let lease_end = self.now.ceil().plus(lease_ms);
        self.commit(&Fact::Extended { queue, id, lease_end }, at);
        self.reply(Reply::Integer(lease_end.0 as i64))
    }

    /// The job, if this token's lease is running.
    fn leased(
        &mut self,
        name: QueueName<'_>,
        id: &[u8],
        token: Token,
    ) -> Option<(QueueNo, Located, JobIndex)> {
        let (queue, at, index) = self.find(name, id)?;
        let store = &self.engine.store;
        let end = store.timers.due(index);
        // A lease whose end has come but was not swept yet is over all the same, unless it will be
        // extended.
        let running = store.jobs.get(index).stage == Stage::Leased
            && (end > self.now.floor() || self.engine.gate.extension(end, self.now).is_some());
        (running && self.token_is(index, token)).then_some((queue, at, index))
    }

    fn token_is(&self, index: JobIndex, token: Token) -> bool {
        let history = self.engine.store.jobs.history(index);
        history.is_some_and(|history| history.token == token.0 && token.0 != 0)
    }
}

impl Engine {
    /// The connection is gone: it waits for nothing and watches nothing any more, and its bound leases
    /// end.
    pub fn closed(&mut self, now: Micros, client: ClientId, turn: &mut Turn<'_>) {
        self.stop_waiting(client);
        self.in_hand.remove(&client);
        self.abandon(client);
        self.unwatch(client);
        // Moved in one piece: there may be millions.
        if let Some(bounds) = self.bound.remove(&client) {
            self.unbound.push_back(bounds.leases.into_iter());
        }
        self.end_unbound(&mut UNBIND_AT_ONCE.clone(), now, turn);
        self.hand_off(now, turn);
    }

    /// Bytes held to end a client's BOUND leases with its connection.
    pub fn bound_bytes(&self, client: ClientId) -> usize {
        if self.bound.is_empty() {
            return 0;
        }
        let bounds = self.bound.get(&client);
        bounds.map_or(0, |bounds| bounds.leases.capacity() * size_of::<Bound>())
    }

    /// A request of the client that was half done ([`Outcome::Again`]) is not asked again. What was done
    /// of it stays.
    pub fn abandon(&mut self, client: ClientId) {
        self.walks.remove(&client);
        self.redrives.remove(&client);
        self.store.forget_forecast(client);
        self.end_search(client);
    }

    /// Notes that a lease ends with `client`'s connection. A long-lived worker acknowledges most of
    /// its leases; with each new one two are looked at and dropped if they have ended, so that there
    /// are never many more of those than of the others, and no moment at which all are looked at.
    pub(in crate::engine) fn bind_lease(&mut self, client: ClientId, lease: Bound) {
        let mut bounds = self.bound.remove(&client).unwrap_or_default();
        for _ in 0..2 {
            match bounds.leases.get(bounds.next).copied() {
                None => bounds.next = 0,
                Some(old) if self.holds(old.queue, old.index, old.token) => bounds.next += 1,
                Some(_) => drop(bounds.leases.swap_remove(bounds.next)),
            }
        }
        bounds.leases.push(lease);
        self.bound.insert(client, bounds);
    }

    /// Ends leases whose connection is gone, as far as their facts fit; true when none is left.
    pub(in crate::engine) fn end_unbound(
        &mut self,
        budget: &mut u32,
        now: Micros,
        turn: &mut Turn<'_>,
    ) -> bool {
        while let Some(leases) = self.unbound.front_mut() {
            let Some(left) = budget.checked_sub(1) else { return false };
            if !self.gate.lets_time_pass() {
                return false;
            }
            *budget = left;
            let Some(lease) = leases.next() else {
                self.unbound.pop_front();
                continue;
            };
            if self.holds(lease.queue, lease.index, lease.token) {
                self.end_lease(lease.queue, lease.index, Failure::Lost, now, turn);
            }
        }
        true
    }

    /// After a restart, when all is loaded and replayed: the connections of bound leases are gone, so
    /// these leases are to be ended, as lost, by the next calls of [`Engine::advance`]. Looks at every
    /// lease.
    pub fn recovered(&mut self) {
        let store = &self.store;
        let of_queue = |queue: &Queue| {
            let leased = queue.leases.iter(&store.timers);
            let bound = leased.filter_map(|index| {
                let history = store.jobs.history(index).filter(|history| history.bound)?;
                Some(Bound { queue: queue.number, index, token: Token(history.token) })
            });
            bound.collect::<Vec<_>>()
        };
        let bound: Vec<Bound> = store.queues().flat_map(of_queue).collect();
        if !bound.is_empty() {
            self.unbound.push_back(bound.into_iter());
        }
        // Some may have been left when more of them had to leave than one turn does.
        let crowded = |queue: &&Queue| queue.count(State::Dead) > queue.dead_max();
        let crowded = self.store.queues().filter(crowded).map(|queue| queue.number);
        for number in crowded.collect::<Vec<_>>() {
            self.list_sweeping(number);
        }
    }

    /// In an orderly shutdown: ends all bound leases, at most about `budget` at a time; true when none
    /// is left. Their jobs go back to their old places and the attempts are given back, for the server
    /// ended them and not the job or its consumer; those whose connection was gone before count as
    /// lost, as ever. Hands nothing to waiters.
    pub fn end_bound(&mut self, now: Micros, budget: u32, turn: &mut Turn<'_>) -> bool {
        let mut left = budget;
        // Nothing can be recorded any more, and trying again would be for ever: the next start ends them.
        if !self.gate.lets_time_pass() {
            return true;
        }
        // What there is no room for stays handed over, as after a crash.
        if !self.return_unsent(&mut left, now, turn) {
            return false;
        }
        if !self.end_unbound(&mut left, now, turn) {
            return false;
        }
        if !self.bound.is_empty() {
            let mut bound: Vec<_> = self.bound.drain().collect();
            bound.sort_unstable_by_key(|(client, _)| *client);
            self.ending.extend(bound.into_iter().map(|(_, bounds)| bounds.leases.into_iter()));
        }
        while let Some(leases) = self.ending.front_mut() {
            let Some(rest) = left.checked_sub(1) else { return false };
            left = rest;
            let Some(Bound { queue, index, token }) = leases.next() else {
                self.ending.pop_front();
                continue;
            };
            if self.holds(queue, index, token) {
                let (id, at) = (self.id_of(index), self.located(index));
                let (lost, counted, to) = (true, false, Destination::Ready);
                self.commit(now, turn, &Fact::LeaseOver { queue, id: &id, lost, counted, to }, at);
                self.touch(queue, None);
            }
        }
        true
    }

    /// A lease ended by itself: at its end, or when its connection was gone before that. After a downtime,
    /// a step of the clock or a stall that may be long past, and what follows counts from it all the same.
    pub(in crate::engine) fn end_lease(
        &mut self,
        queue: QueueNo,
        index: JobIndex,
        failure: Failure,
        now: Micros,
        turn: &mut Turn<'_>,
    ) {
        let (id, at) = (self.id_of(index), self.located(index));
        let ended = self.store.timers.due(index).min(now.ceil());
        let to = destination(&self.store, queue, index, failure, ended, now);
        let lost = failure == Failure::Lost;
        let fact = Fact::LeaseOver { queue, id: &id, lost, counted: true, to };
        self.commit(now, turn, &fact, at);
        self.settled(queue, to, now, turn);
    }

    /// What follows from where a job went.
    fn settled(&mut self, queue: QueueNo, to: Destination, now: Micros, turn: &mut Turn<'_>) {
        self.note_place_free(queue);
        match to {
            Destination::Ready => self.touch(queue, None),
            Destination::Delayed { .. } => {}
            Destination::Dead { .. } => self.drop_for_death(queue, now, turn),
        }
    }

    fn drop_for_death(&mut self, queue: QueueNo, now: Micros, turn: &mut Turn<'_>) {
        // Not all that are too many: what follows from one death has to fit into its bound.
        for _ in 0..DROPPED_PER_DEATH {
            if !self.drop_surplus_dead(queue, now, turn) {
                return;
            }
        }
    }

    /// Drops the oldest dead letter if there are too many; false if there are not.
    pub(in crate::engine) fn drop_surplus_dead(
        &mut self,
        queue: QueueNo,
        now: Micros,
        turn: &mut Turn<'_>,
    ) -> bool {
        let queue_ref = self.store.queue(queue);
        if queue_ref.count(State::Dead) <= queue_ref.dead_max() {
            return false;
        }
        self.drop_oldest_dead(queue, now, turn);
        true
    }

    /// Drops the oldest dead letter; there is one.
    pub(in crate::engine) fn drop_oldest_dead(
        &mut self,
        queue: QueueNo,
        now: Micros,
        turn: &mut Turn<'_>,
    ) {
        let front = self.store.queue(queue).dead.front(&self.store.chunks);
        let (index, _) = front.expect("what is counted as dead stands among the dead");
        let (id, at) = (self.id_of(index), self.located(index));
        self.commit(now, turn, &Fact::Dropped { queue, id: &id }, at);
    }
}
