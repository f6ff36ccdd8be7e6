//! Messages between nodes, as bytes.
//!
//! A message is a head and bodies; [`crate::cluster::peer::frame`] puts both on a connection. The head is of a fixed layout, so that reading it allocates for its own bytes and
//! nothing else; the bodies follow it raw, as they stand in the log. All numbers are little-endian.
//!
//! ```text
//!  0 u8 kind        1 u8 flags          2 u16 entries      4 u32 tag
//!  8 u64 from      16 u64 to           24 u64 term
//! 32 u64 index     40 u64 term of it   48 u64 commit       56 u64 extra
//! 64 for each entry:
//!  0 u64 term       8 u64 node         16 u64 first        24 u64 now
//! 32 u32 count     36 u32 bytes of its body
//! 40 u8 kind       41 seven zeros
//! ```
//!
//! *tag* is that of the cluster ([`crate::cluster::members::claims::ClusterId::tag`]): a connection may be older than the cluster of the node
//! at its other end. *first*, *now* and *count* are those of the facts; of another entry, zero.
//! *extra* is what the kind needs: of an append that is refused where the logs may agree, of votes the term
//! of the commit, of heartbeats what is to come back with the answer. Everything in a head is checked against the
//! bounds before Raft sees it: it trusts what it is given, and panics.

use super::entry::{Base, EpochFacts, LogEntry, Payload};
use crate::cluster::members::directory::{Directory, WrongDirectory};
use crate::cluster::members::{Members, WrongMembers};
use crate::cluster::peer::frame::Lane;
use crate::limits::{
    APPEND_BYTES_MAX, APPEND_ENTRIES_MAX, BATCH_BYTES_MAX, NODES_BYTES_MAX, PEER_HEAD_BYTES_MAX,
};
use crate::time::Micros;
use bytes::{Buf, BufMut, Bytes};
use raft::eraftpb::{Message, MessageType, Snapshot};
use thiserror::Error;

/// A message on its way to one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    pub to: u64,
    /// Which connection it has to take.
    pub lane: Lane,
    /// The head, [`HEAD_BYTES`] and 48 bytes an entry.
    pub head: Vec<u8>,
    /// The bytes after it, unchanged.
    pub bodies: Vec<Bytes>,
}

impl Outgoing {
    /// Puts the cluster's tag into its head.
    pub(in crate::cluster) fn set_tag(&mut self, tag: u32) {
        self.head[4..8].copy_from_slice(&tag.to_le_bytes());
    }

    pub fn bytes(&self) -> usize {
        self.head.len() + self.bodies.iter().map(Bytes::len).sum::<usize>()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entries {
    term: u64,
    /// The index before the first.
    before: u64,
    /// That of the last one.
    last: u64,
}

impl Entries {
    /// Whether all of the other ones are among these.
    pub fn has(&self, other: &Entries) -> bool {
        self.term == other.term && self.before <= other.before && other.last <= self.last
    }

    /// These and the next ones, if they follow; else the next ones alone.
    pub fn and(self, next: Entries) -> Entries {
        let follows = self.term == next.term && self.last == next.before;
        if follows { Entries { before: self.before, ..next } } else { next }
    }
}

impl Outgoing {
    /// The entries of an append.
    pub fn entries(&self) -> Option<Entries> {
        let head = Head::read(&self.head).ok()?;
        let count = head.entries.len() as u64;
        let is_any = head.kind == MessageKind::Append && count > 0;
        let (term, before, last) = (head.term, head.index, head.index + count);
        is_any.then_some(Entries { term, before, last })
    }
}

/// Bytes of a head without entries.
pub const HEAD_BYTES: usize = 64;
const ENTRY_BYTES: usize = 48;
/// The longest head there is.
pub const HEAD_BYTES_MAX: usize = HEAD_BYTES + ENTRY_BYTES * ENTRIES_MAX;
const _: () = assert!(HEAD_BYTES_MAX <= PEER_HEAD_BYTES_MAX);
/// The entries that Raft adds to a full append: the one it was just given, a blank, the end of a
/// joint state.
const ENTRIES_MAX: usize = APPEND_ENTRIES_MAX + 8;
const BODIES_BYTES_MAX: usize = APPEND_BYTES_MAX + BATCH_BYTES_MAX;
/// Its lists with all nodes each, and the directory.
const MEMBERS_BYTES_MAX: usize = NODES_BYTES_MAX + 1024;
/// Numbers that count are below this: nothing overflows that is added to them.
const NUMBER_MAX: u64 = 1 << 63;

/// Why a message header is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeadError {
    /// Shorter or longer than it says.
    #[error("a head of {bytes} bytes for {entries} entries")]
    Length { bytes: usize, entries: usize },
    #[error("unknown kind of message {0}")]
    Kind(u8),
    #[error("set bits of no meaning")]
    Reserved,
    /// Without a sender, without a receiver, or sent to its sender.
    #[error("from node {from} to node {to}")]
    Nodes { from: u64, to: u64 },
    /// A number out of its range, or out of order with another.
    #[error("{0} is out of range")]
    Range(&'static str),
    /// More than [`APPEND_BYTES_MAX`] and one batch, or a batch larger than [`BATCH_BYTES_MAX`].
    #[error("{0} bytes of entries")]
    Size(usize),
    #[error("the bodies are not those that the head announced")]
    Bodies,
    #[error(transparent)]
    Members(#[from] WrongMembers),
    #[error(transparent)]
    Directory(#[from] WrongDirectory),
}

/// A head that was read and checked; what it says is for [`super::node::Node::receive`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    kind: MessageKind,
    flags: u8,
    tag: u32,
    from: u64,
    to: u64,
    term: u64,
    index: u64,
    index_term: u64,
    commit: u64,
    extra: u64,
    entries: Vec<EntryHead>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EntryHead {
    term: u64,
    node: u64,
    first: u64,
    now: u64,
    count: u32,
    bytes: u32,
    kind: EntryKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryKind {
    Blank = 0,
    Facts = 1,
    Members = 2,
}

/// Their numbers stand in messages: never given to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageKind {
    Append = 1,
    AppendAnswer = 2,
    Vote = 3,
    VoteAnswer = 4,
    Base = 5,
    Heartbeat = 6,
    HeartbeatAnswer = 7,
    TimeoutNow = 8,
    PreVote = 9,
    PreVoteAnswer = 10,
}

const KINDS: [(MessageKind, MessageType); 10] = [
    (MessageKind::Append, MessageType::MsgAppend),
    (MessageKind::AppendAnswer, MessageType::MsgAppendResponse),
    (MessageKind::Vote, MessageType::MsgRequestVote),
    (MessageKind::VoteAnswer, MessageType::MsgRequestVoteResponse),
    (MessageKind::Base, MessageType::MsgSnapshot),
    (MessageKind::Heartbeat, MessageType::MsgHeartbeat),
    (MessageKind::HeartbeatAnswer, MessageType::MsgHeartbeatResponse),
    (MessageKind::TimeoutNow, MessageType::MsgTimeoutNow),
    (MessageKind::PreVote, MessageType::MsgRequestPreVote),
    (MessageKind::PreVoteAnswer, MessageType::MsgRequestPreVoteResponse),
];

/// Refused: of an append, of a vote.
const REFUSED: u8 = 1;
/// A vote that the leader itself asked for: it overrides what its heartbeats promised.
const TRANSFER: u8 = 2;
/// A heartbeat whose *extra* must be returned.
const ASKED: u8 = 4;
/// The library's mark in a vote for a transfer.
const TRANSFER_CONTEXT: &[u8] = b"CampaignTransfer";

impl MessageKind {
    fn flags(self) -> u8 {
        match self {
            MessageKind::AppendAnswer | MessageKind::VoteAnswer | MessageKind::PreVoteAnswer => {
                REFUSED
            }
            MessageKind::Vote => TRANSFER,
            MessageKind::Heartbeat | MessageKind::HeartbeatAnswer => ASKED,
            MessageKind::Append
            | MessageKind::Base
            | MessageKind::TimeoutNow
            | MessageKind::PreVote => 0,
        }
    }
}

impl Head {
    /// Reads the whole head of a message; the bodies follow it. Allocates 48 bytes for each 48 that there are.
    pub fn read(mut bytes: &[u8]) -> Result<Head, HeadError> {
        let length = bytes.len();
        if length < HEAD_BYTES {
            return Err(HeadError::Length { bytes: length, entries: 0 });
        }
        let number = bytes.get_u8();
        let kind = KINDS.iter().map(|(kind, _)| *kind).find(|kind| *kind as u8 == number);
        let kind = kind.ok_or(HeadError::Kind(number))?;
        let flags = bytes.get_u8();
        let count = usize::from(bytes.get_u16_le());
        let tag = bytes.get_u32_le();
        if flags & !kind.flags() != 0 {
            return Err(HeadError::Reserved);
        }
        if count > ENTRIES_MAX || length != HEAD_BYTES + ENTRY_BYTES * count {
            return Err(HeadError::Length { bytes: length, entries: count });
        }
        let mut head = Head {
            kind,
            flags,
            tag,
            from: bytes.get_u64_le(),
            to: bytes.get_u64_le(),
            term: bytes.get_u64_le(),
            index: bytes.get_u64_le(),
            index_term: bytes.get_u64_le(),
            commit: bytes.get_u64_le(),
            extra: bytes.get_u64_le(),
            entries: Vec::with_capacity(count),
        };
        for _ in 0..count {
            head.entries.push(EntryHead::read(&mut bytes)?);
        }
        head.check()?;
        Ok(head)
    }

    /// The claimed sender. The reader of the message knows whose connection it came over, and
    /// compares.
    pub fn from(&self) -> u64 {
        self.from
    }

    pub(in crate::cluster) fn tag(&self) -> u32 {
        self.tag
    }

    pub fn is_base(&self) -> bool {
        self.kind == MessageKind::Base
    }

    /// Whether it says no more than that its sender is there.
    pub fn is_heartbeat(&self) -> bool {
        matches!(self.kind, MessageKind::Heartbeat | MessageKind::HeartbeatAnswer)
    }

    /// The names and addresses in its entries.
    pub(in crate::cluster) fn directories(
        &self,
        bodies: &[Bytes],
    ) -> Result<Vec<Directory>, HeadError> {
        let with_body = self.entries.iter().filter(|entry| entry.kind != EntryKind::Blank);
        let members = with_body.zip(bodies).filter(|(entry, _)| entry.kind == EntryKind::Members);
        let directory =
            |(_, body): (_, &Bytes)| Ok(Directory::decode(&Members::decode(body)?.directory)?);
        members.map(directory).collect()
    }

    /// The sizes of the bodies that follow, in order. Together they are at most [`APPEND_BYTES_MAX`] plus one batch;
    /// the reader allocates as they arrive.
    pub fn bodies(&self) -> impl Iterator<Item = usize> {
        let with_body = self.entries.iter().filter(|entry| entry.kind != EntryKind::Blank);
        with_body.map(|entry| entry.bytes as usize)
    }

    fn check(&self) -> Result<(), HeadError> {
        if self.from == 0 || self.to == 0 || self.from == self.to {
            return Err(HeadError::Nodes { from: self.from, to: self.to });
        }
        let in_range = |what, is: bool| if is { Ok(()) } else { Err(HeadError::Range(what)) };
        in_range("the term", self.term > 0 && self.term < NUMBER_MAX)?;
        in_range("an index", self.index < NUMBER_MAX && self.commit < NUMBER_MAX)?;
        in_range("the term of an index", self.index_term < NUMBER_MAX)?;
        match self.kind {
            MessageKind::Append => self.check_append(),
            MessageKind::Base => self.check_base(),
            _ if !self.entries.is_empty() => Err(HeadError::Reserved),
            MessageKind::AppendAnswer | MessageKind::Vote | MessageKind::VoteAnswer => {
                in_range("an index or term beside it", self.extra < NUMBER_MAX)
            }
            MessageKind::PreVote | MessageKind::PreVoteAnswer => {
                in_range("an index or term beside it", self.extra < NUMBER_MAX)
            }
            MessageKind::Heartbeat | MessageKind::HeartbeatAnswer | MessageKind::TimeoutNow => {
                Ok(())
            }
        }
    }

    /// Terms never fall along the log, and index 0 alone has none.
    fn check_append(&self) -> Result<(), HeadError> {
        if (self.index == 0) != (self.index_term == 0) {
            return Err(HeadError::Range("the term of an index"));
        }
        let terms = self.entries.iter().map(|entry| entry.term);
        let terms = || std::iter::once(self.index_term).chain(terms.clone());
        let is_rising = terms().zip(terms().skip(1)).all(|(one, next)| one <= next && next > 0);
        if !is_rising || terms().any(|term| term > self.term) {
            return Err(HeadError::Range("the term of an entry"));
        }
        let size = self.bodies().sum();
        if size > BODIES_BYTES_MAX { Err(HeadError::Size(size)) } else { Ok(()) }
    }

    fn check_base(&self) -> Result<(), HeadError> {
        if self.index == 0 || self.index_term == 0 || self.index_term > self.term {
            return Err(HeadError::Range("the term of an index"));
        }
        match &self.entries[..] {
            [members] if members.kind == EntryKind::Members => Ok(()),
            _ => Err(HeadError::Bodies),
        }
    }

    /// The message as Raft takes it, and what its entries say.
    pub(in crate::cluster) fn into_message(
        self,
        bodies: Vec<Bytes>,
    ) -> Result<(Message, Vec<LogEntry>), HeadError> {
        if !self.bodies().eq(bodies.iter().map(Bytes::len)) {
            return Err(HeadError::Bodies);
        }
        let mut message = Message::default();
        let (_, name) = KINDS.iter().find(|(kind, _)| *kind == self.kind).expect("every kind");
        message.set_msg_type(*name);
        (message.from, message.to, message.term) = (self.from, self.to, self.term);
        (message.index, message.log_term) = (self.index, self.index_term);
        (message.commit, message.reject) = (self.commit, self.flags & REFUSED != 0);
        match self.kind {
            MessageKind::AppendAnswer => message.reject_hint = self.extra,
            MessageKind::Vote
            | MessageKind::PreVote
            | MessageKind::VoteAnswer
            | MessageKind::PreVoteAnswer => {
                message.commit_term = self.extra;
            }
            MessageKind::Heartbeat | MessageKind::HeartbeatAnswer if self.flags & ASKED != 0 => {
                message.context = Bytes::copy_from_slice(&self.extra.to_le_bytes());
            }
            _ => {}
        }
        if self.flags & TRANSFER != 0 {
            message.context = Bytes::from_static(TRANSFER_CONTEXT);
        }
        if self.kind == MessageKind::Base {
            let members = Members::decode(&bodies[0])?;
            let base = Base { index: self.index, term: self.index_term, members };
            (message.index, message.log_term) = (0, 0);
            message.set_snapshot(super::storage::snapshot(&base));
            return Ok((message, Vec::new()));
        }
        let mut bodies = bodies.into_iter();
        let mut entries = Vec::with_capacity(self.entries.len());
        for (index, head) in (self.index + 1..).zip(&self.entries) {
            let payload = match head.kind {
                EntryKind::Blank => Payload::Blank,
                EntryKind::Facts => {
                    let (first, now, count) = (head.first, Micros(head.now), head.count);
                    let body = bodies.next().ok_or(HeadError::Bodies)?;
                    Payload::Facts(EpochFacts { first, now, count, body })
                }
                EntryKind::Members => {
                    let body = bodies.next().ok_or(HeadError::Bodies)?;
                    Payload::Members(Members::decode(&body)?)
                }
            };
            entries.push(LogEntry { index, term: head.term, node: head.node, payload });
        }
        message.set_entries(entries.iter().map(super::storage::as_raft).collect());
        Ok((message, entries))
    }
}

impl EntryHead {
    fn read(bytes: &mut &[u8]) -> Result<EntryHead, HeadError> {
        let (term, node) = (bytes.get_u64_le(), bytes.get_u64_le());
        let (first, now) = (bytes.get_u64_le(), bytes.get_u64_le());
        let (count, size) = (bytes.get_u32_le(), bytes.get_u32_le());
        let (kind, sizes) = match bytes.get_u64_le() {
            0 => (EntryKind::Blank, 0..=0),
            1 => (EntryKind::Facts, 1..=BATCH_BYTES_MAX),
            2 => (EntryKind::Members, 1..=MEMBERS_BYTES_MAX),
            _ => return Err(HeadError::Reserved),
        };
        if !sizes.contains(&(size as usize)) {
            return Err(HeadError::Size(size as usize));
        }
        let head = EntryHead { term, node, first, now, count, bytes: size, kind };
        head.check()?;
        Ok(head)
    }

    fn check(&self) -> Result<(), HeadError> {
        let EntryHead { first, now, count, .. } = *self;
        if self.node == 0 {
            return Err(HeadError::Range("the node of an entry"));
        }
        if self.kind != EntryKind::Facts {
            let is_none = (first, now, count) == (0, 0, 0);
            return if is_none { Ok(()) } else { Err(HeadError::Reserved) };
        }
        if first == 0 || first >= NUMBER_MAX || count == 0 {
            return Err(HeadError::Range("the sequence or number of facts"));
        }
        if now < NUMBER_MAX { Ok(()) } else { Err(HeadError::Range("the time of facts")) }
    }

    /// Without a body.
    fn of(term: u64, node: u64, payload: &Payload) -> EntryHead {
        let (kind, first, now, count) = match payload {
            Payload::Blank => (EntryKind::Blank, 0, 0, 0),
            Payload::Facts(facts) => (EntryKind::Facts, facts.first, facts.now.0, facts.count),
            Payload::Members(_) => (EntryKind::Members, 0, 0, 0),
        };
        EntryHead { term, node, first, now, count, bytes: 0, kind }
    }
}

/// The header of Raft's message; `entries` are those of its entries that it names. None for messages that peers never
/// send.
pub(in crate::cluster) fn frame(message: &Message, entries: &[LogEntry]) -> Option<Outgoing> {
    let name = message.get_msg_type();
    let (kind, _) = KINDS.iter().find(|(_, other)| *other == name)?;
    let mut head = Head {
        kind: *kind,
        flags: if message.reject { REFUSED } else { 0 } & kind.flags(),
        tag: 0,
        from: message.from,
        to: message.to,
        term: message.term,
        index: message.index,
        index_term: message.log_term,
        commit: message.commit,
        extra: message.reject_hint.max(message.commit_term),
        entries: Vec::with_capacity(entries.len()),
    };
    if let Ok(context) = <[u8; 8]>::try_from(&message.context[..]) {
        (head.flags, head.extra) = (head.flags | ASKED, u64::from_le_bytes(context));
    }
    if message.context == TRANSFER_CONTEXT {
        head.flags |= TRANSFER;
    }
    let mut bodies = Vec::new();
    let mut entry = |term, node, payload: &Payload| {
        let body = match payload {
            Payload::Blank => None,
            Payload::Facts(facts) => Some(facts.body.clone()),
            Payload::Members(members) => Some(members_bytes(members)),
        };
        let bytes = body.as_ref().map_or(0, Bytes::len) as u32;
        bodies.extend(body);
        head.entries.push(EntryHead { bytes, ..EntryHead::of(term, node, payload) });
    };
    if *kind == MessageKind::Base {
        let base = super::storage::base(message.get_snapshot());
        entry(base.term, message.from, &Payload::Members(base.members));
        (head.index, head.index_term) = (base.index, base.term);
    } else {
        entries.iter().for_each(|one| entry(one.term, one.node, &one.payload));
    }
    let lane = match kind {
        // Every append, also an empty one: one that overtook the entries before it would be refused, and they would
        // be sent a second time.
        MessageKind::Append => Lane::Data,
        // The file first, the message when the receiver has all of it: `Node::base_ended`.
        MessageKind::Base => Lane::Base,
        _ => Lane::Control,
    };
    Some(Outgoing { to: head.to, lane, head: head.bytes(), bodies })
}

impl Head {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + ENTRY_BYTES * self.entries.len());
        bytes.put_u8(self.kind as u8);
        bytes.put_u8(self.flags);
        bytes.put_u16_le(self.entries.len() as u16);
        bytes.put_u32_le(self.tag);
        for number in
            [self.from, self.to, self.term, self.index, self.index_term, self.commit, self.extra]
        {
            bytes.put_u64_le(number);
        }
        for entry in &self.entries {
            for number in [entry.term, entry.node, entry.first, entry.now] {
                bytes.put_u64_le(number);
            }
            bytes.put_u32_le(entry.count);
            bytes.put_u32_le(entry.bytes);
            bytes.put_u64_le(entry.kind as u64);
        }
        bytes
    }
}

fn members_bytes(members: &Members) -> Bytes {
    let mut bytes = Vec::new();
    members.encode(&mut bytes);
    Bytes::from(bytes)
}

/// The members of a base travel inside what Raft hands through without looking.
pub(in crate::cluster) fn members_into(members: &Members, snapshot: &mut Snapshot) {
    snapshot.data = members_bytes(members);
}

#[cfg(test)]
mod tests;
