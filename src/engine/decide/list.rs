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
use crate::engine::room::deleting_bytes;
use crate::engine::store::Located;
use crate::engine::store::jobs::{Job, JobIndex, Stage};
use crate::engine::{Engine, IdBytes, Outcome, Step};
use crate::error::Error;
use crate::ids::{ClientId, QueueNo};
use crate::limits::{COUNT_MAX, REPLY_BYTES_MAX, SEARCH_STEPS_PER_TURN};

/// Bytes counted for a body in a reply beside its own.
pub(in crate::engine) const BODY_COST: usize = 24;

/// Bytes of bodies in one reply: as those of KEYS.
pub(in crate::engine) const BODIES_BYTES_MAX: usize = REPLY_BYTES_MAX * 4;

/// A search that is half done.
#[derive(Debug)]
pub struct Search {
    queue: QueueNo,
    /// Which binding of the number it was.
    born: u64,
    from: Side,
    /// Of a range: how many jobs are passed over, and how many are wanted.
    skipped: u64,
    wanted: u64,
    /// Bodies of the range.
    bodies: Vec<Box<[u8]>>,
    bytes: usize,
    /// How many jobs were looked at, and how many of them were equal to what is looked for.
    looked_at: u64,
    equal: u64,
    /// Places of equal ones.
    places: Vec<i64>,
    /// Equal ones that are to be removed.
    found: Vec<Found>,
}

/// A ready job, told from others that may have its number later: a place is given once.
#[derive(Clone, Copy, Debug)]
struct Found {
    index: JobIndex,
    place: i64,
}

impl Search {
    fn new(queue: QueueNo, born: u64, from: Side) -> Search {
        Search {
            queue,
            born,
            from,
            skipped: 0,
            wanted: 0,
            bodies: Vec::new(),
            bytes: 0,
            looked_at: 0,
            equal: 0,
            places: Vec::new(),
            found: Vec::new(),
        }
    }
}

impl Search {
    /// Whether it goes through this queue.
    pub(in crate::engine) fn is_of(&self, queue: QueueNo) -> bool {
        self.queue == queue
    }
}

/// What a slice of a range came to.
enum Sliced {
    /// All that is wanted was met; these last.
    Done(Vec<JobIndex>),
    More,
    TooLarge,
}

impl Step<'_, '_> {
    pub(in crate::engine) fn range(
        &mut self,
        name: QueueName<'_>,
        start: i64,
        stop: i64,
    ) -> Outcome {
        let Some(search) = self.range_search(name, start, stop) else {
            return self.reply(Reply::Bodies(&[]));
        };
        let (search, last) = match self.slice_range(search) {
            Ok(done) => done,
            Err(outcome) => return outcome,
        };
        let store = &self.engine.store;
        let last = last.iter().map(|index| store.jobs.body(*index));
        let mut bodies: Vec<&[u8]> = search.bodies.iter().map(|body| &**body).chain(last).collect();
        if search.from == Side::Right {
            bodies.reverse();
        }
        self.turn.outbox.reply(self.client, Reply::Bodies(&bodies));
        Outcome::Replied
    }

    pub(in crate::engine) fn at(&mut self, name: QueueName<'_>, place: i64) -> Outcome {
        let Some(search) = self.range_search(name, place, place) else {
            return self.reply(Reply::Nil);
        };
        let (search, last) = match self.slice_range(search) {
            Ok(done) => done,
            Err(outcome) => return outcome,
        };
        let store = &self.engine.store;
        let last = last.first().map(|index| store.jobs.body(*index));
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
        let count = self.engine.store.queue(queue).count(State::Ready) as i64;
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
                self.engine.end_walk(&search, self.client);
                Ok((search, last))
            }
            Sliced::More => Err(self.suspend(search)),
            Sliced::TooLarge => {
                self.engine.end_walk(&search, self.client);
                Err(self.refuse(&Error::text(format!(
                    "ERR the reply would have more than {BODIES_BYTES_MAX} bytes; ask for a \
                     shorter range"
                ))))
            }
        }
    }

    fn collect(&mut self, search: &mut Search) -> Sliced {
        let (client, mut steps) = (self.client, self.search_steps());
        let (queue, jobs, _, chunks) = self.engine.store.parts(search.queue);
        let ready = &mut queue.ready;
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

    pub(in crate::engine) fn find_equal(&mut self, find: &Find<'_>) -> Outcome {
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
            let queue = self.engine.store.queue_mut(search.queue);
            let passed = queue.ready.passed(client);
            let place = match find.from {
                Side::Left => passed - 1,
                Side::Right => queue.count(State::Ready) - passed,
            };
            search.places.push(place as i64);
            if search.places.len() as u64 > COUNT_MAX {
                self.engine.end_walk(&search, client);
                return self.refuse(&Error::text(format!(
                    "ERR more than {COUNT_MAX} jobs are equal; name a COUNT of at most {COUNT_MAX}"
                )));
            }
        }
        self.engine.end_walk(&search, client);
        self.reply(match find.count {
            Some(_) => Reply::Places(&search.places),
            None => search.places.first().map_or(Reply::Nil, |place| Reply::Integer(*place)),
        })
    }

    pub(in crate::engine) fn delete_equal(
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
        let client = self.client;
        // Who was found in an earlier slice may have been taken since.
        self.engine.forget_gone(&mut search);
        while (search.found.len() as u64) < wanted {
            if steps == 0 {
                return self.suspend(search);
            }
            let Some(index) = self.step_of(&search, body, &mut steps) else { break };
            let Some(index) = index else { continue };
            let place = self.engine.store.jobs.get(index).order;
            search.found.push(Found { index, place });
            if search.found.len() as u64 > COUNT_MAX {
                self.engine.end_walk(&search, client);
                return self.refuse(&Error::text(format!(
                    "ERR more than {COUNT_MAX} jobs are equal; name a count of at most {COUNT_MAX}"
                )));
            }
        }
        self.engine.end_walk(&search, client);
        self.delete_found(&search)
    }

    fn delete_found(&mut self, search: &Search) -> Outcome {
        let store = &self.engine.store;
        let bytes = |found: &Found| deleting_bytes(store.jobs.get(found.index).id_bytes());
        if !self.engine.gate.lets_end(search.found.iter().map(bytes).sum()) {
            return self.refuse(&self.engine.gate.shortage().into());
        }
        for found in &search.found {
            let id: IdBytes = self.engine.id_of(found.index);
            let at: Located = self.engine.located(found.index);
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
        let (queue, jobs, _, chunks) = self.engine.store.parts(search.queue);
        let index = queue.ready.step(self.client, jobs, chunks)?;
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
        let at = self.engine.store.queue_mut(queue);
        at.ready.begin_walk(self.client, from);
        Box::new(Search::new(queue, at.born, from))
    }

    /// The client's search, if it is one of this queue. What became of another is of no use.
    fn go_on(&mut self, queue: Option<QueueNo>) -> Option<Box<Search>> {
        let search = self.engine.searches.remove(&self.client)?;
        let at = queue.map(|queue| self.engine.store.queue(queue));
        if at.is_some_and(|at| at.number == search.queue && at.born == search.born) {
            return Some(search);
        }
        self.engine.end_walk(&search, self.client);
        None
    }

    fn suspend(&mut self, search: Box<Search>) -> Outcome {
        self.engine.searches.insert(self.client, search);
        Outcome::Again
    }
}

impl Engine {
    /// The client asks for nothing more.
    pub(in crate::engine) fn end_search(&mut self, client: ClientId) {
        if let Some(search) = self.searches.remove(&client) {
            self.end_walk(&search, client);
        }
    }

    fn end_walk(&mut self, search: &Search, client: ClientId) {
        let queue = self.store.bound_queue(search.queue);
        if queue.is_some_and(|queue| queue.born == search.born) {
            self.store.queue_mut(search.queue).ready.end_walk(client);
        }
    }

    fn forget_gone(&self, search: &mut Search) {
        let queue = self.store.queue(search.queue);
        search.found.retain(|found| {
            let job = self.store.jobs.find(found.index);
            let same = |job: &&Job| job.stage == Stage::Ready && job.order == found.place;
            job.as_ref().is_some_and(same) && self.store.is_indexed(queue, found.index)
        });
    }
}
