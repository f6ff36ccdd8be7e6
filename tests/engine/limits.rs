//! Memory, dead letters, retention.

use delayd::engine::model::policy::Policy;
use delayd::engine::model::request::{Add, JobState, Nack, Request, Reserve, Side, Wait};
use delayd::ids::Token;

use crate::engine::bench::*;

#[test]
fn beyond_the_memory_limit_add_is_refused_and_nothing_else() {
    let mut bench = Bench::with(|settings| settings.memory_bytes_max = 50_000);
    let mut added = 0;
    loop {
        let mut add = job("q", "", 0);
        (add.id, add.body) = (None, &[b'x'; 1_000]);
        bench.ask(1, Request::Add(add));
        if bench.take_events() == ["1:OOM"] {
            break;
        }
        added += 1;
    }
    assert!(added > 30 && bench.engine.memory_bytes() <= 50_000);
    bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 20)));
    let (queue, tokens) = (queue("q"), bench.tokens.clone());
    let jobs = tokens.iter().map(|(id, token)| (id.as_bytes(), *token)).collect();
    bench.ask(1, Request::Ack { queue, jobs });
    bench.ask(1, Request::Stats { queue });
    bench.ask(1, Request::Add(job("q", "fits", 0)));
    let said = bench.take_events();
    assert_eq!(said[1..], ["1:20", "1:stats", "1:fits"]);
}

/// A ladder of 64 steps is larger than most jobs, and each job may have its own.
#[test]
fn a_ladder_is_counted_with_all_its_steps() {
    let mut bench = Bench::new();
    let count = 3_000;
    for number in 0..count {
        let steps = (0..64).map(|step| number * 64 + step + 1).collect();
        let mut add = job("q", "", 3_600_000);
        (add.id, add.backoff) = (None, Some(ladder(steps)));
        bench.add(add);
    }
    let (used, held) = (bench.engine.memory_bytes(), bench.engine.held_bytes());
    assert!(used > count * (64 * 8 + size_of::<Policy>() as u64 + 80), "{used}");
    assert!(held < count * 1_000, "{held}: a ladder is there once");
    // Most are forgotten with their jobs, and what they leave behind is not much.
    bench.ask(1, remove(Q));
    while bench.advance(1_000) {}
    for number in 0..count {
        let steps = (0..2).map(|step| number * 2 + step + 1).collect();
        let mut add = job("q", "", 3_600_000);
        (add.id, add.backoff) = (Some(&b"a"[..]), Some(ladder(steps)));
        bench.add(add);
        bench.ask(1, delete("q", &[b"a"]));
    }
    let used = bench.engine.memory_bytes();
    assert!(used < 1_200 * 220 && used > 1_000 * 100, "{used} for 1,024 unused ones");
}

/// Jobs of 0 bytes are less than half of what they are once they have been delivered. Taking is never
/// refused, so adding stops early enough; for larger jobs that makes no difference.
#[test]
fn what_all_leases_take_has_room_beside_the_jobs() {
    for (body_bytes, max) in [(0, 200_000), (40, 300_000), (5_000, 2_000_000)] {
        let mut bench = Bench::with(|settings| settings.memory_bytes_max = max);
        let body = vec![b'x'; body_bytes];
        let mut added = 0;
        loop {
            bench.ask(1, Request::Add(Add { id: None, body: &body, ..job("q", "", 0) }));
            if bench.take_events() == ["1:OOM"] {
                break;
            }
            added += 1;
        }
        let (filled, to_come) = (bench.engine.memory_bytes(), bench.engine.lease_bytes_to_come());
        assert!(filled + to_come > max * 17 / 16 - 200 || filled > max - 6_000, "{body_bytes}");
        assert!(body_bytes < 5_000 || filled > max - 6_000, "a 16th is enough for their leases");
        let mut taken = 0;
        while taken < added {
            bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 10_000)));
            bench.sent(1);
            taken += bench.take_events()[0].split(' ').count();
        }
        let used = bench.engine.memory_bytes();
        assert_eq!(bench.engine.lease_bytes_to_come(), 0);
        assert!(used <= max * 17 / 16, "{used} of {max} with jobs of {body_bytes}");
        assert_eq!(used, filled + to_come);
    }
}

fn failed<'a>(id: &'a [u8], token: Token, text: &'a [u8]) -> Nack<'a> {
    let (bury, uncounted) = (false, false);
    let (when, priority, error) = (None, None, Some(text));
    Nack { queue: queue("q"), id, token, when, bury, uncounted, priority, error }
}

/// A job goes back with whatever it is given back with, but at the limit nothing larger is kept of it:
/// a thousand consumers that fail alike would fill the machine.
#[test]
fn at_the_memory_limit_a_job_goes_back_without_its_error() {
    const TEXT: &[u8] = &[b'e'; 1_024];
    let mut bench = Bench::with(|settings| settings.memory_bytes_max = 100_000);
    let mut added = 0;
    loop {
        let mut add = job("q", "", 0);
        (add.id, add.body) = (None, b"");
        bench.ask(1, Request::Add(add));
        if bench.take_events() == ["1:OOM"] {
            break;
        }
        added += 1;
    }
    bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 10_000)));
    bench.sent(1);
    bench.take_events();
    let leased = bench.engine.memory_bytes();
    let tokens = bench.tokens.clone();
    for (id, token) in &tokens {
        let id = id.as_bytes();
        let bury = token.0 % 2 == 0;
        bench.ask(1, Request::Nack(Nack { bury, ..failed(id, *token, TEXT) }));
    }
    assert_eq!(bench.take_events(), vec!["1:1"; added]);
    // That jobs were buried without a text is counted.
    let counted = 512;
    assert!(bench.engine.memory_bytes() <= leased + counted, "{}", bench.engine.memory_bytes());
    // Once there is room again, texts are kept again; a shorter one always finds room.
    bench.engine.settings_mut().memory_bytes_max = 1_000_000;
    bench.at(2_000);
    bench.tokens.clear();
    bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 1)));
    bench.sent(1);
    bench.take_events();
    for (text, max) in [(TEXT, 1_000_000), (b"short", 1)] {
        bench.engine.settings_mut().memory_bytes_max = max;
        let (id, token) = bench.tokens[0].clone();
        let nack = Nack { uncounted: true, ..failed(id.as_bytes(), token, text) };
        bench.ask(1, Request::Nack(nack));
        bench.ask(1, Request::Get { queue: queue("q"), id: id.as_bytes() });
        let said = bench.take_events().remove(1);
        let newest = said.split('\'').nth(1);
        assert_eq!(newest, Some(&*String::from_utf8_lossy(text)), "{said}");
        bench.tokens.clear();
        bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 1)));
        bench.sent(1);
        bench.take_events();
    }
}

#[test]
fn while_too_much_is_resident_nothing_is_added_and_everything_else_goes_on() {
    let mut bench = Bench::with(|settings| settings.memory_bytes_max = 50_000);
    bench.add(job("q", "first", 0));
    bench.take_events();
    bench.engine.settings_mut().memory_bytes_over = 1;
    bench.ask(1, Request::Add(job("q", "second", 0)));
    bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 1)));
    bench.engine.settings_mut().memory_bytes_over = 0;
    bench.ask(1, Request::Add(job("q", "third", 0)));
    let expect_events = bench.take_events();
    assert_eq!(
        (expect_events[0].as_str(), expect_events.last().map(String::as_str)),
        ("1:OOM", Some("1:third"))
    );
    assert!(
        expect_events.iter().any(|expect_events| expect_events == "1:first#1"),
        "reserved: {expect_events:?}"
    );
    // Without a limit nothing is too much.
    (bench.engine.settings_mut().memory_bytes_max, bench.engine.settings_mut().memory_bytes_over) =
        (0, 1);
    bench.ask(1, Request::Add(job("q", "fourth", 0)));
    assert_eq!(bench.take_events(), ["1:fourth"]);
}

#[test]
fn all_memory_comes_back_in_slices() {
    let mut bench = Bench::new();
    for number in 0..3_000u64 {
        let mut add = job("q", "", number % 2);
        (add.id, add.ttl_ms) = (None, Some(5_000));
        bench.add(add);
    }
    bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 500)));
    bench.take_events();
    bench.check(1, remove(Q), &["1:1"]);
    assert_eq!(bench.engine.job_counts(), [0; 4]);
    let mut slices = 0;
    loop {
        let before = bench.engine.memory_bytes();
        let more = bench.advance(100);
        assert!(before - bench.engine.memory_bytes() <= 100 * 500, "one slice frees it all");
        slices += 1;
        if !more {
            break;
        }
    }
    assert!(slices >= 30, "{slices} slices of 100 for 3,000 jobs");
    // The slot of the policy, and its ladder of one step.
    let policy_bytes = bench.engine.memory_bytes();
    assert!((size_of::<Policy>() as u64..200).contains(&policy_bytes), "{policy_bytes}");
}

#[test]
fn beyond_the_greatest_number_of_dead_jobs_the_oldest_are_dropped() {
    let mut bench = Bench::new();
    for _ in 0..100_003 {
        let mut add = job("q", "", 0);
        (add.id, add.attempts) = (None, Some(1));
        bench.add(add);
    }
    for _ in 0..11 {
        bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 10_000)));
        bench.sent(1);
    }
    bench.take_events();
    bench.at(100);
    bench.check(1, len("q", JobState::Dead), &["1:100000"]);
    let totals = bench.stats("q").totals;
    assert_eq!((totals.died, totals.dropped), (100_003, 3));
    let oldest = bench.tokens[3].0.clone();
    let dead =
        Request::Peek { queue: queue("q"), state: Some(JobState::Dead), count: 1, newest: false };
    bench.check(1, dead, &[&format!("1:{oldest}")]);
    // The others go when their retention is over.
    bench.at(100 + 30 * 86_400_000 - 1);
    bench.check(1, len("q", JobState::Dead), &["1:100000"]);
    bench.at(100 + 30 * 86_400_000);
    bench.check(1, len("q", JobState::Dead), &["1:0"]);
}

/// Of jobs of 1.5 MiB the third one crosses 4 MiB: it is the last of its reply, and a reply is never
/// empty for lack of room.
#[test]
fn the_body_that_crosses_four_mebibytes_is_the_last() {
    let body = vec![b'x'; 3 << 19];
    let fill = |bench: &mut Bench| {
        for _ in 0..5 {
            bench.add(Add { id: None, body: &body, ..job("q", "", 0) });
        }
    };
    let asked: [fn() -> Request<'static>; 4] = [
        || Request::Reserve(reserve(Q, Wait::No, 10)),
        || Request::Reserve(Reserve { no_ack: true, ..reserve(Q, Wait::No, 10) }),
        || list_pop(Q, Side::Left, 10, Wait::No),
        || peek("q", 10),
    ];
    for ask in asked {
        let mut bench = Bench::new();
        fill(&mut bench);
        bench.ask(1, ask());
        let said = bench.take_events().concat();
        assert_eq!(said.split(' ').count(), 3, "{:.80}", said);
        bench.ask(1, ask());
        let rest = if matches!(ask(), Request::Peek { .. }) { 3 } else { 2 };
        assert_eq!(bench.take_events().concat().split(' ').count(), rest);
    }
    // A waiter's reply ends the same way.
    let mut bench = Bench::new();
    bench.ask(1, Request::Reserve(reserve(Q, Wait::Forever, 10)));
    let bodies = vec![&body[..]; 5];
    bench.ask(2, push("q", Side::Right, &bodies));
    assert_eq!(bench.take_events()[1].split(' ').count(), 3);
    let whole = vec![b'x'; 5 << 20];
    let mut bench = Bench::new();
    for id in ["a", "b"] {
        bench.add(Add { body: &whole, ..job("q", id, 0) });
    }
    bench.check(1, Request::Reserve(reserve(Q, Wait::No, 10)), &["1:a#1"]);
}
