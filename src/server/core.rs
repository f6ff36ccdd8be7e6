//! The parts of the server that a turn works on besides the clients, and the functions that concern
//! several of them.

use crate::command::table::Face;
use crate::config::Config;
use crate::config::events::Notify;
use crate::config::options::Name;
use crate::config::value::OutputLimit;
use crate::engine::model::token::floor_at;
use crate::engine::{Engine, Facts, Settings, Turn};
use crate::journal::Disk;
use crate::journal::recovery::Recovered;
use crate::limits::{
    HISTORY_MEMORY_SHARE, HISTORY_QUEUE_BYTES, HISTORY_QUEUES_MAX, LOG_BYTES_MAX, LOG_BYTES_MIN,
    LOG_SHARE, PARTITION_CLIENTS_BYTES_MIN, PARTITION_RESIDENT_BYTES, REPLICA_PRIORITY_DEFAULT,
    REQUEST_BYTES_BESIDE,
};
use crate::observe::Counters;
use crate::observe::cluster::ClusterView;
use crate::pubsub::PubSub;
use crate::resp::FrameLimits;
use crate::server::clock::timer::Timer;
use crate::server::clock::turn_clock::TurnClock;
use crate::server::cluster::peer_tls::PeerTls;
use crate::server::connection::clients::Clients;
use crate::server::connection::common::Buffers;
use crate::server::connection::common::Common;
use crate::server::connection::wake::Notifier;
use crate::server::durability::Durability;
use crate::server::durability::home::Home;
use crate::server::observe::counts::{Slow, Watch};
use crate::server::observe::logs::LogLevel;
use crate::server::observe::machine;
use crate::server::observe::resident::Sample;
use crate::server::observe::zones::ZoneTables;
use crate::server::outbox::Outputs;
use crate::server::outbox::messages::Messages;
use crate::server::outbox::messages::SentinelChannels;
use crate::server::siblings::{Siblings, Used};
use crate::session::NodeStanding;
use crate::session::acl::Acl;
use crate::time::{Micros, Millis};
use std::fmt::Write;
use std::io;
use std::sync::Arc;
use tokio::sync::watch;

/// Everything but the clients and their sockets.
#[derive(Debug)]
pub struct Core {
    pub engine: Engine,
    /// This turn's decisions, for the journal.
    pub facts: Facts,
    pub clock: TurnClock,
    /// The clients' outputs.
    pub outputs: Outputs,
    /// Channels, and the messages for them.
    pub messages: Messages,
    /// The port that answers as a Redis Sentinel.
    pub sentinel: SentinelChannels,
    pub durability: Durability,
    /// The common state of the connections.
    pub common: Common,
    /// The server's options.
    pub options: ServerOptions,
    /// Users and rights.
    pub users: Users,
    /// Counters and data for monitoring.
    pub watch: Watch,
    /// The engine's time zones.
    pub zones: ZoneTables,
    pub process: Process,
    /// Its standing for clients; a standalone server always serves.
    pub standing: NodeStanding,
    /// The state of the cluster for display, if there is one: kept up to date by its owner.
    pub view: Option<Box<ClusterView>>,
    /// The other partitions of the process, if it has several,
    pub siblings: Option<Siblings>,
    /// and what they used in all when this turn began.
    pub others: Used,
}

/// The server's options.
#[derive(Debug)]
pub struct ServerOptions {
    pub config: Config,
    /// Those that are looked at often.
    pub limits: Limits,
    /// Whether a node answers reads that does not lead.
    pub serves_stale: bool,
    /// How much this node is wanted as a leader.
    pub priority: u64,
    /// How the log's level is changed.
    log_level: LogLevel,
}

/// Users and rights, and the certificates for TLS connections.
#[derive(Debug, Default)]
pub struct Users {
    pub acl: Acl,
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// That between nodes.
    pub peer_tls: PeerTls,
    /// That of the console, if it speaks TLS.
    pub console_tls: Option<watch::Sender<Arc<rustls::ServerConfig>>>,
}

/// The identity of this process, and how it should end.
#[derive(Debug)]
pub struct Process {
    /// Its name among all, 40 hex digits.
    pub run_id: String,
    pub port: u16,
    /// A service manager wants to hear of the server's state.
    pub supervised: bool,
    /// The program's memory allocator, as INFO names it.
    pub allocator: String,
    /// SHUTDOWN was requested; with NOW it waits for nothing.
    pub shutdown: Option<bool>,
    /// State of the generator for RANDOMKEY.
    pub chance: u64,
}

/// The options a turn looks at, read once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub frame: FrameLimits,
    /// `maxclients`, or fewer when the system allows no more open files.
    pub clients_max: u64,
    pub clients_bytes_max: usize,
    /// `timeout`, µs.
    pub idle_us_max: Option<u64>,
    /// `max-clock-jump`, µs; 0 for any.
    pub clock_jump_us_max: u64,
    pub keepalive_s: u64,
    pub output: OutputLimit,
    pub output_pubsub: OutputLimit,
    pub slow: Slow,
    pub protected: bool,
    /// Redis Cluster's clients find their way here.
    pub clustered: bool,
    pub notify: Notify,
}

impl Core {
    /// A server's state at its start.
    pub fn new(
        config: Config,
        port: u16,
        log_level: LogLevel,
        notifier: Arc<Notifier>,
        timer: Timer,
    ) -> Core {
        let clock = TurnClock::start(timer);
        let mut core = Core {
            engine: Engine::new(settings(&config, clock.now)),
            facts: Facts::default(),
            outputs: Outputs::default(),
            messages: Messages::default(),
            sentinel: SentinelChannels::new(
                config.number(Name::SentinelPort) as u16,
                config.text(Name::SentinelMasterName),
            ),
            durability: Durability::new(clock.now_s(), notifier),
            clock,
            common: Common::default(),
            options: ServerOptions {
                limits: Limits::new(&config),
                serves_stale: true,
                priority: REPLICA_PRIORITY_DEFAULT,
                config,
                log_level,
            },
            users: Users::default(),
            watch: Watch::default(),
            zones: ZoneTables::default(),
            process: Process::new(port),
            standing: NodeStanding::default(),
            view: None,
            siblings: None,
            others: Used::default(),
        };
        core.engine.collect_events(core.options.limits.notify.is_on());
        core.options.serves_stale = core.options.config.flag(Name::ReplicaServeStaleData);
        core.options.priority = core.options.config.number(Name::ReplicaPriority);
        let partitions = core.options.config.partitions();
        core.options.limits.fit_clients(0, partitions);
        core.users.reconfigure(&core.options.config);
        core.users.require_password(&core.options.config);
        core
    }

    /// Begins to load the journal. A small one is there when this returns.
    pub fn load(&mut self, home: Home) -> io::Result<()> {
        let config = &self.options.config;
        let settings = settings(config, self.clock.now);
        let loaded = self.durability.load(home, config, settings, &self.clock)?;
        loaded.map_or(Ok(()), |loaded| self.install(loaded))
    }

    pub fn install(&mut self, recovered: Box<Recovered<Disk>>) -> io::Result<()> {
        let took_us = self.durability.loading_us(&self.clock);
        if let Some(cut) = &recovered.opened.cut {
            tracing::warn!("{cut}");
        }
        for notice in &recovered.opened.notices {
            tracing::warn!("{notice}");
        }
        let (index, facts, last) = (recovered.index, recovered.facts, recovered.now);
        let engine = self.durability.start(*recovered, &self.options.config)?;
        self.replace_engine(engine);
        self.reconfigure();
        self.clock.restart(last, self.options.limits.clock_jump_us_max);
        // From the journal's last instant on even if the wall clock was set back since.
        self.engine.settings_mut().token_floor = floor_at(self.clock.now.floor().0);
        self.outputs.gate.turn = 1;
        self.check_databases()?;
        let jobs: u64 = self.engine.job_counts().iter().sum();
        tracing::info!(jobs, facts, index = index.0, took_us, "the journal is loaded");
        self.durability.show(&mut self.outputs, &self.clock);
        self.tell_place();
        Ok(())
    }

    /// Clients of a Redis Cluster reach database 0 alone: jobs in others would be kept, and never taken.
    pub fn check_databases(&self) -> io::Result<()> {
        let counts = self.engine.queue_counts();
        self.check_partition()?;
        let others: Vec<String> = (1..)
            .zip(&counts[1..])
            .filter(|(_, count)| **count > 0)
            .map(|(db, count)| format!("{count} in database {db}"))
            .collect();
        if others.is_empty() || !self.options.limits.clustered {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "cluster-enabled is yes, and only database 0 is served then, but there are queues in others: {}; start with \
             cluster-enabled no",
            others.join(", ")
        )))
    }

    /// Goes on with another engine, which looks at its schedules by the tables of zones that are used.
    pub fn replace_engine(&mut self, engine: Engine) -> Engine {
        let gone = std::mem::replace(&mut self.engine, engine);
        self.engine.set_zones(Arc::clone(&self.zones.used.zones));
        gone
    }

    pub fn set_zones(&mut self, zones: ZoneTables) {
        self.zones = zones;
        self.engine.set_zones(Arc::clone(&self.zones.used.zones));
    }

    pub fn reconfigure(&mut self) {
        let ServerOptions { config, limits, serves_stale, priority, log_level } = &mut self.options;
        let clients_before = limits.clients_max;
        *limits = Limits::new(config);
        *serves_stale = config.flag(Name::ReplicaServeStaleData);
        *priority = config.number(Name::ReplicaPriority);
        let new = settings(config, self.clock.now);
        let settings = self.engine.settings_mut();
        settings.delay_ms_max = new.delay_ms_max;
        settings.lease_ms_default = new.lease_ms_default;
        settings.lease_ms_max = new.lease_ms_max;
        settings.memory_bytes_max = new.memory_bytes_max;
        settings.stats_retention_ms = new.stats_retention_ms;
        settings.history_queues_max = new.history_queues_max;
        if let Some(running) = self.durability.running_mut() {
            running.reconfigure(config);
        }
        self.engine.collect_events(limits.notify.is_on());
        log_level.set(config.text(Name::LogLevel));
        self.users.reconfigure(config);
        limits.fit_clients(clients_before, config.partitions());
        self.share_memory();
    }

    /// The state of the cluster from here on.
    pub fn show_cluster(&mut self, view: Box<ClusterView>) {
        self.sentinel.look(&view);
        self.view = Some(view);
    }

    /// The channels of a connection with these commands.
    pub fn pubsub_of(&self, face: Face) -> &PubSub {
        match face {
            Face::Data => &self.messages.pubsub,
            Face::Sentinel => &self.sentinel.pubsub,
        }
    }

    /// The engine, and where the results of what it is asked go.
    pub fn engine(&mut self) -> (&mut Engine, Turn<'_>) {
        (&mut self.engine, Turn { facts: &mut self.facts, outbox: &mut self.outputs })
    }

    /// Tells the engine what the cluster and the journal allow in this turn, and whether clients are paused.
    pub fn set_flow(&mut self) {
        let paused = self.common.pauses.is_running();
        let stopped = self.standing.stopped();
        self.durability.set_flow(&mut self.engine, paused, stopped, &self.clock);
    }

    /// Closes the connection in a slot; false if there is none. Its client's unsent jobs go back to their queues, and
    /// on to other clients, in this step.
    pub fn close(&mut self, clients: &mut Clients, slot: u32) -> bool {
        let Some(client) = clients.take(slot) else { return false };
        let id = client.id;
        self.common.pauses.postponed_count -= usize::from(client.socket.postponed);
        let unsent = self.outputs.at(slot).has_unsent_jobs();
        // Where they cannot be taken back, as at a demotion, the console may still hand them on.
        if unsent
            && let Some(relay) = &client.socket.relay
            && self.engine.unsent_jobs_bytes(id) > 0
        {
            let replies = self.outputs.at(slot).handed_on(relay.take_back());
            self.engine.sent_first(id, replies);
        }
        self.outputs.close(id, slot);
        self.durability.waits.forget(id);
        self.common.watching.remove(&id);
        self.messages.pubsub.forget(id);
        self.sentinel.pubsub.forget(id);
        clients.release(slot);
        self.common.bytes -= client.socket.bytes;
        let now = self.clock.now;
        let (engine, mut turn) = self.engine();
        if unsent {
            engine.unsent(now, id, &mut turn);
        }
        engine.closed(now, id, &mut turn);
        true
    }

    /// When the engine has something to do next, by its own clock.
    pub fn next_wakeup(&self) -> Option<Millis> {
        let timeout = self.engine.next_timeout();
        let timeout = timeout.map(|at| self.clock.engine_at(at));
        [self.engine.next_wakeup(), timeout].into_iter().flatten().min()
    }

    /// Checks resident memory, and tells the engine if it is too much.
    pub fn look_at_memory(&mut self) {
        let Some(resident) = &mut self.watch.resident else { return };
        let Counters { input_bytes, output_bytes, .. } = self.watch.counters;
        let settings = self.engine.settings_mut();
        let max = match &self.siblings {
            None => settings.memory_bytes_max,
            Some(siblings) => match self.options.config.number(Name::MaxMemory) {
                0 => 0,
                max => max + u64::from(siblings.count() - 1) * PARTITION_RESIDENT_BYTES,
            },
        };
        let gives_back = resident.note(Sample {
            mono_us: self.clock.timer.mono_us(),
            moved_bytes: input_bytes + output_bytes + self.others.moved_bytes,
            clients_bytes: self.common.bytes as u64 + self.others.clients_bytes,
            max,
        });
        if gives_back {
            self.common.buffers = Buffers::default();
            self.outputs.forget_buffers();
            self.durability.running().inspect(|running| running.journal.forget_buffers());
        }
        settings.memory_bytes_over = resident.over_bytes();
    }

    /// Looks whether there are newer tables of zones, now and then, and gives the engine those that have come.
    pub fn look_at_zones(&mut self) {
        self.zones.look(&self.options.config, self.clock.mono_us);
        if self.zones.take() {
            self.engine.set_zones(Arc::clone(&self.zones.used.zones));
        }
    }

    /// Whether requests are to wait until the journal or the allocator has caught up.
    pub fn is_flooded(&self) -> bool {
        self.watch.waits_for_memory() || self.durability.is_flooded(&self.engine)
    }

    pub fn memory_bytes(&self) -> u64 {
        self.engine.held_bytes() + self.common.bytes as u64
    }
}

impl Users {
    /// The options about users have changed, or the server starts.
    pub fn reconfigure(&mut self, config: &Config) {
        self.acl.set_all_channels(config.text(Name::AclPubsubDefault) == "allchannels");
        self.acl.log_len_max = config.size(Name::AclLogMaxLen);
        self.acl.log_bytes_max = log_bytes_max(config);
    }

    /// `requirepass` was set.
    pub fn require_password(&mut self, config: &Config) {
        self.acl.set_default_password(config.text(Name::RequirePass).as_bytes());
    }
}

impl Process {
    fn new(port: u16) -> Process {
        let chance = machine::random();
        Process {
            run_id: run_id(),
            port,
            supervised: false,
            allocator: "libc".to_owned(),
            shutdown: None,
            chance,
        }
    }

    pub fn random(&mut self) -> u64 {
        // SplitMix64: a step and a scramble.
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut n = self.chance;
        n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        n ^ (n >> 31)
    }
}

impl Limits {
    /// How much unread output a client may have.
    pub fn output_of(&self, subscribed: bool) -> OutputLimit {
        if subscribed { self.output_pubsub } else { self.output }
    }

    /// Makes space for this many clients, or lowers their number.
    fn fit_clients(&mut self, before: u64, partitions: u16) {
        let wanted = self.clients_max;
        self.clients_max = machine::make_room_for(wanted, partitions);
        let fitting = self.clients_max;
        // Also called for other options, of which it says nothing.
        if fitting < wanted && fitting != before {
            tracing::warn!(
                wanted,
                fitting,
                "maxclients lowered: the limit of open files (ulimit -n, LimitNOFILE) is too low"
            );
        }
    }

    fn new(config: &Config) -> Limits {
        let u32_of = |name| u32::try_from(config.number(name)).unwrap_or(u32::MAX);
        let clients_bytes = config.part(Name::MaxClientsMemory, PARTITION_CLIENTS_BYTES_MIN);
        // One request must leave room for another client's.
        let memory = clients_bytes / 2;
        let request = config.number(Name::ClientQueryBufferLimit).min(memory);
        // A longer body is read to its end and refused, which a request that is too long is not.
        let body = config.number(Name::MaxBodySize);
        let room = request.saturating_sub(REQUEST_BYTES_BESIDE);
        let argument_limit = match body <= room {
            true => "max-body-size",
            false if request == memory => "the room in max-clients-memory",
            false => "the room in client-query-buffer-limit",
        };
        let idle_s = config.number(Name::Timeout);
        let slow_us = config.signed(Name::SlowlogLogSlowerThan);
        Limits {
            frame: FrameLimits {
                authenticated: true,
                bulk_bytes_max: u32_of(Name::ProtoMaxBulkLen),
                argument_bytes_max: u32::try_from(body.min(room)).unwrap_or(u32::MAX),
                argument_limit,
                command_bytes_max: u32::try_from(request).unwrap_or(u32::MAX),
            },
            clients_max: config.number(Name::MaxClients),
            clients_bytes_max: usize::try_from(clients_bytes).unwrap_or(usize::MAX),
            idle_us_max: (idle_s > 0).then(|| idle_s * 1_000_000),
            clock_jump_us_max: config.number(Name::MaxClockJump).saturating_mul(1_000),
            keepalive_s: config.number(Name::TcpKeepalive),
            output: config.output_limits()[0],
            output_pubsub: config.output_limits()[2],
            slow: Slow {
                over_ns: u64::try_from(slow_us).ok().map(|us| us.saturating_mul(1_000)),
                len_max: config.size(Name::SlowlogMaxLen),
                bytes_max: log_bytes_max(config),
            },
            protected: config.flag(Name::ProtectedMode),
            clustered: config.flag(Name::ClusterEnabled),
            notify: Notify::of(config.text(Name::NotifyKeyspaceEvents)),
        }
    }
}

/// Bytes that a log kept for operators may take.
fn log_bytes_max(config: &Config) -> usize {
    match config.part(Name::MaxMemory, 0) as usize {
        0 => LOG_BYTES_MAX,
        max => (max / LOG_SHARE as usize).clamp(LOG_BYTES_MIN, LOG_BYTES_MAX),
    }
}

fn settings(config: &Config, now: Micros) -> Settings {
    Settings {
        hash_seed: machine::random(),
        token_floor: floor_at(now.floor().0),
        delay_ms_max: config.number(Name::MaxDelay),
        lease_ms_default: config.number(Name::DefaultLease),
        lease_ms_max: config.number(Name::MaxLease),
        memory_bytes_max: config.number(Name::MaxMemory),
        stats_retention_ms: config.number(Name::StatsRetention),
        history_queues_max: history_queues_max(config.part(Name::MaxMemory, 0)),
        ..Settings::default()
    }
}

/// With a small `maxmemory`, 0 for none, fewer queues.
fn history_queues_max(memory_max: u64) -> u32 {
    let fitting = memory_max / HISTORY_MEMORY_SHARE / HISTORY_QUEUE_BYTES;
    match memory_max {
        0 => HISTORY_QUEUES_MAX,
        _ => fitting.clamp(1, HISTORY_QUEUES_MAX.into()) as u32,
    }
}

/// A name for a process, 40 hex digits.
pub fn run_id() -> String {
    let mut id = String::with_capacity(48);
    for _ in 0..3 {
        write!(id, "{:016x}", machine::random()).expect("a String takes all");
    }
    id.truncate(40);
    id
}
