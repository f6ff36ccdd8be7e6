//! Several partitions in a process, and one of them is damaged, fails, is emptied, or is asked for what another one has.

use crate::program::partitions::{FOUR, connect, partition, queues, start};
use crate::support::http::{free_port, get};
use crate::support::patience::until;
use crate::support::program::{Folder, Program, Wire};
use std::fs;
use std::process::Command;

/// A job in a queue of each partition.
fn add_to_all(wires: &mut [Wire]) {
    for (wire, queue) in wires.iter_mut().zip(queues()) {
        assert!(!wire.ask(&format!("DELAY.ADD {queue} 1h x")).is_failed());
    }
}

fn jobs(wires: &mut [Wire]) -> Vec<i64> {
    wires.iter_mut().map(|wire| wire.ask("DBSIZE").number()).collect()
}

#[test]
fn a_damaged_journal_of_one_is_found_by_a_check_of_all_and_nothing_is_served() {
    let folder = Folder::new("partitions");
    let (program, mut wires) = start(&folder, &[]);
    // Two batches, so that the damage is not at the end, where a torn one may be.
    (0..2).for_each(|_| add_to_all(&mut wires));
    program.stop();
    let check = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_delayd"));
        let output = command.arg("check").arg(&folder.0).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = check();
    assert!(code == Some(0) && text.ends_with("\nall 4 partitions are in order\n"), "{text}");
    let queue = queues()[2].clone();
    let mut files = fs::read_dir(folder.0.join("02/journal")).unwrap();
    let (path, mut bytes, at) = files
        .find_map(|file| {
            let path = file.unwrap().path();
            let bytes = fs::read(&path).unwrap();
            let at = bytes.windows(queue.len()).position(|bytes| bytes == queue.as_bytes())?;
            Some((path, bytes, at))
        })
        .expect("the queue's name is in a segment");
    bytes[at] ^= 0xff;
    fs::write(path, bytes).unwrap();
    let (code, text) = check();
    assert!(code == Some(2) && text.ends_with("\nnot in order: 1 of 4 partitions: 02\n"), "{text}");
    let (status, log) = Program::start(&folder.0, &FOUR).ended();
    assert!(
        !status.success() && log.contains("partition 2, ") && log.contains("damaged at offset"),
        "{log}"
    );
}

#[test]
fn one_whose_disk_fails_refuses_alone() {
    let (folder, port) = (Folder::new("partitions"), free_port());
    let (program, mut wires) = start(&folder, &["--metrics-port", &port.to_string()]);
    add_to_all(&mut wires);
    assert_eq!(get(port, "/readyz").status, 200);
    fs::rename(folder.0.join("01/journal"), folder.0.join("01/gone")).unwrap();
    let queues = queues();
    let mut add = |at: usize| wires[at].ask(&format!("DELAY.ADD {} 1h x", queues[at]));
    until("partition 1 refuses", || add(1).is_error("MISCONF").then_some(()));
    for at in [0, 2, 3] {
        assert!(!add(at).is_failed(), "partition {at} goes on");
    }
    assert!(
        wires[1].ask(&format!("DELAY.LEN {}", queues[1])).number() >= 1,
        "it shows what it has"
    );
    until("the process says so", || (get(port, "/readyz").status == 503).then_some(()));
    program.terminate();
    assert!(!program.ended().0.success(), "what partition 1 could not write is no success");
}

#[test]
fn a_flush_and_a_cursor_are_of_one_partition() {
    let folder = Folder::new("partitions");
    let (program, mut wires) = start(&folder, &["--appendonly", "no"]);
    for name in (0..400).map(|n| format!("q{n}")) {
        let at = partition(&name);
        assert!(!wires[at].ask(&format!("DELAY.ADD {name} 1h x")).is_failed());
    }
    let before = jobs(&mut wires);
    let reply = wires[0].ask("SCAN 0 COUNT 10");
    let cursor = reply.array().unwrap()[0].text().to_owned();
    assert_ne!(cursor, "0");
    // It would pass over names of another one.
    assert!(!wires[0].ask(&format!("SCAN {cursor} COUNT 10")).is_failed());
    assert!(wires[1].ask(&format!("SCAN {cursor} COUNT 10")).is_error("ERR"));
    assert_eq!(wires[3].ask("FLUSHALL").text(), "OK");
    until("it is empty", || (wires[3].ask("DBSIZE").number() == 0).then_some(()));
    assert_eq!(jobs(&mut wires)[..3], before[..3]);
    program.stop();
}

/// The limit is the process's: below what all hold, none of them adds, and each still gives out what it has.
#[test]
fn less_memory_than_is_held_refuses_adding_everywhere() {
    let folder = Folder::new("partitions");
    let (program, mut wires) = start(&folder, &["--appendonly", "no"]);
    let queues = queues();
    let body = "x".repeat(100_000);
    for _ in 0..50 {
        assert!(!wires[1].ask(&format!("DELAY.ADD {} 0 {body}", queues[1])).is_failed());
    }
    for (wire, queue) in wires.iter_mut().zip(&queues) {
        assert!(!wire.ask(&format!("DELAY.ADD {queue} 0 x")).is_failed());
    }
    assert_eq!(wires[0].ask("CONFIG SET maxmemory 4mb").text(), "OK");
    for (wire, queue) in wires.iter_mut().zip(&queues) {
        until("adding is refused", || {
            wire.ask(&format!("DELAY.ADD {queue} 0 {body}")).is_error("OOM").then_some(())
        });
        let job = wire.ask(&format!("DELAY.RESERVE NOWAIT 1 {queue}"));
        assert!(job.array().is_some_and(|jobs| jobs.len() == 1), "{job:?}");
    }
    program.stop();
}

#[test]
fn what_is_published_in_one_partition_is_not_heard_in_another() {
    let folder = Folder::new("partitions");
    let (program, mut wires) = start(&folder, &["--appendonly", "no"]);
    let mut listener = connect(&program).remove(2);
    listener.push_line("SUBSCRIBE news");
    listener.flush().unwrap();
    listener.read().unwrap();
    assert_eq!(wires[0].ask("PUBLISH news x").number(), 0);
    assert_eq!(wires[2].ask("PUBLISH news x").number(), 1);
    program.stop();
}

/// A second signal does not wait for anything.
#[test]
fn a_second_signal_stops_all_at_once() {
    let folder = Folder::new("partitions");
    let (program, mut wires) = start(&folder, &[]);
    add_to_all(&mut wires);
    program.terminate();
    program.terminate();
    program.ended();
    let (program, mut wires) = start(&folder, &[]);
    assert_eq!(jobs(&mut wires), [1; 4]);
    program.stop();
}
