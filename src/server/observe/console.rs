//! The console as the server starts it: its options and its way to the loop.

use crate::config::Config;
use crate::config::options::Name;
use crate::console::http::listen::Serving;
use crate::console::http::serve;
use crate::console::site::client::{Connector, Ends};
use crate::console::site::consoles::Consoles;
use crate::console::site::proxy::Proxies;
use crate::console::site::token::Token;
use crate::console::site::{ConsoleOptions, Site};
use crate::limits::{CONSOLE_CLIENTS_PERCENT, CONSOLE_CONNECTIONS_MAX, CONSOLE_SESSIONS_MAX};
use crate::server::connection::pair::Pairs;
use crate::server::observe::machine;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Starts it on `listeners`, with TLS if there is `tls`, whose newest value is used. Its users come to the loop through
/// `pairs`. A shell reaches the server by `redis_cli`. A client that shows the `token`
/// needs no password while the default user has none.
///
/// # Errors
/// The system has no room for another thread.
pub fn start(
    config: &Config,
    listeners: Vec<TcpListener>,
    tls: Option<watch::Receiver<Arc<rustls::ServerConfig>>>,
    pairs: Arc<Pairs>,
    redis_cli: String,
    token: Option<Token>,
) -> io::Result<Serving> {
    let port = listeners.first().and_then(|listener| listener.local_addr().ok());
    let options = ConsoleOptions {
        port: port.map_or(0, |address| address.port()),
        redis_cli,
        token,
        ..options(config, tls.is_some())
    };
    let connector = Connector::new(move |ends: Ends, relay| {
        pairs.connect(ends.peer, ends.local, relay, ends.is_proven)
    })
    .within(memory_bytes(config), machine::watchers_max(CONSOLE_SESSIONS_MAX));
    serve::start(listeners, tls, Site::new(options, connector))
}

/// The memory of a machine on which the answers to large requests fit into `max-clients-memory`, with what else counts
/// there; this one's, if that is less.
fn memory_bytes(config: &Config) -> u64 {
    let clients = config.number(Name::MaxClientsMemory);
    config.machine_bytes.min(clients.saturating_mul(100) / CONSOLE_CLIENTS_PERCENT)
}

/// The proxies that are believed.
///
/// # Errors
/// The error names a word that is neither an address nor a network.
pub fn proxies(config: &Config) -> Result<Proxies, String> {
    Proxies::read(config.text(Name::ConsoleTrustedProxies))
}

/// The consoles of the cluster's nodes.
///
/// # Errors
/// The error names a word that is not a name and an address.
pub fn consoles(config: &Config) -> Result<Consoles, String> {
    Consoles::read(config.text(Name::ConsoleNodes), config.partition, config.partitions())
}

/// Where it is, for the log and for a browser.
pub fn url(address: &SocketAddr, tls: bool) -> String {
    format!("{}://{address}/", if tls { "https" } else { "http" })
}

fn options(config: &Config, tls: bool) -> ConsoleOptions {
    let words = |name| config.text(name).split_ascii_whitespace().map(str::to_owned).collect();
    ConsoleOptions {
        hosts: words(Name::ConsoleHosts),
        tls,
        // Both have been read when the server was bound.
        proxies: proxies(config).unwrap_or_default(),
        nodes: consoles(config).unwrap_or_default(),
        insecure: config.flag(Name::ConsoleInsecure),
        readonly: config.flag(Name::ConsoleReadonly),
        cors: words(Name::ConsoleCors),
        wait: Duration::from_millis(config.number(Name::ConsoleWait)),
        grafana: Some(config.text(Name::ConsoleGrafanaUrl))
            .filter(|url| url.starts_with("https://") || url.starts_with("http://"))
            .unwrap_or_default()
            .to_owned(),
        connections_max: machine::watchers_max(CONSOLE_CONNECTIONS_MAX),
        ..ConsoleOptions::default()
    }
}
