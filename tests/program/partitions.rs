//! Several partitions in a process: each queue in its own, one set of limits, options and users, and all or none of them.

use crate::support::http::{free_port, free_ports, get};
use crate::support::patience::until;
use crate::support::program::{Folder, Program, Reply, Wire, seed};
use delayd::hash_slot::{hash_slot, partition_of};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::process::Command;

pub const FOUR: [&str; 2] = ["--cluster-partitions", "4"];

/// A process with four partitions, and a connection to each once it is loaded.
pub fn start(folder: &Folder, options: &[&str]) -> (Program, Vec<Wire>) {
    let program = Program::start(&folder.0, &[&FOUR[..], options].concat());
    let wires = connect(&program);
    (program, wires)
}

pub fn connect(program: &Program) -> Vec<Wire> {
    let places = program.connect().partitions();
    places.into_iter().map(|place| loaded(Wire::connect(place).unwrap())).collect()
}

fn loaded(mut wire: Wire) -> Wire {
    until("it is loaded", || (wire.field("loading") == "0").then_some(()));
    wire
}

pub fn partition(queue: &str) -> usize {
    partition_of(hash_slot(queue.as_bytes()), 4).into()
}

/// A queue of each partition.
pub fn queues() -> [String; 4] {
    [0, 1, 2, 3].map(|wanted| {
        (0..).map(|n| format!("q{n}")).find(|queue| partition(queue) == wanted).unwrap()
    })
}

#[test]
fn each_queue_is_in_one_partition_and_stays_there_over_a_kill() {
    let folder = Folder::new("partitions");
    let (program, mut wires) = start(&folder, &[]);
    let ports = wires[2].partitions();
    assert_eq!((wires.len(), ports[0]), (4, program.address));
    for n in 0..200 {
        let queue = format!("q{n}");
        let own = partition(&queue);
        for (at, wire) in wires.iter_mut().enumerate() {
            let reply = wire.ask(&format!("DELAY.ADD {queue} 1h x ID {n}"));
            if at == own {
                assert_eq!(reply.text(), n.to_string());
            } else {
                let moved = format!("{} {}", hash_slot(queue.as_bytes()), ports[own]);
                assert!(reply == Reply::Error(format!("MOVED {moved}")), "{reply:?}");
            }
        }
    }
    let count =
        |wires: &mut [Wire]| wires.iter_mut().map(|wire| wire.ask("DBSIZE").number()).sum::<i64>();
    assert_eq!(count(&mut wires), 200);
    assert!(wires.iter_mut().all(|wire| wire.ask("DBSIZE").number() > 20), "they share");
    program.kill();
    let (program, mut wires) = start(&folder, &[]);
    assert_eq!(count(&mut wires), 200);
    for n in 0..200 {
        let queue = format!("q{n}");
        assert_eq!(wires[partition(&queue)].ask(&format!("DELAY.LEN {queue}")).number(), 1);
    }
    program.stop();
}

#[test]
fn two_queues_need_a_tag_even_in_one_partition() {
    let folder = Folder::new("partitions");
    let (_program, mut wires) = start(&folder, &["--appendonly", "no"]);
    let names = (0..).map(|n| format!("q{n}")).filter(|queue| partition(queue) == 1);
    let two: Vec<String> = names.take(2).collect();
    let both = format!("DELAY.RESERVE 1 2 {} {}", two[0], two[1]);
    assert!(wires[1].ask(&both).is_error("CROSSSLOT"));
    let tag = &two[0];
    assert!(!wires[1].ask(&format!("DELAY.RESERVE NOWAIT 2 {{{tag}}}a {{{tag}}}b")).is_failed());
    assert!(wires[0].ask("MULTI").text() == "OK");
    assert!(wires[0].ask(&format!("DELAY.LEN {tag}")).is_error("MOVED"));
    assert!(wires[0].ask("EXEC").is_error("EXECABORT"));
    assert!(wires[3].ask("SELECT 1").is_failed());
}

/// What the folder has is said before anything runs.
#[test]
fn a_folder_is_opened_with_as_many_partitions_as_it_has() {
    let folder = Folder::new("partitions");
    let refused = |options: &[&str]| {
        let started = Program::try_start(Program::command(&folder.0, options));
        started.map(|program| program.log()).expect_err("refused")
    };
    let (program, mut wires) = start(&folder, &[]);
    let queues = queues();
    wires.iter_mut().zip(&queues).for_each(|(wire, queue)| {
        wire.ask(&format!("DELAY.ADD {queue} 1h x"));
    });
    program.stop();
    for (count, has) in [
        ("8", "has 4 partitions, but cluster-partitions is 8"),
        ("1", "has 4 partitions, but cluster-partitions is 1"),
    ] {
        let log = refused(&["--cluster-partitions", count]);
        assert!(log.contains(has), "{log}");
    }
    let at = |name: &str| folder.0.join(name);
    std::fs::rename(at("01"), at("gone")).unwrap();
    assert!(refused(&FOUR).contains("/01 has no journal any more"));
    std::fs::rename(at("02"), at("01")).unwrap();
    std::fs::rename(at("gone"), at("02")).unwrap();
    let (status, log) = Program::start(&folder.0, &FOUR).ended();
    assert!(!status.success() && log.contains("it is another partition's"), "{log}");
    std::fs::rename(at("01"), at("gone")).unwrap();
    std::fs::rename(at("02"), at("01")).unwrap();
    std::fs::rename(at("gone"), at("02")).unwrap();
    std::fs::rename(at("partitions"), at("kept")).unwrap();
    assert!(refused(&["--cluster-partitions", "2"]).contains("but not those of 2: see "));
    assert!(refused(&[]).contains("/00/journal has a journal, as with several partitions"));
    let (program, mut wires) = start(&folder, &[]);
    for (wire, queue) in wires.iter_mut().zip(&queues) {
        assert_eq!(wire.ask(&format!("DELAY.LEN {queue}")).number(), 1);
    }
    program.stop();
    let one = Folder::new("partitions");
    Program::start(&one.0, &[]).stop();
    let log = Program::try_start(Program::command(&one.0, &FOUR)).map(|it| it.log());
    assert!(log.expect_err("refused").contains("has the journal of one partition"));
}

/// A port of another program: then no partition has begun anything.
#[test]
fn nothing_starts_without_all_ports() {
    let first = free_ports(4);
    let _taken = std::net::TcpListener::bind(("127.0.0.1", first + 2)).unwrap();
    for then in [&FOUR[..], &[]] {
        let folder = Folder::new("partitions");
        let mut command = Program::command(&folder.0, &FOUR);
        command.args(["--port", &first.to_string()]);
        let log = Program::try_start(command).map(|program| program.log()).expect_err("refused");
        assert!(log.contains(&format!("cannot listen on 127.0.0.1:{}:", first + 2)), "{log}");
        assert!(!folder.0.join("partitions").exists());
        // What it had begun is no hindrance, with as many partitions or with one.
        Program::start(&folder.0, then).stop();
    }
}

#[test]
fn options_and_users_are_the_same_in_all() {
    let folder = Folder::new("partitions");
    let (program, mut wires) = start(&folder, &["--appendonly", "no"]);
    let option = |wire: &mut Wire, name: &str| {
        wire.ask(&format!("CONFIG GET {name}")).array().unwrap()[1].text().to_owned()
    };
    assert_eq!(wires[2].ask("CONFIG SET default-lease 5s max-body-size 2000").text(), "OK");
    for wire in &mut wires {
        until("the option is there", || (option(wire, "default-lease") == "5s").then_some(()));
        assert_eq!(option(wire, "max-body-size"), "2000");
    }
    let body = "x".repeat(2_001);
    let refused = wires[0].ask(&format!("DELAY.ADD {} 0 {body}", queues()[0]));
    assert!(refused.is_failed(), "{refused:?}");

    assert_eq!(wires[1].ask("ACL SETUSER ann on >secret ~* +@all").text(), "OK");
    let mut anns: Vec<Wire> = wires[0]
        .partitions()
        .into_iter()
        .map(|place| {
            let mut ann = Wire::connect(place).unwrap();
            until("ann may log in", || (!ann.ask("AUTH ann secret").is_failed()).then_some(()));
            ann
        })
        .collect();
    assert_eq!(wires[3].ask("ACL SETUSER ann -delay.add").text(), "OK");
    for (ann, queue) in anns.iter_mut().zip(queues()) {
        let denied = |ann: &mut Wire| ann.ask(&format!("DELAY.ADD {queue} 0 x")).is_error("NOPERM");
        until("ann's right is gone", || denied(ann).then_some(()));
    }
    assert_eq!(wires[0].ask("ACL DELUSER ann").number(), 1);
    for ann in &mut anns {
        until("ann's connection is closed", || ann.try_ask("PING").is_err().then_some(()));
    }
    assert_eq!(wires[0].ask("CONFIG SET requirepass hush").text(), "OK");
    for place in wires[0].partitions() {
        let asks = || Wire::connect(place).unwrap().ask("PING").is_error("NOAUTH");
        until("a password is asked for", || asks().then_some(()));
    }
    program.stop();
}

/// Whichever partition's change comes first, all end alike.
#[test]
fn changes_at_two_partitions_at_a_time_end_the_same_everywhere() {
    let folder = Folder::new("partitions");
    let (_program, mut wires) = start(&folder, &["--appendonly", "no"]);
    let mut chance = SmallRng::seed_from_u64(seed());
    for _ in 0..60 {
        for wire in &mut wires {
            let (user, keys) = (chance.random_range(0..4), chance.random_range(0..9));
            match chance.random_range(0..4) {
                0 => wire.push_line(&format!("ACL DELUSER u{user}")),
                1 => wire.push_line(&format!("CONFIG SET timeout {}", 1_000 + keys)),
                _ => wire.push_line(&format!("ACL SETUSER u{user} on nopass ~{keys}* +ping")),
            }
            wire.flush().unwrap();
        }
        for wire in &mut wires {
            wire.read().unwrap();
        }
    }
    let mut state = |wire: &mut Wire| {
        let users = wire.ask("ACL LIST");
        format!("{users:?} {:?}", wire.ask("CONFIG GET timeout"))
    };
    until("all have the same", || {
        let states: Vec<String> = wires.iter_mut().map(&mut state).collect();
        states.iter().all(|other| *other == states[0]).then_some(())
    });
}

/// `maxmemory` is that of the process: what one takes the others lack, for adding and not for taking.
#[test]
fn memory_and_connections_are_those_of_the_process() {
    let folder = Folder::new("partitions");
    let options = ["--appendonly", "no", "--maxmemory", "32mb", "--maxclients", "40"];
    let (program, mut wires) = start(&folder, &options);
    let queues = queues();
    wires[0].ask(&format!("DELAY.ADD {} 0 small", queues[0]));
    let body = "x".repeat(100_000);
    let is_full =
        |wire: &mut Wire| wire.ask(&format!("DELAY.ADD {} 1h {body}", queues[1])).is_error("OOM");
    until("the memory is used up", || is_full(&mut wires[1]).then_some(()));
    let add = format!("DELAY.ADD {} 0 x", queues[0]);
    until("the others lack it", || wires[0].ask(&add).is_error("OOM").then_some(()));
    let popped = wires[0].ask(&format!("DELAY.POP {} NOWAIT", queues[0]));
    assert!(!popped.is_failed(), "{popped:?}");
    let used: Vec<u64> = wires.iter_mut().map(|wire| wire.number("used_memory")).collect();
    assert!(used[1] > 20 << 20 && used[0].max(used[2]).max(used[3]) < 4 << 20, "{used:?}");
    wires[1].ask(&format!("DEL {}", queues[1]));
    until("there is memory again", || (!wires[0].ask(&add).is_failed()).then_some(()));

    // Beyond maxclients each partition keeps eight places for operators, which clients of this machine may be.
    let places = wires[0].partitions();
    let _more: Vec<Wire> = (0..120).map(|n| Wire::connect(places[n % 4]).unwrap()).collect();
    let mut counts = || wires.iter_mut().map(|wire| wire.number("connected_clients")).sum::<u64>();
    until("the connections beyond it are closed", || (40..=72).contains(&counts()).then_some(()));
    program.stop();
}

/// What jobs need once they are leased is kept back in all partitions together.
#[test]
fn leases_of_all_partitions_fit_into_the_memory() {
    let folder = Folder::new("partitions");
    let (program, mut wires) = start(&folder, &["--appendonly", "no", "--maxmemory", "24mb"]);
    let queues = queues();
    let mut counts = [0_usize; 4];
    let mut is_full = [false; 4];
    while is_full.contains(&false) {
        for (at, wire) in wires.iter_mut().enumerate() {
            (0..500).for_each(|_| wire.push_line(&format!("DELAY.ADD {} 0 \"\"", queues[at])));
            wire.flush().unwrap();
        }
        for (at, wire) in wires.iter_mut().enumerate() {
            let replies = (0..500).map(|_| wire.read().unwrap());
            let refused: Vec<Reply> = replies.filter(Reply::is_failed).collect();
            is_full[at] = !refused.is_empty();
            counts[at] += 500 - refused.len();
            if let Some(refused) = refused.first() {
                assert!(refused.text().contains("of 25165824 "), "{refused:?}");
            }
        }
    }
    for ((wire, queue), count) in wires.iter_mut().zip(&queues).zip(counts) {
        let lease = format!("DELAY.LEASE {queue} NOWAIT COUNT 1000");
        let taken = || wire.ask(&lease).array().map_or(0, <[Reply]>::len);
        assert_eq!(std::iter::repeat_with(taken).take_while(|n| *n > 0).sum::<usize>(), count);
    }
    let used = wires[0].number("used_memory_process");
    assert!(used < (24 * 18 / 16) << 20, "{used} bytes");
    program.stop();
}

/// A name beside the file is the same in all partitions.
#[test]
fn users_and_options_are_written_whole_from_all_partitions_at_a_time() {
    let folder = Folder::new("partitions");
    let (users, options) = (folder.0.join("users.acl"), folder.0.join("delayd.conf"));
    let lines: String = (0..50).map(|n| format!("user u{n} on nopass ~* +@all\n")).collect();
    std::fs::write(&users, format!("user default on >secret ~* +@all\n{lines}")).unwrap();
    std::fs::write(&options, "# kept\ncluster-partitions 4\naclfile users.acl\nappendonly no\n")
        .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_delayd"));
    command.arg(&options).args(["--port", "0", "--bind", "127.0.0.1", "--dir", folder.text()]);
    let program = Program::start_as(command);
    let mut first = Wire::connect(program.address).unwrap();
    first.ask("AUTH secret");
    let mut wires: Vec<Wire> =
        first.partitions().into_iter().map(|place| Wire::connect(place).unwrap()).collect();
    wires.iter_mut().for_each(|wire| assert_eq!(wire.ask("AUTH secret").text(), "OK"));
    for line in ["ACL SAVE", "CONFIG REWRITE", "ACL LOAD"] {
        for _ in 0..40 {
            for wire in &mut wires {
                wire.push_line(if line == "ACL LOAD" { "ACL SAVE" } else { line });
                wire.push_line(line);
                wire.flush().unwrap();
            }
            for wire in &mut wires {
                assert_eq!(
                    (wire.read().unwrap().text(), wire.read().unwrap().text()),
                    ("OK", "OK")
                );
            }
        }
    }
    let written = std::fs::read_to_string(&users).unwrap();
    assert_eq!(written.lines().count(), 51, "{written}");
    let written = std::fs::read_to_string(&options).unwrap();
    assert!(written.starts_with("# kept\ncluster-partitions 4\n"), "{written}");
    program.stop();
}

/// With fewer open files a journal could fail for want of one.
#[test]
fn a_limit_of_open_files_that_is_too_low_is_said_at_the_start() {
    let folder = Folder::new("partitions");
    let mut command = Command::new("sh");
    let line = format!(
        "ulimit -n 300; exec {} --port 0 --bind 127.0.0.1 --dir {} --cluster-partitions 16",
        env!("CARGO_BIN_EXE_delayd"),
        folder.text()
    );
    command.args(["-c", &line]);
    let log = Program::try_start(command).map(|program| program.log()).expect_err("refused");
    assert!(log.contains("the limit of open files (ulimit -n, LimitNOFILE) is too low"), "{log}");
    // Few clients are no reason.
    start(&folder, &["--maxclients", "20"]).0.stop();
}

/// A backup of each is a whole one.
#[test]
fn partitions_that_are_restored_one_by_one_are_served_together() {
    let folder = Folder::new("partitions");
    let (program, mut wires) = start(&folder, &[]);
    let queues = queues();
    let tool = |words: &[&str]| {
        let done = Command::new(env!("CARGO_BIN_EXE_delayd")).args(words).output().unwrap();
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        (done.status.success(), text)
    };
    let at = |name: String| folder.0.join(name).to_str().unwrap().to_owned();
    std::fs::create_dir(at("new".to_owned())).unwrap();
    let places = wires[0].partitions();
    for (n, queue) in queues.iter().enumerate() {
        wires[n].ask(&format!("DELAY.ADD {queue} 1h x"));
        let (copy, into) = (at(format!("copy{n}")), at(format!("new/{n:02}")));
        assert_eq!(tool(&["backup", &places[n].to_string(), &copy]), (true, String::new()));
        if n == 3 {
            let three = Folder(at("new".to_owned()).into());
            let command = Program::command(&three.0, &FOUR);
            let log =
                Program::try_start(command).map(|program| program.log()).expect_err("refused");
            assert!(log.contains("but not those of 4: see "), "{log}");
            std::mem::forget(three);
            let (done, text) = tool(&["restore", &copy, folder.text()]);
            assert!(!done && text.contains("it has 4 partitions: name a folder"), "{text}");
            let (done, text) = tool(&["dump", folder.text()]);
            assert!(!done && text.contains("it has 4 partitions: name one"), "{text}");
        }
        assert_eq!(tool(&["restore", &copy, &into]), (true, String::new()));
    }
    program.stop();
    let new = Folder(at("new".to_owned()).into());
    let (program, mut wires) = start(&new, &[]);
    for (wire, queue) in wires.iter_mut().zip(&queues) {
        assert_eq!(wire.ask(&format!("DELAY.LEN {queue}")).number(), 1);
    }
    program.stop();
}

#[test]
fn a_process_is_stopped_at_any_partition() {
    for stop in ["SHUTDOWN", "SHUTDOWN NOW"] {
        let folder = Folder::new("partitions");
        let (program, mut wires) = start(&folder, &[]);
        for (wire, queue) in wires.iter_mut().zip(queues()) {
            wire.ask(&format!("DELAY.ADD {queue} 1h x"));
        }
        assert!(wires[2].try_ask(stop).is_err(), "it has gone");
        let (status, log) = program.ended();
        assert!(status.success(), "{log}");
        let (program, mut wires) = start(&folder, &[]);
        let jobs: i64 = wires.iter_mut().map(|wire| wire.ask("DBSIZE").number()).sum();
        assert_eq!(jobs, 4);
        program.stop();
    }
}

#[test]
fn metrics_and_health_are_those_of_all() {
    let folder = Folder::new("partitions");
    let port = free_port();
    let (program, mut wires) =
        start(&folder, &["--appendonly", "no", "--metrics-port", &port.to_string()]);
    for (wire, queue) in wires.iter_mut().zip(queues()) {
        wire.ask(&format!("DELAY.ADD {queue} 1h x"));
    }
    let text = get(port, "/metrics").body;
    for (partition, queue) in queues().iter().enumerate() {
        let sample = format!(
            "delayd_queue_jobs{{partition=\"{partition}\",db=\"0\",queue=\"{queue}\",state=\"delayed\"}} 1\n"
        );
        assert!(text.contains(&sample), "{sample} is not in\n{text}");
    }
    assert_eq!(text.matches("# TYPE delayd_queue_jobs gauge").count(), 1);
    assert_eq!(text.matches("\ndelayd_memory_resident_bytes ").count(), 1, "of the process");
    for path in ["/healthz", "/readyz", "/leaderz"] {
        assert_eq!(get(port, path).status, 200, "{path}");
    }
    program.stop();
}
