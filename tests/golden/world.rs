//! A server without sockets: the real framer, sessions, engine, outputs and counters, under a clock
//! that the script moves.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::BytesMut;
use delayd::command::CommandSpec;
use delayd::command::spec::action;
use delayd::command::spec::action::Shutdown;
use delayd::config::{Config, Refused};
use delayd::engine::decide::watch::Stamp;
use delayd::engine::decide::whole::{Begun, Whole};
use delayd::engine::model::reply::{Outbox, Reply};
use delayd::engine::model::request::{QueueName, Request};
use delayd::engine::model::token;
use delayd::engine::room::Flow;
use delayd::engine::{Engine, Outcome, Settings, Turn};
use delayd::error::Error;
use delayd::ids::{ClientId, Db};
use delayd::limits::ADVANCE_STEPS_PER_TURN;
use delayd::observe::{Counters, commands::CommandTotals, errors::ErrorCounts, slowlog};
use delayd::pubsub::PubSub;
use delayd::resp::{Arg, Encoder, Frame, Framer, Protocol};
use delayd::server::clock::{Clock, Reading};
use delayd::server::connection::clients::Clients;
use delayd::server::core::Core;
use delayd::server::watch::logs::LogLevel;
use delayd::session::acl::Acl;
use delayd::session::acl::log::Denials;
use delayd::session::world::{
    BaseBegun, BaseRefused, CallTimes, ConfigError, Ended, Patience, SlowEntry, Unblock,
    WaitDurable, World,
};
use delayd::session::{ClientLine, Next, Session, SocketFacts};
use delayd::time::{Micros, Millis};

use crate::journal::{self, Journal};

/// 2030-01-01T00:00:00Z: when every transcript begins.
pub const START_MS: u64 = 1_893_456_000_000;

/// What each command takes, so that INFO and the slow log show the same in every run.
const COMMAND_NS: u64 = 12_000;

/// A server and its clients.
pub struct Server {
    core: Core,
    /// Gives out slots; the clients themselves are here.
    slots: Clients,
    clients: Vec<Client>,
    journal: Option<Journal>,
    /// Slow commands of the running client, whose session, which knows its name, is not at hand.
    slow: Vec<slowlog::Entry>,
    /// Commands that ran, by name.
    pub ran: BTreeSet<&'static str>,
}

struct Client {
    id: ClientId,
    slot: u32,
    session: Option<Session>,
    framer: Framer,
    input: BytesMut,
    output: Vec<u8>,
    midway: bool,
    closing: bool,
    closed: bool,
}

/// What a client has received since it was last asked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Received {
    pub bytes: Vec<u8>,
    pub waiting: bool,
    pub closed: bool,
}

impl Server {
    pub fn new() -> Server {
        let mut config = Config::default();
        config.machine_bytes = 8 << 30;
        // There is none until the script opens one.
        for (name, value) in [("maxclients", "100"), ("appendonly", "no")] {
            config.set(name, &[value.to_owned()]).expect("a fitting value");
        }
        let mut core = Core::new(config, 9248, LogLevel::default(), Arc::default());
        let now = Millis(START_MS).start();
        let settings = Settings {
            hash_seed: 7,
            token_floor: token::floor_at(START_MS),
            ..core.engine.settings().clone()
        };
        core.engine = Engine::new(settings);
        core.clock.anchored =
            Clock::new(Reading { mono_us: 0, wall_us: now.0, boot_us: 0 }, Micros(0));
        (core.clock.now, core.clock.start) = (now, now);
        core.journal.last_base_s = now.0 / 1_000_000;
        (core.clock.mono_us, core.clock.start_mono_us) = (0, 0);
        core.run_id = "0123456789abcdef0123456789abcdef01234567".to_owned();
        core.chance = 7;
        Server {
            core,
            slots: Clients::default(),
            clients: Vec::new(),
            journal: None,
            slow: Vec::new(),
            ran: BTreeSet::new(),
        }
    }

    /// A new connection; its number counts from 0.
    pub fn connect(&mut self) -> usize {
        let slot = self.slots.reserve();
        let id = ClientId(self.clients.len() as u64 + 1);
        self.core.outputs.open(id, slot);
        self.core.counters.connections += 1;
        self.clients.push(Client {
            id,
            slot,
            session: Some(Session::greet(id, &self.core.acl)),
            framer: Framer::new(),
            input: BytesMut::new(),
            output: Vec::new(),
            midway: false,
            closing: false,
            closed: false,
        });
        self.clients.len() - 1
    }

    /// As a client that begins with HELLO 3.
    pub fn speak_resp3(&mut self, client: usize) {
        self.send(client, b"HELLO 3\r\n");
        let received = self.receive(client);
        assert!(received.bytes.starts_with(b"%7\r\n"), "{received:?}");
        // As if it had never been said, so that both protocols are counted alike.
        self.core.commands = CommandTotals::default();
        self.core.counters.commands = 0;
    }

    /// Bytes arrive from a client; everything that can happen at this instant happens.
    pub fn send(&mut self, client: usize, bytes: &[u8]) {
        self.clients[client].input.extend_from_slice(bytes);
        self.settle();
    }

    /// A client hangs up.
    pub fn hang_up(&mut self, client: usize) {
        self.close(client);
        self.settle();
    }

    /// What a client received, taken.
    pub fn receive(&mut self, client: usize) -> Received {
        let client = &mut self.clients[client];
        let bytes = std::mem::take(&mut client.output);
        let waiting = !client.closed && self.core.outputs.is_waiting(client.slot);
        Received { bytes, waiting, closed: client.closed }
    }

    pub fn is_closed(&self, client: usize) -> bool {
        self.clients[client].closed
    }

    pub fn now(&self) -> Micros {
        self.core.clock.now
    }

    /// When something happens by itself, if that is before `until`.
    pub fn next_event(&self, until: Micros) -> Option<Micros> {
        let due = self.core.engine.next_wakeup().map(|at| at.start());
        let journal = self.journal.as_ref().and_then(Journal::next_event);
        let limit_us = self.core.waits.next_limit_us();
        let limit = limit_us.map(|at| Micros(self.core.clock.now.0 + at - self.core.clock.mono_us));
        let pause = Some(self.core.pauses.until_us()).filter(|at| *at < u64::MAX);
        let pause = pause.map(|at| Micros(self.core.clock.now.0 + at - self.core.clock.mono_us));
        let at = [due, journal, limit, pause].into_iter().flatten().min()?.max(self.core.clock.now);
        (at <= until).then_some(at)
    }

    /// From here on there is a journal whose syncs and bases take so long.
    pub fn open_journal(&mut self, sync_us: u64, base_us: u64) {
        let config = &mut self.core.config;
        config.set("appendonly", &["yes".to_owned()]).expect("a fitting value");
        self.journal = Some(Journal::open(&mut self.core, sync_us, base_us));
    }

    /// From here on bases fail.
    pub fn fail_bases(&mut self, cause: &str) {
        self.journal.as_mut().expect("a journal").fail_bases(cause);
    }

    /// The disk is broken.
    pub fn fail_journal(&mut self, cause: &str) {
        self.journal.as_mut().expect("a journal").fail(&mut self.core, cause);
        self.settle();
    }

    /// The journal is being read, so far of so many bytes; all of them: it has been read.
    pub fn load(&mut self, total_bytes: u64, loaded_bytes: u64) {
        journal::load(&mut self.core, total_bytes, loaded_bytes);
        if loaded_bytes == total_bytes {
            self.core.journal.loading = None;
        }
    }

    /// Moves the clock there, and lets what is due then happen.
    pub fn go_to(&mut self, at: Micros) {
        assert!(at >= self.core.clock.now, "the clock went back");
        self.core.clock.mono_us += at.0 - self.core.clock.now.0;
        self.core.clock.now = at;
        self.settle();
    }

    /// What the journal allows from here on.
    pub fn set_flow(&mut self, flow: Flow) {
        self.core.engine.set_flow(self.core.clock.now, flow);
        self.settle();
    }

    /// Turns at this instant, until nothing is left to do.
    fn settle(&mut self) {
        loop {
            let mut worked = false;
            self.core.pauses.end_late(self.core.clock.mono_us);
            self.core.set_flow();
            for client in 0..self.clients.len() {
                worked |= self.run_frames(client);
            }
            let now = self.core.clock.now;
            let (engine, mut turn) = self.core.engine();
            worked |= engine.advance(now, ADVANCE_STEPS_PER_TURN, &mut turn).more;
            self.core.end_late_waits();
            let Core { engine, outputs, messages, limits, .. } = &mut self.core;
            messages.deliver(engine, outputs, &limits.notify);
            if let Some(journal) = &mut self.journal {
                worked |= journal.step(&mut self.core);
            }
            self.core.facts.clear();
            worked |= self.release();
            self.count_over();
            if !worked {
                return;
            }
        }
    }

    /// Runs what a client has sent, as `server::requests` does.
    fn run_frames(&mut self, at: usize) -> bool {
        let mut worked = false;
        let client = &mut self.clients[at];
        let (id, slot) = (client.id, client.slot);
        if client.closed {
            return false;
        }
        self.core.outputs.set_current(id, slot);
        loop {
            let client = &mut self.clients[at];
            let open = self.core.limits.frame;
            let locked = client.session.as_ref().is_some_and(Session::is_locked);
            let limits = if locked { open.before_auth() } else { open };
            if client.closing || self.core.outputs.is_waiting(slot) {
                break;
            }
            match client.framer.next(&mut client.input, &limits) {
                Frame::Incomplete => break,
                Frame::Attack => {
                    self.close(at);
                    return true;
                }
                Frame::Error(error) => {
                    let text = error.to_string();
                    self.core.outputs.errors.count(&text);
                    self.core.outputs.encoder(id).error(&text);
                    self.clients[at].closing = true;
                    break;
                }
                Frame::Command => {}
            }
            // While it runs, a client is reached by others through its output alone.
            let input = std::mem::take(&mut client.input);
            let framer = std::mem::take(&mut client.framer);
            let mut session = client.session.take().expect("only here is it taken");
            let mut oversized = None;
            let mut args: Vec<&[u8]> = Vec::new();
            for arg in framer.args(&input).iter() {
                args.push(match arg {
                    Arg::Bytes(bytes) => bytes,
                    Arg::Oversized { len } => {
                        oversized = oversized.or(Some(len));
                        b""
                    }
                });
            }
            let mut world = ClientWorld { server: self, running: at };
            let next = match oversized {
                None => session.execute(&args, &mut world),
                Some(len) => {
                    let bytes_max = limits.argument_bytes_max.into();
                    session.refuse_oversized(&args, len.into(), bytes_max, &mut world)
                }
            };
            let client = &mut self.clients[at];
            (client.input, client.framer) = (input, framer);
            for mut entry in self.slow.drain(..) {
                entry.name = session.name().to_vec();
                self.core.slow_log.add(entry, self.core.limits.slow_len_max);
            }
            client.session = Some(session);
            if next == Next::Postponed {
                break;
            }
            client.midway = next == Next::Again;
            worked = true;
            if client.midway {
                break;
            }
            client.framer.consume(&mut client.input);
            client.closing = next == Next::CloseAfterReply;
            if self.core.shutdown.take().is_some() {
                self.clients[at].closing = true;
            }
        }
        worked
    }

    /// Hands over the replies, as `server::release` does.
    fn release(&mut self) -> bool {
        let mut worked = false;
        loop {
            for slot in std::mem::take(&mut self.core.outputs.unheard) {
                let heard = self.clients.iter().find(|c| c.slot == slot && !c.closed);
                if let Some(client) = heard {
                    self.core.engine.sent(client.id);
                }
            }
            let dirty: Vec<u32> =
                std::iter::from_fn(|| self.core.outputs.next_dirty(false)).collect();
            for slot in &dirty {
                let client = self.clients.iter_mut().find(|c| c.slot == *slot && !c.closed);
                let Some(client) = client else { continue };
                let bytes = self.core.outputs.at(*slot).unsent.to_vec();
                client.output.extend_from_slice(&bytes);
                if !bytes.is_empty() && self.core.outputs.sent(*slot, bytes.len()) > 0 {
                    self.core.engine.sent(client.id);
                }
            }
            let leaving = |client: &Client| client.closing && !client.closed;
            let closing: Vec<usize> =
                (0..self.clients.len()).filter(|at| leaving(&self.clients[*at])).collect();
            closing.iter().for_each(|at| self.close(*at));
            if dirty.is_empty() && closing.is_empty() {
                break;
            }
            worked = true;
        }
        self.core.outputs.answered.clear();
        worked
    }

    /// Counts commands that waited and are over, as `server::turn` does.
    fn count_over(&mut self) {
        let clients = &self.clients;
        self.core.count_over(|client, _| {
            let found = clients.iter().find(|found| found.id == client && !found.closed)?;
            let session = found.session.as_ref()?;
            Some((addr_of(found), session.name().to_vec()))
        });
    }

    fn close(&mut self, at: usize) {
        let client = &mut self.clients[at];
        if !std::mem::replace(&mut client.closed, true) {
            let (id, slot) = (client.id, client.slot);
            self.core.forget(&mut self.slots, id, slot, 0);
        }
    }
}

/// The server as the running session sees it.
struct ClientWorld<'a> {
    server: &'a mut Server,
    running: usize,
}

impl ClientWorld<'_> {
    fn place(&self, id: ClientId) -> Option<usize> {
        self.server.clients.iter().position(|client| client.id == id && !client.closed)
    }
}

fn addr_of(client: &Client) -> String {
    format!("127.0.0.1:{}", 50_000 + client.id.0)
}

fn socket_facts(core: &Core, client: &Client) -> SocketFacts {
    SocketFacts {
        addr: addr_of(client),
        laddr: "127.0.0.1:9248".to_owned(),
        fd: 10 + client.id.0 as i64,
        age_s: core.clock.mono_us / 1_000_000,
        waiting: core.outputs.is_waiting(client.slot),
        readable: true,
        ..SocketFacts::default()
    }
}

impl World for ClientWorld<'_> {
    fn now(&self) -> Micros {
        self.server.core.clock.now
    }

    fn random(&mut self) -> u64 {
        self.server.core.random()
    }

    fn encoder(&mut self, client: ClientId) -> Encoder<'_> {
        self.server.core.outputs.encoder(client)
    }

    fn set_protocol(&mut self, client: ClientId, protocol: Protocol) {
        self.server.core.outputs.set_protocol(client, protocol);
    }

    fn set_muted(&mut self, client: ClientId, muted: bool) {
        self.server.core.outputs.set_muted(client, muted);
    }

    fn handle(&mut self, client: ClientId, request: &Request<'_>) -> Outcome {
        let now = self.server.core.clock.now;
        let (engine, mut turn) = self.server.core.engine();
        let outcome = engine.handle(now, client, request, &mut turn);
        if outcome == Outcome::Waiting {
            self.server.core.outputs.set_waiting(client);
        }
        outcome
    }

    fn handle_in_transaction(&mut self, client: ClientId, request: &Request<'_>) -> Outcome {
        let now = self.server.core.clock.now;
        let (engine, mut turn) = self.server.core.engine();
        engine.handle_in_transaction(now, client, request, &mut turn)
    }

    fn stamp(&mut self, client: ClientId, queue: QueueName<'_>) -> Stamp {
        let now = self.server.core.clock.now;
        let (engine, mut turn) = self.server.core.engine();
        engine.stamp(now, client, queue, &mut turn)
    }

    fn begin_transaction(&mut self, client: ClientId, whole: &Whole<'_>) -> Begun {
        let now = self.server.core.clock.now;
        let (engine, mut turn) = self.server.core.engine();
        engine.begin_transaction(now, client, whole, &mut turn)
    }

    fn check_queued(&self, request: &Request<'_>, limits: bool) -> Result<(), Error> {
        self.server.core.engine.check_queued(self.server.core.clock.now, request, limits)
    }

    fn set_watching(&mut self, client: ClientId, watching: bool) {
        let all = &mut self.server.core.watching;
        if watching {
            all.insert(client)
        } else {
            all.remove(&client)
        };
        if !watching {
            self.server.core.engine.unwatch(client);
        }
    }

    fn end_transaction(&mut self) {
        let now = self.server.core.clock.now;
        let (engine, mut turn) = self.server.core.engine();
        engine.end_transaction(now, &mut turn);
    }

    fn ask(&mut self, client: ClientId, request: &Request<'_>) -> Result<i64, Error> {
        let core = &mut self.server.core;
        let mut answer = Answer(None);
        let turn = &mut Turn { facts: &mut core.facts, outbox: &mut answer };
        core.engine.handle_in_transaction(core.clock.now, client, request, turn);
        answer.0.expect("the engine answers a reading request at once")
    }

    fn release(&mut self, client: ClientId) {
        let now = self.server.core.clock.now;
        let (engine, mut turn) = self.server.core.engine();
        engine.closed(now, client, &mut turn);
    }

    fn pubsub(&mut self) -> &mut PubSub {
        let slot = self.server.clients[self.running].slot;
        let core = &mut self.server.core;
        core.messages.of(slot, &core.outputs, core.facts.count > 0)
    }

    fn pubsub_cost(&self, what: &action::PubSub<'_>) -> u64 {
        self.server.core.messages.cost(what)
    }

    fn is_monitored(&self) -> bool {
        self.server.core.messages.pubsub.is_monitored()
    }

    fn show_command(&mut self, db: Db, spec: &CommandSpec, args: &[&[u8]]) {
        let addr = addr_of(&self.server.clients[self.running]);
        let now = self.server.core.clock.now;
        self.server.core.messages.show_command(now, db, &addr, spec, args);
    }

    fn clients(&self) -> Vec<ClientLine> {
        // The running one's session is not at hand; it fills in itself.
        let facts = |client: &Client| match &client.session {
            Some(session) => session.facts(),
            None => Session::new(client.id).facts(),
        };
        let open = self.server.clients.iter().filter(|client| !client.closed);
        open.map(|client| ClientLine {
            session: facts(client),
            socket: socket_facts(&self.server.core, client),
        })
        .collect()
    }

    fn running_line(&self) -> ClientLine {
        let client = &self.server.clients[self.running];
        let session = Session::new(client.id).facts();
        ClientLine { session, socket: socket_facts(&self.server.core, client) }
    }

    fn acl(&mut self) -> &mut Acl {
        &mut self.server.core.acl
    }

    fn users_changed(&mut self) {
        let mut gone = Vec::new();
        let Server { core, clients, .. } = &mut *self.server;
        for (at, client) in clients.iter_mut().enumerate().filter(|(_, client)| !client.closed) {
            let Some(mut session) = client.session.take() else { continue };
            let socket = |core: &Core| socket_facts(core, client);
            if !core.take_up_user(&mut session, client.slot, socket) {
                gone.push(at);
            }
            client.session = Some(session);
        }
        gone.into_iter().for_each(|at| self.server.close(at));
    }

    fn load_users(&mut self) -> Result<(), String> {
        self.server.core.load_users()?;
        self.users_changed();
        Ok(())
    }

    fn save_users(&mut self) -> Result<(), String> {
        self.server.core.save_users()
    }

    fn draw_secret(&mut self, bytes: &mut [u8]) {
        bytes.fill_with(|| self.server.core.random() as u8);
    }

    fn kill(&mut self, client: ClientId) -> bool {
        let Some(at) = self.place(client) else { return false };
        self.server.close(at);
        true
    }

    fn pause(&mut self, ms: u64, writes_only: bool) {
        let core = &mut self.server.core;
        core.pauses.begin(ms, writes_only, core.clock.mono_us);
        core.set_flow();
    }

    fn unpause(&mut self) {
        self.server.core.pauses.end();
    }

    fn paused(&self) -> Option<bool> {
        self.server.core.pauses.writes_only()
    }

    fn unblock(&mut self, client: ClientId, how: Unblock) -> bool {
        self.server.core.unblock(client, how)
    }

    fn config(&self) -> Vec<(&'static str, String)> {
        let mut all = self.server.core.config.shown_all();
        all.sort_unstable_by_key(|(name, _)| *name);
        all
    }

    fn config_set(&mut self, settings: &[(&str, &[u8])]) -> Result<(), ConfigError> {
        let pairs: Vec<(String, String)> = settings
            .iter()
            .map(|(name, value)| {
                ((*name).to_owned(), String::from_utf8(value.to_vec()).expect("ASCII scripts"))
            })
            .collect();
        self.server.core.config.set_live(&pairs).map_err(|refused| match refused {
            Refused::Unknown(name) => ConfigError::Unknown { name },
            Refused::Value { option, reason, .. } => ConfigError::Refused { name: option, reason },
        })?;
        self.server.core.reconfigure();
        if pairs.iter().any(|(name, _)| name == "requirepass") {
            self.server.core.require_password();
            self.users_changed();
        }
        Ok(())
    }

    fn config_rewrite(&mut self) -> Result<(), String> {
        Err("The server is running without a config file".to_owned())
    }

    fn reset_stats(&mut self) {
        self.server.core.counters = Counters::default();
        self.server.core.commands = CommandTotals::default();
        self.server.core.outputs.errors = ErrorCounts::default();
        self.server.core.acl.denials = Denials::default();
    }

    fn info(&mut self, sections: &[&[u8]]) -> String {
        self.server.core.info(self.server.slots.count(), sections)
    }

    fn slowlog(&self, count: usize) -> Vec<SlowEntry> {
        self.server.core.slow_log.newest(count).map(SlowEntry::from).collect()
    }

    fn slowlog_len(&self) -> usize {
        self.server.core.slow_log.len()
    }

    fn slowlog_reset(&mut self) {
        self.server.core.slow_log.clear();
    }

    fn histograms(&self, names: &[&[u8]]) -> Vec<CallTimes> {
        self.server.core.histograms(names)
    }

    fn memory_stats(&self) -> Vec<(&'static str, u64)> {
        self.server.core.memory_stats()
    }

    fn last_save_s(&self) -> u64 {
        self.server.core.journal.last_base_s
    }

    fn is_loading(&self) -> bool {
        self.server.core.journal.loading.is_some()
    }

    fn begin_base(&mut self, schedule: bool) -> Result<BaseBegun, BaseRefused> {
        self.server.core.begin_base(schedule)
    }

    fn wait_base(&mut self, client: ClientId) -> Result<(), BaseRefused> {
        self.server.core.wait_base(client)
    }

    fn wait_durable(
        &mut self,
        client: ClientId,
        local: bool,
        replicas: u64,
        patience: Patience,
    ) -> WaitDurable {
        self.server.core.wait_durable(client, local, replicas, patience)
    }

    fn journal_offset(&self) -> u64 {
        0
    }

    fn shutdown(&mut self, how: Shutdown) -> Result<(), String> {
        self.server.core.shutdown = Some(how.now);
        Ok(())
    }

    fn shutdown_abort(&mut self) -> bool {
        self.server.core.shutdown.take().is_some()
    }

    fn began(&mut self, _client: ClientId, _spec: &'static CommandSpec) {
        self.server.count_over();
    }

    fn ended(&mut self, _client: ClientId, spec: &'static CommandSpec, args: &[&[u8]], how: Ended) {
        if matches!(how, Ended::Failed | Ended::Replied | Ended::Waiting) {
            self.server.ran.insert(spec.name);
        }
        let client = &self.server.clients[self.running];
        let (slot, addr) = (client.slot, addr_of(client));
        let core = &mut self.server.core;
        if core.note_ended(slot, spec, args, how, COMMAND_NS) {
            self.server.slow.push(core.slow_entry(spec, args, addr, COMMAND_NS));
        }
    }

    fn refused(&mut self, _client: ClientId, text: &str) {
        self.server.core.outputs.errors.count(text);
    }
}

/// Takes an integer reply instead of a client.
struct Answer(Option<Result<i64, Error>>);

impl Outbox for Answer {
    fn reply(&mut self, _client: ClientId, reply: Reply<'_>) {
        self.0 = Some(match reply {
            Reply::Integer(number) => Ok(number),
            Reply::Error(error) => Err(error.clone()),
            other => panic!("not an integer: {other:?}"),
        });
    }
}
