//! What is set for a queue: policies of new jobs, limits, rates, pauses.

use delayd::engine::journal_room::{Flow, Room};
use delayd::engine::model::fact::Fact;
use delayd::engine::model::queue_settings::QueueSettings;
use delayd::engine::model::request::{
    Add, Direction, JobState, Nack, Request, Reserve, Taken, Wait, When,
};
use delayd::engine::{Engine, Facts, Loader, Outcome};
use delayd::ids::{QueueNo, Token};
use delayd::limits::DROPPED_PER_TURN;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::engine::bench::*;

fn set(change: impl FnOnce(&mut QueueSettings)) -> Request<'static> {
    let mut changes = Box::new(QueueSettings::default());
    change(&mut changes);
    Request::Configure { queue: queue("q"), changes }
}

fn unset() -> Request<'static> {
    Request::Unconfigure { queue: queue("q") }
}

fn pause(direction: Direction, for_ms: Option<u64>) -> Request<'static> {
    Request::Pause { queue: queue("q"), direction, for_ms }
}

/// An ADD that leaves all to the queue.
fn plain(id: &'static str) -> Add<'static> {
    Add { backoff: None, ..job("q", id, 0) }
}

fn take(wait: Wait, count: u32) -> Request<'static> {
    Request::Reserve(reserve(Q, wait, count))
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

/// It was delivered in the µs in which the rate was set, and gave the share of another delivery back.
#[test]
fn what_was_taken_before_the_rate_was_set_gives_nothing_of_it_back() {
    let mut bench = Bench::new();
    for id in ["a", "b", "c"] {
        bench.add(job("q", id, 0));
    }
    bench.check(1, pop(Q, Wait::No), &["1:a"]);
    bench.check(9, set(|to| to.rate = Some(1)), &["9:ok"]);
    bench.check(2, pop(Q, Wait::No), &["2:b"]);
    bench.unsent(1);
    bench.check(3, pop(Q, Wait::No), &["3:nil"]);
    bench.at(999);
    bench.check(3, pop(Q, Wait::No), &["3:nil"]);
    bench.at(1_000);
    bench.check(3, pop(Q, Wait::No), &["3:a"]);
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
    bench.ask(8, len("q", JobState::Dead));
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
        [Request::Nack(nack), len("q", JobState::Dead)]
    });
    let requests: Vec<Request<'_>> = nacks.flatten().collect();
    bench.take_events();
    assert!(matches!(bench.transact(1, &requests), TransactionBegun::Begun(_)));
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
    let begun = bench.transact(1, &[lowered(10), len("q", JobState::Dead), lowered(9)]);
    let TransactionBegun::Begun(needs) = begun else { panic!("{begun:?}") };
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
    bench.check(1, len("q", JobState::Dead), &["1:10"]);
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
