//! One connection: its socket, what was read from it, and its session.

use crate::console::site::relay::Relay;
use crate::ids::ClientId;
use crate::limits::{HEAVY_TURNS, HEAVY_US, READ_BYTES_PER_TURN};
use crate::resp::Framer;
use crate::server::connection::common::Buffers;
use crate::server::connection::input::Input;
use crate::server::connection::listen;
use crate::server::connection::stream::{ConnectionEnds, Stream};
use crate::session::{Session, SocketFacts};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

#[derive(Debug)]
pub struct Client {
    pub id: ClientId,
    /// Its settings, and its transaction.
    pub session: Session,
    /// How far its requests have been read.
    pub framer: Framer,
    /// Requests, or parts of them, that have not run.
    pub input: Input,
    pub socket: Socket,
}

/// A client's connection and its state.
#[derive(Debug)]
pub struct Socket {
    pub stream: Stream,
    waker: Waker,
    /// `ip:port` when it is shown.
    pub peer: ConnectionEnds,
    /// Monotonic, µs.
    accepted_us: u64,
    /// When its last command ran; monotonic, µs.
    pub active_us: u64,
    /// There may be something to read: to be found out by reading.
    pub unread: bool,
    /// The peer sends no more.
    pub ended: bool,
    /// Since when it is only there to read its last replies; monotonic, µs.
    pub closing_us: Option<u64>,
    /// It is on the list of clients to serve.
    pub listed: bool,
    /// It has whole requests that had to wait for the next turn.
    pub behind: bool,
    /// In how many turns, the last ones without a gap, its commands took long.
    pub slow_turns: u32,
    /// Its request is half done: it goes on next turn, before anything else of this client.
    pub midway: bool,
    /// Its command is kept back by CLIENT PAUSE.
    pub postponed: bool,
    /// Its requests wait until it has read some of its replies.
    pub held: bool,
    /// Its known memory, bytes.
    pub bytes: usize,
    /// Bytes read from it since it was accepted.
    pub read_bytes: u64,
    /// The part for replies to its own requests, bytes.
    pub reply_bytes: usize,
    /// Since when its unread replies have been above the soft limit; monotonic, µs.
    pub over_soft_us: Option<u64>,
    /// The agreement with the console if that hands its replies on.
    pub relay: Option<Arc<Relay>>,
}

#[derive(Debug)]
pub enum Read {
    /// So many bytes came, perhaps none.
    Bytes(usize),
    /// The connection is broken.
    Broken(io::Error),
}

impl Client {
    /// A connection that was just accepted.
    pub fn new(
        session: Session,
        stream: Stream,
        peer: ConnectionEnds,
        waker: Waker,
        mono_us: u64,
    ) -> Client {
        let socket = Socket {
            stream,
            waker,
            peer,
            accepted_us: mono_us,
            active_us: mono_us,
            unread: true,
            ended: false,
            closing_us: None,
            listed: false,
            behind: false,
            // Not known to be light.
            slow_turns: HEAVY_TURNS,
            midway: false,
            postponed: false,
            held: false,
            bytes: 0,
            read_bytes: 0,
            reply_bytes: 0,
            over_soft_us: None,
            relay: None,
        };
        let (framer, input) = (Framer::new(), Input::default());
        Client { id: session.id(), session, framer, input, socket }
    }

    /// Reads the available data, up to a client's share of a turn. For a waiting client everything is read, however
    /// much there is: otherwise the end of the connection after it would go unnoticed. `max-clients-memory` bounds
    /// that.
    pub fn read(&mut self, is_waiting: bool, buffers: &mut Buffers) -> Read {
        let Client { framer, input, socket, .. } = self;
        let mut total = 0;
        while total < READ_BYTES_PER_TURN {
            let mut cx = Context::from_waker(&socket.waker);
            match input.read(&mut socket.stream, &mut cx, framer, is_waiting, buffers) {
                // Only now will the waker be called when more comes.
                Poll::Pending => {
                    socket.unread = false;
                    break;
                }
                Poll::Ready(Ok(0)) => {
                    socket.unread = false;
                    socket.ended = true;
                    break;
                }
                Poll::Ready(Ok(count)) => {
                    total += count;
                    socket.read_bytes += count as u64;
                }
                Poll::Ready(Err(error)) => return Read::Broken(error),
            }
        }
        Read::Bytes(total)
    }

    /// The server is about to end the connection for a reason of its own: a session of the console goes on with another
    /// one.
    pub fn leave(&self) {
        let relay = self.socket.relay.as_ref().filter(|relay| !relay.holds_jobs);
        if let Some(relay) = relay.filter(|_| !self.session.is_locked()) {
            relay.leave(self.session.user());
        }
    }

    /// Bytes held for what it has sent: partial and waiting requests, and its transaction.
    pub fn held_bytes(&self) -> usize {
        self.input.held_bytes() + self.session.memory_bytes() + self.socket.stream.held_bytes()
    }
}

impl Socket {
    /// Writes what the kernel takes at once; pending when it takes nothing.
    pub fn write(&mut self, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut cx = Context::from_waker(&self.waker);
        self.stream.poll_write(&mut cx, bytes)
    }

    /// Whether there may be data that should be read.
    pub fn wants_reading(&self) -> bool {
        self.unread && !self.ended && self.closing_us.is_none()
    }

    /// Whether its commands take long.
    pub fn is_heavy(&self) -> bool {
        self.slow_turns >= HEAVY_TURNS
    }

    /// Notes how long its commands took in a turn.
    pub fn note_turn(&mut self, us: u64) {
        self.slow_turns = if us >= HEAVY_US { self.slow_turns.saturating_add(1) } else { 0 };
    }

    /// Whether more can be written now; if not, the waker is called when it can.
    pub fn is_writable(&self) -> bool {
        let mut cx = Context::from_waker(&self.waker);
        self.stream.is_writable(&mut cx)
    }

    /// Whether it was made within the process, on behalf of a remote visitor.
    pub fn is_pair(&self) -> bool {
        matches!(self.stream, Stream::Unix(_)) && !self.peer.is_unix()
    }

    pub fn is_tls(&self) -> bool {
        matches!(self.stream, Stream::Tls(_))
    }

    /// Applies `tcp-keepalive`, where that has a meaning.
    pub fn tune(&self, keepalive_s: u64) -> io::Result<()> {
        self.stream.tcp().map_or(Ok(()), |tcp| listen::tune(tcp, keepalive_s))
    }

    /// The fields of CLIENT LIST, except for those that only the buffers' owner knows.
    pub fn facts(&self, mono_us: u64) -> SocketFacts {
        SocketFacts {
            addr: self.peer.to_string(),
            laddr: self.peer.local(),
            unix: self.peer.is_unix(),
            fd: self.stream.fd(),
            age_s: mono_us.saturating_sub(self.accepted_us) / 1_000_000,
            idle_s: mono_us.saturating_sub(self.active_us) / 1_000_000,
            waiting: self.postponed,
            closing: self.closing_us.is_some(),
            memory_bytes: self.bytes,
            readable: !self.ended && self.closing_us.is_none(),
            ..SocketFacts::default()
        }
    }
}
