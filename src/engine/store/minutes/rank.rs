//! Which queues are the busiest, where there are more than are kept.
//!
//! After each minute a walk looks at all queues, in slices. A queue's score falls by a thirty-second a minute and rises by
//! what happened in it, so that it is that of about half an hour. A queue gives way only to one that is twice as busy, and
//! only if there is no other place: with its place its minutes are lost.
//!
//! Scores are each node's own. After a restart those kept have the score that their minutes give, and the others none.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::engine::store::Store;
use crate::engine::store::minutes::Kept;
use crate::engine::store::minutes::track::{Counts, Track};
use crate::engine::store::queue::number_at;
use crate::ids::{DATABASES, QueueNo};

/// Queues that the walk looks at in one step of a budget.
const RANKED_PER_STEP: u32 = 8;

/// How many minutes a score is of, about.
const SCORE_MINUTES: f64 = 32.0;

/// The most that a minute adds to a score, so that scores have 32 bits.
const EVENTS_MAX: u32 = 1 << 26;

/// How busy a queue is; every queue has one, so that those that are not kept can be compared with those that are.
#[derive(Clone, Copy, Default, Debug)]
pub struct Busyness {
    /// Its events when it was looked at last; wraps.
    seen: u32,
    score: u32,
    /// Its place among those kept, if it has one.
    pub(super) place: u16,
}

/// A walk through all queues.
#[derive(Default, Debug)]
pub struct Walk {
    /// The part that is left of each score since the walk before.
    left: f64,
    db: usize,
    place: u32,
    /// The least is on top.
    best: BinaryHeap<Reverse<(u64, QueueNo, u64)>>,
}

impl Store {
    /// A minute has ended: keeps the queues that the walk of the one before found, and begins the next
    /// walk.
    pub(super) fn change_kept(&mut self) {
        let since = self.minutes.open;
        let busiest = self.minutes.busiest.take().unwrap_or_default();
        for (number, born) in &busiest {
            let queue = self.bound_queue(*number).filter(|queue| queue.born == *born);
            let Some(queue) = queue.filter(|queue| self.kept(queue).is_none()) else { continue };
            let track = Track::new(since, Counts::of(queue), queue.lateness.as_deref());
            if self.minutes.count >= self.minutes.queues_max {
                self.make_place(&busiest);
            }
            self.keep(*number, track);
        }
        // Also while all are kept, so that scores are right once they are needed.
        let before = std::mem::replace(&mut self.minutes.ranked, since);
        let passed = (since - before.min(since)).min(1 << 20);
        let left = (1.0 - 1.0 / SCORE_MINUTES).powi(passed as i32);
        self.minutes.walk = Some(Walk { left, ..Walk::default() });
    }

    /// Drops one that is not among these.
    fn make_place(&mut self, busiest: &[(QueueNo, u64)]) {
        let is_other = |kept: &Kept| busiest.iter().all(|(number, _)| *number != kept.queue);
        let mut kept = self.minutes.kept.iter();
        if let Some(place) = kept.position(|kept| kept.as_ref().is_some_and(is_other)) {
            self.forget_minutes(place, |_| true);
        }
    }

    /// What has happened until now is nothing new to the next walk. Looks at all queues.
    pub fn settle_busyness(&mut self) {
        let open = self.minutes.open;
        self.minutes.ranked = open;
        for database in &mut self.databases {
            let mut from = 0;
            while let Some(place) = database.queues.next_from(from) {
                from = place + 1;
                let queue = database.queues.get_mut(place).expect("a number that is taken");
                let kept = self.minutes.kept.get(usize::from(queue.aside.busyness.place));
                let kept = kept.and_then(Option::as_ref);
                let kept = kept.filter(|kept| kept.queue == queue.number);
                let score = kept.map_or(0, |kept| kept.track.events(open, SCORE_MINUTES as u32));
                let events = Counts::of(queue).events();
                let busyness = &mut queue.aside.busyness;
                (busyness.seen, busyness.score) = (events, score);
            }
        }
    }

    /// Looks for the busiest queues, in `steps`; true when there is nothing to look at before this minute ends.
    pub fn rank_queues(&mut self, steps: &mut u32) -> bool {
        let Some(mut walk) = self.minutes.walk.take() else { return true };
        while walk.db < usize::from(DATABASES) {
            if *steps == 0 {
                self.minutes.walk = Some(walk);
                return false;
            }
            *steps -= 1;
            for _ in 0..RANKED_PER_STEP {
                let Some(place) = self.databases[walk.db].queues.next_from(walk.place) else {
                    (walk.db, walk.place) = (walk.db + 1, 0);
                    break;
                };
                walk.place = place + 1;
                self.rank_queue(number_at(walk.db, place), &mut walk);
            }
        }
        let best = walk.best.into_iter().map(|Reverse((_, queue, born))| (queue, born));
        self.minutes.busiest = Some(best.collect());
        true
    }

    fn rank_queue(&mut self, number: QueueNo, walk: &mut Walk) {
        let queue = self.queue(number);
        let (factor, born) = (if self.kept(queue).is_some() { 2 } else { 1 }, queue.born);
        let events = Counts::of(queue).events();
        let Busyness { seen, score, .. } = &mut self.aside_mut(number).busyness;
        let new = events.wrapping_sub(std::mem::replace(seen, events)).min(EVENTS_MAX);
        *score = (f64::from(*score) * walk.left) as u32 + new;
        if *score > 0 {
            walk.best.push(Reverse((u64::from(*score) * factor, number, born)));
        }
        if walk.best.len() > self.minutes.queues_max {
            walk.best.pop();
        }
    }
}
