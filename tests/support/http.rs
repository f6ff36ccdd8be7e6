//! The least of HTTP: one request on a connection, and its answer.

use crate::support::patience::limit;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// A port that nobody has, below those that the system gives to connections: one of these could be taken by a
/// client of another test before a server listens there. Each process begins elsewhere.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id().wrapping_mul(97);
    let ports = (0..12_000).map(|_| {
        let next = begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        20_000 + (next % 12_000) as u16
    });
    let mut free = ports.filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.next().expect("one of 12,000 ports is free")
}

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
