//! Two nodes that talk, whatever happens between them.

use super::relay::Relay;
use super::site::{Hand, Seen, Site, append, claims, heartbeat};
use super::socket::Authority;
use crate::cluster::members::names::Address;
use crate::cluster::peer::frame::Lane;
use crate::cluster::timing::clocks::ClockNote;
use crate::limits::PEER_DATA_QUEUE_BYTES_MAX;
use crate::patience::limit;
use crate::server::cluster::peer_tls::PeerTls;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::io::Read;
use std::net::TcpListener;
use std::time::Instant;

/// Two that have met.
fn two() -> [Site; 2] {
    two_with(&PeerTls::default())
}

/// As they are, and under TLS.
fn both() -> [[Site; 2]; 2] {
    [PeerTls::default(), Authority::new().tls()].map(|tls| two_with(&tls))
}

fn two_with(tls: &PeerTls) -> [Site; 2] {
    let site = |text, id| Site::start_sealed(claims(text, id), tls.clone());
    let sites = [site("n1", 1), site("n2", 2)];
    sites[0].knows(&[(Some(2), "n2", &sites[1].address)]);
    sites[1].knows(&[(None, "n1", &sites[0].address)]);
    sites[0].meets("n2");
    sites
}

/// Sends an append until one has arrived: the connection for data is dialled after the one for control.
fn until_data_flows(from: &Site, to: &Site, term: u64) {
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < limit(), "no data: {}", from.log().text());
        from.send(vec![append(from.id, to.id, term, Bytes::from_static(b"first"))]);
        // Lost messages are reported, and others arrive.
        let seen = |seen: &Seen| matches!(seen, Seen::Lost(_));
        if !from.rest().iter().any(seen)
            && to.rest().iter().any(|seen| matches!(seen, Seen::Heard { .. }))
        {
            return;
        }
        std::thread::yield_now();
    }
}

#[test]
fn what_is_sent_arrives_once_and_in_order() {
    for [n1, n2] in both() {
        until_data_flows(&n1, &n2, 1);
        let body = |at: u64| {
            let bytes = [0, 1, 2, 63, 64, 1_000, 70_000, 300_000][at as usize % 8];
            Bytes::from(vec![at as u8; bytes + 1])
        };
        let (first, end) = (10, 410);
        for at in first..end {
            n1.send(vec![append(1, 2, at, body(at)), heartbeat(1, 2, at)]);
        }
        let (mut control, mut data) = (first, first);
        while control < end || data < end {
            let (peer, head, bodies) = n2.hears();
            assert_eq!(peer, 1);
            let expected = |message: crate::cluster::raft::codec::Outgoing| {
                crate::cluster::raft::codec::Head::read(&message.head).unwrap()
            };
            if bodies.is_empty() {
                assert_eq!(head, expected(heartbeat(1, 2, control)));
                control += 1;
            } else if head == expected(append(1, 2, 1, bodies[0].clone())) {
                // From before data flowed.
            } else {
                assert_eq!(head, expected(append(1, 2, data, body(data))));
                assert_eq!(bodies, [body(data)]);
                data += 1;
            }
        }
    }
}

#[test]
fn heartbeats_overtake_a_large_entry() {
    for [n1, n2] in both() {
        until_data_flows(&n1, &n2, 1);
        n2.rest();
        let large = Bytes::from(vec![7; 64 << 20]);
        n1.send(vec![append(1, 2, 2, large.clone())]);
        for term in 2..7 {
            n1.send(vec![heartbeat(1, 2, term)]);
        }
        let mut heartbeats = 0;
        loop {
            let (_, _, bodies) = n2.hears();
            match bodies.first() {
                None => heartbeats += 1,
                Some(body) if body.len() == large.len() => {
                    assert!(*body == large);
                    break;
                }
                Some(_) => {}
            }
        }
        assert_eq!(heartbeats, 5);
    }
}

/// A leader's ticks for the one are ticks for the other: once no follower ever heard of its clock.
#[test]
fn what_a_clock_shows_is_told_behind_messages_of_the_same_turn() {
    for [n1, n2] in both() {
        until_data_flows(&n1, &n2, 1);
        for sent in 1..100 {
            let heartbeats = (0..sent).map(|_| heartbeat(1, 2, sent)).collect();
            n1.tell_clock(heartbeats, ClockNote { sent, ..ClockNote::default() });
            let told = n2.expect("its clock", |seen| match seen {
                Seen::Clock(note) => Some(note.sent),
                _ => None,
            });
            assert_eq!(told, sent);
        }
    }
}

#[test]
fn a_connection_that_is_cut_comes_back() {
    let (n1, n2) = (Site::start(claims("n1", 1)), Site::start(claims("n2", 2)));
    let relay = Relay::start(&n2.address);
    n1.knows(&[(None, "n2", &relay.address)]);
    n2.knows(&[(Some(1), "n1", &n1.address)]);
    until_data_flows(&n1, &n2, 1);
    for term in 2..5 {
        relay.end("n1");
        n1.loses(2);
        until_data_flows(&n1, &n2, term);
    }
    relay.cut("n1");
    n1.loses(2);
    relay.mend();
    until_data_flows(&n1, &n2, 5);
    // Once for each cause; it might be a node that is restarted.
    let said = n1.log().lines("INFO", "the connection to a peer has ended");
    let causes: BTreeSet<&str> =
        said.iter().map(|line| line.split("ended: ").nth(1).unwrap()).collect();
    assert!(!said.is_empty() && said.len() == causes.len(), "{}", n1.log().text());
}

#[test]
fn a_node_that_was_restarted_is_found_again() {
    let [n1, n2] = two();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let elsewhere = Address::parse(&listener.local_addr().unwrap().to_string()).unwrap();
    // n2 may have called before n1 did, and n1 loses only what it has reached.
    until_data_flows(&n1, &n2, 1);
    drop(n2);
    n1.loses(2);
    let n2 = Site::start_at(claims("n2", 2), listener);
    n2.knows(&[(Some(1), "n1", &n1.address)]);
    n1.knows(&[(Some(2), "n2", &elsewhere)]);
    until_data_flows(&n1, &n2, 3);
}

/// As a host, and as a part of what the system may take seconds for.
#[test]
fn host_names_are_looked_up() {
    let (n1, n2) = (Site::start(claims("n1", 1)), Site::start(claims("n2", 2)));
    let by_name = Address::new("localhost", n2.address.port()).unwrap();
    n1.knows(&[(None, "n2", &by_name)]);
    until_data_flows(&n1, &n2, 1);
    let nowhere = Address::new("no-such-host.invalid", 1).unwrap();
    n1.knows(&[(None, "n2", &nowhere)]);
    n1.loses(2);
    let began = Instant::now();
    while n1.log().warnings("a peer cannot be reached").is_empty() {
        assert!(began.elapsed() < limit(), "{}", n1.log().text());
        std::thread::yield_now();
    }
}

#[test]
fn a_list_that_says_the_same_ends_nothing() {
    let [n1, n2] = two();
    until_data_flows(&n1, &n2, 1);
    n2.rest();
    n1.knows(&[(Some(2), "n2", &n2.address), (None, "n1", &n1.address)]);
    n1.knows(&[(None, "n2", &n2.address)]);
    n1.send(vec![heartbeat(1, 2, 5)]);
    n2.hears();
    assert!(!n1.rest().iter().any(|seen| matches!(seen, Seen::Lost(_))));
    // Another id is another node.
    n1.knows(&[(Some(3), "n2", &n2.address)]);
    n1.loses(2);
    let began = Instant::now();
    while n1.log().warnings("has the id 0000000000000002").is_empty() {
        assert!(began.elapsed() < limit(), "{}", n1.log().text());
        std::thread::yield_now();
    }
}

#[test]
fn a_peer_that_does_not_read_takes_no_memory() {
    let n1 = Site::start(claims("n1", 1));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::parse(&listener.local_addr().unwrap().to_string()).unwrap();
    n1.knows(&[(None, "n2", &address)]);
    let mut control = Hand::answer(&listener, claims("n2", 2));
    assert_eq!(control.shake().unwrap().lane, Lane::Control);
    let mut data = Hand::answer(&listener, claims("n2", 2));
    assert_eq!(data.shake().unwrap().lane, Lane::Data);
    let body = Bytes::from(vec![1; 1 << 20]);
    // The system takes some MiB of it.
    let enough = 2 * (PEER_DATA_QUEUE_BYTES_MAX >> 20) as u64;
    for at in 1..enough {
        n1.send(vec![append(1, 2, at, body.clone())]);
    }
    n1.loses(2);
    let said = n1.log().warnings("it does not read, and ");
    assert_eq!(said.len(), 1, "{}", n1.log().text());
    // Control goes on, and nothing of what waited is kept.
    n1.send(vec![heartbeat(1, 2, 5)]);
    let mut bytes = [0; 80];
    control.stream.read_exact(&mut bytes).unwrap();
    assert!(body.is_unique());
    for _ in 0..20_000 {
        n1.send(vec![heartbeat(1, 2, 5); 100]);
    }
    n1.loses(2);
}

#[test]
fn one_that_is_full_hears_heartbeats_and_no_entries() {
    for [n1, n2] in both() {
        until_data_flows(&n1, &n2, 1);
        n2.set_full(true);
        let large = Bytes::from(vec![7; 3 << 20]);
        // Each heartbeat wakes it, and each time it could read a MiB. The first comes after it is full.
        for term in 2..50 {
            n1.send(vec![heartbeat(1, 2, term)]);
            n2.expect("a heartbeat", |seen| match seen {
                Seen::Heard { bodies, .. } => {
                    assert!(bodies.iter().all(|body| body.len() < large.len()));
                    bodies.is_empty().then_some(())
                }
                Seen::Met(_) | Seen::Lost(_) | Seen::Parted(_) | Seen::Clock(_) => None,
            });
            if term == 2 {
                n1.send(vec![append(1, 2, 2, large.clone())]);
            }
        }
        n2.set_full(false);
        n2.expect("the entry", |seen| match seen {
            Seen::Heard { bodies, .. } => (*bodies == [large.clone()]).then_some(()),
            Seen::Met(_) | Seen::Lost(_) | Seen::Parted(_) | Seen::Clock(_) => None,
        });
    }
}

/// The bound of the queue covers the waiting messages.
#[test]
fn a_large_message_lets_others_follow() {
    for [n1, n2] in both() {
        until_data_flows(&n1, &n2, 1);
        n1.rest();
        let large = Bytes::from(vec![7; PEER_DATA_QUEUE_BYTES_MAX]);
        let next = (3..103).map(|term| append(1, 2, term, Bytes::from_static(b"next")));
        n1.send([append(1, 2, 2, large)].into_iter().chain(next).collect());
        for _ in 3..103 {
            n2.expect("what follows", |seen| match seen {
                Seen::Heard { bodies, .. } => (bodies[0] == b"next"[..]).then_some(()),
                Seen::Met(_) | Seen::Lost(_) | Seen::Parted(_) | Seen::Clock(_) => None,
            });
        }
        assert!(!n1.rest().iter().any(|seen| matches!(seen, Seen::Lost(_))));
    }
}

/// As Raft does it while it has no answer.
#[test]
fn what_waits_to_be_sent_is_not_queued_again() {
    let [n1, n2] = two();
    until_data_flows(&n1, &n2, 1);
    n1.rest();
    let large = Bytes::from(vec![7; PEER_DATA_QUEUE_BYTES_MAX]);
    for _ in 0..100 {
        n1.send(vec![append(1, 2, 2, large.clone())]);
    }
    n1.send(vec![append(1, 2, 3, Bytes::from_static(b"next"))]);
    let mut count = 0;
    n2.expect("what follows", |seen| match seen {
        Seen::Heard { bodies, .. } => {
            count += usize::from(bodies[0].len() == large.len());
            (bodies[0] == b"next"[..]).then_some(())
        }
        Seen::Met(_) | Seen::Lost(_) | Seen::Parted(_) | Seen::Clock(_) => None,
    });
    assert!((1..10).contains(&count), "sent {count} times");
    assert!(!n1.rest().iter().any(|seen| matches!(seen, Seen::Lost(_))));
}
