//! Errors in a pattern.

use super::field::Field;
use crate::limits::CRON_BYTES_MAX;
use std::fmt::{self, Display, Formatter};

/// Why a pattern is refused: the message names the field, its value and the allowed values.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct PatternError(Fault);

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("it has {0} bytes; at most {most} are allowed", most = CRON_BYTES_MAX)]
    TooLong(usize),
    #[error("it contains a line break or control character")]
    Control,
    #[error("5 fields expected, or 6 with seconds first; it has {0}")]
    Fields(usize),
    #[error("{} {value} is not within {} to {}", .field.name(), .field.bounds().0, .field.bounds().1)]
    Range { field: Field, value: String },
    /// `instead` is the range that was meant.
    #[error("{} {item} runs backwards; write {instead}", .field.name())]
    Backwards { field: Field, item: String, instead: String },
    /// Two commas, or one at an end.
    #[error("{} '{list}' has an empty item", .field.name())]
    EmptyItem { field: Field, list: String },
    #[error("{} step {step} is not within 1 to {}; for once {}", .field.name(), .field.bounds().1, once(*.field))]
    Step { field: Field, step: String },
    /// Nothing that the field takes.
    #[error("{} '{item}' is not one of {}", .field.name(), Takes(*.field))]
    Item { field: Field, item: String },
    #[error("{} '{item}': names have three letters: {word}", .field.name())]
    LongName { field: Field, item: String, word: &'static str },
    #[error("{} '{item}': a question mark is allowed in a day field only", .field.name())]
    Question { field: Field, item: String },
    /// `W` and `L` in a way that names no day.
    #[error("day-of-month '{item}': {text}")]
    Day { item: String, text: &'static str },
    #[error("day-of-week 'L': name the day, 5L is the last Friday of the month")]
    LastWithoutDay,
    #[error("day-of-week '{item}': after # write 1 to 5, or L for the last")]
    Nth { item: String },
    #[error("{} '{item}': a plus is allowed only in front of the whole day-of-week field", .field.name())]
    Plus { field: Field, item: String },
    /// Jenkins' sign for a value of one's own.
    #[error("{} 'H' is not supported: to spread schedules use SPREAD", .field.name())]
    Hash { field: Field },
    #[error("give the zone with TZ, after the pattern")]
    Zone,
    /// `@every`.
    #[error("write EVERY 5m")]
    Every,
    /// `@reboot`.
    #[error("use DELAY.SCHEDULE RUN when your program starts")]
    Reboot,
    /// Another word after `@`.
    #[error(
        "'{0}' is not one of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly"
    )]
    Nickname(String),
}

/// `an hour write 0`.
fn once(field: Field) -> String {
    let (span, value) = field.once();
    format!("a{} {span} write {value}", if span == "hour" { "n" } else { "" })
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
