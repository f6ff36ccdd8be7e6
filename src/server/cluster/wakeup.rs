//! What wakes the raft thread from others.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// An eventfd. Whoever waits for it watches for edges, so that it is never read.
#[derive(Debug)]
pub struct Wakeup {
    fd: OwnedFd,
    /// The thread is awake, or was woken, and has not looked yet: nobody has to wake it again.
    is_awake: AtomicBool,
}

impl Wakeup {
    /// Of a thread that has not looked for anything yet.
    pub fn new() -> io::Result<Wakeup> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Wakeup { fd, is_awake: AtomicBool::new(false) })
    }

    /// After what it is to see was put where it looks.
    pub fn wake(&self) {
        // It fails only when 2^64 - 1 of them were never read; then it is readable all the same.
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
