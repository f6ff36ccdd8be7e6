//! What a turn works on besides the clients: the engine, the outputs, the clock, the options and
//! the counters.

use crate::config::Config;
use crate::config::events::Notify;
use crate::config::options::Name;
use crate::config::value::OutputLimit;
use crate::engine::model::token::floor_at;
use crate::engine::{Engine, Facts, Settings, Turn};
use crate::ids::ClientId;
use crate::journal::{Disk, Lock};
use crate::observe::Counters;
use crate::observe::commands::CommandTotals;
use crate::observe::lateness::Lateness;
use crate::observe::persistence::Persistence;
use crate::observe::rates::Rates;
use crate::observe::slowlog::SlowLog;
use crate::resp::FrameLimits;
use crate::server::clock::timer::Timer;
use crate::server::clock::turn_clock::TurnClock;
use crate::server::connection::buffers::Buffers;
use crate::server::connection::clients::Clients;
use crate::server::connection::lines::LineRate;
use crate::server::connection::pause::Pauses;
use crate::server::connection::wake::Bell;
use crate::server::durability;
use crate::server::durability::loading::Loading;
use crate::server::durability::waits::Waits;
use crate::server::durability::{Home, Journaling};
use crate::server::outbox::Outputs;
use crate::server::outbox::messages::Messages;
use crate::server::watch::eldest::Eldest;
use crate::server::watch::logs::LogLevel;
use crate::server::watch::machine;
use crate::server::watch::resident::{Look, Resident};
use crate::session::acl::Acl;
use crate::time::{Micros, Millis};
use std::collections::HashSet;
use std::fmt::Write;
use std::io;
use std::sync::Arc;

/// Everything but the clients and their sockets.
#[derive(Debug)]
pub struct Core {
    /// Jobs and queues.
    pub engine: Engine,
    /// What this turn decided, for the journal.
    pub facts: Facts,
    /// What is known of the journal.
    pub journal: Persistence,
    /// Clients that wait for it.
    pub waits: Waits,
    /// Where they go.
    pub journaling: Journaling,
    /// The journal's folder.
    pub(super) disk: Option<Arc<Disk>>,
    /// Keeps it for this process.
    lock: Option<Lock>,
    /// Wakes the loop.
    pub(super) bell: Arc<Bell>,
    /// What the clients are still to be sent.
    pub outputs: Outputs,
    /// Channels, and what is to be told on them.
    pub messages: Messages,
    /// CLIENT PAUSE.
    pub pauses: Pauses,
    /// What the engine was last told of it, while there is no journal.
    pub(super) told_paused: bool,
    /// Buffers for reading.
    pub buffers: Buffers,
    /// The instant of the turn.
    pub clock: TurnClock,
    /// The options.
    pub config: Config,
    /// Those that are looked at often.
    pub limits: Limits,
    /// Users and what they may do.
    pub acl: Acl,
    /// What TLS connections are greeted with.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// How the log's level is changed.
    pub log_level: LogLevel,
    /// Bounds the lines that clients can cause before they have said who they are.
    pub stranger_lines: LineRate,
    /// What INFO counts.
    pub counters: Counters,
    /// Counts per command.
    pub commands: CommandTotals,
    /// Slow commands.
    pub slow_log: SlowLog,
    /// Recent rates.
    pub rates: Rates,
    /// Clients that watch queues.
    pub watching: HashSet<ClientId>,
    /// How late jobs are.
    pub lateness: Lateness,
    /// Since when the oldest ready job is ready, as far as is known.
    pub eldest: Eldest,
    /// Everything the clients hold, bytes.
    pub clients_bytes: usize,
    /// The slot of a client that was found to hold most, and spared for the sake of its reply.
    pub spared: u32,
    /// Watches what is resident, where the allocator is known.
    pub(super) resident: Option<Resident>,
    /// The most memory ever used, bytes.
    pub memory_bytes_peak: u64,
    /// Turns since the start.
    pub turns: u64,
    /// This process's name among all, 40 hex digits.
    pub run_id: String,
    /// The port clients connect to.
    pub port: u16,
    /// A service manager wants to hear of the server's state.
    pub supervised: bool,
    /// SHUTDOWN was asked for; with NOW it waits for nothing.
    pub shutdown: Option<bool>,
    /// State of the generator behind RANDOMKEY.
    pub chance: u64,
}

/// The options a turn looks at, read once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// What a request may cost.
    pub frame: FrameLimits,
    /// `maxclients`, or fewer when the system allows no more open files.
    pub clients_max: u64,
    /// `max-clients-memory`.
    pub clients_bytes_max: usize,
    /// `timeout`, µs.
    pub idle_us_max: Option<u64>,
    /// `max-clock-jump`, µs; 0 for any.
    pub clock_jump_us_max: u64,
    /// `tcp-keepalive`.
    pub keepalive_s: u64,
    /// `client-output-buffer-limit normal`.
    pub output: OutputLimit,
    /// `client-output-buffer-limit pubsub`.
    pub output_pubsub: OutputLimit,
    /// `slowlog-log-slower-than`, ns.
    pub slow_ns: Option<u64>,
    /// `slowlog-max-len`.
    pub slow_len_max: usize,
    /// `protected-mode`.
    pub protected: bool,
    /// `notify-keyspace-events`.
    pub notify: Notify,
}

impl Core {
    /// A server's state at its start.
    pub fn new(
        config: Config,
        port: u16,
        log_level: LogLevel,
        bell: Arc<Bell>,
        timer: Timer,
    ) -> Core {
        let clock = TurnClock::start(timer);
        let limits = Limits::new(&config);
        let mut core = Core {
            engine: Engine::new(settings(&config, clock.now)),
            facts: Facts::default(),
            journal: Persistence { last_base_s: clock.now_s(), ..Persistence::default() },
            waits: Waits::default(),
            journaling: Journaling::Absent,
            disk: None,
            lock: None,
            bell,
            outputs: Outputs::default(),
            messages: Messages::default(),
            pauses: Pauses::default(),
            told_paused: false,
            buffers: Buffers::default(),
            clock,
            config,
            limits,
            acl: Acl::default(),
            tls: None,
            log_level,
            stranger_lines: LineRate::default(),
            counters: Counters::default(),
            commands: CommandTotals::default(),
            slow_log: SlowLog::default(),
            rates: Rates::default(),
            watching: HashSet::new(),
            lateness: Lateness::default(),
            eldest: Eldest::default(),
            clients_bytes: 0,
            spared: 0,
            resident: None,
            memory_bytes_peak: 0,
            turns: 0,
            run_id: run_id(),
            port,
            supervised: false,
            shutdown: None,
            chance: machine::random(),
        };
        core.engine.collect_events(core.limits.notify.is_on());
        core.fit_clients();
        core.reconfigure_users();
        core.require_password();
        core
    }

    /// Begins to load the journal. A small one is there when this returns.
    pub fn load(&mut self, home: Home) -> io::Result<()> {
        let Home { disk, lock } = home;
        (self.disk, self.lock) = (Some(Arc::clone(&disk)), Some(lock));
        let options = durability::log_options(&self.config, &disk);
        let bell = Arc::clone(&self.bell);
        let settings = settings(&self.config, self.clock.now);
        let loading = Loading::begin(disk, options, settings, bell, self.clock.timer.mono_us())?;
        let loaded = loading.wait();
        self.journaling = Journaling::Loading(Box::new(loading));
        self.show_journal();
        loaded.map_or(Ok(()), |loaded| self.install(loaded?))
    }

    /// Applies options that have changed.
    pub fn reconfigure(&mut self) {
        self.limits = Limits::new(&self.config);
        let new = settings(&self.config, self.clock.now);
        let settings = self.engine.settings_mut();
        settings.delay_ms_max = new.delay_ms_max;
        settings.lease_ms_default = new.lease_ms_default;
        settings.lease_ms_max = new.lease_ms_max;
        settings.memory_bytes_max = new.memory_bytes_max;
        settings.stats_retention_ms = new.stats_retention_ms;
        if let Journaling::Running(running) = &mut self.journaling {
            running.reconfigure(&self.config);
        }
        self.engine.collect_events(self.limits.notify.is_on());
        self.log_level.set(self.config.text(Name::LogLevel));
        self.reconfigure_users();
        self.fit_clients();
    }

    /// The engine, and where the results of what it is asked go.
    pub fn engine(&mut self) -> (&mut Engine, Turn<'_>) {
        (&mut self.engine, Turn { facts: &mut self.facts, outbox: &mut self.outputs })
    }

    /// A client's connection is gone: what it was handed and never got goes back to its queue, and
    /// on to others, in this step. Its slot must be empty.
    pub fn forget(&mut self, clients: &mut Clients, id: ClientId, slot: u32, bytes: usize) {
        let unsent = self.outputs.at(slot).has_jobs_in_hand();
        self.outputs.close(id, slot);
        self.forget_wait(id);
        self.watching.remove(&id);
        self.messages.pubsub.forget(id);
        clients.release(slot);
        self.clients_bytes -= bytes;
        let now = self.clock.now;
        let (engine, mut turn) = self.engine();
        if unsent {
            engine.unsent(now, id, &mut turn);
        }
        engine.closed(now, id, &mut turn);
    }

    /// Counts how late the jobs are that have just left.
    pub(super) fn note_lateness(&mut self) {
        if self.outputs.left.is_empty() {
            return;
        }
        let mono_us = self.clock.timer.mono_us();
        let now = self.clock.anchored.at(mono_us);
        for due in self.outputs.left.drain(..) {
            self.lateness.record(mono_us, now.0.saturating_sub(due.start().0));
        }
    }

    /// When the engine has something to do next, by its own clock.
    pub(super) fn next_wakeup(&self) -> Option<Millis> {
        let timeout = self.engine.next_timeout();
        let timeout = timeout.map(|at| self.clock.engine_at(at));
        [self.engine.next_wakeup(), timeout].into_iter().flatten().min()
    }

    /// Any number.
    pub fn random(&mut self) -> u64 {
        // SplitMix64: a step and a scramble.
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut n = self.chance;
        n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        n ^ (n >> 31)
    }

    /// Looks at what is resident, and tells the engine if that is too much.
    pub(super) fn look_at_memory(&mut self) {
        let Some(resident) = &mut self.resident else { return };
        let Counters { input_bytes, output_bytes, .. } = self.counters;
        let settings = self.engine.settings_mut();
        let quiet = resident.look(Look {
            mono_us: self.clock.timer.mono_us(),
            moved_bytes: input_bytes + output_bytes,
            clients_bytes: self.clients_bytes as u64,
            max: settings.memory_bytes_max,
        });
        if quiet {
            self.buffers = Buffers::default();
            self.outputs.forget_buffers();
        }
        settings.memory_bytes_over = resident.over_bytes();
    }

    /// Whether requests are to wait for memory that is being given back.
    pub(super) fn waits_for_memory(&self) -> bool {
        self.resident.as_ref().is_some_and(Resident::waits)
    }

    /// Memory in use, bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.engine.held_bytes() + self.clients_bytes as u64
    }

    fn fit_clients(&mut self) {
        let wanted = self.limits.clients_max;
        let fitting = machine::make_room_for(wanted);
        if fitting < wanted {
            tracing::warn!(
                wanted,
                fitting,
                "maxclients lowered: the limit of open files is too low"
            );
            self.limits.clients_max = fitting;
        }
    }
}

impl Limits {
    /// How much unread output a client may have.
    pub fn output_of(&self, subscribed: bool) -> OutputLimit {
        if subscribed { self.output_pubsub } else { self.output }
    }

    fn new(config: &Config) -> Limits {
        let u32_of = |name| u32::try_from(config.number(name)).unwrap_or(u32::MAX);
        // One request must leave room for another client's.
        let memory = config.number(Name::MaxClientsMemory) / 2;
        let request = config.number(Name::ClientQueryBufferLimit).min(memory);
        let idle_s = config.number(Name::Timeout);
        let slow_us = config.signed(Name::SlowlogLogSlowerThan);
        Limits {
            frame: FrameLimits {
                authenticated: true,
                bulk_bytes_max: u32_of(Name::ProtoMaxBulkLen),
                argument_bytes_max: u32_of(Name::MaxBodySize),
                command_bytes_max: u32::try_from(request).unwrap_or(u32::MAX),
            },
            clients_max: config.number(Name::MaxClients),
            clients_bytes_max: config.size(Name::MaxClientsMemory),
            idle_us_max: (idle_s > 0).then(|| idle_s * 1_000_000),
            clock_jump_us_max: config.number(Name::MaxClockJump).saturating_mul(1_000),
            keepalive_s: config.number(Name::TcpKeepalive),
            output: config.output_limits()[0],
            output_pubsub: config.output_limits()[2],
            slow_ns: u64::try_from(slow_us).ok().map(|us| us.saturating_mul(1_000)),
            slow_len_max: config.size(Name::SlowlogMaxLen),
            protected: config.flag(Name::ProtectedMode),
            notify: Notify::of(config.text(Name::NotifyKeyspaceEvents)),
        }
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
        ..Settings::default()
    }
}

fn run_id() -> String {
    let mut id = String::with_capacity(48);
    for _ in 0..3 {
        write!(id, "{:016x}", machine::random()).expect("a String takes all");
    }
    id.truncate(40);
    id
}
