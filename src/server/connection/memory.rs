//! A connection within the process, for a server without sockets.

use crate::ids::ClientId;
use crate::lock::lock;
use bytes::BytesMut;
use std::io;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// The server's end.
#[derive(Debug)]
pub struct Memory {
    client: ClientId,
    pipes: Arc<Mutex<Pipes>>,
}

/// The client's end.
#[derive(Debug)]
pub struct FarEnd {
    /// The client's number, if it is let in.
    pub id: ClientId,
    pipes: Arc<Mutex<Pipes>>,
}

#[derive(Debug)]
struct Pipes {
    to_server: BytesMut,
    to_client: Vec<u8>,
    /// Most bytes that `to_client` takes.
    room: usize,
    client_is_there: bool,
    server_is_there: bool,
    /// Wakes the server when its end can be read, or written again.
    waker: Option<Waker>,
}

/// A connection of this client: both its ends.
pub fn connection(client: ClientId) -> (Memory, FarEnd) {
    let pipes = Arc::new(Mutex::new(Pipes {
        to_server: BytesMut::new(),
        to_client: Vec::new(),
        room: usize::MAX,
        client_is_there: true,
        server_is_there: true,
        waker: None,
    }));
    (Memory { client, pipes: Arc::clone(&pipes) }, FarEnd { id: client, pipes })
}

impl FarEnd {
    pub fn send(&self, bytes: &[u8]) {
        let mut pipes = lock(&self.pipes);
        pipes.to_server.extend_from_slice(bytes);
        pipes.wake();
    }

    /// The server's output, removed.
    pub fn receive(&self) -> Vec<u8> {
        let mut pipes = lock(&self.pipes);
        let received = std::mem::take(&mut pipes.to_client);
        pipes.wake();
        received
    }

    /// At most this many unreceived bytes are in transit to this client.
    pub fn set_room(&self, bytes: usize) {
        let mut pipes = lock(&self.pipes);
        pipes.room = bytes;
        pipes.wake();
    }

    pub fn close(&self) {
        self.vanish();
        lock(&self.pipes).wake();
    }

    /// Hangs up, without an event for the server until it looks.
    pub fn vanish(&self) {
        lock(&self.pipes).client_is_there = false;
    }

    pub fn is_closed(&self) -> bool {
        !lock(&self.pipes).server_is_there
    }
}

impl Memory {
    /// As [`Stream::poll_read`](super::stream::Stream::poll_read).
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        input: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        let mut pipes = lock(&self.pipes);
        let count = pipes.to_server.len().min(input.capacity() - input.len());
        if count == 0 && pipes.client_is_there {
            pipes.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        input.extend_from_slice(&pipes.to_server.split_to(count));
        Poll::Ready(Ok(count))
    }

    /// As [`Stream::poll_write`](super::stream::Stream::poll_write).
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if !self.is_writable(cx) {
            return Poll::Pending;
        }
        let mut pipes = lock(&self.pipes);
        if !pipes.client_is_there {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let count = bytes.len().min(pipes.room - pipes.to_client.len());
        pipes.to_client.extend_from_slice(&bytes[..count]);
        Poll::Ready(Ok(count))
    }

    /// As [`Stream::is_writable`](super::stream::Stream::is_writable).
    pub fn is_writable(&self, cx: &mut Context<'_>) -> bool {
        let mut pipes = lock(&self.pipes);
        let writable = pipes.to_client.len() < pipes.room || !pipes.client_is_there;
        if !writable {
            pipes.waker = Some(cx.waker().clone());
        }
        writable
    }

    /// Writes a last line.
    pub fn farewell(&mut self, text: &[u8]) {
        lock(&self.pipes).to_client.extend_from_slice(text);
    }

    /// Bytes that have arrived and were not read.
    pub fn arrived_bytes(&self) -> u64 {
        lock(&self.pipes).to_server.len() as u64
    }

    /// Whether the client still has its end open.
    pub fn is_peer_there(&self) -> bool {
        lock(&self.pipes).client_is_there
    }

    /// Its descriptor in CLIENT LIST.
    pub fn number(&self) -> i64 {
        10 + self.client.0 as i64
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        lock(&self.pipes).server_is_there = false;
    }
}

impl Pipes {
    fn wake(&mut self) {
        self.waker.take().into_iter().for_each(Waker::wake);
    }
}
