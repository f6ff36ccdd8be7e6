//! PURGE: gone at once, with one fact; freed in slices.

use delayd::engine::model::bulk::Filter;
use delayd::engine::model::request::{JobState, Request, Scan, Wait, When};
use delayd::engine::model::walk::Cursor;
use delayd::engine::{Engine, Loader, Outcome, Settings};

use crate::engine::bench::*;

/// A queue with jobs in all states, of two of them with a TTL, and a window.
fn all_states(bench: &mut Bench) {
    for (id, delay_ms) in [("d1", 5_000), ("d2", 9_000), ("l", 0), ("x", 0), ("r1", 0), ("r2", 0)] {
        let mut add = job("q", id, delay_ms);
        add.ttl_ms = id.ends_with('1').then_some(50);
        bench.add(add);
    }
    let mut window = job("q", "w", 0);
    (window.unique_ms, window.priority) = (60_000, Some(0));
    bench.add(window);
    bench.check(1, pop(Q, Wait::No), &["1:w"]);
    bench.check(1, Request::Reserve(reserve(Q, Wait::No, 2)), &["1:l#1 x#1"]);
    bench.sent(1);
    bench.nack(1, "x", |nack| nack.bury = true);
    bench.take_events();
}

fn counts(bench: &mut Bench) -> [u64; 4] {
    let stats = bench.stats("q");
    [stats.delayed, stats.ready, stats.leased, stats.dead]
}

#[test]
fn without_a_state_all_but_leased_ones_go_and_ids_are_free_at_once() {
    let mut bench = Bench::new();
    all_states(&mut bench);
    let before = bench.engine.memory_bytes();
    bench.check(1, purge("q"), &["1:5"]);
    assert_eq!(counts(&mut bench), [0, 0, 1, 0]);
    assert_eq!(bench.engine.memory_bytes(), before, "counted until it is freed");
    assert_eq!(bench.stats("q").totals.deleted, 5);
    bench.check(1, peek("q", 9), &["1:"]);
    bench.check(1, get("q", "d1"), &["1:nil"]);
    bench.check(1, delete("q", &[b"r1", b"x"]), &["1:0"]);
    // The old ones are still there, unseen; the new ones are others.
    for (id, delay_ms) in [("d1", 20), ("r1", 0), ("x", 0), ("w", 0)] {
        bench.check(1, Request::Add(job("q", id, delay_ms)), &[&format!("1:{id}")]);
    }
    bench.check(1, peek("q", 9), &["1:r1 x w d1"]);
    let state = Some(JobState::Ready);
    bench.ask(
        1,
        Request::Scan(Scan {
            filter: Filter { state, ..Filter::default() },
            ..Scan::new(queue("q"), Cursor::BEGIN, 9)
        }),
    );
    let expect_events = bench.take_events().remove(0);
    let mut seen: Vec<&str> = expect_events[2..].split(' ').collect();
    seen.sort_unstable();
    assert_eq!(seen, ["r1", "w", "x"]);
    bench.replayed();
    while bench.advance(1) {
        bench.replayed();
    }
    assert_eq!(counts(&mut bench), [1, 3, 1, 0]);
    let token = bench.token("l");
    bench.ack(1, "l", token);
    bench.expect_events(&["1:1"]);
    bench.check(1, purge("q"), &["1:4"]);
    bench.check(1, purge("q"), &["1:0"]);
    bench.at(100_000);
    assert_eq!(bench.stats("q").bytes, 0);
    assert!(bench.stats("q").totals.expired == 0, "what is purged does not expire");
}

#[test]
fn timers_of_purged_jobs_come_before_they_are_freed() {
    let mut bench = Bench::new();
    for number in 0..3_000u64 {
        let mut add = job("q", "", 0);
        (add.id, add.ttl_ms) = (None, Some(1 + number % 5));
        bench.add(add);
    }
    bench.check(1, purge("q"), &["1:3000"]);
    for at_ms in 0..6 {
        bench.at_ms = at_ms;
        bench.advance(700);
    }
    bench.at(10);
    let stats = bench.stats("q");
    assert_eq!((stats.totals.expired, stats.totals.deleted, stats.bytes), (0, 3_000, 0));
}

#[test]
fn purging_again_removing_and_renaming_while_it_is_being_freed() {
    let mut bench = Bench::new();
    let empty = bench.engine.memory_bytes();
    for round in 0..70u64 {
        for number in 0..20u64 {
            let mut add = job("q", "", (number % 3) * 1_000);
            (add.id, add.ttl_ms) = (None, (number % 2 == 0).then_some(5_000));
            bench.add(add);
        }
        // So many are not freed yet: the next one waits for a turn.
        let outcome = bench.ask(1, purge("q"));
        let expected = if round < 64 { Outcome::Replied } else { Outcome::Again };
        assert_eq!(outcome, expected, "purge {round}");
    }
    bench.take_events();
    bench.advance(100);
    bench.check(1, purge("q"), &["1:120"]);
    bench.add(job("q", "a", 1_000));
    bench.check(1, rename("q", "r"), &["1:ok"]);
    bench.advance(100);
    bench.check(1, len("r", JobState::Delayed), &["1:1"]);
    bench.check(1, remove(&[b"r"]), &["1:1"]);
    bench.at(10);
    let left = bench.engine.memory_bytes() - empty;
    assert!((200..400).contains(&left), "two policies are left, not {left} bytes");
}

#[test]
fn no_turn_takes_more_than_its_budget() {
    let mut bench = Bench::new();
    let count = 100_000u64;
    for number in 0..count {
        let mut add = job("q", "", number % 2 * 60_000);
        (add.id, add.ttl_ms) = (None, Some(86_400_000));
        bench.add(add);
    }
    let bytes = bench.stats("q").bytes;
    let (facts, _) = bench.made();
    bench.check(1, purge("q"), &[&format!("1:{count}")]);
    assert_eq!(bench.made().0, facts + 1, "one fact");
    assert_eq!(bench.stats("q").bytes, 0);
    let mut turns = 0;
    loop {
        let before = bench.engine.memory_bytes();
        let more = bench.advance(1_000);
        let freed = before - bench.engine.memory_bytes();
        assert!(freed <= bytes / count * 1_010, "{freed} bytes in a turn");
        turns += 1;
        if !more {
            break;
        }
    }
    assert!(turns >= 100, "{turns}");
    assert!(
        bench.engine.memory_bytes() < bytes / 1_000,
        "counted until it was freed, and then not"
    );
}

/// What a base file that is begun at some moment gives back.
#[test]
fn a_base_file_holds_what_was_purged_after_it_was_begun_and_nothing_of_before() {
    let mut bench = Bench::new();
    all_states(&mut bench);
    bench.check(1, purge_state("q", JobState::Ready), &["1:2"]);
    bench.add(job("q", "r1", 0));
    bench.nack(1, "l", |nack| nack.uncounted = true);
    bench.take_events();
    let (digest, from) = (bench.engine.digest(), bench.facts.len());
    bench.engine.begin_base();
    // The job that came back is purged now; what was purged before is freed, and then this.
    bench.check(1, purge("q"), &["1:5"]);
    bench.add(job("q", "d1", 7));
    bench.advance(3);
    bench.engine.base_slice(2, 10);
    bench.at(50);
    bench.check(1, remove(Q), &["1:1"]);
    bench.at(100);
    while !bench.engine.base_slice(1, 10) {}
    let images = std::mem::take(bench.engine.base_output());
    let mut loader = Loader::new(Settings { hash_seed: 5, ..bench.engine.settings().clone() });
    loader.images(&images).expect("own images");
    let mut loaded = Engine::loaded(loader).expect("own images");
    assert_eq!(loaded.digest(), digest);
    for (now, facts) in &bench.facts[from..] {
        loaded.apply(*now, facts).expect("own facts");
    }
    assert_eq!(loaded.digest(), bench.engine.digest());
}

#[test]
fn a_forecast_begins_anew_and_far_ones_are_purged_too() {
    let mut bench = Bench::new();
    for number in 0..5_000u64 {
        let mut add = job("q", "", 0);
        (add.id, add.when) = (None, When::In(1_000 + number));
        bench.add(add);
    }
    assert_eq!(bench.ask(1, forecast("q", 10_000, 1)), Outcome::Again);
    bench.check(2, purge("q"), &["2:5000"]);
    bench.add(job("q", "one", 1_000));
    while bench.ask(1, forecast("q", 10_000, 1)) == Outcome::Again {}
    bench.expect_events(&["1:1"]);
    bench.at(20_000);
    bench.check(1, peek("q", 9), &["1:one"]);
}
