//! A stored job: 40 bytes, plus its timer, its place in the id index and a slot for id and body.
//!
//! Data of delivered or dead jobs is separate ([`History`]), so that a million waiting jobs do not
//! pay for it.

pub(in crate::engine) mod bodies;
pub(in crate::engine) mod entries;
pub(in crate::engine) mod hash;
pub(in crate::engine) mod index;
mod order;
pub(in crate::engine) mod policies;
pub(in crate::engine) mod slots;

use crate::engine::model::last_errors::LastErrors;
use crate::engine::model::meta::{Meta, OwnMeta};
use crate::engine::model::reply::Reason;
use crate::engine::model::request::JobState;
use crate::engine::store::jobs::bodies::{Data, Slot};
use crate::engine::store::memory::allocated_bytes;
use crate::engine::store::ready::rota::NO_GROUP;
use crate::ids::PolicyNo;
use crate::limits::NAME_BYTES_MAX;
use crate::pool::Pool;
use crate::time::{Micros, Millis};
use smallvec::SmallVec;

/// The slab number of a job inside a partition; also the key of its timer.
pub type JobIndex = u32;

/// The slab's state of a number.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum JobStage {
    /// Nothing.
    #[default]
    Vacant,
    /// Its timer is its due time.
    Delayed,
    /// In the ready order; its timer is its expiry if it has a TTL and was never delivered.
    Ready,
    /// Its timer is its lease's end.
    Leased,
    /// Among the dead letters; its timer is when it is dropped.
    Dead,
    /// No job any more, only an id that is still taken (UNIQUE); its timer is the window's end.
    Window,
}

impl JobStage {
    /// The state users see; none for a vacant number or a window.
    pub fn state(self) -> Option<JobState> {
        match self {
            JobStage::Delayed => Some(JobState::Delayed),
            JobStage::Ready => Some(JobState::Ready),
            JobStage::Leased => Some(JobState::Leased),
            JobStage::Dead => Some(JobState::Dead),
            JobStage::Vacant | JobStage::Window => None,
        }
    }
}

/// A job, or a window on an id.
///
/// Only the job knows where its id and body are: code that takes it out of the slab passes it to [`Jobs::discard`] or
/// [`Jobs::part_with`].
#[derive(Default, Debug)]
pub struct Job {
    pub added: Millis,
    /// Delayed: the sequence in which it was armed. Ready and leased: its place. Dead: the sequence
    /// of its death. Window: the queue's sequence when it began, or 0.
    pub order: i64,
    /// Where the id is, followed by META, if it has any, and the body.
    slot: Slot,
    /// Bytes of both, and of what is between them.
    length: u32,
    /// The low half of the id's hash: growing the index then touches no id.
    pub hash: u32,
    /// The number of its policy; or, with [`HISTORY`] set, of its history, which then knows the
    /// policy: 8 bytes saved for every job that waits for its time.
    link: u32,
    /// Ready: where in the ready order. Dead: where among the dead letters. Leased: the number of the client that has it,
    /// or 0; volatile, so neither facts nor images have it.
    pub spot: u32,
    /// Up to 512. With [`GROUP`] set a group stands between id and body: its number, 2 bytes of the length of its name,
    /// then that. With [`META`] set META does, behind it: 2 bytes of its length, then the block.
    id_length: u16,
    /// 0 (first) to 9.
    pub priority: u8,
    pub stage: JobStage,
}

const _: () = assert!(size_of::<Job>() <= 40);

/// The bit of `Job::link` that distinguishes a history from a policy. Policies are numbered densely
/// and counted as memory, so their numbers stay far below it.
const HISTORY: u32 = 1 << 31;

/// The bit of `Job::id_length` that tells of META: no bytes and one test for jobs without.
const META: u16 = 1 << 15;
/// The same for a group.
const GROUP: u16 = 1 << 14;
const _: () = assert!(NAME_BYTES_MAX < GROUP as usize);

/// Bytes of the length of META in a slot.
pub const META_LENGTH_BYTES: usize = 2;
/// Bytes of the number of a group and the length of its name in a slot.
pub const GROUP_HEAD_BYTES: usize = 6;

/// All that a job has in its slot.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    pub id: &'a [u8],
    /// The number and the name of its group.
    pub group: Option<(u32, &'a [u8])>,
    pub meta: Meta<'a>,
    pub body: &'a [u8],
}

impl<'a> Content<'a> {
    /// An id and nothing else.
    pub fn of(id: &'a [u8]) -> Content<'a> {
        Content { id, group: None, meta: Meta::NONE, body: &[] }
    }

    /// The name of its group.
    pub fn group_name(self) -> Option<&'a [u8]> {
        self.group.map(|(_, name)| name)
    }
}

/// Bytes that a group takes in a slot.
pub fn stored_group_bytes(group: Option<&[u8]>) -> usize {
    group.map_or(0, |name| GROUP_HEAD_BYTES + name.len())
}

/// Bytes that META takes in a slot.
pub fn stored_meta_bytes(meta: Meta<'_>) -> usize {
    if meta.is_none() { 0 } else { META_LENGTH_BYTES + meta.block().len() }
}

impl Job {
    /// The policy of a job that has no history, as one that was taken out of the store.
    pub fn policy(&self) -> PolicyNo {
        assert_eq!(self.link & HISTORY, 0, "the history knows the policy");
        PolicyNo(self.link)
    }

    /// Bytes of id, META and body.
    pub fn data_bytes(&self) -> usize {
        self.length as usize
    }

    pub fn id_bytes(&self) -> usize {
        usize::from(self.id_length & !(META | GROUP))
    }

    /// Bytes of group, META and body.
    pub fn rest_bytes(&self) -> usize {
        self.data_bytes() - self.id_bytes()
    }

    /// The number of the client that has it, 0 if that is not known. It is leased.
    pub fn holder(&self) -> u32 {
        debug_assert_eq!(self.stage, JobStage::Leased, "only leased jobs have a holder");
        self.spot
    }

    pub fn has_meta(&self) -> bool {
        self.id_length & META != 0
    }

    pub fn has_group(&self) -> bool {
        self.id_length & GROUP != 0
    }

    /// The parts of all its data.
    #[inline]
    fn split<'d>(&self, data: &'d [u8]) -> Content<'d> {
        let (id, mut rest) = data.split_at(self.id_bytes());
        let (mut group, mut meta) = (None, Meta::NONE);
        if self.has_group() {
            let (number, behind) = rest.split_first_chunk().expect("a group has a number");
            let (length, behind) = behind.split_first_chunk().expect("a name has a length");
            let (name, behind) = behind.split_at(u16::from_le_bytes(*length).into());
            (group, rest) = (Some((u32::from_le_bytes(*number), name)), behind);
        }
        if self.has_meta() {
            let (length, behind) = rest.split_first_chunk().expect("META begins with its length");
            let (block, behind) = behind.split_at(u16::from_le_bytes(*length).into());
            (meta, rest) = (Meta::trusted(block), behind);
        }
        Content { id, group, meta, body: rest }
    }
}

/// A job that has left the store, with all that it had.
#[derive(Debug)]
pub struct Departed {
    pub job: Job,
    pub history: Option<History>,
    /// As in its slot.
    data: Box<[u8]>,
}

impl Departed {
    pub fn content(&self) -> Content<'_> {
        self.job.split(&self.data)
    }
}

/// Additional data of a job that was delivered, or died.
#[derive(Clone, Default, Debug)]
pub struct History {
    policy: PolicyNo,
    /// The newest token; 0 when it is void.
    pub token: u64,
    /// Its due time while the timer counts something else.
    pub due: Millis,
    /// Leased: the sequence in which the lease was armed, the order among equal ends.
    pub armed: i64,
    /// When the newest delivery was decided; 0 if unknown, as after loading a base file. Volatile:
    /// it is shown and counted, and decides nothing.
    pub begun: Micros,
    /// Deliveries that count.
    pub attempt: u32,
    pub deliveries: u32,
    /// Those that ended with a NACK.
    pub nacks: u32,
    /// Deliveries whose lease ran out.
    pub timeouts: u32,
    /// Deliveries whose connection closed.
    pub lost: u32,
    /// How many leases in a row ended without an answer: from the second on the backoff applies.
    pub unanswered: u32,
    /// The running lease ends with its connection.
    pub bound: bool,
    /// For a job with a group. Bit 0: it was redriven, and not handed out since. Bit 1: that held before its newest
    /// delivery.
    pub rested: u8,
    /// Dead: why, and since when. Apart, so that both take 9 bytes and not 16.
    reason: Option<Reason>,
    died: Millis,
    /// The texts of the last `NACK … ERROR`.
    pub errors: Option<LastErrors>,
    /// Leased: what follows.
    pub successor: Option<Box<Successor>>,
}

const _: () = assert!(size_of::<History>() <= 96);

/// A newer version of a leased job, which takes its id when the delivery ends.
#[derive(Clone, Debug)]
pub struct Successor {
    pub policy: PolicyNo,
    /// 0 to 9.
    pub priority: u8,
    pub added: Millis,
    pub due: Millis,
    pub group: Option<Box<[u8]>>,
    pub meta: OwnMeta,
    pub body: Box<[u8]>,
}

impl Successor {
    /// Bytes counted as memory.
    pub fn bytes(&self) -> usize {
        Successor::bytes_of(self.group.as_deref(), self.meta.get(), &self.body)
    }

    /// The same of one with these parts.
    pub fn bytes_of(group: Option<&[u8]>, meta: Meta<'_>, body: &[u8]) -> usize {
        let name_bytes = group.map_or(0, <[u8]>::len);
        let parts = [size_of::<Successor>(), name_bytes, meta.block().len(), body.len()];
        parts.into_iter().filter(|bytes| *bytes > 0).map(allocated_bytes).sum()
    }

    /// Bytes of group, META and body, as a job has them.
    pub fn rest_bytes(&self) -> usize {
        let group_bytes = stored_group_bytes(self.group.as_deref());
        group_bytes + stored_meta_bytes(self.meta.get()) + self.body.len()
    }
}

impl History {
    /// Why it died, and when.
    pub fn death(&self) -> Option<(Reason, Millis)> {
        self.reason.map(|reason| (reason, self.died))
    }

    pub fn set_death(&mut self, death: Option<(Reason, Millis)>) {
        self.reason = death.map(|(reason, _)| reason);
        self.died = death.map_or(Millis(0), |(_, died)| died);
    }

    /// Whether it was handed out with a lease since it was added or redriven.
    pub fn has_begun(&self) -> bool {
        self.deliveries > 0 && self.rested & 1 == 0
    }

    /// The text of the last `NACK … ERROR`.
    pub fn error(&self) -> Option<&[u8]> {
        self.errors.as_ref().map(|errors| errors.newest().text)
    }

    /// When the newest delivery was decided, if that is known.
    pub fn delivered(&self) -> Option<Micros> {
        (self.begun.0 > 0).then_some(self.begun)
    }
}

/// Jobs, their histories, ids and bodies by number, in blocks that never move.
#[derive(Default, Debug)]
pub struct Jobs {
    jobs: Pool<Job, JOBS_PER_BLOCK>,
    histories: Pool<History, 1024>,
    data: Data,
    /// The next job to be asked whether a lower page has room for its id and body.
    moving: JobIndex,
    /// Numbers of closed blocks of jobs, for parallel arrays.
    closed: Vec<JobIndex>,
}

/// Jobs whose memory is allocated together, 160 KiB.
pub const JOBS_PER_BLOCK: usize = 4_096;

/// Jobs that are checked in one step of a budget; each moved job is one more step.
const ASKED_A_STEP: u32 = 8;

/// Bytes counted per job in addition to id and body: the job, its timer, its share of wheel and
/// index.
pub const JOB_BYTES: usize = size_of::<Job>() + 12 + 5 + 11;

pub const HISTORY_BYTES: usize = size_of::<History>() + 8;

impl Jobs {
    pub fn put(&mut self, job: Job) -> JobIndex {
        let index = self.jobs.alloc();
        *self.jobs.get_mut(index) = job;
        index
    }

    /// A vacant job with all of this, to be [`put`](Jobs::put).
    pub fn make(&mut self, content: Content<'_>, policy: PolicyNo) -> Job {
        let Content { id, group, meta, body } = content;
        let mut id_length = id.len() as u16;
        // The parts are not put together first: each is copied once.
        let (mut head, meta_length) = ([0; GROUP_HEAD_BYTES], meta.block().len() as u16);
        let meta_length = meta_length.to_le_bytes();
        let mut parts = SmallVec::<[&[u8]; 6]>::from_slice(&[id]);
        if let Some((number, name)) = group {
            id_length |= GROUP;
            head[..4].copy_from_slice(&number.to_le_bytes());
            head[4..].copy_from_slice(&(name.len() as u16).to_le_bytes());
            parts.extend([&head, name]);
        }
        if !meta.is_none() {
            id_length |= META;
            parts.extend([&meta_length, meta.block()]);
        }
        parts.push(body);
        let length = parts.iter().map(|part| part.len()).sum::<usize>();
        let length = u32::try_from(length).expect("a body is less than 4 GiB");
        let slot = self.data.put(&parts);
        Job { slot, length, id_length, link: policy.0, ..Job::default() }
    }

    /// Forgets id and body of a job that was taken out.
    pub fn discard(&mut self, job: Job) {
        self.data.free(job.slot, job.data_bytes());
    }

    /// Lets a job that was taken out go, with all that it had.
    pub fn part_with(&mut self, job: Job, history: Option<History>) -> Departed {
        let data = self.data.take(job.slot, job.data_bytes());
        Departed { job, history, data }
    }

    pub fn id(&self, index: JobIndex) -> &[u8] {
        let job = self.get(index);
        &self.data.get(job.slot, job.data_bytes())[..job.id_bytes()]
    }

    pub fn body(&self, index: JobIndex) -> &[u8] {
        self.content(index).body
    }

    pub fn content(&self, index: JobIndex) -> Content<'_> {
        let job = self.get(index);
        job.split(self.data.get(job.slot, job.data_bytes()))
    }

    /// The number of its group; the data is touched only if it has one.
    #[inline]
    pub fn group(&self, index: JobIndex) -> u32 {
        let job = self.get(index);
        if !job.has_group() {
            return NO_GROUP;
        }
        let data = self.data.get(job.slot, job.data_bytes());
        let number = data[job.id_bytes()..].first_chunk().expect("a group has a number");
        u32::from_le_bytes(*number)
    }

    /// Bytes of the body; the data is touched only if there is a group or META.
    pub fn body_bytes(&self, index: JobIndex) -> usize {
        let job = self.get(index);
        let alone = !job.has_meta() && !job.has_group();
        if alone { job.rest_bytes() } else { self.body(index).len() }
    }

    /// Bytes of id and body in a reply, and of group and META if those are shown.
    pub fn shown_bytes(&self, index: JobIndex, meta: bool) -> usize {
        let job = self.get(index);
        if meta { job.data_bytes() } else { job.id_bytes() + self.body_bytes(index) }
    }

    /// Whether as many ids are kept as there are jobs and windows.
    pub fn has_data_of_each(&self) -> bool {
        self.data.count() == self.jobs.used()
    }

    pub fn data_bytes(&self) -> usize {
        self.data.bytes()
    }

    pub fn job_bytes(&self) -> usize {
        self.jobs.bytes() + self.histories.bytes()
    }

    /// Bytes of pages that could be returned if ids and bodies were closer together; 0 if they are certainly fewer than
    /// `enough`.
    pub fn spare_data_bytes(&self, enough: usize) -> usize {
        self.data.spare_bytes(enough)
    }

    /// The same of jobs and histories.
    pub fn spare_job_bytes(&self) -> usize {
        self.jobs.spare_bytes() + self.histories.spare_bytes()
    }

    /// Whether a job with this many bytes of id and body fits into held memory.
    pub fn has_room(&self, data_bytes: usize) -> bool {
        self.jobs.has_room() && self.data.has_room(data_bytes)
    }

    pub fn history_count(&self) -> usize {
        self.histories.used()
    }

    /// How many jobs and windows there are.
    pub fn count(&self) -> usize {
        self.jobs.used()
    }

    /// Moves ids and bodies of some jobs closer together; true when all were asked. `moved` counts them.
    pub fn move_data(&mut self, budget: &mut u32, moved: &mut u64) -> bool {
        while self.moving < self.jobs.end() {
            if *budget == 0 {
                return false;
            }
            if self.jobs.find(self.moving).is_none() {
                // A block without jobs, as after a peak.
                self.moving = (self.moving + 1).next_multiple_of(JOBS_PER_BLOCK as u32);
                *budget -= 1;
                continue;
            }
            let end = self.moving + ASKED_A_STEP;
            let mut steps = 1;
            for index in self.moving..end {
                let more = self.move_one(index);
                steps += more;
                *moved += u64::from(more > 0);
            }
            *budget = budget.saturating_sub(steps);
            self.moving = end;
        }
        self.moving = 0;
        true
    }

    /// Gives back what is kept for the next ids, bodies, jobs and histories and holds none.
    pub fn close_empty(&mut self) {
        self.data.close_empty();
        self.histories.close_empty();
        self.closed.extend(self.jobs.close_empty());
    }

    /// How many steps it took.
    fn move_one(&mut self, index: JobIndex) -> u32 {
        let Some(job) = self.jobs.find_mut(index) else { return 0 };
        if job.stage == JobStage::Vacant {
            return 0;
        }
        let before = job.slot;
        job.slot = self.data.move_below(before, job.data_bytes());
        // A KiB is copied in a fifth of the time that finding it takes.
        if job.slot == before { 0 } else { 1 + job.data_bytes() as u32 / 4_096 }
    }

    /// Moves a job to a lower block, if that helps to close one; returns its new number. Every holder of the old number
    /// must be updated.
    pub fn move_below(&mut self, index: JobIndex) -> Option<JobIndex> {
        let lower = self.jobs.move_below(index);
        if lower.is_some() {
            self.note_closed(index);
        }
        lower
    }

    /// Moves a job's history to a lower block, if that helps to close one.
    pub fn move_history(&mut self, index: JobIndex) {
        let job = self.jobs.get_mut(index);
        if job.link & HISTORY != 0
            && let Some(lower) = self.histories.move_below(job.link & !HISTORY)
        {
            job.link = HISTORY | lower;
        }
    }

    /// The first number of a block that was closed since this was last asked, and may be open again.
    pub fn next_closed(&mut self) -> Option<JobIndex> {
        self.closed.pop()
    }

    /// Whether there is a block for this number.
    pub fn is_open(&self, index: JobIndex) -> bool {
        self.jobs.is_open(index)
    }

    fn note_closed(&mut self, index: JobIndex) {
        if !self.jobs.is_open(index) {
            self.closed.push(index - index % JOBS_PER_BLOCK as u32);
        }
    }

    pub fn take(&mut self, index: JobIndex) -> (Job, Option<History>) {
        let history = self.forget_history(index);
        let job = std::mem::take(self.jobs.get_mut(index));
        self.jobs.free(index);
        self.note_closed(index);
        (job, history)
    }

    pub fn get(&self, index: JobIndex) -> &Job {
        self.jobs.get(index)
    }

    /// The job, if there may be none any more.
    pub fn find(&self, index: JobIndex) -> Option<&Job> {
        self.jobs.find(index)
    }

    pub fn get_mut(&mut self, index: JobIndex) -> &mut Job {
        self.jobs.get_mut(index)
    }

    /// The job's history, if it has one.
    pub fn history(&self, index: JobIndex) -> Option<&History> {
        self.history_of(self.get(index))
    }

    /// The same of a job that is at hand.
    #[inline]
    pub fn history_of(&self, job: &Job) -> Option<&History> {
        (job.link & HISTORY != 0).then(|| self.histories.get(job.link & !HISTORY))
    }

    /// Whether a job of a group is *begun*: it was handed out with a lease since it was added or redriven. Whether it has
    /// ended since says its state.
    pub fn has_begun(&self, index: JobIndex) -> bool {
        self.get(index).has_group() && self.history(index).is_some_and(History::has_begun)
    }

    /// The job's history, made if it has none. True if it was made.
    pub fn history_mut(&mut self, index: JobIndex) -> (&mut History, bool) {
        let job = self.jobs.get_mut(index);
        let made = job.link & HISTORY == 0;
        if made {
            let policy = PolicyNo(job.link);
            job.link = HISTORY | self.histories.alloc();
            self.histories.get_mut(job.link & !HISTORY).policy = policy;
        }
        (self.histories.get_mut(job.link & !HISTORY), made)
    }

    pub fn policy(&self, index: JobIndex) -> PolicyNo {
        let job = self.get(index);
        self.history_of(job).map_or_else(|| job.policy(), |history| history.policy)
    }

    pub fn restore_history(&mut self, index: JobIndex, history: History) {
        let policy = self.get(index).policy();
        *self.history_mut(index).0 = History { policy, ..history };
    }

    pub fn forget_history(&mut self, index: JobIndex) -> Option<History> {
        let job = self.jobs.get_mut(index);
        if job.link & HISTORY == 0 {
            return None;
        }
        let number = job.link & !HISTORY;
        let history = std::mem::take(self.histories.get_mut(number));
        self.histories.free(number);
        job.link = history.policy.0;
        Some(history)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng, rngs::SmallRng};

    fn body(number: u32) -> Vec<u8> {
        number.to_le_bytes().repeat(30)
    }

    #[test]
    fn jobs_keep_id_and_body_while_they_are_moved_together_in_slices() {
        let mut rng = SmallRng::seed_from_u64(3);
        let mut jobs = Jobs::default();
        let mut there: Vec<(JobIndex, u32)> = Vec::new();
        for number in 0..300_000 {
            let content = Content { body: &body(number), ..Content::of(b"id") };
            let job = jobs.make(content, PolicyNo(0));
            let index = jobs.put(job);
            jobs.get_mut(index).stage = JobStage::Delayed;
            there.push((index, number));
        }
        for _ in 0..270_000 {
            let (index, _) = there.swap_remove(rng.random_range(0..there.len()));
            let (job, history) = jobs.take(index);
            if index % 2 == 0 {
                jobs.discard(job);
            } else {
                let departed = jobs.part_with(job, history);
                let Content { id, body, .. } = departed.content();
                assert_eq!((id, body.len()), (&b"id"[..], 120));
            }
        }
        let mut slices = 0;
        while !jobs.move_data(&mut 100, &mut 0) {
            slices += 1;
        }
        // Most of 30,000 are moved.
        let (asked, moved) = (300_000 / ASKED_A_STEP, 30_000);
        let fewest = (asked + moved / 2) / 108;
        assert!((fewest..(asked + moved) / 100 + 10).contains(&slices), "{slices} slices");
        assert!(jobs.spare_data_bytes(0) == 0 && jobs.has_data_of_each());
        for (index, number) in there {
            assert_eq!((jobs.id(index), jobs.body(index)), (&b"id"[..], &body(number)[..]));
        }
    }
}
