//! Walks over all queues of a database that take several turns: how far each has come, and the rows kept.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::engine::model::across::{FoundJob, Order, QueueRow, Readable};
use crate::engine::model::holder::LeaseRow;
use crate::engine::model::request::JobState;
use crate::engine::store::Store;
use crate::engine::store::queue::Queue;
use crate::glob;
use crate::ids::{Db, QueueNo};
use crate::limits::{ACROSS_PER_TURN, PATTERN_STEPS_PER_TURN};

/// Queues that taking one into the rows counts as.
const ROW_STEPS: usize = 4;

/// How far a walk has come.
#[derive(Debug)]
pub struct Across {
    /// The command it belongs to. If the user's rights change meanwhile it begins again, so that
    /// nothing is shown that was read under revoked rights.
    readable: Option<Vec<Box<[u8]>>>,
    place: u32,
    pub rows: Rows,
}

/// The rows of a scan.
#[derive(Debug)]
pub enum Rows {
    Queues(Ranking<QueueRow>),
    Found(Vec<FoundJob>),
    /// The first to end, the last of them on top.
    Leases(BinaryHeap<LeaseRow>),
}

impl Across {
    /// At the first queue.
    pub fn new(readable: Readable<'_>, rows: Rows) -> Across {
        let readable = readable.map(|globs| globs.iter().map(|glob| Box::from(*glob)).collect());
        Across { readable, place: 0, rows }
    }

    /// Whether it was begun for a user with the same rights.
    pub fn is_for(&self, readable: Readable<'_>) -> bool {
        let own = self.readable.as_ref().map(|globs| globs.iter().map(|glob| &**glob));
        match (own, readable) {
            (None, None) => true,
            (Some(own), Some(globs)) => own.eq(globs.iter().copied()),
            _ => false,
        }
    }
}

/// The share of a turn for a scan; in a transaction, which cannot be interrupted, all of it: its cost was bounded
/// before.
#[derive(Debug)]
pub struct Share {
    alone: bool,
    queues: usize,
    /// Bytes compared with patterns so far.
    compared: u64,
}

impl Share {
    /// Nothing of it is used up.
    pub fn new(alone: bool) -> Share {
        Share { alone, queues: ACROSS_PER_TURN, compared: 0 }
    }

    /// So many were looked at.
    pub fn look(&mut self, count: usize) {
        self.queues = self.queues.saturating_sub(count);
    }

    /// How many may still be looked at; none if it is used up.
    pub fn left(&self) -> Option<usize> {
        match self.alone {
            true => (!self.is_used_up()).then_some(self.queues),
            false => Some(ACROSS_PER_TURN),
        }
    }

    pub fn take_row(&mut self) {
        self.queues = self.queues.saturating_sub(ROW_STEPS);
    }

    /// Whether a name matches the glob, if there is one, and one of those that can be read.
    pub fn shows(&mut self, name: &[u8], pattern: Option<&[u8]>, readable: Readable<'_>) -> bool {
        let mut fits = |glob: &[u8]| glob::matches_counted(glob, name, &mut self.compared);
        pattern.is_none_or(&mut fits)
            && readable.is_none_or(|globs| globs.iter().any(|glob| fits(glob)))
    }

    fn is_used_up(&self) -> bool {
        self.alone && (self.queues == 0 || self.compared >= PATTERN_STEPS_PER_TURN)
    }
}

impl Across {
    /// The next queue of the database; none at the end, and none yet when the share is used up: then
    /// [`Across::is_over`] is false.
    pub fn next(&mut self, store: &Store, db: Db, share: &mut Share) -> Option<QueueNo> {
        if share.is_used_up() {
            return None;
        }
        share.look(1);
        let (number, _, place) = store
            .next_queue_from(usize::from(db.0), self.place)
            .filter(|(_, at, _)| *at == usize::from(db.0))?;
        self.place = place + 1;
        Some(number)
    }

    /// The queue that [`Across::next`] gave last comes once more.
    pub fn step_back(&mut self) {
        self.place = self.place.saturating_sub(1);
    }

    /// Whether there is no further queue.
    pub fn is_over(&self, store: &Store, db: Db) -> bool {
        let next = store.next_queue_from(usize::from(db.0), self.place);
        next.is_none_or(|(_, at, _)| at != usize::from(db.0))
    }
}

/// The key of a queue in an order; the greater comes first.
pub fn key_of(order: Order, store: &Store, queue: &Queue) -> u64 {
    match order {
        Order::Name => 0,
        Order::Ready => queue.count(JobState::Ready),
        Order::Delayed => queue.count(JobState::Delayed),
        Order::Leased => queue.count(JobState::Leased),
        Order::Dead => queue.count(JobState::Dead),
        Order::Age => store.oldest_ready_due(queue).map_or(0, |due| u64::MAX - due.0),
        Order::Bytes => queue.bytes,
        Order::Schedules => queue.schedules.as_ref().map_or(0, |all| all.len() as u64),
    }
}

/// The first queues or groups by key and name, at most this many.
#[derive(Debug)]
pub struct Ranking<R> {
    count: usize,
    /// The last of them on top. A row begins with its name.
    rows: BinaryHeap<(Reverse<u64>, R)>,
}

impl<R: Ord> Ranking<R> {
    pub fn new(count: u32) -> Ranking<R> {
        Ranking { count: count as usize, rows: BinaryHeap::new() }
    }

    /// Whether one with this key, of which the greater comes first, would be among the rows.
    pub fn admits(&self, key: u64, name: &[u8], name_of: fn(&R) -> &[u8]) -> bool {
        let Some((last, row)) = self.rows.peek() else { return true };
        self.rows.len() < self.count || (Reverse(key), name) < (*last, name_of(row))
    }

    /// Takes one in that is admitted.
    pub fn insert(&mut self, key: u64, row: R) {
        self.rows.push((Reverse(key), row));
        if self.rows.len() > self.count {
            self.rows.pop();
        }
    }

    /// The rows in order.
    pub fn finish(self) -> Vec<R> {
        self.rows.into_sorted_vec().into_iter().map(|(_, row)| row).collect()
    }
}
