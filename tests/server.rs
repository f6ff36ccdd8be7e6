//! The server as clients see it: raw sockets against a server in this process. Nothing here sleeps
//! to wait; sockets are read with a time limit that only a failure reaches.

mod support;

use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use support::{Client, LIMIT, Running};

fn wall_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()
}

#[test]
fn answers_inline_and_framed_commands() {
    let server = Running::start(&[]);
    let mut client = server.connect();
    client.send("PING\r\n");
    client.expect("+PONG\r\n");
    client.send("\r\nECHO 'a b'\n");
    client.expect("$3\r\na b\r\n");
    client.send("*1\r\n$4\r\nPING\r\n");
    client.expect("+PONG\r\n");
}

#[test]
fn answers_a_pipeline_in_order() {
    let server = Running::start(&[]);
    let mut client = server.connect();
    let count = 20_000;
    let mut reader = client.stream.try_clone().unwrap();
    let reading = std::thread::spawn(move || {
        let mut replies = String::new();
        let expected: String =
            (0..count).map(|i| format!("${}\r\n{i}\r\n", i.to_string().len())).collect();
        let mut piece = [0; 4096];
        while replies.len() < expected.len() {
            let got = reader.read(&mut piece).unwrap();
            assert_ne!(got, 0);
            replies.push_str(std::str::from_utf8(&piece[..got]).unwrap());
        }
        assert!(replies == expected);
    });
    let commands: String = (0..count).map(|i| format!("ECHO {i}\r\n")).collect();
    client.send(commands);
    reading.join().unwrap();
}

#[test]
fn takes_a_command_in_any_pieces() {
    let server = Running::start(&[]);
    let mut client = server.connect();
    let mut other = server.connect();
    for byte in "*2\r\n$4\r\nECHO\r\n$3\r\nabc\r\n".bytes() {
        client.send([byte]);
        // The server has read what came before this is answered.
        other.send("PING\r\n");
        other.expect("+PONG\r\n");
    }
    client.expect("$3\r\nabc\r\n");
}

#[test]
fn broken_framing_closes_after_the_answers_before_it() {
    let server = Running::start(&[]);
    let mut client = server.connect();
    client.send("PING\r\n*1\r\n:5\r\n");
    client.expect("+PONG\r\n-ERR Protocol error: expected '$', got ':'\r\n");
    client.expect_end();
}

#[test]
fn quit_closes_and_what_follows_does_not_run() {
    let server = Running::start(&[]);
    let mut client = server.connect();
    client.send("PING\r\nQUIT\r\nDELAY.ADD q 0 x\r\n");
    client.expect("+PONG\r\n+OK\r\n");
    client.expect_end();
    assert!(server.connect().info().contains("jobs_ready:0"));
}

#[test]
fn the_end_of_the_requests_comes_after_their_answers() {
    let server = Running::start(&[]);
    let mut client = server.connect();
    client.send("PING\r\n".repeat(5_000));
    client.stream.shutdown(Shutdown::Write).unwrap();
    client.expect(&"+PONG\r\n".repeat(5_000));
    client.expect_end();
}

#[test]
fn a_web_browser_gets_no_answer() {
    let server = Running::start(&[]);
    let mut client = server.connect();
    client.send("PING\r\nPOST / HTTP/1.1\r\nHost: x\r\n\r\n");
    client.expect_end();
}

#[test]
fn a_waiting_client_gets_a_job_when_it_is_due_and_never_before() {
    let server = Running::start(&[]);
    let (mut waiter, mut producer) = (server.connect(), server.connect());
    for delay_ms in [1, 7, 50] {
        waiter.command(&["DELAY.POP", "q", "0"]);
        // Due at this ms at the earliest: the clock read by the server is not before ours.
        let due_ms = wall_ms() + delay_ms;
        producer.add("q", &delay_ms.to_string(), "body");
        waiter.expect_job("q", "body");
        assert!(wall_ms() >= due_ms, "early: {delay_ms} ms");
    }
}

#[test]
fn what_a_waiting_client_sends_runs_after_its_answer() {
    let server = Running::start(&[]);
    let (mut waiter, mut producer) = (server.connect(), server.connect());
    waiter.send("DELAY.POP q 0\r\nPING\r\nDELAY.POP q 0\r\nECHO end\r\n");
    server.wait_for("blocked_clients:1");
    producer.add("q", "0", "one");
    waiter.expect_job("q", "one");
    waiter.expect("+PONG\r\n");
    producer.add("q", "0", "two");
    waiter.expect_job("q", "two");
    waiter.expect("$3\r\nend\r\n");
}

#[test]
fn a_wait_ends_with_nil_at_its_deadline() {
    let server = Running::start(&[]);
    let mut client = server.connect();
    let start = Instant::now();
    client.send("DELAY.POP q 0.03\r\n");
    client.expect("*-1\r\n");
    assert!(start.elapsed() >= Duration::from_millis(30));
}

/// The connection closes and the job falls due in one turn or two: either way the job is not
/// written to the closed one.
#[test]
fn a_client_that_left_while_waiting_gets_no_job() {
    let server = Running::start(&[]);
    let mut producer = server.connect();
    for round in 0..200 {
        let mut gone = server.connect();
        gone.command(&["DELAY.POP", "q", "0"]);
        server.wait_for("blocked_clients:1");
        let mut next = server.connect();
        next.command(&["DELAY.POP", "q", "0"]);
        server.wait_for("blocked_clients:2");
        drop(gone);
        let body = format!("body {round}");
        producer.add("q", "0", &body);
        next.expect_job("q", &body);
    }
    assert!(producer.info().contains("jobs_ready:0\r\njobs_leased:0"));
}

#[test]
fn a_client_killed_while_waiting_gets_no_job() {
    let server = Running::start(&[]);
    let (mut waiter, mut killer) = (server.connect(), server.connect());
    waiter.send("CLIENT ID\r\n");
    let id = waiter.line().split_off(1);
    waiter.command(&["DELAY.POP", "q", "0"]);
    server.wait_for("blocked_clients:1");
    killer.command(&["CLIENT", "KILL", "ID", &id]);
    killer.expect(":1\r\n");
    killer.add("q", "0", "body");
    waiter.expect_end();
    killer.command(&["DELAY.POP", "q", "0"]);
    killer.expect_job("q", "body");
}

#[test]
fn who_holds_most_is_closed_when_clients_hold_too_much() {
    let server = Running::start(&[("max-clients-memory", "1mb")]);
    let mut watcher = server.connect();
    // A part of a request, all of which has arrived when this returns.
    let mut send_part = |announced: usize, sent: usize| {
        let mut client = server.connect();
        client.send(format!("*2\r\n$4\r\nECHO\r\n${announced}\r\n"));
        client.send(vec![b'x'; sent]);
        let start = Instant::now();
        // The first 14 bytes and the header of the second argument count too.
        let shown = format!("qbuf={} ", sent + 14 + 3 + announced.to_string().len());
        loop {
            watcher.command(&["CLIENT", "LIST"]);
            if watcher.bulk().contains(&shown) {
                break client;
            }
            assert!(start.elapsed() < LIMIT, "{shown} never came true");
        }
    };
    let mut large = send_part(510_000, 500_000);
    let mut small: Vec<Client> = (0..4).map(|_| send_part(130_000, 120_000)).collect();
    // One more is too much; it is not the one that pays.
    let _last = send_part(130_000, 120_000);
    large.expect_end();
    small[0].send(vec![b'x'; 10_000]);
    small[0].send("\r\n");
    assert_eq!(small[0].bulk().len(), 130_000);
    assert_eq!(server.connect().line_of("PING"), "+PONG");
}

#[test]
fn a_body_that_is_too_large_is_skipped_and_the_connection_goes_on() {
    let server = Running::start(&[("max-body-size", "1kb")]);
    let mut client = server.connect();
    let large = "x".repeat(300_000);
    client.command(&["DELAY.ADD", "q", "0", &large]);
    client.command(&["DELAY.ADD", "q", "0", "small"]);
    let error = client.line();
    assert!(error.starts_with("-ERR "), "{error}");
    assert!(error.contains("300000") && error.contains("1024"), "{error}");
    client.bulk();
    client.command(&["DELAY.LEN", "q"]);
    client.expect(":1\r\n");
}

#[test]
fn one_client_too_many_is_told_so() {
    let server = Running::start(&[("maxclients", "2")]);
    let (mut first, mut second) = (server.connect(), server.connect());
    assert_eq!(first.line_of("PING"), "+PONG");
    assert_eq!(second.line_of("PING"), "+PONG");
    let mut third = server.connect();
    third.expect("-ERR max number of clients reached\r\n");
    third.expect_end();
    drop(first);
    let start = Instant::now();
    // The place is free once the server has noticed.
    while server.connect().line_of("PING") != "+PONG" {
        assert!(start.elapsed() < LIMIT);
    }
}

#[test]
fn an_idle_client_is_closed_but_not_one_that_waits() {
    let server = Running::start(&[("timeout", "1")]);
    let (mut idle, mut waiter) = (server.connect(), server.connect());
    waiter.command(&["DELAY.POP", "q", "0"]);
    idle.expect_end();
    server.connect().add("q", "0", "body");
    waiter.expect_job("q", "body");
}

#[test]
fn stopping_answers_what_runs_and_lets_waiting_clients_go() {
    let mut server = Running::start(&[]);
    let (mut waiter, mut other) = (server.connect(), server.connect());
    waiter.command(&["DELAY.POP", "q", "0"]);
    server.wait_for("blocked_clients:1");
    assert_eq!(other.line_of("PING"), "+PONG");
    server.stopper.stop();
    waiter.expect_end();
    other.expect_end();
    server.join();
    assert!(TcpStream::connect(server.address).is_err());
}

#[test]
fn shutdown_stops_the_server() {
    let mut server = Running::start(&[]);
    let mut client = server.connect();
    client.send("PING\r\nSHUTDOWN\r\n");
    client.expect("+PONG\r\n");
    client.expect_end();
    server.join();
}

#[test]
fn options_change_all_or_none_while_clients_are_served() {
    let server = Running::start(&[]);
    let mut client = server.connect();
    client.command(&["CONFIG", "SET", "max-body-size", "1kb", "maxclients", "0"]);
    let error = client.line();
    assert!(error.contains("'maxclients') - argument must be between 1 and 1000000"), "{error}");
    let large = "x".repeat(2_000);
    client.add("q", "0", &large);
    client.command(&["CONFIG", "SET", "max-body-size", "1kb"]);
    client.expect("+OK\r\n");
    client.command(&["DELAY.ADD", "q", "0", &large]);
    assert!(client.line().contains("2000"));
    client.command(&["CONFIG", "GET", "max-body*"]);
    client.expect("*2\r\n$13\r\nmax-body-size\r\n$4\r\n1024\r\n");
}

#[test]
fn a_command_that_waited_counts_once_and_is_not_slow() {
    let server = Running::start(&[("slowlog-log-slower-than", "20000")]);
    let (mut waiter, mut other) = (server.connect(), server.connect());
    waiter.command(&["DELAY.POP", "q", "0"]);
    other.add("q", "50", "body");
    waiter.expect_job("q", "body");
    other.command(&["SLOWLOG", "LEN"]);
    other.expect(":0\r\n");
    other.command(&["INFO", "commandstats"]);
    let counts = other.bulk();
    assert!(counts.contains("cmdstat_delay.pop:calls=1,"), "{counts}");
}

#[test]
fn a_command_that_waited_is_logged_when_it_is_over_with_the_time_it_ran() {
    let server = Running::start(&[("slowlog-log-slower-than", "0")]);
    let (mut waiter, mut other) = (server.connect(), server.connect());
    waiter.command(&["CLIENT", "SETNAME", "w"]);
    waiter.expect("+OK\r\n");
    waiter.command(&["BLPOP", "q", "0"]);
    server.wait_for("blocked_clients:1");
    other.command(&["SLOWLOG", "RESET"]);
    other.expect("+OK\r\n");
    let began = Instant::now();
    other.add("q", "300", "body");
    waiter.skip_reply();
    let waited_us = began.elapsed().as_micros() as i64;
    other.command(&["SLOWLOG", "GET"]);
    other.expect("*3\r\n*6\r\n");
    other.line();
    other.line();
    let took_us: i64 = other.line()[1..].parse().unwrap();
    assert!(took_us < waited_us / 2, "{took_us} of {waited_us} us");
    other.expect("*3\r\n$5\r\nBLPOP\r\n$1\r\nq\r\n$1\r\n0\r\n");
    assert_eq!(other.bulk(), waiter.stream.local_addr().unwrap().to_string());
    other.expect("$1\r\nw\r\n");
}

/// Whoever waits or listens, and loses the right to, through the real turn.
#[test]
fn rights_that_are_taken_away_end_at_once() {
    let server = Running::start(&[]);
    let mut admin = server.connect();
    let mut ok = |line: &str| assert_eq!(admin.line_of(line), "+OK", "{line}");
    ok("ACL SETUSER w on nopass ~q +@all &c");
    let [mut pops, mut reserves, mut syncs, mut hears] = [(); 4].map(|()| {
        let mut client = server.connect();
        assert_eq!(client.line_of("AUTH w x"), "+OK");
        client
    });
    // What stands behind the wait comes after the error, under the new rights.
    pops.send("BLPOP q 0\r\nLLEN q\r\nPING\r\n");
    reserves.send("DELAY.RESERVE 0 1 q BOUND\r\n");
    server.wait_for("blocked_clients:2");
    hears.send("SUBSCRIBE c\r\n");
    hears.expect("*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    ok("ACL SETUSER w +get");
    // Rights and a job in one write: the right goes first.
    admin.send("ACL SETUSER w resetkeys ~r\r\nRPUSH q x\r\nLLEN q\r\n");
    admin.expect("+OK\r\n:1\r\n:1\r\n");
    let error = "-NOPERM No permissions to access a key\r\n";
    pops.expect(&format!("{error}{error}+PONG\r\n"));
    reserves.expect(error);
    admin.send("PUBLISH c 1\r\nACL SETUSER w resetchannels\r\nPUBLISH c 2\r\n");
    admin.expect(":1\r\n+OK\r\n:0\r\n");
    // What it was sent before may have left or not.
    let mut rest = String::new();
    let _ = hears.stream.read_to_string(&mut rest);
    assert!(rest.is_empty() || rest.ends_with("$1\r\n1\r\n"), "{rest:?}");
    syncs.send("BRPOP r 0\r\n");
    server.wait_for("blocked_clients:1");
    admin.send("ACL DELUSER w\r\nRPUSH r x\r\nLLEN r\r\n");
    admin.expect(":1\r\n:1\r\n:1\r\n");
    for client in [&mut pops, &mut reserves, &mut syncs] {
        client.expect_end();
    }
    server.wait_for("connected_clients:2");
}

#[test]
fn a_slow_command_is_logged_with_its_client() {
    let server = Running::start(&[("slowlog-log-slower-than", "0"), ("slowlog-max-len", "1")]);
    let mut client = server.connect();
    assert_eq!(client.line_of("CLIENT SETNAME me"), "+OK");
    assert_eq!(client.line_of("DELAY.LEN q"), ":0");
    client.send("SLOWLOG GET\r\n");
    client.expect("*1\r\n*6\r\n");
    let fields: Vec<String> = (0..3).map(|_| client.line()).collect();
    assert!(fields.iter().all(|f| f.starts_with(':')), "{fields:?}");
    client.expect("*2\r\n$9\r\nDELAY.LEN\r\n$1\r\nq\r\n");
    assert_eq!(client.bulk(), client.stream.local_addr().unwrap().to_string());
    client.expect("$2\r\nme\r\n");
}

/// A hundred thousand jobs of one instant are swept in slices: whoever asks meanwhile is answered.
#[test]
fn a_herd_does_not_hold_up_a_ping() {
    let server = Running::start(&[]);
    let (mut producer, mut other) = (server.connect(), server.connect());
    let due_ms = wall_ms() + 1_500;
    let count = 100_000;
    let command = format!("DELAY.ADD q @{due_ms} x\r\n");
    for _ in 0..count / 1_000 {
        producer.send(command.repeat(1_000));
        (0..1_000).for_each(|_| drop(producer.bulk()));
    }
    let mut longest = Duration::ZERO;
    while wall_ms() < due_ms + 300 {
        let start = Instant::now();
        assert_eq!(other.line_of("PING"), "+PONG");
        longest = longest.max(start.elapsed());
    }
    // Far above a slice, far below the herd: this may run beside other tests.
    assert!(longest < Duration::from_millis(500), "{longest:?}");
    server.wait_for(&format!("jobs_ready:{count}"));
}

/// Nothing but the client's own limit wakes the server then.
#[test]
fn a_wait_for_replicas_ends_in_time() {
    let server = Running::start(&[]);
    let mut client = server.connect();
    let mut other = server.connect();
    let began = Instant::now();
    for _ in 0..10 {
        client.send("WAITAOF 0 1 20\r\nPING\r\n");
        client.expect("*2\r\n:0\r\n:0\r\n+PONG\r\n");
    }
    assert!(began.elapsed() >= Duration::from_millis(200));
    // What happens once a second would have woken it, too, ten times too late.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    // One that is gone is forgotten, and one that is released goes on.
    let mut leaving = server.connect();
    leaving.send("WAITAOF 0 1 0\r\n");
    client.send("WAITAOF 0 1 0\r\n");
    server.wait_for("blocked_clients:2");
    drop(leaving);
    server.wait_for("blocked_clients:1");
    assert_eq!(other.line_of("CLIENT UNBLOCK 1"), ":1");
    client.expect("*2\r\n:0\r\n:0\r\n");
    server.wait_for("blocked_clients:0");
}
