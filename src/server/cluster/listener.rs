//! The peers' port: callers, and messages of accepted peers.

use crate::cluster::members::formation::Conflict;
use crate::cluster::peer::frame::Lane;
use crate::cluster::peer::hello::MetPeer;
use crate::limits::{
    PEER_ACCEPT_PAUSE_US, PEER_ACCEPTS_AT_ONCE, PEER_BYTES_AT_ONCE, PEER_HANDSHAKE_US,
    PEER_HANDSHAKES_MAX,
};
use crate::server::cluster::connection::Context;
use crate::server::cluster::inbound::{Inbound, Known};
use crate::server::cluster::outbound::Outbound;
use crate::server::cluster::peers::Meet;
use crate::server::cluster::poll::Ready;
use crate::server::cluster::refusals::ConnectionTrouble;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::sync::Arc;

/// Below is the token of the wake-up.
const FIRST_TOKEN: u64 = 16;

pub struct PeerListener {
    listeners: Vec<TcpListener>,
    /// A caller is waiting.
    is_called: bool,
    /// The system had no descriptor: no caller is accepted before then.
    closed_until_us: Option<u64>,
    /// By their tokens: oldest first.
    callers: BTreeMap<u64, Inbound>,
}

impl PeerListener {
    /// Opens it; the listeners do not block.
    pub fn open(cx: &Context, listeners: Vec<TcpListener>) -> io::Result<PeerListener> {
        for (token, listener) in (FIRST_TOKEN..).zip(&listeners) {
            listener.set_nonblocking(true)?;
            cx.poller.watch_level(listener, token)?;
        }
        let callers = BTreeMap::new();
        Ok(PeerListener { listeners, is_called: false, closed_until_us: None, callers })
    }

    /// The poller's event; false if it does not belong here.
    pub fn note(&mut self, ready: Ready) -> bool {
        let is_listener = (FIRST_TOKEN..).zip(&self.listeners).any(|(one, _)| one == ready.token);
        self.is_called |= is_listener;
        let caller = self.callers.get_mut(&ready.token);
        is_listener || caller.map(|caller| caller.connection.note(ready)).is_some()
    }

    /// Lets callers in and takes what they say; of entries nothing while `is_full`.
    pub fn work(
        &mut self,
        cx: &mut Context,
        outbound: &mut Outbound,
        is_full: bool,
        meet: Meet<'_>,
    ) {
        if self.closed_until_us.is_some_and(|until_us| cx.now_us >= until_us) {
            self.set_open(cx, true);
        }
        if std::mem::take(&mut self.is_called) && self.closed_until_us.is_none() {
            self.accept(cx);
        }
        self.write(cx);
        // Heartbeats first; unknown callers last.
        for lane in [Some(Lane::Control), Some(Lane::Data), None] {
            if !(is_full && lane == Some(Lane::Data)) {
                self.read(cx, outbound, lane, meet);
            }
        }
        let is_late = |caller: &Inbound| cx.now_us >= caller.since_us + PEER_HANDSHAKE_US;
        let late = self.strangers().filter(|(_, caller)| is_late(caller));
        let late: Vec<u64> = late.map(|(token, _)| token).collect();
        late.into_iter().for_each(|token| self.end(cx, token, ConnectionTrouble::Late));
    }

    /// Whether the node has a control connection to this one.
    fn has_control(&self, node: u64) -> bool {
        let mut known = self.callers.values().filter_map(|caller| caller.known.as_ref());
        known.any(|known| known.node == node && known.lane == Lane::Control)
    }

    /// Ends a connection over which something came that no peer says.
    pub fn end(&mut self, cx: &mut Context, token: u64, trouble: ConnectionTrouble) {
        let Some(caller) = self.callers.remove(&token) else { return };
        // A data connection is accepted after the control connection has ended, if it was being opened when the node went.
        if let Some(Known { node, lane, .. }) = caller.known
            && !matches!(trouble, ConnectionTrouble::Replaced(_))
            && (lane == Lane::Control || !self.has_control(node))
        {
            cx.news.parted.push(node);
        }
        // Probes that only check whether the port is open come every second.
        if caller.is_silent()
            && matches!(trouble, ConnectionTrouble::Closed | ConnectionTrouble::Io(_))
        {
            return tracing::debug!(address = %caller.address, "a caller sent nothing");
        }
        if trouble.is_of_waiting() {
            return tracing::debug!(address = %caller.address, "{trouble}");
        }
        let address = caller.address.to_string();
        let Some(left_out) = cx.refusals.admit(cx.now_us, &address, &trouble) else { return };
        match caller.known {
            Some(Known { name, lane, .. }) if trouble.is_ordinary() => {
                tracing::info!(%address, peer = %name, ?lane, left_out, "a peer's connection has ended: {trouble}");
            }
            Some(Known { name, lane, .. }) => {
                tracing::warn!(%address, peer = %name, ?lane, left_out, "a peer's connection has ended: {trouble}");
            }
            None if trouble.is_ordinary() => {
                tracing::info!(%address, left_out, "a caller at the peers' port has disconnected: {trouble}");
            }
            None => {
                tracing::warn!(%address, left_out, "a caller at the peers' port is refused: {trouble}")
            }
        }
    }

    /// Ends what this node has opened.
    pub fn turn_away(&mut self, cx: &mut Context, node: u64, why: &Conflict) {
        let is_of =
            |caller: &Inbound| caller.known.as_ref().is_some_and(|known| known.node == node);
        let theirs = self.callers.iter().filter(|(_, caller)| is_of(caller));
        let theirs: Vec<u64> = theirs.map(|(token, _)| *token).collect();
        theirs.into_iter().for_each(|token| self.end(cx, token, why.clone().into()));
    }

    /// Whether there is something to do at once.
    pub fn has_more(&self, is_full: bool) -> bool {
        let mut callers = self.callers.values();
        callers.any(|caller| {
            let is_left = is_full && caller.lane() == Some(Lane::Data);
            !is_left && caller.is_readable() || caller.connection.wants_to_write()
        })
    }

    /// When there is something to do at the latest, µs of CLOCK_BOOTTIME.
    pub fn deadline_us(&self) -> Option<u64> {
        let first = self.strangers().map(|(_, caller)| caller.since_us + PEER_HANDSHAKE_US).min();
        first.into_iter().chain(self.closed_until_us).min()
    }

    fn strangers(&self) -> impl Iterator<Item = (u64, &Inbound)> {
        let all = self.callers.iter().map(|(token, caller)| (*token, caller));
        all.filter(|(_, caller)| caller.known.is_none())
    }

    fn set_open(&mut self, cx: &Context, is_open: bool) {
        self.closed_until_us = (!is_open).then_some(cx.now_us + PEER_ACCEPT_PAUSE_US);
        for (token, listener) in (FIRST_TOKEN..).zip(&self.listeners) {
            if let Err(error) = cx.poller.set_level(listener, token, is_open) {
                tracing::error!(%error, "the peers' port is not watched");
            }
        }
    }

    fn accept(&mut self, cx: &mut Context) {
        let mut accepted = Vec::new();
        for listener in &self.listeners {
            while accepted.len() < PEER_ACCEPTS_AT_ONCE {
                match listener.accept() {
                    Ok((stream, address)) => accepted.push((stream, address.ip())),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // It gave up before it was its turn.
                    Err(error) if is_passing(&error) => {}
                    Err(error) => {
                        tracing::warn!(%error, "accepting peers pauses for a second");
                        return self.set_open(cx, false);
                    }
                }
            }
        }
        for (stream, address) in accepted {
            self.make_room(cx);
            match Inbound::new(cx, stream, address) {
                Ok(caller) => drop(self.callers.insert(caller.connection.token(), caller)),
                Err(error) => tracing::debug!(%error, %address, "a caller has disconnected"),
            }
        }
    }

    /// One more may come: if there are too many, one that has said nothing makes room, the oldest.
    fn make_room(&mut self, cx: &mut Context) {
        if self.strangers().count() < PEER_HANDSHAKES_MAX {
            return;
        }
        let ended = self.strangers().min_by_key(|(token, caller)| (caller.has_asked, *token));
        if let Some((token, _)) = ended {
            self.end(cx, token, ConnectionTrouble::Crowd);
        }
    }

    /// The rest of a handshake that did not fit.
    fn write(&mut self, cx: &mut Context) {
        let callers = self.callers.iter_mut();
        let mut callers = callers.filter(|(_, caller)| caller.connection.wants_to_write());
        let failed = callers.find_map(|(token, caller)| {
            let error = caller.connection.write().err()?;
            Some((*token, error))
        });
        if let Some((token, error)) = failed {
            // The others have their turn in the next wake-up, which is at once.
            self.end(cx, token, error.into());
        }
    }

    fn read(
        &mut self,
        cx: &mut Context,
        outbound: &mut Outbound,
        lane: Option<Lane>,
        meet: Meet<'_>,
    ) {
        let tokens = self.callers.iter();
        let tokens = tokens.filter(|(_, caller)| caller.lane() == lane && caller.may_have_more());
        let tokens: Vec<u64> = tokens.map(|(token, _)| *token).collect();
        for token in tokens {
            if let Err(trouble) = self.read_one(cx, outbound, token, meet) {
                self.end(cx, token, trouble);
            }
        }
    }

    fn read_one(
        &mut self,
        cx: &mut Context,
        outbound: &mut Outbound,
        token: u64,
        meet: Meet<'_>,
    ) -> Result<(), ConnectionTrouble> {
        let mut taken = 0;
        while taken < PEER_BYTES_AT_ONCE {
            let Some(caller) = self.callers.get_mut(&token) else { return Ok(()) };
            caller.join(cx)?;
            if !caller.is_readable() {
                break;
            }
            let bytes = caller.connection.read(cx)?;
            if bytes == 0 {
                break;
            }
            taken += bytes;
            if caller.known.is_none() {
                let peer = caller.shake()?;
                if let Some(peer) = peer {
                    self.admit(cx, outbound, token, peer, meet)?;
                }
            }
            let caller = self.callers.get_mut(&token);
            caller.map_or(Ok(()), |caller| caller.take_messages(cx))?;
        }
        Ok(())
    }

    /// A caller that has proved its identity may still be refused; and may have one connection of each kind.
    fn admit(
        &mut self,
        cx: &mut Context,
        outbound: &mut Outbound,
        token: u64,
        peer: MetPeer,
        meet: Meet<'_>,
    ) -> Result<(), ConnectionTrouble> {
        let trouble = match meet(&peer.claims) {
            Err(conflict) => Some(conflict.into()),
            Ok(()) => {
                (peer.lane == Lane::Base && cx.bases.is_none()).then_some(ConnectionTrouble::Base)
            }
        };
        let (name, node, lane) = (peer.claims.name, peer.claims.node.0, peer.lane);
        let is_earlier = |known: &Known| known.name == name && known.lane == lane;
        let mut callers = self.callers.iter();
        let earlier = callers.find(|(_, caller)| caller.known.as_ref().is_some_and(is_earlier));
        let earlier = earlier.map(|(token, _)| *token);
        let caller = self.callers.get_mut(&token).expect("it has just been read");
        if let Some(trouble) = trouble {
            caller.connection.refuse(&trouble);
            return Err(trouble);
        }
        if let (Lane::Base, Some(bases)) = (lane, &cx.bases) {
            let bases = Arc::clone(bases);
            let caller = self.callers.remove(&token).expect("it was just there");
            let parts = caller.connection.into_parts(cx)?;
            return Ok(bases.receive(parts, node, name.as_str())?);
        }
        caller.known = Some(Known { name: name.clone(), node, lane });
        cx.news.parted.retain(|other| *other != node);
        if let Some(earlier) = earlier {
            self.end(cx, earlier, ConnectionTrouble::Replaced(name.clone()));
        }
        if lane == Lane::Control {
            outbound.nudge(cx, &name);
        }
        Ok(())
    }
}

/// Events of an accepted connection, not of the listener.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}
