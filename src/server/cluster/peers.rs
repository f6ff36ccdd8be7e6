//! The connections to other nodes, as the raft loop uses them: sockets in a server, links in virtual time in tests.

use crate::cluster::claims::Claims;
use crate::cluster::clocks::ClockNote;
use crate::cluster::codec::{Head, Outgoing};
use crate::cluster::driver::Dial;
use crate::cluster::formation::Conflict;
use crate::cluster::output::Refused;
use crate::cluster::verify::{Missed, VerifyNote};
use crate::server::cluster::bases::BaseEvent;
use crate::time::Micros;
use bytes::Bytes;

/// A message of a node, with all of its bodies.
#[derive(Debug)]
pub struct Incoming {
    /// The connection it came over: for [`Peers::refuse`].
    pub token: u64,
    /// Whose connection that is.
    pub peer: u64,
    /// What it says.
    pub head: Head,
    /// What followed.
    pub bodies: Vec<Bytes>,
}

/// Asked when a handshake has ended well, whoever called: an error closes the connection.
pub type Meet<'a> = &'a mut dyn FnMut(&Claims) -> Result<(), Conflict>;

/// See the module.
pub trait Peers {
    /// What the monotonic clock shows at this moment: later than the wake-up by what was done since.
    fn clock(&self) -> Micros;
    /// What this node says of itself to nodes that it meets from here on.
    fn set_claims(&mut self, own: Claims);
    /// The nodes to keep connections to.
    fn set_peers(&mut self, list: Vec<Dial>);
    /// Whether no entries are read for now: there is no room for what becomes of them.
    fn set_full(&mut self, is_full: bool);
    /// Lets callers in, dials, and takes the messages that have come.
    fn work(&mut self, meet: Meet<'_>) -> Vec<Incoming>;
    /// Ends the connection over which an invalid message came. Others that came over it may still follow.
    fn refuse(&mut self, token: u64, refused: Refused);
    /// Nodes whose calls have ended since the last call of this, and that were not met again.
    fn take_parted(&mut self) -> Vec<u64>;
    /// What peers' clocks show, as they have said since the last call.
    fn take_clocks(&mut self) -> Vec<(u64, ClockNote)>;
    /// Whether all hold the same, as peers have asked and answered since the last call.
    fn take_verify(&mut self) -> Vec<(u64, VerifyNote)>;
    /// What nodes that were called have said as they refused this node, since the last call.
    fn take_refused(&mut self) -> Vec<String>;
    /// What has become of bases since the last call.
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
    /// Tells each peer that understands it what `note` has for it.
    fn send_clocks(&mut self, note: impl Fn(u64) -> Option<ClockNote>);
    /// Writes what there is room for. The nodes to which something was lost since the last call.
    fn flush(&mut self) -> Vec<u64>;
}
