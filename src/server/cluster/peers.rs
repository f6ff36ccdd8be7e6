//! The connections to other nodes, as the raft loop uses them: sockets in a server, links in virtual time in tests.

use crate::cluster::driver::Dial;
use crate::cluster::members::claims::Claims;
use crate::cluster::members::formation::Conflict;
use crate::cluster::peer::verify::{Missed, VerifyNote};
use crate::cluster::raft::codec::{Head, Outgoing};
use crate::cluster::raft::output::RefusedMessage;
use crate::cluster::timing::clocks::ClockNote;
use crate::server::cluster::bases::BaseEvent;
use crate::time::Micros;
use bytes::Bytes;

/// A message of a node, with all of its bodies.
#[derive(Debug)]
pub struct Incoming {
    /// The connection it came over: for [`Peers::refuse`].
    pub token: u64,
    /// The peer of that connection.
    pub peer: u64,
    pub head: Head,
    pub bodies: Vec<Bytes>,
}

/// What peers let us know besides messages and bases.
#[derive(Debug, Default)]
pub struct PeerNews {
    /// Nodes whose connections to us have ended and that were not met again.
    pub parted: Vec<u64>,
    /// Notes of their clocks.
    pub clocks: Vec<(u64, ClockNote)>,
    /// Whether all hold the same, as they ask and answer.
    pub verify: Vec<(u64, VerifyNote)>,
    /// Why called nodes refused this one; if it was removed, with the index of a directory without it.
    pub refused: Vec<(String, Option<u64>)>,
}

/// Called when a handshake has succeeded, on either side: an error closes the connection.
pub type Meet<'a> = &'a mut dyn FnMut(&Claims) -> Result<(), Conflict>;

pub trait Peers {
    /// The monotonic clock at this moment: later than the wake-up by the work done since.
    fn clock(&self) -> Micros;
    /// This node's claims for nodes that it meets from here on.
    fn set_claims(&mut self, own: Claims);
    /// The nodes to keep connections to.
    fn set_peers(&mut self, list: Vec<Dial>);
    /// Whether no entries are read for now: there is no room for what becomes of them.
    fn set_full(&mut self, is_full: bool);
    /// Lets callers in, dials, and takes the messages that have come.
    fn work(&mut self, meet: Meet<'_>) -> Vec<Incoming>;
    /// Ends the connection over which an invalid message came. Others that came over it may still follow.
    fn refuse(&mut self, token: u64, refused: RefusedMessage);
    /// Ends the connections over which this node has called, and tells it why.
    fn turn_away(&mut self, node: u64, why: Conflict);
    /// What has come since the last call, besides messages and bases.
    fn take_news(&mut self) -> PeerNews;
    /// The results of bases since the last call.
    fn take_base_events(&mut self) -> Vec<BaseEvent>;
    /// Queues messages, in order; [`Peers::flush`] sends them.
    fn send(&mut self, messages: Vec<Outgoing>);
    /// Begins to send the base up to `index`, and then the message. Whether that has begun: if not, it has failed.
    fn send_base(&mut self, index: u64, message: Outgoing) -> bool;
    /// Sends that node a question or an answer of that kind.
    ///
    /// # Errors
    /// It is not connected, or older than that.
    fn send_verify(&mut self, to: u64, note: VerifyNote) -> Result<(), Missed>;
    fn send_clocks(&mut self, note: impl Fn(u64) -> Option<ClockNote>);
    /// Writes what there is room for. The nodes to which something was lost since the last call.
    fn flush(&mut self) -> Vec<u64>;
}
