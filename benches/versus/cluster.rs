//! Three nodes that hold the same jobs, beside three Redis with `WAIT 1` and three NATS with a stream of three replicas: adds of
//! clients that wait for each answer. Not part of a whole run: `cargo bench --bench versus -- cluster`.
//!
//! delayd answers when two of three have synced. Redis is at `appendfsync always` on all three, and each batch ends with a
//! `WAIT 1`, for how long it takes. NATS of Debian 12 (2.9) syncs its files every two minutes, and cannot be told to do so
//! before it answers: what it acknowledged last is lost with the power of two machines.

use crate::parts::by_turns;
use crate::poller::Poller;
use crate::report::{Asked, Report};
use crate::scaled;
use crate::support::{Server, binary, now_us, place};
use crate::system::{System, id};
use crate::wire::{Protocol, Wire, request};
use redis_protocol::resp2::types::Resp2Frame;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How jobs are added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Delayd,
    Redis,
    Nats,
}

/// Three servers, of which one takes what is added.
pub struct Three {
    kind: Kind,
    /// The one that leads is the first.
    servers: Vec<Server>,
}

const LIMIT: Duration = Duration::from_secs(30);
/// 100 bytes.
const BODY: &str = crate::many::BODY;

/// Jobs a second that three nodes of the build under test take, of `connections` that each send `batch` and wait.
pub fn rate(connections: usize, batch: u64, count: u64) -> f64 {
    Three::delayd().add(connections, batch, count)
}

/// See the module.
pub fn cluster(report: &mut Report) {
    let has_nats = Command::new("nats-server").arg("--version").stdout(Stdio::null()).status();
    let kinds = match has_nats {
        Ok(_) => vec![Kind::Delayd, Kind::Redis, Kind::Nats],
        Err(_) => vec![Kind::Delayd, Kind::Redis],
    };
    for (connections, batch, beside_redis) in [(64, 1, 1.0), (50, 16, 2.0)] {
        let count = scaled(if batch == 1 { 60_000 } else { 400_000 });
        let found = by_turns(&kinds, |kind| [Three::start(kind).add(connections, batch, count)]);
        let pipeline = if batch == 1 { String::new() } else { format!(", pipeline {batch}") };
        let work = format!("three nodes, add, {connections} clients that wait{pipeline}, always");
        let redis = ("Redis ZADD + HSET, WAIT 1", found[1][0]);
        report.versus(&work, "jobs/s", found[0][0], redis, Asked::Least(beside_redis));
        if let Some([nats]) = found.get(2) {
            let nats = ("NATS JetStream R3, not synced", *nats);
            report.versus(&work, "jobs/s", found[0][0], nats, Asked::Least(2.0));
        }
    }
}

impl Three {
    /// Of the build under test.
    pub fn delayd() -> Three {
        Three::start(Kind::Delayd)
    }

    pub fn leader(&self) -> &Server {
        &self.servers[0]
    }

    pub fn follower(&self) -> &Server {
        &self.servers[1]
    }

    fn start(kind: Kind) -> Three {
        let mut servers = match kind {
            Kind::Delayd => delayd(),
            Kind::Redis => redis(),
            Kind::Nats => nats(),
        };
        let leader = match kind {
            Kind::Delayd => wait(|| servers.iter().position(is_ready)),
            Kind::Redis => 0,
            Kind::Nats => wait(|| stream_leader(&servers)),
        };
        servers.swap(0, leader);
        Three { kind, servers }
    }

    /// Jobs a second, of connections that each send `batch` and wait for all of the answers.
    pub fn add(&self, connections: usize, batch: u64, count: u64) -> f64 {
        let protocol = if self.kind == Kind::Nats { Protocol::Nats } else { Protocol::Resp };
        let connect = |number| {
            let wire = || Wire::connect(self.servers[0].port, protocol);
            if protocol == Protocol::Nats {
                subscribe(self.servers[0].port, number)
            } else {
                wire()
            }
        };
        let mut wires: Vec<Wire> = (0..connections).map(connect).collect();
        let mut poller = Poller::new(&wires);
        let (mut sent, mut busy) = (0, connections);
        let mut send = |at: usize, wire: &mut Wire| {
            let is_left = sent < count;
            if is_left {
                wire.send(self.replies(batch), |out| self.write(out, at, sent, batch));
                sent += batch;
            }
            is_left
        };
        let began = Instant::now();
        for (at, wire) in wires.iter_mut().enumerate() {
            send(at, wire);
        }
        while busy > 0 {
            for at in poller.ready(&wires, None) {
                let wire = &mut wires[at];
                wire.flush();
                wire.fill();
                while wire.pending > 0 {
                    let Some(reply) = wire.reply() else { break };
                    let is_failed = self.kind == Kind::Nats && !reply.ends_with(b"}\r\n")
                        || reply.windows(7).any(|word| word == b"\"error\"");
                    assert!(!is_failed, "{}", String::from_utf8_lossy(reply));
                }
                if wire.pending == 0 && !send(at, wire) {
                    busy -= 1;
                }
            }
        }
        let rate = sent as f64 / began.elapsed().as_secs_f64();
        self.check(sent);
        rate
    }

    fn replies(&self, batch: u64) -> usize {
        let batch = batch as usize;
        if self.kind == Kind::Redis { 2 * batch + 1 } else { batch }
    }

    fn write(&self, out: &mut Vec<u8>, connection: usize, from: u64, batch: u64) {
        let now_ms = now_us() / 1_000;
        let due_ms = now_ms + crate::many::FAR_MS;
        for number in from..from + batch {
            match self.kind {
                Kind::Delayd => System::Delayd.add(out, number, due_ms, now_ms, BODY),
                Kind::Redis => System::Redis.add(out, number, due_ms, now_ms, BODY),
                Kind::Nats => {
                    let (id, length) = (id(number), id(0).len() + BODY.len());
                    let id = std::str::from_utf8(&id).expect("digits");
                    write!(out, "PUB jobs.q _INBOX.{connection} {length}\r\n{id}{BODY}\r\n")
                        .expect("a vector takes all");
                }
            }
        }
        if self.kind == Kind::Redis {
            request(out, &["WAIT".into(), "1".into(), "0".into()]);
        }
    }

    /// All that was answered is there.
    fn check(&self, count: u64) {
        let number = |words: &[&str]| {
            let reply = self.servers[0].client().call(words);
            format!("{reply:?}")
        };
        let shown = match self.kind {
            Kind::Delayd => number(&["DELAY.LEN", "q"]),
            Kind::Redis => number(&["ZCARD", "z"]),
            Kind::Nats => ask(self.servers[0].port, "STREAM.INFO.jobs", "").expect("it is there"),
        };
        assert!(shown.contains(&count.to_string()), "{count} were added: {shown}");
    }
}

fn wait<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < LIMIT, "they do not come together");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn delayd() -> Vec<Server> {
    let places: Vec<_> = (0..3).map(|_| (place(), place().0)).collect();
    let node = |at: usize| format!("n{}=127.0.0.1:{}", at + 1, places[at].1);
    let list = [0, 1, 2].map(node).join(",");
    let start = |at: usize| {
        let ((port, dir), peer) = places[at].clone();
        let mut command = Command::new(binary());
        command.args(["--loglevel", "warning", "--bind", "127.0.0.1", "--maxmemory", "0"]);
        command.args(["--port", &port.to_string(), "--cluster-port", &peer.to_string()]);
        command.args(["--cluster-node", &format!("n{}", at + 1), "--cluster-nodes", &list]);
        // The first that ends is missed by the others.
        command.arg("--dir").arg(&dir).stderr(Stdio::null());
        Server::spawn(command, port, dir)
    };
    [0, 1, 2].map(start).into_iter().collect()
}

/// It leads, and the others are there.
fn is_ready(server: &Server) -> bool {
    let info = server.client().call(&["INFO", "replication"]);
    let text = info.as_str().unwrap_or_default().to_owned();
    text.contains("role:master") && text.contains("connected_slaves:2")
}

fn redis() -> Vec<Server> {
    let start = |master: Option<u16>| {
        let port = master.map(|port| port.to_string());
        let mut options = vec!["--appendonly", "yes", "--appendfsync", "always"];
        options.extend(port.iter().flat_map(|port| ["--replicaof", "127.0.0.1", port]));
        Server::redis_with(&options).expect("redis-server is installed")
    };
    let master = start(None);
    let (one, other) = (start(Some(master.port)), start(Some(master.port)));
    wait(|| {
        let info = master.client().call(&["INFO", "replication"]);
        let text = info.as_str().unwrap_or_default().to_owned();
        (text.matches("state=online").count() == 2).then_some(())
    });
    vec![master, one, other]
}

fn nats() -> Vec<Server> {
    let places: Vec<_> = (0..3).map(|_| (place(), place().0)).collect();
    let routes = [0, 1, 2].map(|at: usize| format!("nats://127.0.0.1:{}", places[at].1)).join(",");
    let start = |at: usize| {
        let ((port, dir), peers) = places[at].clone();
        let (name, store) = (at + 1, dir.display());
        let config = format!(
            "server_name: n{name}\nlisten: 127.0.0.1:{port}\njetstream {{ store_dir: \"{store}\" }}\n\
             cluster {{ name: c, listen: 127.0.0.1:{peers}, routes: [{routes}] }}\n"
        );
        let path = dir.join("nats.conf");
        std::fs::write(&path, config).expect("a temporary file");
        let mut command = Command::new("nats-server");
        command.arg("-c").arg(&path).stdout(Stdio::null()).stderr(Stdio::null());
        Server::spawn(command, port, dir)
    };
    let servers: Vec<Server> = [0, 1, 2].map(start).into_iter().collect();
    let stream = r#"{"name":"jobs","subjects":["jobs.*"],"num_replicas":3,"storage":"file","retention":"limits"}"#;
    wait(|| {
        let reply = ask(servers[0].port, "STREAM.CREATE.jobs", stream)?;
        reply.contains("\"config\"").then_some(())
    });
    servers
}

/// Which of them leads the stream, once all replicas are current.
fn stream_leader(servers: &[Server]) -> Option<usize> {
    let reply = ask(servers[0].port, "STREAM.INFO.jobs", "")?;
    let is_whole = reply.matches("\"current\":true").count() == 2;
    let leader = reply.split("\"leader\":\"n").nth(1)?.chars().next()?.to_digit(10)?;
    is_whole.then(|| leader as usize - 1)
}

/// A connection that hears what is sent to its inbox.
fn greet(port: u16, inbox: &str) -> BufReader<TcpStream> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    stream.set_nodelay(true).expect("an option of every socket");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("an option of every socket");
    let mut stream = BufReader::new(stream);
    let text = format!("CONNECT {{\"verbose\":false}}\r\nSUB {inbox} 1\r\nPING\r\n");
    stream.get_mut().write_all(text.as_bytes()).expect("it reads");
    let mut line = String::new();
    while line != "PONG\r\n" {
        line.clear();
        stream.read_line(&mut line).expect("it answers");
    }
    stream
}

fn subscribe(port: u16, connection: usize) -> Wire {
    let stream = greet(port, &format!("_INBOX.{connection}"));
    assert!(stream.buffer().is_empty(), "nothing was asked yet");
    Wire::over(stream.into_inner(), Protocol::Nats)
}

/// What JetStream says to a request; nothing while it says nothing.
fn ask(port: u16, what: &str, text: &str) -> Option<String> {
    let mut stream = greet(port, "_INBOX.ask");
    let request = format!("PUB $JS.API.{what} _INBOX.ask {}\r\n{text}\r\n", text.len());
    stream.get_mut().write_all(request.as_bytes()).ok()?;
    let mut line = String::new();
    while !line.starts_with('{') {
        line.clear();
        stream.read_line(&mut line).ok()?;
    }
    Some(line)
}
