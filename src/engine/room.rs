//! What the journal allows in a turn. Volatile, set from outside before each turn, and consulted
//! only when deciding: `apply` knows nothing of it.
//!
//! Nothing is decided whose facts might not fit. A request is refused before it is begun, by a bound
//! that follows from the request alone; time passes, and jobs are handed over, one by one for as long
//! as the largest facts that one can make fit.
//!
//! A process that stood still is a stall, too: its consumers could not answer either.

use std::sync::Arc;

use crate::engine::model::policy::{Backoff, Steps};
use crate::engine::model::request::{Add, Nack, Push, QueueName, Redrive, Request, When, Which};
use crate::engine::store::Store;
use crate::engine::store::snapshot::record::HISTORY_IMAGE_BYTES;
use crate::error::Misconf;
use crate::limits::{
    COUNT_MAX, ERROR_TEXT_BYTES_MAX, LADDER_STEPS_MAX, NAME_BYTES_MAX, TRANSACTION_COST_MAX,
};
use crate::time::{Micros, Millis};

/// Bytes of facts that the journal still takes in this turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Room {
    /// For everything.
    pub bytes: u64,
    /// Beyond these, for what ends jobs alone: ACK, DEL, CANCEL, PURGE, DEL and FLUSH of queues.
    pub reserve_bytes: u64,
    /// The largest base that the disk has room for: what would make the next one larger is refused,
    /// so that there always is room for one, and with it for taking and ending jobs.
    pub base_bytes_max: u64,
    /// Why there is no more, such as `No space left on device`, if it is known.
    pub cause: Option<Arc<str>>,
}

impl Room {
    /// Room for whatever comes.
    pub const UNLIMITED: Room = Room::of(u64::MAX, 0);

    /// Room for so many bytes of facts and whatever base, for a reason that is not known.
    pub const fn of(bytes: u64, reserve_bytes: u64) -> Room {
        Room { bytes, reserve_bytes, base_bytes_max: u64::MAX, cause: None }
    }
}

/// What the journal allows in a turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Flow {
    /// Everything goes on, as far as its facts fit.
    Running {
        /// For facts.
        room: Room,
    },
    /// A sync has been out for long: no job is handed over, taking commands see every queue as empty
    /// and waiters wait. Everything else goes on.
    Held {
        /// For facts.
        room: Room,
    },
    /// CLIENT PAUSE: as held, and no time passes for jobs. Requests are decided all the same; whoever
    /// pauses keeps them back.
    Paused {
        /// For facts.
        room: Room,
    },
    /// Nothing durable changes and no time passes for jobs. Reading commands and the time-outs of
    /// waiters go on.
    Stopped {
        /// What requests that would change something are answered.
        cause: Misconf,
    },
}

impl Flow {
    /// The same while clients are paused.
    pub fn paused(self) -> Flow {
        match self {
            Flow::Running { room } | Flow::Held { room } => Flow::Paused { room },
            other => other,
        }
    }
}

impl Default for Flow {
    /// Running, with room for whatever comes.
    fn default() -> Flow {
        Flow::Running { room: Room::UNLIMITED }
    }
}

// Bytes of facts: the tag, then the fields (`fact/codec.rs`). What names a queue begins with its
// number, 1 + 4; byte strings have their length before them, 4.
const HEAD: u64 = 5;
const HEAD_ID: u64 = HEAD + 4;
const ID_MAX: u64 = NAME_BYTES_MAX as u64;
/// A dead letter that leaves.
const DROPPED_MAX: u64 = HEAD_ID + ID_MAX;
/// A job that is removed.
const DELETED_MAX: u64 = HEAD_ID + ID_MAX;
/// Where a job goes: dead, for a reason, until.
const DESTINATION_MAX: u64 = 1 + 1 + 8;
/// Each death makes up to so many older ones leave.
pub const DROPPED_PER_DEATH: u64 = 2;

/// A ladder of all the steps that it can have.
const LADDER_MAX: u64 = 4 + 8 * LADDER_STEPS_MAX as u64;
/// All that can be set for a queue: six numbers of 8 bytes, two of 4, two of 1, and a backoff.
const CONFIGURED_MAX: u64 = HEAD + 2 + 6 * 8 + 2 * 4 + 2 + 2 + LADDER_MAX;
/// Both directions of a queue.
const PAUSED: u64 = HEAD + 2 * 8;

/// The most that taking one job makes: a `Leased` with token, end and flags, of an id of 512 bytes;
/// or that it expires instead.
pub const TAKING_BYTES_MAX: u64 = HEAD_ID + ID_MAX + 8 + 8 + 1;

/// The most that one step of passing time makes: jobs that fell due before, and a lease that is over
/// and ends in death, with the dead letters that leave for it.
pub const PASSING_BYTES_MAX: u64 =
    HEAD + 8 + 4 + HEAD_ID + ID_MAX + 1 + DESTINATION_MAX + DROPPED_PER_DEATH * DROPPED_MAX;

/// The most that moving one dead job makes: a `Redriven` with flags and due time, of an id of 512
/// bytes.
pub const REDRIVEN_BYTES_MAX: u64 = HEAD_ID + ID_MAX + 1 + 8;

/// By how much a delivery makes the image of a job and its queue's larger, at the most: a history of
/// the job; the queue's lateness, and a bucket of it.
const DELIVERED_IMAGE_BYTES: u64 = HISTORY_IMAGE_BYTES + 8 + 5;
/// By how much the image of a job that is added may be larger than its fact: three instants and an id
/// that the server made.
const ADDED_IMAGE_BYTES: u64 = 48;
/// The same of a queue: its totals and what is counted of it.
const QUEUE_IMAGE_BYTES: u64 = 160;

/// Room beyond which nobody counts: no request makes facts of so many bytes, nor do all those of a turn,
/// which end after a ms or with the one that takes longer.
const AMPLE_BYTES: u64 = 4 << 30;

/// Bytes of facts.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Bound {
    /// At most these.
    bytes: u64,
    /// Without room for these it is refused: all of them, but for what can be cut short.
    needed: u64,
    /// It ends jobs and may use the reserve.
    ends: bool,
    /// By how much the next base may be larger for it; 0 for what adds nothing.
    grows: u64,
}

impl Bound {
    /// Of one that is done as a whole.
    fn whole(bytes: u64) -> Bound {
        Bound { bytes, needed: bytes, ends: false, grows: 0 }
    }

    /// Of one that is done as a whole, and adds so many jobs or changes what is set.
    fn adding(bytes: u64, jobs: usize) -> Bound {
        let each = ADDED_IMAGE_BYTES + DELIVERED_IMAGE_BYTES;
        let grows = bytes + QUEUE_IMAGE_BYTES + jobs as u64 * each;
        Bound { bytes, needed: bytes, ends: false, grows }
    }

    fn ending(bytes: u64) -> Bound {
        Bound { bytes, needed: bytes, ends: true, grows: 0 }
    }

    /// Of one that takes as many jobs as fit.
    fn taking(count: u32) -> Bound {
        let bytes = u64::from(count) * TAKING_BYTES_MAX;
        Bound { bytes, needed: TAKING_BYTES_MAX, ends: false, grows: 0 }
    }

    /// Of a request in a transaction, which takes or moves at most `count` jobs, the largest of which has
    /// so many bytes. Nothing of it is cut short. None for a request that changes nothing.
    pub fn within(request: &Request<'_>, count: u64, body_bytes: usize) -> Option<Bound> {
        Some(match *request {
            Request::Pop { .. } | Request::ListPop(_) | Request::Reserve(_) => {
                Bound::whole(count * TAKING_BYTES_MAX)
            }
            Request::Move(_) if count == 0 => return None,
            Request::Move(ref of) => Bound::adding(moving_bytes_max(body_bytes, of.to.len()), 1),
            Request::DeleteEqual { .. } => Bound::ending(count * DELETED_MAX),
            Request::Configure { .. } | Request::Unconfigure { .. } => {
                let bound = Bound::of(request).unwrap_or_default();
                Bound { grows: bound.grows, ..Bound::whole(bound.bytes + count * DROPPED_MAX) }
            }
            Request::Redrive(Redrive { which: Which::Oldest(_), .. }) => {
                Bound::whole(count * REDRIVEN_BYTES_MAX)
            }
            _ => return Bound::of(request),
        })
    }

    /// The most bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds what another request makes. `needed` is then what may not use the reserve.
    pub fn add(&mut self, other: Bound) {
        self.bytes += other.bytes;
        self.grows += other.grows;
        self.needed += if other.ends { 0 } else { other.bytes };
    }

    /// By how much the next base may be larger for it.
    pub fn growth_bytes(&self) -> u64 {
        self.grows
    }

    /// None for a request that changes nothing.
    pub fn of(request: &Request<'_>) -> Option<Bound> {
        let len = |bytes: &[u8]| bytes.len() as u64;
        Some(match *request {
            Request::Add(ref add) => Bound::adding(adding(add), 1),
            Request::Push(ref push) => Bound::adding(pushing(push), push.bodies.len()),
            Request::Pop { .. } => Bound::taking(1),
            Request::ListPop(ref pop) if pop.count == 0 => return None,
            Request::ListPop(ref pop) => Bound::taking(pop.count),
            // Of which job is known only when it is met: the rest of its body is looked at then.
            Request::Move(ref of) => Bound::adding(moving_bytes_max(0, of.to.len()), 1),
            Request::Reserve(ref reserve) => Bound::taking(reserve.count),
            // Each id with the end of its window.
            Request::Ack { ref jobs, .. } => {
                Bound::ending(jobs.iter().map(|(id, _)| HEAD_ID + len(id) + 8).sum())
            }
            Request::Nack(ref nack) => Bound::whole(nacking(nack)),
            Request::Extend { id, .. } => Bound::whole(HEAD_ID + len(id) + 8),
            Request::Delete { ids, .. } => {
                Bound::ending(ids.iter().map(|id| HEAD_ID + len(id)).sum())
            }
            Request::Cancel { id, .. } => Bound::ending(HEAD_ID + len(id)),
            // Those that are found are looked at before any is removed.
            Request::DeleteEqual { count, .. } => {
                let most = if count == 0 { COUNT_MAX } else { count.min(COUNT_MAX) };
                Bound { bytes: most * DELETED_MAX, ..Bound::ending(DELETED_MAX) }
            }
            // Flags and the new due time.
            Request::Reschedule { id, .. } => Bound::whole(HEAD_ID + len(id) + 1 + 8),
            Request::Redrive(Redrive { which: Which::Ids(ids), .. }) => {
                Bound::whole(ids.iter().map(|id| HEAD_ID + len(id) + 1 + 8).sum())
            }
            // In a transaction, which cannot be cut into slices, as many as those may look at.
            Request::Redrive(Redrive { which: Which::Oldest(count), .. }) => {
                let count = count.map_or(TRANSACTION_COST_MAX, u64::from);
                Bound { bytes: count * REDRIVEN_BYTES_MAX, ..Bound::whole(REDRIVEN_BYTES_MAX) }
            }
            // Which jobs, and how many.
            Request::Purge { .. } => Bound::ending(HEAD + 1 + 8),
            Request::Rename { to, .. } => Bound::adding(HEAD_ID + len(to) + 4, 0),
            Request::Remove { queues, .. } => Bound::ending(HEAD * queues.len() as u64),
            Request::Flush { .. } => Bound::ending(1 + 1),
            // Dead letters that are too many then leave one by one, as long as one more fits.
            Request::Configure { queue, .. } => {
                Bound::adding(binding(queue) + CONFIGURED_MAX + DROPPED_MAX, 0)
            }
            Request::Unconfigure { .. } => Bound::whole(HEAD + 2 + DROPPED_MAX),
            Request::Pause { queue, .. } => Bound::adding(binding(queue) + PAUSED, 0),
            Request::Resume { .. } => Bound::whole(PAUSED),
            Request::Get { .. }
            | Request::Settings { .. }
            | Request::Stats { .. }
            | Request::Forecast { .. }
            | Request::Len { .. }
            | Request::Peek { .. }
            | Request::Range { .. }
            | Request::At { .. }
            | Request::Find(_)
            | Request::Scan { .. }
            | Request::Exists { .. }
            | Request::Keys { .. }
            | Request::ScanQueues { .. }
            | Request::RandomQueue { .. }
            | Request::QueueCount { .. }
            | Request::Memory { .. } => return None,
        })
    }
}

/// The jobs, with made ids; their queue and their policy, should they be new.
fn pushing(push: &Push<'_>) -> u64 {
    let first = adding(&Add::new(push.queue, When::In(0), b""));
    let bodies = push.bodies.iter().map(|body| made_bytes(body.len())).sum::<u64>();
    first + bodies
}

/// The most that moving a job makes: it is taken, and added with an id and, should they be new, a
/// queue and a policy.
pub fn moving_bytes_max(body_bytes: usize, name_bytes: usize) -> u64 {
    let bound = HEAD + 1 + 4 + name_bytes as u64;
    TAKING_BYTES_MAX + bound + binding_policy(None) + made_bytes(body_bytes)
}

/// What removing a job with an id of so many bytes makes.
pub fn deleting_bytes(id_bytes: usize) -> u64 {
    HEAD_ID + id_bytes as u64
}

/// A job with a made id: the id, policy, priority, flags, due time, body.
fn made_bytes(body_bytes: usize) -> u64 {
    HEAD + 8 + 4 + 1 + 1 + 8 + 4 + body_bytes as u64
}

/// The job; its queue and its policy, should they be new; and the job that it replaces.
fn adding(add: &Add<'_>) -> u64 {
    let id = add.id.map_or(0, <[u8]>::len) as u64;
    // A made id has 8 bytes and no length. Then policy, priority, flags, due time, body.
    let added = HEAD + (4 + id).max(8) + 4 + 1 + 1 + 8 + 4 + add.body.len() as u64;
    added + binding(add.queue) + binding_policy(add.backoff.as_ref()) + HEAD_ID + id
}

/// A new queue.
fn binding(queue: QueueName<'_>) -> u64 {
    HEAD + 1 + 4 + queue.name.len() as u64
}

/// A new policy, and two that are forgotten for it. Without a backoff, the queue's is the longest.
fn binding_policy(backoff: Option<&Backoff>) -> u64 {
    let steps = match backoff.map(|backoff| &backoff.steps) {
        Some(Steps::Ladder(steps)) => 4 + 8 * steps.len() as u64,
        Some(Steps::Exponential { .. }) => 8 + 8 + 4,
        None => LADDER_MAX,
    };
    // Number, attempts, lease, TTL, UNIQUE, jitter, which kind of steps.
    (1 + 4) + 4 + 8 + 8 + 8 + 1 + 1 + steps + 2 * (1 + 4)
}

/// As if it ended in death.
fn nacking(nack: &Nack<'_>) -> u64 {
    let error = nack.error.map_or(0, <[u8]>::len) as u64;
    let nacked = HEAD_ID + nack.id.len() as u64 + 1 + 1 + 1 + 4 + error + DESTINATION_MAX;
    nacked + DROPPED_PER_DEATH * DROPPED_MAX
}

/// The most that putting back a popped job makes, with its policy should it be bound anew.
pub fn returning_bytes_max(body_bytes: usize, backoff: &Backoff) -> u64 {
    // Policy, priority; added, due, place; six counts and whether they are there; the error.
    let image = 4 + 1 + 8 * 3 + 1 + 4 * 6 + 1 + 4 + ERROR_TEXT_BYTES_MAX as u64;
    HEAD_ID + ID_MAX + 4 + body_bytes as u64 + image + binding_policy(Some(backoff))
}

/// The size of a base, bytes, once all jobs there are have been delivered: the most that it can
/// become without a job being added. O(16).
pub fn base_bytes_later(store: &Store) -> u64 {
    let jobs: u64 = store.counts().iter().sum();
    store.base_bytes() + jobs * DELIVERED_IMAGE_BYTES
}

/// A span in which no lease could end, nor be extended.
#[derive(Clone, Copy, Debug)]
struct Stall {
    from: Millis,
    /// None while it lasts.
    to: Option<Millis>,
}

/// The flow of the turn and what is left of its room.
#[derive(Debug)]
pub struct Gate {
    bytes: u64,
    reserve_bytes: u64,
    base_bytes_max: u64,
    /// By how much the next base may become larger, at the least.
    growth_bytes: u64,
    held: bool,
    paused: bool,
    /// What a request is told that does not fit.
    cause: Option<Misconf>,
    /// Of `bytes`, what the request being decided was promised: time may pass in it, but not use it.
    promised: u64,
    /// A transaction has begun: what was there before it, and what it does not need.
    whole: Option<WholeRoom>,
    /// When the flow was set: all that a turn does happens then.
    set_at: Millis,
    stall: Option<Stall>,
    /// The process stood still, and what arrived meanwhile has not been heard.
    unheard: bool,
    /// Waiters are served later, so that what arrived meanwhile comes first.
    defers: bool,
}

/// The room as a transaction found it.
#[derive(Clone, Copy, Debug)]
struct WholeRoom {
    bytes: u64,
    reserve_bytes: u64,
    spare_bytes: u64,
}

impl Default for Gate {
    /// With room for whatever comes.
    fn default() -> Gate {
        Gate {
            bytes: u64::MAX,
            reserve_bytes: 0,
            base_bytes_max: u64::MAX,
            growth_bytes: u64::MAX,
            held: false,
            paused: false,
            cause: None,
            promised: 0,
            whole: None,
            set_at: Millis(0),
            stall: None,
            unheard: false,
            defers: false,
        }
    }
}

impl Gate {
    /// Sets the flow of the turn that begins at `now`.
    pub fn set(&mut self, now: Micros, flow: Flow) {
        if !self.lets_time_pass() {
            self.begin_stall(self.set_at);
        }
        self.paused = matches!(flow, Flow::Paused { .. });
        let (held, room, stopped) = match flow {
            Flow::Running { room } => (false, room, None),
            Flow::Held { room } | Flow::Paused { room } => (true, room, None),
            Flow::Stopped { cause } => (true, Room::of(0, 0), Some(cause)),
        };
        let Room { bytes, reserve_bytes, base_bytes_max, cause } = room;
        (self.bytes, self.reserve_bytes, self.held) = (bytes, reserve_bytes, held);
        (self.base_bytes_max, self.growth_bytes) = (base_bytes_max, 0);
        self.cause = stopped.or(cause.map(|cause| Misconf::NoRoom { cause }));
        self.set_at = now.floor();
        if !self.lets_time_pass() {
            self.begin_stall(self.set_at);
        } else {
            self.end_stall(self.set_at);
        }
    }

    /// A stall is over when everybody has been heard.
    fn end_stall(&mut self, at: Millis) {
        if let Some(stall) = self.stall.as_mut().filter(|_| !self.unheard) {
            stall.to.get_or_insert(at);
        }
    }

    /// Whether whatever comes is taken: there is room for it, or it is part of a transaction, to all of
    /// which was promised what it needs. Also where the next base may become so much larger, as a request
    /// of this turn has found, that all the others of it come to far less.
    fn takes_all(&self) -> bool {
        let grows = self.base_bytes_max == u64::MAX || self.growth_bytes >= AMPLE_BYTES;
        let ample = !self.is_short() && grows;
        ample || self.whole.is_some()
    }

    /// Makes a promise to the request, or tells why not.
    pub fn admit(&mut self, store: &Store, request: &Request<'_>) -> Result<(), Misconf> {
        if self.takes_all() {
            return Ok(());
        }
        let Some(bound) = Bound::of(request) else { return Ok(()) };
        let Bound { needed, ends, grows, .. } = bound;
        if grows > 0 && !self.lets_grow(store, grows) {
            return Err(self.shortage());
        }
        let reserve_bytes = if ends { self.reserve_bytes } else { 0 };
        if self.bytes.saturating_add(reserve_bytes) < needed {
            return Err(self.shortage());
        }
        self.promised = needed.saturating_sub(reserve_bytes);
        Ok(())
    }

    /// Whether there is room for a transaction that makes such facts.
    pub fn check_whole(&self, store: &Store, facts: Bound) -> Result<(), Misconf> {
        let later = base_bytes_later(store).saturating_add(facts.grows);
        if facts.grows > 0 && later > self.base_bytes_max {
            return Err(self.shortage());
        }
        self.check_facts(facts)
    }

    /// Whether the next base may become larger by so many bytes; from here on they are spent.
    pub fn lets_grow(&mut self, store: &Store, bytes: u64) -> bool {
        if self.growth_bytes < bytes {
            // Most requests make less than their bounds say: what is left is looked at anew.
            self.growth_bytes = self.base_bytes_max.saturating_sub(base_bytes_later(store));
        }
        let fits = self.growth_bytes >= bytes;
        self.growth_bytes -= if fits { bytes } else { 0 };
        fits
    }

    fn check_facts(&self, facts: Bound) -> Result<(), Misconf> {
        let all = self.bytes.saturating_add(self.reserve_bytes);
        if facts.needed > self.bytes || facts.bytes > all {
            return Err(self.shortage());
        }
        Ok(())
    }

    /// Whether somebody counts.
    pub fn is_short(&self) -> bool {
        self.bytes < AMPLE_BYTES
    }

    /// Makes a promise to a transaction that is yet to begin, if it can be kept.
    pub fn promise(&mut self, facts: Bound) {
        if self.check_facts(facts).is_ok() {
            self.promised = facts.needed.max(facts.bytes.saturating_sub(self.reserve_bytes));
        }
    }

    /// Such a transaction begins. In which order its requests end jobs and make others is all the same:
    /// until its end they draw on one room.
    pub fn begin_whole(&mut self, facts: Bound) {
        let (bytes, reserve_bytes) = (self.bytes, self.reserve_bytes);
        let all = bytes.saturating_add(reserve_bytes);
        let spare_bytes = (bytes - facts.needed).min(all - facts.bytes);
        self.whole = Some(WholeRoom { bytes, reserve_bytes, spare_bytes });
        (self.bytes, self.reserve_bytes) = (all, 0);
    }

    /// It is over.
    pub fn end_whole(&mut self) {
        let Some(before) = self.whole.take() else { return };
        let spent = before.bytes.saturating_add(before.reserve_bytes) - self.bytes;
        let beyond = spent.saturating_sub(before.bytes);
        self.bytes = before.bytes.saturating_sub(spent);
        self.reserve_bytes = before.reserve_bytes.saturating_sub(beyond);
    }

    /// Whether facts of so many bytes fit beside what the transaction that is running needs; if so
    /// they are taken from its room. Outside of one they always do.
    pub fn lets_spare(&mut self, bytes: u64) -> bool {
        let Some(whole) = &mut self.whole else { return true };
        let left = whole.spare_bytes.checked_sub(bytes);
        whole.spare_bytes = left.unwrap_or(whole.spare_bytes);
        left.is_some()
    }

    /// The request that was admitted has been decided.
    pub fn release(&mut self) {
        self.promised = 0;
    }

    /// Why something does not fit.
    pub fn shortage(&self) -> Misconf {
        let unknown = || Misconf::NoRoom { cause: "its files are full".into() };
        self.cause.clone().unwrap_or_else(unknown)
    }

    /// Facts of so many bytes were made.
    pub fn spend(&mut self, bytes: u64) {
        let beyond = bytes.saturating_sub(self.bytes);
        debug_assert!(beyond <= self.reserve_bytes, "facts beyond the room: by {beyond}");
        self.bytes = self.bytes.saturating_sub(bytes);
        self.reserve_bytes = self.reserve_bytes.saturating_sub(beyond);
    }

    /// Whether facts of so many bytes fit that no request makes.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.bytes >= self.promised.saturating_add(bytes)
    }

    /// Whether one more step of passing time fits.
    pub fn lets_time_pass(&self) -> bool {
        !self.paused && self.has_room(PASSING_BYTES_MAX)
    }

    /// Whether a job may be handed to a client that waits.
    pub fn serves(&self) -> bool {
        !self.held && !self.defers && self.has_room(TAKING_BYTES_MAX)
    }

    /// Whether waiters are served later.
    pub fn defers(&self) -> bool {
        self.defers
    }

    /// Sets that.
    pub fn defer(&mut self, defers: bool) {
        self.defers = defers;
    }

    /// Whether the request being decided may take one more job.
    pub fn lets_take(&self) -> bool {
        !self.held && self.bytes >= TAKING_BYTES_MAX
    }

    /// Whether facts of so many bytes fit that the request being decided makes.
    pub fn lets_spend(&self, bytes: u64) -> bool {
        self.bytes >= bytes
    }

    /// As [`Gate::lets_spend`], of facts that end jobs.
    pub fn lets_end(&self, bytes: u64) -> bool {
        self.bytes.saturating_add(self.reserve_bytes) >= bytes
    }

    /// Whether no job is handed over, whatever the room.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// The new end of a lease that would have ended at `end` if a stall had not kept its consumer
    /// from answering: as much later than `now` as was left of it when the stall began. The new end
    /// is behind the stall, so this happens once.
    pub fn extension(&self, end: Millis, now: Micros) -> Option<Millis> {
        let Stall { from, to } = self.stall?;
        let to = to.unwrap_or(now.floor());
        (from <= end && end <= to).then(|| now.ceil().plus((end.0 - from.0).max(1)))
    }

    /// Every lease whose end has come was met.
    pub fn caught_up(&mut self) {
        self.stall = self.stall.filter(|stall| stall.to.is_none());
    }

    /// The process did nothing from `from` until now.
    pub fn stood_still(&mut self, from: Micros) {
        self.begin_stall(from.floor());
        self.unheard = true;
    }

    /// All that arrived while the process stood still has been heard by `now`.
    pub fn heard(&mut self, now: Micros) {
        self.unheard = false;
        if self.lets_time_pass() {
            self.end_stall(now.floor());
        }
    }

    /// One that begins before all leases of the last were met goes on with it.
    fn begin_stall(&mut self, from: Millis) {
        self.stall.get_or_insert(Stall { from, to: None }).to = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::model::fact::{Destination, Fact, FactId, Facts, Image};
    use crate::engine::model::policy::Policy;
    use crate::engine::model::reply::Reason;
    use crate::engine::model::request::{QueueName, Side, Taken, When};
    use crate::ids::{Db, PolicyNo, QueueNo, Token};

    const QUEUE: QueueNo = QueueNo(1);
    const ID: &[u8] = &[b'i'; NAME_BYTES_MAX];

    fn bytes(facts: &[Fact<'_>]) -> u64 {
        let mut all = Facts::default();
        facts.iter().for_each(|fact| all.push(fact));
        all.bytes.len() as u64
    }

    fn policy(steps: usize) -> Policy {
        let steps = Steps::Ladder(vec![1; steps].into());
        let backoff = Backoff { steps, jitter: true };
        Policy { attempts: 1, backoff, lease_ms: 1, ttl_ms: 1, unique_ms: 1 }
    }

    #[test]
    fn a_step_covers_the_largest_facts_that_it_can_make() {
        let (queue, id, end) = (QUEUE, ID, Millis(1));
        let (bound, prompt, lost) = (true, true, true);
        let leased = Fact::Leased { queue, id, token: Token(1), lease_end: end, bound, prompt };
        assert_eq!(bytes(&[leased]), TAKING_BYTES_MAX);
        let popped = Fact::Popped { queue, id, window_end: end, prompt };
        assert!(bytes(&[popped]) <= TAKING_BYTES_MAX);
        let expired = Fact::Expired { queue, id, window_end: end };
        assert!(bytes(std::slice::from_ref(&expired)) <= TAKING_BYTES_MAX);
        assert!(bytes(&[Fact::Unleased { queue, id }]) <= TAKING_BYTES_MAX);

        let (absolute, ready, left, keep_attempts) = (true, true, true, true);
        let redriven = Fact::Redriven { queue, id, absolute, ready, left, keep_attempts, due: end };
        assert_eq!(bytes(&[redriven]), REDRIVEN_BYTES_MAX);

        let due = Fact::Due { queue, place: 1, count: 1, left: true };
        let to = Destination::Dead { reason: Reason::Lost, kept_until: end };
        let over = Fact::LeaseOver { queue, id, lost, counted: true, to };
        let dropped = Fact::Dropped { queue, id };
        let worst = [due.clone(), over, dropped.clone(), dropped];
        assert_eq!(bytes(&worst), PASSING_BYTES_MAX);
        assert!(bytes(&[due, expired]) <= PASSING_BYTES_MAX);
        assert!(bytes(&[Fact::Extended { queue, id, lease_end: end }]) <= PASSING_BYTES_MAX);
    }

    #[test]
    fn an_add_and_a_returned_job_are_covered_with_all_that_they_bind() {
        for (steps, given) in [(1, true), (64, true), (64, false)] {
            let (number, policy) = (PolicyNo(1), policy(steps));
            let backoff = policy.backoff.clone();
            let forgotten = Fact::PolicyForgotten { number };
            let bound = Fact::PolicyBound { number, policy };
            let id = if given { FactId::Given(ID) } else { FactId::Made(1) };
            let added = Fact::Added {
                queue: QUEUE,
                id,
                policy: number,
                priority: 1,
                absolute: true,
                ready: true,
                left: true,
                due: Millis(1),
                body: b"body",
            };
            let name = Fact::QueueBound { queue: QUEUE, db: Db(0), name: ID };
            let mut all = vec![name, forgotten.clone(), forgotten.clone(), bound.clone(), added];
            if given {
                all.push(Fact::Deleted { queue: QUEUE, id: ID });
            }
            let queue = QueueName { db: Db(0), name: ID };
            let add = Add {
                id: given.then_some(ID),
                taken: Taken::Replace,
                backoff: Some(backoff.clone()),
                ..Add::new(queue, When::In(0), b"body")
            };
            // Without an id none is replaced: that much too many.
            let spare = if given { 0 } else { HEAD_ID };
            assert_eq!(bytes(&all) + spare, adding(&add), "{steps} steps, id given: {given}");

            let image = Image {
                id: ID,
                body: b"body",
                policy: number,
                priority: 1,
                added: Millis(1),
                due: Millis(1),
                place: 1,
                history: Some([1; 6]),
                error: Some(&[b'e'; ERROR_TEXT_BYTES_MAX]),
            };
            let back = Fact::Unpopped { queue: QUEUE, image };
            let all = [forgotten.clone(), forgotten, bound, back];
            assert_eq!(bytes(&all), returning_bytes_max(4, &backoff));
        }
    }

    #[test]
    fn a_move_and_pushes_are_covered_with_all_that_they_bind() {
        let (number, policy) = (PolicyNo(1), policy(LADDER_STEPS_MAX));
        let forgotten = Fact::PolicyForgotten { number };
        let bound = Fact::PolicyBound { number, policy };
        let name = Fact::QueueBound { queue: QUEUE, db: Db(0), name: ID };
        let added = |body| Fact::Added {
            queue: QUEUE,
            id: FactId::Made(1),
            policy: number,
            priority: 1,
            absolute: false,
            ready: true,
            left: true,
            due: Millis(1),
            body,
        };
        let binds = [name, forgotten.clone(), forgotten, bound];
        let popped = Fact::Popped { queue: QUEUE, id: ID, window_end: Millis(1), prompt: true };
        let moved = bytes(&binds) + bytes(&[popped, added(b"body")]);
        // A lease would have its token beside.
        assert_eq!(moved + 8, moving_bytes_max(4, ID.len()));

        let (queue, bodies) = (QueueName { db: Db(0), name: ID }, &[&b"a"[..], b"bc"][..]);
        let push = Push { queue, bodies, side: Side::Left, only_existing: false };
        let pushed = bytes(&binds) + bytes(&[added(b"a"), added(b"bc")]);
        // One more without a body, and the job that it would replace.
        assert_eq!(pushed + made_bytes(0) + HEAD_ID, pushing(&push));
    }
}
