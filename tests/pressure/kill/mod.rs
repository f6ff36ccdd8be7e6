//! The real program is killed again and again while clients keep it busy, and what they were told is
//! compared with what is there afterwards. `ledger.rs` says what must hold.
//!
//! `DELAYD_SEED=17 cargo test --test it pressure::kill` replays the choices of one run (what the machine does at
//! which moment cannot be replayed), `DELAYD_CASES=1000` kills so often, `DELAYD_KEEP=1` leaves the
//! folder of a failure.

mod events;
mod ledger;
mod load;

use self::events::{Event, QUEUES};
use self::ledger::{Ended, Ledger};
use self::load::{Lease, Open, Worker};

use crate::support::patience::pass;
use crate::support::program::{Folder, Program, Reply, Wire};
use crate::support::seeds::{Telltale, number_of};
use crate::support::seen::{Seen, drain};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::process::Stdio;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

const PRODUCERS: usize = 2;
/// A round adds so many jobs at most, fewer while there are many.
const ADDS_MAX: usize = 1_500;
const JOBS_MAX: usize = 3_000;

/// How a round ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Kill,
    Terminate,
    Shutdown,
}

/// A server that is started again and again on one folder.
struct Play {
    policy: &'static str,
    /// What was read so long before a kill is safe.
    lost_max: Duration,
    random: SmallRng,
    seed: u64,
    ledger: Ledger,
    labels: &'static AtomicU64,
    program: Option<Program>,
    seen: Seen,
    bases: u64,
    rounds: u64,
    /// Last, so that it goes after the program that writes to it.
    folder: Folder,
}

impl Play {
    fn new(policy: &'static str, salt: u64) -> Play {
        let seed = crate::support::program::seed();
        let lost_max = Duration::from_secs(u64::from(policy != "always"));
        let mut play = Play {
            folder: Folder::new("kill"),
            policy,
            lost_max,
            random: SmallRng::seed_from_u64(seed ^ salt),
            seed,
            ledger: Ledger::default(),
            labels: Box::leak(Box::new(AtomicU64::new(1))),
            program: None,
            seen: Seen::default(),
            bases: 0,
            rounds: 0,
        };
        play.start();
        play
    }

    fn options(&self) -> [&'static str; 4] {
        ["--appendfsync", self.policy, "--journal-segment-size", "1mb"]
    }

    fn start(&mut self) {
        let options = self.options();
        // Some die before they are ready.
        while self.program.is_some() && self.random.random_bool(0.15) {
            let mut command = Program::command(&self.folder.0, &options);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = command.spawn().unwrap();
            pass(Duration::from_millis(self.random.random_range(0..40)));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        self.program = Some(Program::start(&self.folder.0, &options));
    }

    /// Clients at work for a time drawn from `load_ms`; then the server ends, is started again and
    /// looked at.
    fn round(&mut self, load_ms: Range<u64>, end: End) {
        let program = self.program.as_ref().expect("is always there");
        let load = Duration::from_millis(self.random.random_range(load_ms));
        let seed = self.random.random();
        let workers = Workers::start(program, seed, self);
        pass(load);
        let killed = Instant::now();
        let program = self.program.take().expect("is always there");
        if let Ok(mut wire) = Wire::connect(program.address) {
            self.bases += wire.number("rdb_saves");
        }
        let log = match end {
            End::Kill => program.kill(),
            End::Terminate => program.stop(),
            End::Shutdown => {
                let mut wire = program.connect();
                wire.push_line("SHUTDOWN");
                wire.flush().unwrap();
                let (status, log) = program.ended();
                assert!(status.success(), "{status}:\n{log}");
                log
            }
        };
        let clients = workers.join();
        let safe_until = match end {
            End::Kill => killed - self.lost_max,
            _ => Instant::now(),
        };
        // Under `always` there is nothing that may be lost.
        let safe_until = if self.lost_max.is_zero() { Instant::now() } else { safe_until };
        self.start();
        self.seen = Seen::look(&mut self.program.as_ref().expect("started").connect(), &QUEUES);
        self.rounds += 1;
        let (rounds, seed) = (self.rounds, self.seed);
        let telltale = Telltale(format!("DELAYD_SEED={seed}, round {rounds}, {end:?}:\n{log}"));
        self.ledger.settle(Ended { safe_until, orderly: end != End::Kill }, &clients, &self.seen);
        drop(telltale);
    }

    /// Takes out every job that must be there; after another kill there is none.
    fn finish(mut self) {
        let program = self.program.take().expect("is always there");
        let mut wire = program.connect();
        let drained = drain(&mut wire, &self.seen, &QUEUES);
        let unique: HashSet<_> = drained.iter().copied().collect();
        assert_eq!(drained.len(), unique.len(), "a job was delivered twice");
        assert_eq!(unique, self.ledger.labels());
        program.stop();
        self.start();
        let mut wire = self.program.as_ref().expect("started").connect();
        for queue in QUEUES {
            assert_eq!(wire.ask(&format!("DELAY.LEN {queue}")), Reply::Number(0));
        }
        let (rounds, bases, counts) = (self.rounds, self.bases, &self.ledger.counts);
        println!("{}: {rounds} rounds, {bases} bases, {counts:?}", self.policy);
        for what in ["adds answered", "acks answered", "jobs popped", "transactions"] {
            let count = counts.get(what).copied().unwrap_or(0);
            assert!(count >= rounds, "{what}: {count} in {rounds} rounds prove nothing");
        }
        assert!(bases > 0, "no base was written");
    }
}

/// What a client does until the server is gone.
type Work = Box<dyn FnOnce(&mut Worker) -> io::Result<()> + Send>;

/// Clients at work.
struct Workers(Vec<std::thread::JoinHandle<Vec<Event>>>);

impl Workers {
    fn start(program: &Program, seed: u64, play: &Play) -> Workers {
        let (address, labels) = (program.address, play.labels);
        let mut opens = vec![Vec::new(); PRODUCERS];
        let mut held = Vec::new();
        for (label, job) in &play.seen.jobs {
            let (queue, id) = (job.queue, job.id.clone());
            match play.ledger.token_of(*label) {
                Some(token) => held.push(Lease { label: *label, queue, id, token }),
                None => opens[*label as usize % PRODUCERS].push(Open { queue, id }),
            }
        }
        let budget = if play.seen.jobs.len() < JOBS_MAX { ADDS_MAX / PRODUCERS } else { 0 };
        let mut threads = Vec::new();
        let mut spawn = |number: u64, work: Work| {
            let seed = seed ^ number;
            threads.push(std::thread::spawn(move || {
                let Ok(mut worker) = Worker::new(address, seed, labels) else {
                    return Vec::new();
                };
                let error = work(&mut worker).expect_err("it ends with the server");
                assert!(!matches!(error.kind(), io::ErrorKind::WouldBlock), "no answer: {error}");
                worker.events
            }));
        };
        for (number, open) in opens.into_iter().enumerate() {
            spawn(number as u64, Box::new(move |worker| worker.produce(open, budget)));
        }
        spawn(10, Box::new(move |worker| worker.consume(held)));
        spawn(11, Box::new(move |worker| worker.consume(Vec::new())));
        spawn(12, Box::new(|worker| worker.pop()));
        Workers(threads)
    }

    fn join(self) -> Vec<Vec<Event>> {
        self.0.into_iter().map(|thread| thread.join().unwrap()).collect()
    }
}

#[test]
fn nothing_acknowledged_is_lost_by_kills() {
    let mut play = Play::new("always", 1);
    for _ in 0..number_of("DELAYD_CASES").unwrap_or(90) {
        play.round(150..450, End::Kill);
    }
    play.finish();
}

#[test]
fn a_second_at_most_is_lost_under_everysec() {
    let mut play = Play::new("everysec", 2);
    for _ in 0..number_of("DELAYD_CASES").map_or(10, |cases| cases / 10) {
        play.round(1_200..2_000, End::Kill);
    }
    play.finish();
}

#[test]
fn nothing_is_lost_by_orderly_stops() {
    for (salt, policy) in [(3, "always"), (4, "everysec"), (5, "no")] {
        let mut play = Play::new(policy, salt);
        for i in 0..number_of("DELAYD_CASES").map_or(6, |cases| cases / 10) {
            play.round(200..500, if i % 2 == 0 { End::Terminate } else { End::Shutdown });
        }
        play.finish();
    }
}

/// A lease that is bound to its connection ends with the server: as an attempt if that was killed,
/// else as if nothing had been.
#[test]
fn bound_leases_count_after_a_kill_and_not_after_an_orderly_stop() {
    let folder = Folder::new("bound");
    let reserve = "DELAY.RESERVE 1 1 q LEASE 1h BOUND";
    let mut program = Program::start(&folder.0, &[]);
    program.connect().ask("DELAY.ADD q 0 body ID a BACKOFF 1ms");
    let mut tokens = Vec::new();
    for (orderly, attempt) in [(true, 1), (false, 1), (true, 2), (true, 2), (false, 2), (false, 3)]
    {
        let mut wire = program.connect();
        let reply = wire.ask(reserve);
        let job = reply.array().expect("it is there again")[0].array().unwrap();
        assert_eq!(job[4].number(), attempt, "{reply:?}");
        tokens.push(job[3].number());
        if orderly {
            program.stop()
        } else {
            program.kill()
        };
        program = Program::start(&folder.0, &[]);
    }
    let fields = program.connect().ask("DELAY.GET q a");
    assert_eq!(fields.value("lost").number(), 6, "all six leases were lost: {fields:?}");
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}
