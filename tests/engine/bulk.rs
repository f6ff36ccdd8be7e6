//! DELAY.BULK: something is done to all jobs that are like this.

use delayd::engine::decide::transaction::TransactionBegun;
use delayd::engine::journal_room::{Flow, Room, SIZES};
use delayd::engine::model::request::Wait;
use delayd::engine::{Engine, Outcome};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;

use crate::engine::bench::*;
use crate::engine::errors::say;
use crate::engine::group_rates::command;
use crate::support::seeds::for_each_seed;

const HOUR_MS: u64 = 3_600_000;

/// Jobs by id: state and due time.
fn jobs(bench: &mut Bench, ids: impl Iterator<Item = String>) -> BTreeMap<String, String> {
    let shown = ids.map(|id| (id.clone(), say(bench, &format!("DELAY.GET q {id}"))));
    shown.filter(|(_, shown)| shown != "nil").collect()
}

fn due_ms(shown: &str) -> u64 {
    let due = shown.split(" due ").nth(1).expect("a due time");
    due.split(' ').next().expect("a number").parse().expect("a number")
}

/// So many delayed jobs a0 to an, due a second after each other, and as many ready ones b0 to bn.
fn filled(count: u64) -> Bench {
    let mut bench = Bench::new();
    for number in 0..count {
        say(&mut bench, &format!("DELAY.ADD q {}s x ID a{number}", 10 + number));
        say(&mut bench, &format!("DELAY.ADD q 0 x ID b{number}"));
    }
    bench
}

#[test]
fn each_job_is_moved_by_as_much_as_was_asked() {
    let mut bench = filled(6_000);
    let before = jobs(&mut bench, (0..6_000).map(|number| format!("a{number}")));
    assert_eq!(say(&mut bench, "DELAY.BULK q RESCHEDULE STATE delayed BY +1h"), "6000");
    for (id, shown) in &before {
        let now = say(&mut bench, &format!("DELAY.GET q {id}"));
        assert_eq!(due_ms(&now), due_ms(shown) + HOUR_MS, "{id}");
    }
    assert_eq!(say(&mut bench, "DELAY.LEN q READY"), "6000");
    // Earlier than now is now.
    assert_eq!(say(&mut bench, "DELAY.BULK q RESCHEDULE MATCH a1? BY -3h"), "10");
    assert_eq!(say(&mut bench, "DELAY.GET q a15").split(' ').next(), Some("ready"));
}

#[test]
fn a_shift_ends_at_the_longest_delay() {
    let mut bench = filled(3);
    bench.engine.settings_mut().delay_ms_max = 20_000;
    assert_eq!(say(&mut bench, "DELAY.BULK q RESCHEDULE STATE delayed BY 15s"), "3");
    for id in ["a0", "a1", "a2"] {
        assert_eq!(due_ms(&say(&mut bench, &format!("DELAY.GET q {id}"))), 20_000, "{id}");
    }
}

#[test]
fn times_are_spread_evenly() {
    let mut bench = filled(10);
    assert_eq!(say(&mut bench, "DELAY.BULK q RESCHEDULE MATCH b* IN 1m OVER 10s LIMIT 8"), "8");
    let moved = jobs(&mut bench, (0..10).map(|number| format!("b{number}")));
    let delayed = moved.values().filter(|shown| shown.starts_with("delayed"));
    let mut dues: Vec<u64> = delayed.map(|shown| due_ms(shown)).collect();
    dues.sort_unstable();
    assert_eq!(dues, (0..8).map(|number| 60_000 + number * 1_250).collect::<Vec<_>>());
}

#[test]
fn a_dry_run_counts_and_changes_nothing() {
    let mut bench = filled(5_000);
    let digest = bench.engine.digest();
    for (line, count) in [
        ("DELAY.BULK q CANCEL STATE delayed DRYRUN", "5000"),
        ("DELAY.BULK q CANCEL MATCH a*9 DRYRUN", "500"),
        ("DELAY.BULK q CANCEL MATCH a* LIMIT 7 DRYRUN", "7"),
        ("DELAY.BULK q RESCHEDULE CONTAINS x IN 5m OVER 1h DRYRUN", "10000"),
        ("DELAY.BULK q REDRIVE ERROR boom DRYRUN", "0"),
        ("DELAY.BULK none CANCEL MATCH * DRYRUN", "0"),
        ("DELAY.BULK q CANCEL GROUP none DRYRUN", "0"),
    ] {
        assert_eq!(say(&mut bench, line), count, "{line}");
    }
    assert_eq!(bench.engine.digest(), digest);
}

/// Jobs die of two errors, of which the text of one is in the bodies of the others.
#[test]
fn the_jobs_of_an_error_are_tried_again() {
    let mut bench = Bench::new();
    for number in 0..1_000 {
        let id: &str = format!("j{number}").leak();
        say(&mut bench, &format!("DELAY.ADD q 0 refused ID {id} ATTEMPTS 1"));
        say(&mut bench, "DELAY.RESERVE NOWAIT 1 q");
        let text = if number % 10 < 7 { format!("boom-{number}") } else { "refused".to_owned() };
        bench.nack(1, id, |nack| nack.error = Some(text.leak().as_bytes()));
        bench.take_events();
    }
    assert_eq!(say(&mut bench, "DELAY.BULK q REDRIVE ERROR boom-# OVER 10m"), "700");
    for number in 0..1_000_u64 {
        let shown = say(&mut bench, &format!("DELAY.GET q j{number}"));
        assert_eq!(shown.starts_with("dead"), number % 10 >= 7, "{number}: {shown}");
        assert!(due_ms(&shown) < 600_000, "{number}: {shown}");
    }
    assert_eq!(say(&mut bench, "DELAY.BULK q CANCEL STATE dead ERROR refused"), "300");
    assert_eq!(say(&mut bench, "DELAY.LEN q DEAD"), "0");
}

/// Other clients add, take and move jobs between the slices: none is done twice, and none that was there is forgotten.
#[test]
fn what_others_do_meanwhile_is_left_alone() {
    for_each_seed(6, |seed, _| {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut bench = filled(9_000);
        let shift = command("DELAY.BULK q RESCHEDULE STATE delayed MATCH a* BY +1h");
        let (mut moved_by_others, mut slices) = (Vec::new(), 0);
        while bench.ask(1, shift.clone()) == Outcome::Again {
            slices += 1;
            for _ in 0..300 {
                let number = rng.random_range(0..9_000_u64);
                let id = format!("a{number}");
                match rng.random_range(0..3) {
                    0 => {
                        let line = format!("DELAY.ADD q 5h x ID {id}{slices}n");
                        asked_by_other(&mut bench, &line);
                    }
                    1 => {
                        asked_by_other(&mut bench, &format!("DELAY.RESCHEDULE q {id} 9h"));
                        moved_by_others.push(number);
                    }
                    _ => asked_by_other(&mut bench, &format!("DELAY.CANCEL q {id}")),
                }
            }
        }
        assert!(slices >= 2, "{slices} slices");
        for number in 0..9_000_u64 {
            let shown = say(&mut bench, &format!("DELAY.GET q a{number}"));
            if shown == "nil" || moved_by_others.contains(&number) {
                continue;
            }
            assert_eq!(due_ms(&shown), (10 + number) * 1_000 + HOUR_MS, "a{number}");
        }
        let others =
            (0..9_000).flat_map(|number| (1..=slices).map(move |n| format!("a{number}{n}n")));
        for (id, shown) in jobs(&mut bench, others) {
            assert_eq!(due_ms(&shown), 5 * HOUR_MS, "{id}");
        }
        let mut replica = Engine::new(bench.engine.settings().clone());
        for (now, facts) in &bench.facts {
            replica.apply(*now, facts).expect("own facts");
        }
        assert_eq!(replica.digest(), bench.engine.digest());
    });
}

fn asked_by_other(bench: &mut Bench, line: &str) {
    while bench.ask(2, command(line.to_owned().leak())) == Outcome::Again {}
    bench.take_events();
}

#[test]
fn leased_jobs_are_cancelled_with_force_alone() {
    let mut bench = filled(10);
    say(&mut bench, "DELAY.RESERVE NOWAIT 1 q COUNT 4");
    assert_eq!(say(&mut bench, "DELAY.BULK q CANCEL MATCH b*"), "6");
    assert_eq!(say(&mut bench, "DELAY.LEN q LEASED"), "4");
    assert_eq!(say(&mut bench, "DELAY.BULK q CANCEL MATCH b* FORCE"), "4");
    assert_eq!(say(&mut bench, "DELAY.LEN q"), "10");
}

/// A consumer that waits gets what is ready again in the same turn.
#[test]
fn who_waits_is_served() {
    let mut bench = filled(3);
    say(&mut bench, "DELAY.PURGE q READY");
    bench.ask(5, pop(Q, Wait::Forever));
    bench.ask(1, command("DELAY.BULK q RESCHEDULE MATCH a2 IN 0"));
    bench.hand_off();
    assert_eq!(bench.take_events(), ["1:1", "5:a2"]);
}

#[test]
fn it_takes_several_turns_and_is_in_no_transaction() {
    let mut bench = filled(9_000);
    let all = command("DELAY.BULK q CANCEL CONTAINS x");
    assert_eq!(bench.ask(1, all.clone()), Outcome::Again);
    let TransactionBegun::Refused(error) = bench.begin(2, &[all]) else { panic!("it began") };
    assert!(error.to_string().contains("BULK"), "{error}");
    // Whoever has the queue removed it: what was done until then is told.
    bench.ask(2, remove(&[b"q"]));
    bench.take_events();
    let done: u64 = say(&mut bench, "DELAY.BULK q CANCEL CONTAINS x").parse().unwrap();
    assert!((1..18_000).contains(&done), "{done}");
}

/// The first is promised its room; then it ends, and what was done is told.
#[test]
fn a_journal_without_room_ends_it() {
    let mut bench = filled(100);
    let bytes = SIZES.taking + SIZES.redriven + 1_000;
    bench.flow(Flow::Running { room: Room::of(bytes, 0) });
    let done: u64 = say(&mut bench, "DELAY.BULK q RESCHEDULE MATCH a* BY 1h").parse().unwrap();
    assert!((1..100).contains(&done), "{done}");
    bench.flow(Flow::default());
    assert_eq!(say(&mut bench, "DELAY.LEN q DELAYED"), "100");
}
