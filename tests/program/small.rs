//! A small machine: little memory, few files. What is kept for comfort keeps no job out, and most files are for clients.

use crate::support::http::free_port;
use crate::support::program::{Folder, Program, Reply, Wire};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

const MIB: u64 = 1 << 20;

/// The program where it may have so many files open, and nothing lets it have more: root might.
fn with_files(files: u32, folder: &Folder, options: &[&str]) -> Program {
    let command = Program::command(&folder.0, options);
    let mut limited = Command::new("sh");
    let drop = "--bounding-set=-sys_resource";
    let run = format!(
        "ulimit -n {files}; if [ $(id -u) = 0 ]; then exec setpriv {drop} \"$@\"; fi; exec \"$@\""
    );
    limited.arg("-c").arg(run).arg("sh").arg(command.get_program()).args(command.get_args());
    Program::start_as(limited)
}

fn maxclients(wire: &mut Wire) -> usize {
    let reply = wire.ask("CONFIG GET maxclients");
    reply.array().unwrap()[1].text().parse().unwrap()
}

fn files_of(program: &Program) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", program.pid())).unwrap().count()
}

/// `CONFIG GET maxclients` said 10000 where 72 got in, and every CONFIG SET was refused for it.
#[test]
fn maxclients_is_what_the_files_allow() {
    for (files, fitting) in [(200, 134), (256, 171)] {
        let folder = Folder::new("small-files");
        let ports = [free_port(), free_port()].map(|port| port.to_string());
        let options = ["--metrics-port", &ports[0], "--console-port", &ports[1]];
        let segments = ["--journal-segment-size", "1mb"];
        let program = with_files(files, &folder, &[&options[..], &segments[..]].concat());
        let mut wire = program.connect();
        assert_eq!(maxclients(&mut wire), fitting);
        assert_eq!(wire.number("maxclients"), fitting as u64);
        assert_eq!(wire.ask("CONFIG SET timeout 0"), Reply::Simple("OK".into()));
        assert_eq!(maxclients(&mut wire), fitting);
        let text = wire.ask("CONFIG SET maxclients 5000").text().to_owned();
        assert!(text.contains(&format!("try with {fitting}")), "{text}");
        let log = program.log();
        let told: Vec<&str> =
            log.lines().filter(|line| line.contains("maxclients lowered")).collect();
        assert!(told.len() == 1 && told[0].contains(&format!("fitting={fitting}")), "{log}");

        // All of them get in beside as many for metrics and the console as like, and the journal has files left.
        let mut clients: Vec<Wire> = (1..fitting).map(|_| program.connect()).collect();
        for client in &mut clients {
            assert_eq!(client.ask("DELAY.LEN q"), Reply::Number(0));
        }
        let watchers: Vec<TcpStream> = (0..100)
            .map(|number| TcpStream::connect(format!("127.0.0.1:{}", ports[number % 2])).unwrap())
            .collect();
        // Each visitor of the console without a cookie has a session of its own, which keeps two files.
        for _ in 0..100 {
            let mut visitor = TcpStream::connect(format!("127.0.0.1:{}", ports[1])).unwrap();
            visitor
                .write_all(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                .unwrap();
            let _ = visitor.read_to_end(&mut Vec::new());
        }
        let mut operator = program.connect();
        assert_eq!(operator.ask("DELAY.LEN q"), Reply::Number(0));
        // Five segments more, each of which keeps a file open until a base takes its place.
        let body = vec![b'x'; 100_000];
        for _ in 0..50 {
            let reply = wire.call(&[b"DELAY.ADD", b"q", b"1h", &body]);
            assert!(matches!(reply, Reply::Bulk(_)), "{reply:?}");
        }
        assert!(files_of(&program) < files as usize - 4, "{} of {files}", files_of(&program));
        assert!(!program.log().contains("accepting connections pauses"), "{}", program.log());
        drop(watchers);
    }
}

/// 64 connections at once beyond `maxclients` took the last files, and nothing got in for a second: no operator either.
#[test]
fn a_burst_of_connections_keeps_no_operator_out() {
    let folder = Folder::new("small-burst");
    let program = with_files(256, &folder, &["--requirepass", "secret"]);
    let mut wire = program.connect();
    assert_eq!(wire.ask("AUTH secret"), Reply::Simple("OK".into()));
    let fitting = maxclients(&mut wire);
    let clients: Vec<Wire> = (1..fitting).map(|_| program.connect()).collect();
    let address = program.address;
    for _ in 0..5 {
        let burst: Vec<TcpStream> =
            (0..300).filter_map(|_| TcpStream::connect(address).ok()).collect();
        // Its first word is AUTH: beyond maxclients nothing else is listened to.
        let mut operator = Wire::connect(address).unwrap();
        assert_eq!(operator.ask("AUTH secret"), Reply::Simple("OK".into()));
        drop(burst);
    }
    assert!(!program.log().contains("accepting connections pauses"), "{}", program.log());
    drop(clients);
}

/// 200,000 queues, each used once. Their totals took most of the memory, and jobs were refused.
#[test]
fn queues_that_hold_nothing_refuse_no_job() {
    const MAX: u64 = 48 * MIB;
    let folder = Folder::new("small-totals");
    let program = Program::start(&folder.0, &["--maxmemory", "48mb", "--appendfsync", "no"]);
    let mut wire = program.connect();
    let names: Vec<String> = (0..200_000).map(|number| format!("used:once:{number}")).collect();
    let work = |wire: &mut Wire, names: &[String]| {
        for name in names {
            wire.push(&[b"DELAY.ADD", name.as_bytes(), b"0", b"body"]);
            wire.push(&[b"DELAY.POP", name.as_bytes(), b"NOWAIT"]);
        }
        wire.flush().unwrap();
        for _ in names {
            assert!(matches!(wire.read().unwrap(), Reply::Bulk(_)));
            assert!(matches!(wire.read().unwrap(), Reply::Array(_)));
        }
    };
    names.chunks(500).for_each(|names| work(&mut wire, names));
    assert!(matches!(wire.ask("DELAY.STATS used:once:199999"), Reply::Array(_)));
    assert_eq!(wire.ask("DELAY.STATS used:once:0"), Reply::Nil);

    // Jobs that need four fifths of maxmemory, with names that go on coming.
    let body = vec![b'x'; 4_000];
    let jobs = MAX * 8 / 10 / (body.len() as u64 + 200);
    let mut names = names.chunks(10).cycle();
    for _ in 0..jobs / 100 {
        for _ in 0..100 {
            wire.push(&[b"DELAY.ADD", b"work", b"1h", &body]);
        }
        wire.flush().unwrap();
        for _ in 0..100 {
            let reply = wire.read().unwrap();
            assert!(matches!(reply, Reply::Bulk(_)), "{reply:?}");
        }
        work(&mut wire, names.next().unwrap());
    }
    let used = wire.number("used_memory");
    assert!(used < MAX + 2 * MIB, "{used}");
    let status = std::fs::read_to_string(format!("/proc/{}/status", program.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak << 10 < MAX * 11 / 10 + 32 * MIB, "{peak} KiB");
    program.stop();

    // The same after a restart.
    let program = Program::start(&folder.0, &["--maxmemory", "48mb"]);
    let mut wire = program.connect();
    assert_eq!(wire.ask("DELAY.LEN work"), Reply::Number((jobs / 100 * 100) as i64));
    program.stop();
}
