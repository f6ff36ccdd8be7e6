//! Going through the ready jobs as a list: LRANGE, LINDEX, LPOS, LREM.
//!
//! A list may have a million jobs, so all of these go on in slices; the walk of [`ReadyOrder`] keeps
//! their place while the list changes. What is answered was there when the search came to it. LREM
//! removes at its end, in one step, what it has found and is still there.
//!
//! [`ReadyOrder`]: crate::engine::store::ready::ReadyOrder

use crate::engine::model::fact::Fact;
use crate::engine::model::reply::Reply;
use crate::engine::model::request::{Find, QueueName, Side, State};
use crate::engine::model::turn::Outcome;
use crate::engine::room::deleting_bytes;
use crate::engine::step::Step;
use crate::engine::step::unfinished::{Found, Search, Unfinished};
use crate::engine::store::Located;
use crate::engine::store::jobs::{Job, JobIndex, Stage};
use crate::error::Error;
use crate::ids::QueueNo;
use crate::limits::{COUNT_MAX, REPLY_BYTES_MAX, SEARCH_STEPS_PER_TURN};

/// Bytes counted for a body in a reply beside its own.
pub(in crate::engine) const BODY_COST: usize = 24;

/// Bytes of bodies in one reply: as those of KEYS.
pub(in crate::engine) const BODIES_BYTES_MAX: usize = REPLY_BYTES_MAX * 4;

/// What a slice of a range came to.
enum Sliced {
    /// All that is wanted was met; these last.
    Done(Vec<JobIndex>),
    More,
    TooLarge,
}

impl Step<'_, '_> {
    pub fn range(&mut self, name: QueueName<'_>, start: i64, stop: i64) -> Outcome {
        let Some(search) = self.range_search(name, start, stop) else {
            return self.reply(Reply::Bodies(&[]));
        };
        let (search, last) = match self.slice_range(search) {
            Ok(done) => done,
            Err(outcome) => return outcome,
        };
        let store = &*self.store;
        let last = last.iter().map(|index| store.jobs().body(*index));
        let mut bodies: Vec<&[u8]> = search.bodies.iter().map(|body| &**body).chain(last).collect();
        if search.from == Side::Right {
            bodies.reverse();
        }
        self.turn.outbox.reply(self.client, Reply::Bodies(&bodies));
        Outcome::Replied
    }

    pub fn at(&mut self, name: QueueName<'_>, place: i64) -> Outcome {
        let Some(search) = self.range_search(name, place, place) else {
            return self.reply(Reply::Nil);
        };
        let (search, last) = match self.slice_range(search) {
            Ok(done) => done,
            Err(outcome) => return outcome,
        };
        let store = &*self.store;
        let last = last.first().map(|index| store.jobs().body(*index));
        let body = search.bodies.first().map(|body| &**body).or(last);
        self.turn.outbox.reply(self.client, body.map_or(Reply::Nil, Reply::Body));
        Outcome::Replied
    }

    /// The search for a range, begun or half done; none if the range is empty.
    fn range_search(&mut self, name: QueueName<'_>, start: i64, stop: i64) -> Option<Box<Search>> {
        let queue = self.queue(name);
        if let Some(search) = self.go_on(queue) {
            return Some(search);
        }
        let queue = queue?;
        let count = self.store.queue(queue).count(State::Ready) as i64;
        let from_left = |place: i64| if place < 0 { place.saturating_add(count) } else { place };
        let start = from_left(start).max(0);
        let last = from_left(stop).min(count - 1);
        if start > last {
            return None;
        }
        // From the nearer side.
        let behind = count - 1 - last;
        let (from, skipped) =
            if start <= behind { (Side::Left, start) } else { (Side::Right, behind) };
        let mut search = self.begin(queue, from);
        (search.skipped, search.wanted) = (skipped as u64, (last - start + 1) as u64);
        Some(search)
    }

    /// A slice of a range: the search and the last jobs of it when it is over.
    fn slice_range(
        &mut self,
        search: Box<Search>,
    ) -> Result<(Box<Search>, Vec<JobIndex>), Outcome> {
        let mut search = search;
        match self.collect(&mut search) {
            Sliced::Done(last) => {
                self.end_walk(&search);
                Ok((search, last))
            }
            Sliced::More => Err(self.suspend(search)),
            Sliced::TooLarge => {
                self.end_walk(&search);
                Err(self.refuse(&Error::text(format!(
                    "ERR the reply would have more than {BODIES_BYTES_MAX} bytes; ask for a \
                     shorter range"
                ))))
            }
        }
    }

    fn collect(&mut self, search: &mut Search) -> Sliced {
        let (client, mut steps) = (self.client, self.search_steps());
        let (ready, jobs, chunks) = self.store.walked(search.queue);
        let mut fresh: Vec<JobIndex> = Vec::new();
        loop {
            let passed = ready.passed(client);
            let enough = (search.bodies.len() + fresh.len()) as u64 >= search.wanted;
            if enough {
                return Sliced::Done(fresh);
            }
            if steps == 0 {
                let kept = fresh.iter().map(|index| Box::from(jobs.body(*index)));
                search.bodies.extend(kept);
                return Sliced::More;
            }
            steps -= 1;
            if passed < search.skipped && search.bodies.is_empty() && fresh.is_empty() {
                if !ready.leap(client, search.skipped - passed, jobs, chunks) {
                    return Sliced::Done(fresh);
                }
                continue;
            }
            let Some(index) = ready.step(client, jobs, chunks) else {
                return Sliced::Done(fresh);
            };
            let bytes = jobs.get(index).body_bytes();
            search.bytes += bytes + BODY_COST;
            if search.bytes > BODIES_BYTES_MAX && search.wanted > 1 {
                return Sliced::TooLarge;
            }
            steps = steps.saturating_sub(bytes as u64 / 1024);
            fresh.push(index);
        }
    }

    pub fn find_equal(&mut self, find: &Find<'_>) -> Outcome {
        let nothing = if find.count.is_some() { Reply::Places(&[]) } else { Reply::Nil };
        let queue = self.queue(find.queue);
        let search = self.go_on(queue).or_else(|| Some(self.begin(queue?, find.from)));
        let Some(mut search) = search else { return self.reply(nothing) };
        let wanted = match find.count {
            None => 1,
            Some(0) => u64::MAX,
            Some(count) => count,
        };
        let most = if find.looked_at_max > 0 { find.looked_at_max } else { u64::MAX };
        let mut steps = self.search_steps();
        let client = self.client;
        while (search.places.len() as u64) < wanted && search.looked_at < most {
            if steps == 0 {
                return self.suspend(search);
            }
            let Some(index) = self.step_of(&search, find.body, &mut steps) else { break };
            search.looked_at += 1;
            let Some(_) = index else { continue };
            search.equal += 1;
            if search.equal <= find.skipped {
                continue;
            }
            let passed = self.store.walked(search.queue).0.passed(client);
            let queue = self.store.queue(search.queue);
            let place = match find.from {
                Side::Left => passed - 1,
                Side::Right => queue.count(State::Ready) - passed,
            };
            search.places.push(place as i64);
            if search.places.len() as u64 > COUNT_MAX {
                self.end_walk(&search);
                return self.refuse(&Error::text(format!(
                    "ERR more than {COUNT_MAX} jobs are equal; name a COUNT of at most {COUNT_MAX}"
                )));
            }
        }
        self.end_walk(&search);
        self.reply(match find.count {
            Some(_) => Reply::Places(&search.places),
            None => search.places.first().map_or(Reply::Nil, |place| Reply::Integer(*place)),
        })
    }

    pub fn delete_equal(
        &mut self,
        name: QueueName<'_>,
        body: &[u8],
        from: Side,
        count: u64,
    ) -> Outcome {
        let queue = self.queue(name);
        let search = self.go_on(queue).or_else(|| Some(self.begin(queue?, from)));
        let Some(mut search) = search else { return self.reply(Reply::Integer(0)) };
        let wanted = if count == 0 { u64::MAX } else { count };
        let mut steps = self.search_steps();
        // Who was found in an earlier slice may have been taken since.
        self.forget_gone(&mut search);
        while (search.found.len() as u64) < wanted {
            if steps == 0 {
                return self.suspend(search);
            }
            let Some(index) = self.step_of(&search, body, &mut steps) else { break };
            let Some(index) = index else { continue };
            let place = self.store.jobs().get(index).order;
            search.found.push(Found { index, place });
            if search.found.len() as u64 > COUNT_MAX {
                self.end_walk(&search);
                return self.refuse(&Error::text(format!(
                    "ERR more than {COUNT_MAX} jobs are equal; name a count of at most {COUNT_MAX}"
                )));
            }
        }
        self.end_walk(&search);
        self.delete_found(&search)
    }

    fn delete_found(&mut self, search: &Search) -> Outcome {
        let store = &*self.store;
        let bytes = |found: &Found| deleting_bytes(store.jobs().get(found.index).id_bytes());
        if !self.live.gate.lets_end(search.found.iter().map(bytes).sum()) {
            return self.refuse(&self.live.gate.shortage().into());
        }
        for found in &search.found {
            let id = self.store.id_of(found.index);
            let at: Located = self.store.located(found.index);
            self.commit(&Fact::Deleted { queue: search.queue, id: &id }, at);
        }
        self.reply(Reply::Integer(search.found.len() as i64))
    }

    /// The next job if its body is `body`; none at the end.
    fn step_of(
        &mut self,
        search: &Search,
        body: &[u8],
        steps: &mut u64,
    ) -> Option<Option<JobIndex>> {
        let (ready, jobs, chunks) = self.store.walked(search.queue);
        let index = ready.step(self.client, jobs, chunks)?;
        *steps -= 1;
        if jobs.get(index).body_bytes() != body.len() {
            return Some(None);
        }
        *steps = steps.saturating_sub(body.len() as u64 / 1024);
        Some((jobs.body(index) == body).then_some(index))
    }

    /// A transaction cannot be interrupted. What it may look at is bounded before.
    fn search_steps(&self) -> u64 {
        if self.alone { SEARCH_STEPS_PER_TURN } else { u64::MAX }
    }

    fn begin(&mut self, queue: QueueNo, from: Side) -> Box<Search> {
        self.store.walked(queue).0.begin_walk(self.client, from);
        Box::new(Search::new(queue, self.store.queue(queue).born, from))
    }

    /// The client's search, if it is one of this queue. What became of another is of no use.
    fn go_on(&mut self, queue: Option<QueueNo>) -> Option<Box<Search>> {
        let search = match self.live.unfinished.remove(&self.client)? {
            Unfinished::Search(search) => search,
            _ => return None,
        };
        let at = queue.map(|queue| self.store.queue(queue));
        if at.is_some_and(|at| at.number == search.queue && at.born == search.born) {
            return Some(search);
        }
        self.end_walk(&search);
        None
    }

    fn suspend(&mut self, search: Box<Search>) -> Outcome {
        self.live.unfinished.insert(self.client, Unfinished::Search(search));
        Outcome::Again
    }

    fn end_walk(&mut self, search: &Search) {
        search.end_walk(self.store, self.client);
    }

    fn forget_gone(&self, search: &mut Search) {
        let queue = self.store.queue(search.queue);
        search.found.retain(|found| {
            let job = self.store.jobs().find(found.index);
            let same = |job: &&Job| job.stage == Stage::Ready && job.order == found.place;
            job.as_ref().is_some_and(same) && self.store.is_indexed(queue, found.index)
        });
    }
}
