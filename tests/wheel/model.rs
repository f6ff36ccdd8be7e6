//! Wheels beside their model, a `BTreeMap` of (due time, sequence): every answer is compared.

use crate::support::seeds::for_each_seed;
use delayd::time::Millis;
use delayd::wheel::{Key, Peek, Timers, Wheel};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;

/// A wheel and what it should hold.
#[derive(Default)]
struct Queue {
    wheel: Wheel,
    model: BTreeMap<(u64, u64), Key>,
}

/// Some wheels that share their timers, and the time they have all been told at most.
pub struct Pair {
    pub timers: Timers,
    pub now: u64,
    queues: Vec<Queue>,
    /// Per key the wheel, due time as placed, and sequence number, if armed.
    armed: BTreeMap<Key, (usize, u64, u64)>,
    sequence: u64,
}

impl Pair {
    pub fn new(queues: usize, now: u64) -> Pair {
        let mut pair = Pair {
            timers: Timers::default(),
            now,
            queues: (0..queues).map(|_| Queue::default()).collect(),
            armed: BTreeMap::new(),
            sequence: 0,
        };
        for queue in 0..queues {
            assert_eq!(pair.peek(queue, &mut 0), Peek::Empty);
        }
        pair
    }

    pub fn len(&self) -> usize {
        self.armed.len()
    }

    pub fn is_armed(&self, key: Key) -> bool {
        self.armed.contains_key(&key)
    }

    pub fn wheel(&self, queue: usize) -> &Wheel {
        &self.queues[queue].wheel
    }

    pub fn insert(&mut self, queue: usize, key: Key, due: u64) {
        let Queue { wheel, model } = &mut self.queues[queue];
        wheel.insert(&mut self.timers, key, Millis(due));
        let placed = due.max(wheel.cursor().0);
        self.sequence += 1;
        model.insert((placed, self.sequence), key);
        self.armed.insert(key, (queue, placed, self.sequence));
        assert_eq!(self.timers.due(key), Millis(due));
        assert!(self.timers.is_armed(key));
        assert_eq!(wheel.len(), model.len());
    }

    pub fn cancel(&mut self, key: Key) {
        let Some((queue, placed, sequence)) = self.armed.remove(&key) else {
            assert!(!self.queues[0].wheel.cancel(&mut self.timers, key));
            return;
        };
        let Queue { wheel, model } = &mut self.queues[queue];
        model.remove(&(placed, sequence));
        let due = self.timers.due(key);
        assert!(wheel.cancel(&mut self.timers, key));
        assert!(!self.timers.is_armed(key));
        assert_eq!(self.timers.due(key), due, "the last due time stays readable");
        assert_eq!(wheel.len(), model.len());
    }

    /// Some armed key.
    pub fn any(&self, rng: &mut SmallRng) -> Option<Key> {
        let from = rng.random::<u32>() % self.armed.keys().next_back()?.saturating_add(1);
        self.armed.range(from..).next().map(|(&key, _)| key)
    }

    /// `peek` at `now`: the answer must be the model's, and cost no more than the budget.
    pub fn peek(&mut self, queue: usize, budget: &mut u32) -> Peek {
        let Queue { wheel, model } = &mut self.queues[queue];
        let (before, given) = (wheel.cursor(), *budget);
        let peek = wheel.peek(&mut self.timers, Millis(self.now), budget);
        assert!(*budget <= given);
        assert!(before <= wheel.cursor(), "the cursor never goes back");
        assert!(wheel.cursor().0 <= self.now.max(before.0));
        let first = model.first_key_value().map(|(&(due, _), &key)| (due, key));
        match (peek, first) {
            (Peek::Due(key), Some((due, expected))) => {
                assert_eq!(key, expected, "another timer comes first");
                assert!(due <= self.now, "early: {due} at {}", self.now);
            }
            (Peek::Due(key), None) => panic!("{key} is due in an empty wheel"),
            (Peek::More, _) => assert_eq!(*budget, 0, "more to do, but budget left"),
            (Peek::Empty, Some((due, _))) => assert!(due > self.now, "late: {due} at {}", self.now),
            (Peek::Empty, None) => {}
        }
        peek
    }

    /// Takes what is due, by slices of `slice`, at most `max` timers; says how many.
    pub fn drain(&mut self, queue: usize, slice: u32, max: usize) -> usize {
        let mut taken = 0;
        while taken < max {
            let mut budget = slice;
            match self.peek(queue, &mut budget) {
                Peek::Due(key) => {
                    let Queue { wheel, model } = &mut self.queues[queue];
                    wheel.take(&mut self.timers, key);
                    model.pop_first();
                    self.armed.remove(&key);
                    assert!(!self.timers.is_armed(key));
                    taken += 1;
                }
                Peek::More => {}
                Peek::Empty => break,
            }
        }
        taken
    }

    /// The next wake-up is never late, and there is one if there are timers.
    pub fn check_wakeup(&self, queue: usize) {
        let Queue { wheel, model } = &self.queues[queue];
        let wakeup = wheel.next_wakeup(&self.timers);
        let first = model.first_key_value().map(|(&(due, _), _)| due);
        assert_eq!(wakeup.is_some(), first.is_some());
        assert!(wakeup.map(|at| at.0) <= first, "wake-up at {wakeup:?}, due at {first:?}");
        assert!(wakeup.is_none_or(|at| at >= wheel.cursor()));
    }

    /// All keys are told of, equal due times in order, and what is told as front is the front.
    pub fn check_iter(&self, queue: usize) {
        let Queue { wheel, model } = &self.queues[queue];
        let mut all: Vec<Key> = wheel.iter(&self.timers).collect();
        all.sort_by_key(|&key| self.timers.due(key).max(wheel.cursor()));
        assert!(all.iter().eq(model.values()), "iter, sorted by due time, is the exact order");
        let front: Vec<Key> = wheel.iter_front(&self.timers).collect();
        assert!(front.iter().eq(model.values().take(front.len())), "iter_front is the front");
    }

    /// One slice of opening ahead, whether or not that is enough.
    pub fn open_slice(&mut self, queue: usize, count: usize, slice: u32) {
        let (wheel, mut budget) = (&mut self.queues[queue].wheel, slice);
        let done = wheel.open_ahead(&mut self.timers, count, &mut budget);
        assert!(done || budget == 0);
    }

    /// One slice of what is to be opened by now. When it is done, there is nothing more to be done now.
    pub fn open_next(&mut self, queue: usize, slice: u32) {
        let (wheel, mut budget) = (&mut self.queues[queue].wheel, slice);
        let done = wheel.open_next(&mut self.timers, &mut budget);
        assert!(done || budget == 0);
        let (next, cursor) = (wheel.next_opening(&self.timers), wheel.cursor());
        assert!(!done || next.is_none_or(|at| at > cursor), "{next:?} at {cursor:?}");
    }

    /// Moves the cursor if nothing is due.
    pub fn pass(&mut self, queue: usize) {
        let Queue { wheel, model } = &mut self.queues[queue];
        let before = wheel.cursor();
        wheel.pass(&self.timers, Millis(self.now));
        let first = model.first_key_value().map(|(&(due, _), _)| due);
        let moved = wheel.cursor() != before;
        assert!(!moved || wheel.cursor().0 == self.now && first.is_none_or(|due| due > self.now));
    }

    /// Opens ahead by slices of `slice`; then the first `count` are told of in order.
    pub fn open_ahead(&mut self, queue: usize, count: usize, slice: u32) {
        let Queue { wheel, model } = &mut self.queues[queue];
        let cursor = wheel.cursor();
        loop {
            let mut budget = slice;
            if wheel.open_ahead(&mut self.timers, count, &mut budget) {
                break;
            }
            assert_eq!(budget, 0);
        }
        assert_eq!(wheel.cursor(), cursor, "to look ahead moves no time");
        let front: Vec<Key> = wheel.iter_front(&self.timers).take(count).collect();
        assert_eq!(front.len(), count.min(model.len()));
        assert!(front.iter().eq(model.values().take(count)));
    }

    /// One slice of clearing; true when the wheel is empty.
    pub fn clear_slice(&mut self, queue: usize, slice: u32) -> bool {
        let Queue { wheel, model } = &mut self.queues[queue];
        let (before, mut budget) = (model.len(), slice);
        let mut keys = Vec::new();
        let done = wheel.clear_slice(&mut self.timers, &mut budget, |key| keys.push(key));
        assert_eq!(keys.len(), before.min(slice as usize));
        assert_eq!(budget as usize, slice as usize - keys.len());
        for key in keys {
            let (_, placed, sequence) = self.armed.remove(&key).expect("an armed key");
            model.remove(&(placed, sequence)).expect("a key of this wheel");
            assert!(!self.timers.is_armed(key));
        }
        assert_eq!((done, wheel.len()), (model.is_empty(), model.len()));
        done
    }

    /// Clears all wheels: nothing is left of them in the shared memory.
    pub fn clear(&mut self) {
        for queue in 0..self.queues.len() {
            while !self.clear_slice(queue, 1000) {}
            assert_eq!(self.queues[queue].wheel.next_wakeup(&self.timers), None);
        }
        assert!(self.timers.has_no_slots());
    }
}

/// Runs `case` with a generator for each of `count` seeds, or for the one in `DELAYD_SEED`.
pub fn each_seed(count: u64, case: impl Fn(&mut SmallRng) + Sync) {
    for_each_seed(count, |seed, _| case(&mut SmallRng::seed_from_u64(seed)));
}
