//! Reading a pattern.

use super::Pattern;
use super::days::{MonthDays, WeekDays};
use super::error::Fault;
use super::field::Field;
use crate::limits::CRON_BYTES_MAX;

/// The meaning of the words after `@`.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// Names of zones without a slash that are written after patterns, and are not days of the week.
const ZONES: [&str; 24] = [
    "UTC", "GMT", "Z", "CET", "CEST", "EET", "EEST", "WET", "WEST", "MET", "MSK", "BST", "IST",
    "JST", "EST", "EDT", "CST", "CDT", "MST", "MDT", "PST", "PDT", "HST", "LOCAL",
];

/// As [`Pattern::parse`].
pub(super) fn parse(text: &[u8]) -> Result<Pattern, Fault> {
    if text.len() > CRON_BYTES_MAX {
        return Err(Fault::TooLong(text.len()));
    }
    // Invalid UTF-8 matches no field, and the field's error reports it.
    let text = String::from_utf8_lossy(text);
    if text.chars().any(|c| c.is_control() && c != '\t') {
        return Err(Fault::Control);
    }
    let fields: Vec<&str> = text.split([' ', '\t']).filter(|field| !field.is_empty()).collect();
    let written = fields.join(" ").into_boxed_str();
    if fields.first().is_some_and(|first| first.starts_with('@')) {
        let expanded = nickname(&fields)?;
        return Ok(Pattern { text: written, ..of_fields(expanded.split(' ').collect())? });
    }
    if names_zone(&fields) {
        return Err(Fault::Zone);
    }
    Ok(Pattern { text: written, ..of_fields(fields)? })
}

fn nickname(fields: &[&str]) -> Result<&'static str, Fault> {
    let word = fields[0];
    if word.eq_ignore_ascii_case("@every") {
        return Err(Fault::Every);
    }
    if word.eq_ignore_ascii_case("@reboot") {
        return Err(Fault::Reboot);
    }
    let known = NICKNAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
    match (known, fields) {
        (Some((_, pattern)), [_]) => Ok(pattern),
        _ => Err(Fault::Nickname(fields.join(" "))),
    }
}

/// Whether a zone is given before the pattern, as in a crontab, or after it.
fn names_zone(fields: &[&str]) -> bool {
    let in_front = fields.first().is_some_and(|first| {
        let upper = first.to_ascii_uppercase();
        upper.starts_with("TZ=") || upper.starts_with("CRON_TZ=")
    });
    let behind = fields.len() > 5
        && fields.last().is_some_and(|last| {
            let is_name = |part: &str| {
                part.len() > 2
                    && part.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_')
            };
            ZONES.iter().any(|zone| zone.eq_ignore_ascii_case(last))
                || (last.contains('/') && last.split('/').all(is_name))
        });
    in_front || behind
}

fn of_fields(fields: Vec<&str>) -> Result<Pattern, Fault> {
    let (second, rest) = match fields.as_slice() {
        rest @ [_, _, _, _, _] => ("0", rest),
        [second, rest @ ..] if rest.len() == 5 => (*second, rest),
        _ => return Err(Fault::Fields(fields.len())),
    };
    let starred = [second, rest[0], rest[1]].iter().any(|field| field.starts_with('*'));
    Ok(Pattern {
        text: Box::default(),
        seconds: plain(Field::Second, second)?,
        minutes: plain(Field::Minute, rest[0])?,
        hours: plain(Field::Hour, rest[1])? as u32,
        month_days: month_days(rest[2])?,
        months: plain(Field::Month, rest[3])? as u16,
        week_days: week_days(rest[4])?,
        elapsed: starred,
    })
}

/// The items of a list; none of them is empty.
fn items(field: Field, list: &str) -> Result<impl Iterator<Item = &str>, Fault> {
    if list.split(',').any(str::is_empty) {
        return Err(Fault::EmptyItem { field, list: list.to_owned() });
    }
    Ok(list.split(','))
}

/// A field that has values, ranges and steps alone, as a set.
fn plain(field: Field, list: &str) -> Result<u64, Fault> {
    let mut set = 0;
    for item in items(field, list)? {
        set |= span(field, item)?;
    }
    Ok(set)
}

fn month_days(list: &str) -> Result<MonthDays, Fault> {
    let field = Field::MonthDay;
    let mut days = MonthDays { any: is_any(list), ..MonthDays::default() };
    for item in items(field, list)? {
        let upper = item.to_ascii_uppercase();
        let wrong = |text| Err(Fault::Day { item: item.to_owned(), text });
        match upper.as_str() {
            "L" => days.last = true,
            "LW" => days.last_weekday = true,
            "W" => return wrong("name the day, 15W is the weekday nearest to the 15th"),
            "WL" => return wrong("the last weekday of the month is LW"),
            _ if upper.starts_with("L-") => {
                return wrong(
                    "days counted from the end of the month are not supported; L is the last one",
                );
            }
            _ => match upper.strip_suffix('W') {
                Some(day) if day.bytes().all(|byte| byte.is_ascii_digit()) => {
                    days.nearest |= 1 << field.value(day)?;
                }
                _ => days.days |= span(field, item)? as u32,
            },
        }
    }
    Ok(days)
}

fn week_days(list: &str) -> Result<WeekDays, Fault> {
    let field = Field::WeekDay;
    let (both, list) = match list.strip_prefix('+') {
        Some(rest) => (true, rest),
        None => (false, list),
    };
    let mut days = WeekDays { any: is_any(list), both, ..WeekDays::default() };
    // Sunday is 0 and 7.
    let bit = |day: u32| 1u8 << (day % 7);
    for item in items(field, list)? {
        if item.eq_ignore_ascii_case("L") {
            return Err(Fault::LastWithoutDay);
        }
        if let Some((day, nth)) = item.split_once('#') {
            let day = bit(field.value(day)?);
            match nth {
                "1" | "2" | "3" | "4" | "5" => {
                    days.nth[usize::from(nth.as_bytes()[0] - b'1')] |= day
                }
                "L" | "l" => days.last |= day,
                _ => return Err(Fault::Nth { item: item.to_owned() }),
            }
            continue;
        }
        let last = item.strip_suffix(['L', 'l']).map(|day| field.value(day));
        if let Some(Ok(day)) = last {
            days.last |= bit(day);
            continue;
        }
        let set = span(field, item)?;
        days.days |= (set & 0x7f) as u8 | (set >> 7) as u8;
    }
    Ok(days)
}

/// Whether a field for days says nothing.
fn is_any(list: &str) -> bool {
    matches!(list, "*" | "?")
}

/// One value, a range or a star, with or without a step, as a set.
fn span(field: Field, item: &str) -> Result<u64, Fault> {
    let wrong = || Fault::Item { field, item: item.to_owned() };
    match item {
        "?" if field.is_days() => return span(field, "*"),
        _ if item.starts_with('?') => {
            return Err(Fault::Question { field, item: item.to_owned() });
        }
        _ if item.contains('+') => {
            return Err(Fault::Plus { field, item: item.to_owned() });
        }
        "H" | "h" => return Err(Fault::Hash { field }),
        _ if item.starts_with("H(") || item.starts_with("H/") => return Err(Fault::Hash { field }),
        _ => {}
    }
    let (range, step) = match item.split_once('/') {
        Some((range, step)) => (range, Some(step)),
        None => (item, None),
    };
    let (least, end) = (field.bounds().0, field.end());
    let (from, to) = match (range, range.split_once('-')) {
        ("*", _) => (least, end),
        (_, Some((from, to))) if !from.is_empty() && !to.contains('-') => {
            bounds_of(field, range, from, to)?
        }
        (_, Some(_)) => return Err(wrong()),
        ("", None) => return Err(wrong()),
        (value, None) => {
            let value = field.value(value)?;
            (value, if step.is_some() { end.max(value) } else { value })
        }
    };
    let step = match step {
        None => 1,
        Some(step) if step.is_empty() || !step.bytes().all(|byte| byte.is_ascii_digit()) => {
            return Err(wrong());
        }
        Some(step) => match step.parse() {
            Ok(number) if (1..=field.bounds().1).contains(&number) => number,
            _ => return Err(Fault::Step { field, step: step.to_owned() }),
        },
    };
    Ok((from..=to).step_by(step as usize).fold(0, |set, value| set | 1 << value))
}

/// The two ends of a range.
fn bounds_of(field: Field, range: &str, from: &str, to: &str) -> Result<(u32, u32), Fault> {
    let is_word = |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic());
    let (first, mut last) = (field.value(from)?, field.value(to)?);
    if field == Field::WeekDay && last == 0 && first > 0 && is_word(to) {
        // The week of `SAT-SUN` ends with Sunday.
        last = 7;
    }
    if first <= last {
        return Ok((first, last));
    }
    let (least, end) = (field.bounds().0, field.end());
    let words = is_word(from) && is_word(to);
    let piece = |a: u32, b: u32| match a == b {
        true => field.show(a, words),
        false => format!("{}-{}", field.show(a, words), field.show(b, words)),
    };
    let instead = match (field, first, last) {
        // Sunday by its other number.
        (Field::WeekDay, 7, _) => piece(0, last),
        (Field::WeekDay, _, 0) => piece(first, 7),
        _ => format!("{},{}", piece(first, end), piece(least, last)),
    };
    Err(Fault::Backwards { field, item: range.to_owned(), instead })
}
