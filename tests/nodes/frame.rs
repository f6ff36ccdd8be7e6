//! Frames over connections that cut them anywhere, and garbage of every kind.

use crate::support::seeds::for_each_seed;
use bytes::Bytes;
use delayd::cluster::peer::frame::{
    FrameBody, FrameError, FrameKind, HEADER_BYTES, Inbox, Lane, PREFACE, PeerFrame, encode,
};
use delayd::limits::{
    HANDSHAKE_BYTES_MAX, PEER_BODY_BYTES_MAX, PEER_HEAD_BYTES_MAX, PEER_PIECE_BYTES,
    PEER_PIECES_MAX, PEER_ROOM_BYTES,
};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

fn open(lane: Lane) -> Inbox {
    let mut inbox = Inbox::new();
    inbox.receive(PREFACE);
    assert_eq!(inbox.next_frame(), Ok(None));
    inbox.open(lane);
    inbox
}

fn wire(kind: FrameKind, head: &[u8], bodies: &[Bytes]) -> Vec<u8> {
    encode(kind, head, bodies).concat()
}

/// Bytes that tell where they stand.
fn body(bytes: usize, first: u8) -> Bytes {
    (0..bytes).map(|at| first.wrapping_add((at / 7) as u8)).collect::<Vec<u8>>().into()
}

/// All frames that are there.
fn drain(inbox: &mut Inbox, frames: &mut Vec<PeerFrame>) -> Result<(), FrameError> {
    while let Some(frame) = inbox.next_frame()? {
        frames.push(frame);
    }
    Ok(())
}

/// Messages of random sizes, read in pieces of random sizes, come out as they went in.
#[test]
fn messages_come_out_as_they_went_in_wherever_they_are_cut() {
    for_each_seed(150, |seed, _| {
        let mut rng = SmallRng::seed_from_u64(seed);
        let size = |rng: &mut SmallRng| match rng.random_range(0..4) {
            0 => rng.random_range(0..3),
            1 => rng.random_range(0..1_000),
            2 => PEER_PIECE_BYTES - 2 + rng.random_range(0..4),
            _ => rng.random_range(0..3 * PEER_PIECE_BYTES),
        };
        let messages: Vec<(Bytes, Vec<Bytes>)> = (0..rng.random_range(1..5))
            .map(|_| {
                let head = body(rng.random_range(0..300), 1);
                let count = rng.random_range(0..5);
                let bodies = (0..count).map(|at| body(size(&mut rng), at)).collect();
                (head, bodies)
            })
            .collect();
        let wire: Vec<u8> = messages
            .iter()
            .flat_map(|(head, bodies)| wire(FrameKind::Message, head, bodies))
            .collect();
        let step_max = [1 + wire.len() / 2_000, 4_000, 64 << 10, 1 << 20][rng.random_range(0..4)];
        let (mut inbox, mut frames, mut rest) = (open(Lane::Data), Vec::new(), &wire[..]);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rng.random_range(1..=step_max.max(1)).min(rest.len()));
            inbox.receive(now);
            drain(&mut inbox, &mut frames).unwrap();
            rest = later;
        }
        assert_eq!(frames.len(), messages.len());
        for (mut frame, (head, bodies)) in frames.into_iter().zip(messages) {
            assert_eq!((frame.kind, frame.head), (FrameKind::Message, head));
            for expected in bodies {
                assert!(frame.body.take(expected.len()).unwrap() == expected);
            }
            assert_eq!(frame.body.take(1), Err(FrameError::Short(1, 0)));
        }
    });
}

/// Neither side copies a body that fits into a piece: the parts that are sent are the bodies themselves, and what is
/// taken lies in the buffer into which it was read.
#[test]
fn bodies_are_not_copied() {
    let bodies = [body(200_000, 1), body(100_000, 2), body(600_000, 3), body(10, 4)];
    let parts = encode(FrameKind::Message, b"head", &bodies);
    for body in &bodies {
        assert!(parts.iter().any(|part| part.as_ptr() == body.as_ptr()));
    }
    let mut inbox = open(Lane::Data);
    for part in &parts {
        inbox.receive(part);
    }
    let mut frame = inbox.next_frame().unwrap().unwrap();
    let lies_in = |pieces: &FrameBody, taken: &Bytes| {
        // A piece of this very body: what is taken next follows it.
        pieces.clone().take(1).is_ok_and(|next| {
            let gap = (next.as_ptr() as usize).wrapping_sub(taken.as_ptr() as usize + taken.len());
            gap <= HEADER_BYTES
        })
    };
    let first = frame.body.take(200_000).unwrap();
    assert!(first == bodies[0] && lies_in(&frame.body, &first));
    assert!(frame.body.take(100_000).unwrap() == bodies[1]);
    assert!(frame.body.take(600_000).unwrap() == bodies[2]);
    assert!(frame.body.take(10).unwrap() == bodies[3]);
    assert_eq!(frame.body.bytes(), 0);
}

#[test]
fn lengths_beyond_the_limits_are_refused_as_soon_as_they_are_announced() {
    let announce = |lane, kind: u8, flags: u8, head: u32, piece: u32| {
        let mut inbox = open(lane);
        let mut header = [0; HEADER_BYTES];
        header[4..8].copy_from_slice(&head.to_le_bytes());
        header[8..12].copy_from_slice(&piece.to_le_bytes());
        (header[12], header[13]) = (kind, flags);
        inbox.receive(&header);
        let before = inbox.bytes();
        let result = inbox.next_frame();
        assert!(inbox.bytes() <= before, "an announced length takes room");
        result
    };
    let (most, message) = (PEER_HEAD_BYTES_MAX, FrameKind::Message as u8);
    let wrong = Err(FrameError::Head(u32::MAX as usize, most));
    assert_eq!(announce(Lane::Data, message, 0, u32::MAX, 0), wrong);
    assert_eq!(announce(Lane::Data, message, 0, most as u32, PEER_PIECE_BYTES as u32), Ok(None));
    let wrong = |bytes: usize, most| Err(FrameError::Piece(bytes, most));
    let long = PEER_PIECE_BYTES + 1;
    assert_eq!(announce(Lane::Data, message, 0, 0, long as u32), wrong(long, PEER_PIECE_BYTES));
    assert_eq!(announce(Lane::Control, message, 0, 0, 1), wrong(1, 0));
    assert_eq!(announce(Lane::Data, 11, 0, 0, 0), Err(FrameError::Kind(11)));
    assert_eq!(announce(Lane::Data, message, 2, 0, 0), Err(FrameError::Reserved));
    let place = |kind| Err(FrameError::Place(kind));
    assert_eq!(announce(Lane::Data, FrameKind::Piece as u8, 0, 0, 5), place(FrameKind::Piece));
    assert_eq!(announce(Lane::Data, FrameKind::Hello as u8, 0, 0, 0), place(FrameKind::Hello));
    assert_eq!(announce(Lane::Control, message, 1, 0, 0), place(FrameKind::Message));
    assert_eq!(announce(Lane::Base, FrameKind::Piece as u8, 0, 1, 5), Err(FrameError::Head(1, 0)));
}

/// Bodies that never end, in pieces large and small, end the connection within the limit.
#[test]
fn a_message_that_never_ends_is_cut_off() {
    let endless = |piece_bytes: usize| {
        let mut inbox = open(Lane::Data);
        let piece = body(piece_bytes, 1);
        let mut header = encode(FrameKind::Message, b"", std::slice::from_ref(&piece))[0].to_vec();
        let mut received = 0;
        loop {
            header[13] = 1;
            let crc = crc32c::crc32c(&header[4..]);
            header[..4].copy_from_slice(&crc.to_le_bytes());
            inbox.receive(&header);
            inbox.receive(&piece);
            received += 1;
            assert!(inbox.bytes() <= PEER_BODY_BYTES_MAX + 2 * PEER_ROOM_BYTES);
            match inbox.next_frame() {
                Ok(None) => header[12] = FrameKind::Piece as u8,
                Ok(Some(frame)) => panic!("{} bytes came out", frame.body.bytes()),
                Err(error) => return (error, received),
            }
        }
    };
    let most = PEER_BODY_BYTES_MAX / PEER_PIECE_BYTES;
    assert_eq!(endless(PEER_PIECE_BYTES), (FrameError::Body, most + 1));
    assert_eq!(endless(1), (FrameError::Pieces, PEER_PIECES_MAX + 1));
    assert_eq!(endless(0), (FrameError::Pieces, PEER_PIECES_MAX + 1));
}

#[test]
fn a_base_comes_piece_by_piece() {
    let mut inbox = open(Lane::Base);
    for at in 0..20 {
        let bytes = wire(FrameKind::Piece, b"", &[body(PEER_PIECE_BYTES, at)]);
        inbox.receive(&bytes);
        let frame = inbox.next_frame().unwrap().expect("each alone");
        assert_eq!((frame.kind, frame.body.bytes()), (FrameKind::Piece, PEER_PIECE_BYTES));
        drop(frame);
        assert!(inbox.bytes() <= 2 * PEER_ROOM_BYTES, "{}", inbox.bytes());
    }
    inbox.receive(&wire(FrameKind::Message, b"of this base", &[]));
    assert_eq!(inbox.next_frame().unwrap().unwrap().head, b"of this base"[..]);
}

/// What a peer can make this node hold before it is accepted.
#[test]
fn garbage_never_panics_and_is_held_within_limits() {
    let texts: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"PING\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"delayd peer",
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ];
    for text in texts {
        let mut inbox = Inbox::new();
        inbox.receive(text);
        let is_begun = PREFACE.starts_with(text);
        match inbox.next_frame() {
            Ok(None) => assert!(is_begun),
            Ok(Some(frame)) => panic!("{frame:?}"),
            Err(error) => {
                let is_tls = text.starts_with(b"\x16\x03");
                let expected = match is_tls {
                    true => "it speaks TLS: tls-cluster must be the same on all nodes",
                    false => "not a delayd peer: it begins with '",
                };
                assert!(!is_begun && error.to_string().starts_with(expected), "{error}");
            }
        }
    }
    for_each_seed(20_000, |seed, _| {
        let mut rng = SmallRng::seed_from_u64(seed);
        let stage = rng.random_range(0..4);
        let (mut inbox, held_max) = match stage {
            0 => {
                let mut inbox = Inbox::new();
                inbox.receive(PREFACE);
                (inbox, HANDSHAKE_BYTES_MAX)
            }
            1 => (open(Lane::Control), 4 * PEER_HEAD_BYTES_MAX),
            2 => (open(Lane::Data), 4 * PEER_ROOM_BYTES),
            _ => (open(Lane::Base), 4 * PEER_ROOM_BYTES),
        };
        // A sound message with some bytes changed, its checksum mended or not, or nothing but noise.
        let mut bytes = match rng.random_range(0..3) {
            0 => vec![0; rng.random_range(0..2_000)],
            1 => wire(FrameKind::Hello, &body(rng.random_range(0..500), 3), &[]),
            _ => wire(
                FrameKind::Message,
                &body(rng.random_range(0..500), 3),
                &[body(rng.random_range(0..900), 5)],
            ),
        };
        if bytes.first() == Some(&0) && rng.random_bool(0.9) {
            rng.fill_bytes(&mut bytes);
        }
        for _ in 0..rng.random_range(0..4) {
            if !bytes.is_empty() {
                let at = rng.random_range(0..bytes.len().min(40));
                bytes[at] = rng.random();
            }
        }
        let head =
            bytes.get(4..8).map_or(0, |n| u32::from_le_bytes(n.try_into().unwrap()) as usize);
        if rng.random_bool(0.5) && bytes.len() >= HEADER_BYTES + head {
            let crc = crc32c::crc32c(&bytes[4..HEADER_BYTES + head]);
            bytes[..4].copy_from_slice(&crc.to_le_bytes());
        }
        for part in bytes.chunks(rng.random_range(1..700)) {
            inbox.receive(part);
            let failed = drain(&mut inbox, &mut Vec::new()).is_err();
            assert!(inbox.bytes() <= held_max, "{} bytes are held", inbox.bytes());
            if failed {
                assert!(inbox.next_frame().is_err(), "an error is for good");
                return;
            }
        }
    });
}
