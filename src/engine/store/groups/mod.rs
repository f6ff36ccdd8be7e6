//! The groups of a queue: their jobs by state, and what is set for them.
//!
//! A job stores its group's number, which stays valid while the job is in memory. A group goes with its last job unless
//! something is set for it or its rate lets none go yet, so nothing is left of a million that came once. A purge of all
//! jobs in a state does not visit the groups: each resets its count for that state when it is next used.

mod name;
mod rate;
mod share;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use crate::engine::model::group::{GroupRetry, GroupSettings};
use crate::engine::model::queue_settings::QueueSettings;
use crate::engine::model::request::JobState;
use crate::engine::store::Store;
use crate::engine::store::groups::name::{GroupName, outside_bytes};
use crate::engine::store::groups::rate::{GroupPace, PaceTimer};
use crate::engine::store::jobs::hash::{Hasher, wide};
use crate::engine::store::jobs::index::SlabIndex;
use crate::engine::store::queue::{Queue, place_of};
use crate::engine::store::ready::lane::{SEVERAL_BYTES, Standing};
use crate::engine::store::ready::rota::{LANE_BYTES, NO_GROUP};
use crate::engine::store::snapshot::record;
use crate::ids::QueueNo;
use crate::limits::GROUP_WEIGHT_DEFAULT;
use crate::pool::Pool;
use crate::time::{Micros, Millis};
use crate::wheel::list::CHUNK_BYTES;

/// Bytes counted for a group with one job, in addition to a long name: the record, its place in the index, a lane.
const GROUP_BYTES: usize = size_of::<GroupRecord>() + 11 + LANE_BYTES;
/// A group with settings has these in addition,
const SETTINGS_BYTES: u64 = size_of::<GroupSettings>() as u64 + 8;
/// and one with several jobs these.
const SEVERAL_JOBS_BYTES: u64 = (SEVERAL_BYTES + CHUNK_BYTES) as u64;

/// All groups of a queue.
#[derive(Default, Debug)]
pub struct Groups {
    by_name: SlabIndex,
    groups: Pool<GroupRecord, 16>,
    /// The one that was found last: a job that is added asks twice.
    found: Cell<u32>,
    /// Running leases of all of them.
    leased: u64,
    /// The tier of the jobs without a group.
    rest_tier: u32,
    /// How often jobs were purged, and by state when last.
    purges: u32,
    purged: [u32; 4],
    /// Groups with something set, by name: bases have them in the same order everywhere.
    set: BTreeMap<Box<[u8]>, u32>,
    /// Those with several jobs in memory.
    pub several: u64,
    /// Bytes counted for all of them.
    pub bytes: u64,
    /// When pauses end.
    ends: BTreeSet<(Millis, u32)>,
    /// When to look at groups because of their rates.
    paced_at: BTreeSet<PaceTimer>,
    /// Groups with a pace.
    pub paced: u64,
    /// Bytes of the images of paces, were there one of each group that has none.
    pub unpaced_image_bytes: u64,
    /// Closed groups with ready jobs.
    pub held: u64,
    /// The group to be asked next whether its tier is still right, if they are being asked.
    review: Option<u32>,
    /// Those below are freed, in a queue that is gone.
    dropped: u32,
}

#[derive(Default, Debug)]
struct GroupRecord {
    name: GroupName,
    /// Jobs in memory, purged ones included.
    jobs: u32,
    /// By state, as of the purge with this number; and begun ones that are delayed or ready.
    counts: [u32; 4],
    begun: [u32; 2],
    seen: u32,
    standing: Standing,
    /// Its own settings; most groups have none.
    settings: Option<Box<GroupSettings>>,
    pace: Option<Box<GroupPace>>,
}

impl Groups {
    fn find(&self, hasher: &Hasher, name: &[u8]) -> Option<u32> {
        let is = |number: u32| self.groups.find(number).is_some_and(|group| *group.name == *name);
        if is(self.found.get()) {
            return Some(self.found.get());
        }
        let found = self.by_name.find(wide(hasher.name(name)), is)?;
        self.found.set(found);
        Some(found)
    }

    fn make(&mut self, hasher: &Hasher, name: &[u8]) -> u32 {
        let number = self.groups.alloc();
        *self.groups.get_mut(number) =
            GroupRecord { name: name.into(), seen: self.purges, ..GroupRecord::default() };
        let hash_of = |number| wide(hasher.name(&self.groups.get(number).name));
        self.by_name.insert(hash_of(number), number, hash_of);
        self.bytes += one_job_bytes(name);
        self.unpaced_image_bytes += record::pace_bytes(name);
        number
    }

    /// Forgets a group that has no job, and for which nothing is set.
    fn forget(&mut self, hasher: &Hasher, number: u32) {
        let hash_of = |number| wide(hasher.name(&self.groups.get(number).name));
        self.by_name.remove(hash_of(number), number, hash_of);
        let GroupRecord { name, .. } = std::mem::take(self.groups.get_mut(number));
        self.groups.free(number);
        self.bytes -= one_job_bytes(&name);
        self.unpaced_image_bytes -= record::pace_bytes(&name);
    }

    pub fn name(&self, number: u32) -> &[u8] {
        &self.groups.get(number).name
    }

    pub fn settings(&self, number: u32) -> GroupSettings {
        self.groups.get(number).settings.as_deref().copied().unwrap_or_default()
    }

    /// Its jobs by state.
    pub fn counts(&self, number: u32) -> [u64; 4] {
        let group = self.groups.get(number);
        std::array::from_fn(|state| match self.purged[state] > group.seen {
            true => 0,
            false => u64::from(group.counts[state]),
        })
    }

    /// Its begun jobs that are delayed, and that are ready.
    pub fn begun(&self, number: u32) -> [u64; 2] {
        let group = self.groups.get(number);
        std::array::from_fn(|state| match self.purged[state] > group.seen {
            true => 0,
            false => u64::from(group.begun[state]),
        })
    }

    /// The next group from a number on that has a job or something set, within so many steps; what to go on from.
    pub fn next_from(&self, from: u32, steps: &mut usize) -> Option<u32> {
        let there = |number: &u32| {
            let Some(group) = self.groups.find(*number) else { return false };
            let known = !group.name.is_empty();
            known && (group.settings.is_some() || self.counts(*number) != [0; 4])
        };
        let found = (from..self.groups.end()).take(*steps).position(|number| there(&number));
        let passed = found.map_or(*steps, |at| at + 1);
        *steps -= passed.min(*steps);
        found.map(|at| from + at as u32)
    }

    /// All numbers are below this.
    pub fn end(&self) -> u32 {
        self.groups.end()
    }

    /// How many there are; those included that have only purged jobs.
    pub fn len(&self) -> usize {
        self.groups.used()
    }

    /// Groups with something set, by name.
    pub fn set(&self) -> impl ExactSizeIterator<Item = (&[u8], GroupSettings)> {
        self.set.iter().map(|(name, number)| (&**name, self.settings(*number)))
    }

    /// Whether some have not been asked yet for their tier, which may be another.
    pub fn is_being_reviewed(&self) -> bool {
        self.review.is_some()
    }

    /// The pause that ends first: when, and of which group.
    pub fn next_end(&self) -> Option<(Millis, u32)> {
        self.ends.first().copied()
    }

    /// Frees some of them, for a queue that is gone; true when none is left.
    pub fn drop_slice(&mut self, budget: &mut u32) -> bool {
        let from = self.dropped;
        let to = self.groups.end().min(from.saturating_add(*budget));
        for number in from..to {
            let group = self.groups.find_mut(number).map(std::mem::take);
            if group.is_some_and(|group| !group.name.is_empty()) {
                self.groups.free(number);
            }
        }
        *budget -= to.saturating_sub(from);
        self.dropped = to.max(from);
        self.dropped >= self.groups.end()
    }
}

/// The most bytes that are counted for a group of this name.
pub fn group_bytes(name: &[u8]) -> u64 {
    one_job_bytes(name) + SEVERAL_JOBS_BYTES + SETTINGS_BYTES
}

/// Those of one that has a job at most.
fn one_job_bytes(name: &[u8]) -> u64 {
    (GROUP_BYTES + outside_bytes(name.len())) as u64
}

impl Queue {
    /// Jobs in a stint of a group.
    pub fn stint(&self, group: u32) -> u32 {
        if group == NO_GROUP {
            return GROUP_WEIGHT_DEFAULT;
        }
        let weight = self.setting_of(group, |own| own.weight, |all| all.group_weight.0);
        weight.unwrap_or(GROUP_WEIGHT_DEFAULT)
    }

    /// Most leases of a group that run at once; 0 for no limit.
    pub fn group_max_leased(&self, group: u32) -> u32 {
        let max = self.setting_of(group, |own| own.max_leased, |all| all.group_max_leased.0);
        max.unwrap_or(0)
    }

    /// Most delayed, ready and leased jobs of a group; 0 for no limit.
    pub fn group_max_jobs(&self, group: u32) -> u32 {
        let max = self.setting_of(group, |own| own.max_jobs.0, |all| all.group_max_jobs.0);
        max.unwrap_or(0)
    }

    /// Whether a job of a group that waits for its next attempt lets others pass.
    pub fn group_retry(&self, group: u32) -> GroupRetry {
        self.setting_of(group, |own| own.retry, |all| all.group_retry.0).unwrap_or_default()
    }

    /// A group's own value, else the queue's.
    fn setting_of<T>(
        &self,
        group: u32,
        own: fn(&GroupSettings) -> Option<T>,
        all: fn(&QueueSettings) -> Option<T>,
    ) -> Option<T> {
        let groups = self.groups.as_ref();
        let set = groups.and_then(|groups| groups.groups.get(group).settings.as_deref());
        set.and_then(own).or_else(|| self.settings.as_deref().and_then(all))
    }
}

impl Store {
    /// Delayed, ready and leased jobs of a group.
    pub fn group_jobs(&self, queue: QueueNo, group: u32) -> u64 {
        let groups = self.queue(queue).groups.as_deref();
        groups.map_or(0, |groups| groups.counts(group)[..JobState::Dead as usize].iter().sum())
    }

    /// The number of a group.
    pub fn find_group(&self, queue: QueueNo, name: &[u8]) -> Option<u32> {
        self.queue(queue).groups.as_ref()?.find(&self.hasher, name)
    }

    /// A job is to be in this group: its number.
    pub(super) fn join_group(&mut self, queue: QueueNo, name: &[u8]) -> u32 {
        let number = self.open_group(queue, name);
        let groups = self.queue_mut(queue).groups.as_mut().expect("one was opened");
        let jobs = &mut groups.groups.get_mut(number).jobs;
        *jobs += 1;
        if *jobs == 2 {
            self.count_several(queue, 1);
        }
        number
    }

    /// A job of this group is not in memory any more.
    pub(super) fn leave_group(&mut self, queue: QueueNo, number: u32) {
        if number == NO_GROUP {
            return;
        }
        let groups = self.queue_mut(queue).groups.as_mut().expect("a job had a group");
        let jobs = &mut groups.groups.get_mut(number).jobs;
        *jobs -= 1;
        if *jobs == 1 {
            self.count_several(queue, -1);
        }
        self.close_group(queue, number);
    }

    /// A group has several jobs in memory from here on, or not any more.
    fn count_several(&mut self, queue: QueueNo, by: i64) {
        let add = |count: &mut u64, by: i64| {
            *count = count.checked_add_signed(by).expect("what goes was counted");
        };
        let bytes = by * SEVERAL_JOBS_BYTES as i64;
        let groups = self.queue_mut(queue).groups.as_mut().expect("it has groups");
        add(&mut groups.several, by);
        add(&mut groups.bytes, bytes);
        add(&mut self.bytes, bytes);
        add(&mut self.databases[place_of(queue).0].several_groups, by);
        self.recount_spare(queue);
    }

    /// The number of a group, which is made if it is not there.
    fn open_group(&mut self, queue: QueueNo, name: &[u8]) -> u32 {
        if let Some(number) = self.find_group(queue, name) {
            return number;
        }
        let (db, place) = place_of(queue);
        let queue_ref = self.databases[db].queues.get_mut(place).expect("the queue is bound");
        let leased = queue_ref.count(JobState::Leased);
        let groups = queue_ref.groups.get_or_insert_with(|| {
            Box::new(Groups { rest_tier: share::rest_tier(leased), ..Groups::default() })
        });
        let number = groups.make(&self.hasher, name);
        self.databases[db].groups += 1;
        self.databases[db].coming_image_bytes += record::pace_bytes(name);
        self.bytes += one_job_bytes(name);
        self.recount_spare(queue);
        self.retier(queue, number);
        number
    }

    /// Forgets a group of which nothing is left; if only its pace is, when that is past.
    fn close_group(&mut self, queue: QueueNo, number: u32) {
        let (db, place) = place_of(queue);
        let queue_ref = self.databases[db].queues.get_mut(place).expect("the queue is bound");
        let groups = queue_ref.groups.as_mut().expect("the group is there");
        let group = groups.groups.get(number);
        if group.jobs > 0 || group.settings.is_some() {
            return;
        }
        if group.pace.is_some() {
            return self.arm_pace(queue, number);
        }
        let (bytes, image_bytes) = (one_job_bytes(&group.name), record::pace_bytes(&group.name));
        groups.forget(&self.hasher, number);
        if groups.len() == 0 {
            queue_ref.groups = None;
        }
        self.databases[db].groups -= 1;
        self.databases[db].coming_image_bytes -= image_bytes;
        self.bytes -= bytes;
        self.recount_spare(queue);
    }

    /// Groups of all queues with several jobs in memory.
    pub(in crate::engine::store) fn several_groups(&self) -> u64 {
        self.databases.iter().map(|database| database.several_groups).sum()
    }

    /// Groups of all queues.
    pub fn group_count(&self) -> u64 {
        self.databases.iter().map(|database| database.groups).sum()
    }

    /// Sets what is set for a group, all of it.
    pub(super) fn set_group(
        &mut self,
        queue: QueueNo,
        name: &[u8],
        settings: GroupSettings,
        now: Micros,
    ) {
        let number = self.open_group(queue, name);
        let (mut before, mut after) = (0, 0);
        self.change_own(queue, |queue| {
            let groups = queue.groups.as_mut().expect("one was opened");
            let own = groups.settings(number);
            if !own.is_empty() {
                before = record::group_bytes(name, own);
                groups.bytes -= SETTINGS_BYTES;
            }
            let (was, is) = (own.pause.end(), settings.pause.end());
            was.into_iter().for_each(|end| _ = groups.ends.remove(&(end, number)));
            groups.ends.extend(is.map(|end| (end, number)));
            let stored = &mut groups.groups.get_mut(number).settings;
            if settings.is_empty() {
                *stored = None;
                groups.set.remove(name);
            } else {
                *stored = Some(Box::new(settings));
                groups.set.insert(name.into(), number);
                groups.bytes += SETTINGS_BYTES;
                after = record::group_bytes(name, settings);
            }
        });
        let (db, _) = place_of(queue);
        let queue_ref = self.queue_mut(queue);
        queue_ref.image_bytes = queue_ref.image_bytes + after - before;
        let database = &mut self.databases[db];
        database.image_bytes = database.image_bytes + after - before;
        self.reset_group(queue, number, now);
        self.close_group(queue, number);
        if let Some(end) = settings.pause.end() {
            self.wake_by(queue, end);
        }
    }
}

impl Store {
    /// All jobs of some states are gone at once, whatever the number of groups. They are not counted in the queue any more.
    pub(in crate::engine::store) fn purge_groups(
        &mut self,
        queue: QueueNo,
        states: [bool; 4],
        now: Micros,
    ) {
        let Some(groups) = &mut self.queue_mut(queue).groups else { return };
        groups.purges += 1;
        for (purged, _) in groups.purged.iter_mut().zip(states).filter(|(_, goes)| *goes) {
            *purged = groups.purges;
        }
        if states[JobState::Ready as usize] {
            groups.held = 0;
        }
        if states[JobState::Leased as usize] {
            groups.leased = 0;
        }
        // What held some of them back may be gone.
        if states[..JobState::Dead as usize].contains(&true) {
            self.begin_review(queue, now);
        }
    }
}
