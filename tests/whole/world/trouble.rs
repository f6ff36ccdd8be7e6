//! What goes wrong with nodes, and how all of it is healed.

use super::{Event, MS, NODES, SECOND, TURN_MAX, What, World};
use crate::support::faults::{Faults, Nodes, Way};
use crate::support::lossy::Lossy;
use crate::whole::node::{E, Stop};
use crate::whole::weather::Own;
use delayd::limits::SHUTDOWN_MS_MAX;
use rand::Rng;
use std::mem::take;
use std::sync::Arc;

impl World {
    /// Somebody sets the clock of the node that lies: wrong by an hour, or right.
    pub(super) fn set_clock(&mut self, is_right: bool) {
        let Some(at) = self.weather.liar else { return };
        let right = self.weather.offsets[at];
        let wrong = [-3_600, 3_600][self.chance.random_range(0..2)] * SECOND as i64;
        let is_wrong = self.nodes[at].offset != right;
        self.nodes[at].offset = if is_right || is_wrong { right } else { wrong };
        let wall = self.nodes[at].wall(self.now);
        if let Some(live) = &mut self.nodes[at].live {
            live.server.set_wall(wall - live.clock(self.now));
        }
        self.audit.seen.note("clocks set");
    }

    pub(super) fn strike(&mut self, own: Own, faults: &mut Faults) {
        let decides = (0..NODES).find(|at| self.nodes[*at].decides());
        // Whoever decides is who matters most.
        let at = match decides {
            Some(at) if self.chance.random_bool(0.5) => at,
            _ => self.chance.random_range(0..NODES),
        };
        match own {
            Own::Replace => self.replace(at),
            Own::Base => {
                // All do, mostly: whoever is away finds nobody who still has the log.
                let but = self.chance.random_range(0..2 * NODES);
                for at in (0..NODES).filter(|at| *at != but) {
                    if self.nodes[at].live.is_some() && !self.nodes[at].is_still(self.now) {
                        self.make_base(at);
                    }
                }
            }
            Own::Stop if self.nodes[at].live.is_some() => self.stop(at),
            Own::Stop => {}
            Own::Turn => self.slow_turn(faults),
            Own::Overthrow => self.overthrow(faults),
            Own::Clock => self.set_clock(false),
            Own::Verify => self.compare(),
        }
    }

    /// It loses its disk, and comes back with an empty one. One at a time: what the others have acknowledged together with
    /// it stands on one disk until then.
    fn replace(&mut self, at: usize) {
        let ids: Vec<u64> = self.nodes.iter().map(|node| node.id).collect();
        let is_whole = self.nodes.iter().filter_map(|node| node.live.as_ref()).any(|live| {
            let members = live.raft.driver.status().members;
            !members.is_joint() && ids.iter().all(|id| members.voters.contains(id))
        });
        if !is_whole || self.nodes[at].live.is_none() {
            return;
        }
        self.audit.seen.note("disks lost");
        self.end(at, Lossy::new());
        self.nodes[at].id += 1_000;
        let us = self.chance.random_range(50 * MS..3 * SECOND);
        self.after(us, Event::Start { at });
    }

    pub(super) fn end(&mut self, at: usize, storage: Arc<Lossy>) {
        self.nodes[at].end(storage);
        self.inboxes[at].clear();
        for other in 0..NODES {
            self.disconnect(at, other);
            self.disconnect(other, at);
        }
        for client in 0..self.clients.len() {
            if self.clients[client].link.as_ref().is_some_and(|link| link.node == at) {
                // What had left before is still read.
                self.let_down(client);
            }
        }
    }

    /// The next turn of whoever decides takes its time.
    fn slow_turn(&mut self, faults: &mut Faults) {
        let Some(at) = (0..NODES).find(|at| self.nodes[*at].decides()) else { return };
        if self.chance.random_bool(0.3) {
            let us = self.chance.random_range(100 * MS..2 * SECOND);
            self.nodes[at].live().long_turn = Some(us);
            return;
        }
        // Another one leads, and then perhaps this one again, before the turn is over.
        self.nodes[at].live().long_turn = Some(self.chance.random_range(TURN_MAX / 2..TURN_MAX));
        let us = self.chance.random_range(E..3 * E);
        faults.isolate(self.now, at, us, self);
        let us = us + self.chance.random_range(E..3 * E);
        faults.later(self.now + us, Own::Overthrow as usize);
    }

    /// Whoever leads is left alone.
    fn overthrow(&mut self, faults: &mut Faults) {
        let led = |at: &usize| self.nodes[*at].live.as_ref().and_then(|live| live.led);
        let leader = (0..NODES).filter(|at| led(at).is_some()).max_by_key(led);
        if let Some(at) = leader {
            let us = self.chance.random_range(2 * E..4 * E);
            faults.isolate(self.now, at, us, self);
        }
    }

    fn stop(&mut self, at: usize) {
        let until = self.now + SHUTDOWN_MS_MAX * MS;
        let now = self.now;
        let live = self.nodes[at].live();
        if live.stop.is_some() || live.is_in_turn(now) {
            return;
        }
        live.stop = Some(Stop::Drains { until });
        live.server.run_at(live.clock(now));
        live.server.drain();
        self.audit.seen.note("nodes stopped");
        self.turn_by(at, now);
        self.node_after(MS, at, What::Stops);
    }

    pub(super) fn go_on_stopping(&mut self, at: usize) {
        let now = self.now;
        let live = self.nodes[at].live();
        if live.is_in_turn(now) {
            return self.node_after(MS, at, What::Stops);
        }
        live.server.run_at(live.clock(now));
        match live.stop.expect("it stops") {
            Stop::Drains { until } if live.server.is_drained() || until <= now => {
                live.server.end_bound();
                live.stop = Some(Stop::HandsOver);
            }
            Stop::Drains { .. } => {}
            Stop::HandsOver if live.server.hands_over() => {}
            Stop::HandsOver => {
                live.raft.log.close();
                let storage = self.nodes[at].storage.kill();
                self.end(at, storage);
                let us = self.chance.random_range(50 * MS..2 * SECOND);
                return self.after(us, Event::Start { at });
            }
        }
        self.turn_by(at, now);
        self.node_after(MS, at, What::Stops);
    }

    /// No more faults, and no more requests.
    pub(super) fn heal(&mut self) {
        self.is_healing = true;
        self.weather.delay = (50, 150);
        self.set_clock(true);
        for at in 0..NODES {
            self.nodes[at].live.iter_mut().for_each(|live| live.long_turn = None);
            self.nodes[at].sync_us = (50, 100);
            self.resume(at);
            if self.nodes[at].live.is_none() {
                self.start(at);
            }
        }
        for at in 0..self.clients.len() {
            self.let_down(at);
        }
    }

    /// A pause is over: what has come meanwhile is taken up.
    pub(super) fn resume(&mut self, at: usize) {
        self.nodes[at].paused_until = self.now;
        for event in take(&mut self.inboxes[at]) {
            self.happen(event);
        }
    }
}

impl Nodes for World {
    fn count(&self) -> usize {
        NODES
    }

    fn leader(&self) -> Option<usize> {
        (0..NODES).find(|at| self.nodes[*at].decides())
    }

    fn kill(&mut self, at: usize) {
        if self.nodes[at].live.is_none() {
            return;
        }
        self.audit.seen.note("nodes killed");
        if self.nodes[at].decides() {
            self.audit.seen.note("leaders killed");
        }
        let power = self.chance.random_range(0..100) < self.weather.power;
        let storage = match power {
            true => self.nodes[at].storage.crash(&mut self.chance),
            false => self.nodes[at].storage.kill(),
        };
        self.end(at, storage);
    }

    fn start(&mut self, at: usize) {
        World::start(self, at);
    }

    fn pause(&mut self, at: usize, us: u64) {
        if self.nodes[at].live.is_none() {
            return;
        }
        self.audit.seen.note("nodes paused");
        let until = self.nodes[at].paused_until.max(self.now + us);
        self.nodes[at].paused_until = until;
        self.after(until - self.now, Event::Resumes { at });
    }

    fn go_on(&mut self, at: usize) {
        if self.nodes[at].is_still(self.now) {
            self.resume(at);
        }
    }

    fn cut(&mut self, way: Way) {
        self.audit.seen.note("links cut");
        self.cut.insert(way);
    }

    /// What was sent meanwhile is lost, and so is the connection.
    fn mend(&mut self, (from, to): Way) {
        self.cut.remove(&(from, to));
        self.disconnect(from, to);
        self.disconnect(to, from);
    }

    fn slow(&mut self, at: usize, sync_us: Option<u64>) {
        if sync_us.is_some() {
            self.audit.seen.note("syncs slowed");
        }
        self.nodes[at].slow_us = sync_us;
    }

    fn hang(&mut self, at: usize, is_on: bool) {
        self.audit.seen.note("disks hung");
        self.nodes[at].is_hung = is_on;
    }
}
