//! Groups: jobs of one queue with the same key, such as a customer. They share the front of the queue.
//!
//! A group is there while one of its jobs is, or something is set for it; nobody makes or removes one.

use crate::engine::model::queue_settings::{Later, Pause, QueueSettings, Setting};
use crate::engine::model::terms::{JobState, QueueName};
use crate::limits::{GROUP_RATE_SPAN_MS_MAX, RATE_MAX};
use crate::time::{Millis, Written};
use crate::words::words;

/// The span of a rate that names none, ms.
const SECOND_MS: u32 = 1_000;

/// Running leases, for each of its weight, with which a group comes behind those that have fewer.
pub const LEASES_PER_TIER: u64 = 8;

/// The name of a group that a schedule gives its jobs, or none.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct OwnGroup(Later<Box<[u8]>>);

impl OwnGroup {
    /// No group; no allocation.
    pub const NONE: OwnGroup = OwnGroup(Later(None));

    /// The name.
    pub fn get(&self) -> Option<&[u8]> {
        self.0.0.as_deref()
    }
}

impl From<Option<&[u8]>> for OwnGroup {
    fn from(name: Option<&[u8]>) -> OwnGroup {
        OwnGroup(Later(name.map(Box::from)))
    }
}

words! {
    /// Whether a job that waits for its next attempt lets others of its group pass.
    #[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
    pub enum GroupRetry {
        /// It does.
        #[default]
        Pass = "pass",
        /// It counts for `group-max-leased` until it has ended, and comes before those that were never handed out.
        Block = "block",
    }
}

/// Most deliveries of a group in any span, evenly spaced.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GroupRate {
    /// Up to [`RATE_MAX`]; 0 for no limit.
    pub count: u32,
    /// 1 s to [`GROUP_RATE_SPAN_MS_MAX`].
    pub span_ms: u32,
}

impl GroupRate {
    /// No limit.
    pub const NONE: GroupRate = GroupRate { count: 0, span_ms: SECOND_MS };

    /// Whether its numbers are in range; no limit is written in one way alone.
    pub fn holds(self) -> bool {
        let spans = u64::from(SECOND_MS)..=GROUP_RATE_SPAN_MS_MAX;
        let limited = self.count > 0 && spans.contains(&self.span_ms.into());
        self == GroupRate::NONE || limited && self.count <= RATE_MAX
    }
}

/// As users write it: `5`, `100/1m`.
impl std::fmt::Display for GroupRate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.span_ms {
            SECOND_MS => write!(f, "{}", self.count),
            ms => write!(f, "{}/{}", self.count, Written(ms.into())),
        }
    }
}

/// The settings of one group.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash, Debug)]
pub struct GroupSettings {
    /// Jobs of a stint, and its share of consumers, 1 to 1,000; the queue's if absent.
    pub weight: Option<u32>,
    /// Most leases that run at once, 0 for no limit; the queue's if absent.
    pub max_leased: Option<u32>,
    /// The queue's if absent.
    pub retry: Option<GroupRetry>,
    /// The queue's if absent.
    pub rate: Later<GroupRate>,
    /// Most delayed, ready and leased jobs, 0 for no limit; the queue's if absent.
    pub max_jobs: Later<u32>,
    /// Whether none of its jobs may be taken.
    pub pause: Pause,
}

impl GroupSettings {
    /// Both together, `newer` where both set the same; the pause stays.
    pub fn merged(self, newer: GroupSettings) -> GroupSettings {
        GroupSettings {
            weight: newer.weight.or(self.weight),
            max_leased: newer.max_leased.or(self.max_leased),
            retry: newer.retry.or(self.retry),
            rate: Later(newer.rate.0.or(self.rate.0)),
            max_jobs: Later(newer.max_jobs.0.or(self.max_jobs.0)),
            pause: self.pause,
        }
    }

    /// The pause alone.
    pub fn paused(pause: Pause) -> GroupSettings {
        GroupSettings { pause, ..GroupSettings::default() }
    }

    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == GroupSettings::default()
    }
}

/// Those that a queue has, too.
impl From<GroupSettings> for QueueSettings {
    fn from(of: GroupSettings) -> QueueSettings {
        QueueSettings {
            group_weight: Later(of.weight),
            group_max_leased: Later(of.max_leased),
            group_retry: Later(of.retry),
            group_rate: of.rate,
            group_max_jobs: of.max_jobs,
            ..QueueSettings::default()
        }
    }
}

words! {
    /// The orders of `DELAY.GROUPS`. By name it is ascending, by a number descending and then by name.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum GroupOrder {
        Name = "name",
        Ready = "ready",
        Delayed = "delayed",
        Leased = "leased",
        Dead = "dead",
        /// Age of the oldest ready job; groups without one come last.
        Age = "age",
    }
}

/// `DELAY.GROUPS`.
#[derive(Clone, Copy, Debug)]
pub struct ListGroups<'a> {
    pub queue: QueueName<'a>,
    /// Only names that match this glob.
    pub pattern: Option<&'a [u8]>,
    pub order: GroupOrder,
    /// Most rows, 1 to 1,000.
    pub count: u32,
    /// Only names after this one; no such group need exist.
    pub after: Option<&'a [u8]>,
    /// Only groups that are closed and have ready jobs.
    pub closed: bool,
}

/// A request about groups.
#[derive(Clone, Debug)]
pub enum Grouping<'a> {
    /// `DELAY.GROUPS` → rows of groups.
    List(ListGroups<'a>),
    /// `DELAY.STATS` with GROUP → a view or a nil array.
    Stats { queue: QueueName<'a>, group: &'a [u8] },
    /// `DELAY.CONFIG GET` with GROUP → settings as they hold for it.
    Settings { queue: QueueName<'a>, group: &'a [u8], only: Option<Setting> },
    /// `DELAY.CONFIG SET` with GROUP → ok. What is not said stays.
    Configure { queue: QueueName<'a>, group: &'a [u8], changes: GroupSettings },
    /// `DELAY.CONFIG RESET` with GROUP → ok. A pause stays.
    Unconfigure { queue: QueueName<'a>, group: &'a [u8] },
    /// `DELAY.PAUSE` with GROUP → ok.
    Pause {
        queue: QueueName<'a>,
        group: &'a [u8],
        /// For this many ms, at least 1; otherwise until it is resumed.
        for_ms: Option<u64>,
    },
    /// `DELAY.PURGE` with GROUP → how many jobs were removed. Not in a transaction.
    Purge { queue: QueueName<'a>, group: &'a [u8], states: [bool; 4] },
    /// `DELAY.RESUME` with GROUP → ok.
    Resume { queue: QueueName<'a>, group: &'a [u8] },
}

impl<'a> Grouping<'a> {
    pub fn queue(&self) -> QueueName<'a> {
        match *self {
            Grouping::List(ListGroups { queue, .. })
            | Grouping::Stats { queue, .. }
            | Grouping::Settings { queue, .. }
            | Grouping::Configure { queue, .. }
            | Grouping::Unconfigure { queue, .. }
            | Grouping::Pause { queue, .. }
            | Grouping::Purge { queue, .. }
            | Grouping::Resume { queue, .. } => queue,
        }
    }

    /// Whether it changes nothing.
    pub fn only_reads(&self) -> bool {
        matches!(self, Grouping::List(_) | Grouping::Stats { .. } | Grouping::Settings { .. })
    }
}

words! {
    /// Whether jobs of a group may be taken, or why not.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
    pub enum GroupState {
        Open = "open",
        Paused = "paused",
        /// It has as many leases running as it may.
        Limit = "limit",
        /// As many wait for their next attempt as may be at work, and those go first.
        Retry = "retry",
        /// Its rate lets none go yet.
        Rate = "rate",
    }
}

/// A group as `DELAY.GROUPS` shows it, as it was when the walk came by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct GroupRow {
    pub name: Box<[u8]>,
    /// Jobs, in the order of [`JobState::ALL`].
    pub counts: [u64; 4],
    pub state: GroupState,
    /// Age of its oldest ready job, ms.
    pub oldest_ready_age_ms: Option<u64>,
}

impl GroupRow {
    pub fn count(&self, state: JobState) -> u64 {
        self.counts[state as usize]
    }
}

/// A group, as `DELAY.STATS` with GROUP shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupView {
    pub row: GroupRow,
    /// As they hold: its own, else the queue's.
    pub weight: u32,
    pub max_leased: u32,
    pub retry: GroupRetry,
    pub rate: GroupRate,
    pub max_jobs: u32,
    /// Jobs that wait for their next attempt.
    pub waiting_retries: u64,
    /// When its pause ends, or its rate lets the next one go, whichever is later.
    pub opens: Option<Millis>,
}
