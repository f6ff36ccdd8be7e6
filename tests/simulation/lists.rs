//! Ready jobs as a list: pushes, moves, and what is looked for in it.

use std::collections::VecDeque;

use delayd::engine::Outcome;
use delayd::engine::journal_room::{Bound, deleting_bytes};
use delayd::engine::model::fact::{Fact, FactId};
use delayd::engine::model::policy::Policy;
use delayd::engine::model::request::{
    Add, Find, JobState, Move, Push, QueueName, Request, Side, Taken, Wait, When,
};
use delayd::engine::model::token;
use delayd::ids::{ClientId, Db};
use delayd::limits::COUNT_MAX;
use delayd::time::{Micros, Millis};

use crate::simulation::auditor::{Check, Input};
use crate::simulation::decide;
use crate::simulation::handing::FROM_THE_BACK;
use crate::simulation::model::{Kind, ModelJob, ModelQueue, QueueKey, Taking};
use crate::simulation::trace::{Kept, Said, keep, keep_list};
use crate::simulation::world::World;

/// Jobs that enter a list: those of a push, or the one that is moved.
pub struct Entering {
    pub key: QueueKey,
    side: Side,
    bodies: VecDeque<Kept>,
    /// Of a move: the reply that tells of it.
    told: Option<usize>,
}

impl Check<'_> {
    pub fn push(&mut self, push: &Push<'static>) {
        let key = (push.queue.db.0, push.queue.name);
        if push.only_existing && !self.exists(key) {
            return self.reply = Some(Said::Integer(0));
        }
        if let Some(error) = self.not_admitted(key, push.bodies.len() as u64) {
            self.auditor.note("push refused");
            return self.refused(error);
        }
        // Each costs something beside its body.
        let bytes = push.bodies.iter().map(|body| body.len() + 256).sum();
        if self.out_of_memory(bytes) {
            return;
        }
        let bodies = push.bodies.iter().copied().collect();
        self.entering = Some(Entering { key, side: push.side, bodies, told: None });
    }

    /// The next reply, if it is there, to somebody who moves a job of this queue.
    pub fn mover_of(&self, key: QueueKey) -> Option<usize> {
        let moves = |client| {
            let waiter = self.auditor.model.waiting.get(&client);
            let waits = waiter.map(|waiter| (waiter.taking, waiter.queues[0]));
            let own = || self.own_wish(client).map(|(taking, queues, _)| (taking, queues[0]));
            let mover = waits.or_else(own).filter(|(_, from)| *from == key);
            mover.is_some_and(|(taking, _)| matches!(taking.kind, Kind::Move { .. }))
        };
        let mut replies = self.step.replies.iter().zip(&self.answered);
        replies.position(|((client, said), done)| {
            !done && matches!(said, Said::Body(_)) && moves(*client)
        })
    }

    /// A ready job leaves for another queue; reply number `to` tells of it.
    pub fn move_out(
        &mut self,
        key: QueueKey,
        id: Kept,
        to: usize,
        window_end: Millis,
        on_time: bool,
    ) {
        let client = self.step.replies[to].0;
        let own = self.own_taking(client);
        if own.is_some() {
            self.refuse_moves_before(to, key);
        }
        let taking = own.unwrap_or_else(|| {
            self.end_group();
            self.leave_line(client, key, to).taking
        });
        let Kind::Move { side, to: target, put } = taking.kind else {
            panic!("no move: {taking:?}")
        };
        let job = self.take_next(key, id, Some(side), own.is_some(), on_time);
        self.model().queue(key).open_window(id, window_end);
        let bodies = VecDeque::from([job.body]);
        self.entering = Some(Entering { key: target, side: put, bodies, told: Some(to) });
    }

    /// A job enters a list.
    pub fn enter(&mut self, fact: &Fact<'_>) {
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
        let mut entering = self.entering.take().expect("called when one is to enter");
        let (key, now) = (entering.key, self.now());
        assert_eq!(self.model().numbers.get(&queue.0), Some(&key), "the queue it enters");
        let FactId::Made(made) = id else { panic!("{fact:?} has an id of its own") };
        assert!(made > self.model().newest_token, "numbers only grow");
        self.model().newest_token = made;
        let id = keep(&token::written(made));
        let body = keep(body);
        assert_eq!(entering.bodies.pop_front(), Some(body), "the body");
        assert!(
            inherited.is_none() && group.is_none() && meta.is_none(),
            "lists know no groups and no META"
        );
        assert!(!absolute && ready && left == (entering.side == Side::Left) && due == now);
        let set = self.settings_of(key);
        let wanted = Policy {
            attempts: set.attempts.unwrap_or(20),
            backoff: set.backoff.unwrap_or_default(),
            lease_ms: 0,
            ttl_ms: set.ttl_ms.unwrap_or(0),
            unique_ms: 0,
        };
        assert_eq!(self.model().policies.get(&policy.0), Some(&wanted), "the policy");
        assert_eq!(priority, set.priority.unwrap_or(5));
        let (serial, step) = (self.model().serial(), self.auditor.steps);
        let queue = self.model().queue(key);
        queue.totals.added += 1;
        queue.used = now.0;
        queue.pushed = true;
        let place = queue.give_place(left);
        let job = ModelJob::new(id, body, serial, now.0, wanted);
        let state = JobState::Ready;
        queue.put(ModelJob { state, due: due.0, priority, place, ready_step: step, ..job });
        let count = queue.ready.len() as i64;
        match entering.told {
            Some(to) => {
                self.moved_in.insert((key, id));
                assert_eq!(self.step.replies[to].1, Said::Body(body), "the body that is told");
                self.answered[to] = true;
                if self.requester() == Some(self.step.replies[to].0) {
                    self.replied_in_full();
                    self.decided = true;
                }
                self.auditor.note("moved");
            }
            None if entering.bodies.is_empty() => {
                self.reply = Some(Said::Integer(count));
                self.auditor.note("pushed");
            }
            None => self.entering = Some(entering),
        }
    }

    /// The line of a queue is served before a request takes of it. Who was refused there was refused
    /// while the job that the request takes was still there.
    pub fn refuse_moves_before(&mut self, to: usize, key: QueueKey) {
        for at in 0..to {
            let (client, said) = &self.step.replies[at];
            let waiter = self.auditor.model.waiting.get(client);
            let of_queue = waiter.is_some_and(|waiter| waiter.queues.contains(&key));
            if !self.answered[at] && of_queue && matches!(said, Said::Error(_)) {
                self.answered[at] = true;
                self.refused_move(at);
            }
        }
    }

    /// Waiters are served before a request is decided, too. Who was refused then was refused while the job that
    /// the request moves or removes was still there.
    pub fn refuse_moves_first(&mut self) {
        let requester = self.requester();
        let own = self.step.replies.iter().position(|(client, _)| Some(*client) == requester);
        for at in 0..own.unwrap_or(0) {
            let (client, said) = &self.step.replies[at];
            let waits = self.auditor.model.waiting.contains_key(client);
            if !self.answered[at] && waits && matches!(said, Said::Error(_)) {
                self.answered[at] = true;
                self.refused_move(at);
            }
        }
    }

    /// A client that waited to move a job was told that its destination refuses.
    pub fn refused_move(&mut self, at: usize) {
        let (client, said) = &self.step.replies[at];
        let Said::Error(text) = said else { panic!("{said:?} to one who waits") };
        let waiter = &self.model().waiting[client];
        if text.starts_with(FROM_THE_BACK) {
            let named = |key: &&QueueKey| text.contains(&format!("'{}'", key.1.escape_ascii()));
            let key = *waiter.queues.iter().find(named).expect("a queue it waits for");
            let waiter = self.leave_line(*client, key, at);
            return self.check_from_the_back(waiter.taking, &[key]);
        }
        let key = waiter.queues[0];
        let waiter = self.leave_line(*client, key, at);
        assert!(matches!(waiter.taking.kind, Kind::Move { .. }), "{text} to {waiter:?}");
        let Kind::Move { to, .. } = waiter.taking.kind else { unreachable!("asserted") };
        self.check_refused_move(text, key, to);
    }

    /// How many jobs at most have ended by themselves in this step, whose place in a full queue was taken until then.
    fn left_since(&self, key: QueueKey) -> u64 {
        let facts = self.step.facts.iter().map(|fact| fact.expect("own facts are readable"));
        let ends =
            facts.filter(|fact| matches!(fact, Fact::Expired { .. } | Fact::LeaseOver { .. }));
        let queues = ends.filter_map(|fact| fact.queue());
        queues.filter(|queue| self.auditor.model.numbers.get(&queue.0) == Some(&key)).count() as u64
    }

    pub fn check_refused_move(&mut self, text: &str, from: QueueKey, to: QueueKey) {
        let max = self.step.settings.memory_bytes_max;
        // Jobs may have gone since.
        let used = self.memory_wanted().max(self.step.memory_before);
        let near = max > 0 && used + 8_192 > max;
        let refused = self.not_admitted(to, u64::from(from != to) + self.left_since(to));
        let right = text.starts_with("OOM ") && near
            || text.starts_with("MISCONF ") && self.auditor.journal.is_short()
            || refused.is_some_and(|class| text.starts_with(class));
        assert!(right, "{text}");
        let queue = self.auditor.model.queues.get(&from);
        assert!(queue.is_some_and(|queue| !queue.ready.is_empty()), "{text}, for no job");
        self.auditor.note("move refused");
    }

    /// A look at places, or a removal by body.
    pub fn look_at_list(&mut self, request: &Request<'static>) {
        let none = ModelQueue::default();
        let queue = |check: &Self, key| {
            let queue = check.auditor.model.queues.get(&key).unwrap_or(&none);
            let listed = queue.listed().into_iter();
            listed.map(|id| (id, queue.jobs[id].body)).collect::<Vec<_>>()
        };
        let of = |name: QueueName<'static>| (name.db.0, name.name);
        if let Some(said) = self.said_unsure(request) {
            return self.reply = Some(said);
        }
        let said = match *request {
            Request::Range { queue: name, start, stop } => {
                let jobs = queue(self, of(name));
                let count = jobs.len() as i64;
                let from = |place: i64| if place < 0 { place + count } else { place };
                let (start, stop) = (from(start).max(0), from(stop).min(count - 1));
                let range = if start <= stop { start as usize..stop as usize + 1 } else { 0..0 };
                Said::Bodies(jobs[range].iter().map(|job| job.1).collect())
            }
            Request::At { queue: name, place } => {
                let jobs = queue(self, of(name));
                let place = if place < 0 { place + jobs.len() as i64 } else { place };
                let job = usize::try_from(place).ok().and_then(|place| jobs.get(place));
                job.map_or(Said::Nil, |job| Said::Body(job.1))
            }
            Request::Find(ref find) => {
                let jobs = queue(self, of(find.queue));
                let places = places(&jobs, find);
                match find.count {
                    Some(_) => Said::Places(places),
                    None => places.first().map_or(Said::Nil, |place| Said::Integer(*place)),
                }
            }
            Request::DeleteEqual { queue: name, body, from, count } => {
                let jobs = queue(self, of(name));
                let most = if count == 0 { usize::MAX } else { count as usize };
                let mut equal: Vec<Kept> =
                    jobs.iter().filter(|job| job.1 == body).map(|job| job.0).collect();
                if from == Side::Right {
                    equal.reverse();
                }
                equal.truncate(most);
                if equal.len() as u64 > COUNT_MAX {
                    return self.refused("ERR more than");
                }
                let removed = equal.iter().filter(|id| self.delete(of(name), id)).count();
                assert_eq!(removed, equal.len());
                self.auditor.note("removed by body");
                return self.reply = Some(Said::Integer(removed as i64));
            }
            _ => unreachable!("no look at a list"),
        };
        self.reply = Some(said);
        self.auditor.note("looked at");
    }

    /// What is answered, if nobody can tell whose turn it is.
    pub fn said_unsure(&mut self, request: &Request<'static>) -> Option<Said> {
        let Input::Request { client, .. } = self.step.input else { return None };
        let mut unsure = false;
        request.for_each_queue(|queue| {
            let queue = self.auditor.model.queues.get(&(queue.db.0, queue.name));
            unsure |= queue.is_some_and(|queue| queue.sharing.is_unsure);
        });
        if let (true, Request::DeleteEqual { queue, body, .. }) = (unsure, request) {
            let key = (queue.db.0, queue.name);
            for fact in self.step.facts.iter().map(|fact| fact.expect("readable")) {
                let Fact::Deleted { id, .. } = fact else { continue };
                let id = keep(id);
                assert_eq!(self.model().job(key, id).map(|job| job.body), Some(*body));
                assert!(self.delete(key, id));
            }
        }
        let said = self.step.replies.iter().find(|(to, _)| *to == client);
        said.filter(|_| unsure).map(|(_, said)| said.clone())
    }

    /// The bytes of facts without room for which a removal by body is refused.
    pub fn removal_bytes(&self, request: &Request<'static>) -> u64 {
        let Request::DeleteEqual { queue, body, from, count } = *request else { unreachable!() };
        let one = Request::DeleteEqual { queue, body, from, count: 1 };
        let most = if count == 0 { usize::MAX } else { count as usize };
        let found = self.auditor.model.queues.get(&(queue.db.0, queue.name));
        let equal = found.into_iter().flat_map(|found| {
            let equal = |id: &Kept| found.jobs[id].body == body;
            let ids: Vec<Kept> = found.listed().into_iter().filter(equal).collect();
            let left_out = ids.len().saturating_sub(most);
            match from {
                Side::Left => ids[..ids.len() - left_out].to_vec(),
                Side::Right => ids[left_out..].to_vec(),
            }
        });
        let bytes = equal.map(|id| deleting_bytes(id.len())).sum::<u64>();
        bytes.max(Bound::of(&one).unwrap_or_default().bytes())
    }

    /// How a request takes, if this is about its own request.
    pub fn own_taking(&self, client: ClientId) -> Option<Taking> {
        self.own_wish(client).map(|(taking, ..)| taking)
    }

    fn own_wish(&self, client: ClientId) -> Option<(Taking, Vec<QueueKey>, Option<u64>)> {
        let Input::Request { client: requester, request, .. } = self.step.input else {
            return None;
        };
        (requester == client).then(|| decide::taking(request)).flatten()
    }
}

fn places(jobs: &[(Kept, Kept)], find: &Find<'static>) -> Vec<i64> {
    let most = if find.inspected_max == 0 { usize::MAX } else { find.inspected_max as usize };
    let mut all: Vec<(i64, Kept)> = (0..).zip(jobs.iter().map(|job| job.1)).collect();
    if find.from == Side::Right {
        all.reverse();
    }
    let equal = all.into_iter().take(most).filter(|(_, body)| *body == find.body);
    let wanted = match find.count {
        None => 1,
        Some(0) => usize::MAX,
        Some(count) => count as usize,
    };
    equal.map(|(place, _)| place).skip(find.skipped as usize).take(wanted).collect()
}

/// The reply to a move names no job, so what is moved was once taken for the job of the same id that came after it.
#[test]
fn an_id_that_was_moved_away_is_used_again_in_the_step() {
    let mut world = World::new(1, true);
    (0..3).for_each(|_| world.connect());
    world.engine.settings_mut().memory_bytes_max = 0;
    let from = QueueName { db: Db(0), name: keep(b"from") };
    let ask = |world: &mut World, at: u64, request: Request<'static>| {
        let request = &request;
        world.call(Input::Request { client: ClientId(at), request, alone: true }).0
    };
    let (take, put) = (Side::Left, Side::Left);
    let wait = Wait::Forever;
    let moving = Move { db: from.db, from: from.name, to: keep(b"to"), take, put, wait };
    assert_eq!(ask(&mut world, 1, Request::Move(moving)), Some(Outcome::Waiting));
    let pop = Request::Pop { db: from.db, queues: keep_list(&[from.name]), wait };
    assert_eq!(ask(&mut world, 2, pop), Some(Outcome::Waiting));
    // Whoever took the id away leaves its window behind.
    let add = |when| Add {
        id: Some(keep(b"id")),
        taken: Taken::Replace,
        unique_ms: 60_000,
        ..Add::new(from, when, keep(b"body"))
    };
    ask(&mut world, 3, Request::Add(add(When::In(10))));
    world.now = Micros(world.now.0 + 20_000);
    ask(&mut world, 3, Request::Add(add(When::In(0))));
    let to: Vec<u64> = world.record.replies.iter().map(|(client, _)| client.0).collect();
    assert_eq!(to, [3, 1, 3, 2]);
    world.end_turn();
}
