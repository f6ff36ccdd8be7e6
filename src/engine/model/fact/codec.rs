//! The bytes of facts: little-endian, one fact after the other, each a tag byte and then its fields in
//! the order of their declaration.
//!
//! The layout of a tag never changes: a changed fact gets a new tag, and the old one stays readable forever. Group and
//! META of a job or a schedule come before the fact, in this order, each after a tag of its own, and so does what else is
//! added to facts later.

use crate::engine::model::fact::{
    ByteCount, Destination, Fact, FactId, FactReader, Image, Inherited, Malformed, Sink, Writer,
};
use crate::engine::model::group::GroupSettings;
use crate::engine::model::meta::Meta;
use crate::engine::model::policy::Policy;
use crate::engine::model::queue_settings::{Pause, Pauses, QueueSettings};
use crate::engine::model::request::Purge;
use crate::engine::model::schedule::{Coming, Definition};
use crate::ids::{Db, PolicyNo, QueueNo, ScheduleNo, Token};
use crate::limits::NAME_BYTES_MAX;
use crate::time::{Micros, Millis};

// The tags of facts whose tag says more than which fact it is.
const ADDED: u8 = 5;
const ADDED_MADE: u8 = 6;
const DUE: u8 = 7;
const DUE_LEFT: u8 = 25;
const SUCCESSOR_SET: u8 = 45;

// The place of a job that has none yet.
const NO_PLACE: i64 = i64::MIN;

// Before a group, META or what a job inherits, and the fact that it belongs to.
const WITH_META: u8 = 40;
const WITH_GROUP: u8 = 41;
const INHERITED: u8 = 44;

// The database of a Flushed that names none.
const ALL_DATABASES: u8 = u8::MAX;

// The flag of Purged after those of the states, a bit each in their order.
const WINDOWS: u8 = 16;

// The queue that a Renamed removes, if there is none.
const NO_QUEUE: u32 = u32::MAX;

/// A field of a fact.
trait Field<'a>: Sized {
    fn put<S: Sink>(&self, w: &mut Writer<'_, S>);

    fn get(r: &mut FactReader<'a>) -> Result<Self, Malformed>;
}

macro_rules! fields {
    ($($type:ty: |$w:ident, $value:ident| $put:expr, |$r:ident| $get:expr;)+) => {$(
        impl<'a> Field<'a> for $type {
            fn put<S: Sink>(&self, $w: &mut Writer<'_, S>) {
                let $value = self;
                $put;
            }

            fn get($r: &mut FactReader<'a>) -> Result<$type, Malformed> {
                Ok($get)
            }
        }
    )+};
}

fields! {
    bool: |w, flag| w.u8((*flag).into()), |r| r.flag()?;
    u8: |w, number| w.u8(*number), |r| r.u8()?;
    u32: |w, number| w.u32(*number), |r| r.u32()?;
    u64: |w, number| w.u64(*number), |r| r.u64()?;
    i32: |w, number| w.u32(*number as u32), |r| r.u32()? as i32;
    i64: |w, number| w.u64(*number as u64), |r| r.u64()? as i64;
    &'a [u8]: |w, bytes| w.bytes(bytes), |r| r.bytes()?;
    Option<&'a [u8]>: |w, text| w.u8(text.is_some().into()).bytes(text.unwrap_or_default()), |r| {
        let (said, text) = (r.flag()?, r.bytes()?);
        said.then_some(text)
    };
    Millis: |w, at| w.u64(at.0), |r| r.millis()?;
    Micros: |w, at| w.u64(at.0), |r| Micros(r.u64()?);
    Db: |w, db| w.u8(db.0), |r| Db(r.u8()?);
    Option<Db>: |w, db| w.u8(db.map_or(ALL_DATABASES, |db| db.0)), |r| {
        Some(r.u8()?).filter(|db| *db != ALL_DATABASES).map(Db)
    };
    QueueNo: |w, queue| w.u32(queue.0), |r| QueueNo(r.u32()?);
    Option<QueueNo>: |w, queue| w.u32(queue.map_or(NO_QUEUE, |queue| queue.0)), |r| {
        Some(r.u32()?).filter(|queue| *queue != NO_QUEUE).map(QueueNo)
    };
    PolicyNo: |w, policy| w.u32(policy.0), |r| PolicyNo(r.u32()?);
    ScheduleNo: |w, schedule| w.u64(schedule.0), |r| ScheduleNo(r.u64()?);
    Token: |w, token| w.u64(token.0), |r| Token(r.u64()?);
    Policy: |w, policy| w.policy(policy), |r| r.policy()?;
    Destination: |w, to| w.destination(*to), |r| r.destination()?;
    Image<'a>: |w, image| w.image(image), |r| r.image()?;
    Pause: |w, pause| w.u64(pause.number()), |r| Pause::of_number(r.u64()?);
    Pauses: |w, pauses| w.pauses(*pauses), |r| r.pauses()?;
    Box<QueueSettings>: |w, settings| w.settings(settings), |r| Box::new(r.settings()?);
    GroupSettings: |w, settings| w.group_settings(*settings), |r| r.group_settings()?;
    Box<Definition>: |w, definition| w.definition(definition), |r| Box::new(r.definition()?);
    Option<Coming>: |w, next| w.coming(*next), |r| r.coming()?;
    Purge: |w, purge| w.u8(bits(purge.states) | (u8::from(purge.windows) * WINDOWS)), |r| {
        let flags = r.u8()?;
        if flags >= 2 * WINDOWS {
            return Err(r.malformed());
        }
        Purge { states: flags_of(flags), windows: flags & WINDOWS != 0 }
    };
}

/// Flags as one byte, the first in its lowest bit.
fn bits<const N: usize>(flags: [bool; N]) -> u8 {
    flags.into_iter().enumerate().map(|(bit, flag)| u8::from(flag) << bit).sum()
}

fn flags_of<const N: usize>(bits: u8) -> [bool; N] {
    std::array::from_fn(|bit| bits & (1 << bit) != 0)
}

/// For each fact its tag, its word and its fields in order; those between semicolons are one byte of flags.
macro_rules! facts {
    ($($tag:literal $word:literal $fact:ident {
        $($field:ident),* $(; $($flag:ident),+ ; $($behind:ident),*)?
    })+) => {
        impl<'a> Fact<'a> {
            /// The word for it, lower case.
            pub fn word(&self) -> &'static str {
                match self {
                    Fact::Added { .. } => "added",
                    Fact::Due { .. } => "due",
                    Fact::SuccessorSet { .. } => "successor_set",
                    $(Fact::$fact { .. } => $word,)+
                }
            }

            /// Appends the encoded fact. Cost: one copy of id and body.
            pub fn encode(&self, out: &mut impl Sink) {
                let w = &mut Writer(out);
                let (group, meta) = self.beside();
                if let Some(name) = group {
                    w.u8(WITH_GROUP).bytes(name);
                }
                if !meta.is_none() {
                    w.u8(WITH_META).bytes(meta.block());
                }
                if let Fact::Added { inherited: Some(Inherited { added, place }), .. } = self {
                    w.u8(INHERITED).u64(added.0).u64(place.unwrap_or(NO_PLACE) as u64);
                }
                match self {
                    Fact::Added { queue, id, policy, priority, absolute, ready, left, due, body, .. } => {
                        match id {
                            FactId::Given(id) => w.head(ADDED, *queue).bytes(id),
                            FactId::Made(number) => w.head(ADDED_MADE, *queue).u64(*number),
                        };
                        w.u32(policy.0).u8(*priority).u8(bits([*absolute, *ready, *left]));
                        w.u64(due.0).bytes(body);
                    }
                    Fact::Due { queue, place, count, left } => {
                        let tag = if *left { DUE_LEFT } else { DUE };
                        w.head(tag, *queue).u64(*place as u64).u32(*count);
                    }
                    Fact::SuccessorSet { queue, id, policy, priority, absolute, added, due, body, .. } => {
                        w.head(SUCCESSOR_SET, *queue).bytes(id).u32(policy.0).u8(*priority);
                        w.u8((*absolute).into()).u64(added.0).u64(due.0).bytes(body);
                    }
                    $(Fact::$fact { $($field,)* $($($flag,)+ $($behind,)*)? } => {
                        w.u8($tag);
                        $($field.put(w);)*
                        $(w.u8(bits([$(*$flag),+])); $($behind.put(w);)*)?
                    })+
                }
            }

            fn decode_tagged(tag: u8, r: &mut FactReader<'a>) -> Result<Fact<'a>, Malformed> {
                let fact = match tag {
                    tag @ (ADDED | ADDED_MADE) => {
                        let queue = QueueNo(r.u32()?);
                        let id = match tag {
                            ADDED => FactId::Given(r.bytes()?),
                            _ => FactId::Made(r.u64()?),
                        };
                        let (policy, priority) = (PolicyNo(r.u32()?), r.u8()?);
                        let [absolute, ready, left] = flags_of(r.u8()?);
                        let (due, body) = (r.millis()?, r.bytes()?);
                        let (inherited, group, meta) = (None, None, Meta::NONE);
                        Fact::Added { queue, id, policy, priority, absolute, ready, left, due, body, inherited, group, meta }
                    }
                    tag @ (DUE | DUE_LEFT) => {
                        let (queue, place, count) = (Field::get(r)?, Field::get(r)?, r.u32()?);
                        Fact::Due { queue, place, count, left: tag == DUE_LEFT }
                    }
                    SUCCESSOR_SET => {
                        let (queue, id, policy) = (Field::get(r)?, Field::get(r)?, Field::get(r)?);
                        let (priority, absolute, added) = (r.u8()?, r.flag()?, r.millis()?);
                        let (due, body, group, meta) = (r.millis()?, r.bytes()?, None, Meta::NONE);
                        Fact::SuccessorSet { queue, id, policy, priority, absolute, added, due, body, group, meta }
                    }
                    $($tag => {
                        $(let $field = Field::get(r)?;)*
                        $(let [$($flag),+] = flags_of(r.u8()?); $(let $behind = Field::get(r)?;)*)?
                        Fact::$fact { $($field,)* $($($flag,)+ $($behind,)*)? }
                    })+
                    _ => return Err(r.malformed()),
                };
                if fact.holds() { Ok(fact) } else { Err(r.malformed()) }
            }
        }
    };
}

facts! {
    1 "queue_bound" QueueBound { queue, db, name }
    2 "queue_removed" QueueRemoved { queue }
    3 "queue_forgotten" QueueForgotten { queue }
    4 "policy_bound" PolicyBound { number, policy }
    8 "leased" Leased { queue, id, token, lease_end; bound, on_time; }
    9 "popped" Popped { queue, id, window_end, on_time }
    10 "unleased" Unleased { queue, id }
    11 "unpopped" Unpopped { queue, image }
    12 "acked" Acked { queue, id, window_end }
    13 "nacked" Nacked { queue, id, counted, priority, error, to }
    14 "extended" Extended { queue, id, lease_end }
    15 "lease_over" LeaseOver { queue, id; lost, counted; to }
    16 "deleted" Deleted { queue, id }
    17 "expired" Expired { queue, id, window_end }
    18 "dropped" Dropped { queue, id }
    19 "rescheduled" Rescheduled { queue, id; absolute, ready, left; due }
    20 "window_over" WindowOver { queue, id }
    21 "policy_forgotten" PolicyForgotten { number }
    22 "flushed" Flushed { db }
    23 "configured" Configured { queue, settings }
    24 "paused" Paused { queue, pauses }
    26 "purged" Purged { queue, purge, count }
    27 "renamed" Renamed { queue, name, over }
    28 "redriven" Redriven { queue, id; absolute, ready, left, keep_attempts; due }
    29 "at" At { now }
    30 "led" Led { term, node, stall_from, stall_to, level }
    31 "stall_over" StallOver {}
    32 "scheduled" Scheduled { queue, schedule, name, body, definition, anchor, after, next }
    33 "unscheduled" Unscheduled { queue, schedule }
    34 "occurred" Occurred { queue, schedule, nominal, due, offset_s, policy, priority, left, next }
    35 "passed" Passed { queue, schedule, nominal, offset_s, missed, skipped, next }
    36 "gave_way" GaveWay { queue, schedule, at }
    37 "schedule_paused" SchedulePaused { queue, schedule, pause, after, next }
    38 "schedule_moved" ScheduleMoved { queue, schedule, after, next }
    39 "ran" Ran { queue, schedule, at, due, policy, priority, left }
    42 "group_set" GroupSet { queue, group, settings }
    43 "group_paced" GroupPaced { queue, group, gave }
    46 "succeeded" Succeeded { queue, id; acked, ready, left; }
    47 "successor_removed" SuccessorRemoved { queue, id }
}

impl<'a> Fact<'a> {
    /// Reads the next fact.
    pub fn decode(r: &mut FactReader<'a>) -> Result<Fact<'a>, Malformed> {
        let (mut tag, mut group, mut meta, mut kept) = (r.u8()?, None, None, None);
        if tag == WITH_GROUP {
            (group, tag) = (Some(r.group()?), r.u8()?);
        }
        if tag == WITH_META {
            (meta, tag) = (Some(r.meta()?), r.u8()?);
        }
        if tag == INHERITED {
            let (added, place) = (r.millis()?, r.u64()? as i64);
            let place = Some(place).filter(|place| *place != NO_PLACE);
            (kept, tag) = (Some(Inherited { added, place }), r.u8()?);
        }
        let mut fact = Fact::decode_tagged(tag, r)?;
        match &mut fact {
            _ if kept.is_none() => {}
            Fact::Added { inherited, .. } => *inherited = kept,
            _ => return Err(r.malformed()),
        }
        let is_plain = group.is_none() && meta.is_none();
        if is_plain || fact.set_beside(group, meta) { Ok(fact) } else { Err(r.malformed()) }
    }
}

impl Fact<'_> {
    /// Bytes of the encoded fact.
    pub fn encoded_bytes(&self) -> u64 {
        ByteCount::of(|out| self.encode(out))
    }

    /// Whether its fields can stand together.
    fn holds(&self) -> bool {
        match *self {
            Fact::Led { term, stall_from, stall_to, .. } => term > 0 && stall_from <= stall_to,
            Fact::GroupSet { group, .. } | Fact::GroupPaced { group, .. } => {
                (1..=NAME_BYTES_MAX).contains(&group.len())
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Facts;
    use crate::engine::model::group::{GroupRate, GroupRetry, OwnGroup};
    use crate::engine::model::meta::OwnMeta;
    use crate::engine::model::policy::{Backoff, Steps};
    use crate::engine::model::queue_settings::Later;
    use crate::engine::model::queue_settings::Side;
    use crate::engine::model::reply::Reason;
    use crate::engine::model::schedule::{JobOptions, Overlap, Rule, ScheduleTerms};
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
            group_weight: Later(Some(11)),
            group_max_leased: Later(Some(12)),
            group_retry: Later(Some(GroupRetry::Block)),
            group_rate: Later(Some(GroupRate { count: 13, span_ms: 60_000 })),
            group_max_jobs: Later(Some(14)),
        }
    }

    /// One of each, with fields that differ from each other and from zero.
    fn one_of_each() -> Vec<Fact<'static>> {
        let (queue, id, due, policy) = (QueueNo(7), &b"order:7"[..], Millis(1 << 41), PolicyNo(9));
        let (window_end, lease_end, group) = (Millis(77), Millis(88), &b"acme"[..]);
        let (schedule, anchor, after) = (ScheduleNo(3), Millis(5), Millis(6));
        let (nominal, offset_s, priority) = (Millis(1 << 40), -7_200, 4);
        let next = Some(Coming { nominal: due.plus(8), due: due.plus(9) });
        let ladder = Backoff { steps: Steps::Ladder([1, 5, 10].into()), jitter: true };
        let bound = |backoff| {
            let policy = Policy { attempts: 3, backoff, lease_ms: 4, ttl_ms: 5, unique_ms: 6 };
            Fact::PolicyBound { number: PolicyNo(9), policy }
        };
        let image = Image {
            id,
            body: b"body",
            group: None,
            meta: Meta::NONE,
            policy,
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
            policy,
            priority: 9,
            absolute,
            ready,
            left,
            due,
            body: b"\r\n\0",
            inherited: None,
            group: None,
            meta: Meta::NONE,
        };
        let successor = Fact::SuccessorSet {
            queue,
            id,
            policy,
            priority: 8,
            absolute: true,
            added: Millis(5),
            due,
            body: b"newer",
            group: None,
            meta: Meta::NONE,
        };
        let succeeded = |acked, ready, left| Fact::Succeeded { queue, id, acked, ready, left };
        let nacked = |error, to| Fact::Nacked { queue, id, counted: true, priority: 1, error, to };
        let dead = |reason| Destination::Dead { reason, kept_until: Millis(5) };
        let scheduled = |name, body, definition: Definition, next| {
            let definition = Box::new(definition);
            Fact::Scheduled { queue, schedule, name, body, definition, anchor, after, next }
        };
        let poll = scheduled(b"poll", b"", Definition::of(Rule::Every { ms: 100 }), None);
        let redriven = |absolute, ready, left, keep_attempts| Fact::Redriven {
            queue,
            id,
            absolute,
            ready,
            left,
            keep_attempts,
            due,
        };
        let grouped = |settings| Fact::GroupSet { queue, group, settings };
        let limited = GroupSettings {
            weight: Some(7),
            max_leased: Some(8),
            retry: Some(GroupRetry::Block),
            rate: Later(Some(GroupRate::NONE)),
            max_jobs: Later(Some(0)),
            pause: Pause::Until(due),
        };
        vec![
            Fact::QueueBound { queue, db: Db(15), name: b"q" },
            Fact::QueueRemoved { queue },
            Fact::QueueForgotten { queue },
            bound(ladder),
            bound(Backoff::default()),
            Fact::PolicyForgotten { number: policy },
            Fact::Flushed { db: None },
            Fact::Flushed { db: Some(Db(0)) },
            added(FactId::Given(id), true, false, false),
            added(FactId::Made(u64::MAX), false, true, false),
            added(FactId::Made(7), false, true, true),
            with_meta(added(FactId::Made(7), false, true, true)),
            with_meta(added(FactId::Given(id), true, false, false)),
            with_group(added(FactId::Given(id), true, false, false)),
            with_group(with_meta(added(FactId::Made(7), false, true, true))),
            with_group(Fact::Unpopped { queue, image }),
            with_group(with_meta(poll.clone())),
            grouped(limited),
            grouped(GroupSettings::paused(Pause::Endless)),
            grouped(GroupSettings::default()),
            Fact::GroupPaced { queue, group, gave: 1 << 60 },
            with_meta(Fact::Unpopped { queue, image }),
            inheriting(added(FactId::Given(id), false, false, false), None),
            inheriting(
                with_group(with_meta(added(FactId::Given(id), false, true, false))),
                Some(-7),
            ),
            successor.clone(),
            with_group(with_meta(successor)),
            succeeded(true, true, false),
            succeeded(false, false, true),
            Fact::SuccessorRemoved { queue, id },
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
            scheduled(b"daily", b"\0body", definition(), next),
            poll.clone(),
            with_meta(poll),
            Fact::Unscheduled { queue, schedule: ScheduleNo(u64::MAX) },
            Fact::Occurred {
                queue,
                schedule,
                nominal,
                due,
                offset_s,
                policy,
                priority,
                left: true,
                next,
            },
            Fact::Passed {
                queue,
                schedule,
                nominal,
                offset_s: 3_600,
                missed: 1 << 42,
                skipped: 2,
                next: None,
            },
            Fact::GaveWay { queue, schedule, at: due },
            Fact::SchedulePaused { queue, schedule, pause: Pause::Endless, after, next: None },
            Fact::ScheduleMoved { queue, schedule, after, next },
            Fact::Ran { queue, schedule, at: nominal, due, policy, priority, left: false },
        ]
    }

    fn with_meta(mut fact: Fact<'static>) -> Fact<'static> {
        let given = Meta::read(b"\x06\x04\0tenantacme\x01\0\0k").expect("two pairs");
        assert!(fact.set_beside(None, Some(given)), "a fact without META");
        fact
    }

    fn with_group(mut fact: Fact<'static>) -> Fact<'static> {
        assert!(fact.set_beside(Some(b"acme"), None), "a fact without a group");
        fact
    }

    fn inheriting(mut fact: Fact<'static>, place: Option<i64>) -> Fact<'static> {
        let Fact::Added { inherited, .. } = &mut fact else { panic!("no new job: {fact:?}") };
        *inherited = Some(Inherited { added: Millis(1 << 40), place });
        fact
    }

    /// With every field set.
    fn definition() -> Definition {
        let options = JobOptions {
            priority: Some(1),
            attempts: Some(2),
            backoff: settings().backoff,
            lease_ms: Some(3),
            ttl_ms: Some(4),
        };
        let rule = Rule::Cron { pattern: "0 8 * * 1-5".into(), zone: "Europe/Berlin".into() };
        let terms = ScheduleTerms {
            from: Millis(1),
            until: Millis(2),
            runs: 3,
            catchup: 4,
            spread_ms: 5,
            grace_ms: 6,
            overlap: Overlap::Replace,
            options,
            group: OwnGroup::NONE,
            meta: OwnMeta::NONE,
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
        for tag in (0..=u8::MAX).filter(|tag| !(1..=40).contains(tag) && !(45..=47).contains(tag)) {
            let facts = Facts { bytes: [&[tag][..], &[0; 64]].concat(), count: 1 };
            assert!(matches!(facts.iter().next(), Some(Err(_))), "tag {tag}");
        }
        // META before a fact that has none, before itself, and without a pair.
        let mut deleted = Vec::new();
        Fact::Deleted { queue: QueueNo(1), id: b"x" }.encode(&mut deleted);
        let meta = [WITH_META, 4, 0, 0, 0, 1, 0, 0, b'k'];
        let mut added = Vec::new();
        with_meta(one_of_each().swap_remove(10)).encode(&mut added);
        let none = [&[WITH_META, 0, 0, 0, 0][..], &deleted].concat();
        for bytes in [[&meta[..], &deleted].concat(), [&meta[..], &added].concat(), none] {
            let facts = Facts { bytes, count: 1 };
            assert!(matches!(facts.iter().next(), Some(Err(_))));
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
