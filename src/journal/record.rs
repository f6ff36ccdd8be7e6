//! The head of a batch: what stands before the facts of a turn, and before each piece of a base.

use crate::ids::Index;
use crate::time::Micros;

/// Bytes of a head.
pub const HEAD_BYTES: usize = 64;

/// Batches begin at multiples of this; their bodies are padded with zeros up to it.
pub const ALIGN: u64 = 8;

/// The version of the format of batches.
pub const BATCH_VERSION: u8 = 1;

/// What the checksum of every batch of a file begins with, so that what an earlier use of the same
/// bytes left never passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seed(u32);

impl Seed {
    /// The seed of a file of this generation and salt.
    pub fn new(generation: u64, salt: u64) -> Seed {
        let crc = crc32c::crc32c(&generation.to_le_bytes());
        Seed(crc32c::crc32c_append(crc, &salt.to_le_bytes()))
    }
}

/// What the body of a batch is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The facts of a turn, in the log.
    Facts,
    /// Images of the state, in a base file.
    Images,
}

/// The head of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "what has no words here is what its name says")]
pub struct Head {
    pub kind: Kind,
    /// The shard; 0.
    pub shard: u16,
    pub index: Index,
    /// The epoch it was written in; 1.
    pub epoch: u64,
    /// The sequence of its first fact, from 1. A batch without facts has that of the next fact.
    pub first: u64,
    /// The newest batch known durable when this one was written.
    pub durable: Index,
    /// The turn's time.
    pub now: Micros,
    /// How many facts, or images.
    pub count: u32,
    /// Bytes of the body, without padding.
    pub length: u32,
    /// CRC-32C of the body.
    pub body_crc: u32,
}

impl Head {
    /// The 64 bytes of this head.
    pub fn encode(&self, seed: Seed) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[4] = BATCH_VERSION;
        bytes[5] = match self.kind {
            Kind::Facts => 0,
            Kind::Images => 1,
        };
        bytes[6..8].copy_from_slice(&self.shard.to_le_bytes());
        let longs = [self.index.0, self.epoch, self.first, self.durable.0, self.now.0];
        for (at, value) in (8..).step_by(8).zip(longs) {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        for (at, value) in (48..).step_by(4).zip([self.count, self.length, self.body_crc]) {
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        let crc = crc32c::crc32c_append(seed.0, &bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a head; nothing if the checksum or the form is wrong.
    pub fn decode(bytes: &[u8; HEAD_BYTES], seed: Seed) -> Option<Head> {
        let head = Head::read(bytes)?;
        (crc32c::crc32c_append(seed.0, &bytes[4..]) == int(bytes, 0)).then_some(head)
    }

    /// Reads a head without looking at its checksum; nothing if the form is wrong.
    pub fn read(bytes: &[u8; HEAD_BYTES]) -> Option<Head> {
        if bytes[4] != BATCH_VERSION || int(bytes, 60) != 0 {
            return None;
        }
        let kind = match bytes[5] {
            0 => Kind::Facts,
            1 => Kind::Images,
            _ => return None,
        };
        Some(Head {
            kind,
            shard: u16::from_le_bytes([bytes[6], bytes[7]]),
            index: Index(long(bytes, 8)),
            epoch: long(bytes, 16),
            first: long(bytes, 24),
            durable: Index(long(bytes, 32)),
            now: Micros(long(bytes, 40)),
            count: int(bytes, 48),
            length: int(bytes, 52),
            body_crc: int(bytes, 56),
        })
    }

    /// Bytes of the whole batch on disk: head, body, padding.
    pub fn span(&self) -> u64 {
        span(self.length as usize)
    }
}

/// Bytes on disk of a batch with a body of `length` bytes.
pub fn span(length: usize) -> u64 {
    (HEAD_BYTES as u64 + length as u64).next_multiple_of(ALIGN)
}

/// The checksum of a body.
pub fn body_crc(body: &[u8]) -> u32 {
    crc32c::crc32c(body)
}

/// Appends a batch to `buffer`: head, body, padding. `head.length` and `head.body_crc` are set here;
/// returns the head as it stands there.
///
/// # Panics
/// If the body has 4 GiB or more.
pub fn push(buffer: &mut Vec<u8>, mut head: Head, body: &[u8], seed: Seed) -> Head {
    head.length = u32::try_from(body.len()).expect("the body of a batch has less than 4 GiB");
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
