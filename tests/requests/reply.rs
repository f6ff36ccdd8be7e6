//! Reply bytes in both protocols, and that `redis-protocol` reads them back.

use bytes::{Bytes, BytesMut};
use delayd::resp::{Encoder, Protocol};
use redis_protocol::resp2::decode::decode as decode2;
use redis_protocol::resp3::decode::complete::decode as decode3;
use redis_protocol::resp3::types::{OwnedFrame, VerbatimStringFormat};

fn encoded(protocol: Protocol, reply: impl Fn(&mut Encoder<'_>)) -> Bytes {
    // Replies are appended: what is before them stays.
    let mut out = BytesMut::from("before");
    reply(&mut Encoder::new(&mut out, protocol));
    assert_eq!(&out[..6], b"before");
    out.freeze().slice(6..)
}

/// Asserts the bytes in both protocols and that each decodes as exactly one frame.
fn check(reply: impl Fn(&mut Encoder<'_>), resp2: &str, resp3: &str) {
    let bytes = encoded(Protocol::Resp2, &reply);
    assert_eq!(bytes.escape_ascii().to_string(), resp2.as_bytes().escape_ascii().to_string());
    let (_, end) = decode2(&bytes).unwrap().expect(resp2);
    assert_eq!(end, bytes.len(), "{resp2:?}");

    let bytes = encoded(Protocol::Resp3, &reply);
    assert_eq!(bytes.escape_ascii().to_string(), resp3.as_bytes().escape_ascii().to_string());
    let (_, end) = decode3(&bytes).unwrap().expect(resp3);
    assert_eq!(end, bytes.len(), "{resp3:?}");
}

fn same(reply: impl Fn(&mut Encoder<'_>), both: &str) {
    check(reply, both, both);
}

#[test]
fn types_common_to_both() {
    same(|r| r.ok(), "+OK\r\n");
    same(|r| r.simple("PONG"), "+PONG\r\n");
    same(|r| r.simple(""), "+\r\n");
    same(|r| r.error("ERR no such key"), "-ERR no such key\r\n");
    same(|r| r.error("ERR unknown command 'a\r\n+OK\nb'"), "-ERR unknown command 'a  +OK b'\r\n");
    same(|r| r.error("ERR größer"), "-ERR größer\r\n");
    same(|r| r.integer(0), ":0\r\n");
    same(|r| r.integer(1), ":1\r\n");
    same(|r| r.integer(-1), ":-1\r\n");
    same(|r| r.integer(i64::MAX), ":9223372036854775807\r\n");
    same(|r| r.integer(i64::MIN), ":-9223372036854775808\r\n");
    same(|r| r.bulk(b""), "$0\r\n\r\n");
    same(|r| r.bulk(b"a\r\nb"), "$4\r\na\r\nb\r\n");
    same(|r| r.bulk_unsigned(u64::MAX), "$20\r\n18446744073709551615\r\n");
    same(|r| r.array(0), "*0\r\n");
}

#[test]
fn types_of_their_own_in_resp3() {
    check(|r| r.null(), "$-1\r\n", "_\r\n");
    check(|r| r.null_array(), "*-1\r\n", "_\r\n");
    check(|r| r.map(0), "*0\r\n", "%0\r\n");
    check(|r| r.set(0), "*0\r\n", "~0\r\n");
    check(|r| r.verbatim_txt("a\r\nb"), "$4\r\na\r\nb\r\n", "=8\r\ntxt:a\r\nb\r\n");
    check(|r| r.verbatim_txt(""), "$0\r\n\r\n", "=4\r\ntxt:\r\n");
    check(|r| r.double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n");
    check(|r| r.double(0.1), "$3\r\n0.1\r\n", ",0.1\r\n");
    check(|r| r.double(-0.25), "$5\r\n-0.25\r\n", ",-0.25\r\n");
    check(|r| r.double(3.0), "$1\r\n3\r\n", ",3\r\n");
    check(|r| r.double(1e21), "$22\r\n1000000000000000000000\r\n", ",1000000000000000000000\r\n");
    check(|r| r.double(f64::INFINITY), "$3\r\ninf\r\n", ",inf\r\n");
    check(|r| r.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n");
    check(|r| r.double(f64::NAN), "$3\r\nnan\r\n", ",nan\r\n");
}

#[test]
fn redis_protocol_reads_the_values_back() {
    let decoded = |reply: &dyn Fn(&mut Encoder<'_>)| {
        decode3(&encoded(Protocol::Resp3, reply)).unwrap().unwrap().0
    };
    assert_eq!(decoded(&|r| r.double(0.1)), OwnedFrame::Double { data: 0.1, attributes: None });
    assert_eq!(
        decoded(&|r| r.verbatim_txt("x y")),
        OwnedFrame::VerbatimString {
            data: b"x y".to_vec(),
            format: VerbatimStringFormat::Text,
            attributes: None
        }
    );
    // Lengths around every power of ten, where a digit is easily lost.
    for len in [9, 10, 11, 99, 100, 101, 999, 1000, 1001, 99_999, 100_000, 1_000_000] {
        let bytes = vec![b'x'; len];
        let data = bytes.clone();
        assert_eq!(decoded(&|r| r.bulk(&bytes)), OwnedFrame::BlobString { data, attributes: None });
        let text = "y".repeat(len);
        assert_eq!(
            decoded(&|r| r.verbatim_txt(&text)),
            OwnedFrame::VerbatimString {
                data: text.clone().into_bytes(),
                format: VerbatimStringFormat::Text,
                attributes: None
            }
        );
    }
}

/// Why integers do not go through `redis-protocol`. If this fails, it has been repaired there.
#[test]
fn redis_protocol_miscounts_digits() {
    use redis_protocol::resp2::{encode::extend_encode_borrowed, types::BorrowedFrame};
    let mut out = BytesMut::new();
    let frame = BorrowedFrame::Integer(999_999_999_999_999_999);
    extend_encode_borrowed(&mut out, &frame, false).unwrap();
    assert_eq!(&out[..], b":999999999999999999\r\n\0");
    same(|r| r.integer(999_999_999_999_999_999), ":999999999999999999\r\n");
}
