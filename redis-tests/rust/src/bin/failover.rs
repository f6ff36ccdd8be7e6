//! redis-rs with its own Sentinel support: a producer and a worker, which are told where the Sentinels are and nothing
//! else.

use redis::sentinel::{SentinelClient, SentinelServerType};
use redis::{Cmd, Connection, FromRedisValue, RedisResult, Value, cmd, from_redis_value_ref};
use std::{io, io::Read, thread, time::Duration};

/// A connection to whoever leads, and who knows that.
struct Queue {
    sentinel: SentinelClient,
    connection: Option<Connection>,
}

impl Queue {
    fn new(sentinels: &str) -> Queue {
        let sentinels = sentinels.split(',').map(|address| format!("redis://{address}/"));
        let (sentinels, master) = (sentinels.collect(), "delayd".to_owned());
        let sentinel =
            SentinelClient::build(sentinels, master, None, SentinelServerType::Master).unwrap();
        Queue { sentinel, connection: None }
    }

    fn try_call<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => {
                let connection = self.sentinel.get_connection()?;
                connection.set_read_timeout(Some(Duration::from_millis(1500)))?;
                none.insert(connection)
            }
        };
        command.query(connection)
    }

    fn call<T: FromRedisValue>(&mut self, command: &Cmd) -> T {
        loop {
            match self.try_call(command) {
                Ok(reply) => return reply,
                Err(error) => println!("{error}"),
            }
            self.connection = None;
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn produce(mut queue: Queue) {
    for number in 1.. {
        let id = format!("job:{number}");
        let add = ["q", "0", "x", "ID", &id, "NX"];
        queue.call::<Value>(cmd("DELAY.ADD").arg(&add));
        println!("added {number}");
    }
}

fn work(mut queue: Queue) {
    loop {
        let jobs: Option<Vec<Vec<Value>>> =
            queue.call(cmd("DELAY.RESERVE").arg(&["1", "1", "q", "LEASE", "5s"]));
        for job in jobs.unwrap_or_default() {
            let id: String = from_redis_value_ref(&job[1]).unwrap();
            let token: String = from_redis_value_ref(&job[3]).unwrap();
            let number = id.strip_prefix("job:").unwrap();
            println!("taken {number}");
            queue.call::<u32>(cmd("DELAY.ACK").arg(&["q", &id, &token]));
            println!("done {number}");
        }
    }
}

fn main() {
    let sentinels = std::env::args().nth(1).expect("the Sentinels' addresses");
    let (producing, working) = (Queue::new(&sentinels), Queue::new(&sentinels));
    thread::spawn(|| produce(producing));
    thread::spawn(|| work(working));
    io::stdin().read_to_end(&mut Vec::new()).unwrap();
}
