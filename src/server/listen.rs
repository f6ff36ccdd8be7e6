//! Listening sockets, and what every accepted one is set to.

use crate::config::Config;
use crate::config::options::Name;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::time::Duration;
use tokio::net::TcpStream;

/// Opens a listener for each address of `bind`. With port 0 all get the port that the system chose
/// for the first.
pub fn listen(config: &Config) -> io::Result<Vec<TcpListener>> {
    let mut port = config.number(Name::Port) as u16;
    let backlog = config.size(Name::TcpBacklog) as i32;
    let mut listeners = Vec::new();
    for word in config.text(Name::Bind).split_ascii_whitespace() {
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
            "bind names no address of this machine",
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
