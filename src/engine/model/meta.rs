//! META: headers of a job, such as a trace context or a content type. They keep the order in which they were given, and the
//! engine never interprets them.
//!
//! Stored as one block of bytes, pair after pair: the length of the name (1 byte), that of the value (2, little-endian),
//! the name, the value. `tenant` = `acme` is 3 + 6 + 4 bytes; no META is no bytes.

use crate::engine::model::queue_settings::Later;
use crate::error::{Error, Shown};
use crate::limits::{META_BYTES_MAX, META_NAME_BYTES_MAX, META_PAIRS_MAX};

/// Bytes of a pair in addition to its name and value.
const PAIR_BYTES: usize = 3;

/// The longest block, bytes: 8,384.
pub const BLOCK_BYTES_MAX: usize = META_BYTES_MAX + META_PAIRS_MAX * PAIR_BYTES;
const _: () = assert!(BLOCK_BYTES_MAX <= u16::MAX as usize);

/// Bytes around each name and value in a reply, at most: `$8192\r\n` before and `\r\n` behind.
const FRAMING_BYTES: usize = 9;

/// By how much a reply with META may be longer than its block: 960.
pub const META_FRAMING_BYTES: usize = META_PAIRS_MAX * (2 * FRAMING_BYTES - PAIR_BYTES);

/// The META of one job or schedule, as stored; empty for none.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash, Debug)]
pub struct Meta<'a>(&'a [u8]);

impl<'a> Meta<'a> {
    pub const NONE: Meta<'static> = Meta(&[]);

    /// The META in a stored block; none if the block is not one that [`encode`] makes. Cost: a look at each pair.
    pub fn read(block: &'a [u8]) -> Option<Meta<'a>> {
        let (mut rest, mut pairs, mut bytes) = (block, 0, 0);
        while !rest.is_empty() {
            let (name, value, behind) = split(rest)?;
            (rest, pairs, bytes) = (behind, pairs + 1, bytes + name.len() + value.len());
            if !(1..=META_NAME_BYTES_MAX).contains(&name.len()) {
                return None;
            }
        }
        (pairs <= META_PAIRS_MAX && bytes <= META_BYTES_MAX).then_some(Meta(block))
    }

    /// The same of a block that was read or made before.
    pub(in crate::engine) fn trusted(block: &'a [u8]) -> Meta<'a> {
        Meta(block)
    }

    pub fn block(self) -> &'a [u8] {
        self.0
    }

    pub fn is_none(self) -> bool {
        self.0.is_empty()
    }

    /// The most bytes that it takes in a reply; 0 for none.
    pub fn shown_bytes(self) -> usize {
        if self.is_none() { 0 } else { self.0.len() + META_FRAMING_BYTES }
    }

    /// Names and values in the order given.
    pub fn pairs(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (name, value, behind) = split(rest)?;
            rest = behind;
            Some((name, value))
        })
    }
}

/// The META of a request or a schedule, which borrows from nothing.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct OwnMeta(Later<Box<[u8]>>);

impl OwnMeta {
    /// No META; no allocation.
    pub const NONE: OwnMeta = OwnMeta(Later(None));

    /// As a client gives it: names and values by turns.
    ///
    /// # Errors
    ///
    /// A name of no or more than 128 bytes, or that is there twice; more than 8 KiB in all.
    pub fn of(words: &[&[u8]]) -> Result<OwnMeta, Error> {
        Ok(OwnMeta(Later(Some(encode(words)?).filter(|block| !block.is_empty()))))
    }

    pub fn get(&self) -> Meta<'_> {
        Meta(self.0.0.as_deref().unwrap_or_default())
    }
}

impl From<Meta<'_>> for OwnMeta {
    fn from(meta: Meta<'_>) -> OwnMeta {
        OwnMeta(Later((!meta.is_none()).then(|| meta.0.into())))
    }
}

/// The first pair, and what is behind it.
fn split(block: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (&[name, low, high], rest) = block.split_first_chunk()?;
    let (name, rest) = rest.split_at_checked(name.into())?;
    let (value, rest) = rest.split_at_checked(u16::from_le_bytes([low, high]).into())?;
    Some((name, value, rest))
}

/// The block of names and values by turns.
fn encode(words: &[&[u8]]) -> Result<Box<[u8]>, Error> {
    let bytes: usize = words.iter().map(|word| word.len()).sum();
    if bytes > META_BYTES_MAX {
        return Err(Error::text(format!(
            "ERR META has {bytes} bytes; at most {META_BYTES_MAX} are allowed"
        )));
    }
    let pairs = words.as_chunks().0;
    let mut block = Vec::with_capacity(bytes + pairs.len() * PAIR_BYTES);
    for (at, &[name, value]) in pairs.iter().enumerate() {
        if !(1..=META_NAME_BYTES_MAX).contains(&name.len()) {
            let length = name.len();
            return Err(Error::text(format!(
                "ERR META name has {length} bytes; 1 to {META_NAME_BYTES_MAX} are allowed"
            )));
        }
        if pairs[..at].iter().any(|&[other, _]| other == name) {
            let shown = Shown::new(name);
            return Err(Error::text(format!("ERR META name {shown} is given twice")));
        }
        block.push(name.len() as u8);
        block.extend_from_slice(&(value.len() as u16).to_le_bytes());
        block.extend_from_slice(name);
        block.extend_from_slice(value);
    }
    Ok(block.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_read_back_in_its_order() {
        let words: [&[u8]; 6] = [b"tenant", b"acme", b"\0", b"", b"bin", b"\xff\r\n\0"];
        let block = encode(&words).unwrap();
        let meta = Meta::read(&block).expect("a block");
        let read: Vec<&[u8]> = meta.pairs().flat_map(|(name, value)| [name, value]).collect();
        assert_eq!(read, words);
        assert_eq!(encode(&[]).unwrap().len(), 0);
        assert!(Meta::read(&[]).is_some_and(Meta::is_none));
    }

    #[test]
    fn a_block_that_nobody_encoded_is_refused() {
        let longest = [7; META_BYTES_MAX - 1];
        let block = encode(&[b"n", &longest]).unwrap();
        assert_eq!(Meta::read(&block).map(|meta| meta.pairs().count()), Some(1));
        for cut in 1..block.len() {
            assert!(Meta::read(&block[..cut]).is_none(), "cut at {cut}");
        }
        let longer = [&[1, 0, 32][..], b"n", &[7; META_BYTES_MAX]].concat();
        assert!(Meta::read(&longer).is_none(), "a byte too many");
        assert!(Meta::read(&[0, 0, 0]).is_none(), "a name of no bytes");
        assert!(Meta::read(&[&[129, 0, 0][..], &[7; 129]].concat()).is_none(), "a long name");
        let pair = [1, 0, 0, b'n'];
        assert!(Meta::read(&pair.repeat(META_PAIRS_MAX)).is_some());
        assert!(Meta::read(&pair.repeat(META_PAIRS_MAX + 1)).is_none(), "65 pairs");
    }
}
