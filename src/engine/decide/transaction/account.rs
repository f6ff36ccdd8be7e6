//! One queue in a transaction that has not begun: what it may hold when a command comes to it.
//!
//! Nothing is simulated. Bounds follow from the current queue and from the additions and removals that earlier commands
//! may have made: at least this many ready jobs, at most this many jobs, this many bytes that have not been read yet.
//!
//! The jobs that commands take from one end are among the first of the order as it is now, as many as
//! they take and as many as others may have removed before, or are jobs that came meanwhile:
//!
//! ```text
//! ready now    a b c d e f g ...        DEL c, then LPOP 2:  among a b c, or new
//!              `---' walked             DEL a b, then LPOP 1: among a b c, or new
//! ```
//!
//! So what all of them hand over together has no more bytes than what was walked over and what came. It
//! is counted command by command from these *unread* bytes.

use std::collections::{BTreeMap, HashSet};

use crate::engine::model::queue_settings::Pause;
use crate::engine::model::request::{JobState, Side};
use crate::engine::store::Store;
use crate::engine::store::jobs::{Job, JobIndex};
use crate::engine::store::queue::Queue;
use crate::limits::{NAME_BYTES_MAX, SLACK_STEPS_PER_TURN};
use crate::time::Micros;

/// Bytes of a delivered job in a reply, in addition to its queue's name, its id and its body: lengths, a token and
/// three numbers.
pub(super) const DELIVERED_BYTES: u64 = 256;

/// Jobs in order, as they are now.
type JobWalk<'e> = Box<dyn Iterator<Item = JobIndex> + 'e>;

#[derive(Default)]
pub(super) struct Account<'e> {
    /// The queues whose jobs it may hold: its own, and after a RENAME that may or may not have
    /// happened also the other's. None if it does not exist, or is certainly gone.
    pub queues: Vec<&'e Queue>,
    /// The longest name that its jobs may be shown with, bytes.
    pub name_bytes: u64,
    /// An earlier command may have changed it.
    pub touched: bool,
    /// Something may be set for it, or paused, that was not.
    pub own: bool,
    /// Jobs that earlier commands named by their ids.
    pub named: HashSet<JobIndex>,
    /// Ready jobs may be gone that no command named.
    pub taken_from: bool,
    /// Jobs of any state may be gone that no command named.
    pub cleared: bool,
    /// Its queue is counted as one that is made.
    pub made: bool,
    /// Ready jobs: at least, and at most.
    pub ready: (u64, u64),
    /// Dead jobs, at most.
    pub dead: u64,
    /// All jobs, at least.
    pub jobs_min: u64,
    /// Those that count for `max-jobs`, at most.
    pub counted: u64,
    /// `max-jobs`, 0 for none.
    pub max_jobs: u64,
    /// Jobs that may come to each group of those that are added, and those that may to any.
    pub added_to: BTreeMap<Box<[u8]>, u64>,
    pub added_to_any: u64,
    /// The least `group-max-jobs` that may be set meanwhile, 0 for none.
    pub group_max_jobs: u64,
    /// Whether it takes jobs.
    pub into: Pause,
    /// Jobs that may have come or changed their state, their bytes, and the largest of them.
    pub came: u64,
    pub came_bytes: u64,
    pub came_largest: u64,
    /// Jobs that may be gone or in another state, except for those taken from an end.
    pub left: u64,
    /// Jobs that may have come to stand among the leased, or at another place there, and the bytes that may be theirs.
    pub leased: u64,
    pub leased_bytes: u64,
    /// Jobs taken from the left and from the right.
    taken: [u64; 2],
    /// How far that side was walked.
    walked: [u64; 2],
    walks: [Option<JobWalk<'e>>; 2],
    /// Bytes that may yet be handed over, and the largest single job among all that may be.
    unread: u64,
    largest: u64,
    /// It is not known from which side POP takes.
    sides_unknown: bool,
    /// Which of several queues it is.
    coarse: bool,
}

/// The lower of two limits; 0 means that there is no limit.
pub fn least(one: u64, other: u64) -> u64 {
    match (one, other) {
        (0, max) | (max, 0) => max,
        (one, other) => one.min(other),
    }
}

impl<'e> Account<'e> {
    /// The account of an existing queue.
    pub fn of(queue: Option<&'e Queue>) -> Account<'e> {
        let Some(of) = queue else { return Account::default() };
        let (ready, dead) = (of.count(JobState::Ready), of.count(JobState::Dead));
        let settings = of.settings.as_ref();
        Account {
            queues: vec![of],
            name_bytes: of.name.len() as u64,
            made: true,
            ready: (ready, ready),
            dead,
            jobs_min: of.jobs,
            counted: of.jobs - dead,
            max_jobs: settings.and_then(|settings| settings.max_jobs).unwrap_or(0),
            into: of.pauses.into,
            ..Account::default()
        }
    }

    /// One that is not there any more.
    pub fn gone() -> Account<'e> {
        Account { touched: true, ..Account::default() }
    }

    /// Its possible content if it is this queue or the other.
    pub fn or(&self, other: &Account<'e>) -> Account<'e> {
        let max_jobs = least(self.max_jobs, other.max_jobs);
        let mut added_to = self.added_to.clone();
        for (group, count) in &other.added_to {
            *added_to.entry(group.clone()).or_default() += count;
        }
        let unread = self.all_unread() + other.all_unread();
        Account {
            queues: self.queues.iter().chain(&other.queues).copied().collect(),
            name_bytes: NAME_BYTES_MAX as u64,
            touched: true,
            own: self.own || other.own,
            taken_from: true,
            cleared: true,
            made: self.made && other.made,
            ready: (self.ready.0.min(other.ready.0), self.ready.1.max(other.ready.1)),
            dead: self.dead.max(other.dead),
            jobs_min: self.jobs_min.min(other.jobs_min),
            counted: self.counted.max(other.counted),
            max_jobs,
            added_to,
            added_to_any: self.added_to_any + other.added_to_any,
            group_max_jobs: least(self.group_max_jobs, other.group_max_jobs),
            into: if self.into == Pause::None { other.into } else { self.into },
            came: self.came + other.came,
            came_bytes: self.came_bytes + other.came_bytes,
            came_largest: self.came_largest.max(other.came_largest),
            left: self.left + other.left,
            leased: self.leased + other.leased,
            leased_bytes: self.leased_bytes + other.leased_bytes,
            unread,
            largest: unread,
            coarse: true,
            ..Account::default()
        }
    }

    /// Bytes that may be handed over of all its jobs.
    fn all_unread(&self) -> u64 {
        let of =
            |queue: &&Queue| queue.bytes + queue.jobs * (DELIVERED_BYTES + NAME_BYTES_MAX as u64);
        self.unread + self.queues.iter().map(of).sum::<u64>()
    }

    /// The same under a new name.
    pub fn renamed(self, name: &[u8]) -> Account<'e> {
        if self.walked != [0; 2] {
            // The walked jobs were counted under the old name.
            return self.or(&Account::gone());
        }
        let name_bytes = self.name_bytes.max(name.len() as u64);
        Account { name_bytes, touched: true, ..self }
    }

    /// Whether it is there: for sure, for sure not, or one of both.
    pub fn exists(&self) -> Option<bool> {
        let nothing = self.queues.is_empty() && self.came == 0 && !self.own;
        match self.touched {
            _ if self.jobs_min > 0 => Some(true),
            false => Some(self.queues.iter().any(|queue| queue.exists())),
            true if nothing => Some(false),
            true => None,
        }
    }

    /// Bytes counted for all the jobs that it may hold in some states.
    pub fn bytes_in(&self, states: &[JobState]) -> u64 {
        let of = |queue: &&Queue| -> u64 {
            states.iter().map(|state| queue.footprints.of_state(*state).bytes).sum()
        };
        self.queues.iter().map(of).sum::<u64>() + self.came_bytes
    }

    /// A job may arrive, with this many bytes in a reply.
    pub fn bring(&mut self, bytes: u64) {
        self.bring_all(1, bytes, bytes);
    }

    /// This many may arrive, the largest with this many bytes.
    pub fn bring_all(&mut self, count: u64, bytes: u64, largest: u64) {
        self.touched = true;
        self.came += count;
        self.came_bytes += bytes;
        self.came_largest = self.came_largest.max(largest);
        self.unread += bytes;
        self.largest = self.largest.max(largest);
        self.ready.1 += count;
    }

    /// A job may come to a group.
    pub fn join(&mut self, group: &[u8]) {
        *self.added_to.entry(group.into()).or_default() += 1;
    }

    /// As many may go or change their state. Those that are gone for sure count no more for `max-jobs`.
    pub fn lose(&mut self, count: u64, sure: u64) {
        self.touched = true;
        self.left += count;
        self.ready.0 = self.ready.0.saturating_sub(count);
        self.jobs_min = self.jobs_min.saturating_sub(count);
        self.counted = self.counted.saturating_sub(sure);
    }

    /// As many may stand among the leased that did not, or elsewhere there.
    pub fn lease(&mut self, count: u64, bytes: u64) {
        self.leased += count;
        self.leased_bytes += bytes;
    }

    /// A setting may change from which side POP takes.
    pub fn forget_side(&mut self) {
        self.sides_unknown = true;
    }

    /// The sides from which it may be taken; none means POP and RESERVE.
    pub fn sides(&self, side: Option<Side>) -> &'static [Side] {
        let next = || self.queues.first().map_or(Side::Left, |queue| queue.next_side());
        match side {
            None if self.sides_unknown || self.coarse => &[Side::Left, Side::Right],
            side => match side.unwrap_or_else(next) {
                Side::Left => &[Side::Left],
                Side::Right => &[Side::Right],
            },
        }
    }

    /// A command takes up to `count` jobs from `side`: the most bytes that it hands over, where it
    /// ends with the job that crosses `cap`. `expired` is how many jobs past their TTL may be met.
    pub fn take(
        &mut self,
        store: &'e Store,
        now: Micros,
        side: Option<Side>,
        count: u64,
        cap: u64,
        expired: &mut u64,
    ) -> u64 {
        for side in self.sides(side) {
            let before: u64 = self.taken.iter().sum();
            self.taken[*side as usize] += count;
            // Which jobs come first depends on what the commands before do with others.
            let (was, is) = (self.shared_bytes(before), self.shared_bytes(before + count));
            match was.zip(is) {
                Some(((was, _), (is, largest))) => {
                    self.unread += is - was;
                    self.largest = self.largest.max(largest);
                    self.jobs_min = 0;
                }
                None => self.walk(store, now, *side, expired),
            }
        }
        (self.touched, self.taken_from) = (true, true);
        self.ready.0 = self.ready.0.saturating_sub(count);
        let cap = cap.saturating_add(self.largest);
        let bytes = self.unread.min(cap);
        self.unread -= bytes;
        bytes
    }

    /// If groups share the queue's front: the most bytes in replies of so many of its ready jobs, and of one.
    pub fn shared_bytes(&self, count: u64) -> Option<(u64, u64)> {
        let shared = self.queues.iter().filter(|queue| queue.ready.is_shared());
        let all = |queue: &Queue| queue.footprints.of_state(JobState::Ready).bytes;
        let one = |queue: &&&Queue| all(queue).min(queue.largest.into());
        let largest = shared.map(|queue| one(&queue)).max()?;
        let total = self.queues.iter().map(|queue| all(queue)).sum::<u64>();
        let named = self.name_bytes + DELIVERED_BYTES;
        Some(((count * largest).min(total) + count * named, largest + named))
    }

    /// The most that one job has in a reply, of those that may have been handed over until now.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// Whether it is one queue, and which.
    pub fn only(&self) -> Option<&'e Queue> {
        match self.queues[..] {
            [queue] if !self.coarse => Some(queue),
            _ => None,
        }
    }

    fn walk(&mut self, store: &'e Store, now: Micros, side: Side, expired: &mut u64) {
        let at = side as usize;
        let [queue] = self.queues[..] else { return };
        if self.coarse {
            return;
        }
        let target = self.taken[at] + self.left;
        let walk = self.walks[at].get_or_insert_with(|| store.ready(queue, side));
        while self.walked[at] < target {
            let Some(index) = walk.next() else { return };
            let past = |expiry| expiry <= now.floor();
            if store.expiry(index).is_some_and(past) {
                let Some(rest) = expired.checked_sub(1) else { return };
                *expired = rest;
                self.jobs_min = self.jobs_min.saturating_sub(1);
                continue;
            }
            self.walked[at] += 1;
            let data_bytes = store.jobs().get(index).data_bytes() as u64;
            let bytes = data_bytes + self.name_bytes + DELIVERED_BYTES;
            self.unread += bytes;
            self.largest = self.largest.max(bytes);
        }
    }

    /// Ready jobs that a reading command may meet at the places `lo..=hi`, counted from the left now:
    /// calls `visit` with each, as long as it says so. False if it is not known
    /// which those are.
    pub fn inspect(
        &self,
        store: &'e Store,
        lo: u64,
        hi: u64,
        mut visit: impl FnMut(&Job) -> bool,
    ) -> bool {
        let [queue] = self.queues[..] else { return self.queues.is_empty() };
        let count = queue.count(JobState::Ready);
        let hi = hi.min(count.saturating_sub(1));
        if lo > hi || count == 0 {
            return true;
        }
        let behind = count - 1 - hi;
        let (from, skip) = if lo <= behind { (Side::Left, lo) } else { (Side::Right, behind) };
        let jobs = store.ready(queue, from);
        for index in jobs.skip(skip as usize).take((hi - lo + 1) as usize) {
            if !visit(store.jobs().get(index)) {
                break;
            }
        }
        true
    }

    /// By how much a ready job may stand at another place than now.
    pub fn shift(&self) -> u64 {
        self.came + self.left + self.taken[0] + self.taken[1]
    }

    /// Whether nothing set keeps its jobs from being taken.
    pub fn gives(&self) -> bool {
        let gives = |queue: &&Queue| !queue.throttles && queue.groups.is_none();
        !self.coarse && self.queues.iter().all(gives)
    }
}

/// Jobs past their TTL that taking commands may meet, as in a turn.
pub(super) const EXPIRED_MAX: u64 = SLACK_STEPS_PER_TURN as u64;
