//! The turn: everything the server does, in order, again and again.

pub(super) mod accept;
mod balance;
mod cluster;
pub mod demotion;
pub(super) mod journal;
pub(super) mod limit;
pub(super) mod observers;
pub(super) mod release;
pub(super) mod requests;
mod siblings;
mod signals;
pub mod standstill;
pub(super) mod succession;
mod troubles;
pub(super) mod wait;

use super::core::Core;
use crate::cluster::driver::Status;
use crate::cluster::members::names::{Address, Name as NodeName};
use crate::cluster::raft::member::Role;
use crate::ids::ClientId;
use crate::limits::{ADVANCE_STEPS_PER_TURN, FLOOD_LOOK_US, REPLICAS_LOOK_US, TICK_US};
use crate::observe::{Counters, rates};
use crate::server::connection::client::Client;
use crate::server::connection::clients::Clients;
use crate::server::connection::handshake::Handshakes;
use crate::server::connection::pair::Pairs;
use crate::server::connection::stream::Accepted;
use crate::server::connection::wake::Notifier;
use crate::server::observe::zones;
use crate::server::turn::balance::Balance;
use crate::server::turn::demotion::Leaving;
use crate::server::turn::observers::Observers;
use crate::server::turn::standstill::Backlog;
use crate::server::turn::troubles::Troubles;
use crate::time::Micros;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// The state of the loop.
#[derive(Debug)]
pub struct Turns {
    /// Everything but the clients.
    pub core: Core,
    pub clients: Clients,
    /// Connections accepted since the last turn.
    pub accepted: Vec<Accepted>,
    /// TLS handshakes that are going on, if there is a port for them.
    pub handshakes: Option<Handshakes>,
    /// Clients on places that are kept for operators, by slot.
    pub(super) operators: Vec<(u32, ClientId)>,
    /// Connections that the console makes, if there is one.
    pub pairs: Option<Arc<Pairs>>,
    /// The wall clock was set since the last turn.
    pub stepped: bool,
    /// A signal asks for a reload of files.
    pub hung_up: bool,
    /// No new command is taken any more.
    pub draining: bool,
    /// Slots to serve, in the order in which they came.
    pub(super) listed: Vec<u32>,
    /// Slots whose commands CLIENT PAUSE holds back.
    pub(super) postponed: Vec<u32>,
    /// Slots of this turn, in order.
    pub(super) batch: Vec<u32>,
    /// Passing time has more to do.
    more: bool,
    /// Observers of the server.
    pub(super) observers: Option<Box<Observers>>,
    /// After a standstill, what has not been heard yet.
    pub(super) backlog: Option<Backlog>,
    /// The node's standing for its clients follows from this: Raft's status of it, and its role for the turn.
    pub(super) told: Option<(Arc<Status>, Role, bool)>,
    /// An engine that follows has more to tidy.
    pub(super) follows: bool,
    /// After a demotion, the remaining clients.
    pub(super) leaving: Option<Leaving>,
    /// Whether another node should lead this partition.
    balance: Balance,
    /// The nodes that the raft thread was told of, see [`Turns::hint`].
    hinted: BTreeMap<NodeName, Address>,
    /// On a node: its troubles, and the last reports about them.
    pub(super) troubles: Troubles,
    /// When all clients are looked at next; monotonic, µs.
    pub(super) tick_us: u64,
    pub(super) next_id: u64,
    pub(super) notifier: Arc<Notifier>,
}

impl Turns {
    /// Before the first turn.
    pub fn new(core: Core, notifier: Arc<Notifier>) -> Turns {
        Turns {
            tick_us: core.clock.mono_us + TICK_US,
            core,
            clients: Clients::default(),
            accepted: Vec::new(),
            handshakes: None,
            operators: Vec::new(),
            pairs: None,
            stepped: false,
            hung_up: false,
            draining: false,
            listed: Vec::new(),
            postponed: Vec::new(),
            batch: Vec::new(),
            more: true,
            observers: None,
            backlog: None,
            told: None,
            follows: false,
            leaving: None,
            balance: Balance::default(),
            hinted: BTreeMap::new(),
            troubles: Troubles::default(),
            next_id: 1,
            notifier,
        }
    }

    /// One turn. Before it, the loop has waited for sockets, the alarm, the journal or a signal. An
    /// error is a journal that cannot be loaded.
    pub fn turn(&mut self) -> io::Result<()> {
        let begun_us = self.begun_us();
        // First: what the journal's threads have done decides what this turn may do.
        self.poll_journal()?;
        // Before memory is looked at, and before any client gets a right or a limit of before.
        self.core.share(self.clients.count() as u64);
        self.heed_siblings();
        // Before anything is read: what is read needs memory.
        self.core.look_at_memory();
        // Before anything is decided by them.
        self.core.look_at_zones();
        // Before any client gets a certificate, or permission for anything.
        self.heed_hangup();
        self.list_answered();
        // New connections first: their first request is read in this turn.
        self.greet();
        self.list_unheard();
        // Before the clock: what is read now was sent before `now`, so that no delay counts from
        // before its request was made.
        self.read_sockets();
        // Once: everything in a turn happens at one instant.
        self.read_clock();
        self.look_at_age();
        self.end_leaving();
        self.let_go();
        self.resume_postponed();
        // Before anything is decided.
        self.core.set_flow();
        // Before time passes: a request at the instant at which a job falls due is in line for it.
        self.run_commands();
        self.resume_postponed();
        self.end_backlog();
        // Before the journal: what falls due in this turn is in its batch.
        self.advance();
        // After everything that publishes, and before the journal, which learns how urgent it is.
        self.deliver();
        // Before the release: no reply leaves before the facts it rests on are safe. Later decisions belong to the next
        // turn.
        self.propose();
        // One write per client. Jobs handed to a peer that is gone go to the next in line and are
        // released here too.
        self.release();
        // After the release, which finds out whose replies have to wait.
        self.core.durability.hurry(&self.core.outputs);
        // After the proposal: a base is the state after a whole batch.
        self.keep_journal();
        // After every proposal: answer clients that wait for data that is now durable.
        self.core.durability.show(&mut self.core.outputs, &self.core.clock);
        self.list_answered();
        // The counters show whole turns.
        self.count();
        // Last: reports are as of the end of the turn.
        self.report(begun_us);
        self.note_turn_ended();
        Ok(())
    }

    pub fn woken(&mut self, slots: &mut Vec<u32>) {
        for slot in slots.drain(..) {
            if let Some(client) = self.clients.get_mut(slot) {
                client.socket.unread = true;
            }
            self.list(slot);
        }
    }

    /// Whether the next turn has work that nothing will wake the loop for.
    pub fn is_behind(&self) -> bool {
        // Work that waits for a base to begin continues when the last batch is committed, which is
        // reported.
        self.more && !self.core.durability.is_settling()
            || self.follows
            || ((!self.listed.is_empty() || self.backlog.is_some()) && !self.core.is_flooded())
            || !self.accepted.is_empty()
            || self.core.outputs.is_behind()
            || self.core.messages.is_waiting()
            || !self.core.sentinel.pubsub.outbox.is_empty()
            || self.core.durability.is_behind(&self.core.facts)
            || self.core.watch.oldest_ready.is_looking()
            || self.observers.as_ref().is_some_and(|observers| observers.is_collecting())
    }

    /// When the next turn must begin at the latest; monotonic, µs.
    pub fn wake_by_us(&self) -> u64 {
        let due = self.core.engine.next_wakeup();
        let due_us = due.map_or(u64::MAX, |due| self.core.clock.anchored.mono_us_of(due.start()));
        let waits = &self.core.durability.waits;
        let limit_us = waits.next_limit_us().unwrap_or(u64::MAX);
        // The thread of Raft reports the others' progress with its ticks, and wakes no thread for
        // it.
        let replicas_us = match waits.wants_replicas() {
            true => self.core.clock.mono_us + REPLICAS_LOOK_US,
            false => u64::MAX,
        };
        let limit_us = limit_us.min(replicas_us);
        // There is no event for the end of the flood.
        let flood_us =
            if self.core.is_flooded() { self.core.clock.mono_us + FLOOD_LOOK_US } else { u64::MAX };
        let pause_us = self.core.common.pauses.until_us();
        let hand_over = self.core.common.hand_over;
        let hand_over_us = hand_over.map_or(u64::MAX, |running| running.ask_us);
        let pause_us = pause_us.min(hand_over_us);
        let timeout = self.core.engine.next_timeout();
        let timeout_us = timeout.map_or(u64::MAX, |at| at.start().0);
        let leaving_us = self.leaving_us().min(self.let_go_us());
        let waits_us = timeout_us.min(limit_us).min(pause_us).min(leaving_us);
        due_us.min(waits_us).min(flood_us).min(self.tick_us)
    }

    fn read_clock(&mut self) {
        // The consequences of connections closed since the last turn's proposal happened at its
        // time.
        self.propose_leftovers();
        let mono_us = self.core.clock.timer.mono_us();
        let mut still_since = self.core.clock.still_since(mono_us);
        if self.stepped || mono_us >= self.tick_us {
            self.stepped = false;
            let jump_us_max = self.core.options.limits.clock_jump_us_max;
            still_since = self.core.clock.compare(mono_us, jump_us_max).or(still_since);
        }
        self.core.clock.read();
        self.core.engine.set_monotonic(Micros(self.core.clock.mono_us));
        if let Some(since) = still_since {
            self.begin_backlog(since);
        }
    }

    fn advance(&mut self) {
        let now = self.core.clock.now;
        // Stop time while too many events are queued.
        let waits = self.core.messages.is_full() || self.core.durability.is_settling();
        let steps = if waits { 0 } else { ADVANCE_STEPS_PER_TURN };
        let (engine, mut turn) = self.core.engine();
        self.more = engine.advance(now, steps, &mut turn);
        if let Some(change) = engine.take_zones_change() {
            zones::log_change(change, engine.zones().version());
        }
        let Core { durability, outputs, clock, .. } = &mut self.core;
        durability.end_late_waits(outputs, clock.mono_us);
        self.run_backlog();
        self.list_answered();
    }

    /// Delivers messages to subscribers. A subscriber that does not read is closed.
    fn deliver(&mut self) {
        let Core { engine, outputs, messages, sentinel, options, .. } = &mut self.core;
        let mut slots = messages.deliver(engine, outputs, &options.limits.notify);
        slots.extend(sentinel.deliver(outputs));
        for slot in slots {
            self.account(slot);
        }
    }

    fn count(&mut self) {
        let core = &mut self.core;
        let caller = |client, slot| self.clients.caller(client, slot);
        core.watch.count_over(&mut core.outputs, &core.clock, core.options.limits.slow, caller);
        core.watch.turns += 1;
        core.watch.memory_bytes_peak = core.watch.memory_bytes_peak.max(core.memory_bytes());
        let Counters { commands, input_bytes, output_bytes, .. } = core.watch.counters;
        let tally = core.engine.tally();
        let (due, delivered, acked) = (tally.due, tally.totals.delivered, tally.totals.acked);
        core.watch.rates.sample(
            core.clock.mono_us,
            rates::Totals { commands, input_bytes, output_bytes, due, delivered, acked },
        );
        core.watch.oldest_ready.look(&core.engine);
        if core.clock.mono_us >= self.tick_us {
            core.watch.oldest_ready.begin(&core.engine);
            self.tick_us = core.clock.mono_us + TICK_US;
            self.close_overdue();
            self.look_at_troubles();
            self.balance();
            self.hint();
            self.settle_operators();
            self.log_left_out();
            zones::log_missed(&self.core.engine.take_missed());
        }
    }

    /// Closes a connection. Jobs that were handed to it and never arrived go to the next in line.
    pub fn close(&mut self, slot: u32) {
        self.core.close(&mut self.clients, slot);
    }

    /// Closes connections because replies on them are not to come. A session of the console goes on with another one.
    pub(super) fn close_those(&mut self, is_meant: impl Fn(&Core, (u32, &Client)) -> bool) {
        let meant = self.clients.iter().filter(|at| is_meant(&self.core, *at));
        let slots: Vec<u32> = meant.inspect(|(_, client)| client.leave()).map(|at| at.0).collect();
        slots.into_iter().for_each(|slot| self.close(slot));
    }

    /// Puts a slot on the list for the next turn.
    pub(super) fn list(&mut self, slot: u32) {
        if let Some(client) = self.clients.get_mut(slot)
            && !client.socket.listed
        {
            client.socket.listed = true;
            self.listed.push(slot);
        }
    }
}
