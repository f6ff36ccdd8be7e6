//! Ready jobs as a list.

use std::collections::BTreeMap;

use delayd::engine::Outcome;
use delayd::engine::model::queue_settings::QueueSettings;
use delayd::engine::model::request::{
    Add, Find, ListPop, Move, Push, QueueName, Request, Shape, Side, State, Wait,
};
use delayd::ids::Db;
use delayd::limits::LISTED_MAX;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::bench::*;

const LEFT: Side = Side::Left;
const RIGHT: Side = Side::Right;

/// A list as Redis has it, but for the priorities: sorted by (priority, place).
#[derive(Default)]
struct Naive {
    jobs: Vec<(u8, i64, String)>,
    first: i64,
    last: i64,
}

impl Naive {
    fn push(&mut self, priority: u8, side: Side, body: &str) {
        let place = match side {
            LEFT => {
                self.first -= 1;
                self.first
            }
            RIGHT => {
                self.last += 1;
                self.last
            }
        };
        self.jobs.push((priority, place, body.into()));
        self.jobs.sort();
    }

    fn pop(&mut self, side: Side) -> Option<(u8, i64, String)> {
        match side {
            LEFT => (!self.jobs.is_empty()).then(|| self.jobs.remove(0)),
            RIGHT => self.jobs.pop(),
        }
    }

    fn bodies(&self) -> Vec<&str> {
        self.jobs.iter().map(|job| job.2.as_str()).collect()
    }

    fn range(&self, start: i64, stop: i64) -> Vec<&str> {
        let count = self.jobs.len() as i64;
        let from = |place: i64| if place < 0 { place + count } else { place };
        let (start, stop) = (from(start).max(0), from(stop).min(count - 1));
        if start > stop { vec![] } else { self.bodies()[start as usize..=stop as usize].to_vec() }
    }

    /// Places of equal ones, in the order in which they are met from a side.
    fn places(&self, body: &str, from: Side) -> Vec<usize> {
        let places = (0..self.jobs.len()).filter(|at| self.jobs[*at].2 == body);
        match from {
            LEFT => places.collect(),
            RIGHT => places.rev().collect(),
        }
    }
}

fn side(rng: &mut SmallRng) -> Side {
    if rng.random() { LEFT } else { RIGHT }
}

/// Random list commands against the naive lists, with jobs that come with other priorities and that come
/// back from leases to their old places in between.
#[test]
fn random_list_commands_do_what_a_list_does() {
    for seed in 0..60 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut bench = Bench::new();
        let mut lists: BTreeMap<&'static str, Naive> = BTreeMap::new();
        let mut leased: Vec<(&'static str, String, (u8, i64, String))> = Vec::new();
        let mut number = 0;
        for step in 0..rng.random_range(20..600) {
            let name = ["a", "b"][rng.random_range(0..2)];
            let list = lists.entry(name).or_default();
            let body = format!("{}", rng.random_range(0..6));
            let at = |rng: &mut SmallRng, len: usize| {
                let len = len as i64;
                rng.random_range(-len - 2..=len + 2)
            };
            let (request, expected) = match rng.random_range(0..12) {
                0..3 => {
                    let side = side(&mut rng);
                    let bodies = vec![body; rng.random_range(1..40)];
                    bodies.iter().for_each(|body| list.push(5, side, body));
                    let words: Vec<&[u8]> = bodies.iter().map(|body| body.as_bytes()).collect();
                    bench.ask(1, push(name, side, &words));
                    bench.expect_events(&[&format!("1:{}", list.jobs.len())]);
                    continue;
                }
                3 => {
                    number += 1;
                    let id: &'static str = format!("j{number}").leak();
                    let mut add = job(name, id, 0);
                    let priority = rng.random_range(0..=9);
                    (add.priority, add.body) = (Some(priority), body.clone().leak().as_bytes());
                    bench.add(add);
                    list.push(priority, RIGHT, &body);
                    continue;
                }
                4 => {
                    let (side, count) = (side(&mut rng), rng.random_range(1..20));
                    let taken: Vec<_> = (0..count).map_while(|_| list.pop(side)).collect();
                    let said: Vec<String> = taken.into_iter().map(|job| job.2).collect();
                    let shape = Shape::Values;
                    let queues: &'static [&'static [u8]] =
                        if name == "a" { &[b"a"] } else { &[b"b"] };
                    let wait = Wait::No;
                    let pop = ListPop { db: Db(0), queues, side, count, shape, wait };
                    let said = if said.is_empty() { "nil".into() } else { said.join(" ") };
                    (Request::ListPop(pop), said)
                }
                5 => {
                    let (take, put) = (side(&mut rng), side(&mut rng));
                    let to = ["a", "b"][rng.random_range(0..2)];
                    let moved = list.pop(take);
                    if let Some((_, _, body)) = &moved {
                        lists.entry(to).or_default().push(5, put, body);
                    }
                    let said = moved.map_or("nil".into(), |job| job.2);
                    (rotate(name, to, (take, put), Wait::No), said)
                }
                6 => {
                    let (start, stop) =
                        (at(&mut rng, list.jobs.len()), at(&mut rng, list.jobs.len()));
                    let said = list.range(start, stop).join(" ");
                    (Request::Range { queue: queue(name), start, stop }, said)
                }
                7 => {
                    let place = at(&mut rng, list.jobs.len());
                    let said = list.range(place, place);
                    let inside = place < list.jobs.len() as i64 && -place <= list.jobs.len() as i64;
                    let said = if inside { said[0].to_string() } else { "nil".into() };
                    (Request::At { queue: queue(name), place }, said)
                }
                8 => {
                    let (from, skipped) = (side(&mut rng), rng.random_range(0..3));
                    let count = [None, Some(0), Some(2)][rng.random_range(0..3)];
                    let most = [0, 7][rng.random_range(0..2)];
                    let mut places = list.places(&body, from);
                    let (end, len) = (most as usize, list.jobs.len());
                    places.retain(|place| {
                        let looked_at = if from == LEFT { *place } else { len - 1 - place };
                        most == 0 || looked_at < end
                    });
                    let wanted = match count {
                        None => 1,
                        Some(0) => usize::MAX,
                        Some(count) => count as usize,
                    };
                    let found: Vec<_> =
                        places.into_iter().skip(skipped as usize).take(wanted).collect();
                    let said = match count {
                        Some(_) => format!("{found:?}"),
                        None => found.first().map_or("nil".into(), ToString::to_string),
                    };
                    let (queue, inspected_max) = (queue(name), most);
                    let body = body.leak().as_bytes();
                    (Request::Find(Find { queue, body, from, skipped, count, inspected_max }), said)
                }
                9 => {
                    let (from, count) = (side(&mut rng), rng.random_range(0..4));
                    let mut places = list.places(&body, from);
                    places.truncate(if count == 0 { usize::MAX } else { count as usize });
                    places.sort_unstable();
                    places.iter().rev().for_each(|place| drop(list.jobs.remove(*place)));
                    let (queue, body) = (queue(name), body.leak().as_bytes());
                    (Request::DeleteEqual { queue, body, from, count }, places.len().to_string())
                }
                10 => {
                    // Taken with a lease: what has an id of its own is given back later.
                    let queues: &'static [&'static [u8]] =
                        if name == "a" { &[b"a"] } else { &[b"b"] };
                    bench.ask(1, Request::Reserve(reserve(queues, Wait::No, 1)));
                    let expect_events = bench.take_events().remove(0);
                    if let Some(job) = list.pop(LEFT) {
                        let id = expect_events["1:".len()..].split('#').next().unwrap().to_string();
                        leased.push((name, id, job));
                    }
                    continue;
                }
                _ => {
                    if leased.is_empty() {
                        continue;
                    }
                    let (name, id, job) = leased.swap_remove(rng.random_range(0..leased.len()));
                    let id: &'static str = id.leak();
                    bench.nack(1, id, |nack| {
                        (nack.queue, nack.uncounted) = (queue(name), true);
                    });
                    bench.expect_events(&["1:1"]);
                    let list = lists.entry(name).or_default();
                    list.jobs.push(job);
                    list.jobs.sort();
                    continue;
                }
            };
            bench.ask(1, request.clone());
            let expect_events = bench.take_events();
            assert_eq!(
                expect_events,
                [format!("1:{expected}")],
                "seed {seed}, step {step}: {request:?}"
            );
        }
        for (name, naive) in &lists {
            bench.check(1, list(name), &[&format!("1:{}", naive.bodies().join(" "))]);
            bench.check(1, len(name, State::Ready), &[&format!("1:{}", naive.jobs.len())]);
        }
    }
}

#[test]
fn who_waits_is_served_in_one_line_each_from_his_own_end() {
    let mut bench = Bench::new();
    bench.ask(1, list_pop(Q, RIGHT, 1, Wait::Forever));
    bench.ask(2, Request::Reserve(reserve(Q, Wait::Forever, 1)));
    bench.ask(3, list_pop(Q, LEFT, 2, Wait::Forever));
    bench.ask(4, pop(Q, Wait::Forever));
    // After the whole command: who came first has the right end of all that was pushed.
    bench.ask(9, push("q", LEFT, &[b"a", b"b", b"c", b"d", b"e"]));
    let expect_events = bench.take_events();
    assert_eq!(expect_events[..2], ["9:5", "1:a"]);
    assert!(
        expect_events[2].starts_with("2:") && expect_events[2].ends_with("#1"),
        "{expect_events:?}"
    );
    assert_eq!(expect_events[3], "3:d c");
    assert!(expect_events[4].starts_with("4:"), "{expect_events:?}");
    bench.check(5, list("q"), &["5:"]);
}

#[test]
fn a_push_of_several_wakes_with_the_last_at_its_end() {
    let mut bench = Bench::new();
    bench.ask(1, list_pop(Q, LEFT, 1, Wait::Forever));
    bench.check(9, push("q", LEFT, &[b"a", b"b", b"c"]), &["9:3", "1:c"]);
    bench.ask(1, list_pop(&[b"r"], RIGHT, 1, Wait::Forever));
    bench.check(9, push("r", RIGHT, &[b"1", b"2", b"3"]), &["9:3", "1:3"]);
}

#[test]
fn a_move_to_a_queue_that_is_waited_for_serves_it_in_the_same_step() {
    let mut bench = Bench::new();
    bench.ask(1, rotate("q", "r", (LEFT, RIGHT), Wait::Forever));
    bench.ask(2, rotate("r", "s", (LEFT, RIGHT), Wait::Forever));
    bench.ask(3, list_pop(&[b"s"], LEFT, 1, Wait::Forever));
    bench.check(9, push("q", LEFT, &[b"x"]), &["9:1", "1:x", "2:x", "3:x"]);
    // Round in one queue: everybody sees it, and it is there still.
    bench.ask(1, rotate("q", "q", (LEFT, LEFT), Wait::Forever));
    bench.ask(2, rotate("q", "q", (RIGHT, LEFT), Wait::Forever));
    bench.check(9, push("q", LEFT, &[b"y"]), &["9:1", "1:y", "2:y"]);
    bench.check(9, list("q"), &["9:y"]);
    assert_eq!(bench.stats("q").totals.added, 4);
}

/// What falls due while a request looks at its queues is moved by a waiter to one that it has passed: it
/// stands in line there by then and is served at the end of its own step.
#[test]
fn who_begins_to_wait_may_be_served_in_the_same_step() {
    let mut bench = Bench::new();
    bench.ask(1, rotate("q", "r", (LEFT, RIGHT), Wait::Forever));
    bench.ask(9, Request::Add(Add { body: b"x", ..job("q", "j", 5) }));
    bench.expect_events(&["9:j"]);
    bench.at_ms += 5;
    let outcome = bench.ask(2, list_pop(&[b"r", b"q"], LEFT, 1, Wait::Forever));
    assert_eq!(outcome, Outcome::Replied);
    bench.expect_events(&["1:x", "2:x"]);
    // It does not wait any more.
    bench.check(2, len("r", State::Ready), &["2:0"]);
}

#[test]
fn a_move_that_is_refused_leaves_the_job_and_tells_whoever_asked() {
    let mut bench = Bench::with(|settings| settings.memory_bytes_max = 3_000);
    bench.ask(1, rotate("q", "r", (LEFT, RIGHT), Wait::Forever));
    bench.ask(2, list_pop(Q, LEFT, 1, Wait::Forever));
    let body = [b'x'; 1_500];
    // The destination is not there yet and has no room beside the body that is there still.
    bench.ask(9, push("q", LEFT, &[&body]));
    let expect_events = bench.take_events();
    assert_eq!((expect_events[0].as_str(), expect_events[1].as_str()), ("9:1", "1:OOM"));
    assert_eq!(expect_events[2], format!("2:{}", "x".repeat(1_500)), "the next in line");
    assert_eq!(bench.engine.waiter_count(), 0);
    bench.sent(2);
    bench.ask(9, push("q", LEFT, &[&body]));
    bench.take_events();
    bench.check(1, rotate("q", "r", (LEFT, RIGHT), Wait::No), &["1:OOM"]);
    bench.check(1, len("q", State::Ready), &["1:1"]);
    // Round in one queue it makes nothing fuller.
    bench.ask(1, rotate("q", "q", (LEFT, RIGHT), Wait::No));
    assert_eq!(bench.take_events(), [format!("1:{}", "x".repeat(1_500))]);
}

#[test]
fn a_list_pop_whose_reply_never_left_goes_back_to_its_old_place() {
    let mut bench = Bench::new();
    bench.ask(9, push("q", RIGHT, &[b"a", b"b", b"c", b"d"]));
    bench.ask(9, push("q", LEFT, &[b"z"]));
    bench.ask(1, list_pop(Q, LEFT, 3, Wait::No));
    bench.ask(2, list_pop(Q, RIGHT, 1, Wait::No));
    bench.ask(9, push("q", LEFT, &[b"y"]));
    bench.take_events();
    bench.unsent(1);
    bench.unsent(2);
    bench.check(9, list("q"), &["9:y z a b c d"]);
    // Moved, it is in the other queue, whether the reply leaves or not.
    bench.ask(3, rotate("q", "r", (LEFT, LEFT), Wait::No));
    bench.take_events();
    bench.unsent(3);
    bench.check(9, list("r"), &["9:y"]);
    bench.check(9, list("q"), &["9:z a b c d"]);
}

#[test]
fn a_pop_takes_of_one_queue_and_its_count_of_none_takes_none() {
    let mut bench = Bench::new();
    bench.ask(9, push("b", RIGHT, &[b"1", b"2"]));
    bench.ask(9, push("c", RIGHT, &[b"3"]));
    bench.take_events();
    bench.check(1, list_pop(&[b"a", b"b", b"c"], LEFT, 10, Wait::No), &["1:1 2"]);
    let none = |queues| {
        let (side, count, shape, wait) = (LEFT, 0, Shape::Values, Wait::No);
        Request::ListPop(ListPop { db: Db(0), queues, side, count, shape, wait })
    };
    bench.check(1, none(&[b"c"]), &["1:"]);
    bench.check(1, none(&[b"b"]), &["1:nil"]);
    bench.check(1, list_pop(&[b"a", b"b"], LEFT, 10, Wait::No), &["1:nil"]);
}

#[test]
fn lpushx_wants_a_queue_that_exists() {
    let mut bench = Bench::new();
    let pushx = |side| {
        let queue = queue("q");
        Request::Push(Push { queue, bodies: &[b"a"], side, only_existing: true })
    };
    bench.check(1, pushx(LEFT), &["1:0"]);
    // A queue with only future jobs exists.
    bench.add(job("q", "later", 10_000));
    bench.check(1, pushx(RIGHT), &["1:1"]);
}

#[test]
fn jobs_that_expired_are_passed_over() {
    let mut bench = Bench::new();
    let mut add = job("q", "short", 0);
    (add.ttl_ms, add.body) = (Some(10), b"short");
    bench.add(add);
    bench.ask(9, push("q", RIGHT, &[b"long"]));
    bench.take_events();
    bench.at_ms = 10;
    bench.check(1, rotate("q", "r", (LEFT, LEFT), Wait::No), &["1:long"]);
    assert_eq!(bench.stats("q").totals.expired, 1);
}

/// A list of any length holds nobody up: what is beyond the bound is refused, and nothing is removed then.
#[test]
fn there_is_an_end_to_what_one_command_looks_at() {
    let mut bench = Bench::new();
    let words: Vec<&[u8]> = vec![b"x"; LISTED_MAX as usize - 1];
    bench.ask(9, push("q", RIGHT, &words));
    bench.ask(9, push("q", RIGHT, &[b"last", b"after"]));
    bench.take_events();
    let (queue, count) = (queue("q"), LISTED_MAX as i64 + 1);
    let find = |body: &'static str, from, inspected_max| {
        let (body, skipped, count) = (body.as_bytes(), 0, None);
        Request::Find(Find { queue, body, from, skipped, count, inspected_max })
    };
    bench.check(1, find("last", LEFT, 0), &[&format!("1:{}", count - 2)]);
    bench.check(1, find("after", LEFT, 0), &["1:ERR"]);
    bench.check(1, find("after", LEFT, LISTED_MAX), &["1:nil"]);
    bench.check(1, find("after", RIGHT, 0), &[&format!("1:{}", count - 1)]);
    let range = |start, stop| Request::Range { queue, start, stop };
    bench.check(1, range(0, -1), &["1:ERR"]);
    bench.check(1, range(-2, -1), &["1:last after"]);
    bench.ask(1, range(1, -1));
    assert_eq!(
        bench.take_events()[0].len(),
        "1:".len() + 2 * (count - 3) as usize + "last after".len()
    );
    // What is passed over counts for less, from the nearer side.
    for _ in 0..4 {
        bench.ask(9, push("q", RIGHT, &words));
    }
    bench.take_events();
    bench.check(1, Request::At { queue, place: count - 1 }, &["1:after"]);
    bench.check(1, Request::Range { queue, start: count - 2, stop: count - 1 }, &["1:last after"]);
    // EXEC has bounded it before.
    bench.ask_in_transaction(1, find("after", LEFT, 0));
    bench.expect_events(&[&format!("1:{}", count - 1)]);

    let delete = |body: &'static str, from, count| {
        let body = body.as_bytes();
        Request::DeleteEqual { queue, body, from, count }
    };
    bench.check(1, delete("last", LEFT, 0), &["1:ERR"]);
    bench.check(1, delete("last", LEFT, 1), &["1:1"]);
    bench.check(1, delete("after", RIGHT, 1), &["1:ERR"]);
    bench.check(1, len("q", State::Ready), &[&format!("1:{}", 5 * count - 9)]);
}

/// Bodies that differ in their last byte are compared as a whole.
#[test]
fn long_bodies_count_for_several_jobs() {
    let mut bench = Bench::new();
    let body = vec![b'y'; 1 << 20];
    let words: Vec<&[u8]> = vec![&body; 32];
    for _ in 0..4 {
        bench.ask(9, push("q", RIGHT, &words));
    }
    bench.take_events();
    let mut other = body.clone();
    *other.last_mut().unwrap() = b'z';
    let queue = queue("q");
    let delete = |body, count| Request::DeleteEqual { queue, body, from: LEFT, count };
    bench.check(1, delete(&other.clone().leak()[..], 0), &["1:ERR"]);
    bench.check(1, delete(b"z", 0), &["1:0"]);
    bench.check(1, delete(&body.clone().leak()[..], 3), &["1:3"]);
}

#[test]
fn what_is_due_enters_left_where_that_is_set_and_pop_takes_from_the_right() {
    let mut bench = Bench::new();
    let due_enters = Some(LEFT);
    bench.configure("q", QueueSettings { due_enters, ..QueueSettings::default() });
    for (id, delay_ms) in [("a", 10), ("b", 10), ("c", 5), ("d", 0)] {
        bench.add(job("q", id, delay_ms));
    }
    let mut first = job("q", "urgent", 20);
    first.priority = Some(9);
    bench.add(first);
    bench.at(20);
    bench.check(1, peek("q", 10), &["1:urgent d c a b"]);
    bench.check(1, reschedule("q", "d", 0), &["1:1"]);
    bench.check(1, peek("q", 10), &["1:urgent c a b d"]);
    bench.check(1, Request::Reserve(reserve(Q, Wait::No, 2)), &["1:urgent#1 c#1"]);
    bench.nack(1, "c", |nack| nack.uncounted = true);
    bench.expect_events(&["1:1"]);
    bench.check(1, pop(Q, Wait::No), &["1:c"]);
    // LPUSH and BRPOP are a FIFO with it.
    bench.ask(9, push("q", LEFT, &[b"last"]));
    bench.take_events();
    bench.check(1, list("q"), &["1:last body body body"]);
    bench.check(1, pop(Q, Wait::No), &["1:a"]);
    // Who waits gets what fell due, and it counts as prompt.
    bench.ask(2, list_pop(Q, LEFT, 10, Wait::No));
    bench.take_events();
    bench.ask(1, pop(Q, Wait::Forever));
    bench.add(job("q", "e", 10));
    bench.at(30);
    bench.expect_events(&["1:e"]);
    assert_eq!(bench.stats("q").lateness_us[3], 0);
    assert_eq!(bench.stats("q").totals.delivered, 8);
}

#[test]
fn a_move_between_databases_does_not_happen() {
    let mut bench = Bench::new();
    let other = QueueName { db: Db(1), name: b"q" };
    let bodies: &[&[u8]] = &[b"there"];
    let (side, only_existing) = (LEFT, false);
    bench.ask(1, Request::Push(Push { queue: other, bodies, side, only_existing }));
    bench.take_events();
    let (db, from, to, wait) = (Db(0), &b"q"[..], &b"r"[..], Wait::No);
    let of = Move { db, from, to, take: LEFT, put: LEFT, wait };
    bench.check(1, Request::Move(of), &["1:nil"]);
}

#[test]
fn what_is_too_much_for_one_reply_or_one_step_is_refused() {
    let mut bench = Bench::new();
    let words: Vec<&[u8]> = vec![b"x"; 10_001];
    bench.ask(9, push("q", RIGHT, &words));
    let (from, body, skipped, inspected_max) = (LEFT, &b"x"[..], 0, 0);
    let (all, queue) = (Some(0), queue("q"));
    let find = Request::Find(Find { queue, body, from, skipped, count: all, inspected_max });
    let remove = Request::DeleteEqual { queue, body, from, count: 0 };
    bench.take_events();
    bench.check(1, find, &["1:ERR"]);
    bench.check(1, remove, &["1:ERR"]);
    bench.check(1, len("q", State::Ready), &["1:10001"]);
    bench.check(1, Request::DeleteEqual { queue, body, from, count: 10_000 }, &["1:10000"]);

    let large = vec![b'y'; 4 << 20];
    bench.ask(9, push("r", RIGHT, &[&large, &large, &large, &large]));
    bench.take_events();
    bench.check(1, list("r"), &["1:ERR"]);
    let queue = QueueName { db: Db(0), name: b"r" };
    bench.ask(1, Request::Range { queue, start: 1, stop: 3 });
    assert_eq!(bench.take_events()[0].len(), 2 + 3 * (4 << 20) + 2);
}
