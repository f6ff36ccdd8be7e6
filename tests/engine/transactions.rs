//! Transactions: at one instant, to the end or not at all.

use delayd::engine::journal_room::{Flow, Room, SIZES};
use delayd::engine::model::queue_settings::{QueueSettings, Side};
use delayd::engine::model::request::{JobState, Request, Reserve, Wait, Which};
use delayd::limits::{TRANSACTION_COST_MAX, TRANSACTION_REPLY_BYTES_MAX};

use crate::engine::bench::*;

const RIGHT: Side = Side::Right;

fn full(max: u64) -> QueueSettings {
    QueueSettings { max_jobs: Some(max), ..QueueSettings::default() }
}

fn set(name: &'static str, changes: QueueSettings) -> Request<'static> {
    Request::Configure { queue: queue(name), changes: Box::new(changes) }
}

fn add(id: &'static str) -> Request<'static> {
    Request::Add(job("q", id, 0))
}

fn pop_q() -> Request<'static> {
    pop(Q, Wait::Forever)
}

/// How many places there are is counted over the whole transaction.
#[test]
fn places_are_counted_from_command_to_command() {
    let mut bench = Bench::new();
    bench.ask(9, set("q", full(3)));
    bench.add(job("q", "a", 0));
    bench.add(job("q", "b", 1_000));
    bench.take_events();
    assert!(bench.refusal(1, &[add("c"), add("d")]).starts_with("FULL queue 'q' has 3"));
    let two: [&[u8]; 2] = [b"c", b"d"];
    assert!(bench.refusal(1, &[push("q", RIGHT, &two)]).starts_with("FULL"));
    bench.transact(1, &[add("c")]);
    // A place that an earlier command frees for sure is free.
    let frees: [Request<'_>; 4] =
        [pop_q(), delete("q", &[b"b"]), cancel("q", "b", false), purge("q")];
    for free in frees {
        let mut other = Bench::new();
        other.ask(9, set("q", full(2)));
        other.add(job("q", "a", 0));
        other.add(job("q", "b", 1_000));
        other.take_events();
        let begun = other.transact(1, &[free.clone(), add("c")]);
        assert!(matches!(begun, TransactionBegun::Begun(_)), "{free:?}: {begun:?}");
        assert_eq!(other.take_events()[1], "1:c");
        assert!(other.refusal(1, &[free, add("d"), add("e"), add("f")]).starts_with("FULL"));
    }
    // One that may be the same is free once.
    let same = [delete("q", &[b"b"]), cancel("q", "b", false), add("x"), add("y")];
    assert!(bench.refusal(1, &same).starts_with("FULL"));
    let same = [pop_q(), delete("q", &[b"a"]), add("x"), add("y")];
    assert!(bench.refusal(1, &same).starts_with("FULL"));
    // A leased job keeps its place, until it is acknowledged.
    bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 1)));
    let jobs = vec![(&b"a"[..], bench.token("a"))];
    let ack = Request::Ack { queue: queue("q"), jobs };
    assert!(bench.refusal(1, &[add("x")]).starts_with("FULL"));
    bench.take_events();
    bench.transact(1, &[ack, add("x")]);
    bench.expect_events(&["1:1", "1:x"]);
}

/// Memory is looked at for all that is added, whatever is freed: as in Redis.
#[test]
fn without_memory_nothing_is_done() {
    let mut bench = Bench::with(|settings| settings.memory_bytes_max = 50_000);
    let body = vec![b'x'; 10_000];
    let bodies: [&[u8]; 1] = [&body];
    for _ in 0..3 {
        bench.ask(9, push("q", RIGHT, &bodies));
    }
    bench.take_events();
    let two = [push("q", RIGHT, &bodies), push("q", RIGHT, &bodies)];
    assert!(bench.refusal(1, &two).starts_with("OOM "));
    let swap = [pop_q(), push("q", RIGHT, &bodies), push("q", RIGHT, &bodies)];
    assert!(bench.refusal(1, &swap).starts_with("OOM "));
    bench.transact(1, &[pop_q(), push("q", RIGHT, &bodies)]);
    assert_eq!(bench.take_events().len(), 2);
    // What adds nothing goes on.
    let all = Request::Reserve(reserve(Q, Wait::No, 10));
    assert!(matches!(
        bench.transact(1, &[all, len("q", JobState::Leased)]),
        TransactionBegun::Begun(_)
    ));
    assert!(bench.engine.memory_bytes() < 50_000);
}

/// The journal's room is summed before the first command, with the reserve for those that end jobs,
/// in any order.
#[test]
fn without_room_in_the_journal_nothing_is_done() {
    let room = |bytes, reserve_bytes| Flow::Running {
        room: Room {
            cause: Some("No space left on device".into()),
            ..Room::of(bytes, reserve_bytes)
        },
    };
    let mut bench = Bench::new();
    for id in ["a", "b", "c"] {
        bench.add(job("q", id, 0));
    }
    let moving = [pop_q(), push("dst", RIGHT, &[&[b'x'; 3_000]])];
    bench.flow(room(3_000, 100_000));
    let refusal = bench.refusal(1, &moving);
    assert!(refusal.starts_with("MISCONF ") && refusal.contains("No space left"), "{refusal}");
    // One that needs no room.
    assert!(matches!(bench.transact(1, &[len("q", JobState::Ready)]), TransactionBegun::Begun(_)));
    bench.expect_events(&["1:3"]);
    // Jobs are ended first, and use up what is there for all; the reserve is left for the other.
    let ids: &[&[u8]] = &[&[b'i'; 500]];
    let ids = delete("q", ids);
    bench.flow(room(SIZES.taking, 509));
    bench.transact(1, &[ids.clone(), pop_q()]);
    bench.expect_events(&["1:0", "1:a"]);
    bench.flow(room(SIZES.taking, 508));
    assert!(bench.refusal(1, &[ids, pop_q()]).starts_with("MISCONF"));
    bench.flow(room(SIZES.taking + 1, 0));
    assert!(bench.refusal(1, &[pop_q(), pop_q()]).starts_with("MISCONF"));
    bench.take_events();
    // Nobody is to be told that there is no room for jobs that are not there.
    let many = [Request::Reserve(reserve(&[b"none"], Wait::No, 10_000)), pop_q()];
    bench.transact(1, &many);
    bench.expect_events(&["1:nil", "1:b"]);
}

/// What it would answer and what it would look at, as of its beginning, with what it adds itself.
#[test]
fn it_may_answer_so_much_and_no_more() {
    let mut bench = Bench::new();
    let body = vec![b'x'; 8 << 20];
    let bodies: [&[u8]; 1] = [&body];
    for _ in 0..6 {
        bench.ask(9, push("q", RIGHT, &bodies));
    }
    bench.take_events();
    let pops = vec![pop_q(); 6];
    let refusal = bench.refusal(1, &pops);
    assert!(refusal.contains(&TRANSACTION_REPLY_BYTES_MAX.to_string()), "{refusal}");
    // Only the first five that are there: one aside, 32 MiB, less what frames them.
    assert!(matches!(bench.begin(1, &pops[..4]), TransactionBegun::Begun(_)));
    bench.hand_off();
    let mut bench = Bench::new();
    // A body that it adds and reads again and again.
    let looks = vec![peek("q", 1); 6];
    let added = [&[push("q", RIGHT, &bodies)][..], &looks].concat();
    assert!(bench.refusal(1, &added).contains("replies"));
    assert!(matches!(bench.transact(1, &added[..4]), TransactionBegun::Begun(_)));
    // A queue whose jobs are small may be read often.
    let mut bench = Bench::new();
    for _ in 0..1_000 {
        bench.ask(9, push("q", RIGHT, &[b"small"]));
    }
    bench.ask(9, push("q", RIGHT, &bodies));
    bench.take_events();
    let pops = vec![pop_q(); 1_000];
    let begun = bench.transact(1, &pops);
    let TransactionBegun::Begun(needs) = begun else { panic!("{begun:?}") };
    assert!(needs.reply_bytes < 2 << 20, "{needs:?}");
}

#[test]
fn it_may_look_at_so_many_entries_and_no_more() {
    let mut bench = Bench::new();
    let words: Vec<&[u8]> = vec![b"x"; 10_000];
    for _ in 0..3 {
        bench.ask(9, push("q", RIGHT, &words));
    }
    bench.take_events();
    let count_all = |n| vec![list("q"); n];
    assert!(matches!(bench.transact(1, &count_all(5)), TransactionBegun::Begun(_)));
    let refusal = bench.refusal(1, &count_all(6));
    assert!(refusal.contains(&format!("at most {TRANSACTION_COST_MAX} are allowed")), "{refusal}");
    // A short range of a long list costs little; what comes to another name with RENAME costs as much.
    let first = Request::Range { queue: queue("q"), start: 0, stop: 9 };
    assert!(matches!(bench.transact(1, &vec![first; 1_000]), TransactionBegun::Begun(_)));
    let renamed = [vec![rename("q", "r")], vec![list("r"); 6]].concat();
    assert!(bench.refusal(1, &renamed).contains("entries"));
}

/// PEEK of one job that lies behind ten that the transaction removes looks at the eleventh.
#[test]
fn it_sees_what_its_own_commands_leave() {
    let mut bench = Bench::new();
    for number in 0..9_000u64 {
        let mut add = job("q", "", 40_000_000 + number);
        add.id = None;
        bench.add(add);
    }
    bench.add(job("q", "soon", 1_000));
    let first = Request::Peek { queue: queue("q"), state: None, count: 1, newest: false };
    bench.transact(1, &[delete("q", &[b"soon"]), first]);
    let expect_events = bench.take_events();
    assert!(expect_events[0] == "1:1" && expect_events[1].len() > 4, "{expect_events:?}");
}

/// Ready jobs past their TTL are met, and their facts are beside what was counted: only what the
/// transaction does not need is spent on them.
#[test]
fn jobs_past_their_ttl_use_no_room_of_later_commands() {
    let mut bench = Bench::new();
    for _ in 0..300 {
        let mut add = job("q", "", 0);
        (add.id, add.ttl_ms) = (None, Some(10));
        bench.add(add);
    }
    bench.add(job("q", "live", 0));
    bench.at_ms = 20;
    let bytes = 3_200 + SIZES.taking;
    bench.flow(Flow::Running { room: Room::of(bytes, 0) });
    // Binding a policy is among what an ADD is counted with.
    let begun = bench.transact(1, &[pop_q(), push("r", RIGHT, &[&[b'x'; 1_000]])]);
    assert!(matches!(begun, TransactionBegun::Begun(_)), "{begun:?}");
    assert_eq!(bench.take_events()[1], "1:1");
}

#[test]
fn what_redrive_and_nack_bring_counts_for_what_is_read() {
    let mut bench = Bench::new();
    let body = vec![b'x'; 9 << 20];
    for id in ["a", "b", "c", "d", "e"] {
        let mut add = job("q", id, 0);
        (add.body, add.attempts) = (&body, Some(1));
        bench.add(add);
    }
    bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 1)));
    let token = bench.token("a");
    for _ in 0..4 {
        bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 1)));
    }
    for id in ["b", "c", "d", "e"] {
        bench.nack(1, id, |nack| nack.bury = true);
    }
    bench.take_events();
    let nack = Request::Nack(delayd::engine::model::request::Nack {
        queue: queue("q"),
        id: b"a",
        token,
        when: None,
        bury: false,
        uncounted: true,
        priority: None,
        error: None,
    });
    let redrive = Request::Redrive(redrive("q", Which::Oldest(None)));
    let pops = vec![pop_q(); 5];
    let all = [vec![nack, redrive], pops].concat();
    assert!(bench.refusal(1, &all).contains("replies"));
    assert!(matches!(bench.transact(1, &all[..5]), TransactionBegun::Begun(_)));
    let expect_events = bench.take_events();
    assert_eq!(expect_events, ["1:1", "1:4", "1:a", "1:b", "1:c"]);
}

/// What a transaction leases it may show again, and an EXTEND brings others to the front.
#[test]
fn what_reserve_and_extend_bring_among_the_leased_counts_for_what_is_read() {
    let body = vec![b'x'; 8 << 20];
    let leased = |count| Request::Peek {
        queue: queue("q"),
        state: Some(JobState::Leased),
        count,
        newest: false,
    };
    let mut bench = Bench::new();
    let mut large = job("q", "large", 0);
    large.body = &body;
    bench.add(large.clone());
    bench.take_events();
    let taking = Request::Reserve(reserve(Q, Wait::No, 1));
    let all = [vec![taking], vec![leased(1); 6]].concat();
    assert!(bench.refusal(1, &all).contains("replies"));
    assert!(matches!(bench.transact(1, &all[..4]), TransactionBegun::Begun(_)));
    assert_eq!(bench.take_events(), ["1:large#1", "1:large", "1:large", "1:large"]);
    // Where it is not known which of two queues it is, too.
    let mut bench = Bench::new();
    bench.add(large.clone());
    bench.add(job("r", "other", 0));
    bench.take_events();
    let taking = Request::Reserve(reserve(&[b"r"], Wait::No, 1));
    let all = [vec![pop(&[b"r"], Wait::No), rename("q", "r"), taking], vec![peek_r(); 6]].concat();
    assert!(bench.refusal(1, &all).contains("replies"));
    let mut bench = Bench::new();
    for (add, lease_ms) in [(job("q", "small", 0), 1_000), (large, 2_000)] {
        bench.add(add);
        let terms = Reserve { lease_ms: Some(lease_ms), ..reserve(Q, Wait::No, 1) };
        bench.ask(1, Request::Reserve(terms));
    }
    bench.take_events();
    let (token, lease_ms) = (bench.token("small"), 3_000);
    let extend = Request::Extend { queue: queue("q"), id: b"small", token, lease_ms };
    let all = [vec![extend], vec![leased(1); 6]].concat();
    assert!(bench.refusal(1, &all).contains("replies"));
    assert!(matches!(bench.transact(1, &all[..4]), TransactionBegun::Begun(_)));
    assert_eq!(bench.take_events()[1..], ["1:large", "1:large", "1:large"]);
}

fn peek_r() -> Request<'static> {
    Request::Peek { queue: queue("r"), state: Some(JobState::Leased), count: 1, newest: false }
}
