//! All counts as of one instant, which INFO and `/metrics` write each in its own
//! words.

use super::Counters;
use super::cluster::ClusterView;
use super::commands::CommandTotals;
use super::persistence::Persistence;
use super::rates;
use crate::engine::model::schedule::ScheduleCounts;
use crate::engine::observe::tally::Tally;
use crate::observe::commands::ErrorCounts;

/// Which tables of time zones are used.
#[derive(Clone, Debug, Default)]
pub struct ZonesFrom {
    /// Such as `2026e`; `unknown` for a folder that does not say.
    pub version: String,
    /// `bundled`, `system`, or a folder.
    pub source: String,
    /// That of the version.
    pub year: Option<u16>,
}

/// See the module. Plain data: it may be sent to another thread.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub now_us: u64,
    pub start_us: u64,
    /// By database.
    pub queues: [u64; 16],
    /// Delayed, ready, leased, dead.
    pub jobs: [u64; 4],
    pub waiters: u64,
    pub deadlines: u64,
    /// Queue names that are waited for.
    pub awaited: u64,
    pub journal_waiters: u64,
    /// As far as is known without looking at all queues.
    pub oldest_ready_age_ms: Option<u64>,
    pub oldest_lease_age_us: Option<u64>,
    pub next_wakeup_ms: Option<u64>,
    pub tally: Tally,
    /// p50, p99, p99.9, greatest.
    pub lateness_ever_us: [u64; 4],
    /// The same of the last minute.
    pub lateness_minute_us: [u64; 4],
    pub clients: u64,
    pub clients_max: u64,
    /// Clients that watch queues.
    pub watching: u64,
    /// Clients whose commands CLIENT PAUSE holds back.
    pub postponed: u64,
    /// Clients that have subscribed to something.
    pub subscribers: u64,
    /// Channels and patterns with subscribers.
    pub topics: [usize; 2],
    pub counters: Counters,
    pub rates: rates::Totals,
    pub commands: CommandTotals,
    pub errors: ErrorCounts,
    /// Denials of users: passwords, commands, keys, channels.
    pub denials: [u64; 4],
    pub engine_bytes: u64,
    /// Bytes that jobs take more once all have been delivered.
    pub lease_bytes: u64,
    pub clients_bytes: u64,
    pub memory_bytes_max: u64,
    /// What the other partitions of the process use of its memory, bytes, and how many connections they have.
    pub beside_bytes: u64,
    pub beside_clients: u64,
    pub clients_bytes_max: u64,
    pub memory_bytes_peak: u64,
    pub memory_bytes_resident: u64,
    /// In the system, in the program.
    pub processor_s: (f64, f64),
    pub journal: Persistence,
    pub turns: u64,
    pub schedules: ScheduleCounts,
    /// Groups of all queues.
    pub groups: u64,
    pub zones: ZonesFrom,
    pub clock_steps: u64,
    pub clock_ahead_us: u64,
    pub clock_doubted_us: u64,
    pub standstills: u64,
    pub standstill_us: u64,
    /// The state of the cluster, on a node of one.
    pub cluster: Option<Box<ClusterView>>,
}
