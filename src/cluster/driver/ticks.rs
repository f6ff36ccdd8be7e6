//! Ticks by a clock.

use crate::limits::ELECTION_TICKS;
use crate::time::Micros;

/// Counts ticks of E/30 each. Others rely on that: a node that has heard a leader elects none for 30 ticks, and the
/// leader's lease follows the clock. So a host that is late and then hurries is slowed down: 30 ticks never take less
/// than 28.875 times their length, whatever the host does, because 29 intervals lie between them and one may be shorter
/// by an eighth.
pub(super) struct Ticks {
    each_us: u64,
    /// Before it none is counted.
    next: Micros,
    number: u64,
}

impl Ticks {
    pub fn new(now: Micros, election_us: u64) -> Ticks {
        let each_us = election_us / ELECTION_TICKS as u64;
        Ticks { each_us, next: Micros(now.0 + each_us), number: 0 }
    }

    pub fn each_us(&self) -> u64 {
        self.each_us
    }

    /// The number of this tick, if it is one. A host that is called by a timer comes now and then somewhat later than its
    /// grid, and on time again after that: an eighth of a tick is forgiven, more is not made up for.
    pub fn count(&mut self, now: Micros) -> Option<u64> {
        if now < self.next {
            return None;
        }
        let earliest = now.0 + self.each_us - self.each_us / 8;
        self.next = Micros((self.next.0 + self.each_us).max(earliest));
        self.number += 1;
        Some(self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const E: u64 = 300_000;

    fn counted(ticks: &mut Ticks, instants: impl IntoIterator<Item = u64>) -> usize {
        instants.into_iter().filter(|now| ticks.count(Micros(*now)).is_some()).count()
    }

    #[test]
    fn a_timer_that_is_somewhat_late_loses_nothing() {
        let mut ticks = Ticks::new(Micros(5_000), E);
        let late = |n: u64| 5_000 + n * 10_000 + [0, 900, 1_250, 60][n as usize % 4];
        assert_eq!(counted(&mut ticks, (1..=1_000).map(late)), 1_000);
    }

    #[test]
    fn what_was_missed_is_not_made_up_for() {
        let mut ticks = Ticks::new(Micros(0), E);
        assert_eq!(counted(&mut ticks, [10_000, 1_000_000, 1_000_001, 1_005_000]), 2);
        assert_eq!(counted(&mut ticks, [1_010_000, 1_020_000, 1_030_000]), 3);
    }

    #[test]
    fn no_host_makes_them_faster() {
        for each in [1, 50, 999, 1_260, 8_760, 9_999, 10_001, 11_260, 19_999] {
            let mut ticks = Ticks::new(Micros(0), E);
            let instants = (1..200_000_000 / each.max(50)).map(|n| n * each);
            let instants: Vec<u64> =
                instants.filter(|now| ticks.count(Micros(*now)).is_some()).collect();
            for thirty in instants.windows(30) {
                let took = thirty[29] - thirty[0];
                assert!(took >= 288_750, "30 ticks in {took} µs, called each {each} µs");
            }
        }
    }
}
