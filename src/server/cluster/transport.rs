//! Messages between nodes, over sockets: connections in both directions, kept from blocking each other.

use crate::cluster::driver::Dial;
use crate::cluster::members::claims::{Claims, NodeId};
use crate::cluster::members::formation::Conflict;
use crate::cluster::peer::hello::{Called, Secret};
use crate::cluster::peer::verify::{Missed, VerifyNote};
use crate::cluster::raft::codec::Outgoing;
use crate::cluster::raft::output::RefusedMessage;
use crate::cluster::timing::clocks::ClockNote;
use crate::server::clock::timer::boot_us;
use crate::server::cluster::bases::{BaseEvent, Bases, Task};
use crate::server::cluster::connection::Context;
use crate::server::cluster::listener::PeerListener;
use crate::server::cluster::outbound::Outbound;
use crate::server::cluster::peer_tls::PeerTls;
use crate::server::cluster::peers::{Incoming, Meet, PeerNews, Peers};
use crate::server::cluster::poll::{Ready, Wakeup};
use crate::time::Micros;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;

/// See the module. One thread has it; it sleeps in [`Transport::wait`] alone.
pub struct Transport {
    cx: Context,
    outbound: Outbound,
    door: PeerListener,
    ready: Vec<Ready>,
    is_full: bool,
}

const WAKEUP: u64 = 0;

impl Transport {
    /// Listens from here on.
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
        cx.poller.watch_wakeups(&*wakeup, WAKEUP)?;
        let door = PeerListener::open(&cx, listeners)?;
        let outbound = Outbound::new(wakeup);
        Ok(Transport { cx, outbound, door, ready: Vec::new(), is_full: false })
    }

    /// Sleeps until there is something to do, `by` at the latest; not at all if `is_awake`.
    ///
    /// # Errors
    /// The system cannot wait.
    pub fn wait(&mut self, is_awake: bool, by: Micros) -> io::Result<()> {
        let for_us = if is_awake || self.outbound.has_more() || self.door.has_more(self.is_full) {
            0
        } else {
            let deadlines = self.outbound.deadline_us().into_iter().chain(self.door.deadline_us());
            deadlines.fold(by.0, u64::min).saturating_sub(boot_us())
        };
        let Transport { cx, ready, .. } = self;
        cx.poller.wait(for_us, ready)?;
        self.cx.wakeup.begin_to_look();
        self.cx.now_us = boot_us();
        for ready in self.ready.drain(..) {
            match ready.token {
                WAKEUP => {}
                _ if self.outbound.note(ready) || self.door.note(ready) => {}
                // It was closed in this very wake-up.
                _ => {}
            }
        }
        Ok(())
    }

    /// CLOCK_BOOTTIME, µs, as of the wake-up.
    pub fn now_us(&self) -> u64 {
        self.cx.now_us
    }

    /// The encryption of connections that begin from here on.
    pub fn set_tls(&mut self, tls: PeerTls) {
        self.cx.tls = tls;
    }

    /// Through which bases come and go.
    pub fn set_bases(&mut self, bases: Option<Arc<Bases>>) {
        self.cx.bases = bases;
    }
}

impl Peers for Transport {
    fn clock(&self) -> Micros {
        Micros(boot_us())
    }

    fn set_claims(&mut self, own: Claims) {
        self.cx.own = own;
    }

    fn set_peers(&mut self, list: Vec<Dial>) {
        self.outbound.set_peers(&mut self.cx, list);
    }

    fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    fn work(&mut self, meet: Meet<'_>) -> Vec<Incoming> {
        self.outbound.work(&mut self.cx, meet);
        self.cx.has_old = self.outbound.has_old();
        self.door.work(&mut self.cx, &mut self.outbound, self.is_full, meet);
        std::mem::take(&mut self.cx.incoming)
    }

    fn take_news(&mut self) -> PeerNews {
        std::mem::take(&mut self.cx.news)
    }

    fn send_verify(&mut self, to: u64, note: VerifyNote) -> Result<(), Missed> {
        self.outbound.send_verify(to, note)
    }

    fn send_clocks(&mut self, note: impl Fn(u64) -> Option<ClockNote>) {
        self.outbound.send_clocks(note);
    }

    fn turn_away(&mut self, node: u64, why: Conflict) {
        self.door.turn_away(&mut self.cx, node, &why);
    }

    fn refuse(&mut self, token: u64, refused: RefusedMessage) {
        self.door.end(&mut self.cx, token, refused.into());
    }

    fn send(&mut self, messages: Vec<Outgoing>) {
        messages.into_iter().for_each(|message| self.outbound.send(&mut self.cx, message));
    }

    fn send_base(&mut self, index: u64, message: Outgoing) -> bool {
        let Some(bases) = &self.cx.bases else { return false };
        let Some((name, place)) = self.outbound.place_of(message.to) else { return false };
        let called = Called { name, node: Some(NodeId(message.to)) };
        let (own, secret) = (self.cx.own.clone(), self.cx.secret.clone());
        let tls = self.cx.tls.clone();
        let begun = bases.send(Task { index, message, place, called, own, secret, tls });
        if let Err(error) = &begun {
            tracing::warn!(%error, "a base cannot be sent");
        }
        begun.is_ok()
    }

    fn take_base_events(&mut self) -> Vec<BaseEvent> {
        self.cx.bases.as_ref().map_or_else(Vec::new, |bases| bases.take_events())
    }

    fn flush(&mut self) -> Vec<u64> {
        self.outbound.flush(&mut self.cx);
        std::mem::take(&mut self.cx.lost)
    }
}
