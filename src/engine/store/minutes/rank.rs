//! Which queues are the busiest, where there are more than are kept.
//!
//! After each minute a walk looks at all queues, in slices. A queue's score falls by a thirty-second a minute and rises by
//! what happened in it, so that it is that of about half an hour. A queue gives way only to one that is twice as busy: with
//! its place its minutes are lost.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::engine::store::Store;
use crate::engine::store::minutes::Minutes;
use crate::engine::store::minutes::track::{Counts, Track};
use crate::engine::store::queues::number_at;
use crate::ids::{DATABASES, Db, QueueNo};

/// Queues that the walk looks at in one step of a budget.
const RANKED_PER_STEP: u32 = 8;

/// How many minutes a score is of, about.
const SCORE_MINUTES: u32 = 32;

/// The most that a minute adds to a score, so that scores have 32 bits.
const EVENTS_MAX: u32 = 1 << 26;

/// What is known of how busy a queue is, whether its minutes are kept or not.
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
    db: usize,
    place: u32,
    /// The least is on top.
    best: BinaryHeap<Reverse<(u64, QueueNo, u64)>>,
}

impl Store {
    /// A minute has ended: keeps the queues that the walk of the one before found, and begins the next walk if there are
    /// others.
    pub(super) fn change_kept(&mut self) {
        let since = self.minutes.open;
        if let Some(busiest) = self.minutes.busiest.take() {
            for place in &mut self.minutes.kept {
                place.take_if(|kept| !busiest.contains(&(kept.queue, kept.born)));
            }
            for (number, born) in busiest {
                let queue = self.bound_queue(number).filter(|queue| queue.born == born);
                let Some(queue) = queue.filter(|queue| self.kept(queue).is_none()) else {
                    continue;
                };
                let track = Track::new(since, Counts::of(queue), queue.lateness.as_deref());
                self.keep(number, track);
            }
        }
        let named: usize = (0..DATABASES).map(|db| self.name_count(Db(db))).sum();
        let Minutes { kept, walk, .. } = &mut self.minutes;
        let kept = kept.iter().flatten().count();
        *walk = (kept < named).then(Walk::default);
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
        *score = *score - *score / SCORE_MINUTES + new;
        if *score > 0 {
            walk.best.push(Reverse((u64::from(*score) * factor, number, born)));
        }
        if walk.best.len() > self.minutes.queues_max {
            walk.best.pop();
        }
    }
}
