//! From bytes that clients have sent to commands that run.

use crate::limits::{
    ARGUMENTS_MAX, COMMANDS_PER_TURN, COMMANDS_US_PER_TURN, INPUT_HOLD_BYTES,
    OUTPUT_BYTES_PER_TURN, OUTPUT_HOLD_BYTES, PROPOSAL_BYTES, READ_BYTES_PER_TURN_ALL,
    READS_PER_TURN,
};
use crate::resp::{Arg, Args, FrameLimits, Framed};
use crate::server::admin::{ClientWorld, RunningClient};
use crate::server::connection::client::{Client, Read};
use crate::server::turn::Turns;
use crate::session::{AfterCommand, Session};
use smallvec::SmallVec;
use std::io;

/// Arguments of a command that need no allocation.
const ARGS_INLINE: usize = 16;

impl Turns {
    /// Reads from the listed clients, as far as the turn's share goes; the rest stay listed, first
    /// in line for the next turn.
    pub(in crate::server) fn read_sockets(&mut self) {
        // Written data that is not safe yet is bounded: all requests wait, and stay listed.
        if self.core.is_flooded() || self.core.messages.is_full() {
            return;
        }
        let mut taken = 0;
        let mut left = READ_BYTES_PER_TURN_ALL;
        while taken < self.listed.len().min(READS_PER_TURN) && left > 0 {
            let slot = self.listed[taken];
            taken += 1;
            left = left.saturating_sub(self.read_socket(slot));
        }
        self.batch.extend(self.listed.drain(..taken));
    }

    /// Reads from one client; returns how many bytes.
    fn read_socket(&mut self, slot: u32) -> usize {
        let Some(client) = self.clients.get_mut(slot) else { return 0 };
        client.socket.listed = false;
        self.core.outputs.try_again(slot);
        // Waiting work does not pile up without end: its turn comes.
        let full = client.socket.behind && client.input.len() >= INPUT_HOLD_BYTES;
        if self.draining || full || !client.socket.wants_reading() {
            return 0;
        }
        let is_waiting = client.socket.postponed || self.core.outputs.of(slot).waiting;
        match client.read(is_waiting, &mut self.core.common.buffers) {
            Read::Bytes(count) => {
                let counters = &mut self.core.watch.counters;
                counters.input_bytes += count as u64;
                counters.input_bytes_largest = counters.input_bytes_largest.max(client.input.len());
                count
            }
            Read::Broken(error) => {
                // Only TLS finds that what came is not what was sent.
                if error.kind() == io::ErrorKind::InvalidData && self.core.common.lines.admits() {
                    let peer = &client.socket.peer;
                    tracing::warn!(%error, client = %client.id, %peer, "a TLS connection broke");
                }
                tracing::debug!(%error, client = %client.id, "a connection broke");
                self.close(slot);
                0
            }
        }
    }

    /// Runs the requests that were read, client after client, within the turn's share. Clients with long commands come
    /// last, at least one of them in every turn: so a client with short ones waits for one of them at most, not for
    /// all.
    pub(in crate::server) fn run_commands(&mut self) {
        let until_us = self.core.clock.mono_us + COMMANDS_US_PER_TURN;
        let mut batch = std::mem::take(&mut self.batch);
        let clients = &mut self.clients;
        let mut is_heavy =
            |slot: &u32| clients.get_mut(*slot).is_some_and(|client| client.socket.is_heavy());
        batch.sort_by_cached_key(&mut is_heavy);
        let lights = batch.partition_point(|slot| !is_heavy(slot));
        let (light, heavy) = batch.split_at(lights);
        let light_ran = self.run_clients(light, until_us);
        let heavy_ran = self.run_clients(heavy, until_us);
        self.put_off(&heavy[heavy_ran..]);
        self.put_off(&light[light_ran..]);
        batch.clear();
        self.batch = batch;
        self.run_backlog();
        self.list_answered();
    }

    /// Runs clients until the time is up, at least one; returns how many.
    fn run_clients(&mut self, slots: &[u32], until_us: u64) -> usize {
        for (ran, slot) in slots.iter().enumerate() {
            if ran > 0 && self.core.clock.timer.mono_us() >= until_us {
                return ran;
            }
            if let Some(client) = self.clients.take(*slot) {
                self.run_client(*slot, client, until_us);
                self.propose_if_large();
            }
        }
        slots.len()
    }

    /// These have been read and did not come to run: they are first in the next turn.
    fn put_off(&mut self, slots: &[u32]) {
        for slot in slots {
            if let Some(client) = self.clients.get_mut(*slot) {
                client.socket.listed = true;
                client.socket.behind = !client.input.is_empty();
            }
        }
        self.listed.splice(..0, slots.iter().copied());
    }

    /// When no pause holds them back any more, the held-back clients go on.
    pub(in crate::server) fn resume_postponed(&mut self) {
        self.core.common.pauses.end_late(self.core.clock.mono_us);
        if self.core.common.pauses.is_running() {
            return;
        }
        for slot in std::mem::take(&mut self.postponed) {
            if let Some(client) = self.clients.get_mut(slot)
                && std::mem::take(&mut client.socket.postponed)
            {
                self.core.common.pauses.postponed_count -= 1;
                self.list(slot);
            }
        }
    }

    /// Runs a client's commands, up to its share of the turn.
    fn run_client(&mut self, slot: u32, mut client: Box<Client>, until_us: u64) {
        self.core.outputs.set_current(client.id, slot);
        let after = self.run_frames(slot, &mut client, until_us);
        client.input.trim_buffer(&mut self.core.common.buffers);
        let waiting = self.core.outputs.of(slot).waiting;
        let socket = &mut client.socket;
        socket.behind = after == After::Behind;
        let postponed = after == After::Postponed;
        let before = std::mem::replace(&mut socket.postponed, postponed);
        self.core.common.pauses.postponed_count += usize::from(postponed);
        self.core.common.pauses.postponed_count -= usize::from(before);
        let over = socket.ended && !socket.behind && !socket.held;
        if after == After::Gone || (over && (waiting || postponed)) {
            self.clients.put(slot, client);
            self.close(slot);
            return;
        }
        if (after == After::Closing || over) && socket.closing_us.is_none() {
            socket.closing_us = Some(self.core.clock.mono_us);
            // So that it is closed even if nothing must be written.
            self.core.outputs.mark_dirty(slot);
        }
        // Requests left unread for the sake of the others are read next turn, also of one that is held or waits; it is
        // listed again when that ends.
        let again = socket.behind || (socket.wants_reading() && !self.draining);
        self.clients.put(slot, client);
        if postponed && !before {
            self.postponed.push(slot);
        }
        self.account(slot);
        if again {
            self.list(slot);
        }
    }

    fn run_frames(&mut self, slot: u32, client: &mut Client, until_us: u64) -> After {
        if client.socket.closing_us.is_some() {
            return After::Closing;
        }
        let Client { id, session, framer, input, socket } = client;
        let (mut midway, mut ran, mut refilled) = (socket.midway, 0, false);
        let open = self.core.options.limits.frame;
        let locked = open.before_auth();
        let face = session.face();
        let running = RunningClient { id: *id, slot, face, socket, input_bytes: input.len() };
        let unsent_before = self.core.outputs.of(slot).unsent.len();
        let mut world = ClientWorld::new(&mut self.core, &mut self.clients, running);
        let began_us = world.now_us();
        let after = loop {
            if world.core.outputs.of(slot).waiting {
                break After::Idle;
            }
            let unsent_bytes = world.core.outputs.of(slot).unsent.len();
            // One that goes on sending may have to get rid of all its requests before it reads.
            if unsent_bytes > OUTPUT_HOLD_BYTES && input.len() < INPUT_HOLD_BYTES {
                break After::Held;
            }
            if unsent_bytes > unsent_before + OUTPUT_BYTES_PER_TURN {
                break After::Behind;
            }
            let is_full = world.core.messages.is_full();
            if is_full || world.core.facts.bytes.len() > PROPOSAL_BYTES {
                break After::Behind;
            }
            if self.draining && !midway {
                break After::Idle;
            }
            // A command may have changed that.
            let limits = if session.is_locked() { locked } else { open };
            match framer.next(&mut input.bytes, &limits) {
                Framed::Incomplete if refilled && input.has_later() => break After::Behind,
                Framed::Incomplete if input.take_later(&mut world.core.common.buffers) => {
                    refilled = true;
                    continue;
                }
                Framed::Incomplete => break After::Idle,
                Framed::Attack => {
                    if world.core.common.lines.admits() {
                        let peer = &socket.peer;
                        tracing::warn!(%peer, "an HTTP request came in: possibly a browser under attack; closed");
                    }
                    break After::Gone;
                }
                Framed::Error(error) => {
                    world.begin_frame();
                    world.refuse_framing(error);
                    world.end_frame();
                    break After::Closing;
                }
                Framed::Command if ran == COMMANDS_PER_TURN => break After::Behind,
                // A pipeline of KEYS costs as much as many clients.
                Framed::Command if ran > 0 && world.now_us() >= until_us => break After::Behind,
                Framed::Command => {}
            }
            ran += 1;
            world.begin_frame();
            let next = run_command(session, framer.args(&input.bytes), &limits, &mut world);
            if next == AfterCommand::Postponed {
                break After::Postponed;
            }
            midway = next == AfterCommand::Again;
            if midway {
                break After::Behind;
            }
            framer.consume(&mut input.bytes);
            match next {
                AfterCommand::Done | AfterCommand::Waiting => {}
                AfterCommand::Again | AfterCommand::Postponed => unreachable!("left above"),
                AfterCommand::CloseAfterReply => {
                    world.end_frame();
                    break After::Closing;
                }
            }
            world.end_frame();
        };
        let took_us = world.now_us() - began_us;
        let slow = std::mem::take(&mut world.slow);
        drop(world);
        socket.midway = midway;
        socket.held = after == After::Held;
        if ran > 0 {
            socket.active_us = self.core.clock.mono_us;
            socket.note_turn(took_us);
        }
        for mut entry in slow {
            entry.name = session.name().to_vec();
            let slow = self.core.options.limits.slow;
            self.core.watch.slow_log.add(entry, slow.len_max, slow.bytes_max);
        }
        after
    }
}

/// Runs one command; one with an argument too long to be kept is refused.
fn run_command(
    session: &mut Session,
    framed: Args<'_>,
    limits: &FrameLimits,
    world: &mut ClientWorld<'_>,
) -> AfterCommand {
    if framed.len() > ARGUMENTS_MAX {
        let name = framed.get(0).and_then(Arg::bytes).unwrap_or_default();
        return session.refuse_many(name, framed.len(), world);
    }
    let mut oversized = None;
    let mut args: SmallVec<[&[u8]; ARGS_INLINE]> = SmallVec::new();
    for arg in framed.iter() {
        args.push(match arg {
            Arg::Bytes(bytes) => bytes,
            Arg::Oversized { len } => {
                oversized = oversized.or(Some(len));
                &[]
            }
        });
    }
    match oversized {
        None => session.execute(&args, world),
        Some(len) => {
            let limit = (limits.argument_limit, limits.argument_bytes_max.into());
            session.refuse_oversized(&args, len.into(), limit, world)
        }
    }
}

/// Why a client's commands stopped running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum After {
    /// No request is left, or the client waits.
    Idle,
    /// Its share of the turn is used up.
    Behind,
    /// Clients are paused.
    Postponed,
    /// It must read its replies first.
    Held,
    Closing,
    /// It is closed at once.
    Gone,
}
