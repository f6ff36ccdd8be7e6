//! First-in, first-out lists of keys that can be removed from anywhere, in fixed chunks.

use crate::pool::Pool;

/// A number the user of a list knows its entry by: the index of a job in its slab.
pub type Key = u32;

/// Keys in a chunk. With a header of 20 bytes it fills two cache lines: 20 + 27 * 4 = 128.
pub const CHUNK_KEYS: usize = 27;

/// A chunk reached by a removal with exactly this many keys left is merged with a neighbour if it
/// can be.
const SPARSE: u32 = 10;
/// The most keys a merged chunk may have.
const MERGED_MAX: u32 = 20;
/// A chunk at the end of a list with no more keys than this is packed rather than given a
/// neighbour.
const PACKED_MAX: u32 = 14;

const CHUNKS_PER_BLOCK: usize = 512;
const NONE: u32 = 0;

/// Where a key sits in a list: what its user stores per key and gives back to remove it.
///
/// Never 0, so 0 and the other numbers below [`Place::FIRST`] are free for the user's own meanings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place(u32);

impl Place {
    /// The smallest number a place can be.
    pub const FIRST: u32 = 32;

    /// The place as a number, for a side array.
    #[inline]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The place of a number; `None` for numbers without one.
    #[inline]
    pub const fn from_number(number: u32) -> Option<Place> {
        if number >= Place::FIRST { Some(Place(number)) } else { None }
    }

    #[inline]
    fn new(chunk: u32, position: u32) -> Place {
        Place(chunk << 5 | position)
    }

    #[inline]
    fn chunk(self) -> u32 {
        self.0 >> 5
    }

    #[inline]
    fn position(self) -> u32 {
        self.0 & 31
    }
}

/// A run of keys of one list. A position is in use if its bit is set in `mask`; a removed key
/// leaves a hole, which keeps the others where they are. A chunk in a list is never empty.
#[derive(Clone, Debug, Default)]
#[repr(C, align(128))]
struct Chunk {
    next: u32,
    prev: u32,
    tag: u32,
    mask: u32,
    /// The bits set in `mask`: to count them takes a dozen instructions where the processor is not
    /// known to have one for it, and the fewer there are the more cancels overlap.
    live: u32,
    keys: [Key; CHUNK_KEYS],
}

/// Bytes of a chunk.
pub const CHUNK_BYTES: usize = 128;
const _: () = assert!(size_of::<Chunk>() == CHUNK_BYTES);

impl Chunk {
    /// The position after the last key.
    #[inline]
    fn end(&self) -> u32 {
        32 - self.mask.leading_zeros()
    }

    /// The keys' positions in order.
    fn positions(&self) -> impl Iterator<Item = usize> + use<> {
        Bits(self.mask)
    }
}

/// The bits set in a word, lowest first.
struct Bits(u32);

impl Iterator for Bits {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let bit = self.0.trailing_zeros() as usize;
        if self.0 == 0 {
            return None;
        }
        self.0 &= self.0 - 1;
        Some(bit)
    }
}

/// The chunks that any number of lists are made of.
///
/// New ones hold no memory. At most 2^27 chunks are held, 3.6 billion keys in full ones.
#[derive(Default, Debug)]
pub struct Chunks {
    pool: Pool<Chunk, CHUNKS_PER_BLOCK>,
}

impl Chunks {
    /// Bytes held from the allocator.
    pub fn bytes(&self) -> usize {
        self.pool.bytes()
    }

    /// Bytes that could be returned if all chunks were as close together as possible.
    pub fn spare_bytes(&self) -> usize {
        self.pool.spare_bytes()
    }

    /// Gives back what is kept for the next chunks and holds none.
    pub fn close_empty(&mut self) {
        self.pool.close_empty();
    }

    /// Puts another key into the place of the one that is there.
    pub fn set_key(&mut self, place: Place, key: Key) {
        self.pool.get_mut(place.chunk()).keys[place.position() as usize] = key;
    }

    /// How many chunks lists are using, of 128 bytes each.
    pub fn used(&self) -> usize {
        self.pool.used()
    }

    /// The tag that the list of the key at `place` was given when it was pushed.
    #[inline]
    pub fn tag(&self, place: Place) -> u32 {
        self.pool.get(place.chunk()).tag
    }

    /// The key after the one at `place` in its list, and its place.
    #[inline]
    pub fn next(&self, place: Place) -> Option<(Key, Place)> {
        let chunk = self.pool.get(place.chunk());
        let behind = chunk.mask & (u32::MAX << place.position() << 1);
        if behind != 0 {
            return Some(self.key_at(place.chunk(), behind.trailing_zeros()));
        }
        (chunk.next != NONE).then(|| self.first_of(chunk.next))
    }

    /// The key before the one at `place` in its list, and its place.
    #[inline]
    pub fn prev(&self, place: Place) -> Option<(Key, Place)> {
        let chunk = self.pool.get(place.chunk());
        let before = chunk.mask & ((1 << place.position()) - 1);
        if before != 0 {
            return Some(self.key_at(place.chunk(), 31 - before.leading_zeros()));
        }
        (chunk.prev != NONE).then(|| self.last_of(chunk.prev))
    }

    fn first_of(&self, at: u32) -> (Key, Place) {
        self.key_at(at, self.pool.get(at).mask.trailing_zeros())
    }

    fn last_of(&self, at: u32) -> (Key, Place) {
        self.key_at(at, 31 - self.pool.get(at).mask.leading_zeros())
    }

    #[inline]
    fn key_at(&self, at: u32, position: u32) -> (Key, Place) {
        (self.pool.get(at).keys[position as usize], Place::new(at, position))
    }

    /// Makes a hole at `place`: first half of a removal. True if the list has to `close_hole` after it.
    #[inline]
    pub(super) fn punch(&mut self, place: Place, key: Key) -> bool {
        let chunk = self.pool.get_mut(place.chunk());
        debug_assert!(chunk.mask & 1 << place.position() != 0, "no key at {place:?}");
        debug_assert_eq!(chunk.keys[place.position() as usize], key, "another key at {place:?}");
        chunk.mask &= !(1 << place.position());
        chunk.live -= 1;
        chunk.live == SPARSE || chunk.live == 0
    }

    /// A chunk behind `prev`, the last one.
    fn add(&mut self, tag: u32, prev: u32) -> u32 {
        let at = self.pool.alloc();
        assert!(at < 1 << 27, "at most 2^27 chunks");
        let chunk = self.pool.get_mut(at);
        (chunk.tag, chunk.prev, chunk.next) = (tag, prev, NONE);
        (chunk.mask, chunk.live) = (0, 0);
        at
    }

    /// Moves the keys of `at` to its lowest positions.
    fn pack_low(&mut self, at: u32, placed: &mut impl FnMut(Key, Place)) {
        let chunk = self.pool.get_mut(at);
        for (to, from) in chunk.positions().enumerate() {
            if to != from {
                chunk.keys[to] = chunk.keys[from];
                placed(chunk.keys[to], Place::new(at, to as u32));
            }
        }
        chunk.mask = (1 << chunk.live) - 1;
    }
}

/// A list of keys in the order they were pushed: 8 bytes, and chunks of [`Chunks`].
///
/// ```text
/// head                                        tail
///  [..cdefg....] <-> [hij..mn..pqr] <-> [stu.........]      . = free or a hole
///    ^ pop_front       ^ remove(place)      ^ push_back
/// ```
///
/// Every operation is O(1): at most [`CHUNK_KEYS`] keys change their place, whatever the list's
/// length. `placed(key, place)` is called for every key that gets a place: the pushed one, and those
/// moved along; its user keeps the newest place per key.
///
/// Memory stays in proportion under any pattern of removals. When a removal leaves a chunk with 10
/// keys and a neighbour has at most 10, the two become one; and no chunk is added after one with
/// fewer than 15, which is packed instead. So of two neighbours one has more than 10 keys
/// (the head alone, which pops eat from, may be an exception), and a key costs at most 128 / 6 = 21
/// bytes where it costs 4.7 in a full chunk. A merge moves at most 20 keys and ends a chunk, and a
/// chunk begins with a neighbour of 15 keys or more: merges move less than two keys per push.
///
/// Dropping a list does not free its chunks: pop it empty first.
///
/// ```
/// use delayd::wheel::list::{Chunks, List};
///
/// let mut chunks = Chunks::default();
/// let mut places = vec![None; 10];
/// let mut list = List::default();
/// for key in [4, 7, 5] {
///     list.push_back(&mut chunks, 0, key, |key, place| places[key as usize] = Some(place));
/// }
/// let place = places[7].unwrap();
/// list.remove(&mut chunks, place, 7, |key, place| places[key as usize] = Some(place));
/// assert_eq!(list.iter(&chunks).collect::<Vec<_>>(), [4, 5]);
/// assert_eq!(list.pop_front(&mut chunks), Some(4));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct List {
    head: u32,
    tail: u32,
}

impl List {
    /// Whether it has no keys.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.head == NONE
    }

    /// Whether it has more than one chunk: 12 keys at least, except for some at its head.
    #[inline]
    pub const fn is_long(self) -> bool {
        self.head != self.tail
    }

    /// Puts `key` last. `tag` is the [`Chunks::tag`] of this list's places; the same for all its
    /// keys.
    #[inline]
    pub fn push_back(
        &mut self,
        chunks: &mut Chunks,
        tag: u32,
        key: Key,
        mut placed: impl FnMut(Key, Place),
    ) {
        let mut at = self.tail;
        let mut position = CHUNK_KEYS as u32;
        if at != NONE {
            position = chunks.pool.get(at).end();
        }
        if position == CHUNK_KEYS as u32 {
            (at, position) = self.room_behind(chunks, tag, &mut placed);
        }
        let chunk = chunks.pool.get_mut(at);
        chunk.keys[position as usize] = key;
        chunk.mask |= 1 << position;
        chunk.live += 1;
        placed(key, Place::new(at, position));
    }

    /// Removes `key`, which sits at `place`; the order of the others stays.
    ///
    /// The place must be the newest one reported for this key and the key in this list: anything
    /// else damages lists (checked in debug builds).
    #[inline]
    pub fn remove(
        &mut self,
        chunks: &mut Chunks,
        place: Place,
        key: Key,
        placed: impl FnMut(Key, Place),
    ) {
        if chunks.punch(place, key) {
            self.close_hole(chunks, place, placed);
        }
    }

    /// The first key and its place.
    #[inline]
    pub fn front(self, chunks: &Chunks) -> Option<(Key, Place)> {
        if self.head == NONE {
            return None;
        }
        let chunk = chunks.pool.get(self.head);
        let position = chunk.mask.trailing_zeros();
        Some((chunk.keys[position as usize], Place::new(self.head, position)))
    }

    /// The last key and its place.
    #[inline]
    pub fn back(self, chunks: &Chunks) -> Option<(Key, Place)> {
        (self.tail != NONE).then(|| chunks.last_of(self.tail))
    }

    /// Removes the first key. No other key moves.
    #[inline]
    pub fn pop_front(&mut self, chunks: &mut Chunks) -> Option<Key> {
        if self.head == NONE {
            return None;
        }
        let chunk = chunks.pool.get_mut(self.head);
        let key = chunk.keys[chunk.mask.trailing_zeros() as usize];
        chunk.mask &= chunk.mask - 1;
        chunk.live -= 1;
        if chunk.live == 0 {
            self.unlink(chunks, self.head);
        }
        Some(key)
    }

    /// Removes the first keys, at most `max` and at most what is in the first chunk, into `keys`;
    /// returns how many. No other key moves.
    #[inline]
    pub fn pop_batch(
        &mut self,
        chunks: &mut Chunks,
        max: u32,
        keys: &mut [Key; CHUNK_KEYS],
    ) -> usize {
        if self.head == NONE {
            return 0;
        }
        let chunk = chunks.pool.get_mut(self.head);
        let mut count = 0;
        while chunk.mask != 0 && count < max as usize {
            keys[count] = chunk.keys[chunk.mask.trailing_zeros() as usize];
            chunk.mask &= chunk.mask - 1;
            count += 1;
        }
        chunk.live -= count as u32;
        if chunk.live == 0 {
            self.unlink(chunks, self.head);
        }
        count
    }

    /// The keys from the first to the last.
    pub fn iter(self, chunks: &Chunks) -> Iter<'_> {
        let mut iter = Iter { chunks, at: self.head, mask: 0 };
        if self.head != NONE {
            iter.mask = chunks.pool.get(self.head).mask;
        }
        iter
    }

    /// The keys from the last to the first.
    pub fn iter_back(self, chunks: &Chunks) -> impl Iterator<Item = Key> {
        let chunk_at = |at| (at != NONE).then(|| chunks.pool.get(at));
        let all = std::iter::successors(chunk_at(self.tail), move |chunk| chunk_at(chunk.prev));
        all.flat_map(|chunk| {
            let used = (0..chunk.end()).rev().filter(|position| chunk.mask & (1 << position) != 0);
            used.map(|position| chunk.keys[position as usize])
        })
    }

    /// The number of keys, but counted no further than the chunk in which `enough` is reached.
    /// O(`enough`) at most.
    pub fn count_to(self, chunks: &Chunks, enough: usize) -> usize {
        let (mut at, mut count) = (self.head, 0);
        while at != NONE && count < enough {
            let chunk = chunks.pool.get(at);
            count += chunk.live as usize;
            at = chunk.next;
        }
        count
    }

    /// Second half of a removal: frees the chunk of `place` if it is empty, else merges it with a
    /// sparse neighbour.
    #[cold]
    pub(super) fn close_hole(
        &mut self,
        chunks: &mut Chunks,
        place: Place,
        mut placed: impl FnMut(Key, Place),
    ) {
        let at = place.chunk();
        let chunk = chunks.pool.get(at);
        let (live, prev, next) = (chunk.live, chunk.prev, chunk.next);
        if live == 0 {
            self.unlink(chunks, at);
        } else if next != NONE && live + chunks.pool.get(next).live <= MERGED_MAX {
            self.merge(chunks, at, next, &mut placed);
        } else if prev != NONE && live + chunks.pool.get(prev).live <= MERGED_MAX {
            self.merge(chunks, prev, at, &mut placed);
        }
    }

    /// Moves the keys of `right` to the end of `left`, its neighbour, and frees it.
    fn merge(
        &mut self,
        chunks: &mut Chunks,
        left: u32,
        right: u32,
        placed: &mut impl FnMut(Key, Place),
    ) {
        chunks.pack_low(left, placed);
        let from = chunks.pool.get(right).clone();
        let to = chunks.pool.get_mut(left);
        for position in from.positions() {
            let end = to.end();
            to.keys[end as usize] = from.keys[position];
            to.mask |= 1 << end;
            to.live += 1;
            placed(from.keys[position], Place::new(left, end));
        }
        self.unlink(chunks, right);
    }

    /// Moves the chunk that `place` is in, one of this list's, to a lower block of memory, if that helps to
    /// close one; the order stays.
    pub fn move_below(
        &mut self,
        chunks: &mut Chunks,
        place: Place,
        mut placed: impl FnMut(Key, Place),
    ) {
        let from = place.chunk();
        let Some(at) = chunks.pool.move_below(from) else { return };
        let (prev, next) = (chunks.pool.get(at).prev, chunks.pool.get(at).next);
        match prev {
            NONE => self.head = at,
            _ => chunks.pool.get_mut(prev).next = at,
        }
        match next {
            NONE => self.tail = at,
            _ => chunks.pool.get_mut(next).prev = at,
        }
        let chunk = chunks.pool.get(at);
        for position in chunk.positions() {
            placed(chunk.keys[position], Place::new(at, position as u32));
        }
    }

    fn unlink(&mut self, chunks: &mut Chunks, at: u32) {
        let chunk = chunks.pool.get(at);
        let (prev, next) = (chunk.prev, chunk.next);
        match prev {
            NONE => self.head = next,
            _ => chunks.pool.get_mut(prev).next = next,
        }
        match next {
            NONE => self.tail = prev,
            _ => chunks.pool.get_mut(next).prev = prev,
        }
        chunks.pool.free(at);
    }

    /// Space after the last key: the chunk and the first position free to its end.
    fn room_behind(
        &mut self,
        chunks: &mut Chunks,
        tag: u32,
        placed: &mut impl FnMut(Key, Place),
    ) -> (u32, u32) {
        let last = self.tail;
        if last != NONE && chunks.pool.get(last).live <= PACKED_MAX {
            chunks.pack_low(last, placed);
            return (last, chunks.pool.get(last).end());
        }
        let at = chunks.add(tag, last);
        match last {
            NONE => self.head = at,
            _ => chunks.pool.get_mut(last).next = at,
        }
        self.tail = at;
        (at, 0)
    }
}

/// The keys of a [`List`] in order; see [`List::iter`].
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    chunks: &'a Chunks,
    at: u32,
    mask: u32,
}

impl Iterator for Iter<'_> {
    type Item = Key;

    #[inline]
    fn next(&mut self) -> Option<Key> {
        if self.mask == 0 {
            if self.at == NONE {
                return None;
            }
            self.at = self.chunks.pool.get(self.at).next;
            if self.at == NONE {
                return None;
            }
            self.mask = self.chunks.pool.get(self.at).mask;
        }
        let position = self.mask.trailing_zeros() as usize;
        self.mask &= self.mask - 1;
        Some(self.chunks.pool.get(self.at).keys[position])
    }
}
