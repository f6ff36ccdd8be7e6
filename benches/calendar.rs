//! Patterns and the search for their instants.
//!
//! Criterion measures single patterns; before that the worst that was found over all zones is printed: each
//! pattern in each zone from some hundred instants around the changes of its clocks, the longest of three
//! tries each counted by the shortest, since this machine is shared.

#![allow(missing_docs, reason = "criterion_group! makes a public function without any")]

use criterion::{Criterion, criterion_group, criterion_main};
use delayd::calendar::{Pattern, Zone, Zones, count, latest, next};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// 2026-06-15T12:00:00Z.
const NOW: i64 = 1_781_524_800;

/// What costs the search most: what never comes, comes in 40 years, at each second of a fold, or always in a gap.
const HARD: [&str; 10] = [
    "0 0 30 2 *", "* * * 30 2 +*", "0 0 29 2 +SUN", "* * * 29 2 +SUN", "0 0 1 1 +TUE#2",
    "0-59 0-59 2 * * *", "59 59 23 31 12 *", "* * * 31W 2 +0#5,6#5", "0 0 LW 2 +SAT", "* 2 * 3 0L",
];

fn longest() -> Pattern {
    let minutes = "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34";
    let hours = "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23";
    let days = "1W,2W,3W,4W,5W,6W,7W,8W,9W,10W,11W,12W,L,LW";
    let text = format!("{minutes} {hours} {days} 2 +SUN#1,MON#2,TUE#3");
    assert!(text.len() <= 256, "{}", text.len());
    Pattern::parse(text.as_bytes()).unwrap()
}

/// The shortest of three, since what disturbs makes it longer.
fn time_of<T>(mut work: impl FnMut() -> T) -> Duration {
    let mut once = || {
        let began = Instant::now();
        black_box(work());
        began.elapsed()
    };
    (0..3).map(|_| once()).min().unwrap_or_default()
}

fn print_worst() {
    let zones = Zones::bundled();
    let mut patterns: Vec<Pattern> =
        HARD.iter().map(|text| Pattern::parse(text.as_bytes()).unwrap()).collect();
    patterns.push(longest());
    let mut worst = (Duration::ZERO, String::new());
    let mut searches = 0;
    for name in zones.names() {
        let zone = zones.get(name).unwrap();
        for pattern in &patterns {
            for week in 0..60 {
                let after = NOW + week * 7 * 86_400 + week * 3_607;
                let took = time_of(|| next(pattern, &zone, after));
                searches += 1;
                if took > worst.0 {
                    worst = (took, format!("{} in {name} after {after}", pattern.text()));
                }
            }
        }
    }
    println!("worst of {searches} searches: {:?}: {}", worst.0, worst.1);
    let text = longest();
    let took = time_of(|| Pattern::parse(text.text().as_bytes()));
    println!("parse of {} bytes: {took:?}", text.text().len());
}

fn searches(c: &mut Criterion) {
    print_worst();
    let zones = Zones::bundled();
    let mut group = c.benchmark_group("next");
    let mut search = |name: &str, text: &str, zone: &Zone| {
        let pattern = Pattern::parse(text.as_bytes()).unwrap();
        group.bench_function(name, |b| b.iter(|| next(&pattern, zone, black_box(NOW))));
    };
    let berlin = zones.get("Europe/Berlin").unwrap();
    search("every 5 minutes, UTC", "*/5 * * * *", &Zone::utc());
    search("weekdays at eight, Berlin", "0 8 * * 1-5", &berlin);
    search("each quarter of an hour, Berlin", "*/15 * * * *", &berlin);
    search("last Friday, Berlin", "0 18 * * 5L", &berlin);
    search("29 February, Berlin", "0 0 29 2 *", &berlin);
    search("never, Berlin", "0 0 30 2 *", &berlin);
    group.finish();
    c.bench_function("parse: 0 8 * * 1-5", |b| {
        b.iter(|| Pattern::parse(black_box(b"0 8 * * 1-5")));
    });
}

/// The last instant before another, and how many there are in ten years.
fn between(c: &mut Criterion) {
    let berlin = Zones::bundled().get("Europe/Berlin").unwrap();
    let patterns =
        ["* * * * * *", "0-59 0-59 0-23 * * *", "0 8 * * 1-5", "0 0 29 2 +SUN", "0 0 30 2 *"];
    for text in patterns {
        let pattern = Pattern::parse(text.as_bytes()).unwrap();
        c.bench_function(&format!("latest: {text}"), |b| {
            b.iter(|| latest(&pattern, &berlin, black_box(NOW)));
        });
        c.bench_function(&format!("count: {text}"), |b| {
            b.iter(|| count(&pattern, &berlin, black_box(NOW), NOW + 10 * 365 * 86_400));
        });
    }
}

/// A zone is asked for at each occurrence.
fn zones(c: &mut Criterion) {
    let zones = Zones::bundled();
    let mut group = c.benchmark_group("zone");
    for name in ["Europe/Berlin", "america/argentina/buenos_aires", "UTC", "+05:30"] {
        group.bench_function(name, |b| b.iter(|| zones.get(black_box(name))));
    }
    group.finish();
}

criterion_group!(benches, searches, between, zones);
criterion_main!(benches);
