//! How late jobs arrive: `cargo bench --bench lateness`.
//!
//! A producer adds jobs for chosen milliseconds ahead of time; a consumer is blocked in
//! `DELAY.RESERVE` and notes the wall clock when each arrives. Lateness is receipt − due time, so it
//! holds the server's timer, its work, two passes through the loopback and the client's wake-up.
//! Without a journal, and with one under each `appendfsync`: under `always` a delivery waits for its
//! sync. `DELAYD_BENCH_RATE` (default 10000 a second) and `DELAYD_BENCH_SECONDS` (default 10, each).

mod support;

use redis_protocol::resp2::types::OwnedFrame;
use support::{Client, Server, command, machine, now_us};

fn main() {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |value| value.parse().expect("a whole number"))
    };
    let rate = number("DELAYD_BENCH_RATE", 10_000);
    let seconds = number("DELAYD_BENCH_SECONDS", 10);
    println!("{}; {rate} jobs/s for {seconds} s, 100-byte bodies, one blocked consumer", machine());

    for fsync in ["", "no", "everysec", "always"] {
        measure(fsync, rate, seconds);
    }
}

/// With a journal under `fsync`, or without one.
fn measure(fsync: &str, rate: u64, seconds: u64) {
    let server = match fsync {
        "" => Server::delayd(&[]),
        _ => Server::durable(fsync),
    };
    println!("{}", if fsync.is_empty() { "no journal" } else { fsync });
    let (mut producer, consumer) = (server.client(), server.client());
    let first_ms = now_us() / 1_000 + 1_000;
    let total = rate * seconds;
    let consuming = std::thread::spawn(move || consume(consumer, total));
    produce(&mut producer, first_ms, rate, total);
    let mut late = consuming.join().expect("the consumer ends");

    late.sort_unstable();
    let at = |permille: usize| late[(late.len() - 1) * permille / 1_000] as f64 / 1_000.0;
    println!("jobs      {}", late.len());
    println!("earliest  {:.3} ms after its due time", at(0));
    println!("p50       {:.3} ms", at(500));
    println!("p99       {:.3} ms", at(990));
    println!("p99.9     {:.3} ms", at(999));
    println!("max       {:.3} ms", at(1_000));
    println!("server CPU {:.2} µs a job", server.cpu_seconds() * 1e6 / total as f64);
    assert!(late[0] >= 0, "a job came {} µs early", -late[0]);
}

/// Adds jobs about a second ahead of their time, in the pace in which they fall due.
fn produce(producer: &mut Client, first_ms: u64, rate: u64, total: u64) {
    let body = "x".repeat(100);
    let mut added = 0;
    while added < total {
        // What falls due until a second from now.
        let horizon_ms = now_us() / 1_000 + 1_000;
        let wanted = (horizon_ms.saturating_sub(first_ms) * rate / 1_000).min(total);
        let part = added..wanted.min(added + 1_000);
        let mut bytes = Vec::new();
        for number in part.clone() {
            let when = format!("@{}", first_ms + number * 1_000 / rate);
            command(&mut bytes, &["DELAY.ADD", "late", &when, &body]);
        }
        producer.send(&bytes);
        for _ in part {
            let reply = producer.receive();
            assert!(matches!(reply, OwnedFrame::BulkString(_)), "{reply:?}");
            added += 1;
        }
        if added == wanted {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}

/// Takes all jobs; returns by how many µs each was late.
fn consume(mut consumer: Client, total: u64) -> Vec<i64> {
    let mut late = Vec::with_capacity(total as usize);
    while (late.len() as u64) < total {
        let reply = consumer.call(&["DELAY.RESERVE", "20", "1", "late", "COUNT", "100", "NOACK"]);
        let received = now_us() as i64;
        let OwnedFrame::Array(jobs) = reply else { panic!("{reply:?}") };
        for job in jobs {
            let OwnedFrame::Array(fields) = job else { panic!("{job:?}") };
            let OwnedFrame::Integer(due_ms) = fields[5] else { panic!("{fields:?}") };
            late.push(received - due_ms * 1_000);
        }
    }
    late
}
