//! What is measured: timers uniform over a day are set, cancelled in random order, or run out, in
//! the wheel and in others. Shared with the test suite, which runs it small.

use delayd::time::Millis;
use delayd::wheel::{Key, Peek, Timers, Wheel};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio_util::time::{DelayQueue, delay_queue};

/// When the timers are set: 2025, in the middle of the slots of all levels.
pub const START: u64 = 0x195_8a7c_b3d1;
pub const DAY: u64 = 86_400_000;
/// Steps of one slice, as the engine takes them.
pub const SLICE: u32 = 1000;

/// Timers: key `k` is due at `dues[k]`; `order` is a random order of the keys.
pub struct Input {
    pub dues: Vec<u64>,
    pub order: Vec<Key>,
}

impl Input {
    pub fn uniform(count: u32) -> Input {
        let mut rng = SmallRng::seed_from_u64(u64::from(count));
        let dues = (0..count).map(|_| START + rng.random_range(1..=DAY)).collect();
        let mut order: Vec<Key> = (0..count).collect();
        order.shuffle(&mut rng);
        Input { dues, order }
    }

    /// What taking all of them in order must come to.
    pub fn checksum(&self) -> u64 {
        let mut keys: Vec<Key> = (0..self.dues.len() as u32).collect();
        keys.sort_by_key(|&key| self.dues[key as usize]);
        keys.iter().fold(0, |sum, &key| step(sum, self.dues[key as usize]))
    }
}

/// A checksum that depends on the order. Of due times: not all contenders keep equal ones in order.
pub fn step(sum: u64, due: u64) -> u64 {
    sum.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(due)
}

/// Something that holds timers.
pub trait Contender {
    const NAME: &'static str;
    const CANCELS: bool = true;
    fn new() -> Self;
    fn insert_all(&mut self, dues: &[u64]);
    fn cancel_all(&mut self, dues: &[u64], order: &[Key]);
    /// Takes all, a day later, and returns the checksum.
    fn expire_all(&mut self) -> u64;
    fn is_empty(&self) -> bool;
}

/// The wheel.
pub struct Ours {
    pub timers: Timers,
    pub wheel: Wheel,
}

impl Ours {
    /// Takes what is due at `now` by slices.
    pub fn drain(&mut self, now: u64, mut sum: u64) -> u64 {
        loop {
            let mut budget = SLICE;
            loop {
                match self.wheel.peek(&mut self.timers, Millis(now), &mut budget) {
                    Peek::Due(_) if budget == 0 => break,
                    Peek::Due(key) => {
                        self.wheel.take(&mut self.timers, key);
                        sum = step(sum, self.timers.due(key).0);
                        budget -= 1;
                    }
                    Peek::More => break,
                    Peek::Empty => return sum,
                }
            }
        }
    }

    /// As `expire_all`, but from wake-up to wake-up, as a server with nothing else to do.
    pub fn expire_by_wakeups(&mut self) -> u64 {
        let mut sum = 0;
        while let Some(at) = self.wheel.next_wakeup(&self.timers) {
            sum = self.drain(at.0, sum);
        }
        sum
    }

    /// Sets the timers in random order of the keys, as when the slab's indices have been reused.
    pub fn insert_shuffled(&mut self, dues: &[u64], order: &[Key]) {
        for &key in order {
            self.wheel.insert(&mut self.timers, key, Millis(dues[key as usize]));
        }
    }
}

impl Contender for Ours {
    const NAME: &'static str = "wheel";

    fn new() -> Ours {
        let (mut timers, mut wheel) = (Timers::default(), Wheel::default());
        wheel.peek(&mut timers, Millis(START), &mut 0);
        Ours { timers, wheel }
    }

    fn insert_all(&mut self, dues: &[u64]) {
        for (key, &due) in (0..).zip(dues) {
            self.wheel.insert(&mut self.timers, key, Millis(due));
        }
    }

    fn cancel_all(&mut self, _: &[u64], order: &[Key]) {
        for &key in order {
            self.wheel.cancel(&mut self.timers, key);
        }
    }

    fn expire_all(&mut self) -> u64 {
        self.drain(START + DAY, 0)
    }

    fn is_empty(&self) -> bool {
        self.wheel.is_empty() && self.timers.has_no_slots()
    }
}

impl Contender for BTreeMap<(u64, u32), u64> {
    const NAME: &'static str = "BTreeMap";

    fn new() -> Self {
        BTreeMap::new()
    }

    fn insert_all(&mut self, dues: &[u64]) {
        for (key, &due) in (0..).zip(dues) {
            self.insert((due, key), due);
        }
    }

    fn cancel_all(&mut self, dues: &[u64], order: &[Key]) {
        for &key in order {
            self.remove(&(dues[key as usize], key));
        }
    }

    fn expire_all(&mut self) -> u64 {
        let mut sum = 0;
        while let Some(entry) = self.first_entry()
            && entry.key().0 <= START + DAY
        {
            sum = step(sum, entry.remove());
        }
        sum
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

impl Contender for BinaryHeap<Reverse<(u64, u32)>> {
    const NAME: &'static str = "BinaryHeap";
    const CANCELS: bool = false;

    fn new() -> Self {
        BinaryHeap::new()
    }

    fn insert_all(&mut self, dues: &[u64]) {
        for (key, &due) in (0..).zip(dues) {
            self.push(Reverse((due, key)));
        }
    }

    fn cancel_all(&mut self, _: &[u64], _: &[Key]) {
        unreachable!("a heap cannot cancel");
    }

    fn expire_all(&mut self) -> u64 {
        let mut sum = 0;
        while self.peek().is_some_and(|&Reverse((due, _))| due <= START + DAY) {
            sum = step(sum, self.pop().map_or(0, |Reverse((due, _))| due));
        }
        sum
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

/// `tokio_util::time::DelayQueue` on a paused clock.
pub struct Tokio {
    runtime: tokio::runtime::Runtime,
    queue: DelayQueue<u64>,
    keys: Vec<delay_queue::Key>,
    start: tokio::time::Instant,
}

impl Contender for Tokio {
    const NAME: &'static str = "DelayQueue";

    fn new() -> Tokio {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime with a clock only");
        let (queue, start) =
            runtime.block_on(async { (DelayQueue::new(), tokio::time::Instant::now()) });
        Tokio { runtime, queue, keys: Vec::new(), start }
    }

    fn insert_all(&mut self, dues: &[u64]) {
        let _context = self.runtime.enter();
        self.keys.reserve(dues.len());
        for &due in dues {
            let at = self.start + Duration::from_millis(due - START);
            self.keys.push(self.queue.insert_at(due, at));
        }
    }

    fn cancel_all(&mut self, _: &[u64], order: &[Key]) {
        let _context = self.runtime.enter();
        for &key in order {
            self.queue.remove(&self.keys[key as usize]);
        }
    }

    fn expire_all(&mut self) -> u64 {
        let queue = &mut self.queue;
        self.runtime.block_on(async {
            tokio::time::advance(Duration::from_millis(DAY + 1)).await;
            let mut sum = 0;
            poll_fn(|cx| {
                // A bounded number per turn, or tokio's own budget turns the rest away.
                for _ in 0..100 {
                    match queue.poll_expired(cx) {
                        Poll::Ready(Some(expired)) => sum = step(sum, expired.into_inner()),
                        Poll::Ready(None) => return Poll::Ready(()),
                        Poll::Pending => break,
                    }
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
            sum
        })
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

/// How long each slice took, shortest first, when `count` timers of one millisecond run out.
pub fn herd(count: u32) -> Vec<Duration> {
    let mut ours = Ours::new();
    ours.insert_all(&vec![START + DAY; count as usize]);
    let mut slices = Vec::new();
    let (mut next, mut done) = (0, false);
    while !done {
        let begun = Instant::now();
        let mut budget = SLICE;
        while budget > 0 {
            match ours.wheel.peek(&mut ours.timers, Millis(START + DAY), &mut budget) {
                Peek::Due(_) if budget == 0 => break,
                Peek::Due(key) => {
                    assert_eq!(key, next);
                    ours.wheel.take(&mut ours.timers, key);
                    (next, budget) = (next + 1, budget - 1);
                }
                Peek::More => break,
                Peek::Empty => {
                    done = true;
                    break;
                }
            }
        }
        slices.push(begun.elapsed());
    }
    assert_eq!(next, count);
    slices.sort();
    slices
}
