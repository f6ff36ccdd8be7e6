//! Buffers that pass from client to client: only those in use are held, so ten thousand idle
//! connections hold none.

use crate::limits::{BUFFER_BYTES, BUFFER_KEPT_BYTES_MAX, BUFFERS_KEPT_MAX};
use bytes::BytesMut;

/// Empty buffers to take from and put back.
#[derive(Debug, Default)]
pub struct Buffers {
    kept: Vec<BytesMut>,
}

impl Buffers {
    /// An empty buffer with room for [`BUFFER_BYTES`].
    pub fn take(&mut self) -> BytesMut {
        let mut buffer = self.kept.pop().unwrap_or_default();
        buffer.reserve(BUFFER_BYTES);
        buffer
    }

    /// Takes back a buffer whose content is no longer wanted.
    pub fn put(&mut self, mut buffer: BytesMut) {
        if self.kept.len() == BUFFERS_KEPT_MAX {
            return;
        }
        buffer.clear();
        // Moves its start back, which consuming had moved on. A small one was made for a message.
        if buffer.try_reclaim(BUFFER_BYTES) && buffer.capacity() <= BUFFER_KEPT_BYTES_MAX {
            self.kept.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Buf;

    #[test]
    fn a_buffer_comes_back_with_all_its_room() {
        let mut buffers = Buffers::default();
        let mut buffer = buffers.take();
        buffer.extend_from_slice(&[1; 5000]);
        buffer.advance(5000);
        let start = buffer.as_ptr() as usize - 5000;
        buffers.put(buffer);
        let again = buffers.take();
        assert_eq!((again.as_ptr() as usize, again.capacity()), (start, BUFFER_BYTES));
        buffers.put(BytesMut::with_capacity(1 << 20));
        assert_eq!(buffers.take().capacity(), BUFFER_BYTES);
    }
}
