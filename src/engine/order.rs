//! The order of a queue's ready jobs: priority, then place.
//!
//! Jobs that become ready get growing places, so they stand in a FIFO list per priority: 4.6 bytes
//! a job, O(1) at both ends and in the middle. A job that comes back from a lease has an old place;
//! those few stand in a tree beside the list, and the front is whichever place is smaller.
//! Example: places 7 8 9 were leased, 10 11 stand in the list, 8 comes back: the order is 8 10 11.

use std::collections::BTreeMap;

use crate::engine::job::{JobIndex, Jobs};
use crate::wheel::list::{Chunks, List, Place};

/// `Job::spot` of a ready job that stands in the tree of those that came back.
const RETURNED: u32 = 1;
const _: () = assert!(RETURNED < Place::FIRST);

/// The ready jobs of one queue.
#[derive(Default, Debug)]
pub struct ReadyOrder {
    /// A bit per priority that has jobs: the first is found without looking at ten lines.
    occupied: u16,
    lines: [Option<Box<Line>>; 10],
}

#[derive(Default, Debug)]
struct Line {
    list: List,
    returned: BTreeMap<i64, JobIndex>,
}

impl ReadyOrder {
    /// Puts a job last in its priority; its place is greater than all others.
    pub fn push_back(&mut self, jobs: &mut Jobs, chunks: &mut Chunks, index: JobIndex) {
        let priority = jobs.get(index).priority;
        let line = self.line(priority);
        line.list.push_back(chunks, 0, index, |key, place| {
            jobs.get_mut(key).spot = place.number();
        });
    }

    /// Puts a job where its place says.
    pub fn put_back(&mut self, jobs: &mut Jobs, index: JobIndex) {
        let job = jobs.get_mut(index);
        job.spot = RETURNED;
        let earlier = self.line(job.priority).returned.insert(job.order, index);
        assert!(earlier.is_none(), "two ready jobs at one place");
    }

    /// Takes a job out.
    pub fn remove(&mut self, jobs: &mut Jobs, chunks: &mut Chunks, index: JobIndex) {
        let job = jobs.get_mut(index);
        let (priority, order) = (job.priority, job.order);
        let spot = std::mem::take(&mut job.spot);
        let line = self.line(priority);
        match Place::from_number(spot) {
            Some(place) => line.list.remove(chunks, place, index, |key, place| {
                jobs.get_mut(key).spot = place.number();
            }),
            None => {
                let removed = line.returned.remove(&order);
                assert_eq!(removed, Some(index), "a ready job stands where its spot says");
            }
        }
        if line.list.is_empty() && line.returned.is_empty() {
            // The line itself stays: 40 bytes, against an allocation per job in a queue that is
            // nearly always empty.
            self.occupied &= !(1 << priority);
        }
    }

    /// The first job.
    pub fn front(&self, jobs: &Jobs, chunks: &Chunks) -> Option<JobIndex> {
        let priority = self.occupied.trailing_zeros() as usize;
        self.lines.get(priority)?.as_ref()?.front(jobs, chunks)
    }

    /// The first job of each priority, which is the one that became ready first.
    pub fn fronts<'a>(
        &'a self,
        jobs: &'a Jobs,
        chunks: &'a Chunks,
    ) -> impl Iterator<Item = JobIndex> + 'a {
        self.lines.iter().flatten().filter_map(|line| line.front(jobs, chunks))
    }

    /// All jobs, first to last.
    pub fn iter<'a>(
        &'a self,
        jobs: &'a Jobs,
        chunks: &'a Chunks,
    ) -> impl Iterator<Item = JobIndex> + 'a {
        self.lines.iter().flatten().flat_map(|line| line.iter(jobs, chunks))
    }

    fn line(&mut self, priority: u8) -> &mut Line {
        self.occupied |= 1 << priority;
        self.lines[usize::from(priority)].get_or_insert_default()
    }
}

impl Line {
    fn front(&self, jobs: &Jobs, chunks: &Chunks) -> Option<JobIndex> {
        let listed = self.list.front(chunks).map(|(index, _)| index);
        let returned = self.returned.first_key_value().map(|(_, index)| *index);
        match (listed, returned) {
            (Some(listed), Some(returned)) => {
                let earlier = jobs.get(returned).order < jobs.get(listed).order;
                Some(if earlier { returned } else { listed })
            }
            (listed, returned) => listed.or(returned),
        }
    }

    fn iter<'a>(
        &'a self,
        jobs: &'a Jobs,
        chunks: &'a Chunks,
    ) -> impl Iterator<Item = JobIndex> + 'a {
        let mut listed = self.list.iter(chunks).peekable();
        let mut returned = self.returned.iter().peekable();
        std::iter::from_fn(move || {
            let from_list = match (listed.peek(), returned.peek()) {
                (Some(next), Some((place, _))) => jobs.get(*next).order < **place,
                (Some(_), None) => true,
                (None, _) => false,
            };
            if from_list { listed.next() } else { returned.next().map(|(_, index)| *index) }
        })
    }
}
