//! Other callers at the peers' port.

use super::site::{
    Hand, Lines, Seen, Site, append, claims, ends, frame, greeting, heartbeat, name,
};
use crate::cluster::members::claims::{ClusterId, Holds};
use crate::cluster::peer::frame::{FrameKind, HEADER_BYTES, Lane, encode};
use crate::cluster::peer::hello::{Called, Handshake, Secret};
use crate::cluster::peer::seal::SEAL_BYTES;
use crate::limits::PEER_HANDSHAKES_MAX;
use crate::patience::{Machine, limit, seconds};
use bytes::Bytes;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A node that calls n2 and n3, which do not exist.
fn n1() -> Site {
    let site = Site::start(claims("n1", 1));
    let nobody = crate::cluster::members::names::Address::parse("127.0.0.1:1").unwrap();
    site.knows(&[(None, "n2", &nobody), (None, "n3", &nobody)]);
    site
}

/// How often it was warned of that, once it was.
fn warned(site: &Site, text: &str) -> usize {
    await_log(site, text, |log| !log.warnings(text).is_empty());
    site.log().warnings(text).len()
}

fn logged(site: &Site, text: &str) {
    await_log(site, text, |log| log.text().contains(text));
}

fn await_log(site: &Site, text: &str, is_there: impl Fn(&Lines) -> bool) {
    let began = Instant::now();
    while !is_there(site.log()) {
        assert!(began.elapsed() < limit(), "{text:?} is missing in {}", site.log().text());
        std::thread::yield_now();
    }
}

#[test]
fn who_is_not_one_of_them_is_told_so() {
    let site = n1();
    let refused = |mut hand: Hand| {
        let told = match hand.shake() {
            Err(refusal) => refusal,
            // One that knows the secret is refused after its proof.
            Ok(_) => hand.shake().unwrap_err(),
        };
        hand.ends();
        told.to_string()
    };
    let call = |own| refused(Hand::call(&site, own, "secret", "n1", Lane::Control));
    let told = |text: &str| format!("the other node refuses: {text}");
    let refused_by_test = "cluster-nodes has n1 at n1:1; that is this node, n4, itself";
    assert_eq!(call(claims("n4", 4)), told(refused_by_test));
    let mut other = claims("n2", 2);
    other.holds = Holds::Member(ClusterId(2));
    assert!(
        call(other).contains("n1 is a member of cluster 00000000000000000000000000000001, n2 of")
    );
    assert!(call(claims("n1", 9)).contains("two nodes are called n1: "));
    let base = refused(Hand::call(&site, claims("n2", 2), "secret", "n1", Lane::Base));
    assert_eq!(base, told("this node accepts no bases"));
    let wrong = refused(Hand::call(&site, claims("n2", 2), "other", "n1", Lane::Control));
    assert_eq!(wrong, told("the cluster-secret of n2 differs from that of n1"));
    let elsewhere = refused(Hand::call(&site, claims("n2", 2), "secret", "n7", Lane::Control));
    assert_eq!(elsewhere, told("expected n7, but n1 answers at this address"));

    let mut first = Hand::call(&site, claims("n3", 3), "secret", "n1", Lane::Control);
    first.shake().unwrap();
    first.say(FrameKind::Message, &heartbeat(3, 1, 7).head, &[]);
    assert_eq!(site.hears().0, 3);
    // One that calls again, as after a cut it did not notice.
    let mut again = Hand::call(&site, claims("n3", 3), "secret", "n1", Lane::Control);
    again.shake().unwrap();
    first.ends();
    again.say(FrameKind::Message, &heartbeat(3, 1, 9).head, &[]);
    assert_eq!(site.hears().0, 3);
}

#[test]
fn garbage_ends_its_own_connection_and_is_logged_once() {
    let site = n1();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(site.address.to_string()).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        ends(&mut stream);
    }
    assert_eq!(warned(&site, "not a delayd peer: it begins with 'GET / HTTP"), 1);
    let mut large = frame(FrameKind::Hello, b"x");
    large[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    let cases: [(&[u8], &str); 4] = [
        (&large, "a header of 4294967295 bytes"),
        (&frame(FrameKind::Message, &heartbeat(2, 1, 1).head), "kind Message does not belong"),
        (&frame(FrameKind::Proof, &[0; 32]), "an unexpected Proof"),
        (&frame(FrameKind::Hello, b"x"), "a Hello that cannot be read"),
    ];
    for (bytes, text) in cases {
        for _ in 0..3 {
            let mut stream = TcpStream::connect(site.address.to_string()).unwrap();
            stream.write_all(&[greeting(), bytes].concat()).unwrap();
            ends(&mut stream);
        }
        assert_eq!(warned(&site, text), 1);
    }
    // A probe of the port is not logged.
    drop(TcpStream::connect(site.address.to_string()).unwrap());
    logged(&site, "a caller sent nothing");
}

#[test]
fn a_peer_that_says_what_no_peer_says_is_cut_off() {
    let head = append(2, 1, 3, Bytes::from_static(b"abc")).head;
    for (lane, head, body, text) in [
        (Lane::Control, &[9; 64][..], "", "a message that cannot be read"),
        (Lane::Data, &head, "ab", "bodies of 3 bytes requested, 2 are available"),
        (Lane::Data, &head, "abcd", "1 extra bytes after a message"),
    ] {
        let site = n1();
        let mut hand = Hand::call(&site, claims("n2", 2), "secret", "n1", lane);
        hand.shake().unwrap();
        hand.say(FrameKind::Message, head, &[Bytes::from_static(body.as_bytes())]);
        hand.ends();
        assert_eq!(warned(&site, text), 1);
    }
}

/// A heartbeat of a later term injected between the nodes, as the peer would send it, but without the seal.
#[test]
fn a_frame_that_is_put_in_ends_the_connection() {
    for lane in [Lane::Control, Lane::Data] {
        let site = n1();
        let mut hand = Hand::call(&site, claims("n2", 2), "secret", "n1", lane);
        hand.shake().unwrap();
        let message = match lane {
            Lane::Control => heartbeat(2, 1, 7),
            _ => append(2, 1, 7, Bytes::from_static(b"abc")),
        };
        hand.say(FrameKind::Message, &message.head, &message.bodies);
        assert_eq!(site.hears().0, 2);
        let parts = encode(FrameKind::Message, &message.head, &message.bodies);
        hand.stream.write_all(&[&parts.concat()[..], &[0; SEAL_BYTES]].concat()).unwrap();
        hand.ends();
        assert_eq!(warned(&site, "a frame without the peer's signature"), 1);
        assert!(site.rest().iter().all(|seen| !matches!(seen, Seen::Heard { .. })));
    }
}

/// Its data connection was on its way when it went, and is accepted after the control connection has ended.
#[test]
fn a_node_that_is_gone_is_not_back_by_its_last_data_connection() {
    let site = n1();
    let mut control = Hand::call(&site, claims("n2", 2), "secret", "n1", Lane::Control);
    control.shake().unwrap();
    let mut data = Hand::call(&site, claims("n2", 2), "secret", "n1", Lane::Data);
    data.shake().unwrap();
    drop(data);
    logged(&site, "a peer's connection has ended");
    // It is heard after whatever the end of the other connection has led to.
    control.say(FrameKind::Message, &heartbeat(2, 1, 7).head, &[]);
    site.expect("a message", |seen| match seen {
        Seen::Parted(_) => panic!("it still calls"),
        seen => matches!(seen, Seen::Heard { .. }).then_some(()),
    });
    drop(control);
    site.parts_from(2);
    let mut late = Hand::call(&site, claims("n2", 2), "secret", "n1", Lane::Data);
    late.shake().unwrap();
    site.meets("n2");
    drop(late);
    site.parts_from(2);
}

/// By that secrets could be tried at home.
#[test]
fn a_door_shows_no_code_to_a_caller_that_has_not_proved_itself() {
    let site = n1();
    for newest in 1..=3_u16 {
        let mut out = Vec::new();
        let called = Called { name: name("n1"), node: None };
        let secret = Secret::new("secret");
        Handshake::call(claims("n2", 2), secret, [7; 32], called, Lane::Control, &mut out);
        let mut hello = out.split_off(greeting().len() + HEADER_BYTES);
        hello[..2].copy_from_slice(&newest.to_le_bytes());
        let mut stream = TcpStream::connect(site.address.to_string()).unwrap();
        stream.set_read_timeout(Some(crate::patience::limit())).unwrap();
        stream.write_all(&[greeting(), &frame(FrameKind::Hello, &hello)].concat()).unwrap();
        let mut told = Vec::new();
        let _ = stream.read_to_end(&mut told);
        let kind = told[greeting().len() + 12];
        assert_eq!(kind, FrameKind::Refused as u8, "{newest}: {}", String::from_utf8_lossy(&told));
    }
    warned(&site, "it only speaks protocols up to 1");
}

/// Connections that say nothing make room for those that do, and end after 2 s.
#[test]
fn a_thousand_silent_callers_keep_no_peer_out() {
    let site = n1();
    let mut known = Hand::call(&site, claims("n3", 3), "secret", "n1", Lane::Control);
    known.shake().unwrap();
    let connect = |_| TcpStream::connect(site.address.to_string()).unwrap();
    let mut silent: Vec<TcpStream> = (0..900).map(connect).collect();
    let (machine, began) = (Machine::watch(), Instant::now());
    let mut peer = Hand::call(&site, claims("n2", 2), "secret", "n1", Lane::Control);
    peer.shake().unwrap();
    peer.say(FrameKind::Message, &heartbeat(2, 1, 7).head, &[]);
    assert_eq!(site.hears().0, 2);
    known.say(FrameKind::Message, &heartbeat(3, 1, 7).head, &[]);
    assert_eq!(site.hears().0, 3);
    let (took, allowed) = (began.elapsed(), machine.allows(seconds(2)));
    assert!(took < allowed, "heard after {took:?}, {allowed:?} are allowed");
    // The oldest had to go; only connections that could stay are told that their time is over.
    let mut kept = silent.split_off(silent.len() - PEER_HANDSHAKES_MAX + 1);
    silent.iter_mut().for_each(ends);
    kept.iter_mut().for_each(ends);
    assert!(began.elapsed() >= Duration::from_millis(1_500), "{:?}", began.elapsed());
    assert_eq!(warned(&site, "connections had not identified themselves"), 1);
    assert_eq!(warned(&site, "its handshake was not over after 2 s"), 1);
}
