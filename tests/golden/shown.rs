//! Replies as lines for people, as the program prints them (`delayd call`); what does not fit there is said
//! differently, so that two replies which differ are shown differently.
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

use delayd::tools::reply::{Reply, Style, labelled, line, numbered};

/// More equal bytes, or equal lines, than this in a row are counted instead of shown.
const RUN_MAX: usize = 40;
const LINES_MAX: usize = 4;

/// Elements share a line up to so many characters.
const WIDTH: usize = 124;

/// INFO's lines that say something about the machine and the loop, and nothing that users rely on.
const MACHINE_FIELDS: [&str; 13] = [
    "delayd_version", "os", "arch_bits", "process_id", "executable", "used_memory_rss",
    "used_memory_rss_human", "mem_fragmentation_ratio", "used_cpu_sys", "used_cpu_user",
    "used_cpu_sys_main_thread", "used_cpu_user_main_thread", "turns",
];

/// Marks of what is no reply: some fields of a map, names and values in turn; and bytes that are none.
const FIELDS: u8 = b'=';
const NO_RESP: u8 = b'?';

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
pub fn parse(mut bytes: &[u8], resp3: bool) -> Vec<Reply> {
    let mut replies = Vec::new();
    while !bytes.is_empty() {
        let begin = bytes;
        replies.push(match Reply::read(&mut bytes) {
            Ok(reply) => adjusted(reply, resp3),
            Err(_) => {
                bytes = &[];
                Reply::Line(NO_RESP, begin.to_vec())
            }
        });
    }
    replies
}

/// Without what differs from machine to machine; nils of RESP2 stand out in RESP3.
fn adjusted(reply: Reply, resp3: bool) -> Reply {
    match reply {
        Reply::Nil if resp3 => Reply::Line(b'$', b"-1".into()),
        Reply::NilArray if resp3 => Reply::Line(b'*', b"-1".into()),
        Reply::Text(text) => Reply::Text(without_machine(&text)),
        Reply::Verbatim(text) => Reply::Verbatim(without_machine(&text)),
        Reply::Many(mark, items) => {
            Reply::Many(mark, items.into_iter().map(|item| adjusted(item, resp3)).collect())
        }
        other => other,
    }
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

/// What this reply is to a client that speaks RESP2, if it is the same as far as RESP2 can say it.
pub fn in_resp2(reply: &Reply) -> Reply {
    match reply {
        Reply::Line(b'_', _) => Reply::Nil,
        Reply::Line(b',' | b'(', number) => Reply::Text(number.clone()),
        Reply::Line(b'#', is) => Reply::Line(b':', if is == b"t" { b"1" } else { b"0" }.into()),
        Reply::Verbatim(text) => Reply::Text(text[4..].to_vec()),
        Reply::Many(mark, items) => {
            let mark = if *mark == FIELDS { FIELDS } else { b'*' };
            Reply::Many(mark, items.iter().map(in_resp2).collect())
        }
        same => same.clone(),
    }
}

/// The texts of all errors in it.
pub fn errors(reply: &Reply) -> Vec<String> {
    match reply {
        Reply::Line(b'-', text) => vec![escaped(text)],
        other => other.items().iter().flat_map(errors).collect(),
    }
}

/// Only the named fields: of maps, of arrays that are maps, of all elements of other arrays, and of text with
/// lines `name:value` or words `name=value`.
pub fn only(reply: &Reply, names: &[String]) -> Reply {
    let is_map = |mark: u8, items: &[Reply]| {
        let named = |key: &Reply| matches!(key, Reply::Text(key) if has(names, key));
        mark == b'%' || items.len().is_multiple_of(2) && items.iter().step_by(2).any(named)
    };
    match reply {
        Reply::Many(mark, items) if is_map(*mark, items) => {
            let field = |name: &String| {
                let key = Reply::Text(name.as_bytes().into());
                items.chunks(2).find(|pair| pair[0] == key)
            };
            Reply::Many(FIELDS, names.iter().filter_map(field).flatten().cloned().collect())
        }
        Reply::Many(mark, items) => {
            Reply::Many(*mark, items.iter().map(|item| only(item, names)).collect())
        }
        Reply::Text(text) => Reply::Text(only_text(text, names)),
        Reply::Verbatim(text) => {
            Reply::Verbatim([&text[..4], &only_text(&text[4..], names)].concat())
        }
        other => other.clone(),
    }
}

/// A string that is drawn: only its length.
pub fn length_only(reply: &Reply) -> Reply {
    match reply {
        Reply::Text(text) => Reply::Text(format!("<{} bytes>", text.len()).into_bytes()),
        other => other.clone(),
    }
}

/// As the program prints it, in fewer lines.
pub fn lines(reply: &Reply) -> Vec<String> {
    reply.lines_in(&Transcript)
}

/// As it is on the wire, a line for each of RESP's.
pub fn wire(reply: &Reply) -> Vec<String> {
    match reply {
        Reply::Line(NO_RESP, _) => lines(reply),
        Reply::Line(mark, text) => vec![format!("{}{}", char::from(*mark), escaped(text))],
        Reply::Text(text) => wire_text('$', text),
        Reply::Verbatim(text) => wire_text('=', text),
        Reply::Nil => vec!["$-1".to_owned()],
        Reply::NilArray => vec!["*-1".to_owned()],
        Reply::Many(mark, items) => {
            let count = items.len() / if *mark == b'%' { 2 } else { 1 };
            let inside = items.iter().flat_map(wire).map(|line| format!("  {line}"));
            [format!("{}{count}", char::from(*mark))].into_iter().chain(inside).collect()
        }
    }
}

/// What transcripts say otherwise than a terminal.
struct Transcript;

impl Style for Transcript {
    fn printable(&self, text: &[u8]) -> String {
        escaped(text)
    }

    fn line(&self, mark: u8, text: &[u8]) -> String {
        match mark {
            NO_RESP => format!("no RESP: {}", escaped(text)),
            b'$' | b'*' | b'(' => format!("{}{}", char::from(mark), escaped(text)),
            mark => line(self, mark, text),
        }
    }

    fn text(&self, text: &[u8]) -> Vec<String> {
        text_lines("", text)
    }

    fn verbatim(&self, text: &[u8]) -> Vec<String> {
        text_lines("txt:", &text[4..])
    }

    fn nil_array(&self) -> String {
        "(nil array)".to_owned()
    }

    fn many(&self, mark: u8, items: &[Reply]) -> Vec<String> {
        if mark == FIELDS {
            let field = |pair: &[Reply]| {
                let Reply::Text(name) = &pair[0] else { panic!("a name: {pair:?}") };
                let label = format!("{} => ", String::from_utf8_lossy(name));
                labelled(self, &label, "", &pair[1])
            };
            let parts: Vec<Vec<String>> = items.chunks(2).map(field).collect();
            let nested = vec![false; parts.len()];
            return filled(parts, &nested);
        }
        let parts = numbered(self, mark, items);
        // HELP is easier to read line by line.
        let is_status = |item: &Reply| matches!(item, Reply::Line(b'+', _));
        if items.is_empty() || mark == b'*' && items.len() > 4 && items.iter().all(is_status) {
            return parts.concat();
        }
        let each = if mark == b'%' { 2 } else { 1 };
        let nests = |item: &Reply| matches!(item, Reply::Many(mark, items) if *mark != FIELDS && !items.is_empty());
        let nested: Vec<bool> =
            items.chunks(each).map(|element| element.iter().any(nests)).collect();
        filled(parts, &nested)
    }

    fn label(&self, number: usize, _count: usize, sign: char) -> String {
        format!("{number}{sign} ")
    }

    fn margin(&self, label: &str, key: &str) -> usize {
        (label.chars().count() + key.chars().count()).min(8)
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
