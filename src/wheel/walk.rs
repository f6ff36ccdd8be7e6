//! Going over the keys of a wheel without changing it.

use super::level::{HEIGHTS, Level};
use super::list::{self, Key};
use super::path::Path;
use super::timers::Timers;
use super::{Wheel, WheelBody};

/// The keys of a wheel; see [`Wheel::iter`] and [`Wheel::iter_front`].
#[derive(Debug)]
pub struct Iter<'a> {
    source: Source<'a>,
}

#[derive(Debug)]
enum Source<'a> {
    Few { wheel: &'a Wheel, index: usize },
    Levels { walk: WheelWalk<'a>, keys: Option<list::Iter<'a>> },
}

impl<'a> Iter<'a> {
    pub(super) fn new(wheel: &'a Wheel, timers: &'a Timers, front_only: bool) -> Iter<'a> {
        let source = match &wheel.body {
            WheelBody::Few(_) => Source::Few { wheel, index: 0 },
            WheelBody::Levels(path) => {
                Source::Levels { walk: WheelWalk::new(timers, path, front_only), keys: None }
            }
        };
        Iter { source }
    }
}

impl Iterator for Iter<'_> {
    type Item = Key;

    fn next(&mut self) -> Option<Key> {
        match &mut self.source {
            Source::Few { wheel, index } => {
                let WheelBody::Few(few) = &wheel.body else { return None };
                *index += 1;
                few.key_at(*index - 1)
            }
            Source::Levels { walk, keys } => loop {
                if let Some(key) = keys.as_mut().and_then(Iterator::next) {
                    return Some(key);
                }
                *keys = Some(walk.next_list()?);
            },
        }
    }
}

/// Goes over the lists of a wheel's slots, soonest slot first; a slot's child comes before its own
/// list, as its timers of equal due time came earlier.
#[derive(Debug)]
struct WheelWalk<'a> {
    timers: &'a Timers,
    /// The levels gone into, the lowest last. Heights fall from one to the next, so there are 8 at
    /// most.
    stack: [WalkStop; HEIGHTS],
    depth: usize,
    /// Whether to end before the first slot that has not been opened.
    front_only: bool,
}

/// How far the walk is in a level: before slot `slot`, or between its child and its list.
#[derive(Clone, Copy, Debug, Default)]
struct WalkStop {
    level: u32,
    slot: usize,
    child_done: bool,
}

impl<'a> WheelWalk<'a> {
    fn new(timers: &'a Timers, path: &Path, front_only: bool) -> WheelWalk<'a> {
        let stack = [WalkStop::default(); HEIGHTS];
        let mut walk = WheelWalk { timers, stack, depth: 0, front_only };
        if front_only && path.is_opening() {
            return walk;
        }
        for height in (0..HEIGHTS).rev() {
            if path.level(height) != 0 {
                walk.push(path.level(height));
            }
        }
        walk
    }

    fn push(&mut self, level: u32) {
        self.stack[self.depth] = WalkStop { level, slot: 0, child_done: false };
        self.depth += 1;
    }

    fn next_list(&mut self) -> Option<list::Iter<'a>> {
        while self.depth > 0 {
            let stop = &mut self.stack[self.depth - 1];
            let level: &Level = self.timers.levels.get(stop.level);
            let Some(slot) = level.next(stop.slot) else {
                self.depth -= 1;
                continue;
            };
            let list = level.lists[slot];
            if self.front_only && level.height > 0 && !list.is_empty() {
                return None;
            }
            let child = level.children[slot];
            if child != 0 && !(stop.child_done && stop.slot == slot) {
                (stop.slot, stop.child_done) = (slot, true);
                self.push(child);
                continue;
            }
            (stop.slot, stop.child_done) = (slot + 1, false);
            if !list.is_empty() {
                return Some(list.iter(&self.timers.chunks));
            }
        }
        None
    }
}
