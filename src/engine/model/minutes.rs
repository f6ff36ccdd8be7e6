//! What happened in each minute of the last day: what is kept of one, and what `DELAY.HISTORY` asks and answers.

use crate::engine::model::across::Readable;
use crate::ids::Db;
use crate::time::{Micros, Millis};

pub const MINUTE_MS: u64 = 60_000;

/// The counts of one minute. They stop at 4 billion, and lateness stops at 71 minutes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Minute {
    /// Which one, counted from 1970.
    pub at: u32,
    pub added: u32,
    pub delivered: u32,
    pub acked: u32,
    /// NACKs, leases that ran out, and those that ended with their connection.
    pub failed: u32,
    pub died: u32,
    /// Jobs by state when it ended: delayed, ready, leased, dead.
    pub jobs: [u32; 4],
    /// Lateness p50 and p99 of its deliveries, µs; 0 without any.
    pub lateness_us: [u32; 2],
}

// A day of 200 queues and of all together in 14 MB.
const _: () = assert!(size_of::<Minute>() <= 48);

impl Minute {
    /// The last one there is, in the year 6053: so that none behind it overflows.
    pub const LAST: u32 = i32::MAX as u32;

    pub fn of(now: Micros) -> u32 {
        (now.floor().0 / MINUTE_MS).min(Minute::LAST.into()) as u32
    }

    /// Whether nothing happened in it.
    pub fn is_quiet(&self) -> bool {
        self.added | self.delivered | self.acked | self.failed | self.died == 0
    }
}

/// `DELAY.HISTORY`.
#[derive(Clone, Copy, Debug)]
pub struct ListMinutes<'a> {
    pub db: Db,
    /// The queue; all queues of all databases together without one.
    pub queue: Option<&'a [u8]>,
    /// The queues that are shown.
    pub readable: Readable<'a>,
    /// How far back, minutes; 1 to 1,440.
    pub last: u32,
    /// Minutes of a row, 1 to 1,440.
    pub step: u32,
}

/// A row of `DELAY.HISTORY`: one minute, or some together.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Span {
    /// When it begins.
    pub at: Millis,
    pub added: u64,
    pub delivered: u64,
    pub acked: u64,
    pub failed: u64,
    pub died: u64,
    /// Jobs by state when it ended.
    pub jobs: [u64; 4],
    /// Lateness p50 and p99, µs. For several minutes p50 is their mean weighted by deliveries, and p99 is that of the worst
    /// minute.
    pub lateness_us: [u64; 2],
}

impl Span {
    /// Adds a minute, which is not before those added so far.
    pub fn add(&mut self, minute: &Minute) {
        let Minute { added, delivered, acked, failed, died, jobs, .. } = *minute;
        let [p50, p99] = minute.lateness_us.map(u64::from);
        let (before, more) = (self.delivered, u64::from(delivered));
        if more > 0 {
            let sum = u128::from(self.lateness_us[0]) * u128::from(before)
                + u128::from(p50) * u128::from(more);
            self.lateness_us =
                [(sum / u128::from(before + more)) as u64, self.lateness_us[1].max(p99)];
        }
        self.added += u64::from(added);
        self.delivered += more;
        self.acked += u64::from(acked);
        self.failed += u64::from(failed);
        self.died += u64::from(died);
        self.jobs = jobs.map(u64::from);
    }
}
