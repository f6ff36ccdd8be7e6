//! The first 4096 bytes of a file of the journal: what it is, and what its checksums begin with.

use crate::journal::record::Seed;

/// Bytes of the header block; what follows begins here.
pub const HEADER_BYTES: u64 = 4096;

/// The version of the format of files, and of the records in them, that is written.
pub const FILE_VERSION: u16 = 2;

/// The oldest one that is read.
const FILE_VERSION_MIN: u16 = 1;

/// Where the two copies of the header stand: in sectors of their own, so that one bad sector does
/// not take both.
const COPIES: [usize; 2] = [0, 2048];

const COPY_BYTES: usize = 52;

/// The type of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Magic {
    Segment,
    Base,
    /// The file that names the newest segment.
    Newest,
}

impl Magic {
    fn bytes(self) -> &'static [u8; 8] {
        match self {
            Magic::Segment => b"delaydLG",
            Magic::Base => b"delaydBS",
            Magic::Newest => b"delaydNS",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The version of the file; it is written as the newest one.
    pub version: u16,
    /// The shard; 0.
    pub shard: u16,
    /// For a segment: the number of its use, growing by 1 with each. For a base: X.
    pub generation: u64,
    /// Drawn for each use, so that no client can make up a batch that passes.
    pub salt: u64,
    /// For a segment: the `lsn` of its first record. For a base: X, the last batch it covers.
    pub first: u64,
    /// For a segment: the size of the file. For a base: 0.
    pub bytes: u64,
}

/// The content of the place where a header should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FoundHeader {
    Header(Header),
    /// A header of a version that is not known.
    Version(u16),
    /// Only zeros: never used.
    Zeros,
    /// Anything else: never written as a whole, or damaged.
    Broken,
}

impl Header {
    /// The seed of the checksums of the file's batches.
    pub fn seed(&self) -> Seed {
        Seed::new(self.generation, self.salt, self.version as u8)
    }

    pub fn encode(&self, magic: Magic) -> Box<[u8; HEADER_BYTES as usize]> {
        let mut copy = [0; COPY_BYTES];
        copy[..8].copy_from_slice(magic.bytes());
        copy[8..10].copy_from_slice(&FILE_VERSION.to_le_bytes());
        copy[10..12].copy_from_slice(&self.shard.to_le_bytes());
        let longs = [self.generation, self.salt, self.first, self.bytes];
        for (at, value) in (16..).step_by(8).zip(longs) {
            copy[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        let crc = crc32c::crc32c(&copy[..48]);
        copy[48..].copy_from_slice(&crc.to_le_bytes());
        let mut block = Box::new([0; HEADER_BYTES as usize]);
        for at in COPIES {
            block[at..at + COPY_BYTES].copy_from_slice(&copy);
        }
        block
    }

    /// Reads a block, which is shorter than 4096 bytes if the file is. Of two good copies that
    /// differ, as after a torn write, the one of the later generation counts.
    pub fn decode(block: &[u8], magic: Magic) -> FoundHeader {
        let copies = COPIES.iter().filter_map(|at| block.get(*at..*at + COPY_BYTES));
        let read = copies.filter_map(|copy| decode_copy(copy, magic));
        let best = read.max_by_key(|found| match found {
            FoundHeader::Version(_) => u64::MAX,
            FoundHeader::Header(header) => header.generation,
            FoundHeader::Zeros | FoundHeader::Broken => 0,
        });
        let zeros = || {
            if block.iter().all(|byte| *byte == 0) {
                FoundHeader::Zeros
            } else {
                FoundHeader::Broken
            }
        };
        best.unwrap_or_else(zeros)
    }
}

fn decode_copy(copy: &[u8], magic: Magic) -> Option<FoundHeader> {
    let long = |at: usize| u64::from_le_bytes(copy[at..at + 8].try_into().expect("eight bytes"));
    let short = |at: usize| u16::from_le_bytes([copy[at], copy[at + 1]]);
    let crc = u32::from_le_bytes(copy[48..52].try_into().expect("four bytes"));
    if copy[..8] != magic.bytes()[..] || crc32c::crc32c(&copy[..48]) != crc {
        return None;
    }
    let version = short(8);
    if !(FILE_VERSION_MIN..=FILE_VERSION).contains(&version) {
        return Some(FoundHeader::Version(version));
    }
    Some(FoundHeader::Header(Header {
        version,
        shard: short(10),
        generation: long(16),
        salt: long(24),
        first: long(32),
        bytes: long(40),
    }))
}
