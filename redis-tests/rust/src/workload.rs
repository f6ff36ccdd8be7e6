//! What the programs of redis-rs do while leaders end: a producer and a worker, which try again until they are answered.

use redis::{Cmd, ConnectionLike, FromRedisValue, RedisResult, Value, cmd, from_redis_value_ref};
use std::{io, io::Read, thread, time::Duration};

type Connect<C> = Box<dyn FnMut() -> RedisResult<C> + Send>;

/// One call after the other; a connection that fails is made anew.
pub struct Queue<C> {
    connect: Connect<C>,
    connection: Option<C>,
}

impl<C: ConnectionLike> Queue<C> {
    pub fn new(connect: impl FnMut() -> RedisResult<C> + Send + 'static) -> Queue<C> {
        Queue { connect: Box::new(connect), connection: None }
    }

    fn try_call<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert((self.connect)()?),
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

fn produce(mut queue: Queue<impl ConnectionLike>) {
    for number in 1.. {
        let id = format!("job:{number}");
        queue.call::<Value>(cmd("DELAY.ADD").arg(&["q", "0", "x", "ID", &id, "NX"]));
        println!("added {number}");
    }
}

fn work(mut queue: Queue<impl ConnectionLike>, take: &Cmd) {
    loop {
        let jobs: Option<Vec<Vec<Value>>> = queue.call(take);
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

/// Until the input ends; `take` leases a job of q.
pub fn run<C: ConnectionLike + Send + 'static>(producing: Queue<C>, working: Queue<C>, take: Cmd) {
    thread::spawn(|| produce(producing));
    thread::spawn(move || work(working, &take));
    io::stdin().read_to_end(&mut Vec::new()).unwrap();
}
