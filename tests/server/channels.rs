//! Channels and events as clients see them: slow subscribers, many of them, and what nobody may hear
//! before it is safe.

use crate::support::disk::Shim;
use crate::support::in_process::{Client, Running};
use crate::support::patience::limit;
use crate::support::program::{Folder, Reply, Wire};
use std::time::Instant;

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
        assert!(start.elapsed() < limit(), "it was never closed");
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

/// As in Redis: what is pushed is no reply.
#[test]
fn clients_that_want_no_replies_get_their_messages() {
    let server = Running::start(&[]);
    let mut publisher = server.connect();
    for (hello, head) in [("", '*'), ("HELLO 3\r\n", '>')] {
        let mut client = server.connect();
        client.send(hello);
        client
            .send("CLIENT REPLY OFF\r\nPING\r\nSUBSCRIBE c\r\nPSUBSCRIBE d*\r\nUNSUBSCRIBE c\r\n");
        if !hello.is_empty() {
            while client.line() != "modules" {}
            client.expect("*0\r\n");
        }
        let told = |word: &str, name: &str, count| {
            let (word_len, len) = (word.len(), name.len());
            format!("{head}3\r\n${word_len}\r\n{word}\r\n${len}\r\n{name}\r\n:{count}\r\n")
        };
        client.expect(&told("subscribe", "c", 1));
        client.expect(&told("psubscribe", "d*", 2));
        client.expect(&told("unsubscribe", "c", 1));
        assert_eq!(publish(&mut publisher, "dd", "x"), 1);
        client.expect(&format!("{head}4\r\n$8\r\npmessage\r\n$2\r\nd*\r\n$2\r\ndd\r\n$1\r\nx\r\n"));
        client.send("PUNSUBSCRIBE\r\nCLIENT REPLY ON\r\n");
        client.expect(&told("punsubscribe", "d*", 0));
        client.expect("+OK\r\n");
        // For one command: its confirmation comes, and the next one is answered.
        client.send("CLIENT REPLY SKIP\r\nSUBSCRIBE c\r\n");
        client.expect(&told("subscribe", "c", 1));
        assert_eq!(publish(&mut publisher, "c", "y"), 1);
        client.expect(&message("c", "y").replacen('*', &head.to_string(), 1));
        client.send("UNSUBSCRIBE c\r\nCLIENT REPLY SKIP\r\nPING\r\nECHO on\r\n");
        client.expect(&(told("unsubscribe", "c", 0) + "$2\r\non\r\n"));
    }
    // Whoever monitors and wants no replies sees no commands.
    let mut monitor = server.connect();
    monitor.send("MONITOR\r\nCLIENT REPLY OFF\r\n");
    monitor.expect("+OK\r\n");
    publish(&mut publisher, "c", "y");
    monitor.send("CLIENT REPLY ON\r\n");
    let line = monitor.line();
    assert!(line == "+OK" || line.contains("REPLY"), "{line}");
}

fn fields_of(list: &str, subscriber: bool) -> impl Fn(&str) -> u64 {
    let wanted = if subscriber { " sub=1 " } else { " sub=0 " };
    let line = list.lines().find(|line| line.contains(wanted)).expect("a line").to_owned();
    move |name| {
        let field = line.split(' ').find_map(|field| field.strip_prefix(&format!("{name}=")));
        field.expect("the field").parse().unwrap()
    }
}

#[test]
fn client_list_tells_what_waits_for_a_client() {
    let server = Running::start(&[]);
    let mut slow = subscribe(&server, "c");
    let mut publisher = server.connect();
    // Far more than the kernel's buffers take.
    let text = "x".repeat(10_000);
    for _ in 0..1_000 {
        publish(&mut publisher, "c", &text);
    }
    publisher.command(&["CLIENT", "LIST"]);
    let list = publisher.bulk();
    let (waiting, own) = (fields_of(&list, true), fields_of(&list, false));
    assert_eq!((own("oll"), own("omem"), own("obl")), (0, 0, 0), "{list}");
    let (pieces, held) = (waiting("oll"), waiting("omem"));
    assert!((1_000_000..12_000_000).contains(&held) && pieces >= held / 100_000, "{list}");
    assert!(waiting("tot-mem") >= held && waiting("obl") < 100_000, "{list}");
    (0..1_000).for_each(|_| slow.expect(&message("c", &text)));
    publisher.command(&["CLIENT", "LIST"]);
    let list = publisher.bulk();
    let waiting = fields_of(&list, true);
    assert_eq!((waiting("oll"), waiting("omem"), waiting("obl")), (0, 0, 0), "{list}");
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
        assert!(start.elapsed() < limit(), "nobody was closed");
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
    let mut wire = program.connect();
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
    let mut wire = program.connect();
    let mut listener = program.connect();
    listener.ask("SUBSCRIBE __keyspace@0__:q");
    wire.ask("DELAY.ADD q 1h x ID safe");
    assert!(is_message(&listener.read().unwrap(), "added"));
    shim.set("sync");
    assert!(wire.ask("DELAY.ADD q 1h x ID lost").is_error("MISCONF"));
    assert_eq!(wire.ask("PUBLISH __keyspace@0__:q own"), Reply::Number(1));
    assert!(is_message(&listener.read().unwrap(), "own"), "the lost job's event came");
}
