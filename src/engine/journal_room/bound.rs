//! The most bytes of facts that a request, or a step of passing time, can make: what the encoder makes of
//! the largest of them.

use std::sync::LazyLock;

use crate::engine::model::bulk::{Bulk, BulkAct};
use crate::engine::model::fact::{ByteCount, Destination, Fact, FactId, Image, Writer};
use crate::engine::model::group::{GroupRate, GroupSettings, Grouping};
use crate::engine::model::meta::Meta;
use crate::engine::model::policy::{Backoff, Policy, Steps};
use crate::engine::model::queue_settings::{Later, Pause, Pauses, QueueSettings};
use crate::engine::model::reply::Reason;
use crate::engine::model::request::{Add, Nack, Push, Redrive, Request, When, Which};
use crate::engine::model::schedule::{AskedRule, Rule, Scheduling, SetSchedule};
use crate::engine::store::Store;
use crate::engine::store::errors::ERRORS_COMING_BYTES;
use crate::engine::store::snapshot::record;
use crate::ids::{Db, PolicyNo, QueueNo, ScheduleNo, Token};
use crate::limits::{
    COUNT_MAX, DROPPED_PER_DEATH, ERROR_TEXT_BYTES_MAX, LADDER_STEPS_MAX,
    LOOKED_FOR_GROUP_PER_TURN, NAME_BYTES_MAX, OPEN_MAX, REDRIVEN_PER_TURN, TRANSACTION_COST_MAX,
};
use crate::time::Millis;

/// By how much the image of a job that is added may be larger than its fact: three instants and an id
/// that the server made.
const ADDED_IMAGE_BYTES: u64 = 48;
/// The same of a schedule: what is counted of it, and the instants of those that are open.
const SCHEDULE_IMAGE_BYTES: u64 = 128 + 8 * OPEN_MAX as u64;
/// The same of a queue: its totals and what is counted of it.
const QUEUE_IMAGE_BYTES: u64 = 160 + ERRORS_COMING_BYTES;

/// What META takes in a fact or an image, in addition to the block: the tag and the length before it.
const META_BYTES: u64 = 5;

/// What a job inherits: a tag, an instant and a place.
const INHERITED_BYTES: u64 = 17;

// All numbers take the same room.
const QUEUE: QueueNo = QueueNo(0);
const POLICY: PolicyNo = PolicyNo(0);
const AT: Millis = Millis(0);
const LONGEST_ID: &[u8] = &[0; NAME_BYTES_MAX];
const LONGEST_TEXT: &[u8] = &[0; ERROR_TEXT_BYTES_MAX];
const DEATH: Destination = Destination::Dead { reason: Reason::Lost, kept_until: AT };

/// Bytes of the largest facts of what is done one by one.
#[derive(Debug)]
pub struct Sizes {
    /// One job is taken, or expires instead.
    pub taking: u64,
    /// One step of passing time: jobs that fell due before, and a lease that is over and ends in death,
    /// with the dead letters that leave for it.
    pub advancing: u64,
    /// One dead job is moved.
    pub redriven: u64,
    /// One job is removed, or a dead letter leaves.
    pub deleted: u64,
    /// Jobs of a queue fall due.
    due: u64,
    /// A job goes back that has a lease, which its group's rate had counted.
    pub unleased: u64,
    /// Putting back a popped job, in addition to its META, its body and its policy.
    unpopped: u64,
    /// Nominal instants are passed over.
    passed: u64,
    /// All that can be set for a queue.
    configured: u64,
    /// A backoff with as many steps as it can have.
    backoff: u64,
    /// By how much a delivery makes the image of a job and its queue's larger: a history of the job; the
    /// queue's lateness, and a bucket of it.
    delivered_image: u64,
}

/// See [`Sizes`].
pub static SIZES: LazyLock<Sizes> = LazyLock::new(|| {
    let (queue, id, window_end, lease_end) = (QUEUE, LONGEST_ID, AT, AT);
    let leased = Fact::Leased { queue, id, token: Token(0), lease_end, bound: true, on_time: true };
    let popped = Fact::Popped { queue, id, window_end, on_time: true };
    let expired = Fact::Expired { queue, id, window_end };
    let unleased = Fact::Unleased { queue, id };
    let succeeded = Fact::Succeeded { queue, id, acked: true, ready: true, left: true };
    let succeeded = succeeded.encoded_bytes();
    let unpaced = Fact::GroupPaced { queue, group: LONGEST_ID, gave: 0 }.encoded_bytes();
    let unleased = unleased.encoded_bytes() + unpaced + succeeded;
    let taking = [leased, popped, expired.clone()].map(|fact| fact.encoded_bytes());
    let dropped = Fact::Dropped { queue, id }.encoded_bytes();
    let over = Fact::LeaseOver { queue, id, lost: true, counted: true, to: DEATH };
    let ends = [expired, Fact::Extended { queue, id, lease_end }, over];
    // A job that another one follows does not die.
    let behind = (DROPPED_PER_DEATH * dropped).max(succeeded);
    let ends = ends.map(|fact| fact.encoded_bytes() + behind);
    let due = Fact::Due { queue, place: 0, count: 0, left: false }.encoded_bytes();
    let (absolute, ready, left, keep_attempts) = (true, true, true, true);
    let redriven = Fact::Redriven { queue, id, absolute, ready, left, keep_attempts, due: AT };
    let image = Image {
        id,
        body: &[],
        group: None,
        meta: Meta::NONE,
        policy: POLICY,
        priority: 0,
        added: AT,
        due: AT,
        place: 0,
        history: Some([0; 6]),
        error: Some(LONGEST_TEXT),
    };
    let steps = Steps::Ladder([0; LADDER_STEPS_MAX].into());
    let backoff = Backoff { steps, jitter: true };
    let occurring = Fact::Occurred {
        queue,
        schedule: ScheduleNo(0),
        nominal: AT,
        due: AT,
        offset_s: 0,
        policy: POLICY,
        priority: 0,
        left: true,
        next: None,
    };
    let occurring = occurring.encoded_bytes() + binding_policy(&backoff);
    Sizes {
        taking: taking.into_iter().max().expect("some"),
        advancing: due
            + ends.into_iter().max().expect("some").max(occurring).max(setting_group(LONGEST_ID)),
        redriven: redriven.encoded_bytes(),
        deleted: dropped,
        due,
        passed: Fact::Passed {
            queue,
            schedule: ScheduleNo(0),
            nominal: AT,
            offset_s: 0,
            missed: 0,
            skipped: 0,
            next: None,
        }
        .encoded_bytes(),
        unleased,
        unpopped: Fact::Unpopped { queue, image }.encoded_bytes() + META_BYTES + unpaced,
        backoff: binding_policy(&backoff),
        configured: Fact::Configured {
            queue,
            // Each is set, so none takes more bytes.
            settings: Box::new(QueueSettings {
                backoff: Some(backoff),
                ..QueueSettings::defaults(0)
            }),
        }
        .encoded_bytes(),
        delivered_image: record::history_bytes() + record::lateness_growth(true, true),
    }
});

/// Bytes of facts.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Bound {
    /// At most these.
    pub(super) bytes: u64,
    /// A request is refused without space for these: for all of them, unless it can be cut short.
    pub(super) needed: u64,
    /// It ends jobs and may use the reserve.
    pub(super) ends: bool,
    /// By how much the next base may be larger for it; 0 for what adds nothing.
    pub(super) grows: u64,
}

impl Bound {
    /// For a request that is executed as a whole.
    fn whole(bytes: u64) -> Bound {
        Bound { bytes, needed: bytes, ends: false, grows: 0 }
    }

    /// For a request that is executed as a whole, and adds this many jobs or changes settings.
    fn adding(bytes: u64, jobs: usize) -> Bound {
        let each = ADDED_IMAGE_BYTES + SIZES.delivered_image;
        let grows = bytes + QUEUE_IMAGE_BYTES + jobs as u64 * each;
        Bound { bytes, needed: bytes, ends: false, grows }
    }

    fn ending(bytes: u64) -> Bound {
        Bound { bytes, needed: bytes, ends: true, grows: 0 }
    }

    /// For a request that takes as many jobs as fit.
    fn taking(count: u32) -> Bound {
        let bytes = u64::from(count) * SIZES.taking;
        Bound { bytes, needed: SIZES.taking, ends: false, grows: 0 }
    }

    /// For a request in a transaction, which takes or moves at most `count` jobs of at most this many bytes. Nothing of
    /// it is cut short. None for a request that changes nothing.
    pub fn within(request: &Request<'_>, count: u64, body_bytes: usize) -> Option<Bound> {
        Some(match *request {
            Request::Pop { .. } | Request::ListPop(_) | Request::Reserve(_) => {
                Bound::whole(count * SIZES.taking)
            }
            // A job given back for now falls due within the transaction.
            Request::Nack(ref nack) => Bound::whole(nacking(nack) + SIZES.due),
            Request::Move(_) if count == 0 => return None,
            Request::Move(ref of) => Bound::adding(moving_bytes_max(body_bytes, of.to.len()), 1),
            Request::DeleteEqual { .. } => Bound::ending(count * SIZES.deleted),
            Request::Configure { .. } | Request::Unconfigure { .. } => {
                let bound = Bound::of(request).unwrap_or_default();
                Bound { grows: bound.grows, ..Bound::whole(bound.bytes + count * SIZES.deleted) }
            }
            Request::Redrive(Redrive { which: Which::Oldest(_), .. }) => {
                Bound::whole(count * SIZES.redriven)
            }
            Request::Schedule(Scheduling::Run { .. }) => {
                let bound = Bound::of(request).unwrap_or_default();
                Bound { grows: bound.grows + body_bytes as u64, ..bound }
            }
            _ => return Bound::of(request),
        })
    }

    /// The most bytes of facts that a request itself makes: passing time and hand-offs to waiters come on top.
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
        let (queue, due, absolute, ready, left) = (QUEUE, AT, true, true, true);
        let bytes = |fact: Fact<'_>| fact.encoded_bytes();
        let redriven = |id: &&[u8]| {
            bytes(Fact::Redriven { queue, id, absolute, ready, left, keep_attempts: true, due })
        };
        let paused = || bytes(Fact::Paused { queue, pauses: Pauses::default() });
        let bound = |name| bytes(Fact::QueueBound { queue, db: Db(0), name });
        Some(match *request {
            Request::Add(ref add) => {
                let bound = Bound::adding(adding(add), 1);
                Bound { grows: bound.grows + add.group.map_or(0, record::pace_bytes), ..bound }
            }
            Request::Push(ref push) => Bound::adding(pushing(push), push.bodies.len()),
            Request::Pop { .. } => Bound::taking(1),
            Request::ListPop(ref pop) if pop.count == 0 => return None,
            Request::ListPop(ref pop) => Bound::taking(pop.count),
            // The job is known only when it is reached: the rest of its body is checked then.
            Request::Move(ref of) => Bound::adding(moving_bytes_max(0, of.to.len()), 1),
            Request::Reserve(ref reserve) => Bound::taking(reserve.count),
            Request::Ack { ref jobs, .. } => {
                // Letting another job follow takes less.
                let acked = |id| bytes(Fact::Acked { queue, id, window_end: AT });
                Bound::ending(jobs.iter().map(|(id, _)| acked(id)).sum())
            }
            Request::Nack(ref nack) => Bound::whole(nacking(nack)),
            Request::Extend { id, .. } => {
                Bound::whole(bytes(Fact::Extended { queue, id, lease_end: AT }))
            }
            Request::Delete { ids, .. } => {
                Bound::ending(ids.iter().map(|id| deleting_bytes(id.len())).sum())
            }
            Request::Cancel { id, .. } => Bound::ending(deleting_bytes(id.len())),
            // Those that are found are looked at before any is removed.
            Request::DeleteEqual { count, .. } => {
                let most = if count == 0 { COUNT_MAX } else { count.min(COUNT_MAX) };
                Bound { bytes: most * SIZES.deleted, ..Bound::ending(SIZES.deleted) }
            }
            Request::Reschedule { id, .. } => {
                Bound::whole(bytes(Fact::Rescheduled { queue, id, absolute, ready, left, due }))
            }
            Request::Redrive(Redrive { which: Which::Ids(ids), .. }) => {
                Bound::whole(ids.iter().map(redriven).sum())
            }
            Request::Redrive(Redrive { which: Which::InGroup { .. }, .. }) => {
                let most = u64::from(REDRIVEN_PER_TURN) * SIZES.redriven;
                Bound { bytes: most, ..Bound::whole(SIZES.redriven) }
            }
            Request::Bulk(Bulk { dry_run: true, .. }) => return None,
            Request::Bulk(Bulk { act: BulkAct::Cancel { .. }, .. }) => {
                let most = LOOKED_FOR_GROUP_PER_TURN as u64 * SIZES.deleted;
                Bound { bytes: most, ..Bound::ending(SIZES.deleted) }
            }
            Request::Bulk(_) => {
                let most = u64::from(REDRIVEN_PER_TURN) * SIZES.redriven;
                Bound { bytes: most, ..Bound::whole(SIZES.redriven) }
            }
            // In a transaction, which cannot be cut into slices, as many as those may look at.
            Request::Redrive(Redrive { which: Which::Oldest(count), .. }) => {
                let count = count.map_or(TRANSACTION_COST_MAX, u64::from);
                Bound { bytes: count * SIZES.redriven, ..Bound::whole(SIZES.redriven) }
            }
            Request::Purge { purge, .. } => {
                Bound::ending(bytes(Fact::Purged { queue, purge, count: 0 }))
            }
            Request::Rename { to: name, .. } => {
                Bound::adding(bytes(Fact::Renamed { queue, name, over: None }), 0)
            }
            Request::Remove { queues, .. } => {
                Bound::ending(bytes(Fact::QueueRemoved { queue }) * queues.len() as u64)
            }
            Request::Flush { db } => Bound::ending(bytes(Fact::Flushed { db })),
            // Dead letters that are too many then leave one by one, as long as one more fits.
            Request::Configure { queue, .. } => {
                Bound::adding(bound(queue.name) + SIZES.configured + SIZES.deleted, 0)
            }
            Request::Unconfigure { .. } => {
                let settings = Box::default();
                Bound::whole(bytes(Fact::Configured { queue, settings }) + SIZES.deleted)
            }
            Request::Pause { queue, .. } => Bound::adding(bound(queue.name) + paused(), 0),
            Request::Resume { .. } => Bound::whole(paused()),
            Request::Get { .. }
            | Request::Settings { .. }
            | Request::Stats { .. }
            | Request::Errors { .. }
            | Request::Forecast { .. }
            | Request::Len { .. }
            | Request::Peek { .. }
            | Request::Range { .. }
            | Request::At { .. }
            | Request::Find(_)
            | Request::Scan(_)
            | Request::Exists { .. }
            | Request::Keys { .. }
            | Request::ScanQueues { .. }
            | Request::Queues(_)
            | Request::Leases(_)
            | Request::Minutes(_)
            | Request::Locate(_)
            | Request::RandomQueue { .. }
            | Request::QueueCount { .. }
            | Request::Memory { .. } => return None,
            Request::Schedule(ref of) => return scheduling(of),
            Request::Groups(
                Grouping::Configure { queue: name, group, .. }
                | Grouping::Pause { queue: name, group, .. },
            ) => {
                let bound = Bound::adding(bound(name.name) + setting_group(group), 0);
                Bound { grows: bound.grows + record::pace_bytes(group), ..bound }
            }
            Request::Groups(
                Grouping::Unconfigure { group, .. } | Grouping::Resume { group, .. },
            ) => Bound::whole(setting_group(group)),
            Request::Groups(Grouping::Purge { .. }) => {
                let most = LOOKED_FOR_GROUP_PER_TURN as u64 * SIZES.deleted;
                Bound { bytes: most, ..Bound::ending(SIZES.deleted) }
            }
            Request::Groups(_) => return None,
        })
    }
}

/// For a request about schedules; the body of an occurrence is checked when it is made.
fn scheduling(of: &Scheduling<'_>) -> Option<Bound> {
    let (queue, schedule) = (QUEUE, ScheduleNo(0));
    let bytes = |fact: Fact<'_>| fact.encoded_bytes();
    Some(match *of {
        Scheduling::Set(ref set) => {
            let SetSchedule { name, body, ref rule, ref terms, .. } = **set;
            let rule = match rule {
                AskedRule::Every { ms } => Rule::Every { ms: *ms },
                // The database may spell it longer than the request, but no name has so many bytes.
                AskedRule::Cron { pattern, zone } => Rule::Cron {
                    pattern: pattern.text().into(),
                    zone: String::from_utf8_lossy(&[*zone, &[b' '; 64]].concat()).into(),
                },
            };
            let definition = Box::new(terms.clone().with(rule));
            let (anchor, after, next) = (AT, AT, None);
            let fact =
                Fact::Scheduled { queue, schedule, name, body, definition, anchor, after, next };
            let bound = Fact::QueueBound { queue, db: Db(0), name: set.queue.name };
            // A pause that is over ends first.
            let before = pause_bytes() + SIZES.passed;
            Bound::adding(bytes(fact) + bytes(bound) + before + SCHEDULE_IMAGE_BYTES, 0)
        }
        Scheduling::Delete { names, .. } => {
            let gone = bytes(Fact::Unscheduled { queue, schedule });
            Bound::ending(gone * names.len() as u64)
        }
        Scheduling::Pause { .. } | Scheduling::Resume { .. } => {
            Bound::whole(SIZES.passed + 2 * pause_bytes())
        }
        Scheduling::Run { .. } => {
            let gone = bytes(Fact::GaveWay { queue, schedule, at: AT }) * OPEN_MAX as u64;
            let (at, due, policy, priority, left) = (AT, AT, POLICY, 0, true);
            let ran = Fact::Ran { queue, schedule, at, due, policy, priority, left };
            let made = bytes(ran) + SIZES.backoff + gone;
            Bound { grows: occurring_growth(NAME_BYTES_MAX), ..Bound::whole(made) }
        }
        _ => return None,
    })
}

/// All that can be set for a group.
fn setting_group(group: &[u8]) -> u64 {
    let (weight, max_leased, pause) = (Some(1), Some(1), Pause::Endless);
    let (retry, rate) = (Some(Default::default()), Later(Some(GroupRate::NONE)));
    let max_jobs = Later(Some(0));
    let settings = GroupSettings { weight, max_leased, retry, rate, max_jobs, pause };
    Fact::GroupSet { queue: QUEUE, group, settings }.encoded_bytes()
}

/// A pause of a schedule begins or ends.
fn pause_bytes() -> u64 {
    let (queue, schedule) = (QUEUE, ScheduleNo(0));
    let (pause, after, next) = (Pause::None, AT, None);
    Fact::SchedulePaused { queue, schedule, pause, after, next }.encoded_bytes()
}

/// The jobs, with made ids; their queue and their policy, should they be new.
fn pushing(push: &Push<'_>) -> u64 {
    let first = adding(&Add::new(push.queue, When::In(0), b""));
    let bodies =
        push.bodies.iter().map(|body| added_bytes(FactId::Made(0), None, Meta::NONE, body.len()));
    first + bodies.sum::<u64>()
}

/// The most that moving a job makes: it is taken, and added with an id and, should they be new, a
/// queue and a policy.
pub fn moving_bytes_max(body_bytes: usize, name_bytes: usize) -> u64 {
    let bound = Fact::QueueBound { queue: QUEUE, db: Db(0), name: &[] }.encoded_bytes();
    let added = added_bytes(FactId::Made(0), None, Meta::NONE, body_bytes);
    SIZES.taking + bound + name_bytes as u64 + SIZES.backoff + added
}

/// By how much the next base may grow for an occurrence with this many bytes of id, META and body.
pub fn occurring_growth(bytes: usize) -> u64 {
    let image = ADDED_IMAGE_BYTES + SIZES.delivered_image + SIZES.backoff;
    let fact = added_bytes(FactId::Given(&[]), None, Meta::NONE, bytes) + META_BYTES;
    // An open one is known by its instant.
    image + fact + size_of::<Millis>() as u64
}

/// Bytes of facts for removing a job with an id of this many bytes.
pub fn deleting_bytes(id_bytes: usize) -> u64 {
    Fact::Deleted { queue: QUEUE, id: &[] }.encoded_bytes() + id_bytes as u64
}

fn added_bytes(id: FactId<'_>, group: Option<&[u8]>, meta: Meta<'_>, body_bytes: usize) -> u64 {
    let fact = Fact::Added {
        queue: QUEUE,
        id,
        policy: POLICY,
        priority: 0,
        absolute: true,
        ready: true,
        left: true,
        due: AT,
        body: &[],
        inherited: None,
        group,
        meta,
    };
    fact.encoded_bytes() + body_bytes as u64
}

/// The job; its queue and its policy, should they be new; and the job that it replaces, and what it inherits of that,
/// which is more than a job has that follows another one. Without a backoff, the queue's is the longest.
fn adding(add: &Add<'_>) -> u64 {
    let id = add.id.map_or(FactId::Made(0), FactId::Given);
    let added = added_bytes(id, add.group, add.meta.get(), add.body.len()) + INHERITED_BYTES;
    let name = add.queue.name;
    let bound = Fact::QueueBound { queue: QUEUE, db: add.queue.db, name }.encoded_bytes();
    let policy = add.backoff.as_ref().map_or(SIZES.backoff, binding_policy);
    added + bound + policy + deleting_bytes(add.id.map_or(0, <[u8]>::len))
}

/// A new policy, and two that are forgotten for it.
fn binding_policy(backoff: &Backoff) -> u64 {
    let forgotten = Fact::PolicyForgotten { number: POLICY }.encoded_bytes();
    let backoff_bytes = |backoff: &_| ByteCount::of(|out| _ = Writer(out).backoff(backoff));
    let short = Backoff::default();
    let longer = backoff_bytes(backoff) as i64 - backoff_bytes(&short) as i64;
    let policy = Policy { attempts: 0, backoff: short, lease_ms: 0, ttl_ms: 0, unique_ms: 0 };
    let bound = Fact::PolicyBound { number: POLICY, policy }.encoded_bytes();
    bound.saturating_add_signed(longer) + 2 * forgotten
}

/// As if it ended in death: with DROPPED_PER_DEATH of them, that is more than letting another job follow.
fn nacking(nack: &Nack<'_>) -> u64 {
    let (queue, id, error) = (QUEUE, nack.id, nack.error);
    let nacked = Fact::Nacked { queue, id, counted: true, priority: 0, error, to: DEATH };
    nacked.encoded_bytes() + DROPPED_PER_DEATH * SIZES.deleted
}

/// The most that putting back a popped job with this many bytes of META and body makes, including its policy if that
/// must be bound again.
pub fn returning_bytes_max(data_bytes: usize, backoff: &Backoff) -> u64 {
    SIZES.unpopped + data_bytes as u64 + binding_policy(backoff)
}

pub fn base_bytes_later(store: &Store) -> u64 {
    let jobs: u64 = store.counts().iter().sum();
    store.base_bytes() + jobs * SIZES.delivered_image + store.coming_image_bytes()
}
