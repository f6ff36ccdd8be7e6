//! A server in this process and raw clients of it. Nothing here sleeps to wait; sockets are read with
//! a time limit that only a failure reaches.

use crate::support::patience::{Machine, limit, seconds};
use delayd::config::Config;
use delayd::server::{Server, Stopper};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Instant;

pub struct Running {
    pub address: SocketAddr,
    pub stopper: Stopper,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Running {
    pub fn start(options: &[(&str, &str)]) -> Running {
        let mut config = Config::default();
        let own = [("port", "0"), ("bind", "127.0.0.1"), ("appendonly", "no")];
        for (name, value) in own.iter().chain(options) {
            config.set(name, &[(*value).to_owned()]).unwrap();
        }
        let server = Server::bind(config).unwrap();
        let (address, stopper) = (server.addresses()[0], server.stopper());
        let thread = Some(std::thread::spawn(move || server.run()));
        Running { address, stopper, thread }
    }

    pub fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(limit())).unwrap();
        stream.set_write_timeout(Some(limit())).unwrap();
        Client { stream }
    }

    /// Waits until INFO shows `line`.
    pub fn wait_for(&self, line: &str) {
        let mut client = self.connect();
        let start = Instant::now();
        while !client.info().contains(&format!("\r\n{line}\r\n")) {
            assert!(start.elapsed() < limit(), "{line} never came true");
        }
    }

    /// The words of the kernel's line on this end of a client's connection, as `/proc/net/tcp` shows them: 1 and 2 are the
    /// ends, 3 the state, 5 the timer.
    pub fn in_kernel(&self, client_port: u16) -> Option<Vec<String>> {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let end = |port: u16| format!(":{port:04X}");
        let (own, other) = (end(self.address.port()), end(client_port));
        let lines = table.lines().skip(1);
        let mut lines =
            lines.map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        lines.find(|words| words[1].ends_with(&own) && words[2].ends_with(&other))
    }

    /// A client that waited has gone: that is noticed at once, or as all clients are looked at once a second.
    pub fn notices_the_end(&self) {
        let (machine, start) = (Machine::watch(), Instant::now());
        self.wait_for("blocked_clients:0");
        let (took, allowed) = (start.elapsed(), machine.allows(seconds(2)));
        assert!(took < allowed, "noticed after {took:?}, {allowed:?} are allowed");
    }

    /// A client that waits with much behind its command hangs up: that is noticed, and the next job is there for
    /// others.
    pub fn notices_hang_ups<C>(
        &self,
        connect: impl Fn() -> C,
        write: impl Fn(&mut C, &[u8]) -> io::Result<()>,
    ) {
        for behind in [160_000, 3_000_000] {
            let mut gone = connect();
            write(&mut gone, b"DELAY.POP q 0\r\n").unwrap();
            self.wait_for("blocked_clients:1");
            write(&mut gone, "PING\r\n".repeat(behind / 6).as_bytes()).unwrap();
            drop(gone);
            self.notices_the_end();
            let mut other = self.connect();
            other.add("q", "0", "kept");
            other.send("DELAY.POP q NOWAIT\r\n");
            other.expect_job("q", "kept");
        }
    }

    pub fn join(&mut self) {
        self.thread.take().unwrap().join().unwrap().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.thread.is_some() && !std::thread::panicking() {
            self.stopper.stop();
            self.join();
        }
    }
}

pub struct Client {
    pub stream: TcpStream,
}

impl Client {
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends a command as an array.
    pub fn command(&mut self, args: &[&str]) {
        let mut bytes = format!("*{}\r\n", args.len());
        args.iter().for_each(|a| bytes.push_str(&format!("${}\r\n{a}\r\n", a.len())));
        self.send(bytes);
    }

    pub fn expect(&mut self, expected: &str) {
        let mut bytes = vec![0; expected.len()];
        if let Err(error) = self.stream.read_exact(&mut bytes) {
            panic!("instead of {expected:?}: {error}");
        }
        assert_eq!(String::from_utf8_lossy(&bytes), expected);
    }

    pub fn line(&mut self) -> String {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while !line.ends_with(b"\r\n") {
            self.stream.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        line.truncate(line.len() - 2);
        String::from_utf8(line).unwrap()
    }

    pub fn bulk(&mut self) -> String {
        let line = self.line();
        let len = line.strip_prefix('$').unwrap_or_else(|| panic!("no bulk string: {line}"));
        let mut bytes = vec![0; len.parse::<usize>().unwrap() + 2];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes.truncate(bytes.len() - 2);
        String::from_utf8(bytes).unwrap()
    }

    /// An inline command and the first line of its reply.
    pub fn line_of(&mut self, command: &str) -> String {
        self.send(format!("{command}\r\n"));
        self.line()
    }

    /// Reads a whole reply and returns it as it was sent.
    pub fn reply(&mut self) -> String {
        let mut reply = self.line() + "\r\n";
        let count: i64 = reply[1..].trim_end().parse().unwrap_or(0);
        match reply.as_bytes()[0] {
            b'*' => (0..count).for_each(|_| reply += &self.reply()),
            b'$' if count >= 0 => {
                let mut bytes = vec![0; count as usize + 2];
                self.stream.read_exact(&mut bytes).unwrap();
                reply += &String::from_utf8_lossy(&bytes);
            }
            _ => {}
        }
        reply
    }

    /// Reads a whole reply; returns its first line.
    pub fn skip_reply(&mut self) -> String {
        let first = self.line();
        let count: i64 = first[1..].parse().unwrap_or(0);
        match first.as_bytes()[0] {
            b'*' => (0..count).for_each(|_| drop(self.skip_reply())),
            b'$' if count >= 0 => {
                self.stream.read_exact(&mut vec![0; count as usize + 2]).unwrap();
            }
            _ => {}
        }
        first
    }

    /// A field of INFO that is a number.
    pub fn info_number(&mut self, field: &str) -> u64 {
        let (info, field) = (self.info(), format!("\r\n{field}:"));
        let at = info.find(&field).unwrap_or_else(|| panic!("no {field} in {info}"));
        let digits = info[at + field.len()..].split("\r\n").next().unwrap();
        digits.parse().unwrap()
    }

    /// Adds a job of this body to each of the queues `{name}0`, `{name}1` …
    pub fn add_to_queues(&mut self, name: &str, count: usize) {
        for first in (0..count).step_by(1_000) {
            let queues = first..count.min(first + 1_000);
            let commands = queues.clone().map(|i| format!("DELAY.ADD {name}{i} 1h x\r\n"));
            self.send(commands.collect::<String>());
            queues.for_each(|_| drop(self.bulk()));
        }
    }

    pub fn info(&mut self) -> String {
        self.command(&["INFO"]);
        format!("\r\n{}", self.bulk())
    }

    pub fn add(&mut self, queue: &str, when: &str, body: &str) -> String {
        self.command(&["DELAY.ADD", queue, when, body]);
        self.bulk()
    }

    pub fn expect_job(&mut self, queue: &str, body: &str) {
        assert_eq!(self.line(), "*3");
        assert_eq!(self.bulk(), queue);
        self.bulk();
        assert_eq!(self.bulk(), body);
    }

    pub fn expect_end(&mut self) {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => assert_eq!(String::from_utf8_lossy(&rest), ""),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
}
