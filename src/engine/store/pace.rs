//! How a queue's rate is kept. Read only when deciding.
//!
//! A rate of R deliveries in any 1,000 ms is kept by one instant, the *theoretical* one of the next delivery: each
//! delivery moves it on by a step, and none may come earlier than [`EARLY_US`] before it. So a late wake-up, or one in
//! whole milliseconds only, catches up within that span, and the step compensates for it:
//!
//! ```text
//! step = (1 s + EARLY) / R       n deliveries within less than 1 s: (n − 1) step − EARLY < 1 s, so n ≤ R
//! R = 1,000: a step of 1,005 µs; after a pause 5 at once, then one every 1,005 µs: 995 in a second
//! ```

use crate::time::Micros;

/// How early a delivery may come before its theoretical instant, µs. Late wake-ups up to this are compensated; it costs
/// as large a part of a second of the rate, half a percent.
const EARLY_US: u128 = 5_000;

const SECOND_US: u128 = 1_000_000;
const NANOS: u128 = 1_000;

/// How much of its rate a queue has used. Volatile: it starts again with the process.
#[derive(Clone, Copy, Default, Debug)]
pub struct Pace {
    /// The theoretical instant of the next delivery, ns: whole µs would lose rates near a million.
    next_ns: u128,
    last: Micros,
}

impl Pace {
    /// The pace of a rate that replaces another one at `now`. Deliveries counted by the other one are not given back:
    /// not even in this very µs.
    pub(in crate::engine) fn begun(now: Micros) -> Pace {
        Pace { next_ns: 0, last: Micros(now.0 + 1) }
    }

    /// When the next delivery may be.
    pub(in crate::engine) fn allowed(self) -> Micros {
        let early = self.next_ns.saturating_sub(EARLY_US * NANOS);
        Micros(early.div_ceil(NANOS) as u64)
    }

    pub(in crate::engine) fn take(&mut self, rate: u32, now: Micros) {
        self.next_ns = self.next_ns.max(u128::from(now.0) * NANOS) + step_ns(rate);
        self.last = self.last.max(now);
    }

    /// A delivery at `at` has not been one. If others followed, what it kept them waiting for is
    /// over: giving a step back then would let more than the rate through.
    pub(in crate::engine) fn give_back(&mut self, rate: u32, at: Micros) {
        if self.last == at {
            self.next_ns = self.next_ns.saturating_sub(step_ns(rate));
        }
    }
}

fn step_ns(rate: u32) -> u128 {
    ((SECOND_US + EARLY_US) * NANOS).div_ceil(u128::from(rate))
}
