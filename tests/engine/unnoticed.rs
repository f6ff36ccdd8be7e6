//! Leases that ended while nobody looked: in a downtime, in a step of the wall clock, while the
//! process stood still.

use delayd::engine::model::queue_settings::QueueSettings;
use delayd::engine::model::request::{Request, State, Wait};

use crate::bench::*;

const MINUTE_MS: u64 = 60_000;

/// Takes all that is ready, for 100 ms.
fn take(bench: &mut Bench, count: u32) {
    bench.ask(1, Request::Reserve(reserve(Q, Wait::No, count)));
    bench.take_events();
    bench.sent(1);
}

/// A job whose next lease that runs out is the second in a row.
fn once_over(bench: &mut Bench, id: &'static str) {
    bench.add(job("q", id, 0));
    take(bench, 1);
    let after = bench.at_ms + 100;
    bench.at(after);
}

#[test]
fn a_retry_counts_from_the_end_of_the_lease() {
    let mut bench = Bench::new();
    once_over(&mut bench, "a");
    take(&mut bench, 1);
    // The lease ended at 200, its backoff is 1,000 ms.
    bench.at(700);
    bench.check(2, get("q", "a"), &["2:delayed due 1200 attempt 2"]);
    bench.at(1_200);
    bench.check(2, get("q", "a"), &["2:ready due 1200 attempt 2"]);
}

#[test]
fn death_and_its_retention_count_from_the_end_of_the_lease() {
    let mut bench = Bench::new();
    let kept = |ms| QueueSettings { dead_retention_ms: Some(ms), ..QueueSettings::default() };
    bench.configure("q", kept(10 * MINUTE_MS));
    for id in ["a", "b"] {
        bench.add(delayd::engine::model::request::Add { attempts: Some(1), ..job("q", id, 0) });
        take(&mut bench, 1);
        bench.at(bench.at_ms + MINUTE_MS);
    }
    // The leases ended at 100 ms and at a minute and 100 ms.
    bench.check(2, get("q", "a"), &["2:dead due 0 attempt 1 timeout"]);
    bench.at(10 * MINUTE_MS + 99);
    bench.check(2, len("q", State::Dead), &["2:2"]);
    bench.at(10 * MINUTE_MS + 100);
    bench.check(2, len("q", State::Dead), &["2:1"]);
    bench.at(11 * MINUTE_MS + 100);
    bench.check(2, len("q", State::Dead), &["2:0"]);
}

#[test]
fn what_was_kept_long_enough_before_anybody_noticed_is_gone() {
    let mut bench = Bench::new();
    let settings = QueueSettings { dead_retention_ms: Some(500), ..QueueSettings::default() };
    bench.configure("q", settings);
    bench.add(delayd::engine::model::request::Add { attempts: Some(1), ..job("q", "a", 0) });
    take(&mut bench, 1);
    bench.at(MINUTE_MS);
    bench.check(2, get("q", "a"), &["2:nil"]);
    let totals = bench.stats("q").totals;
    assert_eq!((totals.died, totals.dropped), (1, 1));
}

#[test]
fn a_bound_lease_that_had_ended_before_its_connection_was_missed_counts_from_its_end() {
    let mut bench = Bench::new();
    once_over(&mut bench, "a");
    let bound = delayd::engine::model::request::Reserve { bound: true, ..reserve(Q, Wait::No, 1) };
    bench.ask(1, Request::Reserve(bound));
    bench.take_events();
    bench.sent(1);
    // It ended at 200; as after a restart, the connection is found gone later.
    bench.at_ms = 500;
    bench.closed(1);
    bench.check(2, get("q", "a"), &["2:delayed due 1200 attempt 2"]);
    // Before its end, from when the connection was gone.
    let bound = delayd::engine::model::request::Reserve { bound: true, ..reserve(Q, Wait::No, 1) };
    bench.at(1_200);
    bench.ask(1, Request::Reserve(bound));
    bench.take_events();
    bench.sent(1);
    bench.at_ms = 1_250;
    bench.closed(1);
    bench.check(2, get("q", "a"), &["2:delayed due 2250 attempt 3"]);
}

#[test]
fn a_retry_whose_time_passed_unnoticed_is_ready_at_once_behind_what_was_due() {
    let mut bench = Bench::new();
    once_over(&mut bench, "a");
    take(&mut bench, 1);
    bench.add(job("q", "b", 2_000));
    bench.at(MINUTE_MS);
    bench.check(2, peek("q", 9), &["2:b a"]);
    bench.check(2, get("q", "a"), &["2:ready due 60000 attempt 2"]);
}
