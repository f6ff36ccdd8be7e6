//! Jobs by what they are like: which fit, and what BULK does to all of them.
//!
//! BULK walks through the ids of the queue in slices, and each job is one fact: other clients are served in between, and
//! what was done stays done if the client goes away or the journal has no room. CANCEL takes what was there when it began.
//! What gives jobs another time takes only those that stand where they stood then; whatever was changed since, by itself or
//! others, is left alone. So a job that is to be moved by an hour is never moved by two.

use memchr::memmem::Finder;
use smallvec::SmallVec;

use crate::engine::journal_room::SIZES;
use crate::engine::model::bulk::{Bulk, BulkAct, Filter, NewDue};
use crate::engine::model::fact::Fact;
use crate::engine::model::reply::Reply;
use crate::engine::model::request::{JobState, When};
use crate::engine::model::turn::Outcome;
use crate::engine::step::Step;
use crate::engine::step::slice::{BulkProgress, Unfinished, resumed};
use crate::engine::store::Store;
use crate::engine::store::jobs::{History, JobIndex};
use crate::error::Error;
use crate::glob;
use crate::ids::QueueNo;
use crate::limits::{self, BULK_PER_TURN, LOOKED_FOR_GROUP_PER_TURN};
use crate::time::Millis;

/// Jobs that are collected before something is done to them.
const AT_ONCE: usize = 64;

/// A filter that is prepared for a queue.
pub struct Sieve<'a> {
    filter: &'a Filter<'a>,
    /// Its number, if a group is asked for.
    group: Option<u32>,
    finder: Option<Finder<'a>>,
}

impl<'a> Sieve<'a> {
    /// None if no job of the queue can fit.
    pub fn new(store: &Store, queue: QueueNo, filter: &'a Filter<'a>) -> Option<Sieve<'a>> {
        let group = match filter.group {
            None => None,
            Some(name) => Some(store.find_group(queue, name)?),
        };
        Some(Sieve { filter, group, finder: filter.contains.map(Finder::new) })
    }

    /// The job's state if it fits; adds to `steps` what it took to look. Patterns and texts come last, as they take the
    /// longest.
    pub fn fits(&self, store: &Store, index: JobIndex, steps: &mut u64) -> Option<JobState> {
        let of = self.filter;
        let state = store.jobs().get(index).stage.state()?;
        let is_due = |(from, until)| (from..until).contains(&store.due(index).0);
        let is_named = |pattern, steps: &mut u64| {
            glob::matches_counted(pattern, store.jobs().id(index), steps)
        };
        let fits = of.state.is_none_or(|wanted| wanted == state)
            && self.group.is_none_or(|group| store.jobs().group(index) == group)
            && of.due.is_none_or(is_due)
            && is_marked(store, index, state, of, steps)
            && of.pattern.is_none_or(|pattern| is_named(pattern, steps))
            && self.finder.as_ref().is_none_or(|finder| contains(store, index, finder, steps));
        fits.then_some(state)
    }
}

/// Whether a job has the error and died of the reason that are asked for.
fn is_marked(
    store: &Store,
    index: JobIndex,
    state: JobState,
    of: &Filter<'_>,
    steps: &mut u64,
) -> bool {
    let history = store.jobs().history(index);
    let reason = history.filter(|_| state == JobState::Dead).and_then(History::death);
    of.reason.is_none_or(|wanted| reason.is_some_and(|(reason, _)| reason == wanted))
        && of.error.is_none_or(|error| has_error(store, index, error, steps))
}

/// Whether a job's text is this, or of this kind.
fn has_error(store: &Store, index: JobIndex, error: &[u8], steps: &mut u64) -> bool {
    *steps += limits::SEARCHED_JOB_STEPS;
    error == error_of(store, index) || !error.is_empty() && store.counts_under(index, error)
}

/// The text of the last `NACK ... ERROR`; empty without one.
fn error_of(store: &Store, index: JobIndex) -> &[u8] {
    let history = store.jobs().history(index);
    history.and_then(History::error).unwrap_or_default()
}

/// Whether a job has the text in id, body or error.
fn contains(store: &Store, index: JobIndex, finder: &Finder<'_>, steps: &mut u64) -> bool {
    let jobs = store.jobs();
    *steps += limits::SEARCHED_JOB_STEPS;
    let texts = [jobs.id(index), jobs.body(index), error_of(store, index)];
    texts.into_iter().any(|text| {
        *steps += text.len() as u64 / limits::SEARCHED_BYTES_PER_STEP;
        finder.find(text).is_some()
    })
}

impl Step<'_, '_> {
    pub fn bulk(&mut self, of: &Bulk<'_>) -> Result<Outcome, Error> {
        let begun = resumed!(self, Bulk);
        let due = begun.as_ref().map_or_else(|| self.first_due(of), |begun| Ok(begun.due))?;
        let done = begun.as_ref().map_or(0, |begun| begun.done);
        let Some(queue) = self.queue(of.queue) else {
            return Ok(self.reply(Reply::Integer(done as i64)));
        };
        let born = self.store.queue(queue).born;
        let mut progress = begun.unwrap_or_else(|| {
            let (at, floors) = (self.now.floor(), self.store.floors(queue));
            let counted = (of.over_ms == 0 && !of.dry_run).then_some(0);
            Box::new(BulkProgress {
                queue,
                born,
                at,
                floors,
                due,
                place: 0,
                counted,
                found: 0,
                done: 0,
            })
        });
        // What was still to be done went with the queue.
        if (progress.queue, progress.born) == (queue, born) && self.bulk_slice(of, &mut progress) {
            return Ok(self.again(Unfinished::Bulk(progress)));
        }
        let count = if of.dry_run { progress.found } else { progress.done };
        Ok(self.reply(Reply::Integer(count as i64)))
    }

    /// The due time of the first job, as of the receipt of the command; with a shift none.
    fn first_due(&self, of: &Bulk<'_>) -> Result<Millis, Error> {
        let (settings, now) = (&self.live.settings, self.now);
        for (argument, span_ms) in [("OVER", of.over_ms), ("BY", of.act.shift_ms().unsigned_abs())]
        {
            settings.resolve(argument, When::In(span_ms), now)?;
        }
        match of.act {
            BulkAct::Redrive { when, .. } | BulkAct::Reschedule(NewDue::At(when)) => {
                settings.resolve("IN", when, now)
            }
            BulkAct::Cancel { .. } | BulkAct::Reschedule(NewDue::Shifted(_)) => Ok(now.floor()),
        }
    }

    /// True if there is more to do, in the next turn.
    fn bulk_slice(&mut self, of: &Bulk<'_>, progress: &mut BulkProgress) -> bool {
        let (queue, mut looked, mut acted, mut steps) = (progress.queue, 0, 0, 0);
        let limit = of.limit.unwrap_or(u64::MAX);
        let Some(sieve) = Sieve::new(self.store, queue, &of.filter) else { return false };
        loop {
            let counts = progress.counted.is_none();
            let left = if counts { limit - progress.found } else { limit - progress.done };
            let mut found = SmallVec::<[JobIndex; AT_ONCE]>::new();
            if left > 0 {
                let store = &*self.store;
                let piece = LOOKED_FOR_GROUP_PER_TURN - looked;
                let next =
                    store.scan_jobs_while(store.queue(queue), progress.place, piece, |index| {
                        looked += 1;
                        let is_wanted = (found.len() as u64) < left;
                        if is_wanted && progress.is_meant(store, of.act, index, &sieve, &mut steps)
                        {
                            found.push(index);
                        }
                        // One more may come, of the same hash.
                        found.len() < AT_ONCE
                            && (found.len() as u64) < left
                            && steps < limits::PATTERN_STEPS_PER_TURN
                    });
                progress.place = next;
            }
            let is_over = progress.place == 0 || found.len() as u64 >= left;
            if counts {
                progress.found += found.len() as u64;
            }
            for index in found.into_iter().filter(|_| !counts) {
                // The first was promised its room.
                if progress.done > 0 && !self.has_room_for(of.act) {
                    return false;
                }
                self.act(of, progress, index);
                (acted, progress.done) = (acted + 1, progress.done + 1);
            }
            if is_over {
                if !counts || of.dry_run {
                    return false;
                }
                (progress.counted, progress.place) = (Some(progress.found), 0);
            }
            let is_tired = looked >= LOOKED_FOR_GROUP_PER_TURN
                || acted >= BULK_PER_TURN
                || steps >= limits::PATTERN_STEPS_PER_TURN;
            if is_tired {
                return true;
            }
        }
    }

    fn has_room_for(&mut self, act: BulkAct) -> bool {
        match act {
            BulkAct::Cancel { .. } => self.live.room.lets_end(SIZES.deleted),
            BulkAct::Redrive { .. } | BulkAct::Reschedule(_) => {
                self.live.room.lets_spend(SIZES.redriven)
            }
        }
    }

    fn act(&mut self, of: &Bulk<'_>, progress: &BulkProgress, index: JobIndex) {
        let (queue, id, at) = (progress.queue, self.store.id_of(index), self.store.located(index));
        let first = match of.act {
            BulkAct::Cancel { .. } => {
                self.commit(&Fact::Deleted { queue, id: &id }, at);
                return self.note_place_free(queue);
            }
            BulkAct::Reschedule(NewDue::Shifted(by)) => {
                Millis(self.store.due(index).0.saturating_add_signed(by))
            }
            BulkAct::Redrive { .. } | BulkAct::Reschedule(NewDue::At(_)) => progress.due,
        };
        let wait_ms = progress.wait_ms(of.over_ms);
        // As everywhere, what is past is now, and nothing is put off beyond max-delay: a shift ends there.
        let latest = self.now.ceil().plus(self.live.settings.delay_ms_max);
        let latest = latest.max(self.store.due(index));
        let due = first.plus(wait_ms).min(latest).max(self.now.floor());
        let (id, absolute) = (&*id, of.act.is_absolute());
        self.give_due(queue, at, due, |ready, left, due| match of.act {
            BulkAct::Redrive { keep_attempts, .. } => {
                Fact::Redriven { queue, id, absolute, ready, left, keep_attempts, due }
            }
            _ => Fact::Rescheduled { queue, id, absolute, ready, left, due },
        });
    }
}

impl BulkAct {
    fn shift_ms(self) -> i64 {
        if let BulkAct::Reschedule(NewDue::Shifted(by_ms)) = self { by_ms } else { 0 }
    }

    fn is_absolute(self) -> bool {
        let (BulkAct::Redrive { when, .. } | BulkAct::Reschedule(NewDue::At(when))) = self else {
            return false;
        };
        matches!(when, When::At(_))
    }
}

impl BulkProgress {
    /// Whether a job stands where it stood in the beginning, and fits.
    fn is_meant(
        &self,
        store: &Store,
        act: BulkAct,
        index: JobIndex,
        sieve: &Sieve<'_>,
        steps: &mut u64,
    ) -> bool {
        let was_there = match act {
            BulkAct::Cancel { .. } => store.was_there(index, self.at, &self.floors),
            _ => store.stands_as_then(index, &self.floors),
        };
        was_there && sieve.fits(store, index, steps).is_some_and(|state| act.takes(state))
    }

    /// How long after the first one the next job is due: the n-th of m after `over_ms` * n / m.
    fn wait_ms(&self, over_ms: u64) -> u64 {
        let all = u128::from(self.counted.unwrap_or(0).max(self.done + 1));
        (u128::from(over_ms) * u128::from(self.done) / all) as u64
    }
}
