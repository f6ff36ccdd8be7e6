//! Why connections end, and how often that is logged: any caller can be refused a thousand times a second.

use crate::cluster::members::formation::Conflict;
use crate::cluster::members::names::Name;
use crate::cluster::peer::frame::FrameError;
use crate::cluster::peer::hello::Refusal;
use crate::cluster::raft::codec::HeadError;
use crate::cluster::raft::output::RefusedMessage;
use crate::limits::{PEER_HANDSHAKES_MAX, PEER_REFUSAL_QUIET_US, PEER_REFUSALS_MAX};
use std::collections::HashMap;
use std::io;
use std::mem::{Discriminant, discriminant};
use thiserror::Error;

/// Why a connection between nodes ends.
#[derive(Debug, Error)]
pub enum ConnectionTrouble {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("a message that cannot be read: {0}")]
    Head(#[from] HeadError),
    #[error("{0} extra bytes after a message")]
    Behind(usize),
    #[error(transparent)]
    Message(#[from] RefusedMessage),
    #[error(transparent)]
    Conflict(#[from] Conflict),
    #[error("this node accepts no bases")]
    Base,
    #[error("its handshake was not over after 2 s")]
    Late,
    #[error("more than {PEER_HANDSHAKES_MAX} connections had not identified themselves")]
    Crowd,
    #[error("{0} has opened another one")]
    Replaced(Name),
    #[error("it does not read, and {0} bytes wait for it")]
    Full(usize),
    #[error("its address or its cluster-node has changed")]
    Changed,
    #[error("the other node has closed it")]
    Closed,
    #[error("{0}")]
    Io(io::Error),
}

impl From<io::Error> for ConnectionTrouble {
    fn from(error: io::Error) -> ConnectionTrouble {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            ConnectionTrouble::Closed
        } else {
            ConnectionTrouble::Io(error)
        }
    }
}

/// What counts as one cause: without numbers and names, which the refused caller chooses.
type Cause = (
    Discriminant<ConnectionTrouble>,
    Option<Discriminant<Refusal>>,
    Option<Discriminant<Conflict>>,
    Option<Discriminant<FrameError>>,
    Option<io::ErrorKind>,
);

impl ConnectionTrouble {
    /// Whether a node was refused that waits to be added: it calls again and again, for as long as it lives, to know where
    /// the cluster is.
    pub fn is_of_waiting(&self) -> bool {
        matches!(self, ConnectionTrouble::Conflict(Conflict::Waits { .. }))
    }

    /// Whether it comes of a node that is stopped, or started again.
    pub fn is_ordinary(&self) -> bool {
        let is_of_closing = |kind| {
            use io::ErrorKind::{
                BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset,
            };
            matches!(kind, ConnectionRefused | ConnectionReset | ConnectionAborted | BrokenPipe)
        };
        match self {
            ConnectionTrouble::Closed
            | ConnectionTrouble::Replaced(_)
            | ConnectionTrouble::Changed => true,
            ConnectionTrouble::Io(error) => is_of_closing(error.kind()),
            _ => false,
        }
    }

    fn cause(&self) -> Cause {
        let refusal =
            if let ConnectionTrouble::Refused(refusal) = self { Some(refusal) } else { None };
        let frame = match (self, refusal) {
            (ConnectionTrouble::Frame(frame), _) | (_, Some(Refusal::Frame(frame))) => Some(frame),
            _ => None,
        };
        let kind = if let ConnectionTrouble::Io(error) = self { Some(error.kind()) } else { None };
        let conflict =
            if let ConnectionTrouble::Conflict(conflict) = self { Some(conflict) } else { None };
        let (refusal, conflict) = (refusal.map(discriminant), conflict.map(discriminant));
        (discriminant(self), refusal, conflict, frame.map(discriminant), kind)
    }
}

/// Recent log lines.
#[derive(Debug, Default)]
pub struct Refusals {
    said: HashMap<(Box<str>, Cause), Said>,
    /// Not said, for want of room in `said`.
    left_out: u64,
}

#[derive(Debug)]
struct Said {
    at_us: u64,
    left_out: u64,
}

impl Refusals {
    /// Whether to log that the connection with `who`, an address or a name, ended like this; with the number of similar
    /// ones that were not logged since the last one.
    pub fn admit(&mut self, now_us: u64, who: &str, trouble: &ConnectionTrouble) -> Option<u64> {
        let key = (who.into(), trouble.cause());
        let is_quiet = |said: &Said| now_us < said.at_us + PEER_REFUSAL_QUIET_US;
        if let Some(said) = self.said.get_mut(&key) {
            if is_quiet(said) {
                said.left_out += 1;
                return None;
            }
            said.at_us = now_us;
            return Some(std::mem::take(&mut said.left_out));
        }
        if self.said.len() >= PEER_REFUSALS_MAX {
            self.said.retain(|_, said| is_quiet(said));
        }
        if self.said.len() >= PEER_REFUSALS_MAX {
            self.left_out += 1;
            return None;
        }
        self.said.insert(key, Said { at_us: now_us, left_out: 0 });
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Shown;

    #[test]
    fn one_line_for_each_cause_and_address_a_minute() {
        let mut refusals = Refusals::default();
        let garbage = |text: &str| {
            ConnectionTrouble::Refused(Refusal::Frame(FrameError::Preface(Shown::new(
                text.as_bytes(),
            ))))
        };
        assert_eq!(refusals.admit(0, "10.0.0.1", &garbage("GET /")), Some(0));
        for at in 1..500 {
            assert_eq!(refusals.admit(at, "10.0.0.1", &garbage(&at.to_string())), None);
        }
        assert_eq!(refusals.admit(500, "10.0.0.2", &garbage("GET /")), Some(0));
        assert_eq!(refusals.admit(500, "10.0.0.1", &ConnectionTrouble::Late), Some(0));
        let checksum = ConnectionTrouble::Refused(Refusal::Frame(FrameError::Checksum));
        assert_eq!(refusals.admit(500, "10.0.0.1", &checksum), Some(0));
        let minute = PEER_REFUSAL_QUIET_US;
        assert_eq!(refusals.admit(minute - 1, "10.0.0.1", &garbage("")), None);
        assert_eq!(refusals.admit(minute, "10.0.0.1", &garbage("")), Some(500));
        assert_eq!(refusals.admit(2 * minute, "10.0.0.1", &garbage("")), Some(0));
    }

    #[test]
    fn many_addresses_take_little_room() {
        let mut refusals = Refusals::default();
        let logged = |refusals: &mut Refusals, from: usize, at_us| {
            let one = |n: usize| refusals.admit(at_us, &n.to_string(), &ConnectionTrouble::Late);
            (from..from + 10_000).filter_map(one).collect::<Vec<u64>>()
        };
        assert_eq!(logged(&mut refusals, 0, 0).len(), PEER_REFUSALS_MAX);
        assert_eq!(refusals.said.len(), PEER_REFUSALS_MAX);
        let later = logged(&mut refusals, 10_000, PEER_REFUSAL_QUIET_US);
        assert_eq!(later[0], 10_000 - PEER_REFUSALS_MAX as u64);
        assert_eq!(later.len(), PEER_REFUSALS_MAX);
    }
}
