//! Removed queues whose jobs are still in memory.

use std::collections::{BTreeSet, VecDeque};

use crate::engine::store::jobs::slots::Slots;
use crate::engine::store::queue::Queue;
use crate::ids::QueueNo;
use crate::time::Millis;

/// Removed queues. Putting any number of them here is O(1).
#[derive(Default, Debug)]
pub struct Graveyard {
    graves: VecDeque<Box<Queue>>,
    /// Whole databases.
    flushed: Vec<Slots<Box<Queue>>>,
    /// Other graveyards.
    others: Vec<Graveyard>,
    /// When the schedules of flushed databases would have come.
    wakes: Vec<BTreeSet<(Millis, QueueNo)>>,
}

impl Graveyard {
    pub fn put(&mut self, queue: Box<Queue>) {
        self.graves.push_back(queue);
    }

    /// Adds one that comes first.
    pub fn put_first(&mut self, queue: Box<Queue>) {
        self.graves.push_front(queue);
    }

    /// Adds all queues of a database.
    pub fn put_all(&mut self, queues: Slots<Box<Queue>>) {
        if queues.len() > 0 {
            self.flushed.push(queues);
        }
    }

    /// Adds when the schedules of a database would have come.
    pub fn put_wakes(&mut self, wakes: BTreeSet<(Millis, QueueNo)>) {
        if !wakes.is_empty() {
            self.wakes.push(wakes);
        }
    }

    /// Frees those, in `steps`; true when none is left.
    pub fn free_wakes(&mut self, steps: &mut u32) -> bool {
        while let Some(wakes) = self.wakes.last_mut() {
            while *steps > 0 && wakes.pop_first().is_some() {
                *steps -= 1;
            }
            if *steps == 0 {
                return false;
            }
            self.wakes.pop();
        }
        true
    }

    pub fn put_graveyard(&mut self, other: Graveyard) {
        if !other.is_empty() {
            self.others.push(other);
        }
    }

    /// Whether the secret is empty.
    pub fn is_empty(&self) -> bool {
        let queues = self.graves.is_empty() && self.flushed.is_empty();
        queues && self.others.is_empty() && self.wakes.is_empty()
    }

    /// Takes one out.
    pub fn next(&mut self) -> Option<Box<Queue>> {
        if let Some(grave) = self.graves.pop_front() {
            return Some(grave);
        }
        if let Some(queues) = self.flushed.last_mut() {
            let queue = queues.take_last();
            if queues.len() == 0 {
                self.flushed.pop();
            }
            return queue;
        }
        let other = self.others.last_mut()?;
        let grave = other.next();
        if other.is_empty() {
            self.others.pop();
        }
        grave
    }
}
