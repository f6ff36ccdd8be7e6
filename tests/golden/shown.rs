//! Replies as lines for people, as redis-cli prints them; what does not fit there is said differently, so
//! that two replies which differ are shown differently.
//!
//! ```text
//! "mail"                       (integer) -1      OK      (error) ERR no      (nil)
//! (nil array)                  the nil that RESP2 has for arrays; RESP3 has one for all
//! 1) "mail"  2) (integer) 7    elements that fit on one line share it
//! 1# "id" => "x"               a map; 1~ a set, 1> a push
//! txt:# Clients                text of RESP3, without the \r\n of its lines
//! ```
//!
//! On the wire the same is `$4 mail`, `:-1`: a header and its bytes share a line, and what is inside an
//! aggregate is indented.

/// More equal bytes, or equal lines, than this in a row are counted instead of shown.
const RUN_MAX: usize = 40;
const LINES_MAX: usize = 4;

/// Elements share a line up to so many characters.
const WIDTH: usize = 124;

/// INFO's lines that say something about the machine and the loop, and nothing that users rely on.
const MACHINE_FIELDS: [&str; 13] = [
    "delayd_version",
    "os",
    "arch_bits",
    "process_id",
    "executable",
    "used_memory_rss",
    "used_memory_rss_human",
    "mem_fragmentation_ratio",
    "used_cpu_sys",
    "used_cpu_user",
    "used_cpu_sys_main_thread",
    "used_cpu_user_main_thread",
    "turns",
];

/// A reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// A line that begins with this mark: a status, an error, a number and what else RESP3 has.
    Line(u8, Vec<u8>),
    Bulk(Vec<u8>),
    /// With its format, as `txt:`.
    Verbatim(Vec<u8>),
    NilBulk,
    NilArray,
    /// Beginning with this mark; of a map keys and values in turn.
    Many(u8, Vec<Value>),
    /// Some fields of a map.
    Fields(Vec<(String, Value)>),
    NoResp(Vec<u8>),
}

/// Bytes as ASCII: unprintable ones and a blank at the end as `\xNN`, long runs as `{x*99}`.
pub fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut rest = bytes;
    while let Some(first) = rest.first() {
        let run = rest.iter().take_while(|byte| *byte == first).count();
        let shown = match first {
            b' ' if rest.len() == 1 => "\\x20".to_owned(),
            b'"' | b'\'' => char::from(*first).to_string(),
            other => other.escape_ascii().to_string(),
        };
        if run > RUN_MAX {
            text.push_str(&format!("{{{shown}*{run}}}"));
            rest = &rest[run..];
        } else {
            text.push_str(&shown);
            rest = &rest[1..];
        }
    }
    text
}

/// The replies that these bytes are. RESP3 has one nil.
pub fn parse(mut bytes: &[u8], resp3: bool) -> Vec<Value> {
    let mut values = Vec::new();
    while !bytes.is_empty() {
        let value = value(&mut bytes, resp3)
            .unwrap_or_else(|| Value::NoResp(std::mem::take(&mut bytes).to_vec()));
        values.push(value);
    }
    values
}

fn value(rest: &mut &[u8], resp3: bool) -> Option<Value> {
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let (header, mut after) = (&rest[..end], &rest[end + 2..]);
    let (mark, text) = header.split_first()?;
    let length = || std::str::from_utf8(text).ok()?.parse::<i64>().ok();
    let value = match mark {
        b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => Value::Line(*mark, text.to_vec()),
        b'$' | b'*' if resp3 && length()? == -1 => Value::Line(*mark, text.to_vec()),
        b'$' if length()? == -1 => Value::NilBulk,
        b'*' if length()? == -1 => Value::NilArray,
        b'$' | b'=' => {
            let length = usize::try_from(length()?).ok()?;
            let body = after.get(..length).filter(|_| after[length..].starts_with(b"\r\n"))?;
            let body = without_machine(body);
            after = &after[length + 2..];
            if *mark == b'$' { Value::Bulk(body) } else { Value::Verbatim(body) }
        }
        b'*' | b'%' | b'~' | b'>' => {
            let count = length()? * if *mark == b'%' { 2 } else { 1 };
            let values =
                (0..count).map(|_| self::value(&mut after, resp3)).collect::<Option<_>>()?;
            Value::Many(*mark, values)
        }
        _ => return None,
    };
    *rest = after;
    Some(value)
}

fn without_machine(body: &[u8]) -> Vec<u8> {
    let hide = |line: &[u8]| match line.iter().position(|byte| *byte == b':') {
        Some(at) if MACHINE_FIELDS.iter().any(|name| name.as_bytes() == &line[..at]) => {
            [&line[..at], b":<any>\r\n"].concat()
        }
        _ => line.to_vec(),
    };
    body.split_inclusive(|byte| *byte == b'\n').flat_map(hide).collect()
}

impl Value {
    /// What this reply is to a client that speaks RESP2, if it is the same as far as RESP2 can say it.
    pub fn in_resp2(&self) -> Value {
        let all = |values: &[Value]| values.iter().map(Value::in_resp2).collect();
        match self {
            Value::Line(b'_', _) => Value::NilBulk,
            Value::Line(b',' | b'(', number) => Value::Bulk(number.clone()),
            Value::Line(b'#', is) => Value::Line(b':', if is == b"t" { b"1" } else { b"0" }.into()),
            Value::Verbatim(text) => Value::Bulk(text[4..].to_vec()),
            Value::Many(_, values) => Value::Many(b'*', all(values)),
            Value::Fields(fields) => {
                let field = |(name, value): &(String, Value)| (name.clone(), value.in_resp2());
                Value::Fields(fields.iter().map(field).collect())
            }
            same => same.clone(),
        }
    }

    /// The texts of all errors in it.
    pub fn errors(&self) -> Vec<String> {
        match self {
            Value::Line(b'-', text) => vec![escaped(text)],
            Value::Many(_, values) => values.iter().flat_map(Value::errors).collect(),
            _ => Vec::new(),
        }
    }

    /// Only the named fields: of maps, of arrays that are maps, of all elements of other arrays, and of text with
    /// lines `name:value` or words `name=value`.
    pub fn only(&self, names: &[String]) -> Value {
        let is_map = |mark: u8, values: &[Value]| {
            let named = |key: &Value| matches!(key, Value::Bulk(key) if has(names, key));
            mark == b'%' || values.len().is_multiple_of(2) && values.iter().step_by(2).any(named)
        };
        match self {
            Value::Many(mark, values) if is_map(*mark, values) => {
                let field = |name: &String| {
                    let is = |pair: &&[Value]| matches!(&pair[0], Value::Bulk(key) if key == name.as_bytes());
                    let pair = values.chunks(2).find(is)?;
                    Some((name.clone(), pair[1].clone()))
                };
                Value::Fields(names.iter().filter_map(field).collect())
            }
            Value::Many(mark, values) => {
                Value::Many(*mark, values.iter().map(|value| value.only(names)).collect())
            }
            Value::Bulk(text) => Value::Bulk(only_text(text, names)),
            Value::Verbatim(text) => {
                Value::Verbatim([&text[..4], &only_text(&text[4..], names)].concat())
            }
            other => other.clone(),
        }
    }

    /// A string that is drawn: only its length.
    pub fn length_only(&self) -> Value {
        match self {
            Value::Bulk(text) => Value::Bulk(format!("<{} bytes>", text.len()).into_bytes()),
            other => other.clone(),
        }
    }

    /// As redis-cli prints it.
    pub fn lines(&self) -> Vec<String> {
        match self {
            Value::Line(mark, text) => vec![match mark {
                b'+' => escaped(text),
                b'-' => format!("(error) {}", escaped(text)),
                b':' => format!("(integer) {}", escaped(text)),
                b',' => format!("(double) {}", escaped(text)),
                b'_' => "(nil)".to_owned(),
                b'#' if text == b"t" => "(true)".to_owned(),
                b'#' => "(false)".to_owned(),
                mark => format!("{}{}", char::from(*mark), escaped(text)),
            }],
            Value::Bulk(text) => text_lines("", text),
            Value::Verbatim(text) => text_lines("txt:", &text[4..]),
            Value::NilBulk => vec!["(nil)".to_owned()],
            Value::NilArray => vec!["(nil array)".to_owned()],
            Value::Many(mark, values) => many_lines(*mark, values),
            Value::Fields(fields) => {
                let field =
                    |(name, value): &(String, Value)| labelled(&format!("{name} => "), value);
                filled(fields.iter().map(field).collect(), &vec![false; fields.len()])
            }
            Value::NoResp(rest) => vec![format!("no RESP: {}", escaped(rest))],
        }
    }

    /// As it is on the wire, a line for each of RESP's.
    pub fn wire(&self) -> Vec<String> {
        match self {
            Value::Line(mark, text) => vec![format!("{}{}", char::from(*mark), escaped(text))],
            Value::Bulk(text) => wire_text('$', text),
            Value::Verbatim(text) => wire_text('=', text),
            Value::NilBulk => vec!["$-1".to_owned()],
            Value::NilArray => vec!["*-1".to_owned()],
            Value::Many(mark, values) => {
                let count = values.len() / if *mark == b'%' { 2 } else { 1 };
                let inside = values.iter().flat_map(Value::wire).map(|line| format!("  {line}"));
                [format!("{}{count}", char::from(*mark))].into_iter().chain(inside).collect()
            }
            other => other.lines(),
        }
    }
}

fn has(names: &[String], key: &[u8]) -> bool {
    names.iter().any(|name| name.as_bytes() == key)
}

fn only_text(text: &[u8], names: &[String]) -> Vec<u8> {
    let mut found = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let words = line.split(|byte| *byte == b' ').map(|word| (word, b'='));
        let mut fields = Vec::new();
        for (field, sign) in [(line, b':')].into_iter().chain(words) {
            let at = field.iter().position(|byte| *byte == sign);
            if at.is_some_and(|at| has(names, &field[..at])) {
                fields.push(field);
            }
        }
        if !fields.is_empty() {
            found.push(fields.join(&b' '));
        }
    }
    // Those with a line of their own share one; of CLIENT LIST each client keeps its line.
    let separator = if text.starts_with(b"#") { b' ' } else { b'\n' };
    found.join(&separator)
}

/// Text of several lines is shown as such.
fn text_lines(mark: &str, text: &[u8]) -> Vec<String> {
    let parts: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    if parts.len() < 3 {
        return vec![format!("{mark}\"{}\"", escaped(text))];
    }
    let shown = |part: &&[u8]| escaped(part.strip_suffix(b"\r\n").unwrap_or(part));
    let mut lines: Vec<String> = parts.iter().map(shown).collect();
    lines[0].insert_str(0, mark);
    lines
}

fn many_lines(mark: u8, values: &[Value]) -> Vec<String> {
    let (sign, name) = match mark {
        b'*' => (')', "array"),
        b'%' => ('#', "hash"),
        b'~' => ('~', "set"),
        _ => ('>', "push"),
    };
    if values.is_empty() {
        return vec![format!("(empty {name})")];
    }
    let each = if mark == b'%' { 2 } else { 1 };
    let numbered = |(at, element): (usize, &[Value])| {
        let key = match element {
            [key, _] => format!("{} => ", key.lines().join(" ")),
            _ => String::new(),
        };
        labelled(&format!("{}{sign} {key}", at + 1), &element[each - 1])
    };
    let nests = |value: &Value| matches!(value, Value::Many(_, values) if !values.is_empty());
    let nested: Vec<bool> = values.chunks(each).map(|element| element.iter().any(nests)).collect();
    let parts: Vec<Vec<String>> = values.chunks(each).enumerate().map(numbered).collect();
    // HELP is easier to read line by line.
    let is_status = |value: &Value| matches!(value, Value::Line(b'+', _));
    let is_help = mark == b'*' && values.len() > 4 && values.iter().all(is_status);
    if is_help { parts.concat() } else { filled(parts, &nested) }
}

/// A label and a value beside it, the value's further lines below its first.
fn labelled(label: &str, value: &Value) -> Vec<String> {
    let mut lines = value.lines();
    let indent = " ".repeat(label.chars().count().min(8));
    lines.iter_mut().skip(1).for_each(|line| line.insert_str(0, &indent));
    lines[0].insert_str(0, label);
    lines
}

/// Parts of one line share lines, as far as they fit and hold no others.
fn filled(parts: Vec<Vec<String>>, nested: &[bool]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut open = false;
    for (part, nested) in parts.into_iter().zip(nested) {
        let alone = *nested || part.len() > 1;
        match lines.last_mut() {
            Some(last) if open && !alone && last.len() + 2 + part[0].len() <= WIDTH => {
                last.push_str("  ");
                last.push_str(&part[0]);
            }
            _ => lines.extend(part),
        }
        open = !alone;
    }
    lines
}

fn wire_text(mark: char, text: &[u8]) -> Vec<String> {
    let parts: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    if parts.len() < 3 {
        return vec![format!("{mark}{} {}", text.len(), escaped(text)).trim_end().to_owned()];
    }
    let inside = parts.iter().map(|part| format!("  | {}", escaped(part)));
    [format!("{mark}{}", text.len())].into_iter().chain(inside).collect()
}

/// Equal lines in a row are counted.
pub fn folded(lines: &[String]) -> Vec<String> {
    let mut folded = Vec::new();
    for group in lines.chunk_by(|a, b| a == b) {
        if group.len() > LINES_MAX {
            folded.push(format!("{}   ({} times)", group[0], group.len()));
        } else {
            folded.extend_from_slice(group);
        }
    }
    folded
}
