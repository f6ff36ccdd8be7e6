//! A calling node, or another caller.

use crate::cluster::members::names::Name;
use crate::cluster::peer::frame::{FrameBody, FrameError, FrameKind, Lane};
use crate::cluster::peer::hello::{Handshake, MetPeer, Refusal, Way};
use crate::cluster::peer::verify::VerifyNote;
use crate::cluster::raft::codec::Head;
use crate::cluster::timing::clocks::ClockNote;
use crate::limits::{PEER_JOIN_BYTES, PEER_KEEPALIVE_PROBES, PEER_KEEPALIVE_S};
use crate::server::cluster::connection::{Connection, Context, nonce};
use crate::server::cluster::peers::Incoming;
use crate::server::cluster::refusals::ConnectionTrouble;
use crate::server::cluster::socket::Socket;
use bytes::Bytes;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;

pub struct Inbound {
    pub connection: Connection,
    pub address: IpAddr,
    pub since_us: u64,
    /// It has sent its claims, but not proved them yet.
    pub has_asked: bool,
    pub known: Option<Known>,
    joining: Option<Joining>,
}

/// A caller that has proved its identity.
#[derive(Clone)]
pub struct Known {
    pub name: Name,
    pub node: u64,
    pub lane: Lane,
}

/// A message whose large body another thread assembles: that takes some 0.6 ms a MiB, and no heartbeat should wait for
/// it. Later messages on the same connection do.
struct Joining {
    head: Head,
    bodies: Receiver<Result<Vec<Bytes>, ConnectionTrouble>>,
}

impl Inbound {
    /// Takes a connection that was accepted.
    pub fn new(cx: &mut Context, stream: TcpStream, address: IpAddr) -> io::Result<Inbound> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        // A machine that vanished sends no sign.
        let probes = TcpKeepalive::new()
            .with_time(Duration::from_secs(PEER_KEEPALIVE_S))
            .with_interval(Duration::from_secs(PEER_KEEPALIVE_S / 3))
            .with_retries(PEER_KEEPALIVE_PROBES);
        SockRef::from(&stream).set_tcp_keepalive(&probes)?;
        let way = Way { tls: cx.tls.keys().is_some(), has_old: cx.has_old };
        let handshake = Handshake::door(cx.own.clone(), cx.secret.clone(), nonce(), way);
        let socket = Socket::accepted(&cx.tls, stream)?;
        let connection = Connection::new(cx, socket, handshake, Vec::new())?;
        Ok(Inbound {
            connection,
            address,
            since_us: cx.now_us,
            has_asked: false,
            known: None,
            joining: None,
        })
    }

    /// The kind of connection, once its peer is known.
    pub fn lane(&self) -> Option<Lane> {
        self.known.as_ref().map(|known| known.lane)
    }

    /// Whether nothing at all has come.
    pub fn is_silent(&self) -> bool {
        self.connection.is_silent()
    }

    pub fn is_readable(&self) -> bool {
        self.joining.is_none() && self.connection.is_readable()
    }

    /// Whether to read from it, or to look whether what was read is whole.
    pub fn may_have_more(&self) -> bool {
        self.joining.is_some() || self.connection.is_readable()
    }

    /// Goes on with the handshake.
    pub fn shake(&mut self) -> Result<Option<MetPeer>, ConnectionTrouble> {
        let peer = self.connection.shake()?;
        self.has_asked |= self.connection.queued_bytes() > 0;
        self.connection.write()?;
        Ok(peer)
    }

    /// Takes the messages that have arrived, up to one that is being joined.
    pub fn take_messages(&mut self, cx: &mut Context) -> Result<(), ConnectionTrouble> {
        while self.known.is_some() && self.joining.is_none() {
            let Some(frame) = self.connection.inbox().next_frame()? else { break };
            if frame.kind == FrameKind::Clock {
                let note = ClockNote::decode(&frame.head).ok_or(FrameError::Reserved)?;
                let node = self.known.as_ref().map(|known| known.node);
                cx.news.clocks.extend(node.map(|node| (node, note)));
                continue;
            }
            if frame.kind == FrameKind::Verify {
                let note = VerifyNote::decode(&frame.head).ok_or(FrameError::Reserved)?;
                let node = self.known.as_ref().map(|known| known.node);
                cx.news.verify.extend(node.map(|node| (node, note)));
                continue;
            }
            if frame.kind == FrameKind::Refused {
                return Err(Refusal::told(&frame.head).into());
            }
            if frame.kind != FrameKind::Message {
                return Err(FrameError::Place(frame.kind).into());
            }
            let head = Head::read(&frame.head)?;
            if frame.body.bytes() > PEER_JOIN_BYTES {
                self.joining = Some(begin_to_join(cx, head, frame.body)?);
            } else {
                let bodies = bodies(&head, frame.body)?;
                self.take(cx, head, bodies);
            }
        }
        Ok(())
    }

    /// Takes the assembled message, and the ones after it.
    pub fn join(&mut self, cx: &mut Context) -> Result<(), ConnectionTrouble> {
        let Some(joining) = &self.joining else { return Ok(()) };
        let bodies = match joining.bodies.try_recv() {
            Err(TryRecvError::Empty) => return Ok(()),
            Ok(bodies) => bodies?,
            // It panicked, which has been logged.
            Err(TryRecvError::Disconnected) => return Err(io::Error::other("a bug").into()),
        };
        if let Some(Joining { head, .. }) = self.joining.take() {
            self.take(cx, head, bodies);
        }
        self.take_messages(cx)
    }

    fn take(&self, cx: &mut Context, head: Head, bodies: Vec<Bytes>) {
        if let Some(Known { node, .. }) = self.known {
            let token = self.connection.token();
            cx.incoming.push(Incoming { token, peer: node, head, bodies });
        }
    }
}

fn begin_to_join(cx: &Context, head: Head, body: FrameBody) -> io::Result<Joining> {
    let (sender, receiver) = sync_channel(1);
    let (of_thread, wakeup) = (head.clone(), Arc::clone(&cx.wakeup));
    std::thread::Builder::new().name("delayd-join".to_owned()).spawn(move || {
        // Dropped if the connection has ended meanwhile.
        let _ = sender.send(bodies(&of_thread, body));
        wakeup.wake();
    })?;
    Ok(Joining { head, bodies: receiver })
}

fn bodies(head: &Head, mut body: FrameBody) -> Result<Vec<Bytes>, ConnectionTrouble> {
    let bodies = head.bodies().map(|bytes| body.take(bytes)).collect::<Result<_, _>>()?;
    match body.bytes() {
        0 => Ok(bodies),
        more => Err(ConnectionTrouble::Behind(more)),
    }
}
