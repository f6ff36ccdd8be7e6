//! The server as a session sees it while one of its commands runs.

mod acl;
mod backup;
mod clients;
mod cluster;
pub(super) mod config;
mod hash_slots;
pub(super) mod info;
mod latency;
mod persistence;
mod sentinel;
pub(super) mod users;

use crate::command::CommandSpec;
use crate::command::spec::Flag;
use crate::command::spec::action::{
    Action, Clients as ClientsAction, Connection, ServerRequest, Users,
};
use crate::command::table::Face;
use crate::engine::decide::transaction::{TransactionBegun, WholeTransaction};
use crate::engine::decide::watch::Stamp;
use crate::engine::model::holder::Holder;
use crate::engine::model::reply::{Outbox, Reply};
use crate::engine::model::request::{QueueName, Request};
use crate::engine::{Outcome, Turn};
use crate::error::Error;
use crate::ids::{ClientId, Db};
use crate::limits::{CONFIG_PATTERN_COST, INFO_COST, READ_BYTES_PER_TURN_ALL, REWRITE_COST};
use crate::observe::slowlog::SlowEntry;
use crate::pubsub::PubSub;
use crate::resp::{Encoder, Protocol, ProtocolError};
use crate::server::connection::calls::{Call, Ending};
use crate::server::connection::client::{Client, Socket};
use crate::server::connection::clients::Clients;
use crate::server::core::Core;
use crate::server::outbox::Output;
use crate::session::acl::Acl;
use crate::session::acl::log::{Context, DeniedEntry as DenialEntry, Reason};
use crate::session::hash_slots::Owner;
use crate::session::kept::KeptCommand;
use crate::session::world::{Admin, CommandEnd, Obstacles, Relayed, Served, World};
use crate::session::{ClientLine, NodeStanding, Session, SocketFacts};
use smallvec::SmallVec;

/// The server around one running client.
#[derive(Debug)]
pub struct ClientWorld<'a> {
    pub core: &'a mut Core,
    /// All clients but the running one.
    others: &'a mut Clients,
    running: RunningClient<'a>,
    /// When the command that is running, and the one it runs inside of, began; monotonic, ns.
    began_ns: SmallVec<[u64; 2]>,
    /// When the last command was over, which is when the next one begins.
    last_ns: u64,
    /// Where the reply of the running command begins in the client's output, and how many facts the
    /// turn had then.
    frame: (u64, u64),
    /// The running command has asked the engine, so its reply shows data of the engine.
    asked: bool,
    /// Slow commands of this client. The session, which knows the client's name, is not available
    /// while it runs.
    pub slow: Vec<SlowEntry>,
}

/// The running client, without its session.
#[derive(Clone, Copy, Debug)]
pub struct RunningClient<'a> {
    pub id: ClientId,
    pub slot: u32,
    /// Which commands it has.
    pub face: Face,
    pub socket: &'a Socket,
    /// Bytes of requests it has sent, the running one included.
    pub input_bytes: usize,
}

impl<'a> ClientWorld<'a> {
    /// The server around `running`, for one or more of its commands.
    pub fn new(
        core: &'a mut Core,
        others: &'a mut Clients,
        running: RunningClient<'a>,
    ) -> ClientWorld<'a> {
        let (began_ns, last_ns) = (SmallVec::new(), core.clock.timer.mono_ns());
        let (frame, asked, slow) = ((0, 0), false, Vec::new());
        ClientWorld { core, others, running, began_ns, last_ns, frame, asked, slow }
    }

    /// A command is about to run.
    pub fn begin_frame(&mut self) {
        self.frame = (self.core.outputs.of(self.running.slot).end(), self.core.facts.count);
        self.asked = false;
    }

    /// The command has run: what it was answered waits for the journal, if it has to.
    pub fn end_frame(&mut self) {
        let (start, facts) = self.frame;
        let wrote = self.core.facts.count > facts;
        self.core.outputs.frame(self.running.slot, start, self.asked, wrote);
    }

    /// When the last command was over; monotonic, µs.
    pub fn now_us(&self) -> u64 {
        self.last_ns / 1_000
    }

    /// Answers a request that cannot be framed.
    pub fn refuse_framing(&mut self, error: ProtocolError) {
        let too_long = matches!(error, ProtocolError::CommandTooLong { .. });
        self.core.watch.counters.closed_for_input += u64::from(too_long);
        let text = error.to_string();
        self.core.outputs.errors.count(&text);
        self.core.outputs.encoder(self.running.id).error(&text);
    }

    /// How a command that has returned ended; none if it has not, and is counted later.
    #[inline]
    fn ending(
        &mut self,
        spec: &'static CommandSpec,
        args: &[&[u8]],
        how: CommandEnd,
        took_ns: u64,
    ) -> Option<Ending> {
        let Core { engine, outputs, .. } = &mut *self.core;
        let engines = outputs.take_end();
        match how {
            CommandEnd::Again => None,
            CommandEnd::Waiting => {
                let call = Call { command: KeptCommand::new(spec, args), took_ns };
                outputs.set_call(self.running.slot, Box::new(call));
                None
            }
            CommandEnd::Rejected => {
                // It may have been half done when its user lost it.
                outputs.current().into_iter().for_each(|client| engine.abandon(client));
                Some(Ending::Rejected)
            }
            CommandEnd::Failed => Some(Ending::Failed),
            CommandEnd::Replied => Some(engines),
        }
    }

    /// How many more bytes the running client may hold, once it has freed this many, without being closed for it.
    fn held_bytes_max(&self, client: ClientId, freed_bytes: usize) -> u64 {
        let limits = &self.core.options.limits;
        let held_bytes = self.core.common.bytes.saturating_sub(freed_bytes);
        let mut left = limits.clients_bytes_max.saturating_sub(held_bytes);
        if left < READ_BYTES_PER_TURN_ALL {
            // The client that holds more is closed first.
            let own = self.running.socket.bytes.saturating_sub(freed_bytes);
            let largest = self.others.iter().map(|(_, other)| other.socket.bytes).max();
            left = left.max(largest.unwrap_or(0).saturating_sub(own));
        }
        let is_subscribed = self.core.messages.pubsub.counts(client) != [0; 2];
        let unsent_max = match limits.output_of(is_subscribed).hard {
            0 => u64::MAX,
            hard => {
                let unsent = &self.core.outputs.of(self.running.slot).unsent;
                hard.saturating_sub(unsent.len() as u64)
            }
        };
        unsent_max.min(left as u64)
    }

    /// Shows a command that has run in `db` to those that see every command, if there are any.
    fn show_command(&mut self, db: Db, spec: &CommandSpec, args: &[&[u8]]) {
        let is_hidden = || spec.has(Flag::Admin) || spec.has(Flag::SkipMonitor);
        if !self.core.messages.pubsub.is_monitored() || is_hidden() {
            return;
        }
        let peer = &self.running.socket.peer;
        let now = self.core.clock.now;
        self.core.messages.show_command(now, db, &peer.to_string(), spec, args);
    }

    fn line_of(&self, slot: u32, client: &Client) -> ClientLine {
        let mut socket = client.socket.facts(self.core.clock.mono_us);
        self.add_buffers(&mut socket, slot, client.input.len());
        socket.input_free_bytes = client.input.free_bytes();
        ClientLine { session: client.session.facts(), socket }
    }

    fn own_line(&self, asker: &Session) -> ClientLine {
        let mut socket = self.running.socket.facts(self.core.clock.mono_us);
        self.add_buffers(&mut socket, self.running.slot, self.running.input_bytes);
        socket.idle_s = 0;
        ClientLine { session: asker.facts(), socket }
    }

    fn add_buffers(&self, socket: &mut SocketFacts, slot: u32, input_bytes: usize) {
        socket.input_bytes = input_bytes;
        let Output { unsent, waiting, .. } = self.core.outputs.of(slot);
        socket.output_bytes = unsent.last_bytes();
        socket.output_count = unsent.queued_count();
        socket.output_held_bytes = unsent.held_bytes();
        socket.writable = !unsent.is_empty();
        socket.waiting |= *waiting;
        let view = self.core.view.as_ref();
        socket.role = view.map(|view| if view.leads { "master" } else { "replica" });
    }
}

impl World for ClientWorld<'_> {
    fn encoder(&mut self, client: ClientId) -> Encoder<'_> {
        self.core.outputs.encoder(client)
    }

    fn set_replies(&mut self, client: ClientId, protocol: Protocol, muted: bool) {
        self.core.outputs.set_replies(client, protocol, muted);
    }

    fn refuse(&mut self, client: ClientId, text: &str) {
        self.core.outputs.refuse(client, text);
    }

    fn handle(&mut self, client: ClientId, request: &Request<'_>, in_exec: bool) -> Outcome {
        self.asked = true;
        let now = self.core.clock.now;
        let (engine, mut turn) = self.core.engine();
        if in_exec {
            return engine.handle_in_transaction(now, client, request, &mut turn);
        }
        let outcome = engine.handle(now, client, request, &mut turn);
        if outcome == Outcome::Waiting {
            self.core.outputs.set_waiting(client);
        }
        outcome
    }

    fn introduce(&mut self, client: ClientId, name: &[u8], library: [&[u8]; 2]) {
        let host = self.running.socket.peer.host();
        let holder = Holder::new(host.as_bytes(), name, library);
        self.core.engine.introduce(client, holder);
    }

    fn watch(&mut self, client: ClientId, queue: QueueName<'_>) -> Stamp {
        self.asked = true;
        self.core.common.watching.insert(client);
        let now = self.core.clock.now;
        let (engine, mut turn) = self.core.engine();
        engine.stamp(now, client, queue, &mut turn)
    }

    fn unwatch(&mut self, client: ClientId) {
        self.core.common.watching.remove(&client);
        self.core.engine.unwatch(client);
    }

    fn begin_transaction(
        &mut self,
        client: ClientId,
        whole: &WholeTransaction<'_>,
        freed_bytes: usize,
    ) -> TransactionBegun {
        // Ten PINGs ask nothing of the engine.
        self.asked |= !whole.requests.is_empty() || !whole.watched.is_empty();
        let held_bytes_max = self.held_bytes_max(client, freed_bytes);
        let now = self.core.clock.now;
        let (engine, mut turn) = self.core.engine();
        engine.begin_transaction(now, client, whole, held_bytes_max, &mut turn)
    }

    fn relayed(&self) -> Option<Relayed> {
        let relay = self.running.socket.relay.as_deref()?;
        // Rounded up: no wait ends before its time.
        let wait_ms = relay.wait_left().map(|left| left.as_micros().div_ceil(1_000) as u64);
        Some(Relayed {
            room_bytes: relay.room(self.core.outputs.of(self.running.slot).end()),
            wait_ms,
            is_request: relay.holds_jobs,
        })
    }

    fn stop_relayed(&mut self) {
        self.running.socket.relay.iter().for_each(|relay| relay.stop());
    }

    fn answer_bytes_max(&mut self, client: ClientId, request: &Request<'_>) -> u64 {
        let now = self.core.clock.now;
        let (engine, mut turn) = self.core.engine();
        engine.answer_bytes_max(now, client, request, &mut turn)
    }

    fn check_queued(&self, request: &Request<'_>, limits: bool) -> Result<(), Error> {
        self.core.engine.check_queued(self.core.clock.now, request, limits)
    }

    fn replied_bytes(&self, client: ClientId) -> u64 {
        self.core.outputs.replied_bytes(client)
    }

    fn end_transaction(&mut self) {
        let now = self.core.clock.now;
        let (engine, mut turn) = self.core.engine();
        engine.end_transaction(now, &mut turn);
    }

    fn ask(&mut self, client: ClientId, request: &Request<'_>) -> Result<i64, Error> {
        self.asked = true;
        let mut answer = IntegerReply(None);
        let turn = &mut Turn { facts: &mut self.core.facts, outbox: &mut answer };
        self.core.engine.handle_in_transaction(self.core.clock.now, client, request, turn);
        answer.0.expect("the engine answers a reading request at once")
    }

    fn release(&mut self, client: ClientId) {
        let now = self.core.clock.now;
        let (engine, mut turn) = self.core.engine();
        engine.closed(now, client, &mut turn);
    }

    fn pubsub(&mut self) -> &mut PubSub {
        let core = &mut self.core;
        if self.running.face == Face::Sentinel {
            return &mut core.sentinel.pubsub;
        }
        core.messages.of(self.running.slot, &core.outputs, core.facts.count > 0)
    }

    fn cost(&self, action: &Action<'_>) -> u64 {
        let count = self.others.count() as u64;
        match action {
            Action::Clients(
                ClientsAction::Unblock { .. }
                | ClientsAction::Pause { .. }
                | ClientsAction::Unpause,
            ) => 1,
            Action::Clients(_) | Action::Connection(Connection::Info) => count,
            Action::Server(ServerRequest::Info(_)) => INFO_COST,
            // It looks for another connection.
            Action::Server(ServerRequest::Backup(_)) => count,
            Action::Server(ServerRequest::ConfigGet(patterns)) => {
                CONFIG_PATTERN_COST * patterns.len() as u64
            }
            // Every connection loads its user again.
            Action::Server(ServerRequest::ConfigSet(_)) => INFO_COST + count,
            Action::Users(Users::Set { .. } | Users::Delete(_)) => count,
            Action::Server(ServerRequest::ConfigRewrite)
            | Action::Users(Users::Load | Users::Save) => REWRITE_COST,
            Action::PubSub(what) => self.core.messages.cost(what),
            _ => 1,
        }
    }

    fn acl(&mut self) -> &mut Acl {
        &mut self.core.users.acl
    }

    fn note_denial(
        &mut self,
        asker: &Session,
        denied: (Reason, &[u8]),
        context: Context,
        user: &[u8],
    ) {
        let now_ms = self.core.clock.now.floor().0;
        let line = self.own_line(asker);
        let entry = DenialEntry::new(denied, context, user, line.to_string(), now_ms);
        if denied.0 == Reason::Auth && self.core.common.lines.admits() {
            tracing::warn!(
                client = %asker.id(),
                peer = line.socket.addr,
                user = %String::from_utf8_lossy(&user[..user.len().min(128)]).escape_debug(),
                "a wrong user name or password"
            );
        }
        self.core.users.acl.note(entry);
    }

    fn serve(&mut self, asker: &Session, what: Admin<'_>) -> Result<Served, String> {
        let what = match what {
            Admin::Clients(what) => return clients::serve(self, asker, what),
            Admin::Users(what) => return acl::serve(self, asker, what),
            Admin::OwnLine => {
                let line = format!("{}\n", self.own_line(asker));
                self.encoder(asker.id()).verbatim_txt(&line);
                return Ok(Served::Done);
            }
            Admin::Server(what) => what,
        };
        let (core, client) = (&mut *self.core, asker.id());
        let class = |why: String| format!("ERR {why}");
        match what {
            ServerRequest::ConfigGet(patterns) => config::write(core, client, patterns),
            ServerRequest::ConfigSet(words) => {
                let changed = config::set(core, words)?;
                core.outputs.encoder(client).ok();
                if changed {
                    users::changed(self);
                }
                return Ok(Served::UsersChanged);
            }
            ServerRequest::ConfigRewrite => {
                config::rewrite(core).map_err(class)?;
                core.outputs.encoder(client).ok();
            }
            ServerRequest::ConfigResetStat => {
                config::reset_stats(core);
                core.outputs.encoder(client).ok();
            }
            ServerRequest::Info(sections) => {
                // The running one has left its slot but not the count.
                let clients = self.others.count();
                let text = match self.running.face {
                    Face::Data => info::info(core, clients, sections),
                    Face::Sentinel => sentinel::info(core, clients, sections),
                };
                core.outputs.encoder(client).verbatim_txt(&text);
            }
            ServerRequest::SlowlogGet(count) => latency::write_slowlog(core, client, count),
            ServerRequest::SlowlogLen => {
                core.outputs.encoder(client).unsigned(core.watch.slow_log.len() as u64);
            }
            ServerRequest::SlowlogReset => {
                core.watch.slow_log.clear();
                core.outputs.encoder(client).ok();
            }
            ServerRequest::Latency(names) => latency::write_histograms(core, client, names),
            ServerRequest::MemoryStats => latency::write_memory_stats(core, client),
            ServerRequest::RandomQueue(db) => {
                let request = Request::RandomQueue { db, draw: core.process.random() };
                return Ok(match self.handle(client, &request, asker.is_executing()) {
                    Outcome::Replied => Served::Done,
                    Outcome::Waiting => Served::Waiting,
                    Outcome::Again => Served::Again,
                });
            }
            ServerRequest::Shutdown(how) => {
                let peer = &self.running.socket.peer;
                // No reply: the connection ends with the server.
                persistence::shutdown(core, how, &peer.to_string()).map_err(class)?;
            }
            ServerRequest::Cluster => cluster::write_nodes(core, client).map_err(str::to_owned)?,
            ServerRequest::Partitions => {
                cluster::write_partitions(core, client).map_err(str::to_owned)?
            }
            ServerRequest::Members(asked) => {
                cluster::change_members(core, asked)?;
                core.outputs.encoder(client).ok();
            }
            ServerRequest::Verify => {
                cluster::verify(core)?;
                core.outputs.encoder(client).ok();
            }
            ServerRequest::Backup(asked) => backup::serve(core, self.others, client, asked)?,
            ServerRequest::Role => match self.running.face {
                Face::Data => cluster::write_role(core, client),
                Face::Sentinel => sentinel::write_role(core, client),
            },
            ServerRequest::Sentinel(asked) => {
                sentinel::write(core, client, asked, self.others.count())?
            }
            ServerRequest::HashSlots(asked) => {
                hash_slots::write(core, client, self.running.socket, asked)?
            }
            ServerRequest::ReplicaOf { nobody } => {
                cluster::replica_of(core, nobody)?;
                core.outputs.encoder(client).ok();
            }
            ServerRequest::Failover(asked) => {
                cluster::fail_over(core, asked)?;
                core.outputs.encoder(client).ok();
            }
            what => return persistence::serve(core, asker, what),
        }
        Ok(Served::Done)
    }

    fn obstacles(&self) -> Obstacles {
        let loading = self.core.durability.shown.loading.is_some();
        Obstacles {
            limited: loading || !self.core.standing.is_serving(),
            clustered: self.core.options.limits.clustered,
            spread: self.core.siblings.is_some(),
            paused: self.core.common.pauses.writes_only(),
        }
    }

    fn standing(&self) -> &NodeStanding {
        match self.core.standing {
            NodeStanding::Serving if self.core.durability.shown.loading.is_some() => {
                &NodeStanding::Loading
            }
            ref standing => standing,
        }
    }

    fn owner(&self, slot: u16) -> Owner {
        hash_slots::owner(self.core, self.standing(), self.running.socket, slot)
    }

    fn is_replica(&self) -> bool {
        self.core.view.as_ref().is_some_and(|view| !view.leads)
    }

    fn began(&mut self) {
        // Outside of a transaction a command begins when the one before was over, which saves one of
        // two readings.
        let outer = self.began_ns.is_empty();
        let began_ns = if outer { self.last_ns } else { self.core.clock.timer.mono_ns() };
        self.began_ns.push(began_ns);
        // INFO and SLOWLOG must include earlier commands.
        let Core { watch, outputs, clock, options, .. } = &mut *self.core;
        let caller = |client, slot| self.others.caller(client, slot);
        watch.count_over(outputs, clock, options.limits.slow, caller);
    }

    fn ended(&mut self, db: Db, spec: &'static CommandSpec, args: &[&[u8]], how: CommandEnd) {
        let began_ns = self.began_ns.pop().unwrap_or(self.last_ns);
        self.last_ns = self.core.clock.timer.mono_ns();
        let took_ns = self.last_ns - began_ns;
        if !matches!(how, CommandEnd::Rejected | CommandEnd::Again) {
            self.show_command(db, spec, args);
        }
        let Some(end) = self.ending(spec, args, how, took_ns) else { return };
        let Core { watch, clock, options, .. } = &mut *self.core;
        if watch.count_call(spec, end, took_ns, options.limits.slow) {
            let addr = self.running.socket.peer.to_string();
            self.slow.push(SlowEntry::new(clock.now_s(), spec, args, addr, took_ns));
        }
    }
}

/// Takes an integer reply instead of a client.
struct IntegerReply(Option<Result<i64, Error>>);

impl Outbox for IntegerReply {
    fn reply(&mut self, _client: ClientId, reply: Reply<'_>) {
        self.0 = Some(match reply {
            Reply::Integer(number) => Ok(number),
            Reply::Error(error) => Err(error.clone()),
            other => panic!("not an integer: {other:?}"),
        });
    }
}
