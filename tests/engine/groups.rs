//! Groups share the front of a queue: who comes next, what is shown, and what is left of them.

use delayd::command::{self, Action, table};
use delayd::engine::decide::transaction::TransactionBegun;
use delayd::engine::model::group::{
    GroupOrder, GroupSettings, Grouping, LEASES_PER_TIER, ListGroups,
};
use delayd::engine::model::queue_settings::{Later, QueueSettings, Side};
use delayd::engine::model::request::{Add, JobState, QueueName, Request, Scan, Taken, Wait, When};
use delayd::engine::model::walk::Cursor;
use delayd::engine::{Lead, Outcome};
use delayd::ids::Db;
use delayd::limits::{GROUPS_SET_MAX, LEVEL_GROUPS};

use crate::engine::bench::*;

/// A job of the group that its id begins with; `x` has none.
pub fn of(id: &'static str, delay_ms: u64) -> Add<'static> {
    let group = Some(&id.as_bytes()[..1]).filter(|group| *group != b"x");
    Add { group, ..job("q", id, delay_ms) }
}

pub fn with(ids: &'static str) -> Bench {
    let mut bench = Bench::new();
    ids.split(' ').for_each(|id| bench.add(of(id, 0)));
    bench
}

pub fn weigh(group: &'static str, weight: u32) -> Request<'static> {
    let changes = GroupSettings { weight: Some(weight), ..GroupSettings::default() };
    Request::Groups(Grouping::Configure { queue: queue("q"), group: group.as_bytes(), changes })
}

pub fn weigh_all(weight: u32) -> Request<'static> {
    let changes = QueueSettings { group_weight: Later(Some(weight)), ..QueueSettings::default() };
    Request::Configure { queue: queue("q"), changes: Box::new(changes) }
}

pub fn from_left() -> Request<'static> {
    let changes = QueueSettings { due_enters: Some(Side::Left), ..QueueSettings::default() };
    Request::Configure { queue: queue("q"), changes: Box::new(changes) }
}

/// The last reply without the client.
pub fn said(bench: &mut Bench) -> String {
    let line = bench.take_events().pop().expect("a reply");
    line.split_once(':').expect("a client").1.into()
}

pub fn asked(bench: &mut Bench, request: Request<'_>) -> String {
    while bench.ask(1, request.clone()) == Outcome::Again {}
    said(bench)
}

/// The ids of so many jobs, reserved one by one.
pub fn reserved(bench: &mut Bench, count: usize) -> String {
    let taken = (0..count).map(|_| {
        let id = asked(bench, Request::Reserve(reserve(Q, Wait::No, 1)));
        id.split('#').next().expect("an id").to_owned()
    });
    taken.collect::<Vec<_>>().join(" ")
}

/// The same, each acknowledged before the next.
pub fn done(bench: &mut Bench, count: usize) -> String {
    let ids = (0..count).map(|_| {
        let id = reserved(bench, 1);
        let jobs = vec![(id.as_bytes(), bench.token(&id))];
        bench.ask(1, Request::Ack { queue: queue("q"), jobs });
        id
    });
    ids.collect::<Vec<_>>().join(" ")
}

pub fn popped(bench: &mut Bench, count: usize) -> String {
    let ids = (0..count).map(|_| asked(bench, pop(Q, Wait::No)));
    ids.collect::<Vec<_>>().join(" ")
}

pub fn groups(bench: &mut Bench) -> String {
    let (pattern, order, count, after, closed) = (None, GroupOrder::Name, 1_000, None, false);
    let list = ListGroups { queue: queue("q"), pattern, order, count, after, closed };
    asked(bench, Request::Groups(Grouping::List(list)))
}

#[test]
fn one_group_with_many_jobs_makes_no_other_wait() {
    let mut bench = Bench::new();
    (0..100_000).for_each(|_| bench.add(Add { id: None, ..of("a", 0) }));
    bench.add(of("b1", 0));
    let first = reserved(&mut bench, 1);
    assert_ne!(first, "b1");
    assert_eq!(reserved(&mut bench, 1), "b1");
}

#[test]
fn groups_take_turns_in_the_order_in_which_they_came() {
    let mut bench = with("a1 a2 a3 a4 b1 b2");
    let batch = Request::Reserve(reserve(Q, Wait::No, 6));
    assert_eq!(asked(&mut bench, batch), "a1#1 b1#1 a2#1 b2#1 a3#1 a4#1");
    // A newcomer comes behind those that wait.
    let mut bench = with("a1 a2 a3 a4");
    assert_eq!(reserved(&mut bench, 1), "a1");
    bench.add(of("c1", 0));
    assert_eq!(reserved(&mut bench, 4), "a2 c1 a3 a4");
}

#[test]
fn waiters_are_served_in_turn_when_all_fall_due_in_one_ms() {
    let mut bench = Bench::new();
    ["a1", "a2", "b1"].into_iter().for_each(|id| bench.add(of(id, 5)));
    bench.ask(1, Request::Reserve(reserve(Q, Wait::Forever, 1)));
    bench.ask(2, Request::Reserve(reserve(Q, Wait::Forever, 1)));
    bench.at(5);
    assert_eq!(bench.take_events(), ["1:a1#1", "2:b1#1"]);
}

#[test]
fn a_weight_is_so_many_jobs_in_a_stint() {
    let mut bench = with("a1 a2 a3 a4 a5 a6 a7 b1 b2 b3");
    bench.ask(1, weigh("a", 3));
    assert_eq!(done(&mut bench, 10), "a1 a2 a3 b1 a4 a5 a6 b2 a7 b3");
    // What is left of a stint is not kept.
    let mut bench = with("a1 b1 b2");
    bench.ask(1, weigh("a", 3));
    assert_eq!(done(&mut bench, 1), "a1");
    ["a2", "a3", "a4", "a5"].into_iter().for_each(|id| bench.add(of(id, 0)));
    assert_eq!(done(&mut bench, 6), "b1 a2 a3 a4 b2 a5");
    // That of the queue is for all that have none of their own, and not for jobs without a group.
    let mut bench = with("a1 a2 a3 x1 x2 b1 b2");
    bench.ask(1, weigh_all(2));
    bench.ask(1, weigh("b", 1));
    assert_eq!(done(&mut bench, 7), "a1 a2 x1 b1 a3 x2 b2");
    assert_eq!(asked(&mut bench, weigh("a", 1)), "ok");
    // What was given counts for a weight that goes down amid a stint.
    let mut bench = with("a1 a2 a3 a4 a5 b1 b2 b3");
    bench.ask(1, weigh("a", 4));
    assert_eq!(done(&mut bench, 2), "a1 a2");
    bench.ask(1, weigh("a", 2));
    assert_eq!(done(&mut bench, 4), "b1 a3 a4 b2");
    bench.ask(1, weigh("a", 1));
    assert_eq!(done(&mut bench, 2), "a5 b3");
}

#[test]
fn a_job_that_falls_due_comes_within_a_stint_of_another_group() {
    let mut bench = Bench::new();
    (0..2_000).for_each(|_| bench.add(Add { id: None, ..of("a", 0) }));
    bench.ask(1, weigh("a", 1_000));
    bench.add(of("b1", 1));
    _ = popped(&mut bench, 1);
    bench.at(1);
    let taken = popped(&mut bench, 1_000);
    assert_eq!(taken.split(' ').position(|id| id == "b1"), Some(999));
}

#[test]
fn priorities_come_before_groups_and_groups_share_each_by_itself() {
    let mut bench = Bench::new();
    let at = |id, priority| Add { priority: Some(priority), ..of(id, 0) };
    [("a5", 5), ("a0", 0), ("b5", 5)].into_iter().for_each(|(id, at_p)| bench.add(at(id, at_p)));
    assert_eq!(done(&mut bench, 3), "a0 a5 b5");
}

#[test]
fn jobs_without_a_group_are_as_one() {
    let mut bench = with("x1 x2 x3 a1 a2");
    assert_eq!(done(&mut bench, 5), "x1 a1 x2 a2 x3");
    let mut bench = with("a1 a2 x1 x2");
    assert_eq!(done(&mut bench, 4), "a1 x1 a2 x2");
}

#[test]
fn a_group_that_is_emptied_and_comes_again_stands_behind_those_that_wait() {
    let mut bench = with("a1 b1 b2 b3");
    for (id, next) in [("a1", "a2"), ("b1", ""), ("a2", "a3"), ("b2", "")] {
        assert_eq!(done(&mut bench, 1), id);
        if !next.is_empty() {
            bench.add(of(next, 0));
        }
    }
    assert_eq!(done(&mut bench, 2), "a3 b3");
}

#[test]
fn who_has_more_at_work_lets_those_go_first_that_have_less() {
    let mut bench = Bench::new();
    let many = |bench: &mut Bench, group: &'static str, count: usize| {
        (0..count).for_each(|_| bench.add(Add { id: None, ..of(group, 0) }));
    };
    many(&mut bench, "a", 40);
    reserved(&mut bench, 40);
    many(&mut bench, "a", 10);
    many(&mut bench, "b", 1);
    reserved(&mut bench, 1);
    let leased = |bench: &mut Bench, group: &'static str| -> u64 {
        let (queue, group) = (queue("q"), group.as_bytes());
        let said = asked(bench, Request::Groups(Grouping::Stats { queue, group }));
        said.split(", ").nth(2).expect("three counts").parse().expect("a number")
    };
    assert_eq!((leased(&mut bench, "a"), leased(&mut bench, "b")), (40, 1));
    many(&mut bench, "b", 60);
    // b has the lower tier until both are at 40.
    for taken in 1..40 {
        assert_eq!((leased(&mut bench, "a"), leased(&mut bench, "b")), (40, taken));
        reserved(&mut bench, 1);
    }
    reserved(&mut bench, 2);
    assert_eq!((leased(&mut bench, "a"), leased(&mut bench, "b")), (41, 41), "a b");
    assert_eq!(LEASES_PER_TIER, 8);
    // A higher weight of the queue bears more leases in the same tier, and a purge of leases all.
    bench.ask(1, weigh_all(1_000));
    reserved(&mut bench, 2);
    bench.ask(1, purge_state("q", JobState::Leased));
    assert_eq!((leased(&mut bench, "a"), leased(&mut bench, "b")), (0, 0));
}

#[test]
fn one_long_job_at_work_does_not_starve_its_group() {
    let mut bench = with("a0 a1 a2 b1 b2");
    assert_eq!(reserved(&mut bench, 1), "a0");
    assert_eq!(done(&mut bench, 4), "b1 a1 b2 a2");
}

#[test]
fn what_is_shown_is_what_comes() {
    let mut bench = with("a1 b1 a2 x1 a3 c1 c2 a4");
    bench.ask(1, weigh("c", 2));
    let shown = asked(&mut bench, peek("q", 100));
    assert_eq!(shown, "a1 b1 x1 c1 c2 a2 a3 a4");
    assert_eq!(popped(&mut bench, 8), shown);
    // Amid a stint, and as a list.
    let mut bench = Bench::new();
    for id in ["a1", "a2", "a3", "a4", "b1"] {
        bench.add(Add { body: id.as_bytes(), ..of(id, 0) });
    }
    bench.ask(1, weigh("a", 3));
    assert_eq!(popped(&mut bench, 2), "a1 a2");
    assert_eq!(asked(&mut bench, list("q")), "a3 b1 a4");
    let at = |place| Request::At { queue: queue("q"), place };
    assert_eq!(asked(&mut bench, at(-1)), "a4");
    assert_eq!(asked(&mut bench, at(1)), "b1");
    assert_eq!(popped(&mut bench, 3), "a3 b1 a4");
}

#[test]
fn a_shared_queue_gives_from_its_front_alone() {
    let mut bench = Bench::new();
    bench.ask(1, push("q", Side::Right, &[b"x"]));
    bench.add(of("a1", 0));
    assert_eq!(asked(&mut bench, list("q")), "x body");
    let take = |side, wait| list_pop(Q, side, 1, wait);
    assert_eq!(asked(&mut bench, take(Side::Right, Wait::No)), "ERR");
    assert_eq!(asked(&mut bench, take(Side::Left, Wait::No)), "x");
    let turn = |sides| rotate("q", "q", sides, Wait::No);
    assert_eq!(asked(&mut bench, turn((Side::Right, Side::Left))), "ERR");
    // The body moves, and the group does not.
    assert_eq!(asked(&mut bench, turn((Side::Left, Side::Left))), "body");
    assert_eq!(
        (groups(&mut bench), asked(&mut bench, take(Side::Right, Wait::No))),
        ("".into(), "body".into())
    );
    // Who waits at the back is told when such a job comes.
    bench.add(of("a2", 5));
    bench.ask(7, take(Side::Right, Wait::Forever));
    bench.at(5);
    assert_eq!(bench.take_events(), ["7:ERR"]);
}

#[test]
fn where_jobs_are_taken_from_the_right_groups_share_there() {
    let mut bench = Bench::new();
    bench.ask(1, from_left());
    ["a1", "a2", "b1", "b2"].into_iter().for_each(|id| bench.add(of(id, 0)));
    assert_eq!(asked(&mut bench, peek("q", 9)), "a1 b1 a2 b2");
    assert_eq!(asked(&mut bench, list_pop(Q, Side::Left, 1, Wait::No)), "ERR");
    assert_eq!(done(&mut bench, 4), "a1 b1 a2 b2");
}

#[test]
fn a_lease_that_is_over_comes_first_in_its_group() {
    let mut bench = with("a1 a2 b1");
    assert_eq!(reserved(&mut bench, 2), "a1 b1");
    bench.at(200);
    assert_eq!(reserved(&mut bench, 3), "a1 b1 a2");
}

#[test]
fn nothing_is_inherited_and_what_is_empty_is_gone() {
    let mut bench = with("a1");
    let replaced = Add { taken: Taken::Replace, ..job("q", "a1", 0) };
    assert_eq!(groups(&mut bench), "a:[0, 1, 0, 0]");
    bench.add(replaced);
    assert_eq!(groups(&mut bench), "");
    let (queue, group) = (queue("q"), &b"a"[..]);
    assert_eq!(asked(&mut bench, Request::Groups(Grouping::Stats { queue, group })), "nil");
    // One with something set stays, with its queue, until that is reset.
    bench.ask(1, weigh("a", 2));
    bench.ask(1, delete("q", &[b"a1"]));
    let exists = Request::Exists { db: Db(0), queues: Q };
    assert_eq!(
        (groups(&mut bench), asked(&mut bench, exists.clone())),
        ("a:[0, 0, 0, 0]".into(), "1".into())
    );
    bench.ask(1, Request::Groups(Grouping::Unconfigure { queue, group }));
    assert_eq!((groups(&mut bench), asked(&mut bench, exists)), ("".into(), "0".into()));
}

#[test]
fn a_hundred_thousand_groups_come_and_go_and_leave_nothing() {
    let mut bench = Bench::new();
    bench.add(job("q", "stays", 9_000_000));
    // Policies stay bound for the next job alike.
    bench.add(Add::new(queue("q"), When::In(0), b""));
    bench.ask(1, pop(Q, Wait::No));
    let before = (bench.engine.memory_bytes(), bench.engine.base_bytes());
    for round in 0..3 {
        for number in 0..100_000u32 {
            let (name, queue) = (number.to_le_bytes(), queue("q"));
            bench.add(Add { group: Some(&name), ..Add::new(queue, When::In(0), b"") });
        }
        assert_eq!(bench.engine.group_count(), 100_000);
        match round {
            0 => _ = popped(&mut bench, 100_000),
            1 => _ = bench.ask(1, purge_state("q", JobState::Ready)),
            // All of it goes with the queue.
            _ => {
                bench.ask(1, remove(Q));
                bench.add(job("q", "stays", 9_000_000));
            }
        }
        bench.at(1 + round);
        assert_eq!((bench.engine.memory_bytes(), bench.engine.base_bytes()), before, "{round}");
        assert_eq!(bench.engine.group_count(), 0);
    }
}

#[test]
fn a_purge_is_seen_by_every_group_at_once() {
    let mut bench = with("a1 a2 b1");
    bench.ask(1, purge_state("q", JobState::Ready));
    bench.add(of("a3", 0));
    assert_eq!(groups(&mut bench), "a:[0, 1, 0, 0]");
    let mut bench = Bench::new();
    for number in 0..10_000u32 {
        let name = number.to_le_bytes();
        let add = Add::new(queue("q"), When::In(u64::from(number % 2) * 9_000), b"");
        bench.add(Add { group: Some(&name), ..add });
    }
    bench.ask(1, purge_state("q", JobState::Ready));
    bench.add(of("a9", 0));
    assert_eq!(asked(&mut bench, pop(Q, Wait::No)), "a9");
    assert_eq!(groups(&mut bench).matches(":[1, 0, 0, 0]").count(), 1_000, "the most in a reply");
    bench.ask(1, purge("q"));
    assert_eq!(groups(&mut bench), "");
    bench.add(of("a1", 0));
    assert_eq!(groups(&mut bench), "a:[0, 1, 0, 0]");
}

#[test]
fn groups_go_with_a_renamed_queue() {
    let mut bench = Bench::new();
    bench.add(of("a1", 5));
    bench.ask(1, weigh("a", 4));
    bench.ask(1, rename("q", "r"));
    bench.at(5);
    let (queue, group) = (queue("r"), &b"a"[..]);
    assert_eq!(
        asked(&mut bench, Request::Groups(Grouping::Stats { queue, group })),
        "a:[0, 1, 0, 0]"
    );
    let shown = Request::Groups(Grouping::Settings { queue, group, only: None });
    assert_eq!(asked(&mut bench, shown), "group-weight=4");
    assert_eq!(asked(&mut bench, pop(&[b"r"], Wait::No)), "a1");
}

#[test]
fn a_scan_finds_the_jobs_of_a_group() {
    let mut bench = with("a1 b1 a2 x1");
    let scan = |group| {
        let mut all = Scan::new(queue("q"), Cursor::BEGIN, 100);
        all.filter.group = Some(group);
        Request::Scan(all)
    };
    let mut found: Vec<String> =
        asked(&mut bench, scan(b"a")).split(' ').map(str::to_owned).collect();
    found.sort();
    assert_eq!(found, ["a1", "a2"]);
    assert_eq!((asked(&mut bench, scan(b"c")), bench.cursor()), ("".into(), 0));
}

#[test]
fn groups_are_listed_in_an_order_and_page_on() {
    let mut bench = with("a1 a2 b1 c1 c2 c3");
    bench.at(10);
    bench.ask(1, cancel("q", "b1", false));
    bench.add(of("b2", 1_000));
    let list = |order, count, pattern: Option<&'static [u8]>, after: Option<&'static [u8]>| {
        let (queue, closed) = (queue("q"), false);
        Request::Groups(Grouping::List(ListGroups { queue, pattern, order, count, after, closed }))
    };
    let names = |bench: &mut Bench, request| -> String {
        asked(bench, request).chars().filter(char::is_ascii_lowercase).collect()
    };
    assert_eq!(names(&mut bench, list(GroupOrder::Name, 9, None, None)), "abc");
    assert_eq!(names(&mut bench, list(GroupOrder::Ready, 9, None, None)), "cab");
    assert_eq!(names(&mut bench, list(GroupOrder::Delayed, 1, None, None)), "b");
    assert_eq!(names(&mut bench, list(GroupOrder::Age, 2, None, None)), "ac");
    assert_eq!(names(&mut bench, list(GroupOrder::Name, 1, None, Some(b"a"))), "b");
    assert_eq!(names(&mut bench, list(GroupOrder::Name, 9, Some(b"[bc]"), None)), "bc");
}

#[test]
fn after_a_start_groups_come_by_their_first_places_with_whole_stints() {
    let mut bench = with("a1 a2 b1 c1 c2 x1");
    bench.ask(1, weigh("c", 2));
    // a was served and stands last, c is amid its stint.
    assert_eq!(reserved(&mut bench, 3), "a1 b1 c1");
    bench.add(of("b2", 0));
    assert_eq!(asked(&mut bench, peek("q", 9)), "c2 x1 a2 b2");
    bench.restart();
    assert_eq!(asked(&mut bench, peek("q", 9)), "a2 c2 x1 b2");
    assert_eq!(reserved(&mut bench, 4), "a2 c2 x1 b2");
}

#[test]
fn a_transaction_takes_in_turn_and_its_answer_is_bounded() {
    let mut bench = with("a1 a2 a3 b1");
    let take = || Request::Reserve(reserve(Q, Wait::No, 2));
    let large = Add { body: &[7; 100_000], ..of("b2", 0) };
    let requests = [take(), Request::Add(large), take(), list("q")];
    assert!(matches!(bench.transact(1, &requests), TransactionBegun::Begun(_)));
    let lines = bench.take_events();
    assert_eq!(&lines[..3], ["1:a1#1 b1#1", "1:b2", "1:a2#1 b2#1"]);
    let back = [list_pop(Q, Side::Right, 1, Wait::No)];
    assert!(matches!(bench.transact(1, &back), TransactionBegun::Begun(_)));
    assert_eq!(said(&mut bench), "ERR");
}

/// What a transaction may answer is bounded by what is there, not by what was there once.
#[test]
fn a_large_job_that_is_gone_bounds_no_transaction() {
    let mut bench = Bench::new();
    let body = vec![7; 4 << 20];
    bench.add(Add { body: &body, ..of("a0", 0) });
    ["a1", "a2", "a3", "b1"].into_iter().for_each(|id| bench.add(of(id, 0)));
    let take = || Request::Reserve(reserve(Q, Wait::No, 1));
    let requests =
        || [peek("q", 100), list("q"), take(), take(), take(), list("q"), take(), take()];
    // It is one of those that may be shown.
    assert!(matches!(bench.transact(1, &requests()[..6]), TransactionBegun::Begun(_)));
    bench.ask(1, remove(Q));
    bench.add(Add { body: &body, ..of("a0", 0) });
    bench.ask(1, pop(Q, Wait::No));
    ["a1", "a2", "a3", "b1"].into_iter().for_each(|id| bench.add(of(id, 0)));
    bench.take_events();
    assert!(matches!(bench.transact(1, &requests()), TransactionBegun::Begun(_)));
    let lines = bench.take_events();
    let taken: Vec<&String> = lines.iter().filter(|line| line.contains('#')).collect();
    assert_eq!(taken, ["1:a1#1", "1:b1#1", "1:a2#1", "1:a3#1"]);
    // Four large ones are refused: only two of them fit.
    (0..12).for_each(|_| bench.add(Add { id: None, body: &body, ..of("a", 0) }));
    let many = (0..12).map(|_| take()).collect::<Vec<_>>();
    assert!(!matches!(bench.transact(1, &many), TransactionBegun::Begun(_)));
}

#[test]
fn settings_of_groups_have_a_limit() {
    let mut bench = Bench::new();
    let set = |bench: &mut Bench, number: usize| {
        let (queue, name) = (queue("q"), number.to_le_bytes());
        let changes = GroupSettings { weight: Some(2), ..GroupSettings::default() };
        asked(bench, Request::Groups(Grouping::Configure { queue, group: &name, changes }))
    };
    for number in 0..GROUPS_SET_MAX {
        assert_eq!(set(&mut bench, number), "ok");
    }
    let digest = bench.engine.digest();
    assert_eq!((set(&mut bench, GROUPS_SET_MAX), set(&mut bench, 7)), ("ERR".into(), "ok".into()));
    assert_eq!(bench.engine.digest(), digest);
}

#[test]
fn groups_need_a_cluster_that_reads_them() {
    for (term, level) in [(1, LEVEL_GROUPS - 1), (2, LEVEL_GROUPS)] {
        let mut bench = Bench::new();
        let lead = Lead { term, node: 1, level, from: bench.now(), to: bench.now() };
        bench.lead(&lead);
        for line in [
            &b"DELAY.ADD q 0 x GROUP acme"[..],
            b"DELAY.SCHEDULE SET q s x EVERY 1s GROUP acme",
            b"DELAY.CONFIG SET q group-weight 2",
            b"DELAY.CONFIG SET q group-max-leased 2",
            b"DELAY.CONFIG SET q group-retry block",
            b"DELAY.PAUSE q GROUP acme",
            b"DELAY.CONFIG SET q GROUP acme group-weight 2",
        ] {
            let digest = bench.engine.digest();
            let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
            let spec = table::resolve(&words).expect("a command");
            let Ok(Action::Engine(request)) = command::parse(spec, &words, Db(0)) else {
                panic!("{line:?} is a request");
            };
            bench.ask(1, request);
            assert_eq!(bench.engine.digest() == digest, level < LEVEL_GROUPS, "at {level}");
        }
        // Everything else goes on.
        bench.add(job("q", "plain", 0));
    }
}

/// Whatever comes, POP after POP gives what PEEK shows.
#[test]
fn random_queues_give_in_the_order_they_show() {
    use rand::{Rng, SeedableRng, rngs::SmallRng};
    for seed in 0..200 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut bench = Bench::new();
        if rng.random_ratio(1, 3) {
            bench.ask(1, from_left());
        }
        for group in ["a", "b", "c"] {
            bench.ask(1, weigh(group, rng.random_range(1..4)));
        }
        for _ in 0..rng.random_range(1..60) {
            let group = [None, Some(&b"a"[..]), Some(b"b"), Some(b"c")][rng.random_range(0..4)];
            let (queue, priority) = (queue("q"), Some(rng.random_range(4..7)));
            bench.add(Add { group, priority, ..Add::new(queue, When::In(0), b"") });
            if rng.random_ratio(1, 4) {
                _ = reserved(&mut bench, 1);
            }
        }
        let shown = asked(&mut bench, peek("q", 1_000));
        let count = shown.split(' ').filter(|id| !id.is_empty()).count();
        assert_eq!(popped(&mut bench, count), shown, "seed {seed}");
        assert_eq!(groups(&mut bench).split(' ').filter(|one| one.contains("[0, 0, 0")).count(), 0);
        let name = QueueName { db: Db(0), name: b"q" };
        bench.check(1, Request::Len { queue: name, state: Some(JobState::Ready) }, &["1:0"]);
    }
}
