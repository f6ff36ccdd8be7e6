//! RENAME: everything of a queue goes with it.

use delayd::engine::model::request::{Request, State, Wait};
use delayd::ids::Db;

use crate::bench::*;

#[test]
fn everything_moves_and_holders_acknowledge_under_the_new_name() {
    let mut bench = Bench::new();
    for (id, delay_ms) in [("later", 5_000), ("held", 0), ("dies", 0), ("first", 0), ("next", 0)] {
        bench.add(job("q", id, delay_ms));
    }
    let mut window = job("q", "seen", 0);
    (window.unique_ms, window.priority) = (60_000, Some(0));
    bench.add(window);
    bench.check(1, pop(Q, Wait::No), &["1:seen"]);
    bench.check(1, Request::Reserve(reserve(Q, Wait::No, 2)), &["1:held#1 dies#1"]);
    bench.sent(1);
    bench.nack(1, "dies", |nack| nack.bury = true);
    let (token, totals) = (bench.token("held"), bench.stats("q").totals);
    bench.take_events();
    let memory = bench.engine.memory_bytes();
    bench.check(1, rename("q", "a much longer name"), &["1:ok"]);
    assert_eq!(bench.engine.memory_bytes(), memory + 17);
    bench.check(1, Request::Exists { db: Db(0), queues: Q }, &["1:0"]);
    bench.check(1, Request::Stats { queue: queue("q") }, &["1:nil"]);
    let mut stats = bench.stats("a much longer name");
    assert_eq!([stats.delayed, stats.ready, stats.leased, stats.dead], [1, 2, 1, 1]);
    assert_eq!(std::mem::take(&mut stats.totals), totals);
    let seen = job("a much longer name", "seen", 0);
    bench.check(1, Request::Add(seen), &["1:EXISTS"]);
    bench.ack(1, "held", token);
    bench.expect_events(&["1:0"]);
    let jobs = vec![(&b"held"[..], token)];
    bench.check(1, Request::Ack { queue: queue("a much longer name"), jobs }, &["1:1"]);
    bench.at(5_000);
    bench.check(1, peek("a much longer name", 9), &["1:first next later"]);
}

#[test]
fn a_queue_in_the_way_is_removed_and_waiters_of_the_new_name_are_served() {
    let mut bench = Bench::new();
    bench.ask(1, pop(&[b"old"], Wait::Forever));
    bench.ask(2, pop(&[b"new"], Wait::Forever));
    bench.add(job("new", "gone", 10));
    bench.at(10);
    bench.expect_events(&["2:gone"]);
    bench.sent(2);
    bench.add(job("new", "never", 10));
    bench.ask(2, pop(&[b"new"], Wait::Forever));
    bench.stopped_waiting(1);
    bench.add(job("old", "a", 0));
    bench.add(job("old", "b", 0));
    bench.ask(3, pop(&[b"old"], Wait::Forever));
    bench.expect_events(&["3:a"]);
    bench.sent(3);
    bench.check(4, rename("old", "new"), &["4:ok", "2:b"]);
    // Who waits under the old name goes on waiting there.
    bench.ask(5, pop(&[b"old"], Wait::Forever));
    bench.at(1_000);
    bench.expect_events(&[]);
    bench.add(job("new", "x", 0));
    bench.expect_events(&[]);
    bench.check(6, Request::Add(job("old", "y", 0)), &["6:y", "5:y"]);
    bench.check(4, peek("new", 9), &["4:x"]);
    assert_eq!(bench.stats("new").totals.added, 3, "the totals are those of the renamed queue");
}

#[test]
fn only_a_queue_that_exists_is_renamed() {
    let mut bench = Bench::new();
    bench.check(1, rename("q", "r"), &["1:ERR"]);
    bench.check(1, rename("q", "q"), &["1:ERR"]);
    bench.add(job("q", "a", 0));
    bench.check(1, rename("q", "q"), &["1:ok"]);
    let nx = |from: &'static str, to: &'static str| Request::Rename {
        db: Db(0),
        queue: from.as_bytes(),
        to: to.as_bytes(),
        only_new: true,
    };
    bench.check(1, nx("q", "q"), &["1:0"]);
    bench.add(job("r", "b", 0));
    bench.check(1, nx("q", "r"), &["1:0"]);
    bench.check(1, pop(&[b"r"], Wait::No), &["1:b"]);
    // Known for its totals alone it is no key, and in nobody's way.
    bench.check(1, nx("q", "r"), &["1:1"]);
    bench.check(1, nx("q", "r"), &["1:ERR"]);
    bench.check(1, pop(&[b"r"], Wait::No), &["1:a"]);
    bench.check(1, rename("r", "s"), &["1:ERR"]);
    bench.check(1, len("r", State::Ready), &["1:0"]);
}

#[test]
fn a_popped_job_that_never_left_goes_back_under_the_new_name() {
    let mut bench = Bench::new();
    bench.add(job("q", "a", 0));
    bench.add(job("q", "b", 0));
    bench.check(1, pop(Q, Wait::No), &["1:a"]);
    bench.check(2, rename("q", "r"), &["2:ok"]);
    bench.unsent(1);
    bench.check(2, peek("r", 9), &["2:a b"]);
}
