//! Going through ready jobs, in one go or in slices between which they change.
//!
//! A cursor stands before the next job of a priority's lists and before what its tree holds next. A
//! job that leaves while the cursor stands before it moves the cursor on; what enters or leaves where
//! the cursor has been changes the count of the jobs passed. So after any number of slices that count
//! is the index of the next job as the list is then.

use std::ops::Bound;

use crate::engine::model::request::Side;
use crate::engine::store::jobs::{Job, JobIndex, Jobs};
use crate::engine::store::ready::{Change, Line, Lines, RETURNED, TAIL_PLACE_MIN, nearer};
use crate::ids::ClientId;
use crate::wheel::list::{Chunks, Place};

/// Priority and place.
type Rank = (u8, i64);

/// The walks through one queue's ready jobs.
#[derive(Default, Debug)]
pub(super) struct Walks {
    all: Vec<(ClientId, Cursor)>,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    from: Side,
    /// The priority it has come to; none before the first.
    priority: Option<u8>,
    /// The next of the lists of this priority; none when they have been gone through.
    listed: Option<JobIndex>,
    /// Which job was passed last.
    last: Option<Rank>,
    /// How many ready jobs lie before it.
    pub passed: u64,
}

impl Walks {
    pub fn begin(&mut self, client: ClientId, from: Side) {
        self.end(client);
        self.all.push((client, Cursor::new(from)));
    }

    pub fn cursor(&mut self, client: ClientId) -> Option<&mut Cursor> {
        self.all.iter_mut().find(|(of, _)| *of == client).map(|(_, cursor)| cursor)
    }

    /// True if none is left.
    pub fn end(&mut self, client: ClientId) -> bool {
        self.all.retain(|(of, _)| *of != client);
        self.all.is_empty()
    }

    pub fn note(&mut self, index: JobIndex, job: &Job, change: Change) {
        let rank = (job.priority, job.order);
        for (_, cursor) in &mut self.all {
            let passed = cursor.last.is_some_and(|last| match cursor.from {
                Side::Left => rank <= last,
                Side::Right => rank >= last,
            });
            match (change, passed) {
                (Change::Entered, true) => cursor.passed += 1,
                (Change::Left, true) => cursor.passed -= 1,
                // Its lists had been gone through, and go on.
                (Change::Entered, false)
                    if cursor.priority == Some(job.priority)
                        && cursor.listed.is_none()
                        && job.spot != RETURNED =>
                {
                    cursor.listed = Some(index);
                }
                _ => {}
            }
        }
    }

    /// A job has got another number.
    pub fn rename(&mut self, index: JobIndex, to: JobIndex) {
        for (_, cursor) in self.all.iter_mut().filter(|(_, cursor)| cursor.listed == Some(index)) {
            cursor.listed = Some(to);
        }
    }

    /// Moves cursors that stand before a job that is about to leave.
    pub fn step_over(&mut self, lines: &Lines, jobs: &Jobs, chunks: &Chunks, index: JobIndex) {
        for (_, cursor) in self.all.iter_mut().filter(|(_, cursor)| cursor.listed == Some(index)) {
            cursor.listed = cursor.after(lines, jobs, chunks, index);
        }
    }
}

impl Cursor {
    pub fn new(from: Side) -> Cursor {
        Cursor { from, priority: None, listed: None, last: None, passed: 0 }
    }

    /// The next job, which is passed then.
    pub fn next(&mut self, lines: &Lines, jobs: &Jobs, chunks: &Chunks) -> Option<JobIndex> {
        let index = self.arrive(lines, jobs, chunks)?;
        let job = jobs.get(index);
        if self.listed == Some(index) {
            self.listed = self.after(lines, jobs, chunks, index);
        }
        self.last = Some((job.priority, job.order));
        self.passed += 1;
        Some(index)
    }

    /// Passes jobs up to the end of a chunk.
    pub fn leap(&mut self, lines: &Lines, most: u64, jobs: &Jobs, chunks: &Chunks) -> bool {
        let Some(first) = self.arrive(lines, jobs, chunks) else { return false };
        if self.listed == Some(first)
            && let Some(place) = Place::from_number(jobs.get(first).spot)
        {
            let (last, _, count) = match self.goes_on(jobs.get(first).order) {
                true => chunks.to_chunk_end(place),
                false => chunks.to_chunk_start(place),
            };
            let job = jobs.get(last);
            let next = self.next_returned(lines).map(|(place, _)| *place);
            let between = next.is_some_and(|place| match self.from {
                Side::Left => place < job.order,
                Side::Right => place > job.order,
            });
            if u64::from(count) <= most && !between {
                self.listed = self.after(lines, jobs, chunks, last);
                self.last = Some((job.priority, job.order));
                self.passed += u64::from(count);
                return true;
            }
        }
        self.next(lines, jobs, chunks).is_some()
    }

    /// The job it stands before, in the next priority if this one has been gone through.
    fn arrive(&mut self, lines: &Lines, jobs: &Jobs, chunks: &Chunks) -> Option<JobIndex> {
        loop {
            let next = nearer(self.from, self.listed, self.next_returned(lines), jobs);
            if next.is_some() {
                return next;
            }
            let priority = self.next_priority(lines.occupied)?;
            self.priority = Some(priority);
            let line = lines.lines[usize::from(priority)].as_ref()?;
            let listed = match self.from {
                Side::Left => line.head.back(chunks).or_else(|| line.tail.front(chunks)),
                Side::Right => line.tail.back(chunks).or_else(|| line.head.front(chunks)),
            };
            self.listed = listed.map(|(index, _)| index);
        }
    }

    fn next_priority(&self, occupied: u16) -> Option<u8> {
        let ahead = match (self.from, self.priority) {
            (_, None) => occupied,
            (Side::Left, Some(priority)) => occupied & (u16::MAX << priority << 1),
            (Side::Right, Some(priority)) => occupied & ((1 << priority) - 1),
        };
        if ahead == 0 {
            return None;
        }
        Some(match self.from {
            Side::Left => ahead.trailing_zeros() as u8,
            Side::Right => ahead.ilog2() as u8,
        })
    }

    fn next_returned<'l>(&self, lines: &'l Lines) -> Option<(&'l i64, &'l JobIndex)> {
        let returned = &self.line(lines)?.returned;
        let passed = self.last.filter(|last| Some(last.0) == self.priority).map(|last| last.1);
        match (self.from, passed) {
            (Side::Left, None) => returned.first_key_value(),
            (Side::Right, None) => returned.last_key_value(),
            (Side::Left, Some(place)) => {
                returned.range((Bound::Excluded(place), Bound::Unbounded)).next()
            }
            (Side::Right, Some(place)) => returned.range(..place).next_back(),
        }
    }

    /// The one behind a listed job, in the direction of the walk.
    fn after(
        &self,
        lines: &Lines,
        jobs: &Jobs,
        chunks: &Chunks,
        index: JobIndex,
    ) -> Option<JobIndex> {
        let job = jobs.get(index);
        let place = Place::from_number(job.spot)?;
        let on = self.goes_on(job.order);
        let next = if on { chunks.next(place) } else { chunks.prev(place) };
        let line = self.line(lines)?;
        let next = next.or_else(|| match self.from {
            // From the last of one list to the first of the other.
            Side::Left if job.order < TAIL_PLACE_MIN => line.tail.front(chunks),
            Side::Right if job.order >= TAIL_PLACE_MIN => line.head.front(chunks),
            _ => None,
        });
        next.map(|(index, _)| index)
    }

    /// Whether its list is gone through from its front to its back.
    fn goes_on(&self, place: i64) -> bool {
        (self.from == Side::Left) == (place >= TAIL_PLACE_MIN)
    }

    fn line<'l>(&self, lines: &'l Lines) -> Option<&'l Line> {
        lines.lines[usize::from(self.priority?)].as_deref()
    }
}
