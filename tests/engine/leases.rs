//! Leases, tokens, retries, dead letters.

use delayd::engine::model::request::{Request, State, Wait, When};
use delayd::ids::Token;

use crate::bench::*;

fn leased(bench: &mut Bench, ids: &[&'static str]) {
    ids.iter().for_each(|id| bench.add(job("q", id, 0)));
    bench.ask(1, Request::Reserve(reserve(Q, Wait::No, ids.len() as u32)));
    bench.expect_events(&[&format!("1:{}#1", ids.join("#1 "))]);
    bench.sent(1);
}

#[test]
fn a_lease_that_is_over_gives_the_job_back_to_its_old_place_then_to_its_backoff() {
    let mut bench = Bench::new();
    leased(&mut bench, &["a"]);
    bench.add(job("q", "b", 0));
    bench.at(99);
    bench.check(2, peek("q", 9), &["2:b"]);
    bench.at(100);
    bench.check(2, peek("q", 9), &["2:a b"]);
    bench.check(2, Request::Reserve(reserve(Q, Wait::No, 1)), &["2:a#2"]);
    bench.at(200);
    // The second in a row waits as the backoff says, and has a new place then.
    bench.check(2, get("q", "a"), &["2:delayed due 1200 attempt 2"]);
    bench.at(1_200);
    bench.check(2, peek("q", 9), &["2:b a"]);
}

#[test]
fn an_answer_in_between_breaks_the_row() {
    let mut bench = Bench::new();
    leased(&mut bench, &["a"]);
    bench.at(100);
    bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 1)));
    bench.nack(1, "a", |nack| nack.uncounted = true);
    bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 1)));
    bench.expect_events(&["1:a#2", "1:1", "1:a#2"]);
    bench.at(200);
    bench.check(1, get("q", "a"), &["1:ready due 0 attempt 2"]);
}

#[test]
fn a_stale_token_affects_nothing() {
    let mut bench = Bench::new();
    leased(&mut bench, &["a"]);
    let old = bench.token("a");
    bench.at(100);
    bench.check(2, Request::Reserve(reserve(Q, Wait::No, 1)), &["2:a#2"]);
    assert!(bench.token("a") > old);
    for token in [old, Token(0), Token(u64::MAX)] {
        bench.ack(1, "a", token);
        bench.nack(1, "a", |nack| nack.token = token);
        let (queue, id) = (queue("q"), &b"a"[..]);
        bench.ask(1, Request::Extend { queue, id, token, lease_ms: 5_000 });
        bench.expect_events(&["1:0", "1:0", "1:nil"]);
    }
    bench.check(2, get("q", "a"), &["2:leased due 0 attempt 2 until 200"]);
}

#[test]
fn ack_is_late_but_valid_until_the_next_delivery_also_after_death_and_only_once() {
    let mut bench = Bench::new();
    leased(&mut bench, &["a"]);
    let mut add = job("q", "b", 0);
    add.attempts = Some(1);
    bench.add(add);
    bench.check(1, Request::Reserve(reserve(Q, Wait::No, 1)), &["1:b#1"]);
    bench.at(100);
    bench.check(1, get("q", "b"), &["1:dead due 0 attempt 1 timeout"]);
    let (a, b) = (bench.token("a"), bench.token("b"));
    // NACK and EXTEND need a running lease.
    bench.nack(1, "a", |_| ());
    bench.ask(1, Request::Extend { queue: queue("q"), id: b"a", token: a, lease_ms: 5 });
    bench.expect_events(&["1:0", "1:nil"]);
    let jobs = vec![(&b"a"[..], a), (b"b", b), (b"a", a)];
    bench.check(1, Request::Ack { queue: queue("q"), jobs }, &["1:2"]);
    bench.ack(1, "a", a);
    bench.expect_events(&["1:0"]);
    let totals = bench.stats("q").totals;
    assert_eq!((totals.acked, totals.timeouts, totals.died), (2, 2, 1));
    bench.check(1, Request::Exists { db: delayd::ids::Db(0), queues: Q }, &["1:0"]);
}

#[test]
fn nack_by_backoff_by_wish_buried_and_with_priority() {
    let mut bench = Bench::new();
    leased(&mut bench, &["a", "b", "c", "d"]);
    bench.add(job("q", "e", 0));
    bench.nack(1, "a", |_| ());
    bench.nack(1, "b", |nack| nack.when = Some(When::In(30)));
    bench.nack(1, "c", |nack| (nack.bury, nack.error) = (true, Some(&b"no"[..])));
    bench.nack(1, "d", |nack| (nack.when, nack.priority) = (Some(When::In(0)), Some(0)));
    bench.expect_events(&["1:1", "1:1", "1:1", "1:1"]);
    bench.check(1, get("q", "a"), &["1:delayed due 1000 attempt 1"]);
    bench.check(1, get("q", "b"), &["1:delayed due 30 attempt 1"]);
    bench.check(1, get("q", "c"), &["1:dead due 0 attempt 1 buried 'no'"]);
    bench.at(0);
    bench.check(1, peek("q", 2), &["1:d e"]);
    // Its token is void.
    let token = bench.token("a");
    bench.ack(1, "a", token);
    bench.expect_events(&["1:0"]);
}

#[test]
fn a_counted_nack_of_the_last_attempt_is_death_whatever_it_wishes() {
    let mut bench = Bench::new();
    let mut add = job("q", "a", 0);
    add.attempts = Some(1);
    bench.add(add);
    bench.check(1, Request::Reserve(reserve(Q, Wait::No, 1)), &["1:a#1"]);
    bench.nack(1, "a", |nack| nack.uncounted = true);
    bench.check(1, Request::Reserve(reserve(Q, Wait::No, 1)), &["1:1", "1:a#1"]);
    bench.nack(1, "a", |nack| nack.when = Some(When::In(30)));
    bench.check(1, get("q", "a"), &["1:1", "1:dead due 0 attempt 1 attempts"]);
}

#[test]
fn an_uncounted_nack_goes_back_to_the_old_place_and_to_who_waits_at_once() {
    let mut bench = Bench::new();
    leased(&mut bench, &["a"]);
    bench.add(job("q", "b", 0));
    bench.nack(1, "a", |nack| nack.uncounted = true);
    bench.check(1, peek("q", 9), &["1:1", "1:a b"]);
    bench.check(1, Request::Reserve(reserve(Q, Wait::No, 2)), &["1:a#1 b#1"]);
    bench.ask(2, Request::Reserve(reserve(Q, Wait::Forever, 1)));
    bench.nack(1, "b", |nack| nack.uncounted = true);
    bench.expect_events(&["1:1", "2:b#1"]);
}

#[test]
fn extend_counts_from_now_and_can_shorten() {
    let mut bench = Bench::new();
    leased(&mut bench, &["a"]);
    bench.at(50);
    let token = bench.token("a");
    let extend = |lease_ms| Request::Extend { queue: queue("q"), id: b"a", token, lease_ms };
    bench.check(1, extend(200), &[&format!("1:{}", BEGIN_MS + 250)]);
    bench.check(1, extend(10), &[&format!("1:{}", BEGIN_MS + 60)]);
    bench.at(60);
    bench.check(1, get("q", "a"), &["1:ready due 0 attempt 1"]);
}

#[test]
fn removing_a_queue_ends_its_leases_and_tokens_grow_on() {
    let mut bench = Bench::new();
    leased(&mut bench, &["a"]);
    let old = bench.token("a");
    bench.check(9, remove(Q), &["9:1"]);
    bench.ack(1, "a", old);
    bench.expect_events(&["1:0"]);
    leased(&mut bench, &["a"]);
    bench.ack(1, "a", old);
    bench.check(9, Request::Flush { db: None }, &["1:0", "9:ok"]);
    leased(&mut bench, &["a"]);
    bench.at(200);
    let tokens: Vec<Token> = bench.tokens.iter().map(|(_, token)| *token).collect();
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "{tokens:?}");
    bench.check(1, len("q", State::Ready), &["1:1"]);
}

#[test]
fn replace_reschedule_cancel_and_del_beside_a_lease() {
    let mut bench = Bench::new();
    leased(&mut bench, &["a", "b"]);
    let (a, b) = (bench.token("a"), bench.token("b"));
    bench.check(9, delete("q", &[b"a"]), &["9:0"]);
    bench.check(9, reschedule("q", "a", 5), &["9:0"]);
    bench.check(9, cancel("q", "a", false), &["9:leased"]);
    bench.check(9, cancel("q", "a", true), &["9:leased"]);
    bench.ack(1, "a", a);
    let mut add = job("q", "b", 0);
    add.taken = delayd::engine::model::request::Taken::Replace;
    bench.ask(9, Request::Add(add));
    bench.ack(1, "b", b);
    bench.expect_events(&["1:0", "9:b", "1:0"]);
    bench.check(1, get("q", "b"), &["1:ready due 0 attempt 0"]);
}

#[test]
fn reschedule_voids_the_token_of_a_lease_that_ran_out() {
    let mut bench = Bench::new();
    leased(&mut bench, &["a"]);
    bench.at(100);
    bench.check(9, reschedule("q", "a", 50), &["9:1"]);
    let token = bench.token("a");
    bench.ack(1, "a", token);
    bench.expect_events(&["1:0"]);
    bench.check(9, get("q", "a"), &["9:delayed due 150 attempt 1"]);
}
