//! Local seconds, counted from 1970 as if no clock were ever set, and which of them a pattern matches.

use super::pattern::Pattern;
use crate::limits::SEARCH_YEARS;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;
use std::iter;

pub(super) const DAY: i64 = 86_400;
pub(super) const YEAR: i64 = 365 * DAY;

/// The first local second that matches, at `from` or later and before `end`.
pub(super) fn first(pattern: &Pattern, from: i64, end: i64) -> Option<i64> {
    let today = from.div_euclid(DAY);
    let mut month = Month::at(from)?;
    let mut left = !0 << (today - month.start + 1);
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

/// How many local seconds match, at `from` or later and before `end`; of those that are dates of the calendar.
pub(super) fn count(pattern: &Pattern, from: i64, end: i64) -> u64 {
    let (start, stop) = (Edge::of(pattern, from), Edge::of(pattern, end));
    let mut seconds = 0;
    let mut months = iter::successors(Month::at(from), Month::next);
    while let Some(month) = months.next().filter(|month| month.start <= stop.day) {
        let days = month.matching(pattern);
        let whole = days & !month.before(start.day) & month.before(stop.day);
        seconds += u64::from(whole.count_ones()) * u64::from(pattern.seconds_before(DAY as u32));
        // Whole days run from the first one to the one before the last, which has its own part.
        let part = |edge: &Edge| if days & month.bit(edge.day) == 0 { 0 } else { edge.seconds };
        seconds += part(&stop);
        seconds -= part(&start);
    }
    seconds
}

/// A local second as the day it lies in and how many seconds of such a day match before it.
struct Edge {
    day: i64,
    seconds: u64,
}

impl Edge {
    fn of(pattern: &Pattern, local: i64) -> Edge {
        let seconds = pattern.seconds_before(local.rem_euclid(DAY) as u32);
        Edge { day: local.div_euclid(DAY), seconds: u64::from(seconds) }
    }
}

struct Month {
    year: i16,
    month: i8,
    length: u32,
    /// Its first day, counted from 1970-01-01, and that day of the week; 0 is Sunday.
    start: i64,
    weekday: u32,
}

impl Month {
    /// That of a local second.
    fn at(local: i64) -> Option<Month> {
        let date = Offset::UTC.to_datetime(Timestamp::from_second(local).ok()?).date();
        Some(Month::of(date, local.div_euclid(DAY)))
    }

    /// That of a day, which is `days` after 1970-01-01.
    fn of(date: Date, days: i64) -> Month {
        let start = days - i64::from(date.day()) + 1;
        // 1970 began on a Thursday.
        let weekday = (start + 4).rem_euclid(7) as u32;
        let length = u32::from(date.days_in_month().unsigned_abs());
        Month { year: date.year(), month: date.month(), length, start, weekday }
    }

    fn next(&self) -> Option<Month> {
        let (year, month) = match self.month {
            12 => (self.year + 1, 1),
            month => (self.year, month + 1),
        };
        let date = Date::new(year, month, 1).ok()?;
        Some(Month::of(date, self.start + i64::from(self.length)))
    }

    /// The bits of its days before this day; all, if that is in a later month.
    fn before(&self, day: i64) -> u32 {
        match day - self.start {
            ..=0 => 0,
            days @ 1..31 => (1 << (days + 1)) - 1,
            _ => !0,
        }
    }

    /// The bit of this day; none, if that is in another month.
    fn bit(&self, day: i64) -> u32 {
        match day - self.start {
            days @ 0..31 => 1 << (days + 1),
            _ => 0,
        }
    }

    fn matching(&self, pattern: &Pattern) -> u32 {
        pattern.days(self.month, self.length, self.weekday)
    }
}
