//! What a queue's settings and pauses leave open: whether a job may be taken from it now, and
//! whether one may be added. Consulted only when deciding.
//!
//! A rate of R deliveries in any 1,000 ms is kept by one instant, the *theoretical* one of the next
//! delivery: each delivery moves it on by a step, and none may come earlier than [`EARLY_US`] before
//! it. So who is woken late, or only in whole milliseconds, catches up, up to that span, and the step
//! makes good for it:
//!
//! ```text
//! step = (1 s + EARLY) / R       n deliveries within less than 1 s: (n − 1) step − EARLY < 1 s, so n ≤ R
//! R = 1,000: a step of 1,005 µs; after a pause 5 at once, then one every 1,005 µs: 995 in a second
//! ```

use crate::engine::model::request::State;
use crate::engine::store::queue::Queue;
use crate::time::Micros;

/// By how much a delivery may come before its theoretical instant, µs. What is lost by late wake-ups
/// up to this is made up for; it costs as large a part of a second of the rate, half a percent.
const EARLY_US: u128 = 5_000;

const SECOND_US: u128 = 1_000_000;
const NANOS: u128 = 1_000;

/// How far a queue's deliveries have used up its rate. Volatile: it begins anew with the process.
#[derive(Clone, Copy, Default, Debug)]
pub struct Pace {
    /// The theoretical instant of the next delivery, ns: whole µs would lose rates near a million.
    next_ns: u128,
    last: Micros,
}

impl Pace {
    /// Of a rate that takes the place of another one at `now`. What the other one counted gives nothing back: also
    /// not in this very µs.
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

impl Queue {
    /// The rate, if one is set.
    pub(in crate::engine) fn rate(&self) -> Option<u32> {
        self.settings.as_ref()?.rate.filter(|rate| *rate > 0)
    }

    pub(in crate::engine) fn max_leased(&self) -> Option<u64> {
        self.settings.as_ref()?.max_leased.filter(|max| *max > 0)
    }

    /// How many dead jobs it keeps.
    pub fn dead_max(&self) -> u64 {
        let own = self.settings.as_ref().and_then(|settings| settings.dead_max);
        own.unwrap_or(crate::limits::DEAD_COUNT_DEFAULT)
    }

    /// Whether anything set could keep its ready jobs from being taken.
    pub fn could_throttle(&self) -> bool {
        self.pauses.out != Default::default()
            || self.max_leased().is_some()
            || self.rate().is_some()
    }

    /// Whether its ready jobs may be taken at `now`, as far as pauses and the number of leases go.
    pub(in crate::engine) fn gives(&self, now: Micros) -> bool {
        !self.pauses.out.is_on(now)
            && self.max_leased().is_none_or(|max| self.count(State::Leased) < max)
    }
}
