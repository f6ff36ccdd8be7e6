//! The search for the next instant of a pattern in a zone.
//!
//! Over a change of the clocks a pattern that is *elapsed* follows elapsed time; each other one has each
//! local time once: one that the clocks step over at the end of the gap, one that they show twice the first
//! time. Nothing walks second by second, and no instant found is in the past.

use super::pattern::Pattern;
use super::zone::{Local, Zone};
use crate::limits::SEARCH_YEARS;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;

const DAY: i64 = 86_400;

/// The first instant after `after`, both in unix seconds; None if there is none within
/// [`SEARCH_YEARS`](crate::limits::SEARCH_YEARS) years or before the year 10,000.
///
/// 0.2 µs typically, 20 µs for a pattern that never matches.
///
/// ```
/// use delayd::calendar::{Pattern, Zones, next};
/// let berlin = Zones::bundled().get("Europe/Berlin").unwrap();
/// let pattern = Pattern::parse(b"30 2 * * *").unwrap();
/// // Of 28 March 2026, 12:00. In the night the clocks go from 02:00 to 03:00.
/// let at = next(&pattern, &berlin, 1_774_695_600).unwrap();
/// assert_eq!(berlin.show(at).unwrap(), "2026-03-29T03:00:00+02:00");
/// let at = next(&pattern, &berlin, at).unwrap();
/// assert_eq!(berlin.show(at).unwrap(), "2026-03-30T02:30:00+02:00");
/// ```
pub fn next(pattern: &Pattern, zone: &Zone, after: i64) -> Option<i64> {
    match pattern.is_elapsed() {
        true => next_elapsed(pattern, zone, after),
        false => next_local(pattern, zone, after),
    }
}

/// The instants of a pattern, one after the other.
#[derive(Clone, Debug)]
pub struct Instants<'a> {
    pattern: &'a Pattern,
    zone: &'a Zone,
    after: i64,
}

impl<'a> Instants<'a> {
    /// Those after this one.
    pub fn after(pattern: &'a Pattern, zone: &'a Zone, after: i64) -> Instants<'a> {
        Instants { pattern, zone, after }
    }
}

impl Iterator for Instants<'_> {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        self.after = next(self.pattern, self.zone, self.after)?;
        Some(self.after)
    }
}

fn next_elapsed(pattern: &Pattern, zone: &Zone, after: i64) -> Option<i64> {
    let from = after + 1;
    let mut offset = zone.offset(from)?;
    let mut local = civil(pattern, from + offset, i64::MAX)?;
    for (change, then) in zone.changes(from) {
        if local - offset < change {
            break;
        }
        // What the clocks show from here on: a fold shows times again, which may match; behind a gap is
        // only what was not stepped over.
        let (shown, before) = (change + then, change + offset);
        if shown < before {
            local = civil(pattern, shown, before).unwrap_or(local);
        } else if local < shown {
            local = civil(pattern, shown, i64::MAX)?;
        }
        offset = then;
    }
    within_calendar(local - offset)
}

fn next_local(pattern: &Pattern, zone: &Zone, after: i64) -> Option<i64> {
    let mut local = after + zone.offset(after)?;
    if let Local::At(first) = zone.local(local)?
        && first < after
    {
        // The second pass of a fold: all that it shows came in the first. On behind it, where a pattern of
        // every second would else look at each of 3,600.
        let (change, _) = zone.changes(first).next()?;
        local = change + zone.offset(first)?;
    }
    loop {
        local = civil(pattern, local, i64::MAX)?;
        let at = match zone.local(local)? {
            Local::At(at) | Local::Gap(at) => at,
        };
        if at > after {
            return within_calendar(at);
        }
        local += 1;
    }
}

fn within_calendar(at: i64) -> Option<i64> {
    Timestamp::from_second(at).is_ok().then_some(at)
}

/// The first local second that matches, at `from` or later and before `end`. Local seconds are counted as if
/// no clock were ever set.
fn civil(pattern: &Pattern, from: i64, end: i64) -> Option<i64> {
    let today = from.div_euclid(DAY);
    let start = Offset::UTC.to_datetime(Timestamp::from_second(from).ok()?).date();
    let mut month = Month::of(start, today);
    let mut left = !0 << start.day();
    let first = pattern.second_of_day(0)?;
    for _ in 0..=i32::from(SEARCH_YEARS) * 12 {
        if month.start * DAY >= end {
            return None;
        }
        let mut days = month.matching(pattern) & left;
        while days != 0 {
            let day = month.start + i64::from(days.trailing_zeros()) - 1;
            let second = match day == today {
                true => pattern.second_of_day(from.rem_euclid(DAY) as u32),
                false => Some(first),
            };
            if let Some(second) = second {
                let found = day * DAY + i64::from(second);
                return (found < end).then_some(found);
            }
            days &= days - 1;
        }
        month = month.next()?;
        left = !0;
    }
    None
}

/// A month of the calendar.
struct Month {
    year: i16,
    month: i8,
    length: u32,
    /// Its first day, counted from 1970-01-01, and that day of the week; 0 is Sunday.
    start: i64,
    weekday: u32,
}

impl Month {
    /// That of a day, which is `days` after 1970-01-01.
    fn of(date: Date, days: i64) -> Month {
        let start = days - i64::from(date.day()) + 1;
        // 1970 began on a Thursday.
        let weekday = (start + 4).rem_euclid(7) as u32;
        let length = u32::from(date.days_in_month().unsigned_abs());
        Month { year: date.year(), month: date.month(), length, start, weekday }
    }

    fn next(self) -> Option<Month> {
        let (year, month) = match self.month {
            12 => (self.year + 1, 1),
            month => (self.year, month + 1),
        };
        let date = Date::new(year, month, 1).ok()?;
        Some(Month::of(date, self.start + i64::from(self.length)))
    }

    fn matching(&self, pattern: &Pattern) -> u32 {
        pattern.days(self.month, self.length, self.weekday)
    }
}
