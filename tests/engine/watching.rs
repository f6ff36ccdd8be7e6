//! What whoever watches the server sees of all queues together.

use delayd::engine::model::request::{Request, Wait};
use delayd::engine::observe::survey::{Oldest, QueueWalk};

use crate::engine::bench::*;

fn reserve_one(bench: &mut Bench) {
    bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 1)));
    bench.sent(1);
}

#[test]
fn what_happened_stays_counted_when_its_queue_is_gone() {
    let mut bench = Bench::new();
    for id in ["a", "b", "c", "d"] {
        bench.add(job("q", id, 10));
    }
    bench.at(10);
    for _ in 0..3 {
        reserve_one(&mut bench);
    }
    let (a, b) = (bench.token("a"), bench.token("b"));
    bench.at(30);
    bench.ack(1, "a", a);
    bench.ack(1, "a", a);
    bench.nack(1, "b", |nack| nack.bury = true);
    bench.ack(1, "b", b);
    bench.at(110);
    bench.ask(1, remove(Q));
    let tally = bench.engine.tally();
    let (seen, ended) = (
        (tally.totals.added, tally.due, tally.totals.delivered),
        (tally.totals.acked, tally.totals.nacked),
    );
    // c's lease ran out; b is dead, c and d are ready when the queue goes.
    assert_eq!((seen, ended), ((4, 4, 3), (1, 1)));
    assert_eq!(
        (tally.totals.died, tally.totals.timeouts, tally.removed, tally.totals.deleted),
        (1, 1, 3, 0)
    );
    assert_eq!((tally.until_ack.count(), tally.until_ack.sum_us()), (1, 20_000));
}

#[test]
fn a_hand_off_that_went_back_is_counted_beside_the_others() {
    let mut bench = Bench::new();
    bench.add(job("q", "a", 0));
    bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 1)));
    bench.unsent(1);
    bench.ask(2, pop(Q, Wait::No));
    let tally = bench.engine.tally();
    assert_eq!((tally.totals.delivered, tally.returned), (2, 1));
    // A counter that is read twice must not have gone down in between.
    let now = bench.now();
    let mut handed = None;
    bench.engine.walk(QueueWalk::default(), 9, now, |queue| {
        handed = Some((queue.stats.totals.delivered, queue.returned));
    });
    assert_eq!(handed, Some((1, 1)));
}

#[test]
fn the_oldest_lease_is_known_to_the_second() {
    let mut bench = Bench::new();
    let second = |ms: u64| Oldest::Since((BEGIN_MS + ms) / 1_000);
    for id in ["a", "b"] {
        bench.add(job("q", id, 0));
    }
    assert_eq!(bench.engine.oldest_lease(), Oldest::None);
    for at in [2_500, 5_000] {
        bench.at(at);
        let mut reserve = reserve(Q, Wait::No, 1);
        reserve.lease_ms = Some(60_000);
        bench.ask(1, Request::Reserve(reserve));
        bench.sent(1);
    }
    assert_eq!(bench.engine.oldest_lease(), second(2_500));
    let token = bench.token("a");
    bench.ack(1, "a", token);
    assert_eq!(bench.engine.oldest_lease(), second(5_000));
    // The queue goes, its jobs a little later, and with them their leases.
    bench.ask(1, remove(Q));
    bench.at(5_001);
    assert_eq!(bench.engine.oldest_lease(), Oldest::None);
}

#[test]
fn the_oldest_ready_job_of_all_queues_is_found_slice_by_slice() {
    let mut bench = Bench::new();
    for (queue, due) in [("a", 40), ("b", 20), ("c", 30), ("d", 900)] {
        bench.add(job(queue, "x", due));
    }
    bench.at(50);
    let (mut walk, mut oldest, mut slices) = (Some(QueueWalk::default()), None, 0);
    while let Some(from) = walk {
        let (due, next) = bench.engine.oldest_ready(from, 2);
        oldest = oldest.into_iter().chain(due).min();
        (walk, slices) = (next, slices + 1);
    }
    assert_eq!((oldest.map(|due| due.0 - BEGIN_MS), slices), (Some(20), 3));
    let (now, mut seen) = (bench.now(), Vec::new());
    let next = bench.engine.walk(QueueWalk::default(), 3, now, |queue| {
        let due = queue.stats.next_due.map(|due| due.0 - BEGIN_MS);
        seen.push((queue.name.to_vec(), queue.stats.oldest_ready_age_ms, due));
    });
    assert_eq!(seen[1], (b"b".to_vec(), Some(30), None));
    let end = bench.engine.walk(next.unwrap(), 9, now, |queue| {
        assert_eq!((queue.name, queue.stats.next_due.unwrap().0), (&b"d"[..], BEGIN_MS + 900));
    });
    assert_eq!((seen.len(), end), (3, None));
}
