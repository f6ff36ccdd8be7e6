//! The queues of a partition: by name and by number, their wake-ups, and which of them are idle.

use std::collections::BTreeSet;

use crate::engine::model::request::JobState;
use crate::engine::store::Store;
use crate::engine::store::jobs::hash::{Hasher, wide};
use crate::engine::store::jobs::index::SlabIndex;
use crate::engine::store::jobs::slots::Slots;
use crate::engine::store::queue::{Aside, Marks, NEVER, Queue, number_at, place_of};
use crate::engine::store::snapshot::record;
use crate::ids::{DATABASES, Db, QueueNo};
use crate::pool::Pool;
use crate::time::Millis;
use crate::wheel::{Peek, Timers, Wheel};

/// The queues of a database. All that names or times them is here, so that a flush takes it out in
/// one piece, however many there are.
#[derive(Debug, Default)]
pub(super) struct Database {
    /// By the part of their number that [`place_of`] gives.
    pub(super) queues: Slots<Box<Queue>>,
    /// Queue numbers by name.
    names: SlabIndex,
    /// One timer per queue, for its next wake-up.
    wakes: Timers,
    /// Places by key. They have keys of their own, so that one high number needs no cells for all
    /// the numbers below.
    wake_keys: Pool<u32, 1024>,
    wake_wheel: Wheel,
    /// Bytes of the images of all queues and their jobs in a base file.
    pub(super) image_bytes: u64,
    /// The part of its queues that is freed when memory is short, bytes.
    spare_bytes: u64,
    pub(super) existing: u64,
    /// Jobs by state.
    pub(super) counts: [u64; 4],
    /// Active, paused and done schedules.
    pub(super) schedules: [u64; 3],
    pub(super) schedules_held: u64,
    pub(super) groups: u64,
    /// Those with several jobs in memory.
    pub(super) several_groups: u64,
    /// By how much paces of groups that have none can make `image_bytes` more.
    pub(super) coming_image_bytes: u64,
    /// When work on the schedules of a queue is due, and on which.
    pub(super) schedule_wakes: BTreeSet<(Millis, QueueNo)>,
    /// Queues that lost their last job; some may have one again or be removed.
    idle: BTreeSet<Idle>,
}

/// A queue that lost its last job. The longest unused is the least.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Idle {
    /// When it was last used, as far as is known here.
    pub since: Millis,
    pub queue: QueueNo,
    /// Which binding of the number it was.
    born: u64,
}

impl Store {
    pub fn queue_no(&self, db: Db, name: &[u8]) -> Option<QueueNo> {
        let hash = self.hasher.name(name);
        let found = self.database(db).names.find(wide(hash), |number| {
            self.bound_queue(QueueNo(number)).is_some_and(|queue| *queue.name == *name)
        });
        found.map(QueueNo)
    }

    /// The queue with a bound number.
    pub fn queue(&self, number: QueueNo) -> &Queue {
        self.bound_queue(number).expect("the queue's number is bound")
    }

    /// The volatile part of a queue, to change.
    pub fn aside_mut(&mut self, number: QueueNo) -> &mut Aside {
        &mut self.queue_mut(number).aside
    }

    /// Which lists of others a queue is in, to change.
    pub fn marks_mut(&mut self, number: QueueNo) -> &mut Marks {
        &mut self.queue_mut(number).marks
    }

    pub(super) fn queue_mut(&mut self, number: QueueNo) -> &mut Queue {
        bound_in(&mut self.databases, number)
    }

    /// The queue with a number, if it is bound.
    pub fn bound_queue(&self, number: QueueNo) -> Option<&Queue> {
        let (db, place) = place_of(number);
        self.databases[db].queues.get(place).map(|queue| &**queue)
    }

    pub fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.databases.iter().flat_map(|database| database.queues.iter().map(|(_, queue)| &**queue))
    }

    /// The number that the next new queue of a database is to have: the lowest that is free.
    pub fn next_queue_no(&self, db: Db) -> QueueNo {
        number_at(usize::from(db.0), self.database(db).queues.lowest_free())
    }

    /// The databases that ever had a queue, and those before them.
    pub(super) fn used(&self) -> &[Database] {
        &self.databases[..self.used_databases]
    }

    pub(super) fn database(&self, db: Db) -> &Database {
        &self.databases[usize::from(db.0)]
    }

    pub(super) fn database_mut(&mut self, db: Db) -> &mut Database {
        &mut self.databases[usize::from(db.0)]
    }

    pub fn existing_in(&self, db: Db) -> u64 {
        self.database(db).existing
    }

    /// Leased jobs of a database.
    pub fn leased_in(&self, db: Db) -> u64 {
        self.database(db).counts[JobState::Leased as usize]
    }

    pub fn existing(&self) -> [u64; DATABASES as usize] {
        std::array::from_fn(|db| self.databases[db].existing)
    }

    /// How many queues have a name in a database, those without a job included.
    pub fn name_count(&self, db: Db) -> usize {
        self.database(db).queues.len()
    }

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

    /// Visits the numbers of queues of a database as [`SlabIndex::scan`] does.
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

    pub fn next_wakeup(&self) -> Option<Millis> {
        let wakeups = self.used().iter().map(|db| db.wake_wheel.next_wakeup(&db.wakes));
        wakeups.flatten().min()
    }

    /// Takes a queue whose wake-up has come; none without one, or if the budget is used up.
    pub fn woken(&mut self, now: Millis, budget: &mut u32) -> Option<QueueNo> {
        for (db, database) in self.databases[..self.used_databases].iter_mut().enumerate() {
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

    /// Sets the queue's next wake-up to what its wheels, its pauses and its groups say. Slots are opened from `opening`
    /// on at the earliest.
    pub fn rearm(&mut self, number: QueueNo, opening: Millis) {
        let queue = self.queue(number);
        let wheels = [&queue.delayed, &queue.leases, &queue.ends];
        let next = wheels.into_iter().filter_map(|wheel| wheel.next_wakeup(&self.timers));
        let paced = queue.next_paced().map(|(at, _)| at);
        let next = next.chain(queue.next_pause_end()).chain(paced);
        let wake = next.min().unwrap_or(NEVER);
        let wake = wake.min(queue.schedule_wake());
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

    pub(super) fn set_wake(&mut self, number: QueueNo, wake: Millis, opening: Millis) {
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
        self.used_databases = self.used_databases.max(in_db + 1);
        let mut queue = Box::new(Queue::new(number, db, name, self.births));
        let Database { queues, names, wake_keys, image_bytes, coming_image_bytes, .. } =
            &mut self.databases[in_db];
        *coming_image_bytes += queue.coming_error_bytes();
        queue.wake_key = wake_keys.alloc();
        *wake_keys.get_mut(queue.wake_key) = place;
        queue.image_bytes = record::queue_bytes(&queue);
        let own_bytes = queue.own_bytes();
        *image_bytes += queue.image_bytes;
        queues.put(place, queue);
        names.insert(wide(hash), number.0, |number| wide(name_hash(queues, &self.hasher, number)));
        self.bytes += own_bytes;
        self.recount_spare(number);
        self.keep_minutes_of_new(number);
    }

    /// Counts the queue's own bytes among those that give way, or no longer: to be called after each change of
    /// what [`Queue::has_only_totals`] and [`Queue::own_bytes`] say.
    pub(super) fn recount_spare(&mut self, number: QueueNo) {
        let (db, place) = place_of(number);
        let Database { queues, spare_bytes, .. } = &mut self.databases[db];
        let queue = queues.get_mut(place).expect("the queue's number is bound");
        let now = if queue.has_only_totals() { queue.own_bytes() } else { 0 };
        let before = std::mem::replace(&mut queue.spare_bytes, now);
        *spare_bytes = *spare_bytes + now - before;
    }

    /// Bytes of queues that have only totals.
    pub fn spare_bytes(&self) -> u64 {
        self.used().iter().map(|database| database.spare_bytes).sum()
    }

    /// Changes the data of a queue other than its jobs (settings, pauses, the first place), with
    /// all consequences.
    pub(super) fn change_own(&mut self, number: QueueNo, change: impl FnOnce(&mut Queue)) {
        let (db, place) = place_of(number);
        let Database { queues, existing, image_bytes, .. } = &mut self.databases[db];
        let queue = queues.get_mut(place).expect("the queue's number is bound");
        *existing -= u64::from(queue.exists());
        self.bytes -= queue.own_bytes();
        let image_before = record::more_bytes(queue);
        change(queue);
        queue.throttles = queue.could_throttle();
        let image_after = record::more_bytes(queue);
        queue.image_bytes = queue.image_bytes + image_after - image_before;
        *image_bytes = *image_bytes + image_after - image_before;
        self.bytes += queue.own_bytes();
        *existing += u64::from(queue.exists());
        let pause_end = queue.pauses.next_end();
        self.recount_spare(number);
        if let Some(end) = pause_end {
            self.wake_by(number, end);
        }
    }

    /// Takes the queue out at once; its jobs are freed later, and counted until then.
    pub(super) fn unbind_queue(&mut self, number: QueueNo) {
        self.set_wake(number, NEVER, NEVER);
        self.uncount_schedules(number);
        self.forget_minutes_of(number);
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
        database.spare_bytes -= queue.spare_bytes;
        database.coming_image_bytes -= queue.coming_error_bytes();
        if let Some(groups) = &queue.groups {
            database.groups -= groups.len() as u64;
            database.several_groups -= groups.several;
            database.coming_image_bytes -= groups.unpaced_image_bytes;
        }
        self.leaving_bytes += queue.spare_bytes;
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
            |queues: &Slots<Box<Queue>>, number| wide(name_hash(queues, &self.hasher, number));
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
        self.recount_spare(number);
    }

    /// Takes all queues of a database out at once.
    pub(super) fn flush(&mut self, db: Db) {
        self.forget_minutes_in(db);
        let Database { queues, schedule_wakes, spare_bytes, .. } =
            std::mem::take(self.database_mut(db));
        self.leaving_bytes += spare_bytes;
        let kept = self.bases.is_running();
        self.graveyard.put_wakes(schedule_wakes);
        let graveyard = if kept { &mut self.kept } else { &mut self.graveyard };
        graveyard.put_all(queues);
    }

    /// Notes that a queue has no job any more, unless that is noted already.
    pub fn note_idle(&mut self, number: QueueNo, since: Millis) {
        let queue = self.queue_mut(number);
        if !std::mem::replace(&mut queue.idle, true) {
            let idle = Idle { queue: number, born: queue.born, since };
            self.databases[place_of(number).0].idle.insert(idle);
        }
    }

    pub fn idle_count(&self) -> usize {
        self.databases.iter().map(|database| database.idle.len()).sum()
    }

    /// The queue that has been noted as idle for the longest.
    pub fn first_idle(&self) -> Option<Idle> {
        let first = self.used().iter().filter_map(|database| database.idle.first());
        first.min().copied()
    }

    pub fn is_bound(&self, idle: Idle) -> bool {
        self.bound_queue(idle.queue).is_some_and(|queue| queue.born == idle.born)
    }

    /// Takes the queue that [`Store::first_idle`] returned off the list, and returns it if it has
    /// no job and was not used since; a queue that was used later is listed again.
    pub fn take_idle(&mut self, idle: Idle) -> Option<&Queue> {
        self.databases[place_of(idle.queue).0].idle.remove(&idle);
        self.bound_queue(idle.queue).filter(|queue| queue.born == idle.born)?;
        let queue = self.queue_mut(idle.queue);
        queue.idle = false;
        if !queue.has_only_totals() {
            return None;
        }
        if queue.used > idle.since {
            let used = queue.used;
            self.note_idle(idle.queue, used);
            return None;
        }
        Some(self.queue(idle.queue))
    }
}

pub(super) fn bound_in(databases: &mut [Database], number: QueueNo) -> &mut Queue {
    let (db, place) = place_of(number);
    databases[db].queues.get_mut(place).expect("the queue's number is bound")
}

fn name_hash(queues: &Slots<Box<Queue>>, hasher: &Hasher, number: u32) -> u32 {
    let queue = queues.get(place_of(QueueNo(number)).1).expect("a listed queue is bound");
    hasher.name(&queue.name)
}
