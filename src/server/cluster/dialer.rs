//! The connections to peers: two to each, dialled as long as they do not stand.

use crate::cluster::claims::NodeId;
use crate::cluster::clocks::ClockNote;
use crate::cluster::codec::{Entries, Outgoing};
use crate::cluster::driver::Dial;
use crate::cluster::frame::{Kind, Lane};
use crate::cluster::hello::{
    Called, Handshake, PROTOCOL_CLOCKS, PROTOCOL_HEALTH, PROTOCOL_PROOF, PROTOCOL_VERIFY, Refusal,
};
use crate::cluster::names::{Address, Name};
use crate::cluster::verify::{Missed, VerifyNote};
use crate::limits::{
    PEER_AWAY_US, PEER_BACKOFF_US, PEER_CLOCK_QUEUE_BYTES_MAX, PEER_CONTROL_QUEUE_BYTES_MAX,
    PEER_DATA_QUEUE_BYTES_MAX, PEER_HANDSHAKE_US, PEER_STEADY_US,
};
use crate::server::cluster::connection::{Connection, Context, nonce};
use crate::server::cluster::peers::Meet;
use crate::server::cluster::poll::Ready;
use crate::server::cluster::refusals::Trouble;
use crate::server::cluster::resolve::{Found, Resolver, literal};
use crate::server::cluster::socket::Socket;
use crate::server::cluster::wakeup::Wakeup;
use rustix::io::Errno;
use socket2::{Domain, Protocol, Type};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

/// See the module.
pub struct Dialer {
    peers: Vec<Peer>,
    resolver: Resolver,
}

struct Peer {
    name: Name,
    /// Where it may be, at least one, and which of them is dialled: the next one when that leads to nothing.
    addresses: Vec<Address>,
    dialled: usize,
    /// Its id, where a member of that name is known.
    node: Option<u64>,
    /// When it was reached last it spoke a protocol by which a door proves first.
    is_old: bool,
    control: Link,
    data: Link,
    /// Where its host was found when it was last looked for, and how many of these were tried.
    places: Vec<SocketAddr>,
    tried: usize,
    /// The log knows it as away.
    is_said_away: bool,
    /// Since when it is not reached, µs of CLOCK_BOOTTIME.
    away_us: Option<u64>,
}

struct Link {
    lane: Lane,
    state: State,
    /// Since it last stood.
    attempts: usize,
}

enum State {
    /// Nothing is done before then.
    Waiting(u64),
    /// The system is asked where the host is.
    Resolving,
    /// Since when.
    Greeting(Connection, u64),
    Open(Open),
}

struct Open {
    connection: Connection,
    node: u64,
    protocol: u16,
    since_us: u64,
    /// The entries in its queue.
    waiting: Option<Entries>,
}

impl Link {
    fn new(lane: Lane) -> Link {
        Link { lane, state: State::Waiting(0), attempts: 0 }
    }

    fn connection(&self) -> Option<&Connection> {
        match &self.state {
            State::Waiting(_) | State::Resolving => None,
            State::Greeting(connection, _) => Some(connection),
            State::Open(open) => Some(&open.connection),
        }
    }

    fn connection_mut(&mut self) -> Option<&mut Connection> {
        match &mut self.state {
            State::Waiting(_) | State::Resolving => None,
            State::Greeting(connection, _) => Some(connection),
            State::Open(open) => Some(&mut open.connection),
        }
    }

    fn open(&self) -> Option<&Open> {
        if let State::Open(open) = &self.state { Some(open) } else { None }
    }

    fn queue_bytes_max(&self) -> usize {
        match self.lane {
            Lane::Control => PEER_CONTROL_QUEUE_BYTES_MAX,
            Lane::Data | Lane::Base => PEER_DATA_QUEUE_BYTES_MAX,
        }
    }

    /// It is dialled again, at once if it stood for long.
    fn end(&mut self, now_us: u64) {
        if self.open().is_some_and(|open| now_us >= open.since_us + PEER_STEADY_US) {
            self.attempts = 0;
        }
        let pause_us = PEER_BACKOFF_US[self.attempts.min(PEER_BACKOFF_US.len() - 1)];
        self.attempts += 1;
        self.state = State::Waiting(now_us + pause_us);
    }
}

impl Dialer {
    /// One that knows nobody. `wakeup` rings when a host was found.
    pub fn new(wakeup: Arc<Wakeup>) -> Dialer {
        Dialer { peers: Vec::new(), resolver: Resolver::new(wakeup) }
    }

    /// Whom to keep connections to. Those that stand stay, if they lead to the same node.
    pub fn set_peers(&mut self, cx: &mut Context, list: Vec<Dial>) {
        let list: Vec<_> = list.into_iter().filter(|dial| dial.name != cx.own.name).collect();
        for peer in &mut self.peers {
            let listed = list.iter().find(|dial| dial.name == peer.name);
            let stays = listed.is_some_and(|dial| {
                let is_other = |open: &Open| dial.node.is_some_and(|node| node != open.node);
                dial.addresses.contains(peer.address())
                    && !peer.control.open().is_some_and(is_other)
            });
            if !stays {
                peer.end(cx, Lane::Control, &Trouble::Changed);
            }
        }
        self.peers.retain(|peer| list.iter().any(|dial| dial.name == peer.name));
        for dial in list {
            match self.peers.iter_mut().find(|peer| peer.name == dial.name) {
                Some(peer) => peer.is_to_be_at(dial),
                None => self.peers.push(Peer::new(dial)),
            }
        }
    }

    /// What the poller tells of a connection; false if it is none of these.
    pub fn note(&mut self, ready: Ready) -> bool {
        let mut links = self.peers.iter_mut().flat_map(Peer::links_mut);
        let connection = links.find_map(|link| {
            link.connection_mut().filter(|connection| connection.token() == ready.token)
        });
        connection.map(|connection| connection.note(ready)).is_some()
    }

    /// A peer has called: it is there.
    pub fn nudge(&mut self, cx: &Context, name: &Name) {
        if let Some(peer) = self.peers.iter_mut().find(|peer| peer.name == *name)
            && matches!(peer.control.state, State::Waiting(_))
        {
            peer.control.state = State::Waiting(cx.now_us);
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

    fn found(&mut self, cx: &mut Context, (name, places): Found) {
        let peer = self.peers.iter_mut().find(|peer| peer.name == name);
        let Some(peer) = peer.filter(|peer| matches!(peer.control.state, State::Resolving)) else {
            return;
        };
        let dialled = places.map_err(Trouble::from).and_then(|places| {
            peer.places = places;
            peer.dial(cx, Lane::Control)
        });
        if let Err(trouble) = dialled {
            peer.end(cx, Lane::Control, &trouble);
        }
    }

    /// Queues a message. What cannot be sent is dropped: Raft sends anew what it needs.
    pub fn send(&mut self, cx: &mut Context, message: Outgoing) {
        let (to, lane) = (message.to, message.lane);
        let is_for = |peer: &&mut Peer| {
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
        let State::Open(open) = &mut link.state else { unreachable!("it is open") };
        let behind = open.connection.bytes_behind_first();
        if behind > bytes_max {
            return peer.end(cx, lane, &Trouble::Full(behind));
        }
        let entries = message.entries();
        if open.connection.queued_bytes() == 0 {
            open.waiting = None;
        }
        // Raft sends a peer that it has to find anew the same entries with each heartbeat, until it has answered. Of
        // large ones the second would be in the queue before the first has left.
        if entries.is_some_and(|new| open.waiting.is_some_and(|waiting| waiting.has(&new))) {
            return;
        }
        if let Some(new) = entries {
            open.waiting = Some(open.waiting.map_or(new, |waiting| waiting.and(new)));
        }
        open.connection.push(Kind::Message, &message.head, &message.bodies);
    }

    /// Queues what each peer is to be told of this node's clock, for those that understand it. See
    /// [`PEER_CLOCK_QUEUE_BYTES_MAX`].
    pub fn send_clocks(&mut self, note: impl Fn(u64) -> Option<ClockNote>) {
        for peer in &mut self.peers {
            let State::Open(open) = &mut peer.control.state else { continue };
            if open.protocol >= PROTOCOL_CLOCKS
                && open.connection.queued_bytes() <= PEER_CLOCK_QUEUE_BYTES_MAX
                && let Some(mut note) = note(open.node)
            {
                note.health = note.health.filter(|_| open.protocol >= PROTOCOL_HEALTH);
                open.connection.push(Kind::Clock, &note.encode(), &[]);
            }
        }
    }

    /// Queues a question or an answer for that node, whether all hold the same; why not, if it will not come.
    pub fn send_verify(&mut self, to: u64, note: VerifyNote) -> Result<(), Missed> {
        let open = self.peers.iter_mut().filter_map(|peer| match &mut peer.control.state {
            State::Open(open) => Some(open),
            _ => None,
        });
        let open = open.into_iter().find(|open| open.node == to).ok_or(Missed::Gone)?;
        if open.protocol < PROTOCOL_VERIFY {
            return Err(Missed::Old);
        }
        open.connection.push(Kind::Verify, &note.encode(), &[]);
        Ok(())
    }

    /// Whether one of them is so old that it cannot prove itself first. Who says so has proved itself: an old door does.
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
        let connections = self.peers.iter().flat_map(Peer::links).filter_map(Link::connection);
        connections.into_iter().any(|one| one.is_readable() || one.wants_to_write())
    }

    /// When there is something to do at the latest, µs of CLOCK_BOOTTIME.
    pub fn deadline_us(&self) -> Option<u64> {
        let due = |peer: &Peer, link: &Link| match link.state {
            State::Waiting(_) if !peer.may_dial(link.lane) => None,
            State::Waiting(until_us) => Some(until_us),
            State::Greeting(_, since_us) => Some(since_us + PEER_HANDSHAKE_US),
            State::Resolving | State::Open(_) => None,
        };
        self.peers.iter().flat_map(|peer| peer.links().filter_map(|link| due(peer, link))).min()
    }
}

impl Peer {
    fn new(dial: Dial) -> Peer {
        let Dial { node, name, addresses } = dial;
        Peer {
            name,
            addresses,
            dialled: 0,
            node,
            is_old: false,
            control: Link::new(Lane::Control),
            data: Link::new(Lane::Data),
            places: Vec::new(),
            tried: 0,
            is_said_away: true,
            away_us: None,
        }
    }

    fn address(&self) -> &Address {
        &self.addresses[self.dialled % self.addresses.len()]
    }

    /// A connection that stands leads to one of these.
    fn is_to_be_at(&mut self, dial: Dial) {
        let current = dial.addresses.iter().position(|address| address == self.address());
        (self.node, self.addresses) = (dial.node, dial.addresses);
        self.dialled = current.unwrap_or(0);
    }

    fn links(&self) -> impl Iterator<Item = &Link> {
        [&self.control, &self.data].into_iter()
    }

    fn links_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        [&mut self.control, &mut self.data].into_iter()
    }

    fn link(&self, lane: Lane) -> &Link {
        if lane == Lane::Control { &self.control } else { &self.data }
    }

    fn link_mut(&mut self, lane: Lane) -> &mut Link {
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
    ) -> Result<(), Trouble> {
        match self.link(lane).state {
            State::Waiting(until_us) if cx.now_us >= until_us && self.may_dial(lane) => {
                if lane == Lane::Control && !self.locate(resolver)? {
                    self.control.state = State::Resolving;
                    return Ok(());
                }
                self.dial(cx, lane)
            }
            State::Waiting(_) | State::Resolving => Ok(()),
            State::Greeting(_, since_us) if cx.now_us >= since_us + PEER_HANDSHAKE_US => {
                Err(Trouble::Late)
            }
            State::Greeting(..) | State::Open(_) => self.read(cx, lane, meet),
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

    fn dial(&mut self, cx: &mut Context, lane: Lane) -> Result<(), Trouble> {
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
        self.link_mut(lane).state = State::Greeting(connection, cx.now_us);
        Ok(())
    }

    fn read(&mut self, cx: &mut Context, lane: Lane, meet: Meet<'_>) -> Result<(), Trouble> {
        let link = self.link_mut(lane);
        while let Some(connection) = link.connection_mut().filter(|one| one.is_readable()) {
            if connection.read(cx)? == 0 {
                break;
            }
            let Some(peer) = connection.shake()? else { continue };
            meet(&peer.claims)?;
            // What comes after that can only be a refusal.
            let now = State::Waiting(0);
            let State::Greeting(connection, _) = std::mem::replace(&mut link.state, now) else {
                unreachable!("a handshake ends once");
            };
            let (node, protocol, since_us) = (peer.claims.node.0, peer.protocol, cx.now_us);
            cx.parted.retain(|other| *other != node);
            self.is_old = protocol < PROTOCOL_PROOF;
            let link = self.link_mut(lane);
            link.state = State::Open(Open { connection, node, protocol, since_us, waiting: None });
            if lane == Lane::Control {
                self.data.state = State::Waiting(cx.now_us);
                self.away_us = None;
                if std::mem::take(&mut self.is_said_away) {
                    tracing::info!(peer = %self.name, address = %self.address(), "peer connected");
                }
            }
            return Ok(());
        }
        Ok(())
    }

    /// The link has ended, or was never there. With control ends data: it leads to the same process.
    fn end(&mut self, cx: &mut Context, lane: Lane, trouble: &Trouble) {
        let was_open = self.link(lane).open().map(|open| open.node);
        self.link_mut(lane).end(cx.now_us);
        if let Some(node) = was_open {
            cx.lose(node);
        }
        if lane == Lane::Control {
            self.away_us.get_or_insert(cx.now_us);
        }
        let away_us = self.away_us.map_or(0, |since_us| cx.now_us - since_us);
        if let Trouble::Refused(Refusal::Told(text)) = trouble {
            cx.refused.push(text.clone());
        }
        if let Some(left_out) = cx.refusals.admit(cx.now_us, self.name.as_str(), trouble) {
            self.is_said_away |= lane == Lane::Control;
            let what = match was_open {
                Some(_) => "the connection to a peer has ended",
                None => "a peer is not reached",
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

/// Begins to connect.
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
