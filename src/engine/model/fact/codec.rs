//! The bytes of facts: little-endian, one fact after the other, each a tag byte and then its fields in
//! the order of their declaration.
//!
//! A tag is never given another layout: a changed fact gets a new tag beside the old one, which stays
//! readable for ever.

use crate::engine::model::fact::{Counted, Fact, FactId, Malformed, Reader, Sink, Writer};
use crate::engine::model::queue_settings::Pause;
use crate::engine::model::request::Purge;
use crate::ids::{Db, PolicyNo, QueueNo, ScheduleNo, Token};
use crate::time::Micros;

macro_rules! tags {
    ($($name:ident = $value:literal),* $(,)?) => { $(const $name: u8 = $value;)* };
}
tags! {
    QUEUE_BOUND = 1, QUEUE_REMOVED = 2, QUEUE_FORGOTTEN = 3, POLICY_BOUND = 4, ADDED = 5, ADDED_MADE = 6,
    DUE = 7, LEASED = 8, POPPED = 9, UNLEASED = 10, UNPOPPED = 11, ACKED = 12, NACKED = 13, EXTENDED = 14,
    LEASE_OVER = 15, DELETED = 16, EXPIRED = 17, DROPPED = 18, RESCHEDULED = 19, WINDOW_OVER = 20, POLICY_FORGOTTEN = 21, FLUSHED = 22,
    CONFIGURED = 23, PAUSED = 24, DUE_LEFT = 25, PURGED = 26, RENAMED = 27, REDRIVEN = 28,
    AT = 29, LED = 30, STALL_OVER = 31,
    SCHEDULED = 32, UNSCHEDULED = 33, OCCURRED = 34, PASSED = 35, GAVE_WAY = 36, SCHEDULE_PAUSED = 37,
    SCHEDULE_MOVED = 38, RAN = 39,
}

// The database of a FLUSHED that names none.
const ALL_DATABASES: u8 = u8::MAX;

// The flag of PURGED behind those of the states, a bit each in their order.
const WINDOWS: u8 = 16;

// The queue that a RENAMED removes, if there is none.
const NO_QUEUE: u32 = u32::MAX;

// Flags of ADDED and RESCHEDULED.
const ABSOLUTE: u8 = 1;
const READY: u8 = 2;
const LEFT: u8 = 4;
// Flag of REDRIVEN beside these.
const KEEP_ATTEMPTS: u8 = 8;

fn flags(absolute: bool, ready: bool, left: bool) -> u8 {
    (u8::from(absolute) * ABSOLUTE) | (u8::from(ready) * READY) | (u8::from(left) * LEFT)
}

impl<'a> Fact<'a> {
    /// Bytes of the encoded fact.
    pub fn encoded_bytes(&self) -> u64 {
        Counted::of(|out| self.encode(out))
    }

    /// Appends the encoded fact. Cost: one copy of id and body.
    pub fn encode(&self, out: &mut impl Sink) {
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
            Fact::Added { queue, id, policy, priority, absolute, ready, left, due, body } => {
                let tag = if matches!(id, FactId::Made(_)) { ADDED_MADE } else { ADDED };
                let flags = flags(absolute, ready, left);
                w.head(tag, queue);
                match id {
                    FactId::Given(id) => w.bytes(id),
                    FactId::Made(number) => w.u64(number),
                };
                w.u32(policy.0).u8(priority).u8(flags).u64(due.0).bytes(body)
            }
            Fact::Due { queue, place, count, left } => {
                let tag = if left { DUE_LEFT } else { DUE };
                w.head(tag, queue).u64(place as u64).u32(count)
            }
            Fact::Leased { queue, id, token, lease_end, bound, on_time } => {
                let flags = u8::from(bound) | (u8::from(on_time) << 1);
                w.head(LEASED, queue).bytes(id).u64(token.0).u64(lease_end.0).u8(flags)
            }
            Fact::Popped { queue, id, window_end, on_time } => {
                w.head(POPPED, queue).bytes(id).u64(window_end.0).u8(on_time.into())
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
            Fact::LeaseOver { queue, id, lost, counted, to } => {
                let flags = u8::from(lost) | (u8::from(counted) << 1);
                w.head(LEASE_OVER, queue).bytes(id).u8(flags).destination(to)
            }
            Fact::Deleted { queue, id } => w.head(DELETED, queue).bytes(id),
            Fact::Expired { queue, id, window_end } => {
                w.head(EXPIRED, queue).bytes(id).u64(window_end.0)
            }
            Fact::Dropped { queue, id } => w.head(DROPPED, queue).bytes(id),
            Fact::Rescheduled { queue, id, absolute, ready, left, due } => {
                let flags = flags(absolute, ready, left);
                w.head(RESCHEDULED, queue).bytes(id).u8(flags).u64(due.0)
            }
            Fact::Redriven { queue, id, absolute, ready, left, keep_attempts, due } => {
                let kept = u8::from(keep_attempts) * KEEP_ATTEMPTS;
                let flags = flags(absolute, ready, left) | kept;
                w.head(REDRIVEN, queue).bytes(id).u8(flags).u64(due.0)
            }
            Fact::Purged { queue, purge: Purge { states, windows }, count } => {
                let states = (0..4).map(|at| u8::from(states[at]) << at).sum::<u8>();
                w.head(PURGED, queue).u8(states | (u8::from(windows) * WINDOWS)).u64(count)
            }
            Fact::Renamed { queue, name, over } => {
                w.head(RENAMED, queue).bytes(name).u32(over.map_or(NO_QUEUE, |over| over.0))
            }
            Fact::WindowOver { queue, id } => w.head(WINDOW_OVER, queue).bytes(id),
            Fact::Configured { queue, ref settings } => {
                w.head(CONFIGURED, queue).settings(settings)
            }
            Fact::Paused { queue, pauses } => w.head(PAUSED, queue).pauses(pauses),
            Fact::At { now } => w.u8(AT).u64(now.0),
            Fact::Led { term, node, stall_from, stall_to, level } => {
                w.u8(LED).u64(term).u64(node).u64(stall_from.0).u64(stall_to.0).u32(level)
            }
            Fact::StallOver => w.u8(STALL_OVER),
            Fact::Scheduled {
                queue,
                schedule,
                name,
                body,
                ref definition,
                anchor,
                after,
                next,
            } => {
                w.head(SCHEDULED, queue).u64(schedule.0).bytes(name).bytes(body);
                w.definition(definition).u64(anchor.0).u64(after.0).coming(next)
            }
            Fact::Unscheduled { queue, schedule } => w.head(UNSCHEDULED, queue).u64(schedule.0),
            Fact::Occurred {
                queue,
                schedule,
                nominal,
                due,
                offset_s,
                policy,
                priority,
                left,
                next,
            } => {
                w.head(OCCURRED, queue).u64(schedule.0).u64(nominal.0).u64(due.0);
                w.u32(offset_s as u32).u32(policy.0).u8(priority).u8(left.into()).coming(next)
            }
            Fact::Passed { queue, schedule, nominal, offset_s, missed, skipped, next } => {
                w.head(PASSED, queue).u64(schedule.0).u64(nominal.0).u32(offset_s as u32);
                w.u64(missed).u64(skipped).coming(next)
            }
            Fact::GaveWay { queue, schedule, at } => {
                w.head(GAVE_WAY, queue).u64(schedule.0).u64(at.0)
            }
            Fact::SchedulePaused { queue, schedule, pause, after, next } => {
                w.head(SCHEDULE_PAUSED, queue).u64(schedule.0).u64(pause.number());
                w.u64(after.0).coming(next)
            }
            Fact::ScheduleMoved { queue, schedule, after, next } => {
                w.head(SCHEDULE_MOVED, queue).u64(schedule.0).u64(after.0).coming(next)
            }
            Fact::Ran { queue, schedule, at, due, policy, priority, left } => {
                w.head(RAN, queue).u64(schedule.0).u64(at.0).u64(due.0);
                w.u32(policy.0).u8(priority).u8(left.into())
            }
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
            AT => return Ok(Fact::At { now: Micros(r.u64()?) }),
            LED => {
                let (term, node) = (r.u64()?, r.u64()?);
                let (stall_from, stall_to, level) = (r.millis()?, r.millis()?, r.u32()?);
                if term == 0 || stall_to < stall_from {
                    return Err(r.malformed());
                }
                return Ok(Fact::Led { term, node, stall_from, stall_to, level });
            }
            STALL_OVER => return Ok(Fact::StallOver),
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
                let left = flags & LEFT != 0;
                let (due, body) = (r.millis()?, r.bytes()?);
                Fact::Added { queue, id, policy, priority, absolute, ready, left, due, body }
            }
            DUE | DUE_LEFT => {
                let (place, count) = (r.u64()? as i64, r.u32()?);
                Fact::Due { queue, place, count, left: tag == DUE_LEFT }
            }
            LEASED => {
                let (id, token, lease_end) = (r.bytes()?, Token(r.u64()?), r.millis()?);
                let flags = r.u8()?;
                let (bound, on_time) = (flags & 1 != 0, flags & 2 != 0);
                Fact::Leased { queue, id, token, lease_end, bound, on_time }
            }
            POPPED => {
                let (id, window_end, on_time) = (r.bytes()?, r.millis()?, r.flag()?);
                Fact::Popped { queue, id, window_end, on_time }
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
                let (id, flags, to) = (r.bytes()?, r.u8()?, r.destination()?);
                let (lost, counted) = (flags & 1 != 0, flags & 2 != 0);
                Fact::LeaseOver { queue, id, lost, counted, to }
            }
            DELETED => Fact::Deleted { queue, id: r.bytes()? },
            EXPIRED => Fact::Expired { queue, id: r.bytes()?, window_end: r.millis()? },
            DROPPED => Fact::Dropped { queue, id: r.bytes()? },
            RESCHEDULED => {
                let (id, flags, due) = (r.bytes()?, r.u8()?, r.millis()?);
                let (absolute, ready) = (flags & ABSOLUTE != 0, flags & READY != 0);
                Fact::Rescheduled { queue, id, absolute, ready, left: flags & LEFT != 0, due }
            }
            REDRIVEN => {
                let (id, flags, due) = (r.bytes()?, r.u8()?, r.millis()?);
                let (absolute, ready) = (flags & ABSOLUTE != 0, flags & READY != 0);
                let (left, keep_attempts) = (flags & LEFT != 0, flags & KEEP_ATTEMPTS != 0);
                Fact::Redriven { queue, id, absolute, ready, left, keep_attempts, due }
            }
            PURGED => {
                let flags = r.u8()?;
                if flags >= 2 * WINDOWS {
                    return Err(r.malformed());
                }
                let states = std::array::from_fn(|at| flags & (1 << at) != 0);
                let purge = Purge { states, windows: flags & WINDOWS != 0 };
                Fact::Purged { queue, purge, count: r.u64()? }
            }
            RENAMED => {
                let (name, over) = (r.bytes()?, r.u32()?);
                let over = (over != NO_QUEUE).then_some(QueueNo(over));
                Fact::Renamed { queue, name, over }
            }
            WINDOW_OVER => Fact::WindowOver { queue, id: r.bytes()? },
            CONFIGURED => Fact::Configured { queue, settings: Box::new(r.settings()?) },
            PAUSED => Fact::Paused { queue, pauses: r.pauses()? },
            SCHEDULED..=RAN => return Fact::decode_scheduling(tag, queue, r),
            _ => return Err(r.malformed()),
        })
    }

    /// A fact about a schedule.
    fn decode_scheduling(
        tag: u8,
        queue: QueueNo,
        r: &mut Reader<'a>,
    ) -> Result<Fact<'a>, Malformed> {
        let schedule = ScheduleNo(r.u64()?);
        Ok(match tag {
            SCHEDULED => {
                let (name, body, definition) = (r.bytes()?, r.bytes()?, Box::new(r.definition()?));
                let (anchor, after, next) = (r.millis()?, r.millis()?, r.coming()?);
                Fact::Scheduled { queue, schedule, name, body, definition, anchor, after, next }
            }
            UNSCHEDULED => Fact::Unscheduled { queue, schedule },
            OCCURRED => {
                let (nominal, due, offset_s) = (r.millis()?, r.millis()?, r.u32()? as i32);
                let (policy, priority, left) = (PolicyNo(r.u32()?), r.u8()?, r.flag()?);
                let next = r.coming()?;
                Fact::Occurred {
                    queue,
                    schedule,
                    nominal,
                    due,
                    offset_s,
                    policy,
                    priority,
                    left,
                    next,
                }
            }
            PASSED => {
                let (nominal, offset_s) = (r.millis()?, r.u32()? as i32);
                let (missed, skipped, next) = (r.u64()?, r.u64()?, r.coming()?);
                Fact::Passed { queue, schedule, nominal, offset_s, missed, skipped, next }
            }
            GAVE_WAY => Fact::GaveWay { queue, schedule, at: r.millis()? },
            SCHEDULE_PAUSED => {
                let (pause, after) = (Pause::of_number(r.u64()?), r.millis()?);
                Fact::SchedulePaused { queue, schedule, pause, after, next: r.coming()? }
            }
            SCHEDULE_MOVED => {
                let after = r.millis()?;
                Fact::ScheduleMoved { queue, schedule, after, next: r.coming()? }
            }
            RAN => {
                let (at, due, policy) = (r.millis()?, r.millis()?, PolicyNo(r.u32()?));
                Fact::Ran { queue, schedule, at, due, policy, priority: r.u8()?, left: r.flag()? }
            }
            _ => return Err(r.malformed()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Facts;
    use crate::engine::model::fact::{Destination, Image};
    use crate::engine::model::policy::{Backoff, Policy, Steps};
    use crate::engine::model::queue_settings::{Pause, Pauses, QueueSettings, Side};
    use crate::engine::model::reply::Reason;
    use crate::engine::model::schedule::{Coming, Definition, JobOptions, Overlap, Rule, Terms};
    use crate::time::Millis;
    use rand::{Rng, SeedableRng, rngs::SmallRng};

    /// All that can be set.
    fn settings() -> QueueSettings {
        QueueSettings {
            attempts: Some(2),
            backoff: Some(Backoff { steps: Steps::Ladder([1, 5].into()), jitter: true }),
            lease_ms: Some(3),
            priority: Some(4),
            ttl_ms: Some(5),
            max_jobs: Some(6),
            max_leased: Some(7),
            rate: Some(8),
            dead_retention_ms: Some(9),
            dead_max: Some(10),
            due_enters: Some(Side::Left),
        }
    }

    /// One of each, with fields that differ from each other and from zero.
    fn one_of_each() -> Vec<Fact<'static>> {
        let (queue, id, due) = (QueueNo(7), &b"order:7"[..], Millis(1 << 41));
        let (number, window_end, lease_end) = (PolicyNo(9), Millis(77), Millis(88));
        let ladder = Backoff { steps: Steps::Ladder([1, 5, 10].into()), jitter: true };
        let policy =
            |backoff| Policy { attempts: 3, backoff, lease_ms: 4, ttl_ms: 5, unique_ms: 6 };
        let image = Image {
            id,
            body: b"body",
            policy: number,
            priority: 2,
            added: Millis(3),
            due,
            place: -4,
            history: Some([1, 2, 3, 4, 5, 6]),
            error: Some(b"why"),
        };
        let added = |id, absolute, ready, left| Fact::Added {
            queue,
            id,
            policy: number,
            priority: 9,
            absolute,
            ready,
            left,
            due,
            body: b"\r\n\0",
        };
        let nacked = |error, to| Fact::Nacked { queue, id, counted: true, priority: 1, error, to };
        let dead = |reason| Destination::Dead { reason, kept_until: Millis(5) };
        let redriven = |absolute, ready, left, keep_attempts| Fact::Redriven {
            queue,
            id,
            absolute,
            ready,
            left,
            keep_attempts,
            due,
        };
        vec![
            Fact::QueueBound { queue, db: Db(15), name: b"q" },
            Fact::QueueRemoved { queue },
            Fact::QueueForgotten { queue },
            Fact::PolicyBound { number, policy: policy(ladder) },
            Fact::PolicyBound { number, policy: policy(Backoff::default()) },
            Fact::PolicyForgotten { number },
            Fact::Flushed { db: None },
            Fact::Flushed { db: Some(Db(0)) },
            added(FactId::Given(id), true, false, false),
            added(FactId::Made(u64::MAX), false, true, false),
            added(FactId::Made(7), false, true, true),
            Fact::Due { queue, place: i64::MAX, count: 1_000, left: false },
            Fact::Due { queue, place: i64::MIN, count: 1_000, left: true },
            Fact::Leased { queue, id, token: Token(5), lease_end, bound: true, on_time: false },
            Fact::Leased { queue, id, token: Token(5), lease_end, bound: false, on_time: true },
            Fact::Popped { queue, id, window_end, on_time: true },
            Fact::Unleased { queue, id },
            Fact::Unpopped { queue, image },
            Fact::Unpopped { queue, image: Image { history: None, error: None, ..image } },
            Fact::Acked { queue, id, window_end },
            nacked(Some(b""), Destination::Ready),
            nacked(None, Destination::Delayed { due }),
            nacked(None, dead(Reason::Attempts)),
            nacked(None, dead(Reason::Buried)),
            Fact::Extended { queue, id, lease_end },
            Fact::LeaseOver { queue, id, lost: true, counted: true, to: dead(Reason::Lost) },
            Fact::LeaseOver { queue, id, lost: false, counted: true, to: dead(Reason::Timeout) },
            Fact::LeaseOver { queue, id, lost: true, counted: false, to: Destination::Ready },
            Fact::Deleted { queue, id },
            Fact::Expired { queue, id, window_end },
            Fact::Dropped { queue, id },
            Fact::Rescheduled { queue, id, absolute: true, ready: false, left: false, due },
            Fact::Rescheduled { queue, id, absolute: false, ready: true, left: false, due },
            Fact::Rescheduled { queue, id, absolute: false, ready: true, left: true, due },
            redriven(true, false, false, true),
            redriven(false, true, false, false),
            redriven(false, true, true, false),
            Fact::Purged { queue, purge: Purge::DEFAULT, count: 3 },
            Fact::Purged {
                queue,
                purge: Purge { states: [false, false, true, false], windows: false },
                count: 1 << 40,
            },
            Fact::Renamed { queue, name: b"new", over: None },
            Fact::Renamed { queue, name: b"new", over: Some(QueueNo(9)) },
            Fact::WindowOver { queue, id },
            Fact::Configured { queue, settings: Box::default() },
            Fact::Configured { queue, settings: Box::new(settings()) },
            Fact::Paused { queue, pauses: Pauses::default() },
            Fact::Paused { queue, pauses: Pauses { into: Pause::Until(due), out: Pause::Endless } },
            Fact::At { now: Micros(1 << 50) },
            Fact::Led { term: 7, node: 1 << 63, stall_from: due, stall_to: due.plus(9), level: 2 },
            Fact::StallOver,
            Fact::Scheduled {
                queue,
                schedule: ScheduleNo(3),
                name: b"daily",
                body: b"\0body",
                definition: Box::new(definition()),
                anchor: Millis(5),
                after: Millis(6),
                next: Some(Coming { nominal: due, due: due.plus(7) }),
            },
            Fact::Scheduled {
                queue,
                schedule: ScheduleNo(3),
                name: b"poll",
                body: b"",
                definition: Box::new(Definition::of(Rule::Every { ms: 100 })),
                anchor: Millis(5),
                after: Millis(6),
                next: None,
            },
            Fact::Unscheduled { queue, schedule: ScheduleNo(u64::MAX) },
            Fact::Occurred {
                queue,
                schedule: ScheduleNo(3),
                nominal: due,
                due: due.plus(7),
                offset_s: -7_200,
                policy: number,
                priority: 4,
                left: true,
                next: Some(Coming { nominal: due.plus(8), due: due.plus(9) }),
            },
            Fact::Passed {
                queue,
                schedule: ScheduleNo(3),
                nominal: due,
                offset_s: 3_600,
                missed: 1 << 40,
                skipped: 2,
                next: None,
            },
            Fact::GaveWay { queue, schedule: ScheduleNo(3), at: due },
            Fact::SchedulePaused {
                queue,
                schedule: ScheduleNo(3),
                pause: Pause::Endless,
                after: due,
                next: None,
            },
            Fact::ScheduleMoved {
                queue,
                schedule: ScheduleNo(3),
                after: due,
                next: Some(Coming { nominal: due.plus(1), due: due.plus(1) }),
            },
            Fact::Ran {
                queue,
                schedule: ScheduleNo(3),
                at: due,
                due: due.plus(1),
                policy: number,
                priority: 9,
                left: false,
            },
        ]
    }

    /// With all that can be said.
    fn definition() -> Definition {
        let options = JobOptions {
            priority: Some(1),
            attempts: Some(2),
            backoff: settings().backoff,
            lease_ms: Some(3),
            ttl_ms: Some(4),
        };
        let rule = Rule::Cron { pattern: "0 8 * * 1-5".into(), zone: "Europe/Berlin".into() };
        let terms = Terms {
            from: Millis(1),
            until: Millis(2),
            runs: 3,
            catchup: 4,
            spread_ms: 5,
            grace_ms: 6,
            overlap: Overlap::Replace,
            options,
        };
        terms.with(rule)
    }

    #[test]
    fn every_fact_is_read_back_as_it_was_written() {
        let written = one_of_each();
        let mut facts = Facts::default();
        written.iter().for_each(|fact| facts.push(fact));
        let read: Result<Vec<Fact<'_>>, Malformed> = facts.iter().collect();
        assert_eq!(read.as_ref(), Ok(&written));
        assert_eq!(facts.count, written.len() as u64);
    }

    #[test]
    fn a_cut_fact_is_malformed_and_nothing_follows_it() {
        for fact in one_of_each() {
            let mut bytes = Vec::new();
            fact.encode(&mut bytes);
            for cut in 1..bytes.len() {
                let facts = Facts { bytes: bytes[..cut].to_vec(), count: 1 };
                let mut read = facts.iter();
                assert!(matches!(read.next(), Some(Err(_))), "{fact:?} cut at {cut}");
                assert_eq!(read.next(), None);
            }
        }
    }

    #[test]
    fn tags_that_nobody_wrote_and_a_stall_that_ends_before_it_begins_are_malformed() {
        for tag in (0..=u8::MAX).filter(|tag| !(1..=RAN).contains(tag)) {
            let facts = Facts { bytes: [&[tag][..], &[0; 64]].concat(), count: 1 };
            assert!(matches!(facts.iter().next(), Some(Err(_))), "tag {tag}");
        }
        for (term, from, to) in [(1, 5, 4), (0, 4, 5)] {
            let (stall_from, stall_to) = (Millis(from), Millis(to));
            let mut facts = Facts::default();
            facts.push(&Fact::Led { term, node: 1, stall_from, stall_to, level: 1 });
            assert!(matches!(facts.iter().next(), Some(Err(_))), "{term} {from} {to}");
        }
    }

    #[test]
    fn changed_bytes_are_another_fact_or_malformed_but_no_panic() {
        let mut rng = SmallRng::seed_from_u64(11);
        for fact in one_of_each() {
            let mut bytes = Vec::new();
            fact.encode(&mut bytes);
            for _ in 0..2_000 {
                let mut changed = Facts { bytes: bytes.clone(), count: 1 };
                let at = rng.random_range(0..bytes.len());
                changed.bytes[at] = rng.random();
                assert!(changed.iter().count() <= bytes.len());
            }
        }
    }
}
