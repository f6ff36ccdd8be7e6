//! `when`: a duration from now, `@<unix-ms>`, or an RFC 3339 date-time with offset.

use crate::command::read::duration;
use crate::command::read::number;
use crate::command::read::number::Whole;
use crate::engine::model::request::When;
use crate::limits::INSTANT_MS_MIN;
use jiff::civil::Date;

const EPOCH: Date = Date::constant(1970, 1, 1);

/// Why a `when` is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhenError {
    /// A number below zero.
    Negative,
    /// A date or time of day that no instant follows from.
    TimeOfDay,
    /// A date-time of a day, an hour or an offset that does not exist.
    OutOfRange(OutOfRange),
    /// Beyond 2^64 − 1 ms.
    TooLarge,
    /// `@` and what can only be unix seconds; as ms.
    Seconds(u64),
    /// Anything else.
    Malformed,
}

/// The field of a date-time that is out of range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the {field} is {value}; it must be from {least} to {most}{}", self.remark())]
pub struct OutOfRange {
    field: &'static str,
    value: i64,
    least: i64,
    most: i64,
}

impl OutOfRange {
    fn remark(&self) -> &'static str {
        match (self.field, self.value) {
            ("day", _) => " in that month",
            ("second", 60) => ", because only 23:59:60 UTC can be a leap second",
            _ => "",
        }
    }
}

/// Reads a `when`. After `@` 0 is long ago, and other instants before 1973 are refused: with unix seconds there every
/// job would be due at once. An instant between two milliseconds is rounded up, one before 1970 is 0.
pub fn parse(text: &[u8]) -> Result<When, WhenError> {
    let at_or_in = |whole, make: fn(u64) -> When| match whole {
        Whole::Fits(ms) => Ok(make(ms)),
        Whole::TooLarge => Err(WhenError::TooLarge),
    };
    if let Some(instant) = text.strip_prefix(b"@") {
        return match number::unsigned_or_more(instant) {
            Some(Whole::Fits(s)) if (1..INSTANT_MS_MIN).contains(&s) => {
                Err(WhenError::Seconds(s * 1_000))
            }
            Some(ms) => at_or_in(ms, When::At),
            None if is_negative(instant) => Err(WhenError::Negative),
            None => Err(WhenError::Malformed),
        };
    }
    if let Some(duration) = duration::parse(text) {
        return at_or_in(duration, When::In);
    }
    if let Some(found) = parse_rfc3339(text) {
        return found.map(When::At).map_err(WhenError::OutOfRange);
    }
    if is_negative(text) {
        return Err(WhenError::Negative);
    }
    let dashed = text.len() >= 7 && text[..4].iter().all(u8::is_ascii_digit) && text[4] == b'-';
    if dashed || (text.contains(&b':') && text.iter().any(u8::is_ascii_digit)) {
        return Err(WhenError::TimeOfDay);
    }
    Err(WhenError::Malformed)
}

fn is_negative(text: &[u8]) -> bool {
    text.strip_prefix(b"-").is_some_and(|rest| duration::parse(rest).is_some())
}

/// A date-time of RFC 3339, `2030-01-31T12:30:00.25+02:00`, as unix ms; rounded up, so that nothing
/// is early, and 0 if it is before 1970. A leap second, `23:59:60` UTC, is the second after it. None if `text` has
/// another form.
pub fn parse_rfc3339(text: &[u8]) -> Option<Result<u64, OutOfRange>> {
    let mut reader = MomentReader { rest: text };
    let year = reader.number(4)?;
    reader.mark(b"-")?;
    let month = reader.number(2)?;
    reader.mark(b"-")?;
    let day = reader.number(2)?;
    reader.mark(b"Tt ")?;
    let hour = reader.number(2)?;
    reader.mark(b":")?;
    let minute = reader.number(2)?;
    reader.mark(b":")?;
    let second = reader.number(2)?;
    let fraction_ms = if reader.mark(b".").is_some() { reader.fraction_ms()? } else { 0 };
    let (sign, offset_hours, offset_minutes) = match reader.mark(b"Zz+-")? {
        sign @ (b'+' | b'-') => {
            let hours = reader.number(2)?;
            reader.mark(b":")?;
            (if sign == b'-' { -1 } else { 1 }, hours, reader.number(2)?)
        }
        _ => (1, 0, 0),
    };
    if !reader.rest.is_empty() {
        return None;
    }
    let date = |day| Date::new(year as i16, month as i8, day);
    // If there is no such month, that is the error.
    let days = date(1).map_or(31, |first| first.days_in_month().into());
    let fields = [
        ("month", month, 1, 12),
        ("day", day, 1, days),
        ("hour", hour, 0, 23),
        ("minute", minute, 0, 59),
        ("hour of the offset", offset_hours, 0, 23),
        ("minute of the offset", offset_minutes, 0, 59),
    ];
    for (field, value, least, most) in fields {
        if !(least..=most).contains(&value) {
            return Some(Err(OutOfRange { field, value, least, most }));
        }
    }
    let offset = sign * (offset_hours * 60 + offset_minutes);
    let hours = date(day as i8).ok()?.duration_since(EPOCH).as_hours() + hour;
    let minutes = hours * 60 + minute - offset;
    let most = if minutes.rem_euclid(24 * 60) == 24 * 60 - 1 { 60 } else { 59 };
    if second > most {
        return Some(Err(OutOfRange { field: "second", value: second, least: 0, most }));
    }
    let ms = (minutes * 60 + second) * 1000 + fraction_ms;
    Some(Ok(ms.max(0) as u64))
}

struct MomentReader<'a> {
    rest: &'a [u8],
}

impl MomentReader<'_> {
    fn number(&mut self, digits: usize) -> Option<i64> {
        let (head, rest) = self.rest.split_at_checked(digits)?;
        let value = number::unsigned(head)?;
        self.rest = rest;
        Some(value as i64)
    }

    /// One of these bytes.
    fn mark(&mut self, any: &[u8]) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        any.contains(first).then(|| {
            self.rest = rest;
            *first
        })
    }

    /// Digits after the point as ms, rounded up: 0 to 1000.
    fn fraction_ms(&mut self) -> Option<i64> {
        let count = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        let kept =
            (0..3).fold(0, |ms, at| ms * 10 + i64::from(digits.get(at).map_or(0, |d| d - b'0')));
        let more = digits.iter().skip(3).any(|digit| *digit != b'0');
        (count > 0).then_some(kept + i64::from(more))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 230,103 days, one behind the other.
    #[test]
    fn the_calendar_has_no_gap() {
        let mut day = EPOCH;
        for days in 0.. {
            let text = format!("{day}T00:00:00Z");
            assert_eq!(parse_rfc3339(text.as_bytes()), Some(Ok(days * 86_400_000)), "{text}");
            day = day.tomorrow().expect("years end at 9999");
            if day.year() == 2600 {
                return;
            }
        }
    }

    #[test]
    fn date_times_become_unix_ms() {
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01T00:00:00.0001Z", 1),
            ("2001-09-09T01:46:40Z", 1_000_000_000_000),
            ("2001-09-09t03:46:40+02:00", 1_000_000_000_000),
            ("2001-09-08 19:46:40-06:00", 1_000_000_000_000),
            ("2000-02-29T00:00:00z", 951_782_400_000),
            ("2024-02-29T23:59:59.999Z", 1_709_251_199_999),
            ("2024-02-29T23:59:59.9990Z", 1_709_251_199_999),
            ("2024-02-29T23:59:59.9991Z", 1_709_251_200_000),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000),
            ("2017-01-01T00:59:60.5+01:00", 1_483_228_800_500),
            ("2038-01-19T03:14:08Z", 2_147_483_648_000),
            ("9999-12-31T23:59:59Z", 253_402_300_799_000),
            ("1969-12-31T23:59:59Z", 0),
            ("0000-01-01T00:00:00Z", 0),
            ("1970-01-01T00:00:00+23:59", 0),
        ] {
            assert_eq!(parse_rfc3339(text.as_bytes()), Some(Ok(ms)), "{text}");
        }
        for (text, wrong) in [
            ("2023-02-29T00:00:00Z", "the day is 29; it must be from 1 to 28 in that month"),
            ("1900-02-29T00:00:00Z", "the day is 29; it must be from 1 to 28 in that month"),
            ("2024-04-31T00:00:00Z", "the day is 31; it must be from 1 to 30 in that month"),
            ("2024-01-00T00:00:00Z", "the day is 0; it must be from 1 to 31 in that month"),
            ("2024-13-01T00:00:00Z", "the month is 13; it must be from 1 to 12"),
            ("2024-00-01T00:00:00Z", "the month is 0; it must be from 1 to 12"),
            ("2024-01-01T24:00:00Z", "the hour is 24; it must be from 0 to 23"),
            ("2024-01-01T00:60:00Z", "the minute is 60; it must be from 0 to 59"),
            ("2024-01-01T00:00:61Z", "the second is 61; it must be from 0 to 59"),
            ("2024-01-01T23:59:61Z", "the second is 61; it must be from 0 to 60"),
            ("2024-01-01T00:00:00+24:00", "the hour of the offset is 24; it must be from 0 to 23"),
            (
                "2024-01-01T00:00:00-00:60",
                "the minute of the offset is 60; it must be from 0 to 59",
            ),
            (
                "2024-01-01T12:30:60Z",
                "the second is 60; it must be from 0 to 59, because only 23:59:60 UTC can be a leap second",
            ),
            (
                "2016-12-31T23:59:60+01:00",
                "the second is 60; it must be from 0 to 59, because only 23:59:60 UTC can be a leap second",
            ),
        ] {
            let found = parse_rfc3339(text.as_bytes()).expect(text);
            assert_eq!(found.expect_err(text).to_string(), wrong, "{text}");
            assert!(matches!(parse(text.as_bytes()), Err(WhenError::OutOfRange(_))), "{text}");
        }
        for text in [
            "2024-01-01T00:00:00", "2024-01-01T00:00:00.Z", "2024-01-01T00:00Z",
            "2024-01-01T00:00:00+0200", "2024-01-01T00:00:00Zx", "2024-02-30T00:00:00Zx",
            "24-01-01T00:00:00Z", "2024-1-1T00:00:00Z", "", "2024",
        ] {
            assert_eq!(parse_rfc3339(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn when_is_a_duration_or_an_instant() {
        assert_eq!(parse(b"0"), Ok(When::In(0)));
        assert_eq!(parse(b"000000000030"), Ok(When::In(30)));
        assert_eq!(parse(b"1h30m"), Ok(When::In(5_400_000)));
        assert_eq!(parse(b"@0"), Ok(When::At(0)));
        assert_eq!(parse(b"@1893456000000"), Ok(When::At(1_893_456_000_000)));
        assert_eq!(parse(b"@18446744073709551615"), Ok(When::At(u64::MAX)));
        assert_eq!(parse(b"18446744073709551615"), Ok(When::In(u64::MAX)));
        assert_eq!(parse(b"2030-01-01T00:00:00Z"), Ok(When::At(1_893_456_000_000)));
        assert_eq!(parse(b"@100000000000"), Ok(When::At(100_000_000_000)));
        for (text, ms) in [
            ("@99999999999", 99_999_999_999_000),
            ("@1893456000", 1_893_456_000_000),
            ("@0000000001893456000", 1_893_456_000_000),
            ("@1", 1_000),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(WhenError::Seconds(ms)), "{text}");
        }
        assert_eq!(parse(b"@000"), Ok(When::At(0)));
        for text in ["18446744073709551616", "@18446744073709551616", "99999999999999999d"] {
            assert_eq!(parse(text.as_bytes()), Err(WhenError::TooLarge), "{text}");
        }
        for text in ["-1", "-5s", "@-1"] {
            assert_eq!(parse(text.as_bytes()), Err(WhenError::Negative), "{text}");
        }
        for text in ["12:30", "12:30:00", "2026-11-20", "2026-11-20T12:30:00"] {
            assert_eq!(parse(text.as_bytes()), Err(WhenError::TimeOfDay), "{text}");
        }
        for text in ["", "@", "@5s", "tomorrow", "a:b", "1.5", "--1", "5 s", "@@1"] {
            assert_eq!(parse(text.as_bytes()), Err(WhenError::Malformed), "{text}");
        }
    }

    proptest! {
        /// Never earlier than asked, and less than a millisecond later.
        #[test]
        fn fractions_are_rounded_up(nanos in 0u64..1_000_000_000, digits in 1usize..10) {
            let all = format!("{nanos:09}");
            let text = format!("2001-09-09T01:46:40.{}Z", &all[..digits]);
            let kept: u64 = format!("{:0<9}", &all[..digits]).parse().unwrap();
            let ms = parse_rfc3339(text.as_bytes()).unwrap().unwrap() - 1_000_000_000_000;
            prop_assert!(ms * 1_000_000 >= kept && ms * 1_000_000 < kept + 1_000_000);
        }

        #[test]
        fn any_bytes_are_survived(text in "[-@0-9TZ:+. smhdwx]{0,40}") {
            let _ = parse(text.as_bytes());
        }
    }
}
