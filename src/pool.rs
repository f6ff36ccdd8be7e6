//! Items of one size, handed out by number, in blocks that never move.

/// A pool of `T` in blocks of `N` (a power of two).
///
/// Growing adds a block and copies nothing, so there is no doubling pause. A block whose items are
/// all free goes back to the allocator at once; items are taken from the lowest block with room
/// whenever the current one is full, so that the high blocks empty out after a peak.
///
/// The free items of a block are a stack beside it and not a chain through the items: a chain costs
/// a dependent cache miss for every item handed out.
///
/// Number 0 is never handed out; it stands for "none" in links.
#[derive(Debug)]
pub struct Pool<T, const N: usize> {
    blocks: Vec<Option<Box<[T; N]>>>,
    /// Per block, the positions that are free.
    free: Vec<Vec<u16>>,
    /// A bit per block that exists and has a free position.
    roomy: Vec<u64>,
    /// Block numbers given back, to be used again before new ones.
    gaps: Vec<u32>,
    /// The block items are taken from.
    current: usize,
    used: usize,
}

impl<T: Clone + Default, const N: usize> Default for Pool<T, N> {
    fn default() -> Self {
        Pool::new()
    }
}

impl<T: Clone + Default, const N: usize> Pool<T, N> {
    const FITS: () = assert!(N.is_power_of_two() && N <= 1 << 16);

    /// An empty pool; holds no memory.
    pub const fn new() -> Pool<T, N> {
        let () = Self::FITS;
        Pool {
            blocks: Vec::new(),
            free: Vec::new(),
            roomy: Vec::new(),
            gaps: Vec::new(),
            current: 0,
            used: 0,
        }
    }

    /// The number of an item, in the state it was freed in or `T::default()`. O(1), except that a
    /// new block is allocated once in `N` calls at most.
    pub fn alloc(&mut self) -> u32 {
        if self.free.get(self.current).is_none_or(Vec::is_empty) {
            self.current = self.roomy_block().unwrap_or_else(|| self.add_block());
        }
        let free = &mut self.free[self.current];
        let at = free.pop().expect("the current block has room");
        if free.is_empty() {
            self.roomy[self.current / 64] &= !(1 << (self.current % 64));
        }
        self.used += 1;
        (self.current * N) as u32 + u32::from(at)
    }

    /// Takes an item back. The caller leaves it in the state the next user may find it in.
    pub fn free(&mut self, item: u32) {
        let (block, at) = (item as usize / N, item as usize % N);
        let free = &mut self.free[block];
        free.push(at as u16);
        self.roomy[block / 64] |= 1 << (block % 64);
        self.used -= 1;
        // Block 0 lacks position 0, so it never counts as wholly free and always stays.
        if free.len() == N && block != self.current {
            self.free[block] = Vec::new();
            self.blocks[block] = None;
            self.roomy[block / 64] &= !(1 << (block % 64));
            self.gaps.push(block as u32);
        }
    }

    #[inline]
    /// The item behind a number in use.
    pub fn get(&self, item: u32) -> &T {
        let block = self.blocks[item as usize / N].as_ref().expect("an item in use has a block");
        &block[item as usize % N]
    }

    /// The item behind a number that may have been taken back since, or used again.
    pub fn find(&self, item: u32) -> Option<&T> {
        let block = self.blocks.get(item as usize / N)?.as_ref()?;
        Some(&block[item as usize % N])
    }

    #[inline]
    /// The item behind a number in use, to change.
    pub fn get_mut(&mut self, item: u32) -> &mut T {
        let block = self.blocks[item as usize / N].as_mut().expect("an item in use has a block");
        &mut block[item as usize % N]
    }

    /// How many items are handed out.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Bytes held from the allocator.
    pub fn bytes(&self) -> usize {
        let blocks = self.blocks.len() - self.gaps.len();
        blocks * (N * size_of::<T>() + N * size_of::<u16>())
            + self.blocks.capacity() * size_of::<Option<Box<[T; N]>>>()
            + self.free.capacity() * size_of::<Vec<u16>>()
            + self.roomy.capacity() * 8
            + self.gaps.capacity() * 4
    }

    fn roomy_block(&self) -> Option<usize> {
        let word = self.roomy.iter().position(|&word| word != 0)?;
        Some(word * 64 + self.roomy[word].trailing_zeros() as usize)
    }

    #[cold]
    fn add_block(&mut self) -> usize {
        let block = match self.gaps.pop() {
            Some(block) => block as usize,
            None => {
                let block = self.blocks.len();
                assert!(block < (1 << 32) / N, "a pool has at most 2^32 items");
                self.blocks.push(None);
                self.free.push(Vec::new());
                self.roomy.resize(block / 64 + 1, 0);
                block
            }
        };
        let items: Box<[T]> = vec![T::default(); N].into_boxed_slice();
        self.blocks[block] = items.try_into().ok();
        let first = u16::from(block == 0);
        let mut free = Vec::with_capacity(N);
        free.extend((first..=(N - 1) as u16).rev());
        self.free[block] = free;
        self.roomy[block / 64] |= 1 << (block % 64);
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_start_at_one_and_are_used_again() {
        let mut pool: Pool<u64, 4> = Pool::new();
        let items: Vec<u32> = (0..11).map(|_| pool.alloc()).collect();
        assert_eq!(items, (1..12).collect::<Vec<u32>>());
        pool.free(5);
        pool.free(2);
        assert_eq!(pool.alloc(), 2, "the lowest block with room comes first");
        assert_eq!(pool.alloc(), 5);
        assert_eq!(pool.used(), 11);
    }

    #[test]
    fn an_empty_block_is_given_back() {
        let mut pool: Pool<u64, 4> = Pool::new();
        let empty = pool.bytes();
        let items: Vec<u32> = (0..4003).map(|_| pool.alloc()).collect();
        let full = pool.bytes();
        for item in items {
            pool.free(item);
        }
        assert_eq!((pool.used(), pool.blocks.iter().flatten().count()), (0, 2));
        assert!(full - pool.bytes() > 1000 * 4 * 8 && pool.bytes() > empty);
        let again: Vec<u32> = (0..4003).map(|_| pool.alloc()).collect();
        let distinct: std::collections::BTreeSet<u32> = again.into_iter().collect();
        assert_eq!(distinct.len(), 4003);
    }
}
