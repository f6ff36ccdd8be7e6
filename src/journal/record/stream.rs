//! Records read from a file front to back, through one buffer.

use crate::journal::record::{HEAD_BYTES, Head, Seed, body_crc};
use crate::journal::storage::File;
use std::io;

/// A window of a file that moves forward. It grows to the largest record it has to hold.
#[derive(Debug)]
pub(in crate::journal) struct RecordStream {
    buffer: Vec<u8>,
    /// Where in the file the buffer begins.
    at: u64,
    /// How much of the buffer is filled.
    filled: usize,
}

/// The content of a position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::journal) enum FoundAt {
    /// An intact record.
    Record(Head),
    /// Something else, and what is wrong.
    Bad(&'static str),
}

impl RecordStream {
    /// A stream that reads `bytes` at once.
    pub fn new(bytes: usize) -> RecordStream {
        RecordStream { buffer: vec![0; bytes.max(HEAD_BYTES)], at: 0, filled: 0 }
    }

    /// Forgets what was read: another file follows.
    pub fn reset(&mut self) {
        (self.at, self.filled) = (0, 0);
    }

    /// Looks at the record that begins at `at`.
    pub fn examine(&mut self, file: &impl File, at: u64, seed: Seed) -> io::Result<FoundAt> {
        let head_bytes = seed.head_bytes();
        let bytes = self.view(file, at, head_bytes)?;
        if bytes.len() < head_bytes {
            return Ok(FoundAt::Bad("the file ends there"));
        }
        let Some(head) = Head::decode(bytes, seed) else {
            return Ok(FoundAt::Bad("its header does not match its checksum"));
        };
        let length = head.length as usize;
        // Before memory is taken for it: the body of a file that was cut short is not there.
        if !self.is_buffered(at, head_bytes + length) && at + head.span() > file.bytes()? {
            return Ok(FoundAt::Bad("the file ends within it"));
        }
        let batch = self.view(file, at, head_bytes + length)?;
        match batch.get(head_bytes..head_bytes + length) {
            Some(body) if body_crc(body) == head.body_crc => Ok(FoundAt::Record(head)),
            Some(_) => Ok(FoundAt::Bad("its body does not match its checksum")),
            None => Ok(FoundAt::Bad("the file ends within it")),
        }
    }

    /// Up to `bytes` bytes from `at`; fewer only where the file ends.
    pub fn view(&mut self, file: &impl File, at: u64, bytes: usize) -> io::Result<&[u8]> {
        if !self.is_buffered(at, bytes) {
            self.advance(at);
            if self.buffer.len() < bytes {
                self.buffer.resize(bytes, 0);
            }
            while self.filled < bytes {
                match file.read_at(&mut self.buffer[self.filled..], self.at + self.filled as u64)? {
                    0 => break,
                    count => self.filled += count,
                }
            }
        }
        Ok(self.buffered(at, bytes))
    }

    /// As [`view`](RecordStream::view), of what has been read.
    pub fn buffered(&self, at: u64, bytes: usize) -> &[u8] {
        let start = ((at - self.at) as usize).min(self.filled);
        &self.buffer[start..(start + bytes).min(self.filled)]
    }

    fn is_buffered(&self, at: u64, bytes: usize) -> bool {
        at >= self.at && at + bytes as u64 <= self.at + self.filled as u64
    }

    /// Moves the window to begin at `at`; keeps what it has of that.
    fn advance(&mut self, at: u64) {
        let end = self.at + self.filled as u64;
        if (self.at..end).contains(&at) {
            let from = (at - self.at) as usize;
            self.buffer.copy_within(from..self.filled, 0);
            self.filled -= from;
        } else {
            self.filled = 0;
        }
        self.at = at;
    }
}
