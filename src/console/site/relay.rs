//! The agreement of the console and the server for one connection between them: how much may be answered, how long a
//! command may wait, and which answers have reached the console's client.
//!
//! Before a command takes a job the server knows whether the answer fits. If a job is taken anyway and its answer never
//! reaches the client, it goes back to its old place: until [`Relay::hand_on`] it counts as unsent.

use crate::lock::lock;
use std::any::Any;
use std::io;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

/// Both ends of a socket pair hold it. Positions count the bytes of replies from the connection's first.
#[derive(Debug)]
pub struct Relay {
    /// Jobs count as handed over when their answer has been handed on, not when it is in the pair.
    pub holds_jobs: bool,
    terms: Mutex<RelayTerms>,
}

#[derive(Debug, Default)]
struct RelayTerms {
    /// Answers may go up to here; none: they are not limited.
    until: Option<u64>,
    /// A command was refused for lack of room: those after it are refused, too, until the next request.
    stopped: bool,
    /// No command waits longer.
    wait_until: Option<Instant>,
    /// Answers up to here have begun to reach the client.
    handed_on: u64,
    /// The server has taken back what was not handed on.
    taken_back: bool,
    /// See [`Relay::leave`].
    user: Option<LeftUser>,
}

/// A user as the server knows it.
type LeftUser = Arc<dyn Any + Send + Sync>;

impl Relay {
    /// For a connection that answers one request over HTTP, and closes.
    pub fn for_request() -> Relay {
        Relay { holds_jobs: true, terms: Mutex::default() }
    }

    /// For a connection that goes on and takes no jobs, such as a session of the console.
    pub fn for_session() -> Relay {
        Relay { holds_jobs: false, terms: Mutex::default() }
    }

    /// The next commands may answer `bytes` from position `from` on, and wait until `wait_until`.
    pub fn begin(&self, from: u64, bytes: usize, wait_until: Option<Instant>) {
        let mut terms = lock(&self.terms);
        terms.until = Some(from.saturating_add(bytes as u64));
        terms.wait_until = wait_until;
        terms.stopped = false;
    }

    /// How many bytes a command may answer if its reply begins at `end`.
    pub fn room(&self, end: u64) -> u64 {
        let terms = lock(&self.terms);
        match terms.until {
            _ if terms.stopped => 0,
            Some(until) => until.saturating_sub(end),
            None => u64::MAX,
        }
    }

    /// Refuses further commands until the next request begins.
    pub fn stop(&self) {
        lock(&self.terms).stopped = true;
    }

    /// How long a command may wait that runs now; none: as long as it says.
    pub fn wait_left(&self) -> Option<Duration> {
        let until = lock(&self.terms).wait_until?;
        Some(until.saturating_duration_since(Instant::now()))
    }

    /// Lets `write` hand answers up to `position` to the client. They count as handed on once it has accepted a byte.
    /// Answers taken back meanwhile are not written.
    pub fn hand_on(
        &self,
        position: u64,
        write: impl FnOnce() -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let mut terms = lock(&self.terms);
        if terms.taken_back && terms.handed_on < position {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        // Under the lock: what is being written is not taken back.
        let written = write();
        if matches!(written, Poll::Ready(Ok(count)) if count > 0) {
            terms.handed_on = terms.handed_on.max(position);
        }
        written
    }

    /// Whether answers up to `position` can still be handed on.
    pub fn is_good(&self, position: u64) -> bool {
        let terms = lock(&self.terms);
        !terms.taken_back || terms.handed_on >= position
    }

    /// Nothing more is handed on from here; up to where it was.
    pub fn take_back(&self) -> u64 {
        let mut terms = lock(&self.terms);
        terms.taken_back = true;
        terms.handed_on
    }

    /// The server ends a session's connection because no reply can come on it any more, and not because of its user: the
    /// next one under the same agreement begins with this user, if nothing has been changed in it.
    pub fn leave(&self, user: LeftUser) {
        lock(&self.terms).user = Some(user);
    }

    /// Whether it was left so.
    pub fn is_left(&self) -> bool {
        lock(&self.terms).user.is_some()
    }

    /// The user of the connection before, once.
    pub fn resume(&self) -> Option<LeftUser> {
        lock(&self.terms).user.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_handed_on_or_taken_back_never_both() {
        let relay = Relay::for_request();
        assert!(relay.hand_on(10, || Poll::Pending).is_pending());
        assert!(matches!(relay.hand_on(10, || Poll::Ready(Ok(0))), Poll::Ready(Ok(0))));
        assert!(matches!(relay.hand_on(10, || Poll::Ready(Ok(1))), Poll::Ready(Ok(1))));
        assert!(relay.is_good(20));
        assert_eq!(relay.take_back(), 10);
        assert!(relay.is_good(10) && !relay.is_good(20));
        let late = relay.hand_on(20, || unreachable!("it is taken back"));
        assert!(matches!(late, Poll::Ready(Err(_))));
    }

    #[test]
    fn what_was_refused_for_room_stops_the_rest() {
        let relay = Relay::for_request();
        assert_eq!((relay.room(7), relay.wait_left()), (u64::MAX, None));
        relay.begin(100, 50, Some(Instant::now()));
        assert_eq!((relay.room(120), relay.room(200)), (30, 0));
        assert_eq!(relay.wait_left(), Some(Duration::ZERO));
        relay.stop();
        assert_eq!(relay.room(100), 0);
        relay.begin(100, 50, None);
        assert_eq!(relay.room(100), 50);
    }
}
