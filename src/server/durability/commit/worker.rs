//! A thread that works with files. Its disk may not give it back when it is to end.

use std::convert::Infallible;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Instant;

#[derive(Debug)]
pub struct Worker {
    thread: JoinHandle<()>,
    /// Closed when it has ended.
    ended: Receiver<Infallible>,
}

impl Worker {
    /// Starts it.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<Worker> {
        let (ends, ended) = channel();
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || {
            let _ends = ends;
            work();
        })?;
        Ok(Worker { thread, ended })
    }

    /// Waits until it has ended, but not beyond `until`. Whether it has: if not, it is left to itself.
    pub fn end(self, until: Option<Instant>) -> bool {
        if let Some(until) = until {
            let left = until.saturating_duration_since(Instant::now());
            if self.ended.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
                return false;
            }
        }
        // A panic has been logged.
        let _ = self.thread.join();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn one_that_is_held_up_is_left_behind() {
        let (go, goes) = channel::<()>();
        let worker = Worker::start("held", move || _ = goes.recv()).unwrap();
        assert!(!worker.end(Some(Instant::now() + Duration::from_millis(10))));
        drop(go);
        for until in [None, Some(Instant::now() + Duration::from_secs(60))] {
            assert!(Worker::start("free", || ()).unwrap().end(until));
        }
        let panics = Worker::start("panics", || panic!("a test")).unwrap();
        assert!(panics.end(Some(Instant::now() + Duration::from_secs(60))));
    }
}
