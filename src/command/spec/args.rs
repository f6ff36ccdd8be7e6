//! A cursor over the words of one command, with a reader for each kind of argument. Options are
//! read by the command's argument tree, so that no parser can accept a word that the tree does not
//! name.

use crate::calendar::Pattern;
use crate::command::read::duration;
use crate::command::read::moment;
use crate::command::read::moment::WhenError;
use crate::command::read::number;
use crate::command::read::number::Whole;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{CommandSpec, Group};
use crate::engine::model::group::GroupRate;
use crate::engine::model::meta::OwnMeta;
use crate::engine::model::policy::Backoff;
use crate::engine::model::request::{QueueName, Side, Wait, When};
use crate::engine::model::walk::Cursor;
use crate::error::{Error, Shown};
use crate::ids::{Db, Token};
use crate::limits::{
    CONFIG_PATTERNS_MAX, COUNT_MAX, DELAY_MS_MAX, GROUP_RATE_SPAN_MS_MAX, META_PAIRS_MAX,
    NAME_BYTES_MAX, OPTION_PATTERN_BYTES_MAX, PATTERN_BYTES_MAX, PRIORITY_MAX, RATE_MAX,
    SCHEDULE_INSTANT_MS_MAX, SCHEDULE_NAME_BYTES_MAX,
};
use crate::time::Written;

/// The words of one command, read from left to right.
#[derive(Debug)]
pub struct Args<'a> {
    spec: &'static CommandSpec,
    words: &'a [&'a [u8]],
    at: usize,
    db: Db,
    /// The options read so far, a bit for each in the order of the tree.
    seen: u64,
    option: Option<&'static Argument>,
}

impl<'a> Args<'a> {
    /// Begins after the name (and the subcommand's). `words` has passed the arity check.
    pub fn new(spec: &'static CommandSpec, words: &'a [&'a [u8]], db: Db) -> Args<'a> {
        let at = 1 + usize::from(spec.is_subcommand());
        Args { spec, words, at, db, seen: 0, option: None }
    }

    pub fn spec(&self) -> &'static CommandSpec {
        self.spec
    }

    pub fn db(&self) -> Db {
        self.db
    }

    pub fn left(&self) -> usize {
        self.words.len() - self.at
    }

    /// The next word, if there is one.
    pub fn peek(&self) -> Option<&'a [u8]> {
        self.words.get(self.at).copied()
    }

    /// The next word; `name` is what it is called when it is missing.
    pub fn word(&mut self, name: &str) -> Result<&'a [u8], Error> {
        let word = self.peek().ok_or_else(|| match self.option {
            Some(option @ Argument { token: Some(token), .. }) => {
                let shown = option.display.unwrap_or(option.name);
                let value = if name == *token { shown } else { name };
                Error::text(format!("ERR syntax error: {token} needs a value ({value})"))
            }
            _ => arity_error(self.spec),
        })?;
        self.at += 1;
        Ok(word)
    }

    /// A glob: as [`word`](Args::word), not longer than what it can match.
    pub fn pattern(&mut self, name: &str) -> Result<&'a [u8], Error> {
        let pattern = self.word(name)?;
        check_pattern(pattern, PATTERN_BYTES_MAX)?;
        Ok(pattern)
    }

    /// A word of 1 to `most` bytes.
    pub fn text(&mut self, name: &str, most: usize) -> Result<&'a [u8], Error> {
        let text = self.word(name)?;
        check_bytes(name, text, most)?;
        Ok(text)
    }

    /// The remaining words, except for the last `keep`.
    pub fn words_but(&mut self, keep: usize) -> &'a [&'a [u8]] {
        let end = (self.words.len() - keep).max(self.at);
        let words = &self.words[self.at..end];
        self.at = end;
        words
    }

    pub fn rest(&mut self) -> &'a [&'a [u8]] {
        self.words_but(0)
    }

    pub fn queue(&mut self) -> Result<QueueName<'a>, Error> {
        let name = self.word("queue")?;
        check_name("queue", name)?;
        Ok(QueueName { db: self.db, name })
    }

    /// The remaining queues, except for the last `keep` words.
    pub fn queues_but(&mut self, keep: usize) -> Result<&'a [&'a [u8]], Error> {
        let queues = self.words_but(keep);
        self.names(queues, "queue", NAME_BYTES_MAX)
    }

    pub fn counted_queues(&mut self) -> Result<&'a [&'a [u8]], Error> {
        let count = self.count("numqueues")?;
        self.queues_of(count)
    }

    pub fn queues_of(&mut self, count: u32) -> Result<&'a [&'a [u8]], Error> {
        let keep = self.keeping("numqueues", count)?;
        self.queues_but(keep)
    }

    pub fn counted_ids(&mut self) -> Result<&'a [&'a [u8]], Error> {
        let count = self.count("numids")?;
        let keep = self.keeping("numids", count)?;
        let ids = self.words_but(keep);
        self.names(ids, "id", NAME_BYTES_MAX)
    }

    /// How many words follow the next `count`.
    fn keeping(&self, name: &str, count: u32) -> Result<usize, Error> {
        let left = self.left();
        left.checked_sub(count as usize).ok_or_else(|| {
            Error::text(format!("ERR syntax error: {name} is {count}, but {left} arguments follow"))
        })
    }

    pub fn id(&mut self) -> Result<&'a [u8], Error> {
        let id = self.word("id")?;
        check_name("id", id)?;
        Ok(id)
    }

    /// The name of a group.
    pub fn group(&mut self) -> Result<&'a [u8], Error> {
        let name = self.word("group")?;
        check_name("group", name)?;
        Ok(name)
    }

    /// The name of a group, behind which nothing comes.
    pub fn last_group(&mut self) -> Result<&'a [u8], Error> {
        let name = self.group()?;
        match self.option()? {
            None => Ok(name),
            Some(_) => Err(self.unknown_option()),
        }
    }

    /// All words left as ids, at least one.
    pub fn ids(&mut self) -> Result<&'a [&'a [u8]], Error> {
        let ids = self.rest();
        self.names(ids, "id", NAME_BYTES_MAX)
    }

    pub fn schedule(&mut self) -> Result<&'a [u8], Error> {
        let name = self.word("name")?;
        check_bytes("name", name, SCHEDULE_NAME_BYTES_MAX)?;
        Ok(name)
    }

    /// All words left as names of schedules, at least one.
    pub fn schedules(&mut self) -> Result<&'a [&'a [u8]], Error> {
        let names = self.rest();
        self.names(names, "name", SCHEDULE_NAME_BYTES_MAX)
    }

    /// At least one, each of 1 to `most` bytes.
    fn names<'n>(
        &self,
        names: &'n [&'n [u8]],
        what: &str,
        most: usize,
    ) -> Result<&'n [&'n [u8]], Error> {
        if names.is_empty() {
            return Err(arity_error(self.spec));
        }
        names.iter().try_for_each(|name| check_bytes(what, name, most))?;
        Ok(names)
    }

    /// All words left as patterns of the names of options.
    pub fn option_patterns(&mut self) -> Result<&'a [&'a [u8]], Error> {
        let patterns = self.rest();
        let count = patterns.len();
        if count > CONFIG_PATTERNS_MAX {
            return Err(Error::text(format!(
                "ERR {count} patterns; at most {CONFIG_PATTERNS_MAX} are allowed"
            )));
        }
        patterns.iter().try_for_each(|one| check_pattern(one, OPTION_PATTERN_BYTES_MAX))?;
        Ok(patterns)
    }

    /// How many pairs, and then as many names and values by turns.
    pub fn meta(&mut self) -> Result<OwnMeta, Error> {
        let count = self.word("numpairs")?;
        let pairs = match number::unsigned(count) {
            Some(pairs) if (1..=META_PAIRS_MAX as u64).contains(&pairs) => pairs as usize,
            Some(pairs) => {
                return Err(Error::text(format!(
                    "ERR META names {pairs} pairs; 1 to {META_PAIRS_MAX} are allowed"
                )));
            }
            None => {
                let shown = Shown::new(count);
                return Err(Error::text(format!("ERR META {shown} is not a number of pairs")));
            }
        };
        let words = 2 * pairs;
        let Some(keep) = self.left().checked_sub(words) else {
            return Err(Error::text(format!(
                "ERR syntax error: META {pairs} needs {words} words, a name and a value for each pair"
            )));
        };
        OwnMeta::of(self.words_but(keep))
    }

    /// A whole number from `least` to `most`, leading zeros allowed.
    pub fn integer(&mut self, name: &str, least: u64, most: u64) -> Result<u64, Error> {
        let word = self.word(name)?;
        number::unsigned(word).filter(|value| (least..=most).contains(value)).ok_or_else(|| {
            let shown = Shown::new(word);
            Error::text(format!("ERR {name} {shown} is not an integer from {least} to {most}"))
        })
    }

    /// A COUNT or numqueues: 1 to 10,000.
    pub fn count(&mut self, name: &str) -> Result<u32, Error> {
        self.integer(name, 1, COUNT_MAX).map(|count| count as u32)
    }

    /// A priority: 0 (first) to 9.
    pub fn priority(&mut self) -> Result<u8, Error> {
        self.integer("priority", 0, u64::from(PRIORITY_MAX)).map(|priority| priority as u8)
    }

    /// A fencing token: decimal digits of at most 63 bits.
    pub fn token(&mut self) -> Result<Token, Error> {
        let word = self.word("token")?;
        let token = number::unsigned(word).filter(|token| *token <= i64::MAX as u64);
        token.map(Token).ok_or_else(|| {
            let shown = Shown::new(word);
            let max = i64::MAX;
            Error::text(format!("ERR token {shown} is not an integer from 0 to {max}"))
        })
    }

    /// A duration with or without a sign, in ms.
    pub fn shift(&mut self, name: &str) -> Result<i64, Error> {
        let word = self.word(name)?;
        let unsigned = word.strip_prefix(b"+").or(word.strip_prefix(b"-")).unwrap_or(word);
        match duration::parse(unsigned) {
            Some(Whole::Fits(ms @ 1..=DELAY_MS_MAX)) if word.starts_with(b"-") => Ok(-(ms as i64)),
            Some(Whole::Fits(ms @ 1..=DELAY_MS_MAX)) => Ok(ms as i64),
            Some(_) => {
                let (shown, most) = (Shown::new(word), Written(DELAY_MS_MAX));
                Err(Error::text(format!("ERR {name} {shown} is not from 1ms to {most}")))
            }
            None => Err(Error::text(format!(
                "ERR {name} {} is not a duration such as +1h or -10m",
                Shown::new(word)
            ))),
        }
    }

    /// A duration in ms, from `least` to 365000d.
    pub fn duration(&mut self, name: &str, least: u64) -> Result<u64, Error> {
        self.duration_to(name, least, DELAY_MS_MAX)
    }

    /// A duration in ms, from `least` to `most`.
    pub fn duration_to(&mut self, name: &str, least: u64, most: u64) -> Result<u64, Error> {
        let word = self.word(name)?;
        let shown = Shown::new(word);
        let (shortest, longest) = (Written(least), Written(most));
        match duration::parse(word) {
            Some(Whole::Fits(ms)) if ms < least => Err(Error::text(format!(
                "ERR {name} {shown} is too short; the minimum is {shortest}"
            ))),
            Some(Whole::Fits(ms)) if ms <= most => Ok(ms),
            Some(_) => Err(Error::text(format!(
                "ERR {name} {shown} is too long; the maximum is {longest}"
            ))),
            None if word.first() == Some(&b'-') => Err(Error::text(format!(
                "ERR {name} {shown} is negative or malformed; the minimum is {shortest}"
            ))),
            None => Err(Error::text(format!(
                "ERR {name} {shown} is not a duration such as 500ms, 30s, 1h30m or 15d"
            ))),
        }
    }

    /// Deliveries in a second, or in a span named behind a slash.
    pub fn rate(&mut self) -> Result<GroupRate, Error> {
        let word = self.word("rate")?;
        let mut parts = word.splitn(2, |byte| *byte == b'/');
        let count = parts.next().and_then(number::unsigned).and_then(|count| count.try_into().ok());
        let span_ms = parts.next().map(|span| match duration::parse(span) {
            Some(Whole::Fits(ms)) => u32::try_from(ms).ok(),
            _ => None,
        });
        let span_ms = span_ms.unwrap_or(Some(GroupRate::NONE.span_ms));
        let rate = count.zip(span_ms).map(|(count, span_ms)| GroupRate { count, span_ms });
        rate.filter(|rate| rate.holds() && (rate.count > 0 || !word.contains(&b'/'))).ok_or_else(
            || {
                let shown = Shown::new(word);
                let least = Written(GroupRate::NONE.span_ms.into());
                let most = Written(GROUP_RATE_SPAN_MS_MAX);
                Error::text(format!(
                    "ERR group-rate {shown} is not n, deliveries in a second, or n/span, such as 100/1m, with n from 1 \
                     to {RATE_MAX} and a span from {least} to {most}; 0 is no limit"
                ))
            },
        )
    }

    /// When a job is to fall due. `max-delay` is the engine's to check.
    pub fn when(&mut self) -> Result<When, Error> {
        let word = self.word("when")?;
        // After an option, such as IN, the option's word is the one that the user knows.
        let name = self.option.and_then(|option| option.token).unwrap_or("when");
        moment::parse(word).map_err(|error| {
            let shown = Shown::new(word);
            let most = Written(DELAY_MS_MAX);
            Error::text(match error {
                WhenError::Negative => format!("ERR {name} {shown} is negative; the minimum is 0"),
                WhenError::TooLarge => {
                    format!("ERR {name} {shown} is too far away; max-delay can be at most {most}")
                }
                WhenError::Seconds(ms) => seconds_given(name, &shown, ms),
                WhenError::TimeOfDay => format!(
                    "ERR {name} {shown} is not a duration; an absolute time needs @ and unix ms, or a \
                     date, time and offset such as 2030-01-31T12:30:00Z"
                ),
                WhenError::OutOfRange(wrong) => format!("ERR {name} {shown}: {wrong}"),
                WhenError::Malformed => format!(
                    "ERR {name} {shown} is neither a duration such as 30s or 1h30m nor an absolute \
                     time, @<unix-ms> or 2030-01-31T12:30:00Z"
                ),
            })
        })
    }

    /// An absolute time, the value of an option, as unix ms.
    pub fn instant(&mut self) -> Result<u64, Error> {
        let word = self.word("instant")?;
        let name = self.option.and_then(|option| option.token).unwrap_or("instant");
        let (shown, forms) = (
            Shown::new(word),
            "@<unix-ms> or a date, time and offset such as 2030-01-31T12:30:00Z",
        );
        Err(Error::text(match moment::parse(word) {
            Ok(When::At(ms)) if ms <= SCHEDULE_INSTANT_MS_MAX => return Ok(ms),
            Ok(When::In(_)) => format!(
                "ERR {name} {shown} is relative, so it would mean something else at each {}; expected {forms}",
                self.spec.word().to_uppercase()
            ),
            Ok(When::At(_)) | Err(WhenError::TooLarge) => {
                format!(
                    "ERR {name} {shown} is too far away; the last is @{SCHEDULE_INSTANT_MS_MAX}"
                )
            }
            Err(WhenError::Seconds(ms)) => seconds_given(name, &shown, ms),
            Err(WhenError::OutOfRange(wrong)) => format!("ERR {name} {shown}: {wrong}"),
            Err(WhenError::Negative | WhenError::TimeOfDay | WhenError::Malformed) => {
                format!("ERR {name} {shown} is not an absolute time; expected {forms}")
            }
        }))
    }

    pub fn cron(&mut self) -> Result<Box<Pattern>, Error> {
        let word = self.word("pattern")?;
        match Pattern::parse(word) {
            Ok(pattern) => Ok(Box::new(pattern)),
            Err(wrong) => Err(Error::text(format!("ERR cron {}: {wrong}", Shown::new(word)))),
        }
    }

    /// Seconds as BLPOP reads them, or NOWAIT.
    pub fn timeout(&mut self) -> Result<Wait, Error> {
        let word = self.word("timeout")?;
        if word.eq_ignore_ascii_case(b"NOWAIT") { Ok(Wait::No) } else { wait(word) }
    }

    /// Seconds as BLPOP reads them.
    pub fn seconds(&mut self) -> Result<Wait, Error> {
        wait(self.word("timeout")?)
    }

    /// A whole number of any size that fits, with Redis's error text.
    pub fn signed(&mut self, name: &str) -> Result<i64, Error> {
        let value = number::signed(self.word(name)?);
        value.ok_or_else(|| Error::text("ERR value is not an integer or out of range"))
    }

    /// How long to wait, ms: with Redis's error texts, and 0 for no limit.
    pub fn wait_ms(&mut self) -> Result<u64, Error> {
        match number::signed(self.word("timeout")?) {
            Some(ms @ 0..) => Ok(ms.unsigned_abs()),
            Some(_) => Err(Error::text("ERR timeout is negative")),
            None => Err(Error::text("ERR timeout is not an integer or out of range")),
        }
    }

    /// A side of a list, LEFT or RIGHT.
    pub fn side(&mut self) -> Result<Side, Error> {
        let Some(word) = self.peek() else {
            return Err(Error::text("ERR syntax error: LEFT or RIGHT is missing"));
        };
        self.at += 1;
        [Side::Left, Side::Right]
            .into_iter()
            .find(|side| word.eq_ignore_ascii_case(side.word().as_bytes()))
            .ok_or_else(|| {
                let shown = Shown::new(word);
                Error::text(format!("ERR syntax error: {shown} is neither LEFT nor RIGHT"))
            })
    }

    pub fn backoff(&mut self) -> Result<Backoff, Error> {
        let word = self.word("backoff")?;
        duration::parse_backoff(word, DELAY_MS_MAX)
            .map_err(|why| Error::text(format!("ERR backoff {}: {why}", Shown::new(word))))
    }

    pub fn cursor(&mut self) -> Result<Cursor, Error> {
        let cursor = number::unsigned(self.word("cursor")?).map(Cursor);
        cursor.ok_or_else(|| Error::text("ERR invalid cursor"))
    }

    /// The next option's token, none at the end. A word that is no option, one that was there
    /// before, and one that excludes another are syntax errors. The option's value, if it has one,
    /// is read by the caller.
    pub fn option(&mut self) -> Result<Option<&'static str>, Error> {
        let Some(word) = self.peek() else { return Ok(None) };
        let mut bit = 1;
        let Some(found) = find(self.spec.arguments, word, &mut bit) else {
            return Err(self.unknown_option());
        };
        let token = found.argument.token.unwrap_or_default();
        if self.seen & found.bit != 0 {
            return Err(Error::text(format!("ERR syntax error: {token} is given twice")));
        }
        if self.seen & found.excludes != 0 {
            let words = exclusive_words(self.spec.arguments, found.argument);
            return Err(Error::text(format!("ERR syntax error: only one of {words} can be given")));
        }
        self.seen |= found.bit;
        self.option = Some(found.argument);
        self.at += 1;
        Ok(Some(token))
    }

    /// Whether the command's only option is there, a word without a value; nothing comes behind it.
    pub fn flag(&mut self) -> Result<bool, Error> {
        let is_there = self.option()?.is_some();
        // Another word is no option, or the same again.
        self.option().map(|_| is_there)
    }

    /// The value of an option that takes one of several words: its token.
    pub fn choice(&mut self) -> Result<&'static str, Error> {
        let members = self.option.map_or(&[][..], |option| option.arguments);
        let name = self.option.map_or("", |option| option.name);
        let word = self.word(name)?;
        let token = members
            .iter()
            .filter_map(|member| member.token)
            .find(|token| word.eq_ignore_ascii_case(token.as_bytes()));
        token.ok_or_else(|| {
            let words: Vec<&str> = members.iter().filter_map(|member| member.token).collect();
            let (shown, words) = (Shown::new(word), words.join(", "));
            Error::text(format!("ERR syntax error: {name} {shown} is not one of {words}"))
        })
    }

    /// The error for the next word where only an option could stand.
    pub fn unknown_option(&self) -> Error {
        let word = self.peek().unwrap_or_default();
        Error::text(format!("ERR syntax error: unknown option {}", Shown::new(word)))
    }

    /// The end of the command; a word too many is a wrong number of arguments.
    pub fn end_or_arity(&self) -> Result<(), Error> {
        if self.left() == 0 { Ok(()) } else { Err(arity_error(self.spec)) }
    }

    /// The end of the command; a word too many is a syntax error.
    pub fn end(&self) -> Result<(), Error> {
        if self.left() == 0 { Ok(()) } else { Err(self.unknown_option()) }
    }
}

/// Redis's text, which clients match on; after it the correct syntax, for commands that Redis does not have.
pub fn arity_error(spec: &CommandSpec) -> Error {
    let usage = match spec.group {
        Group::Delay if spec.subcommands.is_empty() => format!("; usage: {}", spec.syntax()),
        Group::Delay => format!("; try {} HELP", spec.written()),
        _ => String::new(),
    };
    Error::text(format!("ERR wrong number of arguments for '{}' command{usage}", spec.name))
}

/// Seconds stand where ms belong; `ms` is what was meant.
fn seconds_given(name: &str, shown: &Shown, ms: u64) -> String {
    format!(
        "ERR {name} {shown} is before 1973, so it can only be unix seconds; @ takes unix milliseconds, which \
         would be @{ms}"
    )
}

fn wait(word: &[u8]) -> Result<Wait, Error> {
    match number::timeout_ms(word) {
        Ok(0) => Ok(Wait::Forever),
        Ok(ms) => Ok(Wait::For(ms)),
        Err(error) => Err(Error::text(error.to_string())),
    }
}

fn check_pattern(pattern: &[u8], bytes_max: usize) -> Result<(), Error> {
    let bytes = pattern.len();
    if bytes <= bytes_max {
        return Ok(());
    }
    Err(Error::text(format!("ERR the pattern has {bytes} bytes; at most {bytes_max} are allowed")))
}

fn check_name(what: &str, name: &[u8]) -> Result<(), Error> {
    check_bytes(what, name, NAME_BYTES_MAX)
}

fn check_bytes(what: &str, name: &[u8], most: usize) -> Result<(), Error> {
    if (1..=most).contains(&name.len()) {
        return Ok(());
    }
    let (shown, bytes) = (Shown::new(name), name.len());
    Err(Error::text(format!("ERR {what} {shown} has {bytes} bytes; it must have 1 to {most}")))
}

struct FoundArgument {
    argument: &'static Argument,
    bit: u64,
    excludes: u64,
}

/// Looks for an option in the tree; `bit` is the next option's, in the order of the tree.
fn find(arguments: &'static [Argument], word: &[u8], bit: &mut u64) -> Option<FoundArgument> {
    for argument in arguments {
        let first = *bit;
        if let Some(token) = argument.token {
            if word.eq_ignore_ascii_case(token.as_bytes()) {
                return Some(FoundArgument { argument, bit: first, excludes: 0 });
            }
            *bit <<= 1;
            continue;
        }
        let choice = argument.kind == ArgumentKind::OneOf && !argument.multiple;
        for member in argument.arguments {
            let start = *bit;
            if let Some(mut inside) = find(std::slice::from_ref(member), word, bit) {
                if choice {
                    // All options of the other members; those of its own go with it.
                    let mut end = start;
                    count(std::slice::from_ref(member), &mut end);
                    let own = end - start;
                    let mut end = first;
                    count(argument.arguments, &mut end);
                    inside.excludes |= (end - first) & !own;
                }
                return Some(inside);
            }
        }
    }
    None
}

/// Moves `bit` past all options of `arguments`.
fn count(arguments: &[Argument], bit: &mut u64) {
    for argument in arguments {
        match argument.token {
            Some(_) => *bit <<= 1,
            None => count(argument.arguments, bit),
        }
    }
}

/// The words by which the members of the choice begin that `argument` belongs to.
fn exclusive_words(arguments: &'static [Argument], argument: &Argument) -> String {
    for group in arguments.iter().filter(|group| group.token.is_none()) {
        if group.kind == ArgumentKind::OneOf && holds(group.arguments, argument) {
            let words: Vec<&str> = group.arguments.iter().filter_map(first_word).collect();
            return words.join(", ");
        }
        let words = exclusive_words(group.arguments, argument);
        if !words.is_empty() {
            return words;
        }
    }
    String::new()
}

fn holds(arguments: &'static [Argument], argument: &Argument) -> bool {
    arguments.iter().any(|one| std::ptr::eq(one, argument) || holds(one.arguments, argument))
}

fn first_word(member: &Argument) -> Option<&'static str> {
    member.token.or_else(|| member.arguments.first().and_then(first_word))
}
