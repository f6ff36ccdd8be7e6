use super::*;
use crate::cluster::raft::entry::LogEntry;

/// SplitMix64.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

const SEEDS: u64 = 1_000;

fn message(kind: MessageType) -> Message {
    let mut message = Message::default();
    message.set_msg_type(kind);
    (message.from, message.to, message.term) = (1, 2, 7);
    message
}

fn entries() -> Vec<LogEntry> {
    let members = Members { directory: Bytes::from_static(b"n1"), ..Members::of([1, 2, 3]) };
    let facts = |first, count, body| {
        Payload::Facts(EpochFacts { first, now: Micros(1_000 + first), count, body })
    };
    let payloads = [
        Payload::Blank,
        facts(41, 2, Bytes::from_static(b"facts")),
        Payload::Members(members),
        facts(43, 9, Bytes::from(vec![7; 300])),
    ];
    let entry = |(index, payload)| LogEntry { index, term: index.min(7), node: 1 << 63, payload };
    (5..).zip(payloads).map(entry).collect()
}

/// One message of each kind that is sent.
fn frames() -> Vec<Outgoing> {
    let mut append = message(MessageType::MsgAppend);
    (append.index, append.log_term, append.commit) = (4, 4, 3);
    let mut refusal = message(MessageType::MsgAppendResponse);
    (refusal.index, refusal.reject, refusal.reject_hint, refusal.log_term) = (9, true, 4, 2);
    let mut vote = message(MessageType::MsgRequestVote);
    (vote.index, vote.log_term, vote.commit, vote.commit_term) = (9, 7, 8, 6);
    let mut forced = vote.clone();
    forced.context = Bytes::from_static(TRANSFER_CONTEXT);
    let mut heartbeat = message(MessageType::MsgHeartbeat);
    (heartbeat.commit, heartbeat.context) = (3, Bytes::copy_from_slice(&u64::MAX.to_le_bytes()));
    let mut snapshot = message(MessageType::MsgSnapshot);
    let base = Base { index: 40, term: 6, members: Members::of([1, 2]) };
    snapshot.set_snapshot(crate::cluster::raft::storage::snapshot(&base));
    let mut frames = vec![frame(&append, &entries()).expect("a frame")];
    let others = [refusal, vote, forced, heartbeat, snapshot];
    frames.extend(others.iter().filter_map(|message| frame(message, &[])));
    for (_, kind) in
        KINDS.iter().filter(|(kind, _)| !matches!(kind, MessageKind::Append | MessageKind::Base))
    {
        frames.push(frame(&message(*kind), &[]).expect("a frame"));
    }
    frames
}

#[test]
fn what_is_read_is_what_was_written() {
    for written in frames() {
        let head = Head::read(&written.head).expect("its own head");
        assert_eq!(head.from(), 1);
        assert!(head.bodies().eq(written.bodies.iter().map(Bytes::len)));
        let (message, entries) = head.into_message(written.bodies.clone()).expect("its bodies");
        assert_eq!(frame(&message, &entries), Some(written));
    }
    let (message, read) = {
        let written = &frames()[0];
        let head = Head::read(&written.head).expect("its own head");
        head.into_message(written.bodies.clone()).expect("its bodies")
    };
    assert_eq!(read, entries());
    assert_eq!(message.entries[1].data, 5u32.to_le_bytes().to_vec(), "Raft has its size alone");
}

#[test]
fn local_messages_have_no_frame() {
    for kind in [
        MessageType::MsgHup,
        MessageType::MsgBeat,
        MessageType::MsgPropose,
        MessageType::MsgCheckQuorum,
        MessageType::MsgSnapStatus,
        MessageType::MsgUnreachable,
        MessageType::MsgTransferLeader,
        MessageType::MsgReadIndex,
        MessageType::MsgReadIndexResp,
    ] {
        assert_eq!(frame(&message(kind), &[]), None, "{kind:?}");
    }
}

#[test]
fn lanes_keep_heartbeats_out_of_the_way_of_entries() {
    let lane = |kind| frame(&message(kind), &[]).expect("a frame").lane;
    assert_eq!(lane(MessageType::MsgAppend), Lane::Data, "an empty append too");
    assert_eq!(lane(MessageType::MsgHeartbeat), Lane::Control);
    assert_eq!(lane(MessageType::MsgAppendResponse), Lane::Control);
    assert_eq!(lane(MessageType::MsgTimeoutNow), Lane::Control);
}

/// A change to one field of a good head, and what is said of it.
fn broken(at: usize, bytes: &[u8]) -> Result<Head, HeadError> {
    let mut head = frames()[0].head.clone();
    head[at..at + bytes.len()].copy_from_slice(bytes);
    Head::read(&head)
}

#[test]
fn numbers_out_of_range_are_refused_by_name() {
    let big = (1u64 << 63).to_le_bytes();
    assert_eq!(broken(0, &[0]), Err(HeadError::Kind(0)));
    assert_eq!(broken(0, &[11]), Err(HeadError::Kind(11)));
    assert_eq!(broken(1, &[REFUSED]), Err(HeadError::Reserved));
    assert_eq!(broken(2, &[5]), Err(HeadError::Length { bytes: 256, entries: 5 }));
    assert_eq!(broken(4, &[1]).map(|head| head.tag()), Ok(1));
    assert_eq!(broken(8, &[0]), Err(HeadError::Nodes { from: 0, to: 2 }));
    assert_eq!(broken(8, &[2]), Err(HeadError::Nodes { from: 2, to: 2 }));
    assert_eq!(broken(24, &[0]), Err(HeadError::Range("the term")));
    assert_eq!(broken(24, &big), Err(HeadError::Range("the term")));
    assert_eq!(broken(32, &big), Err(HeadError::Range("an index")));
    assert_eq!(broken(48, &big), Err(HeadError::Range("an index")));
    assert_eq!(broken(40, &[0]), Err(HeadError::Range("the term of an index")));
    // Entries of terms 5, 6, 7, 7 after one of term 4.
    assert_eq!(broken(64, &[3]), Err(HeadError::Range("the term of an entry")));
    assert_eq!(broken(64, &[7]), Err(HeadError::Range("the term of an entry")));
    let [blank, facts, members, more] = [64, 112, 160, 208];
    assert_eq!(broken(blank + 40, &[3]), Err(HeadError::Reserved));
    assert_eq!(broken(blank + 47, &[1]), Err(HeadError::Reserved));
    assert_eq!(broken(blank + 36, &[1]), Err(HeadError::Size(1)), "a blank with a body");
    for (at, what) in [(16, "a first fact"), (24, "a time"), (32, "a count")] {
        assert_eq!(broken(blank + at, &[1]), Err(HeadError::Reserved), "a blank with {what}");
        assert_eq!(broken(members + at, &[1]), Err(HeadError::Reserved), "members with {what}");
    }
    let none = [0; 8];
    assert_eq!(broken(members + 8, &none), Err(HeadError::Range("the node of an entry")));
    let sequence = Err(HeadError::Range("the sequence or number of facts"));
    assert_eq!(broken(facts + 16, &none), sequence);
    assert_eq!(broken(facts + 16, &big), sequence);
    assert_eq!(broken(facts + 32, &none[..4]), sequence);
    assert_eq!(broken(facts + 24, &big), Err(HeadError::Range("the time of facts")));
    let most = (BATCH_BYTES_MAX as u32 + 1).to_le_bytes();
    assert_eq!(broken(facts + 36, &most), Err(HeadError::Size(BATCH_BYTES_MAX + 1)));
    let two = |bytes: u32| {
        let mut head = frames()[0].head.clone();
        head[facts + 36..facts + 40].copy_from_slice(&bytes.to_le_bytes());
        head[more + 36..more + 40].copy_from_slice(&bytes.to_le_bytes());
        Head::read(&head).map(|_| ())
    };
    let is_too_much = matches!(two(BATCH_BYTES_MAX as u32), Err(HeadError::Size(_)));
    assert!(is_too_much, "two of the largest batches");
    assert_eq!(two(APPEND_BYTES_MAX as u32 / 2), Ok(()));
}

/// Random bytes, and good frames with some of them changed, cut or longer: an error or a message, never a panic,
/// and no memory for what is only announced.
#[test]
fn garbage_is_refused_and_takes_no_memory() {
    let (mut good, mut bad) = (0, 0);
    for seed in 0..SEEDS {
        let mut chance = Chance(seed);
        for frame in frames() {
            let (mut head, mut bodies) = (frame.head, frame.bodies);
            if chance.below(4) == 0 {
                head.iter_mut().for_each(|byte| *byte = chance.next() as u8);
            }
            for _ in 0..chance.below(4) {
                let at = chance.below(head.len() as u64) as usize;
                head[at] = [0, 1, 2, 127, 255, chance.next() as u8][chance.below(6) as usize];
            }
            match chance.below(6) {
                0 => head.truncate(chance.below(head.len() as u64 + 1) as usize),
                1 => head.extend(std::iter::repeat_n(0, 16 * chance.below(6) as usize)),
                2 => drop(bodies.pop()),
                3 => bodies.push(Bytes::from_static(b"more")),
                _ => {}
            }
            let length = head.len();
            let read = Head::read(&head);
            let Ok(head) = read else {
                bad += 1;
                continue;
            };
            assert!(head.entries.capacity() * 48 <= length, "seed {seed}");
            for (body, size) in bodies.iter_mut().zip(head.bodies()) {
                if size <= 4096 && chance.below(2) == 0 {
                    *body = (0..size).map(|_| chance.next() as u8).collect();
                }
            }
            match head.into_message(bodies) {
                Ok(_) => good += 1,
                Err(_) => bad += 1,
            }
        }
    }
    assert!(good > SEEDS && bad > SEEDS, "{good} good, {bad} bad");
}
