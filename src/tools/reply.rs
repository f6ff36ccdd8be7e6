//! Replies of a server, RESP2 and RESP3: read from a connection, and printed as redis-cli prints them.
//!
//! The console has another reader, for RESP3 in pieces. No library: `redis-protocol` starts again from the first byte with
//! each piece, and has no set of maps, as in COMMAND's reply.

use std::io::{self, BufRead, Read};

/// Replies within replies; COMMAND has seven.
const DEPTH_MAX: u32 = 32;
/// A status or an error has some KiB at most.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// A reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// A line after this mark: `+` a status, `-` an error, `:` `,` `(` a number, `#` a boolean, `_` RESP3's nil.
    Line(u8, Vec<u8>),
    /// A bulk string.
    Text(Vec<u8>),
    /// A text with its format in front, as `txt:`.
    Verbatim(Vec<u8>),
    /// RESP2's nil in place of text.
    Nil,
    /// RESP2's nil in place of an array.
    NilArray,
    /// Replies after this mark: `*` an array, `~` a set, `>` a message, `%` a map, with alternating keys and values.
    Many(u8, Vec<Reply>),
}

impl Reply {
    /// Reads one. Memory is allocated for received data, not for announced sizes.
    ///
    /// # Errors
    /// The connection has ended, or the answer is not a reply.
    pub fn read(from: &mut impl BufRead) -> io::Result<Reply> {
        read(from, DEPTH_MAX)
    }

    /// The value after this name in a map, or in an array that is one.
    pub fn field(&self, name: &str) -> &Reply {
        let found = self.items().chunks(2).find(|pair| pair[0] == Reply::Text(name.into()));
        found.and_then(|pair| pair.get(1)).unwrap_or(&Reply::Nil)
    }

    /// Its items; empty unless it is an array.
    pub fn items(&self) -> &[Reply] {
        match self {
            Reply::Many(_, items) => items,
            _ => &[],
        }
    }

    /// A number that is not negative.
    pub fn number(&self) -> Option<u64> {
        match self {
            Reply::Line(b':', digits) => std::str::from_utf8(digits).ok()?.parse().ok(),
            _ => None,
        }
    }

    /// Text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Reply::Text(bytes) | Reply::Line(b'+', bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Why the server refuses, if it does.
    pub fn error(&self) -> Option<String> {
        match self {
            Reply::Line(b'-', text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        }
    }

    /// As redis-cli prints it on a terminal.
    pub fn lines(&self) -> Vec<String> {
        self.lines_in(&RedisCli)
    }

    /// In another style for a terminal.
    pub fn lines_in(&self, style: &impl Style) -> Vec<String> {
        match self {
            Reply::Line(mark, text) => vec![style.line(*mark, text)],
            Reply::Text(text) => style.text(text),
            Reply::Verbatim(text) => style.verbatim(text),
            Reply::Nil => vec!["(nil)".to_owned()],
            Reply::NilArray => vec![style.nil_array()],
            Reply::Many(mark, items) => style.many(*mark, items),
        }
    }

    /// As redis-cli prints it without a terminal: only the content, one item per line.
    pub fn raw(&self) -> Vec<u8> {
        match self {
            Reply::Line(b'_', _) | Reply::Nil | Reply::NilArray => Vec::new(),
            Reply::Line(_, text) | Reply::Text(text) => text.clone(),
            Reply::Verbatim(text) => text.get(4..).unwrap_or_default().to_vec(),
            Reply::Many(_, items) => items.iter().map(Reply::raw).collect::<Vec<_>>().join(&b'\n'),
        }
    }
}

fn read(from: &mut impl BufRead, depth: u32) -> io::Result<Reply> {
    let mut line = Vec::new();
    from.take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(ended());
    }
    let line = line.strip_suffix(b"\r\n").ok_or_else(broken)?;
    let (mark, rest) = line.split_first().ok_or_else(broken)?;
    let number = || {
        let digits = std::str::from_utf8(rest).ok();
        digits.and_then(|digits| digits.parse::<i64>().ok()).ok_or_else(broken)
    };
    let count = || match number()? {
        -1 => Ok(None),
        count => u32::try_from(count).map(Some).map_err(|_| broken()),
    };
    Ok(match mark {
        b':' => number().map(|_| Reply::Line(b':', rest.to_vec()))?,
        b'+' | b'-' | b'_' | b',' | b'#' | b'(' => Reply::Line(*mark, rest.to_vec()),
        b'$' | b'=' => match count()? {
            None => Reply::Nil,
            Some(length) => {
                let text = bulk(from, length.into())?;
                if *mark == b'$' { Reply::Text(text) } else { Reply::Verbatim(text) }
            }
        },
        b'*' | b'~' | b'>' | b'%' => match count()? {
            None => Reply::NilArray,
            Some(_) if depth == 0 => return Err(broken()),
            Some(count) => {
                let count = u64::from(count) * if *mark == b'%' { 2 } else { 1 };
                let items = (0..count).map(|_| read(from, depth - 1));
                Reply::Many(*mark, items.collect::<io::Result<_>>()?)
            }
        },
        _ => return Err(broken()),
    })
}

fn bulk(from: &mut impl BufRead, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(length + 2).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < length + 2 {
        return Err(ended());
    }
    if !bytes.ends_with(b"\r\n") {
        return Err(broken());
    }
    bytes.truncate(length as usize);
    Ok(bytes)
}

fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the answer is not a reply of the Redis protocol")
}

/// How replies are printed for people: redis-cli's way, except where an implementation differs.
pub trait Style: Sized {
    /// Text without quotes and without control characters.
    fn printable(&self, text: &[u8]) -> String {
        printable(text)
    }

    /// A status, an error, a number, a boolean, a nil.
    fn line(&self, mark: u8, text: &[u8]) -> String {
        line(self, mark, text)
    }

    /// A bulk string.
    fn text(&self, text: &[u8]) -> Vec<String> {
        vec![quoted(text)]
    }

    /// A text with its format in front.
    fn verbatim(&self, text: &[u8]) -> Vec<String> {
        plain_lines(text.get(4..).unwrap_or_default())
    }

    /// RESP2's nil of arrays.
    fn nil_array(&self) -> String {
        "(nil)".to_owned()
    }

    /// Replies after a mark.
    fn many(&self, mark: u8, items: &[Reply]) -> Vec<String> {
        numbered(self, mark, items).concat()
    }

    /// The label before an item: its number of this count.
    fn label(&self, number: usize, count: usize, sign: char) -> String {
        let width = count.to_string().len();
        format!("{number:>width$}{sign} ")
    }

    /// The indent of an item's further lines.
    fn margin(&self, label: &str, _key: &str) -> usize {
        label.len()
    }
}

/// redis-cli's style.
struct RedisCli;

impl Style for RedisCli {}

/// A line after its mark.
pub fn line(style: &impl Style, mark: u8, text: &[u8]) -> String {
    let text = style.printable(text);
    match mark {
        b'-' => format!("(error) {text}"),
        b':' => format!("(integer) {text}"),
        b',' => format!("(double) {text}"),
        b'_' => "(nil)".to_owned(),
        b'#' if text == "t" => "(true)".to_owned(),
        b'#' => "(false)".to_owned(),
        _ => text,
    }
}

/// The lines of each item, or of each pair of a map; the first one follows its number.
pub fn numbered(style: &impl Style, mark: u8, items: &[Reply]) -> Vec<Vec<String>> {
    let (sign, name, each) = match mark {
        b'%' => ('#', "hash", 2),
        b'~' => ('~', "set", 1),
        b'>' => ('>', "push", 1),
        _ => (')', "array", 1),
    };
    if items.is_empty() {
        return vec![vec![format!("(empty {name})")]];
    }
    let one = |(at, item): (usize, &[Reply])| {
        let key = match item {
            [key, _] if each == 2 => format!("{} => ", key.lines_in(style).join(" ")),
            _ => String::new(),
        };
        let label = style.label(at + 1, items.len() / each, sign);
        labelled(style, &label, &key, &item[item.len() - 1])
    };
    items.chunks(each).enumerate().map(one).collect()
}

/// A label, a key and a value, with its further lines below the first.
pub fn labelled(style: &impl Style, label: &str, key: &str, value: &Reply) -> Vec<String> {
    let mut lines = value.lines_in(style);
    let margin = " ".repeat(style.margin(label, key));
    lines.iter_mut().skip(1).for_each(|line| line.insert_str(0, &margin));
    if let Some(first) = lines.first_mut() {
        first.insert_str(0, &format!("{label}{key}"));
    }
    lines
}

/// Bytes in double quotes, as redis-cli has them and reads them.
fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for byte in bytes {
        match byte {
            b'\\' | b'"' => text.extend(['\\', char::from(*byte)]),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            7 => text.push_str("\\a"),
            8 => text.push_str("\\b"),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text + "\""
}

/// Text of several lines as it is.
pub fn plain_lines(text: &[u8]) -> Vec<String> {
    let lines = text.strip_suffix(b"\n").unwrap_or(text).split(|byte| *byte == b'\n');
    lines.map(|line| printable(line.strip_suffix(b"\r").unwrap_or(line))).collect()
}

fn printable(text: &[u8]) -> String {
    let shown = |c: char| match c.is_control() && c != '\t' {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    String::from_utf8_lossy(text).chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> io::Result<Reply> {
        let mut rest = bytes;
        let reply = Reply::read(&mut rest)?;
        assert!(rest.is_empty(), "{}", rest.escape_ascii());
        Ok(reply)
    }

    fn printed(bytes: &[u8]) -> String {
        of(bytes).unwrap().lines().join("\n")
    }

    #[test]
    fn replies_are_read_and_what_is_none_is_refused() {
        assert_eq!(of(b"+OK\r\n").unwrap().text(), Some("OK"));
        assert_eq!(of(b"-ERR no\r\n").unwrap().error().as_deref(), Some("ERR no"));
        assert_eq!(of(b"$-1\r\n").unwrap(), Reply::Nil);
        assert_eq!(of(b"*-1\r\n").unwrap(), Reply::NilArray);
        let map = of(b"*4\r\n$1\r\na\r\n:7\r\n$1\r\nb\r\n$2\r\n\r\n\r\n").unwrap();
        assert_eq!((map.field("a").number(), map.field("b").text()), (Some(7), Some("\r\n")));
        assert_eq!((map.field("c"), map.field("b").number()), (&Reply::Nil, None));
        let deep = b"*1\r\n".repeat(DEPTH_MAX as usize + 1);
        for wrong in [
            &b""[..],
            b"+OK",
            b"!1\r\n",
            b"$5\r\nab\r\n",
            b"$2\r\nabcd",
            b"$99999999999\r\n",
            // Announced and not sent: nothing is allocated for it.
            b"$4000000000\r\nab",
            b"*4000000000\r\n:1\r\n",
            b":x\r\n",
            b"*-2\r\n",
            &deep,
        ] {
            assert!(of(wrong).is_err(), "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn a_reply_is_printed_as_redis_cli_prints_it() {
        for (bytes, want) in [
            (&b"+OK\r\n"[..], "OK"),
            (b"-ERR no such \x1b[2J thing\r\n", "(error) ERR no such \\u{1b}[2J thing"),
            (b":-7\r\n", "(integer) -7"),
            (b",1.5\r\n", "(double) 1.5"),
            (b"#t\r\n", "(true)"),
            (b"_\r\n", "(nil)"),
            (b"$-1\r\n", "(nil)"),
            (b"*-1\r\n", "(nil)"),
            (b"*0\r\n", "(empty array)"),
            (b"%0\r\n", "(empty hash)"),
            (b"$8\r\na\"\\\n\xc3\xa9\x00'\r\n", r#""a\"\\\n\xc3\xa9\x00'""#),
            (b"=12\r\ntxt:# a\r\nb:1\r\n", "# a\nb:1"),
            (
                b"*2\r\n*2\r\n:1\r\n:2\r\n*1\r\n$1\r\nx\r\n",
                "1) 1) (integer) 1\n   2) (integer) 2\n2) 1) \"x\"",
            ),
            (b"%1\r\n+a\r\n*2\r\n:1\r\n:2\r\n", "1# a => 1) (integer) 1\n   2) (integer) 2"),
        ] {
            assert_eq!(printed(bytes), want, "{}", bytes.escape_ascii());
        }
        let ten = [&b"*10\r\n"[..], &b":5\r\n".repeat(10)].concat();
        assert!(printed(&ten).starts_with(" 1) (integer) 5\n 2)"));
        assert!(printed(&ten).ends_with("\n10) (integer) 5"));
    }

    #[test]
    fn without_a_terminal_a_reply_is_what_is_in_it() {
        for (bytes, want) in [
            (&b"$3\r\n\xff\n\"\r\n"[..], &b"\xff\n\""[..]),
            (b"$-1\r\n", b""),
            (b"-ERR no\r\n", b"ERR no"),
            (b"*3\r\n:1\r\n*2\r\n+a\r\n_\r\n$1\r\nb\r\n", b"1\na\n\nb"),
            (b"=5\r\ntxt:b\r\n", b"b"),
        ] {
            assert_eq!(of(bytes).unwrap().raw(), want, "{}", bytes.escape_ascii());
        }
    }
}
