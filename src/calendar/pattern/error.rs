//! Errors in a pattern.

use super::field::Field;
use crate::limits::CRON_BYTES_MAX;
use std::fmt::{self, Display, Formatter};

/// Why a pattern is refused: the message names the field, its value and the allowed values.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct PatternError(Fault);

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// More than [`CRON_BYTES_MAX`] bytes.
    TooLong(usize),
    /// A line break, or another control character.
    Control,
    /// Neither five fields nor six.
    Fields(usize),
    /// A value that is out of the field's range.
    Range { field: Field, value: String },
    /// A range whose end comes before its beginning; `instead` is the range that was meant.
    Backwards { field: Field, item: String, instead: String },
    /// Two commas, or one at an end.
    EmptyItem { field: Field, list: String },
    /// A step that is out of range.
    Step { field: Field, step: String },
    /// Nothing that the field takes.
    Item { field: Field, item: String },
    /// A word with more than three letters.
    LongName { field: Field, item: String, word: &'static str },
    /// A question mark where no days are named.
    Question { field: Field, item: String },
    /// `W` and `L` in a way that names no day.
    Day { item: String, text: &'static str },
    /// `L` for a day of the week without the day.
    LastWithoutDay,
    /// `#` without 1 to 5 or L after it.
    Nth { item: String },
    /// `+` elsewhere than in front of the days of the week.
    Plus { field: Field, item: String },
    /// Jenkins' sign for a value of one's own.
    Hash { field: Field },
    /// A zone within the pattern.
    Zone,
    /// `@every`.
    Every,
    /// `@reboot`.
    Reboot,
    /// Another word after `@`.
    Nickname(String),
}

struct Takes(Field);

impl Display for Takes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (least, most) = self.0.bounds();
        write!(f, "{least} to {most}")?;
        if let [first, .., last] = self.0.words() {
            write!(f, " or {first} to {last}")?;
        }
        f.write_str(", ranges such as ")?;
        match self.0 {
            Field::WeekDay => f.write_str("MON-FRI, steps such as */2, 5L, 5#2"),
            Field::MonthDay => f.write_str("1-15, steps such as */2, L, LW, 15W"),
            Field::Month => f.write_str("JAN-MAR, steps such as */3"),
            _ => f.write_str("1-5, steps such as */5"),
        }
    }
}

impl From<Fault> for PatternError {
    fn from(fault: Fault) -> PatternError {
        PatternError(fault)
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        use Fault as E;
        match self {
            E::TooLong(bytes) => {
                write!(f, "it has {bytes} bytes; at most {CRON_BYTES_MAX} are allowed")
            }
            E::Control => f.write_str("it contains a line break or control character"),
            E::Fields(count) => {
                write!(f, "5 fields expected, or 6 with seconds first; it has {count}")
            }
            E::Range { field, value } => {
                let (least, most) = field.bounds();
                write!(f, "{} {value} is not within {least} to {most}", field.name())
            }
            E::Backwards { field, item, instead } => {
                write!(f, "{} {item} runs backwards; write {instead}", field.name())
            }
            E::EmptyItem { field, list } => {
                write!(f, "{} '{list}' has an empty item", field.name())
            }
            E::Step { field, step } => {
                let (span, value) = field.once();
                let (name, most) = (field.name(), field.bounds().1);
                write!(f, "{name} step {step} is not within 1 to {most}; ")?;
                write!(
                    f,
                    "for once a{} {span} write {value}",
                    if span == "hour" { "n" } else { "" }
                )
            }
            E::Item { field, item } => {
                write!(f, "{} '{item}' is not one of {}", field.name(), Takes(*field))
            }
            E::LongName { field, item, word } => {
                write!(f, "{} '{item}': names have three letters: {word}", field.name())
            }
            E::Question { field, item } => {
                let name = field.name();
                write!(f, "{name} '{item}': a question mark is allowed in a day field only")
            }
            E::Day { item, text } => write!(f, "day-of-month '{item}': {text}"),
            E::LastWithoutDay => {
                f.write_str("day-of-week 'L': name the day, 5L is the last Friday of the month")
            }
            E::Nth { item } => {
                write!(f, "day-of-week '{item}': after # write 1 to 5, or L for the last")
            }
            E::Plus { field, item } => {
                let text = "a plus is allowed only in front of the whole day-of-week field";
                write!(f, "{} '{item}': {text}", field.name())
            }
            E::Hash { field } => {
                write!(f, "{} 'H' is not supported: to spread schedules use SPREAD", field.name())
            }
            E::Zone => f.write_str("give the zone with TZ, after the pattern"),
            E::Every => f.write_str("write EVERY 5m"),
            E::Reboot => f.write_str("use DELAY.SCHEDULE RUN when your program starts"),
            E::Nickname(word) => {
                let known = "@yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly";
                write!(f, "'{word}' is not one of {known}")
            }
        }
    }
}
