//! The connections to peers: two to each, dialled as long as they do not stand.

use crate::cluster::driver::Dial;
use crate::cluster::members::claims::NodeId;
use crate::cluster::members::names::{Address, Name};
use crate::cluster::peer::frame::{FrameKind, Lane};
use crate::cluster::peer::hello::{
    Called, Handshake, PROTOCOL_CLOCKS, PROTOCOL_HEALTH, PROTOCOL_LAST, PROTOCOL_PROOF,
    PROTOCOL_VERIFY, Refusal,
};
use crate::cluster::peer::verify::{Missed, VerifyNote};
use crate::cluster::raft::codec::{Entries, Outgoing};
use crate::cluster::timing::clocks::ClockNote;
use crate::limits::{
    PEER_AWAY_US, PEER_BACKOFF_US, PEER_CLOCK_QUEUE_BYTES_MAX, PEER_CONTROL_QUEUE_BYTES_MAX,
    PEER_DATA_QUEUE_BYTES_MAX, PEER_HANDSHAKE_US, PEER_STEADY_US,
};
use crate::server::cluster::connection::{Connection, Context, nonce};
use crate::server::cluster::peers::Meet;
use crate::server::cluster::poll::Ready;
use crate::server::cluster::poll::Wakeup;
use crate::server::cluster::refusals::ConnectionTrouble;
use crate::server::cluster::resolve::{Resolved, Resolver, literal};
use crate::server::cluster::socket::Socket;
use rustix::io::Errno;
use socket2::{Domain, Protocol, Type};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

pub struct Outbound {
    peers: Vec<DialedPeer>,
    resolver: Resolver,
}

struct DialedPeer {
    name: Name,
    /// Where it may be, at least one, and which of them is dialled: the next one when that leads to nothing.
    addresses: Vec<Address>,
    dialled: usize,
    /// Its id, where a member of that name is known.
    node: Option<u64>,
    /// When it was reached last it spoke a protocol by which a door proves first.
    is_old: bool,
    control: DialLink,
    data: DialLink,
    /// Where its host was found when it was last looked for, and how many of these were tried.
    places: Vec<SocketAddr>,
    tried: usize,
    /// The log knows it as away.
    is_said_away: bool,
    /// Since when it is not reached, µs of CLOCK_BOOTTIME.
    away_us: Option<u64>,
}

struct DialLink {
    lane: Lane,
    state: DialState,
    /// Since it was last connected.
    attempts: usize,
}

enum DialState {
    /// Nothing is done before then.
    Waiting(u64),
    /// The system is asked where the host is.
    Resolving,
    /// Since when.
    Greeting(Connection, u64),
    Open(OpenConnection),
}

struct OpenConnection {
    connection: Connection,
    node: u64,
    protocol: u16,
    since_us: u64,
    waiting: Option<Entries>,
}

impl DialLink {
    fn new(lane: Lane) -> DialLink {
        DialLink { lane, state: DialState::Waiting(0), attempts: 0 }
    }

    fn connection(&self) -> Option<&Connection> {
        match &self.state {
            DialState::Waiting(_) | DialState::Resolving => None,
            DialState::Greeting(connection, _) => Some(connection),
            DialState::Open(open) => Some(&open.connection),
        }
    }

    fn connection_mut(&mut self) -> Option<&mut Connection> {
        match &mut self.state {
            DialState::Waiting(_) | DialState::Resolving => None,
            DialState::Greeting(connection, _) => Some(connection),
            DialState::Open(open) => Some(&mut open.connection),
        }
    }

    fn open(&self) -> Option<&OpenConnection> {
        if let DialState::Open(open) = &self.state { Some(open) } else { None }
    }

    fn queue_bytes_max(&self) -> usize {
        match self.lane {
            Lane::Control => PEER_CONTROL_QUEUE_BYTES_MAX,
            Lane::Data | Lane::Base => PEER_DATA_QUEUE_BYTES_MAX,
        }
    }

    /// It is dialled again, at once if it was connected for long.
    fn end(&mut self, now_us: u64) {
        if self.open().is_some_and(|open| now_us >= open.since_us + PEER_STEADY_US) {
            self.attempts = 0;
        }
        let pause_us = PEER_BACKOFF_US[self.attempts.min(PEER_BACKOFF_US.len() - 1)];
        self.attempts += 1;
        self.state = DialState::Waiting(now_us + pause_us);
    }
}

impl Outbound {
    /// A dialer without peers. `wakeup` is signalled when a host was resolved.
    pub fn new(wakeup: Arc<Wakeup>) -> Outbound {
        Outbound { peers: Vec::new(), resolver: Resolver::new(wakeup) }
    }

    /// The nodes to keep connections to. Existing connections stay, if they lead to the same node.
    pub fn set_peers(&mut self, cx: &mut Context, list: Vec<Dial>) {
        let list: Vec<_> = list.into_iter().filter(|dial| dial.name != cx.own.name).collect();
        for peer in &mut self.peers {
            let listed = list.iter().find(|dial| dial.name == peer.name);
            let stays = listed.is_some_and(|dial| {
                let is_other =
                    |open: &OpenConnection| dial.node.is_some_and(|node| node != open.node);
                dial.addresses.contains(peer.address())
                    && !peer.control.open().is_some_and(is_other)
            });
            if !stays {
                peer.end(cx, Lane::Control, &ConnectionTrouble::Changed);
            }
        }
        self.peers.retain(|peer| list.iter().any(|dial| dial.name == peer.name));
        for dial in list {
            match self.peers.iter_mut().find(|peer| peer.name == dial.name) {
                Some(peer) => peer.is_to_be_at(dial),
                None => self.peers.push(DialedPeer::new(dial)),
            }
        }
    }

    /// The poller's events for a connection; false if it is not one of these.
    pub fn note(&mut self, ready: Ready) -> bool {
        let mut links = self.peers.iter_mut().flat_map(DialedPeer::links_mut);
        let connection = links.find_map(|link| {
            link.connection_mut().filter(|connection| connection.token() == ready.token)
        });
        connection.map(|connection| connection.note(ready)).is_some()
    }

    /// A peer has called: it is there.
    pub fn nudge(&mut self, cx: &Context, name: &Name) {
        if let Some(peer) = self.peers.iter_mut().find(|peer| peer.name == *name)
            && matches!(peer.control.state, DialState::Waiting(_))
        {
            peer.control.state = DialState::Waiting(cx.now_us);
        }
    }

    /// Dials, goes on with handshakes, finds out what has ended.
    pub fn work(&mut self, cx: &mut Context, meet: Meet<'_>) {
        for found in self.resolver.take() {
            self.found(cx, found);
        }
        for peer in &mut self.peers {
            for lane in [Lane::Control, Lane::Data] {
                if let Err(trouble) = peer.work(cx, lane, &self.resolver, meet) {
                    peer.end(cx, lane, &trouble);
                }
            }
        }
    }

    fn found(&mut self, cx: &mut Context, (name, places): Resolved) {
        let peer = self.peers.iter_mut().find(|peer| peer.name == name);
        let Some(peer) = peer.filter(|peer| matches!(peer.control.state, DialState::Resolving))
        else {
            return;
        };
        let dialled = places.map_err(ConnectionTrouble::from).and_then(|places| {
            peer.places = places;
            peer.dial(cx, Lane::Control)
        });
        if let Err(trouble) = dialled {
            peer.end(cx, Lane::Control, &trouble);
        }
    }

    /// Queues a message. Messages that cannot be sent are dropped: Raft sends what it needs again.
    pub fn send(&mut self, cx: &mut Context, message: Outgoing) {
        let (to, lane) = (message.to, message.lane);
        let is_for = |peer: &&mut DialedPeer| {
            lane != Lane::Base && peer.link(lane).open().is_some_and(|open| open.node == to)
        };
        let Some(peer) = self.peers.iter_mut().find(is_for) else {
            if lane == Lane::Data {
                cx.lose(to);
            }
            return;
        };
        let link = peer.link_mut(lane);
        let bytes_max = link.queue_bytes_max();
        let DialState::Open(open) = &mut link.state else { unreachable!("it is open") };
        let behind = open.connection.bytes_behind_first();
        if behind > bytes_max {
            return peer.end(cx, lane, &ConnectionTrouble::Full(behind));
        }
        let entries = message.entries();
        if open.connection.queued_bytes() == 0 {
            open.waiting = None;
        }
        // To a peer whose progress it has to find out Raft sends the same entries with each heartbeat, until it has
        // answered. With large ones the second would be in the queue before the first has left.
        if entries.is_some_and(|new| open.waiting.is_some_and(|waiting| waiting.has(&new))) {
            return;
        }
        if let Some(new) = entries {
            open.waiting = Some(open.waiting.map_or(new, |waiting| waiting.and(new)));
        }
        open.connection.push(FrameKind::Message, &message.head, &message.bodies);
    }

    /// Queues this node's clock note for each peer that understands it. See
    /// [`PEER_CLOCK_QUEUE_BYTES_MAX`].
    pub fn send_clocks(&mut self, note: impl Fn(u64) -> Option<ClockNote>) {
        for peer in &mut self.peers {
            let DialState::Open(open) = &mut peer.control.state else { continue };
            if open.protocol >= PROTOCOL_CLOCKS
                && open.connection.queued_bytes() <= PEER_CLOCK_QUEUE_BYTES_MAX
                && let Some(mut note) = note(open.node)
            {
                note.health = note.health.filter(|_| open.protocol >= PROTOCOL_HEALTH);
                note.last = note.last.filter(|_| open.protocol >= PROTOCOL_LAST);
                open.connection.push(FrameKind::Clock, &note.encode(), &[]);
            }
        }
    }

    /// Queues a question or an answer for that node, whether all hold the same; why not, if it will not come.
    pub fn send_verify(&mut self, to: u64, note: VerifyNote) -> Result<(), Missed> {
        let open = self.peers.iter_mut().filter_map(|peer| match &mut peer.control.state {
            DialState::Open(open) => Some(open),
            _ => None,
        });
        let open = open.into_iter().find(|open| open.node == to).ok_or(Missed::Gone)?;
        if open.protocol < PROTOCOL_VERIFY {
            return Err(Missed::Old);
        }
        open.connection.push(FrameKind::Verify, &note.encode(), &[]);
        Ok(())
    }

    /// Whether one of them is so old that it cannot require proof from the caller first. It has proved itself by then:
    /// an old called node does.
    pub fn has_old(&self) -> bool {
        self.peers.iter().any(|peer| peer.is_old)
    }

    /// Where the node is that is connected under this id, and its name.
    pub fn place_of(&self, node: u64) -> Option<(Name, SocketAddr)> {
        let peer = self
            .peers
            .iter()
            .find(|peer| peer.control.open().is_some_and(|open| open.node == node))?;
        Some((peer.name.clone(), peer.control.connection()?.place().ok()?))
    }

    /// Writes: what must not wait first, then of entries what does not take long.
    pub fn flush(&mut self, cx: &mut Context) {
        for lane in [Lane::Control, Lane::Data] {
            for peer in &mut self.peers {
                let written =
                    peer.link_mut(lane).connection_mut().map_or(Ok(()), Connection::write);
                if let Err(error) = written {
                    peer.end(cx, lane, &error.into());
                }
            }
        }
    }

    /// Whether there is something to do at once.
    pub fn has_more(&self) -> bool {
        let connections =
            self.peers.iter().flat_map(DialedPeer::links).filter_map(DialLink::connection);
        connections.into_iter().any(|one| one.is_readable() || one.wants_to_write())
    }

    /// When there is something to do at the latest, µs of CLOCK_BOOTTIME.
    pub fn deadline_us(&self) -> Option<u64> {
        let due = |peer: &DialedPeer, link: &DialLink| match link.state {
            DialState::Waiting(_) if !peer.may_dial(link.lane) => None,
            DialState::Waiting(until_us) => Some(until_us),
            DialState::Greeting(_, since_us) => Some(since_us + PEER_HANDSHAKE_US),
            DialState::Resolving | DialState::Open(_) => None,
        };
        self.peers.iter().flat_map(|peer| peer.links().filter_map(|link| due(peer, link))).min()
    }
}

impl DialedPeer {
    fn new(dial: Dial) -> DialedPeer {
        let Dial { node, name, addresses } = dial;
        DialedPeer {
            name,
            addresses,
            dialled: 0,
            node,
            is_old: false,
            control: DialLink::new(Lane::Control),
            data: DialLink::new(Lane::Data),
            places: Vec::new(),
            tried: 0,
            is_said_away: true,
            away_us: None,
        }
    }

    fn address(&self) -> &Address {
        &self.addresses[self.dialled % self.addresses.len()]
    }

    /// An established connection leads to one of these.
    fn is_to_be_at(&mut self, dial: Dial) {
        let current = dial.addresses.iter().position(|address| address == self.address());
        (self.node, self.addresses) = (dial.node, dial.addresses);
        self.dialled = current.unwrap_or(0);
    }

    fn links(&self) -> impl Iterator<Item = &DialLink> {
        [&self.control, &self.data].into_iter()
    }

    fn links_mut(&mut self) -> impl Iterator<Item = &mut DialLink> {
        [&mut self.control, &mut self.data].into_iter()
    }

    fn link(&self, lane: Lane) -> &DialLink {
        if lane == Lane::Control { &self.control } else { &self.data }
    }

    fn link_mut(&mut self, lane: Lane) -> &mut DialLink {
        if lane == Lane::Control { &mut self.control } else { &mut self.data }
    }

    /// Entries are of use only where heartbeats get through.
    fn may_dial(&self, lane: Lane) -> bool {
        lane == Lane::Control || self.control.open().is_some()
    }

    fn work(
        &mut self,
        cx: &mut Context,
        lane: Lane,
        resolver: &Resolver,
        meet: Meet<'_>,
    ) -> Result<(), ConnectionTrouble> {
        match self.link(lane).state {
            DialState::Waiting(until_us) if cx.now_us >= until_us && self.may_dial(lane) => {
                if lane == Lane::Control && !self.locate(resolver)? {
                    self.control.state = DialState::Resolving;
                    return Ok(());
                }
                self.dial(cx, lane)
            }
            DialState::Waiting(_) | DialState::Resolving => Ok(()),
            DialState::Greeting(_, since_us) if cx.now_us >= since_us + PEER_HANDSHAKE_US => {
                Err(ConnectionTrouble::Late)
            }
            DialState::Greeting(..) | DialState::Open(_) => self.read(cx, lane, meet),
        }
    }

    /// Whether it is known where the peer is; if not it is being looked for.
    fn locate(&mut self, resolver: &Resolver) -> io::Result<bool> {
        if let Some(place) = literal(self.address()) {
            self.places = vec![place];
            return Ok(true);
        }
        // Each time: where names change, they do so while a node is away.
        resolver.begin(self.name.clone(), self.address())?;
        Ok(false)
    }

    fn dial(&mut self, cx: &mut Context, lane: Lane) -> Result<(), ConnectionTrouble> {
        if lane == Lane::Control {
            self.tried += 1;
        }
        let count = self.places.len().max(1);
        let place = self.places.get(self.tried % count).copied();
        let place = place.ok_or_else(|| io::Error::other("its host has no address"))?;
        let stream = connect(place)?;
        if lane == Lane::Control {
            socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(cx.acknowledged_within))?;
        }
        let called = Called { name: self.name.clone(), node: self.node.map(NodeId) };
        let mut out = Vec::new();
        let (own, secret) = (cx.own.clone(), cx.secret.clone());
        let handshake = Handshake::call(own, secret, nonce(), called, lane, &mut out);
        let socket = Socket::dialled(&cx.tls, stream)?;
        let connection = Connection::new(cx, socket, handshake, out)?;
        self.link_mut(lane).state = DialState::Greeting(connection, cx.now_us);
        Ok(())
    }

    fn read(
        &mut self,
        cx: &mut Context,
        lane: Lane,
        meet: Meet<'_>,
    ) -> Result<(), ConnectionTrouble> {
        let link = self.link_mut(lane);
        while let Some(connection) = link.connection_mut().filter(|one| one.is_readable()) {
            if connection.read(cx)? == 0 {
                break;
            }
            let Some(peer) = connection.shake()? else { continue };
            meet(&peer.claims)?;
            // After that only a refusal can follow.
            let now = DialState::Waiting(0);
            let DialState::Greeting(connection, _) = std::mem::replace(&mut link.state, now) else {
                unreachable!("a handshake ends once");
            };
            let (node, protocol, since_us) = (peer.claims.node.0, peer.protocol, cx.now_us);
            cx.news.parted.retain(|other| *other != node);
            self.is_old = protocol < PROTOCOL_PROOF;
            let link = self.link_mut(lane);
            link.state = DialState::Open(OpenConnection {
                connection,
                node,
                protocol,
                since_us,
                waiting: None,
            });
            if lane == Lane::Control {
                self.data.state = DialState::Waiting(cx.now_us);
                self.away_us = None;
                if std::mem::take(&mut self.is_said_away) {
                    tracing::info!(peer = %self.name, address = %self.address(), "peer connected");
                }
            }
            return Ok(());
        }
        Ok(())
    }

    /// The link has ended, or never existed. With control the data connection ends: it leads to the same process.
    fn end(&mut self, cx: &mut Context, lane: Lane, trouble: &ConnectionTrouble) {
        let was_open = self.link(lane).open().map(|open| open.node);
        self.link_mut(lane).end(cx.now_us);
        if let Some(node) = was_open {
            cx.lose(node);
        }
        if lane == Lane::Control {
            self.away_us.get_or_insert(cx.now_us);
        }
        let away_us = self.away_us.map_or(0, |since_us| cx.now_us - since_us);
        match trouble {
            ConnectionTrouble::Refused(Refusal::Told(text)) => {
                cx.news.refused.push((text.clone(), None))
            }
            ConnectionTrouble::Refused(left @ Refusal::Left { index }) => {
                cx.news.refused.push((left.to_string(), Some(*index)));
            }
            _ => {}
        }
        if cx.own.only_waits() && matches!(trouble, ConnectionTrouble::Refused(Refusal::Told(_))) {
            tracing::debug!(peer = %self.name, "{trouble}");
        } else if let Some(left_out) = cx.refusals.admit(cx.now_us, self.name.as_str(), trouble) {
            self.is_said_away |= lane == Lane::Control;
            let what = match was_open {
                Some(_) => "the connection to a peer has ended",
                None => "a peer cannot be reached",
            };
            let (peer, address) = (&self.name, self.address());
            // One that is stopped and started again is no reason to worry; one that does not come back is.
            if trouble.is_ordinary() && away_us < PEER_AWAY_US {
                tracing::info!(%peer, %address, ?lane, left_out, "{what}: {trouble}");
            } else {
                let away_s = away_us / 1_000_000;
                tracing::warn!(%peer, %address, ?lane, away_s, left_out, "{what}: {trouble}");
            }
        }
        if lane == Lane::Control && was_open.is_none() {
            self.dialled += 1;
        }
        if lane == Lane::Control && self.data.connection().is_some() {
            self.data.end(cx.now_us);
            self.data.attempts = 0;
        }
    }
}

fn connect(place: SocketAddr) -> io::Result<TcpStream> {
    let kind = Type::STREAM.nonblocking();
    let socket = socket2::Socket::new(Domain::for_address(place), kind, Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    match socket.connect(&place.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {}
        Err(error) => return Err(error),
    }
    Ok(socket.into())
}
