//! `delayd spread`: what the partitions have is what the journal had, and a start finds the one or the others.

use crate::support::program::{Folder, Program, Wire, seed};
use delayd::hash_slot::{hash_slot, partition_of};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::fs::rename;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const COUNT: u16 = 4;

fn tool(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_delayd")).args(words).output().unwrap()
}

fn spread(dir: &Path) -> (bool, String) {
    let done = tool(&["spread", dir.to_str().unwrap(), "--into", "4", "--yes"]);
    let text = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8(text).unwrap())
}

/// The images of a journal's base, without those of policies, which partitions may share, and of the whole.
fn images(dir: &Path) -> Vec<String> {
    let dumped = tool(&["dump", dir.to_str().unwrap(), "--base"]);
    assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
    let text = String::from_utf8(dumped.stdout).unwrap();
    let images = text.lines().filter_map(|line| Some(line.split_once(r#","image":""#)?.1));
    let is_of_queue = |image: &&str| {
        ["queue\"", "job\"", "schedule\"", "pace\""].iter().any(|kind| image.starts_with(kind))
    };
    images.filter(is_of_queue).map(str::to_owned).collect()
}

fn partition(queue: &str) -> u16 {
    partition_of(hash_slot(queue.as_bytes()), COUNT)
}

/// Jobs of all states, schedules, groups and settings in 60 queues; a lease that is not over: its queue, id and token.
fn fill(wire: &mut Wire) -> [String; 3] {
    let mut chance = SmallRng::seed_from_u64(seed());
    for n in 0..600 {
        let queue = format!("q{}", chance.random_range(0..60));
        wire.ask(&match chance.random_range(0..10) {
            0 => format!("DELAY.SCHEDULE SET {queue} s{n} body EVERY 1h"),
            1 => format!("DELAY.CONFIG SET {queue} attempts {}", 1 + n % 5),
            2 => format!("DELAY.ADD {queue} 0 b ID {n} GROUP g{} ATTEMPTS {}", n % 3, 1 + n % 4),
            3 => format!("DELAY.RESERVE NOWAIT 1 {queue} LEASE 1h COUNT 2"),
            4 => format!("DELAY.ADD {queue} 0 b ID {n} ATTEMPTS 1 LEASE 1s"),
            _ => format!("DELAY.ADD {queue} {}s body-{n} ID {n}", chance.random_range(300..9_000)),
        });
    }
    wire.ask("DELAY.ADD held 0 b ID held");
    let taken = wire.ask("DELAY.LEASE held 0 LEASE 1h");
    let job = taken.array().unwrap()[0].array().unwrap();
    ["held".to_owned(), "held".to_owned(), job[3].text().to_owned()]
}

fn filled(name: &str) -> (Folder, [String; 3], Vec<String>) {
    let folder = Folder::new(name);
    let program = Program::start(&folder.0, &[]);
    let mut wire = program.connect();
    let lease = fill(&mut wire);
    wire.ask("SAVE");
    program.stop();
    let mut whole = images(&folder.0);
    whole.sort_unstable();
    assert!(whole.len() > 300, "{}", whole.len());
    (folder, lease, whole)
}

fn of_partitions(dir: &Path) -> Vec<String> {
    let mut all: Vec<String> =
        (0..COUNT).flat_map(|partition| images(&dir.join(format!("{partition:02}")))).collect();
    all.sort_unstable();
    all
}

/// A server with the partitions has what the journal had.
fn serves(folder: &Folder, [queue, id, token]: &[String; 3]) {
    let program = Program::start(&folder.0, &["--cluster-partitions", "4"]);
    let place = program.connect().partitions()[usize::from(partition(queue))];
    let mut wire = Wire::connect(place).unwrap();
    crate::support::patience::until("the lease is kept", || {
        let acked = wire.ask(&format!("DELAY.ACK {queue} {id} {token}"));
        (!acked.is_failed()).then(|| assert_eq!(acked.number(), 1))
    });
    program.stop();
}

#[test]
fn the_partitions_have_what_the_journal_had() {
    let (folder, lease, whole) = filled("spread-all");
    let (done, text) = spread(&folder.0);
    assert!(done, "{text}");
    assert_eq!(of_partitions(&folder.0), whole);
    for partition in 0..COUNT {
        assert!(images(&folder.0.join(format!("{partition:02}"))).len() > 20, "all have some");
    }
    let (done, text) = spread(&folder.0);
    assert!(!done && text.contains("it has 4 partitions already"), "{text}");
    // Nor are partitions divided again.
    let done = tool(&["spread", folder.text(), "--into", "8", "--yes"]);
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success() && text.contains("it has 4 partitions already"), "{text}");
    serves(&folder, &lease);
    // Minutes of a queue are shown, wherever those of all queues are.
    let program = Program::start(&folder.0, &["--cluster-partitions", "4"]);
    for (partition, place) in program.connect().partitions().into_iter().enumerate() {
        let mut wire = Wire::connect(place).unwrap();
        crate::support::patience::until("it is loaded", || {
            (wire.field("loading") == "0").then_some(())
        });
        for queue in wire.ask("KEYS *").array().unwrap() {
            let rows = wire.ask(&format!("DELAY.HISTORY {} LAST 1d", queue.text()));
            assert!(!rows.array().unwrap().is_empty(), "{queue:?} of {partition}");
        }
    }
    program.stop();
    // The journal of before is still one.
    rename(folder.0.join("journal.one"), folder.0.join("kept")).unwrap();
    assert!(tool(&["check", folder.0.join("kept").to_str().unwrap()]).status.success());
}

/// Before the number of partitions is written there is the journal, from then on there are the partitions.
#[test]
fn a_crash_leaves_the_journal_or_the_partitions() {
    let (folder, lease, whole) = filled("spread-cut");
    let at = |name: &str| folder.0.join(name);
    std::fs::create_dir_all(at("spread.unfinished/00/journal")).unwrap();
    std::fs::write(at("spread.unfinished/00/journal/base-1.tmp"), "half").unwrap();
    let program = Program::start(&folder.0, &[]);
    assert_eq!(program.connect().ask("DELAY.LEN held leased").number(), 1);
    program.stop();
    let refused = Program::try_start(Program::command(&folder.0, &["--cluster-partitions", "4"]));
    assert!(refused.map(|program| program.log()).expect_err("refused").contains("delayd spread"));
    let (done, text) = spread(&folder.0);
    assert!(done, "{text}");
    // As it was when the number stood there, and one folder, three, or all were in place.
    for placed in [4, 3, 1, 0] {
        rename(at("journal.one"), at("journal")).unwrap();
        std::fs::create_dir(at("spread.unfinished")).unwrap();
        for partition in placed..COUNT {
            let name = format!("{partition:02}");
            rename(at(&name), at("spread.unfinished").join(&name)).unwrap();
        }
        let refused = Program::try_start(Program::command(&folder.0, &[]));
        let log = refused.map(|program| program.log()).expect_err("refused");
        assert!(log.contains("has 4 partitions, but cluster-partitions is 1"), "{log}");
        if placed == 3 {
            let (done, text) = spread(&folder.0);
            assert!(done && text.contains("is complete now"), "{text}");
        } else {
            let four = ["--cluster-partitions", "4"];
            Program::start(&folder.0, &four).stop();
        }
        assert!(!at("journal").exists() && !at("spread.unfinished").exists());
    }
    let mut found = of_partitions(&folder.0);
    found.retain(|line| whole.contains(line));
    assert!(found.len() >= whole.len() - 60, "{} of {}", found.len(), whole.len());
    serves(&folder, &lease);
}

/// Wherever it is killed there is the journal, which a start with one partition serves, or there are all partitions.
#[test]
fn spread_that_is_killed_at_any_moment_leaves_the_journal_or_the_partitions() {
    let (folder, lease, _) = filled("spread-killed");
    let mut chance = SmallRng::seed_from_u64(seed());
    let (mut kills, mut longest_us) = (0, 1_000);
    while !folder.0.join("partitions").exists() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_delayd"));
        let command = command.args(["spread", folder.text(), "--into", "4", "--yes"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(chance.random_range(0..longest_us)));
        child.kill().unwrap();
        let is_whole = child.wait().unwrap().success();
        (kills, longest_us) = (kills + u32::from(!is_whole), longest_us * 3 / 2);
        if !folder.0.join("partitions").exists() {
            let program = Program::start(&folder.0, &[]);
            assert_eq!(program.connect().ask("DELAY.LEN held leased").number(), 1);
            program.stop();
        }
    }
    assert!(kills > 0, "it was never killed");
    serves(&folder, &lease);
}

#[test]
fn what_cannot_be_divided_is_left_alone() {
    let refused = |folder: &Folder, words: &str| {
        let (done, text) = spread(&folder.0);
        assert!(!done && text.contains(words), "{text}");
        assert!(!folder.0.join("partitions").exists() && folder.0.join("journal").exists());
    };
    let folder = Folder::new("spread-not");
    let program = Program::start(&folder.0, &[]);
    let mut wire = program.connect();
    wire.ask("SELECT 3");
    wire.ask("DELAY.ADD q 1h x");
    refused(&folder, "is in use by another delayd");
    program.stop();
    refused(&folder, "there are 1 queues in database 3");
    let window = Folder::new("spread-not");
    let program = Program::start(&window.0, &[]);
    let mut wire = program.connect();
    for line in ["SELECT 5", "DELAY.ADD q 0 b ID x UNIQUE 5h", "DELAY.POP q NOWAIT"] {
        wire.ask(line);
    }
    program.stop();
    refused(&window, "there are 1 queues in database 5");
    let taken = Folder::new("spread-not");
    Program::start(&taken.0, &[]).stop();
    std::fs::create_dir(taken.0.join("02")).unwrap();
    refused(&taken, "/02 is in the way of a partition");
    std::fs::remove_dir(taken.0.join("02")).unwrap();
    assert!(spread(&taken.0).0);
    let (done, text) = spread(&taken.0.join("01"));
    assert!(!done && text.contains("it is one of 4 partitions already"), "{text}");
    let empty = Folder::new("spread-not");
    let (done, text) = spread(&empty.0);
    assert!(!done && text.contains("it has no journal"), "{text}");
}
