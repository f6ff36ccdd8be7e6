//! What DELAY.SCHEDULE takes and refuses, and how schedules are shown.

use bytes::BytesMut;
use delayd::calendar::Pattern;
use delayd::command::show::render::render;
use delayd::command::spec::Access;
use delayd::command::{self, Action, table};
use delayd::engine::model::meta::OwnMeta;
use delayd::engine::model::policy::{Backoff, Steps};
use delayd::engine::model::queue_settings::Pause;
use delayd::engine::model::reply::Reply;
use delayd::engine::model::request::Request;
use delayd::engine::model::schedule::{
    AskedRule, Coming, Definition, JobOptions, Obstacle, Outcomes, Overlap, Rule, ScheduleChange,
    ScheduleRow, ScheduleState, ScheduleTerms, ScheduleView, Scheduling,
};
use delayd::ids::Db;
use delayd::resp::{Encoder, Protocol};
use delayd::time::Millis;
use proptest::prelude::*;

/// What a line of the command is read as, words parted by blanks; `"..."` holds blanks.
fn read<T>(line: &str, look: impl Fn(&Scheduling<'_>) -> T) -> Result<T, String> {
    let words: Vec<&[u8]> = words(line);
    read_words(&words, look)
}

fn words(line: &str) -> Vec<&[u8]> {
    let mut parts = line.split('"');
    let mut words = vec![&b"DELAY.SCHEDULE"[..]];
    while let Some(bare) = parts.next() {
        words.extend(bare.split_ascii_whitespace().map(str::as_bytes));
        words.extend(parts.next().map(str::as_bytes));
    }
    words
}

fn read_words<T>(words: &[&[u8]], look: impl Fn(&Scheduling<'_>) -> T) -> Result<T, String> {
    let spec = table::resolve(words).map_err(|error| error.to_string())?;
    match command::parse(spec, words, Db(3)) {
        Ok(Action::Engine(Request::Schedule(of))) => Ok(look(&of)),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.to_string()),
    }
}

fn refused(line: &str) -> String {
    match read(line, |of| format!("{of:?}")) {
        Ok(taken) => panic!("{line} is taken: {taken}"),
        Err(text) => text,
    }
}

/// A rule, written; and what else SET says.
fn set(options: &str) -> (String, ScheduleTerms) {
    let line = format!("SET q n body {options}");
    let terms = |of: &Scheduling<'_>| match of {
        Scheduling::Set(set) => {
            assert_eq!((set.queue.name, set.name, set.body), (&b"q"[..], &b"n"[..], &b"body"[..]));
            assert_eq!(set.queue.db, Db(3));
            (written(&set.rule), set.terms.clone())
        }
        other => panic!("{other:?}"),
    };
    read(&line, terms).unwrap_or_else(|text| panic!("{line}: {text}"))
}

fn written(rule: &AskedRule<'_>) -> String {
    match rule {
        AskedRule::Every { ms } => format!("every {ms}"),
        AskedRule::Cron { pattern, zone } => {
            format!("cron {} in {}", pattern.text(), zone.escape_ascii())
        }
    }
}

#[test]
fn a_rule_stands_anywhere_among_the_options() {
    for (options, rule) in [
        ("EVERY 100ms", "every 100"),
        ("every 1h30m", "every 5400000"),
        ("EVERY 365000d", "every 31536000000000"),
        ("CRON \"0 8 * * 1-5\"", "cron 0 8 * * 1-5 in UTC"),
        ("CRON \"  0\t8 * *  1-5 \" TZ Europe/Berlin", "cron 0 8 * * 1-5 in Europe/Berlin"),
        ("TZ +05:30 CRON @DAILY", "cron @DAILY in +05:30"),
        ("PRIORITY 3 TZ utc OVERLAP SKIP cron @hourly RUNS 1", "cron @hourly in utc"),
        // The engine has the tables.
        ("CRON @hourly TZ nowhere", "cron @hourly in nowhere"),
        ("CRON \"0 0 30 2 *\"", "cron 0 0 30 2 * in UTC"),
    ] {
        assert_eq!(set(options).0, rule, "{options}");
    }
}

#[test]
fn what_is_not_named_has_its_default() {
    assert_eq!(set("EVERY 5m").1, ScheduleTerms::default());
    assert_eq!(set("EVERY 5m SPREAD 0 OVERLAP ALLOW CATCHUP 1").1, ScheduleTerms::default());
    let all = "EVERY 5m FROM @1800000000000 UNTIL 2030-01-31T12:30:00+02:00 RUNS 4294967295 SPREAD 299999 OVERLAP \
               replace CATCHUP 10000 GRACE 1s PRIORITY 0 ATTEMPTS 0 BACKOFF exp:1s:1m~ LEASE 1ms TTL 0 GROUP acme \
               META 1 k v";
    let want = ScheduleTerms {
        from: Millis(1_800_000_000_000),
        until: Millis(1_896_085_800_000),
        runs: u32::MAX,
        catchup: 10_000,
        spread_ms: 299_999,
        grace_ms: 1_000,
        overlap: Overlap::Replace,
        group: Some(&b"acme"[..]).into(),
        meta: OwnMeta::of(&[b"k", b"v"]).unwrap(),
        options: JobOptions {
            priority: Some(0),
            attempts: Some(0),
            backoff: Some(Backoff {
                steps: Steps::Exponential { first: 1_000, max: 60_000, factor: 2 },
                jitter: true,
            }),
            lease_ms: Some(1),
            ttl_ms: Some(0),
        },
    };
    assert_eq!(set(all).1, want);
    assert_eq!(set("CRON @daily SPREAD 1d").1.spread_ms, 86_400_000);
    let one_instant = set("EVERY 5m FROM @1800000000000 UNTIL @1800000000000").1;
    assert_eq!(
        (one_instant.from, one_instant.until),
        (Millis(1_800_000_000_000), one_instant.from)
    );
    assert_eq!(set("EVERY 5m UNTIL @253402300799999").1.until, Millis(253_402_300_799_999));
}

/// Where 0 says that there is no FROM, the grid from 1970 on is told by its second instant.
#[test]
fn a_grid_from_the_epoch_is_kept() {
    for epoch in ["@0", "1970-01-01T00:00:00Z", "1969-12-31T23:00:00Z"] {
        assert_eq!(set(&format!("EVERY 1h FROM {epoch}")).1.from, Millis(3_600_000), "{epoch}");
        assert_eq!(set(&format!("CRON @daily FROM {epoch}")).1.from, Millis(0), "{epoch}");
    }
}

#[test]
fn rules_that_are_none_are_refused() {
    let missing = "ERR syntax error: a rule is missing, EVERY duration or CRON pattern [TZ zone]";
    let both = "ERR syntax error: only one of EVERY, CRON can be given";
    let zone = "ERR TZ goes with CRON; EVERY counts elapsed time";
    for (options, text) in [
        ("PRIORITY 3", missing),
        ("TZ UTC", missing),
        ("EVERY 5m CRON @daily", both),
        ("CRON @daily EVERY 5m", both),
        ("CRON @daily TZ UTC EVERY 5m", both),
        ("EVERY 5m TZ Europe/Berlin", zone),
        ("TZ Europe/Berlin EVERY 5m", zone),
        ("EVERY 5m RUNS 3 tz UTC", zone),
        ("EVERY 5m EVERY 5m", "ERR syntax error: EVERY is given twice"),
        ("CRON @daily TZ UTC TZ UTC", "ERR syntax error: TZ is given twice"),
        ("CRON @daily CRON @daily", "ERR syntax error: CRON is given twice"),
        ("EVERY 99ms", "ERR EVERY '99ms' is too short; the minimum is 100ms"),
        ("EVERY 0 RUNS 1", "ERR EVERY '0' is too short; the minimum is 100ms"),
        ("EVERY 365001d", "ERR EVERY '365001d' is too long; the maximum is 365000d"),
        ("EVERY -5m x", "ERR EVERY '-5m' is negative or malformed; the minimum is 100ms"),
        ("EVERY hour x", "ERR EVERY 'hour' is not a duration such as 500ms, 30s, 1h30m or 15d"),
        ("RUNS 3 EVERY", "ERR syntax error: EVERY needs a value (duration)"),
        ("RUNS 3 CRON", "ERR syntax error: CRON needs a value (pattern)"),
        ("CRON @daily TZ", "ERR syntax error: TZ needs a value (zone)"),
        ("CRON 0 8 * * 1-5", "ERR cron '0': 5 fields expected, or 6 with seconds first; it has 1"),
    ] {
        assert_eq!(refused(&format!("SET q n body {options}")), text, "{options}");
        if !options.contains("RUNS") && !options.contains("PRIORITY") {
            assert_eq!(refused(&format!("EXPLAIN {options}")), text, "{options}");
        }
    }
    assert_eq!(refused("EXPLAIN COUNT 3"), missing);
}

/// Whatever is no pattern is told with the pattern and what [`Pattern::parse`] says of it: its own words are in
/// `tests/calendar/patterns.rs`.
#[test]
fn patterns_are_refused_in_the_words_of_the_calendar() {
    for (pattern, text) in [
        ("", "5 fields expected, or 6 with seconds first; it has 0"),
        ("* * * *", "5 fields expected, or 6 with seconds first; it has 4"),
        ("* * * * * * *", "5 fields expected, or 6 with seconds first; it has 7"),
        ("60 * * * *", "minute 60 is not within 0 to 59"),
        ("* 24 * * *", "hour 24 is not within 0 to 23"),
        ("* * 0 * *", "day-of-month 0 is not within 1 to 31"),
        ("* * 32 * *", "day-of-month 32 is not within 1 to 31"),
        ("* * * 13 *", "month 13 is not within 1 to 12"),
        ("* * * 0 *", "month 0 is not within 1 to 12"),
        ("* * * * 8", "day-of-week 8 is not within 0 to 7"),
        ("5-1 * * * *", "minute 5-1 runs backwards; write 5-59,0-1"),
        ("0 22-2 * * *", "hour 22-2 runs backwards; write 22-23,0-2"),
        ("0 0 * * FRI-MON", "day-of-week FRI-MON runs backwards; write FRI-SAT,SUN-MON"),
        ("1,,2 * * * *", "minute '1,,2' has an empty item"),
        ("1, * * * *", "minute '1,' has an empty item"),
        (", * * * *", "minute ',' has an empty item"),
        ("*/0 * * * *", "minute step 0 is not within 1 to 59; for once an hour write 0"),
        ("*/60 * * * *", "minute step 60 is not within 1 to 59; for once an hour write 0"),
        ("*/61 * * * *", "minute step 61 is not within 1 to 59; for once an hour write 0"),
        ("0 0 1-31/32 * *", "day-of-month step 32 is not within 1 to 31; for once a month write 1"),
        ("0 0 * * MONDAY", "day-of-week 'MONDAY': names have three letters: MON"),
        ("0 0 * JANUARY *", "month 'JANUARY': names have three letters: JAN"),
        ("0 8 ? * MON-FRI *", "hour '?': a question mark is allowed in a day field only"),
        ("? ? * * *", "minute '?': a question mark is allowed in a day field only"),
        ("CRON_TZ=UTC 0 0 * * *", "give the zone with TZ, after the pattern"),
        ("TZ=Europe/Berlin 0 0 * * *", "give the zone with TZ, after the pattern"),
        ("0 0 * * * UTC", "give the zone with TZ, after the pattern"),
        ("0 22 * * 1-5 America/Chicago", "give the zone with TZ, after the pattern"),
        ("@every 5m", "write EVERY 5m"),
        ("@reboot", "use DELAY.SCHEDULE RUN when your program starts"),
        ("H * * * *", "minute 'H' is not supported: to spread schedules use SPREAD"),
    ] {
        let text = format!("ERR cron '{pattern}': {text}");
        assert_eq!(refused(&format!("SET q n body CRON \"{pattern}\"")), text);
        assert_eq!(refused(&format!("EXPLAIN CRON \"{pattern}\" COUNT 3")), text);
    }
    for pattern in [
        "1-5-7 * * * *", "*/5/2 * * * *", "-1 * * * *", "1e3 * * * *", "a * * * *", "٣ * * * *",
        "0 0 L-3 * *", "0 0 W * *", "0 0 32W * *", "0 0 WL * *", "0 0 * * MON#6", "0 0 * * MON#0",
        "0 0 * * L", "0 0 1 * MON+", "0 0 * *\n*",
    ] {
        let wrong = Pattern::parse(pattern.as_bytes()).expect_err(pattern);
        let shown = pattern.as_bytes().escape_ascii();
        let line = format!("SET q n body CRON \"{pattern}\"");
        assert_eq!(refused(&line), format!("ERR cron '{shown}': {wrong}"));
    }
    let shown = "*".repeat(64);
    let long = refused(&format!("SET q n body CRON {}", "*".repeat(257)));
    assert_eq!(long, format!("ERR cron '{shown}'...: it has 257 bytes; at most 256 are allowed"));
    assert!(
        read_words(&[b"DELAY.SCHEDULE", b"EXPLAIN", b"CRON", b"\xff * * * *"], |_| ()).is_err()
    );
}

#[test]
fn patterns_of_other_schedulers_that_say_the_same_are_taken() {
    for pattern in [
        "0 0 * * SAT-SUN", "0 0 * * SUN-SAT", "5/15 * * * *", "0 0 12 ? * MON-FRI", "@midnight",
        "@DAILY", "0 0 15W,L * *", "0 0 1,15,L * *", "0 0 1 * +MON", "00 08 * * *",
    ] {
        assert_eq!(set(&format!("CRON \"{pattern}\"")).0, format!("cron {pattern} in UTC"));
    }
}

#[test]
fn bounds_that_are_none_are_refused() {
    let forms = "expected @<unix-ms> or a date, time and offset such as 2030-01-31T12:30:00Z";
    for (value, why) in [
        ("10m", format!("is relative, so it would mean something else at each SET; {forms}")),
        ("1800000000000", format!("is relative, so it would mean something else at each SET; {forms}")),
        ("now", format!("is not an absolute time; {forms}")),
        ("2030-01-31", format!("is not an absolute time; {forms}")),
        ("@-5", format!("is not an absolute time; {forms}")),
        (
            "@1800000000",
            "is before 1973, so it can only be unix seconds; @ takes unix milliseconds, which would be \
             @1800000000000"
                .to_owned(),
        ),
        ("@253402300800000", "is too far away; the last is @253402300799999".to_owned()),
        ("@18446744073709551616", "is too far away; the last is @253402300799999".to_owned()),
    ] {
        for option in ["FROM", "UNTIL"] {
            let line = format!("SET q n body EVERY 5m {option} {value}");
            assert_eq!(refused(&line), format!("ERR {option} '{value}' {why}"));
        }
        let line = format!("EXPLAIN EVERY 5m FROM {value}");
        let why = why.replace("each SET", "each EXPLAIN");
        assert_eq!(refused(&line), format!("ERR FROM '{value}' {why}"));
    }
    assert_eq!(
        refused("SET q n body EVERY 5m FROM 2030-02-30T00:00:00Z"),
        "ERR FROM '2030-02-30T00:00:00Z': the day is 30; it must be from 1 to 28 in that month"
    );
    for order in
        ["FROM @1800000000001 UNTIL @1800000000000", "UNTIL @1800000000000 FROM @1800000000001"]
    {
        assert_eq!(
            refused(&format!("SET q n body {order} EVERY 5m")),
            "ERR UNTIL is @1800000000000, which is before FROM, @1800000000001"
        );
    }
}

#[test]
fn values_beyond_their_limits_are_refused() {
    for (options, text) in [
        ("RUNS 0", "ERR RUNS '0' is not an integer from 1 to 4294967295"),
        ("RUNS 4294967296", "ERR RUNS '4294967296' is not an integer from 1 to 4294967295"),
        ("SPREAD 86400001", "ERR SPREAD '86400001' is too long; the maximum is 1d"),
        ("SPREAD 5m", "ERR SPREAD is 5m; it must be less than EVERY, 5m"),
        ("SPREAD 6m", "ERR SPREAD is 6m; it must be less than EVERY, 5m"),
        ("OVERLAP never", "ERR syntax error: overlap 'never' is not one of ALLOW, SKIP, REPLACE"),
        ("CATCHUP 0", "ERR CATCHUP '0' is not an integer from 1 to 10000"),
        ("CATCHUP 10001", "ERR CATCHUP '10001' is not an integer from 1 to 10000"),
        ("GRACE 999ms", "ERR GRACE '999ms' is too short; the minimum is 1s"),
        ("GRACE 0", "ERR GRACE '0' is too short; the minimum is 1s"),
        ("PRIORITY 10", "ERR priority '10' is not an integer from 0 to 9"),
        ("ATTEMPTS -1", "ERR attempts '-1' is not an integer from 0 to 4294967295"),
        (
            "BACKOFF soon",
            "ERR backoff 'soon': expected steps such as 1s,5s,1m or exp:<first>:<max>[:<factor>], then perhaps ~",
        ),
        ("LEASE 0", "ERR lease '0' is too short; the minimum is 1ms"),
        ("TTL 365001d", "ERR ttl '365001d' is too long; the maximum is 365000d"),
        ("NX", "ERR syntax error: unknown option 'NX'"),
        ("ID x", "ERR syntax error: unknown option 'ID'"),
    ] {
        assert_eq!(refused(&format!("SET q n body EVERY 5m {options}")), text, "{options}");
    }
    let names = [
        "SET q {} body EVERY 5m", "GET q {}", "DEL q x {}", "PAUSE q {}", "RESUME q {}",
        "RUN q {}", "NEXT q {}",
    ];
    let long = "n".repeat(481);
    let shown = "n".repeat(64);
    for line in names {
        let of = |name: &str| refused(&line.replace("{}", name));
        assert_eq!(of("\"\""), "ERR name '' has 0 bytes; it must have 1 to 480", "{line}");
        let text = format!("ERR name '{shown}'... has 481 bytes; it must have 1 to 480");
        assert_eq!(of(&long), text, "{line}");
        assert_eq!(read(&line.replace("{}", &long[1..]), |_| ()), Ok(()), "{line}");
        let queue =
            refused(&line.replace("{}", "n").replace(" q ", &format!(" {} ", "q".repeat(513))));
        assert!(queue.contains("has 513 bytes; it must have 1 to 512"), "{queue}");
    }
    let body = vec![b'x'; (1 << 20) + 1];
    let with = |body: &[u8]| {
        read_words(&[b"DELAY.SCHEDULE", b"SET", b"q", b"n", body, b"EVERY", b"5m"], |_| ())
    };
    assert_eq!(with(&body[1..]), Ok(()));
    let text = "ERR the body of a schedule has 1048577 bytes; at most 1048576 are allowed";
    assert_eq!(with(&body), Err(text.to_owned()));
}

#[test]
fn the_other_subcommands_are_read() {
    let shown = |line: &str| read(line, |of| format!("{of:?}")).unwrap_or_else(|text| text);
    let queue = "queue: QueueName { db: Db(3), name: [113] }";
    for (line, want) in [
        ("GET q n", format!("Get {{ {queue}, name: [110] }}")),
        ("DEL q n o", format!("Delete {{ {queue}, names: [[110], [111]] }}")),
        ("LIST q", format!("List {{ {queue}, after: None, pattern: None, count: 100 }}")),
        (
            "LIST q COUNT 10000 match o* AFTER n",
            format!(
                "List {{ {queue}, after: Some([110]), pattern: Some([111, 42]), count: 10000 }}"
            ),
        ),
        (
            "LIST q AFTER \"\"",
            format!("List {{ {queue}, after: Some([]), pattern: None, count: 100 }}"),
        ),
        ("PAUSE q n", format!("Pause {{ {queue}, name: [110], for_ms: None }}")),
        ("PAUSE q n FOR 1ms", format!("Pause {{ {queue}, name: [110], for_ms: Some(1) }}")),
        ("RESUME q n", format!("Resume {{ {queue}, name: [110] }}")),
        ("RUN q n", format!("Run {{ {queue}, name: [110], force: false }}")),
        ("RUN q n force", format!("Run {{ {queue}, name: [110], force: true }}")),
        ("NEXT q n", format!("Next {{ {queue}, name: [110], count: 1 }}")),
        ("NEXT q n COUNT 1000", format!("Next {{ {queue}, name: [110], count: 1000 }}")),
        (
            "EXPLAIN EVERY 5m",
            "Explain { rule: Every { ms: 300000 }, from: None, count: 1 }".to_owned(),
        ),
        (
            "EXPLAIN COUNT 3 EVERY 5m FROM @0",
            "Explain { rule: Every { ms: 300000 }, from: Some(Millis(0)), count: 3 }".to_owned(),
        ),
        ("ZONES", "Zones { pattern: None }".to_owned()),
        ("ZONES MATCH *a", "Zones { pattern: Some([42, 97]) }".to_owned()),
    ] {
        assert_eq!(shown(line), want, "{line}");
    }
    for (line, text) in [
        (
            "GET q n x",
            "ERR wrong number of arguments for 'delay.schedule|get' command; usage: DELAY.SCHEDULE GET queue name",
        ),
        ("LIST q COUNT 0", "ERR count '0' is not an integer from 1 to 10000"),
        ("LIST q COUNT 10001", "ERR count '10001' is not an integer from 1 to 10000"),
        ("LIST q AFTER", "ERR syntax error: AFTER needs a value (name)"),
        ("PAUSE q n FOR 0", "ERR FOR '0' is too short; the minimum is 1ms"),
        ("RUN q n NOW", "ERR syntax error: unknown option 'NOW'"),
        ("NEXT q n COUNT 1001", "ERR count '1001' is not an integer from 1 to 1000"),
        ("EXPLAIN EVERY 5m COUNT 0", "ERR count '0' is not an integer from 1 to 1000"),
        ("EXPLAIN EVERY 5m UNTIL @0", "ERR syntax error: unknown option 'UNTIL'"),
        ("ZONES x", "ERR syntax error: unknown option 'x'"),
        ("STOP q n", "ERR unknown subcommand 'STOP'. Try DELAY.SCHEDULE HELP."),
    ] {
        assert_eq!(refused(line), text, "{line}");
    }
}

#[test]
fn queues_stand_second_and_are_read_or_written() {
    for (word, access) in [
        ("SET", Some(Access::Set)),
        ("GET", Some(Access::Read)),
        ("DEL", Some(Access::Set)),
        ("LIST", Some(Access::Read)),
        ("PAUSE", Some(Access::Set)),
        ("RESUME", Some(Access::Set)),
        ("RUN", Some(Access::Set)),
        ("NEXT", Some(Access::Read)),
        ("EXPLAIN", None),
        ("ZONES", None),
        ("HELP", None),
    ] {
        let spec = table::find(format!("delay.schedule|{word}").as_bytes()).expect(word);
        let keys = spec.find_keys(&[b"DELAY.SCHEDULE", word.as_bytes(), b"q", b"n", b"o", b"p"]);
        assert_eq!(keys, access.map(|_| 2..3), "{word}");
        assert_eq!(spec.access, access.unwrap_or(Access::Read), "{word}");
    }
}

proptest! {
    /// Options, values that fit, and any bytes, in any order.
    #[test]
    fn any_words_are_survived(
        subcommand in 0usize..10,
        tail in prop::collection::vec((0usize..40, prop::collection::vec(any::<u8>(), 0..20)), 0..14),
    ) {
        const SUBCOMMANDS: [&str; 10] =
            ["SET", "GET", "DEL", "LIST", "PAUSE", "RESUME", "RUN", "NEXT", "EXPLAIN", "ZONES"];
        const KNOWN: [&str; 32] = [
            "EVERY", "CRON", "TZ", "FROM", "UNTIL", "RUNS", "SPREAD", "OVERLAP", "CATCHUP", "GRACE",
            "PRIORITY", "ATTEMPTS", "BACKOFF", "LEASE", "TTL", "FOR", "FORCE", "COUNT", "AFTER", "MATCH",
            "5m", "100", "* * * * *", "0 0 15W * +MON#2", "@0", "@1800000000000", "SKIP", "1s,5s~", "UTC",
            "18446744073709551616", "2030-01-31T12:30:00Z", "",
        ];
        let mut words: Vec<&[u8]> = vec![b"DELAY.SCHEDULE", SUBCOMMANDS[subcommand].as_bytes()];
        words.extend(tail.iter().map(|(known, bytes)| match KNOWN.get(*known) {
            Some(word) => word.as_bytes(),
            None => bytes.as_slice(),
        }));
        if let Err(text) = read_words(&words, |_| ()) {
            prop_assert!(text.starts_with("ERR "), "{}", text);
        }
    }
}

fn shown(reply: &Reply<'_>) -> [String; 2] {
    [Protocol::Resp2, Protocol::Resp3].map(|protocol| {
        let mut out = BytesMut::new();
        render(reply, &mut Encoder::new(&mut out, protocol));
        String::from_utf8(out.to_vec()).expect("UTF-8").replace("\r\n", " ")
    })
}

/// The names and values of a map, in the form of RESP2; a nil and an array by itself.
fn fields(view: &ScheduleView<'_>) -> Vec<(String, String)> {
    let [resp2, resp3] = shown(&Reply::Schedule(view));
    let (head, rest) = resp2.split_once(' ').expect("a map");
    let fields: usize = head.trim_start_matches('*').parse().expect("a number");
    assert!(resp3.starts_with(&format!("%{} ", fields / 2)), "{resp3}");
    let mut words = rest.split_ascii_whitespace();
    let mut values = Vec::new();
    while let Some(word) = words.next() {
        let count = word.trim_start_matches('*').parse().unwrap_or(0);
        values.push(match word.as_bytes()[0] {
            b'$' if word == "$-1" => "nil".to_owned(),
            b'$' => words.next().expect("text").to_owned(),
            b'*' => (0..2 * count).filter_map(|_| words.next()).collect::<Vec<_>>().join(" "),
            _ => word.to_owned(),
        });
    }
    assert_eq!(values.len(), fields);
    let pairs = values.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone()));
    pairs.collect()
}

fn joined(fields: &[(String, String)]) -> String {
    let pairs = fields.iter().map(|(name, value)| format!("{name}={value}"));
    pairs.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_schedule_is_shown_with_all_its_fields() {
    let definition = Definition::of(Rule::Every { ms: 300_000 });
    let view = ScheduleView {
        name: b"bank",
        body: b"x",
        state: ScheduleState::Paused,
        definition: &definition,
        runs_left: None,
        changed: Millis(1_800_000_000_000),
        next: None,
        last: None,
        last_id: None,
        open: Vec::new(),
        pause: Pause::Endless,
        obstacle: None,
        outcomes: Outcomes::default(),
    };
    assert_eq!(
        joined(&fields(&view)),
        "name=bank state=paused every=5m from=nil until=nil runs=nil runs-left=nil spread=nil overlap=allow \
         catchup=:1 grace=nil priority=nil attempts=nil backoff=nil lease=nil ttl=nil body=x \
         changed=:1800000000000 next=nil next-due=nil last=nil last-made=nil last-id=nil open= paused-until=nil \
         held=nil made=:0 missed=:0 skipped=:0 replaced=:0"
    );
    let terms = set("EVERY 5m FROM @1800000000000 UNTIL @1900000000000 RUNS 7 SPREAD 90s OVERLAP SKIP CATCHUP 3 GRACE \
                     1h PRIORITY 0 ATTEMPTS 0 BACKOFF 1s,5s~ LEASE 30s TTL 0")
    .1;
    let rule = Rule::Cron { pattern: "@daily".into(), zone: "Europe/Berlin".into() };
    let definition = terms.with(rule);
    let view = ScheduleView {
        state: ScheduleState::Held,
        definition: &definition,
        runs_left: Some(5),
        next: Some(Coming { nominal: Millis(1_800_000_300_000), due: Millis(1_800_000_310_000) }),
        last: Some((Millis(1_800_000_000_000), Millis(1_800_000_010_001))),
        last_id: Some(b"bank@1800000000000".to_vec()),
        open: vec![b"bank@1".to_vec(), b"bank@2".to_vec()],
        pause: Pause::Until(Millis(1_800_000_600_000)),
        obstacle: Some(Obstacle::Full),
        outcomes: Outcomes { made: 2, missed: 3, skipped: 4, replaced: 1 },
        ..view
    };
    assert_eq!(
        joined(&fields(&view)),
        "name=bank state=held cron=@daily tz=Europe/Berlin from=:1800000000000 until=:1900000000000 runs=:7 \
         runs-left=:5 spread=90s overlap=skip catchup=:3 grace=1h priority=:0 attempts=:0 backoff=1s,5s~ lease=30s \
         ttl=0ms body=x changed=:1800000000000 next=:1800000300000 next-due=:1800000310000 last=:1800000000000 \
         last-made=:1800000010001 last-id=bank@1800000000000 open=$6 bank@1 $6 bank@2 paused-until=:1800000600000 \
         held=full made=:2 missed=:3 skipped=:4 replaced=:1"
    );
}

#[test]
fn the_other_replies_are_shown() {
    let [resp2, resp3] =
        shown(&Reply::ScheduleSet(ScheduleChange::Created, Some(Millis(1_800_000_300_000))));
    assert_eq!(resp2, "*2 $7 created :1800000300000 ");
    assert_eq!(resp3, resp2);
    let [resp2, resp3] = shown(&Reply::ScheduleSet(ScheduleChange::Same, None));
    assert_eq!((resp2.as_str(), resp3.as_str()), ("*2 $4 same $-1 ", "*2 $4 same _ "));
    let rule = Rule::Cron { pattern: "0 8 * * 1-5".into(), zone: "Europe/Berlin".into() };
    let rows = [ScheduleRow {
        name: b"daily",
        state: ScheduleState::Active,
        rule: &rule,
        next: Some(Millis(1)),
        last: None,
    }];
    let [resp2, _] = shown(&Reply::Schedules(&rows));
    assert_eq!(resp2, "*1 *5 $5 daily $6 active $30 cron 0 8 * * 1-5 Europe/Berlin :1 $-1 ");
    let instants = [(Millis(1_806_111_000_000), "2027-03-27T02:30:00+01:00".to_owned())];
    let [resp2, _] = shown(&Reply::Explained(&instants));
    assert_eq!(resp2, "*1 *2 :1806111000000 $25 2027-03-27T02:30:00+01:00 ");
}
