//! The durable state of a partition: what a replay of the facts gives back.
//!
//! Changed by [`Store::apply`] alone (`apply.rs`). What is derived from it (the queues' wake-ups,
//! memory counts) is kept here too, since it changes with it.

pub(super) mod ages;
pub(super) mod apply;
mod digest;
pub(super) mod jobs;
mod lower;
pub(super) mod memory;
pub(super) mod pace;
pub(super) mod purged;
pub(super) mod queue;
pub(super) mod ready;
mod remains;
pub(super) mod snapshot;
mod tidy;
mod view;

use std::collections::VecDeque;

use crate::engine::model::policy::Policy;
use crate::engine::model::request::State;
use crate::engine::model::settings::Settings;
use crate::engine::store::ages::{Ages, Oldest};
use crate::engine::store::jobs::hash::{Hasher, wide};
use crate::engine::store::jobs::index::Table;
use crate::engine::store::jobs::policies::Policies;
use crate::engine::store::jobs::slots::Numbered;
use crate::engine::store::jobs::{HISTORY_BYTES, JobIndex, Jobs, Stage};
use crate::engine::store::memory::job_bytes;
use crate::engine::store::queue::{NEVER, Queue};
use crate::engine::store::remains::Graveyard;
use crate::engine::store::snapshot::{Bases, record};
use crate::engine::store::tidy::Tidying;
use crate::ids::{DATABASES, Db, QueueNo, Token};
use crate::pool::Pool;
use crate::time::{Micros, Millis};
use crate::wheel::list::Chunks;
use crate::wheel::{Peek, Timers, Wheel};
use smallvec::SmallVec;

/// See the module.
#[derive(Debug)]
pub struct Store {
    /// Jobs by number.
    pub jobs: Jobs,
    /// Their timers.
    pub timers: Timers,
    /// What ready orders and lists of dead letters are made of.
    pub chunks: Chunks,
    /// Interned policies.
    pub policies: Policies,
    pub(super) databases: [Database; DATABASES as usize],
    hasher: Hasher,
    /// Bytes counted for jobs and queues: follows from what there is, not from how it came about.
    pub bytes: u64,
    /// Those of them that are counted for jobs.
    pub(super) job_bytes: u64,
    /// Bytes held for the id indexes of all queues, those included that are removed.
    pub(super) index_bytes: usize,
    /// Giving back what freed jobs leave behind. Volatile.
    pub(super) tidying: Tidying,
    /// The greatest number used for a token or an id.
    pub number: u64,
    /// Removed queues that are not freed yet.
    pub(super) graveyard: Graveyard,
    /// Removed queues that the running base file may still need.
    pub(super) kept: Graveyard,
    /// Base files.
    pub(super) bases: Bases,
    /// Bytes of the images of all policies.
    pub(super) policy_image_bytes: u64,
    /// Queues bound so far.
    pub(super) births: u64,
    /// Queues of which something was purged that is not freed yet, by number and birth; some may be
    /// removed.
    pub(super) purging: VecDeque<(QueueNo, u64)>,
    /// When the running leases began. Volatile.
    pub(super) ages: Ages,
}

/// The queues of a database. All that names or times them is here, so that a flush takes it out in
/// one piece, however many there are.
#[derive(Debug, Default)]
pub(super) struct Database {
    /// By the part of their number that [`place_of`] gives.
    pub(super) queues: Numbered<Box<Queue>>,
    /// Queue numbers by name.
    names: Table,
    /// One timer per queue, for its next wake-up.
    wakes: Timers,
    /// The places behind their keys. Keys of their own, so that one high number costs no cells for
    /// all the numbers below.
    wake_keys: Pool<u32, 1024>,
    wake_wheel: Wheel,
    /// Bytes of the images of all queues and their jobs in a base file.
    pub(super) image_bytes: u64,
    /// How many queues exist.
    pub(super) existing: u64,
    /// Jobs by state.
    pub(super) counts: [u64; 4],
    /// Queues that lost their last job, about in that order; some may have one again or be removed.
    idle: VecDeque<Idle>,
}

/// A queue that lost its last job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    pub(super) queue: QueueNo,
    /// Which binding of the number it was.
    pub(super) born: u64,
    /// When it was last used, as far as is known here.
    pub(super) since: Millis,
}

/// Steps of a budget that freeing a queue costs beside its jobs.
const GRAVE_STEPS: u32 = 8;

/// A queue's number tells its database and its place there.
pub(super) fn place_of(number: QueueNo) -> (usize, u32) {
    let databases = u32::from(DATABASES);
    ((number.0 % databases) as usize, number.0 / databases)
}

pub(super) fn number_at(db: usize, place: u32) -> QueueNo {
    let number = place as usize * usize::from(DATABASES) + db;
    QueueNo(number.try_into().expect("a database has less than 2^28 queues"))
}

/// Where a job was found.
#[derive(Clone, Copy, Debug)]
pub struct Located {
    /// The hash of its id.
    pub hash: u32,
    /// Its number; none if the id is free.
    pub index: Option<JobIndex>,
}

impl Located {
    /// No job is meant.
    pub const NOTHING: Located = Located { hash: 0, index: None };
}

/// Owned id bytes, while the job they belong to changes. Most ids fit without an allocation.
type IdBytes = SmallVec<[u8; 64]>;

impl Store {
    /// Nothing in it.
    pub fn new(settings: &Settings) -> Store {
        let hasher = Hasher::new(settings.hash_seed);
        Store {
            jobs: Jobs::default(),
            timers: Timers::new(),
            chunks: Chunks::new(),
            policies: Policies::new(hasher.state()),
            databases: Default::default(),
            hasher,
            bytes: 0,
            job_bytes: 0,
            index_bytes: 0,
            tidying: Tidying::new(settings.spare_bytes_min, settings.spare_quiet_ms),
            number: 0,
            graveyard: Graveyard::default(),
            kept: Graveyard::default(),
            bases: Bases::default(),
            policy_image_bytes: 0,
            births: 0,
            purging: VecDeque::new(),
            ages: Ages::default(),
        }
    }

    /// The number of the queue with this name.
    pub fn queue_no(&self, db: Db, name: &[u8]) -> Option<QueueNo> {
        let hash = self.hasher.name(name);
        let found = self.database(db).names.find(wide(hash), |number| {
            self.bound_queue(QueueNo(number)).is_some_and(|queue| *queue.name == *name)
        });
        found.map(QueueNo)
    }

    /// The queue behind a number that is bound.
    pub fn queue(&self, number: QueueNo) -> &Queue {
        self.bound_queue(number).expect("the queue's number is bound")
    }

    /// The queue behind a number that is bound, to change.
    pub fn queue_mut(&mut self, number: QueueNo) -> &mut Queue {
        bound_in(&mut self.databases, number)
    }

    /// The queue behind a number, if it is bound.
    pub fn bound_queue(&self, number: QueueNo) -> Option<&Queue> {
        let (db, place) = place_of(number);
        self.databases[db].queues.get(place).map(|queue| &**queue)
    }

    /// All bound queues.
    pub fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.databases.iter().flat_map(|database| database.queues.iter().map(|(_, queue)| &**queue))
    }

    /// The number that the next new queue of a database is to have: the lowest that is free.
    pub fn next_queue_no(&self, db: Db) -> QueueNo {
        number_at(usize::from(db.0), self.database(db).queues.lowest_free())
    }

    /// A database's queues.
    pub(super) fn database(&self, db: Db) -> &Database {
        &self.databases[usize::from(db.0)]
    }

    /// A database's queues, to change.
    pub(super) fn database_mut(&mut self, db: Db) -> &mut Database {
        &mut self.databases[usize::from(db.0)]
    }

    /// How many queues exist in each database.
    pub fn existing(&self) -> [u64; DATABASES as usize] {
        std::array::from_fn(|db| self.databases[db].existing)
    }

    /// Bytes that jobs take more once all have been delivered, with so many new ones; or, looking no closer,
    /// 0 if they are not more than `enough`.
    pub fn lease_bytes_to_come(&self, enough: u64, new: u64) -> u64 {
        let most = self.jobs.count() as u64 + new;
        if most * HISTORY_BYTES as u64 <= enough {
            return 0;
        }
        let jobs = self.counts().iter().sum::<u64>() + new;
        // Removed jobs that are not freed yet may have some of them.
        jobs.saturating_sub(self.jobs.history_count() as u64) * HISTORY_BYTES as u64
    }

    /// Jobs by state, all queues.
    pub fn counts(&self) -> [u64; 4] {
        std::array::from_fn(|state| self.databases.iter().map(|db| db.counts[state]).sum())
    }

    /// How many queues have a name in a database, those without a job included.
    pub fn name_count(&self, db: Db) -> usize {
        self.database(db).queues.len()
    }

    /// Jobs of a database, or of all.
    pub fn job_count(&self, db: Option<Db>) -> u64 {
        match db {
            Some(db) => self.database(db).counts.iter().sum(),
            None => self.counts().iter().sum(),
        }
    }

    /// The first queue from a place of a database on, with its own.
    pub fn next_queue_from(&self, db: usize, place: u32) -> Option<(QueueNo, usize, u32)> {
        let from = |at| if at == db { place } else { 0 };
        (db..usize::from(DATABASES)).find_map(|at| {
            let found = self.databases[at].queues.next_from(from(at))?;
            Some((number_at(at, found), at, found))
        })
    }

    /// When the oldest running lease began.
    pub fn oldest_lease(&self) -> Oldest {
        match self.counts() {
            [_, _, 0, _] => Oldest::None,
            _ => self.ages.oldest(),
        }
    }

    /// Whether what is known of running leases is what there is of them.
    pub fn knows_its_leases(&self) -> bool {
        let [_, _, leased, _] = self.counts();
        self.has_removed() || self.ages.count() == leased
    }

    /// Visits the numbers of queues of a database as [`Table::scan`] does.
    pub fn scan_queues<'s>(
        &'s self,
        db: Db,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(&'s Queue),
    ) -> u64 {
        let hash_of = |number| wide(self.hasher.name(&self.queue(QueueNo(number)).name));
        let names = &self.database(db).names;
        names.scan(cursor, count, hash_of, |number| visit(self.queue(QueueNo(number))))
    }

    /// Visits the jobs and windows of a queue as [`Table::scan`] does.
    pub fn scan_jobs(
        &self,
        queue: &Queue,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(JobIndex),
    ) -> u64 {
        let hash_of = |index| wide(self.jobs.get(index).hash);
        queue.table.scan(cursor, count, hash_of, |index| {
            if !queue.has_purged(&self.jobs, index) {
                visit(index);
            }
        })
    }

    /// How ids and names are hashed.
    pub fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    /// Looks an id up. Cost: one hash, three cache misses when it is there.
    pub fn locate(&self, queue: QueueNo, id: &[u8]) -> Located {
        let hash = self.hasher.id(id);
        let of_queue = self.queue(queue);
        let index = of_queue.table.find(wide(hash), |index| {
            let job = self.jobs.get(index);
            job.hash == hash && self.jobs.id(index) == id && !of_queue.has_purged(&self.jobs, index)
        });
        Located { hash, index }
    }

    /// Where a job stands that is known by its number.
    pub fn located(&self, index: JobIndex) -> Located {
        Located { hash: self.jobs.get(index).hash, index: Some(index) }
    }

    pub fn id_of(&self, index: JobIndex) -> IdBytes {
        IdBytes::from_slice(self.jobs.id(index))
    }

    /// Whether this very lease is running.
    pub fn is_lease(&self, queue: QueueNo, index: JobIndex, token: Token) -> bool {
        // Tokens never repeat, so a number used again for another job does not fool this; a queue
        // that was removed is unbound or bound anew, without this job.
        let Some(queue) = self.bound_queue(queue) else { return false };
        self.jobs.find(index).is_some_and(|job| job.stage == Stage::Leased)
            && self.jobs.history(index).is_some_and(|history| history.token == token.0)
            && self.is_indexed(queue, index)
    }

    /// The dead letter that has been one for the longest.
    pub fn oldest_dead(&self, queue: QueueNo) -> Option<JobIndex> {
        let queue = self.queue(queue);
        let dead = queue.count(State::Dead) > 0;
        dead.then(|| queue.dead.front(&self.chunks)).flatten().map(|(index, _)| index)
    }

    /// Whether the number stands in the queue's index.
    pub fn is_indexed(&self, queue: &Queue, index: JobIndex) -> bool {
        let hash = wide(self.jobs.get(index).hash);
        let found = queue.table.find(hash, |other| other == index);
        found.is_some() && !queue.has_purged(&self.jobs, index)
    }

    /// The job's policy.
    pub fn policy(&self, index: JobIndex) -> &Policy {
        self.policies.get(self.jobs.policy(index))
    }

    /// The job's due time.
    pub fn due(&self, index: JobIndex) -> Millis {
        if let Some(history) = self.jobs.history(index) {
            return history.due;
        }
        let timer = self.timers.due(index);
        let job = self.jobs.get(index);
        if job.stage == Stage::Ready && self.timers.is_armed(index) {
            // The timer of a ready job is its expiry, which is its due time plus its TTL.
            return Millis(timer.0 - self.policies.get(job.policy()).ttl_ms);
        }
        timer
    }

    /// When a ready or delayed job expires, if it can.
    pub fn expiry(&self, index: JobIndex) -> Option<Millis> {
        let ttl_ms = self.policy(index).ttl_ms;
        let delivered = self.jobs.history(index).is_some_and(|history| history.deliveries > 0);
        (ttl_ms > 0 && !delivered).then(|| self.due(index).plus(ttl_ms))
    }

    /// The earliest due time among a queue's ready jobs. Jobs become ready in the order of their due
    /// times (but for pushes amid a sweep, which are in nobody's way for long), so the oldest is among
    /// those that entered first: at most forty.
    pub fn oldest_ready_due(&self, queue: &Queue) -> Option<Millis> {
        queue.ready.earliest(&self.chunks).map(|index| self.due(index)).min()
    }

    /// When the next queue has something to do.
    pub fn next_wakeup(&self) -> Option<Millis> {
        let wakeups = self.databases.iter().map(|db| db.wake_wheel.next_wakeup(&db.wakes));
        wakeups.flatten().min()
    }

    /// Takes a queue whose wake-up has come; none when there is none or the budget is used up.
    pub fn woken(&mut self, now: Millis, budget: &mut u32) -> Option<QueueNo> {
        for (db, database) in self.databases.iter_mut().enumerate() {
            let Database { wakes, wake_keys, wake_wheel, .. } = database;
            if *budget == 0 {
                break;
            }
            if let Peek::Due(key) = wake_wheel.peek(wakes, now, budget) {
                wake_wheel.take(wakes, key);
                *budget = budget.saturating_sub(1);
                return Some(number_at(db, *wake_keys.get(key)));
            }
        }
        None
    }

    /// The first timer of a queue that is due in the wheel of `stage`, and one step more for what it leads to.
    pub fn peek_due(
        &mut self,
        number: QueueNo,
        stage: Stage,
        now: Millis,
        steps: &mut u32,
    ) -> Peek {
        let (queue, _, timers, _) = self.parts(number);
        let peek = queue.wheel(stage).peek(timers, now, steps);
        match (peek, steps.checked_sub(1)) {
            (Peek::Due(_), None) => return Peek::More,
            (Peek::Due(_), Some(left)) => *steps = left,
            _ => {}
        }
        peek
    }

    /// Opens slots of a queue's delayed jobs ahead of their time; true when that is done.
    pub fn open_next(&mut self, number: QueueNo, steps: &mut u32) -> bool {
        let (queue, _, timers, _) = self.parts(number);
        queue.delayed.open_next(timers, steps)
    }

    /// Sets the queue's next wake-up to what its wheels and pauses say. Slots are opened from `opening`
    /// on at the earliest.
    pub fn rearm(&mut self, number: QueueNo, opening: Millis) {
        let queue = self.queue(number);
        let wheels = [&queue.delayed, &queue.leases, &queue.ends];
        let next = wheels.into_iter().filter_map(|wheel| wheel.next_wakeup(&self.timers));
        let wake = next.chain(queue.pauses.next_end()).min().unwrap_or(NEVER);
        let next = queue.delayed.next_opening(&self.timers);
        let opening = next.map_or(NEVER, |next| next.max(opening));
        self.set_wake(number, wake, opening);
    }

    /// Wakes the queue at `at` unless it wakes earlier anyway.
    pub fn wake_by(&mut self, number: QueueNo, at: Millis) {
        let queue = self.queue(number);
        if at < queue.wake {
            self.set_wake(number, at, queue.opening);
        }
    }

    /// The same to open slots.
    pub fn open_by(&mut self, number: QueueNo, at: Millis) {
        let queue = self.queue(number);
        if at < queue.opening {
            self.set_wake(number, queue.wake, at);
        }
    }

    fn set_wake(&mut self, number: QueueNo, wake: Millis, opening: Millis) {
        let queue = self.queue_mut(number);
        (queue.wake, queue.opening) = (wake, opening);
        let (key, at) = (queue.wake_key, wake.min(opening));
        let Database { wakes, wake_wheel, .. } = &mut self.databases[place_of(number).0];
        if wakes.is_armed(key) {
            if wakes.due(key) == at {
                return;
            }
            wake_wheel.cancel(wakes, key);
        }
        if at != NEVER {
            wake_wheel.insert(wakes, key, at);
        }
    }

    pub(super) fn bind_queue(&mut self, number: QueueNo, db: Db, name: &[u8]) {
        let hash = self.hasher.name(name);
        let (in_db, place) = place_of(number);
        assert_eq!(in_db, usize::from(db.0), "a queue's number tells its database");
        self.births += 1;
        let mut queue = Box::new(Queue::new(number, db, name, self.births));
        let Database { queues, names, wake_keys, image_bytes, .. } = &mut self.databases[in_db];
        queue.wake_key = wake_keys.alloc();
        *wake_keys.get_mut(queue.wake_key) = place;
        queue.image_bytes = record::queue_bytes(&queue);
        let own_bytes = queue.own_bytes();
        *image_bytes += queue.image_bytes;
        queues.put(place, queue);
        names.insert(wide(hash), number.0, |number| wide(name_hash(queues, &self.hasher, number)));
        self.bytes += own_bytes;
    }

    /// Changes what a queue has beside its jobs (settings, pauses, the first place), with all that
    /// follows from it.
    pub(super) fn change_own(&mut self, number: QueueNo, change: impl FnOnce(&mut Queue)) {
        let (db, place) = place_of(number);
        let Database { queues, existing, image_bytes, .. } = &mut self.databases[db];
        let queue = queues.get_mut(place).expect("the queue's number is bound");
        *existing -= u64::from(queue.exists());
        self.bytes -= queue.own_bytes();
        let image_before = record::more_bytes(queue);
        change(queue);
        queue.holds_back = queue.could_hold_back();
        let image_after = record::more_bytes(queue);
        queue.image_bytes = queue.image_bytes + image_after - image_before;
        *image_bytes = *image_bytes + image_after - image_before;
        self.bytes += queue.own_bytes();
        *existing += u64::from(queue.exists());
        if let Some(end) = queue.pauses.next_end() {
            self.wake_by(number, end);
        }
    }

    /// Takes the queue out at once; its jobs are freed later, and counted until then.
    pub(super) fn unbind_queue(&mut self, number: QueueNo) {
        self.set_wake(number, NEVER, NEVER);
        let hash = self.hasher.name(&self.queue(number).name);
        let (db, place) = place_of(number);
        let database = &mut self.databases[db];
        let Database { queues, names, wake_keys, .. } = database;
        let hash_of = |number| wide(name_hash(queues, &self.hasher, number));
        assert!(names.remove(wide(hash), number.0, hash_of), "a bound queue is found by its name");
        let queue = queues.take(place).expect("the queue's number is bound");
        wake_keys.free(queue.wake_key);
        database.existing -= u64::from(queue.exists());
        database.image_bytes -= queue.image_bytes;
        for (all, own) in database.counts.iter_mut().zip(queue.counts) {
            *all -= own;
        }
        let kept = self.bases.needs(&queue);
        let graveyard = if kept { &mut self.kept } else { &mut self.graveyard };
        graveyard.put(queue);
    }

    /// Gives a queue another name of its database, which none has.
    pub(super) fn rename_queue(&mut self, number: QueueNo, name: &[u8]) {
        let (db, place) = place_of(number);
        let Database { queues, names, image_bytes, .. } = &mut self.databases[db];
        let hash_of =
            |queues: &Numbered<Box<Queue>>, number| wide(name_hash(queues, &self.hasher, number));
        let hash = hash_of(queues, number.0);
        let removed = names.remove(hash, number.0, |number| hash_of(queues, number));
        assert!(removed, "a bound queue is found by its name");
        let queue = queues.get_mut(place).expect("the queue's number is bound");
        let before = record::queue_bytes(queue);
        self.bytes -= queue.own_bytes();
        queue.name = name.into();
        self.bytes += queue.own_bytes();
        let after = record::queue_bytes(queue);
        queue.image_bytes = queue.image_bytes + after - before;
        *image_bytes = *image_bytes + after - before;
        let hash = wide(self.hasher.name(name));
        names.insert(hash, number.0, |number| hash_of(queues, number));
    }

    /// Takes all queues of a database out at once.
    pub(super) fn flush(&mut self, db: Db) {
        let queues = std::mem::take(self.database_mut(db)).queues;
        let kept = self.bases.is_running();
        let graveyard = if kept { &mut self.kept } else { &mut self.graveyard };
        graveyard.put_all(queues);
    }

    /// Whether removed queues or purged jobs are still to be freed.
    pub fn has_graves(&self) -> bool {
        !self.graveyard.is_empty() || !self.purging.is_empty()
    }

    /// When memory is to be tidied up: removed jobs freed, or the others moved closer together.
    pub fn next_tidying(&self) -> Option<Millis> {
        if self.has_graves() { Some(Millis(0)) } else { self.next_moving() }
    }

    /// Whether jobs of removed queues are still there, those included that a base file may need.
    pub fn has_removed(&self) -> bool {
        self.has_graves() || self.keeps_removed()
    }

    /// Frees purged jobs and removed queues, about `budget` jobs; true when none is left but those that are kept for
    /// a base file.
    pub fn bury_slice(&mut self, budget: &mut u32) -> bool {
        if !self.free_purged(budget) {
            return false;
        }
        while let Some(mut grave) = self.graveyard.next() {
            let Store { policies, bytes, job_bytes, ages, timers, chunks, jobs, .. } = self;
            let mut freed = Freed { policies, bytes, job_bytes, ages };
            let free = |jobs: &mut Jobs, index| freed.free(jobs, index);
            if *budget == 0 || !grave.free_slice(timers, chunks, jobs, budget, free) {
                self.graveyard.put_first(grave);
                return false;
            }
            self.bytes -= grave.0.own_bytes();
            self.index_bytes -= grave.0.table.bytes();
            *budget = budget.saturating_sub(GRAVE_STEPS);
        }
        true
    }

    /// Frees a job that stands nowhere any more.
    pub(super) fn free_job(&mut self, index: JobIndex) {
        let Store { policies, bytes, job_bytes, ages, jobs, .. } = self;
        Freed { policies, bytes, job_bytes, ages }.free(jobs, index);
    }

    /// Notes that a queue has no job any more, unless that is noted already.
    pub(super) fn note_idle(&mut self, number: QueueNo, since: Millis) {
        let queue = self.queue_mut(number);
        if !std::mem::replace(&mut queue.idle, true) {
            let idle = Idle { queue: number, born: queue.born, since };
            self.databases[place_of(number).0].idle.push_back(idle);
        }
    }

    /// How many queues are noted as idle.
    pub fn idle_count(&self) -> usize {
        self.databases.iter().map(|database| database.idle.len()).sum()
    }

    /// The queue that has been noted as idle for the longest.
    pub(super) fn first_idle(&self) -> Option<Idle> {
        let fronts = self.databases.iter().filter_map(|database| database.idle.front());
        fronts.min_by_key(|idle| idle.since).copied()
    }

    /// Takes the one that [`Store::first_idle`] told off the list, and gives the queue if it has no
    /// job now and nothing happened to it since; one that was used later is noted anew.
    pub(super) fn take_idle(&mut self, idle: Idle) -> Option<&Queue> {
        self.databases[place_of(idle.queue).0].idle.pop_front();
        self.bound_queue(idle.queue).filter(|queue| queue.born == idle.born)?;
        let queue = self.queue_mut(idle.queue);
        queue.idle = false;
        if queue.exists() || queue.windows > 0 {
            return None;
        }
        if queue.used > idle.since {
            let used = queue.used;
            self.note_idle(idle.queue, used);
            return None;
        }
        Some(self.queue(idle.queue))
    }

    pub(super) fn index_job(&mut self, queue: QueueNo, hash: u32, index: JobIndex) {
        let jobs = &self.jobs;
        let queue = bound_in(&mut self.databases, queue);
        let before = queue.table.bytes();
        queue.table.insert(wide(hash), index, |index| wide(jobs.get(index).hash));
        self.index_bytes = self.index_bytes + queue.table.bytes() - before;
    }

    pub(super) fn unindex_job(&mut self, queue: QueueNo, index: JobIndex) {
        let jobs = &self.jobs;
        let queue = bound_in(&mut self.databases, queue);
        let hash = wide(jobs.get(index).hash);
        let before = queue.table.bytes();
        let removed = queue.table.remove(hash, index, |index| wide(jobs.get(index).hash));
        self.index_bytes = self.index_bytes + queue.table.bytes() - before;
        assert!(removed, "a job is found by its id");
    }

    /// The queue and the parts that its jobs are made of, to change together.
    pub(super) fn parts(
        &mut self,
        queue: QueueNo,
    ) -> (&mut Queue, &mut Jobs, &mut Timers, &mut Chunks) {
        let queue = bound_in(&mut self.databases, queue);
        (queue, &mut self.jobs, &mut self.timers, &mut self.chunks)
    }
}

/// What a job that is freed gives back.
struct Freed<'a> {
    policies: &'a mut Policies,
    bytes: &'a mut u64,
    job_bytes: &'a mut u64,
    ages: &'a mut Ages,
}

impl Freed<'_> {
    fn free(&mut self, jobs: &mut Jobs, index: JobIndex) {
        let (job, history) = jobs.take(index);
        // A lease that was removed or purged counts for the age of the oldest one until here.
        if job.stage == Stage::Leased {
            self.ages.end(history.as_ref().map_or(Micros(0), |history| history.begun));
        }
        let weight = job_bytes(&job, history.as_ref());
        *self.bytes -= weight;
        *self.job_bytes -= weight;
        self.policies.release(job.policy());
        jobs.discard(job);
    }
}

pub(super) fn bound_in(databases: &mut [Database], number: QueueNo) -> &mut Queue {
    let (db, place) = place_of(number);
    databases[db].queues.get_mut(place).expect("the queue's number is bound")
}

fn name_hash(queues: &Numbered<Box<Queue>>, hasher: &Hasher, number: u32) -> u32 {
    let queue = queues.get(place_of(QueueNo(number)).1).expect("a listed queue is bound");
    hasher.name(&queue.name)
}
