//! What durability costs, beside Redis in the same run: `cargo bench --bench durability`, or a part
//! of it: `cargo bench --bench durability -- always everysec bytes recovery compaction`.
//!
//! - `always`: jobs a second that 50 connections add, 1 and 16 in flight each, 100-byte bodies;
//!   delayd's `DELAY.ADD` against `ZADD` and `HSET` sent together, both under `appendfsync always`.
//! - `everysec`: the same against delayd without a journal, and the longest pause that a client sees
//!   that pings every ms.
//! - `bytes`: what the journal grows by per job that is added, delivered and acknowledged.
//! - `recovery`: jobs a second from SIGKILL to the first answer, from a log and from a base, and the
//!   resident memory before and after.
//! - `compaction`: latencies under full load, without a base being written and with one after another.
//!
//! `DELAYD_BENCH_ROUNDS` (5), `DELAYD_BENCH_SECONDS` (3), `DELAYD_BENCH_JOBS` (1,000,000).

mod support;

use redis_protocol::resp2::types::{OwnedFrame, Resp2Frame};
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::{Server, command, machine};

const CONNECTIONS: usize = 50;

fn main() {
    let parts: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    println!("{}", machine());
    let all: [(&str, fn()); 5] = [
        ("always", always),
        ("everysec", everysec),
        ("bytes", bytes),
        ("recovery", recovery),
        ("compaction", compaction),
    ];
    all.into_iter().filter(|(part, _)| wanted(part)).for_each(|(_, run)| run());
}

fn number(variable: &str, or: u64) -> u64 {
    std::env::var(variable).map_or(or, |value| value.parse().expect("a whole number"))
}

fn rounds() -> u64 {
    number("DELAYD_BENCH_ROUNDS", 5)
}

fn seconds() -> Duration {
    Duration::from_secs(number("DELAYD_BENCH_SECONDS", 3))
}

fn jobs() -> u64 {
    number("DELAYD_BENCH_JOBS", 1_000_000)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The requests of one job, whose replies have two lines in all.
type Requests = fn(&mut Vec<u8>, u64);

fn add(out: &mut Vec<u8>, job: u64) {
    // Spread over a day by a multiplicative hash.
    let delay_ms = 3_600_000 + job.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 86_400_000;
    command(out, &["DELAY.ADD", "q", &delay_ms.to_string(), BODY]);
}

fn zadd_hset(out: &mut Vec<u8>, job: u64) {
    let score = job.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 86_400_000;
    let id = format!("job:{job:012}");
    command(out, &["ZADD", "z", &score.to_string(), &id]);
    command(out, &["HSET", "h", &id, BODY]);
}

const BODY: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
                    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

struct Connection {
    stream: TcpStream,
    /// Lines of replies still to come.
    lines: usize,
}

/// Keeps `pipeline` jobs in flight on each of 50 connections until `more` says no; jobs a second.
fn load(port: u16, requests: Requests, pipeline: usize, more: &dyn Fn(u64) -> bool) -> f64 {
    let connect = |_| {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
        stream.set_nodelay(true).expect("an option of every socket");
        Connection { stream, lines: 0 }
    };
    let mut connections: Vec<Connection> = (0..CONNECTIONS).map(connect).collect();
    let (mut sent, mut done, mut out) = (0, 0, Vec::new());
    let mut input = vec![0; 64 << 10];
    let began = Instant::now();
    loop {
        let going = more(done);
        if going {
            for connection in connections.iter_mut().filter(|connection| connection.lines == 0) {
                out.clear();
                for _ in 0..pipeline {
                    requests(&mut out, sent);
                    sent += 1;
                }
                connection.lines = 2 * pipeline;
                connection.stream.write_all(&out).expect("the server reads");
            }
        }
        let waiting: Vec<usize> =
            (0..CONNECTIONS).filter(|at| connections[*at].lines > 0).collect();
        if waiting.is_empty() {
            return done as f64 / began.elapsed().as_secs_f64();
        }
        let mut fds: Vec<PollFd<'_>> =
            waiting.iter().map(|at| PollFd::new(&connections[*at].stream, PollFlags::IN)).collect();
        poll(&mut fds, None).expect("poll");
        let readable: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (at, _) in waiting.into_iter().zip(readable).filter(|(_, readable)| *readable) {
            let connection = &mut connections[at];
            let count = connection.stream.read(&mut input).expect("replies come");
            assert!(count > 0, "the server closed the connection");
            assert!(
                !input[..count].starts_with(b"-"),
                "{}",
                String::from_utf8_lossy(&input[..count])
            );
            connection.lines -= input[..count].iter().filter(|byte| **byte == b'\n').count();
            if connection.lines == 0 {
                done += pipeline as u64;
            }
        }
    }
}

fn load_for(port: u16, requests: Requests, pipeline: usize, time: Duration) -> f64 {
    let began = Instant::now();
    load(port, requests, pipeline, &|_| began.elapsed() < time)
}

fn always() {
    for pipeline in [1, 16] {
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds() {
            let delayd = Server::durable("always");
            ours.push(load_for(delayd.port, add, pipeline, seconds()));
            drop(delayd);
            let options = ["--appendonly", "yes", "--appendfsync", "always"];
            let redis = Server::redis_with(&options).expect("redis-server is installed");
            theirs.push(load_for(redis.port, zadd_hset, pipeline, seconds()));
            ratios.push(ours[ours.len() - 1] / theirs[theirs.len() - 1]);
        }
        println!(
            "always, {CONNECTIONS} connections, pipeline {pipeline}: delayd {:.0} jobs/s, Redis (ZADD + HSET) \
             {:.0} jobs/s, ratio {:.2} (medians of {})",
            median(&mut ours),
            median(&mut theirs),
            median(&mut ratios),
            rounds()
        );
    }
}

/// Pings every ms until told to stop; the waits in µs.
fn ping(port: u16, stop: &AtomicBool) -> Vec<f64> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    stream.set_nodelay(true).expect("an option of every socket");
    let mut waits = Vec::new();
    let mut next = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        // A rate, not a wait for something.
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let began = Instant::now();
        stream.write_all(b"PING\r\n").expect("the server reads");
        stream.read_exact(&mut [0; 7]).expect("it answers");
        waits.push(began.elapsed().as_secs_f64() * 1e6);
        // One that took longer than a ms is followed by the next at once: a pause is one long wait.
        next = (next + Duration::from_millis(1)).max(Instant::now());
    }
    waits.sort_by(f64::total_cmp);
    waits
}

fn at(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

fn everysec() {
    for pipeline in [1, 16] {
        let (mut with, mut without, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        let mut pauses = Vec::new();
        for _ in 0..rounds() {
            for (fsync, rates) in [("everysec", &mut with), ("", &mut without)] {
                let server = match fsync {
                    "" => Server::delayd(&[]),
                    _ => Server::durable(fsync),
                };
                rates.push(load_for(server.port, add, pipeline, seconds()));
            }
            ratios.push(with[with.len() - 1] / without[without.len() - 1]);
            for fsync in ["everysec", ""] {
                let server = match fsync {
                    "" => Server::delayd(&[]),
                    _ => Server::durable(fsync),
                };
                let stop = AtomicBool::new(false);
                let waits = std::thread::scope(|scope| {
                    let pings = scope.spawn(|| ping(server.port, &stop));
                    load_for(server.port, add, pipeline, seconds());
                    stop.store(true, Ordering::Relaxed);
                    pings.join().expect("it pings")
                });
                pauses.push((fsync, at(&waits, 0.99) / 1e3, at(&waits, 1.0) / 1e3));
            }
        }
        println!(
            "everysec, {CONNECTIONS} connections, pipeline {pipeline}: {:.0} jobs/s, without a journal {:.0} jobs/s, \
             ratio {:.2} (medians of {})",
            median(&mut with),
            median(&mut without),
            median(&mut ratios),
            rounds()
        );
        for (fsync, label) in [("everysec", "everysec"), ("", "no journal")] {
            let of = pauses.iter().filter(|(of, ..)| *of == fsync);
            let (p99, longest): (Vec<_>, Vec<_>) = of.map(|(_, p99, max)| (*p99, *max)).unzip();
            println!("  a ping every ms, {label}: p99 {p99:.1?} ms, longest {longest:.1?} ms");
        }
    }
}

fn bytes() {
    let server = Server::durable("always");
    let mut client = server.client();
    let before = client.info("journal_log_bytes");
    let count = 100_000u64;
    load(server.port, |out, _| command(out, &["DELAY.ADD", "q", "0", BODY]), 16, &|done| {
        done < count
    });
    let mut done = 0u64;
    while let OwnedFrame::Array(jobs) =
        client.call(&["DELAY.RESERVE", "NOWAIT", "1", "q", "COUNT", "100"])
    {
        let mut words = vec!["DELAY.ACK".to_owned(), "q".to_owned()];
        for job in jobs {
            let OwnedFrame::Array(fields) = job else { panic!("a job is an array") };
            words.push(fields[1].as_str().expect("an id").to_owned());
            words.push(fields[3].as_str().expect("a token").to_owned());
            done += 1;
        }
        client.call(&words.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let grown = client.info("journal_log_bytes") - before;
    println!(
        "bytes a job added (100-byte body), delivered and acknowledged, 100 at a time: {:.1}",
        grown as f64 / done as f64
    );
}

fn recovery() {
    let count = jobs();
    for based in [false, true] {
        let mut server = Server::durable("everysec");
        load(server.port, add, 16, &|done| done < count);
        let mut client = server.client();
        if based {
            client.call(&["SAVE"]);
        }
        client.call(&["WAITAOF", "1", "0", "0"]);
        let held = client.call(&["DELAY.LEN", "q"]);
        let before = server.resident();
        // The log of the loading says how long that took; this is what an operator waits.
        let began = Instant::now();
        server.kill_and_restart();
        let ready = loop {
            if let Ok(stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)) {
                drop(stream);
                let reply = server.client().call(&["DELAY.LEN", "q"]);
                if reply == held {
                    break began.elapsed();
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let OwnedFrame::Integer(held) = held else { panic!("LEN is an integer") };
        println!(
            "recovery of {held} jobs from {}: {:.2} s, {:.2} M jobs/s; resident {:.1} MiB before, {:.1} MiB after ({:+.1} %)",
            if based { "a base" } else { "the log" },
            ready.as_secs_f64(),
            held as f64 / ready.as_secs_f64() / 1e6,
            before as f64 / 1048576.0,
            server.resident() as f64 / 1048576.0,
            (server.resident() as f64 / before as f64 - 1.0) * 100.0
        );
    }
}

/// The waits of a probe that adds, reads and pings by turns while others add at full load, ms: the
/// 99th per cent, and the longest.
fn probe(server: &Server, compact: bool) -> (f64, f64, u64) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let probe = scope.spawn(|| {
            let mut client = server.client();
            let mut waits = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                for words in
                    [&["PING"][..], &["DELAY.LEN", "q"], &["DELAY.ADD", "probe", "1h", "x"]]
                {
                    let began = Instant::now();
                    client.call(words);
                    waits.push(began.elapsed().as_secs_f64() * 1e3);
                }
            }
            waits.sort_by(f64::total_cmp);
            waits
        });
        let bases = scope.spawn(|| {
            let mut client = server.client();
            let before = client.info("aof_rewrites");
            while compact && !stop.load(Ordering::Relaxed) {
                client.call(&["SAVE"]);
            }
            client.info("aof_rewrites") - before
        });
        load_for(server.port, add, 16, seconds());
        stop.store(true, Ordering::Relaxed);
        let waits = probe.join().expect("it asks");
        (at(&waits, 0.99), at(&waits, 1.0), bases.join().expect("it saves"))
    })
}

fn compaction() {
    for fsync in ["always", "everysec"] {
        let server = Server::durable(fsync);
        load(server.port, add, 16, &|done| done < jobs());
        let (mut raised, mut calm, mut busy) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds() {
            let (without, _, _) = probe(&server, false);
            let (with, longest, bases) = probe(&server, true);
            raised.push(with - without);
            calm.push(without);
            busy.push(with);
            println!(
                "  {fsync}: p99 {without:.2} ms, with {bases} bases {with:.2} ms, longest {longest:.1} ms"
            );
        }
        println!(
            "compaction under full load, {fsync}: p99 of other commands {:.2} ms without, {:.2} ms with, raised by \
             {:.2} ms (medians of {})",
            median(&mut calm),
            median(&mut busy),
            median(&mut raised),
            rounds()
        );
    }
}
