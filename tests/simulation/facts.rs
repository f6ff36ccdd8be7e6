//! Each fact: whether it is allowed, and the model after it.

use delayd::engine::model::fact::{Destination, Fact, FactId, Inherited};
use delayd::engine::model::group::Grouping;
use delayd::engine::model::reply::Reason;
use delayd::engine::model::request::{JobState, Request, When};
use delayd::engine::model::token;
use delayd::ids::QueueNo;
use delayd::limits::TOTALS_SHARE;
use delayd::time::Millis;

use crate::simulation::auditor::{Check, Input};
use crate::simulation::model::{ModelJob, QueueKey};
use crate::simulation::trace::{Job, Kept, Said, keep};

impl Check<'_> {
    fn key(&mut self, queue: QueueNo) -> QueueKey {
        let key = self.model().numbers.get(&queue.0);
        *key.unwrap_or_else(|| panic!("a fact names queue number {queue}, which is not bound"))
    }

    /// Whether totals may go before their time: there was hardly any memory, or they took more than their share of it.
    fn totals_may_go(&mut self) -> bool {
        let max = self.step.settings.memory_bytes_max;
        let used = self.memory_wanted().max(self.step.memory_before);
        // What a queue takes is the engine's business, but it is less than this.
        let totals = self.model().queues.values().filter(|queue| !queue.exists()).count() as u64;
        max > 0 && (used + 8_192 > max || totals * 2_048 > max / TOTALS_SHARE)
    }

    pub fn fact(&mut self, fact: &Fact<'_>) {
        let now = self.now();
        if !matches!(fact, Fact::Leased { .. } | Fact::Popped { .. } | Fact::Expired { .. }) {
            self.end_group();
        }
        // What comes before groups open in a sweep, or without one.
        let before = self.entering.is_some()
            || matches!(
                fact,
                Fact::Paused { .. }
                    | Fact::GroupSet { .. }
                    | Fact::LeaseOver { lost: true, .. }
                    | Fact::Unleased { .. }
                    | Fact::Unpopped { .. }
                    | Fact::GroupPaced { .. }
            )
            || matches!(self.succeeding, Some((.., true)));
        let key = fact.queue().and_then(|queue| self.model().numbers.get(&queue.0).copied());
        match key {
            Some(key) if !before => self.open_paced(key),
            Some(key) if !matches!(fact, Fact::Paused { .. } | Fact::GroupSet { .. }) => {
                self.note_unsure(key);
            }
            _ => {}
        }
        if self.extended_by_stall(fact) {
            return;
        }
        if !matches!(fact, Fact::GroupPaced { .. })
            && let Some((key, id, _)) = self.succeeding.take()
        {
            let wanted = self.told_next(key, id, false);
            assert_eq!(*fact, wanted, "what follows {id:?} (right)");
            return self.succeed(key, id, &wanted);
        }
        if fact.schedule().is_some() {
            return self.schedule_fact(fact);
        }
        match *fact {
            Fact::Due { queue, place, count, left } => {
                let key = self.key(queue);
                self.work += u64::from(count);
                for at in 0..i64::from(count) {
                    let queue = self.model().queue(key);
                    assert_eq!(left, queue.due_left(), "where they enter");
                    let given = queue.give_place(left);
                    assert_eq!(given, if left { place - at } else { place + at }, "its place");
                    let first = self.model().queue(key).delayed.first().copied();
                    let (due, _, id) = first.expect("a job that falls due was delayed");
                    assert!(due <= now.0, "{id:?} falls due early: {due} at {now:?}");
                    let own = due == now.0 || !self.in_transaction();
                    assert!(own, "time passed in a transaction: {id:?} was due at {due}");
                    let step = self.auditor.steps;
                    self.model().queue(key).change(id, |job| {
                        job.state = JobState::Ready;
                        (job.place, job.ready_step) = (given, step);
                    });
                }
                self.model().queue(key).used = now.0;
                self.auditor.note("due");
            }
            Fact::LeaseOver { queue, id, lost, counted, to } => {
                assert!(counted, "the server does not shut down");
                let (key, id) = (self.key(queue), keep(id));
                self.work += u64::from(!lost);
                self.lease_over(key, id, lost, to);
            }
            Fact::Expired { queue, id, window_end } => {
                let (key, id) = (self.key(queue), keep(id));
                (self.expired, self.work) = (self.expired + 1, self.work + 1);
                let unique_end = self.end_job(key, id, |job| {
                    assert!(
                        matches!(job.state, JobState::Ready | JobState::Delayed),
                        "{job:?} expires"
                    );
                    assert!(job.expired(now), "{job:?} expires early");
                });
                assert_eq!(window_end.0, unique_end, "the window of an expired job");
                let queue = self.model().queue(key);
                queue.open_window(id, window_end);
                queue.totals.expired += 1;
                queue.used = now.0;
                self.auditor.note("expired");
            }
            Fact::Dropped { queue, id } => {
                let (key, id) = (self.key(queue), keep(id));
                let lowered = self.dead_max_asked(key);
                let queue = self.model().queue(key);
                let max = queue.policies.dead_max().min(lowered.unwrap_or(u64::MAX));
                let crowded = queue.dead.len() as u64 > max
                    && queue.dead.first().is_some_and(|dead| dead.1 == id);
                let job = queue.take(id).expect("a dropped job was there");
                assert!(job.state == JobState::Dead, "{job:?} is dropped");
                assert!(crowded || job.kept_until <= now.0, "{job:?} is dropped early");
                // One too many leaves in the step of the death that made it one.
                self.work += u64::from(!crowded);
                let queue = self.model().queue(key);
                queue.totals.dropped += 1;
                queue.used = now.0;
                self.auditor.note("dropped");
            }
            Fact::WindowOver { queue, id } => {
                let (key, id) = (self.key(queue), keep(id));
                self.work += 1;
                let queue = self.model().queue(key);
                let end = queue.close_window(id).expect("a window that is over was open");
                assert!(end <= now.0, "window over early: {end} at {now:?}");
                queue.used = now.0;
                self.auditor.note("window over");
            }
            Fact::QueueForgotten { queue } => {
                let key = self.key(queue);
                // The last of all that passing time does.
                self.end_group();
                self.time_out_before(self.step.replies.len());
                let retention_ms = self.step.settings.stats_retention_ms;
                let queue = self.model().queue(key);
                assert!(!queue.exists() && queue.windows.is_empty(), "{key:?} is in use");
                let old = queue.used.saturating_add(retention_ms) <= now.0;
                assert!(old || self.totals_may_go(), "{key:?} is forgotten early");
                assert!(!self.model().lines.contains_key(&key), "{key:?} has waiters");
                self.model().unbind(key);
                self.auditor.note("forgotten");
            }
            Fact::PolicyBound { number, ref policy } => {
                let before = self.model().policies.insert(number.0, policy.clone());
                assert_eq!(before, None, "policy {number} is bound twice");
            }
            Fact::PolicyForgotten { number } => {
                let policy = self.model().policies.remove(&number.0).expect("it was bound");
                let mut jobs = self.model().queues.values().flat_map(|queue| queue.jobs.values());
                let uses = |job: &ModelJob| job.policy == policy;
                assert!(
                    !jobs.any(|job| uses(job) || job.next.as_deref().is_some_and(uses)),
                    "a job uses policy {number}"
                );
            }
            Fact::Leased { queue, id, token, lease_end, bound, on_time } => {
                let (key, id) = (self.key(queue), keep(id));
                let to = self.taker_of(|job| job.token == Some(token));
                let job = self.hand_over(key, id, to, Some((token, lease_end, bound)), on_time);
                self.took(to, key, job);
            }
            Fact::Popped { queue, id, window_end, on_time } => {
                let (key, id) = (self.key(queue), keep(id));
                let unique_ms = self.model().job(key, id).map_or(0, |job| job.policy.unique_ms);
                let end = if unique_ms > 0 { self.ceil() + unique_ms } else { 0 };
                assert_eq!(window_end.0, end, "the window of a popped job");
                let is = |job: &Job| job.token.is_none() && job.queue == key && job.id == id;
                let (taker, mover) = (self.find_taker(is), self.mover_of(key));
                // A reply to a move names no id, and in one step the id of the job that left can be that of a new one
                // for somebody else: replies come in the order of hand-offs.
                if let Some(to) = mover.filter(|to| taker.is_none_or(|taker| *to < taker)) {
                    return self.move_out(key, id, to, window_end, on_time);
                }
                let to = taker.expect("what is taken is told of");
                let job = self.hand_over(key, id, to, None, on_time);
                self.model().queue(key).open_window(id, window_end);
                self.took(to, key, job);
            }
            Fact::Paused { .. } => self.paused(fact),
            Fact::GroupSet { queue, .. } => self.group_set(queue, fact),
            Fact::GroupPaced { queue, group, gave } => self.group_paced(queue, group, gave),
            Fact::StallOver => self.stall_over(),
            Fact::QueueBound { queue, db, name }
                if self.entering.as_ref().is_some_and(|entering| entering.key.1 == name) =>
            {
                let key = (db.0, keep(name));
                assert_eq!(self.entering.as_ref().map(|entering| entering.key), Some(key));
                self.model().bind(queue.0, key);
                self.model().queue(key).used = now.0;
            }
            Fact::Added { .. } if self.entering.is_some() => self.enter(fact),
            _ => self.request_fact(fact),
        }
    }

    fn purges_group(&self) -> bool {
        let Input::Request { request, .. } = self.step.input else { return false };
        matches!(request, Request::Groups(Grouping::Purge { .. }))
    }

    /// A fact that only a request (or a lost reply) can make.
    fn request_fact(&mut self, fact: &Fact<'_>) {
        self.decide_once();
        if self.entering.is_some() {
            return self.fact(fact);
        }
        match *fact {
            Fact::QueueBound { queue, db, name } => {
                let key = (db.0, keep(name));
                let to_add = self.to_add.map(|add| (add.queue.db.0, add.queue.name));
                let to_set = self.to_set.as_ref().map(|(key, _)| *key);
                let to_schedule = self.to_schedule.as_ref().map(|(key, _)| *key);
                let to_pause = self.to_pause.map(|(key, _)| key);
                let to_group = self.to_group.map(|(key, ..)| key);
                let wanted = to_add.or(to_set).or(to_pause).or(to_schedule).or(to_group);
                assert_eq!(wanted, Some(key), "only what is to be there binds its queue");
                self.model().bind(queue.0, key);
                let now = self.now().0;
                self.model().queue(key).used = now;
            }
            Fact::Added { .. } => self.added(fact),
            Fact::SuccessorSet { queue, .. } => {
                let key = self.key(queue);
                self.successor_set(key, fact);
            }
            Fact::Configured { queue, ref settings } => self.configured(queue, settings),
            Fact::Unpopped { queue, image } => {
                let key = self.key(queue);
                self.expect_back();
                let mut expected = self.expected.pop_front();
                if let Some(Fact::Unpopped { image: wanted, .. }) = &mut expected {
                    (wanted.policy, wanted.place) = (image.policy, image.place);
                }
                assert_eq!(expected.as_ref(), Some(fact), "what goes back");
                let job = self.returning.pop_front().expect("one for each fact");
                assert_eq!(self.model().policies[&image.policy.0], job.policy, "its policy");
                let serial = self.model().serial();
                let now = self.now().0;
                let queue = self.model().queue(key);
                queue.close_window(job.id);
                queue.policies.take_back(job.id);
                queue.totals.delivered -= 1;
                queue.used = now;
                // A delivery that never left voids older tokens all the same.
                queue.put(ModelJob { birth: serial, token: None, deliveries_before: 0, ..job });
                self.auditor.note("unpopped");
            }
            Fact::Redriven { .. } => self.redriven(fact),
            Fact::Deleted { queue, id } if self.purges_group() => {
                self.purged_of_group(queue, keep(id));
            }
            Fact::Unleased { queue, id } => {
                let (key, id) = (self.key(queue), keep(id));
                self.expect_back();
                assert_eq!(self.expected.pop_front().as_ref(), Some(fact), "what goes back");
                let now = self.now().0;
                let queue = self.model().queue(key);
                queue.change(id, |job| {
                    job.state = JobState::Ready;
                    job.attempt -= 1;
                    job.deliveries -= 1;
                    (job.token, job.bound_to) = (None, None);
                });
                queue.policies.take_back(id);
                queue.totals.delivered -= 1;
                queue.used = now;
                self.note_delivery_over(key, id, true);
                self.auditor.note("unleased");
            }
            _ => {
                let expected = self.expected.pop_front();
                assert_eq!(expected.as_ref(), Some(fact), "expected by the model (left)");
            }
        }
    }

    fn added(&mut self, fact: &Fact<'_>) {
        let Fact::Added {
            queue,
            id,
            policy,
            priority,
            absolute,
            ready,
            left,
            due,
            body,
            inherited,
            group,
            meta,
        } = *fact
        else {
            unreachable!("called for a new job");
        };
        let (key, now, add) = (self.key(queue), self.now(), self.to_add.take());
        let add = add.expect("only an ADD that succeeds adds, and once");
        assert_eq!(key, (add.queue.db.0, add.queue.name));
        let id = match id {
            FactId::Given(id) => keep(id),
            FactId::Made(number) => {
                assert!(number > self.model().newest_token, "numbers only grow");
                self.model().newest_token = number;
                keep(&token::written(number))
            }
        };
        assert!(add.id.is_none_or(|wanted| wanted == id), "the id asked for");
        let wanted = self.check_terms(key, add, policy, priority);
        assert_eq!((body, group, meta), (add.body, add.group, add.meta.get()));
        let (wanted_due, kept) = (self.due_of_add(add), self.place_kept(add));
        // A TTL begins with the job that has it.
        let kept_due = kept.map(|(_, due)| due).filter(|_| wanted.ttl_ms == 0);
        let wanted_due = kept_due.unwrap_or(wanted_due.max(now.0));
        assert_eq!(due.0, wanted_due, "the due time of {:?} at {now:?}", add.when);
        let kept = kept.map(|(place, _)| place);
        assert_eq!(absolute, matches!(add.when, When::At(_)));
        let since = self.since.map(|added| Inherited { added: Millis(added), place: kept });
        assert_eq!(inherited, since, "what it inherits");
        if kept.is_none() {
            self.place_new(key, ready, due);
        } else {
            self.auditor.note("kept the place of one");
        }
        let (serial, step) = (self.model().serial(), self.auditor.steps);
        let queue = self.model().queue(key);
        queue.totals.added += 1;
        queue.used = now.0;
        let new = kept.is_none() && ready;
        assert_eq!(
            (ready, left),
            (ready || kept.is_some(), new && queue.due_left()),
            "where it enters"
        );
        let place = if new { queue.give_place(left) } else { kept.unwrap_or(0) };
        let state = if ready { JobState::Ready } else { JobState::Delayed };
        let first = self.since.inspect(|_| self.auditor.note("added in place of one"));
        let job = ModelJob::new(id, add.body, serial, now.0, wanted);
        let queue = self.model().queue(key);
        let (group, meta) = (keep(group.unwrap_or_default()), keep(meta.block()));
        let job = ModelJob {
            group,
            meta,
            state,
            due: due.0,
            added: first.unwrap_or(now.0),
            priority,
            place,
            ready_step: step,
            ..job
        };
        if kept.is_some() {
            queue.replace(job);
        } else {
            queue.put(job);
        }
        if !meta.is_empty() {
            self.auditor.note("added with META");
        }
        if !group.is_empty() {
            self.auditor.note("added to a group");
        }
        self.reply = Some(Said::Id(id));
        self.auditor.note("added");
    }

    fn lease_over(&mut self, key: QueueKey, id: Kept, lost: bool, to: Destination) {
        let (now, ceil) = (self.now(), self.ceil());
        let job = self.model().job(key, id).expect("a lease that is over had a job").clone();
        assert_eq!(job.state, JobState::Leased, "a lease that is over was running");
        if lost {
            let holder = job.bound_to.expect("only a bound lease is lost");
            let former = self.model().former.contains(&holder) && !self.auditor.led.lasts(now);
            let gone = former || self.model().closed.contains(&holder);
            assert!(gone, "{job:?} is lost, {holder} is not");
        } else {
            assert!(job.lease_end <= now.0, "{job:?} ends early");
            let (journal, led) = (&self.auditor.journal, &self.auditor.led);
            let stalled = journal.stalled(job.lease_end) || led.covers(job.lease_end);
            assert!(!stalled, "{job:?} ends though nobody could answer");
        }
        let reason = if lost { Reason::Lost } else { Reason::Timeout };
        // However late that is noticed.
        let ended = job.lease_end.min(ceil);
        let wanted = if job.next.is_some() {
            Destination::Ready
        } else if job.used_up() {
            self.dead(key, reason, ended)
        } else if job.unanswered == 0 {
            Destination::Ready
        } else {
            let wait_ms = job.policy.backoff.wait_ms(id, job.attempt);
            Destination::Delayed { due: Millis((ended + wait_ms).max(now.0)) }
        };
        assert_eq!(to, wanted, "where {job:?} goes");
        self.settle(key, id, to, ended.min(now.0), |job| {
            job.unanswered += 1;
            job.bound_to = None;
            if lost {
                job.lost += 1;
            } else {
                job.timeouts += 1;
            }
        });
        let queue = self.model().queue(key);
        if lost {
            queue.totals.lost += 1;
        } else {
            queue.totals.timeouts += 1;
        }
        self.note_delivery_over(key, id, lost);
        self.auditor.note(if lost { "lost" } else { "timeout" });
    }

    pub fn dead(&mut self, key: QueueKey, reason: Reason, ended: u64) -> Destination {
        let kept_ms = self.model().queue(key).policies.kept_ms();
        let kept_until = Millis(ended + kept_ms);
        Destination::Dead { reason, kept_until }
    }

    /// Sends a leased job where its delivery, which ended at `died`, sends it.
    pub fn settle(
        &mut self,
        key: QueueKey,
        id: Kept,
        to: Destination,
        died: u64,
        change: impl FnOnce(&mut ModelJob),
    ) {
        let (serial, now) = (self.model().serial(), self.now().0);
        let queue = self.model().queue(key);
        queue.change(id, |job| {
            change(job);
            match to {
                Destination::Ready => job.state = JobState::Ready,
                Destination::Delayed { due } => {
                    job.state = JobState::Delayed;
                    (job.due, job.sequence) = (due.0, serial);
                }
                Destination::Dead { reason, kept_until } => {
                    job.state = JobState::Dead;
                    job.death = Some((reason, died, serial));
                    job.kept_until = kept_until.0;
                }
            }
        });
        queue.totals.died += u64::from(matches!(to, Destination::Dead { .. }));
        queue.used = now;
        self.auditor.note(match to {
            Destination::Ready => "settled: ready",
            Destination::Delayed { .. } => "settled: delayed",
            Destination::Dead { .. } => "settled: dead",
        });
    }

    /// Removes a job; returns until when its id stays taken.
    pub fn end_job(&mut self, key: QueueKey, id: Kept, look: impl FnOnce(&ModelJob)) -> u64 {
        let ceil = self.ceil();
        let job = self.model().queue(key).take(id).expect("a job that ends was there");
        look(&job);
        if job.policy.unique_ms > 0 { ceil + job.policy.unique_ms } else { 0 }
    }
}
