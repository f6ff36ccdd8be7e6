//! Items handed out by number, in blocks that never move.

/// The most items of a block: its free ones are found through one word of a summary.
const BLOCK_ITEMS_MAX: usize = 64 * 64;

/// Which numbers are handed out, in blocks of up to 4,096.
///
/// Growing adds a block and copies nothing, so there is no doubling pause. Numbers are taken from the
/// lowest block with room whenever the current one is full, so that the high blocks empty out after a
/// peak. A block takes a bit an item and 40 bytes; a stack of free numbers took two bytes an item,
/// and a chain through the items costs a dependent cache miss for each that is handed out.
///
/// Where a block has 546 items, the next one begins at number 1,024: a number is taken apart by a shift.
///
/// Number 0 is never handed out; it means "none" in links.
#[derive(Debug)]
pub struct Numbers {
    /// How many numbers a block hands out.
    items: u16,
    /// The first number of block `b` is `b << shift`.
    shift: u8,
    /// The last one is open: what is noted for each goes with those that are not needed any more.
    blocks: Vec<Block>,
    /// Blocks that are open and have a free number.
    roomy: Marks,
    /// Blocks that were closed, to be opened again before new ones.
    closed: Marks,
    /// The block numbers are taken from.
    current: usize,
    used: usize,
    open: usize,
    /// Held memory; changes only when a block is opened or closed.
    bytes: usize,
}

/// The free numbers of a block, a bit each.
#[derive(Debug, Default)]
struct Block {
    /// None while the block is closed.
    free: Box<[u64]>,
    /// A bit per word of `free` that is not 0.
    some: u64,
    /// How many are free.
    count: u16,
}

/// A bit per block; the lowest is found without going through all.
#[derive(Debug)]
struct Marks {
    words: Vec<u64>,
    /// No word before this one has a bit.
    lowest: usize,
}

impl Marks {
    #[inline]
    fn set(&mut self, at: usize) {
        self.words[at / 64] |= 1 << (at % 64);
        self.lowest = self.lowest.min(at / 64);
    }

    #[inline]
    fn clear(&mut self, at: usize) {
        self.words[at / 64] &= !(1 << (at % 64));
    }

    fn first(&mut self) -> Option<usize> {
        let from = self.lowest.min(self.words.len());
        let Some(ahead) = self.words[from..].iter().position(|word| *word != 0) else {
            self.lowest = self.words.len();
            return None;
        };
        self.lowest = from + ahead;
        Some(self.lowest * 64 + self.words[self.lowest].trailing_zeros() as usize)
    }
}

/// Makes it as long as `len`, and gives back what it held for much more: what a peak took.
pub fn resize<T>(things: &mut Vec<T>, len: usize, thing: impl FnMut() -> T) {
    things.resize_with(len, thing);
    if things.capacity() / 4 > len {
        things.shrink_to(2 * len);
    }
}

impl Numbers {
    /// None is handed out, and no memory held. A block has `items` of them, at most 4,096.
    pub const fn new(items: usize) -> Numbers {
        assert!(0 < items && items <= BLOCK_ITEMS_MAX);
        Numbers {
            items: items as u16,
            shift: items.next_power_of_two().trailing_zeros() as u8,
            blocks: Vec::new(),
            roomy: Marks { words: Vec::new(), lowest: 0 },
            closed: Marks { words: Vec::new(), lowest: 0 },
            current: 0,
            used: 0,
            open: 0,
            bytes: 0,
        }
    }

    /// A free number. `open` is called for a block that begins with it. O(1), except for that, once in
    /// `N` calls at most.
    #[inline]
    pub fn take(&mut self, open: impl FnOnce(usize)) -> u32 {
        if self.blocks.get(self.current).is_none_or(|block| block.count == 0) {
            self.current = self.roomy.first().unwrap_or_else(|| {
                let block = self.open_block();
                open(block);
                block
            });
        }
        self.take_from(self.current)
    }

    /// A free number of a lower block, for an item in one of the blocks that would be closed if all were as close
    /// together as possible.
    pub fn take_below(&mut self, number: u32) -> Option<u32> {
        let at = (number >> self.shift) as usize;
        if at < self.blocks_needed() {
            return None;
        }
        let block = self.roomy.first().filter(|block| *block < at)?;
        // One that holds none stays the current one: no other is ever left open.
        if !self.is_current_empty() {
            self.current = self.current.min(block);
        }
        Some(self.take_from(block))
    }

    /// Takes a number back. Returns the block that holds none any more, if so; it is closed then.
    #[inline]
    pub fn give(&mut self, number: u32) -> Option<usize> {
        let (at, bit) =
            ((number >> self.shift) as usize, (number & ((1 << self.shift) - 1)) as usize);
        let block = &mut self.blocks[at];
        assert_eq!(block.free[bit / 64] >> (bit % 64) & 1, 0, "a number is given back once");
        block.free[bit / 64] |= 1 << (bit % 64);
        block.some |= 1 << (bit / 64);
        block.count += 1;
        self.used -= 1;
        if at != self.current && self.is_free(at) {
            self.close(at);
            return Some(at);
        }
        self.roomy.set(at);
        None
    }

    /// Closes the block that numbers are taken from, which is kept open although it may hold none: for
    /// when there was a peak and not one of many small ones.
    pub fn close_current(&mut self) -> Option<usize> {
        if !self.is_current_empty() {
            return None;
        }
        let at = self.current;
        self.close(at);
        Some(at)
    }

    fn is_current_empty(&self) -> bool {
        self.is_open(self.current) && self.is_free(self.current)
    }

    #[inline]
    fn is_free(&self, at: usize) -> bool {
        // Block 0 lacks number 0.
        self.blocks[at].count == self.items - u16::from(at == 0)
    }

    #[cold]
    fn close(&mut self, at: usize) {
        self.blocks[at] = Block::default();
        self.roomy.clear(at);
        self.closed.set(at);
        self.open -= 1;
        let last = self.blocks.iter().rposition(|block| !block.free.is_empty());
        let len = last.map_or(0, |last| last + 1);
        (len..self.blocks.len()).for_each(|at| self.closed.clear(at));
        self.set_len(len);
        self.note_bytes();
    }

    fn set_len(&mut self, len: usize) {
        resize(&mut self.blocks, len, Block::default);
        for marks in [&mut self.roomy, &mut self.closed] {
            resize(&mut marks.words, len.div_ceil(64), || 0);
        }
    }

    /// Whether a number can be taken without a block being opened.
    pub fn has_room(&self) -> bool {
        self.free() > 0
    }

    /// How many numbers can be taken without a block being opened.
    pub fn free(&self) -> usize {
        let open = self.open * usize::from(self.items);
        // Number 0 is never free: a bit less than there may be.
        open.saturating_sub(self.used + 1)
    }

    /// How many blocks could be closed if all numbers were in as few as possible.
    pub fn spare_blocks(&self) -> usize {
        let needed = if self.used == 0 { 0 } else { self.blocks_needed() };
        self.open.saturating_sub(needed)
    }

    pub fn is_open(&self, block: usize) -> bool {
        self.blocks.get(block).is_some_and(|block| !block.free.is_empty())
    }

    fn blocks_needed(&self) -> usize {
        (self.used + 1).div_ceil(usize::from(self.items))
    }

    /// How many are handed out.
    pub fn used(&self) -> usize {
        self.used
    }

    /// How many numbers a block has.
    pub fn items(&self) -> u16 {
        self.items
    }

    /// All numbers handed out are below this.
    pub fn end(&self) -> u32 {
        (self.blocks.len() << self.shift) as u32
    }

    /// All blocks that are open are below this one.
    pub fn end_block(&self) -> usize {
        self.blocks.len()
    }

    pub fn open_blocks(&self) -> usize {
        self.open
    }

    /// Bytes held. O(1): it is asked for with every job that is added.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn note_bytes(&mut self) {
        self.bytes = self.open * usize::from(self.items).div_ceil(64) * 8
            + self.blocks.capacity() * size_of::<Block>()
            + (self.roomy.words.capacity() + self.closed.words.capacity()) * 8;
    }

    #[inline]
    fn take_from(&mut self, at: usize) -> u32 {
        let block = &mut self.blocks[at];
        let word = block.some.trailing_zeros() as usize;
        let bit = block.free[word].trailing_zeros() as usize;
        block.free[word] &= block.free[word] - 1;
        if block.free[word] == 0 {
            block.some &= !(1 << word);
        }
        block.count -= 1;
        if block.count == 0 {
            self.roomy.clear(at);
        }
        self.used += 1;
        (at << self.shift) as u32 | (word * 64 + bit) as u32
    }

    #[cold]
    fn open_block(&mut self) -> usize {
        let at = self.closed.first().unwrap_or(self.blocks.len());
        if at == self.blocks.len() {
            assert!(at < 1 << (32 - self.shift), "there are at most 2^32 numbers");
            self.set_len(at + 1);
        }
        self.closed.clear(at);
        self.open += 1;
        let items = usize::from(self.items);
        let mut free = vec![u64::MAX; items.div_ceil(64)].into_boxed_slice();
        if let Some(last) = free.last_mut().filter(|_| items % 64 > 0) {
            *last = (1 << (items % 64)) - 1;
        }
        free[0] &= !u64::from(at == 0);
        let some = u64::MAX >> (64 - free.len());
        self.blocks[at] = Block { free, some, count: self.items - u16::from(at == 0) };
        self.roomy.set(at);
        self.note_bytes();
        at
    }
}

/// A pool of `T`, numbered as by [`Numbers`]. A block whose items are all free is returned to the
/// allocator at once.
#[derive(Debug)]
pub struct Pool<T, const N: usize> {
    numbers: Numbers,
    blocks: Vec<Option<Box<[T; N]>>>,
}

impl<T: Default, const N: usize> Default for Pool<T, N> {
    fn default() -> Self {
        Pool::new()
    }
}

impl<T: Default, const N: usize> Pool<T, N> {
    const FITS: () = assert!(N.is_power_of_two() && N <= BLOCK_ITEMS_MAX);

    /// An empty pool; holds no memory.
    pub const fn new() -> Pool<T, N> {
        let () = Self::FITS;
        Pool { numbers: Numbers::new(N), blocks: Vec::new() }
    }

    /// The number of an item, in the state it was freed in or `T::default()`. O(1), except that a
    /// new block is allocated once in `N` calls at most.
    pub fn alloc(&mut self) -> u32 {
        let blocks = &mut self.blocks;
        self.numbers.take(|at| {
            let items: Box<[T]> = std::iter::repeat_with(T::default).take(N).collect();
            blocks.resize_with(blocks.len().max(at + 1), || None);
            blocks[at] = items.try_into().ok();
        })
    }

    /// Takes an item back. The caller leaves it in the state the next user may find it in.
    pub fn free(&mut self, item: u32) {
        if let Some(closed) = self.numbers.give(item) {
            self.close(closed);
        }
    }

    /// Gives the block back that is kept although it may hold no item: its first number, if so.
    pub fn close_empty(&mut self) -> Option<u32> {
        let closed = self.numbers.close_current()?;
        self.close(closed);
        Some((closed * N) as u32)
    }

    fn close(&mut self, block: usize) {
        self.blocks[block] = None;
        resize(&mut self.blocks, self.numbers.end_block(), || None);
    }

    /// Moves an item to a lower block, if that helps to close one, and returns its new number. The old number then
    /// holds `T::default()`.
    pub fn move_below(&mut self, item: u32) -> Option<u32> {
        let lower = self.numbers.take_below(item)?;
        *self.get_mut(lower) = std::mem::take(self.get_mut(item));
        self.free(item);
        Some(lower)
    }

    /// Bytes of the blocks that could be returned if all items were as close together as possible.
    pub fn spare_bytes(&self) -> usize {
        self.numbers.spare_blocks() * N * size_of::<T>()
    }

    /// Whether an item can be had without a new block.
    pub fn has_room(&self) -> bool {
        self.numbers.has_room()
    }

    /// Whether the block of this number is there.
    pub fn is_open(&self, item: u32) -> bool {
        self.numbers.is_open(item as usize / N)
    }

    #[inline]
    /// The item of a number in use.
    pub fn get(&self, item: u32) -> &T {
        let block = self.blocks[item as usize / N].as_ref().expect("an item in use has a block");
        &block[item as usize % N]
    }

    /// The item of a number that may have been freed since, or used again.
    pub fn find(&self, item: u32) -> Option<&T> {
        let block = self.blocks.get(item as usize / N)?.as_ref()?;
        Some(&block[item as usize % N])
    }

    /// The same, to change.
    pub fn find_mut(&mut self, item: u32) -> Option<&mut T> {
        let block = self.blocks.get_mut(item as usize / N)?.as_mut()?;
        Some(&mut block[item as usize % N])
    }

    #[inline]
    /// The item of a number in use, to change.
    pub fn get_mut(&mut self, item: u32) -> &mut T {
        let block = self.blocks[item as usize / N].as_mut().expect("an item in use has a block");
        &mut block[item as usize % N]
    }

    /// How many items are handed out.
    pub fn used(&self) -> usize {
        self.numbers.used()
    }

    /// All items handed out have numbers below this.
    pub fn end(&self) -> u32 {
        self.numbers.end()
    }

    /// Bytes held from the allocator.
    pub fn bytes(&self) -> usize {
        self.numbers.open_blocks() * N * size_of::<T>()
            + self.blocks.capacity() * size_of::<Option<Box<[T; N]>>>()
            + self.numbers.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng, rngs::SmallRng};
    use std::collections::BTreeSet;

    #[test]
    fn numbers_start_at_one_and_the_lowest_block_with_room_comes_first() {
        let mut pool: Pool<u64, 64> = Pool::new();
        let items: Vec<u32> = (0..200).map(|_| pool.alloc()).collect();
        assert_eq!(items, (1..201).collect::<Vec<u32>>());
        [150, 70, 65].into_iter().for_each(|item| pool.free(item));
        // The current block is full only when 201 to 255 are used.
        let rest: Vec<u32> = (0..56).map(|_| pool.alloc()).collect();
        assert_eq!((rest[0], rest[55]), (201, 65), "the current one first, then the lowest");
        assert_eq!((pool.alloc(), pool.used()), (70, 254));
    }

    #[test]
    fn an_empty_block_is_given_back() {
        let mut pool: Pool<u64, 4> = Pool::new();
        let empty = pool.bytes();
        let items: Vec<u32> = (0..4_003).map(|_| pool.alloc()).collect();
        let full = pool.bytes();
        for item in items {
            pool.free(item);
        }
        assert_eq!((pool.used(), pool.blocks.iter().flatten().count()), (0, 1));
        assert!(full - pool.bytes() > 1000 * 4 * 8 && pool.bytes() > empty);
        let again: BTreeSet<u32> = (0..4_003).map(|_| pool.alloc()).collect();
        assert_eq!(again.len(), 4_003);
    }

    #[test]
    fn no_number_is_out_twice_and_the_blocks_that_are_open_are_those_that_are_needed() {
        let mut rng = SmallRng::seed_from_u64(11);
        let (mut numbers, mut open) = (Numbers::new(64), BTreeSet::new());
        let mut out: Vec<u32> = Vec::new();
        for step in 0..200_000 {
            // The number that is out swings between none and some thousands.
            if rng.random_ratio(if step / 20_000 % 2 == 0 { 2 } else { 1 }, 3) {
                let number = numbers.take(|block| assert!(open.insert(block)));
                assert!(open.contains(&(number as usize / 64)) && number < numbers.end());
                out.push(number);
            } else if !out.is_empty() {
                let at = rng.random_range(0..out.len());
                // One in four is moved, if that helps, and not given back.
                let number = match rng.random_ratio(1, 4).then(|| numbers.take_below(out[at])) {
                    Some(None) => continue,
                    Some(Some(lower)) => std::mem::replace(&mut out[at], lower),
                    None => out.swap_remove(at),
                };
                numbers.give(number).into_iter().for_each(|block| assert!(open.remove(&block)));
            } else if rng.random() {
                numbers.close_current().into_iter().for_each(|block| assert!(open.remove(&block)));
            }
            assert_eq!((numbers.used(), numbers.open_blocks()), (out.len(), open.len()));
            if step % 100 == 0 {
                let needed: BTreeSet<usize> =
                    out.iter().map(|number| *number as usize / 64).collect();
                let more: Vec<&usize> = open.difference(&needed).collect();
                assert!(more.len() <= 1, "the current one may be empty: {more:?}");
            }
            let end = open.last().map_or(0, |last| last + 1);
            assert_eq!(numbers.end_block(), end, "nothing is noted for blocks behind the last");
            assert!(numbers.blocks.capacity() <= (4 * end + 3).max(4));
            let told = numbers.bytes();
            numbers.note_bytes();
            assert_eq!(told, numbers.bytes(), "what is kept of the bytes is what they are");
        }
        let distinct: BTreeSet<u32> = out.iter().copied().collect();
        assert_eq!(distinct.len(), out.len());
    }
}
