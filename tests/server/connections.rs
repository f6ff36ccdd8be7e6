//! The server as clients see it: raw sockets against a server in this process. Nothing here sleeps
//! to wait; sockets are read with a time limit that only a failure reaches.

use crate::support::in_process::{Client, Running};
use crate::support::patience::{limit, until};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

fn wall_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()
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
        let left = gone.stream.local_addr().unwrap().port();
        drop(gone);
        // The kernel may hand a job over before the end of another connection that was closed earlier, on another core.
        until("the end arrived", || {
            // 01: established.
            server.in_kernel(left).is_none_or(|words| words[3] != "01").then_some(())
        });
        let body = format!("body {round}");
        producer.add("q", "0", &body);
        next.expect_job("q", &body);
    }
    assert!(producer.info().contains("jobs_ready:0\r\njobs_leased:0"));
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
            assert!(start.elapsed() < limit(), "{shown} never came true");
        }
    };
    // Of a body that is longer by much nothing is kept: it is read to its end and refused.
    let mut large = send_part(450_000, 440_000);
    let mut small: Vec<Client> = (0..4).map(|_| send_part(145_000, 135_000)).collect();
    // One more is too much; it is not the one that pays.
    let _last = send_part(145_000, 135_000);
    large.expect_end();
    small[0].send(vec![b'x'; 10_000]);
    small[0].send("\r\n");
    assert_eq!(small[0].bulk().len(), 145_000);
    assert_eq!(server.connect().line_of("PING"), "+PONG");
}

#[test]
fn one_client_too_many_is_told_so() {
    let server = Running::start(&[("maxclients", "2")]);
    let (mut first, mut second) = (server.connect(), server.connect());
    assert_eq!(first.line_of("PING"), "+PONG");
    assert_eq!(second.line_of("PING"), "+PONG");
    let mut third = server.connect();
    third.send("LPUSH q x\r\n");
    third.expect("-ERR max number of clients reached\r\n");
    third.expect_end();
    drop(first);
    let start = Instant::now();
    // The place is free once the server has noticed.
    while server.connect().line_of("LPUSH q x") != ":1" {
        assert!(start.elapsed() < limit());
    }
}

/// Workers that used up `maxclients` kept the operator out until one of them left.
#[test]
fn workers_keep_no_operator_out() {
    let server = Running::start(&[("maxclients", "3"), ("requirepass", "secret")]);
    let mut admin = server.connect();
    assert_eq!(admin.line_of("AUTH secret"), "+OK");
    assert_eq!(admin.line_of("ACL SETUSER worker on >w +@all -@admin ~*"), "+OK");
    let worker = |server: &Running| {
        let mut worker = server.connect();
        let said = worker.line_of("AUTH worker w");
        (worker, said)
    };
    let workers = [worker(&server), worker(&server)];
    assert!(workers.iter().all(|(_, said)| said == "+OK"));
    let refused = "-ERR max number of clients reached";
    // Whoever is no operator: at the first word, whatever it is, and again and again.
    for _ in 0..100 {
        let (mut late, said) = worker(&server);
        assert_eq!(said, refused);
        late.expect_end();
        let mut late = server.connect();
        assert_eq!(late.line_of("PING"), refused);
        late.expect_end();
        let mut late = server.connect();
        assert!(late.line_of("AUTH worker wrong").starts_with("-WRONGPASS"));
        late.expect_end();
    }
    // Those that say nothing hold no place that another one needs.
    let _silent: Vec<_> = (0..50).map(|_| server.connect()).collect();
    let operator = |server: &Running| {
        let mut operator = server.connect();
        assert_eq!(operator.line_of("AUTH default secret"), "+OK");
        operator
    };
    let mut operators: Vec<_> = (0..8).map(|_| operator(&server)).collect();
    for operator in &mut operators {
        assert_eq!(operator.line_of("LLEN q"), ":0");
    }
    // All places are operators' now.
    let mut ninth = server.connect();
    ninth.expect("-ERR max number of clients reached\r\n");
    ninth.expect_end();
    // A place for an operator is none for a worker.
    let mut first = operators.remove(0);
    assert_eq!(first.line_of("LPUSH q x"), refused);
    first.expect_end();
    assert_eq!(operators[0].line_of("CLIENT KILL USER worker"), ":2");
    // The first of those that are left has a place of its own once there is one: now there are seven and the admin.
    drop(operators.split_off(2));
    let start = Instant::now();
    let mut second = operators.remove(0);
    while second.line_of("CONFIG SET maxclients 4") != "+OK" || {
        let mut other = server.connect();
        other.line_of("AUTH default secret") != "+OK" || other.line_of("LPUSH q x") != ":1"
    } {
        assert!(start.elapsed() < limit());
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

/// A hundred thousand jobs of one instant are swept in slices: clients that ask meanwhile are answered, and are told of a
/// part of them. They ask by INFO, as a command that names the queue sweeps a little of it itself. `tests/longest` measures
/// how long they wait.
#[test]
fn a_herd_is_swept_between_the_commands_of_others() {
    let server = Running::start(&[]);
    let (mut producer, mut other) = (server.connect(), server.connect());
    let (count, mut ahead_ms) = (100_000, 5_000);
    let seen = until("a part of a herd is seen", || {
        let due_ms = wall_ms() + ahead_ms;
        let command = format!("DELAY.ADD q @{due_ms} x\r\n");
        for _ in 0..count / 1_000 {
            producer.send(command.repeat(1_000));
            (0..1_000).for_each(|_| drop(producer.bulk()));
        }
        // What is added later than it is due is seen one by one.
        let is_in_time = other.info_number("jobs_ready") == 0;
        ahead_ms *= 2;
        let mut parts = 0;
        loop {
            match other.info_number("jobs_ready") {
                0 => {}
                ready if ready < count => parts += 1,
                _ => break,
            }
        }
        other.line_of("DEL q");
        // This thread may have stood still meanwhile.
        (is_in_time && parts > 0).then_some(parts)
    });
    println!("{seen} answers while a herd was swept");
}

/// Nothing but the client's own limit wakes the server then.
#[test]
fn a_wait_for_replicas_ends_in_time() {
    let server = Running::start(&[]);
    let mut client = server.connect();
    let mut other = server.connect();
    // What happens once a second would have woken it, too: some ten seconds late each time.
    until("ten waits of 20 ms are over within five seconds", || {
        let began = Instant::now();
        for _ in 0..10 {
            client.send("WAITAOF 0 1 20\r\nPING\r\n");
            client.expect("*2\r\n:0\r\n:0\r\n+PONG\r\n");
        }
        assert!(began.elapsed() >= Duration::from_millis(200));
        (began.elapsed() < Duration::from_secs(5)).then_some(())
    });
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
