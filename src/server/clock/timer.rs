//! The machine's clocks and the alarms on them.

use crate::limits::CLOCKS_TOGETHER_US;
use crate::server::clock::ClockReading;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::unix::AsyncFd;

/// Where a server reads the time.
#[derive(Debug)]
pub enum Timer {
    Machine,
    /// From what was set: tests drive the turn in a time of their own.
    ByHand(ByHand),
}

/// A time that is constant until it is set.
#[derive(Debug)]
pub struct ByHand {
    pub mono_us: u64,
    /// The wall clock's lead over it, µs.
    pub wall_ahead_us: u64,
    /// How often the ns were read since the µs were.
    readings: Cell<u64>,
}

/// By hand, from one reading of the ns to the next: what a command takes.
const STEP_NS: u64 = 12_000;

impl Timer {
    /// A time that stays at `wall_us`, µs since the epoch, until it is set.
    pub fn by_hand(wall_us: u64) -> Timer {
        let mono_us = 1_000_000;
        let readings = Cell::default();
        Timer::ByHand(ByHand { mono_us, wall_ahead_us: wall_us - mono_us, readings })
    }

    /// The monotonic clock, µs.
    pub fn mono_us(&self) -> u64 {
        match self {
            Timer::Machine => mono_us(),
            Timer::ByHand(set) => {
                set.readings.set(0);
                set.mono_us
            }
        }
    }

    /// The monotonic clock, ns.
    pub fn mono_ns(&self) -> u64 {
        match self {
            Timer::Machine => mono_ns(),
            Timer::ByHand(set) => {
                set.readings.set(set.readings.get() + 1);
                set.mono_us * 1_000 + set.readings.get() * STEP_NS
            }
        }
    }

    /// The clock of leases between nodes, which goes on while the machine sleeps, µs.
    pub fn boot_us(&self) -> u64 {
        match self {
            Timer::Machine => boot_us(),
            Timer::ByHand(set) => set.mono_us,
        }
    }

    /// All clocks.
    pub fn reading(&self) -> ClockReading {
        match self {
            Timer::Machine => reading(),
            Timer::ByHand(ByHand { mono_us, wall_ahead_us, .. }) => {
                let (mono_us, wall_us) = (*mono_us, mono_us + wall_ahead_us);
                ClockReading { mono_us, wall_us, boot_us: mono_us }
            }
        }
    }
}

/// The monotonic clock, µs.
pub fn mono_us() -> u64 {
    micros(clock_gettime(ClockId::Monotonic))
}

/// The monotonic clock, ns.
pub fn mono_ns() -> u64 {
    let at = clock_gettime(ClockId::Monotonic);
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}

/// The wall clock, µs since the epoch. It is read through the C library, so that a preloaded library, such as faketime
/// and the shim of our tests, can set the clock of one process.
pub fn wall_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// The monotonic clock and the time for which the machine was suspended, µs.
pub fn boot_us() -> u64 {
    micros(clock_gettime(ClockId::Boottime))
}

fn reading() -> ClockReading {
    let mut best = (u64::MAX, ClockReading { mono_us: 0, wall_us: 0, boot_us: 0 });
    for _ in 0..8 {
        let before = mono_us();
        let wall_us = wall_us();
        let boot_us = boot_us();
        let apart = mono_us() - before;
        if apart < best.0 {
            best = (apart, ClockReading { mono_us: before, wall_us, boot_us });
        }
        if apart <= CLOCKS_TOGETHER_US {
            break;
        }
    }
    best.1
}

/// An alarm at an instant of the monotonic clock. tokio's own timers are up to 2 ms late; this one
/// wakes the loop 25 to 50 µs after its instant.
#[derive(Debug)]
pub struct Alarm {
    fd: AsyncFd<OwnedFd>,
    armed_us: Option<u64>,
}

impl Alarm {
    /// An alarm that is not set.
    pub fn new() -> io::Result<Alarm> {
        Ok(Alarm { fd: timerfd(TimerfdClockId::Monotonic)?, armed_us: None })
    }

    /// Ensures a wake-up at `at_us` or before. An earlier one that is already set stays: it costs a
    /// turn with nothing to do, less than setting the alarm again in every turn.
    pub fn wake_by(&mut self, at_us: u64) -> io::Result<()> {
        if self.armed_us.is_some_and(|armed_us| armed_us <= at_us) {
            return Ok(());
        }
        // An instant of zero would disarm it.
        self.set(TimerfdTimerFlags::ABSTIME, at_us.max(1))?;
        self.armed_us = Some(at_us);
        Ok(())
    }

    /// Whether it has gone off; if not, the task is woken when it does.
    pub fn poll_rung(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut guard = std::task::ready!(self.fd.poll_read_ready(cx))?;
        // The count of expirations is not read: the descriptor is watched for edges, and setting
        // the alarm again resets it.
        guard.clear_ready();
        drop(guard);
        self.armed_us = None;
        // Registers for the next edge; otherwise that one would wake no task.
        match self.fd.poll_read_ready(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn set(&self, flags: TimerfdTimerFlags, at_us: u64) -> io::Result<()> {
        set(&self.fd, flags, at_us)
    }
}

/// Tells when the wall clock is set: an alarm on it, far away, that the kernel cancels then.
#[derive(Debug)]
pub struct StepWatch {
    fd: AsyncFd<OwnedFd>,
}

impl StepWatch {
    pub fn new() -> io::Result<StepWatch> {
        let watch = StepWatch { fd: timerfd(TimerfdClockId::Realtime)? };
        watch.arm()?;
        Ok(watch)
    }

    /// Whether the wall clock was set since the last time this was asked.
    pub fn poll_stepped(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut guard = std::task::ready!(self.fd.poll_read_ready(cx))?;
        guard.clear_ready();
        drop(guard);
        self.arm()?;
        match self.fd.poll_read_ready(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn arm(&self) -> io::Result<()> {
        const YEAR_9999_US: u64 = 253_370_764_800_000_000;
        set(&self.fd, TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET, YEAR_9999_US)
    }
}

#[allow(
    deprecated,
    reason = "its replacement is unsafe for the sake of types that change their descriptor; an \
              OwnedFd does not"
)]
fn timerfd(clock: TimerfdClockId) -> io::Result<AsyncFd<OwnedFd>> {
    let fd = timerfd_create(clock, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
    AsyncFd::new(fd)
}

fn set(fd: &AsyncFd<OwnedFd>, flags: TimerfdTimerFlags, at_us: u64) -> io::Result<()> {
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    let at = Timespec {
        tv_sec: (at_us / 1_000_000).try_into().unwrap_or(i64::MAX),
        tv_nsec: (at_us % 1_000_000 * 1_000) as _,
    };
    timerfd_settime(fd.get_ref(), flags, &Itimerspec { it_interval: zero, it_value: at })?;
    Ok(())
}

/// A wall clock before the epoch counts as the epoch.
fn micros(at: Timespec) -> u64 {
    let seconds = u64::try_from(at.tv_sec).unwrap_or(0);
    seconds * 1_000_000 + at.tv_nsec as u64 / 1_000
}
