//! redis-rs with its own Sentinel support: a producer and a worker, which are told where the Sentinels are and nothing
//! else.

#[path = "../workload.rs"]
mod workload;

use redis::sentinel::{SentinelClient, SentinelServerType};
use redis::{Connection, cmd};
use std::time::Duration;
use workload::Queue;

/// A connection to whoever leads, and who knows that.
fn queue(sentinels: &str) -> Queue<Connection> {
    let sentinels = sentinels.split(',').map(|address| format!("redis://{address}/"));
    let (sentinels, master) = (sentinels.collect(), "delayd".to_owned());
    let mut sentinel =
        SentinelClient::build(sentinels, master, None, SentinelServerType::Master).unwrap();
    Queue::new(move || {
        let connection = sentinel.get_connection()?;
        connection.set_read_timeout(Some(Duration::from_millis(1500)))?;
        Ok(connection)
    })
}

fn main() {
    let sentinels = std::env::args().nth(1).expect("the Sentinels' addresses");
    let mut take = cmd("DELAY.RESERVE");
    take.arg(&["1", "1", "q", "LEASE", "5s"]);
    workload::run(queue(&sentinels), queue(&sentinels), take);
}
