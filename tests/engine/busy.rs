//! BUSY: leases and the clients that hold them, paged, in slices; and a queue's last clients.

use delayd::engine::Outcome;
use delayd::engine::model::holder::ListLeases;
use delayd::engine::model::request::{Add, QueueName, Request, Reserve, Wait};
use delayd::ids::{Db, Token};
use delayd::limits::BUSY_PER_QUEUE;
use delayd::time::Millis;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::engine::bench::*;

const ALL: ListLeases<'_> =
    ListLeases { db: Db(0), queue: None, readable: None, count: 1_000, after: None };

/// What BUSY answers, a lease a line, and in how many turns.
fn busy(bench: &mut Bench, of: ListLeases<'_>) -> (Vec<String>, usize) {
    bench.take_events();
    let mut turns = 1;
    while bench.ask(99, Request::Leases(of)) == Outcome::Again {
        turns += 1;
    }
    let said = bench.take_events().remove(0);
    let leases = said["99:".len()..].split(", ").filter(|lease| !lease.is_empty());
    (leases.map(str::to_owned).collect(), turns)
}

/// A new job, at once leased by `client` for so long.
fn lease(bench: &mut Bench, client: u64, queue: &str, id: &str, lease_ms: u64) {
    let name = QueueName { db: Db(0), name: queue.as_bytes() };
    bench.add(Add { id: Some(id.as_bytes()), queue: name, ..job("q", "-", 0) });
    let (queues, lease_ms) = ([queue.as_bytes()], Some(lease_ms));
    let reserve = Reserve { lease_ms, ..reserve(Q, Wait::No, 1) };
    bench.ask(client, Request::Reserve(Reserve { queues: &queues, ..reserve }));
    bench.sent(client);
}

#[test]
fn a_lease_shows_the_client_that_took_it_also_when_that_is_gone() {
    let mut bench = Bench::new();
    bench.introduce(7, "mailer@10.0.0.7");
    lease(&mut bench, 7, "q", "a", 500);
    bench.closed(7);
    bench.at(10);
    assert_eq!(busy(&mut bench, ALL).0, ["q a 7 mailer@10.0.0.7 0 500 1"]);
    // The next delivery is another client's, which was waiting; it is not known in words.
    bench.ask(8, Request::Reserve(Reserve { lease_ms: Some(90), ..reserve(Q, Wait::Forever, 1) }));
    bench.at(500);
    assert_eq!(busy(&mut bench, ALL).0, ["q a 8 nil 500 590 2"]);
    bench.sent(8);
    bench.ack(8, "a", bench.token("a"));
    assert_eq!(busy(&mut bench, ALL).0, [""; 0]);
}

#[test]
fn a_restart_forgets_the_client_and_when_the_delivery_began_and_nothing_else() {
    let mut bench = Bench::new();
    bench.introduce(7, "mailer@10.0.0.7");
    lease(&mut bench, 7, "q", "a", 500);
    // No fact has it, so that a replay gives the same digest without it.
    bench.replayed();
    bench.restart();
    assert_eq!(busy(&mut bench, ALL).0, ["q a 0 nil nil 500 1"]);
    assert_eq!(bench.stats("q").last_reserve, None);
}

#[test]
fn pages_show_each_lease_once_in_the_order_of_their_ends() {
    let (mut bench, mut rng) = (Bench::new(), SmallRng::seed_from_u64(5));
    let mut model = Vec::new();
    for number in 0..600 {
        let (queue, id) = (format!("q{}", rng.random_range(0..9)), format!("j{number}"));
        // Many end at once.
        let lease_ms = rng.random_range(1..20) * 1_000;
        lease(&mut bench, 1, &queue, &id, lease_ms);
        model.push((lease_ms, queue, id));
    }
    model.sort();
    let line = |(end, queue, id): &(u64, String, String)| format!("{queue} {id} 1 nil 0 {end} 1");
    for (queue, count) in [(None, 7), (None, 1_000), (Some("q3"), 5)] {
        let meant: Vec<_> = model.iter().filter(|at| queue.is_none_or(|q| q == at.1)).collect();
        let (mut seen, mut last): (Vec<String>, Option<&(u64, String, String)>) = (vec![], None);
        loop {
            let after = last
                .map(|(end, queue, id)| (Millis(BEGIN_MS + end), queue.as_bytes(), id.as_bytes()));
            let of = ListLeases { queue: queue.map(str::as_bytes), count, after, ..ALL };
            let (page, _) = busy(&mut bench, of);
            assert!(page.len() <= count as usize);
            if page.is_empty() {
                break;
            }
            seen.extend(page);
            last = Some(meant[seen.len() - 1]);
        }
        assert_eq!(seen, meant.into_iter().map(line).collect::<Vec<_>>(), "{queue:?} {count}");
    }
}

#[test]
fn only_queues_of_the_database_that_may_be_read_are_shown() {
    let mut bench = Bench::new();
    for queue in ["mail:a", "mail:b", "pay"] {
        lease(&mut bench, 1, queue, "j", 100);
    }
    let readable = Some(&[&b"mail:*"[..], b"none"][..]);
    let shown = |leases: Vec<String>| -> Vec<String> {
        leases.iter().map(|lease| lease.split(' ').next().unwrap().to_owned()).collect()
    };
    let (leases, _) = busy(&mut bench, ListLeases { readable, ..ALL });
    assert_eq!(shown(leases), ["mail:a", "mail:b"]);
    for (queue, expected) in [("pay", vec![]), ("mail:b", vec!["mail:b"]), ("none", vec![])] {
        let of = ListLeases { readable, queue: Some(queue.as_bytes()), ..ALL };
        assert_eq!(shown(busy(&mut bench, of).0), expected, "{queue}");
    }
    assert_eq!(busy(&mut bench, ListLeases { db: Db(1), ..ALL }).0, [""; 0]);
}

#[test]
fn many_queues_and_many_leases_are_looked_at_in_slices() {
    let mut bench = Bench::new();
    for number in 0..4_000 {
        lease(&mut bench, 1, &format!("q{number}"), "j", 5_000 + number);
    }
    let (leases, turns) = busy(&mut bench, ListLeases { count: 3, ..ALL });
    assert!(turns >= 4, "{turns} turns");
    let ends = leases.iter().map(|lease| lease.split(' ').nth(5).unwrap()).collect::<Vec<_>>();
    assert_eq!(ends, ["5000", "5001", "5002"]);
    // One queue, in which all end in one slot of the wheel, far ahead.
    let mut bench = Bench::new();
    for number in 0..30_000 {
        lease(&mut bench, 1, "big", &format!("j{number}"), 50_000_000 + number / 100);
    }
    for queue in [Some(&b"big"[..]), None] {
        let (leases, turns) = busy(&mut bench, ListLeases { queue, count: 2, ..ALL });
        assert_eq!(leases[1], "big j1 1 nil 0 50000000 1");
        // What was brought into order stays so.
        assert!(if queue.is_some() { turns > 5 } else { turns <= 2 }, "{turns} turns");
    }
    // Of one queue only so many are paged through.
    let last = BUSY_PER_QUEUE as u64 / 100 - 1;
    let after = Some((Millis(BEGIN_MS + 50_000_000 + last), &b"big"[..], &b"z"[..]));
    let (leases, _) = busy(&mut bench, ListLeases { after, ..ALL });
    assert_eq!(leases.len(), BUSY_PER_QUEUE % 100);
}

#[test]
fn in_a_transaction_it_is_answered_at_once_or_refused_before() {
    let mut bench = Bench::new();
    for number in 0..9_000 {
        lease(&mut bench, 1, ["a", "b"][number % 2], &format!("j{number}"), 50_000_000);
    }
    bench.take_events();
    let asked = [Request::Leases(ListLeases { count: 1, ..ALL })];
    let TransactionBegun::Begun(needs) = bench.transact(9, &asked) else { panic!("it is small") };
    assert_eq!(needs.entries, 1 + 2 + 9_000);
    assert_eq!(bench.take_events(), ["9:a j0 1 nil 0 50000000 1"]);
    let of = ListLeases { queue: Some(b"a"), count: 1, ..ALL };
    let TransactionBegun::Begun(needs) = bench.transact(9, &[Request::Leases(of)]) else {
        panic!("it is smaller")
    };
    assert_eq!(needs.entries, 1 + 1 + 4_500);
    // What it leases itself is counted.
    bench.add(job("c", "new", 0));
    let reserve = Reserve { queues: &[b"c"], ..reserve(Q, Wait::No, 1) };
    let asked = [Request::Reserve(reserve), asked[0].clone()];
    let TransactionBegun::Begun(needs) = bench.transact(9, &asked) else { panic!("small, too") };
    assert!(needs.entries > 1 + 3 + 9_001, "{needs:?}");
    let said = bench.refusal(9, &vec![asked[1].clone(); 5]);
    assert!(said.contains("40000"), "{said}");
}

#[test]
fn a_queue_knows_who_took_and_acknowledged_its_last_job() {
    let mut bench = Bench::new();
    bench.introduce(1, "one@10.0.0.1");
    bench.introduce(2, "@10.0.0.2");
    let last = |bench: &mut Bench| {
        let stats = bench.stats("q");
        [stats.last_reserve, stats.last_ack].map(|last| {
            let last = last?;
            let by = last.by.map(|by| String::from_utf8_lossy(&by).into_owned());
            Some((last.at.0 - BEGIN_MS, by.unwrap_or_default()))
        })
    };
    let by = |at: u64, who: &str| Some((at, who.to_owned()));
    bench.ask(9, Request::Add(job("q", "a", 0)));
    assert_eq!(last(&mut bench), [None, None]);
    bench.at(10);
    bench.ask(1, Request::Reserve(Reserve { lease_ms: Some(900), ..reserve(Q, Wait::No, 1) }));
    bench.sent(1);
    bench.at(20);
    // An empty hand and a stale token change nothing.
    bench.ask(2, pop(Q, Wait::No));
    bench.ack(2, "a", Token(1));
    assert_eq!(last(&mut bench), [by(10, "one@10.0.0.1"), None]);
    bench.ack(2, "a", bench.token("a"));
    assert_eq!(last(&mut bench), [by(10, "one@10.0.0.1"), by(20, "10.0.0.2")]);
    // A client that waits is served when the job is there, one that no one knows.
    bench.ask(3, pop(Q, Wait::Forever));
    bench.at(30);
    bench.ask(9, Request::Add(job("q", "b", 0)));
    bench.sent(3);
    assert_eq!(last(&mut bench), [by(30, ""), by(20, "10.0.0.2")]);
}
