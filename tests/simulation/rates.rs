//! The rates of groups: when one is closed by them, opens, and is forgotten.

use delayd::engine::journal_room::{Bound, SIZES};
use delayd::engine::model::fact::Fact;
use delayd::engine::model::group::GroupRate;
use delayd::ids::QueueNo;
use delayd::time::{Micros, Millis};

use crate::simulation::auditor::{Check, Input};
use crate::simulation::model::{ModelQueue, QueueKey};
use crate::simulation::trace::{Kept, keep};

/// How early a delivery may come, ns.
const EARLY_NS: u64 = 5_000_000;

/// What the rate of a group has counted.
#[derive(Clone, Default, Debug)]
pub struct ModelPace {
    /// By the rate, when the group gave last, ns.
    gave: u64,
    /// When it really did.
    last_us: u64,
    pub closed: bool,
    /// All deliveries under the rate that holds, µs.
    given: Vec<u64>,
}

fn step_ns(rate: GroupRate) -> u64 {
    (u64::from(rate.span_ms) * 1_000_000 + EARLY_NS).div_ceil(rate.count.into())
}

impl ModelQueue {
    pub fn group_rate(&self, group: Kept) -> GroupRate {
        let own = self.sharing.set.get(group).and_then(|set| set.rate.0);
        let rate = own.or(self.policies.settings.group_rate.0).filter(|_| !group.is_empty());
        rate.unwrap_or(GroupRate::NONE)
    }

    fn allowed_us(&self, group: Kept) -> u64 {
        match self.group_rate(group) {
            GroupRate::NONE => 0,
            rate => (self.sharing.paces[group].gave + step_ns(rate) - EARLY_NS).div_ceil(1_000),
        }
    }

    fn opens_at(&self, group: Kept) -> Millis {
        Micros(self.allowed_us(group)).ceil()
    }

    /// Whether its rate lets no job of a group go.
    pub fn is_paced(&self, group: Kept) -> bool {
        self.sharing.paces.get(group).is_some_and(|pace| pace.closed)
    }

    /// When its rate opens a group that it closes.
    pub fn rate_opens(&self, group: Kept) -> Option<Millis> {
        self.is_paced(group).then(|| self.opens_at(group))
    }

    /// A job of a group was delivered; whether a rate counts it.
    pub fn paced(&mut self, group: Kept, now: Micros) -> bool {
        let rate = self.group_rate(group);
        if rate == GroupRate::NONE {
            return false;
        }
        let (now_ns, step) = (now.0 * 1_000, step_ns(rate));
        let pace = self.sharing.paces.entry(group).or_default();
        assert!(!pace.closed, "{group:?} gives before its rate lets it");
        let next = if pace.gave == 0 { 0 } else { pace.gave + step };
        (pace.gave, pace.last_us) = (next.max(now_ns), now.0);
        pace.given.push(now.0);
        let span_us = u64::from(rate.span_ms) * 1_000;
        pace.given.retain(|at| at + span_us > now.0);
        let (within, most) = (pace.given.len(), rate.count as usize);
        assert!(within <= most, "{within} of {group:?} within {span_us} us, {most} allowed");
        self.close_paced(group, now);
        self.retier(group);
        true
    }

    fn close_paced(&mut self, group: Kept, now: Micros) {
        let closed = self.allowed_us(group) > now.0;
        self.sharing.paces.get_mut(group).expect("it has one").closed = closed;
    }

    /// The rate of a group may be another.
    pub fn repace(&mut self, group: Kept, now: Micros) {
        if let Some(pace) = self.sharing.paces.get_mut(group) {
            pace.last_us = 0;
            pace.given.clear();
            self.close_paced(group, now);
        }
    }

    pub fn repace_all(&mut self, now: Micros) {
        let groups: Vec<Kept> = self.sharing.paces.keys().copied().collect();
        groups.into_iter().for_each(|group| self.repace(group, now));
    }

    /// Groups whose rates let the next job go come in, those of the same ms by name.
    pub fn open_paced(&mut self, now: Millis) -> usize {
        let closed = self.sharing.paces.iter().filter(|(_, pace)| pace.closed);
        let timed = closed.map(|(group, _)| (self.opens_at(group), *group));
        let mut due: Vec<(Millis, Kept)> = timed.filter(|(at, _)| *at <= now).collect();
        due.sort_unstable();
        for (_, group) in &due {
            self.sharing.paces.get_mut(group).expect("it has one").closed = false;
            self.retier(group);
        }
        due.len()
    }

    /// Groups that were taken for opened by now were not, but for that of this job.
    pub fn shut_paced(&mut self, now: Millis, but: Kept) {
        let group = self.jobs[but].group;
        let paced =
            self.sharing.paces.iter().filter(|(name, pace)| **name != group && !pace.closed);
        let opened = paced.map(|(name, _)| *name).filter(|name| self.opens_at(name) <= now);
        for name in opened.collect::<Vec<Kept>>() {
            self.sharing.paces.get_mut(name).expect("it has one").closed = true;
            self.retier(name);
        }
    }

    /// Whether a group could be open by now that is taken for closed.
    pub fn may_have_opened(&self, now: Millis) -> bool {
        let closed = self.sharing.paces.iter().filter(|(_, pace)| pace.closed);
        closed.into_iter().any(|(group, _)| self.opens_at(group) <= now)
    }

    /// Whether nothing but what its rate has counted is left of a group.
    fn is_only_paced(&self, group: Kept) -> bool {
        !self.sharing.set.contains_key(group) && self.jobs.values().all(|job| job.group != group)
    }

    /// When to look at a group because of its rate.
    pub fn next_paced(&self) -> Option<u64> {
        // Those whose jobs were purged are looked at when these are freed.
        let waits = |group: Kept| self.purged == 0 && self.is_only_paced(group);
        let paces = self.sharing.paces.iter();
        let due = paces.filter(|(group, pace)| pace.closed || waits(group));
        due.map(|(group, _)| self.opens_at(group).0).min()
    }

    /// As an engine loads it: what was past when the queue was used last is open.
    pub fn load_paces(&mut self) {
        let used = Millis(self.used).start();
        self.repace_all(used);
    }

    /// When the group gave by its rate if this delivery never left; none if that changes nothing.
    pub fn given_back(&self, group: Kept, at: Micros) -> Option<u64> {
        let (pace, rate) = (self.sharing.paces.get(group)?, self.group_rate(group));
        let counted = rate != GroupRate::NONE && pace.last_us == at.0;
        counted.then(|| pace.gave.saturating_sub(step_ns(rate)).max(1))
    }
}

impl Check<'_> {
    /// Before anything else happens in a queue groups open whose time has come. In a transaction it does not, and where
    /// room is short nobody knows.
    pub fn open_paced(&mut self, key: QueueKey) {
        if self.in_transaction() || self.time_passes() != Some(true) {
            return self.note_unsure(key);
        }
        let now = self.now();
        if let Some(queue) = self.auditor.model.queues.get_mut(&key) {
            let opened = queue.open_paced(now);
            (0..opened).for_each(|_| self.auditor.note("opened by its rate"));
        }
    }

    /// Something comes in, and groups may have opened before.
    pub fn note_unsure(&mut self, key: QueueKey) {
        let (now, never) = (self.now(), self.time_passes() == Some(false));
        if let Some(queue) = self.auditor.model.queues.get_mut(&key).filter(|_| !never) {
            queue.sharing.is_unsure |= queue.may_have_opened(now);
        }
    }

    /// Whether there was room for time to pass; none if that depends on what came before in the step.
    pub fn time_passes(&self) -> Option<bool> {
        let promised = match self.step.input {
            Input::Request { request, .. } => Bound::of(request).unwrap_or_default().bytes(),
            _ => 0,
        };
        let left = self.room_before.0;
        match left {
            _ if left < SIZES.advancing => Some(false),
            _ if left - SIZES.advancing >= promised.saturating_add(4_096) => Some(true),
            _ => None,
        }
    }

    /// What is looked at when all time that passed is done with, or by a request.
    pub fn open_all_paced(&mut self) {
        let keys: Vec<QueueKey> = self.auditor.model.queues.keys().copied().collect();
        keys.into_iter().for_each(|key| self.open_paced(key));
    }

    /// A delivery never left, or a group is forgotten.
    pub fn group_paced(&mut self, queue: QueueNo, group: &[u8], gave: u64) {
        let (key, group) = (self.model().numbers[&queue.0], keep(group));
        let now = self.step.now;
        if gave > 0 {
            let fact = Fact::GroupPaced { queue, group, gave };
            assert_eq!(self.expected.pop_front(), Some(fact), "what never left");
            let queue = self.model().queue(key);
            let pace = queue.sharing.paces.get_mut(group).expect("a rate has counted it");
            let (last_us, step) = (pace.last_us, pace.gave - gave);
            pace.gave = gave;
            let at = pace.given.iter().rposition(|at| *at == last_us);
            at.into_iter().for_each(|at| _ = pace.given.remove(at));
            assert!(step > 0, "{group:?} is given something back");
            queue.close_paced(group, now);
            queue.retier(group);
            queue.used = now.floor().0;
            return self.auditor.note("given back to a group's rate");
        }
        self.work += 1;
        let queue = self.model().queue(key);
        assert!(queue.is_only_paced(group), "{group:?} is forgotten, and is there");
        let opens = queue.opens_at(group);
        assert!(opens <= now.floor(), "{group:?} is forgotten before {opens:?}");
        queue.sharing.paces.remove(group).expect("a rate had counted");
        queue.used = now.floor().0;
        self.auditor.note("forgotten by its rate");
    }
}
