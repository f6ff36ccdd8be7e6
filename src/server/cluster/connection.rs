//! One connection between two nodes. Messages go one way, from the dialling side to the called one.

use crate::cluster::members::claims::Claims;
use crate::cluster::peer::frame::{FrameKind, Inbox, encode_sealed};
use crate::cluster::peer::hello::{Handshake, MetPeer, Nonce, PROTOCOL_LEFT, Refusal, Secret};
use crate::cluster::peer::seal::Sealer;
use crate::limits::{
    PEER_ACKNOWLEDGED_ELECTIONS, PEER_BYTES_AT_ONCE, PEER_READ_BYTES, REFUSAL_BYTES_MAX,
};
use crate::server::cluster::bases::Bases;
use crate::server::cluster::peer_tls::PeerTls;
use crate::server::cluster::peers::{Incoming, PeerNews};
use crate::server::cluster::poll::Wakeup;
use crate::server::cluster::poll::{Poller, Ready};
use crate::server::cluster::queue::SendQueue;
use crate::server::cluster::refusals::{ConnectionTrouble, Refusals};
use crate::server::cluster::socket::Socket;
use bytes::Bytes;
use rustix::rand::{GetRandomFlags, getrandom};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub struct Context {
    pub poller: Poller,
    /// This node's claims.
    pub own: Claims,
    pub secret: Secret,
    /// A member that has proved itself speaks an older protocol than the caller's proof needs.
    pub has_old: bool,
    pub tls: PeerTls,
    /// CLOCK_BOOTTIME, µs, as of this wake-up.
    pub now_us: u64,
    pub refusals: Refusals,
    /// Messages that have come, in order for each connection.
    pub incoming: Vec<Incoming>,
    /// The nodes whose messages in flight are lost.
    pub lost: Vec<u64>,
    pub news: PeerNews,
    /// Through which bases come and go; nothing where there is no journal.
    pub bases: Option<Arc<Bases>>,
    /// Wakes the thread that has all this.
    pub wakeup: Arc<Wakeup>,
    /// After this long without an acknowledgement a control connection has ended.
    pub acknowledged_within: Duration,
    scratch: Box<[u8]>,
    next_token: u64,
}

/// Below are the tokens of what is no connection.
const FIRST_TOKEN: u64 = 1 << 16;

impl Context {
    /// For a node that says `own` of itself.
    pub fn new(
        own: Claims,
        secret: Secret,
        election_us: u64,
        wakeup: Arc<Wakeup>,
    ) -> io::Result<Context> {
        Ok(Context {
            poller: Poller::new()?,
            own,
            secret,
            has_old: false,
            tls: PeerTls::default(),
            now_us: 0,
            refusals: Refusals::default(),
            incoming: Vec::new(),
            lost: Vec::new(),
            news: PeerNews::default(),
            bases: None,
            wakeup,
            acknowledged_within: Duration::from_micros(PEER_ACKNOWLEDGED_ELECTIONS * election_us),
            scratch: vec![0; PEER_READ_BYTES].into_boxed_slice(),
            next_token: FIRST_TOKEN,
        })
    }

    /// A token that nothing else ever has.
    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    /// Data sent to a node that has not arrived never will.
    pub fn lose(&mut self, node: u64) {
        if !self.lost.contains(&node) {
            self.lost.push(node);
        }
    }
}

/// The rest of a connection that another thread continues.
pub struct Parts {
    pub socket: Socket,
    /// Received data that was not taken.
    pub inbox: Inbox,
    pub sealer: Option<Sealer>,
    pub unsent: Vec<u8>,
}

#[derive(Debug)]
pub struct Connection {
    token: u64,
    socket: Socket,
    handshake: Handshake,
    inbox: Inbox,
    /// Seals what is sent after the handshake.
    sealer: Option<Sealer>,
    /// The peer's, once it is known.
    protocol: u16,
    queue: SendQueue,
    is_readable: bool,
    is_writable: bool,
    /// Nothing follows the readable data.
    is_over: bool,
    /// Nothing has come.
    is_silent: bool,
}

impl Connection {
    /// Takes a socket that does not block. `out` is written as soon as there is room.
    pub fn new(
        cx: &mut Context,
        socket: Socket,
        handshake: Handshake,
        out: Vec<u8>,
    ) -> io::Result<Connection> {
        let token = cx.token();
        cx.poller.watch_changes(&socket, token)?;
        let mut queue = SendQueue::default();
        queue.push([Bytes::from(out)]);
        Ok(Connection {
            token,
            socket,
            handshake,
            inbox: Inbox::new(),
            sealer: None,
            protocol: 0,
            queue,
            is_readable: false,
            is_writable: false,
            is_over: false,
            is_silent: true,
        })
    }

    /// As it is watched.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// The poller's events.
    pub fn note(&mut self, ready: Ready) {
        self.is_readable |= ready.is_readable;
        self.is_writable |= ready.is_writable;
        self.is_over |= ready.is_over;
    }

    /// Whether something may be there that was not read.
    pub fn is_readable(&self) -> bool {
        self.is_readable
    }

    /// Whether something waits for which there may be room.
    pub fn wants_to_write(&self) -> bool {
        self.is_writable && (self.socket.holds() || self.socket.takes() && !self.queue.is_empty())
    }

    /// Whether nothing at all has come over it.
    pub fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// Where the other node is.
    pub fn place(&self) -> io::Result<SocketAddr> {
        self.socket.tcp().peer_addr()
    }

    /// The socket and what belongs to it; it is not watched any more.
    pub fn into_parts(mut self, cx: &Context) -> io::Result<Parts> {
        cx.poller.forget(&self.socket)?;
        let unsent = self.queue.take();
        Ok(Parts { socket: self.socket, inbox: self.inbox, sealer: self.sealer, unsent })
    }

    /// Bytes that wait to be written.
    pub fn queued_bytes(&self) -> usize {
        self.queue.bytes()
    }

    /// Those of them after the message that is being written.
    pub fn bytes_behind_first(&self) -> usize {
        self.queue.bytes_behind_first()
    }

    /// The received data.
    pub fn inbox(&mut self) -> &mut Inbox {
        &mut self.inbox
    }

    /// Reads once; how many bytes that brought.
    ///
    /// # Errors
    /// It has ended.
    pub fn read(&mut self, cx: &mut Context) -> io::Result<usize> {
        match self.socket.read(&mut cx.scratch) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => {
                // Fewer than there was space for: that was all, unless the end of the connection is
                // sought.
                let was_all = bytes < cx.scratch.len() && !self.socket.may_have_more();
                self.is_readable = !was_all || self.is_over;
                self.is_silent = false;
                self.inbox.receive(&cx.scratch[..bytes]);
                Ok(bytes)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.is_readable = false;
                Ok(0)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(0),
            Err(error) => {
                // Something came that cannot be decrypted.
                self.is_silent &= error.kind() != ErrorKind::InvalidData;
                Err(error)
            }
        }
    }

    /// Goes on with the handshake; the peer, once it is known.
    ///
    /// # Errors
    /// It is refused, and has been told the reason.
    pub fn shake(&mut self) -> Result<Option<MetPeer>, Refusal> {
        let mut out = Vec::new();
        let shaken = self.handshake.advance(&mut self.inbox, &mut out);
        self.queue.push([Bytes::from(out)]);
        match &shaken {
            Ok(Some(peer)) => {
                self.protocol = peer.protocol;
                self.sealer = self.handshake.sealer();
            }
            Ok(None) => {}
            Err(_) => drop(self.write()),
        }
        shaken
    }

    /// Tells a caller why it is refused after its handshake.
    pub fn refuse(&mut self, trouble: &ConnectionTrouble) {
        let text = trouble.to_string();
        let text = &text.as_bytes()[..text.len().min(REFUSAL_BYTES_MAX)];
        if let ConnectionTrouble::Conflict(conflict) = trouble
            && let Some(index) = conflict.left_by()
            && self.protocol >= PROTOCOL_LEFT
        {
            self.push(FrameKind::Left, &index.to_le_bytes(), &[]);
        }
        self.push(FrameKind::Refused, text, &[]);
        let _ = self.write();
    }

    /// Appends a message.
    pub fn push(&mut self, kind: FrameKind, head: &[u8], bodies: &[Bytes]) {
        self.queue.push(encode_sealed(kind, head, bodies, &mut self.sealer));
    }

    /// Writes what there is room for, up to [`PEER_BYTES_AT_ONCE`].
    pub fn write(&mut self) -> io::Result<()> {
        if self.is_writable && self.socket.holds() {
            match self.socket.flush() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_writable = false,
                other => other?,
            }
        }
        if self.wants_to_write() {
            self.is_writable = self.queue.write(&mut self.socket, PEER_BYTES_AT_ONCE)?;
        }
        Ok(())
    }
}

pub fn nonce() -> Nonce {
    let (mut nonce, mut filled) = (Nonce::default(), 0);
    while filled < nonce.len() {
        // It fails only where a signal comes in between.
        filled += getrandom(&mut nonce[filled..], GetRandomFlags::empty()).unwrap_or(0);
    }
    nonce
}
