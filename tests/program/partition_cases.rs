//! Several partitions in a process, and one of them is damaged, fails, is emptied, or is asked for what another one has.

use crate::program::partitions::{FOUR, connect, partition, queues, start};
use crate::support::disk::{Shim, SmallDisk};
use crate::support::http::{free_port, free_ports, get};
use crate::support::patience::until;
use crate::support::program::{Folder, Program, Reply, Wire};
use delayd::limits::SHUTDOWN_MS_MAX;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

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

/// A process with jobs in all partitions, a connection that has asked one of them for 30 replies of a MiB and read nothing, and
/// how many of them the system has taken.
fn with_unread_replies(folder: &Folder) -> (Program, Wire, u64) {
    let (program, mut wires) = start(folder, &[]);
    add_to_all(&mut wires);
    let (queue, body) = (queues()[1].clone(), vec![b'x'; 1 << 20]);
    wires[1].call(&[b"DELAY.ADD", queue.as_bytes(), b"1h", &body, b"ID", b"large"]);
    let mut unread = connect(&program).remove(1);
    (0..30).for_each(|_| unread.push_line(&format!("DELAY.GET {queue} large")));
    unread.flush().unwrap();
    let is_held = |line: &str| line.contains("=delay.get") && !line.contains(" omem=0 ");
    until("its replies wait", || {
        wires[1].ask("CLIENT LIST").text().lines().any(is_held).then_some(())
    });
    let sent = wires[1].number("total_net_output_bytes") >> 20;
    (program, unread, sent)
}

/// Until all but that one have stopped.
fn three_stop(program: &Program) {
    let stopped = || program.log().matches(": stopped").count();
    until("those that have nothing to do stop", || (stopped() >= 3).then_some(()));
}

/// One signal reaches the loop of every partition, and each asks the others: all that is one time.
#[test]
fn a_signal_lets_replies_be_read_to_their_end() {
    let folder = Folder::new("partitions");
    let (program, mut unread, sent) = with_unread_replies(&folder);
    program.terminate();
    three_stop(&program);
    // Those that the server still held, too. What it had not read when the signal came is no command any more.
    let read: Vec<Reply> = std::iter::from_fn(|| unread.read().ok()).collect();
    assert!(!read.iter().any(Reply::is_failed));
    assert!(read.len() as u64 > sent, "{} replies, {sent} before the signal", read.len());
    assert!(program.ended().0.success());
}

/// After the first signal replies are seen out for some seconds; the second waits for nobody.
#[test]
fn a_second_signal_stops_all_at_once() {
    let limit = Duration::from_millis(SHUTDOWN_MS_MAX);
    // On a busy machine the other partitions alone may take as long.
    let is_hurried = |_| {
        let folder = Folder::new("partitions");
        let (program, _unread, _) = with_unread_replies(&folder);
        let begun = Instant::now();
        program.terminate();
        three_stop(&program);
        program.terminate();
        program.ended();
        let took = begun.elapsed();
        let (program, mut wires) = start(&folder, &[]);
        assert_eq!(jobs(&mut wires), [1; 4]);
        program.stop();
        took < limit
    };
    assert!((0..5).any(is_hurried), "the second signal is not heeded");
}

#[test]
fn ten_thousand_queues_of_one_slot_are_waited_for() {
    let folder = Folder::new("partitions");
    let (program, mut wires) = start(&folder, &["--appendonly", "no"]);
    let mut names: Vec<String> = (0..10_000).map(|n| format!("{{{}}}{n}", queues()[2])).collect();
    let words = |names: &[String]| -> Vec<Vec<u8>> {
        let words = ["DELAY.RESERVE", "0", "10000"].map(str::to_owned);
        words.iter().chain(names).map(|word| word.clone().into_bytes()).collect()
    };
    let reserve = |wire: &mut Wire, names: &[String]| {
        let words = words(names);
        wire.push(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
        wire.flush().unwrap();
    };
    reserve(&mut wires[1], &names);
    assert!(wires[1].read().unwrap().is_error("MOVED"));
    reserve(&mut wires[2], &names);
    wires[3] = connect(&program).remove(2);
    wires[3].wait_for("blocked_clients", |count| count == "1");
    assert!(!wires[3].ask(&format!("DELAY.ADD {} 0 x", names[9_999])).is_failed());
    let jobs = wires[2].read().unwrap();
    assert_eq!(jobs.array().unwrap()[0].array().unwrap()[0].text(), names[9_999]);
    names[9_999] = "another".to_owned();
    reserve(&mut wires[2], &names);
    assert!(wires[2].read().unwrap().is_error("CROSSSLOT"));
    program.stop();
}

#[test]
fn a_job_is_acknowledged_where_its_queue_is() {
    let folder = Folder::new("partitions");
    let (program, mut wires) = start(&folder, &["--appendonly", "no"]);
    let queue = queues()[1].clone();
    wires[1].ask(&format!("DELAY.ADD {queue} 0 x ID a"));
    let taken = wires[1].ask(&format!("DELAY.LEASE {queue} NOWAIT"));
    let token = taken.array().unwrap()[0].array().unwrap()[3].text().to_owned();
    let ack = format!("DELAY.ACK {queue} a {token}");
    for at in [0, 2, 3] {
        assert!(wires[at].ask(&ack).is_error("MOVED"));
    }
    assert_eq!(wires[1].ask(&ack).number(), 1);
    program.stop();
}

/// Each keeps a reserve, so that what it has is still given out.
#[test]
fn a_full_disk_is_refused_by_each_until_there_is_room() {
    let Some(disk) = SmallDisk::mount(64 << 20) else {
        println!("SKIPPED: nothing can be mounted here");
        return;
    };
    let program = disk.start(&[&FOUR[..], &["--journal-segment-size", "4mb"]].concat());
    let mut wires = connect(&program);
    let (queues, body) = (queues(), "x".repeat(50_000));
    for (wire, queue) in wires.iter_mut().zip(&queues) {
        assert!(!wire.ask(&format!("DELAY.ADD {queue} 0 x")).is_failed());
    }
    disk.fill();
    let add = |wire: &mut Wire, queue| wire.ask(&format!("DELAY.ADD {queue} 1h {body}"));
    for (wire, queue) in wires.iter_mut().zip(&queues) {
        until("there is no room", || add(wire, queue).is_error("MISCONF").then_some(()));
        let job = wire.ask(&format!("DELAY.LEASE {queue} NOWAIT"));
        assert!(job.array().is_some_and(|jobs| jobs.len() == 1), "{job:?}");
    }
    disk.free();
    for (wire, queue) in wires.iter_mut().zip(&queues) {
        until("there is room again", || (!add(wire, queue).is_failed()).then_some(()));
    }
    program.stop();
}

/// What is set while one of them still reads its journal holds there, too, once it has.
#[test]
fn options_that_are_set_while_a_partition_loads_hold_there_once_it_has() {
    let (folder, first) = (Folder::new("partitions"), free_ports(4).to_string());
    let (program, mut wires) = start(&folder, &["--appendfsync", "no", "--port", &first]);
    let (add, count) = (format!("DELAY.ADD {} 1h x", queues()[1]), 100_000);
    (0..count).for_each(|_| wires[1].push_line(&add));
    wires[1].flush().unwrap();
    (0..count).for_each(|_| assert!(!wires[1].read().unwrap().is_failed()));
    let places = wires[0].partitions();
    program.kill();
    let program = Program::start(&folder.0, &[&FOUR[..], &["--port", &first]].concat());
    let mut wires: Vec<Wire> = places.into_iter().map(|at| Wire::connect(at).unwrap()).collect();
    assert_eq!(wires[0].ask("CONFIG SET default-lease 5s").text(), "OK");
    println!("loading: {}", wires[1].field("loading"));
    assert_eq!(wires[2].ask("ACL SETUSER ann on >secret ~* +@all").text(), "OK");
    wires[1].wait_for("loading", |loading| loading == "0");
    let lease = |wire: &mut Wire| {
        wire.ask("CONFIG GET default-lease").array().unwrap()[1].text().to_owned()
    };
    until("the option is there", || (lease(&mut wires[1]) == "5s").then_some(()));
    until("the user is there", || (!wires[1].ask("AUTH ann secret").is_failed()).then_some(()));
    assert_eq!(wires[1].ask("DBSIZE").number(), 1);
    program.stop();
}

/// Between the old rights and the new ones there are never none.
#[test]
fn a_user_whose_rights_change_may_log_in_all_the_time() {
    let folder = Folder::new("partitions");
    let (program, mut wires) = start(&folder, &["--appendonly", "no"]);
    assert_eq!(wires[0].ask("ACL SETUSER ann on >secret ~* +@all").text(), "OK");
    for wire in &mut wires[1..] {
        until("ann is known", || (!wire.ask("AUTH ann secret").is_failed()).then_some(()));
    }
    for round in 0..300 {
        let change = if round % 2 == 0 { "-delay.add ~mail:*" } else { "+delay.add ~*" };
        wires[0].push_line(&format!("ACL SETUSER ann resetkeys {change}"));
        wires[0].flush().unwrap();
        for wire in &mut wires[1..] {
            assert_eq!(wire.ask("AUTH ann secret").text(), "OK");
        }
        assert_eq!(wires[0].read().unwrap().text(), "OK");
    }
    program.stop();
}

/// An announced port is the first one's; the others follow it, as they do here.
#[test]
fn announced_names_and_ports_are_in_all_that_clients_are_told() {
    let (folder, first) = (Folder::new("partitions"), free_ports(4));
    let program = Program::start(
        &folder.0,
        &[
            &FOUR[..],
            &["--appendonly", "no", "--port", &first.to_string()],
            &["--cluster-announce-ip", "queue.example.com", "--cluster-announce-port", "7000"],
        ]
        .concat(),
    );
    let mut wires: Vec<Wire> =
        (0..4).map(|at| Wire::connect(([127, 0, 0, 1], first + at).into()).unwrap()).collect();
    for (at, queue) in queues().iter().enumerate().skip(1) {
        let moved = wires[0].ask(&format!("DELAY.LEN {queue}"));
        assert!(moved.text().ends_with(&format!(" queue.example.com:{}", 7_000 + at)), "{moved:?}");
    }
    for wire in &mut wires {
        let nodes = wire.ask("CLUSTER NODES").text().to_owned();
        let (slots, shards) = (wire.ask("CLUSTER SLOTS"), wire.ask("CLUSTER SHARDS"));
        let is_named = |port: u16| nodes.contains(&format!("queue.example.com:{port}@"));
        assert!((7_000..7_004).all(is_named), "{nodes}");
        for reply in [format!("{slots:?}"), format!("{shards:?}")] {
            let name = format!("{:?}", "queue.example.com".as_bytes());
            assert!(reply.matches(&name).count() >= 4, "{reply}");
            assert!((7_000..7_004).all(|port| reply.contains(&format!("Number({port})"))));
        }
    }
    program.stop();
}

/// Every partition goes by the machine's clock: ahead, jobs are due; back, no time is lived through twice.
#[test]
fn a_clock_that_is_set_is_the_same_to_all() {
    let Some(shim) = Shim::build() else { return };
    let folder = Folder::new("partitions");
    let program = shim.start(&folder.0, &[&FOUR[..], &["--max-clock-jump", "0"]].concat());
    let mut wires = connect(&program);
    add_to_all(&mut wires);
    shim.set_to("clock", 2 * 3_600);
    for (wire, queue) in wires.iter_mut().zip(queues()) {
        let job = wire.ask(&format!("DELAY.LEASE {queue} 20"));
        assert!(job.array().is_some_and(|jobs| jobs.len() == 1), "{job:?}");
    }
    shim.set_to("clock", -2 * 3_600);
    for (wire, queue) in wires.iter_mut().zip(queues()) {
        assert!(!wire.ask(&format!("DELAY.ADD {queue} 0 x")).is_failed());
        let job = wire.ask(&format!("DELAY.LEASE {queue} 20"));
        assert!(job.array().is_some_and(|jobs| jobs.len() == 1), "{job:?}");
    }
    program.stop();
}

#[test]
fn bases_of_all_are_written_at_once() {
    let folder = Folder::new("partitions");
    let (program, mut wires) = start(&folder, &[]);
    add_to_all(&mut wires);
    for wire in &mut wires {
        assert!(!wire.ask("BGSAVE").is_failed());
    }
    for wire in &mut wires {
        wire.wait_for("rdb_bgsave_in_progress", |running| running == "0");
        assert_eq!(wire.field("rdb_last_bgsave_status"), "ok");
    }
    program.kill();
    for at in 0..4 {
        let mut files = fs::read_dir(folder.0.join(format!("{at:02}/journal"))).unwrap();
        assert!(files.any(|file| {
            file.unwrap().file_name().to_str().is_some_and(|name| name.ends_with(".base"))
        }));
    }
    let (program, mut wires) = start(&folder, &[]);
    assert_eq!(jobs(&mut wires), [1; 4]);
    program.stop();
}
