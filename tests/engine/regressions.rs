//! What was wrong once, each with its story.

use delayd::engine::Outcome;
use delayd::engine::model::request::{JobState, Request, Side, Taken, Wait};
use delayd::ids::Db;

use crate::engine::bench::*;

/// A lease ended with a backoff of 0: `advance` said that all was done while the job was due in this
/// very millisecond, and its waiter got it a wake-up later.
#[test]
fn a_backoff_of_zero_is_due_in_the_same_sweep() {
    let mut bench = Bench::new();
    let mut add = job("q", "a", 0);
    add.backoff = Some(ladder([0].into()));
    bench.add(add);
    for number in 1..=2 {
        bench.check(1, Request::Reserve(reserve(Q, Wait::No, 1)), &[&format!("1:a#{number}")]);
        if number == 2 {
            bench.ask(2, pop(Q, Wait::Forever));
        }
        bench.at_ms += 100;
        assert!(!bench.advance(1_000));
    }
    bench.expect_events(&["2:a"]);
}

/// The same with the bound leases of a connection that is gone, which were ended after the sweep.
#[test]
fn a_backoff_of_zero_after_a_lost_lease_is_due_in_the_same_sweep() {
    let mut bench = Bench::new();
    for _ in 0..200 {
        let mut add = job("q", "", 0);
        (add.id, add.backoff) = (None, Some(ladder([0].into())));
        bench.add(add);
    }
    let mut bound = reserve(Q, Wait::No, 200);
    bound.bound = true;
    for client in 1..=2 {
        bench.ask(client, Request::Reserve(bound));
        bench.sent(client);
        bench.closed(client);
        assert!(!bench.advance(100_000));
    }
    bench.take_events();
    bench.check(3, len("q", JobState::Ready), &["3:200"]);
    bench.check(3, len("q", JobState::Delayed), &["3:0"]);
}

/// 300 jobs past their TTL stood before a live one. RESERVE removed 256 of them, then began to wait
/// beside a ready job; removing the others woke nobody.
#[test]
fn expired_jobs_do_not_hide_a_live_one() {
    for (herd, waits_first) in [(256, false), (300, false), (1_000, false), (1_000, true)] {
        let mut bench = Bench::new();
        for _ in 0..herd {
            let mut add = job("q", "", 0);
            (add.id, add.ttl_ms) = (None, Some(10));
            bench.add(add);
        }
        bench.add(job("q", "live", 0));
        bench.at_ms = 10;
        if waits_first {
            // Another queue's waiter is not disturbed by the work.
            bench.ask(2, pop(&[b"other"], Wait::For(5)));
        }
        let wait = if herd == 300 { Wait::No } else { Wait::Forever };
        while bench.ask(1, Request::Reserve(reserve(Q, wait, 1))) == Outcome::Again {
            bench.advance(1);
        }
        bench.at(20);
        let expected: &[&str] = if waits_first { &["1:live#1", "2:nil"] } else { &["1:live#1"] };
        bench.expect_events(expected);
    }
}

/// The same for who waits already: a transaction makes a live job ready behind a herd whose TTL has
/// passed, and one hand-off removes no more than 256 of them.
#[test]
fn expired_jobs_do_not_starve_a_waiter() {
    for herd in [255, 256, 257, 512, 2_000] {
        let mut bench = Bench::new();
        bench.ask(1, pop(Q, Wait::Forever));
        for _ in 0..herd {
            let mut add = job("q", "", 0);
            (add.id, add.ttl_ms, add.priority) = (None, Some(10), Some(0));
            bench.ask_in_transaction(9, Request::Add(add));
        }
        bench.ask_in_transaction(9, Request::Add(job("q", "live", 0)));
        bench.take_events();
        bench.at_ms = 10;
        bench.hand_off();
        while bench.advance(50) {}
        bench.expect_events(&["1:live"]);
    }
}

/// A worker that lives for long acknowledged its bound leases, and all of them were looked at, and
/// kept, until it closed.
#[test]
fn bound_leases_that_ended_are_let_go() {
    let mut bench = Bench::new();
    let mut bound = reserve(Q, Wait::No, 1);
    bound.bound = true;
    for _ in 0..10_000 {
        bench.add(job("q", "a", 0));
        bench.ask(1, Request::Reserve(bound));
        bench.sent(1);
        let token = bench.token("a");
        bench.ack(1, "a", token);
    }
    bench.take_events();
    bench.closed(1);
    let mut slices = 0;
    while bench.advance(1) {
        slices += 1;
        assert!(slices < 10, "leases that ended long ago are looked at when closing");
    }
}

/// A lease was acknowledged, and a herd left with the block of the slab that its job was in; then
/// the connection's close looked at the job and the process stopped.
#[test]
fn a_bound_lease_outlives_the_memory_of_its_job() {
    let mut bench = Bench::new();
    let mut herd = job("q", "", 0);
    herd.id = None;
    (0..10_000).for_each(|_| bench.add(herd.clone()));
    bench.add(job("last", "a", 0));
    (0..10_000).for_each(|_| bench.add(herd.clone()));
    let mut bound = reserve(&[b"last"], Wait::No, 1);
    bound.bound = true;
    bench.ask(1, Request::Reserve(bound));
    bench.ask(9, Request::Flush { db: None });
    bench.at(1);
    // The queue's number is used again, so that it does not tell.
    bench.add(job("last", "b", 0));
    bench.take_events();
    bench.unsent(1);
    bench.expect_events(&[]);
}

/// A transaction that added thousands of far jobs and then asked for STATS got `Again` in its
/// middle, though everything had been prepared before it began.
#[test]
fn a_transaction_looks_at_what_it_has_just_added() {
    let mut bench = Bench::new();
    for number in 0..9_000 {
        let mut add = job("q", "", 40_000_000 + number);
        add.id = None;
        bench.ask_in_transaction(1, Request::Add(add));
    }
    bench.take_events();
    let stats = Request::Stats { queue: queue("q") };
    assert_eq!(bench.ask_in_transaction(1, stats), Outcome::Replied);
    assert_eq!(bench.ask_in_transaction(1, peek("q", 1)), Outcome::Replied);
    bench.hand_off();
}

/// A queue that had a waiter when its retention was over was never looked at again.
#[test]
fn a_queue_whose_waiter_left_is_forgotten() {
    let mut bench = Bench::with(|settings| settings.stats_retention_ms = 1_000);
    bench.add(job("q", "a", 0));
    bench.check(1, pop(Q, Wait::No), &["1:a"]);
    bench.sent(1);
    bench.ask(2, pop(Q, Wait::For(1_500)));
    bench.at(1_200);
    assert_eq!(bench.stats("q").totals.delivered, 1);
    bench.at(1_500);
    bench.expect_events(&["2:nil"]);
    bench.at(4_000);
    bench.check(1, Request::Stats { queue: queue("q") }, &["1:nil"]);
}

/// EXISTS counted name by name: a job fell due in the second queue, and who waited for it moved it to the
/// first, which had been counted as not there. The mover was told before.
#[test]
fn exists_counts_all_queues_at_one_instant() {
    let mut bench = Bench::new();
    bench.ask(9, rotate("from", "to", (Side::Left, Side::Left), Wait::Forever));
    bench.add(job("from", "a", 10));
    bench.add(job("from", "b", 1_000));
    bench.at_ms = 10;
    let queues: &[&[u8]] = &[b"to", b"from", b"to", b"nothing"];
    bench.check(1, Request::Exists { db: Db(0), queues }, &["9:body", "1:3"]);
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

/// NACK ERROR's text and the count of leases that ran out in a row were left out of the fact that
/// puts a popped job back.
#[test]
fn a_popped_job_that_goes_back_keeps_its_history() {
    let mut bench = Bench::new();
    bench.add(job("q", "a", 0));
    bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 1)));
    bench.nack(1, "a", |nack| (nack.uncounted, nack.error) = (true, Some(&b"no"[..])));
    bench.sent(1);
    bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 1)));
    bench.sent(1);
    bench.at(100);
    bench.take_events();
    bench.check(2, pop(Q, Wait::No), &["2:a"]);
    bench.unsent(2);
    bench.check(1, get("q", "a"), &["1:ready due 0 attempt 1 'no'"]);
    bench.check(1, Request::Reserve(reserve(Q, Wait::No, 1)), &["1:a#2"]);
    bench.at(200);
    bench.check(1, get("q", "a"), &["1:delayed due 1200 attempt 2 'no'"]);
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
    again.taken = Taken::Replace;
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

/// A queue that was used again was noted anew behind others that were used later, and forgotten as late as those.
#[test]
fn the_longest_unused_queue_is_forgotten_first() {
    let mut bench = Bench::with(|settings| settings.stats_retention_ms = 60_000);
    let use_queue = |bench: &mut Bench, name: &'static str, at| {
        bench.at(at);
        bench.add(job(name, "x", 0));
        bench.ask(1, delete(name, &[b"x"]));
        bench.take_events();
    };
    use_queue(&mut bench, "q", 0);
    use_queue(&mut bench, "q", 30_000);
    use_queue(&mut bench, "later", 59_000);
    bench.at(60_000);
    let wakeup = bench.engine.next_wakeup();
    assert_eq!(wakeup.map(|at| at.0 - BEGIN_MS), Some(90_000));
    bench.at(89_999);
    assert_eq!(bench.engine.named_count(), 2);
    bench.at(90_000);
    assert_eq!(bench.engine.named_count(), 1);
    bench.at(119_000);
    assert_eq!(bench.engine.named_count(), 0);
}

/// A client waited in BLMOVE from the queue that is renamed, and its job fell due in the very millisecond: what it moved made
/// the queue of the new name, which RENAME had looked for before. Two queues had one name then, and the jobs of one were
/// out of reach.
#[test]
fn a_queue_is_renamed_over_one_that_a_waiter_makes_in_the_same_instant() {
    let mut bench = Bench::new();
    bench.add(job("q", "first", 100));
    bench.add(job("q", "second", 500));
    bench.ask(1, rotate("q", "r", (Side::Left, Side::Right), Wait::Forever));
    bench.at_ms = 100;
    bench.ask(2, rename("q", "r"));
    bench.expect_events(&["1:body", "2:ok"]);
    assert_eq!(bench.engine.named_count(), 1, "one queue of that name");
    bench.check(2, get("r", "second"), &["2:delayed due 500 attempt 0"]);
    bench.check(2, len("r", JobState::Ready), &["2:0"]);
    bench.replayed();
    bench.check(2, remove(&[b"r"]), &["2:1"]);
    bench.check(2, remove(&[b"r"]), &["2:0"]);
}
