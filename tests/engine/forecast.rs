//! FORECAST: exact for one instant, however many slices the counting takes.

use delayd::engine::Outcome;
use delayd::engine::model::request::{Request, When};

use crate::engine::bench::*;

/// More jobs than are counted in a turn.
const MANY: u64 = 10_000;

/// Jobs due 1, 2, 3 … s from the beginning.
fn many(bench: &mut Bench) {
    for number in 1..=MANY {
        let mut add = job("q", "", 0);
        (add.id, add.when) = (None, When::At(BEGIN_MS + number * 1_000));
        bench.add(add);
    }
}

#[test]
fn what_is_due_but_not_yet_swept_is_in_no_span() {
    let mut bench = Bench::new();
    many(&mut bench);
    // All of the first half, of which a request sweeps only a part before it is decided.
    bench.at_ms = MANY / 2 * 1_000;
    while bench.ask(1, forecast("q", MANY * 1_000, 2)) == Outcome::Again {}
    bench.expect_events(&[&format!("1:{} 0", MANY / 2)]);
}

#[test]
fn jobs_that_come_and_go_while_it_is_counted_change_nothing() {
    let mut bench = Bench::new();
    many(&mut bench);
    let mut slices = 0;
    let mut moved = 0;
    while bench.ask(1, forecast("q", 1_000_000, 10)) == Outcome::Again {
        slices += 1;
        // What falls due, goes, moves and comes between the slices.
        bench.at(slices * 50_000);
        bench.ask(2, peek("q", 100));
        let ids = bench.take_events().remove(0);
        for id in ids[2..].split(' ').take(20) {
            let (queue, ids) = (queue("q"), [id.as_bytes()]);
            bench.ask(3, Request::Delete { queue, ids: &ids });
            moved += 1;
        }
        for number in 0..300 {
            let mut add = job("q", "", 7_000_000 + number);
            add.id = None;
            bench.add(add);
        }
        bench.take_events();
    }
    assert!(slices >= 4 && moved > 50, "{slices} slices, {moved} moved");
    bench.expect_events(&[&format!("1:{}", ["1000"; 10].join(" "))]);
}

#[test]
fn a_second_one_waits_and_one_whose_client_is_gone_holds_nobody_up() {
    let mut bench = Bench::new();
    many(&mut bench);
    assert_eq!(bench.ask(1, forecast("q", 1_000, 1)), Outcome::Again);
    assert_eq!(bench.ask(2, forecast("q", 1_000, 2)), Outcome::Again);
    bench.closed(1);
    let mut slices = 0;
    while bench.ask(2, forecast("q", 1_000, 2)) == Outcome::Again {
        slices += 1;
        assert!(slices < 10, "the one that is gone holds it up");
    }
    bench.expect_events(&["2:1 1"]);
    // Removed, and bound again, in the middle: it begins anew.
    assert_eq!(bench.ask(2, forecast("q", 1_000, 2)), Outcome::Again);
    bench.check(3, remove(Q), &["3:1"]);
    bench.add(job("q", "x", 500));
    bench.check(2, forecast("q", 1_000, 2), &["2:1 0"]);
    bench.check(4, forecast("q", 1_000, 2), &["4:1 0"]);
}

#[test]
fn in_a_transaction_it_is_counted_at_once_and_costs_what_it_looks_at() {
    let mut bench = Bench::new();
    many(&mut bench);
    let begun = bench.transact(1, &[forecast("q", 2_000, 3)]);
    let TransactionBegun::Begun(needs) = begun else { panic!("{begun:?}") };
    assert!(needs.entries >= MANY + 3, "{needs:?}");
    bench.expect_events(&["1:2 2 2"]);
}
