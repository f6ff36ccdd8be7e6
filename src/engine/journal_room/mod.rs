//! What the journal allows in a turn. Volatile, set from outside before each turn, and read only
//! when deciding: `apply` knows nothing of it.
//!
//! Nothing is decided whose facts might not fit. A request is refused before it begins, by a bound that follows from
//! the request alone; time passes, and jobs are handed over, one by one as long as the largest possible facts of one
//! fit.
//!
//! A process that stood still is a stall, too: its consumers could not answer either.

mod bound;

use std::sync::Arc;

use crate::engine::model::request::Request;
use crate::engine::store::Store;
use crate::error::Misconf;
use crate::time::{Micros, Millis};

pub use bound::{
    Bound, SIZES, Sizes, base_bytes_later, deleting_bytes, moving_bytes_max, occurring_growth,
    returning_bytes_max,
};

/// Space beyond which nothing is counted: no request makes facts of so many bytes, nor do all those of a turn, which
/// end after a ms or with the one that takes longer.
const AMPLE_BYTES: u64 = 4 << 30;

/// If the next base may grow by at most this many bytes, each request that adds to it checks its size.
const NEAR_BYTES: u64 = 1 << 20;

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

    /// Space for this many bytes of facts and any base, for an unknown reason.
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
    Stalled {
        /// For facts.
        room: Room,
    },
    /// CLIENT PAUSE: like a stall, and time stops for jobs. Requests are still decided; the caller holds them back.
    Paused {
        /// For facts.
        room: Room,
    },
    /// Nothing durable changes and no time passes for jobs. Reading commands and the time-outs of
    /// waiters go on.
    Stopped {
        /// The answer to requests that would change something.
        cause: Misconf,
    },
}

impl Flow {
    /// The same while clients are paused.
    pub fn paused(self) -> Flow {
        match self {
            Flow::Running { room } | Flow::Stalled { room } => Flow::Paused { room },
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

/// A span in which no lease could end, nor be extended.
#[derive(Clone, Copy, Debug)]
struct Stall {
    from: Millis,
    /// None while it lasts.
    to: Option<Millis>,
}

#[derive(Debug)]
pub struct RoomLeft {
    /// The sum of [`SIZES`], which are needed for every job.
    taking: u64,
    advancing: u64,
    bytes: u64,
    reserve_bytes: u64,
    base_bytes_max: u64,
    /// By how much the next base may become larger, at the least.
    growth_bytes: u64,
    stalled: bool,
    paused: bool,
    /// The error of a request that does not fit.
    cause: Option<Misconf>,
    /// The part of `bytes` that the current request was promised: time may pass meanwhile, but not use it.
    promised: u64,
    /// By how much the current request may make the next base larger: time may pass before it does, but not use that.
    promised_growth: u64,
    /// A transaction has begun: what was there before it, and what it does not need.
    whole: Option<WholeRoom>,
    /// When the flow was set: all that a turn does happens then.
    set_at: Millis,
    stall: Option<Stall>,
    /// Since when nothing that came due was done because clients were paused; none once all of it is done.
    paused_from: Option<Millis>,
    /// The process stood still, and the data that arrived meanwhile has not been read.
    has_backlog: bool,
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

impl Default for RoomLeft {
    /// With enough space for everything.
    fn default() -> RoomLeft {
        RoomLeft {
            taking: SIZES.taking,
            advancing: SIZES.advancing,
            bytes: u64::MAX,
            reserve_bytes: 0,
            base_bytes_max: u64::MAX,
            growth_bytes: u64::MAX,
            stalled: false,
            paused: false,
            cause: None,
            promised: 0,
            promised_growth: 0,
            whole: None,
            set_at: Millis(0),
            stall: None,
            paused_from: None,
            has_backlog: false,
            defers: false,
        }
    }
}

impl RoomLeft {
    /// See [`Room::base_bytes_max`].
    pub fn base_bytes_max(&self) -> u64 {
        self.base_bytes_max
    }

    /// Sets the flow of the turn that begins at `now`; time passed last at `advanced`.
    pub fn set(&mut self, now: Micros, flow: Flow, advanced: Millis) {
        if !self.lets_time_pass() {
            self.begin_stall(self.set_at);
        }
        self.paused = matches!(flow, Flow::Paused { .. });
        if self.paused {
            self.paused_from.get_or_insert(advanced.plus(1));
        }
        let (stalled, room, stopped) = match flow {
            Flow::Running { room } => (false, room, None),
            Flow::Stalled { room } | Flow::Paused { room } => (true, room, None),
            Flow::Stopped { cause } => (true, Room::of(0, 0), Some(cause)),
        };
        let Room { bytes, reserve_bytes, base_bytes_max, cause } = room;
        (self.bytes, self.reserve_bytes, self.stalled) = (bytes, reserve_bytes, stalled);
        (self.base_bytes_max, self.growth_bytes) = (base_bytes_max, 0);
        self.cause = stopped.or(cause.map(|cause| Misconf::NoRoom { cause }));
        self.set_at = now.floor();
        if !self.lets_time_pass() {
            self.begin_stall(self.set_at);
        } else {
            self.end_stall(self.set_at);
        }
    }

    /// A stall is over when all sockets have been read.
    fn end_stall(&mut self, at: Millis) {
        if let Some(stall) = self.stall.as_mut().filter(|_| !self.has_backlog) {
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

    /// Makes a promise to the request, or returns why not.
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
        (self.promised, self.promised_growth) = (needed.saturating_sub(reserve_bytes), grows);
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

    /// Whether the next base may grow by this many bytes; from here on they are spent.
    pub fn lets_grow(&mut self, store: &Store, bytes: u64) -> bool {
        if self.growth_bytes < bytes.max(NEAR_BYTES) {
            let later = base_bytes_later(store).saturating_add(self.promised_growth);
            let left = self.base_bytes_max.saturating_sub(later);
            // Most requests make less than their bounds say, but no request makes what waiters move, or counts of
            // deliveries.
            let enough = self.growth_bytes >= bytes;
            self.growth_bytes = if enough { self.growth_bytes.min(left) } else { left };
        }
        let fits = self.growth_bytes >= bytes;
        self.growth_bytes -= if fits { bytes } else { 0 };
        fits
    }

    /// The next base has grown by facts that were not counted here: compute the rest again.
    pub fn note_growth(&mut self) {
        self.growth_bytes = 0;
    }

    fn check_facts(&self, facts: Bound) -> Result<(), Misconf> {
        let all = self.bytes.saturating_add(self.reserve_bytes);
        if facts.needed > self.bytes || facts.bytes > all {
            return Err(self.shortage());
        }
        Ok(())
    }

    /// Whether space is counted at all.
    pub fn is_short(&self) -> bool {
        self.bytes < AMPLE_BYTES
    }

    /// Makes a promise to a transaction that is yet to begin, if it can be kept.
    pub fn promise(&mut self, facts: Bound) {
        if self.check_facts(facts).is_ok() {
            self.promised = facts.needed.max(facts.bytes.saturating_sub(self.reserve_bytes));
        }
    }

    /// Such a transaction begins. The order in which its requests end jobs and make others does not matter: until its
    /// end they share one allowance.
    pub fn begin_whole(&mut self, facts: Bound) {
        let (bytes, reserve_bytes) = (self.bytes, self.reserve_bytes);
        let all = bytes.saturating_add(reserve_bytes);
        let spare_bytes = (bytes - facts.needed).min(all - facts.bytes);
        self.whole = Some(WholeRoom { bytes, reserve_bytes, spare_bytes });
        self.note_growth();
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

    /// Whether facts of this size fit, in addition to the needs of the running transaction; if so
    /// they are taken from its allowance. Outside of one they always fit.
    pub fn lets_spare(&mut self, bytes: u64) -> bool {
        let Some(whole) = &mut self.whole else { return true };
        let left = whole.spare_bytes.checked_sub(bytes);
        whole.spare_bytes = left.unwrap_or(whole.spare_bytes);
        left.is_some()
    }

    /// The request that was admitted has been decided.
    pub fn release(&mut self) {
        (self.promised, self.promised_growth) = (0, 0);
    }

    /// Why something does not fit.
    pub fn shortage(&self) -> Misconf {
        let unknown = || Misconf::NoRoom { cause: "its files are full".into() };
        self.cause.clone().unwrap_or_else(unknown)
    }

    pub fn spend(&mut self, bytes: u64) {
        let beyond = bytes.saturating_sub(self.bytes);
        debug_assert!(beyond <= self.reserve_bytes, "facts beyond the room: by {beyond}");
        self.bytes = self.bytes.saturating_sub(bytes);
        self.reserve_bytes = self.reserve_bytes.saturating_sub(beyond);
    }

    /// Whether facts of this size fit that no request makes.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.bytes >= self.promised.saturating_add(bytes)
    }

    /// Whether clients are paused: no time passes, whatever the room.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether one more step of passing time fits.
    pub fn lets_time_pass(&self) -> bool {
        !self.paused && self.has_room(self.advancing)
    }

    /// Whether a job may be handed to a client that waits.
    pub fn serves(&self) -> bool {
        !self.stalled && !self.defers && self.has_room(self.taking)
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
        !self.stalled && self.bytes >= self.taking
    }

    /// Whether facts of this size fit that the current request makes.
    pub fn lets_spend(&self, bytes: u64) -> bool {
        self.bytes >= bytes
    }

    /// As [`RoomLeft::lets_spend`], of facts that end jobs.
    pub fn lets_end(&self, bytes: u64) -> bool {
        self.bytes.saturating_add(self.reserve_bytes) >= bytes
    }

    /// Whether no job is handed over, whatever the room.
    pub fn stalls_hand_offs(&self) -> bool {
        self.stalled
    }

    /// The new end of a lease that would have ended at `end` if a stall had not kept its consumer
    /// from answering: it has the time it had left when the stall began, counted from `now`. The
    /// new end is after the stall, so this happens once.
    pub fn extension(&self, end: Millis, now: Micros) -> Option<Millis> {
        let Stall { from, to } = self.stall?;
        let to = to.unwrap_or(now.floor());
        (from <= end && end <= to).then(|| now.ceil().plus((end.0 - from.0).max(1)))
    }

    /// Everything due from this instant on fell due while clients were paused, or after that: time stood still.
    pub fn paused_from(&self) -> Option<Millis> {
        self.paused_from
    }

    /// Every lease whose end has come was reached, and all other due work is done.
    pub fn caught_up(&mut self) {
        self.stall = self.stall.filter(|stall| stall.to.is_none());
        self.paused_from = None;
    }

    /// The process did nothing from `from` until now.
    pub fn stood_still(&mut self, from: Micros) {
        self.begin_stall(from.floor());
        self.has_backlog = true;
    }

    /// Everything that arrived while the process stood still has been read by `now`.
    pub fn backlog_read(&mut self, now: Micros) {
        self.has_backlog = false;
        if self.lets_time_pass() {
            self.end_stall(now.floor());
        }
    }

    /// One that begins before all leases of the last were met goes on with it.
    fn begin_stall(&mut self, from: Millis) {
        self.stall.get_or_insert(Stall { from, to: None }).to = None;
    }
}
