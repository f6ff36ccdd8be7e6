//! Applying facts: the one place that changes durable state, in the live server, in recovery and in
//! a replica. Total: depends on the state and the fact alone. A fact that does not fit the state is
//! our own mistake and stops the process.

use crate::engine::model::fact::{Destination, Fact, FactId, Image};
use crate::engine::model::last_errors::{LastError, LastErrors};
use crate::engine::model::leading::{Leading, Stall};
use crate::engine::model::meta::Meta;
use crate::engine::model::policy::Policy;
use crate::engine::model::queue_settings::QueueSettings;
use crate::engine::model::request::Side;
use crate::engine::model::token;
use crate::engine::store::errors::FailedBy;
use crate::engine::store::jobs::policies::policy_bytes;
use crate::engine::store::jobs::{Content, Departed, Job, JobIndex, JobStage};
use crate::engine::store::memory::Footprint;
use crate::engine::store::ready::side_of;
use crate::engine::store::snapshot::record;
use crate::engine::store::{Located, Store};
use crate::ids::{DATABASES, Db, PolicyNo, QueueNo, Token};
use crate::limits::LEVEL_LAST_ERRORS;
use crate::time::{Micros, Millis};
use crate::wheel::Peek;

/// Levels of the wheel that the cursor enters on its way to a job whose slot was opened, and as many again.
const FALL_STEPS: u32 = 16;

/// More steps of a budget for a job that falls due in a group, which may have to come into its rota: with a million groups
/// in one ms that costs some four times as much a job as without groups.
const GROUP_STEPS: u32 = 6;

/// Results of applying a fact, for the deciding engine.
#[derive(Debug, Default)]
pub struct Applied {
    /// The job that was added, or put back.
    pub index: Option<JobIndex>,
    /// The popped job, in case it must be put back. Boxed: moving it about in every reply to
    /// `apply` made ADD a tenth slower.
    pub gone: Option<Box<Departed>>,
}

/// The result of sweeping a queue's delayed jobs.
#[derive(Debug)]
pub struct Swept {
    /// The fact to record: jobs have become ready.
    pub due: Option<Fact<'static>>,
    /// A job that is due and expires; none is due; or the steps were used up.
    pub next: Peek,
}

impl Store {
    /// Applies a fact of a turn that happened at `now`, for which all is prepared.
    pub fn apply(&mut self, now: Micros, fact: &Fact<'_>) {
        let located = match fact.subject() {
            Some((queue, id)) => self.locate(queue, id),
            None => self.occurrence_of(fact).unwrap_or(Located::NOTHING),
        };
        self.apply_at(now, fact, located);
    }

    /// Applies a fact whose job has been looked up already.
    pub fn apply_at(&mut self, now: Micros, fact: &Fact<'_>, at: Located) -> Applied {
        let mut applied = Applied::default();
        let at_ms = now.floor();
        self.pass_minute(now);
        if self.bases.is_running() {
            self.image_before(fact, at);
        }
        match *fact {
            Fact::QueueBound { queue, db, name } => self.bind_queue(queue, db, name),
            Fact::QueueRemoved { queue } | Fact::QueueForgotten { queue } => {
                self.unbind_queue(queue);
                return applied;
            }
            Fact::PolicyBound { number, ref policy } => {
                self.bind_policy(number, policy.clone());
                return applied;
            }
            Fact::PolicyForgotten { number } => {
                self.forget_policy(number);
                return applied;
            }
            Fact::Flushed { db } => {
                self.flush_all(db);
                return applied;
            }
            Fact::Added { queue, .. } => {
                applied.index = Some(self.add(queue, fact, at, at_ms));
            }
            Fact::SuccessorSet { queue, .. } => self.set_successor(queue, found(at), fact),
            Fact::SuccessorRemoved { queue, .. } => {
                self.replace_successor(queue, found(at), None);
            }
            Fact::Succeeded { queue, id, acked, ready, left } => {
                let enters = (ready, left);
                let next = self.succeed((queue, found(at)), at.hash, id, enters, at_ms);
                applied.index = Some(next);
                self.count_totals(queue, |totals| {
                    *(if acked { &mut totals.acked } else { &mut totals.deleted }) += 1;
                });
            }
            Fact::Due { queue, place, count, left } => {
                let next = self.queue(queue).next_place(side_of(left));
                assert_eq!(place, next, "places follow each other");
                for _ in 0..count {
                    self.fall_due(queue, side_of(left), at_ms);
                }
            }
            Fact::Leased { queue, token, lease_end, bound, on_time, .. } => {
                self.lease(queue, found(at), token, lease_end, bound, now);
                self.note_delivery(queue, found(at), on_time, now);
            }
            Fact::Popped { queue, window_end, on_time, .. } => {
                self.note_delivery(queue, found(at), on_time, now);
                let lane = self.lane_of(queue, found(at));
                let group = lane.group;
                // A group with a pace stays, should this be its last job.
                let paced = self.count_by_rate(queue, group, now);
                let (job, history) = self.end(queue, found(at), window_end, at_ms);
                self.note_served(queue, lane);
                if paced {
                    self.retier(queue, group);
                }
                applied.gone = Some(Box::new(self.jobs.part_with(job, history)));
            }
            Fact::Unleased { queue, .. } => self.unlease(queue, found(at), at_ms),
            Fact::Unpopped { queue, ref image } => {
                applied.index = Some(self.unpop(queue, image, at, at_ms));
            }
            Fact::Acked { queue, window_end, .. } => {
                self.drop_job(queue, found(at), window_end, at_ms);
                self.count_totals(queue, |totals| totals.acked += 1);
            }
            Fact::Nacked { queue, counted, priority, error, to, .. } => {
                self.nack(queue, found(at), counted, priority, error, at_ms);
                self.send_to(queue, found(at), to, at_ms, at_ms);
                // A worker that gives jobs back because it stops has not failed.
                let dies = matches!(to, Destination::Dead { .. });
                if counted || error.is_some() || dies {
                    let told = error.is_some();
                    self.count_error(queue, found(at), FailedBy::Nack { told }, at_ms);
                }
            }
            Fact::Extended { queue, lease_end, .. } => {
                let (queue_ref, _, timers, _) = self.parts(queue);
                queue_ref.leases.cancel(timers, found(at));
                self.arm_lease(queue, found(at), lease_end, at_ms);
            }
            Fact::LeaseOver { queue, lost, counted, to, .. } => {
                // A death is dated when it happened, however late it was noticed.
                let ended = self.timers.due(found(at)).min(at_ms);
                self.end_lease(queue, found(at), lost, counted);
                self.send_to(queue, found(at), to, ended, at_ms);
                if counted {
                    let by = if lost { FailedBy::Lost } else { FailedBy::Timeout };
                    self.count_error(queue, found(at), by, at_ms);
                }
            }
            Fact::Deleted { queue, .. } => {
                let counted = self.jobs.get(found(at)).stage != JobStage::Window;
                self.drop_job(queue, found(at), Millis(0), at_ms);
                self.queue_mut(queue).totals.deleted += u64::from(counted);
            }
            Fact::Expired { queue, window_end, .. } => {
                self.drop_job(queue, found(at), window_end, at_ms);
                self.queue_mut(queue).totals.expired += 1;
            }
            Fact::Dropped { queue, .. } => {
                self.drop_job(queue, found(at), Millis(0), at_ms);
                self.queue_mut(queue).totals.dropped += 1;
            }
            Fact::Rescheduled { queue, ready, left, due, .. } => {
                let enters = ready.then_some(side_of(left));
                self.reschedule(queue, found(at), enters, due, at_ms);
            }
            Fact::Redriven { queue, ready, left, keep_attempts, due, .. } => {
                let has_group = self.jobs.get(found(at)).has_group();
                let (history, _) = self.jobs.history_mut(found(at));
                history.rested = u8::from(has_group);
                history.attempt *= u32::from(keep_attempts);
                history.unanswered = 0;
                let enters = ready.then_some(side_of(left));
                self.reschedule(queue, found(at), enters, due, at_ms);
            }
            Fact::Purged { queue, purge, count } => {
                assert_eq!(self.purge(queue, purge, now), count, "what was counted is purged");
                // There may be room for an occurrence now.
                self.release_schedules(queue);
            }
            Fact::Renamed { queue, name, over } => {
                over.into_iter().for_each(|over| self.unbind_queue(over));
                self.rename_queue(queue, name);
            }
            Fact::WindowOver { queue, .. } => {
                self.drop_job(queue, found(at), Millis(0), at_ms);
            }
            Fact::Configured { queue, ref settings } => {
                let of_groups = |settings: &QueueSettings| {
                    let QueueSettings { group_weight, group_max_leased, .. } = *settings;
                    (group_weight, group_max_leased, settings.group_retry, settings.group_rate)
                };
                let was = self.queue(queue).settings.as_deref().map(of_groups);
                self.change_own(queue, |queue| {
                    queue.settings = (!settings.is_empty()).then(|| settings.clone());
                });
                if was.unwrap_or_default() != of_groups(settings) {
                    self.begin_review(queue, now);
                }
                self.release_schedules(queue);
            }
            Fact::GroupSet { queue, group, settings } => {
                self.set_group(queue, group, settings, now);
            }
            Fact::GroupPaced { queue, group, gave } => self.set_pace(queue, group, gave, now),
            Fact::Paused { queue, pauses } => {
                self.change_own(queue, |queue| queue.pauses = pauses);
                self.release_schedules(queue);
            }
            // The reader of the batch keeps it.
            Fact::At { .. } => return applied,
            Fact::Led { term, node, stall_from, stall_to, level } => {
                let stall = Stall { from: stall_from, to: stall_to }.joined(self.leading.stall);
                self.leading = Leading { term, node, level, stall: Some(stall) };
                return applied;
            }
            Fact::StallOver => {
                self.leading.stall = None;
                return applied;
            }
            Fact::Scheduled { .. }
            | Fact::Unscheduled { .. }
            | Fact::Occurred { .. }
            | Fact::Passed { .. }
            | Fact::GaveWay { .. }
            | Fact::SchedulePaused { .. }
            | Fact::ScheduleMoved { .. }
            | Fact::Ran { .. } => applied.index = self.apply_scheduling(fact, at, at_ms),
        }
        self.note_use(fact, at_ms);
        applied
    }

    fn add(&mut self, queue: QueueNo, fact: &Fact<'_>, at: Located, added: Millis) -> JobIndex {
        let Fact::Added { id, policy, priority, ready, left, due, body, inherited, .. } = *fact
        else {
            unreachable!("called for a new job");
        };
        let written;
        let (made, id, hash) = match id {
            FactId::Given(id) => (false, id, at.hash),
            FactId::Made(number) => {
                self.number = self.number.max(number);
                written = token::written(number);
                (true, &written[..], self.hasher().number(number))
            }
        };
        let (group, meta) = fact.beside();
        let content = self.content(queue, id, group, meta, body);
        let first = inherited.map_or(added, |kept| kept.added);
        let index = self.enter_job(queue, content, (policy, priority, hash), first);
        self.queue_mut(queue).generated_form |= !made && id.len() == token::ID_BYTES;
        if inherited.is_some_and(|kept| kept.place.is_some()) {
            self.take_place(queue, index, found(at), due, added);
            self.queue_mut(queue).totals.deleted += 1;
        } else if ready {
            self.make_ready(queue, index, side_of(left), due, added);
        } else {
            self.delay(queue, index, due, added);
        }
        index
    }

    /// Stores a new job, with a hash of its id; it is in no place yet.
    pub(super) fn enter_job(
        &mut self,
        queue: QueueNo,
        content: Content<'_>,
        (policy, priority, hash): (PolicyNo, u8, u32),
        added: Millis,
    ) -> JobIndex {
        let mut job = self.jobs.make(content, policy);
        (job.priority, job.added, job.hash) = (priority, added, hash);
        let footprint = Footprint::of(&job, None);
        self.note_largest(queue, &job);
        let index = self.put_job(job);
        self.index_job(queue, hash, index);
        self.policies.take(policy);
        self.count_bytes(queue, footprint);
        self.count_totals(queue, |totals| totals.added += 1);
        index
    }

    /// What a new job has; its group is made if it is not there.
    pub(super) fn content<'a>(
        &mut self,
        queue: QueueNo,
        id: &'a [u8],
        group: Option<&'a [u8]>,
        meta: Meta<'a>,
        body: &'a [u8],
    ) -> Content<'a> {
        let group = group.map(|name| (self.join_group(queue, name), name));
        Content { id, group, meta, body }
    }

    pub(super) fn note_largest(&mut self, queue: QueueNo, job: &Job) {
        let queue = self.queue_mut(queue);
        queue.largest = queue.largest.max(job.data_bytes() as u32);
    }

    fn forget_policy(&mut self, number: PolicyNo) {
        let policy = self.policies.forget(number);
        self.policy_image_bytes -= record::policy_bytes(&policy);
        self.bytes -= policy_bytes(&policy);
    }

    /// Binds a number, which may be any that is free.
    pub(super) fn bind_policy(&mut self, number: PolicyNo, policy: Policy) {
        self.policy_image_bytes += record::policy_bytes(&policy);
        self.bytes += policy_bytes(&policy);
        self.policies.bind(number, policy, self.bases.number());
    }

    fn flush_all(&mut self, db: Option<Db>) {
        let all = (0..DATABASES).map(Db);
        all.filter(|one| db.is_none_or(|db| db == *one)).for_each(|db| self.flush(db));
    }

    /// Lets delayed jobs of a queue that are due at `now` become ready, in `steps`, until one is met that expires
    /// instead. `note` is called for each before.
    pub fn sweep_due(
        &mut self,
        now: Micros,
        number: QueueNo,
        steps: &mut u32,
        mut note: impl FnMut(&Store, JobIndex),
    ) -> Swept {
        self.pass_minute(now);
        let (queue, at) = (self.queue(number), now.floor());
        let enters = queue.due_enters();
        let (place, mut count) = (queue.next_place(enters), 0);
        let next = loop {
            let next = self.peek_due(number, JobStage::Delayed, at, steps);
            let Peek::Due(index) = next else { break next };
            if self.expiry(index).is_some_and(|expiry| expiry <= at) {
                break next;
            }
            note(self, index);
            let extra = if self.jobs.get(index).has_group() { GROUP_STEPS } else { 0 };
            *steps = steps.saturating_sub(extra);
            self.fall_due(number, enters, at);
            count += 1;
        };
        if count == 0 {
            return Swept { due: None, next };
        }
        self.queue_mut(number).used = at;
        let left = enters == Side::Left;
        Swept { due: Some(Fact::Due { queue: number, place, count, left }), next }
    }

    /// The first delayed job of the queue becomes ready.
    fn fall_due(&mut self, queue: QueueNo, enters: Side, at: Millis) {
        let (queue_ref, _, timers, _) = self.parts(queue);
        let mut budget = FALL_STEPS;
        // The slot was opened when this was decided, or before it is applied: see `prepare.rs`.
        let Peek::Due(index) = queue_ref.delayed.peek(timers, Millis(u64::MAX), &mut budget) else {
            panic!("a job that falls due is delayed, in a slot that was opened");
        };
        if self.bases.is_running() {
            self.image_queue(queue);
            self.image_job(queue, index);
        }
        let (queue_ref, _, timers, _) = self.parts(queue);
        queue_ref.delayed.take(timers, index);
        queue_ref.version += 1;
        self.count(queue, JobStage::Delayed, index, -1);
        let due = self.timers.due(index);
        self.make_ready(queue, index, enters, due, at);
    }

    fn lease(
        &mut self,
        queue: QueueNo,
        index: JobIndex,
        token: Token,
        end: Millis,
        bound: bool,
        now: Micros,
    ) {
        let (due, lane) = (self.due(index), self.lane_of(queue, index));
        self.detach(queue, index);
        self.note_served(queue, lane);
        self.count_by_rate(queue, lane.group, now);
        let (history, made) = self.jobs.history_mut(index);
        history.due = due;
        history.token = token.0;
        history.begun = now;
        history.attempt += 1;
        history.deliveries += 1;
        history.rested = (history.rested & 1) << 1;
        history.bound = bound;
        if made {
            self.count_bytes(queue, Footprint::of_history());
        }
        self.number = self.number.max(token.0);
        self.jobs.get_mut(index).stage = JobStage::Leased;
        self.ages.begin(now);
        self.arm_lease(queue, index, end, now.floor());
        self.count(queue, JobStage::Leased, index, 1);
    }

    fn note_delivery(&mut self, queue: QueueNo, index: JobIndex, on_time: bool, now: Micros) {
        let late_us = on_time.then(|| now.0.saturating_sub(self.due(index).start().0));
        self.count_totals(queue, |totals| totals.delivered += 1);
        if let Some(late_us) = late_us {
            self.note_lateness_of_all(late_us);
            let queue_ref = self.queue_mut(queue);
            let made = queue_ref.lateness.is_none();
            let first = queue_ref.lateness.get_or_insert_default().record(late_us);
            let grown = record::lateness_growth(made, first);
            self.count_bytes(queue, Footprint::of_lateness(grown));
        }
    }

    fn unlease(&mut self, queue: QueueNo, index: JobIndex, at: Millis) {
        self.detach(queue, index);
        let (history, _) = self.jobs.history_mut(index);
        history.token = 0;
        history.attempt -= 1;
        history.deliveries -= 1;
        history.rested >>= 1;
        history.bound = false;
        let (due, fresh) = (history.due, history.deliveries == 0 && history.errors.is_none());
        let fresh = fresh && history.successor.is_none();
        if fresh {
            self.jobs.forget_history(index);
            self.uncount_bytes(queue, Footprint::of_history());
            self.timers.set_due(index, due);
        }
        self.count_totals(queue, |totals| totals.delivered -= 1);
        self.put_back(queue, index);
        self.arm_expiry(queue, index, at);
    }

    fn unpop(&mut self, queue: QueueNo, image: &Image<'_>, found: Located, at: Millis) -> JobIndex {
        if let Some(window) = found.index {
            self.drop_job(queue, window, Millis(0), at);
        }
        let content = self.content(queue, image.id, image.group, image.meta, image.body);
        let mut job = self.jobs.make(content, image.policy);
        self.note_largest(queue, &job);
        (job.priority, job.added) = (image.priority, image.added);
        (job.order, job.hash) = (image.place, found.hash);
        let index = self.put_job(job);
        self.index_job(queue, found.hash, index);
        self.policies.take(image.policy);
        if let Some([attempt, deliveries, nacks, timeouts, lost, unanswered]) = image.history {
            let (history, _) = self.jobs.history_mut(index);
            let due = image.due;
            (history.due, history.attempt, history.deliveries) = (due, attempt, deliveries);
            (history.nacks, history.timeouts, history.lost) = (nacks, timeouts, lost);
            let error = image.error.map(|text| LastError { text, given: None });
            history.unanswered = unanswered;
            history.errors = error.map(|error| LastErrors::with(None, error));
        } else {
            self.timers.set_due(index, image.due);
        }
        self.count_bytes(queue, Footprint::at(&self.jobs, index));
        self.count_totals(queue, |totals| totals.delivered -= 1);
        self.put_back(queue, index);
        self.arm_expiry(queue, index, at);
        index
    }

    fn nack(
        &mut self,
        queue: QueueNo,
        index: JobIndex,
        counted: bool,
        priority: u8,
        error: Option<&[u8]>,
        at: Millis,
    ) {
        // Nodes that keep the newest alone could not read the others in a base.
        let keeps = self.leading.term == 0 || self.leading.level >= LEVEL_LAST_ERRORS;
        self.detach(queue, index);
        let before = Footprint::at(&self.jobs, index);
        self.jobs.get_mut(index).priority = priority;
        let (history, _) = self.jobs.history_mut(index);
        let attempt = history.attempt;
        history.nacks += 1;
        history.attempt -= u32::from(!counted);
        history.token = 0;
        history.unanswered = 0;
        history.bound = false;
        if let Some(text) = error {
            let given = keeps.then_some((at, attempt));
            let before = history.errors.as_ref().filter(|_| keeps);
            history.errors = Some(LastErrors::with(before, LastError { text, given }));
        }
        let after = Footprint::at(&self.jobs, index);
        self.uncount_bytes(queue, before);
        self.count_bytes(queue, after);
        self.count_totals(queue, |totals| totals.nacked += 1);
    }

    fn end_lease(&mut self, queue: QueueNo, index: JobIndex, lost: bool, counted: bool) {
        self.detach(queue, index);
        let (history, _) = self.jobs.history_mut(index);
        // An uncounted end is not caused by the job or the consumer, so it is not a step of a row.
        history.unanswered += u32::from(counted);
        history.attempt -= u32::from(!counted);
        history.bound = false;
        // The token stays: until the next delivery it still serves for ACK.
        *(if lost { &mut history.lost } else { &mut history.timeouts }) += 1;
        self.count_totals(queue, |totals| {
            *(if lost { &mut totals.lost } else { &mut totals.timeouts }) += 1;
        });
    }

    /// Puts a job without a place where its delivery sends it.
    fn send_to(
        &mut self,
        queue: QueueNo,
        index: JobIndex,
        to: Destination,
        ended: Millis,
        at: Millis,
    ) {
        match to {
            Destination::Ready => self.put_back(queue, index),
            Destination::Delayed { due } => {
                self.jobs.history_mut(index).0.due = due;
                self.delay(queue, index, due, at);
            }
            Destination::Dead { reason, kept_until } => {
                self.die(queue, index, (reason, ended), kept_until, at);
            }
        }
    }

    /// A queue without a job and a window lives on for its totals, from its last use on.
    fn note_use(&mut self, fact: &Fact<'_>, now: Millis) {
        let Some(number) = fact.queue() else { return };
        let queue = self.queue_mut(number);
        queue.used = now;
        queue.version += 1;
        if queue.has_only_totals() {
            self.note_idle(number, now);
        }
    }
}

fn found(at: Located) -> JobIndex {
    at.index.expect("a fact about a job finds it")
}
