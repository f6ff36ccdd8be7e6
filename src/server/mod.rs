//! The server: the only place with sockets, threads and clocks.
//!
//! One thread does everything, in [turns](turn::Turns::turn): it waits, reads what clients have
//! sent, reads the clock once, runs commands, lets time pass, and writes each client's replies once.
//! No client has a task of its own; a client is a slot that its socket's waker puts on a list.

mod accept;
pub mod buffers;
pub mod client;
pub mod clients;
pub mod clock;
pub mod commit;
pub mod compaction;
pub mod core;
pub mod held;
mod info;
pub mod journaling;
mod limit;
pub mod listen;
pub mod loading;
pub mod logs;
pub mod machine;
pub mod output;
mod release;
mod requests;
mod serve;
pub mod timer;
pub mod turn;
mod users;
pub mod waits;
pub mod wake;
pub mod world;

use crate::config::Config;
use crate::session::acl::Acl;
use journaling::Home;
use logs::LogLevel;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use wake::Bell;

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
    acl: Acl,
    home: Option<Home>,
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    bell: Arc<Bell>,
    log_level: LogLevel,
    signals: bool,
}

/// Stops a server from another thread, as SIGTERM does.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Bell>);

impl Stopper {
    /// Asks for an orderly stop; asked twice, the server stops at once.
    pub fn stop(&self) {
        self.0.stop();
    }
}

impl Server {
    /// Takes the journal's folder and opens the listeners. Connections are accepted by the kernel from
    /// here on, and served once the server runs.
    ///
    /// # Errors
    /// An address or the journal's folder is in use by another, or not to be had.
    pub fn bind(mut config: Config) -> io::Result<Server> {
        config.machine_bytes = machine::memory_bytes();
        let acl = users::read(&config).map_err(io::Error::other)?;
        let home = Home::open(&config)?;
        let listeners = listen::listen(&config)?;
        let addresses = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<_>>()?;
        let (bell, log_level) = (Arc::default(), LogLevel::default());
        Ok(Server { config, acl, home, listeners, addresses, bell, log_level, signals: false })
    }

    /// Lets CONFIG SET change the level of the process's log.
    pub fn with_log(self, log_level: LogLevel) -> Server {
        Server { log_level, ..self }
    }

    /// Lets SIGTERM and SIGINT stop the server.
    pub fn with_signals(self) -> Server {
        Server { signals: true, ..self }
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Bytes of memory for jobs; 0 for no limit.
    pub fn memory_bytes_max(&self) -> u64 {
        self.config.number(crate::config::options::Name::MaxMemory)
    }

    /// A handle to stop it with.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.bell))
    }

    /// Serves until it is asked to stop.
    pub fn run(self) -> io::Result<()> {
        serve::run(self)
    }
}
