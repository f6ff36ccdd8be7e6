//! The clients: when they act, and what becomes of their connections.

use super::{MS, NODES, World};
use crate::whole::client::{From, Kind, Link, Next};
use crate::whole::node::Node;
use rand::Rng;
use std::hash::Hash;

impl World {
    pub(super) fn read_replies(&mut self, node: usize) {
        let Node { life, promoted, .. } = &self.nodes[node];
        let promoted = promoted.map_or(0, |at| at.0);
        let (life, from) = (*life, From { now: self.now, promoted });
        for at in 0..self.clients.len() {
            let World { clients, audit, chance, hasher, .. } = self;
            let is_ours = |link: &Link| link.node == node && link.life == life;
            if !clients[at].link.as_ref().is_some_and(is_ours) {
                continue;
            }
            let mut trace = |reply: &_| format!("{reply:?}").hash(hasher);
            let read = clients[at].read(from, audit, chance, &mut trace);
            let link = clients[at].link.as_ref().expect("just seen");
            let is_closed = link.far.is_closed();
            match read {
                Some(true) if !is_closed => {
                    let is_fast = self.clients[at].kind != Kind::Producer;
                    let think = if is_fast { self.weather.think } else { 3 * self.weather.think };
                    let us = self.chance.random_range(0..=think);
                    self.act_after(at, us);
                }
                None if !is_closed => {}
                _ => self.let_down(at),
            }
        }
    }

    /// The connection of a client is of no use any more.
    pub(super) fn let_down(&mut self, at: usize) {
        let link = self.clients[at].link.as_ref().map(|link| (link.node, link.life));
        self.clients[at].let_down(&mut self.audit);
        self.clients[at].next_node = self.chance.random_range(0..NODES);
        let us = self.chance.random_range(5 * MS..40 * MS);
        self.act_after(at, us);
        if let Some((node, life)) = link
            && self.nodes[node].life == life
        {
            self.turn_by(node, self.now + 20);
        }
    }

    pub(super) fn act(&mut self, at: usize) {
        let now = self.now;
        if self.is_healing {
            return;
        }
        if let Some(link) = &self.clients[at].link {
            let is_gone = self.nodes[link.node].life != link.life || link.far.is_closed();
            let is_late = self.clients[at].asked.as_ref().is_some_and(|asked| asked.until <= now);
            if is_gone || is_late {
                return self.let_down(at);
            }
            let node = link.node;
            if self.clients[at].asked.is_none() {
                let World { clients, audit, chance, .. } = self;
                if let Next::Idle(us) = clients[at].act(now, audit, chance) {
                    return self.act_after(at, us);
                }
            }
            return self.await_reply(at, node);
        }
        let node = self.clients[at].next_node;
        self.clients[at].next_node = (node + 1) % NODES;
        if self.nodes[node].live.is_none() || self.nodes[node].is_still(now) {
            return self.act_after(at, 20 * MS);
        }
        let live = self.nodes[node].live();
        if live.stop.is_some() || live.is_in_turn(now) {
            return self.act_after(at, 20 * MS);
        }
        let life = self.nodes[node].life;
        let live = self.nodes[node].live();
        live.server.run_at(live.clock(now));
        let far = live.server.connect();
        self.clients[at].connected(node, life, far, now);
        self.turn_by(node, now);
        self.await_reply(at, node);
    }

    /// It looks again when its patience has ended.
    pub(super) fn await_reply(&mut self, at: usize, node: usize) {
        let until = self.clients[at].asked.as_ref().expect("it asks").until;
        let us = self.chance.random_range(10..80);
        self.turn_by(node, self.now + us);
        self.act_after(at, until - self.now);
    }
}
