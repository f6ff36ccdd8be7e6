//! The least of HTTP: one request on a connection, and its answer.

use crate::support::patience::limit;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// A port for a program that is told which one to take. It is below those that the system gives to connections, where a
/// client of another test could have it before a server listens. It is held for as long as this process runs, by a
/// listener of the same port on another address of the loopback, which every other test program would need, too.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id().wrapping_mul(97);
    let mut ports = (0..PORTS).map(|_| {
        let next = begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        FIRST_PORT + (next % PORTS) as u16
    });
    ports.find(|port| hold(*port)).expect("one of 12,000 ports is free")
}

/// Two of them, the second one `beyond` the first.
pub fn free_pair(beyond: u16) -> (u16, u16) {
    loop {
        let second = free_port();
        if hold(second - beyond) {
            return (second - beyond, second);
        }
    }
}

/// The first of `count` ports that follow each other.
pub fn free_ports(count: u16) -> u16 {
    loop {
        let first = free_port();
        if (1..count).all(|more| hold(first + more)) {
            return first;
        }
    }
}

fn hold(port: u16) -> bool {
    static HELD: Mutex<Vec<TcpListener>> = Mutex::new(Vec::new());
    let Ok(held) = TcpListener::bind(("127.0.0.2", port)) else { return false };
    // Another program may have it. What asks must not listen: a forked child holds a copy of this socket until it calls
    // exec, and the server would find the port taken.
    let asks = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    asks.set_reuse_address(true).unwrap();
    let is_free = asks.bind(&SocketAddr::from(([127, 0, 0, 1], port)).into()).is_ok();
    if is_free {
        HELD.lock().unwrap().push(held);
    }
    is_free
}

const FIRST_PORT: u16 = 20_000;
const PORTS: u32 = 12_000;

pub fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
    stream.set_read_timeout(Some(limit())).unwrap();
    stream
}

/// Sends the bytes and reads until the end.
pub fn send(port: u16, request: &[u8]) -> Answer {
    let (mut stream, mut all) = (connect(port), Vec::new());
    // One that is refused early may be closed before all of it is sent.
    let _ = stream.write_all(request);
    let _ = stream.read_to_end(&mut all);
    let all = String::from_utf8(all).expect("UTF-8");
    let (head, body) = all.split_once("\r\n\r\n").unwrap_or((&all, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

pub fn get(port: u16, path: &str) -> Answer {
    send(port, format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
}

/// Of a page that must be there.
pub fn page(port: u16, path: &str) -> String {
    let answer = get(port, path);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}
