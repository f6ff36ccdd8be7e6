//! Statistics of a queue.

use crate::engine::model::holder::LastUse;
use crate::time::Millis;

/// A queue's statistics, as `DELAY.STATS` shows them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StatsView {
    /// Jobs that are not due yet.
    pub delayed: u64,
    /// Jobs that wait for a consumer.
    pub ready: u64,
    /// Jobs with a consumer.
    pub leased: u64,
    pub dead: u64,
    /// Bytes held for the queue's jobs.
    pub bytes: u64,
    /// Blocked consumers.
    pub waiters: u64,
    /// `no`, `in`, `out` or `all`.
    pub paused: &'static str,
    pub next_due: Option<Millis>,
    /// Age of the oldest ready job from its due time, ms.
    pub oldest_ready_age_ms: Option<u64>,
    /// Lateness p50, p99, p99.9 and maximum, µs.
    pub lateness_us: [u64; 4],
    pub totals: Totals,
    pub schedules: u64,
    /// Occurrences that its schedules made, and that they missed; removed ones included.
    pub made: u64,
    pub missed: u64,
    /// Groups with a job, or with something set.
    pub groups: u64,
    /// Those of them that are closed and have ready jobs.
    pub groups_closed: u64,
    /// The last time that a client was given a job, on this node and since its start.
    pub last_reserve: Option<LastUse>,
    /// The same for acknowledging one.
    pub last_ack: Option<LastUse>,
}

impl StatsView {
    /// Jobs taken for good by POP, a list pop, a move or NOACK: of all that was added, what is not there and
    /// has gone in no other way. It needs no count of its own, so that journals of all versions know it.
    pub fn popped(&self) -> u64 {
        let there = self.delayed + self.ready + self.leased + self.dead;
        let Totals { added, acked, expired, deleted, dropped, .. } = self.totals;
        added.saturating_sub(there + acked + expired + deleted + dropped)
    }
}

/// All-time totals of a queue; they only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Totals {
    pub added: u64,
    pub delivered: u64,
    pub acked: u64,
    /// Counted and uncounted NACKs.
    pub nacked: u64,
    /// Leases that ran out.
    pub timeouts: u64,
    /// Leases that ended with their connection.
    pub lost: u64,
    /// Jobs whose TTL passed.
    pub expired: u64,
    /// Jobs removed by DEL, CANCEL, REPLACE, PURGE.
    pub deleted: u64,
    /// Jobs that became dead letters.
    pub died: u64,
    /// Dead letters that left by age or number.
    pub dropped: u64,
}
