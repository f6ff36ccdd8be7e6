//! A job's policy: what is fixed when it is added and shared by all jobs added alike.

use std::fmt;

/// How long a failed delivery waits before the next one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Backoff {
    pub steps: Steps,
    /// Adds up to 20 %, derived from id and attempt, so that jobs that failed together come back apart.
    pub jitter: bool,
}

/// The steps of a backoff, in ms.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Steps {
    /// Step k applies after attempt k; the last repeats. 1 to 64 steps.
    Ladder(Box<[u64]>),
    /// `first × factor^(k-1)` after attempt k, at most `max`.
    Exponential {
        /// After the first attempt, ms.
        first: u64,
        /// Never more than this, ms.
        max: u64,
        /// At least 1.
        factor: u32,
    },
}

impl Default for Backoff {
    /// `exp:1s:1h~`
    fn default() -> Self {
        let steps = Steps::Exponential { first: 1_000, max: 3_600_000, factor: 2 };
        Backoff { steps, jitter: true }
    }
}

impl Backoff {
    /// How long it is at the most as it is written, bytes.
    pub fn written_bytes_max(&self) -> usize {
        // A number of 64 bits, its unit, and what parts it from the next.
        let numbers = match &self.steps {
            Steps::Ladder(steps) => steps.len(),
            Steps::Exponential { .. } => 3,
        };
        8 + numbers * 24
    }

    /// The wait in ms after `attempt` failed deliveries (from 1), without jitter. Saturates.
    pub fn base_ms(&self, attempt: u32) -> u64 {
        let step = attempt.saturating_sub(1);
        match &self.steps {
            Steps::Ladder(steps) => steps[(step as usize).min(steps.len() - 1)],
            Steps::Exponential { first, max, factor } => {
                let grown = u64::from(*factor).checked_pow(step);
                grown.and_then(|grown| first.checked_mul(grown)).unwrap_or(*max).min(*max)
            }
        }
    }

    /// The wait in ms after `attempt` failed deliveries of job `id`. The jitter of 0 to 20 % comes
    /// from id and attempt, not from chance, so that the engine stays a function of its inputs.
    pub fn wait_ms(&self, id: &[u8], attempt: u32) -> u64 {
        let base = self.base_ms(attempt);
        if !self.jitter {
            return base;
        }
        // FNV-1a, finished by a multiply-shift so that ids that differ in the last byte spread.
        let mut hash = 0xcbf2_9ce4_8422_2325u64 ^ u64::from(attempt);
        for byte in id {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let part = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44; // 20 bits
        let extra = (u128::from(base) * u128::from(part) / (5 << 20)) as u64;
        base.saturating_add(extra)
    }
}

impl fmt::Display for Backoff {
    /// As ADD writes it, in the largest unit that divides each duration.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.steps {
            Steps::Ladder(steps) => {
                for (i, step) in steps.iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    write!(f, "{comma}{}", crate::time::Written(*step))?;
                }
            }
            Steps::Exponential { first, max, factor } => {
                write!(f, "exp:{}:{}", crate::time::Written(*first), crate::time::Written(*max))?;
                if *factor != 2 {
                    write!(f, ":{factor}")?;
                }
            }
        }
        if self.jitter { f.write_str("~") } else { Ok(()) }
    }
}

/// The values fixed at ADD, except for the priority, which NACK can change.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Policy {
    /// Deliveries before the job is dead, 0 for no limit.
    pub attempts: u32,
    /// The delay after a failed delivery.
    pub backoff: Backoff,
    /// The lease that ADD named, ms; 0 for none (then the queue's or the server's holds at delivery).
    pub lease_ms: u64,
    /// The job expires this long after its due time, ms; 0 never.
    pub ttl_ms: u64,
    /// The id stays taken this long after the job ended, ms; 0 not at all.
    pub unique_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ladder_repeats_its_last_step() {
        let ladder = Backoff { steps: Steps::Ladder([1, 5, 10].into()), jitter: false };
        let waits: Vec<u64> = (1..=5).map(|attempt| ladder.wait_ms(b"x", attempt)).collect();
        assert_eq!(waits, [1, 5, 10, 10, 10]);
    }

    #[test]
    fn exponential_stops_at_its_maximum_without_overflow() {
        let backoff = Backoff::default();
        assert_eq!(backoff.base_ms(1), 1_000);
        assert_eq!(backoff.base_ms(4), 8_000);
        assert_eq!(backoff.base_ms(13), 3_600_000);
        assert_eq!(backoff.base_ms(u32::MAX), 3_600_000);
    }

    #[test]
    fn jitter_adds_up_to_a_fifth_and_spreads() {
        let backoff = Backoff { steps: Steps::Ladder([10_000].into()), jitter: true };
        let waits: Vec<u64> =
            (0..1000u32).map(|n| backoff.wait_ms(format!("job:{n}").as_bytes(), 1)).collect();
        assert!(waits.iter().all(|wait| (10_000..12_000).contains(wait)));
        let early = waits.iter().filter(|wait| **wait < 11_000).count();
        assert!((400..600).contains(&early), "{early} of 1000 in the lower half");
    }

    #[test]
    fn is_written_as_add_reads_it() {
        assert_eq!(Backoff::default().to_string(), "exp:1s:1h~");
        let ladder = Backoff { steps: Steps::Ladder([1_500, 60_000].into()), jitter: false };
        assert_eq!(ladder.to_string(), "1500ms,1m");
    }
}
