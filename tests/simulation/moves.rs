//! What moves or removes many jobs at once: REDRIVE, PURGE, RENAME.

use delayd::engine::model::fact::Fact;
use delayd::engine::model::group::Grouping;
use delayd::engine::model::request::Purge;
use delayd::engine::model::request::{JobState, Redrive, Request, When, Which};
use delayd::ids::{ClientId, QueueNo};
use delayd::time::Micros;

use crate::simulation::auditor::{Check, Input};
use crate::simulation::model::{ModelJob, QueueKey, Unsent};
use crate::simulation::trace::{Kept, Said, keep};

/// A REDRIVE, or a PURGE of a group, that a client has begun.
#[derive(Clone, Copy)]
pub struct RedriveRun {
    begun: Micros,
    /// Jobs that died later are left alone.
    serial: u64,
    step: u64,
    moved: i64,
}

impl RedriveRun {
    /// Whether a job has not come into its state since. One that was leased when the walk passed it, and is not any more, is
    /// left alone.
    fn saw(&self, job: &ModelJob) -> bool {
        let since = match job.state {
            JobState::Delayed => job.sequence >= self.serial,
            JobState::Ready => job.ready_step >= self.step,
            JobState::Leased => job.lease_sequence >= self.serial,
            JobState::Dead => job.death.is_some_and(|(_, _, died)| died >= self.serial),
        };
        !since && job.birth < self.serial
    }
}

impl Check<'_> {
    pub fn begin_redrive(&mut self, client: ClientId) {
        let (begun, step) = (self.step.now, self.auditor.steps);
        let fresh = RedriveRun { begun, serial: self.model().serial(), step, moved: 0 };
        self.auditor.redrives.entry(client).or_insert(fresh);
    }

    /// A dead job is moved.
    pub fn redriven(&mut self, fact: &Fact<'_>) {
        let Fact::Redriven { queue, id, absolute, ready, left, keep_attempts, due } = *fact else {
            unreachable!("called for a job that is redriven");
        };
        let Input::Request { client, request: Request::Redrive(redrive), .. } = self.step.input
        else {
            panic!("only REDRIVE redrives");
        };
        let redrive: &Redrive<'static> = redrive;
        let (id, now) = (keep(id), self.now().0);
        let key = (redrive.queue.db.0, redrive.queue.name);
        assert_eq!(self.model().numbers.get(&queue.0), Some(&key), "of the queue that is named");
        let run = self.auditor.redrives.get_mut(&client).expect("it was begun");
        run.moved += 1;
        let (begun, serial) = (run.begun, run.serial);
        let job = self.model().queue(key).take(id).expect("a job that is redriven is there");
        let (_, _, died) = job.death.expect("it is dead");
        match redrive.which {
            Which::Ids(ids) => assert!(ids.contains(&id), "{id:?} was not named"),
            Which::Oldest(_) => {
                let older = self.model().queue(key).dead.first().map(|dead| dead.0);
                assert!(older.is_none_or(|older| died < older), "the oldest dead come first");
                assert!(died < serial, "{id:?} died later");
            }
            Which::InGroup { group, .. } => {
                assert_eq!(job.group, group, "{id:?} is of another group");
                let mut dead = self.model().queue(key).jobs.values().filter_map(|of| {
                    of.death.filter(|_| of.group == group && of.state == JobState::Dead)
                });
                assert!(dead.all(|(_, _, other)| died < other), "the oldest dead come first");
                assert!(died < serial, "{id:?} died later");
                self.auditor.note("redriven in a group");
            }
        }
        if begun == self.step.now {
            assert_eq!(
                (due.0, absolute),
                (self.due_of(redrive.when), matches!(redrive.when, When::At(_)))
            );
            self.place_new(key, ready, due);
        }
        let (serial, step) = (self.model().serial(), self.auditor.steps);
        let queue = self.model().queue(key);
        let state = if ready { JobState::Ready } else { JobState::Delayed };
        assert_eq!(keep_attempts, redrive.keep_attempts);
        assert_eq!(left, ready && queue.due_left(), "where it enters");
        let place = if ready { queue.give_place(left) } else { 0 };
        queue.put(ModelJob {
            state,
            due: due.0,
            sequence: serial,
            attempt: if keep_attempts { job.attempt } else { 0 },
            unanswered: 0,
            deliveries_before: job.deliveries,
            token: None,
            death: None,
            place,
            ready_step: step,
            ..job
        });
        queue.used = now;
        self.auditor.note("redriven");
    }

    /// A job of a group is removed.
    pub fn purged_of_group(&mut self, queue: QueueNo, id: Kept) {
        let Input::Request { client, request, .. } = self.step.input else { unreachable!() };
        let Request::Groups(Grouping::Purge { queue: name, group, states }) = *request else {
            unreachable!("called for such a request")
        };
        let key = (name.db.0, name.name);
        assert_eq!(self.model().numbers.get(&queue.0), Some(&key), "of the queue that is named");
        let run = self.auditor.redrives.get_mut(&client).expect("it was begun");
        run.moved += 1;
        let now = self.now().0;
        let queue = self.model().queue(key);
        let job = queue.take(id).expect("a job that is removed is there");
        assert!(job.group == group && states[job.state as usize], "{job:?} is not of those");
        queue.totals.deleted += 1;
        queue.used = now;
        self.auditor.note("purged of a group");
    }

    /// The reply to a PURGE of a group.
    fn end_group_purge(&mut self, client: ClientId, of: &Grouping<'static>, said: &Said) {
        let Grouping::Purge { queue, group, states } = *of else { return };
        let Some(run) = self.auditor.redrives.remove(&client) else { return };
        if matches!(said, Said::Error(_)) {
            return;
        }
        self.reply = Some(Said::Integer(run.moved));
        let queue = self.auditor.model.queues.get(&(queue.db.0, queue.name));
        let jobs = queue.into_iter().flat_map(|queue| queue.jobs.values());
        let mut left = jobs.filter(|job| job.group == group && states[job.state as usize]);
        let left = left.find(|job| run.saw(job));
        assert!(left.is_none() || self.auditor.journal.is_short(), "{left:?} was left");
    }

    /// The reply to a REDRIVE.
    pub fn end_redrive(&mut self, client: ClientId, request: &Request<'static>, said: &Said) {
        if let Request::Groups(of) = request {
            return self.end_group_purge(client, of, said);
        }
        let Request::Redrive(redrive) = request else { return };
        let Some(RedriveRun { serial, moved, .. }) = self.auditor.redrives.remove(&client) else {
            return;
        };
        if matches!(said, Said::Error(_)) {
            return;
        }
        self.reply = Some(Said::Integer(moved));
        let key = (redrive.queue.db.0, redrive.queue.name);
        let Some(queue) = self.auditor.model.queues.get(&key) else { return };
        let left = match redrive.which {
            Which::Ids(ids) => ids
                .iter()
                .any(|id| queue.jobs.get(id).is_some_and(|job| job.state == JobState::Dead)),
            Which::Oldest(Some(count)) | Which::InGroup { count: Some(count), .. }
                if moved == i64::from(count) =>
            {
                false
            }
            Which::InGroup { group, .. } => {
                let died = |job: &ModelJob| job.death.is_some_and(|(_, _, died)| died < serial);
                let dead = |job: &ModelJob| job.state == JobState::Dead && job.group == group;
                let own = queue.birth < serial;
                own && queue.jobs.values().any(|job| dead(job) && died(job))
            }
            Which::Oldest(_) => {
                // A queue bound anew in between is another.
                let own = queue.birth < serial;
                own && queue.dead.first().is_some_and(|dead| dead.0 < serial)
            }
        };
        assert!(!left || self.auditor.journal.is_short(), "dead jobs were left by {redrive:?}");
    }

    pub fn purge(&mut self, key: QueueKey, purge: Purge) {
        let (now, us, mut count) = (self.now().0, self.step.now, 0);
        self.reply = Some(Said::Integer(0));
        let Some(queue) = self.auditor.model.queues.get_mut(&key) else { return };
        let purged = |job: &&ModelJob| purge.states[job.state as usize];
        let ids: Vec<Kept> = queue.jobs.values().filter(purged).map(|job| job.id).collect();
        for id in ids {
            queue.displace(id);
            count += 1;
        }
        let windows: Vec<Kept> = queue.windows.keys().copied().filter(|_| purge.windows).collect();
        if count == 0 && windows.is_empty() {
            return;
        }
        queue.forget_purged(purge.states, us);
        let windows_ended = windows.len();
        for id in windows {
            queue.close_window(id);
        }
        queue.totals.deleted += count;
        queue.used = now;
        queue.purged += count as usize + windows_ended;
        let queue = QueueNo(queue.number);
        self.expected.push_back(Fact::Purged { queue, purge, count });
        self.reply = Some(Said::Integer(count as i64));
        self.auditor.note("purged");
    }

    pub fn rename(&mut self, from: QueueKey, to: QueueKey, only_new: bool) {
        if !self.exists(from) {
            return self.refused("ERR no such key");
        }
        if only_new && self.exists(to) {
            return self.reply = Some(Said::Integer(0));
        }
        self.reply = Some(if only_new { Said::Integer(1) } else { Said::Ok });
        if from == to {
            return;
        }
        let now = self.now().0;
        let model = self.model();
        let over = model.queues.get(&to).map(|queue| QueueNo(queue.number));
        if over.is_some() {
            model.unbind(to);
        }
        let mut queue = model.queues.remove(&from).expect("it exists");
        model.numbers.insert(queue.number, to);
        queue.used = now;
        // Nobody waited under the new name when they became ready.
        queue.jobs.values_mut().for_each(|job| job.ready_step = u64::MAX);
        let number = QueueNo(queue.number);
        model.queues.insert(to, queue);
        for handed in model.unsent.values_mut().flatten().chain(&mut model.going_back) {
            let (Unsent::Leased(key, ..) | Unsent::Gone(key, ..)) = handed;
            if *key == from {
                *key = to;
            }
        }
        let name: Kept = to.1;
        self.expected.push_back(Fact::Renamed { queue: number, name, over });
        self.auditor.note(if over.is_some() { "renamed over another" } else { "renamed" });
    }
}
