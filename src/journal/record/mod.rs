//! The header of a record: before the facts of a turn, before each piece of a base, and before the other records of a
//! log. `journal` has the layout.

pub(super) mod chain;
pub mod entry;
pub(super) mod header;
pub mod raft_state;
pub(super) mod stream;

use crate::ids::Index;
use crate::time::Micros;
use crate::words::words;

/// Bytes of a head of version 2.
pub const HEAD_BYTES: usize = 88;

/// Bytes of a head of version 1.
pub const HEAD_BYTES_1: usize = 64;

/// Records begin at multiples of this; their bodies are padded with zeros up to it.
pub const ALIGN: u64 = 8;

/// The version of the format of records that is written.
pub const RECORD_VERSION: u8 = 2;

/// The seed of the checksum of every record of a file, so that remains of an earlier use never
/// pass; and the version of the file's records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seed {
    crc: u32,
    version: u8,
}

impl Seed {
    /// The seed of a file of this generation and salt, whose records are of this version.
    pub fn new(generation: u64, salt: u64, version: u8) -> Seed {
        let crc = crc32c::crc32c(&generation.to_le_bytes());
        Seed { crc: crc32c::crc32c_append(crc, &salt.to_le_bytes()), version }
    }

    /// Bytes of the file's heads.
    pub fn head_bytes(self) -> usize {
        head_bytes(self.version)
    }
}

fn head_bytes(version: u8) -> usize {
    if version == 1 { HEAD_BYTES_1 } else { HEAD_BYTES }
}

words! {
    /// A record has its place here as a number: never reordered, only added to.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum RecordKind {
        /// A batch: the facts of a turn.
        Facts = "facts",
        /// Images of the state, in a base file.
        Images = "images",
        /// A batch without facts, with which a leader begins its epoch.
        Blank = "blank",
        /// A batch whose body defines the members from here on.
        Members = "members",
        /// The log's state so far: see `State`.
        State = "state",
        /// The batches after `index` are void.
        Cut = "cut",
        /// A vote of this node.
        Vote = "vote",
    }
}

impl RecordKind {
    /// Whether it is a batch: one that has an index of its own.
    pub fn is_batch(self) -> bool {
        matches!(self, RecordKind::Facts | RecordKind::Blank | RecordKind::Members)
    }

    fn of(number: u8, version: u8) -> Option<RecordKind> {
        RecordKind::ALL.get(usize::from(number)).copied().filter(|_| version > 1 || number < 2)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    pub version: u8,
    pub kind: RecordKind,
    /// The shard; 0.
    pub shard: u16,
    /// Its number among all records of the log, without gaps. In version 1 the index.
    pub lsn: u64,
    /// The newest `lsn` known durable when this one was written.
    pub durable: u64,
    /// For a batch: its index. For a cut: the last batch that stays. Otherwise: the last batch.
    pub index: Index,
    /// For a batch: the epoch it was made in. Otherwise: that of batch `index`.
    pub epoch: u64,
    /// The node that led then; 0 for a standalone server.
    pub node: u64,
    /// The sequence of its first fact, from 1. A record without facts has that of the next fact.
    pub first: u64,
    /// The turn's time.
    pub now: Micros,
    /// The newest batch known committed when this was written.
    pub committed: Index,
    /// How many facts, or images.
    pub count: u32,
    /// Bytes of the body, without padding.
    pub length: u32,
    /// CRC-32C of the body.
    pub body_crc: u32,
}

impl Head {
    /// The bytes of this head, of the version that is written.
    pub fn encode(&self, seed: Seed) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[4] = RECORD_VERSION;
        bytes[5] =
            RecordKind::ALL.iter().position(|kind| *kind == self.kind).expect("one of all") as u8;
        bytes[6..8].copy_from_slice(&self.shard.to_le_bytes());
        let longs = [
            self.lsn, self.durable, self.index.0, self.epoch, self.node, self.first, self.now.0,
            self.committed.0,
        ];
        for (at, value) in (8..).step_by(8).zip(longs) {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        for (at, value) in (72..).step_by(4).zip([self.count, self.length, self.body_crc]) {
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        let crc = crc32c::crc32c_append(seed.crc, &bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a head; nothing if the checksum or the form is wrong. `bytes` are as many as the seed says.
    pub fn decode(bytes: &[u8], seed: Seed) -> Option<Head> {
        let head = Head::read(bytes, seed)?;
        (crc32c::crc32c_append(seed.crc, &bytes[4..seed.head_bytes()]) == int(bytes, 0))
            .then_some(head)
    }

    /// Reads a head without looking at its checksum; nothing if the form is wrong.
    pub fn read(bytes: &[u8], seed: Seed) -> Option<Head> {
        if bytes.len() < seed.head_bytes() || bytes[4] != seed.version {
            return None;
        }
        let kind = RecordKind::of(bytes[5], seed.version)?;
        let shard = u16::from_le_bytes([bytes[6], bytes[7]]);
        let tail = seed.head_bytes() - 16;
        if int(bytes, tail + 12) != 0 {
            return None;
        }
        let (count, length, body_crc) =
            (int(bytes, tail), int(bytes, tail + 4), int(bytes, tail + 8));
        let long = |at: usize| long(bytes, at);
        let mut head = Head {
            version: seed.version,
            kind,
            shard,
            lsn: long(8),
            durable: long(16),
            index: Index(long(24)),
            epoch: long(32),
            node: long(40),
            first: long(48),
            now: Micros(0),
            committed: Index(0),
            count,
            length,
            body_crc,
        };
        if seed.version == 1 {
            // One machine alone: what is there is committed.
            (head.index, head.committed) = (Index(head.lsn), Index(head.lsn));
            (head.epoch, head.first, head.durable) = (long(16), long(24), long(32));
            (head.now, head.node) = (Micros(long(40)), 0);
        } else {
            (head.now, head.committed) = (Micros(long(56)), Index(long(64)));
        }
        Some(head)
    }

    /// Bytes of the whole record on disk: head, body, padding.
    pub fn span(&self) -> u64 {
        (self.body_at() + u64::from(self.length)).next_multiple_of(ALIGN)
    }

    /// Where its body begins, from its own beginning.
    pub fn body_at(&self) -> u64 {
        head_bytes(self.version) as u64
    }
}

/// Bytes on disk of a record with a body of `length` bytes.
pub fn span(length: usize) -> u64 {
    (HEAD_BYTES as u64 + length as u64).next_multiple_of(ALIGN)
}

pub fn body_crc(body: &[u8]) -> u32 {
    crc32c::crc32c(body)
}

/// Appends a record to `buffer`: header, body, padding. `head.length` and `head.body_crc` are set here; returns the
/// header as written.
///
/// # Panics
/// If the body has 4 GiB or more.
pub fn push(buffer: &mut Vec<u8>, mut head: Head, body: &[u8], seed: Seed) -> Head {
    head.length = u32::try_from(body.len()).expect("the body of a record has less than 4 GiB");
    head.body_crc = body_crc(body);
    let end = buffer.len() + span(body.len()) as usize;
    buffer.extend_from_slice(&head.encode(seed));
    buffer.extend_from_slice(body);
    buffer.resize(end, 0);
    head
}

fn int(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
