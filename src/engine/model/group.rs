//! Groups: jobs of one queue with the same key, such as a customer. They share the front of the queue.
//!
//! A group is there while one of its jobs is, or something is set for it; nobody makes or removes one.

#![allow(missing_docs, reason = "a field whose name says what it is has none")]

use crate::engine::model::later::Later;
use crate::engine::model::queue_settings::Setting;
use crate::engine::model::request::{JobState, QueueName};
use crate::words::words;

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

/// What is set for one group.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash, Debug)]
pub struct GroupSettings {
    /// Jobs of a stint, and its share of consumers, 1 to 1,000; the queue's if absent.
    pub weight: Option<u32>,
}

impl GroupSettings {
    /// Both together, `newer` where both set the same.
    pub fn merged(self, newer: GroupSettings) -> GroupSettings {
        GroupSettings { weight: newer.weight.or(self.weight) }
    }

    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == GroupSettings::default()
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
    /// `DELAY.CONFIG RESET` with GROUP → ok.
    Unconfigure { queue: QueueName<'a>, group: &'a [u8] },
}

impl<'a> Grouping<'a> {
    pub fn queue(&self) -> QueueName<'a> {
        match *self {
            Grouping::List(ListGroups { queue, .. })
            | Grouping::Stats { queue, .. }
            | Grouping::Settings { queue, .. }
            | Grouping::Configure { queue, .. }
            | Grouping::Unconfigure { queue, .. } => queue,
        }
    }

    /// Whether it changes nothing.
    pub fn only_reads(&self) -> bool {
        !matches!(self, Grouping::Configure { .. } | Grouping::Unconfigure { .. })
    }
}

/// A group as `DELAY.GROUPS` shows it, as it was when the walk came by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupRow {
    pub name: Box<[u8]>,
    /// Jobs, in the order of [`JobState::ALL`].
    pub counts: [u64; 4],
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
    /// As it holds: its own, else the queue's.
    pub weight: u32,
}
