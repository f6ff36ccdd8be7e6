//! A decision, with nothing left open. Facts are all that [`apply`](crate::engine::Engine::apply) reads, without clock,
//! setting or client, so that replaying them gives the same state in every later version.

mod batch;
mod bytes;
mod codec;

use crate::engine::model::group::GroupSettings;
use crate::engine::model::meta::Meta;
use crate::engine::model::policy::Policy;
use crate::engine::model::queue_settings::{Pause, Pauses, QueueSettings};
use crate::engine::model::reply::Reason;
use crate::engine::model::request::Purge;
use crate::engine::model::schedule::{Coming, Definition};
use crate::ids::{Db, PolicyNo, QueueNo, ScheduleNo, Token};
use crate::time::{Micros, Millis};
pub use batch::{Applying, Facts};
pub(in crate::engine) use bytes::{ByteCount, Writer};
pub use bytes::{FactReader, Malformed, Sink};

/// A job's id as a fact carries it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FactId<'a> {
    /// The client's.
    Given(&'a [u8]),
    /// Made by the engine from this number.
    Made(u64),
}

/// Where a job goes when its delivery ended without success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// Ready at its old place.
    Ready,
    /// Delayed until `due`.
    Delayed { due: Millis },
    Dead {
        reason: Reason,
        /// When it is dropped.
        kept_until: Millis,
    },
}

/// All of a job that had been taken at most once, to put it back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Image<'a> {
    pub id: &'a [u8],
    pub body: &'a [u8],
    pub group: Option<&'a [u8]>,
    pub meta: Meta<'a>,
    pub policy: PolicyNo,
    /// 0 to 9.
    pub priority: u8,
    pub added: Millis,
    pub due: Millis,
    /// Its place among the ready jobs.
    pub place: i64,
    /// Deliveries so far: counted attempts, all, nacks, timeouts, lost, unanswered in a row; none of
    /// them if absent.
    pub history: Option<[u32; 6]>,
    /// The text of the last `NACK … ERROR`.
    pub error: Option<&'a [u8]>,
}

/// What a job has of the one that it replaces, with MAXDELAY.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inherited {
    /// When the first of those was added that replaced each other.
    pub added: Millis,
    /// The place of one that was ready.
    pub place: Option<i64>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fact<'a> {
    /// Binds a number to a name; later facts use the number.
    QueueBound { queue: QueueNo, db: Db, name: &'a [u8] },
    /// The queue is gone with all jobs, windows and totals.
    QueueRemoved { queue: QueueNo },
    /// The queue was unused for so long that its totals are dropped.
    QueueForgotten { queue: QueueNo },
    /// Binds a number to a policy; later facts use the number.
    PolicyBound { number: PolicyNo, policy: Policy },
    /// No job uses the policy; its number is free.
    PolicyForgotten { number: PolicyNo },
    /// All queues of a database, or of all databases, are gone.
    Flushed {
        /// The database; all if absent.
        db: Option<Db>,
    },
    Added {
        queue: QueueNo,
        id: FactId<'a>,
        policy: PolicyNo,
        /// 0 to 9.
        priority: u8,
        /// The client named an absolute time.
        absolute: bool,
        /// Ready at once, at the tail of its priority; otherwise delayed.
        ready: bool,
        /// Ready, but at the head of its priority.
        left: bool,
        due: Millis,
        body: &'a [u8],
        inherited: Option<Inherited>,
        group: Option<&'a [u8]>,
        meta: Meta<'a>,
    },
    /// The next `count` delayed jobs in (due, sequence) order became ready.
    Due {
        queue: QueueNo,
        /// The place of the first; the others follow, each one more or, at the head, one less.
        place: i64,
        count: u32,
        /// At the head of their priorities, not at the tail.
        left: bool,
    },
    /// Delivered with a lease.
    Leased {
        queue: QueueNo,
        id: &'a [u8],
        token: Token,
        lease_end: Millis,
        /// It ends with its connection.
        bound: bool,
        /// A consumer was waiting when the job fell due: it counts for the lateness.
        on_time: bool,
    },
    /// Delivered at most once: the job is gone.
    Popped {
        queue: QueueNo,
        id: &'a [u8],
        /// The id stays taken until then; 0 not at all.
        window_end: Millis,
        /// As in `Leased`.
        on_time: bool,
    },
    /// A lease that never left the server: back to its old place, uncounted.
    Unleased { queue: QueueNo, id: &'a [u8] },
    /// A popped job that never left the server: back to its old place.
    Unpopped { queue: QueueNo, image: Image<'a> },
    /// A newer version of the leased job with this id, which follows when the delivery ends; instead of one that did.
    SuccessorSet {
        queue: QueueNo,
        id: &'a [u8],
        policy: PolicyNo,
        /// 0 to 9.
        priority: u8,
        /// The client named an absolute time.
        absolute: bool,
        added: Millis,
        due: Millis,
        body: &'a [u8],
        group: Option<&'a [u8]>,
        meta: Meta<'a>,
    },
    /// The delivery of a job has ended that another one follows: the job is gone, and the other one has its id.
    Succeeded {
        queue: QueueNo,
        id: &'a [u8],
        /// It was acknowledged; otherwise the fact before says how the delivery ended.
        acked: bool,
        /// This and the next one as in `Added`.
        ready: bool,
        left: bool,
    },
    /// What would have followed the leased job was removed.
    SuccessorRemoved { queue: QueueNo, id: &'a [u8] },
    Acked {
        queue: QueueNo,
        id: &'a [u8],
        /// The id stays taken until then; 0 not at all.
        window_end: Millis,
    },
    /// Given back by its consumer.
    Nacked {
        queue: QueueNo,
        id: &'a [u8],
        /// The attempt counts.
        counted: bool,
        /// From now on.
        priority: u8,
        /// The consumer's error text.
        error: Option<&'a [u8]>,
        to: Destination,
    },
    /// The lease ends later (or earlier).
    Extended { queue: QueueNo, id: &'a [u8], lease_end: Millis },
    /// The lease ran out, or its connection closed, or the server shut down.
    LeaseOver {
        queue: QueueNo,
        id: &'a [u8],
        /// The connection closed.
        lost: bool,
        /// The attempt counts; not in an orderly shutdown.
        counted: bool,
        to: Destination,
    },
    /// Removed by a client; a window on the id goes too.
    Deleted { queue: QueueNo, id: &'a [u8] },
    /// Its TTL passed.
    Expired {
        queue: QueueNo,
        id: &'a [u8],
        /// The id stays taken until then; 0 not at all.
        window_end: Millis,
    },
    /// A dead letter left by age or number.
    Dropped { queue: QueueNo, id: &'a [u8] },
    /// A delayed or ready job has a new due time and a new place.
    Rescheduled {
        queue: QueueNo,
        id: &'a [u8],
        /// This and the next two as in `Added`.
        absolute: bool,
        ready: bool,
        left: bool,
        due: Millis,
    },
    /// A dead job is delayed or ready again, with a new place and a void token.
    Redriven {
        queue: QueueNo,
        id: &'a [u8],
        /// This and the next two as in `Added`.
        absolute: bool,
        ready: bool,
        left: bool,
        /// Attempts stay; otherwise they count from 0.
        keep_attempts: bool,
        due: Millis,
    },
    /// All jobs of some states are gone.
    Purged {
        queue: QueueNo,
        purge: Purge,
        /// How many there were, windows not counted.
        count: u64,
    },
    /// The queue has another name.
    Renamed {
        queue: QueueNo,
        name: &'a [u8],
        /// The queue that had it and is gone, with all jobs, windows and totals.
        over: Option<QueueNo>,
    },
    /// An id is free again.
    WindowOver { queue: QueueNo, id: &'a [u8] },
    /// The queue's settings from now on, all of them. Existing jobs keep their values.
    Configured { queue: QueueNo, settings: Box<QueueSettings> },
    /// The settings of a group from now on, all of them.
    GroupSet { queue: QueueNo, group: &'a [u8], settings: GroupSettings },
    /// By its rate, a group gave at this instant last: a delivery that its rate had counted never left. Or the rate has
    /// let the next one go since, and the group has no job and nothing set: 0, and the group is gone.
    GroupPaced {
        queue: QueueNo,
        group: &'a [u8],
        /// ns since the Unix epoch.
        gave: u64,
    },
    /// Which directions of the queue are closed from now on: it was paused or resumed, or a pause
    /// ended by itself.
    Paused { queue: QueueNo, pauses: Pauses },
    /// The following facts of the batch happened at this instant, which is not before that of the previous facts.
    At { now: Micros },
    /// A node has begun to lead. The leases that would have ended in the stall, and in one that was not over, are
    /// extended when their ends are met.
    Led {
        /// The epoch.
        term: u64,
        node: u64,
        /// When the leader before was last heard.
        stall_from: Millis,
        /// By when all holders have found this one.
        stall_to: Millis,
        /// The level of the format that all members read.
        level: u32,
    },
    /// Every lease was met that would have ended in the stall.
    StallOver,
    /// A schedule was set: a new one, or that of this number is all of this from now on.
    Scheduled {
        queue: QueueNo,
        schedule: ScheduleNo,
        name: &'a [u8],
        body: &'a [u8],
        definition: Box<Definition>,
        /// The first instant of the grid of EVERY.
        anchor: Millis,
        /// No nominal instant up to this one is to come any more. So in the facts below.
        after: Millis,
        next: Option<Coming>,
    },
    /// A schedule was removed.
    Unscheduled { queue: QueueNo, schedule: ScheduleNo },
    /// A nominal instant came due and its occurrence was made: a job that is ready, with the schedule's body and the
    /// id `name@nominal`.
    Occurred {
        queue: QueueNo,
        schedule: ScheduleNo,
        nominal: Millis,
        /// The job's due time.
        due: Millis,
        /// By how much the clocks of the zone were ahead of UTC then, s.
        offset_s: i32,
        policy: PolicyNo,
        /// 0 to 9.
        priority: u8,
        /// At the head of its priority, not at the tail.
        left: bool,
        next: Option<Coming>,
    },
    /// Nominal instants came due and no occurrence was made.
    Passed {
        queue: QueueNo,
        schedule: ScheduleNo,
        /// The newest of them.
        nominal: Millis,
        offset_s: i32,
        missed: u64,
        skipped: u64,
        next: Option<Coming>,
    },
    /// An occurrence that no worker has started was removed for a newer one.
    GaveWay {
        queue: QueueNo,
        schedule: ScheduleNo,
        /// The part after the `@` of its id.
        at: Millis,
    },
    /// A schedule was paused or resumed, or its pause ended by itself.
    SchedulePaused {
        queue: QueueNo,
        schedule: ScheduleNo,
        pause: Pause,
        after: Millis,
        next: Option<Coming>,
    },
    /// The next occurrence comes at another time than was said: the tables of zones have changed, or the clock.
    ScheduleMoved { queue: QueueNo, schedule: ScheduleNo, after: Millis, next: Option<Coming> },
    /// RUN made an occurrence, whatever the time.
    Ran {
        queue: QueueNo,
        schedule: ScheduleNo,
        /// The part after the `@` of its id.
        at: Millis,
        due: Millis,
        policy: PolicyNo,
        /// 0 to 9.
        priority: u8,
        left: bool,
    },
}

impl<'a> Fact<'a> {
    /// The job that it is about and the job's queue, unless the engine made the id.
    pub fn subject(&self) -> Option<(QueueNo, &'a [u8])> {
        Some(match *self {
            Fact::Added { queue, id: FactId::Given(id), .. } => (queue, id),
            Fact::Unpopped { queue, image } => (queue, image.id),
            Fact::Leased { queue, id, .. }
            | Fact::Popped { queue, id, .. }
            | Fact::Unleased { queue, id, .. }
            | Fact::SuccessorSet { queue, id, .. }
            | Fact::Succeeded { queue, id, .. }
            | Fact::SuccessorRemoved { queue, id }
            | Fact::Acked { queue, id, .. }
            | Fact::Nacked { queue, id, .. }
            | Fact::Extended { queue, id, .. }
            | Fact::LeaseOver { queue, id, .. }
            | Fact::Deleted { queue, id, .. }
            | Fact::Expired { queue, id, .. }
            | Fact::Dropped { queue, id, .. }
            | Fact::Rescheduled { queue, id, .. }
            | Fact::Redriven { queue, id, .. }
            | Fact::WindowOver { queue, id, .. } => (queue, id),
            _ => return None,
        })
    }

    /// The group and the META of the job, or of the jobs of the schedule, that comes with it.
    pub fn beside(&self) -> (Option<&[u8]>, Meta<'_>) {
        match self {
            Fact::Added { group, meta, .. }
            | Fact::SuccessorSet { group, meta, .. }
            | Fact::Unpopped { image: Image { group, meta, .. }, .. } => (*group, *meta),
            Fact::Scheduled { definition, .. } => (definition.group(), definition.meta()),
            _ => (None, Meta::NONE),
        }
    }

    /// Gives it these, as far as they are there; false if no job or schedule comes with it.
    pub(super) fn set_beside(&mut self, name: Option<&'a [u8]>, given: Option<Meta<'a>>) -> bool {
        match self {
            Fact::Added { group, meta, .. }
            | Fact::SuccessorSet { group, meta, .. }
            | Fact::Unpopped { image: Image { group, meta, .. }, .. } => {
                (*group, *meta) = (name.or(*group), given.unwrap_or(*meta));
            }
            Fact::Scheduled { definition, .. } => {
                name.into_iter().for_each(|name| definition.set_group(name));
                given.into_iter().for_each(|given| definition.set_meta(given));
            }
            _ => return false,
        }
        true
    }

    /// The schedule that it is about, and its queue.
    pub fn schedule(&self) -> Option<(QueueNo, ScheduleNo)> {
        match *self {
            Fact::Scheduled { queue, schedule, .. }
            | Fact::Unscheduled { queue, schedule }
            | Fact::Occurred { queue, schedule, .. }
            | Fact::Passed { queue, schedule, .. }
            | Fact::GaveWay { queue, schedule, .. }
            | Fact::SchedulePaused { queue, schedule, .. }
            | Fact::ScheduleMoved { queue, schedule, .. }
            | Fact::Ran { queue, schedule, .. } => Some((queue, schedule)),
            _ => None,
        }
    }

    /// The queue that it is about and leaves bound.
    pub fn queue(&self) -> Option<QueueNo> {
        match *self {
            Fact::QueueBound { queue, .. }
            | Fact::Due { queue, .. }
            | Fact::Configured { queue, .. }
            | Fact::GroupSet { queue, .. }
            | Fact::GroupPaced { queue, .. }
            | Fact::Paused { queue, .. }
            | Fact::Purged { queue, .. }
            | Fact::Renamed { queue, .. }
            | Fact::Added { queue, id: FactId::Made(_), .. } => Some(queue),
            _ if self.schedule().is_some() => self.schedule().map(|(queue, _)| queue),
            _ => self.subject().map(|(queue, _)| queue),
        }
    }
}
