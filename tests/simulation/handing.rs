//! Hand-offs: the right job to the right client, and time-outs only for who could not be served.

use delayd::engine::model::request::{JobState, Side};
use delayd::ids::{ClientId, Token};
use delayd::time::Millis;

use crate::simulation::auditor::{Check, Group, Input, delivery};
use crate::simulation::model::{ModelJob, ModelWaiter, QueueKey, Unsent};
use crate::simulation::trace::{Job, Kept, Said};

/// How the error begins.
pub const FROM_THE_BACK: &str = "ERR jobs of queue ";

impl Check<'_> {
    /// The reply with which a job is handed over; an id can be used again within a step.
    pub fn taker_of(&self, is: impl Fn(&Job) -> bool) -> usize {
        self.find_taker(is).expect("what is handed over is in a reply")
    }

    pub fn find_taker(&self, is: impl Fn(&Job) -> bool) -> Option<usize> {
        let mut replies = self.step.replies.iter().zip(&self.answered);
        replies.position(|((_, said), answered)| !answered && said.jobs().iter().any(&is))
    }

    /// The first ready job of the queue goes to whom reply number `to` is for.
    pub fn hand_over(
        &mut self,
        key: QueueKey,
        id: Kept,
        to: usize,
        lease: Option<(Token, Millis, bool)>,
        on_time: bool,
    ) -> Job {
        let ceil = self.ceil();
        let client = self.step.replies[to].0;
        let own = self.own_taking(client);
        if own.is_none() {
            self.serve(client, key, to);
        } else {
            self.refuse_moves_before(to, key);
        }
        let group = self.group.as_ref().map(|group| group.waiter.taking);
        let taking = own.or(group).expect("a taker");
        assert_eq!(lease.is_none(), taking.no_ack, "with a lease or without, as asked");

        let default_ms = self.step.settings.lease_ms_default;
        let serial = self.model().serial();
        let newest = self.model().newest_token;
        let now_us = self.step.now;
        let mut job = self.take_next(key, id, taking.kind.side(), own.is_some(), on_time);
        let counted = self.counted;
        let queue = self.model().queue(key);
        let birth = queue.birth;
        let delivered = if let Some((token, lease_end, bound)) = lease {
            let own_ms = Some(job.policy.lease_ms).filter(|ms| *ms > 0);
            let queue_ms = queue.policies.settings.lease_ms;
            let lease_ms = taking.lease_ms.or(own_ms).or(queue_ms).unwrap_or(default_ms);
            assert_eq!(lease_end.0, ceil + lease_ms, "the lease's end");
            assert_eq!(bound, taking.bound);
            assert!(token.0 > newest && token.0 < 1 << 63, "tokens only grow: {token}");
            job.state = JobState::Leased;
            (job.token, job.lease_end, job.lease_sequence) = (Some(token), lease_end.0, serial);
            job.attempt += 1;
            job.deliveries += 1;
            job.bound_to = bound.then_some(client);
            let delivered = job.delivered(key, true, taking.meta);
            queue.put(job);
            self.model().newest_token = token.0;
            let handed = Unsent::Leased(key, id, token, (now_us, counted));
            self.model().unsent.entry(client).or_default().push(handed);
            delivered
        } else {
            let delivered = job.delivered(key, false, taking.meta);
            let handed = Unsent::Gone(key, birth, Box::new(job), (now_us, counted));
            self.model().unsent.entry(client).or_default().push(handed);
            delivered
        };
        self.auditor.note(if own.is_some() { "taken" } else { "served" });
        delivered
    }

    /// Takes out the next ready job from a side, which must be this one.
    pub fn take_next(
        &mut self,
        key: QueueKey,
        id: Kept,
        side: Option<Side>,
        own: bool,
        on_time: bool,
    ) -> ModelJob {
        let (now, step, now_us) = (self.now(), self.auditor.steps, self.step.now);
        let queue = self.model().queue(key);
        let front = queue.next_side();
        assert!(!queue.is_shared() || side.is_none_or(|side| side == front), "from the back");
        let mut next = queue.next_ready(side.unwrap_or(front));
        if next != Some(id) && queue.sharing.is_unsure {
            queue.open_paced(now);
            queue.learn(id);
            next = queue.next_ready(side.unwrap_or(front));
        }
        if next != Some(id) && queue.sharing.is_unsure {
            queue.shut_paced(now, id);
            queue.learn(id);
            next = queue.next_ready(side.unwrap_or(front));
        }
        let (ready, sharing) = (&queue.ready, &queue.sharing);
        assert_eq!(Some(id), next, "the next from {side:?} in {ready:?}, shared as {sharing:?}");
        queue.policies.deliver(now_us, id, queue.leased.len());
        let throttled = queue.policies.may_throttle(step);
        let shared = queue.is_shared();
        let first = queue.ready.first().is_none_or(|entry| entry.2 == id);
        let held = queue.groups_closed() > 0;
        let ahead = queue.is_ahead(id);
        let job = queue.take(id).expect("it is ready");
        queue.served(job.priority, job.group);
        let counted = queue.paced(job.group, now_us);
        self.counted = counted;
        if shared && !job.group.is_empty() {
            self.auditor.note("taken from a group");
            if !first {
                self.auditor.note("behind a stint");
            }
            if held {
                self.auditor.note("held by a closed group");
            }
            if ahead {
                self.auditor.note("ahead of jobs that have not begun");
            }
        }
        assert!(!job.expired(now), "{job:?} was delivered after it expired");
        assert!(job.due <= now.0, "{job:?} was delivered early");
        let fresh = !own && job.ready_step == step;
        // Held back, a job may have fallen due for its waiter in an earlier step.
        let earlier = !own && self.auditor.journal.throttled_once();
        // What policies held back counts for the lateness only if it was handed over at once.
        let right = on_time == fresh || on_time && earlier || !on_time && throttled;
        assert!(right, "whether {job:?} counts for the lateness");
        if throttled && !on_time && !own {
            self.auditor.note("held back");
        }
        let queue = self.model().queue(key);
        if on_time {
            queue.late_us_max = queue.late_us_max.max(now_us.0 - job.due * 1000);
        }
        queue.totals.delivered += 1;
        queue.used = now.0;
        job
    }

    pub fn took(&mut self, to: usize, key: QueueKey, job: Job) {
        let client = self.step.replies[to].0;
        if self.requester() == Some(client) {
            self.own.push(job);
        } else {
            let group = self.group.as_mut().expect("a waiter is being served");
            assert_eq!((group.client, group.key), (client, key));
            group.jobs.push(job);
        }
    }

    /// `client` is being served from this queue, by reply number `to`.
    fn serve(&mut self, client: ClientId, key: QueueKey, to: usize) {
        if self.group.as_ref().is_some_and(|group| group.client == client) {
            return;
        }
        self.end_group();
        let waiter = self.leave_line(client, key, to);
        self.group = Some(Group { client, key, waiter, jobs: Vec::new() });
    }

    /// A client that waits is served from this queue, with reply number `to`: it stands first.
    pub fn leave_line(&mut self, client: ClientId, key: QueueKey, to: usize) -> ModelWaiter {
        self.time_out_before(to);
        assert!(self.last_served < Some(to), "replies come in the order of hand-offs");
        self.last_served = Some(to);
        let line = self.model().lines.get(&key);
        let first = line.and_then(|line| line.front().copied());
        assert_eq!(first, Some(client), "the first in the line of {key:?} is served");
        self.model().leave(client).expect("who stands in a line waits")
    }

    pub fn end_group(&mut self) {
        let Some(Group { client, key, waiter, jobs }) = self.group.take() else { return };
        let now = self.step.now;
        let full = jobs.len() == waiter.taking.count;
        assert!(jobs.len() <= waiter.taking.count, "{client} got more than its COUNT");
        if !full && self.expired < 256 && !self.auditor.journal.throttles() {
            let queue = self.model().queues.get(&key);
            assert!(queue.is_none_or(|queue| !queue.must_give(now)), "COUNT takes all");
        }
        let said = self.answer_of(client);
        assert_eq!(said, Some(delivery(waiter.taking, jobs)).as_ref(), "{client}'s reply");
    }

    /// Waiters whose time-out was told before reply number `to`.
    pub fn time_out_before(&mut self, to: usize) {
        for at in 0..to {
            let (client, said) = &self.step.replies[at];
            if self.answered[at] || !self.auditor.model.waiting.contains_key(client) {
                continue;
            }
            if matches!(said, Said::Error(_)) {
                self.answered[at] = true;
                self.refused_move(at);
                continue;
            }
            if *said != Said::NilArray {
                continue;
            }
            let now = self.now();
            self.answered[at] = true;
            assert!(matches!(self.step.input, Input::Advance { .. }), "time-outs pass with time");
            let waiter = self.model().leave(*client).expect("it waits");
            let deadline = waiter.deadline.expect("who waits for ever is not timed out");
            assert!(deadline <= now.0, "{client} is timed out early: {deadline} at {now:?}");
            for key in &waiter.queues {
                let queue = self.auditor.model.queues.get(key);
                // When a rate allows the next one is seen to when all that is due is done.
                let queue = queue.filter(|queue| queue.policies.rate() == 0);
                let missed = queue.is_some_and(|queue| queue.must_give(now.start()));
                let missed = missed && !self.auditor.journal.throttles();
                assert!(!missed, "{client} is timed out though {key:?} has a job");
            }
            self.auditor.note("timed out");
        }
    }
}
