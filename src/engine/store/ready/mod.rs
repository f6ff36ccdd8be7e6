//! The order of a queue's ready jobs: priority, then place. Its left end is the first of priority 0, its
//! right end the last of priority 9.
//!
//! Jobs that become ready get places: those that enter at the tail of their priority growing ones from 1 on, those that
//! enter at its head falling ones from 0 on. So they are in two FIFO lists per priority: 4.6 bytes a job, O(1) at both
//! ends and in the middle. A job that comes back from a lease has an old place; those few are in a separate tree, and
//! the smaller place comes first; a job that replaces one of another priority or group is there, too. Example: places
//! 7 8 9 were leased, 10 11 are in the tail, 8 comes back, -3 was pushed to the head: the order is -3 8 10 11.

pub(in crate::engine) mod lane;
mod line;
pub(in crate::engine) mod rota;
mod walk;

use crate::engine::model::request::Side;
use crate::engine::store::jobs::{JobIndex, Jobs};
use crate::time::Millis;
use crate::wheel::list::Chunks;
use lane::{Lane, Standing};
use line::Line;
use rota::{Lanes, NO_GROUP, Tiers};
use walk::Pieces;

/// The least place of those that enter at the tail.
pub const TAIL_PLACE_MIN: i64 = 1;

/// Where a job enters of which a fact says whether it does so at the left.
pub fn side_of(left: bool) -> Side {
    if left { Side::Left } else { Side::Right }
}

/// The ready jobs of one queue.
#[derive(Default, Debug)]
pub struct ReadyOrder {
    /// Those without a group.
    lines: PriorityLines,
    /// Those of groups; none without any.
    lanes: Option<Box<Lanes>>,
}

/// Where the jobs of one priority, and of one group if they have one, stand.
enum Stood<'r> {
    Plain(&'r mut Line),
    InGroup(&'r mut Lane),
}

#[derive(Default, Debug)]
struct PriorityLines {
    /// A bit per priority that has jobs: the first is found without looking at ten lines.
    occupied: u16,
    lines: [Option<Box<Line>>; 10],
}

impl ReadyOrder {
    /// Puts a job last in its priority and group; its place is greater than all others, and at least 1.
    pub fn push_back(
        &mut self,
        jobs: &mut Jobs,
        chunks: &mut Chunks,
        index: JobIndex,
        tiers: Tiers,
    ) {
        match self.open(jobs, chunks, index, tiers) {
            Stood::Plain(line) => line.push_back(jobs, chunks, index),
            Stood::InGroup(lane) => lane.push(jobs, chunks, index),
        }
    }

    /// Puts a job first in its priority and group; its place is smaller than all others, and at most 0.
    pub fn push_front(
        &mut self,
        jobs: &mut Jobs,
        chunks: &mut Chunks,
        index: JobIndex,
        tiers: Tiers,
    ) {
        match self.open(jobs, chunks, index, tiers) {
            Stood::Plain(line) => line.push_front(jobs, chunks, index),
            Stood::InGroup(lane) => lane.push(jobs, chunks, index),
        }
    }

    pub fn put_back(
        &mut self,
        jobs: &mut Jobs,
        chunks: &mut Chunks,
        index: JobIndex,
        tiers: Tiers,
    ) {
        match self.open(jobs, chunks, index, tiers) {
            Stood::Plain(line) => line.put_back(jobs, index),
            Stood::InGroup(lane) => lane.put_back(jobs, chunks, index),
        }
    }

    pub fn remove(&mut self, jobs: &mut Jobs, chunks: &mut Chunks, index: JobIndex) {
        let (group, priority) = (jobs.group(index), jobs.get(index).priority);
        let is_empty = match self.stood(group, priority) {
            Stood::Plain(line) => {
                line.remove(jobs, chunks, index);
                line.is_empty()
            }
            Stood::InGroup(lane) => {
                lane.remove(jobs, chunks, index);
                lane.is_empty()
            }
        };
        if !is_empty {
            return;
        }
        if group == NO_GROUP {
            // The line itself stays: 40 bytes, against an allocation per job in a queue that is
            // nearly always empty.
            self.lines.occupied &= !(1 << priority);
        }
        let Some(lanes) = &mut self.lanes else { return };
        lanes.close(chunks, group, priority);
        if lanes.is_empty() {
            self.lanes.take().expect("there are lanes").end(chunks);
        }
    }

    /// Where a job is to enter.
    fn open(
        &mut self,
        jobs: &Jobs,
        chunks: &mut Chunks,
        index: JobIndex,
        tiers: Tiers,
    ) -> Stood<'_> {
        let (group, priority) = (tiers.group, jobs.get(index).priority);
        let lines = &mut self.lines;
        if group != NO_GROUP {
            let lanes = self.lanes.get_or_insert_with(|| {
                let mut lanes = Box::new(Lanes::default());
                for other in (0..10).filter(|other| lines.occupied & (1 << other) != 0) {
                    lanes.open(chunks, NO_GROUP, other, Standing::in_tier(tiers.rest));
                }
                lanes
            });
            return Stood::InGroup(lanes.open(chunks, group, priority, tiers.own));
        }
        if let Some(lanes) = &mut self.lanes {
            lanes.open(chunks, NO_GROUP, priority, Standing::in_tier(tiers.rest));
        }
        Stood::Plain(lines.open(priority))
    }

    /// Where a ready job stands.
    fn stood(&mut self, group: u32, priority: u8) -> Stood<'_> {
        if group == NO_GROUP {
            return Stood::Plain(self.lines.open(priority));
        }
        let lane = self.lanes.as_mut().and_then(|lanes| lanes.lane_mut(group, priority));
        Stood::InGroup(lane.expect("a ready job of a group stands in its lane"))
    }

    fn lane(&self, group: u32, priority: u8) -> Option<&Lane> {
        self.lanes.as_ref()?.lane(group, priority)
    }

    /// A ready job has got another number, and is kept under that already.
    pub fn rename(&mut self, jobs: &Jobs, chunks: &mut Chunks, index: JobIndex, to: JobIndex) {
        match self.stood(jobs.group(to), jobs.get(to).priority) {
            Stood::Plain(line) => line.rename(jobs, chunks, index, to),
            Stood::InGroup(lane) => lane.rename(jobs, chunks, index, to),
        }
    }

    /// Moves the chunk of a ready job to a lower block, if that helps to close one.
    pub fn move_below(&mut self, jobs: &mut Jobs, chunks: &mut Chunks, index: JobIndex) {
        match self.stood(jobs.group(index), jobs.get(index).priority) {
            Stood::Plain(line) => line.move_below(jobs, chunks, index),
            Stood::InGroup(lane) => lane.move_below(jobs, chunks, index),
        }
    }

    /// Whether a ready job is among those that came back to their old places.
    pub fn has_returned(&self, jobs: &Jobs, index: JobIndex) -> bool {
        let (group, priority) = (jobs.group(index), jobs.get(index).priority);
        if group == NO_GROUP {
            let line = self.lines.lines[usize::from(priority)].as_ref();
            return line.is_some_and(|line| line.has_returned(jobs, index));
        }
        self.lane(group, priority).is_some_and(|lane| lane.has_returned(jobs, index))
    }

    /// Takes all jobs out in one piece, as they stand. O(1).
    pub fn take_all(&mut self) -> ReadyOrder {
        std::mem::take(self)
    }

    /// The job at an end. Where groups share it is the next one, and `end` the queue's front.
    pub fn at(&self, end: Side, jobs: &Jobs, chunks: &Chunks) -> Option<JobIndex> {
        if let Some(lanes) = &self.lanes {
            let (lane, priority) = lanes.first(end, chunks)?;
            return self.at_of(lane, priority, end, Pieces { jobs, chunks });
        }
        let priority = match end {
            Side::Left => self.lines.occupied.trailing_zeros(),
            Side::Right => self.lines.occupied.checked_ilog2()?,
        };
        self.lines.lines.get(priority as usize)?.as_ref()?.at(end, jobs, chunks)
    }

    /// The group whose turn it is, if groups share.
    pub fn front_group(&self, front: Side, chunks: &Chunks) -> Option<u32> {
        self.lanes.as_ref()?.first(front, chunks).map(|(lane, _)| lane.group)
    }

    /// A job, whether its group is closed or not: for freeing all, one after the other.
    pub fn any(&self, jobs: &Jobs, chunks: &Chunks) -> Option<JobIndex> {
        let Some(lanes) = &self.lanes else { return self.at(Side::Left, jobs, chunks) };
        let (lane, priority) = lanes.any(chunks)?;
        self.at_of(lane, priority, Side::Left, Pieces { jobs, chunks })
    }

    /// The job at an end of a lane.
    fn at_of(&self, lane: &Lane, priority: u8, end: Side, of: Pieces<'_>) -> Option<JobIndex> {
        let Pieces { jobs, chunks } = of;
        match lane.group {
            NO_GROUP => self.lines.lines[usize::from(priority)].as_ref()?.at(end, jobs, chunks),
            _ => lane.at(end, jobs, chunks),
        }
    }

    /// The jobs without a group of each priority of which one became ready first, at most forty.
    pub fn earliest<'a>(&'a self, chunks: &'a Chunks) -> impl Iterator<Item = JobIndex> + 'a {
        self.lines.lines.iter().flatten().flat_map(|line| line.earliest(chunks))
    }

    /// The same of a group.
    pub fn earliest_of<'a>(
        &'a self,
        group: u32,
        chunks: &'a Chunks,
    ) -> impl Iterator<Item = JobIndex> + 'a {
        let lanes = (0..10).filter_map(move |priority| self.lane(group, priority));
        lanes.flat_map(|lane| lane.earliest(chunks))
    }

    /// All jobs. Where groups share, `from` is the queue's front, and `stint` how many jobs a group gives at once.
    pub fn iter<'a>(
        &'a self,
        from: Side,
        jobs: &'a Jobs,
        chunks: &'a Chunks,
        stint: impl Fn(u32) -> u32 + Copy + 'a,
    ) -> Box<dyn Iterator<Item = JobIndex> + 'a> {
        let of = Pieces { jobs, chunks };
        match &self.lanes {
            None => Box::new(walk::plain(from, &self.lines, of)),
            Some(lanes) => Box::new(walk::shared(from, &self.lines, lanes, of, stint)),
        }
    }

    /// Whether a ready job has a group.
    pub fn is_shared(&self) -> bool {
        self.lanes.is_some()
    }

    /// The groups of all lanes in their order; some come more than once.
    pub fn groups<'a>(&'a self, chunks: &'a Chunks) -> impl Iterator<Item = u32> + 'a {
        let lanes = self.lanes.iter().flat_map(|lanes| (0..10).map(move |at| (lanes, at)));
        lanes.flat_map(|(lanes, at)| {
            let open = lanes.tiers(at, false, chunks).flatten();
            open.chain(lanes.tiers(at, true, chunks).flatten()).map(|lane| lane.group)
        })
    }

    /// Lets groups come in the order of their first jobs, given in an order of all jobs.
    pub fn line_up(&mut self, jobs: &Jobs, chunks: &mut Chunks, order: &[JobIndex]) {
        if let Some(lanes) = &mut self.lanes {
            let lane = |index: &JobIndex| (jobs.group(*index), jobs.get(*index).priority);
            lanes.line_up(chunks, order.iter().map(lane));
        }
    }

    /// A job was taken of this group, whose stints are this long.
    pub fn note_served(&mut self, chunks: &mut Chunks, group: u32, priority: u8, stint: u32) {
        if let Some(lanes) = &mut self.lanes {
            lanes.note_served(chunks, group, priority, stint);
        }
    }

    /// Stints of a group are this long from now on.
    pub fn end_stints(&mut self, chunks: &mut Chunks, group: u32, stint: u32) {
        if let Some(lanes) = &mut self.lanes {
            lanes.end_stints(chunks, group, stint);
        }
    }

    /// Where a group stands now.
    pub fn set_standing(&mut self, chunks: &mut Chunks, group: u32, standing: Standing) {
        if let Some(lanes) = &mut self.lanes {
            lanes.set_standing(chunks, group, standing);
        }
    }

    /// A job that was due then has become ready, or is not any more. Those of groups are counted.
    pub fn count_due(&mut self, group: u32, due: Millis, by: i64) {
        if let Some(lanes) = self.lanes.as_mut().filter(|_| group != NO_GROUP) {
            lanes.count_due(due, by);
        }
    }

    /// The second in which the job of a group was due that was due first.
    pub fn first_due(&self) -> Option<Millis> {
        self.lanes.as_ref()?.first_due()
    }
}

impl PriorityLines {
    fn open(&mut self, priority: u8) -> &mut Line {
        self.occupied |= 1 << priority;
        self.lines[usize::from(priority)].get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::store::jobs::Content;
    use crate::ids::PolicyNo;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    /// An order and the sorted list of its content.
    struct Pair {
        order: ReadyOrder,
        /// The group of all its jobs, if it has one.
        group: Option<(u32, &'static [u8])>,
        jobs: Jobs,
        chunks: Chunks,
        sorted: Vec<(u8, i64, JobIndex)>,
        /// Jobs that were taken and may come back.
        out: Vec<JobIndex>,
        first: i64,
        last: i64,
    }

    impl Pair {
        fn new(group: Option<(u32, &'static [u8])>) -> Pair {
            let (order, jobs, chunks) = (ReadyOrder::default(), Jobs::default(), Chunks::default());
            let (sorted, out) = (Vec::new(), Vec::new());
            Pair { order, group, jobs, chunks, sorted, out, first: 1, last: 0 }
        }

        fn tiers(&self) -> Tiers {
            Tiers { group: self.group.map_or(NO_GROUP, |(number, _)| number), ..Tiers::default() }
        }

        fn note(&mut self, index: JobIndex) {
            let job = self.jobs.get(index);
            self.sorted.push((job.priority, job.order, index));
            self.sorted.sort_unstable();
        }

        fn push(&mut self, priority: u8, side: Side) {
            let content = Content { group: self.group, ..Content::of(b"") };
            let mut job = self.jobs.make(content, PolicyNo(0));
            job.priority = priority;
            match side {
                Side::Left => self.first -= 1,
                Side::Right => self.last += 1,
            }
            job.order = if side == Side::Left { self.first } else { self.last };
            let index = self.jobs.put(job);
            let tiers = self.tiers();
            let (jobs, chunks) = (&mut self.jobs, &mut self.chunks);
            match side {
                Side::Left => self.order.push_front(jobs, chunks, index, tiers),
                Side::Right => self.order.push_back(jobs, chunks, index, tiers),
            }
            self.note(index);
        }

        fn take(&mut self, at: usize) {
            let (_, _, index) = self.sorted.remove(at);
            self.order.remove(&mut self.jobs, &mut self.chunks, index);
            self.out.push(index);
        }

        fn put_back(&mut self, at: usize) {
            let (index, tiers) = (self.out.swap_remove(at), self.tiers());
            let (jobs, chunks) = (&mut self.jobs, &mut self.chunks);
            self.order.put_back(jobs, chunks, index, tiers);
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
            let all = |from| self.order.iter(from, jobs, chunks, |_| 1);
            assert!(all(Side::Left).eq(sorted.iter().copied()));
            assert!(all(Side::Right).eq(sorted.iter().rev().copied()));
            assert_eq!(self.order.at(Side::Left, jobs, chunks), sorted.first().copied());
            assert_eq!(self.order.at(Side::Right, jobs, chunks), sorted.last().copied());
        }
    }

    #[test]
    fn the_order_is_that_of_priority_and_place() {
        for seed in 0..60 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let group = [None, Some((1, &b"group"[..]))][rng.random_range(0..2)];
            let (mut pair, priorities) = (Pair::new(group), rng.random_range(1..=10));
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
