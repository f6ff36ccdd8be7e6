//! A process that stood still, and waiting by a clock that goes on evenly.

use delayd::engine::Outcome;
use delayd::engine::model::request::{JobState, Request, Reserve, Side, Wait};
use delayd::time::Micros;

use crate::engine::bench::*;

/// `a`, `b` and so on are leased by client 1, for 100 ms from now on; client 9 waits for more.
fn leased(bench: &mut Bench, ids: &[&'static str]) {
    ids.iter().for_each(|id| bench.add(job("q", id, 0)));
    bench.ask(1, Request::Reserve(reserve(Q, Wait::No, ids.len() as u32)));
    bench.sent(1);
    bench.ask(9, Request::Reserve(reserve(Q, Wait::Forever, 9)));
    bench.take_events();
}

/// Until `ms` from the time it is now, the process stands still.
fn stand_still(bench: &mut Bench, ms: u64) {
    let from = bench.now();
    bench.at_ms = ms;
    bench.engine.stood_still(from);
}

#[test]
fn whoever_answered_while_the_process_stood_still_is_heard_before_leases_end() {
    let mut bench = Bench::new();
    leased(&mut bench, &["a", "b", "c", "d"]);
    bench.add(job("q", "later", 150));
    bench.take_events();
    bench.at(60);
    stand_still(&mut bench, 1_000);
    let token = |bench: &Bench, id| bench.token(id);
    let (a, b) = (token(&bench, "a"), token(&bench, "b"));
    bench.ack(1, "a", a);
    let extend = Request::Extend { queue: queue("q"), id: b"b", token: b, lease_ms: 500 };
    bench.ask(1, extend);
    bench.ask(1, cancel("q", "c", false));
    // The job that fell due was handed over before, and late jobs are due at once.
    let expect_events = bench.take_events();
    assert_eq!(expect_events, ["9:later#1", "1:1", &format!("1:{}", BEGIN_MS + 1_500), "1:leased"]);
    // Time passes, and nobody else has been heard: no lease ends.
    bench.at(1_300);
    let d = token(&bench, "d");
    bench.ack(1, "d", d);
    bench.expect_events(&["1:1"]);
    bench.engine.backlog_read(bench.now());
    bench.at(1_499);
    bench.check(2, get("q", "b"), &["2:leased due 0 attempt 1 until 1500"]);
    bench.ask(2, get("q", "c"));
    let expect_events = bench.take_events();
    assert!(expect_events[0].starts_with("2:leased due 0 attempt 1 until"), "{expect_events:?}");
}

/// As [`stand_still`], and what arrived meanwhile comes before waiters.
fn stand_still_with_mail(bench: &mut Bench, ms: u64) {
    stand_still(bench, ms);
    bench.engine.defer_hand_offs(true);
}

fn all_heard(bench: &mut Bench) {
    bench.engine.defer_hand_offs(false);
    bench.engine.backlog_read(bench.now());
}

#[test]
fn a_timer_that_was_cancelled_or_moved_in_time_is_not_handed_to_who_waits() {
    for moves in [false, true] {
        let mut bench = Bench::new();
        bench.ask(9, pop(Q, Wait::Forever));
        bench.add(job("q", "timer", 100));
        bench.add(job("q", "other", 101));
        bench.at(50);
        stand_still_with_mail(&mut bench, 1_000);
        let (asked, expect_events) = match moves {
            // It has fallen due, as the clock says.
            false => (cancel("q", "timer", false), "1:ready"),
            true => (reschedule("q", "timer", 500), "1:1"),
        };
        bench.ask(1, asked);
        // Time passes, too.
        bench.at(1_001);
        bench.expect_events(&[expect_events]);
        bench.check(2, len("q", JobState::Ready), &["2:1"]);
        all_heard(&mut bench);
        bench.at(1_002);
        bench.expect_events(&["9:other"]);
        bench.sent(9);
        bench.ask(9, pop(Q, Wait::Forever));
        bench.at(2_000);
        bench.expect_events(if moves { &["9:timer"] } else { &[] });
    }
}

#[test]
fn what_is_asked_for_after_a_standstill_is_taken_in_order_and_nobody_overtakes_who_waits() {
    let mut bench = Bench::new();
    bench.ask(9, pop(Q, Wait::For(400)));
    bench.add(job("q", "a", 100));
    bench.add(job("q", "b", 100));
    bench.add(job("alone", "c", 100));
    bench.at(50);
    stand_still_with_mail(&mut bench, 1_000);
    // Nobody waits there.
    bench.check(1, pop(&[b"alone"], Wait::No), &["1:c"]);
    for wait in [Wait::No, Wait::Forever] {
        assert_eq!(bench.ask(1, pop(Q, wait)), Outcome::Again);
    }
    assert_eq!(bench.begin_once(1, &[pop(Q, Wait::No)]), TransactionBegun::Again);
    let reads = [len("q", JobState::Ready), cancel("q", "b", false)];
    assert!(matches!(bench.transact(1, &reads), TransactionBegun::Begun(_)));
    bench.expect_events(&["1:2", "1:ready"]);
    // Its deadline has passed, and a job was there for it before.
    bench.at(1_100);
    bench.expect_events(&[]);
    all_heard(&mut bench);
    bench.at(1_101);
    bench.expect_events(&["9:a"]);
    bench.check(1, pop(Q, Wait::No), &["1:nil"]);
}

#[test]
fn a_lease_has_what_was_left_of_it_when_the_process_stood_still_and_then_it_ends() {
    let mut bench = Bench::new();
    leased(&mut bench, &["a"]);
    bench.at(60);
    stand_still(&mut bench, 5_000);
    bench.at(5_000);
    bench.engine.backlog_read(bench.now());
    bench.at(5_039);
    bench.expect_events(&[]);
    bench.check(2, get("q", "a"), &["2:leased due 0 attempt 1 until 5040"]);
    bench.at(5_040);
    bench.expect_events(&["9:a#2"]);
    // The next lease is as ever.
    bench.at(5_140);
    bench.check(2, get("q", "a"), &["2:delayed due 6140 attempt 2"]);
}

#[test]
fn leases_that_ended_before_or_end_after_are_as_ever() {
    let mut bench = Bench::new();
    leased(&mut bench, &["before"]);
    bench.ask(3, push("other", Side::Right, &[b"after"]));
    let long = Reserve { lease_ms: Some(10_000), ..reserve(&[b"other"], Wait::No, 1) };
    bench.ask(3, Request::Reserve(long));
    bench.sent(3);
    bench.take_events();
    bench.at_ms = 110;
    stand_still(&mut bench, 500);
    bench.at(500);
    bench.engine.backlog_read(bench.now());
    bench.check(2, get("q", "before"), &["9:before#2", "2:leased due 0 attempt 2 until 600"]);
    bench.at(9_999);
    bench.check(2, len("other", JobState::Leased), &["2:1"]);
    bench.at(10_000);
    bench.check(2, len("other", JobState::Leased), &["2:0"]);
}

#[test]
fn a_wait_lasts_as_long_on_the_monotonic_clock_however_slow_the_engines_goes() {
    let mut bench = Bench::new();
    let mono = |bench: &mut Bench, ms: u64| bench.engine.set_monotonic(Micros(ms * 1_000 + 300));
    mono(&mut bench, 7_000);
    bench.ask(1, pop(Q, Wait::For(1_000)));
    bench.ask(2, pop(&[b"other"], Wait::For(3_000)));
    assert_eq!(bench.engine.next_wakeup(), None);
    assert_eq!(bench.engine.next_timeout().map(|at| at.0), Some(8_001), "in ms rounded up");
    // Half as fast as the other, since the wall clock was set back.
    mono(&mut bench, 7_999);
    bench.at(500);
    bench.expect_events(&[]);
    mono(&mut bench, 8_001);
    bench.at(501);
    bench.expect_events(&["1:nil"]);
    // Set forward by an hour, it ends no wait.
    bench.at(3_600_000);
    bench.expect_events(&[]);
    mono(&mut bench, 10_001);
    bench.at(3_600_001);
    bench.expect_events(&["2:nil"]);
}

#[test]
fn a_wait_until_the_ms_of_a_job_gets_the_job() {
    let mut bench = Bench::new();
    for (us, mono_us) in [(0, 0), (1, 999), (999, 1), (999, 999), (500, 501)] {
        bench.at_us = us;
        bench.engine.set_monotonic(Micros(bench.at_ms * 1_000 + mono_us));
        bench.add(job("q", "a", 10));
        bench.ask(1, pop(Q, Wait::For(10)));
        // Both clocks go on evenly, to the first instant at which either has something to do.
        let (at, began) = (bench.now(), bench.at_ms * 1_000 + mono_us);
        let due_us = bench.engine.next_wakeup().expect("a job is to fall due").start().0 - at.0;
        let timeout_us = bench.engine.next_timeout().expect("it waits").start().0 - began;
        assert!(due_us <= timeout_us, "{us} {mono_us}");
        let later = due_us.min(timeout_us) + us;
        (bench.at_ms, bench.at_us) = (bench.at_ms + later / 1_000, later % 1_000);
        bench.engine.set_monotonic(Micros(began + due_us));
        while bench.advance(1_000) {}
        bench.expect_events(&["1:a"]);
        bench.sent(1);
    }
}
