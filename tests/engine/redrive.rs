//! REDRIVE: dead jobs get another chance, in the order of death, in slices.

use delayd::engine::Outcome;
use delayd::engine::journal_room::{Flow, Room, SIZES};
use delayd::engine::model::request::{JobState, Nack, Request, Wait, Which};
use delayd::ids::ClientId;

use crate::engine::bench::*;

const ALL: Which<'static> = Which::Oldest(None);

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
    bench.check(1, len("q", JobState::Dead), &["1:4"]);
    bench.check(1, len("q", JobState::Ready), &["1:4995"]);
}

#[test]
fn what_was_moved_stays_moved_when_the_client_goes_away() {
    let mut bench = Bench::new();
    bury_many(&mut bench, 2_000);
    assert_eq!(bench.ask(1, Request::Redrive(redrive("q", ALL))), Outcome::Again);
    bench.closed(1);
    bench.at(10);
    bench.check(2, len("q", JobState::Dead), &["2:976"]);
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
    bench.check(1, len("q", JobState::Dead), &[&format!("1:{}", 976 - moved)]);
}

#[test]
fn in_a_transaction_it_is_done_at_once_and_bounded_before() {
    let mut bench = Bench::new();
    bury_many(&mut bench, 3_000);
    let of = |which| Request::Redrive(redrive("q", which));
    let entries = |begun| match begun {
        TransactionBegun::Begun(needs) => needs.entries,
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
