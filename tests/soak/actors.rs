//! Clients that do what users' clients do, at once and for as long as the soak lasts.

use crate::auditor::{Auditor, Handed, Label};
use crate::support::patience::{pass, seconds};
use crate::support::program::{Reply, Wire, wall_ms};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Queues whose jobs are leased; the last one is paused, limited and resumed all the time.
pub const WORK: [&str; 3] = ["work:0", "work:1", "limited"];
/// Its jobs are popped.
pub const POPS: &str = "pops";
/// It is filled until the server refuses, and thinned out.
pub const BULK: &str = "bulk";
/// Jobs of the work queues beyond which their producers rest.
const OPEN_MAX: usize = 20_000;

/// Jobs of a pipeline that is written before it is read: 3 MB of replies.
const POURED: i64 = 150_000;

/// Within this nothing is refused any more for a disk that was full.
const FREED_WITHIN: Duration = Duration::from_secs(20);

/// What the server says while it cannot do what it will do later.
fn is_for_now(text: &str) -> bool {
    text.starts_with("LOADING") || text.starts_with("MISCONF")
}

/// What all actors share.
#[derive(Debug)]
pub struct Stage {
    /// None while there is no server.
    pub address: Mutex<Option<SocketAddr>>,
    pub auditor: Auditor,
    pub labels: AtomicU64,
    /// Nothing new is begun.
    pub over: AtomicBool,
    /// What is left is taken out as well; then consumers end.
    pub drained: AtomicBool,
    /// Jobs in the bulk queue, of which nobody but its producer tells.
    pub bulk: Mutex<Vec<Label>>,
}

impl Stage {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    fn is_drained(&self) -> bool {
        self.drained.load(Ordering::Acquire)
    }

    /// Waits for a server. None when the soak is over before there is one.
    fn connect(&self, until: &AtomicBool) -> Option<Wire> {
        while !until.load(Ordering::Acquire) {
            let address = *self.address.lock().unwrap();
            if let Some(wire) = address.and_then(|address| Wire::connect(address).ok()) {
                return Some(wire);
            }
            pass(Duration::from_millis(5));
        }
        None
    }
}

/// One actor: a connection that is made again whenever it breaks.
pub struct Actor {
    stage: Arc<Stage>,
    random: SmallRng,
}

/// Of what an actor has asked.
type Asked<T> = io::Result<T>;

impl Actor {
    pub fn new(stage: &Arc<Stage>, seed: u64) -> Actor {
        Actor { stage: Arc::clone(stage), random: SmallRng::seed_from_u64(seed) }
    }

    /// Adds jobs to the queues that are worked on, in pipelines of one to some hundred.
    pub fn produce(mut self) {
        let stage = Arc::clone(&self.stage);
        while let Some(mut wire) = stage.connect(&stage.over) {
            while !stage.is_over() && self.add_some(&mut wire).is_ok() {
                stage.auditor.note("pipelines of adds");
                let rest = if stage.auditor.live() > OPEN_MAX { 200 } else { 5 };
                pass(Duration::from_millis(self.random.random_range(0..rest)));
            }
        }
    }

    fn add_some(&mut self, wire: &mut Wire) -> Asked<()> {
        let count = [1, 10, 300][self.random.random_range(0..3)];
        let mut labels = Vec::new();
        for _ in 0..count {
            let label = self.stage.labels.fetch_add(1, Ordering::Relaxed);
            let at = self.random.random_range(0..4);
            let queue = WORK.get(at).copied().unwrap_or(POPS);
            let delay_ms = match self.random.random_range(0..4) {
                0 => 0,
                1 => self.random.random_range(0..50),
                _ => self.random.random_range(0..4_000),
            };
            let filler = match self.random.random_range(0..200) {
                0 => self.random.random_range(1_000..60_000),
                _ => self.random.random_range(0..300),
            };
            self.stage.auditor.adding(label, wall_ms() + delay_ms, queue == POPS);
            let body = format!("{label} {}", "x".repeat(filler));
            let (id, when) = (format!("id:{label}"), format!("{delay_ms}ms"));
            // Of the default the seventh waits longer than the end of the soak.
            let backoff = "exp:1s:4s~";
            let words =
                ["DELAY.ADD", queue, &when, &body, "ID", &id, "ATTEMPTS", "0", "BACKOFF", backoff];
            wire.push(&words.map(str::as_bytes));
            labels.push(label);
        }
        wire.flush()?;
        for label in labels {
            match wire.read()? {
                Reply::Bulk(_) => self.stage.auditor.added(label),
                Reply::Error(text) => self.refused(label, &text),
                other => panic!("ADD was answered {other:?}"),
            }
        }
        Ok(())
    }

    /// The server said no; it must have said so for a reason that there is.
    fn refused(&self, label: Label, text: &str) {
        let class = text.split(' ').next().unwrap_or("");
        let known = ["LOADING", "MISCONF", "OOM", "PAUSED", "FULL"];
        assert!(known.contains(&class), "ADD was answered {text}");
        self.stage.auditor.refused(label);
        let what = match class {
            "OOM" => "refused: OOM",
            "MISCONF" => "refused: MISCONF",
            "LOADING" => "refused: LOADING",
            _ => "refused: a limit of the queue",
        };
        self.stage.auditor.note(what);
    }

    /// Reserves, works on and ends jobs; now and then lets a lease run out or gives a job back.
    pub fn consume(mut self) {
        let stage = Arc::clone(&self.stage);
        while let Some(mut wire) = stage.connect(&stage.drained) {
            while !stage.is_drained() && self.work(&mut wire).is_ok() {}
        }
    }

    fn work(&mut self, wire: &mut Wire) -> Asked<()> {
        let over = self.stage.is_over();
        let bound = self.random.random_ratio(1, 4);
        let lease_ms = if over { 20_000 } else { self.random.random_range(150..3_000) };
        let count = [1, 5, 100][self.random.random_range(0..3)];
        let (names, tail) = (WORK.join(" "), if bound { " BOUND" } else { "" });
        wire.push_line(&format!(
            "DELAY.RESERVE 0.2 {} {names} COUNT {count} LEASE {lease_ms}ms{tail}",
            WORK.len()
        ));
        let asked = Instant::now();
        wire.flush()?;
        let reply = wire.read()?;
        let read_ms = wall_ms();
        let jobs = match &reply {
            Reply::Nil | Reply::Error(_) => return Ok(()),
            reply => reply.array().expect("jobs"),
        };
        let jobs: Vec<(Label, &str, &str, u64)> = jobs.iter().map(taken).collect();
        for (job, whole) in jobs.iter().zip(reply.array().expect("jobs")) {
            let (label, .., token) = *job;
            let end_ms = whole.array().unwrap()[6].number() as u64;
            let lease_end_ms = if bound { 0 } else { end_ms };
            self.stage.auditor.handed(Handed { label, token, lease_end_ms, asked, read_ms });
        }
        // A worker that is slow, or dies.
        if !over && self.random.random_ratio(1, 30) {
            if bound && self.random.random_bool(0.5) {
                self.stage.auditor.note("hang-ups with bound leases");
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            pass(Duration::from_millis(self.random.random_range(0..600)));
        }
        self.end(wire, &jobs, over)
    }

    fn end(&mut self, wire: &mut Wire, jobs: &[(Label, &str, &str, u64)], over: bool) -> Asked<()> {
        let mut fates = Vec::new();
        for (label, queue, id, token) in jobs {
            let fate = if over { 9 } else { self.random.random_range(0..10) };
            let given_back = fate < 2;
            match fate {
                // Nobody says anything of it any more.
                0 if self.random.random_bool(0.2) => continue,
                0 | 1 => wire.push_line(&format!("DELAY.NACK {queue} {id} {token} IN 100ms")),
                _ => wire.push_line(&format!("DELAY.ACK {queue} {id} {token}")),
            }
            // Before it is sent: from then on another may get it, or it is gone.
            match given_back {
                true => self.stage.auditor.given_back(*label),
                false => self.stage.auditor.ending(*label),
            }
            fates.push((*label, *token, given_back));
        }
        wire.flush()?;
        for (label, token, given_back) in fates {
            let reply = wire.read()?;
            match reply {
                Reply::Number(1) if !given_back => self.stage.auditor.ended(label),
                Reply::Number(0) if !given_back => {
                    self.stage.auditor.not_ended(label);
                    self.stage.auditor.ack_lost(label, token, wall_ms());
                }
                Reply::Number(_) => {}
                // It was told before anything was done.
                Reply::Error(_) if !given_back => self.stage.auditor.not_ended(label),
                Reply::Error(_) => {}
                other => panic!("{other:?}"),
            }
        }
        Ok(())
    }

    /// Pops jobs, at most once.
    pub fn pop(self) {
        let stage = Arc::clone(&self.stage);
        while let Some(mut wire) = stage.connect(&stage.drained) {
            while !stage.is_drained() {
                let asked = Instant::now();
                wire.push_line(&format!("DELAY.POP {POPS} 0.2"));
                let Ok(reply) = wire.flush().and_then(|()| wire.read()) else {
                    stage.auditor.pop_unread(1);
                    break;
                };
                if let Reply::Array(parts) = reply {
                    let (label, read_ms) = (label_of(parts[2].bytes()), wall_ms());
                    let (token, lease_end_ms) = (0, 0);
                    stage.auditor.handed(Handed { label, token, lease_end_ms, asked, read_ms });
                }
            }
        }
    }

    /// Waves: fills a queue with jobs of one size until the server refuses or there is enough, then
    /// removes a share of them, in order or at random.
    pub fn flood(mut self) {
        let stage = Arc::clone(&self.stage);
        while let Some(mut wire) = stage.connect(&stage.over) {
            while !stage.is_over() && self.wave(&mut wire).is_ok() {
                stage.auditor.note("waves");
            }
        }
    }

    fn wave(&mut self, wire: &mut Wire) -> Asked<()> {
        let size = (10.0 * 6_400_f64.powf(self.random.random())) as usize;
        let body = "x".repeat(size);
        let most = (24 << 20) / (size + 100);
        let mut added = 0;
        let mut refused = false;
        while added < most && !refused && !self.stage.is_over() {
            let mut labels = Vec::new();
            for _ in 0..(1 << 18) / (size + 100) + 1 {
                let label = self.stage.labels.fetch_add(1, Ordering::Relaxed);
                self.stage.auditor.adding(label, u64::MAX, false);
                let id = format!("b:{label}");
                wire.push(&["DELAY.ADD", BULK, "1h", &body, "ID", &id].map(str::as_bytes));
                labels.push(label);
            }
            wire.flush()?;
            for label in labels {
                match wire.read()? {
                    Reply::Bulk(_) => {
                        added += 1;
                        self.stage.auditor.added(label);
                        self.stage.bulk.lock().unwrap().push(label);
                    }
                    Reply::Error(text) => {
                        refused = true;
                        self.refused(label, &text);
                    }
                    other => panic!("ADD was answered {other:?}"),
                }
            }
        }
        self.thin_out(wire)
    }

    fn thin_out(&mut self, wire: &mut Wire) -> Asked<()> {
        let mut bulk = std::mem::take(&mut *self.stage.bulk.lock().unwrap());
        let at_random = self.random.random_bool(0.5);
        if at_random {
            for i in (1..bulk.len()).rev() {
                bulk.swap(i, self.random.random_range(0..=i));
            }
        }
        let share = if self.random.random_ratio(1, 4) { 1.0 } else { self.random.random() };
        let kept = bulk.split_off((bulk.len() as f64 * share) as usize);
        self.stage.bulk.lock().unwrap().extend(kept);
        while !bulk.is_empty() {
            let piece = bulk.split_off(bulk.len().saturating_sub(1_000));
            let removed = self.remove(wire, &piece);
            if removed.is_err() {
                self.stage.bulk.lock().unwrap().append(&mut bulk);
                return removed;
            }
        }
        Ok(())
    }

    fn remove(&mut self, wire: &mut Wire, labels: &[Label]) -> Asked<()> {
        for label in labels {
            self.stage.auditor.ending(*label);
            wire.push_line(&format!("DELAY.DEL {BULK} b:{label}"));
        }
        wire.flush()?;
        for label in labels {
            match wire.read()? {
                Reply::Number(1) => self.stage.auditor.ended(*label),
                // A disk that others have filled, and the half of a segment kept for this is used up.
                Reply::Error(text) if is_for_now(&text) => {
                    self.stage.auditor.not_ended(*label);
                    self.stage.bulk.lock().unwrap().push(*label);
                }
                other => self.stage.auditor.broken(format!("DEL of {label}: {other:?}")),
            }
        }
        Ok(())
    }

    /// Removes what the waves have left: once the disk is free again nothing may stay refused.
    pub fn clear(mut self, wire: &mut Wire) -> Asked<()> {
        let end = Instant::now() + FREED_WITHIN;
        loop {
            let left = std::mem::take(&mut *self.stage.bulk.lock().unwrap());
            if left.is_empty() {
                return Ok(());
            }
            assert!(
                Instant::now() < end,
                "{} jobs cannot be removed, on a disk with room",
                left.len()
            );
            left.chunks(1_000).try_for_each(|piece| self.remove(wire, piece))?;
        }
    }

    /// Waits with 160 KB behind the command and hangs up; a second later a job must be there for others.
    pub fn hang_up(mut self) {
        let stage = Arc::clone(&self.stage);
        while let Some(mut wire) = stage.connect(&stage.over) {
            while !stage.is_over() && self.vanish(&mut wire).is_ok() {}
        }
    }

    fn vanish(&mut self, other: &mut Wire) -> Asked<()> {
        let number = self.stage.labels.fetch_add(1, Ordering::Relaxed);
        let queue = format!("gone:{number}");
        let Some(mut wire) = self.stage.connect(&self.stage.over) else { return Ok(()) };
        wire.push_line(&match self.random.random_range(0..3) {
            0 => format!("DELAY.POP {queue} 0"),
            1 => format!("DELAY.RESERVE 0 1 {queue} LEASE 1h"),
            _ => format!("BLPOP {queue} 0"),
        });
        (0..8_000).for_each(|_| wire.push_line("ECHO behind"));
        // The server stops reading before it has everything.
        let sent = wire.flush();
        drop(wire);
        if sent.is_err() {
            return Ok(());
        }
        // That it is noticed within this time is what is looked at.
        pass(seconds(2));
        let text = |reply: &Reply| format!("{reply:?}");
        let added = other.try_ask(&format!("DELAY.ADD {queue} 0 body"))?;
        if let Reply::Bulk(_) = added {
            let there = other.try_ask(&format!("DELAY.LEN {queue} READY"))?;
            match there {
                Reply::Number(1) => self.stage.auditor.note("hang-ups noticed"),
                other => {
                    let story = format!("{queue}: its waiter was gone, LEN is {}", text(&other));
                    self.stage.auditor.broken(story);
                }
            }
            other.try_ask(&format!("DEL {queue}"))?;
        }
        Ok(())
    }

    /// Writes a pipeline whose replies are far more than the kernel's buffers take, and only then reads.
    pub fn pour(self) {
        let stage = Arc::clone(&self.stage);
        while let Some(mut wire) = stage.connect(&stage.over) {
            while !stage.is_over() && self.write_first(&mut wire).is_ok() {
                // The others need the memory, too.
                pass(Duration::from_secs(2));
            }
        }
    }

    fn write_first(&self, wire: &mut Wire) -> Asked<()> {
        let queue = format!("poured:{}", self.stage.labels.fetch_add(1, Ordering::Relaxed));
        (0..POURED).for_each(|_| wire.push_line(&format!("DELAY.ADD {queue} 1h poured")));
        wire.push_line(&format!("DELAY.LEN {queue}"));
        wire.push_line(&format!("DEL {queue}"));
        wire.flush()?;
        let mut added = 0;
        for _ in 0..POURED {
            added += i64::from(matches!(wire.read()?, Reply::Bulk(_)));
        }
        let length = wire.read()?;
        wire.read()?;
        if matches!(length, Reply::Number(length) if length != added) {
            let story = format!("{queue}: {added} jobs were added, {length:?} are there");
            self.stage.auditor.broken(story);
        }
        self.stage.auditor.note("pipelines written before they were read");
        Ok(())
    }

    /// Changes what a queue lets through, and what the server may hold.
    pub fn change(mut self, maxmemory: [&'static str; 2]) {
        let stage = Arc::clone(&self.stage);
        while let Some(mut wire) = stage.connect(&stage.over) {
            let queue = WORK[2];
            while !stage.is_over() {
                let line = match self.random.random_range(0..8) {
                    0 => format!("DELAY.CONFIG SET {queue} max-leased 3"),
                    1 => format!("DELAY.CONFIG SET {queue} rate 200"),
                    2 => format!("DELAY.CONFIG RESET {queue}"),
                    3 => format!("DELAY.PAUSE {queue} OUT FOR 200ms"),
                    4 => format!("DELAY.RESUME {queue}"),
                    5 => format!("CONFIG SET maxmemory {}", maxmemory[0]),
                    6 => format!("CONFIG SET maxmemory {}", maxmemory[1]),
                    _ => "BGREWRITEAOF".to_owned(),
                };
                if wire.try_ask(&line).is_err() {
                    break;
                }
                pass(Duration::from_millis(self.random.random_range(0..500)));
            }
        }
    }
}

/// Label, queue, id and token of a job in RESERVE's reply.
fn taken(job: &Reply) -> (Label, &str, &str, u64) {
    let job = job.array().unwrap();
    (label_of(job[2].bytes()), job[0].text(), job[1].text(), job[3].number() as u64)
}

fn label_of(body: &[u8]) -> Label {
    let digits = body.split(|byte| *byte == b' ').next().expect("a word");
    std::str::from_utf8(digits).unwrap().parse().unwrap()
}
