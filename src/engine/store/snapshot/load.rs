//! Loading a base file: images in, a state out.
//!
//! Jobs are stored and indexed as they arrive. Their places (wheels, ready order, dead) are set up
//! at the end, queue by queue, in the order of their images: the wheels and lists keep the order in
//! which they are filled.
//!
//! Images come from a disk. Those that fit no state are refused; nothing is allocated by a length
//! that they only announce.

use std::mem;

use crate::engine::model::errors::ErrorCount;
use crate::engine::model::fact::{FactReader, Malformed};
use crate::engine::model::group::GroupSettings;
use crate::engine::model::lateness::Histogram;
use crate::engine::model::leading::Leading;
use crate::engine::model::policy::Policy;
use crate::engine::model::request::{JobState, Side};
use crate::engine::model::schedule::Outcomes;
use crate::engine::model::settings::Settings;
use crate::engine::store::jobs::hash::wide;
use crate::engine::store::jobs::{Content, Job, JobIndex, JobStage, Jobs};
use crate::engine::store::memory::{Footprint, Footprints};
use crate::engine::store::queue::Queue;
use crate::engine::store::ready::TAIL_PLACE_MIN;
use crate::engine::store::ready::rota::NO_GROUP;
use crate::engine::store::schedules::Schedule;
use crate::engine::store::snapshot::record;
use crate::engine::store::snapshot::record::{Image, ImageCounts, JobImage, QueueImage, QueueMore};
use crate::engine::store::{Store, place_of};
use crate::ids::{DATABASES, Db, PolicyNo, QueueNo};
use crate::limits::{GROUPS_SET_MAX, NAME_BYTES_MAX, PRIORITY_MAX, RATE_MAX};
use crate::time::{Micros, Millis};
use crate::wheel::{Timers, Wheel};

/// Bound of all that only counts up: far beyond what is ever counted, and far from overflowing.
const COUNTED_MAX: u64 = 1 << 62;

/// Bound of a job's own counts, which have 32 bits.
const DELIVERIES_MAX: u32 = 1 << 31;

/// The number of a policy shares 32 bits with a mark.
const POLICIES_MAX: u32 = 1 << 31;

/// Takes the images of a base file in the order in which they were written.
#[derive(Debug)]
pub struct Loader {
    store: Store,
    settings: Settings,
    counts: ImageCounts,
    begun: bool,
    ended: bool,
    /// Bytes of images read before the current ones.
    read: usize,
    /// Where the jobs of each queue are to stand, by the queue's birth from 1.
    standings: Vec<LoadedQueue>,
    /// The queue of the job before, which most jobs share.
    likely: Option<(QueueNo, usize)>,
}

/// Where a queue's jobs are to stand: the key of the order, and the job.
#[derive(Default, Debug)]
struct LoadedQueue {
    queue: QueueNo,
    sequence: i64,
    last_place: i64,
    first_place: i64,
    footprint: Footprint,
    footprints: Footprints,
    delayed: Vec<(i64, JobIndex)>,
    ready: Vec<(i64, JobIndex)>,
    leased: Vec<(i64, JobIndex)>,
    dead: Vec<(i64, JobIndex)>,
    /// Expiries, retentions and ends of windows, in no order.
    ends: Vec<(Millis, JobIndex)>,
    windows: u64,
    earliest: [Millis; 3],
}

/// The error of an image that could be read, if any.
type Fits = Option<()>;

fn when(fits: bool) -> Fits {
    fits.then_some(())
}

impl Loader {
    /// Nothing loaded.
    pub fn new(settings: Settings) -> Loader {
        Loader {
            store: Store::new(&settings),
            settings,
            counts: ImageCounts::default(),
            begun: false,
            ended: false,
            read: 0,
            standings: Vec::new(),
            likely: None,
        }
    }

    /// Takes whole images. The error names the byte, counted over all input.
    pub fn images(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let mut reader = FactReader::new(bytes);
        while !reader.is_done() {
            let at = reader.at();
            let image = Image::read(&mut reader);
            let image = image.map_err(|Malformed { at }| Malformed { at: self.read + at })?;
            self.image(image).ok_or(Malformed { at: self.read + at })?;
        }
        self.read += bytes.len();
        Ok(())
    }

    /// The state as it was when the base file was begun.
    pub(in crate::engine) fn finish(mut self) -> Result<(Store, Settings), Malformed> {
        let malformed = Malformed { at: self.read };
        if !self.ended {
            return Err(malformed);
        }
        let store = &mut self.store;
        let mut idle: Vec<(Millis, QueueNo)> = Vec::new();
        for standing in mem::take(&mut self.standings) {
            let number = standing.queue;
            standing.place_jobs(store).ok_or(malformed)?;
            store.recount_spare(number);
            let queue = store.queue(number);
            match queue.has_only_totals() {
                true => idle.push((queue.used, number)),
                false => store.rearm(number, Millis(0)),
            }
        }
        idle.sort_unstable();
        idle.into_iter().for_each(|(used, number)| store.note_idle(number, used));
        store.policies.relist_unused();
        store.resume_minutes();
        Ok((self.store, self.settings))
    }

    fn image(&mut self, image: Image<'_>) -> Fits {
        when(self.begun != matches!(image, Image::Begin { .. }) && !self.ended)?;
        match image {
            Image::Begin { number } => {
                self.begun = true;
                self.store.number = number;
                when(number <= COUNTED_MAX * 2)
            }
            Image::Leading(leading) => {
                let first = self.counts == ImageCounts::default();
                when(first && leading.term > 0 && self.store.leading == Leading::default())?;
                self.store.leading = leading;
                Some(())
            }
            Image::Policy { number, policy } => self.policy(number, policy),
            Image::Queue(image) => self.queue(*image),
            Image::QueueMore(image) => self.queue_more(*image),
            Image::Group { queue, name, settings } => self.group(queue, name, settings),
            Image::GroupPaced { queue, name, gave } => self.group_pace(queue, name, gave),
            Image::Error { queue, error } => self.error(queue, &error),
            Image::Minutes { queue, since, minutes } => {
                when(self.store.restore_minutes(queue, since, &minutes))
            }
            Image::Job(image) => self.job(image),
            Image::Window { queue, id, policy, end } => self.window(queue, id, policy, end),
            Image::Schedule { queue, schedule } => self.schedule(queue, *schedule),
            Image::ScheduleTotals { queue, made, missed } => {
                self.schedule_totals(queue, made, missed)
            }
            Image::Schedules { count } => {
                let counted = std::mem::replace(&mut self.counts.schedules, 0);
                when(count > 0 && count == counted)
            }
            Image::End(counts) => {
                self.ended = true;
                when(counts == self.counts)
            }
        }
    }

    fn policy(&mut self, number: PolicyNo, policy: Policy) -> Fits {
        let policies = &self.store.policies;
        let known = policies.find(number).is_some() || policies.number(&policy, number).is_some();
        when(number.0 < POLICIES_MAX && !known)?;
        self.counts.policies += 1;
        self.store.bind_policy(number, policy);
        Some(())
    }

    fn queue(&mut self, image: QueueImage<'_>) -> Fits {
        let QueueImage { number, db, name, totals, sequence, last_place, used, .. } = image;
        let counted = |value: i64| value.unsigned_abs() <= COUNTED_MAX;
        when(db.0 < DATABASES && place_of(number).0 == usize::from(db.0))?;
        when(counted(sequence) && sequence >= 0 && counted(last_place))?;
        when(record::totals(&totals).iter().all(|total| *total <= COUNTED_MAX))?;
        let store = &mut self.store;
        store.restore_totals_of_all(&totals);
        when(store.bound_queue(number).is_none() && store.queue_no(db, name).is_none())?;
        self.counts.queues += 1;
        store.bind_queue(number, db, name);
        store.restore_lateness(number, image.lateness);
        let queue = store.queue_mut(number);
        (queue.totals, queue.sequence, queue.last_place) = (totals, sequence, last_place);
        (queue.used, queue.generated_form) = (used, image.generated_form);
        self.standings.push(LoadedQueue::new(queue));
        Some(())
    }

    fn queue_more(&mut self, image: QueueMore) -> Fits {
        let QueueMore { number, settings, pauses, first_place } = image;
        // It comes right after its queue, so none of the queue's jobs has been read.
        let standing = self.standings.last_mut().filter(|last| last.queue == number)?;
        standing.first_place = first_place;
        let store = &mut self.store;
        let queue = store.queue(number);
        when(record::more_bytes(queue) == 0 && queue.table.iter().next().is_none())?;
        when(settings.priority.is_none_or(|priority| priority <= PRIORITY_MAX))?;
        when(settings.rate.is_none_or(|rate| rate <= RATE_MAX))?;
        when(first_place <= 1 && first_place.unsigned_abs() <= COUNTED_MAX)?;
        store.change_own(number, |queue| {
            queue.settings = (!settings.is_empty()).then(|| Box::new(settings));
            (queue.pauses, queue.first_place) = (pauses, first_place);
        });
        // Counted with its jobs when they stand where they are to stand.
        let existing = u64::from(store.queue(number).exists());
        store.database_mut(Db((number.0 % u32::from(DATABASES)) as u8)).existing -= existing;
        when(record::more_bytes(store.queue(number)) > 0)
    }

    fn group(&mut self, queue: QueueNo, name: &[u8], settings: GroupSettings) -> Fits {
        // It comes right after its queue, so none of the queue's jobs has been read.
        self.standings.last().filter(|last| last.queue == queue)?;
        let store = &mut self.store;
        when(store.queue(queue).table.len() == 0 && store.find_group(queue, name).is_none())?;
        let set = store.queue(queue).groups.as_ref().map_or(0, |groups| groups.set().len());
        when(!settings.is_empty() && set < GROUPS_SET_MAX)?;
        store.restoring(queue, |store| {
            store.set_group(queue, name, settings, Micros(0));
            Some(())
        })
    }

    fn group_pace(&mut self, queue: QueueNo, name: &[u8], gave: u64) -> Fits {
        let store = &mut self.store;
        store.bound_queue(queue)?;
        when(gave > 0 && !store.has_pace(queue, name))?;
        // It is at least as late as this; what opens later does so in the first sweep.
        let now = store.queue(queue).used.start();
        store.set_pace(queue, name, gave, now);
        Some(())
    }

    fn error(&mut self, queue: QueueNo, error: &ErrorCount<'_>) -> Fits {
        // It comes right after its queue.
        self.standings.last().filter(|last| last.queue == queue)?;
        when(error.count <= COUNTED_MAX && error.dead <= error.count)?;
        when(self.store.restore_error(queue, error))
    }

    fn schedule(&mut self, queue: QueueNo, schedule: Schedule) -> Fits {
        when(
            (1..=NAME_BYTES_MAX).contains(&schedule.name.len()) && schedule.number.0 <= COUNTED_MAX,
        )?;
        let Outcomes { made, missed, skipped, replaced } = schedule.outcomes;
        when([made, missed, skipped, replaced].iter().all(|count| *count <= COUNTED_MAX))?;
        self.store.bound_queue(queue)?;
        self.counts.schedules += 1;
        self.store.restoring(queue, |store| store.restore_schedule(queue, schedule))
    }

    fn schedule_totals(&mut self, queue: QueueNo, made: u64, missed: u64) -> Fits {
        // It comes right after its queue.
        self.standings.last().filter(|last| last.queue == queue)?;
        when((1..=COUNTED_MAX).contains(&made.max(missed)))?;
        let schedules = self.store.queue(queue).schedules.as_deref();
        when(schedules.is_none_or(|all| all.made + all.missed == 0))?;
        self.store.restoring(queue, |store| {
            store.change_schedules(queue, None, |schedules| {
                (schedules.made, schedules.missed) = (made, missed);
            });
            Some(())
        })
    }

    /// The number of the queue's standing.
    fn standing_of(&mut self, queue: QueueNo) -> Option<usize> {
        if let Some((likely, at)) = self.likely
            && likely == queue
        {
            return Some(at);
        }
        let at = self.store.bound_queue(queue)?.born as usize - 1;
        self.likely = Some((queue, at));
        Some(at)
    }

    fn job(&mut self, image: JobImage<'_>) -> Fits {
        let at = self.standing_of(image.queue)?;
        let standing = &mut self.standings[at];
        standing.check(&image)?;
        let JobImage { queue, stage, timer, order, .. } = image;
        let store = &mut self.store;
        let ttl_ms = store.policies.find(image.policy)?.ttl_ms;
        let content = store.content(queue, image.id, image.group, image.meta, image.body);
        let mut job = store.jobs.make(content, image.policy);
        store.note_largest(queue, &job);
        (job.priority, job.added, job.order, job.stage) =
            (image.priority, image.added, order, stage);
        let index = store.enter(queue, image.id, job)?;
        self.counts.jobs += 1;
        let (delivered, armed, due) = match image.history {
            None => (false, 0, timer),
            Some(history) => {
                if let Some(successor) = history.successor.as_deref() {
                    store.policies.find(successor.policy)?;
                    store.policies.take(successor.policy);
                }
                let known = (history.deliveries > 0, history.armed, history.due);
                store.jobs.restore_history(index, history);
                known
            }
        };
        let mut expiry = None;
        if ttl_ms > 0 && !delivered {
            expiry = Some(Millis(due.0.checked_add(ttl_ms)?));
        }
        store.timers.set_due(index, timer);
        let standing = &mut self.standings[at];
        let footprint = Footprint::at(&store.jobs, index);
        standing.footprint.add(footprint);
        standing.footprints.of(stage).add(footprint);
        match stage {
            JobStage::Delayed => {
                standing.delayed.push((order, index));
                standing.note_earliest(0, timer);
            }
            JobStage::Leased => {
                store.ages.begin(Micros(0));
                standing.leased.push((armed, index));
                standing.note_earliest(1, timer);
            }
            JobStage::Dead => {
                standing.dead.push((order, index));
                standing.end_at(timer, index);
            }
            _ => {
                standing.ready.push((order, index));
                expiry.into_iter().for_each(|expiry| standing.end_at(expiry, index));
            }
        }
        Some(())
    }

    fn window(&mut self, queue: QueueNo, id: &[u8], policy: PolicyNo, end: Millis) -> Fits {
        let at = self.standing_of(queue)?;
        let store = &mut self.store;
        store.policies.find(policy)?;
        when(id.len() <= usize::from(u16::MAX))?;
        let mut job = store.jobs.make(Content::of(id), policy);
        job.stage = JobStage::Window;
        let index = store.enter(queue, id, job)?;
        self.counts.jobs += 1;
        let standing = &mut self.standings[at];
        let footprint = Footprint::of(store.jobs.get(index), None);
        standing.footprint.add(footprint);
        standing.footprints.of(JobStage::Window).add(footprint);
        standing.windows += 1;
        standing.end_at(end, index);
        Some(())
    }
}

impl LoadedQueue {
    fn new(queue: &Queue) -> LoadedQueue {
        LoadedQueue {
            queue: queue.number,
            sequence: queue.sequence,
            last_place: queue.last_place,
            first_place: queue.first_place,
            earliest: [queue.used; 3],
            ..LoadedQueue::default()
        }
    }

    /// Whether the job can be in this queue.
    fn check(&self, image: &JobImage<'_>) -> Fits {
        let in_sequence = |order: i64| (0..self.sequence).contains(&order);
        when(image.priority <= PRIORITY_MAX && image.id.len() <= usize::from(u16::MAX))?;
        let placed = (self.first_place..=self.last_place).contains(&image.order);
        when(match image.stage {
            JobStage::Delayed | JobStage::Dead => in_sequence(image.order),
            _ => placed,
        })?;
        let Some(history) = &image.history else {
            return when(matches!(image.stage, JobStage::Delayed | JobStage::Ready));
        };
        let counts = [history.attempt, history.deliveries, history.nacks, history.timeouts];
        let more = [history.lost, history.unanswered];
        when(counts.iter().chain(&more).all(|count| *count < DELIVERIES_MAX))?;
        let (leased, dead) = (image.stage == JobStage::Leased, image.stage == JobStage::Dead);
        let delivered = history.attempt > 0 && history.deliveries > 0 && in_sequence(history.armed);
        when((!leased || delivered) && (leased || !history.bound))?;
        let follows = history.successor.as_deref();
        when(follows.is_none_or(|next| leased && next.priority <= PRIORITY_MAX))?;
        let redriven = history.rested == 0 || image.group.is_some() && history.rested < 3;
        when(redriven && dead == history.death().is_some())
    }

    fn note_earliest(&mut self, wheel: usize, at: Millis) {
        self.earliest[wheel] = self.earliest[wheel].min(at);
    }

    fn end_at(&mut self, at: Millis, index: JobIndex) {
        self.ends.push((at, index));
        self.note_earliest(2, at);
    }

    /// Puts all jobs of the queue where they are to stand.
    fn place_jobs(mut self, store: &mut Store) -> Fits {
        for list in [&mut self.delayed, &mut self.ready, &mut self.leased, &mut self.dead] {
            list.sort_unstable();
        }
        self.check_places(&store.jobs)?;
        let lists = [&self.delayed, &self.ready, &self.leased, &self.dead];
        let counts = lists.map(|list| list.len() as u64);
        when(store.queue(self.queue).totals.delivered >= self.leased.len() as u64)?;
        store.restore_counts(self.queue, counts);
        self.count_in_groups(store);
        let (queue, jobs, timers, chunks) = store.parts(self.queue);
        let wheels = [&mut queue.delayed, &mut queue.leases, &mut queue.ends];
        for (wheel, earliest) in wheels.into_iter().zip(self.earliest) {
            pass_to(wheel, timers, earliest);
        }
        for (_, index) in &self.delayed {
            queue.delayed.insert(timers, *index, timers.due(*index));
        }
        for (_, index) in &self.leased {
            queue.leases.insert(timers, *index, timers.due(*index));
        }
        let tail = self.ready.partition_point(|(place, _)| *place < TAIL_PLACE_MIN);
        let mut begun_only = false;
        for (_, index) in self.ready[..tail].iter().rev() {
            let tiers = queue.tiers(jobs.group(*index));
            queue.ready.push_front(jobs, chunks, *index, tiers);
            begun_only |= tiers.own.begun_only;
        }
        for (_, index) in &self.ready[tail..] {
            let tiers = queue.tiers(jobs.group(*index));
            queue.ready.push_back(jobs, chunks, *index, tiers);
            begun_only |= tiers.own.begun_only;
        }
        for (_, index) in &self.dead {
            queue.dead.push_back(chunks, 0, *index, |key, place| {
                jobs.get_mut(key).spot = place.number();
            });
        }
        for (end, index) in &self.ends {
            queue.ends.insert(timers, *index, *end);
        }
        (queue.windows, queue.footprints) = (self.windows, self.footprints);
        store.count_bytes(self.queue, self.footprint);
        self.share(store, begun_only);
        Some(())
    }

    /// Counts the jobs of groups, so that each group stands in its tier before its ready jobs come.
    fn count_in_groups(&self, store: &mut Store) {
        if store.queue(self.queue).groups.is_none() {
            return;
        }
        let lists = [&self.delayed, &self.ready, &self.leased, &self.dead];
        for (state, list) in JobState::ALL.into_iter().zip(lists) {
            for (_, index) in list {
                store.count_in_group(self.queue, state, *index, 1);
            }
        }
        // Some of those without a group may be leased.
        store.retier(self.queue, NO_GROUP);
    }

    /// Groups come in the order of their first places, seen from where jobs are taken. `begun_only`: of some only begun jobs
    /// may go.
    fn share(&self, store: &mut Store, begun_only: bool) {
        let (queue, _, _, chunks) = store.parts(self.queue);
        if !queue.ready.is_shared() {
            return;
        }
        if begun_only {
            // Their tiers depend on the jobs in their lanes.
            let groups: Vec<u32> = queue.ready.groups(chunks).collect();
            groups.into_iter().for_each(|group| store.retier(self.queue, group));
        }
        let (queue, jobs, _, chunks) = store.parts(self.queue);
        let from_right = queue.next_side() == Side::Right;
        let has_heads = self.ready.first().is_some_and(|(place, _)| *place < TAIL_PLACE_MIN);
        // Otherwise they have come in that order: a million groups are lined up in 0.4 s.
        if from_right || has_heads || begun_only {
            let indices = self.ready.iter().map(|(_, index)| *index);
            let order: Vec<JobIndex> =
                if from_right { indices.rev().collect() } else { indices.collect() };
            queue.ready.line_up(jobs, chunks, &order);
        }
        for (_, index) in &self.ready {
            let due = store.due(*index);
            let (queue, jobs, ..) = store.parts(self.queue);
            queue.ready.count_due(jobs.group(*index), due, 1);
        }
    }

    /// No two ready or leased jobs have the same place.
    fn check_places(&self, jobs: &Jobs) -> Fits {
        when(self.ready.is_sorted_by(|one, next| one.0 < next.0))?;
        let mut places: Vec<i64> =
            self.leased.iter().map(|(_, index)| jobs.get(*index).order).collect();
        places.sort_unstable();
        when(places.is_sorted_by(|one, next| one < next))?;
        let taken = |place: &i64| self.ready.binary_search_by_key(place, |entry| entry.0).is_ok();
        when(!places.iter().any(taken))
    }
}

/// Moves the cursor of an empty wheel to `at`, so that the next timers go to their final slots, and not all to the one
/// far after 1970.
fn pass_to(wheel: &mut Wheel, timers: &mut Timers, at: Millis) {
    wheel.peek(timers, at, &mut u32::MAX.clone());
}

impl Store {
    /// Stores and indexes a job; none if its id is there already.
    fn enter(&mut self, queue: QueueNo, id: &[u8], mut job: Job) -> Option<JobIndex> {
        let hash = self.hasher().id(id);
        let taken = self.queue(queue).table.find(wide(hash), |index| {
            self.jobs.get(index).hash == hash && self.jobs.id(index) == id
        });
        when(taken.is_none())?;
        job.hash = hash;
        self.policies.take(job.policy());
        let index = self.jobs.put(job);
        self.index_job(queue, hash, index);
        Some(index)
    }

    /// Gives a queue that has counted nothing its lateness.
    fn restore_lateness(&mut self, number: QueueNo, lateness: Option<Box<Histogram>>) {
        let Some(lateness) = lateness else { return };
        let filled = lateness.filled().count() as u64;
        let image_bytes =
            record::lateness_growth(true, false) + filled * record::lateness_growth(false, true);
        self.queue_mut(number).lateness = Some(lateness);
        self.count_bytes(number, Footprint::of_lateness(image_bytes));
    }

    /// Changes a queue, which counts as one that exists only when its jobs stand where they are to stand.
    fn restoring(&mut self, number: QueueNo, change: impl FnOnce(&mut Store) -> Fits) -> Fits {
        let db = self.queue(number).db;
        self.database_mut(db).existing += u64::from(self.queue(number).exists());
        let fits = change(self);
        let exists = u64::from(self.queue(number).exists());
        self.database_mut(db).existing -= exists;
        fits
    }

    fn restore_counts(&mut self, number: QueueNo, counts: [u64; 4]) {
        let queue = self.queue_mut(number);
        (queue.counts, queue.jobs) = (counts, counts.iter().sum());
        let (db, exists): (Db, bool) = (queue.db, queue.exists());
        let database = self.database_mut(db);
        database.existing += u64::from(exists);
        for (all, own) in database.counts.iter_mut().zip(counts) {
            *all += own;
        }
    }
}
