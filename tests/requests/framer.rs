//! The framer from outside: limits, error texts, cuts, discarding, and its agreement with
//! `redis-protocol`.
//!
//! Properties run `DELAYD_CASES` cases (256 unless set) from the seed `DELAYD_SEED` (drawn unless
//! set), which a failure prints.

#[path = "../../fuzz/check_framer.rs"]
mod check_framer;

use std::hash::{BuildHasher, Hasher, RandomState};

use self::check_framer::{Event, TINY, check, events};
use bytes::BytesMut;
use delayd::resp::{Arg, ELEMENTS_MAX, FrameLimits, Framed, Framer, LINE_BYTES_MAX, ProtocolError};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use redis_protocol::resp2::decode::decode_range;
use redis_protocol::resp2::encode::extend_encode_borrowed;
use redis_protocol::resp2::types::{BorrowedFrame, RangeFrame};

/// Runs a property on `DELAYD_CASES` drawn values.
fn property<S: Strategy>(strategy: S, test: impl Fn(S::Value)) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("DELAYD_SEED").unwrap_or_else(|| RandomState::new().build_hasher().finish());
    println!("DELAYD_SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: number("DELAYD_CASES").unwrap_or(256) as u32,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let result = TestRunner::new_with_rng(config, rng).run(&strategy, |value| {
        test(value);
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}\nDELAYD_SEED={seed}");
    }
}

fn command(args: &[&[u8]]) -> Event {
    Event::Command(args.iter().map(|arg| Ok(arg.to_vec())).collect())
}

/// Encoded by `redis-protocol`, so that a misreading of ours is not made twice.
fn encode(args: &[&[u8]]) -> BytesMut {
    let elements: Vec<_> = args.iter().map(|arg| BorrowedFrame::BulkString(arg)).collect();
    let mut out = BytesMut::new();
    extend_encode_borrowed(&mut out, &BorrowedFrame::Array(&elements), false).unwrap();
    out
}

/// The error text `data` leads to, whole and byte by byte.
fn error_text(data: &[u8], limits: &FrameLimits) -> String {
    let whole = events(data, data.len(), limits);
    let error = match whole.last() {
        Some(Event::End(Framed::Error(error))) => error.to_string(),
        other => panic!("{:?} gives {other:?}", data[..data.len().min(60)].escape_ascii()),
    };
    if data.len() < 1000 {
        assert_eq!(events(data, 1, limits), whole);
    }
    error.strip_prefix("ERR Protocol error: ").expect("the common beginning").to_owned()
}

// Each pair was compared with redis-server 7.0.15, but for the non-ASCII byte, which it sends raw.
#[test]
fn refusals_say_what_redis_says() {
    let long = |start: &[u8], byte: u8, count: usize| [start, &vec![byte; count]].concat();
    let cases: &[(&[u8], &str)] = &[
        (b"*3000000000\r\n", "invalid multibulk length"),
        (b"*2147483648\r\n", "invalid multibulk length"),
        (b"*abc\r\n", "invalid multibulk length"),
        (b"*\r\n", "invalid multibulk length"),
        (b"*+1\r\n$4\r\nPING\r\n", "invalid multibulk length"),
        (b"*01\r\n$4\r\nPING\r\n", "invalid multibulk length"),
        (b"*00\r\n", "invalid multibulk length"),
        (b"*-0\r\n", "invalid multibulk length"),
        (b"* 1\r\n", "invalid multibulk length"),
        (b"*1 \r\n", "invalid multibulk length"),
        (b"*-9223372036854775809\r\n", "invalid multibulk length"),
        (b"*111111111111111111111111111111\r\n", "invalid multibulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$-10\r\n", "invalid bulk length"),
        (b"*1\r\n$-0\r\n", "invalid bulk length"),
        (b"*1\r\n$blabla\r\n", "invalid bulk length"),
        (b"*1\r\n$\r\n", "invalid bulk length"),
        (b"*1\r\n$+4\r\nPING\r\n", "invalid bulk length"),
        (b"*1\r\n$04\r\nPING\r\n", "invalid bulk length"),
        (b"*1\r\n$4x\r\n", "invalid bulk length"),
        (b"*1\r\n$536870913\r\n", "invalid bulk length"),
        (b"*1\r\n$4294967300\r\n", "invalid bulk length"),
        (b"*1\r\n$99999999999999\r\n", "invalid bulk length"),
        (b"*1\r\nfoo\r\n", "expected '$', got 'f'"),
        (b"*1\r\n:4\r\n", "expected '$', got ':'"),
        (b"*1\r\n*1\r\n", "expected '$', got '*'"),
        (b"*1\r\n 4\r\n", "expected '$', got ' '"),
        (b"*1\r\n\r\n", "expected '$', got ' '"),
        (b"*1\r\n\n\r\n", "expected '$', got ' '"),
        (b"*1\r\n\xff\r\n", "expected '$', got '\\xff'"),
        (b"*2\r\n$4\r\nPINGxx\r\n\r\n", "expected '$', got ' '"),
        (b"PING \"a\n", "unbalanced quotes in request"),
        (b"PING 'a'b\r\n", "unbalanced quotes in request"),
        (&long(b"", b'x', LINE_BYTES_MAX + 1), "too big inline request"),
        (&long(b"*", b'1', LINE_BYTES_MAX), "too big mbulk count string"),
        (&long(b"*1\r\n$", b'1', LINE_BYTES_MAX), "too big bulk count string"),
        (&long(b"*1\r\nf", b'f', LINE_BYTES_MAX), "too big bulk count string"),
    ];
    for (data, text) in cases {
        assert_eq!(error_text(data, &FrameLimits::DEFAULT), *text);
    }
}

#[test]
fn one_element_more_than_the_limit_is_refused() {
    let limits = FrameLimits::DEFAULT;
    let at_limit = format!("*{ELEMENTS_MAX}\r\n");
    assert_eq!(events(at_limit.as_bytes(), 100, &limits), []);
    let above = format!("*{}\r\n", ELEMENTS_MAX + 1);
    assert_eq!(error_text(above.as_bytes(), &limits), "invalid multibulk length");
}

#[test]
fn strangers_get_ten_elements_of_16_kib() {
    let limits = FrameLimits::UNAUTHENTICATED;
    let largest = vec![b'x'; 16_384];
    let args: Vec<&[u8]> = vec![&largest; 10];
    assert_eq!(events(&encode(&args), 4096, &limits), [command(&args)]);
    assert_eq!(error_text(b"*11\r\n", &limits), "unauthenticated multibulk length");
    assert_eq!(error_text(b"*1\r\n$16385\r\n", &limits), "unauthenticated bulk length");
    // What is invalid for everybody is called so.
    assert_eq!(error_text(b"*3000000000\r\n", &limits), "invalid multibulk length");
    assert_eq!(error_text(b"*1\r\n$3000000000\r\n", &limits), "invalid bulk length");
    // Authenticating lifts both.
    assert_eq!(events(b"*11\r\n$16385\r\n", 100, &FrameLimits::DEFAULT), []);
}

#[test]
fn limits_are_read_anew_at_every_call() {
    let (mut framer, mut buf) = (Framer::new(), BytesMut::from("AUTH x\r\n*11\r\n"));
    assert_eq!(framer.next(&mut buf, &FrameLimits::UNAUTHENTICATED), Framed::Command);
    framer.consume(&mut buf);
    assert_eq!(framer.next(&mut buf, &FrameLimits::DEFAULT), Framed::Incomplete);
}

#[test]
fn empty_requests_are_skipped() {
    for nothing in ["\r\n", "\n", "  \t\r\n", "*0\r\n", "*-1\r\n", "*-10\r\n", "\n\r\n*0\r\n\r\n"] {
        let data = format!("{nothing}*1\r\n$4\r\nPING\r\n{nothing}PING x\n{nothing}");
        let expected = [command(&[b"PING"]), command(&[b"PING", b"x"])];
        assert_eq!(events(data.as_bytes(), data.len(), &FrameLimits::DEFAULT), expected);
        check(data.as_bytes());
    }
    let smallest = b"*-9223372036854775808\r\nPING\r\n";
    assert_eq!(events(smallest, 9, &FrameLimits::DEFAULT), [command(&[b"PING"])]);
}

#[test]
fn web_browsers_are_recognised() {
    let over = |data: &[u8]| events(data, data.len(), &FrameLimits::DEFAULT).pop();
    for data in [
        &b"POST / HTTP/1.1\r\n"[..],
        b"post\r\n",
        b"*1\r\n$4\r\nPoSt\r\n",
        b"*2\r\n$5\r\nhOsT:\r\n$0\r\n\r\n",
        b"\"HOST:\" x\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ] {
        assert_eq!(over(data), Some(Event::End(Framed::Attack)));
    }
    for data in [&b"POSTS\r\n"[..], b"host\r\n", b"x POST Host:\r\n"] {
        assert!(matches!(over(data), Some(Event::Command(_))));
    }
}

#[test]
fn a_line_is_limited_only_while_its_end_is_awaited() {
    let limits = FrameLimits::DEFAULT;
    let line = [&vec![b'y'; LINE_BYTES_MAX + 20_000][..], b"\n"].concat();
    assert_eq!(events(&line, line.len(), &limits), [command(&[&line[..line.len() - 1]])]);
    let too_long = [Event::End(Framed::Error(ProtocolError::InlineTooLong))];
    assert_eq!(events(&line, 16 * 1024, &limits), too_long);
    // Exactly 64 KiB without an end still wait.
    assert_eq!(events(&line[..LINE_BYTES_MAX], 16 * 1024, &limits), []);
}

#[test]
fn a_request_may_fill_its_limit_and_not_a_byte_more() {
    // *1, $8 and the bulk string with its line end.
    let request = b"*1\r\n$8\r\n12345678\r\n";
    let exact = FrameLimits { command_bytes_max: request.len() as u32, ..FrameLimits::DEFAULT };
    assert_eq!(events(request, 5, &exact), [command(&[b"12345678"])]);
    let less = FrameLimits { command_bytes_max: request.len() as u32 - 1, ..exact };
    assert_eq!(error_text(request, &less), "request exceeds the limit of 17 bytes");
    // It is refused when it is announced, not when it has arrived.
    assert_eq!(error_text(&request[..8], &less), "request exceeds the limit of 17 bytes");

    let inline = FrameLimits { command_bytes_max: 8, ..exact };
    assert_eq!(events(b"1 2 3 4\n", 8, &inline), [command(&[b"1", b"2", b"3", b"4"])]);
    assert_eq!(error_text(b"1 2 3 4 \n", &inline), "request exceeds the limit of 8 bytes");
}

#[test]
fn oversized_arguments_leave_their_size() {
    let eight = [b'8'; 8];
    let nine = [b'9'; 9];
    let args: &[&[u8]] = &[b"ADD", &nine, &eight, &[b'x'; 64], b"", &nine];
    let data = [&encode(args)[..], b"\"123456789\" x\n"].concat();
    let limits = FrameLimits { command_bytes_max: 200, ..TINY };
    let oversized = Event::Command(vec![
        Ok(b"ADD".to_vec()),
        Err(9),
        Ok(eight.to_vec()),
        Err(64),
        Ok(Vec::new()),
        Err(9),
    ]);
    let inline = Event::Command(vec![Err(9), Ok(b"x".to_vec())]);
    for piece_bytes in 1..=data.len() {
        let found = events(&data, piece_bytes, &limits);
        assert_eq!(found, [oversized.clone(), inline.clone()], "pieces of {piece_bytes}");
    }
}

#[test]
fn oversized_bytes_are_not_held() {
    let limits = FrameLimits { argument_bytes_max: 1024 * 1024, ..FrameLimits::DEFAULT };
    let (mut framer, mut buf) = (Framer::new(), BytesMut::new());
    let mut held_max = 0;
    let mut feed = |piece: &[u8], buf: &mut BytesMut| {
        buf.extend_from_slice(piece);
        let frame = framer.next(buf, &limits);
        held_max = held_max.max(buf.capacity());
        assert!(framer.wanted(buf) <= 64 * 1024);
        frame
    };
    let piece = vec![b'x'; 16 * 1024];
    assert_eq!(feed(b"*6\r\n$3\r\nADD\r\n", &mut buf), Framed::Incomplete);
    for _ in 0..4 {
        assert_eq!(feed(b"$67108864\r\n", &mut buf), Framed::Incomplete);
        for _ in 0..4096 {
            assert_eq!(feed(&piece, &mut buf), Framed::Incomplete);
        }
        assert_eq!(feed(b"\r\n", &mut buf), Framed::Incomplete);
    }
    assert_eq!(feed(b"$1\r\ny\r\nPING\r\n", &mut buf), Framed::Command);
    assert!(held_max <= 128 * 1024, "256 MiB went through {held_max} bytes");

    let args = framer.args(&buf);
    assert_eq!(args.len(), 6);
    assert_eq!(args.get(0), Some(Arg::Bytes(b"ADD")));
    assert_eq!(args.get(4), Some(Arg::Oversized { len: 67_108_864 }));
    assert_eq!(args.get(5), Some(Arg::Bytes(b"y")));
    framer.consume(&mut buf);
    assert_eq!(&buf[..], b"PING\r\n");
}

#[test]
fn many_small_oversized_arguments_are_not_held_either() {
    let limits = FrameLimits { argument_bytes_max: 100, ..FrameLimits::DEFAULT };
    let element = [&b"$200\r\n"[..], &[b'x'; 200], b"\r\n"].concat();
    let (mut framer, mut buf) = (Framer::new(), BytesMut::from("*100000\r\n"));
    for _ in 0..1000 {
        for _ in 0..99 {
            buf.extend_from_slice(&element);
        }
        assert_eq!(framer.next(&mut buf, &limits), Framed::Incomplete);
    }
    // 99,000 headers of 6 bytes may stay, 20 MB of content may not.
    assert!(buf.len() <= 99_000 * 6 + 9, "{}", buf.len());
}

#[test]
fn announced_sizes_are_not_believed() {
    let (mut framer, mut buf) = (Framer::new(), BytesMut::from("*1048576\r\n$16000000\r\n"));
    assert_eq!(framer.next(&mut buf, &FrameLimits::DEFAULT), Framed::Incomplete);
    assert_eq!(framer.wanted(&buf), 64 * 1024);
    // What has come is matched.
    buf.extend_from_slice(&vec![b'x'; 1_000_000]);
    assert_eq!(framer.next(&mut buf, &FrameLimits::DEFAULT), Framed::Incomplete);
    assert_eq!(framer.wanted(&buf), 1_000_000);
    buf.extend_from_slice(&vec![b'x'; 14_999_990]);
    assert_eq!(framer.wanted(&buf), 12);
}

#[test]
fn a_command_stays_until_it_is_consumed() {
    let limits = FrameLimits::DEFAULT;
    let (mut framer, mut buf) = (Framer::new(), BytesMut::new());
    framer.consume(&mut buf);
    assert_eq!(framer.next(&mut buf, &limits), Framed::Incomplete);
    buf.extend_from_slice(b"BLPOP mail 0\r\nPING\r\n");
    assert!(framer.args(&buf).is_empty());
    assert_eq!(framer.next(&mut buf, &limits), Framed::Command);
    // A blocked client's further bytes change nothing.
    buf.extend_from_slice(b"QUIT\r\n");
    assert_eq!(framer.next(&mut buf, &limits), Framed::Command);
    assert_eq!(framer.args(&buf).get(1), Some(Arg::Bytes(b"mail")));
    framer.consume(&mut buf);
    framer.consume(&mut buf);
    assert_eq!(&buf[..], b"PING\r\nQUIT\r\n");
}

#[test]
fn bulk_line_ends_are_not_looked_at() {
    let expected = [command(&[b"PING"]), command(&[b"QUIT"])];
    assert_eq!(events(b"*1\rX$4\rYPINGZZQUIT\n", 3, &FrameLimits::DEFAULT), expected);
}

#[test]
fn where_a_pipeline_is_cut_makes_no_difference() {
    let big = vec![b'z'; 300];
    let pipelines = [
        [
            &encode(&[b"DELAY.ADD", b"mail", b"5000", b"\r\n$3\r\n*1", &big, b""])[..],
            b"\r\n*0\r\nPING\r\n",
            &encode(&[b""]),
            b"ECHO \"a\\x41\\n\" 'x\"y'\n",
            &encode(&[b"ACK", b"1234567890"]),
        ]
        .concat(),
        b"*-3\r\nPING\n*1\r\n$4\r\nPING\r\n*1\r\nx\r\nPING\r\n".to_vec(),
        b"*2\r\n$4\r\nECHO\r\n$10\r\n0123456789\r\nPING 'a'b\r\n".to_vec(),
        b"*1\r\n$0000\r\n".to_vec(),
    ];
    for data in &pipelines {
        for limits in [FrameLimits::DEFAULT, FrameLimits::UNAUTHENTICATED, TINY] {
            let whole = events(data, data.len(), &limits);
            assert!(!whole.is_empty());
            for cut in 1..data.len() {
                assert_eq!(cut_at(data, cut, &limits), whole, "cut at {cut}");
            }
        }
        check(data);
    }
}

/// Everything reported when `data` arrives in two pieces.
fn cut_at(data: &[u8], cut: usize, limits: &FrameLimits) -> Vec<Event> {
    let (mut framer, mut buf, mut found) = (Framer::new(), BytesMut::new(), Vec::new());
    for piece in [&data[..cut], &data[cut..]] {
        buf.extend_from_slice(piece);
        if let Err(end) = check_framer::drain(&mut framer, &mut buf, limits, &mut found) {
            found.push(Event::End(end));
            break;
        }
    }
    found
}

#[test]
fn every_valid_request_reads_as_in_redis_protocol() {
    let arg = prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'$')], 0..9),
        1 => (990usize..1010).prop_map(|len| vec![b'v'; len]),
        1 => (99_990usize..100_010).prop_map(|len| vec![b'w'; len]),
    ];
    let request = proptest::collection::vec(arg, 1..12);
    let pipeline = proptest::collection::vec(request, 1..6);
    property((pipeline, 1usize..5000), |(requests, piece_bytes)| {
        let (mut data, mut expected) = (BytesMut::new(), Vec::new());
        for request in &requests {
            let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
            data.extend_from_slice(&encode(&args));
            expected.push(command(&args));
        }
        let mut rest = &data[..];
        for event in &expected {
            let (frame, end) = decode_range(rest).unwrap().unwrap();
            let RangeFrame::Array(elements) = frame else { panic!("not an array") };
            let theirs = check_framer::bulk_strings(rest, &elements).unwrap();
            assert_eq!(&Event::Command(theirs), event);
            rest = &rest[end..];
        }
        let found = events(&data, piece_bytes, &FrameLimits::DEFAULT);
        assert!(found == expected, "they differ in pieces of {piece_bytes}");
    });
}

#[test]
fn no_bytes_whatever_break_it() {
    property(proptest::collection::vec(any::<u8>(), 0..300), |data| check(&data));
    // Mostly protocol, so that it gets past the first header.
    let word = proptest::sample::select(vec![
        "*", "$", "\r\n", "\n", "\r", "0", "1", "2", "9", "10", "-", "+", "\"", "'", "\\x41", "\\",
        " ", "*2\r\n", "$1\r\nx\r\n", "$9\r\n123456789\r\n", "$65\r\n", "PING", "POST", "\u{ff}",
    ]);
    let words = proptest::collection::vec(word, 0..40);
    property(words, |words| check(words.concat().as_bytes()));
}

#[test]
fn the_kept_corpus_passes() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/framer");
    let mut files = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        check(&std::fs::read(&path).unwrap());
        files += 1;
    }
    assert!(files >= 20, "only {files} inputs in {corpus}");
}
