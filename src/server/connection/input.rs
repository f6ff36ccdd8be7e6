//! A client's input that has not run yet.

use crate::limits::{
    BUFFER_BYTES, INPUT_HOLD_BYTES, INPUT_PIECE_BYTES_MAX, INPUT_SPARSE_BYTES, OUTPUT_PIECE_BYTES,
    READ_BYTES_PER_TURN, TAIL_BYTES_MAX,
};
use crate::resp::Framer;
use crate::server::connection::common::Buffers;
use crate::server::connection::stream::Stream;
use bytes::BytesMut;
use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll};

#[derive(Debug, Default)]
pub struct Input {
    /// Requests, or parts of them, in order.
    pub bytes: BytesMut,
    /// Bytes allocated for them: a buffer from which requests were consumed reports only its rest.
    room: usize,
    /// Later input while the client waited, in pieces that are never empty.
    later: VecDeque<BytesMut>,
    later_bytes: usize,
}

impl Input {
    pub fn len(&self) -> usize {
        self.bytes.len() + self.later_bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether some of them are kept in pieces.
    pub fn has_later(&self) -> bool {
        !self.later.is_empty()
    }

    /// Room left in the buffer that is read into.
    pub fn free_bytes(&self) -> usize {
        let piece = self.later.back().unwrap_or(&self.bytes);
        piece.capacity() - piece.len()
    }

    pub fn held_bytes(&self) -> usize {
        self.room
            + self.later.len() * OUTPUT_PIECE_BYTES
            + self.later.capacity() * size_of::<BytesMut>()
    }

    /// Reads once from `stream`, after the present data. While the client waits, data beyond 64 KiB is put aside: one
    /// buffer would have to be moved again and again as it grows.
    pub fn read(
        &mut self,
        stream: &mut Stream,
        cx: &mut Context<'_>,
        framer: &Framer,
        is_waiting: bool,
        buffers: &mut Buffers,
    ) -> Poll<io::Result<usize>> {
        if self.has_later() || is_waiting && self.bytes.len() >= INPUT_HOLD_BYTES {
            return self.read_aside(stream, cx);
        }
        self.make_room(framer, buffers);
        stream.poll_read(cx, &mut self.bytes)
    }

    /// Moves a piece of the stored input to the end of the other requests; false if there is none.
    pub fn take_later(&mut self, buffers: &mut Buffers) -> bool {
        let Some(piece) = self.later.pop_front() else { return false };
        if self.later.is_empty() {
            self.later = VecDeque::new();
        }
        self.later_bytes -= piece.len();
        if self.bytes.is_empty() {
            self.room = piece.capacity();
            buffers.put(std::mem::replace(&mut self.bytes, piece));
        } else {
            self.make_room_for(piece.len(), self.bytes.len(), buffers);
            self.bytes.extend_from_slice(&piece);
            buffers.put(piece);
        }
        true
    }

    /// Gives back what buffer the rest does not need.
    pub fn trim_buffer(&mut self, buffers: &mut Buffers) {
        if self.bytes.is_empty() {
            if self.room > 0 {
                buffers.put(std::mem::take(&mut self.bytes));
                self.room = 0;
            }
            return;
        }
        let short = self.bytes.len() <= TAIL_BYTES_MAX && self.room > 2 * TAIL_BYTES_MAX;
        let sparse = self.room > INPUT_SPARSE_BYTES && self.bytes.len() < self.room / 4;
        if short || sparse {
            let tail = BytesMut::from(&self.bytes[..]);
            self.room = tail.capacity();
            buffers.put(std::mem::replace(&mut self.bytes, tail));
        }
    }

    fn read_aside(&mut self, stream: &mut Stream, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let room = |piece: &BytesMut| piece.capacity() - piece.len();
        let mut piece = match self.later.pop_back() {
            Some(last) if room(&last) >= INPUT_PIECE_BYTES_MAX => last,
            last => {
                self.later.extend(last);
                BytesMut::with_capacity(OUTPUT_PIECE_BYTES)
            }
        };
        let read = stream.poll_read(cx, &mut piece);
        if let Poll::Ready(Ok(count)) = read {
            self.later_bytes += count;
        }
        if !piece.is_empty() {
            self.later.push_back(piece);
        }
        read
    }

    fn make_room(&mut self, framer: &Framer, buffers: &mut Buffers) {
        let wanted = framer.wanted(&self.bytes);
        if self.bytes.capacity() - self.bytes.len() < wanted.clamp(1, READ_BYTES_PER_TURN) {
            // The framer's own demand grows by itself.
            let spare = if wanted > 0 { 0 } else { self.bytes.len() };
            self.make_room_for(wanted.max(BUFFER_BYTES), spare, buffers);
        }
    }

    /// Ensures space for this many bytes more; if they have to be moved for it, with some to spare.
    fn make_room_for(&mut self, bytes: usize, spare: usize, buffers: &mut Buffers) {
        if self.bytes.capacity() - self.bytes.len() >= bytes {
            return;
        }
        let room = self.bytes.len() + bytes.max(spare);
        let mut larger = match room <= BUFFER_BYTES + TAIL_BYTES_MAX {
            // The tail of a request, most often: a little less than asked for will do.
            true => buffers.take(),
            false => BytesMut::with_capacity(room),
        };
        larger.extend_from_slice(&self.bytes);
        self.room = larger.capacity();
        buffers.put(std::mem::replace(&mut self.bytes, larger));
    }
}
