//! Base files: the whole state as of one instant X, written in slices while the engine goes on.
//!
//! ```text
//! begin_base (X)      base_slice: walks policies, queues, jobs      true: complete
//! -----+-------------------+------------------+---------------------------+------> turns
//!      |     a fact is to change a job that the walk has not reached
//!      |     -> its image as of X goes to the output first, and its bit among the done is set
//! ```
//!
//! Anything younger than X is skipped: a job put after X gets its bit at once, a queue is known by its birth, a policy
//! by its mark. A queue's image always comes before its jobs', a policy's before any job that uses it. A queue that is
//! removed before the walk has been through it is *kept*: it is walked like the others, and freed only then.
//!
//! The same bit serves the walk and the changes, so every job is written exactly once.

pub mod load;
pub mod record;

use crate::engine::model::fact::Fact;
use crate::engine::store::jobs::hash::wide;
use crate::engine::store::jobs::index::TABLE_ENTRIES_MAX;
use crate::engine::store::jobs::policies::Policies;
use crate::engine::store::jobs::{JobIndex, JobStage, Jobs};
use crate::engine::store::minutes::MinutesScan;
use crate::engine::store::queue::Queue;
use crate::engine::store::{Located, Store};
use crate::hash_slot::{hash_slot, partition_of};
use crate::ids::{DATABASES, PolicyNo, QueueNo, ScheduleNo};
use record::ImageCounts;

/// Jobs noted at once of the queue that is walked: what the id index gives in one look at a table.
const PENDING: usize = TABLE_ENTRIES_MAX;

/// Groups that are looked at for a pace in one step.
const LOOKED_FOR_PACES: u32 = 64;

/// Slab numbers per block of bits.
const DONE_BLOCK: usize = 4096;

/// The base files of a partition: the newest, and whether it is being written.
#[derive(Default, Debug)]
pub struct Bases {
    /// Whole images that have not been taken yet.
    output: Vec<u8>,
    /// Its number, from 1. It is the mark on queues and policies; at one an hour it repeats after half a million years.
    number: u32,
    /// The sum over the images of the newest that was written to its end.
    sum: Option<u64>,
    running: Option<Box<RunningBase>>,
}

/// A base file that is being written.
#[derive(Debug)]
struct RunningBase {
    /// Queues born later are passed over.
    born: u64,
    /// A bit per slab number whose image is written, or that is too young.
    done: Vec<Option<Box<[u64; DONE_BLOCK / 64]>>>,
    counts: ImageCounts,
    /// The sum over the images written so far.
    sum: u64,
    /// Jobs of a queue that is being walked, still to be written.
    pending: Vec<JobIndex>,
    pending_of: QueueNo,
    /// A removed queue that is being walked, and how far.
    grave: Option<(Box<Queue>, IndexScan)>,
    walk: SnapshotWalk,
    /// Only the queues of this partition, of so many.
    part: Option<(u16, u16)>,
}

/// How far the walk has come.
#[derive(Debug)]
enum SnapshotWalk {
    /// At the policy with this number.
    Policies(u32),
    /// At a position of a database: the queue there, by its birth, and the position in it.
    Queues { db: usize, place: u32, at: Option<(u64, IndexScan)> },
    /// The minutes: they are not part of the state, so nothing is written before they change.
    Minutes(MinutesScan),
}

/// How far a queue's index has been looked through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum IndexScan {
    From(u64),
    /// All of the index; now its schedules, from this number on.
    Schedules(ScheduleNo),
    /// The same of the paces of groups.
    Paces(u32),
    Done,
}

impl Bases {
    #[inline]
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub fn number(&self) -> u32 {
        self.number
    }

    /// Where images are appended to.
    pub fn output_mut(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Whether a queue that is removed has jobs that are still to be written.
    pub fn needs(&self, queue: &Queue) -> bool {
        let older = self.running.as_ref().is_some_and(|running| queue.born <= running.born);
        older && queue.walked != self.number
    }

    /// Whether the queue is one of those that the running one is of; without one: whether the minutes of all are.
    pub fn has(&self, queue: Option<&Queue>) -> bool {
        let part = self.running.as_ref().and_then(|running| running.part);
        part.is_none_or(|(own, count)| {
            own == queue.map_or(0, |queue| partition_of(hash_slot(&queue.name), count))
        })
    }

    /// A new job got this number.
    #[inline]
    pub fn pass_over(&mut self, index: JobIndex) {
        if let Some(running) = &mut self.running {
            running.is_first(index);
        }
    }

    /// A job has got another number.
    pub fn rename(&mut self, index: JobIndex, to: JobIndex) {
        let Some(running) = &mut self.running else { return };
        running.rename(index, to);
    }

    fn running(&mut self) -> &mut RunningBase {
        self.running.as_mut().expect("a base file is being written")
    }

    /// Writes the queue's image, unless that is done or the queue is too young.
    fn image_queue(&mut self, queue: &mut Queue) {
        let Some(running) = &mut self.running else { return };
        if queue.born > running.born || queue.imaged == self.number {
            return;
        }
        queue.imaged = self.number;
        running.counts.queues += 1;
        let from = self.output.len();
        record::write_queue(&mut self.output, queue);
        self.add_to_sum(from);
    }

    /// Writes the schedule's image, unless that is done, or it has none yet.
    fn image_schedule(&mut self, queue: &mut Queue, number: ScheduleNo) {
        let Some(schedules) = queue.schedules.as_deref_mut() else { return };
        if !schedules.note_imaged(number, self.number) {
            return;
        }
        let schedule = schedules.get(number).expect("it was noted");
        let from = self.output.len();
        record::write_schedule(&mut self.output, queue.number, schedule);
        self.running().counts.schedules += 1;
        self.add_to_sum(from);
    }

    /// Writes the image of a group's pace, unless that is done, or it has none.
    fn image_pace(&mut self, queue: &mut Queue, group: u32) -> bool {
        let Some(groups) = queue.groups.as_deref_mut() else { return false };
        let Some((name, gave)) = groups.image_pace(group, self.number) else { return false };
        let from = self.output.len();
        record::write_pace(&mut self.output, queue.number, name, gave);
        self.add_to_sum(from);
        true
    }

    /// Writes the image of the next schedule of a queue, then of the next pace: where to go on.
    fn walk_rest(&mut self, queue: &mut Queue, scan: IndexScan) -> IndexScan {
        match scan {
            IndexScan::Schedules(from) => {
                let schedules = queue.schedules.as_deref();
                let next = schedules.and_then(|schedules| schedules.from(from).next());
                let Some(number) = next.map(|schedule| schedule.number) else {
                    return IndexScan::Paces(0);
                };
                self.image_schedule(queue, number);
                IndexScan::Schedules(ScheduleNo(number.0 + 1))
            }
            IndexScan::Paces(from) => {
                let end = queue.groups.as_deref().map_or(0, |groups| groups.end());
                let mut looked = from..end.min(from.saturating_add(LOOKED_FOR_PACES));
                let found = looked.find(|number| self.image_pace(queue, *number));
                let next = found.map_or(looked.end, |number| number + 1);
                if next < end { IndexScan::Paces(next) } else { IndexScan::Done }
            }
            IndexScan::From(_) | IndexScan::Done => IndexScan::Done,
        }
    }

    /// From `from` on there is one image, or two that belong together.
    fn add_to_sum(&mut self, from: usize) {
        let image = digest_of(&self.output[from..]);
        let running = self.running();
        running.sum = running.sum.wrapping_add(image);
    }

    fn image_policy(&mut self, policies: &mut Policies, number: PolicyNo) {
        if policies.note_imaged(number, self.number) {
            let from = self.output.len();
            record::write_policy(&mut self.output, number, policies.get(number));
            self.running().counts.policies += 1;
            self.add_to_sum(from);
        }
    }
}

/// The checksum of an image: the same on every machine, whatever its processor. The sums are added, so that the order
/// in which jobs were reached does not matter. CRC-32C finds a difference within one image, except once in 4 billion;
/// the finalizer of SplitMix64 after it (Steele, Lea and Flood, 2014) keeps differences in two images from cancelling
/// out.
fn digest_of(image: &[u8]) -> u64 {
    let mut mixed = u64::from(crc32c::crc32c(image)) | (image.len() as u64) << 32;
    mixed = mixed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl RunningBase {
    /// Sets the number's bit; false if it was set before.
    fn is_first(&mut self, index: JobIndex) -> bool {
        let (word, bit) = self.bit(index);
        let first = *word & bit == 0;
        *word |= bit;
        first
    }

    /// Another number stands for this job from now on. The old one's bit stays: the next job there is skipped anyway.
    fn rename(&mut self, index: JobIndex, to: JobIndex) {
        let (word, bit) = self.bit(index);
        let done = *word & bit != 0;
        let (word, bit) = self.bit(to);
        *word = if done { *word | bit } else { *word & !bit };
        // The new number was free: a job that was noted under it is gone, and has been written.
        self.pending.retain(|pending| *pending != to);
        if let Some(pending) = self.pending.iter_mut().find(|pending| **pending == index) {
            *pending = to;
        }
    }

    fn bit(&mut self, index: JobIndex) -> (&mut u64, u64) {
        let (block, at) = (index as usize / DONE_BLOCK, index as usize % DONE_BLOCK);
        if block >= self.done.len() {
            self.done.resize_with(block + 1, || None);
        }
        let bits = self.done[block].get_or_insert_with(|| Box::new([0; DONE_BLOCK / 64]));
        (&mut bits[at / 64], 1 << (at % 64))
    }
}

impl Store {
    /// Writes what a fact is about to change as it was at X.
    #[inline(never)]
    pub(super) fn image_before(&mut self, fact: &Fact<'_>, at: Located) {
        match *fact {
            Fact::QueueBound { .. } => {}
            Fact::PolicyForgotten { number } => {
                self.bases.image_policy(&mut self.policies, number);
            }
            _ => {
                let Some(queue) = fact.queue() else { return };
                self.image_queue(queue);
                if let Some((queue, schedule)) = fact.schedule() {
                    let queue = crate::engine::store::bound_in(&mut self.databases, queue);
                    self.bases.image_schedule(queue, schedule);
                }
                let group = match *fact {
                    Fact::GroupPaced { group, .. } => self.find_group(queue, group),
                    _ => at.index.map(|index| self.jobs.group(index)),
                };
                if let Some(group) = group {
                    let queue = crate::engine::store::bound_in(&mut self.databases, queue);
                    self.bases.image_pace(queue, group);
                }
                if let Some(index) = at.index {
                    self.image_job(queue, index);
                }
            }
        }
    }

    /// Writes a queue's image if it is still to be written.
    pub(super) fn image_queue(&mut self, number: QueueNo) {
        let queue = crate::engine::store::bound_in(&mut self.databases, number);
        self.bases.image_queue(queue);
    }

    /// Writes a job's image if it is still to be written. The queue's must have been.
    pub(super) fn image_job(&mut self, queue: QueueNo, index: JobIndex) {
        if !self.bases.running().is_first(index) {
            return;
        }
        self.bases.running().counts.jobs += 1;
        let policy = self.jobs.policy(index);
        self.bases.image_policy(&mut self.policies, policy);
        if let Some(policy) = self.successor(index).map(|successor| successor.policy) {
            self.bases.image_policy(&mut self.policies, policy);
        }
        let timer = match self.jobs.get(index).stage {
            JobStage::Ready => self.due(index),
            _ => self.timers.due(index),
        };
        let jobs = &self.jobs;
        let (job, data) = (jobs.get(index), jobs.content(index));
        let of = (job, policy, jobs.history(index));
        let from = self.bases.output.len();
        record::write_job(&mut self.bases.output, queue, of, timer, data);
        self.bases.add_to_sum(from);
    }

    /// Whether a base file that is being written still needs a removed queue.
    pub(super) fn keeps_removed(&self) -> bool {
        let running = self.bases.running.as_ref();
        running.is_some_and(|running| running.grave.is_some()) || !self.kept.is_empty()
    }

    /// Includes the minutes if they take no more than `minutes_room` bytes.
    pub fn begin_base(&mut self, minutes_room: u64) {
        self.abandon_base();
        self.bases.number = self.bases.number.checked_add(1).unwrap_or(1);
        self.bases.sum = None;
        self.bases.running = Some(Box::new(RunningBase {
            born: self.births,
            done: Vec::new(),
            counts: ImageCounts::default(),
            sum: 0,
            pending: Vec::new(),
            pending_of: QueueNo(0),
            grave: None,
            walk: SnapshotWalk::Policies(0),
            part: None,
        }));
        record::write_begin(&mut self.bases.output, self.number, &self.leading);
        self.bases.add_to_sum(0);
        self.cut_minutes(minutes_room);
    }

    /// Includes the policies that its queues need. The first one gets the minutes of all queues together.
    pub fn begin_part(&mut self, partition: u16, count: u16, minutes_room: u64) {
        self.begin_base(minutes_room);
        let running = self.bases.running();
        running.part = Some((partition, count));
        running.walk = SnapshotWalk::Queues { db: 0, place: 0, at: None };
    }

    pub fn abandon_base(&mut self) {
        self.bases.output = Vec::new();
        if let Some(running) = self.bases.running.take() {
            if let Some((grave, _)) = running.grave {
                self.graveyard.put(grave);
            }
            self.graveyard.put_graveyard(std::mem::take(&mut self.kept));
        }
    }

    /// One image, or one look for more of them.
    pub(super) fn base_step(&mut self) {
        let running = self.bases.running();
        if let Some(index) = running.pending.pop() {
            let queue = running.pending_of;
            self.image_job(queue, index);
        } else if let Some((grave, scan)) = running.grave.take() {
            self.walk_grave(grave, scan);
        } else if let Some(grave) = self.kept.next() {
            self.walk_grave(grave, IndexScan::From(0));
        } else {
            match running.walk {
                SnapshotWalk::Policies(number) => self.walk_policies(number),
                SnapshotWalk::Queues { db, place, at } => self.walk_queues(db, place, at),
                SnapshotWalk::Minutes(scan) => match self.image_minutes(scan) {
                    Some(next) => self.bases.running().walk = SnapshotWalk::Minutes(next),
                    None => self.end_base(),
                },
            }
        }
    }

    fn walk_grave(&mut self, mut queue: Box<Queue>, scan: IndexScan) {
        match scan {
            IndexScan::From(cursor) if self.bases.needs(&queue) => {
                self.bases.image_queue(&mut queue);
                let scan = self.bases.scan(&self.jobs, &queue, cursor);
                self.bases.running().grave = Some((queue, scan));
            }
            IndexScan::Schedules(_) | IndexScan::Paces(_) => {
                let scan = self.bases.walk_rest(&mut queue, scan);
                self.bases.running().grave = Some((queue, scan));
            }
            _ => self.graveyard.put(queue),
        }
    }

    fn walk_policies(&mut self, number: u32) {
        let next = self.policies.next_from(PolicyNo(number));
        self.bases.running().walk = match next {
            Some(next) => {
                self.bases.image_policy(&mut self.policies, next);
                SnapshotWalk::Policies(next.0 + 1)
            }
            None => SnapshotWalk::Queues { db: 0, place: 0, at: None },
        };
    }

    fn walk_queues(&mut self, db: usize, place: u32, at: Option<(u64, IndexScan)>) {
        if db == usize::from(DATABASES) {
            self.bases.running().walk = SnapshotWalk::Minutes(MinutesScan::default());
            return;
        }
        let queues = &mut self.databases[db].queues;
        let walk = match queues.next_from(place) {
            None => SnapshotWalk::Queues { db: db + 1, place: 0, at: None },
            Some(place) => {
                let queue = queues.get_mut(place).expect("a number that is taken");
                // Another queue may be there since.
                let scan = match at {
                    Some((born, scan)) if born == queue.born => scan,
                    _ => IndexScan::From(0),
                };
                match scan {
                    IndexScan::From(cursor)
                        if self.bases.needs(queue) && self.bases.has(Some(queue)) =>
                    {
                        self.bases.image_queue(queue);
                        let scan = self.bases.scan(&self.jobs, queue, cursor);
                        SnapshotWalk::Queues { db, place, at: Some((queue.born, scan)) }
                    }
                    IndexScan::Schedules(_) | IndexScan::Paces(_) => {
                        let scan = self.bases.walk_rest(queue, scan);
                        SnapshotWalk::Queues { db, place, at: Some((queue.born, scan)) }
                    }
                    _ => {
                        queue.walked = self.bases.number;
                        SnapshotWalk::Queues { db, place: place + 1, at: None }
                    }
                }
            }
        };
        self.bases.running().walk = walk;
    }

    fn end_base(&mut self) {
        let running = self.bases.running.take().expect("a base file is being written");
        self.bases.sum = Some(running.sum);
        record::write_end(&mut self.bases.output, running.counts);
    }
}

impl Bases {
    /// Notes the queue's next jobs as pending.
    fn scan(&mut self, jobs: &Jobs, queue: &Queue, cursor: u64) -> IndexScan {
        let number = self.number;
        let running = self.running();
        running.pending_of = queue.number;
        let pending = &mut running.pending;
        let hash_of = |index| wide(jobs.get(index).hash);
        let visit = |index| {
            if !queue.purged_before(jobs, index, number) {
                pending.push(index);
            }
        };
        match queue.table.scan(cursor, PENDING, hash_of, visit) {
            0 => IndexScan::Schedules(ScheduleNo(0)),
            next => IndexScan::From(next),
        }
    }
}

impl Store {
    pub fn base_slice(&mut self, images_max: u32, bytes_max: usize) -> bool {
        let before = self.bases.output.len();
        for _ in 0..images_max {
            if self.bases.output.len() - before >= bytes_max {
                return false;
            }
            self.base_step();
            if !self.is_base_running() {
                return true;
            }
        }
        false
    }

    pub fn base_output(&self) -> &[u8] {
        &self.bases.output
    }

    pub fn base_output_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bases.output
    }

    pub fn base_sum(&self) -> Option<u64> {
        self.bases.sum
    }

    pub fn is_base_running(&self) -> bool {
        self.bases.is_running()
    }

    /// How large a base is now, without the minutes. Cost: a sum over 16 databases.
    pub fn base_bytes(&self) -> u64 {
        let queues: u64 = self.databases.iter().map(|database| database.image_bytes).sum();
        let counts = record::ImageCounts {
            schedules: self.schedule_total(),
            ..record::ImageCounts::default()
        };
        record::frame_bytes(&self.leading, counts) + self.policy_image_bytes + queues
    }

    /// By how much more paces of groups that have none, and errors without a text, can make it. O(16).
    pub fn coming_image_bytes(&self) -> u64 {
        self.databases.iter().map(|database| database.coming_image_bytes).sum()
    }
}
