//! What the journal allows: room, hand-offs held back, a full stop.

use delayd::engine::model::request::{Add, Push, Request, Side, State, Wait, When};
use delayd::engine::room::{Flow, Room, SIZES};
use delayd::engine::{Engine, Outcome};
use delayd::error::Misconf;
use delayd::ids::Token;
use delayd::time::Millis;

use crate::bench::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

fn room(bytes: u64, reserve_bytes: u64) -> Flow {
    Flow::Running { room: Room::of(bytes, reserve_bytes) }
}

fn held() -> Flow {
    Flow::Stalled { room: Room::UNLIMITED }
}

fn stopped() -> Flow {
    Flow::Stopped { cause: Misconf::NoRoom { cause: "a full disk".into() } }
}

fn bound() -> Request<'static> {
    let mut bound = reserve(Q, Wait::No, 1);
    bound.bound = true;
    Request::Reserve(bound)
}

fn extend(token: Token) -> Request<'static> {
    Request::Extend { queue: queue("q"), id: b"a", token, lease_ms: 50 }
}

/// The stop of a server whose journal had failed tried for ever to end the leases of a client that was gone.
#[test]
fn an_orderly_stop_ends_when_nothing_can_be_recorded() {
    let mut bench = Bench::new();
    bench.add(job("q", "a", 0));
    bench.check(1, bound(), &["1:a#1"]);
    bench.sent(1);
    bench.flow(stopped());
    bench.closed(1);
    assert!(bench.end_bound());
    bench.check(9, len("q", State::Leased), &["9:1"]);
}

#[test]
fn while_hand_offs_are_held_takers_see_nothing_and_all_else_goes_on() {
    let mut bench = Bench::new();
    bench.add(job("q", "a", 0));
    bench.add(job("q", "b", 10));
    bench.flow(held());
    bench.check(1, pop(Q, Wait::No), &["1:nil"]);
    bench.ask_in_transaction(1, pop(Q, Wait::Forever));
    bench.expect_events(&["1:nil"]);
    // Who is first in line for a job that was ready before it came is so when it is over.
    bench.ask(1, Request::Reserve(reserve(Q, Wait::Forever, 1)));
    bench.ask(2, pop(Q, Wait::For(20)));
    bench.ask(3, pop(Q, Wait::Forever));
    bench.at(20);
    bench.expect_events(&["2:nil"]);
    bench.check(9, len("q", State::Ready), &["9:2"]);
    bench.check(9, Request::Add(job("q", "c", 0)), &["9:c"]);
    bench.flow(Flow::default());
    assert_eq!(bench.engine.next_wakeup().map(|at| at.0), Some(0), "somebody is to be served");
    bench.advance(100);
    bench.expect_events(&["1:a#1", "3:b"]);
    bench.check(9, peek("q", 9), &["9:c"]);
}

#[test]
fn nobody_overtakes_those_who_were_held() {
    let mut bench = Bench::new();
    bench.flow(held());
    bench.ask(1, pop(Q, Wait::Forever));
    bench.add(job("q", "a", 0));
    bench.flow(Flow::default());
    // Before time has passed again.
    bench.check(2, pop(Q, Wait::No), &["1:a", "2:nil"]);
}

#[test]
fn a_job_that_fell_due_for_a_held_waiter_counts_as_late() {
    let mut bench = Bench::new();
    bench.ask(1, pop(Q, Wait::Forever));
    bench.add(job("q", "a", 10));
    bench.flow(held());
    bench.at(10);
    bench.at(310);
    bench.flow(Flow::default());
    bench.at(310);
    bench.expect_events(&["1:a"]);
    assert_eq!(bench.stats("q").lateness_us[3], 300_000);
    // Not one whose waiter came later than the job.
    bench.flow(held());
    bench.add(job("q", "b", 0));
    bench.ask(1, pop(Q, Wait::Forever));
    bench.at(9_000);
    bench.flow(Flow::default());
    bench.at(9_000);
    bench.expect_events(&["1:b"]);
    assert_eq!(bench.stats("q").lateness_us[3], 300_000);
}

#[test]
fn stopped_nothing_changes_and_no_time_passes_but_for_waiters() {
    let mut bench = Bench::with(|settings| settings.stats_retention_ms = 1_000);
    bench.add(job("used", "x", 0));
    bench.check(1, pop(&[b"used"], Wait::No), &["1:x"]);
    bench.sent(1);
    let mut brief = job("q", "brief", 0);
    brief.ttl_ms = Some(10);
    bench.add(job("q", "a", 0));
    bench.check(1, Request::Reserve(reserve(Q, Wait::No, 1)), &["1:a#1"]);
    bench.sent(1);
    bench.add(brief);
    bench.add(job("q", "later", 20));
    bench.ask(2, pop(&[b"q2"], Wait::For(500)));
    bench.ask(3, pop(&[b"later"], Wait::Forever));
    bench.flow(stopped());
    let (made, digest) = (bench.made(), bench.engine.digest());
    bench.at(5_000);
    bench.expect_events(&["2:nil"]);
    assert_eq!(bench.engine.next_wakeup(), None, "nobody is woken for what cannot happen");
    let token = bench.token("a");
    for change in [
        Request::Add(job("q", "new", 0)),
        pop(Q, Wait::No),
        pop(&[b"empty"], Wait::Forever),
        Request::Reserve(reserve(Q, Wait::No, 1)),
        extend(token),
        delete("q", &[b"later"]),
        cancel("q", "later", true),
        reschedule("q", "later", 5),
        remove(Q),
        Request::Flush { db: None },
        Request::Ack { queue: queue("q"), jobs: vec![(b"a", token)] },
    ] {
        assert_eq!(bench.ask(1, change.clone()), Outcome::Replied);
        bench.expect_events(&["1:MISCONF"]);
        bench.ask_in_transaction(1, change);
        bench.expect_events(&["1:MISCONF"]);
    }
    bench.nack(1, "a", |_| ());
    bench.expect_events(&["1:MISCONF"]);
    bench.check(9, peek("q", 9), &["9:brief later"]);
    bench.check(9, get("q", "a"), &["9:leased due 0 attempt 1 until 100"]);
    assert_eq!(bench.stats("used").totals.delivered, 1);
    assert_eq!((bench.made(), bench.engine.digest()), (made, digest));

    bench.flow(Flow::default());
    bench.at(5_000);
    bench.check(9, peek("q", 9), &["9:later"]);
    bench.check(9, Request::Stats { queue: queue("used") }, &["9:nil"]);
}

#[test]
fn what_a_closed_connection_had_in_hand_goes_back_when_there_is_room() {
    let mut bench = Bench::new();
    for id in ["a", "b", "c"] {
        bench.add(job("q", id, 0));
    }
    bench.check(1, bound(), &["1:a#1"]);
    bench.sent(1);
    bench.check(2, Request::Reserve(reserve(Q, Wait::No, 1)), &["2:b#1"]);
    bench.check(3, pop(Q, Wait::No), &["3:c"]);
    bench.ask(4, pop(&[b"other"], Wait::Forever));
    bench.flow(stopped());
    let made = bench.made();
    bench.closed(1);
    bench.unsent(2);
    bench.unsent(3);
    bench.closed(4);
    bench.advance(100);
    assert_eq!(bench.engine.next_wakeup(), None);
    assert_eq!((bench.made(), bench.engine.waiter_count()), (made, 0));
    bench.at_ms = 1;
    bench.flow(Flow::default());
    bench.at(1);
    bench.check(9, get("q", "a"), &["9:ready due 0 attempt 1"]);
    bench.check(9, get("q", "b"), &["9:ready due 0 attempt 0"]);
    bench.check(9, get("q", "c"), &["9:ready due 0 attempt 0"]);
}

/// A client popped 5,000 jobs in one pipeline, read nothing and hung up: all go back to their places,
/// in slices.
#[test]
fn what_a_long_pipeline_had_in_hand_goes_back_in_slices() {
    let mut bench = Bench::new();
    let ids: Vec<String> = (0..5_000).map(|id| format!("{id:04}")).collect();
    for id in &ids {
        let job = Add { id: Some(id.as_bytes()), ..Add::new(queue("q"), When::In(0), b"") };
        bench.ask(9, Request::Add(job));
    }
    for _ in 0..4_999 {
        bench.ask(1, pop(Q, Wait::No));
    }
    bench.take_events();
    bench.check(2, Request::Reserve(reserve(Q, Wait::No, 1)), &["2:4999#1"]);
    bench.unsent(2);
    bench.unsent(1);
    bench.closed(1);
    let at_once = bench.engine.job_counts()[1];
    assert!((1_000..2_000).contains(&at_once), "{at_once}");
    assert!(bench.engine.memory_bytes() > 0);
    let mut slices = 0;
    while bench.engine.job_counts()[1] < 5_000 {
        assert_eq!(bench.engine.next_wakeup(), Some(Millis(0)));
        bench.advance(100);
        slices += 1;
        assert!(slices < 100, "they do not go back");
    }
    assert!(slices > 5, "{slices}");
    for id in &ids {
        bench.check(3, pop(Q, Wait::No), &[&format!("3:{id}")]);
    }
}

#[test]
fn a_lease_that_ended_while_nothing_could_be_recorded_is_extended_by_what_was_left_once() {
    let mut bench = Bench::new();
    for (id, lease_ms) in [("a", 100), ("b", 150), ("c", 300), ("d", 40)] {
        bench.add(job("q", id, 0));
        let mut wish = reserve(Q, Wait::No, 1);
        wish.lease_ms = Some(lease_ms);
        bench.ask(1, Request::Reserve(wish));
        bench.sent(1);
    }
    bench.take_events();
    bench.at_ms = 100;
    // The one of 40 ms was over before: it is not spared.
    bench.flow(stopped());
    bench.at(200);
    bench.flow(Flow::default());
    // Before time has passed: they run, and d does not.
    let (b, d) = (bench.token("b"), bench.token("d"));
    let (queue, id) = (queue("q"), &b"d"[..]);
    bench.check(1, Request::Extend { queue, id, token: d, lease_ms: 50 }, &["1:nil"]);
    bench.check(9, get("q", "d"), &["9:ready due 0 attempt 1"]);
    bench.check(9, get("q", "a"), &["9:leased due 0 attempt 1 until 201"]);
    bench.check(9, get("q", "b"), &["9:leased due 0 attempt 1 until 250"]);
    bench.check(9, get("q", "c"), &["9:leased due 0 attempt 1 until 300"]);
    bench.at(201);
    bench.check(9, get("q", "a"), &["9:ready due 0 attempt 1"]);
    bench.ack(1, "b", b);
    bench.expect_events(&["1:1"]);
    // Another stall: c had 1 ms left.
    bench.at_ms = 299;
    bench.flow(stopped());
    bench.at_ms = 1_000;
    bench.flow(Flow::default());
    bench.at(1_000);
    bench.check(9, get("q", "c"), &["9:leased due 0 attempt 1 until 1001"]);
    bench.at(1_001);
    bench.check(9, get("q", "c"), &["9:ready due 0 attempt 1"]);
}

#[test]
fn leases_not_yet_met_after_one_stall_are_extended_after_the_next() {
    let mut bench = Bench::new();
    bench.add(job("q", "a", 0));
    bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 1)));
    bench.sent(1);
    bench.take_events();
    bench.at_ms = 90;
    bench.flow(stopped());
    bench.at_ms = 200;
    bench.flow(Flow::default());
    bench.at_ms = 210;
    bench.flow(stopped());
    bench.at_ms = 300;
    bench.flow(Flow::default());
    bench.at(300);
    bench.check(9, get("q", "a"), &["9:leased due 0 attempt 1 until 310"]);
}

#[test]
fn jobs_that_fell_due_meanwhile_are_ready_in_order_and_ttls_went_on() {
    let mut bench = Bench::new();
    let mut brief = job("q", "brief", 20);
    brief.ttl_ms = Some(100);
    for add in [job("q", "c", 30), brief, job("q", "a", 10), job("q", "b", 10)] {
        bench.add(add);
    }
    bench.ask(1, pop(Q, Wait::Forever));
    bench.flow(stopped());
    bench.at(500);
    bench.expect_events(&[]);
    bench.flow(Flow::default());
    bench.at(500);
    bench.expect_events(&["1:a"]);
    bench.check(9, peek("q", 9), &["9:b c"]);
    assert_eq!(bench.stats("q").totals.expired, 1);
}

#[test]
fn a_request_that_might_not_fit_is_refused_as_a_whole() {
    let mut bench = Bench::new();
    let add = Request::Add(job("q", "a", 0));
    let needed = Engine::facts_bytes_max(&add);
    bench.flow(room(needed - 1, 1 << 20));
    let digest = bench.engine.digest();
    bench.check(1, add.clone(), &["1:MISCONF"]);
    assert_eq!((bench.made().0, bench.engine.digest()), (0, digest));
    bench.flow(room(needed, 0));
    bench.check(1, add, &["1:a"]);
    // What it did not use is left for the next, but not enough.
    bench.check(1, Request::Add(job("q", "b", 0)), &["1:MISCONF"]);

    bench.flow(Flow::default());
    bench.add(job("q", "b", 0));
    bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 2)));
    bench.sent(1);
    bench.expect_events(&["1:a#1 b#1"]);
    let jobs = ["a", "b"].map(|id| (id.as_bytes(), bench.token(id))).to_vec();
    let ack = Request::Ack { queue: queue("q"), jobs };
    let needed = Engine::facts_bytes_max(&ack);
    bench.flow(room(10, needed - 11));
    bench.check(1, ack.clone(), &["1:MISCONF"]);
    bench.check(9, len("q", State::Leased), &["9:2"]);
    bench.flow(room(10, needed - 10));
    bench.check(1, ack, &["1:2"]);
}

#[test]
fn the_reserve_is_for_what_ends_jobs() {
    let mut bench = Bench::new();
    for id in ["a", "b", "c", "d"] {
        bench.add(job("q", id, 0));
    }
    bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 1)));
    bench.sent(1);
    bench.take_events();
    bench.flow(room(0, 1 << 20));
    let token = bench.token("a");
    bench.check(1, Request::Add(job("q", "e", 0)), &["1:MISCONF"]);
    bench.check(1, pop(Q, Wait::No), &["1:MISCONF"]);
    bench.check(1, extend(token), &["1:MISCONF"]);
    bench.check(1, reschedule("q", "b", 5), &["1:MISCONF"]);
    bench.nack(1, "a", |_| ());
    bench.expect_events(&["1:MISCONF"]);
    bench.at(1_000);
    bench.check(1, len("q", State::Leased), &["1:1"]);
    bench.ack(1, "a", token);
    bench.expect_events(&["1:1"]);
    bench.check(1, delete("q", &[b"b"]), &["1:1"]);
    bench.check(1, cancel("q", "c", false), &["1:ready"]);
    bench.check(1, remove(Q), &["1:1"]);
    bench.check(1, Request::Flush { db: None }, &["1:ok"]);
}

#[test]
fn time_passes_as_far_as_there_is_room_and_does_not_spin() {
    let mut bench = Bench::new();
    for id in ["a", "b", "c"] {
        let mut add = job("q", id, 10);
        add.ttl_ms = Some(5);
        bench.add(add);
    }
    bench.at_ms = 15;
    // An expiry each, and each needs room for the largest step.
    let expired = 5 + 4 + 1 + 8;
    bench.flow(room(SIZES.advancing + expired, 1 << 20));
    let (_, before) = bench.made();
    assert_eq!((bench.advance(1_000), bench.engine.next_wakeup()), (false, None));
    assert_eq!(bench.made().1 - before, 2 * expired);
    assert!(bench.engine.is_stalled());
    bench.flow(room(SIZES.advancing, 0));
    assert_eq!(bench.engine.next_wakeup().map(|at| at.0), Some(0), "there is more to do");
    bench.at(15);
    assert_eq!(bench.stats("q").totals.expired, 3);
}

#[test]
fn jobs_are_handed_over_as_far_as_there_is_room_first_to_those_who_wait() {
    let mut bench = Bench::new();
    bench.ask(1, Request::Reserve(reserve(Q, Wait::Forever, 1)));
    bench.ask(2, Request::Reserve(reserve(Q, Wait::Forever, 1)));
    bench.flow(held());
    for id in ["a", "b", "c"] {
        bench.add(job("q", id, 0));
    }
    let leased = 5 + 4 + 1 + 8 + 8 + 1;
    bench.flow(room(SIZES.taking + leased - 1, 0));
    bench.advance(100);
    bench.expect_events(&["1:a#1"]);
    // Room for one, and that is not for who comes last.
    bench.flow(room(SIZES.taking, 0));
    bench.check(3, pop(Q, Wait::No), &["2:b#1", "3:MISCONF"]);
    bench.flow(room(SIZES.taking, 0));
    bench.check(3, pop(Q, Wait::No), &["3:c"]);
    // A COUNT takes what fits.
    for id in ["d", "e", "f"] {
        bench.flow(Flow::default());
        bench.add(job("q", id, 0));
    }
    bench.flow(room(SIZES.taking + leased, 0));
    bench.check(3, Request::Reserve(reserve(Q, Wait::No, 3)), &["3:d#1 e#1"]);
}

#[test]
fn who_asks_while_there_is_no_room_for_those_who_wait_does_not_overtake_them() {
    let mut bench = Bench::new();
    for client in 1..=4 {
        bench.ask(client, pop(Q, Wait::Forever));
    }
    for number in 0..5 {
        bench.add(job("q", format!("{number:0>512}").leak(), 10));
    }
    bench.at_ms = 10;
    // The request finds them due, and all of them are swept. With its own job promised there is
    // room for some of the waiters.
    bench.flow(room(SIZES.advancing + SIZES.taking + 100, 0));
    bench.ask(9, pop(Q, Wait::No));
    // What was promised goes to the next in line instead.
    let expect_events: Vec<String> =
        bench.take_events().iter().map(|said| said[..3].to_owned()).collect();
    assert_eq!(expect_events, ["1:0", "2:0", "3:0", "9:M", "4:0"]);
}

#[test]
fn a_lease_that_will_be_extended_runs_before_time_has_come_to_it() {
    let mut bench = Bench::new();
    bench.add(job("q", "a", 0));
    bench.check(1, Request::Reserve(reserve(Q, Wait::No, 1)), &["1:a#1"]);
    bench.sent(1);
    for _ in 0..300 {
        let mut add = job("q", "", 50);
        add.id = None;
        bench.add(add);
    }
    bench.flow(stopped());
    bench.at_ms = 200;
    bench.flow(Flow::default());
    let token = bench.token("a");
    bench.check(1, extend(token), &[&format!("1:{}", BEGIN_MS + 250)]);
}

#[test]
fn who_came_after_the_last_held_waiter_had_left_was_not_waiting() {
    let mut bench = Bench::new();
    bench.flow(held());
    bench.ask(1, pop(Q, Wait::For(20)));
    bench.add(job("q", "a", 10));
    bench.at(20);
    bench.expect_events(&["1:nil"]);
    bench.at(30);
    bench.ask(2, pop(Q, Wait::Forever));
    bench.flow(Flow::default());
    bench.at(50);
    bench.expect_events(&["2:a"]);
    assert_eq!(bench.stats("q").lateness_us[3], 0);
}

#[test]
fn what_makes_the_next_base_too_large_is_refused_and_all_else_goes_on() {
    let mut bench = Bench::new();
    for id in ["a", "b", "c", "d"] {
        bench.add(job("q", id, 0));
    }
    bench.add(job("q", "later", 1_000));
    let crowded =
        |base_bytes_max| Flow::Running { room: Room { base_bytes_max, ..Room::UNLIMITED } };
    bench.flow(crowded(bench.engine.base_bytes_later()));
    let pushed: &[&[u8]] = &[b"x"];
    for adds in
        [Request::Add(job("q", "new", 0)), Request::Push(push_of("q", pushed)), rename("q", "r")]
    {
        assert!(Engine::growth_bytes_max(&adds) > 0, "{adds:?}");
        bench.check(1, adds, &["1:MISCONF"]);
    }
    bench.check(1, Request::Reserve(reserve(Q, Wait::No, 2)), &["1:a#1 b#1"]);
    bench.sent(1);
    let a = bench.token("a");
    bench.ask(1, extend(a));
    assert!(!bench.take_events()[0].contains("MISCONF"));
    bench.ack(1, "a", a);
    bench.expect_events(&["1:1"]);
    bench.nack(1, "b", |nack| nack.error = Some(b"no room is left for this"));
    bench.expect_events(&["1:1"]);
    assert!(bench.stats("q").totals.nacked == 1);
    bench.check(1, pop(Q, Wait::No), &["1:c"]);
    bench.check(1, reschedule("q", "later", 5), &["1:1"]);
    bench.check(1, delete("q", &[b"d"]), &["1:1"]);
    bench.check(1, remove(Q), &["1:1"]);
}

/// The bound of what a request adds to a base is one: of everything that adds, with the shortest and
/// the longest arguments, new queues and policies.
#[test]
fn the_next_base_never_becomes_larger_than_it_may() {
    let mut rng = SmallRng::seed_from_u64(1);
    for _ in 0..300 {
        let mut bench = Bench::new();
        let base_bytes_max = rng.random_range(200..20_000);
        let room = Room { base_bytes_max, ..Room::UNLIMITED };
        bench.flow(Flow::Running { room });
        let mut refused = 0;
        while refused < 20 {
            let most = 1 << rng.random_range(0..12);
            let body = vec![b'x'; rng.random_range(0..=most)];
            let name = ["q", "r", "a queue with a somewhat longer name"][rng.random_range(0..3)];
            let mut add = Add { body: &body, ..job(name, "", 0) };
            add.id = None;
            if rng.random() {
                let steps: Vec<u64> = (0..rng.random_range(1..64)).collect();
                add.backoff = Some(ladder(steps.into()));
            }
            let bodies: Vec<&[u8]> = vec![&body; rng.random_range(1..5)];
            let request = match rng.random_range(0..4) {
                0 => Request::Push(push_of(name, &bodies)),
                1 => Request::Reserve(reserve(&[b"q", b"r"], Wait::No, 2)),
                _ => Request::Add(add),
            };
            bench.ask(1, request);
            bench.sent(1);
            refused += bench.take_events().iter().filter(|said| said.ends_with("MISCONF")).count();
            let bytes = bench.engine.base_bytes();
            assert!(bytes <= base_bytes_max, "{bytes} bytes of {base_bytes_max}");
        }
    }
}

fn push_of<'a>(name: &'static str, bodies: &'a [&'a [u8]]) -> Push<'a> {
    match push(name, Side::Right, bodies) {
        Request::Push(push) => push,
        _ => unreachable!(),
    }
}
