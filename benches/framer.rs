//! Framing and encoding, against `redis-protocol` doing the same; and the seals of frames between nodes.
//!
//! The input of the first two: 1,000 commands `DELAY.ADD mail 5000 <100 B> ID <30 B>` of 192 bytes each, in the
//! buffer whole. Criterion's elements are commands or replies: its "time" divided by 1,000 is the
//! cost of one.

#![allow(missing_docs, reason = "criterion_group! makes a public function without any")]

use bytes::{Bytes, BytesMut};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use delayd::cluster::peer::seal::Sealer;
use delayd::resp::{Arg, Encoder, FrameLimits, Framed, Framer, Protocol};
use redis_protocol::resp2::decode::decode_range;
use redis_protocol::resp2::encode::extend_encode_borrowed;
use redis_protocol::resp2::types::BorrowedFrame;
use std::hint::black_box;

const COMMANDS: usize = 1000;
const COMMAND_BYTES: usize = 192;

fn pipeline() -> BytesMut {
    let mut out = BytesMut::new();
    for number in 0..COMMANDS {
        let id = format!("{number:030}");
        let args = ["DELAY.ADD", "mail", "5000", &"x".repeat(100), "ID", &id];
        let args = args.map(|arg| BorrowedFrame::BulkString(arg.as_bytes()));
        extend_encode_borrowed(&mut out, &BorrowedFrame::Array(&args), false).unwrap();
    }
    assert_eq!(out.len(), COMMANDS * COMMAND_BYTES);
    out
}

/// Takes all commands out of `buf`; returns a sum over their arguments, so that they are read.
fn frame_all(framer: &mut Framer, buf: &mut BytesMut) -> (usize, usize) {
    let (mut commands, mut bytes) = (0, 0);
    while framer.next(buf, &FrameLimits::DEFAULT) == Framed::Command {
        commands += 1;
        bytes += framer.args(buf).iter().filter_map(Arg::bytes).map(<[u8]>::len).sum::<usize>();
        framer.consume(buf);
    }
    (commands, bytes)
}

fn framing(c: &mut Criterion) {
    let mut group = c.benchmark_group("frame");
    group.throughput(Throughput::Elements(COMMANDS as u64));
    let input = pipeline();

    let mut framer = Framer::new();
    assert_eq!(frame_all(&mut framer, &mut input.clone()), (COMMANDS, COMMANDS * 149));
    group.bench_function("framer", |b| {
        b.iter_batched_ref(
            || input.clone(),
            |buf| black_box(frame_all(&mut framer, buf)),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("redis-protocol decode_range", |b| {
        b.iter(|| {
            let mut rest = &input[..];
            while let Ok(Some((frame, end))) = decode_range(black_box(rest)) {
                black_box(frame);
                rest = &rest[end..];
            }
        });
    });

    let inline = "DELAY.ADD mail 5000 hello ID 012345678901234567890123\r\n".repeat(COMMANDS);
    group.bench_function("framer, inline", |b| {
        b.iter_batched_ref(
            || BytesMut::from(inline.as_bytes()),
            |buf| black_box(frame_all(&mut framer, buf)),
            BatchSize::SmallInput,
        );
    });
    group.finish();

    let mut group = c.benchmark_group("frame 400,000 elements in reads of 16 KiB");
    group.sample_size(10);
    let args = vec![BorrowedFrame::BulkString(&[b'x'; 32]); 400_000];
    let mut large = BytesMut::new();
    extend_encode_borrowed(&mut large, &BorrowedFrame::Array(&args), false).unwrap();
    group.bench_function("framer", |b| {
        b.iter(|| {
            let (mut framer, mut buf) = (Framer::new(), BytesMut::new());
            let mut last = Framed::Incomplete;
            for piece in large.chunks(16 * 1024) {
                buf.extend_from_slice(piece);
                last = framer.next(&mut buf, &FrameLimits::DEFAULT);
            }
            assert_eq!(last, Framed::Command);
        });
    });
    group.finish();
}

fn encoding(c: &mut Criterion) {
    let mut group = c.benchmark_group("encode");
    group.throughput(Throughput::Elements(COMMANDS as u64));
    let mut out = BytesMut::with_capacity(COMMANDS * 256);
    let body = [b'x'; 100];
    let mut row = |name: &str, reply: &dyn Fn(&mut Encoder<'_>)| {
        group.bench_function(name, |b| {
            b.iter(|| {
                out.clear();
                let mut encoder = Encoder::new(&mut out, Protocol::Resp3);
                for _ in 0..COMMANDS {
                    reply(&mut encoder);
                }
                black_box(&out);
            });
        });
    };
    row("ok", &|reply| reply.ok());
    row("integer 1", &|reply| reply.integer(1));
    row("integer of 19 digits", &|reply| reply.integer(black_box(7_200_000_000_000_000_000)));
    row("null", &|reply| reply.null());
    row("bulk of 24 bytes", &|reply| reply.bulk(black_box(&body[..24])));
    row("bulk of 100 bytes", &|reply| reply.bulk(black_box(&body)));
    row("map of one integer", &|reply| {
        reply.map(1);
        reply.bulk(b"ready");
        reply.integer(black_box(12_345));
    });
    row("double", &|reply| reply.double(black_box(1.5)));
    row("error", &|reply| reply.error(black_box("ERR value is not an integer or out of range")));
    group.bench_function("redis-protocol, bulk of 100 bytes", |b| {
        b.iter(|| {
            out.clear();
            for _ in 0..COMMANDS {
                let frame = BorrowedFrame::BulkString(black_box(&body));
                extend_encode_borrowed(&mut out, &frame, false).unwrap();
            }
            black_box(&out);
        });
    });
    group.finish();
}

/// A heartbeat, and the largest piece of a base.
fn sealing(c: &mut Criterion) {
    let mut group = c.benchmark_group("seal");
    for bytes in [100, 256 << 10] {
        let (mut sealer, frame) = (Sealer::new(b"key"), Bytes::from(vec![7; bytes]));
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(format!("{bytes} bytes"), |b| {
            b.iter(|| sealer.seal([black_box(&frame)]));
        });
    }
    group.finish();
}

criterion_group!(benches, framing, encoding, sealing);
criterion_main!(benches);
