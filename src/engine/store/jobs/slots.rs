//! Things by number, where the next number is always the lowest free one.
//!
//! So the next numbers follow from the taken ones, without a history: an engine that was loaded
//! from a base file numbers like the one that wrote it. Blocks of [`BLOCK`] and a bit for each full
//! block keep the search short: one word covers 16,384 numbers.

/// Numbers a block covers.
const BLOCK: usize = 256;

/// Things by number.
#[derive(Debug)]
pub struct Slots<T> {
    blocks: Vec<Option<Box<Block<T>>>>,
    /// A bit per block without a free number.
    full: Vec<u64>,
    count: usize,
    /// How many blocks there are.
    open: usize,
}

#[derive(Debug)]
struct Block<T> {
    things: [Option<T>; BLOCK],
    taken: [u64; BLOCK / 64],
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots { blocks: Vec::new(), full: Vec::new(), count: 0, open: 0 }
    }
}

impl<T> Slots<T> {
    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        let block = self.blocks.get(number as usize / BLOCK)?.as_ref()?;
        block.things[number as usize % BLOCK].as_ref()
    }

    /// The thing with this number, to change.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let block = self.blocks.get_mut(number as usize / BLOCK)?.as_mut()?;
        block.things[number as usize % BLOCK].as_mut()
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn bytes(&self) -> usize {
        self.open * size_of::<Block<T>>() + self.blocks.capacity() * size_of::<usize>()
    }

    /// The lowest free number. Looks at a word per 16,384 numbers.
    pub fn lowest_free(&self) -> u32 {
        let all = |word: &u64| *word != u64::MAX;
        let word = self.full.iter().position(all).unwrap_or(self.full.len());
        let full = self.full.get(word).map_or(0, |full| full.trailing_ones() as usize);
        let block = word * 64 + full;
        let within = self.blocks.get(block).and_then(Option::as_ref).map_or(0, |block| {
            let word = block.taken.iter().position(all).expect("a block that is not full");
            word * 64 + block.taken[word].trailing_ones() as usize
        });
        (block * BLOCK + within) as u32
    }

    /// Puts a thing under a number, which must be free. Any will do: those between stay free.
    pub fn put(&mut self, number: u32, thing: T) {
        let (at, within) = (number as usize / BLOCK, number as usize % BLOCK);
        if at >= self.blocks.len() {
            self.blocks.resize_with(at + 1, || None);
            self.full.resize(at / 64 + 1, 0);
        }
        let open = &mut self.open;
        let block = self.blocks[at].get_or_insert_with(|| {
            *open += 1;
            Box::new(Block { things: [const { None }; BLOCK], taken: [0; BLOCK / 64] })
        });
        let before = block.things[within].replace(thing);
        assert!(before.is_none(), "number {number} is taken once");
        block.taken[within / 64] |= 1 << (within % 64);
        if block.taken == [u64::MAX; BLOCK / 64] {
            self.full[at / 64] |= 1 << (at % 64);
        }
        self.count += 1;
    }

    /// Takes the thing out; its number is free.
    pub fn take(&mut self, number: u32) -> Option<T> {
        let (at, within) = (number as usize / BLOCK, number as usize % BLOCK);
        let block = self.blocks.get_mut(at)?.as_mut()?;
        let thing = block.things[within].take()?;
        block.taken[within / 64] &= !(1 << (within % 64));
        self.full[at / 64] &= !(1 << (at % 64));
        self.count -= 1;
        // The first block stays, for a pool with one item that comes and goes.
        if at > 0 && block.taken == [0; BLOCK / 64] {
            self.blocks[at] = None;
            self.open -= 1;
            while self.blocks.last().is_some_and(Option::is_none) {
                self.blocks.pop();
            }
            self.full.truncate(self.blocks.len().div_ceil(64));
        }
        Some(thing)
    }

    /// Takes the one with the highest number out. O(1), for freeing all in slices.
    pub fn take_last(&mut self) -> Option<T> {
        let at = self.blocks.len().checked_sub(1)?;
        let block = self.blocks[at].as_ref()?;
        let word = block.taken.iter().rposition(|word| *word != 0)?;
        let within = word * 64 + block.taken[word].ilog2() as usize;
        self.take((at * BLOCK + within) as u32)
    }

    /// The lowest number from `from` on that is taken. Looks at a word per 64 numbers between.
    pub fn next_from(&self, from: u32) -> Option<u32> {
        let (mut at, mut within) = (from as usize / BLOCK, from as usize % BLOCK);
        while at < self.blocks.len() {
            if let Some(block) = &self.blocks[at] {
                for word in within / 64..BLOCK / 64 {
                    let below = if word == within / 64 { (1 << (within % 64)) - 1 } else { 0 };
                    let taken = block.taken[word] & !below;
                    if taken != 0 {
                        let within = word * 64 + taken.trailing_zeros() as usize;
                        return Some((at * BLOCK + within) as u32);
                    }
                }
            }
            (at, within) = (at + 1, 0);
        }
        None
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let blocks = self.blocks.iter().enumerate();
        blocks.filter_map(|(at, block)| Some((at, block.as_ref()?))).flat_map(|(at, block)| {
            let things = block.things.iter().enumerate();
            things.filter_map(move |(within, thing)| {
                Some(((at * BLOCK + within) as u32, thing.as_ref()?))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng, rngs::SmallRng};
    use std::collections::BTreeMap;

    #[test]
    fn behaves_as_a_sorted_map_and_tells_the_lowest_free_number() {
        let mut rng = SmallRng::seed_from_u64(3);
        for round in 0..30 {
            let (mut things, mut model) = (Slots::default(), BTreeMap::new());
            let span = [4, 300, 1_000, 40_000][round % 4];
            for _ in 0..20_000 {
                let number = rng.random_range(0..span);
                // The model walks to it, so it is looked for among many only now and then.
                if span < 2_000 || rng.random_ratio(1, 1_000) {
                    let taken = model.keys().zip(0..).take_while(|(number, at)| *number == at);
                    assert_eq!(things.lowest_free() as usize, taken.count());
                }
                match rng.random_range(0..5) {
                    0 | 1 if !model.contains_key(&number) => {
                        things.put(number, number);
                        model.insert(number, number);
                    }
                    2 => {
                        let free = things.lowest_free();
                        things.put(free, free);
                        model.insert(free, free);
                    }
                    _ => assert_eq!(things.take(number), model.remove(&number)),
                }
                assert_eq!(things.get(number), model.get(&number));
                assert_eq!(things.len(), model.len());
                let next = model.range(number..).next().map(|(number, _)| *number);
                assert_eq!(things.next_from(number), next);
            }
            assert!(things.iter().eq(model.iter().map(|(number, thing)| (*number, thing))));
            while let Some((number, _)) = model.pop_last() {
                assert_eq!(things.take_last(), Some(number));
            }
            assert_eq!((things.take_last(), things.blocks.len()), (None, 1));
        }
    }
}
