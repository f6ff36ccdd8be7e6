//! Entries in the log of a cluster, and entries on their way to it.

use crate::cluster::members::Members;
use crate::time::Micros;
use bytes::Bytes;

/// One index of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// From 1 on, without gaps.
    pub index: u64,
    /// The term of the leader that proposed it. Index and term together name an entry: wherever both are equal
    /// the payload is, and so is all of the log before it.
    pub term: u64,
    /// The id of that leader, for people.
    pub node: u64,
    pub payload: Payload,
}

/// The content of an index of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Nothing: a new leader's first entry, with which all before it is committed.
    Blank,
    /// Decided facts, in the term of the entry.
    Facts(EpochFacts),
    /// The members from here on.
    Members(Members),
}

/// Facts of one turn or of several, decided in the term of their entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochFacts {
    /// The sequence of the first, from 1.
    pub first: u64,
    /// The time of the first turn.
    pub now: Micros,
    /// How many there are, at least 1.
    pub count: u32,
    /// The facts, encoded; never empty. Where another turn begins, they say so.
    pub body: Bytes,
}

impl LogEntry {
    pub fn bytes(&self) -> usize {
        match &self.payload {
            Payload::Facts(facts) => facts.body.len(),
            Payload::Blank | Payload::Members(_) => 0,
        }
    }
}

/// The state as of an index, from which the log goes on: what a base file holds, without its images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Base {
    /// The last index in it; 0 is an empty node's, which has none.
    pub index: u64,
    pub term: u64,
    pub members: Members,
}

/// What a node must never forget about elections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vote {
    /// The highest term it knows.
    pub term: u64,
    /// The node that got its vote in that term; 0 for none.
    pub voted_for: u64,
}

/// Data to make durable, as a whole and in the order of the numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Never falls; several may have the same. Call [`super::node::Node::persisted`] with it when this one is durable,
    /// and so all before it.
    pub number: u64,
    /// A base that was received takes the place of the whole log.
    pub base: Option<Base>,
    /// Takes the place of what the log has from the first one's index on.
    pub entries: Vec<LogEntry>,
    /// The vote, if it changed.
    pub vote: Option<Vote>,
    /// The newest index known committed when this was made: at most the last one of the log. It may be
    /// kept with what is written anyway; nothing waits for it.
    pub commit: u64,
}
