//! The real program on a disk that its own jobs have filled: consumers drain it, whatever the size of
//! its segments, and across kills and restarts.
//!
//! `DELAYD_SEED=17 cargo test --test it pressure::drain` runs one seed again, `DELAYD_CASES=20` as many.

use crate::support::disk::SmallDisk;
use crate::support::patience::limit;
use crate::support::program::{Program, Reply, Wire};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const DISK_BYTES: u64 = 64 << 20;
/// On this one two bases and two segments leave hardly any room.
const TIGHT_BYTES: u64 = 32 << 20;
/// Commands sent at once.
const PIPELINE: usize = 200;

/// Sizes of segments; none for the default.
const SEGMENTS: [Option<&str>; 3] = [Some("1mb"), Some("8mb"), None];

struct Run {
    disk: SmallDisk,
    options: Vec<&'static str>,
    program: Option<Program>,
    wire: Option<Wire>,
    rng: SmallRng,
    /// Jobs that were acknowledged as added, and not taken away since.
    there: HashSet<String>,
    /// Those of them that are leased, with their tokens.
    leased: HashMap<String, String>,
    bodies: std::ops::RangeInclusive<usize>,
}

/// What must not be refused on a full disk.
fn never_refused(reply: Reply) -> Reply {
    assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
    reply
}

impl Run {
    /// None if nothing can be mounted here.
    fn new(
        seed: u64,
        segment: Option<&'static str>,
        bodies: std::ops::RangeInclusive<usize>,
        disk_bytes: u64,
    ) -> Option<Run> {
        let Some(disk) = SmallDisk::mount(disk_bytes) else {
            println!("SKIPPED: no file system can be mounted");
            return None;
        };
        let mut options = Vec::new();
        options.extend(segment.into_iter().flat_map(|size| ["--journal-segment-size", size]));
        let (rng, there, leased) = (SmallRng::seed_from_u64(seed), HashSet::new(), HashMap::new());
        let mut run = Run { disk, options, program: None, wire: None, rng, there, leased, bodies };
        run.start();
        Some(run)
    }

    fn start(&mut self) {
        let program = self.disk.start(&self.options);
        self.wire = Some(program.connect());
        self.program = Some(program);
    }

    fn wire(&mut self) -> &mut Wire {
        self.wire.as_mut().expect("it runs")
    }

    /// The process dies, or ends in good order, and is started again.
    fn restart(&mut self, kill: bool) {
        self.wire = None;
        let program = self.program.take().expect("it runs");
        if kill {
            program.kill()
        } else {
            program.stop()
        };
        self.start();
        let there = self.there.len() as i64;
        assert_eq!(self.wire().ask("DELAY.LEN q"), Reply::Number(there), "after a restart");
    }

    /// Adds so many, as far as they are taken.
    fn add(&mut self, count: usize) {
        for _ in 0..count {
            let size = self.rng.random_range(self.bodies.clone());
            self.wire().push(&[b"DELAY.ADD", b"q", b"0", &vec![b'x'; size]]);
        }
        self.wire().flush().unwrap();
        for _ in 0..count {
            match self.wire().read().unwrap() {
                Reply::Bulk(id) => drop(self.there.insert(String::from_utf8(id).unwrap())),
                reply => assert!(reply.is_error("MISCONF"), "{reply:?}"),
            }
        }
    }

    /// Moves so many that are not leased a little into the future.
    fn postpone(&mut self, count: usize) {
        let free = self.there.iter().filter(|id| !self.leased.contains_key(*id));
        let ids: Vec<_> = free.take(count).cloned().collect();
        for id in &ids {
            self.wire().push_line(&format!("DELAY.RESCHEDULE q {id} 200ms"));
        }
        self.wire().flush().unwrap();
        for _ in ids {
            never_refused(self.wire().read().unwrap());
        }
    }

    /// Adds until not even an empty job is taken; bytes of bodies.
    fn fill(&mut self) -> usize {
        let (began, mut bytes) = (Instant::now(), 0);
        for most in [*self.bodies.end(), *self.bodies.end() / 8, 0] {
            let least = most.min(*self.bodies.start());
            let mut refused = false;
            while !refused {
                assert!(began.elapsed() < limit(), "the disk does not fill");
                let sizes: Vec<_> =
                    (0..PIPELINE).map(|_| self.rng.random_range(least..=most)).collect();
                for size in &sizes {
                    self.wire().push(&[b"DELAY.ADD", b"q", b"0", &vec![b'x'; *size]]);
                }
                self.wire().flush().unwrap();
                for size in sizes {
                    match self.wire().read().unwrap() {
                        Reply::Bulk(id) => {
                            self.there.insert(String::from_utf8(id).unwrap());
                            bytes += size;
                        }
                        reply => {
                            assert!(reply.is_error("MISCONF"), "{reply:?}");
                            refused = true;
                        }
                    }
                }
            }
        }
        bytes
    }

    /// Takes up to `count` jobs.
    fn take(&mut self, count: usize) {
        let command = format!("DELAY.RESERVE NOWAIT 1 q COUNT {count} LEASE 10m");
        let reply = never_refused(self.wire().ask(&command));
        for job in reply.array().unwrap_or_default() {
            let job = job.array().unwrap();
            let (id, token) = (job[1].text().to_owned(), job[3].text().to_owned());
            assert!(self.there.contains(&id), "{id} was delivered and is not there");
            assert!(self.leased.insert(id, token).is_none(), "delivered though leased");
        }
    }

    /// Ends all leases, in one way or another.
    fn answer(&mut self) {
        let leased: Vec<_> = self.leased.drain().collect();
        let error = "e".repeat(300);
        let mut acked = Vec::new();
        for (id, token) in leased {
            match self.rng.random_range(0..30) {
                0 => {
                    self.wire().push_line(&format!("DELAY.NACK q {id} {token} IN 0 ERROR {error}"));
                    acked.push(None);
                }
                1 => {
                    self.wire().push_line(&format!("DELAY.CANCEL q {id} FORCE"));
                    acked.push(Some(id));
                }
                _ => {
                    self.wire().push_line(&format!("DELAY.ACK q {id} {token}"));
                    acked.push(Some(id));
                }
            }
        }
        self.wire().flush().unwrap();
        for id in acked {
            let reply = never_refused(self.wire().read().unwrap());
            assert!(matches!(reply, Reply::Number(1) | Reply::Bulk(_)), "{reply:?}");
            if let Some(id) = id {
                self.there.remove(&id);
            }
        }
    }

    /// Takes jobs for good, the ways that have no lease.
    fn pop(&mut self) {
        let reply = never_refused(self.wire().ask("DELAY.POP q NOWAIT"));
        if let Some(job) = reply.array() {
            assert!(self.there.remove(job[1].text()));
        }
        if let Some(id) = self.there.iter().find(|id| !self.leased.contains_key(*id)).cloned() {
            let reply = never_refused(self.wire().ask(&format!("DELAY.DEL q {id}")));
            assert_eq!(reply, Reply::Number(1));
            self.there.remove(&id);
        }
    }

    /// Consumers take and acknowledge every job.
    fn drain(&mut self, restarts: u32) {
        let (mut left, began) = (restarts, Instant::now());
        while !self.there.is_empty() {
            assert!(began.elapsed() < limit(), "{} jobs never came", self.there.len());
            let count = self.rng.random_range(1..=300);
            self.take(count);
            if left > 0 && self.rng.random_ratio(1, 12) {
                left -= 1;
                let kill = self.rng.random_ratio(2, 3);
                self.restart(kill);
            }
            if !self.rng.random_ratio(1, 4) {
                self.answer();
            }
            self.pop();
        }
        assert_eq!(self.wire().ask("DELAY.LEN q"), Reply::Number(0));
    }

    /// Takes jobs and gives them back, again and again: far more log than there is room for, and
    /// nothing gets smaller by it.
    fn churn(&mut self, rounds: u32) {
        let error = "e".repeat(1_000);
        for _ in 0..rounds {
            self.take(300);
            let leased: Vec<_> = self.leased.drain().collect();
            for (id, token) in &leased {
                self.wire().push_line(&format!("DELAY.NACK q {id} {token} IN 0 ERROR {error}"));
            }
            self.wire().flush().unwrap();
            for _ in leased {
                assert_eq!(never_refused(self.wire().read().unwrap()), Reply::Number(1));
            }
        }
    }

    /// What removes many at once is not refused either.
    fn remove_much(&mut self) {
        never_refused(self.wire().ask("DELAY.PURGE other"));
        never_refused(self.wire().ask("DEL another"));
    }

    /// Adding goes on by itself.
    fn resumes(&mut self) {
        let began = Instant::now();
        while self.wire().ask("DELAY.ADD q 1h again ID again").is_error("MISCONF") {
            assert!(began.elapsed() < limit(), "it does not go on");
        }
        assert_eq!(self.wire().ask("DELAY.DEL q again"), Reply::Number(1));
        self.wire().wait_for("journal_state", |state| state == "ok");
    }

    fn end(mut self) {
        self.wire = None;
        self.program.take().expect("it runs").stop();
    }
}

/// Filled, drained, filled again.
fn drains(
    seed: u64,
    segment: Option<&'static str>,
    bodies: std::ops::RangeInclusive<usize>,
    restarts: u32,
) {
    let began = Instant::now();
    let Some(mut run) = Run::new(seed, segment, bodies.clone(), DISK_BYTES) else { return };
    for queue in ["other", "another"] {
        never_refused(run.wire().ask(&format!("DELAY.ADD {queue} 1h body")));
    }
    let bytes = run.fill();
    let jobs = run.there.len();
    println!(
        "seed {seed}, segments {segment:?}, bodies {bodies:?}: {jobs} jobs of {bytes} bytes in all \
         filled the disk after {:?}",
        began.elapsed()
    );
    if segment.is_none() {
        let log = run.program.as_ref().expect("it runs").log();
        assert!(log.contains("segments have 8388608 bytes"), "{log}");
    }
    assert_ne!(run.wire().field("journal_state"), "ok", "nobody is told that the disk is full");
    if restarts > 0 {
        run.restart(true);
        let refused = run.wire().ask("DELAY.ADD q 0 x");
        assert!(refused.is_error("MISCONF"), "after a restart: {refused:?}");
    }
    run.remove_much();
    run.churn(if restarts > 0 { 300 } else { 0 });
    run.drain(restarts);
    println!("drained after {:?}", began.elapsed());
    run.resumes();
    // All of it can be used again.
    let again = run.fill();
    assert!(again * 10 >= bytes * 9, "{again} bytes filled it then, {bytes} at first");
    never_refused(run.wire().ask("FLUSHALL"));
    run.there.clear();
    run.resumes();
    run.end();
}

#[test]
fn a_disk_filled_by_its_own_jobs_is_drained() {
    for segment in SEGMENTS {
        drains(1, segment, 2_000..=2_000, 0);
    }
}

/// Producers that never let go, and consumers that come second: nobody who takes or ends jobs is
/// refused, and all that was taken in comes out.
#[test]
fn producers_keep_a_disk_full_and_consumers_do_not_notice() {
    SEGMENTS.into_iter().for_each(kept_full);
}

/// One client does everything at full speed: it adds, which is refused, takes, gives back, moves and
/// ends. That makes more log than anything else, and bases follow upon each other.
#[test]
fn a_disk_stays_usable_while_everything_changes_on_it() {
    for seed in 1..=3 {
        churned(seed);
    }
}

fn churned(seed: u64) {
    let Some(mut run) = Run::new(seed, Some("4mb"), 0..=2_000, TIGHT_BYTES) else { return };
    run.fill();
    let began = Instant::now();
    while began.elapsed().as_secs() < 3 {
        run.add(300);
        let count = [1, 50, 300][run.rng.random_range(0..3)];
        run.take(count);
        run.answer();
        if run.rng.random_ratio(1, 3) {
            run.postpone(30);
        }
    }
    run.drain(0);
    run.resumes();
    run.end();
}

fn kept_full(segment: Option<&'static str>) {
    let Some(run) = Run::new(7, segment, 0..=0, DISK_BYTES) else { return };
    let program = run.program.as_ref().expect("it runs");
    // It holds less than half of its bytes in jobs.
    let held = (DISK_BYTES / 2 / 1_500) as usize;
    let (all_added, all_refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (began, producers_left) = (Instant::now(), AtomicUsize::new(2));
    // Two seconds, and on a slow machine until it has been full and had room again.
    let is_over = || {
        let is_seen = all_refused.load(Ordering::Relaxed) > 0
            && all_added.load(Ordering::Relaxed) > held * 5 / 4;
        began.elapsed() > Duration::from_secs(if is_seen { 2 } else { 60 })
    };
    let produce = |mut wire: Wire| {
        let (body, mut added, mut refused) = ("x".repeat(1_500), 0, 0);
        while !is_over() {
            let before = (added, refused);
            (0..PIPELINE).for_each(|_| wire.push_line(&format!("DELAY.ADD q 0 {body}")));
            wire.flush().unwrap();
            for _ in 0..PIPELINE {
                let reply = wire.read().unwrap();
                assert!(reply.is_error("MISCONF") || matches!(reply, Reply::Bulk(_)), "{reply:?}");
                *if reply.is_error("MISCONF") { &mut refused } else { &mut added } += 1;
            }
            all_added.fetch_add(added - before.0, Ordering::Relaxed);
            all_refused.fetch_add(refused - before.1, Ordering::Relaxed);
        }
        producers_left.fetch_sub(1, Ordering::Relaxed);
        (added, refused)
    };
    let error = [b'e'; 1_000];
    let consume = |mut wire: Wire| {
        let (mut acked, mut taken) = (0, 0);
        loop {
            let is_last = producers_left.load(Ordering::Relaxed) == 0;
            // At first the disk fills.
            let count = if refused_ever(&mut wire) { 40 } else { 1 };
            let reply = wire.ask(&format!("DELAY.RESERVE NOWAIT 1 q COUNT {count} LEASE 10m"));
            let jobs = never_refused(reply).array().unwrap_or_default().to_vec();
            for job in jobs.iter().map(|job| job.array().unwrap()) {
                // One in four comes back, with far more log than its end would be.
                taken += 1;
                let (id, token) = (job[1].bytes(), job[3].bytes());
                match taken % 4 {
                    0 => {
                        wire.push(&[b"DELAY.NACK", b"q", id, token, b"IN", b"0", b"ERROR", &error])
                    }
                    _ => wire.push(&[b"DELAY.ACK", b"q", id, token]),
                }
                acked += usize::from(taken % 4 > 0);
            }
            wire.flush().unwrap();
            jobs.iter().for_each(|_| {
                assert_eq!(never_refused(wire.read().unwrap()), Reply::Number(1));
            });
            if jobs.is_empty() && is_last {
                return acked;
            }
        }
    };
    let (added, refused, acked) = std::thread::scope(|scope| {
        let producers: Vec<_> =
            (0..2).map(|_| scope.spawn(|| produce(program.connect()))).collect();
        let consumers: Vec<_> =
            (0..2).map(|_| scope.spawn(|| consume(program.connect()))).collect();
        let made: Vec<_> = producers.into_iter().map(|it| it.join().unwrap()).collect();
        let acked: usize = consumers.into_iter().map(|it| it.join().unwrap()).sum();
        (made[0].0 + made[1].0, made[0].1 + made[1].1, acked)
    });
    println!("{added} added, {refused} refused, {acked} acknowledged");
    assert_eq!(added, acked);
    assert!(refused > 0 && added > held * 5 / 4, "the disk was never full, or stayed so");
    run.end();
}

/// Whether the disk has been full.
fn refused_ever(wire: &mut Wire) -> bool {
    let stats = wire.info("errorstats");
    stats.contains("errorstat_MISCONF")
}

#[test]
fn a_full_disk_is_drained_across_kills_and_restarts() {
    let cases = std::env::var("DELAYD_CASES").map_or(3, |cases| cases.parse().expect("a number"));
    let seeds = match std::env::var("DELAYD_SEED") {
        Ok(seed) => seed.parse().expect("a number")..=seed.parse().expect("a number"),
        Err(_) => 1..=cases,
    };
    for seed in seeds {
        let mut rng = SmallRng::seed_from_u64(!seed);
        let most = [0, 100, 2_000, 20_000, 300_000][rng.random_range(0..5)];
        let least = most / rng.random_range(1..=4);
        drains(seed, SEGMENTS[seed as usize % 3], least..=most, rng.random_range(1..=3));
    }
}
