//! Ready jobs of one priority, and of one group if they have one, by place.

use std::collections::BTreeMap;

use crate::engine::model::request::Side;
use crate::engine::store::jobs::{JobIndex, JobStage, Jobs};
use crate::engine::store::ready::TAIL_PLACE_MIN;
use crate::wheel::list::{Chunks, List, Place};

/// `Job::spot` of a ready job in the tree of those that came back.
pub const RETURNED: u32 = 1;
const _: () = assert!(RETURNED < Place::FIRST);

#[derive(Default, Debug)]
pub struct Line {
    /// Places from 1 on, growing.
    pub tail: List,
    /// Places up to 0, falling: the left end is the last of them.
    pub head: List,
    pub returned: BTreeMap<i64, JobIndex>,
}

impl Line {
    /// Puts a job last; its place is greater than all others, and at least 1.
    pub fn push_back(&mut self, jobs: &mut Jobs, chunks: &mut Chunks, index: JobIndex) {
        debug_assert!(jobs.get(index).order >= TAIL_PLACE_MIN, "a place of the tail");
        self.tail.push_back(chunks, 0, index, |key, place| {
            jobs.get_mut(key).spot = place.number();
        });
    }

    /// Puts a job first; its place is smaller than all others, and at most 0.
    pub fn push_front(&mut self, jobs: &mut Jobs, chunks: &mut Chunks, index: JobIndex) {
        debug_assert!(jobs.get(index).order < TAIL_PLACE_MIN, "a place of the head");
        self.head.push_back(chunks, 0, index, |key, place| {
            jobs.get_mut(key).spot = place.number();
        });
    }

    pub fn put_back(&mut self, jobs: &mut Jobs, index: JobIndex) {
        let job = jobs.get_mut(index);
        job.spot = RETURNED;
        let earlier = self.returned.insert(job.order, index);
        assert!(earlier.is_none(), "two ready jobs at one place");
    }

    pub fn remove(&mut self, jobs: &mut Jobs, chunks: &mut Chunks, index: JobIndex) {
        let job = jobs.get_mut(index);
        let order = job.order;
        match Place::from_number(std::mem::take(&mut job.spot)) {
            Some(place) => {
                let list = if order < TAIL_PLACE_MIN { &mut self.head } else { &mut self.tail };
                list.remove(chunks, place, index, |key, place| {
                    jobs.get_mut(key).spot = place.number();
                });
            }
            None => {
                let removed = self.returned.remove(&order);
                assert_eq!(removed, Some(index), "a ready job stands where its spot says");
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.tail.is_empty() && self.head.is_empty() && self.returned.is_empty()
    }

    /// A job has got another number, and is kept under that already.
    pub fn rename(&mut self, jobs: &Jobs, chunks: &mut Chunks, index: JobIndex, to: JobIndex) {
        let job = jobs.get(to);
        match Place::from_number(job.spot) {
            Some(place) => chunks.set_key(place, to),
            None => {
                let entry = self.returned.get_mut(&job.order).filter(|entry| **entry == index);
                *entry.expect("a ready job stands where its spot says") = to;
            }
        }
    }

    /// Moves the chunk of a job to a lower block, if that helps to close one.
    pub fn move_below(&mut self, jobs: &mut Jobs, chunks: &mut Chunks, index: JobIndex) {
        let job = jobs.get(index);
        let Some(place) = Place::from_number(job.spot) else { return };
        let list = if job.order < TAIL_PLACE_MIN { &mut self.head } else { &mut self.tail };
        list.move_below(chunks, place, |key, place| jobs.get_mut(key).spot = place.number());
    }

    /// Whether a job is among those that came back to their old places.
    pub fn has_returned(&self, jobs: &Jobs, index: JobIndex) -> bool {
        let job = jobs.get(index);
        job.stage == JobStage::Ready
            && job.spot == RETURNED
            && self.returned.get(&job.order) == Some(&index)
    }

    /// The job at an end.
    pub fn at(&self, end: Side, jobs: &Jobs, chunks: &Chunks) -> Option<JobIndex> {
        let (listed, returned) = match end {
            Side::Left => {
                let listed = self.head.back(chunks).or_else(|| self.tail.front(chunks));
                (listed, self.returned.first_key_value())
            }
            Side::Right => {
                let listed = self.tail.back(chunks).or_else(|| self.head.front(chunks));
                (listed, self.returned.last_key_value())
            }
        };
        nearer(end, listed.map(|(index, _)| index), returned, jobs)
    }

    /// The jobs of which one became ready first: those that entered first at the tail and at the head, and of those that
    /// came back the ones that had entered first there.
    pub fn earliest(&self, chunks: &Chunks) -> impl Iterator<Item = JobIndex> + use<> {
        let listed = [self.tail.front(chunks), self.head.front(chunks)];
        let tail = self.returned.range(TAIL_PLACE_MIN..).next();
        let head = self.returned.range(..TAIL_PLACE_MIN).next_back();
        let returned = [tail, head].map(|entry| entry.map(|(_, index)| *index));
        let listed = listed.map(|entry| entry.map(|(index, _)| index));
        listed.into_iter().chain(returned).flatten()
    }
}

/// Which of two comes first from an end.
pub fn nearer(
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
