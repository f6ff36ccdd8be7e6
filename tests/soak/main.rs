//! Everything at once, for minutes: steady work, waves of all sizes against the memory limit and the
//! disk, clients that hang up, kills, a disk that others fill. An auditor that knows all that was asked
//! and told says whether anything was lost, early or doubled; at the end memory, files and disk must be
//! back where they were.
//!
//! `make soak-real` runs it for ten minutes against the release build; `DELAYD_SOAK_SECONDS` says for
//! how long (15). `DELAYD_SEED` replays the choices, not the moments.

mod actors;
mod auditor;
mod levels;
#[path = "../support/mod.rs"]
mod support;

use crate::support::disk::SmallDisk;
use crate::support::patience::pass;
use crate::support::program::{Folder, Program, Reply};
use actors::{Actor, BULK, POPS, Stage, WORK};
use levels::{Levels, told};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The volume: jobs of `MAXMEMORY[1]` do not fit, so that it is filled by jobs; those of
/// `MAXMEMORY[0]` do, so that memory is what refuses.
const DISK_BYTES: u64 = 192 << 20;
const MAXMEMORY: [&str; 2] = ["24mb", "96mb"];
const MAXMEMORY_BYTES: u64 = 96 << 20;
const SEGMENT_BYTES: u64 = 4 << 20;
/// How long everything may take to be taken out at the end.
const DRAIN: Duration = Duration::from_secs(60);

/// Where the server lives.
enum Home {
    Small(SmallDisk),
    Plain(Folder),
}

impl Home {
    fn start(&self) -> Program {
        let segment = SEGMENT_BYTES.to_string();
        let options = ["--journal-segment-size", &segment, "--maxmemory", MAXMEMORY[1]];
        match self {
            Home::Small(disk) => disk.start(&options),
            Home::Plain(folder) => Program::start(&folder.0, &options),
        }
    }

    fn journal(&self) -> PathBuf {
        match self {
            Home::Small(disk) => disk.path().join("journal"),
            Home::Plain(folder) => folder.journal(),
        }
    }
}

/// A soak that is going on.
struct Soak {
    home: Home,
    stage: Arc<Stage>,
    random: SmallRng,
    program: Option<Program>,
    /// The highest levels seen.
    most: Levels,
    began: Instant,
    logged: Instant,
    pauses: Vec<Duration>,
}

impl Soak {
    fn new(seed: u64) -> Soak {
        let home = match SmallDisk::mount(DISK_BYTES) {
            Some(disk) => Home::Small(disk),
            None => {
                println!("SKIPPED: full disks; no file system can be mounted");
                Home::Plain(Folder::new("soak"))
            }
        };
        let stage = Stage {
            address: None.into(),
            auditor: Default::default(),
            labels: AtomicU64::new(1),
            over: AtomicBool::new(false),
            drained: AtomicBool::new(false),
            bulk: Vec::new().into(),
        };
        let now = Instant::now();
        let mut soak = Soak {
            home,
            stage: Arc::new(stage),
            random: SmallRng::seed_from_u64(seed),
            program: None,
            most: Levels::default(),
            began: now,
            logged: now,
            pauses: Vec::new(),
        };
        soak.start();
        soak
    }

    fn start(&mut self) {
        let began = Instant::now();
        let program = self.home.start();
        program.connect();
        self.pauses.push(began.elapsed());
        *self.stage.address.lock().unwrap() = Some(program.address);
        self.program = Some(program);
    }

    fn kill(&mut self) {
        *self.stage.address.lock().unwrap() = None;
        let log = self.program.take().expect("runs").kill();
        assert!(!log.contains("panicked"), "{log}");
        self.stage.auditor.note("kills");
        self.start();
    }

    fn actors(&mut self) -> Vec<JoinHandle<()>> {
        let mut threads = Vec::new();
        let mut begin = |run: fn(Actor)| {
            let actor = Actor::new(&self.stage, self.random.random());
            threads.push(std::thread::spawn(move || run(actor)));
        };
        (0..2).for_each(|_| begin(Actor::produce));
        (0..3).for_each(|_| begin(Actor::consume));
        (0..2).for_each(|_| begin(Actor::hang_up));
        begin(Actor::pop);
        begin(Actor::flood);
        begin(Actor::pour);
        begin(|actor| actor.change(MAXMEMORY));
        threads
    }

    /// Looks at the process for a while.
    fn watch(&mut self, span: Duration) {
        let began = Instant::now();
        while began.elapsed() < span {
            let program = self.program.as_ref().expect("runs");
            let now = Levels::of(program.pid(), &self.home.journal()).expect("it runs");
            self.most = self.most.max(now);
            if self.logged.elapsed() > Duration::from_secs(10) {
                self.logged = Instant::now();
                self.stage.auditor.forget();
                let (at, live) = (self.began.elapsed().as_secs(), self.stage.auditor.live());
                eprintln!("{at:4} s: {live} jobs, {now:?}, {}", told(&mut program.connect()));
            }
            pass(Duration::from_millis(20));
        }
    }

    /// Pressure from outside, again and again.
    fn press(&mut self, seconds: u64) {
        while self.began.elapsed() < Duration::from_secs(seconds) {
            let span = Duration::from_millis(self.random.random_range(1_000..6_000));
            self.watch(span);
            match self.random.random_range(0..4) {
                0 => {
                    let Home::Small(disk) = &self.home else { continue };
                    disk.fill();
                    self.stage.auditor.note("disks filled by others");
                    let killed = self.random.random_bool(0.3);
                    self.watch(Duration::from_millis(1_500));
                    if killed {
                        self.kill();
                    }
                    if let Home::Small(disk) = &self.home {
                        disk.free();
                    }
                }
                1 | 2 => self.kill(),
                _ => {}
            }
        }
    }

    /// Takes everything out and looks whether all is back where it was.
    fn end(mut self, mut threads: Vec<JoinHandle<()>>) {
        self.stage.over.store(true, Ordering::Release);
        let mut wire = self.program.as_ref().expect("runs").connect();
        let line = format!("DELAY.CONFIG RESET {}", WORK[2]);
        wire.ask(&line);
        wire.ask(&format!("DELAY.RESUME {}", WORK[2]));
        let began = Instant::now();
        while WORK.iter().chain(&[POPS]).any(|queue| {
            let is_empty = wire.ask(&format!("DELAY.LEN {queue}")) == Reply::Number(0);
            !is_empty
        }) {
            assert!(began.elapsed() < DRAIN, "the queues do not empty: {}", told(&mut wire));
            self.watch(Duration::from_millis(100));
        }
        self.stage.drained.store(true, Ordering::Release);
        threads.drain(..).for_each(|thread| thread.join().unwrap());
        Actor::new(&self.stage, 0).clear(&mut wire).unwrap();
        // Whose adding was never answered.
        wire.ask(&format!("DELAY.PURGE {BULK}"));
        self.stage.auditor.settle();
        // Queues of clients that were cut off before they removed them.
        wire.ask("FLUSHALL");
        drop(wire);
        self.settle_levels();
    }

    /// Memory, files and disk of a server that has been emptied beside those of one that never had a job.
    fn settle_levels(mut self) {
        let used = self.idle_levels(Duration::from_secs(10));
        println!("most: {:?}", self.most);
        println!("emptied: {used:?}, restarts took at most {:?}", self.pauses.iter().max());
        self.program.take().expect("runs").stop();
        self.start();
        // It has nothing to give back.
        let fresh = self.idle_levels(Duration::from_secs(1));
        println!("started anew: {fresh:?}");
        // A segment that waits for its base, and a base.
        assert!(used.files <= fresh.files + 2, "descriptors are left over");
        // A base of less than half a segment stays until there is log to be given back with it, and so much log does, which
        // may lie across the border of two segments; one more is prepared.
        let disk_max = 3 * SEGMENT_BYTES + SEGMENT_BYTES / 2 + (64 << 10);
        assert!(used.disk <= disk_max, "{} bytes on disk without a job", used.disk);
        let resident_max = fresh.resident + (16 << 20);
        assert!(used.resident <= resident_max, "{} bytes resident without a job", used.resident);
        // What SPEC 6 allows, and what the clients of this test have under way.
        let limit = MAXMEMORY_BYTES / 10 * 11 + (32 << 20) + (32 << 20);
        assert!(self.most.resident <= limit, "{} resident, {limit} allowed", self.most.resident);
    }

    /// What it comes down to when it is left alone for so long.
    fn idle_levels(&mut self, span: Duration) -> Levels {
        let program = self.program.as_ref().expect("runs");
        let (journal, pid, began) = (self.home.journal(), program.pid(), Instant::now());
        let mut least: Option<Levels> = None;
        while began.elapsed() < span {
            let now = Levels::of(pid, &journal).expect("it runs");
            let before = least.unwrap_or(now);
            least = Some(Levels {
                resident: before.resident.min(now.resident),
                files: before.files.min(now.files),
                disk: before.disk.min(now.disk),
            });
            pass(Duration::from_millis(100));
        }
        least.expect("at least one look")
    }
}

#[test]
fn nothing_is_lost_early_or_doubled_under_pressure() {
    let seconds = std::env::var("DELAYD_SOAK_SECONDS").map_or(15, |text| text.parse().unwrap());
    let mut soak = Soak::new(support::program::seed());
    let threads = soak.actors();
    soak.press(seconds);
    // A run that did not do what it is for proves nothing.
    let (auditor, needed) = (&soak.stage.auditor, if seconds < 60 { 0 } else { 1 });
    let needed_all = [
        "kills",
        "waves",
        "hang-ups noticed",
        "refused: OOM",
        "disks filled by others",
        "pipelines written before they were read",
    ];
    for what in needed_all {
        let count = auditor.count_of(what);
        assert!(count >= needed, "{what}: {count}");
    }
    soak.end(threads);
}
