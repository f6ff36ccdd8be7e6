//! Cron patterns: what one says, and which seconds of which days it matches.

mod days;
mod error;
mod field;
mod parse;

pub use error::PatternError;

use days::{MonthDays, WeekDays};

/// A pattern of five fields, or of six with seconds first; see [`parse`](Pattern::parse).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// As it was written, with single blanks.
    text: Box<str>,
    seconds: u64,
    minutes: u64,
    hours: u32,
    months: u16,
    month_days: MonthDays,
    week_days: WeekDays,
    elapsed: bool,
}

impl Pattern {
    /// Reads a pattern: at most [`CRON_BYTES_MAX`](crate::limits::CRON_BYTES_MAX) bytes, fields parted by
    /// blanks or tabs.
    ///
    /// ```
    /// use delayd::calendar::Pattern;
    /// let pattern = Pattern::parse(b" 0  8 * * MON-FRI").unwrap();
    /// assert_eq!(pattern.text(), "0 8 * * MON-FRI");
    /// assert!(!pattern.is_elapsed());
    /// let error = Pattern::parse(b"0 24 * * *").unwrap_err();
    /// assert_eq!(error.to_string(), "hour 24 is not within 0 to 23");
    /// ```
    ///
    /// # Errors
    /// The error names the field, its value and the allowed values. A pattern that never matches is not an error here:
    /// the search reports it.
    pub fn parse(text: &[u8]) -> Result<Pattern, PatternError> {
        Ok(parse::parse(text)?)
    }

    /// As it was written, with single blanks between fields.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it follows elapsed time over a change of the clocks: its second, minute or hour begins with a
    /// star. Each other pattern has each local time once. This is the rule of Vixie's cron as Debian has it.
    pub fn is_elapsed(&self) -> bool {
        self.elapsed
    }

    /// The days of this month that it matches, bit 1 the first: the month has this many days and begins on this day of
    /// the week, 0 being Sunday.
    pub(super) fn days(&self, month: i8, length: u32, first: u32) -> u32 {
        if self.months & (1 << month) == 0 {
            return 0;
        }
        let by_date = self.month_days.mask(length, first);
        let by_weekday = self.week_days.mask(length, first);
        match self.month_days.any || self.week_days.any || self.week_days.both {
            true => by_date & by_weekday,
            false => by_date | by_weekday,
        }
    }

    /// The first second of a day that it matches, at `from` or later; `from` is below 86,400.
    pub(super) fn second_of_day(&self, from: u32) -> Option<u32> {
        let (hour, minute, second) = (from / 3600, from / 60 % 60, from % 60);
        let first = self.minutes.trailing_zeros() * 60 + self.seconds.trailing_zeros();
        let in_hour = |hour: u32, minute: u32, second: u32| {
            let here = at_least(self.minutes, minute).filter(|found| *found == minute);
            if let Some(second) = here.and_then(|_| at_least(self.seconds, second)) {
                return Some(hour * 3600 + minute * 60 + second);
            }
            let minute = at_least(self.minutes, minute + 1)?;
            Some(hour * 3600 + minute * 60 + self.seconds.trailing_zeros())
        };
        let hours = u64::from(self.hours);
        let here = at_least(hours, hour).filter(|found| *found == hour);
        if let Some(found) = here.and_then(|hour| in_hour(hour, minute, second)) {
            return Some(found);
        }
        at_least(hours, hour + 1).map(|hour| hour * 3600 + first)
    }

    /// How many seconds of a day it matches before this one, which is at most 86,400: the end of the day.
    pub(super) fn seconds_before(&self, second: u32) -> u32 {
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let in_minute = self.seconds.count_ones();
        let in_hour = self.minutes.count_ones() * in_minute;
        let hours = u64::from(self.hours);
        let mut before = below(hours, hour) * in_hour;
        if hours & (1 << hour) != 0 {
            before += below(self.minutes, minute) * in_minute;
            if self.minutes & (1 << minute) != 0 {
                before += below(self.seconds, second);
            }
        }
        before
    }
}

/// The least number of the set `bits` that is `from` or more.
pub(super) fn at_least(bits: u64, from: u32) -> Option<u32> {
    let left = bits.checked_shr(from).unwrap_or(0);
    (left != 0).then(|| from + left.trailing_zeros())
}

/// How many numbers of the set `bits` are less than `end`; `end` is below 64.
fn below(bits: u64, end: u32) -> u32 {
    (bits & ((1 << end) - 1)).count_ones()
}
