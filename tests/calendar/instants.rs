//! Instants by name: plain ones (p), gaps (g), folds (f), zones with a history (z), rare ones and none (n).

use crate::support::patience::cpu;
use delayd::calendar::{Instants, Pattern, Zones, count, next};

struct Case {
    id: String,
    cron: String,
    zone: String,
    now: i64,
    next: Vec<i64>,
}

fn cases() -> Vec<Case> {
    let lines = include_str!("instants.jsonl").lines();
    let case = |line| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| value[name].as_str().unwrap().to_owned();
        let seconds = |value: &serde_json::Value| value.as_i64().unwrap() / 1000;
        Case {
            id: text("id"),
            cron: text("cron"),
            zone: text("zone"),
            now: seconds(&value["now"]),
            next: value["next"].as_array().unwrap().iter().map(seconds).collect(),
        }
    };
    lines.map(case).collect()
}

#[test]
fn each_named_case_has_its_next_three_instants() {
    let zones = Zones::bundled();
    let cases = cases();
    assert_eq!(cases.len(), 88);
    let wrong = cases.iter().filter_map(|case| {
        let pattern = Pattern::parse(case.cron.as_bytes()).unwrap();
        let zone = zones.get(&case.zone).unwrap();
        let found: Vec<i64> = Instants::after(&pattern, &zone, case.now).take(3).collect();
        let shown = |at: &Vec<i64>| at.iter().map(|at| zone.show(*at)).collect::<Vec<_>>();
        (found != case.next).then(|| {
            let (found, wanted) = (shown(&found), shown(&case.next));
            format!("{} {} {}: {found:?}, not {wanted:?}", case.id, case.cron, case.zone)
        })
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn nothing_after(pattern: &str, zone: &str, now: i64) -> bool {
    let pattern = Pattern::parse(pattern.as_bytes()).unwrap();
    next(&pattern, &Zones::bundled().get(zone).unwrap(), now).is_none()
}

#[test]
fn what_never_comes_is_told_at_once() {
    for pattern in [
        "0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 1 1 +TUE#2", "0 0 8-31 * +MON#1", "* * 30 2 *",
        "* * * 31 2 +*",
    ] {
        for zone in ["UTC", "Europe/Berlin", "Africa/Casablanca"] {
            let (is_told, took) = cpu(|| nothing_after(pattern, zone, 1_790_000_000));
            assert!(is_told, "{pattern}");
            // Asked are 0.2 ms of a release build; a walk to the year 5000 would take a hundred times that.
            assert!(took.as_millis() < 100, "{pattern}: {took:?}");
        }
    }
}

/// Summer begins on the last Sunday of March at 02:00, and a pattern that follows elapsed time has nothing then:
/// each year the search finds a time that is stepped over.
#[test]
fn what_the_clocks_always_step_over_is_told_at_once() {
    for (pattern, zone) in [
        ("* 2 * 3 0L", "Europe/Berlin"),
        ("* 2 29 3 +SUN", "Europe/Berlin"),
        ("* 2 * 3 0#2", "America/New_York"),
    ] {
        let timed = || {
            let (is_told, took) = cpu(|| nothing_after(pattern, zone, 1_790_000_000));
            assert!(is_told, "{pattern}");
            took
        };
        let took = (0..5).map(|_| timed()).min().unwrap();
        // Asked are 0.2 ms of a release build; a look at each year until 9999 would take a hundred times that.
        assert!(took.as_millis() < 10, "{pattern}: {took:?}");
    }
}

/// Each date falls on each day of the week within 40 years, also where a leap day is left out.
#[test]
fn the_rarest_patterns_are_found() {
    let utc = Zones::bundled().get("UTC").unwrap();
    // 2100 is no leap year: 40 years lie between two leap days of a Sunday, where else 28 do.
    for (pattern, now, wanted) in [
        ("0 0 29 2 +SUN", "2032-03-01T00:00:00Z", "2060-02-29T00:00:00Z"),
        ("0 0 29 2 +SUN", "2088-03-01T00:00:00Z", "2128-02-29T00:00:00Z"),
    ] {
        let now: jiff::Timestamp = now.parse().unwrap();
        let pattern = Pattern::parse(pattern.as_bytes()).unwrap();
        let found = next(&pattern, &utc, now.as_second()).and_then(|at| utc.show(at));
        assert_eq!(found.unwrap().replace("+00:00", "Z"), wanted, "{}", pattern.text());
    }
}

#[test]
fn instants_end_with_the_year_9999() {
    // 9999-12-27T00:00:00Z
    let late = 253_401_868_800;
    for zone in ["UTC", "Europe/Berlin", "+14:00", "-12:00"] {
        let zone = Zones::bundled().get(zone).unwrap();
        for pattern in ["* * * * *", "30 2 * * *", "0 0 29 2 *", "*/10 * * * * *", "0-59 * * * *"] {
            let pattern = Pattern::parse(pattern.as_bytes()).unwrap();
            let found: Vec<i64> = Instants::after(&pattern, &zone, late).take(100_000).collect();
            assert!(found.len() < 100_000 && found.is_sorted(), "{}", pattern.text());
            let counted = count(&pattern, &zone, late, i64::MAX);
            assert_eq!(counted, found.len() as u64, "{}", pattern.text());
        }
    }
}
