//! The settings of one queue: its policies and limits, and its pauses.

use std::hash::{Hash, Hasher};
use std::mem::size_of;

use crate::engine::model::group::{GroupRate, GroupRetry};
use crate::engine::model::policy::{Backoff, Steps};
use crate::limits;
use crate::time::{Micros, Millis, Written};
use crate::words::words;

/// The policies and limits that are set for a queue; none means the server's default.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub struct QueueSettings {
    /// Deliveries before a new job is dead; 0 no limit.
    pub attempts: Option<u32>,
    /// The delay after a failed delivery of a new job.
    pub backoff: Option<Backoff>,
    /// The lease of a delivery for which neither the call nor the job names one, ms, at least 1.
    pub lease_ms: Option<u64>,
    /// The priority of a new job, 0 to 9.
    pub priority: Option<u8>,
    /// A new job expires this long after its due time, ms; 0 never.
    pub ttl_ms: Option<u64>,
    /// Most delayed, ready and leased jobs together; 0 no limit.
    pub max_jobs: Option<u64>,
    /// Most leases that run at once; 0 no limit.
    pub max_leased: Option<u64>,
    /// Most deliveries in any 1,000 ms, up to 1,000,000; 0 no limit.
    pub rate: Option<u32>,
    /// How long a job that dies is kept, ms, at least 1.
    pub dead_retention_ms: Option<u64>,
    /// How many dead jobs are kept; the oldest leave first.
    pub dead_max: Option<u64>,
    /// Where jobs that fall due enter the order of the ready ones.
    pub due_enters: Option<Side>,
    /// Jobs in a stint of each group, and its share of consumers, 1 to 1,000.
    pub group_weight: Later<u32>,
    /// Most leases of each group that run at once; 0 no limit.
    pub group_max_leased: Later<u32>,
    /// Whether a job of a group that waits for its next attempt lets others pass.
    pub group_retry: Later<GroupRetry>,
    /// Most deliveries of each group in a span.
    pub group_rate: Later<GroupRate>,
    /// Most delayed, ready and leased jobs of each group; 0 no limit.
    pub group_max_jobs: Later<u32>,
}

words! {
    /// One of the settings, by name, in the order in which they are shown; each one's place here is its bit in
    /// facts and images, so a new one comes last.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Setting {
        Attempts = "attempts",
        Backoff = "backoff",
        Lease = "lease",
        Priority = "priority",
        Ttl = "ttl",
        MaxJobs = "max-jobs",
        MaxLeased = "max-leased",
        Rate = "rate",
        DeadRetention = "dead-retention",
        DeadMax = "dead-max",
        DueEnters = "due-enters",
        GroupWeight = "group-weight",
        GroupMaxLeased = "group-max-leased",
        GroupRetry = "group-retry",
        GroupRate = "group-rate",
        GroupMaxJobs = "group-max-jobs",
    }
}

impl Setting {
    /// Whether it can be set for one group.
    pub fn is_of_groups(self) -> bool {
        use Setting::{GroupMaxJobs, GroupMaxLeased, GroupRate, GroupRetry, GroupWeight};
        matches!(self, GroupWeight | GroupMaxLeased | GroupRetry | GroupRate | GroupMaxJobs)
    }

    /// Its value, as users write it; none if it is not set.
    pub fn written(self, of: &QueueSettings) -> Option<String> {
        let span = |ms: Option<u64>| ms.map(|ms| Written(ms).to_string());
        let count = |count: Option<u64>| count.map(|count| count.to_string());
        match self {
            Setting::Attempts => count(of.attempts.map(u64::from)),
            Setting::Backoff => of.backoff.as_ref().map(Backoff::to_string),
            Setting::Lease => span(of.lease_ms),
            Setting::Priority => count(of.priority.map(u64::from)),
            Setting::Ttl => span(of.ttl_ms),
            Setting::MaxJobs => count(of.max_jobs),
            Setting::MaxLeased => count(of.max_leased),
            Setting::Rate => count(of.rate.map(u64::from)),
            Setting::DeadRetention => span(of.dead_retention_ms),
            Setting::DeadMax => count(of.dead_max),
            Setting::DueEnters => of.due_enters.map(|side| side.word().to_string()),
            Setting::GroupWeight => count(of.group_weight.0.map(u64::from)),
            Setting::GroupMaxLeased => count(of.group_max_leased.0.map(u64::from)),
            Setting::GroupRetry => of.group_retry.0.map(|retry| retry.word().to_string()),
            Setting::GroupRate => of.group_rate.0.map(|rate| rate.to_string()),
            Setting::GroupMaxJobs => count(of.group_max_jobs.0.map(u64::from)),
        }
    }

    pub(in crate::engine) fn is_set(self, of: &QueueSettings) -> bool {
        match self {
            Setting::Attempts => of.attempts.is_some(),
            Setting::Backoff => of.backoff.is_some(),
            Setting::Lease => of.lease_ms.is_some(),
            Setting::Priority => of.priority.is_some(),
            Setting::Ttl => of.ttl_ms.is_some(),
            Setting::MaxJobs => of.max_jobs.is_some(),
            Setting::MaxLeased => of.max_leased.is_some(),
            Setting::Rate => of.rate.is_some(),
            Setting::DeadRetention => of.dead_retention_ms.is_some(),
            Setting::DeadMax => of.dead_max.is_some(),
            Setting::DueEnters => of.due_enters.is_some(),
            Setting::GroupWeight => of.group_weight.0.is_some(),
            Setting::GroupMaxLeased => of.group_max_leased.0.is_some(),
            Setting::GroupRetry => of.group_retry.0.is_some(),
            Setting::GroupRate => of.group_rate.0.is_some(),
            Setting::GroupMaxJobs => of.group_max_jobs.0.is_some(),
        }
    }
}

words! {
    /// An end of the order of a queue's ready jobs.
    #[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
    pub enum Side {
        /// The tail: POP and RESERVE take from the left.
        #[default]
        Right = "right",
        /// The head: POP and RESERVE take from the right.
        Left = "left",
    }
}

impl QueueSettings {
    /// Those of a queue for which nothing is set, on a server with this lease: all of them.
    pub(in crate::engine) fn defaults(lease_ms: u64) -> QueueSettings {
        QueueSettings {
            attempts: Some(limits::ATTEMPTS_DEFAULT),
            backoff: Some(Backoff::default()),
            lease_ms: Some(lease_ms),
            priority: Some(limits::PRIORITY_DEFAULT),
            ttl_ms: Some(0),
            max_jobs: Some(0),
            max_leased: Some(0),
            rate: Some(0),
            dead_retention_ms: Some(limits::DEAD_RETENTION_MS_DEFAULT),
            dead_max: Some(limits::DEAD_COUNT_DEFAULT),
            due_enters: Some(Side::default()),
            group_weight: Later(Some(limits::GROUP_WEIGHT_DEFAULT)),
            group_max_leased: Later(Some(0)),
            group_retry: Later(Some(GroupRetry::Pass)),
            group_rate: Later(Some(GroupRate::NONE)),
            group_max_jobs: Later(Some(0)),
        }
    }

    pub fn is_empty(&self) -> bool {
        *self == QueueSettings::default()
    }

    /// Both settings together, `newer` where both set the same.
    pub fn merged(&self, newer: &QueueSettings) -> QueueSettings {
        QueueSettings {
            attempts: newer.attempts.or(self.attempts),
            backoff: newer.backoff.clone().or_else(|| self.backoff.clone()),
            lease_ms: newer.lease_ms.or(self.lease_ms),
            priority: newer.priority.or(self.priority),
            ttl_ms: newer.ttl_ms.or(self.ttl_ms),
            max_jobs: newer.max_jobs.or(self.max_jobs),
            max_leased: newer.max_leased.or(self.max_leased),
            rate: newer.rate.or(self.rate),
            dead_retention_ms: newer.dead_retention_ms.or(self.dead_retention_ms),
            dead_max: newer.dead_max.or(self.dead_max),
            due_enters: newer.due_enters.or(self.due_enters),
            group_weight: Later(newer.group_weight.0.or(self.group_weight.0)),
            group_max_leased: Later(newer.group_max_leased.0.or(self.group_max_leased.0)),
            group_retry: Later(newer.group_retry.0.or(self.group_retry.0)),
            group_rate: Later(newer.group_rate.0.or(self.group_rate.0)),
            group_max_jobs: Later(newer.group_max_jobs.0.or(self.group_max_jobs.0)),
        }
    }

    /// Bytes counted for them as memory.
    pub fn memory_bytes(&self) -> u64 {
        let steps = match self.backoff.as_ref().map(|backoff| &backoff.steps) {
            Some(Steps::Ladder(steps)) => 16 + 8 * steps.len(),
            Some(Steps::Exponential { .. }) | None => 0,
        };
        (size_of::<QueueSettings>() + 16 + steps) as u64
    }
}

/// Whether, and until when, one direction of a queue is closed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub enum Pause {
    #[default]
    None,
    /// Until this millisecond begins; a fact records that it ended.
    Until(Millis),
    /// Until it is resumed.
    Endless,
}

impl Pause {
    /// Whether it holds at `now`. One that is over may not have been ended by its fact yet.
    pub fn is_on(self, now: Micros) -> bool {
        match self {
            Pause::None => false,
            Pause::Until(end) => end > now.floor(),
            Pause::Endless => true,
        }
    }

    /// When it ends by itself.
    pub fn end(self) -> Option<Millis> {
        match self {
            Pause::Until(end) => Some(end),
            Pause::None | Pause::Endless => None,
        }
    }

    /// As a number: 0 none, the greatest endless, otherwise the end.
    pub(in crate::engine) fn number(self) -> u64 {
        match self {
            Pause::None => 0,
            Pause::Until(end) => end.0,
            Pause::Endless => u64::MAX,
        }
    }

    pub(in crate::engine) fn of_number(number: u64) -> Pause {
        match number {
            0 => Pause::None,
            u64::MAX => Pause::Endless,
            end => Pause::Until(Millis(end)),
        }
    }
}

/// Both directions of a queue.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub struct Pauses {
    /// Adding.
    pub into: Pause,
    /// Taking.
    pub out: Pause,
}

impl Pauses {
    /// Whether one is noted, be it over by now.
    pub fn any(self) -> bool {
        self != Pauses::default()
    }

    /// When the next of them ends by itself.
    pub fn next_end(self) -> Option<Millis> {
        [self.into, self.out].into_iter().filter_map(Pause::end).min()
    }

    /// Without those that are over at `now`.
    pub fn still(self, now: Micros) -> Pauses {
        let still = |pause: Pause| if pause.is_on(now) { pause } else { Pause::None };
        Pauses { into: still(self.into), out: still(self.out) }
    }

    /// STATS's word for them: `no`, `in`, `out` or `all`.
    pub fn word(self, now: Micros) -> &'static str {
        match (self.into.is_on(now), self.out.is_on(now)) {
            (false, false) => "no",
            (true, false) => "in",
            (false, true) => "out",
            (true, true) => "all",
        }
    }
}

/// A value that former versions did not know. It may be absent, and then adds nothing to a digest: a node whose version
/// does not know it computes the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Later<T>(pub Option<T>);

impl<T> Default for Later<T> {
    fn default() -> Later<T> {
        Later(None)
    }
}

impl<T: Hash> Hash for Later<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.iter().for_each(|value| value.hash(state));
    }
}
