//! Schedules: zones, overlap, what becomes of their jobs, and pauses. The clock begins at 2025-01-01T00:00Z, a Wednesday;
//! the rows of the table of other queues' troubles are named.

use delayd::calendar::Zones;
use delayd::engine::journal_room::{Flow, Room};
use delayd::engine::model::request::{JobState, Request, Wait};

use crate::engine::bench::*;
use crate::engine::follow::changed;
use crate::engine::schedules::tables;

const S: u64 = 1_000;
const MIN: u64 = 60 * S;
const HOUR: u64 = 60 * MIN;
const DAY: u64 = 24 * HOUR;

/// 2025-03-30, 2025-10-26: the days on which the clocks of Berlin change at 01:00Z.
const GAP_DAY: u64 = 88 * DAY;
const FOLD_DAY: u64 = 298 * DAY;

#[track_caller]
fn check(bench: &mut Bench, line: &str, expected: &str) {
    assert_eq!(bench.say(line), expected, "{line}");
}

/// Nominal instants that are ready, in ms since the begin.
#[track_caller]
fn check_ready(bench: &mut Bench, expected: &[u64]) {
    let expected: Vec<i64> = expected.iter().map(|at| *at as i64).collect();
    assert_eq!(bench.ready(), expected);
}

/// A worker takes the first one for good.
fn pop_one(bench: &mut Bench) {
    bench.ask(3, pop(Q, Wait::No));
    bench.sent(3);
    bench.take_events();
}

/// Leases the first one for `lease_ms`.
fn lease(bench: &mut Bench, lease_ms: u64) {
    use delayd::engine::model::request::Reserve;
    let terms = Reserve { lease_ms: Some(lease_ms), ..reserve(Q, Wait::No, 1) };
    bench.ask(3, Request::Reserve(terms));
    bench.sent(3);
    bench.take_events();
}

mod zones {
    use super::*;

    #[test]
    fn e37_one_that_is_set_anew_between_the_passes_of_a_fold_does_not_come_twice() {
        let mut bench = Bench::new();
        bench.at(FOLD_DAY);
        bench.say("SET q n x CRON \"30 2 * * *\" TZ Europe/Berlin");
        bench.at(FOLD_DAY + 30 * MIN);
        check_ready(&mut bench, &[FOLD_DAY + 30 * MIN]);
        // 02:45 in the first pass, and 02:15 in the second.
        for at in [45 * MIN, 75 * MIN] {
            bench.at(FOLD_DAY + at);
            check(&mut bench, "DEL q n", "1");
            let next = FOLD_DAY + DAY + 90 * MIN;
            let set = "SET q n x CRON \"30 2 * * *\" TZ Europe/Berlin";
            check(&mut bench, set, &format!("created {next}"));
        }
        bench.at(FOLD_DAY + DAY);
        check_ready(&mut bench, &[FOLD_DAY + 30 * MIN]);
    }

    #[test]
    fn e38_each_minute_of_elapsed_time_has_its_one_through_a_fold() {
        let mut bench = Bench::new();
        bench.at(FOLD_DAY);
        bench.say("SET q n x CRON \"* * * * *\" TZ Europe/Berlin CATCHUP 200");
        bench.at(FOLD_DAY + 2 * HOUR);
        let all: Vec<u64> = (1..=120).map(|minute| FOLD_DAY + minute * MIN).collect();
        check_ready(&mut bench, &all);
    }

    #[test]
    fn e39_e40_what_the_clocks_step_over_comes_at_the_end_of_the_gap() {
        let mut bench = Bench::new();
        bench.at(GAP_DAY - DAY);
        bench.say("SET q n x CRON \"0 2 * * *\" TZ Europe/Berlin CATCHUP 9");
        bench.at(GAP_DAY + 2 * DAY - 1);
        let gap = GAP_DAY + HOUR;
        check_ready(&mut bench, &[gap - DAY, gap, gap + 23 * HOUR]);
    }

    #[test]
    fn e41_e42_the_day_after_a_change_is_a_day_as_any_other() {
        let mut bench = Bench::new();
        bench.at(GAP_DAY - 9 * HOUR);
        bench.say("SET q n x CRON \"4 16 * * *\" TZ Europe/Berlin CATCHUP 9");
        // The 30th is a Sunday.
        bench.say("SET q m x CRON \"2 0 * * 1-5\" TZ Europe/Berlin CATCHUP 9");
        bench.at(GAP_DAY + 39 * HOUR);
        let days = [GAP_DAY + 14 * HOUR + 4 * MIN, GAP_DAY + 38 * HOUR + 4 * MIN];
        let monday = GAP_DAY + 22 * HOUR + 2 * MIN;
        let before = GAP_DAY - 9 * HOUR + 4 * MIN;
        let mut ready = bench.ready();
        ready.sort_unstable();
        let expected: Vec<i64> = [before, days[0], monday, days[1]].map(|at| at as i64).into();
        // 16:04 by the winter's clocks is 15:04Z, by the summer's 14:04Z.
        assert_eq!(ready, expected);
    }

    #[test]
    fn e46_a_leader_with_other_tables_goes_on_by_its_own() {
        let mut bench = Bench::new();
        bench.engine.set_zones(tables(1));
        bench.at(0);
        bench.say("SET q n x CRON \"0 9 * * *\" TZ Test/Zone");
        bench.at(8 * HOUR);
        check_ready(&mut bench, &[8 * HOUR]);
        bench.at_ms = 10 * HOUR;
        changed(&mut bench, 1, 9 * HOUR, 10 * HOUR);
        bench.engine.set_zones(tables(0));
        bench.at(10 * HOUR);
        check(&mut bench, "NEXT q n", &format!("{}", BEGIN_MS + DAY + 9 * HOUR));
        // One that decides no more and leads again later still has its tables, and looks once more.
        bench.engine.unlead();
        bench.at_ms = 11 * HOUR;
        let at = |ms| delayd::time::Micros((BEGIN_MS + ms) * 1_000);
        let (from, to) = (at(10 * HOUR), at(11 * HOUR));
        bench.lead(&delayd::engine::Lead { term: 2, node: 1, level: 3, from, to });
        bench.at(11 * HOUR);
        let change = bench.engine.take_zones_change().expect("they were looked through");
        assert_eq!((change.moved, change.unknown), (0, 0));
        check(&mut bench, "NEXT q n", &format!("{}", BEGIN_MS + DAY + 9 * HOUR));
    }

    #[test]
    fn what_is_due_while_schedules_are_looked_through_is_due_by_the_new_tables() {
        let mut bench = Bench::new();
        bench.engine.set_zones(tables(1));
        bench.at(0);
        for number in 0..2_000 {
            bench.say(&format!("SET q a{number:04} x CRON \"0 9 * * *\" TZ Test/Zone"));
        }
        bench.engine.set_zones(tables(0));
        // 09:00 by the old tables; by the new ones it is 08:00.
        bench.at(8 * HOUR);
        check_ready(&mut bench, &[]);
        let change = bench.engine.take_zones_change().expect("they were looked through");
        assert_eq!((change.moved, change.unknown), (2_000, 0));
        bench.at(9 * HOUR);
        assert_eq!(bench.ready(), vec![9 * HOUR as i64; 2_000]);
    }

    #[test]
    fn e47_names_are_taken_in_any_case_and_links_are_names() {
        let mut bench = Bench::new();
        check(&mut bench, "SET q a x CRON @daily TZ europe/BERLIN", "created 82800000");
        check(&mut bench, "SET q a x CRON @daily TZ Europe/Berlin", "same 82800000");
        check(&mut bench, "SET q b x CRON @daily TZ US/Eastern", "created 18000000");
    }

    #[test]
    fn one_that_goes_on_while_its_zone_is_unknown_waits_for_tables_that_know_it() {
        let mut bench = Bench::new();
        bench.engine.set_zones(tables(0));
        bench.at(0);
        bench.say("SET q n x CRON \"0 9 * * *\" TZ Test/Zone");
        check(&mut bench, "PAUSE q n", "1");
        bench.engine.set_zones(Zones::bundled());
        bench.at(HOUR);
        check(&mut bench, "RESUME q n", "1");
        bench.at(3 * DAY);
        check_ready(&mut bench, &[]);
        let held = bench.say("GET q n");
        assert!(held.starts_with("held zone"), "{held}");
        let counts = bench.engine.schedule_counts();
        assert_eq!((counts.held, counts.active), (1, 0));
        bench.engine.set_zones(tables(0));
        bench.at(3 * DAY + 1);
        bench.at(3 * DAY + 2);
        let counts = bench.engine.schedule_counts();
        assert_eq!((counts.held, counts.active), (0, 1));
        // It was active all the time.
        check_ready(&mut bench, &[2 * DAY + 9 * HOUR]);
        let next = 3 * DAY + 9 * HOUR;
        let shown = format!("active next {next} made 1 missed 2 skipped 0 replaced 0 open 1");
        check(&mut bench, "GET q n", &shown);
    }
}

mod overlap {
    use super::*;

    #[test]
    fn e49_none_is_made_while_the_last_one_is_at_work() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 5m OVERLAP SKIP");
        bench.at(5 * MIN);
        lease(&mut bench, 20 * MIN);
        let id = format!("n@{}", BEGIN_MS + 5 * MIN);
        bench.at(10 * MIN);
        check_ready(&mut bench, &[]);
        bench.at(12 * MIN);
        let token = bench.token(&id);
        bench.ack(3, id.leak(), token);
        bench.take_events();
        bench.at(15 * MIN);
        check_ready(&mut bench, &[15 * MIN]);
        check(
            &mut bench,
            "GET q n",
            "active next 1200000 made 2 missed 0 skipped 1 replaced 0 open 1",
        );
    }

    #[test]
    fn e50_e51_delayed_and_moved_ones_are_open_and_a_dead_one_is_not() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 5m OVERLAP SKIP ATTEMPTS 2 BACKOFF 30m");
        bench.at(5 * MIN);
        let id: &'static str = format!("n@{}", BEGIN_MS + 5 * MIN).leak();
        // It fails, and waits for its second attempt until 00:36.
        lease(&mut bench, 20 * MIN);
        bench.at(6 * MIN);
        bench.nack(3, id, |_| ());
        bench.take_events();
        each_5_minutes(&mut bench, 10, 30);
        check_ready(&mut bench, &[]);
        // Moved to later it is open all the same.
        bench.ask(2, reschedule("q", id, 60 * MIN));
        bench.take_events();
        each_5_minutes(&mut bench, 35, 90);
        // Its lease runs out in the ms of an instant, which comes after it: that was its last attempt, so it is dead
        // by then, and the next one is made.
        lease(&mut bench, 5 * MIN);
        bench.at(95 * MIN);
        bench.check(2, len("q", JobState::Dead), &["2:1"]);
        check_ready(&mut bench, &[95 * MIN]);
        let shown = bench.say("GET q n");
        assert!(shown.contains("made 2 missed 0 skipped 17 replaced 0 open 1"), "{shown}");
    }

    fn each_5_minutes(bench: &mut Bench, from: u64, to: u64) {
        (from..=to).step_by(5).for_each(|minute| bench.at(minute * MIN));
    }

    #[test]
    fn e52_a_lease_that_runs_out_in_the_ms_of_an_instant_leaves_its_job_open() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 5m OVERLAP SKIP");
        bench.at(5 * MIN);
        lease(&mut bench, 5 * MIN);
        bench.at(10 * MIN);
        check_ready(&mut bench, &[5 * MIN]);
        check(
            &mut bench,
            "GET q n",
            "active next 900000 made 1 missed 0 skipped 1 replaced 0 open 1",
        );
    }

    #[test]
    fn e53_of_those_that_nobody_has_begun_the_newest_waits() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 1m OVERLAP REPLACE");
        for minute in 1..=60 {
            bench.at(minute * MIN);
        }
        check_ready(&mut bench, &[60 * MIN]);
        check(
            &mut bench,
            "GET q n",
            "active next 3660000 made 60 missed 0 skipped 0 replaced 59 open 1",
        );
    }

    #[test]
    fn e54_one_that_is_at_work_goes_on_and_one_waits_behind_it() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 1m OVERLAP REPLACE");
        bench.at(MIN);
        lease(&mut bench, HOUR);
        bench.at(2 * MIN);
        check_ready(&mut bench, &[2 * MIN]);
        bench.at(3 * MIN);
        check_ready(&mut bench, &[3 * MIN]);
        bench.check(2, len("q", JobState::Leased), &["2:1"]);
        check(
            &mut bench,
            "GET q n",
            "active next 240000 made 3 missed 0 skipped 0 replaced 1 open 2",
        );
    }

    #[test]
    fn what_is_held_leaves_the_one_that_would_give_way() {
        let mut bench = Bench::with(|settings| settings.memory_bytes_max = 400_000);
        let body = "b".repeat(100_000);
        bench.say(&format!("SET q n {body} EVERY 1m OVERLAP REPLACE"));
        bench.at(MIN);
        check_ready(&mut bench, &[MIN]);
        let filler: &'static [u8] = "f".repeat(120_000).leak().as_bytes();
        bench.add(delayd::engine::model::request::Add { body: filler, ..job("other", "f", HOUR) });
        bench.take_events();
        bench.at(2 * MIN);
        let held = bench.say("GET q n");
        assert!(held.starts_with("held memory"), "{held}");
        check_ready(&mut bench, &[MIN]);
    }
}

mod life {
    use super::*;

    #[test]
    fn e55_whatever_becomes_of_an_occurrence_the_schedule_goes_on() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 1m");
        let id = |minute: u64| -> &'static [u8] {
            format!("n@{}", BEGIN_MS + minute * MIN).leak().as_bytes()
        };
        bench.at(MIN);
        bench.check(2, delete("q", vec![id(1)].leak()), &["2:1"]);
        bench.at(2 * MIN);
        bench.check(2, purge("q"), &["2:1"]);
        bench.at(3 * MIN);
        pop_one(&mut bench);
        bench.at(4 * MIN);
        check_ready(&mut bench, &[4 * MIN]);
        check(
            &mut bench,
            "GET q n",
            "active next 300000 made 4 missed 0 skipped 0 replaced 0 open 1",
        );
    }

    #[test]
    fn e56_each_expires_as_the_next_one_comes() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 1m TTL 1m");
        for minute in 1..=5 {
            bench.at(minute * MIN);
            check_ready(&mut bench, &[minute * MIN]);
        }
        assert_eq!(bench.stats("q").totals.expired, 4);
    }

    #[test]
    fn e57_an_id_that_somebody_has_taken_is_skipped_and_told() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 1m");
        let id: &'static str = format!("n@{}", BEGIN_MS + MIN).leak();
        bench.add(job("q", id, HOUR));
        bench.take_events();
        bench.at(2 * MIN);
        bench.at(3 * MIN);
        check_ready(&mut bench, &[2 * MIN, 3 * MIN]);
        check(
            &mut bench,
            "GET q n",
            "active next 240000 made 2 missed 1 skipped 0 replaced 0 open 2",
        );
    }

    #[test]
    fn e57_in_time_it_counts_as_skipped() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 1m");
        let id: &'static str = format!("n@{}", BEGIN_MS + MIN).leak();
        bench.add(job("q", id, HOUR));
        bench.take_events();
        bench.at(MIN);
        check_ready(&mut bench, &[]);
        check(
            &mut bench,
            "GET q n",
            "active next 120000 made 0 missed 0 skipped 1 replaced 0 open 0",
        );
    }

    #[test]
    fn e58_running_it_takes_nothing_from_its_own_instants() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 1m");
        bench.at(MIN);
        let ids = [bench.say("RUN q n"), bench.say("RUN q n")];
        let at = |ms: u64| format!("n@{}", BEGIN_MS + ms);
        assert_eq!(ids, [at(MIN + 1), at(MIN + 2)]);
        check_ready(&mut bench, &[MIN, MIN + 1, MIN + 2]);
        bench.at(2 * MIN);
        check(
            &mut bench,
            "GET q n",
            "active next 180000 made 2 missed 0 skipped 0 replaced 0 open 4",
        );
    }

    #[test]
    fn e63_e65_with_its_queue_it_goes_and_what_it_was_is_not_remembered() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 1m");
        bench.at(MIN);
        bench.check(2, remove(Q), &["2:1"]);
        bench.at(5 * MIN);
        check_ready(&mut bench, &[]);
        check(&mut bench, "SET q n x EVERY 1m", "created 360000");
        bench.at(6 * MIN);
        check_ready(&mut bench, &[6 * MIN]);
    }

    #[test]
    fn e64_a_queue_that_is_renamed_takes_its_schedules_along_and_the_others_go() {
        let mut bench = Bench::new();
        bench.say("SET a n x EVERY 1m");
        bench.say("SET q m y EVERY 1m");
        bench.check(2, rename("a", "q"), &["2:ok"]);
        check(&mut bench, "LIST q", "n active");
        check(&mut bench, "LIST a", "");
        bench.at(MIN);
        check_ready(&mut bench, &[MIN]);
    }
}

mod looking {
    use super::*;
    use delayd::limits::FORECAST_SPANS_MAX;

    /// Fewer rows than were asked for mean that there are no more, however long names and rules are.
    #[test]
    fn e71_a_list_is_cut_by_its_count_alone() {
        let mut bench = Bench::new();
        let name = |number: u32| format!("{number:0480}");
        for number in 0..10_500 {
            let rule = "CRON \"0 1,2,3,4,5,6,7,8,9,10,11,12,13,14 * * *\" TZ America/Argentina/Rio_Gallegos";
            bench.say(&format!("SET q {} b {rule}", name(number)));
        }
        let rows = |said: String| said.split_whitespace().count() / 2;
        assert_eq!(rows(bench.say("LIST q COUNT 10000")), 10_000);
        let rest = format!("LIST q COUNT 10000 AFTER {}", name(9_999));
        assert_eq!(rows(bench.say(&rest)), 500);
    }

    #[test]
    fn a_forecast_of_too_much_is_refused_and_one_of_as_much_as_may_be_is_right() {
        let mut bench = Bench::new();
        for number in 0..500 {
            bench.say(&format!("SET q n{number} b CRON \"*/5 8-19 * * 1-5\" TZ Europe/Berlin"));
        }
        let forecast = |count: u64| {
            let (queue, count) = (queue("q"), u32::try_from(count).unwrap());
            Request::Forecast { queue, span_ms: HOUR, count, schedules: true }
        };
        let most = FORECAST_SPANS_MAX / 500;
        bench.check(2, forecast(most + 1), &["2:ERR"]);
        // 2025-01-01 is a Wednesday; 08:00 there is 07:00Z, and what is due at the end of a span is of it.
        let mut said = String::new();
        while said.is_empty() {
            bench.ask(2, forecast(30));
            said = bench.take_events().pop().unwrap_or_default();
        }
        let counts: Vec<u64> =
            said.trim_start_matches("2:").split(' ').map(|count| count.parse().unwrap()).collect();
        assert_eq!(counts[..8], [0, 0, 0, 0, 0, 0, 500, 6_000]);
        assert_eq!(counts[18..20], [5_500, 0]);
        assert_eq!(counts.iter().sum::<u64>(), 500 * 144);
    }
}

mod pauses {
    use super::*;

    /// Nothing could be done from before the end of the pause on: what has come since counts all the same.
    fn stalled(bench: &mut Bench) {
        bench.say("SET q n x EVERY 1m");
        check(bench, "PAUSE q n FOR 150s", "1");
        bench.flow(Flow::Running { room: Room::of(0, 0) });
        bench.at(5 * MIN);
        bench.flow(Flow::default());
    }

    #[test]
    fn a_pause_that_is_over_is_over_for_whoever_asks_first() {
        for (line, shown) in [
            ("PAUSE q n", "paused next nil made 0 missed 3 skipped 0 replaced 0 open 0"),
            ("RESUME q n", "active next 360000 made 1 missed 2 skipped 0 replaced 0 open 1"),
            (
                "SET q n x EVERY 2m",
                "active next 420000 made 0 missed 3 skipped 0 replaced 0 open 0",
            ),
        ] {
            let mut bench = Bench::new();
            stalled(&mut bench);
            bench.say(line);
            bench.at(5 * MIN + 1);
            // 00:03, 00:04 and 00:05 came after the pause.
            assert_eq!(bench.say("GET q n"), shown, "{line}");
        }
    }

    #[test]
    fn an_end_that_is_set_into_the_past_has_missed_what_was_due() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 1m");
        bench.flow(Flow::Running { room: Room::of(0, 0) });
        bench.at(3 * MIN);
        bench.flow(Flow::default());
        let until = format!("SET q n x EVERY 1m UNTIL @{}", BEGIN_MS + 30 * S);
        check(&mut bench, &until, "changed nil");
        check(&mut bench, "GET q n", "done next nil made 0 missed 3 skipped 0 replaced 0 open 0");
    }

    #[test]
    fn what_is_made_up_for_is_settled_anew_after_a_standstill() {
        let mut bench = Bench::new();
        bench.say("SET q n x EVERY 1m CATCHUP 1000");
        bench.at_ms = 500 * MIN;
        // A few of 500, and then nothing for a day.
        bench.advance(200);
        bench.advance(200);
        bench.at(2 * DAY);
        let made = bench.ready().len();
        assert!((1_000..1_400).contains(&made), "{made}");
        let shown = bench.say("GET q n");
        let counted = format!("made {made} missed {}", 2 * 24 * 60 - made);
        assert!(shown.contains(&counted), "{shown}");
    }
}
