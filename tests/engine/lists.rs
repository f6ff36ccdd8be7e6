//! Ready jobs as a list.

use delayd::engine::model::request::{Find, JobState, QueueName, Request, Side};
use delayd::ids::Db;
use delayd::limits::LISTED_MAX;

use crate::engine::bench::*;

const LEFT: Side = Side::Left;
const RIGHT: Side = Side::Right;

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
    bench.check(1, len("q", JobState::Ready), &[&format!("1:{}", 5 * count - 9)]);
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
    bench.check(1, len("q", JobState::Ready), &["1:10001"]);
    bench.check(1, Request::DeleteEqual { queue, body, from, count: 10_000 }, &["1:10000"]);

    let large = vec![b'y'; 4 << 20];
    bench.ask(9, push("r", RIGHT, &[&large, &large, &large, &large]));
    bench.take_events();
    bench.check(1, list("r"), &["1:ERR"]);
    let queue = QueueName { db: Db(0), name: b"r" };
    bench.ask(1, Request::Range { queue, start: 1, stop: 3 });
    assert_eq!(bench.take_events()[0].len(), 2 + 3 * (4 << 20) + 2);
}
