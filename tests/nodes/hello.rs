//! Two nodes that meet: whom they take for whom, and all that is refused.

use crate::support::seeds::{Seen, for_each_seed};
use delayd::cluster::members::claims::{Claims, ClusterId, Holds, NodeId, version_text};
use delayd::cluster::members::names::{Address, Name};
use delayd::cluster::peer::frame::{
    FrameError, FrameKind, Inbox, Lane, PREFACE, encode, encode_sealed,
};
use delayd::cluster::peer::hello::{Called, Handshake, MetPeer, PROTOCOL, Refusal, Secret, Way};
use delayd::limits::{HANDSHAKE_BYTES_MAX, HANDSHAKE_FRAME_BYTES_MAX};
use hmac::{Hmac, KeyInit, Mac};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sha2::Sha256;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn claims(text: &str, id: u64) -> Claims {
    Claims {
        name: name(text),
        node: NodeId(id),
        holds: Holds::Nothing,
        version: "0.1.0".to_owned(),
        level: 3,
        list: "n1=127.0.0.1:19248,n2=127.0.0.1:19249".to_owned(),
        peer: Address::new("127.0.0.1", 19_248).unwrap(),
        client: Address::new("127.0.0.1", 9_248).unwrap(),
        tls: id.is_multiple_of(2).then(|| Address::new("::1", 9_443).unwrap()),
        sentinel: None,
    }
}

/// One side, and what has come to it.
struct Side {
    handshake: Handshake,
    inbox: Inbox,
    out: Vec<u8>,
    end: Option<Result<MetPeer, Refusal>>,
}

/// Two sides before their handshake.
struct Meeting {
    caller: Claims,
    door: Claims,
    called: Called,
    secrets: [&'static str; 2],
    lane: Lane,
    way: Way,
}

impl Meeting {
    fn new() -> Meeting {
        let (caller, door) = (claims("n1", 11), claims("n2", 12));
        let called = Called { name: name("n2"), node: None };
        let (lane, way) = (Lane::Data, Way::default());
        Meeting { caller, door, called, secrets: ["secret"; 2], lane, way }
    }

    fn sides(&self) -> [Side; 2] {
        let Meeting { caller, door, called, secrets, lane, way } = self;
        let mut out = Vec::new();
        let secret = |at: usize| Secret::new(secrets[at]);
        let calls =
            Handshake::call(caller.clone(), secret(0), [7; 32], called.clone(), *lane, &mut out);
        let answers = Handshake::door(door.clone(), secret(1), [9; 32], *way);
        [(calls, out), (answers, Vec::new())].map(|(handshake, out)| Side {
            handshake,
            inbox: Inbox::new(),
            out,
            end: None,
        })
    }

    /// Runs it with reads of at most `step` bytes; `change` sees what is on its way, from the caller or from the door.
    fn run(
        &self,
        step: usize,
        mut change: impl FnMut(usize, &mut Vec<u8>),
    ) -> [Option<Result<MetPeer, Refusal>>; 2] {
        let mut sides = self.sides();
        for turn in 0..12 {
            let (from, to) = (turn % 2, 1 - turn % 2);
            let mut bytes = std::mem::take(&mut sides[from].out);
            change(from, &mut bytes);
            sides[to].read(&bytes, step);
        }
        sides.map(|side| side.end)
    }

    fn met(&self) -> [Option<Result<MetPeer, Refusal>>; 2] {
        self.run(usize::MAX, |_, _| {})
    }

    /// What the two sides say when they refuse.
    fn refused(&self) -> [String; 2] {
        self.met().map(|end| end.expect("ended").expect_err("refused").to_string())
    }
}

impl Side {
    fn read(&mut self, bytes: &[u8], step: usize) {
        for part in bytes.chunks(step.min(bytes.len()).max(1)) {
            if self.end.is_some() {
                return;
            }
            self.inbox.receive(part);
            let end = self.handshake.advance(&mut self.inbox, &mut self.out);
            self.end = end.transpose();
        }
    }
}

#[test]
fn two_nodes_meet_wherever_their_bytes_are_cut() {
    for lane in Lane::ALL {
        let meeting = Meeting { lane, ..Meeting::new() };
        for step in (1..80).chain([usize::MAX]) {
            let [caller, door] = meeting.run(step, |_, _| {}).map(|end| end.unwrap().unwrap());
            assert_eq!(caller, MetPeer { claims: meeting.door.clone(), lane, protocol: PROTOCOL });
            assert_eq!(door, MetPeer { claims: meeting.caller.clone(), lane, protocol: PROTOCOL });
        }
    }
}

/// After the handshake both sides take what the other one seals, in order, and nothing else.
#[test]
fn frames_are_sealed_after_the_handshake() {
    for (lane, secret, tls) in [
        (Lane::Control, "secret", false),
        (Lane::Base, "secret", false),
        (Lane::Base, "", false),
        (Lane::Base, "secret", true),
    ] {
        let way = Way { tls, has_old: false };
        let meeting = Meeting { lane, secrets: [secret; 2], way, ..Meeting::new() };
        let [mut caller, mut door] = meeting.sides();
        for _ in 0..2 {
            let out = std::mem::take(&mut caller.out);
            door.read(&out, usize::MAX);
            let out = std::mem::take(&mut door.out);
            caller.read(&out, usize::MAX);
        }
        caller.inbox.open(lane);
        for (from, to) in [(0, 1), (1, 0)] {
            let sides = [&mut caller, &mut door];
            let mut sealer = sides[from].handshake.sealer();
            assert_eq!(sealer.is_some(), !secret.is_empty() && !tls);
            let [first, second] = [b"a", b"b"]
                .map(|head| encode_sealed(FrameKind::Message, head, &[], &mut sealer).concat());
            let inbox = &mut sides[to].inbox;
            inbox.receive(&first);
            assert_eq!(inbox.next_frame().unwrap().unwrap().head, b"a"[..]);
            if sealer.is_some() {
                inbox.receive(&first);
                assert_eq!(inbox.next_frame(), Err(FrameError::Seal), "it came again");
            } else {
                inbox.receive(&second);
                assert_eq!(inbox.next_frame().unwrap().unwrap().head, b"b"[..]);
            }
        }
    }
}

/// That it was removed a node believes a door that has proved itself, and whose frames nobody can have put there.
#[test]
fn only_the_node_that_was_called_can_say_that_the_caller_was_removed() {
    let left = |sealer: &mut Option<_>| {
        encode_sealed(FrameKind::Left, &9_u64.to_le_bytes(), &[], sealer).concat()
    };
    for (words, sealed) in [(0, false), (1, false), (2, false), (2, true)] {
        let [mut caller, mut door] = Meeting::new().sides();
        for _ in 0..words {
            let out = std::mem::take(&mut caller.out);
            door.read(&out, usize::MAX);
            let out = std::mem::take(&mut door.out);
            caller.read(&out, usize::MAX);
        }
        assert_eq!(caller.end.is_some(), words == 2);
        let mut sealer = door.handshake.sealer().filter(|_| sealed);
        let preface = if words == 0 { &PREFACE[..] } else { &[] };
        // Where a seal would be.
        let behind = if sealed { &[][..] } else { &[0; 16] };
        caller.inbox.receive(&[preface, &left(&mut sealer), behind].concat());
        let heard = caller.handshake.advance(&mut caller.inbox, &mut caller.out).unwrap_err();
        match (words, sealed) {
            (2, true) => assert_eq!(heard, Refusal::Left { index: 9 }),
            (2, false) => assert_eq!(heard, Refusal::Frame(FrameError::Seal)),
            _ => assert_eq!(heard, Refusal::Order(FrameKind::Left)),
        }
    }
}

/// What follows the last word of the handshake at once is the first message.
#[test]
fn the_first_message_may_come_with_the_last_word_of_the_handshake() {
    let [mut caller, mut door] = Meeting::new().sides();
    door.read(&caller.out, usize::MAX);
    caller.out.clear();
    caller.read(&std::mem::take(&mut door.out), usize::MAX);
    door.read(&caller.out, usize::MAX);
    let mut sealer = door.handshake.sealer();
    assert!(door.end.unwrap().is_ok() && sealer.is_some());
    let message = encode_sealed(FrameKind::Message, b"head", &[], &mut sealer).concat();
    caller.read(&[door.out, message].concat(), usize::MAX);
    assert!(caller.end.unwrap().is_ok());
    caller.inbox.open(Lane::Data);
    assert_eq!(caller.inbox.next_frame().unwrap().unwrap().head, b"head"[..]);
}

/// A caller of before: its HELLO with the newest protocol that it knows.
fn old_call(meeting: &Meeting, newest: u16) -> Side {
    let [caller, mut door] = meeting.sides();
    let mut hello = caller.out[PREFACE.len() + 16..].to_vec();
    hello[..2].copy_from_slice(&newest.to_le_bytes());
    let wire = [&PREFACE[..], &encode(FrameKind::Hello, &hello, &[]).concat()].concat();
    door.read(&wire, usize::MAX);
    door
}

/// A code under the secret is what secrets can be tried by at home: it is shown to callers that have proved themselves,
/// and to old ones only where that gives nothing away, or while there are such in the cluster.
#[test]
fn a_door_proves_first_only_where_old_members_are_left() {
    let open = Way { tls: false, has_old: false };
    for newest in 1..=3 {
        let meeting = Meeting { way: open, ..Meeting::new() };
        let mut door = old_call(&meeting, newest);
        let text = door.end.take().unwrap().unwrap_err().to_string();
        assert!(text.starts_with(&format!("it only speaks protocols up to {newest}")), "{text}");
        for (secret, way) in [
            ("", open),
            ("secret", Way { tls: true, ..open }),
            ("secret", Way { has_old: true, ..open }),
        ] {
            let door = old_call(&Meeting { secrets: [secret; 2], way, ..Meeting::new() }, newest);
            assert!(door.end.is_none());
            assert_eq!(door.out[PREFACE.len() + 12], FrameKind::Welcome as u8);
        }
    }
    // What a stranger gets is the same whatever the secret is.
    let shown = |secret| {
        let [caller, mut door] = Meeting { secrets: [secret; 2], ..Meeting::new() }.sides();
        door.read(&caller.out, usize::MAX);
        door.out
    };
    assert_eq!(shown("one"), shown("other"));
    // A caller goes on with an old door, which has proved itself.
    let mut meeting = Meeting::new();
    meeting.caller.holds = Holds::Member(ClusterId(1));
    let [mut caller, _] = meeting.sides();
    let hello = caller.out[PREFACE.len() + 16..].to_vec();
    caller.read(&welcome(&hello, "n2", 12, None), usize::MAX);
    assert_eq!(caller.end.unwrap().unwrap().protocol, 1);
}

#[test]
fn a_member_meets_one_that_joins() {
    let mut meeting = Meeting::new();
    meeting.door.holds = Holds::Member(ClusterId(0xc1));
    meeting.called.node = Some(NodeId(12));
    assert!(meeting.met().into_iter().all(|end| end.unwrap().is_ok()));
    meeting.caller.holds = Holds::Member(ClusterId(0xc1));
    assert!(meeting.met().into_iter().all(|end| end.unwrap().is_ok()));
}

#[test]
fn each_refusal_names_both_sides_on_both_sides() {
    let told = |text: &str| format!("the other node refuses: {text}");
    let at_door = |meeting: &Meeting, text: &str| {
        assert_eq!(meeting.refused(), [told(text), text.to_owned()]);
    };
    let mut meeting = Meeting { secrets: ["one", "other"], ..Meeting::new() };
    at_door(&meeting, "the cluster-secret of n1 differs from that of n2");
    meeting.secrets = ["", "other"];
    at_door(&meeting, "the cluster-secret of n1 differs from that of n2");
    meeting.secrets = [""; 2];
    assert!(meeting.met()[1].as_ref().unwrap().is_ok(), "none is needed on loopback");

    let meeting = Meeting { door: claims("n3", 13), ..Meeting::new() };
    at_door(&meeting, "expected n2, but n3 answers at this address");

    let meeting = Meeting { caller: claims("n2", 11), ..Meeting::new() };
    at_door(
        &meeting,
        "two nodes are called n2: 000000000000000c and 000000000000000b; cluster-node must differ",
    );
    let meeting = Meeting { caller: claims("n1", 12), ..Meeting::new() };
    at_door(
        &meeting,
        "n2 and n1 both have the id 000000000000000c: one folder is a copy of the other",
    );

    let mut meeting = Meeting::new();
    meeting.caller.holds = Holds::Member(ClusterId(1));
    meeting.door.holds = Holds::Member(ClusterId(2));
    at_door(
        &meeting,
        "n2 is a member of cluster 00000000000000000000000000000002, n1 of cluster \
         00000000000000000000000000000001",
    );
    let mut meeting = Meeting::new();
    meeting.called.node = Some(NodeId(99));
    // An empty folder is that of one who has lost its disk: the leader decides about that one.
    assert!(meeting.met()[0].as_ref().is_some_and(Result::is_ok));
    meeting.door.holds = Holds::Member(ClusterId(1));
    // The caller alone knows that: by then the door has let it in.
    let [caller, door] = meeting.met().map(|end| end.expect("ended"));
    let text = "n2 has the id 000000000000000c, the member of that name has 0000000000000063: it has another folder";
    assert_eq!(caller.unwrap_err().to_string(), text);
    assert!(door.is_ok());
}

/// The two numbers with which every HELLO begins, at 12 bytes of preface and 16 of a frame.
#[test]
fn other_protocols_are_refused_by_their_numbers_alone() {
    let speak = |newest: u16, oldest: u16, rest: &[u8]| {
        let head = [&newest.to_le_bytes()[..], &oldest.to_le_bytes(), rest].concat();
        let [_, mut door] = Meeting::new().sides();
        door.read(&[&PREFACE[..], &encode(FrameKind::Hello, &head, &[]).concat()].concat(), 9);
        let out = String::from_utf8_lossy(&door.out).into_owned();
        (door.end.unwrap().unwrap_err().to_string(), out)
    };
    let (text, out) = speak(9, 7, b"what this one means is not known");
    assert_eq!(text, "n2 speaks protocols 1 to 6, the other node 7 to 9: one of them is too old");
    assert!(out.contains(&text), "the caller is told");
    assert!(speak(0, 0, b"").0.contains("the other node 0 to 0"));
    assert_eq!(speak(4, 1, b"").0, "a Hello that cannot be read");
    assert_eq!(speak(1, 2, b"").0, "a Hello that cannot be read");
}

/// Whoever does not know the secret is not believed, whatever it has heard before.
#[test]
fn a_proof_is_good_for_one_connection() {
    let mut heard = Vec::new();
    Meeting::new().run(usize::MAX, |from, bytes| {
        if from == 0 {
            heard.push(bytes.clone());
        }
    });
    let mut door = Meeting::new().sides().into_iter().nth(1).unwrap();
    door.handshake =
        Handshake::door(claims("n2", 12), Secret::new("secret"), [10; 32], Way::default());
    heard.iter().for_each(|bytes| door.read(bytes, usize::MAX));
    let own = name("n2");
    assert_eq!(door.end, Some(Err(Refusal::Secret { own, other: name("n1") })));
}

/// What does not belong there, as the first message, twice, or from the wrong side.
#[test]
fn messages_out_of_order_are_refused() {
    let [mut caller, mut door] = Meeting::new().sides();
    door.read(&caller.out, usize::MAX);
    door.read(&caller.out[PREFACE.len()..], usize::MAX);
    assert_eq!(door.end, Some(Err(Refusal::Order(FrameKind::Hello))));
    let proof = [&PREFACE[..], &encode(FrameKind::Proof, &[0; 32], &[]).concat()].concat();
    caller.read(&proof, usize::MAX);
    assert_eq!(caller.end, Some(Err(Refusal::Order(FrameKind::Proof))));
}

/// Any bytes that are changed on the way end in a refusal, or in nothing: never in a peer that is believed to be
/// something else than it said.
#[test]
fn changed_bytes_never_make_another_peer() {
    let meeting = Meeting::new();
    let seen = for_each_seed(20_000, |seed, seen: &mut Seen| {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (victim, turns) = (rng.random_range(0..2), rng.random_range(0..2));
        let (mut turn, mut changed) = (0, false);
        let step = rng.random_range(1..300);
        let ends = meeting.run(step, |from, bytes| {
            if from == victim && !bytes.is_empty() {
                if turn == turns {
                    let at = rng.random_range(0..bytes.len());
                    let old = std::mem::replace(&mut bytes[at], rng.random());
                    changed = bytes[at] != old;
                    // The checksum is mended, so that more than it is tested.
                    let begins = if turn == 0 { PREFACE.len() } else { 0 };
                    if at >= begins + 4 && bytes.len() >= begins + 16 {
                        let crc = crc32c::crc32c(&bytes[begins + 4..]);
                        bytes[begins..begins + 4].copy_from_slice(&crc.to_le_bytes());
                    }
                }
                turn += 1;
            }
        });
        let expected = [&meeting.door, &meeting.caller];
        for (end, expected) in ends.iter().zip(expected) {
            match end {
                Some(Ok(peer)) => assert_eq!(peer.claims, *expected),
                Some(Err(_)) => seen.note("refused"),
                None => seen.note("waits"),
            }
        }
        if changed {
            // The proof is the last word: whoever read what was changed before it believes nobody.
            assert!(ends.iter().any(|end| !matches!(end, Some(Ok(_)))), "seed {seed}: {ends:?}");
        }
    });
    seen.check(&["refused", "waits"]);
}

/// A caller that never gets to its proof is held to what one frame takes.
#[test]
fn a_stranger_is_held_to_little() {
    let [_, mut door] = Meeting::new().sides();
    let mut header = encode(FrameKind::Hello, &[0; 5_000], &[])[0][..16].to_vec();
    header[4..8].copy_from_slice(&(HANDSHAKE_FRAME_BYTES_MAX as u32).to_le_bytes());
    door.read(&[&PREFACE[..], &header].concat(), usize::MAX);
    let refused = door.end.unwrap().unwrap_err().to_string();
    assert_eq!(refused, "a header of 8192 bytes; at most 8176 are allowed");

    let [_, mut door] = Meeting::new().sides();
    let longest = encode(FrameKind::Hello, &[1; HANDSHAKE_FRAME_BYTES_MAX - 16], &[]).concat();
    let wire = [&PREFACE[..], &longest[..longest.len() - 1]].concat();
    door.read(&wire, 64 << 10);
    assert!(door.end.is_none() && door.inbox.bytes() <= HANDSHAKE_BYTES_MAX);
}

/// A text of a stranger comes into the log on one line.
#[test]
fn what_the_other_side_tells_is_shown_on_one_line() {
    let [mut caller, _] = Meeting::new().sides();
    let refused = encode(FrameKind::Refused, b"no\n\x1b[2Jroot: \xff", &[]).concat();
    caller.read(&[&PREFACE[..], &refused].concat(), usize::MAX);
    let text = caller.end.unwrap().unwrap_err().to_string();
    assert_eq!(text, "the other node refuses: no[2Jroot: \u{fffd}");
}

/// A WELCOME by somebody who knows the secret, written here byte by byte as the module states it.
fn welcome(hello: &[u8], name: &str, id: u64, cluster: Option<u128>) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat();
    let mut welcome = [&1u16.to_le_bytes()[..], &[9; 32], &text(name), &id.to_le_bytes()].concat();
    match cluster {
        None => welcome.push(0),
        Some(cluster) => welcome.extend([&[2][..], &cluster.to_le_bytes()].concat()),
    }
    welcome.extend([text("0.1.0"), 3u32.to_le_bytes().to_vec(), text("")].concat());
    let address = |port: u16| [text("h"), port.to_le_bytes().to_vec()].concat();
    welcome.extend([vec![0], address(19_249), address(9_249)].concat());
    let mut code = Hmac::<Sha256>::new_from_slice(b"secret").unwrap();
    for part in [b"door", hello, &welcome] {
        code.update(&(part.len() as u64).to_le_bytes());
        code.update(part);
    }
    let head = [&welcome[..], &code.finalize().into_bytes()].concat();
    [&PREFACE[..], &encode(FrameKind::Welcome, &head, &[]).concat()].concat()
}

/// The caller looks for itself who answered, whatever the door made of the call; and the bytes are those that stand
/// in the module.
#[test]
fn a_caller_believes_only_the_one_it_called() {
    let answered = |name: &str, id: u64, cluster: Option<u128>| {
        let mut meeting = Meeting::new();
        meeting.caller.holds = Holds::Member(ClusterId(1));
        let [mut caller, _] = meeting.sides();
        let hello = caller.out[PREFACE.len() + 16..].to_vec();
        caller.read(&welcome(&hello, name, id, cluster), usize::MAX);
        caller
            .end
            .unwrap()
            .map(|peer| peer.claims.name.to_string())
            .map_err(|error| error.to_string())
    };
    assert_eq!(answered("n2", 12, None).as_deref(), Ok("n2"));
    assert_eq!(answered("n2", 12, Some(1)).as_deref(), Ok("n2"));
    let refused = |end: Result<String, String>| end.unwrap_err();
    let text = "expected n2, but n3 answers at this address";
    assert_eq!(refused(answered("n3", 12, None)), text);
    let text = refused(answered("n2", 12, Some(2)));
    assert!(text.starts_with("n1 is a member of cluster 0000") && text.contains(", n2 of cluster"));
    let text = refused(answered("n2", 11, None));
    assert!(text.starts_with("n1 and n2 both have the id 000000000000000b"), "{text}");
    assert_eq!(refused(answered("n 2", 12, None)), "a Welcome that cannot be read");
    assert_eq!(refused(answered("n2", 0, None)), "a Welcome that cannot be read");
}

/// The partition is told with the version. Nodes from before there were any say nothing of it: they have all slots.
#[test]
fn a_version_tells_of_which_partition_a_node_is() {
    let of = |partition, count| {
        let version = version_text("0.1.0", partition, count);
        Claims { version, ..claims("n1", 11) }.partition().to_owned()
    };
    assert_eq!(claims("n1", 11).partition(), "0.of.1");
    assert_eq!((of(0, 1), of(3, 16)), ("0.of.1".to_owned(), "3.of.16".to_owned()));
}
