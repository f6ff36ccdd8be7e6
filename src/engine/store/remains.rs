//! Removed queues whose jobs are still in memory.

use std::collections::VecDeque;

use crate::engine::store::jobs::slots::Slots;
use crate::engine::store::queue::Queue;

/// Removed queues. Putting any number of them here is O(1).
#[derive(Default, Debug)]
pub struct Graveyard {
    graves: VecDeque<Box<Queue>>,
    /// Whole databases.
    flushed: Vec<Slots<Box<Queue>>>,
    /// Other graveyards.
    others: Vec<Graveyard>,
}

impl Graveyard {
    /// Adds a queue.
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

    /// Adds all of another graveyard.
    pub fn put_graveyard(&mut self, other: Graveyard) {
        if !other.is_empty() {
            self.others.push(other);
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.graves.is_empty() && self.flushed.is_empty() && self.others.is_empty()
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
