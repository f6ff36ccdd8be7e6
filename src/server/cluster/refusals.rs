//! Why connections end, and how often that is said: whoever can connect can be refused a thousand times a second.

use crate::cluster::codec::HeadError;
use crate::cluster::formation::Conflict;
use crate::cluster::frame::FrameError;
use crate::cluster::hello::Refusal;
use crate::cluster::names::Name;
use crate::cluster::output::Refused;
use crate::limits::{PEER_HANDSHAKES_MAX, PEER_REFUSAL_QUIET_US, PEER_REFUSALS_MAX};
use std::collections::HashMap;
use std::io;
use std::mem::{Discriminant, discriminant};
use thiserror::Error;

/// Why a connection between nodes ends.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the texts say it")]
pub enum Trouble {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("a message that cannot be read: {0}")]
    Head(#[from] HeadError),
    #[error("{0} bytes too many behind a message")]
    Behind(usize),
    #[error(transparent)]
    Message(#[from] Refused),
    #[error(transparent)]
    Conflict(#[from] Conflict),
    #[error("this node takes no bases")]
    Base,
    #[error("its handshake was not over after 2 s")]
    Late,
    #[error("more than {PEER_HANDSHAKES_MAX} connections had not said who they are")]
    Crowd,
    #[error("{0} has opened another one")]
    Replaced(Name),
    #[error("it takes nothing, and {0} bytes wait for it")]
    Full(usize),
    #[error("its address or its cluster-node has changed")]
    Changed,
    #[error("the other node has closed it")]
    Closed,
    #[error("{0}")]
    Io(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            Trouble::Closed
        } else {
            Trouble::Io(error)
        }
    }
}

/// What is one cause: not its numbers and names, which whoever is refused chooses.
type Cause = (
    Discriminant<Trouble>,
    Option<Discriminant<Refusal>>,
    Option<Discriminant<Conflict>>,
    Option<Discriminant<FrameError>>,
    Option<io::ErrorKind>,
);

impl Trouble {
    /// Whether it comes of a node that is stopped, or started again.
    pub fn is_ordinary(&self) -> bool {
        let is_of_closing = |kind| {
            use io::ErrorKind::{
                BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset,
            };
            matches!(kind, ConnectionRefused | ConnectionReset | ConnectionAborted | BrokenPipe)
        };
        match self {
            Trouble::Closed | Trouble::Replaced(_) | Trouble::Changed => true,
            Trouble::Io(error) => is_of_closing(error.kind()),
            _ => false,
        }
    }

    fn cause(&self) -> Cause {
        let refusal = if let Trouble::Refused(refusal) = self { Some(refusal) } else { None };
        let frame = match (self, refusal) {
            (Trouble::Frame(frame), _) | (_, Some(Refusal::Frame(frame))) => Some(frame),
            _ => None,
        };
        let kind = if let Trouble::Io(error) = self { Some(error.kind()) } else { None };
        let conflict = if let Trouble::Conflict(conflict) = self { Some(conflict) } else { None };
        let (refusal, conflict) = (refusal.map(discriminant), conflict.map(discriminant));
        (discriminant(self), refusal, conflict, frame.map(discriminant), kind)
    }
}

/// What was said lately.
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
    /// Whether it is to be logged that the connection with `who`, an address or a name, ended so; with how many
    /// like it were not since the last one that was.
    pub fn admit(&mut self, now_us: u64, who: &str, trouble: &Trouble) -> Option<u64> {
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
            Trouble::Refused(Refusal::Frame(FrameError::Preface(Shown::new(text.as_bytes()))))
        };
        assert_eq!(refusals.admit(0, "10.0.0.1", &garbage("GET /")), Some(0));
        for at in 1..500 {
            assert_eq!(refusals.admit(at, "10.0.0.1", &garbage(&at.to_string())), None);
        }
        assert_eq!(refusals.admit(500, "10.0.0.2", &garbage("GET /")), Some(0));
        assert_eq!(refusals.admit(500, "10.0.0.1", &Trouble::Late), Some(0));
        let checksum = Trouble::Refused(Refusal::Frame(FrameError::Checksum));
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
            let one = |n: usize| refusals.admit(at_us, &n.to_string(), &Trouble::Late);
            (from..from + 10_000).filter_map(one).collect::<Vec<u64>>()
        };
        assert_eq!(logged(&mut refusals, 0, 0).len(), PEER_REFUSALS_MAX);
        assert_eq!(refusals.said.len(), PEER_REFUSALS_MAX);
        let later = logged(&mut refusals, 10_000, PEER_REFUSAL_QUIET_US);
        assert_eq!(later[0], 10_000 - PEER_REFUSALS_MAX as u64);
        assert_eq!(later.len(), PEER_REFUSALS_MAX);
    }
}
