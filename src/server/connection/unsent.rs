//! Bytes that a client is still to be sent, in pieces: however many there are, adding some moves none of
//! those before them, and each piece's memory is given back once it has left.

use crate::limits::{OUTPUT_PIECE_BYTES, OUTPUT_PIECE_SLACK_BYTES, TAIL_BYTES_MAX};
use crate::server::connection::common::Buffers;
use bytes::BytesMut;
use std::collections::VecDeque;

///
/// ```text
/// full: [64 KiB] [64 KiB] [5 MiB: one reply]   last: [3 KiB   ]
///        ^ gone_bytes: so much of the oldest has left
/// ```
#[derive(Debug, Default)]
pub struct Unsent {
    /// Pieces that nothing is added to any more, oldest first.
    full: VecDeque<BytesMut>,
    full_bytes: usize,
    /// Bytes allocated for them.
    full_room: usize,
    /// The piece that is being written.
    last: BytesMut,
    /// How much of the oldest piece has left: always less than all of it.
    sent_bytes: usize,
}

impl Unsent {
    pub fn len(&self) -> usize {
        self.full_bytes + self.last.len() - self.sent_bytes
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn held_bytes(&self) -> usize {
        let list = self.full.capacity() * size_of::<BytesMut>();
        self.full_room + self.last.capacity() + list
    }

    /// How many pieces stand before the one that is being written.
    pub fn queued_count(&self) -> usize {
        self.full.len()
    }

    /// Bytes in the piece that is being written.
    pub fn last_bytes(&self) -> usize {
        let gone = if self.full.is_empty() { self.sent_bytes } else { 0 };
        self.last.len() - gone
    }

    /// Where to add bytes. A buffer for the first ones comes from `buffers`.
    #[inline]
    pub fn writer(&mut self, buffers: &mut Buffers) -> &mut BytesMut {
        if self.last.capacity() == 0 || self.last.len() >= OUTPUT_PIECE_BYTES / 2 {
            self.make_room(buffers);
        }
        &mut self.last
    }

    /// Sees to room for a large reply in one piece: one that grows would end up with twice what it needs.
    pub fn reserve(&mut self, bytes: usize) {
        if bytes < OUTPUT_PIECE_BYTES {
            return;
        }
        self.make_piece_for(bytes);
        self.last.reserve(bytes + OUTPUT_PIECE_SLACK_BYTES);
    }

    fn make_room(&mut self, buffers: &mut Buffers) {
        self.make_piece_for(OUTPUT_PIECE_SLACK_BYTES);
        if self.last.capacity() == 0 {
            self.last = match self.full.is_empty() {
                true => buffers.take(),
                false => BytesMut::with_capacity(OUTPUT_PIECE_BYTES),
            };
        }
    }

    /// Adds bytes; the first ones get no more room than they need, as ten thousand subscribers of short
    /// messages are to hold ten thousand short buffers.
    pub fn append<const N: usize>(&mut self, parts: [&[u8]; N]) {
        let wanted = parts.iter().map(|part| part.len()).sum();
        self.make_piece_for(wanted);
        if self.last.capacity() == 0 {
            let room = if self.full.is_empty() { wanted } else { wanted.max(OUTPUT_PIECE_BYTES) };
            self.last = BytesMut::with_capacity(room);
        }
        parts.iter().for_each(|part| self.last.extend_from_slice(part));
    }

    /// Gives back what buffer a few bytes do not need: they have to wait among many others.
    pub fn trim(&mut self, buffers: &mut Buffers) {
        let bytes = self.last_bytes();
        if bytes == 0 || bytes > TAIL_BYTES_MAX || self.last.capacity() <= 2 * TAIL_BYTES_MAX {
            return;
        }
        let sent = self.last.len() - bytes;
        let tail = BytesMut::from(&self.last[sent..]);
        buffers.put(std::mem::replace(&mut self.last, tail));
        if self.full.is_empty() {
            self.sent_bytes = 0;
        }
    }

    /// The oldest contiguous bytes, at most this many.
    pub fn first(&self, bytes_max: usize) -> &[u8] {
        let piece = self.full.front().unwrap_or(&self.last);
        let bytes = &piece[self.sent_bytes..];
        &bytes[..bytes.len().min(bytes_max)]
    }

    /// The oldest `count` bytes have left.
    pub fn drop_first(&mut self, count: usize, buffers: &mut Buffers) {
        self.sent_bytes += count;
        self.drop_sent(buffers);
    }

    /// Takes away all but the oldest `count` bytes and returns them.
    pub fn split_off(&mut self, count: usize, buffers: &mut Buffers) -> BytesMut {
        let mut kept = count + self.sent_bytes;
        let mut rest = BytesMut::new();
        let mut full = std::mem::take(&mut self.full);
        (self.full_bytes, self.full_room) = (0, 0);
        let mut last = std::mem::take(&mut self.last);
        for mut piece in full.drain(..) {
            rest.extend_from_slice(&piece[kept.min(piece.len())..]);
            piece.truncate(kept);
            kept -= piece.len();
            if !piece.is_empty() {
                self.push_full(piece);
            }
        }
        rest.extend_from_slice(&last[kept..]);
        last.truncate(kept);
        self.last = last;
        self.drop_sent(buffers);
        rest
    }

    #[cfg(test)]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len() + self.sent_bytes);
        self.full.iter().chain([&self.last]).for_each(|piece| all.extend_from_slice(piece));
        all.split_off(self.sent_bytes)
    }

    /// Forgets all; buffers go back to `buffers`.
    pub fn clear(&mut self, buffers: &mut Buffers) {
        let Unsent { full, last, .. } = std::mem::take(self);
        full.into_iter().chain([last]).for_each(|piece| buffers.put(piece));
    }

    /// Gives back the pieces that have left.
    fn drop_sent(&mut self, buffers: &mut Buffers) {
        while let Some(piece) = self.full.front()
            && self.sent_bytes >= piece.len()
        {
            self.sent_bytes -= piece.len();
            self.full_bytes -= piece.len();
            self.full_room -= piece.capacity();
            buffers.put(self.full.pop_front().expect("it was looked at"));
        }
        if self.full.is_empty() {
            if self.full.capacity() > 0 {
                self.full = VecDeque::new();
            }
            if self.sent_bytes == self.last.len() {
                buffers.put(std::mem::take(&mut self.last));
                self.sent_bytes = 0;
            }
        }
    }

    /// Begins another piece if this many bytes more would make this one grow, unless it holds
    /// little.
    fn make_piece_for(&mut self, bytes: usize) {
        if self.last.len() >= OUTPUT_PIECE_BYTES / 2 && self.last.len() + bytes > OUTPUT_PIECE_BYTES
        {
            let piece = std::mem::take(&mut self.last);
            self.push_full(piece);
        }
    }

    fn push_full(&mut self, piece: BytesMut) {
        self.full_bytes += piece.len();
        self.full_room += piece.capacity();
        self.full.push_back(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    /// Against one long row of bytes: what is added, leaves and is cut off at random stays in order.
    #[test]
    fn pieces_are_one_row_of_bytes() {
        for seed in 0..200 {
            let mut random = SmallRng::seed_from_u64(seed);
            let (mut unsent, mut buffers) = (Unsent::default(), Buffers::default());
            let (mut model, mut next) = (Vec::<u8>::new(), 0_u8);
            for step in 0..200 {
                let context = format!("seed {seed}, step {step}");
                match random.random_range(0..10) {
                    0..6 => {
                        let most = if random.random_bool(0.1) { 200_000 } else { 6_000 };
                        let bytes = vec![next; random.random_range(1..most)];
                        next = next.wrapping_add(1);
                        match random.random_bool(0.5) {
                            true => unsent.append([&bytes[..1], &bytes[1..]]),
                            false => unsent.writer(&mut buffers).extend_from_slice(&bytes),
                        }
                        model.extend_from_slice(&bytes);
                    }
                    6 => unsent.trim(&mut buffers),
                    7..9 => {
                        let most = random.random_range(0..150_000);
                        let first = unsent.first(most);
                        assert!(model.starts_with(first), "{context}");
                        assert!(first.len() == most || !first.is_empty() || model.is_empty());
                        let count = random.random_range(0..=first.len());
                        unsent.drop_first(count, &mut buffers);
                        model.drain(..count);
                    }
                    _ => {
                        let at = random.random_range(0..=model.len());
                        let (rest, own) = (unsent.split_off(at, &mut buffers), model.split_off(at));
                        assert_eq!(rest[..], own[..], "{context}");
                    }
                }
                assert_eq!(unsent.len(), model.len(), "{context}");
                assert_eq!(unsent.is_empty(), model.is_empty(), "{context}");
                assert!(unsent.to_vec() == model, "{context}");
                let pieces = unsent.full.iter().chain([&unsent.last]);
                let room: usize = pieces.map(BytesMut::capacity).sum();
                assert!(unsent.held_bytes() >= room, "{context}");
            }
        }
    }

    /// A hundred MB of short replies hold little more than themselves, and nothing once they have left.
    #[test]
    fn a_backlog_holds_what_it_is() {
        let (mut unsent, mut buffers) = (Unsent::default(), Buffers::default());
        let reply = [7; 50];
        for _ in 0..2_000_000 {
            unsent.writer(&mut buffers).extend_from_slice(&reply);
        }
        assert_eq!(unsent.len(), 100_000_000);
        assert!(unsent.held_bytes() < 110_000_000, "{}", unsent.held_bytes());
        while !unsent.is_empty() {
            let count = unsent.first(256 << 10).len();
            unsent.drop_first(count, &mut buffers);
            assert!(unsent.held_bytes() <= unsent.len() * 11 / 10 + 400_000);
        }
        assert_eq!(unsent.held_bytes(), 0);
    }
}
