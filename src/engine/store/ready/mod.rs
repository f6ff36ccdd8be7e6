//! The order of a queue's ready jobs: priority, then place. Its left end is the first of priority 0, its
//! right end the last of priority 9.
//!
//! Jobs that become ready get places: those that enter at the tail of their priority growing ones from 1 on, those that
//! enter at its head falling ones from 0 on. So they are in two FIFO lists per priority: 4.6 bytes a job, O(1) at both
//! ends and in the middle. A job that comes back from a lease has an old place; those few are in a separate tree, and
//! the smaller place comes first. Example: places 7 8 9 were leased, 10 11 are in the tail, 8 comes back, -3 was pushed
//! to the head: the order is -3 8 10 11.

mod walk;

use std::collections::BTreeMap;

use crate::engine::model::request::Side;
use crate::engine::store::jobs::{JobIndex, JobStage, Jobs};
use crate::wheel::list::{Chunks, List, Place};
use walk::ReadyWalk;

/// `Job::spot` of a ready job in the tree of those that came back.
const RETURNED: u32 = 1;
const _: () = assert!(RETURNED < Place::FIRST);

/// The least place of those that enter at the tail.
pub const TAIL_PLACE_MIN: i64 = 1;

/// Where a job enters of which a fact says whether it does so at the left.
pub fn side_of(left: bool) -> Side {
    if left { Side::Left } else { Side::Right }
}

/// The ready jobs of one queue.
#[derive(Default, Debug)]
pub struct ReadyOrder {
    lines: PriorityLines,
}

#[derive(Default, Debug)]
struct PriorityLines {
    /// A bit per priority that has jobs: the first is found without looking at ten lines.
    occupied: u16,
    lines: [Option<Box<PriorityLine>>; 10],
}

/// The jobs of one priority.
#[derive(Default, Debug)]
struct PriorityLine {
    /// Places from 1 on, growing.
    tail: List,
    /// Places up to 0, falling: the left end is the last of them.
    head: List,
    returned: BTreeMap<i64, JobIndex>,
}

impl ReadyOrder {
    /// Puts a job last in its priority; its place is greater than all others, and at least 1.
    pub fn push_back(&mut self, jobs: &mut Jobs, chunks: &mut Chunks, index: JobIndex) {
        let priority = jobs.get(index).priority;
        debug_assert!(jobs.get(index).order >= TAIL_PLACE_MIN, "a place of the tail");
        let line = self.lines.open(priority);
        line.tail.push_back(chunks, 0, index, |key, place| {
            jobs.get_mut(key).spot = place.number();
        });
    }

    /// Puts a job first in its priority; its place is smaller than all others, and at most 0.
    pub fn push_front(&mut self, jobs: &mut Jobs, chunks: &mut Chunks, index: JobIndex) {
        let priority = jobs.get(index).priority;
        debug_assert!(jobs.get(index).order < TAIL_PLACE_MIN, "a place of the head");
        let line = self.lines.open(priority);
        line.head.push_back(chunks, 0, index, |key, place| {
            jobs.get_mut(key).spot = place.number();
        });
    }

    pub fn put_back(&mut self, jobs: &mut Jobs, index: JobIndex) {
        let job = jobs.get_mut(index);
        job.spot = RETURNED;
        let earlier = self.lines.open(job.priority).returned.insert(job.order, index);
        assert!(earlier.is_none(), "two ready jobs at one place");
    }

    pub fn remove(&mut self, jobs: &mut Jobs, chunks: &mut Chunks, index: JobIndex) {
        let job = jobs.get_mut(index);
        let (priority, order) = (job.priority, job.order);
        let spot = std::mem::take(&mut job.spot);
        let line = self.lines.open(priority);
        match Place::from_number(spot) {
            Some(place) => {
                let list = if order < TAIL_PLACE_MIN { &mut line.head } else { &mut line.tail };
                list.remove(chunks, place, index, |key, place| {
                    jobs.get_mut(key).spot = place.number();
                });
            }
            None => {
                let removed = line.returned.remove(&order);
                assert_eq!(removed, Some(index), "a ready job stands where its spot says");
            }
        }
        if line.tail.is_empty() && line.head.is_empty() && line.returned.is_empty() {
            // The line itself stays: 40 bytes, against an allocation per job in a queue that is
            // nearly always empty.
            self.lines.occupied &= !(1 << priority);
        }
    }

    /// A ready job has got another number, and is kept under that already.
    pub fn rename(&mut self, jobs: &Jobs, chunks: &mut Chunks, index: JobIndex, to: JobIndex) {
        let job = jobs.get(to);
        match Place::from_number(job.spot) {
            Some(place) => chunks.set_key(place, to),
            None => {
                let returned = &mut self.lines.open(job.priority).returned;
                let entry = returned.get_mut(&job.order).filter(|entry| **entry == index);
                *entry.expect("a ready job stands where its spot says") = to;
            }
        }
    }

    /// Moves the chunk of a ready job to a lower block, if that helps to close one.
    pub fn move_below(&mut self, jobs: &mut Jobs, chunks: &mut Chunks, index: JobIndex) {
        let job = jobs.get(index);
        let Some(place) = Place::from_number(job.spot) else { return };
        let line = self.lines.open(job.priority);
        let list = if job.order < TAIL_PLACE_MIN { &mut line.head } else { &mut line.tail };
        list.move_below(chunks, place, |key, place| jobs.get_mut(key).spot = place.number());
    }

    /// Whether a ready job is among those that came back to their old places.
    pub fn has_returned(&self, jobs: &Jobs, index: JobIndex) -> bool {
        let job = jobs.get(index);
        let line = self.lines.lines[usize::from(job.priority)].as_ref();
        job.stage == JobStage::Ready
            && job.spot == RETURNED
            && line.is_some_and(|line| line.returned.get(&job.order) == Some(&index))
    }

    /// Takes all jobs out in one piece, as they stand. O(1).
    pub fn take_all(&mut self) -> ReadyOrder {
        std::mem::take(self)
    }

    pub fn at(&self, end: Side, jobs: &Jobs, chunks: &Chunks) -> Option<JobIndex> {
        match end {
            Side::Left => {
                let priority = self.lines.occupied.trailing_zeros() as usize;
                self.lines.lines.get(priority)?.as_ref()?.first(jobs, chunks)
            }
            Side::Right => {
                let priority = self.lines.occupied.checked_ilog2()? as usize;
                self.lines.lines[priority].as_ref()?.last(jobs, chunks)
            }
        }
    }

    /// The jobs of each priority of which one became ready first: those that entered first at its
    /// tail and at its head, and of those that came back the ones that had entered first there.
    pub fn earliest<'a>(&'a self, chunks: &'a Chunks) -> impl Iterator<Item = JobIndex> + 'a {
        self.lines.lines.iter().flatten().flat_map(|line| {
            let listed = [line.tail.front(chunks), line.head.front(chunks)];
            let tail = line.returned.range(TAIL_PLACE_MIN..).next();
            let head = line.returned.range(..TAIL_PLACE_MIN).next_back();
            let returned = [tail, head].into_iter().flatten().map(|(_, index)| *index);
            listed.into_iter().flatten().map(|(index, _)| index).chain(returned)
        })
    }

    /// All jobs, from an end to the other.
    pub fn iter<'a>(
        &'a self,
        from: Side,
        jobs: &'a Jobs,
        chunks: &'a Chunks,
    ) -> impl Iterator<Item = JobIndex> + 'a {
        ReadyWalk::new(from, &self.lines, jobs, chunks)
    }
}

impl PriorityLines {
    fn open(&mut self, priority: u8) -> &mut PriorityLine {
        self.occupied |= 1 << priority;
        self.lines[usize::from(priority)].get_or_insert_default()
    }
}

impl PriorityLine {
    fn first(&self, jobs: &Jobs, chunks: &Chunks) -> Option<JobIndex> {
        let listed = self.head.back(chunks).or_else(|| self.tail.front(chunks));
        let returned = self.returned.first_key_value();
        nearer(Side::Left, listed.map(|(index, _)| index), returned, jobs)
    }

    fn last(&self, jobs: &Jobs, chunks: &Chunks) -> Option<JobIndex> {
        let listed = self.tail.back(chunks).or_else(|| self.head.front(chunks));
        let returned = self.returned.last_key_value();
        nearer(Side::Right, listed.map(|(index, _)| index), returned, jobs)
    }
}

/// Which of two comes first from an end.
fn nearer(
    end: Side,
    listed: Option<JobIndex>,
    returned: Option<(&i64, &JobIndex)>,
    jobs: &Jobs,
) -> Option<JobIndex> {
    let Some((place, returned)) = returned else { return listed };
    let Some(listed) = listed else { return Some(*returned) };
    let place_listed = jobs.get(listed).order;
    let is_returned = match end {
        Side::Left => *place < place_listed,
        Side::Right => *place > place_listed,
    };
    Some(if is_returned { *returned } else { listed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::model::meta::Meta;
    use crate::ids::PolicyNo;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    /// An order and the sorted list of its content.
    struct Pair {
        order: ReadyOrder,
        jobs: Jobs,
        chunks: Chunks,
        sorted: Vec<(u8, i64, JobIndex)>,
        /// Jobs that were taken and may come back.
        out: Vec<JobIndex>,
        first: i64,
        last: i64,
    }

    impl Pair {
        fn new() -> Pair {
            let (order, jobs, chunks) = (ReadyOrder::default(), Jobs::default(), Chunks::new());
            let (sorted, out) = (Vec::new(), Vec::new());
            Pair { order, jobs, chunks, sorted, out, first: 1, last: 0 }
        }

        fn note(&mut self, index: JobIndex) {
            let job = self.jobs.get(index);
            self.sorted.push((job.priority, job.order, index));
            self.sorted.sort_unstable();
        }

        fn push(&mut self, priority: u8, side: Side) {
            let mut job = self.jobs.make(b"", Meta::NONE, b"", PolicyNo(0));
            job.priority = priority;
            match side {
                Side::Left => self.first -= 1,
                Side::Right => self.last += 1,
            }
            job.order = if side == Side::Left { self.first } else { self.last };
            let index = self.jobs.put(job);
            match side {
                Side::Left => self.order.push_front(&mut self.jobs, &mut self.chunks, index),
                Side::Right => self.order.push_back(&mut self.jobs, &mut self.chunks, index),
            }
            self.note(index);
        }

        fn take(&mut self, at: usize) {
            let (_, _, index) = self.sorted.remove(at);
            self.order.remove(&mut self.jobs, &mut self.chunks, index);
            self.out.push(index);
        }

        fn put_back(&mut self, at: usize) {
            let index = self.out.swap_remove(at);
            self.order.put_back(&mut self.jobs, index);
            self.note(index);
        }

        fn change(&mut self, rng: &mut SmallRng, priorities: u8) {
            let side = if rng.random() { Side::Left } else { Side::Right };
            match rng.random_range(0..8) {
                0..3 => self.push(rng.random_range(0..priorities), side),
                3 if !self.sorted.is_empty() => self.take(0),
                4 if !self.sorted.is_empty() => self.take(self.sorted.len() - 1),
                5 if !self.sorted.is_empty() => self.take(rng.random_range(0..self.sorted.len())),
                _ if !self.out.is_empty() => self.put_back(rng.random_range(0..self.out.len())),
                _ => {}
            }
        }

        fn check(&self) {
            let sorted: Vec<JobIndex> = self.sorted.iter().map(|job| job.2).collect();
            let (jobs, chunks) = (&self.jobs, &self.chunks);
            assert!(self.order.iter(Side::Left, jobs, chunks).eq(sorted.iter().copied()));
            assert!(self.order.iter(Side::Right, jobs, chunks).eq(sorted.iter().rev().copied()));
            assert_eq!(self.order.at(Side::Left, jobs, chunks), sorted.first().copied());
            assert_eq!(self.order.at(Side::Right, jobs, chunks), sorted.last().copied());
        }
    }

    #[test]
    fn the_order_is_that_of_priority_and_place() {
        for seed in 0..60 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let (mut pair, priorities) = (Pair::new(), rng.random_range(1..=10));
            for _ in 0..rng.random_range(1..400) {
                pair.change(&mut rng, priorities);
                if rng.random_ratio(1, 8) {
                    pair.check();
                }
            }
            pair.check();
        }
    }
}
