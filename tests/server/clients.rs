//! What connections may cost: each option that bounds them, with real sockets.

use crate::support::in_process::{Client, Running};
use delayd::config::Config;
use delayd::server::in_memory::{FarEnd, InMemory};
use delayd::time::{Micros, Millis};
use std::io::Write;

/// ECHOs of a megabyte each, sent without reading the replies.
fn flood(client: &mut Client, count: usize) {
    let body = "x".repeat(1 << 20);
    let command = format!("*2\r\n$4\r\nECHO\r\n${}\r\n{body}\r\n", body.len());
    for _ in 0..count {
        // It may be closed by then.
        if client.stream.write_all(command.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn unread_replies_above_the_hard_limit_close_at_once() {
    let server = Running::start(&[("client-output-buffer-limit", "normal 100kb 0 0")]);
    let mut greedy = server.connect();
    flood(&mut greedy, 8);
    server.wait_for("client_output_buffer_limit_disconnections:1");
    server.wait_for("connected_clients:1");
}

#[test]
fn unread_replies_above_the_soft_limit_close_when_that_lasts() {
    let server = Running::start(&[("client-output-buffer-limit", "normal 0 100kb 1")]);
    let mut reader = server.connect();
    for _ in 0..4 {
        flood(&mut reader, 1);
        assert_eq!(reader.bulk().len(), 1 << 20);
    }
    // The server reads no more of it once it has more to write than the kernel takes; so this writes until it is closed.
    let mut greedy = server.connect();
    std::thread::scope(|scope| {
        scope.spawn(|| flood(&mut greedy, 64));
        server.wait_for("client_output_buffer_limit_disconnections:1");
    });
    assert_eq!(reader.line_of("PING"), "+PONG");
}

/// The kernel's table of connections shows which timer runs: 02 is the one of keep-alive probes.
#[test]
fn silent_peers_are_probed() {
    for (seconds, timer) in [("300", "02"), ("0", "00")] {
        let server = Running::start(&[("tcp-keepalive", seconds)]);
        let mut client = server.connect();
        assert_eq!(client.line_of("PING"), "+PONG");
        let words = server.in_kernel(client.stream.local_addr().unwrap().port()).unwrap();
        assert!(words[5].starts_with(timer), "tcp-keepalive {seconds}: {words:?}");
    }
}

/// 3,000 clients that are answered at once, few bytes each, while the disk takes its time. Before, each of them held a
/// buffer of 16 KiB for that: of 5,000 producers 706 were closed after their jobs had been added, and never told.
#[test]
fn a_crowd_that_is_answered_at_once_holds_what_it_is_told() {
    const CROWD: usize = 3_000;
    for (each, then, told) in [
        ("PING\r\n", "", "+PONG\r\n"),
        ("DELAY.ADD q 1h x\r\n", "", "$"),
        ("DELAY.POP jobs 0\r\n", "herd", "*3\r\n$4\r\njobs\r\n"),
        ("SUBSCRIBE news\r\n", "PUBLISH news tea\r\n", "*3\r\n$9\r\nsubscribe\r\n"),
    ] {
        let mut config = Config::default();
        config.set("max-clients-memory", &["12mb".to_owned()]).unwrap();
        let mut server = InMemory::new(config, Millis(1_893_456_000_000));
        server.open_journal(20_000, 0);
        let clients: Vec<FarEnd> = (0..CROWD).map(|_| server.connect()).collect();
        clients.iter().for_each(|client| client.send(each.as_bytes()));
        server.run();
        let other = server.connect();
        match then {
            "herd" => other.send(format!("RPUSH jobs{}\r\n", " x".repeat(CROWD)).as_bytes()),
            then => other.send(then.as_bytes()),
        }
        server.run();
        let until = Micros(server.now().0 + 2_000_000);
        server.go_to(until);
        let closed = clients.iter().filter(|client| client.is_closed()).count();
        assert_eq!(closed, 0, "{each:?}");
        for client in &clients {
            let reply = String::from_utf8(client.receive()).unwrap();
            assert!(reply.starts_with(told), "{each:?} was answered {reply:?}");
        }
    }
}
