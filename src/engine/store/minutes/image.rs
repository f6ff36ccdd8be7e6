//! The minutes in a base: after the images of the state, and counted by none of its sums.
//!
//! A minute that is over does not change, so it is written whenever the walk gets there. The counts of the open minute are
//! noted when the base begins.

use crate::engine::model::minutes::Minute;
use crate::engine::store::Store;
use crate::engine::store::minutes::track::{Counts, Track};
use crate::engine::store::snapshot::record;
use crate::ids::QueueNo;
use crate::limits::{DAY_MINUTES, LEVEL_HISTORY};

/// Where the images go on: at a place among those kept, 0 for all queues together, and at a minute.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MinutesScan {
    place: usize,
    from: u32,
}

impl Store {
    /// The bytes that minutes would take in a base that is begun now: 0 if they are more than `room`, or if not all members
    /// read them.
    pub fn minutes_image_bytes(&self, room: u64) -> u64 {
        let is_read = self.leading.term == 0 || self.leading.level >= LEVEL_HISTORY;
        let bytes = self.minutes.image_bytes;
        if self.minutes.open > 0 && is_read && bytes <= room { bytes } else { 0 }
    }

    /// Notes what the base that is begun now has of the open minute, if minutes are in it. Cost: some 20 µs with 200 queues.
    pub(in crate::engine::store) fn cut_minutes(&mut self, room: u64) {
        if self.minutes_image_bytes(room) == 0 {
            return;
        }
        let mut minutes = std::mem::take(&mut self.minutes);
        let (base, open) = (self.bases.number(), minutes.open);
        let counts = self.counts_of_all(&minutes);
        minutes.all.cut(base, open, &counts, Some(&minutes.lateness));
        for kept in minutes.kept.iter_mut().flatten() {
            let queue = self.queue(kept.queue);
            kept.track.cut(base, open, &Counts::of(queue), queue.lateness.as_deref());
        }
        self.minutes = minutes;
    }

    /// Writes the next image: where to go on; none at the end.
    pub(in crate::engine::store) fn image_minutes(
        &mut self,
        scan: MinutesScan,
    ) -> Option<MinutesScan> {
        let next = MinutesScan { place: scan.place + 1, from: 0 };
        let (queue, track) = match scan.place.checked_sub(1) {
            None => (None, &self.minutes.all),
            Some(at) => match self.minutes.kept.get(at)? {
                Some(kept) => (Some(kept.queue), &kept.track),
                None => return Some(next),
            },
        };
        if !self.bases.has(queue.map(|number| self.queue(number))) {
            return Some(next);
        }
        let number = self.bases.number();
        let Some((minutes, is_end)) = track.image(number, scan.from) else { return Some(next) };
        let since = track.since;
        record::write_minutes(self.bases.output_mut(), queue, since, &minutes);
        let from = minutes.last().map_or(0, |last| last.at + 1);
        Some(if is_end { next } else { MinutesScan { from, ..scan } })
    }

    /// Loads some minutes of a queue, or of all together; false if they do not fit. Those of queues beyond the number that
    /// is kept are passed over.
    pub(in crate::engine::store) fn restore_minutes(
        &mut self,
        queue: Option<QueueNo>,
        since: u32,
        minutes: &[Minute],
    ) -> bool {
        if queue.is_some_and(|number| self.bound_queue(number).is_none()) {
            return false;
        }
        if self.minutes.queues_max == 0 {
            return true;
        }
        let track = match queue {
            None => &mut self.minutes.all,
            Some(number) => {
                if self.kept(self.queue(number)).is_none() {
                    self.keep(number, Track::default());
                }
                let place = usize::from(self.queue(number).aside.busyness.place);
                let kept = self.minutes.kept.get_mut(place).and_then(Option::as_mut);
                let Some(kept) = kept.filter(|kept| kept.queue == number) else { return true };
                &mut kept.track
            }
        };
        track.since = since;
        minutes.iter().all(|minute| {
            let rises = track.past.back().is_none_or(|last| last.at < minute.at);
            track.past.push_back(*minute);
            rises && minute.at <= Minute::LAST && track.past.len() <= 2 * DAY_MINUTES as usize
        })
    }
}
