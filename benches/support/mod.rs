//! Servers started for a bench, and a small blocking client.

#![allow(dead_code)] // each bench uses its part

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::types::OwnedFrame;

const DELAYD: &str = env!("CARGO_BIN_EXE_delayd");

/// Whether servers are started from the build that [`Server::before`] names.
static IS_BEFORE: AtomicBool = AtomicBool::new(false);

/// A server process on a loopback port of its own; killed when dropped.
pub struct Server {
    child: Child,
    command: Command,
    pub port: u16,
    dir: std::path::PathBuf,
}

impl Server {
    /// The delayd of this build, without a journal.
    pub fn delayd(more: &[&str]) -> Server {
        Server::start(&binary(), &["--loglevel", "warning", "--appendonly", "no"], more)
    }

    /// Another build to compare with, from `DELAYD_BENCH_BEFORE`.
    pub fn before() -> Option<String> {
        std::env::var("DELAYD_BENCH_BEFORE").ok()
    }

    /// From here on servers are of that build, or of this one again.
    pub fn use_before(before: bool) {
        IS_BEFORE.store(before, Ordering::Relaxed);
    }

    /// The delayd of this build with a journal.
    pub fn durable(fsync: &str) -> Server {
        Server::durable_with(fsync, &[])
    }

    /// The same with more options.
    pub fn durable_with(fsync: &str, more: &[&str]) -> Server {
        Server::start(&binary(), &["--loglevel", "warning", "--appendfsync", fsync], more)
    }

    /// Debian's beanstalkd, with a log that is synced every so many ms, or without one.
    pub fn beanstalkd(sync_ms: Option<u32>) -> Server {
        let (port, dir) = place();
        let mut command = Command::new("beanstalkd");
        command.args(["-l", "127.0.0.1", "-p", &port.to_string()]);
        if let Some(ms) = sync_ms {
            command.arg("-b").arg(&dir).args(["-f", &ms.to_string()]);
        }
        Server::spawn(command, port, dir)
    }

    /// Debian's redis-server, without persistence; none if it is not installed.
    pub fn redis() -> Option<Server> {
        Server::redis_with(&["--appendonly", "no"])
    }

    /// Debian's redis-server without snapshots; none if it is not installed.
    pub fn redis_with(more: &[&str]) -> Option<Server> {
        let version = Command::new("redis-server").arg("--version").output().ok()?;
        eprintln!("{}", String::from_utf8_lossy(&version.stdout).trim());
        Some(Server::start("redis-server", &["--save", ""], more))
    }

    /// Kills the process and starts it again on the same files. Returns at once, with the instant of the
    /// start.
    pub fn kill_and_restart(&mut self) -> Instant {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let began = Instant::now();
        self.child = self.command.spawn().expect("it started before");
        began
    }

    fn start(program: &str, arguments: &[&str], more: &[&str]) -> Server {
        let (port, dir) = place();
        let mut command = Command::new(program);
        command
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .arg("--dir")
            .arg(&dir)
            .args(arguments)
            .args(more)
            .stdout(Stdio::null());
        let server = Server::spawn(command, port, dir);
        // It listens before its files are there.
        server.client().call(&["PING"]);
        server
    }

    /// Waits until it listens at `port`; `dir` is removed with it.
    pub fn spawn(mut command: Command, port: u16, dir: std::path::PathBuf) -> Server {
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let server = Server { child, command, port, dir };
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(Instant::now() < deadline, "{:?} does not listen", server.command);
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    /// A connection, if it listens.
    pub fn try_client(&self) -> Option<Client> {
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok().map(|_| self.client())
    }

    pub fn client(&self) -> Client {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("connect");
        stream.set_nodelay(true).expect("an option of every socket");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("an option of every socket");
        Client { stream, input: Vec::new(), at: 0 }
    }

    /// CPU seconds the process has used so far, user and system, to the ns.
    pub fn cpu_seconds(&self) -> f64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let ran_ns = |task: std::io::Result<std::fs::DirEntry>| {
            // One that has just ended has no file any more.
            let stat = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            stat.split(' ').next()?.parse::<f64>().ok()
        };
        tasks.expect("the server runs").filter_map(ran_ns).sum::<f64>() / 1e9
    }

    /// Resident bytes.
    pub fn resident(&self) -> u64 {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id()));
        let statm = statm.expect("the server runs");
        statm.split(' ').nth(1).expect("resident").parse::<u64>().expect("pages") * 4096
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// The program under test: this build, or the one that [`Server::before`] names while that is in use.
pub fn binary() -> String {
    let before = Server::before().filter(|_| IS_BEFORE.load(Ordering::Relaxed));
    before.unwrap_or_else(|| DELAYD.to_owned())
}

/// A free port, and a folder that goes with it.
pub fn place() -> (u16, std::path::PathBuf) {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = free.local_addr().expect("bound").port();
    drop(free);
    let dir = std::env::temp_dir().join(format!("delayd-bench-{port}"));
    std::fs::create_dir_all(&dir).expect("a temporary directory");
    (port, dir)
}

/// A blocking connection.
pub struct Client {
    stream: TcpStream,
    input: Vec<u8>,
    at: usize,
}

impl Client {
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
    }

    pub fn receive(&mut self) -> OwnedFrame {
        loop {
            if let Some((frame, length)) = decode(&self.input[self.at..]).expect("RESP2") {
                self.at += length;
                if self.at == self.input.len() {
                    (self.at, _) = (0, self.input.clear());
                }
                return frame;
            }
            let mut part = [0; 64 << 10];
            let length = self.stream.read(&mut part).expect("a reply within 30 s");
            assert!(length > 0, "the server closed the connection");
            self.input.drain(..std::mem::take(&mut self.at));
            self.input.extend_from_slice(&part[..length]);
        }
    }

    /// A number in INFO.
    pub fn info(&mut self, field: &str) -> u64 {
        let OwnedFrame::BulkString(info) = self.call(&["INFO", "everything"]) else {
            panic!("INFO is a bulk string")
        };
        let info = String::from_utf8_lossy(&info);
        let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {field} in {info}"))
    }

    pub fn call(&mut self, words: &[&str]) -> OwnedFrame {
        let mut bytes = Vec::new();
        command(&mut bytes, words);
        self.send(&bytes);
        self.receive()
    }
}

/// Appends a request.
pub fn command(out: &mut Vec<u8>, words: &[&str]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
}

/// The wall clock, µs.
pub fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    since.as_micros() as u64
}

/// What the bench runs on, for the heading of its output.
pub fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name\t: "));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{cores} cores, {}", model.unwrap_or("unknown processor"))
}
