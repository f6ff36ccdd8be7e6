//! The connections of a node as its raft loop has them: what has come waits here for the next step, and what a step has
//! sent for the world.

use delayd::cluster::driver::Dial;
use delayd::cluster::members::claims::Claims;
use delayd::cluster::members::formation::Conflict;
use delayd::cluster::peer::frame::Lane;
use delayd::cluster::peer::verify::{Missed, VerifyNote};
use delayd::cluster::raft::codec::{Head, Outgoing};
use delayd::cluster::raft::output::RefusedMessage;
use delayd::cluster::timing::clocks::ClockNote;
use delayd::limits::LEVEL;
use delayd::server::cluster::bases::BaseEvent;
use delayd::server::cluster::peers::{Incoming, Meet, PeerNews, Peers};
use delayd::time::Micros;
use std::mem::take;

/// A node that this one is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct There {
    pub id: u64,
    /// It knows nothing of clocks and comparisons.
    pub is_old: bool,
}

#[derive(Default)]
pub struct Links {
    pub now: Micros,
    /// As the loop has set them last.
    pub own: Option<Claims>,
    pub dials: Vec<Dial>,
    pub is_full: bool,
    /// Set before each step.
    pub there: Vec<There>,
    /// Whose handshake is over, and what the loop says to that.
    calling: Vec<Claims>,
    met: Vec<bool>,
    arrived: Vec<(Lane, Incoming)>,
    news: PeerNews,
    base_events: Vec<BaseEvent>,
    lost: Vec<u64>,
    pub out: Sent,
}

/// By a step.
#[derive(Default)]
pub struct Sent {
    pub messages: Vec<Outgoing>,
    /// Bases, with the messages that follow them.
    pub bases: Vec<(u64, Outgoing)>,
    pub verify: Vec<(u64, VerifyNote)>,
    pub clocks: Vec<(u64, ClockNote)>,
    /// Places from which an invalid message came.
    pub refused: Vec<usize>,
}

impl Links {
    /// A handshake is over: whether the peer is one is seen in the next step, by [`Links::take_met`].
    pub fn shakes(&mut self, claims: Claims) {
        self.calling.push(claims);
    }

    pub fn take_met(&mut self) -> bool {
        take(&mut self.met).into_iter().all(|is_met| is_met)
    }

    /// A message of the node `peer`, which is in the place `from`.
    pub fn arrives(&mut self, from: usize, peer: u64, frame: Outgoing) {
        let head = Head::read(&frame.head).expect("a driver wrote it");
        let incoming = Incoming { token: from as u64, peer, head, bodies: frame.bodies };
        self.arrived.push((frame.lane, incoming));
    }

    /// The peer says what its clock shows; older nodes are not told.
    pub fn hears_clock(&mut self, peer: u64, note: ClockNote) {
        if !self.is_old() {
            self.news.clocks.push((peer, note));
        }
    }

    pub fn hears_verify(&mut self, peer: u64, note: VerifyNote) {
        self.news.verify.push((peer, note));
    }

    pub fn is_refused(&mut self, text: String) {
        self.news.refused.push((text, None));
    }

    pub fn hears_of_base(&mut self, event: BaseEvent) {
        self.base_events.push(event);
    }

    /// What was sent to that node is lost.
    pub fn loses(&mut self, peer: u64) {
        if !self.lost.contains(&peer) {
            self.lost.push(peer);
        }
    }

    pub fn parts_with(&mut self, peer: u64) {
        self.news.parted.push(peer);
    }

    pub fn is_old(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.level < LEVEL)
    }

    fn to(&self, id: u64) -> Option<There> {
        self.there.iter().copied().find(|there| there.id == id)
    }
}

impl Peers for Links {
    fn clock(&self) -> Micros {
        self.now
    }

    fn set_claims(&mut self, own: Claims) {
        self.own = Some(own);
    }

    fn set_peers(&mut self, list: Vec<Dial>) {
        self.dials = list;
    }

    fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// Heartbeats first, and of entries nothing while there is no room for them.
    fn work(&mut self, meet: Meet<'_>) -> Vec<Incoming> {
        for claims in take(&mut self.calling) {
            self.met.push(meet(&claims).is_ok());
        }
        let (control, data): (Vec<_>, Vec<_>) =
            take(&mut self.arrived).into_iter().partition(|(lane, _)| *lane == Lane::Control);
        let mut all = control;
        match self.is_full {
            true => self.arrived = data,
            false => all.extend(data),
        }
        all.into_iter().map(|(_, incoming)| incoming).collect()
    }

    fn refuse(&mut self, token: u64, _: RefusedMessage) {
        self.out.refused.push(token as usize);
    }

    /// Who is met stays connected here.
    fn turn_away(&mut self, _: u64, _: Conflict) {}

    /// Older nodes answer to a comparison that they are.
    fn take_news(&mut self) -> PeerNews {
        let mut news = take(&mut self.news);
        news.parted.retain(|id| self.to(*id).is_none());
        if self.is_old() {
            news.verify.retain(|(peer, note)| {
                let VerifyNote::Asked { index } = *note else { return true };
                let answer = VerifyNote::Missed { index, why: Missed::Old };
                self.out.verify.push((*peer, answer));
                false
            });
        }
        news
    }

    fn take_base_events(&mut self) -> Vec<BaseEvent> {
        take(&mut self.base_events)
    }

    fn send(&mut self, messages: Vec<Outgoing>) {
        for message in messages {
            if self.to(message.to).is_some() {
                self.out.messages.push(message);
            } else if message.lane == Lane::Data {
                self.loses(message.to);
            }
        }
    }

    fn send_base(&mut self, index: u64, message: Outgoing) -> bool {
        let is_there = self.to(message.to).is_some();
        if is_there {
            self.out.bases.push((index, message));
        }
        is_there
    }

    fn send_verify(&mut self, to: u64, note: VerifyNote) -> Result<(), Missed> {
        match self.to(to) {
            None => Err(Missed::Gone),
            // One that asks is answered.
            Some(There { is_old: true, .. }) if matches!(note, VerifyNote::Asked { .. }) => {
                Err(Missed::Old)
            }
            Some(_) => {
                self.out.verify.push((to, note));
                Ok(())
            }
        }
    }

    fn send_clocks(&mut self, note: impl Fn(u64) -> Option<ClockNote>) {
        let newer = self.there.iter().filter(|there| !there.is_old);
        let notes = newer.filter_map(|there| Some((there.id, note(there.id)?)));
        if !self.is_old() {
            self.out.clocks.extend(notes);
        }
    }

    fn flush(&mut self) -> Vec<u64> {
        take(&mut self.lost)
    }
}
