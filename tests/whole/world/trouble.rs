//! What goes wrong with nodes, and how all of it is healed.

use super::{Event, MS, NODES, SECOND, TURN_MAX, What, World};
use crate::support::lossy::Lossy;
use crate::whole::node::{E, Stop};
use crate::whole::weather::Fault;
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

    pub(super) fn fault(&mut self) {
        if self.is_healing {
            return;
        }
        let each = self.weather.each;
        let us = self.chance.random_range(each / 4..each * 2);
        self.after(us, Event::Fault);
        let decides = (0..NODES).find(|at| self.nodes[*at].decides());
        // Whoever decides is who matters most.
        let at = match decides {
            Some(at) if self.chance.random_bool(0.5) => at,
            _ => self.chance.random_range(0..NODES),
        };
        match self.weather.fault(&mut self.chance) {
            Fault::Kill => self.kill(at),
            Fault::Replace => self.replace(at),
            Fault::Base => {
                // All do, mostly: whoever is away finds nobody who still has the log.
                let but = self.chance.random_range(0..2 * NODES);
                for at in (0..NODES).filter(|at| *at != but) {
                    if self.nodes[at].live.is_some() && !self.nodes[at].is_still(self.now) {
                        self.make_base(at);
                    }
                }
            }
            Fault::Pause if self.nodes[at].live.is_some() => {
                let us = self.chance.random_range(100 * MS..5 * SECOND);
                self.pause(at, us);
            }
            Fault::Cut => {
                let other = (at + self.chance.random_range(1..NODES)) % NODES;
                let us = self.chance.random_range(50 * MS..3 * SECOND);
                self.cut(at, other, us);
                if self.chance.random_bool(0.5) {
                    self.cut(other, at, us);
                }
            }
            Fault::Isolate => {
                let us = self.chance.random_range(100 * MS..3 * SECOND);
                self.isolate(at, us);
            }
            Fault::Slow => {
                let us = self.chance.random_range(100 * MS..4 * SECOND);
                self.nodes[at].slow_until = self.now + us;
                self.audit.seen.note("syncs slowed");
            }
            Fault::Stop if self.nodes[at].live.is_some() => self.stop(at),
            Fault::Turn => self.slow_turn(),
            Fault::Clock => self.set_clock(false),
            Fault::Verify => self.compare(),
            Fault::Pause | Fault::Stop => {}
        }
    }

    pub(super) fn kill(&mut self, at: usize) {
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
        let us = self.chance.random_range(50 * MS..3 * SECOND);
        self.after(us, Event::Start { at });
    }

    /// It loses its disk, and comes back with an empty one. One at a time: what the others have acknowledged together with
    /// it stands on one disk until then.
    pub(super) fn replace(&mut self, at: usize) {
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

    pub(super) fn pause(&mut self, at: usize, us: u64) {
        self.audit.seen.note("nodes paused");
        let until = self.nodes[at].paused_until.max(self.now + us);
        self.nodes[at].paused_until = until;
        self.after(until - self.now, Event::Resumes { at });
    }

    /// The next turn of whoever decides takes its time.
    pub(super) fn slow_turn(&mut self) {
        let Some(at) = (0..NODES).find(|at| self.nodes[*at].decides()) else { return };
        if self.chance.random_bool(0.3) {
            let us = self.chance.random_range(100 * MS..2 * SECOND);
            self.nodes[at].live().long_turn = Some(us);
            return;
        }
        // Another one leads, and then perhaps this one again, before the turn is over.
        self.nodes[at].live().long_turn = Some(self.chance.random_range(TURN_MAX / 2..TURN_MAX));
        let us = self.chance.random_range(E..3 * E);
        self.isolate(at, us);
        let us = us + self.chance.random_range(E..3 * E);
        self.after(us, Event::Overthrow);
    }

    /// Whoever leads is left alone.
    pub(super) fn overthrow(&mut self) {
        let led = |at: &usize| self.nodes[*at].live.as_ref().and_then(|live| live.led);
        let leader = (0..NODES).filter(|at| led(at).is_some()).max_by_key(led);
        if let Some(at) = leader.filter(|_| !self.is_healing) {
            let us = self.chance.random_range(2 * E..4 * E);
            self.isolate(at, us);
        }
    }

    pub(super) fn isolate(&mut self, at: usize, us: u64) {
        for other in (0..NODES).filter(|other| *other != at) {
            self.cut(at, other, us);
            self.cut(other, at, us);
        }
    }

    pub(super) fn cut(&mut self, from: usize, to: usize, us: u64) {
        self.audit.seen.note("links cut");
        let until = self.cut.entry((from, to)).or_default();
        *until = (*until).max(self.now + us);
        let us = *until - self.now;
        self.after(us, Event::Healed { from, to });
    }

    pub(super) fn stop(&mut self, at: usize) {
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
        for (from, to) in take(&mut self.cut).into_keys() {
            self.disconnect(from, to);
            self.disconnect(to, from);
        }
        for at in 0..NODES {
            self.nodes[at].slow_until = 0;
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
