//! Clients that write much before they read, read nothing, or hang up behind what they have sent.

use crate::support::in_process::{Client, Running};
use crate::support::patience::{limit, until};
use crate::support::program::{Folder, Program};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

/// ADDs with ids, as arrays.
fn adds(range: std::ops::Range<usize>) -> String {
    let add = |i| {
        let id = format!("job:{i}");
        format!(
            "*6\r\n$9\r\nDELAY.ADD\r\n$1\r\nq\r\n$2\r\n1h\r\n$1\r\nx\r\n$2\r\nID\r\n${}\r\n{id}\r\n",
            id.len()
        )
    };
    range.map(add).collect()
}

/// Writes all of the commands before it reads the first answer.
fn write_then_read(mut stream: TcpStream, count: usize) {
    stream.set_write_timeout(Some(limit())).unwrap();
    stream.set_read_timeout(Some(limit())).unwrap();
    for first in (0..count).step_by(10_000) {
        let commands = adds(first..count.min(first + 10_000));
        stream.write_all(commands.as_bytes()).expect("the server reads on");
    }
    let mut lines = BufReader::new(stream).lines();
    for i in 0..count {
        let id = format!("job:{i}");
        assert_eq!(lines.next().unwrap().unwrap(), format!("${}", id.len()));
        assert_eq!(lines.next().unwrap().unwrap(), id);
    }
}

/// It hung for ever at some 266,000: beyond a MiB of unread replies nothing more was read.
#[test]
fn half_a_million_commands_are_written_before_the_first_reply_is_read() {
    let server = Running::start(&[]);
    let mut other = server.connect();
    write_then_read(server.connect().stream, 500_000);
    assert_eq!(other.info_number("jobs_delayed"), 500_000);
    assert_eq!(other.info_number("client_output_buffer_limit_disconnections"), 0);
    // What it took is given back.
    let start = Instant::now();
    while other.info_number("client_bytes") > 100_000 {
        assert!(start.elapsed() < limit());
    }
}

#[test]
fn replies_of_a_long_pipeline_wait_for_the_journal() {
    let folder = Folder::new("pipelines");
    let program = Program::start(&folder.0, &["--appendfsync", "always"]);
    program.connect();
    write_then_read(TcpStream::connect(program.address).unwrap(), 100_000);
    assert_eq!(program.connect().number("jobs_delayed"), 100_000);
    program.stop();
}

/// One who asks for much and reads nothing is not given it all at once: it might be reading slowly.
#[test]
fn large_replies_wait_until_those_before_them_are_read() {
    let server = Running::start(&[]);
    let (mut lazy, mut other) = (server.connect(), server.connect());
    other.add("q", "1h", &"x".repeat(1 << 20));
    lazy.send("DELAY.PEEK q\r\n".repeat(300));
    lazy.stream.shutdown(Shutdown::Write).unwrap();
    until("some are written", || (other.info_number("client_bytes") >= 1 << 20).then_some(()));
    // In each of these turns there could be more.
    let most = (0..500).map(|_| other.info_number("client_bytes")).max().unwrap();
    assert!((1 << 20..8 << 20).contains(&most), "{most}");
    (0..300).for_each(|_| assert_eq!(lazy.skip_reply(), "*1"));
    lazy.expect_end();
}

/// Its replies come to more than clients may hold: it is closed and the log says why. What it was handed
/// and never read goes back, its BOUND leases end, and nobody else notices.
#[test]
fn who_never_reads_is_closed_at_the_limit_and_its_jobs_go_back() {
    let folder = Folder::new("pipelines");
    let options = ["--appendonly", "no", "--max-clients-memory", "16mb"];
    let program = Program::start(&folder.0, &options);
    let mut other = program.connect();
    let (count, body) = (20_000, "x".repeat(2_000));
    for i in 0..count {
        other.push_line(&format!("DELAY.ADD q 0 {body} ID {i}"));
        if i % 100 == 99 {
            other.flush().unwrap();
            (0..100).for_each(|_| drop(other.read().unwrap()));
        }
    }
    (0..50).for_each(|_| drop(other.ask("DELAY.ADD bound 0 x")));
    let mut lazy = program.connect();
    assert_eq!(lazy.ask("DELAY.RESERVE NOWAIT 1 bound COUNT 50 BOUND").array().unwrap().len(), 50);
    // Half of it waits in the kernel's buffers at most.
    (0..count).for_each(|_| lazy.push_line("DELAY.POP q NOWAIT"));
    // It may be closed before all is written.
    let _ = lazy.flush();
    other.wait_for("connected_clients", |count| count == "1");
    until("the log says why", || {
        program.log().contains("clients use more than max-clients-memory").then_some(())
    });
    other.wait_for("jobs_leased", |count| count == "0");
    other.wait_for("client_bytes", |bytes| bytes.parse::<u64>().unwrap() < 100_000);
    // Some thousands had begun to leave; those in hand are there again, the first of them first.
    other.wait_for("jobs_ready", |ready| ready.parse::<u64>().unwrap() > 4_000);
    let reply = other.ask("DELAY.PEEK q READY COUNT 10000");
    let ids: Vec<u64> =
        reply.array().unwrap().iter().map(|job| job.array().unwrap()[0].number() as u64).collect();
    assert!(ids.windows(2).all(|pair| pair[0] + 1 == pair[1]), "in order and without a gap");
    program.stop();
}

#[test]
fn one_that_hangs_up_its_writing_end_gets_all_replies() {
    let server = Running::start(&[]);
    let mut client = server.connect();
    let echo = format!("ECHO {}\r\n", "x".repeat(1_000));
    let reply = format!("$1000\r\n{}\r\n", "x".repeat(1_000));
    for _ in 0..100 {
        client.send(echo.repeat(100));
    }
    client.stream.shutdown(Shutdown::Write).unwrap();
    for _ in 0..100 {
        client.expect(&reply.repeat(100));
    }
    client.expect_end();
}

/// Waits with so many bytes behind its command, and is gone.
fn wait_and_hang_up(server: &Running, command: &str, behind: usize) {
    let mut other = server.connect();
    let mut gone = server.connect();
    other.add("bound", "0", "held");
    gone.send("DELAY.RESERVE NOWAIT 1 bound BOUND LEASE 1h\r\n");
    assert_eq!(gone.skip_reply(), "*1");
    gone.command(&command.split(' ').collect::<Vec<_>>());
    server.wait_for("blocked_clients:1");
    gone.send("PING\r\n".repeat(behind / 6));
    // What was sent arrives before the end does.
    drop(gone);
    server.notices_the_end();
    other.send("DELAY.POP bound NOWAIT\r\n");
    other.expect_job("bound", "held");
    other.add("q", "0", "kept");
    other.send("DELAY.POP q NOWAIT\r\n");
    other.expect_job("q", "kept");
}

/// Nothing was read beyond 64 KiB, and so the end behind it was not seen: POP was handed a job that nobody
/// got.
#[test]
fn a_waiter_that_hangs_up_behind_much_is_noticed() {
    let server = Running::start(&[]);
    let many: String = (0..9_999).map(|i| format!(" queue{i}")).collect();
    let commands = [
        "DELAY.POP q 0".to_owned(),
        "DELAY.RESERVE 0 1 q BOUND".to_owned(),
        "BLPOP q 0".to_owned(),
        "BLMOVE q other LEFT LEFT 0".to_owned(),
        format!("DELAY.RESERVE 0 10000{many} q"),
    ];
    for command in &commands {
        for behind in [0, 70_000, 160_000, 5_000_000] {
            wait_and_hang_up(&server, command, behind);
        }
    }
}

/// The same while CLIENT PAUSE keeps its command back: then it never runs.
#[test]
fn a_paused_client_that_hangs_up_behind_much_is_noticed() {
    let server = Running::start(&[]);
    let (mut admin, mut gone) = (server.connect(), server.connect());
    assert_eq!(admin.line_of("CLIENT PAUSE 60000 WRITE"), "+OK");
    gone.send("DELAY.ADD q 1h x\r\n".repeat(30_000));
    server.wait_for("blocked_clients:1");
    drop(gone);
    server.wait_for("connected_clients:2");
    assert_eq!(admin.line_of("CLIENT UNPAUSE"), "+OK");
    assert_eq!(admin.info_number("jobs_delayed"), 0);
}

/// What came while a client waited runs behind its answer, all of it, in order.
#[test]
fn megabytes_behind_a_waiting_command_run_after_it() {
    let server = Running::start(&[]);
    let (mut waiter, mut other) = (server.connect(), server.connect());
    waiter.send("DELAY.POP q 0\r\n");
    server.wait_for("blocked_clients:1");
    let large = "y".repeat(3_000_000);
    let mut reader = waiter.stream.try_clone().unwrap();
    let count = 100_000;
    let pieces: String = (0..count).map(|i| format!("ECHO {i}\r\n")).collect();
    waiter.send(pieces);
    waiter.command(&["ECHO", &large]);
    waiter.command(&["ECHO", "end"]);
    let start = Instant::now();
    while other.info_number("client_bytes") < 4_000_000 {
        assert!(start.elapsed() < limit(), "what it sent is read and counted");
    }
    other.add("q", "0", "job");
    waiter.expect_job("q", "job");
    let expected: String =
        (0..count).map(|i| format!("${}\r\n{i}\r\n", i.to_string().len())).collect();
    let mut got = vec![0; expected.len()];
    reader.read_exact(&mut got).unwrap();
    assert!(got == expected.as_bytes());
    assert!(waiter.bulk() == large);
    waiter.expect("$3\r\nend\r\n");
    let start = Instant::now();
    while other.info_number("client_bytes") > 100_000 {
        assert!(start.elapsed() < limit(), "what it took is given back");
    }
}

/// Who waits and sends without end is the one that holds most.
#[test]
fn what_comes_behind_a_waiting_command_is_bounded() {
    let server = Running::start(&[("max-clients-memory", "4mb")]);
    let mut quiet: Client = server.connect();
    quiet.send("DELAY.POP other 0\r\n");
    let mut noisy = server.connect();
    noisy.send("DELAY.POP q 0\r\n");
    server.wait_for("blocked_clients:2");
    let piece = "PING\r\n".repeat(10_000);
    let start = Instant::now();
    while noisy.stream.write_all(piece.as_bytes()).is_ok() {
        assert!(start.elapsed() < limit(), "it is never closed");
    }
    server.wait_for("blocked_clients:1");
    server.connect().add("other", "0", "job");
    quiet.expect_job("other", "job");
}
