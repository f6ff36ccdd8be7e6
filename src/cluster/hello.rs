//! The handshake of two nodes: that each is the one it should be, of the same cluster, and knows its secret.
//!
//! ```text
//! caller                                     door
//! HELLO    u16 newest protocol, u16 oldest, u8 lane, nonce, text whom it calls, claims
//!                                            CHALLENGE  u16 protocol, nonce, u8 whether frames are sealed
//! PROOF    code "caller"
//!                                            WELCOME    claims, code "door"
//!          or, from either side and last:    REFUSED    why, for the log of the other one
//! ```
//!
//! A *nonce* is 32 bytes drawn for this connection. A *code* is the HMAC-SHA256 of the word in quotes, the HELLO and
//! what the door has sent before it, under the secret: so it proves everything that was claimed, on this connection alone.
//! The secret itself never crosses the wire. But whoever has a code can try secrets against it at home, so the caller
//! proves first, and a door shows a code to those alone that have. Frames after the handshake are sealed with keys that
//! come from the same, one for each direction, unless there is no secret or they go through TLS: see `seal`.
//!
//! Up to protocol 3 the door proved first, and nothing was sealed:
//!
//! ```text
//! HELLO    as above
//!                                            WELCOME  u16 protocol, nonce, claims, code "door"
//! PROOF    code "caller"
//! ```
//!
//! A door does that only where it gives nothing away: without a secret, through TLS, or while a node that has proved
//! itself is as old as that.
//!
//! A caller that is refused has changed nothing, and nothing it said was believed before.

use super::claims::{Claims, ClusterId, Holds, NodeId};
use super::frame::{self, FrameError, Inbox, Kind, Lane, PREFACE};
use super::names::Name;
use super::seal::Sealer;
use super::wire::{Reader, put_text};
use crate::limits::{NODE_NAME_BYTES_MAX, REFUSAL_BYTES_MAX};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use thiserror::Error;

/// The newest protocol this build speaks. Two nodes speak the lower one of theirs.
pub const PROTOCOL: u16 = 5;
/// From this one on nodes tell each other what their clocks show.
pub const PROTOCOL_CLOCKS: u16 = 2;
/// From this one on they tell each other whether they hold the same.
pub const PROTOCOL_VERIFY: u16 = 3;
/// From this one on the caller proves first, and frames are sealed.
pub const PROTOCOL_PROOF: u16 = 4;
/// From this one on they tell each other how well they are, beside what their clocks show.
pub const PROTOCOL_HEALTH: u16 = 5;
/// The oldest.
pub const PROTOCOL_MIN: u16 = 1;
const _: () = assert!(PROTOCOL_MIN <= PROTOCOL);

/// Drawn for one connection.
pub type Nonce = [u8; 32];
const CODE_BYTES: usize = 32;

/// `cluster-secret`; empty if none is needed.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// Takes the text of the option.
    pub fn new(text: &str) -> Secret {
        Secret(text.as_bytes().into())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn code(&self, word: &str, hello: &[u8], welcome: &[u8]) -> Hmac<Sha256> {
        let mut code = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key may be of any length");
        for part in [word.as_bytes(), hello, welcome] {
            // With the lengths, so that no byte can move from one part to the next.
            code.update(&(part.len() as u64).to_le_bytes());
            code.update(part);
        }
        code
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Who is called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Called {
    /// By its name,
    pub name: Name,
    /// and if it is a member that is known, by its id: what Raft says is for that one.
    pub node: Option<NodeId>,
}

/// Who is at the other end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// What it says of itself, proved by the secret.
    pub claims: Claims,
    /// What the connection is for.
    pub lane: Lane,
    /// Which protocol is spoken.
    pub protocol: u16,
}

/// Why a connection is closed before anything was taken from it.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[allow(missing_docs, reason = "the texts say it")]
pub enum Refusal {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(
        "it speaks protocols up to {0} alone, by which {1} would have to prove itself first: every node of the cluster \
         that {1} has reached is newer"
    )]
    TooOld(u16, Name),
    #[error("a {0:?} that cannot be read")]
    Malformed(Kind),
    #[error("a {0:?} where another message has to come")]
    Order(Kind),
    #[error(
        "{own} speaks protocols {own_min} to {own_max}, the other node {min} to {max}: one of them is too old"
    )]
    Protocol { own: Name, own_min: u16, own_max: u16, min: u16, max: u16 },
    #[error("{called} was called, {is} answers at this address")]
    NotCalled { called: Name, is: Name },
    #[error("two nodes are called {name}: {one} and {other}; cluster-node has to differ")]
    NameTwice { name: Name, one: NodeId, other: NodeId },
    #[error("{one} and {other} both have the id {node}: one folder is a copy of the other")]
    SameNode { one: Name, other: Name, node: NodeId },
    #[error(
        "{called} has the id {is}, the member of that name has {expected}: its folder is another one"
    )]
    OtherNode { called: Name, expected: NodeId, is: NodeId },
    #[error("{own} is a member of cluster {cluster}, {other} of cluster {other_cluster}")]
    OtherCluster { own: Name, cluster: ClusterId, other: Name, other_cluster: ClusterId },
    #[error("the cluster-secret of {other} is not that of {own}")]
    Secret { own: Name, other: Name },
    #[error("the other node refuses: {0}")]
    Told(String),
}

impl Refusal {
    /// What the other side has said, on one line.
    pub fn told(head: &[u8]) -> Refusal {
        let text = String::from_utf8_lossy(&head[..head.len().min(REFUSAL_BYTES_MAX)]);
        Refusal::Told(text.chars().filter(|c| !c.is_control()).collect())
    }
}

/// One side of a handshake.
#[derive(Debug)]
pub struct Handshake {
    own: Claims,
    secret: Secret,
    nonce: Nonce,
    /// Of a door.
    way: Way,
    state: State,
    /// For what this side sends.
    sealer: Option<Sealer>,
}

/// How a door may speak.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Way {
    /// All of it goes through TLS.
    pub tls: bool,
    /// A member that has proved itself proves as protocol 3 has it.
    pub has_old: bool,
}

#[derive(Debug)]
enum State {
    Calling {
        called: Called,
        lane: Lane,
        hello: Vec<u8>,
    },
    /// It has proved who it is.
    Proved {
        called: Called,
        lane: Lane,
        hello: Vec<u8>,
        challenge: Vec<u8>,
    },
    AtDoor,
    /// `sent`: the challenge, or what was the welcome.
    Proving {
        peer: Box<Peer>,
        hello: Vec<u8>,
        sent: Vec<u8>,
    },
    Ended,
}

impl Handshake {
    /// Of the side that opened the connection; `out` is to be sent.
    pub fn call(
        own: Claims,
        secret: Secret,
        nonce: Nonce,
        called: Called,
        lane: Lane,
        out: &mut Vec<u8>,
    ) -> Handshake {
        let mut hello = Vec::new();
        hello.extend_from_slice(&PROTOCOL.to_le_bytes());
        hello.extend_from_slice(&PROTOCOL_MIN.to_le_bytes());
        hello.push(lane as u8);
        hello.extend_from_slice(&nonce);
        put_text(&mut hello, called.name.as_str());
        own.encode(&mut hello);
        out.extend_from_slice(PREFACE);
        put_frame(out, Kind::Hello, &hello);
        let (way, state) = (Way::default(), State::Calling { called, lane, hello });
        Handshake { own, secret, nonce, way, state, sealer: None }
    }

    /// Of the side that took the connection.
    pub fn door(own: Claims, secret: Secret, nonce: Nonce, way: Way) -> Handshake {
        Handshake { own, secret, nonce, way, state: State::AtDoor, sealer: None }
    }

    /// What seals the frames of this side, once the handshake is over; none where they are not sealed.
    pub fn sealer(&mut self) -> Option<Sealer> {
        self.sealer.take()
    }

    /// Goes on with what has arrived. What is appended to `out` is to be sent, after an error too, before the
    /// connection is closed. Once a door knows the peer, `inbox` is open for its messages; a caller hears nothing more
    /// but why it was refused after all, which this returns when it is called again.
    ///
    /// # Errors
    /// Why the connection is of no use.
    pub fn advance(
        &mut self,
        inbox: &mut Inbox,
        out: &mut Vec<u8>,
    ) -> Result<Option<Peer>, Refusal> {
        loop {
            let is_door = !matches!(self.state, State::Calling { .. } | State::Proved { .. });
            let taken = match inbox.next_frame() {
                Ok(None) => return Ok(None),
                Ok(Some(frame)) => self.take(frame.kind, &frame.head, inbox, out),
                Err(error) => Err(error.into()),
            };
            match taken {
                Ok(None) => {}
                Ok(Some(peer)) => {
                    if is_door {
                        inbox.open(peer.lane);
                    }
                    return Ok(Some(peer));
                }
                Err(refusal) => {
                    self.refuse(&refusal, out);
                    return Err(refusal);
                }
            }
        }
    }

    /// Tells a peer why, if it is one and not the one who refused.
    fn refuse(&mut self, refusal: &Refusal, out: &mut Vec<u8>) {
        if matches!(
            refusal,
            Refusal::Told(_) | Refusal::Frame(FrameError::Preface(_) | FrameError::Sealed)
        ) {
            return;
        }
        if matches!(self.state, State::AtDoor) {
            out.extend_from_slice(PREFACE);
        }
        let text = refusal.to_string();
        let text = &text.as_bytes()[..text.len().min(REFUSAL_BYTES_MAX)];
        for part in frame::encode_sealed(Kind::Refused, text, &[], &mut self.sealer) {
            out.extend_from_slice(&part);
        }
        self.state = State::Ended;
    }

    fn take(
        &mut self,
        kind: Kind,
        head: &[u8],
        inbox: &mut Inbox,
        out: &mut Vec<u8>,
    ) -> Result<Option<Peer>, Refusal> {
        if kind == Kind::Refused {
            // It goes into our log.
            return Err(Refusal::told(head));
        }
        let is_expected = match self.state {
            State::Calling { .. } => matches!(kind, Kind::Challenge | Kind::Welcome),
            State::Proved { .. } => kind == Kind::Welcome,
            State::AtDoor => kind == Kind::Hello,
            State::Proving { .. } => kind == Kind::Proof,
            State::Ended => false,
        };
        if !is_expected {
            return Err(Refusal::Order(kind));
        }
        // What it has been is not looked at again, and after an error nothing more is taken.
        match std::mem::replace(&mut self.state, State::Ended) {
            State::AtDoor => {
                self.state = State::AtDoor;
                self.hello(head, out).map(|()| None)
            }
            State::Calling { called, lane, hello } if kind == Kind::Challenge => {
                self.challenge(head)?;
                let proof = self.secret.code("caller", &hello, head).finalize().into_bytes();
                put_frame(out, Kind::Proof, &proof);
                self.state = State::Proved { called, lane, hello, challenge: head.to_vec() };
                Ok(None)
            }
            State::Calling { called, lane, hello } => {
                let (protocol, peer, proof) = self.old_welcome(&called, &hello, head)?;
                put_frame(out, Kind::Proof, &proof);
                Ok(Some(Peer { claims: peer, lane, protocol }))
            }
            State::Proved { called, lane, hello, challenge } => {
                let protocol = Reader(&challenge).u16().unwrap_or(PROTOCOL_PROOF);
                // Before: the door has let it in, and takes a refusal only with its seal.
                self.seal(["caller", "door"], &hello, &challenge, inbox);
                let claims = self.welcome(&called, &hello, &challenge, head)?;
                Ok(Some(Peer { claims, lane, protocol }))
            }
            State::Proving { peer, hello, sent } => {
                let code = self.secret.code("caller", &hello, &sent);
                if code.verify_slice(head).is_err() {
                    return Err(self.wrong_secret(&peer.claims));
                }
                if peer.protocol >= PROTOCOL_PROOF {
                    let mut claims = Vec::new();
                    self.own.encode(&mut claims);
                    let code = self.secret.code("door", &hello, &[&sent[..], &claims].concat());
                    let welcome = [&claims[..], &code.finalize().into_bytes()].concat();
                    put_frame(out, Kind::Welcome, &welcome);
                    self.seal(["door", "caller"], &hello, &sent, inbox);
                }
                Ok(Some(*peer))
            }
            State::Ended => unreachable!("nothing is expected then"),
        }
    }

    /// From here on both sides seal, if the door has said so; `of` names the own side first.
    fn seal(&mut self, of: [&str; 2], hello: &[u8], challenge: &[u8], inbox: &mut Inbox) {
        if challenge.last() != Some(&1) {
            return;
        }
        let sealer = |side: &str| {
            let code = self.secret.code(&format!("frames of the {side}"), hello, challenge);
            Some(Sealer::new(&code.finalize().into_bytes()))
        };
        let [own, other] = of.map(sealer);
        self.sealer = own;
        inbox.expect_seals(other);
    }

    /// At the door: answers who is called.
    fn hello(&mut self, hello: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        let malformed = || Refusal::Malformed(Kind::Hello);
        let read = &mut Reader(hello);
        // Every protocol begins with these two; the rest is that of the newest.
        let versions = read.u16().zip(read.u16()).filter(|(max, min)| min <= max);
        let (max, min) = versions.ok_or_else(malformed)?;
        let protocol = self.agree(min, max)?;
        let Way { tls, has_old } = self.way;
        if protocol < PROTOCOL_PROOF && !tls && !has_old && !self.secret.is_empty() {
            return Err(Refusal::TooOld(protocol, self.own.name.clone()));
        }
        let (lane, called, claims) = read_hello(read).ok_or_else(malformed)?;
        if called != self.own.name {
            return Err(Refusal::NotCalled { called, is: self.own.name.clone() });
        }
        self.check(&claims)?;
        let mut sent = protocol.to_le_bytes().to_vec();
        sent.extend_from_slice(&self.nonce);
        out.extend_from_slice(PREFACE);
        if protocol >= PROTOCOL_PROOF {
            sent.push(u8::from(!self.way.tls && !self.secret.is_empty()));
            put_frame(out, Kind::Challenge, &sent);
        } else {
            self.own.encode(&mut sent);
            let code = self.secret.code("door", hello, &sent).finalize().into_bytes();
            put_frame(out, Kind::Welcome, &[&sent[..], &code[..]].concat());
        }
        let peer = Box::new(Peer { claims, lane, protocol });
        self.state = State::Proving { peer, hello: hello.to_vec(), sent };
        Ok(())
    }

    /// At the caller: what it is to prove itself by.
    fn challenge(&self, challenge: &[u8]) -> Result<(), Refusal> {
        let malformed = || Refusal::Malformed(Kind::Challenge);
        let read = &mut Reader(challenge);
        let protocol = read.u16().ok_or_else(malformed)?;
        self.agree(protocol, protocol)?;
        let nonce = read.array::<{ size_of::<Nonce>() }>();
        let sealed = nonce.and(read.u8()).filter(|sealed| *sealed <= 1 && read.is_done());
        sealed.filter(|_| protocol >= PROTOCOL_PROOF).ok_or_else(malformed)?;
        Ok(())
    }

    /// At the caller: who answered.
    fn welcome(
        &self,
        called: &Called,
        hello: &[u8],
        challenge: &[u8],
        head: &[u8],
    ) -> Result<Claims, Refusal> {
        let malformed = || Refusal::Malformed(Kind::Welcome);
        let (welcome, code) = head.split_last_chunk::<CODE_BYTES>().ok_or_else(malformed)?;
        let read = &mut Reader(welcome);
        let claims = Claims::read(read).filter(|_| read.is_done()).ok_or_else(malformed)?;
        let own = self.secret.code("door", hello, &[challenge, welcome].concat());
        if own.verify_slice(code).is_err() {
            return Err(self.wrong_secret(&claims));
        }
        self.check_called(called, claims)
    }

    /// The same where the door proves first: its protocol, who answered, and the proof for it.
    fn old_welcome(
        &self,
        called: &Called,
        hello: &[u8],
        head: &[u8],
    ) -> Result<(u16, Claims, [u8; CODE_BYTES]), Refusal> {
        let malformed = || Refusal::Malformed(Kind::Welcome);
        let (welcome, code) = head.split_last_chunk::<CODE_BYTES>().ok_or_else(malformed)?;
        let read = &mut Reader(welcome);
        let protocol = read.u16().filter(|protocol| *protocol < PROTOCOL_PROOF);
        let protocol = protocol.ok_or_else(malformed)?;
        self.agree(protocol, protocol)?;
        read.array::<{ size_of::<Nonce>() }>().ok_or_else(malformed)?;
        let claims = Claims::read(read).filter(|_| read.is_done()).ok_or_else(malformed)?;
        if self.secret.code("door", hello, welcome).verify_slice(code).is_err() {
            return Err(self.wrong_secret(&claims));
        }
        let claims = self.check_called(called, claims)?;
        let proof = self.secret.code("caller", hello, welcome).finalize().into_bytes().into();
        Ok((protocol, claims, proof))
    }

    /// Whether it is the one that was called.
    fn check_called(&self, called: &Called, claims: Claims) -> Result<Claims, Refusal> {
        if claims.name != called.name {
            return Err(Refusal::NotCalled { called: called.name.clone(), is: claims.name });
        }
        self.check(&claims)?;
        // One that has lost its disk has another id, and is to be taken in again under its name.
        let is_empty = claims.holds == Holds::Nothing;
        if let Some(expected) = called.node.filter(|node| *node != claims.node && !is_empty) {
            return Err(Refusal::OtherNode { called: claims.name, expected, is: claims.node });
        }
        Ok(claims)
    }

    /// The protocol of two nodes of which the other one speaks `min` to `max`.
    fn agree(&self, min: u16, max: u16) -> Result<u16, Refusal> {
        let (own_min, own_max) = (PROTOCOL_MIN, PROTOCOL);
        if max < own_min || min > own_max {
            return Err(Refusal::Protocol {
                own: self.own.name.clone(),
                own_min,
                own_max,
                min,
                max,
            });
        }
        Ok(max.min(own_max))
    }

    /// Whether there can be two such nodes.
    fn check(&self, other: &Claims) -> Result<(), Refusal> {
        let own = &self.own;
        if own.name == other.name {
            let (name, one, other) = (own.name.clone(), own.node, other.node);
            return Err(Refusal::NameTwice { name, one, other });
        }
        if own.node == other.node {
            let (one, other, node) = (own.name.clone(), other.name.clone(), own.node);
            return Err(Refusal::SameNode { one, other, node });
        }
        match (own.cluster(), other.cluster()) {
            (Some(cluster), Some(other_cluster)) if cluster != other_cluster => {
                let (own, other) = (own.name.clone(), other.name.clone());
                Err(Refusal::OtherCluster { own, cluster, other, other_cluster })
            }
            _ => Ok(()),
        }
    }

    fn wrong_secret(&self, other: &Claims) -> Refusal {
        Refusal::Secret { own: self.own.name.clone(), other: other.name.clone() }
    }
}

/// Behind the protocols.
fn read_hello(read: &mut Reader<'_>) -> Option<(Lane, Name, Claims)> {
    let lane = read.u8()?;
    let lane = Lane::ALL.into_iter().find(|known| *known as u8 == lane)?;
    read.array::<{ size_of::<Nonce>() }>()?;
    let called = Name::new(read.text(NODE_NAME_BYTES_MAX)?).ok()?;
    let claims = Claims::read(read)?;
    read.is_done().then_some((lane, called, claims))
}

fn put_frame(out: &mut Vec<u8>, kind: Kind, head: &[u8]) {
    for part in frame::encode(kind, head, &[]) {
        out.extend_from_slice(&part);
    }
}
