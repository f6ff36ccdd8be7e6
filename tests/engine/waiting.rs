//! Who waits gets it, in order.

use delayd::engine::model::request::{Request, State, Wait};
use delayd::ids::Db;

use crate::bench::*;

#[test]
fn waiters_are_served_first_come_first_served_whatever_they_ask() {
    let mut bench = Bench::new();
    bench.ask(1, Request::Reserve(reserve(Q, Wait::Forever, 1)));
    bench.ask(2, pop(Q, Wait::Forever));
    bench.ask(3, Request::Reserve(reserve(Q, Wait::Forever, 10)));
    // A pipeline of one client: each command is a step of its own.
    bench.check(9, Request::Add(job("q", "a", 0)), &["9:a", "1:a#1"]);
    bench.check(9, Request::Add(job("q", "b", 0)), &["9:b", "2:b"]);
    bench.check(9, Request::Add(job("q", "c", 0)), &["9:c", "3:c#1"]);
    // Who comes back stands at the end.
    bench.ask(2, pop(Q, Wait::Forever));
    bench.ask(1, pop(Q, Wait::Forever));
    bench.check(9, Request::Add(job("q", "d", 0)), &["9:d", "2:d"]);
}

#[test]
fn a_transaction_hands_over_at_its_end_by_priority_and_takes_first_itself() {
    let mut bench = Bench::new();
    bench.ask(1, Request::Reserve(reserve(Q, Wait::Forever, 2)));
    bench.ask(2, pop(Q, Wait::Forever));
    for (id, priority) in [("a", 5), ("b", 9), ("c", 0), ("d", 5)] {
        let mut add = job("q", id, 0);
        add.priority = Some(priority);
        bench.ask_in_transaction(9, Request::Add(add));
    }
    bench.ask_in_transaction(9, pop(Q, Wait::Forever));
    bench.ask_in_transaction(9, pop(&[b"empty"], Wait::Forever));
    bench.expect_events(&["9:a", "9:b", "9:c", "9:d", "9:c", "9:nil"]);
    bench.hand_off();
    bench.expect_events(&["1:a#1 d#1", "2:b"]);
}

#[test]
fn several_queues_are_looked_at_in_order_and_one_named_twice_is_one() {
    let mut bench = Bench::new();
    bench.add(job("b", "b1", 0));
    bench.add(job("a", "a1", 0));
    bench.check(1, pop(&[b"a", b"b"], Wait::No), &["1:a1"]);
    bench.ask(1, pop(&[b"q", b"b", b"q"], Wait::No));
    bench.expect_events(&["1:b1"]);
    bench.ask(1, pop(&[b"q", b"r", b"q"], Wait::Forever));
    assert_eq!(bench.stats("q").waiters, 1);
    bench.check(9, Request::Add(job("q", "x", 0)), &["9:x", "1:x"]);
    bench.check(9, Request::Add(job("r", "y", 0)), &["9:y"]);
    assert_eq!(bench.engine.waiter_count(), 0);
}

#[test]
fn a_deadline_comes_after_the_jobs_of_its_millisecond() {
    let mut bench = Bench::new();
    bench.ask(1, pop(Q, Wait::For(50)));
    bench.ask(2, pop(Q, Wait::For(50)));
    bench.ask(3, pop(Q, Wait::For(51)));
    bench.add(job("q", "a", 50));
    bench.at(49);
    bench.expect_events(&[]);
    bench.at(50);
    bench.expect_events(&["1:a", "2:nil"]);
    bench.at(51);
    bench.expect_events(&["3:nil"]);
}

#[test]
fn a_job_deleted_while_it_falls_due_reaches_nobody_and_the_deadline_stays() {
    let mut bench = Bench::new();
    bench.ask(1, pop(Q, Wait::For(100)));
    bench.add(job("q", "a", 50));
    bench.at_ms = 49;
    bench.check(9, delete("q", &[b"a"]), &["9:1"]);
    bench.at(99);
    bench.expect_events(&[]);
    bench.at(100);
    bench.expect_events(&["1:nil"]);
    // Due and swept by the very request that deletes: the waiter was first.
    bench.ask(1, pop(Q, Wait::Forever));
    bench.add(job("q", "b", 50));
    bench.at_ms = 150;
    bench.check(9, delete("q", &[b"b"]), &["1:b", "9:0"]);
}

#[test]
fn waiters_survive_the_removal_of_their_queue() {
    let mut bench = Bench::new();
    bench.add(job("q", "late", 1_000));
    bench.ask(1, pop(Q, Wait::Forever));
    bench.check(9, remove(Q), &["9:1"]);
    bench.check(9, Request::Add(job("q", "a", 0)), &["9:a", "1:a"]);
    bench.ask(1, pop(Q, Wait::Forever));
    bench.check(9, Request::Flush { db: None }, &["9:ok"]);
    bench.add(job("q", "b", 10));
    bench.at(10);
    bench.expect_events(&["1:b"]);
}

#[test]
fn a_lease_that_never_left_goes_to_the_next_waiter_uncounted() {
    let mut bench = Bench::new();
    bench.add(job("q", "a", 0));
    bench.add(job("q", "b", 0));
    bench.check(1, Request::Reserve(reserve(Q, Wait::No, 1)), &["1:a#1"]);
    bench.unsent(1);
    bench.check(2, Request::Reserve(reserve(Q, Wait::No, 2)), &["2:a#1 b#1"]);
    bench.ask(3, Request::Reserve(reserve(Q, Wait::Forever, 2)));
    bench.unsent(2);
    bench.expect_events(&["3:a#1 b#1"]);
    bench.sent(3);
    bench.unsent(3);
    bench.check(4, len("q", State::Leased), &["4:2"]);
    assert_eq!(bench.stats("q").totals.delivered, 2);
}

/// Two replies of a pipeline stood behind each other, and the peer went away between them: what the
/// first handed over is gone with it, what the second did comes back.
#[test]
fn of_a_pipeline_only_what_began_to_leave_is_gone() {
    let mut bench = Bench::new();
    for id in ["a", "b", "c", "d"] {
        bench.add(job("q", id, 0));
    }
    bench.check(1, pop(Q, Wait::No), &["1:a"]);
    bench.check(1, pop(Q, Wait::No), &["1:b"]);
    bench.check(1, Request::Reserve(reserve(Q, Wait::No, 1)), &["1:c#1"]);
    bench.sent_first(1, 1);
    bench.unsent(1);
    bench.check(2, peek("q", 9), &["2:b c d"]);
    assert_eq!(bench.stats("q").totals.delivered, 1);
}

#[test]
fn a_pop_that_never_left_goes_back_to_its_old_place() {
    let mut bench = Bench::new();
    for id in ["a", "b", "c"] {
        let mut add = job("q", id, 0);
        add.unique_ms = 1_000;
        bench.add(add);
    }
    bench.check(1, pop(Q, Wait::No), &["1:a"]);
    bench.unsent(1);
    bench.check(2, peek("q", 9), &["2:a b c"]);
    bench.check(2, pop(Q, Wait::No), &["2:a"]);
    // Its id was used again, or the queue is another: then the pop stands.
    let mut again = job("q", "a", 0);
    again.taken = delayd::engine::model::request::Taken::Replace;
    bench.add(again);
    bench.unsent(2);
    bench.check(3, peek("q", 9), &["3:b c a"]);
    bench.check(3, pop(Q, Wait::No), &["3:b"]);
    bench.ask(9, remove(Q));
    bench.add(job("q", "new", 0));
    bench.expect_events(&["9:1"]);
    bench.unsent(3);
    bench.check(4, peek("q", 9), &["4:new"]);
}

#[test]
fn a_bound_lease_ends_with_its_connection_and_counts() {
    let mut bench = Bench::new();
    let mut add = job("q", "a", 0);
    add.attempts = Some(2);
    bench.add(add);
    let mut bound = reserve(Q, Wait::No, 1);
    bound.bound = true;
    bench.check(1, Request::Reserve(bound), &["1:a#1"]);
    bench.sent(1);
    bench.ask(2, Request::Reserve(bound));
    bench.expect_events(&["2:nil"]);
    bound.wait = Wait::Forever;
    bench.ask(2, Request::Reserve(bound));
    bench.closed(1);
    bench.expect_events(&["2:a#2"]);
    bench.sent(2);
    bench.closed(2);
    bench.check(3, get("q", "a"), &["3:dead due 0 attempt 2 lost"]);
    // The token of a lease that was lost still serves for ACK.
    let token = bench.token("a");
    bench.ack(3, "a", token);
    bench.expect_events(&["3:1"]);
    assert_eq!(bench.stats("q").totals.lost, 2);
}

#[test]
fn one_database_knows_nothing_of_another() {
    let mut bench = Bench::new();
    bench.ask(1, Request::Pop { db: Db(1), queues: Q, wait: Wait::Forever });
    bench.check(9, Request::Add(job("q", "a", 0)), &["9:a"]);
    assert_eq!(bench.engine.queue_counts()[..2], [1, 0]);
}
