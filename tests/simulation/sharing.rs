//! How groups share the front of a queue, as the specification says it: the next job is found by looking at all.

use std::collections::BTreeMap;

use delayd::engine::model::fact::Fact;
use delayd::engine::model::group::{GroupSettings, Grouping};
use delayd::engine::model::queue_settings::Setting;
use delayd::engine::model::request::{JobState, QueueName, Side};
use delayd::ids::{ClientId, QueueNo};

use crate::simulation::auditor::Check;
use crate::simulation::model::{ModelJob, ModelQueue, QueueKey};
use crate::simulation::trace::{Kept, Said, keep};

/// The group of jobs without one.
const NONE: Kept = b"";

/// A group with ready jobs of one priority.
#[derive(Clone, Debug)]
struct Waiting {
    priority: u8,
    group: Kept,
    tier: u64,
    /// Jobs of its stint that it has given.
    given: u64,
}

/// What is set for groups, and in which order they come.
#[derive(Default, Debug)]
pub struct Sharing {
    pub set: BTreeMap<Kept, GroupSettings>,
    /// First come, first served within priority and tier; empty while no ready job has a group.
    rota: Vec<Waiting>,
    leased: BTreeMap<Kept, u64>,
}

impl ModelQueue {
    pub fn is_shared(&self) -> bool {
        !self.sharing.rota.is_empty()
    }

    /// Whether a job may have a group, or come with one by itself.
    pub fn may_be_shared(&self) -> bool {
        let schedules = &mut self.schedules.values();
        self.jobs.values().any(|job| !job.group.is_empty())
            || schedules.any(|schedule| schedule.definition.group().is_some())
    }

    fn weight(&self, group: Kept) -> u64 {
        let own = self.sharing.set.get(group).and_then(|set| set.weight);
        let weight = own.or(self.policies.settings.group_weight.0).filter(|_| group != NONE);
        weight.unwrap_or(1).into()
    }

    fn tier(&self, group: Kept) -> u64 {
        let leased = self.sharing.leased.get(group).copied().unwrap_or(0);
        leased / (8 * self.weight(group))
    }

    /// A job has come to where it is now.
    pub fn came(&mut self, job: &ModelJob) {
        match job.state {
            JobState::Leased => self.count_lease(job.group, 1),
            JobState::Ready if job.group != NONE || self.is_shared() => {
                if !self.is_shared() {
                    let mut others: Vec<u8> = self.ready.iter().map(|entry| entry.0).collect();
                    others.dedup();
                    // The new one is among them already.
                    let plain = |priority: &u8| self.has_ready(*priority, NONE);
                    let others: Vec<u8> = others.into_iter().filter(plain).collect();
                    others.into_iter().for_each(|priority| self.enter(priority, NONE));
                }
                self.enter(job.priority, job.group);
            }
            _ => {}
        }
    }

    /// A job has left where it was.
    pub fn left(&mut self, job: &ModelJob) {
        match job.state {
            JobState::Leased => self.count_lease(job.group, -1),
            JobState::Ready if !self.has_ready(job.priority, job.group) => {
                let (priority, group) = (job.priority, job.group);
                let rota = &mut self.sharing.rota;
                rota.retain(|one| (one.priority, one.group) != (priority, group));
                if rota.iter().all(|one| one.group == NONE) {
                    rota.clear();
                }
            }
            _ => {}
        }
    }

    fn has_ready(&self, priority: u8, group: Kept) -> bool {
        let of = self.ready.range((priority, i64::MIN, NONE)..=(priority, i64::MAX, &[255; 600]));
        of.into_iter().any(|entry| self.jobs[entry.2].group == group)
    }

    fn enter(&mut self, priority: u8, group: Kept) {
        let tier = self.tier(group);
        let rota = &mut self.sharing.rota;
        if !rota.iter().any(|one| (one.priority, one.group) == (priority, group)) {
            rota.push(Waiting { priority, group, tier, given: 0 });
        }
    }

    fn count_lease(&mut self, group: Kept, by: i64) {
        let leased = self.sharing.leased.entry(group).or_default();
        *leased = leased.checked_add_signed(by).expect("a lease ends once");
        self.retier(group);
    }

    /// A group that comes to another tier comes last there.
    pub fn retier(&mut self, group: Kept) {
        let tier = self.tier(group);
        let rota = &mut self.sharing.rota;
        let moves = |one: &mut Waiting| one.group == group && one.tier != tier;
        let moving: Vec<Waiting> = rota.extract_if(.., moves).collect();
        rota.extend(moving.into_iter().map(|one| Waiting { tier, given: 0, ..one }));
    }

    /// The same of all groups, in their order.
    pub fn review(&mut self) {
        let mut rota = self.sharing.rota.clone();
        rota.sort_by_key(|one| (one.priority, one.tier));
        rota.into_iter().for_each(|one| self.retier(one.group));
    }

    /// All jobs of some states are gone.
    pub fn forget_purged(&mut self, states: [bool; 4]) {
        if states[JobState::Ready as usize] {
            self.sharing.rota.clear();
        }
        if states[JobState::Leased as usize] {
            self.sharing.leased.clear();
            self.review();
        }
    }

    /// A job was taken.
    pub fn served(&mut self, priority: u8, group: Kept) {
        let weight = self.weight(group);
        let rota = &mut self.sharing.rota;
        let at = rota.iter().position(|one| (one.priority, one.group) == (priority, group));
        let Some(at) = at else { return };
        rota[at].given += 1;
        if rota[at].given >= weight {
            let one = rota.remove(at);
            rota.push(Waiting { given: 0, ..one });
        }
    }

    /// The next job from a side.
    pub fn next_ready(&self, side: Side) -> Option<Kept> {
        if self.is_shared() {
            return Some(next(&self.sharing.rota, &self.lanes(), side)?.2);
        }
        let next = if side == Side::Left { self.ready.first() } else { self.ready.last() };
        next.map(|entry| entry.2)
    }

    fn lanes(&self) -> BTreeMap<(u8, Kept), Vec<Kept>> {
        let mut lanes: BTreeMap<(u8, Kept), Vec<Kept>> = BTreeMap::new();
        for (priority, _, id) in &self.ready {
            lanes.entry((*priority, self.jobs[id].group)).or_default().push(id);
        }
        lanes
    }

    /// The ready jobs as a list, from the left.
    pub fn listed(&self) -> Vec<Kept> {
        if !self.is_shared() {
            return self.ready.iter().map(|entry| entry.2).collect();
        }
        let (side, mut lanes, mut rota) =
            (self.next_side(), self.lanes(), self.sharing.rota.clone());
        let mut listed = Vec::new();
        while let Some((priority, group, id)) = next(&rota, &lanes, side) {
            listed.push(id);
            let lane = lanes.get_mut(&(priority, group)).expect("it has one");
            lane.retain(|other| *other != id);
            let at = rota.iter().position(|one| (one.priority, one.group) == (priority, group));
            let mut one = rota.remove(at.expect("it waits"));
            one.given += 1;
            if lane.is_empty() {
                continue;
            } else if one.given >= self.weight(group) {
                rota.push(Waiting { given: 0, ..one });
            } else {
                rota.insert(at.expect("it waits"), one);
            }
        }
        if side == Side::Right {
            listed.reverse();
        }
        listed
    }

    /// Groups that have a job, or something set, with their jobs by state.
    fn groups(&self) -> BTreeMap<Kept, [u64; 4]> {
        let mut groups: BTreeMap<Kept, [u64; 4]> = BTreeMap::new();
        self.sharing.set.keys().for_each(|group| _ = groups.entry(group).or_default());
        for job in self.jobs.values().filter(|job| job.group != NONE) {
            groups.entry(job.group).or_default()[job.state as usize] += 1;
        }
        groups
    }

    pub fn group_count(&self) -> u64 {
        self.groups().len() as u64
    }
}

/// The first of the lowest tier of the first priority gives its first job.
fn next(
    rota: &[Waiting],
    lanes: &BTreeMap<(u8, Kept), Vec<Kept>>,
    side: Side,
) -> Option<(u8, Kept, Kept)> {
    let from_left = side == Side::Left;
    let rank = |priority: u8| if from_left { priority } else { 9 - priority };
    let first = rota.iter().min_by_key(|one| (rank(one.priority), one.tier))?;
    let lane = &lanes[&(first.priority, first.group)];
    let id = if from_left { lane.first() } else { lane.last() };
    Some((first.priority, first.group, *id?))
}

impl Check<'_> {
    /// What a request about groups must do and answer.
    pub fn decide_groups(&mut self, of: &Grouping<'static>, client: ClientId) {
        let key = |name: QueueName<'static>| (name.db.0, name.name);
        match *of {
            Grouping::List(ref of) => {
                let groups = self.groups_of(key(of.queue));
                let Some(Said::Groups(rows)) = self.answer_of(client) else { panic!("no groups") };
                self.replied_in_full();
                let seen: Vec<(Kept, [u64; 4])> =
                    rows.iter().map(|row| (keep(&row.name), row.counts)).collect();
                let wanted: Vec<_> = groups.into_iter().take(of.count as usize).collect();
                assert_eq!(seen, wanted, "the groups of {:?}", of.queue);
                self.auditor.note("groups listed");
            }
            Grouping::Stats { queue, group } => {
                let counts = self.groups_of(key(queue)).get(group).copied();
                let said = self.answer_of(client);
                self.replied_in_full();
                match (said, counts) {
                    (Some(Said::GroupStats(view)), Some(counts)) => {
                        assert_eq!(view.row.counts, counts, "counts of {group:?}");
                        let weight = self.auditor.model.queues[&key(queue)].weight(group);
                        assert_eq!(u64::from(view.weight), weight, "the weight of {group:?}");
                    }
                    (Some(Said::NilArray), None) => {}
                    (said, counts) => panic!("{said:?} for {counts:?}"),
                }
            }
            Grouping::Settings { queue, group, .. } => {
                let queue = self.auditor.model.queues.get(&key(queue));
                let weight = queue.map_or(1, |queue| queue.weight(group));
                let set = queue.is_some_and(|queue| queue.sharing.set.contains_key(group));
                let values = vec![(Setting::GroupWeight, weight.to_string(), set)];
                self.reply = Some(Said::Settings(values, true));
            }
            Grouping::Configure { queue, group, changes } => {
                if self.refused_for_memory() {
                    return;
                }
                self.set_group(key(queue), group, changes);
                self.auditor.note("group configured");
            }
            Grouping::Unconfigure { queue, group } => {
                let own = self.auditor.model.queues.get(&key(queue));
                if own.is_some_and(|own| own.sharing.set.contains_key(group)) {
                    self.set_group(key(queue), group, GroupSettings::default());
                }
                self.reply = Some(Said::Ok);
            }
        }
    }

    fn groups_of(&self, key: QueueKey) -> BTreeMap<Kept, [u64; 4]> {
        let queue = self.auditor.model.queues.get(&key);
        queue.map_or_else(BTreeMap::new, ModelQueue::groups)
    }

    fn set_group(&mut self, key: QueueKey, group: Kept, settings: GroupSettings) {
        let own = self.auditor.model.queues.get(&key).map(|queue| &queue.sharing.set);
        let own = own.and_then(|set| set.get(group)).copied().unwrap_or_default();
        if own != settings {
            self.to_group = Some((key, group, settings));
        }
        self.reply = Some(Said::Ok);
    }

    pub fn group_set(&mut self, queue: QueueNo, fact: &Fact<'_>) {
        let Fact::GroupSet { group, settings, .. } = *fact else { unreachable!("called for one") };
        let key = self.model().numbers[&queue.0];
        let group = keep(group);
        assert_eq!(self.to_group.take(), Some((key, group, settings)), "what is set for a group");
        let now = self.now().0;
        let queue = self.model().queue(key);
        if settings.is_empty() {
            queue.sharing.set.remove(group);
        } else {
            queue.sharing.set.insert(group, settings);
        }
        queue.retier(group);
        queue.used = now;
    }
}
