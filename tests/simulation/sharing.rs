//! How groups share the front of a queue, as the specification says it: the next job is found by looking at all.

use std::collections::BTreeMap;

use delayd::engine::model::fact::Fact;
use delayd::engine::model::group::{GroupRate, GroupRetry, GroupSettings, GroupState, Grouping};
use delayd::engine::model::queue_settings::{Pause, Setting};
use delayd::engine::model::request::{JobState, QueueName, Side};
use delayd::ids::{ClientId, QueueNo};
use delayd::time::Micros;

use crate::simulation::auditor::Check;
use crate::simulation::model::{ModelJob, ModelQueue, QueueKey};
use crate::simulation::rates::ModelPace;
use crate::simulation::trace::{Kept, Said, keep};

/// The group of jobs without one.
const NONE: Kept = b"";

/// The tier of closed groups.
const CLOSED: u64 = u64::MAX;

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
    pub paces: BTreeMap<Kept, ModelPace>,
    /// Something came in while nobody could tell whether a group had opened by its rate before: whose turn it is among
    /// equals is learnt from who is served.
    pub is_unsure: bool,
}

impl ModelQueue {
    pub fn is_shared(&self) -> bool {
        !self.sharing.rota.is_empty()
    }

    /// Whether a job may have a group, or come with one by itself.
    pub fn may_be_shared(&self) -> bool {
        let schedules = &mut self.schedules.values();
        self.grouped > 0 || schedules.any(|schedule| schedule.definition.group().is_some())
    }

    fn weight(&self, group: Kept) -> u64 {
        let own = self.sharing.set.get(group).and_then(|set| set.weight);
        let weight = own.or(self.policies.settings.group_weight.0).filter(|_| group != NONE);
        weight.unwrap_or(1).into()
    }

    /// Running leases of a group.
    fn leased_of(&self, group: Kept) -> u64 {
        self.sharing.leased.get(group).copied().unwrap_or(0)
    }

    fn group_max_leased(&self, group: Kept) -> u64 {
        let own = self.sharing.set.get(group).and_then(|set| set.max_leased);
        let max = own.or(self.policies.settings.group_max_leased.0).filter(|_| group != NONE);
        max.unwrap_or(0).into()
    }

    fn group_max_jobs(&self, group: Kept) -> u64 {
        let own = self.sharing.set.get(group).and_then(|set| set.max_jobs.0);
        own.or(self.policies.settings.group_max_jobs.0).unwrap_or(0).into()
    }

    /// Whether a group takes no more jobs, though this one gives its place to the new one.
    pub fn is_group_full(&self, group: Kept, gives_way: Option<Kept>) -> bool {
        let counts = |job: &&ModelJob| job.group == group && job.state != JobState::Dead;
        let stay = self.jobs.values().filter(counts).filter(|job| Some(job.id) != gives_way);
        let (jobs, max) = (stay.count() as u64, self.group_max_jobs(group));
        max > 0 && jobs + 1 > max && (gives_way.is_none() || !self.has_in(group, gives_way))
    }

    fn has_in(&self, group: Kept, id: Option<Kept>) -> bool {
        let job = id.and_then(|id| self.jobs.get(id));
        job.is_some_and(|job| job.group == group && job.state != JobState::Dead)
    }

    fn group_retry(&self, group: Kept) -> GroupRetry {
        let own = self.sharing.set.get(group).and_then(|set| set.retry);
        let retry = own.or(self.policies.settings.group_retry.0).filter(|_| group != NONE);
        retry.unwrap_or_default()
    }

    fn begun_of(&self, group: Kept) -> impl Iterator<Item = &ModelJob> {
        self.jobs.values().filter(move |job| job.group == group && job.has_begun())
    }

    /// Whether as many jobs of a group have begun as may be at work, where others wait for them.
    fn begun_only(&self, group: Kept) -> bool {
        let max = self.group_max_leased(group);
        self.group_retry(group) == GroupRetry::Block
            && max > 0
            && self.begun_of(group).count() as u64 >= max
    }

    /// Whether nothing of a group may be taken.
    fn is_shut(&self, group: Kept) -> bool {
        let pause = self.sharing.set.get(group).map_or(Pause::None, |set| set.pause);
        let max = self.group_max_leased(group);
        pause != Pause::None || max > 0 && self.leased_of(group) >= max || self.is_paced(group)
    }

    fn group_state(&self, group: Kept) -> GroupState {
        let pause = self.sharing.set.get(group).map_or(Pause::None, |set| set.pause);
        let ready = |job: &ModelJob| job.state == JobState::Ready;
        let max = self.group_max_leased(group);
        match pause {
            Pause::None if max > 0 && self.leased_of(group) >= max => GroupState::Limit,
            Pause::None if self.begun_only(group) && !self.begun_of(group).any(ready) => {
                GroupState::Retry
            }
            Pause::None if self.is_paced(group) => GroupState::Rate,
            Pause::None => GroupState::Open,
            _ => GroupState::Paused,
        }
    }

    /// Whether a job of a group may be taken.
    pub fn is_open(&self, group: Kept) -> bool {
        self.group_state(group) == GroupState::Open
    }

    /// Whether its group lets this ready job go.
    pub fn may_go(&self, job: &ModelJob) -> bool {
        !self.is_shut(job.group) && (job.has_begun() || !self.begun_only(job.group))
    }

    /// When the next pause of a group ends by itself.
    pub fn next_group_end(&self) -> Option<u64> {
        self.sharing.set.values().filter_map(|set| set.pause.end()).map(|end| end.0).min()
    }

    fn tier(&self, priority: u8, group: Kept) -> u64 {
        let here = |job: &ModelJob| job.state == JobState::Ready && job.priority == priority;
        let waits = self.begun_only(group) && !self.begun_of(group).any(here);
        if self.is_shut(group) || waits {
            return CLOSED;
        }
        self.leased_of(group) / (8 * self.weight(group))
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
                self.begun_moved(job);
            }
            _ => self.begun_moved(job),
        }
    }

    fn begun_moved(&mut self, job: &ModelJob) {
        if job.group != NONE && job.has_begun() {
            self.retier(job.group);
        }
    }

    /// A job has left where it was.
    pub fn left(&mut self, job: &ModelJob) {
        match job.state {
            JobState::Leased => return self.count_lease(job.group, -1),
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
        self.begun_moved(job);
    }

    fn has_ready(&self, priority: u8, group: Kept) -> bool {
        let of = self.ready.range((priority, i64::MIN, NONE)..=(priority, i64::MAX, &[255; 600]));
        of.into_iter().any(|entry| self.jobs[entry.2].group == group)
    }

    fn enter(&mut self, priority: u8, group: Kept) {
        let tier = self.tier(priority, group);
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
        for priority in 0..10 {
            let tier = self.tier(priority, group);
            let rota = &mut self.sharing.rota;
            let moves = |one: &mut Waiting| {
                (one.group, one.priority) == (group, priority) && one.tier != tier
            };
            let moving: Vec<Waiting> = rota.extract_if(.., moves).collect();
            rota.extend(moving.into_iter().map(|one| Waiting { tier, given: 0, ..one }));
        }
    }

    /// Its weight or its limit is another: what it has given may be a whole stint now.
    fn reset(&mut self, group: Kept, now: Micros) {
        self.repace(group, now);
        self.retier(group);
        let weight = self.weight(group);
        let rota = &mut self.sharing.rota;
        let over = |one: &mut Waiting| one.group == group && one.given >= weight;
        let moving: Vec<Waiting> = rota.extract_if(.., over).collect();
        rota.extend(moving.into_iter().map(|one| Waiting { given: 0, ..one }));
    }

    /// The same of all groups, in their order.
    pub fn review(&mut self, now: Micros) {
        let mut rota = self.sharing.rota.clone();
        rota.sort_by_key(|one| (one.priority, one.tier));
        rota.into_iter().for_each(|one| self.reset(one.group, now));
        self.repace_all(now);
    }

    /// All jobs of some states are gone.
    pub fn forget_purged(&mut self, states: [bool; 4], now: Micros) {
        if states[JobState::Ready as usize] {
            self.sharing.rota.clear();
        }
        if states[JobState::Leased as usize] {
            self.sharing.leased.clear();
        }
        if states[..JobState::Dead as usize].contains(&true) {
            self.review(now);
        }
    }

    /// Whose turn it was is forgotten: groups come by the first places of their jobs, with whole stints.
    pub fn begin_turns_anew(&mut self) {
        self.sharing.is_unsure = false;
        self.load_paces();
        let mut order: Vec<(i64, Kept)> =
            self.ready.iter().map(|(_, place, id)| (*place, *id)).collect();
        order.sort_unstable();
        if self.next_side() == Side::Right {
            order.reverse();
        }
        let shared = self.is_shared();
        self.sharing.rota.clear();
        for (_, id) in order.into_iter().filter(|_| shared) {
            let job = &self.jobs[id];
            self.enter(job.priority, job.group);
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

    /// It is this job's turn, if it can be: its group goes before those that are its equals.
    pub fn learn(&mut self, id: Kept) {
        let (priority, group) = (self.jobs[id].priority, self.jobs[id].group);
        let rota = &mut self.sharing.rota;
        let at = rota.iter().position(|one| (one.priority, one.group) == (priority, group));
        if let Some(one) = at.map(|at| rota.remove(at)) {
            rota.insert(0, one);
        }
    }

    /// The next job from a side.
    pub fn next_ready(&self, side: Side) -> Option<Kept> {
        if self.is_shared() {
            let rota = self.sharing.rota.iter().filter(|one| one.tier != CLOSED);
            return Some(next(rota, &self.lanes(side), side)?.2);
        }
        let next = if side == Side::Left { self.ready.first() } else { self.ready.last() };
        next.map(|entry| entry.2)
    }

    fn lanes(&self, from: Side) -> BTreeMap<(u8, Kept), Vec<Kept>> {
        let mut lanes: BTreeMap<(u8, Kept), Vec<Kept>> = BTreeMap::new();
        for (priority, _, id) in &self.ready {
            lanes.entry((*priority, self.jobs[id].group)).or_default().push(id);
        }
        for ((_, group), lane) in &mut lanes {
            if self.group_retry(group) == GroupRetry::Block {
                let left = from == Side::Left;
                lane.sort_by_key(|id| self.jobs[id].has_begun() != left);
            }
        }
        lanes
    }

    /// The ready jobs as a list, from the left.
    pub fn listed(&self) -> Vec<Kept> {
        if !self.is_shared() {
            return self.ready.iter().map(|entry| entry.2).collect();
        }
        let (side, mut lanes) = (self.next_side(), self.lanes(self.next_side()));
        let of = |closed: bool| {
            let rota = self.sharing.rota.iter();
            rota.filter(move |one| (one.tier == CLOSED) == closed).cloned().collect()
        };
        let mut listed = Vec::new();
        // Those that may be taken come first.
        for mut rota in [false, true].map(of) as [Vec<Waiting>; 2] {
            while let Some((priority, group, id)) = next(rota.iter(), &lanes, side) {
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
        let groups = self.groups();
        let paced = self.sharing.paces.keys().filter(|group| !groups.contains_key(*group));
        (groups.len() + paced.count()) as u64
    }

    /// Whether a ready job stands before earlier ones of its group because it has begun.
    pub fn is_ahead(&self, id: Kept) -> bool {
        let job = &self.jobs[id];
        let earlier = |other: &&ModelJob| {
            (other.group, other.priority, other.state) == (job.group, job.priority, job.state)
                && other.place < job.place
                && !other.has_begun()
        };
        let block = self.group_retry(job.group) == GroupRetry::Block;
        block && job.has_begun() && self.jobs.values().any(|other| earlier(&other))
    }

    /// Closed groups with ready jobs.
    pub fn groups_closed(&self) -> u64 {
        let groups = self.groups();
        let held = groups.iter().filter(|(group, counts)| counts[1] > 0 && !self.is_open(group));
        held.count() as u64
    }
}

/// The first of the lowest tier of the first priority gives its first job.
fn next<'r>(
    rota: impl Iterator<Item = &'r Waiting>,
    lanes: &BTreeMap<(u8, Kept), Vec<Kept>>,
    side: Side,
) -> Option<(u8, Kept, Kept)> {
    let from_left = side == Side::Left;
    let rank = |priority: u8| if from_left { priority } else { 9 - priority };
    let first = rota.min_by_key(|one| (rank(one.priority), one.tier))?;
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
                let mut groups = self.groups_of(key(of.queue));
                if of.closed {
                    let queue = self.auditor.model.queues.get(&key(of.queue));
                    let open = |group: Kept| queue.is_none_or(|queue| queue.is_open(group));
                    groups.retain(|group, counts| counts[1] > 0 && !open(group));
                }
                let Some(Said::Groups(rows)) = self.answer_of(client) else { panic!("no groups") };
                self.replied_in_full();
                let seen: Vec<(Kept, [u64; 4])> =
                    rows.iter().map(|row| (keep(&row.name), row.counts)).collect();
                let wanted: Vec<_> = groups.into_iter().take(of.count as usize).collect();
                let queue = self.auditor.model.queues.get(&key(of.queue));
                let opened = queue.is_some_and(|queue| queue.may_have_opened(self.now()));
                assert!(seen == wanted || of.closed && opened, "the groups of {:?}", of.queue);
                self.auditor.note("groups listed");
            }
            Grouping::Stats { queue, group } => {
                let paced = self.auditor.model.queues.get(&key(queue));
                let paced = paced.filter(|queue| queue.sharing.paces.contains_key(group));
                let counts = self.groups_of(key(queue)).get(group).copied();
                let counts = counts.or(paced.map(|_| [0; 4]));
                let said = self.answer_of(client);
                self.replied_in_full();
                match (said, counts) {
                    (Some(Said::GroupStats(view)), Some(counts)) => {
                        assert_eq!(view.row.counts, counts, "counts of {group:?}");
                        let queue = &self.auditor.model.queues[&key(queue)];
                        let said = [view.weight, view.max_leased, view.max_jobs].map(u64::from);
                        let max_jobs = queue.group_max_jobs(group);
                        let set = [queue.weight(group), queue.group_max_leased(group), max_jobs];
                        assert_eq!(said, set, "the settings of {group:?}");
                        let opened = queue.may_have_opened(self.now());
                        let right = view.row.state == queue.group_state(group);
                        assert!(right || opened, "{:?} of {group:?}", view.row.state);
                        let own = queue.sharing.set.get(group).copied().unwrap_or_default();
                        let opens = match own.pause {
                            Pause::Endless => None,
                            pause => pause.end().max(queue.rate_opens(group)),
                        };
                        assert!(view.opens == opens || opened, "when {group:?} opens");
                        assert_eq!(view.rate, queue.group_rate(group), "of {group:?}");
                        let delayed = |job: &&ModelJob| job.state == JobState::Delayed;
                        let waiting = queue.begun_of(group).filter(delayed).count() as u64;
                        assert_eq!(view.waiting_retries, waiting, "retries of {group:?}");
                        assert_eq!(view.retry, queue.group_retry(group), "of {group:?}");
                    }
                    (Some(Said::NilArray), None) => {}
                    (said, counts) => panic!("{said:?} for {counts:?}"),
                }
            }
            Grouping::Settings { queue, group, .. } => {
                let queue = self.auditor.model.queues.get(&key(queue));
                let weight = queue.map_or(1, |queue| queue.weight(group)).to_string();
                let max = queue.map_or(0, |queue| queue.group_max_leased(group)).to_string();
                let retry = queue.map_or(GroupRetry::Pass, |queue| queue.group_retry(group));
                let rate = queue.map_or(GroupRate::NONE, |queue| queue.group_rate(group));
                let jobs = queue.map_or(0, |queue| queue.group_max_jobs(group)).to_string();
                let own = queue.and_then(|queue| queue.sharing.set.get(group)).copied();
                let own = own.unwrap_or_default();
                let values = vec![
                    (Setting::GroupWeight, weight, own.weight.is_some()),
                    (Setting::GroupMaxLeased, max, own.max_leased.is_some()),
                    (Setting::GroupRetry, retry.word().to_string(), own.retry.is_some()),
                    (Setting::GroupRate, rate.to_string(), own.rate.0.is_some()),
                    (Setting::GroupMaxJobs, jobs, own.max_jobs.0.is_some()),
                ];
                self.reply = Some(Said::Settings(values, true));
            }
            Grouping::Configure { queue, group, changes } => {
                if self.refused_for_memory() {
                    return;
                }
                self.set_group(key(queue), group, |own| own.merged(changes));
                self.auditor.note("group configured");
            }
            Grouping::Pause { queue, group, for_ms } => {
                let Some(pause) = self.pause_for(for_ms) else { return };
                self.set_group(key(queue), group, |own| GroupSettings { pause, ..own });
                self.auditor.note("group paused");
            }
            Grouping::Purge { .. } => self.begin_redrive(client),
            Grouping::Resume { queue, group } => {
                let pause = Pause::None;
                self.set_group(key(queue), group, |own| GroupSettings { pause, ..own });
            }
            Grouping::Unconfigure { queue, group } => {
                self.set_group(key(queue), group, |own| GroupSettings::paused(own.pause));
            }
        }
    }

    fn groups_of(&self, key: QueueKey) -> BTreeMap<Kept, [u64; 4]> {
        let queue = self.auditor.model.queues.get(&key);
        queue.map_or_else(BTreeMap::new, ModelQueue::groups)
    }

    fn own_of(&self, key: QueueKey, group: Kept) -> GroupSettings {
        let own = self.auditor.model.queues.get(&key).map(|queue| &queue.sharing.set);
        own.and_then(|set| set.get(group)).copied().unwrap_or_default()
    }

    fn set_group(
        &mut self,
        key: QueueKey,
        group: Kept,
        change: impl FnOnce(GroupSettings) -> GroupSettings,
    ) {
        let own = self.own_of(key, group);
        let settings = change(own);
        if own != settings {
            self.to_group = Some((key, group, settings));
        }
        self.reply = Some(Said::Ok);
    }

    /// Something was set for a group, or its pause ended by itself.
    pub fn group_set(&mut self, queue: QueueNo, fact: &Fact<'_>) {
        let Fact::GroupSet { group, settings, .. } = *fact else { unreachable!("called for one") };
        let key = self.model().numbers[&queue.0];
        let group = keep(group);
        let (now, us, own) = (self.now().0, self.step.now.0, self.own_of(key, group));
        let over = own.pause.end().is_some_and(|end| end.0 <= now);
        if over && settings == (GroupSettings { pause: Pause::None, ..own }) {
            self.work += 1;
            self.auditor.note("group's pause over");
        } else {
            self.open_paced(key);
            self.decide_once();
            let wanted = self.to_group.take();
            assert_eq!(wanted, Some((key, group, settings)), "what is set for a group");
        }
        let queue = self.model().queue(key);
        if settings.is_empty() {
            queue.sharing.set.remove(group);
        } else {
            queue.sharing.set.insert(group, settings);
        }
        queue.reset(group, Micros(us));
        queue.used = now;
    }
}
