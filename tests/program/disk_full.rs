//! The real program on a full disk: a small file system mounted for the test, or, where nothing can
//! be mounted, a shim that lets no file be created.

use crate::support::disk::{Shim, SmallDisk};
use crate::support::patience::{limit, seconds};
use crate::support::program::{Folder, Program, Reply, Wire, wall_ms};
use std::time::Instant;

const OPTIONS: [&str; 2] = ["--journal-segment-size", "1mb"];

/// What can be full.
enum Disk {
    Small(SmallDisk),
    Shim(Shim, Folder),
}

impl Disk {
    fn start(&self) -> Program {
        match self {
            Disk::Small(small) => small.start(&OPTIONS),
            Disk::Shim(shim, folder) => shim.start(&folder.0, &OPTIONS),
        }
    }

    fn fill(&self) {
        match self {
            Disk::Small(small) => small.fill(),
            Disk::Shim(shim, _) => shim.set("full"),
        }
    }

    fn free(&self) {
        match self {
            Disk::Small(small) => small.free(),
            Disk::Shim(shim, _) => shim.clear("full"),
        }
    }
}

/// The disk refused a file, or the journal saw it coming.
fn names_the_disk(trouble: &str) -> bool {
    let causes = ["No space left on device", "is reserved for its next base and segment"];
    causes.iter().any(|cause| trouble.contains(cause))
}

/// Whether a command was refused for lack of room, by the disk or for what is kept of it.
fn is_no_room(reply: &Reply) -> bool {
    let Reply::Error(text) = reply else { return false };
    assert!(
        names_the_disk(text) && text.starts_with("MISCONF the journal has no space: "),
        "{text}"
    );
    true
}

/// Takes jobs and gives them back until there is no room for that either, as nobody's files went.
fn take_until_full(wire: &mut Wire) {
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < limit(), "the log does not fill");
        let reply = wire.ask("DELAY.RESERVE NOWAIT 1 churn COUNT 100 LEASE 1h");
        if is_no_room(&reply) {
            return;
        }
        let jobs: Vec<_> = reply.array().unwrap_or_default().to_vec();
        for job in &jobs {
            let job = job.array().unwrap();
            wire.push(&[b"DELAY.NACK", b"churn", job[1].bytes(), job[3].bytes(), b"UNCOUNTED"]);
        }
        wire.flush().unwrap();
        let replies: Vec<_> = jobs.iter().map(|_| wire.read().unwrap()).collect();
        if replies.iter().any(|reply| *reply != Reply::Number(1) && is_no_room(reply)) {
            return;
        }
    }
}

/// Adds jobs of ever smaller bodies until none fits; their ids.
fn add_until_full(wire: &mut Wire) -> Vec<String> {
    let (mut ids, start) = (Vec::new(), Instant::now());
    for bytes in [50_000, 2_000, 1] {
        let body = "x".repeat(bytes);
        loop {
            assert!(start.elapsed() < limit(), "the disk does not fill");
            match wire.call(&[b"DELAY.ADD", b"q", b"1h", body.as_bytes()]) {
                Reply::Bulk(id) => ids.push(String::from_utf8(id).unwrap()),
                reply => {
                    assert!(is_no_room(&reply), "{reply:?}");
                    break;
                }
            }
        }
    }
    ids
}

fn add_until_room(wire: &mut Wire) -> String {
    let start = Instant::now();
    loop {
        match wire.ask("DELAY.ADD q 1h again") {
            Reply::Bulk(id) => break String::from_utf8(id).unwrap(),
            reply => assert!(reply.is_error("MISCONF"), "{reply:?}"),
        }
        assert!(start.elapsed() < limit(), "it does not go on");
    }
}

fn stat(wire: &mut Wire, name: &str) -> i64 {
    wire.ask("DELAY.STATS q").value(name).number()
}

/// Id and token of each.
fn reserve(wire: &mut Wire, count: usize, lease: &str) -> Vec<(String, String)> {
    let reply = wire.ask(&format!("DELAY.RESERVE NOWAIT 1 q COUNT {count} LEASE {lease}"));
    let jobs = reply.array().expect("there are some").iter().map(|job| {
        let job = job.array().unwrap();
        (job[1].text().to_owned(), job[3].text().to_owned())
    });
    jobs.collect()
}

fn state(wire: &mut Wire, id: &str) -> Option<String> {
    let job = wire.ask(&format!("DELAY.GET q {id}"));
    Some(job.array()?[3].text().to_owned())
}

#[test]
fn a_full_disk_refuses_what_adds_and_goes_on_when_there_is_room() {
    match SmallDisk::mount(12 << 20) {
        Some(small) => refuses_and_goes_on(&Disk::Small(small)),
        None => println!("SKIPPED: no file system can be mounted; the test beside has a shim"),
    }
}

#[test]
fn a_disk_on_which_no_file_can_be_made_is_full() {
    if let Some(shim) = Shim::build() {
        refuses_and_goes_on(&Disk::Shim(shim, Folder::new("full")));
    }
}

fn refuses_and_goes_on(disk: &Disk) {
    let program = disk.start();
    let mut wire = program.connect();
    for i in 0..60 {
        wire.ask(&format!("DELAY.ADD q 0 body ID ready:{i}"));
        wire.ask(&format!("DELAY.ADD churn 0 body ID churn:{i}"));
    }
    let held = reserve(&mut wire, 20, "1h");
    let mut added: Vec<String> = (0..20)
        .map(|i| wire.ask(&format!("DELAY.ADD q 1h body ID later:{i}")).text().into())
        .collect();
    disk.fill();
    added.extend(add_until_full(&mut wire));
    // What takes jobs has more room than what adds, and uses it up here.
    let lease_ms = seconds(8).as_millis() as u64;
    let short = reserve(&mut wire, 1, &format!("{lease_ms}ms")).remove(0);
    let over_ms = wall_ms() + lease_ms + 50;
    take_until_full(&mut wire);
    assert!(wall_ms() < over_ms, "the lease ended before the log was full");
    let total = 60 + added.len() as i64;

    // Nothing was applied of what was refused, and everybody is told what is wrong.
    assert_eq!(stat(&mut wire, "added"), total);
    assert_eq!(wire.ask("DELAY.LEN q"), Reply::Number(total));
    assert_eq!(wire.ask("PING"), Reply::Simple("PONG".to_owned()));
    assert_eq!(wire.field("aof_last_write_status"), "err");
    assert_eq!(wire.field("journal_state"), "full");
    assert!(names_the_disk(&wire.field("journal_trouble")));
    assert!(wire.ask("DELAY.ADD q 1h x").is_error("MISCONF"));

    // What ends jobs goes on.
    for (id, token) in &held {
        assert_eq!(wire.ask(&format!("DELAY.ACK q {id} {token}")), Reply::Number(1));
    }
    for id in &added[..10] {
        assert_eq!(wire.ask(&format!("DELAY.DEL q {id}")), Reply::Number(1));
    }
    // A lease that is over cannot be recorded as such: it goes on.
    while wall_ms() < over_ms {
        assert_eq!(wire.ask("PING"), Reply::Simple("PONG".to_owned()));
    }
    assert_eq!(state(&mut wire, &short.0).as_deref(), Some("leased"));

    disk.free();
    let freed = Instant::now();
    let again = add_until_room(&mut wire);
    println!("goes on {:?} after there was room, {} jobs filled it", freed.elapsed(), added.len());
    wire.wait_for("journal_state", |state| state == "ok");
    assert_eq!(wire.field("aof_last_write_status"), "ok");
    // It got as much time again as nothing could be recorded for.
    assert_eq!(state(&mut wire, &short.0).as_deref(), Some("leased"));
    let job = wire.ask(&format!("DELAY.GET q {}", short.0));
    assert!(
        job.value("lease-end").number() as u64 > over_ms,
        "the lease was not extended: {job:?}"
    );
    assert_eq!(stat(&mut wire, "timeouts"), 0);
    assert_eq!(wire.ask(&format!("DELAY.ACK q {} {}", short.0, short.1)), Reply::Number(1));

    // Killed while it is full, and started again while it is.
    disk.fill();
    let more = add_until_full(&mut wire);
    let deleted = &more[..more.len().min(5)];
    for id in deleted {
        assert_eq!(wire.ask(&format!("DELAY.DEL q {id}")), Reply::Number(1));
    }
    let length = wire.ask("DELAY.LEN q");
    drop(wire);
    program.kill();
    let program = disk.start();
    let mut wire = program.connect();
    assert_eq!(wire.ask("DELAY.LEN q"), length);
    for id in added[10..].iter().chain([&again]).chain(&more[deleted.len()..]) {
        assert_eq!(state(&mut wire, id).as_deref(), Some("delayed"), "{id} is lost");
    }
    let gone = held.iter().map(|(id, _)| id).chain(&added[..10]).chain(deleted).chain([&short.0]);
    for id in gone {
        assert_eq!(state(&mut wire, id), None, "{id} came back");
    }
    for id in &added[10..20] {
        assert_eq!(wire.ask(&format!("DELAY.DEL q {id}")), Reply::Number(1));
    }
    add_until_full(&mut wire);
    disk.free();
    add_until_room(&mut wire);
    program.stop();
}
