//! The raft thread's wait: epoll.

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Events taken at a time; more come with the next call.
const EVENTS: usize = 64;

pub struct Poller(OwnedFd);

/// The readiness of a descriptor.
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

    /// Reports each change of a connection, once, until it is closed: the receiver reads and writes as long as that
    /// succeeds, or remembers that there is more.
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
    pub fn wait(&self, for_us: u64, ready: &mut Vec<Ready>) -> io::Result<()> {
        let timeout = Timespec {
            tv_sec: (for_us / 1_000_000).try_into().unwrap_or(i64::MAX),
            tv_nsec: (for_us % 1_000_000 * 1_000) as _,
        };
        let mut events = [MaybeUninit::uninit(); EVENTS];
        let events = match epoll::wait(&self.0, &mut events, Some(&timeout)) {
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

// Waking the raft thread from other threads.

/// An eventfd. The waiting side watches for edges, so that it is never read.
#[derive(Debug)]
pub struct Wakeup {
    fd: OwnedFd,
    /// The thread is awake, or was woken and has not looked yet: it need not be woken again.
    is_awake: AtomicBool,
}

impl Wakeup {
    /// For a thread that has not looked for anything yet.
    pub fn new() -> io::Result<Wakeup> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Wakeup { fd, is_awake: AtomicBool::new(false) })
    }

    /// After what it is to see was put where it looks.
    pub fn wake(&self) {
        // It fails only when 2^64 - 1 of them were never read; then it is readable anyway.
        if !self.is_awake.swap(true, Ordering::SeqCst) {
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
    }

    /// Whether it was woken since it began to look.
    pub fn is_rung(&self) -> bool {
        self.is_awake.load(Ordering::SeqCst)
    }

    /// By the thread, before it looks: what is put there from here on wakes it again.
    pub fn begin_to_look(&self) {
        self.is_awake.store(false, Ordering::SeqCst);
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
