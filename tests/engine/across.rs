//! QUEUES and FIND against a model, in slices; SCAN's filters; the newest dead letters.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use delayd::engine::Outcome;
use delayd::engine::model::across::{Locate, Order, QueueRow, Queues, Readable};
use delayd::engine::model::bulk::Filter;
use delayd::engine::model::request::{
    Add, JobState, Nack, QueueName, Request, Reserve, Scan, Wait,
};
use delayd::engine::model::walk::Cursor;
use delayd::glob;
use delayd::ids::Db;
use delayd::limits::ACROSS_PER_TURN;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::engine::bench::*;

const DB: Db = Db(0);

fn queues(order: Order, count: u32) -> Queues<'static> {
    Queues { db: DB, readable: None, pattern: None, order, count, after: None }
}

fn locate(id: &[u8], count: u32) -> Request<'_> {
    Request::Locate(Locate { db: DB, readable: None, id, count })
}

fn of(name: &str) -> QueueName<'_> {
    QueueName { db: DB, name: name.as_bytes() }
}

/// Asks until it is answered; how many turns that took.
fn slices(bench: &mut Bench, client: u64, request: &Request<'_>) -> usize {
    let mut slices = 1;
    while bench.ask(client, request.clone()) == Outcome::Again {
        slices += 1;
    }
    slices
}

/// Queues with jobs in all states; their names in the order in which they were made.
fn many(bench: &mut Bench, rng: &mut SmallRng, count: usize) -> Vec<String> {
    let name = |number: usize| format!("q{:x}", (number * 7_919) % 100_003);
    let names: Vec<String> = (0..count).map(name).collect();
    for name in &names {
        let queue = of(name);
        for number in 0..rng.random_range(1..6) {
            let delay_ms = if rng.random() { 0 } else { rng.random_range(1_000..9_000) };
            let id = format!("j{}", rng.random_range(0..200) * 10 + number);
            bench.at_ms += u64::from(rng.random_ratio(1, 50));
            bench.add(Add { id: Some(id.as_bytes()), queue, ..job("q", "-", delay_ms) });
        }
        if rng.random_ratio(1, 3) {
            let names = [name.as_bytes()];
            let reserve = Reserve { lease_ms: Some(600_000), ..reserve(Q, Wait::No, 1) };
            bench.ask(1, Request::Reserve(Reserve { queues: &names, ..reserve }));
        }
        bench.take_events();
    }
    // What is due meanwhile has fallen due.
    bench.at(bench.at_ms);
    names
}

/// The rows as STATS has them, of names that match.
fn model(bench: &mut Bench, names: &[String], fits: impl Fn(&str) -> bool) -> Vec<QueueRow> {
    let mut rows = Vec::new();
    for name in names.iter().filter(|name| fits(name)) {
        bench.ask(2, Request::Stats { queue: of(name) });
        let stats = bench.stats.take().expect("it is there");
        let now_ms = BEGIN_MS + bench.at_ms;
        rows.push(QueueRow {
            name: name.as_bytes().into(),
            counts: [stats.delayed, stats.ready, stats.leased, stats.dead],
            waiters: stats.waiters,
            paused: stats.paused,
            next_due: stats.next_due,
            oldest_ready: stats
                .oldest_ready_age_ms
                .map(|age_ms| delayd::time::Millis(now_ms - age_ms)),
            oldest_ready_age_ms: stats.oldest_ready_age_ms,
            bytes: stats.bytes,
            lateness_p99_us: stats.lateness_us[1],
            schedules: stats.schedules,
            groups: stats.groups,
            last_reserve: stats.last_reserve.map(|last| last.at),
        });
    }
    bench.take_events();
    rows
}

fn sort(rows: &mut [QueueRow], order: Order) {
    let key = |row: &QueueRow| match order {
        Order::Name => 0,
        Order::Delayed => row.counts[0],
        Order::Ready => row.counts[1],
        Order::Leased => row.counts[2],
        Order::Dead => row.counts[3],
        Order::Age => row.oldest_ready_age_ms.map_or(0, |age_ms| age_ms + 1),
        Order::Bytes => row.bytes,
        Order::Schedules => row.schedules,
    };
    rows.sort_by(|one, other| {
        (Reverse(key(one)), &one.name).cmp(&(Reverse(key(other)), &other.name))
    });
}

#[test]
fn queues_in_every_order_are_the_first_of_all_sorted() {
    for seed in 0..3 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut bench = Bench::new();
        let names = many(&mut bench, &mut rng, 2 * ACROSS_PER_TURN);
        let mut all = model(&mut bench, &names, |_| true);
        let some = model(&mut bench, &names, |name| glob::matches(b"q*1*", name.as_bytes()));
        for order in Order::ALL {
            let count = rng.random_range(1..1_000);
            let asked = Request::Queues(queues(order, count));
            assert!(slices(&mut bench, 1, &asked) >= 2, "{order:?} is cut into slices");
            sort(&mut all, order);
            assert_eq!(bench.rows(), all[..count as usize], "{order:?}");
            let matching = Queues { pattern: Some(b"q*1*"), ..queues(order, count) };
            slices(&mut bench, 1, &Request::Queues(matching));
            let mut some = some.clone();
            sort(&mut some, order);
            some.truncate(count as usize);
            assert_eq!(bench.rows(), some, "{order:?} MATCH");
        }
    }
}

#[test]
fn pages_by_name_show_each_queue_once() {
    let (mut bench, mut rng) = (Bench::new(), SmallRng::seed_from_u64(7));
    let names = many(&mut bench, &mut rng, 1_500);
    let (mut seen, mut after) = (Vec::new(), Vec::new());
    loop {
        let page = Queues { after: Some(&after), ..queues(Order::Name, 97) };
        slices(&mut bench, 1, &Request::Queues(page));
        let rows = bench.rows();
        let Some(last) = rows.last() else { break };
        after = last.name.to_vec();
        seen.extend(rows.into_iter().map(|row| String::from_utf8(row.name.into()).expect("text")));
    }
    let mut names = names;
    names.sort();
    assert_eq!(seen, names);
}

#[test]
fn only_what_can_be_read_is_shown_and_rights_that_go_meanwhile_count() {
    let (mut bench, mut rng) = (Bench::new(), SmallRng::seed_from_u64(8));
    let names = many(&mut bench, &mut rng, 2 * ACROSS_PER_TURN);
    let globs: [&[u8]; 2] = [b"q1*", b"qf?"];
    let fits = |name: &str| globs.iter().any(|glob| glob::matches(glob, name.as_bytes()));
    let mut expected = model(&mut bench, &names, fits);
    sort(&mut expected, Order::Ready);
    let asked = |readable: Readable<'static>| Queues { readable, ..queues(Order::Ready, 1_000) };
    // Begun by somebody who may read all.
    assert_eq!(bench.ask(1, Request::Queues(asked(None))), Outcome::Again);
    let readable: &[&[u8]] = &[b"q1*", b"qf?"];
    let asked = Request::Queues(asked(Some(readable)));
    assert!(slices(&mut bench, 1, &asked) >= 2, "it begins anew");
    expected.truncate(1_000);
    assert_eq!(bench.rows(), expected);
    let nothing = Queues { readable: Some(&[]), ..queues(Order::Name, 9) };
    slices(&mut bench, 1, &Request::Queues(nothing));
    assert_eq!(bench.rows(), []);
    let found = Locate { db: DB, readable: Some(&[b"none*"]), id: b"j10", count: 9 };
    bench.take_events();
    slices(&mut bench, 1, &Request::Locate(found));
    bench.expect_events(&["1:"]);
}

#[test]
fn find_shows_what_get_shows_in_each_queue() {
    let (mut bench, mut rng) = (Bench::new(), SmallRng::seed_from_u64(9));
    let mut names = many(&mut bench, &mut rng, 3_000);
    names.sort();
    for number in [0, 11, 500, 1_993, 70_000] {
        let id = format!("j{number}");
        let mut expected = Vec::new();
        for name in &names {
            bench.ask(2, Request::Get { queue: of(name), id: id.as_bytes() });
            let said = bench.take_events().remove(0);
            if said != "2:nil" {
                let words: Vec<&str> = said[2..].split(' ').collect();
                expected.push(format!("{name} {} {}", words[0], words[2]));
            }
        }
        assert!(slices(&mut bench, 1, &locate(id.as_bytes(), 1_000)) >= 2);
        bench.expect_events(&[&format!("1:{}", expected.join(", "))]);
        if expected.len() > 3 {
            slices(&mut bench, 1, &locate(id.as_bytes(), 3));
            let said = bench.take_events().remove(0);
            let few: Vec<&str> = said[2..].split(", ").collect();
            assert_eq!(few.len(), 3);
            assert!(few.iter().all(|row| expected.iter().any(|one| one == row)), "{few:?}");
        }
    }
}

#[test]
fn queues_that_come_and_go_meanwhile_hide_none_that_stay() {
    let (mut bench, mut rng) = (Bench::new(), SmallRng::seed_from_u64(10));
    let names = many(&mut bench, &mut rng, 4 * ACROSS_PER_TURN);
    let mut gone = BTreeSet::new();
    let mut found = Vec::new();
    for name in &names {
        bench.add(Add { id: Some(b"here"), queue: of(name), ..job("q", "-", 60_000) });
    }
    while bench.ask(1, locate(b"here", 1_000)) == Outcome::Again {
        for _ in 0..50 {
            let name = &names[rng.random_range(0..names.len())];
            bench.ask(3, Request::Remove { db: DB, queues: &[name.as_bytes()] });
            gone.insert(name.clone());
            let new = format!("new{}", rng.random_range(0..1_000_000));
            bench.add(Add { id: Some(b"x"), queue: of(&new), ..job("q", "-", 0) });
        }
        bench.take_events();
        found.clear();
    }
    let said = bench.take_events().remove(0);
    found
        .extend(said[2..].split(", ").map(|row| row.split(' ').next().expect("a name").to_owned()));
    assert_eq!(found.len(), 1_000);
    let once: BTreeSet<_> = found.iter().collect();
    assert_eq!(once.len(), 1_000, "each once");
    // By name, all pages: whoever stayed is there.
    let (mut seen, mut after) = (BTreeSet::new(), Vec::new());
    loop {
        let page = Queues { after: Some(&after), ..queues(Order::Name, 1_000) };
        slices(&mut bench, 1, &Request::Queues(page));
        let rows = bench.rows();
        let Some(last) = rows.last() else { break };
        after = last.name.to_vec();
        seen.extend(rows.into_iter().map(|row| String::from_utf8(row.name.into()).expect("text")));
    }
    for name in names.iter().filter(|name| !gone.contains(*name)) {
        assert!(seen.contains(name), "{name}");
    }
}

#[test]
fn a_client_that_goes_leaves_nothing_behind() {
    let (mut bench, mut rng) = (Bench::new(), SmallRng::seed_from_u64(11));
    let names = many(&mut bench, &mut rng, 2 * ACROSS_PER_TURN);
    assert_eq!(bench.ask(1, Request::Queues(queues(Order::Ready, 5))), Outcome::Again);
    bench.closed(1);
    let mut expected = model(&mut bench, &names, |_| true);
    sort(&mut expected, Order::Delayed);
    slices(&mut bench, 1, &Request::Queues(queues(Order::Delayed, 5)));
    assert_eq!(bench.rows(), expected[..5]);
}

#[test]
fn in_a_transaction_they_are_answered_at_once_or_refused_whole() {
    let (mut bench, mut rng) = (Bench::new(), SmallRng::seed_from_u64(12));
    let names = many(&mut bench, &mut rng, 3_000);
    let asked = [Request::Queues(queues(Order::Bytes, 9)), locate(b"j10", 9)];
    let begun = bench.transact(1, &asked);
    let TransactionBegun::Begun(needs) = begun else { panic!("{begun:?}") };
    assert!(needs.entries >= 2 * names.len() as u64, "{needs:?}");
    let mut expected = model(&mut bench, &names, |_| true);
    sort(&mut expected, Order::Bytes);
    assert_eq!(bench.rows(), expected[..9]);
    let many = vec![Request::Queues(queues(Order::Name, 1)); 20];
    let said = bench.refusal(1, &many);
    assert!(said.contains("40000"), "{said}");
}

#[test]
fn a_scan_finds_by_due_time_and_text_what_a_model_finds() {
    let (mut bench, mut rng) = (Bench::new(), SmallRng::seed_from_u64(13));
    let mut jobs = Vec::new();
    for number in 0..5_000 {
        let (delay_ms, mark) = (rng.random_range(0..50_000), rng.random_range(0..100));
        let (id, body) = (format!("j{number}"), format!("a body with <{mark}> in it"));
        bench.add(Add {
            body: body.as_bytes(),
            id: Some(id.as_bytes()),
            ..job("q", "-", delay_ms)
        });
        jobs.push((id, delay_ms, mark));
    }
    let begin = Scan::new(queue("q"), Cursor::BEGIN, 700);
    let due = (BEGIN_MS + 10_000, BEGIN_MS + 20_000);
    let all = |filter: Filter<'static>, bench: &mut Bench| {
        let (mut scan, mut ids) = (Scan { filter, ..begin }, Vec::new());
        loop {
            bench.ask(1, Request::Scan(scan));
            let said = bench.take_events().remove(0);
            ids.extend(said[2..].split(' ').filter(|id| !id.is_empty()).map(str::to_owned));
            scan.cursor = Cursor(bench.cursor());
            if scan.cursor == Cursor::END {
                ids.sort();
                return ids;
            }
        }
    };
    let expected = |fits: &dyn Fn(&(String, u64, u32)) -> bool| {
        let mut ids: Vec<String> =
            jobs.iter().filter(|job| fits(job)).map(|job| job.0.clone()).collect();
        ids.sort();
        ids
    };
    let is_due = |job: &(String, u64, u32)| (10_000..20_000).contains(&job.1);
    assert_eq!(all(Filter { due: Some(due), ..Filter::default() }, &mut bench), expected(&is_due));
    let contains = Some(&b"<7>"[..]);
    assert_eq!(
        all(Filter { contains, ..Filter::default() }, &mut bench),
        expected(&|job| job.2 == 7)
    );
    let both =
        Filter { contains, due: Some(due), state: Some(JobState::Delayed), ..Filter::default() };
    assert_eq!(all(both, &mut bench), expected(&|job| is_due(job) && job.2 == 7));
    let ready = Filter { due: Some(due), state: Some(JobState::Ready), ..Filter::default() };
    assert_eq!(all(ready, &mut bench), Vec::<String>::new());
    // In the id, and in the text of a NACK.
    let contains = Some(&b"j4999"[..]);
    assert_eq!(all(Filter { contains, ..Filter::default() }, &mut bench), ["j4999"]);
    bench.add(job("q", "lost", 0));
    bench.ask(5, Request::Reserve(reserve(Q, Wait::No, 10_000)));
    bench.nack(5, "lost", |nack| (nack.bury, nack.error) = (true, Some(&b"503 from bank"[..])));
    bench.take_events();
    let contains = Some(&b"from bank"[..]);
    assert_eq!(all(Filter { contains, ..Filter::default() }, &mut bench), ["lost"]);
}

#[test]
fn a_step_of_a_search_ends_when_it_has_read_much() {
    let mut bench = Bench::new();
    let body = vec![b'x'; 4 << 20];
    for number in 0..12_u8 {
        bench.add(Add { id: Some(&[b'a' + number]), body: &body, ..job("q", "-", 0) });
    }
    let (mut scan, mut steps) = (Scan::new(queue("q"), Cursor::BEGIN, 10_000), 0);
    scan.filter.contains = Some(b"y");
    loop {
        bench.ask(1, Request::Scan(scan));
        steps += 1;
        scan.cursor = Cursor(bench.cursor());
        if scan.cursor == Cursor::END {
            break;
        }
    }
    assert!(steps >= 4, "{steps} steps of some 8 MiB for 48");
    bench.take_events();
    // A hit in the first of them, which is found in whatever order they stand.
    bench.ask(
        1,
        Request::Scan(Scan {
            filter: Filter { contains: Some(b"x"), ..Filter::default() },
            ..Scan::new(queue("q"), Cursor::BEGIN, 12)
        }),
    );
    let said = bench.take_events().remove(0);
    assert!(said.len() > 2, "{said}");
}

#[test]
fn the_newest_dead_letters_come_in_reverse() {
    let (mut bench, mut rng) = (Bench::new(), SmallRng::seed_from_u64(14));
    for number in 0..2_000 {
        let id = format!("j{number}");
        bench.add(Add { id: Some(id.as_bytes()), ..job("q", "-", 0) });
    }
    bench.ask(5, Request::Reserve(reserve(Q, Wait::No, 2_000)));
    for (id, token) in bench.tokens.clone() {
        let nack = Nack {
            queue: queue("q"),
            id: id.as_bytes(),
            token,
            when: None,
            bury: true,
            uncounted: false,
            priority: None,
            error: None,
        };
        bench.ask(5, Request::Nack(nack));
    }
    bench.take_events();
    let dead = |count, newest| Request::Peek {
        queue: queue("q"),
        state: Some(JobState::Dead),
        count,
        newest,
    };
    let ids = |bench: &mut Bench, count, newest| -> Vec<String> {
        bench.ask(1, dead(count, newest));
        let said = bench.take_events().remove(0);
        said[2..].split(' ').map(str::to_owned).collect()
    };
    // Holes in the middle, so that chunks are merged.
    for _ in 0..1_300 {
        let id = format!("j{}", rng.random_range(0..2_000));
        bench.ask(5, Request::Delete { queue: queue("q"), ids: &[id.as_bytes()] });
    }
    bench.take_events();
    let (oldest, newest) = (ids(&mut bench, 10_000, false), ids(&mut bench, 10_000, true));
    assert!(oldest.len() > 500, "{}", oldest.len());
    let reversed: Vec<String> = oldest.into_iter().rev().collect();
    assert_eq!(newest, reversed);
    assert_eq!(ids(&mut bench, 7, true), reversed[..7]);
    bench.transact(1, &[dead(7, true)]);
    bench.expect_events(&[&format!("1:{}", reversed[..7].join(" "))]);
}
