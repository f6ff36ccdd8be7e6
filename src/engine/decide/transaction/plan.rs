//! The most that a transaction may examine, change and answer: command by command, from the state before the first.

use std::collections::HashMap;

use ahash::RandomState;

use crate::engine::decide::transaction::Needs;
use crate::engine::decide::transaction::account::{Account, DELIVERED_BYTES, EXPIRED_MAX, least};
use crate::engine::journal_room::Bound;
use crate::engine::model::group::Grouping;
use crate::engine::model::meta::META_FRAMING_BYTES;
use crate::engine::model::queue_settings::{Pause, QueueSettings};
use crate::engine::model::request::{
    Add, Direction, JobState, ListPop, Move, Push, QueueName, Redrive, Request, Reserve, Side,
    Taken, Which,
};
use crate::engine::model::schedule::{Rule, Scheduling};
use crate::engine::model::token;
use crate::engine::step::Live;
use crate::engine::step::unsent::UNSENT_JOB_BYTES;
use crate::engine::store::Store;
use crate::engine::store::groups::group_bytes;
use crate::engine::store::jobs::{
    JOB_BYTES, JobIndex, JobStage, Successor, stored_group_bytes, stored_meta_bytes,
};
use crate::engine::store::queue::{QUEUE_BYTES, Queue};
use crate::engine::store::schedules::{Schedule, memory_bytes};
use crate::error::{Error, Shown};
use crate::ids::{DATABASES, Db, QueueNo};
use crate::limits::{
    COUNT_MAX, CRON_BYTES_MAX, DEAD_COUNT_DEFAULT, NAME_BYTES_MAX, OPEN_MAX, REPLY_BYTES_MAX,
    TRANSACTION_COST_MAX,
};
use crate::time::Micros;

pub(super) struct Plan<'e, 'r> {
    pub(super) store: &'e Store,
    live: &'e Live,
    now: Micros,
    accounts: HashMap<(Db, &'r [u8]), Account<'e>, RandomState>,
    flushed: [bool; DATABASES as usize],
    /// Jobs past their TTL that may yet be met.
    expired: u64,
    /// The largest body of a schedule that is set.
    pub(super) body_set: usize,
    /// How many are set.
    pub(super) schedules_set: u64,
    pub needs: Needs,
    pub facts: Bound,
    pub memory: u64,
    /// Wheels in which this many timers must be brought into order first.
    pub unordered: Vec<(QueueNo, Option<JobState>, u64)>,
}

impl<'e, 'r> Plan<'e, 'r> {
    /// For a transaction whose commands outside the engine need this much.
    pub fn new(store: &'e Store, live: &'e Live, now: Micros, beside: Needs) -> Plan<'e, 'r> {
        let hasher = store.hasher().state();
        Plan {
            store,
            live,
            now,
            accounts: HashMap::with_hasher(hasher),
            flushed: [false; DATABASES as usize],
            expired: EXPIRED_MAX,
            body_set: 0,
            schedules_set: 0,
            needs: beside,
            facts: Bound::default(),
            memory: 0,
            unordered: Vec::new(),
        }
    }

    /// The next command. An error is why the transaction may not run.
    pub fn add(&mut self, request: &Request<'r>) -> Result<(), Error> {
        // The most jobs that it takes or moves, and the largest body of one.
        let (mut count, mut body_bytes) = (0, 0);
        match *request {
            Request::Add(ref add) => self.add_one(add)?,
            Request::Push(ref push) => self.push(push)?,
            Request::Move(ref of) => {
                body_bytes = self.move_one(of)?;
                count = u64::from(body_bytes > 0);
            }
            Request::Pop { db, queues, .. } => count = self.take(db, queues, None, 1, true),
            Request::Reserve(Reserve { db, queues, count: asked, no_ack, meta, .. }) => {
                count = self.take(db, queues, None, u64::from(asked), no_ack);
                if meta {
                    self.answer(0, count * META_FRAMING_BYTES as u64);
                }
            }
            Request::ListPop(ListPop { db, queues, side, count: asked, .. }) => {
                count = self.take(db, queues, Some(side), u64::from(asked), true);
            }
            Request::Ack { queue, ref jobs } => {
                self.end(queue, jobs.iter().map(|(id, token)| (*id, Some(token.0))), false);
            }
            Request::Delete { queue, ids } => {
                self.end(queue, ids.iter().map(|id| (*id, None)), false);
            }
            Request::Cancel { queue, id, force } => self.end(queue, [(id, None)], force),
            Request::Nack(ref nack) => {
                self.return_one(nack.queue, nack.id);
                self.account(nack.queue).dead += 1;
                self.answer(1, 0);
            }
            Request::Extend { queue, id, .. } => {
                let bytes = self.size_of(queue, id);
                let account = self.account(queue);
                account.touched = true;
                account.lease(1, bytes);
                self.answer(1, 0);
            }
            Request::Reschedule { queue, id, .. } => {
                self.return_one(queue, id);
                self.answer(1, 0);
            }
            Request::Redrive(Redrive { which: Which::InGroup { .. }, .. }) => {
                return Err(Error::InSlices { command: "REDRIVE with GROUP" });
            }
            Request::Bulk(_) => return Err(Error::InSlices { command: "BULK" }),
            Request::Groups(Grouping::Purge { .. }) => {
                return Err(Error::InSlices { command: "PURGE with GROUP" });
            }
            Request::Redrive(ref redrive) => count = self.redrive(redrive),
            Request::DeleteEqual { queue, body, count: asked, .. } => {
                count = self.delete_equal(queue, body, asked);
            }
            Request::Purge { queue, purge } => self.purge(queue, purge.states),
            Request::Remove { db, queues } => {
                for name in queues {
                    self.accounts.insert((db, name), Account::gone());
                }
                self.answer(1 + queues.len() as u64, 0);
            }
            Request::Flush { db } => self.flush(db),
            Request::Rename { db, queue, to, only_new } => self.rename(db, queue, to, only_new),
            Request::Configure { queue, ref changes } => count = self.configure(queue, changes),
            Request::Unconfigure { queue } => count = self.unconfigure(queue),
            Request::Pause { queue, direction, for_ms } => self.pause(queue, direction, for_ms),
            Request::Resume { queue, direction } => self.close(queue, direction, Pause::None),
            Request::Schedule(ref of) => body_bytes = self.scheduling(of)?,
            Request::Groups(ref of) if !of.only_reads() => self.configure_group(of),
            _ => self.inspect(request)?,
        }
        if let Some(bound) = Bound::within(request, count, body_bytes) {
            self.facts.add(bound);
            self.needs.facts_bytes = self.facts.bytes();
        }
        self.needs.check()
    }

    /// Whether memory and journal have room for all of it.
    pub fn check_room(&self) -> Result<(), Error> {
        if self.memory > 0 {
            self.live.check_room_for(self.store, self.memory)?;
        }
        self.live.room.check_whole(self.store, self.facts)?;
        Ok(())
    }

    /// Counts what a command may examine and answer, except for the words of an error.
    pub(super) fn answer(&mut self, entries: u64, reply_bytes: u64) {
        // An error shows a queue and an id with at most 64 bytes each, each byte as four.
        const ERROR_BYTES_MAX: u64 = 1024;
        self.needs.add(entries, reply_bytes.max(ERROR_BYTES_MAX));
    }

    pub(super) fn account(&mut self, name: QueueName<'r>) -> &mut Account<'e> {
        let (store, flushed) = (self.store, self.flushed[usize::from(name.db.0)]);
        self.accounts.entry((name.db, name.name)).or_insert_with(|| {
            if flushed {
                return Account::gone();
            }
            let number = store.queue_no(name.db, name.name);
            Account::of(number.map(|number| store.queue(number)))
        })
    }

    /// Names in a database that have no queue yet, and may have one then.
    pub(super) fn new_names(&self, db: Db) -> impl Iterator<Item = &'r [u8]> + '_ {
        let names = self.accounts.keys().filter(move |(of, _)| *of == db).map(|(_, name)| *name);
        names.filter(move |name| self.store.queue_no(db, name).is_none())
    }

    /// Jobs of a database that may be leased then, and are not.
    pub(super) fn newly_leased(&self, db: Db) -> u64 {
        let accounts = self.accounts.iter().filter(|((of, _), _)| *of == db);
        accounts.map(|(_, account)| account.leased).sum()
    }

    /// Bytes in a reply of the job that may have an id when the command comes to it.
    pub(super) fn size_of(&mut self, name: QueueName<'r>, id: &[u8]) -> u64 {
        let store = self.store;
        let account = self.account(name);
        let of = |queue: &&Queue| {
            let index = store.locate(queue.number, id).index?;
            let job = store.jobs().get(index);
            // The job that follows may have come to its place.
            let next = store.successor(index).map_or(0, Successor::rest_bytes);
            let bytes = job.id_bytes() + job.rest_bytes().max(next);
            Some(bytes as u64 + account.name_bytes + DELIVERED_BYTES)
        };
        let there = account.queues.iter().filter_map(of).max().unwrap_or(0);
        there.max(account.came_largest)
    }

    /// Whether this many more jobs may be added then.
    fn check_limits(&mut self, name: QueueName<'r>, growth: u64) -> Result<(), Error> {
        let now = self.now;
        let account = self.account(name);
        if account.into.is_on(now) {
            let left_ms = account.into.end().map(|end| end.0 - now.floor().0);
            return Err(Error::Paused { queue: Shown::new(name.name), left_ms });
        }
        let (jobs, max) = (account.counted, account.max_jobs);
        if max > 0 && growth > 0 && jobs.saturating_add(growth) > max {
            return Err(Error::Full { queue: Shown::new(name.name), jobs, max });
        }
        Ok(())
    }

    /// Whether one more job may be added to a group then. What makes room for it in between does not count.
    fn check_group(&mut self, name: QueueName<'r>, group: &[u8]) -> Result<(), Error> {
        let check_room = |jobs, max| match max {
            1.. if jobs >= max => {
                let (group, queue) = (Shown::new(group), Shown::new(name.name));
                Err(Error::GroupFull { group, queue, jobs, max })
            }
            _ => Ok(()),
        };
        let store = self.store;
        let account = self.account(name);
        let coming = account.added_to.get(group).copied().unwrap_or(0) + account.added_to_any;
        for queue in &account.queues {
            let number = store.find_group(queue.number, group);
            let there = number.map_or(0, |group| store.group_jobs(queue.number, group));
            let groups = queue.groups.as_deref().zip(number);
            let own = groups.and_then(|(groups, number)| groups.settings(number).max_jobs.0);
            let all = queue.settings.as_deref().and_then(|settings| settings.group_max_jobs.0);
            let set = [own, all].map(|max| u64::from(max.unwrap_or(0)));
            let max = set.into_iter().fold(account.group_max_jobs, least);
            check_room(there + coming, max)?;
        }
        if account.queues.is_empty() {
            check_room(coming, account.group_max_jobs)?;
        }
        Ok(())
    }

    /// This many jobs with this many bytes of ids, META and bodies enter a queue.
    fn enter(&mut self, name: QueueName<'r>, jobs: u64, bytes: u64, largest: u64) {
        let made = std::mem::replace(&mut self.account(name).made, true);
        let queue = if made { 0 } else { QUEUE_BYTES + name.name.len() as u64 };
        // They stand in slots that are larger by a 16th, or by 32 bytes, at most.
        self.memory += bytes + bytes / 16 + jobs * (JOB_BYTES as u64 + 32) + queue;
        let shown = DELIVERED_BYTES + name.name.len() as u64;
        let account = self.account(name);
        account.bring_all(jobs, bytes + jobs * shown, largest + shown);
        account.name_bytes = account.name_bytes.max(name.name.len() as u64);
    }

    fn add_one(&mut self, add: &Add<'r>) -> Result<(), Error> {
        let (store, settings, name) = (self.store, &self.live.settings, add.queue);
        self.answer(1, add.id.map_or(0, <[u8]>::len) as u64);
        let lease = add.lease_ms.is_none_or(|ms| settings.check_lease("lease", ms).is_ok());
        if !lease || settings.resolve("when", add.when, self.now).is_err() {
            return Ok(());
        }
        let (mut growth, mut in_place, mut follows) = (1, false, false);
        let account = self.account(name);
        if let Some(id) = add.id {
            let only = account.only();
            let old = only.and_then(|queue| store.locate(queue.number, id).index);
            let stage = old.map(|index| store.jobs().get(index).stage);
            let group = old.map(|index| store.jobs().content(index).group_name());
            if old.is_some() && !account.touched {
                if matches!(add.taken, Taken::Keep | Taken::Refuse) {
                    return Ok(());
                }
                let state = stage.and_then(JobStage::state);
                growth = u64::from(state.is_none_or(|state| state == JobState::Dead));
            }
            // A leased job is leased until a command names it or clears the queue.
            let is_named = old.is_some_and(|index| account.named.contains(&index));
            let is_leased = stage == Some(JobStage::Leased) && !is_named && !account.cleared;
            follows = is_leased && add.taken == Taken::Latest;
            growth *= u64::from(!follows);
            in_place = growth == 0 && group == Some(add.group);
            account.named.extend(old);
        } else {
            account.jobs_min += 1;
        }
        self.check_limits(name, growth)?;
        if let Some(group) = add.group.filter(|_| !in_place) {
            // What follows is not refused. It may take over later in this transaction: it is counted for that.
            if !follows {
                self.check_group(name, group)?;
            }
            self.account(name).join(group);
        }
        let account = self.account(name);
        account.counted += growth;
        if matches!(add.taken, Taken::Replace | Taken::Latest) {
            account.lose(1, 0);
        }
        let id_bytes = add.id.map_or(token::ID_BYTES, <[u8]>::len);
        let beside = stored_group_bytes(add.group) + stored_meta_bytes(add.meta.get());
        let bytes = (id_bytes + beside + add.body.len()) as u64;
        self.memory += add.group.map_or(0, group_bytes);
        if add.taken == Taken::Latest {
            // What follows has allocations of its own, up to a quarter larger than it.
            self.memory += bytes / 4;
        }
        self.enter(name, 1, bytes, bytes);
        Ok(())
    }

    fn push(&mut self, push: &Push<'r>) -> Result<(), Error> {
        let Push { queue: name, bodies, only_existing, .. } = *push;
        let count = bodies.len() as u64;
        self.answer(1 + count, 0);
        let exists = self.account(name).exists();
        if only_existing && exists == Some(false) {
            return Ok(());
        }
        self.check_limits(name, count)?;
        let size = |body: &&[u8]| (token::ID_BYTES + body.len()) as u64;
        let bytes = bodies.iter().map(size).sum();
        let largest = bodies.iter().map(size).max().unwrap_or(0);
        let account = self.account(name);
        account.counted += count;
        if !only_existing || exists == Some(true) {
            account.jobs_min += count;
            account.ready.0 += count;
        }
        self.enter(name, count, bytes, largest);
        Ok(())
    }

    /// The most bytes of a job that may be moved; 0 if there is certainly none.
    fn move_one(&mut self, of: &Move<'r>) -> Result<usize, Error> {
        let from = QueueName { db: of.db, name: of.from };
        let to = QueueName { db: of.db, name: of.to };
        if self.account(from).ready.1 == 0 {
            self.answer(1, 0);
            return Ok(0);
        }
        // Jobs that are moved within one queue do not fill it.
        self.check_limits(to, u64::from(of.from != of.to))?;
        let (bytes, sure) = self.take_from(from, Some(of.take), 1, true);
        self.account(from).lease(0, bytes);
        self.answer(1, bytes);
        // A pop after it may take the job that these bytes are of.
        self.needs.unsent_jobs_bytes += bytes;
        // A job that it hands over may have been counted for an earlier command, which took another
        // one.
        let bytes = self.account(from).largest();
        let account = self.account(from);
        account.lose(0, sure);
        account.jobs_min = account.jobs_min.saturating_sub(1);
        let account = self.account(to);
        account.counted += 1;
        account.ready.0 += sure;
        account.jobs_min += sure;
        self.enter(to, 1, bytes + token::ID_BYTES as u64, bytes + token::ID_BYTES as u64);
        Ok(bytes as usize)
    }

    /// A command takes up to `asked` jobs from queues; the most that it finds.
    fn take(
        &mut self,
        db: Db,
        queues: &'r [&'r [u8]],
        side: Option<Side>,
        asked: u64,
        ends: bool,
    ) -> u64 {
        let (mut found, mut bytes) = (0, 0);
        let mut entries = 1 + asked + queues.len() as u64;
        for (nth, name) in queues.iter().enumerate() {
            let name = QueueName { db, name };
            if self.store.queue_no(db, name.name).is_none()
                && !self.accounts.contains_key(&(db, name.name))
            {
                continue;
            }
            let count = self.account(name).ready.1.min(asked);
            if count == 0 {
                continue;
            }
            entries += if nth > 0 { count } else { 0 };
            found += count;
            if self.needs.entries + entries > TRANSACTION_COST_MAX {
                break;
            }
            let (more, sure) = self.take_from(name, side, count, ends);
            bytes += more;
            // With several queues the job may come from another one.
            let sure = if queues.len() == 1 && ends { sure } else { 0 };
            let account = self.account(name);
            account.counted = account.counted.saturating_sub(sure);
            if ends {
                account.jobs_min = account.jobs_min.saturating_sub(count);
            }
            // Bytes that were counted for a command before may be those of a job that is leased here.
            account.lease(if ends { 0 } else { count }, more);
        }
        self.answer(entries, bytes);
        let found = found.min(asked);
        // Leased jobs need no more memory, but a pop after them may take the jobs that these bytes belong to.
        self.needs.unsent_jobs_bytes += (1 + found) * UNSENT_JOB_BYTES + bytes;
        found
    }

    /// The most bytes that are taken from one queue, and how many jobs of it go for sure.
    fn take_from(
        &mut self,
        name: QueueName<'r>,
        side: Option<Side>,
        count: u64,
        ends: bool,
    ) -> (u64, u64) {
        let (store, now, mut expired) = (self.store, self.now, self.expired);
        let stalled = self.live.room.stalls_hand_offs();
        let account = self.account(name);
        let gives = account.gives() && account.ready.0 > 0 && !stalled;
        let sure = u64::from(ends && gives);
        let bytes_max = REPLY_BYTES_MAX as u64 + count * (DELIVERED_BYTES + account.name_bytes);
        let bytes = account.take(store, now, side, count, bytes_max, &mut expired);
        self.expired = expired;
        (bytes, sure)
    }

    /// Jobs named by their ids end: acknowledged, with a token, or removed.
    fn end<'i>(
        &mut self,
        name: QueueName<'r>,
        jobs: impl IntoIterator<Item = (&'i [u8], Option<u64>)>,
        force: bool,
    ) {
        let store = self.store;
        let account = self.account(name);
        let (mut count, mut sure, mut follow) = (0, 0, Vec::new());
        for (id, token) in jobs {
            count += 1;
            let Some(queue) = account.only() else { continue };
            let Some(index) = store.locate(queue.number, id).index else { continue };
            if token.is_some() && store.successor(index).is_some() {
                follow.push((id, account.named.insert(index).then_some(index)));
                continue;
            }
            let token_is = |token| store.jobs().history(index).is_some_and(|of| of.token == token);
            let ends = match (store.jobs().get(index).stage, token) {
                (JobStage::Leased, Some(token)) => token_is(token) && !account.cleared,
                (JobStage::Leased, None) => force && !account.cleared,
                (JobStage::Delayed, None) => !account.cleared,
                (JobStage::Ready, None) => !account.cleared && !account.taken_from,
                _ => false,
            };
            sure += u64::from(account.named.insert(index) && ends);
        }
        account.lose(count, sure);
        for (id, index) in follow {
            let bytes = self.size_of(name, id);
            self.account(name).bring(bytes);
            index.into_iter().for_each(|index| self.follow(name, index));
        }
        self.answer(1 + count, 0);
    }

    /// A job named by its id may become ready, delayed or dead.
    fn return_one(&mut self, name: QueueName<'r>, id: &[u8]) {
        let (bytes, store) = (self.size_of(name, id), self.store);
        let account = self.account(name);
        let index = account.only().and_then(|queue| store.locate(queue.number, id).index);
        let first = index.filter(|index| account.named.insert(*index));
        account.lose(1, 0);
        account.bring(bytes);
        first.into_iter().for_each(|index| self.follow(name, index));
    }

    /// What follows a leased job may come, and to another group.
    fn follow(&mut self, name: QueueName<'r>, index: JobIndex) {
        let store = self.store;
        let next = store.successor(index).and_then(|next| next.group.as_deref());
        if let Some(group) = next
            && store.jobs().content(index).group_name() != Some(group)
        {
            self.account(name).join(group);
        }
    }

    /// How many dead jobs may be moved.
    fn redrive(&mut self, redrive: &Redrive<'r>) -> u64 {
        let (store, name) = (self.store, redrive.queue);
        if let Which::Ids(ids) = redrive.which {
            for id in ids {
                self.return_one(name, id);
            }
            let count = ids.len() as u64;
            let account = self.account(name);
            account.counted += count;
            account.added_to_any += count;
            self.answer(1 + count, 0);
            return count;
        }
        let Which::Oldest(asked) = redrive.which else { return 0 };
        let account = self.account(name);
        let count = account.dead.min(asked.map_or(u64::MAX, u64::from));
        let (mut bytes, mut largest) = (account.bytes_in(&[JobState::Dead]), 0);
        match account.only() {
            Some(queue) if count <= TRANSACTION_COST_MAX => {
                let (most, came) = (count + account.left, account.came_bytes);
                let dead = queue.dead.iter(store.chunks()).take(most as usize);
                let shown = account.name_bytes + DELIVERED_BYTES;
                let sizes = dead.map(|index| store.jobs().get(index).data_bytes() as u64 + shown);
                (bytes, largest) = sizes.fold((came, account.came_largest), |(sum, max), size| {
                    (sum + size, max.max(size))
                });
            }
            _ => largest = largest.max(bytes),
        }
        account.lose(count, 0);
        account.bring_all(count, bytes, largest);
        account.counted += count;
        account.added_to_any += count;
        account.cleared = true;
        self.answer(1 + count, 0);
        count
    }

    /// How many jobs may be removed.
    fn delete_equal(&mut self, name: QueueName<'r>, body: &[u8], asked: u64) -> u64 {
        let account = self.account(name);
        let most = if asked == 0 { COUNT_MAX } else { asked.min(COUNT_MAX) };
        let (ready, count) = (account.ready.1, account.ready.1.min(most));
        account.lose(count, 0);
        account.taken_from = true;
        let entries = 1 + count + self.comparing(name, ready, body);
        self.answer(entries, 0);
        count
    }

    /// The cost of examining this many ready jobs for one with this body. Four jobs, or four KiB of
    /// bodies of the same length, are as one entry that is taken.
    pub(super) fn comparing(&mut self, name: QueueName<'r>, jobs: u64, body: &[u8]) -> u64 {
        let ready = self.account(name).bytes_in(&[JobState::Ready]);
        jobs / 4 + ready.min(jobs.saturating_mul(body.len() as u64)) / 4096
    }

    fn purge(&mut self, name: QueueName<'r>, states: [bool; 4]) {
        let account = self.account(name);
        let [delayed, ready, leased, _] = states;
        let counts = account.only().filter(|_| !account.touched).map(|queue| queue.counts);
        if delayed && ready && leased {
            account.counted = 0;
        } else if let Some(counts) = counts {
            let gone = counts.iter().zip(states).take(3);
            let gone = gone.map(|(count, purged)| count * u64::from(purged)).sum();
            account.counted = account.counted.saturating_sub(gone);
        }
        if ready {
            account.ready.0 = 0;
        }
        (account.jobs_min, account.touched) = (0, true);
        (account.taken_from, account.cleared) = (true, true);
        self.answer(1, 0);
    }

    fn flush(&mut self, db: Option<Db>) {
        let hit = |one: Db| db.is_none_or(|db| db == one);
        for ((of, _), account) in &mut self.accounts {
            if hit(*of) {
                *account = Account::gone();
            }
        }
        for (at, flushed) in self.flushed.iter_mut().enumerate() {
            *flushed |= hit(Db(at as u8));
        }
        self.answer(1, 0);
    }

    fn rename(&mut self, db: Db, from: &'r [u8], to: &'r [u8], only_new: bool) {
        self.answer(1, 0);
        let (old, new) = (QueueName { db, name: from }, QueueName { db, name: to });
        let (is, over) = (self.account(old).exists(), self.account(new).exists());
        if from == to || is == Some(false) || (only_new && over == Some(true)) {
            return;
        }
        let moved = std::mem::replace(self.account(old), Account::gone());
        if is == Some(true) && (!only_new || over == Some(false)) {
            *self.account(new) = moved.renamed(to);
            return;
        }
        // It happens or not.
        *self.account(new) = moved.or(self.account(new));
        *self.account(old) = moved.or(&Account::gone());
    }

    /// How many dead jobs may leave.
    fn configure(&mut self, name: QueueName<'r>, changes: &QueueSettings) -> u64 {
        let settings = &self.live.settings;
        if changes.lease_ms.is_some_and(|ms| settings.check_lease("lease", ms).is_err()) {
            self.answer(1, 0);
            return 0;
        }
        self.make(name, changes.memory_bytes());
        let account = self.account(name);
        (account.touched, account.own) = (true, true);
        account.max_jobs = changes.max_jobs.unwrap_or(account.max_jobs);
        let of_groups = u64::from(changes.group_max_jobs.0.unwrap_or(0));
        account.group_max_jobs = least(account.group_max_jobs, of_groups);
        if changes.due_enters.is_some() {
            account.forget_side();
        }
        self.drop_dead(name, changes.dead_max)
    }

    fn unconfigure(&mut self, name: QueueName<'r>) -> u64 {
        let account = self.account(name);
        (account.touched, account.max_jobs) = (true, 0);
        account.forget_side();
        self.drop_dead(name, Some(DEAD_COUNT_DEFAULT))
    }

    /// How many dead jobs are too many from here on.
    fn drop_dead(&mut self, name: QueueName<'r>, dead_max: Option<u64>) -> u64 {
        let account = self.account(name);
        let own = account.only().map(|queue| queue.dead_max());
        let max = dead_max.or(own).unwrap_or(0);
        let gone = account.dead.saturating_sub(max);
        if gone > 0 {
            account.lose(gone, 0);
            account.cleared = true;
        }
        self.answer(1 + gone, 0);
        gone
    }

    fn configure_group(&mut self, of: &Grouping<'r>) {
        if let Grouping::Configure { queue, group, .. } | Grouping::Pause { queue, group, .. } = *of
        {
            self.make(queue, group_bytes(group));
            let account = self.account(queue);
            (account.touched, account.own) = (true, true);
            if let Grouping::Configure { changes, .. } = of {
                let max = u64::from(changes.max_jobs.0.unwrap_or(0));
                account.group_max_jobs = least(account.group_max_jobs, max);
            }
        } else {
            self.account(of.queue()).touched = true;
        }
        self.answer(1, 0);
    }

    fn pause(&mut self, name: QueueName<'r>, direction: Direction, for_ms: Option<u64>) {
        if for_ms.is_some_and(|ms| ms > self.live.settings.delay_ms_max) {
            return self.answer(1, 0);
        }
        let until = |ms| Pause::Until(self.now.ceil().plus(ms));
        let pause = for_ms.map_or(Pause::Endless, until);
        self.make(name, 0);
        self.close(name, direction, pause);
    }

    fn close(&mut self, name: QueueName<'r>, direction: Direction, pause: Pause) {
        let account = self.account(name);
        (account.touched, account.own) = (true, true);
        if direction != Direction::Out {
            account.into = pause;
        }
        if pause != Pause::None {
            // Jobs that were certainly taken may be held back now.
            account.ready.0 = 0;
        }
        self.answer(1, 0);
    }

    /// The most bytes of a body that is added.
    fn scheduling(&mut self, of: &Scheduling<'r>) -> Result<usize, Error> {
        match *of {
            Scheduling::Set(ref set) => {
                self.answer(1, 0);
                let options = set.terms.clone().with(Rule::Every { ms: 1 });
                let rule_bytes = CRON_BYTES_MAX + NAME_BYTES_MAX;
                let bytes = memory_bytes(set.name, set.body.len(), &options) + rule_bytes as u64;
                self.make(set.queue, bytes);
                let account = self.account(set.queue);
                (account.touched, account.own) = (true, true);
                let beside = stored_group_bytes(set.terms.group.get())
                    + stored_meta_bytes(set.terms.meta.get());
                let data_bytes = beside + set.body.len();
                self.memory += set.terms.group.get().map_or(0, group_bytes);
                self.body_set = self.body_set.max(data_bytes);
                self.schedules_set += 1;
            }
            Scheduling::Delete { queue, names } => {
                self.answer(1 + names.len() as u64, 0);
                self.account(queue).touched = true;
            }
            Scheduling::Run { queue, name, .. } => return self.run_schedule(queue, name),
            _ => self.inspect_schedules(of),
        }
        Ok(0)
    }

    /// A job comes, with the body of the schedule as it is or as commands before it have set it; of those that it
    /// made, some may go.
    fn run_schedule(&mut self, name: QueueName<'r>, schedule: &[u8]) -> Result<usize, Error> {
        let id_bytes = schedule.len() as u64 + 1 + 20;
        self.answer(1 + OPEN_MAX as u64, id_bytes);
        let store = self.store;
        let account = self.account(name);
        // A renamed queue may have any schedule.
        let body =
            |queue: &&Queue| store.find_schedule(queue.number, schedule).map(Schedule::data_bytes);
        let there = account.queues.iter().filter_map(body).max();
        if there.is_none() && self.body_set == 0 && !self.account(name).own {
            return Ok(0);
        }
        let body_bytes = there.unwrap_or(0).max(self.body_set);
        self.check_limits(name, 1)?;
        let account = self.account(name);
        account.counted += 1;
        account.added_to_any += 1;
        account.lose(OPEN_MAX as u64, 0);
        let bytes = id_bytes + body_bytes as u64;
        self.enter(name, 1, bytes, bytes);
        Ok(body_bytes)
    }

    /// The queue is created if necessary, and takes this many more bytes of its own.
    fn make(&mut self, name: QueueName<'r>, bytes: u64) {
        let made = std::mem::replace(&mut self.account(name).made, true);
        let queue = if made { 0 } else { QUEUE_BYTES + name.name.len() as u64 };
        self.memory += queue + bytes;
    }
}
