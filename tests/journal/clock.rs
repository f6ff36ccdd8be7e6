//! A journal that a server wrote whose wall clock was wrong, and how it is mended.

use crate::journal::upgrade::desk::{Desk, add, name, reserve};
use crate::support::patience::until;
use crate::support::program::{Folder, Program, Reply, wall_ms};
use delayd::engine::Settings;
use delayd::engine::model::request::{Direction, Request, Reserve};
use delayd::ids::{Index, Token};
use delayd::journal::base::{BaseHead, BaseWriter};
use delayd::journal::offline::lower_clock::lower;
use delayd::journal::record::RecordKind;
use delayd::journal::recovery::{Progress, Recovered, recover};
use delayd::journal::{Disk, LogOptions, SegmentEntry};
use delayd::time::Micros;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

const HOUR_MS: u64 = 3_600_000;
const QUEUES: &[&[u8]] = &[b"mail"];

/// Written by a server whose clock was ahead by so much: `far` is due an hour after that, `held` is leased
/// for a minute, `over` was leased and its lease has ended; the queue is paused for ten minutes. When it
/// was written, by the wrong clock, and the newest token.
fn written(folder: &Folder, ahead_ms: u64) -> (u64, Token) {
    let mut desk = Desk::new(&folder.journal());
    desk.now = Micros((wall_ms() + ahead_ms) * 1_000);
    desk.add(add(name(0, b"mail"), b"far", HOUR_MS));
    desk.add(add(name(0, b"calm"), b"far", HOUR_MS));
    desk.add(add(name(0, b"mail"), b"over", 0));
    let short = Some(10);
    desk.served(2, &Request::Reserve(Reserve { lease_ms: short, ..reserve(0, QUEUES) }));
    desk.add(add(name(0, b"mail"), b"held", 0));
    desk.served(2, &Request::Reserve(reserve(0, QUEUES)));
    let (queue, for_ms) = (name(0, b"mail"), Some(600_000));
    desk.ask(1, &Request::Pause { queue, direction: Direction::In, for_ms });
    (desk.now.0 / 1_000, desk.token(b"held"))
}

fn recovered(folder: &Folder) -> Recovered<Disk> {
    let disk = Arc::new(Disk::open(&folder.journal()).unwrap());
    let options = LogOptions { segment_bytes: 64 << 10, ..LogOptions::default() };
    recover(&disk, options, Settings::default(), &Progress::default()).unwrap()
}

/// Its exit code, and what it says.
fn check(folder: &Folder, options: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_delayd"));
    command.arg("check").arg(&folder.0).args(options).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

#[test]
fn a_start_ahead_of_the_wall_clock_says_so_and_timeouts_last_as_long_as_they_say() {
    let folder = Folder::new("clock");
    written(&folder, HOUR_MS);
    let program = Program::start(&folder.0, &[]);
    let mut client = program.connect();
    let ahead_us = client.number("clock_ahead_us");
    assert!((3_500_000_000..3_600_000_000).contains(&ahead_us), "{ahead_us}");
    // The engine's clock runs at half speed meanwhile.
    for command in ["BLPOP none 2", "DELAY.POP none 2", "DELAY.RESERVE 2 1 none"] {
        // By that clock it would be four seconds each time, however busy the machine is.
        until(command, || {
            let start = Instant::now();
            assert_eq!(client.ask(command), Reply::Nil, "{command}");
            let took = start.elapsed().as_millis();
            assert!(took >= 2_000, "{command}: {took} ms");
            (took < 4_000).then_some(())
        });
    }
    let log = program.stop();
    assert!(log.contains("the wall clock is behind the journal's last instant"), "{log}");
    assert!(log.contains("ahead_us=35") || log.contains("ahead_us=36"), "{log}");
}

#[test]
fn a_start_far_behind_the_wall_clock_goes_on_at_once_and_says_so() {
    let folder = Folder::new("clock");
    let mut desk = Desk::new(&folder.journal());
    desk.now = Micros((wall_ms() - 2 * HOUR_MS) * 1_000);
    desk.add(add(name(0, b"mail"), b"overdue", HOUR_MS));
    drop(desk);
    let program = Program::start(&folder.0, &[]);
    let mut client = program.connect();
    assert_eq!(client.ask("DELAY.POP mail 0").array().unwrap()[1].text(), "overdue");
    assert!(program.stop().contains("by more than max-clock-jump, and is trusted"));
}

#[test]
fn the_clock_of_a_journal_is_shown_and_lowered() {
    let folder = Folder::new("clock");
    let ten_years_ms = 87_600 * HOUR_MS;
    let (wrote_ms, token) = written(&folder, ten_years_ms);
    let (code, text) = check(&folder, &["--clock"]);
    assert!(
        code == 0 && text.contains("the journal is ") && text.contains(" ahead: a server"),
        "{text}"
    );
    // Nobody has agreed.
    let (code, text) = check(&folder, &["--lower-clock"]);
    assert!(
        code == 0
            && text.contains("set the clock? There is no terminal to ask on: confirm with --yes"),
        "{text}"
    );
    assert_eq!(recovered(&folder).now.0 / 1_000, wrote_ms);
    let (code, text) = check(&folder, &["--lower-clock", "--yes"]);
    assert!(code == 0 && text.contains("the clock is set from "), "{text}");
    assert!(text.contains(" behind, as after a downtime"), "{text}");
    let (code, text) = check(&folder, &["--lower-clock", "--yes"]);
    assert!(code == 0 && text.contains("it is not ahead; nothing was changed"), "{text}");

    let program = Program::start(&folder.0, &[]);
    let mut client = program.connect();
    assert_eq!(client.number("clock_ahead_us"), 0);
    let map = |client: &mut crate::support::program::Wire, id: &str, field: &str| {
        let all = client.ask(&format!("DELAY.GET mail {id}"));
        let all = all.array().unwrap().to_vec();
        let at = all
            .iter()
            .position(|item| matches!(item, Reply::Bulk(bytes) if bytes == field.as_bytes()));
        all[at.unwrap_or_else(|| panic!("no {field} of {id}: {all:?}")) + 1].clone()
    };
    // Due times stay; leases and pauses have as much left as they had.
    assert_eq!(map(&mut client, "far", "due").number() as u64, wrote_ms + HOUR_MS);
    let lease_end = map(&mut client, "held", "lease-end").number() as u64;
    assert!((wall_ms()..wall_ms() + 60_000).contains(&lease_end), "{lease_end}");
    assert!(client.ask("DELAY.ADD mail 0 x").is_error("PAUSED"));
    client.ask("DELAY.RESUME mail");
    // A job of a queue that has only far ones, counted from the wrong clock, comes at its time.
    client.ask("DELAY.ADD calm 100ms soon ID soon");
    let calm = client.ask("DELAY.POP calm 60");
    assert_eq!(calm.array().expect("a job")[1].text(), "soon");
    // So does one of a queue with leases.
    let start = Instant::now();
    client.ask("DELAY.ADD mail 300ms soon ID soon");
    client.wait_for("total_timeouts", |timeouts| timeouts == "1");
    let mut next = || {
        let taken = client.ask("DELAY.RESERVE 60 1 mail");
        let job = taken.array().expect("a job")[0].array().unwrap().to_vec();
        (job[1].text().to_owned(), job[3].text().parse::<u64>().unwrap())
    };
    let (first, second) = (next(), next());
    assert_eq!((&*first.0, &*second.0), ("over", "soon"));
    // By the wrong clock it would be an hour and more.
    assert!(start.elapsed().as_millis() >= 300, "{:?}", start.elapsed());
    // Above every token of the second that may have been lost, too.
    assert!(first.1 > token.0.max((wrote_ms + 1_000) << 20) && second.1 > first.1);
    // Not while a server runs.
    let (code, text) = check(&folder, &["--lower-clock", "--yes"]);
    assert!(code == 3 && text.contains("in use by another delayd"), "{text}");
    program.stop();
    let last_ms = recovered(&folder).now.0 / 1_000;
    assert!(last_ms <= wall_ms(), "the wrong instant has come back");
    let mut count = 0;
    let Recovered { engine, .. } = recovered(&folder);
    count += engine.job_counts().iter().sum::<u64>();
    assert_eq!(count, 5);
}

#[test]
fn a_crash_while_the_clock_is_lowered_leaves_it_as_it_was() {
    let folder = Folder::new("clock");
    let (wrote_ms, _) = written(&folder, HOUR_MS);
    let digest = recovered(&folder).engine.digest();
    let Recovered { mut log, index, first, now, .. } = recovered(&folder);
    let to = Micros(now.0 - HOUR_MS * 1_000);
    // Before the base has its name there is a batch with the lower instant, and part of a base.
    let entry = SegmentEntry {
        kind: RecordKind::Facts,
        index: index.next(),
        epoch: 1,
        node: 0,
        first,
        now: to,
        count: 0,
        body: b"",
    };
    log.append(&[entry]).unwrap();
    log.sync().unwrap();
    drop(log);
    let disk = Arc::new(Disk::open(&folder.journal()).unwrap());
    let head = BaseHead { index: index.next(), first, now: to, epoch: 1, shard: 0 };
    drop(BaseWriter::begin(&disk, head).unwrap());
    let then = recovered(&folder);
    assert_eq!((then.now.0 / 1_000, then.engine.digest()), (wrote_ms, digest));
    assert_eq!(then.index, index.next());
    drop(then);
    // And again, to its end; a third time there is nothing to do.
    assert_eq!(lower(&disk, to).unwrap(), now);
    assert_eq!(lower(&disk, to).unwrap(), to);
    let Recovered { index: last, now: lowered, base_index, .. } = recovered(&folder);
    assert_eq!((last, base_index, lowered), (Index(index.0 + 2), Index(index.0 + 2), to));
}
