//! Connections between nodes, and what goes over them.

use super::{MS, NODES, SECOND, What, World};
use crate::whole::links::{Sent, There};
use crate::whole::node::Node;
use delayd::cluster::driver::Dial;
use delayd::cluster::members::claims::NodeId;
use delayd::cluster::peer::frame::{Inbox, Lane};
use delayd::cluster::peer::hello::{Called, Handshake, Refusal, Secret, Way};
use delayd::cluster::raft::codec::{Head, Outgoing};
use delayd::limits::LEVEL;
use delayd::server::cluster::bases::BaseEvent;
use rand::Rng;
use std::sync::Arc;

impl World {
    /// A part of a base arrives, or all of what is left of it, unless somebody is away.
    pub(super) fn base_goes_on(
        &mut self,
        at: usize,
        to: usize,
        (index, parts): (u64, u64),
        frame: Outgoing,
    ) {
        let id = frame.to;
        let is_away = !self.is_connected(at, to)
            || self.nodes[to].id != id
            || self.nodes[to].is_still(self.now);
        if is_away || self.chance.random_range(0..1_000_000) < self.weather.loss {
            self.audit.seen.note("bases broken off");
            return self.base_says(at, BaseEvent::Ended { to: id, arrived: false });
        }
        let from = Arc::clone(&self.nodes[at].storage);
        if self.nodes[to].live().take_base(&from, index, parts) {
            let head = Head::read(&frame.head).expect("a driver wrote it");
            let (peer, bodies) = (self.nodes[at].id, frame.bodies);
            self.audit.seen.note("bases received");
            self.base_says(to, BaseEvent::Arrived { peer, head, bodies });
            self.base_says(at, BaseEvent::Ended { to: id, arrived: true });
        } else if parts > 1 {
            let us = self.chance.random_range(MS..SECOND / 2);
            let what = What::Base { to, index, parts: parts - 1, message: frame };
            self.node_after(us, at, what);
            self.base_says(at, BaseEvent::Moved { to: id });
        } else {
            // Its file has given way to a newer one, or a part was not what it was.
            self.audit.seen.note("bases begun anew");
            self.base_says(at, BaseEvent::Ended { to: id, arrived: false });
        }
    }

    pub(super) fn base_says(&mut self, at: usize, event: BaseEvent) {
        if let Some(live) = &mut self.nodes[at].live {
            live.raft.peers.hears_of_base(event);
            self.settle(at);
        }
    }

    /// The nodes to which a node is connected.
    pub(super) fn there(&self, at: usize) -> Vec<There> {
        let others = (0..NODES).filter(|to| *to != at && self.is_connected(at, *to));
        let there = |to: usize| {
            let node = &self.nodes[to];
            There { id: node.id, is_old: node.level < LEVEL }
        };
        others.map(there).collect()
    }

    pub(super) fn is_connected(&self, at: usize, to: usize) -> bool {
        self.connections.get(&(at, to)) == Some(&self.lives(at, to)) && !self.is_cut(at, to)
    }

    pub(super) fn send_all(&mut self, at: usize, sent: Sent) {
        let Sent { messages, bases, verify, clocks, refused } = sent;
        let from = self.nodes[at].id;
        for frame in messages {
            self.send(at, frame);
        }
        for (index, message) in bases {
            let Some(to) = self.place_of(message.to) else { continue };
            let (us, parts) =
                (self.chance.random_range(MS..SECOND / 2), self.chance.random_range(1..4));
            self.node_after(us, at, What::Base { to, index, parts, message });
        }
        for (id, note) in verify {
            self.send_note(id, What::Verify { from, note });
        }
        for (id, note) in clocks {
            self.send_note(id, What::Clock { from, note });
        }
        for from in refused {
            self.disconnect(from, at);
        }
    }

    pub(super) fn send_note(&mut self, id: u64, what: What) {
        let Some(to) = self.place_of(id) else { return };
        let (low, high) = self.weather.delay;
        let us = self.chance.random_range(low..=high);
        self.node_after(us, to, what);
    }

    pub(super) fn place_of(&self, id: u64) -> Option<usize> {
        self.nodes.iter().position(|node| node.id == id)
    }

    pub(super) fn arrives(&mut self, at: usize, from: usize, frame: Outgoing) {
        if self.is_connected(from, at) {
            let peer = self.nodes[from].id;
            self.nodes[at].live().raft.peers.arrives(from, peer, frame);
            self.settle(at);
        }
    }

    pub(super) fn send(&mut self, at: usize, frame: Outgoing) {
        let Some(to) = self.place_of(frame.to) else { return };
        if self.chance.random_range(0..1_000_000) < self.weather.loss && !self.is_healing {
            self.disconnect(at, to);
            return;
        }
        let (low, high) = self.weather.delay;
        let us = self.chance.random_range(low..=high);
        let last = self.lanes.entry((at, to, frame.lane)).or_default();
        *last = (*last).max(self.now + us);
        let us = *last - self.now;
        self.node_after(us, to, What::Arrives { from: at, frame });
    }

    pub(super) fn lives(&self, from: usize, to: usize) -> (u64, u64) {
        (self.nodes[from].life, self.nodes[to].life)
    }

    pub(super) fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cut.contains(&(from, to))
    }

    /// Connects to whom it is not connected.
    pub(super) fn dial(&mut self, at: usize) {
        for Dial { node, name, .. } in self.nodes[at].live().raft.peers.dials.clone() {
            let called = Called { name: name.clone(), node: node.map(NodeId) };
            let named = |node: &Node| node.own.name == name;
            let to = self.nodes.iter().position(named).expect("only listed ones");
            let lives = self.lives(at, to);
            let is_there = self.connections.get(&(at, to)) == Some(&lives);
            let is_down = self.nodes[to].live.is_none() || self.nodes[to].is_still(self.now);
            if is_there || is_down || self.is_cut(at, to) || self.is_cut(to, at) {
                continue;
            }
            match self.shake(at, to, called) {
                Ok(true) => drop(self.connections.insert((at, to), lives)),
                Ok(false) => {}
                Err(refusal) => {
                    self.nodes[at].live().raft.peers.is_refused(refusal.to_string());
                    self.settle(at);
                }
            }
        }
    }

    /// A whole handshake, in no time; whether they know each other.
    pub(super) fn shake(&mut self, at: usize, to: usize, called: Called) -> Result<bool, Refusal> {
        let claims = |node: &mut Node| node.live().raft.peers.own.clone().expect("it has begun");
        let (own, its) = (claims(&mut self.nodes[at]), claims(&mut self.nodes[to]));
        let (mut hello, mut answer, mut proof) = (Vec::new(), Vec::new(), Vec::new());
        let [mut caller_in, mut door_in] = [Inbox::new(), Inbox::new()];
        let mut caller =
            Handshake::call(own, Secret::new("x"), [1; 32], called, Lane::Data, &mut hello);
        let mut door = Handshake::door(its, Secret::new("x"), [2; 32], Way::default());
        door_in.receive(&hello);
        door.advance(&mut door_in, &mut answer)?;
        caller_in.receive(&answer);
        caller.advance(&mut caller_in, &mut proof)?;
        door_in.receive(&proof);
        let mut welcome = Vec::new();
        let caller_is = door.advance(&mut door_in, &mut welcome)?;
        caller_in.receive(&welcome);
        let door_is = caller.advance(&mut caller_in, &mut Vec::new())?;
        for (at, peer) in [(at, door_is), (to, caller_is)] {
            let claims = peer.expect("the handshake is over").claims;
            self.nodes[at].live().raft.peers.shakes(claims);
            self.settle(at);
            if !self.nodes[at].live().raft.peers.take_met() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The connection is gone, and both ends know.
    pub(super) fn disconnect(&mut self, from: usize, to: usize) {
        if self.connections.remove(&(from, to)).is_none() {
            return;
        }
        self.node_after(0, from, What::Lost { peer: self.nodes[to].id });
        self.node_after(0, to, What::Parted { peer: self.nodes[from].id });
    }
}
