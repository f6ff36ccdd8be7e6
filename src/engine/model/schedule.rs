//! Schedules: what is set so that jobs of a queue come again and again, what is asked of it, and what is shown.

use crate::calendar::Pattern;
use crate::engine::model::group::OwnGroup;
use crate::engine::model::meta::{Meta, OwnMeta};
use crate::engine::model::policy::{Backoff, Steps};
use crate::engine::model::queue_settings::Pause;
use crate::engine::model::terms::QueueName;
use crate::time::{Millis, Written};
use crate::words::words;

/// The rule of a schedule in stored form: text and numbers, which only the deciding node interprets.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Rule {
    /// Each this many ms, at least [`EVERY_MS_MIN`](crate::limits::EVERY_MS_MIN).
    Every { ms: u64 },
    /// By a pattern, with single blanks, in a zone as its database spells it.
    Cron { pattern: Box<str>, zone: Box<str> },
}

/// As LIST shows it.
impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Rule::Every { ms } => write!(f, "every {}", Written(*ms)),
            Rule::Cron { pattern, zone } => write!(f, "cron {pattern} {zone}"),
        }
    }
}

words! {
    /// The fate of an occurrence while an earlier one is open.
    #[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
    pub enum Overlap {
        /// It is made.
        #[default]
        Allow = "allow",
        /// It is skipped.
        Skip = "skip",
        /// It is made, and occurrences that no worker has started are removed.
        Replace = "replace",
    }
}

/// A schedule's settings for its jobs, instead of the queue's.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub struct JobOptions {
    /// 0 (first) to 9.
    pub priority: Option<u8>,
    /// Deliveries before the job is dead, 0 for no limit.
    pub attempts: Option<u32>,
    pub backoff: Option<Backoff>,
    /// ms, at least 1.
    pub lease_ms: Option<u64>,
    /// ms, 0 never.
    pub ttl_ms: Option<u64>,
}

/// The definition of a schedule, except for name and body.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Definition {
    pub rule: Rule,
    /// None where all are the defaults, so that a schedule as most people write them is small.
    terms: Option<Box<ScheduleTerms>>,
}

/// No end.
pub const ENDLESS: Millis = Millis(u64::MAX);

/// The parts of SET other than the rule.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ScheduleTerms {
    /// No nominal instant is before it; of EVERY the first of the grid. 0 for none.
    pub from: Millis,
    /// No nominal instant is after it. [`ENDLESS`] for none.
    pub until: Millis,
    /// So many occurrences are made, then it is done; 0 no limit.
    pub runs: u32,
    /// How many of those that are missed are made up for, 1 to [`CATCHUP_MAX`](crate::limits::CATCHUP_MAX).
    pub catchup: u32,
    /// Each comes later by a share of this, ms; 0 none.
    pub spread_ms: u64,
    /// An occurrence that is later than this is missed, ms; 0 for no limit.
    pub grace_ms: u64,
    pub overlap: Overlap,
    pub options: JobOptions,
    /// The group of each job.
    pub group: OwnGroup,
    /// Headers of each job.
    pub meta: OwnMeta,
}

impl ScheduleTerms {
    /// The defaults.
    pub const DEFAULT: ScheduleTerms = ScheduleTerms {
        from: Millis(0),
        until: ENDLESS,
        runs: 0,
        catchup: 1,
        spread_ms: 0,
        grace_ms: 0,
        overlap: Overlap::Allow,
        options: JobOptions {
            priority: None,
            attempts: None,
            backoff: None,
            lease_ms: None,
            ttl_ms: None,
        },
        group: OwnGroup::NONE,
        meta: OwnMeta::NONE,
    };

    /// The definition with this rule.
    pub fn with(self, rule: Rule) -> Definition {
        let terms = (self != ScheduleTerms::DEFAULT).then(|| Box::new(self));
        Definition { rule, terms }
    }
}

impl Default for ScheduleTerms {
    fn default() -> ScheduleTerms {
        ScheduleTerms::DEFAULT
    }
}

impl Definition {
    /// A definition with only a rule.
    pub fn of(rule: Rule) -> Definition {
        Definition { rule, terms: None }
    }

    /// The parts other than the rule.
    pub fn terms(&self) -> &ScheduleTerms {
        static DEFAULT: ScheduleTerms = ScheduleTerms::DEFAULT;
        self.terms.as_deref().unwrap_or(&DEFAULT)
    }

    /// The META of its jobs.
    pub fn meta(&self) -> Meta<'_> {
        self.terms().meta.get()
    }

    /// The group of its jobs.
    pub fn group(&self) -> Option<&[u8]> {
        self.terms().group.get()
    }

    /// Gives its jobs this META.
    pub fn set_meta(&mut self, meta: Meta<'_>) {
        self.set_terms(ScheduleTerms { meta: meta.into(), ..self.terms().clone() });
    }

    /// Puts its jobs into this group.
    pub fn set_group(&mut self, name: &[u8]) {
        self.set_terms(ScheduleTerms { group: Some(name).into(), ..self.terms().clone() });
    }

    fn set_terms(&mut self, terms: ScheduleTerms) {
        self.terms = (terms != ScheduleTerms::DEFAULT).then(|| Box::new(terms));
    }

    /// By how much each occurrence comes later than its nominal instant, ms: less than `spread_ms`, and always the
    /// same for a name. From an FNV-1a of the name, finished by a multiplication so that names that differ in
    /// the last byte spread.
    pub fn shift_ms(&self, name: &[u8]) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for byte in name {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((u128::from(mixed) * u128::from(self.terms().spread_ms)) >> 64) as u64
    }

    /// Whether both have the same nominal instants and due times, except for where they end.
    pub fn times_alike(&self, other: &Definition) -> bool {
        let of = |one: &Definition| (one.terms().from, one.terms().spread_ms);
        self.rule == other.rule && of(self) == of(other)
    }

    /// Bytes that are allocated for its texts and terms, apiece.
    pub(in crate::engine) fn allocations(&self) -> [usize; 6] {
        let (pattern, zone) = match &self.rule {
            Rule::Every { .. } => (0, 0),
            Rule::Cron { pattern, zone } => (pattern.len(), zone.len()),
        };
        let ladder = match self.terms().options.backoff.as_ref().map(|backoff| &backoff.steps) {
            Some(Steps::Ladder(steps)) => size_of_val(&**steps),
            Some(Steps::Exponential { .. }) | None => 0,
        };
        let terms = self.terms.as_ref().map_or(0, |terms| size_of_val(&**terms));
        let group = self.group().map_or(0, <[u8]>::len);
        [pattern, zone, terms, ladder, group, self.meta().block().len()]
    }
}

/// A nominal instant that is to come, and when its occurrence is due.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Coming {
    pub nominal: Millis,
    /// `nominal` and the shift; never as late as the next nominal instant.
    pub due: Millis,
}

/// The outcomes of its nominal instants; they only grow.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub struct Outcomes {
    pub made: u64,
    pub missed: u64,
    pub skipped: u64,
    /// Occurrences that gave way to a newer one; they are among those made.
    pub replaced: u64,
}

words! {
    /// The present state of a schedule.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum ScheduleState {
        Active = "active",
        Paused = "paused",
        /// Something is due that cannot be made.
        Held = "held",
        /// No nominal instant is left.
        Done = "done",
    }
}

words! {
    /// Why something that is due is not made.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Obstacle {
        /// The queue takes no jobs.
        Paused = "paused",
        /// The queue is at its `max-jobs`.
        Full = "full",
        Memory = "memory",
        /// The journal lets no time pass, or has no room for one more job.
        Journal = "journal",
        /// The tables know its zone no more.
        Zone = "zone",
        /// Its pattern is one that this version does not read.
        Pattern = "pattern",
    }
}

words! {
    /// Why nominal instants were missed.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Miss {
        /// Nothing was at work when they came due, and CATCHUP makes up for fewer.
        Downtime = "downtime",
        /// They were later than GRACE allows.
        Grace = "grace",
        /// They could not be made when they came due, and CATCHUP makes up for fewer.
        Held = "held",
    }
}

words! {
    /// The result of SET.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum ScheduleChange {
        Created = "created",
        Changed = "changed",
        Same = "same",
    }
}

/// A rule as a client says it.
#[derive(Clone, Debug)]
pub enum AskedRule<'a> {
    Every {
        ms: u64,
    },
    Cron {
        pattern: Box<Pattern>,
        /// In any case, or an offset; `UTC` if none was named.
        zone: &'a [u8],
    },
}

/// `DELAY.SCHEDULE SET`.
#[derive(Clone, Debug)]
pub struct SetSchedule<'a> {
    pub queue: QueueName<'a>,
    /// 1 to [`SCHEDULE_NAME_BYTES_MAX`](crate::limits::SCHEDULE_NAME_BYTES_MAX) bytes.
    pub name: &'a [u8],
    /// At most [`SCHEDULE_BODY_BYTES_MAX`](crate::limits::SCHEDULE_BODY_BYTES_MAX).
    pub body: &'a [u8],
    pub rule: AskedRule<'a>,
    /// Everything except the rule, which is the request's.
    pub terms: ScheduleTerms,
}

/// `DELAY.SCHEDULE`.
#[derive(Clone, Debug)]
pub enum Scheduling<'a> {
    /// → what happened, and the next nominal instant.
    Set(Box<SetSchedule<'a>>),
    /// → a view, or a nil array.
    Get { queue: QueueName<'a>, name: &'a [u8] },
    /// → how many were removed.
    Delete { queue: QueueName<'a>, names: &'a [&'a [u8]] },
    /// → rows, in the order of their names.
    List {
        queue: QueueName<'a>,
        /// Names greater than this one.
        after: Option<&'a [u8]>,
        /// Only names that match this glob.
        pattern: Option<&'a [u8]>,
        /// 1 to 10,000.
        count: u32,
    },
    /// → 1 or 0.
    Pause {
        queue: QueueName<'a>,
        name: &'a [u8],
        /// For this many ms, at least 1; otherwise until it is resumed.
        for_ms: Option<u64>,
    },
    /// → 1 or 0.
    Resume { queue: QueueName<'a>, name: &'a [u8] },
    /// → the id, or nil.
    Run {
        queue: QueueName<'a>,
        name: &'a [u8],
        /// Whatever is open.
        force: bool,
    },
    /// → nominal instants.
    Next {
        queue: QueueName<'a>,
        name: &'a [u8],
        /// 1 to 1,000.
        count: u32,
    },
    /// → nominal instants, each with what the clocks show.
    Explain {
        rule: AskedRule<'a>,
        /// The first instant to examine; now if absent.
        from: Option<Millis>,
        /// 1 to 1,000.
        count: u32,
    },
    /// → names of zones.
    Zones { pattern: Option<&'a [u8]> },
}

impl<'a> Scheduling<'a> {
    /// The queue that it names.
    pub fn queue(&self) -> Option<QueueName<'a>> {
        match *self {
            Scheduling::Set(ref set) => Some(set.queue),
            Scheduling::Get { queue, .. }
            | Scheduling::Delete { queue, .. }
            | Scheduling::List { queue, .. }
            | Scheduling::Pause { queue, .. }
            | Scheduling::Resume { queue, .. }
            | Scheduling::Run { queue, .. }
            | Scheduling::Next { queue, .. } => Some(queue),
            Scheduling::Explain { .. } | Scheduling::Zones { .. } => None,
        }
    }

    /// Whether it looks and changes nothing.
    pub fn reads(&self) -> bool {
        match self {
            Scheduling::Set(_)
            | Scheduling::Delete { .. }
            | Scheduling::Pause { .. }
            | Scheduling::Resume { .. }
            | Scheduling::Run { .. } => false,
            Scheduling::Get { .. }
            | Scheduling::List { .. }
            | Scheduling::Next { .. }
            | Scheduling::Explain { .. }
            | Scheduling::Zones { .. } => true,
        }
    }
}

/// All of a schedule, as GET shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleView<'a> {
    pub name: &'a [u8],
    pub body: &'a [u8],
    pub state: ScheduleState,
    pub definition: &'a Definition,
    /// Occurrences that RUNS leaves; none without.
    pub runs_left: Option<u64>,
    /// When SET last changed it.
    pub changed: Millis,
    /// None if it is done, or paused without an end.
    pub next: Option<Coming>,
    /// The nominal instant of the newest occurrence, and when it was made.
    pub last: Option<(Millis, Millis)>,
    /// The id of the newest occurrence, those of RUN included.
    pub last_id: Option<Vec<u8>>,
    /// The ids of those that are open, oldest first.
    pub open: Vec<Vec<u8>>,
    pub pause: Pause,
    pub obstacle: Option<Obstacle>,
    pub outcomes: Outcomes,
}

/// A row of LIST.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleRow<'a> {
    pub name: &'a [u8],
    pub state: ScheduleState,
    pub rule: &'a Rule,
    pub next: Option<Millis>,
    pub last: Option<Millis>,
}

/// How many schedules there are, all queues.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ScheduleCounts {
    pub active: u64,
    pub paused: u64,
    pub held: u64,
    pub done: u64,
    /// When the next occurrence is due; one that is held is passed over.
    pub next_due: Option<Millis>,
}

impl ScheduleCounts {
    pub fn all(&self) -> u64 {
        self.active + self.paused + self.held + self.done
    }
}

/// The effect of new time-zone tables.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ZonesChange {
    /// Schedules whose next occurrence was moved.
    pub moved: u64,
    /// Schedules whose zone is not in the tables, or whose pattern is invalid.
    pub unknown: u64,
}
