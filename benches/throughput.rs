//! `redis-benchmark -c 50 -P 16` against delayd and Redis in one run, alternating:
//! `cargo bench --bench throughput`.
//!
//! `DELAY.ADD` of a 100-byte body over 24 h up to 1 M pending jobs, beside `LPUSH` and `ZADD` of 1 M
//! random scores on Debian's redis-server. Medians over `DELAYD_BENCH_ROUNDS` (default 5) and the
//! resident memory per pending job. Needs redis-server and redis-benchmark on the PATH.

mod support;

use std::process::Command;

use redis_protocol::resp2::types::OwnedFrame;
use support::{Server, machine};

const JOBS: u64 = 1_000_000;

fn main() {
    let rounds = std::env::var("DELAYD_BENCH_ROUNDS")
        .map_or(5, |value| value.parse().expect("a whole number"));
    println!("{}; redis-benchmark -c 50 -P 16 -n {JOBS}, {rounds} rounds", machine());
    let body = "x".repeat(100);
    // 12 digits below 86,400,000: `-r` draws the delay in ms, so jobs spread over 24 h.
    let add = ["DELAY.ADD", "q", "__rand_int__", &body];
    let lpush = ["LPUSH", "l", &body];
    let zadd = ["ZADD", "z", "__rand_int__", "__rand_int__"];
    let mut rates = [const { Vec::new() }; 3];
    let mut memory = Vec::new();
    for round in 1..=rounds {
        let delayd = Server::delayd(&[]);
        let empty = delayd.resident();
        rates[0].push(run(&delayd, 86_400_000, &add));
        let reply = delayd.client().call(&["DELAY.LEN", "q"]);
        assert_eq!(reply, OwnedFrame::Integer(JOBS as i64), "all jobs are pending");
        memory.push((delayd.resident() - empty) as f64 / JOBS as f64);
        drop(delayd);
        let redis = Server::redis().expect("redis-server is installed");
        rates[1].push(run(&redis, 1_000_000, &lpush));
        rates[2].push(run(&redis, 1_000_000, &zadd));
        let last = rates.each_ref().map(|rates| *rates.last().expect("pushed"));
        println!(
            "round {round}: ADD {:.0}, LPUSH {:.0}, ZADD {:.0} a second",
            last[0], last[1], last[2]
        );
    }
    let [add, lpush, zadd] = rates.map(median);
    println!("DELAY.ADD {add:.0}/s, LPUSH {lpush:.0}/s, ZADD {zadd:.0}/s (medians)");
    println!("DELAY.ADD / LPUSH {:.2}, DELAY.ADD / ZADD {:.2}", add / lpush, add / zadd);
    println!("memory {:.1} bytes resident a pending job", median(memory));
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Requests a second, as redis-benchmark counts them.
fn run(server: &Server, range: u64, request: &[&str]) -> f64 {
    let output = Command::new("redis-benchmark")
        .args(["-p", &server.port.to_string(), "-c", "50", "-P", "16", "--csv"])
        .args(["-n", &JOBS.to_string(), "-r", &range.to_string()])
        .args(request)
        .output()
        .expect("redis-benchmark is installed");
    let csv = String::from_utf8_lossy(&output.stdout);
    let last = csv.lines().last().unwrap_or_default();
    let rate = last.split("\",\"").nth(1).and_then(|rate| rate.parse().ok());
    rate.unwrap_or_else(|| {
        panic!("redis-benchmark: {csv}{}", String::from_utf8_lossy(&output.stderr))
    })
}
