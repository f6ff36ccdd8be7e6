//! What a request must do and answer, from the model alone.

use delayd::engine::model::bulk::Filter;
use delayd::engine::model::fact::{Destination, Fact};
use delayd::engine::model::reply::Reason;
use delayd::engine::model::request::{
    Add, JobState, ListPop, Nack, Only, QueueName, Request, Scan, Taken, Wait, When,
};
use delayd::engine::model::walk::Cursor;
use delayd::ids::{QueueNo, Token};
use delayd::limits::{EARLIER_ERROR_BYTES_MAX, LAST_ERRORS_MAX, TOTALS_SHARE};
use delayd::time::Millis;

use crate::simulation::auditor::{Check, Input};
use crate::simulation::handing::FROM_THE_BACK;
use crate::simulation::look::peeked;
use crate::simulation::model::{Kind, ModelJob, ModelQueue, QueueKey, Taking};
use crate::simulation::schedules::ModelSchedule;
use crate::simulation::successors::waits_since;
use crate::simulation::trace::{Kept, Said, keep};

fn key(name: QueueName<'static>) -> QueueKey {
    (name.db.0, name.name)
}

/// How a taking request takes, from which queues, and how many ms it waits (0: not at all).
pub fn taking(request: &Request<'static>) -> Option<(Taking, Vec<QueueKey>, Option<u64>)> {
    let (taking, db, queues, wait) = match *request {
        Request::Pop { db, queues, wait } => {
            let taking = at_most_once(Kind::Pop, 1);
            (taking, db, queues, wait)
        }
        Request::Reserve(ref reserve) => {
            let taking = Taking {
                kind: Kind::Reserve,
                count: reserve.count as usize,
                lease_ms: reserve.lease_ms,
                no_ack: reserve.no_ack,
                bound: reserve.bound,
                meta: reserve.meta,
            };
            (taking, reserve.db, reserve.queues, reserve.wait)
        }
        Request::ListPop(ListPop { db, queues, side, count, shape, wait }) if count > 0 => {
            (at_most_once(Kind::List { side, shape }, count as usize), db, queues, wait)
        }
        Request::Move(ref of) => {
            let kind = Kind::Move { side: of.take, to: (of.db.0, of.to), put: of.put };
            (at_most_once(kind, 1), of.db, std::slice::from_ref(&of.from), of.wait)
        }
        _ => return None,
    };
    let wait_ms = match wait {
        Wait::No => Some(0),
        Wait::Forever => None,
        Wait::For(ms) => Some(ms),
    };
    Some((taking, queues.iter().map(|name| (db.0, *name)).collect(), wait_ms))
}

/// The queue that gave the last job of a request that got all it asked for: those behind it were not looked at.
fn last_looked_at(request: &Request<'static>, said: &Said) -> Option<QueueKey> {
    match (request, said) {
        (_, Said::Popped(job)) => Some(job.queue),
        (Request::Reserve(reserve), Said::Reserved(jobs)) => {
            let all = jobs.len() == reserve.count as usize;
            jobs.last().filter(|_| all).map(|job| job.queue)
        }
        (_, Said::Listed(_, jobs)) => jobs.last().map(|job| job.queue),
        _ => None,
    }
}

/// Bytes of META with its length.
pub fn stored(meta: &[u8]) -> usize {
    if meta.is_empty() { 0 } else { 2 + meta.len() }
}

fn at_most_once(kind: Kind, count: usize) -> Taking {
    Taking { kind, count, lease_ms: None, no_ack: true, bound: false, meta: false }
}

impl<'c> Check<'c> {
    /// Predicts facts and reply of the request; the model follows.
    pub fn decide(&mut self) {
        let Input::Request { client, request, .. } = self.step.input else { return };
        if self.refused_by_journal() {
            return;
        }
        // Who is refused may not have looked at them.
        let said = self.step.replies.iter().find(|(to, _)| *to == client).map(|(_, said)| said);
        if !matches!(said, Some(Said::Error(_))) {
            let (last, mut behind) = (said.and_then(|said| last_looked_at(request, said)), false);
            request.for_each_queue(|queue| {
                let key = (queue.db.0, keep(queue.name));
                if !behind {
                    self.open_paced(key);
                }
                behind |= last == Some(key);
            });
        }
        match *request {
            Request::Add(ref add) => {
                let job_key = key(add.queue);
                if let Some(error) =
                    self.when_error("when", add.when).or(self.lease_error("lease", add.lease_ms))
                {
                    return self.refused(&error);
                }
                let max = add.max_delay_ms.map(When::In);
                if let Some(error) = max.and_then(|when| self.when_error("MAXDELAY", when)) {
                    return self.refused(&error);
                }
                let queue = self.model().queues.get(&job_key);
                let number = queue.map(|queue| QueueNo(queue.number));
                let id = add.id.unwrap_or_default();
                let job = queue.is_some_and(|queue| queue.jobs.contains_key(id));
                let window = queue.is_some_and(|queue| queue.windows.contains_key(id));
                if add.id.is_some() && (job || window) {
                    match add.taken {
                        Taken::Keep => return self.reply = Some(Said::Nil),
                        Taken::Refuse => return self.refused("EXISTS"),
                        Taken::Replace | Taken::Latest => {}
                    }
                }
                let old = self.model().job(job_key, id).cloned();
                self.since = old.as_ref().filter(|_| max.is_some()).and_then(waits_since);
                let ready = old.as_ref().filter(|job| job.state == JobState::Ready);
                self.was_ready = ready.map(|job| (job.place, job.due));
                let old = old.map(|job| job.state);
                let follows = add.taken == Taken::Latest && old == Some(JobState::Leased);
                let grows = add.id.is_none() || old.is_none_or(|state| state == JobState::Dead);
                if let Some(error) = self.not_admitted(job_key, u64::from(grows)) {
                    let note = if error == "FULL" { "full" } else { "refused: paused" };
                    self.auditor.note(note);
                    return self.refused(error);
                }
                let group = add.group.map(keep);
                let queue = self.auditor.model.queues.get(&job_key);
                let full = |queue: &ModelQueue| {
                    group.is_some_and(|group| queue.is_group_full(group, add.id))
                };
                if !follows && queue.is_some_and(full) {
                    self.auditor.note("group full");
                    return self.refused("FULL group");
                }
                let beside =
                    stored(add.meta.get().block()) + add.group.map_or(0, |name| 6 + name.len());
                if self.out_of_memory(add.body.len() + beside + id.len()) {
                    return;
                }
                if follows {
                    self.to_follow = Some(add);
                    return;
                }
                if (job || window) && self.place_kept(add).is_none() {
                    let queue = number.expect("it holds the id");
                    self.expected.push_back(Fact::Deleted { queue, id });
                    self.remove(job_key, id);
                }
                self.to_add = Some(add);
            }
            Request::Pop { .. } => {}
            Request::Reserve(ref reserve) => {
                if let Some(error) = self.lease_error("lease", reserve.lease_ms) {
                    self.refused(&error);
                }
            }
            Request::Ack { queue, ref jobs } => {
                let mut acked = 0;
                for (id, token) in jobs {
                    acked += i64::from(self.ack(key(queue), id, *token));
                }
                self.reply = Some(Said::Integer(acked));
            }
            Request::Nack(ref nack) => self.nack(nack),
            Request::Extend { queue, id, token, lease_ms } => {
                if let Some(error) = self.lease_error("duration", Some(lease_ms)) {
                    return self.refused(&error);
                }
                self.reply = Some(Said::Nil);
                if self.runs(key(queue), id, token) {
                    let (end, serial) = (self.ceil() + lease_ms, self.model().serial());
                    let now = self.now().0;
                    let queue = self.model().queue(key(queue));
                    queue.change(id, |job| (job.lease_end, job.lease_sequence) = (end, serial));
                    queue.used = now;
                    let queue = QueueNo(queue.number);
                    self.expected.push_back(Fact::Extended { queue, id, lease_end: Millis(end) });
                    self.reply = Some(Said::Integer(end as i64));
                    self.auditor.note("extended");
                }
            }
            Request::Delete { queue, ids } => {
                let mut removed = 0;
                for id in ids {
                    let state = self.model().job(key(queue), id).map(|job| job.state);
                    if state == Some(JobState::Leased) {
                        self.remove_next(key(queue), id);
                    } else if self.delete(key(queue), id) {
                        removed += i64::from(state.is_some());
                    }
                }
                self.reply = Some(Said::Integer(removed));
            }
            Request::Cancel { queue, id, force } => {
                let state = self.model().job(key(queue), id).map(|job| job.state);
                if state == Some(JobState::Leased) && !force {
                    self.remove_next(key(queue), id);
                } else {
                    self.delete(key(queue), id);
                }
                self.reply = Some(state.map_or(Said::Nil, Said::State));
            }
            Request::Reschedule { queue, id, when, only } => {
                self.reschedule(key(queue), id, when, only);
            }
            Request::Redrive(ref redrive) => {
                if let Some(error) = self.when_error("IN", redrive.when) {
                    return self.refused(&error);
                }
                self.begin_redrive(client);
            }
            Request::Bulk(_) => unreachable!("tests/engine/bulk.rs"),
            Request::Purge { queue, purge } => self.purge(key(queue), purge),
            Request::Rename { db, queue, to, only_new } => {
                self.rename((db.0, queue), (db.0, to), only_new);
            }
            Request::Get { queue, id } => {
                let job = self.model().job(key(queue), id);
                let view = job.map(|job| Said::Job(Box::new(job.view())));
                self.reply = Some(view.unwrap_or(Said::NilArray));
            }
            Request::Settings { .. }
            | Request::Configure { .. }
            | Request::Unconfigure { .. }
            | Request::Pause { .. }
            | Request::Resume { .. } => self.decide_policy(request),
            Request::Errors { queue } => self.errors(key(queue), client),
            Request::Stats { queue } => self.stats(key(queue), client),
            Request::Forecast { queue, span_ms, count, schedules: _ } => {
                self.forecast(key(queue), span_ms, count, client);
            }
            Request::Len { queue, state } => {
                let queue = self.model().queues.get(&key(queue));
                let counts = queue.map_or([0; 4], ModelQueue::counts);
                let count = match state {
                    Some(state) => counts[state as usize],
                    None => counts.iter().sum(),
                };
                self.reply = Some(Said::Integer(count as i64));
            }
            Request::Peek { queue, state, count, newest } => {
                let queue = self.model().queues.get(&key(queue));
                let seen =
                    queue.map_or(Vec::new(), |queue| peeked(queue, state, count as usize, newest));
                self.reply = self.said_unsure(request).or(Some(Said::Peeked(seen)));
            }
            Request::Remove { db, queues } => {
                let mut removed = 0;
                for name in queues {
                    let key = (db.0, *name);
                    let Some(queue) = self.model().queues.get(&key) else { continue };
                    removed += i64::from(queue.exists());
                    let queue = QueueNo(queue.number);
                    self.expected.push_back(Fact::QueueRemoved { queue });
                    self.model().unbind(key);
                }
                self.reply = Some(Said::Integer(removed));
            }
            Request::Exists { db, queues } => {
                let exists = |name: &&Kept| self.exists((db.0, *name));
                let count = queues.iter().filter(exists).count();
                self.reply = Some(Said::Integer(count as i64));
            }
            Request::Flush { db } => {
                self.expected.push_back(Fact::Flushed { db });
                let keys: Vec<QueueKey> = self.model().queues.keys().copied().collect();
                for key in keys.into_iter().filter(|key| db.is_none_or(|db| db.0 == key.0)) {
                    self.model().unbind(key);
                }
                self.reply = Some(Said::Ok);
            }
            Request::Keys { db, pattern } => {
                let Some(Said::Names(names)) = self.answer_of(client) else { panic!("no names") };
                let mut names = names.clone();
                names.sort_unstable();
                assert_eq!(names, self.existing(db, Some(pattern)), "KEYS {pattern:?}");
                self.replied_in_full();
            }
            Request::ScanQueues { db, cursor, pattern, count } => {
                let Some(Said::ScannedNames(next, names)) = self.answer_of(client) else {
                    panic!("no names")
                };
                let mut names = names.clone();
                names.sort_unstable();
                let existing = self.existing(db, pattern);
                assert!(names.iter().all(|name| existing.contains(name)), "SCAN {names:?}");
                if cursor == Cursor::BEGIN && (*next == 0 || count > 10_000) {
                    assert_eq!((*next, names), (0, existing), "a whole SCAN");
                }
                self.replied_in_full();
            }
            Request::RandomQueue { db, .. } => {
                let existing = self.existing(db, None);
                match self.answer_of(client) {
                    Some(Said::Id(name)) => assert!(existing.contains(name), "{name:?} exists"),
                    said => assert!(said == Some(&Said::Nil) && existing.is_empty(), "{said:?}"),
                }
                self.replied_in_full();
            }
            Request::QueueCount { db } => {
                let count = self.existing(db, None).len() as i64;
                self.reply = Some(Said::Integer(count));
            }
            Request::Memory { queue } => {
                let exists = self.exists(key(queue));
                match self.answer_of(client) {
                    Some(Said::Integer(bytes)) => assert!(exists && *bytes > 0),
                    said => assert!(said == Some(&Said::Nil) && !exists, "{said:?}"),
                }
                self.replied_in_full();
            }
            Request::Schedule(ref of) => self.decide_schedule(of),
            Request::Groups(ref of) => self.decide_groups(of, client),
            Request::Push(ref push) => self.push(push),
            Request::ListPop(ListPop { db, queues, count: 0, .. }) => {
                let queue = self.model().queues.get(&(db.0, queues[0]));
                let any = queue.is_some_and(|queue| !queue.ready.is_empty());
                self.reply = Some(if any { Said::Bodies(vec![]) } else { Said::NilArray });
            }
            Request::ListPop(_) => {
                let said = self.step.replies.iter().find(|(to, _)| *to == client);
                if let Some((_, Said::Error(text))) = said {
                    assert!(text.starts_with(FROM_THE_BACK), "{text}");
                    let (taking, queues, _) = taking(request).expect("it takes");
                    self.check_from_the_back(taking, &queues);
                    self.answer_of(client);
                    self.replied_in_full();
                }
            }
            Request::Move(ref of) => {
                if let Some((_, Said::Error(text))) =
                    self.step.replies.iter().find(|(to, _)| *to == client)
                {
                    if text.starts_with(FROM_THE_BACK) {
                        let (taking, queues, _) = taking(request).expect("it takes");
                        self.check_from_the_back(taking, &queues);
                        self.answer_of(client);
                        return self.replied_in_full();
                    }
                    self.check_refused_move(text, (of.db.0, of.from), (of.db.0, of.to));
                    self.answer_of(client);
                    self.replied_in_full();
                }
            }
            Request::Range { .. }
            | Request::At { .. }
            | Request::Find(_)
            | Request::DeleteEqual { .. } => self.look_at_list(request),
            Request::Queues(_) | Request::Locate(_) => {
                unreachable!("tests/engine/across.rs asks for them")
            }
            Request::Leases(_) => unreachable!("tests/engine/busy.rs asks for them"),
            Request::Minutes(_) => unreachable!("tests/engine/minutes.rs asks for them"),
            Request::Scan(Scan { queue, cursor, filter, count }) => {
                let Filter { state, pattern, .. } = filter;
                self.scan(key(queue), cursor.0, state, pattern, count, client);
            }
        }
    }

    /// Who takes from the back of a queue that groups share is refused.
    pub fn check_from_the_back(&mut self, taking: Taking, queues: &[QueueKey]) {
        let side = taking.kind.side().expect("from a side");
        // A job that was there for a moment of the step is enough for who waits.
        let came =
            self.step.facts.iter().any(|fact| fact.is_ok_and(|fact| fact.beside().0.is_some()));
        let right = queues.iter().any(|key| {
            let of = self.auditor.model.queues.get(key);
            let there = |of: &ModelQueue| of.is_shared() || self.grouped_before.contains(key);
            of.is_some_and(|of| of.next_side() != side && (came || there(of)))
        });
        assert!(right, "no queue of {queues:?} is shared from the other side");
        self.auditor.note("refused from the back");
    }

    pub fn refused(&mut self, begins: &str) {
        let Input::Request { client, .. } = self.step.input else { unreachable!() };
        match self.answer_of(client) {
            Some(Said::Error(text)) => assert!(text.starts_with(begins), "{text} for {begins}"),
            said => panic!("{said:?} instead of {begins}"),
        }
        self.replied_in_full();
    }

    fn when_error(&self, argument: &str, when: When) -> Option<String> {
        let (now, max_ms) = (self.now().0, self.step.settings.delay_ms_max);
        let asked_ms = match when {
            When::In(ms) => ms,
            When::At(at) => at.saturating_sub(now),
        };
        let text = format!("ERR {argument} is {asked_ms}ms from now; max-delay is {max_ms}ms");
        (asked_ms > max_ms).then_some(text)
    }

    /// `argument` is the word that the command has for it.
    pub fn lease_error(&self, argument: &str, lease_ms: Option<u64>) -> Option<String> {
        let max_ms = self.step.settings.lease_ms_max;
        let asked_ms = lease_ms.filter(|asked_ms| *asked_ms > max_ms)?;
        Some(format!("ERR {argument} is {asked_ms}ms; max-lease is {max_ms}ms"))
    }

    /// Bytes in use, with what leases could take beyond the 16th by which they may exceed the limit.
    pub fn memory_wanted(&self) -> u64 {
        let (used, max) = (self.engine.memory_bytes(), self.step.settings.memory_bytes_max);
        used + self.engine.lease_bytes_to_come().saturating_sub(max / 16)
    }

    /// Whether the ADD was refused for lack of memory, rightly.
    pub fn out_of_memory(&mut self, bytes: usize) -> bool {
        let Input::Request { client, .. } = self.step.input else { unreachable!() };
        let (max, used) = (self.step.settings.memory_bytes_max, self.memory_wanted());
        let said = self.step.replies.iter().find(|(to, _)| *to == client).map(|(_, said)| said);
        // What a job costs beside its bytes is the engine's business, but it is far from this.
        let near = max > 0 && used + bytes as u64 + 4_096 > max;
        // A transaction has looked at that for all that it adds, but not at what its leases take.
        if self.in_transaction() {
            return false;
        }
        if matches!(said, Some(Said::Error(text)) if text.starts_with("OOM")) {
            assert!(near, "OOM with {used} of {max} bytes in use");
            self.refused("OOM");
            self.auditor.note("oom");
            return true;
        }
        let spared = self.engine.giving_way_bytes().min(max / TOTALS_SHARE);
        let used = self.engine.memory_bytes() - spared;
        assert!(max == 0 || used <= max + 4_096, "{used} of {max} bytes in use after ADD");
        false
    }

    /// When a job is due: in the past is now.
    pub fn due_of(&self, when: When) -> u64 {
        match when {
            When::In(0) => self.now().0,
            When::In(ms) => self.ceil() + ms,
            When::At(at) => at.max(self.now().0),
        }
    }

    /// When the job of an ADD is due, which may be in the past.
    pub fn due_of_add(&self, add: &Add<'static>) -> u64 {
        let due = self.due_of(add.when);
        let Some(max_ms) = add.max_delay_ms else { return due };
        due.min(self.since.map_or(self.ceil() + max_ms, |since| since + max_ms))
    }

    /// Where a job enters must keep the order.
    pub fn place_new(&mut self, key: QueueKey, ready: bool, due: Millis) {
        let now = self.now();
        // The sweep before the request may have ended with its budget, not knowing that it was done.
        let swept = self.work > 0;
        let queue = self.model().queue(key);
        let pending = queue.next().is_some_and(|next| next <= now.0);
        let of_schedules = queue.schedules.values().filter_map(ModelSchedule::wake).min();
        let pending = pending || of_schedules.is_some_and(|wake| wake <= now.0);
        // It may be woken for its rate.
        let rated = queue.policies.rate() > 0;
        if ready {
            let before = queue.delayed.first().is_some_and(|first| first.0 <= now.0);
            assert!(due <= now && !before, "ready at once before those that are due earlier");
        } else {
            // Timers in levels may have to be moved before it is known that none is due.
            let timers = queue.delayed.len() + queue.leased.len() + queue.ends.len();
            let many = timers + queue.purged > 12;
            // Without room nothing is swept, not even to find that nothing is due.
            let swept = swept || self.auditor.journal.is_short() || rated;
            assert!(due > now || pending || many || swept, "what is due now is ready at once");
        }
    }

    fn ack(&mut self, key: QueueKey, id: Kept, token: Token) -> bool {
        let now = self.now().0;
        let job = self.model().job(key, id);
        if job.is_none_or(|job| job.token != Some(token)) {
            return false;
        }
        if job.is_some_and(|job| job.next.is_some()) {
            self.auditor.note("acked");
            self.expect_next(key, id, true);
            return true;
        }
        let window_end = Millis(self.end_job(key, id, |_| ()));
        let queue = self.model().queue(key);
        queue.open_window(id, window_end);
        queue.totals.acked += 1;
        queue.used = now;
        let queue = QueueNo(queue.number);
        self.expected.push_back(Fact::Acked { queue, id, window_end });
        self.auditor.note("acked");
        true
    }

    /// Whether this lease is running.
    fn runs(&mut self, key: QueueKey, id: Kept, token: Token) -> bool {
        let now = self.now().0;
        let Some(job) = self.model().job(key, id).cloned() else { return false };
        let journal = &self.auditor.journal;
        // Between two stalls it depends on whether all leases were met there: as the facts say.
        let mut facts = self.step.facts.iter().map(|fact| fact.expect("readable"));
        let mut told = || {
            facts.any(|fact| match fact {
                Fact::Extended { id: of, .. } | Fact::Nacked { id: of, .. } => of == id,
                _ => false,
            })
        };
        let unmet =
            journal.stalled(job.lease_end) || journal.may_be_stalled(job.lease_end) && told();
        let unmet = unmet || self.auditor.led.covers(job.lease_end);
        let runs = job.lease_end > now || unmet;
        job.state == JobState::Leased && job.token == Some(token) && runs
    }

    fn nack(&mut self, nack: &Nack<'static>) {
        let (key, id) = (key(nack.queue), nack.id);
        if let Some(error) = nack.when.and_then(|when| self.when_error("IN", when)) {
            return self.refused(&error);
        }
        if !self.runs(key, id, nack.token) {
            return self.reply = Some(Said::Integer(0));
        }
        let (now, ceil) = (self.now().0, self.ceil());
        let job = self.model().job(key, id).expect("it is leased").clone();
        let to = if job.next.is_some() {
            Destination::Ready
        } else if nack.bury {
            self.dead(key, Reason::Buried, ceil)
        } else if !nack.uncounted && job.used_up() {
            self.dead(key, Reason::Attempts, ceil)
        } else {
            match nack.when {
                Some(When::In(0)) => Destination::Delayed { due: Millis(now) },
                Some(When::In(ms)) => Destination::Delayed { due: Millis(ceil + ms) },
                Some(When::At(at)) => Destination::Delayed { due: Millis(at.max(now)) },
                None if nack.uncounted => Destination::Ready,
                None => {
                    let wait_ms = job.policy.backoff.wait_ms(id, job.attempt);
                    Destination::Delayed { due: Millis(ceil + wait_ms) }
                }
            }
        };
        let priority = nack.priority.unwrap_or(job.priority);
        let (counted, error) = (!nack.uncounted, self.kept_error(nack.error));
        let queue = QueueNo(self.model().queue(key).number);
        self.expected.push_back(Fact::Nacked { queue, id, counted, priority, error, to });
        self.settle(key, id, to, now, |job| {
            if let Some(text) = error {
                job.errors.truncate(LAST_ERRORS_MAX - 1);
                for (text, _) in &mut job.errors {
                    *text = &text[..text.len().min(EARLIER_ERROR_BYTES_MAX)];
                }
                job.errors.insert(0, (text, Some((now, job.attempt))));
            }
            job.nacks += 1;
            job.attempt -= u32::from(!counted);
            job.priority = priority;
            (job.token, job.bound_to, job.unanswered) = (None, None, 0);
        });
        self.model().queue(key).totals.nacked += 1;
        if job.next.is_some() {
            self.expect_next(key, id, false);
        }
        self.reply = Some(Said::Integer(1));
        self.auditor.note("nacked");
    }

    /// Removes a job or a window; false if there is none.
    pub fn delete(&mut self, key: QueueKey, id: Kept) -> bool {
        let Some(queue) = self.model().queues.get(&key) else { return false };
        let number = QueueNo(queue.number);
        let found = self.remove(key, id);
        if found {
            self.expected.push_back(Fact::Deleted { queue: number, id });
        }
        found
    }

    fn remove(&mut self, key: QueueKey, id: Kept) -> bool {
        let now = self.now().0;
        let queue = self.model().queue(key);
        let job = queue.take(id).is_some();
        queue.totals.deleted += u64::from(job);
        let found = queue.close_window(id).is_some() || job;
        if found {
            queue.used = now;
            self.auditor.note("deleted");
        }
        found
    }

    fn reschedule(&mut self, key: QueueKey, id: Kept, when: When, only: Only) {
        if let Some(error) = self.when_error("when", when) {
            return self.refused(&error);
        }
        let now = self.now().0;
        let due = self.due_of(when);
        let job = self.model().job(key, id).filter(|job| {
            matches!(job.state, JobState::Delayed | JobState::Ready)
                && match only {
                    Only::Any => true,
                    Only::Later => due > job.due,
                    Only::Earlier => due < job.due,
                }
        });
        if job.is_none() {
            return self.reply = Some(Said::Integer(0));
        }
        // Whether it is ready at once is free while others are being swept: as the fact says.
        let facts: Vec<_> = self.step.facts.iter().map(|fact| fact.expect("readable")).collect();
        let told = facts.iter().find_map(|fact| match *fact {
            Fact::Rescheduled { id: told, ready, left, due, absolute, .. } if told == id => {
                Some((ready, left, due, absolute))
            }
            _ => None,
        });
        let (ready, left, told_due, absolute) =
            told.expect("a job that is rescheduled makes a fact");
        let state = if ready { JobState::Ready } else { JobState::Delayed };
        let (serial, step) = (self.model().serial(), self.auditor.steps);
        let job = self.model().queue(key).take(id).expect("it is there");
        assert_eq!((told_due.0, absolute), (due, matches!(when, When::At(_))), "{when:?}");
        self.place_new(key, ready, told_due);
        let queue = self.model().queue(key);
        let token = None;
        assert_eq!(left, ready && queue.due_left(), "where it enters");
        let place = if ready { queue.give_place(left) } else { 0 };
        queue.put(ModelJob { state, due, sequence: serial, token, place, ready_step: step, ..job });
        queue.used = now;
        let (queue, due) = (QueueNo(queue.number), Millis(due));
        self.expected.push_back(Fact::Rescheduled { queue, id, absolute, ready, left, due });
        self.reply = Some(Said::Integer(1));
        self.auditor.note("rescheduled");
    }
}
