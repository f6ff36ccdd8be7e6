//! The answers of a node.

use super::codec::{HeadError, Outgoing};
use super::entry::{Base, LogEntry, Write};
pub use super::storage::Fetch;
use crate::words::words;
use thiserror::Error;

words! {
    /// The current role of a node.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub enum RaftRole {
        /// It leads, from the index on at which it was elected: what is before that is applied first.
        Leader = "leader",
        /// It asks for votes.
        Candidate = "candidate",
        /// It stores what the leader sends.
        #[default]
        Follower = "follower",
    }
}

/// A majority has heard this leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmed {
    /// The value given to [`super::node::Node::confirm`]: they did so after that.
    pub asked: u64,
    /// Whether they promised to elect no other node for E. Not in a term in which leadership was being handed over: the
    /// other node may still be about to take it.
    pub is_promise: bool,
}

/// The work to do, in the order of the fields.
#[derive(Debug, Default)]
pub struct Output {
    /// To the log, in order; nothing waits for them before the rest of the output.
    pub writes: Vec<Write>,
    /// To peers, in order for each of them and lane.
    pub messages: Vec<Outgoing>,
    /// A base that was received is durable: the state is that of it.
    pub restored: Option<Base>,
    /// The next entries, committed and durable here. A base before them is in `restored`.
    pub committed: Vec<LogEntry>,
    /// For a leader whose disk is behind the others': all facts before this one that it has proposed in its term are
    /// committed, and some of them are not in `committed` yet.
    pub safe: Option<u64>,
    /// The questions of [`super::node::Node::confirm`] that were answered.
    pub confirmed: Vec<Confirmed>,
    /// To be read from the log for [`super::node::Node::fetched`].
    pub fetches: Vec<Fetch>,
    /// A base newer than the last change of members is needed, as soon as there can be one.
    pub wants_base: bool,
}

/// Why a batch was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotProposed {
    /// Decided in another term: it is void.
    #[error("decided in term {decided} and it is {now}")]
    Stale { decided: u64, now: u64 },
    #[error("this node does not lead")]
    NotLeader,
    /// As much as may be is in flight: it goes with the next one.
    #[error("the window is full")]
    Full,
    #[error("leadership is being handed over")]
    Transferring,
    /// Empty or larger than [`crate::limits::BATCH_BYTES_MAX`].
    #[error("a batch of {0} bytes")]
    Size(usize),
}

/// A message that is not from a member of this cluster that works: its connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RefusedMessage {
    #[error(transparent)]
    Head(#[from] HeadError),
    /// In another's name, or for another.
    #[error("node {peer} sent a message from {from} to {to}")]
    Nodes { peer: u64, from: u64, to: u64 },
    /// From another cluster, or from none: this node is in the lists of two clusters.
    #[error("node {peer} sent a message of another cluster")]
    OtherCluster { peer: u64 },
    /// A message with which a base ends, where none was sent.
    #[error("node {peer} sent the end of a base on a connection of another kind")]
    Base { peer: u64 },
    /// It rests on entries that this node does not have, and should: one of the two has forgotten something.
    #[error("node {peer} counts on entry {index}, and the last one here is {last}")]
    Ahead { peer: u64, index: u64, last: u64 },
}

/// How far another node is, as its leader knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerProgress {
    pub id: u64,
    /// Up to here its log is this one's, durably.
    pub matched: u64,
    /// Whether it lacks what only a base has.
    pub needs_base: bool,
    /// Whether it was heard since the last look at the majority, every E.
    pub is_heard: bool,
}
