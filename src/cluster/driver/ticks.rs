//! Ticks by a clock.

use crate::limits::ELECTION_TICKS;
use crate::time::Micros;

/// Counts ticks of E/30 each, on a grid. Others rely on that: a node that has heard a leader elects none for 30 ticks, and
/// the leader's lease follows the clock. From any call on, 30 further ticks take at least 29 times their length: all
/// that were over are counted in that call, and the next one may be over a moment later.
///
/// A host may sleep over ticks at which nothing would happen, and counts them when it wakes, before it looks at what has
/// arrived. Those that it sleeps over without [leave](Ticks::give_leave) are not made up for: a process that stood still
/// has not heard for so long because it did not listen.
pub(super) struct Ticks {
    each_us: u64,
    /// When the next one is over.
    next: Micros,
    number: u64,
    /// So many may be counted at once.
    leave: u64,
}

/// Ticks that are over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticked {
    /// The number of the last one before.
    from: u64,
    /// The number of the last of them.
    to: u64,
    /// By how much the host has come later than it had leave to, µs.
    pub late_us: u64,
}

impl Ticked {
    /// How many, 1 at least.
    pub fn count(&self) -> u64 {
        self.to - self.from
    }

    /// Whether the number of one of them is a multiple of `each`.
    pub fn passes(&self, each: usize) -> bool {
        self.from / each as u64 != self.to / each as u64
    }
}

impl Ticks {
    pub fn new(now: Micros, election_us: u64) -> Ticks {
        let each_us = election_us / ELECTION_TICKS as u64;
        Ticks { each_us, next: Micros(now.0 + each_us), number: 0, leave: 1 }
    }

    pub fn each_us(&self) -> u64 {
        self.each_us
    }

    /// Until the next call of [`count`](Ticks::count), `leave` ticks may pass, 1 at least. When the last of them is over.
    pub fn give_leave(&mut self, leave: u64) -> Micros {
        self.leave = leave;
        Micros(self.next.0 + (self.leave - 1) * self.each_us)
    }

    /// Those that are over since the last call.
    pub fn count(&mut self, now: Micros) -> Option<Ticked> {
        let since_us = now.0.checked_sub(self.next.0)?;
        let leave = std::mem::replace(&mut self.leave, 1);
        let over = 1 + since_us / self.each_us;
        let (from, to) = (self.number, self.number + over.min(leave));
        self.number = to;
        self.next = match over <= leave {
            true => Micros(self.next.0 + over * self.each_us),
            false => Micros(now.0 + self.each_us),
        };
        Some(Ticked { from, to, late_us: since_us.saturating_sub((leave - 1) * self.each_us) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const E: u64 = 300_000;

    fn counted(ticks: &mut Ticks, instants: impl IntoIterator<Item = u64>) -> u64 {
        let ticked = instants.into_iter().filter_map(|now| ticks.count(Micros(now)));
        ticked.map(|ticked| ticked.count()).sum()
    }

    #[test]
    fn a_timer_that_jitters_loses_no_tick() {
        let mut ticks = Ticks::new(Micros(5_000), E);
        let late = |n: u64| 5_000 + n * 10_000 + if n.is_multiple_of(3) { 1_100 } else { 0 };
        assert_eq!(counted(&mut ticks, (1..=1_000).map(late)), 1_000);
    }

    #[test]
    fn what_was_missed_is_not_made_up_for() {
        let mut ticks = Ticks::new(Micros(0), E);
        assert_eq!(counted(&mut ticks, [10_000, 1_000_000, 1_000_001, 1_005_000]), 2);
        assert_eq!(counted(&mut ticks, [1_010_000, 1_020_000, 1_030_000]), 3);
    }

    #[test]
    fn a_host_that_has_leave_makes_up_for_what_it_slept_over_and_no_more() {
        let mut ticks = Ticks::new(Micros(0), E);
        assert_eq!(ticks.give_leave(4), Micros(40_000));
        let ticked = ticks.count(Micros(35_000)).expect("three are over");
        assert_eq!((ticked, ticked.count()), (Ticked { from: 0, to: 3, late_us: 0 }, 3));
        assert_eq!(ticks.give_leave(4), Micros(70_000), "on the grid");
        let ticked = ticks.count(Micros(500_000)).expect("it stood still");
        assert_eq!(ticked, Ticked { from: 3, to: 7, late_us: 430_000 });
        assert!(ticked.passes(5) && !ticked.passes(8));
        assert_eq!(ticks.count(Micros(509_999)), None);
        let one = Ticked { from: 7, to: 8, late_us: 15_000 };
        assert_eq!(ticks.count(Micros(525_000)), Some(one), "leave is for one sleep");
    }

    /// Whatever the host does: from each of its calls on, 30 ticks take 29 times their length or more.
    #[test]
    fn an_election_timeout_is_never_short() {
        for each in [1_000, 3_000, 9_000, 10_000, 11_000, 47_000, 95_000] {
            for leave in [1, 2, 5, 10] {
                let mut ticks = Ticks::new(Micros(0), E);
                let (mut calls, mut counted) = (Vec::new(), 0);
                for call in 1..2_000_u64 {
                    let at = call * each + call * 7_919 % each;
                    counted += ticks.count(Micros(at)).map_or(0, |ticked| ticked.count());
                    ticks.give_leave(leave);
                    calls.push((at, counted));
                }
                for (at, counted) in &calls {
                    let over = calls.iter().find(|(_, later)| *later >= counted + 30);
                    let took = over.map_or(E, |(over, _)| over - at);
                    assert!(
                        took >= 290_000,
                        "30 ticks in {took} µs, called each {each} µs, {leave}"
                    );
                }
            }
        }
    }
}
