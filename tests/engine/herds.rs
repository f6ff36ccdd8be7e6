//! Many jobs at once, and time in slices.

use delayd::engine::Outcome;
use delayd::engine::model::request::{JobState, Request, Wait, When};

use crate::engine::bench::*;

/// Adds jobs of server-made ids, `count` of them, all due at `at_ms`.
fn herd(bench: &mut Bench, count: u32, at_ms: u64) {
    let mut add = job("herd", "", 0);
    (add.id, add.when) = (None, When::At(BEGIN_MS + at_ms));
    for number in 0..count {
        add.priority = Some((number % 3) as u8);
        bench.add(add.clone());
    }
}

#[test]
fn a_herd_keeps_its_order_and_delays_another_queue_by_no_more_than_a_slice() {
    let mut bench = Bench::new();
    herd(&mut bench, 100_000, 1_000);
    bench.ask(1, pop(&[b"single"], Wait::Forever));
    bench.add(job("single", "s", 1_000));
    bench.at_ms = 1_000;
    let mut slices = 0;
    let mut steps = 0u64;
    loop {
        let before = bench.engine.job_counts()[0];
        let more = bench.advance(1_000);
        let done = before - bench.engine.job_counts()[0];
        assert!(done <= 1_000, "{done} jobs in a slice of 1,000");
        (slices, steps) = (slices + 1, steps + done);
        // The herd's timers are opened within its own turns: a few slices at most before `s`.
        if slices == 2 {
            bench.expect_events(&["1:s"]);
        }
        if !more {
            break;
        }
    }
    assert!(slices >= 100 && steps == 100_001, "{steps} in {slices} slices");
    // (priority, place): ids made by the server sort by creation.
    let mut last: Vec<String> = Vec::new();
    for _ in 0..10 {
        let mut reserve = reserve(&[b"herd"], Wait::No, 10_000);
        reserve.no_ack = true;
        bench.ask(2, Request::Reserve(reserve));
        bench.sent(2);
        let said = bench.take_events();
        let ids = said[0].strip_prefix("2:").expect("for 2").split(' ');
        last.extend(ids.map(|id| id.strip_suffix("#1").expect("first").to_owned()));
    }
    assert_eq!(last.len(), 100_000);
    let rows: Vec<&[String]> = last.chunk_by(|a, b| a < b).collect();
    let lengths: Vec<usize> = rows.iter().map(|row| row.len()).collect();
    assert_eq!(lengths, [33_334, 33_333, 33_333], "each priority in the order of adding");
}

/// Woken when it asks to be, the engine has moved the herd to the slot of its ms when that comes.
#[test]
fn the_first_of_a_herd_comes_at_once() {
    const DUE_MS: u64 = 70_000_000;
    let mut bench = Bench::new();
    herd(&mut bench, 200_000, DUE_MS);
    bench.ask(1, pop(&[b"herd"], Wait::Forever));
    let mut wakeups = 0;
    loop {
        assert!(!bench.advance(1_000_000), "nothing is due");
        let next_ms = bench.engine.next_wakeup().expect("jobs wait").0 - BEGIN_MS;
        assert!(next_ms > bench.at_ms || wakeups == 0, "woken again at {next_ms}");
        wakeups += 1;
        bench.at_ms = next_ms;
        if next_ms >= DUE_MS {
            break;
        }
    }
    // From level 3 to level 0, 4,096 jobs a ms.
    assert!((147..200).contains(&wakeups), "woken {wakeups} times");
    bench.advance(64);
    assert_eq!(bench.take_events().len(), 1, "the first one is handed over within 64 steps");
}

#[test]
fn what_is_added_due_now_during_a_sweep_queues_behind() {
    let mut bench = Bench::new();
    for _ in 0..2_000 {
        let mut add = job("q", "", 10);
        add.id = None;
        bench.add(add);
    }
    bench.at_ms = 10;
    bench.advance(300);
    bench.add(job("q", "late", 0));
    bench.check(1, get("q", "late"), &["1:delayed due 10 attempt 0"]);
    bench.at(10);
    bench.ask(1, peek("q", 10_000));
    let said = bench.take_events();
    assert!(said[0].ends_with(" late") && said[0].split(' ').count() == 2_001);
}

#[test]
fn every_budget_gets_everything_done_in_the_same_order() {
    let mut orders = Vec::new();
    for budget in [1, 2, 7, 100, 1_000_000] {
        let mut bench = Bench::new();
        for number in 0..600u64 {
            let mut add = job("q", "", number * 7 % 50);
            add.id = None;
            bench.add(add);
        }
        bench.at_ms = 50;
        let mut slices = 0;
        while bench.advance(budget) {
            slices += 1;
            assert!(slices < 20_000, "a budget of {budget} never ends");
        }
        bench.check(1, len("q", JobState::Ready), &["1:600"]);
        bench.ask(1, peek("q", 1_000));
        orders.push(bench.take_events());
    }
    assert!(orders.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn peek_and_stats_of_a_big_far_queue_come_in_slices_while_adds_go_on() {
    let mut bench = Bench::new();
    herd(&mut bench, 20_000, 40_000_000);
    let mut again = 0;
    while bench.ask(1, peek("herd", 5)) == Outcome::Again {
        let mut add = job("herd", "", 30_000_000 + again);
        add.id = None;
        bench.add(add);
        again += 1;
        assert!(again < 100, "PEEK is never answered");
    }
    assert!(again > 0, "20,000 timers are opened in one turn");
    let said = bench.take_events();
    assert_eq!(said[0].split(' ').count(), 5);
    assert_eq!(bench.stats("herd").next_due.map(|due| due.0 - BEGIN_MS), Some(30_000_000));
}
