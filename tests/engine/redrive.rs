//! REDRIVE: dead jobs get another chance, in the order of death, in slices.

use delayd::engine::Outcome;
use delayd::engine::model::request::{Nack, Redrive, Request, State, Wait, When, Which};
use delayd::engine::room::{Flow, Room, SIZES};
use delayd::ids::ClientId;

use crate::bench::*;

const ALL: Which<'static> = Which::Oldest(None);

/// Adds a job and buries it at its first attempt.
fn bury(bench: &mut Bench, id: &'static str) {
    bench.add(job("q", id, 0));
    bench.check(7, Request::Reserve(reserve(Q, Wait::No, 1)), &[&format!("7:{id}#1")]);
    bench.sent(7);
    bench.nack(7, id, |nack| nack.bury = true);
    bench.expect_events(&["7:1"]);
}

/// `count` dead jobs, ids made by the server.
fn bury_many(bench: &mut Bench, count: usize) {
    for _ in 0..count {
        let mut add = job("q", "", 0);
        add.id = None;
        bench.add(add);
    }
    let mut left = count;
    while left > 0 {
        bench.ask(7, Request::Reserve(reserve(Q, Wait::No, 10_000)));
        bench.sent(7);
        bench.take_events();
        for (id, token) in std::mem::take(&mut bench.tokens) {
            let nack = Nack {
                queue: queue("q"),
                id: id.as_bytes(),
                token,
                when: None,
                bury: true,
                uncounted: false,
                priority: None,
                error: None,
            };
            bench.ask(7, Request::Nack(nack));
            left -= 1;
        }
        bench.take_events();
    }
}

#[test]
fn the_oldest_dead_come_first_with_new_places_and_void_tokens() {
    let mut bench = Bench::new();
    ["c", "a", "b"].into_iter().for_each(|id| bury(&mut bench, id));
    bench.add(job("q", "waits", 0));
    let some = Request::Redrive(redrive("q", Which::Oldest(Some(2))));
    bench.check(1, some, &["1:2"]);
    bench.check(1, peek("q", 9), &["1:waits c a"]);
    bench.check(1, get("q", "c"), &["1:ready due 0 attempt 0"]);
    let token = bench.token("c");
    bench.ack(1, "c", token);
    bench.expect_events(&["1:0"]);
    bench.check(1, Request::Redrive(redrive("q", ALL)), &["1:1"]);
    bench.check(1, Request::Redrive(redrive("q", ALL)), &["1:0"]);
    bench.check(1, peek("q", 9), &["1:waits c a b"]);
    let stats = bench.stats("q");
    assert_eq!((stats.dead, stats.ready, stats.totals.died, stats.totals.deleted), (0, 4, 3, 0));
}

#[test]
fn named_ones_move_if_they_are_dead_and_in_delays_them() {
    let mut bench = Bench::new();
    ["a", "b"].into_iter().for_each(|id| bury(&mut bench, id));
    bench.add(job("q", "alive", 0));
    let ids: &[&[u8]] = &[b"b", b"alive", b"none", b"b"];
    let mut named = redrive("q", Which::Ids(ids));
    named.when = When::In(50);
    bench.check(1, Request::Redrive(named), &["1:1"]);
    bench.check(1, get("q", "b"), &["1:delayed due 50 attempt 0"]);
    bench.check(1, get("q", "a"), &["1:dead due 0 attempt 1 buried"]);
    named.when = When::In(u64::MAX);
    bench.check(1, Request::Redrive(named), &["1:ERR"]);
    bench.check(1, Request::Redrive(redrive("other", ALL)), &["1:0"]);
    bench.at(50);
    bench.check(1, peek("q", 9), &["1:alive b"]);
}

#[test]
fn named_ones_move_in_the_order_in_which_they_are_named() {
    let mut bench = Bench::new();
    ["a", "b", "c"].into_iter().for_each(|id| bury(&mut bench, id));
    let ids: &[&[u8]] = &[b"c", b"a", b"b"];
    bench.check(1, Request::Redrive(redrive("q", Which::Ids(ids))), &["1:3"]);
    bench.check(1, peek("q", 9), &["1:c a b"]);
}

#[test]
fn kept_attempts_leave_one_more_and_others_begin_anew() {
    for keep_attempts in [false, true] {
        let mut bench = Bench::new();
        let mut add = job("q", "a", 0);
        (add.attempts, add.ttl_ms) = (Some(2), Some(5));
        bench.add(add);
        // Both attempts are used up: the second lease in a row that ends so waits for the backoff.
        for (at_ms, number) in [(0, 1), (100, 2)] {
            bench.at(at_ms);
            let expect_events = format!("1:a#{number}");
            bench.check(1, Request::Reserve(reserve(Q, Wait::No, 1)), &[&expect_events]);
            bench.sent(1);
        }
        bench.at(200);
        bench.check(1, get("q", "a"), &["1:dead due 0 attempt 2 timeout"]);
        bench.check(1, Request::Redrive(Redrive { keep_attempts, ..redrive("q", ALL) }), &["1:1"]);
        // Delivered once, it never expires, and its row of unanswered leases has ended.
        bench.at(1_000);
        let first = if keep_attempts { 3 } else { 1 };
        bench.check(1, Request::Reserve(reserve(Q, Wait::No, 1)), &[&format!("1:a#{first}")]);
        bench.sent(1);
        bench.nack(1, "a", |nack| nack.when = Some(When::In(1)));
        let left = if keep_attempts { "dead" } else { "delayed" };
        bench.expect_events(&["1:1"]);
        bench.check(1, len("q", State::Dead), &[if left == "dead" { "1:1" } else { "1:0" }]);
    }
}

#[test]
fn waiters_are_served_slice_by_slice_and_what_dies_again_stays_dead() {
    let mut bench = Bench::new();
    bury_many(&mut bench, 5_000);
    let (mut slices, mut first) = (0, None);
    bench.ask(2, pop(Q, Wait::Forever));
    while bench.ask(1, Request::Redrive(redrive("q", ALL))) == Outcome::Again {
        slices += 1;
        let expect_events = bench.take_events();
        if slices == 1 {
            first = expect_events.first().cloned();
            bench.sent(2);
        }
        // One of those that were moved dies again.
        bench.tokens.clear();
        bench.ask(7, Request::Reserve(reserve(Q, Wait::No, 1)));
        bench.sent(7);
        bench.take_events();
        let (id, token) = bench.tokens.pop().expect("one was taken");
        let (queue, id) = (queue("q"), id.as_bytes());
        let (when, uncounted, priority, error) = (None, false, None, None);
        let nack = Nack { queue, id, token, when, bury: true, uncounted, priority, error };
        bench.ask(7, Request::Nack(nack));
        bench.take_events();
    }
    assert!(
        first.is_some_and(|expect_events| expect_events.starts_with("2:")),
        "served after the first slice"
    );
    bench.expect_events(&["1:5000"]);
    assert_eq!(slices, 4, "1,024 in a turn");
    bench.check(1, len("q", State::Dead), &["1:4"]);
    bench.check(1, len("q", State::Ready), &["1:4995"]);
}

#[test]
fn what_was_moved_stays_moved_when_the_client_goes_away() {
    let mut bench = Bench::new();
    bury_many(&mut bench, 2_000);
    assert_eq!(bench.ask(1, Request::Redrive(redrive("q", ALL))), Outcome::Again);
    bench.closed(1);
    bench.at(10);
    bench.check(2, len("q", State::Dead), &["2:976"]);
    // The same number in the next connection's first request begins anew.
    bench.check(1, Request::Redrive(redrive("q", ALL)), &["1:976"]);
}

#[test]
fn without_room_it_tells_how_many_were_moved() {
    let mut bench = Bench::new();
    bury_many(&mut bench, 2_000);
    let room = |bytes| Flow::Running { room: Room::of(bytes, 0) };
    assert_eq!(bench.ask(1, Request::Redrive(redrive("q", ALL))), Outcome::Again);
    bench.flow(room(SIZES.redriven - 1));
    bench.check(1, Request::Redrive(redrive("q", ALL)), &["1:1024"]);
    bench.check(1, Request::Redrive(redrive("q", ALL)), &["1:MISCONF"]);
    bench.flow(room(SIZES.advancing + SIZES.redriven));
    bench.ask(1, Request::Redrive(redrive("q", ALL)));
    let expect_events = bench.take_events();
    let moved: u64 = expect_events[0][2..].parse().expect("a number");
    assert!((2..100).contains(&moved), "{moved} of facts of 30 bytes each");
    bench.flow(Flow::default());
    bench.check(1, len("q", State::Dead), &[&format!("1:{}", 976 - moved)]);
}

#[test]
fn in_a_transaction_it_is_done_at_once_and_bounded_before() {
    let mut bench = Bench::new();
    bury_many(&mut bench, 3_000);
    let of = |which| Request::Redrive(redrive("q", which));
    let entries = |begun| match begun {
        Begun::Begun(needs) => needs.entries,
        begun => panic!("{begun:?}"),
    };
    assert_eq!(entries(bench.transact(1, &[of(Which::Oldest(Some(5)))])), 6);
    assert_eq!(entries(bench.transact(1, &[of(ALL)])), 2_996);
    bench.expect_events(&["1:5", "1:2995"]);
}

/// One that is given up half done leaves nothing behind: the next counts what it moves itself.
#[test]
fn one_that_is_abandoned_is_not_gone_on_with() {
    let mut bench = Bench::new();
    bury_many(&mut bench, 1_500);
    bench.take_events();
    let all = || Request::Redrive(redrive("q", ALL));
    assert_eq!(bench.ask(1, all()), Outcome::Again);
    let left = bench.stats("q").dead;
    assert!(left > 0 && left < 1_500);
    bench.engine.abandon(ClientId(1));
    assert_eq!(bench.ask(1, all()), Outcome::Replied);
    bench.expect_events(&[&format!("1:{left}")]);
}
