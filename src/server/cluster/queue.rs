//! Data waiting to be written to a connection: parts of messages, whose bodies are shared with the log.

use crate::limits::PEER_PARTS_AT_ONCE;
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};

#[derive(Debug, Default)]
pub struct SendQueue {
    parts: VecDeque<Bytes>,
    bytes: usize,
    /// The waiting bytes of each message.
    messages: VecDeque<usize>,
}

impl SendQueue {
    pub fn push(&mut self, message: impl IntoIterator<Item = Bytes>) {
        let before = self.bytes;
        for part in message.into_iter().filter(|part| !part.is_empty()) {
            self.bytes += part.len();
            self.parts.push_back(part);
        }
        if self.bytes > before {
            self.messages.push_back(self.bytes - before);
        }
    }

    /// Bytes waiting after the message that is being written.
    pub fn bytes_behind_first(&self) -> usize {
        self.bytes - self.messages.front().unwrap_or(&0)
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// All that waits.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(self).parts.into_iter().collect::<Vec<_>>().concat()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Writes about `most` bytes. Whether the connection took all of that: if not it has no room.
    pub fn write(&mut self, to: &mut impl Write, most: usize) -> io::Result<bool> {
        let mut written = 0;
        while !self.is_empty() && written < most {
            let mut slices = [IoSlice::new(&[]); PEER_PARTS_AT_ONCE];
            let (mut count, mut left) = (0, most - written);
            for (slice, part) in slices.iter_mut().zip(&self.parts) {
                let part = &part[..part.len().min(left)];
                *slice = IoSlice::new(part);
                count += 1;
                left -= part.len();
                if left == 0 {
                    break;
                }
            }
            match to.write_vectored(&slices[..count]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => {
                    self.advance(bytes);
                    written += bytes;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn advance(&mut self, mut bytes: usize) {
        self.bytes -= bytes;
        let mut written = bytes;
        while let Some(message) = self.messages.front_mut() {
            let taken = written.min(*message);
            *message -= taken;
            written -= taken;
            if *message > 0 {
                break;
            }
            self.messages.pop_front();
        }
        while let Some(part) = self.parts.front_mut() {
            let taken = part.len().min(bytes);
            part.advance(taken);
            bytes -= taken;
            if !part.is_empty() {
                return;
            }
            self.parts.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes this many bytes a call, and `room` in all.
    struct Narrow {
        taken: Vec<u8>,
        step: usize,
        room: usize,
    }

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.step).min(self.room - self.taken.len());
            self.taken.extend_from_slice(&bytes[..count]);
            if count == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(count) }
        }

        fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            let all: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
            self.write(&all)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_waits_behind_the_first_message_is_known() {
        let message = |bytes: usize| [Bytes::from(vec![0; bytes]), Bytes::from(vec![1; bytes])];
        let mut queue = SendQueue::default();
        queue.push([]);
        assert_eq!(queue.bytes_behind_first(), 0);
        queue.push(message(500));
        assert_eq!(queue.bytes_behind_first(), 0);
        queue.push(message(10));
        queue.push(message(20));
        let mut to = Narrow { taken: Vec::new(), step: 999, room: usize::MAX };
        for behind in [60, 40, 0, 0] {
            assert_eq!(queue.bytes_behind_first(), behind);
            let next = *queue.messages.front().unwrap_or(&0);
            queue.write(&mut to, next).unwrap();
        }
        assert!(queue.is_empty());
    }

    #[test]
    fn everything_leaves_once_and_in_order_wherever_it_is_cut() {
        let parts = || (0..200u8).map(|at| Bytes::from(vec![at; usize::from(at % 7)]));
        let all: Vec<u8> = parts().flatten().collect();
        for step in [1, 2, 3, 5, 64, 10_000] {
            for most in [1, 7, 100, 10_000] {
                let mut queue = SendQueue::default();
                parts().for_each(|part| queue.push([part]));
                let mut to = Narrow { taken: Vec::new(), step, room: 300 };
                while queue.write(&mut to, most).unwrap() {
                    assert!(to.taken.len() <= 300);
                }
                assert_eq!(queue.bytes(), all.len() - 300);
                to.room = usize::MAX;
                while !queue.is_empty() {
                    let before = to.taken.len();
                    assert!(queue.write(&mut to, most).unwrap());
                    assert!((1..=most).contains(&(to.taken.len() - before)));
                }
                assert_eq!(to.taken, all);
            }
        }
    }
}
