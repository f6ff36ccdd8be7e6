//! Ready jobs of one group and one priority.
//!
//! Jobs that were handed out before and came back are apart: where `group-retry` is `block` they come before the others,
//! and one that stood behind others could shut its own group for ever.

use std::collections::BTreeMap;

use crate::engine::model::request::Side;
use crate::engine::store::jobs::{JobIndex, JobStage, Jobs};
use crate::engine::store::ready::line::{Line, nearer};
use crate::engine::store::ready::rota::CLOSED;
use crate::wheel::list::{Chunks, Place};

/// `Job::spot` of a ready job that was handed out before, in a group.
const BEGUN: u32 = 2;
const _: () = assert!(BEGUN < Place::FIRST);

/// What holds for a group now.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Standing {
    pub tier: u32,
    /// Begun jobs come before the others.
    pub begun_first: bool,
    /// There are as many of them as may be at work: none of the others may be taken.
    pub begun_only: bool,
}

impl Standing {
    pub fn in_tier(tier: u32) -> Standing {
        Standing { tier, ..Standing::default() }
    }
}

#[derive(Default, Debug)]
pub struct Lane {
    /// Its jobs but for begun ones; those without a group stand where they always do.
    pub line: Line,
    /// Begun ones, by place.
    begun: BTreeMap<i64, JobIndex>,
    pub group: u32,
    pub priority: u8,
    /// Jobs of the stint that it has given.
    pub given: u32,
    pub standing: Standing,
    /// The tier in which it stands, and where there.
    pub tier: u32,
    pub spot: u32,
    /// The next lane of the group, or [`NO_LANE`].
    pub next: u32,
}

impl Lane {
    /// Puts a job last; its place is greater than all others, and at least 1.
    pub fn push_back(&mut self, jobs: &mut Jobs, chunks: &mut Chunks, index: JobIndex) {
        if jobs.has_begun(index) {
            return self.put_begun(jobs, index);
        }
        self.line.push_back(jobs, chunks, index);
    }

    /// Puts a job first; its place is smaller than all others, and at most 0.
    pub fn push_front(&mut self, jobs: &mut Jobs, chunks: &mut Chunks, index: JobIndex) {
        if jobs.has_begun(index) {
            return self.put_begun(jobs, index);
        }
        self.line.push_front(jobs, chunks, index);
    }

    pub fn put_back(&mut self, jobs: &mut Jobs, index: JobIndex) {
        if jobs.has_begun(index) {
            return self.put_begun(jobs, index);
        }
        self.line.put_back(jobs, index);
    }

    fn put_begun(&mut self, jobs: &mut Jobs, index: JobIndex) {
        let job = jobs.get_mut(index);
        job.spot = BEGUN;
        let earlier = self.begun.insert(job.order, index);
        assert!(earlier.is_none(), "two ready jobs at one place");
    }

    pub fn remove(&mut self, jobs: &mut Jobs, chunks: &mut Chunks, index: JobIndex) {
        let job = jobs.get_mut(index);
        if job.spot != BEGUN {
            return self.line.remove(jobs, chunks, index);
        }
        job.spot = 0;
        let removed = self.begun.remove(&job.order);
        assert_eq!(removed, Some(index), "a ready job stands where its spot says");
    }

    /// A job has got another number, and is kept under that already.
    pub fn rename(&mut self, jobs: &Jobs, chunks: &mut Chunks, index: JobIndex, to: JobIndex) {
        let job = jobs.get(to);
        if job.spot != BEGUN {
            return self.line.rename(jobs, chunks, index, to);
        }
        let begun = self.begun.get_mut(&job.order).filter(|begun| **begun == index);
        *begun.expect("a ready job stands where its spot says") = to;
    }

    pub fn is_empty(&self) -> bool {
        self.begun.is_empty() && self.line.is_empty()
    }

    /// Whether a job is among those that came back.
    pub fn has_returned(&self, jobs: &Jobs, index: JobIndex) -> bool {
        let job = jobs.get(index);
        let begun = || self.begun.get(&job.order) == Some(&index);
        self.line.has_returned(jobs, index)
            || job.stage == JobStage::Ready && job.spot == BEGUN && begun()
    }

    /// The next job from an end; `line` is where its jobs but for begun ones are.
    pub fn at(&self, line: &Line, end: Side, jobs: &Jobs, chunks: &Chunks) -> Option<JobIndex> {
        let begun = match end {
            Side::Left => self.begun.first_key_value(),
            Side::Right => self.begun.last_key_value(),
        };
        match begun {
            Some((_, index)) if self.standing.begun_first => Some(*index),
            begun => nearer(end, line.at(end, jobs, chunks), begun, jobs),
        }
    }

    /// The begun ones, by place.
    pub fn begun(&self) -> impl DoubleEndedIterator<Item = (&i64, &JobIndex)> {
        self.begun.iter()
    }

    /// The tier in which it should stand.
    pub fn own_tier(&self) -> u32 {
        let waits = self.standing.begun_only && self.begun.is_empty();
        if waits { CLOSED } else { self.standing.tier }
    }
}
