//! The turn: everything the server does, in order, again and again.

use super::client::{Client, Read};
use super::clients::Clients;
use super::clock::Compared;
use super::core::Core;
use super::hall::{Hall, Running};
use super::timer;
use crate::ids::ClientId;
use crate::limits::{
    ADVANCE_STEPS_PER_TURN, COMMANDS_PER_TURN, INPUT_HOLD_BYTES, OUTPUT_HOLD_BYTES,
};
use crate::observe::{Counters, rates};
use crate::resp::{Arg, Frame};
use crate::session::Next;
use smallvec::SmallVec;
use std::sync::Arc;
use std::task::Poll;
use tokio::net::TcpStream;

use super::wake::Bell;

/// Arguments of a command that need no allocation.
const ARGS_INLINE: usize = 16;

/// Least time between two comparisons with the wall clock, and between two looks at all clients, µs.
pub const TICK_US: u64 = 1_000_000;

/// The state of the loop.
#[derive(Debug)]
pub struct Turns {
    /// Everything but the clients.
    pub core: Core,
    /// The connections.
    pub clients: Clients,
    /// Connections accepted since the last turn.
    pub accepted: Vec<TcpStream>,
    /// The wall clock was set since the last turn.
    pub stepped: bool,
    /// No new command is taken any more.
    pub draining: bool,
    /// Slots whose turn it is, in the order in which they came.
    listed: Vec<u32>,
    /// Slots of this turn, in order.
    batch: Vec<u32>,
    /// Passing time has more to do.
    more: bool,
    /// When all clients are looked at next; monotonic, µs.
    tick_us: u64,
    next_id: u64,
    bell: Arc<Bell>,
}

impl Turns {
    /// Before the first turn.
    pub fn new(core: Core, bell: Arc<Bell>) -> Turns {
        Turns {
            tick_us: core.mono_us + TICK_US,
            core,
            clients: Clients::default(),
            accepted: Vec::new(),
            stepped: false,
            draining: false,
            listed: Vec::new(),
            batch: Vec::new(),
            more: true,
            next_id: 1,
            bell,
        }
    }

    /// One turn. Before it, the loop has waited for sockets, the alarm or a signal.
    pub fn turn(&mut self) {
        // New connections first: their first request is read in this turn.
        self.greet();
        // Before the clock: what is read now was sent before `now`, so that no delay counts from
        // before its request was made.
        self.read_sockets();
        // Once: everything in a turn happens at one instant.
        self.read_clock();
        // Before time passes: who asks at the instant at which a job falls due is in line for it.
        self.run_commands();
        // Before the journal: what falls due in this turn is in its batch.
        self.advance();
        // Before the release: no reply leaves before the facts it rests on are safe. There is no
        // journal yet, so they are as safe as they will be.
        self.core.facts.clear();
        // One write per client. What was handed to a peer that is gone goes to the next in line and
        // is released here too.
        self.release();
        // Last: the counters show whole turns.
        self.count();
    }

    /// The slots that were woken have something to do.
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
        self.more || !self.listed.is_empty() || !self.accepted.is_empty()
    }

    /// When the next turn must begin at the latest; monotonic, µs.
    pub fn wake_by_us(&self) -> u64 {
        let due = self.core.engine.next_wakeup();
        let due_us = due.map_or(u64::MAX, |due| self.core.clock.mono_us_of(due.start()));
        due_us.min(self.tick_us)
    }

    /// Whether every reply has left and nothing is half done.
    pub fn is_drained(&self) -> bool {
        let busy = |(slot, client): (u32, &Client)| {
            client.socket.midway || self.core.outputs.unsent_bytes(slot) > 0
        };
        !self.clients.iter().any(busy)
    }

    /// From here on no new command is taken, and clients that wait are let go.
    pub fn drain(&mut self) {
        self.draining = true;
        let waiting = |(slot, _): &(u32, &Client)| self.core.outputs.is_waiting(*slot);
        let slots: Vec<u32> = self.clients.iter().filter(waiting).map(|(slot, _)| slot).collect();
        for slot in slots {
            self.close(slot);
        }
    }

    fn greet(&mut self) {
        for stream in std::mem::take(&mut self.accepted) {
            self.core.counters.connections += 1;
            let slot = self.clients.reserve();
            let id = ClientId(self.next_id);
            let waker = self.bell.waker(slot);
            let client = match Client::new(id, stream, waker, self.core.mono_us) {
                Ok(client) => client,
                // It is gone already.
                Err(_) => {
                    self.clients.release(slot);
                    continue;
                }
            };
            if let Some(text) = self.refusal(&client) {
                self.core.counters.connections_rejected += 1;
                self.clients.release(slot);
                let mut socket = client.socket;
                // A fresh connection's buffer has room for a line; if not, it closes without one.
                let _ = socket.write(text.as_bytes());
                continue;
            }
            if let Err(error) = client.socket.tune(self.core.limits.keepalive_s) {
                tracing::debug!(%error, "an accepted connection could not be tuned");
            }
            self.next_id += 1;
            self.core.outputs.open(id, slot);
            self.clients.put(slot, Box::new(client));
            self.list(slot);
        }
    }

    fn refusal(&self, client: &Client) -> Option<&'static str> {
        if self.clients.count() as u64 > self.core.limits.clients_max {
            return Some("-ERR max number of clients reached\r\n");
        }
        if self.core.limits.protected && !client.socket.is_local() {
            return Some(
                "-DENIED delayd is in protected mode: connections from other machines are refused \
                 while no password is set. To allow them all the same, where only friends reach \
                 this port, start with '--protected-mode no' or say 'CONFIG SET protected-mode no' \
                 on the machine itself.\r\n",
            );
        }
        None
    }

    fn read_sockets(&mut self) {
        std::mem::swap(&mut self.listed, &mut self.batch);
        for i in 0..self.batch.len() {
            let slot = self.batch[i];
            let Some(client) = self.clients.get_mut(slot) else { continue };
            client.socket.listed = false;
            self.core.outputs.try_again(slot);
            client.socket.held = self.core.outputs.unsent_bytes(slot) > OUTPUT_HOLD_BYTES;
            // What waits for its turn, or for a job, is not piled up without end.
            let full = client.input.len() >= INPUT_HOLD_BYTES
                && (client.socket.behind || self.core.outputs.is_waiting(slot));
            if self.draining || full || !client.socket.wants_reading() {
                continue;
            }
            match client.read(&mut self.core.pool) {
                Read::Bytes(count) => {
                    let counters = &mut self.core.counters;
                    counters.input_bytes += count as u64;
                    counters.input_bytes_largest =
                        counters.input_bytes_largest.max(client.input.len());
                }
                Read::Broken(error) => {
                    tracing::debug!(%error, client = %client.id, "a connection broke");
                    self.close(slot);
                }
            }
        }
    }

    fn read_clock(&mut self) {
        let mono_us = timer::mono_us();
        if self.stepped || mono_us >= self.tick_us {
            self.stepped = false;
            let reading = timer::reading();
            match self.core.clock.compare(reading) {
                Compared::InStep => {}
                Compared::Forward(us) => {
                    tracing::warn!(us, "the wall clock was set forward; what is due now falls due");
                }
                Compared::Back(us) => {
                    tracing::warn!(
                        us,
                        "the wall clock was set back; time runs at half speed meanwhile"
                    );
                }
            }
        }
        self.core.mono_us = timer::mono_us();
        let now = self.core.clock.at(self.core.mono_us);
        // Checked where it is used, too: a time that went back would let a job come early.
        assert!(now >= self.core.now, "the engine's clock went back");
        self.core.now = now;
    }

    fn run_commands(&mut self) {
        for i in 0..self.batch.len() {
            let slot = self.batch[i];
            if let Some(client) = self.clients.take(slot) {
                self.run_client(slot, client);
            }
        }
        self.batch.clear();
        self.hear_unheard();
        self.list_answered();
    }

    /// Runs a client's commands, up to its share of the turn.
    fn run_client(&mut self, slot: u32, mut client: Box<Client>) {
        self.core.outputs.set_current(client.id, slot);
        let after = self.run_frames(slot, &mut client);
        client.settle(&mut self.core.pool);
        let waiting = self.core.outputs.is_waiting(slot);
        let socket = &mut client.socket;
        socket.behind = after == After::Behind;
        let over = socket.ended && !socket.behind && !socket.held;
        if after == After::Gone || (over && waiting) {
            self.clients.put(slot, client);
            self.close(slot);
            return;
        }
        if (after == After::Closing || over) && socket.closing_us.is_none() {
            socket.closing_us = Some(self.core.mono_us);
            // So that it is closed even if nothing is to be written.
            self.core.outputs.mark_dirty(slot);
        }
        // What was left unread for the sake of the others is read next turn. A client that is held or
        // waits is listed when that ends.
        let again = socket.behind || (socket.wants_reading() && !waiting && !self.draining);
        self.clients.put(slot, client);
        self.account(slot);
        if again {
            self.list(slot);
        }
    }

    fn run_frames(&mut self, slot: u32, client: &mut Client) -> After {
        if client.socket.closing_us.is_some() {
            return After::Closing;
        }
        let Client { id, session, framer, input, socket } = client;
        let (mut midway, mut ran) = (socket.midway, 0);
        let limits = self.core.limits.frame;
        let running = Running { id: *id, slot, socket, input_bytes: input.len() };
        let mut hall = Hall::new(&mut self.core, &mut self.clients, running);
        let after = loop {
            if hall.is_waiting() {
                break After::Idle;
            }
            if hall.unsent_bytes() > OUTPUT_HOLD_BYTES {
                break After::Held;
            }
            if self.draining && !midway {
                break After::Idle;
            }
            match framer.next(input, &limits) {
                Frame::Incomplete => break After::Idle,
                Frame::Attack => {
                    let peer = socket.peer();
                    tracing::warn!(%peer, "an HTTP request came in: possibly a browser under attack; closed");
                    break After::Gone;
                }
                Frame::Error(error) => {
                    hall.refuse_framing(&error.to_string());
                    break After::Closing;
                }
                Frame::Command if ran == COMMANDS_PER_TURN => break After::Behind,
                Frame::Command => {}
            }
            ran += 1;
            let mut oversized = None;
            let mut args: SmallVec<[&[u8]; ARGS_INLINE]> = SmallVec::new();
            for arg in framer.args(input).iter() {
                args.push(match arg {
                    Arg::Bytes(bytes) => bytes,
                    Arg::Oversized { len } => {
                        oversized = oversized.or(Some(len));
                        &[]
                    }
                });
            }
            let next = match oversized {
                None => session.execute(&args, &mut hall),
                Some(len) => session.refuse_oversized(
                    &args,
                    u64::from(len),
                    u64::from(limits.argument_bytes_max),
                    &mut hall,
                ),
            };
            drop(args);
            midway = next == Next::Again;
            if midway {
                break After::Behind;
            }
            framer.consume(input);
            match next {
                Next::Done | Next::Waiting => {}
                Next::Again => unreachable!("left above"),
                Next::CloseAfterReply => break After::Closing,
            }
        };
        let slow = std::mem::take(&mut hall.slow);
        drop(hall);
        socket.midway = midway;
        socket.held = after == After::Held;
        if ran > 0 {
            socket.active_us = self.core.mono_us;
        }
        for mut entry in slow {
            entry.name = session.facts().name;
            self.core.slow_log.add(entry, self.core.limits.slow_len_max);
        }
        after
    }

    fn advance(&mut self) {
        let now = self.core.now;
        let (engine, mut turn) = self.core.engine();
        self.more = engine.advance(now, ADVANCE_STEPS_PER_TURN, &mut turn).more;
        self.hear_unheard();
        self.list_answered();
    }

    /// Hands the replies to the kernel.
    fn release(&mut self) {
        let mut dirty = std::mem::take(&mut self.batch);
        loop {
            // Closing a client may write to the next in line.
            self.core.outputs.take_dirty(&mut dirty);
            if dirty.is_empty() {
                break;
            }
            for slot in dirty.drain(..) {
                self.write(slot);
            }
            self.hear_unheard();
        }
        self.batch = dirty;
        self.list_answered();
    }

    fn write(&mut self, slot: u32) {
        let Some(client) = self.clients.get_mut(slot) else { return };
        let output = self.core.outputs.at(slot);
        let counters = &mut self.core.counters;
        counters.output_bytes_largest = counters.output_bytes_largest.max(output.bytes.len());
        // One that had been waiting may have left without our having noticed: its jobs would be
        // written into a closed connection and be lost, or held by a lease for nobody.
        if output.handed_at.is_some() && output.waited && !client.socket.is_peer_there() {
            self.close(slot);
            return;
        }
        let written = if output.bytes.is_empty() {
            Poll::Pending
        } else {
            client.socket.write(&output.bytes)
        };
        match written {
            Poll::Pending => {}
            Poll::Ready(Ok(count)) => {
                counters.output_bytes += count as u64;
                if self.core.outputs.sent(slot, count) {
                    self.core.engine.sent(client.id);
                }
            }
            Poll::Ready(Err(error)) => {
                tracing::debug!(%error, client = %client.id, "a connection broke");
                self.close(slot);
                return;
            }
        }
        let left = self.core.outputs.unsent_bytes(slot);
        if left == 0 && client.socket.closing_us.is_some() {
            self.close(slot);
            return;
        }
        let go_on = client.socket.held && left <= OUTPUT_HOLD_BYTES;
        // The waker calls when the kernel takes more, or it does so at once.
        let writable = left > 0 && client.socket.is_writable();
        if go_on || writable {
            self.list(slot);
        }
        self.account(slot);
    }

    fn count(&mut self) {
        let core = &mut self.core;
        core.turns += 1;
        core.memory_bytes_peak = core.memory_bytes_peak.max(core.memory_bytes());
        let Counters { commands, input_bytes, output_bytes, .. } = core.counters;
        core.rates.sample(core.mono_us, rates::Totals { commands, input_bytes, output_bytes });
        if core.mono_us >= self.tick_us {
            self.tick_us = core.mono_us + TICK_US;
            self.close_overdue();
        }
    }

    /// Closes a connection. What it was handed and never got goes to the next in line.
    pub fn close(&mut self, slot: u32) {
        let Some(client) = self.clients.take(slot) else { return };
        self.core.forget(&mut self.clients, client.id, slot, client.socket.bytes);
    }

    /// Puts a slot on the list for the next turn.
    fn list(&mut self, slot: u32) {
        if let Some(client) = self.clients.get_mut(slot)
            && !client.socket.listed
        {
            client.socket.listed = true;
            self.listed.push(slot);
        }
    }

    /// Clients that have been answered go on with what they sent meanwhile.
    fn list_answered(&mut self) {
        while let Some(slot) = self.core.outputs.answered.pop() {
            self.list(slot);
        }
    }

    /// Jobs handed to clients that wanted no reply: there is no byte to wait for.
    fn hear_unheard(&mut self) {
        while let Some(slot) = self.core.outputs.unheard.pop() {
            if let Some(client) = self.clients.get_mut(slot) {
                self.core.engine.sent(client.id);
            }
        }
    }
}

/// Why a client's commands stopped running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum After {
    /// There is none left, or the client waits.
    Idle,
    /// Its share of the turn is used up.
    Behind,
    /// It must read its replies first.
    Held,
    /// It gets its replies and is closed.
    Closing,
    /// It is closed at once.
    Gone,
}
