//! The values of options: their types, reading and showing them.

use crate::error::Shown;
use crate::limits::PASSWORD_BYTES_MAX;
use crate::time::Written;

/// The value of one option, as checked against its [`OptionKind`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OptionValue {
    /// A count, bytes, seconds or ms, by the option's kind.
    Number(i64),
    /// A share of the machine's memory, 1 to 100.
    Percent(i64),
    Flag(bool),
    /// Anything else, arguments joined by a space.
    Text(String),
    /// One limit per class of clients: normal, replica, pubsub.
    OutputLimits([OutputLimit; 3]),
}

/// How much unread output a class of clients may have; 0 means no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OutputLimit {
    /// Above this the client is closed at once, bytes.
    pub hard: u64,
    /// Above this the client is closed when it lasts, bytes.
    pub soft: u64,
    /// How long it may last, s.
    pub soft_seconds: u64,
}

/// The type of an option.
#[derive(Clone, Copy, Debug)]
pub enum OptionKind {
    /// A whole number within bounds.
    Count(i64, i64),
    /// Bytes within bounds: `100mb`, `1gb`, `512`.
    Bytes(i64, i64),
    /// Bytes or a share of the machine's memory: `4gb`, `80%`; 0 for no limit.
    Memory,
    /// Bytes within bounds or a share of the machine's memory, which is never more than the last of these.
    Share(i64, i64, i64),
    /// Whole seconds within bounds, Redis's unit for this option; `5m` is understood too.
    Seconds(i64, i64),
    /// A duration within bounds, ms: `60s`, `1h30m`, `15d`.
    Span(i64, i64),
    YesNo,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One argument, taken as it is.
    Text,
    /// As [`OptionKind::Text`], but shown only when asked for.
    Secret,
    /// Permissions of a file in octal digits; 0 leaves them to the system.
    Mode,
    /// One of these words, or a folder's path that begins with /, so that no word that is written wrong is taken
    /// for one.
    WordOrFolder(&'static [&'static str]),
    /// The name of a folder, without where it lies.
    FolderName,
    /// Any number of arguments.
    Words,
    /// One of these values and, for any other, the reason why not.
    Only(&'static [&'static str], &'static str),
    /// Redis's `class hard soft seconds`, once or more.
    OutputLimits,
    /// Letters of [`events`](super::events).
    EventClasses,
}

/// Redis's text.
const NO_INTEGER: &str = "argument couldn't be parsed into an integer";

/// The names of the classes, in the order of [`OptionValue::OutputLimits`].
const CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

impl OptionKind {
    /// Reads an option's arguments. `old` is the value before, which a partial one adds to. The
    /// error says what is wrong and what would be right.
    pub fn read(self, args: &[String], old: Option<&OptionValue>) -> Result<OptionValue, String> {
        if let OptionKind::Words = self {
            return Ok(OptionValue::Text(args.join(" ")));
        }
        if let OptionKind::OutputLimits = self {
            return read_output_limits(args, old);
        }
        let [arg] = args else {
            return Err(format!("one value expected, got {}", args.len()));
        };
        let word = || arg.to_ascii_lowercase();
        match self {
            OptionKind::Count(min, max) => {
                let number = arg.parse().map_err(|_| NO_INTEGER.to_owned());
                within(arg, number, min, max, &|n| n.to_string())
            }
            OptionKind::Bytes(min, max) => {
                within(arg, read_bytes(arg), min, max, &|n| n.to_string())
            }
            OptionKind::Memory => read_memory(arg),
            OptionKind::Share(..) if arg.ends_with('%') => read_memory(arg),
            OptionKind::Share(min, max, _) => {
                within(arg, read_bytes(arg), min, max, &|n| n.to_string())
            }
            OptionKind::Seconds(min, max) => {
                within(arg, read_seconds(arg), min, max, &|n| n.to_string())
            }
            OptionKind::Span(min, max) => {
                let shown = |ms: i64| Written(ms.unsigned_abs()).to_string();
                within(arg, read_span(arg), min, max, &shown)
            }
            OptionKind::YesNo => match word().as_str() {
                "yes" => Ok(OptionValue::Flag(true)),
                "no" => Ok(OptionValue::Flag(false)),
                _ => Err("argument must be 'yes' or 'no'".to_owned()),
            },
            OptionKind::Word(words) => match words.iter().find(|w| **w == word()) {
                Some(word) => Ok(OptionValue::Text((*word).to_owned())),
                None => {
                    Err(format!("argument(s) must be one of the following: {}", words.join(", ")))
                }
            },
            OptionKind::Only(values, why) => match values.iter().find(|v| **v == word()) {
                Some(value) => Ok(OptionValue::Text((*value).to_owned())),
                None => Err(why.to_owned()),
            },
            OptionKind::Mode => match i64::from_str_radix(arg, 8) {
                Ok(mode @ 0..=0o777) => Ok(OptionValue::Number(mode)),
                Ok(_) => Err(format!("argument must be between 0 and 777 inclusive, it is {arg}")),
                Err(_) => Err("argument couldn't be parsed as an octal number".to_owned()),
            },
            OptionKind::Secret if arg.len() > PASSWORD_BYTES_MAX => {
                Err(format!("argument must have at most {PASSWORD_BYTES_MAX} bytes"))
            }
            OptionKind::Text | OptionKind::Secret => Ok(OptionValue::Text(arg.clone())),
            OptionKind::WordOrFolder(_) if arg.starts_with('/') => {
                Ok(OptionValue::Text(arg.clone()))
            }
            OptionKind::WordOrFolder(words) => match words.iter().find(|w| **w == word()) {
                Some(word) => Ok(OptionValue::Text((*word).to_owned())),
                None => Err(format!(
                    "argument must be one of the following: {}, or the path of a folder, which begins with /",
                    words.join(", ")
                )),
            },
            OptionKind::FolderName
                if matches!(arg.as_str(), "" | "." | "..") || arg.contains('/') =>
            {
                Err("can't be a path, just the name of a folder".to_owned())
            }
            OptionKind::FolderName => Ok(OptionValue::Text(arg.clone())),
            OptionKind::EventClasses => super::events::canonical(arg).map(OptionValue::Text),
            OptionKind::Words | OptionKind::OutputLimits => unreachable!("read above"),
        }
    }

    /// The value as CONFIG GET shows it; `machine_bytes` is what a share of the memory is of.
    pub fn show(self, value: &OptionValue, machine_bytes: u64) -> String {
        match (self, value) {
            (OptionKind::Span(..), OptionValue::Number(ms)) => {
                Written(ms.unsigned_abs()).to_string()
            }
            (OptionKind::Mode, OptionValue::Number(mode)) => format!("{mode:o}"),
            (_, OptionValue::Number(n)) => n.to_string(),
            (_, OptionValue::Percent(share)) => self.share(*share, machine_bytes).to_string(),
            (_, OptionValue::Flag(flag)) => if *flag { "yes" } else { "no" }.to_owned(),
            (_, OptionValue::Text(text)) => text.clone(),
            (_, OptionValue::OutputLimits(limits)) => {
                let shown = |(class, l): (&&str, &OutputLimit)| {
                    format!("{class} {} {} {}", l.hard, l.soft, l.soft_seconds)
                };
                CLASSES.iter().zip(limits).map(shown).collect::<Vec<_>>().join(" ")
            }
        }
    }

    /// So many percent of `machine_bytes`, within what the option takes.
    pub fn share(self, percent: i64, machine_bytes: u64) -> u64 {
        let bytes = machine_bytes / 100 * percent.unsigned_abs();
        match self {
            // Before the machine's memory is known.
            OptionKind::Share(_, _, most) if machine_bytes == 0 => most.unsigned_abs(),
            OptionKind::Share(min, _, most) => bytes.clamp(min.unsigned_abs(), most.unsigned_abs()),
            _ => bytes,
        }
    }

    /// The value as a configuration file states it.
    pub fn write(self, value: &OptionValue) -> String {
        match (self, value) {
            (_, OptionValue::Percent(share)) => format!("{share}%"),
            (
                OptionKind::Text
                | OptionKind::Secret
                | OptionKind::FolderName
                | OptionKind::WordOrFolder(_)
                | OptionKind::Only(..)
                | OptionKind::EventClasses,
                OptionValue::Text(text),
            ) => quoted(text),
            (OptionKind::Words, OptionValue::Text(text)) if text.is_empty() => "\"\"".to_owned(),
            _ => self.show(value, 0),
        }
    }

    /// The type in words, for the reference and `--help`.
    pub fn describe(self) -> String {
        match self {
            OptionKind::Count(min, i64::MAX) => format!("a number from {min}"),
            OptionKind::Count(min, max) => format!("a number, {min} to {max}"),
            OptionKind::Bytes(min, max) => {
                format!("bytes, {} to {}", short_bytes(min), short_bytes(max))
            }
            OptionKind::Memory => {
                "bytes or a share of the memory such as 80%; 0 for no limit".to_owned()
            }
            OptionKind::Share(min, max, most) => format!(
                "bytes, {} to {}, or a share of the memory such as 8%, at most {}",
                short_bytes(min),
                short_bytes(max),
                short_bytes(most)
            ),
            OptionKind::Seconds(min, max) => format!("seconds, {min} to {max}"),
            OptionKind::Span(min, max) => format!(
                "a duration, {} to {}",
                Written(min.unsigned_abs()),
                Written(max.unsigned_abs())
            ),
            OptionKind::YesNo => "yes or no".to_owned(),
            OptionKind::Word(words) => words.join(", "),
            OptionKind::Text | OptionKind::Secret => "text".to_owned(),
            OptionKind::Mode => "octal digits, 0 to 777".to_owned(),
            OptionKind::WordOrFolder(words) => format!("{}, or a folder's path", words.join(", ")),
            OptionKind::FolderName => "a folder's name".to_owned(),
            OptionKind::Words => "words".to_owned(),
            OptionKind::Only(values, _) => {
                let shown: Vec<String> = values.iter().map(|v| quoted(v)).collect();
                format!("{} only", shown.join(", "))
            }
            OptionKind::OutputLimits => {
                "class, hard limit, soft limit, seconds; repeated".to_owned()
            }
            OptionKind::EventClasses => "letters of `Ag$lshzxetdnKEJm`".to_owned(),
        }
    }
}

/// A text as one argument of a configuration line.
pub fn quoted(text: &str) -> String {
    let plain = !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'\'' | b'\\' | b'#'));
    if plain { text.to_owned() } else { format!("\"{}\"", text.as_bytes().escape_ascii()) }
}

/// The number that was read from `arg`, if it is in bounds. An error names them in either case.
fn within(
    arg: &str,
    number: Result<i64, String>,
    min: i64,
    max: i64,
    shown: &dyn Fn(i64) -> String,
) -> Result<OptionValue, String> {
    let bounds = || format!("between {} and {} inclusive", shown(min), shown(max));
    match number {
        Ok(number) if (min..=max).contains(&number) => Ok(OptionValue::Number(number)),
        Ok(number) => Err(format!("argument must be {}, it is {}", bounds(), shown(number))),
        Err(why) => Err(format!("{why}; {} is not {}", Shown::new(arg.as_bytes()), bounds())),
    }
}

/// `512`, `10k`, `10kb`, `1m`, `1mb`, `1g`, `1gb`, as in redis.conf: without `b` powers of 1,000.
fn read_bytes(arg: &str) -> Result<i64, String> {
    let lower = arg.to_ascii_lowercase();
    let digits = lower.bytes().take_while(u8::is_ascii_digit).count();
    let unit: i64 = match &lower[digits..] {
        "" | "b" => 1,
        "k" => 1_000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        "t" => 1_000_000_000_000,
        "tb" => 1 << 40,
        _ => return Err("argument must be a memory value".to_owned()),
    };
    let number = lower[..digits].parse::<i64>().ok().and_then(|n| n.checked_mul(unit));
    number.ok_or_else(|| "argument must be a memory value".to_owned())
}

fn read_memory(arg: &str) -> Result<OptionValue, String> {
    match arg.strip_suffix('%').map(str::parse) {
        Some(Ok(share @ 1..=100)) => Ok(OptionValue::Percent(share)),
        Some(_) => Err("argument must be between 1% and 100%, or bytes".to_owned()),
        None => read_bytes(arg).map(OptionValue::Number),
    }
}

fn read_seconds(arg: &str) -> Result<i64, String> {
    if let Ok(seconds) = arg.parse() {
        return Ok(seconds);
    }
    match read_span(arg) {
        Ok(ms) if ms % 1000 == 0 => Ok(ms / 1000),
        _ => Err(NO_INTEGER.to_owned()),
    }
}

/// A duration in ms: `1500`, or numbers with units, each once or more, such as `1h30m`.
fn read_span(arg: &str) -> Result<i64, String> {
    let wrong = || "argument must be a duration such as 500ms, 60s, 1h30m or 15d".to_owned();
    let (mut rest, mut total) = (arg, 0i64);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: i64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit = match rest[..letters].to_ascii_lowercase().as_str() {
            "" if digits == arg.len() => 1,
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            _ => return Err(wrong()),
        };
        rest = &rest[letters..];
        total = number.checked_mul(unit).and_then(|n| total.checked_add(n)).ok_or_else(wrong)?;
    }
    if arg.is_empty() { Err(wrong()) } else { Ok(total) }
}

/// Classes that are not named keep their limits. Each class takes four arguments, which may come
/// as one argument too.
fn read_output_limits(args: &[String], old: Option<&OptionValue>) -> Result<OptionValue, String> {
    let mut limits = match old {
        Some(OptionValue::OutputLimits(limits)) => *limits,
        _ => Default::default(),
    };
    let words: Vec<&str> = args.iter().flat_map(|a| a.split_ascii_whitespace()).collect();
    if words.is_empty() || !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".to_owned());
    }
    for four in words.chunks_exact(4) {
        let class = match four[0].to_ascii_lowercase().as_str() {
            "normal" => 0,
            "slave" | "replica" => 1,
            "pubsub" => 2,
            _ => return Err("Invalid client class specified in buffer limit configuration.".into()),
        };
        let bytes = |arg| read_bytes(arg).ok().and_then(|n| u64::try_from(n).ok());
        let (Some(hard), Some(soft), Ok(soft_seconds)) =
            (bytes(four[1]), bytes(four[2]), four[3].parse())
        else {
            return Err(
                "Error in hard, soft or soft_seconds setting in buffer limit configuration.".into(),
            );
        };
        limits[class] = OutputLimit { hard, soft, soft_seconds };
    }
    Ok(OptionValue::OutputLimits(limits))
}

fn short_bytes(bytes: i64) -> String {
    let units = [(1 << 40, "tb"), (1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb")];
    match units.into_iter().find(|(unit, _)| bytes != 0 && bytes % unit == 0) {
        Some((unit, name)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: OptionKind, text: &str) -> Result<OptionValue, String> {
        kind.read(&[text.to_owned()], None)
    }

    #[test]
    fn sizes() {
        let bytes = OptionKind::Bytes(0, i64::MAX);
        for (text, expected) in
            [("0", 0), ("1kb", 1024), ("1K", 1000), ("100mb", 100 << 20), ("2GB", 2 << 30)]
        {
            assert_eq!(read(bytes, text), Ok(OptionValue::Number(expected)), "{text}");
        }
        for text in ["", "mb", "1xb", "-1", "99999999999gb"] {
            assert!(read(bytes, text).is_err(), "{text}");
        }
    }

    #[test]
    fn spans() {
        let span = OptionKind::Span(0, i64::MAX);
        for (text, expected) in
            [("1500", 1500), ("500ms", 500), ("1h30m", 5_400_000), ("15d", 15 * 86_400_000)]
        {
            assert_eq!(read(span, text), Ok(OptionValue::Number(expected)), "{text}");
        }
        for text in ["", "h", "1h30", "1x", "-1s", "1.5s", "é"] {
            assert!(read(span, text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_word_that_is_written_wrong_is_no_folder() {
        let kind = OptionKind::WordOrFolder(&["auto", "system"]);
        for (text, taken) in [("AUTO", "auto"), ("/a b/Auto", "/a b/Auto"), ("/", "/")] {
            assert_eq!(read(kind, text), Ok(OptionValue::Text(taken.to_owned())), "{text}");
        }
        for text in ["atuo", "", "zones/new", "./zones"] {
            let why = read(kind, text).unwrap_err();
            assert!(why.contains("auto, system, or the path of a folder"), "{text}: {why}");
        }
        assert_eq!(kind.write(&OptionValue::Text("/a b".to_owned())), "\"/a b\"");
    }

    #[test]
    fn output_limits_keep_the_classes_not_named() {
        let old = read(OptionKind::OutputLimits, "slave 1mb 2 3").unwrap();
        let new = OptionKind::OutputLimits.read(&["pubsub 4 5 6".to_owned()], Some(&old)).unwrap();
        let shown = OptionKind::OutputLimits.show(&new, 0);
        assert_eq!(shown, "normal 0 0 0 slave 1048576 2 3 pubsub 4 5 6");
    }
}
