use redis::{Client, RedisError, RedisResult, Value, cmd, from_redis_value_ref};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::{thread, time::Duration};

fn work(body: &[u8]) -> Result<(), String> {
    println!("{}", String::from_utf8_lossy(body));
    Ok(())
}

fn consume(client: &Client) -> RedisResult<()> {
    let mut queue = client.get_connection_with_timeout(Duration::from_secs(1))?;
    queue.set_read_timeout(Some(Duration::from_secs(2)))?; // a second longer than the server's wait
    loop {
        let jobs: Option<Vec<Vec<Value>>> =
            cmd("DELAY.RESERVE").arg(&["1", "1", "emails", "LEASE", "60s"]).query(&mut queue)?;
        for job in jobs.unwrap_or_default() {
            let id: String = from_redis_value_ref(&job[1])?;
            let body: Vec<u8> = from_redis_value_ref(&job[2])?;
            let token: String = from_redis_value_ref(&job[3])?;

            // Another thread and connection push the lease out while the work goes on.
            let (done, working) = channel::<()>();
            let extender = {
                let (client, id, token) = (client.clone(), id.clone(), token.clone());
                thread::spawn(move || {
                    while working.recv_timeout(Duration::from_secs(20))
                        == Err(RecvTimeoutError::Timeout)
                    {
                        let mut queue = client.get_connection()?;
                        let extend = ["emails", &id, &token, "60s"];
                        cmd("DELAY.EXTEND").arg(&extend).query::<Option<u64>>(&mut queue)?;
                    }
                    Ok::<(), RedisError>(())
                })
            };
            let outcome = work(&body);
            drop(done);
            let _ = extender.join();

            let told: u32 = match outcome {
                Ok(()) => cmd("DELAY.ACK").arg(&["emails", &id, &token]).query(&mut queue)?,
                Err(error) => cmd("DELAY.NACK")
                    .arg(&["emails", &id, &token, "ERROR", &error])
                    .query(&mut queue)?,
            };
            if told == 0 {
                eprintln!("{id}: the lease was lost, another consumer has the job");
            }
        }
    }
}

fn main() -> RedisResult<()> {
    let url = std::env::args().nth(1).unwrap_or("redis://127.0.0.1:9248/".to_owned());
    let client = Client::open(url)?;
    loop {
        if let Err(error) = consume(&client) {
            eprintln!("{error}; the leases run on, what was not acknowledged comes again");
            thread::sleep(Duration::from_secs(1));
        }
    }
}
