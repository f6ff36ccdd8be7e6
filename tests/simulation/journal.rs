//! The journal as the auditor sees it: what it allows, what was made of its room, and when no lease
//! could end.

use delayd::engine::Outcome;
use delayd::engine::journal_room::{Bound, Flow, Room, SIZES};
use delayd::engine::model::fact::{Fact, Facts};
use delayd::engine::model::group::Grouping;
use delayd::engine::model::request::{Request, Which};
use delayd::engine::model::schedule::Scheduling;
use delayd::error::Misconf;
use delayd::time::{Micros, Millis};

use crate::simulation::auditor::{Check, Input};
use crate::simulation::model::Kind;
use crate::simulation::trace::{Kept, Said};

/// Room above which nothing is cut short: far more than one step needs.
const AMPLE_BYTES: u64 = 20_000;
/// More than a text takes in addition to itself.
const BESIDE_A_TEXT_BYTES: u64 = 512;

/// Follows the flow.
pub struct Journal {
    flow: Flow,
    /// What is left, of the room and of the reserve.
    bytes: u64,
    reserve_bytes: u64,
    base_bytes_max: u64,
    set_at: u64,
    /// Spans in which no lease could end; the last may go on.
    stalls: Vec<(u64, Option<u64>)>,
}

impl Default for Journal {
    fn default() -> Journal {
        let (bytes, reserve_bytes, set_at) = (u64::MAX, 0, 0);
        let (flow, base_bytes_max, stalls) = (Flow::default(), u64::MAX, Vec::new());
        Journal { flow, bytes, reserve_bytes, base_bytes_max, set_at, stalls }
    }
}

impl Journal {
    pub fn set(&mut self, now: Micros, flow: &Flow) {
        let now = now.floor().0;
        self.note_stall(self.set_at);
        let none = Room::of(0, 0);
        let room = match flow {
            Flow::Running { room } | Flow::Stalled { room } | Flow::Paused { room } => room,
            Flow::Stopped { .. } => &none,
        };
        (self.bytes, self.reserve_bytes) = (room.bytes, room.reserve_bytes);
        self.base_bytes_max = room.base_bytes_max;
        (self.flow, self.set_at) = (flow.clone(), now);
        self.note_stall(now);
        if let Some((_, to)) = self.stalls.last_mut().filter(|_| self.bytes >= SIZES.advancing) {
            to.get_or_insert(now);
        }
    }

    fn note_stall(&mut self, from: u64) {
        if self.bytes < SIZES.advancing && self.stalls.last().is_none_or(|(_, to)| to.is_some()) {
            self.stalls.push((from, None));
        }
    }

    pub fn stalls_hand_offs(&self) -> bool {
        matches!(self.flow, Flow::Stalled { .. })
    }

    fn is_stopped(&self) -> bool {
        matches!(self.flow, Flow::Stopped { .. })
    }

    /// Whether something may have been left for lack of room.
    pub fn is_short(&self) -> bool {
        self.bytes < AMPLE_BYTES
    }

    /// Whether a base may have no room.
    pub fn bounds_bases(&self) -> bool {
        self.base_bytes_max != u64::MAX
    }

    /// Whether anybody may have waited longer than the jobs would have made it.
    pub fn throttled_once(&self) -> bool {
        self.set_at > 0
    }

    /// Whether nobody need be served.
    pub fn throttles(&self) -> bool {
        self.stalls_hand_offs() || self.is_short()
    }

    /// Whether no lease could end at `end`.
    pub fn stalled(&self, end: u64) -> bool {
        self.stalls.iter().any(|(from, to)| *from <= end && to.is_none_or(|to| end <= to))
    }

    /// Whether a lease that would have ended at `end` may be taken for one that a stall kept.
    /// Beside those of a stall itself, these are the ones between two of them, if the leases of the
    /// first were not all met before the second.
    pub fn may_be_stalled(&self, end: u64) -> bool {
        let first = self.stalls.first().is_some_and(|(from, _)| *from <= end);
        first && self.stalls.last().is_some_and(|(_, to)| to.is_none_or(|to| end <= to))
    }

    /// Whether a lease that would have ended at `end` and was met at `ceil` may end at `new` instead.
    fn extends(&self, end: u64, ceil: u64, new: u64) -> bool {
        let fits = |(from, _): &(u64, _)| *from <= end && new == ceil + (end - from).max(1);
        self.may_be_stalled(end) && self.stalls.iter().any(fits)
    }
}

/// The bytes of one fact.
fn bytes_of(fact: &Fact<'_>) -> u64 {
    let mut one = Facts::default();
    one.push(fact);
    one.bytes.len() as u64
}

/// Whether the request makes facts of this kind itself.
fn is_own(request: &Request<'static>, fact: &Fact<'_>) -> bool {
    match request {
        Request::Add(_) => matches!(
            fact,
            Fact::Added { .. }
                | Fact::QueueBound { .. }
                | Fact::PolicyBound { .. }
                | Fact::PolicyForgotten { .. }
                | Fact::Deleted { .. }
                | Fact::SuccessorSet { .. }
        ),
        Request::Ack { .. } => {
            matches!(fact, Fact::Acked { .. } | Fact::Succeeded { acked: true, .. })
        }
        Request::Nack(_) => matches!(fact, Fact::Nacked { .. } | Fact::Succeeded { .. }),
        Request::Delete { .. } | Request::Cancel { .. } | Request::DeleteEqual { .. } => {
            matches!(fact, Fact::Deleted { .. } | Fact::SuccessorRemoved { .. })
        }
        Request::Push(_) => matches!(
            fact,
            Fact::Added { .. }
                | Fact::QueueBound { .. }
                | Fact::PolicyBound { .. }
                | Fact::PolicyForgotten { .. }
        ),
        Request::Reschedule { .. } => matches!(fact, Fact::Rescheduled { .. }),
        Request::Redrive(_) => matches!(fact, Fact::Redriven { .. }),
        Request::Purge { .. } => matches!(fact, Fact::Purged { .. }),
        Request::Rename { .. } => matches!(fact, Fact::Renamed { .. }),
        Request::Configure { .. } | Request::Unconfigure { .. } => {
            matches!(fact, Fact::QueueBound { .. } | Fact::Configured { .. })
        }
        Request::Groups(of) if of.only_reads() => false,
        Request::Groups(Grouping::Purge { .. }) => matches!(fact, Fact::Deleted { .. }),
        Request::Groups(_) => matches!(fact, Fact::QueueBound { .. } | Fact::GroupSet { .. }),
        Request::Remove { .. } => matches!(fact, Fact::QueueRemoved { .. }),
        Request::Flush { .. } => matches!(fact, Fact::Flushed { .. }),
        Request::Schedule(of) => match of {
            Scheduling::Set(_) => {
                matches!(fact, Fact::QueueBound { .. } | Fact::Scheduled { .. })
            }
            Scheduling::Delete { .. } => matches!(fact, Fact::Unscheduled { .. }),
            Scheduling::Run { .. } => matches!(fact, Fact::Ran { .. }),
            // What passing time does beside looks alike.
            _ => false,
        },
        // What it takes itself and what waiters were handed look alike.
        _ => false,
    }
}

fn ends_jobs(request: &Request<'static>) -> bool {
    matches!(
        request,
        Request::Ack { .. }
            | Request::Delete { .. }
            | Request::Cancel { .. }
            | Request::Purge { .. }
            | Request::Groups(Grouping::Purge { .. })
            | Request::DeleteEqual { .. }
            | Request::Remove { .. }
            | Request::Flush { .. }
            | Request::Schedule(Scheduling::Delete { .. })
    )
}

fn takes(request: &Request<'static>) -> bool {
    let which = match request {
        Request::Redrive(redrive) => Some(redrive.which),
        _ => None,
    };
    let redrive = which.is_some_and(|which| !matches!(which, Which::Ids(_)));
    let purge = matches!(request, Request::Groups(Grouping::Purge { .. }));
    redrive || purge || crate::simulation::decide::taking(request).is_some()
}

impl Check<'_> {
    /// Facts fit into what the journal allows, and those of a request into its bound.
    pub fn spend(&mut self, facts: &[Fact<'_>]) {
        let request = match self.step.input {
            Input::Request { request, .. } => Some(request),
            _ => None,
        };
        let journal = &mut self.auditor.journal;
        self.room_before = (journal.bytes, journal.reserve_bytes);
        assert!(facts.is_empty() || !journal.is_stopped(), "facts though stopped: {facts:?}");
        // An occurrence binds policies, too, and falls due before the request is looked at.
        let is_occurrence = |fact: &Fact<'_>| matches!(fact, Fact::Occurred { .. });
        // Before what is set for a group the pause of another one may have ended.
        let is_set = |fact: &Fact<'_>| matches!(fact, Fact::GroupSet { .. });
        let own_from = facts.iter().rposition(is_occurrence).map_or(0, |at| at + 1);
        let own_from = own_from.max(facts.iter().rposition(is_set).unwrap_or(0));
        let mut own_bytes = 0;
        for (at, fact) in facts.iter().enumerate() {
            let handed = matches!(fact, Fact::Leased { .. } | Fact::Popped { .. });
            assert!(!handed || !journal.stalls_hand_offs(), "{fact:?} though held");
            let bytes = bytes_of(fact);
            let own = at >= own_from && request.is_some_and(|request| is_own(request, fact));
            own_bytes += if own { bytes } else { 0 };
            let beyond = bytes.saturating_sub(journal.bytes);
            // Those of a transaction draw on all of it, in any order.
            let whole = matches!(self.step.input, Input::Request { alone: false, .. });
            let reserve = whole || own && request.is_some_and(ends_jobs);
            assert!(beyond == 0 || reserve, "no room for {fact:?}, by {beyond}");
            assert!(beyond <= journal.reserve_bytes, "no reserve for {fact:?}, by {beyond}");
            journal.bytes = journal.bytes.saturating_sub(bytes);
            journal.reserve_bytes -= beyond;
        }
        // What is moved for clients that wait looks like what is added.
        let mut waiting = self.auditor.model.waiting.values();
        let moved = waiting.any(|waiter| matches!(waiter.taking.kind, Kind::Move { .. }));
        if let Some(request) = request.filter(|_| !moved) {
            let max = Bound::of(request).unwrap_or_default().bytes();
            assert!(own_bytes <= max, "{own_bytes} bytes of facts, {max} at most: {request:?}");
        }
    }

    /// Whether the request was refused for the journal's sake, rightly.
    pub fn refused_by_journal(&mut self) -> bool {
        let Input::Request { client, request, .. } = self.step.input else { return false };
        let (bytes, reserve) = self.room_before;
        let max = Bound::of(request).unwrap_or_default().bytes();
        let ends = ends_jobs(request) || self.in_transaction();
        let allowed = if ends { bytes.saturating_add(reserve) } else { bytes };
        let said = self.step.replies.iter().find(|(to, _)| *to == client).map(|(_, said)| said);
        let refused = matches!(said, Some(Said::Error(text)) if text.starts_with("MISCONF "));
        let growth =
            Bound::of(request).unwrap_or_default().growth_bytes() + self.run_bytes(request);
        let crowded = self.would_crowd(growth, refused);
        let journal = &self.auditor.journal;
        let (short, fits) = (journal.is_short(), allowed >= max);
        // Whoever was held back is served before the request is looked at.
        let mut facts = self.step.facts.iter().map(|fact| fact.expect("readable"));
        let served = |fact: Fact<'_>| matches!(fact, Fact::Leased { .. } | Fact::Popped { .. });
        let served = facts.any(served);
        // All facts of a step whose request is refused come before it: somebody's expiry, a move.
        let spent = self.step.facts.bytes.len() as u64;
        let less = short && served || refused && spent > 0 && allowed.saturating_sub(spent) < max;
        if matches!(request, Request::DeleteEqual { .. }) {
            // What it found can be told if nothing came between.
            let needed = if served { max } else { self.removal_bytes(request) };
            let left = journal.bytes.saturating_add(journal.reserve_bytes);
            assert!(!refused || left < needed, "{left} bytes left for {needed} of {request:?}");
        } else if takes(request) {
            assert!(!refused || short || crowded, "{request:?} is refused though there is room");
        } else if self.step.outcome != Some(Outcome::Again) {
            let right = refused != fits || refused && (less || crowded);
            assert!(right, "{allowed} bytes allowed for {max} of {request:?}");
        }
        if !refused {
            return false;
        }
        let stopped = journal.is_stopped();
        // Where nothing but the request can have changed it.
        let before = self.step.digest_before.filter(|_| self.step.facts.bytes.is_empty());
        if let Some(before) = before {
            assert_eq!(before, self.engine.digest(), "a refused request has changed something");
        }
        self.refused(if stopped { "MISCONF the journal failed: a test" } else { "MISCONF the" });
        let why = if crowded { "no room for a base" } else { "no room" };
        self.auditor.note(if stopped { "stopped" } else { why });
        true
    }

    /// The body of a schedule that is run.
    fn run_bytes(&self, request: &Request<'static>) -> u64 {
        let Request::Schedule(Scheduling::Run { queue, name, .. }) = request else { return 0 };
        let queue = self.auditor.model.queues.get(&(queue.db.0, queue.name));
        let schedule = queue.and_then(|queue| queue.schedules.get(name));
        schedule.map_or(0, |schedule| schedule.data_bytes() as u64)
    }

    /// Whether something that makes the next base larger by so many bytes may be refused. If it was
    /// not, the base did not become too large by it.
    fn would_crowd(&self, bytes: u64, refused: bool) -> bool {
        let most = self.auditor.journal.base_bytes_max;
        if bytes == 0 || most == u64::MAX {
            return false;
        }
        // A delivery in the same step was counted before, and is counted again as what it is; a job
        // that was there and is gone made it smaller.
        let facts = self.step.facts.iter().map(|fact| fact.expect("readable"));
        let delivered = facts.filter(|fact| matches!(fact, Fact::Leased { .. })).count() as u64;
        let (before, after) = (self.step.base_before, self.engine.base_bytes_later());
        let slack = 100 * delivered;
        assert!(
            refused || after <= most + slack || after <= before + slack,
            "{before} bytes of a base became {after}, of {most} at most"
        );
        before.max(after) + bytes + slack > most
    }

    /// The text that is kept of a consumer's, if the job is given back in this step.
    pub fn kept_error(&self, text: Option<Kept>) -> Option<Kept> {
        let mut facts = self.step.facts.iter().map(|fact| fact.expect("readable"));
        let kept = facts.any(|fact| matches!(fact, Fact::Nacked { error: Some(_), .. }));
        let bytes = text?.len() as u64;
        let (max, used) = (self.step.settings.memory_bytes_max, self.memory_wanted());
        let near = max > 0 && used + bytes + 4_096 > max;
        // A text takes more than itself: its place, its time, and its kind in the counts of kinds.
        let crowded = near || self.would_crowd(bytes + BESIDE_A_TEXT_BYTES, true);
        assert!(kept || crowded, "a text was left out though there is room");
        text.filter(|_| kept)
    }

    /// A lease whose end had come is extended, since nobody could answer. False if this is what an
    /// EXTEND asked for: the last of its kind in the step.
    pub fn extended_by_stall(&mut self, fact: &Fact<'_>) -> bool {
        let Fact::Extended { queue, id, lease_end } = *fact else { return false };
        let key = self.model().numbers[&queue.0];
        let id: Kept = crate::simulation::trace::keep(id);
        let job = self.model().job(key, id).expect("a lease that is extended is there").clone();
        if let Input::Request { request: Request::Extend { queue, id: asked, token, .. }, .. } =
            self.step.input
        {
            let all = self.step.facts.iter().map(|fact| fact.expect("readable"));
            let about = |fact: &Fact<'_>| matches!(fact, Fact::Extended { id, .. } if id == asked);
            // By their number: a stall may extend it to the same end.
            self.extensions += usize::from(about(fact));
            let is_last = self.extensions == all.filter(about).count();
            let own = *asked == id && (queue.db.0, queue.name) == key && job.token == Some(*token);
            if own && is_last {
                return false;
            }
        }
        let (now, ceil) = (self.now().0, self.ceil());
        assert!(job.lease_end <= now, "{job:?} is extended before its end");
        let (journal, led) = (&self.auditor.journal, &self.auditor.led);
        let right = match led.covers(job.lease_end) {
            true => lease_end.0 == led.extended(job.lease_end, ceil),
            false => journal.extends(job.lease_end, ceil, lease_end.0),
        };
        assert!(right, "{job:?} until {lease_end:?}");
        self.work += 1;
        let serial = self.model().serial();
        let queue = self.model().queue(key);
        let Millis(end) = lease_end;
        queue.change(id, |job| (job.lease_end, job.lease_sequence) = (end, serial));
        queue.used = now;
        self.auditor.note("extended after a stall");
        true
    }
}

/// A flow of any kind.
pub fn draw(rng: &mut impl rand::Rng) -> Flow {
    let mut room = || {
        let bits = rng.random_range(8..18);
        let any = rng.random_ratio(1, 2);
        let base_bytes_max = if any { u64::MAX } else { rng.random_range(0..1 << bits) };
        let reserve_bytes = rng.random_range(0..2) * rng.random_range(0..5_000);
        Room { base_bytes_max, ..Room::of(rng.random_range(0..1 << bits), reserve_bytes) }
    };
    let room = room();
    match rng.random_range(0..8) {
        0..3 => Flow::default(),
        3 => Flow::Stalled { room: Room::UNLIMITED },
        4 => Flow::Stalled { room },
        6 => Flow::Running { room: Room { bytes: u64::MAX, ..room } },
        5 => Flow::Stopped { cause: Misconf::Failed { cause: "a test".into() } },
        _ => Flow::Running { room },
    }
}
