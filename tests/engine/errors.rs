//! DELAY.ERRORS: what deliveries fail with, counted by kinds of texts.

use delayd::engine::model::errors::kind_of;
use delayd::engine::model::request::{Nack, Request, When};
use delayd::engine::{Engine, Lead, Loader};
use delayd::limits::{ERROR_KIND_BYTES_MAX, LEVEL_ERRORS, LEVEL_LAST_ERRORS};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::engine::bench::*;
use crate::engine::group_rates::command;
use crate::engine::groups::{asked, reserved, said};
use crate::support::seeds::for_each_seed;

/// As client 1: what is answered.
pub fn say(bench: &mut Bench, line: &str) -> String {
    asked(bench, command(line.to_owned().leak()))
}

fn errors(bench: &mut Bench) -> String {
    say(bench, "DELAY.ERRORS q")
}

/// A job that dies with its next failure, reserved.
fn taken(bench: &mut Bench, id: &str) {
    say(bench, &format!("DELAY.ADD q 0 body ID {id} ATTEMPTS 1"));
    assert_eq!(reserved(bench, 1), id);
}

fn fail(bench: &mut Bench, id: &str, text: &str, change: impl FnOnce(&mut Nack<'static>)) {
    let text: &'static str = text.to_owned().leak();
    bench.nack(1, id.to_owned().leak(), |nack| {
        nack.error = (!text.is_empty()).then_some(text.as_bytes());
        change(nack);
    });
    assert_eq!(said(bench), "1");
}

/// A job is taken and dies of this.
fn die(bench: &mut Bench, id: &str, text: &str) {
    taken(bench, id);
    fail(bench, id, text, |_| ());
}

fn kind(text: &str) -> String {
    String::from_utf8(kind_of(text.as_bytes()).to_vec()).unwrap()
}

/// Texts of what kinds are made of, in any order, and as long as they come.
fn any_texts() -> impl Iterator<Item = Vec<u8>> {
    const PIECES: [&[u8]; 24] = [
        b"timeout", b" after ", b"1500ms", b"\"", b"'", b"`x`", b"bob@example.org", b" ", b"  ",
        b"\n", b"deadbeef-", b"cafe", b"10.0.0.7:5432", b"0x1f", b"user_12", b"\xc3\xa9t\xc3\xa9",
        b"\xff", b"#-", b"#", b"can't", b"[fe80::1]", b"upstream connect error", b"4711, 4712",
        b"-",
    ];
    // Of its own, so that no library changes what it draws.
    let mut state = 4_711_u64;
    let mut below = move |end: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % end as u64) as usize
    };
    (0..20_000).map(move |_| {
        let count = below(30);
        (0..count).flat_map(|_| PIECES[below(PIECES.len())]).copied().collect()
    })
}

/// Each node of a cluster makes the kinds by itself, and bases have them: a version that made others would differ.
#[test]
fn kinds_are_those_that_earlier_versions_made() {
    let kinds = any_texts().map(|text| kind_of(&text).to_vec());
    let mixed = |sum: u64, byte: u8| sum.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte);
    assert_eq!(kinds.flatten().fold(0, mixed), 0x6520_9a22_e7c0_b857);
}

#[test]
fn numbers_ids_addresses_and_quoted_words_are_left_out() {
    for (text, expected) in [
        ("timeout", "timeout"),
        ("timeout after 1500ms", "timeout after #ms"),
        ("HTTP 502", "HTTP #"),
        ("connect to 10.0.0.7:5432 refused", "connect to # refused"),
        ("connect to [fe80::1ff:fe23:4567:890a]:80", "connect to [#]:#"),
        ("order4711 of user_12 is gone", "order# of user_# is gone"),
        ("550e8400-e29b-41d4-a716-446655440000 is gone", "# is gone"),
        ("deadbeef-cafe-41d4-abcd-446655440000 is gone", "# is gone"),
        ("at 2026-11-28T19:50:31.011312Z", "at #Z"),
        ("at 2026-11-28 19:50:31", "at # #"),
        ("0x7f8a segfault in 0xDEADbeef1", "# segfault in #"),
        ("sha 4f2aee1 and decade", "sha # and decade"),
        ("key a8Zx91bQ", "key #"),
        ("no \"red shoe\" in 'my cart' or `x y`", "no \"#\" in '#' or `#`"),
        ("can't open the user's file", "can't open the user's file"),
        ("it said \"hello", "it said \"hello"),
        ("mail to bob.smith+tag@mail.example.org.", "mail to #."),
        ("@ noon, @home", "@ noon, @home"),
        ("ids [1, 22,333, 4]", "ids [#]"),
        ("a\n\tb   c ", "a b c"),
        ("Überlänge 12 für 7 Jahre", "Überlänge # für # Jahre"),
        ("", "no error text"),
        (" \n", "no error text"),
    ] {
        assert_eq!(kind(text), expected, "{text}");
    }
}

#[test]
fn no_text_makes_a_kind_long_or_breaks_a_character() {
    let parts = [
        "a", "Z", "9", "12", "beef", "deadbeef", " ", "-", ".", ":", ", ", "'", "\"", "@", "#",
        "é", "漢", "_", "\n", "x1y2", "/", "can't", "10.0.0.1",
    ];
    for_each_seed(300, |seed, _| {
        let mut rng = SmallRng::seed_from_u64(seed);
        let words = (0..rng.random_range(1..120)).map(|_| parts[rng.random_range(0..parts.len())]);
        let text: String = words.collect();
        let kind = kind_of(text.as_bytes());
        assert!((1..=ERROR_KIND_BYTES_MAX).contains(&kind.len()), "{text:?}");
        std::str::from_utf8(&kind).expect("whole characters");
        let bytes: Vec<u8> = (0..200).map(|_| rng.random()).collect();
        assert!((1..=ERROR_KIND_BYTES_MAX).contains(&kind_of(&bytes).len()));
    });
}

#[test]
fn each_way_to_fail_is_counted() {
    let mut bench = Bench::new();
    assert_eq!(errors(&mut bench), "");
    die(&mut bench, "a", "timeout after 17ms");
    bench.at(10);
    // It goes on: a failure, no death.
    say(&mut bench, "DELAY.ADD q 0 body ID b");
    reserved(&mut bench, 1);
    fail(&mut bench, "b", "timeout after 5ms", |_| ());
    assert_eq!(errors(&mut bench), "timeout after #ms: 2/1 b 0 to 10");
    taken(&mut bench, "c");
    fail(&mut bench, "c", "", |nack| nack.bury = true);
    // Given back by a worker that stops: no failure; with a text it is one.
    taken(&mut bench, "d");
    fail(&mut bench, "d", "", |nack| nack.uncounted = true);
    reserved(&mut bench, 1);
    fail(&mut bench, "d", "not now", |nack| nack.uncounted = true);
    reserved(&mut bench, 1);
    // Leases have 100 ms.
    bench.at(110);
    let expected = "timeout after #ms: 2/1 b 0 to 10, lease timed out: 1/1 d 110 to 110, \
                    no error text: 1/1 c 10 to 10, not now: 1/0 d 10 to 10";
    assert_eq!(errors(&mut bench), expected);
}

#[test]
fn who_is_not_dead_any_more_is_not_counted_as_dead() {
    let mut bench = Bench::new();
    for id in ["a", "b", "c", "d", "e"] {
        die(&mut bench, id, "boom 7");
    }
    taken(&mut bench, "t");
    bench.at(100);
    let mut dead = |line: &str| {
        say(&mut bench, line);
        errors(&mut bench)
    };
    let after = |dead: u32| format!("boom #: 5/{dead} e 0 to 0, lease timed out: 1/1 t 100 to 100");
    assert_eq!(dead("DELAY.REDRIVE q IDS 1 a IN 1h"), after(4));
    assert_eq!(dead("DELAY.CANCEL q b FORCE"), after(3));
    let timed_out = "lease timed out: 1/1 t 100 to 100, boom #: 5/0 e 0 to 0";
    assert_eq!(dead("DELAY.CONFIG SET q dead-max 1"), timed_out);
    die(&mut bench, "f", "other");
    assert_eq!(
        errors(&mut bench),
        "other: 1/1 f 100 to 100, boom #: 5/0 e 0 to 0, lease timed out: 1/0 t 100 to 100"
    );
    say(&mut bench, "DELAY.PURGE q DEAD");
    assert_eq!(
        errors(&mut bench),
        "boom #: 5/0 e 0 to 0, lease timed out: 1/0 t 100 to 100, other: 1/0 f 100 to 100"
    );
}

/// 700 jobs died of one error, 300 of another, and the text of one is in the bodies of the others.
#[test]
fn the_jobs_of_an_error_are_found() {
    let mut bench = Bench::new();
    for number in 0..10 {
        die(&mut bench, &format!("x{number}"), &format!("no route to 10.0.0.{number}"));
        die(&mut bench, &format!("y{number}"), "no route");
    }
    taken(&mut bench, "z");
    bench.at(100);
    let mut found = |error: &'static str| {
        let mut scan = command("DELAY.SCAN q 0 COUNT 1000 STATE DEAD");
        let Request::Scan(of) = &mut scan else { unreachable!() };
        of.filter.error = Some(error.as_bytes());
        let mut ids: Vec<String> = asked(&mut bench, scan).split(' ').map(str::to_owned).collect();
        ids.sort();
        (ids.len(), ids[0].clone())
    };
    assert_eq!(found("no route to #"), (10, "x0".into()));
    assert_eq!(found("no route"), (10, "y0".into()));
    assert_eq!(found("no route to 10.0.0.3"), (1, "x3".into()));
    assert_eq!(found("lease timed out"), (1, "z".into()));
    assert_eq!(found("no route to 10.0.0.77"), (1, String::new()));
}

/// Of jobs that wait for their next attempt, too.
#[test]
fn jobs_that_are_not_dead_are_found_by_what_they_failed_with() {
    let mut bench = Bench::new();
    for (id, text) in [("a", ""), ("b", "boom 7"), ("t", "")] {
        say(&mut bench, &format!("DELAY.ADD q 0 body ID {id}"));
        assert_eq!(reserved(&mut bench, 1), id);
        if id != "t" {
            fail(&mut bench, id, text, |_| ());
        }
    }
    bench.at(100);
    for (error, id) in [("no error text", "a"), ("boom #", "b"), ("lease timed out", "t")] {
        let mut scan = command("DELAY.SCAN q 0 COUNT 100");
        let Request::Scan(of) = &mut scan else { unreachable!() };
        of.filter.error = Some(error.as_bytes());
        assert_eq!(asked(&mut bench, scan), id, "{error}");
    }
}

/// Texts that are all different push each other out, and nothing else.
#[test]
fn a_flood_of_texts_stays_small_and_hides_nothing() {
    let mut bench = Bench::with(|settings| settings.memory_bytes_max = 0);
    say(&mut bench, "DELAY.CONFIG SET q dead-max 1");
    let before = bench.engine.memory_bytes();
    let letters = |mut number: u32| -> String {
        let letter = |_| {
            let letter = char::from(b'g' + (number % 20) as u8);
            number /= 20;
            letter
        };
        (0..100).map(letter).collect()
    };
    for number in 0..2_000 {
        die(&mut bench, &format!("{number}{}", "i".repeat(40)), &letters(number));
        if number % 10 == 0 {
            die(&mut bench, "often", "disk full");
        }
    }
    let all = errors(&mut bench);
    let rows: Vec<&str> = all.split(", ").collect();
    assert_eq!(rows.len(), 65);
    let numbers = |row: &str| -> [u64; 2] {
        let numbers = row.split(": ").nth(1).unwrap().split(' ').next().unwrap();
        let mut numbers = numbers.split('/').map(|number| number.parse().unwrap());
        [numbers.next().unwrap(), numbers.next().unwrap()]
    };
    assert!(rows.iter().any(|row| row.starts_with("disk full: 200/")), "{all}");
    assert!(rows[64].starts_with("-: "), "the others come last: {}", rows[64]);
    let sum = |at: usize| rows.iter().map(|row| numbers(row)[at]).sum::<u64>();
    assert_eq!((sum(0), sum(1)), (2_200, 1));
    let grown = bench.engine.memory_bytes() - before;
    assert!((8 << 10..=17 << 10).contains(&grown), "{grown} bytes, a dead job's in it");
}

/// After any history counts of failures and of dead jobs add up, and are the same in a replay and after a base.
#[test]
fn a_restart_and_a_replica_count_the_same() {
    for_each_seed(40, |seed, _| {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut bench = Bench::new();
        say(&mut bench, "DELAY.CONFIG SET q dead-max 20");
        for step in 0..400 {
            let id = format!("j{}", rng.random_range(0..40));
            match rng.random_range(0..10) {
                0..=2 => _ = say(&mut bench, &format!("DELAY.ADD q 0 x ID {id} ATTEMPTS 2")),
                3..=6 => {
                    let id = reserved(&mut bench, 1);
                    let text = ["boom", "at 7", "", "bad"][rng.random_range(0..4)];
                    let other = format!("{text} {}", "g".repeat(rng.random_range(1..90)));
                    let text = if rng.random() { text } else { &other };
                    if id != "nil" && rng.random_range(0..4) > 0 {
                        fail(&mut bench, &id, text, |nack| nack.bury = step % 3 == 0);
                    }
                }
                7 => {
                    let ms = bench.at_ms + rng.random_range(0..400);
                    bench.at(ms);
                }
                8 => _ = say(&mut bench, &format!("DELAY.REDRIVE q IDS 1 {id}")),
                _ if rng.random_range(0..8) == 0 => _ = say(&mut bench, "DELAY.PURGE q DEAD"),
                _ => _ = say(&mut bench, &format!("DELAY.CANCEL q {id} FORCE")),
            }
        }
        say(&mut bench, "DELAY.STATS q");
        let stats = bench.stats.clone().unwrap();
        let counted = errors(&mut bench);
        let mut sums = [0; 2];
        for row in counted.split(", ") {
            let numbers = row.rsplit_once(": ").unwrap().1.split(' ').next().unwrap();
            for (sum, number) in sums.iter_mut().zip(numbers.split('/')) {
                *sum += number.parse::<u64>().unwrap();
            }
        }
        let failed = stats.totals.nacked + stats.totals.timeouts + stats.totals.lost;
        assert_eq!(sums, [failed, stats.dead]);
        let digest = bench.engine.digest();
        bench.engine.begin_base();
        while !bench.engine.base_slice(1, 1) {}
        let images = std::mem::take(bench.engine.base_output());
        assert_eq!(images.len() as u64, bench.engine.base_bytes());
        let mut loader = Loader::new(bench.engine.settings().clone());
        loader.images(&images).expect("own images");
        let loaded = Engine::loaded(loader).expect("a whole base");
        assert_eq!(loaded.digest(), digest);
        // What was purged is freed later.
        bench.engine.tidy_applied(100_000);
        assert_eq!(loaded.memory_bytes(), bench.engine.memory_bytes());
        assert_eq!(loaded.base_bytes_later(), bench.engine.base_bytes_later());
        let mut replica = Engine::new(bench.engine.settings().clone());
        for (now, facts) in &bench.facts {
            replica.apply(*now, facts).expect("own facts");
        }
        assert_eq!(replica.digest(), digest);
    });
}

/// Nodes of the version before keep the newest error of a job alone.
#[test]
fn a_cluster_keeps_earlier_errors_once_all_its_nodes_do() {
    let mut bench = Bench::new();
    say(&mut bench, "DELAY.ADD q 0 body ID j");
    let mut failed = |term: u64, level: u32, text: &str| {
        let (from, to) = (bench.now(), bench.now());
        bench.lead(&Lead { term, node: 1, level, from, to });
        let ms = bench.at_ms + 100_000;
        bench.at(ms);
        assert_eq!(reserved(&mut bench, 1), "j");
        fail(&mut bench, "j", text, |nack| nack.when = Some(When::In(1_000)));
        let shown = say(&mut bench, "DELAY.GET q j");
        bench.restart();
        assert_eq!(say(&mut bench, "DELAY.GET q j"), shown);
        shown.split_once('\'').unwrap().1.to_owned()
    };
    assert_eq!(failed(1, LEVEL_LAST_ERRORS - 1, "one"), "one'");
    assert_eq!(failed(2, LEVEL_LAST_ERRORS - 1, "two"), "two'");
    assert_eq!(failed(3, LEVEL_LAST_ERRORS, "three"), "three' after 'two'");
    assert_eq!(failed(4, LEVEL_LAST_ERRORS, "four"), "four' after 'three' after 'two'");
    assert_eq!(failed(5, LEVEL_LAST_ERRORS, "five"), "five' after 'four' after 'three'");
    assert_eq!(failed(6, LEVEL_LAST_ERRORS - 1, "six"), "six'");
}

/// Nodes of the version before do not count, so that their data would differ.
#[test]
fn a_cluster_counts_once_all_its_nodes_do() {
    let mut bench = Bench::new();
    for (term, level, expected) in
        [(1, LEVEL_ERRORS - 1, ""), (2, LEVEL_ERRORS, "boom: 1/1 b 0 to 0")]
    {
        let (from, to) = (bench.now(), bench.now());
        bench.lead(&Lead { term, node: 1, level, from, to });
        die(&mut bench, if term == 1 { "a" } else { "b" }, "boom");
        assert_eq!(errors(&mut bench), expected);
        say(&mut bench, "DELAY.REDRIVE q IDS 1 a IN 1h");
    }
}
