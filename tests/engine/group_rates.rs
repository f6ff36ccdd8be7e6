//! Rates of groups: never more of a group in any span than its rate, over restarts, too; no other group waits for it, and
//! who waits is served when it opens.

use delayd::command::{self, Action, table};
use delayd::engine::model::group::Grouping;
use delayd::engine::model::request::{Add, Request, Reserve, Wait};
use delayd::engine::{Engine, Lead, Loader};
use delayd::ids::Db;
use delayd::limits::{LEVEL, LEVEL_GROUP_RATES};
use rand::{Rng, SeedableRng, rngs::SmallRng};

use crate::engine::bench::*;
use crate::engine::groups::{asked, done, groups, of, popped, said, with};

/// What a command asks for.
pub fn command(line: &'static str) -> Request<'static> {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let spec = table::resolve(&words).expect("a command");
    let Ok(Action::Engine(request)) = command::parse(spec, words.leak(), Db(0)) else {
        panic!("{line}")
    };
    request
}

/// As client 1: what is answered.
fn say(bench: &mut Bench, line: &'static str) -> String {
    asked(bench, command(line))
}

/// A queue with these jobs, each group of which may give so many.
fn rated(rate: &'static str, ids: &'static str) -> Bench {
    let mut bench = if ids.is_empty() { Bench::new() } else { with(ids) };
    assert_eq!(say(&mut bench, rate), "ok");
    bench
}

const A_MINUTE: &str = "DELAY.CONFIG SET q group-rate 5/1m";
const TEN_SECONDS: &str = "DELAY.CONFIG SET q group-rate 1/10s";

fn wait(bench: &mut Bench, client: u64) {
    bench.ask(client, pop(Q, Wait::Forever));
}

/// When a client that waits all the time gets so many jobs, ms.
fn served(bench: &mut Bench, count: usize) -> Vec<u64> {
    let served = (0..count).map(|_| {
        wait(bench, 2);
        while !bench.take_events().iter().any(|line| line.starts_with("2:")) {
            let next = bench.engine.next_wakeup().expect("a group opens").0 - BEGIN_MS;
            bench.at(next.max(bench.at_ms));
        }
        bench.at_ms
    });
    served.collect()
}

#[test]
fn a_group_gives_as_its_rate_says_evenly_spaced() {
    let mut bench = rated(A_MINUTE, "a1 a2 a3 a4 a5 a6 a7 a8 a9");
    // A step is 12.001 s, and a delivery may come 5 ms before its step is over: never six in a minute.
    let instants = served(&mut bench, 9);
    assert_eq!(instants[..6], [0, 11_996, 23_997, 35_998, 47_999, 60_000]);
    assert!(instants.windows(6).all(|six| six[5] - six[0] >= 60_000), "{instants:?}");
    // A batch gets no more of it, and jobs without a group have no rate.
    let mut bench = rated(A_MINUTE, "a1 a2 b1 x1 x2 b2");
    let batch = Request::Reserve(reserve(Q, Wait::No, 10));
    assert_eq!(asked(&mut bench, batch), "a1#1 b1#1 x1#1 x2#1");
    assert_eq!(groups(&mut bench), "a:[0, 1, 1, 0] rate b:[0, 1, 1, 0] rate");
    assert_eq!(bench.stats("q").groups_closed, 2);
    assert_eq!(asked(&mut bench, list("q")), "body body");
}

#[test]
fn a_group_whose_jobs_are_gone_is_known_until_its_rate_is_past() {
    let mut bench = rated(TEN_SECONDS, "x1");
    assert_eq!(popped(&mut bench, 1), "x1");
    let empty = (bench.engine.memory_bytes(), bench.engine.base_bytes());
    bench.add(of("a1", 0));
    assert_eq!(done(&mut bench, 1), "a1");
    assert_eq!(bench.stats("q").groups, 1);
    assert_eq!(groups(&mut bench), "", "it has no job, and nothing set");
    bench.at(1_000);
    bench.add(of("a2", 0));
    assert_eq!(served(&mut bench, 1), [10_000]);
    bench.at(20_005);
    // All at once, of many that were popped; and of those purged.
    assert_eq!(bench.stats("q").groups, 0);
    bench.add(of("b1", 0));
    bench.add(of("b2", 0));
    assert_eq!(popped(&mut bench, 2), "b1 nil");
    bench.ask(1, purge("q"));
    bench.take_events();
    bench.add(of("b3", 0));
    assert_eq!(popped(&mut bench, 1), "nil");
    bench.ask(1, delete("q", &[b"b3"]));
    bench.take_events();
    bench.at(30_005);
    assert_eq!(bench.stats("q").groups, 0);
    assert_eq!((bench.engine.memory_bytes(), bench.engine.base_bytes()), empty);
}

#[test]
fn no_other_group_waits_for_one_that_its_rate_closes() {
    let mut bench = rated(TEN_SECONDS, "a1 a2 a3 b1 b2");
    say(&mut bench, "DELAY.CONFIG SET q GROUP b group-rate 0");
    assert_eq!(popped(&mut bench, 4), "a1 b1 b2 nil");
    // Delayed jobs slow it down no more than they do elsewhere.
    bench.add(of("a9", 30_000));
    assert_eq!(served(&mut bench, 2), [10_000, 20_005]);
}

#[test]
fn a_group_that_opens_gives_by_priority_and_place() {
    let mut bench = rated(TEN_SECONDS, "a5");
    assert_eq!(popped(&mut bench, 1), "a5");
    for (id, priority) in [("a6", 5), ("a1", 1), ("a7", 5), ("a2", 1)] {
        bench.add(Add { priority: Some(priority), ..of(id, 0) });
    }
    let mut order = Vec::new();
    for second in [10, 20, 30, 40] {
        bench.at(second * 1_100);
        order.push(popped(&mut bench, 1));
        assert_eq!(popped(&mut bench, 1), "nil");
    }
    assert_eq!(order, ["a1", "a2", "a6", "a7"]);
}

#[test]
fn both_a_rate_and_a_limit_must_let_a_job_go_and_no_debt_is_left() {
    let mut bench = rated(TEN_SECONDS, "a1 a2 a3");
    say(&mut bench, "DELAY.CONFIG SET q group-max-leased 1");
    let take =
        || Request::Reserve(Reserve { lease_ms: Some(60_000), ..reserve(Q, Wait::Forever, 1) });
    bench.check(3, take(), &["3:a1#1"]);
    bench.ask(3, take());
    bench.at(30_000);
    bench.expect_events(&[]);
    assert_eq!(groups(&mut bench), "a:[0, 2, 1, 0] limit");
    bench.ask(1, Request::Ack { queue: queue("q"), jobs: vec![(b"a1", bench.token("a1"))] });
    bench.expect_events(&["1:1", "3:a2#1"]);
    bench.ack(1, "a2", bench.token("a2"));
    bench.take_events();
    // The three steps that it did not use are gone.
    assert_eq!(served(&mut bench, 1), [40_000]);
}

#[test]
fn a_delivery_that_never_left_does_not_count() {
    for popping in [false, true] {
        let take = || match popping {
            true => pop(Q, Wait::No),
            false => {
                Request::Reserve(Reserve { lease_ms: Some(60_000), ..reserve(Q, Wait::No, 1) })
            }
        };
        let mut bench = rated(TEN_SECONDS, "a1 a2");
        for round in 0..3 {
            bench.at(round * 1_000);
            bench.ask(5, take());
            assert!(said(&mut bench).starts_with("a1"));
            assert_eq!(asked(&mut bench, take()), "nil");
            bench.unsent(5);
        }
        assert!(asked(&mut bench, take()).starts_with("a1"));
        // Nor does one that no rate counted give anything back.
        let mut bench = with("a1 a2 a3");
        bench.ask(5, take());
        say(&mut bench, TEN_SECONDS);
        assert!(asked(&mut bench, take()).starts_with("a2"));
        bench.unsent(5);
        assert_eq!(asked(&mut bench, take()), "nil");
        // Nor one that another rate has counted.
        let mut bench = rated(TEN_SECONDS, "a1 a2");
        bench.ask(5, take());
        say(&mut bench, "DELAY.CONFIG SET q group-rate 1/20s");
        bench.unsent(5);
        assert_eq!(asked(&mut bench, take()), "nil");
        // And if another followed, what the first kept waiting is over.
        let mut bench = rated(TEN_SECONDS, "a1 a2 a3");
        bench.ask(5, take());
        bench.at(10_000);
        bench.ask(6, take());
        bench.at(11_000);
        bench.unsent(5);
        assert_eq!(asked(&mut bench, take()), "nil");
        bench.at(20_005);
        assert!(asked(&mut bench, take()).starts_with("a1"));
    }
}

#[test]
fn another_rate_counts_from_the_last_delivery() {
    for (line, at) in [
        ("DELAY.CONFIG SET q group-rate 1/10s", 10_000),
        ("DELAY.CONFIG SET q group-rate 0", 1_000),
        ("DELAY.CONFIG RESET q", 1_000),
        ("DELAY.CONFIG SET q GROUP a group-rate 1/20s", 20_000),
        ("DELAY.CONFIG SET q GROUP a group-rate 0", 1_000),
        ("DELAY.CONFIG SET q group-weight 9", 3_600_000),
    ] {
        let mut bench = rated("DELAY.CONFIG SET q group-rate 1/1h", "a1 a2");
        assert_eq!(popped(&mut bench, 1), "a1");
        bench.at(1_000);
        wait(&mut bench, 7);
        say(&mut bench, line);
        let served = bench.at_ms == at || {
            bench.at(at - 1);
            bench.expect_events(&[]);
            bench.at(at);
            bench.take_events() == ["7:a2"]
        };
        assert!(served, "{line}");
    }
    // A slower one closes it again.
    let mut bench = rated(TEN_SECONDS, "a1 a2");
    assert_eq!(popped(&mut bench, 1), "a1");
    bench.at(11_000);
    say(&mut bench, "DELAY.CONFIG SET q group-rate 1/1m");
    assert_eq!(groups(&mut bench), "a:[0, 1, 0, 0] rate");
    assert_eq!(served(&mut bench, 1), [60_000]);
}

#[test]
fn a_slower_rate_is_passed_by_none_of_many_groups() {
    // More than are looked at when it is set.
    const GROUPS: usize = 5_000;
    let mut bench = rated("DELAY.CONFIG SET q group-rate 1", "");
    for number in 0..2 * GROUPS {
        let group: &'static str = format!("g{}", number % GROUPS).leak();
        bench.add(Add { id: None, group: Some(group.as_bytes()), ..of("x", 0) });
    }
    let taken: Vec<_> = (0..GROUPS).map(|_| popped(&mut bench, 1)).collect();
    assert!(!taken.contains(&"nil".to_owned()));
    assert_eq!((popped(&mut bench, 1), bench.stats("q").groups_closed), ("nil".into(), 5_000));
    bench.at(2_000);
    assert_eq!(bench.stats("q").groups_closed, 0);
    assert_eq!(say(&mut bench, "DELAY.CONFIG SET q group-rate 1/1h"), "ok");
    assert!((0..20).all(|_| popped(&mut bench, 1) == "nil"));
    // A faster one opens all of them, some turns later.
    bench.at(3_000);
    assert_eq!(say(&mut bench, "DELAY.CONFIG SET q group-rate 1/2s"), "ok");
    bench.at(3_001);
    assert_eq!(bench.stats("q").groups_closed, 0);
}

#[test]
fn room_in_a_base_is_kept_for_what_rates_will_count() {
    let mut bench = rated("DELAY.CONFIG SET q group-rate 1", "");
    for number in 0..100 {
        let group: &'static str = format!("{number:0100}").leak();
        bench.add(Add { id: None, group: Some(group.as_bytes()), ..of("x", 0) });
    }
    let later = bench.engine.base_bytes_later();
    bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 100)));
    bench.take_events();
    let now = bench.engine.base_bytes();
    assert!((later - 100 * 20..=later).contains(&now), "{now} of {later}");
}

#[test]
fn a_rate_outlives_a_restart_a_new_name_and_a_leader() {
    let hour = "DELAY.CONFIG SET q group-rate 1/1h";
    type Change = fn(&mut Bench);
    let changes: [Change; 4] = [
        |bench| bench.restart(),
        |bench| bench.engine = bench.replayed(),
        |bench| {
            bench.ask(1, rename("q", "r"));
            bench.ask(1, rename("r", "q"));
        },
        |bench| {
            let (from, to) = (bench.now(), bench.now());
            bench.lead(&Lead { term: 1, node: 1, level: LEVEL, from, to });
        },
    ];
    for change in changes {
        let mut bench = rated(hour, "a1 a2 b1");
        // Of b nothing is left but what its rate has counted.
        assert_eq!(popped(&mut bench, 2), "a1 b1");
        bench.at(1_000);
        change(&mut bench);
        bench.take_events();
        bench.at(2_000);
        bench.add(of("b2", 0));
        assert_eq!(popped(&mut bench, 1), "nil");
        wait(&mut bench, 3);
        assert_eq!(served(&mut bench, 1), [3_600_000]);
    }
}

#[test]
fn a_pace_that_changes_while_a_base_is_written_is_in_it_as_it_was() {
    let mut bench = rated("DELAY.CONFIG SET q group-rate 1/1h", "a1 b1 c1 c2");
    assert_eq!(popped(&mut bench, 2), "a1 b1");
    bench.at(1_000);
    let digest = bench.engine.digest();
    bench.engine.begin_base();
    // All that can happen to a pace: one is made, one goes with its group, one with its queue's name.
    assert_eq!(popped(&mut bench, 1), "c1");
    say(&mut bench, "DELAY.CONFIG SET q GROUP a group-rate 0");
    bench.at(2_000);
    say(&mut bench, "DELAY.CONFIG RESET q GROUP a");
    bench.add(of("b2", 0));
    say(&mut bench, "DELAY.CONFIG SET q group-rate 0");
    assert_eq!(popped(&mut bench, 2), "c2 b2");
    bench.at(3_000);
    assert_eq!(bench.stats("q").groups, 0);
    bench.ask(1, remove(&[b"q"]));
    while !bench.engine.base_slice(1, 1) {}
    let images = std::mem::take(bench.engine.base_output());
    let mut loader = Loader::new(bench.engine.settings().clone());
    loader.images(&images).expect("own images");
    let loaded = Engine::loaded(loader).expect("a whole base");
    assert_eq!(loaded.digest(), digest);
}

#[test]
fn when_a_group_opens_is_told() {
    let mut bench = rated(TEN_SECONDS, "a1 a2");
    let opens = |bench: &mut Bench| {
        let of = Request::Groups(Grouping::Stats { queue: queue("q"), group: b"a" });
        bench.ask(96, of);
        bench.opens()
    };
    assert_eq!(opens(&mut bench), None);
    assert_eq!(popped(&mut bench, 1), "a1");
    assert_eq!(opens(&mut bench), Some(10_000));
    say(&mut bench, "DELAY.PAUSE q GROUP a FOR 3s");
    assert_eq!(opens(&mut bench), Some(10_000));
    say(&mut bench, "DELAY.PAUSE q GROUP a FOR 30s");
    assert_eq!(opens(&mut bench), Some(30_000));
    say(&mut bench, "DELAY.PAUSE q GROUP a");
    assert_eq!(opens(&mut bench), None);
    bench.at(10_000);
    say(&mut bench, "DELAY.RESUME q GROUP a");
    assert_eq!((opens(&mut bench), popped(&mut bench, 1)), (None, "a2".into()));
}

#[test]
fn a_clock_that_is_set_back_closes_no_group_for_longer_than_its_rate() {
    const DAY_MS: u64 = 86_400_000;
    let mut bench = rated("DELAY.CONFIG SET q group-rate 1/1h", "a1 a2");
    bench.at(30 * DAY_MS);
    assert_eq!(popped(&mut bench, 1), "a1");
    let was = bench.now();
    bench.at_ms = DAY_MS;
    let to = bench.now();
    bench.engine.lower_clock(was, to);
    bench.restart();
    assert_eq!(popped(&mut bench, 1), "nil");
    assert_eq!(served(&mut bench, 1), [DAY_MS + 3_600_000]);
    // What no fact says cannot be replayed.
    std::mem::forget(bench);
}

#[test]
fn rates_of_groups_need_a_cluster_that_reads_them() {
    for (term, level) in [(1, LEVEL_GROUP_RATES - 1), (2, LEVEL_GROUP_RATES)] {
        let mut bench = Bench::new();
        let (from, to) = (bench.now(), bench.now());
        bench.lead(&Lead { term, node: 1, level, from, to });
        for line in [
            TEN_SECONDS,
            "DELAY.CONFIG SET q GROUP a group-rate 5",
            "DELAY.CONFIG SET q group-max-jobs 5",
            "DELAY.CONFIG SET q GROUP a group-max-jobs 5",
        ] {
            let answer = if level < LEVEL_GROUP_RATES { "ERR" } else { "ok" };
            assert_eq!(say(&mut bench, line), answer, "at {level}");
        }
        assert_eq!(say(&mut bench, "DELAY.CONFIG SET q GROUP a group-weight 2"), "ok");
    }
}

/// Whatever the rate and its changes, whenever consumers come, and whatever is started anew: no more in any span than the
/// greatest rate that held in it, and within 1 % of a rate while there are jobs and a consumer.
#[test]
fn no_group_gives_more_in_any_span_than_its_rate() {
    for seed in 0..60 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (count, span_ms) = (rng.random_range(1..300), rng.random_range(1..90) * 1_000);
        let mut bench = Bench::new();
        let line = format!("DELAY.CONFIG SET q group-rate {count}/{span_ms}ms");
        say(&mut bench, line.leak());
        let mut instants: [Vec<u64>; 2] = Default::default();
        let jobs = if rng.random() { count as usize * 2 } else { 50 };
        for number in 0..jobs {
            bench.add(of(format!("a{number}").leak(), 0));
            bench.add(of(format!("b{number}").leak(), 0));
        }
        let (patient, mut waits) = (rng.random(), false);
        while instants.iter().any(|of| of.len() < jobs) {
            if !std::mem::replace(&mut waits, true) {
                bench.ask(3, pop(Q, if patient { Wait::Forever } else { Wait::No }));
            }
            for line in bench.take_events() {
                waits = false;
                let of = ["3:a", "3:b"].iter().position(|of| line.starts_with(of));
                of.into_iter().for_each(|of| instants[of].push(bench.now().0));
            }
            if !waits && patient {
                continue;
            }
            if rng.random_ratio(1, 50) {
                waits = false;
                if rng.random() {
                    bench.restart()
                } else {
                    bench.engine = bench.replayed()
                }
                continue;
            }
            bench.at_us = rng.random_range(0..1_000);
            let next = bench.engine.next_wakeup().map_or(0, |next| next.0.saturating_sub(BEGIN_MS));
            bench.at(if patient {
                next.max(bench.at_ms)
            } else {
                bench.at_ms + rng.random_range(1..40)
            });
        }
        for of in &instants {
            let whole = of.windows(count as usize + 1).map(|all| all[count as usize] - all[0]);
            assert!(
                whole.min().is_none_or(|us| us >= span_ms * 1_000),
                "seed {seed}: {count}/{span_ms}ms"
            );
            if patient {
                let took = (of[of.len() - 1] - of[0]) as f64 / 1_000.0;
                let ideal = (of.len() - 1) as f64 * span_ms as f64 / count as f64;
                assert!(
                    took <= ideal * 1.01 + 20.0,
                    "seed {seed}: {count}/{span_ms}ms took {took}"
                );
            }
        }
    }
}

#[test]
fn a_digest_tells_what_a_rate_has_counted() {
    let digests = [false, true].map(|delivered| {
        let mut bench = rated(TEN_SECONDS, "a1");
        if delivered {
            // It is back where it was: only that its rate has counted it once is left of it.
            bench.ask(5, pop(Q, Wait::No));
            bench.unsent(5);
        }
        assert_eq!((bench.stats("q").ready, bench.stats("q").totals.delivered), (1, 0));
        bench.engine.digest()
    });
    assert_ne!(digests[0], digests[1]);
}
