//! A client's parsed request: without text of the protocol, and independent of the state. Slices
//! borrow from the connection's read buffer.

pub use crate::engine::model::across::{Locate, Queues, Readable};
use crate::engine::model::bulk::{Bulk, Filter};
use crate::engine::model::group::Grouping;
use crate::engine::model::holder::ListLeases;
use crate::engine::model::meta::OwnMeta;
use crate::engine::model::minutes::ListMinutes;
use crate::engine::model::policy::Backoff;
pub use crate::engine::model::queue_settings::Side;
use crate::engine::model::queue_settings::{QueueSettings, Setting};
use crate::engine::model::schedule::Scheduling;
pub use crate::engine::model::terms::{Direction, JobState, Only, QueueName, Wait, When};
use crate::engine::model::walk::Cursor;
use crate::ids::{Db, Token};

/// What ADD does if the id is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// Answer the error class `EXISTS`.
    Refuse,
    /// `NX`: answer nil, change nothing.
    Keep,
    /// `REPLACE`: the new job takes the old one's place.
    Replace,
    /// `LATEST`: the same, but a running lease goes on, and the new job follows when it ends.
    Latest,
}

/// `DELAY.ADD`.
#[derive(Clone, Debug)]
pub struct Add<'a> {
    pub queue: QueueName<'a>,
    /// When the job falls due.
    pub when: When,
    /// 0 bytes to `max-body-size`.
    pub body: &'a [u8],
    /// The client's id; without one the engine makes one.
    pub id: Option<&'a [u8]>,
    /// `NX`, `REPLACE`, `LATEST` or none of them.
    pub taken: Taken,
    /// `MAXDELAY`: due at most this long after the first job was added that this one takes the place of, ms.
    pub max_delay_ms: Option<u64>,
    /// 0 (first) to 9; the queue's default if absent.
    pub priority: Option<u8>,
    /// Deliveries before the job is dead, 0 for no limit.
    pub attempts: Option<u32>,
    /// The delay after a failed delivery.
    pub backoff: Option<Backoff>,
    /// Lease in ms, at least 1 and at most `max-lease`.
    pub lease_ms: Option<u64>,
    /// The job expires this long after its due time, 0 never.
    pub ttl_ms: Option<u64>,
    /// The id stays taken this long after the job was acked, popped or expired; 0 not at all.
    pub unique_ms: u64,
    /// The group, 1 to 512 bytes.
    pub group: Option<&'a [u8]>,
    /// Headers.
    pub meta: OwnMeta,
}

impl<'a> Add<'a> {
    /// As ADD without options: refused if the id is taken, everything else by the queue's defaults.
    pub fn new(queue: QueueName<'a>, when: When, body: &'a [u8]) -> Add<'a> {
        Add {
            queue,
            when,
            body,
            id: None,
            taken: Taken::Refuse,
            max_delay_ms: None,
            priority: None,
            attempts: None,
            backoff: None,
            lease_ms: None,
            ttl_ms: None,
            unique_ms: 0,
            group: None,
            meta: OwnMeta::NONE,
        }
    }
}

/// `DELAY.RESERVE`.
#[derive(Clone, Copy, Debug)]
pub struct Reserve<'a> {
    pub db: Db,
    /// Queues in the order in which they are looked at.
    pub queues: &'a [&'a [u8]],
    pub wait: Wait,
    /// Most jobs to take, 1 to 10,000.
    pub count: u32,
    /// Lease in ms, at least 1.
    pub lease_ms: Option<u64>,
    /// At most once: no lease, the job is gone.
    pub no_ack: bool,
    /// The leases end when the connection closes.
    pub bound: bool,
    /// Each job is handed over with its group and its META.
    pub meta: bool,
}

/// Which dead jobs `DELAY.REDRIVE` moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which<'a> {
    /// Those that died first, at most this many (1 to 10,000); all if absent.
    Oldest(Option<u32>),
    /// The same of one group. Not in a transaction.
    InGroup { group: &'a [u8], count: Option<u32> },
    /// These.
    Ids(&'a [&'a [u8]]),
}

/// `DELAY.REDRIVE`.
#[derive(Clone, Copy, Debug)]
pub struct Redrive<'a> {
    pub queue: QueueName<'a>,
    pub which: Which<'a>,
    /// When they are to fall due.
    pub when: When,
    /// Attempts go on from where they were, which leaves at least one.
    pub keep_attempts: bool,
}

/// `LPUSH` and similar: new jobs, ready at once, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Push<'a> {
    pub queue: QueueName<'a>,
    /// At least one.
    pub bodies: &'a [&'a [u8]],
    /// The side of its priority at which each enters.
    pub side: Side,
    /// Only if the queue exists.
    pub only_existing: bool,
}

/// How the reply to a list pop looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// `LPOP`: the body.
    Value,
    /// `LPOP` with a count: bodies.
    Values,
    /// `BLPOP`: the queue and the body.
    Named,
    /// `LMPOP`: the queue and bodies.
    NamedValues,
}

/// `LPOP` and similar: jobs of the first queue that has any, at most once.
#[derive(Clone, Copy, Debug)]
pub struct ListPop<'a> {
    pub db: Db,
    /// Queues in the order in which they are looked at.
    pub queues: &'a [&'a [u8]],
    pub side: Side,
    /// Most jobs to take, up to 10,000.
    pub count: u32,
    pub shape: Shape,
    pub wait: Wait,
}

/// `LMOVE` and similar: a job is taken from one queue, and its body added to another, in one step.
#[derive(Clone, Copy, Debug)]
pub struct Move<'a> {
    pub db: Db,
    pub from: &'a [u8],
    /// The queue it goes to; it may be the same.
    pub to: &'a [u8],
    pub take: Side,
    pub put: Side,
    pub wait: Wait,
}

/// `LPOS`.
#[derive(Clone, Copy, Debug)]
pub struct Find<'a> {
    pub queue: QueueName<'a>,
    pub body: &'a [u8],
    /// From which side, and after how many that are equal.
    pub from: Side,
    /// How many that are equal are passed over.
    pub skipped: u64,
    /// How many are wanted, 0 for all; without it one, and no array is answered.
    pub count: Option<u64>,
    /// How many jobs are looked at, 0 for all.
    pub inspected_max: u64,
}

/// `DELAY.SCAN`.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    pub queue: QueueName<'a>,
    pub cursor: Cursor,
    pub filter: Filter<'a>,
    /// How many jobs to look at, 1 to 10,000.
    pub count: u32,
}

impl<'a> Scan<'a> {
    /// Bytes of all jobs.
    pub fn new(queue: QueueName<'a>, cursor: Cursor, count: u32) -> Scan<'a> {
        Scan { queue, cursor, filter: Filter::default(), count }
    }
}

/// `DELAY.NACK`.
#[derive(Clone, Copy, Debug)]
pub struct Nack<'a> {
    pub queue: QueueName<'a>,
    pub id: &'a [u8],
    pub token: Token,
    /// When to retry; without it the backoff decides.
    pub when: Option<When>,
    /// Dead now.
    pub bury: bool,
    /// The attempt is given back.
    pub uncounted: bool,
    pub priority: Option<u8>,
    /// Kept with the job, at most 1 KiB.
    pub error: Option<&'a [u8]>,
}

/// Which jobs a purge removes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Purge {
    /// By state, in the order of [`JobState::ALL`].
    pub states: [bool; 4],
    /// UNIQUE windows end, too.
    pub windows: bool,
}

impl Purge {
    /// The states without an argument.
    pub const DEFAULT: Purge = Purge { states: [true, true, false, true], windows: true };
}

/// A request to the engine.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    /// `DELAY.ADD` → [`Reply::Id`](crate::engine::model::reply::Reply::Id), nil or an error.
    Add(Add<'a>),
    /// `DELAY.POP` → one popped job or a nil array.
    Pop {
        db: Db,
        /// Queues in the order in which they are looked at.
        queues: &'a [&'a [u8]],
        wait: Wait,
    },
    /// `DELAY.RESERVE` → jobs or a nil array.
    Reserve(Reserve<'a>),
    /// `DELAY.ACK` → count.
    Ack { queue: QueueName<'a>, jobs: Vec<(&'a [u8], Token)> },
    /// `DELAY.NACK` → 1 or 0.
    Nack(Nack<'a>),
    /// `DELAY.EXTEND` → the new lease end or nil.
    Extend {
        queue: QueueName<'a>,
        id: &'a [u8],
        token: Token,
        /// From now, 1 ms to `max-lease`.
        lease_ms: u64,
    },
    /// `DELAY.DEL` → count.
    Delete { queue: QueueName<'a>, ids: &'a [&'a [u8]] },
    /// `DELAY.CANCEL` → the state it was in, or nil.
    Cancel {
        queue: QueueName<'a>,
        id: &'a [u8],
        /// Removes a leased job too.
        force: bool,
    },
    /// `DELAY.RESCHEDULE` → 1 or 0.
    Reschedule { queue: QueueName<'a>, id: &'a [u8], when: When, only: Only },
    /// `DELAY.REDRIVE` → count.
    Redrive(Redrive<'a>),
    /// `DELAY.PURGE` → count.
    Purge { queue: QueueName<'a>, purge: Purge },
    /// `DELAY.GET` → a job's view or a nil array.
    Get { queue: QueueName<'a>, id: &'a [u8] },
    /// `DELAY.STATS` → statistics or a nil array.
    Stats { queue: QueueName<'a> },
    /// `DELAY.BULK` → how many jobs something was done to.
    Bulk(Bulk<'a>),
    /// `DELAY.ERRORS` → how often deliveries failed, by kinds of errors.
    Errors { queue: QueueName<'a> },
    /// `DELAY.FORECAST` → how many jobs fall due in each of the next spans.
    Forecast {
        queue: QueueName<'a>,
        /// The length of a span, ms, at least 1.
        span_ms: u64,
        /// How many spans, 1 to 10,000.
        count: u32,
        /// Occurrences of schedules are counted, too.
        schedules: bool,
    },
    /// `DELAY.CONFIG GET` → settings.
    Settings { queue: QueueName<'a>, only: Option<Setting> },
    /// `DELAY.CONFIG SET` → ok.
    Configure {
        queue: QueueName<'a>,
        /// The settings to change; the rest stays.
        changes: Box<QueueSettings>,
    },
    /// `DELAY.CONFIG RESET` → ok.
    Unconfigure { queue: QueueName<'a> },
    /// `DELAY.PAUSE` → ok.
    Pause {
        queue: QueueName<'a>,
        direction: Direction,
        /// For this many ms, at least 1; otherwise until it is resumed.
        for_ms: Option<u64>,
    },
    /// `DELAY.RESUME` → ok.
    Resume { queue: QueueName<'a>, direction: Direction },
    /// `DELAY.LEN` → count.
    Len {
        queue: QueueName<'a>,
        /// One state, or all together.
        state: Option<JobState>,
    },
    /// `DELAY.PEEK` → jobs in order.
    Peek {
        queue: QueueName<'a>,
        /// One state; without it ready, then delayed.
        state: Option<JobState>,
        /// 1 to 10,000.
        count: u32,
        /// For dead jobs: the newest first.
        newest: bool,
    },
    /// `DELAY.SCAN` → a cursor and jobs.
    Scan(Scan<'a>),
    /// `LPUSH` and similar → how many jobs are ready then.
    Push(Push<'a>),
    /// `LPOP` and similar → bodies, or nil.
    ListPop(ListPop<'a>),
    /// `LMOVE` and similar → the body, or nil.
    Move(Move<'a>),
    /// `LRANGE` → bodies.
    Range {
        queue: QueueName<'a>,
        /// The first place, from 0; negative ones count from the right, −1 being the last.
        start: i64,
        stop: i64,
    },
    /// `LINDEX` → a body, or nil.
    At {
        queue: QueueName<'a>,
        /// The place, from 0; negative ones count from the right.
        place: i64,
    },
    /// `LPOS` → places, or nil.
    Find(Find<'a>),
    /// `LREM` → how many jobs were removed.
    DeleteEqual {
        queue: QueueName<'a>,
        body: &'a [u8],
        /// The side from which they are looked for.
        from: Side,
        /// The most that are removed; 0 for all.
        count: u64,
    },
    /// `DEL`, `UNLINK` → how many queues were removed.
    Remove { db: Db, queues: &'a [&'a [u8]] },
    /// `RENAME` → ok; `RENAMENX` → 1 or 0.
    Rename {
        db: Db,
        queue: &'a [u8],
        to: &'a [u8],
        /// `RENAMENX`: not onto a queue that exists.
        only_new: bool,
    },
    /// `EXISTS`, `TOUCH` → how many exist, repeated ones counted again.
    Exists { db: Db, queues: &'a [&'a [u8]] },
    /// `FLUSHDB`, `FLUSHALL` → ok.
    Flush {
        /// One database, or all.
        db: Option<Db>,
    },
    /// `KEYS` → names.
    Keys { db: Db, pattern: &'a [u8] },
    /// `SCAN` → a cursor and names.
    ScanQueues {
        db: Db,
        cursor: Cursor,
        /// Only names that match this glob.
        pattern: Option<&'a [u8]>,
        /// How many queues to look at, at least 1.
        count: u64,
    },
    /// `DELAY.QUEUES` → rows of queues.
    Queues(Queues<'a>),
    /// `DELAY.GROUPS`, and what others do to one group.
    Groups(Grouping<'a>),
    /// `DELAY.FIND` → rows of jobs.
    Locate(Locate<'a>),
    /// `DELAY.BUSY` → rows of leases.
    Leases(ListLeases<'a>),
    /// `DELAY.HISTORY` → rows of minutes.
    Minutes(ListMinutes<'a>),
    /// `RANDOMKEY` → a name or nil. The caller brings the randomness.
    RandomQueue {
        db: Db,
        /// Any number.
        draw: u64,
    },
    /// `DBSIZE` → how many queues exist.
    QueueCount { db: Db },
    /// `MEMORY USAGE` → bytes held for the queue or nil.
    Memory { queue: QueueName<'a> },
    /// `DELAY.SCHEDULE` and its subcommands.
    Schedule(Scheduling<'a>),
}

impl<'a> Request<'a> {
    /// How long it waits, if it is of those that may.
    pub fn wait_mut(&mut self) -> Option<&mut Wait> {
        match self {
            Request::Pop { wait, .. }
            | Request::Reserve(Reserve { wait, .. })
            | Request::ListPop(ListPop { wait, .. })
            | Request::Move(Move { wait, .. }) => Some(wait),
            _ => None,
        }
    }

    /// Calls `visit` with each queue that it names.
    pub fn for_each_queue(&self, mut visit: impl FnMut(QueueName<'a>)) {
        let mut all = |db: Db, queues: &'a [&'a [u8]]| {
            queues.iter().for_each(|name| visit(QueueName { db, name }));
        };
        match *self {
            Request::Pop { db, queues, .. }
            | Request::Remove { db, queues }
            | Request::Exists { db, queues } => all(db, queues),
            Request::Reserve(Reserve { db, queues, .. })
            | Request::ListPop(ListPop { db, queues, .. }) => all(db, queues),
            Request::Move(Move { db, from, to, .. }) => {
                [from, to].into_iter().for_each(|name| visit(QueueName { db, name }));
            }
            Request::Rename { db, queue, to, .. } => {
                [to, queue].into_iter().for_each(|name| visit(QueueName { db, name }));
            }
            Request::Add(Add { queue, .. })
            | Request::Push(Push { queue, .. })
            | Request::Nack(Nack { queue, .. })
            | Request::Redrive(Redrive { queue, .. })
            | Request::Find(Find { queue, .. })
            | Request::Ack { queue, .. }
            | Request::Extend { queue, .. }
            | Request::Delete { queue, .. }
            | Request::Cancel { queue, .. }
            | Request::Reschedule { queue, .. }
            | Request::Purge { queue, .. }
            | Request::Bulk(Bulk { queue, .. })
            | Request::Get { queue, .. }
            | Request::Stats { queue }
            | Request::Errors { queue }
            | Request::Forecast { queue, .. }
            | Request::Settings { queue, .. }
            | Request::Configure { queue, .. }
            | Request::Unconfigure { queue }
            | Request::Pause { queue, .. }
            | Request::Resume { queue, .. }
            | Request::Len { queue, .. }
            | Request::Peek { queue, .. }
            | Request::Scan(Scan { queue, .. })
            | Request::Range { queue, .. }
            | Request::At { queue, .. }
            | Request::DeleteEqual { queue, .. }
            | Request::Memory { queue } => visit(queue),
            Request::Schedule(ref of) => of.queue().into_iter().for_each(visit),
            Request::Groups(ref of) => visit(of.queue()),
            Request::Leases(ListLeases { db, queue, .. })
            | Request::Minutes(ListMinutes { db, queue, .. }) => {
                queue.into_iter().for_each(|name| visit(QueueName { db, name }));
            }
            Request::Flush { .. }
            | Request::Keys { .. }
            | Request::ScanQueues { .. }
            | Request::Queues(_)
            | Request::Locate(_)
            | Request::RandomQueue { .. }
            | Request::QueueCount { .. } => {}
        }
    }

    /// The same for a user that may read only these queues, if the request covers all queues.
    pub fn for_reader(mut self, readable: Readable<'a>) -> Request<'a> {
        match &mut self {
            Request::Queues(of) => of.readable = readable,
            Request::Locate(of) => of.readable = readable,
            Request::Leases(of) => of.readable = readable,
            Request::Minutes(of) => of.readable = readable,
            _ => {}
        }
        self
    }

    /// Whether it takes ready jobs, like a waiting client.
    pub fn takes(&self) -> bool {
        matches!(
            self,
            Request::Pop { .. } | Request::ListPop(_) | Request::Reserve(_) | Request::Move(_)
        )
    }

    /// Whether a worker sends it: it takes or acknowledges jobs.
    pub fn is_workers(&self) -> bool {
        self.takes() || matches!(self, Request::Ack { .. })
    }

    /// Whether it may make room in a full queue that it names, or open one that is paused.
    pub fn may_open(&self) -> bool {
        !matches!(
            self,
            Request::Add(_)
                | Request::Push(_)
                | Request::Extend { .. }
                | Request::Get { .. }
                | Request::Settings { .. }
                | Request::Stats { .. }
                | Request::Errors { .. }
                | Request::Forecast { .. }
                | Request::Len { .. }
                | Request::Peek { .. }
                | Request::Scan(_)
                | Request::Range { .. }
                | Request::At { .. }
                | Request::Find(_)
                | Request::Exists { .. }
                | Request::Memory { .. }
                | Request::Schedule(_)
                | Request::Groups(_)
                | Request::Leases(_)
                | Request::Minutes(_)
        )
    }
}
