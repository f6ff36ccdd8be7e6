//! What schedules cost: `cargo bench --bench schedules`.
//!
//! Each figure with what is asked of it, and what it was measured with. A server process of its own for each, bodies
//! of 100 bytes and names of 20 unless said, patterns with a zone. `DELAYD_BENCH_SCHEDULES` (default 100,000) is how
//! many there are.

mod support;

use redis_protocol::resp2::types::OwnedFrame;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::{Client, Server, command, machine, now_us};

/// Commands that are written before their replies are read.
const PIPELINE: usize = 1_000;

fn main() {
    let asked = std::env::var("DELAYD_BENCH_SCHEDULES");
    let count = asked.map_or(100_000, |count| count.parse().expect("a whole number"));
    println!("{}; {count} schedules", machine());
    setting(count);
    memory(count);
    for queues in [1, 1_000] {
        herd(Server::delayd(&[]), "no journal", count, queues);
        herd(Server::durable("always"), "always", count, queues);
    }
    lateness();
    journal();
    restart(count);
}

fn name(number: usize) -> String {
    format!("schedule-{number:011}")
}

/// Sends commands in pipelines and checks what each is answered; in which time.
fn pipelined(
    client: &mut Client,
    count: usize,
    mut write: impl FnMut(&mut Vec<u8>, usize),
    check: impl Fn(&OwnedFrame) -> bool,
) -> Duration {
    let began = Instant::now();
    let mut at = 0;
    while at < count {
        let end = (at + PIPELINE).min(count);
        let mut bytes = Vec::new();
        (at..end).for_each(|number| write(&mut bytes, number));
        client.send(&bytes);
        for _ in at..end {
            let reply = client.receive();
            assert!(check(&reply), "{reply:?}");
        }
        at = end;
    }
    began.elapsed()
}

fn did(word: &'static [u8]) -> impl Fn(&OwnedFrame) -> bool {
    move |reply| {
        let OwnedFrame::Array(parts) = reply else { return false };
        matches!(&parts[..], [OwnedFrame::BulkString(did), _] if &did[..] == word)
    }
}

fn set_cron(client: &mut Client, count: usize, word: &'static [u8]) -> Duration {
    set_cron_from(client, (0, count), word)
}

fn set_cron_from(
    client: &mut Client,
    (first, count): (usize, usize),
    word: &'static [u8],
) -> Duration {
    let body = "x".repeat(100);
    let write = |bytes: &mut Vec<u8>, number: usize| {
        let number = first + number;
        let pattern = format!("{} {} * * 1-5", number % 60, number / 60 % 24);
        let words = ["DELAY.SCHEDULE", "SET", "q", &name(number), &body, "CRON", &pattern];
        command(bytes, &[&words[..], &["TZ", "Europe/Berlin"]].concat());
    };
    pipelined(client, count, write, did(word))
}

fn setting(count: usize) {
    for fsync in ["", "always"] {
        let server = if fsync.is_empty() { Server::delayd(&[]) } else { Server::durable(fsync) };
        let mut client = server.client();
        let journal = if fsync.is_empty() { "no journal" } else { fsync };
        for (what, word, asked) in
            [("SET", &b"created"[..], 100), ("SET of the same", b"same", 300)]
        {
            let before = server.cpu_seconds();
            let seconds = set_cron(&mut client, count, word).as_secs_f64();
            let cpu_us = (server.cpu_seconds() - before) * 1e6 / count as f64;
            let rate = count as f64 / seconds / 1_000.0;
            println!(
                "{what}, pipelined, {journal}: {rate:.0} k/s (asked {asked}), {cpu_us:.2} µs of processor each"
            );
        }
    }
}

fn memory(count: usize) {
    let server = Server::delayd(&[]);
    let mut client = server.client();
    // What the first of all takes is the server's.
    set_cron(&mut client, 1, b"created");
    let (resident, counted) = (server.resident(), client.info("used_memory"));
    set_cron_from(&mut client, (1, count), b"created");
    let each = |now: u64, before: u64| now.saturating_sub(before) as f64 / count as f64;
    println!(
        "a schedule: {:.0} bytes resident, {:.0} counted (asked 600)",
        each(server.resident(), resident),
        each(client.info("used_memory"), counted)
    );
}

/// All are due in one ms.
fn herd(server: Server, journal: &str, count: usize, queues: usize) {
    let mut client = server.client();
    let at_ms = now_us() / 1_000 + 15_000;
    let from = format!("@{at_ms}");
    let body = "x".repeat(100);
    let write = |bytes: &mut Vec<u8>, number: usize| {
        let queue = format!("herd-{}", number % queues);
        let words = ["DELAY.SCHEDULE", "SET", &queue, &name(number), &body, "EVERY", "1h", "FROM"];
        command(bytes, &[&words[..], &[&from]].concat());
    };
    pipelined(&mut client, count, write, did(b"created"));
    let over = Arc::new(AtomicBool::new(false));
    let probing = {
        let (mut other, over) = (server.client(), Arc::clone(&over));
        std::thread::spawn(move || probe(&mut other, at_ms, &over))
    };
    sleep_until(at_ms * 1_000 - 5_000);
    let early = client.info("schedule_made_total");
    assert!(now_us() < at_ms * 1_000 || early > 0, "asked too late to tell");
    assert!(early == 0, "{early} came before their ms");
    let made_us = loop {
        let made = client.info("schedule_made_total");
        if made as usize == count {
            break now_us() - at_ms * 1_000;
        }
        assert!(now_us() < (at_ms + 60_000) * 1_000, "{made} of {count} after a minute");
        std::thread::sleep(Duration::from_millis(2));
    };
    over.store(true, Ordering::Relaxed);
    let mut took = probing.join().expect("the other client ends");
    took.sort_unstable();
    let at = |permille: usize| took[(took.len() - 1) * permille / 1_000] as f64 / 1_000.0;
    println!(
        "{count} due in one ms, {queues} queues, {journal}: all made after {:.0} ms (asked 1,000); another client's \
         ADD p50 {:.2}, p99 {:.2} (asked 5), most {:.2} ms of {}; none early",
        made_us as f64 / 1_000.0,
        at(500),
        at(990),
        at(1_000),
        took.len()
    );
}

/// How long each ADD of a client took that sends one after the other from right before the instant on, µs.
fn probe(client: &mut Client, at_ms: u64, over: &AtomicBool) -> Vec<u64> {
    sleep_until(at_ms * 1_000 - 1_000);
    let mut took = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        client.call(&["DELAY.ADD", "other", "1h", "x"]);
        took.push(began.elapsed().as_micros() as u64);
    }
    took
}

fn sleep_until(us: u64) {
    std::thread::sleep(Duration::from_micros(us.saturating_sub(now_us())));
}

/// From the nominal instant to the receipt by a consumer that waits, on a server that does nothing else.
fn lateness() {
    for (server, journal) in
        [(Server::delayd(&[]), "no journal"), (Server::durable("everysec"), "everysec")]
    {
        let (mut client, count) = (server.client(), 300);
        client.call(&["DELAY.SCHEDULE", "SET", "late", "tick", "x", "EVERY", "100ms"]);
        let mut late: Vec<i64> = (0..count).map(|_| one_lateness(&mut client)).collect();
        late.sort_unstable();
        let at = |permille: usize| late[(late.len() - 1) * permille / 1_000] as f64 / 1_000.0;
        println!(
            "lateness of an occurrence, {journal}: p50 {:.3}, p99 {:.3} (asked 1), most {:.3} ms of {count}",
            at(500),
            at(990),
            at(1_000)
        );
        assert!(late[0] >= 0, "one came {} µs early", -late[0]);
    }
}

fn one_lateness(client: &mut Client) -> i64 {
    let reply = client.call(&["DELAY.RESERVE", "5", "1", "late", "NOACK"]);
    let received_us = now_us() as i64;
    let OwnedFrame::Array(jobs) = reply else { panic!("{reply:?}") };
    let [OwnedFrame::Array(job)] = &jobs[..] else { panic!("{jobs:?}") };
    let OwnedFrame::Integer(due_ms) = job[5] else { panic!("{job:?}") };
    received_us - due_ms * 1_000
}

/// Bytes of the journal for an occurrence with a body of 16 KiB, its delivery and its ACK: one by one, and a hundred
/// in one ms that are taken and acknowledged together.
fn journal() {
    for schedules in [1, 100] {
        let server = Server::durable("everysec");
        let mut client = server.client();
        let body = "x".repeat(16 << 10);
        let from = format!("@{}", now_us() / 1_000 + 2_000);
        for number in 0..schedules {
            let words = ["DELAY.SCHEDULE", "SET", "q", &name(number), &body, "EVERY", "200ms"];
            client.call(&[&words[..], &["FROM", &from]].concat());
        }
        let before = client.info("aof_current_size");
        let mut count = 0;
        while count < 20 * schedules as u64 {
            count += acknowledge(&mut client);
        }
        let bytes = client.info("aof_current_size") - before;
        println!(
            "journal for an occurrence of 16 KiB, RESERVE and ACK, {schedules} at a time: {} bytes (asked 200)",
            bytes / count
        );
    }
}

/// Takes and acknowledges all that is there: how many.
fn acknowledge(client: &mut Client) -> u64 {
    let reply = client.call(&["DELAY.RESERVE", "5", "1", "q", "COUNT", "100"]);
    let OwnedFrame::Array(jobs) = reply else { panic!("{reply:?}") };
    let mut words = vec!["DELAY.ACK".to_owned(), "q".to_owned()];
    for job in &jobs {
        let OwnedFrame::Array(job) = job else { panic!("{job:?}") };
        for at in [1, 3] {
            let OwnedFrame::BulkString(text) = &job[at] else { panic!("{job:?}") };
            words.push(String::from_utf8_lossy(text).into_owned());
        }
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert_eq!(client.call(&words), OwnedFrame::Integer(jobs.len() as i64));
    jobs.len() as u64
}

/// From the start until commands are taken, with schedules and without.
fn restart(count: usize) {
    let took = |count: usize| {
        let mut server = Server::durable("always");
        if count > 0 {
            set_cron(&mut server.client(), count, b"created");
        }
        let mut least = f64::MAX;
        for _ in 0..5 {
            let began = server.kill_and_restart();
            let mut client = loop {
                std::thread::sleep(Duration::from_millis(1));
                if let Some(mut client) = server.try_client() {
                    let reply = client.call(&["DELAY.SCHEDULE", "LIST", "q", "COUNT", "1"]);
                    if matches!(reply, OwnedFrame::Array(_)) {
                        break client;
                    }
                }
            };
            let known = client.info("schedules");
            assert_eq!(known as usize, count);
            least = least.min(began.elapsed().as_secs_f64());
        }
        least
    };
    let (with, without) = (took(count), took(0));
    println!(
        "restart until commands are taken: {with:.2} s, {without:.2} s without schedules, {:.2} s more (asked 1)",
        with - without
    );
}
