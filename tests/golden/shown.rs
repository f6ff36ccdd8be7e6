//! Reply bytes as lines for people, and back to nothing but those bytes: two replies that differ are
//! shown differently. A header and its bytes share a line; what is inside an aggregate is indented.
//!
//! ```text
//! *2
//!   $4 mail
//!   :-1
//! ```

/// More equal bytes, or equal lines, than this in a row are counted instead of shown.
const RUN_MAX: usize = 40;
const LINES_MAX: usize = 4;

/// INFO's lines that say something about the machine and not about delayd.
const MACHINE_FIELDS: [&str; 12] = [
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
];

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

/// Replies, one line per RESP line.
pub fn lines(bytes: &[u8]) -> Vec<String> {
    let mut reader = Reader { rest: bytes, lines: Vec::new() };
    while !reader.rest.is_empty() {
        if reader.value(0).is_none() {
            let rest = escaped(reader.rest);
            reader.lines.push(format!("no RESP: {rest}"));
            break;
        }
    }
    folded(reader.lines)
}

fn folded(lines: Vec<String>) -> Vec<String> {
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

struct Reader<'a> {
    rest: &'a [u8],
    lines: Vec<String>,
}

impl<'a> Reader<'a> {
    fn line(&mut self) -> Option<&'a [u8]> {
        let end = self.rest.windows(2).position(|pair| pair == b"\r\n")?;
        let line = &self.rest[..end];
        self.rest = &self.rest[end + 2..];
        Some(line)
    }

    /// One value; nothing, and nothing read, if it is none.
    fn value(&mut self, depth: usize) -> Option<()> {
        let indent = "  ".repeat(depth);
        let whole = self.rest;
        let header = self.line()?;
        let kind = *header.first()?;
        let length = std::str::from_utf8(&header[1..]).ok().and_then(|n| n.parse::<i64>().ok());
        match kind {
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => {
                self.lines.push(format!("{indent}{}", escaped(header)));
            }
            b'$' | b'=' => match length {
                Some(-1) => self.lines.push(format!("{indent}{}", escaped(header))),
                Some(length @ 0..) => {
                    let length = length as usize;
                    if self.rest.get(length..length + 2) != Some(b"\r\n") {
                        self.rest = whole;
                        return None;
                    }
                    let body = &self.rest[..length];
                    self.rest = &self.rest[length + 2..];
                    self.bulk(&indent, kind, body);
                }
                _ => {
                    self.rest = whole;
                    return None;
                }
            },
            b'*' | b'%' | b'~' | b'>' => {
                self.lines.push(format!("{indent}{}", escaped(header)));
                let count = length? * if kind == b'%' { 2 } else { 1 };
                for _ in 0..count.max(0) {
                    self.value(depth + 1)?;
                }
            }
            _ => {
                self.rest = whole;
                return None;
            }
        }
        Some(())
    }

    /// Text of several lines is shown as such.
    fn bulk(&mut self, indent: &str, kind: u8, body: &[u8]) {
        let kind = char::from(kind);
        let parts: Vec<&[u8]> = body.split_inclusive(|byte| *byte == b'\n').collect();
        if parts.len() < 3 {
            let line = format!("{indent}{kind}{} {}", body.len(), escaped(body));
            self.lines.push(line.trim_end().to_owned());
            return;
        }
        let shown: Vec<String> = parts.iter().map(|part| without_machine(&escaped(part))).collect();
        let any = shown.iter().any(|line| line.contains(":<"));
        let length = if any { "<any>".to_owned() } else { body.len().to_string() };
        self.lines.push(format!("{indent}{kind}{length}"));
        self.lines.extend(shown.into_iter().map(|line| format!("{indent}  | {line}")));
    }
}

fn without_machine(line: &str) -> String {
    match line.split_once(':') {
        Some((name, _)) if MACHINE_FIELDS.contains(&name) => format!("{name}:<any>\\r\\n"),
        _ => line.to_owned(),
    }
}
