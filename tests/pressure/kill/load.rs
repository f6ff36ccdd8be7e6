//! Clients that keep a server busy until it is gone, and remember all they were told.

use crate::pressure::kill::events::{
    Add, Answer, Event, Handed, Label, PAIRS, POPS, WORK, What, When,
};
use crate::support::program::{Wire, wall_ms};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A client's list of open jobs is shortened beyond so many.
const OPEN_MAX: usize = 200;

/// A job of which a producer knows the id.
#[derive(Clone, Debug)]
pub struct Open {
    pub queue: &'static str,
    pub id: String,
}

/// A job that a consumer holds, or held.
#[derive(Clone, Debug)]
pub struct Lease {
    pub label: Label,
    pub queue: &'static str,
    pub id: String,
    pub token: u64,
}

/// A client's connection and memory.
pub struct Worker {
    wire: Wire,
    random: SmallRng,
    labels: &'static AtomicU64,
    pub events: Vec<Event>,
}

impl Worker {
    pub fn new(address: SocketAddr, seed: u64, labels: &'static AtomicU64) -> io::Result<Worker> {
        let (wire, random) = (Wire::connect(address)?, SmallRng::seed_from_u64(seed));
        Ok(Worker { wire, random, labels, events: Vec::new() })
    }

    /// Sends all of it at once and reads the replies. What was not answered is remembered as such.
    fn ask(&mut self, batch: Vec<What>) -> io::Result<usize> {
        for what in &batch {
            let parts = match what {
                What::Exec(parts) => parts.as_slice(),
                one => std::slice::from_ref(one),
            };
            let is_exec = matches!(what, What::Exec(_));
            if is_exec {
                self.wire.push_line("MULTI");
            }
            for part in parts {
                let args = part.args();
                self.wire.push(&args.iter().map(Vec::as_slice).collect::<Vec<_>>());
            }
            if is_exec {
                self.wire.push_line("EXEC");
            }
        }
        let (first, sent, sent_ms) = (self.events.len(), Instant::now(), wall_ms());
        let event = |what| Event { what, sent, sent_ms, answer: None };
        self.events.extend(batch.into_iter().map(event));
        self.wire.flush()?;
        for i in first..self.events.len() {
            if let What::Exec(parts) = &self.events[i].what {
                for _ in 0..=parts.len() {
                    self.wire.read()?;
                }
            }
            let reply = self.wire.read()?;
            self.events[i].answer = Some(Answer::now(reply));
        }
        Ok(first)
    }

    fn new_add(&mut self, queue: &'static str) -> Add {
        let label = self.labels.fetch_add(1, Ordering::Relaxed);
        let random = &mut self.random;
        let when = match random.random_range(0..10) {
            0..4 => When::InMs(0),
            4..7 => When::InMs(random.random_range(1..400)),
            7 => When::AtMs(wall_ms() + random.random_range(0..1_000)),
            8 => When::InMs(random.random_range(400..4_000)),
            _ => When::InMs(3_600_000),
        };
        // Large ones are soon gone.
        let filler = match random.random_range(0..4_000) {
            0 if matches!(when, When::InMs(0)) => 1_100_000,
            0..10 if matches!(when, When::InMs(..400)) => 60_000,
            10..200 => random.random_range(500..5_000),
            _ => random.random_range(0..400),
        };
        let attempts = if random.random_bool(0.1) { 2 } else { 0 };
        let id = random.random_bool(0.6).then(|| format!("id:{label}"));
        Add { label, queue, id, when, mode: "", attempts, filler }
    }

    fn new_change(&mut self, open: &mut Vec<Open>) -> What {
        if open.is_empty() || self.random.random_bool(0.7) {
            let queue = [WORK[0], WORK[1], POPS][self.random.random_range(0..3)];
            let mut add = self.new_add(queue);
            if add.id.is_some() && self.random.random_bool(0.1) {
                add.mode = "NX";
            }
            return What::Add(add);
        }
        let at = self.random.random_range(0..open.len());
        let Open { queue, id } = open[at].clone();
        let mut choice = self.random.random_range(0..10);
        if open.len() > OPEN_MAX {
            choice = choice.min(4);
        }
        match choice {
            0..3 => {
                open.swap_remove(at);
                What::Cancel { queue, id }
            }
            3..5 => {
                open.swap_remove(at);
                What::Delete { queue, id }
            }
            5..7 => {
                let mut add = self.new_add(queue);
                (add.id, add.mode) = (Some(id), "REPLACE");
                What::Add(add)
            }
            7 => {
                // Changes nothing if there still is one.
                let mut add = self.new_add(queue);
                (add.id, add.mode) = (Some(id), "NX");
                What::Add(add)
            }
            _ => {
                let ms = self.random.random_range(0..1_500);
                What::Reschedule { queue, id, when: When::InMs(ms) }
            }
        }
    }

    /// Two jobs, or one in place of another, in one step.
    fn new_exec(&mut self, pairs: &mut Vec<Open>) -> What {
        let mut far = || {
            let mut add = self.new_add(PAIRS);
            (add.id, add.when) = (Some(format!("id:{}", add.label)), When::InMs(3_600_000));
            add.filler = add.filler.min(5_000);
            add
        };
        let open = |add: &Add| Open { queue: PAIRS, id: add.id.clone().expect("was given") };
        let first = far();
        if pairs.len() > OPEN_MAX || (!pairs.is_empty() && first.label % 2 == 0) {
            let at = first.label as usize % pairs.len();
            let old = std::mem::replace(&mut pairs[at], open(&first));
            let Open { queue, id } = old;
            return What::Exec(vec![What::Cancel { queue, id }, What::Add(first)]);
        }
        let second = far();
        pairs.extend([open(&first), open(&second)]);
        What::Exec(vec![What::Add(first), What::Add(second)])
    }

    /// Adds up to `budget` jobs and changes them, until the server is gone.
    pub fn produce(&mut self, mut open: Vec<Open>, mut budget: usize) -> io::Result<()> {
        let is_pair = |open: &Open| open.queue == PAIRS;
        let mut pairs: Vec<Open> = open.iter().filter(|open| is_pair(open)).cloned().collect();
        open.retain(|open| !is_pair(open));
        loop {
            let count = match self.random.random_range(0..4) {
                0 => 1,
                1 => self.random.random_range(20..60),
                _ => self.random.random_range(1..10),
            };
            let mut batch = Vec::new();
            for _ in 0..count {
                if self.random.random_bool(0.1) {
                    batch.push(self.new_exec(&mut pairs));
                } else if budget > 0 || !open.is_empty() {
                    batch.push(self.new_change(&mut open));
                }
                budget = budget.saturating_sub(1);
            }
            if self.random.random_bool(0.002) {
                batch.push(What::Save);
            }
            let first = self.ask(batch)?;
            for Event { what, .. } in &self.events[first..] {
                if let What::Add(Add { queue, id: Some(id), mode, when, .. }) = what
                    && mode.is_empty()
                    && !matches!(when, When::InMs(0))
                {
                    open.push(Open { queue, id: id.clone() });
                }
            }
        }
    }

    /// Takes jobs with leases and ends these in every way, until the server is gone. `held` are
    /// leases from before a restart.
    pub fn consume(&mut self, mut held: Vec<Lease>) -> io::Result<()> {
        loop {
            let mut batch = Vec::new();
            for Lease { label, queue, id, token } in held.drain(..) {
                match self.random.random_range(0..20) {
                    0 => {
                        let uncounted = self.random.random_bool(0.3);
                        let in_ms = self.random.random_range(0..200);
                        batch.push(What::Nack { label, queue, id, token, uncounted, in_ms });
                    }
                    1 => batch.push(What::Extend { label, queue, id, token, ms: 700 }),
                    // The lease runs out, or ends with the connection.
                    2 => {}
                    _ => batch.push(What::Ack { label, queue, id, token }),
                }
            }
            let mut queues = WORK.to_vec();
            if self.random.random_bool(0.5) {
                queues.swap(0, 1);
            }
            let lease_ms = [20, 400, 30_000, 30_000][self.random.random_range(0..4)];
            let count = self.random.random_range(1..40);
            let bound = self.random.random_bool(0.2);
            batch.push(What::Reserve { queues, count, lease_ms, bound });
            self.ask(batch)?;
            let Event { what, answer, .. } = self.events.last().expect("just asked");
            let reply = &answer.as_ref().expect("was answered").reply;
            for Handed { label, queue, id, token, .. } in Handed::all(what, reply) {
                held.push(Lease { label, queue, id, token });
            }
        }
    }

    /// Takes jobs at most once, until the server is gone.
    pub fn pop(&mut self) -> io::Result<()> {
        loop {
            let noack = self.random.random_bool(0.3);
            let count = if noack { self.random.random_range(1..20) } else { 1 };
            let times = self.random.random_range(1..4);
            self.ask((0..times).map(|_| What::Pop { count, noack }).collect())?;
        }
    }
}
