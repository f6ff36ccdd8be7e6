//! The handshake of two nodes: that each is the one it should be, of the same cluster, and knows its secret.
//!
//! ```text
//! caller                                     door
//! HELLO    u16 newest protocol, u16 oldest, u8 lane, nonce, text whom it calls, claims
//!                                            CHALLENGE  u16 protocol, nonce, u8 whether frames are sealed
//! PROOF    code "caller"
//!                                            WELCOME    claims, code "door"
//!          or, from either side and last:    REFUSED    why, for the log of the other one
//!          before it, after WELCOME:         LEFT       u64 index of a directory from which the caller was removed
//! ```
//!
//! A *nonce* is 32 bytes drawn for this connection. A *code* is the HMAC-SHA256 of the word in quotes, the HELLO and
//! everything the called node has sent before it, under the secret: so it proves every claim, on this connection only.
//! The secret itself never crosses the wire. But a node that has a code can test guesses of the secret against it
//! offline. So the caller proves first, and the called node sends a code only to callers that have proved theirs.
//! Frames after the handshake are signed with keys derived from the same, one for each direction, unless there is no
//! secret or they go through TLS: see `seal`.
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

use super::frame::{self, FrameError, FrameKind, Inbox, Lane, PREFACE};
use super::seal::Sealer;
use crate::cluster::members::claims::{Claims, ClusterId, Holds, NodeId};
use crate::cluster::members::names::Name;
use crate::cluster::members::wire::{WireReader, put_text};
use crate::limits::{NODE_NAME_BYTES_MAX, REFUSAL_BYTES_MAX};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use thiserror::Error;

/// The newest protocol this build speaks. Two nodes speak the lower one of theirs.
pub const PROTOCOL: u16 = 6;
/// From this version on nodes report their clocks.
pub const PROTOCOL_CLOCKS: u16 = 2;
/// From this version on nodes compare their data.
pub const PROTOCOL_VERIFY: u16 = 3;
/// From this one on the caller proves first, and frames are sealed.
pub const PROTOCOL_PROOF: u16 = 4;
/// From this version on nodes report their health, in addition to their clocks.
pub const PROTOCOL_HEALTH: u16 = 5;
/// From this version on nodes report how far their logs reach, in addition to their health.
pub const PROTOCOL_LAST: u16 = 6;
/// From this version on a node that was removed while it was away is told so.
pub const PROTOCOL_LEFT: u16 = 6;
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

    /// Whether the secret is empty.
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

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Called {
    /// By its name,
    pub name: Name,
    /// and if it is a member that is known, by its id: what Raft says is for that one.
    pub node: Option<NodeId>,
}

/// The node at the other end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MetPeer {
    /// Its claims, proved by the secret.
    pub claims: Claims,
    /// The purpose of the connection.
    pub lane: Lane,
    pub protocol: u16,
}

/// Why a connection is closed before anything was taken from it.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Refusal {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(
        "it only speaks protocols up to {0}, by which {1} would have to prove itself first: every node of the \
         cluster that {1} has reached is newer"
    )]
    TooOld(u16, Name),
    #[error("a {0:?} that cannot be read")]
    Malformed(FrameKind),
    #[error("an unexpected {0:?}")]
    Order(FrameKind),
    #[error(
        "{own} speaks protocols {own_min} to {own_max}, the other node {min} to {max}: one of them is too old"
    )]
    Protocol { own: Name, own_min: u16, own_max: u16, min: u16, max: u16 },
    #[error("expected {called}, but {is} answers at this address")]
    NotCalled { called: Name, is: Name },
    #[error("two nodes are called {name}: {one} and {other}; cluster-node must differ")]
    NameTwice { name: Name, one: NodeId, other: NodeId },
    #[error("{one} and {other} both have the id {node}: one folder is a copy of the other")]
    SameNode { one: Name, other: Name, node: NodeId },
    #[error(
        "{called} has the id {is}, the member of that name has {expected}: it has another folder"
    )]
    OtherNode { called: Name, expected: NodeId, is: NodeId },
    #[error("{own} is a member of cluster {cluster}, {other} of cluster {other_cluster}")]
    OtherCluster { own: Name, cluster: ClusterId, other: Name, other_cluster: ClusterId },
    #[error(
        "{own} is partition {own_partition}, {other} partition {other_partition}: cluster-partitions must be the same"
    )]
    OtherPartition { own: Name, own_partition: String, other: Name, other_partition: String },
    #[error("the cluster-secret of {other} differs from that of {own}")]
    Secret { own: Name, other: Name },
    #[error("the other node refuses: {0}")]
    Told(String),
    #[error("this node was removed from its cluster while it was away")]
    Left {
        /// The index of a directory without this node, which the other one has applied.
        index: u64,
    },
}

impl Refusal {
    /// The other side's error, on one line.
    pub fn told(head: &[u8]) -> Refusal {
        let text = String::from_utf8_lossy(&head[..head.len().min(REFUSAL_BYTES_MAX)]);
        Refusal::Told(text.chars().filter(|c| !c.is_control()).collect())
    }
}

#[derive(Debug)]
pub struct Handshake {
    own: Claims,
    secret: Secret,
    nonce: Nonce,
    /// The way of a called node.
    way: Way,
    state: HandshakeState,
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
enum HandshakeState {
    Calling {
        called: Called,
        lane: Lane,
        hello: Vec<u8>,
    },
    Proved {
        called: Called,
        lane: Lane,
        hello: Vec<u8>,
        challenge: Vec<u8>,
    },
    AtDoor,
    /// `sent`: the challenge, or what was the welcome.
    Proving {
        peer: Box<MetPeer>,
        hello: Vec<u8>,
        sent: Vec<u8>,
    },
    /// At the caller: the door has proved itself, and its frames are sealed, unless all goes through TLS or there is no secret.
    Known,
    Ended,
}

impl Handshake {
    /// The side that opened the connection; send `out`.
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
        put_frame(out, FrameKind::Hello, &hello);
        let (way, state) = (Way::default(), HandshakeState::Calling { called, lane, hello });
        Handshake { own, secret, nonce, way, state, sealer: None }
    }

    /// The side that accepted the connection.
    pub fn door(own: Claims, secret: Secret, nonce: Nonce, way: Way) -> Handshake {
        Handshake { own, secret, nonce, way, state: HandshakeState::AtDoor, sealer: None }
    }

    /// The seal for the frames of this side, once the handshake is over; none if they are not sealed.
    pub fn sealer(&mut self) -> Option<Sealer> {
        self.sealer.take()
    }

    /// Processes the received bytes. Send everything appended to `out`, even after an error, before closing the
    /// connection. Once a called node knows the peer, `inbox` is open for its messages; a caller hears nothing more
    /// except a late refusal, which this returns when it is called again.
    ///
    /// # Errors
    /// Why the connection is rejected.
    pub fn advance(
        &mut self,
        inbox: &mut Inbox,
        out: &mut Vec<u8>,
    ) -> Result<Option<MetPeer>, Refusal> {
        loop {
            let is_door = !matches!(
                self.state,
                HandshakeState::Calling { .. } | HandshakeState::Proved { .. }
            );
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

    /// Tells a peer why, unless it was the one that refused.
    fn refuse(&mut self, refusal: &Refusal, out: &mut Vec<u8>) {
        if matches!(
            refusal,
            Refusal::Told(_)
                | Refusal::Left { .. }
                | Refusal::Frame(FrameError::Preface(_) | FrameError::Sealed)
        ) {
            return;
        }
        if matches!(self.state, HandshakeState::AtDoor) {
            out.extend_from_slice(PREFACE);
        }
        let text = refusal.to_string();
        let text = &text.as_bytes()[..text.len().min(REFUSAL_BYTES_MAX)];
        for part in frame::encode_sealed(FrameKind::Refused, text, &[], &mut self.sealer) {
            out.extend_from_slice(&part);
        }
        self.state = HandshakeState::Ended;
    }

    fn take(
        &mut self,
        kind: FrameKind,
        head: &[u8],
        inbox: &mut Inbox,
        out: &mut Vec<u8>,
    ) -> Result<Option<MetPeer>, Refusal> {
        if kind == FrameKind::Refused {
            // It goes into our log.
            return Err(Refusal::told(head));
        }
        // It has consequences, so no stranger may say it.
        if kind == FrameKind::Left && matches!(self.state, HandshakeState::Known) {
            let index = WireReader(head).u64().ok_or(Refusal::Malformed(kind))?;
            return Err(Refusal::Left { index });
        }
        let is_expected = match self.state {
            HandshakeState::Calling { .. } => {
                matches!(kind, FrameKind::Challenge | FrameKind::Welcome)
            }
            HandshakeState::Proved { .. } => kind == FrameKind::Welcome,
            HandshakeState::AtDoor => kind == FrameKind::Hello,
            HandshakeState::Proving { .. } => kind == FrameKind::Proof,
            HandshakeState::Known | HandshakeState::Ended => false,
        };
        if !is_expected {
            return Err(Refusal::Order(kind));
        }
        // Its past is not checked again, and after an error nothing more is accepted.
        match std::mem::replace(&mut self.state, HandshakeState::Ended) {
            HandshakeState::AtDoor => {
                self.state = HandshakeState::AtDoor;
                self.hello(head, out).map(|()| None)
            }
            HandshakeState::Calling { called, lane, hello } if kind == FrameKind::Challenge => {
                self.challenge(head)?;
                let proof = self.secret.code("caller", &hello, head).finalize().into_bytes();
                put_frame(out, FrameKind::Proof, &proof);
                self.state =
                    HandshakeState::Proved { called, lane, hello, challenge: head.to_vec() };
                Ok(None)
            }
            HandshakeState::Calling { called, lane, hello } => {
                let (protocol, peer, proof) = self.old_welcome(&called, &hello, head)?;
                put_frame(out, FrameKind::Proof, &proof);
                Ok(Some(MetPeer { claims: peer, lane, protocol }))
            }
            HandshakeState::Proved { called, lane, hello, challenge } => {
                let protocol = WireReader(&challenge).u16().unwrap_or(PROTOCOL_PROOF);
                // Before: the door has let it in, and takes a refusal only with its seal.
                self.seal(["caller", "door"], &hello, &challenge, inbox);
                let claims = self.welcome(&called, &hello, &challenge, head)?;
                self.state = HandshakeState::Known;
                Ok(Some(MetPeer { claims, lane, protocol }))
            }
            HandshakeState::Proving { peer, hello, sent } => {
                let code = self.secret.code("caller", &hello, &sent);
                if code.verify_slice(head).is_err() {
                    return Err(self.wrong_secret(&peer.claims));
                }
                if peer.protocol >= PROTOCOL_PROOF {
                    let mut claims = Vec::new();
                    self.own.encode(&mut claims);
                    let code = self.secret.code("door", &hello, &[&sent[..], &claims].concat());
                    let welcome = [&claims[..], &code.finalize().into_bytes()].concat();
                    put_frame(out, FrameKind::Welcome, &welcome);
                    self.seal(["door", "caller"], &hello, &sent, inbox);
                }
                Ok(Some(*peer))
            }
            HandshakeState::Known | HandshakeState::Ended => {
                unreachable!("nothing is expected then")
            }
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

    /// On the called side: answers the caller.
    fn hello(&mut self, hello: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        let malformed = || Refusal::Malformed(FrameKind::Hello);
        let read = &mut WireReader(hello);
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
            put_frame(out, FrameKind::Challenge, &sent);
        } else {
            self.own.encode(&mut sent);
            let code = self.secret.code("door", hello, &sent).finalize().into_bytes();
            put_frame(out, FrameKind::Welcome, &[&sent[..], &code[..]].concat());
        }
        let peer = Box::new(MetPeer { claims, lane, protocol });
        self.state = HandshakeState::Proving { peer, hello: hello.to_vec(), sent };
        Ok(())
    }

    /// At the caller: what it is to prove itself by.
    fn challenge(&self, challenge: &[u8]) -> Result<(), Refusal> {
        let malformed = || Refusal::Malformed(FrameKind::Challenge);
        let read = &mut WireReader(challenge);
        let protocol = read.u16().ok_or_else(malformed)?;
        self.agree(protocol, protocol)?;
        let nonce = read.array::<{ size_of::<Nonce>() }>();
        let sealed = nonce.and(read.u8()).filter(|sealed| *sealed <= 1 && read.is_done());
        sealed.filter(|_| protocol >= PROTOCOL_PROOF).ok_or_else(malformed)?;
        Ok(())
    }

    /// On the calling side: reads the answer.
    fn welcome(
        &self,
        called: &Called,
        hello: &[u8],
        challenge: &[u8],
        head: &[u8],
    ) -> Result<Claims, Refusal> {
        let malformed = || Refusal::Malformed(FrameKind::Welcome);
        let (welcome, code) = head.split_last_chunk::<CODE_BYTES>().ok_or_else(malformed)?;
        let read = &mut WireReader(welcome);
        let claims = Claims::read(read).filter(|_| read.is_done()).ok_or_else(malformed)?;
        let own = self.secret.code("door", hello, &[challenge, welcome].concat());
        if own.verify_slice(code).is_err() {
            return Err(self.wrong_secret(&claims));
        }
        self.check_called(called, claims)
    }

    /// The same if the called node proves first: its protocol, its claims, and the proof for it.
    fn old_welcome(
        &self,
        called: &Called,
        hello: &[u8],
        head: &[u8],
    ) -> Result<(u16, Claims, [u8; CODE_BYTES]), Refusal> {
        let malformed = || Refusal::Malformed(FrameKind::Welcome);
        let (welcome, code) = head.split_last_chunk::<CODE_BYTES>().ok_or_else(malformed)?;
        let read = &mut WireReader(welcome);
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

    fn check_called(&self, called: &Called, claims: Claims) -> Result<Claims, Refusal> {
        if claims.name != called.name {
            return Err(Refusal::NotCalled { called: called.name.clone(), is: claims.name });
        }
        self.check(&claims)?;
        // A node that has lost its disk has another id, and must be added again under its name.
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
        // It has other queues.
        if own.partition() != other.partition() {
            let [own_partition, other_partition] =
                [own, other].map(|claims| claims.partition().replace('.', " "));
            let (own, other) = (own.name.clone(), other.name.clone());
            return Err(Refusal::OtherPartition { own, own_partition, other, other_partition });
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

/// The part after the protocols.
fn read_hello(read: &mut WireReader<'_>) -> Option<(Lane, Name, Claims)> {
    let lane = read.u8()?;
    let lane = Lane::ALL.into_iter().find(|known| *known as u8 == lane)?;
    read.array::<{ size_of::<Nonce>() }>()?;
    let called = Name::new(read.text(NODE_NAME_BYTES_MAX)?).ok()?;
    let claims = Claims::read(read)?;
    read.is_done().then_some((lane, called, claims))
}

fn put_frame(out: &mut Vec<u8>, kind: FrameKind, head: &[u8]) {
    for part in frame::encode(kind, head, &[]) {
        out.extend_from_slice(&part);
    }
}
