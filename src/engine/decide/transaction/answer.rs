//! The most that reading commands of a transaction may examine and answer.

use crate::engine::decide::list::{BODIES_BYTES_MAX, BODY_COST};
use crate::engine::decide::transaction::account::DELIVERED_BYTES;
use crate::engine::decide::transaction::plan::Plan;
use crate::engine::model::across::Readable;
use crate::engine::model::group::{Grouping, ListGroups};
use crate::engine::model::holder::ListLeases;
use crate::engine::model::last_errors::LastErrors;
use crate::engine::model::meta::META_FRAMING_BYTES;
use crate::engine::model::minutes::ListMinutes;
use crate::engine::model::policy::{Backoff, Steps};
use crate::engine::model::request::{Find, JobState, Locate, QueueName, Queues, Request, Scan};
use crate::engine::model::schedule::Scheduling;
use crate::engine::store::jobs::index::TABLE_ENTRIES_MAX;
use crate::engine::store::jobs::{Job, JobStage};
use crate::engine::store::queue::Queue;
use crate::error::Error;
use crate::glob;
use crate::ids::Db;
use crate::limits::{
    COUNT_MAX, CRON_BYTES_MAX, EARLIER_ERROR_BYTES_MAX, ERROR_KIND_BYTES_MAX, ERROR_KINDS_MAX,
    ERROR_SAMPLE_BYTES_MAX, ERROR_TEXT_BYTES_MAX, HOLDER_TEXT_BYTES_MAX, LADDER_STEPS_MAX,
    LAST_ERRORS_MAX, NAME_BYTES_MAX, OPEN_MAX, REPLY_BYTES_MAX, SCHEDULES_LISTED_MAX,
};

/// A number with its type, sign and line end.
const NUMBER_BYTES: u64 = 24;
/// A name or an id, of any length, with what frames it.
const NAME_REPLY_BYTES: u64 = NAME_BYTES_MAX as u64 + NUMBER_BYTES;
/// GET's names and numbers.
const VIEW_BYTES: u64 = 1024;
/// A step of a ladder as it is written.
const STEP_BYTES: u64 = NUMBER_BYTES;
/// DELAY.CONFIG GET's and STATS's names and numbers, and the longest backoff.
const SHEET_BYTES: u64 = 2048 + STEP_BYTES * LADDER_STEPS_MAX as u64;
/// A kind of error, with its sample.
const ERROR_REPLY_BYTES: u64 = (ERROR_KIND_BYTES_MAX + ERROR_SAMPLE_BYTES_MAX) as u64 + 192;
/// Three names and numbers of an error.
const LAST_ERROR_BYTES: u64 = 128;
/// The last errors of a job, with the newest alone, too.
const LAST_ERRORS_REPLY_BYTES: u64 = 2 * ERROR_TEXT_BYTES_MAX as u64
    + LAST_ERRORS_MAX as u64 * (EARLIER_ERROR_BYTES_MAX as u64 + LAST_ERROR_BYTES);
/// A rule as LIST shows it.
const RULE_REPLY_BYTES: u64 = CRON_BYTES_MAX as u64 + 64;
/// A row of QUEUES: a name, and names and numbers of the fields.
const QUEUE_ROW_BYTES: u64 = NAME_REPLY_BYTES + 640;
/// A row of BUSY: two names, three texts of the client, and names and numbers of the fields.
const LEASE_ROW_BYTES: u64 = 2 * NAME_REPLY_BYTES + 3 * HOLDER_TEXT_BYTES_MAX as u64 + 320;
/// Bytes of a row of HISTORY.
const SPAN_BYTES: u64 = 400;
/// Bytes of a row of FIND, in addition to the queue's name.
const FOUND_BYTES: u64 = 128;
/// The most bytes of bodies that a step of a scan reads: its share of a turn, and a body.
const SEARCHED_BYTES_MAX: u64 = 64 << 20;
/// The entries that a scan may visit beyond its COUNT: a table of the index.
const SCAN_MORE: u64 = TABLE_ENTRIES_MAX as u64;

impl<'e, 'r> Plan<'e, 'r> {
    /// Counts what a reading command may look at and answer.
    pub(super) fn inspect(&mut self, request: &Request<'r>) -> Result<(), Error> {
        match *request {
            Request::Range { queue, start, stop } => return self.range(queue, start, stop),
            Request::At { queue, place } => return self.range(queue, place, place),
            Request::Find(ref find) => self.find(find),
            Request::Get { queue, id } => self.get(queue, id),
            Request::Peek { queue, state, count, newest } => {
                self.peek(queue, state, u64::from(count), newest)
            }
            Request::Stats { queue } => {
                self.order(queue, None, 1);
                self.answer(1, SHEET_BYTES);
            }
            Request::Settings { .. } => self.answer(1, SHEET_BYTES),
            Request::Forecast { queue, count, schedules, .. } => {
                let account = self.account(queue);
                let jobs = account.queues.iter().map(|queue| queue.table.len() as u64);
                let jobs = jobs.sum::<u64>() + account.came;
                let all = account.queues.iter().filter_map(|queue| queue.schedules.as_deref());
                // Those that the transaction sets may be as many as it has commands.
                let known = all.map(|all| all.len() as u64).sum::<u64>() + self.schedules_set;
                let count = u64::from(count);
                let spans = if schedules { known.saturating_mul(count) } else { 0 };
                self.answer(1 + jobs + count + spans, count * NUMBER_BYTES);
            }
            Request::Scan(Scan { queue, count, filter, .. }) => {
                let account = self.account(queue);
                let jobs = account.queues.iter().map(|queue| queue.table.len() as u64);
                let jobs = jobs.sum::<u64>() + account.came;
                let shown = jobs.min(u64::from(count) + SCAN_MORE);
                let mut entries = 1 + u64::from(count) * matching_cost(filter.pattern);
                if filter.contains.is_some() {
                    let bytes = self.account(queue).bytes_in(&JobState::ALL);
                    entries += u64::from(count) + bytes.min(SEARCHED_BYTES_MAX) / 4096;
                }
                self.answer(entries, shown * (NAME_REPLY_BYTES + 3 * NUMBER_BYTES));
            }
            Request::Keys { db, pattern } => self.keys(db, pattern),
            Request::ScanQueues { db, count, pattern, .. } => {
                let count = count.min(COUNT_MAX);
                let names = self.name_count(db).min(count + SCAN_MORE);
                self.answer(1 + count * matching_cost(pattern), names * NAME_REPLY_BYTES);
            }
            Request::Queues(Queues { db, readable, pattern, count, .. }) => {
                let names = self.name_count(db);
                let entries = names * (readable_cost(readable) + matching_cost(pattern));
                self.answer(1 + entries, names.min(u64::from(count)) * QUEUE_ROW_BYTES);
            }
            Request::Locate(Locate { db, readable, count, .. }) => {
                let names = self.name_count(db);
                let row = NAME_REPLY_BYTES + FOUND_BYTES;
                let entries = names * readable_cost(readable);
                self.answer(1 + entries, names.min(u64::from(count)) * row);
            }
            Request::Leases(ref of) => self.leases(of),
            Request::Minutes(ListMinutes { last, step, .. }) => {
                let rows = u64::from(last / step) + 1;
                self.answer(1 + u64::from(last) / 8, rows * SPAN_BYTES);
            }
            Request::RandomQueue { db, .. } => {
                self.answer(1 + self.name_count(db), NAME_REPLY_BYTES)
            }
            Request::Errors { .. } => {
                let kinds = ERROR_KINDS_MAX as u64 + 1;
                self.answer(1 + kinds / 4, kinds * ERROR_REPLY_BYTES);
            }
            Request::Groups(ref of) => self.groups(of),
            Request::Exists { queues, .. } => self.answer(1 + queues.len() as u64, 0),
            _ => self.answer(1, 0),
        }
        Ok(())
    }

    /// The same of a request that looks at schedules, or pauses one.
    pub(super) fn inspect_schedules(&mut self, of: &Scheduling<'r>) {
        match *of {
            Scheduling::Get { queue, name } => {
                let store = self.store;
                let of =
                    |queue: &&Queue| Some(store.find_schedule(queue.number, name)?.data_bytes());
                let there = self.account(queue).queues.iter().filter_map(of).max().unwrap_or(0);
                let body_bytes = there.max(self.body_set) as u64;
                let ids = OPEN_MAX as u64 * NAME_REPLY_BYTES;
                let shown = SHEET_BYTES + NAME_REPLY_BYTES + META_FRAMING_BYTES as u64;
                self.answer(1 + OPEN_MAX as u64, shown + ids + body_bytes);
            }
            Scheduling::List { count, pattern, .. } => {
                let count = u64::from(count);
                let looked = SCHEDULES_LISTED_MAX as u64 * matching_cost(pattern);
                let entries = 1 + if pattern.is_some() { looked } else { count };
                let row = NAME_REPLY_BYTES + RULE_REPLY_BYTES + 3 * NUMBER_BYTES;
                self.answer(entries, (count * row).min(REPLY_BYTES_MAX as u64 * 2 + row));
            }
            Scheduling::Next { count, .. } | Scheduling::Explain { count, .. } => {
                let count = u64::from(count);
                self.answer(1 + count, count * 4 * NUMBER_BYTES);
            }
            Scheduling::Zones { .. } => self.answer(1_000, 1_000 * 64),
            _ => self.answer(1, 0),
        }
    }

    /// The same of a request that looks at groups.
    fn groups(&mut self, of: &Grouping<'r>) {
        let Grouping::List(ListGroups { queue, pattern, count, .. }) = *of else {
            return self.answer(1, SHEET_BYTES);
        };
        let account = self.account(queue);
        let all = account.queues.iter().filter_map(|queue| queue.groups.as_deref());
        // Numbers of groups that are gone are passed over, too.
        let groups = all.map(|groups| u64::from(groups.end())).sum::<u64>() + account.came;
        let row = NAME_REPLY_BYTES + 256;
        self.answer(1 + groups * matching_cost(pattern), groups.min(u64::from(count)) * row);
    }

    /// The same of BUSY: each lease may have to be brought into order, and is looked at.
    fn leases(&mut self, &ListLeases { db, queue, readable, count, .. }: &ListLeases<'r>) {
        let (names, leases) = match queue {
            Some(name) => {
                let account = self.account(QueueName { db, name });
                let there = account.queues.iter().map(|queue| queue.count(JobState::Leased));
                (1, there.sum::<u64>() + account.leased)
            }
            None => (self.name_count(db), self.store.leased_in(db) + self.newly_leased(db)),
        };
        let entries = names * readable_cost(readable) + leases;
        self.answer(1 + entries, leases.min(u64::from(count)) * LEASE_ROW_BYTES);
    }

    /// Queues of a database, those that the transaction may make included.
    fn name_count(&self, db: Db) -> u64 {
        (self.store.name_count(db) + self.new_names(db).count()) as u64
    }

    fn keys(&mut self, db: Db, pattern: &[u8]) {
        let (store, names) = (self.store, self.name_count(db));
        let (entries, mut bytes) = (1 + names * matching_cost(Some(pattern)), 0);
        let mut add = |name: &[u8]| {
            if glob::matches(pattern, name) {
                bytes += name.len() as u64 + NUMBER_BYTES;
            }
        };
        self.new_names(db).for_each(&mut add);
        if self.needs.entries + entries <= crate::limits::TRANSACTION_COST_MAX {
            store.scan_queues(db, 0, usize::MAX, |queue| add(&queue.name));
        }
        self.answer(entries, bytes);
    }

    /// The places of a range as they are now may differ, by what the transaction does before.
    fn range(&mut self, name: QueueName<'r>, start: i64, stop: i64) -> Result<(), Error> {
        let store = self.store;
        let room = crate::limits::TRANSACTION_COST_MAX.saturating_sub(self.needs.entries);
        let account = self.account(name);
        let count = account.only().map_or(account.ready.1, |queue| queue.count(JobState::Ready));
        // From an end that has moved, to a job that has moved.
        let shift = account.shift().saturating_mul(2).min(i64::MAX as u64) as i64;
        let from_left =
            |place: i64| if place < 0 { place.saturating_add(count as i64) } else { place };
        let lo = from_left(start).saturating_sub(shift).max(0) as u64;
        let hi = from_left(stop).saturating_add(shift).min(count as i64 - 1);
        let single = start == stop;
        let (mut bytes, mut largest, mut entries) = (account.came_bytes, account.came_largest, 1);
        if hi >= 0 && lo <= hi as u64 {
            let hi = hi as u64;
            let shared = account.shared_bytes(hi - lo + 1);
            let passed = if shared.is_some() { count } else { lo.min(count - 1 - hi) };
            entries += (hi - lo + 1 + passed).div_ceil(4);
            let mut visit = |job: &Job| {
                let size = job.rest_bytes() as u64 + BODY_COST as u64;
                (bytes, largest) = (bytes + size, largest.max(size));
                single || bytes <= BODIES_BYTES_MAX as u64
            };
            // Not walked if it is too much anyway.
            if let Some((total, one)) = shared {
                (bytes, largest) = (bytes + total, largest.max(one));
            } else if entries <= room && !account.inspect(store, lo, hi, &mut visit) {
                bytes = account.bytes_in(&[JobState::Ready]);
                largest = bytes;
            }
        }
        let bytes = if single { largest } else { bytes };
        self.answer(entries, bytes);
        let max = BODIES_BYTES_MAX as u64;
        if !single && bytes > max && self.needs.check().is_ok() {
            return Err(Error::TransactionRange { max });
        }
        Ok(())
    }

    fn find(&mut self, find: &Find<'r>) {
        let ready = self.account(find.queue).ready.1;
        let looked = if find.inspected_max > 0 { ready.min(find.inspected_max) } else { ready };
        let places = match find.count {
            None => 1,
            Some(0) => looked.min(COUNT_MAX),
            Some(count) => looked.min(count).min(COUNT_MAX),
        };
        let entries = 1 + self.comparing(find.queue, looked, find.body);
        self.answer(entries, places * NUMBER_BYTES);
    }

    fn get(&mut self, name: QueueName<'r>, id: &[u8]) {
        let (bytes, store) = (self.size_of(name, id), self.store);
        let account = self.account(name);
        let came = account.came > 0;
        let of = |queue: &&Queue| {
            let index = store.locate(queue.number, id).index?;
            let errors = store.jobs().history(index).and_then(|history| history.errors.as_ref());
            // A NACK before it may give it any.
            let errors = match store.jobs().get(index).stage {
                JobStage::Leased => LAST_ERRORS_REPLY_BYTES,
                _ => errors.map_or(0, last_errors_bytes),
            };
            Some(backoff_bytes(&store.policy(index).backoff) + errors)
        };
        let more = account.queues.iter().filter_map(of).max().unwrap_or(0);
        // New jobs may have any backoff and any errors.
        let any = STEP_BYTES * LADDER_STEPS_MAX as u64 + LAST_ERRORS_REPLY_BYTES;
        let more = if came { any } else { more };
        let view = VIEW_BYTES + META_FRAMING_BYTES as u64;
        self.answer(1, if bytes == 0 { 0 } else { bytes + more + view });
    }

    fn peek(&mut self, name: QueueName<'r>, state: Option<JobState>, count: u64, newest: bool) {
        let (store, entries) = (self.store, 1 + count);
        let states = match state {
            None => &[JobState::Ready, JobState::Delayed][..],
            Some(ref state) => std::slice::from_ref(state),
        };
        self.order(name, state, count);
        let account = self.account(name);
        let (mut most, mut bytes) = (count + account.shift(), account.came_bytes);
        let mut largest = account.came_largest;
        if state == Some(JobState::Leased) && account.leased > 0 {
            most += account.leased;
            bytes += account.leased_bytes;
            largest = largest.max(account.leased_bytes);
        }
        let Some(queue) = account.only() else {
            // The new jobs are included.
            let more = bytes - account.came_bytes;
            let bytes = account.bytes_in(states) + more + count * DELIVERED_BYTES;
            return self.answer(entries, bytes);
        };
        let shown = queue.count(JobState::Ready).min(most);
        let shared = account.shared_bytes(shown).filter(|_| states.contains(&JobState::Ready));
        let (total, one) = shared.unwrap_or_default();
        (bytes, largest) = (bytes + total, largest.max(one));
        let mut show = |sizes: &mut dyn Iterator<Item = u64>| {
            for size in sizes.take(most as usize) {
                (bytes, largest) = (bytes + size, largest.max(size));
            }
        };
        let size = |index| store.jobs().get(index).data_bytes() as u64 + DELIVERED_BYTES;
        for state in states {
            match (state, shared) {
                (JobState::Ready, Some(_)) => {}
                (JobState::Ready, None) => {
                    for side in account.sides(None) {
                        show(&mut store.ready(queue, *side).map(size));
                    }
                }
                (JobState::Dead, _) if newest => {
                    show(&mut queue.dead.iter_back(store.chunks()).map(size));
                }
                (JobState::Dead, _) => show(&mut queue.dead.iter(store.chunks()).map(size)),
                (JobState::Delayed, _) => {
                    show(&mut queue.delayed.iter_front(store.timers()).map(size));
                }
                (JobState::Leased, _) => {
                    show(&mut queue.leases.iter_front(store.timers()).map(size));
                }
            }
        }
        let cap = REPLY_BYTES_MAX as u64 + largest + count * DELIVERED_BYTES;
        self.answer(entries + (most - count) / 4, bytes.min(cap));
    }

    /// Ensures that the first `count` timers of a queue can be listed in order, whatever comes before.
    fn order(&mut self, name: QueueName<'r>, state: Option<JobState>, count: u64) {
        let account = self.account(name);
        let count = count + account.shift() + account.leased;
        let queues: Vec<_> = account.queues.iter().map(|queue| queue.number).collect();
        self.unordered.extend(queues.into_iter().map(|number| (number, state, count)));
    }
}

fn backoff_bytes(backoff: &Backoff) -> u64 {
    match &backoff.steps {
        Steps::Ladder(steps) => steps.len() as u64 * STEP_BYTES,
        Steps::Exponential { .. } => 4 * STEP_BYTES,
    }
}

/// Entries that looking at a name and comparing it with a pattern counts as: one more for each 16 bytes of
/// the pattern, which at the worst are 8,192 bytes compared with the longest name, some µs.
fn matching_cost(pattern: Option<&[u8]>) -> u64 {
    1 + pattern.map_or(0, |pattern| pattern.len() as u64 / 16)
}

/// The same of all patterns of those queues that can be read; 1 where all can be.
fn readable_cost(readable: Readable<'_>) -> u64 {
    let all = readable.into_iter().flatten();
    1 + all.map(|glob| matching_cost(Some(glob))).sum::<u64>()
}

fn last_errors_bytes(errors: &LastErrors) -> u64 {
    let text_bytes = errors.bytes() + errors.newest().text.len();
    text_bytes as u64 + LAST_ERRORS_MAX as u64 * LAST_ERROR_BYTES
}
