//! A client's connection: TCP, a Unix socket, TLS over TCP, or memory.

use crate::console::site::relay::Relay;
use crate::server::connection::memory::Memory;
use crate::server::connection::tls::Tls;
use bytes::BytesMut;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// Where bytes come from and go to; nothing here waits.
#[derive(Debug)]
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// TLS after its handshake.
    Tls(Box<Tls>),
    /// A connection within the process.
    Memory(Memory),
}

/// Both ends of a connection.
#[derive(Clone, Debug)]
pub enum ConnectionEnds {
    /// A machine, perhaps this one.
    Tcp { peer: SocketAddr, local: SocketAddr },
    /// A process of this machine, by the socket at this path.
    Unix(Arc<str>),
}

#[derive(Debug)]
pub enum Accepted {
    /// It can speak at once.
    Ready(Stream, ConnectionEnds),
    /// The console speaks at its other end, for a client that it has accepted. One that has not proven itself has to say a
    /// password first, whatever its user needs.
    Relayed { stream: Stream, peer: ConnectionEnds, relay: Arc<Relay>, is_proven: bool },
    /// TLS comes first.
    Handshake(TcpStream),
}

impl Stream {
    /// Appends what has come to `input`; 0 is the end. Pending: the waker will be called.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        input: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        match self {
            Stream::Tcp(stream) => pin!(stream.read_buf(input)).poll(cx),
            Stream::Unix(stream) => pin!(stream.read_buf(input)).poll(cx),
            Stream::Tls(stream) => stream.poll_read(cx, input),
            Stream::Memory(stream) => stream.poll_read(cx, input),
        }
    }

    /// Writes what the kernel takes at once; how much of it is in the kernel's hands. After pending,
    /// the next call begins with the same bytes.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Tls(stream) => stream.poll_write(cx, bytes),
            Stream::Memory(stream) => stream.poll_write(cx, bytes),
        }
    }

    /// Writes a last line, as far as the kernel takes it: also to a connection that is so fresh that it
    /// is not known yet whether it can be written to. A fresh one has room for a line.
    pub fn farewell(&mut self, text: &[u8]) {
        match self {
            Stream::Tls(stream) => stream.farewell(text),
            Stream::Memory(stream) => stream.farewell(text),
            Stream::Tcp(stream) => {
                let _ = rustix::io::write(&*stream, text);
            }
            Stream::Unix(stream) => {
                let _ = rustix::io::write(&*stream, text);
            }
        }
    }

    /// Whether the kernel takes more now; if not, the waker is called when it does.
    pub fn is_writable(&self, cx: &mut Context<'_>) -> bool {
        match self {
            Stream::Tcp(stream) => stream.poll_write_ready(cx).is_ready(),
            Stream::Unix(stream) => stream.poll_write_ready(cx).is_ready(),
            Stream::Tls(stream) => stream.socket().poll_write_ready(cx).is_ready(),
            Stream::Memory(stream) => stream.is_writable(cx),
        }
    }

    /// Bytes held for it in addition to the kernel's, without those of the outputs.
    pub fn held_bytes(&self) -> usize {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) | Stream::Memory(_) => 0,
            Stream::Tls(stream) => stream.held_bytes(),
        }
    }

    /// The TCP connection below, if there is one.
    pub fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Stream::Tcp(stream) => Some(stream),
            Stream::Unix(_) | Stream::Memory(_) => None,
            Stream::Tls(stream) => Some(stream.socket()),
        }
    }

    /// Bytes that have arrived and were not read; of TLS, with what surrounds them.
    pub fn arrived_bytes(&self) -> u64 {
        match self.descriptor() {
            Ok(fd) => rustix::io::ioctl_fionread(fd).unwrap_or(0),
            Err(memory) => memory.arrived_bytes(),
        }
    }

    /// Whether the peer still has its end open. Bytes it may have sent before do not matter.
    pub fn is_peer_there(&self) -> bool {
        match self.descriptor() {
            Ok(fd) => {
                let mut fds = [PollFd::new(&fd, PollFlags::RDHUP)];
                let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
                poll(&mut fds, Some(&at_once)).is_ok() && fds[0].revents().is_empty()
            }
            Err(memory) => memory.is_peer_there(),
        }
    }

    pub fn fd(&self) -> i64 {
        self.descriptor().map_or_else(Memory::number, |fd| fd.as_raw_fd().into())
    }

    fn descriptor(&self) -> Result<BorrowedFd<'_>, &Memory> {
        match self {
            Stream::Tcp(stream) => Ok(stream.as_fd()),
            Stream::Unix(stream) => Ok(stream.as_fd()),
            Stream::Tls(stream) => Ok(stream.socket().as_fd()),
            Stream::Memory(memory) => Err(memory),
        }
    }
}

impl ConnectionEnds {
    /// The two ends of a TCP connection.
    pub fn of(stream: &TcpStream) -> io::Result<ConnectionEnds> {
        Ok(ConnectionEnds::Tcp { peer: stream.peer_addr()?, local: stream.local_addr()? })
    }

    /// Whether it is on this machine.
    pub fn is_local(&self) -> bool {
        match self {
            ConnectionEnds::Tcp { peer, .. } => peer.ip().to_canonical().is_loopback(),
            ConnectionEnds::Unix(_) => true,
        }
    }

    /// The peer without its port; of a Unix socket, the path.
    pub fn host(&self) -> String {
        match self {
            ConnectionEnds::Tcp { peer, .. } => peer.ip().to_string(),
            ConnectionEnds::Unix(path) => path.to_string(),
        }
    }

    pub fn is_unix(&self) -> bool {
        matches!(self, ConnectionEnds::Unix(_))
    }

    /// The port it connected to; none for a Unix socket.
    pub fn local_port(&self) -> Option<u16> {
        match self {
            ConnectionEnds::Tcp { local, .. } => Some(local.port()),
            ConnectionEnds::Unix(_) => None,
        }
    }

    /// The address it connected to; none for a Unix socket.
    pub fn local_host(&self) -> Option<String> {
        match self {
            ConnectionEnds::Tcp { local, .. } => Some(local.ip().to_canonical().to_string()),
            ConnectionEnds::Unix(_) => None,
        }
    }

    /// The end it connected to, as CLIENT LIST shows it.
    pub fn local(&self) -> String {
        match self {
            ConnectionEnds::Tcp { local, .. } => local.to_string(),
            ConnectionEnds::Unix(path) => format!("{path}:0"),
        }
    }
}

impl fmt::Display for ConnectionEnds {
    /// As CLIENT LIST shows it: `ip:port`, or the socket's path with port 0.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectionEnds::Tcp { peer, .. } => peer.fmt(f),
            ConnectionEnds::Unix(path) => write!(f, "{path}:0"),
        }
    }
}
