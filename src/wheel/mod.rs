//! The hierarchical timing wheel: timers by due time, for a queue or a partition.
//!
//! A [`Wheel`] keeps the timers of one queue, or the wake-ups of all queues. All wheels of a partition share one
//! [`Timers`], which holds the due time and the place of every key and the memory the wheels are made of; a wheel with
//! no timers is 40 bytes. Use it when many timers are set and most are cancelled or far off: setting and cancelling
//! cost the same however many there are.
//!
//! Nothing here reads a clock: the caller supplies the time, in milliseconds, and advancing it is
//! an operation with a budget of steps. Nor does anything here know what the timers are for.
//!
//! ```
//! use delayd::time::Millis;
//! use delayd::wheel::{Peek, Timers, Wheel};
//!
//! let mut timers = Timers::default();
//! let mut wheel = Wheel::default();
//! wheel.insert(&mut timers, 1, Millis(500));
//! wheel.insert(&mut timers, 2, Millis(300));
//! wheel.insert(&mut timers, 3, Millis(300));
//! wheel.cancel(&mut timers, 2);
//! assert_eq!(wheel.next_wakeup(&timers), Some(Millis(300)));
//!
//! let mut budget = 1000;
//! assert_eq!(wheel.peek(&mut timers, Millis(299), &mut budget), Peek::Empty);
//! assert_eq!(wheel.peek(&mut timers, Millis(300), &mut budget), Peek::Due(3));
//! wheel.take(&mut timers, 3);
//! assert_eq!(wheel.peek(&mut timers, Millis(300), &mut budget), Peek::Empty);
//! ```

#![warn(missing_docs)]

mod few;
mod level;
pub mod list;
mod path;
mod timers;
mod walk;

use crate::time::Millis;
use few::{FEW_AGAIN, FEW_MAX, Few};
use list::CHUNK_KEYS;
pub use list::Key;
use path::Path;
use timers::Spot;
pub use timers::Timers;
pub use walk::Iter;

/// The result of [`Wheel::peek`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peek {
    /// The first timer, and it is due. It stays where it is.
    Due(Key),
    /// The budget is used up; there is more to be done before the answer is known.
    More,
    /// No timer is due.
    Empty,
}

/// The timers of one queue, in the order of due time; equal ones in the order of insertion.
///
/// Up to 48 timers are a sorted vector. More are kept in levels, each of 256 slots: a slot is 1 ms
/// on level 0, 256 ms on level 1, 65.5 s on level 2, 4.7 h on level 3, 50 days on level 4, up to
/// level 7, with which all 64 bits are covered. Slots are filled in O(1) and *opened*, which moves
/// their timers a level down, when time comes to them. See [`list::List`] for what keeps the order
/// and bounds the memory.
///
/// The *cursor* is the millisecond all before which is done. It moves in [`Wheel::peek`] and
/// [`Wheel::pass`] only, never back, and a timer inserted for an earlier time counts as due at the cursor.
///
/// Every call must be given the same [`Timers`]. Dropping a wheel leaves its timers in them; use
/// [`Wheel::clear_slice`] first unless the `Timers` go too.
#[derive(Debug)]
pub struct Wheel {
    cursor: u64,
    len: u32,
    body: WheelBody,
}

#[derive(Debug)]
enum WheelBody {
    Few(Few),
    Levels(Box<Path>),
}

/// No timers, the cursor at 0; holds no memory.
impl Default for Wheel {
    fn default() -> Wheel {
        Wheel { cursor: 0, len: 0, body: WheelBody::Few(Few::default()) }
    }
}

impl Wheel {
    /// The number of timers.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether it has no timers.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The millisecond all before which is done.
    #[inline]
    pub fn cursor(&self) -> Millis {
        Millis(self.cursor)
    }

    /// Bytes this wheel holds itself, without its share of the [`Timers`].
    pub fn bytes(&self) -> usize {
        match &self.body {
            WheelBody::Few(few) => few.bytes(),
            WheelBody::Levels(_) => size_of::<Path>(),
        }
    }

    /// Arms `key` for `due`, after all timers of the same time. Panics if it is armed. O(1).
    ///
    /// If it comes to a slot with many timers, returns when to open that slot: the value of
    /// [`Wheel::next_opening`] if there were no other.
    #[inline]
    pub fn insert(&mut self, timers: &mut Timers, key: Key, due: Millis) -> Option<Millis> {
        timers.arm(key, due);
        self.len += 1;
        let due = due.0.max(self.cursor);
        match &mut self.body {
            WheelBody::Levels(path) => path.insert(timers, self.cursor, due, key).map(Millis),
            WheelBody::Few(few) => {
                few.insert(due, key);
                timers.put_in_few(key);
                if self.len as usize > FEW_MAX {
                    self.unfold(timers);
                    return self.next_opening(timers);
                }
                None
            }
        }
    }

    /// Moves the cursor to `now` if no slot begins until then: what is inserted next then comes to the
    /// slots near it, and not all of it into one that was far off when the cursor was last moved. O(1).
    #[inline]
    pub fn pass(&mut self, timers: &Timers, now: Millis) {
        let passes = match &self.body {
            WheelBody::Few(few) => few.first().is_none_or(|(due, _)| due > now.0),
            // Not for every ms: on level 0 it makes no difference.
            WheelBody::Levels(path) => {
                now.0 >> 8 > self.cursor >> 8 && path.is_clear(timers, self.cursor, now.0)
            }
        };
        if passes {
            self.cursor = self.cursor.max(now.0);
        }
    }

    /// When [`Wheel::open_next`] should be called so that no slot with many timers is opened only when its
    /// time has come; perhaps earlier. O(1): looks at some dozens of slots at most.
    pub fn next_opening(&self, timers: &Timers) -> Option<Millis> {
        match &self.body {
            WheelBody::Few(_) => None,
            WheelBody::Levels(path) => path.next_opening(timers, self.cursor).map(Millis),
        }
    }

    /// Opens slots ahead of time, each while the one before it passes; to be called when
    /// [`Wheel::peek`] has found nothing due. False if the budget ended before.
    ///
    /// Takes 1 from `budget` for each timer moved, which `peek` then need not do: a wheel that is opened
    /// in time moves some dozens of timers when their time comes, and not a million.
    pub fn open_next(&mut self, timers: &mut Timers, budget: &mut u32) -> bool {
        match &mut self.body {
            WheelBody::Few(_) => true,
            WheelBody::Levels(path) => path.open_next(timers, self.cursor, budget),
        }
    }

    /// Disarms `key`; false if it was not armed. It must not be armed in another wheel. O(1).
    #[inline]
    pub fn cancel(&mut self, timers: &mut Timers, key: Key) -> bool {
        match (timers.spot(key), &mut self.body) {
            (Spot::Unarmed, _) => return false,
            (Spot::Slot(place), WheelBody::Levels(path)) => {
                path.remove(timers, self.cursor, key, place);
            }
            (Spot::Few, WheelBody::Few(few)) => {
                few.remove(key);
                timers.disarm(key);
            }
            _ => panic!("timer {key} is not of this wheel"),
        }
        self.removed(timers, 1);
        true
    }

    /// Gives what is kept of `key`, its timer in this wheel and its due time if it has none, to the key `to`, which
    /// has had nothing. O(1).
    pub fn rename(&mut self, timers: &mut Timers, key: Key, to: Key) {
        match (timers.rename(key, to), &mut self.body) {
            (Spot::Few, WheelBody::Few(few)) => few.rename(key, to),
            (Spot::Few, WheelBody::Levels(_)) => panic!("timer {key} is not of this wheel"),
            (Spot::Unarmed | Spot::Slot(_), _) => {}
        }
    }

    /// The first timer due by `now`, in the exact order of (due time, insertion).
    ///
    /// Opens the slots that come before it: each timer moved down a level and each slot entered
    /// takes 1 from `budget`; every timer is moved at most once per level, 3 times for one a day
    /// ahead. Finding the same one again, or the next of its millisecond, takes nothing and is O(1),
    /// as is moving the cursor over any length of time without timers.
    ///
    /// A `now` before the cursor finds nothing due.
    #[inline]
    pub fn peek(&mut self, timers: &mut Timers, now: Millis, budget: &mut u32) -> Peek {
        match &mut self.body {
            WheelBody::Levels(path) => path.peek(timers, &mut self.cursor, now.0, budget),
            WheelBody::Few(few) => match few.first() {
                Some((due, key)) if due <= now.0 => {
                    self.cursor = due;
                    Peek::Due(key)
                }
                _ => {
                    self.cursor = self.cursor.max(now.0);
                    Peek::Empty
                }
            },
        }
    }

    /// Disarms the timer that [`Wheel::peek`] has just returned: the same as to cancel it, but
    /// cheaper. Panics if it is another. O(1).
    #[inline]
    pub fn take(&mut self, timers: &mut Timers, key: Key) {
        let taken = match &mut self.body {
            WheelBody::Levels(path) => path.take(timers, self.cursor),
            WheelBody::Few(few) => few.pop_first().inspect(|&key| timers.disarm(key)),
        };
        assert_eq!(taken, Some(key), "only what peek has just told of can be taken");
        self.removed(timers, 1);
    }

    /// When to call [`Wheel::peek`] next: never later than the first timer is due, but perhaps
    /// earlier, when slots must be opened. `None` without timers. O(1).
    pub fn next_wakeup(&self, timers: &Timers) -> Option<Millis> {
        match &self.body {
            WheelBody::Few(few) => few.first().map(|(due, _)| Millis(due)),
            WheelBody::Levels(path) => path.next_wakeup(timers, self.cursor).map(Millis),
        }
    }

    /// Disarms all timers, in no order and at most as many as `budget`, from which it takes 1 for
    /// each; true when none is left. `each` is called with every key disarmed. The wheel can be used
    /// as usual between the slices.
    pub fn clear_slice(
        &mut self,
        timers: &mut Timers,
        budget: &mut u32,
        mut each: impl FnMut(Key),
    ) -> bool {
        let mut keys = [0; CHUNK_KEYS];
        while *budget > 0 && self.len > 0 {
            let count = match &mut self.body {
                WheelBody::Levels(path) => path.take_any(timers, self.cursor, *budget, &mut keys),
                WheelBody::Few(few) => {
                    keys[0] = few.pop_last().expect("its length says so");
                    timers.disarm(keys[0]);
                    1
                }
            };
            *budget -= count as u32;
            self.removed(timers, count as u32);
            keys[..count].iter().for_each(|&key| each(key));
        }
        self.len == 0
    }

    /// Takes all timers out in one piece, armed as they are; what is left is empty, with the same cursor.
    /// From then on each must be cancelled in the wheel that is returned. O(1).
    pub fn take_all(&mut self) -> Wheel {
        let empty = Wheel { cursor: self.cursor, ..Wheel::default() };
        std::mem::replace(self, empty)
    }

    /// Opens slots ahead of time until [`Wheel::iter_front`] can return at least the first `count` timers in order;
    /// false if the budget ended before. Takes 1 from `budget` for each timer moved, and also checks O(`count`) slots
    /// each time it is called.
    ///
    /// A later insert may land before what has been opened, so that fewer are known again; opened
    /// slots stay open.
    pub fn open_ahead(&mut self, timers: &mut Timers, count: usize, budget: &mut u32) -> bool {
        match &mut self.body {
            WheelBody::Few(_) => true,
            WheelBody::Levels(path) => path.open_ahead(timers, self.cursor, count, budget),
        }
    }

    /// The first timers in the order they will be due, as far as slots have been opened: at least
    /// as many as [`Wheel::open_ahead`] was asked for if that said true, and nothing has changed
    /// since.
    pub fn iter_front<'a>(&'a self, timers: &'a Timers) -> Iter<'a> {
        Iter::new(self, timers, true)
    }

    /// All timers, roughly in the order they will be due; those of equal due time exactly so. A
    /// stable sort by `max(due, cursor)` makes the order exact.
    pub fn iter<'a>(&'a self, timers: &'a Timers) -> Iter<'a> {
        Iter::new(self, timers, false)
    }

    /// The vector has become too long: its timers move to levels. At most 49 inserts.
    #[cold]
    fn unfold(&mut self, timers: &mut Timers) {
        let mut path = Path::default();
        if let WheelBody::Few(few) = &self.body {
            for (due, key) in few.entries() {
                path.insert(timers, self.cursor, due, key);
            }
        }
        self.body = WheelBody::Levels(Box::new(path));
    }

    /// So few timers are left that a vector is smaller: at most 12 of them move there.
    #[cold]
    fn fold(&mut self, timers: &mut Timers) {
        // Equal due times come in order, and the vector sorts the others.
        let left: Vec<Key> = self.iter(timers).collect();
        let mut few = Few::default();
        if let WheelBody::Levels(path) = &mut self.body {
            let mut keys = [0; CHUNK_KEYS];
            while path.take_any(timers, self.cursor, u32::MAX, &mut keys) > 0 {}
        }
        for key in left {
            few.insert(timers.due(key).0.max(self.cursor), key);
            timers.put_in_few(key);
        }
        self.body = WheelBody::Few(few);
    }

    #[inline]
    fn removed(&mut self, timers: &mut Timers, count: u32) {
        self.len -= count;
        if self.len as usize <= FEW_AGAIN && matches!(self.body, WheelBody::Levels(_)) {
            self.fold(timers);
        }
    }
}

const _: () = assert!(size_of::<Wheel>() <= 40 && FEW_AGAIN < FEW_MAX && FEW_AGAIN < CHUNK_KEYS);
