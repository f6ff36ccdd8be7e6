//! Sends a base to a node that lacks what the log no longer has.

use super::line::BaseLine;
use super::{BaseEvent, Bases, Task};
use crate::cluster::peer::frame::{FrameKind, Inbox, Lane};
use crate::cluster::peer::hello::Handshake;
use crate::ids::Index;
use crate::journal::{File, Offer};
use crate::limits::{BASE_PAUSE_US, PEER_HANDSHAKE_US, PEER_PIECE_BYTES};
use crate::server::cluster::connection::nonce;
use crate::server::cluster::refusals::ConnectionTrouble;
use crate::server::cluster::socket::Socket;
use bytes::Bytes;
use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Whether it has arrived. One that fails says so only after a pause: Raft begins the next one at once.
pub fn run(bases: &Bases, task: &Task, is_over: &AtomicBool) -> bool {
    let (peer, index, began) = (&task.called.name, task.index, Instant::now());
    match send(bases, task, is_over) {
        Ok(Some((bytes, from))) => {
            let took_us = began.elapsed().as_micros() as u64;
            tracing::info!(%peer, index, bytes, from, took_us, "a base was sent");
            true
        }
        Ok(None) => false,
        Err(_) if is_over.load(Ordering::Relaxed) => false,
        Err(trouble) => {
            tracing::warn!(%peer, index, "a base could not be sent, and is retried: {trouble}");
            std::thread::sleep(Duration::from_micros(BASE_PAUSE_US));
            false
        }
    }
}

/// Its bytes, and from which on they were sent; nothing if it was ended.
fn send(
    bases: &Bases,
    task: &Task,
    is_over: &AtomicBool,
) -> Result<Option<(u64, u64)>, ConnectionTrouble> {
    let (offer, file) = Offer::of(&*bases.storage, Index(task.index))?;
    let mut line = greet(task)?;
    let to = task.message.to;
    let moved = || bases.tell(BaseEvent::Moved { to });
    moved();
    line.tell(&[offer.index.0, offer.salt, offer.bytes])?;
    let [from] = line.numbers()?;
    if from > offer.bytes {
        return Err(io::Error::other("the other node has more of it than exists").into());
    }
    let (began, mut at, mut moved_at) = (Instant::now(), from, from);
    let mut piece = vec![0; PEER_PIECE_BYTES];
    while at < offer.bytes {
        if is_over.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let length = piece.len().min((offer.bytes - at) as usize);
        if file.read_full(&mut piece[..length], at)? < length {
            return Err(io::Error::other("its file is shorter than it was").into());
        }
        line.send(FrameKind::Piece, &[], &[Bytes::copy_from_slice(&piece[..length])])?;
        at += length as u64;
        if at - moved_at >= MOVED_BYTES {
            moved_at = at;
            moved();
        }
        let due = Duration::from_secs_f64((at - from) as f64 / bases.rate as f64);
        std::thread::sleep(due.saturating_sub(began.elapsed()));
    }
    // It is read through there, which takes about a second for each GiB.
    loop {
        moved();
        match line.numbers()? {
            [0] => {}
            [bytes] if bytes == offer.bytes => break,
            [_] => return Err(io::Error::other("the other node has another base").into()),
        }
    }
    line.send(FrameKind::Message, &task.message.head, &task.message.bodies)?;
    Ok(Some((offer.bytes, from)))
}

/// Sent from one sign of life to the next: at 1 MB/s still three a second.
const MOVED_BYTES: u64 = 256 << 10;

/// Connects, and goes through the handshake.
fn greet(task: &Task) -> Result<BaseLine, ConnectionTrouble> {
    let timeout = Duration::from_micros(PEER_HANDSHAKE_US);
    let stream = TcpStream::connect_timeout(&task.place, timeout)?;
    stream.set_nodelay(true)?;
    let (own, secret, called) = (task.own.clone(), task.secret.clone(), task.called.clone());
    let mut out = Vec::new();
    let mut handshake = Handshake::call(own, secret, nonce(), called, Lane::Base, &mut out);
    let mut line = BaseLine::new(Socket::dialled(&task.tls, stream)?, Inbox::new())?;
    line.write(&out)?;
    loop {
        line.read()?;
        let mut out = Vec::new();
        let shaken = handshake.advance(&mut line.inbox, &mut out);
        line.write(&out)?;
        if shaken?.is_some() {
            line.inbox.open(Lane::Base);
            line.sealer = handshake.sealer();
            return Ok(line);
        }
    }
}
