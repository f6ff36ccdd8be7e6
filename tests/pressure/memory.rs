//! Memory is what the limit says: waves of jobs of other sizes through the real program, each until it answers
//! `OOM`, with most of the last one deleted before the next. Resident memory never passes the limit by more than a
//! tenth and a base, and what deleted jobs leave behind goes back to the system.
//!
//! `DELAYD_CASES=20 cargo test --release --test it pressure::memory -- --nocapture` goes through more waves at a larger limit and
//! prints a table; `DELAYD_PROGRAM` names another binary than the one that was built.

use crate::support::patience::{limit, pass, within};
use crate::support::program::{Folder, Program, Reply, Wire};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use std::process::Command;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// Adds sent before their replies are read: what the server may hold of them is not what is measured.
const BATCH_BYTES: usize = 128 << 10;

/// The largest body.
const LARGE_BYTES: usize = 1 << 20;

/// What the server may hold beside of the requests and replies that are on their way: those of a batch, in buffers
/// of twice their size.
const BATCH_CLIENT_BYTES: u64 = 4 * MIB;

/// The same where jobs are taken, twenty at once: a reply is 4 MiB and the rest of its last job, and twice that while
/// its buffer grows.
const TAKEN_CLIENT_BYTES: u64 = 2 * (4 * MIB + LARGE_BYTES as u64);

/// What a server that was large may hold more than a small one in any case: the pages that new jobs come to in each
/// of 150 sizes, of which a fresh one has touched little, and what its allocator knows of the memory it had.
const SLACK_BYTES: u64 = 8 * MIB;

/// What a server from which all jobs are gone may have taken for itself: a fresh one has 1 to 2 MiB, one that was
/// large 4 to 6, since its allocator knows of the memory it had. With buffers kept for ever it was 11 more.
const EMPTIED_BYTES: u64 = 8 * MIB;

/// How long memory that deleted jobs have left may be the reason for `OOM`, at least.
const PATIENCE: Duration = Duration::from_millis(500);

/// What a job takes beside id and body, about: timer, places, index.
const JOB_BYTES: u64 = 68;

/// What it takes besides once it was delivered, which is kept for it.
const HISTORY_BYTES: u64 = 104;

/// A job as the client knows it; from its number follow id and body.
#[derive(Clone, Copy)]
struct Added {
    number: u32,
    body_bytes: u32,
    delay_s: u32,
}

impl Added {
    /// Twenty bytes.
    fn id(self) -> String {
        format!("wave-job-{:011}", self.number)
    }

    fn bytes(self) -> u64 {
        u64::from(self.body_bytes) + 20 + JOB_BYTES
    }

    fn push(self, wire: &mut Wire, body: &[u8]) {
        let delay = format!("{}s", self.delay_s);
        let body = &body[..self.body_bytes as usize];
        wire.push(&[b"DELAY.ADD", b"waves", delay.as_bytes(), body, b"ID", self.id().as_bytes()]);
    }
}

/// `DELAYD_LOOK` prints and asserts nothing: for a binary that does not hold what is promised.
fn just_looks() -> bool {
    std::env::var_os("DELAYD_LOOK").is_some()
}

/// What the system counts for a process, bytes.
fn status_bytes(pid: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    let kib: u64 = line.trim_matches([':', ' ', '\t', 'k', 'B']).parse().unwrap();
    kib << 10
}

fn resident_bytes(program: &Program) -> u64 {
    status_bytes(program.pid(), "VmRSS")
}

/// What the process took for itself, in bytes. Pages of the program's own file do not count: which of them
/// are in memory depends on what ran so far (1 MiB more or less between two starts), and the kernel drops
/// them when it likes.
fn anonymous_bytes(program: &Program) -> u64 {
    status_bytes(program.pid(), "RssAnon")
}

fn peak_bytes(program: &Program) -> u64 {
    status_bytes(program.pid(), "VmHWM")
}

fn start(folder: &Folder, max: u64) -> Program {
    start_with(folder, max, &["--appendonly", "no"])
}

fn start_with(folder: &Folder, max: u64, options: &[&str]) -> Program {
    let mut command = Program::command(&folder.0, &[]);
    if let Some(path) = std::env::var_os("DELAYD_PROGRAM") {
        let mut other = Command::new(path);
        other.args(command.get_args());
        command = other;
    }
    let max = max.to_string();
    command.args(["--maxmemory", &max, "--max-delay", "3650d"]).args(options);
    Program::start_as(command)
}

/// The program, and what is in it.
struct Waves {
    program: Program,
    _folder: Folder,
    wire: Wire,
    max: u64,
    body: Vec<u8>,
    live: Vec<Added>,
    next: u32,
    rng: SmallRng,
    /// What the journal may hold in memory until the disk has it.
    journal_bytes: u64,
}

impl Waves {
    fn new(seed: u64, max: u64) -> Waves {
        Waves::with(seed, max, &["--appendonly", "no"])
    }

    fn with(seed: u64, max: u64, options: &[&str]) -> Waves {
        let folder = Folder::new("memory");
        let program = start_with(&folder, max, options);
        let wire = program.connect();
        // Batches, and as much for images of a base: a 16th of `maxmemory` each, at least 4 MiB. A disk that is kept
        // busy has both of them full at once (116 MiB were seen where 112 had been allowed).
        let has_journal = !options.contains(&"no") || options.contains(&"yes");
        let journal_bytes = if has_journal { 2 * (max / 16).max(4 * MIB) } else { 0 };
        let rng = SmallRng::seed_from_u64(seed);
        let body = vec![b'x'; LARGE_BYTES];
        Waves {
            program,
            _folder: folder,
            wire,
            max,
            body,
            live: Vec::new(),
            next: 0,
            rng,
            journal_bytes,
        }
    }

    /// Adds jobs until they are refused, and still are a moment later: then live jobs fill the memory.
    fn fill(&mut self, bytes: std::ops::RangeInclusive<u32>) {
        let mut full = false;
        loop {
            let mut sent = Vec::new();
            let mut batch = 0;
            while batch < BATCH_BYTES {
                let body_bytes = self.rng.random_range(bytes.clone());
                // Some are ready at once, the others spread over the wheel.
                let reach = [0, 3_600, 86_400, 8_640_000][self.rng.random_range(0..4)];
                let delay_s = if reach == 0 { 0 } else { 1_000 + self.rng.random_range(0..reach) };
                self.next += 1;
                let job = Added { number: self.next, body_bytes, delay_s };
                job.push(&mut self.wire, &self.body);
                sent.push(job);
                batch += body_bytes as usize + 100;
            }
            self.wire.flush().unwrap();
            let mut refused = false;
            for job in sent {
                match self.wire.read().unwrap() {
                    Reply::Bulk(_) => self.live.push(job),
                    reply if reply.is_error("OOM") => refused = true,
                    reply => panic!("{reply:?} to ADD"),
                }
            }
            self.check_resident(BATCH_CLIENT_BYTES);
            if refused && full {
                break;
            }
            full = refused;
            if refused {
                pass(PATIENCE);
            }
        }
        let live: u64 = self.live.iter().map(|job| job.bytes()).sum();
        // Room is kept for what jobs take once they are delivered.
        let live = live + self.live.len() as u64 * HISTORY_BYTES;
        if !just_looks() {
            assert!(live > self.max / 100 * 85, "refused with {live} bytes of {}", self.max);
        }
    }

    /// Deletes jobs, each with this chance or the oldest of them.
    fn delete(&mut self, share: f64, in_order: bool) {
        let count = (self.live.len() as f64 * share) as usize;
        if !in_order {
            self.live.shuffle(&mut self.rng);
        }
        let gone: Vec<Added> = self.live.drain(..count).collect();
        for jobs in gone.chunks(1_000) {
            let ids: Vec<String> = jobs.iter().map(|job| job.id()).collect();
            let mut args: Vec<&[u8]> = vec![b"DELAY.DEL", b"waves"];
            args.extend(ids.iter().map(|id| id.as_bytes()));
            assert_eq!(self.wire.call(&args), Reply::Number(jobs.len() as i64));
            self.check_resident(BATCH_CLIENT_BYTES);
        }
    }

    fn check_resident(&self, client_bytes: u64) {
        let bound = self.max / 10 * 11 + 32 * MIB + client_bytes + self.journal_bytes;
        let peak = peak_bytes(&self.program);
        if !just_looks() {
            assert!(peak <= bound, "{} MiB resident of {} at most", peak / MIB, bound / MIB);
        }
    }

    /// Waits until a server that holds a quarter more than one with these jobs alone is as large as this one; how
    /// many bytes that one holds.
    fn settle(&mut self) -> (u64, u64, Duration) {
        let needed = self.needed_bytes();
        let start = Instant::now();
        let mut resident = u64::MAX;
        within(limit(), || {
            resident = resident_bytes(&self.program);
            (resident <= enough(needed)).then_some(())
        });
        (needed, resident, start.elapsed())
    }

    /// What a server has resident to which only these jobs were added.
    fn needed_bytes(&mut self) -> u64 {
        let folder = Folder::new("memory-fresh");
        let fresh = start(&folder, 0);
        let mut wire = fresh.connect();
        for jobs in self.live.chunks(1_000) {
            let mut queued = Vec::new();
            for job in jobs {
                job.push(&mut wire, &self.body);
                queued.push(job);
                if queued.iter().map(|job| job.body_bytes as usize).sum::<usize>() > BATCH_BYTES {
                    flush(&mut wire, &mut queued);
                }
            }
            flush(&mut wire, &mut queued);
        }
        resident_bytes(&fresh)
    }

    /// All jobs go at once, and nobody waits for their memory.
    fn flush_all(&mut self) {
        assert_eq!(self.wire.call(&[b"FLUSHALL"]), Reply::Simple("OK".to_owned()));
        self.live.clear();
    }

    /// Adds ready jobs of any size up to a MiB, as many of a KiB as of 500, and takes and ends some whenever they are
    /// refused, until so many bytes were added.
    fn churn(&mut self, bytes: u64) {
        let mut added = 0;
        while added < bytes {
            let (mut sizes, mut batch) = (Vec::new(), 0);
            while batch < BATCH_BYTES {
                let size = f64::exp2(self.rng.random_range(0.0..20.0)) as usize;
                self.wire.push(&[b"DELAY.ADD", b"waves", b"0", &self.body[..size]]);
                sizes.push(size as u64);
                batch += size + 60;
            }
            self.wire.flush().unwrap();
            let mut refused = false;
            for size in sizes {
                match self.wire.read().unwrap() {
                    Reply::Bulk(_) => added += size,
                    reply if reply.is_error("OOM") => refused = true,
                    reply => panic!("{reply:?} to ADD"),
                }
            }
            self.check_resident(TAKEN_CLIENT_BYTES);
            if refused {
                for _ in 0..[1, 20, 100][self.rng.random_range(0..3)] {
                    self.take_and_end();
                }
            }
        }
    }

    /// Ends up to twenty jobs.
    fn take_and_end(&mut self) {
        let reply = self.wire.call(&[b"DELAY.RESERVE", b"NOWAIT", b"1", b"waves", b"COUNT", b"20"]);
        let Reply::Array(jobs) = reply else { return };
        for job in &jobs {
            let Reply::Array(parts) = job else { panic!("{job:?} is no job") };
            let (Reply::Bulk(id), Reply::Bulk(token)) = (&parts[1], &parts[3]) else {
                panic!("{parts:?} name no job")
            };
            self.wire.push(&[b"DELAY.ACK", b"waves", id, token]);
        }
        self.wire.flush().unwrap();
        for _ in &jobs {
            assert_eq!(self.wire.read().unwrap(), Reply::Number(1));
        }
        self.check_resident(TAKEN_CLIENT_BYTES);
    }

    fn print(&mut self, title: &str) {
        let (peak, resident) = (peak_bytes(&self.program), resident_bytes(&self.program));
        let used = self.wire.number("used_memory");
        let count = self.live.len();
        println!(
            "{title:36} {count:8} jobs, {:4} MiB counted, {:4} resident, {:4} at most so far",
            used / MIB,
            resident / MIB,
            peak / MIB
        );
    }
}

/// What may be resident where a fresh server has so much.
fn enough(needed: u64) -> u64 {
    (needed / 4 * 5).max(needed + SLACK_BYTES)
}

fn flush(wire: &mut Wire, queued: &mut Vec<&Added>) {
    wire.flush().unwrap();
    for _ in queued.drain(..) {
        assert!(matches!(wire.read().unwrap(), Reply::Bulk(_)));
    }
}

/// What a million pending jobs with ids of 20 bytes and bodies of 100 take, all that the process took for itself counted.
#[test]
fn a_pending_job_takes_at_most_190_bytes() {
    const JOBS: u32 = 1_000_000;
    let folder = Folder::new("memory-pending");
    let program = start(&folder, 0);
    let mut wire = program.connect();
    let (empty, body) = (anonymous_bytes(&program), [b'x'; 100]);
    // A few at a time: what the server holds of requests and replies is not what is measured.
    for first in (0..JOBS).step_by(100) {
        for number in first..first + 100 {
            let delay_s = 3_600 + number.wrapping_mul(0x9e37_79b9) % 86_400;
            Added { number, body_bytes: 100, delay_s }.push(&mut wire, &body);
        }
        wire.flush().unwrap();
        for _ in 0..100 {
            assert!(matches!(wire.read().unwrap(), Reply::Bulk(_)));
        }
    }
    let bytes = (anonymous_bytes(&program) - empty) as f64 / f64::from(JOBS);
    println!("{bytes:.1} bytes a pending job");
    assert!(just_looks() || bytes <= 190.0, "{bytes:.1} bytes a pending job");
}

/// The case it began with: large jobs, most of them deleted here and there, then small ones.
#[test]
fn small_jobs_take_the_room_of_deleted_large_ones() {
    let mut waves = Waves::new(1, 64 * MIB);
    waves.fill(2_000..=2_000);
    waves.print("2,000 bytes each");
    waves.delete(0.85, false);
    waves.fill(300..=300);
    waves.print("85 % deleted, 300 bytes each");
}

#[test]
fn waves_of_any_size_stay_below_the_limit_and_leave_nothing_behind() {
    let cases = std::env::var("DELAYD_CASES").ok().and_then(|cases| cases.parse::<u64>().ok());
    // The short one is the same every time: its waves are small beside what a server has to begin with.
    let (waves, max, seed) = match cases {
        Some(cases) => (cases.min(20), 256 * MIB, crate::support::program::seed()),
        None => (3, 64 * MIB, 7),
    };
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut run = Waves::new(seed, max);
    for wave in 0..waves {
        let most = 10 << rng.random_range(0..=12);
        let most = most.clamp(10, 64 << 10);
        let least = if rng.random() { most } else { 10 };
        run.fill(least..=most);
        run.print(&format!("wave {wave}: {least} to {most} bytes"));
        let (share, in_order) = (f64::from(rng.random_range(0..=95)) / 100.0, rng.random());
        run.delete(share, in_order);
        let how = if in_order { "in order" } else { "at random" };
        let (needed, resident, after) = run.settle();
        run.print(&format!("  {:.0} % deleted {how}", share * 100.0));
        println!(
            "  {:.1} MiB resident after {:.1} s, a fresh server has {:.1}: {:.2}",
            resident as f64 / MIB as f64,
            after.as_secs_f64(),
            needed as f64 / MIB as f64,
            resident as f64 / needed as f64
        );
        if !just_looks() {
            assert!(resident <= enough(needed), "{resident} bytes resident, {needed} are needed");
        }
    }
}

/// Sizes one after the other of which none can use the room that the one before left.
fn flush_between_waves(options: &[&str]) {
    let mut waves = Waves::with(3, 64 * MIB, options);
    let empty = anonymous_bytes(&waves.program);
    for bytes in
        [10..=100, 1_000..=2_000, 30_000..=60_000, 70_000..=200_000, 10..=200_000, 300..=300]
    {
        waves.fill(bytes.clone());
        waves.print(&format!("{bytes:?} bytes"));
        waves.flush_all();
    }
    let mut resident = u64::MAX;
    within(limit(), || {
        resident = anonymous_bytes(&waves.program);
        (resident <= EMPTIED_BYTES).then_some(())
    });
    println!("{} KiB at first, {} once all is gone", empty >> 10, resident >> 10);
    assert!(just_looks() || resident <= EMPTIED_BYTES, "{empty}, then {resident} bytes");
}

#[test]
fn what_a_flush_leaves_is_not_added_to_the_next_wave() {
    flush_between_waves(&["--appendonly", "no"]);
}

#[test]
fn what_a_flush_leaves_is_not_added_to_the_next_wave_with_a_journal() {
    flush_between_waves(&["--appendonly", "yes", "--appendfsync", "no"]);
}

fn churn_at_the_limit(options: &[&str]) {
    let mut waves = Waves::with(4, 64 * MIB, options);
    waves.churn(512 * MIB);
    waves.print("bodies up to a MiB come and go");
}

#[test]
fn jobs_of_any_size_that_come_and_go_at_the_limit_stay_below_it() {
    churn_at_the_limit(&["--appendonly", "no"]);
}

#[test]
fn jobs_of_any_size_that_come_and_go_at_the_limit_stay_below_it_with_a_journal() {
    churn_at_the_limit(&["--appendonly", "yes", "--appendfsync", "no"]);
}
