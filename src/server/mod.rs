//! The server: sockets, threads and clocks for the engine and the cluster, which have none.
//!
//! One thread, the turn, serves all clients (`turn::Turns::turn`): it waits, reads what clients have
//! sent, reads the clock once, runs commands, lets time pass, and writes each client's replies once.
//! No client has a task of its own: when its socket is ready, the waker puts the client's slot on the turn's list.

mod admin;
mod clock;
pub mod cluster;
mod connection;
mod core;
mod durability;
pub mod in_memory;
mod observe;
mod outbox;
pub mod process;
mod siblings;
mod turn;

pub use observe::logs;

use crate::config::Config;
use crate::config::options::Name;
use crate::session::NodeStanding;
use crate::session::acl::Acl;
use clock::timer::{Timer, mono_ns};
use cluster::peer_tls::PeerTls;
use connection::handshake::Handshakes;
use connection::listen::Listener;
use connection::pair::Pairs;
use connection::wake::Notifier;
use core::{Core, Users};
use durability::home::Home;
use durability::node::Clustered;
use observe::console_link::ConsoleLink;
use observe::http;
use observe::logs::LogLevel;
pub use observe::resident::Keeping;
use observe::resident::Resident;
use observe::starter::{ReadyFd, stop_with_stdin};
use observe::status::StatusBoard;
use observe::supervisor::Supervisor;
use observe::zones::{SYSTEM, ZoneTables};
use siblings::{Alone, PartitionPlace, Siblings};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch::Sender;
use turn::Turns;
use turn::observers::Observers;
use turn::wait::{Beside, Loop, Signals};

/// A server that listens and does not serve yet.
///
/// ```no_run
/// use delayd::config::Config;
/// use delayd::server::Server;
///
/// let mut config = Config::default();
/// config.set("port", &["0".to_owned()]).unwrap();
/// config.set("appendonly", &["no".to_owned()]).unwrap();
/// let server = Server::bind(config).unwrap();
/// println!("listening on {}", server.addresses()[0]);
/// let stop = server.stopper();
/// std::thread::spawn(move || server.run());
/// stop.stop();
/// ```
#[derive(Debug)]
pub struct Server {
    config: Config,
    /// Its name among all, 40 hex digits.
    run_id: String,
    /// Told the port when commands are answered.
    ready_fd: Option<ReadyFd>,
    acl: Acl,
    home: Option<Home>,
    tls: Option<Arc<rustls::ServerConfig>>,
    zones: ZoneTables,
    listeners: Vec<Listener>,
    /// For the port that answers as a Sentinel.
    sentinel: Vec<Listener>,
    addresses: Vec<SocketAddr>,
    /// For metrics and health; empty when there is no port for them.
    http: Vec<TcpListener>,
    http_addresses: Vec<SocketAddr>,
    /// For the console; empty when there is no port for it.
    console: Vec<TcpListener>,
    console_tls: Option<Arc<rustls::ServerConfig>>,
    /// Where the default user has no password.
    console_link: Option<ConsoleLink>,
    /// The configuration of this node, and the listener for its peers.
    clustered: Option<Clustered>,
    /// Reports its state to the service manager that the environment names.
    supervised: bool,
    notifier: Arc<Notifier>,
    /// Where it is one of several partitions of the process.
    siblings: Option<Siblings>,
    /// Changes the level of the process's log, for CONFIG SET.
    log_level: LogLevel,
    /// SIGTERM and SIGINT stop it, and SIGHUP reloads certificates and the ACL file.
    signals: bool,
    /// Called once, when a signal would stop it in order: a signal may come as soon as the server is reported to listen.
    greeting: Option<fn(&Server)>,
    /// Keeps resident memory near the counted memory.
    allocator: Option<Allocator>,
}

/// A memory allocator of the program that does more than the system's.
#[derive(Clone, Debug)]
pub struct Allocator {
    /// As INFO names it.
    pub name: String,
    /// Gives all memory that is not in use back to the system. Called by a thread of its own, so it may take its time.
    pub give_back: fn(Keeping),
}

/// Stops a server from another thread, as SIGTERM does.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Notifier>);

impl Stopper {
    /// Asks for an orderly stop; asked twice, the server stops at once.
    pub fn stop(&self) {
        self.0.stop();
    }

    /// The same, but does not hurry a server that was asked already.
    pub fn stop_once(&self) {
        self.0.stop_at_least(1);
    }
}

impl Server {
    /// Takes the journal's folder and opens the listeners. Connections are accepted by the kernel from
    /// here on, and served once the server runs.
    ///
    /// # Errors
    /// An address or the journal's folder is in use, or not available.
    pub fn bind(mut config: Config) -> io::Result<Server> {
        let ready_fd = ReadyFd::take(&config)?;
        config.machine_bytes = observe::machine::memory_bytes();
        config.check().map_err(io::Error::other)?;
        let node = cluster::options::read(&config).map_err(io::Error::other)?;
        let acl = admin::users::read(&config).map_err(io::Error::other)?;
        observe::console::proxies(&config).map_err(io::Error::other)?;
        observe::console::consoles(&config).map_err(io::Error::other)?;
        let home = Home::open(&config)?;
        let tls = connection::tls::server_config(&config).map_err(io::Error::other)?;
        let zones = ZoneTables::read(&config, Some(SYSTEM)).map_err(io::Error::other)?;
        let listeners = connection::listen::listen(&config)?;
        let addresses = listeners.iter().filter_map(Listener::address).collect();
        let sentinel = connection::listen::listen_as_sentinel(&config)?;
        let http = connection::listen::listen_for_metrics(&config)?;
        let console = connection::listen::listen_for_console(&config)?;
        let console_tls = connection::tls::console_config(&config).map_err(io::Error::other)?;
        let console_link = offer_console(&config, &acl, &console, console_tls.is_some());
        let clustered = match node {
            Some(options) => {
                let listeners = connection::listen::listen_for_peers(&config, options.peer_port)?;
                let tls = PeerTls::of(&config).map_err(io::Error::other)?;
                Some(Clustered { options, listeners, tls })
            }
            None => None,
        };
        let local = http.iter().map(TcpListener::local_addr);
        let http_addresses = local.collect::<io::Result<_>>()?;
        Ok(Server {
            config,
            run_id: core::run_id(),
            ready_fd,
            acl,
            home,
            tls,
            zones,
            listeners,
            sentinel,
            addresses,
            http,
            http_addresses,
            console,
            console_tls,
            console_link,
            clustered,
            supervised: false,
            notifier: Arc::default(),
            siblings: None,
            log_level: LogLevel::default(),
            signals: false,
            greeting: None,
            allocator: None,
        })
    }

    /// Where it is served, before it is.
    fn place(&self) -> PartitionPlace {
        let own =
            || PartitionPlace::Alone(Alone::of(&self.config, &self.run_id, self.port(), true));
        self.clustered.as_ref().map_or_else(own, |node| PartitionPlace::Node(Arc::new(node.view())))
    }

    /// The addresses of metrics and health; empty without `metrics-port`.
    pub fn http_addresses(&self) -> &[SocketAddr] {
        &self.http_addresses
    }

    /// Where browsers find the console, with what lets them in where there is no password; empty without
    /// `console-port`.
    pub fn console_urls(&self) -> Vec<String> {
        if let Some(link) = &self.console_link {
            return link.urls.clone();
        }
        let addresses = self.console.iter().filter_map(|listener| listener.local_addr().ok());
        addresses
            .map(|address| observe::console::url(&address, self.console_tls.is_some()))
            .collect()
    }

    /// Where it listens, as its log says it: addresses, then the Unix socket.
    pub fn places(&self) -> Vec<String> {
        self.listeners.iter().map(ToString::to_string).collect()
    }

    /// Where it answers as a Sentinel, as its log says it.
    pub fn sentinel_places(&self) -> Vec<String> {
        self.sentinel.iter().map(ToString::to_string).collect()
    }

    /// The addresses it listens on: plain ones, then those for TLS.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    fn port(&self) -> u16 {
        self.addresses.first().map_or(0, |address| address.port())
    }

    /// What calls it from a shell: this program, or redis-cli where a password or TLS is asked for.
    pub fn call(&self) -> String {
        connection::hint::call(&self.listeners, &self.config, &self.acl)
    }

    /// Bytes of memory for jobs; 0 for no limit.
    pub fn memory_bytes_max(&self) -> u64 {
        self.config.number(Name::MaxMemory)
    }

    /// How many partitions the process has.
    pub fn partitions(&self) -> u16 {
        self.config.partitions()
    }

    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.notifier))
    }

    /// Serves until it is asked to stop.
    pub fn run(self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        // Without this tokio would make the loop pause after 128 reads, as a task among others; there
        // are no others, and the turn has its own budgets.
        runtime.block_on(tokio::task::unconstrained(async {
            let signals = match self.signals {
                true => Signals {
                    stop: vec![signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?],
                    reload: Some(signal(SignalKind::hangup())?),
                },
                false => Signals::default(),
            };
            if let Some(greeting) = self.greeting {
                greeting(&self);
            } else if self.siblings.is_some() {
                self.console_urls().iter().for_each(|url| tracing::info!("console on {url}"));
            }
            self.start(signals)?.run().await
        }))
    }

    /// Begins to load the journal, and starts what watches the server.
    fn start(self, signals: Signals) -> io::Result<Loop> {
        let redis_cli = connection::hint::redis_cli(&self.listeners, &self.config, &self.acl);
        let port = self.port();
        let notifier = self.notifier;
        let mut core =
            Core::new(self.config, port, self.log_level, Arc::clone(&notifier), Timer::Machine);
        core.process.run_id = self.run_id;
        let peer_tls = self.clustered.as_ref().map(|clustered| clustered.tls.clone());
        let peer_tls = peer_tls.unwrap_or_default();
        let console_tls = self.console_tls.map(Sender::new);
        core.users = Users { acl: self.acl, tls: self.tls, peer_tls, console_tls };
        core.outputs.reply_clock = Some(mono_ns);
        tracing::info!("zones are those of {}", self.zones.used);
        let mut zones = self.zones;
        zones.tell(Arc::clone(&notifier));
        // Before the journal is loaded, because its schedules use them.
        core.set_zones(zones);
        // Before the journal is loaded: clients get LOADING meanwhile.
        let watched = !self.http.is_empty() || !self.console.is_empty();
        let own_board = || Arc::new(StatusBoard::new(Arc::clone(&notifier), core.clock.mono_us));
        let boards = match &self.siblings {
            Some(siblings) => siblings.boards(),
            None if watched => vec![own_board()],
            None => Vec::new(),
        };
        let status = boards.get(usize::from(core.options.config.partition)).map(Arc::clone);
        let mut beside = Beside::default();
        if !self.http.is_empty() {
            beside.http = Some(http::start(self.http, boards)?);
        }
        let mut pairs = None;
        if !self.console.is_empty() {
            let made = Arc::new(Pairs::new(Arc::clone(&notifier)));
            let tls = core.users.console_tls.as_ref().map(Sender::subscribe);
            let config = &core.options.config;
            beside.console = Some(observe::console::start(
                config,
                self.console,
                tls,
                Arc::clone(&made),
                redis_cli,
                self.console_link.as_ref().map(|link| link.token.clone()),
            )?);
            beside.console_link = self.console_link;
            pairs = Some(made);
        }
        let supervisor = self.supervised.then(Supervisor::from_environment).flatten();
        core.process.supervised = supervisor.is_some();
        if let Some(allocator) = self.allocator {
            core.process.allocator = allocator.name;
            match Resident::start(allocator.give_back, Arc::clone(&notifier)) {
                Ok(resident) => core.watch.resident = Some(resident),
                Err(error) => tracing::warn!("resident memory is not watched: {error}"),
            }
        }
        if let Some(clustered) = self.clustered {
            core.view = Some(Box::new(clustered.view()));
            // It decides nothing before it leads.
            core.standing = NodeStanding::Loading;
            core.durability.join(clustered);
        }
        core.siblings = self.siblings;
        if let Some(home) = self.home {
            core.load(home)?;
        }
        core.tell_place();
        if core.options.config.flag(Name::UntilStdinCloses) && core.options.config.partition == 0 {
            stop_with_stdin(Arc::clone(&notifier))?;
        }
        let mut turns = Turns::new(core, Arc::clone(&notifier));
        let starter = self.ready_fd.map(|ready_fd| (ready_fd, port));
        turns.observers = Observers::new(status, supervisor, starter);
        turns.pairs = pairs;
        if turns.core.users.tls.is_some() {
            turns.handshakes = Some(Handshakes::start(notifier)?);
        }
        let listeners = self.listeners.into_iter().chain(self.sentinel).collect();
        Loop::new(turns, listeners, beside, signals)
    }
}

/// The link into the console, if there is one and it takes no password to get in.
fn offer_console(
    config: &Config,
    acl: &Acl,
    console: &[TcpListener],
    tls: bool,
) -> Option<ConsoleLink> {
    let dir = config.folder();
    if console.is_empty() || acl.needs_password() {
        if !console.is_empty() {
            ConsoleLink::withdraw(&dir);
        }
        return None;
    }
    let places: Vec<SocketAddr> =
        console.iter().filter_map(|listener| listener.local_addr().ok()).collect();
    Some(ConsoleLink::offer(&dir, &places, tls))
}
