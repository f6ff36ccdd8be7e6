//! Two partitions of one process beside one: `cargo bench --bench versus -- spread`. On few cores the generator takes what
//! a second partition could use, so what counts is processor time: what one partition does with a core, two do with two,
//! times what a command costs less or more.

use crate::flood::Flood;
use crate::many::{BODY, FAR_MS};
use crate::median;
use crate::report::{Asked, Report};
use crate::rounds;
use crate::support::{Server, binary, now_us, place};
use crate::system::{Sync, System};
use crate::wire::{Word, bulks, request};
use delayd::hash_slot::{hash_slot, partition_of};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

/// Clients and their requests in flight, and how many they add.
const LOADS: [(&str, usize, usize, u64); 2] =
    [("clients that wait, 64 × 1", 64, 1, 100_000), ("pipelines, 50 × 16", 50, 16, 800_000)];

pub fn spread(report: &mut Report) {
    for sync in [Sync::Always, Sync::Everysec] {
        for (load, connections, pipeline, count) in LOADS {
            let cost = |partitions: u16| cost_us(partitions, sync, (connections, pipeline, count));
            let pairs: Vec<(f64, f64)> = (0..rounds()).map(|_| (cost(1), cost(2))).collect();
            let [one, two] = [0, 1].map(|at| {
                median(pairs.iter().map(|pair| if at == 0 { pair.0 } else { pair.1 }).collect())
            });
            let capacity = median(pairs.iter().map(|(one, two)| 2.0 * one / two).collect());
            let work = format!("add, {load}, {}", sync.word());
            report.versus(
                &work,
                "µs CPU with 2 partitions",
                two,
                ("1 partition", one),
                Asked::Nothing,
            );
            let work = format!("{work}: capacity of two cores");
            report.versus(&work, "× of one", capacity, ("1 partition", 1.0), Asked::Least(1.6));
        }
    }
}

/// Processor time of an add, µs, all threads together.
fn cost_us(
    partitions: u16,
    sync: Sync,
    (connections, pipeline, count): (usize, usize, u64),
) -> f64 {
    // Below the ports that connections get: the one after it must be free, too.
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let port = 24_000 + std::process::id() as u16 % 4_000 + NEXT.fetch_add(2, Ordering::Relaxed);
    let (_, dir) = place();
    let mut command = Command::new(binary());
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--dir"]).arg(&dir);
    command.args(["--loglevel", "warning", "--maxmemory", "0", "--appendfsync", sync.word()]);
    command.args(["--cluster-enabled", "yes", "--cluster-partitions", &partitions.to_string()]);
    let server = Server::spawn(command, port, dir);
    server.client().call(&["PING"]);
    let (each, due_ms) = (count / u64::from(partitions), now_us() / 1_000 + FAR_MS);
    let before = server.cpu_seconds();
    std::thread::scope(|scope| {
        for partition in 0..partitions {
            let server = &server;
            scope.spawn(move || {
                let queue = queue_of(partition, partitions);
                let due = format!("@{due_ms}");
                let mut write = |out: &mut Vec<u8>, number: u64| {
                    let id = number.to_string();
                    let words: [Word<'_>; 6] = [
                        "DELAY.ADD".into(),
                        (*queue).into(),
                        (*due).into(),
                        BODY.into(),
                        "ID".into(),
                        (*id).into(),
                    ];
                    request(out, &words);
                };
                let mut added = 0;
                let mut check = |reply: &[u8]| {
                    assert!(bulks(reply).count() == 1, "{}", reply.escape_ascii());
                    added += 1;
                };
                let flood = Flood {
                    system: System::Delayd,
                    connections: connections / usize::from(partitions),
                    pipeline,
                    replies: 1,
                    count: each,
                    write: &mut write,
                    check: &mut check,
                };
                flood.run_at(server, partition, &AtomicBool::new(false));
                assert_eq!(added, each);
            });
        }
    });
    (server.cpu_seconds() - before) * 1e6 / count as f64
}

fn queue_of(partition: u16, partitions: u16) -> String {
    let is_its =
        |queue: &String| partition_of(hash_slot(queue.as_bytes()), partitions) == partition;
    (0..).map(|n| format!("q{n}")).find(is_its).expect("each partition has names")
}
