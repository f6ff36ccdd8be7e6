//! How rates are kept.
//!
//! A rate of n deliveries in any span is kept by one instant, the *theoretical* one of the next delivery: each delivery
//! moves it on by a step, and none may come earlier than [`EARLY_NS`] before it. So a late wake-up, or one in whole
//! milliseconds only, catches up within that span, and the step compensates for it:
//!
//! ```text
//! step = (span + EARLY) / n      n deliveries within less than a span: (n − 1) step − EARLY < span
//! 1,000 in 1 s: a step of 1,005 µs; after a pause 5 at once, then one every 1,005 µs: 995 in a second
//! ```

use crate::time::Micros;

/// How early a delivery may come before its theoretical instant, ns. Late wake-ups up to this are compensated; it costs
/// as large a part of the span of the rate, of a second half a percent.
const EARLY_NS: u64 = 5_000_000;

const SECOND_MS: u64 = 1_000;

/// How much of its rate a queue has used. Volatile: it starts again with the process.
#[derive(Clone, Copy, Default, Debug)]
pub struct Pace {
    /// The theoretical instant of the next delivery, ns: whole µs would lose rates near a million.
    next_ns: u64,
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
        allowed(self.next_ns)
    }

    pub(in crate::engine) fn take(&mut self, rate: u32, now: Micros) {
        self.next_ns = self.next_ns.max(nanos(now)).saturating_add(step_ns(rate, SECOND_MS));
        self.last = self.last.max(now);
    }

    /// A delivery at `at` has not been one. If others followed, what it kept them waiting for is
    /// over: giving a step back then would let more than the rate through.
    pub(in crate::engine) fn give_back(&mut self, rate: u32, at: Micros) {
        if self.last == at {
            self.next_ns = self.next_ns.saturating_sub(step_ns(rate, SECOND_MS));
        }
    }
}

/// When a delivery may be whose theoretical instant this is, ns.
pub fn allowed(next_ns: u64) -> Micros {
    Micros(next_ns.saturating_sub(EARLY_NS).div_ceil(1_000))
}

/// An instant in ns since the Unix epoch; a u64 holds them until the year 2554.
pub fn nanos(at: Micros) -> u64 {
    at.0.saturating_mul(1_000)
}

/// The step of so many deliveries in a span, ns.
pub fn step_ns(count: u32, span_ms: u64) -> u64 {
    (span_ms * 1_000_000 + EARLY_NS).div_ceil(count.into())
}
