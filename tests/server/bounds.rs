//! What clients cannot make the server do: grow without bound, or keep others waiting.

use crate::support::in_process::{Client, Running};
use std::collections::HashSet;

/// KEYS is one command and fifty are fifty: the others have their turn in between. Before, one
/// client ran up to 1,024 commands in a turn, whatever they cost: two seconds of KEYS.
#[test]
fn a_pipeline_of_slow_commands_is_spread_over_turns() {
    let server = Running::start(&[]);
    let (mut client, mut other) = (server.connect(), server.connect());
    client.add_to_queues("queue", 30_000);
    let before = other.info_number("turns");
    client.send("KEYS none\r\n".repeat(50));
    client.expect(&"*0\r\n".repeat(50));
    let turns = other.info_number("turns") - before;
    assert!(turns >= 25, "{turns}");
}

#[test]
fn a_command_has_at_most_so_many_arguments() {
    let server = Running::start(&[]);
    let mut client = server.connect();
    let ids = |count: usize| "$1\r\ni\r\n".repeat(count);
    client.send(format!("*65536\r\n$9\r\nDELAY.DEL\r\n$1\r\nq\r\n{}", ids(65_534)));
    client.expect(":0\r\n");
    client.send(format!("*65537\r\n$9\r\nDELAY.DEL\r\n$1\r\nq\r\n{}", ids(65_535)));
    client.expect("-ERR 'delay.del' has 65537 arguments; at most 65536 are allowed\r\n");
    assert_eq!(client.line_of("MULTI"), "+OK");
    client.send(format!("*65537\r\n$4\r\nPING\r\n{}", ids(65_536)));
    client.expect("-ERR 'ping' has 65537 arguments; at most 65536 are allowed\r\n");
    assert!(client.line_of("EXEC").starts_with("-EXECABORT"));
}

#[test]
fn documentation_is_not_asked_for_without_end() {
    let server = Running::start(&[]);
    let mut client = server.connect();
    for subcommand in ["DOCS", "INFO"] {
        client.send(format!("COMMAND {subcommand}{}\r\n", " x".repeat(1_001)));
        client.expect("-ERR 1001 names; at most 1000 are allowed\r\n");
    }
}

/// Ten thousand PEEKs of 4 MiB each were rendered before the first byte left: 160 GB. Then those beyond
/// 8 MiB were not run, and what stood behind them neither. What a transaction may answer is known
/// before it begins.
#[test]
fn the_replies_of_a_transaction_are_bounded() {
    let server = Running::start(&[]);
    let mut client = server.connect();
    client.add("q", "1h", &"x".repeat(1 << 20));
    for (count, runs) in [(40, false), (30, true)] {
        assert_eq!(client.line_of("MULTI"), "+OK");
        client.send("DELAY.PEEK q\r\n".repeat(count) + "DELAY.ADD q 1h y\r\n");
        client.expect(&"+QUEUED\r\n".repeat(count + 1));
        client.send("EXEC\r\n");
        if runs {
            assert_eq!(client.line(), format!("*{}", count + 1));
            let firsts: Vec<String> = (0..=count).map(|_| client.skip_reply()).collect();
            assert!(firsts[..count].iter().all(|first| first == "*1"), "{firsts:?}");
        } else {
            let refusal = client.line();
            assert!(refusal.starts_with("-EXECABORT") && refusal.contains("33554432"), "{refusal}");
        }
        let jobs = 1 + u64::from(runs);
        assert_eq!(client.line_of("DELAY.LEN q"), format!(":{jobs}"));
    }
    // What others than the engine answer counts as well.
    assert_eq!(client.line_of("MULTI"), "+OK");
    client.send("COMMAND DOCS\r\n".repeat(1_000) + "DELAY.ADD q 1h y\r\n");
    client.expect(&"+QUEUED\r\n".repeat(1_001));
    assert!(client.line_of("EXEC").starts_with("-EXECABORT"));
    assert_eq!(client.line_of("DELAY.LEN q"), ":2");
}

/// KEYS of 200,000 queues took 57 ms in one turn, SCAN with a huge COUNT 90 ms.
#[test]
fn keys_takes_several_turns_and_scan_a_slice() {
    let server = Running::start(&[]);
    let (mut client, mut other) = (server.connect(), server.connect());
    client.add_to_queues("queue", 30_000);
    let before = other.info_number("turns");
    client.command(&["KEYS", "*"]);
    assert_eq!(client.line(), "*30000");
    let names: HashSet<String> = (0..30_000).map(|_| client.bulk()).collect();
    assert_eq!(names.len(), 30_000);
    assert!(other.info_number("turns") - before >= 3);
    let (mut cursor, mut seen, mut calls) = ("0".to_owned(), HashSet::new(), 0);
    while calls == 0 || cursor != "0" {
        client.command(&["SCAN", &cursor, "COUNT", "4000000000"]);
        assert_eq!(client.line(), "*2");
        cursor = client.bulk();
        let count: usize = client.line()[1..].parse().unwrap();
        assert!(count <= 10_000, "{count}");
        seen.extend((0..count).map(|_| client.bulk()));
        calls += 1;
    }
    assert_eq!(seen, names);
}

/// Flushing 200,000 queues took 48 ms, as each was taken out by itself, and then all that had no job
/// were freed in one turn.
#[test]
fn a_flush_is_at_once_and_frees_in_slices() {
    let server = Running::start(&[]);
    let mut client = server.connect();
    client.add_to_queues("queue", 20_000);
    client.send("SELECT 1\r\n");
    client.expect("+OK\r\n");
    client.add_to_queues("queue", 10);
    client.send("SELECT 0\r\n");
    client.expect("+OK\r\n");
    let before = client.info_number("turns");
    client.send("FLUSHDB\r\nDBSIZE\r\nEXISTS queue1\r\n");
    client.expect("+OK\r\n:0\r\n:0\r\n");
    assert_eq!(client.info_number("jobs_delayed"), 10);
    client.add("queue1", "1h", "new");
    client.send("DBSIZE\r\nDELAY.LEN queue1\r\nSELECT 1\r\nDBSIZE\r\nDELAY.LEN queue1\r\n");
    client.expect(":1\r\n:1\r\n+OK\r\n:10\r\n:1\r\n");
    while client.info_number("used_memory_dataset") > 1 << 20 {}
    let turns = client.info_number("turns") - before;
    assert!(turns >= 40, "{turns}");
    client.send("FLUSHALL\r\n");
    client.expect("+OK\r\n");
    // A page of each pool, and what lists the pages, are kept for the next: 0.4 MB after 20,000 queues.
    while client.info_number("used_memory_dataset") > 1 << 19 {}
}

/// A set of 200,000 bytes behind a star was looked through once for each byte of each name: nobody else
/// had an answer for 2.5 s.
#[test]
fn a_costly_pattern_is_compared_in_slices() {
    let server = Running::start(&[]);
    let mut client = server.connect();
    client.add_to_queues(&"b".repeat(480), 1_000);
    let long = format!("*[{}]c", "b".repeat(200_000));
    for command in [&["KEYS", &long][..], &["SCAN", "0", "MATCH", &long]] {
        client.command(command);
        let line = client.line();
        assert!(
            line.starts_with("-ERR the pattern has 200004 bytes; at most 1024 are allowed"),
            "{line}"
        );
    }
    client.command(&["CONFIG", "GET", &"x".repeat(129)]);
    client.expect("-ERR the pattern has 129 bytes; at most 128 are allowed\r\n");
    client.command(&[&["CONFIG", "GET"][..], &["x"; 257]].concat());
    client.expect("-ERR 257 patterns; at most 256 are allowed\r\n");
    // Each name takes half a million comparisons: two of them are a turn's share.
    let costly = format!("*[{}]c*", "b".repeat(1_000));
    let before = client.info_number("turns");
    client.command(&["KEYS", &costly]);
    client.expect("*0\r\n");
    let turns = client.info_number("turns") - before;
    assert!(turns >= 125, "{turns}");
    client.command(&["SCAN", "0", "MATCH", &costly, "COUNT", "10000"]);
    assert_eq!(client.line(), "*2");
    assert_ne!(client.bulk(), "0", "it ends early, and the cursor says where");
    assert_eq!(client.line(), "*0");
}

/// It ran, and its client was closed before it had read.
#[test]
fn exec_is_refused_if_its_client_may_not_hold_what_it_answers() {
    let server = Running::start(&[("max-clients-memory", "16mb")]);
    let mut client = server.connect();
    let body = "x".repeat(1 << 20);
    for _ in 0..12 {
        client.command(&["RPUSH", "q", &body]);
        client.line();
    }
    // 12 MiB of replies, and as much in hand until they begin to leave.
    let pops = ["LPOP q 4"; 3];
    let run = |client: &mut Client, pops: &[&str]| {
        assert_eq!(client.line_of("MULTI"), "+OK");
        pops.iter().for_each(|pop| assert_eq!(client.line_of(pop), "+QUEUED"));
        client.line_of("EXEC")
    };
    let refusal = run(&mut client, &pops);
    assert!(
        refusal.starts_with("-EXECABORT") && refusal.contains("max-clients-memory"),
        "{refusal}"
    );
    assert_eq!(client.line_of("LLEN q"), ":12");
    // What fits is done.
    for _ in 0..3 {
        assert_eq!(run(&mut client, &pops[..1]), "*1");
        assert_eq!(client.line(), "*4");
        (0..4).for_each(|_| assert_eq!(client.bulk().len(), 1 << 20));
    }
    assert_eq!(client.line_of("LLEN q"), ":0");
    assert_eq!(client.info_number("evicted_clients"), 0);
}

/// 150 clients that waited for 10,000 queues each held 840 MB of which nobody knew.
#[test]
fn places_in_lines_count_as_memory_of_the_client() {
    let server = Running::start(&[("max-clients-memory", "8mb")]);
    let mut other = server.connect();
    let clients: Vec<Client> = (0..3)
        .map(|i| {
            let mut client = server.connect();
            let names: Vec<String> = (0..10_000).map(|name| format!("c{i}-{name}")).collect();
            let mut args = vec!["DELAY.RESERVE", "0", "10000"];
            args.extend(names.iter().map(String::as_str));
            client.command(&args);
            client
        })
        .collect();
    server.wait_for("evicted_clients:1");
    assert_eq!(other.info_number("client_query_buffer_limit_disconnections"), 0);
    assert_eq!(other.info_number("blocked_clients"), 2);
    drop(clients);
    server.wait_for("blocked_clients:0");
}

/// A reply of 4 MiB of jobs, each of which is kept until it begins to leave, was more than 8 MiB: who asked
/// was closed before the first byte, and so again the next time.
#[test]
fn a_reply_as_large_as_it_may_be_closes_nobody() {
    let server = Running::start(&[("max-clients-memory", "8mb")]);
    let mut other = server.connect();
    let body = "x".repeat(30_000);
    (0..420).for_each(|_| drop(other.add("q", "0", &body)));
    let takes = [
        "DELAY.RESERVE NOWAIT 1 q COUNT 1000 NOACK",
        "LPOP q 1000",
        "DELAY.RESERVE NOWAIT 1 q COUNT 1000",
    ];
    for take in takes {
        let mut client = server.connect();
        client.send(format!("{take}\r\n"));
        assert_eq!(client.skip_reply(), "*140", "{take}");
    }
    assert_eq!(other.info_number("client_query_buffer_limit_disconnections"), 0);
}

#[test]
fn leases_that_end_with_a_connection_count_for_it() {
    let server = Running::start(&[]);
    let (mut other, mut worker) = (server.connect(), server.connect());
    let mut push = vec!["RPUSH", "q"];
    push.extend(["x"; 10_000]);
    other.command(&push);
    other.expect(":10000\r\n");
    worker.send("DELAY.RESERVE NOWAIT 1 q COUNT 10000 BOUND\r\n");
    assert_eq!(worker.skip_reply(), "*10000");
    assert_eq!(worker.line_of("PING"), "+PONG");
    let held = other.info_number("client_bytes");
    assert!((160_000..400_000).contains(&held), "{held}");
    drop(worker);
    server.wait_for("jobs_leased:0");
    assert!(other.info_number("client_bytes") < 100_000);
}

/// 3,000 connections with names of 400,000 bytes held 1.1 GB of which nobody knew.
#[test]
fn what_connections_say_of_themselves_is_bounded_and_counted() {
    let server = Running::start(&[("max-clients-memory", "1mb")]);
    let mut client = server.connect();
    let (long, fits) = ("n".repeat(1_025), "n".repeat(1_024));
    for (command, name) in [
        ("CLIENT SETNAME", "client name"),
        ("HELLO 2 SETNAME", "client name"),
        ("CLIENT SETINFO LIB-NAME", "lib-name"),
        ("CLIENT SETINFO LIB-VER", "lib-ver"),
    ] {
        let error = client.line_of(&format!("{command} {long}"));
        assert_eq!(error, format!("-ERR {name} has 1025 bytes; it can have at most 1024"));
    }
    assert_eq!(client.line_of("CLIENT GETNAME"), "$-1", "nothing was changed");
    let before = client.info_number("client_bytes");
    for command in ["CLIENT SETNAME", "CLIENT SETINFO LIB-NAME", "CLIENT SETINFO LIB-VER"] {
        assert_eq!(client.line_of(&format!("{command} {fits}")), "+OK");
    }
    let more = client.info_number("client_bytes") - before;
    assert!((2_900..3_200).contains(&more), "{more}");
}

/// Whoever asks for little comes before those whose commands take long, not behind all of them.
#[test]
fn a_light_command_waits_for_one_heavy_one_at_most() {
    let server = Running::start(&[]);
    let mut other = server.connect();
    other.add_to_queues("queue", 16_000);
    let heavy: Vec<Client> = (0..12)
        .map(|_| {
            let mut client = server.connect();
            client.send("KEYS none\r\n".repeat(200));
            client
        })
        .collect();
    let before = other.info_number("turns");
    (0..100).for_each(|_| assert_eq!(other.line_of("PING"), "+PONG"));
    let turns = other.info_number("turns") - before;
    // At best two for each: it comes in while one turn runs and is answered at the end of the next.
    // Behind all twelve it would be fourteen.
    assert!(turns < 1_000, "{turns} turns for 100 answers");
    drop(heavy);
}

/// A client that reads MiBs as fast as they come has its share of a turn, a MiB, like one that asks.
#[test]
fn a_large_reply_leaves_in_several_turns() {
    let server = Running::start(&[]);
    let mut client = server.connect();
    client.add("q", "1h", &"x".repeat(8 << 20));
    let before = client.info_number("turns");
    client.command(&["DELAY.PEEK", "q"]);
    assert_eq!(client.skip_reply(), "*1");
    let turns = client.info_number("turns") - before;
    assert!(turns >= 8, "{turns}");
}

/// Two queues that were emptied by turns filled the list of queues without jobs, and the totals of
/// all others were forgotten after 100,000 jobs instead of 24 hours.
#[test]
fn busy_queues_do_not_push_out_the_totals_of_idle_ones() {
    let server = Running::start(&[]);
    let mut client = server.connect();
    client.add("once", "0", "x");
    client.send("DELAY.POP once NOWAIT\r\n");
    client.expect_job("once", "x");
    let pair = |queue| format!("DELAY.ADD {queue} 0 x ID i\r\nDELAY.POP {queue} NOWAIT\r\n");
    let replies = |queue| format!("$1\r\ni\r\n*3\r\n$1\r\n{queue}\r\n$1\r\ni\r\n$1\r\nx\r\n");
    for _ in 0..600 {
        client.send((pair("a") + &pair("b")).repeat(100));
        client.expect(&(replies("a") + &replies("b")).repeat(100));
    }
    assert!(client.line_of("DELAY.STATS once").starts_with('*'));
}

/// Ten patterns counted as ten entries, though each PUBLISH takes ms with them.
#[test]
fn what_patterns_cost_counts_in_a_transaction() {
    let server = Running::start(&[]);
    let (mut subscriber, mut client) = (server.connect(), server.connect());
    for i in 0..8 {
        let pattern = format!("*{}{i}*", "a".repeat(480));
        subscriber.command(&["PSUBSCRIBE", &pattern]);
        subscriber.skip_reply();
    }
    assert_eq!(client.line_of("PUBLISH a x"), ":0");
    for (count, runs) in [(4, true), (1_000, false)] {
        assert_eq!(client.line_of("MULTI"), "+OK");
        client.send("PUBLISH a x\r\n".repeat(count));
        client.expect(&"+QUEUED\r\n".repeat(count));
        let said = client.line_of("EXEC");
        assert_eq!(said.starts_with("-EXECABORT"), !runs, "{said}");
        if runs {
            client.expect(&":0\r\n".repeat(count));
        }
    }
}
