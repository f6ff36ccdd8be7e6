//! Closed groups, at their limit or paused: nothing of theirs is taken, no other group waits for them, and what opens
//! one serves who waits in the same step.

use delayd::engine::model::group::{GroupOrder, GroupRetry, GroupSettings, Grouping, ListGroups};
use delayd::engine::model::queue_settings::{Later, QueueSettings, Side};
use delayd::engine::model::request::{Add, JobState, Request, Reserve, Taken, Wait, When, Which};

use crate::engine::bench::*;
use crate::engine::groups::{asked, done, from_left, groups, of, popped, reserved, with};

type Change = fn(&mut Bench);

fn limit(group: &'static str, max: u32) -> Request<'static> {
    let changes = GroupSettings { max_leased: Some(max), ..GroupSettings::default() };
    Request::Groups(Grouping::Configure { queue: queue("q"), group: group.as_bytes(), changes })
}

fn limit_all(max: u32) -> Request<'static> {
    let group_max_leased = Later(Some(max));
    let changes = QueueSettings { group_max_leased, ..QueueSettings::default() };
    Request::Configure { queue: queue("q"), changes: Box::new(changes) }
}

fn pause(group: &'static str, for_ms: Option<u64>) -> Request<'static> {
    Request::Groups(Grouping::Pause { queue: queue("q"), group: group.as_bytes(), for_ms })
}

fn resume(group: &'static str) -> Request<'static> {
    Request::Groups(Grouping::Resume { queue: queue("q"), group: group.as_bytes() })
}

/// The same where a job that waits for its next attempt keeps its place.
fn blocking(max: u32, ids: &'static str) -> Bench {
    let mut bench = limited(max, ids);
    bench.ask(1, block());
    bench.take_events();
    bench
}

fn block() -> Request<'static> {
    let group_retry = Later(Some(GroupRetry::Block));
    let changes = QueueSettings { group_retry, ..QueueSettings::default() };
    Request::Configure { queue: queue("q"), changes: Box::new(changes) }
}

fn nack_in(bench: &mut Bench, id: &'static str, ms: u64) {
    bench.nack(1, id, |nack| nack.when = Some(When::In(ms)));
    bench.take_events();
}

/// A queue with these jobs of which each group may have so many leases.
fn limited(max: u32, ids: &'static str) -> Bench {
    let mut bench = if ids.is_empty() { Bench::new() } else { with(ids) };
    bench.ask(1, limit_all(max));
    bench.take_events();
    bench
}

/// The client waits for a job.
fn wait(bench: &mut Bench, client: u64) {
    bench.ask(client, Request::Reserve(reserve(Q, Wait::Forever, 1)));
    assert_eq!(bench.take_events(), [""; 0], "{client} waits");
}

fn closed(bench: &mut Bench) -> String {
    let (pattern, order, count, after, closed) = (None, GroupOrder::Name, 1_000, None, true);
    let list = ListGroups { queue: queue("q"), pattern, order, count, after, closed };
    asked(bench, Request::Groups(Grouping::List(list)))
}

#[test]
fn a_group_has_no_more_leases_than_its_limit() {
    let mut bench = limited(2, "a1 a2 a3 a4 b1 b2 b3 x1 x2 x3");
    let batch = Request::Reserve(reserve(Q, Wait::No, 10));
    // Inside one batch, too; jobs without a group have no limit.
    assert_eq!(asked(&mut bench, batch.clone()), "a1#1 b1#1 x1#1 a2#1 b2#1 x2#1 x3#1");
    assert_eq!(asked(&mut bench, batch.clone()), "nil");
    assert_eq!(groups(&mut bench), "a:[0, 2, 2, 0] limit b:[0, 1, 2, 0] limit");
    assert_eq!((closed(&mut bench), bench.stats("q").groups_closed), (groups(&mut bench), 2));
    // Its own limit comes before the queue's, and 0 is none.
    bench.ask(1, limit("a", 0));
    assert_eq!(asked(&mut bench, batch.clone()), "a3#1 a4#1");
    bench.ask(1, limit("b", 3));
    assert_eq!(asked(&mut bench, batch), "b3#1");
    assert_eq!(bench.stats("q").groups_closed, 0, "no ready job is left");
}

#[test]
fn what_ends_a_lease_serves_who_waits_in_the_same_step() {
    let ends: [(&str, Change, &str); 8] = [
        ("ack", |bench| bench.ack(1, "a1", bench.token("a1")), "a2"),
        ("nack", |bench| bench.nack(1, "a1", |nack| nack.when = Some(When::In(50))), "a2"),
        ("uncounted", |bench| bench.nack(1, "a1", |nack| nack.uncounted = true), "a1"),
        ("bury", |bench| bench.nack(1, "a1", |nack| nack.bury = true), "a2"),
        ("delete", |bench| _ = bench.ask(1, delete("q", &[b"a1"])), ""),
        ("cancel", |bench| _ = bench.ask(1, cancel("q", "a1", true)), "a2"),
        ("purge", |bench| _ = bench.ask(1, purge_state("q", JobState::Leased)), "a2"),
        ("timeout", |bench| bench.at(100), "a1"),
    ];
    for (what, end, next) in ends {
        let mut bench = limited(1, "a1 a2");
        assert_eq!(reserved(&mut bench, 1), "a1");
        wait(&mut bench, 2);
        end(&mut bench);
        let served = bench.take_events().into_iter().find(|line| line.starts_with("2:"));
        let wanted = Some(format!("2:{next}#")).filter(|_| !next.is_empty());
        let right = match (&served, &wanted) {
            (Some(served), Some(wanted)) => served.starts_with(wanted),
            (served, wanted) => served.is_none() && wanted.is_none(),
        };
        assert!(right, "{what}: {served:?}");
    }
}

#[test]
fn what_raises_a_limit_or_resumes_serves_who_waits() {
    for opens in [limit("a", 2), limit_all(0), resume("a")] {
        let mut bench = limited(1, "a1 a2");
        if let Request::Groups(Grouping::Resume { .. }) = opens {
            bench.ask(1, limit_all(5));
            bench.ask(1, pause("a", None));
            bench.take_events();
            wait(&mut bench, 2);
            bench.ask(1, opens);
            assert_eq!(bench.take_events(), ["1:ok", "2:a1#1"]);
            continue;
        }
        assert_eq!(reserved(&mut bench, 1), "a1");
        wait(&mut bench, 2);
        bench.ask(1, opens);
        assert_eq!(bench.take_events(), ["1:ok", "2:a2#1"]);
    }
}

#[test]
fn a_limit_of_one_holds_for_a_hundred_consumers() {
    let mut bench = limited(1, "");
    (2..102).for_each(|client| wait(&mut bench, client));
    (0..100).for_each(|_| _ = bench.ask(1, Request::Add(Add { id: None, ..of("a", 0) })));
    for turn in 0..100 {
        let lines = bench.take_events();
        let taken = lines.iter().filter_map(|line| line.split_once(':')?.1.split_once('#'));
        let [(id, _)] = *taken.collect::<Vec<_>>() else { panic!("{turn}: {lines:?}") };
        assert_eq!(groups(&mut bench), format!("a:[0, {}, 1, 0] limit", 99 - turn));
        bench.take_events();
        let jobs = vec![(id.as_bytes(), bench.token(id))];
        bench.ask(1, Request::Ack { queue: queue("q"), jobs });
    }
}

#[test]
fn an_old_token_opens_nothing() {
    let mut bench = limited(1, "a1 a2");
    assert_eq!(reserved(&mut bench, 1), "a1");
    let old = bench.token("a1");
    bench.at(100);
    assert_eq!(reserved(&mut bench, 2), "a1 nil");
    bench.ack(1, "a1", old);
    assert_eq!(bench.take_events(), ["1:0"]);
    assert_eq!(reserved(&mut bench, 1), "nil");
    bench.ack(1, "a1", bench.token("a1"));
    assert_eq!(reserved(&mut bench, 1), "a2");
}

#[test]
fn a_bound_lease_gives_its_job_back_before_the_next() {
    let mut bench = limited(1, "a1 a2");
    bench.ask(3, Request::Reserve(Reserve { bound: true, ..reserve(Q, Wait::No, 1) }));
    bench.sent(3);
    assert_eq!(bench.take_events(), ["3:a1#1"]);
    wait(&mut bench, 2);
    bench.closed(3);
    while bench.advance(1_000) {}
    assert_eq!(bench.take_events(), ["2:a1#2"]);
}

#[test]
fn a_job_that_waits_for_its_next_attempt_lets_the_others_pass() {
    let mut bench = limited(1, "a1 a2 a3");
    assert_eq!(reserved(&mut bench, 1), "a1");
    bench.nack(1, "a1", |nack| nack.when = Some(When::In(10)));
    assert_eq!(reserved(&mut bench, 2), "a2 nil");
    bench.at(10);
    bench.ack(1, "a2", bench.token("a2"));
    assert_eq!(done(&mut bench, 2), "a3 a1");
}

#[test]
fn a_closed_group_stops_no_other_whatever_its_priority() {
    let mut bench = limited(1, "a1");
    assert_eq!(reserved(&mut bench, 1), "a1");
    bench.add(Add { priority: Some(0), ..of("a2", 0) });
    bench.add(of("b1", 0));
    assert_eq!(reserved(&mut bench, 2), "b1 nil");
    bench.ack(1, "a1", bench.token("a1"));
    assert_eq!(reserved(&mut bench, 1), "a2");
}

#[test]
fn leases_above_a_lowered_limit_run_on() {
    let mut bench = limited(5, "a1 a2 a3 a4 a5 a6");
    assert_eq!(reserved(&mut bench, 4), "a1 a2 a3 a4");
    bench.ask(1, limit_all(3));
    assert_eq!(reserved(&mut bench, 1), "nil");
    bench.ack(1, "a1", bench.token("a1"));
    assert_eq!(reserved(&mut bench, 1), "nil");
    bench.ack(1, "a2", bench.token("a2"));
    assert_eq!(reserved(&mut bench, 2), "a5 nil");
}

#[test]
fn a_paused_group_gives_nothing_and_takes_what_is_added() {
    let mut bench = Bench::new();
    bench.ask(1, pause("a", None));
    bench.add(of("a1", 0));
    let last = "a:[0, 1, 0, 0] paused";
    assert_eq!((reserved(&mut bench, 1), popped(&mut bench, 1)), ("nil".into(), "nil".into()));
    assert_eq!((groups(&mut bench), closed(&mut bench)), (last.into(), last.into()));
    // A setting is one thing and a pause another.
    let (queue, group) = (queue("q"), &b"a"[..]);
    bench.ask(1, limit("a", 1));
    bench.ask(1, Request::Groups(Grouping::Unconfigure { queue, group }));
    assert_eq!(groups(&mut bench), last);
    bench.take_events();
    wait(&mut bench, 2);
    wait(&mut bench, 3);
    bench.ask(1, resume("a"));
    assert_eq!(bench.take_events(), ["1:ok", "2:a1#1"]);
    assert_eq!(groups(&mut bench), "a:[0, 0, 1, 0]");
}

#[test]
fn a_pause_ends_by_itself_and_that_is_a_fact() {
    let mut bench = with("a1 b1");
    bench.ask(1, pause("a", Some(10)));
    bench.take_events();
    assert_eq!(reserved(&mut bench, 2), "b1 nil");
    wait(&mut bench, 2);
    bench.at(9);
    assert_eq!(bench.take_events(), [""; 0]);
    bench.at(10);
    assert_eq!(bench.take_events(), ["2:a1#1"]);
    assert_eq!(groups(&mut bench), "a:[0, 0, 1, 0] b:[0, 0, 1, 0]");
    // Nothing is left of it: group and queue go with their jobs.
    bench.ask(1, purge_state("q", JobState::Leased));
    assert_eq!(groups(&mut bench), "");
    assert_eq!(asked(&mut bench, pause("a", Some(u64::MAX / 2))), "ERR");
}

#[test]
fn closed_groups_are_shown_last() {
    let mut bench = limited(1, "a1 a2 a3 b1 x1");
    assert_eq!(reserved(&mut bench, 1), "a1");
    bench.ask(1, pause("b", None));
    assert_eq!(asked(&mut bench, peek("q", 9)), "x1 a2 b1 a3");
    assert_eq!(asked(&mut bench, len("q", JobState::Ready)), "4");
    assert_eq!(popped(&mut bench, 2), "x1 nil");
    // Seen, they are not given: not from the back either.
    assert_eq!(asked(&mut bench, list_pop(Q, Side::Right, 1, Wait::No)), "ERR");
    bench.ask(1, resume("b"));
    assert_eq!(popped(&mut bench, 2), "b1 nil");
    let mut bench = limited(1, "");
    bench.ask(1, from_left());
    ["a1", "a2", "a3", "b1"].into_iter().for_each(|id| bench.add(of(id, 0)));
    assert_eq!(reserved(&mut bench, 2), "a1 b1");
    assert_eq!(asked(&mut bench, peek("q", 9)), "a2 a3");
}

#[test]
fn purged_jobs_of_closed_groups_are_freed() {
    let mut bench = limited(1, "");
    let before = bench.engine.memory_bytes();
    bench.ask(1, pause("b", None));
    for group in ["a", "b"] {
        (0..3_000).for_each(|_| bench.add(Add { id: None, ..of(group, 0) }));
    }
    assert_ne!(reserved(&mut bench, 1), "nil");
    bench.ask(1, resume("b"));
    bench.ask(1, purge("q"));
    bench.ask(1, purge_state("q", JobState::Leased));
    bench.at(1);
    assert_eq!((groups(&mut bench), bench.stats("q").groups_closed), ("".into(), 0));
    // The policy stays bound for the next job alike.
    let policy = 500;
    assert!(bench.engine.memory_bytes() < before + policy, "{before}");
    bench.add(of("a9", 0));
    assert_eq!(reserved(&mut bench, 1), "a9");
}

#[test]
fn in_a_transaction_an_ack_opens_the_group_for_what_follows() {
    let mut bench = limited(1, "a1 a2");
    assert_eq!(reserved(&mut bench, 1), "a1");
    let token = bench.token("a1");
    let ack = Request::Ack { queue: queue("q"), jobs: vec![(b"a1", token)] };
    let take = || Request::Reserve(reserve(Q, Wait::No, 1));
    bench.transact(1, &[take(), ack, take(), take()]);
    let lines = bench.take_events();
    assert_eq!(&lines[..4], ["1:nil", "1:1", "1:a2#1", "1:nil"]);
}

#[test]
fn a_restart_keeps_limits_leases_and_pauses() {
    let mut bench = limited(1, "a1 a2 b1 c1");
    bench.ask(1, pause("c", Some(50)));
    assert_eq!(reserved(&mut bench, 1), "a1");
    bench.restart();
    assert_eq!(reserved(&mut bench, 2), "b1 nil");
    assert_eq!(closed(&mut bench), "a:[0, 1, 1, 0] limit c:[0, 1, 0, 0] paused");
    bench.at(50);
    assert_eq!(reserved(&mut bench, 2), "c1 nil");
    bench.at(100);
    assert_eq!(reserved(&mut bench, 1), "a1", "its lease is over");
}

/// More groups than are asked at once when a limit changes: none passes it meanwhile, and in the end all are as they
/// should be though nobody takes anything.
#[test]
fn a_limit_changes_for_twenty_thousand_groups() {
    let mut bench = Bench::new();
    for round in 0..3u32 {
        for number in 0..20_000u32 {
            let (name, queue) = (number.to_le_bytes(), queue("q"));
            bench.add(Add { group: Some(&name), ..Add::new(queue, When::In(0), b"") });
        }
        if round == 0 {
            let all = Request::Reserve(reserve(Q, Wait::No, 20_000));
            bench.ask(1, all);
        }
    }
    bench.take_events();
    // Each has one lease and two ready jobs.
    bench.ask(1, limit_all(1));
    assert_eq!(asked(&mut bench, Request::Reserve(reserve(Q, Wait::No, 1))), "nil");
    bench.at(1);
    assert_eq!(bench.stats("q").groups_closed, 20_000);
    bench.ask(1, limit_all(2));
    bench.at(2);
    assert_eq!(bench.stats("q").groups_closed, 0);
    let rest = Request::Reserve(reserve(Q, Wait::No, 30_000));
    assert_eq!(asked(&mut bench, rest).split(' ').count(), 20_000);
    assert_eq!(bench.stats("q").groups_closed, 20_000);
}

#[test]
fn replacing_a_leased_job_opens_its_group() {
    let mut bench = limited(1, "a1 a2");
    assert_eq!(reserved(&mut bench, 1), "a1");
    wait(&mut bench, 2);
    bench.ask(1, Request::Add(Add { taken: Taken::Replace, ..of("a1", 0) }));
    assert_eq!(bench.take_events(), ["1:a1", "2:a2#1"]);
    assert_eq!(asked(&mut bench, peek("q", 9)), "a1");
}

#[test]
fn where_retries_block_a_group_waits_for_them_and_no_other_does() {
    let mut bench = blocking(1, "a1 a2 b1");
    assert_eq!(reserved(&mut bench, 1), "a1");
    nack_in(&mut bench, "a1", 10);
    assert_eq!(reserved(&mut bench, 2), "b1 nil");
    assert_eq!(closed(&mut bench), "a:[1, 1, 0, 0] retry");
    // Taking at most once obeys, too.
    assert_eq!(popped(&mut bench, 1), "nil");
    assert_eq!(asked(&mut bench, list_pop(Q, Side::Left, 1, Wait::No)), "nil");
    wait(&mut bench, 2);
    bench.at(10);
    assert_eq!(bench.take_events(), ["2:a1#2"]);
    assert_eq!(closed(&mut bench), "a:[0, 1, 1, 0] limit");
    wait(&mut bench, 2);
    bench.ack(1, "a1", bench.token("a1"));
    assert_eq!(bench.take_events(), ["1:1", "2:a2#1"]);
}

#[test]
fn what_ends_a_blocking_job_serves_who_waits() {
    let ends: [Change; 4] = [
        |bench| _ = bench.ask(1, delete("q", &[b"a1"])),
        |bench| _ = bench.ask(1, cancel("q", "a1", false)),
        |bench| _ = bench.ask(1, purge_state("q", JobState::Delayed)),
        |bench| _ = bench.ask(1, Request::Add(Add { taken: Taken::Replace, ..of("a1", 900) })),
    ];
    for end in ends {
        let mut bench = blocking(1, "a1 a2");
        assert_eq!(reserved(&mut bench, 1), "a1");
        nack_in(&mut bench, "a1", 1_000);
        wait(&mut bench, 2);
        end(&mut bench);
        assert!(bench.take_events().contains(&"2:a2#1".into()));
    }
    // Dead, it blocks nothing.
    let mut bench = blocking(1, "a2");
    bench.add(Add { attempts: Some(1), priority: Some(0), ..of("a1", 0) });
    assert_eq!(reserved(&mut bench, 1), "a1");
    bench.nack(1, "a1", |_| {});
    assert_eq!(reserved(&mut bench, 1), "a2");
    assert_eq!(groups(&mut bench), "a:[0, 0, 1, 1] limit");
    bench.ack(1, "a2", bench.token("a2"));
    // A redriven one is not begun: it comes last.
    bench.add(of("a3", 0));
    bench.ask(1, Request::Redrive(redrive("q", Which::Ids(&[b"a1"]))));
    assert_eq!(reserved(&mut bench, 1), "a1", "its priority is 0");
    bench.ack(1, "a1", bench.token("a1"));
    assert_eq!(done(&mut bench, 1), "a3");
}

#[test]
fn a_blocking_job_can_be_run_now() {
    let mut bench = blocking(1, "a1 a2");
    assert_eq!(reserved(&mut bench, 1), "a1");
    nack_in(&mut bench, "a1", 3_600_000);
    assert_eq!(reserved(&mut bench, 1), "nil");
    bench.ask(1, reschedule("q", "a1", 0));
    assert_eq!(done(&mut bench, 2), "a1 a2");
}

#[test]
fn begun_jobs_come_before_the_others_of_their_group() {
    let mut bench = blocking(2, "a1 a2 a3 a4");
    assert_eq!(reserved(&mut bench, 3), "a1 a2 nil");
    nack_in(&mut bench, "a1", 10);
    nack_in(&mut bench, "a2", 5);
    assert_eq!(reserved(&mut bench, 1), "nil");
    bench.at(10);
    assert_eq!(asked(&mut bench, peek("q", 9)), "a2 a1 a3 a4");
    assert_eq!(done(&mut bench, 4), "a2 a1 a3 a4");
    // One that nobody counts keeps its place, and the place is blocked.
    let mut bench = blocking(1, "a1 a2");
    assert_eq!(reserved(&mut bench, 1), "a1");
    bench.nack(1, "a1", |nack| (nack.uncounted, nack.when) = (true, Some(When::In(10))));
    assert_eq!(reserved(&mut bench, 1), "nil");
    bench.at(10);
    assert_eq!(done(&mut bench, 2), "a1 a2");
}

#[test]
fn a_setting_that_blocks_locks_nothing_up() {
    let mut bench = limited(1, "a1 a2 a3 a6");
    for id in ["a1", "a2", "a3"] {
        assert_eq!(reserved(&mut bench, 1), id);
        nack_in(&mut bench, id, 10);
    }
    bench.ask(1, block());
    assert_eq!(reserved(&mut bench, 1), "nil");
    bench.at(10);
    assert_eq!(reserved(&mut bench, 2), "a1 nil");
    bench.ack(1, "a1", bench.token("a1"));
    assert_eq!(done(&mut bench, 3), "a2 a3 a6");
}

#[test]
fn a_job_that_never_left_has_not_begun() {
    let mut bench = blocking(1, "a1 a2");
    bench.ask(5, Request::Reserve(reserve(Q, Wait::No, 1)));
    bench.unsent(5);
    assert_eq!(groups(&mut bench), "a:[0, 2, 0, 0]");
    assert_eq!(popped(&mut bench, 1), "a1");
    assert_eq!(popped(&mut bench, 1), "a2");
    // Nor has a redriven one.
    let mut bench = blocking(1, "a2");
    bench.add(Add { attempts: Some(1), ..of("a1", 0) });
    assert_eq!(reserved(&mut bench, 1), "a2");
    bench.ack(1, "a2", bench.token("a2"));
    assert_eq!(reserved(&mut bench, 1), "a1");
    bench.nack(1, "a1", |_| {});
    bench.add(of("a3", 0));
    bench.ask(1, Request::Redrive(redrive("q", Which::Ids(&[b"a1"]))));
    bench.take_events();
    assert_eq!(asked(&mut bench, peek("q", 9)), "a3 a1");
    bench.ask(1, cancel("q", "a3", false));
    bench.ask(5, Request::Reserve(reserve(Q, Wait::No, 1)));
    bench.unsent(5);
    bench.add(of("a4", 0));
    assert_eq!(asked(&mut bench, peek("q", 9)), "a1 a4");
    // So it blocks nothing while it is put off.
    bench.ask(1, reschedule("q", "a1", 1_000));
    assert_eq!(popped(&mut bench, 1), "a4");
}

#[test]
fn a_begun_job_that_is_ready_comes_first_after_a_restart() {
    let mut bench = blocking(1, "a1 a2");
    assert_eq!(reserved(&mut bench, 1), "a1");
    bench.nack(1, "a1", |nack| nack.uncounted = true);
    bench.restart();
    assert_eq!(done(&mut bench, 2), "a1 a2");
}

#[test]
fn a_blocked_group_stays_blocked_over_a_restart_and_a_new_name() {
    let mut bench = blocking(1, "a1 a2 b1");
    assert_eq!(reserved(&mut bench, 1), "a1");
    nack_in(&mut bench, "a1", 50);
    bench.restart();
    assert_eq!(reserved(&mut bench, 2), "b1 nil");
    bench.ask(1, rename("q", "r"));
    const R: &[&[u8]] = &[b"r"];
    let take = || Request::Reserve(reserve(R, Wait::No, 1));
    assert_eq!(asked(&mut bench, take()), "nil");
    bench.at(50);
    assert_eq!(asked(&mut bench, take()), "a1#2");
    assert_eq!(asked(&mut bench, take()), "nil");
}

#[test]
fn priorities_of_a_blocked_group_stand_each_for_itself() {
    let mut bench = blocking(1, "a1 a2");
    assert_eq!(reserved(&mut bench, 1), "a1");
    bench.add(Add { priority: Some(0), ..of("a0", 0) });
    nack_in(&mut bench, "a1", 10);
    bench.at(10);
    // a0 would come first, and has not begun.
    assert_eq!(asked(&mut bench, peek("q", 9)), "a1 a2 a0");
    assert_eq!(reserved(&mut bench, 2), "a1 nil");
    bench.ack(1, "a1", bench.token("a1"));
    assert_eq!(done(&mut bench, 2), "a0 a2");
}
