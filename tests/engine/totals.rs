//! Totals of queues without jobs: they never keep a job out.

use delayd::engine::Outcome;
use delayd::engine::model::request::{Add, QueueName, Request, Wait, When};
use delayd::ids::Db;

use crate::engine::bench::*;

const MAX: u64 = 8 << 20;

fn name(number: u64) -> &'static [u8] {
    Box::leak(format!("once:{number}").into_bytes().into_boxed_slice())
}

/// One job through a queue that is used this once.
fn use_once(bench: &mut Bench, number: u64) {
    bench.at_ms += 1;
    let queue = QueueName { db: Db(0), name: name(number) };
    bench.ask(1, Request::Add(Add::new(queue, When::In(0), b"body")));
    let queues = Box::leak(Box::new([queue.name]));
    bench.ask(1, Request::Pop { db: Db(0), queues, wait: Wait::No });
    bench.sent(1);
    while bench.advance(2_048) {}
    let said = bench.take_events();
    assert!(said.len() == 2 && said.iter().all(|line| !line.contains("OOM")), "{said:?}");
}

fn has_totals(bench: &mut Bench, number: u64) -> bool {
    let queue = QueueName { db: Db(0), name: name(number) };
    while bench.ask(1, Request::Stats { queue }) == Outcome::Again {}
    bench.take_events() == ["1:stats"]
}

/// Fills with jobs until one is refused; how many bytes the jobs have then.
fn fill(bench: &mut Bench, body: &[u8]) -> u64 {
    let before = bench.engine.job_counts()[0];
    loop {
        let add = Add { id: None, body, ..job("work", "", 3_600_000) };
        bench.ask(1, Request::Add(add));
        let said = bench.take_events();
        if said == ["1:OOM"] {
            return (bench.engine.job_counts()[0] - before) * body.len() as u64;
        }
        // A turn.
        bench.advance(2_048);
    }
}

/// 20,000 queues were used once each. Their totals kept a fifth of the jobs out, until `stats-retention` was over.
#[test]
fn totals_go_before_a_job_is_refused() {
    let mut bench = Bench::with(|settings| settings.memory_bytes_max = MAX);
    let names = 20_000;
    for number in 0..names {
        use_once(&mut bench, number);
    }
    let (kept, bytes) = (bench.engine.named_count() as u64, bench.engine.giving_way_bytes());
    assert!(bytes <= MAX / 8 && bytes > MAX / 9, "{kept} of {names}, {bytes} bytes");
    assert!(
        has_totals(&mut bench, names - 1) && has_totals(&mut bench, names - kept),
        "the newest stay"
    );
    assert!(!has_totals(&mut bench, names - kept - 1), "the oldest go first");

    let jobs = fill(&mut bench, &[b'x'; 10_000]);
    assert!(jobs > MAX * 95 / 100, "jobs of {jobs} bytes fit");
    assert!(bench.engine.giving_way_bytes() < 12_000, "jobs need the room");
    assert!(bench.engine.memory_bytes() <= MAX, "what was forgotten is freed");
}

/// One that takes all there is in one go finds room, too; and a base file that is being written may still need what
/// was forgotten, so it is not freed before that is done.
#[test]
fn totals_keep_no_large_job_out() {
    for base_runs in [false, true] {
        let mut bench = Bench::with(|settings| settings.memory_bytes_max = MAX);
        (0..2_000).for_each(|number| use_once(&mut bench, number));
        assert!(bench.engine.giving_way_bytes() > MAX / 9);
        if base_runs {
            bench.engine.begin_base();
        }
        let small = vec![b'x'; 600 << 10];
        bench.add(Add { id: None, body: &small, ..job("work", "", 3_600_000) });
        let large = vec![b'x'; (7 << 20) - 4096];
        bench.ask(1, Request::Add(Add { id: None, body: &large, ..job("work", "", 3_600_000) }));
        let said = bench.take_events();
        assert!(!said[0].contains("OOM"), "{said:?}, a base runs: {base_runs}");
        assert_eq!(bench.engine.job_counts()[0], 2);
        while bench.advance(2_048) {}
        assert!(bench.engine.named_count() < 400, "a base runs: {base_runs}");
        assert!(base_runs || bench.engine.memory_bytes() <= MAX);
    }
}

/// What is promised is no totals: windows, settings, pauses, and queues that clients wait for.
#[test]
fn what_is_promised_stays() {
    let mut bench = Bench::with(|settings| settings.memory_bytes_max = MAX);
    let window = Add { unique_ms: 3_600_000, ..job("window", "a", 0) };
    bench.add(window);
    bench.check(1, pop(&[b"window"], Wait::No), &["1:a"]);
    bench.add(job("waited for", "a", 0));
    bench.check(1, pop(&[b"waited for"], Wait::No), &["1:a"]);
    bench.ask(2, pop(&[b"waited for"], Wait::Forever));
    bench.at(10);
    fill(&mut bench, &[b'x'; 10_000]);
    fill(&mut bench, &[b'x'; 100]);
    bench.check(1, Request::Add(job("window", "a", 0)), &["1:EXISTS"]);
    assert_eq!(bench.stats("window").totals.delivered, 1);
    assert_eq!(bench.stats("waited for").totals.delivered, 1);
    // They give nothing back, however often it is asked for, and nothing turns because of that.
    assert!((0..1_000).any(|_| !bench.advance(2_048)));
}

/// Backoffs that no job uses any more are kept for the next job that has them, and go where memory is short.
#[test]
fn unused_policies_go_before_a_job_is_refused() {
    let max = 600_000;
    let mut bench = Bench::with(|settings| settings.memory_bytes_max = max);
    for number in 0..1_000 {
        let steps = (0..64).map(|step| number * 64 + step + 1).collect();
        bench.add(Add { backoff: Some(ladder(steps)), ..job("q", "a", 3_600_000) });
        bench.ask(1, delete("q", &[b"a"]));
        while bench.advance(2_048) {}
    }
    bench.take_events();
    let jobs = fill(&mut bench, &[b'x'; 2_000]);
    assert!(jobs > max * 8 / 10, "jobs of {jobs} bytes fit");
}

/// A job that was popped and never reached its client goes back, so its queue is not forgotten before.
#[test]
fn a_queue_that_a_job_may_go_back_to_stays() {
    let mut bench = Bench::with(|settings| settings.memory_bytes_max = MAX);
    bench.add(job("popped", "a", 0));
    bench.check(5, pop(&[b"popped"], Wait::No), &["5:a"]);
    fill(&mut bench, &[b'x'; 10_000]);
    fill(&mut bench, &[b'x'; 100]);
    bench.at(10);
    bench.unsent(5);
    bench.check(1, pop(&[b"popped"], Wait::No), &["1:a"]);
    bench.sent(1);
    bench.at(20);
    bench.check(1, Request::Stats { queue: queue("popped") }, &["1:nil"]);
}
