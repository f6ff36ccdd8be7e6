//! A job as it is kept: 48 bytes beside its timer, its place in the id index and one allocation for
//! id and body.
//!
//! What only a delivered or dead job has is apart ([`History`]), so that a million jobs that wait
//! for their time do not pay for it.

use crate::engine::reply::Reason;
use crate::engine::request::State;
use crate::ids::PolicyNo;
use crate::pool::Pool;
use crate::time::{Micros, Millis};

/// The slab number of a job inside a partition; also the key of its timer.
pub type JobIndex = u32;

/// What the slab holds under a number.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Stage {
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

impl Stage {
    /// The state users see; none for a vacant number or a window.
    pub fn state(self) -> Option<State> {
        match self {
            Stage::Delayed => Some(State::Delayed),
            Stage::Ready => Some(State::Ready),
            Stage::Leased => Some(State::Leased),
            Stage::Dead => Some(State::Dead),
            Stage::Vacant | Stage::Window => None,
        }
    }
}

/// A job, or a window on an id.
#[derive(Clone, Default, Debug)]
pub struct Job {
    /// The id, then the body, in one allocation.
    data: Box<[u8]>,
    /// When it was added.
    pub added: Millis,
    /// Delayed: the sequence in which it was armed. Ready and leased: its place. Dead: the sequence
    /// of its death. Window: the queue's sequence when it began, or 0.
    pub order: i64,
    /// The low half of the id's hash: growing the index then touches no id.
    pub hash: u32,
    /// The number of its policy; or, with [`HISTORY`] set, of its history, which then knows the
    /// policy: 8 bytes saved for every job that waits for its time.
    link: u32,
    /// Ready: where in the ready order. Dead: where among the dead letters.
    pub spot: u32,
    id_length: u16,
    /// 0 (first) to 9.
    pub priority: u8,
    /// What it is.
    pub stage: Stage,
}

const _: () = assert!(size_of::<Job>() <= 48);

/// The bit of `Job::link` that tells a history from a policy. Policies are numbered densely and
/// counted as memory, so their numbers stay far below it.
const HISTORY: u32 = 1 << 31;

impl Job {
    /// A vacant job that holds id and body.
    pub fn with(id: &[u8], body: &[u8], policy: PolicyNo) -> Job {
        let mut data = Vec::with_capacity(id.len() + body.len());
        data.extend_from_slice(id);
        data.extend_from_slice(body);
        let (data, id_length) = (data.into_boxed_slice(), id.len() as u16);
        Job { data, id_length, link: policy.0, ..Job::default() }
    }

    /// The id.
    pub fn id(&self) -> &[u8] {
        &self.data[..usize::from(self.id_length)]
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.data[usize::from(self.id_length)..]
    }

    /// The policy of a job that has no history, as one that was taken out of the store.
    pub fn policy(&self) -> PolicyNo {
        assert_eq!(self.link & HISTORY, 0, "the history knows the policy");
        PolicyNo(self.link)
    }

    /// Bytes of id and body.
    pub fn data_bytes(&self) -> usize {
        self.data.len()
    }
}

/// What a job that was delivered, or died, has beside.
#[derive(Clone, Default, Debug)]
pub struct History {
    /// The job's policy.
    policy: PolicyNo,
    /// The newest token; 0 when it is void.
    pub token: u64,
    /// Its due time while the timer counts something else.
    pub due: Millis,
    /// Leased: the sequence in which the lease was armed, the order among equal ends.
    pub armed: i64,
    /// When the newest delivery was decided; 0 when nobody knows, as after loading a base file.
    /// Volatile: it is shown and counted, and decides nothing.
    pub begun: Micros,
    /// Deliveries that count.
    pub attempt: u32,
    /// All deliveries.
    pub deliveries: u32,
    /// Those that ended with a NACK.
    pub nacks: u32,
    /// Those whose lease ran out.
    pub timeouts: u32,
    /// Those whose connection closed.
    pub lost: u32,
    /// How many leases in a row ended without an answer: from the second on the backoff applies.
    pub unanswered: u32,
    /// The running lease ends with its connection.
    pub bound: bool,
    /// Dead: why and since when.
    pub death: Option<(Reason, Millis)>,
    /// The text of the last `NACK … ERROR`.
    pub error: Option<Box<[u8]>>,
}

impl History {
    /// When the newest delivery was decided, if that is known.
    pub fn delivered(&self) -> Option<Micros> {
        (self.begun.0 > 0).then_some(self.begun)
    }
}

/// Jobs and histories by number, in blocks that never move.
#[derive(Default, Debug)]
pub struct Jobs {
    jobs: Pool<Job, 4096>,
    histories: Pool<History, 1024>,
}

/// Bytes counted per job beside id and body: the job, its timer, its share of wheel and index, and
/// the allocator's header.
pub const JOB_BYTES: usize = size_of::<Job>() + 12 + 5 + 11 + 16;

/// Bytes counted per history.
pub const HISTORY_BYTES: usize = size_of::<History>() + 8;

impl Jobs {
    /// Stores a job.
    pub fn put(&mut self, job: Job) -> JobIndex {
        let index = self.jobs.alloc();
        *self.jobs.get_mut(index) = job;
        index
    }

    /// Takes a job out, with its history.
    pub fn take(&mut self, index: JobIndex) -> (Job, Option<History>) {
        let history = self.forget_history(index);
        let job = std::mem::take(self.jobs.get_mut(index));
        self.jobs.free(index);
        (job, history)
    }

    /// The job.
    pub fn get(&self, index: JobIndex) -> &Job {
        self.jobs.get(index)
    }

    /// The job, if there may be none any more.
    pub fn find(&self, index: JobIndex) -> Option<&Job> {
        self.jobs.find(index)
    }

    /// The job, to change.
    pub fn get_mut(&mut self, index: JobIndex) -> &mut Job {
        self.jobs.get_mut(index)
    }

    /// The job's history, if it has one.
    pub fn history(&self, index: JobIndex) -> Option<&History> {
        let link = self.jobs.get(index).link;
        (link & HISTORY != 0).then(|| self.histories.get(link & !HISTORY))
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

    /// The job's policy.
    pub fn policy(&self, index: JobIndex) -> PolicyNo {
        self.history(index).map_or_else(|| self.get(index).policy(), |history| history.policy)
    }

    /// Gives a job without a history this one.
    pub fn restore_history(&mut self, index: JobIndex, history: History) {
        let policy = self.get(index).policy();
        *self.history_mut(index).0 = History { policy, ..history };
    }

    /// Forgets the job's history and returns it.
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
