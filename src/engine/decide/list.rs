//! The ready jobs as a list: LRANGE, LINDEX, LPOS, LREM.
//!
//! Each is done in one go. A list may have millions of jobs, so there is an end to what one of them looks
//! at; what lies beyond is reached by DELAY.SCAN.

use crate::engine::journal_room::deleting_bytes;
use crate::engine::model::fact::Fact;
use crate::engine::model::reply::Reply;
use crate::engine::model::request::{Find, JobState, QueueName, Side};
use crate::engine::model::turn::Outcome;
use crate::engine::step::Step;
use crate::engine::store::jobs::JobIndex;
use crate::error::Error;
use crate::ids::QueueNo;
use crate::limits::{COUNT_MAX, LISTED_MAX, REPLY_BYTES_MAX};

/// Bytes counted for a body in a reply, in addition to its own.
pub(in crate::engine) const BODY_COST: usize = 24;

/// Jobs that can be skipped in the time that examining one takes, whose body may be anywhere.
const PASSED_PER_STEP: i64 = 32;

/// Bytes of a body that are seen by looking at it; where they are as asked for, each further KiB is one more look.
const SEEN_BYTES: usize = 64;

/// Bytes of bodies in one reply: as those of KEYS.
pub(in crate::engine) const BODIES_BYTES_MAX: usize = REPLY_BYTES_MAX * 4;

impl Step<'_, '_> {
    pub fn range(&mut self, name: QueueName<'_>, start: i64, stop: i64) -> Result<Outcome, Error> {
        let found = self.places(name, start, stop)?;
        let jobs = self.store.jobs();
        let bodies: Vec<&[u8]> = found.iter().map(|index| jobs.body(*index)).collect();
        self.turn.outbox.reply(self.client, Reply::Bodies(&bodies));
        Ok(Outcome::Replied)
    }

    pub fn at(&mut self, name: QueueName<'_>, place: i64) -> Result<Outcome, Error> {
        let found = self.places(name, place, place)?;
        let body = found.first().map(|index| self.store.jobs().body(*index));
        self.turn.outbox.reply(self.client, body.map_or(Reply::Nil, Reply::Body));
        Ok(Outcome::Replied)
    }

    /// The ready jobs from one place to another, both included, gone to from the nearer side.
    fn places(
        &mut self,
        name: QueueName<'_>,
        start: i64,
        stop: i64,
    ) -> Result<Vec<JobIndex>, Error> {
        let Some(number) = self.queue(name) else { return Ok(Vec::new()) };
        let store = &*self.store;
        let queue = store.queue(number);
        let count = queue.count(JobState::Ready) as i64;
        let from_left = |place: i64| if place < 0 { place.saturating_add(count) } else { place };
        let start = from_left(start).max(0);
        let last = from_left(stop).min(count - 1);
        if start > last {
            return Ok(Vec::new());
        }
        let behind = count - 1 - last;
        let wanted = last - start + 1;
        let (from, passed, steps) = match (queue.ready.is_shared(), queue.next_side()) {
            // Where groups share, what comes where is known from the front on.
            (true, Side::Left) => (Side::Left, start, start + wanted),
            (true, Side::Right) => (Side::Right, behind, behind + wanted),
            _ if start <= behind => (Side::Left, start, start / PASSED_PER_STEP + wanted),
            _ => (Side::Right, behind, behind / PASSED_PER_STEP + wanted),
        };
        if steps > self.steps() as i64 {
            return Err(too_far());
        }
        let (mut found, mut bytes) = (Vec::with_capacity(wanted as usize), 0);
        let jobs = store.ready(queue, from);
        for index in jobs.skip(passed as usize).take(wanted as usize) {
            bytes += store.jobs().body_bytes(index) + BODY_COST;
            if bytes > BODIES_BYTES_MAX && wanted > 1 {
                return Err(Error::text(format!(
                    "ERR the reply would have more than {BODIES_BYTES_MAX} bytes; request a shorter range"
                )));
            }
            found.push(index);
        }
        if from == Side::Right {
            found.reverse();
        }
        Ok(found)
    }

    pub fn find_equal(&mut self, find: &Find<'_>) -> Result<Outcome, Error> {
        let nothing = if find.count.is_some() { Reply::Places(&[]) } else { Reply::Nil };
        let Some(number) = self.queue(find.queue) else { return Ok(self.reply(nothing)) };
        let wanted = match find.count {
            None => 1,
            Some(0) => u64::MAX,
            Some(count) => count,
        };
        let most = if find.inspected_max > 0 { find.inspected_max } else { u64::MAX };
        let count = self.store.queue(number).count(JobState::Ready) as i64;
        let (mut places, mut skipped) = (Vec::new(), find.skipped);
        let looked = self.each_equal(number, find.from, find.body, most, |passed, _| {
            if skipped > 0 {
                skipped -= 1;
                return true;
            }
            places.push(match find.from {
                Side::Left => passed as i64,
                Side::Right => count - 1 - passed as i64,
            });
            (places.len() as u64) < wanted && places.len() as u64 <= COUNT_MAX
        });
        looked.and_then(|()| at_most(places.len(), "COUNT"))?;
        Ok(self.reply(match find.count {
            Some(_) => Reply::Places(&places),
            None => places.first().map_or(Reply::Nil, |place| Reply::Integer(*place)),
        }))
    }

    pub fn delete_equal(
        &mut self,
        name: QueueName<'_>,
        body: &[u8],
        from: Side,
        count: u64,
    ) -> Result<Outcome, Error> {
        let Some(number) = self.queue(name) else { return Ok(self.reply(Reply::Integer(0))) };
        let wanted = if count == 0 { u64::MAX } else { count };
        let mut found = Vec::new();
        let looked = self.each_equal(number, from, body, u64::MAX, |_, index| {
            found.push(index);
            (found.len() as u64) < wanted && found.len() as u64 <= COUNT_MAX
        });
        looked.and_then(|()| at_most(found.len(), "count"))?;
        let jobs = self.store.jobs();
        let bytes = found.iter().map(|index| deleting_bytes(jobs.get(*index).id_bytes())).sum();
        if !self.live.room.lets_end(bytes) {
            return Err(self.live.room.shortage().into());
        }
        for index in &found {
            let id = self.store.id_of(*index);
            let at = self.store.located(*index);
            self.commit(&Fact::Deleted { queue: number, id: &id }, at);
        }
        self.note_place_free(number);
        Ok(self.reply(Reply::Integer(found.len() as i64)))
    }

    /// EXEC's work is bounded before it begins.
    fn steps(&self) -> u64 {
        if self.alone { LISTED_MAX } else { i64::MAX as u64 }
    }

    /// Calls `visit` with those of the first `most` ready jobs from a side whose body is `body`, and with the number of
    /// jobs before each, until it says false.
    fn each_equal(
        &self,
        number: QueueNo,
        from: Side,
        body: &[u8],
        most: u64,
        mut visit: impl FnMut(u64, JobIndex) -> bool,
    ) -> Result<(), Error> {
        let store = &*self.store;
        let (queue, mut steps) = (store.queue(number), self.steps());
        let behind = from != queue.next_side() && queue.ready.is_shared();
        if behind && queue.count(JobState::Ready) > steps {
            return Err(too_far());
        }
        let jobs = store.ready(queue, from);
        for (passed, index) in (0..most).zip(jobs) {
            steps = steps.checked_sub(1).ok_or_else(too_far)?;
            if store.jobs().body_bytes(index) != body.len() {
                continue;
            }
            let other = store.jobs().body(index);
            if other.len() > SEEN_BYTES && other[..SEEN_BYTES] == body[..SEEN_BYTES] {
                steps = steps.checked_sub(body.len() as u64 / 1024).ok_or_else(too_far)?;
            }
            if other == body && !visit(passed, index) {
                break;
            }
        }
        Ok(())
    }
}

fn too_far() -> Error {
    Error::text(format!(
        "ERR more than {LISTED_MAX} ready jobs would be examined, or too much of their bodies; DELAY.SCAN iterates \
         over any number of jobs"
    ))
}

/// Whether no more equal ones were found than an answer may name; `argument` is what limits them.
fn at_most(count: usize, argument: &str) -> Result<(), Error> {
    if count as u64 <= COUNT_MAX {
        return Ok(());
    }
    Err(Error::text(format!(
        "ERR more than {COUNT_MAX} jobs are equal; give a {argument} of at most {COUNT_MAX}"
    )))
}
