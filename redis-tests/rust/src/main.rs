//! redis-rs, in RESP2 as is its default and in RESP3 on request. One line per check.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{self, Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::{Client, Connection, ErrorKind, FromRedisValue, RedisResult, Value, cmd, pipe};

/// What `DELAY.RESERVE` tells of a job; later versions may append elements.
type Job = (String, String, Vec<u8>, String, u32, u64, u64);

fn main() -> ExitCode {
    let host = env::var("DELAYD_HOST").unwrap_or_else(|_| "127.0.0.1".to_owned());
    let port = env::var("DELAYD_PORT").unwrap_or_else(|_| "9248".to_owned());
    let mut suite = Suite { failed: 0 };
    for (protocol, query) in [("RESP2", ""), ("RESP3", "?protocol=resp3")] {
        let url = format!("redis://{host}:{port}/{query}");
        suite.check(&format!("{protocol}: connect with the defaults"), || connect(&url));
        suite
            .check(&format!("{protocol}: a database in the URL"), || database(&host, &port, query));
        suite.check(&format!("{protocol}: add, pop when due, never early"), || pop(&url));
        suite.check(&format!("{protocol}: errors carry their class"), || errors(&url));
        suite.check(&format!("{protocol}: reserve, extend, acknowledge"), || reserve(&url));
        suite.check(&format!("{protocol}: nack, dead letter"), || nack(&url));
        suite.check(&format!("{protocol}: pipeline and transaction"), || pipelines(&url));
        suite.check(&format!("{protocol}: a wait within the read timeout"), || timeouts(&url));
        suite.check(&format!("{protocol}: a killed connection is replaced by a new one"), || {
            killed(&url)
        });
        match env::var("DELAYD_BIN") {
            Ok(binary) => suite
                .check(&format!("{protocol}: after a restart of the server"), || {
                    restart(&binary, query)
                }),
            Err(_) => println!(
                "skip - {protocol}: after a restart of the server: only a running one is given"
            ),
        }
    }
    suite.check("threads: twenty waiters, twenty jobs, each taken once", || {
        herd(&format!("redis://{host}:{port}/"))
    });
    ExitCode::from(u8::from(suite.failed > 0))
}

struct Suite {
    failed: u32,
}

impl Suite {
    fn check(&mut self, name: &str, body: impl FnOnce() -> RedisResult<()>) {
        let started = Instant::now();
        match catch_unwind(AssertUnwindSafe(body)) {
            Ok(Ok(())) => println!("ok - {name} ({} ms)", started.elapsed().as_millis()),
            Ok(Err(error)) => self.fail(name, &error.to_string()),
            Err(_) => self.fail(name, "an assertion failed, see above"),
        }
    }

    fn fail(&mut self, name: &str, why: &str) {
        self.failed += 1;
        println!("not ok - {name}: {why}");
    }
}

fn connect(url: &str) -> RedisResult<()> {
    let mut c = open(url)?;
    assert_eq!(cmd("PING").query::<String>(&mut c)?, "PONG");
    let info: String = cmd("INFO").arg("server").query(&mut c)?;
    assert!(info.contains("delayd_version:"), "{info}");
    Ok(())
}

fn database(host: &str, port: &str, query: &str) -> RedisResult<()> {
    let q = queue();
    let mut third = open(&format!("redis://{host}:{port}/3{query}"))?;
    let mut first = open(&format!("redis://{host}:{port}/0{query}"))?;
    add(&mut third, &q, "1h", "x", "a")?;
    assert!(cmd("EXISTS").arg(&q).query::<bool>(&mut third)?);
    assert!(!cmd("EXISTS").arg(&q).query::<bool>(&mut first)?);
    Ok(())
}

fn pop(url: &str) -> RedisResult<()> {
    let (mut c, q) = (open(url)?, queue());
    let due = now_ms() + 150;
    add(&mut c, &q, &format!("@{due}"), "x", "a")?;
    let job: (String, String, String) = cmd("DELAY.POP").arg(&q).arg(5).query(&mut c)?;
    let now = now_ms();
    assert!(now >= due && now < due + 500, "{now} is not shortly after {due}");
    assert_eq!(job, (q.clone(), "a".to_owned(), "x".to_owned()));
    let nothing: Option<(String, String, String)> =
        cmd("DELAY.POP").arg(&q).arg(0.1).query(&mut c)?;
    assert_eq!(nothing, None);
    Ok(())
}

fn errors(url: &str) -> RedisResult<()> {
    let (mut c, q) = (open(url)?, queue());
    add(&mut c, &q, "1h", "x", "a")?;
    let taken = add(&mut c, &q, "1h", "x", "a").unwrap_err();
    assert_eq!(taken.code(), Some("EXISTS"));
    let kept: Option<String> =
        cmd("DELAY.ADD").arg(&[&q, "1h", "x", "ID", "a", "NX"]).query(&mut c)?;
    assert_eq!(kept, None);
    let malformed = add(&mut c, &q, "-1", "x", "b").unwrap_err();
    assert_eq!(malformed.kind(), ErrorKind::Server(redis::ServerErrorKind::ResponseError));
    assert_eq!(cmd("DELAY.LEN").arg(&q).query::<u64>(&mut c)?, 1);
    Ok(())
}

fn reserve(url: &str) -> RedisResult<()> {
    let (mut c, q) = (open(url)?, queue());
    add(&mut c, &q, "0", "x", "a")?;
    let (name, id, body, token, attempt, _, end) = take(&mut c, &q, "5s")?;
    assert_eq!((name, id, body, attempt), (q.clone(), "a".to_owned(), b"x".to_vec(), 1));
    let later: u64 = cmd("DELAY.EXTEND").arg(&[&q, "a", &token, "1m"]).query(&mut c)?;
    assert!(later > end);
    assert_eq!(cmd("DELAY.ACK").arg(&[&q, "a", &token]).query::<u64>(&mut c)?, 1);
    assert_eq!(cmd("DELAY.ACK").arg(&[&q, "a", &token]).query::<u64>(&mut c)?, 0);
    let over: Option<u64> = cmd("DELAY.EXTEND").arg(&[&q, "a", &token, "1m"]).query(&mut c)?;
    assert_eq!(over, None);
    Ok(())
}

fn nack(url: &str) -> RedisResult<()> {
    let (mut c, q) = (open(url)?, queue());
    let options = ["ID", "a", "ATTEMPTS", "2", "BACKOFF", "50ms"];
    cmd("DELAY.ADD").arg(&[&q, "0", "x"]).arg(&options).query::<String>(&mut c)?;
    for attempt in 1..=2 {
        let job = take(&mut c, &q, "5s")?;
        assert_eq!(job.4, attempt);
        let nacked: u64 =
            cmd("DELAY.NACK").arg(&[&q, "a", &job.3, "ERROR", "no route"]).query(&mut c)?;
        assert_eq!(nacked, 1);
    }
    let dead: std::collections::HashMap<String, Value> =
        cmd("DELAY.GET").arg(&[&q, "a"]).query(&mut c)?;
    assert_eq!(String::from_redis_value_ref(&dead["reason"])?, "attempts");
    assert_eq!(cmd("DELAY.LEN").arg(&[&q, "DEAD"]).query::<u64>(&mut c)?, 1);
    Ok(())
}

fn pipelines(url: &str) -> RedisResult<()> {
    for atomic in [false, true] {
        let (mut c, q) = (open(url)?, queue());
        let mut batch = pipe();
        if atomic {
            batch.atomic();
        }
        for n in 0..100 {
            batch.cmd("DELAY.ADD").arg(&[&q, "0", "x"]).arg("ID").arg(n);
        }
        let ids: Vec<String> = batch.query(&mut c)?;
        assert_eq!((ids.len(), ids[99].as_str()), (100, "99"));
        let mut batch = pipe();
        batch.atomic().cmd("DELAY.POP").arg(&q).arg(5).cmd("DELAY.POP").arg(queue()).arg(5);
        let replies: (Vec<String>, Option<Vec<String>>) = batch.query(&mut c)?;
        assert_eq!(replies, (vec![q, "0".to_owned(), "x".to_owned()], None));
    }
    Ok(())
}

fn timeouts(url: &str) -> RedisResult<()> {
    let (mut c, q) = (open(url)?, queue());
    c.set_read_timeout(Some(Duration::from_millis(800)))?;
    let nothing: Option<Vec<String>> = cmd("DELAY.POP").arg(&q).arg(0.3).query(&mut c)?;
    assert_eq!(nothing, None);
    let hasty: RedisResult<Option<Vec<String>>> = cmd("DELAY.POP").arg(&q).arg(5).query(&mut c);
    assert!(hasty.unwrap_err().is_timeout());
    drop(c);
    // The one who gave up and went takes nothing with it.
    let mut other = open(url)?;
    add(&mut other, &q, "0", "x", "a")?;
    assert_eq!(take(&mut other, &q, "5s")?.1, "a");
    Ok(())
}

fn killed(url: &str) -> RedisResult<()> {
    let client = Client::open(url)?;
    let (mut victim, mut control) = (client.get_connection()?, client.get_connection()?);
    let id: u64 = cmd("CLIENT").arg("ID").query(&mut victim)?;
    let count: u64 = cmd("CLIENT").arg("KILL").arg("ID").arg(id).query(&mut control)?;
    assert_eq!(count, 1);
    let lost = cmd("PING").query::<String>(&mut victim).unwrap_err();
    assert!(lost.is_connection_dropped(), "{lost}");
    let mut again = client.get_connection()?;
    assert_eq!(cmd("PING").query::<String>(&mut again)?, "PONG");
    Ok(())
}

fn restart(binary: &str, query: &str) -> RedisResult<()> {
    let mut server = Server::start(binary);
    let client = Client::open(format!("redis://127.0.0.1:{}/{query}", server.port))?;
    let mut before = client.get_connection()?;
    assert_eq!(cmd("PING").query::<String>(&mut before)?, "PONG");
    server.restart();
    assert!(cmd("PING").query::<String>(&mut before).is_err());
    let mut after = client.get_connection()?;
    add(&mut after, "q", "100ms", "x", "a")?;
    assert_eq!(take(&mut after, "q", "5s")?.1, "a");
    Ok(())
}

fn herd(url: &str) -> RedisResult<()> {
    let (mut c, q) = (open(url)?, queue());
    let waiters: Vec<_> = (0..20)
        .map(|_| {
            let (mut c, q) = (open(url).unwrap(), q.clone());
            thread::spawn(move || {
                cmd("DELAY.POP").arg(&q).arg(5).query::<(String, String, u32)>(&mut c)
            })
        })
        .collect();
    let due = now_ms() + 200;
    for n in 0..20 {
        cmd("DELAY.ADD").arg(&q).arg(format!("@{due}")).arg(n).query::<String>(&mut c)?;
    }
    let mut got = Vec::new();
    for waiter in waiters {
        got.push(waiter.join().unwrap()?.2);
    }
    assert!(now_ms() >= due);
    got.sort_unstable();
    assert_eq!(got, (0..20).collect::<Vec<u32>>());
    Ok(())
}

fn open(url: &str) -> RedisResult<Connection> {
    Client::open(url)?.get_connection()
}

fn add(c: &mut Connection, queue: &str, when: &str, body: &str, id: &str) -> RedisResult<String> {
    cmd("DELAY.ADD").arg(&[queue, when, body, "ID", id]).query(c)
}

fn take(c: &mut Connection, queue: &str, lease: &str) -> RedisResult<Job> {
    let mut jobs: Vec<Job> =
        cmd("DELAY.RESERVE").arg(&["2", "1", queue, "LEASE", lease]).query(c)?;
    Ok(jobs.remove(0))
}

/// A queue name that no other run uses.
fn queue() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("rust:{}:{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// A server of one's own on a free loopback port.
struct Server {
    binary: String,
    port: u16,
    child: Child,
}

impl Server {
    fn start(binary: &str) -> Server {
        // Beyond those of the other clients' servers, and below those that connections are given: it is still free when
        // the server starts again.
        let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
        let port = (32_000..32_768).find(is_free).expect("a free port");
        Server { binary: binary.to_owned(), port, child: Server::spawn(binary, port) }
    }

    fn restart(&mut self) {
        self.stop();
        self.child = Server::spawn(&self.binary, self.port);
    }

    fn spawn(binary: &str, port: u16) -> Child {
        let dir = env::temp_dir();
        let child = Command::new(binary)
            .args([
                "--port",
                &port.to_string(),
                "--bind",
                "127.0.0.1",
                "--appendonly",
                "no",
                "--dir",
            ])
            .arg(dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "nobody listens on {port}");
            thread::sleep(Duration::from_millis(10));
        }
        child
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
