//! What is true at the end, and what a leader says meanwhile.

use super::{Event, HEALED_WITHIN, LED_WITHIN, MS, NODES, SECOND, World};
use crate::whole::audit::Job;
use crate::whole::client::queue_name;
use crate::whole::node::{E, Node};
use crate::whole::reply::{self, Reply};
use delayd::cluster::peer::verify::VerifyTally;
use delayd::server::in_memory::FarEnd;
use rand::Rng;

/// Somebody asks a node for a job, and was not answered yet.
pub(super) struct Look {
    at: usize,
    life: u64,
    far: FarEnd,
    job: usize,
    asked: u64,
}

impl World {
    /// Waits until all nodes have all that is committed, and nothing else.
    pub(super) fn settle_down(&mut self) {
        let (healed, mut looked, mut is_led) = (self.now, self.now, false);
        while !self.is_equal() {
            is_led |= self.nodes.iter().any(Node::decides);
            assert!(is_led || looked < healed + LED_WITHIN, "nobody leads: {}", self.shown());
            assert!(looked < healed + HEALED_WITHIN, "not equal within 30 s: {}", self.shown());
            looked += 100 * MS;
            self.run_until(looked);
        }
    }

    /// A process that starts in what is on a node's disk has what the node has.
    pub(super) fn check_replays(&mut self) {
        for node in &mut self.nodes {
            let Node { live, storage, .. } = node;
            let live = live.as_mut().expect("all run");
            let progress = live.server.progress();
            let (applied, digest) = (progress.applied, live.server.digest().0);
            let replayed = live.replayed(storage);
            assert_eq!(replayed, (applied, digest), "a replay of its log differs");
        }
    }

    /// A follower stands still, and answers before its Raft has told it anything: of what it had then it tells nothing.
    pub(super) fn check_standstills(&mut self) {
        let now = self.now;
        for at in 0..NODES {
            let live = self.nodes[at].live();
            if live.server.progress().decides {
                continue;
            }
            let mut ask = |us: u64| {
                live.server.run_at(live.clock(now + us));
                let far = live.server.connect();
                far.send(b"DELAY.LEN q\r\n");
                live.server.run();
                reply::take(&mut far.receive()).expect("it answers")
            };
            // One of an older version knows nothing of its age.
            if !matches!(ask(1), Reply::Integer(_)) {
                continue;
            }
            self.audit.seen.note("followers stood still");
            let refused = ask(5 * E);
            let is_right = matches!(&refused, Reply::Error(text) if text.starts_with("MASTERDOWN"));
            assert!(is_right, "it is too old: {refused:?}");
        }
    }

    /// Whoever takes itself for the leader is asked for a job, also one that is cut off and does not know it yet: it may say
    /// nothing, and nothing that is not true any more.
    pub(super) fn look(&mut self) {
        if self.is_healing {
            return;
        }
        let us = self.chance.random_range(5 * MS..30 * MS);
        self.after(us, Event::Look);
        let (now, jobs) = (self.now, self.audit.jobs.len());
        for at in (0..NODES).filter(|_| jobs > 0) {
            let node = &mut self.nodes[at];
            if !node.decides() || node.is_still(now) || node.live().is_in_turn(now) {
                continue;
            }
            // Of the newest, at which others are at work.
            let job = self.chance.random_range(jobs.saturating_sub(30)..jobs);
            let (life, live) = (node.life, node.live());
            live.server.run_at(live.clock(now));
            let far = live.server.connect();
            let queue = queue_name(self.audit.jobs[job].queue);
            far.send(format!("DELAY.GET {queue} j{job}\r\n").as_bytes());
            self.looks.push(Look { at, life, far, job, asked: now });
            self.turn_by(at, now);
        }
    }

    pub(super) fn read_looks(&mut self, at: usize) {
        let life = self.nodes[at].life;
        let audit = &mut self.audit;
        self.looks.retain(|look| {
            if look.at != at {
                return true;
            }
            match reply::take(&mut look.far.receive()) {
                None => look.life == life && !look.far.is_closed(),
                Some(Reply::Error(_)) => false,
                Some(reply) => {
                    audit.looked(look.job, look.asked, reply != Reply::Nil);
                    look.far.close();
                    false
                }
            }
        });
    }

    /// Whoever decides asks the others what they hold.
    pub(super) fn compare(&mut self) {
        if let Some(at) = (0..NODES).find(|at| self.nodes[*at].decides()) {
            self.nodes[at].live().server.verify();
            self.turn_by(at, self.now);
        }
    }

    /// All hold the same, and say so.
    pub(super) fn check_compared(&mut self) {
        self.compare();
        let most = self.now + HEALED_WITHIN;
        loop {
            assert!(self.now < most, "nodes are not compared: {}", self.shown());
            self.run_until(self.now + 10 * MS);
            let Some(at) = (0..NODES).find(|at| self.nodes[*at].decides()) else { continue };
            let own = self.nodes[at].id;
            match self.nodes[at].live().server.verification().map(|asked| asked.tally(own)) {
                Some(VerifyTally { same: NODES, .. }) => return,
                // Of an older version.
                Some(VerifyTally { running: 0, differ: 0, missed: 1.., .. })
                    if self.weather.mixes =>
                {
                    return;
                }
                Some(VerifyTally { running: 1.., .. }) => {}
                // Its leader has changed, or a node was slow to hear.
                _ => self.compare(),
            }
        }
    }

    pub(super) fn is_equal(&mut self) -> bool {
        let last = self.audit.last();
        let mut leaders = 0;
        for node in &mut self.nodes {
            let Some(live) = &mut node.live else { return false };
            let progress = live.server.progress();
            if progress.applied != last || !progress.is_settled {
                return false;
            }
            leaders += usize::from(progress.decides);
        }
        leaders == 1
    }

    /// Asks whoever decides for each job: whether it is there.
    pub(super) fn count(&mut self) -> Vec<bool> {
        let digest = |node: &mut Node| node.live().server.digest().0;
        let digests: Vec<u64> = self.nodes.iter_mut().map(digest).collect();
        assert!(digests.iter().all(|digest| *digest == digests[0]), "engines differ: {digests:?}");
        let most = self.now + HEALED_WITHIN;
        let mut is_there = Vec::new();
        while is_there.len() < self.audit.jobs.len() {
            assert!(self.now < most, "nobody answers: {}", self.shown());
            let jobs = self.audit.jobs.iter().enumerate().skip(is_there.len()).take(500);
            let get =
                |(job, it): (usize, &Job)| format!("DELAY.GET {} j{job}\r\n", queue_name(it.queue));
            let lines: Vec<String> = jobs.map(get).collect();
            if let Some(replies) = self.ask(&lines.concat(), lines.len()) {
                is_there.extend(replies.into_iter().map(|reply| reply != Reply::Nil));
            }
        }
        is_there
    }

    /// Asks whoever decides; nothing if it does not answer as one that leads.
    pub(super) fn ask(&mut self, lines: &str, count: usize) -> Option<Vec<Reply>> {
        self.run_until(self.now + 10 * MS);
        let (at, now) = ((0..NODES).find(|at| self.nodes[*at].decides())?, self.now);
        let live = self.nodes[at].live();
        live.server.run_at(live.clock(now));
        let far = live.server.connect();
        far.send(lines.as_bytes());
        let (mut input, mut replies) = (Vec::new(), Vec::new());
        while !far.is_closed() && self.now < now + SECOND {
            self.turn_by(at, self.now);
            self.run_until(self.now + MS);
            input.extend(far.receive());
            replies.extend(std::iter::from_fn(|| reply::take(&mut input)));
            if replies.iter().any(|reply| matches!(reply, Reply::Error(_))) {
                return None;
            }
            if replies.len() == count {
                return Some(replies);
            }
        }
        None
    }

    pub(super) fn shown(&mut self) -> String {
        let shown = |node: &mut Node| {
            let status = node.live.as_ref().map(|live| live.raft.driver.status());
            let progress = node.live.as_mut().map(|live| live.server.progress());
            format!("{}: {progress:?} {status:#?}\n", node.own.name)
        };
        self.nodes.iter_mut().map(shown).collect()
    }
}
