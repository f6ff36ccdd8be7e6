//! What must hold of the framer for any input whatever. The fuzzer runs it on inputs it makes up,
//! `tests/requests/framer.rs` on those kept in `corpus/framer` and on random ones.

use bytes::{Buf, BytesMut};
use delayd::resp::{Arg, FrameLimits, Framed, Framer, LINE_BYTES_MAX};
use redis_protocol::resp2::{decode::decode_range, types::RangeFrame};

/// One thing the framer reported, with the arguments copied out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Command(Vec<Result<Vec<u8>, u32>>),
    End(Framed),
}

/// Small enough for short inputs to run into every limit.
pub const TINY: FrameLimits = FrameLimits {
    authenticated: true,
    bulk_bytes_max: 64,
    argument_bytes_max: 8,
    argument_limit: "max-body-size",
    command_bytes_max: 96,
};

/// Panics if `data` makes the framer panic, hold too much, depend on how it was cut into reads, or
/// disagree with `redis-protocol`.
pub fn check(data: &[u8]) {
    for limits in [FrameLimits::DEFAULT, FrameLimits::UNAUTHENTICATED, TINY] {
        let whole = events(data, data.len(), &limits);
        // Whether a longer line is refused depends on when its end arrives, in Redis too.
        if data.len() <= LINE_BYTES_MAX {
            for piece_bytes in [1, 2, 3, 7, 64] {
                assert_eq!(events(data, piece_bytes, &limits), whole, "in pieces of {piece_bytes}");
            }
        }
    }
    agrees_with_redis_protocol(data);
}

/// Everything reported for `data` when it arrives in pieces of `piece_bytes`.
pub fn events(data: &[u8], piece_bytes: usize, limits: &FrameLimits) -> Vec<Event> {
    let mut framer = Framer::new();
    let mut buf = BytesMut::new();
    let mut events = Vec::new();
    for piece in data.chunks(piece_bytes.max(1)) {
        buf.extend_from_slice(piece);
        if let Err(end) = drain(&mut framer, &mut buf, limits, &mut events) {
            events.push(Event::End(end));
            return events;
        }
        // What an unfinished request may hold: its kept bytes, and a header not yet understood.
        assert!(buf.len() <= limits.command_bytes_max as usize + LINE_BYTES_MAX + piece.len());
        assert!(framer.wanted(&buf) <= buf.len().max(64 * 1024));
    }
    events
}

/// Takes every whole command out of `buf`; an error if that is the end of the connection.
pub fn drain(
    framer: &mut Framer,
    buf: &mut BytesMut,
    limits: &FrameLimits,
    events: &mut Vec<Event>,
) -> Result<(), Framed> {
    loop {
        let frame = framer.next(buf, limits);
        let (len, args) = (buf.len(), copied(framer, buf));
        assert_eq!(framer.next(buf, limits), frame, "asking twice changes nothing");
        assert_eq!((buf.len(), copied(framer, buf)), (len, args.clone()));
        match frame {
            Framed::Command => {
                assert!(!args.is_empty());
                for arg in &args {
                    let (Ok(len) | Err(len)) =
                        arg.as_ref().map(|bytes| bytes.len() as u32).map_err(|len| *len);
                    assert_eq!(arg.is_ok(), len <= limits.argument_bytes_max);
                }
                events.push(Event::Command(args));
                framer.consume(buf);
            }
            Framed::Incomplete => return Ok(()),
            Framed::Attack | Framed::Error(_) => return Err(frame),
        }
    }
}

fn copied(framer: &Framer, buf: &[u8]) -> Vec<Result<Vec<u8>, u32>> {
    let args = framer.args(buf);
    args.iter()
        .map(|arg| match arg {
            Arg::Bytes(bytes) => Ok(bytes.to_vec()),
            Arg::Oversized { len } => Err(len),
        })
        .collect()
}

/// Wherever both parsers see a command in the rest of `data`, they see the same arguments and end.
/// (`redis-protocol` also takes numbers and frames for requests that Redis refuses; and it recurses,
/// hence the bound.)
fn agrees_with_redis_protocol(data: &[u8]) {
    let mut framer = Framer::new();
    let mut buf = BytesMut::from(data);
    loop {
        let at_array =
            buf.first() == Some(&b'*') && buf.windows(2).filter(|w| w == b"\n*").count() < 64;
        let before = buf.clone();
        if framer.next(&mut buf, &FrameLimits::DEFAULT) != Framed::Command {
            return;
        }
        let args = copied(&framer, &buf);
        framer.consume(&mut buf);
        if !at_array {
            continue;
        }
        if let Ok(Some((RangeFrame::Array(elements), end))) = decode_range(&before)
            // `*0` is a frame there and nothing here.
            && !elements.is_empty()
            && let Some(theirs) = bulk_strings(&before, &elements)
        {
            assert_eq!(args, theirs);
            assert_eq!(buf, before.chunk()[end..]);
        }
    }
}

pub fn bulk_strings(buf: &[u8], elements: &[RangeFrame]) -> Option<Vec<Result<Vec<u8>, u32>>> {
    let bytes = |element: &RangeFrame| match element {
        RangeFrame::BulkString((start, end)) => Some(Ok(buf[*start..*end].to_vec())),
        _ => None,
    };
    elements.iter().map(bytes).collect()
}
