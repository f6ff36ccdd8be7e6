//! Ready jobs of one group and one priority.
//!
//! A single one stands alone, without lists: where a million groups have a job each, those would take 240 bytes of each.
//! Jobs that were handed out before and came back are apart: where `group-retry` is `block` they come before the others,
//! and one that stood behind others could shut its own group for ever.

use std::collections::BTreeMap;

use crate::engine::model::request::Side;
use crate::engine::store::jobs::{JobIndex, JobStage, Jobs};
use crate::engine::store::ready::TAIL_PLACE_MIN;
use crate::engine::store::ready::line::{Line, RETURNED, nearer};
use crate::engine::store::ready::rota::CLOSED;
use crate::wheel::list::{Chunks, Place};

/// `Job::spot` of a ready job that was handed out before, in a group.
const BEGUN: u32 = 2;
/// ... of the only job of its lane.
const ALONE: u32 = 3;
const _: () = assert!(RETURNED < BEGUN && ALONE < Place::FIRST);

/// Bytes of the lists of a lane with several jobs, but for their chunks.
pub const SEVERAL_BYTES: usize = size_of::<Several>();

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

    /// Whether no job may be taken, where so many of the ready ones are begun.
    #[inline]
    pub fn is_closed(self, begun: u64) -> bool {
        self.tier == CLOSED || self.begun_only && begun == 0
    }
}

#[derive(Default, Debug)]
pub struct Lane {
    alone: Option<(JobIndex, Kind)>,
    several: Option<Box<Several>>,
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

/// Two jobs or more.
#[derive(Default, Debug)]
struct Several {
    /// All but begun ones.
    line: Line,
    /// By place.
    begun: BTreeMap<i64, JobIndex>,
    count: u32,
}

/// How a job has become ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// At the end of the line or at its front.
    Entered,
    Returned,
    Begun,
}

impl Lane {
    /// Puts a job last, or first: its place is greater than all others, and at least 1, or smaller, and at most 0.
    pub fn push(&mut self, jobs: &mut Jobs, chunks: &mut Chunks, index: JobIndex) {
        let kind = if jobs.has_begun(index) { Kind::Begun } else { Kind::Entered };
        self.put(jobs, chunks, index, kind);
    }

    pub fn put_back(&mut self, jobs: &mut Jobs, chunks: &mut Chunks, index: JobIndex) {
        let kind = if jobs.has_begun(index) { Kind::Begun } else { Kind::Returned };
        self.put(jobs, chunks, index, kind);
    }

    fn put(&mut self, jobs: &mut Jobs, chunks: &mut Chunks, index: JobIndex, kind: Kind) {
        if self.is_empty() {
            return self.put_alone(jobs, index, kind);
        }
        let several = self.several.get_or_insert_default();
        if let Some((alone, kind)) = self.alone.take() {
            several.put(jobs, chunks, alone, kind);
        }
        several.put(jobs, chunks, index, kind);
    }

    fn put_alone(&mut self, jobs: &mut Jobs, index: JobIndex, kind: Kind) {
        jobs.get_mut(index).spot = ALONE;
        self.alone = Some((index, kind));
    }

    pub fn remove(&mut self, jobs: &mut Jobs, chunks: &mut Chunks, index: JobIndex) {
        if let Some((alone, _)) = self.alone {
            assert_eq!(alone, index, "a ready job stands in its lane");
            jobs.get_mut(index).spot = 0;
            self.alone = None;
            return;
        }
        let several = self.several.as_mut().expect("a ready job stands in its lane");
        several.remove(jobs, chunks, index);
        if several.count == 1
            && let Some(last) = several.at(Side::Left, false, jobs, chunks)
        {
            let kind = several.kind(jobs, last);
            several.remove(jobs, chunks, last);
            self.several = None;
            self.put_alone(jobs, last, kind);
        }
    }

    /// A job has got another number, and is kept under that already.
    pub fn rename(&mut self, jobs: &Jobs, chunks: &mut Chunks, index: JobIndex, to: JobIndex) {
        match (&mut self.alone, &mut self.several) {
            (Some((alone, _)), _) => {
                assert_eq!(*alone, index, "a ready job stands in its lane");
                *alone = to;
            }
            (None, Some(several)) => several.rename(jobs, chunks, index, to),
            (None, None) => unreachable!("a ready job stands in its lane"),
        }
    }

    /// Moves the chunk of a job to a lower block, if that helps to close one.
    pub fn move_below(&mut self, jobs: &mut Jobs, chunks: &mut Chunks, index: JobIndex) {
        if let Some(several) = &mut self.several {
            several.line.move_below(jobs, chunks, index);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.alone.is_none() && self.several.is_none()
    }

    /// Whether a job is among those that came back.
    pub fn has_returned(&self, jobs: &Jobs, index: JobIndex) -> bool {
        match (self.alone, &self.several) {
            (Some((alone, kind)), _) => alone == index && kind != Kind::Entered,
            (None, Some(several)) => several.has_returned(jobs, index),
            (None, None) => false,
        }
    }

    /// The next job from an end.
    pub fn at(&self, end: Side, jobs: &Jobs, chunks: &Chunks) -> Option<JobIndex> {
        match self.alone {
            Some((alone, _)) => Some(alone),
            None => self.several.as_ref()?.at(end, self.standing.begun_first, jobs, chunks),
        }
    }

    /// The jobs of which one became ready first.
    pub fn earliest(&self, chunks: &Chunks) -> impl Iterator<Item = JobIndex> {
        let several = self.several.iter().flat_map(|several| {
            several.line.earliest(chunks).chain(several.begun.values().copied())
        });
        self.alone().into_iter().chain(several)
    }

    /// Its only job, if there is one.
    pub fn alone(&self) -> Option<JobIndex> {
        self.alone.map(|(alone, _)| alone)
    }

    /// All but begun ones, if there are several.
    pub fn line(&self) -> Option<&Line> {
        self.several.as_ref().map(|several| &several.line)
    }

    /// The begun ones, if there are several, by place.
    pub fn begun(&self) -> impl DoubleEndedIterator<Item = (&i64, &JobIndex)> {
        self.several.iter().flat_map(|several| &several.begun)
    }

    /// The tier in which it should stand.
    pub fn own_tier(&self) -> u32 {
        let is_begun = self.alone.is_some_and(|(_, kind)| kind == Kind::Begun);
        let waits = self.standing.begun_only && !is_begun && self.begun().next().is_none();
        if waits { CLOSED } else { self.standing.tier }
    }
}

impl Several {
    fn put(&mut self, jobs: &mut Jobs, chunks: &mut Chunks, index: JobIndex, kind: Kind) {
        self.count += 1;
        let job = jobs.get_mut(index);
        match kind {
            Kind::Entered if job.order >= TAIL_PLACE_MIN => {
                self.line.push_back(jobs, chunks, index);
            }
            Kind::Entered => self.line.push_front(jobs, chunks, index),
            Kind::Returned => self.line.put_back(jobs, index),
            Kind::Begun => {
                job.spot = BEGUN;
                let earlier = self.begun.insert(job.order, index);
                assert!(earlier.is_none(), "two ready jobs at one place");
            }
        }
    }

    fn remove(&mut self, jobs: &mut Jobs, chunks: &mut Chunks, index: JobIndex) {
        self.count -= 1;
        let job = jobs.get_mut(index);
        if job.spot != BEGUN {
            return self.line.remove(jobs, chunks, index);
        }
        job.spot = 0;
        let removed = self.begun.remove(&job.order);
        assert_eq!(removed, Some(index), "a ready job stands where its spot says");
    }

    fn kind(&self, jobs: &Jobs, index: JobIndex) -> Kind {
        match jobs.get(index).spot {
            RETURNED => Kind::Returned,
            BEGUN => Kind::Begun,
            _ => Kind::Entered,
        }
    }

    fn rename(&mut self, jobs: &Jobs, chunks: &mut Chunks, index: JobIndex, to: JobIndex) {
        let job = jobs.get(to);
        if job.spot != BEGUN {
            return self.line.rename(jobs, chunks, index, to);
        }
        let begun = self.begun.get_mut(&job.order).filter(|begun| **begun == index);
        *begun.expect("a ready job stands where its spot says") = to;
    }

    fn has_returned(&self, jobs: &Jobs, index: JobIndex) -> bool {
        let job = jobs.get(index);
        let begun = || self.begun.get(&job.order) == Some(&index);
        self.line.has_returned(jobs, index)
            || job.stage == JobStage::Ready && job.spot == BEGUN && begun()
    }

    fn at(&self, end: Side, begun_first: bool, jobs: &Jobs, chunks: &Chunks) -> Option<JobIndex> {
        let begun = match end {
            Side::Left => self.begun.first_key_value(),
            Side::Right => self.begun.last_key_value(),
        };
        match begun {
            Some((_, index)) if begun_first => Some(*index),
            begun => nearer(end, self.line.at(end, jobs, chunks), begun, jobs),
        }
    }
}
