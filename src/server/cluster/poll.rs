//! What the raft thread sleeps on: epoll, and the clock of its ticks.

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Events taken at a time; more come with the next call.
const EVENTS: usize = 64;

/// See the module.
pub struct Poller(OwnedFd);

/// What there is to do at a descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// As it was watched.
    pub token: u64,
    /// Bytes, a connection or the end of one have come.
    pub is_readable: bool,
    /// There is room for bytes again.
    pub is_writable: bool,
    /// The other end is gone; there may be bytes before that.
    pub is_over: bool,
}

impl Poller {
    /// One that watches nothing.
    pub fn new() -> io::Result<Poller> {
        Ok(Poller(epoll::create(CreateFlags::CLOEXEC)?))
    }

    /// Tells of each change at a connection, once, until it is closed: whoever is told reads and writes as long as that
    /// goes on, or remembers that there is more.
    pub fn watch_changes(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.0, fd, EventData::new_u64(token), flags)?)
    }

    /// As [`Poller::watch_changes`], of what is only ever readable and never read.
    pub fn watch_wakeups(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::ET;
        Ok(epoll::add(&self.0, fd, EventData::new_u64(token), flags)?)
    }

    /// Tells as long as it is readable.
    pub fn watch_level(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.0, fd, EventData::new_u64(token), EventFlags::IN)?)
    }

    /// Whether [`Poller::watch_level`] goes on.
    pub fn set_level(&self, fd: impl AsFd, token: u64, is_watched: bool) -> io::Result<()> {
        let flags = if is_watched { EventFlags::IN } else { EventFlags::empty() };
        Ok(epoll::modify(&self.0, fd, EventData::new_u64(token), flags)?)
    }

    /// Tells of it no more.
    pub fn forget(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.0, fd)?)
    }

    /// Sleeps until there is something, at most `for_us` µs, which are rounded up to a ms.
    pub fn wait(&self, for_us: Option<u64>, ready: &mut Vec<Ready>) -> io::Result<()> {
        let timeout = for_us.map(|us| Timespec {
            tv_sec: (us / 1_000_000).try_into().unwrap_or(i64::MAX),
            tv_nsec: (us % 1_000_000 * 1_000) as _,
        });
        let mut events = [MaybeUninit::uninit(); EVENTS];
        let events = match epoll::wait(&self.0, &mut events, timeout.as_ref()) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let over = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        ready.extend(events.iter().map(|event| {
            let (flags, data) = (event.flags, event.data);
            let is_over = flags.intersects(over);
            Ready {
                token: data.u64(),
                is_readable: is_over || flags.contains(EventFlags::IN),
                is_writable: is_over || flags.contains(EventFlags::OUT),
                is_over,
            }
        }));
        Ok(())
    }
}

/// Rings at even intervals of CLOCK_BOOTTIME, which goes on while the machine sleeps.
pub struct Ticker(OwnedFd);

impl Ticker {
    /// Rings for the first time after one interval, µs.
    pub fn new(every_us: u64) -> io::Result<Ticker> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Boottime, flags)?;
        let every_us = every_us.max(1);
        let every = Timespec {
            tv_sec: (every_us / 1_000_000).try_into().unwrap_or(i64::MAX),
            tv_nsec: (every_us % 1_000_000 * 1_000) as _,
        };
        let timer = Itimerspec { it_interval: every, it_value: every };
        timerfd_settime(&fd, TimerfdTimerFlags::empty(), &timer)?;
        Ok(Ticker(fd))
    }

    /// Whether it rang since this was last asked, however often.
    pub fn take(&self) -> bool {
        rustix::io::read(&self.0, &mut [0; 8]).is_ok()
    }
}

impl AsFd for Ticker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
