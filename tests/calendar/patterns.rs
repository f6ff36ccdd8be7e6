//! What is a pattern and what is not, and what is said of one that is none.

use delayd::calendar::{Instants, Pattern, Zones};

fn refused(pattern: &str) -> String {
    match Pattern::parse(pattern.as_bytes()) {
        Ok(pattern) => panic!("'{}' is taken", pattern.text()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_pattern_that_is_none_is_refused_by_field_and_value() {
    let ranged = "0 to 59, ranges such as 1-5, steps such as */5";
    for (pattern, text) in [
        ("", "5 fields expected, or 6 with seconds first; it has 0"),
        ("* * * *", "5 fields expected, or 6 with seconds first; it has 4"),
        ("* * * * * * *", "5 fields expected, or 6 with seconds first; it has 7"),
        ("60 * * * *", "minute 60 is not within 0 to 59"),
        ("60 * * * * *", "second 60 is not within 0 to 59"),
        ("* 24 * * *", "hour 24 is not within 0 to 23"),
        ("* * 0 * *", "day-of-month 0 is not within 1 to 31"),
        ("* * 32 * *", "day-of-month 32 is not within 1 to 31"),
        ("* * * 13 *", "month 13 is not within 1 to 12"),
        ("* * * 0 *", "month 0 is not within 1 to 12"),
        ("* * * * 8", "day-of-week 8 is not within 0 to 7"),
        ("99999999999999999999 * * * *", "minute 99999999999999999999 is not within 0 to 59"),
        ("5-1 * * * *", "minute 5-1 runs backwards; write 5-59,0-1"),
        ("0 22-2 * * *", "hour 22-2 runs backwards; write 22-23,0-2"),
        ("0 23-0 * * *", "hour 23-0 runs backwards; write 23,0"),
        ("0 0 * * FRI-MON", "day-of-week FRI-MON runs backwards; write FRI-SAT,SUN-MON"),
        ("0 0 * * 5-0", "day-of-week 5-0 runs backwards; write 5-7"),
        ("0 0 * * 7-2", "day-of-week 7-2 runs backwards; write 0-2"),
        ("0 0 * NOV-FEB *", "month NOV-FEB runs backwards; write NOV-DEC,JAN-FEB"),
        ("1,,2 * * * *", "minute '1,,2' has an empty item"),
        ("1, * * * *", "minute '1,' has an empty item"),
        (", * * * *", "minute ',' has an empty item"),
        ("0 0 * * +", "day-of-week '' has an empty item"),
        ("*/0 * * * *", "minute step 0 is not within 1 to 59; for once an hour write 0"),
        ("*/60 * * * *", "minute step 60 is not within 1 to 59; for once an hour write 0"),
        ("*/61 * * * *", "minute step 61 is not within 1 to 59; for once an hour write 0"),
        ("0 */24 * * *", "hour step 24 is not within 1 to 23; for once a day write 0"),
        ("0 0 1-31/32 * *", "day-of-month step 32 is not within 1 to 31; for once a month write 1"),
        ("0 0 1 */13 *", "month step 13 is not within 1 to 12; for once a year write 1"),
        ("-1 * * * *", &format!("minute '-1' is not one of {ranged}")),
        ("1-5-7 * * * *", &format!("minute '1-5-7' is not one of {ranged}")),
        ("*/5/2 * * * *", &format!("minute '*/5/2' is not one of {ranged}")),
        ("1e3 * * * *", &format!("minute '1e3' is not one of {ranged}")),
        ("a * * * *", &format!("minute 'a' is not one of {ranged}")),
        ("٣ * * * *", &format!("minute '٣' is not one of {ranged}")),
        ("1- * * * *", &format!("minute '' is not one of {ranged}")),
        ("1/ * * * *", &format!("minute '1/' is not one of {ranged}")),
        ("/5 * * * *", &format!("minute '/5' is not one of {ranged}")),
        ("0 0 * * MONDAY", "day-of-week 'MONDAY': names have three letters: MON"),
        ("0 0 * JANUARY *", "month 'JANUARY': names have three letters: JAN"),
        (
            "0 0 * * Mo",
            "day-of-week 'Mo' is not one of 0 to 7 or SUN to SAT, ranges such as MON-FRI, steps such as */2, \
             5L, 5#2",
        ),
        ("0 8 ? * MON-FRI *", "hour '?': a question mark is allowed in a day field only"),
        ("? ? * * *", "minute '?': a question mark is allowed in a day field only"),
        ("CRON_TZ=UTC 0 0 * * *", "give the zone with TZ, after the pattern"),
        ("TZ=Europe/Berlin 0 0 * * *", "give the zone with TZ, after the pattern"),
        ("0 0 * * * UTC", "give the zone with TZ, after the pattern"),
        ("0 22 * * 1-5 America/Chicago", "give the zone with TZ, after the pattern"),
        ("@every 5m", "write EVERY 5m"),
        ("@reboot", "use DELAY.SCHEDULE RUN when your program starts"),
        (
            "@noon",
            "'@noon' is not one of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly",
        ),
        ("H * * * *", "minute 'H' is not supported: to spread schedules use SPREAD"),
        ("H/15 * * * *", "minute 'H' is not supported: to spread schedules use SPREAD"),
        (
            "0 0 L-3 * *",
            "day-of-month 'L-3': days counted from the end of the month are not supported; L is the last one",
        ),
        ("0 0 W * *", "day-of-month 'W': name the day, 15W is the weekday nearest to the 15th"),
        ("0 0 32W * *", "day-of-month 32 is not within 1 to 31"),
        ("0 0 WL * *", "day-of-month 'WL': the last weekday of the month is LW"),
        ("0 0 * * MON#6", "day-of-week 'MON#6': after # write 1 to 5, or L for the last"),
        ("0 0 * * MON#0", "day-of-week 'MON#0': after # write 1 to 5, or L for the last"),
        ("0 0 * * L", "day-of-week 'L': name the day, 5L is the last Friday of the month"),
        (
            "0 0 1 * MON+",
            "day-of-week 'MON+': a plus is allowed only in front of the whole day-of-week field",
        ),
        (
            "0 0 1 * MON,+TUE",
            "day-of-week '+TUE': a plus is allowed only in front of the whole day-of-week field",
        ),
        ("0 0 * * *\n", "it contains a line break or control character"),
    ] {
        assert_eq!(refused(pattern), text, "{pattern}");
    }
    assert_eq!(refused(&"0".repeat(257)), "it has 257 bytes; at most 256 are allowed");
    assert!(Pattern::parse(b"\xff\xfe * * * *").is_err());
}

#[test]
fn what_is_taken_says_what_it_looks_like() {
    for (pattern, same) in [
        ("0 0 * * SAT-SUN", "0 0 * * 6,0"),
        ("0 0 * * SUN-SAT", "0 0 * * 0-6"),
        ("5/15 * * * *", "5,20,35,50 * * * *"),
        ("0 0 12 ? * MON-FRI", "0 12 * * 1-5"),
        ("@midnight", "0 0 * * *"),
        ("@DAILY", "0 0 * * *"),
        ("@annually", "0 0 1 1 *"),
        ("0 0 15W,L * *", "0 0 15W,L * ?"),
        ("00 08 * * *", "0 8 * * *"),
        ("  0\t 8  * * * ", "0 8 * * *"),
        ("0 0 1 * +MON", "0 0 1 * +1"),
        ("0 0 * * fril", "0 0 * * 5#L"),
        ("0 0 * * 7", "0 0 * * SUN"),
        ("0 0 1 */12 *", "0 0 1 1 *"),
        ("0 0 * * 0-7", "0 0 * * 0-6"),
    ] {
        let taken = |text: &str| Pattern::parse(text.as_bytes()).unwrap();
        let utc = Zones::bundled().get("UTC").unwrap();
        let of = |pattern: &Pattern| -> Vec<i64> {
            Instants::after(pattern, &utc, 1_800_000_000).take(50).collect()
        };
        assert_eq!(of(&taken(pattern)), of(&taken(same)), "{pattern} is not {same}");
    }
    assert_eq!(Pattern::parse(b"  0\t 8  * * MON ").unwrap().text(), "0 8 * * MON");
    let longest = format!("{}0 0 * * *", " ".repeat(247));
    assert_eq!(Pattern::parse(longest.as_bytes()).unwrap().text(), "0 0 * * *");
}

/// What a pattern is shown as says the same.
#[test]
fn a_pattern_reads_its_own_text() {
    for pattern in ["@Daily", "0  8 * *   MON-FRI", "*/5 * * * * *", "0 0 15W,LW,L 1-3 +5L,2#1"] {
        let read = Pattern::parse(pattern.as_bytes()).unwrap();
        assert_eq!(Pattern::parse(read.text().as_bytes()), Ok(read.clone()), "{pattern}");
    }
}
