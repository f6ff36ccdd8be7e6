//! redis-rs's cluster client, which is told where three nodes are: what it can do, then a producer and a worker.

#[path = "../workload.rs"]
mod workload;

use redis::cluster::{ClusterClient, ClusterConnection, ClusterPipeline};
use redis::{Cmd, RedisResult, Value, cmd};
use std::time::{Duration, Instant};
use std::{io, thread};
use workload::Queue;

fn client() -> ClusterClient {
    let nodes = std::env::args().nth(1).expect("the nodes' addresses");
    let nodes = nodes.split(',').map(|address| format!("redis://{address}/"));
    ClusterClient::builder(nodes)
        .response_timeout(Duration::from_millis(1500))
        .connection_timeout(Duration::from_millis(300))
        .build()
        .unwrap()
}

fn add(name: &str) -> Cmd {
    let mut add = cmd("DELAY.ADD");
    add.arg(&[name, "0", "x"]);
    add
}

fn together(
    connection: &mut ClusterConnection,
    names: &[&str],
    atomic: bool,
) -> RedisResult<String> {
    if atomic {
        let mut pipeline = redis::pipe();
        pipeline.atomic();
        for name in names {
            pipeline.add_command(add(name)).ignore();
        }
        return pipeline.query::<()>(connection).map(|()| String::new());
    }
    let mut pipeline = ClusterPipeline::new();
    for name in names {
        pipeline.add_command(add(name)).ignore();
    }
    pipeline.query::<()>(connection).map(|()| String::new())
}

fn wait_and_add(client: &ClusterClient) -> RedisResult<String> {
    let (mut waits, mut adds) = (client.get_connection()?, client.get_connection()?);
    let waiting =
        thread::spawn(move || cmd("DELAY.LEASE").arg(&["empty", "1"]).query::<Value>(&mut waits));
    thread::sleep(Duration::from_millis(100));
    let began = Instant::now();
    add("other").query::<Value>(&mut adds)?;
    let took = began.elapsed();
    waiting.join().unwrap()?;
    let long = took > Duration::from_millis(300);
    Ok(format!("an add beside it took {}", if long { "its time, too" } else { "no time" }))
}

fn check() {
    let client = client();
    let mut connection = client.get_connection().unwrap();
    let said = |words: &[&str], connection: &mut ClusterConnection| {
        cmd(words[0]).arg(&words[1..]).query::<Value>(connection).map(|_| String::new())
    };
    said(&["DELAY.LEN", "q"], &mut connection).unwrap();
    let mut line = String::new();
    for name in ["add", "lease", "reserve", "pipeline", "multi", "wait", "keyless"] {
        let found = match name {
            "add" => said(&["DELAY.ADD", "q", "0", "x"], &mut connection),
            "lease" => said(&["DELAY.LEASE", "q", "NOWAIT"], &mut connection),
            "reserve" => said(&["DELAY.RESERVE", "NOWAIT", "1", "q"], &mut connection),
            "pipeline" => together(&mut connection, &["q1", "q2", "q3"], false),
            "multi" => together(&mut connection, &["{t}:a", "{t}:b"], true),
            "wait" => wait_and_add(&client),
            _ => said(&["DELAY.QUEUES"], &mut connection),
        };
        match found {
            Ok(text) if text.is_empty() => println!("checked {name} right"),
            Ok(text) => println!("checked {name} right: {text}"),
            Err(error) => println!("checked {name} {error}"),
        }
        io::stdin().read_line(&mut line).unwrap();
    }
}

fn main() {
    check();
    let queue = || {
        let client = client();
        Queue::new(move || client.get_connection())
    };
    let mut take = cmd("DELAY.LEASE");
    take.arg(&["q", "1", "LEASE", "5s"]);
    workload::run(queue(), queue(), take);
}
