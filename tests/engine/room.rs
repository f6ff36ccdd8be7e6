//! What the journal allows: room, hand-offs held back, a full stop.

use delayd::engine::journal_room::{Flow, Room, SIZES};
use delayd::engine::model::request::{Add, JobState, Push, Request, Side, Wait, When};
use delayd::error::Misconf;
use delayd::time::Millis;

use crate::engine::bench::*;
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
    bench.check(9, len("q", JobState::Leased), &["9:1"]);
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
            if rng.random_ratio(1, 8) {
                let pushes = vec![push(name, Side::Right, &bodies); 2];
                refused +=
                    u32::from(matches!(bench.transact(1, &pushes), TransactionBegun::Refused(_)));
            }
            let request = match rng.random_range(0..4) {
                0 => Request::Push(push_of(name, &bodies)),
                1 => Request::Reserve(reserve(&[b"q", b"r"], Wait::No, 2)),
                _ => Request::Add(add),
            };
            bench.ask(1, request);
            bench.sent(1);
            refused +=
                bench.take_events().iter().filter(|said| said.ends_with("MISCONF")).count() as u32;
            let bytes = bench.engine.base_bytes();
            assert!(bytes <= base_bytes_max, "{bytes} bytes of {base_bytes_max}");
        }
    }
}

/// What was in hand while a request found room for the next base comes back.
#[test]
fn what_goes_back_takes_its_room_of_the_next_base_again() {
    let mut bench = Bench::new();
    let body = [b'x'; 5_000];
    bench.add(Add { body: &body, ..job("q", "large", 0) });
    bench.add(job("r", "other", 0));
    bench.check(1, pop(Q, Wait::No), &["1:large"]);
    let base_bytes_max = bench.engine.base_bytes() + 6_500;
    bench.flow(Flow::Running { room: Room { base_bytes_max, ..Room::UNLIMITED } });
    bench.add(job("r", "small", 0));
    bench.unsent(1);
    let middle = Add { body: &body[..3_000], ..job("r", "middle", 0) };
    bench.ask(2, Request::Add(middle));
    let said = bench.take_events();
    assert!(said[0].ends_with("MISCONF"), "{said:?}");
    assert!(bench.engine.base_bytes() <= base_bytes_max);
}

fn push_of<'a>(name: &'static str, bodies: &'a [&'a [u8]]) -> Push<'a> {
    match push(name, Side::Right, bodies) {
        Request::Push(push) => push,
        _ => unreachable!(),
    }
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
