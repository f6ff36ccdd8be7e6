//! What was decided, with nothing left open. Facts are all that [`apply`](super::Engine::apply)
//! reads: no clock, setting or client stands behind them, so that replaying them gives the same state
//! in every later version.
//!
//! Encoded little-endian, one after the other: a tag byte, then the fields in the order of their
//! declaration. Byte strings carry a u32 length. A tag is never used again for another layout; a
//! changed fact gets a new tag beside the old one.

use crate::engine::policy::{Backoff, Policy, Steps};
use crate::engine::reply::Reason;
use crate::ids::{Db, PolicyNo, QueueNo, Token};
use crate::time::Millis;

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
    Delayed {
        /// The next due time.
        due: Millis,
    },
    /// Dead.
    Dead {
        /// Why.
        reason: Reason,
        /// When it is dropped.
        kept_until: Millis,
    },
}

/// All of a job that had been taken at most once, to put it back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Image<'a> {
    /// The job.
    pub id: &'a [u8],
    /// Its body.
    pub body: &'a [u8],
    /// Its policy.
    pub policy: PolicyNo,
    /// 0 to 9.
    pub priority: u8,
    /// When it was added.
    pub added: Millis,
    /// Its due time.
    pub due: Millis,
    /// Its place among the ready jobs.
    pub place: i64,
    /// Deliveries so far: counted attempts, all, nacks, timeouts, lost, unanswered in a row; none of
    /// them if absent.
    pub history: Option<[u32; 6]>,
    /// The text of the last `NACK … ERROR`.
    pub error: Option<&'a [u8]>,
}

/// One fact.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fact<'a> {
    /// Binds a number to a name; later facts use the number.
    QueueBound {
        /// The number.
        queue: QueueNo,
        /// The database.
        db: Db,
        /// The name.
        name: &'a [u8],
    },
    /// The queue is gone with all jobs, windows and totals.
    QueueRemoved {
        /// The queue.
        queue: QueueNo,
    },
    /// Nothing of the queue was used for so long that its totals go.
    QueueForgotten {
        /// The queue.
        queue: QueueNo,
    },
    /// Binds a number to a policy; later facts use the number.
    PolicyBound {
        /// The number.
        number: PolicyNo,
        /// The policy.
        policy: Policy,
    },
    /// No job uses the policy; its number is free.
    PolicyForgotten {
        /// The number.
        number: PolicyNo,
    },
    /// All queues of a database, or of all databases, are gone.
    Flushed {
        /// The database; all if absent.
        db: Option<Db>,
    },
    /// A new job.
    Added {
        /// The queue.
        queue: QueueNo,
        /// The job.
        id: FactId<'a>,
        /// Its policy.
        policy: PolicyNo,
        /// 0 to 9.
        priority: u8,
        /// The client named an absolute time.
        absolute: bool,
        /// Ready at once, at the tail of its priority; otherwise delayed.
        ready: bool,
        /// When it falls due.
        due: Millis,
        /// The body.
        body: &'a [u8],
    },
    /// The next `count` delayed jobs in (due, sequence) order became ready.
    Due {
        /// The queue.
        queue: QueueNo,
        /// The place of the first; the others follow.
        place: i64,
        /// How many.
        count: u32,
    },
    /// Delivered with a lease.
    Leased {
        /// The queue.
        queue: QueueNo,
        /// The job.
        id: &'a [u8],
        /// The lease's token.
        token: Token,
        /// The lease's end.
        lease_end: Millis,
        /// It ends with its connection.
        bound: bool,
        /// A consumer was waiting when the job fell due: it counts for the lateness.
        prompt: bool,
    },
    /// Delivered at most once: the job is gone.
    Popped {
        /// The queue.
        queue: QueueNo,
        /// The job.
        id: &'a [u8],
        /// The id stays taken until then; 0 not at all.
        window_end: Millis,
        /// As in `Leased`.
        prompt: bool,
    },
    /// A lease that never left the server: back to its old place, uncounted.
    Unleased {
        /// The queue.
        queue: QueueNo,
        /// The job.
        id: &'a [u8],
    },
    /// A popped job that never left the server: back to its old place.
    Unpopped {
        /// The queue.
        queue: QueueNo,
        /// The job.
        image: Image<'a>,
    },
    /// Acknowledged.
    Acked {
        /// The queue.
        queue: QueueNo,
        /// The job.
        id: &'a [u8],
        /// The id stays taken until then; 0 not at all.
        window_end: Millis,
    },
    /// Given back by its consumer.
    Nacked {
        /// The queue.
        queue: QueueNo,
        /// The job.
        id: &'a [u8],
        /// The attempt counts.
        counted: bool,
        /// From now on.
        priority: u8,
        /// What the consumer said.
        error: Option<&'a [u8]>,
        /// Where it goes.
        to: Destination,
    },
    /// The lease ends later (or earlier).
    Extended {
        /// The queue.
        queue: QueueNo,
        /// The job.
        id: &'a [u8],
        /// The new end.
        lease_end: Millis,
    },
    /// The lease ran out or its connection closed.
    LeaseOver {
        /// The queue.
        queue: QueueNo,
        /// The job.
        id: &'a [u8],
        /// The connection closed.
        lost: bool,
        /// Where it goes.
        to: Destination,
    },
    /// Removed by a client; a window on the id goes too.
    Deleted {
        /// The queue.
        queue: QueueNo,
        /// The job.
        id: &'a [u8],
    },
    /// Its TTL passed.
    Expired {
        /// The queue.
        queue: QueueNo,
        /// The job.
        id: &'a [u8],
        /// The id stays taken until then; 0 not at all.
        window_end: Millis,
    },
    /// A dead letter left by age or number.
    Dropped {
        /// The queue.
        queue: QueueNo,
        /// The job.
        id: &'a [u8],
    },
    /// A delayed or ready job has a new due time and a new place.
    Rescheduled {
        /// The queue.
        queue: QueueNo,
        /// The job.
        id: &'a [u8],
        /// The client named an absolute time.
        absolute: bool,
        /// Ready at once, at the tail of its priority; otherwise delayed.
        ready: bool,
        /// When it falls due.
        due: Millis,
    },
    /// An id is free again.
    WindowOver {
        /// The queue.
        queue: QueueNo,
        /// The id.
        id: &'a [u8],
    },
}

/// The facts of a turn, encoded, in order.
#[derive(Default, Debug)]
pub struct Facts {
    /// The encoded facts.
    pub bytes: Vec<u8>,
    /// How many.
    pub count: u64,
}

impl Facts {
    /// Forgets all of them; keeps the memory up to 1 MiB.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(1 << 20);
        self.count = 0;
    }

    /// Appends one.
    pub fn push(&mut self, fact: &Fact<'_>) {
        fact.encode(&mut self.bytes);
        self.count += 1;
    }

    /// Reads them back, in order. The error says at which byte reading stopped.
    pub fn iter(&self) -> impl Iterator<Item = Result<Fact<'_>, Malformed>> {
        let mut reader = Reader { bytes: &self.bytes, at: 0 };
        std::iter::from_fn(move || (!reader.is_done()).then(|| Fact::decode(&mut reader)))
    }
}

/// Bytes that are no fact.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no fact at byte {at}")]
pub struct Malformed {
    /// Offset at which reading stopped.
    pub at: usize,
}

macro_rules! tags {
    ($($name:ident = $value:literal),* $(,)?) => { $(const $name: u8 = $value;)* };
}
tags! {
    QUEUE_BOUND = 1, QUEUE_REMOVED = 2, QUEUE_FORGOTTEN = 3, POLICY_BOUND = 4, ADDED = 5, ADDED_MADE = 6,
    DUE = 7, LEASED = 8, POPPED = 9, UNLEASED = 10, UNPOPPED = 11, ACKED = 12, NACKED = 13, EXTENDED = 14,
    LEASE_OVER = 15, DELETED = 16, EXPIRED = 17, DROPPED = 18, RESCHEDULED = 19, WINDOW_OVER = 20, POLICY_FORGOTTEN = 21, FLUSHED = 22,
}

// The database of a FLUSHED that names none.
const ALL_DATABASES: u8 = u8::MAX;

// Flags of ADDED and RESCHEDULED.
const ABSOLUTE: u8 = 1;
const READY: u8 = 2;

fn flags(absolute: bool, ready: bool) -> u8 {
    (u8::from(absolute) * ABSOLUTE) | (u8::from(ready) * READY)
}

impl<'a> Fact<'a> {
    /// Appends the encoded fact. Cost: one copy of id and body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let w = &mut Writer(out);
        match *self {
            Fact::QueueBound { queue, db, name } => w.head(QUEUE_BOUND, queue).u8(db.0).bytes(name),
            Fact::QueueRemoved { queue } => w.head(QUEUE_REMOVED, queue),
            Fact::QueueForgotten { queue } => w.head(QUEUE_FORGOTTEN, queue),
            Fact::PolicyBound { number, ref policy } => {
                w.u8(POLICY_BOUND).u32(number.0).policy(policy)
            }
            Fact::PolicyForgotten { number } => w.u8(POLICY_FORGOTTEN).u32(number.0),
            Fact::Flushed { db } => w.u8(FLUSHED).u8(db.map_or(ALL_DATABASES, |db| db.0)),
            Fact::Added { queue, id, policy, priority, absolute, ready, due, body } => {
                let tag = if matches!(id, FactId::Made(_)) { ADDED_MADE } else { ADDED };
                let flags = flags(absolute, ready);
                w.head(tag, queue);
                match id {
                    FactId::Given(id) => w.bytes(id),
                    FactId::Made(number) => w.u64(number),
                };
                w.u32(policy.0).u8(priority).u8(flags).u64(due.0).bytes(body)
            }
            Fact::Due { queue, place, count } => w.head(DUE, queue).u64(place as u64).u32(count),
            Fact::Leased { queue, id, token, lease_end, bound, prompt } => {
                let flags = u8::from(bound) | (u8::from(prompt) << 1);
                w.head(LEASED, queue).bytes(id).u64(token.0).u64(lease_end.0).u8(flags)
            }
            Fact::Popped { queue, id, window_end, prompt } => {
                w.head(POPPED, queue).bytes(id).u64(window_end.0).u8(prompt.into())
            }
            Fact::Unleased { queue, id } => w.head(UNLEASED, queue).bytes(id),
            Fact::Unpopped { queue, image } => w.head(UNPOPPED, queue).image(&image),
            Fact::Acked { queue, id, window_end } => {
                w.head(ACKED, queue).bytes(id).u64(window_end.0)
            }
            Fact::Nacked { queue, id, counted, priority, error, to } => {
                w.head(NACKED, queue).bytes(id).u8(counted.into()).u8(priority);
                w.u8(error.is_some().into()).bytes(error.unwrap_or_default()).destination(to)
            }
            Fact::Extended { queue, id, lease_end } => {
                w.head(EXTENDED, queue).bytes(id).u64(lease_end.0)
            }
            Fact::LeaseOver { queue, id, lost, to } => {
                w.head(LEASE_OVER, queue).bytes(id).u8(lost.into()).destination(to)
            }
            Fact::Deleted { queue, id } => w.head(DELETED, queue).bytes(id),
            Fact::Expired { queue, id, window_end } => {
                w.head(EXPIRED, queue).bytes(id).u64(window_end.0)
            }
            Fact::Dropped { queue, id } => w.head(DROPPED, queue).bytes(id),
            Fact::Rescheduled { queue, id, absolute, ready, due } => {
                let flags = flags(absolute, ready);
                w.head(RESCHEDULED, queue).bytes(id).u8(flags).u64(due.0)
            }
            Fact::WindowOver { queue, id } => w.head(WINDOW_OVER, queue).bytes(id),
        };
    }

    /// Reads the next fact.
    pub fn decode(r: &mut Reader<'a>) -> Result<Fact<'a>, Malformed> {
        let tag = r.u8()?;
        match tag {
            POLICY_BOUND => {
                return Ok(Fact::PolicyBound { number: PolicyNo(r.u32()?), policy: r.policy()? });
            }
            POLICY_FORGOTTEN => return Ok(Fact::PolicyForgotten { number: PolicyNo(r.u32()?) }),
            FLUSHED => {
                let db = r.u8()?;
                return Ok(Fact::Flushed { db: (db != ALL_DATABASES).then_some(Db(db)) });
            }
            _ => {}
        }
        let queue = QueueNo(r.u32()?);
        Ok(match tag {
            QUEUE_BOUND => Fact::QueueBound { queue, db: Db(r.u8()?), name: r.bytes()? },
            QUEUE_REMOVED => Fact::QueueRemoved { queue },
            QUEUE_FORGOTTEN => Fact::QueueForgotten { queue },
            ADDED | ADDED_MADE => {
                let id = match tag {
                    ADDED => FactId::Given(r.bytes()?),
                    _ => FactId::Made(r.u64()?),
                };
                let (policy, priority, flags) = (PolicyNo(r.u32()?), r.u8()?, r.u8()?);
                let (absolute, ready) = (flags & ABSOLUTE != 0, flags & READY != 0);
                let (due, body) = (r.millis()?, r.bytes()?);
                Fact::Added { queue, id, policy, priority, absolute, ready, due, body }
            }
            DUE => Fact::Due { queue, place: r.u64()? as i64, count: r.u32()? },
            LEASED => {
                let (id, token, lease_end) = (r.bytes()?, Token(r.u64()?), r.millis()?);
                let flags = r.u8()?;
                let (bound, prompt) = (flags & 1 != 0, flags & 2 != 0);
                Fact::Leased { queue, id, token, lease_end, bound, prompt }
            }
            POPPED => {
                let (id, window_end, prompt) = (r.bytes()?, r.millis()?, r.flag()?);
                Fact::Popped { queue, id, window_end, prompt }
            }
            UNLEASED => Fact::Unleased { queue, id: r.bytes()? },
            UNPOPPED => Fact::Unpopped { queue, image: r.image()? },
            ACKED => Fact::Acked { queue, id: r.bytes()?, window_end: r.millis()? },
            NACKED => {
                let (id, counted, priority) = (r.bytes()?, r.flag()?, r.u8()?);
                let (said, text) = (r.flag()?, r.bytes()?);
                let (error, to) = (said.then_some(text), r.destination()?);
                Fact::Nacked { queue, id, counted, priority, error, to }
            }
            EXTENDED => Fact::Extended { queue, id: r.bytes()?, lease_end: r.millis()? },
            LEASE_OVER => {
                let (id, lost, to) = (r.bytes()?, r.flag()?, r.destination()?);
                Fact::LeaseOver { queue, id, lost, to }
            }
            DELETED => Fact::Deleted { queue, id: r.bytes()? },
            EXPIRED => Fact::Expired { queue, id: r.bytes()?, window_end: r.millis()? },
            DROPPED => Fact::Dropped { queue, id: r.bytes()? },
            RESCHEDULED => {
                let (id, flags, due) = (r.bytes()?, r.u8()?, r.millis()?);
                let (absolute, ready) = (flags & ABSOLUTE != 0, flags & READY != 0);
                Fact::Rescheduled { queue, id, absolute, ready, due }
            }
            WINDOW_OVER => Fact::WindowOver { queue, id: r.bytes()? },
            _ => return Err(r.malformed()),
        })
    }
}

struct Writer<'w>(&'w mut Vec<u8>);

impl Writer<'_> {
    fn head(&mut self, tag: u8, queue: QueueNo) -> &mut Self {
        let mut head = [tag, 0, 0, 0, 0];
        head[1..].copy_from_slice(&queue.0.to_le_bytes());
        self.0.extend_from_slice(&head);
        self
    }

    fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        // Ids are at most 512 bytes and bodies at most 512 MiB, so the length fits.
        self.u32(bytes.len() as u32);
        self.0.extend_from_slice(bytes);
        self
    }

    fn destination(&mut self, to: Destination) -> &mut Self {
        match to {
            Destination::Ready => self.u8(0),
            Destination::Delayed { due } => self.u8(1).u64(due.0),
            Destination::Dead { reason, kept_until } => {
                self.u8(2).u8(reason as u8).u64(kept_until.0)
            }
        }
    }

    fn image(&mut self, image: &Image<'_>) -> &mut Self {
        self.bytes(image.id).bytes(image.body).u32(image.policy.0).u8(image.priority);
        self.u64(image.added.0).u64(image.due.0).u64(image.place as u64);
        self.u8(image.history.is_some().into());
        for count in image.history.unwrap_or_default() {
            self.u32(count);
        }
        self.u8(image.error.is_some().into()).bytes(image.error.unwrap_or_default())
    }

    fn policy(&mut self, policy: &Policy) -> &mut Self {
        self.u32(policy.attempts).u64(policy.lease_ms).u64(policy.ttl_ms).u64(policy.unique_ms);
        self.u8(policy.backoff.jitter.into());
        match &policy.backoff.steps {
            Steps::Ladder(steps) => {
                self.u8(0).u32(steps.len() as u32);
                for step in steps {
                    self.u64(*step);
                }
                self
            }
            Steps::Exponential { first, max, factor } => {
                self.u8(1).u64(*first).u64(*max).u32(*factor)
            }
        }
    }
}

/// Reads encoded facts.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Begins at the first byte.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    /// Whether all was read.
    pub fn is_done(&self) -> bool {
        self.at == self.bytes.len()
    }

    fn malformed(&mut self) -> Malformed {
        // Nothing after a malformed fact can be trusted: an iterator over the facts ends here.
        let at = std::mem::replace(&mut self.at, self.bytes.len());
        Malformed { at }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        match self.bytes[self.at..].get(..length) {
            Some(taken) => {
                self.at += length;
                Ok(taken)
            }
            None => Err(self.malformed()),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.malformed()),
        }
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn millis(&mut self) -> Result<Millis, Malformed> {
        Ok(Millis(self.u64()?))
    }

    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u32()? as usize;
        self.take(length)
    }

    fn destination(&mut self) -> Result<Destination, Malformed> {
        Ok(match self.u8()? {
            0 => Destination::Ready,
            1 => Destination::Delayed { due: self.millis()? },
            2 => {
                let reason = match self.u8()? {
                    0 => Reason::Attempts,
                    1 => Reason::Timeout,
                    2 => Reason::Lost,
                    3 => Reason::Buried,
                    _ => return Err(self.malformed()),
                };
                Destination::Dead { reason, kept_until: self.millis()? }
            }
            _ => return Err(self.malformed()),
        })
    }

    fn image(&mut self) -> Result<Image<'a>, Malformed> {
        let (id, body, policy) = (self.bytes()?, self.bytes()?, PolicyNo(self.u32()?));
        let (priority, added, due) = (self.u8()?, self.millis()?, self.millis()?);
        let (place, present) = (self.u64()? as i64, self.flag()?);
        let mut counts = [0; 6];
        for count in &mut counts {
            *count = self.u32()?;
        }
        let history = present.then_some(counts);
        let (present, error) = (self.flag()?, self.bytes()?);
        let error = present.then_some(error);
        Ok(Image { id, body, policy, priority, added, due, place, history, error })
    }

    fn policy(&mut self) -> Result<Policy, Malformed> {
        let (attempts, lease_ms, ttl_ms) = (self.u32()?, self.u64()?, self.u64()?);
        let (unique_ms, jitter) = (self.u64()?, self.flag()?);
        let steps = match self.u8()? {
            0 => {
                let length = self.u32()? as usize;
                if length == 0 || length > crate::limits::LADDER_STEPS_MAX {
                    return Err(self.malformed());
                }
                let steps: Result<Vec<u64>, Malformed> = (0..length).map(|_| self.u64()).collect();
                Steps::Ladder(steps?.into())
            }
            1 => Steps::Exponential { first: self.u64()?, max: self.u64()?, factor: self.u32()? },
            _ => return Err(self.malformed()),
        };
        Ok(Policy { attempts, backoff: Backoff { steps, jitter }, lease_ms, ttl_ms, unique_ms })
    }
}
