//! Channels and events as clients see them: slow subscribers, many of them, and what nobody may hear
//! before it is safe.

#[path = "support/disk.rs"]
mod disk;
#[path = "support/program.rs"]
mod program;
mod support;

use disk::Shim;
use program::{Folder, Reply, Wire};
use std::time::Instant;
use support::{Client, LIMIT, Running};

fn subscribe(server: &Running, channel: &str) -> Client {
    let mut client = server.connect();
    client.command(&["SUBSCRIBE", channel]);
    client.skip_reply();
    client
}

fn message(channel: &str, text: &str) -> String {
    let (channel_len, text_len) = (channel.len(), text.len());
    format!("*3\r\n$7\r\nmessage\r\n${channel_len}\r\n{channel}\r\n${text_len}\r\n{text}\r\n")
}

/// A client's reply to PUBLISH: how many got it.
fn publish(client: &mut Client, channel: &str, text: &str) -> u64 {
    client.command(&["PUBLISH", channel, text]);
    client.line()[1..].parse().unwrap()
}

#[test]
fn a_subscriber_that_does_not_read_is_closed_at_the_hard_limit() {
    let server = Running::start(&[("client-output-buffer-limit", "pubsub 1000000 0 0")]);
    let mut slow = subscribe(&server, "c");
    let mut fast = subscribe(&server, "c");
    let mut publisher = server.connect();
    let text = "x".repeat(100_000);
    let start = Instant::now();
    while publish(&mut publisher, "c", &text) == 2 {
        fast.expect(&message("c", &text));
        assert!(start.elapsed() < LIMIT, "it was never closed");
    }
    fast.expect(&message("c", &text));
    assert_eq!(publisher.info_number("client_output_buffer_limit_disconnections"), 1);
    assert_eq!(publisher.info_number("pubsub_clients"), 1);
    // What the kernel had taken comes, then the end.
    let first = "*3\r\n$7\r\nmessage\r\n";
    slow.expect(first);
    std::io::copy(&mut slow.stream, &mut std::io::sink()).ok();
    // Replies of others are not bounded by that class.
    publisher.command(&["ECHO", &"y".repeat(3_000_000)]);
    assert_eq!(publisher.bulk().len(), 3_000_000);
}

#[test]
fn a_subscriber_that_stays_above_the_soft_limit_is_closed() {
    let server = Running::start(&[("client-output-buffer-limit", "pubsub 0 10000 1")]);
    let _slow = subscribe(&server, "c");
    let mut publisher = server.connect();
    // Far more than the kernel's buffers take.
    for _ in 0..20 {
        publish(&mut publisher, "c", &"x".repeat(1_000_000));
    }
    assert_eq!(publisher.info_number("client_output_buffer_limit_disconnections"), 0);
    server.wait_for("client_output_buffer_limit_disconnections:1");
    assert_eq!(publish(&mut publisher, "c", "x"), 0);
}

/// Without limits of their class, what subscribers do not read is bounded by what all clients may hold.
#[test]
fn what_all_subscribers_hold_is_bounded() {
    let options =
        [("client-output-buffer-limit", "pubsub 0 0 0"), ("max-clients-memory", "4000000")];
    let server = Running::start(&options);
    let mut slow: Vec<Client> = (0..10).map(|_| subscribe(&server, "c")).collect();
    let mut publisher = server.connect();
    let (text, start) = ("x".repeat(100_000), Instant::now());
    while publish(&mut publisher, "c", &text) > 5 {
        assert!(publisher.info_number("client_bytes") <= 4_000_000 + 2_000_000);
        assert!(start.elapsed() < LIMIT, "nobody was closed");
    }
    slow.clear();
}

/// One message to many, and many messages at once: all get all, in order, and others are served between.
#[test]
fn many_subscribers_get_everything_in_order() {
    let server = Running::start(&[]);
    let mut subscribers: Vec<Client> = (0..300).map(|_| subscribe(&server, "c")).collect();
    let mut publisher = server.connect();
    let commands: String = (0..100).map(|i| format!("PUBLISH c {i}\r\n")).collect();
    publisher.send(commands + "ECHO end\r\n");
    publisher.expect(&":300\r\n".repeat(100));
    publisher.expect("$3\r\nend\r\n");
    let expected: String = (0..100).map(|i| message("c", &i.to_string())).collect();
    for subscriber in &mut subscribers {
        subscriber.expect(&expected);
    }
    // Closing ends them all.
    drop(subscribers);
    server.wait_for("pubsub_clients:0");
    assert_eq!(publish(&mut publisher, "c", "x"), 0);
    assert_eq!(publisher.info_number("pubsub_channels"), 0);
}

/// A herd of jobs due in one millisecond is told of completely and in order, though it takes several
/// turns, and somebody else's PING is answered meanwhile.
#[test]
fn a_herd_is_told_of_in_order() {
    let server = Running::start(&[("notify-keyspace-events", "Jd")]);
    let mut listener = subscribe(&server, "__jobevent@0__:due:q");
    let mut producer = server.connect();
    let count = 20_000;
    for first in (0..count).step_by(1_000) {
        let adds = (first..first + 1_000).map(|i| format!("DELAY.ADD q 2s x ID {i}\r\n"));
        producer.send(adds.collect::<String>());
        (0..1_000).for_each(|_| drop(producer.bulk()));
    }
    for i in 0..count {
        listener.expect(&message("__jobevent@0__:due:q", &i.to_string()));
        if i % 5_000 == 0 {
            producer.send("PING\r\n");
            producer.expect("+PONG\r\n");
        }
    }
}

#[test]
fn clients_are_kept_back_by_a_pause_and_go_on() {
    let server = Running::start(&[]);
    let (mut admin, mut writer) = (server.connect(), server.connect());
    assert_eq!(admin.line_of("CLIENT PAUSE 60000 WRITE"), "+OK");
    writer.send("PING\r\nDELAY.ADD q 1h x ID j\r\nDELAY.LEN q\r\n");
    writer.expect("+PONG\r\n");
    server.wait_for("blocked_clients:1");
    // One that hangs up meanwhile has done nothing.
    let mut gone = server.connect();
    gone.send("DELAY.ADD q 1h x ID never\r\n");
    server.wait_for("blocked_clients:2");
    drop(gone);
    server.wait_for("connected_clients:3");
    assert_eq!(admin.line_of("CLIENT UNPAUSE"), "+OK");
    writer.expect("$1\r\nj\r\n:1\r\n");
    // A pause ends by itself, too.
    assert_eq!(admin.line_of("CLIENT PAUSE 50"), "+OK");
    writer.send("PING\r\n");
    writer.expect("+PONG\r\n");
}

fn is_message(reply: &Reply, text: &str) -> bool {
    reply.array().is_some_and(|parts| parts[2] == Reply::Bulk(text.as_bytes().to_vec()))
}

/// While a sync hangs, what it would make safe is told to nobody: neither a job's event, nor what the
/// producer publishes behind its ADD. What rests on nothing is told at once.
#[test]
fn nobody_hears_of_what_is_not_safe() {
    let Some(shim) = Shim::build() else { return };
    let folder = Folder::new("unheard");
    let options = ["--journal-segment-size", "1mb", "--notify-keyspace-events", "Kd"];
    let program = shim.start(&folder.0, &options);
    let mut wire = program.connect_loaded();
    assert_eq!(wire.ask("DELAY.ADD q 1h x ID first"), Reply::Bulk(b"first".to_vec()));
    let mut listener = program.connect();
    listener.ask("SUBSCRIBE __keyspace@0__:q");
    let mut others = program.connect();
    others.ask("SUBSCRIBE said");

    shim.set("stuck");
    let mut producer: Wire = program.connect();
    producer.push_line("DELAY.ADD q 1h x ID second");
    producer.push_line("PUBLISH said behind");
    producer.flush().unwrap();
    while shim.count("hangs") == 0 {
        wire.ask("PING");
    }
    assert_eq!(wire.ask("PUBLISH said free"), Reply::Number(1));
    // It overtakes what waits for the sync only on another connection.
    for _ in 0..200 {
        assert_eq!(wire.ask("PING"), Reply::Simple("PONG".to_owned()));
        assert!(!listener.has_reply(), "an event was told before it was safe");
        assert!(!producer.has_reply());
    }
    shim.clear("stuck");
    assert!(is_message(&listener.read().unwrap(), "added"));
    assert_eq!(producer.read().unwrap(), Reply::Bulk(b"second".to_vec()));
    let (first, second) = (others.read().unwrap(), others.read().unwrap());
    assert!(is_message(&first, "behind") && is_message(&second, "free"), "{first:?} {second:?}");
    program.stop();
}

/// What a failing journal lost is told to nobody, ever.
#[test]
fn nobody_hears_of_what_was_lost() {
    let Some(shim) = Shim::build() else { return };
    let folder = Folder::new("lost");
    let options = ["--journal-segment-size", "1mb", "--notify-keyspace-events", "Kd"];
    let program = shim.start(&folder.0, &options);
    let mut wire = program.connect_loaded();
    let mut listener = program.connect();
    listener.ask("SUBSCRIBE __keyspace@0__:q");
    wire.ask("DELAY.ADD q 1h x ID safe");
    assert!(is_message(&listener.read().unwrap(), "added"));
    shim.set("sync");
    assert!(wire.ask("DELAY.ADD q 1h x ID lost").is_error("MISCONF"));
    assert_eq!(wire.ask("PUBLISH __keyspace@0__:q own"), Reply::Number(1));
    assert!(is_message(&listener.read().unwrap(), "own"), "the lost job's event came");
}
