//! The last day, minute by minute: of each of the busiest queues, and of all together.
//!
//! Nothing is counted for it but the totals and the lateness that queues have anyway: when the first fact of another
//! minute comes, the minute before is closed with the differences. So it costs nothing a fact, follows from the facts and
//! their instants, and replicas and restarts have it, as far as a base and the log after it reach. A minute in which
//! nothing happened is not kept.
//!
//! ```text
//! facts   …10:01:58  10:01:59 | 10:02:03…      closes 10:01 with what was counted since its beginning
//! base    as of 10:02:20: its minutes up to 10:01, and 10:02 as far as it is; after a restart the rest is added to that
//! ```
//!
//! It is no part of the state: neither the digest nor the sum of a base has it, and how many queues are kept depends on a
//! node's memory.

mod image;
mod rank;
mod track;

pub use image::MinutesScan;
pub use rank::Busyness;

use crate::engine::model::lateness::Histogram;
use crate::engine::model::minutes::{Minute, Span};
use crate::engine::model::stats::Totals;
use crate::engine::store::Store;
use crate::engine::store::minutes::rank::Walk;
use crate::engine::store::minutes::track::{Counts, Track};
use crate::engine::store::queue::{Queue, place_of};
use crate::ids::{Db, QueueNo};
use crate::time::Micros;

/// The minutes of a partition.
#[derive(Default, Debug)]
pub struct Minutes {
    /// The minute that is not over; 0 before the first fact.
    open: u32,
    /// How many queues are kept at most; without any, nothing is.
    queues_max: usize,
    all: Track,
    /// Totals of all queues, including removed ones.
    totals: Totals,
    lateness: Histogram,
    kept: Vec<Option<Kept>>,
    /// How many there are.
    count: usize,
    /// Bytes of their images in a base.
    image_bytes: u64,
    /// The minute in which the last walk for the busiest queues began, and one that is under way.
    ranked: u32,
    walk: Option<Walk>,
    /// What the last walk found, for the end of the minute.
    busiest: Option<Vec<(QueueNo, u64)>>,
}

/// A queue that is there: a place is left when its queue is removed.
#[derive(Debug)]
struct Kept {
    queue: QueueNo,
    track: Track,
}

impl Minutes {
    fn count_image_bytes(&mut self) {
        let kept = self.kept.iter().flatten().map(|kept| kept.track.image_bytes());
        self.image_bytes = self.all.image_bytes() + kept.sum::<u64>();
    }
}

impl Store {
    /// From here on the minutes of so many queues are kept; of none, and nothing at all, if 0.
    pub fn keep_minutes(&mut self, queues_max: u32) {
        let minutes = &mut self.minutes;
        minutes.queues_max = queues_max as usize;
        if minutes.kept.len() > minutes.queues_max {
            minutes.kept.truncate(minutes.queues_max);
            minutes.count = minutes.kept.iter().flatten().count();
            minutes.count_image_bytes();
        }
        if queues_max == 0 {
            (minutes.open, minutes.all) = (0, Track::default());
        }
    }

    /// Closes the minute that ended before `now`. Cost: a comparison, and once a minute some 30 µs with 200 queues.
    #[inline]
    pub(super) fn pass_minute(&mut self, now: Micros) {
        if self.minutes.queues_max > 0 && Minute::of(now) > self.minutes.open {
            self.close_minute(Minute::of(now));
        }
    }

    /// All of a base is loaded: its last minute is open again.
    pub(super) fn resume_minutes(&mut self) {
        // A partition that was divided off has those of its queues alone.
        let kept = self.minutes.kept.iter().flatten().map(|kept| &kept.track);
        let tracks = kept.chain([&self.minutes.all]);
        if let Some(last) = tracks.filter_map(|track| track.past.back()).map(|last| last.at).max() {
            self.close_minute(last);
        }
        self.settle_busyness();
    }

    #[inline(never)]
    fn close_minute(&mut self, next: u32) {
        let mut minutes = std::mem::take(&mut self.minutes);
        let open = std::mem::replace(&mut minutes.open, next);
        let counts = self.counts_of_all(&minutes);
        let end = |track: &mut Track, counts, lateness: Option<&Histogram>| match open {
            0 => track.resume(next, counts, lateness),
            _ => track.close(open, counts, lateness),
        };
        end(&mut minutes.all, counts, Some(&minutes.lateness));
        for kept in minutes.kept.iter_mut().flatten() {
            let queue = self.queue(kept.queue);
            end(&mut kept.track, Counts::of(queue), queue.lateness.as_deref());
        }
        self.minutes = minutes;
        self.change_kept();
        self.minutes.count_image_bytes();
    }

    /// A queue was made, of which nothing is counted yet.
    pub(super) fn keep_minutes_of_new(&mut self, queue: QueueNo) {
        if self.minutes.open > 0 {
            self.keep(queue, Track::new(self.minutes.open, Counts::default(), None));
        }
    }

    /// Keeps the minutes of a queue, if there is room for them.
    fn keep(&mut self, number: QueueNo, track: Track) {
        let minutes = &mut self.minutes;
        if minutes.count >= minutes.queues_max {
            return;
        }
        let free = minutes.kept.iter().position(Option::is_none).unwrap_or(minutes.kept.len());
        if free == minutes.kept.len() {
            minutes.kept.push(None);
        }
        minutes.count += 1;
        minutes.image_bytes += track.image_bytes();
        minutes.kept[free] = Some(Kept { queue: number, track });
        self.aside_mut(number).busyness.place = free as u16;
    }

    /// The queue is removed: its place is another one's.
    pub(super) fn forget_minutes_of(&mut self, number: QueueNo) {
        let place = usize::from(self.queue(number).aside.busyness.place);
        self.forget_minutes(place, |kept| kept.queue == number);
    }

    /// All queues of a database are removed.
    pub(super) fn forget_minutes_in(&mut self, db: Db) {
        for place in 0..self.minutes.kept.len() {
            self.forget_minutes(place, |kept| place_of(kept.queue).0 == usize::from(db.0));
        }
    }

    fn forget_minutes(&mut self, place: usize, is_it: impl Fn(&Kept) -> bool) {
        let minutes = &mut self.minutes;
        let Some(kept) = minutes.kept.get_mut(place) else { return };
        if let Some(kept) = kept.take_if(|kept| is_it(kept)) {
            minutes.count -= 1;
            minutes.image_bytes -= kept.track.image_bytes();
        }
    }

    fn kept(&self, queue: &Queue) -> Option<&Kept> {
        let kept = self.minutes.kept.get(usize::from(queue.aside.busyness.place))?.as_ref();
        kept.filter(|kept| kept.queue == queue.number)
    }

    fn counts_of_all(&self, minutes: &Minutes) -> Counts {
        Counts { totals: minutes.totals, jobs: self.counts() }
    }

    /// Changes what is counted of a queue, and of all together.
    pub(super) fn count_totals(&mut self, queue: QueueNo, change: impl Fn(&mut Totals)) {
        change(&mut self.minutes.totals);
        change(&mut self.queue_mut(queue).totals);
    }

    /// A base has a queue with these totals. Of all together only deliveries must be known, which may be taken back.
    pub(super) fn restore_totals_of_all(&mut self, of: &Totals) {
        self.minutes.totals.delivered += of.delivered;
    }

    /// A delivery was so late, µs.
    pub(super) fn note_lateness_of_all(&mut self, late_us: u64) {
        self.minutes.lateness.record(late_us);
    }

    /// Rows of `step` minutes for the `last` ones before `now`, of a queue or of all; empty if its minutes are not kept.
    /// Cost: the minutes kept, at most 1,440, and the rows.
    pub fn spans(&self, of: Option<QueueNo>, now: Micros, last: u32, step: u32) -> Vec<Span> {
        let minutes = &self.minutes;
        if minutes.open == 0 {
            return Vec::new();
        }
        let end = Minute::of(now).max(minutes.open);
        let range = ((end + 1).saturating_sub(last), end);
        let rows = |track: &Track, counts, lateness: Option<&Histogram>| {
            track.spans(track.open(minutes.open, &counts, lateness), range, step)
        };
        match of.map(|number| self.queue(number)) {
            None => rows(&minutes.all, self.counts_of_all(minutes), Some(&minutes.lateness)),
            Some(queue) => self.kept(queue).map_or(Vec::new(), |kept| {
                rows(&kept.track, Counts::of(queue), queue.lateness.as_deref())
            }),
        }
    }
}
