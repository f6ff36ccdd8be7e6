//! The room that the real program takes on disk: endless churn beside one job that is a year away.

use crate::support::program::{Folder, Program, Reply, Wire};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// So that what a turn reads, a few hundred jobs here, is a small part of it, as it is of the usual 64.
const SEGMENT: u64 = 4 << 20;
/// Header, one batch, the last batch: a base of next to nothing.
const SMALLEST_BASE: u64 = 8 << 10;
/// The file that names the newest segment.
const NEWEST: u64 = 4096;

/// Bytes of the files, as the file system counts them.
fn disk_bytes(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).unwrap();
    // One that is gone meanwhile takes no room.
    files.filter_map(|file| file.ok()?.metadata().ok()).map(|meta| meta.len()).sum()
}

/// Adds, takes and acknowledges `count` jobs of 1,000 bytes.
fn churn(wire: &mut Wire, queue: &str, count: usize) {
    let body = "x".repeat(1_000);
    let mut left = count;
    while left > 0 {
        let adds = left.min(100);
        (0..adds).for_each(|_| wire.push_line(&format!("DELAY.ADD {queue} 0 {body}")));
        wire.push_line(&format!("DELAY.RESERVE NOWAIT 1 {queue} COUNT 100"));
        wire.flush().unwrap();
        for _ in 0..adds {
            assert!(matches!(wire.read().unwrap(), Reply::Bulk(_)));
        }
        let jobs = wire.read().unwrap();
        let jobs = jobs.array().expect("just added");
        for job in jobs.iter().map(|job| job.array().unwrap()) {
            wire.push(&[b"DELAY.ACK", queue.as_bytes(), job[1].bytes(), job[3].bytes()]);
        }
        wire.flush().unwrap();
        jobs.iter().for_each(|_| assert_eq!(wire.read().unwrap(), Reply::Number(1)));
        left -= jobs.len();
    }
}

/// A base as of now; its size.
fn live_bytes(wire: &mut Wire) -> u64 {
    let saves = wire.field("rdb_saves");
    wire.ask("BGSAVE");
    wire.wait_for("rdb_saves", |now| now != saves);
    wire.number("aof_base_size")
}

/// Churns beside `jobs` jobs of 1,000 bytes that stay, looking at the folder all the time.
fn stays_within_its_bound(policy: &str, jobs: usize, churned: usize) {
    let folder = Folder::new("space");
    let size = SEGMENT.to_string();
    let options = ["--appendfsync", policy, "--journal-segment-size", &size];
    let program = Program::start(&folder.0, &options);
    let mut wire = program.connect();
    // Nothing is there yet, and nothing more than two segments.
    churn(&mut wire, "first", 1);
    let start = disk_bytes(&folder.journal());
    assert!(start <= 2 * SEGMENT + SMALLEST_BASE, "{start} bytes at the start");
    let body = "x".repeat(1_000);
    (0..jobs).for_each(|_| wire.push_line(&format!("DELAY.ADD old 365d {body}")));
    wire.flush().unwrap();
    (0..jobs).for_each(|_| drop(wire.read().unwrap()));
    // The jobs of the churn itself are live too: 100 of each client.
    let live = live_bytes(&mut wire);
    let churning = 2 * 100 * 1_200;
    let bound = (live + churning) * 7 / 2 + 2 * SEGMENT + SMALLEST_BASE;

    let ended = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..2)
        .map(|i| {
            let mut wire = program.connect();
            std::thread::spawn(move || churn(&mut wire, &format!("q{i}"), churned / 2))
        })
        .collect();
    let (journal, until) = (folder.journal(), Arc::clone(&ended));
    let sampler = std::thread::spawn(move || {
        let (mut most, mut samples) = (0, 0);
        while !until.load(Ordering::Acquire) {
            most = most.max(disk_bytes(&journal));
            samples += 1;
        }
        (most, samples)
    });
    let churns: Vec<_> = clients.into_iter().map(std::thread::JoinHandle::join).collect();
    ended.store(true, Ordering::Release);
    let (most, samples) = sampler.join().unwrap();
    assert!(churns.iter().all(Result::is_ok));

    let bases = wire.number("rdb_saves");
    let (log, base) = (wire.number("journal_written_bytes"), base_written(&mut wire));
    println!(
        "{policy}: {jobs} jobs stay ({live} bytes), {samples} looks, {most} bytes at most of \
         {bound}; {log} bytes of log, {bases} bases of {base} bytes"
    );
    assert!(most <= bound, "{most} bytes on disk, {bound} allowed, {live} live");
    assert!(log > 10 * SEGMENT, "{log} bytes of log prove nothing");
    assert!(base < log, "{base} bytes of bases, {log} of log");
    assert_eq!(wire.ask("DELAY.LEN old"), Reply::Number(jobs as i64));
    program.stop();
}

fn base_written(wire: &mut Wire) -> u64 {
    wire.number("journal_base_written_bytes")
}

#[test]
fn one_old_job_pins_nothing() {
    stays_within_its_bound("always", 1, 45_000);
    stays_within_its_bound("everysec", 1, 60_000);
}

#[test]
fn churn_beside_many_jobs_stays_within_its_bound() {
    stays_within_its_bound("everysec", 3_000, 60_000);
    stays_within_its_bound("everysec", 12_000, 60_000);
}

/// Nothing but the jobs' removal tells that the base is too large.
#[test]
fn room_comes_back_when_jobs_are_removed() {
    let folder = Folder::new("removed");
    let size = SEGMENT.to_string();
    let options = ["--appendfsync", "everysec", "--journal-segment-size", &size];
    let program = Program::start(&folder.0, &options);
    let mut wire = program.connect();
    let body = "x".repeat(10_000);
    for _ in 0..1_000 {
        wire.push_line(&format!("DELAY.ADD old 365d {body}"));
    }
    wire.flush().unwrap();
    (0..1_000).for_each(|_| drop(wire.read().unwrap()));
    assert!(live_bytes(&mut wire) > 10_000_000);
    assert_eq!(wire.ask("DEL old"), Reply::Number(1));
    wire.wait_for("journal_disk_bytes", |bytes| {
        bytes.parse::<u64>().unwrap() <= 2 * SEGMENT + SMALLEST_BASE
    });
    assert!(disk_bytes(&folder.journal()) <= 2 * SEGMENT + NEWEST + SMALLEST_BASE);
    program.stop();
}
