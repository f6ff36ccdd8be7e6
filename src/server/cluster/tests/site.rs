//! A transport on a thread of its own, driven and watched by a test.

use crate::cluster::driver::{Dial, Status};
use crate::cluster::members::claims::{Claims, ClusterId, Holds, NodeId};
use crate::cluster::members::formation::Conflict;
use crate::cluster::members::names::{Address, Name};
use crate::cluster::peer::frame::{FrameKind, Inbox, Lane, PREFACE, encode_sealed};
use crate::cluster::peer::hello::{Called, Handshake, MetPeer, Refusal, Secret, Way};
use crate::cluster::peer::seal::Sealer;
use crate::cluster::raft::codec::{Head, Outgoing};
use crate::cluster::timing::clocks::ClockNote;
use crate::patience::limit;
use crate::server::cluster::peer_tls::PeerTls;
use crate::server::cluster::peers::{Incoming, Peers};
use crate::server::cluster::poll::Wakeup;
use crate::server::cluster::transport::Transport;
use crate::time::Micros;
use bytes::{BufMut, Bytes};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

const ELECTION_US: u64 = 300_000;

pub fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// The claims of a member of cluster 1.
pub fn claims(text: &str, id: u64) -> Claims {
    Claims {
        name: name(text),
        node: NodeId(id),
        holds: Holds::Member(ClusterId(1)),
        version: "0.1.0".to_owned(),
        level: 1,
        list: "n1=127.0.0.1:19248".to_owned(),
        peer: Address::parse("127.0.0.1:19248").unwrap(),
        client: Address::parse("127.0.0.1:9248").unwrap(),
        tls: None,
        sentinel: None,
    }
}

/// A node's claims, or variations of them.
pub struct Like(pub Claims);

/// This node's claims under another id.
pub fn claims_of(status: &Status, id: u64) -> Like {
    let cluster = ClusterId(status.cluster.unwrap());
    let claims = claims(status.name.as_str(), id);
    Like(Claims { holds: Holds::Member(cluster), ..claims })
}

impl Like {
    pub fn of_another_cluster(self) -> Like {
        Like(Claims { holds: Holds::Member(ClusterId(1)), ..self.0 })
    }

    pub fn called(self, text: &str) -> Like {
        Like(Claims { name: name(text), ..self.0 })
    }
}

/// A transport's events for its thread.
#[derive(Debug)]
pub enum Seen {
    Met(String),
    Heard {
        peer: u64,
        head: Head,
        bodies: Vec<Bytes>,
    },
    Clock(ClockNote),
    Lost(u64),
    /// It does not call any more.
    Parted(u64),
}

enum Command {
    Peers(Vec<Dial>),
    Send(Vec<Outgoing>),
    Tell(Vec<Outgoing>, ClockNote),
    Full(bool),
    Stop,
}

pub struct Site {
    pub id: u64,
    pub name: Name,
    pub address: Address,
    commands: Sender<Command>,
    wakeup: Arc<Wakeup>,
    seen: Receiver<Seen>,
    log: Lines,
    thread: Option<JoinHandle<()>>,
}

/// The log of a thread.
#[derive(Clone, Default)]
pub struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Those of warnings that have this in them.
    pub fn warnings(&self, with: &str) -> Vec<String> {
        self.lines("WARN", with)
    }

    /// Those of a level that have this in them.
    pub fn lines(&self, level: &str, with: &str) -> Vec<String> {
        let text = self.text();
        let lines = text.lines().filter(|line| line.contains(level) && line.contains(with));
        lines.map(str::to_owned).collect()
    }

    /// Runs `thread` with its log here.
    pub fn of<T>(&self, thread: impl FnOnce() -> T) -> T {
        let (writer, level) = (self.clone(), tracing::Level::DEBUG);
        let subscriber = tracing_subscriber::fmt().with_max_level(level).with_ansi(false);
        let subscriber = subscriber.with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(subscriber, thread)
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Site {
    pub fn start(claims: Claims) -> Site {
        Site::start_at(claims, TcpListener::bind("127.0.0.1:0").unwrap())
    }

    pub fn start_sealed(claims: Claims, tls: PeerTls) -> Site {
        Site::run(claims, TcpListener::bind("127.0.0.1:0").unwrap(), tls)
    }

    pub fn start_at(claims: Claims, listener: TcpListener) -> Site {
        Site::run(claims, listener, PeerTls::default())
    }

    fn run(claims: Claims, listener: TcpListener, tls: PeerTls) -> Site {
        let address = Address::parse(&listener.local_addr().unwrap().to_string()).unwrap();
        let (commands, orders) = channel();
        let (sender, seen) = channel();
        let (wakeup, log) = (Arc::new(Wakeup::new().unwrap()), Lines::default());
        let (id, name) = (claims.node.0, claims.name.clone());
        let secret = Secret::new("secret");
        let ring = Arc::clone(&wakeup);
        let transport = Transport::new(claims, secret, ELECTION_US, vec![listener], ring);
        let mut transport = transport.unwrap();
        transport.set_tls(tls);
        let lines = log.clone();
        let thread = std::thread::spawn(move || lines.of(|| run(transport, &orders, &sender)));
        Site { id, name, address, commands, wakeup, seen, log, thread: Some(thread) }
    }

    /// Tells it where these are, under ids or without.
    pub fn knows(&self, peers: &[(Option<u64>, &str, &Address)]) {
        let peers = peers.iter().map(|(id, text, address)| Dial {
            node: *id,
            name: name(text),
            addresses: vec![(*address).clone()],
        });
        self.tell(Command::Peers(peers.collect()));
    }

    pub fn send(&self, messages: Vec<Outgoing>) {
        self.tell(Command::Send(messages));
    }

    /// Sends these, and in the same turn, after them, its clock.
    pub fn tell_clock(&self, messages: Vec<Outgoing>, note: ClockNote) {
        self.tell(Command::Tell(messages, note));
    }

    pub fn set_full(&self, is_full: bool) {
        self.tell(Command::Full(is_full));
    }

    fn tell(&self, command: Command) {
        self.commands.send(command).unwrap();
        self.wakeup.wake();
    }

    pub fn log(&self) -> &Lines {
        &self.log
    }

    /// The next that is as it should be; what comes before it is passed over.
    pub fn expect<T>(&self, what: &str, mut is: impl FnMut(&Seen) -> Option<T>) -> T {
        loop {
            match self.seen.recv_timeout(limit()) {
                Ok(seen) => {
                    if let Some(found) = is(&seen) {
                        return found;
                    }
                }
                Err(_) => {
                    panic!("{} has not seen {what}; its log:\n{}", self.name, self.log.text())
                }
            }
        }
    }

    pub fn meets(&self, other: &str) {
        self.expect(&format!("{other} met"), |seen| match seen {
            Seen::Met(name) if name == other => Some(()),
            _ => None,
        });
    }

    pub fn parts_from(&self, id: u64) {
        self.expect(&format!("{id} gone"), |seen| match seen {
            Seen::Parted(gone) if *gone == id => Some(()),
            _ => None,
        });
    }

    pub fn loses(&self, id: u64) {
        self.expect(&format!("{id} lost"), |seen| match seen {
            Seen::Lost(lost) if *lost == id => Some(()),
            _ => None,
        });
    }

    /// The next message, from any sender.
    pub fn hears(&self) -> (u64, Head, Vec<Bytes>) {
        self.expect("a message", |seen| match seen {
            Seen::Heard { peer, head, bodies } => Some((*peer, head.clone(), bodies.clone())),
            _ => None,
        })
    }

    /// All events that no test step has consumed.
    pub fn rest(&self) -> Vec<Seen> {
        self.seen.try_iter().collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Stop);
        self.wakeup.wake();
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

const EXPECTS: [&str; 3] = ["n1", "n2", "n3"];

fn run(mut transport: Transport, orders: &Receiver<Command>, seen: &Sender<Seen>) {
    loop {
        let by = Micros(transport.now_us() + 10_000);
        transport.wait(false, by).unwrap();
        let mut meet = |claims: &Claims| {
            let is_expected = EXPECTS.iter().any(|name| *name == claims.name.as_str());
            let (own, other) = (name("n1"), claims.name.clone());
            let conflict = Conflict::Itself {
                listed: own.clone(),
                address: Address::parse("n1:1").unwrap(),
                own: other,
            };
            let _ = seen.send(Seen::Met(claims.name.to_string()));
            if is_expected { Ok(()) } else { Err(conflict) }
        };
        for Incoming { peer, head, bodies, .. } in transport.work(&mut meet) {
            let _ = seen.send(Seen::Heard { peer, head, bodies });
        }
        let news = transport.take_news();
        for (_, note) in news.clocks {
            let _ = seen.send(Seen::Clock(note));
        }
        for order in orders.try_iter() {
            match order {
                Command::Peers(list) => transport.set_peers(list),
                Command::Send(messages) => transport.send(messages),
                Command::Tell(messages, note) => {
                    transport.send(messages);
                    transport.send_clocks(|_| Some(note));
                }
                Command::Full(is_full) => transport.set_full(is_full),
                Command::Stop => return,
            }
        }
        for parted in news.parted {
            let _ = seen.send(Seen::Parted(parted));
        }
        for lost in transport.flush() {
            let _ = seen.send(Seen::Lost(lost));
        }
    }
}

/// A heartbeat of `term`, as bytes: see `codec`.
pub fn heartbeat(from: u64, to: u64, term: u64) -> Outgoing {
    Outgoing { to, lane: Lane::Control, head: head(6, from, to, term, 0), bodies: Vec::new() }
}

/// An append of one entry of `term`, which is also its index.
pub fn append(from: u64, to: u64, term: u64, body: Bytes) -> Outgoing {
    let mut head = head(1, from, to, term, 1);
    for number in [term, from, term, 0] {
        head.put_u64_le(number);
    }
    head.put_u32_le(1);
    head.put_u32_le(body.len() as u32);
    head.put_u64_le(1);
    Outgoing { to, lane: Lane::Data, head, bodies: vec![body] }
}

fn head(kind: u8, from: u64, to: u64, term: u64, entries: u16) -> Vec<u8> {
    let mut head = vec![kind, 0];
    head.put_u16_le(entries);
    head.put_u32_le(0);
    for number in [from, to, term, 0, 0, 0, 0] {
        head.put_u64_le(number);
    }
    head
}

/// One end of a connection, by hand.
pub struct Hand {
    pub stream: TcpStream,
    pub inbox: Inbox,
    pub handshake: Handshake,
    sealer: Option<Sealer>,
}

impl Hand {
    pub fn call(site: &Site, own: Claims, secret: &str, called: &str, lane: Lane) -> Hand {
        Hand::call_at(&site.address, own, secret, called, lane)
    }

    pub fn call_at(address: &Address, own: Claims, secret: &str, called: &str, lane: Lane) -> Hand {
        let stream = TcpStream::connect(address.to_string()).unwrap();
        let called = Called { name: name(called), node: None };
        let mut out = Vec::new();
        let handshake = Handshake::call(own, Secret::new(secret), [7; 32], called, lane, &mut out);
        Hand::new(stream, handshake, &out)
    }

    /// Takes a site's call.
    pub fn answer(listener: &TcpListener, own: Claims) -> Hand {
        let (stream, _) = listener.accept().unwrap();
        let door = Handshake::door(own, Secret::new("secret"), [9; 32], Way::default());
        Hand::new(stream, door, &[])
    }

    fn new(mut stream: TcpStream, handshake: Handshake, out: &[u8]) -> Hand {
        stream.set_read_timeout(Some(limit())).unwrap();
        stream.write_all(out).unwrap();
        Hand { stream, inbox: Inbox::new(), handshake, sealer: None }
    }

    /// Goes through the handshake; then waits for messages to the caller.
    pub fn shake(&mut self) -> Result<MetPeer, Refusal> {
        loop {
            let mut out = Vec::new();
            let shaken = self.handshake.advance(&mut self.inbox, &mut out);
            self.stream.write_all(&out).unwrap();
            if let Some(peer) = shaken? {
                self.sealer = self.handshake.sealer();
                return Ok(peer);
            }
            let mut bytes = [0; 4096];
            let count = self.stream.read(&mut bytes).unwrap();
            assert!(count > 0, "closed in the middle of a handshake");
            self.inbox.receive(&bytes[..count]);
        }
    }

    /// Sends what a peer does after the handshake.
    pub fn say(&mut self, kind: FrameKind, head: &[u8], bodies: &[Bytes]) {
        let parts = encode_sealed(kind, head, bodies, &mut self.sealer);
        self.stream.write_all(&parts.concat()).unwrap();
    }

    /// Waits until the other side has closed it.
    pub fn ends(&mut self) {
        ends(&mut self.stream);
    }
}

/// Waits until the other side has closed it.
pub fn ends(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(limit())).unwrap();
    let mut bytes = [0; 65536];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "it is open");
                return;
            }
        }
    }
}

/// The bytes with which a node begins to call.
pub fn greeting() -> &'static [u8] {
    PREFACE
}

/// The bytes of a frame.
pub fn frame(kind: FrameKind, head: &[u8]) -> Vec<u8> {
    crate::cluster::peer::frame::encode(kind, head, &[]).concat()
}
