//! What is set for a queue: policies of new jobs, limits, rates, pauses.

use delayd::engine::model::fact::Fact;
use delayd::engine::model::queue_settings::QueueSettings;
use delayd::engine::model::request::{
    Add, Direction, Nack, Request, Reserve, State, Taken, Wait, When,
};
use delayd::engine::room::{Flow, Room};
use delayd::engine::{Engine, Facts, Loader, Outcome};
use delayd::ids::{Db, QueueNo, Token};
use delayd::limits::DROPPED_PER_TURN;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::bench::*;

fn set(change: impl FnOnce(&mut QueueSettings)) -> Request<'static> {
    let mut changes = Box::new(QueueSettings::default());
    change(&mut changes);
    Request::Configure { queue: queue("q"), changes }
}

fn shown() -> Request<'static> {
    Request::Settings { queue: queue("q"), only: None }
}

fn unset() -> Request<'static> {
    Request::Unconfigure { queue: queue("q") }
}

fn pause(direction: Direction, for_ms: Option<u64>) -> Request<'static> {
    Request::Pause { queue: queue("q"), direction, for_ms }
}

fn resume(direction: Direction) -> Request<'static> {
    Request::Resume { queue: queue("q"), direction }
}

fn exists() -> Request<'static> {
    Request::Exists { db: Db(0), queues: Q }
}

/// An ADD that leaves all to the queue.
fn plain(id: &'static str) -> Add<'static> {
    Add { backoff: None, ..job("q", id, 0) }
}

fn take(wait: Wait, count: u32) -> Request<'static> {
    Request::Reserve(reserve(Q, wait, count))
}

#[test]
fn a_queue_with_a_setting_exists_and_keeps_what_a_call_does_not_name() {
    let mut bench = Bench::new();
    bench.check(1, shown(), &["1:"]);
    bench.check(1, exists(), &["1:0"]);
    bench.check(1, set(|to| to.rate = Some(7)), &["1:ok"]);
    bench.check(1, set(|to| to.attempts = Some(2)), &["1:ok"]);
    bench.check(1, shown(), &["1:attempts=2 rate=7"]);
    bench.check(1, exists(), &["1:1"]);
    let made = bench.made().0;
    bench.check(1, set(|to| to.attempts = Some(2)), &["1:ok"]);
    assert_eq!(bench.made().0, made, "what is set already is no fact");
    bench.check(1, unset(), &["1:ok"]);
    bench.check(1, shown(), &["1:"]);
    bench.check(1, exists(), &["1:0"]);
    bench.check(1, unset(), &["1:ok"]);
    bench.check(1, set(|to| to.ttl_ms = Some(5)), &["1:ok"]);
    bench.check(1, remove(Q), &["1:1"]);
    bench.check(1, shown(), &["1:"]);
}

#[test]
fn a_setting_that_is_refused_changes_nothing() {
    let mut bench = Bench::with(|settings| settings.lease_ms_max = 1_000);
    let refused = set(|to| (to.rate, to.lease_ms) = (Some(7), Some(1_001)));
    bench.check(1, refused, &["1:ERR"]);
    bench.check(1, exists(), &["1:0"]);
    bench.engine.settings_mut().memory_bytes_max = 1;
    bench.check(1, set(|to| to.rate = Some(7)), &["1:OOM"]);
    bench.check(1, pause(Direction::In, None), &["1:OOM"]);
    bench.engine.settings_mut().delay_ms_max = 99;
    bench.check(1, pause(Direction::In, Some(100)), &["1:ERR"]);
    assert_eq!(bench.made(), (0, 0));
}

#[test]
fn new_jobs_have_what_their_queue_says_unless_add_says_it() {
    let mut bench = Bench::new();
    bench.add(plain("before"));
    let settings = |to: &mut QueueSettings| {
        (to.attempts, to.priority, to.ttl_ms) = (Some(1), Some(3), Some(500));
        (to.backoff, to.lease_ms) = (Some(ladder([70].into())), Some(40));
    };
    bench.check(1, set(settings), &["1:ok"]);
    bench.add(plain("plain"));
    bench.add(Add { ttl_ms: Some(0), attempts: Some(0), priority: Some(9), ..plain("own") });
    // By its priority, though it came later.
    bench.check(1, peek("q", 9), &["1:plain before own"]);
    let mut by_queue = reserve(Q, Wait::No, 3);
    by_queue.lease_ms = None;
    bench.check(1, Request::Reserve(by_queue), &["1:plain#1 before#1 own#1"]);
    bench.check(1, get("q", "plain"), &["1:leased due 0 attempt 1 until 40"]);
    bench.nack(1, "before", |_| ());
    bench.nack(1, "own", |nack| nack.bury = true);
    bench.nack(1, "plain", |_| ());
    bench.take_events();
    bench.check(1, get("q", "plain"), &["1:dead due 0 attempt 1 attempts"]);
    // The ladder of the day it was added: 1s with jitter.
    let before = bench.ask(1, get("q", "before"));
    assert_eq!(before, delayd::engine::Outcome::Replied);
    assert!(bench.take_events()[0].starts_with("1:delayed due 1"), "1s and up to 20 %");
    bench.add(Add { attempts: Some(2), lease_ms: Some(90), ..plain("again") });
    bench.check(1, Request::Reserve(by_queue), &["1:again#1"]);
    bench.check(1, get("q", "again"), &["1:leased due 0 attempt 1 until 90"]);
    bench.nack(1, "again", |_| ());
    bench.take_events();
    bench.check(1, get("q", "again"), &["1:delayed due 70 attempt 1"]);
}

#[test]
fn max_jobs_refuses_what_would_be_one_more_and_nothing_else() {
    let mut bench = Bench::new();
    bench.check(1, set(|to| to.max_jobs = Some(3)), &["1:ok"]);
    bench.add(job("q", "delayed", 5_000));
    bench.add(job("q", "leased", 0));
    bench.check(1, take(Wait::No, 1), &["1:leased#1"]);
    bench.check(1, Request::Add(job("q", "ready", 0)), &["1:ready"]);
    bench.check(1, Request::Add(job("q", "more", 0)), &["1:FULL"]);
    let with = |id, taken| Request::Add(Add { taken, ..job("q", id, 0) });
    // What the id says comes first; replacing makes it no fuller.
    bench.check(1, with("ready", Taken::Keep), &["1:nil"]);
    bench.check(1, with("ready", Taken::Refuse), &["1:EXISTS"]);
    bench.check(1, with("leased", Taken::Replace), &["1:leased"]);
    bench.check(1, with("more", Taken::Replace), &["1:FULL"]);
    // Dead ones are not counted, but replacing one is one more.
    bench.check(1, take(Wait::No, 1), &["1:ready#1"]);
    bench.nack(1, "ready", |nack| nack.bury = true);
    bench.expect_events(&["1:1"]);
    bench.check(1, with("last", Taken::Refuse), &["1:last"]);
    bench.check(1, with("ready", Taken::Replace), &["1:FULL"]);
    bench.check(1, set(|to| to.max_jobs = Some(1)), &["1:ok"]);
    bench.check(1, with("last", Taken::Replace), &["1:last"]);
    bench.check(1, set(|to| to.max_jobs = Some(0)), &["1:ok"]);
    bench.check(1, with("ready", Taken::Replace), &["1:ready"]);
    bench.engine.settings_mut().memory_bytes_max = 1;
    bench.check(1, set(|to| to.max_jobs = Some(1)), &["1:ok"]);
    bench.check(1, with("x", Taken::Refuse), &["1:FULL"]);
    bench.check(1, pause(Direction::In, None), &["1:ok"]);
    bench.check(1, with("x", Taken::Refuse), &["1:PAUSED"]);
    bench.check(1, with("last", Taken::Refuse), &["1:EXISTS"]);
    bench.check(1, with("last", Taken::Replace), &["1:PAUSED"]);
    bench.check(1, resume(Direction::In), &["1:ok"]);
    bench.check(1, unset(), &["1:ok"]);
    bench.check(1, with("x", Taken::Refuse), &["1:OOM"]);
}

/// Two leases at most; `a` and `b` are with client 1, `c` is ready, 2 and 3 wait.
fn at_its_limit() -> Bench {
    let mut bench = Bench::new();
    bench.check(1, set(|to| to.max_leased = Some(2)), &["1:ok"]);
    for id in ["a", "b", "c"] {
        bench.add(Add { attempts: Some(1), ..job("q", id, 0) });
    }
    bench.check(1, take(Wait::No, 9), &["1:a#1 b#1"]);
    bench.sent(1);
    bench.check(4, take(Wait::No, 9), &["4:nil"]);
    bench.check(4, pop(Q, Wait::No), &["4:nil"]);
    bench.check(4, peek("q", 9), &["4:c"]);
    bench.ask(2, take(Wait::Forever, 9));
    bench.ask(3, pop(Q, Wait::Forever));
    bench.at(1);
    bench.expect_events(&[]);
    bench
}

#[test]
fn a_lease_that_ends_frees_its_place_in_the_same_step() {
    let mut bench = at_its_limit();
    let token = bench.token("a");
    bench.ack(1, "a", token);
    bench.expect_events(&["1:1", "2:c#1"]);

    let mut bench = at_its_limit();
    bench.nack(1, "a", |nack| nack.bury = true);
    bench.expect_events(&["1:1", "2:c#1"]);

    let mut bench = at_its_limit();
    bench.nack(1, "b", |nack| nack.uncounted = true);
    bench.expect_events(&["1:1", "2:b#1"]);

    let mut bench = at_its_limit();
    bench.check(9, cancel("q", "a", true), &["9:leased", "2:c#1"]);

    let mut bench = at_its_limit();
    let again = Add { taken: Taken::Replace, ..job("q", "a", 9_000) };
    bench.check(9, Request::Add(again), &["9:a", "2:c#1"]);

    // Both leases run out in one millisecond and their jobs are dead; the pop holds no place.
    let mut bench = at_its_limit();
    bench.add(job("q", "d", 0));
    bench.at(99);
    bench.expect_events(&[]);
    bench.at(100);
    bench.expect_events(&["2:c#1 d#1"]);
    bench.add(job("q", "e", 0));
    bench.at(101);
    bench.expect_events(&[]);
    let token = bench.token("d");
    bench.ack(2, "d", token);
    bench.expect_events(&["2:1", "3:e"]);

    let mut bench = at_its_limit();
    bench.check(9, set(|to| to.max_leased = Some(3)), &["9:ok", "2:c#1"]);
    let mut bench = at_its_limit();
    bench.check(9, unset(), &["9:ok", "2:c#1"]);
}

#[test]
fn a_bound_lease_that_ends_and_one_that_never_left_free_their_places() {
    let mut bench = Bench::new();
    bench.check(9, set(|to| to.max_leased = Some(1)), &["9:ok"]);
    bench.add(Add { attempts: Some(1), ..job("q", "a", 0) });
    bench.add(job("q", "b", 0));
    let bound = Request::Reserve(delayd::engine::model::request::Reserve {
        bound: true,
        ..reserve(Q, Wait::No, 9)
    });
    bench.check(1, bound, &["1:a#1"]);
    bench.sent(1);
    bench.ask(2, take(Wait::Forever, 1));
    bench.ask(3, take(Wait::Forever, 1));
    bench.closed(1);
    bench.expect_events(&["2:b#1"]);
    bench.unsent(2);
    bench.expect_events(&["3:b#1"]);
}

#[test]
fn several_queues_one_at_its_limit_counts_as_empty() {
    let mut bench = Bench::new();
    bench.check(9, set(|to| to.max_leased = Some(1)), &["9:ok"]);
    bench.add(job("q", "a", 0));
    bench.add(job("q", "b", 0));
    bench.add(job("r", "c", 0));
    bench.ask(1, Request::Reserve(reserve(&[b"q", b"r"], Wait::No, 9)));
    bench.expect_events(&["1:a#1 c#1"]);
    bench.ask(1, pop(&[b"q", b"r"], Wait::Forever));
    bench.check(9, Request::Add(job("r", "d", 0)), &["9:d", "1:d"]);
}

#[test]
fn a_rate_spaces_deliveries_and_wakes_who_waits() {
    let mut bench = Bench::new();
    bench.check(9, set(|to| to.rate = Some(10)), &["9:ok"]);
    for id in ["a", "b", "c", "d"] {
        bench.add(job("q", id, 0));
    }
    bench.check(1, pop(Q, Wait::No), &["1:a"]);
    bench.check(1, take(Wait::No, 9), &["1:nil"]);
    bench.ask(2, pop(Q, Wait::Forever));
    bench.ask(3, pop(Q, Wait::For(90)));
    bench.ask(4, pop(Q, Wait::Forever));
    // One each 100.5 ms, up to 5 ms before its instant.
    bench.advance(1_000);
    assert_eq!(bench.engine.next_wakeup().map(|at| at.0), Some(BEGIN_MS + 90));
    bench.at(95);
    bench.expect_events(&["3:nil"]);
    bench.at(96);
    bench.expect_events(&["2:b"]);
    // Whoever asks just then does not overtake who waits.
    bench.at_ms = 196;
    bench.check(5, pop(Q, Wait::No), &["4:c", "5:nil"]);
    bench.check(9, unset(), &["9:ok"]);
    bench.check(5, pop(Q, Wait::No), &["5:d"]);
}

#[test]
fn who_asks_before_the_wake_up_of_a_rate_does_not_overtake_who_waits() {
    let mut bench = Bench::new();
    // A step of 30 and a half ms: the wake-up is half a millisecond behind the allowed instant.
    bench.check(9, set(|to| to.rate = Some(33)), &["9:ok"]);
    for id in ["a", "b", "c"] {
        bench.add(job("q", id, 0));
    }
    bench.check(1, pop(Q, Wait::No), &["1:a"]);
    bench.ask(2, pop(Q, Wait::Forever));
    (bench.at_ms, bench.at_us) = (25, 400);
    bench.check(3, pop(Q, Wait::No), &["3:nil"]);
    (bench.at_ms, bench.at_us) = (25, 500);
    bench.check(3, pop(Q, Wait::No), &["2:b", "3:nil"]);
}

#[test]
fn what_never_left_gives_its_share_of_the_rate_back() {
    let mut bench = Bench::new();
    bench.check(9, set(|to| to.rate = Some(1)), &["9:ok"]);
    bench.add(job("q", "a", 0));
    for request in [pop(Q, Wait::No), take(Wait::No, 1)] {
        bench.ask(1, request);
        assert!(bench.take_events()[0].starts_with("1:a"));
        bench.ask(2, pop(Q, Wait::No));
        bench.expect_events(&["2:nil"]);
        bench.unsent(1);
    }
    bench.check(3, pop(Q, Wait::No), &["3:a"]);
}

/// Whatever the rate, and whenever consumers come or are woken: never more in any second than the
/// rate, and within 1 % of it while there are jobs.
#[test]
fn a_rate_holds_in_any_second_and_is_reached() {
    for seed in 0..30 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let rate = match rng.random_range(0..4) {
            0 => rng.random_range(1..20u32),
            1 => rng.random_range(20..2_000),
            2 => 1_000,
            _ => rng.random_range(2_000..20_000),
        };
        let mut bench = Bench::new();
        bench.ask(9, set(|to| to.rate = Some(rate)));
        let seconds = 3 + 200 / u64::from(rate);
        let count = u64::from(rate) * (seconds + 2);
        for _ in 0..count {
            bench.add(Add { id: None, ..job("q", "", 0) });
        }
        // A server's turns: woken up to 2 ms late, or by some other client's request.
        let late_us = [0, 100, 2_000][rng.random_range(0..3)];
        let waits = rng.random();
        let (begin_us, mut now_us) = (bench.now().0, bench.now().0);
        let mut given: Vec<u64> = Vec::new();
        bench.take_events();
        while now_us < begin_us + seconds * 1_000_000 {
            let most = if rng.random() { 10_000 } else { 1 };
            let wait = if waits { Wait::Forever } else { Wait::No };
            if bench.engine.waiter_count() == 0 {
                bench.ask(1, take(wait, most));
            }
            while bench.advance(1_000_000) {}
            for line in bench.take_events() {
                let jobs = line.split(' ').filter(|job| job.contains('#')).count();
                given.extend(std::iter::repeat_n(now_us, jobs));
            }
            bench.sent(1);
            bench.facts.clear();
            now_us = if waits && bench.engine.waiter_count() > 0 {
                let wakeup = bench.engine.next_wakeup().expect("somebody waits");
                (wakeup.0 * 1_000).max(now_us + 1) + rng.random_range(0..=late_us)
            } else {
                now_us + rng.random_range(1..=1_000)
            };
            bench.at_ms = now_us / 1_000 - BEGIN_MS;
            bench.at_us = now_us % 1_000;
        }
        let expect_events = format!("seed {seed}: {rate} a second, {} in {seconds} s", given.len());
        let mut first = 0;
        for (at, end) in given.iter().enumerate() {
            while end - given[first] >= 1_000_000 {
                first += 1;
            }
            let within = at + 1 - first;
            assert!(within <= rate as usize, "{within} within a second; {expect_events}");
        }
        let least = f64::from(rate) * seconds as f64 * 0.99 - 1.0;
        assert!(given.len() as f64 >= least, "at least {least}; {expect_events}");
        // A replay of what was cleared is no matter of this test.
        std::mem::forget(bench);
    }
}

#[test]
fn dead_jobs_are_kept_as_long_and_as_many_as_the_queue_says() {
    let mut bench = Bench::new();
    let settings = |to: &mut QueueSettings| {
        (to.dead_retention_ms, to.dead_max, to.attempts) = (Some(1_000), Some(3), Some(1));
    };
    bench.check(9, set(settings), &["9:ok"]);
    for id in ["a", "b", "c", "d", "e"] {
        bench.add(plain(id));
        bench.ask(1, take(Wait::No, 1));
        bench.nack(1, id, |_| ());
    }
    bench.sent(1);
    bench.take_events();
    let dead = || Request::Peek { queue: queue("q"), state: Some(State::Dead), count: 9 };
    bench.check(1, dead(), &["1:c d e"]);
    bench.at(500);
    bench.check(9, set(|to| to.dead_max = Some(1)), &["9:ok"]);
    bench.at(501);
    bench.check(1, dead(), &["1:e"]);
    bench.at(999);
    bench.check(1, dead(), &["1:e"]);
    bench.at(1_000);
    bench.check(1, dead(), &["1:"]);
    assert_eq!(bench.stats("q").totals.dropped, 5);
    bench.check(9, set(|to| to.dead_max = Some(0)), &["9:ok"]);
    bench.add(plain("f"));
    bench.ask(1, take(Wait::No, 1));
    bench.nack(1, "f", |_| ());
    bench.take_events();
    bench.check(1, dead(), &["1:"]);
    assert_eq!(bench.stats("q").totals.died, 6);
}

fn bury(bench: &mut Bench, count: u32) {
    for _ in 0..count {
        bench.add(Add { id: None, attempts: Some(1), ..plain("") });
    }
    bench.ask(1, take(Wait::No, count));
    bench.sent(1);
    bench.at_ms += 100;
    while bench.advance(2_000) {}
    bench.take_events();
}

fn dead_count(bench: &mut Bench) -> u64 {
    bench.ask(8, len("q", State::Dead));
    let expect_events = bench.take_events();
    expect_events[0][2..].parse().expect("a number")
}

/// Lowered by much, a limit is reached in slices before it is set; it was set first, and told while
/// there were more than it says.
#[test]
fn a_lower_dead_max_holds_from_its_reply_on() {
    let mut bench = Bench::new();
    bury(&mut bench, 5_000);
    let mut slices = 0;
    while bench.ask(9, set(|to| to.dead_max = Some(10))) == Outcome::Again {
        slices += 1;
        assert_eq!(dead_count(&mut bench), 5_000 - slices * u64::from(DROPPED_PER_TURN));
    }
    bench.expect_events(&["9:ok"]);
    assert_eq!((slices, dead_count(&mut bench)), (2, 10));
    assert_eq!(bench.stats("q").totals.dropped, 4_990);
    // Those that die then, many in one step, and in one transaction.
    bury(&mut bench, 300);
    assert_eq!(dead_count(&mut bench), 10);
    for _ in 0..30 {
        bench.add(Add { id: None, attempts: Some(1), ..plain("") });
    }
    bench.ask(1, take(Wait::No, 30));
    let tokens = bench.tokens.split_off(bench.tokens.len() - 30);
    let nacks = tokens.iter().map(|(id, token)| {
        let nack = Nack { id: id.as_bytes(), token: *token, ..nack() };
        [Request::Nack(nack), len("q", State::Dead)]
    });
    let requests: Vec<Request<'_>> = nacks.flatten().collect();
    bench.take_events();
    assert!(matches!(bench.transact(1, &requests), Begun::Begun(_)));
    let expect_events = bench.take_events();
    assert!(expect_events.iter().all(|said| said == "1:1" || said == "1:10"), "{expect_events:?}");
    // What is set for it is gone: the default is more, so nothing comes back.
    bench.check(9, unset(), &["9:ok"]);
    assert_eq!(dead_count(&mut bench), 10);
}

fn nack() -> Nack<'static> {
    let (bury, uncounted, token) = (false, false, Token(0));
    let (when, priority, error) = (None, None, None);
    Nack { queue: queue("q"), id: b"", token, when, bury, uncounted, priority, error }
}

/// In a transaction it is done in one go, which counts for what that costs.
#[test]
fn a_lower_dead_max_holds_at_once_in_a_transaction() {
    let mut bench = Bench::new();
    bury(&mut bench, 5_000);
    let lowered = |max| set(move |to| to.dead_max = Some(max));
    let begun = bench.transact(1, &[lowered(10), len("q", State::Dead), lowered(9)]);
    let Begun::Begun(needs) = begun else { panic!("{begun:?}") };
    assert!(needs.entries >= 4_990, "{needs:?}");
    bench.expect_events(&["1:ok", "1:10", "1:ok"]);
    assert_eq!(dead_count(&mut bench), 9);
}

/// Without room for the facts of those that leave it is not set.
#[test]
fn a_lower_dead_max_needs_room() {
    let mut bench = Bench::new();
    bury(&mut bench, 1_000);
    let room = Room::of(5_000, 0);
    bench.flow(Flow::Running { room });
    bench.check(9, set(|to| to.dead_max = Some(10)), &["9:MISCONF"]);
    let left = dead_count(&mut bench);
    assert!((700..1_000).contains(&left), "{left} are left");
    bench.flow(Flow::default());
    bench.check(9, set(|to| to.dead_max = Some(10)), &["9:ok"]);
    assert_eq!(dead_count(&mut bench), 10);
}

/// Earlier versions set the limit first; a journal may end in the middle of that.
#[test]
fn too_many_dead_jobs_of_an_old_journal_leave_in_slices() {
    let mut bench = Bench::new();
    bury(&mut bench, 2_000);
    let settings = QueueSettings { dead_max: Some(10), ..QueueSettings::default() };
    let mut facts = Facts::default();
    facts.push(&Fact::Configured { queue: QueueNo(0), settings: Box::new(settings) });
    bench.engine.apply(bench.now(), &facts).expect("a fact that fits");
    bench.facts.push((bench.now(), facts));
    bench.engine.begin_base();
    while !bench.engine.base_slice(1_000, 1_000_000) {}
    let mut loader = Loader::new(bench.engine.settings().clone());
    loader.images(&std::mem::take(bench.engine.base_output())).expect("own images");
    bench.engine = Engine::loaded(loader).expect("own images");
    bench.engine.recovered();
    assert!(bench.advance(300));
    while bench.advance(300) {}
    bench.check(1, len("q", State::Dead), &["1:10"]);
}

#[test]
fn paused_in_refuses_jobs_and_nothing_else() {
    let mut bench = Bench::new();
    bench.add(job("q", "a", 0));
    bench.add(job("q", "b", 50));
    bench.check(1, pause(Direction::In, None), &["1:ok"]);
    bench.check(1, Request::Add(job("q", "c", 0)), &["1:PAUSED"]);
    bench.check(1, take(Wait::No, 1), &["1:a#1"]);
    bench.nack(1, "a", |nack| nack.uncounted = true);
    bench.check(1, reschedule("q", "b", 0), &["1:1", "1:1"]);
    bench.check(1, take(Wait::No, 9), &["1:a#1 b#1"]);
    assert_eq!(bench.stats("q").paused, "in");
    bench.check(1, resume(Direction::Out), &["1:ok"]);
    bench.check(1, Request::Add(job("q", "c", 0)), &["1:PAUSED"]);
    bench.check(1, resume(Direction::All), &["1:ok"]);
    bench.check(1, Request::Add(job("q", "c", 0)), &["1:c"]);
}

#[test]
fn paused_out_is_empty_for_who_takes_and_serves_in_order_when_it_is_over() {
    let mut bench = Bench::new();
    bench.check(9, pause(Direction::Out, None), &["9:ok"]);
    bench.check(9, exists(), &["9:1"]);
    bench.ask(1, take(Wait::Forever, 2));
    bench.ask(2, pop(Q, Wait::For(500)));
    bench.ask(3, pop(Q, Wait::Forever));
    bench.add(job("q", "a", 0));
    bench.add(job("q", "b", 10));
    bench.add(job("q", "c", 0));
    bench.at(100);
    bench.check(4, take(Wait::No, 9), &["4:nil"]);
    bench.check(4, peek("q", 9), &["4:a c b"]);
    bench.check(4, len("q", State::Ready), &["4:3"]);
    assert_eq!(bench.stats("q").paused, "out");
    bench.check(9, pause(Direction::In, None), &["9:ok"]);
    assert_eq!(bench.stats("q").paused, "all");
    bench.check(9, resume(Direction::All), &["9:ok", "1:a#1 c#1", "2:b"]);
    assert_eq!(bench.stats("q").paused, "no");
    bench.check(9, Request::Add(job("q", "d", 0)), &["9:d", "3:d"]);
}

#[test]
fn a_pause_for_a_while_ends_by_itself_and_serves_in_order() {
    let mut bench = Bench::new();
    bench.check(9, pause(Direction::All, Some(100)), &["9:ok"]);
    bench.check(9, pause(Direction::In, Some(50)), &["9:ok"]);
    bench.ask(1, pop(Q, Wait::Forever));
    bench.ask(2, take(Wait::For(100), 1));
    bench.at_ms = 49;
    bench.check(9, Request::Add(job("q", "a", 0)), &["9:PAUSED"]);
    bench.at_ms = 50;
    bench.check(9, Request::Add(job("q", "a", 0)), &["9:a"]);
    bench.check(9, Request::Add(job("q", "b", 50)), &["9:b"]);
    bench.at(99);
    assert_eq!(bench.stats("q").paused, "out");
    bench.expect_events(&[]);
    // The end of the pause, what is due and the deadline fall into one millisecond.
    bench.at(100);
    bench.expect_events(&["1:a", "2:b#1"]);
    assert_eq!(bench.stats("q").paused, "no");
    let token = bench.token("b");
    bench.ack(2, "b", token);
    bench.check(9, exists(), &["2:1", "9:0"]);
}

#[test]
fn a_pause_is_over_when_its_time_is_though_the_journal_takes_no_fact_of_it() {
    let mut bench = Bench::new();
    bench.add(job("q", "a", 0));
    bench.check(9, pause(Direction::All, Some(100)), &["9:ok"]);
    bench.at_ms = 100;
    // Room for the request alone; the step of time that ends the pause needs more.
    let room = Room::of(1_000, 0);
    bench.flow(Flow::Running { room });
    assert!(bench.engine.is_stalled());
    assert_eq!(bench.stats("q").paused, "no");
    bench.check(1, take(Wait::No, 1), &["1:a#1"]);
    bench.flow(Flow::default());
    bench.at(101);
    bench.check(9, pause(Direction::Out, Some(1)), &["9:ok"]);
    bench.replayed();
}

#[test]
fn jobs_expire_while_they_are_held_back() {
    let mut bench = Bench::new();
    bench.check(9, pause(Direction::Out, None), &["9:ok"]);
    bench.add(Add { ttl_ms: Some(50), ..job("q", "a", 0) });
    bench.ask(1, pop(Q, Wait::Forever));
    bench.at(50);
    bench.check(9, resume(Direction::All), &["9:ok"]);
    assert_eq!(bench.stats("q").totals.expired, 1);
}

/// What a step makes ready is there before the place that it frees is handed on: the job that comes
/// first goes back to work, not one of lower priority that happened to be ready already.
#[test]
fn a_place_goes_to_the_first_job_of_all_that_the_step_made_ready() {
    let of_priority = |id, priority| Add { priority: Some(priority), ..plain(id) };
    let mut bench = Bench::new();
    bench.ask(1, set(|to| to.max_leased = Some(1)));
    bench.add(of_priority("a", 0));
    bench.add(of_priority("b", 5));
    bench.take_events();
    bench.check(1, take(Wait::No, 1), &["1:a#1"]);
    bench.ask(2, take(Wait::Forever, 1));
    bench.nack(1, "a", |nack| nack.when = Some(When::In(0)));
    bench.expect_events(&["1:1", "2:a#2"]);
    // The same when the job's new priority is what brings it to the front, or sends it behind.
    bench.ask(3, take(Wait::Forever, 1));
    bench.nack(2, "a", |nack| (nack.when, nack.priority) = (Some(When::At(0)), Some(9)));
    bench.expect_events(&["2:1", "3:b#1"]);
    bench.ask(4, take(Wait::Forever, 1));
    bench.nack(3, "b", |nack| (nack.when, nack.priority) = (Some(When::In(0)), Some(8)));
    bench.expect_events(&["3:1", "4:b#2"]);
    // At the end of a transaction, whatever stands in it.
    bench.add(of_priority("c", 7));
    bench.take_events();
    bench.ask(5, take(Wait::Forever, 1));
    let jobs = vec![(&b"b"[..], bench.token("b"))];
    bench.ask_in_transaction(4, Request::Ack { queue: queue("q"), jobs });
    bench.ask_in_transaction(4, reschedule("q", "a", 0));
    bench.hand_off();
    bench.expect_events(&["4:1", "4:1", "5:c#1"]);
}

/// The same where a connection ends and its leases with it.
#[test]
fn a_place_that_a_hang_up_frees_goes_to_the_first_job() {
    let mut bench = Bench::new();
    bench.ask(1, set(|to| to.max_leased = Some(1)));
    bench.add(Add { priority: Some(0), backoff: Some(ladder([0].into())), ..plain("a") });
    bench.add(Add { priority: Some(5), ..plain("b") });
    bench.take_events();
    let bound = || Request::Reserve(Reserve { bound: true, ..reserve(Q, Wait::No, 1) });
    bench.check(1, bound(), &["1:a#1"]);
    bench.sent(1);
    bench.closed(1);
    bench.check(1, bound(), &["1:a#2"]);
    bench.sent(1);
    // Lost for the second time in a row: its backoff of nothing brings it to the wheel, due at once.
    bench.ask(2, take(Wait::Forever, 1));
    bench.closed(1);
    bench.expect_events(&["2:a#3"]);
}
