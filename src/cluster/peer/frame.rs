//! Frames: how messages between nodes stand on a connection.
//!
//! Each side begins with [`PREFACE`], then frames follow. All numbers are little-endian:
//!
//! ```text
//!  0 u32 CRC-32C of bytes 4 to 15 and of the head
//!  4 u32 bytes of the head     8 u32 bytes of the piece
//! 12 u8 kind   13 u8 1: more pieces follow   14 u16 zero
//! 16 the head, then the piece, then 16 bytes of seal where frames are sealed: see [`Sealer`]
//! ```
//!
//! The bodies of a message follow its header raw, in *pieces*: the first in its own frame, the others in frames of kind
//! piece. The header describes the bodies: it has the checksums that the journal keeps anyway. A piece ends where a
//! body ends if possible, so that only a body larger than a piece is cut, and only that one is copied together again.
//!
//! An announced length is compared with its limit and allocates nothing. Room for what arrives is taken in steps of a
//! size of its own.

use super::seal::{SEAL_BYTES, Sealer};
use crate::error::Shown;
use crate::limits::{
    HANDSHAKE_FRAME_BYTES_MAX, PEER_BODY_BYTES_MAX, PEER_HEAD_BYTES_MAX, PEER_PIECE_BYTES,
    PEER_PIECES_MAX, PEER_ROOM_BYTES, PEER_ROOM_BYTES_SMALL,
};
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use thiserror::Error;

/// The first bytes of each side: they tell a peer from any other caller.
pub const PREFACE: &[u8; 12] = b"delayd peer\n";

/// Bytes before the head.
pub const HEADER_BYTES: usize = 16;
const MORE: u8 = 1;

/// The kind of a frame. The numbers are part of the wire format and never reused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameKind {
    /// The caller's claims.
    Hello = 1,
    /// The answer of the called node, and its proof that it knows the secret.
    Welcome = 2,
    /// The caller's proof that it knows the secret.
    Proof = 3,
    /// Why the connection is closed.
    Refused = 4,
    Message = 5,
    /// The next piece of a message's bodies, or of a base file.
    Piece = 6,
    /// The sender's clock: [`ClockNote`](crate::cluster::timing::clocks::ClockNote). From protocol 2 on.
    Clock = 7,
    /// Whether all nodes hold the same data: [`VerifyNote`](super::verify::VerifyNote). From protocol 3 on.
    Verify = 8,
    /// What the caller must use to prove that it knows the secret. From protocol 4 on.
    Challenge = 9,
    /// To a caller that was a member, before the refusal: the index of a directory without it. From protocol 6 on.
    Left = 10,
}

/// The connections between two nodes: what goes over one of them arrives in order, or not at all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Lane {
    /// Messages that must not wait for entries: heartbeats, votes, answers. Without bodies.
    Control = 1,
    /// Appends, with their bodies.
    Data = 2,
    /// A base file in pieces, which are handed out one by one, and the message that it was for.
    Base = 3,
}

impl Lane {
    pub const ALL: [Lane; 3] = [Lane::Control, Lane::Data, Lane::Base];
}

/// Why a connection ends: what came over it is not what a peer sends.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum FrameError {
    #[error("not a delayd peer: it begins with {0}")]
    Preface(Shown),
    #[error("it speaks TLS: tls-cluster must be the same on all nodes")]
    Sealed,
    #[error("unknown kind of frame {0}")]
    Kind(u8),
    #[error("unknown bits or bytes are set")]
    Reserved,
    #[error("a frame of kind {0:?} does not belong on this connection now")]
    Place(FrameKind),
    #[error("a header of {0} bytes; at most {1} are allowed")]
    Head(usize, usize),
    #[error("a piece of {0} bytes; at most {1} are allowed")]
    Piece(usize, usize),
    #[error("bodies of more than {PEER_BODY_BYTES_MAX} bytes in one message")]
    Body,
    #[error("a message in more than {PEER_PIECES_MAX} pieces")]
    Pieces,
    #[error("a frame whose checksum does not match its header")]
    Checksum,
    #[error("a frame without the peer's signature: it was injected or changed on the way")]
    Seal,
    #[error("bodies of {0} bytes requested, {1} are available")]
    Short(usize, usize),
}

/// A frame that has arrived, with all of its pieces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerFrame {
    pub kind: FrameKind,
    pub head: Bytes,
    pub body: FrameBody,
}

/// The part after a header.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FrameBody {
    pieces: VecDeque<Bytes>,
    bytes: usize,
}

impl FrameBody {
    /// Bytes that were not taken yet.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes the next `bytes` of it; a part of a larger buffer if they are in one piece.
    ///
    /// # Errors
    /// There are fewer.
    pub fn take(&mut self, bytes: usize) -> Result<Bytes, FrameError> {
        if bytes > self.bytes {
            return Err(FrameError::Short(bytes, self.bytes));
        }
        self.bytes -= bytes;
        let mut joined = Vec::new();
        loop {
            let Some(front) = self.pieces.front_mut() else { return Ok(Bytes::from(joined)) };
            let part = front.split_to(front.len().min(bytes - joined.len()));
            if front.is_empty() {
                self.pieces.pop_front();
            }
            if part.len() == bytes {
                return Ok(part);
            }
            // All of these bytes have arrived, so memory is never allocated on a mere announcement.
            joined.reserve_exact(bytes - joined.len());
            joined.extend_from_slice(&part);
            if joined.len() == bytes {
                return Ok(Bytes::from(joined));
            }
        }
    }

    fn push(&mut self, piece: Bytes) {
        self.bytes += piece.len();
        if !piece.is_empty() {
            self.pieces.push_back(piece);
        }
    }
}

/// The bytes of a message: parts to be written one after the other. Bodies are shared, not copied.
///
/// # Panics
/// If head or bodies are larger than a peer takes: our own mistake.
pub fn encode(kind: FrameKind, head: &[u8], bodies: &[Bytes]) -> Vec<Bytes> {
    encode_sealed(kind, head, bodies, &mut None)
}

/// The same, each of its frames with its seal if there is a sealer.
pub fn encode_sealed(
    kind: FrameKind,
    head: &[u8],
    bodies: &[Bytes],
    sealer: &mut Option<Sealer>,
) -> Vec<Bytes> {
    let total: usize = bodies.iter().map(Bytes::len).sum();
    assert!(head.len() <= PEER_HEAD_BYTES_MAX, "a head of {} bytes", head.len());
    assert!(total <= PEER_BODY_BYTES_MAX, "bodies of {total} bytes");
    let pieces = pieces(bodies);
    let mut parts = Vec::with_capacity(2 * pieces.len() + bodies.len());
    for (at, piece) in pieces.iter().enumerate() {
        let (kind, head) = if at == 0 { (kind, head) } else { (FrameKind::Piece, &[][..]) };
        let length = piece.iter().map(Bytes::len).sum();
        let begins = parts.len();
        parts.push(header(kind, head, length, at + 1 < pieces.len()));
        parts.extend(piece.iter().cloned());
        if let Some(sealer) = sealer {
            let seal = sealer.seal(&parts[begins..]);
            parts.push(seal);
        }
    }
    parts
}

/// Bodies in pieces, at least one, which may be empty.
fn pieces(bodies: &[Bytes]) -> Vec<Vec<Bytes>> {
    let (mut pieces, mut room) = (vec![Vec::new()], PEER_PIECE_BYTES);
    for body in bodies.iter().filter(|body| !body.is_empty()) {
        let mut rest = body.clone();
        while !rest.is_empty() {
            // A body that has to be cut anyway fills the piece.
            let fits = rest.len() <= room || rest.len() > PEER_PIECE_BYTES && room > 0;
            if !fits {
                pieces.push(Vec::new());
                room = PEER_PIECE_BYTES;
            }
            let part = rest.split_to(rest.len().min(room));
            room -= part.len();
            pieces.last_mut().expect("there is always one").push(part);
        }
    }
    pieces
}

fn header(kind: FrameKind, head: &[u8], piece_bytes: usize, more: bool) -> Bytes {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + head.len());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&(head.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&(piece_bytes as u32).to_le_bytes());
    bytes.extend_from_slice(&[kind as u8, u8::from(more) * MORE, 0, 0]);
    bytes.extend_from_slice(head);
    let crc = crc32c::crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    Bytes::from(bytes)
}

/// Received data of a connection that was not taken yet.
#[derive(Debug)]
pub struct Inbox {
    buffer: BytesMut,
    stage: InboxStage,
    /// A message with missing pieces, and how many have arrived.
    partial: Option<(PeerFrame, usize)>,
    /// Looks at the seals, if there are any.
    sealer: Option<Sealer>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum InboxStage {
    Preface,
    Handshake,
    Open(Lane),
}

/// The bytes before a header, once its numbers are within their limits.
struct Header {
    kind: FrameKind,
    more: bool,
    head_bytes: usize,
    piece_bytes: usize,
}

impl Inbox {
    /// The inbox of a new connection.
    pub fn new() -> Inbox {
        Inbox { buffer: BytesMut::new(), stage: InboxStage::Preface, partial: None, sealer: None }
    }

    /// The handshake is over: from here on messages come, as the lane has them.
    pub fn open(&mut self, lane: Lane) {
        self.stage = InboxStage::Open(lane);
    }

    pub fn expect_seals(&mut self, sealer: Option<Sealer>) {
        self.sealer = sealer;
    }

    /// Takes in data read from the connection. Take all frames before reading more: then no more is held than a frame
    /// and the data of one read.
    pub fn receive(&mut self, bytes: &[u8]) {
        let room = match self.stage {
            InboxStage::Open(Lane::Data | Lane::Base) => PEER_ROOM_BYTES,
            InboxStage::Open(Lane::Control) | InboxStage::Preface | InboxStage::Handshake => {
                PEER_ROOM_BYTES_SMALL
            }
        };
        if self.buffer.capacity() - self.buffer.len() < bytes.len() {
            self.buffer.reserve(bytes.len().max(room));
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Bytes that are held here.
    pub fn bytes(&self) -> usize {
        self.buffer.capacity() + self.partial.as_ref().map_or(0, |(frame, _)| frame.body.bytes)
    }

    /// The next frame; nothing until all of it is there.
    ///
    /// # Errors
    /// The error that makes the connection useless. It is permanent.
    pub fn next_frame(&mut self) -> Result<Option<PeerFrame>, FrameError> {
        if self.stage == InboxStage::Preface && !self.take_preface()? {
            return Ok(None);
        }
        loop {
            let Some((bytes, _)) = self.buffer.split_first_chunk::<HEADER_BYTES>() else {
                return Ok(None);
            };
            let header = self.check(bytes)?;
            let sealed = HEADER_BYTES + header.head_bytes + header.piece_bytes;
            let whole = sealed + if self.sealer.is_some() { SEAL_BYTES } else { 0 };
            let Some(frame) = self.buffer.get(..HEADER_BYTES + header.head_bytes) else {
                return Ok(None);
            };
            if crc32c::crc32c(&frame[4..]).to_le_bytes() != frame[..4] {
                return Err(FrameError::Checksum);
            }
            if self.buffer.len() < whole {
                return Ok(None);
            }
            let mut bytes = self.buffer.split_to(whole).freeze();
            let seal = bytes.split_off(sealed);
            if self.sealer.as_mut().is_some_and(|sealer| !sealer.is_sealed(&bytes, &seal)) {
                return Err(FrameError::Seal);
            }
            let head = bytes.split_to(HEADER_BYTES + header.head_bytes).slice(HEADER_BYTES..);
            let (mut frame, count) = self.partial.take().unwrap_or_else(|| {
                (PeerFrame { kind: header.kind, head, body: FrameBody::default() }, 0)
            });
            frame.body.push(bytes);
            if !header.more {
                return Ok(Some(frame));
            }
            self.partial = Some((frame, count + 1));
        }
    }

    /// Whether it was there.
    fn take_preface(&mut self) -> Result<bool, FrameError> {
        let length = self.buffer.len().min(PREFACE.len());
        let begun = &self.buffer[..length];
        if *begun != PREFACE[..length] {
            // A handshake or an alert, of whatever version.
            let is_sealed = matches!(self.buffer[..], [0x15 | 0x16, 0x03, ..]);
            let shown = || FrameError::Preface(Shown::new(&self.buffer));
            return Err(if is_sealed { FrameError::Sealed } else { shown() });
        }
        if length == PREFACE.len() {
            let _ = self.buffer.split_to(length);
            self.stage = InboxStage::Handshake;
        }
        Ok(self.stage != InboxStage::Preface)
    }

    /// Whether a frame may come with this header, here and now.
    fn check(&self, bytes: &[u8; HEADER_BYTES]) -> Result<Header, FrameError> {
        let int = |at: usize| {
            let int = bytes[at..].first_chunk().expect("16 bytes");
            usize::try_from(u32::from_le_bytes(*int)).expect("at least 32 bits")
        };
        let (head_bytes, piece_bytes) = (int(4), int(8));
        let kind = match bytes[12] {
            1 => FrameKind::Hello,
            2 => FrameKind::Welcome,
            3 => FrameKind::Proof,
            4 => FrameKind::Refused,
            5 => FrameKind::Message,
            6 => FrameKind::Piece,
            7 => FrameKind::Clock,
            8 => FrameKind::Verify,
            9 => FrameKind::Challenge,
            10 => FrameKind::Left,
            other => return Err(FrameError::Kind(other)),
        };
        let more = bytes[13] == MORE;
        if bytes[13] > MORE || bytes[14..] != [0, 0] {
            return Err(FrameError::Reserved);
        }
        let is_greeting = matches!(
            kind,
            FrameKind::Hello
                | FrameKind::Challenge
                | FrameKind::Welcome
                | FrameKind::Proof
                | FrameKind::Refused
                | FrameKind::Left
        );
        let (fits, head_max, piece_max) = match self.stage {
            InboxStage::Preface | InboxStage::Handshake => {
                (is_greeting && !more, HANDSHAKE_FRAME_BYTES_MAX - HEADER_BYTES, 0)
            }
            InboxStage::Open(Lane::Control) => {
                let fits = matches!(
                    kind,
                    FrameKind::Message | FrameKind::Clock | FrameKind::Verify | FrameKind::Refused
                ) && !more;
                (fits, PEER_HEAD_BYTES_MAX, 0)
            }
            // Both sides speak, and say why they end it.
            InboxStage::Open(Lane::Base) => {
                let fits = (!is_greeting || kind == FrameKind::Refused) && !more;
                (fits, PEER_HEAD_BYTES_MAX, PEER_PIECE_BYTES)
            }
            InboxStage::Open(Lane::Data) => {
                let expected =
                    if self.partial.is_some() { FrameKind::Piece } else { FrameKind::Message };
                // The caller may find out last that it called another one than it meant.
                let is_refused = kind == FrameKind::Refused && self.partial.is_none() && !more;
                (kind == expected || is_refused, PEER_HEAD_BYTES_MAX, PEER_PIECE_BYTES)
            }
        };
        let head_max = if kind == FrameKind::Piece { 0 } else { head_max };
        if !fits {
            return Err(FrameError::Place(kind));
        }
        if head_bytes > head_max {
            return Err(FrameError::Head(head_bytes, head_max));
        }
        if piece_bytes > piece_max {
            return Err(FrameError::Piece(piece_bytes, piece_max));
        }
        let (held, count) = self.partial.as_ref().map_or((0, 0), |(f, n)| (f.body.bytes, *n));
        if held + piece_bytes > PEER_BODY_BYTES_MAX {
            return Err(FrameError::Body);
        }
        if count >= PEER_PIECES_MAX {
            return Err(FrameError::Pieces);
        }
        Ok(Header { kind, more, head_bytes, piece_bytes })
    }
}

impl Default for Inbox {
    fn default() -> Inbox {
        Inbox::new()
    }
}
