//! Schedules: set and changed, through time, downtime and changes of the clock. The clock begins at 2025-01-01T00:00Z, a
//! Wednesday.

use delayd::calendar::Zones;
use delayd::engine::Lead;
use delayd::engine::journal_room::{Flow, Room};
use delayd::engine::model::queue_settings::QueueSettings;
use delayd::engine::model::request::{Add, Direction, JobState, Request, Wait};
use delayd::limits::LEVEL_SCHEDULES;
use std::borrow::Cow;
use std::sync::Arc;

use crate::engine::bench::*;

const S: u64 = 1_000;
const MIN: u64 = 60 * S;
const HOUR: u64 = 60 * MIN;
const DAY: u64 = 24 * HOUR;

/// Nominal instants in ms since the begin.
fn at(instants: &[u64]) -> Vec<i64> {
    instants.iter().map(|at| *at as i64).collect()
}

/// Takes all that is ready, for good.
fn take_all(bench: &mut Bench) {
    while !bench.ready().is_empty() {
        bench.ask(3, pop(Q, Wait::No));
        bench.sent(3);
        bench.take_events();
    }
}

#[track_caller]
fn check(bench: &mut Bench, line: &str, expected: &str) {
    assert_eq!(bench.say(line), expected, "{line}");
}

/// Tables of one zone, Test/Zone, whose clocks are always so many hours ahead of UTC.
pub fn tables(offset_h: i32) -> Arc<Zones> {
    let data = tzif(offset_h * 3_600);
    Arc::new(Zones::new("9999a", [("Test/Zone".into(), Cow::Owned(data))]))
}

/// A table of one zone whose clocks are always so many seconds ahead (RFC 9636, version 1 and 2).
fn tzif(offset_s: i32) -> Vec<u8> {
    let header = |version: u8| {
        let mut head = b"TZif".to_vec();
        head.push(version);
        head.extend([0; 15]);
        // No transitions, one type, four characters.
        for count in [0u32, 0, 0, 0, 1, 4] {
            head.extend(count.to_be_bytes());
        }
        head
    };
    let mut body = offset_s.to_be_bytes().to_vec();
    body.extend([0, 0]);
    body.extend(b"TST\0");
    let footer =
        format!("\n<TST>{}{}:00\n", if offset_s > 0 { "-" } else { "" }, (offset_s / 3_600).abs());
    let v1 = [header(b'2'), body.clone()].concat();
    [v1, header(b'2'), body, footer.into_bytes()].concat()
}

mod setting {
    use super::*;

    #[test]
    fn the_same_words_change_nothing_however_often_they_are_said() {
        let mut bench = Bench::new();
        check(&mut bench, "SET q n body EVERY 24h", "created 86400000");
        for hour in 1..24 {
            bench.at(hour * HOUR);
            let before = bench.made();
            check(&mut bench, "SET q n body EVERY 24h", "same 86400000");
            assert_eq!(bench.made(), before, "no fact");
        }
        bench.at(2 * DAY);
        assert_eq!(bench.ready(), at(&[2 * DAY]), "one at a time is made up for");
        check(&mut bench, "SET q n body EVERY 24h", "same 259200000");
    }

    #[test]
    fn another_body_a_second_before_is_the_next_ones() {
        let mut bench = Bench::new();
        check(&mut bench, "SET q n old EVERY 1m", "created 60000");
        bench.at(59 * S);
        check(&mut bench, "SET q n new EVERY 1m", "changed 60000");
        bench.at(60 * S);
        bench.check(2, list("q"), &["2:new"]);
    }

    #[test]
    fn a_duration_that_is_changed_again_and_again_begins_anew_each_time() {
        let mut bench = Bench::new();
        check(&mut bench, "SET q n x EVERY 3s", "created 3000");
        for (at_ms, every, next) in [(200, "8s", 8_200), (400, "4s", 4_400), (600, "9s", 9_600)] {
            bench.at(at_ms);
            check(&mut bench, &format!("SET q n x EVERY {every}"), &format!("changed {next}"));
        }
        bench.at(800);
        check(&mut bench, "SET q n x EVERY 2s", "changed 2800");
        bench.at(2_800);
        assert_eq!(bench.ready(), at(&[2_800]));
    }

    #[test]
    fn a_removed_one_that_is_set_again_on_the_same_grid_goes_on_with_the_next_instant() {
        let mut bench = Bench::new();
        let set = "SET q n x EVERY 1m FROM 2025-01-01T00:00:00Z";
        check(&mut bench, set, "created 60000");
        bench.at(MIN);
        take_all(&mut bench);
        check(&mut bench, "DEL q n nobody", "1");
        check(&mut bench, "GET q n", "nil");
        check(&mut bench, set, "created 120000");
        bench.at(2 * MIN);
        assert_eq!(bench.ready(), at(&[2 * MIN]));
    }

    #[test]
    fn in_the_ms_of_an_occurrence_there_is_one_of_it_whoever_comes_first() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 1m");
        bench.at_ms = MIN;
        check(&mut bench, "SET q n y EVERY 1m", "changed 120000");
        assert_eq!(bench.ready(), at(&[MIN]));
        bench.at(MIN);
        check(&mut bench, "SET q n z EVERY 1m", "changed 120000");
        assert_eq!(bench.ready(), at(&[MIN]));
    }

    #[test]
    fn what_has_come_and_is_yet_to_be_spread_takes_the_new_body_and_stays() {
        let mut bench = Bench::new();
        bench.say("SET q n old EVERY 1h SPREAD 50m");
        let due = bench.say("GET q n");
        assert!(due.contains("next 3600000"), "{due}");
        let mut ms = HOUR;
        bench.at(ms);
        check(&mut bench, "SET q n new EVERY 1h SPREAD 50m", "changed 3600000");
        while bench.ready().is_empty() {
            ms += S;
            bench.at(ms);
        }
        assert!(ms > HOUR && ms < 2 * HOUR - 10 * MIN, "within the spread: {ms}");
        bench.check(2, list("q"), &["2:new"]);
        assert_eq!(bench.ready(), at(&[HOUR]));
        // Each is shifted by the same.
        bench.at(ms + HOUR - S);
        assert_eq!(bench.ready(), at(&[HOUR]));
        bench.at(ms + HOUR);
        assert_eq!(bench.ready(), at(&[HOUR, 2 * HOUR]));
    }

    #[test]
    fn the_last_one_before_the_end_is_shifted_as_the_others() {
        let mut bench = Bench::new();
        bench.say("SET q n x CRON \"* * * * *\" SPREAD 50s UNTIL 2025-01-01T00:02:00Z");
        bench.at(3 * MIN);
        assert_eq!(bench.ready().len(), 1);
        // That of midnight is due after this, too, and comes.
        check(&mut bench, "GET q n", "done next nil made 1 missed 2 skipped 0 replaced 0 open 1");
        let mut bench = Bench::new();
        bench.say("SET q n x CRON \"* * * * *\" SPREAD 1d CATCHUP 9 UNTIL 2025-01-01T00:02:00Z");
        // Never as late as the next one.
        bench.at(2 * MIN - 2);
        assert_eq!(bench.ready(), at(&[0]));
        bench.at(2 * MIN - 1);
        assert_eq!(bench.ready(), at(&[0, MIN]));
        bench.at(3 * MIN - 1);
        assert_eq!(bench.ready(), at(&[0, MIN, 2 * MIN]));
    }

    #[test]
    fn a_yearly_pattern_changed_to_each_minute_has_missed_nothing() {
        let mut bench = Bench::new();
        bench.say("SET q n x CRON @yearly");
        bench.at(90 * DAY);
        check(&mut bench, "SET q n x CRON \"* * * * *\"", &format!("changed {}", 90 * DAY + MIN));
        bench.at(90 * DAY + MIN);
        let ends = "made 1 missed 0 skipped 0 replaced 0 open 1";
        check(&mut bench, "GET q n", &format!("active next {} {ends}", 90 * DAY + 2 * MIN));
    }

    #[test]
    fn a_later_time_of_the_day_comes_today_and_an_earlier_one_tomorrow() {
        let mut bench = Bench::new();
        bench.say("SET q n x CRON \"0 8 * * *\"");
        bench.at(8 * HOUR + 30 * MIN);
        let nine = format!("changed {}", 9 * HOUR);
        check(&mut bench, "SET q n x CRON \"0 9 * * *\"", &nine);
        bench.at(9 * HOUR + 30 * MIN);
        let seven = format!("changed {}", DAY + 7 * HOUR);
        check(&mut bench, "SET q n x CRON \"0 7 * * *\"", &seven);
        assert_eq!(bench.ready(), at(&[8 * HOUR, 9 * HOUR]));
    }

    #[test]
    fn a_pause_outlasts_set_and_not_del() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 1m");
        check(&mut bench, "PAUSE q n", "1");
        check(&mut bench, "SET q n x EVERY 1m", "same nil");
        check(&mut bench, "SET q n y EVERY 2m", "changed nil");
        bench.at(HOUR);
        assert_eq!(bench.ready(), at(&[]));
        check(&mut bench, "LIST q", "n paused");
        check(&mut bench, "DEL q n", "1");
        check(&mut bench, "SET q n y EVERY 2m", &format!("created {}", HOUR + 2 * MIN));
        bench.at(HOUR + 2 * MIN);
        assert_eq!(bench.ready(), at(&[HOUR + 2 * MIN]));
    }

    #[test]
    fn runs_that_are_used_up_are_not_had_again_by_the_same_words() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 1m RUNS 3");
        bench.at(MIN);
        bench.at(2 * MIN);
        check(&mut bench, "NEXT q n COUNT 9", &format!("{}", BEGIN_MS + 3 * MIN));
        check(&mut bench, "SET q n x EVERY 1m RUNS 3", "same 180000");
        for minute in 3..9 {
            bench.at(minute * MIN);
        }
        assert_eq!(bench.ready(), at(&[MIN, 2 * MIN, 3 * MIN]));
        check(&mut bench, "SET q n x EVERY 1m RUNS 3", "same nil");
        check(&mut bench, "LIST q", "n done");
        check(&mut bench, "NEXT q n COUNT 9", "");
        // More are left then; what passed meanwhile is not made up for.
        check(&mut bench, "SET q n x EVERY 1m RUNS 4", "changed 540000");
    }

    #[test]
    fn an_end_that_is_past_is_refused_of_a_new_one_and_ends_an_old_one() {
        let mut bench = Bench::new();
        bench.at(HOUR);
        check(&mut bench, "SET q n x EVERY 1m UNTIL 2025-01-01T00:30:00Z", "ERR");
        check(&mut bench, "LIST q", "");
        bench.check(2, Request::Exists { db: delayd::ids::Db(0), queues: Q }, &["2:0"]);
        bench.say("SET q n x EVERY 1m");
        check(&mut bench, "SET q n x EVERY 1m UNTIL 2025-01-01T00:30:00Z", "changed nil");
        check(&mut bench, "LIST q", "n done");
    }

    #[test]
    fn what_never_comes_is_refused_and_what_was_set_stays() {
        let mut bench = Bench::new();
        for line in [
            "SET q n x CRON \"0 0 30 2 *\"",
            "SET q n x CRON \"0 0 31 4,6,9,11 *\"",
            "SET q n x CRON \"0 0 1 1 +TUE#2\"",
            "SET q n x CRON \"0 0 8-31 * +MON#1\"",
            "SET q n x CRON \"0 0 1 1 *\" TZ Europe/Berln",
            "SET q n x CRON \"0 0 1 1 *\" TZ CST",
            "SET q n x CRON \"0 0 1 1 *\" TZ GMT+2",
            "SET q n x EVERY 3651d",
            "SET q n x EVERY 1m LEASE 25h",
            "EXPLAIN CRON \"0 0 30 2 *\"",
        ] {
            let before = bench.made();
            check(&mut bench, line, "ERR");
            assert_eq!(bench.made(), before, "{line}");
        }
        bench.say("SET q n x EVERY 1m");
        check(&mut bench, "SET q n x CRON \"0 0 30 2 *\"", "ERR");
        check(&mut bench, "SET q n x EVERY 1m", "same 60000");
    }

    #[test]
    fn a_set_names_all_and_what_it_does_not_name_is_as_if_it_had_never_been() {
        let mut bench = Bench::new();
        bench
            .say("SET q n x EVERY 1m RUNS 2 PRIORITY 0 OVERLAP SKIP SPREAD 10s GRACE 1s CATCHUP 5");
        check(&mut bench, "SET q n x EVERY 1m", "changed 60000");
        for minute in 1..4 {
            bench.at(minute * MIN);
        }
        assert_eq!(bench.ready(), at(&[MIN, 2 * MIN, 3 * MIN]));
    }

    #[test]
    fn names_and_bodies_count_as_memory_and_go_with_it() {
        let mut bench = Bench::with(|settings| settings.memory_bytes_max = 1 << 20);
        let before = bench.engine.memory_bytes();
        let body = "b".repeat(100_000);
        for name in 0..9 {
            bench.say(&format!("SET q n{name} {body} EVERY 1h"));
        }
        assert!(bench.engine.memory_bytes() > before + 900_000);
        check(&mut bench, &format!("SET q n9 {body}{body} EVERY 1h"), "OOM");
        check(&mut bench, "SET q n0 small EVERY 1h", "changed 3600000");
        check(&mut bench, &format!("SET q n9 {body} EVERY 1h"), "created 3600000");
        check(&mut bench, "DEL q n0 n1 n2 n3 n4 n5 n6 n7 n8 n9", "10");
        bench.at(DAY + HOUR);
        assert_eq!(bench.engine.memory_bytes(), before, "the queue is forgotten, too");
    }

    #[test]
    fn a_cluster_takes_them_once_all_its_nodes_read_them() {
        let mut bench = Bench::new();
        let lead = |bench: &mut Bench, term, level| {
            let (from, to) = (bench.now(), bench.now());
            bench.lead(&Lead { term, node: 1, level, from, to });
        };
        lead(&mut bench, 1, LEVEL_SCHEDULES - 1);
        check(&mut bench, "SET q n x EVERY 1m", "ERR");
        check(&mut bench, "LIST q", "");
        lead(&mut bench, 2, LEVEL_SCHEDULES);
        check(&mut bench, "SET q n x EVERY 1m", "created 60000");
    }
}

mod time {
    use super::*;

    #[test]
    fn what_came_while_nothing_was_at_work_is_made_once_and_the_others_are_counted() {
        // Daily at ten, away from 09:59:57 to 10:00:01, and never before.
        let mut bench = Bench::new();
        bench.say("SET q n x CRON \"0 10 * * *\"");
        bench.at(10 * HOUR - 3 * S);
        assert_eq!(bench.ready(), at(&[]));
        bench.at(10 * HOUR + S);
        assert_eq!(bench.ready(), at(&[10 * HOUR]));
        // Each five minutes, away for 16.
        let mut bench = Bench::new();
        bench.say("SET q n x CRON \"*/5 * * * *\"");
        bench.at(17 * MIN);
        assert_eq!(bench.ready(), at(&[15 * MIN]));
        check(
            &mut bench,
            "GET q n",
            &format!("active next {} made 1 missed 2 skipped 0 replaced 0 open 1", 20 * MIN),
        );
        // Each minute, away for three days: never an end of it.
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 1m");
        bench.at(3 * DAY + 30 * S);
        assert_eq!(bench.ready(), at(&[3 * DAY]));
        let ends = "made 1 missed 4319 skipped 0 replaced 0 open 1";
        check(&mut bench, "GET q n", &format!("active next {} {ends}", 3 * DAY + MIN));
        assert_eq!(
            bench.engine.take_missed().noted.iter().map(|one| one.count).sum::<u64>(),
            4_319
        );
    }

    #[test]
    fn as_many_are_made_up_for_as_catchup_says_in_the_order_of_their_instants() {
        for set in ["EVERY 10m", "CRON \"*/10 * * * *\""] {
            let mut bench = Bench::new();
            bench.say(&format!("SET q n x {set} CATCHUP 1000"));
            bench.at(DAY);
            let all: Vec<u64> = (1..=144).map(|ten| ten * 10 * MIN).collect();
            assert_eq!(bench.ready(), at(&all), "{set}");
            let id: &'static str = format!("n@{}", BEGIN_MS + 10 * MIN).leak();
            bench.check(2, get("q", id), &["2:ready due 600000 attempt 0"]);

            let mut bench = Bench::new();
            bench.say(&format!("SET q n x {set} CATCHUP 3"));
            bench.at(DAY);
            assert_eq!(bench.ready(), at(&[DAY - 20 * MIN, DAY - 10 * MIN, DAY]), "{set}");
            let ends = "made 3 missed 141 skipped 0 replaced 0 open 3";
            check(&mut bench, "GET q n", &format!("active next {} {ends}", DAY + 10 * MIN));
        }
    }

    #[test]
    fn what_is_made_up_for_is_settled_when_it_begins() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 100ms CATCHUP 1000");
        bench.at_ms = HOUR;
        // In slices, between which more comes due.
        while bench.advance(100) {
            bench.at_ms += 100;
        }
        let ready = bench.ready();
        let first = HOUR as i64 - 999 * 100;
        let expected: Vec<i64> = (0..ready.len() as i64).map(|nth| first + nth * 100).collect();
        assert_eq!(ready, expected, "none is left out");
        assert!(ready.len() > 1_000);
    }

    #[test]
    fn what_is_later_than_grace_is_missed_and_what_was_at_work_on_time_is_not_late() {
        let mut bench = Bench::new();
        bench.say("SET q n x CRON \"0 2 * * *\" GRACE 1h");
        bench.at(HOUR);
        bench.at(9 * HOUR);
        let missed = "made 0 missed 1 skipped 0 replaced 0 open 0";
        check(&mut bench, "GET q n", &format!("active next {} {missed}", DAY + 2 * HOUR));
        bench.at(DAY);
        bench.at(DAY + 3 * HOUR);
        assert_eq!(bench.ready(), at(&[DAY + 2 * HOUR]), "an hour late is not later than an hour");

        // A herd of others is at work in the ms in which it comes.
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 1m GRACE 1s");
        for _ in 0..20_000 {
            bench.add(Add { id: None, ..job("other", "", MIN) });
        }
        bench.at(MIN - 1);
        bench.at_ms = MIN;
        while bench.advance(100) {
            bench.at_ms += 50;
        }
        assert!(bench.at_ms > MIN + 5 * S, "that took long: {}", bench.at_ms);
        assert_eq!(bench.ready().first(), Some(&(MIN as i64)));
        check(&mut bench, "LIST q", "n active");
    }

    #[test]
    fn nothing_comes_at_a_restart_but_what_is_due() {
        let mut bench = Bench::new();
        bench.say("SET q n x CRON \"0 21 * * *\" TZ America/Sao_Paulo");
        bench.at(20 * HOUR + 12 * MIN);
        bench.engine = bench.replayed();
        bench.engine.set_zones(Zones::bundled());
        bench.at(20 * HOUR + 13 * MIN);
        assert_eq!(bench.ready(), at(&[]));
        bench.at(DAY);
        assert_eq!(bench.ready(), at(&[DAY]), "21:00 there is midnight UTC");
    }

    #[test]
    fn a_grid_does_not_drift_and_each_instant_of_it_comes_once() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 1h FROM 2024-12-31T00:30:00Z");
        let mut expected = Vec::new();
        for hour in 0..30 {
            bench.at(hour * HOUR + 30 * MIN + hour * 7);
            expected.push(hour * HOUR + 30 * MIN);
            assert_eq!(bench.ready(), at(&expected));
        }
    }

    #[test]
    fn a_pause_is_never_made_up_for() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 1m CATCHUP 100");
        bench.at(MIN);
        check(&mut bench, "PAUSE q n FOR 50m", "1");
        bench.at(51 * MIN - 1);
        check(&mut bench, "LIST q", "n paused");
        bench.at(51 * MIN);
        assert_eq!(bench.ready(), at(&[MIN]), "that of the end is not after it");
        check(&mut bench, "LIST q", "n active");
        bench.at(52 * MIN);
        assert_eq!(bench.ready(), at(&[MIN, 52 * MIN]));
        let none = "made 2 missed 0 skipped 0 replaced 0 open 2";
        check(&mut bench, "GET q n", &format!("active next {} {none}", 53 * MIN));
        // Resumed before its end.
        check(&mut bench, "PAUSE q n FOR 1h", "1");
        bench.at(60 * MIN + 30 * S);
        check(&mut bench, "RESUME q n", "1");
        check(&mut bench, "RESUME q n", "1");
        check(&mut bench, "RESUME q nobody", "0");
        bench.at(61 * MIN);
        assert_eq!(bench.ready(), at(&[MIN, 52 * MIN, 61 * MIN]));
    }

    #[test]
    fn a_million_other_settings_put_nothing_off() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 1s");
        for nth in 0..2_000 {
            bench.at_us = 0;
            bench.at_ms = nth / 2;
            bench.say(&format!("SET other o x EVERY {}ms", 100 + nth % 7));
        }
        bench.at(1_000);
        assert_eq!(bench.ready(), at(&[1_000]));
    }

    #[test]
    fn new_tables_move_what_is_to_come_and_bring_nothing_twice() {
        let mut bench = Bench::new();
        bench.engine.set_zones(tables(1));
        bench.at(0);
        bench.say("SET q n x CRON \"0 9 * * *\" TZ Test/Zone");
        bench.say("SET q m x CRON \"0 * * * *\" TZ Test/Zone");
        bench.at(7 * HOUR + 30 * MIN);
        check(&mut bench, "NEXT q n", &format!("{}", BEGIN_MS + 8 * HOUR));
        bench.engine.set_zones(tables(0));
        bench.at(7 * HOUR + 31 * MIN);
        let change = bench.engine.take_zones_change().expect("they were looked through");
        assert_eq!((change.moved, change.unknown), (1, 0));
        check(&mut bench, "NEXT q n", &format!("{}", BEGIN_MS + 9 * HOUR));
        bench.at(9 * HOUR);
        // The clocks there show nine again by the first tables at once; it has come.
        bench.engine.set_zones(tables(2));
        bench.at(9 * HOUR + 1);
        check(&mut bench, "NEXT q n", &format!("{}", BEGIN_MS + DAY + 7 * HOUR));
        bench.engine.set_zones(tables(0));
        bench.at(9 * HOUR + 2);
        check(&mut bench, "NEXT q n", &format!("{}", BEGIN_MS + DAY + 9 * HOUR));
        // Set back by an hour the clocks will show nine once more today.
        bench.engine.set_zones(tables(0));
        bench.engine.set_zones(tables(-1));
        bench.at(9 * HOUR + 3);
        check(&mut bench, "NEXT q n", &format!("{}", BEGIN_MS + DAY + 10 * HOUR));
        // Tables that know it no more.
        bench.engine.set_zones(Zones::bundled());
        bench.at(9 * HOUR + 4);
        let change = bench.engine.take_zones_change().expect("they were looked through");
        assert_eq!((change.moved, change.unknown), (0, 2));
        let held = bench.say("GET q n");
        assert!(held.starts_with("held zone"), "{held}");
        // Those from before bring the same instants back, of which there is nothing to tell other nodes.
        bench.engine.set_zones(tables(-1));
        bench.at(9 * HOUR + 5);
        let change = bench.engine.take_zones_change().expect("they were looked through");
        assert_eq!((change.moved, change.unknown), (0, 0));
        check(&mut bench, "NEXT q n", &format!("{}", BEGIN_MS + DAY + 10 * HOUR));
        let shown = bench.say("GET q n");
        assert!(!shown.starts_with("held"), "{shown}");
        bench.engine.set_zones(Zones::bundled());
        bench.at(9 * HOUR + 6);
        bench.at(3 * DAY);
        bench.engine.set_zones(tables(0));
        bench.at(3 * DAY + 1);
        bench.at(3 * DAY + HOUR);
        let shown = bench.say("GET q n");
        assert!(shown.contains(&format!("next {}", 3 * DAY + 9 * HOUR)), "{shown}");
    }
}

mod held {
    use super::*;

    fn full(bench: &mut Bench, max: u64) {
        let changes = QueueSettings { max_jobs: Some(max), ..QueueSettings::default() };
        bench.check(
            2,
            Request::Configure { queue: queue("q"), changes: Box::new(changes) },
            &["2:ok"],
        );
    }

    #[test]
    fn a_full_queue_gets_one_as_soon_as_there_is_room() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 1m");
        full(&mut bench, 1);
        bench.at(MIN);
        bench.at(DAY);
        assert_eq!(bench.ready(), at(&[MIN]));
        let held = bench.say("GET q n");
        assert!(held.starts_with("held full next 120000 made 1 missed 0"), "{held}");
        bench.ask(3, pop(Q, Wait::No));
        bench.sent(3);
        bench.at(DAY);
        assert_eq!(bench.ready(), at(&[DAY]), "the newest, in the same ms");
        check(
            &mut bench,
            "GET q n",
            &format!("active next {} made 2 missed 1438 skipped 0 replaced 0 open 1", DAY + MIN),
        );
        assert_eq!(bench.engine.schedule_counts().held, 0);
    }

    #[test]
    fn what_held_the_others_lets_them_go_when_it_goes() {
        for ends in ["DEL q first", "PAUSE q first", "SET q first x EVERY 1d"] {
            let mut bench = Bench::new();
            bench.say("SET q second x EVERY 3m OVERLAP REPLACE");
            full(&mut bench, 1);
            bench.at(3 * MIN);
            bench.say("SET q first x EVERY 1m");
            bench.at(4 * MIN);
            bench.at(6 * MIN);
            assert_eq!(
                bench.ready(),
                at(&[3 * MIN]),
                "the first is held, and the others behind it"
            );
            bench.say(ends);
            bench.at(6 * MIN);
            assert_eq!(bench.ready(), at(&[6 * MIN]), "{ends}: in the same ms");
        }
    }

    #[test]
    fn a_queue_that_takes_no_jobs_gets_them_when_it_opens() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 1m");
        let pause = |for_ms| Request::Pause { queue: queue("q"), direction: Direction::In, for_ms };
        bench.check(2, pause(Some(10 * MIN)), &["2:ok"]);
        bench.at(2 * MIN);
        let held = bench.say("GET q n");
        assert!(held.starts_with("held paused next 60000"), "{held}");
        assert_eq!(bench.engine.schedule_counts().held, 1);
        bench.at(10 * MIN);
        assert_eq!(bench.ready(), at(&[10 * MIN]));
        assert_eq!(bench.engine.schedule_counts().held, 0);
        bench.check(2, pause(None), &["2:ok"]);
        bench.at(20 * MIN);
        let resume = Request::Resume { queue: queue("q"), direction: Direction::All };
        bench.check(2, resume, &["2:ok"]);
        bench.at(20 * MIN);
        assert_eq!(bench.ready(), at(&[10 * MIN, 20 * MIN]));
        // Taking may be paused as it likes.
        let out = Request::Pause { queue: queue("q"), direction: Direction::Out, for_ms: None };
        bench.check(2, out, &["2:ok"]);
        bench.at(21 * MIN);
        assert_eq!(bench.ready(), at(&[10 * MIN, 20 * MIN, 21 * MIN]));
    }

    #[test]
    fn what_is_held_by_itself_is_late() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 1m GRACE 1s");
        full(&mut bench, 1);
        bench.at(MIN);
        bench.at(2 * MIN);
        bench.at(2 * MIN + 900);
        bench.ask(3, pop(Q, Wait::No));
        bench.sent(3);
        bench.at(2 * MIN + 900);
        assert_eq!(bench.ready(), at(&[2 * MIN]), "0.9 s are within a second");
        bench.at(3 * MIN + 5 * S);
        bench.ask(3, pop(Q, Wait::No));
        bench.sent(3);
        bench.at(3 * MIN + 6 * S);
        assert_eq!(bench.ready(), at(&[]));
        let missed = bench.say("GET q n");
        assert!(missed.contains("made 2 missed 1"), "{missed}");
    }

    #[test]
    fn without_memory_it_is_tried_again_each_second() {
        let mut bench = Bench::with(|settings| settings.memory_bytes_max = 400_000);
        let body = "b".repeat(150_000);
        bench.say(&format!("SET q n {body} EVERY 1m"));
        bench.at(MIN);
        assert_eq!(bench.ready(), at(&[MIN]));
        bench.at(2 * MIN);
        let held = bench.say("GET q n");
        assert!(held.starts_with("held memory"), "{held}");
        bench.ask(3, pop(Q, Wait::No));
        bench.sent(3);
        bench.at(3 * MIN - 1);
        assert_eq!(bench.ready(), at(&[2 * MIN]));
    }

    #[test]
    fn while_the_journal_lets_no_time_pass_nothing_comes_due() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 1m");
        bench.at(30 * S);
        bench.flow(Flow::Running { room: Room::of(0, 0) });
        bench.at(2 * MIN);
        assert_eq!(bench.ready(), at(&[]));
        bench.flow(Flow::default());
        bench.at(2 * MIN);
        assert_eq!(bench.ready(), at(&[2 * MIN]));
    }

    /// CLIENT PAUSE: time stands for schedules as for jobs. 20 of 21 instants were once missed of EVERY 100ms, with
    /// GRACE all.
    #[test]
    fn what_comes_due_while_clients_are_paused_is_made() {
        let cases = [("", 0, 1), ("GRACE 1s", 0, 1), ("CATCHUP 3", 0, 3), ("", 3 * S, 1)];
        for (terms, idle_ms, catchup) in cases {
            let mut bench = Bench::new();
            bench.say(&format!("SET q n x EVERY 100ms {terms}"));
            bench.add(job("q", "a", 1_000));
            bench.at(S - 1);
            take_all(&mut bench);
            bench.flow(Flow::Paused { room: Room::UNLIMITED });
            bench.at(2 * S);
            bench.at_ms += idle_ms;
            bench.flow(Flow::default());
            // Whoever asks first brings it about as time does.
            bench.check(2, len("q", JobState::Delayed), &["2:0"]);
            let end = bench.at_ms;
            bench.at(end);
            let due = (S / 100..=end / 100).map(|nth| nth as i64 * 100).collect::<Vec<_>>();
            assert_eq!(bench.ready(), due, "{terms}");
            take_all(&mut bench);
            // What comes after that, and nothing is at work for it, is missed as ever.
            bench.at(end + S);
            assert_eq!(bench.ready().len(), catchup, "{terms}");
        }
    }

    /// A downtime before a pause is not made up for by it.
    #[test]
    fn what_was_missed_before_clients_are_paused_stays_missed() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 1m CATCHUP 2");
        bench.at(MIN);
        bench.at_ms = 10 * MIN;
        bench.flow(Flow::Running { room: Room::of(0, 0) });
        bench.advance(1_000);
        bench.flow(Flow::Paused { room: Room::UNLIMITED });
        bench.at_ms = 13 * MIN;
        bench.flow(Flow::default());
        bench.at(13 * MIN);
        let made = [1, 9, 10, 11, 12, 13].map(|minute| minute * MIN);
        assert_eq!(bench.ready(), at(&made));
    }

    #[test]
    fn pausing_what_is_held_has_missed_it() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 1m");
        full(&mut bench, 1);
        bench.at(MIN);
        bench.at(2 * MIN);
        check(&mut bench, "PAUSE q n", "1");
        check(&mut bench, "GET q n", "paused next nil made 1 missed 1 skipped 0 replaced 0 open 1");
        assert_eq!(bench.stats("q").missed, 1);
        bench.check(2, len("q", JobState::Ready), &["2:1"]);
    }
}
