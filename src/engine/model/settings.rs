//! Inputs of the engine from outside.

use crate::engine::model::request::When;
use crate::error::Error;
use crate::limits;
use crate::time::{Micros, Millis, Written};

/// Inputs of the engine from outside. Read when deciding, never when applying.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Key of the hash of ids and names, which defines the order of SCAN. An input, so that the engine's answers depend
    /// on its inputs alone. A standalone server has that of its journal and a node that of its cluster, so that a
    /// cursor continues after a restart and at the next leader.
    pub hash_seed: u64,
    /// Tokens and server-made ids are above this; see [`floor_at`](super::token::floor_at).
    pub token_floor: u64,
    pub delay_ms_max: u64,
    pub lease_ms_default: u64,
    pub lease_ms_max: u64,
    /// `maxmemory`, bytes; 0 for no limit.
    pub memory_bytes_max: u64,
    /// What other partitions of the process use of `maxmemory`, bytes; it is not part of the limit above.
    pub memory_bytes_beside: u64,
    /// Bytes that the process has resident over what `maxmemory` allows, whatever they are: while there are
    /// any, nothing is added.
    pub memory_bytes_over: u64,
    pub stats_retention_ms: u64,
    /// Queues whose minutes are kept for DELAY.HISTORY; with none, nor are those of all together.
    pub history_queues_max: u32,
    /// Bytes of freed jobs that make moving others together worthwhile.
    pub spare_bytes_min: usize,
    /// How long hardly any job comes or goes before others are moved together, ms.
    pub spare_quiet_ms: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            hash_seed: 0,
            token_floor: 0,
            delay_ms_max: limits::DELAY_MS_DEFAULT,
            lease_ms_default: limits::LEASE_MS_DEFAULT,
            lease_ms_max: limits::LEASE_MS_MAX_DEFAULT,
            memory_bytes_max: 0,
            memory_bytes_beside: 0,
            memory_bytes_over: 0,
            stats_retention_ms: limits::STATS_RETENTION_MS_DEFAULT,
            history_queues_max: 0,
            spare_bytes_min: limits::SPARE_BYTES_MIN,
            spare_quiet_ms: limits::SPARE_QUIET_MS,
        }
    }
}

impl Settings {
    /// When `when` is, which users know as `argument`; in the past is now.
    pub(in crate::engine) fn resolve(
        &self,
        argument: &'static str,
        when: When,
        at: Micros,
    ) -> Result<Millis, Error> {
        let (now, max_ms) = (at.floor(), self.delay_ms_max);
        let (due, asked_ms) = match when {
            When::In(0) => (now, 0),
            When::In(ms) => (at.ceil().plus(ms), ms),
            When::At(at) => (Millis(at).max(now), at.saturating_sub(now.0)),
        };
        if asked_ms > max_ms {
            // A span of the size of a unix time in ms of these decades (2001 to 2052) is one.
            let looks_absolute = matches!(when, When::In(ms) if (1_000_000_000_000..2_600_000_000_000).contains(&ms));
            let hint = if looks_absolute { "; an absolute time is written @<unix-ms>" } else { "" };
            return Err(Error::DelayTooLong {
                argument,
                asked_ms,
                max_ms,
                max: Written(max_ms),
                hint,
            });
        }
        Ok(due)
    }

    /// Whether a lease, which users know as `argument`, is not too long.
    pub(in crate::engine) fn check_lease(
        &self,
        argument: &'static str,
        asked_ms: u64,
    ) -> Result<(), Error> {
        let max_ms = self.lease_ms_max;
        if asked_ms > max_ms {
            return Err(Error::LeaseTooLong { argument, asked_ms, max_ms });
        }
        Ok(())
    }
}
