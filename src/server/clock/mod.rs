//! The engine's clock: the monotonic clock anchored to the wall clock.

pub mod standstill;
pub mod timer;
pub mod turn_clock;

use crate::limits::{CLOCK_JUMP_STANDS_US, CLOCK_STEP_US};
use crate::time::Micros;

/// The clocks of the machine, read together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockReading {
    /// The monotonic clock, µs since some start.
    pub mono_us: u64,
    /// The wall clock, µs since the epoch.
    pub wall_us: u64,
    /// The monotonic clock and the time for which the machine was suspended, µs.
    pub boot_us: u64,
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
/// Slow drift is the same with small numbers: behind the wall clock it jumps by the drift; ahead of
/// it, it slows down for twice the drift.
///
/// A wall clock that is too far ahead is *doubted*: the engine goes on by the monotonic clock alone until the wall
/// clock has kept the new time for a minute, because engine time once reached is never taken back. Time for which the
/// machine was suspended is real: it is not doubted.
#[derive(Clone, Debug)]
pub struct Clock {
    anchor_mono_us: u64,
    anchor_engine_us: u64,
    /// Monotonic; not before the anchor.
    slow_until_us: u64,
    compared: ClockReading,
    step_count: u64,
    /// Since when the wall clock is doubted; monotonic, µs.
    doubted_since_us: Option<u64>,
}

/// The result of a comparison with the clocks of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Comparison {
    /// About the wall clock.
    pub wall: Compared,
    /// The machine was suspended for this long, µs.
    pub slept_us: u64,
}

/// The result of a comparison with the wall clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compared {
    /// Nothing, or the drift of a good clock.
    InStep,
    /// The wall clock was set forward by this many µs; the engine jumped with it.
    Forward(u64),
    /// The wall clock was set back by this many µs; the engine runs slow until it has caught up.
    Back(u64),
    /// The wall clock is this many µs ahead, which is too much to be trusted at once.
    Doubted(u64),
    /// The wall clock was doubted, and does not say any more what it was doubted for.
    Withdrawn,
}

impl Clock {
    /// A clock that begins at the later of the wall clock and `floor`, the last instant that jobs
    /// already know.
    pub fn new(reading: ClockReading, floor: Micros) -> Clock {
        let mut clock = Clock {
            anchor_mono_us: reading.mono_us,
            anchor_engine_us: floor.0,
            slow_until_us: reading.mono_us,
            compared: reading,
            step_count: 0,
            doubted_since_us: None,
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
    /// says that the wall clock was set. A wall clock more than `jump_us_max` ahead of the engine is
    /// doubted; 0 doubts nothing.
    pub fn compare(&mut self, reading: ClockReading, jump_us_max: u64) -> Comparison {
        let before = std::mem::replace(&mut self.compared, reading);
        let elapsed_us = reading.mono_us.saturating_sub(before.mono_us);
        let slept_us = reading.boot_us.saturating_sub(before.boot_us).saturating_sub(elapsed_us);
        // The clocks are not read in the same µs.
        let slept_us = if slept_us > CLOCK_STEP_US { slept_us } else { 0 };
        let passed_us = elapsed_us + slept_us;
        let expected_us = before.wall_us.saturating_add(passed_us);
        let moved_us = reading.wall_us.abs_diff(expected_us);
        let stepped = moved_us > CLOCK_STEP_US + passed_us / 1_000;
        self.step_count += u64::from(stepped);
        let awake_us = self.at(reading.mono_us).0.saturating_add(slept_us);
        let ahead_us = reading.wall_us.saturating_sub(awake_us);
        let doubted = self.doubted_since_us.take();
        let too_far = jump_us_max > 0 && ahead_us > jump_us_max;
        if too_far {
            let since_us = doubted.filter(|_| !stepped).unwrap_or(reading.mono_us);
            if reading.mono_us - since_us < CLOCK_JUMP_STANDS_US {
                self.doubted_since_us = Some(since_us);
                (self.anchor_mono_us, self.anchor_engine_us) = (reading.mono_us, awake_us);
                self.slow_until_us = reading.mono_us;
                let news = stepped || doubted.is_none();
                let wall = if news { Compared::Doubted(ahead_us) } else { Compared::InStep };
                return Comparison { wall, slept_us };
            }
        }
        self.anchor(reading);
        let wall = match (doubted, stepped) {
            (Some(_), _) if too_far => Compared::Forward(ahead_us),
            (Some(_), _) => Compared::Withdrawn,
            (None, false) => Compared::InStep,
            (None, true) if reading.wall_us > expected_us => Compared::Forward(moved_us),
            (None, true) => Compared::Back(moved_us),
        };
        Comparison { wall, slept_us }
    }

    /// By how much the engine's time is ahead of the wall clock, µs.
    pub fn ahead_us(&self, mono_us: u64) -> u64 {
        self.slow_until_us.saturating_sub(mono_us) / 2
    }

    /// By how much a wall clock that is doubted is ahead of the engine's time, µs; 0 if it is not doubted.
    pub fn doubted_us(&self, mono_us: u64) -> u64 {
        let since_us = mono_us.saturating_sub(self.compared.mono_us);
        let wall_us = self.compared.wall_us.saturating_add(since_us);
        self.doubted_since_us.map_or(0, |_| wall_us.saturating_sub(self.at(mono_us).0))
    }

    /// How often the wall clock was set.
    pub fn step_count(&self) -> u64 {
        self.step_count
    }

    fn anchor(&mut self, reading: ClockReading) {
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
    const START: ClockReading =
        ClockReading { mono_us: 77, wall_us: 1_700_000_000 * SECOND, boot_us: 1_000 };
    /// `max-clock-jump` of the tests.
    const JUMP: u64 = 3_600 * SECOND;

    fn later(mono_us: u64, wall_us: i64) -> ClockReading {
        let wall_us = START.wall_us.checked_add_signed(wall_us).unwrap();
        ClockReading { mono_us: START.mono_us + mono_us, wall_us, boot_us: START.boot_us + mono_us }
    }

    fn compare(clock: &mut Clock, reading: ClockReading) -> Compared {
        let Comparison { wall, slept_us } = clock.compare(reading, JUMP);
        assert_eq!(slept_us, 0);
        wall
    }

    /// Compares once a second from one second to another, with a wall clock that is so much ahead.
    fn run(clock: &mut Clock, seconds: std::ops::Range<u64>, ahead_s: u64) -> Vec<Compared> {
        let at = |second| later(second * SECOND, ((second + ahead_s) * SECOND) as i64);
        let found = seconds.map(|second| compare(clock, at(second)));
        found.filter(|found| *found != Compared::InStep).collect()
    }

    #[test]
    fn runs_with_the_wall_clock() {
        let mut clock = Clock::new(START, Micros(0));
        assert_eq!(clock.at(START.mono_us).0, START.wall_us);
        let reading = later(SECOND, SECOND as i64);
        assert_eq!(compare(&mut clock, reading), Compared::InStep);
        assert_eq!(clock.at(reading.mono_us).0, reading.wall_us);
    }

    #[test]
    fn jumps_forward_with_the_wall_clock() {
        let mut clock = Clock::new(START, Micros(0));
        let reading = later(10, 3_600 * SECOND as i64 + 10);
        assert_eq!(compare(&mut clock, reading), Compared::Forward(3_600 * SECOND));
        assert_eq!(clock.at(reading.mono_us).0, reading.wall_us);
        assert_eq!(clock.step_count(), 1);
    }

    #[test]
    fn goes_at_half_speed_until_a_wall_clock_set_back_has_caught_up() {
        let mut clock = Clock::new(START, Micros(0));
        let back = later(0, -6 * SECOND as i64);
        assert_eq!(compare(&mut clock, back), Compared::Back(6 * SECOND));
        let at = |clock: &Clock, s: u64| clock.at(START.mono_us + s * SECOND).0 - START.wall_us;
        assert_eq!(at(&clock, 0), 0);
        assert_eq!(at(&clock, 4), 2 * SECOND);
        assert_eq!(clock.ahead_us(START.mono_us + 4 * SECOND), 4 * SECOND);
        assert_eq!(at(&clock, 12), 6 * SECOND);
        assert_eq!(at(&clock, 13), 7 * SECOND);
        assert_eq!(clock.ahead_us(START.mono_us + 13 * SECOND), 0);
        // A comparison on the way changes nothing and is no second step.
        let reading = later(4 * SECOND, -2 * SECOND as i64);
        assert_eq!(compare(&mut clock, reading), Compared::InStep);
        assert_eq!(at(&clock, 12), 6 * SECOND);
        assert_eq!(clock.step_count(), 1);
    }

    #[test]
    fn a_wall_clock_that_is_wrong_for_two_seconds_is_not_remembered() {
        const YEARS_S: u64 = 10 * 365 * 86_400;
        let mut clock = Clock::new(START, Micros(0));
        assert_eq!(run(&mut clock, 1..10, 0), []);
        let doubted = Compared::Doubted(YEARS_S * SECOND);
        assert_eq!(run(&mut clock, 10..12, YEARS_S), [doubted]);
        let mono_us = START.mono_us + 11 * SECOND;
        assert_eq!(clock.at(mono_us).0, START.wall_us + 11 * SECOND);
        assert_eq!(clock.doubted_us(mono_us), YEARS_S * SECOND);
        assert_eq!(run(&mut clock, 12..200, 0), [Compared::Withdrawn]);
        let mono_us = START.mono_us + 199 * SECOND;
        assert_eq!(clock.at(mono_us).0, START.wall_us + 199 * SECOND);
        assert_eq!((clock.ahead_us(mono_us), clock.doubted_us(mono_us)), (0, 0));
        assert_eq!(clock.step_count(), 2);
    }

    #[test]
    fn a_jump_that_has_stood_for_a_minute_takes_effect() {
        const DAY_S: u64 = 86_400;
        let mut clock = Clock::new(START, Micros(0));
        assert_eq!(run(&mut clock, 1..10, 0), []);
        assert_eq!(run(&mut clock, 10..70, DAY_S), [Compared::Doubted(DAY_S * SECOND)]);
        assert_eq!(run(&mut clock, 70..80, DAY_S), [Compared::Forward(DAY_S * SECOND)]);
        assert_eq!(clock.at(START.mono_us + 79 * SECOND).0, START.wall_us + (79 + DAY_S) * SECOND);
        // Another step meanwhile restarts the minute.
        assert_eq!(run(&mut clock, 80..110, 3 * DAY_S), [Compared::Doubted(2 * DAY_S * SECOND)]);
        assert_eq!(run(&mut clock, 110..169, 4 * DAY_S), [Compared::Doubted(3 * DAY_S * SECOND)]);
        assert_eq!(run(&mut clock, 169..200, 4 * DAY_S), [Compared::Forward(3 * DAY_S * SECOND)]);
        // Back to where it is allowed to be at once.
        assert_eq!(run(&mut clock, 200..210, 9 * DAY_S), [Compared::Doubted(5 * DAY_S * SECOND)]);
        assert_eq!(run(&mut clock, 210..220, 4 * DAY_S + 60), [Compared::Withdrawn]);
        let ahead_s = 4 * DAY_S + 60;
        assert_eq!(
            clock.at(START.mono_us + 219 * SECOND).0,
            START.wall_us + (219 + ahead_s) * SECOND
        );
    }

    #[test]
    fn smaller_jumps_and_those_without_a_limit_take_effect_at_once() {
        let mut clock = Clock::new(START, Micros(0));
        assert_eq!(run(&mut clock, 1..2, 3_600), [Compared::Forward(JUMP)]);
        let far = later(2 * SECOND, 2 * SECOND as i64 + 10 * JUMP as i64);
        let found = clock.compare(far, 0).wall;
        assert_eq!(found, Compared::Forward(9 * JUMP));
        assert_eq!(clock.at(far.mono_us).0, far.wall_us);
    }

    #[test]
    fn time_in_which_the_machine_was_suspended_is_not_doubted() {
        let mut clock = Clock::new(START, Micros(0));
        let slept = 8 * JUMP;
        let woken = later(SECOND, (SECOND + slept) as i64);
        let woken = ClockReading { boot_us: woken.boot_us + slept, ..woken };
        let found = clock.compare(woken, JUMP);
        assert_eq!(found, Comparison { wall: Compared::InStep, slept_us: slept });
        assert_eq!(clock.at(woken.mono_us).0, woken.wall_us);
        // While the wall clock is doubted, the engine's time goes on for as long.
        let doubted = ClockReading { wall_us: woken.wall_us + 5 * JUMP, ..woken };
        assert_eq!(compare(&mut clock, doubted), Compared::Doubted(5 * JUMP));
        let again = ClockReading {
            mono_us: doubted.mono_us + SECOND,
            wall_us: doubted.wall_us + SECOND + slept,
            boot_us: doubted.boot_us + SECOND + slept,
        };
        assert_eq!(
            clock.compare(again, JUMP),
            Comparison { wall: Compared::InStep, slept_us: slept }
        );
        assert_eq!(clock.at(again.mono_us).0, woken.wall_us + SECOND + slept);
        assert_eq!(clock.doubted_us(again.mono_us), 5 * JUMP);
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
                assert_eq!(compare(&mut clock, reading), Compared::InStep);
                let error = clock.at(reading.mono_us).0.abs_diff(reading.wall_us);
                assert!(error <= 1_000, "{parts_per_million} ppm: {error} µs after {second} s");
            }
        }
    }

    proptest! {
        /// Whatever the clocks do: engine time never decreases, is never behind the wall clock at a
        /// comparison, and is ahead of it only by time that was once right and is being worked off.
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
                clock.compare(ClockReading { mono_us: mono, wall_us: wall, boot_us: mono }, 0);
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
