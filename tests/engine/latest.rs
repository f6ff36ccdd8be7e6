//! LATEST: a newer version follows a leased job. MAXDELAY: a change that is put off again and again is not put off for
//! ever.

use delayd::engine::Lead;
use delayd::engine::decide::transaction::TransactionBegun;
use delayd::engine::journal_room::{Flow, Room, SIZES};
use delayd::engine::model::request::{Request, Reserve, Wait};
use delayd::ids::Token;
use delayd::limits::LEVEL_LATEST;

use crate::engine::bench::*;
use crate::engine::group_rates::command;
use crate::engine::groups::{asked, reserved, said};

/// As client 1: what is answered.
fn say(bench: &mut Bench, line: &'static str) -> String {
    asked(bench, command(line))
}

/// All in this state, and the bodies that a worker would get of them.
fn bodies(bench: &mut Bench) -> String {
    asked(bench, command("LRANGE q 0 -1"))
}

/// Job x is leased, and v2 follows.
fn followed() -> Bench {
    let mut bench = Bench::new();
    say(&mut bench, "DELAY.ADD q 0 v1 ID x ATTEMPTS 1 UNIQUE 1h");
    assert_eq!(reserved(&mut bench, 1), "x");
    assert_eq!(say(&mut bench, "DELAY.ADD q 0 v2 ID x LATEST"), "x");
    bench
}

fn ack(bench: &mut Bench, token: Token) -> String {
    bench.ack(1, "x", token);
    said(bench)
}

#[test]
fn the_last_one_comes_when_the_delivery_ends_and_is_new() {
    let mut bench = followed();
    assert_eq!(say(&mut bench, "DELAY.ADD q 0 v3 ID x LATEST"), "x");
    assert_eq!(say(&mut bench, "DELAY.LEN q"), "1");
    assert_eq!(say(&mut bench, "DELAY.GET q x"), "leased due 0 attempt 1 until 100");
    assert_eq!(say(&mut bench, "DELAY.RESERVE NOWAIT 1 q"), "nil");
    let token = bench.token("x");
    assert_eq!(ack(&mut bench, token), "1");
    assert_eq!(say(&mut bench, "DELAY.GET q x"), "ready due 0 attempt 0");
    assert_eq!(bodies(&mut bench), "v3");
    // No window of UNIQUE is in its way, and the old token is void.
    assert_eq!(ack(&mut bench, token), "0");
    assert_eq!(reserved(&mut bench, 1), "x");
    let token = bench.token("x");
    assert_eq!(ack(&mut bench, token), "1");
    assert_eq!(say(&mut bench, "DELAY.GET q x"), "nil");
    let totals = bench.stats("q").totals;
    assert_eq!((totals.added, totals.acked, totals.deleted), (2, 2, 0));
}

#[test]
fn it_comes_however_the_delivery_ends() {
    let end = |bench: &mut Bench, how: &str| match how {
        "nack" => bench.nack(1, "x", |_| ()),
        "bury" => bench.nack(1, "x", |nack| nack.bury = true),
        "uncounted" => bench.nack(1, "x", |nack| nack.uncounted = true),
        "over" => bench.at(100),
        _ => bench.unsent(1),
    };
    for how in ["nack", "bury", "uncounted", "over", "unsent"] {
        let mut bench = followed();
        bench.ask(2, Request::Reserve(reserve(Q, Wait::Forever, 1)));
        bench.take_events();
        end(&mut bench, how);
        bench.hand_off();
        // Who waits has it at once, at its first attempt: nothing is retried, and nothing dies.
        assert!(bench.take_events().contains(&"2:x#1".to_owned()), "{how}");
        let stats = bench.stats("q");
        let totals = stats.totals;
        assert_eq!((stats.leased, totals.died, totals.deleted), (1, 0, 1), "{how}");
        assert_eq!(say(&mut bench, "DELAY.ADD q 0 v3 ID x LATEST"), "x");
    }
    let mut bench = Bench::new();
    say(&mut bench, "DELAY.ADD q 0 v1 ID x");
    bench.ask(2, Request::Reserve(Reserve { bound: true, ..reserve(Q, Wait::No, 1) }));
    say(&mut bench, "DELAY.ADD q 5s v2 ID x LATEST");
    bench.sent(2);
    assert!(bench.end_bound());
    assert_eq!(say(&mut bench, "DELAY.GET q x"), "delayed due 5000 attempt 0");
}

#[test]
fn it_waits_for_its_own_time() {
    let mut bench = Bench::new();
    say(&mut bench, "DELAY.ADD q 0 v1 ID x");
    assert_eq!(reserved(&mut bench, 1), "x");
    say(&mut bench, "DELAY.ADD q 10m v2 ID x LATEST");
    bench.at(50);
    let token = bench.token("x");
    assert_eq!(ack(&mut bench, token), "1");
    assert_eq!(say(&mut bench, "DELAY.GET q x"), "delayed due 600000 attempt 0");
    bench.at(600_000);
    assert_eq!(reserved(&mut bench, 1), "x");
}

#[test]
fn what_is_removed_or_cancelled_does_not_come() {
    for line in ["DELAY.CANCEL q x", "DELAY.DEL q x"] {
        let mut bench = followed();
        let answer = say(&mut bench, line);
        assert!(answer == "leased" || answer == "0", "{answer}");
        let token = bench.token("x");
        assert_eq!(ack(&mut bench, token), "1", "the lease goes on");
        assert_eq!(say(&mut bench, "DELAY.GET q x"), "nil", "{line}");
        // Nothing followed: the window of UNIQUE begins.
        assert_eq!(say(&mut bench, "DELAY.ADD q 0 v3 ID x"), "EXISTS");
    }
    for line in ["DELAY.CANCEL q x FORCE", "DELAY.PURGE q LEASED", "DEL q", "FLUSHDB"] {
        let mut bench = followed();
        say(&mut bench, line);
        assert_eq!(say(&mut bench, "DELAY.GET q x"), "nil", "{line}");
        bench.at(100_000);
        assert_eq!(say(&mut bench, "DELAY.LEN q"), "0", "{line}");
    }
    let mut bench = followed();
    say(&mut bench, "DELAY.ADD q 0 v3 ID x REPLACE");
    bench.at(100_000);
    assert_eq!((bodies(&mut bench), bench.stats("q").totals.added), ("v3".into(), 2));
}

#[test]
fn where_nothing_is_leased_it_replaces() {
    let mut bench = Bench::new();
    say(&mut bench, "DELAY.ADD q 1h v1 ID x LATEST");
    say(&mut bench, "DELAY.ADD q 0 v2 ID x LATEST");
    assert_eq!(bodies(&mut bench), "v2");
    say(&mut bench, "DELAY.ADD q 0 y ID y");
    say(&mut bench, "DELAY.ADD q 0 v3 ID x LATEST");
    assert_eq!(bodies(&mut bench), "y v3");
    assert_eq!(say(&mut bench, "DELAY.ADD q 0 v4 ID x NX"), "nil");
}

/// A second ADD 2 s later moves what the first has put off, and so on.
fn debounce(bench: &mut Bench, from_ms: u64, until_ms: u64) {
    for at in (from_ms..=until_ms).step_by(1_000) {
        bench.at(at);
        assert_eq!(say(bench, "DELAY.ADD q 2s v ID x REPLACE MAXDELAY 30s"), "x");
    }
}

#[test]
fn a_change_is_put_off_for_as_long_as_was_said_and_no_longer() {
    let mut bench = Bench::new();
    debounce(&mut bench, 0, 27_000);
    assert_eq!(say(&mut bench, "DELAY.GET q x"), "delayed due 29000 attempt 0");
    debounce(&mut bench, 28_000, 29_000);
    assert_eq!(say(&mut bench, "DELAY.GET q x"), "delayed due 30000 attempt 0");
    bench.at(30_000);
    assert_eq!(reserved(&mut bench, 1), "x");
    let token = bench.token("x");
    assert_eq!(ack(&mut bench, token), "1");
    // A new change has its own time.
    debounce(&mut bench, 31_000, 60_000);
    assert_eq!(say(&mut bench, "DELAY.GET q x"), "delayed due 61000 attempt 0");
    // An instant is bounded as well, and what is said without MAXDELAY counts from then.
    say(&mut bench, "DELAY.ADD q @1900000000000 v ID y REPLACE MAXDELAY 30s");
    assert_eq!(say(&mut bench, "DELAY.GET q y"), "delayed due 90000 attempt 0");
    bench.at(60_500);
    say(&mut bench, "DELAY.ADD q 2s v ID y REPLACE");
    bench.at(61_000);
    say(&mut bench, "DELAY.ADD q 30s v ID y REPLACE MAXDELAY 30s");
    assert_eq!(say(&mut bench, "DELAY.GET q y"), "delayed due 90500 attempt 0");
}

#[test]
fn a_change_that_no_worker_was_free_to_take_is_put_off_no_longer() {
    let mut bench = Bench::new();
    for at in (0..=29_000).step_by(2_500) {
        bench.at(at);
        assert_eq!(say(&mut bench, "DELAY.ADD q 2s v ID x REPLACE MAXDELAY 30s"), "x");
    }
    // It was ready for half a second each time.
    assert_eq!(say(&mut bench, "DELAY.GET q x"), "delayed due 29500 attempt 0");
    bench.at(31_000);
    assert_eq!(say(&mut bench, "DELAY.ADD q 2s v ID x REPLACE MAXDELAY 30s"), "x");
    assert_eq!(say(&mut bench, "DELAY.GET q x"), "ready due 29500 attempt 0");
}

#[test]
fn a_change_whose_time_has_come_is_not_sent_to_the_end_of_the_line() {
    let mut bench = Bench::new();
    let line = |id| -> &'static str { format!("DELAY.ADD q 0 {id} ID {id}").leak() };
    let newer = "DELAY.ADD q 20 v2 ID x LATEST MAXDELAY 50";
    say(&mut bench, line("a"));
    say(&mut bench, "DELAY.ADD q 20 v1 ID x LATEST MAXDELAY 50");
    bench.at(100);
    say(&mut bench, line("b"));
    bench.at(400);
    say(&mut bench, newer);
    assert_eq!(bodies(&mut bench), "a v2 b");
    // It is due when the first one was: those behind it are younger.
    assert_eq!(say(&mut bench, "DELAY.GET q x"), "ready due 20 attempt 0");
    assert_eq!(bench.stats("q").oldest_ready_age_ms, Some(400));
    say(&mut bench, "DELAY.CANCEL q a");
    bench.restart();
    assert_eq!(bench.stats("q").oldest_ready_age_ms, Some(380));
    say(&mut bench, line("a"));
    say(&mut bench, newer);
    assert_eq!(bodies(&mut bench), "v2 b a");
    let totals = bench.stats("q").totals;
    assert_eq!((totals.added, totals.deleted), (6, 3), "two replaced another");
    // Its place is one of the queue, of whatever priority and group.
    say(&mut bench, "DELAY.ADD q 0 c ID c PRIORITY 7");
    say(&mut bench, "DELAY.ADD q 20 v3 ID x LATEST MAXDELAY 50 PRIORITY 7");
    assert_eq!(bodies(&mut bench), "b a v3 c");
    say(&mut bench, "DELAY.ADD q 20 v4 ID x LATEST MAXDELAY 50 PRIORITY 7 GROUP g");
    assert_eq!(say(&mut bench, "DELAY.GET q x"), "ready due 20 attempt 0");
    // One that was handed out and came back is a change that was seen.
    say(&mut bench, "DELAY.ADD q 0 v ID y PRIORITY 0");
    assert_eq!(reserved(&mut bench, 1), "y");
    bench.nack(1, "y", |nack| nack.uncounted = true);
    bench.take_events();
    say(&mut bench, "DELAY.ADD q 20 v ID y LATEST MAXDELAY 50 PRIORITY 0");
    assert_eq!(say(&mut bench, "DELAY.GET q y"), "delayed due 420 attempt 0");
}

/// Counted from the time by which it should have come it would be over before any worker is free.
#[test]
fn the_last_change_has_all_its_ttl() {
    let mut bench = Bench::new();
    say(&mut bench, "DELAY.ADD q 20 v1 ID x LATEST MAXDELAY 50");
    bench.at(200);
    assert_eq!(say(&mut bench, "DELAY.ADD q 20 v2 ID x LATEST MAXDELAY 50 TTL 100"), "x");
    bench.at(250);
    say(&mut bench, "DELAY.ADD q 20 v3 ID x LATEST MAXDELAY 50 TTL 100");
    bench.at(349);
    assert_eq!(bodies(&mut bench), "v3");
    bench.at(350);
    assert_eq!((bodies(&mut bench), bench.stats("q").totals.expired), (String::new(), 1));
}

/// A group that has no ready job for an instant would come to the end of the line with each change.
#[test]
fn a_group_keeps_its_turn_while_its_only_job_changes() {
    for (group, others) in [(" GROUP b", " GROUP a"), ("", " GROUP a"), (" GROUP b", "")] {
        let mut bench = Bench::new();
        for at in 0..5 {
            say(&mut bench, format!("DELAY.ADD q 0 {at} ID {at}{others}").leak());
        }
        let change: &str = format!("DELAY.ADD q 5 v ID x LATEST MAXDELAY 10 TTL 1h{group}").leak();
        say(&mut bench, change);
        bench.at(30);
        let mut taken = Vec::new();
        while taken.last().is_none_or(|id| id != "x") {
            say(&mut bench, change);
            taken.push(reserved(&mut bench, 1));
            assert!(taken.len() < 5, "{group}, {others}: {taken:?}");
        }
        assert_eq!(taken.len(), 2, "{group}, {others}: {taken:?}");
        bench.restart();
    }
}

#[test]
fn it_has_kept_nobody_waiting_that_it_followed() {
    let mut bench = Bench::new();
    say(&mut bench, "DELAY.ADD q 0 v1 ID x");
    assert_eq!(say(&mut bench, "DELAY.RESERVE NOWAIT 1 q LEASE 1h"), "x#1");
    say(&mut bench, "DELAY.ADD q 0 v2 ID x LATEST TTL 50");
    bench.ask(2, Request::Reserve(reserve(Q, Wait::Forever, 1)));
    bench.at(600_000);
    let token = bench.token("x");
    bench.ack(1, "x", token);
    bench.hand_off();
    assert!(bench.take_events().contains(&"2:x#1".to_owned()), "its TTL begins when it comes");
    assert_eq!(bench.stats("q").lateness_us, [0; 4]);
}

#[test]
fn a_change_that_was_handed_out_begins_anew() {
    let mut bench = Bench::new();
    say(&mut bench, "DELAY.ADD q 0 v ID x BACKOFF 1h");
    assert_eq!(reserved(&mut bench, 1), "x");
    bench.nack(1, "x", |_| ());
    bench.take_events();
    bench.at(20_000);
    debounce(&mut bench, 20_000, 48_000);
    assert_eq!(say(&mut bench, "DELAY.GET q x"), "delayed due 50000 attempt 0");
}

#[test]
fn what_follows_keeps_the_time_of_the_first_that_followed() {
    let mut bench = Bench::new();
    say(&mut bench, "DELAY.ADD q 0 v1 ID x");
    assert_eq!(say(&mut bench, "DELAY.RESERVE NOWAIT 1 q LEASE 1h"), "x#1");
    for at in (0..58_000).step_by(1_000) {
        bench.at(at);
        assert_eq!(say(&mut bench, "DELAY.ADD q 2s v ID x LATEST MAXDELAY 30s"), "x");
    }
    bench.at(58_000);
    let token = bench.token("x");
    assert_eq!(ack(&mut bench, token), "1");
    // Its time came at 30 s, and it waited for the lease.
    assert_eq!(say(&mut bench, "DELAY.GET q x"), "ready due 58000 attempt 0");
    assert_eq!(reserved(&mut bench, 1), "x");
}

#[test]
fn it_counts_for_no_limit_until_it_comes_and_is_not_refused_then() {
    let mut bench = Bench::new();
    say(&mut bench, "DELAY.CONFIG SET q max-jobs 1 group-max-jobs 1");
    say(&mut bench, "DELAY.ADD q 0 v1 ID x GROUP a");
    assert_eq!(reserved(&mut bench, 1), "x");
    assert_eq!(say(&mut bench, "DELAY.ADD q 0 v2 ID x LATEST GROUP a"), "x");
    assert_eq!(say(&mut bench, "DELAY.ADD q 0 y ID y"), "FULL");
    say(&mut bench, "DELAY.PAUSE q IN");
    assert_eq!(say(&mut bench, "DELAY.ADD q 0 v3 ID x LATEST"), "PAUSED");
    let token = bench.token("x");
    assert_eq!(ack(&mut bench, token), "1");
    assert_eq!(bodies(&mut bench), "v2");
}

#[test]
fn no_lack_of_memory_or_disk_keeps_it_back() {
    let mut bench = Bench::new();
    say(&mut bench, "DELAY.ADD q 0 v1 ID x");
    assert_eq!(reserved(&mut bench, 1), "x");
    say(&mut bench, "DELAY.ADD q 0 v2 ID x LATEST GROUP new META 1 k v");
    bench.engine.settings_mut().memory_bytes_max = 1;
    assert_eq!(say(&mut bench, "DELAY.ADD q 0 v3 ID x LATEST"), "OOM");
    let room = Room::of(0, 30);
    bench.flow(Flow::Running { room });
    assert_eq!(say(&mut bench, "DELAY.ADD q 0 v3 ID x LATEST"), "MISCONF");
    let token = bench.token("x");
    assert_eq!(ack(&mut bench, token), "1");
    assert_eq!(bodies(&mut bench), "v2");
}

#[test]
fn its_memory_goes_with_it() {
    let long: &'static str = "b".repeat(100_000).leak();
    let mut bench = Bench::new();
    say(&mut bench, "DELAY.ADD q 1h stays ID stays");
    let before = (bench.engine.memory_bytes(), bench.engine.base_bytes());
    for how in ["DELAY.CANCEL q x", "DELAY.CANCEL q x FORCE", "DELAY.PURGE q LEASED", "another"] {
        say(&mut bench, "DELAY.ADD q 0 v1 ID x");
        assert_eq!(reserved(&mut bench, 1), "x");
        let held = bench.engine.memory_bytes();
        let line = format!("DELAY.ADD q 0 {long} ID x LATEST GROUP g ATTEMPTS 7 META 1 k v");
        say(&mut bench, line.leak());
        let grown = bench.engine.memory_bytes() - held;
        assert!((100_000..125_000).contains(&grown), "{grown} bytes");
        match how {
            "another" => _ = say(&mut bench, "DELAY.ADD q 0 v3 ID x LATEST"),
            line => _ = say(&mut bench, line),
        }
        bench.at(bench.now().floor().0 - BEGIN_MS + 1);
        assert!(bench.engine.memory_bytes() < held + 1_000, "{how}");
        say(&mut bench, "DELAY.CANCEL q x FORCE");
        bench.at(bench.now().floor().0 - BEGIN_MS + 1);
        let after = (bench.engine.memory_bytes(), bench.engine.base_bytes());
        assert!(after.0 < before.0 + 1_000 && after.1 < before.1 + 400, "{how}: {after:?}");
    }
}

#[test]
fn what_follows_outlives_a_restart_with_all_it_has() {
    let mut bench = Bench::new();
    say(&mut bench, "DELAY.ADD q 0 v1 ID x GROUP a");
    assert_eq!(reserved(&mut bench, 1), "x");
    say(
        &mut bench,
        "DELAY.ADD q 1s v2 ID x LATEST GROUP b META 1 k v PRIORITY 2 ATTEMPTS 3 TTL 1h",
    );
    bench.restart();
    let token = bench.token("x");
    assert_eq!(ack(&mut bench, token), "1");
    bench.restart();
    bench.at(1_000);
    assert_eq!(bodies(&mut bench), "v2");
    assert_eq!(say(&mut bench, "DELAY.STATS q GROUP b"), "b:[0, 1, 0, 0]");
    assert_eq!(reserved(&mut bench, 1), "x");
    bench.replayed();
}

#[test]
fn engines_that_differ_in_what_follows_have_other_digests() {
    let of = |line| {
        let mut bench = Bench::new();
        say(&mut bench, "DELAY.ADD q 0 v1 ID x");
        assert_eq!(reserved(&mut bench, 1), "x");
        say(&mut bench, line);
        bench.engine.digest()
    };
    let lines = ["", " GROUP g", " META 1 k v", " PRIORITY 1", " TTL 1h"];
    let line = |more| -> &'static str { format!("DELAY.ADD q 0 v2 ID x LATEST{more}").leak() };
    let mut digests: Vec<u64> = lines.map(line).map(of).into();
    digests.push(of("DELAY.ADD q 1s v2 ID x LATEST"));
    digests.push(of("DELAY.ADD q 0 other ID x LATEST"));
    let all = digests.len();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), all);
}

#[test]
fn in_a_group_that_is_strict_it_comes_in_its_turn() {
    let mut bench = Bench::new();
    say(&mut bench, "DELAY.CONFIG SET q group-max-leased 1 group-retry block");
    say(&mut bench, "DELAY.ADD q 0 v1 ID x GROUP a");
    say(&mut bench, "DELAY.ADD q 0 a2 ID a2 GROUP a");
    assert_eq!(reserved(&mut bench, 1), "x");
    say(&mut bench, "DELAY.ADD q 0 v2 ID x LATEST GROUP a");
    bench.nack(1, "x", |_| ());
    bench.take_events();
    // It is not what blocked: a new job, behind those that were there.
    assert_eq!(reserved(&mut bench, 1), "a2");
    assert_eq!(reserved(&mut bench, 1), "nil");
    bench.ack(1, "a2", bench.token("a2"));
    bench.take_events();
    assert_eq!(reserved(&mut bench, 1), "x");
}

#[test]
fn a_rate_gets_back_what_was_never_sent_and_another_group_may_follow() {
    let mut bench = Bench::new();
    say(&mut bench, "DELAY.CONFIG SET q group-rate 1/10s");
    say(&mut bench, "DELAY.ADD q 0 v1 ID x GROUP a");
    bench.ask(2, Request::Reserve(reserve(Q, Wait::No, 1)));
    say(&mut bench, "DELAY.ADD q 0 v2 ID x LATEST GROUP b");
    say(&mut bench, "DELAY.ADD q 0 a2 ID a2 GROUP a");
    bench.unsent(2);
    bench.take_events();
    // The delivery of a never left, so a may give at once; and b has given none.
    assert_eq!(reserved(&mut bench, 3), "a2 x nil");
}

#[test]
fn what_goes_back_has_room_for_what_follows_it() {
    let (id, group) = ("i".repeat(512), "g".repeat(512));
    let mut bench = Bench::new();
    say(&mut bench, "DELAY.CONFIG SET q group-rate 1/10s");
    say(&mut bench, format!("DELAY.ADD q 0 v1 ID {id} GROUP {group}").leak());
    bench.ask(2, Request::Reserve(reserve(Q, Wait::No, 1)));
    say(&mut bench, format!("DELAY.ADD q 0 v2 ID {id} LATEST GROUP {group}").leak());
    let before = bench.made();
    bench.flow(Flow::Running { room: Room::of(SIZES.unleased, 0) });
    bench.unsent(2);
    let made = (bench.made().0 - before.0, bench.made().1 - before.1);
    assert_eq!(made, (3, SIZES.unleased), "the delivery, its step of the rate, what follows");
}

#[test]
fn a_transaction_sees_what_follows_and_room_for_it_was_promised() {
    let mut bench = followed();
    let (token, jobs) = (bench.token("x"), |token| vec![(&b"x"[..], token)]);
    let commands = [
        Request::Ack { queue: queue("q"), jobs: jobs(token) },
        command("DELAY.GET q x"),
        command("DELAY.RESERVE NOWAIT 1 q"),
        command("DELAY.ADD q 0 v3 ID x LATEST"),
        command("DELAY.GET q x"),
    ];
    assert!(matches!(bench.transact(1, &commands), TransactionBegun::Begun(_)));
    let lines = bench.take_events();
    let said = ["1:1", "1:ready due 0 attempt 0", "1:x#1", "1:x"];
    assert_eq!(lines[..4], said);
    assert!(lines[4].starts_with("1:leased"), "{lines:?}");
    // The job that may come is counted for limits: what the ACK ends may be followed.
    say(&mut bench, "DELAY.CONFIG SET q max-jobs 1");
    let token = bench.token("x");
    let commands =
        [Request::Ack { queue: queue("q"), jobs: jobs(token) }, command("DELAY.ADD q 0 y ID y")];
    assert!(bench.refusal(1, &commands).starts_with("FULL"));
}

#[test]
fn a_transaction_counts_in_its_group_what_may_come() {
    let mut bench = Bench::new();
    say(&mut bench, "DELAY.CONFIG SET q group-max-jobs 1");
    say(&mut bench, "DELAY.ADD q 0 v1 ID x GROUP b");
    assert_eq!(reserved(&mut bench, 1), "x");
    say(&mut bench, "DELAY.ADD q 0 v2 ID x LATEST GROUP a");
    let jobs = vec![(&b"x"[..], bench.token("x"))];
    let ack = || Request::Ack { queue: queue("q"), jobs: jobs.clone() };
    let refusal = bench.refusal(1, &[ack(), command("DELAY.ADD q 0 y ID y GROUP a")]);
    assert!(refusal.starts_with("FULL group 'a'"), "{refusal}");
    // As outside it is not refused, however full its group: it counts when it comes, which may be here.
    say(&mut bench, "DELAY.ADD q 0 y ID y GROUP c");
    let newer = || command("DELAY.ADD q 0 v3 ID x LATEST GROUP c");
    assert!(matches!(bench.transact(1, &[newer()]), TransactionBegun::Begun(_)));
    say(&mut bench, "DELAY.CONFIG SET q group-max-jobs 2");
    let add = || command("DELAY.ADD q 0 z ID z GROUP c");
    assert!(bench.refusal(1, &[newer(), ack(), add()]).starts_with("FULL group 'c'"));
    assert!(matches!(bench.transact(1, &[newer(), ack()]), TransactionBegun::Begun(_)));
    // In the group of the one before it takes its place.
    bench.take_events();
    say(&mut bench, "DELAY.ADD q 0 v1 ID x GROUP g REPLACE");
    say(&mut bench, "DELAY.ADD q 0 w1 ID w GROUP b");
    for job in ["y", "x", "w"] {
        assert_eq!(say(&mut bench, "DELAY.RESERVE NOWAIT 1 q").split('#').next(), Some(job));
    }
    say(&mut bench, "DELAY.ADD q 0 v2 ID x LATEST GROUP g");
    let jobs = vec![(&b"x"[..], bench.token("x"))];
    let commands =
        [Request::Ack { queue: queue("q"), jobs }, command("DELAY.ADD q 0 u ID u GROUP g")];
    assert!(matches!(bench.transact(1, &commands), TransactionBegun::Begun(_)));
    // Two of them, and the group is full.
    let newer = [
        command("DELAY.ADD q 0 v ID w LATEST GROUP g"),
        command("DELAY.ADD q 0 v ID y LATEST GROUP g"),
    ];
    assert!(matches!(bench.transact(1, &newer), TransactionBegun::Begun(_)));
}

#[test]
fn a_transaction_counts_the_bytes_of_what_may_come() {
    let long: &'static str = "b".repeat(10 << 20).leak();
    let mut bench = followed();
    say(&mut bench, format!("DELAY.ADD q 0 {long} ID x LATEST").leak());
    let jobs = vec![(&b"x"[..], bench.token("x"))];
    let mut commands = vec![Request::Ack { queue: queue("q"), jobs }];
    commands.extend((0..6).map(|_| command("DELAY.GET q x")));
    let text = bench.refusal(1, &commands);
    assert!(text.contains("bytes"), "{text}");
    // An allocation of 1,050,000 bytes is one of 1,310,720.
    let line: &str = format!("DELAY.ADD q 0 {} ID x LATEST", &long[..1_050_000]).leak();
    bench.engine.settings_mut().memory_bytes_max = bench.engine.memory_bytes() + 1_200_000;
    assert!(bench.refusal(1, &[command(line)]).starts_with("OOM"));
    bench.engine.settings_mut().memory_bytes_max += 300_000;
    assert!(matches!(bench.transact(1, &[command(line)]), TransactionBegun::Begun(_)));
}

/// Nodes of the version before would take the facts for damage.
#[test]
fn a_cluster_takes_it_once_all_its_nodes_read_it() {
    let mut bench = Bench::new();
    for (term, level) in [(1, LEVEL_LATEST - 1), (2, LEVEL_LATEST)] {
        let (from, to) = (bench.now(), bench.now());
        bench.lead(&Lead { term, node: 1, level, from, to });
        for line in ["DELAY.ADD q 0 v ID x LATEST", "DELAY.ADD q 0 v ID x REPLACE MAXDELAY 1s"] {
            let digest = bench.engine.digest();
            say(&mut bench, line);
            assert_eq!(bench.engine.digest() == digest, level < LEVEL_LATEST, "{line} at {level}");
        }
    }
}
