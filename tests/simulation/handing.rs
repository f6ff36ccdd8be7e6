//! Hand-offs: the right job to the right client, and time-outs only for who could not be served.

use delayd::engine::request::State;
use delayd::ids::{ClientId, Token};
use delayd::time::Millis;

use crate::auditor::{Check, Group, Input, delivery};
use crate::model::{InHand, QueueKey, Taking};
use crate::trace::{Job, Kept, Said};

impl Check<'_> {
    /// The reply with which a job is handed over; an id can be used again within a step.
    pub fn taker_of(&self, is: impl Fn(&Job) -> bool) -> usize {
        let mut replies = self.step.replies.iter().zip(&self.answered);
        let found =
            replies.position(|((_, said), answered)| !answered && said.jobs().iter().any(&is));
        found.expect("what is handed over is in a reply")
    }

    /// The first ready job of the queue goes to whom reply number `to` is for.
    pub fn hand_over(
        &mut self,
        key: QueueKey,
        id: Kept,
        to: usize,
        lease: Option<(Token, Millis, bool)>,
        prompt: bool,
    ) -> Job {
        let (now, ceil, step) = (self.now(), self.ceil(), self.auditor.steps);
        let now_us = self.step.now;
        let client = self.step.replies[to].0;
        let own = self.own_taking(client);
        if own.is_none() {
            self.serve(client, key, to);
        }
        let group = self.group.as_ref().map(|group| group.waiter.taking);
        let taking = own.or(group).expect("a taker");
        assert_eq!(lease.is_none(), taking.no_ack, "with a lease or without, as asked");

        let default_ms = self.step.settings.lease_ms_default;
        let serial = self.model().serial();
        let newest = self.model().newest_token;
        let queue = self.model().queue(key);
        let first = queue.ready.first().expect("what is handed over was ready").2;
        assert_eq!(id, first, "the first in the order of {:?}", queue.ready);
        queue.policies.deliver(now_us, id, queue.leased.len());
        let held_back = queue.policies.may_hold_back(step);
        let mut job = queue.take(id).expect("it is ready");
        assert!(!job.expired(now), "{job:?} was delivered after it expired");
        assert!(job.due <= now.0, "{job:?} was delivered early");
        let fresh = own.is_none() && job.ready_step == step;
        // Held back, a job may have fallen due for its waiter in an earlier step.
        let earlier = own.is_none() && self.auditor.journal.held_back_once();
        // What policies held back counts for the lateness only if it was handed over at once.
        let right = prompt == fresh || prompt && earlier || !prompt && held_back;
        assert!(right, "whether {job:?} counts for the lateness");
        if held_back && !prompt && own.is_none() {
            self.auditor.note("held back");
        }
        if prompt {
            let late_us = self.step.now.0 - job.due * 1000;
            let queue = self.model().queue(key);
            queue.late_us_max = queue.late_us_max.max(late_us);
        }
        let queue = self.model().queue(key);
        queue.totals.delivered += 1;
        queue.used = now.0;
        let birth = queue.birth;
        let delivered = if let Some((token, lease_end, bound)) = lease {
            let own_ms = Some(job.policy.lease_ms).filter(|ms| *ms > 0);
            let queue_ms = queue.policies.settings.lease_ms;
            let lease_ms = taking.lease_ms.or(own_ms).or(queue_ms).unwrap_or(default_ms);
            assert_eq!(lease_end.0, ceil + lease_ms, "the lease's end");
            assert_eq!(bound, taking.bound);
            assert!(token.0 > newest && token.0 < 1 << 63, "tokens only grow: {token}");
            job.state = State::Leased;
            (job.token, job.lease_end, job.lease_sequence) = (Some(token), lease_end.0, serial);
            job.attempt += 1;
            job.deliveries += 1;
            job.bound_to = bound.then_some(client);
            let delivered = job.delivered(key, true);
            queue.put(job);
            self.model().newest_token = token.0;
            let handed = InHand::Leased(key, id, token);
            self.model().in_hand.entry(client).or_default().push(handed);
            delivered
        } else {
            let delivered = job.delivered(key, false);
            let handed = InHand::Gone(key, birth, Box::new(job));
            self.model().in_hand.entry(client).or_default().push(handed);
            delivered
        };
        self.auditor.note(if own.is_some() { "taken" } else { "served" });
        delivered
    }

    /// How the requester takes, if this is about its own request.
    fn own_taking(&self, client: ClientId) -> Option<Taking> {
        let Input::Request { client: requester, request, .. } = self.step.input else {
            return None;
        };
        (requester == client).then(|| crate::decide::taking(request)).flatten().map(|(t, ..)| t)
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
        self.time_out_before(to);
        assert!(self.last_served < Some(to), "replies come in the order of hand-offs");
        self.last_served = Some(to);
        let line = self.model().lines.get(&key);
        let first = line.and_then(|line| line.front().copied());
        assert_eq!(first, Some(client), "the first in the line of {key:?} is served");
        let waiter = self.model().leave(client).expect("who stands in a line waits");
        self.group = Some(Group { client, key, waiter, jobs: Vec::new() });
    }

    pub fn end_group(&mut self) {
        let Some(Group { client, key, waiter, jobs }) = self.group.take() else { return };
        let now = self.step.now;
        let full = jobs.len() == waiter.taking.count;
        assert!(jobs.len() <= waiter.taking.count, "{client} got more than its COUNT");
        if !full && self.expired < 256 && !self.auditor.journal.holds_back() {
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
                let missed = missed && !self.auditor.journal.holds_back();
                assert!(!missed, "{client} is timed out though {key:?} has a job");
            }
            self.auditor.note("timed out");
        }
    }
}
