//! Listening sockets, and what every accepted one is set to.

use crate::config::Config;
use crate::config::options::{self, Name};
use crate::server::connection::stream::{Accepted, ConnectionEnds, Stream};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, TcpKeepalive, Type};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{fmt, fs, io};
use tokio::net::TcpStream;

/// A listening socket before its first accept.
#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    Tls(TcpListener),
    Unix(UnixListener, SocketFile),
}

#[derive(Debug)]
pub enum Door {
    Tcp(tokio::net::TcpListener),
    Tls(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener, SocketFile),
}

/// The path of a Unix socket, removed when it is no longer listened on.
#[derive(Debug)]
pub struct SocketFile(Arc<str>);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&*self.0);
    }
}

impl Listener {
    /// Its address; none for a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Listener::Tcp(listener) | Listener::Tls(listener) => listener.local_addr().ok(),
            Listener::Unix(..) => None,
        }
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.address()) {
            (Listener::Unix(_, file), _) => write!(f, "{}", file.0),
            (Listener::Tls(_), Some(address)) => write!(f, "{address} (TLS)"),
            (_, Some(address)) => write!(f, "{address}"),
            (_, None) => f.write_str("nowhere"),
        }
    }
}

impl Door {
    /// Takes a listener into the loop.
    pub fn open(listener: Listener) -> io::Result<Door> {
        Ok(match listener {
            Listener::Tcp(listener) => Door::Tcp(tokio::net::TcpListener::from_std(listener)?),
            Listener::Tls(listener) => Door::Tls(tokio::net::TcpListener::from_std(listener)?),
            Listener::Unix(listener, file) => {
                Door::Unix(tokio::net::UnixListener::from_std(listener)?, file)
            }
        })
    }

    /// A connection that has come, or the waker is called when one does.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        Poll::Ready(Ok(match self {
            Door::Tcp(listener) => {
                let (stream, _) = ready!(listener.poll_accept(cx))?;
                // Gone already: as if it had given up before it was its turn.
                let peer =
                    ConnectionEnds::of(&stream).map_err(|_| io::ErrorKind::ConnectionAborted)?;
                Accepted::Ready(Stream::Tcp(stream), peer)
            }
            Door::Tls(listener) => Accepted::Handshake(ready!(listener.poll_accept(cx))?.0),
            Door::Unix(listener, file) => {
                let (stream, _) = ready!(listener.poll_accept(cx))?;
                Accepted::Ready(Stream::Unix(stream), ConnectionEnds::Unix(Arc::clone(&file.0)))
            }
        }))
    }
}

/// Opens a listener for each address of `bind`, one more for each if there is a `tls-port`, and the
/// Unix socket. With port 0 and nothing else to listen on, all get the port that the system chose for
/// the first.
pub fn listen(config: &Config) -> io::Result<Vec<Listener>> {
    let (port, tls_port) = (config.port(Name::Port), config.port(Name::TlsPort));
    let path = config.text(Name::UnixSocket);
    let mut listeners = Vec::new();
    if port > 0 || (tls_port == 0 && path.is_empty()) {
        listeners.extend(listen_on(config, Name::Bind, port)?.into_iter().map(Listener::Tcp));
    }
    if tls_port > 0 {
        listeners.extend(listen_on(config, Name::Bind, tls_port)?.into_iter().map(Listener::Tls));
    }
    if !path.is_empty() {
        let mode = config.number(Name::UnixSocketPerm) as u32;
        let listener = open_unix(path, mode, config.size(Name::TcpBacklog) as i32)
            .map_err(|error| io::Error::new(error.kind(), format!("unixsocket {path}: {error}")))?;
        listeners.push(Listener::Unix(listener, SocketFile(path.into())));
    }
    Ok(listeners)
}

/// Opens the listeners of the port that answers as a Sentinel; none without one. Where clients are served by TLS alone
/// they are here, too.
///
/// # Errors
/// As of [`listen`].
pub fn listen_as_sentinel(config: &Config) -> io::Result<Vec<Listener>> {
    let tls = config.number(Name::Port) == 0 && config.number(Name::TlsPort) > 0;
    let listener = if tls { Listener::Tls } else { Listener::Tcp };
    match config.number(Name::SentinelPort) as u16 {
        0 => Ok(Vec::new()),
        port => Ok(listen_on(config, Name::Bind, port)?.into_iter().map(listener).collect()),
    }
}

/// Opens the listeners for metrics and health, which the first partition has for all; none without a port for them.
pub fn listen_for_metrics(config: &Config) -> io::Result<Vec<TcpListener>> {
    match config.number(Name::MetricsPort) {
        0 => Ok(Vec::new()),
        _ if config.partition > 0 => Ok(Vec::new()),
        port => listen_on(config, Name::MetricsBind, port as u16),
    }
}

/// Opens the listeners of the console; none without a port for it.
///
/// # Errors
/// As of [`listen`].
pub fn listen_for_console(config: &Config) -> io::Result<Vec<TcpListener>> {
    match config.port(Name::ConsolePort) {
        0 => Ok(Vec::new()),
        port => listen_on(config, Name::ConsoleBind, port),
    }
}

/// Opens the sockets that other nodes of the cluster connect to.
///
/// # Errors
/// As of [`listen`].
pub fn listen_for_peers(config: &Config, port: u16) -> io::Result<Vec<TcpListener>> {
    let own = !config.text(Name::ClusterBind).is_empty();
    listen_on(config, if own { Name::ClusterBind } else { Name::Bind }, port)
}

fn listen_on(config: &Config, bind: Name, mut port: u16) -> io::Result<Vec<TcpListener>> {
    let backlog = config.size(Name::TcpBacklog) as i32;
    let mut listeners = Vec::new();
    for word in config.text(bind).split_ascii_whitespace() {
        let (word, optional) = match word.strip_prefix('-') {
            Some(word) => (word, true),
            None => (word, false),
        };
        let address = SocketAddr::new(ip(word)?, port);
        match open(address, backlog) {
            Ok(listener) => {
                port = listener.local_addr()?.port();
                listeners.push(listener);
            }
            Err(error) if optional && is_missing(&error) => {}
            Err(error) => {
                return Err(io::Error::new(
                    error.kind(),
                    format!("cannot listen on {address}: {error}"),
                ));
            }
        }
    }
    if listeners.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::AddrNotAvailable,
            format!("{} is not an address of this machine", options::spec(bind).word()),
        ));
    }
    Ok(listeners)
}

/// Sets an accepted connection's options. Replies are written whole, so nothing is gained by
/// holding back small ones; a peer that died silently is found out by probes.
pub fn tune(stream: &TcpStream, keepalive_s: u64) -> io::Result<()> {
    stream.set_nodelay(true)?;
    if keepalive_s > 0 {
        // Dead after three unanswered probes, a third of the time apart, as in Redis.
        let probes = TcpKeepalive::new()
            .with_time(Duration::from_secs(keepalive_s))
            .with_interval(Duration::from_secs((keepalive_s / 3).max(1)))
            .with_retries(3);
        SockRef::from(stream).set_tcp_keepalive(&probes)?;
    }
    Ok(())
}

fn ip(word: &str) -> io::Result<IpAddr> {
    match word {
        "*" => Ok(Ipv4Addr::UNSPECIFIED.into()),
        "::*" => Ok(Ipv6Addr::UNSPECIFIED.into()),
        "localhost" => Ok(Ipv4Addr::LOCALHOST.into()),
        word => word.parse().map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("bind {word}: not an IP address"))
        }),
    }
}

/// `mode` 0: what the system gives it.
fn open_unix(path: &str, mode: u32, backlog: i32) -> io::Result<UnixListener> {
    // Remains of a server that was killed; never another file, nor a socket in use.
    if let Ok(old) = fs::symlink_metadata(path) {
        let text = if !old.file_type().is_socket() {
            Some("there is a file of that name that is not a socket")
        } else if std::os::unix::net::UnixStream::connect(path).is_ok() {
            Some("another server listens on it")
        } else {
            None
        };
        if let Some(text) = text {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
        }
        fs::remove_file(path)?;
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    if mode > 0 {
        // Before it listens: no client can connect with the system's default permissions.
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    }
    socket.listen(backlog)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn open(address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// The machine has no such address, or no such family of addresses.
fn is_missing(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let missing = [Errno::ADDRNOTAVAIL, Errno::AFNOSUPPORT, Errno::PROTONOSUPPORT];
    missing.iter().any(|e| error.raw_os_error() == Some(e.raw_os_error()))
}
