//! The clock as the turns see it: read once a turn, so that everything in one happens at one instant.

use crate::server::clock::standstill::Standstills;
use crate::server::clock::timer::Timer;
use crate::server::clock::{Clock, ClockReading, Compared, Comparison};
use crate::time::{Micros, Millis};

/// The instant of the turn, on the engine's clock and on the monotonic one.
#[derive(Debug)]
pub struct TurnClock {
    pub timer: Timer,
    /// The engine's clock, from which the turn's time is read.
    pub anchored: Clock,
    /// The turn's time; the engine's clock.
    pub now: Micros,
    /// The same instant on the monotonic clock.
    pub mono_us: u64,
    pub start: Micros,
    /// The same instant on the monotonic clock.
    pub start_mono_us: u64,
    pub standstills: Standstills,
    /// The wall clock is not trusted beyond this: the majority's clock plus the allowed skew, relative to the monotonic
    /// clock, µs. None: there are no other nodes to ask.
    pub cap: Option<i64>,
}

impl TurnClock {
    /// From now on.
    pub fn start(timer: Timer) -> TurnClock {
        let reading = timer.reading();
        let anchored = Clock::new(reading, Micros(0));
        let (mono_us, now) = (reading.mono_us, anchored.at(reading.mono_us));
        let standstills = Standstills::default();
        let (start, start_mono_us) = (now, mono_us);
        let cap = None;
        TurnClock { timer, anchored, now, mono_us, start, start_mono_us, standstills, cap }
    }

    /// All clocks, the wall clock as far as it is believed.
    fn reading(&self) -> ClockReading {
        let mut reading = self.timer.reading();
        if let Some(cap) = self.cap {
            let latest = (reading.boot_us as i64).saturating_add(cap).max(0) as u64;
            reading.wall_us = reading.wall_us.min(latest);
        }
        reading
    }

    /// Continues from `last`, the last instant of the journal, if the wall clock is behind it.
    ///
    /// Tells the log if the clock that a start begins with may be wrong. Nothing follows from it: what was
    /// once reached is not given up, and a downtime may be of any length.
    pub fn restart(&mut self, last: Micros, jump_us_max: u64) {
        self.begin(last.max(self.now), last, jump_us_max);
    }

    /// Goes on from `last` as of a node that begins to decide. Nothing follows from what its own clock showed while it did
    /// not, which most nodes may not agree to: its time may go back to theirs.
    pub fn take_over(&mut self, last: Micros, jump_us_max: u64) {
        self.begin(last, last, jump_us_max);
    }

    fn begin(&mut self, floor: Micros, last: Micros, jump_us_max: u64) {
        let reading = self.reading();
        self.anchored = Clock::new(reading, floor);
        self.mono_us = reading.mono_us;
        self.now = self.anchored.at(reading.mono_us);
        let ahead_us = self.anchored.ahead_us(self.mono_us);
        let since_us = self.now.0.saturating_sub(last.0);
        if ahead_us > 1_000 {
            tracing::warn!(
                ahead_us,
                "the wall clock is behind the journal's last instant: time continues there, at half speed until the \
                 wall clock has caught up. If that instant was wrong, see delayd check --clock"
            );
        } else if last.0 > 0 && jump_us_max > 0 && since_us > jump_us_max {
            tracing::warn!(
                since_us,
                "the wall clock is ahead of the journal's last instant by more than max-clock-jump, and is trusted, \
                 because a downtime may be that long. If the clock is wrong, stop and set it before jobs are added"
            );
        }
    }

    pub fn read(&mut self) {
        self.mono_us = self.timer.mono_us();
        let now = self.anchored.at(self.mono_us);
        // Checked where it is used, too: a time that went back would let a job come early.
        assert!(now >= self.now, "the engine's clock went back");
        self.now = now;
    }

    /// The process stood still from this instant until `mono_us`, if it did. It is counted.
    pub fn still_since(&mut self, mono_us: u64) -> Option<Micros> {
        let since_us = self.standstills.since(mono_us)?;
        self.standstills.note(mono_us - since_us, mono_us);
        Some(self.anchored.at(since_us))
    }

    /// Compares with the wall clock. If the machine was suspended since the last turn: since when.
    pub fn compare(&mut self, mono_us: u64, jump_us_max: u64) -> Option<Micros> {
        let Comparison { wall, slept_us } = self.anchored.compare(self.reading(), jump_us_max);
        log_comparison(wall);
        // The monotonic clock does not know of it, and neither did the alarm.
        (slept_us > 0).then(|| self.standstills.note(slept_us, mono_us)).map(|()| self.now)
    }

    /// The turn's time, s.
    pub fn now_s(&self) -> u64 {
        self.now.0 / 1_000_000
    }

    /// When the server started, unix seconds.
    pub fn start_s(&self) -> u64 {
        self.start.0 / 1_000_000
    }

    /// How long the server has run, s.
    pub fn uptime_s(&self) -> u64 {
        (self.mono_us - self.start_mono_us) / 1_000_000
    }

    /// An instant of the monotonic clock that is not over, in the engine's.
    pub fn engine_at(&self, at: Millis) -> Millis {
        self.anchored.at(at.start().0).ceil()
    }
}

fn log_comparison(wall: Compared) {
    match wall {
        Compared::InStep => {}
        Compared::Forward(us) => {
            tracing::warn!(us, "the wall clock was set forward; what is due now falls due");
        }
        Compared::Back(us) => {
            tracing::warn!(us, "the wall clock was set back; time runs at half speed meanwhile");
        }
        Compared::Doubted(us) => {
            tracing::warn!(
                us,
                "the wall clock is ahead by more than max-clock-jump; it is trusted if it keeps that time for a \
                 minute, and until then time continues without it"
            );
        }
        Compared::Withdrawn => {
            tracing::warn!("the wall clock is back from the time that was not trusted");
        }
    }
}
