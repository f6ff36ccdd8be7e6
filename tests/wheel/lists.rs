//! Chunk lists against a `VecDeque`.

use crate::wheel::model::each_seed;
use delayd::wheel::list::{CHUNK_KEYS, Chunks, Key, List, Place};
use rand::Rng;
use std::collections::VecDeque;

/// Lists in the same chunks, their models, and the places their keys are said to be at.
struct Lists {
    chunks: Chunks,
    lists: Vec<(List, VecDeque<Key>)>,
    places: Vec<Option<Place>>,
}

impl Lists {
    fn push(&mut self, list: usize, key: Key) {
        let (real, model) = &mut self.lists[list];
        let places = &mut self.places;
        let placed = |key: Key, place| places[key as usize] = Some(place);
        real.push_back(&mut self.chunks, list as u32, key, placed);
        model.push_back(key);
        let place = self.places[key as usize].expect("a pushed key has a place");
        assert_eq!(self.chunks.tag(place), list as u32);
        assert_eq!(Place::from_number(place.number()), Some(place));
    }

    fn remove(&mut self, list: usize, index: usize) {
        let (real, model) = &mut self.lists[list];
        let key = model.remove(index).unwrap();
        let place = self.places[key as usize].take().expect("a key in a list has a place");
        let places = &mut self.places;
        let mut moved = 0;
        real.remove(&mut self.chunks, place, key, |key, place| {
            moved += 1;
            places[key as usize] = Some(place);
        });
        assert!(moved <= CHUNK_KEYS, "{moved} keys were moved");
    }

    fn pop(&mut self, list: usize) {
        let (real, model) = &mut self.lists[list];
        let front = real.front(&self.chunks);
        assert_eq!(front.map(|(key, _)| key), model.front().copied());
        if let Some((key, place)) = front {
            assert_eq!(self.places[key as usize].take(), Some(place));
        }
        assert_eq!(real.pop_front(&mut self.chunks), model.pop_front());
    }

    fn check(&self) {
        let mut bound = 0;
        for (real, model) in &self.lists {
            assert!(real.iter(&self.chunks).eq(model.iter().copied()));
            assert_eq!(real.is_empty(), model.is_empty());
            // Of two neighbours one has more than 10 keys, the first pair excepted.
            bound += 2 * (model.len() / 12) + 3;
        }
        assert!(self.chunks.used() <= bound, "{} chunks, not {bound}", self.chunks.used());
    }
}

#[test]
fn random_runs_agree_with_a_deque() {
    each_seed(300, |rng| {
        let count = rng.random_range(1..4);
        let mut lists = Lists {
            chunks: Chunks::default(),
            lists: vec![(List::default(), VecDeque::new()); count],
            places: vec![None; 3000],
        };
        let weights: [u32; 3] = std::array::from_fn(|_| rng.random_range(0..5));
        for turn in 0..3000 {
            // Growing for a while, then shrinking, by which the chunks get sparse.
            let list = rng.random_range(0..count);
            let len = lists.lists[list].1.len();
            let grow = (turn / 700) % 2 == 0;
            let mut pick = rng.random_range(0..weights.iter().sum::<u32>() + 4);
            let mut is = |weight: u32| {
                let here = pick < weight;
                pick = pick.saturating_sub(weight);
                here
            };
            if is(weights[0] + if grow { 4 } else { 0 }) {
                lists.push(list, turn);
            } else if is(weights[1]) || len == 0 {
                lists.pop(list);
            } else {
                lists.remove(list, rng.random_range(0..len));
            }
            if turn % 50 == 0 {
                lists.check();
            }
        }
        for list in 0..count {
            lists.check();
            while !lists.lists[list].1.is_empty() {
                lists.pop(list);
            }
        }
        assert_eq!(lists.chunks.used(), 0);
    });
}

/// One list of `count` full chunks.
fn filled(chunks: usize) -> Lists {
    let count = (chunks * CHUNK_KEYS) as Key;
    let mut lists = Lists {
        chunks: Chunks::default(),
        lists: vec![(List::default(), VecDeque::new())],
        places: vec![None; 2 * count as usize],
    };
    (0..count).for_each(|key| lists.push(0, key));
    lists
}

#[test]
fn a_sparse_chunk_is_merged_with_either_neighbour() {
    // The first chunk is left with 10 keys, then the second.
    let mut lists = filled(2);
    (10..CHUNK_KEYS).for_each(|_| lists.remove(0, 5));
    assert_eq!(lists.chunks.used(), 2);
    (10..CHUNK_KEYS).for_each(|_| lists.remove(0, 12));
    assert_eq!(lists.chunks.used(), 1);
    lists.check();
    // The second, then the first.
    let mut lists = filled(2);
    (10..CHUNK_KEYS).for_each(|_| lists.remove(0, 30));
    assert_eq!(lists.chunks.used(), 2);
    (10..CHUNK_KEYS).for_each(|_| lists.remove(0, 5));
    assert_eq!(lists.chunks.used(), 1);
    lists.check();
}

#[test]
fn a_chunk_with_holes_is_packed_before_another_is_added() {
    let mut lists = filled(1);
    (0..13).for_each(|_| lists.remove(0, 7));
    (27..40).for_each(|key| {
        lists.push(0, key);
        assert_eq!(lists.chunks.used(), 1);
    });
    lists.push(0, 40);
    assert_eq!(lists.chunks.used(), 2);
    lists.check();
}

#[test]
fn one_in_twenty_left_is_kept_close() {
    let mut lists = filled(1000);
    assert_eq!(lists.chunks.used(), 1000);
    // From the back, so that the index is the key.
    for key in (0..27_000).rev().filter(|key| key % 20 != 0) {
        lists.remove(0, key);
    }
    assert!(lists.chunks.used() <= 1350 / 6 + 1, "{} chunks", lists.chunks.used());
    lists.check();
}
