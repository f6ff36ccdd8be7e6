//! DELAY.HISTORY: what happened minute by minute.

use std::collections::BTreeMap;

use delayd::engine::model::minutes::{ListMinutes, MINUTE_MS, Span};
use delayd::engine::model::request::{Request, Wait, When};
use delayd::engine::{Engine, Lead, Loader, Outcome, Settings};
use delayd::ids::Db;
use delayd::limits::{DAY_MINUTES, LEVEL_HISTORY};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::engine::bench::*;
use crate::engine::errors::say;
use crate::engine::groups::{asked, said};
use crate::support::seeds::for_each_seed;

const NAMES: [&str; 3] = ["a", "b", "c"];

fn bench(queues_max: u32) -> Bench {
    Bench::with(|settings| settings.history_queues_max = queues_max)
}

fn history(bench: &mut Bench, queue: Option<&'static str>, last: u32, step: u32) -> Vec<Span> {
    let queue = queue.map(str::as_bytes);
    let of = ListMinutes { db: Db(0), queue, readable: None, last, step };
    assert_eq!(asked(bench, Request::Minutes(of)), "minutes");
    bench.spans()
}

/// Added, delivered, acknowledged, failed, died, ready.
fn counts(span: &Span) -> [u64; 6] {
    [span.added, span.delivered, span.acked, span.failed, span.died, span.jobs[1]]
}

fn minute(bench: &Bench) -> u64 {
    bench.at_ms / MINUTE_MS
}

fn ack(bench: &mut Bench, queue_name: &'static str, id: u64) {
    let id: &'static str = format!("j{id}").leak();
    let jobs = vec![(id.as_bytes(), bench.token(id))];
    assert_eq!(asked(bench, Request::Ack { queue: queue(queue_name), jobs }), "1");
}

fn nack(bench: &mut Bench, queue_name: &'static str, id: u64, delay_ms: u64) {
    let (queue, id) = (queue(queue_name), &*format!("j{id}").leak());
    bench.nack(1, id, |nack| (nack.queue, nack.when) = (queue, Some(When::In(delay_ms))));
    assert_eq!(said(bench), "1");
}

fn add(bench: &mut Bench, queue: &'static str, delay_ms: u64, id: u64) {
    say(bench, &format!("DELAY.ADD {queue} {delay_ms}ms body ID j{id} ATTEMPTS 2"));
}

/// As taken from an engine: the digest's part of the state, and what comes after it in a base.
fn loaded(images: &[u8], settings: &Settings) -> Engine {
    let mut loader = Loader::new(settings.clone());
    loader.images(images).expect("own images");
    Engine::loaded(loader).expect("a whole base")
}

/// A base of now; whether it has minutes.
fn base(engine: &mut Engine) -> (Vec<u8>, bool) {
    let bytes = engine.base_bytes();
    engine.begin_base();
    while !engine.base_slice(1, 1) {}
    let images = std::mem::take(engine.base_output());
    assert_eq!(images.len() as u64, bytes, "the bytes of a base are known before");
    let without = loaded(&images, &Settings::default()).base_bytes();
    (images, without < bytes)
}

#[test]
fn what_happens_is_counted_in_its_minute() {
    let mut bench = bench(3);
    add(&mut bench, "a", 90_000, 1);
    add(&mut bench, "a", 90_000, 2);
    let waits = Request::Reserve(reserve(&[b"a"], Wait::Forever, 1));
    assert_eq!(bench.ask(1, waits), Outcome::Waiting);
    bench.at_us = 250;
    bench.at(90_000);
    bench.expect_events(&["1:j1#1"]);
    ack(&mut bench, "a", 1);
    // Nothing in the third.
    bench.at(200_000);
    assert_eq!(asked(&mut bench, Request::Reserve(reserve(&[b"a"], Wait::No, 1))), "j2#1");
    nack(&mut bench, "a", 2, 3_600_000);
    let rows = history(&mut bench, Some("a"), 60, 1);
    let expected = [[2, 0, 0, 0, 0, 0], [0, 1, 1, 0, 0, 1], [0, 0, 0, 0, 0, 1], [0, 1, 0, 1, 0, 0]];
    assert_eq!(rows.iter().map(counts).collect::<Vec<_>>(), expected);
    assert_eq!(rows[0].at.0, BEGIN_MS);
    let [p50, p99] = rows[1].lateness_us;
    assert!((220..=280).contains(&p50) && p50 == p99, "{p50} {p99}");
    assert_eq!(rows[3].lateness_us, [0, 0], "nobody waited for it");
    assert_eq!(history(&mut bench, None, 60, 1), rows, "there is no other queue");
    // Rows begin at multiples of the step.
    let rows = history(&mut bench, Some("a"), 60, 2);
    let expected = [[2, 1, 1, 0, 0, 1], [0, 1, 0, 1, 0, 0]];
    assert_eq!(rows.iter().map(counts).collect::<Vec<_>>(), expected);
    assert_eq!(history(&mut bench, Some("a"), 1, 1).len(), 1);
    let before = history(&mut bench, None, 60, 1);
    bench.restart();
    assert_eq!(history(&mut bench, None, 60, 1), before, "before anything happens again");
    bench.restart();
    assert_eq!(history(&mut bench, None, 60, 1), before, "from a base of nothing new");
    assert_eq!(history(&mut bench, Some("a"), 60, 1), before);
    assert_eq!(history(&mut bench, Some("unknown"), 60, 1), []);
    // A day later there is nothing but what waits.
    bench.at(200_000 + 86_400_000);
    let rows = history(&mut bench, Some("a"), DAY_MINUTES, 1);
    assert_eq!(rows.len(), DAY_MINUTES as usize);
    assert!(rows.iter().all(|row| row.added + row.delivered + row.acked == 0));
}

#[test]
fn without_queues_to_keep_there_is_none() {
    let mut bench = bench(0);
    add(&mut bench, "a", 0, 1);
    bench.at(120_000);
    add(&mut bench, "a", 0, 2);
    assert_eq!(history(&mut bench, None, 60, 1), []);
    assert_eq!(history(&mut bench, Some("a"), 60, 1), []);
    assert!(!base(&mut bench.engine).1);
}

/// What happened to a queue by minute: the first five of [`counts`].
type Known = BTreeMap<u64, [u64; 5]>;

fn check(known: &Known, rows: &[Span], now: u64) {
    let since = *known.keys().next().expect("something happened");
    let begin = since.max((now + 1).saturating_sub(ASKED.into()));
    assert_eq!(rows.len() as u64, now + 1 - begin);
    for (row, at) in rows.iter().zip(begin..) {
        assert_eq!(row.at.0, BEGIN_MS + at * MINUTE_MS);
        assert_eq!(counts(row)[..5], *known.get(&at).unwrap_or(&[0; 5]), "minute {at}");
    }
}

/// Minutes that are looked back.
const ASKED: u32 = 90;

/// A base that is written while things go on, and what came since.
struct Begun {
    facts: usize,
    images: Vec<u8>,
    is_whole: bool,
}

#[test]
fn rows_say_what_happened_also_after_a_replay_and_from_a_base() {
    for_each_seed(60, |seed, seen| {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut bench = bench(4);
        let mut known: BTreeMap<Option<&'static str>, Known> = BTreeMap::new();
        let mut leased: Vec<(&'static str, u64)> = Vec::new();
        let mut attempts: BTreeMap<u64, u32> = BTreeMap::new();
        let mut begun: Option<Begun> = None;
        let steps: u64 = rng.random_range(20..300);
        let hurry = *[200, 5_000, 90_000].get(rng.random_range(0..3)).unwrap();
        for id in 0..steps {
            let queue = NAMES[rng.random_range(0..NAMES.len())];
            let at = minute(&bench);
            let mut count = |which: usize| {
                for of in [Some(queue), None] {
                    known.entry(of).or_default().entry(at).or_default()[which] += 1;
                }
            };
            match rng.random_range(0..10) {
                0..4 => {
                    let delay_ms = rng.random_range(0..100_000) / rng.random_range(1..1_000);
                    add(&mut bench, queue, delay_ms, id);
                    count(0);
                }
                4..6 => {
                    let queues: &'static [&'static [u8]] = vec![queue.as_bytes()].leak();
                    let mut taken = reserve(queues, Wait::No, 1);
                    taken.lease_ms = Some(12 * 3_600_000);
                    let taken = asked(&mut bench, Request::Reserve(taken));
                    let Some(taken) = taken.strip_prefix('j') else { continue };
                    let taken: u64 = taken.split('#').next().unwrap().parse().unwrap();
                    *attempts.entry(taken).or_default() += 1;
                    leased.push((queue, taken));
                    count(1);
                }
                6..8 if !leased.is_empty() => {
                    let (queue, id) = leased.swap_remove(rng.random_range(0..leased.len()));
                    let mut count = |which: usize| {
                        for of in [Some(queue), None] {
                            known.entry(of).or_default().entry(at).or_default()[which] += 1;
                        }
                    };
                    if rng.random_bool(0.6) {
                        ack(&mut bench, queue, id);
                        count(2);
                    } else {
                        nack(&mut bench, queue, id, 0);
                        count(3);
                        if attempts[&id] >= 2 {
                            count(4);
                        }
                    }
                }
                8 => {
                    let (ms, us) = (rng.random_range(0..hurry), rng.random_range(0..1_000));
                    bench.at(bench.at_ms + ms + 1);
                    bench.at_us = us;
                }
                _ if begun.is_none() => {
                    bench.engine.begin_base();
                    let (facts, images) = (bench.facts.len(), Vec::new());
                    begun = Some(Begun { facts, images, is_whole: false });
                }
                _ => {}
            }
            if let Some(begun) = begun.as_mut().filter(|begun| !begun.is_whole) {
                begun.is_whole = bench.engine.base_slice(rng.random_range(1..3), 1 << 20);
                begun.images.append(bench.engine.base_output());
            }
        }
        while bench.advance(100) {}
        let now = minute(&bench);
        let ask = |bench: &mut Bench| -> Vec<Vec<Span>> {
            let all = known.iter().map(|(queue, known)| {
                let rows = history(bench, *queue, ASKED, 1);
                check(known, &rows, now);
                rows
            });
            all.collect()
        };
        let rows = ask(&mut bench);
        bench.engine = bench.replayed();
        assert_eq!(ask(&mut bench), rows, "they follow from the facts");
        if let Some(begun) = begun.filter(|begun| begun.is_whole) {
            seen.note("base");
            let settings = bench.engine.settings().clone();
            bench.engine = loaded(&begun.images, &settings);
            for (now, facts) in &bench.facts[begun.facts..] {
                bench.engine.apply(*now, facts).expect("own facts");
            }
            assert_eq!(ask(&mut bench), rows, "a base and what came since give the same");
            assert!(base(&mut bench.engine).1);
        }
    });
}

#[test]
fn the_busiest_queues_are_kept() {
    let mut bench = bench(2);
    // Both places are taken by queues that nobody uses any more.
    for queue in ["old1", "old2"] {
        add(&mut bench, queue, 0, 1);
    }
    for second in 0..400 {
        bench.at(second * 1_000);
        let id = second * 10;
        add(&mut bench, "a", 0, id);
        add(&mut bench, "a", 0, id + 1);
        add(&mut bench, "b", 0, id + 2);
        if second % 10 == 0 {
            add(&mut bench, "c", 0, id + 3);
        }
        while bench.advance(100) {}
    }
    assert_eq!(history(&mut bench, Some("old1"), 60, 1), []);
    assert_eq!(history(&mut bench, Some("c"), 60, 1), []);
    for (queue, each) in [("a", 120), ("b", 60)] {
        let rows = history(&mut bench, Some(queue), 60, 1);
        // Looked at after the first minute, kept from the end of the second on.
        assert_eq!(rows.iter().map(|row| row.added).take(4).collect::<Vec<_>>(), [each; 4]);
        assert_eq!(rows[0].at.0, BEGIN_MS + 2 * MINUTE_MS);
    }
    let all = history(&mut bench, None, 60, 1);
    assert_eq!(all[0].added, 2 + 186);
    // A queue that is removed leaves its place.
    say(&mut bench, "DEL a");
    for second in 400..600 {
        bench.at(second * 1_000);
        add(&mut bench, "b", 0, second * 10);
        add(&mut bench, "c", 0, second * 10 + 1);
        while bench.advance(100) {}
    }
    assert!(!history(&mut bench, Some("c"), 60, 1).is_empty());
    assert!(!history(&mut bench, Some("b"), 60, 1).is_empty());
}

/// Minute by minute, each with an ADD to this queue.
fn use_queue(bench: &mut Bench, queue: &'static str, minutes: u64) {
    for _ in 0..minutes {
        bench.at(bench.at_ms + MINUTE_MS);
        let id = bench.at_ms;
        add(bench, queue, 0, id);
        while bench.advance(100) {}
    }
}

#[test]
fn what_was_busy_long_ago_makes_room() {
    for restarts in [false, true] {
        let mut bench = bench(2);
        for id in 0..2_000 {
            add(&mut bench, "old1", 0, id);
            add(&mut bench, "old2", 0, id);
        }
        bench.at(100 * MINUTE_MS);
        if restarts {
            bench.restart();
        } else {
            use_queue(&mut bench, "old1", 200);
        }
        use_queue(&mut bench, "new", 80);
        assert!(history(&mut bench, Some("new"), 60, 1).len() > 10, "{restarts}");
        let old = ["old1", "old2"].map(|old| history(&mut bench, Some(old), 60, 1));
        // Nobody needs the other's place.
        assert_eq!(old.iter().filter(|rows| rows.is_empty()).count(), 1, "{restarts}");
    }
}

#[test]
fn a_queue_that_is_removed_leaves_its_place_at_once() {
    for removes in ["DEL a b", "FLUSHALL"] {
        let mut bench = bench(2);
        add(&mut bench, "a", 0, 1);
        add(&mut bench, "b", 0, 2);
        say(&mut bench, removes);
        add(&mut bench, "a", 0, 3);
        add(&mut bench, "c", 0, 4);
        for queue in ["a", "c"] {
            assert_eq!(history(&mut bench, Some(queue), 1, 1)[0].added, 1, "{queue} {removes}");
        }
        base(&mut bench.engine);
    }
}

#[test]
fn a_node_that_reads_no_minutes_gets_none() {
    for (level, some) in [(LEVEL_HISTORY - 1, false), (LEVEL_HISTORY, true)] {
        let mut bench = bench(2);
        let (from, to) = (bench.now(), bench.now());
        bench.lead(&Lead { term: 1, node: 1, level, from, to });
        add(&mut bench, "a", 0, 1);
        bench.at(70_000);
        add(&mut bench, "a", 0, 2);
        assert_eq!(base(&mut bench.engine).1, some);
    }
}
