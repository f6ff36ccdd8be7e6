//! The engine's clock: the monotonic clock anchored to the wall clock.

use crate::time::Micros;

/// How far the wall clock may move against the monotonic one between two comparisons before it
/// counts as a step: a fixed part, and a thousandth of the time between them (the kernel slews by
/// at most half of that).
const STEP_US: u64 = 1_000;

/// Both clocks of the machine, read together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// The monotonic clock, µs since some start.
    pub mono_us: u64,
    /// The wall clock, µs since the epoch.
    pub wall_us: u64,
}

/// Turns monotonic time into the engine's, which never goes back.
///
/// From the anchor on, engine time runs at half speed until `slow_until_us` and at full speed after
/// it. Each comparison with the wall clock sets a new anchor at the present engine time:
///
/// ```text
/// engine                         wall stepped forward: the anchor jumps to it
///    |                    .'
///    |                 .'        wall stepped back by 6 s: the engine is 6 s ahead, so it
///    |          _ _.-'           goes at half speed for 12 s, in which the wall catches up
///    |        .'
///    |      .'
///    +---------------------> monotonic
/// ```
///
/// Slow drift is the same with small numbers: behind the wall it jumps by the drift, ahead of it,
/// it slows down for twice the drift.
#[derive(Clone, Debug)]
pub struct Clock {
    anchor_mono_us: u64,
    anchor_engine_us: u64,
    /// Monotonic; not before the anchor.
    slow_until_us: u64,
    compared: Reading,
    step_count: u64,
}

/// What a comparison with the wall clock found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compared {
    /// Nothing, or the drift of a good clock.
    InStep,
    /// The wall clock was set forward by so many µs; the engine jumped with it.
    Forward(u64),
    /// The wall clock was set back by so many µs; the engine runs slow until it has caught up.
    Back(u64),
}

impl Clock {
    /// A clock that begins at the later of the wall clock and `floor`, the last instant that jobs
    /// already know.
    pub fn new(reading: Reading, floor: Micros) -> Clock {
        let mut clock = Clock {
            anchor_mono_us: reading.mono_us,
            anchor_engine_us: floor.0,
            slow_until_us: reading.mono_us,
            compared: reading,
            step_count: 0,
        };
        clock.anchor(reading);
        clock
    }

    /// The engine's time at a monotonic instant not before the last comparison.
    pub fn at(&self, mono_us: u64) -> Micros {
        let slow_us = mono_us.min(self.slow_until_us).saturating_sub(self.anchor_mono_us);
        let full_us = mono_us.saturating_sub(self.slow_until_us);
        Micros(self.anchor_engine_us + slow_us / 2 + full_us)
    }

    /// The first monotonic instant at which the engine's time is at least `at`.
    pub fn mono_us_of(&self, at: Micros) -> u64 {
        let ahead_us = at.0.saturating_sub(self.anchor_engine_us);
        let slow_us = self.slow_until_us - self.anchor_mono_us;
        if ahead_us <= slow_us / 2 {
            self.anchor_mono_us.saturating_add(ahead_us * 2)
        } else {
            self.slow_until_us.saturating_add(ahead_us - slow_us / 2)
        }
    }

    /// Compares with the wall clock: to be done every second or so, and at once when the kernel
    /// says that the wall clock was set.
    pub fn compare(&mut self, reading: Reading) -> Compared {
        let elapsed_us = reading.mono_us.saturating_sub(self.compared.mono_us);
        let expected_us = self.compared.wall_us.saturating_add(elapsed_us);
        let moved_us = reading.wall_us.abs_diff(expected_us);
        let forward = reading.wall_us > expected_us;
        self.compared = reading;
        self.anchor(reading);
        if moved_us <= STEP_US + elapsed_us / 1_000 {
            return Compared::InStep;
        }
        self.step_count += 1;
        if forward { Compared::Forward(moved_us) } else { Compared::Back(moved_us) }
    }

    /// By how much the engine's time is ahead of the wall clock, µs.
    pub fn ahead_us(&self, mono_us: u64) -> u64 {
        self.slow_until_us.saturating_sub(mono_us) / 2
    }

    /// How often the wall clock was set.
    pub fn step_count(&self) -> u64 {
        self.step_count
    }

    fn anchor(&mut self, reading: Reading) {
        let engine_us = self.at(reading.mono_us).0;
        self.anchor_mono_us = reading.mono_us;
        self.anchor_engine_us = engine_us.max(reading.wall_us);
        // At half speed an advance of n is gone after 2n, of which the wall makes all, the engine
        // half.
        let ahead_us = self.anchor_engine_us - reading.wall_us;
        self.slow_until_us = reading.mono_us.saturating_add(ahead_us.saturating_mul(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000;
    const START: Reading = Reading { mono_us: 77, wall_us: 1_700_000_000 * SECOND };

    fn later(mono_us: u64, wall_us: i64) -> Reading {
        let wall_us = START.wall_us.checked_add_signed(wall_us).unwrap();
        Reading { mono_us: START.mono_us + mono_us, wall_us }
    }

    #[test]
    fn runs_with_the_wall_clock() {
        let mut clock = Clock::new(START, Micros(0));
        assert_eq!(clock.at(START.mono_us).0, START.wall_us);
        let reading = later(SECOND, SECOND as i64);
        assert_eq!(clock.compare(reading), Compared::InStep);
        assert_eq!(clock.at(reading.mono_us).0, reading.wall_us);
    }

    #[test]
    fn jumps_forward_with_the_wall_clock() {
        let mut clock = Clock::new(START, Micros(0));
        let reading = later(10, 3_600 * SECOND as i64 + 10);
        assert_eq!(clock.compare(reading), Compared::Forward(3_600 * SECOND));
        assert_eq!(clock.at(reading.mono_us).0, reading.wall_us);
        assert_eq!(clock.step_count(), 1);
    }

    #[test]
    fn goes_at_half_speed_until_a_wall_clock_set_back_has_caught_up() {
        let mut clock = Clock::new(START, Micros(0));
        let back = later(0, -6 * SECOND as i64);
        assert_eq!(clock.compare(back), Compared::Back(6 * SECOND));
        let at = |clock: &Clock, s: u64| clock.at(START.mono_us + s * SECOND).0 - START.wall_us;
        assert_eq!(at(&clock, 0), 0);
        assert_eq!(at(&clock, 4), 2 * SECOND);
        assert_eq!(clock.ahead_us(START.mono_us + 4 * SECOND), 4 * SECOND);
        assert_eq!(at(&clock, 12), 6 * SECOND);
        assert_eq!(at(&clock, 13), 7 * SECOND);
        assert_eq!(clock.ahead_us(START.mono_us + 13 * SECOND), 0);
        // A comparison on the way changes nothing and is no second step.
        assert_eq!(clock.compare(later(4 * SECOND, -2 * SECOND as i64)), Compared::InStep);
        assert_eq!(at(&clock, 12), 6 * SECOND);
        assert_eq!(clock.step_count(), 1);
    }

    #[test]
    fn begins_at_the_last_instant_that_jobs_know() {
        let floor = Micros(START.wall_us + 10 * SECOND);
        let clock = Clock::new(START, floor);
        assert_eq!(clock.at(START.mono_us), floor);
        assert_eq!(clock.ahead_us(START.mono_us), 10 * SECOND);
        assert_eq!(clock.at(START.mono_us + 20 * SECOND).0, START.wall_us + 20 * SECOND);
    }

    #[test]
    fn slow_drift_is_followed_and_is_no_step() {
        for parts_per_million in [-500i64, -20, 3, 500] {
            let mut clock = Clock::new(START, Micros(0));
            for second in 1..=3_600 {
                let gone = second * SECOND as i64;
                let wall = gone + gone / 1_000_000 * parts_per_million;
                let reading = later(gone as u64, wall);
                assert_eq!(clock.compare(reading), Compared::InStep);
                let error = clock.at(reading.mono_us).0.abs_diff(reading.wall_us);
                assert!(error <= 1_000, "{parts_per_million} ppm: {error} µs after {second} s");
            }
        }
    }

    proptest! {
        /// However the clocks go: engine time never decreases, is never behind the wall clock at a
        /// comparison, and is ahead of it only by what was once true and is being worked off.
        #[test]
        fn never_goes_back_and_never_runs_away(
            moves in proptest::collection::vec((0u64..3 * SECOND, prop_oneof![
                4 => -400i64..400,
                1 => -20_000_000i64..20_000_000,
            ], 0u64..3_000_000), 1..60),
        ) {
            let mut clock = Clock::new(START, Micros(0));
            let (mut mono, mut wall) = (START.mono_us, START.wall_us);
            let (mut last, mut ahead_max) = (clock.at(mono), 0);
            for (elapsed, stepped, due_in) in moves {
                let due = Micros(clock.at(mono).0 + due_in);
                let armed = clock.mono_us_of(due);
                prop_assert!(clock.at(armed) >= due, "woken early");
                prop_assert!(armed == mono || clock.at(armed - 1) < due, "woken late");
                mono += elapsed;
                wall = (wall + elapsed).saturating_add_signed(stepped);
                let before = clock.at(mono);
                prop_assert!(before >= last);
                clock.compare(Reading { mono_us: mono, wall_us: wall });
                last = clock.at(mono);
                prop_assert!(last >= before && last.0 >= wall);
                ahead_max = if stepped < 0 { ahead_max + stepped.unsigned_abs() } else { ahead_max };
                prop_assert!(last.0 - wall <= ahead_max);
                prop_assert_eq!(clock.ahead_us(mono), last.0 - wall);
                if last.0 == wall {
                    ahead_max = 0;
                }
            }
        }
    }
}
