//! Reading and writing of small records: numbers little-endian, texts after their length.
//!
//! A reader returns nothing if the bytes end too early; it allocates only for bytes that have arrived.

use bytes::Buf;

/// The bytes that have not been read yet.
pub(in crate::cluster) struct WireReader<'a>(pub &'a [u8]);

impl<'a> WireReader<'a> {
    pub fn u8(&mut self) -> Option<u8> {
        self.0.try_get_u8().ok()
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.0.try_get_u16_le().ok()
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.0.try_get_u64_le().ok()
    }

    pub fn u128(&mut self) -> Option<u128> {
        self.0.try_get_u128_le().ok()
    }

    /// So many bytes as they are.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    /// A text of at most `most` bytes in UTF-8.
    pub fn text(&mut self, most: usize) -> Option<&'a str> {
        let length = usize::from(self.u16()?);
        let (text, rest) = self.0.split_at_checked(length).filter(|_| length <= most)?;
        self.0 = rest;
        str::from_utf8(text).ok()
    }

    pub fn is_done(&self) -> bool {
        self.0.is_empty()
    }
}

/// Appends what [`WireReader::text`] reads.
///
/// # Panics
/// If it has 64 KiB or more.
pub(in crate::cluster) fn put_text(into: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len()).expect("a text within its limit");
    into.extend_from_slice(&length.to_le_bytes());
    into.extend_from_slice(text.as_bytes());
}
