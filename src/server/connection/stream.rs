//! A client's connection: TCP, a Unix socket, or TLS over TCP.

use crate::server::connection::tls::Tls;
use bytes::BytesMut;
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
    /// Plain TCP.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// TLS whose handshake is over.
    Tls(Box<Tls>),
}

/// Both ends of a connection.
#[derive(Clone, Debug)]
pub enum Peer {
    /// A machine, perhaps this one.
    Tcp {
        /// Its address.
        peer: SocketAddr,
        /// The address it connected to.
        local: SocketAddr,
    },
    /// A process of this machine, by the socket at this path.
    Unix(Arc<str>),
}

/// A connection that was accepted.
#[derive(Debug)]
pub enum Accepted {
    /// It can speak at once.
    Ready(Stream, Peer),
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
        }
    }

    /// Writes what the kernel takes at once; how much of it is in the kernel's hands. After pending,
    /// the next call begins with the same bytes.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Tls(stream) => stream.poll_write(cx, bytes),
        }
    }

    /// Writes a last line, as far as the kernel takes it: also to a connection that is so fresh that it
    /// is not known yet whether it can be written to. A fresh one has room for a line.
    pub fn farewell(&mut self, text: &[u8]) {
        match self {
            Stream::Tls(stream) => stream.farewell(text),
            plain => {
                let _ = rustix::io::write(&*plain, text);
            }
        }
    }

    /// Whether the kernel takes more now; if not, the waker is called when it does.
    pub fn is_writable(&self, cx: &mut Context<'_>) -> bool {
        match self {
            Stream::Tcp(stream) => stream.poll_write_ready(cx).is_ready(),
            Stream::Unix(stream) => stream.poll_write_ready(cx).is_ready(),
            Stream::Tls(stream) => stream.socket().poll_write_ready(cx).is_ready(),
        }
    }

    /// Bytes held for it beside the kernel's, those of the outputs not counted.
    pub fn held_bytes(&self) -> usize {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => 0,
            Stream::Tls(stream) => stream.held_bytes(),
        }
    }

    /// The TCP connection below, if there is one.
    pub fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Stream::Tcp(stream) => Some(stream),
            Stream::Unix(_) => None,
            Stream::Tls(stream) => Some(stream.socket()),
        }
    }

    /// The number of its file descriptor.
    pub fn fd(&self) -> i64 {
        self.as_fd().as_raw_fd().into()
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tls(stream) => stream.socket().as_fd(),
        }
    }
}

impl Peer {
    /// The two ends of a TCP connection.
    pub fn of(stream: &TcpStream) -> io::Result<Peer> {
        Ok(Peer::Tcp { peer: stream.peer_addr()?, local: stream.local_addr()? })
    }

    /// Whether it is on this machine.
    pub fn is_local(&self) -> bool {
        match self {
            Peer::Tcp { peer, .. } => peer.ip().to_canonical().is_loopback(),
            Peer::Unix(_) => true,
        }
    }

    /// Whether it came by a Unix socket.
    pub fn is_unix(&self) -> bool {
        matches!(self, Peer::Unix(_))
    }

    /// The end it connected to, as CLIENT LIST shows it.
    pub fn local(&self) -> String {
        match self {
            Peer::Tcp { local, .. } => local.to_string(),
            Peer::Unix(path) => format!("{path}:0"),
        }
    }
}

impl fmt::Display for Peer {
    /// As CLIENT LIST shows it: `ip:port`, or the socket's path with port 0.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Tcp { peer, .. } => peer.fmt(f),
            Peer::Unix(path) => write!(f, "{path}:0"),
        }
    }
}
