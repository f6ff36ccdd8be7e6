//! Receives a base.

use super::line::BaseLine;
use super::{BaseEvent, Bases, lock};
use crate::cluster::peer::frame::{FrameError, FrameKind};
use crate::cluster::raft::codec::Head;
use crate::ids::Index;
use crate::journal::{Incoming, Offer};
use crate::limits::REFUSAL_BYTES_MAX;
use crate::server::cluster::refusals::ConnectionTrouble;
use std::io;
use std::time::Instant;

/// Until it is there, or the connection has ended.
pub fn run(bases: &Bases, mut line: BaseLine, peer: u64, name: &str) {
    if let Err(trouble) = receive(bases, &mut line, peer, name) {
        tracing::warn!(peer = name, "receiving a base failed: {trouble}");
        let text = trouble.to_string();
        // The sender keeps trying: tell it why.
        let _ = line.send(
            FrameKind::Refused,
            &text.as_bytes()[..text.len().min(REFUSAL_BYTES_MAX)],
            &[],
        );
    }
}

fn receive(
    bases: &Bases,
    line: &mut BaseLine,
    peer: u64,
    name: &str,
) -> Result<(), ConnectionTrouble> {
    let [index, salt, bytes] = line.numbers()?;
    let offer = Offer { index: Index(index), salt, bytes };
    let is_waited_for =
        |index: Index| lock(&bases.arrived).iter().any(|arrived| arrived.position().index == index);
    let mut incoming = Incoming::begin(&bases.storage, offer, &is_waited_for)?;
    let (from, began) = (incoming.bytes(), Instant::now());
    tracing::info!(peer = name, index, bytes, from, "a base comes");
    line.tell(&[from])?;
    while !incoming.is_whole() {
        let mut frame = line.frame()?;
        if frame.kind != FrameKind::Piece {
            return Err(FrameError::Place(frame.kind).into());
        }
        let length = frame.body.bytes();
        incoming.write(&frame.body.take(length)?)?;
    }
    let (mut failed, mut moved_at) = (Ok(()), 0);
    let arrived = incoming.finish(&mut |offset, _| {
        if failed.is_ok() && offset - moved_at >= MOVE_BYTES {
            moved_at = offset;
            failed = line.tell(&[0]);
        }
    });
    let arrived = arrived.map_err(io::Error::other)?;
    failed?;
    line.tell(&[bytes])?;
    let mut frame = line.frame()?;
    if frame.kind != FrameKind::Message {
        return Err(FrameError::Place(frame.kind).into());
    }
    let head = Head::read(&frame.head)?;
    let bodies = head.bodies().map(|bytes| frame.body.take(bytes)).collect::<Result<_, _>>()?;
    if !head.is_base() {
        return Err(io::Error::other("a message that does not belong to a base").into());
    }
    let took_us = began.elapsed().as_micros() as u64;
    tracing::info!(peer = name, index, bytes, took_us, "a base was received");
    let mut waiting = lock(&bases.arrived);
    waiting.retain(|other| other.position().index != arrived.position().index);
    waiting.push(arrived);
    drop(waiting);
    bases.tell(BaseEvent::Arrived { peer, head, bodies });
    Ok(())
}

/// Read between two signs of life: some 10 ms.
const MOVE_BYTES: u64 = 16 << 20;
