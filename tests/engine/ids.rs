//! Ids: taken, kept, freed; and jobs that expire.

use delayd::engine::model::request::{Request, Taken, Wait};

use crate::bench::*;

#[test]
fn an_id_that_is_taken_is_refused_kept_or_replaced() {
    let mut bench = Bench::new();
    bench.add(job("q", "a", 100));
    let with = |taken| {
        let mut add = job("q", "a", 5);
        add.taken = taken;
        Request::Add(add)
    };
    bench.check(1, with(Taken::Refuse), &["1:EXISTS"]);
    bench.check(1, with(Taken::Keep), &["1:nil"]);
    bench.check(1, get("q", "a"), &["1:delayed due 100 attempt 0"]);
    bench.check(1, with(Taken::Replace), &["1:a"]);
    bench.check(1, get("q", "a"), &["1:delayed due 5 attempt 0"]);
    bench.check(1, Request::Add(job("other", "a", 0)), &["1:a"]);
}

#[test]
fn made_ids_sort_by_creation_and_pass_over_those_that_clients_took() {
    let mut bench = Bench::with(|settings| settings.token_floor = 1_000);
    let taken = delayd::engine::model::token::written(1_001);
    let mut add = job("q", "", 0);
    add.id = Some(&taken);
    bench.ask(1, Request::Add(add.clone()));
    add.id = None;
    (0..100).for_each(|_| {
        bench.ask(1, Request::Add(add.clone()));
    });
    let said = bench.take_events();
    assert!(said.windows(2).all(|pair| pair[0] < pair[1]), "{said:?}");
}

#[test]
fn a_window_holds_the_id_after_the_end_of_the_job() {
    for end in ["ack", "pop", "expire"] {
        let mut bench = Bench::new();
        let mut add = job("q", "a", 0);
        (add.unique_ms, add.ttl_ms) = (1_000, (end == "expire").then_some(10));
        bench.add(add);
        match end {
            "ack" => {
                bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 1)));
                let token = bench.tokens[0].1;
                bench.ack(1, "a", token);
            }
            "pop" => {
                bench.ask(1, pop(Q, Wait::No));
            }
            _ => {}
        }
        bench.at(10);
        bench.take_events();
        let from = if end == "expire" { 10 } else { 0 };
        let mut nx = job("q", "a", 0);
        nx.taken = Taken::Keep;
        bench.check(1, Request::Add(job("q", "a", 0)), &["1:EXISTS"]);
        bench.check(1, Request::Add(nx), &["1:nil"]);
        bench.check(1, get("q", "a"), &["1:nil"]);
        assert_eq!(bench.engine.queue_counts()[0], 0, "a window is no job");
        bench.at(from + 999);
        bench.check(1, Request::Add(job("q", "a", 0)), &["1:EXISTS"]);
        bench.at(from + 1_000);
        bench.check(1, Request::Add(job("q", "a", 0)), &["1:a"]);
    }
}

#[test]
fn del_and_cancel_free_a_window_replace_passes_it_and_a_dead_job_holds_its_id() {
    let mut bench = Bench::new();
    let mut add = job("q", "a", 0);
    add.unique_ms = 1_000;
    for free in [delete("q", &[b"a"]), cancel("q", "a", false)] {
        bench.add(add.clone());
        let freed = if matches!(free, Request::Delete { .. }) { "1:0" } else { "1:nil" };
        bench.check(1, pop(Q, Wait::No), &["1:a"]);
        bench.check(1, Request::Add(add.clone()), &["1:EXISTS"]);
        bench.check(1, free, &[freed]);
    }
    bench.check(1, Request::Add(add.clone()), &["1:a"]);
    bench.check(1, pop(Q, Wait::No), &["1:a"]);
    let mut replace = add.clone();
    replace.taken = Taken::Replace;
    bench.check(1, Request::Add(replace), &["1:a"]);
    bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 1)));
    bench.nack(1, "a", |nack| nack.bury = true);
    bench.at(5_000);
    bench.check(1, Request::Add(add), &["1:a#1", "1:1", "1:EXISTS"]);
    // Windows were no jobs when they were freed.
    assert_eq!(bench.stats("q").totals.deleted, 0);
}

#[test]
fn ttl_counts_from_the_due_time_moves_with_it_and_ends_with_a_delivery() {
    let mut bench = Bench::new();
    for id in ["a", "b", "c", "d"] {
        let mut add = job("q", id, 10);
        add.ttl_ms = Some(20);
        bench.add(add);
    }
    bench.at(10);
    bench.check(1, Request::Reserve(reserve(Q, Wait::No, 1)), &["1:a#1"]);
    bench.nack(1, "a", |nack| nack.uncounted = true);
    bench.check(1, reschedule("q", "b", 40), &["1:1", "1:1"]);
    // One that never left was not delivered.
    bench.check(2, pop(&[b"q"], Wait::No), &["2:a"]);
    bench.sent(2);
    bench.check(2, Request::Reserve(reserve(Q, Wait::No, 1)), &["2:c#1"]);
    bench.unsent(2);
    bench.at(29);
    bench.check(1, peek("q", 9), &["1:c d b"]);
    bench.at(30);
    bench.check(1, peek("q", 9), &["1:b"]);
    bench.at(69);
    bench.check(1, peek("q", 9), &["1:b"]);
    bench.at(70);
    bench.check(1, peek("q", 9), &["1:"]);
    assert_eq!(bench.stats("q").totals.expired, 3);
}

#[test]
fn nobody_gets_a_job_whose_time_is_over_even_before_the_sweep() {
    let mut bench = Bench::new();
    let mut add = job("q", "a", 0);
    add.ttl_ms = Some(20);
    bench.add(add);
    bench.at_ms = 20;
    bench.check(1, pop(Q, Wait::No), &["1:nil"]);
    assert_eq!(bench.stats("q").totals.expired, 1);
}
