//! Buffers that pass from client to client: only those in use are held, so ten thousand idle
//! connections hold none.

use bytes::BytesMut;

/// The room a buffer starts with: what one read takes at most when nothing larger is expected.
pub const BUFFER_BYTES: usize = 16 * 1024;

/// Larger ones have carried a large body and are given back to the system.
const KEPT_BYTES_MAX: usize = 4 * BUFFER_BYTES;

/// Most buffers kept: 64 × 64 KiB at the most.
const KEPT_MAX: usize = 64;

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
        if self.kept.len() == KEPT_MAX {
            return;
        }
        buffer.clear();
        // Moves its start back, which consuming had moved on. A small one was made for a message.
        if buffer.try_reclaim(BUFFER_BYTES) && buffer.capacity() <= KEPT_BYTES_MAX {
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
