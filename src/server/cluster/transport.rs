//! What nodes say to each other, over sockets: whom they reach, who reaches them, and that the one does not stand in
//! the way of the other.

use crate::cluster::claims::{Claims, NodeId};
use crate::cluster::clocks::ClockNote;
use crate::cluster::codec::{Head, Outgoing};
use crate::cluster::driver::Dial;
use crate::cluster::formation::Conflict;
use crate::cluster::hello::{Called, Secret};
use crate::cluster::output::Refused;
use crate::cluster::verify::{Missed, VerifyNote};
use crate::limits::ELECTION_TICKS;
use crate::server::clock::timer::boot_us;
use crate::server::cluster::bases::{BaseEvent, Bases, Task};
use crate::server::cluster::connection::Context;
use crate::server::cluster::dialer::Dialer;
use crate::server::cluster::door::Door;
use crate::server::cluster::peer_tls::PeerTls;
use crate::server::cluster::poll::{Ready, Ticker};
use crate::server::cluster::wakeup::Wakeup;
use bytes::Bytes;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;

/// A message of a node, with all of its bodies.
#[derive(Debug)]
pub struct Incoming {
    /// The connection it came over: for [`Transport::refuse`].
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

/// See the module. One thread has it; it sleeps in [`Transport::wait`] alone.
pub struct Transport {
    cx: Context,
    dialer: Dialer,
    door: Door,
    ticker: Ticker,
    ready: Vec<Ready>,
    is_full: bool,
}

const WAKEUP: u64 = 0;
const TICK: u64 = 1;

impl Transport {
    /// Listens from here on; ticks come [`ELECTION_TICKS`] to an election timeout.
    ///
    /// # Errors
    /// The system has no descriptors.
    pub fn new(
        own: Claims,
        secret: Secret,
        election_us: u64,
        listeners: Vec<TcpListener>,
        wakeup: Arc<Wakeup>,
    ) -> io::Result<Transport> {
        let mut cx = Context::new(own, secret, election_us, Arc::clone(&wakeup))?;
        cx.now_us = boot_us();
        let ticker = Ticker::new(election_us / ELECTION_TICKS as u64)?;
        cx.poller.watch_level(&ticker, TICK)?;
        cx.poller.watch_wakeups(&*wakeup, WAKEUP)?;
        let door = Door::open(&cx, listeners)?;
        let dialer = Dialer::new(wakeup);
        Ok(Transport { cx, dialer, door, ticker, ready: Vec::new(), is_full: false })
    }

    /// What this node says of itself to whom it meets from here on.
    pub fn set_claims(&mut self, own: Claims) {
        self.cx.own = own;
    }

    /// Whom to keep connections to.
    pub fn set_peers(&mut self, list: Vec<Dial>) {
        self.dialer.set_peers(&mut self.cx, list);
    }

    /// Whether no entries are read for now: there is no room for what becomes of them.
    pub fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// Sleeps until there is something to do; not at all if `is_awake`. Whether a tick is over, however many were missed.
    ///
    /// # Errors
    /// The system cannot wait.
    pub fn wait(&mut self, is_awake: bool) -> io::Result<bool> {
        let for_us = if is_awake || self.dialer.has_more() || self.door.has_more(self.is_full) {
            Some(0)
        } else {
            let deadlines = self.dialer.deadline_us().into_iter().chain(self.door.deadline_us());
            deadlines.min().map(|at_us| at_us.saturating_sub(boot_us()))
        };
        let Transport { cx, ready, .. } = self;
        cx.poller.wait(for_us, ready)?;
        self.cx.wakeup.begin_to_look();
        self.cx.now_us = boot_us();
        let mut has_ticked = false;
        for ready in self.ready.drain(..) {
            match ready.token {
                WAKEUP => {}
                TICK => has_ticked = self.ticker.take(),
                _ if self.dialer.note(ready) || self.door.note(ready) => {}
                // It was closed in this very wake-up.
                _ => {}
            }
        }
        Ok(has_ticked)
    }

    /// CLOCK_BOOTTIME, µs, as of the wake-up.
    pub fn now_us(&self) -> u64 {
        self.cx.now_us
    }

    /// Lets callers in, dials, and takes what has come.
    pub fn work(&mut self, meet: Meet<'_>) -> Vec<Incoming> {
        self.dialer.work(&mut self.cx, meet);
        self.cx.has_old = self.dialer.has_old();
        self.door.work(&mut self.cx, &mut self.dialer, self.is_full, meet);
        std::mem::take(&mut self.cx.incoming)
    }

    /// Nodes whose calls have ended since the last call of this, and that were not met again.
    pub fn take_parted(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.cx.parted)
    }

    /// What peers' clocks show, as they have said since the last call.
    pub fn take_clocks(&mut self) -> Vec<(u64, ClockNote)> {
        std::mem::take(&mut self.cx.clocks)
    }

    /// Whether they hold the same, as peers have asked and answered since the last call.
    pub fn take_verify(&mut self) -> Vec<(u64, VerifyNote)> {
        std::mem::take(&mut self.cx.verify)
    }

    /// Sends that node a question or an answer of that kind; why not, if it will not come.
    ///
    /// # Errors
    /// It is not connected, or older than that.
    pub fn send_verify(&mut self, to: u64, note: VerifyNote) -> Result<(), Missed> {
        self.dialer.send_verify(to, note)
    }

    /// Tells each peer that understands it what `note` has for it.
    pub fn send_clocks(&mut self, note: impl Fn(u64) -> Option<ClockNote>) {
        self.dialer.send_clocks(note);
    }

    /// What those that were called have said as they refused this node, since the last call.
    pub fn take_refused(&mut self) -> Vec<String> {
        std::mem::take(&mut self.cx.refused)
    }

    /// Ends the connection over which a message came that no peer says. Others that came over it may still follow.
    pub fn refuse(&mut self, token: u64, refused: Refused) {
        self.door.end(&mut self.cx, token, refused.into());
    }

    /// Queues messages, in order; [`Transport::flush`] sends them.
    pub fn send(&mut self, messages: Vec<Outgoing>) {
        messages.into_iter().for_each(|message| self.dialer.send(&mut self.cx, message));
    }

    /// What connections that begin from here on are sealed with.
    pub fn set_tls(&mut self, tls: PeerTls) {
        self.cx.tls = tls;
    }

    /// Through which bases come and go.
    pub fn set_bases(&mut self, bases: Option<Arc<Bases>>) {
        self.cx.bases = bases;
    }

    /// Begins to send the base up to `index`, and behind it the message. Whether that has begun: if not, it has failed.
    pub fn send_base(&mut self, index: u64, message: Outgoing) -> bool {
        let Some(bases) = &self.cx.bases else { return false };
        let Some((name, place)) = self.dialer.place_of(message.to) else { return false };
        let called = Called { name, node: Some(NodeId(message.to)) };
        let (own, secret) = (self.cx.own.clone(), self.cx.secret.clone());
        let tls = self.cx.tls.clone();
        let begun = bases.send(Task { index, message, place, called, own, secret, tls });
        if let Err(error) = &begun {
            tracing::warn!(%error, "a base cannot be sent");
        }
        begun.is_ok()
    }

    /// What has become of bases since the last call.
    pub fn take_base_events(&self) -> Vec<BaseEvent> {
        self.cx.bases.as_ref().map_or_else(Vec::new, |bases| bases.take_events())
    }

    /// Writes what there is room for. The nodes to which something was lost since the last call.
    pub fn flush(&mut self) -> Vec<u64> {
        self.dialer.flush(&mut self.cx);
        std::mem::take(&mut self.cx.lost)
    }
}
