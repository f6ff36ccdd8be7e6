//! The fields of a pattern: names, ranges, words.

use super::error::Fault;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Field {
    Second,
    Minute,
    Hour,
    MonthDay,
    Month,
    WeekDay,
}

/// For a field with words: the first word, and all of them.
const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEK_DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl Field {
    /// As messages have it.
    pub fn name(self) -> &'static str {
        match self {
            Field::Second => "second",
            Field::Minute => "minute",
            Field::Hour => "hour",
            Field::MonthDay => "day-of-month",
            Field::Month => "month",
            Field::WeekDay => "day-of-week",
        }
    }

    /// The least value and the greatest. Sunday is 0 and 7.
    pub fn bounds(self) -> (u32, u32) {
        match self {
            Field::Second | Field::Minute => (0, 59),
            Field::Hour => (0, 23),
            Field::MonthDay => (1, 31),
            Field::Month => (1, 12),
            Field::WeekDay => (0, 7),
        }
    }

    /// The greatest value that a star means, and that `n/step` runs to.
    pub fn end(self) -> u32 {
        if self == Field::WeekDay { 6 } else { self.bounds().1 }
    }

    /// The event that occurs once in a span if the field has a single value, and that value: what a step as long as the
    /// span was meant to be.
    pub fn once(self) -> (&'static str, u32) {
        match self {
            Field::Second => ("minute", 0),
            Field::Minute => ("hour", 0),
            Field::Hour => ("day", 0),
            Field::MonthDay => ("month", 1),
            Field::Month => ("year", 1),
            Field::WeekDay => ("week", 0),
        }
    }

    pub fn is_days(self) -> bool {
        matches!(self, Field::MonthDay | Field::WeekDay)
    }

    /// The words there are, the first of them for the least value.
    pub fn words(self) -> &'static [&'static str] {
        match self {
            Field::Month => &MONTHS,
            Field::WeekDay => &WEEK_DAYS,
            _ => &[],
        }
    }

    /// A value written as a number, or as a word if `word`.
    pub fn show(self, value: u32, word: bool) -> String {
        let at = (value - self.bounds().0) as usize;
        match self.words().get(at % self.words().len().max(1)) {
            Some(name) if word => (*name).to_owned(),
            _ => value.to_string(),
        }
    }

    /// Reads one value: a number or a word.
    pub fn value(self, text: &str) -> Result<u32, Fault> {
        let (least, most) = self.bounds();
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let digits = text.trim_start_matches('0');
            // One of many digits is out of range as well.
            let value = if digits.is_empty() { 0 } else { digits.parse().unwrap_or(u32::MAX) };
            return match (least..=most).contains(&value) {
                true => Ok(value),
                false => Err(Fault::Range { field: self, value: text.to_owned() }),
            };
        }
        let words = self.words();
        if let Some(at) = words.iter().position(|word| word.eq_ignore_ascii_case(text)) {
            return Ok(least + at as u32);
        }
        let begins = |word: &&&str| {
            text.is_char_boundary(3)
                && text.len() > 3
                && word.eq_ignore_ascii_case(&text[..3])
                && text.bytes().all(|byte| byte.is_ascii_alphabetic())
        };
        match words.iter().find(begins) {
            Some(word) => Err(Fault::LongName { field: self, item: text.to_owned(), word }),
            None => Err(Fault::Item { field: self, item: text.to_owned() }),
        }
    }
}
